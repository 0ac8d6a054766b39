"""Starts processes with a time limit, stops them by id, and reads their entries in /proc."""

import contextlib
import os
import select
import signal
import socket
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Time limit of one run of one program; each takes less than a quarter of it.
RUN_SECONDS = 180


class Failed(Exception):
    """A program failed."""


class Processes:
    """The running processes, so that all can be stopped at the end."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen] = []

    def start(self, command: list[str], env: dict[str, str] | None = None, *,
              stdin: int = subprocess.DEVNULL) -> subprocess.Popen:
        child = subprocess.Popen(command, env=env, cwd=ROOT, text=True, stdin=stdin,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.running.append(child)
        return child

    def finish(self, child: subprocess.Popen, seconds: float = RUN_SECONDS) -> str:
        """The standard output of a process; raises `Failed` if its exit code is not 0."""
        command = " ".join(child.args)
        try:
            output, errors = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.stop(child)
            raise Failed(f"{command}: not finished within {seconds:.0f} s") from None
        self.running.remove(child)
        if child.returncode != 0:
            last = "\n".join((errors or output).strip().splitlines()[-5:])
            raise Failed(f"{command}: exit {child.returncode}\n{last}")
        return output

    def ask(self, children: list[subprocess.Popen], seconds: float = RUN_SECONDS) -> str:
        """Writes a line to each of `children`, and returns the next line of the first one."""
        for child in children:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write("\n")
                child.stdin.flush()
        first = children[0]
        if select.select([first.stdout], [], [], seconds)[0] and (line := first.stdout.readline()):
            return line
        self.finish_all(children, seconds=5)
        raise Failed(f"{' '.join(first.args)}: ended without an answer")

    def finish_all(self, children: list[subprocess.Popen], seconds: float = RUN_SECONDS) -> None:
        """Ends the standard input of processes that need each other to end, and waits for them."""
        for child in children:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
            child.stdin = None
        for child in children:
            self.finish(child, seconds)

    def run(self, command: list[str], env: dict[str, str] | None = None, seconds: float = RUN_SECONDS) -> str:
        return self.finish(self.start(command, env), seconds)

    def stop(self, child: subprocess.Popen) -> None:
        """Stops a process by SIGINT, so that tcpxctl can end its agents, then by SIGKILL."""
        for how in (signal.SIGINT, signal.SIGKILL):
            if child.poll() is None:
                child.send_signal(how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=5)
                break
        self.running.remove(child)

    def stop_all(self) -> None:
        for child in list(self.running):
            self.stop(child)


def read(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text().strip()
    return "unknown"


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat, starting with the third, the state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_ticks(pid: int) -> int:
    """User and system time of a process with all its threads."""
    fields = stat_fields(pid)
    return int(fields[11]) + int(fields[12])


def children(pid: int) -> list[int]:
    found = []
    for process in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        with contextlib.suppress(OSError):
            if int(stat_fields(process)[1]) == pid:
                found.append(process)
    return sorted(found)


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def is_usable(congestion: str) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        return True
    return False
