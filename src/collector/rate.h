/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a trace grows, and how long its disk or limit will do: for status, metrics and end
 * lines. */
#pragma once

#include "collector/collector.h"

/* `written`: bytes of the file at `path` in age_ns. A file that folds, or of which old ones are
 * deleted, does not grow for ever: it has no left_ns. */
struct collector_rate rate_of(const struct collector_options *options, const char *path,
			      uint64_t written, uint64_t age_ns);
