"""The cost of reading logs, compared with ripgrep, which counts the lines with any of the same literals."""

import concurrent.futures
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Callable, Iterator

from .processes import ROOT, Failed
from .programs import MIB, Programs, Sample, Skipped
from .turns import Row, Side, at_least, at_most, compare

# A file repeats one piece of random lines, which is too large for a CPU cache.
PIECE = 64 * MIB
FILE = 2048 * MIB
RESIDENT_MAX = 64 * MIB
# Debian's older version is several times slower, so it is not used for comparison.
RIPGREP_OLDEST = 15
PROBES = ROOT / "probes/logs"


def logs(programs: Programs, pairs: int) -> None:
    """tcpxctl logs over ripgrep -c of all literals, for several kinds of lines"""
    ripgrep = newest_ripgrep(programs)
    literals = programs.processes.run([programs.tcpxctl, "logs", "--literals"]).splitlines()
    literals = [literal for literal in literals if is_decisive(literal)]
    patterns = [word for literal in literals for word in ("-e", literal)]
    for label, lines in KINDS.items():
        path = programs.folder / "mixed.log"
        write_log(path, lines, programs.bytes(FILE, 4 * MIB), programs.bytes(PIECE, 4 * MIB))
        counts: dict[str, set[int]] = {"tcpxctl": set(), "ripgrep": set()}
        resident: list[int] = []

        def ours() -> Sample:
            seconds, output, peak = timed([programs.tcpxctl, "logs", "--json", str(path)])
            counts["tcpxctl"].add(json.loads(output)["inputs"]["matched_lines"])
            resident.append(peak)
            return {"gb_per_s": path.stat().st_size / seconds / 1e9}

        def theirs() -> Sample:
            seconds, output, _ = timed([ripgrep, "--no-config", "-a", "-c", "-F", *patterns, str(path)])
            counts["ripgrep"].add(int(output))
            return {"gb_per_s": path.stat().st_size / seconds / 1e9}

        compare(pairs, label, Side("tcpxctl", ours), Side("ripgrep", theirs), Row("gb_per_s", at_least(1.3)))
        path.unlink()
        if counts["tcpxctl"] != counts["ripgrep"]:
            raise Failed(f"tcpxctl and ripgrep count different lines: {counts}")
        print(f"    {len(literals)} literals; peak {max(resident) / MIB:.0f} MiB resident  "
              f"{at_most(RESIDENT_MAX / MIB).judge(max(resident) / MIB)}")


def newest_ripgrep(programs: Programs) -> str:
    """The path in `TCPXCTL_RG`, or `rg` on the PATH."""
    ripgrep = os.environ.get("TCPXCTL_RG") or shutil.which("rg")
    advice = "cargo install ripgrep --root FOLDER, then TCPXCTL_RG=FOLDER/bin/rg"
    if not ripgrep:
        raise Skipped(f"ripgrep is not installed ({advice})")
    version = re.match(r"ripgrep (\d+)\.", programs.processes.run([ripgrep, "--version"]))
    if not version or int(version[1]) < RIPGREP_OLDEST:
        raise Skipped(f"{ripgrep} is older than {RIPGREP_OLDEST} ({advice})")
    return ripgrep


def timed(command: list[str]) -> tuple[float, str, int]:
    """Seconds, output, and the peak resident size in bytes.

    The kernel's figure for an ended child includes the memory of this program, from
    which it was forked, so the child's /proc entry is read while it runs.
    """
    started, peak = time.monotonic(), 0
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as child:
        reader = concurrent.futures.ThreadPoolExecutor(1).submit(child.stdout.read)
        while not reader.done():
            peak = max(peak, resident_at_most(child.pid))
            concurrent.futures.wait([reader], timeout=0.02)
        output = reader.result()
    if child.returncode != 0:
        raise Failed(f"{command[0]}: exit {child.returncode}")
    return time.monotonic() - started, output, peak


