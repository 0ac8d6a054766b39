/* Allowed: a plugin that logs its version in its own words, behind that of another library. */
#include "../bad/bad.h"
static int words_init(logger_fn given)
{
    if (given != NULL) {
        given(3, 0x10, "words.c", 1, "NET/Words : Using CUDA driver version %d", 12060);
        given(3, 0x10, "words.c", 2, "NET/Words : Initializing words-nccl %s", "2.7.1-rc3");
    }
    return bad_init(given);
}
__attribute__((constructor)) static void listen_in(void) { strict_table.init = words_init; }
static void misbehave(void) {}
