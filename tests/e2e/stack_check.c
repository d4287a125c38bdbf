/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_check TRACE LOG: compares the stacks of a trace with what libunwind saw
 * at the same calls (tests/targets/compare.c wrote LOG). Both lists are in order
 * per thread; sizes must agree, else the two have lost each other ("unpaired").
 * Frames of the profiler and of the writing library itself are left out on both
 * sides. Prints the first differences and one line that counts.
 */
#include "trace/trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FRAMES = 2048, HEAD_BYTES = 64, SHOWN = 5 };

struct record {
	uint32_t tid;
	uint32_t frame_count;
	uint64_t size_bytes;
	uint64_t frames[];
};

struct log {
	const char *bytes;
	uint64_t used;
};

struct facts {
	struct trace_reader *reader;
	const struct trace_stack *stacks;
	const struct trace_module *modules;
	const struct trace_thread *threads;
	size_t stack_count, module_count, thread_count;
	uint64_t *cursors; /* per thread: where its next record is searched */
	uint64_t compared, differ, cut, unpaired;
};

static void die(const char *sentence)
{
	fprintf(stderr, "stack_check: %s\n", sentence);
	exit(2);
}

static struct log read_log(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size < HEAD_BYTES)
		die("the log cannot be read");
	const char *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED)
		die("the log cannot be mapped");
	struct log log = {bytes, 0};
	memcpy(&log.used, bytes, 8);
	if (log.used > (uint64_t)st.st_size)
		log.used = (uint64_t)st.st_size;
	return log;
}

/* The next record of the thread from its cursor on, or NULL. */
static const struct record *next_record(const struct log *log, uint64_t *cursor, uint32_t tid)
{
	uint64_t at = *cursor ? *cursor : HEAD_BYTES;
	while (at + sizeof(struct record) <= log->used) {
		const struct record *record =
			(const struct record *)(const void *)(log->bytes + at);
		uint64_t bytes = sizeof *record + 8ull * record->frame_count;
		if (record->tid == 0 || at + bytes > log->used)
			break; /* the last one was not finished */
		at += bytes;
		if (record->tid == tid) {
			*cursor = at;
			return record;
		}
	}
	*cursor = log->used;
	return NULL;
}

static bool is_ours(const struct facts *f, uint64_t pc)
{
	for (size_t i = 1; i < f->module_count; i++) {
		const struct trace_module *module = &f->modules[i];
		if (pc < module->start || pc >= module->end || !module->path)
			continue;
		if (strstr(module->path, "/libtidemark.so") || strstr(module->path, "/compare.so"))
			return true;
	}
	return false;
}

/* Return addresses of a stack of the trace, leaf first; -1 if it was cut. */
static int trace_frames(const struct facts *f, uint32_t stack_id, uint64_t frames[MAX_FRAMES])
{
	int count = 0;
	for (; stack_id && stack_id < f->stack_count; stack_id = f->stacks[stack_id].parent_id) {
		const struct trace_stack *stack = &f->stacks[stack_id];
		uint64_t pc = stack->pc & ~TRACE_PC_EXACT;
		if (stack->module_id == TRACE_MODULE_MARK)
			return -1;
		if (!is_ours(f, pc) && count < MAX_FRAMES)
			frames[count++] = pc;
	}
	return count;
}

static int log_frames(const struct facts *f, const struct record *record,
		      uint64_t frames[MAX_FRAMES])
{
	int count = 0;
	for (uint32_t i = 0; i < record->frame_count; i++)
		if (record->frames[i] && !is_ours(f, record->frames[i]) && count < MAX_FRAMES)
			frames[count++] = record->frames[i];
	return count;
}

