# SPDX-License-Identifier: Apache-2.0
"""Names: in the trace while it is written, whatever becomes of the files they came from."""
import json
import pathlib
import shutil
import signal
import tempfile
import time

from harness import case
from watch import Watch, children, kill

STAGES = ["stage_one_make", "stage_two_make", "stage_three_make", "stage_four_make"]


def functions_of(t, trace, *arguments):
    """Names of all functions in a trace; None when it cannot be opened yet."""
    result = t.tool("report", trace, "--json", "--by", "function", "-n", "0", *arguments)
    if result.status != 0:
        return None
    return {row["function"]: row for row in json.loads(result.out)["functions"]}


def own_copy(t, name):
    """A target in the case's own folder, to be removed."""
    path = t.folder / name
    shutil.copy(t.target(name), path)
    return path


def wait_for_name(t, watch, name, copies):
    """Copies the trace until a copy has the name; every copy is kept."""
    def look():
        copy = t.folder / f"copy{len(copies)}.tide"
        shutil.copy(t.trace, copy)
        names = functions_of(t, copy) or {}
        copies.append((copy, set(names) & set(STAGES)))
        return name in names
    watch.poll(look, f"the name {name} in the trace")


@case("names/while_recording", "a trace that is copied out of a running container has no names",
      seconds=90)
def while_recording(t):
    """The binary goes at once: whatever is known later was in the file when it was copied."""
    program = own_copy(t, "names")
    copies = []
    with Watch(t.start([t.tidemark, "run", "-o", t.trace, "--", program, "stages"]),
               t.seconds) as watch:
        for number, name in enumerate(STAGES[:3], 1):
            watch.send(b"\n")
            watch.wait_for(f"done {number}\n")
            program.unlink(missing_ok=True)
            wait_for_name(t, watch, name, copies)
        watch.send(b"\n")
        watch.wait_for("done 4\n")
        wait_for_name(t, watch, STAGES[3], copies)
        tidemark = watch.process.pid
        for pid in children(tidemark) + [tidemark]:
            kill(pid, signal.SIGKILL)
    t.expect(set(STAGES) <= set(functions_of(t, t.trace) or {}),
             "names are lost when collector and program are killed together")
    row = (functions_of(t, t.trace) or {}).get("stage_two_make")
    t.expect(row and row["self"]["allocated_bytes"] == 1001, f"stage two: {row}")
    # What a copy told while the program ran it tells for ever.
    for copy, known in copies[::3]:
        t.expect(known <= set(functions_of(t, copy) or {}), f"{copy.name} lost names")


@case("names/worker_stays", "every few new functions take as long as all the names before them", seconds=90)
def worker_stays(t):
    """The process that looked up the last names has the files open for the next; no name hangs on its life."""
    copies = []
    with Watch(t.start([t.tidemark, "run", "-o", t.trace, "--", t.target("names"), "stages"]), t.seconds) as watch:
        def named(number):
            watch.send(b"\n")
            watch.wait_for(f"done {number}\n")
            wait_for_name(t, watch, STAGES[number - 1], copies)

        def worker():
            return [pid for namer in children(watch.process.pid) for pid in children(namer)]
        named(1)
        first = watch.poll(worker, "a worker that stays")
        named(2)
        t.equal("the worker of the second batch", worker(), first)
        kill(first[0], signal.SIGSTOP)
        watch.send(b"\n")
        watch.wait_for("done 3\n")
        time.sleep(2.5)  # the batch is its own by now: it is due a second after the last
        kill(first[0], signal.SIGKILL)
        wait_for_name(t, watch, STAGES[2], copies)
        watch.poll(lambda: not worker(), "the end of a worker that has nothing to do")
        named(4)
        watch.process.stdin.close()
        t.equal("exit status", watch.ended(), 0)
    t.expect(set(STAGES) <= set(functions_of(t, t.trace) or {}), "names are missing")


