/* Two processes: one advertises a buffer, the other reads it, changes it and writes it back.
 *
 *   cc example.c $(pkg-config --cflags --libs tcpxp2p) -o example && ./example
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tcpxp2p.h>
#include <unistd.h>

enum { LEN = 1 << 20, WAIT_MS = 30000 };

/* What the serving process tells the other one; a real program sends it over its own channel. */
struct invitation {
    uint8_t metadata[2048];
    size_t metadata_len;
    uint8_t blob[TCPXP2P_BLOB_BYTES];
};

static void check(const char *what, int result) {
    if (result != TCPXP2P_DONE) {
        fprintf(stderr, "%s: %s (%s)\n", what, tcpxp2p_last_error(), tcpxp2p_result_text(result));
        exit(1);
    }
}

static tcpxp2p_endpoint *endpoint(const char *name) {
    tcpxp2p_options options = {.size = sizeof options, .name = name, .plugin = getenv("EXAMPLE_PLUGIN"),
                               .address = getenv("EXAMPLE_ADDRESS")};
    tcpxp2p_endpoint *made = NULL;
    check("create", tcpxp2p_create(&options, &made));
    return made;
}

static void reader(int from) {
    struct invitation invitation;
    if (read(from, &invitation, sizeof invitation) != (ssize_t)sizeof invitation) {
        exit(1);
    }
    tcpxp2p_endpoint *self = endpoint("reader");
    uint64_t connection, registration, transfer;
    uint8_t *buffer = calloc(1, LEN);
    check("register", tcpxp2p_register(self, buffer, LEN, &registration));
    check("connect", tcpxp2p_connect(self, invitation.metadata, invitation.metadata_len, &connection));

    tcpxp2p_piece piece = {registration, buffer, LEN, invitation.blob, 0};
    check("read", tcpxp2p_read(self, connection, &piece, 1, &transfer));
    check("wait", tcpxp2p_wait(self, transfer, WAIT_MS));
    for (size_t at = 0; at < LEN; at++) {
        if (buffer[at] != (uint8_t)(at * 7)) {
            fprintf(stderr, "byte %zu is wrong\n", at);
            exit(1);
        }
        buffer[at] = (uint8_t)~buffer[at];
    }
    check("write", tcpxp2p_write(self, connection, &piece, 1, &transfer));
    check("wait", tcpxp2p_wait(self, transfer, WAIT_MS));

    /* One byte past the end is refused before anything moves. */
    piece.offset = 1;
    if (tcpxp2p_read(self, connection, &piece, 1, &transfer) != TCPXP2P_USAGE) {
        exit(1);
    }
    printf("refused: %s\n", tcpxp2p_last_error());
    check("notify", tcpxp2p_notify(self, connection, (const uint8_t *)"written", 7, &transfer));
    check("wait", tcpxp2p_wait(self, transfer, WAIT_MS));
    check("deregister", tcpxp2p_deregister(self, registration));
    check("destroy", tcpxp2p_destroy(self));
    free(buffer);
    fflush(stdout);
}

int main(void) {
    int to_reader[2];
    if (pipe(to_reader) != 0) {
        return 1;
    }
    pid_t child = fork(); /* before the first endpoint, because a fork has no threads */
    if (child == 0) {
        close(to_reader[1]); /* so that the end of the other process is seen */
        reader(to_reader[0]);
        exit(0);
    }
    close(to_reader[0]);
    tcpxp2p_endpoint *self = endpoint("server");
    struct invitation invitation;
    memset(&invitation, 0, sizeof invitation);
    uint64_t registration, connection;
    uint8_t *buffer = malloc(LEN);
    for (size_t at = 0; at < LEN; at++) {
        buffer[at] = (uint8_t)(at * 7);
    }
    check("register", tcpxp2p_register(self, buffer, LEN, &registration));
    check("advertise", tcpxp2p_advertise(self, registration, buffer, LEN, TCPXP2P_BOTH, &invitation.blob));
    check("metadata", tcpxp2p_metadata(self, invitation.metadata, sizeof invitation.metadata,
                                       &invitation.metadata_len));
    if (write(to_reader[1], &invitation, sizeof invitation) != (ssize_t)sizeof invitation) {
        return 1;
    }
    static uint8_t message[TCPXP2P_NOTIFICATION_MAX];
    size_t len;
    check("accept", tcpxp2p_accept(self, WAIT_MS, &connection));
    check("notification", tcpxp2p_notification(self, WAIT_MS, &connection, message, sizeof message, &len));
    for (size_t at = 0; at < LEN; at++) {
        if (buffer[at] != (uint8_t)~(at * 7)) {
            fprintf(stderr, "byte %zu was not written\n", at);
            return 1;
        }
    }
    int status = 1;
    waitpid(child, &status, 0);
    check("deregister", tcpxp2p_deregister(self, registration));
    check("destroy", tcpxp2p_destroy(self));
    free(buffer);
    printf("%.*s: %d bytes read and written back\n", (int)len, (const char *)message, LEN);
    return status == 0 ? 0 : 1;
}
