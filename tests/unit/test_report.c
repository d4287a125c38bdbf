/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small trace is written here, event by event; what `tidemark report` prints of
 * it is compared with figures computed beside it.
 */
#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/commands.h"
#include "harness/tap.h"
#include "model/model.h"
#include "trace/trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct stage {
	char folder[64];
	char path[96];
	struct text out, err;
};

static const struct trace_meta meta = {
	.tool_version = "1.2.3",
	.program = "/opt/app/shop",
	.command = "shop --open 'all day'",
	.host = "here",
	.mode = "exact",
	.source = "run",
	.clock = "tsc",
	.pid = 4711,
	.start_unix_ns = 1700000000123456789,
	.page_bytes = 4096,
	.depth = 1024,
};

static const struct trace_module module = {
	.module_id = 1,
	.bias = 0x500000,
	.start = 0x500000,
	.end = 0x600000,
	.unmapped_ns = UINT64_MAX,
	.path = "/opt/app/shop",
};

static const struct trace_stack stacks[] = {
	{.parent_id = 0, .module_id = 1, .pc = 0x500101}, /* 1 main */
	{.parent_id = 1, .module_id = 1, .pc = 0x500201}, /* 2 cart_add */
	{.parent_id = 1, .module_id = 1, .pc = 0x500301}, /* 3 evil name */
};

static const struct trace_symbol symbols[] = {
	{.module_id = 1, .address = 0x500100, .function = "main", .source = TRACE_SYM_SYMTAB},
	{.module_id = 1,
	 .address = 0x500200,
	 .function = "cart_add",
	 .file = "/src/cart.c",
	 .line = 10,
	 .column = 3,
	 .source = TRACE_SYM_DWARF},
	{.module_id = 1,
	 .address = 0x500300,
	 .function = "evil\033[2J\"\xff",
	 .source = TRACE_SYM_SYMTAB},
};

static const struct trace_end ended = {
	.cause = TRACE_END_EXIT,
	.status = 3,
	.duration_ns = 5000000000,
	.cut_stacks = 2,
	.waited_ns = 7,
	.agent_bytes = 1 << 20,
	.collector_cpu_ns = 11,
	.note = "A note.",
};

/* 300 + 200 bytes live at the peak; 300 unfreed; one of 40 bytes temporary. */
static const struct trace_event events[] = {
	{.time_ns = 1000, .address = 0x1000, .size_bytes = 300, .stack_id = 2, .op = TRACE_ALLOC},
	{.time_ns = 2000, .address = 0x2000, .size_bytes = 200, .stack_id = 3, .op = TRACE_ALLOC},
	{.time_ns = 3000, .address = 0x2000, .op = TRACE_FREE},
	{.time_ns = 4000, .address = 0x3000, .size_bytes = 40, .stack_id = 3, .op = TRACE_ALLOC},
	{.time_ns = 5000, .address = 0x3000, .op = TRACE_FREE},
	{.time_ns = 6000, .size_bytes = 9, .stack_id = 2, .op = TRACE_ALLOC_FAIL},
};
enum { EVENTS = sizeof events / sizeof events[0] };

static void write_empty(struct trace_writer *writer, const struct trace_end *end)
{
	REQUIRE(trace_writer_begin(writer, &meta) == 0);
	REQUIRE(trace_writer_end(writer, end) == 0);
}

static void write_section(struct trace_writer *writer, const struct trace_meta *about,
			  const struct trace_end *end)
{
	struct model *model;
	struct trace_event batch[EVENTS];
	struct trace_slice slice;
	const struct trace_thread thread = {.thread_id = 0, .tid = 4711, .end_ns = UINT64_MAX};
	const struct trace_sample sample = {.time_ns = 5500,
					    .rss_bytes = 9000000,
					    .anon_bytes = 3000000,
					    .agent_bytes = 1000000};
	REQUIRE(model_new(&(struct model_options){0}, &model, NULL) == 0);
	memcpy(batch, events, sizeof batch);
	REQUIRE(model_apply(model, batch, EVENTS, NULL) == 0);
	model_apply_sample(model, &sample);
	REQUIRE(trace_writer_begin(writer, about) == 0);
	REQUIRE(trace_writer_module(writer, &module) == 0);
	REQUIRE(trace_writer_thread(writer, &thread) == 0);
	REQUIRE(trace_writer_stacks(writer, stacks, 3) == 0);
	REQUIRE(trace_writer_events(writer, batch, EVENTS) == 0);
	REQUIRE(trace_writer_sample(writer, &sample) == 0);
	REQUIRE(model_slice_take(model, &slice, NULL) == 0);
	REQUIRE(trace_writer_slice(writer, &slice) == 0);
	REQUIRE(trace_writer_symbols(writer, symbols, 3) == 0);
	if (end)
		REQUIRE(trace_writer_end(writer, end) == 0);
	model_free(model);
}

