# SPDX-License-Identifier: Apache-2.0
"""In containers: as process 1, in a foreign root, with output on a volume."""
import json
import os
import pathlib
import shutil
import signal

from harness import case
from watch import Watch

ROOT = pathlib.Path(__file__).resolve().parents[3]


def namespace(t):
    """A command that makes its argument process 1 of a namespace; skips where that is forbidden."""
    t.need_tool("unshare")
    for options in (["--mount", "--pid", "--fork", "--mount-proc"],
                    ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]):
        command = ["unshare", "--kill-child", *options]
        if t.bare([*command, "true"]).status == 0:
            return command
    t.skip("namespaces are forbidden here")


def in_namespace(t, *program):
    return [*namespace(t), t.tidemark, "run", "-o", t.trace, "--", t.target("contained"), *program]


@case("containers/pid1_status", "as a container's entry point the program's status is lost")
def pid1_status(t):
    done = t.bare(in_namespace(t, "status", "7"))
    t.equal("status", done.status, 7)
    report = t.report()
    t.equal("status in the trace", report["exit_status"], 7)
    t.nothing_lost(report)


@case("containers/pid1_signals", "a container cannot be stopped: SIGTERM does not arrive")
def pid1_signals(t):
    """docker stop sends SIGTERM to process 1, which is Tidemark."""
    with Watch(t.start(in_namespace(t, "term")), t.seconds) as watch:
        watch.wait_for("ready\n")
        inner = pathlib.Path(f"/proc/{watch.process.pid}/task/{watch.process.pid}/children")
        first = int(inner.read_text().split()[0])
        os.kill(first, signal.SIGTERM)
        t.equal("status", watch.process.wait(watch.left()), 42)
    t.equal("end", t.report()["exit_status"], 42)


@case("containers/pid1_orphans", "a container fills with zombies")
def pid1_orphans(t):
    t.equal("status", t.bare(in_namespace(t, "orphans", "20")).status, 0)
    t.nothing_lost(t.report())


@case("containers/pid1_killed", "killing a container loses its recording")
def pid1_killed(t):
    """The whole namespace dies at once, Tidemark included: what is older than 100 ms is there."""
    with Watch(t.start(in_namespace(t, "forever")), t.seconds) as watch:
        watch.wait_for("ready\n")
        watch.poll(lambda: t.trace.exists() and
                   t.tool("report", t.trace, "--json").out.count('"allocations"') and
                   t.report()["allocations"] > 50, "50 allocations to be in the file")
        children = pathlib.Path(f"/proc/{watch.process.pid}/task/{watch.process.pid}/children")
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
        watch.process.wait(watch.left())
    report = t.report()
    t.expect(report["allocations"] > 50, f"allocations: {report['allocations']}")
    t.equal("exit_status", report["exit_status"], None)


@case("containers/volume", "output does not reach a volume, or cannot be copied while written")
def volume(t):
    """An unprivileged sandbox with a read-only root; the trace is read from outside meanwhile."""
    sandbox = [t.need_tool("bwrap"), "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/",
               "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    out = t.folder / "out"
    out.mkdir()
    tool, agent = t.folder / "tidemark", t.folder / "libtidemark.so"
    shutil.copy(t.tidemark, tool)
    shutil.copy(t.build / "libtidemark.so", agent)
    places = ["--bind", out, "/mnt", "--ro-bind", t.folder, "/media",
              "--ro-bind", t.target("contained"), "/srv/contained"]
    if t.bare([*sandbox, "--dir", "/srv", "true"]).status != 0:
        t.skip("bubblewrap is not allowed here")
    command = [*sandbox, "--tmpfs", "/srv", *places, "/media/tidemark", "run", "-o",
               "/mnt/app.tide", "--", "/srv/contained", "forever"]
    with Watch(t.start(command), t.seconds) as watch:
        watch.wait_for("ready\n")
        copy = t.folder / "copy.tide"

        def copied():
            if not (out / "app.tide").exists():
                return False
            shutil.copy(out / "app.tide", copy)
            return t.tool("report", copy, "--json").status == 0 and t.report(copy)["allocations"] > 20
        watch.poll(copied, "a copy of the file to have 20 allocations")


@case("containers/alpine", "the static tool does not run in an image with another C library",
      seconds=600)
def alpine(t):
    """A root with musl and nothing else, two files copied in: as docs/containers.md says."""
    if not t.long:
        t.skip("it builds the tool once more: only with --long")
    sandbox = [t.need_tool("bwrap"), "--unshare-all", "--die-with-parent"]
    bundle = pathlib.Path(f"{t.build}-static")
    made = t.bare([ROOT / "tools/make-static", bundle])
    t.need(made.status == 0, f"make static: {made.out[-300:]}{made.err[-300:]}")
    root = t.folder / "root"
    for name in ("lib", "proc", "dev", "traces", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy("/lib/ld-musl-x86_64.so.1", root / "lib")
    shutil.copy(t.target("simple_musl"), root / "app")
    for name in ("tidemark", "libtidemark.so"):
        shutil.copy(bundle / "bundle" / name, root)
    inside = [*sandbox, "--bind", root, "/", "--proc", "/proc", "--dev", "/dev"]
    done = t.bare([*inside, "/tidemark", "run", "-o", "/traces/app.tide", "--", "/app", "3"],
                  env={"LEDGER": "/traces/ledger"})
    t.equal("status", done.status, 3)
    shown = t.bare([*inside, "/tidemark", "report", "/traces/app.tide", "--json"])
    t.equal("status of the report", shown.status, 0)
    report = t.report(root / "traces/app.tide", "--by", "function")
    t.equal("the same report inside", json.loads(shown.out)["allocations"], report["allocations"])
    t.nothing_lost(report)
    t.ledger_path = root / "traces/ledger"
    t.functions_match(report, t.ledger())
