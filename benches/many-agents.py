#!/usr/bin/env python3
"""What agents cost their coordinator: `many-agents.py TCPXCTL [--agents 16,256] [--seconds 20]`.

Records what two real agents say while a pair measures, then runs a mesh of simulated agents that
say the same at the same rhythm, each over pipes of its own, as a process that `--rsh` starts.
Prints the CPU and memory of the coordinator while all of them measure, and the time to the first
picture of `--live`. CPU time is little disturbed by other load, rates of a busy machine are.
"""

import argparse
import fcntl
import os
import pty
import re
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

SETTINGS = ["plugin.name=builtin", 'topology.nics=["lo"]', "mesh.pattern=bisection", "mesh.rails=all", "limits.total=5m"]
# No `limits.total` ends it: the recording does.
LONG = ["transfer.total=1MiB", "transfer.iterations=1000000", "transfer.warmup=1"]
RECORD_SECONDS = 6
# A shell's own TCP, because 256 interpreters would start for longer than a run takes.
STUB = """#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/PORT
echo "$1" >&3
cat <&3 &
cat >&3
kill $!
"""


def coordinator(program, hosts, shell, folder, flags=()):
    settings = [word for setting in SETTINGS + LONG for word in ("--set", setting)]
    return [program, "run", "mesh-quick", "--hosts", hosts, "--rsh", f"{shell} {{}}", "--remote-bin", program,
            "--reports", os.path.join(folder, "reports"), *settings, *flags]


