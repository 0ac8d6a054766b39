/* devices returns the code $BAD_DEVICES, or 0 and no devices. */
#include "bad.h"
static int no_devices(int *count)
{
    const char *code = getenv("BAD_DEVICES");
    *count = 0;
    return code == NULL ? SUCCESS : atoi(code);
}
static void misbehave(void)
{
    strict_table.devices = no_devices;
}
