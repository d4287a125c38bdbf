# SPDX-License-Identifier: Apache-2.0
"""Allocators that no preloaded library stands in front of: in static programs, linked into the
program, under other names, and of the program's own."""
import pathlib

from harness import case, run_program
from watch import Watch

HOOKS = ("alloc=region_get(size=1) alloc=region_many(count=1,size=2) "
         "realloc=region_grow(ptr=1,size=2) alloc=region_out(out=1,size=2) free=region_put(ptr=1)")
KINDS = {"static": "a static program", "static_pie": "a static position-independent program",
         "static_musl": "a static program of musl"}
LIBC = ["malloc", "calloc", "realloc", "realloc_zero", "posix_memalign", "aligned_alloc",
        "memalign", "errno"]
PIE_LIBC, PIE_NEW = ["malloc", "realloc", "posix_memalign"], ["new", "bad_alloc"]
NEW = ["new", "new_array", "new_nothrow", "new_aligned", "new_expression", "bad_alloc"]
THREADS = ["race", "cross"]
MAP = ["mmap", "mremap", "mprotect", "madvise", "brk"]


def add(name, loses, command, **how):
    def run(t):
        t.target(command[0])  # or skip
        t.compare(command, alone=False, **how)
    case(name, loses)(run)


for kind, words in KINDS.items():
    musl = kind == "static_musl"
    # musl's own code has no unwind table: a stack that ends there ends early.
    for mode in PIE_LIBC if kind == "static_pie" else LIBC:
        if musl and mode == "realloc_zero":
            continue  # its own count is of what glibc does there
        add(f"allocators/{kind}_{mode}", f"{words} that uses {mode} is counted wrongly",
            [f"api_libc_{kind}", mode], whole=not musl)
    if not musl:
        for mode in PIE_NEW if kind == "static_pie" else NEW:
            add(f"allocators/{kind}_{mode}", f"{words} in C++ that uses {mode} is counted wrongly",
                [f"api_new_{kind}", mode])
    # musl's brk always fails.
    for mode in {"static": MAP, "static_pie": MAP[:1], "static_musl": MAP[:-1]}[kind]:
        add(f"allocators/{kind}_map_{mode}", f"{words} that uses {mode} is counted wrongly",
            [f"api_map_{kind}", mode], whole=False)
    for mode in THREADS:
        add(f"allocators/{kind}_threads_{mode}", f"{words} with threads is counted wrongly",
            [f"threads_{kind}", mode], whole=False, stacks=False)


for library in ("jemalloc", "tcmalloc", "mimalloc"):
    for kind, words in (("", "linked into"), ("_static", "in a static")):
        add(f"allocators/{library}_in{kind}", f"{library} {words} program is missed or counted twice",
            [f"api_{library}_in{kind}"], whole=False)
for library in ("jemalloc", "tcmalloc"):
    for mode in NEW:
        add(f"allocators/{library}_in_{mode}", f"C++ programs with {library} linked in are counted wrongly",
            [f"api_new_{library}_in", mode], whole=False)


for prefix in ("je_", "_rjem_", "odd_"):
    for kind in ("", "_static"):
        def prefixed(t, prefix=prefix, kind=kind):
            t.compare([f"api_prefixed_{prefix}{kind}"], alone=not kind, whole=False)
            t.expect("jemalloc" in t.tool("report", t.trace, "--group", "heap").out,
                     "the allocator is not named")
        case(f"allocators/prefixed_{prefix}{kind}",
             f"jemalloc linked under the prefix {prefix} is not seen")(prefixed)


for kind in ("", "_static", "_static_pie", "_static_musl"):
    def custom(t, kind=kind):
        report, _ = t.compare([f"custom{kind}"], ["--hook", HOOKS + " name=region"], alone=False,
                              whole=False)
        text = t.tool("report", t.trace, "--group", "heap").out
        t.expect("region" in text, f"the allocator is not named: {text!r}")
        t.equal("note", report["note"] or "", "")
    case(f"allocators/custom{kind}", "an allocator of the program's own cannot be recorded")(custom)


@case("allocators/hook_wrong", "a mistake in --hook gives a riddle, or an empty trace")
def hook_wrong(t):
    for hook, words in (("alloc=f(size=7)", "character 14"), ("alloc", "'='"), ("", "alloc="),
                        ("alloc=f(bytes=1)", "size, count"), ("free=f", "allocates")):
        result = t.tool("run", "-o", t.trace, "--hook", hook, t.target("simple"))
        t.expect("--hook" in result.err and words in result.err, f"{hook!r}: {result.err!r}")
        t.equal("exit status", result.status, 2)
        t.expect(not t.trace.exists(), "a trace is left behind")


