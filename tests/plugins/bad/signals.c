/* Replaces a signal handler of the program. */
#include "bad.h"
#include <signal.h>
static void taken(int number) { (void)number; }
static void misbehave(void) { signal(SIGUSR2, taken); }
