# SPDX-License-Identifier: Apache-2.0
"""tidemark serve: events, replaced files, pivots, weights, far pages, settings, downloads."""
import gzip
import http.client
import json
import os
import shutil
import socket
import time

from cases.serve import DROPPED, KEPT, Server
from harness import case


class Events:
    """The stream of server-sent events, one by one."""
    def __init__(self, t, server, watch):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=t.seconds)
        self.connection.request("GET", f"/api/v1/events?watch={watch}")
        self.answer = self.connection.getresponse()

    def next(self, wanted):
        """The data of the next event of that name."""
        name = None
        for line in iter(self.answer.readline, b""):
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                name = text[7:]
            elif text.startswith("data: ") and name == wanted:
                return json.loads(text[6:])
        return None

    def close(self):
        self.connection.close()


@case("served/events", "the page does not learn that a trace has grown or come")
def events(t):
    t.record(["simple", "0"])
    traces = t.folder / "traces"
    traces.mkdir()
    shutil.copy(t.trace, traces / "one.tide")
    with Server(t, traces) as server:
        stream = Events(t, server, "last")
        t.expect(stream.answer.headers["Content-Type"].startswith("text/event-stream"), "its type")
        t.equal("at first: the list", stream.next("traces")["count"], 1)
        first = stream.next("trace")
        t.equal("at first: the file", first["file_bytes"], t.trace.stat().st_size)
        with open(traces / "one.tide", "ab") as file:
            file.write(b"more")
        t.equal("grown", stream.next("trace")["file_bytes"], first["file_bytes"] + 4)
        shutil.copy(t.trace, traces / "two.tide")
        t.equal("one more", stream.next("traces")["count"], 2)
        stream.close()


