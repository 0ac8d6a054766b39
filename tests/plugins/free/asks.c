/*
 * Allowed: a connection is ready once its sender has asked for it, in its first isend. That
 * isend and every irecv before are "not yet". closeRecv of a connection that an irecv has waited
 * for without an answer never returns. Not allowed: with FREE_DEAF, irecv fails instead.
 */
#include "../bad/bad.h"
enum { COMMS = 256 };
static struct state { struct comm *comm; bool asked, waited; } states[COMMS];
static pthread_mutex_t states_lock = PTHREAD_MUTEX_INITIALIZER;
static struct state *state_of(struct comm *comm)
{
    struct state *found = NULL;
    pthread_mutex_lock(&states_lock);
    for (int at = 0; at < COMMS && (found == NULL || found->comm != comm); at++)
        if (states[at].comm == comm || (states[at].comm == NULL && found == NULL))
            found = &states[at];
    if (found == NULL)
        abort();
    found->comm = comm;
    pthread_mutex_unlock(&states_lock);
    return found;
}
static int asks_isend(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    struct state *state = state_of(comm);
    if (state->asked)
        return strict_isend(comm, data, size, tag, mhandle, request);
    *request = NULL;
    state->asked = true;
    return send(state->comm->ctrl, "?", 1, MSG_NOSIGNAL) == 1 ? SUCCESS : SYSTEM_ERROR;
}
static int asks_irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles, void **request)
{
    struct state *state = state_of(comm);
    char question;
    if (!state->asked)
        state->asked = recv(state->comm->ctrl, &question, 1, MSG_DONTWAIT) == 1;
    if (state->asked)
        return strict_irecv(comm, n, data, sizes, tags, mhandles, request);
    *request = NULL;
    state->waited = true;
    return getenv("FREE_DEAF") == NULL ? SUCCESS : INTERNAL_ERROR;
}
static int asks_close(void *comm)
{
    struct state *state = state_of(comm);
    while (state->waited && !state->asked)
        pause();
    *state = (struct state){0};
    return strict_close(comm);
}
static void misbehave(void)
{
    strict_table.isend = asks_isend;
    strict_table.irecv = asks_irecv;
    strict_table.close_send = strict_table.close_recv = asks_close;
}
