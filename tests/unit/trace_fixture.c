/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up heap: see the header. */
#include "trace_fixture.h"

#include "base/memory.h"
#include "harness/tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fixture_init(struct fixture *f, uint64_t seed)
{
	*f = (struct fixture){.random = seed * 2654435761u + 88172645463325252u, .step_ns = 300};
}

uint64_t fixture_random(struct fixture *f, uint64_t below)
{
	f->random ^= f->random << 13;
	f->random ^= f->random >> 7;
	f->random ^= f->random << 17;
	return (f->random >> 11) % below;
}

static struct trace_event born(struct fixture *f, uint8_t op)
{
	uint32_t stack_id = (uint32_t)fixture_random(f, 8)
				    ? (uint32_t)fixture_random(f, 12)
				    : (uint32_t)fixture_random(f, FIXTURE_STACKS + 1);
	uint64_t size_bytes = fixture_random(f, 4) ? stack_id * 8 : fixture_random(f, 5000);
	if (fixture_random(f, 500) == 0)
		size_bytes = f->random >> fixture_random(f, 64);
	return (struct trace_event){
		.op = op,
		.block_id = f->next_block_id++,
		.size_bytes = size_bytes,
		.stack_id = stack_id,
		.address = 0x560000000000u + fixture_random(f, 100000) * 16,
		.api = (uint8_t)(stack_id % 40 == 0 ? fixture_random(f, TRACE_API_COUNT) : 0),
		.align_log2 = (uint8_t)(stack_id % 50 == 0 ? fixture_random(f, 64) : 0),
	};
}

static void remember(struct fixture *f, const struct trace_event *event)
{
	if (f->live_count < FIXTURE_LIVE)
		f->live[f->live_count++] = *event;
}

/* One of the live blocks ends: mostly a young one. */
static struct trace_event died(struct fixture *f, uint8_t op)
{
	if (f->live_count == 0)
		return (struct trace_event){.op = TRACE_FREE_OLDER, .block_id = TRACE_NO_BLOCK};
	size_t reach = fixture_random(f, 3) ? 4 : f->live_count;
	if (reach > f->live_count)
		reach = f->live_count;
	size_t index = f->live_count - 1 - fixture_random(f, reach);
	struct trace_event event = f->live[index];
	memmove(&f->live[index], &f->live[index + 1],
		(--f->live_count - index) * sizeof f->live[0]);
	event.op = op;
	event.api = 0;
	event.align_log2 = 0;
	if (f->free_stacks)
		event.free_stack_id = (uint32_t)fixture_random(f, FIXTURE_STACKS + 1);
	return event;
}

static struct trace_event failed(struct fixture *f, uint8_t op)
{
	struct trace_event event = born(f, op);
	f->next_block_id--;
	event.block_id = TRACE_NO_BLOCK;
	event.address = 0;
	return event;
}

/* The second half of a realloc. */
static struct trace_event finish_realloc(struct fixture *f)
{
	f->realloc_open = false;
	if (fixture_random(f, 10) > 0) {
		struct trace_event event = born(f, TRACE_REALLOC_ALLOC);
		remember(f, &event);
		return event;
	}
	remember(f, &f->pending);
	return failed(f, TRACE_REALLOC_UNDO);
}

static struct trace_event next_event(struct fixture *f)
{
	if (f->realloc_open)
		return finish_realloc(f);
	uint64_t dice = fixture_random(f, 1000);
	if (dice < 480 || f->live_count == 0) {
		struct trace_event event = born(f, TRACE_ALLOC);
		remember(f, &event);
		return event;
	}
	if (dice < 900)
		return died(f, TRACE_FREE);
	if (dice < 980) {
		struct trace_event event = died(f, TRACE_REALLOC_FREE);
		f->realloc_open = event.block_id != TRACE_NO_BLOCK;
		f->pending = event;
		return event;
	}
	if (dice < 985)
		return failed(f, TRACE_ALLOC_FAIL);
	if (dice < 992)
		return died(f, TRACE_FREE_UNSEEN);
	return (struct trace_event){.op = TRACE_FREE_OLDER, .block_id = TRACE_NO_BLOCK};
}

