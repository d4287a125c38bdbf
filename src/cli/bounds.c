/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bounds.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"

enum { KEEP_MAX = 1000000 };
#define ROTATE_LEAST_NS    1000000000ull
#define ROTATE_LEAST_BYTES 65536u
#define MEMORY_LEAST_BYTES (24u << 20)
#define RETAIN_LEAST_BYTES (1u << 20)
#define CULL_LEAST_NS      1000u
#define CULL_MOST_NS       3600000000000ull

static bool complain(const struct args *args, const char *option, const char *text)
{
	fprintf(stderr, "tidemark %s: --%s: %s\n", args->command, option, text);
	return false;
}

/* A number alone could be either: it must have its unit. */
static bool time_or_size(const struct args *args, const char *option, const char *text,
			 uint64_t *ret_ns, uint64_t *ret_bytes)
{
	struct tm_error err = {0};
	bool has_unit = strspn(text, "0123456789. ") < strlen(text);
	*ret_ns = *ret_bytes = 0;
	if (has_unit && !units_parse_duration(text, ret_ns, &err))
		return true;
	if (has_unit && !units_parse_bytes(text, ret_bytes, &err))
		return true;
	fprintf(stderr,
		"tidemark %s: --%s: '%.60s' is neither a time nor a size; write it as in 30m "
		"(minutes), 2h, 500M, 1G\n",
		args->command, option, text);
	return false;
}

bool bounds_take(struct collector_bounds *bounds, const struct args *args, int id,
		 const char *value)
{
	struct tm_error err = {0};
	uint64_t number;
	switch ((enum bounds_option)id) {
	case BOUNDS_ROTATE:
		if (!time_or_size(args, "rotate", value, &bounds->rotate_ns, &bounds->rotate_bytes))
			return false;
		if (bounds->rotate_ns < ROTATE_LEAST_NS &&
		    bounds->rotate_bytes < ROTATE_LEAST_BYTES)
			return complain(args, "rotate", "files are of 1s or 64K at least");
		return true;
	case BOUNDS_KEEP:
		if (!args_number(args, "keep", value, KEEP_MAX, &number))
			return false;
		if (number == 0)
			return complain(args, "keep",
					"the file that is being written stays: 1 or "
					"more");
		bounds->keep = (uint32_t)number;
		return true;
	case BOUNDS_MAX_MEMORY:
		if (units_parse_bytes(value, &bounds->max_memory_bytes, &err))
			return complain(args, "max-memory", err.text);
		if (bounds->max_memory_bytes < MEMORY_LEAST_BYTES)
			return complain(args, "max-memory",
					"a recording needs 24M at least, and some 60 bytes for "
					"each block that lives");
		return true;
	case BOUNDS_RETAIN:
		if (!time_or_size(args, "retain", value, &bounds->retain_ns, &bounds->retain_bytes))
			return false;
		if (!bounds->retain_ns && bounds->retain_bytes < RETAIN_LEAST_BYTES)
			return complain(args, "retain", "a file is of 1M at least");
		return true;
	case BOUNDS_CULL:
		if (units_parse_duration(value, &bounds->cull_ns, &err))
			return complain(args, "cull", err.text);
		if (bounds->cull_ns < CULL_LEAST_NS || bounds->cull_ns > CULL_MOST_NS)
			return complain(args, "cull",
					"a lifetime is of 1us at least and 1h at most; "
					"without --cull every block is stored");
		return true;
	case BOUNDS_END:
		break;
	}
	return false;
}

bool bounds_check(const struct collector_bounds *bounds, const char *command)
{
	if (bounds->keep && !bounds->rotate_ns && !bounds->rotate_bytes) {
		fprintf(stderr,
			"tidemark %s: --keep says how many files --rotate leaves: use both\n",
			command);
		return false;
	}
	return true;
}
