# SPDX-License-Identifier: Apache-2.0
"""/metrics: what Prometheus reads, of a recording that goes on and of a trace that is there."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.parse
import urllib.request

from cases.serve import Server
from harness import case
from watch import Watch

LINE = re.compile(r'^(tidemark_[a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? ([0-9.]+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def parse(t, text):
    """Metrics by name: a list of labels and value. As strict as Prometheus is."""
    found, types = {}, {}
    for line in text.split("\n"):
        if line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            t.need(name not in types, f"{name} has two types")
            t.expect((kind == "counter") == name.endswith("_total"), f"{name} is a {kind}")
            types[name] = kind
        elif line and not line.startswith("# HELP "):
            parts = LINE.match(line)
            t.need(parts, f"no line of metrics: {line!r}")
            t.need(parts[1] in types, f"{parts[1]} has no type before it")
            labels = dict(LABEL.findall(parts[2] or ""))
            found.setdefault(parts[1], [])
            t.need(labels not in [one for one, _ in found[parts[1]]], f"twice: {line}")
            found[parts[1]].append((labels, float(parts[3])))
    t.expect(text.endswith("\n"), "the last line has no end")
    promtool = shutil.which("promtool")
    if promtool:
        judged = subprocess.run([promtool, "check", "metrics"], input=text, text=True,
                                capture_output=True, check=False)
        t.expect("error" not in judged.stderr, f"promtool says {judged.stderr!r}")
    return found


def value(found, name):
    return found[f"tidemark_{name}"][0][1]


@case("metrics/trace", "Prometheus gets other figures than the report's, or cannot read them")
def trace(t):
    t.record(["page"])
    report = t.report()
    with Server(t, t.trace) as server:
        status, headers, body = server.request("/metrics")
        t.equal("status", status, 200)
        t.expect(headers["Content-Type"].startswith("text/plain; version=0.0.4"),
                 f"type {headers['Content-Type']}")
        found = parse(t, body.decode())
        for asked, most in (("1", 1), ("0", 0), ("500", 500)):
            some = parse(t, server.request(f"/metrics?sites={asked}")[2].decode())
            sites = some.get("tidemark_site_live_bytes", [])
            t.expect(len(sites) <= most and (len(sites) > 0) == (most > 0), f"{len(sites)} of {asked} sites")
        for wrong in ("sites=-1", "sites=x", "sites=1001", "site=1"):
            status, _, body = server.request(f"/metrics?{wrong}")
            t.expect(status == 400 and b"sites" in body, f"{wrong}: {status} {body[:200]}")
    for name, key in (("live_bytes", "unfreed_bytes"), ("live_blocks", "unfreed_allocations"),
                      ("peak_bytes", "peak_bytes"), ("allocations_total", "allocations"),
                      ("allocated_bytes_total", "allocated_bytes"), ("frees_total", "frees"),
                      ("temporary_allocations_total", "temporary_allocations"),
                      ("lost_events_total", "lost_events")):
        t.equal(name, value(found, name), report[key])
    t.equal("recording", value(found, "recording"), 0)
    labels = found["tidemark_live_bytes"][0][0]
    t.equal("labels", (labels["program"], labels["pid"]), ("page", str(report["pid"])))
    t.expect(len(found["tidemark_site_live_bytes"]) <= 10, "more than ten sites")


@case("metrics/sampled", "Prometheus gets figures that nobody knows where blocks are sampled")
def sampled(t):
    t.record(["page"], ["--sample", "1K"])
    report = t.report()
    with Server(t, t.trace) as server:
        found = parse(t, server.request("/metrics")[2].decode())
    t.equal("allocations", value(found, "allocations_total"), report["allocations"])
    t.expect(value(found, "live_bytes_error") > 0, "estimates without their error")
    t.expect("tidemark_temporary_allocations_total" not in found, "temporary blocks of a sample")
    shown = t.tool("report", t.trace).out
    line = next(line for line in shown.splitlines() if line.startswith("allocations "))
    t.expect(line.split()[1] == "about", line)


def steady(t):
    return [t.tidemark, "run", "-o", t.trace, "--metrics", "127.0.0.1:0", "--",
            t.target("steady"), "1"]


def address_of(watch):
    """Where the figures are, once the program is ready."""
    error = watch.process.stderr.fileno()
    watch.wait_for("figures for Prometheus at ", error)
    address = watch.read_until("\n", error)
    watch.text = ""
    watch.wait_for("ready")
    return address


@case("metrics/run", "a recording that goes on cannot be watched by Prometheus")
def run(t):
    with Watch(t.start(steady(t)), t.seconds) as watch:
        address = address_of(watch)

        def ask():
            with urllib.request.urlopen(address, timeout=t.seconds) as answer:
                return parse(t, answer.read().decode())

        def has_all():
            found = ask()
            sites = {labels["function"]: bytes_ for labels, bytes_ in
                     found.get("tidemark_site_live_bytes", [])}
            return found if sites.get("first_malloc") == sum(range(1001)) else None

        found = watch.poll(has_all, "all blocks")
        t.equal("recording", value(found, "recording"), 1)
        t.equal("lost_events_total", value(found, "lost_events_total"), 0)
        t.expect(value(found, "recorder_cpu_seconds_total") >= 0, "no CPU time of the recorder")
        t.expect(value(found, "recorder_resident_bytes") > 1 << 20, "no memory of the recorder")
        facts = t.trace.stat()  # with a hole, while it is written
        t.expect(value(found, "file_bytes") < facts.st_size / 2,
                 f"{value(found, 'file_bytes')} bytes, of {facts}")
        watch.send(b"x")
        t.equal("status", watch.ended(), 3)
        try:
            urllib.request.urlopen(address, timeout=t.seconds).close()
            t.expect(False, "the figures outlive the program")
        except OSError:
            pass


def port_of(pid):
    """Where a process listens, as the kernel says; None if it does not yet."""
    inodes = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
        except OSError:
            continue
        if found:
            inodes.add(found[1])
    for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            return int(fields[1].split(":")[1], 16)
    return None


class Prometheus:
    """Debian's, scraping one address four times a second, for the time of a case."""
    def __init__(self, t, address):
        program = t.need_tool("prometheus")
        host = address.split("/")[2]
        config = t.folder / "prometheus.yml"
        config.write_text("global:\n  scrape_interval: 250ms\n  scrape_timeout: 250ms\n"
                          "scrape_configs:\n  - job_name: tidemark\n    static_configs:\n"
                          f"      - targets: ['{host}']\n")
        self.watch = Watch(t.start([program, f"--config.file={config}",
                                    f"--storage.tsdb.path={t.folder / 'tsdb'}",
                                    "--web.listen-address=127.0.0.1:0"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), t.seconds)
        self.t, self.port = t, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watch.__exit__()

    def ask(self, query):
        """The series that answer a query: labels and value; none while it is not up."""
        self.t.need(self.watch.process.poll() is None, "prometheus does not start")
        self.port = self.port or port_of(self.watch.process.pid)
        if not self.port:
            return []
        text = urllib.parse.quote(query)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?query={text}",
                                        timeout=self.t.seconds) as answer:
                found = json.load(answer)["data"]["result"]
        except OSError:  # it is still getting up
            return []
        return [(one["metric"], float(one["value"][1])) for one in found]


