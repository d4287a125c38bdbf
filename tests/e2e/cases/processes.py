# SPDX-License-Identifier: Apache-2.0
"""fork, vfork, spawn, exec, every way to end, and programs that lock themselves in."""
import os
import pathlib
import re


import resource
import shutil
import subprocess

from harness import case, run_program
from watch import Watch

ENDS = ["exit", "_exit", "quick_exit", "abort", "segv", "term", "kill", "thread_exit"]


@case("process/fork_threads", "a program that forks while threads run hangs (heaptrack does)")
def fork_threads(t):
    t.compare(["process", "fork_threads"])


@case("process/fork", "a forking parent's own figures are wrong")
def fork_plain(t):
    report, _ = t.compare(["process", "fork_plain"])
    t.equal("children_not_recorded", report["children_not_recorded"], 3)


@case("process/children", "--children misses descendants or mixes them up")
def children(t):
    t.record(["process", "fork_plain"], options=["--children"])
    traces = sorted(t.folder.glob("*.tide"))
    t.need(len(traces) == 4, f"4 processes left these traces: {[p.name for p in traces]}")
    wanted = sorted((t.ledger(f".child{i}") for i in range(3)),
                    key=lambda ledger: ledger["allocations"])
    made = []
    for path in traces:
        report = t.report(path, "--by", "function")
        rows = {row["function"]: row["self"] for row in report["functions"]}
        made.append((rows.get("child_malloc", {}).get("allocations", 0), report))
    made.sort(key=lambda one: one[0])
    t.equal("child_malloc() per trace", [count for count, _ in made], [0, 200, 400, 600])
    for status, (_, report) in enumerate(made[1:]):
        t.equal(f"exit status of child {status}", report["exit_status"], status)
        rows = {row["function"]: row["self"] for row in report["functions"]}
        child = [row for row in wanted[status]["functions"] if row["function"] == "child_malloc"][0]
        for key in ("unfreed_allocations", "unfreed_bytes", "allocated_bytes", "frees"):
            t.equal(f"child {status}: {key}", rows["child_malloc"][key], child[key])
        # What the parent had made before the fork is the child's too.
        t.equal(f"child {status}: inherited blocks",
                rows.get("parent_malloc", {}).get("unfreed_allocations"), 100 + 10 * status)
        t.expect(report["inherited_allocations"] >= 100 + 10 * status,
                 f"child {status} says that it inherited {report['inherited_allocations']}")
    t.equal("the parent inherits nothing", made[0][1]["inherited_allocations"], 0)


@case("process/children_vfork", "a child of vfork takes the recording of the child that it borrows from")
def children_vfork(t):
    t.compare(["process", "fork_vfork"], ["--children"])
    found = {}
    for path in t.folder.glob("*.tide"):
        for row in t.report(path, "--by", "function")["functions"]:
            found[row["function"]] = found.get(row["function"], 0) + row["self"]["allocations"]
    t.equal("child_malloc()", found.get("child_malloc"), 200)


def many_children(t, count):
    """A shell with `count` programs, under a limit of open files that we must raise for
    ourselves, and not for them."""
    rounds, each = count // 20, 20
    text = (f"ulimit -Sn\nfor i in $(seq {rounds}); do for k in $(seq {each}); do "
            f"{t.target('simple')} > /dev/null; done; echo round; read go; done\n")

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 256))

    command = [t.tidemark, "run", "-q", "--children", "--", "/bin/sh", "-c", text]
    most = {"fd": 0, "task": 0}
    with Watch(t.start(command, {"LEDGER": ""}, preexec_fn=limit), t.seconds) as watch:
        soft = watch.read_until("\n")
        for _ in range(rounds):
            watch.wait_for("round\n")
            for what in most:
                now = len(os.listdir(f"/proc/{watch.process.pid}/{what}"))
                most[what] = max(most[what], now)
            watch.send(b"\n")
        t.equal("exit status", watch.ended(), 0)
    t.equal("open files that the program may have", soft, "100")
    return most


