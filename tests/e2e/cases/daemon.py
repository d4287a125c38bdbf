# SPDX-License-Identifier: Apache-2.0
"""--daemon: a recording that goes on in the background, without a terminal; services."""
import os
import pathlib
import re
import time

from cases.attach import Attachee
from cases.control import row_of
from harness import Failure, case
from watch import kill, state


class Background:
    """The two processes, which are gone at the end whatever happens."""
    def __init__(self, t, said):
        found = re.search(r"process (\d+) runs in the background, recorded by tidemark (\d+)", said)
        t.need(found, f"says {said!r}")
        self.t, self.pid, self.tool = t, int(found[1]), int(found[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        kill(self.pid)
        kill(self.tool)

    def wait_for_end(self):
        deadline = time.monotonic() + self.t.seconds
        while state(self.tool) not in ("", "Z"):
            if time.monotonic() > deadline:
                raise Failure("the recording in the background does not end")
            time.sleep(0.01)


def facts_of(pid):
    """Session, terminal and what the three streams are."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    streams = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in range(3)]
    return int(fields[3]), int(fields[4]), streams


@case("daemon/run", "a recording in the background dies with the terminal, or cannot be spoken to")
def run(t):
    log, fifo = t.folder / "log", t.folder / "fifo"
    os.mkfifo(fifo)
    tell = os.open(fifo, os.O_RDWR)
    result = t.tool("run", "--daemon", "--log", log, "-o", t.trace, "--", "sh", "-c",
                    'exec "$0" 1 < fifo', t.target("steady"))
    t.equal("status", result.status, 0)
    t.expect(f"recording to {t.trace}" in result.err, f"says {result.err!r}")
    with Background(t, result.err) as background:
        for pid in (background.pid, background.tool):
            session, terminal, streams = facts_of(pid)
            t.expect(session != os.getsid(0), "it is in the session of who started it")
            t.equal("terminal", terminal, 0)
            t.equal("outputs", streams[1:], [str(log)] * 2)
        t.equal("input", facts_of(background.tool)[2][0], "/dev/null")
        row = row_of(t, background.pid)
        t.equal("tidemark in the list", row["tidemark_pid"], background.tool)
        status = t.tool("ctl", str(background.pid), "status")
        t.equal(f"ctl says {status.err!r}", status.status, 0)
        os.write(tell, b"x")
        background.wait_for_end()
    os.close(tell)
    report = t.report(t.trace, "--by", "function")
    t.functions_match(report, t.ledger())
    t.nothing_lost(report)
    t.equal("exit status", report["exit_status"], 3)
    said = log.read_text()
    t.expect(said.startswith("ready\ndone\n") and "allocations" in said, f"the log has {said!r}")


@case("daemon/streams", "what the program prints is lost though it was redirected to a file")
def streams(t):
    with open(t.folder / "out", "w") as out:
        process = t.start([t.tidemark, "run", "--daemon", "-o", t.trace, "--", "sleep", "100"],
                          stdout=out)
        said = process.communicate(timeout=t.seconds)[1].decode()
    with Background(t, said) as background:
        _, _, files = facts_of(background.tool)
        t.equal("streams", files, ["/dev/null", str(t.folder / "out"), "/dev/null"])
        stop = t.tool("ctl", str(background.pid), "stop", "--program")
        t.equal(f"ctl says {stop.err!r}", stop.status, 0)
        background.wait_for_end()
    t.equal("end", t.report()["end"], "signal")


@case("daemon/attach", "an attached recording cannot go on in the background")
def attach(t):
    with Attachee(t, "stress", "2") as it:
        result = t.tool("attach", "--daemon", "--log", t.folder / "log", "-o", t.trace, it.pid)
        t.equal("status", result.status, 0)
        found = re.search(r"in the background by tidemark (\d+)", result.err)
        t.need(found, f"says {result.err!r}")
        tool = int(found[1])
        try:
            t.equal("terminal", facts_of(tool)[1], 0)
            t.equal("tidemark in the list", row_of(t, it.pid)["tidemark_pid"], tool)
            left = t.tool("detach", it.pid)
            t.equal(f"detach says {left.err!r}", left.status, 0)
            it.watch.poll(lambda: state(tool) in ("", "Z"), "the end of the recording")
        finally:
            kill(tool)
        it.finish()
    t.equal("end", t.report()["end"], "detached")
    t.expect("left process" in (t.folder / "log").read_text(), "the log is empty")


@case("daemon/mistakes", "an error in the background is not told, or told as success")
def mistakes(t):
    nowhere, text = t.folder / "none" / "log", t.folder / "text"
    text.write_text("no program")
    text.chmod(0o644)
    for options, status, words in (
            (["--daemon", "--", "/nowhere/program"], 127, "/nowhere/program"),
            (["--daemon", "--", text], 126, str(text)),
            (["--daemon", "--log", nowhere, "--", "true"], 125, str(nowhere)),
            (["--daemon", "-o", "/proc/none/x.tide", "--", "true"], 125, "/proc/none"),
            (["--log", "x", "--", "true"], 2, "--daemon"),
            (["--daemon", "--dormant", "--", "true"], 2, "--dormant")):
        result = t.tool("run", *options)
        t.equal(f"{options}: status", result.status, status)
        t.expect(words in result.err, f"{options}: says {result.err!r}")
    for options, status, words in ((["--daemon", "1073741824"], 1, "1073741824"),
                                   (["--log", "x", "1"], 2, "--daemon")):
        result = t.tool("attach", *options)
        t.equal(f"attach {options}: status", result.status, status)
        t.expect(words in result.err, f"attach {options}: says {result.err!r}")


UNITS = pathlib.Path(__file__).resolve().parents[3] / "contrib" / "systemd"


def verified(t, unit):
    """What systemd thinks of a unit file; tidemark is the one that was built."""
    result = t.bare([t.need_tool("systemd-analyze"), "verify", "--man=no", unit])
    t.expect(result.status == 0 and not result.err, f"{unit.name}: {result.err}")


@case("daemon/systemd", "the examples of systemd units do not work")
def systemd(t):
    for path in sorted(UNITS.iterdir()):
        text = path.read_text().replace("/usr/bin/tidemark", str(t.tidemark))
        line = re.search(r"^ExecStart=(/.*)", text.replace("\\\n", " "), re.M)[1]
        # Its options are known, and fit together.
        asked = t.bare([*line.partition(" -- ")[0].replace("%I", "").split(), "--help"])
        t.expect(asked.status == 0 and "Usage: tidemark" in asked.out, f"{path.name}: {asked.err}")
        if path.suffix == ".conf":
            (t.folder / "app.service").write_text("[Service]\nExecStart=/bin/true\n")
            (t.folder / "app.service.d").mkdir()
            (t.folder / "app.service.d" / path.name).write_text(text)
            verified(t, t.folder / "app.service")
        else:
            unit = t.folder / path.name.replace("@.", "@1.")
            unit.write_text(text)
            verified(t, unit)
