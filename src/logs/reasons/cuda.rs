//! The words of CUDA and of its libraries.
#![forbid(unsafe_code)]

use super::Reason;

/// What a GPU, its driver or a library on it says of a call that failed.
pub(super) const OF_CUDA: &[Reason] = &[
    Reason {
        words: r"driver version is insufficient|forward compatibility|\bcompat_not_supported|driver .{0,30}too old|unsupported toolchain|no kernel image|kernel image is invalid|invalid device function|named symbol not found|no_binary_for_gpu|not compatible with the current (?:pytorch|cuda)",
        cause: "the driver, the CUDA release of the program and the kind of GPU do not fit",
        next: "compare `nvidia-smi` (driver, newest CUDA) with the program's CUDA release and the GPUs that it was built for",
    },
    Reason {
        words: r"no cuda[- ]capable device|invalid device ordinal|no (?:cuda |nvidia )?(?:gpus?|devices?)\b.{0,12}\b(?:available|found|detected|visible)|cuda (?:is )?(?:not |un)available|gpus? (?:is |are )?not available|not .{0,20}\bnvidia driver",
        cause: "the process sees no GPU, or fewer than it asks for",
        next: "`nvidia-smi -L` and CUDA_VISIBLE_DEVICES in the container; compare with the number of processes on the node",
    },
    Reason {
        words: r"devices?(?: |\(s\) )(?:is|are|is/are) busy or unavailable|cuda-capable devices are busy|devices_?unavailable",
        cause: "the GPU is in exclusive mode, partitioned (MIG), or used by another process",
        next: "`nvidia-smi -q | grep -i -e 'compute mode' -e mig`; `fuser -v /dev/nvidia*`",
    },
    Reason {
        words: r"system not yet initialized|fabric ?manager|system_not_ready",
        cause: "the fabric manager of the NVSwitches does not run, or is of another release than the driver",
        next: "`systemctl status nvidia-fabricmanager` and `nvidia-smi -q | grep -A2 Fabric` on the node",
    },
    Reason {
        words: r"uncorrectable|\becc error|double bit|row[- ]remap|fallen off the bus|gpu is lost|gpu requires reset|nvlink (?:fatal )?error",
        cause: "a GPU or a link of it is broken",
        next: "`dmesg -T | grep -i xid` and `nvidia-smi -q -d ECC,ROW_REMAPPER`; take the node out",
    },
    Reason {
        words: r"illegal memory access|misaligned address|unspecified launch failure|illegal instruction was|illegal address|device-side assert|hardware stack error|(?:kernel|cuda|cooperative|cluster) launch fail\w*|launch failure|launch timed out",
        cause: "a kernel of the program failed; every later call on the GPU fails too",
        next: "run with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer, to see which kernel; then check its indices and sizes",
    },
    Reason {
        words: r"cuda failure (?:999|'unknown error)|cuda error: unknown error|cuda_?error_?unknown",
        cause: "the GPU's driver is in a broken state: after an Xid error, a change of the driver without a restart, or a sleep of the machine",
        next: "`dmesg -T | grep -i -e xid -e nvrm`; restart the GPU or the node",
    },
    Reason {
        words: r"re-?initialize cuda in forked|cuda .{0,30}\bfork|cuda error: initialization error",
        cause: "the process was forked after CUDA had been initialized",
        next: "start workers with `spawn` or `forkserver`, or initialize CUDA in the workers only",
    },
    Reason {
        words: r"stream is capturing|legacy stream depend|during (?:graph )?capture|capture_(?:unsupported|invalidated|isolation)",
        cause: "a call that a CUDA graph cannot hold was made while one was captured",
        next: "run without CUDA graphs (`--enforce-eager` in vLLM, `--disable-cuda-graph` in SGLang) to see the call",
    },
    Reason {
        words: r"cublas_status_(?:alloc_failed|not_initialized)|cudnn_status_(?:alloc_failed|not_initialized)|cusolver_status_(?:alloc_failed|not_initialized)",
        cause: "a library had no memory left on the GPU for its own state",
        next: "`nvidia-smi` at the time of the error; lower the batch size or the program's share of the memory",
    },
    Reason {
        words: r"\b(?:cublas|cudnn|cufft|cusparse|cusolver|hipblas|miopen)\w*(?:_status_| internal error)|\bcudnn_\w+ error",
        cause: "a CUDA library refused a call: its release does not fit, sizes are wrong, or an earlier kernel failed",
        next: "run with CUDA_LAUNCH_BLOCKING=1; compare the releases of the libraries with the program's",
    },
];