void fixture_events(struct fixture *f, struct trace_event *events, size_t count)
{
	uint32_t thread_id = 0;
	for (size_t i = 0; i < count; i++) {
		events[i] = next_event(f);
		f->time_ns += fixture_random(f, 2 * f->step_ns + 1);
		if (fixture_random(f, 5000) == 0)
			f->time_ns += 12345678901u;
		if (fixture_random(f, 50) == 0)
			thread_id = (uint32_t)fixture_random(f, FIXTURE_THREADS);
		events[i].time_ns = f->time_ns;
		events[i].thread_id = thread_id;
	}
	f->event_count += count;
}

struct trace_stack fixture_stack(uint32_t stack_id)
{
	return (struct trace_stack){
		.parent_id = stack_id / 3,
		.module_id = stack_id % 97 == 5 ? TRACE_MODULE_MARK : stack_id % FIXTURE_MODULES,
		.pc = stack_id % 97 == 5 ? TRACE_MARK_CUT
					 : 0x7f0000000000u + stack_id * 40503u % 9999,
	};
}

struct trace_module fixture_module(uint32_t module_id)
{
	static const char *const paths[] = {"", "/bin/program", "/lib/libone.so", "[vdso]", "/x y"};
	struct trace_module module = {
		.module_id = module_id,
		.bias = 0x7f0000000000u + module_id * 0x100000u,
		.start = 0x7f0000001000u + module_id * 0x100000u,
		.end = 0x7f0000002000u + module_id * 0x100000u,
		.mapped_ns = module_id * 1000,
		.unmapped_ns = UINT64_MAX,
		.build_id_bytes = module_id * 5,
		.path = paths[module_id],
	};
	memset(module.build_id, (int)module_id, module.build_id_bytes);
	return module;
}

struct trace_thread fixture_thread(uint32_t thread_id)
{
	struct trace_thread thread = {
		.thread_id = thread_id,
		.tid = 4000 + thread_id,
		.start_ns = thread_id * 77,
		.end_ns = thread_id % 2 ? 999999 : UINT64_MAX,
	};
	snprintf(thread.name, sizeof thread.name, "worker-%u", thread_id);
	return thread;
}

struct trace_sample fixture_sample(uint64_t number)
{
	return (struct trace_sample){
		.time_ns = number * 1000000007u,
		.rss_bytes = number * 4096,
		.pss_bytes = number * 4000,
		.anon_bytes = number * 3000,
		.agent_bytes = 1 << 20,
		.cgroup_bytes = number << 22,
		.cgroup_limit_bytes = UINT64_MAX,
	};
}

struct trace_map_event fixture_map(uint64_t number)
{
	return (struct trace_map_event){
		.time_ns = number * 31337,
		.address = 0x7f1234560000u + number * 4096,
		.bytes = number * 8192,
		.moved_from = number % 5 == 0 ? 0x7f0000000000u : 0,
		.stack_id = (uint32_t)(number % FIXTURE_STACKS),
		.thread_id = (uint32_t)(number % FIXTURE_THREADS),
		.prot_or_advice = 3,
		.flags = number % 2 ? TRACE_MAP_FILE | 2 : 0x22,
		.op = (uint8_t)(number % 5),
	};
}

struct trace_symbol fixture_symbol(uint64_t number)
{
	static const char *const names[] = {"main", "operator new(unsigned long)", NULL, "f<int>"};
	return (struct trace_symbol){
		.module_id = (uint32_t)(number % FIXTURE_MODULES),
		.address = 0x7f0000000000u + number / FIXTURE_MODULES * 16,
		.function = names[number % 4],
		.file = number % 3 ? "/src/a file.c" : NULL,
		.line = (uint32_t)number,
		.column = (uint32_t)(number % 80),
		.inlined = number % 2,
		.source = (uint8_t)(number % 5),
	};
}

