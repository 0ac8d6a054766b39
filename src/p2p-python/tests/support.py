"""Two connected endpoints of one process, and buffers between canaries."""

import unittest

from tcpxctl import p2p

CANARY = b"\xc5" * 4096


def endpoint(name, **options):
    return p2p.Endpoint(name=name, plugin="builtin", address="127.0.0.1", lanes=2, chunk=65536, **options)


def pattern(size, seed=1):
    return bytes((at * 31 + (at >> 8) * 7 + seed) & 0xFF for at in range(size))


class Pair(unittest.TestCase):
    """`self.there` serves, `self.here` has connected to it."""

    def setUp(self):
        self.here, self.there = endpoint("here"), endpoint("there")
        self.addCleanup(self.here.close)
        self.addCleanup(self.there.close)
        self.connection = self.here.connect_to(self.there.metadata)
        self.accepted = self.there.accept_connection(30)

    def guarded(self, endpoint, content):
        """A registered buffer whose middle is `content`; canaries are checked at the end."""
        buffer = bytearray(CANARY + content + CANARY)
        memory = endpoint.register(buffer)

        def check():
            self.assertEqual(buffer[:4096], CANARY, "bytes before the range changed")
            self.assertEqual(buffer[-4096:], CANARY, "bytes after the range changed")

        self.addCleanup(check)
        return buffer, memory[4096 : 4096 + len(content)]
