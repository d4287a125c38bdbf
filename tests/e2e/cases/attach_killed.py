# SPDX-License-Identifier: Apache-2.0
"""Killing tidemark, or the program, at any moment: the other must come to no harm."""
import http.client
import json
import os
import pathlib
import signal
import subprocess

from attaching import Attachee, Recorder, cycles, kernel_state
from harness import case


def guards_of(pid):
    """The processes of tidemark's that trace for the tidemark with this pid."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text()
        except OSError:
            continue
        if "(tm-guard)" in fields and fields.rpartition(")")[2].split()[1] == str(pid):
            found.append(int(folder.name))
    return found


@case("attach/killed", "killing tidemark harms the program, or what it left stays for good")
def killed(t):
    with Attachee(t, "stress", "2") as it:
        code = it.code()
        with Recorder(t, it.pid) as tool:
            tool.saw()
            os.kill(tool.watch.process.pid, signal.SIGKILL)
            tool.watch.ended()
        # Its tracer outlives it, leaves the process, and ends.
        it.watch.poll(lambda: it.code() == code, "the code as it was")
        result = t.tool("detach", str(it.pid))
        t.expect("not attached" in result.err, f"detach says {result.err!r}")
        for clear in ("detach", "attach"):
            with Recorder(t, it.pid) as tool:
                tool.saw()
                for victim in [*guards_of(tool.watch.process.pid), tool.watch.process.pid]:
                    os.kill(victim, signal.SIGKILL)
                tool.watch.ended()
            t.expect(it.code() != code, "the code was restored by nobody")
            if clear == "detach":
                result = t.tool("detach", str(it.pid))
                t.equal(f"detach says {result.err}", result.status, 0)
            else:
                with Recorder(t, it.pid) as tool:
                    tool.saw()
                    tool.stop()
                    tool.check()
            t.expect(it.code() == code, f"the code is not as it was after {clear}")
        with Recorder(t, it.pid) as tool:  # without its tracer it can still leave
            tool.saw()
            for victim in guards_of(tool.watch.process.pid):
                os.kill(victim, signal.SIGKILL)
            tool.stop()
            tool.check()
        t.expect(it.code() == code, "the code is not as it was without its tracer")
        it.finish()


# In the order in which they are reached, when a process is entered for the first time.
STEPS = ["seized", "borrowed", "sent", "calling", "in-call", "called", "calling-back",
         "called-back", "written", "starting", "serving", "opened", "filled", "islands", "begun",
         "returning", "returned", "entered", "noted", "stopped", "moved", "patching", "patched",
         "released", "stopped-again", "restoring", "restored", "left"]
# Where a thread is not where it was: the tracer itself may be killed there, too.
AWAY = ["sent", "in-call", "called", "calling-back", "serving", "opened", "begun", "moved", "patching",
        "restoring"]


# And where it makes its first system call: by the kernel's page, if no library has room for code.
FIRST_CALL = ["sent", "calling", "in-call", "called", "calling-back"]


def kill_at(t, victim, step, race=""):
    """Kills tidemark there; the program must not notice, and can be entered again."""
    with Attachee(t, "storm") as it:
        code, descriptors = it.code(), it.descriptors()
        threads = sorted(os.listdir(f"/proc/{it.pid}/task"))
        kept = {one: masks(it.pid, one) for one in threads}
        command = [t.build / "tests/e2e/attach_cycles", t.build / "libtidemark.so", str(it.pid),
                   "1", "500"]
        result = subprocess.run([str(one) for one in command], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=dict(t.environment(), TIDEMARK_TEST_KILL=f"{victim}:{step}",
                                         TIDEMARK_TEST_RACE=race), timeout=t.seconds)
        if victim == "recorder":
            t.equal(f"{step}: how it ended ({result.stdout})", result.returncode, -signal.SIGKILL)
            it.watch.poll(lambda: it.code() == code, f"{step}: the code as it was")
        else:
            t.expect("was killed" in result.stdout, f"{step}: it says {result.stdout!r}")
        it.watch.poll(lambda: {one: masks(it.pid, one) for one in threads} == kept,
                      f"{step}: the signal masks as they were")
        cycles(t, it, 1)
        t.expect(it.code() == code, f"{victim}:{step}: the code is not as it was")
        t.equal(f"{step}: descriptors", it.descriptors(), descriptors)
        it.finish()


@case("attach/target-killed", "tidemark hangs when the program dies while it is being entered",
      seconds=600)
def target_killed(t):
    for step in STEPS if t.long else AWAY:
        with Attachee(t, "stress", "2") as it:
            result = subprocess.run(
                [str(one) for one in (t.build / "tests/e2e/attach_cycles",
                                      t.build / "libtidemark.so", it.pid, 1, 500)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, timeout=t.seconds,
                env=dict(t.environment(), TIDEMARK_TEST_KILL=f"target:{step}"))
            t.expect(result.returncode in (0, 1), f"{step}: it ended with {result.returncode}")
            t.equal(f"{step}: end of the program", it.watch.ended(), 128 + signal.SIGKILL)


def ask(watch, port):
    """The page's figures of the recording."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=watch.left())
    try:
        connection.request("GET", "/api/v1/traces/last/summary")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def is_served(watch, port):
    try:
        return ask(watch, port)[0] == 200
    except OSError:
        return False


@case("attach/serve", "the page of an attached program shows nothing, or harms the program")
def serve(t):
    with Attachee(t, "stress", "2") as it:
        code = it.code()
        for number in (signal.SIGINT, signal.SIGKILL):
            with Recorder(t, it.pid, "--listen", "127.0.0.1:0") as tool:
                tool.watch.wait_for("http://127.0.0.1:")
                port = int(tool.watch.read_until("/"))
                tool.saw()
                status, summary = ask(tool.watch, port)
                t.equal("status of the page", status, 200)
                t.expect(summary["allocations"] > 0, f"the page says {summary}")
                os.kill(tool.watch.process.pid, number)
                if number == signal.SIGINT:
                    tool.watch.wait_for("the page stays")
                    t.expect(is_served(tool.watch, port), "the page does not stay")
                    tool.stop()
                    tool.check()
                else:
                    tool.watch.ended()
                    it.watch.poll(lambda: not is_served(it.watch, port), "the end of the page")
                it.watch.poll(lambda: it.code() == code, "the code as it was")
        it.finish()


def masks(pid, tid):
    return [line for line in kernel_state(pid, tid) if line.startswith(("SigB", "Tracer"))]


@case("attach/killed-inside", "killing tidemark while it goes in or out harms the program",
      seconds=600)
def killed_inside(t):
    for step in STEPS:
        kill_at(t, "recorder", step)


@case("attach/tracer-killed", "killing all of tidemark while it goes in or out harms the program",
      seconds=600)
def tracer_killed(t):
    for step in STEPS if t.long else AWAY:
        kill_at(t, "tracer", step)


@case("attach/no-room", "killing all of tidemark harms a program whose code leaves no room")
def no_room(t):
    with Attachee(t, "stress", "1") as it:
        cycles(t, it, 2, env={"TIDEMARK_TEST_RACE": "cave"})
        it.finish()
    for step in FIRST_CALL if t.long else FIRST_CALL[2:4]:
        kill_at(t, "tracer", step, "cave")
