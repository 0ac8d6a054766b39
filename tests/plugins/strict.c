/*
 * A second ncclNet v7 plugin for tests. It moves bytes correctly, and punishes
 * incorrect callers as GPUDirect-TCPX 3.1.9 does.
 *
 * It was written from the plugin ABI and the observed behaviour of the real
 * plugin. It shares no code and no wire format with the software plugin, and
 * connects only to itself. Host memory only; a CUDA registration fails as with
 * the real plugin on a machine without dma-buf.
 *
 * Each such behaviour is a named hazard. The hazards that the real plugin always
 * has are on by default; STRICT_HAZARD adds others, as `name` or `name=N`, after
 * `none` to start from an empty set: STRICT_HAZARD=none,dead-data-socket=20.
 * An unknown name makes init fail, so that a test with a misspelt name fails.
 *
 *   second-accept       (default) another accept on one listener aborts
 *   null-device-handle  (default) accept without a device handle crashes
 *   reused-handle       (default) connect with a used-up handle buffer aborts
 *   eof-once            (default) test returns 2 when it first reads the end
 *                       of the ctrl socket, even if all data has arrived
 *   close-fd0           (default) a failed CUDA registration closes fd 0
 *   sigpipe             (default) sends lack MSG_NOSIGNAL
 *   no-sizes            (default) test never writes its sizes
 *   chunk-unset         (default) NCCL_DYNAMIC_CHUNK_SIZE unset is 0: messages
 *                       are split into empty chunks and never end
 *   warn-flood=N        N WARN lines per poll of a receive (default: 1)
 *   close-blocks        closeRecv never returns
 *   dead-data-socket=N  a receiver's helper ends after N chunks, and test
 *                       answers "not done" from then on
 *   no-cmsg-exit=N      a receiver's helper calls exit(1) after N chunks
 *   crash-in-test=N     the Nth test of the process crashes
 *   stdout              init prints on stdout
 *   init-hang, init-abort, init-exit, init-error, no-devices
 *
 * Other settings: NCCL_DYNAMIC_CHUNK_SIZE, NCCL_NSOCKS_PERTHREAD and
 * NCCL_SOCKET_NTHREADS as the real plugin reads them, and
 * NCCL_GPUDIRECTTCPX_SOCKET_IFNAME in NCCL's syntax.
 *
 * Progress happens only in `test`, which splits messages into chunks, exchanges
 * 16-byte headers over a ctrl socket, and reaps finished chunks. One helper thread
 * per comm moves the chunks over the data sockets; it spins while there is work and
 * sleeps while there is none.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INTERNAL_ERROR = 3 };
enum { PTR_HOST = 1, PTR_CUDA = 2 };
enum { DEVICE_UNPACK = 1, UNPACK_VERSION = 7 };
/* Requests of a comm; a plugin that is made of this one may grant fewer. */
static unsigned strict_slots = 16;
enum { REQUESTS = 16, TASKS = 6, LANES = 8, DEVICES = 16, HEADERS = 8 };
enum { SETUP_PAUSE_MS = 10, SETUP_LIMIT_MS = 60000, REFUSED_RETRIES = 2000 };

/* ---- the ABI, version 7 ------------------------------------------------- */

typedef void (*logger_fn)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

struct properties {
    char *name;
    char *pci_path;
    uint64_t guid;
    int ptr_support;
    int speed;
    int port;
    float latency;
    int max_comms;
    int max_recvs;
    int net_device_type;
    int net_device_version;
};

struct device_handle {
    int type;
    int version;
    void *handle;
    size_t size;
    int needs_proxy_progress;
};

