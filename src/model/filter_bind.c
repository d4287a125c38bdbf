/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter bound to a section. Terms about names are decided once per stack, and
 * once per different name before that; terms about threads once per thread. A
 * stack has the frames of its parent and its own, so one pass in order of the
 * ids does for all.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "model/filter_bound.h"

enum { NAME_BYTES_MAX = 4096 };

/* ---- names ---- */

bool filter_term_takes(const struct filter_term *term, const char *name)
{
	if (!name)
		return false;
	switch (term->how) {
	case FILTER_CONTAINS:
		return strstr(name, term->text) != NULL;
	case FILTER_GLOB:
		return strlen(name) < NAME_BYTES_MAX && fnmatch(term->text, name, 0) == 0;
	case FILTER_EXACT:
		return strcmp(name, term->text) == 0;
	case FILTER_REGEX:
		return strlen(name) < NAME_BYTES_MAX &&
		       regexec(&term->regex, name, 0, NULL, 0) == 0;
	}
	return false;
}

/* A module's or source file's path may also be given by its last part alone. */
static bool takes_path(const struct filter_term *term, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return filter_term_takes(term, path) || (slash && filter_term_takes(term, slash + 1));
}

/* What has been found out about names, by their pointers. */
struct known {
	const char **names; /* NULL: free place */
	uint64_t *masks;    /* which terms take it */
	size_t room, count;
};

static int known_grow(struct known *known)
{
	struct known wider = {.room = known->room ? known->room * 2 : 256};
	wider.names = tm_alloc_array(wider.room, sizeof *wider.names);
	wider.masks = tm_alloc_array(wider.room, sizeof *wider.masks);
	if (!wider.names || !wider.masks) {
		tm_free(wider.names);
		tm_free(wider.masks);
		return -ENOMEM;
	}
	for (size_t i = 0; i < known->room; i++) {
		if (!known->names[i])
			continue;
		size_t at = hash_u64((uintptr_t)known->names[i]) & (wider.room - 1);
		while (wider.names[at])
			at = (at + 1) & (wider.room - 1);
		wider.names[at] = known->names[i];
		wider.masks[at] = known->masks[i];
	}
	wider.count = known->count;
	tm_free(known->names);
	tm_free(known->masks);
	*known = wider;
	return 0;
}

struct binder {
	struct filter_bound *bound;
	const struct filter_context *context;
	struct known known[6]; /* function, file, module, package, heap, tag */
	struct tm_error *err;
};

/* Which terms about this sort of name take it: FILTER_FUNCTION stands for FILTER_SITE, too. */
static uint64_t match_name(const struct filter *filter, enum filter_key key, const char *name)
{
	uint64_t mask = 0;
	for (size_t i = 0; i < filter->term_count; i++) {
		const struct filter_term *term = &filter->terms[i];
		enum filter_key of = term->key == FILTER_SITE ? FILTER_FUNCTION : term->key;
		if (of != key)
			continue;
		bool path = key == FILTER_FILE || key == FILTER_MODULE;
		if (path ? takes_path(term, name) : filter_term_takes(term, name))
			mask |= 1ull << i;
	}
	return mask;
}

static int name_mask(struct binder *b, unsigned sort, enum filter_key key, const char *name,
		     uint64_t *mask)
{
	struct known *known = &b->known[sort];
	if (!name)
		return 0;
	if (known->count * 2 >= known->room && known_grow(known))
		return -ENOMEM;
	size_t at = hash_u64((uintptr_t)name) & (known->room - 1);
	while (known->names[at] && known->names[at] != name)
		at = (at + 1) & (known->room - 1);
	if (!known->names[at]) {
		known->names[at] = name;
		known->masks[at] = match_name(b->bound->filter, key, name);
		known->count++;
	}
	*mask |= known->masks[at];
	return 0;
}

