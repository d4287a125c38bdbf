# SPDX-License-Identifier: Apache-2.0
"""The three ways to run a program: bare, under heaptrack, under tidemark. Each gives a dict of plain figures."""
import json
import os
import shutil
import subprocess

from driver import measure

GIB = 1 << 30
HEAPTRACK_LIMIT_BYTES = 4 * GIB  # its interpreter has been seen to take 19 GB before it died
HEAPTRACK_TIME_S = 120
TIME_S = 90


def sample_of(run):
    sample = {"wall_s": run.wall_s, "cpu_s": run.cpu_s, "foreign_share": run.foreign_share, "failure": run.failure}
    for line in run.output.splitlines():
        if "wall_ns_per_pair=" in line:
            words = dict(word.split("=", 1) for word in line.split())
            sample["loop_wall_ns"] = float(words["wall_ns_per_pair"])
            sample["loop_cpu_ns"] = float(words["cpu_ns_per_pair"])
    return sample


def environment(extra):
    env = {name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"}
    env.update(extra)
    return env


class Bare:
    name = "bare"

    def missing(self):
        return None

    def run(self, program, folder):
        run = measure.execute(program.command, folder, env=environment(program.env), time_limit_s=TIME_S,
                              client=program.client)
        return sample_of(run)


class Heaptrack:
    """Debian's heaptrack with its interpreter in the pipeline, as its users run it.

    When the interpreter dies, the program is killed by SIGPIPE: the cell is then measured with --raw (no
    interpretation, which is cheaper for heaptrack) and marked so.
    """

    name = "heaptrack"

    def __init__(self):
        self.raw_cells = set()
        self.died = {}

    def missing(self):
        return None if shutil.which("heaptrack") else "no heaptrack on this machine"

    def run(self, program, folder):
        if program.name not in self.raw_cells:
            sample = self.run_once(program, folder, [])
            if not sample["failure"]:
                return sample
            self.raw_cells.add(program.name)
            self.died[program.name] = sample["failure"]
        sample = self.run_once(program, folder, ["--raw"])
        sample["raw"] = True
        sample["died"] = self.died[program.name]
        return sample

    def run_once(self, program, folder, options):
        output = os.path.join(folder, "heaptrack.out")
        command = ["heaptrack"] + options + ["-o", output] + program.command
        limit = HEAPTRACK_LIMIT_BYTES if program.limited else 0
        run = measure.execute(command, folder, env=environment(program.env), address_limit=limit,
                              time_limit_s=HEAPTRACK_TIME_S, client=program.client)
        sample = sample_of(run)
        files = [name for name in os.listdir(folder) if name.startswith("heaptrack.out")]
        sample["file_bytes"] = sum(os.path.getsize(os.path.join(folder, name)) for name in files)
        for name in files:
            os.unlink(os.path.join(folder, name))
        if "bad_alloc" in run.errors:
            sample["failure"] = "its interpreter died: std::bad_alloc under %d GiB" % (HEAPTRACK_LIMIT_BYTES // GIB)
        elif not sample["failure"] and sample["file_bytes"] == 0:
            sample["failure"] = "no file written"
        return sample


class Tidemark:
    name = "tidemark"

    def __init__(self, tool):
        self.tool = tool

    def missing(self):
        return None if os.access(self.tool, os.X_OK) else "'%s' is not built" % self.tool

    def run(self, program, folder, options=()):
        output = os.path.join(folder, "bench.tide")
        if os.path.exists(output):
            os.unlink(output)
        command = [self.tool, "run", "-q", "-o", output, *options, "--"] + program.command
        run = measure.execute(command, folder, env=environment(program.env), time_limit_s=TIME_S,
                              watch_memory=True, client=program.client)
        sample = sample_of(run)
        sample["collector_rss_bytes"] = run.peak_rss_bytes
        sample["collector_anon_bytes"] = run.peak_anon_bytes
        if not sample["failure"]:
            self.add_report(output, sample)
        elif run.errors.strip():
            sample["failure"] += ": " + run.errors.strip().splitlines()[-1][:200]
        if os.path.exists(output):
            os.unlink(output)
        return sample

    def add_report(self, output, sample):
        if not os.path.exists(output):
            sample["failure"] = "no trace was written"
            return
        sample["file_bytes"] = os.path.getsize(output)
        done = subprocess.run([self.tool, "report", "--json", output], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
        try:
            report = json.loads(done.stdout)
        except ValueError:
            sample["failure"] = "report --json: status %d: %s" % (done.returncode, done.stderr.strip()[-200:])
            return
        keep = ("events", "allocations", "frees", "threads", "stacks", "stack_nodes", "waited_ns", "agent_bytes",
                "collector_cpu_ns", "lost_events", "peak_allocations", "unfreed_allocations", "cut_stacks",
                "freed_unseen")
        for key in keep:
            if key in report:
                sample[key] = report[key]
        sample["target_cpu_s"] = sample["cpu_s"] - report.get("collector_cpu_ns", 0) / 1e9
        if not report.get("events"):
            sample["failure"] = "the trace has no events"
        elif report.get("lost_events"):
            sample["failure"] = "%d events lost" % report["lost_events"]
