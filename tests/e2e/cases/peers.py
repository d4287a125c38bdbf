# SPDX-License-Identifier: Apache-2.0
"""Against other tools: heaptrack's figures, libunwind's stacks."""
import os
import re
import sys

from harness import case, run_program

UNITS = {"B": 1, "K": 1000, "KB": 1000, "M": 10**6, "MB": 10**6, "G": 10**9, "GB": 10**9}


def heaptrack_figures(t, command):
    """What heaptrack says of the program: calls, temporary calls, peak and leaked bytes with
    the precision it prints."""
    t.need_tool("heaptrack_print")
    ran = run_program([t.need_tool("heaptrack"), "-o", t.folder / "peer", *t.command(command)],
                      t.environment(), t.folder, t.seconds)
    files = [path for path in t.folder.glob("peer*") if path.suffix in (".gz", ".zst")]
    t.need(files, f"heaptrack wrote nothing: {ran.err[-300:]}")
    text = run_program(["heaptrack_print", files[0]], t.environment(), t.folder, t.seconds).out
    found = {}
    for key, pattern in {"allocations": r"calls to allocation functions: (\d+)",
                         "temporary_allocations": r"temporary memory allocations: (\d+)"}.items():
        found[key] = int(re.search(pattern, text)[1])
    for key, pattern in {"peak_bytes": r"peak heap memory consumption: ([\d.]+)([A-Z]*)",
                         "unfreed_bytes": r"total memory leaked: ([\d.]+)([A-Z]*)"}.items():
        number, unit = re.search(pattern, text).groups()
        scale = UNITS[unit or "B"]
        digits = len(number.partition(".")[2])
        found[key] = (float(number) * scale, scale / 10**digits)
    return found


def add_heaptrack(name, command, temporary_alike, cplusplus=False):
    @case(f"heaptrack/{name}", "the figures differ from heaptrack's where both mean the same", 120)
    def same(t):
        report, _ = t.compare(command)
        peer = heaptrack_figures(t, command)
        # heaptrack's library brings libstdc++ into the program and counts the pool that makes.
        calls, pool = (0, 0) if cplusplus else (1, 72704)
        t.equal("allocations", report["allocations"] + calls, peer["allocations"])
        # At the end it makes the libraries free what they hold, the pool as well.
        for key, more in (("peak_bytes", pool), ("unfreed_bytes", -72704 if cplusplus else 0)):
            value, step = peer[key]
            t.expect(abs(report[key] + more - value) <= step,
                     f"{key}: got {report[key]}, heaptrack says {value:.0f} +- {step:.0f}")
        # heaptrack calls a free temporary when stack and size agree with the last allocation,
        # whoever made it; ours asks for the same block of the same thread. Where a program
        # frees only the block it made last, both are the same.
        if temporary_alike:
            t.equal("temporary_allocations", report["temporary_allocations"],
                    peer["temporary_allocations"])


add_heaptrack("simple", ["simple"], False)
add_heaptrack("calloc", ["api_libc", "calloc"], True)
add_heaptrack("new", ["api_new", "new"], False, cplusplus=True)
add_heaptrack("big", ["big", "1"], False)
add_heaptrack("walk", ["deep", "walk"], False)


def stacks_equal(t, command, mib, least, env=None):
    """compare.so stands beside the agent and writes down what libunwind sees."""
    log = t.folder / "stacks"
    extra = {"COMPARE": str(log), "COMPARE_MIB": str(mib),
             "LD_PRELOAD": str(t.target("compare.so")), **(env or {})}
    recorded = t.record(command, env=extra)
    t.need(recorded.status == 0, f"exit status {recorded.status}: {recorded.err[-400:]}")
    checker = t.build / "tests/e2e/stack_check"
    t.need(checker.exists(), f"{checker} is not built")
    result = run_program([checker, t.trace, log], t.environment(), t.folder, t.seconds)
    words = re.search(r"(\d+) stacks compared, (\d+) differ, (\d+) cut, (\d+) unpaired", result.out)
    t.need(words, f"stack_check: {result.out[-500:]} {result.err[-500:]}")
    compared, differ, _, unpaired = map(int, words.groups())
    t.expect(compared >= least, f"only {compared} stacks compared, {unpaired} unpaired")
    t.expect(differ == 0 and unpaired == 0, result.out[-2500:])


@case("libunwind/graph", "stacks of alloca, realigned, throwing, signalled frames are wrong", 180)
def graph(t):
    stacks_equal(t, ["graph", "2", "400000" if t.long else "40000"], 3000 if t.long else 300, 50000)


@case("libunwind/graph_clang", "stacks of programs built by clang are wrong", 180)
def graph_clang(t):
    stacks_equal(t, ["graph_clang", "2", "40000"], 300, 50000)


@case("libunwind/python", "stacks of python are wrong", 180)
def python(t):
    text = "import json; print(len(json.dumps([{str(i): [i, {'a': i}]} for i in range(%d)])))"
    stacks_equal(t, [os.path.realpath(sys.executable), "-c", text % (60000 if t.long else 5000)],
                 2000 if t.long else 200, 30000, {"PYTHONMALLOC": "malloc"})


@case("libunwind/sqlite", "stacks of sqlite3 are wrong", 180)
def sqlite(t):
    tool = t.need_tool("sqlite3")
    text = ("create table a(x integer primary key, y text); with recursive c(i) as (select 1 union "
            "all select i+1 from c where i<%d) insert into a select i, hex(randomblob(20)) from c; "
            "select count(*) from a where y like '%%AB%%' order by y;")
    stacks_equal(t, [tool, ":memory:", text % (200000 if t.long else 10000)],
                 2000 if t.long else 300, 5000)


@case("libunwind/compiler", "stacks of a compiler are wrong", 180)
def compiler(t):
    tool = t.need_tool("g++")
    inner = run_program([tool, "-print-prog-name=cc1plus"], t.environment(), t.folder,
                        t.seconds).out.strip()
    (t.folder / "a.cc").write_text("#include <utility>\n#include <new>\nint main(){}\n")
    if t.long:
        (t.folder / "a.cc").write_text("#include <map>\n#include <string>\n#include <vector>\n"
                                       "std::map<std::string, std::vector<int>> m; int main(){}\n")
    stacks_equal(t, [inner, "-quiet", "-O1", "a.cc", "-o", "/dev/null"],
                 4000 if t.long else 300, 20000)
