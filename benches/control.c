/*
 * The C control of scripts/bench: plain blocking sockets with the same bytes,
 * streams and buffers, and no other work.
 *
 *   control recv --addr A --port P --streams N --chunk BYTES --total BYTES --buffers B
 *   control send   (the same)
 *   control pingpong recv --addr A --port P --size BYTES --count N
 *   control pingpong send   (the same)
 *   control messages recv --addr A --port P --size BYTES --count N
 *   control messages send   (the same)
 *
 * All six accept `--congestion NAME`. The first two accept `--wait poll`: nonblocking
 * calls and sched_yield, as a caller of a plugin must wait; `--bytes verified`: the sender
 * writes every word of a chunk before it sends it, and the receiver compares every word; and
 * `--gpu N`: the buffers are in the memory of this GPU, and every chunk goes through pinned
 * memory of as many buffers, copied ahead. Start the two ends in any order; the sender
 * retries a refused connection for ten seconds. Both ends must be given the
 * same numbers. Chunk i goes over stream i mod N, from and to buffer i / N mod B
 * of that stream; the last chunk may be short. One thread per stream. A message is
 * one write; their receiver reads up to 64 KiB at once.
 *
 * Each end prints one line. The time runs from when every stream is connected
 * until the receiver has every byte:
 *
 *   role=send streams=2 chunk_bytes=524288 total_bytes=67108864 buffers=4 congestion=cubic nanoseconds=9876543 gb_per_s=6.795 messages_per_s=12960
 *   role=send size_bytes=64 count=10000 congestion=cubic p50_ns=11034 p99_ns=20511 max_ns=90233
 *
 * The sender's round trip is its message and the answer, the receiver's is its
 * answer and the next message. A warm-up of a tenth of the count is not counted.
 *
 * Exit codes: 0 done, 1 the peer, the network or the GPU failed, 2 wrong arguments. No
 * wait is longer than thirty seconds, but that of `--wait poll` ends with the peer.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long u64;

enum { STREAMS_MAX = 256, BUFFERS_MAX = 4096, COUNT_MAX = 10000000, READ_BYTES = 65536, LIMIT_SECONDS = 30, CONNECT_SECONDS = 10 };
static const uint32_t MAGIC = 0x6c727463;

static struct {
    bool pingpong, messages, sender, polls, verifies, on_gpu;
    int gpu;
    struct sockaddr_in address;
    const char *congestion;
    u64 streams, chunk, total, buffers, size, count;
} options = {.streams = 1, .buffers = 1};

/* First message of each stream; the receiver compares it with its own numbers. */
struct hello { uint32_t magic, index; u64 streams, chunk, total; };

struct stream { int fd; uint32_t index; char *memory; struct copies *copies; pthread_t thread; };
static struct stream streams[STREAMS_MAX];

__attribute__((noreturn, format(printf, 2, 3))) static void fail(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("control: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(code);
}

#include "control_cuda.h"

static u64 now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000000000u + (u64)now.tv_nsec;
}

/* Allocates memory, and touches it before the clock starts. */
static char *new_memory(size_t size)
{
    size_t pages = (size + 4095) / 4096 * 4096;
    char *memory = aligned_alloc(4096, pages);
    if (!memory)
        fail(1, "cannot allocate %zu bytes", size);
    return memset(memory, 0x5a, pages);
}

/* ---- arguments ---------------------------------------------------------- */

static u64 number(const char *flag, const char *value, u64 most)
{
    char *end;
    errno = 0;
    u64 parsed = strtoull(value, &end, 10);
    if (errno || *end || *value < '0' || *value > '9' || parsed < 1 || parsed > most)
        fail(2, "%s %s: expected a number from 1 to %llu", flag, value, most);
    return parsed;
}

static void take_flag(const char *flag, const char *value)
{
    if (strcmp(flag, "--addr") == 0) {
        if (inet_pton(AF_INET, value, &options.address.sin_addr) != 1)
            fail(2, "--addr %s: expected an IPv4 address", value);
    } else if (strcmp(flag, "--port") == 0) {
        options.address.sin_port = htons((uint16_t)number(flag, value, 65535));
    } else if (strcmp(flag, "--streams") == 0) {
        options.streams = number(flag, value, STREAMS_MAX);
    } else if (strcmp(flag, "--chunk") == 0) {
        options.chunk = number(flag, value, 1ull << 30);
    } else if (strcmp(flag, "--total") == 0) {
        options.total = number(flag, value, 1ull << 50);
    } else if (strcmp(flag, "--buffers") == 0) {
        options.buffers = number(flag, value, BUFFERS_MAX);
    } else if (strcmp(flag, "--size") == 0) {
        options.size = number(flag, value, 1ull << 30);
    } else if (strcmp(flag, "--count") == 0) {
        options.count = number(flag, value, COUNT_MAX);
    } else if (strcmp(flag, "--congestion") == 0) {
        options.congestion = value;
    } else if (strcmp(flag, "--wait") == 0) {
        if (strcmp(value, "block") != 0 && strcmp(value, "poll") != 0)
            fail(2, "--wait %s: expected block or poll", value);
        options.polls = strcmp(value, "poll") == 0;
    } else if (strcmp(flag, "--bytes") == 0) {
        if (strcmp(value, "any") != 0 && strcmp(value, "verified") != 0)
            fail(2, "--bytes %s: expected any or verified", value);
        options.verifies = strcmp(value, "verified") == 0;
    } else if (strcmp(flag, "--gpu") == 0) {
        options.on_gpu = true;
        options.gpu = strcmp(value, "0") == 0 ? 0 : (int)number(flag, value, 63);
    } else {
        fail(2, "unknown flag %s", flag);
    }
}

