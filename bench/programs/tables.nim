# SPDX-License-Identifier: Apache-2.0
# Sequences, strings and tables; compiled with -d:useMalloc, so that Nim's memory comes from malloc.
import std/[algorithm, editdistance, os, strutils, tables]

type Node = ref object
  name: string
  children: seq[Node]

proc grow(depth: int, number: int): Node =
  result = Node(name: "node " & $number)
  if depth > 0:
    for i in 0 ..< 3:
      result.children.add(grow(depth - 1, number * 3 + i))

proc count(node: Node): int =
  result = node.name.len
  for child in node.children:
    result += count(child)

proc readTable(text: string): OrderedTable[string, float] =
  for line in text.splitLines:
    let parts = line.split(';')
    if parts.len == 3:
      result[parts[0] & "/" & parts[1].strip] = parseFloat(parts[2])

proc work(round: int): int =
  var lines: seq[string]
  for i in 0 ..< 20000:
    lines.add("place " & $((i * 7919 + round) mod 10007) & "; kind" & $(i mod 13) & ";" &
      formatFloat(float(i * round) / 7.0, ffDecimal, 3))
  lines.sort(cmpIgnoreCase)
  var table = readTable(lines.join("\n"))
  table.sort(proc(a, b: (string, float)): int = cmp((b[1], a[0]), (a[1], b[0])))
  var groups = initTable[string, seq[string]]()
  for name, value in table:
    groups.mgetOrPut(name.split('/')[1], @[]).add(name.toUpperAscii & " " & $int(value))
  for names in groups.mvalues:
    names.sort()
  result = table.len + groups.len + count(grow(8, round))
  for names in groups.values:
    for i in 1 ..< names.len:
      if editDistanceAscii(names[i - 1], names[i]) < 3:
        inc result

let rounds = if paramCount() > 0: parseInt(paramStr(1)) else: 1
var total = 0
for round in 0 ..< rounds:
  total += work(round)
echo total
