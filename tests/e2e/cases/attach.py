# SPDX-License-Identifier: Apache-2.0
"""Going into a running process and leaving it: nothing about it may change."""
import ctypes
import json
import os
import shutil
import signal
import stat
import subprocess
import time

from attaching import WITHOUT_RSEQ, Attachee, Recorder, Stalls, cycles, kernel_state
from cases import control
from harness import Skip, case, start_program

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


@case("attach/pause", "what a pause means in a program that was attached to")
def pause_attached(t):
    with control.Program(t, [t.target("obey")]) as program:
        pid = program.process.pid
        with Recorder(t, pid) as tool:
            control.live_through_pause(t, program, pid)
            tool.ended()
            tool.check("exit")
    report = t.report(t.trace, "--section", "functions")
    control.figures(t, report, freed_paused=10 + 15 + 5, freed_unseen=0)
    # The program may allocate a little for itself, as for its output.
    for name, count in {"make_early": 100, "make_pause": 0, "make_late": 20}.items():
        t.equal(name, control.calls(report, name), count)
    t.expect(report["paused_allocations"] >= 55, f"{report['paused_allocations']} in the pause")


@case("attach/state", "a program's signals, limits, descriptors or folder change")
def same_state(t):
    with Attachee(t, "quiet", env=WITHOUT_RSEQ) as it:
        before, descriptors = it.told(), it.descriptors()
        threads = sorted(os.listdir(f"/proc/{it.pid}/task"))
        # A new thread begins with its signals blocked.
        it.watch.poll(lambda: all("SigBlk:\t0000000000000000" in kernel_state(it.pid, one)
                                  for one in threads), "threads that have begun")
        kept = {one: kernel_state(it.pid, one) for one in threads}
        it.watch.poll(lambda: it.states() == {"S"}, "threads that all sleep")
        memory = it.memory()
        cycles(t, it, 5)
        it.check_memory(memory)
        t.equal("what it is made of", it.told(), before)
        t.equal("descriptors", it.descriptors(), descriptors)
        for one in threads:
            t.equal(f"thread {one}", kernel_state(it.pid, one), kept[one])
        it.finish()


@case("attach/growth", "every attaching leaves mappings or descriptors behind")
def growth(t):
    with Attachee(t, "quiet") as it:
        cycles(t, it, 2)
        maps, descriptors = it.mapped(), it.descriptors()
        cycles(t, it, 200 if t.long else 6)
        t.equal("mappings", it.mapped(), maps)
        t.equal("descriptors", it.descriptors(), descriptors)
        it.finish()


@case("attach/waiting", "system calls of the program fail with EINTR because of us")
def waiting(t):
    with Attachee(t, program="attachee_wait") as it:
        cycles(t, it, 4)
        it.finish(interrupted=0, most=0)


@case("attach/alone", "a wait fails with an error that it does not have: ours went on in its place")
def alone(t):
    with Attachee(t, "alone", program="attachee_wait") as it:
        cycles(t, it, 400 if t.long else 40)
        it.finish(interrupted=0)


@case("attach/time-outs", "a program that sleeps does so for ever, since each stop begins it anew")
def time_outs(t):
    with Attachee(t, "brief", program="attachee_wait") as it:
        ended = time.monotonic() + 1.5
        while time.monotonic() < ended:
            cycles(t, it, 20)
        figures = it.finish(interrupted=0)
        t.expect(figures["least"] > 0, f"a wait of 0.3 s did not end in 1.5 s: {figures}")


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
case("attach/rseq", "a thread inside a restartable sequence is torn out of it")(
    survives(program="attachee_rseq", quick=10, long=1000))
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
    with Attachee(t, "vfork") as it, Stalls() as stalls:
        # Until its child is there: then the thread cannot be stopped for three seconds.
        it.watch.poll(lambda: "D" in it.states(), "the vfork")
        cycles(t, it, 1)
        figures = it.finish()
        t.expect(figures["gap_us"] < (2 + 2 * stalls.longest) * 1000000,
                 f"a thread stood still for {figures['gap_us']} us, the test for {stalls.longest} s")


