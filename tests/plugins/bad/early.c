/*
 * Reports messages done before their bytes have moved: those that $BAD_EARLY names, `send` or
 * `recv`. A thread moves the bytes at least 20 ms later, from or to memory that the caller may use
 * again by then.
 */
#include "bad.h"
enum { COMMS = 64, LATE_MS = 20 };
struct owed { void *request; long reported_ms; };
/* What a comm still has to move, oldest first. */
static struct { void *comm; unsigned first, last; struct owed ring[REQUESTS]; } all[COMMS];
static bool early_receives;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
static int place_of(void *comm)
{
    int place = 0;
    while (place < COMMS && all[place].comm != comm && all[place].comm != NULL)
        place++;
    if (place == COMMS)
        abort();
    all[place].comm = comm;
    return place;
}
static bool is_early(const void *comm) { return ((const struct comm *)comm)->is_receiver == early_receives; }
/* Posts unless the plugin below would have no room, and owes what it has posted. */
#define POST(comm, request, post)                                                       \
    pthread_mutex_lock(&one_at_a_time);                                                 \
    int place = place_of(comm), code = SUCCESS;                                         \
    *request = NULL;                                                                    \
    if (!is_early(comm) || all[place].last - all[place].first < REQUESTS)               \
        code = post;                                                                    \
    if (is_early(comm) && *request != NULL)                                             \
        all[place].ring[all[place].last++ % REQUESTS] = (struct owed){*request, 0};     \
    pthread_mutex_unlock(&one_at_a_time);                                               \
    return code;
static int early_isend(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    POST(comm, request, strict_isend(comm, data, size, tag, mhandle, request))
}
static int early_irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles, void **request)
{
    POST(comm, request, strict_irecv(comm, n, data, sizes, tags, mhandles, request))
}
static int early_test(void *raw, int *done, int *sizes)
{
    struct request *request = raw;
    pthread_mutex_lock(&one_at_a_time);
    int code = SUCCESS, place = place_of(request->comm);
    if (is_early(request->comm)) {
        for (unsigned at = all[place].first; at != all[place].last; at++)
            if (all[place].ring[at % REQUESTS].request == raw)
                all[place].ring[at % REQUESTS].reported_ms = now_ms();
        *done = 1;
    } else {
        code = strict_test(raw, done, sizes);
    }
    pthread_mutex_unlock(&one_at_a_time);
    return code;
}
static int early_consumed(void *comm, int n, void *request)
{
    pthread_mutex_lock(&one_at_a_time);
    int code = is_early(comm) ? SUCCESS : strict_irecv_consumed(comm, n, request);
    pthread_mutex_unlock(&one_at_a_time);
    return code;
}
static int early_close(void *comm)
{
    pthread_mutex_lock(&one_at_a_time);
    int place = place_of(comm);
    all[place].first = all[place].last = 0;
    /* Not NULL: the places behind it are in use. */
    all[place].comm = &all[place];
    int code = strict_close(comm);
    pthread_mutex_unlock(&one_at_a_time);
    return code;
}
/* Moves what a comm owes, once it is late enough. */
static void move(int place)
{
    while (all[place].first != all[place].last) {
        struct owed *oldest = &all[place].ring[all[place].first % REQUESTS];
        int done = 0;
        if (oldest->reported_ms == 0 || now_ms() - oldest->reported_ms < LATE_MS ||
            strict_test(oldest->request, &done, NULL) != SUCCESS || !done)
            return;
        if (early_receives)
            strict_irecv_consumed(all[place].comm, 1, oldest->request);
        all[place].first++;
    }
}
static void *move_later(void *nothing)
{
    for (;;) {
        usleep(500);
        pthread_mutex_lock(&one_at_a_time);
        for (int place = 0; place < COMMS && all[place].comm != NULL; place++)
            move(place);
        pthread_mutex_unlock(&one_at_a_time);
    }
    return nothing;
}
static void misbehave(void)
{
    pthread_t thread;
    const char *side = getenv("BAD_EARLY");
    early_receives = side != NULL && strcmp(side, "recv") == 0;
    strict_table.isend = early_isend;
    strict_table.irecv = early_irecv;
    strict_table.test = early_test;
    strict_table.irecv_consumed = early_consumed;
    strict_table.close_send = strict_table.close_recv = early_close;
    pthread_create(&thread, NULL, move_later, NULL);
}
