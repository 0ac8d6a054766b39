/*
 * The strict plugin under other versions: the same functions behind a version 8
 * table, with -DBOTH beside the version 7 one. Google's plugins do not export
 * version 8, but others do, and programs look for version 8 first.
 */
#define ncclNetPlugin_v7 strict_table
#include "strict.c"
#undef ncclNetPlugin_v7

struct properties_v8 {
    char *name;
    char *pci_path;
    uint64_t guid;
    int ptr_support;
    int reg_is_global;
    int speed;
    int port;
    float latency;
    int max_comms;
    int max_recvs;
    int net_device_type;
    int net_device_version;
};

static int get_properties_v8(int dev, struct properties_v8 *wide)
{
    struct properties narrow;
    int code = strict_get_properties(dev, &narrow);
    if (code != SUCCESS)
        return code;
    *wide = (struct properties_v8){
        .name = narrow.name,
        .pci_path = narrow.pci_path,
        .guid = narrow.guid,
        .ptr_support = narrow.ptr_support,
        .speed = narrow.speed,
        .max_comms = narrow.max_comms,
        .max_recvs = narrow.max_recvs,
        .net_device_type = narrow.net_device_type,
        .net_device_version = narrow.net_device_version,
    };
    return SUCCESS;
}

static int reg_mr_v8(void *comm, void *data, size_t size, int type, void **mhandle)
{
    return size > INT_MAX ? INTERNAL_ERROR : strict_reg_mr(comm, data, (int)size, type, mhandle);
}

/* The members of version 8 are at the offsets of version 7. */
__attribute__((visibility("default"))) struct net_v8 {
    const char *name;
    void *init, *devices, *get_properties, *listen, *connect, *accept, *reg_mr, *reg_mr_dma_buf, *dereg_mr, *isend,
        *irecv, *iflush, *test, *close_send, *close_recv, *close_listen, *get_device_mr, *irecv_consumed;
} ncclNetPlugin_v8 = {
    "Strict_v8", strict_init, strict_devices, get_properties_v8, strict_listen, strict_connect, strict_accept,
    reg_mr_v8, NULL, strict_dereg_mr, strict_isend, strict_irecv, strict_iflush, strict_test, strict_close,
    strict_close, strict_close_listen, NULL, strict_irecv_consumed,
};

#ifdef BOTH
__attribute__((visibility("default"))) extern struct net ncclNetPlugin_v7 __attribute__((alias("strict_table")));
#endif
