/*
 * A program that uses an ncclNet plugin as NCCL and users' harnesses do, and prints
 * the results. It has no code for tcpxctl: with the same plugin, it must print the
 * same with and without the tap.
 *
 *   exchange [MESSAGES [BYTES [COMMS]]]
 *
 * It opens the plugin at UCCL_TCPX_PLUGIN_PATH, else at
 * NCCL_GPUDIRECTTCPX_PLUGIN_PATH, else as NCCL 2.21 reads NCCL_NET_PLUGIN (the name
 * itself, then libnccl-net-NAME.so), else libnccl-net.so. It uses version 8 if the
 * plugin exports it, else version 7, and moves messages between its own pairs of comms
 * on device 0. Sixteen requests are in flight; it tests the oldest request, and
 * consumes the oldest finished receive.
 *
 * Settings: EXCHANGE_FORK=1 forks a child that uses the plugin too;
 * EXCHANGE_FIXED=PATH opens that path regardless of other variables;
 * EXCHANGE_END=exit|abort ends right after the transfer; EXCHANGE_PAUSE=SECONDS
 * waits before the end; EXCHANGE_LOG=1 prints the plugin's log lines;
 * EXCHANGE_LOG=null passes no logger to the plugin; EXCHANGE_HANG=consume stops consuming
 * after half the messages, =test stops testing the last pair's receives then; either goes on
 * polling the rest until it is killed, for at most 60 seconds. =sleep and =spin make no more
 * calls then and sleep or compute, beside EXCHANGE_BUSY=N threads that compute. EXCHANGE_CONNECT_ONCE=1 takes
 * a first connect without a comm for a failure, =wait does nothing more then for 60 seconds.
 * EXCHANGE_NO_ACCEPT=1 never accepts.
 * EXCHANGE_MANGLED=1 connects and accepts by the C++ names of the functions, where the plugin
 * has them, and prints whether it does.
 *
 * Exit code: 0, or 3 without a plugin, 4 when a call failed, 5 for wrong bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 16, HANDLE = 128, PTR_HOST = 1, COMMS_MAX = 64 };
enum { NO_PLUGIN = 3, CALL_FAILED = 4, WRONG_BYTES = 5 };

typedef void (*logger_fn)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

struct properties_v7 {
    char *name, *pci_path;
    uint64_t guid;
    int ptr_support, speed, port;
    float latency;
    int max_comms, max_recvs, net_device_type, net_device_version;
};
struct properties_v8 {
    char *name, *pci_path;
    uint64_t guid;
    int ptr_support, reg_is_global, speed, port;
    float latency;
    int max_comms, max_recvs, net_device_type, net_device_version;
};
struct device_handle {
    int type, version;
    void *handle;
    size_t size;
    int needs_proxy_progress;
};

/* The two versions differ in regMr's size and in the properties. */
struct net {
    const char *name;
    int (*init)(logger_fn);
    int (*devices)(int *);
    int (*get_properties)(int, void *);
    int (*listen)(int, void *, void **);
    int (*connect)(int, void *, void **, struct device_handle **);
    int (*accept)(void *, void **, struct device_handle **);
    void *reg_mr;
    void *reg_mr_dma_buf;
    int (*dereg_mr)(void *, void *);
    int (*isend)(void *, void *, int, int, void *, void **);
    int (*irecv)(void *, int, void **, int *, int *, void **, void **);
    int (*iflush)(void *, int, void **, int *, void **, void **);
    int (*test)(void *, int *, int *);
    int (*close_send)(void *);
    int (*close_recv)(void *);
    int (*close_listen)(void *);
    int (*get_device_mr)(void *, void *, void **);
    int (*irecv_consumed)(void *, int, void *);
};
typedef int (*reg_mr_v7)(void *, void *, int, int, void **);
typedef int (*reg_mr_v8)(void *, void *, size_t, int, void **);

static const struct net *net;
static int version;

static void check(int code, const char *call) {
    if (code != 0) {
        printf("%s: %d\n", call, code);
        fflush(stdout);
        exit(CALL_FAILED);
    }
}

/* Many threads log, so each line is one write. */
static void log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    (void)flags;
    if (getenv("EXCHANGE_LOG") == NULL) return;
    char text[2048];
    int at = snprintf(text, sizeof text, "log %d %s:%d ", level, file, line);
    va_list args;
    va_start(args, format);
    at += vsnprintf(text + at, sizeof text - (size_t)at, format, args);
    va_end(args);
    if (at > (int)sizeof text - 2) at = sizeof text - 2;
    text[at++] = '\n';
    if (write(STDERR_FILENO, text, (size_t)at) < 0) abort();
}

