/* A table that is exported as version 11 and has the length of version 7. */
#include "../strict.c"
__attribute__((visibility("default"))) void *ncclNetPlugin_v11[19] = {"Lies_v11"};
