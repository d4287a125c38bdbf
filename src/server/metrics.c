/* SPDX-License-Identifier: Apache-2.0 */
#include "server/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "server/push.h"
#include "views/views.h"

enum { TRACES_MAX = 16, SITES_DEFAULT = 10, SITES_MAX = 1000 };

/* What must be known for some of the families. */
enum { NEEDS_SAMPLE = 1, NEEDS_LOST = 2, NEEDS_TEMPORARY = 4 };

/* What is said of one trace; the facts are entered and locked one after the other. */
struct told {
	struct text labels; /* trace="...",program="...",pid="..." */
	struct model_totals totals;
	struct trace_end end;
	struct trace_sample sample;   /* the last */
	struct server_recording said; /* by its recorder, or its end */
	uint64_t file_bytes;
	uint64_t live_error; /* standard error of live_bytes, where blocks are sampled */
	unsigned known;      /* NEEDS_... */
	bool complete;
	struct text sites; /* whole lines of tidemark_site_live_bytes */
};

/* A label's value between quotation marks. Names in a trace are hostile. */
static void put_label(struct text *out, const char *name, const char *value)
{
	struct text shown = {0};
	text_put_visible(&shown, value, strlen(value));
	text_print(out, "%s%s=\"", out->length && out->data[out->length - 1] != '{' ? "," : "",
		   name);
	for (const char *at = text_string(&shown); *at; at++) {
		if (*at == '\\' || *at == '"')
			text_put_char(out, '\\');
		text_put_char(out, *at);
	}
	text_put_char(out, '"');
	text_done(&shown);
}

/* The same labels must not come twice: functions without a name are one. */
static void count_site(struct view_row *sites, size_t most, size_t *count,
		       const struct view_row *row)
{
	const char *function = row->function ? row->function : "(no name)";
	const char *module = row->module ? row->module : "";
	for (size_t i = 0; i < *count; i++)
		if (!strcmp(sites[i].function, function) && !strcmp(sites[i].module, module)) {
			sites[i].self.of[VIEW_UNFREED_BYTES] += row->self.of[VIEW_UNFREED_BYTES];
			return;
		}
	if (*count == most)
		return;
	sites[*count] = *row;
	sites[*count].function = function;
	sites[(*count)++].module = module;
}

static void tell_sites(struct told *told, const struct shown_facts *facts, size_t most)
{
	struct view_rows rows = {0};
	size_t count = 0;
	const struct view *view = view_find("unfreed");
	struct view_row *sites = most ? tm_alloc_array(most, sizeof *sites) : NULL;
	if (!sites || !view || view_fill(view, facts->data, &rows, NULL)) {
		tm_free(sites);
		return;
	}
	for (size_t i = 0; i < rows.count; i++)
		count_site(sites, most, &count, &rows.rows[i]);
	for (size_t i = 0; i < count; i++) {
		text_print(&told->sites, "tidemark_site_live_bytes{%s", text_string(&told->labels));
		put_label(&told->sites, "function", sites[i].function);
		put_label(&told->sites, "module", sites[i].module);
		text_print(&told->sites, "} %" PRIu64 "\n", sites[i].self.of[VIEW_UNFREED_BYTES]);
	}
	tm_free(sites);
	view_rows_done(&rows);
}

static void tell_sample(struct told *told, const struct shown_facts *facts)
{
	const struct trace_sample *samples;
	size_t count = 0;
	if (!trace_reader_samples(facts->reader, &samples, &count, NULL) && count) {
		told->sample = samples[count - 1];
		told->known |= NEEDS_SAMPLE;
	}
}

static bool tell(struct told *told, struct catalog *catalog, const char *id, size_t sites)
{
	struct shown_facts *facts;
	struct tm_error err = {0};
	char pid[16];
	*told = (struct told){0};
	if (catalog_enter(catalog, id, &facts, &err))
		return false;
	shown_lock(facts);
	const struct trace_meta *meta = facts->input.meta;
	snprintf(pid, sizeof pid, "%" PRIu32, meta->pid);
	put_label(&told->labels, "trace", id);
	put_label(&told->labels, "program", meta->program ? view_module_name(meta->program) : "");
	put_label(&told->labels, "pid", pid);
	told->totals = facts->totals;
	told->end = *facts->input.end;
	told->complete = facts->complete;
	if (!(meta->unknown & TRACE_UNKNOWN_TEMPORARY))
		told->known |= NEEDS_TEMPORARY;
	told->live_error = (uint64_t)view_error_bytes(&facts->input, facts->totals.live_bytes,
						      facts->totals.live_blocks);
	told->file_bytes = trace_reader_file_bytes(facts->reader);
	tell_sample(told, facts);
	tell_sites(told, facts, sites);
	shown_unlock(facts);
	shown_leave(facts);
	return true;
}