static int frame_mask(struct binder *b, const struct filter_frame *frame, uint64_t *mask)
{
	if (name_mask(b, 0, FILTER_FUNCTION, frame->function, mask) ||
	    name_mask(b, 1, FILTER_FILE, frame->file, mask) ||
	    name_mask(b, 2, FILTER_MODULE, frame->module, mask) ||
	    name_mask(b, 3, FILTER_PACKAGE, frame->package, mask) ||
	    name_mask(b, 4, FILTER_HEAP, frame->heap, mask) ||
	    name_mask(b, 5, FILTER_TAG, frame->tag, mask))
		return -ENOMEM;
	return 0;
}

static int stack_mask(struct binder *b, uint32_t stack_id, uint64_t site_terms)
{
	struct filter_bound *bound = b->bound;
	const struct filter_names *names = b->context->names;
	uint32_t parent = b->context->stacks[stack_id].parent_id;
	uint64_t above = parent < stack_id ? bound->stack_masks[parent] : 0;
	uint64_t any = above & ~site_terms, site = above & site_terms;
	bool site_known = false;
	struct filter_frame frame;
	for (size_t i = 0; names && names->frame(names->ctx, stack_id, i, &frame); i++) {
		uint64_t mask = 0;
		if (frame_mask(b, &frame, &mask))
			return -ENOMEM;
		any |= mask & ~site_terms;
		if (!site_known && !frame.is_allocator) {
			site = mask & site_terms;
			site_known = true;
		}
		frame = (struct filter_frame){0};
	}
	bound->stack_masks[stack_id] = any | site;
	return 0;
}

static int bind_stacks(struct binder *b)
{
	struct filter_bound *bound = b->bound;
	uint64_t site_terms = 0;
	for (size_t i = 0; i < bound->filter->term_count; i++) {
		if (bound->filter->terms[i].key == FILTER_SITE)
			site_terms |= 1ull << i;
	}
	bound->stack_count = b->context->stack_count;
	bound->stack_masks = tm_alloc_array(bound->stack_count + 1, sizeof *bound->stack_masks);
	bound->verdicts = tm_alloc_array(bound->stack_count + 1, 1);
	if (!bound->stack_masks || !bound->verdicts)
		return -ENOMEM;
	bool names = filter_needs_names(bound->filter);
	for (uint32_t id = 1; names && id < bound->stack_count; id++) {
		if (stack_mask(b, id, site_terms))
			return -ENOMEM;
	}
	for (uint32_t id = 0; id < bound->stack_count; id++) {
		bound->verdicts[id] = (uint8_t)filter_judge_stack(bound, id);
		bound->needs_blocks |= bound->verdicts[id] == FILTER_DEPENDS;
	}
	return 0;
}

/* ---- threads ---- */

static bool takes_thread(const struct filter_term *term, const struct trace_thread *thread)
{
	if (filter_term_takes(term, thread->name))
		return true;
	char *end;
	unsigned long tid = strtoul(term->text, &end, 10);
	return term->how != FILTER_REGEX && *term->text && !*end && tid == thread->tid;
}

static int bind_threads(struct binder *b)
{
	struct filter_bound *bound = b->bound;
	bound->thread_count = b->context->thread_count;
	bound->thread_masks = tm_alloc_array(bound->thread_count + 1, sizeof *bound->thread_masks);
	if (!bound->thread_masks)
		return -ENOMEM;
	for (size_t t = 0; t < bound->thread_count; t++) {
		for (size_t i = 0; i < bound->filter->term_count; i++) {
			const struct filter_term *term = &bound->filter->terms[i];
			if (term->key == FILTER_THREAD &&
			    takes_thread(term, &b->context->threads[t]))
				bound->thread_masks[t] |= 1ull << i;
		}
	}
	return 0;
}

/* ---- moments ---- */

static int no_moment(void *ctx, const char *text, uint64_t *ret_ns, struct tm_error *err)
{
	(void)ctx;
	(void)text;
	*ret_ns = 0;
	return tm_fail(err, -EINVAL, "moments are not known here");
}

