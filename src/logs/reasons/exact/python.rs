//! Wordings of exceptions of Python, and of addresses of the node itself.
#![forbid(unsafe_code)]

use super::Reason;

/// What Python says of a module that it does not find, if that is within a package: `No module named 'torch.distribute'`.
/// Of one within a package that is not there, it names the package.
pub(super) const WITHIN_PACKAGE: &str = "no module named '|no module named \"";

/// Whether the module that a line in lower case misses is within a package.
pub(super) fn misses_within_package(line: &[u8]) -> bool {
    const WORDS: &[u8] = b"no module named ";
    let Some(at) = memchr::memmem::find(line, WORDS) else {
        return false;
    };
    let rest = &line[at + WORDS.len()..];
    let name = rest.get(1..).unwrap_or_default();
    let end = name.iter().position(|byte| *byte == rest[0]);
    let name = &name[..end.unwrap_or(0)];
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._".contains(byte);
    name.contains(&b'.') && name.iter().all(is_of_name)
}

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "resource_exhausted: out of memory while trying to allocate|resource_exhausted: out of memory allocating|resource_exhausted: failed to allocate request for",
        cause: "the memory of the GPU or TPU that XLA uses is full: the model, its batch or what XLA compiled for it is too large, or another process holds memory",
        next: "a smaller batch, more devices to shard over, or rematerialization; XLA_PYTHON_CLIENT_MEM_FRACTION and `nvidia-smi` show what XLA may take and what others hold",
    },
    Reason {
        words: "defaultcpuallocator",
        cause: "the memory of the node, or the limit of its container or job, is used up: the allocation is of the CPU's memory",
        next: "`free -g` and the memory limit of the container or job; fewer processes or data loaders per node, or a smaller model copy in memory",
    },
    Reason {
        words: "device id must be non-negative",
        cause: "a library gave PyTorch the index of a GPU that cannot be: libraries of different builds of PyTorch or CUDA meet in this process, or its memory is corrupt",
        next: "rebuild the library in the stack below for the release of PyTorch and CUDA that is installed; `python -m torch.utils.collect_env`",
    },
    Reason {
        words: "modified by an inplace operation",
        cause: "a tensor that the backward pass still needs was overwritten: an operation in place, or with DDP a buffer that a second forward pass broadcasts anew",
        next: "run with torch.autograd.set_detect_anomaly(True), which names the operation; with DDP, broadcast_buffers=False where a step has two forward passes",
    },
    Reason {
        words: "'int' object has no attribute|'float' object has no attribute|'bool' object has no attribute|'str' object has no attribute",
        cause: "the code was given a plain number or text where it expects an object: an error of the program, or a case that the library in the traceback does not handle",
        next: "the frames above the line name the code that expects the object: look at where its value comes from, and for this error in the issues of that library's release",
    },
    Reason {
        words: "'nonetype' object has no attribute|'nonetype' object is not subscriptable|'nonetype' object is not iterable|'nonetype' object is not callable|'nonetype' and ",
        cause: "a value that the code uses here is None: an option is switched off, or an earlier call gave no result",
        next: "read the innermost lines of the traceback: the value before the dot or the bracket is None; look at what sets it",
    },
    Reason {
        words: "need at least one array to concatenate|need at least one array to stack|num_samples=0|non-empty tensorlist|max() arg is an empty|min() arg is an empty|max() iterable argument is empty|cannot choose from an empty sequence",
        cause: "the dataset, or a list that the program makes of its data, is empty: no file or record was found, or all were filtered out",
        next: "print the length of the dataset on this node before it is used; compare its paths, its annotation file and its filters with the configuration",
    },
    Reason {
        words: "out of bounds for storage of size 0|storage of size 0",
        cause: "a tensor whose memory was freed is used: ZeRO-3 and FSDP free a parameter while its own module does not run",
        next: "call the module through the wrapped model, or gather its parameters first (deepspeed.zero.GatheredParameters, FSDP.summon_full_params); a lower stage of ZeRO shows whether it is that",
    },
    Reason {
        words: "nvvm_error_compilation|nvvmerror: failed to compile|parse expected comma after load's type",
        cause: "the compiler of CUDA kernels does not read the code that it got: its CUDA release is another one than numba, or the library that made the code, knows",
        next: "`numba -s` and `nvidia-smi`: install a release of numba for this CUDA, or a CUDA toolkit that numba knows",
    },
    Reason {
        words: "zerodivisionerror|integer division or modulo by zero",
        cause: "the program divides by a count that is 0: mostly a dataset smaller than one batch of all ranks, so that an epoch has no step",
        next: "read the code of the traceback's last frame: which count is 0; compare the size of the dataset with batch size times ranks",
    },
    Reason {
        words: "caught indexerror in dataloader|caught keyerror in dataloader|caught valueerror in dataloader|caught typeerror in dataloader|caught attributeerror in dataloader|caught unicodedecodeerror in dataloader|caught unidentifiedimageerror in dataloader|caught jsondecodeerror in dataloader",
        cause: "the data: a record that a worker of the DataLoader read lacks a field, is malformed or is empty",
        next: "read the traceback below the line: its last frame in the dataset's own code, and the record that it read there",
    },
    Reason {
        words: "keyerror*.weight'|keyerror*.bias'|keyerror*.qweight'|keyerror*.weight_scale|keyerror*.scales'",
        cause: "the checkpoint and the model's code do not fit: one has a tensor that the other lacks",
        next: "compare the checkpoint's config.json (architecture, quantization) with the class that loads it, and the program's release with the one that the model asks for",
    },
    Reason {
        words: "client socket has timed out*localhost|client socket has timed out*127.0.0.1|client socket has timed out*[::1]|connect*localhost*timed out|connect*127.0.0.1*timed out|connect*localhost*refused|connect*127.0.0.1*refused|refused*127.0.0.1",
        cause: "nothing answers at this address of the node itself: the process that should serve it did not start, ended, or has another host or port; no network is between",
        next: "`ss -ltnp` on this node; where several nodes are to meet, MASTER_ADDR or --rdzv_endpoint must name the first node and not localhost",
    },
    // Only where the module is one within a package: Python finds the package first.
    Reason {
        words: WITHIN_PACKAGE,
        cause: "the package is there and has no module of this name: the name is wrong, in a command or an import, or the package is of another release than the program was written for",
        next: "compare the name with the package's folder (`python -c 'import PACKAGE; print(PACKAGE.__path__)'`) and its release (`pip show`) with what the program asks for; a command's module is behind `-m`",
    },
    Reason {
        words: "no module named",
        cause: "the Python of the process that imports it lacks the module that the line names: it is not installed in this image or on this node, or PYTHONPATH lacks its folder",
        next: "import the module with the same interpreter on the same node, and look for it with `pip show`",
    },
    Reason {
        words: "importerror: lib*cannot open shared object|oserror: lib*cannot open shared object",
        cause: "the dynamic loader does not find the library that the line names: the program was built for another release of it, or LD_LIBRARY_PATH lacks its folder",
        next: "`ldconfig -p` and `ldd` of the library that needs it, in the same image",
    },
    Reason {
        words: "api_key not configured|call wandb.login",
        cause: "the program logs in to Weights and Biases, and this node has no key for it",
        next: "`wandb login` as the same user on the node, or run it offline",
    },
    Reason {
        words: "disk quota exceeded",
        cause: "the quota of the user or of the project on this file system is used up",
        next: "`quota -s`, or the quota command of the cluster; write checkpoints to another file system",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_within_a_package_is_told_from_one_that_is_not_installed() {
        let check = |line: &str, expected: bool| {
            let line = line.to_ascii_lowercase().into_bytes();
            assert_eq!(misses_within_package(&line), expected);
            let reason = super::super::of(&line).unwrap();
            assert_eq!(reason.words == WITHIN_PACKAGE, expected);
        };
        check(
            "ModuleNotFoundError: No module named 'torch.distribute'",
            true,
        );
        check("x (ModuleNotFoundError: No module named 'a_b.c')", true);
        check(
            "ModuleNotFoundError: No module named 'game'. See a.b 'c'",
            false,
        );
        check("ModuleNotFoundError: No module named 'game'; 'x.py'", false);
        check("/usr/bin/python3: No module named pip", false);
        check("No module named", false);
    }
}
