/* SPDX-License-Identifier: Apache-2.0 */
#include "model/copy.h"

#include <errno.h>
#include <string.h>

#include "model/state.h"

int copy_init(struct copy *copy, struct trace_reader *reader, struct trace_writer *writer,
	      uint64_t page_bytes, struct tm_error *err)
{
	*copy = (struct copy){.reader = reader, .writer = writer, .err = err};
	int rc = trace_reader_stacks(reader, &copy->stacks, &copy->stack_count, err);
	if (!rc)
		rc = trace_reader_modules(reader, &copy->modules, &copy->module_count, err);
	if (!rc)
		rc = trace_reader_threads(reader, &copy->threads, &copy->thread_count, err);
	if (!rc)
		rc = trace_reader_samples(reader, &copy->samples, &copy->sample_count, err);
	if (!rc)
		rc = trace_reader_maps(reader, &copy->maps, &copy->map_count, err);
	if (!rc)
		rc = trace_reader_moments(reader, &copy->moments, &copy->moment_count, err);
	if (!rc)
		rc = trace_reader_symbols(reader, &copy->symbols, &copy->symbol_count, err);
	if (!rc)
		rc = trace_reader_sources(reader, &copy->sources, &copy->source_count, err);
	if (!rc)
		rc = model_new(&(struct model_options){.page_bytes = page_bytes}, &copy->model,
			       err);
	if (!rc)
		copy->model->by_block = true;
	return rc;
}

void copy_done(struct copy *copy)
{
	copy->model = model_free(copy->model);
}

uint64_t copy_time(const struct copy *copy, uint64_t time_ns)
{
	if (time_ns == UINT64_MAX)
		return time_ns;
	return time_ns < copy->from_ns ? 0 : time_ns - copy->from_ns + copy->start_ns;
}

static int written(const struct copy *copy, int rc)
{
	return rc ? tm_fail(copy->err, rc, "the new trace cannot be written") : 0;
}

struct trace_stack copy_stack(const struct copy *copy, size_t stack_id)
{
	const struct trace_stack lost = {.module_id = TRACE_MODULE_MARK, .pc = TRACE_MARK_CUT};
	if (stack_id >= copy->stack_count)
		return lost;
	const struct trace_stack *stack = &copy->stacks[stack_id];
	bool bad_module =
		stack->module_id >= RESTACK_MODULES_MAX && stack->module_id != TRACE_MODULE_MARK;
	bool good = stack->parent_id < stack_id && !bad_module && (stack->module_id || stack->pc);
	return good ? *stack : lost;
}

static void see_module(uint32_t module_id, size_t *end)
{
	if (module_id < RESTACK_MODULES_MAX && module_id >= *end)
		*end = (size_t)module_id + 1;
}

/* One past the highest module that there is or that something refers to. */
static size_t module_end(const struct copy *copy)
{
	size_t end = copy->module_count;
	for (size_t id = 1; id < copy->stack_count; id++)
		see_module(copy->stacks[id].module_id, &end);
	for (size_t i = 0; i < copy->symbol_count; i++)
		see_module(copy->symbols[i].module_id, &end);
	return end;
}

int copy_names(struct copy *copy)
{
	int rc = 0;
	size_t end = module_end(copy);
	for (size_t id = 1; id < end && !rc; id++) {
		struct trace_module module = {.unmapped_ns = UINT64_MAX};
		if (id < copy->module_count)
			module = copy->modules[id];
		module.module_id = (uint32_t)id;
		module.path = module.path ? module.path : "[lost]";
		module.mapped_ns = copy_time(copy, module.mapped_ns);
		module.unmapped_ns = copy_time(copy, module.unmapped_ns);
		rc = trace_writer_module(copy->writer, &module);
	}
	for (size_t id = 0; id < copy->thread_count && !rc; id++) {
		struct trace_thread thread = copy->threads[id];
		thread.thread_id = (uint32_t)id;
		thread.start_ns = copy_time(copy, thread.start_ns);
		thread.end_ns = copy_time(copy, thread.end_ns);
		rc = trace_writer_thread(copy->writer, &thread);
	}
	/* What has no thread any more is given to the first: there must be one. */
	if (copy->thread_count == 0 && !rc) {
		const struct trace_thread nameless = {.end_ns = UINT64_MAX};
		rc = trace_writer_thread(copy->writer, &nameless);
	}
	return written(copy, rc);
}

