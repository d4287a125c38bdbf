# SPDX-License-Identifier: Apache-2.0
"""When our own side fails: the collector killed or stopped, disks full, folders closed."""
import json
import os
import pathlib
import random
import re
import signal
import struct

from harness import case, run_program
from watch import Watch, children, kill

READ_SHARE = 0.03


def start_steady(t, thousands):
    """The steady program under the tool, up to its first "ready"."""
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("steady"), str(thousands)]
    watch = Watch(t.start(command), t.seconds)
    watch.wait_for("ready\n")
    return watch


def partial_report(t):
    """The report of a file that is still written, or None while there is nothing yet."""
    if not t.trace.exists():
        return None
    result = t.tool("report", t.trace, "--json", "--by", "function")
    if result.status:
        return None
    report = json.loads(result.out)
    return report if report["allocations"] >= 1000 else None


@case("collector/killed", "the program dies or hangs when tidemark is killed")
def collector_killed(t):
    with start_steady(t, 2000) as watch:
        watch.poll(lambda: partial_report(t), "the first phase in the file")
        kill(watch.process.pid)
        watch.send(b"x")
        watch.wait_for("done\n")
    report = t.report(None, "--by", "function")
    t.equal("end", report["end"], "unknown")
    rows = {row["function"]: row["self"]["allocations"] for row in report["functions"]}
    t.equal("first_malloc(): allocations", rows.get("first_malloc"), 1000)


@case("collector/stopped", "the program hangs for ever when tidemark is stopped")
def collector_stopped(t):
    with start_steady(t, 3000) as watch:
        os.kill(watch.process.pid, signal.SIGSTOP)
        watch.send(b"x")
        took = watch.wait_for("done\n")
        t.expect(took < 15, f"the program waited {took:.1f} s")
        os.kill(watch.process.pid, signal.SIGCONT)
        t.equal("exit status", watch.ended(), 3)
    report = t.report(None, "--by", "function")
    rows = {row["function"]: row["self"]["allocations"] for row in report["functions"]}
    t.equal("first_malloc(): allocations", rows.get("first_malloc"), 1000)
    t.expect(report["lost_events"] > 0, "events were lost and none is counted")
    t.equal("end", report["end"], "agent_off")
    t.expect(report["note"], "no sentence says that recording stopped early")


@case("collector/stopped_idle", "a short stop of tidemark loses events")
def collector_stopped_shortly(t):
    with start_steady(t, 1) as watch:
        os.kill(watch.process.pid, signal.SIGSTOP)
        watch.send(b"x")
        watch.wait_for("done\n")
        os.kill(watch.process.pid, signal.SIGCONT)
        t.equal("exit status", watch.ended(), 3)
    report = t.report(None, "--by", "function", "--stacks")
    t.nothing_lost(report)
    t.figures_match(report, t.ledger())


@case("collector/full_disk", "a full disk stops or kills the program", 90)
def full_disk(t):
    t.need_root()
    t.need_tool("unshare")
    small = t.folder / "small"
    small.mkdir()
    text = (f"mount -t tmpfs -o size=256k none {small} || exit 77\n"
            f"{t.tidemark} run -o {small}/x.tide -- {t.target('big')} 4\n"
            f"status=$?\ncp {small}/x.tide {t.trace}\nexit $status\n")
    result = run_program(["unshare", "-m", "sh", "-c", text], t.environment(), t.folder, t.seconds)
    if result.status == 77:
        t.skip("tmpfs cannot be mounted here")
    t.equal("exit status", result.status, 0)
    t.expect("space" in result.err or "full" in result.err,
             f"no word about the full disk: {result.err[-400:]!r}")
    report = t.report()
    t.expect(report["allocations"] > 0, "nothing is left of the trace")


@case("output/unwritable", "an output that cannot be written goes unnoticed")
def unwritable(t):
    result = t.tool("run", "-o", "/proc/nowhere/x.tide", "--", t.target("simple"), "3")
    t.expect(result.status not in (0, 3), f"exit status {result.status}")
    t.equal("output of the program that must not run", result.out, "")
    t.expect("/proc/nowhere" in result.err, f"the message does not name it: {result.err!r}")
    result = t.tool("run", "--or-run", "-o", "/proc/nowhere/x.tide", "--", t.target("simple"), "3")
    t.equal("exit status with --or-run", result.status, 3)
    t.equal("output with --or-run", result.out, "simple was here\n")


@case("output/existing", "an older trace is overwritten, or a second run does not start")
def existing(t):
    t.trace.write_text("precious")
    recorded = t.record(["simple", "3"])
    t.equal("exit status", recorded.status, 3)
    t.equal("the older file", t.trace.read_text(), "precious")
    made = [path for path in t.folder.glob("trace*") if path != t.trace]
    t.need(len(made) == 1, f"the second run left {[p.name for p in made]}")
    t.expect(made[0].name in recorded.err, f"{made[0].name} is not named: {recorded.err!r}")
    t.figures_match(t.report(made[0], "--by", "function", "--stacks"), t.ledger())
    t.record(["simple", "3"], options=["--force"])
    t.figures_match(t.report(None, "--by", "function", "--stacks"), t.ledger())