static void read_options(int argc, char **argv)
{
    int next = 1;
    options.address.sin_family = AF_INET;
    options.pingpong = next < argc && strcmp(argv[next], "pingpong") == 0;
    options.messages = next < argc && strcmp(argv[next], "messages") == 0;
    next += options.pingpong || options.messages;
    if (next >= argc || (strcmp(argv[next], "send") != 0 && strcmp(argv[next], "recv") != 0))
        fail(2, "expected [pingpong|messages] send|recv, then flags; the head of control.c explains them");
    options.sender = strcmp(argv[next], "send") == 0;
    for (next++; next < argc; next += 2) {
        if (next + 1 == argc)
            fail(2, "%s: expected a value", argv[next]);
        take_flag(argv[next], argv[next + 1]);
    }
    bool counted = options.pingpong || options.messages;
    bool enough = counted ? options.size && options.count : options.chunk && options.total;
    if (!options.address.sin_addr.s_addr || !options.address.sin_port || !enough)
        fail(2, "--addr, --port, %s are required", counted ? "--size and --count" : "--chunk and --total");
    if (counted && (options.polls || options.verifies || options.on_gpu))
        fail(2, "--wait, --bytes and --gpu are for transfers");
    if (options.verifies && (options.on_gpu || options.chunk % sizeof(u64) || options.total % sizeof(u64)))
        fail(2, "--bytes verified: the memory is the host's, and sizes are multiples of %zu", sizeof(u64));
    if (counted) {
        options.streams = 1;
        options.chunk = options.size;
        options.total = options.messages ? options.size * options.count : options.count;
    }
    if (options.messages)
        options.buffers = (READ_BYTES + options.size - 1) / options.size;
}

/* ---- sockets ------------------------------------------------------------ */

static int new_socket(void)
{
    struct timeval limit = {.tv_sec = LIMIT_SECONDS};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail(1, "socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    const char *name = options.congestion;
    if (name && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) != 0)
        fail(2, "--congestion %s: %s", name, strerror(errno));
    return fd;
}

/* Why a blocking call failed. */
static const char *reason(ssize_t result)
{
    if (result == 0)
        return "the peer closed";
    return errno == EAGAIN ? "no progress for thirty seconds" : strerror(errno);
}

/* Whether a call is to be made again; a caller that polls lets others run before. */
static bool again(ssize_t result)
{
    if (result < 0 && errno == EAGAIN && options.polls)
        return sched_yield() == 0;
    return result < 0 && errno == EINTR;
}

static void send_all(int fd, const void *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        int flags = MSG_NOSIGNAL | (options.polls ? MSG_DONTWAIT : 0);
        ssize_t now = send(fd, (const char *)data + sent, size - sent, flags);
        if (now < 0 && !again(now))
            fail(1, "send: %s", reason(now));
        sent += now > 0 ? (size_t)now : 0;
    }
}

static void receive_all(int fd, void *data, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t now = recv(fd, (char *)data + got, size - got, options.polls ? MSG_DONTWAIT : MSG_WAITALL);
        if (now <= 0 && !again(now))
            fail(1, "receive: %s", reason(now));
        got += now > 0 ? (size_t)now : 0;
    }
}

/* Receives `total` bytes, up to `room` at once, all to the same memory. */
static void receive_over(int fd, char *memory, size_t room, u64 total)
{
    while (total > 0) {
        ssize_t now = recv(fd, memory, total < room ? total : room, 0);
        if (now == 0 || (now < 0 && errno != EINTR))
            fail(1, "receive: %s", reason(now));
        total -= now > 0 ? (u64)now : 0;
    }
}

static struct hello hello_of(uint32_t index)
{
    return (struct hello){MAGIC, index, options.streams, options.chunk, options.total};
}

