# SPDX-License-Identifier: Apache-2.0
"""Speaking to a recording: list, ctl, signals, programs that record themselves.

The target (obey) does what it is told line by line, so each case knows exactly what happened
before a switch was turned and what after.
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess

import watch
from harness import case, start_program


class Program(watch.Watch):
    """The target, however it was started."""

    def __init__(self, t, command, env=None, cwd=None):
        t.ledger_path.unlink(missing_ok=True)
        process = start_program(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=open(t.folder / "errors", "ab"), cwd=cwd or t.folder,
                                env=t.environment(env), start_new_session=True)
        super().__init__(process, t.seconds)
        self.trial = t
        self.wait_for("ready\n")

    def say(self, line, answer="ok\n"):
        """Gives what it said before the answer."""
        self.send(f"{line}\n".encode())
        return self.read_until(answer)

    def end(self):
        self.process.stdin.close()
        return self.ended()


def row_of(t, pid):
    """What 'list' says of a recorded process (or of its tidemark), or None."""
    rows = json.loads(t.tool("list", "--sessions", "--json").out)["sessions"]
    for row in rows:
        if pid in (row["pid"], row["tidemark_pid"]):
            return row
    return None


def recorded(t, options=(), env=None, target="obey"):
    """The target under 'tidemark run', once it is recording; and its pid."""
    program = Program(t, [t.tidemark, "run", "-o", t.folder / "a.%i.tide", *options, "--",
                          t.target(target)], env)
    row = program.poll(lambda: row_of(t, program.process.pid), "a session")
    return program, row["pid"]


def by_itself(t, env=None):
    """The target with nothing but its environment, once it is recording."""
    program = Program(t, [t.target("obey")], {"LD_PRELOAD": str(t.build / "libtidemark.so"),
                                              "TIDEMARK_OUTPUT": str(t.folder / "a.tide"),
                                              **(env or {})})
    program.poll(lambda: row_of(t, program.process.pid), "a session")
    return program


def ctl(t, pid, *words):
    result = t.tool("ctl", str(pid), *words)
    t.need(result.status == 0, f"ctl {' '.join(words)}: {result.status} {result.err}")
    return result.out


def wait_state(t, program, pid, state):
    return program.poll(lambda: (row_of(t, pid) or {"state": "none"})["state"] == state, state)


def gone(t, program, pid):
    """Until no session has the process: then all files are complete."""
    program.poll(lambda: not row_of(t, pid), "the end of the session")


def traces(t):
    return sorted(t.folder.glob("*.tide"))


def sound(t, path):
    result = t.tool("verify", path)
    t.expect(result.status == 0, f"{path.name}: {result.out} {result.err}")


def calls(report, name):
    rows = [row["self"] for row in report["functions"] if row["function"] == name]
    return sum(row["allocations"] for row in rows)


def figures(t, report, **wanted):
    for key, value in wanted.items():
        t.equal(key, report[key], value)


def bare_descriptors(t):
    bare = Program(t, [t.target("obey")])
    with bare:
        wanted = sorted(os.listdir(f"/proc/{bare.process.pid}/fd"))
        bare.end()
    return wanted


def nothing_more(t, pid, descriptors):
    """The program has these descriptors and one thread, as without us."""
    t.equal("descriptors", sorted(os.listdir(f"/proc/{pid}/fd")), descriptors)
    t.equal("threads", len(os.listdir(f"/proc/{pid}/task")), 1)


# ---- ctl ----

def live_through_pause(t, program, pid):
    program.say("early 100 10")
    ctl(t, pid, "pause")
    t.equal("state", row_of(t, pid)["state"], "paused")
    program.say("pause 50 20")
    program.say("free early 30")
    program.say("grow early 5 200")   # in the pause: the old ends, the new is born in it
    program.say("free pause 10")
    ctl(t, pid, "resume")
    program.say("late 20 30")
    program.say("free pause 15")
    program.say("free early 7")       # 5 of these are the grown ones
    t.equal("status", program.end(), 0)


@case("control/pause", "what a pause means: nothing freed in it looks live, nothing born in it is a "
      "mystery")
def pause(t):
    program, pid = recorded(t)
    with program:
        live_through_pause(t, program, pid)
    report = t.report(t.folder / "a.1.tide", "--section", "functions")
    figures(t, report, allocations=120, allocated_bytes=100 * 10 + 20 * 30, frees=30 + 5 + 2,
            unfreed_allocations=100 - 30 - 5 - 2 + 20, paused_allocations=55,
            freed_paused=10 + 15 + 5, freed_older=10 + 15 + 5, freed_unseen=0, lost_events=0)
    t.equal("early", calls(report, "make_early"), 100)
    t.equal("in the pause", calls(report, "make_pause"), 0)
    t.equal("pauses", len(report["pauses"]), 1)
    text = t.tool("report", t.folder / "a.1.tide").out
    t.expect("55 blocks were allocated while recording was paused" in text, text[:2000])
    sound(t, t.folder / "a.1.tide")


@case("control/marks", "named moments as the ends of a range")
def marks(t):
    program, pid = recorded(t)
    with program:
        program.say("early 10 10")
        ctl(t, pid, "mark", "one")
        program.say("late 20 10")
        ctl(t, program.process.pid, "mark", "two", "words")   # by tidemark's pid
        program.say("pause 40 10")
        ctl(t, pid, "mark", "one")
        t.equal("status", program.end(), 0)
    path = t.folder / "a.1.tide"
    t.equal("marks", [mark["name"] for mark in t.report(path)["marks"]],
            ["one", "two words", "one"])
    between = t.report(path, "--from", "one", "--to", "two words")["selection"]
    t.equal("between", between["allocations"], 20)
    t.equal("at", t.report(path, "--at", "two words")["selection"]["unfreed_allocations"], 30)
    later = t.report(path, "--from", "two words", "--to", "one#2")["selection"]
    t.equal("to the second of a name", later["allocations"], 40)
    rows = t.tool("sql", path, "select group_concat(name, '|') from marks where kind = 'mark'")
    t.expect("one|two words|one" in rows.out, rows.out + rows.err)
    t.expect("two words" in t.tool("report", path, "--section", "timeline").out, "timeline")
    wrong = t.tool("report", path, "--from", "three")
    t.expect(wrong.status == 2 and "name of a mark" in wrong.err, wrong.err)


@case("control/rotate", "cutting a recording while the program is busy: a lost or doubled event")
def rotate(t):
    program, pid = recorded(t)
    threads, rounds = 3, 30000
    with program:
        program.say("early 200 10")
        ctl(t, pid, "mark", "begin")
        program.send(f"churn {threads} {rounds}\n".encode())
        for _ in range(3):
            ctl(t, pid, "rotate")
        program.wait_for("ok\n")
        program.say("free early 50")
        t.equal("status", program.end(), 0)
    pieces = [t.folder / f"a.{i}.tide" for i in (1, 2, 3, 4)]
    reports = [t.report(path, "--section", "functions") for path in pieces]
    for path in pieces:
        sound(t, path)
    t.equal("ends", [report["end"] for report in reports], ["rotated"] * 3 + ["exit"])
    t.equal("pieces", [report["piece"] for report in reports], [1, 2, 3, 4])
    for before, report in zip(reports, reports[1:]):
        t.equal("inherited", (report["inherited_allocations"], report["inherited_bytes"]),
                (before["unfreed_allocations"], before["unfreed_bytes"]))
        t.equal("lost", report["lost_events"] + report["freed_older"] + report["freed_unseen"], 0)
    t.equal("names in the last", calls(reports[3], "make_early"), 200)
    merged = t.folder / "merged.tide"
    result = t.tool("merge", "-o", merged, *pieces)
    t.need(result.status == 0, result.err)
    whole = t.report(merged, "--section", "functions")
    t.equal("churn", calls(whole, "churn_one"), threads * rounds * 2)
    t.equal("early", calls(whole, "make_early"), 200)
    figures(t, whole, freed_older=0, freed_unseen=0)
    t.equal("frees", whole["frees"], sum(report["frees"] for report in reports))
    t.equal("allocations", whole["allocations"],
            sum(report["allocations"] - report["inherited_allocations"] for report in reports))


@case("control/stop", "ending a recording and keeping the program, or ending both")
def stop(t):
    program, pid = recorded(t)
    with program:
        program.say("early 10 10")
        ctl(t, pid, "stop")
        program.say("late 20 10")
        again = t.tool("ctl", str(pid), "mark", "x")
        t.expect(again.status == 1 and "nothing is being recorded" in again.err, again.err)
        t.equal("status", program.end(), 0)
    figures(t, t.report(t.folder / "a.1.tide"), allocations=10, end="stopped")
    second, pid = recorded(t)
    with second:
        second.say("early 10 10")
        ctl(t, pid, "stop", "--program")
        t.equal("status", second.ended(), 128 + signal.SIGTERM)
    figures(t, t.report(t.folder / "a.2.tide" if (t.folder / "a.2.tide").exists()
                        else t.folder / "a.1.2.tide"), allocations=10, end="signal")


@case("control/wrong", "clear words for what cannot be done")
def wrong(t):
    name = f"obey{os.getpid()}"
    shutil.copy(t.target("obey"), t.folder / name)
    first, one = recorded(t, target=t.folder / name)
    second, two = recorded(t, ["-o", t.folder / "b.tide"], target=t.folder / name)
    with first, second:
        several = t.tool("ctl", name, "pause")
        t.expect(several.status == 1 and "fits 2" in several.err and str(one) in several.err and
                 str(two) in several.err, several.err)
        t.equal("neither obeyed", [row_of(t, pid)["state"] for pid in (one, two)],
                ["recording"] * 2)
        second.end()
        gone(t, first, two)
        t.equal("by name", t.tool("ctl", name, "pause", "-q").out, "")
        t.equal("obeyed", row_of(t, one)["state"], "paused")
        for words, said in ((["ctl"], "name a process"), (["ctl", str(one)], "name a process"),
                            (["ctl", str(one), "pauze"], "did you mean 'pause'"),
                            (["ctl", str(one), "mark"], "which name"),
                            (["ctl", str(one), "pause", "x"], "takes no more words"),
                            (["ctl", str(one), "pause", "--program"], "goes with 'stop'"),
                            (["ctl", str(one), "mark", "x" * 1100], "1000 bytes"),
                            (["list", "x"], "takes no words")):
            result = t.tool(*words)
            t.expect(result.status == 2 and said in result.err, f"{words}: {result.err}")
        nobody = t.tool("ctl", "4194304", "status")
        t.expect(nobody.status == 1 and "tidemark list" in nobody.err, nobody.err)
        first.end()


@case("control/link", "a program that was started by another name than its file's is not found")
def link(t):
    name = f"by{os.getpid()}"
    (t.folder / name).symlink_to(t.target("obey"))
    program, pid = recorded(t, target=t.folder / name)
    with program:
        t.equal("pid", json.loads(t.tool("ctl", name, "status", "--json").out)[0]["pid"], pid)
        program.end()


@case("control/other_user", "somebody else's recording is not ours to steer")
def other_user(t):
    t.need_root()
    tool = t.folder / "tidemark"
    shutil.copy(t.tidemark, tool)
    tool.chmod(0o755)
    program, pid = recorded(t)
    with program:
        result = subprocess.run([tool, "ctl", str(pid), "stop"], capture_output=True, text=True,
                                user=65534, cwd="/", timeout=t.seconds, env={})
        t.equal("status", result.returncode, 1)
        listed = subprocess.run([tool, "list"], capture_output=True, text=True, user=65534,
                                cwd="/", timeout=t.seconds, env={})
        t.expect(f"tidemark {program.process.pid} records for user 0" in listed.stdout,
                 listed.stdout)
        t.equal("state", row_of(t, pid)["state"], "recording")
        program.end()


@case("control/killed", "a recorder that was killed is not in the list, and the program runs on")
def killed(t):
    program, pid = recorded(t)
    with program:
        program.say("early 10 10")
        tool = program.process.pid
        watch.kill(tool)
        program.poll(lambda: not row_of(t, pid), "no session")
        result = t.tool("ctl", str(pid), "status")
        t.expect(result.status == 1 and "nothing that fits" in result.err, result.err)
        program.say("churn 2 20000")   # more than the shared memory holds
        watch.kill(pid)


# ---- by the environment alone ----

@case("self/start", "a program that records itself, and cannot notice")
def self_start(t):
    wanted = bare_descriptors(t)
    program = by_itself(t)
    with program:
        pid = program.process.pid
        program.say("early 100 10")
        nothing_more(t, pid, wanted)
        t.equal("nothing to wait for", program.say("children").strip(), "children none")
        t.equal("SIGUSR1", program.say("usr1").strip(), "default")
        row = row_of(t, pid)
        t.equal("its collector is nobody's child", watch.children(pid), [])
        t.equal("source", row["source"], "self")
        program.say("fork")
        program.say("exec", "ready\n")
        program.say("late 20 10")
        t.equal("nothing to wait for", program.say("children").strip(), "children none")
        t.equal("status", program.end(), 0)
        gone(t, program, pid)
    t.equal("files", [path.name for path in traces(t)], ["a.tide"])
    figures(t, t.report(t.folder / "a.tide", "--image", "0"), allocations=100,
            section_count=2, end="exec", lost_events=0)
    figures(t, t.report(t.folder / "a.tide"), allocations=20, end="exit", exit_status=0)
    t.expect("recording to" in (t.folder / "errors").read_text(), "no line on standard error")


@case("self/toggle", "switching a service's recording off and on by SIGUSR1")
def self_toggle(t):
    program = by_itself(t)
    with program:
        pid = program.process.pid
        program.say("early 10 10")
        os.kill(pid, signal.SIGUSR1)
        wait_state(t, program, pid, "off")
        program.say("pause 50 10")
        os.kill(pid, signal.SIGUSR1)
        program.say("late 20 10")       # the first of these wakes it
        wait_state(t, program, pid, "recording")
        line = "kill -USR1 $PID && sleep 1 && kill -USR1 $PID"
        for number in (3, 4):
            result = subprocess.run(["sh", "-c", line], env={"PID": str(pid), **os.environ},
                                    timeout=t.seconds)
            t.equal("kill", result.returncode, 0)
            program.say("early 30 10")
            program.poll(lambda: (row_of(t, pid) or {"piece": 0})["piece"] == number, "a file")
        t.equal("status", program.end(), 0)
        gone(t, program, pid)
    names = ["a.2.tide", "a.3.tide", "a.4.tide", "a.tide"]
    t.equal("files", [path.name for path in traces(t)], names)
    for path in traces(t):
        sound(t, path)
    figures(t, t.report(t.folder / "a.tide"), allocations=10, end="stopped", source="run")
    figures(t, t.report(t.folder / "a.2.tide"), allocations=20, end="stopped", source="attach")
    figures(t, t.report(t.folder / "a.4.tide"), end="exit")


@case("self/rotate", "cutting a service's recording by SIGUSR1")
def self_rotate(t):
    program = by_itself(t, {"TIDEMARK_ON_USR1": "rotate",
                            "TIDEMARK_OUTPUT": str(t.folder / "a.%i.tide")})
    with program:
        pid = program.process.pid
        for number in (1, 2, 3):
            program.poll(lambda: (row_of(t, pid) or {"piece": 0})["piece"] == number, "a file")
            program.say("early 10 10")
            if number < 3:
                os.kill(pid, signal.SIGUSR1)
        t.equal("status", program.end(), 0)
        gone(t, program, pid)
    figures(t, t.report(t.folder / "a.3.tide"), allocations=30, inherited_allocations=20)


@case("self/own_handler", "the program's own use of SIGUSR1")
def own_handler(t):
    program = by_itself(t)
    with program:
        pid = program.process.pid
        program.say("catch")
        os.kill(pid, signal.SIGUSR1)
        program.poll(lambda: "caught 1" in program.say("caught"), "its handler")
        t.equal("state", row_of(t, pid)["state"], "recording")
        t.equal("SIGUSR1", program.say("usr1").strip(), "handler")
        program.end()
        gone(t, program, pid)
    program = by_itself(t, {"TIDEMARK_ON_USR1": "none"})
    with program:
        pid = program.process.pid
        os.kill(pid, signal.SIGUSR1)
        t.equal("ended by it", program.ended(), 128 + signal.SIGUSR1)
        gone(t, program, pid)
    program, pid = recorded(t, ["--on-usr1", "toggle"])
    with program:
        program.say("early 10 10")
        os.kill(pid, signal.SIGUSR1)
        wait_state(t, program, pid, "off")
        t.equal("status", program.end(), 0)
    figures(t, t.report(t.folder / "a.1.tide"), allocations=10, end="stopped")


@case("self/process_1", "process 1 of a container is told how to be recorded, and runs")
def process_1(t):
    t.need_root()
    unshare = t.need_tool("unshare")
    result = t.bare([unshare, "--pid", "--fork", "--mount-proc", "env",
                     f"LD_PRELOAD={t.build / 'libtidemark.so'}",
                     f"TIDEMARK_OUTPUT={t.folder / 'a.tide'}", t.target("obey")])
    if "unshare" in result.err:
        t.skip("no namespaces here")
    t.equal("status", result.status, 0)
    t.equal("output", result.out, "ready\n")
    t.expect('ENTRYPOINT ["tidemark", "run", "-o"' in result.err, result.err)
    t.equal("traces", traces(t), [])


@case("self/wrong", "a wrong variable is said, and the program runs all the same")
def self_wrong(t):
    agent = {"LD_PRELOAD": str(t.build / "libtidemark.so"), "TIDEMARK_OUTPUT": "a.tide"}
    for extra, said in (({"TIDEMARK_COLLECTOR": "/nowhere"}, "TIDEMARK_COLLECTOR"),
                        ({"TIDEMARK_DEPTH": "much"}, "TIDEMARK_DEPTH"),
                        ({"TIDEMARK_QUIET": "perhaps"}, "TIDEMARK_QUIET"),
                        ({"TIDEMARK_OUTPUT": "/proc/nowhere/a.tide"}, "not recorded")):
        result = t.bare(["obey"], env={**agent, **extra})
        t.equal("status", result.status, 0)
        t.equal("output", result.out, "ready\n")
        t.expect(said in result.err, f"{extra}: {result.err}")
    t.equal("traces", traces(t), [])


def mute_agent(t, writer):
    """A program whose agent has something to say to `writer`."""
    process = start_program([t.target("nothing")], stderr=writer, cwd=t.folder,
                            env=t.environment({"LD_PRELOAD": str(t.build / "libtidemark.so"),
                                               "TIDEMARK_OUTPUT": str(t.folder / "a.tide"),
                                               "TIDEMARK_COLLECTOR": "/nowhere"}))
    try:
        t.equal("status", process.wait(t.seconds), t.bare(["nothing"]).status)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        t.expect(False, "it hangs")


@case("self/nobody_reads", "a program whose standard error nobody reads is ended by what the agent says")
def nobody_reads(t):
    reader, writer = os.pipe()
    os.close(reader)
    mute_agent(t, writer)
    os.close(writer)


@case("self/nobody_empties", "a program whose standard error is full hangs in what the agent says",
      seconds=20)
def nobody_empties(t):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writer, bytes(4096)):
            pass
    os.set_blocking(writer, True)
    mute_agent(t, writer)
    os.close(reader)
    os.close(writer)


@case("options/variables", "every option of 'run' as a variable")
def variables(t):
    text = t.tool("help", "run").out
    found = [line.split("--")[1].split()[:2] for line in text.splitlines()
             if line.startswith("  ") and "--" in line[:10]]
    t.expect(len(found) > 15, text)
    values = {"output": str(t.folder / "v.tide"), "time-limit": "1h", "delay": "0s",
              "max-file-size": "1G", "depth": "20", "on-usr1": "none"}
    skip = {"help", "serve", "listen", "metrics", "dormant", "daemon"}
    env = {f"TIDEMARK_{name.upper().replace('-', '_')}": values.get(name, "1")
           for name, word in found
           if name not in skip and (name in values or not word.isupper())}
    result = t.record(["simple"], env=env, output=False)
    t.equal("quiet", result.our_lines(), [])
    report = t.report(t.folder / "v.tide")
    info = t.tool("info", t.folder / "v.tide").out
    t.expect("20" in info and report["allocations"] > 0, info)
    for name, value, said in (("TIDEMARK_TIME_LIMIT", "soon", "TIDEMARK_TIME_LIMIT"),
                              ("TIDEMARK_ON_USR1", "maybe", "toggle, rotate or none"),
                              ("TIDEMARK_CHILDREN", "2", "1 or 0")):
        wrong_one = t.record(["simple"], env={name: value}, output=False)
        t.expect(wrong_one.status == 2 and said in wrong_one.err, wrong_one.err)
    off = t.record(["simple"], env={"TIDEMARK_QUIET": "0"})
    t.expect(off.our_lines(), "TIDEMARK_QUIET=0 is not quiet")
