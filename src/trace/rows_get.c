/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to records, every value checked: see rows.h. Its mirror is rows_put.c. */
#include "trace/rows.h"
#include "trace/tags.h"

static uint64_t get_delta(struct rows_reader *r, unsigned column)
{
	r->last[column] += (uint64_t)span_signed(&r->columns[column]);
	return r->last[column];
}

static const char *get_text(struct rows_reader *r, unsigned column)
{
	const char *text;
	size_t length;
	if (!span_text(&r->columns[column], &text, &length))
		return NULL;
	return texts_add(r->texts, text, length);
}

bool rows_get_stack(struct rows_reader *r, uint32_t stack_id, struct trace_stack *ret)
{
	uint64_t up = span_varint(&r->columns[0]);
	uint64_t module_id = get_delta(r, 1), pc = get_delta(r, 2);
	if (r->columns[0].bad || r->columns[1].bad || r->columns[2].bad || up == 0 ||
	    up > stack_id || module_id > UINT32_MAX)
		return false;
	*ret = (struct trace_stack){
		.parent_id = stack_id - (uint32_t)up, .module_id = (uint32_t)module_id, .pc = pc};
	return true;
}

bool rows_get_module(struct rows_reader *r, struct trace_module *ret)
{
	struct span *in = &r->columns[0];
	struct trace_module module = {.module_id = span_u32(in)};
	module.bias = span_varint(in);
	module.start = span_varint(in);
	module.end = span_varint(in);
	module.mapped_ns = span_varint(in);
	module.unmapped_ns = span_varint(in) - 1;
	module.build_id_bytes = (uint32_t)span_limited(in, sizeof module.build_id);
	const uint8_t *build_id = span_take(in, module.build_id_bytes);
	if (build_id && module.build_id_bytes > 0)
		memcpy(module.build_id, build_id, module.build_id_bytes);
	module.path = get_text(r, 0);
	if (in->bad || module.module_id == 0 || module.start > module.end)
		return false;
	*ret = module;
	return true;
}

bool rows_get_thread(struct rows_reader *r, struct trace_thread *ret)
{
	struct span *in = &r->columns[0];
	struct trace_thread thread = {.thread_id = span_u32(in)};
	thread.tid = span_u32(in);
	thread.start_ns = span_varint(in);
	thread.end_ns = span_varint(in) - 1;
	const char *name = NULL;
	size_t length = 0;
	if (span_text(in, &name, &length))
		memcpy(thread.name, name,
		       length < sizeof thread.name ? length : sizeof thread.name - 1);
	if (in->bad)
		return false;
	*ret = thread;
	return true;
}

bool rows_get_map(struct rows_reader *r, struct trace_map_event *ret)
{
	struct span *in = &r->columns[0];
	struct trace_map_event event = {.op = (uint8_t)span_limited(in, TRACE_MAP_OPS - 1)};
	event.time_ns = get_delta(r, 0);
	event.address = span_varint(in);
	event.bytes = span_varint(in);
	event.moved_from = span_varint(in);
	event.stack_id = span_u32(in);
	event.thread_id = span_u32(in);
	event.prot_or_advice = span_u32(in);
	event.flags = span_u32(in);
	if (in->bad)
		return false;
	*ret = event;
	return true;
}

bool rows_get_sample(struct rows_reader *r, struct trace_sample *ret)
{
	struct span *in = &r->columns[0];
	struct trace_sample sample = {.time_ns = get_delta(r, 0)};
	sample.rss_bytes = span_varint(in);
	sample.pss_bytes = span_varint(in);
	sample.anon_bytes = span_varint(in);
	sample.agent_bytes = span_varint(in);
	sample.cgroup_bytes = span_varint(in);
	sample.cgroup_limit_bytes = span_varint(in);
	if (in->bad)
		return false;
	*ret = sample;
	return true;
}