static void *open_plugin(void) {
    const char *fixed = getenv("EXCHANGE_FIXED");
    if (fixed == NULL) fixed = getenv("UCCL_TCPX_PLUGIN_PATH");
    if (fixed == NULL) fixed = getenv("NCCL_GPUDIRECTTCPX_PLUGIN_PATH");
    if (fixed != NULL) return dlopen(fixed, RTLD_NOW | RTLD_LOCAL);
    const char *name = getenv("NCCL_NET_PLUGIN");
    if (name == NULL) return dlopen("libnccl-net.so", RTLD_NOW | RTLD_LOCAL);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    char longer[512];
    snprintf(longer, sizeof longer, "libnccl-net-%s.so", name);
    return library != NULL ? library : dlopen(longer, RTLD_NOW | RTLD_LOCAL);
}

static void load(void) {
    void *library = open_plugin();
    if (library == NULL) {
        printf("no plugin: %s\n", dlerror());
        exit(NO_PLUGIN);
    }
    version = 8;
    net = dlsym(library, "ncclNetPlugin_v8");
    if (net == NULL) {
        version = 7;
        net = dlsym(library, "ncclNetPlugin_v7");
    }
    if (net == NULL) {
        printf("no version 8 or 7\n");
        exit(NO_PLUGIN);
    }
    if (getenv("EXCHANGE_MANGLED") != NULL) {
        static struct net by_name;
        void *connect = dlsym(library, "_Z14tcpxConnect_v5iPvPS_PP24ncclNetDeviceHandle_v7_t");
        void *accept = dlsym(library, "_Z13tcpxAccept_v5PvPS_PP24ncclNetDeviceHandle_v7_t");
        printf("C++ names %d %d\n", connect != NULL, accept != NULL);
        by_name = *net;
        if (connect != NULL) memcpy(&by_name.connect, &connect, sizeof connect);
        if (accept != NULL) memcpy(&by_name.accept, &accept, sizeof accept);
        net = &by_name;
    }
    printf("version %d name %s regMrDmaBuf %d getDeviceMr %d irecvConsumed %d iflush %d\n", version, net->name,
           net->reg_mr_dma_buf != NULL, net->get_device_mr != NULL, net->irecv_consumed != NULL, net->iflush != NULL);
}