@case("process/many_children", "--children of a build runs out of memory and descriptors", 240)
def many(t):
    count = 400 if t.long else 200
    most = many_children(t, count)
    # Each that lives, and a few whose files are being finished, has about five.
    t.expect(most["fd"] <= 128, f"{most['fd']} descriptors after {count} children, one at a time")
    t.expect(most["task"] <= 100, f"{most['task']} threads after {count} children")
    traces = sorted(t.folder.glob("*.tide"))
    t.equal("empty traces", [path.name for path in traces if not path.stat().st_size], [])
    simple = [path for path in traces if path.name.startswith("tidemark.simple.")]
    t.equal("traces", len(simple), count)
    for path in simple:
        report = t.report(path)
        t.nothing_lost(report)
        t.equal(f"{path.name}: allocations", report["allocations"], 200)
        t.equal(f"{path.name}: how it ended", (report["end"], report["exit_status"]),
                ("exit", 0))


@case("process/no_memory", "a child that cannot be recorded leaves an empty trace behind")
def no_memory(t):
    text = f"echo ready; read go; {t.target('simple')}; exit 5\n"
    command = [t.tidemark, "run", "--children", "--", "/bin/sh", "-c", text]
    with Watch(t.start(command, {"LEDGER": ""}, stderr=subprocess.STDOUT), t.seconds) as watch:
        watch.wait_for("ready\n")
        tool = watch.process.pid
        # Its shared memory is a file, too: from here on there is no room for one.
        resource.prlimit(tool, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        watch.send(b"\n")
        watch.wait_for("simple was here\n")
        watch.wait_for("file size limit")
        t.equal("exit status", watch.ended(), 5)
    t.equal("traces", [t.report(path)["program"].split("/")[-1] for path in
                       t.folder.glob("*.tide*")], [os.path.basename(os.path.realpath("/bin/sh"))])


@case("process/vfork", "blocks made in a vfork child are lost, or the parent breaks")
def vfork(t):
    report, _ = t.compare(["process", "vfork"])
    t.equal("children_not_recorded", report["children_not_recorded"], 100)


@case("process/spawn", "posix_spawn fails or mixes the child's figures in")
def spawn(t):
    report, _ = t.compare([str(t.target("process")), "spawn"])
    t.equal("children_not_recorded", report["children_not_recorded"], 10)


@case("process/commands", "children of system() and popen() are missing, and nothing says so")
def commands(t):
    advice = "'tidemark run --children'"
    for options, wanted in ((["-f"], 7), (["-f", "-c"], 0)):
        t.equal("exit status", t.record(["process", "commands"], options).status, 0)
        t.equal(f"{options}: children_not_recorded", t.report()["children_not_recorded"], wanted)
        t.equal(f"{options}: advice", advice in t.tool("report", t.trace).out, wanted > 0)


@case("process/children_missed", "who asked for children is told to ask for them")
def children_missed(t):
    """A child that executes nothing that can be recorded; and the recording of the image before."""
    t.record(["/bin/sh", "-c", "/bin/true; exec " + " ".join(map(str, [
        t.target("starter"), "vfork", t.target("simple_32"), "3"]))], ["-c"], {"LEDGER": ""})
    found = [path for path in t.folder.glob("*.tide")
             if t.report(path)["program"] == str(t.target("starter"))]
    t.need(len(found) == 1, f"{len(found)} traces of the program")
    t.equal("children_not_recorded", t.report(found[0])["children_not_recorded"], 1)
    text = t.tool("report", found[0]).out
    t.expect("1 child process was not recorded" in text and "--children" not in text, text)


@case("process/exec", "after exec the trace ends or shows the wrong image")
def exec_chain(t):
    report, _ = t.compare([str(t.target("process")), "exec", "8"])
    t.equal("section_count", report["section_count"], 9)
    everything = t.report(None, "--image", "all")["sections"]
    for number, section in enumerate(everything):
        wanted = 2 * 100 * (9 - number)
        t.equal(f"allocations of image {number}", section["allocations"], wanted)
        t.equal(f"end of image {number}", section["end"], "exec" if number < 8 else "exit")


@case("process/exec_fail", "an exec that fails ends the recording")
def exec_fail(t):
    t.compare(["process", "exec_fail"])


@case("process/daemon", "a program that turns into a daemon hangs, or tidemark waits for ever")
def daemon(t):
    recorded = t.record(["process", "daemon"])
    t.equal("exit status", recorded.status, 0)
    ledger = t.ledger()
    t.equal("child_malloc() in the daemon's own count",
            {row["function"]: row["allocations"] for row in ledger["functions"]}["child_malloc"],
            4000)
    rows = {row["function"]: row["self"]["allocations"]
            for row in t.report(None, "--by", "function")["functions"]}
    t.equal("parent_malloc()", rows.get("parent_malloc"), 200)


def memory_group(t):
    """A control group of 96 MiB for this case, or a skip. Gives the file that takes pids."""
    t.need_root()
    name = f"tidemark-e2e-{t.folder.name}"
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                        ("/sys/fs/cgroup", "memory.max")):
        group = pathlib.Path(root) / name
        try:
            group.mkdir()
            (group / limit).write_text(str(96 << 20))
            return group
        except OSError:
            if group.exists():
                group.rmdir()
    t.skip("no memory control group can be made here")


