/*
 * Allowed: what was posted goes on after a comm is closed, in a thread that drives its oldest
 * request. Not allowed: with FREE_LOSES, a receive whose sender has closed is done at once.
 */
#include "../bad/bad.h"
static _Atomic(struct request *) newest[2];
static atomic_bool closed[2];
static int drains_isend(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    int code = strict_isend(comm, data, size, tag, mhandle, request);
    newest[0] = *request;
    return code;
}
static int drains_irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles, void **request)
{
    int code = strict_irecv(comm, n, data, sizes, tags, mhandles, request);
    newest[1] = *request;
    return code;
}
static int drains_test(void *raw, int *done, int *sizes)
{
    struct request *request = raw;
    int code = strict_test(raw, done, sizes);
    if (code == SUCCESS && *done && newest[request->is_receive] == request)
        newest[request->is_receive] = NULL;
    if (getenv("FREE_LOSES") != NULL && request->is_receive && closed[0]) {
        *done = 1;
        return SUCCESS;
    }
    /* Slow enough for the thread to finish while the other end is watched. */
    if (closed[0] || closed[1])
        usleep(1000);
    return code;
}
static void *drain(void *raw)
{
    struct request *request = raw;
    struct comm *comm = request->comm;
    int done = 0;
    while (getenv("FREE_LOSES") == NULL && !done && strict_test(raw, &done, NULL) == SUCCESS)
        sched_yield();
    strict_close(comm);
    return NULL;
}
static int drains_close(void *raw)
{
    struct comm *comm = raw;
    bool is_receiver = comm->is_receiver;
    struct request *request = newest[is_receiver];
    pthread_t thread;
    closed[is_receiver] = true;
    newest[is_receiver] = NULL;
    if (request == NULL || request->comm != comm)
        return strict_close(comm);
    if (pthread_create(&thread, NULL, drain, request) != 0)
        return SYSTEM_ERROR;
    return pthread_detach(thread) == 0 ? SUCCESS : SYSTEM_ERROR;
}
static void misbehave(void)
{
    strict_table.isend = drains_isend;
    strict_table.irecv = drains_irecv;
    strict_table.test = drains_test;
    strict_table.close_send = strict_table.close_recv = drains_close;
}
