/*
 * Allowed: a machine that is too busy to run this process. The first call that FREE_STOP names stops
 * the process for 2.5 seconds, with all its threads. Not allowed: with FREE_SLEEP, it sleeps instead.
 */
#include "../bad/bad.h"
#include <signal.h>
#include <sys/wait.h>
static void stop_in(const char *call)
{
    static atomic_bool stopped;
    const char *chosen = getenv("FREE_STOP");
    if (chosen == NULL || strcmp(chosen, call) != 0 || atomic_exchange(&stopped, true))
        return;
    if (getenv("FREE_SLEEP") != NULL) {
        usleep(2500000);
        return;
    }
    pid_t me = getpid(), waker = fork();
    if (waker == 0) {
        usleep(2500000);
        kill(me, SIGCONT);
        _exit(0);
    }
    kill(me, SIGSTOP);
    waitpid(waker, NULL, 0);
}
static int stopped_listen(int dev, void *handle, void **listener)
{
    stop_in("listen");
    return strict_listen(dev, handle, listener);
}
static int stopped_connect(int dev, void *handle, void **comm, struct device_handle **device)
{
    stop_in("connect");
    return strict_connect(dev, handle, comm, device);
}
static int stopped_close(void *comm)
{
    stop_in("close");
    return strict_close(comm);
}
static void misbehave(void)
{
    strict_table.listen = stopped_listen;
    strict_table.connect = stopped_connect;
    strict_table.close_send = strict_table.close_recv = stopped_close;
}
