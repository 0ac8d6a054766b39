/* Allowed: every call that may return "try again" does so, and logs a line each time. */
#include "bad.h"
static logger_fn spoken_to;
/* Three of four times at random: with a counter, calls that take turns could miss theirs forever. */
static bool not_now(unsigned call)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (spoken_to != NULL)
        spoken_to(3, 0x10, "again.c", 1, "call %u, not now %d", call, state >> 62 != 3);
    return state >> 62 != 3;
}
static int again_connect(int dev, void *handle, void **comm, struct device_handle **device)
{
    *comm = NULL;
    return not_now(0) ? SUCCESS : strict_connect(dev, handle, comm, device);
}
static int again_accept(void *listener, void **comm, struct device_handle **device)
{
    *comm = NULL;
    return not_now(1) ? SUCCESS : strict_accept(listener, comm, device);
}
static int again_isend(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    *request = NULL;
    return not_now(2) ? SUCCESS : strict_isend(comm, data, size, tag, mhandle, request);
}
static int again_irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles, void **request)
{
    *request = NULL;
    return not_now(3) ? SUCCESS : strict_irecv(comm, n, data, sizes, tags, mhandles, request);
}
static int again_init(logger_fn logger)
{
    spoken_to = logger;
    puts("again: hello");
    return bad_init(logger);
}
__attribute__((constructor)) static void listen_in(void) { strict_table.init = again_init; }
static void misbehave(void)
{
    strict_table.connect = again_connect;
    strict_table.accept = again_accept;
    strict_table.isend = again_isend;
    strict_table.irecv = again_irecv;
}
