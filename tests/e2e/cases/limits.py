# SPDX-License-Identifier: Apache-2.0
"""Short of memory, failing disks, clocks that are set, suspended processes: nothing is lost."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from cases import control
from harness import case, run_program
from watch import Watch, children, kill, state

MIB = 1 << 20
LIMIT = 512 * MIB


class Group:
    """The files of a control group that does not exist, for TIDEMARK_CGROUP."""

    def __init__(self, folder, version):
        self.folder, self.version = folder, version
        folder.mkdir()
        if version == 1:
            self.put("memory.limit_in_bytes", LIMIT)
            self.put("memory.failcnt", 0)
            self.put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0")
            self.put("memory.stat", "cache 0\ntotal_inactive_file 0")
        else:
            self.put("memory.max", LIMIT)
            self.put("memory.events", "max 0\noom 0\noom_kill 0")
            self.put("memory.stat", "anon 0\ninactive_file 0")
        self.use(100 * MIB)

    def put(self, name, text):
        new = self.folder / "new"
        new.write_text(f"{text}\n")
        new.rename(self.folder / name)

    def use(self, size):
        self.put("memory.usage_in_bytes" if self.version == 1 else "memory.current", size)

    def count_kill(self):
        if self.version == 1:
            self.put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1")
        else:
            self.put("memory.events", "max 9\noom 1\noom_kill 1")


def modes(t, word):
    """The sentences of the recorder in the file so far that have the word."""
    if not t.trace.exists():
        return []
    result = t.tool("report", t.trace, "--json")
    if result.status:
        return []
    return [mode["name"] for mode in json.loads(result.out)["modes"] if word in mode["name"]]


def calls(report, name):
    return sum(row["self"]["allocations"] for row in report["functions"]
               if row["function"] == name)


def start(t, thousands, env=None, options=()):
    command = [t.tidemark, "run", "-o", t.trace, *options, "--", t.target("steady"),
               str(thousands)]
    watch = Watch(t.start(command, env), t.seconds)
    watch.wait_for("ready\n")
    return watch


def add_snapshot(version):
    @case(f"memory/snapshot_v{version}", "a container is killed, and what held its memory is not "
          "on the disk")
    def snapshot(t):
        group = Group(t.folder / "group", version)
        syncs = t.folder / "syncs"
        env = {"TIDEMARK_CGROUP": str(group.folder), "LD_PRELOAD": str(t.target("faulty.so")),
               "FAULTY_SYNCS": str(syncs)}
        with start(t, 1, env) as watch:
            t.equal("snapshots far from the limit", modes(t, "snapshot"), [])
            group.use(LIMIT * 93 // 100)
            watch.poll(lambda: modes(t, "snapshot"), "a snapshot")
            watch.poll(syncs.exists, "a forced write")
            info = t.tool("info", t.trace, "--json")
            section = json.loads(info.out)["sections"][-1]
            t.expect(section["events_in_slices"] >= 1000,
                     f"{section['events_in_slices']} of 1000 events are in the aggregates")
            group.use(LIMIT * 99 // 100)
            watch.poll(lambda: len(modes(t, "snapshot")) >= 2, "a snapshot at the next level")
            group.count_kill()
            for child in children(watch.process.pid):
                kill(child)
            t.equal("exit status", watch.ended(), 137)
        report = t.report(None, "--by", "function")
        t.equal("end", report["end"], "oom")
        t.equal("first_malloc()", calls(report, "first_malloc"), 1000)
        text = t.tool("report", t.trace).out
        t.expect("want of memory" in text, f"the report does not say it: {text[:400]}")


for version in (1, 2):
    add_snapshot(version)


@case("memory/both_killed", "program and recorder die at once, and the trace with them")
def both_killed(t):
    group = Group(t.folder / "group", 2)
    with start(t, 1, {"TIDEMARK_CGROUP": str(group.folder)}) as watch:
        group.use(LIMIT * 96 // 100)
        watch.poll(lambda: modes(t, "snapshot"), "a snapshot")
        for pid in [watch.process.pid, *children(watch.process.pid)]:
            kill(pid)
        t.equal("exit status", watch.ended(), 137)
    report = t.report()
    t.equal("end", report["end"], "collector_lost")
    t.equal("allocations", report["allocations"], 1000)
    # Names may not have been looked up yet: that can be made up for.
    t.equal("symbolize", t.tool("symbolize", t.trace).status, 0)
    t.equal("first_malloc()", calls(t.report(None, "--by", "function"), "first_malloc"), 1000)


@case("memory/last_moment", "blocks made just before the limit are not in what is saved of them")
def last_moment(t):
    group = Group(t.folder / "group", 2)
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("obey")]
    with control.Program(t, command, {"TIDEMARK_CGROUP": str(group.folder)}) as program:
        recorder = program.process.pid
        for number, percent in enumerate((92, 96, 99), 1):
            # It stood still, and finds both at once: new blocks, and how much is used.
            os.kill(recorder, signal.SIGSTOP)
            program.poll(lambda: state(recorder) == "T", "a recorder that stands still")
            program.say("early 1000 48")
            group.use(LIMIT * percent // 100)
            os.kill(recorder, signal.SIGCONT)
            program.poll(lambda: len(modes(t, "snapshot")) == number, f"snapshot {number}")
            info = json.loads(t.tool("info", t.trace, "--json").out)
            t.expect(info["sections"][-1]["events_in_slices"] >= 1000 * number,
                     f"{info['sections'][-1]['events_in_slices']} of {1000 * number} events are "
                     f"in the aggregates at {percent} %")


def faulty(t, **settings):
    return {"LD_PRELOAD": str(t.target("faulty.so")),
            **{f"FAULTY_{name.upper()}": str(value) for name, value in settings.items()}}


def on_bad_disk(t, env, target="big"):
    bare = t.bare([target, "1"])
    recorded = t.record([target, "1"], env=env, options=["--force"])
    t.same_behaviour(bare, recorded)
    t.expect("rror" in recorded.err, f"no word about the bad disk: {recorded.err[-300:]!r}")
    return t.report()


@case("disk/error", "a disk that fails stops the program, or costs the whole trace")
def disk_error(t):
    report = on_bad_disk(t, faulty(t, after=300_000))
    t.expect(report["allocations"] > 1000, f"{report['allocations']} allocations are left")
    t.equal("end", report["end"], "collector_lost")


@case("disk/error_passes", "a disk that failed once leaves a trace that does not say so")
def disk_error_passes(t):
    for _ in range(20):
        t.record(["big", "1"], env=faulty(t, after=300_000, times=1), options=["--force"])
        report = t.report()
        if report["end"] != "exit":
            break
        # It was a write of the journal, which nothing depends on.
        t.nothing_lost(report)
        t.equal("not stored", report["events_not_stored"], 0)
    t.equal("end", report["end"], "disk_error")
    t.expect("disk failed" in (report["note"] or ""), f"note: {report['note']!r}")


@case("disk/error_first", "a disk that takes nothing at all stops the program")
def disk_error_first(t):
    bare = t.bare(["simple", "3"])
    recorded = t.record(["simple", "3"], options=["--or-run"], env=faulty(t, after=0))
    t.same_behaviour(bare, recorded)


@case("disk/slow", "a disk that is slow for a while ends the recording")
def disk_slow(t):
    report, _ = t.compare(["big", "1"], env=faulty(t, slow=5, slow_ms=3000), alone=False,
                          stacks=False)
    t.nothing_lost(report)
    t.equal("not stored", report["events_not_stored"], 0)
    t.expect(report["waited_ns"] > 3e9, f"waited {report['waited_ns']} ns: it was not slow")


@case("disk/still", "a recorder that gets no processor for a while is taken for a stopped one")
def disk_still(t):
    # Its threads are not stopped, but none of them gets on for longer than a stopped one is borne.
    report, _ = t.compare(["big", "1"], alone=False, stacks=False,
                          env=faulty(t, slow=1, slow_at=8, slow_ms=9000, still=1))
    t.nothing_lost(report)
    t.equal("end", report["end"], "exit")
    t.expect(report["waited_ns"] > 6e9, f"waited {report['waited_ns']} ns: it was not still")


@case("disk/hangs", "a disk that hangs stops the program, or costs the figures")
def disk_hangs(t):
    # Longer than the recorder waits with the program.
    report, _ = t.compare(["big", "1"], env=faulty(t, slow=1, slow_at=8, slow_ms=18000),
                          alone=False, stacks=False)
    t.nothing_lost(report)
    t.expect("took nothing" in (report["note"] or ""), f"note: {report['note']!r}")
    t.expect(0 < report["events_not_stored"] < 1_900_000,
             f"{report['events_not_stored']} events are not stored")
    t.equal("verify", t.tool("verify", t.trace).status, 0)


def policies(pid):
    """Of each thread: 0 as any other, 5 only when nobody else wants the processor."""
    found = []
    for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            found.append(int(stat.read_text().rpartition(")")[2].split()[38]))
        except OSError:
            pass  # it has ended
    return found


def may_come_back():
    """As the recorder finds out: in a process of its own, since there may be no way back."""
    text = ("import os; none = os.sched_param(0); os.sched_setscheduler(0, os.SCHED_IDLE, none); "
            "os.sched_setscheduler(0, os.SCHED_OTHER, none)")
    return subprocess.run([sys.executable, "-c", text], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


@case("giveway/threads", "recording takes the processor from a program's partner, or is starved")
def giveway_threads(t):
    if not may_come_back():
        t.skip("no right to compete again after giving way")
    with start(t, 400) as watch:
        tool = watch.process.pid
        # The drain and the writing thread; and the one that looks at memory where there is no limit.
        watch.poll(lambda: policies(tool).count(5) >= 2, "two threads that give way")
        t.equal("the program's", policies(children(tool)[0]), [0])
        watch.send(b"x")
        t.equal("status", watch.ended(), 3)
    t.figures_match(t.report(None, "--by", "function", "--stacks"), t.ledger())


@case("giveway/crowd", "on a crowded machine a program waits for a recorder that is starved")
def giveway_crowd(t):
    spin = "import os, time; end = time.time() + 100\nwhile time.time() < end: pass"
    crowd = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2 * os.cpu_count())]
    try:
        report, _ = t.compare(["big", "1"], alone=False, stacks=False)
        t.nothing_lost(report)
        t.equal("end", report["end"], "exit")
    finally:
        for one in crowd:
            one.kill()
            one.wait()


def own_kb(pid):
    """What is neither a file's nor shared with files; memory shared with the program included."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem")))