bool rows_get_moment(struct rows_reader *r, struct trace_moment *ret)
{
	struct trace_moment moment = {.time_ns = get_delta(r, 0)};
	moment.kind = (uint8_t)span_limited(&r->columns[0], TRACE_MOMENT_KINDS - 1);
	moment.text = get_text(r, 0);
	if (r->columns[0].bad)
		return false;
	moment.text = moment.text ? moment.text : "";
	*ret = moment;
	return true;
}

bool rows_get_ref(struct rows_reader *r, struct rows_ref *ret)
{
	struct rows_ref ref = {.ordinal = get_delta(r, 0)};
	uint64_t stack_id = get_delta(r, 1);
	ref.stack_id = (uint32_t)stack_id;
	ref.size_bytes = span_varint(&r->columns[2]);
	if (r->columns[0].bad || r->columns[1].bad || r->columns[2].bad || stack_id > UINT32_MAX)
		return false;
	*ret = ref;
	return true;
}

bool rows_get_symbol(struct rows_reader *r, struct trace_symbol *ret)
{
	struct span *in = &r->columns[0];
	struct trace_symbol symbol = {.module_id = span_u32(in)};
	symbol.address = span_varint(in);
	symbol.function = get_text(r, 0);
	symbol.file = get_text(r, 0);
	symbol.line = span_u32(in);
	symbol.column = span_u32(in);
	symbol.inlined = (uint8_t)span_limited(in, TRACE_INLINED_CALLEE);
	symbol.source = (uint8_t)span_limited(in, TRACE_SYM_JIT);
	symbol.kind = (uint8_t)span_limited(in, UINT8_MAX);
	if (in->bad)
		return false;
	*ret = symbol;
	return true;
}

bool rows_get_source(struct rows_reader *r, struct trace_source_line *ret)
{
	struct span *in = &r->columns[0];
	struct trace_source_line line = {.file = get_text(r, 0)};
	line.line = span_u32(in);
	line.text = get_text(r, 0);
	if (in->bad)
		return false;
	*ret = line;
	return true;
}

/* One tagged field: its number (0 if it is no number) and its text. */
struct field {
	uint64_t tag, number;
	const char *text;
	size_t length;
};

static bool get_field(struct span *in, struct field *ret)
{
	ret->tag = span_varint(in);
	uint64_t length = span_limited(in, FORMAT_RAW_MAX);
	struct span content = span_cut(in, (size_t)length);
	if (in->bad)
		return false;
	ret->text = (const char *)content.next;
	ret->length = (size_t)length;
	ret->number = span_varint(&content);
	return true;
}

static void set_meta(struct trace_meta *meta, const struct field *field, struct texts *texts)
{
	const char **const text_fields[] = {
		[META_TOOL_VERSION] = &meta->tool_version,
		[META_PROGRAM] = &meta->program,
		[META_COMMAND] = &meta->command,
		[META_HOST] = &meta->host,
		[META_MODE] = &meta->mode,
		[META_SOURCE] = &meta->source,
		[META_CLOCK] = &meta->clock,
	};
	if (field->tag >= META_TOOL_VERSION && field->tag <= META_CLOCK) {
		*text_fields[field->tag] = texts_add(texts, field->text, field->length);
		return;
	}
	switch (field->tag) {
	case META_PID:
		meta->pid = (uint32_t)field->number;
		break;
	case META_PPID:
		meta->ppid = (uint32_t)field->number;
		break;
	case META_START_UNIX_NS:
		meta->start_unix_ns = field->number;
		break;
	case META_PAGE_BYTES:
		meta->page_bytes = field->number;
		break;
	case META_MACHINE_BYTES:
		meta->machine_bytes = field->number;
		break;
	case META_ADDRESSES:
		meta->addresses = field->number != 0;
		break;
	case META_FREE_STACKS:
		meta->free_stacks = field->number != 0;
		break;
	case META_CULL_NS:
		meta->cull_ns = field->number;
		break;
	case META_SAMPLE_BYTES:
		meta->sample_bytes = field->number;
		break;
	case META_DEPTH:
		meta->depth = (uint32_t)field->number;
		break;
	case META_INHERITED_BLOCKS:
		meta->inherited_blocks = field->number;
		break;
	case META_INHERITED_BYTES:
		meta->inherited_bytes = field->number;
		break;
	case META_SERIES_ID:
		meta->series_id = field->number;
		break;
	case META_PIECE:
		meta->piece = (uint32_t)field->number;
		break;
	case META_PIECE_START_NS:
		meta->piece_start_ns = field->number;
		break;
	case META_ORIGIN:
		meta->origin = texts_add(texts, field->text, field->length);
		break;
	case META_UNKNOWN:
		meta->unknown = (uint32_t)field->number;
		break;
	case META_CHILDREN:
		meta->children = field->number != 0;
		break;
	}
}

