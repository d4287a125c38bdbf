/* SPDX-License-Identifier: Apache-2.0 */
/* A part of views.h, which includes it: what the resident set consists of. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct view_data;

struct view_rss {
	bool known; /* there was a sample; else all is 0 */
	uint64_t rss_bytes, time_ns, heap_bytes, mapped_bytes, agent_bytes;
	int64_t rest_bytes; /* rss - heap - mapped - agent; below 0: asked for and never touched */
	uint64_t anonymous_bytes; /* without the agent; 0 = unknown */
	uint64_t explained_bytes; /* of anonymous_bytes, by blocks live then or before */
	const char *cause;        /* a sentence if less than half is explained, else NULL */
	const char *advice;       /* what to do about it; NULL with cause */
};
void view_rss(const struct view_data *data, struct view_rss *ret_rss);