static void describe(void) {
    int count = -1;
    check(net->devices(&count), "devices");
    printf("devices %d\n", count);
    for (int dev = 0; dev < count; dev++) {
        /* Extra space to detect a table that writes the longer properties. */
        union {
            struct properties_v7 v7;
            struct properties_v8 v8;
            unsigned char bytes[96];
        } props;
        memset(&props, 0xa5, sizeof props);
        memset(&props, 0, version == 8 ? sizeof props.v8 : sizeof props.v7);
        check(net->get_properties(dev, &props), "getProperties");
        for (size_t at = version == 8 ? sizeof props.v8 : sizeof props.v7; at < sizeof props.bytes; at++)
            if (props.bytes[at] != 0xa5) printf("properties end beyond %zu\n", at);
        printf("device %d %s speed %d pointers %d type %d\n", dev, props.v7.name,
               version == 8 ? props.v8.speed : props.v7.speed, props.v7.ptr_support,
               version == 8 ? props.v8.net_device_type : props.v7.net_device_type);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *register_memory(void *comm, void *data, size_t bytes) {
    void *handle = NULL;
    int code = version == 8 ? ((reg_mr_v8)net->reg_mr)(comm, data, bytes, PTR_HOST, &handle)
                            : ((reg_mr_v7)net->reg_mr)(comm, data, (int)bytes, PTR_HOST, &handle);
    check(code, "regMr");
    return handle;
}

struct side {
    void *comm, *mhandle, *requests[WINDOW];
    unsigned char *memory;
    int posted, done, kept; /* kept: done and never consumed */
};
struct pair {
    struct side send, recv;
    struct device_handle device;
    int wrong;
};

static void join(struct pair *pair, size_t bytes) {
    unsigned char handle[HANDLE] = {0};
    void *listener = NULL;
    struct device_handle *device = &pair->device, *none = NULL;
    check(net->listen(0, handle, &listener), "listen");
    double deadline = now() + 30;
    const char *once = getenv("EXCHANGE_CONNECT_ONCE");
    while ((pair->send.comm == NULL || pair->recv.comm == NULL) && now() < deadline) {
        if (pair->send.comm == NULL) check(net->connect(0, handle, &pair->send.comm, &none), "connect");
        if (pair->send.comm == NULL && once != NULL) {
            if (strcmp(once, "wait") == 0) sleep(60);
            check(-1, "no comm");
        }
        if (pair->recv.comm == NULL && getenv("EXCHANGE_NO_ACCEPT") == NULL)
            check(net->accept(listener, &pair->recv.comm, &device), "accept");
    }
    if (now() >= deadline) check(-1, "no connection within 30 s");
    printf("connected, unpack %d\n", pair->device.type);
    check(net->close_listen(listener), "closeListen");
    for (int at = 0; at < 2; at++) {
        struct side *side = at == 0 ? &pair->send : &pair->recv;
        side->memory = aligned_alloc(4096, (bytes * WINDOW + 4095) / 4096 * 4096);
        if (side->memory == NULL) abort();
        memset(side->memory, 0, bytes * WINDOW);
        side->mhandle = register_memory(side->comm, side->memory, bytes * WINDOW);
    }
}

static void fill(unsigned char *memory, size_t bytes, int message) {
    for (size_t at = 0; at < bytes; at++) memory[at] = (unsigned char)(at * 7 + (size_t)message * 13);
}

/* Copies a receive from bounce pages into the message. In the layout of the unpack handle, slot
 * `message mod 16` of the metadata has a count and that many entries. */
static void unpack(const struct device_handle *device, unsigned char *memory, size_t bytes, int message) {
    struct entry {
        uint32_t from, length;
        uint64_t to;
    };
    enum { SLOTS = 16, ENTRIES = 2048 };
    if (device->type != 1 || device->handle == NULL) return;
    const unsigned char *meta = ((unsigned char **)device->handle)[0], *pages = ((unsigned char **)device->handle)[1];
    const struct entry *entries = (const struct entry *)meta + (size_t)(message % SLOTS) * ENTRIES;
    const uint64_t *counts = (const uint64_t *)(meta + sizeof(struct entry) * SLOTS * ENTRIES);
    for (uint64_t at = 0; at < counts[message % SLOTS] && at < ENTRIES; at++)
        if (entries[at].to + entries[at].length <= bytes)
            memcpy(memory + entries[at].to, pages + entries[at].from, entries[at].length);
}

static int is_right(const unsigned char *memory, size_t bytes, int message) {
    for (size_t at = 0; at < bytes; at++)
        if (memory[at] != (unsigned char)(at * 7 + (size_t)message * 13)) return 0;
    return 1;
}

static const char *const AWAY[] = {"sleep", "spin"};

/* Whether a hang of this kind has begun. */
static int hangs(const char *how, int done, int messages) {
    const char *hang = getenv("EXCHANGE_HANG");
    return hang != NULL && strcmp(hang, how) == 0 && done >= messages / 2;
}

static void *spin(void *until) {
    for (volatile unsigned turns = 0; now() < *(double *)until; turns++) {}
    return NULL;
}

/* Does something else than calling the plugin, until then. */
static void leave_alone(const char *how, double until) {
    const char *busy = getenv("EXCHANGE_BUSY");
    pthread_t thread;
    for (int left = busy == NULL ? 0 : atoi(busy); left > 0; left--)
        if (pthread_create(&thread, NULL, spin, &until) != 0) exit(CALL_FAILED);
    if (strcmp(how, "spin") == 0) spin(&until);
    while (now() < until) usleep(50000);
    exit(CALL_FAILED);
}

/* One round of one pair: posts while slots are free, and tests each side's oldest request. */
static void step(struct pair *pair, int messages, size_t bytes, int is_last) {
    struct side *send = &pair->send, *recv = &pair->recv;
    while (recv->posted < messages && recv->posted - recv->done + recv->kept < WINDOW) {
        int place = recv->posted % WINDOW, size = (int)bytes, tag = 0;
        void *data = recv->memory + (size_t)place * bytes, *request = NULL;
        check(net->irecv(recv->comm, 1, &data, &size, &tag, &recv->mhandle, &request), "irecv");
        if (request == NULL) break;
        recv->requests[place] = request;
        recv->posted++;
    }
    while (send->posted < messages && send->posted - send->done < WINDOW) {
        int place = send->posted % WINDOW;
        unsigned char *data = send->memory + (size_t)place * bytes;
        void *request = NULL;
        fill(data, bytes, send->posted);
        check(net->isend(send->comm, data, (int)bytes, 0, send->mhandle, &request), "isend");
        if (request == NULL) break;
        send->requests[place] = request;
        send->posted++;
    }
    for (int at = 0; at < 2; at++) {
        struct side *side = at == 0 ? send : recv;
        if (side->done == side->posted) continue;
        if (side == recv && is_last && hangs("test", side->done, messages)) continue;
        int place = side->done % WINDOW, done = 0, size = 0;
        check(net->test(side->requests[place], &done, &size), "test");
        if (!done) continue;
        if (side == recv) {
            unsigned char *memory = recv->memory + (size_t)place * bytes;
            unpack(&pair->device, memory, bytes, recv->done);
            if (!is_right(memory, bytes, recv->done)) pair->wrong++;
            memset(memory, 0, bytes);
            if (hangs("consume", recv->done, messages))
                recv->kept++;
            else if (net->irecv_consumed != NULL)
                check(net->irecv_consumed(recv->comm, 1, side->requests[place]), "irecvConsumed");
        }
        side->done++;
    }
}

static void finish(struct pair *pair) {
    for (int at = 0; at < 2; at++) {
        struct side *side = at == 0 ? &pair->send : &pair->recv;
        void *device_mr = &device_mr;
        if (net->get_device_mr != NULL) check(net->get_device_mr(side->comm, side->mhandle, &device_mr), "getDeviceMr");
        if (net->get_device_mr != NULL && device_mr != &device_mr) printf("getDeviceMr wrote\n");
        check(net->dereg_mr(side->comm, side->mhandle), "deregMr");
        check((at == 0 ? net->close_send : net->close_recv)(side->comm), "close");
        free(side->memory);
    }
}

static int exchange(int messages, size_t bytes, int comms) {
    static struct pair pairs[COMMS_MAX];
    memset(pairs, 0, sizeof pairs);
    for (int at = 0; at < comms; at++) join(&pairs[at], bytes);
    int moved = 0, wrong = 0;
    double started = now(), deadline = started + 60;
    while (moved < comms) {
        moved = 0;
        for (int at = 0; at < comms; at++) {
            step(&pairs[at], messages, bytes, at == comms - 1);
            moved += pairs[at].recv.done == messages && pairs[at].send.done == messages;
        }
        for (int at = 0; at < 2; at++)
            if (hangs(AWAY[at], pairs[0].recv.done, messages)) leave_alone(AWAY[at], deadline);
        if (now() >= deadline) check(-1, "not moved within 60 s");
    }
    double seconds = now() - started;
    const char *end = getenv("EXCHANGE_END");
    if (end != NULL && strcmp(end, "exit") == 0) exit(77);
    if (end != NULL && strcmp(end, "abort") == 0) abort();
    for (int at = 0; at < comms; at++) {
        wrong += pairs[at].wrong;
        finish(&pairs[at]);
    }
    printf("moved %d messages of %zu bytes over %d comms, %d wrong\n", messages, bytes, comms, wrong);
    fprintf(stderr, "seconds=%.6f gb_per_s=%.4f\n", seconds,
            (double)messages * (double)bytes * comms / seconds / 1e9);
    return wrong == 0 ? 0 : WRONG_BYTES;
}

int main(int argc, char **argv) {
    int messages = argc > 1 ? atoi(argv[1]) : 100;
    size_t bytes = argc > 2 ? (size_t)atol(argv[2]) : 4096;
    int comms = argc > 3 ? atoi(argv[3]) : 2;
    if (messages < 1 || bytes < 1 || comms < 1 || comms > COMMS_MAX) return 2;
    load();
    const char *log = getenv("EXCHANGE_LOG");
    check(net->init(log != NULL && strcmp(log, "null") == 0 ? NULL : log_line), "init");
    describe();
    int code = exchange(messages, bytes, comms);
    if (getenv("EXCHANGE_PAUSE") != NULL) sleep((unsigned)atoi(getenv("EXCHANGE_PAUSE")));
    if (getenv("EXCHANGE_FORK") != NULL && code == 0) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            code = exchange(messages, bytes, 1);
            fflush(stdout);
            _exit(code);
        }
        int status = 0;
        waitpid(child, &status, 0);
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        printf("the child ended with %d\n", code);
        if (code == 0) code = exchange(messages, bytes, 1);
    }
    return code;
}
