/* A function symbol in place of a table, with a newer version than the valid table. */
#include "../strict.c"
__attribute__((visibility("default"))) int ncclNetPlugin_v9(void) { return 0; }
