/* SPDX-License-Identifier: Apache-2.0 */
/* The readers: one descriptor per file, listed in import.c. */
#pragma once

#include "import/reader.h"

extern const struct import_format import_heaptrack;
extern const struct import_format import_bytehound;
extern const struct import_format import_collapsed;
extern const struct import_format import_dhat;
extern const struct import_format import_gperftools;
extern const struct import_format import_heapprofile;
extern const struct import_format import_heapsnapshot;
extern const struct import_format import_jemalloc;
extern const struct import_format import_massif;
extern const struct import_format import_pprof;