struct net {
    const char *name;
    int (*init)(logger_fn);
    int (*devices)(int *);
    int (*get_properties)(int, struct properties *);
    int (*listen)(int, void *, void **);
    int (*connect)(int, void *, void **, struct device_handle **);
    int (*accept)(void *, void **, struct device_handle **);
    int (*reg_mr)(void *, void *, int, int, void **);
    int (*reg_mr_dma_buf)(void *, void *, size_t, int, uint64_t, int, void **);
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

_Static_assert(sizeof(struct properties) == 56, "properties");
_Static_assert(sizeof(struct device_handle) == 32, "device handle");
_Static_assert(sizeof(struct net) == 152, "table");

/* The handle for an unpack kernel; it is in host memory instead of device memory. */
struct load_meta { uint32_t src_off, len; uint64_t dst_off; };
struct unpack_meta { struct load_meta mem[REQUESTS][2048]; uint64_t cnt[REQUESTS]; };
struct unpack_handle { struct unpack_meta *meta; void *bounce; uint64_t head; };

_Static_assert(sizeof(struct unpack_meta) == 524416, "unpack meta");
_Static_assert(sizeof(struct unpack_handle) == 24, "unpack handle");

/* ---- hazards and settings ----------------------------------------------- */

enum hazard {
    SECOND_ACCEPT, NULL_DEVICE_HANDLE, REUSED_HANDLE, EOF_ONCE, CLOSE_FD0, SIGPIPE_KILLS, NO_SIZES, CHUNK_UNSET,
    WARN_FLOOD, CLOSE_BLOCKS, DEAD_DATA_SOCKET, NO_CMSG_EXIT, CRASH_IN_TEST, STDOUT_TEXT,
    INIT_HANG, INIT_ABORT, INIT_EXIT, INIT_ERROR, NO_DEVICES, HAZARDS
};

static struct { const char *name; bool on; long at; } hazards[HAZARDS] = {
    [SECOND_ACCEPT] = {"second-accept", true, 1}, [NULL_DEVICE_HANDLE] = {"null-device-handle", true, 1},
    [REUSED_HANDLE] = {"reused-handle", true, 1}, [EOF_ONCE] = {"eof-once", true, 1},
    [CLOSE_FD0] = {"close-fd0", true, 1}, [SIGPIPE_KILLS] = {"sigpipe", true, 1},
    [NO_SIZES] = {"no-sizes", true, 1}, [CHUNK_UNSET] = {"chunk-unset", true, 1},
    [WARN_FLOOD] = {"warn-flood", false, 1}, [CLOSE_BLOCKS] = {"close-blocks", false, 1},
    [DEAD_DATA_SOCKET] = {"dead-data-socket", false, 1}, [NO_CMSG_EXIT] = {"no-cmsg-exit", false, 1},
    [CRASH_IN_TEST] = {"crash-in-test", false, 1}, [STDOUT_TEXT] = {"stdout", false, 1},
    [INIT_HANG] = {"init-hang", false, 1}, [INIT_ABORT] = {"init-abort", false, 1},
    [INIT_EXIT] = {"init-exit", false, 1}, [INIT_ERROR] = {"init-error", false, 1},
    [NO_DEVICES] = {"no-devices", false, 1},
};

static struct { int chunk, threads, sockets_per_thread; } settings;

/* Until init, log lines go to stdout, as in the real plugin. */
static void log_to_stdout(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    (void)level;
    (void)flags;
    va_list arguments;
    va_start(arguments, format);
    printf("%s:%d ", file, line);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

static logger_fn logger = log_to_stdout;

#define WARN(...) logger(2, ~0UL, __func__, __LINE__, __VA_ARGS__)
#define INFO(...) logger(3, 0x11UL, __func__, __LINE__, __VA_ARGS__)

/* A real segmentation fault: if a handler returns, the instruction faults again. */
static void crash(void)
{
    int *volatile nowhere = NULL;
    *(volatile int *)nowhere = 0;
}

/* For calls with undefined behaviour in the real plugin: ends the process if the hazard is on, else refuses. */
static int misuse(enum hazard hazard, const char *what)
{
    WARN("NET/Strict : %s", what);
    if (hazards[hazard].on) {
        if (hazard == NULL_DEVICE_HANDLE)
            crash();
        abort();
    }
    return INTERNAL_ERROR;
}

static bool take_hazard(const char *word)
{
    size_t length = strcspn(word, "=");
    for (int i = 0; i < HAZARDS; i++) {
        if (strlen(hazards[i].name) != length || strncmp(hazards[i].name, word, length) != 0)
            continue;
        hazards[i].on = true;
        if (word[length] == '=')
            hazards[i].at = strtol(word + length + 1, NULL, 10);
        return hazards[i].at > 0;
    }
    return false;
}

static int read_hazards(void)
{
    char list[512];
    const char *value = getenv("STRICT_HAZARD");
    snprintf(list, sizeof list, "%s", value ? value : "");
    char *rest = NULL;
    for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (strcmp(word, "none") == 0) {
            for (int i = 0; i < HAZARDS; i++)
                hazards[i].on = false;
        } else if (!take_hazard(word)) {
            WARN("NET/Strict : STRICT_HAZARD: unknown hazard %s", word);
            return INTERNAL_ERROR;
        }
    }
    return SUCCESS;
}

/* As in the real plugin: base 0, a unit suffix is ignored, a value out of range gives the default. */
static int number(const char *name, long long least, long long most, int otherwise)
{
    const char *value = getenv(name);
    long long parsed = value ? strtoll(value, NULL, 0) : otherwise;
    if (parsed < least || parsed > most) {
        INFO("NET/Strict : %s %lld invalid, restore to default.", name, parsed);
        return otherwise;
    }
    return (int)parsed;
}

static void read_settings(void)
{
    settings.chunk = number("NCCL_DYNAMIC_CHUNK_SIZE", 0, INT_MAX - 1, hazards[CHUNK_UNSET].on ? 0 : 512 << 10);
    settings.threads = number("NCCL_SOCKET_NTHREADS", 1, 16, 1);
    settings.sockets_per_thread = number("NCCL_NSOCKS_PERTHREAD", 1, LANES, 1);
    if (settings.threads * settings.sockets_per_thread > LANES)
        settings.sockets_per_thread = LANES / settings.threads;
    INFO("NET/Strict : dynamic chunk size: %d", settings.chunk);
    INFO("NET/Strict : Using %d threads and %d sockets per thread", settings.threads, settings.sockets_per_thread);
}

/* ---- devices ------------------------------------------------------------ */

static struct { char name[IF_NAMESIZE]; char pci_path[PATH_MAX]; struct in_addr address; int speed; } devices[DEVICES];
static int device_count = -1;

/* NCCL's syntax: a list of prefixes, `=` before it for whole names, `^` to exclude. */
static bool is_chosen(const char *name, unsigned flags)
{
    const char *list = getenv("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME");
    if (!list || strlen(list) < 2)
        return !(flags & IFF_LOOPBACK);
    bool exclude = *list == '^';
    list += exclude;
    bool whole = *list == '=';
    list += whole;
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (strncmp(name, list, length) == 0 && (!whole || strlen(name) == length))
            return !exclude;
    }
    return exclude;
}

