# SPDX-License-Identifier: Apache-2.0
"""When our own side fails: the collector killed or stopped, disks full, folders closed."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import sys

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
    t.equal("end", report["end"], "collector_lost")
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


LOADS = """import ctypes, sys
print("ready", flush=True)
sys.stdin.read(1)
for number in range(40):
    ctypes.CDLL(f"{sys.argv[1]}/{number}.so")
print("done", flush=True)
"""


@case("collector/stopped_loads", "each library waits for a tidemark that is stopped", 90)
def collector_stopped_loads(t):
    """The agent asks about each library that is loaded, but not when it takes long."""
    for number in range(40):
        shutil.copy(t.target("plug_late_own.so"), t.folder / f"{number}.so")
    python = next(one for one in ("/usr/bin/python3", sys.executable) if os.path.exists(one))
    command = [t.tidemark, "run", "-o", t.trace, "--", python, "-c", LOADS, t.folder]
    with Watch(t.start(command), t.seconds) as watch:
        watch.wait_for("ready\n")
        os.kill(watch.process.pid, signal.SIGSTOP)
        watch.send(b"x")
        watch.wait_for("done\n")
        os.kill(watch.process.pid, signal.SIGCONT)
        t.equal("exit status", watch.ended(), 0)
    t.expect("taken too long" in t.tool("info", t.trace).out, "the trace does not say so")


@case("collector/stopped_start", "a program that starts while tidemark is stopped hangs, or seems to be recorded")
def stopped_start(t):
    script = "echo ready; read line; exec /bin/echo gone on"
    with Watch(t.start([t.tidemark, "run", "-o", t.trace, "--", "sh", "-c", script]), t.seconds) as watch:
        watch.wait_for("ready\n")
        watch.process.send_signal(signal.SIGSTOP)
        watch.send(b"\n")
        watch.wait_for("gone on\n")
        watch.process.send_signal(signal.SIGCONT)
        watch.wait_for("answered too late", watch.process.stderr.fileno())
        t.equal("status", watch.ended(), 0)


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
    text = (f"mount -t tmpfs -o size=1m none {small} || exit 77\n"
            f"{t.tidemark} run -o {small}/x.tide -- {t.target('big')} 4\n"
            f"status=$?\ncp {small}/x.tide {t.trace}\nexit $status\n")
    result = run_program(["unshare", "-m", "sh", "-c", text], t.environment(), t.folder, t.seconds)
    if result.status == 77:
        t.skip("tmpfs cannot be mounted here")
    t.equal("exit status", result.status, 0)
    t.expect("space" in result.err or "full" in result.err,
             f"no word about the full disk: {result.err[-400:]!r}")
    report = t.report()
    t.expect(report["allocations"] > 10000, f"{report['allocations']} allocations are left")
    t.expect(report["end"] == "disk_full" or report["warning"] or report["note"],
             f"the report shows {report['allocations']} of 4,000,000 allocations as if that were all")


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


@case("output/force_in_use", "--force destroys a trace that another recorder is writing")
def force_in_use(t):
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("obey")]
    with Watch(t.start(command), t.seconds) as watch:
        watch.send(b"early 1000 24\n")
        watch.wait_for("ok\n")
        refused = t.record(["simple", "3"], options=["--force"])
        t.equal("status of the second run", refused.status, 125)
        t.equal("its output", refused.out, "")
        t.expect("being written" in refused.err and str(watch.process.pid) in refused.err,
                 refused.err)
        watch.process.stdin.close()
        t.equal("status of the first run", watch.ended(), 0)
    t.expect(t.report()["allocations"] >= 1000, "the first trace")
    t.equal("verify", t.tool("verify", t.trace).status, 0)
    t.equal("once it has ended", t.record(["simple", "3"], options=["--force"]).status, 3)
    t.figures_match(t.report(None, "--by", "function", "--stacks"), t.ledger())


@case("output/force_program", "--force overwrites or deletes the program")
def force_program(t):
    program, other = t.folder / "program", t.folder / "other"
    shutil.copy(t.target("simple"), program)
    os.link(program, other)
    before = program.read_bytes()
    for path in (program, other):
        refused = t.tool("run", "-f", "-o", path, "--", program, "3")
        t.equal("status", refused.status, 125)
        t.expect("the program itself" in refused.err, refused.err)
        t.expect(program.read_bytes() == before and path.exists(), f"{path.name} was changed")
    # Another file, by a name that it shares with a third: only the name is given up.
    shared, kept = t.folder / "shared", t.folder / "kept"
    shared.write_text("precious")
    os.link(shared, kept)
    t.equal("status", t.tool("run", "-f", "-o", shared, "--", program, "3").status, 3)
    t.equal("the other name", kept.read_text(), "precious")
    t.figures_match(t.report(shared, "--by", "function", "--stacks"), t.ledger())


@case("output/force_for_nothing", "--force deletes a trace for a program that does not even start")
def force_for_nothing(t):
    program = t.folder / "no_loader"
    data = t.target("simple").read_bytes()
    loader = b"/lib64/ld-linux-x86-64.so.2"
    t.need(loader in data, "it names another loader")
    program.write_bytes(data.replace(loader, loader.replace(b"linux", b"other"), 1))
    program.chmod(0o755)
    t.trace.write_text("precious")
    failed = t.tool("run", "-f", "-o", t.trace, "--", program)
    t.equal("status", failed.status, 127)
    t.equal("the older file", t.trace.read_text(), "precious")
    left = sorted(path.name for path in t.folder.iterdir() if path.name.startswith(".tidemark"))
    t.equal("what is left beside it", left, [])


@case("output/special", "a trace is written to a device or a pipe, which cannot hold it")
def special(t):
    os.mkfifo(t.folder / "pipe")
    for path, what in (("/dev/null", "a device"), (t.folder / "pipe", "a pipe")):
        refused = t.tool("run", "-o", path, "--", t.target("simple"), "3")
        t.equal("status", refused.status, 125)
        t.equal("output of the program that must not run", refused.out, "")
        t.expect(what in refused.err and "-o" in refused.err, refused.err)


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
    recorded = t.record(["big", "40" if t.long else "8"])
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
        # Whatever the size, the events after the last slice are read besides, 262,144 at most. What
        # the journal had no room to say of the blocks that they end is read where those began:
        # hardly any of them lives for more than 500,000 events. An event takes three bytes there.
        most = READ_SHARE * size + 8 * 262144 + 3 * 524288
        t.expect(0 < read < most, f"{read} of {size} bytes read ({read / size:.1%})")
        t.equal("end", t.report()["end"], "collector_lost")


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
    t.equal(f"run {number}: end", report["end"], "killed")
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


def add_hostile(name, words, span):
    @case(f"hostile/{name}", "a program that writes into our memory crashes or hangs tidemark", 30)
    def hostile(t):
        for seed in range(30 if t.long else 8):
            command = ["hostile", str(seed), words, span]
            recorded = t.record(command, options=["--force"])
            if recorded.status == 77:
                t.skip("no shared memory was found")
            t.equal(f"seed {seed}: exit status", recorded.status, 9)
            t.equal(f"seed {seed}: output", recorded.out, "done\n")
            if t.trace.exists():
                result = t.tool("report", t.trace)
                t.expect(result.status in (0, 1), f"seed {seed}: report: {result.status}")


add_hostile("control", "40", "1")
add_hostile("streams", "3000", "64")
add_hostile("chunks", "20000", "16384")
add_hostile("everywhere", "200000", "10000000")


def cut_or_changed(t, path, data, what):
    path.write_bytes(data)
    for arguments in (["--json", "--by", "function"], []):
        result = t.tool("report", path, *arguments)
        t.expect(result.status in (0, 1), f"{what}: report ended with {result.status}")
        t.expect(result.status == 0 or result.err, f"{what}: refused without a word")


@case("report/cut", "a trace that lost its end cannot be opened, or crashes the report", 20)
def cut(t):
    t.record(["threads", "cross"])
    whole, path = t.trace.read_bytes(), t.folder / "cut.tide"
    for number in range(60 if t.long else 20):
        at = random.randrange(len(whole)) if number else len(whole) - 1
        cut_or_changed(t, path, whole[:at], f"cut at {at} of {len(whole)}")
        if t.problems:
            return
    # With all but the last bytes most of it must still be there, and said to be incomplete.
    path.write_bytes(whole[:-64])
    report = t.report(path)
    t.expect(report["warning"], "the lost end is not mentioned")
    t.expect(report["allocations"] > 100000, f"only {report['allocations']} allocations left")


@case("report/damaged", "a damaged trace crashes the report or shows wrong figures as right", 20)
def damaged(t):
    t.record(["threads", "cross"])
    whole, path = t.trace.read_bytes(), t.folder / "damaged.tide"
    right = t.report(t.trace)
    for _ in range(60 if t.long else 20):
        data = bytearray(whole)
        at = random.randrange(len(data))
        data[at] ^= 1 << random.randrange(8)
        cut_or_changed(t, path, bytes(data), f"one bit at {at}")
        result = t.tool("report", path, "--json")
        if result.status == 0:
            report = json.loads(result.out)
            same = all(report[key] == right[key] for key in ("allocations", "peak_bytes", "frees"))
            t.expect(same or report["warning"], f"bit at {at}: other figures and no warning")
        if t.problems:
            return


@case("report/resident", "peak RSS is wrong, or its parts do not add up")
def resident(t):
    text = "import sys; kept = bytearray(150 << 20); print('ready', flush=True); sys.stdin.read(1)"
    command = [t.tidemark, "run", "-o", t.trace, "--", os.path.realpath(sys.executable), "-c", text]

    def sampled():
        report = partial_report(t)
        return report and (report["peak_rss_bytes"] or 0) >= 150 << 20
    with Watch(t.start(command), t.seconds) as watch:
        watch.wait_for("ready\n")
        watch.poll(sampled, "a sample")
        watch.send(b"x")
        t.equal("exit status", watch.ended(), 0)
    report = t.report()
    t.expect(150 << 20 <= report["peak_rss_bytes"] < 300 << 20, f"{report['peak_rss_bytes']}")
    t.expect(report["peak_bytes"] >= 150 << 20, f"peak {report['peak_bytes']}")
    rss = report["rss"]
    t.equal("heap + mapped + agent + rest", rss["heap_bytes"] + rss["mapped_bytes"] +
            rss["agent_bytes"] + rss["rest_bytes"], rss["rss_bytes"])
    t.expect((rss["explained_percent"] or 0) > 90, f"explained {rss['explained_percent']}")


def explained(t, blocks_mib, arena_mib):
    """The report must say how much of both, all anonymous, is the blocks'; within 3 %."""
    rss, text = t.report()["rss"], t.tool("report", t.trace).out
    t.need(rss and rss["anonymous_bytes"], f"the anonymous memory is not known: {rss}")
    right = 100 * blocks_mib / (blocks_mib + arena_mib)
    t.expect(abs(rss["explained_percent"] - right) < 3,
             f"explained {rss['explained_percent']} %, must be {right:.0f}: {rss}")
    t.expect("explained " in text, f"the report does not say it: {text}")
    t.expect("an allocator" in (rss["cause"] or "") and rss["cause"] in " ".join(text.split()),
             f"the cause: {rss['cause']}")