static int dial(void)
{
    u64 deadline = now_ns() + CONNECT_SECONDS * 1000000000ull;
    for (;;) {
        int fd = new_socket();
        if (connect(fd, (struct sockaddr *)&options.address, sizeof options.address) == 0)
            return fd;
        if (errno != ECONNREFUSED || now_ns() > deadline)
            fail(1, "connect: %s", strerror(errno));
        close(fd);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static void dial_all(void)
{
    char go;
    for (uint32_t index = 0; index < options.streams; index++) {
        struct hello hello = hello_of(index);
        streams[index].fd = dial();
        send_all(streams[index].fd, &hello, sizeof hello);
    }
    receive_all(streams[0].fd, &go, 1);
}

/* Accepts one stream; drops connections that send no valid first message. */
static bool take_stream(int listener)
{
    struct hello hello;
    struct timeval second = {.tv_sec = 1}, limit = {.tv_sec = LIMIT_SECONDS};
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        fail(1, "accept: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    bool whole = recv(fd, &hello, sizeof hello, MSG_WAITALL) == sizeof hello && hello.magic == MAGIC;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (!whole) {
        close(fd);
        return false;
    }
    struct hello expected = hello_of(hello.index);
    if (memcmp(&hello, &expected, sizeof hello) != 0 || hello.index >= options.streams || streams[hello.index].fd >= 0)
        fail(1, "the sender was started with different numbers");
    streams[hello.index].fd = fd;
    return true;
}

static void accept_all(void)
{
    int listener = new_socket();
    if (bind(listener, (struct sockaddr *)&options.address, sizeof options.address) != 0 ||
        listen(listener, STREAMS_MAX) != 0)
        fail(1, "listen: %s", strerror(errno));
    u64 deadline = now_ns() + LIMIT_SECONDS * 1000000000ull;
    for (u64 missing = options.streams; missing > 0;) {
        struct pollfd waiting = {.fd = listener, .events = POLLIN};
        if (now_ns() > deadline || poll(&waiting, 1, LIMIT_SECONDS * 1000) != 1)
            fail(1, "the sender's streams did not connect within %d s", LIMIT_SECONDS);
        missing -= take_stream(listener);
    }
    close(listener);
    send_all(streams[0].fd, "g", 1);
}

/* ---- a transfer --------------------------------------------------------- */

static size_t size_of(u64 chunk)
{
    u64 rest = options.total - chunk * options.chunk;
    return rest < options.chunk ? rest : options.chunk;
}

/* Moves the stream's chunks from GPU memory to the socket, or from the socket to GPU memory. */
static void run_stream_on_gpu(struct stream *stream, u64 chunks)
{
    struct copies *copies = stream->copies;
    u64 copied = stream->index, ahead = options.streams * options.buffers;
    CUDA(cuCtxSetCurrent, cuda.context);
    for (u64 chunk = stream->index; chunk < chunks; chunk += options.streams) {
        for (; options.sender && copied < chunks && copied < chunk + ahead; copied += options.streams) {
            u64 place = copied / options.streams % options.buffers, offset = place * options.chunk;
            CUDA(cuMemcpyDtoHAsync_v2, copies->pinned + offset, copies->device + offset, size_of(copied), copies->stream);
            CUDA(cuEventRecord, copies->events[place], copies->stream);
        }
        u64 place = chunk / options.streams % options.buffers, offset = place * options.chunk;
        CUDA(cuEventSynchronize, copies->events[place]);
        if (options.sender) {
            send_all(stream->fd, copies->pinned + offset, size_of(chunk));
            continue;
        }
        receive_all(stream->fd, copies->pinned + offset, size_of(chunk));
        CUDA(cuMemcpyHtoDAsync_v2, copies->device + offset, copies->pinned + offset, size_of(chunk), copies->stream);
        CUDA(cuEventRecord, copies->events[place], copies->stream);
    }
    CUDA(cuStreamSynchronize, copies->stream);
}

/* What a word of a chunk holds. */
static u64 word_of(u64 chunk, size_t word)
{
    return (chunk << 32) + word;
}

static void fill(char *buffer, u64 chunk)
{
    u64 *words = (u64 *)buffer;
    for (size_t word = 0; word < size_of(chunk) / sizeof *words; word++)
        words[word] = word_of(chunk, word);
}

static void verify(const char *buffer, u64 chunk)
{
    const u64 *words = (const u64 *)buffer;
    u64 wrong = 0;
    for (size_t word = 0; word < size_of(chunk) / sizeof *words; word++)
        wrong |= words[word] ^ word_of(chunk, word);
    if (wrong)
        fail(1, "chunk %llu arrived with other bytes", chunk);
}

static void *run_stream(void *argument)
{
    struct stream *stream = argument;
    u64 chunks = (options.total + options.chunk - 1) / options.chunk;
    if (options.on_gpu) {
        run_stream_on_gpu(stream, chunks);
        return NULL;
    }
    if (options.messages && !options.sender) {
        receive_over(stream->fd, stream->memory, READ_BYTES, options.total);
        return NULL;
    }
    for (u64 chunk = stream->index; chunk < chunks; chunk += options.streams) {
        char *buffer = stream->memory + chunk / options.streams % options.buffers * options.chunk;
        if (options.sender) {
            if (options.verifies)
                fill(buffer, chunk);
            send_all(stream->fd, buffer, size_of(chunk));
        } else {
            receive_all(stream->fd, buffer, size_of(chunk));
            if (options.verifies)
                verify(buffer, chunk);
        }
    }
    return NULL;
}

/* Moves all bytes; returns the nanoseconds. */
static u64 transfer(void)
{
    char done;
    u64 start = now_ns();
    for (uint32_t index = 0; index < options.streams; index++)
        if (pthread_create(&streams[index].thread, NULL, run_stream, &streams[index]) != 0)
            fail(1, "cannot start a thread for stream %u", index);
    for (uint32_t index = 0; index < options.streams; index++)
        pthread_join(streams[index].thread, NULL);
    if (options.sender)
        receive_all(streams[0].fd, &done, 1);
    u64 end = now_ns();
    if (!options.sender)
        send_all(streams[0].fd, "d", 1);
    return end - start;
}

/* ---- round trips -------------------------------------------------------- */

static int ascending(const void *one, const void *other)
{
    u64 left = *(const u64 *)one, right = *(const u64 *)other;
    return (left > right) - (left < right);
}

/* Nanoseconds of every counted round trip, ascending. */
static void round_trips(u64 *taken)
{
    int fd = streams[0].fd;
    char *buffer = streams[0].memory;
    u64 warmup = options.count / 10;
    if (!options.sender)
        receive_all(fd, buffer, options.size);
    for (u64 trip = 0; trip < warmup + options.count; trip++) {
        u64 start = now_ns();
        send_all(fd, buffer, options.size);
        receive_all(fd, buffer, options.size);
        if (trip >= warmup)
            taken[trip - warmup] = now_ns() - start;
    }
    /* The receiver started with a receive, so it waits for one more message. */
    if (options.sender)
        send_all(fd, buffer, options.size);
    qsort(taken, options.count, sizeof *taken, ascending);
}

/* The smallest time that `permille` of the round trips do not exceed. */
static u64 quantile(const u64 *ascending_ns, u64 permille)
{
    u64 rank = (options.count * permille + 999) / 1000;
    return ascending_ns[rank > 0 ? rank - 1 : 0];
}

/* ---- both ends ---------------------------------------------------------- */

static void measure_round_trips(const char *role, const char *congestion)
{
    u64 *taken = (u64 *)(void *)new_memory(options.count * sizeof *taken);
    round_trips(taken);
    printf("role=%s size_bytes=%llu count=%llu congestion=%s p50_ns=%llu p99_ns=%llu max_ns=%llu\n", role,
           options.size, options.count, congestion, quantile(taken, 500), quantile(taken, 990), quantile(taken, 1000));
    free(taken);
}

static void measure_transfer(const char *role, const char *congestion)
{
    u64 taken = transfer();
    printf("role=%s streams=%llu chunk_bytes=%llu total_bytes=%llu buffers=%llu congestion=%s nanoseconds=%llu "
           "gb_per_s=%.3f messages_per_s=%.0f\n",
           role, options.streams, options.chunk, options.total, options.buffers, congestion, taken,
           taken ? (double)options.total / (double)taken : 0.0,
           taken ? (double)options.total / (double)options.chunk * 1e9 / (double)taken : 0.0);
}

int main(int argc, char **argv)
{
    char congestion[16] = "";
    socklen_t length = sizeof congestion - 1;
    read_options(argc, argv);
    if (options.on_gpu)
        cuda_open(options.gpu);
    for (uint32_t index = 0; index < options.streams; index++) {
        u64 buffers = options.pingpong ? 1 : options.buffers;
        streams[index] = (struct stream){.fd = -1, .index = index};
        if (options.on_gpu)
            streams[index].copies = new_copies(options.chunk, buffers);
        else
            streams[index].memory = new_memory(buffers * options.chunk);
    }
    if (options.sender)
        dial_all();
    else
        accept_all();
    if (getsockopt(streams[0].fd, IPPROTO_TCP, TCP_CONGESTION, congestion, &length) != 0)
        fail(1, "getsockopt: %s", strerror(errno));
    (options.pingpong ? measure_round_trips : measure_transfer)(options.sender ? "send" : "recv", congestion);
    for (uint32_t index = 0; index < options.streams; index++) {
        close(streams[index].fd);
        free(streams[index].memory);
    }
    return 0;
}