@case("names/namer_killed", "the recording stops when the process that looks up names dies")
def namer_killed(t):
    with Watch(t.start([t.tidemark, "run", "-o", t.trace, "--", t.target("names"), "stages"]),
               t.seconds) as watch:
        def namer():
            return [pid for pid in children(watch.process.pid)
                    if pathlib.Path(f"/proc/{pid}/comm").read_text() == "tidemark-names\n"]
        watch.send(b"\n")
        watch.wait_for("done 1\n")
        for pid in watch.poll(namer, "the namer"):
            kill(pid)
        watch.send(b"\n")
        watch.wait_for("done 2\n")
        watch.process.stdin.close()
        t.equal("exit status", watch.ended(), 0)
        said = watch.process.stderr.read().decode()
    t.expect("tidemark symbolize" in said, f"not a word about it: {said!r}")
    report = t.report()
    t.equal("end", report["end"], "exit")
    t.equal("lost", report["lost_events"], 0)
    t.equal("exit status of symbolize", t.tool("symbolize", t.trace).status, 0)
    t.expect(set(STAGES[:2]) <= set(functions_of(t, t.trace)), "no names after symbolize")


@case("names/replaced", "a library that was replaced on disk gets wrong names or none")
def replaced(t):
    """The second library takes the first one's path, and most often its address."""
    first, second = t.folder / "plug.so", t.folder / "other.so"
    shutil.copy(t.target("plug_a.so"), first)
    shutil.copy(t.target("plug_b.so"), second)
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("names"), "turns", first, second]
    with Watch(t.start(command), t.seconds) as watch:
        for name in ("plug_a_make", "plug_b_make"):
            watch.wait_for("loaded\n")
            watch.poll(lambda: name in (functions_of(t, t.trace) or {}), name)
            watch.send(b"\n")
        t.equal("exit status", watch.ended(), 0)
    t.expect(not first.exists(), "the library is still there")
    names = functions_of(t, t.trace)
    for name in ("plug_a_make", "plug_b_make"):
        t.expect(name in names and names[name]["self"]["allocated_bytes"] == 5000,
                 f"{name}: {names.get(name)}")


@case("names/exec", "the functions of a program that became another one have no names")
def executed(t):
    program = own_copy(t, "names")
    done = t.record([program, "exec", t.target("simple"), "3"])
    t.equal("exit status", done.status, 3)
    program.unlink()
    names = functions_of(t, t.trace, "--image", "0")
    t.expect("before_exec_make" in names, f"names of the first image: {sorted(map(str, names))}")


@case("names/symbolize", "names cannot be added later, or a replaced file is believed")
def symbolize(t):
    program = own_copy(t, "names")
    library = t.folder / "plug.so"
    shutil.copy(t.target("plug_a.so"), library)
    shutil.copy(t.target("plug_c.so"), t.folder / "other.so")
    root = t.folder / "root"
    kept = root / str(program).lstrip("/")
    kept.parent.mkdir(parents=True)
    t.equal("exit status", t.record(["names", "turns", library, t.folder / "other.so"],
                                    ["--no-symbols"]).status, 0)
    # Another build under the same path.
    shutil.copy(t.target("plug_b.so"), library)
    said = t.tool("symbolize", t.trace)
    t.equal("exit status of symbolize", said.status, 0)
    t.expect(str(library) in said.err and "build-id" in said.err,
             f"the replaced library is not named: {said.err!r}")
    names = functions_of(t, t.trace)
    t.expect("load_and_call" in names or "main" in names, f"no names: {sorted(map(str, names))}")
    t.expect(not any(str(one).startswith("plug_b") for one in names),
             "a library of another build was believed")
    t.equal("verify", t.tool("verify", t.trace).status, 0)
    # The program gone, a copy of its files elsewhere.
    done = t.record([program, "exec", t.target("simple"), "3"], ["--no-symbols", "-f"])
    t.equal("exit status", done.status, 3)
    program.rename(kept)
    t.expect("before_exec_make" not in functions_of(t, t.trace, "--image", "0"), "too early")
    said = t.tool("symbolize", "--sysroot", root, t.trace)
    t.equal("exit status of symbolize", said.status, 0)
    kept.unlink()
    t.expect("before_exec_make" in functions_of(t, t.trace, "--image", "0"), said.out + said.err)
    # Nothing to be found: what is there stays.
    t.equal("exit status of symbolize", t.tool("symbolize", "-q", t.trace).status, 0)
    t.expect("before_exec_make" in functions_of(t, t.trace, "--image", "0"), "names were lost")
    t.equal("a wrong option", t.tool("symbolize", "--sysrot", "x", t.trace).status, 2)
    t.equal("no file", t.tool("symbolize", t.folder / "none.tide").status, 1)


