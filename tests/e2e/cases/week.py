# SPDX-License-Identifier: Apache-2.0
"""A small simulated week: what bench/week does in an hour, in seconds."""
import re

from harness import case


@case("week/small", "figures of a long recording, or the size of its file, go wrong", seconds=300)
def small(t):
    limit_mib, millions = 12, 20 if t.long else 4
    result = t.bare([t.build / "bench/bench_week", "0", millions, limit_mib, t.trace])
    t.equal(f"{result.err[-800:]}: status", result.status, 0)
    last = dict(re.findall(r"(\w+)=([0-9.]+)", result.out.splitlines()[-1]))
    t.equal("wrong figures", last["wrong"], "0")
    t.expect(int(last["events"]) >= millions * 1000000, f"{last['events']} events")
    for what in ("largest", "file"):
        t.expect(int(last[what]) <= limit_mib << 20, f"{what} size of the file: {last[what]} bytes")
    # The tool reads the same from the file.
    report = t.report()
    t.equal("allocations and frees", report["allocations"] + report["frees"], int(last["events"]))
    sound = t.tool("verify", t.trace)
    t.equal(f"verify says {sound.out[-300:]} {sound.err[-300:]}", sound.status, 0)
