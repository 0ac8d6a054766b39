"""The calls of UCCL's `uccl.p2p`, which return `ok` and log why it is False."""

from __future__ import annotations

import enum
import importlib
import importlib.util
import itertools
import logging
import sys
import threading
import types
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from .. import _native
from .errors import Error, TimedOut, UsageError

_LOG = logging.getLogger("tcpxctl.p2p")

# `len` of the metadata of two endpoints is equal, because programs receive the peer's metadata
# into a buffer of the length of their own. Its parser ignores spaces at the end.
_METADATA_LEN = 1024
# What `parse_metadata` has seen, by address and port, for `connect`: an address alone connects
# to no endpoint of tcpxctl.
_SEEN: Dict[Tuple[str, int], bytes] = {}
_SEEN_MAX = 65536
_NO_CONNECTION = (1 << 64) - 1
_DESCS = b"TXPD\x01"
_BLOB_LEN = 64


class FloatType(enum.IntEnum):
    """Element types of UCCL's compression, which is not done here: bytes are moved as they are."""

    kUndefined = 0
    kFloat16 = 1
    kBFloat16 = 2
    kFloat32 = 3
    kFloat8E4M3FN = 4
    kFloat8E5M2 = 5


# Programs also call them by these names.
kUndefined, kFloat16, kBFloat16, kFloat32, kFloat8E4M3FN, kFloat8E5M2 = FloatType


class _Several:
    """Several transfers that are one for their caller."""

    def __init__(self, parts: List[_native.Transfer]) -> None:
        self._parts = parts

    def done(self) -> bool:
        self._parts = [part for part in self._parts if not part.done()]
        return not self._parts

    def wait(self, timeout: Optional[float]) -> None:
        for part in self._parts:
            part.wait(timeout)


class XferDesc(NamedTuple):
    """A registered tensor, or one of a peer."""

    addr: int
    size: int
    mr_id: int
    blob: bytes