@case("names/symbolize_busy", "symbolizing a trace that is being written loses what comes")
def symbolize_busy(t):
    with Watch(t.start([t.tidemark, "run", "-o", t.trace, "--", t.target("names"), "stages"]),
               t.seconds) as watch:
        watch.send(b"\n")
        watch.wait_for("done 1\n")
        watch.poll(lambda: functions_of(t, t.trace) is not None, "the trace")
        inode = t.trace.stat().st_ino
        said = t.tool("symbolize", t.trace)
        t.equal("exit status", said.status, 1)
        t.expect("being written" in said.err, said.err)
        t.equal("the file", t.trace.stat().st_ino, inode)


@case("names/source", "--embed-source keeps nothing, or source text is kept unasked")
def source(t):
    def kinds():
        rows = json.loads(t.tool("info", "--json", t.trace).out)
        return json.dumps(rows)
    t.equal("exit status", t.record(["names", "exec", t.target("simple"), "3"]).status, 3)
    t.expect(b"execv(argv" not in t.trace.read_bytes(), "source text without being asked")
    plain = kinds()
    t.equal("exit status", t.record(["names", "exec", t.target("simple"), "3"],
                                    ["-f", "--embed-source"]).status, 3)
    t.expect(kinds() != plain and "source" in kinds(), f"no source lines: {kinds()[-600:]}")
    t.equal("verify", t.tool("verify", t.trace).status, 0)
    said = t.tool("symbolize", "--embed-source", t.trace)
    t.expect("lines of source" in said.out, said.out)


@case("names/missing", "nobody says which names are missing, and what helps")
def missing(t):
    program = own_copy(t, "names")
    strip = t.need_tool("strip")
    t.equal("strip", t.bare([strip, program]).status, 0)
    done = t.record([program, "exec", t.target("simple"), "3"])
    report = t.tool("report", "--symbols", "--image", "0", t.trace)
    t.expect(str(program) in report.out and "-g" in report.out, report.out)
    rows = json.loads(t.tool("report", "--symbols", "--json", "--image", "0",
                             t.trace).out)["symbols"]
    t.expect(rows["unnamed_bytes"] >= 777, f"{rows}")
    mine = [row for row in rows["modules"] if row["module"] == str(program)]
    t.expect(mine and mine[0]["file"] == "here" and mine[0]["unnamed_frames"] > 0, f"{rows}")
    program.unlink()
    rows = json.loads(t.tool("report", "--symbols", "--json", "--image", "0",
                             t.trace).out)["symbols"]
    mine = [row for row in rows["modules"] if row["module"] == str(program)]
    t.expect(mine and mine[0]["file"] == "missing", f"{rows}")
    # The run itself ends with a line about the last image, which lacks nothing.
    t.expect(not any("have no names" in line for line in done.our_lines()), done.err)
    stripped = own_copy(t, "simple")
    t.equal("strip", t.bare([strip, stripped]).status, 0)
    done = t.record([stripped, "3"], ["-f"])
    lines = [line for line in done.our_lines() if "have no names" in line]
    t.expect(len(lines) == 1 and "report --symbols" in lines[0], done.err)


def jit_frames(t):
    stacks = t.report(None, "--stacks")["stack_list"]
    return [frame for stack in stacks for frame in stack["frames"]
            if frame["module"] == "[anonymous]"]


def drop_map(t):
    """The map that the recorded process has left in /tmp."""
    pathlib.Path(f"/tmp/perf-{t.report()['pid']}.map").unlink(missing_ok=True)


