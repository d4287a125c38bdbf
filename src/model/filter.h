/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter language, the same for the command line, the page and the API.
 * docs/filters.md is its manual. A filter chooses heap blocks:
 *
 *	function:parse and size>=4K and not (thread:worker or temporary)
 *
 * Parsing needs nothing but the text. To be asked, a filter is bound to a
 * section: names of frames and threads are matched once, per stack and thread.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"
#include "trace/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FILTER_TERMS_MAX = 64 };

struct filter;
struct filter_bound;

/* ---- parsing ---- */

/*
 * An empty text chooses everything. -EINVAL: *ret_column is the byte of the text (from 0) where it
 * went wrong, and err a sentence; -ENOMEM.
 */
TM_MUST_CHECK int filter_parse(const char *text, struct filter **ret_filter, size_t *ret_column,
			       struct tm_error *err);
struct filter *filter_free(struct filter *filter);
/* For people: the sentence, the text, and a caret below the offending character. */
void filter_explain(struct text *out, const char *text, size_t column, const struct tm_error *err);
/* The same filter in its plainest form: every term spelled out, every bracket set. */
void filter_print(struct text *out, const struct filter *filter);
/* Whether it has terms that look at names of frames: then binding needs struct filter_names. */
bool filter_needs_names(const struct filter *filter);

/* ---- binding ---- */

struct filter_frame {
	const char *function; /* NULL = unknown; the same pointer for the same name, if possible */
	const char *file;
	const char *module;
	const char *package;
	const char *heap; /* the frame is the name of a heap, or of a tag; else NULL */
	const char *tag;
	bool is_allocator; /* an entry point of an allocator: never the site */
};

/* Where names come from. Borrowed while filter_bind() runs. */
struct filter_names {
	void *ctx;
	/*
	 * Frame number `index` (0 = innermost) of those that the last address of the stack stands
	 * for: more than one where calls were inlined. False beyond the last.
	 */
	bool (*frame)(void *ctx, uint32_t stack_id, size_t index, struct filter_frame *ret);
};

/* A moment as text ("12.5s", "40%", "peak", ...) to nanoseconds. */
typedef int (*filter_moment_fn)(void *ctx, const char *text, uint64_t *ret_ns,
				struct tm_error *err);

struct filter_context {
	const struct trace_stack *stacks; /* [0] is the empty stack */
	size_t stack_count;
	const struct trace_thread *threads;
	size_t thread_count;
	const struct filter_names *names; /* may be NULL: then no frame has a name */
	uint32_t unknown;                 /* enum trace_unknown: what the trace does not say */
	filter_moment_fn moment;          /* may be NULL: then only durations since the start */
	void *moment_ctx;
};

/* The filter must outlive what is bound. O(stacks x terms about names). -EINVAL, -ENOMEM. */
TM_MUST_CHECK int filter_bind(const struct filter *filter, const struct filter_context *context,
			      struct filter_bound **ret_bound, struct tm_error *err);
struct filter_bound *filter_bound_free(struct filter_bound *bound);

/* ---- asking; all thread-safe ---- */

enum filter_verdict { FILTER_NO = 0, FILTER_YES = 1, FILTER_DEPENDS = 2 };

/* Of a stack alone, whatever else its blocks are. O(1). */
enum filter_verdict filter_stack(const struct filter_bound *bound, uint32_t stack_id);
/* Whether some stack's verdict is FILTER_DEPENDS: then the aggregates are not enough. */
bool filter_needs_blocks(const struct filter_bound *bound);
/* Whether terms need what is known only when a block has ended (lifetime, temporary ...). */
bool filter_needs_ends(const struct filter_bound *bound);
bool filter_needs_addresses(const struct filter_bound *bound);
/* Only a filter that names kind=mapped looks at mappings. */
bool filter_wants_mappings(const struct filter_bound *bound);

/* One heap block, as far as it is known. */
struct filter_block {
	uint32_t stack_id;
	uint32_t thread_id; /* that allocated it */
	uint32_t free_thread_id;
	uint8_t api;     /* enum trace_api */
	bool is_mapping; /* memory that was mapped, not a heap block */
	bool is_failure; /* a call that failed: it has neither address, age nor lifetime */
	bool end_known;  /* the next four say the truth; else it is not known yet */
	bool ended;      /* false: unfreed */
	bool unseen;     /* ended without a thread that freed it */
	bool is_temporary;
	uint64_t size_bytes, address, birth_ns;
	uint64_t end_ns; /* with ended */
	uint64_t now_ns; /* the moment that ages refer to */
	bool live_now;   /* with end_known: it lives at now_ns */
};
/* FILTER_DEPENDS only while end_known is false. */
enum filter_verdict filter_block(const struct filter_bound *bound,
				 const struct filter_block *block);

/* What the header of a block of events says about the heap blocks born in it. */
struct filter_span {
	uint64_t min_size_bytes, max_size_bytes;
	uint64_t start_ns, end_ns;
	uint64_t min_address, max_address; /* min > max: not known */
};
/* Whether any heap block born there can be chosen. */
bool filter_span_may_match(const struct filter_bound *bound, const struct filter_span *span);
