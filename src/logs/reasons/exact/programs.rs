//! Wordings of Python, of the dynamic loader and of what programs fetch.
#![forbid(unsafe_code)]

use super::Reason;

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "/mca/*: assertion `",
        cause: "a check failed within a component of Open MPI, which the path behind `/mca/` names (btl/openib is its InfiniBand and RoCE): a defect of this release, or what is left of a device or a connection that it could not set up",
        next: "leave the component out (`--mca btl ^openib`, with the kind and the name in the path) and run again; a newer Open MPI with UCX for InfiniBand and RoCE; read Open MPI's help texts before the line",
    },
    Reason {
        words: "floating-point overflow|floating point overflow|floating-point underflow|floating point underflow|floating-point invalid|invalid floating point operation|: floating overflow|: floating underflow|: floating invalid",
        cause: "a calculation of the program left the range of its numbers (overflow, underflow or no number), and the program was built to be stopped then",
        next: "the frames of the program itself name the line; print the numbers of that calculation; `-fpe0`, `-ffpe-trap` or feenableexcept() turn such a stop on",
    },
    Reason {
        words: "!!!! fatal error !!!!|physical location:*error has occurred",
        cause: "a TPU chip, or its host, reported a fatal error: mostly hardware, or the link to another chip of the slice",
        next: "the line names the chip; start the job again on another host, and report this one if the error comes again there",
    },
    Reason {
        words: "killedworker",
        cause: "the workers of Dask on which this task ran ended one after another: mostly out of memory, of the host or of a GPU",
        next: "read the workers' own logs and their nanny's; smaller partitions, a smaller rmm pool, or `memory_limit` for the workers",
    },
    Reason {
        words: "fill_device_fds*open failed|fill_device_fds*opendir failed|ze_fd_manager.cpp*open failed",
        cause: "oneCCL could not open the device node of a GPU in /dev/dri: it is not in the container, or the user may not open it",
        next: "`ls -l /dev/dri` in the container, as the same user; start it with --device /dev/dri and the group of these nodes (render, video), with as many GPUs as ranks; CCL_ZE_IPC_EXCHANGE=sockets needs no such nodes",
    },
    Reason {
        words: "device already acquired",
        cause: "another process holds the Gaudi accelerators that this one wants: an earlier job, or more processes than accelerators",
        next: "`hl-smi` lists the processes; end those that are left, or choose others with HABANA_VISIBLE_DEVICES (HABANA_VISIBLE_MODULES)",
    },
    Reason {
        words: "no cells initializes cuda|no cell initializes cuda|avoid running any instruction using `torch.cuda`",
        cause: "a cell of the notebook used CUDA before the launcher forked its processes, and a forked process cannot use CUDA then",
        next: "restart the kernel; call torch.cuda, and whatever does so at import, only within the function that is launched",
    },
    Reason {
        words: "ninja is required to load",
        cause: "the build tool ninja is not installed, or not in PATH, so the extension cannot be compiled when it is loaded",
        next: "`pip install ninja` in the same environment; `which ninja` as the job finds it",
    },
    Reason {
        words: "429 client error|too many requests for url",
        cause: "the service refuses more requests for now: many ranks or jobs of one address ask it at once",
        next: "let one rank download and the others read its copy; log in with a token; use an offline copy",
    },
    Reason {
        words: "mkl_threading_layer=intel is incompatible",
        cause: "MKL and another library want different OpenMP libraries in one process",
        next: "set MKL_THREADING_LAYER=GNU, or import numpy before the other library",
    },
    Reason {
        words: "could not find a version that satisfies|no matching distribution found",
        cause: "pip finds no build of this package for this Python, platform or index",
        next: "`pip index versions PACKAGE`; take a release that exists for this Python and CUDA, or build it from source",
    },
    Reason {
        words: "missing key in checkpoint state_dict",
        cause: "the checkpoint is of another model, optimizer or way of sharding than the program builds",
        next: "compare the keys of the checkpoint with those of the model; load with strict=False only what may be absent",
    },
    Reason {
        words: "run initialization has timed out",
        cause: "Weights & Biases did not answer when the run was begun: this node has no way to its service, or the service is slow",
        next: "`curl https://api.wandb.ai` from this node; log offline, or switch the logger off",
    },
    Reason {
        words: "no nvml device handle",
        cause: "NCCL has no handle of NVML for a GPU: the GPU is not one that the driver's library lists in this process, or the library and the driver do not fit",
        next: "`nvidia-smi -L` in the container, beside CUDA_VISIBLE_DEVICES; compare the releases of libnvidia-ml and of the driver",
    },
    Reason {
        words: "failed to refresh the dynamic linker cache",
        cause: "ldconfig could not be run in the image: the image has none, as images of Alpine, or is of another kind of processor",
        next: "use an image with glibc; run `ldconfig` in the image without the container toolkit",
    },
    Reason {
        words: "was really called - needs a native",
        cause: "the program calls a function that is only a stand-in on this platform: the package was built without its kernels for these GPUs",
        next: "build or install the package for this platform, or switch the feature off that calls the function",
    },
    Reason {
        words: "failed to lock sat tree|lock sat tree",
        cause: "SHARP could not lock a tree of the switches: another job holds it, or the aggregation manager gave no resources",
        next: "read the log of sharp_am on the fabric's manager; run without SHARP (NCCL_COLLNET_ENABLE=0) until then",
    },
    Reason {
        words: "undefined symbol: _zn3c10|undefined symbol: _znk3c10|undefined symbol: _zn2at|undefined symbol: _znk2at|undefined symbol: _zn5torch|undefined symbol: _znk5torch",
        cause: "the extension was built for another release of PyTorch than the one that is installed",
        next: "`pip list | grep -i torch`; install the extension's build for this release, or build it again",
    },
    Reason {
        words: "version `glibc|version `cxxabi|glibcxx_|version 'glibc|version `gomp",
        cause: "the library was built for a newer distribution: glibc or libstdc++ of this image is older",
        next: "use the library's build for this distribution (`ldd --version`); do not mount the host's libraries into the container",
    },
    Reason {
        words: "couldn't connect to 'https|offline mode|localentrynotfound|max retries exceeded with url*huggingface|huggingface*max retries exceeded|name resolution*huggingface|host='huggingface.co'",
        cause: "the node does not reach the server of models or data, and its cache lacks the files",
        next: "fetch the files before the job to a folder of all nodes, or set the proxy; `curl -I URL` from this node",
    },
    Reason {
        words: "ran out of input|invalid load key|metadataincompletebuffer|failed finding central directory|header too large",
        cause: "a file is incomplete or is no file of this format: its writing was interrupted, or it is a pointer of git-lfs",
        next: "compare the size and the checksum of the file with its source; fetch it again",
    },
    Reason {
        words: "unable to load nccl|libnccl.so*cannot open|could not load*libnccl.so|failed to load*libnccl.so",
        cause: "libnccl was not found or cannot be loaded: it is not installed in this image, or LD_LIBRARY_PATH lacks its folder",
        next: "`ldconfig -p | grep nccl` and `pip list | grep nccl` in the container; `ldd` of the library that needs it",
    },
    Reason {
        words: "unicodedecodeerror|codec can't decode",
        cause: "bytes were read as text and are none: a file or a message of another format, or packages of releases that do not fit",
        next: "read the traceback above the line; compare `pip list` with what the program asks for",
    },
    Reason {
        words: "cuda is required*none was|torch not compiled with cuda",
        cause: "this PyTorch was built without CUDA, for the CPU or for other accelerators such as XPU, and the code asks for torch.cuda",
        next: "`python -c 'import torch; print(torch.version.cuda)'`; where it prints None, install the build for the GPUs of this machine",
    },
    Reason {
        words: "failed to find c compiler",
        cause: "the image has no C compiler, which Triton needs when it first runs a kernel",
        next: "install gcc in the image, or set CC to a compiler that it has",
    },
    Reason {
        words: "environment variable cuda_device_max_connections to",
        cause: "CUDA_DEVICE_MAX_CONNECTIONS is not set as this option of Megatron needs it",
        next: "set the variable to the value in the line for all ranks, in the job's script or with the launcher's option for variables",
    },
];
