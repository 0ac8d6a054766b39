/* Endpoints that read, write, send and receive each other's memory over an ncclNet plugin.
 *
 * Every function returns a result, TCPXP2P_DONE or a negative number, and may be called from any
 * thread. Pointers to results must not be null, and strings end with a zero. Done means that every
 * byte is in place: of a read and a receive here, of a write, a send and a notification there.
 *
 * The first endpoint of a process sets NCCL_DYNAMIC_CHUNK_SIZE where TCPX needs it and it is unset:
 * make it before other threads change the environment. TCPXP2P_SECRET (64 hexadecimal digits) or
 * TCPXP2P_SECRET_FILE is a secret that both endpoints of a connection must have.
 *
 * Made by scripts/header of the sources in src/p2p-c: change those.
 */

#ifndef TCPXP2P_H
#define TCPXP2P_H

#include <stddef.h>
#include <stdint.h>

/**
 * Bytes of a blob.
 */
#define TCPXP2P_BLOB_BYTES 64

/**
 * Most bytes of a notification.
 */
#define TCPXP2P_NOTIFICATION_MAX 65536

/**
 * A blob allows to read its range.
 */
#define TCPXP2P_READ 1

/**
 * A blob allows to write its range.
 */
#define TCPXP2P_WRITE 2

/**
 * A blob allows both.
 */
#define TCPXP2P_BOTH 3

/**
 * Done.
 */
#define TCPXP2P_DONE 0

/**
 * An argument is wrong, nothing was started.
 */
#define TCPXP2P_USAGE -1

/**
 * The plugin or the GPU cannot be used or refuses a call.
 */
#define TCPXP2P_PLUGIN -2

/**
 * The peer refused, nothing was moved.
 */
#define TCPXP2P_REFUSED -3

/**
 * No connection could be made, or it is lost.
 */
#define TCPXP2P_CONNECTION -4

/**
 * Not done within the time.
 */
#define TCPXP2P_TIMED_OUT -5

/**
 * The endpoint is closed.
 */
#define TCPXP2P_CLOSED -6

/**
 * A limit of the endpoint is reached.
 */
#define TCPXP2P_TOO_MANY -7

/**
 * A bug in the library.
 */
#define TCPXP2P_INTERNAL -8

/**
 * An endpoint, and the transfers that its program has not waited for.
 */
typedef struct tcpxp2p_endpoint tcpxp2p_endpoint;

/**
 * Zero and null stand for the default.
 */
typedef struct {
    /**
     * sizeof(tcpxp2p_options)
     */
    size_t size;
    /**
     * in errors and views
     */
    const char *name;
    /**
     * auto, soft, builtin, a name or a path
     */
    const char *plugin;
    /**
     * IP address to listen on
     */
    const char *address;
    /**
     * in place of TCPXP2P_SECRET and TCPXP2P_SECRET_FILE
     */
    const char *secret_file;
    /**
     * bytes of one message of the plugin
     */
    size_t chunk;
    /**
     * comms of a connection in each direction
     */
    uint32_t lanes;
    /**
     * port to listen on
     */
    uint16_t port;
    /**
     * CUDA device number or PCI address: it moves memory of this GPU only
     */
    const char *gpu;
} tcpxp2p_options;

/**
 * A buffer here, and the part of an advertised range that it is read from or written to.
 */
typedef struct {
    /**
     * of the buffer
     */
    uint64_t registration;
    /**
     * first byte of the buffer
     */
    void *address;
    /**
     * bytes
     */
    size_t len;
    /**
     * TCPXP2P_BLOB_BYTES bytes
     */
    const uint8_t *blob;
    /**
     * from the start of the advertised range
     */
    uint64_t offset;
} tcpxp2p_piece;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes an endpoint. `options` may be null.
 */
int tcpxp2p_create(const tcpxp2p_options *options, tcpxp2p_endpoint **endpoint);

/**
 * Ends every connection of the endpoint. No other call may use it at the same time or later.
 */
int tcpxp2p_destroy(tcpxp2p_endpoint *endpoint);

/**
 * What another endpoint needs to connect. As confidential as the advertised memory. Writes the
 * length also if the buffer is too small.
 */
