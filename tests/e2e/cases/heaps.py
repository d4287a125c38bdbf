# SPDX-License-Identifier: Apache-2.0
"""Allocators that speak for themselves: include/tidemark.h and heaptrack's functions."""
import pathlib
import signal

from harness import case, run_program
from watch import Watch

MODES = {
    "pieces": "a pool on top of malloc is counted twice, or its pieces are lost",
    "mapped": "a pool on a mapping is counted twice, or its pieces are lost",
    "nested": "a pool on top of a pool is counted twice",
    "arena": "blocks of an arena that is dropped whole seem to live for ever",
    "realloc": "a pool's reallocs are counted wrongly",
    "tags": "tags change the figures",
    "all": "several named heaps in one program disturb each other",
}


def add(mode, loses):
    case(f"heaps/{mode}", loses)(lambda t: t.compare(["pools", mode], stacks=False))


for mode, loses in MODES.items():
    add(mode, loses)


def self_figures(report, key):
    return {row["function"]: row["self"] for row in report[key]}


@case("heaps/split", "nobody sees which heap or which request memory is for")
def split(t):
    t.record(["pools", "tags", "listening"])
    report = t.report(None, "--group", "heap", "--group", "tag", "--by", "function")
    heaps, tags = self_figures(report, "heaps"), self_figures(report, "tags")
    t.equal("heaps", {name: row["allocations"] for name, row in heaps.items()},
            {None: 32, "large": 10})
    t.equal("bytes", {name: row["allocated_bytes"] for name, row in heaps.items()},
            {None: 3200, "large": 400})
    t.equal("tags", {name: row["allocations"] for name, row in tags.items()},
            {"request=GET /cart": 30, "component=tax": 10, "request=POST /order": 5, None: 7})
    for text, count in (("heap:large", 10), ("kind=custom", 10), ("kind=heap", 32),
                        ("tag:/cart/", 30), ("tag:cart and not heap=large", 20),
                        ("tag=component=tax", 10), ("not tag:request", 7)):
        rows = t.report(None, "--filter", text, "--by", "function")["functions"]
        t.equal(text, sum(row["self"]["allocations"] for row in rows), count)


@case("heaps/absent", "a program that can speak to Tidemark behaves otherwise without it")
def absent(t):
    t.equal("status", t.bare(["pools", "all"]).status, 0)
    t.equal("heard", t.bare(["pools", "all", "listening"]).status, 3)


COMPILERS = [("gcc", "c", "c99"), ("gcc", "c", "c17"), ("clang", "c", "c99"), ("clang", "c", "c17"),
             ("g++", "c++", "c++11"), ("g++", "c++", "c++20"), ("clang++", "c++", "c++11"),
             ("clang++", "c++", "c++20")]


@case("heaps/header", "the header does not compile in somebody's project")
def header(t):
    """All of it, by every compiler and language, strictly; one object is linked from two files."""
    root = pathlib.Path(__file__).resolve().parents[3]
    used = t.folder / "used.c"
    used.write_text("""
#include "tidemark.h"
#ifdef __cplusplus
extern "C"
#endif
void use(struct tidemark_heap *heap, void *a, void *b);
void use(struct tidemark_heap *heap, void *a, void *b)
{
\ttidemark_heap_register(heap, "h", 0);
\ttidemark_heap_alloc(heap, a, 1);
\ttidemark_heap_realloc(heap, a, b, 2);
\ttidemark_heap_free(heap, b);
\ttidemark_heap_discard(heap, a, 1);
\ttidemark_heap_grow(heap, a, 1);
\ttidemark_tag("key", "value");
}
""")
    flags = ["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wundef",
             "-Werror", f"-I{root}/include", "-c", "used.c", "-o", "used.o"]
    for compiler, language, standard in COMPILERS:
        t.need_tool(compiler)
        for more in ([], ["-DTIDEMARK_DISABLE"]):
            done = run_program([compiler, "-x", language, f"-std={standard}", *flags, *more],
                               t.environment(), t.folder, 60)
            t.equal(f"{compiler} -std={standard} {more}", (done.status, done.err), (0, ""))


@case("heaps/cost", "a program pays for Tidemark where there is none")
def cost(t):
    """Without a listener: one load of the table and one branch, and nothing else."""
    root = pathlib.Path(__file__).resolve().parents[3]
    source = t.folder / "one.c"
    source.write_text('#include "tidemark.h"\nvoid one(struct tidemark_heap *heap, void *block);\n'
                      "void one(struct tidemark_heap *heap, void *block)\n"
                      "{\n\ttidemark_heap_alloc(heap, block, 1);\n}\n")
    run_program([t.need_tool("gcc"), "-O2", "-fcf-protection=none", f"-I{root}/include", "-c",
                 "one.c"], t.environment(), t.folder, 60)
    text = run_program([t.need_tool("objdump"), "-d", "--no-show-raw-insn", "one.o"],
                       t.environment(), t.folder, 60).out
    body = text.split("<one>:\n")[1].splitlines()
    words = [line.split("\t")[1].split()[0] for line in body if "\t" in line]
    t.equal("instructions when nobody listens", [words[0], words[1], words[2][0]],
            ["mov", "test", "j"])


