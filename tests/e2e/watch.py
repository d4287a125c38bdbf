# SPDX-License-Identifier: Apache-2.0
"""Waiting for what a running program says or does, never for a clock alone."""
import os
import pathlib
import select
import signal
import time

from harness import Failure, end_session


class Watch:
    """A started program whose output is read as it comes. A context manager: at its end
    everything in the program's session is gone."""

    def __init__(self, process, seconds):
        self.process, self.deadline = process, time.monotonic() + seconds
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_session(self.process)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()

    def left(self):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Failure(f"out of time; output so far: {self.text[-500:]!r}")
        return left

    def wait_for(self, words, fd=None):
        """Reads standard output (or fd) until `words` have come; gives the seconds it took."""
        start = time.monotonic()
        self.read_until(words, fd)
        return time.monotonic() - start

    def read_until(self, words, fd=None):
        """The same; gives what came before them."""
        fd = self.process.stdout.fileno() if fd is None else fd
        while words not in self.text:
            if not select.select([fd], [], [], self.left())[0]:
                continue
            try:
                data = os.read(fd, 65536)
            except OSError:  # a terminal whose other side is closed
                data = b""
            if not data:
                raise Failure(f"output ended before {words!r}: {self.text[-500:]!r}")
            self.text += data.decode(errors="replace")
        before, _, self.text = self.text.partition(words)
        return before

    def poll(self, question, what):
        """Asks until the answer is true."""
        while True:
            answer = question()
            if answer:
                return answer
            self.left()
            select.select([], [], [], 0.01)  # asking more often would only burn the core

    def ended(self):
        """Exit status, as a shell shows it."""
        self.poll(lambda: self.process.poll() is not None, "the end")
        status = self.process.returncode
        return 128 - status if status < 0 else status

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()


def children(pid):
    try:
        return [int(one) for one in
                pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def state(pid):
    """The kernel's letter for a process: R, S, T (stopped), Z, ... or '' when gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
