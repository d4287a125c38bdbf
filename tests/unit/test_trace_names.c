/* SPDX-License-Identifier: Apache-2.0 */
/* Names that come late, source lines, and names that are replaced in a trace that is there. */
#include "trace/trace.h"

#include "base/memory.h"
#include "harness/tap.h"
#include "trace_section.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 5000 };

static const struct trace_symbol first_name = {
	.module_id = 1, .address = 0x1000, .function = "early", .source = TRACE_SYM_SYMTAB};
static const struct trace_symbol late_name = {.module_id = 2,
					      .address = 0x2000,
					      .function = "late",
					      .file = "/late.c",
					      .line = 3,
					      .source = TRACE_SYM_DWARF};
static const struct trace_source_line source_lines[] = {
	{.file = "/late.c", .line = 3, .text = "\tlate(\"\xff\");"},
	{.file = "/a.c", .line = 9, .text = ""},
};

static void check_one(struct trace_reader *r, size_t section, const char *function)
{
	const struct trace_symbol *symbols = NULL;
	size_t count = 0;
	REQUIRE(!trace_reader_select(r, section, NULL));
	REQUIRE(!trace_reader_symbols(r, &symbols, &count, NULL));
	CHECK_EQ_U64(count, 1);
	if (count)
		CHECK_STR(symbols[0].function, function);
}

static void check_sources(struct trace_reader *r, size_t section)
{
	const struct trace_source_line *lines = NULL;
	size_t count = 0;
	REQUIRE(!trace_reader_select(r, section, NULL));
	REQUIRE(!trace_reader_sources(r, &lines, &count, NULL));
	REQUIRE(count == 2);
	CHECK_STR(lines[0].file, "/a.c");
	CHECK_EQ_U64(lines[0].line, 9);
	CHECK_STR(lines[0].text, "");
	CHECK_STR(lines[1].file, "/late.c");
	CHECK_STR(lines[1].text, "\tlate(\"\xff\");");
}

/* Two sections; the first one's names come when the second is written, and after all. */
static void late(void)
{
	char path[256];
	struct trace_end end = fixture_end();
	struct trace_writer *w =
		section_open_writer("late", path, (struct trace_writer_options){0});
	fixture_begin(w, false);
	CHECK_EQ_U64(trace_writer_section(w), 0);
	CHECK_EQ_I64(trace_writer_end(w, &end), 0);
	fixture_begin(w, false);
	CHECK_EQ_I64(trace_writer_late_symbols(w, 0, &late_name, 1), 0);
	CHECK_EQ_I64(trace_writer_symbols(w, &first_name, 1), 0);
	CHECK_EQ_I64(trace_writer_end(w, &end), 0);
	CHECK_EQ_I64(trace_writer_late_sources(w, 0, source_lines, 2), 0);
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
	struct trace_reader *r = section_open_reader(path);
	CHECK_EQ_U64(trace_reader_section_count(r), 2);
	check_one(r, 0, "late");
	check_sources(r, 0);
	check_one(r, 1, "early");
	trace_reader_close(r);
	unlink(path);
	w = section_open_writer("wrong", path, (struct trace_writer_options){0});
	fixture_begin(w, false);
	CHECK_EQ_I64(trace_writer_late_symbols(w, 1, &late_name, 1), -EINVAL);
	trace_writer_close(w, NULL);
	unlink(path);
}

/* Writes on, ticking, until it is killed. */
static _Noreturn void write_until_killed(const char *path, const struct trace_event *events)
{
	struct trace_writer *w = NULL;
	struct trace_writer_options options = {.addresses = true};
	int fd = open(path, O_RDWR | O_CLOEXEC | O_TRUNC);
	REQUIRE(!trace_writer_open(fd, &options, &w, NULL));
	section_write(w, events, EVENTS, false);
	trace_writer_symbols(w, &first_name, 1);
	for (;;) {
		trace_writer_tick(w);
		usleep(1000);
	}
}

/* Are all events in the file? */
static bool is_written(const char *path, const struct trace_event *events)
{
	struct trace_reader *r = NULL;
	if (trace_reader_open(path, &r, NULL))
		return false;
	uint64_t found = 0;
	for (size_t i = 0; i < trace_reader_event_block_count(r); i++) {
		struct trace_event_block block;
		found += trace_reader_event_block(r, i, &block) ? 0 : block.event_count;
	}
	bool all = found == EVENTS && fixture_compare(r, events, EVENTS, true) == EVENTS;
	trace_reader_close(r);
	return all;
}

