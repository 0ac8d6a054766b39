"""benches/endpoint.c in Python, for the modes that move bytes: `scripts/bench` starts two."""

import argparse
import mmap
import os
import pathlib
import sys
import time

from tcpxctl import p2p

WAIT_S = 120.0
# Long, because the serving end looks while the bytes move, and a look in Python costs ten of those in C.
LOOK_EVERY_S = 0.02

parser = argparse.ArgumentParser()
parser.add_argument("end", choices=["serve", "drive"])
parser.add_argument("--folder", type=pathlib.Path, required=True)
parser.add_argument("--mode", choices=["read", "write", "send"], default="read")
for name, value in (("size", 1 << 20), ("depth", 1), ("count", 1), ("lanes", 4)):
    parser.add_argument(f"--{name}", type=int, default=value)
options = parser.parse_args()


def publish(name: str, content: bytes) -> None:
    part = options.folder / "part"
    part.write_bytes(content)
    part.rename(options.folder / name)


def wait_for(name: str) -> bytes:
    until = time.monotonic() + WAIT_S
    while not (options.folder / name).exists():
        if time.monotonic() > until:
            sys.exit(f"no {name}")
        time.sleep(LOOK_EVERY_S)
    return (options.folder / name).read_bytes()


def in_flight(begin) -> None:
    """`count` operations, `depth` at a time."""
    pending = []
    for at in range(options.count + options.depth):
        if at >= options.depth:
            pending.pop(0).wait(WAIT_S)
        if at < options.count:
            pending.append(begin())


endpoint = p2p.Endpoint(name=options.end, plugin=os.environ["BENCH_PLUGIN"], address="127.0.0.1", lanes=options.lanes)
# Private, as the memory of malloc in endpoint.c: shared memory has no huge pages.
buffer = mmap.mmap(-1, options.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
buffer[:] = b"\1" * options.size
memory = endpoint.register(buffer)
if options.end == "serve":
    publish("blob", memory.advertise())
    publish("metadata", endpoint.metadata)
    if options.mode == "send":
        connection = endpoint.accept_connection(WAIT_S)
        connection.receive_async(memory).wait(WAIT_S)
        in_flight(lambda: connection.receive_async(memory))
    wait_for("over")
else:
    connection, blob = endpoint.connect_to(wait_for("metadata")), wait_for("blob")
    begins = {
        "read": lambda: connection.read_async(memory, blob),
        "write": lambda: connection.write_async(memory, blob),
        "send": lambda: connection.send_async(memory),
    }
    begin = begins[options.mode]
    # Not timed, as in endpoint.c.
    begin().wait(WAIT_S)
    start = time.monotonic()
    in_flight(begin)
    seconds = time.monotonic() - start
    moved = options.size * options.count
    print(f"gb_per_s={moved / 1e9 / seconds} messages_per_s={options.count / seconds}")
    publish("over", b"over")
