# SPDX-License-Identifier: Apache-2.0
"""What the report answers, on programs whose figures are known.

`simple` keeps blocks of 0 to 99 bytes and drops blocks of 1000 to 1099 at its end:
100 + 100 blocks, 4950 + 104950 bytes, all live at the peak.
"""
import csv
import fcntl
import io
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios

from harness import case
from watch import Watch

KEPT, DROPPED = sum(range(100)), sum(range(1000, 1100))
PEAK = KEPT + DROPPED



def rows(listed):
    return {row["function"]: row for row in listed}


def shell(t, columns, lines, *arguments, env=None):
    """The report as a terminal of that size shows it: text with colours."""
    control, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    full = t.environment({"TERM": "xterm", **(env or {})})
    for name in ("COLUMNS", "NO_COLOR", "PAGER", "LESS"):
        if name not in (env or {}):
            full.pop(name, None)
    process = subprocess.Popen([str(one) for one in [t.tidemark, "report", t.trace, *arguments]],
                               stdin=side, stdout=side, stderr=side, env=full,
                               start_new_session=True)
    os.close(side)
    text = b""
    while True:
        if not select.select([control], [], [], t.seconds)[0]:
            process.kill()
            break
        try:
            data = os.read(control, 65536)
        except OSError:
            break
        if not data:
            break
        text += data
    os.close(control)
    t.equal("exit status in a terminal", process.wait(), 0)
    return text.decode().replace("\r\n", "\n")


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)


@case("report/sites", "the report names the wrong functions, or wrong figures of them")
def sites(t):
    t.record(["simple", "3"])
    result = t.tool("report", t.trace, "--exact", "--section", "summary,peak,unfreed,freed")
    t.equal("exit status", result.status, 0)
    for wanted in (f"peak         {PEAK:,} B in 200 blocks", f"unfreed      {KEPT:,} B in 100 blocks",
                   f"allocations  200 of {PEAK:,} B in all, 550 B on average",
                   f"frees        100 of {DROPPED:,} B",
                   f"{DROPPED:,} B  95.5 %  simple_drop",
                   "100 blocks at the peak, 1,050 B on average, in simple",
                   f"{KEPT:,} B 100.0 %  simple_keep",
                   "Sites by what they left unfreed", "Sites by freed bytes"):
        t.expect(wanted in result.out, f"not there: {wanted!r}")
    t.expect("\x1b" not in result.out, "colours in a file")


@case("report/modes", "a mode shows other blocks than it says")
def modes(t):
    t.record(["simple", "3"])
    wanted = {"peak": (PEAK, 200), "live": (KEPT, 100), "allocated": (PEAK, 200),
              "freed": (DROPPED, 100), "surviving": (KEPT, 100)}
    for mode, (size, blocks) in wanted.items():
        result = t.tool("report", t.trace, "--exact", "--tree", "--mode", mode)
        line = next((one for one in result.out.splitlines() if one.endswith(" main")), "")
        t.expect(line.split()[:5] == [f"{size:,}", "B", "100.0", "%", f"{blocks}"],
                 f"{mode}: {line!r}")


@case("report/trees", "call trees lose bytes or put them under the wrong function")
def trees(t):
    t.record(["simple", "3"])
    report = t.report(None, "--tree", "--bottom-up", "--limit", "0")
    nodes = report["tree"]["nodes"]
    t.equal("order", report["tree"]["order"], "peak_bytes")
    t.equal("all", nodes[0]["inclusive"]["peak_bytes"], PEAK)
    by_name = rows(nodes)
    t.equal("simple_drop", by_name["simple_drop"]["self"]["peak_bytes"], DROPPED)
    t.equal("simple_keep", by_name["simple_keep"]["self"]["peak_bytes"], KEPT)
    t.equal("main", by_name["main"]["inclusive"]["peak_bytes"], PEAK)
    t.equal("main itself", by_name["main"]["self"]["peak_bytes"], 0)
    t.equal("parent of simple_drop", nodes[by_name["simple_drop"]["parent"]]["function"], "main")
    up = report["bottom_up"]["nodes"]
    roots = {node["function"]: node["inclusive"]["peak_bytes"] for node in up
             if node["depth"] == 1}
    t.equal("bottom-up", roots, {"simple_drop": DROPPED, "simple_keep": KEPT})
    cut = t.report(None, "--tree", "--limit", "0", "--depth", "2")["tree"]["nodes"]
    t.equal("depth", max(node["depth"] for node in cut), 2)
    t.equal("all, cut", cut[0]["inclusive"]["peak_bytes"], PEAK)


