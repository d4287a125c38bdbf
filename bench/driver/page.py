# SPDX-License-Identifier: Apache-2.0
"""Writes the results as a Markdown page."""
import os
import platform
import subprocess
import time

from driver import figures


def number(value, form="%.1f", scale=1.0):
    return "-" if value is None else form % (value * scale)


def with_spread(cell, tool, key, form, scale=1.0):
    median, spread = cell.median(tool, key), cell.spread(tool, key)
    if median is None:
        return "failed" if tool in cell.failures else "-"
    text = "%s (%s..%s)" % (form % (median * scale), form % (spread[0] * scale), form % (spread[1] * scale))
    if tool == "heaptrack" and cell.heaptrack_is_raw():
        text += " raw"
    if tool in cell.cached:
        text += " old"
    return text


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def first_line(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.stdout.strip().splitlines()[0]
    except (OSError, IndexError):
        return "%s: not there" % command[0]


def field_of(path, name):
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(name):
                    return line.split(":", 1)[-1].split("=", 1)[-1].strip().strip('"')
    except OSError:
        pass
    return "unknown"


def clock_source():
    try:
        with open("/sys/devices/system/clocksource/clocksource0/current_clocksource", encoding="ascii") as text:
            return text.read().strip()
    except OSError:
        return "unknown"


def machine_section(tool):
    memory_kib = field_of("/proc/meminfo", "MemTotal").split()[0]
    facts = [
        "%d x %s, %.0f GiB, Linux %s, %s, glibc %s" % (
            os.cpu_count(), field_of("/proc/cpuinfo", "model name"), int(memory_kib) / (1 << 20), platform.release(),
            field_of("/etc/os-release", "PRETTY_NAME"), platform.libc_ver()[1]),
        "clock source " + clock_source(),
        first_line([tool, "--version"]) if os.path.exists(tool) else "tidemark: not built",
        first_line(["heaptrack", "--version"]),
        first_line(["gcc", "--version"]),
        first_line(["clang", "--version"]),
        "sqlite3 " + first_line(["sqlite3", "--version"]).split(" ")[0],
        first_line(["/usr/bin/python3", "--version"]),
        "node " + first_line(["node", "--version"]),
        first_line(["rustc", "--version"]),
        first_line(["nim", "--version"]),
        first_line(["redis-server", "--version"]),
    ]
    return "## Machine\n" + "".join("- %s\n" % fact for fact in facts)


def micro_section(cells):
    rows = []
    for cell in cells:
        pairs = cell.median("bare", "pairs")
        whole = [cell.added(tool, "wall_s") for tool in ("heaptrack", "tidemark")]
        whole = [None if value is None or not pairs else value * 1e9 / pairs for value in whole]
        ours, theirs = cell.added("tidemark", "loop_wall_ns"), cell.added("heaptrack", "loop_wall_ns")
        waited = cell.median("tidemark", "waited_ns")
        rows.append([
            cell.name, with_spread(cell, "bare", "loop_wall_ns", "%.1f"),
            with_spread(cell, "heaptrack", "loop_wall_ns", "%.0f"),
            with_spread(cell, "tidemark", "loop_wall_ns", "%.1f"),
            number(theirs, "%.0f"), number(ours), number(theirs / ours if ours and theirs else None, "%.1fx"),
            number(cell.added("heaptrack", "loop_cpu_ns"), "%.0f"), number(cell.added("tidemark", "loop_cpu_ns")),
            number(whole[0], "%.0f"), number(whole[1], "%.0f"),
            number(None if waited is None or not pairs else waited / pairs), number(cell.collector_ns_per_event())])
    header = ["mode-depth-threads", "bare ns", "heaptrack ns", "tidemark ns", "added by heaptrack", "added by tidemark",
              "times", "added CPU heaptrack", "added CPU tidemark", "whole command, heaptrack",
              "whole command, tidemark", "waited", "collector CPU per event"]
    return ("## Micro: ns per pair of malloc and free\n"
            "Inside the loop, median (min..max); with several threads wall is per pair of all threads together. "
            "*Whole command*: added wall time from start to end of the tool, per pair. *Waited*: time the threads "
            "waited for the collector, per pair.\n\n" + table(header, rows))


def program_rows(programs, cells):
    for program in programs:
        cell = cells.get(program.name)
        if not cell:
            continue
        yield [program.title, with_spread(cell, "bare", "wall_s", "%.2f"),
               with_spread(cell, "heaptrack", "wall_s", "%.2f"), with_spread(cell, "tidemark", "wall_s", "%.2f"),
               number(cell.slowdown("heaptrack"), "%.2fx"), number(cell.slowdown("tidemark"), "%.2fx"),
               number(cell.heaptrack_share(), "%.2f"), number(cell.median("bare", "cpu_s"), "%.2f"),
               number(cell.median("tidemark", "target_cpu_s"), "%.2f"),
               number(cell.median("tidemark", "collector_cpu_ns"), "%.2f", 1e-9),
               number(cell.median("tidemark", "waited_ns"), "%.0f", 1e-6),
               number(cell.target_ns_per_event(), "%.0f"), number(cell.collector_ns_per_event(), "%.0f")]


def program_section(programs, cells):
    header = ["program", "bare s", "heaptrack s", "tidemark s", "heaptrack", "tidemark", "share of heaptrack's",
              "CPU bare s", "CPU target s", "CPU collector s", "waited ms", "target ns/event",
              "collector ns/event"]
    in_mean = [cells[program.name] for program in programs if program.in_mean and program.name in cells]
    means = ["geometric mean", "", "", ""]
    means += [number(figures.geometric_mean([cell.slowdown(tool) for cell in in_mean]), "%.2fx")
              for tool in ("heaptrack", "tidemark")]
    rows = list(program_rows(programs, cells)) + [means + [""] * 7]
    return ("## Real programs: wall time of the whole command\nMedian (min..max). *Share*: what tidemark adds, divided "
            "by what heaptrack adds.\n\n" + table(header, rows))


def file_section(programs, cells):
    rows = []
    for program in programs:
        cell = cells.get(program.name)
        if not cell or not cell.samples.get("tidemark"):
            continue
        last = cell.samples["tidemark"][-1]
        bare = cell.median("bare", "wall_s")
        rows.append([program.title, "%.2f" % (last.get("events", 0) / 1e6),
                     number(last.get("events", 0) / 1e6 / bare if bare else None), str(last.get("stacks", "-")),
                     number(cell.bytes_with_addresses(), "%.3f"),
                     number(cell.bytes_per_event(cell.no_addresses), "%.3f"),
                     number(last.get("agent_bytes"), scale=1 / figures.MIB),
                     number(last["collector_rss_bytes"], scale=1 / figures.MIB),
                     number(last["collector_anon_bytes"], scale=1 / figures.MIB)])
    header = ["program", "M events", "M events/s bare", "stacks", "bytes/event", "bytes/event --no-addresses",
              "agent MiB", "collector peak RSS MiB", "of it anonymous"]
    return "## File and memory\n" + table(header, rows)


def verdict_section(verdicts):
    rows = [[verdict.what, verdict.reached, verdict.limit, verdict.mark()] for verdict in verdicts]
    return "## Promised figures\n" + table(["figure", "reached", "promised", ""], rows)


def cell_remarks(cell):
    for tool, failures in cell.failures.items():
        reasons = "; ".join(sorted(set(failures)))
        yield "%s under %s: %d of the runs failed: %s" % (cell.name, tool, len(failures), reasons)
    died = [sample["died"] for sample in cell.samples.get("heaptrack", []) if sample.get("died")]
    if died:
        yield "%s under heaptrack: %s; measured with --raw instead (marked *raw*)" % (cell.name, died[0])
    foreign = max([sample["foreign_share"] for samples in cell.samples.values() for sample in samples], default=0)
    if foreign > 0.1:
        yield "%s: other processes took up to %.0f %% of a core during a run" % (cell.name, 100 * foreign)
    if cell.cached:
        yield "%s: %s from an earlier run (marked *old*)" % (cell.name, ", ".join(sorted(cell.cached)))


def failure_section(results):
    remarks = ["%s: skipped: %s" % item for item in results.skipped]
    for cell in results.cells.values():
        remarks += cell_remarks(cell)
    remarks += results.notes
    return "## Failures and remarks\n" + ("".join("- %s\n" % remark for remark in remarks) or "None.\n")


def write(path, results, verdicts, tool):
    micro = [cell for cell in results.cells.values() if cell.values("bare", "loop_wall_ns")]
    parts = ["# Results\nMeasured by `make bench` on %s; %d rounds, in each of them bare, heaptrack and tidemark one "
             "after the other. Default options; file and symbols written.\n" % (
                 time.strftime("%Y-%m-%d"), results.rounds), verdict_section(verdicts)]
    if micro:
        parts.append(micro_section(micro))
    if results.programs:
        parts += [program_section(results.programs, results.cells), file_section(results.programs, results.cells)]
    for title, text in results.replays:
        parts.append("## %s\n```\n%s\n```\n" % (title, text.strip()))
    parts += [failure_section(results), machine_section(tool)]
    with open(path, "w", encoding="utf-8") as page:
        page.write("\n".join(parts))
