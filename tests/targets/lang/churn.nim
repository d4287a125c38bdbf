# SPDX-License-Identifier: Apache-2.0
# Counts what its allocator does by Nim's own counters (-d:nimTypeNames), and says it at the end.
import std/tables

proc printf(format: cstring) {.importc, varargs, header: "<stdio.h>".}

type Node = ref object
  next: Node
  data: seq[int]

proc build(n: int): Node =
  for i in 1..n:
    result = Node(next: result, data: newSeq[int](i mod 17))

var kept: Table[string, Node]

proc work(rounds: int) =
  for i in 1..rounds:
    let list = build(10)
    if i mod 50 == 0: kept["k" & $i] = list
  let raw = alloc(1000)
  dealloc(realloc(raw, 5000))

work(1000)
let (allocations, frees) = getMemCounters()
printf("%ld %ld\n", allocations, frees)
