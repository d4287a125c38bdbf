# SPDX-License-Identifier: Apache-2.0
"""Programs to be attached to, and what attaches to them."""
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

from harness import start_program
from watch import Watch


class Attachee:
    """The target program, at work."""
    def __init__(self, t, *mode, program="attachee", **how):
        self.t = t
        self.watch = Watch(start_program([t.target(program), *mode], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         cwd=t.folder, start_new_session=True, **how), t.seconds)
        self.pid = self.watch.process.pid
        self.watch.wait_for("ready\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watch.__exit__()

    def task(self):
        """A live thread's folder: the first thread's, which stays, unless it is a zombie."""
        tasks = pathlib.Path(f"/proc/{self.pid}/task")
        if thread_state(self.pid, self.pid) not in ("", "X", "Z"):
            return tasks / str(self.pid)
        return max(tasks.iterdir())

    def code(self):
        """The bytes of all its code that comes from files, by place."""
        found = {}
        with open(self.task() / "mem", "rb", 0) as memory:
            for line in (self.task() / "maps").read_text().splitlines():
                start, end = (int(one, 16) for one in line.split()[0].split("-"))
                if "x" in line.split()[1] and "/" in line:
                    memory.seek(start)
                    found[start] = memory.read(end - start)
        return found

    def mapped(self):
        """How many mappings it has, and of how many bytes: the kernel may make one of several."""
        lines = (self.task() / "maps").read_text().splitlines()
        ranges = [[int(one, 16) for one in line.split()[0].split("-")] for line in lines]
        return len(ranges), sum(end - start for start, end in ranges)

    def memory(self, ranges=None):
        """The bytes of all its memory, or of these ranges, by place; not what the kernel keeps there for itself."""
        found = {}
        if ranges is None:
            lines = (self.task() / "maps").read_text().splitlines()
            ranges = [tuple(int(one, 16) for one in line.split()[0].split("-")) for line in lines
                      if line.split()[1][0] == "r" and "[v" not in line]
        with open(self.task() / "mem", "rb", 0) as memory:
            for start, end in ranges:
                memory.seek(start)
                found[start, end] = memory.read(end - start)
        return found

    def states(self):
        """The letters of all its threads."""
        return {thread_state(self.pid, one) for one in os.listdir(f"/proc/{self.pid}/task")}

    def check_memory(self, before):
        """Nothing of what was there before may have changed."""
        after = self.memory(before)
        for (start, end), data in before.items():
            self.t.expect(after[start, end] == data, f"the memory from {start:x} to {end:x} has changed")

    def descriptors(self):
        return sorted(os.listdir(self.task() / "fd"))

    def told(self):
        """What it prints of itself."""
        self.watch.send(b"s")
        return self.watch.read_until("end of state\n")

    def finish(self, **wanted):
        """Ends it. It must have found nothing wrong."""
        self.watch.send(b"x")
        self.watch.wait_for("bad=")
        line = "bad=" + self.watch.read_until("\n")
        self.t.equal("exit status of the program", self.watch.ended(), 0)
        figures = {key: int(value) for key, value in re.findall(r"(\w+)=(-?\d+)", line)}
        for key, value in dict(wanted, bad=0).items():
            self.t.equal(key, figures[key], value)
        return figures


class Recorder:
    """tidemark attach, at work."""
    def __init__(self, t, pid, *options, trace=None):
        self.t, self.trace = t, trace or t.trace
        command = [t.tidemark, "attach", "-f", "-o", self.trace, *options, str(pid)]
        self.watch = Watch(start_program(command, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         env=t.environment(), cwd=t.folder,
                                         start_new_session=True), t.seconds)
        self.watch.wait_for("recording to")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watch.__exit__()

    def saw(self, least=200):
        """Waits for that many allocations in the file."""
        def enough():
            result = self.t.tool("report", self.trace, "--json")
            found = re.search(r'"allocations": ?(\d+)', result.out)
            return found and int(found.group(1)) >= least
        self.watch.poll(enough, "allocations in the trace")

    def stop(self, number=signal.SIGINT):
        os.kill(self.watch.process.pid, number)
        self.ended()

    def ended(self):
        self.t.equal("exit status of tidemark", self.watch.ended(), 0)

    def check(self, end="detached"):
        report = self.t.report(self.trace)
        self.t.equal("end", report["end"], end)
        self.t.equal("source", report["source"], "attach")
        self.t.equal("lost_events", report["lost_events"], 0)
        verdict = self.t.tool("verify", self.trace)
        self.t.equal(f"verify says {verdict.out[-300:]} {verdict.err[-300:]}", verdict.status, 0)
        return report


def cycles(t, attachee, count, env=None):
    """Goes in and out that many times, without a collector."""
    command = [t.build / "tests/e2e/attach_cycles", t.build / "libtidemark.so", attachee.pid,
               count, 500]
    watch = Watch(start_program(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, env=dict(os.environ, **(env or {}))),
                  t.seconds)
    with watch:
        said = watch.read_until("end of cycles")
        t.equal(f"{said}: attach_cycles", watch.ended(), 0)


# The kernel writes the processor's number into the memory of each thread that has rseq.
WITHOUT_RSEQ = dict(os.environ, GLIBC_TUNABLES="glibc.pthread.rseq=0")


def kernel_state(pid, tid):
    text = pathlib.Path(f"/proc/{pid}/task/{tid}/status").read_text()
    return [line for line in text.splitlines()
            if line.startswith(("SigP", "SigB", "SigI", "SigC", "Shd", "Cap", "Seccomp", "NoNew",
                                "TracerPid"))]


def thread_state(pid, tid):
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{tid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


class Stalls:
    """How long a thread of the test itself did not run: so long the machine let nobody run."""
    def __enter__(self):
        self.longest, self.over = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        last = time.monotonic()
        while not self.over.wait(0.01):
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last), now

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