static void setup(struct stage *stage)
{
	*stage = (struct stage){.folder = "/tmp/tidemark-report-XXXXXX"};
	REQUIRE(mkdtemp(stage->folder));
	snprintf(stage->path, sizeof stage->path, "%s/shop.tide", stage->folder);
}

static void teardown(struct stage *stage)
{
	char command[160];
	text_done(&stage->out);
	text_done(&stage->err);
	snprintf(command, sizeof command, "rm -rf '%s'", stage->folder);
	CHECK_EQ_I64(system(command), 0);
}

static void write_trace_of(struct stage *stage, const struct trace_meta *about,
			   const struct trace_end *end, unsigned sections)
{
	struct trace_writer *writer;
	struct trace_writer_options options = {.addresses = true};
	int fd = open(stage->path, O_RDWR | O_CREAT | O_EXCL, 0600);
	REQUIRE(fd >= 0);
	REQUIRE(trace_writer_open(fd, &options, &writer, NULL) == 0);
	if (!sections)
		write_empty(writer, end);
	for (unsigned i = 0; i < sections; i++)
		write_section(writer, about, i + 1 < sections ? &ended : end);
	REQUIRE(trace_writer_close(writer, NULL) == 0);
}

static void write_trace(struct stage *stage, const struct trace_end *end, unsigned sections)
{
	write_trace_of(stage, &meta, end, sections);
}

/* Runs the command with its streams in files. Returns the exit status. */
static int report(struct stage *stage, const char *const *words)
{
	static const char *const names[] = {"out", "err"};
	struct text *texts[] = {&stage->out, &stage->err};
	int kept[2], argc = 0;
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		char path[128];
		snprintf(path, sizeof path, "%s/%s", stage->folder, names[i]);
		int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		kept[i] = dup(i + 1);
		REQUIRE(fd >= 0 && kept[i] >= 0 && dup2(fd, i + 1) == i + 1);
		close(fd);
	}
	while (words[argc])
		argc++;
	int status = cmd_report(argc, (char **)(uintptr_t)words);
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		char path[128];
		snprintf(path, sizeof path, "%s/%s", stage->folder, names[i]);
		dup2(kept[i], i + 1);
		close(kept[i]);
		text_clear(texts[i]);
		REQUIRE(io_read_file(path, 1 << 24, texts[i]) == 0);
	}
	return status;
}
#define REPORT(stage, ...) report((stage), (const char *const[]){"report", __VA_ARGS__, NULL})

static void has(struct stage *stage, const char *part)
{
	CHECK_HAS(text_string(&stage->out), part);
}

static void text(void)
{
	struct stage stage;
	setup(&stage);
	write_trace(&stage, &ended, 1);
	CHECK_EQ_I64(REPORT(&stage, stage.path), 0);
	has(&stage, "shop (pid 4711)");
	has(&stage, "shop --open 'all day'");
	has(&stage, "exit status 3");
	has(&stage, "500 B in 2 blocks");
	has(&stage, "300 B in 1 block (");
	has(&stage, "9.00 MB = heap 300 B + mapped 0 B + agent 1.00 MB + 8.00 MB rest");
	has(&stage, "Sites by their share of the peak");
	has(&stage, "cart_add");
	has(&stage, "cart.c:10");
	has(&stage, "A note.");
	has(&stage, "0 lost, 2 stacks cut");
	CHECK(!strstr(text_string(&stage.out), "leak\n"));
	/* Neither colours nor a name's own control characters in a file. */
	CHECK(!strchr(text_string(&stage.out), '\033'));
	has(&stage, "evil\\x1b[2J");
	CHECK_STR(text_string(&stage.err), "");
	teardown(&stage);
}