struct trace_meta fixture_meta(void)
{
	return (struct trace_meta){
		.tool_version = "1.2.3",
		.program = "/bin/program",
		.command = "program --quick 'two words'",
		.host = "somewhere",
		.mode = "exact",
		.source = "run",
		.clock = "tsc",
		.pid = 4711,
		.ppid = 1,
		.start_unix_ns = 1700000000123456789u,
		.page_bytes = 4096,
		.machine_bytes = UINT64_C(1) << 35,
		.addresses = true,
		.children = true,
		.depth = 1024,
	};
}

struct trace_end fixture_end(void)
{
	return (struct trace_end){
		.cause = TRACE_END_SIGNAL,
		.status = -9,
		.duration_ns = 123456789012u,
		.lost_events = 1,
		.cut_stacks = 2,
		.fp_frames = 3,
		.waited_ns = 4,
		.agent_bytes = 5,
		.collector_cpu_ns = 6,
		.collector_bytes = 7,
		.freed_unseen = 8,
		.freed_older = 9,
		.children_not_recorded = 10,
		.off_reason = 11,
		.events_not_stored = 12,
		.note = "It was killed.",
	};
}

int fixture_file(const char *name, char ret_path[256])
{
	const char *folder = getenv("TMPDIR");
	snprintf(ret_path, 256, "%s/tidemark-%s-%d.tide", folder ? folder : "/tmp", name,
		 (int)getpid());
	unlink(ret_path);
	int fd = open(ret_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	REQUIRE(fd >= 0);
	return fd;
}

void fixture_begin(struct trace_writer *w, bool free_stacks)
{
	struct trace_meta meta = fixture_meta();
	meta.free_stacks = free_stacks;
	CHECK_EQ_I64(trace_writer_begin(w, &meta), 0);
	for (uint32_t i = 1; i <= FIXTURE_STACKS; i++) {
		struct trace_stack stack = fixture_stack(i);
		CHECK_EQ_I64(trace_writer_stacks(w, &stack, 1), 0);
	}
	for (uint32_t i = 1; i <= FIXTURE_MODULES; i++) {
		struct trace_module module = fixture_module(i);
		CHECK_EQ_I64(trace_writer_module(w, &module), 0);
	}
	for (uint32_t i = 0; i < FIXTURE_THREADS; i++) {
		struct trace_thread thread = fixture_thread(i);
		CHECK_EQ_I64(trace_writer_thread(w, &thread), 0);
	}
}

static bool has_size(uint8_t op)
{
	return op == TRACE_ALLOC || op == TRACE_REALLOC_ALLOC || op == TRACE_REALLOC_UNDO ||
	       op == TRACE_ALLOC_FAIL;
}

bool fixture_same(const struct trace_event *written, const struct trace_event *got, bool addresses)
{
	if (written->op != got->op || written->block_id != got->block_id ||
	    written->thread_id != got->thread_id ||
	    written->time_ns / 1000 * 1000 != got->time_ns ||
	    written->free_stack_id != got->free_stack_id)
		return false;
	if (!has_size(written->op))
		return got->size_bytes == 0 || (got->size_bytes == written->size_bytes &&
						got->stack_id == written->stack_id);
	return written->size_bytes == got->size_bytes && written->stack_id == got->stack_id &&
	       written->api == got->api && written->align_log2 == got->align_log2 &&
	       got->address == (addresses ? written->address : 0);
}

size_t fixture_compare(struct trace_reader *r, const struct trace_event *events, size_t count,
		       bool addresses)
{
	size_t done = 0;
	struct tm_error err = {0};
	for (size_t i = 0; i < trace_reader_event_block_count(r); i++) {
		struct trace_event_block block;
		REQUIRE(trace_reader_event_block(r, i, &block) == 0);
		CHECK_EQ_U64(block.first_event, done);
		struct trace_event *got = tm_alloc_array(block.event_count + 1, sizeof *got);
		REQUIRE(got != NULL);
		if (!CHECK_EQ_I64(trace_reader_events(r, i, got, &err), 0))
			tap_note("%s", err.text);
		REQUIRE(done + block.event_count <= count);
		for (size_t k = 0; k < block.event_count; k++, done++) {
			if (fixture_same(&events[done], &got[k], addresses))
				continue;
			tap_note("event %zu differs", done);
			tm_free(got);
			return done;
		}
		tm_free(got);
	}
	return done;
}

static void check_meta(struct trace_reader *r)
{
	const struct trace_meta *meta = NULL;
	struct trace_meta want = fixture_meta();
	REQUIRE(trace_reader_meta(r, &meta, NULL) == 0);
	CHECK_STR(meta->tool_version, want.tool_version);
	CHECK_STR(meta->program, want.program);
	CHECK_STR(meta->command, want.command);
	CHECK_STR(meta->host, want.host);
	CHECK_STR(meta->mode, want.mode);
	CHECK_STR(meta->source, want.source);
	CHECK_STR(meta->clock, want.clock);
	CHECK_EQ_U64(meta->pid, want.pid);
	CHECK_EQ_U64(meta->ppid, want.ppid);
	CHECK_EQ_U64(meta->start_unix_ns, want.start_unix_ns);
	CHECK_EQ_U64(meta->page_bytes, want.page_bytes);
	CHECK_EQ_U64(meta->machine_bytes, want.machine_bytes);
	CHECK(meta->addresses == want.addresses);
	CHECK_EQ_U64(meta->depth, want.depth);
	CHECK(meta->children == want.children);
}

static void check_modules(struct trace_reader *r)
{
	const struct trace_module *modules = NULL;
	size_t count = 0;
	REQUIRE(trace_reader_modules(r, &modules, &count, NULL) == 0);
	REQUIRE(count == FIXTURE_MODULES + 1);
	for (uint32_t i = 1; i <= FIXTURE_MODULES; i++) {
		struct trace_module want = fixture_module(i);
		CHECK_STR(modules[i].path, want.path);
		CHECK_EQ_U64(modules[i].bias, want.bias);
		CHECK_EQ_U64(modules[i].start, want.start);
		CHECK_EQ_U64(modules[i].end, want.end);
		CHECK_EQ_U64(modules[i].mapped_ns, want.mapped_ns);
		CHECK_EQ_U64(modules[i].unmapped_ns, want.unmapped_ns);
		CHECK_EQ_U64(modules[i].build_id_bytes, want.build_id_bytes);
		CHECK_MEM(modules[i].build_id, want.build_id, sizeof want.build_id);
	}
}

void fixture_check_records(struct trace_reader *r)
{
	const struct trace_stack *stacks = NULL;
	const struct trace_thread *threads = NULL;
	const struct trace_end *end = NULL;
	size_t stack_count = 0, thread_count = 0;
	REQUIRE(trace_reader_stacks(r, &stacks, &stack_count, NULL) == 0);
	REQUIRE(stack_count == FIXTURE_STACKS + 1);
	CHECK_EQ_U64(stacks[0].pc, 0);
	for (uint32_t i = 1; i <= FIXTURE_STACKS; i++) {
		struct trace_stack want = fixture_stack(i);
		CHECK_EQ_U64(stacks[i].parent_id, want.parent_id);
		CHECK_EQ_U64(stacks[i].module_id, want.module_id);
		CHECK_EQ_U64(stacks[i].pc, want.pc);
	}
	REQUIRE(trace_reader_threads(r, &threads, &thread_count, NULL) == 0);
	REQUIRE(thread_count == FIXTURE_THREADS);
	for (uint32_t i = 0; i < FIXTURE_THREADS; i++) {
		struct trace_thread want = fixture_thread(i);
		CHECK_EQ_U64(threads[i].tid, want.tid);
		CHECK_EQ_U64(threads[i].start_ns, want.start_ns);
		CHECK_EQ_U64(threads[i].end_ns, want.end_ns);
		CHECK_STR(threads[i].name, want.name);
	}
	check_meta(r);
	check_modules(r);
	REQUIRE(trace_reader_end(r, &end, NULL) == 0);
	if (trace_reader_complete(r)) {
		struct trace_end want = fixture_end();
		if (end->events_not_stored > want.events_not_stored)
			want.events_not_stored = end->events_not_stored;
		CHECK_MEM(end, &want, sizeof want);
	}
}
