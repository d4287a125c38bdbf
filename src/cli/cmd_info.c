/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark info FILE: what is in a trace file, from its headers; no event is read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/foreign.h"
#include "cli/out.h"
#include "cli/report.h"
#include "cli/traces.h"
#include "cli/values.h"
#include "views/to_json.h"

enum { OPT_JSON = 1, OPT_HELP };

static const struct args_option options[] = {
	{OPT_JSON, 'j', "json", NULL, "print JSON"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

struct request {
	const char *path;
	bool json, help;
};

/* What one section holds. */
struct facts {
	const struct trace_meta *meta; /* NULL: it cannot be read */
	const struct trace_end *end;
	uint64_t events, first_ns, last_ns, event_blocks;
	size_t stacks, modules, threads, samples, maps, symbols;
	uint64_t slices, sliced_events;
	bool slices_whole;
	struct tm_error problem; /* code 0: none */
};

static void print_help(void)
{
	puts("Usage: tidemark info [OPTIONS] FILE\n"
	     "\n"
	     "Says what is in a trace: its sections (one per program image), how each began\n"
	     "and ended, how many events, threads and stacks it has, and how much of the file\n"
	     "each kind of block takes. Reads headers and tables, no events.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
	foreign_print_options();
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END) {
		if (id == ARGS_ERROR)
			return false;
		request->json |= id == OPT_JSON;
		request->help |= id == OPT_HELP;
		if (id == ARGS_WORD && !values_trace(args, value, &request->path))
			return false;
	}
	return request->help || values_need_trace(args, request->path);
}

static int count_slice(void *ctx, const struct trace_slice *slice)
{
	struct facts *facts = ctx;
	facts->slices++;
	facts->sliced_events = slice->first_event + slice->event_count;
	return 0;
}

static int count_tables(struct trace_reader *reader, struct facts *facts)
{
	const struct trace_stack *stacks;
	const struct trace_module *modules;
	const struct trace_thread *threads;
	const struct trace_sample *samples;
	const struct trace_map_event *maps;
	const struct trace_symbol *symbols;
	struct tm_error *err = &facts->problem;
	int code = trace_reader_stacks(reader, &stacks, &facts->stacks, err);
	facts->stacks -= facts->stacks > 0;
	if (!code)
		code = trace_reader_modules(reader, &modules, &facts->modules, err);
	facts->modules -= facts->modules > 0;
	if (!code)
		code = trace_reader_threads(reader, &threads, &facts->threads, err);
	if (!code)
		code = trace_reader_samples(reader, &samples, &facts->samples, err);
	if (!code)
		code = trace_reader_maps(reader, &maps, &facts->maps, err);
	if (!code)
		code = trace_reader_symbols(reader, &symbols, &facts->symbols, err);
	return code;
}

/* What cannot be read is left out and said. */
static void gather(struct trace_reader *reader, size_t section, struct facts *facts)
{
	*facts = (struct facts){0};
	int code = trace_reader_select(reader, section, &facts->problem);
	if (!code)
		code = trace_reader_end(reader, &facts->end, &facts->problem);
	if (!code)
		code = trace_reader_meta(reader, &facts->meta, &facts->problem);
	if (!code)
		code = count_tables(reader, facts);
	if (code)
		return;
	facts->event_blocks = trace_reader_event_block_count(reader);
	for (size_t i = 0; i < facts->event_blocks; i++) {
		struct trace_event_block block;
		if (trace_reader_event_block(reader, i, &block))
			break;
		facts->events += block.event_count;
		facts->first_ns = i ? facts->first_ns : block.start_ns;
		facts->last_ns = block.end_ns;
	}
	facts->slices_whole = !trace_reader_slices(reader, count_slice, facts, &facts->problem);
}

static uint64_t duration_ns(const struct facts *facts)
{
	return facts->end && facts->end->duration_ns ? facts->end->duration_ns : facts->last_ns;
}

/* ---- JSON ---- */

static void json_section(struct json *json, const struct facts *facts, size_t section)
{
	const struct trace_meta *meta = facts->meta;
	const struct trace_end *end = facts->end;
	json_begin_object(json, NULL);
	json_u64(json, "section", section);
	json_string(json, "program", meta ? meta->program : NULL);
	json_string(json, "command", meta ? meta->command : NULL);
	json_string(json, "host", meta ? meta->host : NULL);
	json_string(json, "tool_version", meta ? meta->tool_version : NULL);
	json_string(json, "mode", meta ? meta->mode : NULL);
	json_string(json, "source", meta ? meta->source : NULL);
	json_string(json, "clock", meta ? meta->clock : NULL);
	json_u64(json, "pid", meta ? meta->pid : 0);
	json_u64(json, "start_unix_ns", meta ? meta->start_unix_ns : 0);
	json_bool(json, "addresses", meta && meta->addresses);
	json_bool(json, "free_stacks", meta && meta->free_stacks);
	json_string(json, "end", view_end_name(end ? end : &(struct trace_end){0}));
	json_u64(json, "duration_ns", duration_ns(facts));
	json_u64(json, "events", facts->events);
	json_u64(json, "event_blocks", facts->event_blocks);
	json_u64(json, "folded_events", end ? end->folded_events : 0);
	json_u64(json, "exact_since_ns", end ? end->exact_since_ns : 0);
	json_u64(json, "culled_events", end ? end->culled_events : 0);
	json_u64(json, "cull_ns", meta ? meta->cull_ns : 0);
	json_u64(json, "events_not_stored", end ? end->events_not_stored : 0);
	json_u64(json, "lost_events", end ? end->lost_events : 0);
	json_u64(json, "slices", facts->slices);
	json_u64(json, "events_in_slices", facts->sliced_events);
	json_bool(json, "slices_whole", facts->slices_whole);
	json_u64(json, "inherited_allocations", meta ? meta->inherited_blocks : 0);
	json_u64(json, "inherited_bytes", meta ? meta->inherited_bytes : 0);
	json_u64(json, "threads", facts->threads);
	json_u64(json, "stacks", facts->stacks);
	json_u64(json, "modules", facts->modules);
	json_u64(json, "symbols", facts->symbols);
	json_u64(json, "samples", facts->samples);
	json_u64(json, "map_events", facts->maps);
	json_string(json, "note", end && end->note[0] ? end->note : NULL);
	if (meta && end)
		view_json_origin(json, meta, end);
	json_string(json, "problem", facts->problem.code ? facts->problem.text : NULL);
	json_end(json);
}

static void put_json(struct trace_reader *reader, const char *path, struct out *out)
{
	struct json json = {.out = &out->text, .pretty = true};
	struct trace_usage usage;
	json_begin_object(&json, NULL);
	json_string(&json, "file", path);
	json_u64(&json, "file_bytes", trace_reader_file_bytes(reader));
	json_bool(&json, "indexed", trace_reader_indexed(reader));
	json_begin_array(&json, "sections");
	for (size_t i = 0; i < trace_reader_section_count(reader); i++) {
		struct facts facts;
		gather(reader, i, &facts);
		json_section(&json, &facts, i);
	}
	json_end(&json);
	json_begin_array(&json, "kinds");
	for (size_t i = 0; trace_reader_usage(reader, i, &usage); i++) {
		if (!usage.blocks)
			continue;
		json_begin_object(&json, NULL);
		json_string(&json, "kind", usage.name);
		json_u64(&json, "blocks", usage.blocks);
		json_u64(&json, "stored_bytes", usage.stored_bytes);
		json_u64(&json, "raw_bytes", usage.raw_bytes);
		json_end(&json);
	}
	json_end(&json);
	json_u64(&json, "bytes_read", trace_reader_bytes_read(reader));
	json_string(&json, "warning", trace_reader_warning(reader));
	json_end(&json);
	text_put_char(&out->text, '\n');
}

/* ---- text ---- */

static void put_key(struct out *out, const char *key)
{
	out_style(out, OUT_DIM);
	text_print(&out->text, "  %-11s ", key);
	out_style(out, OUT_PLAIN);
}

static void put_value(struct out *out, const char *key, const char *value)
{
	put_key(out, key);
	out_name(out, value ? value : "?", 0);
	text_put_char(&out->text, '\n');
}

static void put_start(struct out *out, const struct trace_meta *meta)
{
	char started[64] = "?";
	time_t seconds = (time_t)(meta->start_unix_ns / 1000000000u);
	struct tm local;
	if (meta->start_unix_ns && localtime_r(&seconds, &local))
		strftime(started, sizeof started, "%Y-%m-%d %H:%M:%S", &local);
	put_key(out, "recorded");
	text_print(&out->text, "%s by ", started);
	out_name(out, meta->tool_version ? meta->tool_version : "?", 40);
	text_put(&out->text, " on ");
	out_name(out, meta->host ? meta->host : "?", 60);
	text_put(&out->text, " (");
	out_name(out, meta->source ? meta->source : "?", 40);
	text_put(&out->text, ", ");
	out_name(out, meta->mode ? meta->mode : "?", 40);
	text_print(&out->text, ", addresses %s, stacks of frees %s)\n",
		   meta->addresses ? "stored" : "left out", meta->free_stacks ? "stored" : "none");
}

static void put_events(struct out *out, const struct facts *facts)
{
	put_key(out, "events");
	text_print(&out->text, "%s in %s block%s, %s to %s\n", units_grouped(facts->events).text,
		   units_grouped(facts->event_blocks).text, facts->event_blocks == 1 ? "" : "s",
		   units_duration(facts->first_ns).text, units_duration(facts->last_ns).text);
	if (facts->end->events_not_stored || facts->end->lost_events) {
		put_key(out, "");
		text_print(&out->text, "%s more are in the figures only, %s were lost\n",
			   units_grouped(facts->end->events_not_stored).text,
			   units_grouped(facts->end->lost_events).text);
	}
	if (facts->end->folded_events) {
		put_key(out, "");
		text_print(&out->text, "%s of these were folded: single events only since %s\n",
			   units_grouped(facts->end->folded_events).text,
			   units_duration(facts->end->exact_since_ns).text);
	}
	if (facts->end->culled_events) {
		put_key(out, "");
		text_print(&out->text,
			   "%s of these were culled: of blocks that lived shorter than %s\n",
			   units_grouped(facts->end->culled_events).text,
			   units_duration(facts->meta->cull_ns).text);
	}
	put_key(out, "figures");
	text_print(&out->text, "%s slice%s, which cover %s events%s\n",
		   units_grouped(facts->slices).text, facts->slices == 1 ? "" : "s",
		   units_grouped(facts->sliced_events).text,
		   facts->slices_whole ? "" : "; damaged from there on");
	if (facts->meta->inherited_blocks) {
		put_key(out, "inherited");
		text_print(&out->text,
			   "%s blocks of %s at time 0: it is a part of a longer trace\n",
			   units_grouped(facts->meta->inherited_blocks).text,
			   units_bytes(facts->meta->inherited_bytes).text);
	}
	put_key(out, "tables");
	text_print(&out->text, "%s stacks, %s symbols, %s modules, %s threads, ",
		   units_grouped(facts->stacks).text, units_grouped(facts->symbols).text,
		   units_grouped(facts->modules).text, units_grouped(facts->threads).text);
	text_print(&out->text, "%s RSS samples, %s mappings\n", units_grouped(facts->samples).text,
		   units_grouped(facts->maps).text);
}

static void put_section(struct out *out, const struct facts *facts, size_t section)
{
	text_put_char(&out->text, '\n');
	out_style(out, OUT_BOLD);
	text_print(&out->text, "section %zu", section);
	out_style(out, OUT_PLAIN);
	if (!facts->meta) {
		text_put(&out->text, ": ");
		out_paragraph(out, 0, facts->problem.text);
		return;
	}
	text_print(&out->text, "  pid %" PRIu32 "\n", facts->meta->pid);
	put_value(out, "program", facts->meta->program);
	put_value(out, "command", facts->meta->command);
	put_start(out, facts->meta);
	if (facts->meta->origin[0])
		put_value(out, "imported", facts->meta->origin);
	char ended[160];
	report_end_sentence(facts->end, ended, sizeof ended);
	put_key(out, "lasted");
	text_print(&out->text, "%s; end: %s\n", units_duration(duration_ns(facts)).text, ended);
	put_events(out, facts);
	if (facts->end->note[0])
		put_value(out, "note", facts->end->note);
	if (facts->problem.code)
		put_value(out, "problem", facts->problem.text);
}

static void put_usage(struct trace_reader *reader, struct out *out)
{
	struct trace_usage usage;
	uint64_t file_bytes = trace_reader_file_bytes(reader);
	text_put_char(&out->text, '\n');
	out_style(out, OUT_BOLD);
	text_print(&out->text, "%-18s %8s %10s %7s %10s\n", "kind", "blocks", "stored", "",
		   "unpacked");
	out_style(out, OUT_PLAIN);
	for (size_t i = 0; trace_reader_usage(reader, i, &usage); i++)
		if (usage.blocks)
			text_print(&out->text, "%-18s %8s %10s %5.1f %% %10s\n", usage.name,
				   units_grouped(usage.blocks).text,
				   units_bytes(usage.stored_bytes).text,
				   100.0 * (double)usage.stored_bytes / (double)file_bytes,
				   units_bytes(usage.raw_bytes).text);
}

static void put_text(struct trace_reader *reader, const char *path, struct out *out)
{
	size_t count = trace_reader_section_count(reader);
	out_style(out, OUT_BOLD);
	out_name(out, path, 0);
	out_style(out, OUT_PLAIN);
	text_print(&out->text, ": %s, %zu section%s, %s\n",
		   units_bytes(trace_reader_file_bytes(reader)).text, count, count == 1 ? "" : "s",
		   trace_reader_indexed(reader) ? "with its index" : "without an index");
	for (size_t i = 0; i < count; i++) {
		struct facts facts;
		gather(reader, i, &facts);
		put_section(out, &facts, i);
	}
	put_usage(reader, out);
	const char *warning = trace_reader_warning(reader);
	if (!warning && trace_reader_indexed(reader))
		return;
	text_put_char(&out->text, '\n');
	out_style(out, OUT_WARN);
	if (warning)
		out_paragraph(out, 0, warning);
	out_style(out, OUT_PLAIN);
	text_put(&out->text,
		 "'tidemark verify' says what is damaged; 'tidemark repair' mends it.\n");
}

int cmd_info(int argc, char **argv)
{
	struct args args = ARGS_OF("info", argc, argv, options);
	args.shared = &foreign_args;
	struct request request = {0};
	if (!parse(&args, &request))
		return 2;
	if (request.help) {
		print_help();
		return 0;
	}
	struct out out;
	struct tm_error err = {0};
	struct trace_reader *reader;
	if (traces_open(request.path, &reader, &err)) {
		traces_complain("info", &err);
		return 1;
	}
	out_init(&out, OUT_COLOR_AUTO);
	if (request.json)
		put_json(reader, request.path, &out);
	else
		put_text(reader, request.path, &out);
	trace_reader_close(reader);
	return out_finish(&out);
}
