/*
 * Allowed: a plugin of version 4, in which connect and accept wait for the peer, and in which
 * accept holds a lock that every call needs to begin. A connect of the same process that begins
 * later waits for ever.
 */
#define ncclNetPlugin_v7 strict_table
#include "../strict.c"
#undef ncclNetPlugin_v7

struct properties_v4 {
    char *name;
    char *pci_path;
    uint64_t guid;
    int ptr_support;
    int speed;
    int port;
    int max_comms;
};

static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;

#define LOCKED(call)                \
    pthread_mutex_lock(&calls);     \
    int code = call;                \
    pthread_mutex_unlock(&calls);   \
    return code

static int get_properties_v4(int dev, struct properties_v4 *narrow)
{
    struct properties wide = {0};
    int code = strict_get_properties(dev, &wide);
    *narrow = (struct properties_v4){
        .name = wide.name,
        .pci_path = wide.pci_path,
        .guid = wide.guid,
        .ptr_support = PTR_HOST,
        .speed = wide.speed,
        .port = wide.port,
        .max_comms = wide.max_comms,
    };
    return code;
}

/* Handles of version 4 have 64 bytes, of which the strict plugin's address and token are the first. */
enum { HANDLE_V4 = 64 };

static int listen_v4(int dev, void *handle, void **comm)
{
    char wide[128] = {0};
    int code = strict_listen(dev, wide, comm);
    memcpy(handle, wide, HANDLE_V4);
    return code;
}

static int wait_for_connect(int dev, void *handle, void **comm)
{
    char wide[128] = {0};
    int code = SUCCESS;
    memcpy(wide, handle, HANDLE_V4);
    for (*comm = NULL; code == SUCCESS && *comm == NULL;)
        code = strict_connect(dev, wide, comm, NULL);
    return code;
}

static int wait_for_accept(void *listen_comm, void **comm)
{
    struct device_handle device = {0}, *unpack = &device;
    int code = SUCCESS;
    for (*comm = NULL; code == SUCCESS && *comm == NULL;)
        code = strict_accept(listen_comm, comm, &unpack);
    return code;
}

static int connect_v4(int dev, void *handle, void **comm)
{
    pthread_mutex_lock(&calls);
    pthread_mutex_unlock(&calls);
    return wait_for_connect(dev, handle, comm);
}

static int accept_v4(void *listen_comm, void **comm)
{
    LOCKED(wait_for_accept(listen_comm, comm));
}

static int isend_v4(void *comm, void *data, int size, void *mhandle, void **request)
{
    LOCKED(strict_isend(comm, data, size, 0, mhandle, request));
}

static int irecv_v4(void *comm, void *data, int size, void *mhandle, void **request)
{
    int tag = 0;
    LOCKED(strict_irecv(comm, 1, &data, &size, &tag, &mhandle, request));
}

static int iflush_v4(void *comm, void *data, int size, void *mhandle, void **request)
{
    (void)comm, (void)data, (void)size, (void)mhandle, (void)request;
    return INTERNAL_ERROR;
}

static int test_and_consume(void *raw, int *done, int *size)
{
    struct request *request = raw;
    int code = strict_test(raw, done, size);
    if (code == SUCCESS && *done && request->is_receive)
        strict_irecv_consumed(request->comm, 1, raw);
    return code;
}

static int test_v4(void *raw, int *done, int *size)
{
    LOCKED(test_and_consume(raw, done, size));
}

/* Version 4 has no regMrDmaBuf, getDeviceMr and irecvConsumed. */
__attribute__((visibility("default"))) struct net_v4 {
    const char *name;
    void *init, *devices, *get_properties, *listen, *connect, *accept, *reg_mr, *dereg_mr, *isend, *irecv, *iflush,
        *test, *close_send, *close_recv, *close_listen;
} ncclNetPlugin_v4 = {
    "Locks", strict_init, strict_devices, get_properties_v4, listen_v4, connect_v4, accept_v4, strict_reg_mr,
    strict_dereg_mr, isend_v4, irecv_v4, iflush_v4, test_v4, strict_close, strict_close, strict_close_listen,
};
