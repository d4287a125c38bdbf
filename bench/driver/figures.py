# SPDX-License-Identifier: Apache-2.0
"""Medians, spreads, means, and the figures that Tidemark promises, each with its verdict."""
import math
import statistics

MICRO_DEPTHS = (10, 30, 60)
MICRO_MODES = ("steady", "walk")
MICRO_THREADS = (1, 2, 8)

# Added ns per pair over bare, and how many times below heaptrack's, per depth.
ADDED_NS_LIMIT = {"steady": {10: 40, 30: 50, 60: 65}, "walk": {10: 60, 30: 85, 60: 120}}
HEAPTRACK_RATIO = {"steady": {10: 7, 30: 9, 60: 10}, "walk": {10: 6, 30: 6, 60: 6}}
THREADS_CPU_RATIO = 2.0
SLOWDOWN_LIMIT = 1.35
HEAPTRACK_SHARE_LIMIT = 0.25
BYTES_PER_EVENT_LIMIT = {"without": 0.45, "with": 0.85}
EVENTS_PER_SECOND = 15e6

MIB = 1 << 20
AGENT_BASE_BYTES, AGENT_NODE_BYTES, AGENT_THREAD_BYTES = 16 * MIB, 48, 64 << 10
COLLECTOR_BASE_BYTES, COLLECTOR_BLOCK_BYTES, COLLECTOR_STACK_BYTES = 64 * MIB, 64, 512


class Cell:
    """All samples of one program: tool name -> list of good samples, and the failures apart."""

    def __init__(self, name):
        self.name = name
        self.samples = {}
        self.failures = {}
        self.cached = set()  # tools whose samples come from an earlier run
        self.no_addresses = None

    def add(self, tool, sample):
        if sample["failure"]:
            self.failures.setdefault(tool, []).append(sample["failure"])
        else:
            self.samples.setdefault(tool, []).append(sample)

    def values(self, tool, key):
        return [sample[key] for sample in self.samples.get(tool, []) if sample.get(key) is not None]

    def median(self, tool, key):
        values = self.values(tool, key)
        return statistics.median(values) if values else None

    def spread(self, tool, key):
        values = self.values(tool, key)
        return (min(values), max(values)) if values else None

    def added(self, tool, key):
        tool_value, bare_value = self.median(tool, key), self.median("bare", key)
        return None if tool_value is None or bare_value is None else tool_value - bare_value

    def slowdown(self, tool, key="wall_s"):
        tool_value, bare_value = self.median(tool, key), self.median("bare", key)
        return tool_value / bare_value if tool_value and bare_value else None

    def heaptrack_share(self):
        """What tidemark adds, as a share of what heaptrack adds (wall time of the whole command)."""
        ours, theirs = self.added("tidemark", "wall_s"), self.added("heaptrack", "wall_s")
        return ours / theirs if ours is not None and theirs else None

    def bytes_per_event(self, sample):
        return sample["file_bytes"] / sample["events"] if sample and sample.get("events") else None

    def bytes_with_addresses(self):
        ratios = [self.bytes_per_event(sample) for sample in self.samples.get("tidemark", [])]
        ratios = [ratio for ratio in ratios if ratio]
        return statistics.median(ratios) if ratios else None

    def collector_ns_per_event(self):
        cpu_ns, events = self.median("tidemark", "collector_cpu_ns"), self.median("tidemark", "events")
        return cpu_ns / events if cpu_ns and events else None

    def target_ns_per_event(self):
        """CPU that recording adds in the target."""
        ours, bare = self.median("tidemark", "target_cpu_s"), self.median("bare", "cpu_s")
        events = self.median("tidemark", "events")
        return (ours - bare) * 1e9 / events if ours and bare and events else None

    def heaptrack_is_raw(self):
        return any(sample.get("raw") for sample in self.samples.get("heaptrack", []))


def geometric_mean(values):
    values = [value for value in values if value]
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


def agent_limit_bytes(sample):
    """The promised bound; where the report does not say the number of nodes, that of stacks makes it tighter."""
    nodes = sample.get("stack_nodes", sample.get("stacks", 0))
    return AGENT_BASE_BYTES + AGENT_NODE_BYTES * nodes + AGENT_THREAD_BYTES * sample.get("threads", 1)


def collector_limit_bytes(sample):
    """The promised bound without the cells of the open slice, for the blocks that were live at the peak."""
    blocks = max(sample.get("peak_allocations", 0), sample.get("unfreed_allocations", 0))
    return COLLECTOR_BASE_BYTES + COLLECTOR_BLOCK_BYTES * blocks + COLLECTOR_STACK_BYTES * sample.get("stacks", 0)


