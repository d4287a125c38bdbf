# SPDX-License-Identifier: Apache-2.0
"""Files of other tools: what the tools themselves say of them is what we must say."""
import gzip
import json
import pathlib
import re

from harness import case, run_program

INTERPRETERS = ("/usr/lib/heaptrack/libexec/heaptrack_interpret",
                "/usr/libexec/heaptrack_interpret")


def run(t, *command, **how):
    ran = run_program([str(one) for one in command], t.environment(), t.folder, t.seconds, **how)
    t.need(ran.status == 0, f"{command[0]} ended with {ran.status}: {ran.err[-400:]}")
    return ran


def heaptrack(t, command, *options):
    """The file that heaptrack makes of the program."""
    t.need_tool("heaptrack_print")
    for old in t.folder.glob("peer*"):
        old.unlink()
    run(t, t.need_tool("heaptrack"), *options, "-o", t.folder / "peer", *t.command(command))
    files = [path for path in t.folder.glob("peer*") if path.suffix in (".gz", ".zst")]
    t.need(files, "heaptrack wrote nothing")
    return files[0]


def flames(t, path, kind):
    """Costs by innermost function, as heaptrack_print has them to the last byte."""
    flame = t.folder / "flame"
    run(t, "heaptrack_print", "-f", path, "-F", flame, "--flamegraph-cost-type", kind, "-p", "0",
        "-a", "0", "-T", "0", "--disable-builtin-suppressions", "--disable-embedded-suppressions")
    costs = {}
    for line in flame.read_text(errors="replace").splitlines():
        names, _, cost = line.rpartition(" ")
        if int(cost):
            leaf = re.sub(r" \([^()]*\)$", "", [one for one in names.split(";") if one][-1])
            costs[leaf] = costs.get(leaf, 0) + int(cost)
    return costs


def by_leaf(report, key):
    costs = {}
    for stack in report["stack_list"]:
        frames = [one for one in stack["frames"]
                  if not (one["function"] or "").startswith("operator new")]
        name = frames[0]["function"] if frames else None
        if stack[key]:
            costs[name] = costs.get(name, 0) + stack[key]
    return costs


def add_heaptrack(name, command, cplusplus=False):
    @case(f"import/heaptrack_{name}", "heaptrack_print and we read different figures in one file",
          120)
    def same(t):
        path = heaptrack(t, command)
        report = t.report(path, "--stacks", "--no-builtin-suppressions")
        for kind, key, total in (("allocations", "allocations", "allocations"),
                                 ("leaked", "unfreed_bytes", "unfreed_bytes"),
                                 ("peak", "peak_bytes", "peak_bytes")):
            theirs, ours = flames(t, path, kind), by_leaf(report, key)
            t.equal(f"{kind} in all", report[total], sum(theirs.values()))
            # What has no name is an address there and nothing here.
            named = {leaf: cost for leaf, cost in theirs.items() if leaf in ours}
            t.expect(cplusplus or named, f"no name is the same: {theirs} and {ours}")
            for leaf, cost in named.items():
                t.equal(f"{kind} of {leaf}", ours[leaf], cost)
        # Its count of temporary ones has a slip, which the import tells.
        theirs = sum(flames(t, path, "temporary").values())
        said = re.search(r"heaptrack_print counts (\d+) as temporary", " ".join(report["facts"]))
        t.equal("temporary", int(said[1]) if said else report["temporary_allocations"], theirs)
        t.equal("unknown", report["unknown"], ["lifetimes", "threads"])
        t.expect(report["origin"].startswith("heaptrack 1."), report["origin"])


add_heaptrack("simple", ["simple"])
add_heaptrack("page", ["page"])
add_heaptrack("threads", ["threads", "cross"])
add_heaptrack("new", ["api_new", "new"], cplusplus=True)


@case("import/heaptrack_raw", "raw files of heaptrack give other counts than its interpreter", 120)
def raw(t):
    interpreter = next((one for one in INTERPRETERS if pathlib.Path(one).exists()), None)
    if not interpreter:
        t.skip("heaptrack_interpret is not installed")
    for command in (["simple"], ["threads", "cross"]):
        path = heaptrack(t, command, "--raw")
        plain = t.folder / "plain"
        if path.suffix == ".gz":
            plain.write_bytes(gzip.decompress(path.read_bytes()))
        else:
            run(t, t.need_tool("zstd"), "-q", "-d", "-f", "-o", plain, path)
        with plain.open("rb") as stream:
            said = run(t, interpreter, stdin=stream).err
        report = t.report(path, "--stacks", "--no-builtin-suppressions")
        for key, words in (("allocations", "allocations"),
                           ("unfreed_allocations", "leaked allocations"),
                           ("temporary_allocations", "temporary allocations")):
            # A pointer that comes again while it lives: the interpreter never ends the old block.
            unseen = report["freed_unseen"] if key == "unfreed_allocations" else 0
            t.equal(f"{command}: {key}", report[key] + unseen,
                    int(re.search(rf"\t{words}:\s+(\d+)", said)[1]))
        t.equal("unknown", report["unknown"], ["threads"])
        names = {frame["function"] for stack in report["stack_list"] for frame in stack["frames"]}
        t.expect("main" in names, f"raw stacks have no names: {sorted(filter(None, names))[:9]}")


