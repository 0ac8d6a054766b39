/* A symbol of the wrong kind, newer than the table that works. */
#include "../strict.c"
__attribute__((visibility("default"))) int ncclNetPlugin_v9(void) { return 0; }
