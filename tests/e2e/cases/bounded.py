# SPDX-License-Identifier: Apache-2.0
"""A recording within bounds: pieces by time and size, what is folded and culled, full disks."""
import os

from cases import control
from harness import case


def piece_of(t, pid):
    return (control.row_of(t, pid) or {"piece": 0})["piece"]


@case("bounded/rotate_time", "a new file after the time that was asked for; older ones go, others stay")
def rotate_time(t):
    program, pid = control.recorded(t, ["--rotate", "1s", "--keep", "1"])
    with program:
        program.say("early 100 10")
        program.poll(lambda: piece_of(t, pid) >= 2, "the second piece")
        # A name that leads elsewhere meanwhile is not ours.
        (t.folder / "a.1.tide").rename(t.folder / "moved.tide")
        (t.folder / "a.1.tide").write_text("mine")
        program.poll(lambda: piece_of(t, pid) >= 3, "the third piece")
        program.poll(lambda: not (t.folder / "a.2.tide").exists(), "the second piece deleted")
        program.say("late 50 10")
        program.say("free early 100")
        t.equal("status", program.end(), 0)
    t.equal("what is not ours", (t.folder / "a.1.tide").read_text(), "mine")
    (t.folder / "a.1.tide").unlink()
    first = t.report(t.folder / "moved.tide")
    control.figures(t, first, allocations=100, end="rotated", piece=1)
    left = sorted(int(path.name.split(".")[1]) for path in t.folder.glob("a.*.tide"))
    t.expect(1 <= len(left) <= 2 and left == list(range(left[0], left[-1] + 1)), f"left: {left}")
    reports = [t.report(t.folder / f"a.{piece}.tide") for piece in left]
    for before, report in zip(reports, reports[1:]):
        t.equal("inherited", report["inherited_allocations"], before["unfreed_allocations"])
    last = reports[-1]
    control.figures(t, last, end="exit", unfreed_allocations=50)


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


@case("bounded/options", "what was written wrongly is named, with what to write instead")
def options(t):
    for words, part in ((["--rotate", "10"], "neither a time nor a size"),
                        (["--rotate", "5ms"], "1s or 64K"),
                        (["--rotate", "1G", "--keep", "0"], "1 or more"),
                        (["--keep", "3"], "use both"),
                        (["--rotate", "often"], "neither a time nor a size")):
        result = t.tool("run", *words, "--", "true")
        t.expect(result.status == 2 and part in result.err, f"{words}: {result.err}")
        attach = t.tool("attach", *words, str(os.getpid()))
        t.expect(attach.status == 2 and part in attach.err, f"attach {words}: {attach.err}")
    named = t.tool("run", "--", "true", env={"TIDEMARK_ROTATE": "x"})
    t.expect(named.status == 2 and "TIDEMARK_ROTATE" in named.err, named.err)
