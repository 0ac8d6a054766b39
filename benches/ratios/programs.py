"""The programs that are measured: built once, each run gives a dictionary of numbers.

Rates are of the receiving end, in 10^9 bytes per second. Every program uses the
loopback interface and the same congestion control; the strict C plugin, which
cannot be told, uses the system's.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from .processes import ROOT, Failed, Processes, free_port

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
CHUNK = 512 * KIB
# Measured ones of one `tcpxctl run`; the other side moves all their bytes at once.
ITERATIONS = 4
BUILD_SECONDS = 1500
Sample = dict[str, float]


def workers(run: dict) -> list:
    """Of tcpxctl.run/2, or of version 1, which has them as nodes."""
    if "pairs" in run:
        return run["pairs"][0]["workers"]
    return [{**node, "resident_bytes": node["worker_resident_bytes"]} for node in run["nodes"]]


class Skipped(Exception):
    """A comparison lacks a program that is not ours."""


class Programs:
    def __init__(self, processes: Processes, folder: Path, congestion: str, is_smoke: bool) -> None:
        self.processes, self.folder, self.congestion, self.is_smoke = processes, folder, congestion, is_smoke
        self.iterations = 1 if is_smoke else ITERATIONS
        self.iperf3 = shutil.which("iperf3")
        # Settings of a shell must not reach either side.
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "TCPX"))}
        self.plugin_env = {"NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "=lo", "TCPXSOFT_CONGESTION": congestion}
        self.build()

    def build(self) -> None:
        cargo = ["cargo", "build", "--release", "--quiet"]
        self.processes.run(cargo, seconds=BUILD_SECONDS)
        self.processes.run([*cargo, "--package", "tcpx-bare"], seconds=BUILD_SECONDS)
        self.processes.run([*cargo, "--package", "tcpx-bare", "--example", "shim_cost"], seconds=BUILD_SECONDS)
        self.processes.run([*cargo, "--package", "tcpx-tap", "--example", "tap_cost"], seconds=BUILD_SECONDS)
        self.processes.run([*cargo, "--package", "tcpx-recorder", "--example", "follow"], seconds=BUILD_SECONDS)
        metadata = json.loads(self.processes.run(["cargo", "metadata", "--format-version", "1", "--no-deps"]))
        release = Path(metadata["target_directory"]) / "release"
        self.tcpxctl, self.bare_driver = str(release / "tcpxctl"), str(release / "bare")
        # Where tcpxctl looks first: the copy beside the program can be older.
        self.soft = str(release / "deps" / "libnccl_net_tcpxsoft.so")
        self.tap = str(release / "deps" / "libnccl_net_tcpxtap.so")
        self.tap_cost, self.follow, self.shim_cost = (
            str(release / "examples" / name) for name in ("tap_cost", "follow", "shim_cost"))
        self.control_program, self.strict = str(self.folder / "control"), str(self.folder / "libnccl-net-strict.so")
        compiler = ["cc", "-O2", "-Wall", "-Wextra", "-pthread"]
        self.processes.run([*compiler, str(ROOT / "benches/control.c"), "-o", self.control_program])
        self.processes.run([*compiler, "-shared", "-fPIC", str(ROOT / "tests/plugins/strict.c"), "-o", self.strict])

    def bytes(self, full: int, smoke: int = 8 * MIB) -> int:
        return smoke if self.is_smoke else full

    # ---- tcpxctl -----------------------------------------------------------

    def run_command(self, plugin: str, settings: dict[str, object], env: dict[str, str]) -> list[str]:
        command = [self.tcpxctl, "run", "scenarios/4conn.toml", "--plugin", plugin, "--json",
                   "--reports", str(self.folder / "reports")]
        env = {f"env.{name}": value for name, value in {**self.plugin_env, **env}.items()}
        for key, value in {**settings, **env}.items():
            command += ["--set", f"{key}={json.dumps(value)}"]
        return command

    def transfer(self, connections: int, *, chunk: int = CHUNK, total: int | None = None, iterations: int | None = None,
                 windows: tuple[int, int] = (12, 16), verify: bool = False, idle: str = "adaptive",
                 direction: str = "forward", plugin: str = "soft", env: dict[str, str] | None = None) -> Sample:
        """One `tcpxctl run`; windows are send, recv."""
        settings = {
            "transfer.connections": connections, "transfer.chunk": chunk, "transfer.total": total or self.bytes(GIB),
            "transfer.warmup": 1, "transfer.iterations": iterations or self.iterations,
            "transfer.send_window": windows[0], "transfer.recv_window": windows[1], "transfer.verify": verify,
            "transfer.direction": direction, "progress.idle": idle,
        }
        started = time.monotonic()
        text = self.processes.run(self.run_command(plugin, settings, env or {}), self.env)
        wall = time.monotonic() - started
        self.forget_reports()
        run = json.loads(text)
        moved = run["transfers"][0]
        requests = moved["bytes"] / chunk
        sample = {"gb_per_s": moved["gb_per_s"], "messages_per_s": requests / moved["seconds"],
                  "ns_per_request": moved["seconds"] * 1e9 / requests, "seconds": moved["seconds"], "wall": wall}
        for quantile, microseconds in (moved["round_trip_us"] or {}).items():
            sample[f"{quantile}_ns"] = 1e3 * microseconds
        for worker in workers(run):
            sample[f"{worker['role']}_resident"] = worker["resident_bytes"]
            sample[f"{worker['role']}_registered"] = worker["registered_bytes"]
        return sample

    def start_endless_run(self) -> subprocess.Popen:
        """scenarios/4conn.toml, for far longer than anyone watches it."""
        return self.processes.start(self.run_command("soft", {"transfer.iterations": 1_000_000}, {}), self.env)

    def forget_reports(self) -> None:
        shutil.rmtree(self.folder / "reports", ignore_errors=True)

    # ---- the bare driver and the control -----------------------------------

    def both_ends(self, program: str, ends: list[list[str]], flags: dict[str, object], env: dict[str, str]) -> Sample:
        """Two ends of one program; the numbers are the first's."""
        common = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
        started = [self.processes.start([program, *end, *common], env) for end in ends]
        return numbers([self.processes.finish(end) for end in started][0])

    def bare(self, ends: list[list[str]], flags: dict[str, object], tapped: bool = False) -> Sample:
        # The task chunk as tcpxctl sets it for one socket.
        env = {**self.env, **self.plugin_env, "NCCL_DYNAMIC_CHUNK_SIZE": str(CHUNK)}
        plugin = self.soft
        if tapped:
            self.forget_recordings()
            env |= {"TCPXTAP_PLUGIN": self.soft, "TCPXTAP_FOLDER": str(self.recordings), "TCPXTAP_NAME": "bench"}
            plugin = self.tap
        return self.both_ends(self.bare_driver, ends, {"plugin": plugin, "port": free_port(), **flags}, env)

    def bare_transfer(self, chunk: int, total: int, windows: tuple[int, int], channels: int = 1,
                      tapped: bool = False) -> Sample:
        ends = [["recv", "--window", str(windows[1])], ["send", "--window", str(windows[0])]]
        return self.bare(ends, {"chunk": chunk, "total": total, "channels": channels}, tapped)

    # ---- the tap and its recorder ------------------------------------------

    @property
    def recordings(self) -> Path:
        # Where a tap's files go by default, so that they cost what they cost there.
        folder = Path("/dev/shm") / f"tcpxctl-bench-{os.getpid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def forget_recordings(self) -> None:
        shutil.rmtree(self.recordings, ignore_errors=True)

    def recorder_files(self) -> list[Path]:
        return sorted(self.recordings.glob("tcpxctl-*/bench-*.tcpxrec"))

    @contextlib.contextmanager
    def followed(self, hz: int):
        """A reader of every recorder file, as often as a live view."""
        follower = self.processes.start([self.follow, str(self.recordings), "bench", str(hz), "120"])
        try:
            yield
        finally:
            self.processes.stop(follower)

    def bare_round_trips(self, size: int, count: int) -> Sample:
        return self.bare([["pingpong-send"], ["pingpong-recv"]], {"size": size, "count": count})

    def control(self, ends: list[list[str]], flags: dict[str, object]) -> Sample:
        flags = {"addr": "127.0.0.1", "port": free_port(), "congestion": self.congestion, **flags}
        return self.both_ends(self.control_program, ends, flags, self.env)

    def control_transfer(self, streams: int, total: int) -> Sample:
        flags = {"streams": streams, "chunk": CHUNK, "total": total, "buffers": 16}
        return self.control([["recv"], ["send"]], flags)

    def control_round_trips(self, size: int, count: int) -> Sample:
        return self.control([["pingpong", "send"], ["pingpong", "recv"]], {"size": size, "count": count})

    # ---- iperf3 ------------------------------------------------------------

    def iperf(self, streams: int, total: int, size: int = CHUNK) -> Sample:
        if not self.iperf3:
            raise Skipped("iperf3 is not installed (apt-get install iperf3)")
        # Its receiver stops counting once the sender is done: of less, most would be missing.
        total = max(total, 256 * MIB)
        port = free_port()
        server = self.processes.start([self.iperf3, "-s", "-1", "-B", "127.0.0.1", "-p", port])
        client = [self.iperf3, "-c", "127.0.0.1", "-p", port, "-P", str(streams), "-n", str(total), "-l", str(size),
                  "-C", self.congestion, "-J"]
        try:
            end = self.once_it_listens(client)["end"]
        finally:
            self.processes.stop(server)
        used = {end.get("sender_tcp_congestion"), end.get("receiver_tcp_congestion")}
        rate = end["sum_received"]["bits_per_second"] / 8
        if used != {self.congestion} or not rate:
            raise Failed(f"iperf3 moved {rate} bytes per second with {used}, not {self.congestion}")
        return {"gb_per_s": rate / 1e9, "messages_per_s": rate / size}

    def once_it_listens(self, client: list[str]) -> dict:
        deadline = time.monotonic() + 10
        while True:
            # With -J some versions exit 0 whatever happened.
            try:
                report = json.loads(self.processes.run(client))
                error = report.get("error")
            except Failed as failure:
                error = str(failure)
            if not error:
                return report
            if "refused" not in error or time.monotonic() > deadline:
                raise Failed(f"iperf3: {error}")
            time.sleep(0.02)


def numbers(line: str) -> Sample:
    """Those among `key=value` words."""
    values: Sample = {}
    for word in line.split():
        key, _, value = word.partition("=")
        with contextlib.suppress(ValueError):
            values[key] = float(value)
    return values
