# SPDX-License-Identifier: Apache-2.0
"""Budgets for build servers, and suppressions. The program is tests/targets/leaks.c."""
import json
import xml.etree.ElementTree

from harness import case

# leaks 4: parse_line() allocates 4 blocks of 100 bytes and keeps the last; 64 bytes are known
# and suppressed by the program itself; 5 blocks of 10 bytes are not.
ALLOCATIONS = 4 + 1 + 5
PEAK = 100 + 64 + 5 * 10
UNFREED = 100 + 5 * 10


def judge(t, *options, trace=None):
    """Exit status, and the verdicts by name."""
    result = t.tool("check", "--json", "--no-budgets-file", *options, trace or t.trace)
    if result.status == 2 and not result.out:
        return 2, result.err
    facts = json.loads(result.out)
    named = {f"{one['function'] or ''}:{one['figure']}": one for one in facts["budgets"]}
    return result.status, {**facts, "named": named}


@case("check/figures", "check counts otherwise than the program")
def figures(t):
    t.record(["leaks", "4"])
    exact = ["--max-peak", str(PEAK), "--max-unfreed", str(UNFREED),
             "--max-allocations", str(ALLOCATIONS), "--max-allocated", str(400 + 64 + 50),
             "--max-temporary", "3", "--budget", "parse_*:allocations<=4",
             "--budget", "leak_other:unfreed<=50", "--budget", "parse_line:peak<=100",
             "--budget", "main:allocated<=514", "--budget", "parse_line:temporary<=3"]
    status, facts = judge(t, *exact)
    t.equal("status at the limits", status, 0)
    values = {name: one["value"] for name, one in facts["named"].items()}
    t.equal("values", values, {
        ":peak": PEAK, ":unfreed": UNFREED, ":allocations": ALLOCATIONS, ":allocated": 514,
        ":temporary": 3, "parse_*:allocations": 4, "leak_other:unfreed": 50,
        "parse_line:peak": 100, "main:allocated": 514, "parse_line:temporary": 3})
    # One less of each is one too few.
    tight = [one if one.startswith("--") else
             f"{one[:one.index('=') + 1]}{int(one[one.index('=') + 1:]) - 1}" if "=" in one
             else str(int(one) - 1) for one in exact]
    status, facts = judge(t, *tight)
    t.equal("status below", status, 1)
    t.equal("broken", facts["broken"], 10)
    leaf = facts["named"]["leak_other:unfreed"]["stacks"][0]["frames"][0]
    t.equal("which stack", (leaf["function"], leaf["file"].endswith("leaks.c")),
            ("leak_other", True))


@case("check/suppressions", "suppressed blocks are counted, or hidden")
def suppressions(t):
    t.record(["leaks", "4"])
    status, facts = judge(t, "--max-unfreed", str(UNFREED))
    t.equal("the program's own", (status, facts["suppressed_bytes"]), (0, 64))
    t.equal("its origin", facts["suppressions"][0]["origin"], "the program")
    path = t.folder / "accepted"
    path.write_text("# ours\n\nleak:leak_o*er\nrace:somewhere\n")
    status, facts = judge(t, "--suppressions", path, "--max-unfreed", "100")
    t.equal("a file", (status, facts["suppressed_bytes"]), (0, 64 + 50))
    t.equal("its lines", {(one["origin"], one["line"], one["bytes"], one["blocks"])
                          for one in facts["suppressions"]},
            {(str(path), 3, 50, 5), ("the program", 2, 64, 1)})
    text = t.tool("check", "--suppressions", path, "--max-unfreed", "100", t.trace)
    t.expect("Suppressed: 114 B unfreed in 6 blocks" in text.out, text.out)
    # The report leaves them out of its list, folded or not, and says so.
    for fold in ([], ["--fold", "noise"]):
        text = t.tool("report", "--suppressions", path, "-s", "unfreed", *fold, t.trace)
        t.expect("Suppressed: 114 B unfreed in 6 blocks" in text.out, f"{fold}: {text.out}")
        t.expect("leak_other" not in text.out.split("Suppressed:")[0], f"{fold}: {text.out}")
    path.write_text("leak:ok\nleek:typo\n")
    result = t.tool("check", "--suppressions", path, "--max-unfreed", "1", t.trace)
    t.equal("a mistake: status", result.status, 2)
    t.expect(f"{path}:2:" in result.err, result.err)
    # A build without the function has nothing to suppress.
    t.record(["leaks_other", "4"], options=["-f"])
    status, facts = judge(t, "--max-unfreed", "0")
    t.equal("without", facts["named"][":unfreed"]["value"], UNFREED + 64 + 1000)


@case("check/program", "the program's own failure is taken for a verdict, or is lost")
def program(t):
    good = ["--max-peak", "1M", "--no-budgets-file"]
    bad = ["--max-peak", "1", "--no-budgets-file"]
    leaks = t.target("leaks")
    for status, options, arguments in ((0, good, ["3", "0"]), (1, bad, ["3", "0"]),
                                       (2, good, ["3", "9"]), (1, bad, ["3", "9"]),
                                       (0, [*good, "--allow-failure"], ["3", "9"])):
        result = t.tool("check", *options, "--", leaks, *arguments)
        t.equal(f"{options} {arguments}", result.status, status)
        shown = "exit status 9" in result.out
        t.equal(f"{options} {arguments}: shown", shown,
                arguments[1] == "9" and "--allow-failure" not in options)
    kept = t.folder / "kept.tide"
    result = t.tool("check", *good, "-o", kept, "--", leaks, "3", "0")
    t.equal("kept trace", t.tool("verify", kept).status, 0)
    result = t.tool("check", *good, "--", "/nonexistent/program")
    t.expect(result.status == 2 and "nonexistent" in result.err, f"{result.status} {result.err}")


