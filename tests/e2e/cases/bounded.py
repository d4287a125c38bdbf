# SPDX-License-Identifier: Apache-2.0
"""A recording within bounds: pieces by time and size, what is folded and culled, full disks."""
import os
import signal
import subprocess

from cases import control
from harness import case


def piece_of(t, pid):
    return (control.row_of(t, pid) or {"piece": 0})["piece"]


@case("bounded/rotate_time", "a new file after the time that was asked for")
def rotate_time(t):
    program, pid = control.recorded(t, ["--rotate", "1s"])
    with program:
        program.say("early 100 10")
        program.poll(lambda: piece_of(t, pid) >= 2, "the second piece")
        program.say("late 50 10")
        t.equal("status", program.end(), 0)
    control.figures(t, t.report(t.folder / "a.1.tide"), end="rotated", piece=1)
    pieces = sorted(t.folder.glob("a.*.tide"), key=lambda path: int(path.name.split(".")[1]))
    reports = [t.report(piece) for piece in pieces]
    for before, report in zip(reports, reports[1:]):
        t.equal("inherited", report["inherited_allocations"], before["unfreed_allocations"])
    control.figures(t, reports[-1], end="exit", unfreed_allocations=150)


@case("bounded/keep", "older files of the recording go, others stay")
def keep(t):
    program, pid = control.recorded(t, ["--rotate", "1h", "--keep", "2"])
    with program:
        program.say("early 100 10")
        control.ctl(t, pid, "rotate")
        # A name that leads elsewhere meanwhile is not ours.
        (t.folder / "a.1.tide").rename(t.folder / "moved.tide")
        (t.folder / "a.1.tide").write_text("mine")
        for _ in range(3):
            control.ctl(t, pid, "rotate")
        program.poll(lambda: not (t.folder / "a.3.tide").exists(), "the third piece deleted")
        t.equal("status", program.end(), 0)
    t.equal("what is not ours", (t.folder / "a.1.tide").read_text(), "mine")
    t.expect(not (t.folder / "a.2.tide").exists(), "the second piece is there")
    control.figures(t, t.report(t.folder / "moved.tide"), allocations=100, end="rotated", piece=1)
    control.figures(t, t.report(t.folder / "a.4.tide"), unfreed_allocations=100, piece=4)
    control.figures(t, t.report(t.folder / "a.5.tide"), unfreed_allocations=100, piece=5,
                    end="exit")


@case("bounded/keep_children", "older files go also where children are recorded")
def keep_children(t):
    options = ["--children", "--rotate", "1h", "--keep", "2", "-o", str(t.folder / "%p.%i.tide")]
    program, pid = control.recorded(t, options)
    with program:
        program.say("early 100 10")
        for _ in range(4):
            program.say("fork")
            control.ctl(t, pid, "rotate")
        program.poll(lambda: not (t.folder / f"{pid}.3.tide").exists(), "the third piece deleted")
        t.equal("status", program.end(), 0)
    own = sorted(path.name for path in t.folder.glob(f"{pid}.*.tide"))
    t.equal("its pieces", own, [f"{pid}.4.tide", f"{pid}.5.tide"])
    control.figures(t, t.report(t.folder / own[1]), unfreed_allocations=100, piece=5, end="exit")
    others = [path for path in t.folder.glob("*.tide") if path.name not in own]
    t.equal("traces of children", len(others), 4)
    for path in others:
        report = t.report(path)
        t.equal("what the child has from its parent", report["inherited_allocations"], 100)
        control.sound(t, path)


@case("bounded/rotate_size", "a new file at the size that was asked for")
def rotate_size(t):
    program, pid = control.recorded(t, ["--rotate", "64K", "-o", str(t.folder / "b.tide")])
    rounds = 0
    with program:
        program.say("early 20 10")
        while piece_of(t, pid) < 2:
            program.say("churn 2 20000")
            rounds += 2 * 20000 * 2
        t.equal("status", program.end(), 0)
    pieces = sorted(t.folder.glob("b.*.tide"), key=lambda path: int(path.name.split(".")[1]))
    t.expect(len(pieces) >= 2 and pieces[0].name == "b.1.tide", f"{pieces}")
    merged = t.folder / "merged.tide"
    result = t.tool("merge", "-o", merged, *pieces)
    t.need(result.status == 0, result.err)
    whole = t.report(merged, "--section", "functions")
    t.equal("churn", control.calls(whole, "churn_one"), rounds)
    for piece in pieces:
        control.sound(t, piece)


def other_files(t):
    """What makes another file of it is right, or says why it cannot be."""
    for command in (["repair", "-o", t.folder / "copy.tide", t.trace],
                    ["anonymize", t.trace, t.folder / "copy.tide"]):
        made = t.tool(*command)
        t.equal(f"{command[0]}: status", made.status, 0)
        t.totals_match(t.report(t.folder / "copy.tide"), t.ledger())
        control.sound(t, t.folder / "copy.tide")
        (t.folder / "copy.tide").unlink()
    for command in (["trim", "--from", "50%", t.trace, t.folder / "copy.tide"],
                    ["merge", "-o", t.folder / "copy.tide", t.trace, t.trace],
                    ["export", "-f", "heaptrack", "-o", t.folder / "out.gz", t.trace]):
        refused = t.tool(*command)
        t.expect(refused.status != 0 and refused.err, f"{command[0]}: {refused.err}")


