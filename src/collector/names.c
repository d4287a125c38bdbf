/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/names.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/names_wire.h"
#include "symbols/symbols.h"
#include "trace/labels.h"

enum {
	SENT_PER_TICK = 8,   /* messages */
	TAKEN_PER_TICK = 16, /* so that a tick stays short: the target may wait for us */
	POLL_MS = 100,
	/* as many as one message can have */
	SYMBOLS_MAX = NAMES_MESSAGE_MAX / sizeof(struct names_symbol),
	LINES_MAX = NAMES_MESSAGE_MAX / sizeof(struct names_line),
};

struct names {
	int fd; /* -1: the namer is gone, or has said all */
	const struct feed *feed;
	struct unnamed *unnamed; /* NULL: nobody wants to know */
	uint32_t section;
	bool ending, end_sent, complete;
	uint32_t next_stack;     /* the first whose address was not sent */
	uint8_t *module_sent;    /* by id */
	uint32_t module_room;    /* entries in it */
	uint32_t module_changes; /* of the list, when it was looked through last */
	unsigned warnings;
	char first_warning[512];
	char message[NAMES_MESSAGE_MAX];
	union {
		struct trace_symbol symbols[SYMBOLS_MAX];
		struct trace_source_line lines[LINES_MAX];
	} rows; /* of the message; texts point into it */
};

int names_new(int fd, const struct feed *feed, struct unnamed *unnamed, struct names **ret_names)
{
	struct names *names = tm_alloc(sizeof *names);
	if (!names) {
		close(fd);
		return -ENOMEM;
	}
	names->fd = fd;
	names->feed = feed;
	names->unnamed = unnamed;
	names->next_stack = 1;
	*ret_names = names;
	return 0;
}

static void hang_up(struct names *names)
{
	if (names->fd >= 0)
		close(names->fd);
	names->fd = -1;
}

struct names *names_free(struct names *names)
{
	if (!names)
		return NULL;
	hang_up(names);
	tm_free(names->module_sent);
	return tm_free(names);
}

void names_begin(struct names *names, uint32_t section)
{
	names->section = section;
}

/* ---- questions ---- */

