# SPDX-License-Identifier: Apache-2.0
"""/metrics: what Prometheus reads, of a recording that goes on and of a trace that is there."""
import re
import shutil
import subprocess
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


@case("metrics/run", "a recording that goes on cannot be watched by Prometheus")
def run(t):
    command = [t.tidemark, "run", "-o", t.trace, "--metrics", "127.0.0.1:0", "--",
               t.target("steady"), "1"]
    with Watch(t.start(command), t.seconds) as watch:
        error = watch.process.stderr.fileno()
        watch.wait_for("figures for Prometheus at ", error)
        address = watch.read_until("\n", error)
        watch.text = ""
        watch.wait_for("ready")

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
        t.expect("tidemark_lost_events_total" not in found, "lost events are known too early")
        t.expect(value(found, "recorder_cpu_seconds_total") >= 0, "no CPU time of the recorder")
        t.expect(value(found, "recorder_resident_bytes") > 1 << 20, "no memory of the recorder")
        watch.send(b"x")
        t.equal("status", watch.ended(), 3)
        try:
            urllib.request.urlopen(address, timeout=t.seconds).close()
            t.expect(False, "the figures outlive the program")
        except OSError:
            pass


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
