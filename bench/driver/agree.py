# SPDX-License-Identifier: Apache-2.0
"""Do two tools that name addresses say the same? Differences are put into classes, each explained in docs/symbols.md."""
import os
import re
import subprocess

# What we drop of a name, and why, is in docs/symbols.md.
CLONE = re.compile(r"(\s*\[clone [^\]]*\]|\.(cold|constprop|isra|part|lto_priv|llvm)(\.\d+)*)+$")
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
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
    name = VERSION.sub("", CLONE.sub("", name))
    return RUST_HASH.sub("", CLONE.sub("", name))


def plain_file(file):
    return None if file.startswith("??") else os.path.normpath(file)


def base(name):
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


def classify(ours, other):
    """None if they agree, else the class of the difference."""
    if ours == other:
        return None
    if not other or other[0][0] == "??":
        return "only we have a name"
    if not ours or ours[0][0] == "??":
        return "only the other has a name"
    if len(ours) != len(other):
        return "inline chain"
    names = [(a[0], b[0]) for a, b in zip(ours, other) if a[0] != b[0]]
    if any(base(a) != base(b) for a, b in names):
        return "name"
    if any(a[1:] != b[1:] for a, b in zip(ours, other)):
        return "place"
    return "spelling of a name"