@case("report/arena", "what a program's own allocator has is passed over, or old samples judge it")
def arena(t):
    """The arena comes when the recorder has looked at everything for the first time."""
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("arena"), "60", "140", "wait"]

    def sampled(mib):
        result = t.tool("sql", "--csv", t.trace,
                        f"select count(*) from samples where rss_bytes >= {mib << 20}")
        return result.status == 0 and int(result.out.split()[-1]) > 0
    with Watch(t.start(command), t.seconds) as watch:
        watch.wait_for("blocks\n")
        watch.poll(lambda: sampled(60), "a sample with the blocks")
        watch.send(b"x")
        watch.wait_for("arena\n")
        watch.poll(lambda: sampled(200), "a sample with both")
        watch.send(b"x")
        t.equal("exit status", watch.ended(), 0)
    explained(t, 60, 140)


@case("report/arena_short", "a short program's own allocator is passed over")
def arena_short(t):
    """The peak is between the last sample and the end, where only the kernel saw it."""
    recorded = t.record(["arena", "1", "200"])
    t.equal("exit status", recorded.status, 0)
    explained(t, 1, 200)


@case("output/no_environment", "a secret of the environment is stored in the trace")
def no_environment(t):
    secret = "".join(random.choice("0123456789abcdef") for _ in range(40))
    t.record(["simple", "3"], env={"SECRET": secret})
    t.expect(secret.encode() not in t.trace.read_bytes(), "the secret is in the file")
    shown = t.tool("report", t.trace, "--json", "--stacks").out
    t.expect(secret not in shown, "the secret is in the report")
