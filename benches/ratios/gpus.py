"""What GPU memory costs over host memory, and NCCL over the plain plugin against its own sockets."""

import shutil
import subprocess
import sys
from typing import Callable

from .processes import ROOT
from .programs import GIB, MIB, Programs, Sample, Skipped, numbers
from .turns import Row, Side, at_least, compare, print_row, take_turns

RANKS = 2
REDUCED = (64 * MIB, 256 * MIB)
# Where the kernel and NCCL place the threads of a process lasts for its life, so there is more than one.
PAIRS_OF_A_PROCESS = 4


def count() -> int:
    """GPUs of this machine."""
    if not shutil.which("nvidia-smi"):
        return 0
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False)
    return len(listed.stdout.splitlines())


def gpu_memory(programs: Programs, pairs: int) -> None:
    """GPU memory, verified there, over host memory, verified, and over C with the same copies: 512 KiB chunks"""
    found = count()
    if not found:
        raise Skipped("this machine has no GPU")
    total = programs.bytes(GIB)
    # With one GPU, the kernels of both ends take turns on it, which those of two nodes do not.
    for gpus in [(0, 0), (0, 1)][:found]:
        for connections in (1, 4, 8, 16):
            what = f"{'one GPU' if len(set(gpus)) == 1 else 'a GPU per end'}, connections {connections}"
            run = lambda memory: programs.transfer(connections, total=total, verify=True, memory=memory, gpus=gpus)
            copies = lambda: programs.control_transfer(connections, programs.iterations * total, gpus=gpus)
            device = Side("device", lambda: run("device"))
            compare(pairs, what, device, Side("host", lambda: run("host")), Row("gb_per_s", at_least(0.7)))
            compare(pairs, what, device, Side("control", copies), Row("gb_per_s", at_least(0.95)))


def nccl(programs: Programs, pairs: int) -> None:
    """PyTorch all-reduce of two GPUs: NCCL over the plain plugin, over NCCL's own sockets"""
    if count() < RANKS:
        raise Skipped("this machine does not have two GPUs")
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False).returncode:
        raise Skipped(f"{sys.executable} has no PyTorch")
    for threads, sockets in ((1, 1), (1, 4), (2, 2), (4, 1)):
        env = {"NCCL_SOCKET_NTHREADS": str(threads), "NCCL_NSOCKS_PERTHREAD": str(sockets)}
        networks = {"plain": {"NCCL_NET_PLUGIN": programs.plain}, "Socket": {"NCCL_NET": "Socket"},
                    "Socket again": {"NCCL_NET": "Socket"}}
        samples: list[list[Sample]] = [[] for _ in networks]
        for first in range(0, pairs, PAIRS_OF_A_PROCESS):
            jobs = [AllReduce(programs, name, {**env, **network}) for name, network in networks.items()]
            sides = [Side(job.name, job.measure) for job in jobs]
            for of_side, more in zip(samples, take_turns(min(PAIRS_OF_A_PROCESS, pairs - first), sides)):
                of_side += more
            for job in jobs:
                programs.processes.finish_all(job.ranks)
        plain, sockets_, again = zip(networks, samples)
        label = f"threads {threads} x sockets {sockets}"
        for size in REDUCED:
            metric = f"gb_per_s_{size // MIB}_mib"
            print_row(label, plain, sockets_, Row(metric, at_least(1.0)))
            print_row(label, again, sockets_, Row(metric, None))


class AllReduce:
    """Ranks that reduce whenever they are told to."""

    def __init__(self, programs: Programs, name: str, network: dict[str, str]) -> None:
        self.name = name
        self.processes = programs.processes
        rendezvous = programs.folder / f"all-reduce-{name}"
        rendezvous.unlink(missing_ok=True)
        env = {**programs.env, **network, "NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
        command = [sys.executable, "-B", str(ROOT / "benches/all_reduce.py")]
        what = [str(RANKS), str(rendezvous), "2" if programs.is_smoke else "10", *map(str, REDUCED)]
        self.ranks = [self.processes.start([*command, str(rank), *what], env, stdin=subprocess.PIPE)
                      for rank in range(RANKS)]

    def measure(self) -> Sample:
        rates = numbers(self.processes.ask(self.ranks))
        return {f"gb_per_s_{size // MIB}_mib": rates[str(size)] for size in REDUCED}


COMPARISONS: dict[str, Callable[[Programs, int], None]] = {"gpu-memory": gpu_memory, "nccl": nccl}
