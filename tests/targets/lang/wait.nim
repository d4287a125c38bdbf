# SPDX-License-Identifier: Apache-2.0
# Waits for a line, works, says what its allocator did meanwhile (-d:nimTypeNames), waits again.
import std/tables

proc printf(format: cstring) {.importc, varargs, header: "<stdio.h>".}
proc getchar(): cint {.importc, header: "<stdio.h>".}
proc fflush(file: pointer): cint {.importc, header: "<stdio.h>".}

type Node = ref object
  next: Node
  data: seq[int]

var kept: Table[string, Node]

proc work(rounds: int) =
  for i in 1..rounds:
    var list: Node
    for k in 1..10:
      list = Node(next: list, data: newSeq[int](k mod 17))
    if i mod 50 == 0: kept["k" & $i] = list

proc wait(word: cstring) =
  printf("%s\n", word)
  discard fflush(nil)
  discard getchar()

work(100)
wait("ready")
let (allocationsBefore, _) = getMemCounters()
work(500)
let (allocations, _) = getMemCounters()
printf("%ld ", allocations - allocationsBefore)
wait("allocations")
