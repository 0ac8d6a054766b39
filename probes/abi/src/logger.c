/*
 * The plugin's logger callback is a C-variadic function, which stable Rust can
 * call but not define. This file turns one call into one finished string.
 *
 * Not here: any judgement of the format. The real plugin passes arguments that
 * do not match its formats (%zu with an int, %s with NULL); glibc prints
 * something for each of them, and so do we.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>

typedef void (*tcpx_abi_sink)(int level, unsigned long flags, const char *file,
                              int line, const char *text, size_t length);

static tcpx_abi_sink sink;

/* Must happen before any plugin is given tcpx_abi_log. */
void tcpx_abi_set_sink(tcpx_abi_sink to) { __atomic_store_n(&sink, to, __ATOMIC_RELEASE); }

enum { ON_STACK = 1024, LONGEST = 64 * 1024 };

void tcpx_abi_log(int level, unsigned long flags, const char *file, int line,
                  const char *format, ...) {
  tcpx_abi_sink to = __atomic_load_n(&sink, __ATOMIC_ACQUIRE);
  if (to == NULL || format == NULL) return;
  int saved = errno;
  char small[ON_STACK];
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int need = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if (need < 0) {
    to(level, flags, file, line, "(unprintable log line)", sizeof "(unprintable log line)" - 1);
  } else if ((size_t)need < sizeof small) {
    to(level, flags, file, line, small, (size_t)need);
  } else {
    size_t room = (size_t)need + 1 > LONGEST ? LONGEST : (size_t)need + 1;
    char *large = malloc(room);
    if (large == NULL) {
      to(level, flags, file, line, small, sizeof small - 1);
    } else {
      vsnprintf(large, room, format, again);
      to(level, flags, file, line, large, (size_t)need < room ? (size_t)need : room - 1);
      free(large);
    }
  }
  va_end(again);
  errno = saved;
}
