# SPDX-License-Identifier: Apache-2.0
"""What the program sees of its surroundings, terminals and signals: as without us."""
import os
import pty
import re
import signal
import subprocess

from harness import case, run_program
from watch import Watch, children, state

OURS = re.compile(r"env (LD_PRELOAD|TIDEMARK\w*)=")


@case("surroundings/mirror", "the program sees another environment, group, limit or descriptor")
def mirror(t):
    """Both are started by the same shell, so that group and session are comparable."""
    text = ("echo bare; \"$1\" 'a b' c; echo recorded; "
            "\"$2\" run -q -o \"$3\" -- \"$1\" 'a b' c")
    result = run_program(["/bin/sh", "-c", text, "sh", t.target("mirror"), t.tidemark, t.trace],
                         t.environment({"KEEP_ME": "äöü = x"}), t.folder, t.seconds)
    bare, _, recorded = result.out.partition("recorded\n")
    bare = bare.removeprefix("bare\n")
    t.need("signal 1" in bare and "signal 1" in recorded, f"too little output: {result.out[-300:]}")
    ours = [line for line in recorded.splitlines() if OURS.match(line)]
    rest = [line for line in recorded.splitlines() if not OURS.match(line)]
    t.equal("what the program sees", rest, bare.splitlines())
    t.expect(1 <= len(ours) <= 4, f"our own variables: {ours}")
    t.equal("standard error with -q", result.err, "")


@case("surroundings/ignored_signals", "nohup, blocked or ignored signals change under us")
def ignored_signals(t):
    def prepare():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
    seen = []
    for command in ([t.target("mirror")],
                    [t.tidemark, "run", "-q", "-o", t.trace, "--", t.target("mirror")]):
        done = subprocess.run([str(one) for one in command], env=t.environment(), cwd=t.folder,
                              preexec_fn=prepare, capture_output=True, timeout=t.seconds,
                              text=True, check=False)
        seen.append([line for line in done.stdout.splitlines()
                     if line.startswith(("signal", "blocked"))] + [f"status {done.returncode}"])
    t.equal("signals as the program sees them", seen[1], seen[0])
    t.expect(t.trace.exists() and t.report()["end"] == "exit", "the end was not seen")


@case("surroundings/pipe", "data piped through a recorded program changes or is lost")
def pipe(t):
    text = 'head -c 20000000 /dev/zero | "$1" run -q -o "$2" -- cat | sha256sum; ' \
           'head -c 20000000 /dev/zero | sha256sum'
    result = run_program(["/bin/sh", "-c", text, "sh", t.tidemark, t.trace], t.environment(),
                         t.folder, t.seconds)
    sums = result.out.split("\n")
    t.equal("sum of what came through", sums[0], sums[1])


@case("surroundings/preload_kept", "an LD_PRELOAD of the user's own is lost")
def preload_kept(t):
    library = str(t.target("pass_through.so"))
    recorded = t.record(["simple", "3"], env={"LD_PRELOAD": library})
    t.equal("exit status", recorded.status, 3)
    t.expect("passed on 00000200" in recorded.err, f"the other library: {recorded.err!r}")
    t.figures_match(t.report(None, "--by", "function", "--stacks"), t.ledger())


def add_order(name, line):
    @case(f"surroundings/{name}", "another preloaded library beside ours breaks the figures")
    def order(t):
        env = {"PASS": str(t.target("pass_through.so")), "PROGRAM": str(t.target("simple"))}
        recorded = t.record(["/bin/sh", "-c", line + ' exec "$PROGRAM" 3'], env=env)
        t.equal("exit status", recorded.status, 3)
        t.expect("passed on 00000200" in recorded.err, f"the other library: {recorded.err!r}")
        report = t.report(None, "--by", "function", "--stacks")
        t.nothing_lost(report)
        t.functions_match(report, t.ledger())


add_order("preload_before", 'LD_PRELOAD="$PASS:$LD_PRELOAD"')
add_order("preload_after", 'LD_PRELOAD="$LD_PRELOAD:$PASS"')