def run_jit(t, *arguments, mode="jit"):
    command = [t.tidemark, "run", "-f", "-o", t.trace, "--", t.target("names"), mode, *arguments]
    with Watch(t.start(command), t.seconds) as watch:
        watch.wait_for("ready\n")
        watch.poll(lambda: jit_seen(t), "the trace")
        watch.send(b"\n")
        t.equal("exit status", watch.ended(), 0)
    drop_map(t)


def check_map(t):
    frames = jit_frames(t)
    t.need(frames, "no frame of code made at run time")
    for frame in frames:
        t.equal("function", frame["function"], "made_by_map [interpreted]")
        t.equal("line", frame["line"], 3)


@case("names/jit_map", "functions of a JIT have no names although it writes a perf map")
def jit_map(t):
    run_jit(t, "-")
    check_map(t)
    run_jit(t, "none")
    frames = jit_frames(t)
    t.expect(frames and all(frame["function"] == "[anonymous code]" for frame in frames),
             f"{frames}")


@case("names/jit_part", "who has a map of a JIT's code is told to make one")
def jit_part(t):
    run_jit(t, "-", mode="part")
    t.expect({frame["function"] for frame in jit_frames(t)} ==
             {"made_by_map [interpreted]", "[anonymous code]"}, f"{jit_frames(t)}")
    rows = t.report(None, "--symbols")["symbols"]["modules"]
    cures = [row["cure"] for row in rows if row["module"] == "[anonymous]"]
    t.expect(len(cures) == 1 and cures[0].startswith("record it once more: "), f"{cures}")


@case("names/jit_dump", "functions of a JIT have no names although it writes a jitdump")
def jit_dump(t):
    run_jit(t, "none", t.folder / "jit-1.dump")
    t.expect({frame["function"] for frame in jit_frames(t)} == {"made_by_dump"},
             f"{jit_frames(t)}")


@case("names/container", "a program in a container has no names when it has ended")
def container(t):
    """The binary exists in the mount namespace alone."""
    t.need_root()
    t.need_tool("unshare")
    inside, agent = t.folder / "inside", t.folder / "agent.so"
    inside.mkdir()
    shutil.copy(t.build / "libtidemark.so", agent)
    program = inside / "names"
    script = (f"mount -t tmpfs none {inside} && cp {t.target('names')} {program} && "
              f"{program} stages; exit $?")
    if t.bare(["unshare", "-m", "true"]).status != 0:
        t.skip("no mount namespaces here")
    t.trace = t.folder / "names.tide"
    command = [t.tidemark, "run", "-o", t.folder / "%n.tide", "--", "unshare", "-m", "/bin/sh",
               "-c", script]
    with Watch(t.start(command, {"TIDEMARK_AGENT": str(agent)}), t.seconds) as watch:
        watch.send(b"\n")
        watch.wait_for("done 1\n")
        watch.poll(lambda: STAGES[0] in (functions_of(t, t.trace) or {}), "the first name")
        watch.send(b"\n")
        watch.wait_for("done 2\n")
        watch.process.stdin.close()
        t.equal("exit status", watch.ended(), 0)
    t.expect(not program.exists(), "the program is visible outside")
    names = functions_of(t, t.trace)
    t.expect(set(STAGES[:2]) <= set(names), f"names: {sorted(map(str, names))}")


@case("names/container_jit", "a JIT in a container has no names: its map is there alone")
def container_jit(t):
    """/tmp and the number of the process are the container's own."""
    t.need_root()
    t.need_tool("unshare")
    if t.bare(["unshare", "-mpf", "--mount-proc", "true"]).status != 0:
        t.skip("no pid namespaces here")
    # What the recording needs inside must not lie below /tmp.
    shared = pathlib.Path(tempfile.mkdtemp(prefix="tidemark-test-", dir="/run"))
    shared.chmod(0o755)
    t.trace = t.folder / "names.tide"
    try:
        shutil.copy(t.target("names"), shared)
        shutil.copy(t.build / "libtidemark.so", shared)
        script = f"mount -t tmpfs none /tmp; {shared}/names jit -; exit $?"
        command = [t.tidemark, "run", "-f", "-o", t.folder / "%n.tide", "--", "unshare", "-mpf",
                   "--mount-proc", "/bin/sh", "-c", script]
        env = {"TIDEMARK_AGENT": str(shared / "libtidemark.so")}
        with Watch(t.start(command, env), t.seconds) as watch:
            watch.wait_for("ready\n")
            watch.poll(lambda: t.trace.exists() and jit_seen(t), "the trace")
            watch.send(b"\n")
            t.equal("exit status", watch.ended(), 0)
    finally:
        shutil.rmtree(shared)
    check_map(t)


