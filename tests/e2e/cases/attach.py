# SPDX-License-Identifier: Apache-2.0
"""Going into a running process and leaving it: nothing about it may change."""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess

from harness import Skip, case, start_program
from watch import Watch, state

WAITING = ["epoll_wait", "sigtimedwait", "semtimedop", "recv", "nanosleep", "poll", "select",
           "read"]


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
        """A live thread's folder: the first thread may be a zombie."""
        tasks = sorted(pathlib.Path(f"/proc/{self.pid}/task").iterdir(), reverse=True)
        return tasks[0]

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


def cycles(t, attachee, count):
    """Goes in and out that many times, without a collector."""
    command = [t.build / "tests/e2e/attach_cycles", t.build / "libtidemark.so", attachee.pid,
               count, 500]
    watch = Watch(start_program(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT), t.seconds)
    with watch:
        said = watch.read_until("end of cycles")
        t.equal(f"{said}: attach_cycles", watch.ended(), 0)


@case("attach/record", "attaching changes a program, or records it wrongly")
def record(t):
    with Attachee(t, "stress", "2") as it:
        code, descriptors = it.code(), it.descriptors()
        for _ in range(2):
            with Recorder(t, it.pid) as tool:
                tool.saw()
                t.expect(it.code() != code, "the code was not patched")
                tool.stop()
                report = tool.check()
            t.expect(it.code() == code, "the code is not as it was")
            t.equal("descriptors", it.descriptors(), descriptors)
            t.expect(report["freed_older"] > 0, "no free of an older block was seen")
            t.equal("freed_unseen", report["freed_unseen"], 0)
        it.finish()


@case("attach/ends", "a recording that ends otherwise than by Ctrl-C is broken")
def ends(t):
    with Attachee(t, "stress", "1") as it:
        code = it.code()
        for how in (signal.SIGTERM, signal.SIGHUP):
            with Recorder(t, it.pid) as tool:
                tool.saw()
                tool.stop(how)
                tool.check()
        with Recorder(t, it.pid, "--time-limit", "200ms") as tool:
            tool.ended()
            tool.check()
        with Recorder(t, it.pid) as tool:
            tool.saw()
            result = t.tool("detach", str(it.pid))
            t.equal(f"detach says {result.err}", result.status, 0)
            tool.ended()
            tool.check()
        t.expect(it.code() == code, "the code is not as it was")
        result = t.tool("detach", str(it.pid))
        t.equal("detach of what is not attached", result.status, 1)
        t.expect("not attached" in result.err, f"it says {result.err!r}")
        it.finish()


@case("attach/target-ends", "a program that ends or executes another leaves a broken trace")
def target_ends(t):
    with Attachee(t, "stress", "1") as it:
        with Recorder(t, it.pid) as tool:
            tool.saw()
            it.finish()
            tool.ended()
            tool.check("exit")
    with Attachee(t, "exec") as it:
        with Recorder(t, it.pid) as tool:
            it.watch.send(b"e")
            it.watch.wait_for("ready\n")
            tool.ended()
            tool.check("exec")
        it.finish()


