"""An endpoint with the calls of `uccl.p2p` over plain sockets. It keeps every promise of `tcpxctl
selftest --endpoint`, slowly; the classes of doubles.py each break one.
"""

import ctypes
import hashlib
import hmac
import itertools
import json
import os
import queue
import socket
import struct
import threading

_MINE = struct.Struct("<QQQ16s")  # address, size, registration, endpoint; then a MAC of 24 bytes


class Connection:
    """One socket: a thread reads it, several write."""

    def __init__(self, stream):
        self.stream, self.lock = stream, threading.Lock()
        self.offers, self.receives = [], []

    def write(self, head, body=b""):
        text = json.dumps(head).encode()
        with self.lock:
            self.stream.sendall(struct.pack("<IQ", len(text), len(body)) + text + body)

    def read(self):
        text, body = struct.unpack("<IQ", self._exactly(12))
        return json.loads(self._exactly(text)), self._exactly(body)

    def _exactly(self, count):
        parts = bytearray()
        while len(parts) < count:
            part = self.stream.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise ConnectionError("the peer is gone")
            parts += part
        return bytes(parts)

    def end(self):
        try:
            self.stream.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Endpoint:
    def __init__(self, gpu=0):
        self.key, self.number = os.urandom(16), os.urandom(16)
        self.numbers = itertools.count(1)
        self.lock = threading.RLock()
        self.memory = {}  # registration: address, size
        self.conns, self.incoming = {}, queue.Queue()
        self.transfers, self.states, self.notifs = {}, {}, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    # Metadata and connections.

    def get_metadata(self):
        ip, port = self.listener.getsockname()
        return socket.inet_aton(ip) + struct.pack("!H", port) + bytes(4)

    @staticmethod
    def parse_metadata(metadata):
        return socket.inet_ntoa(metadata[:4]), struct.unpack("!H", metadata[4:6])[0], "0"

    def _listen(self):
        while True:
            stream, _ = self.listener.accept()
            self.incoming.put(self._add(stream))

    def _add(self, stream):
        number = next(self.numbers)
        conn = self.conns[number] = Connection(stream)
        threading.Thread(target=self._serve, args=(number, conn), daemon=True).start()
        return number

    def connect(self, ip, bdf, port):
        return True, self._add(socket.create_connection((ip, port)))

    def accept(self):
        return True, "127.0.0.1", 0, self.incoming.get()

    def remove_remote_endpoint(self, number):
        conn = self.conns.pop(number, None)
        if conn:
            conn.end()
        return conn is not None

    # Memory.

    def reg(self, address, size):
        with self.lock:
            mr = next(self.numbers)
            self.memory[mr] = address, size
        return True, mr

    def dereg(self, mr):
        # The thread that serves holds the lock while it copies.
        with self.lock:
            return self.memory.pop(mr, None) is not None

    def _mac(self, mine):
        return hmac.new(self.key, mine, hashlib.sha256).digest()[:24]

    def advertise(self, mr, address, size):
        mine = _MINE.pack(address, size, mr, self.number)
        return True, mine + self._mac(mine)

    def _range(self, blob, size):
        """The address that a peer may use; the lock is held."""
        if len(blob) != 64 or not self._is_mine(blob):
            raise PermissionError("not advertised here")
        address, allowed, mr, _ = _MINE.unpack(blob[:40])
        if mr not in self.memory:
            raise PermissionError("registration removed")
        if not self._is_inside(size, allowed):
            raise PermissionError("outside the range")
        return self._place(address, mr)

    def _is_mine(self, blob):
        return hmac.compare_digest(blob[40:], self._mac(blob[:40]))

    def _is_inside(self, size, allowed):
        return size <= allowed

    def _place(self, address, mr):
        return address

    def _load(self, address, size):
        return bytes((ctypes.c_char * size).from_address(address))

    def _store(self, address, content):
        ctypes.memmove(address, content, len(content))

    # What the peer asks for.

    def _serve(self, number, conn):
        try:
            while True:
                head, body = conn.read()
                getattr(self, "_on_" + head["kind"])(number, conn, head, body)
        except (OSError, ValueError):
            pass
        self._ended(number, conn)

    def _ended(self, number, conn):
        conn.stream.close()
        self.conns.pop(number, None)
        for transfer, (of, *_) in list(self.transfers.items()):
            if of == number:
                self._finish(transfer, "the peer is gone")

    def _on_read(self, number, conn, head, body):
        blobs, sizes, found = head["blobs"], head["sizes"], []
        try:
            for blob, size in zip(blobs, sizes):
                with self.lock:
                    found.append(self._load(self._range(bytes.fromhex(blob), size), size))
        except PermissionError as error:
            return conn.write({"kind": "answer", "of": head["of"], "error": str(error)})
        conn.write({"kind": "answer", "of": head["of"], "error": ""}, b"".join(found))

    def _on_write(self, number, conn, head, body):
        error, start = "", 0
        try:
            with self.lock:
                places = [self._range(bytes.fromhex(blob), size) for blob, size in zip(head["blobs"], head["sizes"])]
                for place, size in zip(places, head["sizes"]):
                    self._store(place, body[start : start + size])
                    start += size
        except PermissionError as refused:
            error = str(refused)
        conn.write({"kind": "answer", "of": head["of"], "error": error})

    def _on_answer(self, number, conn, head, body):
        if head["of"] in self.transfers:
            _, places, _ = self.transfers[head["of"]]
            if not head["error"]:
                self._land(places, body)
            self._finish(head["of"], head["error"])

    def _land(self, places, body):
        start = 0
        for address, size in places:
            if start < len(body):
                self._store(address, body[start : start + size])
            start += size

    def _on_send(self, number, conn, head, body):
        conn.offers.append((head["of"], body))
        self._match(conn)

    def _match(self, conn):
        with self.lock:
            while conn.offers and conn.receives:
                (of, body), (transfer, address) = conn.offers.pop(0), conn.receives.pop(0)
                self._store(address, body)
                self._finish(transfer, "")
                conn.write({"kind": "answer", "of": of, "error": ""})

    def _on_notify(self, number, conn, head, body):
        self.notifs.append((number, body))
        conn.write({"kind": "answer", "of": head["of"], "error": ""})

    # Operations.

    def _begin(self, number, kind, places=(), blobs=(), sizes=(), body=b""):
        transfer = next(self.numbers)
        self.states[transfer] = None
        conn = self.conns.get(number)
        if conn is None:
            return False, 0
        self.transfers[transfer] = number, places, kind
        head = {"kind": kind, "of": transfer, "blobs": [blob.hex() for blob in blobs], "sizes": list(sizes)}
        try:
            conn.write(head, body)
        except OSError as error:
            self._finish(transfer, str(error))
        return True, transfer

    def _finish(self, transfer, error):
        self.transfers.pop(transfer, None)
        self.states[transfer] = error

    def poll_async(self, transfer):
        state = self.states.get(transfer)
        return not state, state == ""

    def _wait(self, begun):
        ok, transfer = begun
        while ok:
            ok, done = self.poll_async(transfer)
            if done:
                return True
        return False

    def readv_async(self, conn, mrs, addresses, sizes, blobs, count):
        return self._begin(conn, "read", list(zip(addresses, sizes)), blobs, sizes)

    def writev_async(self, conn, mrs, addresses, sizes, blobs, count):
        body = b"".join(self._load(address, size) for address, size in zip(addresses, sizes))
        return self._begin(conn, "write", [], blobs, sizes, body)

    def read_async(self, conn, mr, address, size, blob):
        return self.readv_async(conn, [mr], [address], [size], [blob], 1)

    def write_async(self, conn, mr, address, size, blob):
        return self.writev_async(conn, [mr], [address], [size], [blob], 1)

    def readv(self, *arguments):
        return self._wait(self.readv_async(*arguments))

    def writev(self, *arguments):
        return self._wait(self.writev_async(*arguments))

    def read(self, *arguments):
        return self._wait(self.read_async(*arguments))

    def write(self, *arguments):
        return self._wait(self.write_async(*arguments))

    def send_async(self, conn, mr, address, size):
        return self._begin(conn, "send", body=self._load(address, size))

    def recv_async(self, conn, mr, address, size):
        transfer = next(self.numbers)
        self.states[transfer] = None
        self.conns[conn].receives.append((transfer, address))
        self._match(self.conns[conn])
        return True, transfer

    def send_notif(self, conn, message):
        return self._wait(self._begin(conn, "notify", body=message))

    def get_notifs(self):
        found, self.notifs = self.notifs, []
        return found