@case("bounded/retain", "a file within its size that says what the whole one says")
def retain(t):
    bounded = t.record(["big", "1"], options=["--retain", "1M"])
    report = t.report()
    t.expect(t.trace.stat().st_size <= 1 << 20, f"{t.trace.stat().st_size} bytes")
    t.totals_match(report, t.ledger())
    t.expect(report["folded_events"] > 0 and report["exact_since_ns"] > 0, "nothing was folded")
    control.sound(t, t.trace)
    text = t.tool("report", t.trace).out
    t.expect("Single blocks only since" in text, text)
    t.expect("older events are in the figures only" in bounded.err, bounded.err)
    other_files(t)
    asked = t.tool("sql", t.trace, "select count(*) from blocks")
    t.expect("were folded" in asked.err, asked.err)
    some = t.tool("report", t.trace, "--filter", "size>1").out
    t.expect("Older events were folded" in some, some)


@case("bounded/maps", "a program that maps and unmaps all the time in a file within its size")
def maps(t):
    result = t.record([t.target("remap"), "600000"], options=["--retain", "1M"])
    committed, reserved, calls = (int(word) for word in result.out.split())
    t.expect(t.trace.stat().st_size <= 1 << 20, f"{t.trace.stat().st_size} bytes")
    report = t.report()
    t.equal("committed at the peak", report["mapped_peak_bytes"], committed)
    t.equal("reserved at the peak", report["reserved_peak_bytes"], reserved)
    control.sound(t, t.trace)
    asked = t.tool("sql", "--csv", t.trace,
                   "select sum(case op when 'folded' then address else 1 end), sum(op = 'folded') "
                   "from maps where op = 'folded' or (op = 'map' and not is_restated)")
    counted, folded = (int(word) for word in asked.out.split()[-1].split(","))
    t.equal("calls that mapped", counted, calls)
    t.expect(folded > 0, "nothing was folded")


# What depends on the moment at which two runs of one program did something.
OF_THE_RUN = ("_ns", "time", "pid", "tid", "rss", "waited", "agent", "collector", "file_bytes",
              "bytes_read", "event_blocks", "culled", "not_stored", "exact_since", "way", "command")


def steady(value):
    """The same without what depends on the run."""
    if isinstance(value, dict):
        return {key: steady(one) for key, one in value.items()
                if not any(word in key for word in OF_THE_RUN)}
    return [steady(one) for one in value] if isinstance(value, list) else value


