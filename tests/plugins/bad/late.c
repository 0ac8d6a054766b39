/* Allowed: init fills the table. */
#include "bad.h"
static struct net whole;
__attribute__((constructor)) static void empty(void)
{
    whole = strict_table;
    strict_table = (struct net){.name = "Late_v7", .init = bad_init};
}
static void misbehave(void)
{
    whole.init = bad_init;
    strict_table = whole;
}
