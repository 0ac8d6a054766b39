/*
 * The logger that a tapped plugin is given: turns a line into one finished
 * string, which is recorded and handed on to the program's own logger.
 *
 * The C ABI gives the callback no user pointer, so each table that may be
 * wrapped has a function of its own here. Arguments cannot be handed on as they
 * are: the program's logger gets "%s" and the string.
 *
 * Not here: any judgement of the format. The real plugin passes arguments that
 * do not match its formats; glibc prints something for each, and so do we.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

/* In logger.rs, and not by name: a name would be a symbol of the shared object. Text ends in a zero. */
typedef void (*sink)(int table, int level, unsigned long flags, const char *file, int line, const char *text,
                     size_t length);

static sink logged;

enum { ON_STACK = 1024, LONGEST = 64 * 1024 };

static void speak(int table, int level, unsigned long flags, const char *file, int line, const char *format,
                  va_list args) {
  static const char unprintable[] = "(unprintable log line)";
  sink to = __atomic_load_n(&logged, __ATOMIC_ACQUIRE);
  if (to == NULL) return;
  int saved = errno;
  char small[ON_STACK], *large = NULL;
  const char *text = small;
  va_list again;
  va_copy(again, args);
  int need = vsnprintf(small, sizeof small, format == NULL ? "" : format, args);
  size_t length = need < 0 ? 0 : (size_t)need;
  if (need < 0) {
    text = unprintable;
    length = sizeof unprintable - 1;
  } else if (length >= sizeof small) {
    size_t room = length + 1 > LONGEST ? LONGEST : length + 1;
    large = malloc(room);
    if (large != NULL) {
      vsnprintf(large, room, format, again);
      text = large;
    }
    size_t most = large != NULL ? room - 1 : sizeof small - 1;
    length = length < most ? length : most;
  }
  va_end(again);
  errno = saved;
  to(table, level, flags, file, line, text, length);
  free(large);
  errno = saved;
}

#define LOGGER(table)                                                                                        \
  static void log_##table(int level, unsigned long flags, const char *file, int line, const char *format, ...) { \
    va_list args;                                                                                            \
    va_start(args, format);                                                                                  \
    speak(table, level, flags, file, line, format, args);                                                    \
    va_end(args);                                                                                            \
  }

/* Sixty-four, numbered in octal: four tables of each of sixteen versions. */
#define EIGHT(apply, a)                                                                                      \
  apply(0##a##0) apply(0##a##1) apply(0##a##2) apply(0##a##3)                                                \
  apply(0##a##4) apply(0##a##5) apply(0##a##6) apply(0##a##7)
#define ALL(apply)                                                                                           \
  EIGHT(apply, 0) EIGHT(apply, 1) EIGHT(apply, 2) EIGHT(apply, 3)                                            \
  EIGHT(apply, 4) EIGHT(apply, 5) EIGHT(apply, 6) EIGHT(apply, 7)

ALL(LOGGER)

#define NAME(table) log_##table,

/* The logger of a table; from here on lines go to that sink. */
logger tcpx_tap_logger(int table, sink to) {
  __atomic_store_n(&logged, to, __ATOMIC_RELEASE);
  static const logger loggers[] = {ALL(NAME)};
  return table < 0 || table >= (int)(sizeof loggers / sizeof *loggers) ? NULL : loggers[table];
}