@case("surroundings/signals", "a signal sent to tidemark does not reach the program")
def signals(t):
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("tty"), "stubborn"]
    words = {"INT": "int", "TERM": "term", "HUP": "hup", "QUIT": "quit", "USR1": "usr1",
             "USR2": "usr2", "ALRM": "alrm", "WINCH": "winch", "IO": "io", "VTALRM": "vtalrm",
             "PIPE": "pipe", "CONT": "cont"}
    with Watch(t.start(command), t.seconds) as watch:
        watch.wait_for("ready")
        for name, word in words.items():
            os.kill(watch.process.pid, getattr(signal, f"SIG{name}"))
            watch.wait_for(f"{word}\n")
        watch.send(b"q")
        t.equal("exit status", watch.ended(), 5)
    report = t.report(None, "--by", "function", "--stacks")
    t.figures_match(report, t.ledger())


@case("surroundings/group_signals", "a signal sent to the whole group reaches the program twice")
def group_signals(t):
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("tty"), "stubborn"]
    with Watch(t.start(command), t.seconds) as watch:
        watch.wait_for("ready")
        for name, word in (("TERM", "term"), ("USR1", "usr1"), ("HUP", "hup"), ("INT", "int")):
            os.killpg(watch.process.pid, getattr(signal, f"SIG{name}"))
            watch.wait_for(f"{word}\n")
            # Sent to tidemark alone: if the one above were passed on late, it would come before this.
            os.kill(watch.process.pid, signal.SIGUSR2)
            t.equal(f"between {word} and usr2", watch.read_until("usr2\n").replace("usr2\n", ""), "")
        watch.send(b"q")
        t.equal("exit status", watch.ended(), 5)


@case("surroundings/term_ends", "stopping the service loses the trace or the status")
def term_ends(t):
    """A service manager stops both at once; the file is whole all the same."""
    command = [t.tidemark, "run", "-o", t.trace, "--", t.target("steady"), "1"]
    with Watch(t.start(command), t.seconds) as watch:
        watch.wait_for("ready\n")
        os.killpg(watch.process.pid, signal.SIGTERM)
        t.equal("exit status", watch.ended(), 143)
    report = t.report(None, "--by", "function")
    t.equal("end", report["end"], "signal")
    t.equal("signal", report["signal"], signal.SIGTERM)
    t.equal("allocations", report["allocations"], 1000)


def at_terminal(t, command):
    """The command as the leader of a session with a terminal of its own."""
    master, slave = pty.openpty()
    process = subprocess.Popen([str(one) for one in command], stdin=slave, stdout=slave,
                               stderr=slave, env=t.environment({"PS1": "$ ", "TERM": "dumb"}),
                               cwd=t.folder, preexec_fn=own_terminal, start_new_session=False)
    os.close(slave)
    return master, process


def own_terminal():
    import fcntl
    import termios
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def add_interrupt(kind, arguments):
    @case(f"terminal/ctrl_c_{kind}", "Ctrl-C ends the recording without the trace, or does nothing")
    def interrupt(t):
        shell = ["/bin/sh", "-c", '"$@"; echo "status=$?."; exit 0', "sh"]
        command = [t.tidemark, "run", "-o", t.trace, "--", t.target("tty"), *arguments]
        # The shell must outlive the interrupt to tell the status.
        shell[2] = "trap : INT; " + shell[2]
        master, process = at_terminal(t, shell + command)
        with Watch(process, t.seconds) as watch:
            watch.wait_for("ready foreground", master)
            os.write(master, b"\x03")
            watch.wait_for("int", master)
            if kind == "stubborn":
                os.write(master, b"q\n")
            watch.wait_for("status=", master)
            wanted = "5" if kind == "stubborn" else "130"
            t.equal("status", watch.read_until(".", master), wanted)
        os.close(master)
        report = t.report(None, "--by", "function")
        t.equal("allocations", report["allocations"], 100)
        t.equal("end", report["end"], "exit" if kind == "stubborn" else "signal")


add_interrupt("default", [])
add_interrupt("stubborn", ["stubborn"])


