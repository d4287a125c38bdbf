/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/side.h"

#include <errno.h>

#include "cli/progress.h"
#include "cli/range.h"
#include "cli/traces.h"
#include "model/trim.h"
#include "views/select.h"

static int select_section(struct side *side, const struct side_options *options,
			  struct tm_error *err)
{
	size_t count = trace_reader_section_count(side->reader);
	if (!options->has_section)
		return 0;
	if (options->section >= count)
		return tm_fail(err, -EINVAL, "'%s' has no section %llu: its sections are 0 to %zu",
			       side->path, (unsigned long long)options->section, count - 1);
	return trace_reader_select(side->reader, (size_t)options->section, err);
}

static int bind_filter(struct side *side, const struct side_options *options, struct query *query,
		       struct tm_error *err)
{
	if (!options->filter)
		return 0;
	struct filter_names names = view_filter_names(side->data);
	int code = query_bind(side->query, options->filter, &names, &side->bound, err);
	query->filter = side->bound;
	return code;
}

/* A part of a trace begins with what it inherited: that is no allocation of its own. */
static void skip_inherited(struct side *side)
{
	if (side->input.meta->inherited_blocks && side->from_ns < TRIM_START_NS) {
		side->from_ns = TRIM_START_NS;
		side->is_part = true;
	}
}

static int ask(struct side *side, const struct side_options *options, struct tm_error *err)
{
	struct progress progress;
	struct query query = {
		.want = options->want,
		.progress = {.fn = progress_tell_fn, .ctx = &progress},
	};
	int code = range_of(side->query, options->from, options->to, &side->from_ns, &side->to_ns,
			    err);
	if (code)
		return code;
	side->is_part = options->from || options->to || options->filter;
	skip_inherited(side);
	if (side->from_ns > side->to_ns)
		side->to_ns = side->from_ns;
	if (!side->is_part && !query.want)
		return 0;
	if (side->is_part)
		query.want |= QUERY_PEAK | QUERY_KEPT;
	query.from_ns = side->from_ns;
	query.to_ns = side->to_ns;
	code = bind_filter(side, options, &query, err);
	if (code)
		return code;
	progress_begin(&progress, "reading events", "events");
	code = query_ask(side->query, &query, &side->answer, err);
	progress_end(&progress);
	side->is_asked = !code;
	if (!code && side->is_part)
		code = view_data_select(side->data, &side->answer, err);
	return code;
}

static void add_up(struct side *side)
{
	size_t count;
	const struct view_stack_row *rows = view_stacks(side->data, &count);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < VIEW_FIGURE_COUNT; k++)
			side->sum.of[k] += rows[i].figures.of[k];
	side->peak_bytes = side->is_part ? side->answer.peak_bytes : side->totals.peak_bytes;
	if (side->bound)
		side->peak_bytes = side->sum.of[VIEW_PEAK_BYTES];
}

static int load(struct side *side, const struct side_options *options, struct tm_error *err)
{
	int code = select_section(side, options, err);
	if (!code)
		code = range_open(side->reader, &side->query, err);
	if (!code)
		code = view_input_read(side->reader, &side->input, err);
	if (code)
		return code;
	side->input.model = query_model(side->query);
	model_totals(side->input.model, &side->totals);
	code = view_data_new(&side->input, &side->data, err);
	if (!code)
		code = ask(side, options, err);
	if (!code && options->fold)
		code = view_data_fold(side->data, options->fold, err);
	if (!code)
		add_up(side);
	return code;
}

int side_open(struct side *side, const struct side_options *options, struct tm_error *err)
{
	*side = (struct side){.path = options->path};
	int code = traces_open(options->path, &side->reader, err);
	return code ? code : load(side, options, err);
}

void side_close(struct side *side)
{
	if (side->is_asked)
		query_answer_done(&side->answer);
	filter_bound_free(side->bound);
	view_data_free(side->data);
	query_close(side->query);
	trace_reader_close(side->reader);
	*side = (struct side){0};
}

const char *side_warning(const struct side *side)
{
	const char *warning = trace_reader_warning(side->reader);
	if (warning)
		return warning;
	if (side->input.end->lost_events)
		return "events were lost while it was recorded: the figures are too small";
	return side->totals.saturated ? "sizes or sums are beyond what is counted" : NULL;
}