@case("import/round_trip", "a trace comes back from heaptrack's format with other figures")
def round_trip(t):
    for command in (["simple", "3"], ["page"], ["api_libc", "realloc"]):
        t.record(command)
        for suffix in (".gz", ".zst", ""):
            out = t.folder / f"there{suffix}"
            run(t, t.tidemark, "export", "--force", t.trace, "--format", "heaptrack", "-o", out)
            back = t.folder / "back.tide"
            run(t, t.tidemark, "convert", "--force", out, back)
            run(t, t.tidemark, "verify", back)
            old, new = t.report(None, "--stacks"), t.report(back, "--stacks")
            for key in ("allocations", "frees", "allocated_bytes", "peak_bytes", "unfreed_bytes",
                        "peak_allocations", "unfreed_allocations"):
                t.equal(f"{command}: {key}", new[key], old[key])
            for key in ("allocations", "peak_bytes", "unfreed_bytes"):
                t.equal(f"{command}: {key} by function", by_leaf(new, key), by_leaf(old, key))


PROFILES = {
    # What each format has of a trace: all of it must come back.
    "pprof": ("allocations", "allocated_bytes", "peak_bytes", "peak_allocations"),
    "dhat": ("allocations", "allocated_bytes", "peak_bytes", "peak_allocations", "unfreed_bytes",
             "unfreed_allocations"),
    "massif": ("peak_bytes", "unfreed_bytes"),
    "collapsed": ("peak_bytes",),
}


@case("import/round_trip_profiles", "a trace comes back from other formats with other figures")
def round_trip_profiles(t):
    for command in (["simple", "3"], ["page"]):
        t.record(command)
        old = t.report(None, "--stacks", "--no-builtin-suppressions")
        for form, keys in PROFILES.items():
            out = t.folder / form
            run(t, t.tidemark, "export", "--force", t.trace, "--format", form, "-o", out)
            new = t.report(out, "--stacks", "--no-builtin-suppressions")
            t.equal(f"{form}: unknown", "events" in new["unknown"], True)
            for key in keys:
                t.equal(f"{command}: {form}: {key}", new[key], old[key])
            if form != "massif":
                t.equal(f"{command}: {form}: peak by function", by_leaf(new, "peak_bytes"),
                        by_leaf(old, "peak_bytes"))


@case("import/valgrind", "we read other figures in massif's and DHAT's files than they have", 120)
def valgrind(t):
    t.need_tool("valgrind")
    massif, dhat = t.folder / "massif.out", t.folder / "dhat.json"
    program = t.command(["simple", "0"])
    run(t, "valgrind", "--tool=massif", "--detailed-freq=1", f"--massif-out-file={massif}", *program)
    ran = run(t, "valgrind", "--tool=dhat", f"--dhat-out-file={dhat}", *program)
    totals = re.search(r"Total:\s+([\d,]+) bytes in ([\d,]+) blocks", ran.err)
    peak = re.search(r"At t-gmax:\s+([\d,]+) bytes in ([\d,]+) blocks", ran.err)
    end = re.search(r"At t-end:\s+([\d,]+) bytes in ([\d,]+) blocks", ran.err)
    t.need(totals and peak and end, f"DHAT says: {ran.err[-600:]}")
    report = t.report(dhat, "--no-builtin-suppressions")
    for found, names in ((totals, ("allocated_bytes", "allocations")),
                         (peak, ("peak_bytes", "peak_allocations")),
                         (end, ("unfreed_bytes", "unfreed_allocations"))):
        for group, name in enumerate(names):
            t.equal(f"dhat: {name}", report[name], int(found[group + 1].replace(",", "")))
    most = max(int(one) for one in re.findall(r"^mem_heap_B=(\d+)$", massif.read_text(), re.M))
    t.equal("massif: peak", t.report(massif)["peak_bytes"], most)


