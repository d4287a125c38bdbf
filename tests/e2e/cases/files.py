# SPDX-License-Identifier: Apache-2.0
"""Commands about the trace file itself: info, verify, repair."""
import fcntl
import json
import os
import re

import tide
from harness import case


def info(t, path):
    result = t.tool("info", "--json", path)
    t.need(result.status == 0, f"info ended with {result.status}: {result.err}")
    return json.loads(result.out)


@case("files/info", "info does not say what is in the file")
def info_says(t):
    t.record(["simple", "3"])
    facts = info(t, t.trace)
    t.equal("file_bytes", facts["file_bytes"], t.trace.stat().st_size)
    t.equal("indexed", facts["indexed"], True)
    t.equal("sections", len(facts["sections"]), 1)
    section = facts["sections"][0]
    # simple allocates 200 blocks and frees 100.
    t.equal("events", section["events"], 300)
    t.equal("events_in_slices", section["events_in_slices"], 300)
    t.equal("threads", section["threads"], 1)
    t.equal("end", section["end"], "exit")
    t.equal("problem", section["problem"], None)
    t.equal("program", section["program"], str(t.target("simple")))
    kinds = {one["kind"]: one for one in facts["kinds"]}
    on_disk = [one for one in tide.blocks(t.trace) if one.kind == tide.EVENTS]
    t.equal("blocks of events", kinds["events"]["blocks"], len(on_disk))
    t.equal("their bytes", kinds["events"]["stored_bytes"],
            sum(tide.BLOCK + one.stored for one in on_disk))
    text = t.tool("info", t.trace)
    t.expect("300 in 1 block" in text.out and "exit status 3" in text.out, text.out)


@case("files/info_bad", "info crashes on what is no trace, or says nothing about it")
def info_bad(t):
    (t.folder / "empty").write_bytes(b"")
    (t.folder / "text").write_bytes(b"hello\n" * 100)
    for name in ("empty", "text", "nothing.tide", "."):
        result = t.tool("info", t.folder / name)
        t.equal(f"{name}: status", result.status, 1)
        t.expect(result.err.startswith("tidemark info: '"), f"{name}: {result.err!r}")
    t.equal("no file: status", t.tool("info").status, 2)
    t.record(["simple", "0"])
    t.equal("two files: status", t.tool("info", t.trace, t.trace).status, 2)


@case("files/verify", "damage is not found, or a sound trace is called damaged")
def verify(t):
    t.record(["simple", "0"])
    result = t.tool("verify", t.trace)
    t.need(result.status == 0, f"a fresh trace: {result.out}{result.err}")
    t.expect(": sound:" in result.out, result.out)
    bad = t.folder / "bad.tide"
    for block in tide.blocks(t.trace):
        for name, offset in {"header": block.offset + 30, "payload": block.payload + 3}.items():
            result = t.tool("verify", "--json", tide.flip(t.trace, bad, offset))
            what = f"a bit of the {name} of block {block.kind} at {block.offset}"
            if not t.equal(f"{what}: status", result.status, 1):
                continue
            problems = json.loads(result.out)["problems"]
            # A damaged index is passed by: the blocks are found without it.
            if block.kind != tide.INDEX:
                t.expect(any(one["offset"] == block.offset for one in problems),
                         f"{what}: not named: {problems}")


