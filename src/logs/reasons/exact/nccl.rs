//! Wordings of NCCL's warnings.
#![forbid(unsafe_code)]

use super::Reason;

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "fusing net devices from different numa domains",
        cause: "NCCL_NET_FORCE_MERGE tells NCCL to join NICs of different NUMA domains into one, which it does not support",
        next: "unset NCCL_NET_FORCE_MERGE, or name only NICs of one NUMA domain in it: `cat /sys/class/infiniband/*/device/numa_node` tells that of each",
    },
    Reason {
        words: "socket.h:*net : socket creation failed : address family|socket.cc:*net : socket creation failed : address family",
        cause: "the address that a peer told, or that NCCL chose here, is of a family that this node or container does not have: IPv6 on one side, or none at all because a rank had no interface",
        next: "`ip -br addr` in the container on every node; choose one interface that has an address of the same family on all of them with NCCL_SOCKET_IFNAME, and the family with NCCL_SOCKET_FAMILY",
    },
    Reason {
        words: "rxdm*unix*connect*111|rxdm*unix*connect*refused|rxdm*unix*connect*no such file",
        cause: "RxDM, the daemon that receives for the plugin on this node, does not run, or the folder of its socket is not mounted in this container",
        next: "`ss -lx` on the node lists the sockets that RxDM listens at, and the line names the one that the plugin wants: start RxDM before the job, and mount its folder in both containers; RxDM's own log tells why it ended",
    },
    Reason {
        words: "failed to open libnvidia-ml",
        cause: "the container or the node lacks the driver's library that describes its GPUs (NVML, libnvidia-ml.so.1), or the loader does not search its folder",
        next: "`ldconfig -p | grep libnvidia-ml` and `nvidia-smi` in the same container; NVIDIA's container toolkit adds it if NVIDIA_DRIVER_CAPABILITIES has `utility`",
    },
    Reason {
        words: "multicast resources/slot ids are used|nvls*multicast memory*cuda error 2",
        cause: "the NVSwitches have no multicast group left: other jobs of the machine, or communicators of this one, hold all of them, or ended processes did not give theirs back",
        next: "end the other jobs on the machine, or restart nvidia-fabricmanager with no job on it, and keep fewer communicators open at once; NCCL_NVLS_ENABLE=0 goes without multicast",
    },
    Reason {
        words: "xml parse : expected",
        cause: "the file of NCCL_TOPO_FILE or NCCL_GRAPH_FILE is no XML, or is cut off",
        next: "look at the file with `head`: a link of Git LFS or a page of an error is no topology; unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE, and NCCL finds the topology itself",
    },
    Reason {
        words: "unknown result code",
        cause: "the program does not know the result that NCCL returned: the NCCL that is loaded is of another release than the one that it was built with",
        next: "`ldd` of the program's library and LD_LIBRARY_PATH: which libnccl.so.2 is loaded; NCCL_DEBUG=VERSION prints its release",
    },
    Reason {
        words: "init_transport: comm_create error",
        cause: "oneCCL's transport over MPI could not make a communicator: the processes are no ranks of one MPI job, or MPI failed",
        next: "set CCL_ATL_TRANSPORT=ofi where ranks are not started by mpirun; otherwise start all of them with one mpirun of the MPI that oneCCL loads",
    },
    Reason {
        words: "ncclnetpluginshim",
        cause: "the error was raised in an external network plugin of NCCL or in the shim before it: ncclNetPluginShim is in the name of the function",
        next: "read the plugin's own lines with NCCL_DEBUG=INFO on all ranks, and compare its release with that of NCCL",
    },
    Reason {
        words: "error : ring*does not contain rank",
        cause: "NCCL built a ring without one of the ranks: the ranks have different views of the topology, or a bug of this release",
        next: "compare the lines of the topology (NCCL_DEBUG_SUBSYS=INIT,GRAPH) and NCCL_TOPO_FILE of all ranks; try a newer release of NCCL",
    },
    Reason {
        words: "root should be in the 0..-1 range",
        cause: "the communicator has no ranks: it was never made, or was already destroyed",
        next: "look for what destroyed or failed to make the communicator before this call",
    },
    Reason {
        words: "cannot be captured in a graph",
        cause: "the driver is older than R465, or this NCCL was built for a CUDA older than 11.3: its calls cannot be part of a CUDA graph",
        next: "`nvidia-smi`: update the driver, or install the NCCL for its CUDA; `--enforce-eager` in vLLM goes without graphs",
    },
    Reason {
        words: "does not have a valid fd|invalid dmabuf fd|invalid dma-buf fd|dmabuf fd is invalid",
        cause: "the memory cannot be exported as a DMA-BUF: it is from an allocator of virtual memory, or NCCL and the plugin are of releases that do not fit",
        next: "try NCCL_CUMEM_ENABLE=0 and NCCL_NVLS_ENABLE=0, and PyTorch's allocator without expandable_segments; compare the releases of NCCL and the plugin; read the receive manager's log",
    },
    Reason {
        words: "undefined symbol: nccl|undefined symbol: pnccl|undefined symbol: _znccl",
        cause: "the libnccl.so.2 that is loaded is older than the library that needs the symbol: two installations, or LD_LIBRARY_PATH puts the older one first",
        next: "`ldd` of the library in the line, `find / -name 'libnccl.so*'` and `pip list | grep nccl` in the container; keep the release that the program was built with",
    },
    Reason {
        words: "hipipcgetmemhandle|hipipcopenmemhandle|/hipify/*transport/p2p.cc:*cuda failure",
        cause: "AMD GPUs of one node cannot access each other's memory: an IOMMU without iommu=pt, a small BAR, no common root of PCIe, or separate containers",
        next: "`rocm-smi --showtopo` and `cat /proc/cmdline` on the node; NCCL_P2P_DISABLE=1 goes without it",
    },
    Reason {
        words: "invalid nccl_comm_id|net : no interface found in the same subnet|no usable listening interface",
        cause: "NCCL_COMM_ID names an address that is not of this node's networks, or has not the form ADDRESS:PORT",
        next: "unset NCCL_COMM_ID where a launcher such as torchrun starts the job; otherwise set it to an address of rank 0 that all nodes reach",
    },
    Reason {
        words: "mnnvl*not supported|mnnvl*not working|mnnvl*clique*miss|mnnvl*fail|imex channel|caps-imex-channels|fabric handle",
        cause: "the NVLink domain of several nodes (MNNVL) is not usable: a process has no IMEX channel, the IMEX daemons do not reach each other, or a GPU is not in the domain",
        next: "`nvidia-imex-ctl -N`, and `ls /dev/nvidia-caps-imex-channels` in the container; NCCL_MNNVL_ENABLE=0 goes without it",
    },
    Reason {
        words: "cuda failure 800|cumemcreate*operation not permitted|cumemcreate*not permitted|cu failure: 800|cuda error: operation not permitted",
        cause: "the process may not allocate memory that other nodes or containers can map: it has no IMEX channel",
        next: "`ls /dev/nvidia-caps-imex-channels` on the node and in the container; NCCL_MNNVL_ENABLE=0 and NCCL_CUMEM_ENABLE=0 go without such memory",
    },
    Reason {
        words: "p2p.cc:*invalid device ordinal|importshareablehandle|importfromshareablehandle|openmemhandle*fail|ipcopenmemhandle|cumemsetaccess|cumulticast",
        cause: "a process cannot map the memory of another process's GPU: its container does not see that GPU, or has no IMEX channel",
        next: "give all containers of the job all GPUs of the node, and the host's namespaces of processes and IPC; NCCL_P2P_DISABLE=1 and NCCL_MNNVL_ENABLE=0 go without it",
    },
    Reason {
        words: "no pollout events|socketpollconnect poll",
        cause: "the two hosts use interfaces that do not reach each other",
        next: "check that the peer's process runs and that this node reaches its address; set NCCL_SOCKET_IFNAME to the network that all nodes share",
    },
    Reason {
        words: "error while creating shared memory segment|shared memory segment*no space left|/dev/shm*no space left|shmopen*no space left|/dev/shm*errno 28",
        cause: "/dev/shm is full: the container's has Docker's default of 64 MiB, or ended processes left segments in it",
        next: "start the container with --shm-size=1g or --ipc=host; in Kubernetes, mount an emptyDir of medium Memory on /dev/shm",
    },
    Reason {
        words: "transport/nvls.cc:*cuda failure",
        cause: "multicast over NVLink (NVLS) was not set up: the fabric manager does not run or lost its state, or the container hides GPUs",
        next: "`systemctl status nvidia-fabricmanager` and `nvidia-smi -q | grep -A2 Fabric` on the node; NCCL_NVLS_ENABLE=0 goes without it",
    },
    Reason {
        words: "transport/p2p.cc:*invalid argument",
        cause: "GPUs of one node cannot access each other's memory: separate containers, an IOMMU or ACS, or hidden devices",
        next: "`nvidia-smi topo -p2p r` in the container; NCCL_P2P_DISABLE=1 goes without it",
    },
    Reason {
        words: "cuda failure*invalid argument",
        cause: "a call refused a value: NCCL, the driver and the program's allocator do not fit, or the GPUs cannot share memory",
        next: "try a newer release of NCCL; NCCL_CUMEM_ENABLE=0 and NCCL_P2P_DISABLE=1, one at a time, tell which part it is",
    },
    Reason {
        words: "does not loop back to start|error : ring * does not contain rank",
        cause: "the ranks did not compute the same rings: the nodes differ in topology, in the release of NCCL or in its variables, or a node shows fewer GPUs or NICs than the others",
        next: "compare `nvidia-smi topo -m`, the release of NCCL and the variables NCCL_* of all nodes; NCCL_DEBUG_SUBSYS=GRAPH prints the graphs that each rank found: look for the node whose differ",
    },
    Reason {
        words: "xml import channel : dev |xml import channel: dev ",
        cause: "the file of NCCL_GRAPH_FILE names a GPU or a NIC that this process does not have: it was written on another kind of machine, or for more GPUs than this one shows",
        next: "unset NCCL_GRAPH_FILE, or write a new file with NCCL_GRAPH_DUMP_FILE on this kind of machine with the same GPUs",
    },
    Reason {
        words: "xml error|could not open xml|xml import|xml topology",
        cause: "the file of NCCL_TOPO_FILE is missing on this node, or is no complete description of a machine",
        next: "unset NCCL_TOPO_FILE, or copy the file for this kind of machine to every node",
    },
    Reason {
        words: "nccl_algo*was set|nccl_proto*was set|invalid*nccl_algo|invalid*nccl_proto|nccl_algo*invalid|nccl_proto*invalid",
        cause: "NCCL_ALGO or NCCL_PROTO asks for what this NCCL, this job or this collective does not have",
        next: "unset NCCL_ALGO and NCCL_PROTO",
    },
    Reason {
        words: "is not a valid pointer",
        cause: "a buffer is not memory of a GPU, or was freed before the call",
        next: "check the device and the lifetime of the buffer before the call that the line names",
    },
    Reason {
        words: "allocated on device*nccl device",
        cause: "a buffer is on another GPU than the communicator: the rank made it before it had chosen its GPU",
        next: "choose the rank's GPU before anything else, as `torch.cuda.set_device(local_rank)` does",
    },
    Reason {
        words: "not in a group call|blocking and nonblocking",
        cause: "calls of a group do not fit: an end without a start, or communicators that block beside some that do not",
        next: "read the program's calls of ncclGroupStart and ncclGroupEnd, and how it configures its communicators",
    },
    Reason {
        words: "invalid rank requested",
        cause: "a rank is not below the number of ranks: the launcher's values of rank and world size do not fit",
        next: "print RANK and WORLD_SIZE of each process at its start",
    },
    Reason {
        words: "mismatched nccl version",
        cause: "ranks load different releases of NCCL",
        next: "compare the lines `NCCL version` of all ranks",
    },
    Reason {
        words: "has already been destroyed|comm argument is corrupted|comm*is corrupted|corrupted or uninitialized",
        cause: "the program uses a communicator that it had destroyed, or that was never made",
        next: "read where the program destroys its communicators; check the result of the call that made this one",
    },
    Reason {
        words: "gdr_open|gdr_pin|gdr_map|gdrdrv",
        cause: "GDRCopy is not usable: its driver gdrdrv is not loaded, or its device is not in the container",
        next: "`lsmod | grep gdrdrv` and `ls -l /dev/gdrdrv`; NCCL_GDRCOPY_ENABLE=0 goes without it",
    },
    Reason {
        words: "error: network*not found|nccl_net*no plugin|nccl_net*not available",
        cause: "NCCL_NET names a network that no plugin which NCCL loaded has",
        next: "unset NCCL_NET, or put the folder of that network's plugin on LD_LIBRARY_PATH",
    },
    Reason {
        words: "buffer registration failed|commregister failed|windowregister failed",
        cause: "NCCL cannot register a buffer of the program: its allocator or the GPUs do not allow access by other ranks",
        next: "NCCL_LOCAL_REGISTER=0 goes without it; otherwise allocate the buffer with ncclMemAlloc",
    },
    Reason {
        words: "tuner/plugin*fail|tuner*failed to init|profiler/plugin*fail",
        cause: "NCCL's plugin for tuning or profiling does not start: it is of another release, or lacks its configuration",
        next: "unset NCCL_TUNER_PLUGIN and NCCL_PROFILER_PLUGIN, and look for libnccl-tuner.so on LD_LIBRARY_PATH",
    },
    Reason {
        words: "incompatible devices|incompatible with the local|different link layer",
        cause: "the job mixes NICs of different kinds: InfiniBand and RoCE, or different speeds",
        next: "choose NICs of one kind on all nodes with NCCL_IB_HCA",
    },
    Reason {
        words: "ibv_poll_cq fail|ibv_post_send fail|ibv_post_recv fail",
        cause: "the NIC reports a broken queue: it was reset, its driver failed, or the queue is full",
        next: "`dmesg -T | grep mlx5` on this node, at the time of the line",
    },
    Reason {
        words: "could not allocate proxy shm|proxy shm",
        cause: "/dev/shm has no room, or the processes of this node do not share it",
        next: "`df -h /dev/shm` in the container; start it with --shm-size=1g or --ipc=host",
    },
    Reason {
        words: "nccl warn uds: ",
        cause: "the ranks of this node pass memory to each other over Unix sockets, and that failed: they are in containers with different network namespaces, or the other rank ended",
        next: "run the ranks of a node in one container, or with the host's network; read the logs of this node's other ranks up to this time; NCCL_CUMEM_ENABLE=0 needs no such sockets",
    },
    Reason {
        words: "nccl library is too old*was compiled with|nccl library is not backwards compatible",
        cause: "the program was compiled for another release of NCCL than the library that it loads, as the line says",
        next: "`ldd` and LD_LIBRARY_PATH of the process; load the release that the program was compiled for, or compile it again",
    },
    Reason {
        words: "nccl warn gin is disabled|nccl warn gin not supported|no gin-capable devices|gin strong signals are required|gin va signals are required",
        cause: "the program's kernels send over the network themselves (NCCL's GIN), and the NICs, their plugin or NCCL_GIN_ENABLE of this job do not allow it",
        next: "NCCL_DEBUG=INFO shows which GIN backend each rank finds; look at NCCL_GIN_ENABLE, and at the NICs and the plugin that GIN needs",
    },
    Reason {
        words: "communicator does not support symmetric memory",
        cause: "not all GPUs of this communicator can map memory of the others, which symmetric memory needs",
        next: "`nvidia-smi topo -p2p r` on each node; look for NCCL_CUMEM_ENABLE=0 and NCCL_P2P_DISABLE=1 in the settings of the job",
    },
    Reason {
        words: "mnnvl is not supported on this system",
        cause: "NCCL_MNNVL_ENABLE=1 asks for an NVLink domain of several nodes, which these nodes do not form",
        next: "unset NCCL_MNNVL_ENABLE; where there is such a domain: `nvidia-smi -q | grep -A4 Fabric` and the IMEX daemons on every node",
    },
    Reason {
        words: "multicast team request setup",
        cause: "the fabric manager does not know a GPU that a program wants for multicast over NVLink: it or the GPU was restarted after the other",
        next: "end all programs on the node's GPUs, then restart nvidia-fabricmanager; NCCL_NVLS_ENABLE=0 runs without multicast until then",
    },
];
