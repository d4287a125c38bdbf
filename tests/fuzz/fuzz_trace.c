/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile trace files. Checksums would stop almost every changed byte at the
 * door, so each input is read twice: as it is, and with its checksums made
 * right, as somebody who means harm would do.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "fuzz/seal.h"
#include "trace/trace.h"

enum { EVENTS_READ = 1 << 20 };

/* So that no read is optimised away. */
static volatile uint64_t seen;

static int visit_slice(void *ctx, const struct trace_slice *slice)
{
	uint64_t *sum = ctx;
	for (uint32_t i = 0; i < slice->row_count; i++) {
		const struct trace_slice_row *row = &slice->rows[i];
		for (uint32_t k = 0; k < row->death_count; k++)
			*sum += row->deaths[k].bytes;
		for (unsigned k = 0; k < row->size_bucket_count; k++)
			*sum += row->sizes[k].count;
		for (unsigned k = 0; k < row->life_bucket_count; k++)
			*sum += row->lives[k].count;
	}
	for (uint32_t i = 0; i < slice->culled_thread_count; i++)
		*sum += slice->culled_threads[i].births;
	return 0;
}

static uint64_t text_length(const char *text)
{
	return text ? strlen(text) : 0;
}

static void read_tables(struct trace_reader *r)
{
	const struct trace_meta *meta;
	const struct trace_end *end;
	const struct trace_stack *stacks;
	const struct trace_module *modules;
	const struct trace_thread *threads;
	const struct trace_sample *samples;
	const struct trace_map_event *maps;
	const struct trace_symbol *symbols;
	size_t count;
	uint64_t sum = 0;
	if (!trace_reader_meta(r, &meta, NULL))
		sum += strlen(meta->program) + strlen(meta->command);
	if (!trace_reader_end(r, &end, NULL))
		sum += strlen(end->note);
	if (!trace_reader_stacks(r, &stacks, &count, NULL))
		for (size_t i = 1; i < count; i++)
			sum += stacks[stacks[i].parent_id].pc;
	if (!trace_reader_modules(r, &modules, &count, NULL))
		for (size_t i = 1; i < count; i++)
			sum += text_length(modules[i].path);
	if (!trace_reader_threads(r, &threads, &count, NULL))
		for (size_t i = 0; i < count; i++)
			sum += strlen(threads[i].name);
	if (!trace_reader_samples(r, &samples, &count, NULL) && count > 0)
		sum += samples[count - 1].time_ns;
	if (!trace_reader_maps(r, &maps, &count, NULL) && count > 0)
		sum += maps[count - 1].time_ns;
	if (!trace_reader_symbols(r, &symbols, &count, NULL))
		for (size_t i = 0; i < count; i++)
			sum += text_length(symbols[i].function) + text_length(symbols[i].file);
	(void)!trace_reader_slices(r, visit_slice, &sum, NULL);
	seen = sum;
}

static void read_events(struct trace_reader *r)
{
	const struct trace_stack *stacks;
	size_t stack_count = 0;
	if (trace_reader_stacks(r, &stacks, &stack_count, NULL))
		return;
	for (size_t i = 0, read = 0; i < trace_reader_event_block_count(r) && read < EVENTS_READ;
	     i++) {
		struct trace_event_block block;
		if (trace_reader_event_block(r, i, &block) || block.event_count > EVENTS_READ)
			continue;
		struct trace_event *events = tm_alloc_array(block.event_count + 1, sizeof *events);
		if (events && !trace_reader_events(r, i, events, NULL))
			for (size_t k = 0; k < block.event_count; k++)
				if (events[k].stack_id >= stack_count)
					__builtin_trap();
		tm_free(events);
		read += block.event_count;
	}
}

static void read_trace(const uint8_t *data, size_t size)
{
	int fd = memfd_create("trace", MFD_CLOEXEC);
	char path[64];
	struct trace_reader *r = NULL;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd >= 0 && !io_write(fd, data, size) && !trace_reader_open(path, &r, NULL)) {
		for (size_t i = 0; i < trace_reader_section_count(r) && i < 8; i++) {
			if (trace_reader_select(r, i, NULL))
				continue;
			read_tables(r);
			read_events(r);
		}
		trace_reader_close(r);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_trace(data, size);
	uint8_t *copy = seal_copy(data, size);
	if (copy)
		read_trace(copy, size);
	tm_free(copy);
	return 0;
}
