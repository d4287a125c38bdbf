# SPDX-License-Identifier: Apache-2.0
"""Two recordings beside each other. The programs are two builds of tests/targets/leaks.c."""
import json

from harness import case

SITES = ["peak", "unfreed", "allocations", "temporary", "allocated", "freed", "surviving"]


def record_both(t, before="4", after="6"):
    old, new = t.folder / "old.tide", t.folder / "new.tide"
    t.tool("run", "-q", "-f", "-o", old, "--", t.target("leaks"), before)
    t.tool("run", "-q", "-f", "-o", new, "--", t.target("leaks_other"), after)
    return old, new


def diff(t, *arguments):
    result = t.tool("diff", "--json", *arguments)
    t.need(result.status == 0, f"diff {arguments} ended with {result.status}: {result.err}")
    return json.loads(result.out)


def totals(answer):
    return {key: (one["before"], one["after"]) for key, one in answer["summary"]["totals"].items()}


@case("diff/builds", "what changed between two builds is not what their sources say")
def builds(t):
    old, new = record_both(t)
    answer = diff(t, "--section", "all", "--limit", "0", old, new)
    got = totals(answer)
    # leaks 4: 4 x 100, 64, 5 x 10; leaks_other 6: 6 x 100, 64, 5 x 10, 1000.
    wanted = {"peak_bytes": (214, 1214), "peak_allocations": (7, 8),
              "unfreed_bytes": (214, 1214), "unfreed_allocations": (7, 8),
              "allocations": (10, 13), "allocated_bytes": (514, 1714),
              "temporary_allocations": (3, 5), "frees": (3, 5), "failed_allocations": (0, 0),
              "stacks": (3, 4)}
    t.equal("totals", {key: got[key] for key in wanted}, wanted)
    change = {"peak": 1000, "unfreed": 1000, "allocations": 3, "temporary": 2, "allocated": 1200,
              "freed": 200, "surviving": 1000}
    for name in SITES:
        # Other addresses, another module, other lines: the site is the same, and the only one.
        t.equal(f"{name}: sites", [(one["name"], one["state"], one["change"])
                                   for one in answer[name]],
                [("parse_line", "grown", change[name])])
        stack = answer[name][0]["stacks"][0]
        t.equal(f"{name}: stack", [one["function"] for one in stack["frames"][:2]],
                ["parse_line", "main"])
    t.equal("per cent", answer["peak"][0]["change_percent"], 1000.0)
    functions = {one["name"]: one["change"] for one in answer["functions"]}
    t.equal("main()", functions["main"], 1000)
    main = answer["tree"]["children"][0]
    t.equal("tree", [(one["name"], one["before"], one["after"])
                     for one in (main, main["children"][0])],
            [("main", 214, 1214), ("parse_line", 100, 1100)])
    leaf = answer["bottom-up"]["children"][0]
    t.equal("bottom-up", (leaf["name"], leaf["children"][0]["name"]), ("parse_line", "main"))
    t.equal("sizes", [(one["from_bytes"], one["before"], one["after"])
                      for one in answer["sizes"]], [(8, 5, 5), (64, 5, 7), (512, 0, 1)])
    t.equal("lifetimes", [sum(one[side] for one in answer["lifetimes"])
                          for side in ("before", "after")], [3, 5])
    t.equal("timeline", (answer["timeline"][-1]["before_bytes"],
                         answer["timeline"][-1]["after_bytes"]), (214, 1214))


@case("diff/states", "new, gone, grown and shrunk are mistaken for each other")
def states(t):
    old, new = record_both(t, "4", "6")
    back = diff(t, new, old)
    t.equal("backwards", [(one["name"], one["state"], one["change"]) for one in back["peak"]],
            [("parse_line", "shrunk", -1000)])
    only = diff(t, "--filter", "size>=1000", old, new)
    t.equal("new", [(one["name"], one["state"], one["change"]) for one in only["peak"]],
            [("parse_line", "new", 1000)])
    t.equal("new: per cent", only["peak"][0]["change_percent"], None)
    gone = diff(t, "--filter", "size>=1000", new, old)
    t.equal("gone", gone["peak"][0]["state"], "gone")
    same = diff(t, old, old)
    t.equal("the same", [same[name] for name in SITES[:4]], [[], [], [], []])
    text = t.tool("diff", "--section", "peak", old, old)
    t.equal("the same, as text", text.out, "Nothing changed.\n")


