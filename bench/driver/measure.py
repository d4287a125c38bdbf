# SPDX-License-Identifier: Apache-2.0
"""Runs one command and says what it cost: wall time, CPU time of the tree, memory of the first process.

The wall time ends when the first process ends (its pidfd becomes readable), not when a poll notices it.
Known limit: the peak memory is VmHWM, sampled every 20 ms, so a peak in the last 20 ms may be missed.
"""
import os
import resource
import select
import signal
import subprocess
import time

SAMPLE_MS = 20


class Run:
    """Outcome of one command. `failure` is None, or a sentence that says what went wrong."""

    def __init__(self):
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self.foreign_share = 0.0
        self.peak_rss_bytes = 0
        self.peak_anon_bytes = 0
        self.status = None
        self.output = ""
        self.errors = ""
        self.failure = None


def busy_seconds():
    """CPU seconds that the machine has spent on anything, and on other guests' behalf (steal)."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """CPU seconds of this process and of all children that it has waited for."""
    return sum(os.times()[:4])


def sample_memory(pid, run):
    try:
        with open("/proc/%d/status" % pid, encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    run.peak_rss_bytes = max(run.peak_rss_bytes, int(line.split()[1]) * 1024)
                elif line.startswith("RssAnon:"):
                    run.peak_anon_bytes = max(run.peak_anon_bytes, int(line.split()[1]) * 1024)
    except OSError:
        pass


def limit_address_space(limit_bytes):
    def apply():
        if limit_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return apply


def wait_end(pid, deadline, run, watch_memory):
    """True when the process ended before the deadline; it is left unreaped."""
    pidfd = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        while time.monotonic() < deadline:
            if watch_memory:
                sample_memory(pid, run)
            if poller.poll(SAMPLE_MS if watch_memory else 1000):
                return True
        return False
    finally:
        os.close(pidfd)


def kill_session(pid):
    """The command was started as a session of its own, so its group is what was started here and nothing else."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def describe_status(status):
    if os.WIFSIGNALED(status):
        return "killed by %s" % signal.Signals(os.WTERMSIG(status)).name
    return "exit status %d" % os.WEXITSTATUS(status)


def execute(command, folder, env=None, address_limit=0, time_limit_s=120, watch_memory=False, client=None):
    """Runs `command` to its end with its output in `folder`. `client` is called beside it (a server's load)."""
    run = Run()
    out_path, err_path = os.path.join(folder, "stdout"), os.path.join(folder, "stderr")
    foreign, own = busy_seconds(), own_seconds()
    with open(out_path, "wb") as out, open(err_path, "wb") as err:
        begin = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   start_new_session=True, preexec_fn=limit_address_space(address_limit))
        client_failure = client(process.pid, time_limit_s) if client else None
        if client_failure:
            kill_session(process.pid)
        if not wait_end(process.pid, begin + time_limit_s, run, watch_memory):
            run.failure = "not finished after %d s: ended" % time_limit_s
            kill_session(process.pid)
        run.wall_s = time.monotonic() - begin
        _pid, run.status, usage = os.wait4(process.pid, 0)
        process.returncode = run.status
    kill_session(process.pid)
    run.cpu_s = usage.ru_utime + usage.ru_stime
    run.foreign_share = max(0.0, (busy_seconds() - foreign - (own_seconds() - own)) / run.wall_s)
    with open(out_path, encoding="utf-8", errors="replace") as out:
        run.output = out.read()
    with open(err_path, encoding="utf-8", errors="replace") as err:
        run.errors = err.read()
    if client_failure:
        run.failure = client_failure
    elif run.status != 0 and not run.failure:
        run.failure = describe_status(run.status)
    return run