bool rows_get_meta(struct span in, struct texts *texts, struct trace_meta *ret)
{
	/* Readers print these: a text that is missing is empty. */
	struct trace_meta meta = {.tool_version = "",
				  .program = "",
				  .command = "",
				  .host = "",
				  .mode = "",
				  .source = "",
				  .clock = "",
				  .origin = ""};
	struct field field;
	while (span_left(&in) > 0) {
		if (!get_field(&in, &field))
			return false;
		set_meta(&meta, &field, texts);
	}
	if (texts->failed)
		return false;
	*ret = meta;
	return true;
}

static void set_end(struct trace_end *end, const struct field *field, struct texts *texts)
{
	uint64_t *const numbers[] = {
		[END_DURATION_NS] = &end->duration_ns,
		[END_LOST_EVENTS] = &end->lost_events,
		[END_CUT_STACKS] = &end->cut_stacks,
		[END_FP_FRAMES] = &end->fp_frames,
		[END_WAITED_NS] = &end->waited_ns,
		[END_AGENT_BYTES] = &end->agent_bytes,
		[END_COLLECTOR_CPU_NS] = &end->collector_cpu_ns,
		[END_COLLECTOR_BYTES] = &end->collector_bytes,
		[END_FREED_UNSEEN] = &end->freed_unseen,
		[END_FREED_OLDER] = &end->freed_older,
		[END_CHILDREN] = &end->children_not_recorded,
		[END_OFF_REASON] = NULL,
		[END_NOT_STORED] = &end->events_not_stored,
	};
	if (field->tag == END_CAUSE)
		end->cause = (uint32_t)field->number;
	else if (field->tag == END_STATUS)
		end->status = (int32_t)varint_unzigzag(field->number);
	else if (field->tag == END_OFF_REASON)
		end->off_reason = (uint32_t)field->number;
	else if (field->tag == END_NOTE)
		memcpy(end->note, field->text,
		       field->length < sizeof end->note ? field->length : sizeof end->note - 1);
	else if (field->tag == END_FOLDED)
		end->folded_events = field->number;
	else if (field->tag == END_EXACT_SINCE_NS)
		end->exact_since_ns = field->number;
	else if (field->tag == END_CULLED)
		end->culled_events = field->number;
	else if (field->tag == END_PAUSED_BIRTHS)
		end->paused_births = field->number;
	else if (field->tag == END_FREED_PAUSED)
		end->freed_paused = field->number;
	else if (field->tag == END_FACTS)
		end->facts = texts_add(texts, field->text, field->length);
	else if (field->tag == END_SUPPRESSIONS)
		end->suppressions = texts_add(texts, field->text, field->length);
	else if (field->tag >= END_DURATION_NS && field->tag <= END_NOT_STORED)
		*numbers[field->tag] = field->number;
}

bool rows_get_end(struct span in, struct texts *texts, struct trace_end *ret)
{
	struct trace_end end = {0};
	struct field field;
	while (span_left(&in) > 0) {
		if (!get_field(&in, &field))
			return false;
		set_end(&end, &field, texts);
	}
	if (texts->failed)
		return false;
	*ret = end;
	return true;
}