static void json(void)
{
	struct stage stage;
	setup(&stage);
	write_trace(&stage, &ended, 1);
	CHECK_EQ_I64(REPORT(&stage, "--json", "--by", "function", "--stacks", stage.path), 0);
	static const char *const wanted[] = {
		"\"program\": \"/opt/app/shop\"",
		"\"command\": \"shop --open 'all day'\"",
		"\"pid\": 4711",
		"\"start_time\": \"2023-11-14T22:13:20.123456789Z\"",
		"\"duration_ns\": 5000000000",
		"\"mode\": \"exact\"",
		"\"end\": \"exit\"",
		"\"exit_status\": 3",
		"\"signal\": null",
		"\"threads\": 1",
		"\"allocations\": 3",
		"\"frees\": 2",
		"\"allocated_bytes\": 540",
		"\"temporary_allocations\": 2",
		"\"peak_bytes\": 500",
		"\"peak_time_ns\": 2000",
		"\"unfreed_allocations\": 1",
		"\"unfreed_bytes\": 300",
		"\"peak_rss_bytes\": 9000000",
		"\"mapped_peak_bytes\": 0",
		"\"lost_events\": 0",
		"\"stacks\": 2",
		"\"events\": 6",
		"\"failed_allocations\": 1",
		"\"freed_unseen\": 0",
		"\"cut_stacks\": 2",
		"\"frame_pointer_frames\": 0",
		"\"waited_ns\": 7",
		"\"agent_bytes\": 1048576",
		"\"collector_cpu_ns\": 11",
		"\"top_peak\": [",
		"\"top_unfreed\": [",
		"\"top_allocations\": [",
		"\"top_temporary\": [",
		"\"functions\": [",
		"\"stack_list\": [",
		"\"file\": \"/src/cart.c\"",
		"\"line\": 10",
		"\"address\": \"0x200\"",
		"\"rest_bytes\": 7999700",
		"\"bytes_read\": ",
		"\"file_bytes\": ",
		"\"function\": \"evil\\u001b[2J\\\"",
	};
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
		has(&stage, wanted[i]);
	teardown(&stage);
}

static void stack_lines(void)
{
	struct stage stage;
	setup(&stage);
	write_trace(&stage, &ended, 1);
	CHECK_EQ_I64(REPORT(&stage, "--stacks", stage.path), 0);
	/* allocations, bytes, frees, bytes, temporary, failed, peak, bytes, unfreed, bytes */
	has(&stage, "1\t300\t0\t0\t0\t1\t1\t300\t1\t300\tcart_add;main\n");
	has(&stage, "2\t240\t2\t240\t2\t0\t1\t200\t0\t0\tevil");
	teardown(&stage);
}

static void sections(void)
{
	struct stage stage;
	setup(&stage);
	write_trace(&stage, &ended, 3);
	CHECK_EQ_I64(REPORT(&stage, "--json", stage.path), 0);
	has(&stage, "\"section\": 2");
	has(&stage, "\"section_count\": 3");
	CHECK_EQ_I64(REPORT(&stage, "--json", "--image", "1", stage.path), 0);
	has(&stage, "\"section\": 1");
	CHECK_EQ_I64(REPORT(&stage, "--json", "--image", "all", stage.path), 0);
	has(&stage, "\"sections\": [");
	has(&stage, "\"section\": 0");
	has(&stage, "\"section\": 2");
	CHECK_EQ_I64(REPORT(&stage, "--image", "3", stage.path), 2);
	CHECK_HAS(text_string(&stage.err), "its images are 0 to 2");
	teardown(&stage);
}

