# SPDX-License-Identifier: Apache-2.0
"""Sampling: estimates against what the program counted itself, ends that are never missed.

The seed makes the choice of blocks the same each time where there is one thread; where there are
several, bounds are six standard errors wide.
"""
import csv
import gzip
import io
import json
import math
import pathlib
import re
import select
import signal
import subprocess

import watch
from harness import case, start_program

SIGMAS = 6


def own_count(out):
    """Site -> (allocations, bytes, kept blocks, kept bytes)."""
    rows = [line.split() for line in out.splitlines() if line.startswith(("site_", "grow"))]
    return {row[0]: tuple(int(word) for word in row[1:]) for row in rows}


def sites_of(t, trace):
    """Function -> its figures, from the aggregates, and the totals."""
    report = json.loads(t.tool("report", "--json", "--section", "functions", "--limit", "0",
                               trace).out)
    return {row["function"]: row["self"] for row in report["functions"]}, report


def near(t, what, got, wanted, error):
    t.expect(abs(got - wanted) <= SIGMAS * error + 1,
             f"{what}: {got} is not {wanted} within {SIGMAS} x {error}")


def compare(t, trace, counted, exact_ends=True):
    sites, report = sites_of(t, trace)
    t.equal("mode", report["mode"], "sampled")
    for name, (count, total, kept, kept_bytes) in counted.items():
        row = sites.get(name)
        if row is None:
            t.expect(total < 40 * report["sample_bytes"], f"{name}: not seen at all")
            continue
        # An interval more: where some samples stand for all, their number has a longer tail.
        few = report["sample_bytes"]
        near(t, f"{name} allocated", row["allocated_bytes"], total,
             row["allocated_bytes_error"] + few)
        near(t, f"{name} unfreed", row["unfreed_bytes"], kept_bytes,
             row["unfreed_bytes_error"] + few)
        # Counts have the error of bytes, in blocks of the site's mean size or less.
        if exact_ends and kept == 0:
            t.equal(f"{name} ends", row["unfreed_allocations"], 0)
    return report


def sound(t, trace):
    report = json.loads(t.tool("report", "--json", trace).out)
    t.equal("lost", report["lost_events"], 0)
    few = 5 + report["events"] / 1e6
    t.expect(report["freed_unseen"] <= few, f"ends that nobody told: {report['freed_unseen']}")
    result = t.tool("verify", trace)
    t.expect(result.status == 0, f"verify: {result.out}")


@case("sampling/one", "wrong estimates, or blocks that seem to leak")
def one(t):
    result = t.record([t.target("sampled"), "300000", "1"], ["--sample", "16K", "--seed", "1"])
    report = compare(t, t.trace, own_count(result.out))
    t.equal("interval", report["sample_bytes"], 16384)
    sound(t, t.trace)
    text = t.tool("report", t.trace).out
    t.expect("about " in text and "± " in text, "the report does not say how sure it is")
    again = t.record([t.target("sampled"), "300000", "1"],
                     ["--sample", "16K", "--seed", "1", "-f"])
    t.equal("the program's own count", own_count(again.out), own_count(result.out))
    other = json.loads(t.tool("report", "--json", t.trace).out)
    t.equal("the same seed, the same bytes", other["allocated_bytes"], report["allocated_bytes"])


@case("sampling/threads", "blocks that seem to leak when another thread frees them")
def threads(t):
    result = t.record([t.target("sampled"), "300000", "4"], ["--sample", "4K"])
    compare(t, t.trace, own_count(result.out))
    sound(t, t.trace)


@case("sampling/allocators", "an allocator's own memory taken for the program's, or counted twice")
def allocators(t):
    folder = pathlib.Path("/usr/lib/x86_64-linux-gnu")
    for name in ("libjemalloc.so.2", "libmimalloc.so.2", "libtcmalloc_minimal.so.4"):
        result = t.record([t.target("sampled"), "100000", "2"], ["--sample", "4K", "-f"],
                          env={"LD_PRELOAD": str(folder / name)})
        report = compare(t, t.trace, own_count(result.out))
        t.equal(f"mapped under {name}", report["mapped_peak_bytes"], 0)
        t.equal(f"failures under {name}", report["failed_allocations"], 0)