/* A trace of one section; unfinished as after a kill if so wanted. */
static void make_trace(const char *name, char path[256], const struct trace_event *events,
		       bool finished)
{
	char folder[] = "/tmp/tidemark-names-XXXXXX";
	REQUIRE(mkdtemp(folder));
	setenv("TMPDIR", folder, 1);
	if (finished) {
		struct trace_writer *w = section_open_writer(
			name, path, (struct trace_writer_options){.addresses = true});
		section_write(w, events, EVENTS, false);
		CHECK_EQ_I64(trace_writer_symbols(w, &first_name, 1), 0);
		section_end_and_close(w);
		return;
	}
	close(fixture_file(name, path));
	pid_t child = fork();
	if (child == 0)
		write_until_killed(path, events);
	while (!is_written(path, events))
		usleep(1000);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* After a case, its folder goes. */
static void clean(const char *path)
{
	unlink(path);
	CHECK(rmdir(getenv("TMPDIR")) == 0);
}

static size_t files_in(const char *path)
{
	char folder[256];
	snprintf(folder, sizeof folder, "%s", path);
	*strrchr(folder, '/') = '\0';
	size_t count = 0;
	DIR *dir = opendir(folder);
	REQUIRE(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void replace(bool finished)
{
	char path[256];
	struct fixture *f = tm_alloc(sizeof *f);
	REQUIRE(f);
	fixture_init(f, 7);
	struct trace_event *events = section_make_events(f, EVENTS);
	make_trace(finished ? "finished" : "unfinished", path, events, finished);
	chmod(path, 0640);
	struct trace_reader *before = section_open_reader(path);
	size_t files = files_in(path);
	struct trace_rewrite *w = NULL;
	struct tm_error err = {0};
	if (!CHECK(!trace_rewrite_open(path, &w, &err)))
		tap_note("%s", err.text);
	REQUIRE(w);
	CHECK(!trace_rewrite_symbols(w, 0, &late_name, 1, &err));
	CHECK(!trace_rewrite_sources(w, 0, source_lines, 2, &err));
	CHECK(!trace_rewrite_close(w, &err));
	CHECK_EQ_U64(files_in(path), files);
	struct stat facts;
	CHECK(stat(path, &facts) == 0 && (facts.st_mode & 0777) == 0640);
	/* Who had it open reads on. */
	CHECK_EQ_U64(fixture_compare(before, events, EVENTS, true), EVENTS);
	trace_reader_close(before);
	struct trace_reader *r = section_open_reader(path);
	CHECK(trace_reader_complete(r) == finished);
	check_one(r, 0, "late");
	check_sources(r, 0);
	CHECK_EQ_U64(fixture_compare(r, events, EVENTS, true), EVENTS);
	if (finished)
		CHECK(!trace_reader_warning(r));
	trace_reader_close(r);
	clean(path);
	tm_free(events);
	tm_free(f);
}

static void replace_finished(void)
{
	replace(true);
}

static void replace_unfinished(void)
{
	replace(false);
}

static void cancelled(void)
{
	char path[256];
	struct fixture *f = tm_alloc(sizeof *f);
	REQUIRE(f);
	fixture_init(f, 7);
	struct trace_event *events = section_make_events(f, EVENTS);
	make_trace("cancelled", path, events, true);
	size_t files = files_in(path);
	struct trace_rewrite *w = NULL;
	REQUIRE(!trace_rewrite_open(path, &w, NULL));
	CHECK(!trace_rewrite_symbols(w, 0, &late_name, 1, NULL));
	trace_rewrite_cancel(w);
	CHECK_EQ_U64(files_in(path), files);
	for (long n = 0; n < 40; n++) {
		tm_alloc_fail_at(n);
		int code = trace_rewrite_open(path, &w, NULL);
		tm_alloc_fail_at(-1);
		CHECK(code == 0 || code == -ENOMEM);
		if (!code)
			trace_rewrite_cancel(w);
	}
	CHECK_EQ_U64(files_in(path), files);
	struct trace_reader *r = section_open_reader(path);
	CHECK_EQ_U64(fixture_compare(r, events, EVENTS, true), EVENTS);
	trace_reader_close(r);
	clean(path);
	CHECK_EQ_I64(trace_rewrite_open("/nonexistent/x.tide", &w, NULL), -ENOENT);
	tm_free(events);
	tm_free(f);
}

static const struct tap_case cases[] = {
	{.name = "names of an image that was replaced by exec are found", .run = late},
	{.name = "names of a finished trace are replaced at one stroke", .run = replace_finished},
	{.name = "names of a trace without an end are replaced", .run = replace_unfinished},
	{.name = "a rewrite that fails leaves the trace as it was", .run = cancelled},
};
TAP_MAIN(cases)