class Verdict:
    """One promised figure: what was reached, what was promised, whether it holds (None = not measured)."""

    def __init__(self, what, reached, limit, holds):
        self.what, self.reached, self.limit, self.holds = what, reached, limit, holds

    def mark(self):
        return {True: "pass", False: "FALLS SHORT", None: "not measured"}[self.holds]


def at_most(what, value, limit, form):
    reached = "-" if value is None else form % value
    return Verdict(what, reached, "at most " + form % limit, None if value is None else value <= limit)


def micro_verdicts(cells):
    for mode in MICRO_MODES:
        for depth in MICRO_DEPTHS:
            cell = cells.get("%s-%d-1" % (mode, depth))
            if not cell:
                continue
            ours = cell.added("tidemark", "loop_wall_ns")
            theirs = cell.added("heaptrack", "loop_wall_ns")
            name = "micro %s %d" % (mode, depth)
            yield at_most(name + ": added ns per pair", ours, ADDED_NS_LIMIT[mode][depth], "%.0f")
            ratio = theirs / ours if ours and theirs else None
            limit = HEAPTRACK_RATIO[mode][depth]
            yield Verdict(name + ": times below heaptrack's", "-" if ratio is None else "%.1fx" % ratio,
                          "at least %dx" % limit, None if ratio is None else ratio >= limit)


def thread_verdicts(cells):
    for mode in MICRO_MODES:
        for depth in MICRO_DEPTHS:
            single = cells.get("%s-%d-1" % (mode, depth))
            for threads in MICRO_THREADS[1:]:
                cell = cells.get("%s-%d-%d" % (mode, depth, threads))
                if not cell or not single:
                    continue
                added, base = cell.added("tidemark", "loop_cpu_ns"), single.added("tidemark", "loop_cpu_ns")
                ratio = added / base if added is not None and base else None
                yield at_most("micro %s %d: added CPU per pair, %d threads over one" % (mode, depth, threads), ratio,
                              THREADS_CPU_RATIO, "%.2fx")


def program_verdicts(programs, cells):
    measured = [cells[program.name] for program in programs if program.in_mean and program.name in cells]
    if not measured:
        return
    yield at_most("programs: slowdown, geometric mean of %d" % len(measured),
                  geometric_mean([cell.slowdown("tidemark") for cell in measured]), SLOWDOWN_LIMIT, "%.2fx")
    for cell in measured:
        share = cell.heaptrack_share()
        yield at_most("%s: share of what heaptrack adds" % cell.name, share, HEAPTRACK_SHARE_LIMIT, "%.2f")
    yield at_most("programs: bytes per event without addresses, geometric mean",
                  geometric_mean([cell.bytes_per_event(cell.no_addresses) for cell in measured]),
                  BYTES_PER_EVENT_LIMIT["without"], "%.3f")
    yield at_most("programs: bytes per event with addresses, geometric mean",
                  geometric_mean([cell.bytes_with_addresses() for cell in measured]),
                  BYTES_PER_EVENT_LIMIT["with"], "%.3f")


def memory_verdicts(cells):
    for cell in cells.values():
        samples = [sample for sample in cell.samples.get("tidemark", []) if "agent_bytes" in sample]
        if not samples:
            continue
        worst = max(samples, key=lambda sample: sample["agent_bytes"] - agent_limit_bytes(sample))
        yield at_most("%s: agent MiB" % cell.name, worst["agent_bytes"] / MIB, agent_limit_bytes(worst) / MIB, "%.1f")
        worst = max(samples, key=lambda sample: sample["collector_rss_bytes"] - collector_limit_bytes(sample))
        yield at_most("%s: collector MiB" % cell.name, worst["collector_rss_bytes"] / MIB,
                      collector_limit_bytes(worst) / MIB, "%.1f")


def replay_verdicts(replays):
    """The collector's rate on one core: all its threads together. Its replay prints key=value words."""
    for title, text in replays:
        words = dict(word.split("=", 1) for word in text.split() if "=" in word)
        if "cpu_ns_per_event" in words:
            rate = 1e9 / float(words["cpu_ns_per_event"])
            yield Verdict("%s, %s threads" % (title, words.get("threads", "?")), "%.1f M/s" % (rate / 1e6),
                          "at least %.0f M/s" % (EVENTS_PER_SECOND / 1e6), rate >= EVENTS_PER_SECOND)


class Results:
    """All that one run of the bench has found."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.programs = []
        self.cells = {}
        self.replays = []  # (title, text)
        self.skipped = []  # (name, why)
        self.notes = []

    def verdicts(self):
        yield from micro_verdicts(self.cells)
        yield from thread_verdicts(self.cells)
        yield from program_verdicts(self.programs, self.cells)
        yield from memory_verdicts(self.cells)
        yield from replay_verdicts(self.replays)

    def has_own_failures(self):
        return any(tool.startswith("tidemark") for cell in self.cells.values() for tool in cell.failures)