@case("metrics/prometheus", "Debian's Prometheus cannot scrape what is being recorded")
def prometheus(t):
    t.need_tool("prometheus")
    with Watch(t.start(steady(t)), t.seconds) as watch:
        address = address_of(watch)
        with Prometheus(t, address) as server:
            watch.poll(lambda: [one for _, one in server.ask("up") if one == 1], "the target up")
            kept = sum(range(1001))
            sites = watch.poll(lambda: server.ask(
                f'tidemark_site_live_bytes{{function="first_malloc"}} == {kept}'), "all blocks")
            labels = sites[0][0]
            t.equal("program", labels["program"], "steady")
            t.expect(labels["module"].endswith("/steady"), f"module {labels['module']!r}")
            for name in ("live_bytes", "peak_bytes", "allocations_total", "rss_bytes",
                         "lost_events_total", "recorder_cpu_seconds_total",
                         "recorder_resident_bytes"):
                watch.poll(lambda: server.ask(f"tidemark_{name}"), name)
            t.equal("lost", server.ask("tidemark_lost_events_total")[0][1], 0)
            watch.poll(lambda: server.ask("rate(tidemark_allocated_bytes_total[1m])"), "a rate")
        watch.send(b"x")
        t.equal("status", watch.ended(), 3)


@case("metrics/rotated", "after a rotation Prometheus goes on seeing the old file")
def rotated(t):
    command = [t.tidemark, "run", "-o", t.folder / "r.%i.tide", "--metrics", "127.0.0.1:0", "--",
               t.target("steady"), "1"]
    with Watch(t.start(command), t.seconds) as watch:
        error = watch.process.stderr.fileno()
        watch.wait_for("figures for Prometheus at ", error)
        address = watch.read_until("\n", error)
        watch.text = ""
        watch.wait_for("ready")
        pid = watch.process.pid

        def ask():
            with urllib.request.urlopen(address, timeout=t.seconds) as answer:
                return parse(t, answer.read().decode())

        def traces():
            return {labels["trace"] for labels, one in ask()["tidemark_recording"] if one == 1}

        first = watch.poll(traces, "the first file")
        turned = t.tool("ctl", str(pid), "rotate")
        t.equal(f"rotate says {turned.err!r}", turned.status, 0)
        watch.poll(lambda: traces() and not traces() & first, "the second file alone")
        # It inherits what lives: that is in its file some milliseconds later.
        watch.poll(lambda: [one for labels, one in ask()["tidemark_live_bytes"]
                            if labels["trace"] not in first] == [float(sum(range(1001)))],
                   "the live bytes that it inherited")
        watch.send(b"x")
        t.equal("status", watch.ended(), 3)


@case("metrics/mistakes", "a mistake is not explained, or more than the figures can be had")
def mistakes(t):
    t.record(["simple", "0"])
    with Server(t, t.trace, options=("--listen", "127.0.0.1:0", "--metrics-only")) as server:
        t.expect("/metrics" in server.first, f"says {server.first!r}")
        server.fails("/", 404, "Only /metrics")
        server.fails("/api/v1/traces", 404, "Only /metrics")
        t.equal("status", server.request("/metrics")[0], 200)
        t.equal("status with a stranger's name", server.request("/metrics", {"Host": "evil.example"})[0], 403)
    for options, words in ((["--recorder", "x"], "--recorder"), (["--listen", "nowhere"], "nowhere")):
        result = t.tool("serve", *options, t.trace)
        t.equal("status", result.status, 2)
        t.expect(words in result.err, f"says {result.err!r}")
    result = t.tool("run", "-o", t.folder / "other.tide", "--metrics")
    t.equal("status without an address", result.status, 2)