int tcpxp2p_metadata(const tcpxp2p_endpoint *endpoint,
                     uint8_t *buffer,
                     size_t capacity,
                     size_t *len);

/**
 * Connects to the endpoint of the metadata.
 */
int tcpxp2p_connect(const tcpxp2p_endpoint *endpoint,
                    const uint8_t *metadata,
                    size_t len,
                    uint64_t *connection);

/**
 * The oldest connection that a peer made.
 */
int tcpxp2p_accept(const tcpxp2p_endpoint *endpoint, uint64_t timeout_ms, uint64_t *connection);

/**
 * Ends a connection: every operation on it fails on both ends.
 */
int tcpxp2p_disconnect(const tcpxp2p_endpoint *endpoint, uint64_t connection);

/**
 * The memory stays mapped and writable until tcpxp2p_deregister has returned as often. What a GPU
 * still writes to a buffer is not waited for: synchronize its stream before a transfer reads it.
 */
int tcpxp2p_register(const tcpxp2p_endpoint *endpoint,
                     void *address,
                     size_t len,
                     uint64_t *registration);

/**
 * Waits until nothing uses the memory. If it fails with TCPXP2P_TIMED_OUT, the memory must stay.
 */
int tcpxp2p_deregister(const tcpxp2p_endpoint *endpoint, uint64_t registration);

/**
 * The blob of a range, with which a peer can use it. `rights` is TCPXP2P_READ, _WRITE or _BOTH.
 */
int tcpxp2p_advertise(const tcpxp2p_endpoint *endpoint,
                      uint64_t registration,
                      const void *address,
                      size_t len,
                      int rights,
                      uint8_t (*blob)[TCPXP2P_BLOB_BYTES]);

/**
 * Starts to read from advertised ranges. `transfer` is for tcpxp2p_poll and tcpxp2p_wait.
 */
int tcpxp2p_read(const tcpxp2p_endpoint *endpoint,
                 uint64_t connection,
                 const tcpxp2p_piece *pieces,
                 size_t count,
                 uint64_t *transfer);

/**
 * Starts to write to advertised ranges.
 */
int tcpxp2p_write(const tcpxp2p_endpoint *endpoint,
                  uint64_t connection,
                  const tcpxp2p_piece *pieces,
                  size_t count,
                  uint64_t *transfer);

/**
 * Starts to send to the peer's next receive, which must be as long.
 */
int tcpxp2p_send(const tcpxp2p_endpoint *endpoint,
                 uint64_t connection,
                 uint64_t registration,
                 const void *address,
                 size_t len,
                 uint64_t *transfer);

/**
 * Starts to receive the peer's next send.
 */
int tcpxp2p_receive(const tcpxp2p_endpoint *endpoint,
                    uint64_t connection,
                    uint64_t registration,
                    void *address,
                    size_t len,
                    uint64_t *transfer);

/**
 * Starts to leave a message, of up to TCPXP2P_NOTIFICATION_MAX bytes, in the peer's queue.
 */
int tcpxp2p_notify(const tcpxp2p_endpoint *endpoint,
                   uint64_t connection,
                   const uint8_t *message,
                   size_t len,
                   uint64_t *transfer);

/**
 * The oldest unread notification. `capacity` is at least TCPXP2P_NOTIFICATION_MAX.
 */
int tcpxp2p_notification(const tcpxp2p_endpoint *endpoint,
                         uint64_t timeout_ms,
                         uint64_t *connection,
                         uint8_t *buffer,
                         size_t capacity,
                         size_t *len);

/**
 * Never waits. `done` is 0 or 1. A transfer that is done or has failed is reported once.
 */
int tcpxp2p_poll(const tcpxp2p_endpoint *endpoint, uint64_t transfer, int *done);

/**
 * TCPXP2P_TIMED_OUT: the transfer goes on. Any other result is reported once.
 */
int tcpxp2p_wait(const tcpxp2p_endpoint *endpoint, uint64_t transfer, uint64_t timeout_ms);

/**
 * The words of this thread's last failure; valid until its next one.
 */
const char *tcpxp2p_last_error(void);

/**
 * What a result means.
 */
const char *tcpxp2p_result_text(int result);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TCPXP2P_H */
