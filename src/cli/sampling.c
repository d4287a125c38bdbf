/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sampling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "trace/weight.h"

enum { DEFAULT_LOG2 = 19 };
#define DEFAULT_SHARE 0.1

/* The power of two that is nearest by ratio. */
static unsigned nearest_log2(uint64_t bytes)
{
	unsigned log2 = 63 - (unsigned)__builtin_clzll(bytes);
	double low = (double)(1ull << log2);
	return (double)bytes / low > 1.41421356 ? log2 + 1 : log2;
}

bool sampling_interval(const struct args *args, const char *value, unsigned *ret_log2)
{
	struct tm_error err = {0};
	uint64_t bytes = 0;
	*ret_log2 = DEFAULT_LOG2;
	if (!value || !strcmp(value, "1"))
		return true;
	if (units_parse_bytes(value, &bytes, &err)) {
		fprintf(stderr, "tidemark %s: 'sample': %s\n", args->command, err.text);
		return false;
	}
	unsigned log2 = bytes ? nearest_log2(bytes) : 0;
	if (log2 < TRACE_INTERVAL_LOG2_MIN || log2 > TRACE_INTERVAL_LOG2_MAX) {
		fprintf(stderr,
			"tidemark %s: 'sample' takes an interval from 64 bytes to 1G, not '%s'.\n",
			args->command, value);
		return false;
	}
	if (bytes != 1ull << log2)
		fprintf(stderr,
			"tidemark %s: note: the interval is a power of two: %llu bytes instead of "
			"%llu\n",
			args->command, 1ull << log2, (unsigned long long)bytes);
	*ret_log2 = log2;
	return true;
}

bool sampling_share(const struct args *args, const char *option, const char *value,
		    double *ret_share)
{
	char *end;
	double percent = strtod(value, &end);
	if (end == value || (*end && strcmp(end, "%")) || !(percent > 0) || percent > 100) {
		fprintf(stderr, "tidemark %s: '%s' takes a share such as 1%%, not '%s'.\n",
			args->command, option, value);
		return false;
	}
	*ret_share = percent / 100;
	return true;
}

bool sampling_overhead(const struct args *args, const char *value, struct collector_options *run)
{
	if (!sampling_share(args, "max-overhead", value, &run->max_overhead))
		return false;
	if (!run->sample_log2)
		run->sample_log2 = DEFAULT_LOG2;
	return true;
}

bool sampling_overload(const struct args *args, const char *value, struct collector_options *run)
{
	bool sample = !strcmp(value, "sample");
	run->drop = !strcmp(value, "drop");
	if (!sample && !run->drop && strcmp(value, "wait")) {
		fprintf(stderr,
			"tidemark %s: 'on-overload' takes wait, sample or drop, not '%s'.\n",
			args->command, value);
		return false;
	}
	if (!sample)
		run->overload_share = 0;
	else if (!run->overload_share)
		run->overload_share = DEFAULT_SHARE;
	return true;
}
