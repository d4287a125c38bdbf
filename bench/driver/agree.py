# SPDX-License-Identifier: Apache-2.0
"""Do two tools that name addresses say the same? Differences are put into classes, each explained in docs/symbols.md."""
import bisect
import os
import re
import subprocess

# What we drop of a name, and why, is in docs/symbols.md.
CLONE = re.compile(r"(\s*\[clone [^\]]*\]|\.(cold|constprop|isra|part|lto_priv|llvm)(\.\d+)*)+$")
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$|\[[0-9a-f]{14,16}\]")
VERSION = re.compile(r"@+[A-Z][A-Za-z0-9_.]*$")


def run_addr2line(path, addresses):
    command = ["addr2line", "-a", "-i", "-f", "-C", "-e", path]
    return parse(command, addresses)


def run_llvm(path, addresses):
    """Its own demangler writes some names otherwise and does not know all: libiberty's does it for both."""
    command = ["llvm-symbolizer", "--output-style=GNU", "-a", "-i", "-f", "--no-demangle", "--obj=" + path]
    return demangle(parse(command, addresses))


def demangle(answers):
    names = sorted({name for frames in answers.values() for name, _, _ in frames})
    done = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True)
    plain = dict(zip(names, done.stdout.split("\n")))
    return {address: [(plain_name(plain[name]), file, line) for name, file, line in frames]
            for address, frames in answers.items()}


def run_ours(symbolize, path, addresses):
    return parse([symbolize, path], addresses)


def parse(command, addresses):
    """address -> [(function, file, line)], innermost first."""
    text = "".join("0x%x\n" % address for address in addresses)
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          errors="replace", check=True)
    answers, current, function = {}, None, None
    for line in done.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line) and function is None:
            current = answers.setdefault(int(line, 16), [])
        elif function is None:
            function = line
        else:
            current.append(frame(function, line))
            function = None
    return answers


def frame(function, place):
    place = re.sub(r" \(discriminator \d+\)$", "", place)
    file, _, line = place.rpartition(":")
    # llvm-symbolizer ends its lines with a column.
    if re.search(r":\d+$", file) and line.isdigit():
        file, _, line = file.rpartition(":")
    number = int(line) if line.isdigit() else 0
    return plain_name(function), plain_file(file), number


def plain_name(name):
    name = re.sub(r"^__GI_", "", name)
    # Rust's constants with their type.
    name = re.sub(r"\b(\d+|true|false): [a-z]+\d*\b", r"\1", name)
    name = VERSION.sub("", CLONE.sub("", name))
    return RUST_HASH.sub("", CLONE.sub("", name))


def plain_file(file):
    return None if file.startswith("??") else os.path.normpath(file)


def base_name(name):
    """A function's name without what is in brackets."""
    depth, kept = 0, []
    for at, char in enumerate(name):
        if char in "(<" and "operator" not in name[max(0, at - 10):at]:
            depth += 1
        elif char in ")>" and depth and name[at - 1] != "-":
            depth -= 1
        elif not depth:
            kept.append(char)
    words = "".join(kept).replace(" const", "").split()
    return words[-1].split("::")[-1] if words else ""


class SymbolTables:
    """Which names a program's symbol tables have for one address, and where they have functions."""

    def __init__(self, files):
        self.places, functions = {}, []
        for file in files:
            done = subprocess.run(["readelf", "-sW", "-C", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, errors="replace", check=False)
            for line in done.stdout.splitlines():
                words = line.split(None, 7)
                if len(words) < 8 or not words[0].endswith(":") or words[6] == "UND":
                    continue
                self.places.setdefault(plain_name(words[7]), set()).add(words[1])
                if words[3] in ("FUNC", "IFUNC"):
                    functions.append((int(words[1], 16), int(words[2], 0)))
        self.functions = sorted(functions)

    def same(self, one, other):
        places = self.places.get(one, set())
        return one == other or bool(places & self.places.get(other, set()))

    def has_function(self, address):
        at = bisect.bisect_right(self.functions, (address, 1 << 63))
        return any(start <= address < start + size for start, size in self.functions[max(0, at - 64):at])


def is_named(frames):
    return bool(frames) and frames[0][0] != "??"


def same_but_names(ours, other, same):
    return len(ours) == len(other) and all(a[1:] == b[1:] and same(a[0], b[0]) for a, b in zip(ours, other))


def same_but_object_file(ours, other, same):
    """The peer gives a file without a line: the name of the object's source from the symbol table."""
    return len(ours) == len(other) and all(a == b or (same(a[0], b[0]) and not a[2] and not b[2])
                                           for a, b in zip(ours, other))


def once(frames):
    """Without the folder that peers put twice: stdlib/stdlib/setenv.c, where a build made its paths relative."""
    return [(name, re.sub(r"^((?:[^/]+/)+)\1", r"\1", file) if file else file, line) for name, file, line in frames]


def explain(address, ours, other, third, tables):
    """The class of a difference to `other`; None = they agree, "?" = not explained. third: the other peer's answer."""
    if ours == other:
        return None
    if not is_named(ours) and not tables.has_function(address):
        return "no function there: padding, or data among the code"
    if same_but_names(ours, other, tables.same):
        return "another name of the same function"
    if same_but_object_file(ours, other, tables.same):
        return "a file without a line, from the symbol table's file names"
    if same_but_names(ours, once(other), tables.same):
        return "a folder twice, where a build made its paths relative"
    third = once(third)
    if ours == third or same_but_names(ours, third, tables.same) or same_but_object_file(ours, third, tables.same):
        return "the two others agree: " + kind_of(ours, once(other))
    if not is_named(other) and tables.has_function(address):
        return "a name from the debug file's symbol table, which the peer does not read"
    return "?"


def kind_of(ours, other):
    if is_named(ours) != is_named(other):
        return "a name"
    if len(ours) != len(other):
        return "inlined functions"
    if any(base_name(a[0]) != base_name(b[0]) for a, b in zip(ours, other)):
        return "a name"
    if any(a[1:] != b[1:] for a, b in zip(ours, other)):
        return "file or line"
    return "spelling of a name"
