# SPDX-License-Identifier: Apache-2.0
"""Every remembered stack against plain stepping, inside the agent (tests/agent)."""
import shutil
import sys

from harness import case

CHECKED = {
    "graph": ["graph"],
    "exceptions": ["exceptions"],
    "walk": ["deep", "walk"],
    "realign": ["deep_realign", "realign"],
    "recursion": ["deep", "recursion"],
    "signals": ["signals_bump", "storm"],
    "alternate": ["signals_bump", "storm_alt"],
    "jump": ["signals_bump", "jump"],
    "fibers": ["context", "fibers"],
    "swap": ["context", "swap"],
    "jit": ["jit", "replaced"],
    "race": ["threads", "race"],
}
SQL = ("create table t(a, b); with recursive r(i) as (select 1 union all select i + 1 from r "
       "where i < 20000) insert into t select i, random() from r; create index x on t(b); "
       "select count(*) from t order by b")
SCRIPT = ("let a = []; for (let i = 0; i < 3000; i++) { a.push(Buffer.alloc(500 + i)); "
          "JSON.parse(JSON.stringify({a: i, b: [1, 2, 3]})) } console.log(a.length)")
REAL = {
    "sqlite": ["sqlite3", ":memory:", SQL],
    "python": [sys.executable, "-S", "-c", "import json; json.loads(json.dumps([*range(50000)]))"],
    "node": ["node", "-e", SCRIPT],
    "perl": ["perl", "-e", "my %h; $h{$_ % 5000} .= $_ for 1 .. 60000; print scalar keys %h"],
}


def run_with(t, agent, command):
    path = t.build / "tests" / "agent" / f"libtidemark-{agent}.so"
    t.need(path.exists(), f"{path} has not been built")
    return t.record(command, env={"TIDEMARK_AGENT": str(path)})


def checked(t, command):
    recorded = run_with(t, "check", command)
    t.expect("tidemark check:" not in recorded.err, recorded.err[-300:])
    t.equal("exit status", recorded.shell_status(), 0)
    t.expect(t.report()["allocations"] > 10, "next to nothing was recorded")


for name, command in CHECKED.items():
    case(f"unwinding/{name}", "a block is blamed on functions that were there before")(
        lambda t, command=command: checked(t, command))


def real(t, command):
    if not shutil.which(str(command[0])):
        t.skip(f"{command[0]} is not installed")
    checked(t, command)


for name, command in REAL.items():
    case(f"unwinding/{name}", "stacks of real programs are wrong")(
        lambda t, command=command: real(t, command))


@case("unwinding/mutation", "the comparison above cannot fail, and proves nothing")
def mutation(t):
    recorded = run_with(t, "mutate", ["graph"])
    t.expect("tidemark check:" in recorded.err, "stacks are right without any verification")
    t.equal("exit status", recorded.shell_status(), 99)