@case("allocators/hook_unfit", "a function that cannot be hooked takes the rest with it")
def hook_unfit(t):
    """Data, no such function, another's name: the rest is recorded, the trace says what is not."""
    hooks = HOOKS + " alloc=region_data alloc=region_missing"
    for kind in ("", "_static"):
        _, recorded = t.compare([f"custom{kind}"], ["-f", "--hook", hooks], alone=False,
                                whole=False)
        shown = t.tool("info", t.trace).out
        for words in ("region_data (it is data", "region_missing (there is no function"):
            t.expect(words in recorded.err, f"not in the end lines: {words}: {recorded.err!r}")
            t.expect(words in shown, f"not in the trace: {words}: {shown!r}")


@case("allocators/dormant", "a static program started to be woken later never wakes")
def dormant(t):
    result = t.tool("run", "--dormant", t.target("simple_static"), "3")
    t.equal("exit status", result.status, 125)
    t.expect("tidemark attach" in result.err, f"no help: {result.err!r}")


def started(t, starter, how, program, *arguments):
    """The report of a static program that another one starts, by a trace of its own."""
    for path in t.folder.glob("*.tide"):
        path.unlink()
    result = t.record([starter, how, program, *arguments], ["--children"],
                      {"PATH": f"{t.targets}:/usr/bin:/bin"})
    t.equal(f"{starter} {how}: exit status", result.status, int(arguments[0]))
    reports = [t.report(path, "--by", "function") for path in sorted(t.folder.glob("*.tide"))]
    found = [report for report in reports if report["program"].endswith("simple_static")]
    t.need(len(found) == 1, f"{starter} {how}: recorded: {[r['program'] for r in reports]}: "
                            f"{result.err[-600:]!r}")
    t.functions_match(found[0], t.ledger())
    t.equal(f"{starter} {how}: note", found[0]["note"] or "", "")


for starter, ways in (("starter", ["exec", "execvp", "fexecve", "fork", "vfork", "spawn", "spawnp",
                                   "thread", "execfail", "badenv"]),
                      ("starter_static", ["exec", "fork", "vfork", "spawn", "badenv"]),
                      ("starter_static_pie", ["exec"]),
                      ("starter_static_musl", ["execvp", "vfork", "spawn"])):
    def starts(t, starter=starter, ways=ways):
        t.target(starter)
        for how in ways:
            program = "simple_static" if how in ("execvp", "spawnp") else t.target("simple_static")
            started(t, starter, how, program, "7")
    case(f"allocators/started_by_{starter}", "a static program that another one starts is missed",
         seconds=180)(starts)


@case("allocators/started_alone", "a program is killed or spoken of because of how it starts another")
def started_alone(t):
    """Not recorded, and as without us: under a filter that kills, and without an environment."""
    for starter in ("starter", "starter_static", "starter_static_musl"):
        for how in ("filter", "noenv"):
            command = [starter, how, t.target("simple_static"), "7"]
            t.equal(f"{command[:2]}: bare", t.bare(command).status, 7)
            result = t.record(command, ["--children", "-f"])
            t.equal(f"{command[:2]}: exit status", result.status, 7)
            t.expect("Not recorded" not in result.err, f"{command[:2]}: {result.err!r}")


@case("allocators/started_loader", "the loader, called by its name, is taken for a static program")
def started_loader(t):
    """As ldd does it: the program is recorded by its loader, and nothing is missed."""
    loaders = [path for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1")
               if pathlib.Path(path).exists()]
    for loader in loaders:
        result = t.record(["sh", "-c", f"{loader} --list {t.target('simple')} >/dev/null; exit 3"],
                          ["-f"])
        t.equal(f"{loader}: exit status", result.status, 3)
        for text in (result.err, t.tool("info", t.trace).out):
            t.expect("Not recorded" not in text, f"{loader}: {text!r}")


@case("allocators/by_loader", "a program that is started through its loader is refused")
def by_loader(t):
    """By the loader's path, alone and behind another program, with nothing to be said about it."""
    pairs = (("/lib64/ld-linux-x86-64.so.2", "simple"), ("/lib/ld-musl-x86_64.so.1", "simple_musl"))
    for loader, program in pairs:
        if not pathlib.Path(loader).exists() or not t.target(program).exists():
            continue
        for before in ([], ["/usr/bin/env"]):
            command = [*before, loader, t.target(program), "3"]
            bare, result = t.bare(command), t.record(command, ["-f"])
            t.same_behaviour(bare, result)
            report = t.report(None, "--by", "function")
            t.functions_match(report, t.ledger())
            t.equal(f"{command}: note", report["note"] or "", "")


