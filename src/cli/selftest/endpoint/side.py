"""One of the two processes of a row. tcpxctl starts both, gives each its task on stdin, passes on
what one says to the other, and ends them. Standard library only.

A row is two functions of ranges.py or traffic.py: `serve_ROW` in the process that owns the remote memory, and
`drive_ROW` in the one that operates on it, which also judges.
"""

import ctypes
import hashlib
import importlib
import json
import mmap
import os
import queue
import signal
import sys
import threading
import time

CANARY = 0xC5
EDGE = 4096  # bytes on both sides of a range that nobody may touch
SETTLED = 2.0  # seconds after "done" in which rows about other things wait for late bytes


class Broken(Exception):
    """The endpoint does not do what the row requires."""


class NotSupported(Exception):
    """The endpoint lacks the calls, or the machine lacks the means."""


# What the endpoint prints goes to stderr; tcpxctl alone reads this channel.
_CHANNEL = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
_HEARD = queue.Queue()


def tell(**message):
    _CHANNEL.write(json.dumps(message) + "\n")
    _CHANNEL.flush()


def _listen():
    for line in sys.stdin:
        _HEARD.put(json.loads(line))
    # tcpxctl is gone or ends this process, on another node only in this way.
    os.kill(os.getpid(), signal.SIGKILL)


def say(value):
    """To the other process."""
    tell(peer=value.hex() if isinstance(value, (bytes, bytearray)) else value)


def hear():
    """What the other process said. tcpxctl ends a row that takes too long."""
    return _HEARD.get()


def hear_bytes():
    return bytes.fromhex(hear())


class Buffer:
    """A range of `size` bytes with canaries on both sides; `skew` makes its address odd. With a
    `path`, two processes of a node share the bytes."""

    def __init__(self, size, skew=0, path=None):
        self.size, self.start = size, EDGE + skew
        length = self.start + size + EDGE
        if path is None:
            self.map = mmap.mmap(-1, length)
        else:
            with open(path, "a+b") as file:
                file.truncate(length)
                self.map = mmap.mmap(file.fileno(), length)
        self.held = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self.held) + self.start
        self.edges = bytes([CANARY]) * self.start, bytes([CANARY]) * EDGE
        self.map[: self.start], self.map[self.start + size :] = self.edges

    def put(self, content):
        self.map[self.start : self.start + len(content)] = content

    def get(self, start=0, size=None):
        start += self.start
        return self.map[start : start + (self.size if size is None else size)]

    def check_edges(self, where):
        if self.map[: self.start] != self.edges[0] or self.map[self.start + self.size :] != self.edges[1]:
            raise Broken("bytes outside the range changed " + where)


def pattern(seed, size):
    """Bytes that differ at every offset and for every seed."""
    return hashlib.shake_128(str(seed).encode()).digest(size)


def difference(found, wanted, before=None):
    """What is wrong with `found`, in words; None if nothing is."""
    if found == wanted:
        return None
    if len(found) != len(wanted):
        return "%d bytes instead of %d" % (len(found), len(wanted))
    at = next(at for at in range(len(wanted)) if found[at] != wanted[at])
    late = [one == two != three for one, two, three in zip(found, before or found, wanted)].count(True) if before else 0
    if late:
        return "%d of %d bytes were as before, the first at byte %d" % (late, len(wanted), at)
    piece = found[at : at + 16]
    other = wanted.find(piece) if len(piece) == 16 else -1
    if other >= 0:
        return "byte %d holds what belongs to byte %d: shifted by %d" % (at, other, at - other)
    wrong = sum(one != two for one, two in zip(found, wanted))
    return "%d of %d bytes are wrong, the first at byte %d: torn" % (wrong, len(wanted), at)


def settle(found, wanted, what):
    """Waits for bytes that come late, because another row is about those."""
    until = time.monotonic() + SETTLED
    while found() != wanted and time.monotonic() < until:
        time.sleep(0.005)
    wrong = difference(found(), wanted)
    if wrong:
        raise Broken(what + ": " + wrong)


def first_of(call, *variants):
    """Signatures differ between versions: the first that the call takes."""
    for arguments in variants[:-1]:
        try:
            return call(*arguments)
        except TypeError:
            pass
    return call(*variants[-1])


