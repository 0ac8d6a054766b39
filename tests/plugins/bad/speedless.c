/* Allowed: a speed that the plugin does not know. NCCL takes 10 Gbit/s then. */
#include "bad.h"
static int unknown_speed(int dev, struct properties *properties)
{
    int code = strict_get_properties(dev, properties);
    properties->speed = -1;
    return code;
}
static void misbehave(void)
{
    strict_table.get_properties = unknown_speed;
}
