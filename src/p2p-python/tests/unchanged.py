"""`benchmark.py`, which knows UCCL's module only, runs unchanged by `python -m tcpxctl.p2p`."""

import os
import socket
import subprocess
import sys
import unittest

BENCHMARK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "benchmark.py")


class Unchanged(unittest.TestCase):
    def ranks(self, *flags):
        with socket.create_server(("127.0.0.1", 0)) as free:
            place = f"127.0.0.1:{free.getsockname()[1]}"
        command = [sys.executable, "-m", "tcpxctl.p2p", BENCHMARK, "--exchange", place, "--iters", "3", *flags]
        started = [
            subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for rank in (1, 0)
        ]
        for process in started:
            output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, output)
            self.assertIn("complete, every byte compared", output)

    def test_every_mode(self):
        for mode in ("read", "write", "send"):
            with self.subTest(mode=mode):
                self.ranks("--mode", mode)
        self.ranks("--mode", "read", "--async-api", "--num-iovs", "4")

    def test_a_program_is_needed(self):
        ran = subprocess.run([sys.executable, "-m", "tcpxctl.p2p"], capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr), (1, "usage: python -m tcpxctl.p2p PROGRAM [ARGUMENT...]\n"))


if __name__ == "__main__":
    unittest.main()
