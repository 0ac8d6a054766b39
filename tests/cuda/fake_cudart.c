/* A CUDA runtime whose cudaSetDevice appends the GPU's number to FAKE_CUDART_LOG and
 * returns FAKE_CUDART_CODE. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) int cudaSetDevice(int ordinal) {
    const char *path = getenv("FAKE_CUDART_LOG"), *code = getenv("FAKE_CUDART_CODE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%d\n", ordinal);
        fclose(file);
    }
    return code ? atoi(code) : 0;
}
