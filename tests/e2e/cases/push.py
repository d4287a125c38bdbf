# SPDX-License-Identifier: Apache-2.0
"""--push: profiles sent to a receiver that takes them, refuses them, is slow, or is gone."""
import re
import threading
import urllib.request

from cases.attach import Attachee
from cases.export import decode
from cases.metrics import parse, value
from harness import case
from receiver import Receiver
from watch import Watch

# steady keeps one block each of 1 to 1000 bytes before it says "ready".
KEPT = sum(range(1001))


class Pushing:
    """steady, recorded, with its profiles pushed ten times a second and its figures at hand."""
    def __init__(self, t, receiver, path="/", command="run", rest=None):
        self.t = t
        options = ["-o", t.trace, "--push", receiver.url(path), "--push-interval", "100ms",
                   "--metrics", "127.0.0.1:0"]
        rest = rest or ["--", t.target("steady"), "1"]
        self.watch = Watch(t.start([t.tidemark, command, *options, *rest]), t.seconds)
        self.error = self.watch.process.stderr.fileno()
        self.watch.wait_for("figures for Prometheus at ", self.error)
        self.address = self.watch.read_until("\n", self.error)
        self.watch.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watch.__exit__()

    def figure(self, name):
        with urllib.request.urlopen(self.address, timeout=self.t.seconds) as answer:
            return value(parse(self.t, answer.read().decode()), name)

    def reaches(self, name, least):
        self.watch.poll(lambda: self.figure(name) >= least, f"{name} of {least}")

    def ready(self):
        self.watch.wait_for("ready")

    def finish(self):
        self.watch.send(b"x")
        self.t.equal("status", self.watch.ended(), 3)
        return self.watch.text + self.watch.process.stderr.read().decode()


def sums(t, body, number=0):
    """alloc_objects, alloc_space, inuse_objects, inuse_space of a profile."""
    path = t.folder / f"pushed{number}.pb.gz"
    path.write_bytes(body)
    profile = decode(t, path)
    strings = profile["string_table"]
    t.equal("types", [strings[one["type"][0]] for one in profile["sample_type"]],
            ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"])
    return [sum(sample["value"][i] for sample in profile.get("sample", [])) for i in range(4)]


@case("push/run", "the profiles that are pushed are not the program's")
def run(t):
    t.need_tool("protoc")
    path = "/in/{program}?pid={pid}&from={from}&until={until}&other={other}"
    with Receiver() as receiver, Pushing(t, receiver, path) as pushing:
        pushing.ready()

        def has_all():
            with receiver.lock:
                last = receiver.got[-1] if receiver.got else None
            return last and sums(t, last[2])[3] >= KEPT

        pushing.watch.poll(has_all, "all blocks")
        t.expect(pushing.figure("push_sent_total") > 0, "no profile was counted")
        pushing.finish()
        report = t.report()
        last_path, kind, body = receiver.got[-1]
    t.equal("type", kind, "application/octet-stream")
    parts = re.fullmatch(r"/in/steady\?pid=(\d+)&from=(\d+)&until=(\d+)&other={other}", last_path)
    t.need(parts, f"path {last_path!r}")
    t.equal("pid", int(parts[1]), report["pid"])
    t.expect(int(parts[2]) <= int(parts[3]), f"path {last_path!r}")
    t.equal("the last profile", sums(t, body),
            [report["allocations"], report["allocated_bytes"], report["unfreed_allocations"],
             report["unfreed_bytes"]])


@case("push/attach", "what is attached to cannot be pushed or watched by Prometheus")
def attach(t):
    with Receiver() as receiver, Attachee(t, "stress", "1") as it:
        with Pushing(t, receiver, command="attach", rest=[it.pid]) as pushing:
            pushing.reaches("allocations_total", 1000)
            pushing.reaches("push_sent_total", 1)
            t.equal("recording", pushing.figure("recording"), 1)
            t.equal("lost_events_total", pushing.figure("lost_events_total"), 0)
            t.expect(pushing.figure("recorder_resident_bytes") > 1 << 20, "no memory")
            t.tool("detach", it.pid)
            t.equal("status", pushing.watch.ended(), 0)
        it.finish()


@case("push/failing", "a receiver that fails, or is away for a while, costs profiles or the run")
def failing(t):
    with Receiver() as receiver:
        receiver.answers = [500, 503, 429, 500]
        with Pushing(t, receiver) as pushing:
            pushing.ready()
            pushing.reaches("push_failures_total", 4)
            pushing.reaches("push_sent_total", 1)
            t.equal("refused", pushing.figure("push_refused_total"), 0)
            receiver.close()
            pushing.reaches("push_failures_total", 6)
            sent = pushing.figure("push_sent_total")
            receiver.open()
            pushing.reaches("push_sent_total", sent + 3)
            receiver.answers = [404] * 3
            pushing.reaches("push_refused_total", 3)
            said = pushing.finish()
    for words in ("answered 500", "works again", "refused: 127.0.0.1:", "answered 404", "3 refused"):
        t.expect(words in said, f"{words!r} is not in {said!r}")
    paths = [path for path, _, _ in receiver.got]
    t.expect(len(paths) > 3, f"{len(paths)} profiles came")


@case("push/slow", "a receiver that never answers holds up the program, or the end of the run")
def slow(t):
    with Receiver() as receiver:
        receiver.slow = threading.Event()
        with Pushing(t, receiver) as pushing:
            pushing.ready()
            pushing.watch.poll(lambda: receiver.asked, "a profile on its way")
            pushing.reaches("push_waiting", 2)
            said = pushing.finish()
            t.expect("0 profiles were pushed" in said, f"says {said!r}")
    t.equal("profiles taken while nobody was told so", t.report()["lost_events"], 0)


@case("push/mistakes", "a mistake about pushing is not explained")
def mistakes(t):
    t.record(["simple", "0"])
    good = "http://127.0.0.1:1/"
    for options, words in (
            (["--push", "https://example.org/"], "proxy"),
            (["--push", "example.org"], "http://127.0.0.1:4040"),
            (["--push", "http://"], "http://127.0.0.1:4040"),
            (["--push", "http://host:70000/"], "http://127.0.0.1:4040"),
            (["--push", "http://a b/"], "http://127.0.0.1:4040"),
            (["--push", "http://me:secret@host/"], "password"),
            (["--push", good, "--push-interval", "soon"], "soon"),
            (["--push-interval", "5s"], "--push URL")):
        for command in (["run", *options, "--", t.target("simple")], ["attach", *options, "1"],
                        ["serve", *options, t.trace]):
            result = t.tool(*command)
            t.equal(f"{command}: status", result.status, 2)
            t.expect(words in result.err, f"{command} says {result.err!r}")
    for options, words in ((["--push-only"], "--push URL"),
                           (["--push", good, "--push-interval", "1ms"], "100 ms"),
                           (["--push", good, "--push-only", "--metrics-only"], "which")):
        result = t.tool("serve", *options, t.trace)
        t.equal(f"{options}: status", result.status, 2)
        t.expect(words in result.err, f"{options}: says {result.err!r}")
