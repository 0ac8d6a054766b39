/* The call that $BAD_HANGS names, `init` or `devices`, never returns. */
#include "bad.h"
static bool is_named(const char *call)
{
    const char *named = getenv("BAD_HANGS");
    return named != NULL && strcmp(named, call) == 0;
}
static int hanging_devices(int *count)
{
    (void)count;
    for (;;)
        pause();
}
static void misbehave(void)
{
    if (is_named("devices"))
        strict_table.devices = hanging_devices;
    while (is_named("init"))
        pause();
}
