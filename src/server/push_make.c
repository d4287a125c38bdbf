/* SPDX-License-Identifier: Apache-2.0 */
#include "server/push_make.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "export/export.h"

static int gather(void *ctx, const void *data, size_t bytes)
{
	struct text *body = ctx;
	text_put_bytes(body, data, bytes);
	return text_error(body);
}

static int make_body(const struct shown_facts *facts, struct text *body, struct tm_error *err)
{
	const struct export_format *pprof = export_find("pprof");
	const struct view_mode *mode = view_mode_find("live");
	const struct export_input input = {
		.path = facts->path,
		.facts = &facts->input,
		.data = facts->data,
		.section = facts->section,
		.to_ns = query_duration_ns(facts->section),
		.end_event = UINT64_MAX,
		.mode = mode,
		.cost = mode->bytes,
	};
	struct outlet outlet;
	int code = outlet_open(&outlet, OUTLET_GZIP, gather, body);
	if (code)
		return tm_fail(err, code, "no memory for a profile");
	code = export_write(pprof, &input, &outlet, err);
	int closed = outlet_close(&outlet);
	return code ? code : closed;
}

/* Names come from the trace, and go into a line of HTTP. */
static void put_escaped(struct text *out, const char *value)
{
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;
		if (isalnum(c) || strchr("-._~", c))
			text_put_char(out, (char)c);
		else
			text_print(out, "%%%02X", c);
	}
}

struct word {
	const char *name;
	char value[256];
};

static void put_target(struct text *out, const char *target, const struct word *words, size_t count)
{
	while (*target) {
		size_t at = 0, bytes = strcspn(target, "}") + 1;
		while (at < count && (strlen(words[at].name) != bytes ||
				      strncmp(target, words[at].name, bytes) != 0))
			at++;
		if (*target == '{' && at < count) {
			put_escaped(out, words[at].value);
			target += bytes;
		} else {
			text_put_char(out, *target++);
		}
	}
}

int push_make(const struct shown_facts *facts, const char *target, uint64_t from_s,
	      uint64_t until_s, struct push_item *ret_item, struct tm_error *err)
{
	const struct trace_meta *meta = facts->input.meta;
	struct word words[] = {{.name = "{program}"},
			       {.name = "{pid}"},
			       {.name = "{host}"},
			       {.name = "{from}"},
			       {.name = "{until}"}};
	struct push_item item = {.bytes = 0};
	struct text body = {0}, line = {0};
	snprintf(words[0].value, sizeof words[0].value, "%s",
		 meta->program ? view_module_name(meta->program) : "");
	snprintf(words[1].value, sizeof words[1].value, "%" PRIu32, meta->pid);
	if (gethostname(words[2].value, sizeof words[2].value - 1))
		words[2].value[0] = '\0';
	snprintf(words[3].value, sizeof words[3].value, "%" PRIu64, from_s);
	snprintf(words[4].value, sizeof words[4].value, "%" PRIu64, until_s);
	put_target(&line, target, words, sizeof words / sizeof words[0]);
	int code = make_body(facts, &body, err);
	item.bytes = body.length;
	if (!code && (text_take(&line, &item.target) || text_take(&body, &item.body)))
		code = tm_fail(err, -ENOMEM, "no memory for a profile");
	text_done(&line);
	text_done(&body);
	if (code)
		push_item_done(&item);
	else
		*ret_item = item;
	return code;
}