def resident_at_most(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(line.split()[1]) << 10


def is_decisive(literal: str) -> bool:
    """Whether a literal stands in no ordinary line: otherwise it is a part of what its signature looks for, and ripgrep would
    count more lines."""
    return literal not in (PROBES / "ordinary.txt").read_text()


def examples(files: str) -> list[str]:
    """The example lines of signatures whose literal tells them from ordinary lines."""
    return [signature["example"] for file in sorted(PROBES.glob(files))
            for signature in tomllib.loads(file.read_text())["signature"]
            if is_decisive(signature["literal"])]


def mixed(percent: int) -> Iterator[str]:
    """Ordinary lines and lines that match signatures, with random numbers."""
    dice = random.Random(percent)
    ordinary = (PROBES / "ordinary.txt").read_text().splitlines()
    known = examples("*.toml")
    # Timeouts flood logs in practice, so they are more likely than other lines.
    known += [line for line in known if "timeout" in line for _ in range(20)]
    while True:
        yield renumbered(dice, dice.choice(known if dice.randrange(100) < percent else ordinary))


def only_tcpx() -> Iterator[str]:
    """Lines of NCCL, of which every fourth is one of TCPX that matches a signature."""
    dice = random.Random(4)
    ordinary = [line for line in (PROBES / "ordinary.txt").read_text().splitlines() if line.startswith("node0:")]
    known = [line for name in ("init", "connect", "memory", "data", "misuse") for line in examples(f"{name}.toml")]
    for number in itertools.count():
        yield renumbered(dice, dice.choice(ordinary if number % 4 else known))


def harness() -> Iterator[str]:
    """The receiver of a program that drives the plugin itself: up to seven lines per chunk."""
    dice = random.Random(5)
    requests = [f"0x7f{dice.randrange(1 << 40):010x}" for _ in range(64)]
    for iteration in itertools.count():
        yield f"[SERVER] ===== Iteration {iteration} ====="
        for chunk in range(512):
            channel, oldest = chunk % 4, max(0, chunk - 64)
            yield f"[DEBUG] GPU 0 chunk {chunk} → channel {channel} (window size={min(chunk // 4, 16)}/16)"
            if chunk >= 64:
                yield f"[DEBUG] GPU 0 channel {channel} window FULL, trying to release oldest..."
            for done in [0] * dice.randrange(6) + [1]:
                yield f"[DEBUG][SlidingWindow] tcpx_test: chunk_idx={oldest} rc=0 done={done} size=0 is_recv=1"
            yield f"[DEBUG] GPU 0 chunk {chunk} calling tcpx_irecv (size=524288, tag={chunk + 100})..."
            yield f"[DEBUG] GPU 0 chunk {chunk} tcpx_irecv returned, request={dice.choice(requests)}"
        yield f"[SERVER] Iteration {iteration} completed in 182.5 ms, bandwidth: 2.74 GB/s"


def healthy() -> Iterator[str]:
    """The logs of `src/logs/golden.toml` in which nothing is wrong, with random numbers."""
    dice = random.Random(6)
    cases = tomllib.loads((ROOT / "src/logs/golden.toml").read_text())["case"]
    lines = [line for case in cases if "first" not in case for line in case["log"].splitlines() if line]
    while True:
        yield from (renumbered(dice, line) for line in lines)


def renumbered(dice: random.Random, line: str) -> str:
    """Replaces addresses, ports and counts; no literal has a number of four digits or more."""
    return re.sub(r"\d{4,}", lambda number: str(dice.randrange(10 ** len(number[0]))), line)


def write_log(path: Path, kind: Callable[[], Iterator[str]], size: int, piece_size: int) -> None:
    """Writes a file that repeats one piece of lines of a kind."""
    lines, written = [], 0
    for line in kind():
        lines.append(line)
        written += len(line.encode()) + 1
        if written >= piece_size:
            break
    piece = ("\n".join(lines) + "\n").encode()
    with open(path, "wb") as file:
        for _ in range(max(1, size // len(piece))):
            file.write(piece)


KINDS: dict[str, Callable[[], Iterator[str]]] = {
    "1 % of lines": lambda: mixed(1),
    "20 % of lines": lambda: mixed(20),
    "80 % of lines": lambda: mixed(80),
    "lines of TCPX": only_tcpx,
    "lines of a harness": harness,
    "healthy logs": healthy,
}
COMPARISONS: dict[str, Callable[[Programs, int], None]] = {"logs": logs}
