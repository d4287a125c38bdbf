/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/range.h"

#include <errno.h>

#include "base/units.h"
#include "cli/progress.h"

int range_open(struct trace_reader *reader, struct query_section **ret_section,
	       struct tm_error *err)
{
	struct progress progress;
	const struct query_open_options options = {
		.progress = {.fn = progress_tell_fn, .ctx = &progress}};
	progress_begin(&progress, "rebuilding the figures", "events");
	int code = query_open(reader, &options, ret_section, err);
	progress_end(&progress);
	if (code == -ECANCELED)
		tm_fail(err, code, "stopped");
	return code;
}

int range_of(const struct query_section *section, const char *from, const char *to,
	     uint64_t *ret_from_ns, uint64_t *ret_to_ns, struct tm_error *err)
{
	struct tm_error why = {0};
	uint64_t from_ns = 0, to_ns = query_duration_ns(section);
	int code = from ? query_time_parse(section, from, &from_ns, &why) : 0;
	if (code)
		return tm_fail(err, code, "--from %.40s: %s", from, why.text);
	code = to ? query_time_parse(section, to, &to_ns, &why) : 0;
	if (code)
		return tm_fail(err, code, "--to %.40s: %s", to, why.text);
	if (from_ns > to_ns)
		return tm_fail(err, -EINVAL, "the range ends (%s) before it begins (%s)",
			       units_duration(to_ns).text, units_duration(from_ns).text);
	*ret_from_ns = from_ns;
	*ret_to_ns = to_ns;
	return 0;
}

int range_parse(struct trace_reader *reader, const char *from, const char *to,
		uint64_t *ret_from_ns, uint64_t *ret_to_ns, struct tm_error *err)
{
	struct query_section *section;
	int code = range_open(reader, &section, err);
	if (code)
		return code;
	code = range_of(section, from, to, ret_from_ns, ret_to_ns, err);
	query_close(section);
	return code;
}
