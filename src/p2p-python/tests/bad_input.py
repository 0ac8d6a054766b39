"""What an endpoint refuses, with its words; no byte outside a range changes."""

import array
import ctypes
import os
import unittest

from support import Pair, endpoint, pattern
from tcpxctl import p2p


class BadInput(Pair):
    def refused(self, kind, words, call, *arguments, **named):
        with self.assertRaises(kind) as raised:
            call(*arguments, **named)
        self.assertIn(words, str(raised.exception))

    def test_blobs(self):
        source, served = self.guarded(self.there, pattern(1000))
        _, local = self.guarded(self.here, bytes(1000))
        blob = served.advertise()
        read, usage = self.connection.read, p2p.UsageError
        self.refused(usage, "a descriptor has 64 bytes, and this has 63", read, local, blob[:63])
        self.refused(usage, "no descriptor of an advertised range", read, local, bytes(64))
        self.refused(usage, "bytes 1..1001 are outside the advertised range of 1000 bytes", read, local, blob, 1)
        self.refused(usage, "outside the advertised range", read, local, blob, (1 << 64) - 1)
        self.refused(usage, "the offset is -1", read, local, blob, -1)
        self.refused(usage, "not advertised for a write", self.connection.write, local, served.advertise("read"))
        self.refused(usage, 'rights are "read", "write" or "both"', served.advertise, "all")
        other = self.here.register(bytearray(1000)).advertise()
        self.refused(usage, "the descriptor is of endpoint", read, local, other)
        forged = bytes([blob[0] ^ 1]) + blob[1:]
        self.refused(p2p.RefusedError, "endpoint `there` refused: the descriptor was changed", read, local, forged)
        served.memory.close()
        self.refused(p2p.RefusedError, "registration 1 of the descriptor was removed", read, local, blob)
        self.assertEqual(source[4096:-4096], pattern(1000))

    def test_buffers(self):
        usage, register = p2p.UsageError, self.here.register
        self.refused(usage, "the buffer is a null pointer", register, 0, 10)
        self.refused(usage, "needs a number of bytes", register, 4096)
        self.refused(usage, "the address is -1", register, -1, 10)
        page = os.sysconf("SC_PAGESIZE")
        self.refused(usage, "not all memory of this process", register, page, 10)
        self.refused(usage, "object of type NoneType has no memory", register, None)
        self.refused(usage, "object of type str has no memory", register, "text")
        self.refused(usage, "not contiguous", register, memoryview(bytearray(100))[::2])
        self.refused(usage, "has 100 bytes, and 101 were asked for", register, bytearray(100), 101)

        class OnAGpu:
            __cuda_array_interface__ = {"data": (1 << 40, False), "shape": (4,), "typestr": "<f4", "version": 3}

        self.refused(usage, "GPU memory (it has __cuda_array_interface__)", register, OnAGpu())
        memory = register(array.array("d", [1.0]))
        self.refused(usage, "outside the registered 8 bytes", memory.__getitem__, slice(0, 9))
        self.refused(usage, "memory[start:end]", memory.__getitem__, 3)
        readonly = register(b"constant")
        self.refused(usage, "read-only", readonly.advertise)
        self.refused(usage, "read-only", self.connection.receive, readonly)
        self.refused(usage, "call Endpoint.register", self.connection.read_async, bytearray(8), bytes(64))

    def test_a_pointer_that_is_not_registered_or_past_the_end(self):
        buffer = ctypes.create_string_buffer(100)
        ok, mr = self.there.reg(ctypes.addressof(buffer), 100)
        self.assertTrue(ok)
        for ptr, size in [(ctypes.addressof(buffer) + 1, 100), (ctypes.addressof(buffer) - 1, 1), (0, 1)]:
            self.assertEqual(self.there.advertise(mr, ptr, size), (False, b""))
            self.assertIn("outside registration", self.there.last_error)
        self.assertEqual(self.there.advertise(99, 0, 1), (False, b""))
        self.assertEqual(self.there.reg(0, 10), (False, 0))
        self.assertEqual(self.there.reg(-1, 10), (False, 0))
        self.assertEqual(self.there.advertise(1, 2), (False, b""))

    def test_sizes_of_a_send_and_its_receive(self):
        receive = self.accepted.receive_async(self.there.register(bytearray(10)))
        self.refused(p2p.RefusedError, "a send of 11 bytes meets a receive of 10 bytes", self.connection.send, bytes(11))
        self.refused(p2p.UsageError, "a send of 11 bytes meets", receive.wait)

    def test_metadata(self):
        metadata, usage, connect = self.there.metadata, p2p.UsageError, self.here.connect_to
        self.refused(usage, "these 4 bytes are not the metadata", connect, b"nope")
        self.refused(usage, "has version 4, and this build knows version 3", connect, metadata.replace(b"p2p/3 ", b"p2p/4 "))
        self.refused(usage, "the metadata is damaged", connect, metadata[:-5])
        nonce = metadata.replace(b'"nonce":[', b'"nonce":[1')
        self.assertRaises((usage, p2p.ConnectionLost), connect, nonce)

    def test_a_secret_on_one_side(self):
        os.environ["TCPXP2P_SECRET"] = os.urandom(32).hex()
        self.addCleanup(os.environ.pop, "TCPXP2P_SECRET")
        with endpoint("with-secret", connect_within=5) as secret:
            needs = "endpoint `with-secret` requires a shared secret, and this endpoint has none"
            self.refused(p2p.UsageError, needs, self.here.connect_to, secret.metadata)
            has = "this endpoint has a shared secret, and endpoint `there` has none"
            self.refused(p2p.UsageError, has, secret.connect_to, self.there.metadata)
        os.environ["TCPXP2P_SECRET"] = "short"
        self.refused(p2p.UsageError, "$TCPXP2P_SECRET", endpoint, "x")

    def test_options(self):
        usage = p2p.UsageError
        self.refused(usage, "`localhost` is no IP address", p2p.Endpoint, plugin="builtin", address="localhost")
        self.refused(usage, "0 lanes", p2p.Endpoint, plugin="builtin", lanes=0)
        self.refused(usage, "a time of -1 s", p2p.Endpoint, plugin="builtin", connect_within=-1)
        self.refused(p2p.PluginError, "/nowhere/x.so", p2p.Endpoint, plugin="/nowhere/x.so")
        self.refused(usage, "a time of NaN s", self.there.accept_connection, float("nan"))
        self.refused(p2p.TimedOut, "a connection of a peer took longer than 0.01 s", self.there.accept_connection, 0.01)
        self.refused(usage, "a notification of 65537 bytes", self.connection.notify, bytes(65537))
        self.refused(usage, "0 pieces", self.connection.readv, [])


if __name__ == "__main__":
    unittest.main()
