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
} DeviceHandle7;
typedef DeviceHandle7 DeviceHandle8, DeviceHandle9, DeviceHandle10, DeviceHandle11, DeviceHandle12;

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

typedef struct {
  char *name, *pciPath;
  uint64_t guid;
  int ptrSupport, speed, port, maxComms;
} Properties4;

typedef struct {
  char *name, *pciPath;
  uint64_t guid;
  int ptrSupport, speed, port;
  float latency;
  int maxComms, maxRecvs;
} Properties6;
typedef Properties6 Properties5;

typedef struct {
  int ndevs;
  int devs[4];
} VDeviceProps9;
typedef VDeviceProps9 VDeviceProps10, VDeviceProps11;

typedef struct {
  int ndevs;
  int devs[8];
} VDeviceProps12;

#define FROM_9(vdevice)                                                                     \
  char *name, *pciPath;                                                                     \
  uint64_t guid;                                                                            \
  int ptrSupport, regIsGlobal, forceFlush, speed, port;                                     \
  float latency;                                                                            \
  int maxComms, maxRecvs, netDeviceType, netDeviceVersion;                                  \
  vdevice vProps;                                                                           \
  size_t maxP2pBytes, maxCollBytes;

typedef struct { FROM_9(VDeviceProps9) } Properties9;
typedef Properties9 Properties10;
typedef struct { FROM_9(VDeviceProps9) int maxMultiRequestSize; } Properties11;
typedef struct { FROM_9(VDeviceProps12) int maxMultiRequestSize; int16_t railId, planeId; } Properties12;

typedef struct {
  int trafficClass;
} CommConfig10;
typedef CommConfig10 CommConfig11, CommConfig12;

typedef struct {
  int32_t maxConcurrentPeers, minConcurrentPeers, maxFlowsPerPeer, minFlowsPerPeer;
} CommAttr11;
typedef CommAttr11 CommAttr12;

typedef struct {
  CommAttr11 sendCommAttr, recvCommAttr;
  uint32_t op, algo, proto;
} NetAttr11;
typedef NetAttr11 NetAttr12;

typedef ncclResult_t (*ncclProfilerCallback_t)(void **, int, void *, int64_t, void *);

#define SETUP(props, init_args, listen_args, connect_args, accept_args, reg_size)           \
  const char *name;                                                                         \
  ncclResult_t(*init) init_args;                                                            \
  ncclResult_t (*devices)(int *);                                                           \
  ncclResult_t (*getProperties)(int, props *);                                              \
  ncclResult_t(*listen) listen_args;                                                        \
  ncclResult_t(*connect) connect_args;                                                      \
  ncclResult_t(*accept) accept_args;                                                        \
  ncclResult_t (*regMr)(void *, void *, reg_size, int, void **);
#define DMA ncclResult_t (*regMrDmaBuf)(void *, void *, size_t, int, uint64_t, int, void **);
#define CLOSES                                                                              \
  ncclResult_t (*test)(void *, int *, int *);                                               \
  ncclResult_t (*closeSend)(void *);                                                        \
  ncclResult_t (*closeRecv)(void *);                                                        \
  ncclResult_t (*closeListen)(void *);
#define GROUPED(isend_args, irecv_args)                                                     \
  ncclResult_t (*deregMr)(void *, void *);                                                  \
  ncclResult_t(*isend) isend_args;                                                          \
  ncclResult_t(*irecv) irecv_args;                                                          \
  ncclResult_t (*iflush)(void *, int, void **, int *, void **, void **);                    \
  CLOSES
#define OFFLOAD                                                                             \
  ncclResult_t (*getDeviceMr)(void *, void *, void **);                                     \
  ncclResult_t (*irecvConsumed)(void *, int, void *);

#define LOG (ncclDebugLogger_t)
#define LISTEN (int, void *, void **)
#define CONNECT (int, void *, void **)
#define CONNECT7 (int, void *, void **, DeviceHandle7 **)
#define ACCEPT (void *, void **)
#define ACCEPT7 (void *, void **, DeviceHandle7 **)
#define ISEND5 (void *, void *, int, int, void *, void **)
#define IRECV5 (void *, int, void **, int *, int *, void **, void **)
#define ISEND9 (void *, void *, size_t, int, void *, void **)
#define IRECV9 (void *, int, void **, size_t *, int *, void **, void **)
#define ISEND10 (void *, void *, size_t, int, void *, void *, void **)
#define IRECV10 (void *, int, void **, size_t *, int *, void **, void **, void **)

