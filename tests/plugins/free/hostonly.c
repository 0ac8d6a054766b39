/*
 * Allowed: a plugin for host memory only. It has no flush to offer, since NCCL flushes GPU memory
 * alone, its requests need not be consumed, and it keeps a descriptor from its first registration
 * on. With FREE_EIGHT, a comm has eight requests. Not allowed: with FREE_LEAK, it keeps one of each registration.
 */
#include "../bad/bad.h"
static int host_properties(int dev, struct properties *properties)
{
    int code = strict_get_properties(dev, properties);
    properties->ptr_support = PTR_HOST;
    properties->net_device_type = properties->net_device_version = 0;
    return code;
}
static int host_flush(void *comm, int n, void **data, int *sizes, void **mhandles, void **request)
{
    (void)comm, (void)n, (void)data, (void)sizes, (void)mhandles, (void)request;
    WARN("NET/Host : no flush without GPU memory");
    return INTERNAL_ERROR;
}
static int host_test(void *raw, int *done, int *sizes)
{
    struct request *request = raw;
    int code = strict_test(raw, done, sizes);
    if (code == SUCCESS && *done && request->is_receive)
        strict_irecv_consumed(request->comm, 1, raw);
    return code;
}
static int host_reg_mr(void *comm, void *data, int size, int type, void **mhandle)
{
    static int cache = -1;
    if (cache < 0 || getenv("FREE_LEAK") != NULL)
        cache = open("/dev/null", O_RDWR | O_CLOEXEC);
    return strict_reg_mr(comm, data, size, type, mhandle);
}
static void misbehave(void)
{
    if (getenv("FREE_EIGHT") != NULL)
        strict_slots = 8;
    strict_table.get_properties = host_properties;
    strict_table.iflush = host_flush;
    strict_table.test = host_test;
    strict_table.reg_mr = host_reg_mr;
    strict_table.irecv_consumed = NULL;
}
