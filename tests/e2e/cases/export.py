# SPDX-License-Identifier: Apache-2.0
"""Exports, judged by the tools that they are for.

`simple` keeps blocks of 0 to 99 bytes and drops blocks of 1000 to 1099 at its end:
100 + 100 blocks, 4950 + 104950 bytes, all live at the peak. `page` keeps 400 blocks
of 4096 bytes and 50 of 100, and makes 3000 of 64 + i % 64 for a moment; one of its
functions has markup for a name.
"""
import contextlib
import csv
import gzip
import io
import json
import os
import pathlib
import pty
import re
import subprocess
import time
import xml.etree.ElementTree

import openapi
from harness import case, run_program

KEPT, DROPPED = sum(range(100)), sum(range(1000, 1100))
PEAK = KEPT + DROPPED
CACHED, MARKED = 400 * 4096, 50 * 100
MARKUP = "<img src=x onerror=alert(1)>"
SCHEMA = pathlib.Path(__file__).resolve().parents[1] / "pprof.proto"


def export(t, form, *options, name="out", trace=None):
    """Writes a format into a file and gives its path."""
    out = t.folder / name
    result = t.tool("export", trace or t.trace, "--format", form, "-o", out, "--force", *options)
    t.need(result.status == 0, f"{form}: status {result.status}: {result.err[-400:]}")
    return out


def judge(t, *command):
    """What another tool says; it must accept what it was given."""
    t.need_tool(command[0])
    result = run_program(command, t.environment(), t.folder, t.seconds)
    t.need(result.status == 0, f"{command[0]}: status {result.status}: {result.err[-400:]}")
    return result.out


def collapsed(path):
    """{innermost function: figure}, and the whole lines."""
    lines = path.read_text().splitlines()
    return {line.rpartition(" ")[0].rpartition(";")[2]: int(line.rpartition(" ")[2])
            for line in lines}, lines


@case("export/collapsed", "flame graphs made from our stacks show other bytes")
def collapsed_stacks(t):
    t.record(["simple", "3"])
    sums, lines = collapsed(export(t, "collapsed"))
    t.equal("peak", sums, {"simple_drop": DROPPED, "simple_keep": KEPT})
    t.expect(all(";main;simple_" in line for line in lines), f"no path from main: {lines}")
    for options, wanted in ((("--mode", "live"), {"simple_keep": KEPT}),
                            (("--cost", "frees"), {"simple_drop": 100}),
                            (("--limit", "1"), {"simple_drop": DROPPED}),
                            (("--filter", "function:simple_keep"), {"simple_keep": KEPT}),
                            (("--filter", "size>=1050"),
                             {"simple_drop": sum(range(1050, 1100))}),
                            (("--at", "end"), {"simple_keep": KEPT})):
        t.equal(str(options), collapsed(export(t, "collapsed", *options))[0], wanted)
    folded = export(t, "collapsed", "--fold", "runtime")
    t.equal("folded", collapsed(folded)[0], sums)
    for suffix, tool in ((".gz", "gzip"), (".zst", "zstd")):
        packed = export(t, "collapsed", name=f"packed{suffix}")
        t.equal(f"unpacked by {tool}", judge(t, tool, "-dc", packed).splitlines(), lines)


def decode(t, path):
    """The profile as protoc reads it: {field: [values]} of the top, by our own schema."""
    data = gzip.decompress(path.read_bytes())
    protoc = t.need_tool("protoc")
    done = subprocess.run([protoc, f"-I{SCHEMA.parent}", "--decode=Profile", SCHEMA.name],
                          input=data, capture_output=True, cwd=SCHEMA.parent)
    t.need(done.returncode == 0, f"protoc: {done.stderr.decode()[-300:]}")
    profile, inner = {}, None
    for line in done.stdout.decode().splitlines():
        if line.endswith("{") and not line.startswith(" "):
            inner = {}
            profile.setdefault(line[:-2], []).append(inner)
        elif line == "}":
            inner = None
        elif line.strip().endswith("{"):
            inner.setdefault(line.strip()[:-2], []).append({})
        elif line.strip() != "}":
            key, _, value = line.strip().partition(": ")
            value = json.loads(value) if not value.startswith('"') else value[1:-1]
            deep = line.startswith("    ")
            where = profile if inner is None else inner["line"][-1] if deep else inner
            where.setdefault(key, []).append(value)
    return profile


