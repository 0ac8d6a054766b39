"""Endpoints that break one promise each, and the row of `selftest --endpoint` that finds it."""

import ctypes
import os
import threading
import time

from honest import Endpoint as Honest

LATE = 0.2


class DoneTooEarly(Honest):
    """A read is done when its answer begins to arrive; the bytes follow."""

    row = "read-done"

    def _land(self, places, body):
        later = threading.Timer(LATE, super()._land, (places, body))
        later.daemon = True
        later.start()


class WriteDoneTooEarly(Honest):
    """A write is answered before it is stored."""

    row = "write-done"

    def _on_write(self, number, conn, head, body):
        if head["sizes"] != [70001]:
            return super()._on_write(number, conn, head, body)
        conn.write({"kind": "answer", "of": head["of"], "error": ""})
        time.sleep(LATE)
        with self.lock:
            self._store(self._range(bytes.fromhex(head["blobs"][0]), 70001), body)


class DoneNever(Honest):
    """The last of many operations in flight is forgotten."""

    row = "many-in-flight"

    def _on_answer(self, number, conn, head, body):
        if len(self.states) == 256 and head["of"] == max(self.states):
            return
        super()._on_answer(number, conn, head, body)


class WrongOffset(Honest):
    """Where a range begins inside its registration is forgotten."""

    row = "inside"

    def _place(self, address, mr):
        return self.memory[mr][0]


class ShiftedPiece(Honest):
    """The pieces of a vector change places."""

    row = "vectors"

    def _land(self, places, body):
        super()._land(places[::-1], body)


class LostNotification(Honest):
    row = "notifications"

    def _on_notify(self, number, conn, head, body):
        if body.endswith(b"7"):
            return conn.write({"kind": "answer", "of": head["of"], "error": ""})
        super()._on_notify(number, conn, head, body)


class Leak(Honest):
    """The socket of a connection that ended is kept."""

    row = "descriptors"
    kept = []

    def _ended(self, number, conn):
        self.kept.append(os.dup(conn.stream.fileno()))
        super()._ended(number, conn)


class Unchecked(Honest):
    """Any address of a registration is believed."""

    row = "wrong-address"

    def _is_mine(self, blob):
        address = ctypes.c_uint64.from_buffer_copy(blob).value
        return any(start <= address < start + size for start, size in self.memory.values())


class OneTooMany(Honest):
    """The end of a range is not looked at."""

    row = "past-the-end"

    def _is_inside(self, size, allowed):
        return True


class StaysAdvertised(Honest):
    """A removed registration can still be read by its blob."""

    row = "dereg-ends"

    def __init__(self):
        super().__init__()
        self.removed = {}

    def dereg(self, mr):
        with self.lock:
            self.removed[mr] = self.memory.get(mr)
            return super().dereg(mr)

    def _on_read(self, *arguments):
        with self.lock:
            there = self.memory
            self.memory = {**self.removed, **there}
            super()._on_read(*arguments)
            self.memory = there


class Aligned(Honest):
    """Odd addresses are rounded down."""

    row = "unaligned"

    def _place(self, address, mr):
        return address & ~7


class Mixed(Honest):
    """What the second connection reads lands where the first one reads to."""

    row = "two-connections"

    def __init__(self):
        super().__init__()
        self.places = {}

    def _begin(self, number, kind, places=(), *rest, **named):
        self.places.setdefault(number, places)
        return super()._begin(number, kind, places, *rest, **named)

    def _on_answer(self, number, conn, head, body):
        first = min(self.conns)
        if number != first and first in self.places:
            _, _, kind = self.transfers[head["of"]]
            self.transfers[head["of"]] = number, self.places[first], kind
        super()._on_answer(number, conn, head, body)


class StaleSend(Honest):
    """A send carries the bytes of the one before."""

    row = "send-receive"
    last = b""

    def _on_send(self, number, conn, head, body):
        stale = self.last.ljust(len(body), b"\0")[: len(body)]
        self.last = body
        super()._on_send(number, conn, head, stale)


class CachedRegistration(Honest):
    """The second registration of a range ends with the first one."""

    row = "registration-reuse"

    def reg(self, address, size):
        for mr, known in self.memory.items():
            if known == (address, size):
                return True, mr
        return super().reg(address, size)


class HangsOnZero(Honest):
    """An operation of no bytes is never done."""

    row = "size-zero"

    def _on_answer(self, number, conn, head, body):
        _, places, kind = self.transfers[head["of"]]
        if kind == "read" and sum(size for _, size in places) == 0:
            return
        super()._on_answer(number, conn, head, body)


class WaitsForTheDead(Honest):
    """Operations on a connection that ended are not ended."""

    row = "peer-killed"

    def _finish(self, transfer, error):
        if error != "the peer is gone":
            super()._finish(transfer, error)


class CachedReads(Honest):
    """A range that was read is not read again while it is small enough to remember."""

    row = "order"

    def readv_async(self, conn, mrs, addresses, sizes, blobs, count):
        known = self.__dict__.setdefault("known", {})
        if sizes == [1 << 20] and count == 1 and blobs[0] in known and self.wrote(blobs[0]):
            self._store(addresses[0], known[blobs[0]])
            transfer = next(self.numbers)
            self.states[transfer] = ""
            return True, transfer
        begun = super().readv_async(conn, mrs, addresses, sizes, blobs, count)
        if sizes == [1 << 20] and count == 1 and self.wrote(blobs[0]):
            self._wait(begun)
            known[blobs[0]] = self._load(addresses[0], sizes[0])
        return begun

    def writev_async(self, conn, mrs, addresses, sizes, blobs, count):
        self.__dict__.setdefault("written", set()).add(blobs[0])
        return super().writev_async(conn, mrs, addresses, sizes, blobs, count)

    def wrote(self, blob):
        return blob in self.__dict__.get("written", set())


class UsesRemovedMemory(Honest):
    """The last write before dereg is stored again and again after it."""

    row = "removal"
    last = None

    def _on_write(self, number, conn, head, body):
        super()._on_write(number, conn, head, body)
        with self.lock:
            # As large as in that row, whose memory stays mapped.
            if len(body) == 8 << 20:
                blob = bytes.fromhex(head["blobs"][0])
                self.last = ctypes.c_uint64.from_buffer_copy(blob).value, body[:64]

    def dereg(self, mr):
        ended = super().dereg(mr)
        threading.Thread(target=self._again, daemon=True).start()
        return ended

    def _again(self):
        for _ in range(100):
            time.sleep(LATE / 10)
            if self.last and not self.memory:
                self._store(*self.last)


DOUBLES = [one for one in list(vars().values()) if isinstance(one, type) and one.__module__ == __name__]