@case("check/baseline", "a regression against an older recording is not seen")
def baseline(t):
    old = t.folder / "old.tide"
    t.tool("run", "-q", "-o", old, "--", t.target("leaks"), "4")
    t.record(["leaks", "4"])
    status, facts = judge(t, "--baseline", old, "--tolerance", "0%")
    t.equal("the same run again", (status, facts["broken"]), (0, 0))
    # The other build allocates 1000 bytes more in parse_line(), from elsewhere in main().
    t.record(["leaks_other", "4"], options=["-f"])
    status, facts = judge(t, "--baseline", old, "--tolerance", "5%")
    t.equal("status", status, 1)
    peak = facts["named"][":peak"]
    t.equal("peak", (peak["baseline"], peak["value"], peak["limit"]),
            (PEAK, PEAK + 1000, PEAK * 105 // 100))
    t.equal("growth", peak["stacks"][0]["growth"], 1000)
    t.equal("who", peak["stacks"][0]["frames"][0]["function"], "parse_line")
    status, _ = judge(t, "--baseline", old, "--tolerance", "1000%")
    t.equal("a wide tolerance", status, 0)


@case("check/outputs", "JUnit or GitHub output is not well formed, or a name breaks it")
def outputs(t):
    t.record(["leaks", "4"])
    junit = t.folder / "junit.xml"
    budgets = ["--max-unfreed", "0", "--max-peak", "1M", "--budget", "<&\"'>*:peak<=5"]
    result = t.tool("check", *budgets, "--junit", junit, "--github", t.trace)
    t.equal("status", result.status, 1)
    suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
    t.equal("counts", (suite.get("tests"), suite.get("failures"), suite.get("errors")),
            ("3", "1", "0"))
    names = [one.get("name") for one in suite.findall("testcase")]
    t.equal("names", names, ["unfreed", "peak", "<&\"'>*: peak"])
    failure = suite.find("testcase/failure")
    t.expect("150 B is more than 0 B" in failure.get("message"), failure.get("message"))
    t.expect("leak_other" in failure.text, failure.text)
    lines = [line for line in result.out.splitlines() if line.startswith("::")]
    t.equal("annotations", len(lines), 1)
    t.expect(lines[0].startswith("::error file=") and "line=" in lines[0] and
             "title=Tidemark%3A unfreed::150 B" in lines[0], lines[0])
    inside = t.tool("check", "--max-unfreed", "0", t.trace, env={"GITHUB_ACTIONS": "true"})
    t.expect("::error file=" in inside.out, "nothing printed under GITHUB_ACTIONS")
    workspace = str(t.folder.parent)
    outside = t.tool("check", "--max-unfreed", "0", t.trace)
    t.expect("::error" not in outside.out, f"unasked: {outside.out} {workspace}")


@case("check/budget_file", "the budgets in the repository are not used")
def budget_file(t):
    t.record(["leaks", "4"])
    budgets = t.folder / "budgets"
    budgets.write_text("# of the parser\nparse_*:allocations<=3  # tight\n\npeak < 1M\n")
    result = t.tool("check", "--budgets", budgets, t.trace)
    t.equal("status", result.status, 1)
    t.expect("budgets:2]" in result.out and "1 of 2 budgets" in result.out, result.out)
    (t.folder / ".tidemark-budgets").write_text("peak<=1\n")
    result = t.tool("check", t.trace)
    t.equal("found by itself", result.status, 1)
    t.expect(".tidemark-budgets:1" in result.out, result.out)
    result = t.tool("check", "--no-budgets-file", "--max-peak", "1M", t.trace)
    t.equal("not wanted", result.status, 0)


@case("check/mistakes", "a budget with a mistake is taken for one that is kept")
def mistakes(t):
    t.record(["leaks", "4"])
    for wrong in (["--budget", "parse"], ["--budget", "parse:speed<=3"], ["--budget", ":peak<=3"],
                  ["--budget", "f:peak<=lots"], ["--budget", "f:rss<=1"], ["--budget", "peak<0"],
                  ["--max-peak", "-1"], ["--max-allocations", "many"], ["--max-peak", ""],
                  ["--tolerance", "x", "--max-peak", "1M"], ["--budgets", "/nonexistent"],
                  ["--baseline", "/nonexistent"], ["--suppressions", "/nonexistent",
                                                   "--max-peak", "1"],
                  ["--image", "9", "--max-peak", "1"], [], ["--max-peak", "1", "second"]):
        result = t.tool("check", "--no-budgets-file", *wrong, t.trace)
        t.equal(f"{wrong}: status", result.status, 2)
        t.expect(result.err.startswith("tidemark check: "), f"{wrong}: {result.err!r}")
    damaged = t.folder / "damaged.tide"
    damaged.write_bytes(b"no trace")
    t.equal("no trace", t.tool("check", "--max-peak", "1", damaged).status, 2)
    t.equal("no file", t.tool("check", "--max-peak", "1").status, 2)