@case("process/oom", "after an out-of-memory kill the trace that would explain it is lost")
def out_of_memory(t):
    group = memory_group(t)
    try:
        text = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        result = t.record(["/bin/sh", "-c", text, "sh", t.target("process"), "grow"])
        t.equal("exit status", result.shell_status(), 137)
        report = t.report(None, "--by", "function")
        t.equal("end", report["end"], "oom")
        t.expect(report["allocations"] > 20, f"{report['allocations']} allocations")
        t.equal("lost_events", report["lost_events"], 0)
    finally:
        group.rmdir()


def add_end(how):
    @case(f"process/end_{how}", f"events before {how} are lost, or the exit status changes")
    def end(t):
        report, recorded = t.compare(["process", "end", how])
        t.equal("exit_status", report["exit_status"], recorded.shell_status())
        died = how in ("abort", "segv", "term", "kill")
        t.equal("end", report["end"],
                "killed" if how == "kill" else "signal" if died else "exit")


for how in ENDS:
    add_end(how)


def add_jail(mode, loses, arguments=(), root=False):
    @case(f"jail/{mode}", loses)
    def jail(t):
        if root:
            t.need_root()
        extra = [t.folder / "empty"] if mode == "chroot" else arguments
        (t.folder / "empty").mkdir(mode=0o755)
        t.compare(["jail", mode, *extra])


add_jail("close_fds", "a program that closes all descriptors is no longer recorded, or breaks us")
add_jail("descriptors", "the program sees other descriptor numbers than without us")
add_jail("chroot", "a program that changes its root is no longer recorded", root=True)
add_jail("drop", "a program that gives up its rights is no longer recorded", root=True)
add_jail("limit_as", "a program near its address space limit crashes")
add_jail("limits", "a program that lowers its limits crashes or is no longer recorded")
add_jail("no_tsc", "a program that forbids reading the time-stamp counter crashes")
add_jail("no_tsc_fork", "the children of such a program crash")
add_jail("mask", "a program that blocks all signals is no longer recorded")


@case("jail/no_tsc_children", "the children of a program without a time-stamp counter crash when recorded")
def no_tsc_children(t):
    t.compare(["jail", "no_tsc_fork"], ["--children"])
    reports = [t.report(path, "--by", "function") for path in t.folder.glob("*.tide")]
    calls = sorted(row["self"]["allocations"] for report in reports for row in report["functions"]
                   if row["function"] == "after_malloc")
    inherited = 5000 // 100
    t.equal("after_malloc() in the children", calls[:2], [1000 + inherited] * 2)
    for report in reports:
        t.equal("lost_events", report["lost_events"], 0)
        t.expect(report["duration_ns"] < 60 * 10**9, f"a time out of the air: {report['duration_ns']}")


