/* SPDX-License-Identifier: Apache-2.0 */
#include "views/suppress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/memory.h"
#include "symbols/constant.h"
#include "views/data.h"

enum { TEXT_MAX = 1 << 20, PATTERNS_MAX = 100000, NONE = 0 };

struct suppressions {
	struct suppression *list;
	size_t count, room;
	char **texts; /* what patterns and origins point into */
	size_t text_count, text_room;
	uint32_t *by_node; /* index + 1; NONE */
	size_t node_count;
};

/*
 * Blocks that the C library and the loader allocate for themselves and keep to
 * the end. Functions are named exactly where they could run the program's own
 * code: nothing of the program may be caught by these.
 */
static const char builtin[] = "# buffers of stdin, stdout, stderr and files left open\n"
			      "leak:^_IO_file_doallocate$\n"
			      "leak:^_IO_wfile_doallocate$\n"
			      "# thread-local storage and descriptors of threads that still run\n"
			      "leak:^_dl_allocate_tls\n"
			      "leak:^allocate_dtv$\n"
			      "# the loader's list of libraries\n"
			      "leak:^_dl_new_object$\n"
			      "leak:^_dl_map_object_deps$\n"
			      "leak:^_dl_check_map_versions$\n"
			      "# locales, message catalogues, conversions\n"
			      "leak:^setlocale$\n"
			      "leak:^newlocale$\n"
			      "leak:^_nl_\n"
			      "leak:^__gconv_\n"
			      "leak:^bindtextdomain$\n"
			      "leak:^textdomain$\n"
			      "# time zones\n"
			      "leak:^tzset$\n"
			      "leak:^tzset_internal$\n"
			      "leak:^__tzfile_read$\n"
			      "# name service\n"
			      "leak:^__nss_\n"
			      "leak:^nss_\n"
			      "# tables of exit handlers\n"
			      "leak:^__new_exitfn$\n"
			      "# the pool for exceptions when memory has run out\n"
			      "leak:_GLOBAL__sub_I_eh_alloc.cc\n";

const char *suppressions_builtin_text(void)
{
	return builtin;
}

int suppressions_new(struct suppressions **ret, struct tm_error *err)
{
	struct suppressions *s = tm_alloc(sizeof *s);
	if (!s)
		return tm_fail(err, -ENOMEM, "out of memory");
	*ret = s;
	return 0;
}

struct suppressions *suppressions_free(struct suppressions *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->text_count; i++)
		tm_free(s->texts[i]);
	tm_free(s->texts);
	tm_free(s->list);
	tm_free(s->by_node);
	return tm_free(s);
}

/* ---- matching ---- */

/* Where `part` (of `bytes` bytes) first is in text, or NULL. */
static const char *find_part(const char *text, const char *part, size_t bytes)
{
	for (; *text; text++)
		if (!strncmp(text, part, bytes))
			return text;
	return NULL;
}

/* Between two stars each piece may stand at its first place: what follows can only be later. */
bool suppressions_match(const char *pattern, const char *text)
{
	if (!text || !*text)
		return false;
	bool at_begin = *pattern == '^', star = false;
	pattern += at_begin;
	while (*pattern && *pattern != '$') {
		if (*pattern == '*') {
			at_begin = false;
			star = true;
			pattern++;
			continue;
		}
		size_t bytes = strcspn(pattern, "*$");
		size_t left = strlen(text);
		if (pattern[bytes] == '$' && !at_begin) /* the last piece: it is the end */
			return left >= bytes && !strncmp(text + left - bytes, pattern, bytes);
		const char *found = at_begin ? (strncmp(text, pattern, bytes) ? NULL : text)
					     : find_part(text, pattern, bytes);
		if (!found)
			return false;
		text = found + bytes;
		pattern += bytes;
		at_begin = star = false;
	}
	return *pattern != '$' || star || !*text;
}

/* ---- reading ---- */

static char *keep_text(struct suppressions *s, const char *text)
{
	if (s->text_count == s->text_room) {
		size_t room = s->text_room * 2 + 8;
		void *grown = tm_grow_array(s->texts, room, sizeof *s->texts);
		if (!grown)
			return NULL;
		s->texts = grown;
		s->text_room = room;
	}
	char *copy = tm_strdup(text);
	if (copy)
		s->texts[s->text_count++] = copy;
	return copy;
}

