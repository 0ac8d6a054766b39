"""Every comparison, with its goal."""

import contextlib
import json
import os
import statistics
import subprocess
import time
from typing import Callable

from . import endpoints, gpus, logs, nodes
from .processes import Failed, children, cpu_ticks, read
from .programs import CHUNK, GIB, KIB, MIB, Programs, Sample
from .turns import Row, Side, at_least, at_most, compare, median, number, print_row, spread, take_turns

SMALL = 4 * KIB
DEEP = (16, 16)
WINDOWS = (12, 16)


def against_iperf(programs: Programs, pairs: int, label: str, connections: int, sockets: int, goal: float) -> None:
    """iperf3 has one buffer per stream, which a cache holds; the control has as many as tcpxctl, so it shares that
    limit."""
    total, streams = programs.bytes(GIB), connections * sockets
    everything = programs.iterations * total
    env = {"NCCL_NSOCKS_PERTHREAD": str(sockets)}
    ours = Side("tcpxctl", lambda: programs.transfer(connections, total=total, env=env))
    iperf3 = Side("iperf3", lambda: programs.iperf(streams, everything))
    buffers = max(1, WINDOWS[1] // sockets)
    control = Side("control", lambda: programs.control_transfer(streams, everything, buffers=buffers))
    mine, theirs, controls = take_turns(pairs, [ours, iperf3, control])
    print_row(label, (ours.name, mine), (iperf3.name, theirs), Row("gb_per_s", at_least(goal)))
    print_row(label, (control.name, controls), (iperf3.name, theirs), Row("gb_per_s", None))
    print_row(label, (ours.name, mine), (control.name, controls), Row("gb_per_s", None))


def iperf_sockets(programs: Programs, pairs: int) -> None:
    """Soft plugin over iperf3, beside the control: sockets of one connection, 512 KiB chunks, verify off"""
    for sockets in (1, 2, 4, 8):
        against_iperf(programs, pairs, f"sockets {sockets}", 1, sockets, 1.0)


def iperf_connections(programs: Programs, pairs: int) -> None:
    """Soft plugin over iperf3, beside the control: connections, 512 KiB chunks, verify off"""
    for connections, goal in ((1, 0.95), (2, 1.0), (4, 1.0), (8, 1.0)):
        against_iperf(programs, pairs, f"connections {connections}", connections, 1, goal)


def control(programs: Programs, pairs: int) -> None:
    """Soft plugin over blocking sockets with the same streams and buffers, 512 KiB, verify off, one interval"""
    # Each end of an iteration waits for the slowest channel, so both sides have one end.
    total = programs.iterations * programs.bytes(GIB)
    goal = at_least(0.95) if os.cpu_count() >= 16 else None
    for connections in (1, 2, 4, 8, 16):
        compare(
            pairs, f"connections {connections}",
            Side("tcpxctl", lambda: programs.transfer(connections, total=total, iterations=1)),
            Side("control", lambda: programs.control_transfer(connections, total)),
            Row("gb_per_s", goal),
        )


def iterations(programs: Programs, pairs: int) -> None:
    """What barriers cost: iterations over one iteration of as many bytes, 512 KiB chunks, verify off"""
    total = programs.bytes(4 * GIB, 16 * MIB)
    for connections in (1, 4, 8):
        for count in (4, 64):
            compare(
                pairs, f"connections {connections}, {count} iterations",
                Side("several", lambda: programs.transfer(connections, total=total // count, iterations=count)),
                Side("one", lambda: programs.transfer(connections, total=total, iterations=1)),
                Row("gb_per_s", None),
            )


def control_over_itself(programs: Programs, pairs: int, name: str, other: str, **how: str) -> None:
    """The C control with options over the one without, 512 KiB chunks; no goal"""
    total = programs.iterations * programs.bytes(GIB)
    for connections in (1, 2, 4, 8, 16):
        compare(
            pairs, f"connections {connections}",
            Side(name, lambda: programs.control_transfer(connections, total, **how)),
            Side(other, lambda: programs.control_transfer(connections, total)),
            Row("gb_per_s", None),
        )


def control_polls(programs: Programs, pairs: int) -> None:
    """What polling costs plain sockets, which the callers of a plugin cannot avoid: the control, 512 KiB chunks"""
    control_over_itself(programs, pairs, "polling", "blocking", wait="poll")


def control_verify(programs: Programs, pairs: int) -> None:
    """What writing and comparing every byte costs plain sockets: the control, 512 KiB chunks"""
    control_over_itself(programs, pairs, "verified", "any bytes", data="verified")


def verify(programs: Programs, pairs: int) -> None:
    """Verify on over verify off, 512 KiB chunks"""
    for connections in (1, 2, 4, 8, 16):
        # Verification on two cores takes a share of what moves bytes.
        goal = 0.85 if os.cpu_count() >= 16 or connections >= 8 else 0.9
        compare(
            pairs, f"connections {connections}",
            Side("verified", lambda: programs.transfer(connections, verify=True)),
            Side("unverified", lambda: programs.transfer(connections)),
            Row("gb_per_s", at_least(goal)),
        )


def idle(programs: Programs, pairs: int) -> None:
    """Idle strategies: the default over the best, 512 KiB chunks, verify off"""
    plugins = (("soft inline", "soft", {}), ("soft helper", "soft", {"TCPXSOFT_IO": "helper"}),
               ("strict.c", programs.strict, {}))
    for name, plugin, env in plugins:
        for connections in (1, 4):
            idle_strategies(programs, pairs, f"{name}, connections {connections}", connections, plugin, env)
    system = read("/proc/sys/net/ipv4/tcp_congestion_control")
    print(f"  (strict.c has no congestion setting: its rows ran with the system default, {system})")


def idle_strategies(programs: Programs, pairs: int, label: str, connections: int, plugin: str,
                    env: dict[str, str]) -> None:
    # Fewer bytes: a strategy that does not suit a plugin is many times slower.
    total = programs.bytes(256 * MIB)

    def side(strategy: str) -> Side:
        measure = lambda: programs.transfer(connections, total=total, idle=strategy, plugin=plugin, env=env)
        return Side(strategy, measure)

    strategies = ("adaptive", "spin", "yield", "sleep:50us")
    samples = dict(zip(strategies, take_turns(pairs, [side(strategy) for strategy in strategies])))
    rates = {strategy: median(taken, "gb_per_s") for strategy, taken in samples.items()}
    best = max(rates, key=rates.__getitem__)
    ratios = [ours["gb_per_s"] / theirs["gb_per_s"] for ours, theirs in zip(samples["adaptive"], samples[best])]
    middle = statistics.median(ratios)
    print(f"  {label}: " + ", ".join(f"{strategy} {number(rate)}" for strategy, rate in rates.items())
          + f" GB/s, adaptive / {best} {middle:.3f} {spread(ratios)}  {at_least(0.9).judge(middle)}", flush=True)


def engine(programs: Programs, pairs: int) -> None:
    """Engine and tap over the bare driver: same plugin, windows and idle strategy, one connection"""
    for label, chunk, windows, full, row in (
        ("4 KiB, depth 16", SMALL, DEEP, 512 * MIB, Row("ns_per_request", at_most(100), is_difference=True)),
        ("512 KiB", CHUNK, WINDOWS, GIB, Row("gb_per_s", at_least(0.99))),
    ):
        total = programs.bytes(full)
        compare(
            pairs, label,
            Side("tcpxctl", lambda: programs.transfer(1, chunk=chunk, total=total, windows=windows)),
            Side("bare", lambda: programs.bare_transfer(chunk, programs.iterations * total, windows)),
            row,
        )


def small(programs: Programs, pairs: int) -> None:
    """Small messages: 64 B, 1 KiB and 4 KiB, depth 16, one connection"""
    for size, goal in ((64, at_least(3)), (KIB, None), (SMALL, None)):
        # A write per message is several times slower, so fewer messages take as long.
        count = programs.bytes(1_000_000, 20_000)
        compare(pairs, f"{size} B over blocking sockets with one write per message",
                Side("tcpxctl", lambda: programs.transfer(1, chunk=size, total=count * size, windows=DEEP)),
                Side("control", lambda: programs.control_messages(size, count)),
                Row("messages_per_s", goal))
    total = programs.bytes(512 * MIB)
    everything = programs.iterations * total
    ours = Side("tcpxctl", lambda: programs.transfer(1, chunk=SMALL, total=total, windows=DEEP))
    compare(pairs, "4 KiB over the bare driver", ours,
            Side("bare", lambda: programs.bare_transfer(SMALL, everything, DEEP)),
            Row("messages_per_s", at_least(0.95)))
    compare(pairs, "4 KiB over iperf3 -l 4K", ours,
            Side("iperf3", lambda: programs.iperf(1, everything, SMALL)),
            Row("messages_per_s", at_least(1.5)))


def round_trip(programs: Programs, pairs: int) -> None:
    """Round trip at depth 1, 4 KiB, over blocking sockets"""
    count = programs.bytes(10_000, 200)
    everything = programs.iterations * count
    theirs = Side("control", lambda: programs.control_round_trips(SMALL, everything))

    def engine_trips() -> Sample:
        return programs.transfer(1, chunk=SMALL, total=count * SMALL, windows=(1, 1), direction="ping-pong")

    compare(pairs, "engine", Side("tcpxctl", engine_trips), theirs,
            Row("p50_ns", at_most(1.1)), Row("p99_ns", at_most(3)))
    compare(pairs, "bare driver", Side("bare", lambda: programs.bare_round_trips(SMALL, everything)), theirs,
            Row("p50_ns", None), Row("p99_ns", None))


def memory(programs: Programs, _pairs: int) -> None:
    """Resident memory of the workers, verify on"""
    sample = programs.transfer(4, verify=True, iterations=1)
    for role in ("send", "recv"):
        resident, registered = (sample[f"{role}_{what}"] / MIB for what in ("resident", "registered"))
        beyond = resident - registered
        print(f"  connections 4, 512 KiB, {role}: {number(resident)} MiB resident, "
              f"{number(registered)} MiB registered, {number(beyond)} MiB beyond  {at_most(48).judge(beyond)}")
    counts, chunk = (4, 64, 256), programs.bytes(64 * KIB, 4 * KIB)
    samples = [programs.transfer(count, chunk=chunk, total=16 * count * chunk, verify=True, iterations=1)
               for count in counts]
    for role in ("send", "recv"):
        resident = [sample[f"{role}_resident"] / MIB for sample in samples]
        first, second = ((resident[at + 1] - resident[at]) / (counts[at + 1] - counts[at]) for at in (0, 1))
        # Linear growth is 1; the tenth allows for rounding up to pages and powers of two.
        print(f"  growth, {chunk // KIB} KiB, {role}: "
              + ", ".join(f"{count} channels {number(size)} MiB" for count, size in zip(counts, resident))
              + f"; per channel {first:.3f}, then {second:.3f} MiB, ratio {second / first:.3f}  "
              + at_most(1.1).judge(second / first), flush=True)


def channels(programs: Programs, pairs: int) -> None:
    """Cost per message at 256 channels over 4: 4 KiB, depth 16"""
    total = programs.bytes(512 * MIB)

    def side(count: int) -> Side:
        measure = lambda: programs.transfer(count, chunk=SMALL, total=total, windows=DEEP)
        return Side(f"{count} channels", measure)

    def streams(count: int) -> Side:
        return Side(f"{count} streams", lambda: programs.control_transfer(count, total, SMALL))

    compare(pairs, "cost", side(256), side(4), Row("ns_per_request", at_most(1.1)))
    # The same memory and as many sockets, without a plugin: what the machine itself costs.
    compare(pairs, "the control's", streams(256), streams(4), Row("ns_per_request", None))


def discover(programs: Programs, pairs: int) -> None:
    """Time of `tcpxctl discover --plugin soft`"""
    def once() -> float:
        started = time.monotonic()
        programs.processes.run([programs.tcpxctl, "discover", "--plugin", "soft"], programs.env)
        return (time.monotonic() - started) * 1e3

    print_times([once() for _ in range(pairs)], 50)


def fixed(programs: Programs, pairs: int) -> None:
    """Fixed cost of a local `run`: wall time of a 4 KiB transfer minus the transfer itself"""
    samples = [programs.transfer(1, chunk=SMALL, total=SMALL, iterations=1) for _ in range(pairs)]
    times = [(sample["wall"] - sample["seconds"]) * 1e3 for sample in samples]
    print_times(times, 400, "  (the soft plugin has no fixed waits unless TCPXSOFT_WAITS=real)")


def print_times(milliseconds: list[float], most: float, remark: str = "") -> None:
    middle = statistics.median(milliseconds)
    print(f"  {number(middle)} ms {spread(milliseconds)}  {at_most(most).judge(middle)}{remark}", flush=True)


def cpu(programs: Programs, _pairs: int) -> None:
    """CPU of coordinator and agents while their workers run scenarios/4conn.toml"""
    seconds = 1.0 if programs.is_smoke else 8.0
    run = programs.start_endless_run()
    try:
        watched = dict(zip(("coordinator", "one agent", "the other"), (run.pid, *agents_of_busy_workers(run))))
        before, started = [cpu_ticks(pid) for pid in watched.values()], time.monotonic()
        time.sleep(seconds)
        after, elapsed = [cpu_ticks(pid) for pid in watched.values()], time.monotonic() - started
    finally:
        programs.processes.stop(run)
        programs.forget_reports()
    for name, first, last in zip(watched, before, after):
        share = 100 * (last - first) / os.sysconf("SC_CLK_TCK") / elapsed
        print(f"  {name}: {share:.2f} % of a core over {elapsed:.1f} s  {at_most(1).judge(share)}")


def agents_of_busy_workers(run: subprocess.Popen) -> list[int]:
    """The ids of the two agents, once each has a worker with 20 ticks of CPU time."""
    deadline = time.monotonic() + 20
    while run.poll() is None and time.monotonic() < deadline:
        agents = children(run.pid)
        workers = [worker for agent in agents for worker in children(agent)]
        # A process may end between the listing and the read.
        with contextlib.suppress(OSError):
            if len(agents) == len(workers) == 2 and all(cpu_ticks(worker) >= 20 for worker in workers):
                return agents
        time.sleep(0.05)
    raise Failed("the workers did not use 20 ticks of CPU time within 20 s")


def tap_calls(programs: Programs, _pairs: int) -> None:
    """Cost that the tap adds to a call, on a plugin that does nothing (examples/tap_cost.rs)"""
    lines = programs.processes.run([programs.tap_cost]).splitlines()
    for line in lines:
        words = line.split()
        if line.startswith("#") or len(words) < 6:
            continue
        channels, is_test, (added, least) = int(words[0]), "not-done" in words, map(float, words[-2:])
        # The other calls are a finished test and the following post: two state changes.
        call, changes, most = ("not-done test", 1, 5) if is_test else ("state change", 2, 25 if channels < 16 else 50)
        if "alone" in words:
            print(f"  channels {channels}, the same stores alone: {added / changes:.2f} ns, least {least / changes:.2f}")
            continue
        print(f"  channels {channels}, {call}: {added / changes:.2f} ns, least {least / changes:.2f}  "
              f"{at_most(most).judge(added / changes)}")
    print(f"  ({lines[-1].lstrip('# ')})", flush=True)


def shim(programs: Programs, _pairs: int) -> None:
    """Cost that a version's shim adds to a request, on a plugin that does nothing (examples/shim_cost.rs)"""
    for line in programs.processes.run([programs.shim_cost]).splitlines():
        if not line.startswith("#"):
            version, _table, _net, added, least = line.split()
            print(f"  v{version}: {float(added):.2f} ns, least {float(least):.2f}  {at_most(10).judge(float(added))}",
                  flush=True)


def tap(programs: Programs, pairs: int) -> None:
    """The bare driver over the soft plugin, with the tap over without it"""
    for label, chunk, windows, full, channels in (("512 KiB", CHUNK, WINDOWS, GIB, 1),
                                                  ("512 KiB, channels 4", CHUNK, WINDOWS, GIB, 4),
                                                  ("4 KiB, depth 16", SMALL, DEEP, 512 * MIB, 1)):
        # Short runs: the difference is a few per cent, so more pairs help more than longer runs.
        total = programs.bytes(full)

        def side(name: str, tapped: bool) -> Side:
            return Side(name, lambda: programs.bare_transfer(chunk, total, windows, channels, tapped))

        compare(pairs, label, side("tapped", True), side("bare", False),
                Row("gb_per_s", at_least(0.99) if chunk == CHUNK else None))
    programs.forget_recordings()


def attached(programs: Programs, pairs: int) -> None:
    """The tapped bare driver with a reader of the recorder at 30 Hz, over without a reader"""
    total = programs.bytes(GIB)

    def followed() -> Sample:
        with programs.followed(30):
            return programs.bare_transfer(CHUNK, total, WINDOWS, 4, True)

    compare(pairs, "512 KiB, channels 4", Side("read", followed),
            Side("alone", lambda: programs.bare_transfer(CHUNK, total, WINDOWS, 4, True)),
            Row("gb_per_s", at_least(0.99)))
    programs.forget_recordings()


def recorder_memory(programs: Programs, _pairs: int) -> None:
    """Memory of a recorder file: at most 4 MiB plus 64 KiB per channel"""
    for channels in (4, 64):
        programs.bare_transfer(SMALL, channels * 4096 * SMALL, DEEP, channels, True)
        held = [path.stat().st_blocks * 512 for path in programs.recorder_files()]
        most = 4 * MIB + 64 * KIB * channels
        print(f"  channels {channels}: {', '.join(f'{size / MIB:.2f}' for size in held)} MiB  "
              f"{at_most(most / MIB).judge(max(held) / MIB)}", flush=True)
    programs.forget_recordings()


def export(programs: Programs, pairs: int) -> None:
    """Time of `tcpxctl trace --format perfetto` over a million events"""
    programs.forget_reports()
    full = {"transfer.connections": 8, "transfer.chunk": SMALL, "transfer.total": programs.bytes(512 * MIB),
            "transfer.warmup": 0, "transfer.iterations": 5, "transfer.send_window": 16}
    command = programs.run_command("soft", full, {"TCPXTAP_RING_EVENTS": str(1 << 16)})
    programs.processes.run(command, programs.env)
    run = next((programs.folder / "reports").iterdir())
    for form in ("perfetto", "csv", "jsonl"):
        out = programs.folder / f"trace.{form}"
        times, document = [], {}
        for _ in range(pairs):
            started = time.monotonic()
            command = [programs.tcpxctl, "trace", str(run), "--format", form, "--out", str(out), "--json"]
            document = json.loads(programs.processes.run(command))
            times.append((time.monotonic() - started) * 1e3)
        print_times(times, 2000, f"  {form}: {document['events']} events, {out.stat().st_size / MIB:.0f} MiB")
    programs.forget_reports()


COMPARISONS: dict[str, Callable[[Programs, int], None]] = {
    "iperf-sockets": iperf_sockets, "iperf-connections": iperf_connections, "control": control,
    "control-polls": control_polls, "control-verify": control_verify, "iterations": iterations, "verify": verify,
    "idle": idle, "engine": engine, "small": small, "round-trip": round_trip, "memory": memory, "channels": channels,
    "discover": discover, "fixed": fixed, "cpu": cpu, "shim": shim, "tap-calls": tap_calls, "tap": tap,
    "attached": attached, "recorder-memory": recorder_memory, "export": export, **nodes.COMPARISONS,
    **endpoints.COMPARISONS, **gpus.COMPARISONS, **logs.COMPARISONS,
}
