/* SPDX-License-Identifier: Apache-2.0 */
/* Records to bytes: see rows.h. Its mirror is rows_get.c. */
#include "trace/rows.h"
#include "trace/tags.h"

static void put_delta(struct stream *s, unsigned column, uint64_t value)
{
	bytes_put_signed(&s->columns[column], (int64_t)(value - s->last[column]));
	s->last[column] = value;
}

void rows_put_stack(struct stream *s, const struct trace_stack *stack)
{
	uint32_t stack_id = (uint32_t)(s->first_ordinal + s->count + 1);
	bytes_put_varint(&s->columns[0], stack_id - stack->parent_id);
	put_delta(s, 1, stack->module_id);
	put_delta(s, 2, stack->pc);
	stream_count(s, 0, stack_id);
}

void rows_put_module(struct stream *s, const struct trace_module *module)
{
	struct bytes *out = &s->columns[0];
	uint32_t build_id_bytes = module->build_id_bytes;
	if (build_id_bytes > sizeof module->build_id)
		build_id_bytes = sizeof module->build_id;
	bytes_put_varint(out, module->module_id);
	bytes_put_varint(out, module->bias);
	bytes_put_varint(out, module->start);
	bytes_put_varint(out, module->end);
	bytes_put_varint(out, module->mapped_ns);
	bytes_put_varint(out, module->unmapped_ns + 1); /* 0 = still mapped */
	bytes_put_varint(out, build_id_bytes);
	bytes_put(out, module->build_id, build_id_bytes);
	bytes_put_text(out, module->path);
	stream_count(s, module->mapped_ns, module->module_id);
}

void rows_put_thread(struct stream *s, const struct trace_thread *thread)
{
	struct bytes *out = &s->columns[0];
	char name[sizeof thread->name + 1] = "";
	memcpy(name, thread->name, sizeof thread->name);
	bytes_put_varint(out, thread->thread_id);
	bytes_put_varint(out, thread->tid);
	bytes_put_varint(out, thread->start_ns);
	bytes_put_varint(out, thread->end_ns + 1); /* 0 = lives */
	bytes_put_text(out, name);
	stream_count(s, thread->start_ns, thread->thread_id);
}

void rows_put_map(struct stream *s, const struct trace_map_event *event)
{
	struct bytes *out = &s->columns[0];
	bytes_put_varint(out, event->op);
	put_delta(s, 0, event->time_ns);
	bytes_put_varint(out, event->address);
	bytes_put_varint(out, event->bytes);
	bytes_put_varint(out, event->moved_from);
	bytes_put_varint(out, event->stack_id);
	bytes_put_varint(out, event->thread_id);
	bytes_put_varint(out, event->prot_or_advice);
	bytes_put_varint(out, event->flags);
	stream_count(s, event->time_ns, 0);
}

void rows_put_sample(struct stream *s, const struct trace_sample *sample)
{
	struct bytes *out = &s->columns[0];
	put_delta(s, 0, sample->time_ns);
	bytes_put_varint(out, sample->rss_bytes);
	bytes_put_varint(out, sample->pss_bytes);
	bytes_put_varint(out, sample->anon_bytes);
	bytes_put_varint(out, sample->agent_bytes);
	bytes_put_varint(out, sample->cgroup_bytes);
	bytes_put_varint(out, sample->cgroup_limit_bytes);
	stream_count(s, sample->time_ns, 0);
}

void rows_put_moment(struct stream *s, const struct trace_moment *moment)
{
	struct bytes *out = &s->columns[0];
	put_delta(s, 0, moment->time_ns);
	bytes_put_varint(out, moment->kind);
	bytes_put_text(out, moment->text);
	stream_count(s, moment->time_ns, 0);
}

void rows_put_ref(struct stream *s, uint64_t ordinal, uint32_t stack_id, uint64_t size_bytes)
{
	put_delta(s, 0, ordinal);
	put_delta(s, 1, stack_id);
	bytes_put_varint(&s->columns[2], size_bytes);
	stream_count(s, 0, 0);
}

void rows_put_symbol(struct stream *s, const struct trace_symbol *symbol)
{
	struct bytes *out = &s->columns[0];
	bytes_put_varint(out, symbol->module_id);
	bytes_put_varint(out, symbol->address);
	bytes_put_text(out, symbol->function);
	bytes_put_text(out, symbol->file);
	bytes_put_varint(out, symbol->line);
	bytes_put_varint(out, symbol->column);
	bytes_put_varint(out, symbol->inlined);
	bytes_put_varint(out, symbol->source);
	bytes_put_varint(out, symbol->kind);
	stream_count(s, 0, 0);
}

