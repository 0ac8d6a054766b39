//! Wordings of PyTorch's distributed parts.
#![forbid(unsafe_code)]

use super::Reason;

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "store->get('0') got error: wait timeout",
        cause: "rank 0 of this communicator did not publish NCCL's id in time: it is in another call, failed before, or could not start NCCL",
        next: "read the log of rank 0 of the same time; compare the collectives that the ranks call first",
    },
    Reason {
        words: "does not require grad and does not have a grad_fn",
        cause: "backward() was called on a loss that no trainable parameter reaches: all are frozen, or gradient checkpointing got inputs without a gradient",
        next: "print the parameters with requires_grad; with gradient checkpointing call model.enable_input_require_grads() or use_reentrant=False; look for no_grad() and detach()",
    },
    Reason {
        words: "changed size during iteration",
        cause: "a dictionary or set was changed while it was read in a loop: a bug at the place of the traceback, or another thread or an import in the loop",
        next: "read the innermost frame; loop over a copy, `list(d.items())`, or take a release of that package in which it is fixed",
    },
    Reason {
        words: "input type (*) and bias type (*) should be the same|input type (*) and weight type (*) should be the same|mat1 and mat2 must have the same dtype|expected scalar type*but found|found dtype*but expected|expected m1 and m2 to have the same dtype",
        cause: "the input of a layer and the layer's weights are of different types (float32, half, bfloat16, or on another device): one of them was not converted",
        next: "print dtype and device of both at the place in the program's own code; convert the input with `.to(module.dtype)`, or run the call under torch.autocast",
    },
    Reason {
        words: "server launch failed|_wait_for_server",
        cause: "a server that this program starts did not come up: its own log has the reason",
        next: "read the log of the server, and start it alone with the same command",
    },
    Reason {
        words: "libsndfileerror|error opening*: format not recognised",
        cause: "an audio file could not be read: it is missing, damaged, or of a format that the library does not know",
        next: "print the path before it is read; read the same file by hand on this node",
    },
    Reason {
        words: "successfully reached monitoredbarrier|failed to pass monitoredbarrier",
        cause: "the rank that the line names did not come to the barrier: it ended, hangs or is slow",
        next: "read the log of the rank that the line names, up to its end",
    },
    Reason {
        words: "for recv operation to complete|for send operation to complete",
        cause: "a rank did not come to this call of Gloo in time: it still saves a checkpoint or loads data, hangs, or has ended",
        next: "`py-spy dump` of the other ranks; raise the timeout of init_process_group if one of them just works longer",
    },
    Reason {
        words: "etcd*connectionfailed|etcd*max retries|etcd*timed out|etcd*connection refused|etcd*no more machines",
        cause: "the etcd of the rendezvous is not reached: it does not run, has another address, or a firewall is between",
        next: "`curl http://HOST:2379/health` from this node, with the address of --rdzv_endpoint",
    },
    Reason {
        words: "expected to have finished reduction in the prior iteration|did not receive grad for rank|parameters that were not used in producing loss",
        cause: "the model has parameters that the loss of this step does not use, so DDP waits for their gradients",
        next: "set find_unused_parameters=True, or take the parameters out of the model; TORCH_DISTRIBUTED_DEBUG=DETAIL names them",
    },
    Reason {
        words: "expected to mark a variable ready only once",
        cause: "a parameter is used twice in one step: checkpointed layers that are shared, or two forward passes before one backward pass",
        next: "use_reentrant=False for checkpointed layers, or DDP's static graph; TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameter",
    },
    Reason {
        words: "distributed package doesn't have nccl",
        cause: "this PyTorch was built without NCCL: it is the build for the CPU, or for another system",
        next: "`python -c 'import torch; print(torch.version.cuda)'`; where it prints None, install the build for the GPUs of this machine",
    },
    Reason {
        words: "no backend type associated with device type",
        cause: "a tensor is on a device for which the process group has no backend: NCCL takes tensors of GPUs only",
        next: "move the tensor to the GPU, or initialize the group with `cpu:gloo,cuda:nccl`",
    },
    Reason {
        words: "rendezvous has timed out|rendezvous timed out",
        cause: "a node did not start, or started later than the timeout",
        next: "`nc -vz HOST PORT` from each node to the address in --rdzv_endpoint; read the log of that node",
    },
    Reason {
        words: "default process group twice",
        cause: "the program initializes PyTorch's process group although it is already initialized",
        next: "ask torch.distributed.is_initialized() before init_process_group",
    },
    Reason {
        words: "unable to find address for: |ifa != nullptr|unable to resolve hostname to a (local) address",
        cause: "GLOO_SOCKET_IFNAME names an interface that this node lacks, or the node's own name has no address",
        next: "`ip -br addr`; set GLOO_SOCKET_IFNAME to the interface that all nodes share",
    },
    Reason {
        words: "found no nvidia driver",
        cause: "the process finds no NVIDIA driver: the container was started without GPUs, or the node has none",
        next: "`nvidia-smi` on the node and in the container; start the container with GPUs",
    },
    Reason {
        words: "ddp expects same model*inconsistent 0 params",
        cause: "the check of DDP got no number of the other rank, since its first collective failed or timed out: that is the failure",
        next: "read what the lines before it say of this collective: none of the ranks has another model because of it",
    },
    Reason {
        words: "ddp expects same model|inconsistent*params|appears not to match sizes of the same param|appears not to match strides of the same param",
        cause: "the ranks have different models: other code, configuration or checkpoint",
        next: "print the number of parameters on every rank; compare code and configuration of the nodes",
    },
    Reason {
        words: "received 0 items of ancdata",
        cause: "the limit of open files is too low for the tensors that workers of the data loader share",
        next: "raise `ulimit -n` where the program starts",
    },
    Reason {
        words: "dataloader worker*killed by signal: killed",
        cause: "the process was killed from outside, mostly because the node or its container was out of memory",
        next: "`dmesg -T | grep -i oom` on the node; fewer workers of the data loader",
    },
    Reason {
        words: "size mismatch for*copying a param|missing key(s) in state_dict|unexpected key(s) in state_dict|unexpected keys*in checkpoint|missing keys*in checkpoint|unexpected keys*in sharded",
        cause: "the checkpoint is of another model, or was saved with other parallel sizes",
        next: "compare the configuration of the checkpoint with that of this run",
    },
    Reason {
        words: "expected all tensors to be on the same device",
        cause: "the inputs of one operation are on different devices: one of them was not moved, or parts of the model are on GPUs of their own",
        next: "print `.device` of the inputs of the operation that the traceback shows",
    },
    Reason {
        words: "ds_active_sub_modules|active_sub_modules",
        cause: "ZeRO-3 was to free a parameter that a module still uses: its forward passes are nested, or one did not end",
        next: "call the module through the wrapped model; look for a forward pass within another, and for one that ended in an exception that was caught",
    },
    Reason {
        words: "disagreement between rank0 and rank",
        cause: "the ranks do not run the same modules in the same order, as ZeRO-3 needs: a branch, or a batch, differs between them",
        next: "compare the two lists in the line: what the first rank has more, the other one did not run",
    },
    Reason {
        words: "dataloader worker (pid*exited unexpectedly",
        cause: "a worker process of the DataLoader ended without an exception: killed, mostly for memory, or crashed in native code; the line does not say which",
        next: "`dmesg -T | grep -i -e oom -e segfault` and `df -h /dev/shm` on the node; num_workers=0 shows an exception of the dataset",
    },
    Reason {
        words: "no_sync context manager is incompatible",
        cause: "the program skips the synchronisation of gradients (no_sync), which ZeRO stages 2 and 3 do not allow",
        next: "stage 1 of ZeRO, or no accumulation of gradients in the program beside that of DeepSpeed; compare the releases of accelerate and DeepSpeed",
    },
    Reason {
        words: "parent communicator missing in eager initialization",
        cause: "a group of ranks was made of one that has no communicator yet: init_process_group was called without device_id, or before the first collective",
        next: "give device_id to init_process_group, or call a collective of all ranks first",
    },
    Reason {
        words: "more than one node have assigned same rank|has already checked in",
        cause: "two processes have the same rank: the launcher, or the variables of rank and node, are set alike on two nodes, or a process of an earlier job still comes",
        next: "print RANK, WORLD_SIZE and the node of every process at its start",
    },
    Reason {
        words: "'tensor' object has no attribute",
        cause: "the code calls something that a tensor of PyTorch does not have: the name is wrong, or it is of another release of PyTorch",
        next: "read the line of code in the first sentence: compare the name with PyTorch's documentation of the installed release",
    },
    Reason {
        words: "forward order differs across ranks",
        cause: "the ranks run the parts of the FSDP model in different orders: a branch of the program depends on the rank or on its data",
        next: "compare what the ranks that the line names do in this step; look for parts of the model that only some inputs use",
    },
    Reason {
        words: "inconsistent compute device and `device_id`",
        cause: "the model was put on another GPU than the one that FSDP is given for this rank: the rank had not chosen its GPU before",
        next: "call torch.cuda.set_device(local_rank) before the model is made, and give FSDP the same device_id",
    },
    Reason {
        words: "not supported for nccl process group",
        cause: "NCCL has no such type of numbers: the program gives a collective a tensor that must be converted first",
        next: "convert the tensor, such as a complex one with torch.view_as_real, before the collective that the traceback shows",
    },
    Reason {
        words: "does not match the version torch was compiled with",
        cause: "nvcc of this image is of another CUDA release than the one that PyTorch was built with, so the extension is not compiled",
        next: "install the toolkit of PyTorch's release (torch.version.cuda) and point CUDA_HOME to it; DS_SKIP_CUDA_CHECK=1 where only the minor release differs",
    },
];
