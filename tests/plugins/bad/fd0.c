/* Closes standard input. */
#include "bad.h"
static void misbehave(void) { close(0); }
