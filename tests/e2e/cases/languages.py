# SPDX-License-Identifier: Apache-2.0
"""Programs in Nim, Rust, Python, JavaScript and Go, whose runtimes have heaps of their own."""
import pathlib
import re

from attaching import Attachee, Recorder
from harness import case, run_program
from watch import Watch

ROOT = pathlib.Path(__file__).resolve().parents[3]
LANG = ROOT / "tests/targets/lang"


def only_long(t):
    if not t.long:
        t.skip("it takes long: only with --long")


def heaps(t, *options):
    report = t.report(None, "--group", "heap", *options)
    return {row["function"]: row["self"] for row in report["heaps"]}, report


def chosen(t, text):
    """Allocations that a filter chooses."""
    rows = t.report(None, "--filter", text, "--by", "function")["functions"]
    return sum(row["self"]["allocations"] for row in rows)


# ---- Nim ----

def nim(t, source, name, *options):
    """Compiles as docs/nim.md says: two lines in config.nims, and -d:tidemark."""
    folder = t.folder / name
    folder.mkdir()
    (folder / "config.nims").write_text(
        f'when defined(tidemark):\n  include "{ROOT}/nim/tidemark.nims"\n')
    (folder / source).write_text((LANG / source).read_text())
    done = run_program([t.need_tool("nim"), "c", "--hints:off", "-d:nimTypeNames",
                        "--nimcache:cache", "-o:program", *options, source],
                       t.environment(), folder, t.seconds)
    t.need(done.status == 0, f"nim: {done.out[-300:]}{done.err[-300:]}")
    return folder / "program"


def nim_module(collector):
    @case(f"lang/nim_{collector}", "Nim's own allocator is not seen, or counted wrongly",
          seconds=120)
    def counted(t):
        if collector == "orc":
            only_long(t)  # lang/nim_plain has it
        program = nim(t, "churn.nim", "churn", "-d:tidemark", f"--gc:{collector}")
        bare, recorded = t.bare([program]), t.record([program])
        t.same_behaviour(bare, recorded)
        allocations, frees = map(int, recorded.out.split())
        found, report = heaps(t)
        t.nothing_lost(report)
        t.equal("allocations", found["nim"]["allocations"], allocations)
        if collector == "refc":  # the other frees its globals after it has counted
            t.equal("frees", found["nim"]["frees"], frees)


for collector in ("refc", "orc"):
    nim_module(collector)


@case("lang/nim_threads", "blocks of Nim's threads are lost, or live for ever",
      seconds=120)
def nim_threads(t):
    only_long(t)
    program = nim(t, "threads.nim", "threads", "-d:tidemark", "--threads:on", "--gc:refc")
    recorded = t.record([program])
    found, report = heaps(t)
    t.nothing_lost(report)
    # One block of the heap that is shared is made for each thread, beyond the counters.
    t.equal("allocations", found["nim"]["allocations"], int(recorded.out) + 4)


NIM_BUILDS = {"debug": [], "release": ["-d:release"], "danger": ["-d:danger"],
              "lto": ["-d:release", "--passC:-flto", "--passL:-flto"],
              "strip": ["-d:release", "--passL:-s"]}


def nim_matrix(collector):
    @case(f"lang/nim_matrix_{collector}", "some way to build a Nim program is counted wrongly",
          seconds=600)
    def matrix(t):
        """In every build: exact with the module; exact or refused with a word without it."""
        only_long(t)
        for name, options in NIM_BUILDS.items():
            for module in ([], ["-d:tidemark"]):
                program = nim(t, "churn.nim", f"{name}{len(module)}", f"--gc:{collector}",
                              *options, *module)
                recorded = t.record([program], options=["--force"])
                found, report = heaps(t)
                t.nothing_lost(report)
                wanted = int(recorded.out.split()[0])
                got = found.get("nim", {}).get("allocations")
                refused = got is None and "Not hooked" in (report["note"] or "")
                t.expect(got == wanted or (refused and not module),
                         f"{name} {module}: {got} of {wanted}; {report['note']}")
                t.expect(name != "debug" or got == wanted, f"debug: {report['note']}")


for collector in ("refc", "orc"):
    nim_matrix(collector)


def attached(t, program):
    """What the program counts, and what the trace of a tidemark that attached has."""
    with Attachee(t, program=program) as it, Recorder(t, it.pid) as tool:
        it.watch.send(b"\n")
        wanted = int(it.watch.read_until(" allocations\n"))
        tool.stop()
        found, report = heaps(t)
        t.equal("lost_events", report["lost_events"], 0)
        it.watch.send(b"\n")
        t.equal("exit status", it.watch.ended(), 0)
    return wanted, found.get("nim", {}).get("allocations"), report["note"] or ""