@case("output/names", "-o with a folder, parents, or %-letters goes somewhere else")
def names(t):
    (t.folder / "into").mkdir()
    t.tool("run", "-o", t.folder / "into", "--", t.target("simple"))
    made = [path.name for path in (t.folder / "into").iterdir()]
    t.expect(len(made) == 1 and re.fullmatch(r"tidemark\.simple\.\d+\.tide", made[0]),
             f"in a folder: {made}")
    t.tool("run", "-o", t.folder / "a/b/c.xyz", "--", t.target("simple"))
    t.expect((t.folder / "a/b/c.xyz").exists(), "parents or a suffix of its own")
    t.tool("run", "-o", "p%p.n%n.h%h", "--", t.target("simple"))
    host = re.escape(os.uname().nodename)
    made = [path.name for path in t.folder.glob("p*.n*")]
    t.expect(len(made) == 1 and re.fullmatch(r"p\d+\.nsimple\.h" + host, made[0]), f"%: {made}")
    t.tool(t.target("simple"))
    made = [path for path in t.folder.glob("tidemark.simple.*.tide")]
    t.need(len(made) == 1, f"default name: {[p.name for p in t.folder.iterdir()]}")
    t.equal("mode", oct(made[0].stat().st_mode & 0o777), "0o600")
    pid = int(made[0].name.split(".")[2])
    t.equal("pid in the name", t.report(made[0])["pid"], pid)


def bytes_read(t, path):
    """Bytes of the file that a report reads or maps, as the kernel saw it."""
    log = t.folder / "strace"
    result = run_program(["strace", "-f", "-o", log, "-e", "trace=openat,open,read,pread64,readv,"
                          "preadv,mmap,close", t.tidemark, "report", path, "--json"],
                         t.environment(), t.folder, t.seconds)
    t.need(result.status == 0, f"report under strace: {result.err[-300:]}")
    total, descriptors = 0, set()
    for line in log.read_text(errors="replace").splitlines():
        opened = re.search(r'open(?:at)?\(.*"([^"]*)".*= (\d+)$', line)
        if opened:
            (descriptors.add if opened[1] == str(path) else descriptors.discard)(opened[2])
        call = re.search(r"(read|pread64|readv|preadv)\((\d+),.*= (\d+)$", line)
        if call and call[2] in descriptors:
            total += int(call[3])
        mapped = re.search(r"mmap\([^,]*, (\d+), [^,]*, [^,]*, (\d+),.*= 0x", line)
        if mapped and mapped[2] in descriptors:
            total += int(mapped[1])
    return total


@case("report/bytes_read", "opening a large trace takes as long as reading all of it", 120)
def read_little(t):
    t.need_tool("strace")
    recorded = t.record(["big", "40" if t.long else "12"])
    t.need(recorded.status == 0, recorded.err[-300:])
    size = t.trace.stat().st_size
    read = bytes_read(t, t.trace)
    t.expect(0 < read < READ_SHARE * size, f"{read} of {size} bytes read ({read / size:.1%})")
    report = t.report(None, "--by", "function", "--stacks")
    t.figures_match(report, t.ledger())
    t.expect(report["agent_bytes"] <= 24 << 20, f"agent_bytes {report['agent_bytes']}")


@case("report/bytes_read_killed", "a large trace whose collector was killed opens slowly", 120)
def read_little_killed(t):
    t.need_tool("strace")
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("big"), "400"]
    with Watch(t.start(command), t.seconds) as watch:
        watch.poll(lambda: t.trace.exists() and t.trace.stat().st_size > 64_000_000, "64 MB")
        kill(watch.process.pid)
        size = watch.poll(lambda: t.trace.stat().st_size, "size")
        read = bytes_read(t, t.trace)
        t.expect(0 < read < READ_SHARE * size, f"{read} of {size} bytes read ({read / size:.1%})")
        t.equal("end", t.report()["end"], "unknown")


def head(path):
    with open(path, "rb") as page:
        return page.read(192)


def killed_once(t, number):
    """Kills the program when one of its threads has reached a random count."""
    path = t.folder / f"page{number}"
    trace = t.folder / f"killed{number}.tide"
    path.write_bytes(bytes(4096))
    command = [t.tidemark, "run", "-o", trace, "--", t.target("killed")]
    with Watch(t.start(command, {"LEDGER": str(path)}), t.seconds) as watch:
        watch.wait_for("ready\n")
        moment = int(10 ** random.uniform(0, 5.3))
        while max(struct.unpack_from("<Q", head(path), at)[0]
                  for at in (0, 64, 128)) < moment:
            watch.left()
        for child in children(watch.process.pid):
            kill(child)
        t.equal(f"exit status of run {number}", watch.ended(), 137)
    judge_killed(t, number, path, trace)
    trace.unlink(missing_ok=True)


def judge_killed(t, number, path, trace):
    report = t.report(trace, "--by", "function")
    t.equal(f"run {number}: lost_events", report["lost_events"], 0)
    t.equal(f"run {number}: end", report["end"], "signal")
    rows = {row["function"]: row["self"] for row in report["functions"]}
    page = pathlib.Path(path).read_bytes()
    for thread in range(3):
        made, freed, size = struct.unpack_from("<3Q", page, 64 * thread)
        row = rows.get(f"killed_malloc_{thread}",
                       {"allocations": 0, "frees": 0, "allocated_bytes": 0})
        # The kill falls between the call and the count: one more may be published.
        t.expect(0 <= row["allocations"] - made <= 1 and 0 <= row["frees"] - freed <= 1 and
                 0 <= row["allocated_bytes"] - size <= 500,
                 f"run {number}, thread {thread}: the program had made {made} and freed {freed} "
                 f"({size} bytes), the trace has {row['allocations']} and {row['frees']} "
                 f"({row['allocated_bytes']} bytes)")


def add_kills(part, parts):
    @case(f"killed/{part}", "events before a SIGKILL of the program are lost", 60)
    def killed(t):
        for number in range((200 if t.long else 40) // parts):
            killed_once(t, number)
            if t.problems:
                return


for part in range(4):
    add_kills(part, 4)
