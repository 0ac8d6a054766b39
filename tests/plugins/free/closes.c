/*
 * Allowed: closeSend and closeRecv take 300 ms each.
 */
#include "../bad/bad.h"
static int close_slowly(void *comm)
{
    usleep(300000);
    return strict_close(comm);
}
static void misbehave(void)
{
    strict_table.close_send = close_slowly;
    strict_table.close_recv = close_slowly;
}