@case("process/exec_memory", "the recorder's memory grows with each exec of a long chain")
def exec_memory(t):
    """Each image has some memory shared with its agent, a model, names: 1.3 MB if they stay."""
    text = '#!/bin/sh\n[ "$1" -gt 0 ] && exec "$0" $(($1-1))\necho ready; exec cat\n'
    chain = t.folder / "chain"
    chain.write_text(text)
    chain.chmod(0o755)
    with Watch(t.start([t.tidemark, "run", "-o", t.trace, "--", chain, "150"]),
               t.seconds) as watch:
        watch.wait_for("ready\n")
        watch.poll(lambda: own_kb(watch.process.pid) < 60_000, "less than 60 MB in use")
        watch.process.stdin.close()
        t.equal("status", watch.ended(), 0)
    sections = t.report(None, "--image", "all")["sections"]
    t.expect(len(sections) >= 151, f"{len(sections)} images")
    t.equal("lost", sum(section["lost_events"] for section in sections), 0)


@case("clock/steps", "setting the clock changes times, figures, or makes tidemark wait")
def clock_steps(t):
    for step in (86400, -86400):
        t.trace.unlink(missing_ok=True)
        report, _ = t.compare(["steady", "20"], env=faulty(t, clock=step), alone=False,
                              stacks=False)
        t.expect(report["duration_ns"] < 60e9, f"duration {report['duration_ns']} ns")


