/*
 * GPU memory for control.c: the driver API, loaded at run time, and the copies of one stream of
 * sockets through pinned host memory. Copies are asynchronous, in order, and up to `buffers` ahead.
 */
#include <dlfcn.h>

typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef unsigned long long CUdeviceptr;

static struct {
    CUcontext context;
    int (*cuInit)(unsigned flags);
    int (*cuDevicePrimaryCtxRetain)(CUcontext *context, int device);
    int (*cuCtxSetCurrent)(CUcontext context);
    int (*cuMemAlloc_v2)(CUdeviceptr *memory, size_t size);
    int (*cuMemHostAlloc)(void **memory, size_t size, unsigned flags);
    int (*cuStreamCreate)(CUstream *stream, unsigned flags);
    int (*cuStreamSynchronize)(CUstream stream);
    int (*cuEventCreate)(CUevent *event, unsigned flags);
    int (*cuEventRecord)(CUevent event, CUstream stream);
    int (*cuEventSynchronize)(CUevent event);
    int (*cuMemcpyDtoHAsync_v2)(void *to, CUdeviceptr from, size_t size, CUstream stream);
    int (*cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void *from, size_t size, CUstream stream);
} cuda;

enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_DISABLE_TIMING = 2 };

/* What one stream of sockets has: chunks in GPU memory, as many in pinned memory, and an event for each. */
struct copies { CUdeviceptr device; char *pinned; CUstream stream; CUevent events[BUFFERS_MAX]; };

#define CUDA(call, ...) cuda_check(#call, cuda.call(__VA_ARGS__))

static void cuda_check(const char *call, int code)
{
    if (code != 0)
        fail(1, "%s: error %d", call, code);
}

static void cuda_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (!found)
        fail(1, "libcuda.so.1 has no %s", name);
    memcpy(function, &found, sizeof found);
}

static void cuda_open(int gpu)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        fail(1, "%s", dlerror());
#define FIND(name) cuda_function(library, #name, &cuda.name)
    FIND(cuInit), FIND(cuDevicePrimaryCtxRetain), FIND(cuCtxSetCurrent), FIND(cuMemAlloc_v2);
    FIND(cuMemHostAlloc), FIND(cuStreamCreate), FIND(cuStreamSynchronize), FIND(cuEventCreate);
    FIND(cuEventRecord), FIND(cuEventSynchronize), FIND(cuMemcpyDtoHAsync_v2), FIND(cuMemcpyHtoDAsync_v2);
#undef FIND
    CUDA(cuInit, 0);
    CUDA(cuDevicePrimaryCtxRetain, &cuda.context, gpu);
    CUDA(cuCtxSetCurrent, cuda.context);
}

static struct copies *new_copies(size_t chunk, u64 buffers)
{
    struct copies *copies = calloc(1, sizeof *copies);
    if (!copies)
        fail(1, "cannot allocate %zu bytes", sizeof *copies);
    CUDA(cuMemAlloc_v2, &copies->device, buffers * chunk);
    CUDA(cuMemHostAlloc, (void **)&copies->pinned, buffers * chunk, 0);
    CUDA(cuStreamCreate, &copies->stream, CUDA_STREAM_NON_BLOCKING);
    for (u64 buffer = 0; buffer < buffers; buffer++) {
        CUDA(cuEventCreate, &copies->events[buffer], CUDA_EVENT_DISABLE_TIMING);
        CUDA(cuEventRecord, copies->events[buffer], copies->stream);
    }
    return copies;
}