@case("report/callers", "callers and callees of a function are wrong")
def callers(t):
    t.record(["simple", "3"])
    report = t.report(None, "--function", "simple_keep", "--mode", "allocated")["callers"]
    t.equal("callers", [row["function"] for row in report["callers"]], ["main"])
    t.equal("self", report["self"]["allocated_bytes"], KEPT)
    t.equal("callees", [(row["function"], row["module"]) for row in report["callees"]],
            [(None, None)])
    main = t.report(None, "--function", "main")["callers"]
    t.equal("callees of main", [(row["function"], row["inclusive"]["peak_bytes"])
                                for row in main["callees"]],
            [("simple_drop", DROPPED), ("simple_keep", KEPT)])
    result = t.tool("report", t.trace, "--function", "nobody_of_that_name")
    t.equal("exit status", result.status, 1)
    t.expect("no function called 'nobody_of_that_name'" in result.err, f"said: {result.err!r}")
    t.expect("--group function" in result.err, f"no advice: {result.err!r}")


@case("report/groups", "flat lists by line, package, module or allocator are wrong")
def groups(t):
    t.record(["simple", "3"])
    report = t.report(None, "--group", "function", "--group", "line", "--group", "module",
                      "--group", "package", "--group", "allocator")
    lines = {row["function"]: row for row in report["lines"]}
    t.equal("line of simple_keep", os.path.basename(lines["simple_keep"].get("file") or "?"),
            "simple.c")
    modules = {os.path.basename(row["module"]): row for row in report["modules"]}
    t.equal("module simple, self", modules["simple"]["self"]["allocated_bytes"], PEAK)
    packages = {row["package"]: row for row in report["packages"]}
    t.equal("package simple, self", packages["simple"]["self"]["allocated_bytes"], PEAK)
    t.equal("allocators", [(row["function"], row["self"]["allocations"])
                           for row in report["allocators"]], [(None, 200)])
    sorted_by = t.report(None, "--group", "function", "--sort", "name")["functions"]
    names = [row["function"] or "" for row in sorted_by]
    t.equal("by name", names, sorted(names))


@case("report/fold", "folding loses bytes or leaves noise")
def fold(t):
    t.record(["simple", "3"])
    functions = rows(t.report(None, "--group", "function", "--fold", "noise")["functions"])
    t.equal("functions", {name: row["inclusive"]["peak_bytes"]
                          for name, row in functions.items()},
            {"main": PEAK, "simple_drop": DROPPED, "simple_keep": KEPT})


@case("report/filter", "a filter chooses other blocks, or its mistake is not shown")
def filters(t):
    t.record(["simple", "3"])
    report = t.report(None, "--filter", "function:simple_keep and size>=64")
    chosen = report["selection"]
    t.equal("allocations", chosen["allocations"], 36)
    t.equal("bytes", chosen["allocated_bytes"], sum(range(64, 100)))
    t.equal("whole run", report["allocations"], 200)
    t.equal("sites", [row["function"] for row in report["top_peak"]], ["simple_keep"])
    result = t.tool("report", t.trace, "--filter", "size>=many")
    t.equal("exit status", result.status, 2)
    caret = result.err.splitlines()[-1]
    t.expect(caret.strip() == "^", f"no caret: {result.err!r}")


@case("report/range", "parts of a run do not add up to the whole")
def ranges(t):
    t.record(["steady", "20"], input_text="x")
    whole = t.report()
    peak_us = whole["peak_time_ns"] // 1000
    before = t.report(None, "--to", f"{peak_us}us")["selection"]
    after = t.report(None, "--from", f"{peak_us + 1}us")["selection"]
    for key in ("allocations", "allocated_bytes", "frees", "freed_bytes"):
        wanted = whole[key] if key in whole else whole["allocated_bytes"] - whole["unfreed_bytes"]
        t.equal(key, before[key] + after[key], wanted)
    t.equal("live between", before["unfreed_bytes"], after["start_bytes"])
    t.equal("peak before", before["heap_peak_bytes"], whole["peak_bytes"])
    t.equal("live at the end", after["unfreed_bytes"], whole["unfreed_bytes"])
    moment = t.report(None, "--at", f"{peak_us}us")["selection"]
    t.equal("live at the moment", moment["unfreed_bytes"], before["unfreed_bytes"])
    everything = t.report(None, "--from", "0%", "--to", "100%")["selection"]
    t.equal("0% to 100%", everything["allocations"], whole["allocations"])


