# SPDX-License-Identifier: Apache-2.0
"""Options of the command line, and habits of heaptrack's users."""
import json
import re

from harness import case
from watch import Watch


@case("options/end_lines", "the end of a run does not say where the trace is and what to type")
def end_lines(t):
    recorded = t.record(["simple", "3"])
    ours = recorded.our_lines()
    t.need(len(ours) >= 2, f"our lines: {recorded.err!r}")
    t.expect(str(t.trace) in ours[0] or t.trace.name in ours[0], f"first line: {ours[0]!r}")
    text = recorded.err
    t.expect("report" in text.splitlines()[-1], f"last line: {text.splitlines()[-1]!r}")
    t.expect("200" in text, f"figures: {text!r}")


@case("options/quiet", "-q prints something")
def quiet(t):
    recorded = t.record(["simple", "3"], options=["-q"])
    t.equal("standard error", recorded.err, "")
    t.figures_match(t.report(None, "--by", "function", "--stacks"), t.ledger())


@case("options/no_addresses", "--no-addresses changes figures or keeps addresses")
def no_addresses(t):
    t.compare(["threads", "cross"], options=["--no-addresses"])


@case("options/free_stacks", "--free-stacks changes figures")
def free_stacks(t):
    t.compare(["threads", "cross"], options=["--free-stacks"])


@case("options/depth", "--depth keeps more or fewer frames than asked")
def depth(t):
    t.record(["deep", "chain"], options=["--depth", "4"])
    report = t.report(None, "--by", "function", "--stacks")
    t.equal("allocations", report["allocations"], 40)
    for stack in report["stack_list"]:
        frames = [frame for frame in stack["frames"] if frame["module"] != "[mark]"]
        t.expect(len(frames) <= 4, f"{len(frames)} frames: {[f['function'] for f in frames]}")
    rows = {row["function"]: row["self"]["allocations"] for row in report["functions"]}
    t.equal("chain_0", rows.get("chain_0"), 40)
    t.expect(report["cut_stacks"] > 0, "no stack is marked as cut")


@case("options/refused", "a command line that means nothing is taken, or its message is wrong")
def refused(t):
    for words, status, said in ((["run", "--depth", "0", "simple"], 2, "from 1 to 1024"),
                                (["run", "--depth", "1025", "simple"], 2, "from 1 to 1024"),
                                ([""], 127, "no such program"),
                                (["run", "--", ""], 127, "no such program")):
        result = t.tool(*words, env={"PATH": f"{t.folder}:/usr/bin:/bin"})
        t.equal(f"{words}: exit status", result.status, status)
        t.expect(said in result.err, f"{words}: {result.err!r}")
    t.equal("-v", t.tool("-v").out, t.tool("version").out)


@case("options/max_file_size", "--max-file-size is exceeded, or the figures after it are missing")
def max_file_size(t):
    recorded = t.record(["big", "2"], options=["--max-file-size", "1M"])
    t.equal("exit status", recorded.status, 0)
    size = t.trace.stat().st_size
    kinds = {kind["kind"]: kind["stored_bytes"]
             for kind in json.loads(t.tool("info", t.trace, "--json").out)["kinds"]}
    events = sum(kinds.get(kind, 0) for kind in ("events", "addresses", "ends of blocks"))
    t.expect(500_000 < events < 1 << 20, f"{events} bytes of events, asked for 1M")
    # What the manual says of the rest: some ten to some hundred kB.
    t.expect(size < (1 << 20) + 200_000, f"{size} bytes, asked for 1M of events")
    report = t.report(None, "--by", "function", "--stacks")
    t.figures_match(report, t.ledger())
    t.expect("size" in recorded.err or "limit" in recorded.err, f"not said: {recorded.err!r}")
    stored = int(t.tool("sql", "--csv", t.trace, "select count(*) from events").out.split()[-1])
    missing = report["allocations"] + report["frees"] - stored
    t.expect(missing > 0, "all events are stored")
    t.equal("events_not_stored", report["events_not_stored"], missing)
    for who, text in (("end line", recorded.err), ("report", t.tool("report", t.trace).out)):
        t.expect(f"{missing:,} events are " in text, f"the {who} counts otherwise: {text[-900:]}")


@case("options/time_limit", "--time-limit ends the program instead of the recording")
def time_limit(t):
    recorded = t.record(["big", "8"], options=["--time-limit", "0.1"])
    t.equal("exit status", recorded.status, 0)
    report = t.report()
    t.equal("end", report["end"], "stopped")
    t.expect(0 < report["allocations"] < 8_000_000, f"{report['allocations']} allocations")


