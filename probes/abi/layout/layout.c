/*
 * Prints the sizes and offsets of the ncclNet structs as a C compiler lays them
 * out: `struct.member offset` and `struct size`. Transcribed on its own from
 * the published headers, so that a slip in the Rust files has something to
 * disagree with.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef int ncclResult_t;
typedef void (*ncclDebugLogger_t)(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);

typedef struct {
  int netDeviceType; /* an enum in the header: int-sized */
  int netDeviceVersion;
  void *handle;
  size_t size;
  int needsProxyProgress;
} DeviceHandle;

typedef struct {
  char *name, *pciPath;
  uint64_t guid;
  int ptrSupport, speed, port;
  float latency;
  int maxComms, maxRecvs, netDeviceType, netDeviceVersion;
} Properties7;

typedef struct {
  char *name, *pciPath;
  uint64_t guid;
  int ptrSupport, regIsGlobal, speed, port;
  float latency;
  int maxComms, maxRecvs, netDeviceType, netDeviceVersion;
} Properties8;

#define NET(version, props, reg_size)                                                       \
  typedef struct {                                                                          \
    const char *name;                                                                       \
    ncclResult_t (*init)(ncclDebugLogger_t);                                                \
    ncclResult_t (*devices)(int *);                                                         \
    ncclResult_t (*getProperties)(int, props *);                                            \
    ncclResult_t (*listen)(int, void *, void **);                                           \
    ncclResult_t (*connect)(int, void *, void **, DeviceHandle **);                         \
    ncclResult_t (*accept)(void *, void **, DeviceHandle **);                               \
    ncclResult_t (*regMr)(void *, void *, reg_size, int, void **);                          \
    ncclResult_t (*regMrDmaBuf)(void *, void *, size_t, int, uint64_t, int, void **);       \
    ncclResult_t (*deregMr)(void *, void *);                                                \
    ncclResult_t (*isend)(void *, void *, int, int, void *, void **);                       \
    ncclResult_t (*irecv)(void *, int, void **, int *, int *, void **, void **);            \
    ncclResult_t (*iflush)(void *, int, void **, int *, void **, void **);                  \
    ncclResult_t (*test)(void *, int *, int *);                                             \
    ncclResult_t (*closeSend)(void *);                                                      \
    ncclResult_t (*closeRecv)(void *);                                                      \
    ncclResult_t (*closeListen)(void *);                                                    \
    ncclResult_t (*getDeviceMr)(void *, void *, void **);                                   \
    ncclResult_t (*irecvConsumed)(void *, int, void *);                                     \
  } version

NET(Net7, Properties7, int);
NET(Net8, Properties8, size_t);

#define SIZE(s) printf("%s %zu\n", #s, sizeof(s))
#define AT(s, m) printf("%s.%s %zu\n", #s, #m, offsetof(s, m))

#define NET_MEMBERS(s)                                                                      \
  SIZE(s), AT(s, name), AT(s, init), AT(s, devices), AT(s, getProperties), AT(s, listen),   \
      AT(s, connect), AT(s, accept), AT(s, regMr), AT(s, regMrDmaBuf), AT(s, deregMr),      \
      AT(s, isend), AT(s, irecv), AT(s, iflush), AT(s, test), AT(s, closeSend),             \
      AT(s, closeRecv), AT(s, closeListen), AT(s, getDeviceMr), AT(s, irecvConsumed)

int main(void) {
  SIZE(DeviceHandle);
  AT(DeviceHandle, netDeviceType), AT(DeviceHandle, netDeviceVersion), AT(DeviceHandle, handle);
  AT(DeviceHandle, size), AT(DeviceHandle, needsProxyProgress);
  SIZE(Properties7), AT(Properties7, name), AT(Properties7, pciPath), AT(Properties7, guid);
  AT(Properties7, ptrSupport), AT(Properties7, speed), AT(Properties7, port), AT(Properties7, latency);
  AT(Properties7, maxComms), AT(Properties7, maxRecvs), AT(Properties7, netDeviceType);
  AT(Properties7, netDeviceVersion);
  SIZE(Properties8), AT(Properties8, name), AT(Properties8, pciPath), AT(Properties8, guid);
  AT(Properties8, ptrSupport), AT(Properties8, regIsGlobal), AT(Properties8, speed), AT(Properties8, port);
  AT(Properties8, latency), AT(Properties8, maxComms), AT(Properties8, maxRecvs);
  AT(Properties8, netDeviceType), AT(Properties8, netDeviceVersion);
  NET_MEMBERS(Net7);
  NET_MEMBERS(Net8);
  return 0;
}