class Side:
    """An endpoint, and the calls of `uccl.p2p` with their results checked."""

    def __init__(self, task):
        self.task, self.patience = task, task["patience"]
        module, _, name = task["endpoint"].partition(":")
        self.kind = getattr(importlib.import_module(module), name or "Endpoint")
        self.endpoint = self.another()

    def another(self):
        return first_of(self.kind, (), (0,), (0, 4))

    def has(self, *calls):
        missing = [call for call in calls if not hasattr(self.endpoint, call)]
        if missing:
            raise NotSupported("the endpoint has no " + " and no ".join(missing))

    def metadata(self):
        call = getattr(self.endpoint, "get_metadata", None) or self.endpoint.get_endpoint_metadata
        return bytes(call())

    def connect(self, metadata):
        ip, port, bdf = self.kind.parse_metadata(metadata)
        return must("connect", self.endpoint.connect(ip, bdf, port))

    def accept(self):
        ok, _, _, conn = self.endpoint.accept()
        if ok is not True:
            raise Broken("accept returned %r" % (ok,))
        return conn

    def meet(self):
        """The connection to the other process, made by the one that drives."""
        if self.task["role"] == "serve":
            say(self.metadata())
            return self.accept()
        return self.connect(hear_bytes())

    def reg(self, address, size):
        return must("reg", first_of(self.endpoint.reg, (address, size), (address, size, 0)))

    def dereg(self, mr):
        if hasattr(self.endpoint, "dereg"):
            must("dereg", (self.endpoint.dereg(mr), None))

    def advertise(self, conn, mr, address, size):
        variants = (mr, address, size), (conn, mr, address, size)
        blob = must("advertise", first_of(self.endpoint.advertise, *variants))
        if not isinstance(blob, bytes) or len(blob) != 64:
            raise Broken("advertise returned %r instead of 64 bytes" % (blob,))
        return blob

    def offer(self, conn, buffer):
        """Registers and advertises a buffer, and tells the other process."""
        mr = self.reg(buffer.address, buffer.size)
        say(self.advertise(conn, mr, buffer.address, buffer.size))
        return mr

    def operate(self, name, *arguments):
        """A blocking call, which must return True."""
        result = getattr(self.endpoint, name)(*arguments)
        if result is not True:
            raise Broken("%s returned %r%s" % (name, result, self.words()))

    def begin(self, name, *arguments):
        return must(name, getattr(self.endpoint, name)(*arguments))

    def finish(self, transfer, what="an operation"):
        """Polls until the transfer is done."""
        until = time.monotonic() + self.patience
        while True:
            ok, done = self.endpoint.poll_async(transfer)
            if not ok:
                raise Broken("%s failed%s" % (what, self.words()))
            if done:
                return
            if time.monotonic() > until:
                raise Broken("%s was not done after %g s" % (what, self.patience))

    def words(self):
        """Why a call failed, where the endpoint says so."""
        words = getattr(self.endpoint, "last_error", "")
        return ": " + words if words else ""

    def refused(self, name, *arguments):
        """Whether the call says that it did nothing, at once or when it is polled."""
        try:
            result = getattr(self.endpoint, name)(*arguments)
        except Exception:
            return True
        if isinstance(result, tuple):
            ok, transfer = result
            until = time.monotonic() + self.patience
            while ok:
                ok, done = self.endpoint.poll_async(transfer)
                if ok and done:
                    return False
                if time.monotonic() > until:
                    raise Broken("%s was neither refused nor done after %g s" % (name, self.patience))
            return True
        return result is False


def must(name, result):
    """The value of `(ok, value)`."""
    ok, value = result
    if ok is not True:
        raise Broken("%s returned %r" % (name, result))
    return value


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def main(task, rows):
    threading.Thread(target=_listen, daemon=True).start()
    try:
        side = Side(task)
    except Exception as error:
        tell(unusable="%s: %s" % (type(error).__name__, error))
        return
    if not task["row"]:
        tell(ready="python %d.%d.%d" % sys.version_info[:3])
        return
    try:
        detail = rows[task["role"] + "_" + task["row"].replace("-", "_")](side)
        tell(verdict="pass", detail=detail or "")
    except NotSupported as reason:
        tell(verdict="skip", detail=str(reason))
    except Broken as reason:
        tell(verdict="fail", detail=str(reason))
    except Exception as error:
        tell(verdict="fail", detail="%s: %s" % (type(error).__name__, error))
    # The other process may still use this one's memory; tcpxctl ends both.
    threading.Event().wait()
