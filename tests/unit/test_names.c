/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the process that looks up names: what is good is written, nonsense is not believed. */
#include "collector/names.h"

#include "base/memory.h"
#include "collector/names_wire.h"
#include "harness/tap.h"
#include "symbols/symbols.h"
#include "trace_fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct bench {
	int other; /* the namer's end */
	struct feed *feed;
	struct names *names;
	struct trace_writer *writer;
	char path[256];
};

static void open_bench(struct bench *b)
{
	int ends[2];
	struct trace_writer_options options = {0};
	b->feed = tm_alloc(sizeof *b->feed);
	REQUIRE(b->feed);
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	modules_seen_init(&b->feed->modules);
	REQUIRE(!stack_ids_init(&b->feed->stacks));
	REQUIRE(!names_new(ends[0], b->feed, NULL, &b->names));
	b->other = ends[1];
	REQUIRE(!trace_writer_open(fixture_file("names", b->path), &options, &b->writer, NULL));
	fixture_begin(b->writer, false);
	names_begin(b->names, trace_writer_section(b->writer));
}

/* How many symbols came into the file. */
static size_t close_bench(struct bench *b)
{
	const struct trace_symbol *symbols;
	struct trace_end end = fixture_end();
	struct trace_reader *r = NULL;
	size_t count = 0;
	names_free(b->names);
	close(b->other);
	CHECK(!trace_writer_end(b->writer, &end));
	CHECK(!trace_writer_close(b->writer, NULL));
	REQUIRE(!trace_reader_open(b->path, &r, NULL));
	REQUIRE(!trace_reader_symbols(r, &symbols, &count, NULL));
	trace_reader_close(r);
	unlink(b->path);
	stack_ids_done(&b->feed->stacks);
	modules_seen_done(&b->feed->modules);
	tm_free(b->feed);
	return count;
}

static void say(const struct bench *b, const void *message, size_t bytes)
{
	REQUIRE(send(b->other, message, bytes, MSG_DONTWAIT) == (ssize_t)bytes);
	names_tick(b->names, b->writer);
}

/* One symbol with the texts "f" and "/x", as the worker sends it. */
static size_t good_message(char out[256])
{
	struct names_head head = {.kind = NAMES_SYMBOLS, .count = 1};
	struct names_symbol symbol = {.address = 0x10,
				      .module_id = 1,
				      .line = 3,
				      .function_bytes = 2,
				      .file_bytes = 3,
				      .source = TRACE_SYM_DWARF};
	memcpy(out, &head, sizeof head);
	memcpy(out + sizeof head, &symbol, sizeof symbol);
	memcpy(out + sizeof head + sizeof symbol, "f\0/x", 5);
	return sizeof head + sizeof symbol + 5;
}

static void answers(void)
{
	struct bench b;
	char message[256];
	struct names_head end = {.kind = NAMES_END};
	open_bench(&b);
	say(&b, message, good_message(message));
	CHECK(!names_complete(b.names));
	say(&b, &end, sizeof end);
	CHECK(names_complete(b.names));
	CHECK_EQ_U64(close_bench(&b), 1);
}

/* Each byte of a good message changed, and the message cut at each length. */
static void nonsense(void)
{
	struct bench b;
	char message[256], changed[256];
	size_t bytes = good_message(message);
	open_bench(&b);
	for (size_t i = sizeof(struct names_head); i < bytes; i++)
		for (int value = 0; value < 256; value += 51) {
			memcpy(changed, message, bytes);
			changed[i] = (char)value;
			say(&b, changed, bytes);
		}
	for (size_t cut = sizeof(struct names_head); cut < bytes; cut++)
		say(&b, message, cut);
	struct names_head lies = {.kind = NAMES_SYMBOLS, .count = UINT32_MAX};
	memcpy(changed, message, bytes);
	memcpy(changed, &lies, sizeof lies);
	say(&b, changed, bytes);
	lies.kind = NAMES_SOURCES;
	memcpy(changed, &lies, sizeof lies);
	say(&b, changed, bytes);
	lies.kind = 4711;
	memcpy(changed, &lies, sizeof lies);
	say(&b, changed, bytes);
	size_t count = close_bench(&b);
	CHECK(count > 0);
}

static bool never(void *ctx, uint64_t waited_ns)
{
	(void)ctx;
	return waited_ns > 20000000000ull;
}

/* A namer that dies is not waited for. */
static void gone(void)
{
	struct bench b;
	open_bench(&b);
	shutdown(b.other, SHUT_RDWR);
	names_finish(b.names, b.writer, never, NULL);
	CHECK(!names_complete(b.names));
	CHECK_EQ_U64(close_bench(&b), 0);
}

/* All addresses are asked for once, whatever the socket takes at a time. */
static void questions(void)
{
	struct bench b;
	enum { STACKS = 30000 };
	static char in[NAMES_MESSAGE_MAX];
	open_bench(&b);
	for (uint64_t i = 1; i <= STACKS; i++) {
		uint32_t id;
		struct trace_stack row = {.pc = i * 16};
		REQUIRE(!stack_ids_add(&b.feed->stacks, &row, &id));
	}
	uint8_t *seen = calloc(STACKS + 1, 1);
	REQUIRE(seen);
	bool ended = false;
	names_end(b.names);
	while (!ended) {
		names_tick(b.names, b.writer);
		ssize_t got = recv(b.other, in, sizeof in, MSG_DONTWAIT);
		if (got < 0)
			continue;
		struct names_head head;
		memcpy(&head, in, sizeof head);
		ended = head.kind == NAMES_END;
		for (uint32_t i = 0; head.kind == NAMES_REQUESTS && i < head.count; i++) {
			struct names_request request;
			memcpy(&request, in + sizeof head + i * sizeof request, sizeof request);
			seen[(request.address + 1) / 16]++;
		}
	}
	size_t once = 0;
	for (size_t i = 1; i <= STACKS; i++)
		once += seen[i] == 1;
	CHECK_EQ_U64(once, STACKS);
	free(seen);
	CHECK_EQ_U64(close_bench(&b), 0);
}

static bool waits_for_ever(void *ctx, uint64_t waited_ns)
{
	(void)ctx;
	(void)waited_ns;
	return false;
}

static void no_memory(void)
{
	struct bench b;
	open_bench(&b);
	uint32_t count = b.feed->modules.count;
	b.feed->modules.count = count + 1;
	b.feed->modules.changes++;
	trace_writer_flush(b.writer); /* its thread allocates, too */
	tm_alloc_fail_at(0);
	names_finish(b.names, b.writer, waits_for_ever, NULL);
	tm_alloc_fail_at(-1);
	b.feed->modules.count = count;
	CHECK(!names_complete(b.names));
	CHECK_EQ_U64(close_bench(&b), 0);
}

static const struct tap_case cases[] = {
	{.name = "names that were found are in the trace", .run = answers},
	{.name = "nonsense from a hostile file's reader is not believed", .run = nonsense},
	{.name = "the end does not wait for a namer that died", .run = gone},
	{.name = "a recorder without memory never ends", .run = no_memory},
	{.name = "every address is asked for once", .run = questions},
};
TAP_MAIN(cases)
