"""The cost of two nodes compared with one, in a lab that these comparisons start and end (`scripts/lab`)."""

import contextlib
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Callable, Iterator

from .processes import ROOT, Failed, children, cpu_ticks
from .programs import Programs, Skipped
from .turns import at_least, at_most, number, spread

EVENTS_PER_SECOND = 20_000
PEER = "10.0.0.226"
TINY = ["--set", "transfer.total=4KiB", "--set", "transfer.chunk=4KiB", "--set", "transfer.iterations=1",
        "--set", "transfer.warmup=0", "--reports", "/tmp/reports"]


class Lab:
    def __init__(self, programs: Programs) -> None:
        self.programs, self.script = programs, str(ROOT / "scripts/lab")
        self.env = {**programs.env, "TCPXCTL_LAB_NAME": f"bench{os.getpid()}",
                    "TCPXCTL_LAB_BIN": str(Path(programs.tcpxctl).parent)}

    def exec(self, node: str, *command: str) -> float:
        """Runs a command in a node; returns its seconds."""
        started = time.monotonic()
        self.programs.processes.run([self.script, "exec", node, *command], self.env)
        return time.monotonic() - started


@contextlib.contextmanager
def lab(programs: Programs) -> Iterator[Lab]:
    made = Lab(programs)
    if subprocess.run([made.script, "check"], env=made.env, capture_output=True, check=False).returncode != 0:
        raise Skipped("this machine cannot run a lab (see `scripts/lab check`)")
    programs.processes.run([made.script, "up"], made.env)
    try:
        yield made
    finally:
        programs.processes.run([made.script, "down"], made.env)


def ssh(programs: Programs, pairs: int) -> None:
    """Time of a run over ssh with the agent already on the peer, minus the same run on one node"""
    scenario = str(ROOT / "scenarios/4conn.toml")
    with lab(programs) as made:
        made.exec("node0", "tcpxctl", "run", scenario, "--peer", PEER, *TINY)
        over = [made.exec("node0", "tcpxctl", "run", scenario, *peer, *TINY)
                for _ in range(pairs) for peer in (["--peer", PEER], [])]
        more = [1e3 * (with_peer - without) for with_peer, without in zip(over[::2], over[1::2])]
        middle = statistics.median(more)
        print(f"  {number(middle)} ms more {spread(more)}  {at_most(1000).judge(middle)}")


def upload(programs: Programs, pairs: int) -> None:
    """Upload of the program by the first run, over scp of the same file"""
    scenario, size = str(ROOT / "scenarios/4conn.toml"), os.path.getsize(programs.tcpxctl)
    with lab(programs) as made:
        cold, warm, scp = [], [], []
        for _ in range(pairs):
            made.exec("node1", "rm", "-rf", "/root/.cache/tcpxctl")
            cold.append(made.exec("node0", "tcpxctl", "run", scenario, "--peer", PEER, *TINY))
            warm.append(made.exec("node0", "tcpxctl", "run", scenario, "--peer", PEER, *TINY))
            scp.append(made.exec("node0", "scp", "-q", programs.tcpxctl, f"{PEER}:/root/copy"))
        rates = [size / 1e6 / (first - later) for first, later in zip(cold, warm)]
        theirs = [size / 1e6 / seconds for seconds in scp]
        ratios = [ours / other for ours, other in zip(rates, theirs)]
        middle = statistics.median(ratios)
        print(f"  {size / 1e6:.1f} MB: {number(statistics.median(rates))} MB/s, scp {number(statistics.median(theirs))} MB/s, "
              f"ratio {middle:.3f} {spread(ratios)}  {at_least(0.7).judge(middle)}")


def events(programs: Programs, _pairs: int) -> None:
    """CPU of the coordinator while a node floods it with log lines"""
    scenario, chatty = str(ROOT / "scenarios/4conn.toml"), str(ROOT / "benches/chatty-agent.py")
    with lab(programs) as made:
        # In the build folder, which nodes see; each node has its own /tmp.
        wrapper = Path(programs.tcpxctl).parent / "chatty"
        wrapper.write_text(f'#!/bin/sh\nexec {chatty} {programs.tcpxctl} {EVENTS_PER_SECOND} "$@"\n')
        wrapper.chmod(0o755)
        command = [made.script, "exec", "node0", "tcpxctl", "run", scenario, "--peer", PEER, "--remote-bin", str(wrapper),
                   "--set", "transfer.iterations=1000000", "--set", "transfer.total=1MiB", "--reports", "/tmp/reports"]
        run = programs.processes.start(command, made.env)
        try:
            pid = coordinator(run.pid)
            time.sleep(3)
            folder = f"/proc/{pid}/root/tmp/reports"
            before, lines, started = cpu_ticks(pid), count_lines(folder), time.monotonic()
            time.sleep(1.0 if programs.is_smoke else 8.0)
            ticks, elapsed = cpu_ticks(pid) - before, time.monotonic() - started
            rate = (count_lines(folder) - lines) / elapsed
        finally:
            programs.processes.stop(run)
            wrapper.unlink()
        share = 100 * ticks / os.sysconf("SC_CLK_TCK") / elapsed
        print(f"  {rate:.0f} events/s recorded: {share:.2f} % of a core over {elapsed:.1f} s  {at_most(10).judge(share)}")


def coordinator(pid: int) -> int:
    """The process id of `tcpxctl run` among the descendants of `lab exec`."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        below, todo = [], [pid]
        while todo:
            found = children(todo.pop())
            below += found
            todo += found
        for one in below:
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"tcpxctl") and words[1:2] == [b"run"]:
                    return one
        time.sleep(0.05)
    raise Failed("no `tcpxctl run` process appeared in the lab within 20 s")


def count_lines(folder: str) -> int:
    newest = max(Path(folder).iterdir(), key=lambda path: path.stat().st_mtime)
    with open(newest / "events.jsonl", "rb") as events_file:
        return sum(block.count(b"\n") for block in iter(lambda: events_file.read(1 << 20), b""))


COMPARISONS: dict[str, Callable[[Programs, int], None]] = {"ssh": ssh, "upload": upload, "events": events}