def jit_seen(t):
    result = t.tool("report", t.trace, "--json", "--stacks")
    return result.status == 0 and "[anonymous]" in result.out


NODE = """
function grow(n) { return Buffer.alloc(n); }
class Cart { get size() { return grow(150000); } }
const cart = new Cart();
let sum = 0;
for (let i = 0; i < 300; i++) sum += cart.size.length;
console.log(sum);
/* What V8 maps of itself a second time is seen while the process lives. */
setTimeout(() => {}, 2000);
"""


@case("names/node", "JavaScript functions have no names, or there is no hint how to have them",
      seconds=120)
def node(t):
    t.need_tool("node")
    script = t.folder / "cart.js"
    script.write_text(NODE)
    done = t.record(["node", "--perf-basic-prof", "--interpreted-frames-native-stack", script],
                    ["-f"])
    t.equal("output", done.out, "45000000\n")
    drop_map(t)
    t.expect(not any("JavaScript" in line for line in done.our_lines()), done.err)
    names = functions_of(t, t.trace)
    tiers = ("interpreted", "baseline", "maglev", "optimized")
    grow = [names[f"grow [{tier}]"] for tier in tiers if f"grow [{tier}]" in names]
    size = [one for one in names if one and one.startswith("get size [")]
    t.expect(grow and size, f"names: {sorted(map(str, names))[:200]}")
    t.expect(sum(row["inclusive"]["allocated_bytes"] for row in grow) >= 45000000 * 9 // 10,
             f"grow: {[row['inclusive']['allocated_bytes'] for row in grow]}")
    frames = [frame for frame in jit_frames(t) if frame["function"].startswith("grow [")]
    t.expect(frames and all(frame["file"] == str(script) and frame["line"] == 2
                            for frame in frames), f"places: {frames[:2]}")
    done = t.record(["node", script], ["-f"])
    hints = [line for line in done.our_lines() if "--perf-basic-prof" in line]
    t.equal("hints", len(hints), 1)


def stack_with(t, size):
    """The frames of the one stack that allocated so many bytes, innermost first."""
    for stack in t.report(None, "--stacks")["stack_list"]:
        if stack["allocated_bytes"] == size:
            return [(frame["function"], frame.get("tail_called", False)) for frame in stack["frames"]]
    return []


@case("names/tail_calls", "functions that end in a jump are missing, or shown where they were not")
def tail_calls(t):
    t.record(["tail"])
    caller = "call_both()"
    for size, inside in ((1000, [("make_leaf(unsigned long)", True)]),
                         (2001, [("make_inner(unsigned long)", False),
                                 ("make_outer(unsigned long)", True)]),
                         (4000, [("make_inner(unsigned long)", False)])):
        frames = stack_with(t, size)
        t.equal(f"stack of {size} bytes", frames[:len(inside) + 1], inside + [(caller, False)])
    done = t.tool("report", t.trace, "-n", "0")
    t.expect("make_leaf(unsigned long)" in done.out and ", tail call" in done.out, done.out)


@case("names/full_names", "names of templates fill the screen, or cannot be seen in full")
def full_names(t):
    t.record(["tail"])
    full = "Shelf<std::pair<long, long> >::put(std::pair<long, long>)"
    brief = t.tool("report", t.trace, "-n", "0", "-d", "0").out
    t.expect("Shelf<…>::put(std::pair<…>)" in brief and full not in brief, brief)
    t.expect(full in t.tool("report", t.trace, "-n", "0", "-d", "0", "--full-names").out,
             "--full-names does not show them")
