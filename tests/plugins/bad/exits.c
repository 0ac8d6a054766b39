/* Ends the process from a separate thread, during the first transfer. */
#include "bad.h"
#include <stdatomic.h>
static atomic_int tests;
static void *end(void *nothing)
{
    (void)nothing;
    while (tests < 2)
        usleep(1000);
    exit(7);
}
static int never_done(void *request, int *done, int *sizes)
{
    (void)request, (void)sizes;
    *done = 0;
    tests++;
    return SUCCESS;
}
static void misbehave(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, end, NULL);
    strict_table.test = never_done;
}
