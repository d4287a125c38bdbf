/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/plan_hook.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"

#define NO WIRE_SITE_NO_ARGUMENT

static const char blanks[] = " \t\n";
static const char word_ends[] = " \t\n=(),";

/* Where we are in a list. */
struct cursor {
	char *at;
	const char *start;
	struct tm_error *err;
};

static const struct role {
	const char *name;
	struct wire_site by_default;
} roles[] = {
	{"alloc",
	 {.hook = WIRE_HOOK_ALLOC, .size = 0, .count = NO, .alignment = NO, .pointer = NO}},
	{"free", {.hook = WIRE_HOOK_FREE, .size = NO, .count = NO, .alignment = NO, .pointer = 0}},
	{"realloc",
	 {.hook = WIRE_HOOK_REALLOC, .size = 1, .count = NO, .alignment = NO, .pointer = 0}},
};

static int wrong(const struct cursor *cursor, const char *at, const char *expected)
{
	if (!*at)
		return tm_fail(cursor->err, -EINVAL, "--hook: at its end, %s is missing", expected);
	return tm_fail(cursor->err, -EINVAL, "--hook: at character %zu ('%.20s'): expected %s",
		       (size_t)(at - cursor->start) + 1, at, expected);
}

static const struct role *find_role(const char *word, size_t bytes)
{
	for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
		if (strlen(roles[i].name) == bytes && memcmp(roles[i].name, word, bytes) == 0)
			return &roles[i];
	return NULL;
}

/* "size=1" at the cursor. */
static int read_argument(struct cursor *cursor, struct wire_site *site, uint8_t *ret_given)
{
	struct {
		const char *name;
		uint8_t *field;
	} keys[] = {{"size", &site->size},
		    {"count", &site->count},
		    {"align", &site->alignment},
		    {"ptr", &site->pointer},
		    {"out", &site->pointer}};
	size_t bytes = strcspn(cursor->at, word_ends);
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		if (strlen(keys[i].name) != bytes || memcmp(keys[i].name, cursor->at, bytes) != 0)
			continue;
		if (cursor->at[bytes] != '=')
			return wrong(cursor, cursor->at + bytes, "'=' and the argument's number");
		char digit = cursor->at[bytes + 1];
		if (digit < '0' || digit >= '0' + WIRE_SITE_ARGUMENTS)
			return wrong(cursor, cursor->at + bytes + 1,
				     "an argument's number, 0 to 5");
		if (*ret_given & 1u << i)
			return wrong(cursor, cursor->at, "each word once");
		*ret_given |= (uint8_t)(1u << i);
		*keys[i].field = (uint8_t)(digit - '0');
		cursor->at += bytes + 2;
		return 0;
	}
	return wrong(cursor, cursor->at, "size, count, align, ptr or out");
}

enum { GIVEN_SIZE = 1, GIVEN_COUNT = 2, GIVEN_ALIGN = 4, GIVEN_PTR = 8, GIVEN_OUT = 16 };

/* Words that do not go with the role. */
static int check_given(const struct cursor *cursor, const char *at, uint8_t given,
		       struct wire_site *site)
{
	if (site->hook == WIRE_HOOK_FREE && given & ~GIVEN_PTR)
		return wrong(cursor, at, "only ptr for a free");
	if (site->hook == WIRE_HOOK_ALLOC && given & GIVEN_PTR)
		return wrong(cursor, at, "no ptr for an alloc (out, if the block is stored there)");
	if (site->hook == WIRE_HOOK_REALLOC && given & GIVEN_OUT)
		return wrong(cursor, at, "no out for a realloc");
	if (given & GIVEN_OUT)
		site->hook = WIRE_HOOK_OUT;
	return 0;
}

/* "(size=1,count=0)" */
static int read_arguments(struct cursor *cursor, struct wire_site *site)
{
	const char *open = cursor->at;
	uint8_t given = 0;
	do {
		cursor->at++; /* '(' or ',' */
		cursor->at += strspn(cursor->at, blanks);
		int error = read_argument(cursor, site, &given);
		if (error)
			return error;
		cursor->at += strspn(cursor->at, blanks);
	} while (*cursor->at == ',');
	if (*cursor->at != ')')
		return wrong(cursor, cursor->at, "',' or ')'");
	cursor->at++;
	return check_given(cursor, open, given, site);
}