@case("sampling/all_views", "another figure of the same sample in each view")
def all_views(t):
    t.record([t.target("sampled"), "100000", "1"], ["--sample", "4K", "--seed", "7"])
    report = json.loads(t.tool("report", "--json", t.trace).out)
    whole = {key: report[key] for key in ("allocations", "allocated_bytes", "unfreed_bytes",
                                          "unfreed_allocations")}
    scan = json.loads(t.tool("report", "--json", "--filter", "size>=0", t.trace).out)["selection"]
    for key, value in whole.items():
        t.equal(f"{key} by a pass over the events", scan[key], value)
    row = json.loads(t.tool("sql", "--json", t.trace, "SELECT sum(weight) AS blocks, "
                            "sum(weight_bytes) AS bytes FROM blocks").out)[0]
    values = [row["blocks"], row["bytes"]]
    t.equal("SQL", values, [whole["allocations"], whole["allocated_bytes"]])
    t.need(t.tool("trim", "--from", "0", t.trace, t.folder / "part.tide").status == 0, "trim")
    part = json.loads(t.tool("report", "--json", t.folder / "part.tide").out)
    t.equal("of a part: mode", part["mode"], "sampled")
    t.equal("of a part: bytes", part["allocated_bytes"], whole["allocated_bytes"])


class Phases(watch.Watch):
    """The target in its three phases, or busy until it is told to end."""

    def __init__(self, t, options, how="wait", threads=2, then=None):
        self.t = t
        self.command = [t.tidemark, "run", "-o", t.trace, *options, "--",
                        t.target("sampled"), "90000", threads, how, *([then] if then else [])]
        process = start_program(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=open(t.folder / "errors", "ab"), cwd=t.folder,
                                env=t.environment(), start_new_session=True)
        super().__init__(process, t.seconds)

    def status(self):
        rows = self.t.tool("ctl", "--json", str(self.process.pid), "status")
        return json.loads(rows.out)[0] if rows.status == 0 else {}

    def finish(self):
        """Tells it to end; gives what it counted itself."""
        self.send(b"x")
        self.process.stdin.close()
        self.ended()
        said = self.text + self.process.stdout.read().decode()
        counted = own_count(said)
        self.t.need(len(counted) == 21, f"the program said {said!r}")
        return counted

    def hold_up(self, until):
        """The recorder stands still nearly all the time, but never for long, until it is so."""
        def held():
            watch.kill(self.process.pid, signal.SIGSTOP)
            select.select([], [], [], 0.05)
            watch.kill(self.process.pid, signal.SIGCONT)
            return until()
        self.poll(held, "what is awaited")


def modes_of(t, trace):
    return [row["name"] for row in t.report(trace, "--section", "timeline")["modes"]]


def shown_on_the_curve(t, trace, words):
    """Wherever a timeline is shown, the change is there."""
    t.expect(any(words in text for text in modes_of(t, trace)), f"modes of the report: {words}")
    marks = t.tool("sql", "--csv", trace, "SELECT name FROM marks WHERE kind = 'mode'").out
    t.expect(words in marks, f"marks in SQL: {marks!r}")
    text = t.tool("report", "--section", "timeline", trace).out
    t.expect(words in " ".join(text.split()), f"the drawn timeline: {text[-600:]!r}")


@case("sampling/crowd", "ends that are missed where threads take each other's memory at once")
def crowd(t):
    t.record([t.target("crowd"), "250000"], ["--sample", "128"],
             env={"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"})
    report = t.report()
    # Most blocks find no place in the filter. Stamps of two threads can then be too near to tell
    # one block's end from that of the next: once in some million.
    t.expect(report["unfreed_allocations"] <= 16, f"unfreed: {report['unfreed_allocations']}")
    sound(t, t.trace)


@case("sampling/max_overhead", "a recording that costs more than it may")
def max_overhead(t):
    with Phases(t, ["--sample", "64", "--max-overhead", "1%"], "busy") as program:
        program.poll(lambda: program.status().get("sample_bytes", 0) > 64, "a longer interval")
        counted = program.finish()
    report = compare(t, t.trace, counted)
    t.expect(report["sample_bytes"] > 64, f"the interval stayed: {report['sample_bytes']}")
    shown_on_the_curve(t, t.trace, "% of the CPU time, and may cost 1.0 %")
    lines = " ".join((t.folder / "errors").read_text().split())
    # It has run for more than a second: the cost is not looked at before.
    for words in ("tidemark: about ", " % at the peak", " of CPU and ",
                  " of memory, the program waited ", " per hour: at that rate there is room for "):
        t.expect(words in lines, f"the end lines do not say {words!r}: {lines[-600:]}")
    sound(t, t.trace)