static void describe_device(int dev)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/sys/class/net/%s/device", devices[dev].name);
    if (!realpath(path, devices[dev].pci_path))
        devices[dev].pci_path[0] = '\0';
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", devices[dev].name);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%d", &devices[dev].speed) != 1 || devices[dev].speed <= 0)
        devices[dev].speed = 10000;
    if (file)
        fclose(file);
}

static int by_name(const void *one, const void *other)
{
    return strcmp(one, other); /* the name comes first in a device */
}

static void find_devices(void)
{
    struct ifaddrs *all = NULL;
    device_count = 0;
    if (getifaddrs(&all) != 0)
        return;
    for (struct ifaddrs *entry = all; entry && device_count < DEVICES; entry = entry->ifa_next) {
        bool usable = entry->ifa_addr && entry->ifa_addr->sa_family == AF_INET && (entry->ifa_flags & IFF_UP);
        if (!usable || !is_chosen(entry->ifa_name, entry->ifa_flags))
            continue;
        snprintf(devices[device_count].name, sizeof devices[0].name, "%s", entry->ifa_name);
        devices[device_count++].address = ((struct sockaddr_in *)(void *)entry->ifa_addr)->sin_addr;
    }
    freeifaddrs(all);
    qsort(devices, (size_t)device_count, sizeof devices[0], by_name);
    for (int dev = 0; dev < device_count; dev++)
        describe_device(dev);
}

static int strict_init(logger_fn given)
{
    logger = given ? given : log_to_stdout;
    if (read_hazards() != SUCCESS || hazards[INIT_ERROR].on)
        return INTERNAL_ERROR;
    if (hazards[STDOUT_TEXT].on) {
        log_to_stdout(3, 0, __func__, __LINE__, "a line that should have gone to the logger");
        fflush(stdout);
    }
    if (hazards[INIT_ABORT].on)
        abort();
    if (hazards[INIT_EXIT].on)
        exit(1);
    while (hazards[INIT_HANG].on)
        pause();
    read_settings();
    find_devices();
    if (hazards[NO_DEVICES].on)
        device_count = 0;
    INFO("NET/Strict plugin initialized");
    INFO("NET/Strict ver. 1.");
    return SUCCESS;
}

static int strict_devices(int *count)
{
    *count = device_count;
    return SUCCESS;
}

static int strict_get_properties(int dev, struct properties *properties)
{
    if (dev < 0 || dev >= device_count)
        return INTERNAL_ERROR;
    *properties = (struct properties){
        .name = devices[dev].name,
        .pci_path = devices[dev].pci_path[0] ? devices[dev].pci_path : NULL,
        .guid = (uint64_t)dev,
        .ptr_support = PTR_HOST | PTR_CUDA,
        .speed = devices[dev].speed,
        .max_comms = 65536,
        .max_recvs = 1,
        .net_device_type = DEVICE_UNPACK,
        .net_device_version = UNPACK_VERSION,
    };
    return SUCCESS;
}

/* ---- comms -------------------------------------------------------------- */

/* The fields that callers of the real plugin read from a request are at the same offsets. */
struct request {
    struct comm *comm;
    char *data;
    int is_receive;
    int mem_type;
    int next_lane;
    int next_size;
    int offset;  /* assigned to chunks so far */
    int size;    /* a receive adopts the sender's */
    int pending; /* not yet reaped; -1 on a receive until its first header */
    char reserved[12];
    struct { uint8_t active; uint64_t idx; struct load_meta *mem; uint64_t *cnt; uint64_t unused[5]; } slot;
};

_Static_assert(offsetof(struct request, size) == 36, "request size");
_Static_assert(offsetof(struct request, slot) == 56 && sizeof(struct request) == 128, "request slot");

struct task { struct request *request; char *at; int bytes, left; };

/* One data socket and its chunks: `test` queues and reaps, the helper finishes. */
struct lane {
    int fd;
    struct task tasks[TASKS];
    atomic_uint queued, finished;
    unsigned reaped;
};

struct header { uint32_t lane, bytes, total, offset; };

/* Five counters that only grow cut the ring into free, posted, active, transmitting and inactive requests. */
struct comm {
    bool is_receiver;
    int ctrl, lane_count, next_lane;
    struct lane lanes[LANES];
    struct request ring[REQUESTS];
    unsigned posted, activated, assigned, finished, freed;
    struct header headers[HEADERS];
    size_t header_bytes; /* waiting to go out, or read and not used */
    bool ended;          /* the peer closed the ctrl socket */
    pthread_t helper;
    bool helper_started;
    atomic_bool stop, asleep;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct unpack_meta *meta;
    struct unpack_handle unpack;
};

static struct comm *new_comm(bool is_receiver, int lane_count)
{
    struct comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return NULL;
    comm->is_receiver = is_receiver;
    comm->lane_count = lane_count;
    comm->ctrl = -1;
    for (int lane = 0; lane < LANES; lane++)
        comm->lanes[lane].fd = -1;
    pthread_mutex_init(&comm->mutex, NULL);
    pthread_cond_init(&comm->work, NULL);
    return comm;
}

