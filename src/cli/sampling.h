/* SPDX-License-Identifier: Apache-2.0 */
/* Options about sampling, which 'run', 'attach' and 'ctl' have in common. */
#pragma once

#include "cli/args.h"
#include "collector/collector.h"

#include <stdbool.h>
#include <stdint.h>

/* What stands after the options in a command's help, and the names of their values. */
#define SAMPLING_HELP \
	"record a block every BYTES on average (512K), not each; figures are estimates"
#define SAMPLING_OVERHEAD_HELP "sample, and more rarely when it costs more than 1% of the CPU time"
#define SAMPLING_OVERLOAD_HELP \
	"when the program waits for the recording: wait, sample (from then on), drop"
#define SAMPLING_SHARE_HELP "--on-overload sample: when it waits more than this (10%)"

/* NULL, or "1" from the environment: 512 KiB. False after a message. */
bool sampling_interval(const struct args *args, const char *value, unsigned *ret_log2);
/* "1%", "0.5". False after a message. */
bool sampling_share(const struct args *args, const char *option, const char *value,
		    double *ret_share);
/* Samples, by the usual interval if none was named. */
bool sampling_overhead(const struct args *args, const char *value, struct collector_options *run);
/* wait, sample or drop. */
bool sampling_overload(const struct args *args, const char *value, struct collector_options *run);