@case("allocators/started_by_shell", "a static program is missed when a shell or a script starts it")
def started_by_shell(t):
    """One trace, of the program: what started it is not kept."""
    program = t.target("simple_static")
    script = t.folder / "script"
    script.write_text(f"#!/bin/sh\n{program} 3\nexit 4\n")
    script.chmod(0o755)
    for command, status in ((["sh", "-c", f"{program} 3"], 3), ([script], 4),
                            (["sh", "-c", f"{program} 3; exit 5"], 5), (["env", program, "3"], 3)):
        result = t.record(command, ["-f"])
        t.equal(f"{command}: exit status", result.status, status)
        report = t.report(None, "--by", "function")
        t.equal(f"{command}: program", report["program"], str(program))
        t.functions_match(report, t.ledger())
        t.equal("traces", len(list(t.folder.glob("*.tide*"))), 1)


@case("allocators/started_stripped", "a static program that cannot be recorded is passed over in silence")
def started_stripped(t):
    """It runs as ever; the end lines and the trace of who started it name it, and say why."""
    stripped = t.folder / "stripped"
    run_program([t.need_tool("strip"), "-o", stripped, t.target("simple_static")], None, t.folder,
                t.seconds)
    for end in ("", "; exit 3"):
        result = t.record(["sh", "-c", f"{stripped} 3{end}"], ["-f"])
        t.equal("exit status", result.status, 3)
        for text in (result.err, t.tool("info", t.trace).out):
            t.expect("Not recorded: " in text and "has no symbols" in text, f"no word: {text!r}")


@case("allocators/started_stripped_pieces", "that a static program was missed is lost in a later file")
def started_stripped_pieces(t):
    """The last piece says it, and one that was told to stop; together with what else is said."""
    stripped = t.folder / "stripped"
    run_program([t.need_tool("strip"), "-o", stripped, t.target("simple_static")], None, t.folder,
                t.seconds)
    program = ["sh", "-c", f"{stripped} 3; echo $$; read line; exit 4"]
    for commands in (["rotate"], ["rotate", "stop"], ["stop"]):
        for path in t.folder.glob("a*.tide"):
            path.unlink()
        run = [t.tidemark, "run", "-o", t.folder / "a.tide", "--", *program]
        with Watch(t.start(run), t.seconds) as watch:
            watch.wait_for("here\n")
            pid = watch.read_until("\n").strip()
            for command in commands:
                result = t.tool("ctl", pid, command)
                t.equal(f"{commands}: {command}", result.status, 0)
            watch.send(b"\n")
            t.equal(f"{commands}: exit status", watch.ended(), 4)
        pieces = sorted(t.folder.glob("a*.tide"), key=lambda path: path.stat().st_mtime_ns)
        t.equal(f"{commands}: files", len(pieces), 1 + commands.count("rotate"))
        told = [path.name for path in pieces if "has no symbols" in t.tool("info", path).out]
        t.equal(f"{commands}: files that say it", len(told), 1)
        t.expect("stop" not in commands or
                 any("stopped by" in t.tool("info", t.folder / name).out for name in told),
                 f"{commands}: why it ends is not said")


@case("allocators/no_ptrace", "without the right to trace a linked-in allocator is lost")
def no_ptrace(t):
    """The agent patches by itself; a static program is refused with a word that helps."""
    t.need_tool("strace")
    command = t.command(["api_prefixed__rjem_"])
    denied = ["strace", "-qq", "-f", "-e", "trace=ptrace", "-e",
              "inject=ptrace:error=EPERM", "-o", "/dev/null"]
    result = run_program([*denied, t.tidemark, "run", "-o", t.trace, "--", *command],
                         t.environment(), t.folder, t.seconds)
    t.equal("exit status", result.status, 0)
    ledger = t.ledger()
    t.figures_match(t.report(None, "--by", "function"), ledger)
    result = run_program([*denied, t.tidemark, "run", "-f", "-o", t.trace, "--",
                          t.target("simple_static"), "3"],
                         t.environment(), t.folder, t.seconds)
    t.equal("exit status", result.status, 125)
    t.expect("ptrace" in result.err and "--or-run" in result.err, f"no help: {result.err!r}")
    result = run_program([*denied, t.tidemark, "run", "--or-run", "-f", "-o", t.trace, "--",
                          t.target("simple_static"), "3"],
                         t.environment(), t.folder, t.seconds)
    t.equal("exit status with --or-run", result.status, 3)
    result = run_program([*denied, t.tidemark, "run", "-f", "-o", t.trace, "--", "sh", "-c",
                          f"{t.target('simple_static')} 3; exit 4"],
                         t.environment(), t.folder, t.seconds)
    t.equal("exit status of the shell", result.status, 4)
    for text in (result.err, t.tool("info", t.trace).out):
        t.expect("Not recorded: " in text and "SYS_PTRACE" in text, f"no word: {text!r}")
