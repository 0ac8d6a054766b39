"""One rank of a PyTorch all-reduce over NCCL's network, for scripts/bench.

    all_reduce.py RANK RANKS RENDEZVOUS ROUNDS BYTES...

RENDEZVOUS is a file that does not exist yet. Each rank has a GPU. All ranks are told to measure by a line on standard
input, and end with it. For each line: for each size, checks the sum, then prints `BYTES=` and the 10^9 bytes per
second of the slowest rank, bytes of the buffer by the time of a round.
"""

import sys
import time

import torch
import torch.distributed as dist


def rate(rank: int, ranks: int, size: int, rounds: int) -> float:
    buffer = torch.full((size // 4,), float(rank + 1), device="cuda")
    dist.all_reduce(buffer)
    wanted = ranks * (ranks + 1) / 2
    if not bool((buffer == wanted).all()):
        sys.exit(f"rank {rank}: a sum is not {wanted}")
    buffer.zero_()
    dist.all_reduce(buffer)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(rounds):
        dist.all_reduce(buffer)
    torch.cuda.synchronize()
    seconds = torch.tensor([(time.perf_counter() - started) / rounds], device="cuda")
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return size / seconds.item() / 1e9


def main() -> None:
    rank, ranks, rendezvous, rounds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    for _ in sys.stdin:
        rates = {size: rate(rank, ranks, int(size), rounds) for size in sys.argv[5:]}
        print(" ".join(f"{size}={value:.4f}" for size, value in rates.items()), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