@case("import/tcmalloc", "we read other figures in gperftools' profiles than they have")
def tcmalloc(t):
    libraries = sorted(pathlib.Path("/usr/lib/x86_64-linux-gnu").glob("libtcmalloc.so.4"))
    if not libraries:
        t.skip("there is no libtcmalloc.so.4")
    run_program([str(one) for one in t.command(["simple", "0"])],
                t.environment({"LD_PRELOAD": str(libraries[0]), "HEAPPROFILE": str(t.folder / "gp")}),
                t.folder, t.seconds)
    path = t.folder / "gp.0001.heap"
    t.need(path.exists(), "gperftools wrote no profile")
    head = re.match(r"heap profile:\s*(\d+):\s*(\d+) \[\s*(\d+):\s*(\d+)\]", path.read_text())
    report = t.report(path, "--no-builtin-suppressions")
    for group, name in enumerate(("unfreed_allocations", "unfreed_bytes", "allocations",
                                  "allocated_bytes")):
        t.equal(name, report[name], int(head[group + 1]))


@case("import/merge", "files of other tools are merged into sums that are wrong")
def merge_imports(t):
    path, profile, merged = t.folder / "one", t.folder / "two", t.folder / "merged"
    path.write_text(FILE)
    profile.write_text("main;a 10\nmain;b 20\n")
    t.equal("status", t.tool("merge", "-o", merged, path, path).status, 0)
    report = t.report(merged)
    t.equal("allocations", report["allocations"], 2 * t.report(path)["allocations"])
    t.expect("lifetimes" in report["unknown"], f"{report['unknown']}")
    # Sums alone have no events that could be put beside others.
    result = t.tool("merge", "-f", "-o", merged, path, profile)
    t.expect(result.status == 1 and "only sums" in result.err, f"{result.status} {result.err}")
    result = t.tool("export", profile, "--format", "heaptrack", "-o", t.folder / "out")
    t.expect(result.status == 1 and "sums alone" in result.err, f"{result.status} {result.err}")
    t.equal("another format", t.tool("export", profile, "--format", "pprof", "-o",
                                     t.folder / "out").status, 0)
    anonymous = t.folder / "anonymous"
    for one in (path, profile):
        t.equal("anonymize", t.tool("anonymize", "-f", one, anonymous).status, 0)
        t.equal("verify", t.tool("verify", anonymous).status, 0)
        t.equal("live", t.report(anonymous)["unfreed_bytes"], t.report(one)["unfreed_bytes"])


FILE = """v 10400 3
X demo --fast
I 1000 100
s 9 /bin/demo
s 4 main
s 4 grow
i 401000 1 2
i 401100 1 3
t 1 0
t 2 1
a 10 2
c 1
+ 0
+ 0
- 0
c 2
"""


@case("import/commands", "a command that takes traces does not take files of other tools")
def commands(t):
    path = t.folder / "renamed.anything"
    path.write_text(FILE)
    packed = t.folder / "packed"
    packed.write_bytes(gzip.compress(FILE.encode()))
    for one in (path, packed):
        for command in (["report"], ["report", "--json"], ["info"], ["verify"],
                        ["export", "--format", "collapsed"], ["diff", one],
                        ["sql", "-c", "select count(*) from blocks"],
                        ["report", "--section", "lifetimes"], ["report", "--section", "threads"]):
            name, *rest = command
            result = t.tool(name, *rest, one) if name != "sql" else \
                t.tool("sql", one, "select count(*) from stacks")
            t.equal(f"{command}: status", result.status, 0)
    text = t.tool("report", "--section", "lifetimes", path).out
    t.expect("not known: the file does not say which block a free ended" in text, text)
    with packed.open("rb") as stream:
        piped = t.tool("report", "--json", "-", stdin=stream)
    t.equal("standard input", piped.status, 0)
    t.expect('"peak_bytes": 32' in piped.out, piped.out[:600])
    part = t.folder / "part.tide"
    t.equal("trim", t.tool("trim", "--from", "peak", path, part).status, 0)
    for words in ("lifetime>1s", "age>1s", "thread:x"):
        result = t.tool("report", "--filter", words, path)
        t.expect(result.status == 2 and "does not say" in result.err,
                 f"{words}: {result.status} {result.err}")
    result = t.tool("sql", path, "select count(*), count(free_ns), count(lifetime_ns) from blocks",
                    "--csv")
    t.expect("2,1,0" in result.out, result.out + result.err)
    # What is to be changed must be a trace.
    for command in ("repair", "symbolize"):
        result = t.tool(command, path)
        t.expect(result.status != 0 and "tidemark convert" in result.err,
                 f"{command}: {result.status} {result.err}")
    t.equal("the file", path.read_text(), FILE)
    t.equal("nothing is left behind", [one.name for one in t.folder.glob("tidemark.*")], [])