@case("options/delay", "--delay loses the program's exit or records from the start")
def delay(t):
    recorded = t.record(["simple", "3"], options=["--delay", "30"])
    t.equal("exit status", recorded.status, 3)
    t.equal("output", recorded.out, "simple was here\n")
    t.need(t.trace.exists(), "there is no trace")
    report = t.report()
    t.equal("allocations", report["allocations"], 0)
    t.expect("delay" in report["note"], f"the note: {report['note']!r}")
    guesses_nothing(t, recorded.err)


def guesses_nothing(t, errors):
    """Why the heap is empty is known: neither the end line nor the report makes up a cause."""
    t.expect("no allocation was recorded" in errors, f"not said: {errors!r}")
    t.expect("made none through malloc and its kin\n" not in errors, f"not true: {errors!r}")
    warning = t.report()["warning"]
    t.expect(warning.startswith("No heap event was recorded") and "Probably" not in warning,
             f"the warning: {warning!r}")


@case("options/time_limit_early", "a recording that ended before the first malloc blames the program")
def time_limit_early(t):
    command = [t.tidemark, "run", "-o", t.trace, "--time-limit", "0.1", "--", t.target("nothing"),
               "wait"]

    def stopped():
        result = t.tool("report", t.trace, "--json")
        return result.status == 0 and json.loads(result.out)["end"] == "stopped"
    with Watch(t.start(command), t.seconds) as watch:
        watch.poll(stopped, "the end of the recording")
        watch.send(b"x")
        t.equal("exit status", watch.ended(), 0)
        errors = watch.process.stderr.read().decode()
    t.expect("before the recording ended" in errors, f"not said: {errors!r}")
    guesses_nothing(t, errors)


@case("options/silent_image", "a last image without a malloc hides the images before it")
def silent_image(t):
    recorded = t.record(["/bin/sh", "-c", f"exec {t.target('nothing')}"])
    t.equal("exit status", recorded.status, 0)
    t.expect(t.report(None, "--image", "0")["allocations"] > 0, "the shell allocates nothing")
    t.equal("allocations of the last", t.report()["allocations"], 0)
    t.expect("error" not in recorded.err and "--image 0" in recorded.err, f"{recorded.err!r}")


@case("options/recorder_memory", "a recorder without memory says that the program is to blame")
def recorder_memory(t):
    """Whatever it is that does not fit below the limit, it is not called a quiet program."""
    for limit_kb in (80_000, 100_000, 120_000):
        t.trace.unlink(missing_ok=True)
        script = 'ulimit -v $0 && exec "$@"'
        recorded = t.bare(["/bin/sh", "-c", script, str(limit_kb), t.tidemark, "run", "-o", t.trace,
                           "--", t.target("simple"), "3"])
        t.expect("made none" not in recorded.err, f"{limit_kb} kB: {recorded.err!r}")
        if t.trace.exists() and "no allocation was recorded\n" in recorded.err:
            t.expect("memory" in t.report()["note"], f"the note: {t.report()['note']!r}")
            t.expect(t.report()["lost_events"] > 0, "nothing is called lost")
            guesses_nothing(t, recorded.err)


@case("options/short_form", "tidemark PROGRAM does not work as heaptrack PROGRAM does")
def short_form(t):
    result = t.tool("-o", t.trace, t.target("simple"), "3", "-o", "x")
    t.equal("exit status", result.status, 3)
    t.figures_match(t.report(None, "--by", "function", "--stacks"), t.ledger())
    result = t.tool("--analyze", t.trace)
    t.expect(result.status == 0 and result.out, f"--analyze: {result.status} {result.err!r}")
    result = t.tool("--pid", "1")
    t.expect(result.status != 0 and result.err, "--pid must work or say why not")


@case("options/wrong", "a mistyped option starts the program all the same")
def wrong(t):
    result = t.tool("run", "--no-such-option", "--", t.target("simple"))
    t.expect(result.status not in (0,) and "simple was here" not in result.out,
             f"status {result.status}, output {result.out!r}")
    t.expect("--no-such-option" in result.err, f"not named: {result.err!r}")
    result = t.tool("run")
    t.expect(result.status != 0 and result.err, "no program given, no word about it")
    t.expect(t.tool("--help").out, "no help")
    t.expect(re.search(r"\d+\.\d+", t.tool("--version").out), "no version")


@case("options/foreign_file", "a file that is no trace crashes the report")
def foreign_file(t):
    for name, data in {"empty": b"", "text": b"hello\n" * 1000, "zero": bytes(100000)}.items():
        path = t.folder / name
        path.write_bytes(data)
        result = t.tool("report", path)
        t.expect(result.status in (1, 2) and name in result.err,
                 f"{name}: status {result.status}, {result.err!r}")
    result = t.tool("report", "/nonexistent.tide")
    t.expect(result.status in (1, 2) and "/nonexistent.tide" in result.err, f"{result.err!r}")