def nim_attached(collector, builds, long):
    @case(f"lang/nim_attach_{collector}{'_all' if long else ''}",
          "a running Nim program is counted wrongly", seconds=600)
    def matrix(t):
        """In every build: exact with the module; exact or refused with a word without it."""
        if long:
            only_long(t)
        for name in builds:
            for module in ([], ["-d:tidemark"]) if long else ([],):
                program = nim(t, "wait.nim", f"{name}{len(module)}", f"--gc:{collector}",
                              *NIM_BUILDS[name], *module)
                wanted, got, note = attached(t, program)
                refused = got is None and "Not hooked" in note
                t.expect(got == wanted or (refused and not module),
                         f"{name} {module}: {got} of {wanted}; {note}")
                t.expect(name != "debug" or got == wanted, f"debug: {note}")


nim_attached("orc", ["debug"], False)
for collector in ("refc", "orc"):
    nim_attached(collector, NIM_BUILDS, True)


@case("lang/nim_plain", "a Nim program without any change is not seen, or half")
def nim_plain(t):
    program = nim(t, "churn.nim", "plain", "--gc:orc")
    recorded = t.record([program])
    found, report = heaps(t)
    t.nothing_lost(report)
    t.equal("allocations", found["nim"]["allocations"], int(recorded.out.split()[0]))


# ---- Rust, Go ----

@case("lang/rust", "allocations of Rust programs are counted wrongly", seconds=120)
def rust(t):
    rust_counted(t)


@case("lang/rust_jemalloc", "Rust programs with the jemallocator crate are counted wrongly",
      seconds=120)
def rust_jemalloc(t):
    """Under the names that the crate gives to jemalloc's functions."""
    only_long(t)
    rust_counted(t, "--cfg", "jemalloc", "-C", "link-arg=-lm",
                 "-C", f"link-arg={t.target('libjemalloc__rjem_.a')}")
    t.expect("jemalloc" in heaps(t)[0], "the allocator is not named")


@case("lang/rust_mimalloc", "Rust programs with the mimalloc crate are counted wrongly",
      seconds=120)
def rust_mimalloc(t):
    only_long(t)
    rust_counted(t, "--cfg", "mimalloc", "-C", f"link-arg={t.target('libmimalloc.a')}")
    t.expect("mimalloc" in heaps(t)[0], "the allocator is not named")


def rust_counted(t, *options):
    """What the program counts itself is what the trace has."""
    done = run_program([t.need_tool("rustc"), "-g", "-o", "count", *options, LANG / "count.rs"],
                       t.environment(), t.folder, t.seconds)
    t.need(done.status == 0, f"rustc: {done.err[-300:]}")
    recorded = t.record(["./count"])
    allocations, frees, allocated = map(int, recorded.their_errors().split())
    report = t.report(None)
    t.nothing_lost(report)
    t.equal("allocations", chosen(t, "function:Counter"), allocations)
    rows = t.report(None, "--filter", "function:Counter", "--by", "function")["functions"]
    t.equal("bytes", sum(row["self"]["allocated_bytes"] for row in rows), allocated)
    t.equal("unfreed", sum(row["self"]["unfreed_allocations"] for row in rows),
            allocations - frees)


@case("lang/go_pure", "a Go program is recorded as if it had no heap, without a word")
def go_pure(t):
    """Go's linker leaves this note; the rest of the program does not matter."""
    (t.folder / "go.c").write_text(
        '__asm__(".pushsection .note.go.buildid, \\"a\\", @note\\n.long 4, 4, 4\\n'
        '.ascii \\"Go\\\\0\\\\0\\"\\n.long 0\\n.popsection");\nint main(void) { return 7; }\n')
    done = run_program([t.need_tool("gcc"), "-static", "-Wl,--build-id=none", "-o", "pure", "go.c"],
                       t.environment(), t.folder, 60)
    t.need(done.status == 0, f"gcc: {done.err[-300:]}")
    refused = t.record(["./pure"])
    t.equal("status", refused.status, 125)
    t.expect("Go program" in refused.err and "pprof" in refused.err, refused.err)
    t.equal("run all the same", t.record(["./pure"], options=["--or-run"]).status, 7)


