/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules in order, indexed by the first byte of the function's name, so that a
 * frame is held against a few of them only.
 */
#include "symbols/kinds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/memory.h"
#include "symbols/cxxname.h"
#include "symbols/kinds_builtin.h"
#include "symbols/kinds_rules.h"
#include "symbols/packages.h"
#include "symbols/strpool.h"

enum { SETS_MAX = 8, FIRST_BYTES = 256 };

struct kinds {
	struct strpool *packages;
	struct rules sets[SETS_MAX]; /* the last one read comes first */
	size_t set_count;
	/* All rules in order by the first byte that a function must have; made on first use. */
	const struct rules_rule **by_first[FIRST_BYTES];
	size_t by_first_count[FIRST_BYTES];
	bool indexed;
};

static const char *const names[KIND_COUNT] = {
	[KIND_UNKNOWN] = "unknown", [KIND_APPLICATION] = "application",
	[KIND_LIBRARY] = "library", [KIND_STANDARD] = "standard",
	[KIND_RUNTIME] = "runtime", [KIND_ALLOCATOR] = "allocator",
};

const char *kinds_name(enum frame_kind kind)
{
	return (unsigned)kind < KIND_COUNT ? names[kind] : names[KIND_UNKNOWN];
}

enum frame_kind kinds_find(const char *name, size_t bytes)
{
	for (unsigned kind = KIND_UNKNOWN + 1; kind < KIND_COUNT; kind++)
		if (strlen(names[kind]) == bytes && !memcmp(names[kind], name, bytes))
			return (enum frame_kind)kind;
	return KIND_UNKNOWN;
}

int kinds_new(struct kinds **ret_kinds, struct tm_error *err)
{
	struct kinds *kinds = tm_alloc(sizeof *kinds);
	if (!kinds)
		return tm_fail(err, -ENOMEM, "out of memory");
	kinds->packages = strpool_new();
	int code = kinds->packages ? 0 : tm_fail(err, -ENOMEM, "out of memory");
	if (!code)
		code = kinds_read(kinds, "kinds.rules", kinds_builtin, kinds_builtin_bytes, err);
	if (code)
		kinds_free(kinds);
	else
		*ret_kinds = kinds;
	return code;
}

static void forget_index(struct kinds *kinds)
{
	for (unsigned i = 0; i < FIRST_BYTES; i++) {
		kinds->by_first[i] = tm_free((void *)kinds->by_first[i]);
		kinds->by_first_count[i] = 0;
	}
	kinds->indexed = false;
}

struct kinds *kinds_free(struct kinds *kinds)
{
	if (!kinds)
		return NULL;
	forget_index(kinds);
	for (size_t i = 0; i < kinds->set_count; i++)
		rules_done(&kinds->sets[i]);
	strpool_free(kinds->packages);
	return tm_free(kinds);
}

int kinds_read(struct kinds *kinds, const char *name, const char *rules, size_t bytes,
	       struct tm_error *err)
{
	if (kinds->set_count == SETS_MAX)
		return tm_fail(err, -EFBIG, "'%s': there are %d files of rules already", name,
			       SETS_MAX - 1);
	int code = rules_parse(name, rules, bytes, &kinds->sets[kinds->set_count], err);
	if (!code) {
		kinds->set_count++;
		forget_index(kinds);
	}
	return code;
}

int kinds_read_file(struct kinds *kinds, const char *path, struct tm_error *err)
{
	struct text text = {0};
	int code = io_read_file(path, RULES_BYTES_MAX, &text);
	if (code == -EFBIG)
		tm_fail(err, code, "'%s' is larger than rules may be (1 MiB)", path);
	else if (code)
		tm_fail(err, code, "'%s' cannot be read: %s", path, strerror(-code));
	else
		code = kinds_read(kinds, path, text_string(&text), text.length, err);
	text_done(&text);
	return code;
}

int kinds_read_default(struct kinds *kinds, struct tm_error *err)
{
	char path[4096];
	const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int bytes = -1;
	if (folder && *folder == '/')
		bytes = snprintf(path, sizeof path, "%s/tidemark/kinds", folder);
	else if (home && *home == '/')
		bytes = snprintf(path, sizeof path, "%s/.config/tidemark/kinds", home);
	if (bytes < 0 || (size_t)bytes >= sizeof path)
		return 0;
	int code = kinds_read_file(kinds, path, err);
	if (code != -ENOENT && code != -ENOTDIR && code != -EACCES)
		return code;
	if (err)
		*err = (struct tm_error){0};
	return 0;
}

/* ---- the index ---- */

static int index_rule(struct kinds *kinds, unsigned first, const struct rules_rule *rule)
{
	size_t count = kinds->by_first_count[first];
	if (count % 32 == 0) {
		void *grown = tm_grow_array((void *)kinds->by_first[first], count + 32,
					    sizeof **kinds->by_first);
		if (!grown)
			return -ENOMEM;
		kinds->by_first[first] = grown;
	}
	kinds->by_first[first][count] = rule;
	kinds->by_first_count[first]++;
	return 0;
}

static int make_index(struct kinds *kinds)
{
	int code = 0;
	for (size_t set = kinds->set_count; set-- > 0 && !code;) {
		const struct rules *rules = &kinds->sets[set];
		for (size_t i = 0; i < rules->count && !code; i++) {
			const struct rules_rule *rule = &rules->list[i];
			bool any = !rule->function.text || !rule->function.literal;
			unsigned first = any ? 0 : (unsigned char)rule->function.text[0];
			unsigned end = any ? FIRST_BYTES : first + 1;
			for (; first < end && !code; first++)
				code = index_rule(kinds, first, rule);
		}
	}
	if (code)
		forget_index(kinds);
	else
		kinds->indexed = true;
	return code;
}

/* ---- answers ---- */

/* A pattern without a slash means the last part of a path. */
static bool match_path(const struct rules_pattern *pattern, const char *path)
{
	if (!pattern->text)
		return true;
	if (!path)
		return false;
	return rules_match(pattern, strchr(pattern->text, '/') ? path : package_base_name(path));
}

static bool match_text(const struct rules_pattern *pattern, const char *text)
{
	return !pattern->text || (text && rules_match(pattern, text));
}

static const struct rules_rule *find_rule(const struct kinds *kinds,
					  const struct kinds_frame *frame, const char *plain,
					  const char *package)
{
	unsigned first = plain ? (unsigned char)plain[0] : 0;
	for (size_t i = 0; i < kinds->by_first_count[first]; i++) {
		const struct rules_rule *rule = kinds->by_first[first][i];
		if (match_text(&rule->function, plain) && match_path(&rule->file, frame->file) &&
		    match_path(&rule->module, frame->module) && match_text(&rule->package, package))
			return rule;
	}
	return NULL;
}

static const char *keep(struct kinds *kinds, const char *name)
{
	const char *kept = strpool_intern(kinds->packages, name, strlen(name));
	return kept ? kept : "";
}

struct kinds_answer kinds_of(struct kinds *kinds, const struct kinds_frame *frame)
{
	struct package package;
	package_of(frame, &package);
	struct kinds_answer answer = {.kind = package.kind, .package = keep(kinds, package.name)};
	if (!kinds->indexed && make_index(kinds))
		return answer;
	const char *plain = frame->function;
	/* Names of scripts are no C++: a blank in them parts nothing. */
	if (plain && !frame->jit)
		plain = cxxname_plain(plain);
	const struct rules_rule *rule = find_rule(kinds, frame, plain, package.name);
	if (rule) {
		answer.kind = rule->kind;
		if (rule->as)
			answer.package = keep(kinds, rule->as);
	}
	return answer;
}
