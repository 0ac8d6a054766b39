/*
 * Forks twenty lasting processes while it is loaded. With $BAD_LEAVES it then makes
 * that folder and waits forever.
 */
#include "bad.h"
#include <sys/stat.h>
__attribute__((constructor)) static void leave(void)
{
    const char *ready = getenv("BAD_LEAVES");
    for (int i = 0; i < 20; i++)
        if (fork() == 0) {
            sleep(600);
            _exit(0);
        }
    if (ready == NULL)
        return;
    mkdir(ready, 0700);
    for (;;)
        pause();
}
static void misbehave(void) {}