static void wake(struct comm *comm)
{
    if (!atomic_load(&comm->asleep))
        return;
    pthread_mutex_lock(&comm->mutex);
    pthread_cond_signal(&comm->work);
    pthread_mutex_unlock(&comm->mutex);
}

static void free_comm(struct comm *comm)
{
    atomic_store(&comm->stop, true);
    wake(comm);
    if (comm->helper_started)
        pthread_join(comm->helper, NULL);
    for (int lane = 0; lane < LANES; lane++)
        if (comm->lanes[lane].fd >= 0)
            close(comm->lanes[lane].fd);
    if (comm->ctrl >= 0)
        close(comm->ctrl);
    pthread_cond_destroy(&comm->work);
    pthread_mutex_destroy(&comm->mutex);
    free(comm->meta);
    free(comm);
}

/* The place of socket `index` of a connection: the data sockets, then ctrl. */
static int *socket_of(struct comm *comm, int index)
{
    return index == comm->lane_count ? &comm->ctrl : &comm->lanes[index].fd;
}

static int send_flags(void)
{
    return MSG_DONTWAIT | (hazards[SIGPIPE_KILLS].on ? 0 : MSG_NOSIGNAL);
}

static void sleep_ms(int milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
}

/* ---- connection set-up -------------------------------------------------- */

/* Contents of the 128-byte handle; connect keeps its state in the last eight bytes. */
struct wire_handle {
    uint64_t token;
    struct sockaddr_in address;
    int32_t lane_count;
    char reserved[52];
    struct attempt *attempt;
};

_Static_assert(offsetof(struct wire_handle, attempt) == 80 && sizeof(struct wire_handle) == 88, "handle");

struct hello { uint64_t token; int32_t index; int32_t zero; };

/* State of one connect. It is never freed, so that a second use of its handle is always detected. */
struct attempt {
    struct wire_handle handle;
    int dev;
    int result;
    struct comm *comm;
    atomic_bool ready;
    bool delivered;
};

struct listener {
    int fd, dev, lane_count, result;
    uint64_t token;
    struct comm *comm;
    pthread_t thread;
    bool started, delivered;
    atomic_bool ready;
};

static int strict_listen(int dev, void *handle, void **listen_comm)
{
    if (dev < 0 || dev >= device_count)
        return INTERNAL_ERROR;
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return SYSTEM_ERROR;
    listener->dev = dev;
    listener->lane_count = settings.threads * settings.sockets_per_thread;
    struct wire_handle wire = {.lane_count = listener->lane_count};
    socklen_t length = sizeof wire.address;
    wire.address.sin_family = AF_INET;
    wire.address.sin_addr = devices[dev].address;
    listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool listening = listener->fd >= 0 && getrandom(&wire.token, sizeof wire.token, 0) == sizeof wire.token &&
                     bind(listener->fd, (struct sockaddr *)&wire.address, sizeof wire.address) == 0 &&
                     listen(listener->fd, 16384) == 0 &&
                     getsockname(listener->fd, (struct sockaddr *)&wire.address, &length) == 0;
    if (!listening) {
        WARN("NET/Strict : listen failed : %s", strerror(errno));
        if (listener->fd >= 0)
            close(listener->fd);
        free(listener);
        return SYSTEM_ERROR;
    }
    listener->token = wire.token;
    memcpy(handle, &wire, sizeof wire);
    *listen_comm = listener;
    return SUCCESS;
}

/* Connects a socket from the device's own address; a refused connection is retried. */
static int dial(const struct attempt *attempt)
{
    for (int attempts_left = REFUSED_RETRIES; attempts_left > 0; attempts_left--) {
        struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr = devices[attempt->dev].address};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return -1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        if (bind(fd, (struct sockaddr *)&local, sizeof local) == 0 &&
            connect(fd, (const struct sockaddr *)&attempt->handle.address, sizeof attempt->handle.address) == 0)
            return fd;
        bool refused = errno == ECONNREFUSED;
        close(fd);
        if (!refused)
            return -1;
        sleep_ms(1);
    }
    return -1;
}

/* The acceptor answers with one byte once it has every socket. */
static bool wait_accepted(int ctrl)
{
    char byte;
    struct pollfd waiting = {.fd = ctrl, .events = POLLIN};
    return poll(&waiting, 1, SETUP_LIMIT_MS) == 1 && recv(ctrl, &byte, 1, 0) == 1;
}

static void *connect_thread(void *argument)
{
    struct attempt *attempt = argument;
    int lane_count = attempt->handle.lane_count;
    struct comm *comm = new_comm(false, lane_count);
    bool connected = comm != NULL;
    for (int index = lane_count; connected && index >= 0; index--) {
        struct hello hello = {.token = attempt->handle.token, .index = index};
        sleep_ms(SETUP_PAUSE_MS);
        int fd = dial(attempt);
        *socket_of(comm, index) = fd;
        connected = fd >= 0 && send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
    }
    if (connected && wait_accepted(comm->ctrl)) {
        attempt->comm = comm;
    } else {
        WARN("NET/Strict : failed to connect socket");
        attempt->result = SYSTEM_ERROR;
        if (comm)
            free_comm(comm);
    }
    atomic_store(&attempt->ready, true);
    return NULL;
}

