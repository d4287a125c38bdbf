# SPDX-License-Identifier: Apache-2.0
"""Sampling: estimates against what the program counted itself, ends that are never missed.

The seed makes the choice of blocks the same each time where there is one thread; where there are
several, bounds are six standard errors wide.
"""
import json
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
        near(t, f"{name} allocated", row["allocated_bytes"], total, row["allocated_bytes_error"])
        near(t, f"{name} unfreed", row["unfreed_bytes"], kept_bytes, row["unfreed_bytes_error"])
        # Counts have the error of bytes, in blocks of the site's mean size or less.
        if exact_ends and kept == 0:
            t.equal(f"{name} ends", row["unfreed_allocations"], 0)
    return report


def sound(t, trace):
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
    """The target in its three phases."""

    def __init__(self, t, options):
        self.command = [t.tidemark, "run", "-q", "-o", t.trace, *options, "--",
                        t.target("sampled"), "90000", "2", "wait"]
        process = start_program(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=open(t.folder / "errors", "ab"), cwd=t.folder,
                                env=t.environment(), start_new_session=True)
        super().__init__(process, t.seconds)


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
    program.send(b"x")
    program.process.stdin.close()
    program.ended()
    said = program.text + program.process.stdout.read().decode()
    counted = own_count(said)
    t.need(len(counted) == 21, f"the program said {said!r}")
    compare(t, t.trace, counted)
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


@case("sampling/options", "a wrong interval that is taken, or a message that does not help")
def options(t):
    for words, part in ((["--sample=7"], "64 bytes to 1G"), (["--sample=x"], "sample"),
                        (["--max-overhead", "0"], "1%"), (["--on-overload", "x"], "wait, sample")):
        result = t.tool("run", *words, "--", "/bin/true")
        t.expect(result.status == 2 and part in result.err, f"{words}: {result.err!r}")
    result = t.tool("run", "--sample=100000", "-o", t.trace, "--", t.target("sampled"), "10000")
    t.expect("131072" in result.err, f"the nearest interval is not said: {result.err!r}")
    for words in (["--on-overload", "drop"], ["--on-overload", "sample", "--overload-share", "5%"],
                  ["--max-overhead", "50%"]):
        result = t.tool("run", "-f", *words, "-o", t.trace, "--", t.target("sampled"), "10000")
        t.equal(f"{words}", result.status, 0)