/* ROLE=FUNCTION(...) or name=WORD; the word's end becomes a NUL when all is read. */
static int read_item(struct cursor *cursor, struct plan_hooks *hooks, const char **name)
{
	const char *word = cursor->at;
	size_t bytes = strcspn(word, word_ends);
	bool names = bytes == 4 && memcmp(word, "name", 4) == 0;
	const struct role *role = names ? NULL : find_role(word, bytes);
	if (!names && !role)
		return wrong(cursor, word, "alloc=, free=, realloc= or name=");
	if (word[bytes] != '=')
		return wrong(cursor, word + bytes, "'=' and a function");
	cursor->at += bytes + 1;
	char *value = cursor->at;
	bytes = strcspn(value, word_ends);
	if (!bytes)
		return wrong(cursor, value, names ? "a name" : "a function's name");
	cursor->at += bytes;
	struct wire_site site = role ? role->by_default : (struct wire_site){0};
	int error = role && *cursor->at == '(' ? read_arguments(cursor, &site) : 0;
	if (!error && *cursor->at && !strchr(blanks, *cursor->at))
		error = wrong(cursor, cursor->at, "a blank");
	if (error)
		return error;
	if (*cursor->at)
		cursor->at++;
	value[bytes] = '\0';
	if (names) {
		*name = value;
		return 0;
	}
	if (hooks->count == PLAN_HOOKS_MAX)
		return tm_fail(cursor->err, -EINVAL, "--hook: more than %d functions",
			       PLAN_HOOKS_MAX);
	hooks->list[hooks->count++] = (struct plan_hook){.name = {.name = value, .site = site}};
	return 0;
}

static int read_list(struct cursor *cursor, struct plan_hooks *hooks)
{
	size_t first = hooks->count;
	const char *name = NULL;
	bool allocates = false;
	for (cursor->at += strspn(cursor->at, blanks); *cursor->at;
	     cursor->at += strspn(cursor->at, blanks)) {
		int error = read_item(cursor, hooks, &name);
		if (error)
			return error;
	}
	if (hooks->count == first)
		return wrong(cursor, cursor->at, "a function, such as alloc=my_alloc(size=0),");
	for (size_t i = first; i < hooks->count; i++) {
		hooks->list[i].allocator = name ? name : hooks->list[first].name.name;
		hooks->list[i].list = (uint8_t)hooks->text_count;
		allocates |= hooks->list[i].name.site.hook != WIRE_HOOK_FREE;
	}
	return allocates ? 0 : wrong(cursor, cursor->at, "a function that allocates (alloc=)");
}

int plan_hooks_add(struct plan_hooks *hooks, const char *text, struct tm_error *err)
{
	if (hooks->text_count == PLAN_ALLOCATORS_MAX)
		return tm_fail(err, -EINVAL, "--hook: given more than %d times",
			       PLAN_ALLOCATORS_MAX);
	char *copy = tm_strdup(text);
	if (!copy)
		return tm_fail(err, -ENOMEM, "out of memory");
	size_t count = hooks->count;
	struct cursor cursor = {.at = copy, .start = copy, .err = err};
	int error = read_list(&cursor, hooks);
	if (error) {
		hooks->count = count;
		tm_free(copy);
		return error;
	}
	hooks->texts[hooks->text_count++] = copy;
	return 0;
}

void plan_hooks_done(struct plan_hooks *hooks)
{
	for (size_t i = 0; i < hooks->text_count; i++)
		tm_free(hooks->texts[i]);
	*hooks = (struct plan_hooks){0};
}

const struct plan_hook *plan_hooks_find(const struct plan_hooks *hooks, const char *function)
{
	for (size_t i = 0; hooks && i < hooks->count; i++)
		if (strcmp(hooks->list[i].name.name, function) == 0)
			return &hooks->list[i];
	return NULL;
}
