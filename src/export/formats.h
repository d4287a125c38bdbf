/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of the formats, one per file. */
#pragma once

#include "export/export.h"

extern const struct export_format export_collapsed;
extern const struct export_format export_pprof;
extern const struct export_format export_heaptrack;
extern const struct export_format export_speedscope;
extern const struct export_format export_flamegraph;
extern const struct export_format export_callgrind;
extern const struct export_format export_massif;
extern const struct export_format export_dhat;
extern const struct export_format export_csv;
extern const struct export_format export_json;
extern const struct export_format export_firefox;
extern const struct export_format export_chrome;
extern const struct export_format export_sqlite;
