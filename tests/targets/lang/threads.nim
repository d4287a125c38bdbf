# SPDX-License-Identifier: Apache-2.0
# Four threads with heaps of their own; each has its own counters (refc).
proc printf(format: cstring) {.importc, varargs, header: "<stdio.h>".}

var counts: array[4, int]

proc work(which: int) {.thread.} =
  var words: seq[string]
  for i in 1..500: words.add($i)
  for i in 1..200: words.delete(0)
  counts[which] = getMemCounters()[0]

var threads: array[4, Thread[int]]
for i in 0..3: createThread(threads[i], work, i)
joinThreads(threads)
var sum = getMemCounters()[0]
for count in counts: sum += count
printf("%ld\n", sum)
