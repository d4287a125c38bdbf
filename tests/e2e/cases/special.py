# SPDX-License-Identifier: Apache-2.0
"""Programs that cannot be recorded, or only just: each gets a clear word."""
import os
import shutil
import stat

from harness import case, run_program


def refused(t, command, words, status=None, seen=None):
    """The tool says why, in one sentence that holds one of the words."""
    result = t.tool("run", "-o", t.trace, "--", *command)
    text = result.err.lower()
    t.expect(any(word in text for word in words), f"none of {words} in: {result.err!r}")
    t.expect(any(line.startswith("tidemark") for line in result.err.splitlines()),
             f"no message of ours: {result.err!r}")
    if status is not None:
        t.equal("exit status", result.shell_status(), status)
    if seen is not None:
        t.equal("output", result.out, seen)
    return result


@case("special/not_found", "a mistyped program name gives a riddle instead of a word")
def not_found(t):
    refused(t, ["/nonexistent/program"], ["not found", "no such"], 127)
    refused(t, ["surely-no-such-program"], ["not found", "no such"], 127)
    t.expect(not t.trace.exists(), "an empty trace is left behind")


@case("special/not_executable", "a file that is no program gives a riddle instead of a word")
def not_executable(t):
    path = t.folder / "text"
    path.write_text("hello\n")
    refused(t, [path], ["not executable", "permission"], 126)
    refused(t, [t.folder], ["not executable", "folder", "directory"], 126)


@case("special/static_stripped", "a static program without symbols seems to have no heap")
def static_stripped(t):
    path = t.folder / "stripped"
    t.need_tool("strip")
    t.equal("strip", run_program(["strip", "-o", path, t.target("simple_static")],
                                 t.environment(), t.folder, t.seconds).status, 0)
    refused(t, [path, "3"], ["has no symbols"], 125)
    t.expect(not t.trace.exists(), "an empty trace is left behind")


@case("special/32_bit", "a 32-bit program seems to have no heap")
def bits_32(t):
    refused(t, [t.target("simple_32"), "3"], ["32"])


@case("special/setuid", "a setuid program seems to have no heap")
def setuid(t):
    t.need_root()
    t.need_tool("setpriv")
    path = t.folder / "setuid"
    shutil.copy(t.target("simple"), path)
    os.chown(path, 1, 1)
    path.chmod(0o755 | stat.S_ISUID)
    t.folder.chmod(0o777)
    result = run_program(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                          t.tidemark, "run", "-o", t.trace, "--", path, "3"],
                         t.environment(), t.folder, t.seconds)
    t.expect("setuid" in result.err.lower() or "set-user-id" in result.err.lower(),
             f"setuid is not named: {result.err!r}")


@case("special/own_malloc", "a program with its own malloc seems to have no heap")
def own_malloc(t):
    recorded = t.record(["own_malloc"])
    t.equal("output", recorded.out, "own malloc\n")
    report = t.report()
    t.equal("allocations and frees", (report["allocations"], report["frees"]), (1000, 1000))
    t.equal("bytes", (report["allocated_bytes"], report["peak_bytes"]), (100000, 100))


@case("special/musl", "programs of musl systems cannot be recorded")
def musl(t):
    t.compare(["simple_musl", "3"])


@case("special/frame_pointers", "programs with frame pointers have wrong stacks")
def frame_pointers(t):
    t.compare(["simple_fp", "3"])


@case("special/asan", "a program built with AddressSanitizer does not start any more")
def asan(t):
    env = {"ASAN_OPTIONS": "detect_leaks=0"}
    bare = t.bare(["simple_asan", "3"], env)
    recorded = t.record(["simple_asan", "3"], env=env)
    t.same_behaviour(bare, recorded)
    t.functions_match(t.report(None, "--by", "function"), t.ledger())


@case("special/asan_child", "a program built with AddressSanitizer does not start from a recorded one")
def asan_child(t):
    env = {"ASAN_OPTIONS": "detect_leaks=0"}
    command = ["sh", "-c", f"{t.target('simple_asan')} 3; exit $?"]
    bare = t.bare(command, env)
    recorded = t.record(command, env=env)
    t.same_behaviour(bare, recorded)
    t.functions_match(t.report(None, "--by", "function"), t.ledger())


