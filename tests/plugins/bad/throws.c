/*
 * An exception leaves `devices`: what __cxa_throw does for C++, which looks for a handler first and calls
 * std::terminate, which prints this, if there is none.
 */
#include "bad.h"
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>
static struct _Unwind_Exception thrown;
static int throws(int *count)
{
    (void)count;
    _Unwind_RaiseException(&thrown);
    fputs("terminate called after throwing an instance of 'std::runtime_error'\n", stderr);
    fputs("  what():  no NIC named eth9\n", stderr);
    abort();
}
static void misbehave(void)
{
    memcpy(&thrown.exception_class, "TESTC++", 8);
    strict_table.devices = throws;
}