@case("sampling/overload_sample", "a program that waits although it may not")
def overload_sample(t):
    with Phases(t, ["--on-overload", "sample", "--overload-share", "5%"], "busy") as program:
        program.hold_up(lambda: program.status().get("mode") == "sampled")
        counted = program.finish()
    report = compare(t, t.trace, counted)
    t.equal("interval", report["sample_bytes"], 524288)
    t.equal("lost", report["lost_events"], 0)
    shares = [re.search(r"waited (\d+) % of their time for us, and may wait 5 %", text)
              for text in modes_of(t, t.trace)]
    t.expect(shares and shares[0] and 5 <= int(shares[0][1]) <= 100,
             f"modes: {modes_of(t, t.trace)}")
    shown_on_the_curve(t, t.trace, "for us, and may wait 5 %")
    sound(t, t.trace)


@case("sampling/overload_wait", "events that are lost although the program should wait")
def overload_wait(t):
    with Phases(t, ["--on-overload", "wait"], "busy") as program:
        program.hold_up(lambda: program.status().get("waited_ns", 0) > 100_000_000)
        counted = program.finish()
    report = t.report()
    t.equal("mode", (report["mode"], report["lost_events"]), ("exact", 0))
    # The program's output needs no block, its threads need one each.
    wanted = sum(row[0] for row in counted.values())
    t.expect(wanted <= report["allocations"] <= wanted + 10_000,
             f"allocations: {report['allocations']}, the program made {wanted}")


@case("sampling/overload_drop", "a program that waits, or losses that nobody is told of")
def overload_drop(t):
    with Phases(t, ["--on-overload", "drop"], "busy") as program:
        program.hold_up(lambda: program.status().get("lost_events", 0) > 0)
        program.poll(lambda: "lost" in t.tool("sql", "--csv", t.trace, "SELECT name FROM marks "
                                              "WHERE kind = 'mode'").out, "the mark")
        counted = program.finish()
    report = t.report()
    t.expect(report["lost_events"] > 0, "nothing was lost")
    t.equal("waited_ns", report["waited_ns"], 0)
    wanted = sum(row[0] for row in counted.values())
    t.expect(report["allocations"] < wanted, f"{report['allocations']} of {wanted} allocations")
    shown_on_the_curve(t, t.trace, "events were lost")
    # Blocks whose ends were lost end where others are born in their place, in the file, too.
    result = t.tool("verify", t.trace)
    t.expect(result.status == 0, f"verify: {result.out}")


@case("sampling/switched", "an exact recording that goes wrong when it becomes a sample")
def switched(t):
    with Phases(t, []) as program:
        switch(t, program)


def switch(t, program):
    program.wait_for("ready\n")
    answer = t.tool("ctl", str(program.process.pid), "sample", "4K")
    t.equal("ctl sample 4K", (answer.status, answer.err), (0, ""))
    rows = json.loads(t.tool("ctl", "--json", str(program.process.pid), "status").out)
    t.equal("status", (rows[0]["mode"], rows[0]["sample_bytes"]), ("sampled", 4096))
    program.send(b"x")
    program.wait_for("ready\n")
    t.equal("ctl sample off", t.tool("ctl", str(program.process.pid), "sample", "off").status, 0)
    program.send(b"x")
    program.wait_for("ready\n")
    compare(t, t.trace, program.finish())
    sound(t, t.trace)
    marks = t.tool("sql", "--csv", t.trace, "SELECT name FROM marks WHERE kind = 'mode'").out
    t.expect("sampled 4096" in marks and "exact" in marks, f"modes: {marks!r}")


@case("sampling/woken", "a sample of a program whose agent slept")
def woken(t):
    def start(*command, **how):
        process = start_program([str(word) for word in command], stdout=subprocess.PIPE,
                                cwd=t.folder, env=t.environment(), start_new_session=True, **how)
        return watch.Watch(process, t.seconds)

    with start(t.tidemark, "run", "--dormant", "--", t.target("sampled"), "90000", "1", "wait",
               stdin=subprocess.PIPE) as program:
        program.wait_for("ready\n")
        with start(t.tidemark, "attach", "--sample", "1K", "-o", t.trace, program.process.pid,
                   stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT) as recording:
            recording.wait_for("recording")
            for _ in range(2):
                program.send(b"x")
                program.wait_for("ready\n")
            program.send(b"x")
            program.process.stdin.close()
            program.ended()
            recording.ended()
    _, report = sites_of(t, t.trace)
    t.equal("mode", (report["mode"], report["sample_bytes"]), ("sampled", 1024))
    t.expect(report["allocated_bytes"] > 0, "nothing was sampled")
    sound(t, t.trace)


def difference(after, before):
    return {name: tuple(a - b for a, b in zip(after[name], before[name])) for name in after}