def add_seccomp(how):
    @case(f"jail/seccomp_{how}", "a program in a seccomp sandbox is killed by our system calls")
    def seccomp(t):
        rounds = 1000000 if t.long else 300000
        command = ["jail", f"seccomp_{how}", str(rounds)]
        bare, recorded = t.bare(command), t.record(command)
        t.same_behaviour(bare, recorded)
        t.need(t.trace.exists(), f"no trace: {recorded.err[-400:]}")
        report, ledger = t.report(None, "--by", "function"), t.ledger()
        # Where the agent may not wait it may drop, but what it drops it counts.
        if report["lost_events"] == 0:
            t.figures_match(report, ledger)
        else:
            t.equal("events + lost events", report["events"] + report["lost_events"],
                    ledger["allocations"] + ledger["frees"])


for how in ["list", "few", "strict", "errno"]:
    add_seccomp(how)


def need_to_lock(t, mode):
    bare = t.bare(["locked", mode])
    if bare.status == 77:
        t.skip("mlockall is not allowed here")
    return bare


@case("jail/mlockall", "a program that locks its memory locks that of the recording, too")
def mlockall(t):
    """The agent's code and its private memory count, the shared memory of 75 MiB does not."""
    bare = need_to_lock(t, "once")
    recorded = t.record(["locked", "once"])
    t.equal("exit status", recorded.status, bare.status)
    more = int(recorded.out.split()[1]) - int(bare.out.split()[1])
    t.expect(0 <= more < 16 << 10, f"locked in addition: {more} KiB")
    report = t.report(None, "--by", "function")
    t.nothing_lost(report)
    t.figures_match(report, t.ledger())


@case("jail/mlockall_threads", "threads lose stacks, or crash, while another one locks the memory")
def mlockall_threads(t):
    need_to_lock(t, "threads")
    t.compare(["locked", "threads"], stacks=False)


def add_refused(calls, binding):
    @case(f"jail/refused_{calls}_{binding}",
          "a container's filter that answers EPERM to some of our calls crashes the program")
    def refused(t):
        """Where no call tells what a page was, only the program's own line must be right."""
        program, refuse = t.target(f"slots_{binding}"), [t.target("refuse"), calls]
        bare = t.bare([*refuse, program])
        if bare.status == 77:
            t.skip("no filter may be installed here")
        recorded = t.bare([*refuse, t.tidemark, "run", "-o", t.trace, "--", program])
        t.equal("exit status", recorded.status, bare.status)
        first = -1 if (calls, binding) == ("all", "now") else 0
        t.equal("output", recorded.out.splitlines()[first:], bare.out.splitlines()[first:])
        t.expect("block 70 3" in bare.out and len(bare.out.splitlines()) > 3, bare.out)
        t.expect(t.report()["allocations"] >= 1, "mi_malloc() was not seen")


for calls in ("vm", "all"):
    for binding in ("lazy", "now"):
        add_refused(calls, binding)


@case("jail/tsync", "a thread that waits for the recorder is killed by a filter that another installs",
      20)
def seccomp_while_waiting(t):
    recorded = t.record(["jail", "tsync"])
    t.equal("exit status", recorded.shell_status(), 7)
    t.expect("still here" in recorded.out, f"it said: {recorded.out[-200:]!r}")
    report, ledger = t.report(None, "--by", "function"), t.ledger()
    more = report["events"] + report["lost_events"] - ledger["allocations"] - ledger["frees"]
    t.expect(0 <= more < 10, f"{more} events are not the program's own, nor those of one thread")


def script(t, text):
    path = pathlib.Path(t.folder / "script")
    path.write_text(text)
    path.chmod(0o755)
    return path


@case("starter/odd_name", "a program whose name has blanks, quotes or newlines breaks us")
def odd_name(t):
    path = t.folder / "we ird\n'n\u00e4me\" %p $(x).tide"
    shutil.copy(t.target("simple"), path)
    command = [path, "3", "a\nb", "\u00e4 'q' \\"]
    t.same_behaviour(t.bare(command), t.record(command))
    report = t.report(None, "--by", "function", "--stacks")
    t.equal("program", report["program"], str(path))
    t.figures_match(report, t.ledger())