class UcclCalls:
    """Mixed into `Endpoint`."""

    _native: Optional[_native.Endpoint]

    def _open(self) -> _native.Endpoint:
        raise NotImplementedError

    def __init__(self) -> None:
        self._transfers: Dict[int, Union[_native.Transfer, _Several]] = {}
        self._transfer_ids = itertools.count(1)
        self._remotes: Dict[int, int] = {}
        self._one_connects = threading.Lock()
        self._tensors: Dict[int, Any] = {}
        self._last_error = ""

    @property
    def last_error(self) -> str:
        """Why the last of these calls that returned False did so."""
        return self._last_error

    def _failed(self, call: str, error: Exception) -> None:
        self._last_error = f"{call}: {error}"
        _LOG.warning("%s", self._last_error)

    # Metadata and connections.

    def get_metadata(self) -> bytes:
        return self._open().metadata().ljust(_METADATA_LEN)

    get_endpoint_metadata = get_metadata

    @staticmethod
    def parse_metadata(metadata: bytes) -> Tuple[str, int, str]:
        metadata = bytes(metadata)
        _, _, ip, port, _, bdf = _native.Endpoint.parse_metadata(metadata)
        if len(_SEEN) >= _SEEN_MAX:
            _SEEN.pop(next(iter(_SEEN)))
        _SEEN[ip, port] = metadata
        return ip, port, bdf

    def connect(self, remote_ip_addr: Any, remote_gpu_idx: Any = None, remote_port: int = -1) -> Tuple[bool, int]:
        """By the address, PCI address and port of `parse_metadata`, or by the metadata."""
        try:
            if isinstance(remote_ip_addr, (bytes, bytearray)):
                metadata = bytes(remote_ip_addr)
            else:
                metadata = _SEEN.get((remote_ip_addr, remote_port), b"")
            if not metadata:
                raise UsageError(
                    f"nothing is known of an endpoint at {remote_ip_addr} port {remote_port}: its "
                    "metadata holds the key of a connection, so call Endpoint.parse_metadata with it first"
                )
            return True, self._open().connect(metadata)
        except Error as error:
            self._failed("connect", error)
            return False, 0

    def accept(self) -> Tuple[bool, str, int, int]:
        try:
            conn, ip, gpu, _ = self._open().accept(None)
            return True, ip, -1 if gpu is None else gpu, conn
        except Error as error:
            self._failed("accept", error)
            return False, "", -1, 0

    def start_passive_accept(self) -> bool:
        """Peers can connect from the beginning."""
        return self._native is not None

    def add_remote_endpoint(self, metadata: bytes) -> Tuple[bool, int]:
        """Connects, once per remote endpoint."""
        try:
            number = _native.Endpoint.parse_metadata(bytes(metadata))[0]
            with self._one_connects:
                known = self._remotes.get(number)
                if known is None or self._open().peer(known) is None:
                    known = self._remotes[number] = self._open().connect(bytes(metadata))
            return True, known
        except Error as error:
            self._failed("add_remote_endpoint", error)
            return False, 0

    def remove_remote_endpoint(self, conn_id: int) -> bool:
        try:
            self._open().disconnect(conn_id)
            return True
        except Error as error:
            self._failed("remove_remote_endpoint", error)
            return False

    def conn_id_of_rank(self, rank: int) -> int:
        """Ranks are of UCCL's rendezvous groups, which this endpoint has not."""
        return _NO_CONNECTION

    # Memory.

    def reg(self, ptr: int, size: int, float_type: Any = None) -> Tuple[bool, int]:
        try:
            return True, self._open().register(_number(ptr), _number(size))
        except Error as error:
            self._failed("reg", error)
            return False, 0

    def regv(self, ptrs: Sequence[int], sizes: Sequence[int]) -> Tuple[bool, List[int]]:
        made: List[int] = []
        try:
            _same_length("regv", ptrs, sizes)
            for ptr, size in zip(ptrs, sizes):
                made.append(self._open().register(_number(ptr), _number(size)))
            return True, made
        except Error as error:
            for mr in made:
                self._open().deregister(mr)
            self._failed("regv", error)
            return False, []

    def dereg(self, mr_id: int) -> bool:
        try:
            self._open().deregister(mr_id)
            return True
        except Error as error:
            self._failed("dereg", error)
            return False

    def advertise(self, *arguments: Any, **named: Any) -> Tuple[bool, bytes]:
        """`advertise(mr, ptr, size)`; older programs pass the connection first."""
        try:
            mr, ptr, size = _without_connection(arguments, named, ("mr_id", "ptr", "size"))
            return True, self._open().advertise((mr, _number(ptr), _number(size)), "both")
        except Error as error:
            self._failed("advertise", error)
            return False, b""

    def advertisev(self, *arguments: Any, **named: Any) -> Tuple[bool, List[bytes]]:
        """`advertisev(mrs, ptrs, sizes, n)`; older programs pass the connection first."""
        try:
            names = ("mr_id_v", "ptr_v", "size_v", "num_iovs")
            mrs, ptrs, sizes, count = _without_connection(arguments, named, names)
            pieces = _first("advertisev", count, mrs, ptrs, sizes)
            native = self._open()
            return True, [native.advertise((mr, _number(ptr), _number(size)), "both") for mr, ptr, size in pieces]
        except Error as error:
            self._failed("advertisev", error)
            return False, []

    # Operations.

    def write(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) -> bool:
        return self._wait("write", self._one_sided, "write", conn_id, [(mr_id, ptr, size, meta)])

    def read(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) -> bool:
        return self._wait("read", self._one_sided, "read", conn_id, [(mr_id, ptr, size, meta)])

    def writev(self, conn_id: int, mr_id_v: Any, ptr_v: Any, size_v: Any, meta_v: Any, num_iovs: int) -> bool:
        return self._wait("writev", self._vector, "write", conn_id, num_iovs, mr_id_v, ptr_v, size_v, meta_v)

    def readv(self, conn_id: int, mr_id_v: Any, ptr_v: Any, size_v: Any, meta_v: Any, num_iovs: int) -> bool:
        return self._wait("readv", self._vector, "read", conn_id, num_iovs, mr_id_v, ptr_v, size_v, meta_v)

    def write_async(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) -> Tuple[bool, int]:
        return self._begin("write_async", self._one_sided, "write", conn_id, [(mr_id, ptr, size, meta)])

    def read_async(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) -> Tuple[bool, int]:
        return self._begin("read_async", self._one_sided, "read", conn_id, [(mr_id, ptr, size, meta)])

    def writev_async(
        self, conn_id: int, mr_id_v: Any, ptr_v: Any, size_v: Any, meta_v: Any, num_iovs: int
    ) -> Tuple[bool, int]:
        return self._begin("writev_async", self._vector, "write", conn_id, num_iovs, mr_id_v, ptr_v, size_v, meta_v)

    def readv_async(
        self, conn_id: int, mr_id_v: Any, ptr_v: Any, size_v: Any, meta_v: Any, num_iovs: int
    ) -> Tuple[bool, int]:
        return self._begin("readv_async", self._vector, "read", conn_id, num_iovs, mr_id_v, ptr_v, size_v, meta_v)

    def send(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: Optional[bytes] = None) -> bool:
        """A blob makes it a write, as it did in older versions."""
        if meta is not None:
            return self.write(conn_id, mr_id, ptr, size, meta)
        return self._wait("send", self._two_sided, "send", conn_id, mr_id, ptr, size)

    def recv(self, conn_id: int, mr_id: int, ptr: int, size: int) -> bool:
        return self._wait("recv", self._two_sided, "receive", conn_id, mr_id, ptr, size)

    def send_async(self, conn_id: int, mr_id: int, ptr: int, size: int) -> Tuple[bool, int]:
        return self._begin("send_async", self._two_sided, "send", conn_id, mr_id, ptr, size)

    def recv_async(self, conn_id: int, mr_id: int, ptr: int, size: int) -> Tuple[bool, int]:
        return self._begin("recv_async", self._two_sided, "receive", conn_id, mr_id, ptr, size)

    def sendv(self, conn_id: int, mr_id_v: Any, data_ptr_v: Any, size_v: Any, num_iovs: int) -> bool:
        return self._wait("sendv", self._several, "send", conn_id, num_iovs, mr_id_v, data_ptr_v, size_v)

    def recvv(self, conn_id: int, mr_id_v: Any, data_ptr_v: Any, size_v: Any, num_iovs: int) -> bool:
        return self._wait("recvv", self._several, "receive", conn_id, num_iovs, mr_id_v, data_ptr_v, size_v)

    def sendv_async(self, conn_id: int, mr_id_v: Any, data_ptr_v: Any, size_v: Any, num_iovs: int) -> Tuple[bool, int]:
        return self._begin("sendv_async", self._several, "send", conn_id, num_iovs, mr_id_v, data_ptr_v, size_v)

    def recvv_async(self, conn_id: int, mr_id_v: Any, data_ptr_v: Any, size_v: Any, num_iovs: int) -> Tuple[bool, int]:
        return self._begin("recvv_async", self._several, "receive", conn_id, num_iovs, mr_id_v, data_ptr_v, size_v)

    def poll_async(self, transfer_id: int) -> Tuple[bool, bool]:
        """An operation that failed is not done: `(False, False)`."""
        transfer = self._transfers.get(transfer_id)
        try:
            if transfer is None:
                raise UsageError(f"transfer {transfer_id} does not exist, or its end was polled already")
            is_done = transfer.done()
            if is_done:
                self._transfers.pop(transfer_id, None)
            return True, is_done
        except Error as error:
            self._transfers.pop(transfer_id, None)
            self._failed("poll_async", error)
            return False, False

    # Notifications.

    def send_notif(self, conn_id: int, message: bytes) -> bool:
        """Leaves a message in the peer's queue."""
        return self._wait("send_notif", self._notify, conn_id, message)

    def get_notifs(self) -> List[Tuple[int, bytes]]:
        """Connection and message of every unread notification; never waits."""
        found: List[Tuple[int, bytes]] = []
        try:
            while True:
                found.append(self._open().notification(0))
        except TimedOut:
            return found

    # Tensors.

    def register_memory(self, tensors: Iterable[Any]) -> List[XferDesc]:
        """Registers contiguous tensors, or other buffers. Raises where a buffer cannot be used."""
        made: List[XferDesc] = []
        native = self._open()
        try:
            for tensor in tensors:
                buffer = _native.Buffer(tensor)
                mr = native.register(buffer.address, buffer.nbytes, buffer.on_a_gpu)
                rights = "read" if buffer.readonly else "both"
                blob = native.advertise((mr, buffer.address, buffer.nbytes), rights)
                desc = XferDesc(buffer.address, buffer.nbytes, mr, blob)
                made.append(desc)
                kept = self._tensors.setdefault(mr, [])
                kept.append(buffer)
        except Error:
            self.deregister_memory(made)
            raise
        return made

    def deregister_memory(self, descs: Iterable[XferDesc]) -> bool:
        is_ok = True
        for desc in descs:
            is_ok &= self.dereg(desc.mr_id)
            kept = self._tensors.get(desc.mr_id, [])
            if kept:
                kept.pop()
            if not kept:
                self._tensors.pop(desc.mr_id, None)
        return is_ok

    @staticmethod
    def get_serialized_descs(descs: Sequence[XferDesc]) -> bytes:
        sizes = (desc.size.to_bytes(8, "little") + desc.blob for desc in descs)
        return _DESCS + b"".join(sizes)

    @staticmethod
    def deserialize_descs(serialized: bytes) -> List[XferDesc]:
        serialized = bytes(serialized)
        body = serialized[len(_DESCS) :]
        each = 8 + _BLOB_LEN
        if not serialized.startswith(_DESCS) or len(body) % each:
            raise UsageError(f"these {len(serialized)} bytes are no serialized descriptors of an endpoint")
        found = []
        for at in range(0, len(body), each):
            size, blob = int.from_bytes(body[at : at + 8], "little"), body[at + 8 : at + each]
            found.append(XferDesc(0, size, 0, blob))
        return found

    def transfer(
        self, conn_id: int, op_name: str, local_descs: Sequence[XferDesc], remote_descs: Sequence[XferDesc]
    ) -> Tuple[bool, int]:
        try:
            if op_name not in ("read", "write"):
                raise UsageError(f'an operation is "read" or "write", not {op_name!r}')
            _same_length("transfer", local_descs, remote_descs)
            pieces = [(one.mr_id, one.addr, one.size, far.blob) for one, far in zip(local_descs, remote_descs)]
            for one, far in zip(local_descs, remote_descs):
                if one.size != far.size:
                    raise UsageError(f"a local tensor of {one.size} bytes meets a remote one of {far.size} bytes")
        except Error as error:
            self._failed("transfer", error)
            return False, 0
        return self._begin("transfer", self._one_sided, op_name, conn_id, pieces)

    # Of one node. Memory is not mapped into another process here: its connections are like all others.

    def _of_one_node(self, call: str, instead: str) -> None:
        self._failed(call, UsageError(f"tcpxctl maps no memory into another process; call {instead}, also on one node"))

    def connect_local(self, *_: Any, **__: Any) -> Tuple[bool, int]:
        self._of_one_node("connect_local", "connect or add_remote_endpoint")
        return False, 0

    def accept_local(self, *_: Any, **__: Any) -> Tuple[bool, int, int]:
        self._of_one_node("accept_local", "accept")
        return False, -1, 0

    def advertise_ipc(self, *_: Any, **__: Any) -> Tuple[bool, bytes]:
        self._of_one_node("advertise_ipc", "advertise")
        return False, b""

    def advertisev_ipc(self, *_: Any, **__: Any) -> Tuple[bool, List[bytes]]:
        self._of_one_node("advertisev_ipc", "advertisev")
        return False, []

    def write_ipc(self, *_: Any, **__: Any) -> bool:
        self._of_one_node("write_ipc", "write")
        return False

    def read_ipc(self, *_: Any, **__: Any) -> bool:
        self._of_one_node("read_ipc", "read")
        return False

    def writev_ipc(self, *_: Any, **__: Any) -> bool:
        self._of_one_node("writev_ipc", "writev")
        return False

    def readv_ipc(self, *_: Any, **__: Any) -> bool:
        self._of_one_node("readv_ipc", "readv")
        return False

    def write_ipc_async(self, *_: Any, **__: Any) -> Tuple[bool, int]:
        self._of_one_node("write_ipc_async", "write_async")
        return False, 0

    def read_ipc_async(self, *_: Any, **__: Any) -> Tuple[bool, int]:
        self._of_one_node("read_ipc_async", "read_async")
        return False, 0

    def writev_ipc_async(self, *_: Any, **__: Any) -> Tuple[bool, int]:
        self._of_one_node("writev_ipc_async", "writev_async")
        return False, 0

    def readv_ipc_async(self, *_: Any, **__: Any) -> Tuple[bool, int]:
        self._of_one_node("readv_ipc_async", "readv_async")
        return False, 0

    def send_ipc(self, *_: Any, **__: Any) -> bool:
        self._of_one_node("send_ipc", "send")
        return False

    def recv_ipc(self, *_: Any, **__: Any) -> bool:
        self._of_one_node("recv_ipc", "recv")
        return False

    def send_ipc_async(self, *_: Any, **__: Any) -> Tuple[bool, int]:
        self._of_one_node("send_ipc_async", "send_async")
        return False, 0

    def recv_ipc_async(self, *_: Any, **__: Any) -> Tuple[bool, int]:
        self._of_one_node("recv_ipc_async", "recv_async")
        return False, 0

    # How the calls above are made.

    def _one_sided(self, operation: str, conn: int, pieces: Sequence[Tuple[int, int, int, bytes]]) -> _native.Transfer:
        native = [(mr, _number(ptr), _number(size), bytes(blob), 0) for mr, ptr, size, blob in pieces]
        start = self._open().read if operation == "read" else self._open().write
        return start(conn, native)

    def _vector(self, operation: str, conn: int, count: int, *vectors: Any) -> _native.Transfer:
        return self._one_sided(operation, conn, _first(operation, count, *vectors))

    def _two_sided(self, operation: str, conn: int, mr: int, ptr: int, size: int) -> _native.Transfer:
        start = self._open().send if operation == "send" else self._open().receive
        return start(conn, (mr, _number(ptr), _number(size)))

    def _several(self, operation: str, conn: int, count: int, *vectors: Any) -> _Several:
        pieces = _first(operation, count, *vectors)
        return _Several([self._two_sided(operation, conn, mr, ptr, size) for mr, ptr, size in pieces])

    def _notify(self, conn: int, message: bytes) -> _native.Transfer:
        return self._open().notify(conn, bytes(message))

    def _wait(self, call: str, start: Any, *arguments: Any) -> bool:
        try:
            start(*arguments).wait(None)
            return True
        except Error as error:
            self._failed(call, error)
            return False

    def _begin(self, call: str, start: Any, *arguments: Any) -> Tuple[bool, int]:
        try:
            transfer = start(*arguments)
        except Error as error:
            self._failed(call, error)
            return False, 0
        number = next(self._transfer_ids)
        self._transfers[number] = transfer
        return True, number