def tee(log, words):
    """A real agent, with what it hears and says in a file."""
    agent = subprocess.Popen(["sh", "-c", " ".join(words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, lock = open(log, "wb"), threading.Lock()

    def note(way, line):
        with lock:
            out.write(b"%.6f %s %s" % (time.monotonic(), way, line))
            out.flush()

    def down():
        for line in sys.stdin.buffer:
            note(b"<", line)
            agent.stdin.write(line)
            agent.stdin.flush()
        agent.stdin.close()

    threading.Thread(target=down, daemon=True).start()
    for line in agent.stdout:
        note(b">", line)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    return agent.wait()


class Script:
    """What one end of the recorded pair said: before it measured, while it did, and after the stop."""

    def __init__(self, path):
        lines = [line.split(" ", 2) for line in open(path, encoding="utf-8", errors="replace")]
        lines = [(float(at), way, text.strip()) for at, way, text in lines if way in "<>"]
        said = [(at, re.sub(r"^\[\d+,\d+,", "", text)[:-1]) for at, way, text in lines if way == ">" and text[0] == "["]
        said = [(at, text) for at, text in said if text != '"heartbeat"' and not text.startswith('{"echo"')]
        launch = next((at, text) for at, way, text in lines if way == "<" and '"launch"' in text)
        stop = next((at for at, way, text in lines if way == "<" and '"stop"' in text), lines[-1][0])
        start = next(at for at, text in said if '"phase":"measuring"' in text)
        self.listens = '"listen":null' not in launch[1]
        self.greeting = [text for at, text in said if at < launch[0]]
        self.before = [(at - launch[0], text) for at, text in said if launch[0] <= at < start]
        # The first second is left out: the rhythm of later ones is repeated.
        self.begins = [text for at, text in said if at == start][:1]
        self.while_it = [(at - start - 1, text) for at, text in said if start + 1 < at < stop]
        self.lasts = stop - start - 1
        self.after = [text for at, text in said if at >= stop]


class Agent:
    def __init__(self, connection, scripts):
        self.connection, self.scripts, self.pending = connection, scripts, b""
        self.name, self.number, self.script, self.queue, self.beat = None, 0, None, [], 0.0
        self.measures, self.held, self.stopped = False, False, False
        self.looks_per_sample, self.looks = 1, 0

    def say(self, text, number=None):
        us = time.time_ns() // 1000
        line = f"[{us},{self.number if number is None else number},{text}]\n"
        self.connection.sendall(line.encode())

    def hear(self, data):
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            self.order(line.decode(errors="replace"))

    def order(self, line):
        now = time.monotonic()
        if self.name is None:
            self.name = line
            self.connection.sendall(b"tcpxctl-boot have\n")
            return
        order = re.sub(r"^\[\d+,", "", line)
        if order.startswith('{"heartbeat"'):
            self.say('{"echo"' + order[len('{"heartbeat"'):-1], 0)
        elif order.startswith('{"choose"'):
            for text in self.scripts[0].greeting:
                # Another machine than the others.
                text = re.sub(r'"boot_id":"[^"]*"', f'"boot_id":"{self.name}"', text)
                self.say(re.sub(r'"host":\{"name":"[^"]*"', f'"host":{{"name":"{self.name}"', text), 0)
        elif order.startswith('{"launch"'):
            self.number = int(line[1:line.index(",")])
            listens = '"listen":null' not in order
            # The recorded pair sent a sample at each look.
            self.looks_per_sample = int(re.search(r'"looks_per_sample":(\d+)|$', order)[1] or 1)
            self.script = next(one for one in self.scripts if one.listens == listens)
            self.queue = [(now + after, text) for after, text in self.script.before]
        elif '"measure"' in order and not self.measures:
            self.measures = True
            for text in self.script.begins:
                self.say(text)
            self.repeat(now)
        elif order.startswith('{"stop"') and self.script and not self.stopped:
            self.stopped, self.queue = True, []
            for text in self.script.after:
                self.say(text)

    def repeat(self, now):
        self.queue = [(now + after, text) for after, text in self.script.while_it]
        self.queue.append((now + self.script.lasts, None))

    def is_sent(self, text):
        """Whether a real agent with this launch order sends it: it skips samples."""
        if not text.startswith('{"sample"'):
            return True
        self.looks += 1
        return self.looks % self.looks_per_sample == 0

    def tick(self, now):
        if self.name is not None and now >= self.beat:
            self.beat = now + 1
            self.say('"heartbeat"', 0)
        while self.queue and self.queue[0][0] <= now:
            _, text = self.queue.pop(0)
            if text is None:
                self.repeat(now)
            elif self.is_sent(text):
                self.say(text)
        if self.script and not self.queue and not self.measures and not self.held:
            self.held = True
            self.say('{"worker":{"phase":"gathering"}}')


class Agents:
    """All simulated agents, in a thread of this process."""

    def __init__(self, scripts):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port, self.scripts, self.agents, self.ends = self.listener.getsockname()[1], scripts, [], False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def measuring(self):
        return sum(agent.measures for agent in self.agents)

    def serve(self):
        selector = selectors.DefaultSelector()
        selector.register(self.listener, selectors.EVENT_READ, None)
        while not self.ends:
            for key, _ in selector.select(0.005):
                if key.data is None:
                    agent = Agent(self.listener.accept()[0], self.scripts)
                    selector.register(agent.connection, selectors.EVENT_READ, agent)
                    self.agents.append(agent)
                    continue
                try:
                    data = key.data.connection.recv(1 << 16)
                except OSError:
                    data = b""
                try:
                    key.data.hear(data)
                except OSError:
                    data = b""
                if not data:
                    selector.unregister(key.data.connection)
                    key.data.connection.close()
                    self.agents.remove(key.data)
            now = time.monotonic()
            for agent in list(self.agents):
                try:
                    agent.tick(now)
                except OSError:
                    agent.queue = []


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read())[1]) / 1024


def executable(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


def recorded(program, folder):
    shell = executable(f"{folder}/tee", f'#!/bin/sh\nexec {sys.executable} {os.path.abspath(__file__)} --tee {folder} "$@"\n')
    words = coordinator(program, "a,b", shell, folder)
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    logs = [f"{folder}/{node}.log" for node in "ab"]
    until = time.monotonic() + 60
    while not all(os.path.exists(log) and '"phase":"measuring"' in open(log, errors="replace").read() for log in logs):
        if time.monotonic() > until:
            sys.exit("the recorded run did not measure")
        time.sleep(0.1)
    time.sleep(RECORD_SECONDS)
    run.send_signal(signal.SIGINT)
    run.wait(30)
    return [Script(log) for log in logs]


def measured(program, folder, scripts, count, seconds):
    agents = Agents(scripts)
    stub = executable(f"{folder}/stub-{count}", STUB.replace("PORT", str(agents.port)))
    words = coordinator(program, f"n[0-{count - 1}]", stub, folder)
    started = time.monotonic()
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while agents.measuring() < count and run.poll() is None and time.monotonic() < started + 120:
        time.sleep(0.05)
    began = time.monotonic() - started
    if agents.measuring() < count:
        run.kill()
        sys.exit(f"only {agents.measuring()} of {count} agents measure")
    time.sleep(2)
    before, at = cpu_seconds(run.pid), time.monotonic()
    time.sleep(seconds)
    cpu, took = cpu_seconds(run.pid) - before, time.monotonic() - at
    peak = peak_mib(run.pid)
    run.send_signal(signal.SIGINT)
    run.wait(300)
    agents.ends = True
    cost = 1000 * cpu / took / count
    print(f"{count:5} agents: {100 * cpu / took:5.1f} % of a core, {cost:.2f} ms per agent and second, at most {peak:.0f} MiB, "
          f"all measured after {began:.1f} s, ended after {time.monotonic() - at - took:.1f} s", flush=True)
    return cost


def first_picture(program, folder, scripts, count):
    agents = Agents(scripts)
    stub = executable(f"{folder}/stub-live", STUB.replace("PORT", str(agents.port)))
    words = coordinator(program, f"n[0-{count - 1}]", stub, folder, ["--live"])
    started = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        os.execv(program, words)
    seen, first = b"", None
    while time.monotonic() < started + 60:
        try:
            seen += os.read(terminal, 1 << 16)
        except OSError:
            break
        # Text on the screen of the view, after what is printed before it.
        screen = seen.partition(b"\x1b[?1049h")[2]
        if len(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", screen).strip()) > 200:
            first = time.monotonic() - started
            break
    os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    os.waitpid(pid, 0)
    agents.ends = True
    return first


def main():
    if sys.argv[1:2] == ["--tee"]:
        sys.exit(tee(f"{sys.argv[2]}/{sys.argv[3]}.log", sys.argv[4:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--agents", default="16,256")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--runs", type=int, default=3, help="of each number, in turn")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    counts = [int(count) for count in options.agents.split(",")]
    folder = tempfile.mkdtemp(prefix="many-agents-")
    try:
        scripts = recorded(program, folder)
        costs = {count: [] for count in counts}
        for _ in range(options.runs):
            for count in counts:
                costs[count].append(measured(program, folder, scripts, count, options.seconds))
        least, most = (min(costs[count]) for count in (counts[0], counts[-1]))
        print(f"cost per agent at {counts[-1]}: {most / least:.2f} x that at {counts[0]} (least of each)")
        pictures = [first_picture(program, folder, scripts, counts[-1]) for _ in range(options.runs)]
        print("first picture of", counts[-1], "agents:", ", ".join("none" if one is None else f"{one:.2f} s" for one in pictures))
    finally:
        shutil.rmtree(folder)


main()