@case("starter/network_namespace", "a program in its own network namespace is silently unrecorded")
def network_namespace(t):
    t.need_root()
    tool = t.need_tool("unshare")
    command = [tool, "-n", t.target("simple"), "3"]
    bare, recorded = t.bare(command), t.record(command)
    t.same_behaviour(bare, recorded)
    programs = [t.report(path)["program"] for path in t.folder.glob("*.tide*")]
    said = " ".join(recorded.our_lines()).lower()
    t.expect(str(t.target("simple")) in programs or
             ("not recorded" in said and "network namespace" in said and "static" not in said),
             f"traces of {programs}, and no true word: {recorded.err!r}")


def add_starter(name, make):
    @case(f"starter/{name}", f"a program started through {name} is not the one that is recorded")
    def starter(t):
        command = make(t)
        bare, recorded = t.bare(command), t.record(command)
        t.same_behaviour(bare, recorded)
        found = []
        for path in t.folder.glob("*.tide*"):
            report = t.report(path, "--by", "function", "--stacks")
            if report["program"] == str(t.target("simple")):
                found.append(report)
        t.need(len(found) == 1, f"{len(found)} traces of the program itself "
               f"({[p.name for p in t.folder.glob('*.tide*')]}); {recorded.err[-600:]}")
        t.figures_match(found[0], t.ledger())
        # Not our own child: its status may be unknown, but never wrong.
        t.expect(found[0]["exit_status"] in (3, None), f"exit_status {found[0]['exit_status']}")


add_starter("shebang", lambda t: [script(t, f"#!/bin/sh\n{t.target('simple')} 3\nexit $?\n")])
add_starter("shebang_bash",
            lambda t: [script(t, f"#!/bin/bash\n:\n{t.target('simple')} 3\nexit $?\n")])
add_starter("shebang_exec",
            lambda t: [script(t, f"#!/bin/sh\nexec {t.target('simple')} 3\n")])
add_starter("env", lambda t: ["/usr/bin/env", "A=b", t.target("simple"), "3"])
add_starter("timeout", lambda t: ["/usr/bin/timeout", "50", t.target("simple"), "3"])
add_starter("sh_c", lambda t: ["/bin/sh", "-c", f"{t.target('simple')} 3; exit $?"])
add_starter("preload_replaced", lambda t: [script(
    t, f"#!/bin/sh\nexport LD_PRELOAD={t.target('plug_a.so')}\n{t.target('simple')} 3\nexit $?\n")])
add_starter("preload_replaced_exec", lambda t: [script(
    t, f"#!/bin/sh\nexport LD_PRELOAD={t.target('plug_a.so')}\nexec {t.target('simple')} 3\n")])
add_starter("preload_empty",
            lambda t: ["/bin/sh", "-c", f"LD_PRELOAD= {t.target('simple')} 3; exit $?"])
add_starter("preload_unset",
            lambda t: ["/bin/sh", "-c", f"unset LD_PRELOAD; {t.target('simple')} 3; exit $?"])
add_starter("session_unset",
            lambda t: ["/usr/bin/env", "-u", "TIDEMARK_SESSION", t.target("simple"), "3"])
add_starter("empty_environment", lambda t: ["/usr/bin/env", "-i", f"LEDGER={t.ledger_path}",
                                            t.target("simple"), "3"])


@case("starter/environment", "a program gets more, or less, in its environment than was given to it")
def environment(t):
    """Beyond LD_PRELOAD and TIDEMARK_SESSION nothing is put back, and the order stays."""
    other = t.target("plug_a.so")
    for given, wanted in ((["-i", "A=b", f"LD_PRELOAD={other}", "C=d"],
                           ["A=b", f"LD_PRELOAD=.*/libtidemark.so:{other}", "C=d",
                            "TIDEMARK_SESSION=.+"]),
                          (["-i"], ["LD_PRELOAD=.*/libtidemark.so", "TIDEMARK_SESSION=.+"])):
        result = t.record(["/usr/bin/env", *given, "/usr/bin/env"], ["-f"])
        seen = result.out.splitlines()
        t.expect(len(seen) == len(wanted) and
                 all(re.fullmatch(want, line) for want, line in zip(wanted, seen)),
                 f"{given}: {seen}")


