/*
 * Two NCCL ranks that reduce one buffer and exchange others, and compare every byte.
 * The program has no code for plugins; NCCL finds the plugin by its own rules.
 *
 *   nccl_pair [BYTES [ROUNDS]]
 *
 * Both ranks are processes on this machine, rank R on GPU R modulo the number of
 * GPUs, and only the network connects them:
 *
 *   from NCCL 2.30   one host with a shared GPU (NCCL_MULTI_RANK_GPU_ENABLE) without
 *                    P2P and SHM, and rank 1 isolated as in a container: see `own_shm`
 *   older NCCL, or   each rank acts as a separate host (NCCL_HOSTID), so that the ranks
 *   if refused       can share a GPU in any NCCL; NCCL_PAIR=hosts selects this mode
 *
 * An exchange is one group of sends and receives, several each way, with sizes that
 * differ by direction and buffers that are adjacent in memory. NCCL posts each receive
 * with the sender's rank as its tag. It groups receives into one irecv only if they come
 * from different ranks through one proxy, which two ranks do not have.
 *
 * NCCL_LIBRARY is the path of libnccl.so.2; of CUDA, only the driver is used. Prints the
 * version and the completed steps. Exit code: 0; 3 without NCCL or a GPU, 4 when a call
 * failed, 5 for wrong sums or bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MISSING = 3, CALL_FAILED = 4, WRONG = 5, RANKS = 2, BYTE = 1, FLOAT = 7, SUM = 0, SHARES_A_GPU = 23000 };

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

/* Prints the rank, the call, its code, and the library's error message. */
static void failed(int rank, void *library, const char *name, int code)
{
    const char *(*text)(int) = library == nccl ? dlsym(nccl, "ncclGetErrorString") : NULL;
    const char *(*last)(void *) = library == nccl ? dlsym(nccl, "ncclGetLastError") : NULL;
    int (*cuda_name)(int, const char **) = library == cuda ? dlsym(cuda, "cuGetErrorName") : NULL;
    const char *said = text != NULL ? text(code) : NULL, *why = last != NULL ? last(NULL) : NULL;
    if (cuda_name != NULL)
        cuda_name(code, &said);
    printf("rank %d: %s is %d (%s)%s%s\n", rank, name, code, said != NULL ? said : "not in the library's list",
           why != NULL && *why != '\0' ? ": " : "", why != NULL ? why : "");
    exit(CALL_FAILED);
}