static int bind_moments(struct binder *b)
{
	filter_moment_fn moment = b->context->moment ? b->context->moment : no_moment;
	for (size_t i = 0; i < b->bound->filter->term_count; i++) {
		const struct filter_term *term = &b->bound->filter->terms[i];
		uint64_t low = term->low, high = term->high;
		int rc = 0;
		if (term->key == FILTER_TIME) {
			low = 0;
			high = UINT64_MAX;
			if (term->text)
				rc = moment(b->context->moment_ctx, term->text, &low, b->err);
			if (!rc && term->text_high)
				rc = moment(b->context->moment_ctx, term->text_high, &high, b->err);
			if (rc)
				return rc;
			/* Times are whole microseconds. */
			if (term->above)
				low = low / 1000 * 1000 + 1000;
			if (term->below)
				high = high ? high - 1 : 0;
		}
		b->bound->low[i] = low;
		b->bound->high[i] = high;
	}
	return 0;
}

static void note_needs(struct filter_bound *bound)
{
	for (size_t i = 0; i < bound->filter->term_count; i++) {
		const struct filter_term *term = &bound->filter->terms[i];
		bound->needs_ends |= term->key == FILTER_LIFETIME || term->key == FILTER_AGE ||
				     term->key == FILTER_TEMPORARY || term->key == FILTER_UNFREED ||
				     term->key == FILTER_FOREIGN;
		bound->needs_addresses |= term->key == FILTER_ADDRESS;
		bound->wants_mappings |=
			term->key == FILTER_KIND && term->low == FILTER_KIND_MAPPED;
	}
}

/* What a term asks for must be in the trace: an imported file may not have it. */
static int check_known(const struct filter_bound *bound, uint32_t unknown, struct tm_error *err)
{
	static const uint32_t needs[FILTER_KEY_COUNT] = {
		[FILTER_THREAD] = TRACE_UNKNOWN_THREADS,
		[FILTER_SIZE] = TRACE_UNKNOWN_EVENTS,
		[FILTER_LIFETIME] = TRACE_UNKNOWN_LIFETIMES | TRACE_UNKNOWN_EVENTS,
		[FILTER_AGE] = TRACE_UNKNOWN_LIFETIMES | TRACE_UNKNOWN_EVENTS,
		[FILTER_TIME] = TRACE_UNKNOWN_TIMES,
		[FILTER_ADDRESS] = TRACE_UNKNOWN_EVENTS,
		[FILTER_API] = TRACE_UNKNOWN_EVENTS,
		[FILTER_TEMPORARY] = TRACE_UNKNOWN_TEMPORARY | TRACE_UNKNOWN_EVENTS,
		[FILTER_UNFREED] = TRACE_UNKNOWN_LIFETIMES | TRACE_UNKNOWN_EVENTS,
		[FILTER_FOREIGN] = TRACE_UNKNOWN_THREADS | TRACE_UNKNOWN_EVENTS,
	};
	for (size_t i = 0; i < bound->filter->term_count; i++) {
		enum filter_key key = bound->filter->terms[i].key;
		if (unknown & needs[key])
			return tm_fail(err, -EINVAL,
				       "the filter asks for '%s', which the imported file does not "
				       "say of single blocks",
				       filter_keys[key].name);
	}
	return 0;
}

int filter_bind(const struct filter *filter, const struct filter_context *context,
		struct filter_bound **ret_bound, struct tm_error *err)
{
	struct filter_bound *bound = tm_alloc(sizeof *bound);
	if (!bound)
		return tm_fail(err, -ENOMEM, "no memory for the filter");
	bound->filter = filter;
	struct binder b = {.bound = bound, .context = context, .err = err};
	note_needs(bound);
	int rc = check_known(bound, context->unknown, err);
	if (!rc)
		rc = bind_moments(&b);
	if (!rc && (bind_stacks(&b) || bind_threads(&b)))
		rc = tm_fail(err, -ENOMEM, "no memory for the filter");
	for (size_t i = 0; i < sizeof b.known / sizeof b.known[0]; i++) {
		tm_free(b.known[i].names);
		tm_free(b.known[i].masks);
	}
	if (rc) {
		filter_bound_free(bound);
		return rc;
	}
	*ret_bound = bound;
	return 0;
}

struct filter_bound *filter_bound_free(struct filter_bound *bound)
{
	if (bound) {
		tm_free(bound->stack_masks);
		tm_free(bound->thread_masks);
		tm_free(bound->verdicts);
	}
	return tm_free(bound);
}
