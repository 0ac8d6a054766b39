//! Wordings of a call and the error that it returned: together they name what neither does alone.
#![forbid(unsafe_code)]

use super::Reason;

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "connect*172.17.0.*refused|connect*172.17.0.*timed out|connect*172.17.0.*failed|connect*172.17.0.*no route|connect*172.17.0.*unreachable|connect*172.18.0.*failed|connect*172.18.0.*refused|connect*172.18.0.*timed out|connect*172.18.0.*no route|connect*172.18.0.*unreachable|172.17.0.*connect*refused",
        cause: "the address is one of a bridge of Docker, which every host has for itself: the peer told the address of the wrong interface",
        next: "set the interface that all nodes share: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME or UCX_NET_DEVICES; `ip -br addr` lists them",
    },
    Reason {
        words: "connect*192.168.122.1<*refused|connect*192.168.122.1<*timed out|connect*192.168.122.1<*failed|connect*192.168.122.1<*no route|connect*192.168.122.1<*unreachable",
        cause: "the address is that of libvirt's bridge virbr0, which every host has for itself: the peer told the address of the wrong interface",
        next: "set the interface that all nodes share: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME or UCX_NET_DEVICES; `ip -br addr` lists them",
    },
    Reason {
        words: "connect*169.254.*refused|connect*169.254.*timed out|connect*169.254.*failed|connect*169.254.*no route|connect*169.254.*unreachable",
        cause: "the address is link-local (169.254.*), which an interface takes when its network gives it none: the peer told the address of the wrong interface",
        next: "set the interface that all nodes share: btl_tcp_if_include of Open MPI, NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME or UCX_NET_DEVICES; `ip -br addr` lists them",
    },
    Reason {
        words: "system error: 10013|errno: 10013|winerror 10013",
        cause: "Windows does not let this process have the port: it is in a range that Windows reserves, or another process holds it for itself",
        next: "`netsh interface ipv4 show excludedportrange protocol=tcp` lists the reserved ranges; choose another MASTER_PORT",
    },
    Reason {
        words: "connect [127.0.1.1]*connection refused",
        cause: "the peer told a loopback address: its own name resolves to 127.0.1.1 on its host, so the others look for it on their own node",
        next: "`getent hosts $(hostname)` on every node must give the address of its network: correct /etc/hosts, or set GLOO_SOCKET_IFNAME",
    },
    Reason {
        words: "misc/socket.cc*bind failed*cannot assign requested address",
        cause: "the interface that NCCL chose has no address that a socket can be bound to: a link-local one (fe80::), or it was removed",
        next: "choose an interface with an IPv4 address: NCCL_SOCKET_IFNAME, or NCCL_SOCKET_FAMILY=AF_INET; `ip -br addr` lists them",
    },
    Reason {
        words: "(gai error: -2|(gai error: -3|(gai error: -5",
        cause: "the name of the host does not resolve here: it has no entry in DNS or /etc/hosts yet, or the pod behind it does not run",
        next: "`getent hosts NAME` on this node; with Kubernetes, the headless service and the pod of that name must exist",
    },
    Reason {
        words: "ibv_query_gid*invalid argument|ibv_query_gid*fail",
        cause: "the port has no GID of this index",
        next: "`show_gids` on every node; set NCCL_IB_GID_INDEX to an entry that all have, or unset it",
    },
    Reason {
        words: "ibv_create_cq*invalid argument|ibv_create_qp*invalid argument|ibv_query_port*invalid argument|ibv_query_device*invalid argument",
        cause: "the NIC's driver does not know the request: the container's rdma-core and the node's driver are of releases that do not fit, or it is a virtual function",
        next: "compare `ofed_info -s` on the node with `dpkg -l | grep rdma-core` in the container",
    },
    Reason {
        words: "call to ibv_*operation not permitted|call to ibv_*permission denied",
        cause: "the container lacks a right to the RDMA device: IPC_LOCK, the device in its cgroup, or its mode",
        next: "start the container with `--cap-add=IPC_LOCK --device=/dev/infiniband`; `ls -l /dev/infiniband` in it",
    },
    Reason {
        words: "ibv_modify_qp*connection timed out",
        cause: "the address of the peer's NIC does not answer: the rails are not connected with each other, or ARP fails on the path",
        next: "`ping -I INTERFACE ADDRESS` between the addresses of the two NICs; set NCCL_IB_HCA to devices that reach each other",
    },
    Reason {
        words: "ibv_modify_qp*no such device|call to ibv_*no such device",
        cause: "the RDMA device or its port went away: the link is down, or the driver was reset",
        next: "`ibv_devinfo` and `dmesg -T | grep mlx5` on this node, from the time of the line on",
    },
    Reason {
        words: "shmutils.cc:*cuda failure|transport/shm.cc:*cuda failure|include/shm.h:*cuda failure|cudahostregister*fail|cudahostregister*invalid|cudahostregister*not supported|error: part or all of the requested memory range is already mapped",
        cause: "CUDA cannot register a segment of /dev/shm: it is too small, its file system does not allow it, or the machine is a virtual one without that support",
        next: "`df -h /dev/shm` in the container, and start it with a larger --shm-size; NCCL_SHM_DISABLE=1 shows whether that is all",
    },
    Reason {
        words: "ibv_reg_mr*invalid argument|ibv_reg_dmabuf_mr*invalid argument|reg_mr*einval|fi_mr_reg*invalid argument",
        cause: "the NIC's driver refuses the memory or its access flags: memory of a GPU without a matching nvidia-peermem or DMA-BUF, relaxed ordering, or memory of an allocator that cannot be registered",
        next: "compare the driver of the GPU with `modinfo nvidia-peermem`; NCCL_CUMEM_ENABLE=0, NCCL_LOCAL_REGISTER=0 and NCCL_IB_PCI_RELAXED_ORDERING=0, one at a time, tell which it is",
    },
    Reason {
        words: "ibv_reg_mr*bad address|ibv_reg_dmabuf_mr*bad address|reg_mr*efault|register memory*bad address|fi_mr_reg*bad address",
        cause: "the NIC cannot reach the memory: it is a GPU's and nvidia-peermem is not loaded, or this GPU has no GPUDirect RDMA",
        next: "`lsmod | grep nvidia_peermem` on the node; NCCL_NET_GDR_LEVEL=LOC goes without GPUDirect RDMA",
    },
    Reason {
        words: "ibv_reg_mr*cannot allocate|reg_mr*enomem|fi_mr_reg*cannot allocate|ibv_create_qp*cannot allocate|ibv_create_cq*cannot allocate|ibv_alloc_pd*cannot allocate",
        cause: "the limit of locked memory is too small for the NIC, or its resources are used up",
        next: "`ulimit -l` in the container must say unlimited; look for processes of earlier jobs that still use the NIC",
    },
    Reason {
        // The operations of the device's interface that bring a queue pair to RTR and to RTS.
        words: "devx_obj_modify(opcode=0x503)|devx_obj_modify(opcode=0x504)",
        cause: "the NIC refused to connect a queue pair to its peer (to RTR or RTS): what the peer sent of itself does not fit this NIC (GID, LID, port, MTU), the peer's queue pair is gone, or firmware and driver do not fit",
        next: "read the peer's log of the same time; `show_gids` and `ibv_devinfo` of both nodes must show ports of one network that are up; `dmesg -T | grep mlx5` explains the syndrome",
    },
    Reason {
        words: "mlx5dv_devx_obj_create|devx_obj_create*fail|devx*syndrome|mlx5_*obj*syndrome",
        cause: "the NIC's firmware refused to make a queue for direct use: it is too old, the feature is off, or the process or virtual function lacks the right to DevX",
        next: "`ethtool -i` and `mlxconfig -d DEVICE query` on the node; compare firmware and driver with a node that works; run without device-initiated transfers to see that the rest works",
    },
    Reason {
        words: "ibv_open_device*fail*cannot allocate memory|alloc_uar*limits exceeded|status limits exceeded(",
        cause: "the RDMA device has no resources left for another process (UAR pages, contexts, queues): too many processes or endpoints use it",
        next: "`dmesg -T | grep mlx5` names the limit; count the processes with `ls /proc/*/fd -l | grep uverbs`; fewer processes per device, or a larger limit in its firmware (`mlxconfig`, NUM_OF_VFS, LOG_BAR_SIZE)",
    },
    Reason {
        words: "unable to write to file </torch_*no space",
        cause: "shared memory, /dev/shm, is full: a tensor that a worker passes on does not fit",
        next: "`df -h /dev/shm` in the container; start it with a larger --shm-size or --ipc=host, or use fewer workers",
    },
    Reason {
        words: "ibv_open_device*fail|ibv_get_device_list*fail|/dev/infiniband*permission|/dev/infiniband*operation not permitted|/dev/infiniband*no such",
        cause: "the container has no access to the RDMA device: /dev/infiniband is not in it, or its user lacks the right",
        next: "`ls -l /dev/infiniband` and `ibv_devinfo` in the container",
    },
    Reason {
        words: "could not resolve hostname|temporary failure in name resolution|could not resolve host:|getaddrinfo*fail|name or service not known|no address associated with hostname",
        cause: "the name of a host has no address yet or not here: its pod is not up, its headless service is missing, or it is misspelt or of another domain",
        next: "`getent hosts NAME` on this node, with the name in the line; in Kubernetes, start the job only when all pods are ready, and look at their headless service",
    },
    Reason {
        words: "bind*cannot assign requested address|bind*eaddrnotavail|bind*errno: 99|bind*errno 99",
        cause: "the address to listen on is not one of this node: the rendezvous names another node, or the interface has changed",
        next: "compare MASTER_ADDR, or the address in the line, with `ip -br addr` on this node",
    },
    Reason {
        words: "bind*permission denied|bind*eacces|listen*permission denied",
        cause: "the process may not listen on this port: ports below 1024 need a right",
        next: "choose a port above 1024 in MASTER_PORT or the program's option",
    },
    Reason {
        words: "connect*cannot assign requested address|connect*errno: 99|connect*eaddrnotavail",
        cause: "no local port is left for a new connection, or the address is of an interface that went away",
        next: "`ss -s` and `sysctl net.ipv4.ip_local_port_range` on this node; `ip -br addr`",
    },
    Reason {
        words: "connect*network is unreachable|connect*no route to host|connect*errno: 101|connect*errno: 113",
        cause: "this node has no route to the address: another network, an interface that is down, or a firewall",
        next: "`ip route get ADDRESS` on this node, with the address in the line or above it",
    },
    Reason {
        words: "accept*too many open files|socket*too many open files|open*too many open files|emfile",
        cause: "the process has as many open files as its limit allows",
        next: "`ulimit -n` where the program starts; raise it",
    },
    Reason {
        words: "mmap*cannot allocate|mmap*enomem|cudahostalloc*out of memory|cudamallochost*out of memory|pin*memory*cannot allocate",
        cause: "the node or its container has no memory left, or allows no more locked memory or mappings",
        next: "`free -g`, `ulimit -l`, `sysctl vm.max_map_count` and the memory limit of the container",
    },
    Reason {
        words: "shm_open*permission denied|shm_open*eacces|/dev/shm*permission denied",
        cause: "the segment in /dev/shm belongs to another user: one that an ended job left, or another container of the node",
        next: "`ls -l /dev/shm` on the node; remove what ended jobs left",
    },
    Reason {
        words: "shm_open*file exists|/dev/shm*file exists|shmutils.cc*file exists|shm.h*file exists",
        cause: "a segment in /dev/shm has the name already: an ended job left it, or two jobs share a name",
        next: "`ls -l /dev/shm` on the node; remove what ended jobs left",
    },
    Reason {
        words: "fi_domain(*fail|fi_domain failed|fabric access domain*invalid argument|fi_endpoint*invalid argument|fi_ep_bind*fail|fi_enable*fail|fi_av_insert*fail|fi_cq_open*fail",
        cause: "libfabric could not open the network: the EFA device is missing or of a kind that this libfabric does not know, or its resources are used up",
        next: "`fi_info -p efa` in the container; compare the releases of libfabric, of the EFA driver and of the plugin",
    },
    Reason {
        words: "dlopen*undefined symbol|dlopen*version `",
        cause: "a library that is loaded at run time is of another release than the one that loads it",
        next: "`ldd` and `nm -D` of the library in the line; compare LD_LIBRARY_PATH of the nodes",
    },
    Reason {
        words: "cannot allocate memory in static tls block",
        cause: "the library must be loaded before the others: no room is left for what its threads have each",
        next: "load the library with LD_PRELOAD, or import its package first",
    },
    Reason {
        words: "setsockopt*no such device|so_bindtodevice|bindtodevice",
        cause: "the interface that the program binds to is not on this node",
        next: "compare the interface in the settings with `ip -br addr` on every node",
    },
];
