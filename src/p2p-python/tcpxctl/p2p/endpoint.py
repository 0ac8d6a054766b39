"""Endpoints that raise: connections, registered memory and transfers as objects."""

from __future__ import annotations

import atexit
import weakref
from os import PathLike
from types import TracebackType
from typing import Any, Iterable, Optional, Set, Tuple, Type, Union

from .. import _native, program
from .errors import ClosedError, Error, UsageError
from .uccl import UcclCalls

_OPEN: "weakref.WeakSet[Endpoint]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # Peers must not read memory that the interpreter is about to free.
    for endpoint in list(_OPEN):
        endpoint.close()


class Part:
    """A range of registered memory, as `memory[10:20]` makes it."""

    __slots__ = ("memory", "address", "nbytes")

    def __init__(self, memory: "Memory", address: int, nbytes: int) -> None:
        self.memory, self.address, self.nbytes = memory, address, nbytes

    def advertise(self, rights: str = "both") -> bytes:
        """64 bytes with which a peer can use this range. Rights are "read", "write" or "both"."""
        if self.memory.readonly and rights != "read":
            raise UsageError('the buffer is read-only: advertise it with rights="read"')
        endpoint = self.memory.endpoint._open()
        return endpoint.advertise((self.memory.number, self.address, self.nbytes), rights)

    def __len__(self) -> int:
        return self.nbytes


class Memory(Part):
    """Registered memory. The object that owns the bytes is kept until `close`."""

    __slots__ = ("endpoint", "number", "readonly", "_buffer")

    def __init__(self, endpoint: "Endpoint", buffer: Any, nbytes: Optional[int] = None) -> None:
        if isinstance(buffer, int):
            if nbytes is None:
                raise UsageError("an address needs a number of bytes: register(address, nbytes)")
            self._buffer, self.readonly, on_a_gpu = None, False, None
            address = _whole("the address", buffer)
            nbytes = _whole("the number of bytes", nbytes)
        else:
            self._buffer = _native.Buffer(buffer)
            self.readonly, on_a_gpu = self._buffer.readonly, self._buffer.on_a_gpu
            address, held = self._buffer.address, self._buffer.nbytes
            nbytes = held if nbytes is None else _whole("the number of bytes", nbytes)
            if nbytes > held:
                raise UsageError(f"the buffer has {held} bytes, and {nbytes} were asked for")
        super().__init__(self, address, nbytes)
        self.endpoint = endpoint
        self.number = endpoint._open().register(address, nbytes, on_a_gpu)
        # Memory that is registered must not be freed, also if the program drops this object.
        endpoint._memories.add(self)

    def __getitem__(self, part: slice) -> Part:
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise UsageError("a part of registered memory is a range of bytes: memory[start:end]")
        start, end = part.start or 0, self.nbytes if part.stop is None else part.stop
        if not 0 <= start <= end <= self.nbytes:
            raise UsageError(f"bytes {start}..{end} are outside the registered {self.nbytes} bytes")
        return Part(self, self.address + start, end - start)

    def close(self) -> None:
        """Ends the registration; waits until no operation uses the memory."""
        if self not in self.endpoint._memories:
            return
        try:
            self.endpoint._open().deregister(self.number)
        except ClosedError:
            pass
        self.endpoint._memories.discard(self)
        self._buffer = None

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Buffer = Union[Part, Any]


