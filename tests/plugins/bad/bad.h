/*
 * A plugin that works, with one thing wrong: the strict plugin, whose init calls
 * misbehave() once it is done. Define it after including this.
 */
#define ncclNetPlugin_v7 strict_table
#include "../strict.c"
#undef ncclNetPlugin_v7

static void misbehave(void);

static int bad_init(logger_fn logger)
{
    int code = strict_init(logger);
    misbehave();
    return code;
}

__attribute__((constructor)) static void start(void)
{
    strict_table.init = bad_init;
}

__attribute__((visibility("default"))) extern struct net ncclNetPlugin_v7 __attribute__((alias("strict_table")));
