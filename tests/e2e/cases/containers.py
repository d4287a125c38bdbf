# SPDX-License-Identifier: Apache-2.0
"""In containers: as process 1, in a foreign root, with output on a volume."""
import json
import os
import pathlib
import shutil
import signal

from harness import case
from watch import Watch, children, kill

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


@case("containers/low_ids", "with an id of four digits a program with coroutines crashes")
def low_ids(t):
    """A thread's id beside a pointer in its control block looks like the place of its stack."""
    for last in (4095, 5000, 7000):
        script = f'echo {last} >/proc/sys/kernel/ns_last_pid && exec "$@"'
        command = [*namespace(t), "sh", "-c", script, "sh", t.tidemark, "run", "-f", "-o", t.trace, "--",
                   t.target("context"), "deep"]
        done = t.bare(command)
        if "ns_last_pid" in done.err:
            t.skip("ids cannot be chosen here")
        t.equal("status", done.status, 0)
        t.expect(last < t.report()["pid"] < last + 100, "it had another id")


@case("containers/pid1_static_orphan", "an orphan that executes a static program stands still for ever")
def pid1_static_orphan(t):
    """Process 1 waits for orphans, and a thread of its traces them: neither takes the other's news."""
    command = [*namespace(t), t.tidemark, "run", "--children", "-f", "-o",
               t.folder / "%p.tide", "--", t.target("starter"), "orphan", t.target("simple_static"),
               "3"]
    for _ in range(3):
        t.equal("status", t.bare(command).status, 0)
    programs = [t.report(path)["program"] for path in t.folder.glob("*.tide")]
    t.expect(str(t.target("simple_static")) in programs, f"recorded: {programs}")


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


def name_of(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def find_inside(watch, name):
    """The process of that name below the one that is watched, as it is seen from here."""
    found = []

    def look():
        pids = [watch.process.pid]
        for pid in pids:
            pids += children(pid)
        found[:] = [pid for pid in pids if name_of(pid) == name]
        return bool(found)
    watch.poll(look, f"{name} to run")
    return found[0]


def record_for_a_moment(t, command):
    """Attaches until 20 allocations are in the file, and leaves."""
    with Watch(t.start([*command, "-o", t.trace]), t.seconds) as watch:
        watch.poll(lambda: watch.process.poll() is not None or
                   t.trace.exists() and t.tool("report", t.trace, "--json").status == 0 and
                   t.report()["allocations"] > 20, "20 allocations to be in the file")
        if watch.process.poll() is None:
            kill(find_inside(watch, t.tidemark.name), signal.SIGINT)
        status = watch.process.wait(watch.left())
        said = watch.process.stderr.read().decode()
    if "kernel does not let us" in said:
        t.skip("nobody may attach here")
    t.equal(f"status of attach ({said[-300:]})", status, 0)
    report = t.report(None, "--by", "function")
    t.expect("forever" in {row["function"] for row in report["functions"]},
             f"no names: {report['functions'][:3]}")
    t.nothing_lost(report)


@case("containers/attach_host", "a program in a container cannot be attached to from the host")
def attach_host(t):
    """Namespaces of its own for users, processes and mounts; the host does not see its files."""
    t.need_root()
    sandbox = [t.need_tool("bwrap"), "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/",
               "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/srv"]
    if t.bare([*sandbox, "true"]).status != 0:
        t.skip("bubblewrap is not allowed here")
    command = [*sandbox, "--ro-bind", t.target("contained"), "/srv/inside", "/srv/inside", "forever"]
    with Watch(t.start(command), t.seconds) as watch:
        watch.wait_for("ready\n")
        pid = find_inside(watch, "inside")
        record_for_a_moment(t, [t.tidemark, "attach", str(pid)])
        t.expect(os.path.exists(f"/proc/{pid}"), "the program has ended")


@case("containers/attach_first", "process 1 of a container cannot be attached to from inside")
def attach_first(t):
    t.need_root()
    t.need_tool("nsenter")
    with Watch(t.start([*namespace(t), t.target("contained"), "forever"]), t.seconds) as watch:
        watch.wait_for("ready\n")
        pid = find_inside(watch, "contained")
        enter = ["nsenter", "--target", str(pid), "--mount", "--pid"]
        record_for_a_moment(t, [*enter, t.tidemark, "attach", "1"])
        t.expect(os.path.exists(f"/proc/{pid}"), "the program has ended")


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