@case("export/pprof", "pprof shows other figures, names or files than the trace has")
def pprof(t):
    t.record(["page"])
    profile = decode(t, export(t, "pprof", name="page.pb.gz"))
    strings = profile["string_table"]
    t.equal("string 0", strings[0], "")
    types = [strings[one["type"][0]] for one in profile["sample_type"]]
    t.equal("types", types, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"])
    t.equal("default", strings[profile["default_sample_type"][0]], "inuse_space")
    functions = {one["id"][0]: strings[one["name"][0]] for one in profile["function"]}
    places = {one["id"][0]: one for one in profile["location"]}
    sums = {}
    for sample in profile["sample"]:
        leaf = places[sample["location_id"][0]]
        name = functions[leaf["line"][0]["function_id"][0]]
        sums[name] = sample["value"]
        root = places[sample["location_id"][-1]]
        t.equal(f"root of {name}", functions[root["line"][-1]["function_id"][0]], "_start")
    t.equal("cache_insert", sums["cache_insert"], [400, CACHED, 400, CACHED])
    t.equal("parse_line", sums["parse_line"],
            [3000, sum(64 + i % 64 for i in range(3000)), 0, 0])
    t.equal("marked", sums[MARKUP.replace('"', '\\"')], [50, MARKED, 50, MARKED])
    paths = {strings[one["filename"][0]]: one for one in profile["mapping"]}
    main = paths[str(t.target("page"))]
    build_id = re.search(r"Build ID: (\w+)", judge(t, "readelf", "-n", t.target("page")))[1]
    t.equal("build-id", strings[main["build_id"][0]], build_id)
    for place in profile["location"]:
        module = next((one for one in profile["mapping"]
                       if one["id"] == place.get("mapping_id")), None)
        t.expect(module and module["memory_start"][0] <= place["address"][0]
                 < module["memory_limit"][0], f"{place} is not within its mapping")
    inlined = [place for place in profile["location"] if len(place.get("line", [])) > 1]
    t.equal("places with inlined frames have lines of several functions",
            all(len({line["function_id"][0] for line in place["line"]}) > 1
                for place in inlined), True)


UNITS = {"B": 1, "K": 1000, "M": 10**6, "G": 10**9}


def near(t, what, got, text):
    """A figure as heaptrack prints it: three digits."""
    number, unit = re.fullmatch(r"([\d.]+)([BKMG])", text).groups()
    step = UNITS[unit] / 10**len(number.partition(".")[2])
    t.expect(abs(got - float(number) * UNITS[unit]) <= step / 2 + 0.001,
             f"{what}: got {got}, heaptrack_print says {text}")


def heaptrack_totals(t, text, report):
    calls = int(re.search(r"calls to allocation functions: (\d+)", text)[1])
    t.equal("allocations", calls, report["allocations"])
    near(t, "peak", report["peak_bytes"],
         re.search(r"peak heap memory consumption: (\S+)", text)[1])
    near(t, "unfreed", report["unfreed_bytes"], re.search(r"total memory leaked: (\S+)", text)[1])


@case("export/heaptrack", "heaptrack shows other figures of our trace than we do", 120)
def heaptrack(t):
    for command in (["simple", "3"], ["page"], ["api_libc", "realloc"], ["threads"]):
        t.record(command)
        report = t.report(None, "--stacks")
        for suffix in (".zst", ".gz", ""):
            out = export(t, "heaptrack", name=f"file{suffix}")
            text = judge(t, "heaptrack_print", out)
            heaptrack_totals(t, text, report)
        # Its own way to tell stacks with their bytes: collapsed, by leaked or peak bytes.
        for kind, key in (("leaked", "unfreed_bytes"), ("peak", "peak_bytes"),
                          ("allocations", "allocations")):
            flame = t.folder / "flame"
            judge(t, "heaptrack_print", "-f", out, "-F", flame, "--flamegraph-cost-type", kind,
                  "-l", "1", "-p", "0", "-a", "0", "-T", "0")
            theirs = {}
            for line in flame.read_text().splitlines():
                names, _, cost = line.rpartition(" ")
                if int(cost):
                    leaf = [one for one in names.split(";") if one][-1]
                    theirs[leaf] = theirs.get(leaf, 0) + int(cost)
            ours = {}
            for stack in report["stack_list"]:
                name = stack["frames"][0]["function"] if stack["frames"] else None
                ours[name] = ours.get(name, 0) + stack[key]
            top = sorted(((cost, name) for name, cost in ours.items() if cost and name),
                         reverse=True)[:20]
            for cost, name in top:
                got = [value for leaf, value in theirs.items()
                       if leaf == name or leaf in name or name in leaf]
                t.expect(cost in got, f"{command}: {kind} of {name}: {got}, must be {cost}")


@case("export/speedscope", "speedscope shows other bytes")
def speedscope(t):
    t.record(["simple", "3"])
    file = json.loads(export(t, "speedscope").read_text())
    frames = file["shared"]["frames"]
    profiles = {one["name"]: one for one in file["profiles"]}
    t.equal("first", file["profiles"][0]["name"], "peak_bytes")
    t.equal("whole", profiles["peak_bytes"]["endValue"], PEAK)
    for key, wanted in (("peak_bytes", {"simple_drop": DROPPED, "simple_keep": KEPT}),
                        ("unfreed_bytes", {"simple_keep": KEPT}),
                        ("allocations", {"simple_drop": 100, "simple_keep": 100})):
        one = profiles[key]
        t.equal(f"{key}: samples and weights", len(one["samples"]), len(one["weights"]))
        t.equal(key, {frames[sample[-1]]["name"]: weight
                      for sample, weight in zip(one["samples"], one["weights"])}, wanted)
        t.expect(all(frames[sample[0]]["name"] == "_start" for sample in one["samples"]),
                 "a sample does not begin at the root")


def plain_schema(one):
    """A schema in the words that openapi.problems() knows."""
    if isinstance(one, list):
        return [plain_schema(part) for part in one]
    if not isinstance(one, dict):
        return one
    made = {"oneOf" if key == "anyOf" else key: plain_schema(value) for key, value in one.items()}
    if "const" in made:
        made["enum"] = [made.pop("const")]
    return made


@case("export/speedscope_schema", "speedscope refuses the file: it does not fit its own schema")
def speedscope_schema(t):
    # Of speedscope's npm package, which is fetched with those of the page.
    packages = t.tidemark.parent / "web/page_data.c.p/node_modules"
    path = packages / "speedscope/dist/release/file-format-schema.json"
    if not path.exists():
        t.skip("built without the page and its npm packages")
    schema = plain_schema(json.loads(path.read_text()))
    document = {"components": {"schemas": schema["definitions"]}}
    t.record(["page"])
    file = json.loads(export(t, "speedscope").read_text())
    t.equal("problems", openapi.problems(document, schema, file, "the file"), [])
    # The check itself must see a mistake.
    file["profiles"][0]["weights"] = "heavy"
    del file["shared"]
    t.expect(len(openapi.problems(document, schema, file, "the file")) > 0, "nothing is wrong")


@case("export/flamegraph", "the SVG does not open, or a function's name is taken for markup")
def flamegraph(t):
    t.record(["page"])
    root = xml.etree.ElementTree.parse(export(t, "flamegraph")).getroot()
    space = "{http://www.w3.org/2000/svg}"
    t.equal("element", root.tag, f"{space}svg")
    t.expect(not root.findall(f".//{space}img"), "a name became an element")
    boxes = {group.get("data-n"): float(group.get("data-w"))
             for group in root.findall(f"{space}g")}
    t.expect(MARKUP in boxes, f"the name is not there: {list(boxes)}")
    whole = boxes["everything"]
    peak = t.report()["peak_bytes"]
    t.expect(abs(boxes["cache_insert"] / whole - CACHED / peak) < 0.001, f"widths: {boxes}")


@case("export/callgrind", "callgrind_annotate and KCachegrind show other figures")
def callgrind(t):
    t.record(["simple", "3"])
    out = export(t, "callgrind")
    text = judge(t, "callgrind_annotate", "--auto=no", "--threshold=100", out)
    numbers = {}
    for line in text.splitlines():
        found = re.match(r"\s*((?:[\d,]+ (?:\([\d. ]+%\))?\s+)+)(.*)", line)
        if found:
            row = [int(one.replace(",", "")) for one in
                   re.findall(r"(?<![\d.(,])[\d,]+(?![\d.,]*%)", found[1])]
            name = re.search(r":(\w+) \[|(PROGRAM TOTALS)", found[2])
            if name:
                numbers[name[1] or name[2]] = row
    t.equal("totals", numbers.get("PROGRAM TOTALS"), [PEAK, KEPT, PEAK, 200, 0])
    t.equal("simple_drop", numbers.get("simple_drop"), [DROPPED, 0, DROPPED, 100, 0])
    t.equal("simple_keep", numbers.get("simple_keep"), [KEPT, KEPT, KEPT, 100, 0])
    inclusive = judge(t, "callgrind_annotate", "--auto=no", "--inclusive=yes", out)
    line = next((one for one in inclusive.splitlines() if ":main [" in one), "")
    t.expect(line.split()[:1] == [f"{PEAK:,}"], f"inclusive figures of main: {line!r}")


@case("export/massif", "ms_print refuses the file, or shows another peak")
def massif(t):
    t.record(["simple", "3"])
    text = judge(t, "ms_print", export(t, "massif"))
    for wanted in (f"100.00% ({PEAK:,}B) (heap allocation functions)",
                   f"({DROPPED:,}B) 0x", f"100.00% ({KEPT:,}B) (heap allocation functions)"):
        t.expect(wanted in text, f"ms_print does not say {wanted!r}:\n{text[-1500:]}")
    t.expect(re.search(rf"\({DROPPED:,}B\) 0x\w+: simple_drop \(simple\.c:\d+\)\n"
                       rf"\| ->\S+ \({DROPPED:,}B\) 0x\w+: main \(simple\.c:\d+\)", text),
             "the callers are not below the function")


@case("export/dhat", "dh_view shows other figures")
def dhat(t):
    t.record(["simple", "3"])
    file = json.loads(export(t, "dhat").read_text())
    # What dh_view.js insists on.
    for key in ("mode", "verb", "bklt", "bkacc", "tu", "Mtu", "tuth", "cmd", "pid", "tg", "te"):
        t.expect(key in file, f"no {key}")
    t.equal("version", file["dhatFileVersion"], 2)
    points = {}
    for point in file["pps"]:
        names = [file["ftbl"][index].split(": ", 1)[1].split(" (")[0] for index in point["fs"]]
        points[names[0]] = point
    drop, keep = points["simple_drop"], points["simple_keep"]
    for key, a, b in (("tb", DROPPED, KEPT), ("tbk", 100, 100), ("mb", DROPPED, KEPT),
                      ("mbk", 100, 100), ("gb", DROPPED, KEPT), ("gbk", 100, 100),
                      ("eb", 0, KEPT), ("ebk", 0, 100)):
        t.equal(f"{key} of simple_drop", drop[key], a)
        t.equal(f"{key} of simple_keep", keep[key], b)
    blocks = json.loads(export(t, "json", "--view", "blocks", "--mode", "allocated").read_text())
    lives = {}
    for row in blocks["rows"]:
        end = file["te"] if row["end_ns"] is None else row["end_ns"] // 1000
        lives[row["site"]] = lives.get(row["site"], 0) + end - row["birth_ns"] // 1000
    t.equal("lifetimes", {"simple_drop": drop["tl"], "simple_keep": keep["tl"]}, lives)


@case("export/dh_view", "dh_view refuses the file, or shows other figures")
def dh_view(t):
    viewer = pathlib.Path("/usr/libexec/valgrind/dh_view.js")
    if not viewer.exists():
        t.skip("valgrind's dh_view is not installed")
    t.record(["simple", "3"])
    script = pathlib.Path(__file__).parent.parent / "dh_view.mjs"
    shown = judge(t, "node", script, viewer, export(t, "dhat"))
    number = lambda title: [int(one.replace(",", "")) for one in
                            re.findall(rf"{title}: +([\d,]+) bytes", shown)]
    # The first is the root's; a program point follows for each of the two.
    t.equal("total", number("Total"), [DROPPED + KEPT, *sorted((DROPPED, KEPT), reverse=True)])
    t.equal("at the peak", number("At t-gmax")[0], DROPPED + KEPT)
    t.equal("at the end", number("At t-end")[0], KEPT)
    t.expect("simple_drop (" in shown and "simple_keep (" in shown, shown)
    # It must see a mistake.
    broken = t.folder / "broken"
    broken.write_text(export(t, "dhat").read_text().replace('"tbk"', '"tkb"'))
    refused = run_program(["node", str(script), str(viewer), str(broken)], t.environment(),
                          t.folder, t.seconds)
    t.expect(refused.status != 0 and "missing a field: tbk" in refused.err,
             refused.err[-300:])


@case("export/tables", "a table has other rows than the view, or a name breaks out of its cell")
def tables(t):
    t.record(["page"])
    report = t.report(None, "--by", "function", "--limit", "0")
    for form, read in (("csv", lambda text: list(csv.DictReader(io.StringIO(text)))),
                       ("json", lambda text: json.loads(text)["rows"])):
        rows = {row["function"]: row for row in
                read(export(t, form, "--view", "functions").read_text())}
        t.equal(f"{form}: functions", set(rows) - {"", None},
                {row["function"] for row in report["functions"]} - {None})
        for row in report["functions"]:
            if row["function"]:
                got = rows[row["function"]]
                t.equal(f"{form}: {row['function']}",
                        [int(got["peak_bytes"]), int(got["inclusive_allocations"])],
                        [row["self"]["peak_bytes"], row["inclusive"]["allocations"]])
        blocks = read(export(t, form, "--view", "blocks", "--mode", "live").read_text())
        t.equal(f"{form}: blocks", len(blocks), report["unfreed_allocations"])
        t.equal(f"{form}: bytes", sum(int(row["bytes"]) for row in blocks),
                report["unfreed_bytes"])
        for view in ("peak", "lines", "modules", "stacks", "timeline", "threads",
                     "modules_mapped"):
            t.expect(read(export(t, form, "--view", view).read_text()), f"{view} is empty")


@case("export/firefox", "the Firefox Profiler refuses the file, or shows other bytes")
def firefox(t):
    t.record(["simple", "3"])
    file = json.loads(export(t, "firefox").read_text())
    thread, = file["threads"]
    for name in ("samples", "markers", "stackTable", "frameTable", "funcTable", "resourceTable",
                 "nativeSymbols"):
        table = thread[name]
        for key, column in table.items():
            if isinstance(column, list):
                t.equal(f"{name}.{key}: length", len(column), table["length"])
    stacks, samples = thread["stackTable"], thread["samples"]
    t.expect(all(prefix is None or prefix < index
                 for index, prefix in enumerate(stacks["prefix"])), "a caller after its callee")

    def names(stack):
        while stack is not None:
            function = thread["frameTable"]["func"][stacks["frame"][stack]]
            yield thread["stringArray"][thread["funcTable"]["name"][function]]
            stack = stacks["prefix"][stack]

    got = {tuple(names(stack))[:2]: weight
           for stack, weight in zip(samples["stack"], samples["weight"])}
    t.equal("weights", got, {("simple_drop", "main"): DROPPED, ("simple_keep", "main"): KEPT})
    t.equal("unit", samples["weightType"], "bytes")
    counter = file["counters"][0]["sampleGroups"][0]["samples"]
    t.equal("the curve ends with what is unfreed", sum(counter["count"]), KEPT)
    t.equal("calls", sum(counter["number"]), 300)


@contextlib.contextmanager
def firefox_profiler(t, path):
    """The Firefox Profiler's own code over the file: a function that asks it and returns JSON."""
    # Of its npm package, which is fetched with those of the page.
    tool = t.tidemark.parent / ("web/page_data.c.p/node_modules/@firefox-devtools/profiler-cli/"
                                "dist/profiler-cli.js")
    node = t.need_tool("node")
    if not tool.exists():
        t.skip("built without the page and its npm packages")
    env = {"PROFILER_CLI_SESSION_DIR": str(t.folder / "s"), "PROFILER_CLI_NO_SYMBOLICATE": "1",
           "HOME": str(t.folder)}
    (t.folder / "s").mkdir(exist_ok=True)
    if run_program([node, str(tool), "--help"], t.environment(env), t.folder, 60).status != 0:
        t.skip("this node is too old for the Firefox Profiler's code")
    server = t.start([node, tool, "--daemon", path, "--session", "own"], env,
                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)

    def listens():
        """It writes this file last. Who asks before that makes it lose its socket for good."""
        try:
            return json.loads((t.folder / "s/own.json").read_text())
        except (OSError, ValueError):
            return None

    def ask(*words):
        """It answers once it has loaded the file; it ends if it cannot."""
        end = time.monotonic() + 120
        while True:
            if listens():
                said = run_program([node, str(tool), *words, "--json", "--session", "own"],
                                   t.environment(env), t.folder, 60)
                if said.status == 0:
                    return json.loads(said.out)
            else:
                said = None
                time.sleep(0.01)
            t.need(server.poll() is None and time.monotonic() < end,
                   "the Firefox Profiler refuses the file: "
                   + (f"{said.out} {said.err}" if said else f"it ended with {server.poll()}"))

    try:
        yield ask
    finally:
        server.kill()
        server.wait()


@case("export/firefox_own", "the Firefox Profiler's own code refuses the file, or adds up otherwise",
      180)
def firefox_own(t):
    t.record(["simple", "3"])
    with firefox_profiler(t, export(t, "firefox")) as ask:
        said = ask("thread", "functions", "--limit", "1000")
    t.equal("unit", said["weightType"], "bytes")
    own = {one["name"]: one["selfSamples"] for one in said["functions"] if one["selfSamples"]}
    t.equal("self", own, {"simple_drop": DROPPED, "simple_keep": KEPT})
    total = {one["name"]: one["totalSamples"] for one in said["functions"]}
    t.equal("main", total["main"], DROPPED + KEPT)


@case("export/chrome", "Perfetto and chrome://tracing show other curves")
def chrome(t):
    t.record(["page"])
    report = t.report()
    file = json.loads(export(t, "chrome").read_text())
    live = [event["args"]["value"] for event in file["traceEvents"]
            if event["ph"] == "C" and event["name"] == "live bytes"]
    t.equal("peak of the curve", max(live), report["peak_bytes"])
    t.equal("end of the curve", live[-1], report["unfreed_bytes"])
    times = [event["ts"] for event in file["traceEvents"]
             if event["ph"] == "C" and event["name"] == "live bytes"]
    t.expect(times == sorted(times), "time goes back")
    named = {event["args"]["name"] for event in file["traceEvents"]
             if event["name"] == "thread_name"}
    t.equal("threads", named, {"page"})
    frames = file["stackFrames"]
    weights = {frames[one["sf"]]["name"]: one["weight"] for one in file["samples"]}
    t.equal("cache_insert", weights["cache_insert"], CACHED)
    t.equal("markup", weights[MARKUP], MARKED)
    t.equal("sum", sum(weights.values()), report["peak_bytes"])
    leaf = next(one for one in frames.values() if one["name"] == "cache_insert")
    t.equal("caller", frames[leaf["parent"]]["name"], "main")


@case("export/sqlite", "the database has other rows than the trace")
def sqlite(t):
    t.record(["page"])
    report = t.report()
    database = export(t, "sqlite", name="page.db")

    def ask(question):
        return [line.split("|") for line in judge(t, "sqlite3", database, question).splitlines()]

    t.equal("sound", ask("pragma integrity_check"), [["ok"]])
    t.equal("unfreed", ask("select count(*), sum(bytes) from blocks where end_ns is null"),
            [[str(report["unfreed_allocations"]), str(report["unfreed_bytes"])]])
    t.equal("blocks", ask("select count(*) from blocks"), [[str(report["allocations"])]])
    t.equal("stacks", ask("select sum(peak_bytes), sum(allocations) from stacks"),
            [[str(report["peak_bytes"]), str(report["allocations"])]])
    t.equal("joined", ask("select count(*), sum(b.bytes) from blocks b join stacks s using(stack) "
                          "where s.site = 'cache_insert'"), [["400", str(CACHED)]])
    t.equal("frames", ask("select f.function from stack_frames s join frames f using(frame) "
                          "where s.stack = (select stack from stacks where site='cache_insert') "
                          "order by depth limit 2"), [["cache_insert"], ["main"]])
    t.equal("peak", ask("select max(max_live_bytes) from timeline"), [[str(report["peak_bytes"])]])
    t.equal("threads", ask("select count(*) from threads"), [["2"]])
    t.expect(any("/libc.so" in row[0] for row in ask("select path from modules")), "no libc")
    refused = t.tool("export", t.trace, "-f", "sqlite", "-o", "-")
    t.equal("to standard output", refused.status, 2)


@case("export/hostile", "a program's name breaks a file, or what reads it")
def hostile(t):
    """A path with all that any of the formats could take for its own; the command has it, too."""
    program = t.folder / 'a;b"c<d>&\n= (1) \x1b[31m,\'e\udcff'
    program.write_bytes(t.target("simple").read_bytes())
    program.chmod(0o755)
    t.record([program, "3"])
    t.need(t.trace.exists(), "no trace")
    for form in ("speedscope", "dhat", "firefox", "chrome", "json"):
        json.loads(export(t, form).read_bytes().decode())
    xml.etree.ElementTree.parse(export(t, "flamegraph"))
    for view in ("stacks", "modules", "modules_mapped"):
        rows = list(csv.reader(io.StringIO(export(t, "csv", "--view", view).read_text())))
        t.equal(f"cells of {view}", {len(row) for row in rows}, {len(rows[0])})
        t.expect(not any(cell[:1] in ("=", "+", "@") for row in rows for cell in row),
                 "a cell is a formula")
    lines = export(t, "collapsed").read_text().splitlines()
    t.equal("lines", sorted(int(line.rpartition(" ")[2]) for line in lines), [KEPT, DROPPED])
    heaptrack_totals(t, judge(t, "heaptrack_print", export(t, "heaptrack", name="h.gz")),
                     t.report())
    t.expect(f"({PEAK:,}B)" in judge(t, "ms_print", export(t, "massif")), "massif: no peak")
    t.expect(f"{PEAK:,} (100.0%)" in judge(t, "callgrind_annotate", export(t, "callgrind")),
             "callgrind: no totals")
    strings = decode(t, export(t, "pprof", name="p.pb.gz"))["string_table"]
    t.expect(any(r"\\x0a" in one for one in strings), "pprof: the line break is not escaped")


@case("export/command", "mistakes go unnoticed, or a file is lost")
def command(t):
    t.record(["simple", "3"])
    listed = t.tool("export", "--format", "list")
    names = [line.split()[0] for line in listed.out.splitlines()]
    for name in ("collapsed", "pprof", "heaptrack", "speedscope", "flamegraph", "callgrind",
                 "massif", "dhat", "firefox", "chrome", "csv", "json", "sqlite"):
        t.expect(name in names, f"'{name}' is not listed: {names}")
    t.equal("each has a line of help", all(len(line.split()) > 3
                                           for line in listed.out.splitlines()), True)
    for arguments, says in ((["x.tide"], "which format"), (["--format", "pprof"], "which trace"),
                            ([t.trace, "--format", "pproof"], "did you mean 'pprof'"),
                            ([t.trace, "-f", "csv", "--view", "nope"], "there is no view"),
                            ([t.trace, "-f", "pprof", "--view", "peak"], "--view"),
                            ([t.trace, "-f", "collapsed", "--cost", "much"], "--cost"),
                            ([t.trace, "-f", "collapsed", "--filter", "size>"], "--filter"),
                            ([t.trace, "-f", "heaptrack", "--filter", "lifetime>1s"],
                             "event by event"),
                            ([t.trace, "-f", "csv", "--image", "7"], "no image 7"),
                            ([t.trace, "-f", "csv", "--from", "2", "--to", "1"], "")):
        result = t.tool("export", *arguments)
        t.equal(f"status of {arguments[1:]}", result.status, 2)
        t.expect(says in result.err, f"{arguments[1:]}: {result.err!r} does not say {says!r}")
    there = t.folder / "there"
    there.write_text("mine")
    result = t.tool("export", t.trace, "-f", "collapsed", "-o", there)
    t.equal("status where a file is", result.status, 1)
    t.expect("--force" in result.err, result.err)
    t.equal("the file", there.read_text(), "mine")
    t.equal("nothing left over", sorted(one.name for one in t.folder.glob("there*")), ["there"])
    piped = t.tool("export", t.trace, "-f", "collapsed", "-o", "-")
    t.equal("standard output", sorted(line.rpartition(" ")[2] for line in piped.out.splitlines()),
            sorted([str(DROPPED), str(KEPT)]))
    control, side = pty.openpty()
    done = subprocess.run([t.tidemark, "export", t.trace, "-f", "pprof", "-o", "-"], stdout=side,
                          stderr=subprocess.PIPE, text=True, env=t.environment())
    os.close(side)
    os.close(control)
    t.equal("status on a terminal", done.returncode, 2)
    t.expect("terminal" in done.stderr, done.stderr)
    full = subprocess.run(["sh", "-c", 'exec "$@" > /dev/full', "sh", t.tidemark, "export",
                           t.trace, "-f", "collapsed"], stderr=subprocess.PIPE, text=True,
                          env=t.environment())
    t.equal("status of a full disk", full.returncode, 1)


@case("export/serve", "downloads of the page are not what the command writes")
def downloads(t):
    from cases.serve import Server
    t.record(["simple", "3"])
    with Server(t, t.trace) as server:
        root = "/api/v1/traces/last/export"
        for form in ("collapsed", "pprof", "speedscope", "flamegraph", "callgrind", "massif",
                     "dhat", "firefox", "chrome", "csv", "json"):
            wanted = export(t, form).read_bytes()
            status, headers, body = server.request(f"{root}/{form}?mode=peak")
            t.equal(f"{form}: status", status, 200)
            t.expect(headers["Content-Disposition"].startswith("attachment;"),
                     f"{form}: {headers['Content-Disposition']}")
            t.expect(body == wanted, f"{form}: {len(body)} bytes, the command has {len(wanted)}")
        packed = t.folder / "served.zst"
        packed.write_bytes(server.request(f"{root}/heaptrack")[2])
        heaptrack_totals(t, judge(t, "heaptrack_print", packed), t.report())
        kept = server.request(f"{root}/collapsed?mode=live&filter=function:simple_keep")[2]
        t.expect(kept.decode().endswith(f";simple_keep {KEPT}\n"), f"filtered: {kept}")
        server.fails(f"{root}/nothing", 404, "there is no format")
        t.expect(server.request(f"{root}/sqlite")[2].startswith(b"SQLite format 3"), "no database")
