# SPDX-License-Identifier: Apache-2.0
"""An agent that sleeps in a program, and is woken when it is wanted."""
import json
import os
import pathlib
import resource
import signal

import watch
from attaching import Attachee, Recorder
from cases.control import (Program, bare_descriptors, calls, figures, nothing_more, row_of, sound,
                           traces)
from harness import case, start_program


def asleep(t, env=None):
    return Program(t, [t.tidemark, "run", "--dormant", "--", t.target("obey")], env)


def page_of(pid):
    return pathlib.Path(f"/dev/shm/tidemark-agent-{os.getuid()}-{pid}")


def attached(t, program, name, *options):
    """'tidemark attach', once the session is there."""
    process = start_program([t.tidemark, "attach", "-q", "-o", t.folder / name, *options,
                             str(program.process.pid)], stderr=open(t.folder / "errors", "ab"),
                            env=t.environment(), cwd=t.folder)
    program.poll(lambda: row_of(t, process.pid), "a session")
    return process


@case("dormant/wake", "recording a program later, without the right to trace it, and leaving it")
def wake(t):
    wanted = bare_descriptors(t)
    program = asleep(t)
    with program:
        pid = program.process.pid
        program.say("early 100 10")
        nothing_more(t, pid, wanted)
        t.equal("mode of its page", page_of(pid).stat().st_mode & 0o777, 0o600)
        t.equal("no session", row_of(t, pid), None)
        listed = json.loads(t.tool("list", "--json").out)["processes"]
        t.equal("listed", [row["dormant"] for row in listed if row["pid"] == pid], [True])
        mappings = []
        for turn in range(4):
            process = attached(t, program, f"d{turn}.tide")
            program.say("late 20 10")
            program.say("free early 5")
            twice = t.tool("attach", str(pid))
            t.expect(twice.status == 1 and "recorded already" in twice.err, twice.err)
            if turn % 2:
                process.send_signal(signal.SIGINT)
            else:
                result = t.tool("detach", str(pid))
                t.expect(result.status == 0 and "sleeps again" in result.err, result.err)
            t.equal("attach's status", process.wait(t.seconds), 0)
            program.say("pause 10 10")
            program.say("free late 20")
            mappings.append(len(pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()))
        t.equal("descriptors after", sorted(os.listdir(f"/proc/{pid}/fd")), wanted)
        t.equal("mappings do not grow", mappings[1:], mappings[1:2] * 3)
        t.equal("children", program.say("children").strip(), "children none")
        t.equal("status", program.end(), 0)
        t.equal("its page is gone", page_of(pid).exists(), False)
    for turn in range(4):
        report = t.report(t.folder / f"d{turn}.tide", "--section", "functions")
        figures(t, report, allocations=20, frees=0, freed_older=5, freed_unseen=0, lost_events=0,
                source="attach", end="detached" if turn % 2 else "stopped")
        t.equal("late", calls(report, "make_late"), 20)


@case("dormant/threads", "waking, pausing and leaving a program whose threads never rest")
def wake_threads(t):
    program = asleep(t)
    with program:
        program.say("storm 4")
        for turn in range(6):
            process = attached(t, program, f"d{turn}.tide")
            program.poll(lambda: (row_of(t, process.pid) or {"events": 1})["events"] > 1000,
                         "events")
            process.send_signal(signal.SIGINT)
            t.equal("attach's status", process.wait(t.seconds), 0)
        watch.kill(program.process.pid)
        program.ended()
        t.tool("list")   # takes its page away
    for turn in range(6):
        report = t.report(t.folder / f"d{turn}.tide")
        figures(t, report, lost_events=0)
        t.expect(report["allocations"] > 100, f"turn {turn}: {report['allocations']}")
        t.expect(report["freed_unseen"] <= 8, f"turn {turn}: unseen {report['freed_unseen']}")
        sound(t, t.folder / f"d{turn}.tide")


@case("dormant/offspring", "children and programs that a sleeping one starts can be woken, too")
def offspring(t):
    program = asleep(t)
    with program:
        pid = program.process.pid
        program.say("early 10 10")
        program.say("fork")
        program.say("exec", "ready\n")
        process = attached(t, program, "d.tide")
        program.say("late 20 10")
        process.send_signal(signal.SIGTERM)
        t.equal("attach's status", process.wait(t.seconds), 0)
        t.equal("status", program.end(), 0)
        left = [path.name for path in page_of(pid).parent.glob(f"tidemark-agent-*-{pid}")]
        t.equal("pages left", left, [])
    figures(t, t.report(t.folder / "d.tide"), allocations=20, source="attach")


@case("dormant/killed", "a killed recorder, or a killed program: nothing hangs, nothing is left")
def wake_killed(t):
    program = asleep(t)
    with program:
        pid = program.process.pid
        process = attached(t, program, "d0.tide")
        program.say("late 20 10")
        process.kill()
        process.wait(t.seconds)
        program.say("churn 2 20000")   # finds out that nobody reads
        process = attached(t, program, "d1.tide")
        program.say("late 30 10")
        watch.kill(pid)
        t.equal("attach's status", process.wait(t.seconds), 0)
        t.tool("list")
        t.equal("stale page", page_of(pid).exists(), False)
    figures(t, t.report(t.folder / "d1.tide"), allocations=30, end="killed")