static void endings(void)
{
	static const struct {
		uint32_t cause;
		int32_t status;
		const char *sentence, *name, *exit_status;
	} ends[] = {
		{TRACE_END_SIGNAL, 9, "killed by signal 9", "\"end\": \"killed\"",
		 "\"exit_status\": 137"},
		{TRACE_END_SIGNAL, 15, "ended by signal 15", "\"end\": \"signal\"",
		 "\"exit_status\": 143"},
		{TRACE_END_DISK_ERROR, 0, "the disk failed", "\"end\": \"disk_error\"",
		 "\"exit_status\": null"},
		{TRACE_END_OOM, 9, "want of memory", "\"end\": \"oom\"", "\"exit_status\": 137"},
		{TRACE_END_EXEC, 0, "exec", "\"end\": \"exec\"", "\"exit_status\": null"},
		{TRACE_END_STOPPED, 0, "reached its limit", "\"end\": \"stopped\"",
		 "\"exit_status\": null"},
	};
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		struct stage stage;
		struct trace_end end = {.cause = ends[i].cause, .status = ends[i].status};
		setup(&stage);
		write_trace(&stage, &end, 1);
		CHECK_EQ_I64(REPORT(&stage, stage.path), 0);
		has(&stage, ends[i].sentence);
		CHECK_EQ_I64(REPORT(&stage, "--json", stage.path), 0);
		has(&stage, ends[i].name);
		has(&stage, ends[i].exit_status);
		teardown(&stage);
	}
}

/* The collector was killed: the figures are there, and the end is said to be missing. */
static void unfinished(void)
{
	struct stage stage;
	setup(&stage);
	write_trace(&stage, &ended, 1);
	struct stat status;
	REQUIRE(stat(stage.path, &status) == 0);
	for (off_t bytes = status.st_size - 1; bytes >= 0; bytes -= bytes > 64 ? 61 : 1) {
		REQUIRE(truncate(stage.path, bytes) == 0);
		int code = REPORT(&stage, "--json", stage.path);
		CHECK(code == 0 || code == 1);
		if (code == 0)
			has(&stage, "\"peak_bytes\": ");
		else
			CHECK_HAS(text_string(&stage.err), stage.path);
	}
	teardown(&stage);
}

static void empty(void)
{
	struct stage stage;
	setup(&stage);
	write_trace(&stage, &ended, 0);
	CHECK_EQ_I64(REPORT(&stage, stage.path), 0);
	has(&stage, "No heap event was recorded.");
	CHECK_EQ_I64(REPORT(&stage, "--json", stage.path), 0);
	has(&stage, "\"allocations\": 0");
	has(&stage, "\"warning\": \"No heap event was recorded.");
	teardown(&stage);
}

/* The cause of an empty heap is guessed only where the file says nothing of it. */
static void empty_why(void)
{
	static const struct {
		struct trace_end end;
		const char *warning;
	} ends[] = {
		{{.cause = TRACE_END_EXIT}, "Probably the program's malloc is its own"},
		{{.cause = TRACE_END_EXIT, .note = "A note."}, "No heap event was recorded.\""},
		{{.cause = TRACE_END_EXIT, .paused_births = 5}, "were allocated in pauses"},
		{{.cause = TRACE_END_STOPPED}, "recorded before the recording ended"},
		{{.cause = TRACE_END_DETACHED}, "recorded before the recording ended"},
	};
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		struct stage stage;
		setup(&stage);
		write_trace(&stage, &ends[i].end, 0);
		CHECK_EQ_I64(REPORT(&stage, "--json", stage.path), 0);
		has(&stage, ends[i].warning);
		teardown(&stage);
	}
}

static void refused(void)
{
	struct stage stage;
	setup(&stage);
	char path[128];
	CHECK_EQ_I64(REPORT(&stage, stage.path), 1);
	CHECK_HAS(text_string(&stage.err), "No such file");
	CHECK_EQ_I64(REPORT(&stage, stage.folder), 1);
	CHECK_HAS(text_string(&stage.err), "is a folder");
	snprintf(path, sizeof path, "%s/words", stage.folder);
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	REQUIRE(fd >= 0 && io_write(fd, "nothing of a trace here, only words", 35) == 0);
	close(fd);
	CHECK_EQ_I64(REPORT(&stage, path), 1);
	CHECK_HAS(text_string(&stage.err), path);
	CHECK_STR(text_string(&stage.out), "");
	snprintf(path, sizeof path, "%s/pipe", stage.folder);
	REQUIRE(mkfifo(path, 0600) == 0);
	CHECK_EQ_I64(REPORT(&stage, path), 1);
	CHECK_HAS(text_string(&stage.err), "empty pipe");
	teardown(&stage);
}

