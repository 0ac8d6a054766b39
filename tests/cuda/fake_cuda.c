/* A driver library over host memory, for machines without a GPU.
 *
 * The tests build it as libcuda.so.1 and load it through LD_LIBRARY_PATH. Memory is
 * mmap, the kernels are the real ones compiled for the CPU, and work on a stream is
 * delayed until the caller waits for it or has polled an event often enough, so a
 * caller that uses a result too early reads the old bytes. Settings:
 *
 *   FAKE_CUDA_DEVICES=N     number of GPUs (default: 2)
 *   FAKE_CUDA_VERSION=N     result of cuDriverGetVersion (default: 12020)
 *   FAKE_CUDA_MEMORY=BYTES  memory per GPU
 *   FAKE_CUDA_MIG=N         GPU N is a MIG instance
 *   FAKE_CUDA_LAZY=N        polls of an event before it completes (default: 2)
 *   FAKE_CUDA_EAGER=1       work is executed as soon as it is put on a stream
 *   FAKE_CUDA_MISALIGN=1    allocations start 512 bytes after a page boundary
 *   FAKE_CUDA_FAIL=CALL:CODE[:AFTER]  CALL returns CODE, from call AFTER on
 *   FAKE_CUDA_REPORT=FILE   writes the resources that were not released, at exit
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static unsigned emulated_thread, emulated_block_x, emulated_block_y, emulated_threads;
#define THREAD emulated_thread
#define BLOCK_X emulated_block_x
#define BLOCK_Y emulated_block_y
#define BLOCK_THREADS emulated_threads
#include "../../src/engine/gpu/kernels/kernels.cu"

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_INITIALISED = 3, NO_DEVICE = 100, BAD_DEVICE = 101, NO_CONTEXT = 201, NOT_FOUND = 500, NOT_READY = 600 };
enum { ON_HOST = 1, ON_DEVICE = 2 };

struct block { uint64_t start, len; int kind, device; struct block *next; };
struct op { int kind; uint64_t to, from, len; int byte; unsigned value; int function; unsigned x, y, threads; unsigned char arguments[2304]; struct op *next; };
struct stream { struct op *first, **last; uint64_t queued, done; long asked; };
struct event { struct stream *stream; uint64_t at; long asked; };
struct context { int device, retained; };
enum { COPY, SET, WRITE, LAUNCH };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static struct context contexts[64];
static int visible[64], visible_count, initialised;
static long streams, events, modules;
static __thread struct context *current;
static const char *const functions[] = {"unpack", "unpack_few", "fill", "verify"};

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

/* The code that FAKE_CUDA_FAIL sets for this call of `name`, or 0. */
static int fault(const char *name) {
    static long calls;
    const char *text = getenv("FAKE_CUDA_FAIL");
    size_t len = strlen(name);
    if (!text || strncmp(text, name, len) || text[len] != ':') return 0;
    char *end;
    long code = strtol(text + len + 1, &end, 0), after = *end == ':' ? strtol(end + 1, NULL, 0) : 0;
    return __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST) >= after ? (int)code : 0;
}
#define MAY_FAIL do { int code = fault(__func__); if (code) return code; } while (0)
#define NEEDS_CONTEXT do { MAY_FAIL; if (!current) return NO_CONTEXT; } while (0)

static void see_devices(void) {
    long count = setting("FAKE_CUDA_DEVICES", 2);
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    for (long at = 0; !list && at < count; at++) visible[visible_count++] = (int)at;
    while (list && *list) {
        char *end;
        long at = strtol(list, &end, 10);
        if (end == list || at < 0 || at >= count) break;
        visible[visible_count++] = (int)at;
        list = *end == ',' ? end + 1 : end;
    }
}

