/* A table that says it is a version 11 and is as long as a version 7. */
#include "../strict.c"
__attribute__((visibility("default"))) void *ncclNetPlugin_v11[19] = {"Lies_v11"};
