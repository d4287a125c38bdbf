/* SPDX-License-Identifier: Apache-2.0 */
#include "export/export.h"

#include <errno.h>
#include <string.h>

#include "export/formats.h"

const struct export_format *const export_formats[] = {
	&export_collapsed,  &export_pprof,     &export_heaptrack, &export_speedscope,
	&export_flamegraph, &export_callgrind, &export_massif,    &export_dhat,
	&export_firefox,    &export_chrome,    &export_csv,       &export_json,
	&export_sqlite,
};
const size_t export_format_count = sizeof export_formats / sizeof export_formats[0];

const struct export_format *export_find(const char *name)
{
	for (size_t i = 0; i < export_format_count; i++)
		if (!strcmp(export_formats[i]->name, name))
			return export_formats[i];
	return NULL;
}

int export_write(const struct export_format *format, const struct export_input *input,
		 struct outlet *outlet, struct tm_error *err)
{
	if (format->by_event && input->filter && filter_needs_ends(input->filter))
		return tm_fail(err, -EINVAL,
			       "the format '%s' is written event by event: a filter cannot ask for "
			       "what is known only when a block has ended",
			       format->name);
	int code = format->write(input, outlet, err);
	if (!code)
		code = outlet_flush(outlet);
	if (code == -ENOMEM && !err->code)
		tm_fail(err, code, "no memory for the export");
	return code;
}