EXPORT int cuInit(unsigned flags) {
    MAY_FAIL;
    pthread_mutex_lock(&lock);
    if (!initialised) see_devices();
    initialised = 1;
    pthread_mutex_unlock(&lock);
    return flags ? INVALID : visible_count ? OK : NO_DEVICE;
}
EXPORT int cuDriverGetVersion(int *version) { MAY_FAIL; *version = (int)setting("FAKE_CUDA_VERSION", 12020); return OK; }
EXPORT int cuGetErrorName(int code, const char **name) {
    static const struct { int code; const char *name; } names[] = {{1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"},
        {34, "CUDA_ERROR_STUB_LIBRARY"}, {100, "CUDA_ERROR_NO_DEVICE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
        {218, "CUDA_ERROR_INVALID_PTX"}, {600, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {801, "CUDA_ERROR_NOT_SUPPORTED"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (names[at].code == code) { *name = names[at].name; return OK; }
    *name = NULL;
    return INVALID;
}
EXPORT int cuDeviceGetCount(int *count) { MAY_FAIL; if (!initialised) return NOT_INITIALISED; *count = visible_count; return OK; }
EXPORT int cuDeviceGet(int *device, int ordinal) {
    MAY_FAIL;
    if (ordinal < 0 || ordinal >= visible_count) return BAD_DEVICE;
    *device = visible[ordinal];
    return OK;
}
EXPORT int cuDeviceGetName(char *name, int len, int device) {
    MAY_FAIL;
    snprintf(name, (size_t)len, device == setting("FAKE_CUDA_MIG", -1) ? "Fake GPU MIG 1g.10gb" : "Fake GPU");
    return OK;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    MAY_FAIL;
    switch (attribute) {
    case 16: *value = 8; return OK;            /* multiprocessors */
    case 33: *value = 4 + device; return OK;   /* PCI bus */
    case 34: case 50: *value = 0; return OK;   /* PCI device, domain */
    case 75: *value = 9; return OK;            /* compute capability */
    case 76: *value = 0; return OK;
    case 124: *value = 1; return OK;           /* dma-buf */
    default: return INVALID;
    }
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; MAY_FAIL; *bytes = (size_t)setting("FAKE_CUDA_MEMORY", 8l << 30); return OK; }

EXPORT int cuDevicePrimaryCtxRetain(struct context **context, int device) {
    MAY_FAIL;
    pthread_mutex_lock(&lock);
    contexts[device].device = device;
    contexts[device].retained++;
    pthread_mutex_unlock(&lock);
    *context = &contexts[device];
    return OK;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    MAY_FAIL;
    pthread_mutex_lock(&lock);
    int code = contexts[device].retained > 0 ? OK : NO_CONTEXT;
    if (!code) contexts[device].retained--;
    pthread_mutex_unlock(&lock);
    return code;
}
EXPORT int cuCtxSetCurrent(struct context *context) { MAY_FAIL; current = context; return OK; }
EXPORT int cuCtxGetCurrent(struct context **context) { MAY_FAIL; *context = current; return OK; }
EXPORT int cuCtxGetDevice(int *device) { NEEDS_CONTEXT; *device = current->device; return OK; }

static uint64_t held(int device, int kind) {
    uint64_t sum = 0;
    for (struct block *one = blocks; one; one = one->next)
        if (one->kind == kind && (device < 0 || one->device == device)) sum += one->len;
    return sum;
}
static struct block *find(uint64_t at) {
    for (struct block *one = blocks; one; one = one->next)
        if (at >= one->start && at < one->start + one->len) return one;
    return NULL;
}
static int ordinal_of(int device) {
    for (int at = 0; at < visible_count; at++)
        if (visible[at] == device) return at;
    return -1;
}
static int take(uint64_t len, int kind, uint64_t *at) {
    uint64_t skip = kind == ON_DEVICE && setting("FAKE_CUDA_MISALIGN", 0) ? 512 : 0;
    char *mapped = mmap(NULL, len + skip, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return OUT_OF_MEMORY;
    memset(mapped, 0xee, len + skip);
    struct block *made = calloc(1, sizeof *made);
    *made = (struct block){(uint64_t)(uintptr_t)mapped + skip, len, kind, current->device, NULL};
    pthread_mutex_lock(&lock);
    made->next = blocks;
    blocks = made;
    pthread_mutex_unlock(&lock);
    *at = made->start;
    return OK;
}
static int give(uint64_t at, int kind) {
    pthread_mutex_lock(&lock);
    for (struct block **link = &blocks; *link; link = &(*link)->next) {
        struct block *one = *link;
        if (one->start != at || one->kind != kind) continue;
        *link = one->next;
        pthread_mutex_unlock(&lock);
        uint64_t start = at & ~4095ull;
        munmap((void *)(uintptr_t)start, one->len + (at - start));
        free(one);
        return OK;
    }
    pthread_mutex_unlock(&lock);
    return INVALID;
}

EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    NEEDS_CONTEXT;
    *total = (size_t)setting("FAKE_CUDA_MEMORY", 8l << 30);
    pthread_mutex_lock(&lock);
    uint64_t used = held(current->device, ON_DEVICE);
    pthread_mutex_unlock(&lock);
    *free_bytes = *total > used ? *total - used : 0;
    return OK;
}
EXPORT int cuMemAlloc_v2(uint64_t *at, size_t bytes) {
    NEEDS_CONTEXT;
    size_t free_bytes, total;
    if (!bytes) return INVALID;
    cuMemGetInfo_v2(&free_bytes, &total);
    return bytes > free_bytes ? OUT_OF_MEMORY : take(bytes, ON_DEVICE, at);
}
EXPORT int cuMemFree_v2(uint64_t at) { NEEDS_CONTEXT; return give(at, ON_DEVICE); }
EXPORT int cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
    (void)flags;
    NEEDS_CONTEXT;
    uint64_t start;
    int code = take(bytes, ON_HOST, &start);
    if (!code) *at = (void *)(uintptr_t)start;
    return code;
}
EXPORT int cuMemFreeHost(void *at) { NEEDS_CONTEXT; return give((uint64_t)(uintptr_t)at, ON_HOST); }
EXPORT int cuMemGetAddressRange_v2(uint64_t *start, size_t *len, uint64_t at) {
    NEEDS_CONTEXT;
    pthread_mutex_lock(&lock);
    struct block *found = find(at);
    if (found) { *start = found->start; *len = found->len; }
    pthread_mutex_unlock(&lock);
    return found ? OK : NOT_FOUND;
}
EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t at) {
    MAY_FAIL;
    pthread_mutex_lock(&lock);
    struct block *found = find(at);
    int code = found ? OK : INVALID;
    if (found && attribute == 2) *(int *)value = found->kind;
    else if (found && attribute == 9) *(int *)value = ordinal_of(found->device);
    else if (found && attribute == 4 && found->kind == ON_HOST) *(uint64_t *)value = at;
    else code = INVALID;
    pthread_mutex_unlock(&lock);
    return code;
}
EXPORT int cuMemGetHandleForAddressRange(int *fd, uint64_t at, size_t len, int type, unsigned long long flags) {
    (void)at, (void)len, (void)type, (void)flags;
    NEEDS_CONTEXT;
    *fd = memfd_create("fake dma-buf", MFD_CLOEXEC);
    return *fd < 0 ? OUT_OF_MEMORY : OK;
}

static void run_kernel(const struct op *op) {
    static struct chunks chunks;
    static struct pieces few;
    const unsigned char *a = op->arguments;
    uint64_t first, second, flags;
    u32 pieces;
    memcpy(&first, a, 8);
    memcpy(&second, a + 8, 8);
    memcpy(&few, a + 8, sizeof few);
    memcpy(&pieces, a + (op->function ? 8 + sizeof few : 16), 4);
    memcpy(&chunks, a + 16, sizeof chunks);
    memcpy(&flags, a + 16 + sizeof chunks, 8);
    emulated_threads = op->threads;
    for (emulated_block_y = 0; emulated_block_y < op->y; emulated_block_y++)
        for (emulated_block_x = 0; emulated_block_x < op->x; emulated_block_x++)
            for (emulated_thread = 0; emulated_thread < op->threads; emulated_thread++) switch (op->function) {
                case 0: unpack((const u8 *)first, (const struct piece *)second, pieces); break;
                case 1: unpack_few((const u8 *)first, few, pieces); break;
                case 2: fill((const u64 *)first, second, chunks); break;
                default: verify((const u64 *)first, second, chunks, (u32 *)flags);
                }
}
/* Runs the work on a stream up to a position; the caller holds the lock. */
static void run(struct stream *stream, uint64_t until) {
    while (stream->done < until && stream->first) {
        struct op *op = stream->first;
        stream->first = op->next;
        if (!stream->first) stream->last = &stream->first;
        if (op->kind == COPY) memcpy((void *)(uintptr_t)op->to, (void *)(uintptr_t)op->from, op->len);
        else if (op->kind == WRITE) __atomic_store_n((u32 *)(uintptr_t)op->to, op->value, __ATOMIC_RELEASE);
        else if (op->kind == SET) memset((void *)(uintptr_t)op->to, op->byte, op->len);
        else run_kernel(op);
        stream->done++;
        free(op);
    }
}
static int put_off(struct stream *stream, const struct op *wanted) {
    struct op *op = malloc(sizeof *op);
    *op = *wanted;
    op->next = NULL;
    pthread_mutex_lock(&lock);
    *stream->last = op;
    stream->last = &op->next;
    stream->queued++;
    if (setting("FAKE_CUDA_EAGER", 0)) run(stream, stream->queued);
    pthread_mutex_unlock(&lock);
    return OK;
}
static int copy_later(uint64_t to, uint64_t from, size_t len, struct stream *stream) {
    struct op op = {.kind = COPY, .to = to, .from = from, .len = len};
    return put_off(stream, &op);
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t len, struct stream *s) { NEEDS_CONTEXT; return copy_later(to, (uint64_t)(uintptr_t)from, len, s); }
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t len, struct stream *s) { NEEDS_CONTEXT; return copy_later((uint64_t)(uintptr_t)to, from, len, s); }
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t len, struct stream *s) { NEEDS_CONTEXT; return copy_later(to, from, len, s); }
EXPORT int cuMemsetD8Async(uint64_t at, unsigned char byte, size_t len, struct stream *s) {
    NEEDS_CONTEXT;
    struct op op = {.kind = SET, .to = at, .byte = byte, .len = len};
    return put_off(s, &op);
}
EXPORT int cuLaunchKernel(const void *function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz,
                          unsigned shared, struct stream *s, void **arguments, void **extra) {
    (void)z, (void)ty, (void)tz, (void)shared, (void)extra;
    NEEDS_CONTEXT;
    static const size_t sizes[4][5] = {
        {8, 8, 4}, {8, sizeof(struct pieces), 4}, {8, 8, sizeof(struct chunks)}, {8, 8, sizeof(struct chunks), 8}};
    struct op op = {.kind = LAUNCH, .function = (int)((const char *const *)function - functions), .x = x, .y = y, .threads = tx};
    unsigned char *place = op.arguments;
    if (!x || !y || !tx || tx > 1024) return INVALID;
    for (int at = 0; sizes[op.function][at]; at++) {
        memcpy(place, arguments[at], sizes[op.function][at]);
        place += sizes[op.function][at];
    }
    return put_off(s, &op);
}

EXPORT int cuStreamCreate(struct stream **made, unsigned flags) {
    (void)flags;
    NEEDS_CONTEXT;
    *made = calloc(1, sizeof **made);
    (*made)->last = &(*made)->first;
    __atomic_fetch_add(&streams, 1, __ATOMIC_SEQ_CST);
    return OK;
}
EXPORT int cuStreamSynchronize(struct stream *stream) {
    NEEDS_CONTEXT;
    pthread_mutex_lock(&lock);
    run(stream, stream->queued);
    pthread_mutex_unlock(&lock);
    return OK;
}
EXPORT int cuStreamQuery(struct stream *stream) {
    NEEDS_CONTEXT;
    if (stream->done >= stream->queued) return OK;
    if (stream->asked++ < setting("FAKE_CUDA_LAZY", 2)) return NOT_READY;
    stream->asked = 0;
    return cuStreamSynchronize(stream);
}
EXPORT int cuStreamWriteValue32_v2(struct stream *s, uint64_t at, u32 value, unsigned flags) {
    (void)flags;
    NEEDS_CONTEXT;
    struct op op = {.kind = WRITE, .to = at, .value = value};
    return put_off(s, &op);
}
EXPORT int cuStreamDestroy_v2(struct stream *stream) {
    NEEDS_CONTEXT;
    free(stream);
    __atomic_fetch_sub(&streams, 1, __ATOMIC_SEQ_CST);
    return OK;
}
EXPORT int cuEventCreate(struct event **made, unsigned flags) {
    (void)flags;
    NEEDS_CONTEXT;
    *made = calloc(1, sizeof **made);
    __atomic_fetch_add(&events, 1, __ATOMIC_SEQ_CST);
    return OK;
}
EXPORT int cuEventDestroy_v2(struct event *event) {
    NEEDS_CONTEXT;
    free(event);
    __atomic_fetch_sub(&events, 1, __ATOMIC_SEQ_CST);
    return OK;
}
EXPORT int cuEventRecord(struct event *event, struct stream *stream) {
    NEEDS_CONTEXT;
    *event = (struct event){stream, stream->queued, 0};
    return OK;
}
EXPORT int cuEventQuery(struct event *event) {
    NEEDS_CONTEXT;
    if (!event->stream || event->stream->done >= event->at) return OK;
    if (event->asked++ < setting("FAKE_CUDA_LAZY", 2)) return NOT_READY;
    pthread_mutex_lock(&lock);
    run(event->stream, event->at);
    pthread_mutex_unlock(&lock);
    return OK;
}
EXPORT int cuEventElapsedTime(float *milliseconds, struct event *from, struct event *to) {
    NEEDS_CONTEXT;
    (void)from, (void)to;
    *milliseconds = 0.5f;
    return OK;
}
EXPORT int cuModuleLoadData(const void **module, const char *text) {
    NEEDS_CONTEXT;
    if (!strstr(text, ".target")) return 218;
    *module = functions;
    __atomic_fetch_add(&modules, 1, __ATOMIC_SEQ_CST);
    return OK;
}
EXPORT int cuModuleUnload(const void *module) { (void)module; NEEDS_CONTEXT; __atomic_fetch_sub(&modules, 1, __ATOMIC_SEQ_CST); return OK; }
EXPORT int cuModuleGetFunction(const void **function, const void *module, const char *name) {
    (void)module;
    NEEDS_CONTEXT;
    for (size_t at = 0; at < 4; at++)
        if (!strcmp(name, functions[at])) { *function = &functions[at]; return OK; }
    return NOT_FOUND;
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("FAKE_CUDA_REPORT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    int retained = 0;
    for (int at = 0; at < 64; at++) retained += contexts[at].retained;
    fprintf(file, "contexts %d, device bytes %llu, pinned bytes %llu, streams %ld, events %ld, modules %ld\n", retained,
            (unsigned long long)held(-1, ON_DEVICE), (unsigned long long)held(-1, ON_HOST), streams, events, modules);
    fclose(file);
}
