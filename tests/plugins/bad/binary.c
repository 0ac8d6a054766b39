/* Prints binary data. */
#include "bad.h"
static void misbehave(void)
{
    static const char bytes[] = "\0\1\2\377\033[31m{\"kind\":\"no message\"}\n\xc3";
    if (write(1, bytes, sizeof bytes) < 0)
        abort();
}