/* What the recorder itself says of its files. */
struct followed {
	struct catalog *catalog;
	char ids[TRACES_MAX][CATALOG_ID_CHARS + 1];
	struct server_recording said[TRACES_MAX]; /* without its path */
	size_t count;
};

static void take_recording(void *ctx, const struct server_recording *recording)
{
	struct followed *followed = ctx;
	if (followed->count == TRACES_MAX ||
	    !catalog_add(followed->catalog, recording->path, followed->ids[followed->count]))
		return;
	followed->said[followed->count] = *recording;
	followed->said[followed->count++].path = NULL;
}

static void follow(const struct metrics *metrics, struct followed *followed)
{
	*followed = (struct followed){.catalog = metrics->catalog};
	if (metrics->recordings)
		metrics->recordings(metrics->recorder_ctx, take_recording, followed);
}

void metrics_follow(const struct metrics *metrics)
{
	struct followed followed;
	follow(metrics, &followed);
}

/* At the end the trace knows; before that only who writes it. */
static void tell_lost(struct told *told, const struct followed *followed, const char *id)
{
	told->said = (struct server_recording){.lost_events = told->end.lost_events,
					       .waited_ns = told->end.waited_ns};
	told->known |= told->complete ? NEEDS_LOST : 0;
	for (size_t i = 0; i < followed->count && !told->complete; i++)
		if (!strcmp(followed->ids[i], id)) {
			told->said = followed->said[i];
			told->known |= NEEDS_LOST;
		}
}

/* Of those being written, or the newest. */
static size_t tell_all(const struct metrics *metrics, struct told *told, size_t sites)
{
	char ids[TRACES_MAX][CATALOG_ID_CHARS + 1];
	struct followed followed;
	size_t count = 0;
	follow(metrics, &followed);
	size_t found = catalog_recent(metrics->catalog, ids, TRACES_MAX);
	for (size_t i = 0; i < found; i++) {
		if (!tell(&told[count], metrics->catalog, ids[i], sites))
			continue;
		if (i > 0 && told[count].complete) {
			text_done(&told[count].labels);
			text_done(&told[count].sites);
			continue;
		}
		tell_lost(&told[count++], &followed, ids[i]);
	}
	return count;
}

/* ---- the families ---- */

struct family {
	const char *name, *type, *help;
	uint64_t (*value)(const struct told *told);
	unsigned needs;
};

#define FROM(what, expression)                        \
	static uint64_t what(const struct told *told) \
	{                                             \
		return told->expression;              \
	}
FROM(live_bytes, totals.live_bytes)
FROM(live_blocks, totals.live_blocks)
FROM(peak_bytes, totals.peak_bytes)
FROM(live_error, live_error)
FROM(allocations, totals.allocations)
FROM(allocated_bytes, totals.allocated_bytes)
FROM(frees, totals.frees)
FROM(temporary, totals.temporary)
FROM(mapped_bytes, totals.mapped_bytes)
FROM(rss_bytes, sample.rss_bytes)
FROM(agent_bytes, sample.agent_bytes)
FROM(cgroup_bytes, sample.cgroup_bytes)
FROM(lost_events, said.lost_events)
FROM(waited_ms, said.waited_ns / 1000000)
FROM(bytes_per_hour, said.bytes_per_hour)
FROM(full_in_seconds, said.full_in_ns / 1000000000)
FROM(disk_free_bytes, said.disk_free_bytes)
FROM(file_bytes, file_bytes)
FROM(folded_events, end.folded_events)
FROM(culled_events, end.culled_events)
FROM(is_complete, complete)

static uint64_t is_recording(const struct told *told)
{
	return !is_complete(told);
}

static const struct family families[] = {
	{"recording", "gauge", "1 while the program is being recorded.", is_recording, 0},
	{"live_bytes", "gauge", "Bytes allocated and not freed.", live_bytes, 0},
	{"live_bytes_error", "gauge", "Standard error of live_bytes; 0 where it is exact.",
	 live_error, 0},
	{"live_blocks", "gauge", "Blocks allocated and not freed.", live_blocks, 0},
	{"peak_bytes", "gauge", "The most that live_bytes was so far.", peak_bytes, 0},
	{"mapped_bytes", "gauge", "Anonymous memory that the program mapped itself.", mapped_bytes,
	 0},
	{"allocations_total", "counter", "Allocations.", allocations, 0},
	{"allocated_bytes_total", "counter", "Bytes of all allocations.", allocated_bytes, 0},
	{"frees_total", "counter", "Frees.", frees, 0},
	{"temporary_allocations_total", "counter",
	 "Blocks freed by the next thing their thread did.", temporary, NEEDS_TEMPORARY},
	{"rss_bytes", "gauge", "Resident memory of the program.", rss_bytes, NEEDS_SAMPLE},
	{"cgroup_bytes", "gauge", "Memory of the program's cgroup; 0 if not known.", cgroup_bytes,
	 NEEDS_SAMPLE},
	{"agent_bytes", "gauge", "Resident memory of the agent in the program, about.", agent_bytes,
	 NEEDS_SAMPLE},
	{"lost_events_total", "counter",
	 "Events lost; known from the process that records, or at the end.", lost_events,
	 NEEDS_LOST},
	{"waited_milliseconds_total", "counter", "How long threads of the program waited for it.",
	 waited_ms, NEEDS_LOST},
	{"file_bytes", "gauge", "Size of the trace.", file_bytes, 0},
	{"file_bytes_per_hour", "gauge", "Growth of the trace, on average; 0 when it has ended.",
	 bytes_per_hour, NEEDS_LOST},
	{"full_in_seconds", "gauge", "Until disk or limit are full; 0 not known, or never.",
	 full_in_seconds, NEEDS_LOST},
	{"disk_free_bytes", "gauge", "Free space where the trace is; 0 when it has ended.",
	 disk_free_bytes, NEEDS_LOST},
	{"folded_events", "gauge", "Events that are in the figures only (--retain).", folded_events,
	 0},
	{"culled_events", "gauge", "Events that are in the figures only (--cull).", culled_events,
	 0},
};