@case("special/asan_insists", "a program with AddressSanitizer and its own options does not start")
def asan_insists(t):
    """Its own __asan_default_options goes before the agent's: it runs, and we say why nothing is seen."""
    env = {"ASAN_OPTIONS": "detect_leaks=0"}
    bare = t.bare(["simple_asan_own", "3"], env)
    recorded = t.record(["simple_asan_own", "3"], env=env)
    t.same_behaviour(bare, recorded)
    t.expect("sanitizer" in recorded.err, f"not recorded, and no word why: {recorded.err!r}")


@case("special/version", "agent and tool of different versions misunderstand each other")
def version(t):
    told = t.tool("--version").out.split()
    own = next(word for word in told if word[:1].isdigit())
    other = own[:-1] + ("8" if own[-1] != "8" else "7")
    for name in ("tidemark", "libtidemark.so"):
        shutil.copy(t.build / name, t.folder / name)
    agent = t.folder / "libtidemark.so"
    t.need(own.encode() in agent.read_bytes(), "the agent does not carry the version")
    agent.write_bytes(agent.read_bytes().replace(own.encode(), other.encode()))
    def run(*options):
        result = run_program([t.folder / "tidemark", "run", *options, "-o", t.trace, "--",
                              t.target("simple"), "3"], t.environment(), t.folder, t.seconds)
        t.expect(own in result.err and other in result.err,
                 f"both versions must be named: {result.err!r}")
        return result
    refused = run()
    t.equal("exit status", refused.status, 125)
    t.equal("output of the program that must not run", refused.out, "")
    t.equal("traces", [path.name for path in t.folder.glob("*.tide")], [])
    unrecorded = run("--or-run")
    t.equal("exit status with --or-run", unrecorded.status, 3)
    t.equal("output with --or-run", unrecorded.out, "simple was here\n")
    t.expect("runs unrecorded" in unrecorded.err, unrecorded.err)


def runs_unrecorded(t, command, why):
    """It behaves as it does bare, one line says why nothing is recorded, and nothing else is said."""
    for quiet in ([], ["-q"]):
        words = [*command, *quiet, "--", t.target("simple"), "3"]
        result = run_program(words, t.environment(), t.folder, t.seconds)
        t.equal(f"{why}: exit status", result.status, 3)
        t.equal(f"{why}: output", result.out, "simple was here\n")
        lines = result.err.splitlines()
        t.expect(len(lines) == 1 and "runs unrecorded" in lines[0] and why in lines[0],
                 f"{why}: {result.err!r}")


@case("special/or_run", "--or-run does not run a program, or not a word says that it is not recorded")
def or_run(t):
    t.need_tool("prlimit")
    alone = t.folder / "tidemark"
    shutil.copy(t.tidemark, alone)
    for tool, before, options, why in (
            (alone, [], [], "libtidemark.so"),
            (t.tidemark, ["prlimit", "--nofile=4"], [], "unix socket"),
            (t.tidemark, ["prlimit", "--nofile=10"], [], "pipe"),
            (t.tidemark, [], ["-o", "/proc/nowhere/x.tide"], "/proc/nowhere")):
        runs_unrecorded(t, [*before, tool, "run", "--or-run", *options], why)
    t.equal("traces", [path.name for path in t.folder.glob("*.tide")], [])


@case("special/or_run_unrecordable", "--or-run does not say that a program cannot be recorded")
def or_run_unrecordable(t):
    program = t.folder / "stripped"
    stripped = run_program([t.need_tool("strip"), "-o", program, t.target("simple_static")],
                           t.environment(), t.folder, t.seconds)
    t.need(stripped.status == 0, stripped.err)
    refused = t.record([program, "3"])
    t.equal("status without it", refused.status, 125)
    t.expect("--or-run" in refused.err, refused.err)
    for options in ([], ["-q"], ["--dormant"]):
        result = t.record([program, "3"], options=["--or-run", *options])
        t.equal("exit status", result.status, 3)
        t.equal("output", result.out, "simple was here\n")
        t.expect(result.err.count("\n") == 1 and "runs unrecorded" in result.err and
                 "no symbols" in result.err and "--or-run" not in result.err, result.err)


