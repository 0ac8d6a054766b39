/*
 * Two ranks of NCCL that add up a buffer, each round compared: what a program does
 * that knows nothing of plugins. NCCL finds the plugin by its own rules.
 *
 *   nccl_pair [BYTES [ROUNDS]]
 *
 * Both ranks are processes on this machine, rank R on GPU R modulo the number of
 * GPUs; each takes itself for a host of its own (NCCL_HOSTID), so that they share a
 * GPU in any NCCL and have nothing between them but the network. NCCL_LIBRARY names
 * libnccl.so.2; CUDA is the driver's alone.
 *
 * Prints the version and how far it came. Exit code: 0; 3 without NCCL or a GPU,
 * 4 when a call failed, 5 for wrong sums.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MISSING = 3, CALL_FAILED = 4, WRONG_SUM = 5, RANKS = 2, FLOAT = 7, SUM = 0 };

struct id { char bytes[128]; };

static void *nccl, *cuda;

static void *need(void *library, const char *name)
{
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) {
        printf("no %s\n", name);
        exit(MISSING);
    }
    return found;
}

/* Makes a call by name and says which one failed. */
#define CALL(library, name, ...)                                                                             \
    do {                                                                                                     \
        int code_ = ((int (*)())need(library, #name))(__VA_ARGS__);                                          \
        if (code_ != 0) {                                                                                    \
            printf("rank %d: %s is %d\n", rank, #name, code_);                                               \
            exit(CALL_FAILED);                                                                               \
        }                                                                                                    \
    } while (0)

static void use_gpu(int rank)
{
    int count = 0, device = 0;
    void *context = NULL;
    CALL(cuda, cuInit, 0);
    CALL(cuda, cuDeviceGetCount, &count);
    if (count == 0)
        exit(MISSING);
    CALL(cuda, cuDeviceGet, &device, rank % count);
    CALL(cuda, cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuda, cuCtxSetCurrent, context);
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void add_up(int rank, void *comm, size_t count, int rounds)
{
    uint64_t from = 0, into = 0;
    double inside = 0;
    void *stream = NULL;
    float *host = malloc(count * sizeof *host);
    CALL(cuda, cuMemAlloc_v2, &from, count * sizeof *host);
    CALL(cuda, cuMemAlloc_v2, &into, count * sizeof *host);
    CALL(cuda, cuStreamCreate, &stream, 0);
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *) = need(nccl, "ncclAllReduce");
    for (int round = 0; round < rounds; round++) {
        for (size_t at = 0; at < count; at++)
            host[at] = (float)((at + (size_t)round) % 1000 + (size_t)rank);
        CALL(cuda, cuMemcpyHtoD_v2, from, host, count * sizeof *host);
        double started = now();
        int code = all_reduce((void *)from, (void *)into, count, FLOAT, SUM, comm, stream);
        if (code != 0) {
            printf("rank %d: ncclAllReduce is %d\n", rank, code);
            exit(CALL_FAILED);
        }
        CALL(cuda, cuStreamSynchronize, stream);
        /* The first round connects. */
        if (round > 0)
            inside += now() - started;
        CALL(cuda, cuMemcpyDtoH_v2, host, into, count * sizeof *host);
        for (size_t at = 0; at < count; at++) {
            float sum = (float)(2 * ((at + (size_t)round) % 1000) + 1);
            if (host[at] != sum) {
                printf("rank %d: round %d, element %zu is %g and not %g\n", rank, round, at, host[at], sum);
                exit(WRONG_SUM);
            }
        }
    }
    free(host);
    if (rank == 0 && rounds > 1)
        printf("%.3f GB/s of %zu bytes, %d rounds\n", (double)count * sizeof *host * (rounds - 1) / inside / 1e9,
               count * sizeof *host, rounds - 1);
}

int main(int argc, char **argv)
{
    size_t count = (argc > 1 ? strtoull(argv[1], NULL, 0) : 4 << 20) / sizeof(float);
    int rounds = argc > 2 ? atoi(argv[2]) : 10, rank = 0, pipes[2], version = 0, status = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *library = getenv("NCCL_LIBRARY");
    nccl = dlopen(library != NULL ? library : "libnccl.so.2", RTLD_NOW);
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    CALL(nccl, ncclGetVersion, &version);
    printf("nccl %d\n", version);
    /* Before either process has touched CUDA. */
    if (pipe(pipes) != 0)
        return CALL_FAILED;
    pid_t child = fork();
    struct id id;
    if (child == 0) {
        rank = 1;
        if (read(pipes[0], &id, sizeof id) != (ssize_t)sizeof id)
            return CALL_FAILED;
    } else {
        CALL(nccl, ncclGetUniqueId, &id);
        puts("unique id made");
        if (write(pipes[1], &id, sizeof id) != (ssize_t)sizeof id)
            return CALL_FAILED;
    }
    setenv("NCCL_HOSTID", rank == 0 ? "rank-0" : "rank-1", 1);
    use_gpu(rank);
    void *comm = NULL;
    int (*init)(void **, int, struct id, int) = need(nccl, "ncclCommInitRank");
    int code = init(&comm, RANKS, id, rank);
    if (code != 0) {
        printf("rank %d: ncclCommInitRank is %d\n", rank, code);
        return CALL_FAILED;
    }
    add_up(rank, comm, count, rounds);
    CALL(nccl, ncclCommDestroy, comm);
    if (rank == 1)
        return 0;
    waitpid(child, &status, 0);
    if (status == 0)
        printf("%d rounds of %zu bytes: every sum is right\n", rounds, count * sizeof(float));
    return WIFEXITED(status) ? WEXITSTATUS(status) : CALL_FAILED;
}