@case("lang/go_cgo", "the C side of Go programs is not seen", seconds=300)
def go_cgo(t):
    only_long(t)
    t.need_tool("go")
    done = run_program(["go", "build", "-o", "cside", LANG / "cside.go"],
                       t.environment({"GOCACHE": str(t.folder / "cache"), "CGO_ENABLED": "1"}),
                       t.folder, t.seconds)
    t.need(done.status == 0, f"go: {done.err[-300:]}")
    t.record(["./cside"])
    rows = t.report(None, "--filter", "function:c_take", "--by", "function")["functions"]
    t.equal("allocations", sum(row["self"]["allocations"] for row in rows), 1000)
    t.equal("unfreed", sum(row["self"]["unfreed_allocations"] for row in rows), 500)


# ---- Python, Node ----

PYTHON = "/usr/bin/python3"
OBJECTS = """
import sys
kept = [bytearray(12344) for _ in range(1000)]
small = [bytes(477) for _ in range(int(sys.argv[1]))]
sys._debugmallocstats()
"""


@case("lang/python", "Python's arenas are counted as heap, or not at all")
def python(t):
    """Small objects live in arenas, which are mappings; larger ones come from malloc."""
    recorded = t.record([t.need_tool(PYTHON), "-c", OBJECTS, "30000"])
    errors = recorded.their_errors()
    arenas = int(re.search(r"arenas highwater mark\s+=\s+([\d,]+)", errors)[1].replace(",", ""))
    each = int(re.search(r"arenas \* (\d+) bytes/arena", errors)[1])
    report = t.report(None, "--section", "mappings", "--section", "summary")
    t.nothing_lost(report)
    owners = {row["owner"]: row for row in report["mappings"]}
    # Some kilobytes more come the same way: the interpreter's stack of data.
    t.equal("arenas", owners["Python arenas"]["peak_bytes"] // each, arenas)
    t.equal("large objects", chosen(t, "size=12345"), 1000)


@case("lang/python_malloc", "Python's objects without pymalloc are counted wrongly")
def python_malloc(t):
    counts = []
    for number in (1000, 3000):
        t.record([t.need_tool(PYTHON), "-c", OBJECTS, str(number)], options=["--force"],
                 env={"PYTHONMALLOC": "malloc"})
        t.equal("large objects", chosen(t, "size=12345"), 1000)
        counts.append(chosen(t, "size=510"))
    t.equal("small objects", counts[1] - counts[0], 2000)
    rows = t.report(None, "--section", "mappings")["mappings"]
    t.expect(all(row["peak_bytes"] < 256 << 10 for row in rows), f"there are arenas: {rows}")


@case("lang/node", "Buffers of Node are not counted, or V8's heap is not told from them")
def node(t):
    script = ("const kept = []; for (let i = 0; i < 50; i++) kept.push(Buffer.alloc(1000003));"
              "const words = []; for (let i = 0; i < 100000; i++) words.push('w' + i);"
              "console.log(kept.length + words.length)")
    recorded = t.record([t.need_tool("node"), "-e", script])
    t.equal("output", recorded.out, "100050\n")
    t.equal("buffers", chosen(t, "size=1000003"), 50)
    owners = {row["owner"]: row for row in t.report(None, "--section", "mappings")["mappings"]}
    t.expect(owners.get("V8 heap", {}).get("peak_bytes", 0) > 4 << 20, f"V8's heap: {owners}")


@case("lang/node_explained", "nothing says that malloc has little of what Node holds")
def node_explained(t):
    script = ("const kept = []; for (let i = 0; i < 300000; i++) kept.push({i, s: 'x' + i});"
              "console.log('ready'); process.stdin.once('data', () => process.exit(kept.length % 7))")
    command = [t.tidemark, "run", "-o", t.trace, "--", t.need_tool("node"), "-e", script]

    def sampled():
        result = t.tool("sql", "--csv", t.trace,
                        f"select count(*) from samples where anon_bytes > {20 << 20}")
        return result.status == 0 and int(result.out.split()[-1]) > 0
    with Watch(t.start(command), t.seconds) as watch:
        watch.wait_for("ready\n")
        watch.poll(sampled, "a sample with the heap")
        watch.send(b"x")
        t.equal("exit status", watch.ended(), 300000 % 7)
    rss = t.report()["rss"]
    t.expect((rss["anonymous_bytes"] or 0) > 16 << 20, f"anonymous memory: {rss}")
    t.expect("V8" in (rss["cause"] or "") and "--heap-prof" in (rss["advice"] or ""), f"{rss}")