@case("dormant/late", "a recorder that answers too late records nothing, for ever, and does not say so")
def answered_late(t):
    program = asleep(t)
    with program:
        process = attached(t, program, "d.tide")
        # It calls, and nobody answers: it goes on without us, and says so in its page.
        process.send_signal(signal.SIGSTOP)
        program.say("early 10 10")
        process.send_signal(signal.SIGCONT)
        program.poll(lambda: program.say("late 1 10") or
                     (row_of(t, process.pid) or {"events": 0})["events"] > 5, "events")
        process.send_signal(signal.SIGINT)
        t.equal("attach's status", process.wait(t.seconds), 0)
        t.equal("status", program.end(), 0)
    report = t.report(t.folder / "d.tide")
    figures(t, report, lost_events=0, source="attach", end="detached")
    t.expect(report["allocations"] > 5, f"allocations: {report['allocations']}")
    sound(t, t.folder / "d.tide")


@case("dormant/descriptor", "the program's own file is closed, which has the number of our connection")
def foreign_descriptor(t):
    program = Program(t, [t.tidemark, "run", "--dormant", "--", t.target("taken")])
    with program:
        process = attached(t, program, "d.tide")
        process.send_signal(signal.SIGSTOP)   # so the program waits for an answer
        program.send(b"go\n")
        t.equal("its file", program.read_until("\n").strip(), "kept")
        process.send_signal(signal.SIGCONT)
        t.equal("status", program.ended(), 0)
        process.wait(t.seconds)


@case("dormant/no_memory", "a program that cannot map its memory seems to be recorded for ever")
def no_memory(t):
    program = asleep(t)
    with program:
        pid = program.process.pid
        pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + (64 << 20)
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
        process = attached(t, program, "d.tide")
        program.say("early 10 10")
        t.equal("attach's status", process.wait(t.seconds), 1)
        program.say("late 10 10")
        t.equal("status", program.end(), 0)
    said = (t.folder / "errors").read_text()
    t.expect("no memory" in said, f"says {said!r}")
    t.equal("traces", traces(t), [])


@case("dormant/rotate", "SIGUSR1 to the tidemark of an attach begins a new file")
def wake_rotate(t):
    program = asleep(t)
    with program:
        process = attached(t, program, "d.%i.tide")
        program.say("early 20 10")
        process.send_signal(signal.SIGUSR1)
        program.poll(lambda: (row_of(t, process.pid) or {"piece": 0})["piece"] == 2, "piece 2")
        program.say("late 30 10")
        process.send_signal(signal.SIGHUP)
        t.equal("attach's status", process.wait(t.seconds), 0)
        program.end()
    figures(t, t.report(t.folder / "d.1.tide"), allocations=20, end="rotated", piece=1)
    figures(t, t.report(t.folder / "d.2.tide"), allocations=50, inherited_allocations=20,
            end="detached", piece=2)


@case("dormant/signals", "an agent cannot be woken in a program that gets signals all the time")
def woken_in_a_storm(t):
    with Attachee(t, "storm", env=t.environment({"LD_PRELOAD": str(t.build / "libtidemark.so")})) as it:
        for turn in range(3):
            with Recorder(t, it.pid, trace=t.folder / f"{turn}.tide") as tool:
                tool.saw()
                tool.stop()
                tool.check()
        it.finish()


@case("dormant/unchanged", "a program in which an agent sleeps behaves as without it")
def unchanged(t):
    agent = {"LD_PRELOAD": str(t.build / "libtidemark.so")}
    for command in (["graph"], ["exceptions"], ["simple"]):
        t.same_behaviour(t.bare(command), t.bare(command, env=agent))
    t.equal("traces", traces(t), [])


@case("dormant/file_size", "a program that may not write files is ended by the agent's page")
def file_size(t):
    """Up to no bytes, and up to fewer than the page has."""
    for limit in (0, 1000):
        process = start_program([t.target("nothing")], cwd=t.folder,
                                env=t.environment({"LD_PRELOAD": str(t.build / "libtidemark.so")}),
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                                      (limit, limit)))
        t.equal(f"status up to {limit}", process.wait(t.seconds), t.bare(["nothing"]).status)
        t.equal(f"page up to {limit}", page_of(process.pid).exists(), False)


@case("dormant/no_tsc", "waking an agent ends a program that may not read the time-stamp counter")
def wake_no_tsc(t):
    program = asleep(t)
    with program:
        program.say("no_tsc")
        for turn in range(2):
            process = attached(t, program, f"d{turn}.tide")
            program.say("late 20 10")
            process.send_signal(signal.SIGINT)
            t.equal("attach's status", process.wait(t.seconds), 0)
        t.equal("status", program.end(), 0)
    for turn in range(2):
        figures(t, t.report(t.folder / f"d{turn}.tide"), allocations=20, lost_events=0)


@case("dormant/vfork", "a program that starts others by vfork can be woken by the child, to no use")
def wake_vfork(t):
    program = asleep(t)
    with program:
        process = attached(t, program, "d.tide")
        program.say("vfork")
        program.say("late 20 10")
        process.send_signal(signal.SIGINT)
        t.equal("attach's status", process.wait(t.seconds), 0)
        t.equal("status", program.end(), 0)
    figures(t, t.report(t.folder / "d.tide"), allocations=20, source="attach", lost_events=0)
