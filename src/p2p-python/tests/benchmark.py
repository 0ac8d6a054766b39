"""A bandwidth benchmark as programs for UCCL are written: it knows `uccl.p2p` only.

    benchmark.py --rank 0 --exchange HOST:PORT --mode write --async-api --num-iovs 4 ...
    benchmark.py --rank 1 --exchange HOST:PORT --mode write --async-api --num-iovs 4 ...

Rank 1 serves memory and rank 0 reads or writes it, or both send and receive. Their metadata and blobs
travel over a TCP connection of their own. Beside the rates, every byte is compared at the end of a size.
"""

import argparse
import ctypes
import socket
import sys
import time

from uccl import p2p


class Exchange:
    """Length-prefixed messages between the two ranks."""

    def __init__(self, rank, place):
        host, port = place.rsplit(":", 1)
        if rank == 1:
            with socket.create_server((host, int(port))) as listener:
                self.peer, _ = listener.accept()
        else:
            self.peer = self.connect(host, int(port))

    @staticmethod
    def connect(host, port):
        until = time.monotonic() + 30
        while True:
            try:
                return socket.create_connection((host, port))
            except ConnectionRefusedError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def send(self, data):
        self.peer.sendall(len(data).to_bytes(4, "little") + data)

    def receive(self):
        return self.exactly(int.from_bytes(self.exactly(4), "little"))

    def exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.peer.recv(size - len(data))
            if not part:
                sys.exit("the other rank ended")
            data += part
        return data

    def barrier(self):
        self.send(b"here")
        self.receive()


class Blocks:
    """`count` registered buffers that together have `size` bytes."""

    def __init__(self, endpoint, size, count, byte):
        each = size // count
        self.count, self.total = count, each * count
        self.buffers = [ctypes.create_string_buffer(bytes([byte]) * each, each) for _ in range(count)]
        self.pointers = [ctypes.addressof(buffer) for buffer in self.buffers]
        self.sizes = [each] * count
        self.registrations = []
        for pointer in self.pointers:
            ok, registration = endpoint.reg(pointer, each)
            assert ok
            self.registrations.append(registration)

    def has(self, byte):
        return all(buffer.raw == bytes([byte]) * len(buffer) for buffer in self.buffers)


def until_done(endpoint, started):
    ok, transfer = started
    assert ok
    done = False
    while not done:
        ok, done = endpoint.poll_async(transfer)
        assert ok


def one_sided(options, endpoint, connection, blocks, blobs):
    name = options.mode + ("" if blocks.count == 1 else "v")
    if blocks.count == 1:
        arguments = (blocks.registrations[0], blocks.pointers[0], blocks.sizes[0], blobs[0])
    else:
        arguments = (blocks.registrations, blocks.pointers, blocks.sizes, blobs, blocks.count)
    if options.async_api:
        until_done(endpoint, getattr(endpoint, name + "_async")(connection, *arguments))
    else:
        assert getattr(endpoint, name)(connection, *arguments)


def two_sided(options, endpoint, connection, blocks):
    name = "send" if options.rank == 0 else "recv"
    if blocks.count > 1:
        arguments = (blocks.registrations, blocks.pointers, blocks.sizes, blocks.count)
        assert getattr(endpoint, name + "v")(connection, *arguments)
        return
    arguments = (blocks.registrations[0], blocks.pointers[0], blocks.sizes[0])
    if options.async_api:
        until_done(endpoint, getattr(endpoint, name + "_async")(connection, *arguments))
    else:
        assert getattr(endpoint, name)(connection, *arguments)


def measure(options, size, total, operate):
    operate()
    start = time.perf_counter()
    for _ in range(options.iters):
        operate()
    elapsed = time.perf_counter() - start
    moved = total * options.iters
    role = "Client" if options.rank == 0 else "Server"
    print(f"[{role}] {size:>10} B : {moved * 8 / elapsed / 1e9:6.2f} Gbps | {moved / elapsed / 1e9:6.2f} GB/s | "
          f"{elapsed / options.iters:6.6f} s", flush=True)


def run(options, endpoint, exchange, connection):
    for size in options.sizes:
        blocks = Blocks(endpoint, size, options.num_iovs, 1 + options.rank)
        if options.mode == "send":
            measure(options, size, blocks.total, lambda: two_sided(options, endpoint, connection, blocks))
            wanted = 1
        elif options.rank == 0:
            blobs = [exchange.receive() for _ in range(options.num_iovs)]
            assert all(len(blob) == 64 for blob in blobs)
            measure(options, size, blocks.total, lambda: one_sided(options, endpoint, connection, blocks, blobs))
            wanted = 2 if options.mode == "read" else 1
        else:
            arguments = (blocks.registrations, blocks.pointers, blocks.sizes, options.num_iovs)
            ok, blobs = endpoint.advertisev(connection, *arguments)
            assert ok
            for blob in blobs:
                exchange.send(blob)
            wanted = 1 if options.mode == "write" else 2
        exchange.barrier()
        if not blocks.has(wanted):
            sys.exit(f"rank {options.rank}, {options.mode} of {size} bytes: wrong bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, choices=[0, 1], required=True)
    parser.add_argument("--exchange", required=True)
    parser.add_argument("--mode", choices=["read", "write", "send"], default="write")
    parser.add_argument("--local-gpu-idx", type=int, default=0)
    parser.add_argument("--num-cpus", type=int, default=4)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[256, 65536, 1 << 20])
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--num-iovs", type=int, default=1)
    parser.add_argument("--async-api", action="store_true")
    options = parser.parse_args()
    endpoint = p2p.Endpoint(options.local_gpu_idx, options.num_cpus)
    exchange = Exchange(options.rank, options.exchange)
    mine = endpoint.get_metadata()
    exchange.send(mine)
    theirs = exchange.receive()
    assert len(theirs) == len(mine)
    if options.rank == 1:
        ok, address, gpu, connection = endpoint.accept()
        assert ok
    else:
        address, port, gpu = p2p.Endpoint.parse_metadata(theirs)
        ok, connection = endpoint.connect(address, gpu, remote_port=port)
        assert ok
    print(f"rank {options.rank}: connected with {address} (GPU {gpu}), connection {connection}", flush=True)
    run(options, endpoint, exchange, connection)
    print(f"rank {options.rank}: complete, every byte compared", flush=True)


if __name__ == "__main__":
    main()
