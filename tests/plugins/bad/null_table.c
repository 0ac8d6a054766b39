/* A table of null pointers. */
__attribute__((visibility("default"))) void *ncclNetPlugin_v7[19];