static int start_attempt(int dev, void *handle)
{
    struct attempt *attempt = calloc(1, sizeof *attempt);
    pthread_t thread;
    if (!attempt)
        return SYSTEM_ERROR;
    memcpy(&attempt->handle, handle, sizeof attempt->handle);
    attempt->dev = dev;
    if (attempt->handle.lane_count < 0 || attempt->handle.lane_count > LANES ||
        pthread_create(&thread, NULL, connect_thread, attempt) != 0) {
        free(attempt);
        return INTERNAL_ERROR;
    }
    pthread_detach(thread);
    memcpy((char *)handle + offsetof(struct wire_handle, attempt), &attempt, sizeof attempt);
    return SUCCESS;
}

static int strict_connect(int dev, void *handle, void **send_comm, struct device_handle **device_handle)
{
    struct attempt *attempt;
    (void)device_handle;
    *send_comm = NULL;
    if (dev < 0 || dev >= device_count)
        return INTERNAL_ERROR;
    memcpy(&attempt, (char *)handle + offsetof(struct wire_handle, attempt), sizeof attempt);
    if (!attempt)
        return start_attempt(dev, handle);
    if (attempt->delivered)
        return misuse(REUSED_HANDLE, "connect called with a used handle buffer");
    if (!atomic_load(&attempt->ready))
        return SUCCESS;
    attempt->delivered = true;
    *send_comm = attempt->comm;
    return attempt->result;
}

/* Accepts one connection, and drops it unless it belongs to this listener. True if it does. */
static bool take_socket(struct listener *listener, struct comm *comm)
{
    struct hello hello;
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 1}, sizeof(struct timeval));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    bool ours = recv(fd, &hello, sizeof hello, MSG_WAITALL) == sizeof hello && hello.token == listener->token &&
                hello.index >= 0 && hello.index <= comm->lane_count && *socket_of(comm, hello.index) < 0;
    if (ours)
        *socket_of(comm, hello.index) = fd;
    else
        close(fd);
    return ours;
}

static void *accept_thread(void *argument)
{
    struct listener *listener = argument;
    struct comm *comm = new_comm(true, listener->lane_count);
    int missing = comm ? listener->lane_count + 1 : -1;
    while (missing > 0) {
        struct pollfd waiting = {.fd = listener->fd, .events = POLLIN};
        /* closeListen shuts the socket down, which ends this wait. */
        if (poll(&waiting, 1, SETUP_LIMIT_MS) != 1 || !(waiting.revents & POLLIN) || (waiting.revents & POLLHUP))
            break;
        missing -= take_socket(listener, comm);
    }
    if (missing == 0 && send(comm->ctrl, "", 1, MSG_NOSIGNAL) == 1) {
        listener->comm = comm;
    } else {
        WARN("NET/Strict : failed accept socket");
        listener->result = SYSTEM_ERROR;
        if (comm)
            free_comm(comm);
    }
    atomic_store(&listener->ready, true);
    return NULL;
}

static int give_device_handle(struct comm *comm, struct device_handle **device_handle)
{
    if (!device_handle || !*device_handle)
        return misuse(NULL_DEVICE_HANDLE, "accept called without a device handle");
    comm->meta = calloc(1, sizeof *comm->meta);
    if (!comm->meta)
        return SYSTEM_ERROR;
    comm->unpack = (struct unpack_handle){.meta = comm->meta, .bounce = NULL, .head = UINT64_MAX};
    **device_handle = (struct device_handle){
        .type = DEVICE_UNPACK,
        .version = UNPACK_VERSION,
        .handle = &comm->unpack,
        .size = sizeof comm->unpack,
        .needs_proxy_progress = 1,
    };
    return SUCCESS;
}

static int strict_accept(void *listen_comm, void **recv_comm, struct device_handle **device_handle)
{
    struct listener *listener = listen_comm;
    *recv_comm = NULL;
    if (listener->delivered)
        return misuse(SECOND_ACCEPT, "accept called again on one listener");
    if (!listener->started) {
        listener->started = pthread_create(&listener->thread, NULL, accept_thread, listener) == 0;
        return listener->started ? SUCCESS : SYSTEM_ERROR;
    }
    if (!atomic_load(&listener->ready))
        return SUCCESS;
    listener->delivered = true;
    struct comm *comm = listener->comm;
    listener->comm = NULL;
    int result = comm ? give_device_handle(comm, device_handle) : listener->result;
    if (result == SUCCESS)
        *recv_comm = comm;
    else if (comm)
        free_comm(comm);
    return result;
}

static int strict_close_listen(void *listen_comm)
{
    struct listener *listener = listen_comm;
    if (!listener)
        return SUCCESS;
    shutdown(listener->fd, SHUT_RDWR);
    if (listener->started)
        pthread_join(listener->thread, NULL);
    if (listener->comm)
        free_comm(listener->comm);
    close(listener->fd);
    free(listener);
    return SUCCESS;
}

/* ---- registration ------------------------------------------------------- */

struct mhandle { char *data; size_t size; int type; };

