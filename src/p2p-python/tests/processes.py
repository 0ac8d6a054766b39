"""Peers that die, forks, signals, and the end of the interpreter."""

import os
import signal
import subprocess
import sys
import unittest

from support import endpoint, pattern
from tcpxctl import p2p

SIZE = 8 << 20

SERVER = """
import sys
from support import endpoint, pattern
served = endpoint("server")
blob = served.register(bytearray(%d)).advertise()
print(served.metadata.hex(), blob.hex(), flush=True)
sys.stdin.read()
""" % SIZE

# The endpoint and its memory are alive when the interpreter ends.
ENDS = """
from support import endpoint
one, other = endpoint("one"), endpoint("other")
connection = one.connect_to(other.metadata)
memory = other.register(bytearray(1 << 20))
into = one.register(bytearray(1 << 20))
pending = [connection.read_async(into, memory.advertise()) for _ in range(64)]
print("end")
"""


def python(code, **options):
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([here, os.environ["PYTHONPATH"]])
    return subprocess.Popen(
        [sys.executable, "-B", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        **options,
    )


class Processes(unittest.TestCase):
    def test_a_peer_that_is_killed_in_the_middle_of_a_read(self):
        with python(SERVER) as server, endpoint("reader") as reader:
            metadata, blob = (bytes.fromhex(word) for word in server.stdout.readline().split())
            connection = reader.connect_to(metadata)
            into = reader.register(bytearray(SIZE))
            pending = [connection.read_async(into, blob) for _ in range(64)]
            pending[0].wait(30)
            server.kill()
            with self.assertRaises(p2p.ConnectionLost) as lost:
                pending[-1].wait(30)
            self.assertIn("connection to endpoint `server`", str(lost.exception))
            self.assertFalse(connection.is_open())
            into.close()

    def test_a_signal_handler_ends_a_wait(self):
        class Alarm(Exception):
            pass

        def ring(*_):
            raise Alarm

        before = signal.signal(signal.SIGALRM, ring)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        with endpoint("alone") as alone:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            self.assertRaises(Alarm, alone.accept_connection)

    def test_a_fork_ends_and_the_endpoint_stays(self):
        with endpoint("one") as one, endpoint("other") as other:
            child = os.fork()
            if child == 0:
                # Drops the endpoint's object as the end of the interpreter does.
                one._native = other._native = None
                os._exit(7)
            _, status = os.waitpid(child, 0)
            self.assertEqual(os.waitstatus_to_exitcode(status), 7)
            one.connect_to(other.metadata)

    def test_the_interpreter_ends_with_endpoints_open(self):
        with python(ENDS) as program:
            output, _ = program.communicate(timeout=60)
            self.assertEqual((output, program.returncode), ("end\n", 0))


if __name__ == "__main__":
    unittest.main()