@case("bounded/cull", "a file without short-lived blocks that says what the whole one says")
def cull(t):
    questions = (["--section", "functions,threads,sizes"], ["--stacks", "--filter", "function:left"])
    t.need(t.record(["big", "1"]).status == 0, "the whole one")
    whole_bytes = t.trace.stat().st_size
    whole = [steady(t.report(t.trace, "-n", "0", *question)) for question in questions]
    t.trace.unlink()
    culled = t.record(["big", "1"], env={"TIDEMARK_CULL": "10s"})
    report = t.report()
    t.totals_match(report, t.ledger())
    t.equal("lifetime", report["cull_ns"], 10 * 10 ** 9)
    t.expect(report["culled_events"] > report["events"] // 3, f"{report['culled_events']} culled")
    t.expect(t.trace.stat().st_size < whole_bytes, f"{t.trace.stat().st_size} of {whole_bytes}")
    for question, one in zip(questions, whole):
        t.equal(" ".join(question), steady(t.report(t.trace, "-n", "0", *question)), one)
    t.expect("short-lived blocks are in the figures only" in culled.err, culled.err)
    t.expect("Single blocks only from a lifetime of" in t.tool("report", t.trace).out, "not said")
    control.sound(t, t.trace)
    other_files(t)
    asked = t.tool("sql", t.trace, "select count(*) from blocks")
    t.expect("were culled" in asked.err, asked.err)
    some = t.tool("report", t.trace, "--filter", "size>1").out
    t.expect("Blocks that did not live long were culled" in some, some)
    part = t.tool("report", t.trace, "--from", "peak").out
    t.expect("moved to the nearest moment" in part, part)


@case("bounded/cull_killed", "the figures of culled blocks are in the file when its recorder dies")
def cull_killed(t):
    program, pid = control.recorded(t, ["--cull", "1s"])
    trace = t.folder / "a.1.tide"
    with program:
        program.say("early 100 10")
        program.say("churn 2 20000")
        allocations = 100 + 2 * 20000 * 2
        known = ["--section", "functions,threads"]

        def written():
            report = t.report(trace, *known)
            made = control.calls(report, "make_early") + control.calls(report, "churn_one")
            return made == allocations and report

        before = program.poll(written, "all figures in the file")
        os.kill(program.process.pid, signal.SIGKILL)
        program.process.wait()
        after = t.report(trace, *known)
    t.equal("end", after["end"], "collector_lost")
    t.expect(before["culled_events"] > 100000, f"{before['culled_events']} culled")
    t.equal("allocations", after["allocations"], before["allocations"])
    t.equal("by thread", sum(row["allocations"] for row in after["thread_list"]),
            after["allocations"])
    t.equal("by function", control.calls(after, "churn_one"), allocations - 100)


@case("bounded/cull_pieces", "culling, folding and new files at once keep the figures")
def cull_pieces(t):
    program, pid = control.recorded(t, ["--cull", "1ms", "--retain", "1M", "--rotate", "1h"])
    with program:
        program.say("early 100 10")
        program.say("churn 2 10000")
        control.ctl(t, pid, "rotate")
        program.say("churn 2 5000")
        program.say("free early 40")
        t.equal("status", program.end(), 0)
    first, second = (t.report(t.folder / f"a.{i}.tide", "--section", "functions") for i in (1, 2))
    t.equal("churn", control.calls(first, "churn_one"), 2 * 10000 * 2)
    t.equal("churn after", control.calls(second, "churn_one"), 2 * 5000 * 2)
    t.equal("inherited", second["inherited_allocations"], first["unfreed_allocations"])
    t.equal("unfreed", second["unfreed_allocations"], first["unfreed_allocations"] - 40)
    for i, report in ((1, first), (2, second)):
        t.expect(report["culled_events"] > 0, f"piece {i}: nothing was culled")
        control.sound(t, t.folder / f"a.{i}.tide")


@case("bounded/cull_values", "a lifetime that is none is refused with a sentence")
def cull_values(t):
    for command in (["run"], ["attach", str(os.getpid())]):
        for value in ("0", "x", "", "-1ms", "1ns", "2h", "1e99", "9" * 400, "1ms x"):
            result = t.tool(*command, "--cull", value, *(["--", "/bin/true"] * (command == ["run"])))
            t.equal(f"{command[0]} --cull '{value[:20]}': status", result.status, 2)
            t.expect("--cull: " in result.err, result.err)


@case("bounded/disk_full", "a full disk costs single events, never the figures or the program")
def disk_full(t):
    t.need_root()
    small = t.folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", small]).returncode:
        t.skip("cannot mount a file system")
    try:
        for options, note in (([], "later events are in the figures only"),
                              (["--retain", "10h"], "more events were folded than")):
            ran = t.tool("run", "-f", "-o", small / "a.tide", *options, "--", t.target("big"), "1")
            t.equal("status", ran.status, 0)
            t.expect(f"The disk was nearly full: {note}" in ran.err, ran.err)
            report = t.report(small / "a.tide")
            t.totals_match(report, t.ledger())
            t.expect(report["events_not_stored"] > 0, "all events are stored")
            control.sound(t, small / "a.tide")
    finally:
        subprocess.run(["umount", "-l", small], check=True)


@case("bounded/status", "what a recording costs, and how long the disk will do")
def status(t):
    program, pid = control.recorded(t, ["--retain", "1h"])
    with program:
        program.say("churn 2 20000")
        row = program.poll(lambda: (lambda r: r and r["events"] and r)(control.row_of(t, pid)),
                           "events")
        for name in ("bytes_per_hour", "disk_free_bytes", "recorder_cpu_ns", "recorder_bytes"):
            t.expect(row[name] > 0, f"{name}: {row[name]}")
        t.equal("a file that folds is never full", row["full_in_ns"], None)
        said = control.ctl(t, pid, "status")
        t.expect("per hour" in said and "the program waited" in said, said)
        info = t.tool("info", row["file"]).out
        t.expect("still being written" in info, f"asking ended the lock on the file: {info[:600]}")
        program.end()


@case("bounded/options", "what was written wrongly is named, with what to write instead")
def options(t):
    for words, part in ((["--rotate", "10"], "neither a time nor a size"),
                        (["--rotate", "5ms"], "1s or 64K"),
                        (["--rotate", "1G", "--keep", "0"], "1 or more"),
                        (["--keep", "3"], "use both"),
                        (["--retain", "5"], "neither a time nor a size"),
                        (["--retain", "10K"], "1M at least"),
                        (["--rotate", "often"], "neither a time nor a size")):
        result = t.tool("run", *words, "--", "true")
        t.expect(result.status == 2 and part in result.err, f"{words}: {result.err}")
        attach = t.tool("attach", *words, str(os.getpid()))
        t.expect(attach.status == 2 and part in attach.err, f"attach {words}: {attach.err}")
    named = t.tool("run", "--", "true", env={"TIDEMARK_ROTATE": "x"})
    t.expect(named.status == 2 and "TIDEMARK_ROTATE" in named.err, named.err)