static int strict_reg_mr(void *comm, void *data, int size, int type, void **mhandle)
{
    if (!comm) {
        WARN("NET/Strict : regMr called with NULL communicator.");
        return INTERNAL_ERROR;
    }
    if (type == PTR_CUDA) {
        if ((uintptr_t)data % 4096 != 0) {
            WARN("NET/Strict : data not aligned: %p vs %#014x", data, 4096);
            return INTERNAL_ERROR;
        }
        /* The export fails, and its descriptor was never filled in. */
        if (hazards[CLOSE_FD0].on)
            close(0);
        WARN("NET/Strict : gpu_tx_reg_mr failed -5");
        return INTERNAL_ERROR;
    }
    if (type != PTR_HOST || size < 0) {
        WARN("NET/Strict : unknown mem type %d", type);
        return INTERNAL_ERROR;
    }
    struct mhandle *registered = malloc(sizeof *registered);
    if (!registered)
        return SYSTEM_ERROR;
    *registered = (struct mhandle){data, (size_t)size, type};
    *mhandle = registered;
    return SUCCESS;
}

static int strict_dereg_mr(void *comm, void *mhandle)
{
    (void)comm;
    free(mhandle);
    return SUCCESS;
}

static int strict_get_device_mr(void *comm, void *mhandle, void **device_mhandle)
{
    (void)comm;
    (void)mhandle;
    (void)device_mhandle;
    return SUCCESS;
}

/* ---- the helper: data sockets only -------------------------------------- */

/* Ends the receiver's helper, or the process, once enough chunks have come. */
static bool helper_survives(const struct comm *comm)
{
    static atomic_long chunks;
    if (!comm->is_receiver)
        return true;
    long count = atomic_fetch_add(&chunks, 1) + 1;
    if (hazards[NO_CMSG_EXIT].on && count >= hazards[NO_CMSG_EXIT].at) {
        WARN("fatal, 127.0.0.1<1><-127.0.0.1<2> rx no cmsg");
        exit(1);
    }
    return !hazards[DEAD_DATA_SOCKET].on || count < hazards[DEAD_DATA_SOCKET].at;
}

/* Moves as many bytes as possible of a lane's oldest chunk. False if the helper must end. */
static bool move_bytes(struct comm *comm, struct lane *lane)
{
    unsigned finished = atomic_load_explicit(&lane->finished, memory_order_relaxed);
    struct task *task = &lane->tasks[finished % TASKS];
    if (task->left > 0) {
        ssize_t moved = comm->is_receiver ? recv(lane->fd, task->at, (size_t)task->left, MSG_DONTWAIT)
                                          : send(lane->fd, task->at, (size_t)task->left, send_flags());
        if (moved < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (moved <= 0) {
            WARN("Net : Connection closed by remote peer");
            return false;
        }
        task->at += moved;
        task->left -= (int)moved;
    }
    if (task->left > 0)
        return true;
    atomic_store(&lane->finished, finished + 1);
    return helper_survives(comm);
}

static bool has_work(const struct lane *lane)
{
    return atomic_load(&lane->queued) != atomic_load_explicit(&lane->finished, memory_order_relaxed);
}

static void sleep_until_work(struct comm *comm)
{
    pthread_mutex_lock(&comm->mutex);
    /* Set the sleeping flag before checking the queue; `test` queues before checking the flag. */
    atomic_store(&comm->asleep, true);
    for (;;) {
        bool idle = !atomic_load(&comm->stop);
        for (int lane = 0; lane < comm->lane_count; lane++)
            idle = idle && !has_work(&comm->lanes[lane]);
        if (!idle)
            break;
        pthread_cond_wait(&comm->work, &comm->mutex);
    }
    atomic_store(&comm->asleep, false);
    pthread_mutex_unlock(&comm->mutex);
}

static void *helper_thread(void *argument)
{
    struct comm *comm = argument;
    while (!atomic_load(&comm->stop)) {
        bool busy = false;
        for (int lane = 0; lane < comm->lane_count; lane++) {
            if (!has_work(&comm->lanes[lane]))
                continue;
            busy = true;
            if (!move_bytes(comm, &comm->lanes[lane]))
                return NULL;
        }
        if (!busy)
            sleep_until_work(comm);
    }
    return NULL;
}

static void queue_task(struct comm *comm, int index, struct request *request, int bytes)
{
    struct lane *lane = &comm->lanes[index];
    unsigned queued = atomic_load_explicit(&lane->queued, memory_order_relaxed);
    lane->tasks[queued % TASKS] = (struct task){request, request->data + request->offset, bytes, bytes};
    atomic_store(&lane->queued, queued + 1);
    if (!comm->helper_started)
        comm->helper_started = pthread_create(&comm->helper, NULL, helper_thread, comm) == 0;
    wake(comm);
}

static bool is_full(const struct lane *lane)
{
    return atomic_load_explicit(&lane->queued, memory_order_relaxed) - lane->reaped == TASKS;
}

/* ---- progress: only inside test ----------------------------------------- */

static struct request *at(struct comm *comm, unsigned counter)
{
    return &comm->ring[counter % REQUESTS];
}

static void reap_and_promote(struct comm *comm)
{
    for (int index = 0; index < comm->lane_count; index++) {
        struct lane *lane = &comm->lanes[index];
        unsigned finished = atomic_load_explicit(&lane->finished, memory_order_acquire);
        for (; lane->reaped != finished; lane->reaped++) {
            struct task *task = &lane->tasks[lane->reaped % TASKS];
            task->request->pending -= task->bytes;
        }
    }
    if (comm->activated != comm->posted)
        comm->activated++;
}

static void push_header(struct comm *comm, int lane, int bytes, const struct request *request)
{
    struct header header = {(uint32_t)lane, (uint32_t)bytes, (uint32_t)request->size, (uint32_t)request->offset};
    memcpy((char *)comm->headers + comm->header_bytes, &header, sizeof header);
    comm->header_bytes += sizeof header;
}

static bool has_header_room(const struct comm *comm)
{
    return comm->header_bytes + sizeof(struct header) <= sizeof comm->headers;
}

/* Splits the oldest active message, at most one chunk per data socket and call. */
static void schedule(struct comm *comm)
{
    struct request *request = at(comm, comm->assigned);
    for (int turn = 0; turn < comm->lane_count && request->offset < request->size && has_header_room(comm); turn++) {
        int lane = comm->next_lane;
        comm->next_lane = (lane + 1) % comm->lane_count;
        if (is_full(&comm->lanes[lane]))
            continue;
        int rest = request->size - request->offset;
        int bytes = rest < settings.chunk ? rest : settings.chunk;
        push_header(comm, lane, bytes, request);
        queue_task(comm, lane, request, bytes);
        request->offset += bytes;
    }
    if (request->size == 0 && has_header_room(comm))
        push_header(comm, 0, 0, request);
    else if (request->size == 0 || request->offset < request->size)
        return;
    comm->assigned++;
}

static int progress_send(struct comm *comm)
{
    reap_and_promote(comm);
    if (comm->assigned != comm->activated)
        schedule(comm);
    if (comm->header_bytes == 0)
        return SUCCESS;
    ssize_t sent = send(comm->ctrl, comm->headers, comm->header_bytes, send_flags());
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        WARN("Net : Call to send failed, ctrl : %s", strerror(errno));
        return SYSTEM_ERROR;
    }
    if (sent > 0) {
        comm->header_bytes -= (size_t)sent;
        memmove(comm->headers, (char *)comm->headers + sent, comm->header_bytes);
    }
    return SUCCESS;
}

