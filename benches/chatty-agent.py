#!/usr/bin/env python3
"""An agent that floods its coordinator: `chatty-agent.py TCPXCTL LINES_PER_SECOND agent`.

Starts the real agent, forwards both directions unchanged, and inserts plugin log
lines at an even rate, each with a time stamp like every message.
"""

import os
import select
import subprocess
import sys
import time

SLICE = 0.01


def main() -> int:
    program, rate = sys.argv[1], int(sys.argv[2])
    agent = subprocess.Popen([program, "agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin and agent.stdout
    os.set_blocking(agent.stdout.fileno(), False)
    line = '[%d,0,{"plugin-line":{"level":2,"function":"recvProgress","line":1234,"text":"cnt 1000 nanos 123456","count":1}}]\n'
    pending, owed, last, measuring = b"", 0.0, time.monotonic(), False
    stdin = sys.stdin.buffer.fileno()
    while True:
        ready, _, _ = select.select([stdin, agent.stdout], [], [], SLICE)
        if stdin in ready:
            data = os.read(stdin, 1 << 16)
            if not data:
                agent.stdin.close()
                return agent.wait()
            agent.stdin.write(data)
            agent.stdin.flush()
        if agent.stdout in ready:
            data = agent.stdout.read() or b""
            if not data:
                return agent.wait()
            pending += data
        whole, _, pending = pending.rpartition(b"\n")
        out = whole + b"\n" if whole else b""
        measuring |= b'"phase":"measuring"' in out
        now = time.monotonic()
        if measuring:
            owed += (now - last) * rate
            out += (line % (time.time_ns() // 1000) * int(owed)).encode()
            owed -= int(owed)
        last = now
        if out:
            sys.stdout.buffer.write(out)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
