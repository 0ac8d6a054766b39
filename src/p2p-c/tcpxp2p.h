/* Endpoints that read, write, send and receive each other's memory over an ncclNet plugin.
 *
 * Every function returns a result, TCPXP2P_DONE or a negative number, and may be called from any
 * thread. Pointers to results must not be null, and strings end with a zero. Done means that every
 * byte is in place: of a read and a receive here, of a write, a send and a notification there.
 *
 * The first endpoint of a process sets NCCL_DYNAMIC_CHUNK_SIZE where TCPX needs it and it is unset:
 * make it before other threads change the environment. TCPXP2P_SECRET (64 hexadecimal digits) or
 * TCPXP2P_SECRET_FILE is a secret that both endpoints of a connection must have.
 */
#ifndef TCPXP2P_H
#define TCPXP2P_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TCPXP2P_DONE = 0,
    TCPXP2P_USAGE = -1,
    TCPXP2P_PLUGIN = -2,
    TCPXP2P_REFUSED = -3,
    TCPXP2P_CONNECTION = -4,
    TCPXP2P_TIMED_OUT = -5,
    TCPXP2P_CLOSED = -6,
    TCPXP2P_TOO_MANY = -7,
    TCPXP2P_INTERNAL = -8
};

/* What a blob allows. */
enum { TCPXP2P_READ = 1, TCPXP2P_WRITE = 2, TCPXP2P_BOTH = 3 };

enum { TCPXP2P_BLOB_BYTES = 64, TCPXP2P_NOTIFICATION_MAX = 65536 };

typedef struct tcpxp2p_endpoint tcpxp2p_endpoint;

/* Zero and null stand for the default. */
typedef struct {
    size_t size;             /* sizeof(tcpxp2p_options) */
    const char *name;        /* in errors and views */
    const char *plugin;      /* auto, soft, builtin, a name or a path */
    const char *address;     /* IP address to listen on */
    const char *secret_file; /* in place of TCPXP2P_SECRET and TCPXP2P_SECRET_FILE */
    size_t chunk;            /* bytes of one message of the plugin */
    uint32_t lanes;          /* comms of a connection in each direction */
    uint16_t port;
    const char *gpu;         /* CUDA device number or PCI address: it moves memory of this GPU only */
} tcpxp2p_options;

/* A buffer here, and the part of an advertised range that it is read from or written to. */
typedef struct {
    uint64_t registration;
    void *address;
    size_t len;
    const uint8_t *blob; /* TCPXP2P_BLOB_BYTES bytes */
    uint64_t offset;     /* from the start of the advertised range */
} tcpxp2p_piece;

/* The words of this thread's last failure; valid until its next one. */
const char *tcpxp2p_last_error(void);
/* What a result means. */
const char *tcpxp2p_result_text(int result);

/* `options` may be null. */
int tcpxp2p_create(const tcpxp2p_options *options, tcpxp2p_endpoint **endpoint);
/* No other call may use the endpoint at the same time or later. */
int tcpxp2p_destroy(tcpxp2p_endpoint *endpoint);

/* What another endpoint needs to connect. As confidential as the advertised memory. Writes the
 * length also if the buffer is too small. */
int tcpxp2p_metadata(const tcpxp2p_endpoint *endpoint, uint8_t *buffer, size_t capacity, size_t *len);
int tcpxp2p_connect(const tcpxp2p_endpoint *endpoint, const uint8_t *metadata, size_t len,
                    uint64_t *connection);
/* The oldest connection that a peer made. */
int tcpxp2p_accept(const tcpxp2p_endpoint *endpoint, uint64_t timeout_ms, uint64_t *connection);
int tcpxp2p_disconnect(const tcpxp2p_endpoint *endpoint, uint64_t connection);

/* The memory stays mapped and writable until tcpxp2p_deregister has returned as often. What a GPU
 * still writes to a buffer is not waited for: synchronize its stream before a transfer reads it. */
int tcpxp2p_register(const tcpxp2p_endpoint *endpoint, void *address, size_t len,
                     uint64_t *registration);
/* Waits until nothing uses the memory. If it fails with TCPXP2P_TIMED_OUT, the memory must stay. */
int tcpxp2p_deregister(const tcpxp2p_endpoint *endpoint, uint64_t registration);
int tcpxp2p_advertise(const tcpxp2p_endpoint *endpoint, uint64_t registration, const void *address,
                      size_t len, int rights, uint8_t (*blob)[TCPXP2P_BLOB_BYTES]);

/* Start a transfer; its number is for tcpxp2p_poll and tcpxp2p_wait. */
int tcpxp2p_read(const tcpxp2p_endpoint *endpoint, uint64_t connection, const tcpxp2p_piece *pieces,
                 size_t count, uint64_t *transfer);
int tcpxp2p_write(const tcpxp2p_endpoint *endpoint, uint64_t connection, const tcpxp2p_piece *pieces,
                  size_t count, uint64_t *transfer);
int tcpxp2p_send(const tcpxp2p_endpoint *endpoint, uint64_t connection, uint64_t registration,
                 const void *address, size_t len, uint64_t *transfer);
int tcpxp2p_receive(const tcpxp2p_endpoint *endpoint, uint64_t connection, uint64_t registration,
                    void *address, size_t len, uint64_t *transfer);
int tcpxp2p_notify(const tcpxp2p_endpoint *endpoint, uint64_t connection, const uint8_t *message,
                   size_t len, uint64_t *transfer);

/* The oldest unread notification. `capacity` is at least TCPXP2P_NOTIFICATION_MAX. */
int tcpxp2p_notification(const tcpxp2p_endpoint *endpoint, uint64_t timeout_ms, uint64_t *connection,
                         uint8_t *buffer, size_t capacity, size_t *len);

/* Never waits. `done` is 0 or 1. A transfer that is done or has failed is reported once. */
int tcpxp2p_poll(const tcpxp2p_endpoint *endpoint, uint64_t transfer, int *done);
/* TCPXP2P_TIMED_OUT: the transfer goes on. Any other result is reported once. */
int tcpxp2p_wait(const tcpxp2p_endpoint *endpoint, uint64_t transfer, uint64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