def stop(pids, watch):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    watch.poll(lambda: all(state(pid) == "T" for pid in pids), "a stop")


def add_suspended(name, chosen):
    @case(f"suspend/{name}", f"a suspend of {name} loses events or ends the recording", 300)
    def suspended(t):
        with start(t, 400) as watch:
            tool = watch.process.pid
            program = next(pid for pid in children(tool)
                           if os.readlink(f"/proc/{pid}/exe").endswith("/steady"))
            pids = chosen(tool, program)
            watch.send(b"x")  # busy from here on: it is stopped anywhere
            before = watch.left()
            stop(pids, watch)
            # Longer than the agent bears a recorder that stands still, if it does not itself.
            length = 6 if len(pids) > 1 else 0.3
            if t.long and pids != [tool]:
                length = 180
            watch.poll(lambda: before - watch.left() > length, "time")
            for pid in reversed(pids):
                os.kill(pid, signal.SIGCONT)
            if pids == [tool] and before - watch.left() > 4:
                t.skip("this machine is too busy to stop the recorder for a moment only")
            watch.wait_for("done\n")
            t.equal("exit status", watch.ended(), 3)
        report = t.report(None, "--by", "function", "--stacks")
        t.nothing_lost(report)
        t.figures_match(report, t.ledger())


add_suspended("program", lambda tool, program: [program])
add_suspended("recorder", lambda tool, program: [tool])
add_suspended("both", lambda tool, program: [program, tool])