class Transfer:
    """An operation in progress. Its buffers are kept until it is done."""

    __slots__ = ("_native", "_kept")

    def __init__(self, native: _native.Transfer, kept: Any) -> None:
        self._native, self._kept = native, kept

    def done(self) -> bool:
        """Whether every byte is in place. Raises if the operation has failed; never waits."""
        return self._native.done()

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits until the operation is done and returns its bytes."""
        return self._native.wait(timeout)


class Connection:
    """A connection to another endpoint."""

    __slots__ = ("endpoint", "number", "peer", "address")

    def __init__(self, endpoint: "Endpoint", number: int, peer: str, address: str) -> None:
        self.endpoint, self.number, self.peer, self.address = endpoint, number, peer, address

    def read_async(self, into: Part, blob: bytes, offset: int = 0) -> Transfer:
        """Starts to read from the range of a blob, from its byte `offset` on."""
        return self.readv_async([(into, blob, offset)])

    def write_async(self, buffer: Part, blob: bytes, offset: int = 0) -> Transfer:
        """Starts to write to the range of a blob."""
        return self.writev_async([(buffer, blob, offset)])

    def readv_async(self, pieces: Iterable[Tuple[Part, bytes, int]]) -> Transfer:
        """Starts to read several ranges: buffer, blob and offset of each."""
        pieces = list(pieces)
        native = [_piece(part, blob, offset, True) for part, blob, offset in pieces]
        return Transfer(self.endpoint._open().read(self.number, native), pieces)

    def writev_async(self, pieces: Iterable[Tuple[Part, bytes, int]]) -> Transfer:
        """Starts to write several ranges."""
        pieces = list(pieces)
        native = [_piece(part, blob, offset, False) for part, blob, offset in pieces]
        return Transfer(self.endpoint._open().write(self.number, native), pieces)

    def send_async(self, buffer: Part) -> Transfer:
        """Starts to send to the peer's next receive, which must be as long."""
        return Transfer(self.endpoint._open().send(self.number, _range(buffer, False)), buffer)

    def receive_async(self, into: Part) -> Transfer:
        """Starts to receive the peer's next send."""
        return Transfer(self.endpoint._open().receive(self.number, _range(into, True)), into)

    def read(self, into: Buffer, blob: bytes, offset: int = 0, timeout: Optional[float] = None) -> int:
        """Reads; a buffer that is not registered is registered meanwhile."""
        with _registered(self.endpoint, into) as part:
            return self.read_async(part, blob, offset).wait(timeout)

    def write(self, buffer: Buffer, blob: bytes, offset: int = 0, timeout: Optional[float] = None) -> int:
        """Writes; done when every byte is in place there."""
        with _registered(self.endpoint, buffer) as part:
            return self.write_async(part, blob, offset).wait(timeout)

    def readv(self, pieces: Iterable[Tuple[Part, bytes, int]], timeout: Optional[float] = None) -> int:
        """Reads several ranges."""
        return self.readv_async(pieces).wait(timeout)

    def writev(self, pieces: Iterable[Tuple[Part, bytes, int]], timeout: Optional[float] = None) -> int:
        """Writes several ranges."""
        return self.writev_async(pieces).wait(timeout)

    def send(self, buffer: Buffer, timeout: Optional[float] = None) -> int:
        """Sends; done when every byte is in the peer's buffer."""
        with _registered(self.endpoint, buffer) as part:
            return self.send_async(part).wait(timeout)

    def receive(self, into: Buffer, timeout: Optional[float] = None) -> int:
        """Receives the peer's next send."""
        with _registered(self.endpoint, into) as part:
            return self.receive_async(part).wait(timeout)

    def notify(self, message: bytes, timeout: Optional[float] = None) -> None:
        """Leaves a message in the peer's queue."""
        self.endpoint._open().notify(self.number, message).wait(timeout)

    def is_open(self) -> bool:
        """Whether the connection has not ended."""
        return self.endpoint._open().peer(self.number) is not None

    def close(self) -> None:
        """Ends the connection: every operation on it fails on both ends."""
        if self.is_open():
            self.endpoint._open().disconnect(self.number)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Endpoint(UcclCalls):
    """An endpoint. It moves host memory, or with `gpu` (a CUDA device number or PCI address) memory of
    that GPU only. What a stream still writes to a tensor is not waited for: synchronize it before
    a transfer reads the tensor.

    `local_gpu_idx` and `num_cpus` are of UCCL's signature: the first is a GPU whose memory is moved
    as well as the host's, where the node has it; of the second there is no need.

    Make the first endpoint before other threads change the environment, and after a fork.
    """

    def __init__(
        self,
        local_gpu_idx: Optional[int] = None,
        num_cpus: Optional[int] = None,
        *,
        gpu: Union[int, str, None] = None,
        name: Optional[str] = None,
        plugin: Optional[str] = None,
        address: Optional[str] = None,
        port: int = 0,
        lanes: Optional[int] = None,
        chunk: Optional[int] = None,
        secret_file: Union[str, "PathLike[str]", None] = None,
        connect_within: Optional[float] = None,
        stall_after: Optional[float] = None,
    ) -> None:
        if gpu is not None and local_gpu_idx is not None:
            raise UsageError("gpu and local_gpu_idx both name a GPU: pass one of them")
        wanted = local_gpu_idx if gpu is None else gpu
        self._native: Optional[_native.Endpoint] = _native.Endpoint(
            name=name,
            plugin=plugin,
            address=address,
            port=port,
            lanes=lanes,
            chunk=chunk,
            gpu=None if wanted is None else str(wanted),
            host_too=gpu is None,
            secret_file=secret_file,
            connect_within=connect_within,
            stall_after=stall_after,
            program=program(),
        )
        super().__init__()
        self._memories: Set[Memory] = set()
        _OPEN.add(self)

    def _open(self) -> _native.Endpoint:
        if self._native is None:
            raise ClosedError("the endpoint is closed")
        return self._native

    @property
    def metadata(self) -> bytes:
        """What another endpoint needs to connect. As confidential as the memory advertised here."""
        return self._open().metadata()

    def register(self, buffer: Any, nbytes: Optional[int] = None) -> Memory:
        """Registers an address, or the memory of a NumPy array, a tensor or any other buffer."""
        return Memory(self, buffer, nbytes)

    def connect_to(self, metadata: bytes) -> Connection:
        """Connects to the endpoint of this metadata."""
        native = self._open()
        number = native.connect(metadata)
        return self._connection(number)

    def accept_connection(self, timeout: Optional[float] = None) -> Connection:
        """The oldest connection that a peer made and that was not returned yet."""
        number, address, _, peer = self._open().accept(timeout)
        return Connection(self, number, peer, address)

    def notification(self, timeout: Optional[float] = None) -> Tuple[int, bytes]:
        """Connection number and bytes of the oldest unread notification."""
        return self._open().notification(timeout)

    def _connection(self, number: int) -> Connection:
        peer, address = self._open().peer(number) or ("", "")
        return Connection(self, number, peer, address)

    def close(self) -> None:
        """Ends every connection and the endpoint."""
        native, self._native = self._native, None
        if native is not None:
            native.close()
        self._memories.clear()
        _OPEN.discard(self)

    def __enter__(self) -> "Endpoint":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def _whole(what: str, number: int) -> int:
    if not 0 <= number < 1 << 64:
        raise UsageError(f"{what} is {number}")
    return number


