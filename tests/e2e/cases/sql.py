# SPDX-License-Identifier: Apache-2.0
"""Questions in SQL about real recordings, and the prompt at a terminal."""
import json
import os
import pty
import subprocess

import tide
from cases.surroundings import own_terminal
from harness import case
from watch import Watch


def ask(t, query, *options, status=0):
    result = t.tool("sql", "--json", *options, t.trace, query)
    t.need(result.status == status, f"sql ended with {result.status}: {result.err}")
    return json.loads(result.out) if result.out else None


def add_figures(name, command):
    @case(f"sql/{name}", "SQL and the report tell different figures of the same trace")
    def figures(t):
        t.record(command)
        report = t.report()
        row = ask(t, """
            SELECT count(*) AS allocations, sum(size) AS allocated_bytes,
                   sum(free_ns IS NOT NULL) AS frees, sum(temporary) AS temporary_allocations,
                   sum(free_ns IS NULL) AS unfreed_allocations,
                   coalesce(sum(size) FILTER (WHERE free_ns IS NULL), 0) AS unfreed_bytes
            FROM blocks""")[0]
        for key, value in row.items():
            t.equal(key, value, report[key])
        stacks = ask(t, "SELECT sum(allocations) AS a, sum(peak_bytes) AS p FROM stacks")[0]
        t.equal("allocations of stacks", stacks["a"], report["allocations"])
        t.equal("peak of stacks", stacks["p"], report["peak_bytes"])
        events = ask(t, "SELECT count(*) AS n FROM events")[0]
        t.equal("events", events["n"], report["events"])
        by_end = ask(t, """
            SELECT coalesce(sum(size), 0) AS n FROM events
            WHERE op IN ('free', 'realloc_free', 'free_unseen')""")[0]
        # A realloc that fails takes its free back.
        if report["failed_allocations"] == 0:
            t.equal("freed bytes", by_end["n"], row["allocated_bytes"] - row["unfreed_bytes"])


add_figures("one_thread", ["simple", "0"])
add_figures("threads", ["threads", "cross"])
add_figures("many_events", ["big", "1"])


@case("sql/cross_thread", "blocks freed by another thread are not told apart")
def cross_thread(t):
    t.record(["threads", "cross"])
    rows = ask(t, """SELECT count(*) AS n FROM blocks WHERE free_thread_id <> thread_id""")
    t.expect(rows[0]["n"] > 0, "no block is freed by another thread")


@case("sql/pipe", "a reader of a pipe that leaves early gets an error")
def pipe(t):
    t.record(["big", "1"])
    line = f"'{t.tidemark}' sql --csv '{t.trace}' 'SELECT * FROM events' | head -n 1"
    result = t.bare(["/bin/bash", "-c", f"set -o pipefail; {line}"])
    t.equal("status", result.status, 0)
    t.expect(result.out.startswith("event_id,time_ns,op,"), result.out)
    t.equal("errors", result.err, "")


@case("sql/damaged", "a damaged trace crashes a query, or the damage is not told")
def damaged(t):
    t.record(["big", "1"])
    blocks = [one for one in tide.blocks(t.trace) if one.kind == tide.EVENTS]
    t.need(len(blocks) > 2, f"{len(blocks)} blocks of events")
    data = bytearray(t.trace.read_bytes())
    data[blocks[1].payload + 5] ^= 0xff
    t.trace.write_bytes(data)
    result = t.tool("sql", "--csv", t.trace, "SELECT count(*) FROM events")
    t.equal("status", result.status, 0)
    t.expect("65536 events lie in damaged parts" in result.err, result.err)


class Terminal:
    """The prompt at a terminal of its own."""
    def __init__(self, t):
        master, slave = pty.openpty()
        self.master = master
        env = t.environment({"TERM": "xterm", "XDG_STATE_HOME": str(t.folder / "state")})
        process = subprocess.Popen([str(t.tidemark), "sql", str(t.trace)], stdin=slave,
                                   stdout=slave, stderr=slave, env=env, cwd=t.folder,
                                   preexec_fn=own_terminal, start_new_session=False)
        os.close(slave)
        self.watch = Watch(process, t.seconds)

    def __enter__(self):
        self.watch.__enter__()
        self.wait("tidemark> ")
        return self

    def __exit__(self, *what):
        self.watch.__exit__(*what)
        os.close(self.master)

    def wait(self, text):
        self.watch.wait_for(text, self.master)

    def type(self, keys):
        os.write(self.master, keys.encode())


@case("sql/prompt", "the prompt cannot be edited, has no history, or Ctrl-C does not stop a query")
def prompt(t):
    t.record(["simple", "0"])
    with Terminal(t) as terminal:
        # 'SELECT 40 + 2' with a mistake mended by keys: left, backspace, end
        terminal.type("SELECT 49 + 2;\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x7f0\x05\r")
        terminal.wait("\n    42\r\n")
        terminal.wait("(1 row, ")
        terminal.type("SELECT 'two'\r || 'lines' AS x;\r")
        terminal.wait("...> ")
        terminal.wait("twolines")
        terminal.wait("tidemark> ")
        terminal.type("SELECT given up\x03")
        terminal.wait("^C")
        terminal.type("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
                      "SELECT count(*) FROM c;\r")
        terminal.wait("reading")
        terminal.type("\x03")
        terminal.wait("the query was stopped")
        terminal.type("SELECT nonsense;\r")
        terminal.wait("no such column: nonsense")
        terminal.type(".quit\r")
        t.equal("status", terminal.watch.ended(), 0)
    history = t.folder / "state/tidemark/sql_history"
    t.need(history.exists(), "no history is kept")
    t.equal("its mode", history.stat().st_mode & 0o777, 0o600)
    with Terminal(t) as terminal:
        # back over .quit, nonsense, the endless one, the two lines: 42 again
        terminal.type("\x1b[A" * 6 + "\r")
        terminal.wait("\n    42\r\n")
        terminal.wait("tidemark> ")
        terminal.type("\x04")
        t.equal("status", terminal.watch.ended(), 0)