@case("memory/max", "--max-memory is not kept, or what was given up is not said", 120)
def max_memory(t):
    bare = t.bare(["hoard", "1500"])
    recorded = t.record(["hoard", "1500"], options=["--max-memory", "48M"])
    t.same_behaviour(bare, recorded)
    report = t.report(None, "--by", "function")
    # Resident pages of programs and libraries are not counted: they are no memory of its own.
    t.expect(report["collector_bytes"] < (48 + 24) * MIB,
             f"the recorder took {report['collector_bytes'] / MIB:.1f} MiB")
    sampled = [mode["name"] for mode in report["modes"] if mode["name"].startswith("sampled ")]
    t.expect(sampled and "short of memory" in sampled[0], f"modes: {report['modes']}")
    t.expect("Memory was short" in (report["note"] or ""), f"note: {report['note']!r}")
    # Of what was sampled, 75 MB at most, every 64 KiB: one standard deviation is 3 %. Where memory
    # stays short the interval grows, and so does the deviation.
    truth = t.ledger()["allocations"]
    interval = max(int(name.split()[1]) for name in sampled)
    t.expect(abs(report["allocations"] - truth) < truth * max(0.25, 5 * (interval / 75e6) ** 0.5),
             f"{report['allocations']} allocations, the program made {truth}")
    t.equal("unfreed, of those that were recorded", report["unfreed_bytes"], 0)
    t.equal("lost events", report["lost_events"], 0)
    shown = t.tool("report", "--section", "timeline", t.trace).out
    t.expect("short of memory" in shown, f"the timeline does not say it: {shown[-600:]}")


@case("memory/max_ample", "a limit that is never met changes figures")
def max_ample(t):
    report, _ = t.compare(["steady", "20"], options=["--max-memory", "1G"])
    t.equal("given up", report["modes"], [])
    for wrong in ("1M", "much", "-5"):
        result = t.tool("run", "--max-memory", wrong, "--", t.target("simple"))
        t.equal(f"exit status with {wrong}", result.status, 2)
        t.expect("max-memory" in result.err, f"the message does not name it: {result.err!r}")
    result = t.record(["simple", "3"], env={"TIDEMARK_MAX_MEMORY": "64M"}, options=["--force"])
    t.equal("exit status with the variable", result.status, 3)


@case("memory/group_shrinks", "the recorder fills up the container that it shares")
def group_shrinks(t):
    group = Group(t.folder / "group", 2)
    with start(t, 1, {"TIDEMARK_CGROUP": str(group.folder)}) as watch:
        group.use(LIMIT * 92 // 100)
        watch.poll(lambda: modes(t, "short of memory"), "something given up")
        watch.send(b"x")
        watch.wait_for("done\n")
        t.equal("exit status", watch.ended(), 3)
    # The recorder's share of the container is not worth giving up exactness.
    report = t.report(None, "--by", "function", "--stacks")
    t.nothing_lost(report)
    t.figures_match(report, t.ledger())


@case("kills/random", "a kill at a bad moment loses events, or leaves a file that does not open", 300)
def kills(t):
    script = pathlib.Path(__file__).resolve().parents[3] / "bench/kills"
    count = "200" if t.long else "16"
    # A case that runs beside others: time in line for a core is not the recorder's.
    result = run_program([sys.executable, script, t.build, "--busy", "--count", count],
                         t.environment(), t.folder, t.seconds)
    t.equal("exit status", result.status, 0)
    t.expect(result.status == 0, result.out[-1500:] + result.err[-500:])


@case("output/copied", "a file that is copied while it is written does not open", 120)
def copied(t):
    copies = []
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("threads"), "race"]
    with Watch(t.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL), t.seconds) as watch:
        watch.poll(lambda: t.trace.exists() and t.trace.stat().st_size > 4096, "a file")
        while watch.process.poll() is None and len(copies) < 25:
            copies.append(t.folder / f"copy{len(copies)}.tide")
            shutil.copyfile(t.trace, copies[-1])
            watch.left()
        t.equal("exit status", watch.ended(), 0)
    whole, before = t.report(), 0
    t.expect(copies, "it ended before a copy could be made")
    for copy in copies:
        report = t.report(copy)
        t.expect(before <= report["allocations"] <= whole["allocations"],
                 f"{copy.name}: {report['allocations']} allocations, after {before}")
        t.expect(report["end"] in ("collector_lost", "exit"), f"{copy.name}: {report['end']}")
        before = report["allocations"]


@case("memory/busy_cores", "a program that takes all cores starves the recorder", 120)
def busy_cores(t):
    hogs = [t.start([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        t.compare(["threads", "churn"], whole=False, stacks=False)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
            for stream in (hog.stdin, hog.stdout, hog.stderr):
                stream.close()