@case("report/sizes", "the histograms of sizes and lifetimes are wrong")
def sizes(t):
    t.record(["simple", "3"])
    report = t.report(None, "--section", "sizes,lifetimes")
    got = {(row["from_bytes"], row["to_bytes"]): row["count"] for row in report["sizes"]
           if row["count"]}
    t.equal("sizes", got, {(0, 0): 1, (1, 1): 1, (2, 3): 2, (4, 7): 4, (8, 15): 8, (16, 31): 16,
                           (32, 63): 32, (64, 127): 36, (512, 1023): 24, (1024, 2047): 76})
    top = {row["from_bytes"]: row["top"] for row in report["sizes"]}
    t.equal("top of 512 to 1023", [(one["function"], one["count"]) for one in top[512]],
            [("simple_drop", 24)])
    t.equal("frees by lifetime", sum(row["count"] for row in report["lifetimes"]), 100)
    text = t.tool("report", t.trace, "--section", "sizes").out
    t.expect("64 to 127 B" in text and "1 KiB to 2 KiB" in text, f"text: {text[-900:]}")


@case("report/threads", "what threads did is counted wrongly")
def threads(t):
    t.record(["threads", "cross"])
    whole = t.report(None, "--section", "threads")
    listed = whole["thread_list"]
    t.equal("threads", len(listed), whole["threads"])
    t.equal("allocations", sum(row["allocations"] for row in listed), whole["allocations"])
    t.equal("bytes", sum(row["allocated_bytes"] for row in listed), whole["allocated_bytes"])
    t.equal("unfreed", sum(row["unfreed_bytes"] for row in listed), whole["unfreed_bytes"])
    t.expect(sum(row["foreign_frees"] for row in listed) > 0, "no block changed hands")
    t.expect(all(row["foreign_frees"] <= row["frees"] for row in listed), "more than all frees")


@case("report/timeline", "the curve over time misses the peak or the end")
def timeline(t):
    t.record(["steady", "20"], input_text="x")
    report = t.report(None, "--section", "timeline")
    points = report["timeline"]
    t.equal("peak", max(point["max_live_bytes"] for point in points), report["peak_bytes"])
    t.equal("end", points[-1]["live_bytes"], report["unfreed_bytes"])
    t.equal("allocations", sum(point["allocations"] for point in points), report["allocations"])
    text = t.tool("report", t.trace, "--section", "timeline").out
    for wanted in ("Live bytes", "Allocations per second", "▼", "└──", " 0└"):
        t.expect(wanted in text, f"not in the plot: {wanted!r}")


@case("report/csv", "a spreadsheet gets other figures than the report has")
def tables(t):
    t.record(["simple", "3"])
    for section in ("summary", "peak", "functions", "lines", "packages", "modules", "allocators",
                    "tree", "bottom-up", "sizes", "lifetimes", "threads", "timeline"):
        result = t.tool("report", t.trace, "--csv", "--section", section)
        table = list(csv.reader(io.StringIO(result.out)))
        t.expect(len(table) > 1 and all(len(row) == len(table[0]) for row in table),
                 f"{section}: {result.out[:200]!r} {result.err!r}")
    listed = csv.DictReader(io.StringIO(t.tool("report", t.trace, "--csv").out))
    by_name = {row["function"]: row for row in listed}
    t.equal("simple_keep", by_name["simple_keep"]["self_unfreed_bytes"], str(KEPT))
    t.equal("main", by_name["main"]["inclusive_peak_bytes"], str(PEAK))


@case("report/terminal", "the report is broken on a terminal: too wide, no colours, no pager")
def terminal(t):
    t.record(["simple", "3"])
    for columns in (80, 120):
        text = shell(t, columns, 50, "--section", "all", "--no-pager")
        t.expect("\x1b[1m" in text, "no colours on a terminal")
        # The command line is shown as it is.
        wide = [line for line in plain(text).splitlines()
                if len(line) > columns and not line.startswith("command")]
        t.expect(not wide, f"wider than {columns}: {wide[:3]}")
    t.expect("\x1b[" not in shell(t, 80, 50, "--no-pager", env={"NO_COLOR": "1"}),
             "colours in spite of NO_COLOR")
    paged = shell(t, 80, 10, env={"PAGER": "sed s/^/through:/"})
    t.expect("through:" in paged, f"no pager: {paged[:300]!r}")
    short = shell(t, 80, 1000, env={"PAGER": "sed s/^/through:/"})
    t.expect("through:" not in short, "a pager for what fits on the screen")
    never = shell(t, 80, 10, "--no-pager", env={"PAGER": "sed s/^/through:/"})
    t.expect("through:" not in never, "a pager in spite of --no-pager")


