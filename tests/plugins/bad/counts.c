/* Broken: the call succeeds and counts fewer devices than none. */
#include "bad.h"
static int fewer_than_none(int *count)
{
    *count = -5;
    return 0;
}
static void misbehave(void)
{
    strict_table.devices = fewer_than_none;
}
