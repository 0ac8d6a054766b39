/*
 * The call that $BAD_HANGS names, `init` or `devices`, never returns; with `constructor` the
 * library's own start does not, and adds a line to $BAD_STARTS.
 */
#include "bad.h"
#include <stdio.h>
static bool is_named(const char *call)
{
    const char *named = getenv("BAD_HANGS");
    return named != NULL && strcmp(named, call) == 0;
}
__attribute__((constructor)) static void hang_at_start(void)
{
    if (!is_named("constructor"))
        return;
    FILE *starts = fopen(getenv("BAD_STARTS"), "a");
    fputs("started\n", starts);
    fclose(starts);
    for (;;)
        pause();
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