@case("served/ends", "the server does not end while a page is open")
def ends(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        stream = Events(t, server, "last")
        t.expect(stream.next("trace") is not None, "no event")
        # Server.__exit__ fails if it does not end.
    stream.close()


@case("served/replaced", "after rotation the page shows the figures of the file before")
def replaced(t):
    shown, after = t.folder / "shown.tide", t.folder / "after.tide"
    t.record(["simple", "0"])
    os.replace(t.trace, shown)
    t.record(["simple", "4"])
    os.replace(t.trace, after)
    with Server(t, shown) as server:
        trace = json.loads(server.request("/api/v1/traces")[2])["traces"][0]["id"]
        first = server.get("summary", trace=trace)
        t.equal("before", first["allocations"], 200)
        os.replace(after, shown)
        deadline = time.monotonic() + t.seconds
        summary = first
        while summary["version"] == first["version"] and time.monotonic() < deadline:
            time.sleep(0.1)
            summary = server.get("summary", trace=trace)
        t.equal("after", summary["exit_status"], 4)
        shown.unlink()
        t.equal("gone", server.get("summary", trace=trace)["exit_status"], 4)


def nodes(tree):
    """The names of the nodes with their values."""
    names = [tree["frames"][at]["function"] if i else None for i, at in enumerate(tree["frame"])]
    return list(zip(names, tree["value"]))


@case("served/pivot", "a pivot shows other callers or callees than the function has")
def pivot(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        below = server.get("tree", mode="peak", pivot="main")
        t.equal("the root", below["value"][0], KEPT + DROPPED)
        children = {name: value for i, (name, value) in enumerate(nodes(below))
                    if i and below["parent"][i] == 0}
        t.equal("what main calls", children, {"simple_keep": KEPT, "simple_drop": DROPPED})
        above = server.get("tree", mode="peak", pivot="simple_drop", direction="bottom_up")
        t.equal("who calls simple_drop", nodes(above)[:2], [(None, DROPPED), ("main", DROPPED)])
        none = server.get("tree", mode="peak", pivot="no such function")
        t.equal("of nothing", none["value"], [0])
        merged = server.get("tree", mode="peak", merge="module")
        modules = [merged["frames"][at]["module"] for at in merged["frame"][1:]]
        for i, parent in enumerate(merged["parent"][1:]):
            t.expect(not parent or modules[i] != modules[parent - 1], f"not merged: {modules}")
        t.equal("merged: the root", merged["value"][0], KEPT + DROPPED)


@case("served/recursion", "recursion is not collapsed, or takes figures with it")
def recursion(t):
    t.record(["deep", "recursion"])
    with Server(t, t.trace) as server:
        plain = server.get("tree", mode="allocated", nodes=100000)
        flat = server.get("tree", mode="allocated", fold="recursion", nodes=100000)
        t.expect(len(plain["value"]) > 500, f"not deep: {len(plain['value'])} nodes")
        t.equal("the whole", flat["value"][0], plain["value"][0])
        for i in range(1, len(flat["value"])):
            way, at = [], i
            while at:
                way.append(nodes(flat)[at][0])
                at = flat["parent"][at]
            named = [name for name in way if name]
            t.expect(len(named) == len(set(named)), f"twice on one way: {way}")


@case("served/held", "memory is weighted with another lifetime than it had")
def held(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        blocks = server.get("blocks", limit=0)["blocks"]
        to_ns = server.get("sites", mode="held")["to_ns"]
        for low, high in ((0, 1), (0.2, 0.7)):
            from_ns, end_ns = int(to_ns * low) // 1000 * 1000, int(to_ns * high) // 1000 * 1000
            if high == 1:
                end_ns = to_ns
            got = server.get("sites", mode="held", **{"from": f"{from_ns}ns", "to": f"{end_ns}ns"})
            want = {}
            for one in blocks:
                end = end_ns if one["end_ns"] is None else min(one["end_ns"], end_ns)
                life = max(0, end - max(one["birth_ns"], from_ns))
                want[one["site"]] = want.get(one["site"], 0) + one["bytes"] * life / 1e6
            for row in got["rows"]:
                exact = want[row["function"]]
                t.expect(abs(row["allocated_bytes"] - exact) <= 1 + exact * 1e-9,
                         f"{row['function']}: {row['allocated_bytes']}, not {exact}")


@case("served/fine", "sizes in fine steps are not those of the blocks")
def fine(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        sizes = [one["bytes"] for one in server.get("blocks", limit=0)["blocks"]]
        buckets = server.get("sizes", fine=1)["buckets"]
        t.equal("all", sum(one["count"] for one in buckets), len(sizes))
        for one in buckets:
            t.equal(f"{one['least']} to {one['most']}", one["count"],
                    sum(one["least"] <= size <= one["most"] for size in sizes))
            t.expect(one["most"] - one["least"] <= max(1, one["least"] / 8), f"too wide: {one}")


@case("served/interval", "stacks are chosen by another interval than that of their allocations")
def interval(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        spans = {}
        for one in server.get("blocks", limit=0)["blocks"]:
            first, last = spans.get(one["site"], (one["birth_ns"], one["birth_ns"]))
            spans[one["site"]] = (min(first, one["birth_ns"]), max(last, one["birth_ns"]))
        for site, (first, last) in spans.items():
            for params, there in (({"min_interval_ns": last - first}, True),
                                  ({"min_interval_ns": last - first + 1}, False),
                                  ({"max_interval_ns": last - first}, True)):
                got = server.get("stacks", mode="allocated", filter=f"site={site}", **params)
                t.equal(f"{site} {params}", got["count"] == 1, there)


@case("served/far", "a page far down the list of blocks is another one")
def far(t):
    t.record(["deep", "threads"])
    with Server(t, t.trace) as server:
        every = [one["block"] for one in server.get("blocks", limit=0)["blocks"]]
        t.expect(len(every) > 5000, f"too few blocks: {len(every)}")
        for skip in (0, 7, 4095, 4096, 5000, len(every) - 3, len(every), len(every) + 9000):
            got = server.get("blocks", limit=10, skip=skip)
            t.equal(f"after {skip}", [one["block"] for one in got["blocks"]],
                    every[skip:skip + 10])
        some = [one["block"] for one in server.get("blocks", filter="size>=32", limit=0)["blocks"]]
        got = server.get("blocks", filter="size>=32", limit=10, skip=len(some) // 2)
        t.equal("with a filter", [one["block"] for one in got["blocks"]],
                some[len(some) // 2:len(some) // 2 + 10])


@case("served/settings", "what --save keeps is not there the next time")
def settings(t):
    t.record(["simple", "0"])
    home = {"XDG_CONFIG_HOME": str(t.folder / "config")}
    file = t.folder / "config/tidemark/settings"
    options = ("--listen", "127.0.0.1:0", "--source-map", "/a=/b", "--source-dir", "/c",
               "--editor", "x://{file}", "--save")
    with Server(t, t.trace, options=options, env=home):
        lines = file.read_text().splitlines()
    t.equal("kept", lines[1:], ["source-map /a=/b", "source-dir /c", "editor x://{file}"])
    with Server(t, t.trace, env=home) as server:
        source = t.report(None, "--stacks")["stack_list"][0]["frames"][0]["file"]
        t.equal("used", server.get("source", file=source)["editor"], "x://{file}")
    file.write_text("# mine\n\nsource-map nonsense\n")
    wrong = t.tool("serve", str(t.trace), env=home)
    t.expect(wrong.status == 2 and "line 3" in wrong.err, wrong.err)


@case("served/download", "a format cannot be downloaded")
def download(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        formats = json.loads(server.request("/api/v1/formats")[2])["formats"]
        t.expect(len(formats) > 10, f"{formats}")
        for one in formats:
            path = f"/api/v1/traces/last/export/{one['name']}"
            status, headers, body = server.request(path)
            t.equal(f"{one['name']}: status", status, 200)
            t.expect(one["suffix"] in headers["Content-Disposition"], f"{one['name']}: {headers}")
            if body[:2] == b"\x1f\x8b":
                body = gzip.decompress(body)
            t.expect(len(body) > 50, f"{one['name']}: {len(body)} bytes")
        server.fails("/api/v1/traces/last/export/nothing", 404, "format")


@case("served/limits", "a client that sends too much or leaves harms others")
def limits(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        status, _headers, _body = server.request("/api/v1/traces?" + "x" * 40000)
        t.expect(status in (400, 413, 414, 431), f"a long request: {status}")
        many = "&".join(f"from={i}" for i in range(40))
        t.equal("many parameters", server.request(f"/api/v1/traces/last/sites?{many}")[0], 400)
        # Clients that say nothing, or leave in the middle of an answer.
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
        for one in silent[:25]:
            one.sendall(b"GET /api/v1/traces/last/tree?nodes=200000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            one.close()
        t.equal("the next one", server.get("summary")["allocations"], 200)
        for one in silent[25:]:
            one.close()