@case("diff/ranges", "two ranges of one trace do not add up to the whole")
def ranges(t):
    t.record(["simple", "0"])
    answer = diff(t, "--to-a", "peak", "--from-b", "end", t.trace)
    # Up to the peak 200 blocks are born; the first frees may fall into the same microsecond.
    before = {key: one[0] for key, one in totals(answer).items()}
    t.equal("before", (before["allocations"], before["unfreed_bytes"]),
            (200, sum(range(100)) + sum(range(1000 + before["frees"], 1100))))
    t.equal("after", totals(answer)["unfreed_bytes"][1], sum(range(100)))
    both = diff(t, "--from", "0", "--to", "100%", t.trace, t.trace)
    t.equal("both", totals(both)["allocations"], (200, 200))


@case("diff/scale", "runs of different length are compared as if they were alike")
def scale(t):
    short, long = t.folder / "short.tide", t.folder / "long.tide"
    for path, count in ((short, "10"), (long, "40")):
        t.tool("run", "-q", "-o", path, "--", t.target("leaks"), count)
    # 10 + 6 and 40 + 6 allocations.
    plain = diff(t, short, long)
    t.equal("plain", totals(plain)["allocations"], (16, 46))
    scaled = diff(t, "--scale", "allocations", short, long)
    t.equal("scaled", totals(scaled)["allocations"], (46, 46))
    t.equal("the peak is none that was counted", totals(scaled)["peak_bytes"], (214, 214))
    rows = {one["name"]: (one["before"]["allocations"], one["after"]["allocations"])
            for one in scaled["allocations"]}
    # 10 x 46 / 16 = 28.75, 5 x 46 / 16 = 14.375
    t.equal("rows", (rows["parse_line"], rows["leak_other"]), ((29, 40), (14, 5)))


@case("diff/text", "the text hides what changed")
def text_output(t):
    old, new = record_both(t)
    result = t.tool("diff", old, new)
    t.equal("status", result.status, 0)
    for wanted in ("+1.00 kB", "+467.3 %", "100 B to 1.10 kB", "parse_line", "leaks.c:",
                   "before", "after"):
        t.expect(wanted in result.out, f"not shown: {wanted}\n{result.out}")
    for key in ("change", "growth", "relative", "before", "after", "name"):
        t.equal(f"--sort {key}", t.tool("diff", "--sort", key, old, new).status, 0)
    t.equal("--fold", t.tool("diff", "--fold", "noise", "-n", "1", "-d", "1", old, new).status, 0)


@case("diff/mistakes", "a mistake in the command line is not said, or crashes")
def mistakes(t):
    t.record(["simple", "0"])
    wrong = {
        "no trace": [], "one trace": [t.trace], "three": [t.trace, t.trace, t.trace],
        "sort": ["--sort", "size", t.trace, t.trace], "scale": ["--scale", "x", t.trace, t.trace],
        "section": ["--section", "pea", t.trace, t.trace],
        "fold": ["--fold", "x", t.trace, t.trace],
        "filter": ["--filter", "size>=", t.trace, t.trace],
        "time": ["--from", "yesterday", t.trace, t.trace],
        "backwards": ["--from", "90%", "--to", "1%", t.trace, t.trace],
        "image": ["--image-a", "5", t.trace, t.trace], "limit": ["-n", "x", t.trace, t.trace],
    }
    for name, arguments in wrong.items():
        result = t.tool("diff", *arguments)
        t.equal(f"{name}: status", result.status, 2)
        t.expect(result.err.startswith("tidemark diff: "), f"{name}: {result.err!r}")
    (t.folder / "bad").write_bytes(b"TIDE")
    for pair in ((t.trace, t.folder / "bad"), (t.folder / "bad", t.trace),
                 (t.trace, t.folder / "nothing")):
        result = t.tool("diff", *pair)
        t.expect(result.status == 1 and result.err, f"{pair}: {result.status}")