static void show(const char *who, const struct facts *f, const uint64_t *frames, int count)
{
	printf("  %s:\n", who);
	for (int i = 0; i < count && i < 40; i++) {
		const struct trace_module *in = NULL;
		for (size_t m = 1; m < f->module_count && !in; m++)
			if (frames[i] >= f->modules[m].start && frames[i] < f->modules[m].end)
				in = &f->modules[m];
		const char *name = in && in->path ? strrchr(in->path, '/') : NULL;
		printf("    %2d %#llx %s+%#llx\n", i, (unsigned long long)frames[i],
		       name ? name + 1 : "?",
		       (unsigned long long)(in ? frames[i] - in->bias : frames[i]));
	}
}

static void compare(struct facts *f, const struct trace_event *event, const struct record *record)
{
	static uint64_t ours[MAX_FRAMES], theirs[MAX_FRAMES];
	int our_count = trace_frames(f, event->stack_id, ours);
	int their_count = log_frames(f, record, theirs);
	if (our_count < 0) {
		f->cut++;
		return;
	}
	f->compared++;
	if (our_count == their_count && !memcmp(ours, theirs, 8 * (size_t)our_count))
		return;
	if (f->differ++ >= SHOWN)
		return;
	printf("block %llu of %llu bytes, thread %u:\n", (unsigned long long)event->block_id,
	       (unsigned long long)event->size_bytes, f->threads[event->thread_id].tid);
	show("the trace", f, ours, our_count);
	show("libunwind", f, theirs, their_count);
}

static bool is_call(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC ||
	       event->op == TRACE_REALLOC_UNDO || event->op == TRACE_ALLOC_FAIL;
}

static void check_event(struct facts *f, const struct log *log, const struct trace_event *event)
{
	if (!is_call(event) || event->thread_id >= f->thread_count)
		return;
	uint64_t *cursor = &f->cursors[event->thread_id];
	uint64_t before = *cursor;
	const struct record *record = next_record(log, cursor, f->threads[event->thread_id].tid);
	if (record && record->size_bytes == event->size_bytes) {
		compare(f, event, record);
		return;
	}
	/* The log begins after the first calls: the trace may be ahead of it. */
	*cursor = before;
	if (!before)
		return;
	if (record && f->unpaired++ < SHOWN)
		printf("thread %u: block %llu has %llu bytes, the log has %llu\n",
		       f->threads[event->thread_id].tid, (unsigned long long)event->block_id,
		       (unsigned long long)event->size_bytes,
		       (unsigned long long)record->size_bytes);
}

static void check_all(struct facts *f, const struct log *log, struct tm_error *err)
{
	for (size_t i = 0; i < trace_reader_event_block_count(f->reader); i++) {
		struct trace_event_block block;
		if (trace_reader_event_block(f->reader, i, &block) < 0)
			die("an event block cannot be read");
		struct trace_event *events = calloc(block.event_count, sizeof *events);
		if (!events || trace_reader_events(f->reader, i, events, err) < 0)
			die(err->text);
		for (uint64_t n = 0; n < block.event_count; n++)
			check_event(f, log, &events[n]);
		free(events);
	}
}

int main(int argc, char **argv)
{
	struct tm_error err = {0};
	struct facts f = {0};
	if (argc != 3)
		die("usage: stack_check TRACE LOG");
	struct log log = read_log(argv[2]);
	if (trace_reader_open(argv[1], &f.reader, &err) < 0 ||
	    trace_reader_stacks(f.reader, &f.stacks, &f.stack_count, &err) < 0 ||
	    trace_reader_modules(f.reader, &f.modules, &f.module_count, &err) < 0 ||
	    trace_reader_threads(f.reader, &f.threads, &f.thread_count, &err) < 0)
		die(err.text);
	f.cursors = calloc(f.thread_count + 1, sizeof *f.cursors);
	if (!f.cursors)
		die("out of memory");
	check_all(&f, &log, &err);
	printf("%llu stacks compared, %llu differ, %llu cut, %llu unpaired\n",
	       (unsigned long long)f.compared, (unsigned long long)f.differ,
	       (unsigned long long)f.cut, (unsigned long long)f.unpaired);
	free(f.cursors);
	f.reader = trace_reader_close(f.reader);
	return f.differ || f.unpaired ? 1 : 0;
}
