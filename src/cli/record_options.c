/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/record_options.h"

#include <stdio.h>

#include "base/units.h"
#include "wire/wire.h"

static bool complain(const struct args *args, const struct tm_error *err)
{
	fprintf(stderr, "tidemark %s: %s\n", args->command, err->text);
	return false;
}

static bool take_depth(struct collector_options *run, const struct args *args, const char *value)
{
	uint64_t number;
	if (!args_count(args, "depth", value, WIRE_DEPTH_MAX, &number))
		return false;
	run->depth = (uint32_t)number;
	return true;
}

/* Of an option that has a value, or may have one. */
static bool take_value(struct record_options *record, const struct args *args, int id,
		       const char *value)
{
	struct collector_options *run = &record->run;
	struct tm_error err = {0};
	switch (id) {
	case RECORD_OUTPUT:
		run->output = value;
		return true;
	case RECORD_TIME_LIMIT:
		return !units_parse_duration(value, &run->time_limit_ns, &err) ||
		       complain(args, &err);
	case RECORD_MAX_FILE_SIZE:
		return !units_parse_bytes(value, &run->max_file_bytes, &err) ||
		       complain(args, &err);
	case RECORD_SAMPLE:
		return sampling_interval(args, value, &run->sample_log2);
	case RECORD_MAX_OVERHEAD:
		return sampling_overhead(args, value, run);
	case RECORD_ON_OVERLOAD:
		return sampling_overload(args, value, run);
	case RECORD_OVERLOAD_SHARE:
		return sampling_share(args, "overload-share", value, &run->overload_share);
	case RECORD_SEED:
		return args_number(args, "seed", value, UINT64_MAX, &run->sample_seed);
	case RECORD_DEPTH:
		return take_depth(run, args, value);
	case RECORD_HOOK:
		return !plan_hooks_add(&record->hooks, value, &err) || complain(args, &err);
	case RECORD_LISTEN:
		record->servers.page.wanted = true;
		record->servers.page.listen = value;
		return true;
	case RECORD_METRICS:
		run_servers_metrics(&record->servers, value);
		return true;
	case RECORD_PUSH:
		run_servers_push(&record->servers, value);
		return true;
	case RECORD_PUSH_INTERVAL:
		record->servers.metrics.push_interval = value;
		return true;
	case RECORD_LOG:
		record->log = value;
		return true;
	default:
		return bounds_take(&run->bounds, args, id, value);
	}
}

bool record_options_take(struct record_options *record, const struct args *args, int id,
			 const char *value)
{
	struct collector_options *run = &record->run;
	switch (id) {
	case RECORD_FORCE:
		run->force = true;
		return true;
	case RECORD_QUIET:
		record->quiet = true;
		return true;
	case RECORD_FREE_STACKS:
		run->free_stacks = true;
		return true;
	case RECORD_NO_ADDRESSES:
		run->no_addresses = true;
		return true;
	case RECORD_NO_SYMBOLS:
		run->no_symbols = true;
		return true;
	case RECORD_EMBED_SOURCE:
		run->embed_source = true;
		return true;
	case RECORD_SERVE:
		record->servers.page.wanted = true;
		return true;
	case RECORD_DAEMON:
		record->daemon = true;
		return true;
	case RECORD_HELP:
		record->help = true;
		return true;
	default:
		return take_value(record, args, id, value);
	}
}

bool record_options_check(const struct record_options *record, const char *command)
{
	if (record->log && !record->daemon) {
		fprintf(stderr, "tidemark %s: '--log' is for --daemon: else redirect the output.\n",
			command);
		return false;
	}
	return bounds_check(&record->run.bounds, command) &&
	       run_servers_check(&record->servers, command);
}
