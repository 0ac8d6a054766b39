//! Wordings of UCX, NVSHMEM, libfabric and the drivers of NICs.
#![forbid(unsafe_code)]

use super::Reason;

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "psm was unable to open an endpoint|find an infinipath unit|/dev/ipath|ipath_userinit",
        cause: "the node has no such NIC, its driver (ib_qib, ib_ipath) is not loaded or failed, or its link is down",
        next: "`ls -l /dev/ipath*`, `ibstat` and `dmesg -T | grep -e qib -e ipath` on the node; --mca mtl ^psm goes without PSM",
    },
    Reason {
        words: "psm3 can't open nic unit|psm2 can't open hfi unit|psm2 was unable to open an endpoint|ofi endpoint open failed",
        cause: "libfabric's provider, mostly PSM2 or PSM3, could not open an endpoint on the NIC: its port is down, the process may not open it, all its contexts are taken by other processes, or the provider does not fit this kind of NIC",
        next: "`fi_info -l`, `ibv_devinfo` and `ulimit -l` in the same environment; FI_PROVIDER=tcp, or I_MPI_OFI_PROVIDER=tcp with Intel MPI, goes without it",
    },
    Reason {
        words: "unexpected code in http response*metadata|failed to retrieve segment descriptor",
        cause: "the metadata server has no entry of the other side's transfer engine: that process has not registered yet, ended, or registered under another name or address than the one that is asked for",
        next: "read the other side's log up to this time; `curl` the address in the line from both nodes; both sides must use one metadata server, and an address that the other one reaches",
    },
    Reason {
        words: "listen on ip*specific port*fail",
        cause: "HCCL could not listen on its port: another process holds it, on the host or on the NPU that it uses, or the address is not of this node",
        next: "`ss -ltnp` names the process that holds the port in the line, and `npu-smi info` those that use the NPU; end it, or give the job other ports (HCCL_IF_BASE_PORT, HCCL_NPU_SOCKET_PORT_RANGE)",
    },
    Reason {
        words: "ibverbs init qp failed",
        cause: "the two ends of a connection of Mooncake's RPC did not exchange the data of their queue pairs: one of them speaks TCP where the other one speaks RDMA, or it ended",
        next: "give both sides one protocol for RPC (MC_RPC_PROTOCOL), and read the other side's log of the same moment",
    },
    Reason {
        words: "invalid request descriptor",
        cause: "the NIC found the description of a request invalid: the memory that it names is not registered any more, or is of a GPU and cannot be read by the NIC, or what took the request was released",
        next: "repeat the call with buffers in the memory of the host; FI_LOG_LEVEL=warn prints the provider's own lines before it",
    },
    Reason {
        words: "gloo/transport/*bad address",
        cause: "Gloo sends over TCP from memory that the CPU cannot read: mostly a tensor of a GPU was given to a group of Gloo, or memory that is freed already",
        next: "give the group tensors in the memory of the host (`tensor.cpu()`), or make the group with the backend nccl; the traceback names the call",
    },
    Reason {
        words: "session::writebody failed*bad address|session::readbody failed*bad address",
        cause: "the transfer engine sends over TCP from memory that the CPU cannot read: it is a GPU's, and this build of the engine is not made for CUDA, so it does not copy it first",
        next: "use a build of the transfer engine with CUDA, or its protocol rdma where the nodes have RDMA devices",
    },
    Reason {
        words: "ofi libfabric library call (",
        cause: "the provider of libfabric refused the call with the code below it: 38 (not implemented) or 95 where it lacks what Open MPI asks for or does not fit the NIC's driver; 1 or 13 where this process may not open the NIC, as on Slingshot without a VNI; 12 or 11 where its resources are used up",
        next: "`fi_info` in the same environment, and `ldd` of Open MPI's mca_mtl_ofi.so: which libfabric and which provider; FI_LOG_LEVEL=warn prints the provider's own reason; --mca mtl ^ofi goes without it",
    },
    Reason {
        words: "failed to find valid default rgroup and vni",
        cause: "the job has no VNI of the Slingshot network, so libfabric's provider (CXI) cannot open the NIC: it was not started by srun, or Slurm gave it none",
        next: "start it with srun, for one node with `--network=single_node_vni`; `fi_info -p cxi` within the job lists the NICs that it may use",
    },
    Reason {
        words: "access domain*function not implemented",
        cause: "the libfabric that the plugin loaded cannot open this NIC: it is not the one that fits the host's driver, or, on Slingshot, the job has no VNI",
        next: "`ldd` of the plugin names its libfabric: use the host's in the container; read libfabric's lines before it with FI_LOG_LEVEL=info",
    },
    Reason {
        words: "failed to attach to shmseg",
        cause: "processes of one host cannot share memory of System V: they are in containers of which each has an IPC namespace of its own",
        next: "start the containers with --ipc=host or with one shared IPC namespace, or take shm out of UCC_TLS and sm out of UCX_TLS",
    },
    Reason {
        words: "rocm_ipc*failed to|cuda_ipc*failed to|ze_ipc*failed to",
        cause: "UCX cannot share the memory of a GPU with another process of the node: the memory is not of an allocator that it can export, or the container or the driver does not allow it; a large message then has no way",
        next: "take rocm_ipc, cuda_ipc or ze_ipc out of UCX_TLS (`UCX_TLS=^rocm_ipc`) to see whether it is that; compare the releases of UCX and of ROCm or CUDA",
    },
    Reason {
        words: "failed to open ipc mem handle",
        cause: "a process cannot open the memory of another process's GPU: it has no current context of CUDA then (201), does not see that GPU, or the two are in containers that do not share it",
        next: "call cudaSetDevice before the library is used; let all processes of the host see all GPUs; take cuda out of UCC_TLS, or cuda_ipc out of UCX_TLS, to see whether it is that",
    },
    Reason {
        words: "failed to unpack*remote key",
        cause: "UCX could not open the memory that the peer offers, over one of its transports: mostly cuda_ipc or shared memory",
        next: "read the line of UCX before it, which names the transport; take that one out of UCX_TLS to see whether it is it",
    },
    Reason {
        words: "no matched device found",
        cause: "the transfer engine was given a name that no RDMA device here has: often that of a network interface (eth0) in place of that of its RDMA device (mlx5_0)",
        next: "`rdma link show` in the same container tells which RDMA device an interface has: pass its name, or choose the protocol tcp",
    },
    Reason {
        words: "cxip_*failed to map recv buffer: -22|cxil_map() failed: -22|cxip_*failed to acquire mapping*: -22",
        cause: "cxil_map, which registers memory with the Slingshot NIC (CXI), refused the address with -22 (EINVAL): mostly memory of a GPU that this libfabric, or the NIC's driver, cannot map",
        next: "use a libfabric and an MPI that are built for this kind of GPU, and start them so (MPICH_GPU_SUPPORT_ENABLED=1); the same call with a buffer in host memory shows whether it is that",
    },
    Reason {
        words: "port issue*training timeout",
        cause: "a port of the GPU's fabric (Xe Link) did not train, so its link is down: the cable or bridge, its power, the GPU at its other end, or the firmware",
        next: "`xpu-smi discovery`, `xpu-smi topology -m` and `dmesg -T | grep -e i915 -e xe` on the node; reseat or change the bridge or cable of the port that the line names, and power-cycle the node",
    },
    Reason {
        words: "to modify qp state to r",
        cause: "the NIC refused a step of the queue pair: the peer's number, LID or GID is missing or wrong, the GID index does not fit, or the port is not active",
        next: "`show_gids` and `ibv_devinfo -v` on both nodes: the port, the GID index and the link layer that the program is built for must be theirs; `ibv_rc_pingpong -g INDEX` between them",
    },
    Reason {
        words: "callback*status -6: destination is unreachable|endpoint*status -6: destination is unreachable",
        cause: "UCX cannot reach the peer's address: its process is not up or has ended, or UCX_TLS or UCX_NET_DEVICES leave no transport that both nodes have",
        next: "`ucx_info -d` on both nodes; compare UCX_TLS and UCX_NET_DEVICES of both; read the peer's log of the same moment",
    },
    Reason {
        words: "ucp_ep_create*destination is unreachable|destination is unreachable*ucp_ep_create",
        cause: "UCX has no transport that this node and the peer have in common: UCX_TLS or UCX_NET_DEVICES differ or name a device that is down, or the port's type differs",
        next: "`ucx_info -d` and `ibv_devinfo` on both nodes; unset UCX_TLS and UCX_NET_DEVICES on both",
    },
    Reason {
        words: "non-zero status*unable to initialize any transports",
        cause: "NVSHMEM found no transport between its processes: no RDMA device that it can use, and no peer access between the GPUs",
        next: "NVSHMEM_DEBUG=INFO tells why each transport was left out; `ibv_devinfo` and `nvidia-smi topo -m` in the container",
    },
    Reason {
        words: "failed to install transport rdma|install transport rdma*no available",
        cause: "the transfer engine found no RDMA device in this process: the container lacks /dev/infiniband, or the device names that it was given do not exist here",
        next: "`ibv_devinfo` in the container; compare the device names of the configuration with it, or choose the protocol tcp",
    },
    Reason {
        words: "ncclibrocegetversionnum",
        cause: "the entry of the NIC's table of GIDs has no RoCE version: this index is empty, or the container does not see it",
        next: "`show_gids`, or `cat /sys/class/infiniband/*/ports/*/gid_attrs/types/*`: choose a GID index that is set",
    },
    Reason {
        words: "failed to register memory*numerical result out of range|failed to register memory*[34]|reg_mr*numerical result out of range",
        cause: "the region is larger than the NIC takes in one registration, or is memory that its driver cannot map, such as a GPU's without peer memory or DMA-BUF",
        next: "`ibv_devinfo -v | grep max_mr_size` beside the region's size; for memory of a GPU, `lsmod | grep peermem` on the node",
    },
    Reason {
        words: "failed to create*qp*invalid argument",
        cause: "the NIC or its driver refuses this kind or size of queue pair",
        next: "use another transport or smaller queues (UCX_TLS); compare the driver and rdma-core of a node where it works",
    },
    Reason {
        words: "modify qp to rtr*timed out|qp to rtr*[110]|modify_qp*timed out",
        cause: "the NIC could not resolve or reach the peer's address: no route or ARP entry between the two GIDs, different VLANs or subnets, or the peer's port is down",
        next: "`ping -I` and `rping` between the two addresses of the line; `ip neigh` on both nodes; `show_gids` must list addresses of one network",
    },
    Reason {
        words: "rcache*failed to insert region|failed to register*cuda*memory",
        cause: "UCX could not register a buffer with the device, mostly memory of a GPU: no peer-memory module, or memory of a kind that it does not take",
        next: "`lsmod | grep -e peermem -e dmabuf`; UCX_LOG_LEVEL=info shows how the buffer was seen; try without GPUDirect (NCCL_NET_GDR_LEVEL=0)",
    },
    Reason {
        words: "is not implemented for protoc",
        cause: "UCX destroyed a connection while requests on it were not complete, and cannot abort requests of their kind: MPI_Finalize was called, or the peer ended, with sends or receives that were not waited for",
        next: "wait for all requests (MPI_Waitall) and for the other ranks (MPI_Barrier) before MPI_Finalize; compare the release of UCX (`ucx_info -v`) with its later fixes",
    },
    Reason {
        words: "unable to insert remote address into address vector",
        cause: "libfabric does not take the address of a peer: the nodes have other providers, releases or numbers of NICs, or the address was damaged",
        next: "compare the plugin's and libfabric's release, the provider and the NICs of all nodes; `fi_info` on each",
    },
    Reason {
        words: "net/ofi*completed with error*undeliverable",
        cause: "libfabric could not deliver to the peer (no route to it): its process or node is gone, or the fabric has no path between the two NICs",
        next: "read the peer's log of the same moment; `fi_pingpong` between the two nodes over the same provider; the fabric's own state of the two ports",
    },
    Reason {
        words: "net/ofi*completed with error*inappropriate ioctl|net/ofi*completed with error*function not implemented|net/ofi*completed with error*operation not supported",
        cause: "the provider or its driver refuses the request: libfabric in the container does not fit the driver of the host, or it cannot send this kind of memory",
        next: "compare `fi_info --version` and the provider in the container with the host's; try once with NCCL_NET_GDR_LEVEL=0, which sends no memory of GPUs directly",
    },
    Reason {
        words: "operation with null context completed with error|net/ofi*rc: -1*unresponsive|net/ofi*completed with error*unresponsive",
        cause: "a request of EFA failed: the security group does not allow all traffic within itself, the interfaces are of different subnets, or the peer has ended",
        next: "the security group must allow all traffic in and out to itself; `fi_pingpong -p efa` between the two nodes; the peer's log of the same time",
    },
    Reason {
        words: "net/ofi*completed with error",
        cause: "a request of libfabric failed: the peer has ended, or the network between the two NICs refuses it: on EFA, a security group that does not allow all traffic within itself, or interfaces of different subnets",
        next: "the peer's log of the same time; `fi_pingpong` between the two nodes over the provider that the plugin names; on EFA, the security group must allow all traffic in and out to itself",
    },
    Reason {
        words: "find any optimal provider|provider efa output empty list|provider efa*no data available",
        cause: "libfabric finds no EFA device: the instance has none, the container lacks /dev/infiniband, or this libfabric was built without it",
        next: "`fi_info -p efa` and `ls /dev/infiniband` in the container",
    },
    Reason {
        words: "no active messages transport|no am bcopy|no remote memory access transport|- destination is unreachable",
        cause: "UCX has no transport that reaches the peer: UCX_TLS or UCX_NET_DEVICES leaves the network out, or the NICs of the two nodes differ",
        next: "unset UCX_TLS and UCX_NET_DEVICES; compare `ucx_info -d | grep Transport` on both nodes",
    },
    Reason {
        words: "tcp_ep*send(*failed|tcp_ep*recv(*failed|tcp_ep*connect*failed|ucx error: endpoint timeout",
        cause: "UCX lost its TCP connection to the peer: the peer ended, or its address is of an interface that this node does not reach",
        next: "read the peer's log of the same time; set UCX_NET_DEVICES to the interface that both nodes share",
    },
    Reason {
        words: "modify_qp(*fail|ibv_modify_qp failed (|invalid gid|gid is invalid|modify qp*rtr|qp to rtr",
        cause: "the NIC refused to connect a queue pair: the entry of its GID is empty or not that of a RoCE v2 address, its port is down, or the MTUs differ",
        next: "`show_gids` and `ibv_devinfo` on both nodes; choose the entry with the NIC's IPv4 address: NCCL_IB_GID_INDEX, UCX_IB_GID_INDEX or NVSHMEM_IB_GID_INDEX",
    },
    Reason {
        words: "reg_mr(*failed|failed to register region|failed to register address|failed to register user buffer|failed to register memory|memory registration failed|failed to allocate memory pool",
        cause: "the NIC cannot register the memory: nvidia-peermem or DMA-BUF is missing for memory of a GPU, or the limit of locked memory is too small",
        next: "`lsmod | grep nvidia_peermem` on the node and `ulimit -l` in the container",
    },
    Reason {
        words: "fi_getinfo error: ret -61|can't find suitable provider|can't create providers for name",
        cause: "libfabric has no provider of the kind that is asked for: this libfabric was built without it, FI_PROVIDER_PATH does not name the folder with the libraries of its providers, or FI_PROVIDER asks for another one",
        next: "`fi_info -l` in the same container lists the providers that libfabric finds; compare them with FI_PROVIDER and FI_PROVIDER_PATH",
    },
    Reason {
        words: "ofi addrinfo() failed|ofi fi_getinfo() failure|fi_getinfo() call failed|could not find a provider|find a protocol that worked|fi_getinfo*no data available",
        cause: "libfabric has no provider that fits on this node: the device is not there or not in the container, FI_PROVIDER asks for another one, or this libfabric was built without it",
        next: "`fi_info -p efa` and `ls /dev/infiniband` in the container",
    },
    Reason {
        words: "ofi poll failed*undeliverable",
        cause: "the NIC could not deliver a message: the peer's process or node has ended, or the fabric between the two failed",
        next: "read the log of the other ranks of the same time, the first that ended above all; ask for the fabric's errors at this time",
    },
    Reason {
        words: "ofi poll failed*ptlte_not_found",
        cause: "the peer had no entry for the message any more: its process ended, or the memory that it had registered was freed",
        next: "read the log of the other ranks of the same time, the first that ended above all; ask for the fabric's errors at this time",
    },
    Reason {
        words: "unable to create ah|ibv_create_ah",
        cause: "the NIC does not take the peer's address: the GID is not of a RoCE v2 network that reaches it, or the NIC lacks the feature",
        next: "`show_gids` on both nodes, and `ib_write_bw` between them; set the GID index of the library in the line: UCX_IB_GID_INDEX or NVSHMEM_IB_GID_INDEX",
    },
    Reason {
        words: "could not insert 'nvidia_peermem'|nvidia-peermem*error|nvidia_peermem*error|nv_peer_mem*error",
        cause: "nvidia-peermem, with which RDMA reaches GPU memory, is not usable: it does not fit the installed RDMA driver",
        next: "`modprobe nvidia-peermem; dmesg | tail`; reinstall the GPU's driver after the RDMA driver",
    },
    Reason {
        words: "fi_hmem_cuda",
        cause: "libfabric cannot use CUDA: the container lacks the GPU's driver library, or CUDA failed in it",
        next: "`nvidia-smi` and `fi_info -p efa` in the container",
    },
    Reason {
        words: "efa*failed to process command",
        cause: "the EFA device refused a command: its resources are used up, or its driver is old",
        next: "look for processes of earlier jobs on the instance; `modinfo efa | grep version`",
    },
    Reason {
        words: "mlx5_cmd_out_err|cmd_work_handler|mlx5_cmd_check",
        cause: "the NIC's firmware refused a command: a value that it does not allow, too many resources, or a driver that does not fit",
        next: "`mlxfwmanager` or `ethtool -i` shows the firmware; compare it with a node that works",
    },
    Reason {
        words: "nvlink fabric error|fabric state of gpu|fabricmanager*mismatch|fabricmanager*failed|fabric manager*mismatch|fabric manager*failed to",
        cause: "the fabric manager of the NVSwitches does not run, or is of another release than the driver",
        next: "`systemctl status nvidia-fabricmanager` and `nvidia-smi -q | grep -A2 Fabric` on the node",
    },
    Reason {
        words: "number of gpus detected*not equal",
        cause: "the receive manager does not see all GPUs of the node: its container lacks a device, or another network has the slot of a GPU's NIC",
        next: "`ls /dev/nvidia*` in the manager's container; compare the networks of the node pool with the NICs of the GPUs",
    },
    Reason {
        words: "rxdm is not ready",
        cause: "the receive manager does not run on this node, failed, or is not reached from the job's container",
        next: "read the receive manager's log on this node; check that both containers share its folder of sockets",
    },
    Reason {
        words: "invalid gid[",
        cause: "the entry of that index in the port's table of GIDs is empty: the port is down or has no address, or it is not a device that UCX should use",
        next: "`show_gids`, `ibv_devinfo`; set UCX_NET_DEVICES to the ports that are up on every node",
    },
    Reason {
        words: "no usable transports/devices (asked",
        cause: "UCX_TLS or UCX_NET_DEVICES asks for transports or devices that this node does not have",
        next: "`ucx_info -d` on the node; unset UCX_TLS",
    },
    Reason {
        words: "ccom warn*only efa provider is supported|ofi plugin initnet() failed|ofi plugin is not installed or efa",
        cause: "libfabric finds no EFA device for the collectives: EFA is not enabled on this instance's network interface, its driver is not loaded, or the process may not use it",
        next: "`fi_info -p efa` and `ls /dev/infiniband` in the container; the network interface of the instance must be of type EFA",
    },
    Reason {
        words: "unable to register mr*bad address|fi_mr_reg failed*bad address|ibv_reg_mr*failed*bad address|ibv_reg_dmabuf_mr*bad address",
        cause: "the NIC could not map the memory: it is mostly that of a GPU, for which the NIC's driver must take a DMA-BUF or the GPU driver's peer memory, and that failed; otherwise the address is not of memory that is still allocated",
        next: "`lsmod | grep -e nvidia_peermem -e gdrdrv` and the kernel's release on the node; try the same transfer with memory of the CPU",
    },
];