@case("report/follow", "a trace that is still written cannot be watched")
def follow(t):
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("steady"), "5"]
    with Watch(t.start(command), t.seconds) as program:
        program.wait_for("ready\n")
        program.poll(t.trace.exists, "the trace")
        following = [t.tidemark, "report", "--follow", "--interval", "50ms", "--exact",
                     "--section", "summary", t.trace]
        with Watch(t.start(following), t.seconds) as report:
            report.wait_for("allocations  1,000 of 500,500 B")
            program.send(b"x")
            # The last report has both, in this order; one before it may have the allocations only.
            report.wait_for("exit status 3")
            report.wait_for("allocations  6,000 of ")
            t.equal("exit status of --follow", report.ended(), 0)


@case("report/mistakes", "a mistake on the command line is not explained")
def mistakes(t):
    t.record(["simple", "3"])
    for arguments, status, words in [
            (["--section", "peek"], 2, "did you mean 'peak'"),
            (["--section", "0"], 2, "'--image N'"),
            (["--mode", "dead"], 2, "live, allocated, freed, surviving or peak"),
            (["--sort", "size"], 2, "bytes, count, average, self, temporary or name"),
            (["--tree", "--sort", "name"], 2, "trees are sorted by"),
            (["--group", "file"], 2, "module, allocator, heap, tag or process"),
            (["--fold", "fat"], 2, "noise"),
            (["--limit", "-1"], 2, "a whole number"),
            (["--depth", "deep"], 2, "a whole number"),
            (["--image", "7"], 2, "its images are 0 to 0"),
            (["--from", "soon"], 2, "--from"),
            (["--at", "soon"], 2, "--at"),
            (["--from", "90%", "--to", "10%"], 2, "before it begins"),
            (["--from", "3h"], 2, "the end of the run"),
            (["--at", "1s", "--to", "2s"], 2, "a moment"),
            (["--csv", "--json"], 2, "give one of them"),
            (["--csv", "--section", "peak,sizes"], 2, "name one section"),
            (["--section", "callers"], 2, "--function NAME"),
            (["--interval", "0"], 2, "a duration"),
            (["--color", "blue"], 2, "auto, always or never"),
            (["--follow", "--image", "all"], 2, "'--follow'")]:
        result = t.tool("report", t.trace, *arguments)
        t.equal(f"{' '.join(arguments)}: exit status", result.status, status)
        t.expect(words in result.err, f"{' '.join(arguments)}: said {result.err!r}")


@case("report/json_keys", "scripts find no figures where they were")
def json_keys(t):
    t.record(["simple", "3"])
    report = t.report()
    for key in ("program", "peak_bytes", "unfreed_bytes", "temporary_allocations", "rss",
                "top_peak", "top_unfreed", "top_allocations", "top_temporary", "selection",
                "section", "section_count", "bytes_read"):
        t.expect(key in report, f"no key {key}")
    everything = json.loads(t.tool("report", t.trace, "--json", "--section", "all").out)
    for key in ("functions", "lines", "packages", "modules", "allocators", "tree", "bottom_up",
                "sizes", "lifetimes", "thread_list", "timeline", "top_allocated"):
        t.expect(key in everything, f"no key {key} with --section all")


@case("report/growth", "the growth of stacks cannot be asked for")
def growth(t):
    t.record(["simple", "3"])
    facts = t.report(t.trace, "--growth", "--limit-bytes", "1G")["growth"]
    t.equal("limit", (facts["limit_bytes"], facts["limit_source"]), (1 << 30, "given"))
    t.equal("judged", facts["judged"], True)
    for line in [facts["total"], *facts["stacks"]]:
        t.equal("moments", len(line["live_bytes"]), len(facts["times_ns"]))
        t.expect(line["low_bytes"] <= line["first_bytes"] <= line["high_bytes"], f"{line}")
        t.expect(0 <= line["fit"] <= 1.000001, f"{line}")
    # Stacks that live between the moments of the first look are left out, none is counted twice.
    for column, whole in zip(zip(*(one["live_bytes"] for one in facts["stacks"])),
                             facts["total"]["live_bytes"]):
        t.expect(sum(column) <= whole, f"{column} of {whole}")
    text = t.tool("report", "--growth", t.trace)
    t.expect("Growth, by what fills the memory first" in text.out, text.out)
    table = t.tool("report", "--csv", "-s", "growth", t.trace)
    t.equal("rows", len(table.out.splitlines()), 1 + facts["stack_count"])
    for wrong in ("x", "0", "-1"):
        result = t.tool("report", "--growth", "--limit-bytes", wrong, t.trace)
        t.expect(result.status == 2 and "--limit-bytes" in result.err, f"{result.err!r}")
