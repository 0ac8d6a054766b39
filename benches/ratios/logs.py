"""The cost of reading logs, compared with ripgrep, which counts the lines with any of the same literals."""

import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Callable

from .processes import ROOT, Failed
from .programs import MIB, Programs, Sample, Skipped
from .turns import Row, Side, at_least, at_most, compare

# A file repeats one piece of random lines, which is too large for a CPU cache.
PIECE = 64 * MIB
FILE = 2048 * MIB
RESIDENT_MAX = 64 * MIB
# Debian's older version is several times slower, so it is not used for comparison.
RIPGREP_OLDEST = 15


def logs(programs: Programs, pairs: int) -> None:
    """tcpxctl logs over ripgrep -c of all literals, by the share of lines that have one"""
    ripgrep = newest_ripgrep(programs)
    literals = programs.processes.run([programs.tcpxctl, "logs", "--literals"]).splitlines()
    patterns = [word for literal in literals for word in ("-e", literal)]
    for percent in (1, 20, 80):
        path = programs.folder / "mixed.log"
        write_mixed(path, percent, programs.bytes(FILE, 4 * MIB), programs.bytes(PIECE, 4 * MIB))
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

        compare(pairs, f"{percent} % of lines", Side("tcpxctl", ours), Side("ripgrep", theirs), Row("gb_per_s", at_least(1.3)))
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


def write_mixed(path: Path, percent: int, size: int, piece_size: int) -> None:
    """Writes a mix of ordinary lines and lines that match signatures, with random numbers."""
    dice = random.Random(percent)
    probes = ROOT / "probes/logs"
    ordinary = (probes / "ordinary.txt").read_text().splitlines()
    known = [signature["example"] for file in sorted(probes.glob("*.toml"))
             for signature in tomllib.loads(file.read_text())["signature"]]
    # Timeouts flood logs in practice, so they are more likely than other lines.
    known += [line for line in known if "timeout" in line for _ in range(20)]

    def line() -> str:
        one = dice.choice(known if dice.randrange(100) < percent else ordinary)
        # Replaces addresses, ports and counts; no literal has a number of four digits or more.
        return re.sub(r"\d{4,}", lambda number: str(dice.randrange(10 ** len(number[0]))), one)

    lines, written = [], 0
    while written < piece_size:
        lines.append(line())
        written += len(lines[-1]) + 1
    piece = ("\n".join(lines) + "\n").encode()
    with open(path, "wb") as file:
        for _ in range(max(1, size // len(piece))):
            file.write(piece)


COMPARISONS: dict[str, Callable[[Programs, int], None]] = {"logs": logs}