@case("files/verify_cut", "a trace that was cut off is called sound, or makes verify fail")
def verify_cut(t):
    t.record(["simple", "0"])
    size = t.trace.stat().st_size
    for keep in range(size - 1, 0, -max(1, size // 40)):
        result = t.tool("verify", tide.cut(t.trace, t.folder / "cut.tide", keep))
        t.expect(result.status in (1, 2), f"cut to {keep} bytes: status {result.status}")
        t.expect("cut.tide" in result.out + result.err, f"cut to {keep}: says nothing")
    result = t.tool("verify", t.folder / "nothing")
    t.equal("no file", result.status, 2)
    t.equal("quiet", t.tool("verify", "-q", t.trace).out, "")


TOTALS = ["allocations", "frees", "allocated_bytes", "peak_bytes", "unfreed_bytes",
          "temporary_allocations"]


def repaired(t, path, *arguments):
    """The report of a repaired copy, which must be sound."""
    fixed = t.folder / "fixed.tide"
    result = t.tool("repair", "-f", "-o", fixed, path, *arguments)
    t.need(result.status == 0, f"repair ended with {result.status}: {result.err}")
    check = t.tool("verify", fixed)
    t.equal(f"verify of the repaired file: {check.out}{check.err}", check.status, 0)
    return t.report(fixed), result.out


@case("files/repair", "a damaged block costs more than itself")
def repair(t):
    t.record(["simple", "0"])
    whole = t.report()
    for block in tide.blocks(t.trace):
        for where in (block.offset + 30, block.payload + 3):
            bad = tide.flip(t.trace, t.folder / "bad.tide", where)
            report, said = repaired(t, bad)
            for key in TOTALS:
                t.equal(f"{key} without a block of kind {block.kind}", report[key], whole[key])
            lost = block.kind == tide.EVENTS and where >= block.payload
            t.equal("events_not_stored", report["events_not_stored"], 300 if lost else 0)
            t.expect(("could not be read" in said) == lost, said)


@case("files/repair_events", "a repaired trace without some events has figures of its own making")
def repair_events(t):
    t.record(["big", "1"])
    whole = t.report()
    found = tide.blocks(t.trace)
    events = [one for one in found if one.kind == tide.EVENTS]
    lost, after = events[4], events[5]
    bad = tide.flip(t.trace, t.folder / "bad.tide", lost.payload + 40)
    report, _ = repaired(t, bad)
    for key in TOTALS:
        t.equal(f"{key}, slices sound", report[key], whole[key])
    t.equal("events_not_stored", report["events_not_stored"], lost.count)
    # Without the slices the events that are left are all there is.
    one_slice = [one for one in found if one.kind == tide.SLICE][1]
    worse = tide.flip(bad, t.folder / "worse.tide", one_slice.payload + 9)
    report, said = repaired(t, worse)
    births = after.block_id - lost.block_id
    t.equal("allocations", report["allocations"], whole["allocations"] - births)
    t.equal("lost_events", report["lost_events"], lost.count)
    # Frees in the lost block, and frees of blocks that it allocated, are gone.
    t.equal("frees", report["frees"] + report["freed_older"],
            whole["frees"] - (lost.count - births))
    t.expect("looks unfreed" in said, said)


@case("files/repair_in_place", "repair loses the old file, or leaves a half-written one")
def repair_in_place(t):
    t.record(["simple", "0"])
    whole, original = t.report(), t.trace.read_bytes()
    result = t.tool("repair", t.trace)
    t.expect(result.status == 0 and "nothing to repair" in result.out, f"{result.out!r}")
    t.equal("a sound file", t.trace.read_bytes(), original)
    # Cut off its index and its end: as if the recorder had been killed.
    last = tide.blocks(t.trace)[-1]
    cut_off = original[:last.offset]
    for name in ("trace.tide.bak", "trace.tide.bak1"):
        t.trace.write_bytes(cut_off)
        result = t.tool("repair", t.trace)
        t.equal("status", result.status, 0)
        t.expect(name in result.out, f"the backup is not named: {result.out!r}")
        t.equal("backup", (t.folder / name).read_bytes(), cut_off)
        t.equal("verify", t.tool("verify", t.trace).status, 0)
        t.equal("allocations", t.report()["allocations"], whole["allocations"])
    t.equal("mode", t.trace.stat().st_mode & 0o777, 0o600)
    t.equal("left over", sorted(one.name for one in t.folder.glob("trace.tide*")),
            ["trace.tide", "trace.tide.bak", "trace.tide.bak1"])
    # An output that exists is not replaced unasked.
    (t.folder / "there").write_text("mine")
    result = t.tool("repair", "-o", t.folder / "there", t.trace)
    t.expect(result.status == 1 and "--force" in result.err, f"{result.status} {result.err!r}")
    t.equal("the other file", (t.folder / "there").read_text(), "mine")


def leases_work(path):
    """Whether this file system can tell that a file is in use."""
    with open(path, "r+b") as mine:
        try:
            fcntl.fcntl(mine, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            return False
    return True


@case("files/repair_live", "repair takes the file from a recording that goes on")
def repair_live(t):
    t.record(["simple", "0"])
    tide.cut(t.trace, t.trace, tide.blocks(t.trace)[-1].offset)
    if not leases_work(t.trace):
        t.skip("the file system has no leases")
    before = t.trace.read_bytes()
    recorder = os.open(t.trace, os.O_RDWR)
    result = t.tool("repair", t.trace)
    t.equal("status", result.status, 1)
    t.expect("still being written" in result.err, f"{result.err!r}")
    t.equal("the file", t.trace.read_bytes(), before)
    result = t.tool("repair", "-o", t.folder / "copy.tide", t.trace)
    t.equal(f"a repaired copy: {result.err}", result.status, 0)
    os.close(recorder)
    t.equal("status when the recording has ended", t.tool("repair", t.trace).status, 0)


@case("files/repair_cut", "repair fails or crashes on a file that was cut off")
def repair_cut(t):
    t.record(["simple", "0"])
    size = t.trace.stat().st_size
    for keep in range(size - 1, 0, -max(1, size // 25)):
        short = tide.cut(t.trace, t.folder / "cut.tide", keep)
        result = t.tool("repair", "-f", "-o", t.folder / "fixed.tide", short)
        if result.status == 0:
            t.equal(f"verify after a cut to {keep}",
                    t.tool("verify", t.folder / "fixed.tide").status, 0)
        else:
            t.equal(f"status after a cut to {keep}", result.status, 1)
            t.expect("cut.tide" in result.err, f"{result.err!r}")


@case("files/trim", "a part of a trace has other figures than its range")
def trim(t):
    t.record(["simple", "0"])
    part = t.folder / "part.tide"
    # All of it: nothing is inherited, every figure stays.
    whole = t.report()
    result = t.tool("trim", t.trace, part)
    t.need(result.status == 0, f"trim ended with {result.status}: {result.err}")
    t.equal("verify", t.tool("verify", part).status, 0)
    report = t.report(part)
    for key in TOTALS:
        t.equal(key, report[key], whole[key])
    t.equal("end", report["end"], "exit")
    # From the peak on: 200 blocks live then, 100 of them are freed.
    result = t.tool("trim", "--from", "peak", "-f", t.trace, part)
    t.equal("status", result.status, 0)
    t.equal("verify", t.tool("verify", part).status, 0)
    report = t.report(part)
    t.equal("unfreed_bytes", report["unfreed_bytes"], sum(range(100)))
    # All but what the peak's own microsecond brought were there before.
    t.expect(0 < report["inherited_allocations"] <= 200, f"{report['inherited_allocations']}")
    t.equal("allocations", report["allocations"], 200)
    own = t.report(part, "--from", "1us")["selection"]
    t.equal("its own", own["allocations"], 200 - report["inherited_allocations"])
    t.equal("its frees", own["frees"], 100)
    t.equal("at its begin", own["start_bytes"], report["inherited_bytes"])
    t.equal("peak_bytes", report["peak_bytes"], sum(range(100)) + sum(range(1000, 1100)))
    # A name of the whole is a name of the part.
    names = {row["function"] for row in t.report(part, "--by", "function")["functions"]}
    t.expect({"simple_keep", "main"} <= names, f"names: {names}")


@case("files/trim_bad", "a wrong range is taken, or a file is replaced unasked")
def trim_bad(t):
    t.record(["simple", "0"])
    part = t.folder / "part.tide"
    wrong = {
        "from nowhere": ["--from", "yesterday"],
        "to nowhere": ["--to", "12parsecs"],
        "backwards": ["--from", "90%", "--to", "10%"],
        "no section": ["--image", "7"],
        "no number": ["--image", "x"],
    }
    for name, options in wrong.items():
        result = t.tool("trim", *options, t.trace, part)
        t.expect(result.status in (1, 2) and result.err.startswith("tidemark trim:"),
                 f"{name}: {result.status} {result.err!r}")
        t.expect(not part.exists(), f"{name}: a file was written")
    part.write_text("mine")
    result = t.tool("trim", t.trace, part)
    t.expect(result.status == 1 and "--force" in result.err, f"{result.status} {result.err!r}")
    t.equal("the other file", part.read_text(), "mine")
    t.equal("one file", t.tool("trim", t.trace).status, 2)
    t.equal("three files", t.tool("trim", "a", "b", "c").status, 2)
    t.equal("left over", [one.name for one in t.folder.glob("part.tide?*")], [])


@case("files/anonymize", "a trace for a stranger tells names, or other figures")
def anonymize(t):
    t.record(["simple", "0"])
    copy, words, key = t.folder / "copy.tide", t.folder / "words.tsv", t.folder / "key"
    result = t.tool("anonymize", "--key-file", key, "--words", words, "--keep", "simple_free",
                    t.trace, copy)
    t.need(result.status == 0, f"anonymize ended with {result.status}: {result.err}")
    t.equal("verify", t.tool("verify", copy).status, 0)
    t.equal("mode", copy.stat().st_mode & 0o777, 0o600)
    t.equal("mode of the key", key.stat().st_mode & 0o777, 0o600)
    whole, report = t.report(), t.report(copy)
    for name in TOTALS:
        t.equal(name, report[name], whole[name])
    text = t.tool("report", "--json", copy).out + t.tool("info", copy).out
    t.expect("simple_keep" not in text, "a name is left")
    spoken = dict(line.split("\t")[::-1] for line in words.read_text().splitlines())
    names = {row["function"] for row in t.report(copy, "--by", "function")["functions"]}
    t.expect({spoken["simple_keep"], "main"} <= names, f"names: {names}")
    t.expect("simple_free" not in spoken, "a word that was to be kept is replaced")
    # The same key: the same words. Also of a file that was cut off, which is made whole before.
    again = t.folder / "again.tide"
    t.equal("again", t.tool("anonymize", "--key-file", key, t.trace, again).status, 0)
    t.equal("program", t.report(again)["program"], spoken_path(t.report()["program"], spoken))
    short = tide.cut(t.trace, t.folder / "cut.tide", t.trace.stat().st_size - 40)
    t.equal("cut off", t.tool("anonymize", "-f", short, again).status, 0)
    t.equal("verify", t.tool("verify", again).status, 0)
    t.expect("simple_keep" not in t.tool("report", "--json", again).out, "a name is left")
    t.equal("left over", sorted(one.name for one in t.folder.glob("again.tide*")), ["again.tide"])


def spoken_path(path, spoken):
    return re.sub(r"[\w$]+", lambda word: spoken.get(word[0], word[0]), path)


@case("files/anonymize_bad", "a file is replaced unasked, or a mistake is not told")
def anonymize_bad(t):
    t.record(["simple", "0"])
    there = t.folder / "anonymous.tide"
    there.write_text("mine")
    result = t.tool("anonymize", t.trace)
    t.expect(result.status == 1 and "--force" in result.err, f"{result.status} {result.err!r}")
    t.equal("the other file", there.read_text(), "mine")
    (t.folder / "short").write_text("x")
    wrong = [[], ["a", "b", "c"], ["--key-file", t.folder / "short", t.trace]]
    for options in wrong:
        result = t.tool("anonymize", *options)
        t.expect(result.status == 2 and result.err.startswith("tidemark anonymize:"),
                 f"{options}: {result.status} {result.err!r}")
    t.equal("no trace", t.tool("anonymize", t.folder / "short").status, 1)
    t.equal("left over", [one.name for one in t.folder.glob("anonymous.tide?*")], [])


SUMS = ["allocations", "allocated_bytes", "frees", "temporary_allocations", "failed_allocations"]


@case("files/merge", "several processes as one trace do not add up or cannot be told apart")
def merge(t):
    t.record(["process", "fork_plain"], options=["--children"])
    traces = sorted(t.folder.glob("*.tide"))
    t.need(len(traces) > 1, f"{len(traces)} traces")
    reports = [t.report(trace, "--by", "function") for trace in traces]
    all_path = t.folder / "all"
    result = t.tool("merge", "--unfreed", "keep", "-o", all_path, *traces)
    t.need(result.status == 0, f"merge ended with {result.status}: {result.err}")
    t.equal("verify", t.tool("verify", all_path).status, 0)
    whole = t.report(all_path, "--group", "process")
    for name in SUMS + ["unfreed_bytes", "unfreed_allocations"]:
        t.equal(name, whole[name], sum(report[name] for report in reports))
    rows = {row["function"]: row["inclusive"] for row in whole["processes"]}
    t.equal("processes", len(rows), len(traces))
    for report in reports:
        label = next(name for name in rows if name.startswith(f"process {report['pid']} "))
        t.equal(label, rows[label]["allocated_bytes"], report["allocated_bytes"])
        own = t.report(all_path, "--filter", f'function:"process {report["pid"]} "')
        t.equal(f"filter {label}", own["selection"]["allocations"], report["allocations"])
    # What a process left ends with it, unless it is to stay; figures of the rest are the same.
    result = t.tool("merge", "-f", "-o", all_path, *traces)
    t.equal("status", result.status, 0)
    released = t.report(all_path)
    t.equal("unfreed", released["unfreed_bytes"], 0)
    # For a stranger they are told apart, too.
    t.equal("anonymize", t.tool("anonymize", all_path, t.folder / "strange").status, 0)
    strange = t.report(t.folder / "strange", "--group", "process")["processes"]
    t.equal("strange processes", sorted(row["inclusive"]["allocated_bytes"] for row in strange),
            sorted(report["allocated_bytes"] for report in reports))
    t.equal("allocations", released["allocations"], whole["allocations"])
    t.equal("mode", all_path.stat().st_mode & 0o777, 0o600)


@case("files/merge_images", "programs that one process became are taken for pieces of one")
def merge_images(t):
    t.record([str(t.target("process")), "exec", "3"])
    merged = t.folder / "merged"
    result = t.tool("merge", "--unfreed", "keep", "-o", merged, t.trace)
    t.need(result.status == 0, f"merge ended with {result.status}: {result.err}")
    images = [t.report(None, "--image", str(number)) for number in range(4)]
    whole = t.report(merged, "--group", "process")
    t.equal("processes", len(whole["processes"]), len([one for one in images if one["allocations"]]))
    for name in SUMS:
        t.equal(name, whole[name], sum(image[name] for image in images))


@case("files/merge_bad", "a mistake in a merge is not told, or a file is replaced unasked")
def merge_bad(t):
    t.record(["simple", "0"])
    out = t.folder / "merged.tide"
    out.write_text("mine")
    other = t.folder / "other.tide"
    t.equal("run", t.tool("run", "-q", "-o", other, "--", t.target("simple"), "0").status, 0)
    result = t.tool("merge", t.trace, other)
    t.expect(result.status == 1 and "--force" in result.err, f"{result.status} {result.err!r}")
    result = t.tool("merge", "--force", t.trace, t.trace)
    t.expect(result.status == 2 and "given twice" in result.err, f"{result.status} {result.err!r}")
    t.equal("the other file", out.read_text(), "mine")
    for options in ([], ["--align", "moon", t.trace], ["--unfreed", "no", t.trace]):
        result = t.tool("merge", *options)
        t.expect(result.status == 2 and result.err.startswith("tidemark merge:"),
                 f"{options}: {result.status} {result.err!r}")
    t.equal("no trace", t.tool("merge", t.trace, out).status, 1)
    t.equal("left over", [one.name for one in t.folder.glob("merged.tide?*")], [])


@case("files/write_back", "figures that are missing in a file are not rebuilt, or not written back")
def write_back(t):
    t.record(["simple", "0"])
    whole = t.report()
    one_slice = next(one for one in tide.blocks(t.trace) if one.kind == tide.SLICE)
    bad = tide.flip(t.trace, t.folder / "bad.tide", one_slice.payload + 3)
    report = t.report(bad)
    for key in TOTALS:
        t.equal(f"{key}, rebuilt", report[key], whole[key])
    text = t.tool("report", bad)
    t.expect("'tidemark repair' writes them back" in " ".join(text.out.split()), text.out)
    t.equal("repair", t.tool("repair", bad).status, 0)
    t.equal("verify", t.tool("verify", bad).status, 0)
    text = t.tool("report", bad)
    t.expect("writes them back" not in " ".join(text.out.split()), text.out)
    t.equal("written back", [t.report(bad)[key] for key in TOTALS], [whole[key] for key in TOTALS])