@case("attach/stopped", "a program that was stopped runs on, or cannot be attached to")
def stopped(t):
    with Attachee(t, "stress", "1", env=WITHOUT_RSEQ) as it:
        os.kill(it.pid, signal.SIGSTOP)
        it.watch.poll(lambda: it.states() == {"T"}, "the stop")
        memory = it.memory()
        cycles(t, it, 2)
        it.watch.poll(lambda: it.states() == {"T"}, "the stop after it")
        it.check_memory(memory)  # else it has run
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
        rows = json.loads(t.tool("list", "--json").out)["processes"]
        why = [row["why"] for row in rows if row["pid"] == it.pid]
        t.expect(len(why) == 1 and "traced" in why[0], f"the list says {why}")
        # A tracer that is a thread of this process: let go by stopping and detaching.
        libc.ptrace(0x4207, it.pid, None, None)
        os.waitpid(it.pid, 0x40000000)
        libc.ptrace(17, it.pid, None, None)
        it.finish()


@case("attach/version", "an agent of another version is spoken to as if it were ours")
def version(t):
    other = t.folder / "libtidemark.so"
    data = bytearray((t.build / "libtidemark.so").read_bytes())
    place = data.find(b"GNU\0", 0, 4096) + 4  # its build-id
    t.need(place > 4, "the agent has no build-id")
    data[place] ^= 1
    other.write_bytes(data)
    with Attachee(t, "stress", "1") as it:
        cycles(t, it, 1)
        code = it.code()
        result = t.tool("attach", str(it.pid), env={"TIDEMARK_AGENT": str(other)})
        t.equal("exit status", result.status, 1)
        t.expect("another version of tidemark" in result.err, f"it says {result.err!r}")
        t.expect(it.code() == code, "the code was changed")
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
            for words in (["-o", t.trace, "-p", str(two.pid)], ["-q", f"--pid={two.pid}"],
                          ["-f", f"-p{two.pid}"]):
                result = t.tool(*words, "--dry-run")
                t.equal(f"exit status of {words} ({result.err})", result.status, 0)
                t.expect(f"Process {two.pid} has" in result.out, f"{words}: {result.out!r}")
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
                """Blocks that it asked the library for, not those of loading it."""
                report = t.tool("report", tool.trace, "--json", "--by", "function")
                rows = json.loads(report.out)["functions"] if report.status == 0 else []
                return any(row["function"] == "load" and row["self"]["allocations"] >= 10
                           for row in rows)
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


@case("attach/crowd", "the end of a block from before is taken for that of the next in its place")
def crowd(t):
    env = dict(os.environ, GLIBC_TUNABLES="glibc.malloc.tcache_count=0")
    with Attachee(t, "1000000", "wait", program="crowd", env=env) as it:
        with Recorder(t, it.pid) as tool:
            it.watch.send(b"g")
            tool.ended()
            report = tool.check(end="exit")
    # 16384 are held, four threads are at work, the C library has some of its own.
    t.expect(report["freed_older"] <= 16384 + 16, f"older blocks: {report['freed_older']}")
    t.expect(report["freed_unseen"] <= 3, f"ends that nobody told: {report['freed_unseen']}")
    t.expect(report["unfreed_allocations"] <= 4, f"unfreed: {report['unfreed_allocations']}")


@case("attach/gap", "a free place that another thread takes first is written over, or attaching fails")
def gap(t):
    with Attachee(t, "stress", "1") as it:
        cycles(t, it, 1, env={"TIDEMARK_TEST_RACE": "island"})
        it.finish()


@case("attach/inside", "a thread inside the bytes that are replaced crashes")
def inside(t):
    with Attachee(t, program="attachee_pc") as it:
        with Recorder(t, it.pid, "--hook", "alloc=slow_alloc", "--hook", "alloc=trap_alloc",
                      "--hook", "alloc=far_alloc") as tool:
            it.finish()
            tool.ended()
