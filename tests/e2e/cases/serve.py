# SPDX-License-Identifier: Apache-2.0
"""tidemark serve: the requests that the page and scripts make, and who may make them."""
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse

import openapi
from harness import Failure, case


class Server:
    """The server while a case runs. Its port is the one it says."""
    def __init__(self, t, *paths, options=("--listen", "127.0.0.1:0"), env=None):
        self.t = t
        self.process = subprocess.Popen(
            [str(t.tidemark), "serve", *options, *map(str, paths)], cwd=t.folder, text=True,
            env=t.environment(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.first = self.process.stdout.readline()
        found = re.search(r"http://([^/:]+|\[[^]]+\]):(\d+)/(?:\?token=(\w+))?", self.first)
        if not found:
            self.process.kill()
            out, err = self.process.communicate()
            raise Failure(f"serve did not start: {self.first}{out}{err}")
        self.host, self.port, self.token = found[1].strip("[]"), int(found[2]), found[3]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Failure("serve does not end on SIGTERM") from None

    def request(self, path, headers=None, method="GET", host="127.0.0.1"):
        """Status, headers and body."""
        connection = http.client.HTTPConnection(host, self.port, timeout=self.t.seconds)
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), body

    def get(self, what, trace="last", **params):
        """The JSON of a request about a trace; it must succeed."""
        query = urllib.parse.urlencode(params)
        path = f"/api/v1/traces/{trace}/{what}" + (f"?{query}" if query else "")
        status, _headers, body = self.request(path)
        self.t.need(status == 200, f"GET {path}: {status}: {body[:300]!r}")
        return json.loads(body)

    def fails(self, path, wanted, part):
        """The request is refused with that status and a sentence that has `part` in it."""
        status, _headers, body = self.request(path)
        self.t.equal(f"{path}: status", status, wanted)
        try:
            message = json.loads(body)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            message = f"no sentence: {body[:200]!r}"
        self.t.expect(part in message, f"{path}: says {message!r}")


# simple: simple_keep allocates 0 to 99 bytes and keeps them, simple_drop 1000 to 1099 and frees them.
KEPT = sum(range(100))
DROPPED = sum(range(1000, 1100))


@case("serve/figures", "the page shows other figures than the program's")
def figures(t):
    t.record(["simple", "3"])
    with Server(t, t.trace) as server:
        summary = server.get("summary")
        t.equal("allocations", summary["allocations"], 200)
        t.equal("peak_bytes", summary["peak_bytes"], KEPT + DROPPED)
        t.equal("unfreed_bytes", summary["unfreed_bytes"], KEPT)
        t.equal("exit_status", summary["exit_status"], 3)
        t.equal("complete", summary["complete"], True)
        for mode, name, figure, bytes_, blocks in [
                ("peak", "simple_drop", "peak", DROPPED, 100),
                ("live", "simple_keep", "unfreed", KEPT, 100),
                ("allocated", "simple_drop", "allocated", DROPPED, None),
                ("freed", "simple_drop", "freed", DROPPED, None)]:
            first = server.get("sites", mode=mode)["rows"][0]
            t.equal(f"{mode}: site", first["function"], name)
            t.equal(f"{mode}: bytes", first[f"{figure}_bytes"], bytes_)
            if blocks:
                t.equal(f"{mode}: blocks", first[f"{figure}_allocations"], blocks)
        functions = {row["function"]: row for row in server.get("functions", mode="peak")["rows"]}
        t.equal("main: inclusive", functions["main"]["inclusive"]["peak_bytes"], KEPT + DROPPED)
        t.equal("main: self", functions["main"]["self"]["peak_bytes"], 0)
        detail = server.get("function", name="main", mode="peak")
        callees = {row["function"]: row["peak_bytes"] for row in detail["callees"]}
        t.equal("callees of main", callees, {"simple_keep": KEPT, "simple_drop": DROPPED})
        sizes = server.get("sizes")["buckets"]
        t.equal("sizes", sum(one["count"] for one in sizes), 200)
        big = [one for one in sizes if one["least"] <= 1050 <= one["most"]][0]
        t.equal("sizes: who", big["sites"][0], {"function": "simple_drop", "count": 76})
        lives = server.get("lifetimes")["buckets"]
        t.equal("lifetimes", sum(one["count"] for one in lives), 100)
        threads = server.get("threads")["threads"]
        t.equal("threads", [(one["allocations"], one["frees"]) for one in threads], [(200, 100)])


@case("serve/tree", "the flame graph's boxes have other widths than the stacks")
def tree(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        for direction in ("top_down", "bottom_up"):
            got = server.get("tree", mode="peak", direction=direction)
            names = [None] + [got["frames"][at]["function"] for at in got["frame"][1:]]
            t.equal(f"{direction}: the root", got["value"][0], KEPT + DROPPED)
            for name, bytes_ in (("simple_keep", KEPT), ("simple_drop", DROPPED)):
                at = [i for i, one in enumerate(names) if one == name]
                t.equal(f"{direction}: {name}", [got["value"][i] for i in at], [bytes_])
            for i in range(1, len(names)):
                t.expect(got["parent"][i] < i, f"{direction}: a child before its parent")
        names = [got["frames"][at]["function"] for at in got["frame"]]
        key = got["key"][names.index("simple_drop", 1)]
        below = server.get("tree", mode="peak", direction="bottom_up", path=str(key))
        t.equal("zoomed: the root", below["value"][0], DROPPED)
        one = server.get("tree", mode="peak", nodes=1)
        t.equal("one node", len(one["value"]), 2)
        text = server.request("/api/v1/traces/last/tree.txt?mode=peak")[2].decode()
        t.expect("simple_drop" in text and "105 kB" in text, f"as text: {text[:400]}")


@case("serve/blocks", "single blocks are wrong, missing or twice there")
def blocks(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        got = server.get("blocks", limit=0)["blocks"]
        t.equal("how many", len(got), 200)
        t.equal("sizes", sorted(one["bytes"] for one in got),
                list(range(100)) + list(range(1000, 1100)))
        t.equal("live", sum(one["end_ns"] is None for one in got), 100)
        pages, first = [], 0
        while first is not None:
            page = server.get("blocks", limit=30, first=first)
            pages += page["blocks"]
            first = page["next_first"]
        t.equal("page by page", pages, got)
        live = server.get("blocks", blocks="live", limit=0)["blocks"]
        t.equal("live ones", {one["site"] for one in live}, {"simple_keep"})
        large = server.get("blocks", filter="size>=1050", limit=0)["blocks"]
        t.equal("by size", len(large), 50)
        one = server.get("blocks", filter=f"address={large[0]['address']}", limit=0)["blocks"]
        t.expect(large[0]["block"] in [each["block"] for each in one], "not found by its address")
        frames = server.get(f"stacks/{large[0]['stack']}")["frames"]
        t.expect("simple_drop" in [frame["function"] for frame in frames], f"stack: {frames}")


@case("serve/ranges", "a selected range shows figures of another")
def ranges(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        every = server.get("blocks", limit=0)["blocks"]
        middle = every[99]["birth_ns"]
        want = [one for one in every if one["birth_ns"] <= middle]
        got = server.get("sites", mode="allocated", to=f"{middle}ns")
        t.equal("allocated until then", got["totals"]["allocated_bytes"],
                sum(one["bytes"] for one in want))
        curve = server.get("timeline", points=50, top=4)
        t.equal("timeline: allocations", sum(curve["allocations"]), 200)
        t.equal("timeline: live at the end", curve["live_bytes"][-1], KEPT)
        t.equal("timeline: largest", max(curve["max_live_bytes"]), KEPT + DROPPED)
        names = {one["function"]: one for one in curve["sites"]}
        t.equal("timeline: sites", set(names), {"simple_keep", "simple_drop"})
        t.equal("timeline: of a site", sum(names["simple_drop"]["allocations"]), 100)
        t.equal("per cent", server.get("sites", **{"from": "0%", "to": "100%"})["totals"],
                server.get("sites")["totals"])


@case("serve/diff", "two runs or ranges are compared wrongly")
def diff(t):
    t.record(["simple", "0"])
    other = t.folder / "other.tide"
    shutil.copy(t.trace, other)
    with Server(t, t.trace, other) as server:
        traces = json.loads(server.request("/api/v1/traces")[2])["traces"]
        ids = {one["name"]: one["id"] for one in traces}
        same = server.get("diff", trace=ids["trace.tide"], **{"with": ids["other.tide"]})
        t.equal("of a copy", {row["state"] for row in same["rows"]}, {"same"})
        every = server.get("blocks", limit=0)["blocks"]
        early = [one for one in every if one["birth_ns"] <= every[49]["birth_ns"]]
        got = server.get("diff", mode="allocated", base_to=f"{every[49]['birth_ns']}ns")
        for name in ("simple_keep", "simple_drop"):
            row, = [one for one in got["rows"] if one["function"] == name]
            t.equal(f"{name}: before", row["before"]["allocations"],
                    sum(one["site"] == name for one in early))
            t.equal(f"{name}: after", row["after"]["allocations"], 100)
            t.equal(f"{name}: state", row["state"], "grown")
        names = got["tree"]["function"]
        t.equal("tree: after", got["tree"]["after"][names.index("simple_drop")], DROPPED)
        t.equal("tree: root", got["tree"]["after"][0], KEPT + DROPPED)
        stacks = server.get("diff", mode="allocated", base_to=f"{every[49]['birth_ns']}ns", group="stack")
        drop, = [one for one in stacks["rows"] if one["function"] == "simple_drop"]
        t.equal("stack: after", drop["after"]["allocations"], 100)
        called = [frame["function"] for frame in drop["frames"]]
        t.expect(called.index("simple_drop") < called.index("main"), f"frames: {called}")
        document = openapi.load()
        described = document["paths"]["/api/v1/traces/{trace}/diff"]["get"]["responses"]["200"]
        schema = described["content"]["application/json"]["schema"]
        t.equal("stacks as documented", openapi.problems(document, schema, stacks), [])
        flat = server.get("diff", mode="allocated", base_to=f"{every[49]['birth_ns']}ns", group="function")
        main, = [one for one in flat["rows"] if one["function"] == "main"]
        t.equal("function: with all it calls", main["after"]["allocated_bytes"], KEPT + DROPPED)
        server.fails("/api/v1/traces/last/diff", 400, "base_from")
        server.fails("/api/v1/traces/last/diff?with=000000000000", 404, "traces")


@case("serve/source", "a source file is not shown, or any file is")
def source(t):
    t.record(["simple", "0"])
    frames = t.report(None, "--stacks")["stack_list"][0]["frames"]
    file = [one["file"] for one in frames if one["function"].startswith("simple_")][0]
    name = file.rpartition("/")[2]
    copy = t.folder / "elsewhere"
    copy.mkdir()
    text = open(file, encoding="utf-8").read().split("\n")
    (copy / name).write_text("\n".join(["/* moved */"] + text))
    with Server(t, t.trace) as server:
        got = server.get("source", file=file, mode="peak")
        t.equal("its text", [one["text"] for one in got["text"]][:20], text[:20])
        by_line = {one["line"]: one["inclusive"] for one in got["lines"]}
        keep = [i + 1 for i, one in enumerate(text) if "KEEP(simple_keep(i))" in one][0]
        t.equal("a line's figure", by_line.get(keep), KEPT)
        path = "/api/v1/traces/last/source?file="
        server.fails(path + "/etc/passwd", 404, "no frame")
        server.fails(path + urllib.parse.quote(str(t.trace)), 404, "no frame")
        server.fails("/api/v1/traces/last/source", 400, "file=")
    for option in (("--source-map", f"{file.rpartition('/')[0]}={copy}"), ("--source-dir", copy)):
        with Server(t, t.trace, options=("--listen", "127.0.0.1:0", *map(str, option))) as server:
            got = server.get("source", file=file)
            t.equal(f"{option[0]}: found", got["found"], str(copy / name))
            t.equal(f"{option[0]}: text", got["text"][0]["text"], "/* moved */")


@case("serve/guard", "a page of a stranger can read traces")
def guard(t):
    t.record(["simple", "0"])
    path = "/api/v1/traces"
    with Server(t, t.trace) as server:
        host = f"127.0.0.1:{server.port}"
        t.equal("as it is", server.request(path)[0], 200)
        t.equal("rebound name", server.request(path, {"Host": "evil.example"})[0], 403)
        t.equal("other site", server.request(path, {"Origin": "http://evil.example"})[0], 403)
        t.equal("own page", server.request(path, {"Origin": f"http://{host}"})[0], 200)
        t.equal("POST", server.request(path, method="POST")[0], 405)
        status, headers, _body = server.request("/")
        t.equal("the page", status, 200)
        policy = headers.get("Content-Security-Policy", "")
        t.expect("default-src 'none'" in policy and "unsafe" not in policy, policy)
        t.equal("sniffing", headers.get("X-Content-Type-Options"), "nosniff")
        for bad in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/app.js/..",
                    f"/{t.trace}"):
            t.equal(f"{bad}: status", server.request(bad)[0], 404)
        with socket.create_connection(("127.0.0.1", server.port)) as wire:
            wire.sendall(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            t.expect(b" 200 " not in wire.recv(100), "an endless address is answered")
        t.equal("after that", server.request(path)[0], 200)


@case("serve/token", "who comes from outside needs no token")
def token(t):
    t.record(["simple", "0"])
    path = "/api/v1/traces"
    with Server(t, t.trace, options=("--listen", "0.0.0.0:0")) as server:
        t.need(server.token is not None, f"no token in {server.first!r}")
        t.equal("without", server.request(path)[0], 401)
        t.equal("the page without", server.request("/")[0], 401)
        t.equal("wrong", server.request(path + "?token=" + "a" * 32)[0], 401)
        status, headers, _body = server.request("/?token=" + server.token)
        t.equal("in the address", status, 200)
        cookie = headers.get("Set-Cookie", "")
        t.expect("HttpOnly" in cookie and "SameSite=Strict" in cookie, f"cookie: {cookie!r}")
        t.equal("as a cookie", server.request(path, {"Cookie": cookie.split(";")[0]})[0], 200)
        bearer = {"Authorization": f"Bearer {server.token}"}
        t.equal("as a header", server.request(path, bearer)[0], 200)
    with Server(t, t.trace, options=("--listen", "127.0.0.1:0", "--token", "sesame")) as server:
        t.equal("own token", server.request(path + "?token=sesame")[0], 200)
        t.equal("without own token", server.request(path)[0], 401)


@case("serve/mistakes", "a mistake in a request gives wrong figures instead of a sentence")
def mistakes(t):
    t.record(["simple", "0"])
    with Server(t, t.trace) as server:
        trace = "/api/v1/traces/last/"
        server.fails("/api/v1/nothing", 404, "GET /api/v1")
        server.fails("/api/v1/traces/000000000000/summary", 404, "/api/v1/traces")
        server.fails(trace + "sites?colour=red", 400, "colour")
        server.fails(trace + "sites?mode=dead", 400, "live|allocated")
        server.fails(trace + "sites?limit=many", 400, "limit")
        server.fails(trace + "sites?filter=size%3E%3E3", 400, "character")
        server.fails(trace + "sites?from=soon", 400, "soon")
        server.fails(trace + "sites?from=90%25&to=10%25", 400, "from")
        server.fails(trace + "sites?fold=everything", 400, "fold")
        server.fails(trace + "tree?path=1.x", 400, "path")
        server.fails(trace + "function", 400, "name=")
        server.fails(trace + "function?name=nobody_is_called_so", 404, "nobody_is_called_so")
        server.fails(trace + "stacks/999999", 404, "stack")
        index = json.loads(server.request("/api/v1")[2])
        t.expect(len(index["requests"]) > 10, f"the list of requests: {index}")
        took = server.request(trace + "summary")[1].get("Server-Timing", "")
        t.expect(re.fullmatch(r"total;dur=[0-9.]+", took), f"how long it took: {took!r}")


@case("serve/folder", "a folder does not show the traces in it, or not those that come later")
def folder(t):
    t.record(["simple", "0"])
    traces = t.folder / "traces"
    traces.mkdir()
    with Server(t, traces) as server:
        def names():
            return [one["name"] for one in json.loads(server.request("/api/v1/traces")[2])["traces"]]
        t.equal("empty", names(), [])
        server.fails("/api/v1/traces/last/summary", 404, "trace")
        shutil.copy(t.trace, traces / "one.tide")
        (traces / "notes.txt").write_text("no trace")
        (traces / "broken.tide").write_text("no trace either")
        t.equal("later", sorted(names()), ["broken.tide", "one.tide"])
        ids = {one["name"]: one["id"]
               for one in json.loads(server.request("/api/v1/traces")[2])["traces"]}
        t.equal("summary", server.get("summary", trace=ids["one.tide"])["allocations"], 200)
        status, _headers, body = server.request(f"/api/v1/traces/{ids['broken.tide']}/summary")
        t.expect(status in (422, 500) and b"broken.tide" in body, f"{status}: {body[:200]!r}")


@case("serve/growing", "a trace that is still written cannot be watched")
def growing(t):
    command = [str(t.tidemark), "run", "-q", "-o", str(t.trace), "--", str(t.target("killed"))]
    (t.folder / "counts").write_bytes(b"")
    with Server(t, t.folder) as server:
        program = subprocess.Popen(command, cwd=t.folder, env=t.environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            seen, deadline = [], time.monotonic() + t.seconds
            while len(set(seen)) < 3 and time.monotonic() < deadline:
                status, _headers, body = server.request("/api/v1/traces/last/summary")
                if status == 200:
                    summary = json.loads(body)
                    seen.append(summary["allocations"])
                    t.equal("complete", summary["complete"], False)
                time.sleep(0.2)
            t.expect(len(set(seen)) >= 3, f"the figures do not move: {seen}")
            t.expect(seen == sorted(seen), f"the figures fall: {seen}")
        finally:
            program.terminate()
            program.wait()


@case("serve/command", "a mistake in the command line is not explained")
def command(t):
    t.record(["simple", "0"])
    for arguments, status, part in [
            (("--listen", "example.org:80", t.trace), 2, "127.0.0.1"),
            (("--listen", "127.0.0.1:99999", t.trace), 2, "127.0.0.1:8080"),
            ((t.folder / "nothing.tide",), 1, "nothing.tide"),
            (("/etc/passwd",), 1, "is neither a trace"),
            (("--no-such-option",), 2, "--no-such-option")]:
        result = t.tool("serve", *arguments)
        t.equal(f"{arguments}: status", result.status, status)
        t.expect(part in result.err, f"{arguments}: {result.err!r}")
    help_ = t.tool("serve", "--help")
    t.expect(help_.status == 0 and "--listen" in help_.out, help_.out)
    with Server(t, t.trace) as first:
        taken = ("--listen", f"127.0.0.1:{first.port}")
        with Server(t, t.trace, options=taken) as second:
            t.expect(first.port < second.port < first.port + 20, f"{first.port} {second.port}")
    with Server(t, t.trace, env={"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}) as server:
        line = server.process.stdout.readline()
        t.expect(f"ssh -L {server.port}:127.0.0.1:{server.port}" in line, line)


@case("serve/openapi", "the OpenAPI document describes other answers than the server gives")
def documented(t):
    document = openapi.load()
    t.record(["simple", "0"], ["--free-stacks"])
    samples = {"{item}": "1"}
    source = urllib.parse.quote(t.report(None, "--stacks")["stack_list"][0]["frames"][0]["file"])
    needed = {"/function": "name=main", "/diff": "base_to=50%25", "/source": f"file={source}"}
    with Server(t, t.trace) as server:
        index = json.loads(server.request("/api/v1")[2])["requests"]
        t.equal("requests", sorted(document["paths"]), sorted(one["path"] for one in index))
        for one in index:
            get = document["paths"][one["path"]]["get"]
            t.equal(f"{one['path']}: parameters",
                    sorted(each["name"] for each in get["parameters"] if each["in"] == "query"),
                    sorted(each["name"] for each in one["parameters"]))
            for each in one["parameters"]:
                described = [known for known in get["parameters"] if known["name"] == each["name"]]
                if "choices" in each:
                    t.equal(f"{one['path']}: {each['name']}", described[0]["schema"].get("enum"),
                            each["choices"].split("|"))
            item = "collapsed" if "/export/" in one["path"] else samples["{item}"]
            path = one["path"].replace("{trace}", "last").replace("{item}", item)
            query = [text for end, text in needed.items() if path.endswith(end)]
            if path.endswith("/events"):  # has no end: served/events reads it
                continue
            status, headers, body = server.request(path + "?" + "&".join(query))
            t.equal(f"{path}: status", status, 200)
            (kind, described), = get["responses"]["200"]["content"].items()
            t.expect(headers["Content-Type"].startswith(kind), f"{path}: {headers['Content-Type']}")
            if kind == "application/json":
                for problem in openapi.problems(document, described["schema"], json.loads(body)):
                    t.problems.append(f"{path}: {problem}")
        error = json.loads(server.request("/api/v1/nothing")[2])
        t.equal("an error", openapi.problems(document, {"$ref": "/Error"}, error), [])


@case("serve/run", "the page of a running program cannot be seen")
def run_serve(t):
    process = subprocess.Popen(
        [str(t.tidemark), "run", "-o", str(t.trace), "--listen", "127.0.0.1:0", "--",
         str(t.target("simple")), "7"], cwd=t.folder, text=True, env=t.environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        said = ""
        while "until Ctrl-C" not in said:
            line = process.stderr.readline()
            t.need(line != "", f"it ended: {said}")
            said += line
        port = int(re.search(r"http://127.0.0.1:(\d+)/", said)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=t.seconds)
        connection.request("GET", "/api/v1/traces/last/summary")
        summary = json.loads(connection.getresponse().read())
        connection.close()
        t.equal("allocations", summary["allocations"], 200)
        process.send_signal(signal.SIGINT)
        out, _err = process.communicate(timeout=t.seconds)
        t.equal("exit status", process.returncode, 7)
        t.equal("output", out, "simple was here\n")
    finally:
        process.kill()
        process.wait()
    with socket.socket() as probe:
        t.expect(probe.connect_ex(("127.0.0.1", port)) != 0, "the server lives on")


@case("serve/analyze", "--analyze shows neither the page nor the report")
def analyze(t):
    t.record(["simple", "0"])
    if "DISPLAY" in t.environment() or "WAYLAND_DISPLAY" in t.environment():
        t.skip("there is a display here")
    result = t.tool("--analyze", t.trace)
    t.equal("without a display", result.status, 0)
    t.expect("simple_drop" in result.out, f"no report: {result.out[:300]}")


@case("serve/saved", "the page as one file lacks figures, or runs what a name says")
def saved(t):
    t.record(["page"])
    out = t.folder / "page.html"
    result = t.tool("export", t.trace, "--format", "html", "-o", out)
    if "without its page" in result.err:
        t.skip("built without the page")
    t.need(result.status == 0, f"export: {result.status}: {result.err}")
    text = out.read_text()
    data = re.search(r'id="tidemark-saved">(.*?)</script>', text, re.S)[1]
    t.expect("<" not in data, "a name of the trace can end the element")
    answers = json.loads(data)
    t.equal("allocations", answers["summary"]["allocations"],
            t.report()["allocations"])
    tree = answers["tree direction=top_down order=peak_bytes"]
    t.equal("peak", tree["value"][0], answers["summary"]["peak_bytes"])
    names = {row["function"] for row in answers["functions group=function"]["rows"]}
    t.expect("<img src=x onerror=alert(1)>" in names, f"names: {sorted(map(str, names))}")
    t.expect(not re.search(r'(src|href)="https?:', text), "it loads something from elsewhere")
    t.expect(out.stat().st_size < 20_000_000, f"{out.stat().st_size} bytes")
    part = t.tool("export", t.trace, "--format", "html", "--to", "50%", "-o", t.folder / "p.html")
    t.expect(part.status == 2 and "whole run" in part.err, f"a part: {part.status} {part.err}")