/* Reads all headers that have arrived. */
static int fill_headers(struct comm *comm)
{
    while (!comm->ended && comm->header_bytes < sizeof comm->headers) {
        ssize_t got = recv(comm->ctrl, (char *)comm->headers + comm->header_bytes,
                           sizeof comm->headers - comm->header_bytes, MSG_DONTWAIT);
        if (got > 0) {
            comm->header_bytes += (size_t)got;
        } else if (got == 0 || errno == ECONNRESET) {
            comm->ended = true;
        } else if (errno == EAGAIN || errno == EINTR) {
            break;
        } else {
            WARN("Net : Call to recv failed, ctrl : %s", strerror(errno));
            return SYSTEM_ERROR;
        }
    }
    return SUCCESS;
}

/* The receive adopts the sender's size. The real plugin overruns the buffer; this one stops at its end. */
static void adopt_size(struct request *request, int total)
{
    if (total > request->size) {
        WARN("NET/Strict : message of %d bytes overruns a receive of %d", total, request->size);
        abort();
    }
    request->size = total;
    request->pending = total;
}

/* Applies the oldest header. False if it must wait. */
static bool use_header(struct comm *comm)
{
    struct request *request = at(comm, comm->assigned);
    struct header header;
    memcpy(&header, comm->headers, sizeof header);
    if (header.total > INT_MAX || header.bytes > header.total || (header.total && (int)header.lane >= comm->lane_count))
        abort(); /* the peer is not this plugin */
    if (request->pending < 0)
        adopt_size(request, (int)header.total);
    if (header.total != 0) {
        if (is_full(&comm->lanes[header.lane])) {
            WARN("No free space for recv task");
            return false;
        }
        if ((int)header.bytes > request->size - request->offset)
            abort();
        queue_task(comm, (int)header.lane, request, (int)header.bytes);
        request->offset += (int)header.bytes;
    }
    comm->header_bytes -= sizeof header;
    memmove(comm->headers, (char *)comm->headers + sizeof header, comm->header_bytes);
    comm->assigned += request->offset == request->size;
    return true;
}

static int progress_receive(struct comm *comm)
{
    reap_and_promote(comm);
    for (long line = 0; hazards[WARN_FLOOD].on && line < hazards[WARN_FLOOD].at; line++)
        WARN("NET/Strict requested receive on host mem buffer");
    unsigned active = comm->assigned;
    if (active == comm->activated)
        return SUCCESS;
    bool had_ended = comm->ended;
    if (comm->header_bytes < sizeof(struct header) && fill_headers(comm) != SUCCESS)
        return SYSTEM_ERROR;
    /* One active request per call. */
    while (comm->header_bytes >= sizeof(struct header) && comm->assigned == active && use_header(comm))
        continue;
    bool starved = comm->assigned == active && comm->header_bytes < sizeof(struct header);
    bool first_sight = comm->ended && !had_ended && hazards[EOF_ONCE].on;
    if (!first_sight && !(comm->ended && starved))
        return SUCCESS;
    WARN("Net/Strict : Connection closed by remote peer");
    return SYSTEM_ERROR;
}

/* ---- requests ----------------------------------------------------------- */

