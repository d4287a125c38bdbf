# SPDX-License-Identifier: Apache-2.0
"""One case per function that allocates, frees or maps."""
from harness import case

LIBC = ["malloc", "calloc", "realloc", "realloc_zero", "reallocarray", "posix_memalign",
        "aligned_alloc", "memalign", "valloc", "pvalloc", "cfree", "free_sized",
        "free_aligned_sized", "large", "errno"]
NEW = ["new", "new_sized", "new_array", "new_nothrow", "new_aligned", "new_aligned_nothrow",
       "new_expression", "bad_alloc"]
MAP = ["mmap", "mremap", "mprotect", "madvise", "brk", "file"]
FOREIGN = ["jemalloc", "mimalloc", "tcmalloc"]


def add(name, loses, command, unseen=0):
    case(name, loses)(lambda t: t.compare(command, unseen=unseen))


def unseen_by(library):
    """tcmalloc frees a string of its own at start by a call that never leaves its library."""
    return 2 if library == "tcmalloc" else 0


for mode in LIBC:
    add(f"api/{mode}", f"memory that comes from or goes by {mode}() is counted wrongly",
        ["api_libc", mode])
for mode in NEW:
    add(f"api/{mode}", f"memory of C++'s operator {mode} is counted wrongly", ["api_new", mode])
for mode in MAP:
    add(f"api/map_{mode}", f"memory mapped by {mode} is counted wrongly or as heap",
        ["api_map", mode])
@case("api/map_filter", "kind=mapped does not say who mapped memory")
def map_filter(t):
    t.record(["api_map", "mmap"])
    report = t.report(t.trace, "--filter", "kind=mapped", "--by", "function")
    mib = 1 << 20
    # 8 MiB that end in three parts, of which one stays, and 4 that stay.
    rows = {row["function"]: row["self"] for row in report["functions"]}
    mapped = rows["map_anonymous"]
    t.equal("allocations", (mapped["allocations"], mapped["allocated_bytes"]), (4, 12 * mib))
    t.equal("frees", mapped["frees"], 2)
    t.equal("live", (mapped["unfreed_allocations"], mapped["unfreed_bytes"]), (2, 7 * mib))
    both = t.report(t.trace, "--filter", "kind=heap", "--by", "function")
    t.equal("the heap has none of it",
            [row for row in both["functions"] if row["function"] == "map_anonymous"], [])


def mappings(t):
    """Rows of the maps of one program: op, address, bytes, stack's function, of a file, no call."""
    asked = t.tool("sql", "--csv", t.trace,
                   "select op, address, bytes, site, is_file, is_restated from maps")
    rows = [line.split(",") for line in asked.out.splitlines()[1:]]
    return [(op, int(at), int(size), site, is_file == "1", again == "1")
            for op, at, size, site, is_file, again in rows]


@case("api/unmap_refused", "a failing munmap invents mapped memory, or forgets who mapped it")
def unmap_refused(t):
    t.same_behaviour(t.bare(["unmapped", "refused"]), t.record(["unmapped", "refused"]))
    report, rows = t.report(), mappings(t)
    t.equal("mapped_peak_bytes", report["mapped_peak_bytes"], 25 * 4096)
    t.equal("file_mapped_peak_bytes", report["file_mapped_peak_bytes"], 4096)
    t.equal("calls", sum(row[0] == "map" and not row[5] for row in rows), 2)
    t.equal("told of impossible ranges",
            [row for row in rows if not row[2] or row[1] % 4096 or row[1] >> 56], [])
    left = {}  # by page: whose it is
    for op, at, size, site, is_file, _ in rows:
        for page in range(at, at + min(size, 1 << 20), 4096):
            left.pop(page, None)
            if op == "map":
                left[page] = (site, is_file)
    t.equal("pages left", sorted(set(left.values())), [("keep_file", True), ("keep_private", False)])
    t.equal("their number", len(left), 26)


@case("api/mremap_kept", "memory that mremap leaves mapped at its old place is taken for gone")
def mremap_kept(t):
    bare = t.bare(["unmapped", "kept"])
    if bare.status == 77:
        t.skip("the kernel has no MREMAP_DONTUNMAP")
    t.same_behaviour(bare, t.record(["unmapped", "kept"]))
    # One place and then two, of which the first goes and the second loses a page; then two more,
    # and shared memory, which is mapped at two places in the end.
    t.equal("mapped_peak_bytes", t.report()["mapped_peak_bytes"], (24 + 2 * 25 + 2 * 3) * 4096)
    t.equal("told again", [row for row in mappings(t) if row[0] == "map" and row[5]], [])


for library in FOREIGN:
    add(f"api/{library}", f"{library}'s own entry points are missed or counted twice",
        [f"api_{library}"], unseen_by(library))
    for mode in NEW:
        if (library, mode) != ("mimalloc", "bad_alloc"):  # mimalloc aborts there by itself
            add(f"api/{library}_{mode}", f"C++ programs linked with {library} are counted wrongly",
                [f"api_new_{library}", mode], unseen_by(library))


def behind(library):
    @case(f"api/preloaded_{library}", f"programs run with {library} preloaded are counted wrongly")
    def preloaded(t):
        path = f"/usr/lib/x86_64-linux-gnu/lib{library}.so"
        t.compare(["simple", "3"], env={"LD_PRELOAD": path}, alone=False,
                  unseen=unseen_by(library))


for library in FOREIGN:
    behind(library)
