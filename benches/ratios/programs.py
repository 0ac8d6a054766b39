"""The measured programs: built once; each run returns a dictionary of numbers.

Rates are those of the receiving end, in 10^9 bytes per second. Every program uses the
loopback interface and the same congestion control, except the strict C plugin, which
has no such setting and uses the system default.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from .processes import ROOT, Failed, Processes, free_port

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
CHUNK = 512 * KIB
# Measured iterations of one `tcpxctl run`; the other side moves all their bytes in one transfer.
ITERATIONS = 4
BUILD_SECONDS = 1500
Sample = dict[str, float]


def workers(run: dict) -> list:
    """The workers of a `tcpxctl.run/2` document, or of version 1, which lists them as nodes."""
    if "pairs" in run:
        return run["pairs"][0]["workers"]
    return [{**node, "resident_bytes": node["worker_resident_bytes"]} for node in run["nodes"]]


class Skipped(Exception):
    """A comparison needs a program that is not installed."""


# The plugins that tcpxctl loads are searched beside it.
PACKED = ("tcpxctl", "bare", "tap_cost", "follow", "shim_cost", "control", "libnccl_net_tcpxsoft.so",
          "libnccl_net_tcpxtap.so", "libnccl_net_plainsoft.so", "libnccl-net-strict.so", "endpoint", "libtcpxp2p.so",
          "libtcpxp2p_python.so")


class Programs:
    """`packed` is a folder made by `pack`, for a machine without a toolchain."""

    def __init__(self, processes: Processes, folder: Path, congestion: str, is_smoke: bool,
                 packed: Path | None = None) -> None:
        self.processes, self.folder, self.congestion, self.is_smoke = processes, folder, congestion, is_smoke
        self.iterations = 1 if is_smoke else ITERATIONS
        self.iperf3 = shutil.which("iperf3")
        # Settings of the caller's shell must not reach either side.
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "TCPX"))}
        self.plugin_env = {"NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "=lo", "TCPXSOFT_CONGESTION": congestion}
        if packed:
            self.use(packed)
        else:
            self.build()

    def use(self, packed: Path) -> None:
        missing = [name for name in PACKED if not (packed / name).is_file()]
        if missing:
            raise Failed(f"{packed} lacks {', '.join(missing)}: make it with `scripts/bench --pack {packed}`")
        (self.tcpxctl, self.bare_driver, self.tap_cost, self.follow, self.shim_cost, self.control_program, self.soft,
         self.tap, self.plain, self.strict, self.endpoint_program, self.endpoint_library, self.endpoint_module,
         ) = (str(packed.resolve() / name) for name in PACKED)

    def pack(self, folder: Path) -> None:
        """Copies every measured program to a folder, stripped: for a machine without a toolchain."""
        folder.mkdir(parents=True, exist_ok=True)
        built = (self.tcpxctl, self.bare_driver, self.tap_cost, self.follow, self.shim_cost, self.control_program,
                 self.soft, self.tap, self.plain, self.strict, self.endpoint_program, self.endpoint_library,
                 self.endpoint_module)
        for source, name in zip(built, PACKED):
            self.processes.run(["strip", "-o", str(folder / name), source])

    def build(self) -> None:
        # What is measured is what is installed; a smoke test only needs programs that run. The tests have built those,
        # but for other selections of packages cargo would compile the dependencies again, with other features.
        if self.is_smoke:
            profile, built_in = "dev", "debug"
            selections = [["--workspace", "--lib", "--bins", "--examples"]]
        else:
            profile, built_in = "dist", "dist"
            selections = [
                [],
                ["--package", "tcpx-bare"],
                ["--package", "tcpx-bare", "--example", "shim_cost"],
                ["--package", "tcpx-tap", "--example", "tap_cost"],
                ["--package", "tcpx-recorder", "--example", "follow"],
                ["--package", "tcpx-p2p-c", "--package", "tcpx-p2p-python"],
            ]
        for selection in selections:
            self.processes.run(["cargo", "build", "--profile", profile, "--quiet", *selection], seconds=BUILD_SECONDS)
        metadata = json.loads(self.processes.run(["cargo", "metadata", "--format-version", "1", "--no-deps"]))
        built = Path(metadata["target_directory"]) / built_in
        self.tcpxctl, self.bare_driver = str(built / "tcpxctl"), str(built / "bare")
        # tcpxctl searches here first: the copy beside the program can be older.
        self.soft = str(built / "deps" / "libnccl_net_tcpxsoft.so")
        self.tap = str(built / "deps" / "libnccl_net_tcpxtap.so")
        self.plain = str(built / "deps" / "libnccl_net_plainsoft.so")
        self.tap_cost, self.follow, self.shim_cost = (
            str(built / "examples" / name) for name in ("tap_cost", "follow", "shim_cost"))
        self.control_program, self.strict = str(self.folder / "control"), str(self.folder / "libnccl-net-strict.so")
        compiler = ["cc", "-O2", "-Wall", "-Wextra", "-pthread"]
        self.processes.run([*compiler, str(ROOT / "benches/control.c"), "-o", self.control_program])
        self.endpoint_program = str(self.folder / "endpoint")
        self.endpoint_library, self.endpoint_module = (
            str(built / "deps" / name) for name in ("libtcpxp2p.so", "libtcpxp2p_python.so"))
        self.processes.run([*compiler, f"-I{ROOT}/src/p2p-c", str(ROOT / "benches/endpoint.c"), "-L", str(built / "deps"),
                            "-ltcpxp2p", "-o", self.endpoint_program])
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
                 direction: str = "forward", memory: str = "host", plugin: str = "soft",
                 gpus: tuple[int, int] | None = None, env: dict[str, str] | None = None) -> Sample:
        """One `tcpxctl run`; windows are send, recv, and `gpus` those of sender and receiver."""
        settings = {
            "transfer.connections": connections, "transfer.chunk": chunk, "transfer.total": total or self.bytes(GIB),
            "transfer.warmup": 1, "transfer.iterations": iterations or self.iterations,
            "transfer.send_window": windows[0], "transfer.recv_window": windows[1], "transfer.verify": verify,
            "transfer.direction": direction, "transfer.memory": memory, "progress.idle": idle,
        }
        if gpus:
            settings |= {"topology.gpus": sorted(set(gpus)), f"topology.lanes.{gpus[0]}": gpus[1]}
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
        """Starts scenarios/4conn.toml with a million iterations."""
        return self.processes.start(self.run_command("soft", {"transfer.iterations": 1_000_000}, {}), self.env)

    def forget_reports(self) -> None:
        shutil.rmtree(self.folder / "reports", ignore_errors=True)

    # ---- the bare driver and the control -----------------------------------

    def both_ends(self, program: str, ends: list[list[str]], flags: dict[str, object], env: dict[str, str]) -> Sample:
        """Runs two ends of one program; returns the first end's numbers."""
        common = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
        started = [self.processes.start([program, *end, *common], env) for end in ends]
        return numbers([self.processes.finish(end) for end in started][0])

    def bare(self, ends: list[list[str]], flags: dict[str, object], tapped: bool = False) -> Sample:
        # The task chunk size that tcpxctl sets for one socket.
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
        # A tap's default file system, so that writing costs as much as in real use.
        folder = Path("/dev/shm") / f"tcpxctl-bench-{os.getpid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def forget_recordings(self) -> None:
        shutil.rmtree(self.recordings, ignore_errors=True)

    def recorder_files(self) -> list[Path]:
        return sorted(self.recordings.glob("tcpxctl-*/bench-*.tcpxrec"))

    @contextlib.contextmanager
    def followed(self, hz: int):
        """Runs a reader that reads every recorder file `hz` times per second, as a live view does."""
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

    def control_transfer(self, streams: int, total: int, chunk: int = CHUNK, *, buffers: int = 16,
                         wait: str = "block", data: str = "any", gpus: tuple[int, int] | None = None) -> Sample:
        """`gpus` are those of sender and receiver."""
        flags = {"streams": streams, "chunk": chunk, "total": total, "buffers": buffers, "wait": wait, "bytes": data}
        send, recv = ([] if gpus is None else ["--gpu", str(gpu)] for gpu in gpus or (0, 0))
        sample = self.control([["recv", *recv], ["send", *send]], flags)
        return {**sample, "ns_per_request": 1e9 / sample["messages_per_s"]}

    def control_messages(self, size: int, count: int) -> Sample:
        """One write per message."""
        return self.control([["messages", "recv"], ["messages", "send"]], {"size": size, "count": count})

    def control_round_trips(self, size: int, count: int) -> Sample:
        return self.control([["pingpong", "send"], ["pingpong", "recv"]], {"size": size, "count": count})

    # ---- endpoints ---------------------------------------------------------

    @property
    def endpoint_env(self) -> dict[str, str]:
        return {"BENCH_PLUGIN": self.soft, "LD_LIBRARY_PATH": str(Path(self.endpoint_library).parent),
                "PYTHONPATH": str(self.folder / "package")}

    def endpoint(self, language: str) -> list[str]:
        """The command of one end, in C or Python."""
        if language == "c":
            return [self.endpoint_program]
        package = self.folder / "package/tcpxctl"
        if not package.exists():
            shutil.copytree(ROOT / "src/p2p-python/tcpxctl", package)
            shutil.copy(self.endpoint_module, package / "_native.abi3.so")
        return [sys.executable, "-B", str(ROOT / "benches/endpoint.py")]

    # ---- iperf3 ------------------------------------------------------------

    def iperf_version(self) -> tuple[str, bool]:
        """The first line of its version, and whether it has a thread per stream."""
        if not self.iperf3:
            return "no iperf3", False
        line = self.processes.run([self.iperf3, "--version"]).splitlines()[0]
        found = re.search(r"(\d+)\.(\d+)", line)
        return line, bool(found) and tuple(map(int, found.groups())) >= (3, 16)

    def iperf(self, streams: int, total: int, size: int = CHUNK) -> Sample:
        if not self.iperf3:
            raise Skipped("iperf3 is not installed (apt-get install iperf3)")
        # iperf3's receiver stops counting once the sender is done, which loses most of a small total.
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
            # With -J some versions exit with 0 even after an error.
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
    """The `key=value` words of a line whose values are numbers."""
    values: Sample = {}
    for word in line.split():
        key, _, value = word.partition("=")
        with contextlib.suppress(ValueError):
            values[key] = float(value)
    return values