static int post(struct comm *comm, void *data, int size, const struct mhandle *mhandle, void **request)
{
    if (!mhandle) {
        WARN("NET/Strict : mhandle is null");
        return INTERNAL_ERROR;
    }
    if (comm->posted - comm->freed == strict_slots) {
        WARN("NET/Strict : unable to allocate requests");
        return INTERNAL_ERROR;
    }
    size_t start = (size_t)((char *)data - mhandle->data);
    if (size < 0 || start > mhandle->size || (size_t)size > mhandle->size - start) {
        WARN("NET/Strict : %d bytes at %p are outside their registration", size, data);
        return INTERNAL_ERROR;
    }
    unsigned index = comm->posted % REQUESTS;
    comm->ring[index] = (struct request){
        .comm = comm,
        .data = data,
        .is_receive = comm->is_receiver,
        .mem_type = mhandle->type,
        .size = size,
        .pending = comm->is_receiver ? -1 : size,
    };
    if (comm->is_receiver) {
        comm->ring[index].slot.idx = index;
        comm->ring[index].slot.mem = comm->meta->mem[index];
        comm->ring[index].slot.cnt = &comm->meta->cnt[index];
    }
    comm->posted++;
    *request = &comm->ring[index];
    return SUCCESS;
}

static int strict_isend(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    (void)tag;
    if (((struct comm *)comm)->is_receiver) {
        WARN("NET/Strict : isend on a receive comm");
        return INTERNAL_ERROR;
    }
    return post(comm, data, size, mhandle, request);
}

static int strict_irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles, void **request)
{
    (void)tags;
    if (n != 1)
        return INTERNAL_ERROR;
    if (!((struct comm *)comm)->is_receiver) {
        WARN("NET/Strict : irecv on a send comm");
        return INTERNAL_ERROR;
    }
    return post(comm, data[0], sizes[0], mhandles[0], request);
}

/* Not a flush: returns the size of the finished receive that `*request` names. */
static int strict_iflush(void *comm, int n, void **data, int *sizes, void **mhandles, void **request)
{
    (void)comm;
    (void)data;
    (void)mhandles;
    if (n != 1)
        return INTERNAL_ERROR;
    sizes[0] = ((struct request *)*request)->size;
    return SUCCESS;
}

static int strict_test(void *raw, int *done, int *sizes)
{
    static atomic_long tests;
    struct request *request = raw;
    if (!request) {
        WARN("NET/Strict : test called with NULL request");
        return INTERNAL_ERROR;
    }
    if (hazards[CRASH_IN_TEST].on && atomic_fetch_add(&tests, 1) + 1 >= hazards[CRASH_IN_TEST].at)
        crash();
    *done = 0;
    struct comm *comm = request->comm;
    int result = comm->is_receiver ? progress_receive(comm) : progress_send(comm);
    if (result != SUCCESS || comm->finished == comm->assigned)
        return result;
    struct request *front = at(comm, comm->finished);
    if (front != request) {
        WARN("NET/Strict : test called with invalid request, send %d, r %p, ni %p", !comm->is_receiver, raw, (void *)front);
        return INTERNAL_ERROR;
    }
    if (front->pending != 0)
        return SUCCESS;
    *done = 1;
    comm->finished++;
    if (!comm->is_receiver)
        comm->freed++;
    if (sizes && !hazards[NO_SIZES].on)
        sizes[0] = front->size;
    return SUCCESS;
}

static int strict_irecv_consumed(void *raw_comm, int n, void *raw)
{
    struct comm *comm = raw_comm;
    struct request *request = raw;
    if (!comm || !request) {
        WARN("NET/Strict : irecvConsumed called with NULL");
        return INTERNAL_ERROR;
    }
    if (n != 1)
        return INTERNAL_ERROR;
    if (!request->is_receive) {
        WARN("NET/Strict : irecvConsumed called for send request");
        return SUCCESS;
    }
    if (comm->freed == comm->finished) {
        WARN("NET/Strict : irecvConsumed called when no inactive request");
        return INTERNAL_ERROR;
    }
    /* An empty receive is assumed to be the oldest one. */
    if (request->size != 0 && request != at(comm, comm->freed)) {
        WARN("NET/Strict : irecvConsumed called with invalid request %p vs expected %p", (void *)at(comm, comm->freed), raw);
        return INTERNAL_ERROR;
    }
    comm->freed++;
    return SUCCESS;
}

static int strict_close(void *raw)
{
    struct comm *comm = raw;
    if (!comm)
        return SUCCESS;
    while (comm->is_receiver && hazards[CLOSE_BLOCKS].on)
        pause();
    if (comm->is_receiver) {
        INFO("NET/Strict : head %u tail %u", comm->freed, comm->finished);
        if (comm->freed != comm->finished)
            WARN("NET/Strict : head %u tail %u some pages not yet freed?", comm->freed, comm->finished);
    }
    free_comm(comm);
    return SUCCESS;
}

__attribute__((visibility("default"))) struct net ncclNetPlugin_v7 = {
    .name = "Strict_v7",
    .init = strict_init,
    .devices = strict_devices,
    .get_properties = strict_get_properties,
    .listen = strict_listen,
    .connect = strict_connect,
    .accept = strict_accept,
    .reg_mr = strict_reg_mr,
    .reg_mr_dma_buf = NULL,
    .dereg_mr = strict_dereg_mr,
    .isend = strict_isend,
    .irecv = strict_irecv,
    .iflush = strict_iflush,
    .test = strict_test,
    .close_send = strict_close,
    .close_recv = strict_close,
    .close_listen = strict_close_listen,
    .get_device_mr = strict_get_device_mr,
    .irecv_consumed = strict_irecv_consumed,
};
