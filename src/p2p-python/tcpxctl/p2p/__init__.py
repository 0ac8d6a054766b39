"""Endpoints: programs read, write, send and receive each other's memory over an ncclNet plugin.

    one = p2p.Endpoint()                        other = p2p.Endpoint()
    memory = one.register(array)                into = other.register(empty)
    one.metadata, memory.advertise()    --->    connection = other.connect_to(metadata)
                                                connection.read(into, blob)

Done means: every byte is in place. A read is done when its bytes are in the local buffer; a write
and a send are done when the other endpoint has said that they are in its buffer.

`Endpoint` also has the calls of UCCL's `uccl.p2p`, which return `ok` instead of raising;
`as_uccl()` makes `import uccl.p2p` mean this module.
"""

from .endpoint import Connection, Endpoint, Memory, Part, Transfer
from .errors import (
    ClosedError,
    ConnectionLost,
    Error,
    LimitError,
    PluginError,
    RefusedError,
    TimedOut,
    UsageError,
)
from .uccl import (
    FloatType,
    XferDesc,
    as_uccl,
    kBFloat16,
    kFloat8E4M3FN,
    kFloat8E5M2,
    kFloat16,
    kFloat32,
    kUndefined,
)

__all__ = [
    "ClosedError",
    "Connection",
    "ConnectionLost",
    "Endpoint",
    "Error",
    "FloatType",
    "LimitError",
    "Memory",
    "Part",
    "PluginError",
    "RefusedError",
    "TimedOut",
    "Transfer",
    "UsageError",
    "XferDesc",
    "as_uccl",
    "kBFloat16",
    "kFloat16",
    "kFloat32",
    "kFloat8E4M3FN",
    "kFloat8E5M2",
    "kUndefined",
]