def heaptrack_program(how, loses):
    @case(f"heaps/heaptrack_{how}", loses)
    def spoken(t):
        name = "weak" if how == "weak" else f"libheaptrack_{how}.so"
        t.equal("status without a library", t.bare(["heaptracked", name]).status, 1)
        done = t.record(["heaptracked", name])
        t.equal("status", done.status, 0)
        report, ledger = t.report(None, "--by", "function", "--group", "heap"), t.ledger()
        t.nothing_lost(report)
        t.functions_match(report, ledger)
        t.equal("allocations of the heap",
                self_figures(report, "heaps")["heaptrack"]["allocations"], 1001)


for how in ("preload", "inject", "weak"):
    heaptrack_program(how, "programs that were made for heaptrack do not start, or their pools "
                           "are not seen")


@case("heaps/heaptrack_stub", "a program made for heaptrack does not start where there is none")
def stub(t):
    for name in ("libheaptrack_preload.so", "libheaptrack_inject.so"):
        done = t.bare(["heaptracked", name], env={"LD_LIBRARY_PATH": str(t.build)})
        t.equal(name, (done.status, done.err), (0, ""))


@case("heaps/threads", "named heaps and tags of several threads are mixed up or lost")
def threads(t):
    bare, recorded = t.bare(["pools_busy", "threads"]), t.record(["pools_busy", "threads"])
    t.same_behaviour(bare, recorded)
    report = t.report(None, "--by", "function", "--group", "tag")
    t.nothing_lost(report)
    t.functions_match(report, t.ledger())
    tags = self_figures(report, "tags")
    t.equal("tags", {name for name in tags if name}, {"round=even", "round=odd"})
    t.equal("tagged", sum(row["allocations"] for name, row in tags.items() if name),
            sum(row["allocations"] for row in t.ledger()["functions"]))


@case("heaps/library", "a library that is loaded late, or speaks in its constructor, is not heard")
def library(t):
    for path in (t.target("pool_plug.so"), "pool_plug.so"):
        t.record(["pools_busy", "plug", path], options=["--force"],
                 env={"LD_LIBRARY_PATH": str(t.targets)})
        heaps = self_figures(t.report(None, "--group", "heap"), "heaps")
        t.equal(f"{path}", (heaps["plug"]["allocations"], heaps["plug"]["frees"],
                            heaps["plug"]["unfreed_bytes"]), (50, 40, 320))


@case("heaps/attach", "named heaps of a program that Tidemark is attached to are not seen")
def attach(t):
    if "attach" not in t.tool("--help").out:
        t.skip("there is no attach")
    with Watch(t.start([t.target("pools_busy"), "wait"]), t.seconds) as watch:
        watch.wait_for("ready\n")
        tool = t.start([t.tidemark, "attach", str(watch.process.pid), "-o", t.trace])
        with Watch(tool, t.seconds) as inside:
            inside.wait_for("leaves the process", fd=tool.stderr.fileno())
            watch.process.stdin.write(b"x")
            watch.process.stdin.flush()
            watch.wait_for("done\n")
            tool.send_signal(signal.SIGINT)
            tool.wait(inside.left())
        watch.process.stdin.close()
        t.equal("status", watch.process.wait(watch.left()), 0)
        watch.process.stdin = None
    heaps = self_figures(t.report(None, "--group", "heap"), "heaps")
    t.equal("pieces", (heaps["shared"]["allocations"], heaps["shared"]["frees"]), (64, 32))


def static_program(kind):
    @case(f"heaps/{kind}", "named heaps of statically linked programs are not seen")
    def linked(t):
        for mode in ("pieces", "arena", "realloc", "tags"):
            command = [f"pools_{kind}", mode, "listening"]
            recorded = t.record(command, options=["--force"])
            t.equal(f"{mode}: status", recorded.status, 0)
            report = t.report(None, "--by", "function")
            t.nothing_lost(report)
            t.functions_match(report, t.ledger())


for kind in ("static", "static_pie", "static_musl"):
    static_program(kind)


@case("heaps/fork", "a forked child's named heaps are not those of its parent")
def forked(t):
    t.record(["pools_busy", "fork"], options=["--children"])
    found = []
    for path in t.folder.glob("*.tide"):
        report = t.report(path, "--group", "heap")
        t.nothing_lost(report)
        t.equal("freed_older", report["freed_older"], 0)
        heaps = self_figures(report, "heaps")
        found.append([(heaps[name]["allocations"], heaps[name]["frees"],
                       heaps[name]["unfreed_bytes"]) for name in ("dropped", "shared")])
    # The child begins with what its parent had.
    t.equal("parent and child", sorted(found),
            [[(1, 0, 5), (10, 0, 100)], [(1, 1, 0), (13, 5, 71)]])