typedef struct {
  SETUP(Properties4, LOG, LISTEN, CONNECT, ACCEPT, int)
  ncclResult_t (*deregMr)(void *, void *);
  ncclResult_t (*isend)(void *, void *, int, void *, void **);
  ncclResult_t (*irecv)(void *, void *, int, void *, void **);
  ncclResult_t (*iflush)(void *, void *, int, void *, void **);
  CLOSES
} Net4;
typedef struct { SETUP(Properties6, LOG, LISTEN, CONNECT, ACCEPT, int) GROUPED(ISEND5, IRECV5) } Net5;
typedef struct { SETUP(Properties6, LOG, LISTEN, CONNECT, ACCEPT, int) DMA GROUPED(ISEND5, IRECV5) } Net6;
typedef struct {
  SETUP(Properties7, LOG, LISTEN, CONNECT7, ACCEPT7, int) DMA GROUPED(ISEND5, IRECV5) OFFLOAD
} Net7;
typedef struct {
  SETUP(Properties8, LOG, LISTEN, CONNECT7, ACCEPT7, size_t) DMA GROUPED(ISEND5, IRECV5) OFFLOAD
} Net8;
typedef struct {
  SETUP(Properties9, LOG, LISTEN, CONNECT7, ACCEPT7, size_t) DMA GROUPED(ISEND9, IRECV9) OFFLOAD
  ncclResult_t (*makeVDevice)(int *, VDeviceProps9 *);
} Net9;
typedef struct {
  SETUP(Properties9, (ncclDebugLogger_t, ncclProfilerCallback_t), LISTEN,
        (int, CommConfig10 *, void *, void **, DeviceHandle7 **), ACCEPT7, size_t)
  DMA GROUPED(ISEND10, IRECV10) OFFLOAD
  ncclResult_t (*makeVDevice)(int *, VDeviceProps9 *);
} Net10;
#define FROM_11(props, vdevice)                                                             \
  SETUP(props, (void **, uint64_t, CommConfig11 *, ncclDebugLogger_t, ncclProfilerCallback_t), \
        (void *, int, void *, void **), (void *, int, void *, void **, DeviceHandle7 **), ACCEPT7, size_t) \
  DMA GROUPED(ISEND10, IRECV10) OFFLOAD                                                     \
  ncclResult_t (*makeVDevice)(int *, vdevice *);                                            \
  ncclResult_t (*finalize)(void *);                                                         \
  ncclResult_t (*setNetAttr)(void *, NetAttr11 *);
typedef struct { FROM_11(Properties11, VDeviceProps9) } Net11;
typedef struct { FROM_11(Properties12, VDeviceProps12) } Net12;

#define SIZE(s) printf("%s %zu\n", #s, sizeof(s))
#define AT(s, m) printf("%s.%s %zu\n", #s, #m, offsetof(s, m))

#define MEMBERS_4(s)                                                                        \
  SIZE(s), AT(s, name), AT(s, init), AT(s, devices), AT(s, getProperties), AT(s, listen),   \
      AT(s, connect), AT(s, accept), AT(s, regMr), AT(s, deregMr), AT(s, isend),            \
      AT(s, irecv), AT(s, iflush), AT(s, test), AT(s, closeSend), AT(s, closeRecv),         \
      AT(s, closeListen)
#define MEMBERS_6(s) MEMBERS_4(s), AT(s, regMrDmaBuf)
#define MEMBERS_7(s) MEMBERS_6(s), AT(s, getDeviceMr), AT(s, irecvConsumed)
#define MEMBERS_9(s) MEMBERS_7(s), AT(s, makeVDevice)
#define MEMBERS_11(s) MEMBERS_9(s), AT(s, finalize), AT(s, setNetAttr)

#define PROPERTIES_4(s)                                                                     \
  SIZE(s), AT(s, name), AT(s, pciPath), AT(s, guid), AT(s, ptrSupport), AT(s, speed),       \
      AT(s, port), AT(s, maxComms)
#define PROPERTIES_6(s) PROPERTIES_4(s), AT(s, latency), AT(s, maxRecvs)
#define PROPERTIES_7(s) PROPERTIES_6(s), AT(s, netDeviceType), AT(s, netDeviceVersion)
#define PROPERTIES_8(s) PROPERTIES_7(s), AT(s, regIsGlobal)
#define PROPERTIES_9(s)                                                                     \
  PROPERTIES_8(s), AT(s, forceFlush), AT(s, vProps), AT(s, maxP2pBytes), AT(s, maxCollBytes)
#define PROPERTIES_11(s) PROPERTIES_9(s), AT(s, maxMultiRequestSize)

#define HANDLE_7(s)                                                                         \
  SIZE(s), AT(s, netDeviceType), AT(s, netDeviceVersion), AT(s, handle), AT(s, size),       \
      AT(s, needsProxyProgress)
#define VDEVICE_9(s) SIZE(s), AT(s, ndevs), AT(s, devs)
#define CONFIG_10(s) SIZE(s), AT(s, trafficClass)
#define COMM_ATTR_11(s)                                                                     \
  SIZE(s), AT(s, maxConcurrentPeers), AT(s, minConcurrentPeers), AT(s, maxFlowsPerPeer),    \
      AT(s, minFlowsPerPeer)
#define NET_ATTR_11(s)                                                                      \
  SIZE(s), AT(s, sendCommAttr), AT(s, recvCommAttr), AT(s, op), AT(s, algo), AT(s, proto)

/* What came with v11, and is in v12 as well. */
#define STRUCTS_11(n)                                                                       \
  MEMBERS_11(Net##n), HANDLE_7(DeviceHandle##n), VDEVICE_9(VDeviceProps##n),                \
      CONFIG_10(CommConfig##n), COMM_ATTR_11(CommAttr##n), NET_ATTR_11(NetAttr##n)

int main(void) {
  MEMBERS_4(Net4), PROPERTIES_4(Properties4);
  MEMBERS_4(Net5), PROPERTIES_6(Properties5);
  MEMBERS_6(Net6), PROPERTIES_6(Properties6);
  MEMBERS_7(Net7), PROPERTIES_7(Properties7), HANDLE_7(DeviceHandle7);
  MEMBERS_7(Net8), PROPERTIES_8(Properties8), HANDLE_7(DeviceHandle8);
  MEMBERS_9(Net9), PROPERTIES_9(Properties9), HANDLE_7(DeviceHandle9), VDEVICE_9(VDeviceProps9);
  MEMBERS_9(Net10), PROPERTIES_9(Properties10), HANDLE_7(DeviceHandle10), VDEVICE_9(VDeviceProps10);
  CONFIG_10(CommConfig10);
  STRUCTS_11(11), PROPERTIES_11(Properties11);
  STRUCTS_11(12), PROPERTIES_11(Properties12), AT(Properties12, railId), AT(Properties12, planeId);
  return 0;
}
