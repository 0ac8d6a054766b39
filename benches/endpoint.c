/* One end of a measurement of endpoints, over libtcpxp2p.so: `scripts/bench` starts two.
 *
 *   endpoint serve|drive --folder DIR --mode read|write|send|round|life --size N --pieces N --gap N --depth N --count N
 *                        --lanes N --memory N
 *
 * The serving end writes its metadata and a blob to DIR. The driving end operates `count` times with `depth` in
 * flight, each on `pieces` pieces of `size` bytes with `gap` bytes between them, and prints its numbers; `depth` more
 * are made before and not timed. `life` connects, closes and registers. With --memory, the buffer's addresses are
 * mapped to that many bytes again and again, so that a large message needs no more memory than a run's window has.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <tcpxp2p.h>
#include <unistd.h>

enum { WAIT_MS = 120000, OVER_MS = 3600000, LOOK_EVERY_MS = 20, METADATA_MAX = 2048, DEPTH_MAX = 256, PIECES_MAX = 1024 };

static const char *folder, *mode = "read";
static size_t size = 1 << 20, pieces = 1, gap = 0, depth = 1, count = 1, lanes = 4, memory = 0;
static tcpxp2p_endpoint *self;
static uint8_t *buffer;
static uint64_t registration;

static void check(const char *what, int result) {
    if (result != TCPXP2P_DONE) {
        fprintf(stderr, "%s: %s\n", what, tcpxp2p_last_error());
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void path(char *into, size_t room, const char *name) { snprintf(into, room, "%s/%s", folder, name); }

/* Writes a file that is complete as soon as it has its name. */
static void publish(const char *name, const void *bytes, size_t len) {
    char part[4096], whole[4096];
    path(part, sizeof part, "part");
    path(whole, sizeof whole, name);
    FILE *file = fopen(part, "w");
    if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0 || rename(part, whole) != 0) {
        perror(whole);
        exit(1);
    }
}

static size_t await(const char *name, void *bytes, size_t room, int within_ms) {
    char whole[4096];
    path(whole, sizeof whole, name);
    for (int waited = 0; waited < within_ms; waited += LOOK_EVERY_MS) {
        FILE *file = fopen(whole, "r");
        if (file) {
            size_t len = fread(bytes, 1, room, file);
            fclose(file);
            return len;
        }
        usleep(LOOK_EVERY_MS * 1000);
    }
    fprintf(stderr, "no %s\n", whole);
    exit(1);
}

