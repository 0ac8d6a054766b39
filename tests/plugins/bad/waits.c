/*
 * listen works in the first process and waits forever in the second. The first process
 * makes the folder $BAD_WAITS, and the second makes $BAD_WAITS.now.
 */
#include "bad.h"
#include <sys/stat.h>
static int is_next = -1;
static int wait_in_listen(int dev, void *handle, void **listen_comm)
{
    const char *first = getenv("BAD_WAITS");
    char next[4096];
    snprintf(next, sizeof next, "%s.now", first);
    if (is_next < 0)
        is_next = mkdir(first, 0700) != 0;
    if (is_next) {
        mkdir(next, 0700);
        for (;;)
            pause();
    }
    return strict_listen(dev, handle, listen_comm);
}
static void misbehave(void)
{
    strict_table.listen = wait_in_listen;
}