@case("terminal/ctrl_z", "Ctrl-Z and fg do not work with a recorded program", 20)
def suspend(t):
    t.need_tool("bash")
    master, process = at_terminal(t, ["bash", "--norc", "--noprofile", "-i"])
    with Watch(process, t.seconds) as watch:
        os.write(master, f"'{t.tidemark}' run -q -o '{t.trace}' -- '{t.target('tty')}'\n".encode())
        watch.wait_for("ready foreground", master)
        tool = watch.poll(lambda: children(process.pid), "the tool")[0]
        program = watch.poll(lambda: children(tool), "the program")[0]
        os.write(master, b"\x1a")
        watch.wait_for("Stopped", master)
        t.equal("state of tool and program", state(tool) + state(program), "TT")
        os.write(master, b"fg\n")
        watch.wait_for("cont", master)
        os.write(master, b"q\n")
        watch.poll(lambda: not state(tool), "the end")
        os.write(master, b"echo status=$?.\n")
        between = watch.read_until("status=5.", master)
        t.expect("cont" not in between, "the program was told twice to go on")
    os.close(master)
    t.equal("allocations", t.report()["allocations"], 100)


@case("surroundings/streams_closed", "in the background with closed streams nothing is recorded")
def streams_closed(t):
    text = '"$1" run -o "$2" -- "$3" mask <&- >&- 2>&-; echo "status=$?"'
    result = run_program(["/bin/sh", "-c", text, "sh", t.tidemark, t.trace, t.target("jail")],
                         t.environment(), t.folder, t.seconds)
    t.equal("status", result.out, "status=0\n")
    t.figures_match(t.report(None, "--by", "function", "--stacks"), t.ledger())


@case("surroundings/strace", "a program cannot be recorded while strace watches it")
def strace(t):
    t.need_tool("strace")
    bare = t.bare(["simple", "3"])
    recorded = run_program(["strace", "-f", "-o", "/dev/null", t.tidemark, "run", "-o", t.trace,
                            "--", t.target("simple"), "3"], t.environment(), t.folder, t.seconds)
    t.same_behaviour(bare, recorded)
    t.figures_match(t.report(None, "--by", "function", "--stacks"), t.ledger())


@case("surroundings/gdb", "a program cannot be recorded while gdb watches it")
def gdb(t):
    t.need_tool("gdb")
    script = ["-ex", "set follow-fork-mode child", "-ex", "set detach-on-fork on",
              "-ex", "set breakpoint pending on", "-ex", "break simple_drop", "-ex", "run",
              "-ex", "delete", "-ex", "continue"]
    result = run_program(["gdb", "-q", "-batch", "-nx", *script, "--args", t.tidemark, "run", "-o",
                          t.trace, "--", t.target("simple"), "3"], t.environment(), t.folder,
                         t.seconds)
    t.expect("exited with code 03" in result.out,
             f"gdb said: {result.out[-500:]} {result.err[-300:]}")
    t.figures_match(t.report(None, "--by", "function", "--stacks"), t.ledger())


@case("surroundings/pid_1", "in a container, where the tool is process 1, nothing works")
def pid_1(t):
    t.need_root()
    t.need_tool("unshare")
    result = run_program(["unshare", "-p", "-f", "--mount-proc", t.tidemark, "run", "-o", t.trace,
                          "--", t.target("simple"), "3"], t.environment(), t.folder, t.seconds)
    t.equal("exit status", result.status, 3)
    t.equal("output", result.out, "simple was here\n")
    t.figures_match(t.report(None, "--by", "function", "--stacks"), t.ledger())


def held_bytes(path):
    """What a file takes on the disk, and what it would if it had no holes."""
    status = path.stat()
    return status.st_blocks * 512, status.st_size


@case("surroundings/core_dump", "a crashing program leaves no core file when it is recorded, or a huge one")
def core_dump(t):
    pattern = open("/proc/sys/kernel/core_pattern").read().strip()
    if "/" in pattern or pattern.startswith("|"):
        t.skip(f"core files go elsewhere here ({pattern})")
    text = 'ulimit -c unlimited && exec "$@"'
    held = []
    for command in ([t.target("process"), "end", "abort"],
                    [t.tidemark, "run", "-o", t.trace, "--", t.target("process"), "end", "abort"]):
        result = run_program(["/bin/sh", "-c", text, "sh", *command], t.environment(), t.folder,
                             t.seconds)
        t.equal("exit status", result.shell_status(), 134)
        cores = list(t.folder.glob("core*"))
        t.expect(len(cores) == 1, f"core files of {command[0].name}: {[c.name for c in cores]}")
        held.append(held_bytes(cores[0]))
        for path in cores:
            path.unlink()
    # The agent's code and its own pages are in it, its tables and the shared memory are not.
    for bare, recorded in zip(*held):
        t.expect(recorded < bare + (4 << 20), f"the core file grew from {bare} to {recorded} bytes")
