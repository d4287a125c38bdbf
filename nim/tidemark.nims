# SPDX-License-Identifier: Apache-2.0
#
# Lets the allocator of a Nim program speak to Tidemark, whatever the garbage
# collector, threads included. Two lines in the program's config.nims:
#
#   when defined(tidemark):
#     include "/usr/share/tidemark/nim/tidemark.nims"
#
# and then: nim c -d:tidemark program.nim. docs/nim.md is the guide.
#
# How: the compiler's own lib/system/alloc.nim is read, three calls are put into
# it, and the result, in the program's nimcache, is compiled in its place. If
# this compiler's file does not look as expected the compilation ends and says so.

import std/[compilesettings, os, strutils]

const tidemarkFolder = currentSourcePath().parentDir

proc tidemarkInsert(text, before, after: string): string =
  if text.count(before) != 1:
    quit "tidemark: this compiler's system/alloc.nim has no single '" & before.strip &
      "'. Build with -d:useMalloc instead: Tidemark sees that without any change."
  text.replace(before, after)

proc tidemarkPatch(source, library: string): string =
  result = source
  let declarations = """
proc tidemarkAlloc(p: pointer, size: int) {.importc: "tidemark_nim_alloc", header: "$1", noSideEffect.}
proc tidemarkFree(p: pointer) {.importc: "tidemark_nim_free", header: "$1", noSideEffect.}
proc tidemarkGrow(p: pointer, size: int) {.importc: "tidemark_nim_grow", header: "$1", noSideEffect.}
proc tidemarkPages(size: int): pointer {.inline.} =
  result = osAllocPages(size)
  tidemarkGrow(result, size)
proc tidemarkTryPages(size: int): pointer {.inline.} =
  result = osTryAllocPages(size)
  if result != nil: tidemarkGrow(result, size)
""" % (tidemarkFolder / "tidemark_nim.h")
  # Memory from the system is the allocator's: its pieces are counted, not the mappings.
  result = result.replace("osAllocPages(", "tidemarkPages(")
  result = result.replace("osTryAllocPages(", "tidemarkTryPages(")
  result = result.tidemarkInsert("\ninclude osalloc\n",
    "\ninclude \"" & library / "system" / "osalloc" & "\"\n" & declarations)
  result = result.tidemarkInsert("\n  when logAlloc: cprintf(\"var pointer_%p = alloc",
    "\n  tidemarkAlloc(result, requestedSize)\n  when logAlloc: cprintf(\"var pointer_%p = alloc")
  result = result.tidemarkInsert("\nproc rawDealloc(a: var MemRegion, p: pointer) =\n",
    "\nproc rawDealloc(a: var MemRegion, p: pointer) =\n  tidemarkFree(p)\n")

proc tidemarkInstall() =
  let library = querySetting(SingleValueSetting.libPath)
  let patched = nimcacheDir() / "tidemark_alloc.nim"
  let text = tidemarkPatch(readFile(library / "system" / "alloc.nim"), library)
  mkDir(nimcacheDir())
  if not fileExists(patched) or readFile(patched) != text:
    writeFile(patched, text)
  patchFile("stdlib", "alloc", patched.changeFileExt(""))
  for folder in [tidemarkFolder / "../../../include", tidemarkFolder / "../include", tidemarkFolder]:
    if fileExists(folder / "tidemark.h"):
      switch("passC", "-I" & folder.quoteShell)
      return
  quit "tidemark: tidemark.h is neither beside tidemark.nims nor where it was installed"

tidemarkInstall()
