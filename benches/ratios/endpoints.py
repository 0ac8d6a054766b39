"""Endpoints (`libtcpxp2p.so`, and the Python package) compared with `tcpxctl run` and with each other."""

import os
import shutil
import tempfile
from typing import Callable

from .programs import CHUNK, GIB, KIB, MIB, Programs, Sample, Skipped, numbers
from .turns import Row, Side, at_least, at_most, compare, print_row, take_turns

LANES = 4
LARGE = 64 * MIB
# Messages of an endpoint that are in flight.
IN_FLIGHT = 2
PYTHON = "python"
# A network of its own, in which ended connections keep few ports.
PORTS = """ip link set lo up
echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range
echo 512 > /proc/sys/net/ipv4/tcp_max_tw_buckets"""


def two(programs: Programs, mode: str, size: int, count: int, *, pieces: int = 1, gap: int = 0, depth: int = 1,
        lanes: int = LANES, memory: int = 0, language: str = "c") -> Sample:
    """Two processes with an endpoint each; the numbers of the one that operates."""
    command = programs.endpoint(language)
    flags = {"mode": mode, "size": size, "count": count, "depth": depth, "lanes": lanes}
    if language != PYTHON:
        flags |= {"pieces": pieces, "gap": gap, "memory": memory}
    env = {**programs.env, **programs.plugin_env, **programs.endpoint_env}
    with tempfile.TemporaryDirectory(dir=programs.folder) as folder:
        words = [word for flag, value in {"folder": folder, **flags}.items() for word in (f"--{flag}", str(value))]
        ends = [programs.processes.start([*command, end, *words], env) for end in ("serve", "drive")]
        output = [programs.processes.finish(end) for end in reversed(ends)][0]
    return numbers(output)


def connections(programs: Programs) -> tuple[int, ...]:
    return (LANES,) if programs.is_smoke else (1, LANES, 8)


