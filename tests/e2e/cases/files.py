# SPDX-License-Identifier: Apache-2.0
"""Commands about the trace file itself: info and verify."""
import json

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
