/* SPDX-License-Identifier: Apache-2.0 */
/* Marks and pauses of a section, and moments as people write them. */
#include "model/query.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "model/query_section.h"

void section_drop_marks(struct query_section *s)
{
	for (size_t i = 0; i < s->mark_count; i++)
		tm_free((char *)s->marks[i].name);
	s->marks = tm_free(s->marks);
	s->mark_count = 0;
}

const struct trace_moment *query_moments(const struct query_section *s, size_t *ret_count)
{
	*ret_count = s->moment_count;
	return s->moments;
}

bool query_next_pause(const struct query_section *s, size_t *at, uint64_t *ret_start_ns,
		      uint64_t *ret_end_ns)
{
	while (*at < s->moment_count && s->moments[*at].kind != TRACE_MOMENT_PAUSE)
		++*at;
	if (*at >= s->moment_count)
		return false;
	*ret_start_ns = s->moments[*at].time_ns;
	while (*at < s->moment_count && s->moments[*at].kind != TRACE_MOMENT_RESUME)
		++*at;
	*ret_end_ns = *at < s->moment_count ? s->moments[*at].time_ns : s->duration_ns;
	if (*ret_end_ns < *ret_start_ns)
		*ret_end_ns = *ret_start_ns;
	return true;
}

int section_take_marks(struct query_section *s, struct tm_error *err)
{
	struct query_mark *marks = tm_alloc_array(s->moment_count + 1, sizeof *marks);
	size_t count = 0;
	if (!marks)
		return tm_fail(err, -ENOMEM, "no memory for the marks of the trace");
	for (size_t i = 0; i < s->moment_count; i++)
		if (s->moments[i].kind == TRACE_MOMENT_MARK && s->moments[i].text[0])
			marks[count++] = (struct query_mark){.name = s->moments[i].text,
							     .time_ns = s->moments[i].time_ns};
	int rc = query_set_marks(s, marks, count, err);
	tm_free(marks);
	return rc;
}

int query_set_marks(struct query_section *s, const struct query_mark *marks, size_t count,
		    struct tm_error *err)
{
	section_drop_marks(s);
	s->marks = tm_alloc_array(count + 1, sizeof *s->marks);
	if (!s->marks)
		return tm_fail(err, -ENOMEM, "no memory for the marks of the trace");
	for (size_t i = 0; i < count; i++) {
		s->marks[i] = (struct query_mark){tm_strdup(marks[i].name), marks[i].time_ns};
		if (!s->marks[i].name)
			return tm_fail(err, -ENOMEM, "no memory for the marks of the trace");
		s->mark_count++;
	}
	return 0;
}

/* The first mark of that name; "name#3" is the third. */
static bool marked_moment(const struct query_section *s, const char *text, uint64_t *ret_ns)
{
	const char *sign = strrchr(text, '#');
	size_t bytes = sign ? (size_t)(sign - text) : 0;
	unsigned long wanted = sign && sign[1] ? strtoul(sign + 1, NULL, 10) : 0;
	unsigned long seen = 0;
	for (size_t i = 0; i < s->mark_count; i++) {
		const char *name = s->marks[i].name;
		bool is_first = !strcmp(name, text);
		seen += bytes && strlen(name) == bytes && !strncmp(name, text, bytes);
		if (is_first || (wanted && seen == wanted)) {
			*ret_ns = s->marks[i].time_ns;
			return true;
		}
	}
	return false;
}

static bool named_moment(const struct query_section *s, const char *text, uint64_t *ret_ns)
{
	struct model_totals totals;
	if (marked_moment(s, text, ret_ns))
		return true;
	model_totals(s->model, &totals);
	if (!strcmp(text, "start"))
		*ret_ns = 0;
	else if (!strcmp(text, "end"))
		*ret_ns = s->duration_ns;
	else if (!strcmp(text, "peak"))
		*ret_ns = totals.peak_time_ns;
	else
		return false;
	return true;
}

static bool percent_moment(const struct query_section *s, const char *text, uint64_t *ret_ns)
{
	char *end;
	double percent = strtod(text, &end);
	if (end == text || strcmp(end, "%") || !isfinite(percent) || percent < 0 || percent > 100)
		return false;
	/* In parts, so that 100% is exactly the end. */
	*ret_ns = percent == 100 ? s->duration_ns
				 : (uint64_t)((double)s->duration_ns * (percent / 100));
	return true;
}

int query_time_parse(const struct query_section *s, const char *text, uint64_t *ret_ns,
		     struct tm_error *err)
{
	uint64_t time_ns;
	struct tm_error why;
	if (!named_moment(s, text, &time_ns) && !percent_moment(s, text, &time_ns) &&
	    units_parse_duration(text, &time_ns, &why))
		return tm_fail(err, -EINVAL,
			       "'%.60s' is no moment; write seconds (12.5s), per cent (40%%), "
			       "peak, start, end%s",
			       text, s->mark_count ? " or the name of a mark" : "");
	*ret_ns = time_ns > s->duration_ns ? s->duration_ns : time_ns;
	return 0;
}
