# SPDX-License-Identifier: Apache-2.0
"""Every command of the guides is run: the blocks marked `sh` in docs/, in a folder that has the
programs they speak of."""
import os
import pathlib
import re
import shutil

from harness import case, run_program
from watch import Watch

ROOT = pathlib.Path(__file__).resolve().parents[3]
VARIABLES = """BACKTRACE_CACHE_SIZE_LEVEL_ BASE_SERVER_PORT CHOWN_OUTPUT_TO
    CULL_TEMPORARY_ALLOCATIONS DISABLE_BY_DEFAULT DISABLE_PR_SET_VMA_ANON_NAME
    EMIT_PARTIAL_BACKTRACES ENABLE_BROADCAST ENABLE_SERVER GATHER_MAPS GRAB_BACKTRACES_ON_FREE
    INCLUDE_FILE LOG LOGFILE LOGFILE_ROTATE_WHEN_BIGGER_THAN OUTPUT REGISTER_SIGUSR1
    REGISTER_SIGUSR2 TEMPORARY_ALLOCATION_LIFETIME_THRESHOLD
    TEMPORARY_ALLOCATION_PENDING_THRESHOLD TRACK_CHILD_PROCESSES USE_PERF_EVENT_OPEN
    USE_SHADOW_STACK WRITE_BINARIES_TO_OUTPUT ZERO_MEMORY"""
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)


def put_app(t):
    shutil.copy(t.target("simple"), t.folder / "app")


def put_tide(t):
    """Some guides compare with another recording."""
    done = t.tool("run", "-q", "-o", "other.tide", t.target("simple"), "5")
    t.need(done.status == 5, f"tidemark run: {done.err}")


def put_nim(t):
    (t.folder / "app.nim").write_text("var words: seq[string]\nfor i in 1..1000: words.add($i)\n"
                                      "echo words.len\n")
    text = (ROOT / "docs/nim.md").read_text()
    config = re.search(r"```nim\n(.*?)```", text, re.S)[1]
    (t.folder / "config.nims").write_text(config.replace("/usr/share/tidemark/nim",
                                                         str(ROOT / "nim")))


def put_rust(t):
    (t.folder / "app.rs").write_text("fn main() { let v: Vec<String> = (0..1000).map(|i| "
                                     "i.to_string()).collect(); println!(\"{}\", v.len()); }\n")


def put_node(t):
    (t.folder / "app.js").write_text("function fill() { return Buffer.alloc(1000000); }\n"
                                     "const kept = []; for (let i = 0; i < 20; i++) "
                                     "kept.push(fill());\nconsole.log(kept.length);\n")


def guide(name, tools=(), prepare=(), status=(0,), sandbox=False):
    @case(f"guides/{name}", f"a command in docs/{name}.md does not work", seconds=120)
    def run(t):
        text = (ROOT / f"docs/{name}.md").read_text()
        for tool in tools:
            t.need_tool(tool)
        if sandbox and t.bare(["unshare", "--user", "--map-root-user", "--pid", "--fork",
                               "true"]).status:
            t.skip("namespaces are forbidden here")
        for one in prepare:
            one(t)
        env = t.environment({"PATH": f"{t.build}:{os.environ['PATH']}", "PAGER": "cat"})
        commands = [line for block in BLOCK.findall(text) for line in block.splitlines() if line]
        t.need(len(commands) > 1, "the guide has no commands")
        for command in commands:
            done = run_program(["/bin/sh", "-c", command], env, t.folder, t.seconds)
            t.expect(done.status in status, f"{command}\nended with {done.status}: "
                     f"{done.out[-200:]}{done.err[-300:]}")


def put_pools(t):
    for name in ("app", "old", "new"):
        done = t.tool("run", "-q", "-o", f"{name}.tide", t.target("pools"), "all")
        t.need(done.status == 0, f"tidemark run: {done.err}")


guide("api", prepare=[put_pools])
guide("from-heaptrack", prepare=[put_app, put_tide])
guide("from-memory-profiler", prepare=[put_app])
guide("nim", tools=["nim"], prepare=[put_nim])
guide("rust", tools=["rustc"], prepare=[put_rust])
guide("node", tools=["node"], prepare=[put_node])
guide("containers", tools=["unshare", "bwrap"], prepare=[put_app], sandbox=True)


@case("guides/attach", "a command in docs/attach.md does not work", seconds=120)
def attach(t):
    """In one shell, as they would be typed; the program they are about runs meanwhile."""
    commands = "".join(BLOCK.findall((ROOT / "docs/attach.md").read_text()))
    t.need(len(commands.splitlines()) > 3, "the guide has no commands")
    with Watch(t.start([t.target("contained"), "forever"]), t.seconds) as watch:
        watch.wait_for("ready\n")
        env = t.environment({"PATH": f"{t.build}:{os.environ['PATH']}", "PAGER": "cat",
                             "PID": str(watch.process.pid)})
        done = run_program(["/bin/sh", "-e", "-c", commands], env, t.folder, t.seconds)
        if "kernel does not let us" in done.err:
            t.skip("nobody may attach here")
        t.equal(f"status ({done.err[-300:]})", done.status, 0)
        t.expect(watch.process.poll() is None, "the program has ended")


@case("guides/memory_profiler_variables", "a variable of bytehound's has no word in its guide")
def memory_profiler_variables(t):
    text = (ROOT / "docs/from-memory-profiler.md").read_text()
    for name in VARIABLES.split():
        t.expect(f"MEMORY_PROFILER_{name}" in text, f"MEMORY_PROFILER_{name} is not in the guide")


@case("guides/heaptrack_options", "an option of heaptrack's has no word in its guide")
def heaptrack_options(t):
    """What heaptrack itself says it can do, where it is installed."""
    t.need_tool("heaptrack")
    text = (ROOT / "docs/from-heaptrack.md").read_text()
    for command in (["heaptrack", "--help"], ["heaptrack_print", "--help"]):
        if not shutil.which(command[0]):
            continue
        said = t.bare(command).out
        for option in set(re.findall(r"^ {1,4}(?:-\w[ ,]+(?:\[ +)?)?(--[a-z][a-z-]+)", said, re.M)):
            short = {"--help": "-h", "--version": "-v", "--print-peaks": "-p",
                     "--print-allocators": "-a", "--print-temporary": "-T",
                     "--print-leaks": "-l"}.get(option, option)
            t.expect(f"`{option}" in text or f"`{short}" in text or f" {option}" in text,
                     f"{command[0]} {option} is not in the guide")