static int write_map(struct copy *copy, const struct trace_map_event *old)
{
	struct trace_map_event event = *old;
	event.time_ns = copy_time(copy, event.time_ns);
	if (event.stack_id >= copy->stack_count)
		event.stack_id = 0;
	if (event.thread_id >= copy->thread_count)
		event.thread_id = 0;
	int rc = 0;
	if (copy->restack)
		rc = restack_id(copy->restack, &event.stack_id);
	if (!rc && copy->restack)
		rc = restack_write(copy->restack, copy->writer);
	if (rc)
		return written(copy, rc);
	rc = model_apply_map(copy->model, &event, copy->err);
	return rc ? rc : written(copy, trace_writer_maps(copy->writer, &event, 1));
}

void copy_skip_moments(struct copy *copy, uint64_t until_ns)
{
	for (; copy->next_moment < copy->moment_count; copy->next_moment++) {
		const struct trace_moment *moment = &copy->moments[copy->next_moment];
		if (moment->time_ns >= until_ns)
			return;
		if (moment->kind == TRACE_MOMENT_PAUSE || moment->kind == TRACE_MOMENT_RESUME)
			copy->starts_paused = moment->kind == TRACE_MOMENT_PAUSE;
		if (trace_moment_interval(moment) ||
		    (moment->kind == TRACE_MOMENT_MODE && !strncmp(moment->text, "exact", 5)))
			copy->starts_mode = moment->text;
	}
}

static int copy_moments(struct copy *copy, uint64_t until_ns)
{
	const struct trace_moment paused = {.kind = TRACE_MOMENT_PAUSE, .text = ""};
	int rc = 0;
	if (copy->starts_paused)
		rc = trace_writer_moment(copy->writer, &paused);
	copy->starts_paused = false;
	const struct trace_moment mode = {.kind = TRACE_MOMENT_MODE, .text = copy->starts_mode};
	if (!rc && mode.text)
		rc = trace_writer_moment(copy->writer, &mode);
	copy->starts_mode = NULL;
	for (; !rc && copy->next_moment < copy->moment_count; copy->next_moment++) {
		struct trace_moment moment = copy->moments[copy->next_moment];
		if (moment.time_ns > until_ns)
			break;
		moment.time_ns = copy_time(copy, moment.time_ns);
		rc = trace_writer_moment(copy->writer, &moment);
	}
	return rc ? written(copy, rc) : 0;
}

int copy_others(struct copy *copy, uint64_t until_ns)
{
	int rc = copy_moments(copy, until_ns);
	while (!rc && copy->next_map < copy->map_count &&
	       copy->maps[copy->next_map].time_ns <= until_ns)
		rc = write_map(copy, &copy->maps[copy->next_map++]);
	for (; !rc && copy->next_sample < copy->sample_count; copy->next_sample++) {
		struct trace_sample sample = copy->samples[copy->next_sample];
		if (sample.time_ns > until_ns)
			break;
		/* Only a damaged file has times that fall. */
		if (copy->next_sample &&
		    sample.time_ns < copy->samples[copy->next_sample - 1].time_ns)
			continue;
		sample.time_ns = copy_time(copy, sample.time_ns);
		model_apply_sample(copy->model, &sample);
		rc = written(copy, trace_writer_sample(copy->writer, &sample));
	}
	return rc;
}

int copy_cut(struct copy *copy)
{
	struct trace_slice slice;
	int rc = model_slice_take(copy->model, &slice, copy->err);
	return rc ? rc : written(copy, trace_writer_slice(copy->writer, &slice));
}

static int apply(struct copy *copy, struct trace_event *events, size_t count)
{
	int rc = model_apply(copy->model, events, count, copy->err);
	if (!rc)
		rc = written(copy, trace_writer_events(copy->writer, events, count));
	return rc;
}

/* How many of `count` events belong to the open slice. */
static size_t until_cut(const struct copy *copy, size_t count)
{
	if (!copy->cuts || copy->next_cut >= copy->cut_count)
		return count;
	uint64_t left = copy->cuts[copy->next_cut] - copy->model->events;
	return left < count ? (size_t)left : count;
}

int copy_events(struct copy *copy, struct trace_event *events, size_t count)
{
	int rc = 0;
	while (count > 0 && !rc) {
		size_t part = until_cut(copy, count);
		if (part)
			copy->last_ns = events[part - 1].time_ns;
		rc = apply(copy, events, part);
		events += part;
		count -= part;
		bool at_cut = copy->cuts && copy->next_cut < copy->cut_count &&
			      copy->model->events == copy->cuts[copy->next_cut];
		if (at_cut)
			copy->next_cut++;
		if (!rc && (at_cut || ((!copy->cuts || copy->next_cut >= copy->cut_count) &&
				       model_slice_due(copy->model))))
			rc = copy_cut(copy);
	}
	return rc;
}

int copy_finish(struct copy *copy)
{
	const struct model *m = copy->model;
	bool needed = m->events > m->slice.first_event || m->slice.slice_id == 0;
	return needed ? copy_cut(copy) : 0;
}
