/* Forks a process that outlives the plugin's process. */
#include "bad.h"
#include <signal.h>
#include <sys/prctl.h>
static void misbehave(void)
{
    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sleep(20);
    _exit(0);
}
