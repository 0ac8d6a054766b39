/* Allowed: that the peer has closed is no error; only a watchdog of the caller finds out. */
#include "../bad/bad.h"
static int silent_test(void *request, int *done, int *sizes)
{
    int code = strict_test(request, done, sizes);
    if (code != SYSTEM_ERROR)
        return code;
    *done = 0;
    return SUCCESS;
}
static void misbehave(void)
{
    strict_table.test = silent_test;
}