/* Makes a call by name. */
#define CALL(library, name, ...)                                                                             \
    do {                                                                                                     \
        int code_ = ((int (*)())need(library, #name))(__VA_ARGS__);                                          \
        if (code_ != 0)                                                                                      \
            failed(rank, library, #name, code_);                                                             \
    } while (0)

/*
 * Mounts a private /dev/shm for this process, as in a separate container. For NCCL, ranks
 * on one GPU have distance 0, and NCCL_P2P_DISABLE=1 forbids P2P only for larger distances
 * (2.30.7 and 2.32.3, ncclTopoCheckP2p), so NCCL would use P2P instead of the network. It
 * uses P2P only between ranks with the same /dev/shm.
 */
static int own_shm(void)
{
    uid_t user = getuid();
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            return 0;
        /* The user id is the same inside, so that recorder files keep their owner. */
        int map = open("/proc/self/uid_map", O_WRONLY);
        if (map < 0 || dprintf(map, "%u %u 1", user, user) < 0 || close(map) != 0)
            return 0;
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL) == 0;
}

/* Leaves only the network between the ranks. */
static void keep_apart(int rank, int one_host)
{
    if (!one_host) {
        setenv("NCCL_HOSTID", rank == 0 ? "rank-0" : "rank-1", 1);
        return;
    }
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    setenv("NCCL_P2P_DISABLE", "1", 1);
    setenv("NCCL_SHM_DISABLE", "1", 1);
}

static void use_gpu(int rank)
{
    int count = 0, device = 0;
    void *context = NULL;
    CALL(cuda, cuInit, 0);
    CALL(cuda, cuDeviceGetCount, &count);
    if (count == 0) {
        puts("no GPU");
        exit(MISSING);
    }
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
    size_t bytes = count * sizeof(float);
    float *host = malloc(bytes);
    CALL(cuda, cuMemAlloc_v2, &from, bytes);
    CALL(cuda, cuMemAlloc_v2, &into, bytes);
    CALL(cuda, cuStreamCreate, &stream, 0);
    for (int round = 0; round < rounds; round++) {
        for (size_t at = 0; at < count; at++)
            host[at] = (float)((at + (size_t)round) % 1000 + (size_t)rank);
        CALL(cuda, cuMemcpyHtoD_v2, from, host, bytes);
        double started = now();
        CALL(nccl, ncclAllReduce, from, into, count, FLOAT, SUM, comm, stream);
        CALL(cuda, cuStreamSynchronize, stream);
        /* The first round connects. */
        if (round > 0)
            inside += now() - started;
        CALL(cuda, cuMemcpyDtoH_v2, host, into, bytes);
        for (size_t at = 0; at < count; at++) {
            float sum = (float)(2 * ((at + (size_t)round) % 1000) + 1);
            if (host[at] != sum) {
                printf("rank %d: round %d, element %zu is %g and not %g\n", rank, round, at, host[at], sum);
                exit(WRONG);
            }
        }
    }
    free(host);
    if (rank == 0 && rounds > 1)
        printf("%.3f GB/s of %zu bytes, %d rounds\n", (double)bytes * (rounds - 1) / inside / 1e9, bytes, rounds - 1);
}

/* Sizes from one byte to several of NCCL's chunks, mostly unaligned. */
static const size_t sizes[] = {1, 4099, 70001, 131072, 1048583, 3145739};
enum { BUFFERS = sizeof sizes / sizeof *sizes };

/* Rank 1 sends them in reverse order, so the two directions of a buffer differ in size. */
static size_t size_of(int sender, int buffer)
{
    return sizes[sender == 0 ? buffer : BUFFERS - 1 - buffer];
}

static unsigned char byte_of(int sender, int round, int buffer, size_t at)
{
    return (unsigned char)(at % 251 + (size_t)(101 * sender + 13 * round + 37 * buffer));
}

static void exchange(int rank, void *comm, int rounds)
{
    uint64_t from = 0, into = 0;
    void *stream = NULL;
    size_t bytes = 0, sent = 0, got = 0;
    int peer = 1 - rank;
    for (int buffer = 0; buffer < BUFFERS; buffer++)
        bytes += sizes[buffer];
    unsigned char *host = malloc(bytes);
    CALL(cuda, cuMemAlloc_v2, &from, bytes);
    CALL(cuda, cuMemAlloc_v2, &into, bytes);
    CALL(cuda, cuStreamCreate, &stream, 0);
    for (int round = 0; round < rounds; round++, sent = got = 0) {
        for (int buffer = 0; buffer < BUFFERS; sent += size_of(rank, buffer++))
            for (size_t at = 0; at < size_of(rank, buffer); at++)
                host[sent + at] = byte_of(rank, round, buffer, at);
        CALL(cuda, cuMemcpyHtoD_v2, from, host, bytes);
        sent = 0;
        CALL(nccl, ncclGroupStart);
        for (int buffer = 0; buffer < BUFFERS; buffer++) {
            CALL(nccl, ncclSend, from + sent, size_of(rank, buffer), BYTE, peer, comm, stream);
            CALL(nccl, ncclRecv, into + got, size_of(peer, buffer), BYTE, peer, comm, stream);
            sent += size_of(rank, buffer);
            got += size_of(peer, buffer);
        }
        CALL(nccl, ncclGroupEnd);
        CALL(cuda, cuStreamSynchronize, stream);
        CALL(cuda, cuMemcpyDtoH_v2, host, into, bytes);
        got = 0;
        for (int buffer = 0; buffer < BUFFERS; got += size_of(peer, buffer++))
            for (size_t at = 0; at < size_of(peer, buffer); at++)
                if (host[got + at] != byte_of(peer, round, buffer, at)) {
                    printf("rank %d: exchange %d, buffer %d of %zu bytes, byte %zu is %d and not %d\n", rank, round,
                           buffer, size_of(peer, buffer), at, host[got + at], byte_of(peer, round, buffer, at));
                    exit(WRONG);
                }
    }
    free(host);
}

static pid_t other;

/* If rank 1 fails, rank 0 would wait for it inside CUDA forever. */
static void other_ended(int signal)
{
    siginfo_t end = {0};
    (void)signal;
    if (waitid(P_PID, (id_t)other, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == other &&
        end.si_status != 0)
        _exit(end.si_code == CLD_EXITED ? end.si_status : CALL_FAILED);
}

int main(int argc, char **argv)
{
    size_t count = (argc > 1 ? strtoull(argv[1], NULL, 0) : 4 << 20) / sizeof(float);
    int rounds = argc > 2 ? atoi(argv[2]) : 10, rank = 0, one_host = 0, ends[2], version = 0, status = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *library = getenv("NCCL_LIBRARY"), *wish = getenv("NCCL_PAIR");
    nccl = dlopen(library != NULL ? library : "libnccl.so.2", RTLD_NOW);
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    CALL(nccl, ncclGetVersion, &version);
    printf("nccl %d\n", version);
    /* Before either process has touched CUDA or has threads. */
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return CALL_FAILED;
    signal(SIGCHLD, other_ended);
    other = fork();
    rank = other == 0;
    close(ends[1 - rank]);
    struct id id;
    void *comm = NULL;
    if (rank == 1) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        one_host = version >= SHARES_A_GPU && (wish == NULL || strcmp(wish, "hosts") != 0) && own_shm();
        keep_apart(rank, one_host);
        if (write(ends[1], &one_host, sizeof one_host) != (ssize_t)sizeof one_host ||
            read(ends[1], &id, sizeof id) != (ssize_t)sizeof id)
            return CALL_FAILED;
    } else {
        if (other < 0 || read(ends[0], &one_host, sizeof one_host) != (ssize_t)sizeof one_host)
            return CALL_FAILED;
        keep_apart(rank, one_host);
        puts(one_host ? "one host: NCCL_MULTI_RANK_GPU_ENABLE=1, P2P and SHM disabled" : "two hosts: NCCL_HOSTID");
        CALL(nccl, ncclGetUniqueId, &id);
        puts("unique id made");
        if (write(ends[0], &id, sizeof id) != (ssize_t)sizeof id)
            return CALL_FAILED;
    }
    use_gpu(rank);
    CALL(nccl, ncclCommInitRank, &comm, RANKS, id, rank);
    add_up(rank, comm, count, rounds);
    exchange(rank, comm, rounds);
    CALL(nccl, ncclCommDestroy, comm);
    if (rank == 1)
        return 0;
    waitpid(other, &status, 0);
    if (status == 0) {
        printf("%d rounds of %zu bytes: every sum is right\n", rounds, count * sizeof(float));
        printf("%d groups of %d sends and receives: every exchange is right\n", rounds, BUFFERS);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : CALL_FAILED;
}