def count_of(programs: Programs, size: int, total: int) -> int:
    return max(programs.bytes(total) // size, 1)


def large(programs: Programs, pairs: int) -> None:
    """Endpoints over `tcpxctl run` with as many connections, and over plain sockets: 64 MiB, two in flight, verify off"""
    # A run goes round in 8 MiB per connection, which a cache holds, and an endpoint in its program's buffer: what that
    # costs is shown by a run and by plain sockets in as much memory, in the same turns. The connections of a run need not
    # keep pace, while those of an endpoint share every message: that is shown by a run that ends an iteration where an
    # endpoint's two messages end. Last, an endpoint whose buffer's addresses are mapped to 8 MiB per connection again
    # and again: the same messages in as much memory as the usual run.
    total = programs.bytes(8 * GIB, IN_FLIGHT * LARGE)
    count = total // LARGE
    goals = {"send": 0.95, "read": 0.9, "write": 0.9}
    for lanes in connections(programs):
        own = LARGE // lanes // 16

        def run(label: str, chunk: int, windows: tuple[int, int], iteration: int = total // 2) -> Side:
            return Side(f"tcpxctl run{label}", lambda: programs.transfer(
                lanes, chunk=chunk, windows=windows, total=iteration, iterations=total // iteration))

        def plain(label: str, buffers: int) -> Side:
            return Side(f"plain sockets in {label}", lambda: programs.control_transfer(lanes, total, buffers=buffers))

        def endpoint(mode: str) -> Side:
            return Side("endpoint", lambda: two(programs, mode, LARGE, count, depth=IN_FLIGHT, lanes=lanes))

        def in_little(mode: str) -> Side:
            return Side("endpoint in 8 MiB each", lambda: two(programs, mode, LARGE, count, depth=IN_FLIGHT, lanes=lanes,
                                                         memory=lanes * 8 * MIB))

        usual, same = run("", CHUNK, (12, 16)), run(" in 64 MiB", own, (16, 16))
        paced = run(" in 64 MiB, paced", own, (16, 16), IN_FLIGHT * LARGE)
        few, as_much = plain("8 MiB each", 8 * MIB // CHUNK), plain("64 MiB", LARGE // CHUNK // lanes)
        sides = [usual, same, paced, few, as_much, *map(endpoint, goals), *map(in_little, goals)]
        little = [f"{mode} in 8 MiB each" for mode in goals]
        taken = dict(zip([*"usual same paced few as_much".split(), *goals, *little],
                         zip((side.name for side in sides), take_turns(pairs, sides))))
        print_row(f"what memory costs, {lanes} connections", taken["as_much"], taken["few"], Row("gb_per_s", None))
        print_row(f"what pace costs, {lanes} connections", taken["paced"], taken["same"], Row("gb_per_s", None))
        for mode, goal in goals.items():
            for other in ("usual", "same", "paced", "as_much"):
                print_row(f"{mode}, {lanes} connections", taken[mode], taken[other], Row("gb_per_s", at_least(goal)))
            print_row(f"{mode} in 8 MiB each, {lanes} connections", taken[f"{mode} in 8 MiB each"], taken["usual"],
                      Row("gb_per_s", at_least(goal)))


def small(programs: Programs, pairs: int) -> None:
    """Reads of 4 KiB over the engine: latency of one, and rate of 64 in flight"""
    count = count_of(programs, 4 * KIB, 128 * MIB)
    compare(pairs, "depth 1", Side("read", lambda: two(programs, "read", 4 * KIB, count, lanes=1)),
            Side("engine's round trip", lambda: programs.bare_round_trips(4 * KIB, count)),
            Row("p50_ns", at_most(2)))
    engine = Side("tcpxctl run", lambda: programs.transfer(1, chunk=4 * KIB, total=programs.bytes(512 * MIB),
                                                           windows=(16, 16)))
    compare(pairs, "depth 64", Side("read", lambda: two(programs, "read", 4 * KIB, 8 * count, depth=64, lanes=1)),
            engine, Row("messages_per_s", at_least(0.5)))


def vector(programs: Programs, pairs: int) -> None:
    """256 pages of 64 KiB in one vector over one message of 16 MiB"""
    count = count_of(programs, 16 * MIB, 2 * GIB)
    for lanes in connections(programs):
        for label, gap in (("in a row", 0), ("scattered", 4 * KIB)):
            compare(pairs, f"read of pages {label}, {lanes} connections",
                    Side("256 x 64 KiB",
                         lambda: two(programs, "read", 64 * KIB, count, pieces=256, gap=gap, lanes=lanes)),
                    Side("16 MiB", lambda: two(programs, "read", 16 * MIB, count, lanes=lanes)),
                    Row("gb_per_s", at_least(0.8)))


def python(programs: Programs, pairs: int) -> None:
    """Endpoints from Python over those from C"""
    for size in (MIB, 16 * MIB):
        count = count_of(programs, size, 2 * GIB)
        for mode in ("read", "send"):
            compare(pairs, f"{mode} of {size // MIB} MiB",
                    Side("Python", lambda: two(programs, mode, size, count, depth=2, language=PYTHON)),
                    Side("C", lambda: two(programs, mode, size, count, depth=2)), Row("gb_per_s", at_least(0.98)))


def life(programs: Programs, _pairs: int) -> None:
    """What connections and registrations leave: 10 000 connects and closes, 100 000 registrations"""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise Skipped("needs root and unshare: each connection leaves ports in TIME_WAIT, more than a machine has")
    count = 20 if programs.is_smoke else 10_000
    with tempfile.TemporaryDirectory(dir=programs.folder) as folder:
        words = f"--folder {folder} --mode life --size {64 * KIB} --count {count} --lanes {LANES}"
        both = f'"$0" serve {words} & "$0" drive {words} && wait $!'
        output = programs.processes.run(["unshare", "--net", "sh", "-ec", f"{PORTS}\n{both}", *programs.endpoint("c")],
                                        {**programs.env, **programs.plugin_env, **programs.endpoint_env}, seconds=600)
    left = numbers(output)
    bytes_left, descriptors = left["more_bytes"] / MIB, left["more_descriptors"]
    print(f"  {left['seconds']:.0f} s, {bytes_left:.2f} MiB more {at_most(1).judge(bytes_left)}, "
          f"{descriptors:.0f} descriptors more {at_most(0).judge(descriptors)}", flush=True)


COMPARISONS: dict[str, Callable[[Programs, int], None]] = {
    "endpoint": large, "endpoint-small": small, "endpoint-vector": vector,
    "endpoint-python": python, "endpoint-life": life,
}