void rows_put_source(struct stream *s, const struct trace_source_line *line)
{
	struct bytes *out = &s->columns[0];
	bytes_put_text(out, line->file);
	bytes_put_varint(out, line->line);
	bytes_put_text(out, line->text);
	stream_count(s, 0, 0);
}

/* Tagged fields: tag, number of bytes, bytes. Readers skip tags they do not know. */
static void put_number(struct bytes *out, unsigned tag, uint64_t value)
{
	bytes_put_varint(out, tag);
	bytes_put_varint(out, varint_length(value));
	bytes_put_varint(out, value);
}

static void put_text(struct bytes *out, unsigned tag, const char *text)
{
	if (!text)
		return;
	bytes_put_varint(out, tag);
	bytes_put_varint(out, strlen(text));
	bytes_put(out, text, strlen(text));
}

void rows_put_meta(struct bytes *out, const struct trace_meta *meta)
{
	put_text(out, META_TOOL_VERSION, meta->tool_version);
	put_text(out, META_PROGRAM, meta->program);
	put_text(out, META_COMMAND, meta->command);
	put_text(out, META_HOST, meta->host);
	put_text(out, META_MODE, meta->mode);
	put_text(out, META_SOURCE, meta->source);
	put_text(out, META_CLOCK, meta->clock);
	put_number(out, META_PID, meta->pid);
	put_number(out, META_PPID, meta->ppid);
	put_number(out, META_START_UNIX_NS, meta->start_unix_ns);
	put_number(out, META_PAGE_BYTES, meta->page_bytes);
	put_number(out, META_MACHINE_BYTES, meta->machine_bytes);
	put_number(out, META_ADDRESSES, meta->addresses);
	put_number(out, META_FREE_STACKS, meta->free_stacks);
	put_number(out, META_DEPTH, meta->depth);
	if (meta->sample_bytes)
		put_number(out, META_SAMPLE_BYTES, meta->sample_bytes);
	if (meta->cull_ns)
		put_number(out, META_CULL_NS, meta->cull_ns);
	if (meta->inherited_blocks) {
		put_number(out, META_INHERITED_BLOCKS, meta->inherited_blocks);
		put_number(out, META_INHERITED_BYTES, meta->inherited_bytes);
	}
	if (meta->series_id) {
		put_number(out, META_SERIES_ID, meta->series_id);
		put_number(out, META_PIECE, meta->piece);
		put_number(out, META_PIECE_START_NS, meta->piece_start_ns);
	}
	if (meta->origin && meta->origin[0])
		put_text(out, META_ORIGIN, meta->origin);
	if (meta->unknown)
		put_number(out, META_UNKNOWN, meta->unknown);
	if (meta->children)
		put_number(out, META_CHILDREN, 1);
}

void rows_put_end(struct bytes *out, const struct trace_end *end)
{
	put_number(out, END_CAUSE, end->cause);
	put_number(out, END_STATUS, varint_zigzag(end->status));
	put_number(out, END_DURATION_NS, end->duration_ns);
	put_number(out, END_LOST_EVENTS, end->lost_events);
	put_number(out, END_CUT_STACKS, end->cut_stacks);
	put_number(out, END_FP_FRAMES, end->fp_frames);
	put_number(out, END_WAITED_NS, end->waited_ns);
	put_number(out, END_AGENT_BYTES, end->agent_bytes);
	put_number(out, END_COLLECTOR_CPU_NS, end->collector_cpu_ns);
	put_number(out, END_COLLECTOR_BYTES, end->collector_bytes);
	put_number(out, END_FREED_UNSEEN, end->freed_unseen);
	put_number(out, END_FREED_OLDER, end->freed_older);
	put_number(out, END_CHILDREN, end->children_not_recorded);
	put_number(out, END_OFF_REASON, end->off_reason);
	put_number(out, END_NOT_STORED, end->events_not_stored);
	char note[sizeof end->note + 1] = "";
	memcpy(note, end->note, sizeof end->note);
	put_text(out, END_NOTE, note);
	if (end->folded_events) {
		put_number(out, END_FOLDED, end->folded_events);
		put_number(out, END_EXACT_SINCE_NS, end->exact_since_ns);
	}
	if (end->culled_events)
		put_number(out, END_CULLED, end->culled_events);
	if (end->paused_births || end->freed_paused) {
		put_number(out, END_PAUSED_BIRTHS, end->paused_births);
		put_number(out, END_FREED_PAUSED, end->freed_paused);
	}
	put_text(out, END_FACTS, end->facts);
	put_text(out, END_SUPPRESSIONS, end->suppressions);
}