def _number(value: Any) -> int:
    number = int(value)
    if not 0 <= number < 1 << 64:
        raise UsageError(f"{number} is no address or size")
    return number


def _same_length(call: str, *vectors: Any) -> None:
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1:
        raise UsageError(f"{call}: the vectors have different lengths: {sorted(lengths)}")


def _first(call: str, count: int, *vectors: Any) -> List[Tuple[Any, ...]]:
    if any(len(vector) < count for vector in vectors):
        raise UsageError(f"{call}: {count} pieces, but a vector has {min(len(vector) for vector in vectors)}")
    return list(zip(*(vector[:count] for vector in vectors)))


def _without_connection(arguments: Sequence[Any], named: Dict[str, Any], names: Sequence[str]) -> List[Any]:
    if len(arguments) + len(named) == len(names) + 1:
        arguments = arguments[1:]
        named = {name: value for name, value in named.items() if name != "conn_id"}
    rest = names[len(arguments) :]
    if len(arguments) + len(named) != len(names) or set(rest) != set(named):
        raise UsageError(f"takes {', '.join(names)}, optionally after a connection")
    return [*arguments, *(named[name] for name in rest)]


def as_uccl() -> None:
    """Makes `import uccl.p2p` mean `tcpxctl.p2p` in this process."""
    this = importlib.import_module("tcpxctl.p2p")
    if "uccl" in sys.modules or importlib.util.find_spec("uccl") is not None:
        package = importlib.import_module("uccl")
    else:
        package = types.ModuleType("uccl", "UCCL's name for tcpxctl.p2p.")
        package.__path__ = []
        sys.modules["uccl"] = package
    package.p2p = this  # type: ignore[attr-defined]
    sys.modules["uccl.p2p"] = this