@case("import/check", "a budget of what a file does not say counts as kept")
def check(t):
    path = t.folder / "stacks"
    path.write_text("main;a 100\nmain;b 50\n")
    t.equal("peak within", t.tool("check", "--max-peak", "150", path).status, 0)
    t.equal("peak broken", t.tool("check", "--max-peak", "149", path).status, 1)
    result = t.tool("check", "--budget", "allocations<=5", path)
    t.equal("not known", result.status, 2)
    t.expect("not known: the file has what was live" in result.out + result.err,
             result.out + result.err)
    t.equal("against itself", t.tool("check", "--baseline", path, path).status, 0)


@case("import/serve", "the page does not show a file of another tool")
def serve(t):
    from cases.serve import Server
    path = t.folder / "heaptrack.demo.1"
    path.write_text(FILE)
    with Server(t, path) as server:
        listed = json.loads(server.request("/api/v1/traces")[2])["traces"]
        t.equal("names", [one["name"] for one in listed], ["heaptrack.demo.1"])
        t.equal("export", server.request("/api/v1/traces/last/export/collapsed?mode=peak")[2],
                b"main;grow 32\n")
        facts = json.loads(server.request("/api/v1/traces/last/summary")[2])
        t.equal("unknown", facts["unknown"], ["lifetimes", "threads"])
    page = t.folder / "page.html"
    t.equal("html", t.tool("export", path, "--format", "html", "-o", page).status, 0)


@case("import/convert", "tidemark convert writes what it should not, or not what it should")
def convert(t):
    path, out = t.folder / "in", t.folder / "out.tide"
    path.write_text(FILE)
    result = t.tool("convert", path, out)
    t.equal("status", result.status, 0)
    t.expect("from heaptrack, 3 events, 2 stacks" in result.out, result.out)
    result = t.tool("convert", path, out)
    t.expect(result.status == 1 and "--force" in result.err, f"{result.status} {result.err}")
    t.equal("with --force", t.tool("convert", "-f", path, out).status, 0)
    listed = t.tool("convert", "--list").out
    t.expect("heaptrack" in listed and "collapsed" in listed, listed)
    path.write_text("hello\n")
    result = t.tool("convert", "-f", path, t.folder / "none.tide")
    t.expect(result.status == 1 and "--list" in result.err, f"{result.status} {result.err}")
    t.expect(not (t.folder / "none.tide").exists(), "a file was written")
    for words in ([], [path], [path, out, "more"], ["--nonsense", path, out]):
        t.equal(f"{words}: status", t.tool("convert", *words).status, 2)


def far_program(t):
    """A raw heaptrack file of a program that is only below root/, with its debug file below debug/."""
    objcopy, readelf = t.need_tool("objcopy"), t.need_tool("readelf")
    program = t.folder / "root/opt/far/app"
    program.parent.mkdir(parents=True)
    said = run(t, readelf, "-sWn", t.target("simple")).out
    build_id = re.search(r"Build ID: ([0-9a-f]+)", said)[1]
    main = int(re.search(r"([0-9a-f]+) +\d+ FUNC +GLOBAL +DEFAULT +\d+ main$", said, re.M)[1], 16)
    debug = t.folder / f"debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    run(t, objcopy, "--only-keep-debug", t.target("simple"), debug)
    run(t, objcopy, "--strip-all", t.target("simple"), program)
    path = t.folder / "far.raw"
    path.write_text(f"v 10400 3\nx c /opt/far/app\nX app\nI 1000 100\nm 1 -\n"
                    f"m 1 x 555555554000 0 100000\nt {0x555555554000 + main + 1:x} 0\n"
                    "+ 10 1 5000\n+ 20 1 6000\nc 5\n")
    return path, ["--sysroot", t.folder / "root", "--debug-dir", t.folder / "debug"]