static void usage(void)
{
	struct stage stage;
	setup(&stage);
	CHECK_EQ_I64(report(&stage, (const char *const[]){"report", NULL}), 2);
	CHECK_HAS(text_string(&stage.err), "which trace?");
	CHECK_EQ_I64(REPORT(&stage, "--jsn", "x"), 2);
	CHECK_HAS(text_string(&stage.err), "did you mean '--json'?");
	CHECK_EQ_I64(REPORT(&stage, "--limit", "many", "x"), 2);
	CHECK_EQ_I64(REPORT(&stage, "--by", "colour", "x"), 2);
	CHECK_EQ_I64(REPORT(&stage, "a", "b"), 2);
	CHECK_EQ_I64(REPORT(&stage, "--help"), 0);
	has(&stage, "--section");
	teardown(&stage);
}

static void closed_streams(void)
{
	struct stage stage;
	setup(&stage);
	write_trace(&stage, &ended, 1);
	int ends[2], kept = dup(STDOUT_FILENO);
	fflush(NULL);
	REQUIRE(kept >= 0 && pipe(ends) == 0);
	close(ends[0]);
	dup2(ends[1], STDOUT_FILENO);
	char *words[] = {stage.path, stage.path, NULL};
	int status = cmd_report(2, words);
	dup2(kept, STDOUT_FILENO);
	CHECK_EQ_I64(status, 0);
	int full = open("/dev/full", O_WRONLY);
	REQUIRE(full >= 0);
	dup2(full, STDOUT_FILENO);
	status = cmd_report(2, words);
	dup2(kept, STDOUT_FILENO);
	CHECK_EQ_I64(status, 1);
	teardown(&stage);
}

static void attached(void)
{
	struct stage stage;
	struct trace_meta about = meta;
	struct trace_end end = ended;
	setup(&stage);
	about.source = "attach";
	end.cause = TRACE_END_DETACHED;
	write_trace_of(&stage, &about, &end, 1);
	CHECK_EQ_I64(REPORT(&stage, stage.path), 0);
	has(&stage, "live         300 B in 1 block (live at detach)");
	has(&stage, "younger than 1 s  300 B  1  block");
	has(&stage, "freed older  0 frees of blocks older than the recording");
	has(&stage, "Sites by what was live at detach");
	has(&stage, "1 block live at detach");
	CHECK(!strstr(text_string(&stage.out), "unfreed"));
	CHECK_EQ_I64(REPORT(&stage, "--mode", "live", "--tree", stage.path), 0);
	has(&stage, "what was live at detach: 300 B");
	CHECK(!strstr(text_string(&stage.out), "unfreed"));
	/* Born 4999 us before the last event: in the first second. */
	CHECK_EQ_I64(REPORT(&stage, "--json", stage.path), 0);
	has(&stage, "\"below_ns\": 1000000000,\n      \"unfreed_allocations\": 1,\n      "
		    "\"unfreed_bytes\": 300");
	/* The program ended while we watched. */
	CHECK_EQ_I64(unlink(stage.path), 0);
	write_trace_of(&stage, &about, &ended, 1);
	CHECK_EQ_I64(REPORT(&stage, stage.path), 0);
	has(&stage, "(live at the end of the recording)");
	CHECK(!strstr(text_string(&stage.out), "unfreed"));
	teardown(&stage);
}

static const struct tap_case cases[] = {
	{.name = "an attached recording calls nothing unfreed", .run = attached},
	{.name = "the report for people has the right figures", .run = text},
	{.name = "the report for scripts has every promised key", .run = json},
	{.name = "every stack is printed with its figures", .run = stack_lines},
	{.name = "each image of a process can be shown", .run = sections},
	{.name = "the report says how the recording ended", .run = endings},
	{.name = "a trace cut off anywhere is shown or refused", .run = unfinished, .seconds = 120},
	{.name = "an empty heap is not shown as a success", .run = empty},
	{.name = "why a heap is empty is not made up", .run = empty_why},
	{.name = "what is no trace is refused with a sentence", .run = refused},
	{.name = "a wrong command line is said", .run = usage},
	{.name = "a closed pipe or a full disk is no crash", .run = closed_streams},
};
TAP_MAIN(cases)
