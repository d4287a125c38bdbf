# SPDX-License-Identifier: Apache-2.0
"""Threads, signals, foreign stacks, loading, exceptions, times before and after main."""
from harness import case


def add(name, loses, command, seconds=60, **how):
    case(name, loses, seconds)(lambda t: t.compare(command, **how))




@case("threads/cross", "blocks freed or resized by another thread look unfreed or vanish")
def cross(t):
    report, _ = t.compare(["threads", "cross"])
    t.equal("threads", report["threads"], 65)


add("threads/race", "false leaks where one thread's realloc frees what another gets at once",
    ["threads", "race"], env={"MALLOC_ARENA_MAX": "1"})
add("threads/undone", "false leaks where a block whose realloc failed changes hands", ["undone"])


@case("threads/clone", "programs that make threads by raw clone() crash or are counted wrongly")
def cloned(t):
    report, _ = t.compare(["threads", "clone"])
    t.equal("threads", report["threads"], 11)


@case("threads/named", "a short thread that names itself by prctl has the program's name")
def named(t):
    t.compare(["threads", "named"])
    rows = t.report(None, "--section", "threads")["thread_list"]
    names = sorted(row["name"] for row in rows if row["temporary_allocations"])
    t.equal("names", names, [f"named {i}" for i in range(5)])


add("threads/tiny", "a thread with a small stack that is almost used up crashes",
    ["threads", "tiny", "4096"])


@case("threads/silent", "threads that do not allocate are not known")
def silent(t):
    report, _ = t.compare(["threads", "silent"])
    t.equal("threads", report["threads"], 21)


@case("threads/tids", "a thread that was gone at once is shown with the id of the one after it")
def tids(t):
    result = t.record(["tids"])
    ids = [int(line) for line in result.out.splitlines()]
    t.equal("threads of the program", len(ids), 200)
    # Each allocated as many bytes as its id is; those that stay allocate nothing.
    asked = t.tool("sql", "--csv", t.trace, "select size, tid from blocks join threads using (thread_id) "
                   "where thread_id > 0 order by alloc_ns")
    shown = [tuple(map(int, row.split(","))) for row in asked.out.splitlines()[1:]]
    t.equal("blocks and threads", [pair for pair in shown if pair[0] in ids], [(one, one) for one in ids])


@case("threads/deep", "threads that were deep once keep the profiler's memory for ever")
def deep_once(t):
    report, _ = t.compare(["threads", "deep"])
    allowed = 1024 * 64 * (report["threads"] + 1) + 48 * 2000
    t.expect(report["agent_bytes"] < allowed + (4 << 20),
             f"{report['agent_bytes']} bytes for {report['threads']} threads; allowed are {allowed}, 4 MiB in all")


@case("threads/churn", "programs with many short threads lose events or run out of slots", 120)
def churn(t):
    count = 100000 if t.long else 20000
    report, _ = t.compare(["threads", "churn", str(count)])
    t.equal("threads", report["threads"], count + 1)


def add_spread(name, loses, count, pointers):
    @case(f"threads/{name}", loses, 120)
    def spread(t):
        report, _ = t.compare(["threads", "spread", str(count), str(pointers)])
        t.equal("threads", report["threads"], count + 1)
        # Eight live at a time, and of those that have just ended some are not known to have.
        t.expect(report["agent_bytes"] < 12 << 20,
                 f"{report['agent_bytes']} bytes for 9 threads at a time")


add_spread("spread", "a program hangs, or its memory grows, after many threads with stacks of "
           "their own", 20000, 20000)
add_spread("spread_again", "threads get mixed up when the stack of one that ended is used again",
           20000, 64)


for mode, loses in {
    "raise": "allocations in signal handlers are lost",
    "alt": "allocations in handlers on an alternate stack are lost or crash",
    "nested": "allocations in nested handlers are lost",
    "longjmp": "after longjmp over allocating frames the stacks or counts are wrong",
    "segv": "programs that use SIGSEGV as control flow crash",
}.items():
    add(f"signals/{mode}", loses, ["signals", mode])
for mode, loses in {
    "storm": "a handler that interrupts the profiler itself loses events or deadlocks",
    "storm_alt": "the same on an alternate stack",
    "jump": "after siglongjmp out of the profiler nothing more is recorded",
    "failing": "a block whose realloc failed is lost when a handler had one of its own meanwhile",
}.items():
    add(f"signals/{mode}", loses, ["signals_bump", mode])



def fork_modes(t, command):
    for options in ([], ["--children"], ["--sample", "64"]):
        t.same_behaviour(t.bare(command), t.record(command, ["-f", *options]))


@case("signals/fork", "a child that a handler forks inside the allocator crashes when it comes back")
def fork_inside(t):
    fork_modes(t, ["signals_bump", "fork"])
    t.compare(["signals_bump", "fork"], ["-f"])


@case("signals/fork_storm", "a child that a handler forks inside the profiler crashes when it comes back")
def fork_storm(t):
    fork_modes(t, ["signals", "fork_storm"])
    t.compare(["signals_bump", "fork_storm"], ["-f"])


for mode, loses in {
    "swap": "coroutine programs have wrong stacks or counts",
    "fibers": "programs that unmap fiber stacks crash or show stale frames",
    "small": "programs with stacks of a few KiB crash: the profiler uses too much of them",
    "moved": "coroutines that change threads have wrong stacks or counts",
}.items():
    add(f"context/{mode}", loses, ["context", mode])
