//! What CUDA's texts of its errors say: `cudaGetErrorString` and the names of the errors.
//!
//! Texts that a signature or another file knows are not here, nor those that do not tell why.
#![forbid(unsafe_code)]

use super::Reason;

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "cuda driver is a stub library|cuda_error_stub_library|cudaerrorstublibrary",
        cause: "the process loaded the stub of libcuda.so, which the CUDA toolkit has for linking only, instead of the driver's library",
        next: "LD_LIBRARY_PATH and the rpath of the program: take the folder `stubs` out, so that libcuda.so.1 of the driver is found; in a container, `ldconfig -p | grep libcuda`",
    },
    Reason {
        words: "cuda failure*driver shutting down|cuda error: driver shutting down|cudaerrorcudartunloading|cuda_error_deinitialized",
        cause: "the process was ending already: one of its threads still called CUDA",
        next: "read what ended the process, before this line; destroy communicators and join threads before the program returns",
    },
    Reason {
        words: "launch timed out and was terminated|cudaerrorlaunchtimeout|cuda_error_launch_timeout",
        cause: "a kernel ran longer than the driver allows on a GPU that also drives a display",
        next: "`nvidia-smi -q -d DISPLAY` on the node; take the display off this GPU, or make the kernel shorter",
    },
    Reason {
        words: "context is destroyed|cuda_error_context_is_destroyed",
        cause: "the program or a library destroyed the GPU's context (cudaDeviceReset, cuDevicePrimaryCtxReset) while another part still used it",
        next: "look for resets of the device in the program and its libraries; destroy communicators before them",
    },
    Reason {
        words: "too many resources requested for launch|launchoutofresources|cuda_error_launch_out_of_resources",
        cause: "a kernel needs more registers or threads for a block than this GPU has",
        next: "run with CUDA_LAUNCH_BLOCKING=1 to see the kernel; fewer threads in a block, or a build for this kind of GPU",
    },
    Reason {
        words: "too many blocks in cooperative launch|cooperativelaunchtoolarge|cooperative_launch_too_large",
        cause: "a cooperative kernel has more blocks than fit on the GPU at once: it has fewer multiprocessors than the program expects, or MPS or MIG gives a part of them",
        next: "compare the kernel's number of blocks with `nvidia-smi -q | grep -i mig`, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE and the GPU's multiprocessors",
    },
    Reason {
        words: "requested memory range is already mapped|hostmemoryalreadyregistered|host_memory_already_registered",
        cause: "this memory of the host is registered with CUDA already, wholly or in part",
        next: "look for two registrations of one buffer (cudaHostRegister, pin_memory) in the program and its libraries",
    },
    Reason {
        words: "does not correspond to a registered memory region|hostmemorynotregistered|host_memory_not_registered",
        cause: "the program gave back memory of the host that is not registered with CUDA, or not any longer",
        next: "look for two calls of cudaHostUnregister, or memory that was freed before it",
    },
    Reason {
        words: "peer access is already enabled|peeraccessalreadyenabled|peer_access_already_enabled",
        cause: "peer access of these GPUs was enabled before; an error that the program did not read is reported by a later call",
        next: "look for the call of cudaDeviceEnablePeerAccess whose result is not checked, and clear it with cudaGetLastError",
    },
    Reason {
        words: "unsupported display driver / cuda driver combination|systemdrivermismatch|system_driver_mismatch",
        cause: "libcuda.so and the driver in the kernel are of different releases: the driver was updated without a restart, or the container brings a library of its own",
        next: "`cat /proc/driver/nvidia/version` on the node, and `ls -l` of libcuda.so.* in the container; restart the node, or take the container's own library out",
    },
    Reason {
        words: "forward compatibility was attempted|compatnotsupportedondevice|compat_not_supported_on_device",
        cause: "the container brings a newer libcuda.so (cuda-compat), which works only on GPUs of data centers and above drivers of certain releases",
        next: "take /usr/local/cuda/compat out of LD_LIBRARY_PATH, or update the node's driver",
    },
    Reason {
        words: "not supported in the installed cuda driver|callrequiresnewerdriver",
        cause: "the program calls a function that the node's driver does not have: the driver is older than the CUDA release",
        next: "`nvidia-smi` shows the newest CUDA that the driver knows; update the driver, or use a build for that CUDA",
    },
    Reason {
        words: "jit compiler library*not found|jitcompilernotfound|jit_compiler_not_found",
        cause: "the process does not find the driver's compiler for kernels (libnvidia-ptxjitcompiler.so): the container lacks it, or no kernel was built for this GPU",
        next: "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility; `ldconfig -p | grep ptxjit` in it",
    },
    Reason {
        words: "invalid access of peer gpu memory over nvlink",
        cause: "an access of another GPU's memory over NVLink failed: the process of that GPU ended or freed the memory, or the link or the GPU has a fault",
        next: "read the logs of the other ranks of this node up to this time; `dmesg -T | grep -i xid` and `nvidia-smi nvlink -e`",
    },
    Reason {
        words: "misaligned address",
        cause: "a kernel accessed memory at an address that its type does not allow, such as a vector of 16 bytes at an odd offset",
        next: "run with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer, to see which kernel; then look at the offsets and views of its buffers",
    },
    Reason {
        words: "an illegal instruction was encountered",
        cause: "a kernel has an instruction that this GPU does not know, or jumped to an address without code: it was built for another kind of GPU, or memory was overwritten",
        next: "compare the GPU with the architectures of the build; run under compute-sanitizer",
    },
    Reason {
        words: "cuda failure*mapping of buffer object failed|cuda error: mapping of buffer object failed|mapbufferobjectfailed",
        cause: "memory of another process or GPU could not be mapped: the GPU's window for it (BAR1) is full, or the two are in containers or virtual machines that do not share it",
        next: "`nvidia-smi -q -d MEMORY | grep -A3 BAR1` on the node; run the ranks of a node in one container, or with --ipc=host and --pid=host",
    },
    Reason {
        words: "appears not to be licensed|devicenotlicensed|device_not_licensed",
        cause: "the virtual GPU has no licence: its driver refuses to work",
        next: "`nvidia-smi -q | grep -i license` in the virtual machine; start nvidia-gridd with the licence's token",
    },
];