@case("import/sysroot", "files without names stay so though the program and its debug file are here")
def sysroot(t):
    path, places = far_program(t)
    out = t.folder / "out.tide"
    show = {"report": ["--stacks", "--json", path], "export": ["--format", "collapsed", path],
            "sql": [path, "select function from frames"],
            "diff": [path, path, "--json"]}
    for name, words in show.items():
        t.expect("main" not in t.tool(name, *words).out, f"{name}: a name from nowhere")
        said = t.tool(name, *places, *words)
        t.equal(f"{name}: status", said.status, 0)
        if name != "diff":
            t.expect("main" in said.out, f"{name}: {said.out[:300]} {said.err}")
    for name, words in {"convert": [path, out], "trim": ["--from", "0", path, out],
                        "merge": ["-o", out, path, path], "anonymize": [path, out]}.items():
        said = t.tool(name, "-f", *places, *words)
        t.equal(f"{name}: status {said.err}", said.status, 0)
        stacks = t.tool("export", "--format", "collapsed", out).out
        t.expect("main" in stacks, f"{name}: {stacks}")
    for name in ("info", "verify", "check --max-peak 1k"):
        t.equal(f"{name}: status", t.tool(*name.split(), *places, path).status, 0)
    by_variable = t.tool("export", "--format", "collapsed", path, env={
        "TIDEMARK_SYSROOT": str(places[1]), "TIDEMARK_DEBUG_DIR": f"/nowhere:{places[3]}"})
    t.expect("main" in by_variable.out, by_variable.out + by_variable.err)
    for words in (["--sysroot", t.folder / "none"], ["--debug-dir", path], ["--sysrot", "x"]):
        said = t.tool("report", *words, path)
        t.expect(said.status == 2 and "--" in said.err, f"{words}: {said.status} {said.err}")


@case("import/diff", "a comparison shows zeros for what a file does not say")
def diff(t):
    before, after, recorded = t.folder / "before", t.folder / "after", t.folder / "heaptrack"
    before.write_text("main;a 100\nmain;b 50\n")
    after.write_text("main;a 120\nmain;c 50\n")
    recorded.write_text(FILE)
    both = t.tool("diff", before, after).out
    t.expect("Not known of either: blocks at the peak" in both, both)
    t.expect("'allocations' is not known" in both and "what was live" in both, both)
    one = t.tool("diff", recorded, after).out
    t.expect(re.search(r"^allocations +2 +not known +\?$", one, re.M), one)
    t.expect(re.search(r"^peak +32 B +170 B +\+138 B", one, re.M), one)
    said = json.loads(t.tool("diff", "--json", before, after).out)
    totals = said["summary"]["totals"]
    t.equal("known", totals["peak_bytes"], {"before": 150, "after": 170})
    for key in ("allocations", "allocated_bytes", "temporary_allocations", "frees", "duration_ns"):
        t.equal(key, totals[key], {"before": None, "after": None})
    t.equal("sections", [said[key] for key in ("allocations", "temporary")], [None, None])
    t.equal("row", said["peak"][0]["before"]["allocations"], None)
    said = json.loads(t.tool("diff", "--json", recorded, after).out)
    t.equal("one side", said["summary"]["totals"]["allocations"], {"before": 2, "after": None})
    for name in ("sizes", "lifetimes", "threads", "timeline"):
        said = t.tool("diff", "--section", name, before, after)
        t.expect(said.status == 0 and f"'{name}' is not known" in said.out, said.out + said.err)
    report = t.report(before)
    t.equal("report", [report[key] for key in ("allocations", "allocated_bytes", "frees",
                                               "temporary_allocations")], [None] * 4)


@case("import/stdin", "a command does not read standard input, or a packed trace")
def stdin(t):
    path, out = t.folder / "file", t.folder / "out.tide"
    path.write_text(FILE)
    t.record(["simple", "0"])
    for data in (FILE.encode(), gzip.compress(FILE.encode()), t.trace.read_bytes(),
                 gzip.compress(t.trace.read_bytes())):
        source = t.folder / "source"
        source.write_bytes(data)
        for words in (["report", "-"], ["info", "-"], ["verify", "-"], ["check", "--max-peak", "1G",
                      "-"], ["diff", "-", path], ["export", "--format", "collapsed", "-"],
                      ["sql", "-", "select count(*) from stacks"],
                      ["trim", "-f", "--from", "0", "-", out], ["merge", "-f", "-o", out, "-", path],
                      ["anonymize", "-f", "-", out]):
            with source.open("rb") as stream:
                said = t.tool(*words, stdin=stream)
            t.equal(f"{words}: {said.err}", said.status, 0)
    path.write_text("hello\n")
    said = t.tool("report", path)
    t.expect(said.status == 1 and "neither a trace" in said.err, said.err)
    # What unpacks to far more than a trace can is refused.
    path.write_bytes(gzip.compress(b"TIDE\r\n\x1a\n" + bytes(80 << 20)))
    said = t.tool("report", path)
    t.expect(said.status == 1 and "more than a trace" in said.err, said.err)
