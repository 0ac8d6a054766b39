//! Wordings of Slurm, Kubernetes and container runtimes.
#![forbid(unsafe_code)]

use super::Reason;

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "tests failed on rank|some tests failed|verification failed on rank|tensor-likes are not close|allclose*failed|result mismatch",
        cause: "a check of the program itself failed: data that came is not what it expects; lines next to it have both values",
        next: "compare the values that came with those that were expected: those of another rank are a matter of the order of ranks or GPUs (CUDA_VISIBLE_DEVICES), older ones of a read before the end of the call, others of damage on the way; run once with NCCL_P2P_DISABLE=1 and once with NCCL_NET=Socket",
    },
    Reason {
        words: "createsession still waiting for response from worker",
        cause: "a process of TensorFlow's cluster does not answer: it did not start, ended, or its address in TF_CONFIG or the cluster specification is not reached",
        next: "read the log of the task in the line; `nc -vz HOST PORT` from this node; all processes need the same cluster specification",
    },
    Reason {
        words: "agent '*not found|makeconnection: agent",
        cause: "NIXL does not know the other agent: its metadata was not exchanged before, was invalidated, or is of a process that ended",
        next: "read the log of the agent in the line; exchange the metadata (loadRemoteMD, or etcd) before makeConnection, under the same name",
    },
    Reason {
        words: "missing infer_status notification|inference completed with err",
        cause: "a NeuronCore did not end its work in time: another worker of the collective did not come or ended, or the program on the device failed",
        next: "read the log of every worker for the first error of the Neuron runtime; `neuron-ls` and `dmesg -T | grep -i neuron` on each host",
    },
    Reason {
        words: "synstatus=*device acquire failed|device acquire failed",
        cause: "the process could not take a Gaudi card: another process holds it, more ranks run than there are cards, or the driver lost it",
        next: "`hl-smi` on the node: processes and state of the cards; compare the ranks of a node with its cards and HABANA_VISIBLE_DEVICES",
    },
    Reason {
        words: "runtime limit is required|time limit is required|time limit must be|must specify a time limit|requires a time limit|walltime is required",
        cause: "this cluster refuses a job, or a step that asks for an allocation of its own, without a limit of time",
        next: "add -t (as `--time=04:00:00`) to the srun, sbatch or salloc of the line; within a job, an srun that begins a new allocation instead of a step lacks SLURM_JOB_ID",
    },
    Reason {
        words: "unpack would read past end of buffer|unpack failure in file",
        cause: "the daemons of Open MPI on the nodes do not understand each other: they are of different releases",
        next: "compare `mpirun --version` and `which orted` on every node, as a shell without a terminal finds them",
    },
    Reason {
        words: "registry-1.docker.io/v2/*.io/|registry-1.docker.io/v2/*.com/",
        cause: "the name of another registry was taken as a path of Docker Hub: enroot wants `REGISTRY#IMAGE`",
        next: "write a `#` instead of the first `/` behind the registry's name, and add the credentials of that registry",
    },
    Reason {
        words: "pmix*_errhandler*status = -61|pmix*error handler invoked: status = -61",
        cause: "the connection to another process of the step was lost: that process, or its node, ended",
        next: "read the log of the process that the line's `source` numbers; `sacct -j JOB -o jobid,state,exitcode,end`",
    },
    Reason {
        words: "job credential expired|credential expired",
        cause: "the credential of the job had expired when it reached the node: the clocks of the nodes differ, or the node took long to start the job",
        next: "compare `date` on the controller and on the node; `timedatectl` shows whether the clock is kept",
    },
    Reason {
        words: "cancelled at*due to time limit",
        cause: "the job reached its time limit",
        next: "`scontrol show job JOB` shows the limit; ask for more time, or save checkpoints and go on from them",
    },
    Reason {
        words: "cancelled at*due to node failure|due to node fail",
        cause: "Slurm lost a node of the job: it went down, was rebooted, or its slurmd does not answer",
        next: "`sinfo -R` and `sacct -j JOB -o nodelist,state`; the kernel log of the node that is down",
    },
    Reason {
        words: "cancelled at*due to preemption|cancelled at*preempt",
        cause: "a job of higher priority took the nodes",
        next: "start the job again; `scontrol show partition` shows what may preempt it",
    },
    Reason {
        words: "command not found: nvidia-container-cli|could not select device driver|nvidia-container-cli*no such file|nvidia-container-runtime*not found",
        cause: "the NVIDIA container toolkit is not installed on this node, so no container gets its GPUs",
        next: "install nvidia-container-toolkit on the node; `nvidia-container-cli info` must list the GPUs",
    },
    Reason {
        words: "unsatisfied condition: cuda|unsatisfied condition: driver|unsatisfied condition: brand",
        cause: "the image asks for a newer driver than this node has",
        next: "update the node's driver, or use an image for the CUDA release of the driver",
    },
    Reason {
        words: "nvidia-container-cli: mount error*file exists|libnvidia-ml.so*file exists",
        cause: "the image holds files of the GPU's driver, in the places where the container toolkit mounts the node's",
        next: "remove libcuda and libnvidia files from the image",
    },
    Reason {
        words: "ldcache error|ldconfig*terminated with signal",
        cause: "ldconfig fails in the image, so the GPU's driver is not mounted: the image is damaged or of another kind of processor, or a limit of the node ended it",
        next: "run `ldconfig` in the image without the container toolkit; try another image on the same node",
    },
    Reason {
        words: "ucx cannot be selected|no components were able to be opened",
        cause: "Open MPI cannot use the component that it was asked for, mostly UCX: this build lacks it, or it finds no usable device",
        next: "`ompi_info | grep ucx` and `ucx_info -d` in the container; `--mca pml ob1 --mca btl tcp,self` goes without it",
    },
    Reason {
        words: "specified plugin name for mpi|cannot create context for mpi|mpi/pmix*not found",
        cause: "this Slurm has no MPI plugin of the name that the job asks for",
        next: "`srun --mpi=list` shows the plugins; choose one of them",
    },
    Reason {
        words: "munge*fail|munge*error|invalid authentication credential",
        cause: "the nodes do not accept each other's credentials: munge's keys differ, its daemon does not run, or the clocks differ",
        next: "`munge -n | ssh HOST unmunge`; compare `md5sum /etc/munge/munge.key` and `date` on all nodes",
    },
    Reason {
        words: "container creation failed|mount hook function failure",
        cause: "Apptainer cannot mount the image: the node lacks squashfuse, user namespaces or the setuid installation, or the image is damaged",
        next: "`apptainer exec IMAGE true` on that node; `sysctl user.max_user_namespaces`",
    },
    Reason {
        words: "generic resource (gres)|invalid gres|gres*not available",
        cause: "Slurm cannot give the GPUs as the job asks for them: their name, type or number is not that of the partition",
        next: "`sinfo -o '%P %N %G'` shows the GPUs of each partition",
    },
    Reason {
        words: "invalid job id specified|job/step already completing",
        cause: "the Slurm job has already ended",
        next: "`sacct -j JOB -o jobid,state,exitcode,end`",
    },
    Reason {
        words: "is not writeable|is not writable|not a writable directory",
        cause: "the process may not write to the folder that the line names, or it is missing on this node",
        next: "`ls -ld` and `findmnt -T` for the folder, on this node and in the container",
    },
    Reason {
        words: "socket timed out on send/recv",
        cause: "the node's slurmd or slurmctld did not answer in time: it imports a large container image, or is overloaded",
        next: "import the image before the job (`enroot import`); read slurmd's log on the node; raise Slurm's MessageTimeout",
    },
    Reason {
        words: "error dialing backend|unable to upgrade connection",
        cause: "Kubernetes' API server did not reach the pod through the node's kubelet: the pod has ended, or the kubelet or its network is overloaded",
        next: "`kubectl get nodes` and the kubelet's log on the node; start fewer `kubectl exec` at once, or use ssh between the pods",
    },
    Reason {
        words: "closed by remote host",
        cause: "the ssh session to a node ended from its side: its sshd, its container or the node itself went away",
        next: "read the log of the container and `dmesg -T` of that node; `ssh HOST true` from here",
    },
    Reason {
        words: "requested number of devices unavailable|devices unavailable for nvidia.com/gpu",
        cause: "the node has fewer usable GPUs than Kubernetes believes: one failed, or another pod holds it",
        next: "`nvidia-smi -L` and `dmesg -T | grep -i xid` on the node; restart the device plugin's pod there",
    },
    Reason {
        words: "was unable to reliably start|orte was unable|prte was unable|daemon*has failed to start",
        cause: "mpirun could not start its daemons on the other nodes: ssh failed, or orted or prted is not in PATH there",
        next: "run `ssh NODE which orted` for every node, and set --mca oob_tcp_if_include to the interface that all nodes share",
    },
    Reason {
        words: "unable to layout tasks|failed to distribute tasks",
        cause: "the step asks for a layout of tasks on CPUs that its allocation does not have: the tasks per node, the CPUs per task or the binding differ from those of the job",
        next: "compare the options of srun with those of sbatch; srun --cpu-bind=none",
    },
    Reason {
        words: "unrecognized option '--container",
        cause: "Slurm does not know the options of containers: its plugin pyxis is not installed, or not enabled in plugstack.conf",
        next: "`srun --help | grep container`; install pyxis and enroot on the nodes",
    },
    Reason {
        words: "unreachable in file ptl_tcp",
        cause: "a process of the job does not reach the PMIx server of its launcher over TCP: it ended, or a firewall or another interface is between",
        next: "`mpirun --mca oob_tcp_if_include INTERFACE`, and look at the firewall between the nodes",
    },
    Reason {
        words: "write_line error; fd*:cmd=abort",
        cause: "the error for which MPI aborts, logged before",
        next: "read the lines before it",
    },
    Reason {
        words: "mpir_pmi_init*returned|pmi_get_appnum returned|pmi2_job_getid returned|write_line error; fd|unable to write to pmi_fd|write_line failure",
        cause: "the process has no connection to a launcher's process manager (PMI): it was started without srun or mpirun, or by the launcher of another MPI than its own",
        next: "start it with the launcher of the MPI that `ldd` of the program names; with srun, one of the kinds of `srun --mpi=list` that this MPI knows",
    },
    Reason {
        words: "unknown option \"--hnp|orted*unknown option|prted*unknown option|error: unknown option*-topo-sig",
        cause: "mpirun and the daemon that it started on this node are of different releases of Open MPI: a shell without a terminal finds another one there",
        next: "compare `mpirun --version` and `ssh NODE which orted` on all nodes; mpirun --prefix names the right one",
    },
    Reason {
        words: "mpi_err_other: known error not in list",
        cause: "the layer below MPI (libfabric, UCX, sockets) refused the call: a buffer in memory of a GPU that this MPI cannot send from or receive into, or a peer that ended before",
        next: "repeat the call with buffers in host memory: where that works, the MPI is not built, or not started, for this kind of GPU (`ompi_info -c | grep -i cuda`, MPICH_GPU_SUPPORT_ENABLED=1)",
    },
    Reason {
        words: "gpu_imemcpy",
        cause: "MPI could not copy from or to memory of a GPU: the GPU's runtime refused the copy, with the code in its own line before (ZE 0x70000003 is no more memory on the device)",
        next: "read the GPU runtime's line before the stack; look for memory of the GPU that is used up, and for a process that opens the memory of another one",
    },
    Reason {
        words: "gpu_init failed",
        cause: "MPI found no usable GPU runtime while it began: no GPU or driver is visible to the process, or MPI was built for another release of the runtime",
        next: "`nvidia-smi`, `rocminfo` or `sycl-ls` as the job starts its ranks; MPIR_CVAR_ENABLE_GPU=0 starts MPICH without GPUs",
    },
    Reason {
        words: "mpi_err_truncate|message truncated, error stack|bytes received but buffer size is|ofi poll failed*message too long",
        cause: "a message is longer than the buffer of the rank that receives it: the ranks differ in the size, the type or the order of their calls",
        next: "compare the count and the type of the call in the line on the sender and the receiver, and that every rank calls the same collectives in the same order",
    },
    Reason {
        words: "mpi_err_rank:|mpi_err_comm:",
        cause: "the call names a rank or a communicator that does not exist: fewer processes run than the program expects, or its MPI is another one than the launcher's",
        next: "print the rank and the size of the communicator before the call; `ldd` of the program names its MPI, which must be the launcher's",
    },
    Reason {
        words: "failed to query nvidia devices",
        cause: "the driver's device files are missing or may not be opened: the driver is not loaded, or was just removed",
        next: "`lsmod | grep nvidia`, `ls -l /dev/nvidia*` and `dmesg -T | grep -i nvrm` on the node",
    },
    Reason {
        words: "unresolvable cdi devices",
        cause: "the container runtime of this node knows no device of this name: its CDI specification was not generated, or has other names",
        next: "`nvidia-ctk cdi list` on the node; `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` makes the specification",
    },
    Reason {
        words: "number of tasks per node configured in slurm*does not match|use `--ntasks-per-node",
        cause: "Lightning's number of devices does not fit the tasks of the Slurm job: it wants one task for each GPU of a node",
        next: "`#SBATCH --ntasks-per-node` must be the number of devices, and the program must be started with srun",
    },
    Reason {
        words: "no slot '*specified on host",
        cause: "DeepSpeed's --include or --exclude names a GPU that the hostfile does not give to this host",
        next: "compare the slots of the host in the hostfile with --include; GPUs count from 0",
    },
    Reason {
        words: "launcher '*not installed",
        cause: "the launcher that DeepSpeed is told to use is not installed on this node",
        next: "install it (`apt install pdsh`), or choose another one with --launcher",
    },
];