@case("starter/left_out", "a program that a script leaves out of the recording is recorded all the same")
def left_out(t):
    """An empty TIDEMARK_SESSION is the way to say so."""
    recorded = t.record(["/bin/sh", "-c", f"TIDEMARK_SESSION= {t.target('simple')} 3; exit $?"])
    t.equal("exit status", recorded.status, 3)
    names = [t.report(path)["program"] for path in t.folder.glob("*.tide*")]
    t.expect(str(t.target("simple")) not in names, f"traces of {names}")


@case("starter/cleared", "a program that is executed with another environment is not recorded")
def cleared(t):
    """By exec and by a child of Python's, which is vfork's."""
    python = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:], env={}).returncode)"
    program = t.target("simple")
    for command, options in ((["starter", "noenv", program, "3"], ["-f"]),
                             (["python3", "-c", python, program, "3"], ["-f", "-c"])):
        for path in t.folder.glob("*.tide"):
            path.unlink()
        recorded = t.record(command, options, output=False)
        t.equal(f"{command}: exit status", recorded.status, 3)
        names = [t.report(path)["program"] for path in t.folder.glob("*.tide")]
        t.expect(str(program) in names, f"{command}: traces of {names}; {recorded.err[-600:]}")


def says_missed(t, command, why, status=3):
    """The program runs; the end lines and the trace of who started it say why it is in none."""
    recorded = t.record(command, ["-f"], {"LEDGER": ""})
    t.equal(f"{command}: exit status", recorded.status, status)
    for text in (recorded.err, t.tool("info", t.trace).out):
        t.expect("Not recorded: " in text and why in text, f"{command}: no word: {text!r}")


@case("starter/missed_32_bit", "a 32-bit program that a script starts is passed over in silence")
def missed_32_bit(t):
    program = t.target("simple_32")
    for end in ("; exit 3", ""):
        says_missed(t, ["/bin/sh", "-c", f"{program} 3{end}"], "32-bit")
    recorded = t.record(["/bin/sh", "-c", f"{program} 3; {t.target('simple')} 3"], ["-f"])
    t.equal("program", t.report()["program"], str(t.target("simple")))
    t.expect("Not recorded: " in recorded.err and "32-bit" in recorded.err,
             f"of another program's recording nothing is said: {recorded.err!r}")


@case("starter/missed_privileged", "a setuid program that a script starts is passed over in silence")
def missed_privileged(t):
    t.need_root()
    program = t.folder / "privileged"
    shutil.copy(t.target("simple"), program)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    t.folder.chmod(0o777)
    for end in ("; exit 3", ""):
        says_missed(t, ["/bin/sh", "-c", f"{program} 3{end}"], "setuid")
    os.chown(program, 0, 0) # then it gains nothing
    program.chmod(0o4755)
    t.record(["/bin/sh", "-c", f"{program} 3; exit 3"], ["-f"])
    t.equal("program", t.report()["program"], str(program))


@case("starter/missed_root", "a program in a root folder of its own is passed over in silence")
def missed_root(t):
    t.need_root()
    root = t.folder / "root"
    program = t.target("simple")
    needed = [word for word in t.bare([t.need_tool("ldd"), program]).out.split() if word[0] == "/"]
    for path in needed:
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    shutil.copy(program, root / "simple")
    says_missed(t, [t.need_tool("chroot"), root, "/simple", "3"], "agent's file is not there")


@case("starter/make", "a program started by make is not recorded")
def make_starter(t):
    t.need_tool("make")
    (t.folder / "Makefile").write_text(f"all:\n\t@{t.target('simple')}\n")
    bare, recorded = t.bare(["/usr/bin/make"]), t.record(["/usr/bin/make"])
    t.same_behaviour(bare, recorded)
    names = [t.report(path)["program"] for path in t.folder.glob("*.tide*")]
    t.expect(str(t.target("simple")) in names, f"traces of {names}; {recorded.err[-600:]}")