static int append(struct suppressions *s, const char *pattern, const char *origin, unsigned line)
{
	if (s->count == s->room) {
		size_t room = s->room * 2 + 32;
		void *grown = tm_grow_array(s->list, room, sizeof *s->list);
		if (!grown)
			return -ENOMEM;
		s->list = grown;
		s->room = room;
	}
	s->list[s->count++] =
		(struct suppression){.pattern = pattern, .origin = origin, .line = line};
	return 0;
}

static char *trim_line(char *line)
{
	line += strspn(line, " \t");
	size_t bytes = strlen(line);
	while (bytes && strchr(" \t\r", line[bytes - 1]))
		line[--bytes] = '\0';
	return line;
}

static int add_line(struct suppressions *s, char *line, const char *origin, unsigned number,
		    struct tm_error *err)
{
	static const char *const others[] = {
		"race:",     "thread:",          "mutex:",       "signal:",
		"deadlock:", "called_from_lib:", "interceptor_", "odr_violation:"};
	line = trim_line(line);
	if (!*line || *line == '#')
		return 0;
	if (!strncmp(line, "leak:", 5)) {
		if (!line[5])
			return tm_fail(err, -EINVAL,
				       "%.120s:%u: a pattern is missing after 'leak:'", origin,
				       number);
		if (s->count >= PATTERNS_MAX)
			return tm_fail(err, -E2BIG, "%.120s:%u: more than %d patterns", origin,
				       number, PATTERNS_MAX);
		return append(s, line + 5, origin, number) ? tm_fail(err, -ENOMEM, "out of memory")
							   : 0;
	}
	/* A file for several sanitizers: what is not about leaks is theirs. */
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (!strncmp(line, others[i], strlen(others[i])))
			return 0;
	return tm_fail(err, -EINVAL,
		       "%.120s:%u: '%.60s' is no suppression: a line is 'leak:PATTERN' or begins "
		       "with '#'",
		       origin, number, line);
}

int suppressions_add(struct suppressions *s, const char *text, const char *origin,
		     struct tm_error *err)
{
	size_t before = s->count;
	const char *kept_origin = keep_text(s, origin);
	char *at = kept_origin ? keep_text(s, text) : NULL;
	if (!at)
		return tm_fail(err, -ENOMEM, "out of memory");
	unsigned number = 1;
	int code = 0;
	while (at && !code) {
		char *line = at;
		at = strchr(line, '\n');
		if (at)
			*at++ = '\0';
		code = add_line(s, line, kept_origin, number++, err);
	}
	if (code)
		s->count = before;
	return code;
}

int suppressions_add_file(struct suppressions *s, const char *path, struct tm_error *err)
{
	struct text text = {0};
	int code = io_read_file(path, TEXT_MAX, &text);
	if (!code)
		code = text_error(&text);
	if (code)
		tm_fail(err, code, "the suppressions '%s' cannot be read: %s", path,
			code == -EFBIG ? "more than 1 MiB" : strerror(-code));
	else if (text.length != strlen(text_string(&text)))
		code = tm_fail(err, -EINVAL, "'%s' is no text: it has a NUL", path);
	else
		code = suppressions_add(s, text_string(&text), path, err);
	text_done(&text);
	return code;
}

int suppressions_add_builtin(struct suppressions *s, struct tm_error *err)
{
	return suppressions_add(s, builtin, "built in", err);
}

static const struct trace_module *main_module(const struct view_input *input)
{
	const char *program = input->meta->program;
	for (size_t id = 1; program && id < input->module_count; id++)
		if (input->modules[id].path && !strcmp(input->modules[id].path, program))
			return &input->modules[id];
	return NULL;
}

/* What an imported file carries; a line that makes no sense costs only itself. */
static int add_carried(struct suppressions *s, const char *lines, struct tm_error *err)
{
	struct tm_error why;
	int code = 0;
	while (lines && *lines && code != -ENOMEM) {
		size_t length = strcspn(lines, "\n");
		struct text line = {0};
		text_put_bytes(&line, lines, length);
		code = text_error(&line);
		if (!code)
			code = suppressions_add(s, text_string(&line), "the imported file", &why);
		text_done(&line);
		lines += length + (lines[length] != 0);
	}
	return code == -ENOMEM ? tm_fail(err, code, "out of memory") : 0;
}

