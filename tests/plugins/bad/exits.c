/* Ends the process from a thread of its own, a moment later. */
#include "bad.h"
static void *end(void *nothing)
{
    (void)nothing;
    usleep(100000);
    exit(7);
}
static void misbehave(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, end, NULL);
}
