/* init returns the code $BAD_INIT, devices the code $BAD_DEVICES, or 0 and no devices. */
#include "bad.h"
static int no_devices(int *count)
{
    const char *code = getenv("BAD_DEVICES");
    *count = 0;
    return code == NULL ? SUCCESS : atoi(code);
}
static int refusing_init(logger_fn logger)
{
    int code = bad_init(logger);
    return code == SUCCESS ? atoi(getenv("BAD_INIT")) : code;
}
__attribute__((constructor)) static void refuse(void)
{
    if (getenv("BAD_INIT") != NULL)
        strict_table.init = refusing_init;
}
static void misbehave(void)
{
    strict_table.devices = no_devices;
}