int suppressions_add_program(struct suppressions *s, const struct view_input *input, char *ret_note,
			     size_t note_bytes, struct tm_error *err)
{
	const struct trace_module *module = main_module(input);
	struct text text = {0};
	struct tm_error why = {0};
	*ret_note = '\0';
	/* Nothing says that a program here is the one that another tool recorded. */
	if (input->meta && input->meta->origin && input->meta->origin[0])
		return add_carried(s, input->end ? input->end->suppressions : NULL, err);
	if (!module)
		return 0;
	int code = constant_string(module->path, module->build_id, module->build_id_bytes,
				   "__lsan_default_suppressions", &text, &why);
	if (code == -ENOMEM)
		tm_fail(err, code, "out of memory");
	else if (!code)
		code = suppressions_add(s, text_string(&text), "the program", &why);
	if (code && code != -ENOMEM) {
		/* No file, another build, or no such function: nothing to say. */
		if (code == -EOPNOTSUPP || code == -EINVAL)
			snprintf(ret_note, note_bytes,
				 "the program's own suppressions were not read: %s", why.text);
		code = 0;
	}
	text_done(&text);
	return code;
}

/* ---- applying ---- */

static uint32_t match_frame(const struct suppressions *s, const struct view_frame *frame)
{
	for (size_t i = 0; i < s->count; i++) {
		const char *pattern = s->list[i].pattern;
		if (suppressions_match(pattern, frame->function) ||
		    suppressions_match(pattern, frame->file) ||
		    suppressions_match(pattern, frame->module))
			return (uint32_t)i + 1;
	}
	return NONE;
}

static void count_rows(struct suppressions *s, struct view_data *data)
{
	for (size_t i = 0; i < s->count; i++)
		s->list[i].stacks = s->list[i].blocks = s->list[i].bytes = 0;
	for (size_t i = 0; i < data->row_count; i++) {
		struct view_stack_row *row = &data->rows[i];
		uint32_t found = s->by_node[row->stack];
		row->suppressed_blocks = found ? row->figures.of[VIEW_UNFREED_BLOCKS] : 0;
		row->suppressed_bytes = found ? row->figures.of[VIEW_UNFREED_BYTES] : 0;
		if (!row->suppressed_blocks)
			continue;
		s->list[found - 1].stacks++;
		s->list[found - 1].blocks += row->figures.of[VIEW_UNFREED_BLOCKS];
		s->list[found - 1].bytes += row->figures.of[VIEW_UNFREED_BYTES];
	}
}

int suppressions_apply(struct suppressions *s, struct view_data *data, struct tm_error *err)
{
	const struct names *names = &data->names;
	uint32_t *by_frame = tm_alloc_array(names->frame_count + 1, sizeof *by_frame);
	uint32_t *by_node = tm_alloc_array(names->node_count + 1, sizeof *by_node);
	if (!by_frame || !by_node) {
		tm_free(by_frame);
		tm_free(by_node);
		return tm_fail(err, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < names->frame_count; i++)
		by_frame[i] = match_frame(s, &names->frames[i]);
	/* A node's parent has a smaller number. */
	for (size_t i = 1; i < names->node_count; i++) {
		uint32_t own = by_frame[names->nodes[i].frame];
		by_node[i] = own ? own : by_node[names->nodes[i].parent];
	}
	tm_free(by_frame);
	tm_free(s->by_node);
	s->by_node = by_node;
	s->node_count = names->node_count;
	count_rows(s, data);
	return 0;
}

const struct suppression *suppressions_find(const struct suppressions *s, uint32_t stack)
{
	if (!s || stack >= s->node_count || !s->by_node[stack])
		return NULL;
	return &s->list[s->by_node[stack] - 1];
}

void suppressions_hide(struct view_data *data)
{
	for (size_t i = 0; i < data->row_count; i++) {
		struct view_stack_row *row = &data->rows[i];
		row->figures.of[VIEW_UNFREED_BLOCKS] -= row->suppressed_blocks;
		row->figures.of[VIEW_UNFREED_BYTES] -= row->suppressed_bytes;
	}
}

void suppressions_show(struct view_data *data)
{
	for (size_t i = 0; i < data->row_count; i++) {
		struct view_stack_row *row = &data->rows[i];
		row->figures.of[VIEW_UNFREED_BLOCKS] += row->suppressed_blocks;
		row->figures.of[VIEW_UNFREED_BYTES] += row->suppressed_bytes;
	}
}

size_t suppressions_count(const struct suppressions *s)
{
	return s ? s->count : 0;
}

const struct suppression *suppressions_at(const struct suppressions *s, size_t index)
{
	return &s->list[index];
}

struct suppression suppressions_sum(const struct suppressions *s)
{
	struct suppression sum = {.pattern = "", .origin = ""};
	for (size_t i = 0; i < suppressions_count(s); i++) {
		sum.stacks += s->list[i].stacks;
		sum.blocks += s->list[i].blocks;
		sum.bytes += s->list[i].bytes;
	}
	return sum;
}
