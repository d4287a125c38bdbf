# SPDX-License-Identifier: Apache-2.0
"""What a case can do: run a target bare, run it recorded, read the report, compare."""
import json
import os
import pathlib
import re
import shutil
import subprocess

from harness import Failure, Skip, run_program

# Where a whole stack ends: a program's, a thread's, a coroutine's, the loader's first frame.
ROOTS = {"_start", "_dl_start_user", "_dl_start", "clone3", "__clone3", "clone", "__clone",
         "__GI___clone", "__clone_internal", "__start_context"}
FIGURES = ["allocations", "frees", "allocated_bytes", "unfreed_allocations", "unfreed_bytes",
           "temporary_allocations", "failed_allocations", "peak_bytes"]
# Above main() stand the C library's own frames; their names differ by version.
STARTERS = {"__libc_start_call_main", "__libc_start_main", "__libc_start_main_impl",
            "__libc_start_main@@GLIBC_2.34", "_start", "start_thread", "clone3", "__clone3", None,
            "__clone", "clone", "__start_context", "_start_c", "libc_start_main_stage2"}


class Trial:
    def __init__(self, case, folder, build, targets, long):
        self.case, self.folder, self.build, self.targets = case, folder, build, targets
        self.long, self.seconds = long, case.seconds
        self.tidemark = build / "tidemark"
        self.trace = folder / "trace.tide"
        self.ledger_path = folder / "ledger"
        self.problems = []

    # ---- verdicts ----

    def expect(self, good, sentence):
        """Notes a problem and goes on, so that one failure shows all wrong figures."""
        if not good:
            self.problems.append(sentence)
        return good

    def equal(self, what, got, wanted):
        return self.expect(got == wanted, f"{what}: got {got!r}, must be {wanted!r}")

    def need(self, good, sentence):
        """Without this the rest of the case makes no sense."""
        if not self.expect(good, sentence):
            self.finish()

    def finish(self):
        if self.problems:
            raise Failure("\n".join(self.problems))

    def skip(self, reason):
        raise Skip(reason)

    def need_root(self):
        if os.geteuid() != 0:
            raise Skip("needs root")

    def need_tool(self, name):
        path = shutil.which(name)
        if not path:
            raise Skip(f"{name} is not installed")
        return path

    # ---- running ----

    def target(self, name):
        path = self.targets / name
        if (self.targets / f"{name}.missing").exists():
            raise Skip(f"{name} cannot be built on this machine")
        return path

    def environment(self, extra=None):
        env = {key: value for key, value in os.environ.items()
               if not key.startswith("TIDEMARK") and key not in ("LD_PRELOAD", "LEDGER")}
        env["LEDGER"] = str(self.ledger_path)
        env.update(extra or {})
        return env

    def command(self, command):
        """Targets are named by their bare name; anything with a slash, or a Path, is itself."""
        first = command[0]
        known = isinstance(first, str) and "/" not in first and (self.targets / first).exists()
        return [self.target(first) if known else first, *command[1:]]

    def bare(self, command, env=None, **how):
        self.ledger_path.unlink(missing_ok=True)
        return run_program(self.command(command), self.environment(env), self.folder,
                           self.seconds, **how)

    def record(self, command, options=(), env=None, output=True, **how):
        """Runs `command` under the tool; the trace is self.trace."""
        self.ledger_path.unlink(missing_ok=True)
        where = ["-o", self.trace] if output else []
        return run_program([self.tidemark, "run", *where, *options, "--", *self.command(command)],
                           self.environment(env), self.folder, self.seconds, **how)

    def tool(self, *arguments, env=None, cwd=None, **how):
        return run_program([self.tidemark, *arguments], self.environment(env),
                           cwd or self.folder, self.seconds, **how)

    def report(self, trace=None, *arguments):
        path = trace or self.trace
        self.need(pathlib.Path(path).exists(), f"there is no trace {path}")
        result = self.tool("report", path, "--json", *arguments)
        self.need(result.status == 0,
                  f"report ended with {result.status}: {result.err[-600:]}")
        try:
            return json.loads(result.out)
        except ValueError as error:
            raise Failure(f"report printed no JSON: {error}\n{result.out[:300]}") from None

    def ledger(self, suffix=""):
        path = pathlib.Path(f"{self.ledger_path}{suffix}")
        self.need(path.exists(), f"the program wrote no ledger {path.name}")
        text = path.read_bytes().split(b"\0")[0].decode()
        self.need(text.endswith("}\n"), f"the ledger is not whole: {text[-200:]!r}")
        return json.loads(text.splitlines()[-1])

    # ---- comparing ----

    def same_behaviour(self, bare, recorded):
        self.equal("exit status", recorded.shell_status(), bare.shell_status())
        self.equal("standard output", recorded.out, bare.out)
        self.equal("standard error", recorded.their_errors(), bare.err)

    def nothing_lost(self, report, unseen=0):
        """`unseen`: frees inside an allocator's own library that nobody can see, at most."""
        self.equal("lost_events", report["lost_events"], 0)
        self.expect(report["freed_unseen"] <= unseen, f"freed_unseen: {report['freed_unseen']}")
        self.equal("allocations - frees", report["allocations"] - report["frees"],
                   report["unfreed_allocations"])

    def functions_match(self, report, ledger):
        """A site's own calls: where a signal or an exception falls into it, others' are below."""
        by_name = {}
        for row in report["functions"]:
            sums = by_name.setdefault(row["function"], dict.fromkeys(FIGURES, 0))
            for key in FIGURES:
                sums[key] += row["self"][key]
        nothing = dict.fromkeys(FIGURES, 0)
        for row in ledger["functions"]:
            seen = by_name.get(row["function"], nothing)
            for key in FIGURES:
                if key in row:
                    self.equal(f"{row['function']}(): {key}", seen[key], row[key])

    def stacks_whole(self, report):
        """No stack ends before its root, unless it says so."""
        self.equal("cut_stacks", report["cut_stacks"], 0)
        for stack in report.get("stack_list", []):
            last = stack["frames"][-1] if stack["frames"] else {"function": None, "module": ""}
            # A root without a name: a coroutine's first frame, or musl's start code.
            libc = re.search(r"/(libc\.so|ld-musl)", last["module"])
            if last["function"] not in ROOTS and not (last["function"] is None and libc):
                names = [frame["function"] for frame in stack["frames"]]
                self.problems.append(f"a stack ends too early: {names[-12:]}")
                break

    def stacks_match(self, report, ledger):
        counts = {}
        for stack in report.get("stack_list", []):
            names = [frame["function"] for frame in stack["frames"]]
            while names and names[-1] in STARTERS:
                names.pop()
            words = " ".join(name or "?" for name in names)
            counts[words] = counts.get(words, 0) + stack["allocations"]
        for row in ledger["stacks"]:
            if not self.equal(f"allocations of the stack '{row['frames']}'",
                              counts.get(row["frames"], 0), row["allocations"]):
                some = "\n".join(f"    {count:8} {words[:300]}" for words, count in
                                 sorted(counts.items(), key=lambda one: -one[1])[:8])
                self.problems.append(f"  the trace has:\n{some}")

    def totals_match(self, report, ledger):
        for key in FIGURES:
            if key in ledger and ledger["exact"]:
                self.equal(key, report[key], ledger[key])
        known = set(FIGURES) | {"target", "functions", "stacks", "exact"}
        for key in set(ledger) - known:
            self.equal(key, report[key], ledger[key])

    def figures_match(self, report, ledger):
        self.functions_match(report, ledger)
        self.stacks_match(report, ledger)
        self.totals_match(report, ledger)

    def compare(self, command, options=(), env=None, lossless=True, alone=True, unseen=0,
                stacks=True, whole=True):
        """The whole promise: same behaviour, nothing lost, every figure equal. `alone` False:
        libraries that `env` brings along allocate, too."""
        bare = self.bare(command, env)
        if bare.status == 77:
            raise Skip("the C library does not have it")
        recorded = self.record(command, options, env)
        self.same_behaviour(bare, recorded)
        self.need(self.trace.exists(), f"no trace was written: {recorded.err[-600:]}")
        report = self.report(None, "--by", "function", *(["--stacks"] if stacks else []))
        if lossless:
            self.nothing_lost(report, unseen)
            self.equal("freed_older", report["freed_older"], 0)
        if whole:
            self.stacks_whole(report)
        ledger = self.ledger()
        ledger["exact"] &= alone
        self.figures_match(report, ledger)
        return report, recorded

    # ---- watching a running program ----

    def start(self, command, env=None, **how):
        """Starts without waiting. Use with Watch."""
        how.setdefault("stdin", subprocess.PIPE)
        how.setdefault("stdout", subprocess.PIPE)
        how.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([str(one) for one in command], env=self.environment(env),
                                cwd=self.folder, start_new_session=True, **how)