@case("sampling/pieces", "pieces that are wrong or do not fit when blocks are sampled")
def pieces(t):
    counts = []
    with Phases(t, ["--sample", "4K", "--rotate", "1d"]) as program:
        for words in (["sample", "32K"], ["sample", "off"], []):
            counts.append(own_count(program.read_until("ready\n")))
            pid = str(program.process.pid)
            t.equal("ctl rotate", t.tool("ctl", pid, "rotate").status, 0)
            t.equal(f"ctl {words}", t.tool("ctl", pid, *words).status if words else 0, 0)
            if words:
                program.send(b"x")
        counted = program.finish()
    files = [t.folder / f"trace.{i}.tide" for i in (1, 2, 3, 4)]
    for path in files:
        sound(t, path)
    t.equal("intervals", [t.report(path)["sample_bytes"] for path in files],
            [4096, 32768, 32768, 32768])
    names = [[mode["name"] for mode in t.report(path)["modes"]] for path in files]
    t.equal("modes", names, [[], ["sampled 32768"], ["exact"],
                             ["exact (after blocks that were sampled before)"]])
    # What each piece says was allocated in it: the whole, less what it began with.
    for path, after, before in zip(files[:3], counts, [None, *counts]):
        report = t.report(path)
        new = difference(after, before) if before else after
        wanted = sum(row[1] for row in new.values())
        near(t, f"{path.name} allocated", report["allocated_bytes"] - report["inherited_bytes"],
             wanted, report["allocated_bytes_error"])
    merged = t.folder / "merged.tide"
    t.need(t.tool("merge", *files, "-o", merged).status == 0, "merge")
    compare(t, merged, counted)
    sound(t, merged)


@case("sampling/folded", "wrong estimates where older events are folded")
def folded(t):
    with Phases(t, ["--sample", "64", "--retain", "1M"], "busy") as program:
        program.poll(lambda: program.status().get("folded_events", 0) > 100_000, "folding")
        t.equal("ctl sample", t.tool("ctl", str(program.process.pid), "sample", "1K").status, 0)
        counted = program.finish()
    report = compare(t, t.trace, counted)
    t.expect(report["folded_events"] > 0, "nothing was folded")
    sound(t, t.trace)


@case("sampling/images", "a new image or child that is recorded otherwise than what it came from")
def images(t):
    for kind in ("exec", "fork"):
        with Phases(t, ["--sample", "4K", "--children", "-f"], "wait", 1, kind) as program:
            for _ in range(2):
                program.wait_for("ready\n")
                program.send(b"x")
            program.wait_for("ready\n")
            answer = t.tool("ctl", str(program.process.pid), "sample", "64K")
            t.equal("ctl sample 64K", (answer.status, answer.err), (0, ""))
            lines = program.finish()
        if kind == "exec":
            report = compare(t, t.trace, lines)  # of the last image
            t.equal("interval of the image", report["sample_bytes"], 65536)
            sound(t, t.trace)
            continue
        child = t.folder / "trace.2.tide"
        report = t.report(child)
        # Its parent's blocks are samples by 4K, its own by 64K.
        t.equal("interval of the child", (report["sample_bytes"], report["modes"]), (65536, []))
        kept(t, child)
        kept(t, t.trace)
        sound(t, child)


def kept(t, trace):
    """What the program frees is not live at the end; what it keeps is, about."""
    sites, _ = sites_of(t, trace)
    for name, row in sites.items():
        if name and name.startswith("site_") and int(name[5:]) % 2:
            t.equal(f"{name} ends", row["unfreed_allocations"], 0)


@case("sampling/attached", "a sample of a program that ran already")
def attached(t):
    def start(*command, **how):
        process = start_program([str(word) for word in command], stdout=subprocess.PIPE,
                                cwd=t.folder, start_new_session=True,
                                **{"env": t.environment(), **how})
        return watch.Watch(process, t.seconds)

    with start(t.target("sampled"), "90000", "2", "wait", stdin=subprocess.PIPE) as program:
        before = own_count(program.read_until("ready\n"))
        with start(t.tidemark, "attach", "-o", t.trace, program.process.pid,
                   env=t.environment({"TIDEMARK_SAMPLE": "1K"}), stdin=subprocess.DEVNULL,
                   stderr=subprocess.STDOUT) as recording:
            recording.wait_for("Ctrl-C")
            program.send(b"x")
            program.wait_for("ready\n")
            answer = t.tool("ctl", str(program.process.pid), "sample", "16K")
            t.equal("ctl sample 16K", (answer.status, answer.err), (0, ""))
            program.send(b"x")
            after = own_count(program.read_until("ready\n"))
            t.equal("detach", t.tool("detach", str(program.process.pid)).status, 0)
            recording.ended()
        program.send(b"x")
        program.process.stdin.close()
        t.equal("the program", program.ended(), 0)
    report = compare(t, t.trace, difference(after, before))
    t.equal("interval", report["sample_bytes"], 16384)
    sound(t, t.trace)


