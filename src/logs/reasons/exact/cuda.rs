//! Wordings of CUDA, ROCm and their drivers.
#![forbid(unsafe_code)]

use super::Reason;

/// The cause where the kind of the GPU decides.
pub(crate) const NO_KERNEL: &str =
    "this library has no kernel for this kind of GPU: it was built for other architectures";

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "ur_result_error_device_lost|ze_result_error_device_lost|pi_error_device_lost",
        cause: "the driver lost the Intel GPU: a kernel hung or faulted, and the GPU was reset",
        next: "`dmesg -T | grep -i -e i915 -e xe -e drm` on the node at this time; read the first such line of any rank",
    },
    Reason {
        words: "ur_result_error_out_of_device_memory|ur_result_error_out_of_resources|ze_result_error_out_of_device_memory",
        cause: "the memory of the Intel GPU is full",
        next: "`xpu-smi ps` and `xpu-smi stats -d N` show what holds it; lower the batch size or the framework's memory fraction",
    },
    Reason {
        words: "ur_result_error_uninitialized|ze_result_error_uninitialized",
        cause: "no Intel GPU could be initialized: /dev/dri is not in the container, its driver does not fit, or ZE_AFFINITY_MASK leaves none",
        next: "`sycl-ls` in the same container must list level_zero:gpu",
    },
    Reason {
        words: "page not present or supervisor privilege",
        cause: "a kernel accessed memory that is not mapped for this GPU: an index out of range, memory that was freed, or memory of another GPU without peer access",
        next: "run with AMD_SERIALIZE_KERNEL=3 to see the kernel; compare the kernels' sizes with their buffers",
    },
    Reason {
        words: "hsa_status_error_out_of_resources",
        cause: "the runtime of ROCm could not get a resource for a queue: the GPU's memory is full, too many processes use it, or a kernel wants more scratch memory or registers than there are",
        next: "`rocm-smi --showpids --showmeminfo vram` on the node; fewer processes per GPU",
    },
    Reason {
        words: "failed to initialize nvml: unknown error",
        cause: "the container lost its GPUs while it ran: systemd reloaded and took the rights to its devices, or the driver was restarted",
        next: "start the container again; with cgroup v2, give the devices with --device, or set the cgroup driver of the container runtime to cgroupfs",
    },
    Reason {
        words: "cuda failure*named symbol not found|cuda failure*no kernel image|cuda failure*invalid device function|cuda error: no kernel image|cuda error: named symbol not found|hip failure*invalid device function",
        cause: NO_KERNEL,
        next: "compare the GPU's compute capability with the architectures that the failing library was built for (torch.cuda.get_arch_list(), NVCC_GENCODE of NCCL's `make`); take a release or a build that knows this GPU",
    },
    Reason {
        words: "invalid kernel file",
        cause: "the library has no kernels for this GPU: it was built for other architectures",
        next: "compare the GPU's architecture (`rocminfo`, `nvidia-smi --query-gpu=compute_cap --format=csv`) with those that the library was built for",
    },
    Reason {
        words: "nvrm:*_kgsp|nvrm:*gsp timeout|nvrm:*response from gpu*gsp",
        cause: "the GPU's firmware hangs: a bug of this release of the driver, or a GPU that fails",
        next: "read the kernel's lines with NVRM before it; reset the GPU or restart the node; if it comes again, try another release of the driver, or the GPU must be replaced",
    },
    Reason {
        words: "nvrm:*timeout error|nvrm:*timed out|nvrm:*timeout was",
        cause: "the GPU did not answer its driver in time: its firmware hangs, or the GPU or its link fails",
        next: "read the kernel's lines with NVRM before it; reset the GPU or restart the node; if it comes again, try another release of the driver, or the GPU must be replaced",
    },
    Reason {
        words: "peer mapping resources exhausted",
        cause: "a GPU maps the memory of at most eight others, and this job opens more: too many GPUs are in one process or node",
        next: "take fewer GPUs per process and node (CUDA_VISIBLE_DEVICES); NCCL_P2P_DISABLE=1 and NCCL_CUMEM_ENABLE=0 map less",
    },
    Reason {
        words: "invalid device context|cuda_error_invalid_context|cuda failure 201",
        cause: "the thread has no current context of CUDA: it is a thread of a library, or it called no cudaSetDevice",
        next: "call cudaSetDevice in each thread that uses the library; take cuda_ipc out of UCX_TLS to see whether it is that transport",
    },
    Reason {
        words: "cudaipcopenmemhandle*peer access is not supported|tensorrt*peer access|tensorrt*ipcmem|tensorrt*cudaipc|ipcutils|allreduce*peer access|peer access*allreduce",
        cause: "two GPUs of this node cannot open each other's memory, which a custom all-reduce of the program needs",
        next: "`nvidia-smi topo -p2p r` shows the pairs; switch off the program's custom all-reduce (use_custom_all_reduce, --disable-custom-all-reduce)",
    },
    Reason {
        words: "driver version is insufficient for cuda runtime",
        cause: "the driver of the GPU is older than the program's CUDA release needs",
        next: "`nvidia-smi` shows the newest CUDA that the driver knows; update the driver, or use a build for that CUDA",
    },
    Reason {
        words: "query nvswitch device information*failed",
        cause: "the driver sees no NVSwitch: this machine has none, or they do not answer",
        next: "`lspci | grep -i -e nvswitch -e bridge` and `nvidia-smi topo -m`; without NVSwitches, the fabric manager is not needed",
    },
    Reason {
        words: "critical xid",
        cause: "a GPU reported a critical error (Xid) to its driver",
        next: "`dmesg -T | grep -i xid` on the node: NVIDIA's table of Xids says what to do; take the node out until then",
    },
    Reason {
        words: "uncorrectable ecc error",
        cause: "memory of the GPU is broken: an error that ECC could not correct",
        next: "take the node out; `nvidia-smi -q -d ECC,ROW_REMAPPER` shows whether a reset of the GPU remaps the row, or the GPU must be replaced",
    },
    Reason {
        words: "no hip gpus are available|hiperrornodevice|hiperrorinvaliddevice|no rocm-capable device",
        cause: "the process sees no AMD GPU: the container lacks /dev/kfd and /dev/dri, or the user is not in the groups video and render",
        next: "`rocminfo` in the container; start it with `--device=/dev/kfd --device=/dev/dri --group-add video`",
    },
    Reason {
        words: "hip*invalid device function|hip*no kernel image|hip*no binary for gpu|hiperrornobinaryforgpu|status_error_invalid_isa",
        cause: "the program, or RCCL, is not built for this kind of AMD GPU",
        next: "compare `rocminfo | grep gfx` with the kinds of GPUs that the program and RCCL were built for",
    },
    Reason {
        words: "hip failure*invalid device pointer|hip failure*invalid argument|hip failure*invalid value|hip error: invalid argument",
        cause: "the HIP runtime does not know the memory it was given: ROCm and RCCL are of releases that do not fit, or the memory was freed",
        next: "compare the releases of ROCm on the node, in the container and of RCCL; try the next patch release of ROCm",
    },
    Reason {
        words: "failed to cuda calloc|failed to cuda malloc|failed to cuda host",
        cause: "the GPU's memory is full",
        next: "leave memory free for NCCL: lower the batch size or the framework's memory fraction; `nvidia-smi` lists other processes",
    },
    Reason {
        words: "mps client|mpsconnectionfailed|mps server|mps control daemon",
        cause: "the server of MPS on this node does not run, failed, or belongs to another user",
        next: "`ps -ef | grep mps` on the node; start nvidia-cuda-mps-control as the user of the job, or run without MPS",
    },
    Reason {
        words: "invalid resource handle",
        cause: "a stream, an event or memory of another GPU was used, or one of an earlier call that had failed",
        next: "choose the rank's GPU before any other call of CUDA; read the first CUDA error of this process",
    },
    Reason {
        words: "stream is capturing",
        cause: "a call that a CUDA graph cannot hold was made while one was captured",
        next: "run without CUDA graphs (`--enforce-eager` in vLLM, `--disable-cuda-graph` in SGLang) to see the call",
    },
    Reason {
        words: "uncorrectable nvlink|nvlink error|nvlink: fatal",
        cause: "an NVLink of the GPU failed: the link, an NVSwitch or the GPU itself",
        next: "`nvidia-smi nvlink -e` and `dmesg -T | grep -i -e xid -e sxid`; take the node out",
    },
    Reason {
        words: "invalid permissions for mapped object",
        cause: "native code touched memory of a GPU as if it were memory of the host: a library without CUDA support, such as a UCX of the system",
        next: "`ucx_info -v` of the library that the process loads, and the frames of the backtrace",
    },
    Reason {
        words: "out of resource: shared memory",
        cause: "the kernel needs more shared memory of the GPU than this GPU has",
        next: "smaller blocks or fewer stages of the kernel, or a GPU with more shared memory",
    },
    Reason {
        words: "/dev/kfd*no such file|rock module is not loaded",
        cause: "the kernel driver of AMD GPUs (amdgpu) is not loaded on this node, or the container lacks /dev/kfd",
        next: "`lsmod | grep amdgpu` and `dmesg -T | grep amdgpu` on the node; start the container with `--device=/dev/kfd --device=/dev/dri`",
    },
    Reason {
        words: "neuron core(s) not available|cores busy, ret=",
        cause: "another process holds the NeuronCores that this one asks for",
        next: "`neuron-ls` lists the processes of each NeuronCore; end the earlier run, or give each process other cores with NEURON_RT_VISIBLE_CORES",
    },
    Reason {
        words: "failed to allocate device memory|failed to allocate*on nd *:nc|failed to allocate nrt tensor",
        cause: "the memory of the NeuronCore (HBM) is used up",
        next: "read the table of its memory below the line; lower the batch size or the sequence length, or share the model over more NeuronCores",
    },
    Reason {
        words: "nrt_resource|tdrv_get_device_resource_va failed|status=4 message=allocation failure",
        cause: "the NeuronCores lack a resource that loading this model needs: memory, or semaphores and queues for its collectives, which another process or model may hold",
        next: "`neuron-ls` and `neuron-top` on the node; end other processes on these cores, and load fewer models or workers per device",
    },
    Reason {
        words: "accelerator device halted prematurely|halted unexpectedly at tag",
        cause: "the TPU stopped in the kernel or the call that the lines name: a kernel of the program's own (Pallas) went out of its memory, or the compiler erred",
        next: "run the kernel in interpret mode and with smaller sizes; try another release of libtpu and jaxlib",
    },
];