add("context/deep", "a coroutine that recurses deeply after another one has ended crashes",
    ["context", "deep"], stacks=False, whole=False)

for mode, loses in {
    "turns": "plugins loaded at an old address get another plugin's name",
    "turns_one": "the same in a program with one thread",
    "dlmopen": "programs with linker namespaces crash or are counted wrongly",
    "symbolic": "libraries linked with -Bsymbolic are not counted",
    "local": "libraries used at exit are not named",
}.items():
    case(f"loader/{mode}", loses)(lambda t, mode=mode: t.compare(
        ["loader", mode.removesuffix("_one"), t.targets, "1" if mode == "turns_one" else "3"]))


@case("loader/forks", "a child that a library's destructor forks crashes when dlclose returns")
def forks(t):
    for options in ([], ["--children"], ["--sample", "64K"]):
        command = ["loader", "forks", t.targets]
        t.same_behaviour(t.bare(command), t.record(command, ["-f", *options]))
    t.compare(["loader", "forks", t.targets], ["-f"])


@case("loader/relative", "libraries that were loaded by a relative path have no names")
def relative(t):
    (t.folder / "plugs").symlink_to(t.targets)
    t.compare(["loader", "turns", "plugs", "1"])


@case("loader/late", "an allocator that a plugin brings along is not seen")
def late(t):
    t.compare(["loader", "late", t.target("plug_late.so")])


@case("loader/late_name", "an allocator that a plugin brings along is not seen")
def late_name(t):
    t.compare(["loader", "late_name", t.target("plug_late.so").name], env={"LD_LIBRARY_PATH": str(t.targets)})


OWN = ["--hook", "alloc=own_take(size=0) free=own_give(ptr=0)"]


@case("loader/late_linked", "an allocator linked into a plugin is not seen")
def late_linked(t):
    """Hidden in it and under a prefix, or named by --hook; no right to trace is needed."""
    plug = t.target("plug_late_jemalloc.so")
    t.compare(["loader", "late", plug], alone=False, whole=False,
              env={"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=65536"})
    t.expect("jemalloc" in t.tool("report", t.trace, "--group", "heap").out,
             "the allocator is not named")
    for mode in ("late", "late_turns"):
        report, _ = t.compare(["loader", mode, t.target("plug_late_own.so")], ["-f", *OWN],
                              whole=False)
        t.equal(f"{mode}: note", report["note"] or "", "")


@case("loader/late_threads", "a plugin's code is changed while other threads may be in it")
def late_threads(t):
    """It is left as it is, the rest is recorded, and the trace names it."""
    result = t.record(["loader", "late_threads", t.target("plug_late_own.so")], OWN)
    t.equal("exit status", result.status, 0)
    words = "own_take of plug_late_own.so (other threads were running"
    for text in (result.err, t.tool("info", t.trace).out):
        t.expect(words in text, f"no word: {text!r}")
    rows = {row["function"] for row in t.report(None, "--by", "function")["functions"]}
    t.expect("late_malloc" not in rows, "it was hooked after all")


for library in ("mimalloc", "tcmalloc"):
    @case(f"loader/late_new_{library}", "operator new of an allocator that a plugin brings along is not seen")
    def late_new(t, library=library):
        t.compare(["loader", "late", t.target(f"plug_late_new_{library}.so")])


@case("loader/deepbind", "a plugin loaded with RTLD_DEEPBIND breaks the program or the figures")
def deepbind(t):
    # Its malloc is the C library's and cannot be seen; blocks cross between both views. So
    # only the host's own function is compared; unseen frees are counted, not lost.
    report, _ = t.compare(["loader", "deepbind", t.targets], lossless=False)
    t.equal("lost_events", report["lost_events"], 0)


add("exceptions", "C++ exceptions are lost, or blocks freed on their way are missed",
    ["exceptions"])
add("early", "allocations before main, in constructors, thread and exit handlers are missed",
    ["early"])

for build in ["deep", "deep_O0", "deep_realign", "deep_clang"]:
    for mode in ["chain", "walk", "alloca", "realign", "threads"]:
        add(f"stacks/{mode}_{build}", "a block is blamed on the wrong functions", [build, mode])

for mode, loses in {
    "frame": "stacks through JIT code end there",
    "register": "JIT code without frame pointers crashes the program or loses blocks",
    "garbage": "code that uses the frame pointer for something else crashes or hangs us",
    "replaced": "JIT code that replaces other code gets stale stacks",
    "unmapped": "code that uses the frame pointer for something else crashes when that is unmapped",
    "unmapped_other": "the same when other code uses it next",
    "jailed": "stacks through JIT code end there in a program that has a seccomp filter",
}.items():
    # Through garbage nobody can follow; how far is not promised, only that nothing breaks.
    add(f"jit/{mode}", loses, ["jit", mode], whole=mode in ("frame", "jailed"))


@case("stacks/recursion", "deep recursion makes the program slow, crash, or lose its root frames")
def recursion(t):
    report, _ = t.compare(["deep", "recursion"], stacks=False, whole=False)
    t.expect(report["cut_stacks"] > 0, "100,000 frames are not marked as cut")
    t.expect(report["cut_stacks"] < report["allocations"], "shallow stacks are marked as cut")
    for line in t.tool("report", t.trace, "--stacks").out.splitlines():
        names = line.rpartition("\t")[2].split(";")
        if names[0] not in ("dive_down", "dive_up"):
            continue
        t.need(len(names) <= 1025, f"a stack of {len(names)} frames")
        t.need("dive_thread" in names, f"no root end in a stack of {len(names)} frames")