@case("sampling/sure", "estimates that look like facts")
def sure(t):
    one, other, exact = t.folder / "one.tide", t.folder / "other.tide", t.folder / "exact.tide"
    for path, rounds, options in ((one, "40000", ["--sample", "8K"]),
                                  (other, "80000", ["--sample", "8K"]), (exact, "40000", [])):
        t.record([t.target("sampled"), rounds, "1"], [*options, "-o", path], output=False)
    for section in ("summary", "peak", "functions", "lines", "tree", "threads"):
        t.expect(" ± " in t.tool("report", "--section", section, one).out, f"report: {section}")
        t.expect("± " not in t.tool("report", "--section", section, exact).out, f"exact {section}")
    for form in ("massif", "callgrind", "dhat", "speedscope", "chrome", "firefox", "flamegraph"):
        for trace in (one, exact):
            path = t.folder / form
            t.need(t.tool("export", "-f", form, "--force", "-o", path, trace).status == 0, form)
            data = path.read_bytes()
            data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            t.equal(f"{form} says that figures are estimates", b"estimates" in data, trace == one)
    for section in ("summary", "peak", "functions", "tree"):
        t.expect(" ± " in t.tool("diff", "--section", section, one, other).out, f"diff {section}")
        same = t.tool("diff", "--section", section, exact, exact).out
        t.expect("±" not in same, f"diff of exact ones: {section}: {same}")
    diff = json.loads(t.tool("diff", "--json", "--section", "summary,peak", exact, other).out)
    total = diff["summary"]["totals"]["allocated_bytes"]
    t.equal("the exact side", total["before_error"], 0)
    # Most blocks are small beside the interval: R x B is the variance, about.
    wanted = math.sqrt(8192 * total["after"])
    t.expect(0.5 * wanted <= total["after_error"] <= wanted + 1, f"{total}, root {wanted}")
    row = diff["peak"][0]
    t.equal("change_error", row["change_error"], row["after"]["peak_bytes_error"])
    def table(path):
        text = t.tool("export", "--format", "csv", "--view", "functions", "--limit", "0", path).out
        return list(csv.DictReader(io.StringIO(text)))
    functions = {row["function"]: row["inclusive"]
                 for row in t.report(one, "--section", "functions", "--limit", "0")["functions"]}
    for row in table(one):
        t.equal(f"CSV, {row['function']}", int(row["inclusive_peak_bytes_error"]),
                functions[row["function"]]["peak_bytes_error"])
    t.expect("peak_bytes_error" not in table(exact)[0], "CSV of an exact recording")
    check = t.tool("check", "--max-peak", "1K", "--no-budgets-file", one)
    t.expect("(estimated) is more than" in check.out, f"check: {check.out!r}")
    budgets = json.loads(t.tool("check", "--json", "--max-peak", "1K", "--no-budgets-file",
                                one).out)["budgets"]
    t.equal("value_error", budgets[0]["value_error"], t.report(one)["peak_bytes_error"])


@case("sampling/options", "a wrong interval that is taken, or a message that does not help")
def options(t):
    for words, part in ((["--sample=7"], "64 bytes to 1G"), (["--sample=x"], "sample"),
                        (["--max-overhead", "0"], "1%"), (["--on-overload", "x"], "wait, sample")):
        result = t.tool("run", *words, "--", "/bin/true")
        t.expect(result.status == 2 and part in result.err, f"{words}: {result.err!r}")
    result = t.tool("attach", "1", env={"TIDEMARK_KEEP": "0"})
    t.expect(result.status == 2 and "so says TIDEMARK_KEEP" in result.err, f"{result.err!r}")
    result = t.tool("run", "--sample=100000", "-o", t.trace, "--", t.target("sampled"), "10000")
    t.expect("131072" in result.err, f"the nearest interval is not said: {result.err!r}")
    for words in (["--on-overload", "drop"], ["--on-overload", "sample", "--overload-share", "5%"],
                  ["--max-overhead", "50%"]):
        result = t.tool("run", "-f", *words, "-o", t.trace, "--", t.target("sampled"), "10000")
        t.equal(f"{words}", result.status, 0)