@case("starter/npm", "a program started by npm run is not recorded", 120)
def npm(t):
    t.need_tool("npm")
    (t.folder / "package.json").write_text(
        '{"name":"a","version":"1.0.0","scripts":{"go":"' + str(t.target("simple")) + '"}}')
    recorded = t.record(["npm", "run", "-s", "go"], env={"HOME": str(t.folder)})
    t.equal("exit status", recorded.status, 0)
    t.expect("simple was here" in recorded.out, f"output {recorded.out!r}")
    names = [t.report(path)["program"] for path in t.folder.glob("*.tide*")]
    t.expect(str(t.target("simple")) in names, f"traces of {names}; {recorded.err[-600:]}")


@case("starter/cargo", "a program started by cargo run is not recorded", 120)
def cargo(t):
    tool = t.need_tool("cargo")
    (t.folder / "src").mkdir()
    (t.folder / "Cargo.toml").write_text('[package]\nname = "small"\nversion = "0.1.0"\n')
    (t.folder / "src/main.rs").write_text(
        "fn main() { let v: Vec<Vec<u8>> = (0..500).map(|i| vec![1; 100 + i]).collect();"
        ' println!("{}", v.len()); }\n')
    command = [tool, "run", "-q", "--offline"]
    bare = t.bare(command)
    if bare.status:
        t.skip(f"cargo does not work here: {bare.err[-200:]}")
    recorded = t.record(command)
    t.same_behaviour(bare, recorded)
    reports = [t.report(path) for path in t.folder.glob("*.tide*")]
    small = [one for one in reports if one["program"].endswith("/small")]
    t.need(len(small) == 1,
           f"traces of {[one['program'] for one in reports]}; {recorded.err[-500:]}")
    t.expect(small[0]["allocations"] >= 501, f"{small[0]['allocations']} allocations")


@case("starter/shim", "a script that calls others and then becomes the program gets another's trace")
def shim(t):
    text = f"#!/bin/bash\nx=$(readlink /proc/self/exe)\nls / > /dev/null\nexec {t.target('simple')} 3\n"
    recorded = t.record([script(t, text)])
    t.equal("exit status", recorded.shell_status(), 3)
    t.equal("traces", [path.name for path in t.folder.glob("*.tide*")], [t.trace.name])
    t.equal("program", t.report()["program"], str(t.target("simple")))
    t.equal("exit_status", t.report()["exit_status"], 3)


@case("starter/alone", "the only trace that is left has another name than was asked for")
def alone(t):
    """With so little room the shell is recorded, and the program that it starts is not."""
    path = script(t, f"#!/bin/sh\n{t.target('simple')} 3\nexit $?\n")
    alone = 0
    for kilobytes in range(140000, 320000, 20000):
        t.trace.unlink(missing_ok=True)
        recorded = run_program(
            ["sh", "-c", f"ulimit -v {kilobytes}; exec \"$@\"", "sh", t.tidemark, "run", "-o",
             t.trace, "--", path], t.environment(), t.folder, t.seconds)
        if recorded.status != 3:
            continue
        left = [one.name for one in t.folder.glob("trace*")]
        t.expect(left in ([], [t.trace.name]), f"with {kilobytes} kB: {left}")
        alone += bool(left) and t.trace.name in recorded.err and "warning" in recorded.err
    if not alone:
        t.skip("no limit lets the one be recorded and not the other")


@case("starter/two", "of two programs that a script starts only one is recorded")
def two(t):
    text = f"#!/bin/sh\n{t.target('big')} 1 > /dev/null\n{t.target('simple')}\nexit 4\n"
    recorded = t.record([script(t, text)], env={"LEDGER": ""})
    t.equal("exit status", recorded.status, 4)
    reports = {pathlib.Path(t.report(path)["program"]).name: path
               for path in t.folder.glob("*.tide*")}
    t.expect({"big", "simple"} <= set(reports), f"traces of {sorted(reports)}")
    if "big" in reports:
        last = [line for line in recorded.our_lines() if "report" in line][-1:]
        t.expect(last and reports["big"].name in last[0], f"the largest is not named: {last}")