def _range(part: Part, is_written: bool) -> Tuple[int, int, int]:
    if not isinstance(part, Part):
        raise UsageError("this call takes registered memory: call Endpoint.register with the buffer first")
    if is_written and part.memory.readonly:
        raise UsageError("the buffer is read-only, and this operation would write to it")
    return part.memory.number, part.address, part.nbytes


def _piece(part: Part, blob: bytes, offset: int, is_written: bool) -> Tuple[int, int, int, bytes, int]:
    number, address, nbytes = _range(part, is_written)
    return number, address, nbytes, bytes(blob), _whole("the offset", offset)


class _registered:
    """A buffer for the duration of one call; what is registered stays so."""

    __slots__ = ("_part", "_own")

    def __init__(self, endpoint: Endpoint, buffer: Buffer) -> None:
        self._own: Optional[Memory] = None
        if not isinstance(buffer, Part):
            self._own = buffer = endpoint.register(buffer)
        self._part: Part = buffer

    def __enter__(self) -> Part:
        return self._part

    def __exit__(self, kind: Optional[Type[BaseException]], *_: object) -> None:
        if self._own is None:
            return
        try:
            # Waits for the operation, also after Ctrl-C or a time limit: its memory is in use.
            self._own.close()
        except Error:
            if kind is None:
                raise