@case("special/missing_agent", "a broken installation records nothing and does not say so")
def missing_agent(t):
    shutil.copy(t.tidemark, t.folder / "tidemark")
    result = run_program([t.folder / "tidemark", "run", "-o", t.trace, "--", t.target("simple"),
                          "3"], t.environment(), t.folder, t.seconds)
    t.expect("libtidemark.so" in result.err, f"the agent is not named: {result.err!r}")
    t.expect(result.status not in (0, 3), f"exit status {result.status}")


@case("special/unreadable_agent", "an agent that may not be read is said to be missing")
def unreadable_agent(t):
    t.need_root()
    t.need_tool("setpriv")
    for name in ("tidemark", "libtidemark.so"):
        shutil.copy(t.build / name, t.folder / name)
    (t.folder / "libtidemark.so").chmod(0)
    t.folder.chmod(0o777)
    result = run_program(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                          t.folder / "tidemark", "run", "--", t.target("simple"), "3"],
                         t.environment(), t.folder, t.seconds)
    t.equal("exit status", result.status, 125)
    t.expect("libtidemark.so' cannot be read: Permission denied" in result.err, result.err)


@case("special/no_proc", "without /proc the agent is said to be missing")
def no_proc(t):
    t.need_root()
    enter = [t.need_tool("unshare"), "-mp", "--fork", "sh", "-c", 'umount -l /proc && exec "$@"',
             "sh"]
    t.need_tool("umount")
    if run_program([*enter, "true"], t.environment(), t.folder, t.seconds).status:
        t.skip("a namespace of its own is not allowed")
    for options, status in (([], 125), (["--or-run"], 3)):
        result = run_program([*enter, t.tidemark, "run", *options, "--", t.target("simple"), "3"],
                             t.environment(), t.folder, t.seconds)
        t.equal("exit status", result.status, status)
        t.expect("/proc" in result.err and "libtidemark" not in result.err, result.err)


WASM = """
// A module whose load is out of bounds: node finds that by a guard page and SIGSEGV.
const bytes = Uint8Array.from([0,97,115,109,1,0,0,0, 1,6,1,96,1,127,1,127, 3,2,1,0, 5,3,1,0,1,
  7,5,1,1,102,0,0, 10,9,1,7,0,32,0,40,2,0,11]);
const f = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports.f;
let traps = 0;
for (let i = 0; i < 2000; i++) {
  try { f(i % 2 ? 0x7fffff00 : 16); } catch (e) { traps++; }
}
const kept = [];
for (let i = 0; i < 300; i++) kept.push(Buffer.alloc(20000 + i));
console.log(traps, kept.length, JSON.stringify({a: [1, 2, 3]}));
"""


@case("special/node", "node programs with WebAssembly crash or change their result", 120)
def node(t):
    tool = t.need_tool("node")
    (t.folder / "wasm.js").write_text(WASM)
    bare = t.bare([tool, "wasm.js"])
    t.need(bare.out.startswith("1000 300"), f"node itself: {bare.out!r} {bare.err[-300:]!r}")
    recorded = t.record([tool, "wasm.js"])
    t.same_behaviour(bare, recorded)
    report = t.report()
    t.nothing_lost(report)
    t.expect(report["allocations"] > 1000, f"only {report['allocations']} allocations")


@case("special/python", "python programs crash or change their result", 120)
def python(t):
    text = "import json,threading\n" \
           "def f():\n  return len(json.dumps([{str(i): [i] * 3} for i in range(3000)]))\n" \
           "a=[threading.Thread(target=f) for _ in range(4)]\n" \
           "[x.start() for x in a]; [x.join() for x in a]; print(f())\n"
    import sys
    env = {"PYTHONMALLOC": "malloc"}
    command = [os.path.realpath(sys.executable), "-c", text]
    t.same_behaviour(t.bare(command, env), t.record(command, env=env))
    report = t.report()
    t.nothing_lost(report)
    t.expect(report["allocations"] > 50000, f"only {report['allocations']} allocations")