/* False: not now, or never. */
static bool send_bytes(struct names *names, size_t bytes)
{
	ssize_t sent = send(names->fd, names->message, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
		hang_up(names);
	return sent >= 0;
}

static bool send_module(struct names *names, const struct trace_module *row)
{
	struct names_module out = {
		.head = {.kind = NAMES_MODULE, .count = 1},
		.module_id = row->module_id,
		.bias = row->bias,
		.start = row->start,
		.end = row->end,
		.build_id_bytes = row->build_id_bytes,
	};
	size_t path_bytes = strlen(row->path) + 1;
	if (sizeof out + path_bytes > sizeof names->message)
		return true;
	memcpy(out.build_id, row->build_id, sizeof out.build_id);
	memcpy(names->message, &out, sizeof out);
	memcpy(names->message + sizeof out, row->path, path_bytes);
	return send_bytes(names, sizeof out + path_bytes);
}

static bool cover_modules(struct names *names, uint32_t count)
{
	if (count <= names->module_room)
		return true;
	uint8_t *grown = tm_grow_array(names->module_sent, count * 2, 1);
	if (!grown)
		return false;
	memset(grown + names->module_room, 0, count * 2 - names->module_room);
	names->module_sent = grown;
	names->module_room = count * 2;
	return true;
}

/* True when all that are known have been sent. */
static bool send_modules(struct names *names)
{
	const struct modules_seen *modules = &names->feed->modules;
	if (names->module_changes == modules->changes)
		return true;
	if (!cover_modules(names, modules->count)) {
		hang_up(names); /* there will be no memory the next time either */
		return false;
	}
	for (uint32_t id = 1; id < modules->count; id++) {
		/* An id may be there before its facts. */
		if (names->module_sent[id] || !modules->rows[id].end)
			continue;
		if (!send_module(names, &modules->rows[id]))
			return false;
		names->module_sent[id] = 1;
	}
	names->module_changes = modules->changes;
	return true;
}

/* A heap's or a tag's name: no code. */
static bool is_label(const struct names *names, uint32_t module_id)
{
	const struct modules_seen *modules = &names->feed->modules;
	return module_id && module_id < modules->count &&
	       trace_label_of(modules->rows[module_id].path, NULL) != TRACE_LABEL_NONE;
}

/* One message's worth of new addresses. False: the namer takes no more now. */
static bool send_stacks(struct names *names)
{
	const struct stack_ids *stacks = &names->feed->stacks;
	uint64_t now_ns = names->feed->clock.origin_ns + names->feed->last_ns;
	struct names_head head = {.kind = NAMES_REQUESTS};
	uint32_t next = names->next_stack;
	char *at = names->message + sizeof head;
	for (; next < stacks->count && head.count < NAMES_REQUESTS_MAX; next++) {
		const struct trace_stack *row = &stacks->rows[next];
		if (row->module_id == TRACE_MODULE_MARK || is_label(names, row->module_id))
			continue;
		struct names_request request = {.address = symbols_lookup_address(row->pc),
						.time_ns = now_ns,
						.module_id = row->module_id};
		memcpy(at, &request, sizeof request);
		at += sizeof request;
		head.count++;
	}
	memcpy(names->message, &head, sizeof head);
	if (head.count && !send_bytes(names, (size_t)(at - names->message)))
		return false;
	names->next_stack = next;
	return true;
}

static bool all_asked(const struct names *names)
{
	return names->next_stack >= names->feed->stacks.count;
}

static void ask(struct names *names)
{
	if (names->end_sent || !send_modules(names))
		return;
	for (int i = 0; i < SENT_PER_TICK && !all_asked(names); i++)
		if (!send_stacks(names))
			return;
	if (names->ending && all_asked(names) && names->fd >= 0) {
		struct names_head head = {.kind = NAMES_END};
		memcpy(names->message, &head, sizeof head);
		names->end_sent = send_bytes(names, sizeof head);
	}
}

/* ---- answers ---- */

/* A text of so many bytes with its end; NULL and *bad if it is none. */
static const char *take_text(const char **at, const char *end, uint32_t bytes, bool *bad)
{
	const char *text = *at;
	if (!bytes)
		return NULL;
	if (bytes > (size_t)(end - text) || text[bytes - 1] != '\0') {
		*bad = true;
		return NULL;
	}
	*at += bytes;
	return text;
}

static void take_symbols(struct names *names, struct trace_writer *writer, uint32_t count,
			 const char *at, const char *end)
{
	struct trace_symbol *symbols = names->rows.symbols;
	size_t used = 0;
	bool bad = false;
	for (uint32_t i = 0; i < count && !bad && used < SYMBOLS_MAX; i++) {
		struct names_symbol in;
		if ((size_t)(end - at) < sizeof in)
			break;
		memcpy(&in, at, sizeof in);
		at += sizeof in;
		struct trace_symbol symbol = {
			.module_id = in.module_id,
			.address = in.address,
			.line = in.line,
			.column = in.column,
			.inlined =
				in.inlined <= TRACE_INLINED_CALLEE ? in.inlined : TRACE_INLINED_NO,
			.source = in.source <= TRACE_SYM_JIT ? in.source : TRACE_SYM_NONE,
		};
		symbol.function = take_text(&at, end, in.function_bytes, &bad);
		symbol.file = take_text(&at, end, in.file_bytes, &bad);
		if (!bad)
			symbols[used++] = symbol;
	}
	trace_writer_late_symbols(writer, names->section, symbols, used);
	for (size_t i = 0; names->unnamed && i < used; i++)
		unnamed_symbol(names->unnamed, &names->feed->modules, &symbols[i]);
}

static void take_lines(struct names *names, struct trace_writer *writer, uint32_t count,
		       const char *at, const char *end)
{
	struct trace_source_line *lines = names->rows.lines;
	size_t used = 0;
	bool bad = false;
	for (uint32_t i = 0; i < count && !bad && used < LINES_MAX; i++) {
		struct names_line in;
		if ((size_t)(end - at) < sizeof in)
			break;
		memcpy(&in, at, sizeof in);
		at += sizeof in;
		struct trace_source_line line = {.line = in.line};
		line.file = take_text(&at, end, in.file_bytes, &bad);
		line.text = take_text(&at, end, in.text_bytes, &bad);
		if (!bad && line.file && line.text)
			lines[used++] = line;
	}
	trace_writer_late_sources(writer, names->section, lines, used);
}

static void take_warning(struct names *names, const char *at, const char *end)
{
	if (at == end || end[-1] != '\0')
		return;
	if (!names->warnings++)
		strncpy(names->first_warning, at, sizeof names->first_warning - 1);
}

static void take_message(struct names *names, struct trace_writer *writer, size_t bytes)
{
	struct names_head head;
	const char *at = names->message + sizeof head, *end = names->message + bytes;
	memcpy(&head, names->message, sizeof head);
	switch ((enum names_kind)head.kind) {
	case NAMES_SYMBOLS:
		take_symbols(names, writer, head.count, at, end);
		break;
	case NAMES_SOURCES:
		take_lines(names, writer, head.count, at, end);
		break;
	case NAMES_WARNING:
		take_warning(names, at, end);
		break;
	case NAMES_END:
		names->complete = true;
		hang_up(names);
		break;
	case NAMES_MODULE:
	case NAMES_REQUESTS:
	case NAMES_STREAM:
		break;
	}
}

static void take_answers(struct names *names, struct trace_writer *writer)
{
	for (int i = 0; i < TAKEN_PER_TICK && names->fd >= 0; i++) {
		ssize_t got = recv(names->fd, names->message, sizeof names->message, MSG_DONTWAIT);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got < (ssize_t)sizeof(struct names_head))
			hang_up(names);
		else
			take_message(names, writer, (size_t)got);
	}
}

void names_tick(struct names *names, struct trace_writer *writer)
{
	if (names->fd >= 0)
		take_answers(names, writer);
	if (names->fd >= 0)
		ask(names);
}

void names_modules(struct names *names)
{
	if (names->fd >= 0)
		send_modules(names);
}

void names_end(struct names *names)
{
	names->ending = true;
}

void names_finish(struct names *names, struct trace_writer *writer, names_waiting_fn waiting,
		  void *ctx)
{
	uint64_t start_ns = clock_steady_ns();
	names_end(names);
	for (;;) {
		names_tick(names, writer);
		if (names->fd < 0 || waiting(ctx, clock_steady_ns() - start_ns))
			break;
		struct pollfd wait = {.fd = names->fd, .events = POLLIN};
		if (!names->end_sent)
			wait.events |= POLLOUT;
		poll(&wait, 1, POLL_MS);
	}
	hang_up(names);
}

unsigned names_warnings(const struct names *names, const char **ret_first)
{
	*ret_first = names->first_warning;
	return names->warnings;
}

bool names_complete(const struct names *names)
{
	return names->complete;
}