static void put_head(struct text *out, const char *name, const char *type, const char *help)
{
	text_print(out, "# HELP tidemark_%s %s\n# TYPE tidemark_%s %s\n", name, help, name, type);
}

static void put_family(struct text *out, const struct family *family, const struct told *told,
		       size_t count)
{
	put_head(out, family->name, family->type, family->help);
	for (size_t i = 0; i < count; i++) {
		if (family->needs & ~told[i].known)
			continue;
		text_print(out, "tidemark_%s{%s} %" PRIu64 "\n", family->name,
			   text_string(&told[i].labels), family->value(&told[i]));
	}
}

static void put_recorder(struct text *out, const struct metrics *metrics)
{
	uint64_t cpu_ns, bytes;
	if (!metrics->recorder || !metrics->recorder(metrics->recorder_ctx, &cpu_ns, &bytes))
		return;
	put_head(out, "recorder_cpu_seconds_total", "counter", "CPU time that recording took.");
	text_print(out, "tidemark_recorder_cpu_seconds_total %.3f\n", (double)cpu_ns / 1e9);
	put_head(out, "recorder_resident_bytes", "gauge", "Memory of the process that records.");
	text_print(out, "tidemark_recorder_resident_bytes %" PRIu64 "\n", bytes);
}

static void put_push(struct text *out, const struct push *push)
{
	struct push_figures figures;
	if (!push)
		return;
	push_figures(push, &figures);
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} list[] = {
		{"push_sent_total", "counter", "Profiles that were pushed.", figures.sent},
		{"push_failures_total", "counter", "Times that pushing failed, and was repeated.",
		 figures.failures},
		{"push_dropped_total", "counter", "Profiles that found no room or time.",
		 figures.dropped},
		{"push_refused_total", "counter", "Profiles that the receiver did not want.",
		 figures.refused},
		{"push_waiting", "gauge", "Profiles that wait to be pushed.", figures.waiting},
	};
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		put_head(out, list[i].name, list[i].type, list[i].help);
		text_print(out, "tidemark_%s %" PRIu64 "\n", list[i].name, list[i].value);
	}
}

static int check_params(const struct request *request, struct tm_error *err)
{
	static const struct request_rule rule = {
		.name = "sites", .kind = REQUEST_NUMBER, .max = SITES_MAX};
	for (size_t i = 0; i < request->param_count; i++) {
		if (strcmp(request->params[i].name, rule.name))
			return tm_fail(
				err, -EINVAL,
				"'%s' is not understood here; ?sites=N tells of N functions.",
				request->params[i].name);
		int code = request_check(&request->params[i], &rule, err);
		if (code)
			return code;
	}
	return 0;
}

void metrics_answer(const struct metrics *metrics, const struct request *request,
		    struct answer *answer)
{
	struct told told[TRACES_MAX];
	struct tm_error err = {0};
	if (check_params(request, &err)) {
		answer_fail(answer, 400, err.text);
		return;
	}
	size_t count = tell_all(metrics, told, request_number(request, "sites", SITES_DEFAULT));
	struct text *out = &answer->body;
	answer->type = "text/plain; version=0.0.4; charset=utf-8";
	for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
		put_family(out, &families[i], told, count);
	put_head(out, "site_live_bytes", "gauge", "Live bytes of the functions that hold most.");
	for (size_t i = 0; i < count; i++) {
		text_put(out, text_string(&told[i].sites));
		text_done(&told[i].labels);
		text_done(&told[i].sites);
	}
	put_recorder(out, metrics);
	put_push(out, metrics->push);
	if (text_error(out))
		answer_fail(answer, 503, "There is no memory for this answer now.");
}
