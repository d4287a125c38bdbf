# SPDX-License-Identifier: Apache-2.0
"""The frame of the end-to-end tests: cases, trials, TAP.

A case is a function that gets a Trial: its own empty folder and the means to run
a program bare and recorded. It fails by raising; several wrong figures are
collected and shown together. Cases know nothing of each other.
"""
import concurrent.futures
import errno
import importlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

CASES = []
TARGETS = pathlib.Path(__file__).resolve().parent.parent / "targets"


class Case:
    def __init__(self, name, loses, seconds, serial, function):
        self.name, self.loses, self.seconds = name, loses, seconds
        self.serial, self.function = serial, function


def case(name, loses, seconds=60, serial=False):
    """Registers a case. `loses`: what a user loses when it fails. `seconds`: of each program
    it runs. `serial`: it measures, so nothing runs beside it."""
    def register(function):
        CASES.append(Case(name, loses, seconds, serial, function))
        return function
    return register


class Failure(Exception):
    pass


class Skip(Exception):
    pass


class Result:
    """What a program did: exit status (negative: signal), output, errors."""
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def shell_status(self):
        """As a shell shows it: a signal is 128 + its number."""
        return 128 - self.status if self.status < 0 else self.status

    def our_lines(self):
        return [line for line in self.err.splitlines() if line.startswith("tidemark")]

    def their_errors(self):
        lines = self.err.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("tidemark"))


def load_cases(folder, names):
    for path in sorted(folder.glob("*.py")):
        importlib.import_module(f"cases.{path.stem}")
    if not names:
        return CASES
    chosen = [one for one in CASES
              if any(one.name == name or (name.endswith("/") and one.name.startswith(name))
                     for name in names)]
    if not chosen:
        sys.exit(f"no case is called {' or '.join(names)}; --list shows all")
    return chosen


def end_session(process):
    """Ends a program that is out of time, and all it started (it leads its own session)."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            if int(stat.rpartition(")")[2].split()[3]) == process.pid:
                os.kill(int(pid), signal.SIGKILL)
        except (OSError, IndexError, ValueError):
            continue


def start_program(command, **how):
    """As Popen. A program that the case has just written may still be open for writing in a
    child that another case is forking: that ends in a moment."""
    for _ in range(200):
        try:
            return subprocess.Popen([str(one) for one in command], **how)
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise
        time.sleep(0.01)
    raise Failure(f"{command[0]} stays busy")


def run_program(command, env, cwd, seconds, stdin=subprocess.DEVNULL, input_text=None):
    """Runs to the end within `seconds`; raises Failure when it does not end."""
    feed = {"stdin": stdin} if input_text is None else {"stdin": subprocess.PIPE}
    process = start_program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                            cwd=cwd, text=True, errors="replace", start_new_session=True, **feed)
    try:
        out, err = process.communicate(input=input_text, timeout=seconds)
    except subprocess.TimeoutExpired:
        end_session(process)
        out, err = process.communicate()
        raise Failure(f"no end after {seconds} s: {' '.join(map(str, command))}\n"
                      f"output so far: {out[-500:]!r} {err[-500:]!r}") from None
    return Result(process.returncode, out, err)


def run_case(one, build, targets, options):
    """(outcome, notes, seconds); outcome is 'ok', 'skip' or 'failed'."""
    from trial import Trial  # imports this module
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tidemark-e2e-"))
    folder.chmod(0o755)
    start = time.monotonic()
    outcome, notes = "ok", ""
    try:
        trial = Trial(one, folder, build, targets, options.long)
        one.function(trial)
        trial.finish()
    except Skip as reason:
        outcome, notes = "skip", str(reason)
    except Failure as failure:
        outcome, notes = "failed", str(failure)
    except Exception:
        outcome, notes = "failed", traceback.format_exc()
    if outcome == "failed" and options.keep:
        notes += f"\nkept: {folder}"
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome, notes, time.monotonic() - start


class Tap:
    """Prints one case at a time; notes stand before the line they explain."""
    def __init__(self, count):
        self.lock, self.number = threading.Lock(), 0
        self.passed = self.failed = 0
        print(f"1..{count}", flush=True)

    def tell(self, one, outcome, notes, seconds):
        with self.lock:
            self.number += 1
            if outcome == "failed":
                self.failed += 1
                shown = notes.rstrip().splitlines()[:40]
                print("".join(f"# {line}\n" for line in shown), end="")
                print(f"# a user loses: {one.loses}")
                print(f"not ok {self.number} - {one.name} ({seconds:.1f} s)", flush=True)
                return
            self.passed += 1
            skip = f" # SKIP {notes}" if outcome == "skip" else ""
            print(f"ok {self.number} - {one.name} ({seconds:.1f} s){skip}", flush=True)


def build_targets(build, jobs):
    """Compiles the target programs; their folder. Ends here if that fails."""
    out = build / "targets"
    made = subprocess.run(["make", "-s", "-C", TARGETS, f"OUT={out}", f"-j{jobs}"],
                          capture_output=True, text=True)
    if made.returncode:
        print("# the target programs do not build:")
        print("".join(f"#   {line}\n" for line in made.stderr.splitlines()[-30:]), end="")
        print("not ok 0 - build of the target programs\n0 passed, 1 failed")
        sys.exit(1)
    return out


def run_all(cases, build, targets, options):
    tap = Tap(len(cases))

    def work(one):
        tap.tell(one, *run_case(one, build, targets, options))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, [one for one in cases if not one.serial]))
    for one in cases:
        if one.serial:
            work(one)
    print(f"{tap.passed} passed, {tap.failed} failed")
    return 1 if tap.failed else 0