def guards_of(pid):
    """The processes of tidemark's that trace for the tidemark with this pid."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text()
        except OSError:
            continue
        if "(tm-guard)" in fields and fields.rpartition(")")[2].split()[1] == str(pid):
            found.append(int(folder.name))
    return found


@case("attach/killed", "killing tidemark harms the program, or what it left stays for good")
def killed(t):
    with Attachee(t, "stress", "2") as it:
        code = it.code()
        with Recorder(t, it.pid) as tool:
            tool.saw()
            os.kill(tool.watch.process.pid, signal.SIGKILL)
            tool.watch.ended()
        # Its tracer outlives it, leaves the process, and ends.
        it.watch.poll(lambda: it.code() == code, "the code as it was")
        result = t.tool("detach", str(it.pid))
        t.expect("not attached" in result.err, f"detach says {result.err!r}")
        for clear in ("detach", "attach"):
            with Recorder(t, it.pid) as tool:
                tool.saw()
                for victim in [*guards_of(tool.watch.process.pid), tool.watch.process.pid]:
                    os.kill(victim, signal.SIGKILL)
                tool.watch.ended()
            t.expect(it.code() != code, "the code was restored by nobody")
            if clear == "detach":
                result = t.tool("detach", str(it.pid))
                t.equal(f"detach says {result.err}", result.status, 0)
            else:
                with Recorder(t, it.pid) as tool:
                    tool.saw()
                    tool.stop()
                    tool.check()
            t.expect(it.code() == code, f"the code is not as it was after {clear}")
        with Recorder(t, it.pid) as tool:  # without its tracer it can still leave
            tool.saw()
            for victim in guards_of(tool.watch.process.pid):
                os.kill(victim, signal.SIGKILL)
            tool.stop()
            tool.check()
        t.expect(it.code() == code, "the code is not as it was without its tracer")
        it.finish()


# In the order in which they are reached, when a process is entered for the first time.
STEPS = ["seized", "borrowed", "sent", "calling", "in-call", "called", "calling-back",
         "called-back", "written", "starting", "serving", "opened", "filled", "islands", "begun",
         "returning", "returned", "entered", "noted", "stopped", "moved", "patching", "patched",
         "released", "stopped-again", "restoring", "restored", "left"]
# Where a thread is not where it was: the tracer itself may be killed there, too.
AWAY = ["sent", "in-call", "called", "calling-back", "serving", "begun", "moved", "patching",
        "restoring"]


def kill_at(t, victim, step):
    """Kills tidemark there; the program must not notice, and can be entered again."""
    with Attachee(t, "storm") as it:
        code, descriptors = it.code(), it.descriptors()
        threads = sorted(os.listdir(f"/proc/{it.pid}/task"))
        kept = {one: masks(it.pid, one) for one in threads}
        command = [t.build / "tests/e2e/attach_cycles", t.build / "libtidemark.so", str(it.pid),
                   "1", "500"]
        result = subprocess.run([str(one) for one in command], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=dict(t.environment(), TIDEMARK_TEST_KILL=f"{victim}:{step}"),
                                timeout=t.seconds)
        if victim == "recorder":
            t.equal(f"{step}: how it ended ({result.stdout})", result.returncode, -signal.SIGKILL)
            it.watch.poll(lambda: it.code() == code, f"{step}: the code as it was")
        else:
            t.expect("was killed" in result.stdout, f"{step}: it says {result.stdout!r}")
        it.watch.poll(lambda: {one: masks(it.pid, one) for one in threads} == kept,
                      f"{step}: the signal masks as they were")
        cycles(t, it, 1)
        t.expect(it.code() == code, f"{victim}:{step}: the code is not as it was")
        t.equal(f"{step}: descriptors", it.descriptors(), descriptors)
        it.finish()


@case("attach/target-killed", "tidemark hangs when the program dies while it is being entered",
      seconds=600)
def target_killed(t):
    for step in STEPS if t.long else AWAY:
        with Attachee(t, "stress", "2") as it:
            result = subprocess.run(
                [str(one) for one in (t.build / "tests/e2e/attach_cycles",
                                      t.build / "libtidemark.so", it.pid, 1, 500)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, timeout=t.seconds,
                env=dict(t.environment(), TIDEMARK_TEST_KILL=f"target:{step}"))
            t.expect(result.returncode in (0, 1), f"{step}: it ended with {result.returncode}")
            t.equal(f"{step}: end of the program", it.watch.ended(), 128 + signal.SIGKILL)


def masks(pid, tid):
    return [line for line in kernel_state(pid, tid) if line.startswith(("SigB", "Tracer"))]


@case("attach/killed-inside", "killing tidemark while it goes in or out harms the program",
      seconds=600)
def killed_inside(t):
    for step in STEPS:
        kill_at(t, "recorder", step)


@case("attach/tracer-killed", "killing all of tidemark while it goes in or out harms the program",
      seconds=600)
def tracer_killed(t):
    for step in STEPS if t.long else AWAY:
        kill_at(t, "tracer", step)


@case("attach/twice", "two tidemarks in one process get into each other's way")
def twice(t):
    with Attachee(t, "stress", "1") as it:
        with Recorder(t, it.pid) as tool:
            tool.saw()
            result = t.tool("attach", "-o", t.folder / "second.tide", str(it.pid))
            t.equal("exit status of the second", result.status, 1)
            t.expect("being recorded already" in result.err, f"it says {result.err!r}")
            t.expect(not (t.folder / "second.tide").exists(), "it left a file")
            tool.stop()
            tool.check()
        it.finish()


@case("attach/state", "a program's signals, limits, descriptors or folder change")
def same_state(t):
    with Attachee(t, "quiet") as it:
        before, descriptors = it.told(), it.descriptors()
        threads = sorted(os.listdir(f"/proc/{it.pid}/task"))
        # A new thread begins with its signals blocked.
        it.watch.poll(lambda: all("SigBlk:\t0000000000000000" in kernel_state(it.pid, one)
                                  for one in threads), "threads that have begun")
        kept = {one: kernel_state(it.pid, one) for one in threads}
        cycles(t, it, 5)
        t.equal("what it is made of", it.told(), before)
        t.equal("descriptors", it.descriptors(), descriptors)
        for one in threads:
            t.equal(f"thread {one}", kernel_state(it.pid, one), kept[one])
        it.finish()


def kernel_state(pid, tid):
    text = pathlib.Path(f"/proc/{pid}/task/{tid}/status").read_text()
    return [line for line in text.splitlines()
            if line.startswith(("SigP", "SigB", "SigI", "SigC", "Shd", "Cap", "Seccomp", "NoNew",
                                "TracerPid"))]


@case("attach/growth", "every attaching leaves mappings or descriptors behind")
def growth(t):
    with Attachee(t, "quiet") as it:
        cycles(t, it, 2)
        maps = len((it.task() / "maps").read_text().splitlines())
        descriptors = it.descriptors()
        cycles(t, it, 200 if t.long else 6)
        t.equal("mappings", len((it.task() / "maps").read_text().splitlines()), maps)
        t.equal("descriptors", it.descriptors(), descriptors)
        it.finish()


@case("attach/waiting", "system calls of the program fail with EINTR because of us")
def waiting(t):
    for call in WAITING:
        with Attachee(t, "wait", call) as it:
            cycles(t, it, 2)
            it.finish(interrupted=0, rounds=0)


def survives(*mode, program="attachee", quick=6, long=1000):
    def function(t):
        with Attachee(t, *mode, program=program) as it:
            cycles(t, it, long if t.long else quick)
            it.finish()
    return function


SURVIVED = [
    ("stress", ["stress", "8"]), ("churn", ["churn"]), ("storm", ["storm"]),
    ("nested", ["nested"]), ("tight", ["tight"]), ("fork", ["fork"]),
]
for name, mode in SURVIVED:
    case(f"attach/{name}", f"attaching harms a program ({name})", seconds=1200)(survives(*mode))
case("attach/registers", "static programs count wrongly: a register was not kept")(
    survives(program="attachee_ipa"))
case("attach/zombie", "a program whose first thread has ended cannot be attached to")(
    survives("zombie", quick=3, long=20))


def foreign(program):
    def function(t):
        with Attachee(t, "stress", "2", program=program) as it:
            cycles(t, it, 1000 if t.long else 2)
            with Recorder(t, it.pid) as tool:
                tool.saw()
                tool.stop()
                tool.check()
            it.finish()
    return function


for name in ("static", "musl", "musl_static", "jemalloc"):
    case(f"attach/{name}", f"programs of this kind cannot be recorded: {name}", seconds=1200)(
        foreign(f"attachee_{name}"))


@case("attach/vfork", "one thread in vfork keeps all others waiting")
def vfork(t):
    with Attachee(t, "vfork") as it:
        # Until its child is there: then the thread cannot be stopped for three seconds.
        it.watch.poll(lambda: "D" in {thread_state(it.pid, one) for one in
                                      os.listdir(f"/proc/{it.pid}/task")}, "the vfork")
        cycles(t, it, 1)
        figures = it.finish()
        t.expect(figures["gap_us"] < 2000000,
                 f"a thread stood still for {figures['gap_us']} us")


def thread_state(pid, tid):
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{tid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


@case("attach/stopped", "a program that was stopped runs on, or cannot be attached to")
def stopped(t):
    with Attachee(t, "stress", "1") as it:
        os.kill(it.pid, signal.SIGSTOP)
        it.watch.poll(lambda: state(it.pid) == "T", "the stop")
        cycles(t, it, 2)
        it.watch.poll(lambda: state(it.pid) == "T", "the stop after it")
        os.kill(it.pid, signal.SIGCONT)
        it.finish()


@case("attach/seccomp", "a program with a seccomp filter is killed by attaching")
def seccomp(t):
    t.need_root()
    with Attachee(t, "jail", "2") as it:
        cycles(t, it, 2)
        with Recorder(t, it.pid) as tool:
            tool.saw()
            tool.stop()
            tool.check()
        it.finish()


NOBODY = 65534


def as_nobody(t, *arguments):
    """The tool, copied to where it may be read, without rights."""
    folder = t.folder / "copy"
    if not folder.exists():
        folder.mkdir()
        for name in ("tidemark", "libtidemark.so"):
            shutil.copy(t.build / name, folder)
    t.folder.chmod(0o777)
    process = start_program([folder / "tidemark", *arguments], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=t.folder,
                            env=t.environment(), user=NOBODY, group=NOBODY, extra_groups=[],
                            text=True)
    out, err = process.communicate(timeout=t.seconds)
    return process.returncode, out + err


@case("attach/rights", "without the right to attach, nobody is told which one is missing")
def rights(t):
    t.need_root()
    with Attachee(t, "quiet") as it:
        status, said = as_nobody(t, "attach", str(it.pid))
        t.equal("exit status for another user's process", status, 1)
        t.expect("belongs to another user" in said and "sudo" in said, f"it says {said!r}")
        it.finish()
    with Attachee(t, "jail", "1", user=NOBODY, group=NOBODY, extra_groups=[]) as it:
        status, said = as_nobody(t, "attach", str(it.pid))
        t.equal("exit status for a filter", status, 1)
        t.expect("seccomp filter" in said and "dormant" in said, f"it says {said!r}")
        it.finish()
    with Attachee(t, "stress", "1", user=NOBODY, group=NOBODY, extra_groups=[]) as it:
        status, said = as_nobody(t, "attach", "-t", "100ms", "-o", "own.tide", str(it.pid))
        if "kernel does not let us" in said or "ptrace_scope" in said:
            raise Skip("this machine does not let users trace their own processes")
        t.equal(f"exit status for one's own process ({said})", status, 0)
        it.finish()


@case("attach/refused", "what cannot be attached to is entered all the same, or nobody says why")
def refused(t):
    def says(words, *arguments):
        result = t.tool("attach", *arguments)
        t.expect(result.status == 1 and words in result.err,
                 f"attach {arguments}: status {result.status}, {result.err!r}")
    says("no process", "999999999")
    says("no process is called", "a-program-of-this-name")
    says("is not the number", "0")
    with Attachee(t, "stress", "1", program="attachee_stripped") as it:
        says("stripped", str(it.pid))
        it.finish()
    with Attachee(t, "notsc") as it:
        says("PR_SET_TSC", str(it.pid))
        it.finish()
    with Attachee(t, "quiet") as it:
        libc = ctypes.CDLL(None, use_errno=True)
        ptrace_seize = 0x4206
        t.equal("ptrace", libc.ptrace(ptrace_seize, it.pid, None, None), 0)
        says("is being traced by process", str(it.pid))
        # A tracer that is a thread of this process: let go by stopping and detaching.
        libc.ptrace(0x4207, it.pid, None, None)
        os.waitpid(it.pid, 0x40000000)
        libc.ptrace(17, it.pid, None, None)
        it.finish()


@case("attach/names", "attaching by name takes one of several, or does not find the only one")
def names(t):
    program = t.folder / "a-rare-name"
    shutil.copy(t.target("attachee"), program)
    with Attachee(t, "quiet", program=program) as one:
        result = t.tool("attach", "--dry-run", "a-rare-name")
        t.equal(f"exit status ({result.err})", result.status, 0)
        t.expect(f"Process {one.pid} has" in result.out, f"it says {result.out!r}")
        t.expect("malloc" in result.out and "stand still" in result.out,
                 f"it says {result.out!r}")
        with Attachee(t, "quiet", program=program) as two:
            result = t.tool("attach", "a-rare-name")
            t.equal("exit status", result.status, 1)
            t.expect(str(one.pid) in result.err and str(two.pid) in result.err,
                     f"it says {result.err!r}")
            result = t.tool("-p", str(two.pid), "--dry-run")
            t.equal(f"exit status of -p ({result.err})", result.status, 0)
            two.finish()
        one.finish()


@case("attach/owner", "under sudo the trace belongs to root")
def owner(t):
    t.need_root()
    with Attachee(t, "stress", "1") as it:
        result = t.tool("attach", "-t", "50ms", "-o", t.trace, str(it.pid),
                        env={"SUDO_UID": "1234", "SUDO_GID": "2345"})
        t.equal(f"exit status ({result.err})", result.status, 0)
        facts = t.trace.stat()
        t.equal("owner", (facts.st_uid, facts.st_gid), (1234, 2345))
        t.equal("mode", stat.S_IMODE(facts.st_mode), 0o600)
        it.finish()


@case("attach/later", "an allocator that is loaded after attaching is not seen")
def later(t):
    with Attachee(t, "load", t.target("libbump.so")) as it:
        with Recorder(t, it.pid) as tool:
            it.watch.send(b"l")
            it.watch.wait_for("loaded\n")
            def seen():
                report = t.tool("report", tool.trace, "--json", "--by", "function")
                return '"load"' in report.out
            tool.watch.poll(seen, "the library's allocations")
            tool.stop()
            tool.check()
        it.finish()


def maps(program):
    def function(t):
        with Attachee(t, program=program) as it:
            with Recorder(t, it.pid) as tool:
                it.watch.send(b"m")
                it.watch.wait_for("mapped\n")
                tool.stop()
                tool.check()
                report = t.report(tool.trace, "--filter", "kind=mapped", "--by", "function")
                whole = t.report(tool.trace)
            rows = {row["function"]: row["self"] for row in report["functions"]}
            mib = 1 << 20
            mapped, grown = rows["map_piece"], rows["grow_piece"]
            t.equal("mapped", (mapped["allocations"], mapped["allocated_bytes"]), (4, 12 * mib))
            t.equal("given back", mapped["frees"], 3)
            t.equal("still mapped", mapped["unfreed_bytes"], 3 * mib)
            t.equal("grown", (grown["allocations"], grown["unfreed_bytes"]), (1, 5 * mib))
            t.equal("children_not_recorded", whole["children_not_recorded"], 3)
            it.finish()
    return function


for name, program in (("maps", "attachee_maps"), ("maps_musl", "attachee_maps_musl"),
                      ("maps_static", "attachee_maps_static")):
    case(f"attach/{name}", "mapped memory and children of attached programs are not seen")(
        maps(program))


@case("attach/unload", "stacks through libraries that were unloaded have wrong names")
def unload(t):
    with Attachee(t, "unload", t.targets) as it:
        with Recorder(t, it.pid) as tool:
            it.watch.send(b"u")
            it.watch.wait_for("unloaded\n")
            tool.stop()
            tool.check()
            report = t.report(tool.trace, "--by", "function")
        rows = {row["function"]: row["self"]["allocations"] for row in report["functions"]}
        t.equal("plug_a_make(): allocations", rows.get("plug_a_make"), 500)
        t.equal("plug_b_make(): allocations", rows.get("plug_b_make"), 500)
        it.finish()


@case("attach/inside", "a thread inside the bytes that are replaced crashes")
def inside(t):
    with Attachee(t, program="attachee_pc") as it:
        with Recorder(t, it.pid, "--hook", "alloc=slow_alloc", "--hook", "alloc=trap_alloc",
                      "--hook", "alloc=far_alloc") as tool:
            it.finish()
            tool.ended()
