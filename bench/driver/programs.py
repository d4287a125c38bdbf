# SPDX-License-Identifier: Apache-2.0
"""The real programs of the figures: how each is prepared and run. Sized for 1 to 3 s bare."""
import os
import shutil
import socket
import subprocess
import time


class Skip(Exception):
    """The program cannot be measured here; the text says why."""


def need(name):
    path = shutil.which(name)
    if not path:
        raise Skip("no %s on this machine" % name)
    return path


def build(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Skip("'%s' failed: %s" % (" ".join(command[:3]), done.stdout.strip().splitlines()[-1:]))


class Program:
    """One program. `env` is added to the environment; `client` drives a server; `limited` bounds its address space."""

    def __init__(self, name, title, prepare, in_mean=True, limited=True):
        self.name, self.title, self.prepare = name, title, prepare
        self.in_mean, self.limited = in_mean, limited
        self.command, self.env, self.client = None, {}, None

    def make_ready(self, sources, folder, quick):
        self.prepare(self, sources, folder, quick)


def sqlite(program, sources, _folder, _quick):
    program.command = [need("sqlite3"), ":memory:", ".read %s" % os.path.join(sources, "sqlite.sql")]


def python(program, sources, _folder, quick):
    interpreter = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else need("python3")
    program.command = [interpreter, os.path.join(sources, "json_work.py"), "1" if quick else "2"]
    program.env = {"PYTHONMALLOC": "malloc"}


def clang(program, sources, folder, _quick):
    # The driver would start the compiler proper in its own process anyway; -fintegrated-cc1 is the default.
    program.command = [os.path.realpath(need("clang++")), "-x", "c++", "-std=c++17", "-O1", "-S", "-DINSTANCES=1",
                       os.path.join(sources, "stl.cc"), "-o", os.path.join(folder, "stl.s")]


def cc1plus(program, sources, folder, _quick):
    compiler = subprocess.run([need("g++"), "-print-prog-name=cc1plus"], stdout=subprocess.PIPE, text=True, check=True)
    machine = subprocess.run(["g++", "-print-multiarch"], stdout=subprocess.PIPE, text=True, check=True)
    program.command = [compiler.stdout.strip(), "-quiet", "-imultiarch", machine.stdout.strip(), "-D_GNU_SOURCE",
                       "-std=c++17", "-O1", "-DINSTANCES=1", os.path.join(sources, "stl.cc"),
                       "-o", os.path.join(folder, "stl.s")]


def node(program, sources, _folder, quick):
    program.command = [need("node"), os.path.join(sources, "buffers.js"), "100" if quick else "300"]


def rust(program, sources, folder, quick):
    binary = os.path.join(folder, "collections")
    build([need("rustc"), "-O", "-g", "-o", binary, os.path.join(sources, "collections.rs")], folder)
    program.command = [binary, "4" if quick else "8"]


def nim(program, sources, folder, quick):
    binary = os.path.join(folder, "tables")
    build([need("nim"), "c", "--hints:off", "--gc:orc", "-d:release", "-d:useMalloc",
           "--nimcache:" + os.path.join(folder, "nimcache"), "-o:" + binary,
           os.path.join(sources, "tables.nim")], folder)
    program.command = [binary, "20" if quick else "40"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_server(port, deadline):
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return True
        except OSError:
            pass
        time.sleep(0.005)
    return False


def redis_load(port, requests):
    def drive(_pid, time_limit_s):
        """None, or what failed. Loads the server and then asks it to end."""
        deadline = time.monotonic() + time_limit_s
        if not wait_for_server(port, min(deadline, time.monotonic() + 20)):
            return "the server did not answer"
        load = ["redis-benchmark", "-p", str(port), "-q", "-n", str(requests), "-c", "20", "-P", "8", "-d", "100",
                "-r", "100000", "-t", "set,get,lpush,hset,zadd"]
        try:
            done = subprocess.run(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                                  timeout=max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return "redis-benchmark not finished after %d s" % time_limit_s
        if done.returncode != 0:
            return "redis-benchmark failed with %d" % done.returncode
        subprocess.run(["redis-cli", "-p", str(port), "shutdown", "nosave"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False, timeout=10)
        return None
    return drive


def redis(program, _sources, folder, quick):
    need("redis-benchmark")
    need("redis-cli")
    port = free_port()
    program.command = [need("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                       "--appendonly", "no", "--dir", folder]
    program.client = redis_load(port, 50000 if quick else 150000)


def all_programs():
    return [
        Program("sqlite", "sqlite3, in-memory script", sqlite),
        Program("python", "python3 on JSON, PYTHONMALLOC=malloc", python),
        Program("clang", "clang++ -O1 on an STL-heavy file", clang),
        Program("node", "node with Buffers and JSON", node, limited=False),
        Program("rust", "Rust: collections and strings", rust),
        Program("nim", "Nim: tables and strings, -d:useMalloc", nim),
        Program("redis", "redis-server under redis-benchmark", redis),
        # heaptrack's interpreter needs most of a minute for it, so it is not in the mean and runs only by name.
        Program("cc1plus", "g++ (cc1plus) -O1 on an STL-heavy file", cc1plus, in_mean=False),
    ]