/* A buffer of `len` bytes, of which each `memory` bytes are the same; `memory` is a multiple of a page. */
static uint8_t *repeated(size_t len) {
    int file = memfd_create("buffer", MFD_CLOEXEC);
    uint8_t *start = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (file < 0 || ftruncate(file, (off_t)memory) != 0 || start == MAP_FAILED) {
        perror("a repeated buffer");
        exit(1);
    }
    for (size_t at = 0; at < len; at += memory) {
        size_t part = len - at < memory ? len - at : memory;
        if (mmap(start + at, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
            perror("a repeated buffer");
            exit(1);
        }
    }
    close(file);
    return start;
}

static void open_endpoint(const char *name) {
    tcpxp2p_options options = {.size = sizeof options, .name = name, .plugin = getenv("BENCH_PLUGIN"),
                               .address = "127.0.0.1", .lanes = (uint32_t)lanes};
    check("create", tcpxp2p_create(&options, &self));
    size_t len = (size + gap) * pieces;
    buffer = memory > 0 ? repeated(len) : malloc(len);
    memset(buffer, 1, len);
    check("register", tcpxp2p_register(self, buffer, len, &registration));
}

static void serve(void) {
    uint8_t metadata[METADATA_MAX], blob[TCPXP2P_BLOB_BYTES];
    size_t len;
    open_endpoint("server");
    check("advertise", tcpxp2p_advertise(self, registration, buffer, (size + gap) * pieces, TCPXP2P_BOTH, &blob));
    check("metadata", tcpxp2p_metadata(self, metadata, sizeof metadata, &len));
    publish("blob", blob, sizeof blob);
    publish("metadata", metadata, len);
    if (strcmp(mode, "send") == 0) {
        uint64_t connection, transfers[DEPTH_MAX];
        check("accept", tcpxp2p_accept(self, WAIT_MS, &connection));
        size_t all = depth + count;
        for (size_t at = 0; at < all + depth; at++) {
            if (at >= depth) {
                check("wait", tcpxp2p_wait(self, transfers[at % depth], WAIT_MS));
            }
            if (at < all) {
                check("receive", tcpxp2p_receive(self, connection, registration, buffer, size, &transfers[at % depth]));
            }
        }
    }
    char word[8];
    /* However long the other end takes: the script that started both stops them. */
    await("over", word, sizeof word, OVER_MS);
}

static int compare(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static uint64_t begin(uint64_t connection, const tcpxp2p_piece *list) {
    uint64_t transfer;
    if (strcmp(mode, "send") == 0) {
        check("send", tcpxp2p_send(self, connection, registration, buffer, size, &transfer));
    } else if (strcmp(mode, "write") == 0) {
        check("write", tcpxp2p_write(self, connection, list, pieces, &transfer));
    } else {
        check("read", tcpxp2p_read(self, connection, list, pieces, &transfer));
    }
    return transfer;
}

static void measure(uint64_t connection, const uint8_t *blob) {
    static tcpxp2p_piece list[PIECES_MAX];
    for (size_t at = 0; at < pieces; at++) {
        list[at] = (tcpxp2p_piece){registration, buffer + at * (size + gap), size, blob, at * (size + gap)};
    }
    uint64_t transfers[DEPTH_MAX];
    double *times = malloc(sizeof *times * count), started[DEPTH_MAX];
    for (size_t at = 0; at < depth; at++) {
        check("wait", tcpxp2p_wait(self, begin(connection, list), WAIT_MS));
    }
    double start = now();
    for (size_t at = 0; at < count + depth; at++) {
        if (at >= depth) {
            check("wait", tcpxp2p_wait(self, transfers[at % depth], WAIT_MS));
            times[at - depth] = now() - started[at % depth];
        }
        if (at < count) {
            started[at % depth] = now();
            transfers[at % depth] = begin(connection, list);
        }
    }
    double seconds = (now() - start) / 1e9;
    qsort(times, count, sizeof *times, compare);
    printf("gb_per_s=%g messages_per_s=%g p50_ns=%g p99_ns=%g\n", (double)(size * pieces * count) / 1e9 / seconds,
           (double)(pieces * count) / seconds, times[count / 2], times[count * 99 / 100]);
}

static double resident(void) {
    unsigned long whole, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%lu %lu", &whole, &pages) != 2) {
            pages = 0;
        }
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static int descriptors(void) {
    int found = 0;
    DIR *all = opendir("/proc/self/fd");
    while (all && readdir(all)) {
        found++;
    }
    if (all) {
        closedir(all);
    }
    return found;
}

/* Connects and closes `count` times, and registers ten times as often: half the ranges are there already. */
static void live(const uint8_t *metadata, size_t len) {
    double bytes = 0, start = now();
    int held = 0;
    for (size_t at = 0; at < count; at++) {
        uint64_t connection, again;
        check("connect", tcpxp2p_connect(self, metadata, len, &connection));
        check("disconnect", tcpxp2p_disconnect(self, connection));
        for (int turn = 0; turn < 10; turn++) {
            check("register", tcpxp2p_register(self, buffer + turn % 2, size - 1, &again));
            check("deregister", tcpxp2p_deregister(self, again));
        }
        if (at == count / 10) {
            bytes = resident();
            held = descriptors();
        }
    }
    printf("seconds=%g more_bytes=%g more_descriptors=%d\n", (now() - start) / 1e9, resident() - bytes,
           descriptors() - held);
}

int main(int argc, char **argv) {
    for (int at = 2; at + 1 < argc; at += 2) {
        size_t number = strtoull(argv[at + 1], NULL, 10);
        if (strcmp(argv[at], "--folder") == 0) folder = argv[at + 1];
        else if (strcmp(argv[at], "--mode") == 0) mode = argv[at + 1];
        else if (strcmp(argv[at], "--size") == 0) size = number;
        else if (strcmp(argv[at], "--pieces") == 0) pieces = number;
        else if (strcmp(argv[at], "--gap") == 0) gap = number;
        else if (strcmp(argv[at], "--depth") == 0) depth = number;
        else if (strcmp(argv[at], "--count") == 0) count = number;
        else if (strcmp(argv[at], "--lanes") == 0) lanes = number;
        else if (strcmp(argv[at], "--memory") == 0) memory = number;
    }
    if (argc < 2 || !folder || depth < 1 || depth > DEPTH_MAX || pieces < 1 || pieces > PIECES_MAX || count < 1) {
        fprintf(stderr, "usage: see the top of endpoint.c\n");
        return 2;
    }
    if (strcmp(argv[1], "serve") == 0) {
        serve();
        return 0;
    }
    uint8_t metadata[METADATA_MAX], blob[TCPXP2P_BLOB_BYTES];
    size_t len = await("metadata", metadata, sizeof metadata, WAIT_MS);
    await("blob", blob, sizeof blob, WAIT_MS);
    open_endpoint("driver");
    if (strcmp(mode, "life") == 0) {
        live(metadata, len);
    } else {
        uint64_t connection;
        check("connect", tcpxp2p_connect(self, metadata, len, &connection));
        measure(connection, blob);
    }
    publish("over", "over", 4);
    check("destroy", tcpxp2p_destroy(self));
    return 0;
}
