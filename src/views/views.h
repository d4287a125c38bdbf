/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Front door of the views: facts of a section (a trace file's, a live
 * session's, an imported one's) become rows that a terminal, a page or an export
 * shows. Every view is a const descriptor: its name, its columns, and the
 * function that fills its rows.
 *
 * Words:
 *   frame  a function in a stack, with file and line where known
 *   site   a function that allocates: the innermost frame of a stack that is not
 *          an entry point of an allocator
 *   self   figures of the stacks whose site a function is
 *   flat   a view of groups of frames (functions, lines, ...) beside each other
 *
 * views/tree.h has call trees, views/callers.h one function with its neighbours,
 * views/select.h ranges and filters, views/buckets.h sizes and lifetimes.
 *
 * Not thread-safe. Everything returned is borrowed from the struct view_data
 * unless said otherwise.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"
#include "model/filter.h"
#include "model/model.h"
#include "symbols/kinds.h"
#include "trace/records.h"
#include "trace/trace.h"
#include "views/figures.h"

/* ---- the facts of a section ---- */

struct view_input { /* all borrowed; must outlive the view_data */
	const struct model *model;
	const struct trace_meta *meta;
	const struct trace_end *end;
	const struct trace_stack *stacks; /* [0] is the empty stack */
	size_t stack_count;
	const struct trace_module *modules; /* by module_id; [0] unused */
	size_t module_count;
	const struct trace_symbol *symbols; /* sorted by (module_id, address), innermost first */
	size_t symbol_count;
	const struct trace_thread *threads; /* by thread_id */
	size_t thread_count;
	uint64_t sample_bytes; /* figures are estimates by this interval at most; 0: exact */
	bool complete;         /* the section has its end, and so all its symbols */
	bool no_lookup;        /* do not look for missing names in the files of this machine */
	struct kinds *kinds;   /* rules of kinds; NULL = the built-in ones */
};
double view_error_percent(const struct view_input *input, uint64_t bytes, uint64_t blocks);
double view_error_bytes(const struct view_input *input, uint64_t bytes, uint64_t blocks);
/* All of the reader's selected section but the model. */
TM_MUST_CHECK int view_input_read(struct trace_reader *reader, struct view_input *ret_input,
				  struct tm_error *err);

struct view_data;
/*
 * Names and merges the stacks; figures are those of the whole run. O(stacks).
 * -ENOMEM, -EBADMSG for ids that make no sense.
 */
TM_MUST_CHECK int view_data_new(const struct view_input *input, struct view_data **ret_data,
				struct tm_error *err);
struct view_data *view_data_free(struct view_data *data);
/*
 * Leaves frames of some kinds (bit 1u << enum frame_kind) out of all stacks, and
 * joins those that are then alike. Of a stack that has no others the innermost
 * stays. RECURSION: of a function's frames in a stack only the outermost stays;
 * MODULES: a run of frames of one module becomes one, the same for all of it.
 * Cannot be undone; names for filters must be asked for before. On failure the data
 * is as it was. -ENOMEM. O(stacks).
 */
enum { VIEW_FOLD_RECURSION = 1 << 29, VIEW_FOLD_MODULES = 1 << 30 };
TM_MUST_CHECK int view_data_fold(struct view_data *data, unsigned kinds, struct tm_error *err);

/* ---- frames ---- */

struct view_frame {
	const char *function; /* NULL = no name */
	const char *module;   /* path, "[vdso]", "[anonymous]", "[mark]" */
	const char *file;     /* NULL = unknown */
	uint32_t line, column;
	uint64_t address;     /* in the ELF file; at run time when there is none */
	uint32_t function_id; /* the same for all frames of this function of this module */
	const char *package;  /* crate, library, npm package, Nim module; "" = unknown */
	uint8_t source;       /* enum trace_symbol_source */
	uint8_t kind;         /* enum frame_kind of symbols/kinds.h */
	uint8_t label;        /* enum trace_label: no code, but a heap or a tag; else 0 */
	bool inlined;         /* into the next frame */
	bool tail_called;     /* ended in a jump to the frame inside; restored from DWARF */
	bool is_allocator;    /* its kind is KIND_ALLOCATOR; never a site */
	bool is_root; /* main, _start, start_thread: what is outside of it is start-up code */
};

/*
 * Walks a stack from the innermost frame outwards: start with cursor =
 * row.stack; NULL at the end.
 */
const struct view_frame *view_next_frame(const struct view_data *data, uint32_t *cursor);
/* Where to start for a stack_id of the trace; 0, the empty stack, if there is none. */
uint32_t view_stack_of(const struct view_data *data, uint32_t stack_id);

/* Of a stack as recorded, O(1): the function_id of its site, UINT32_MAX if it has none. */
uint32_t view_site_of(const struct view_data *data, uint32_t stack_id);
/* Its site's name; NULL if it has none. */
const char *view_site_name(const struct view_data *data, uint32_t stack_id);
/* Where view_next_frame() starts. */
uint32_t view_node_of(const struct view_data *data, uint32_t stack_id);

/* Frames by number, for tables of them; the number of one of the data's frames. */
size_t view_frame_count(const struct view_data *data);
const struct view_frame *view_frame_at(const struct view_data *data, uint32_t number);
uint32_t view_frame_number(const struct view_data *data, const struct view_frame *frame);
/* Cursors of view_next_frame() are below this, and callers' are below their callees'. */
size_t view_node_count(const struct view_data *data);

/* Names for query_bind() and filter_bind(). Borrows the data. Thread-safe. */
struct filter_names view_filter_names(const struct view_data *data);

/* A frame that stands for a process: the outermost of all stacks of a merged trace. */
bool view_is_process(const struct view_frame *frame);

/* "libfoo.so" of a module's path. Points into it. */
const char *view_module_name(const char *module);

/* ---- views ---- */

struct view_stack_row {
	uint32_t stack; /* for view_next_frame() */
	uint32_t site;  /* function_id */
	struct view_figures figures;
	uint64_t suppressed_blocks, suppressed_bytes; /* unfreed ones: suppressions_apply() */
};
struct view_row {
	/* What it is the row of; only what tells it apart is set (see view_row_name()). */
	const char *function; /* NULL = no name */
	const char *module;
	const char *file; /* NULL = unknown */
	uint32_t line;
	const char *package; /* "" = unknown */
	struct view_figures self;
	struct view_figures inclusive;       /* filled by flat views only */
	const struct view_stack_row *stacks; /* the largest first; of sites only */
	size_t stack_count;
};
struct view_rows {
	struct view_row *rows; /* the largest first */
	size_t count;
	struct view_stack_row *stacks; /* what the rows point into */
};

enum view_group {
	VIEW_GROUP_FUNCTION,
	VIEW_GROUP_LINE,
	VIEW_GROUP_PACKAGE,
	VIEW_GROUP_MODULE,
	VIEW_GROUP_ALLOCATOR,
	VIEW_GROUP_HEAP,
	VIEW_GROUP_TAG,
	VIEW_GROUP_PROCESS, /* of merged traces */
};
enum view_sort {
	VIEW_SORT_FIGURE, /* by the order, the largest first; flat: inclusive */
	VIEW_SORT_SELF,   /* flat: by the order, self */
	VIEW_SORT_AVERAGE,
	VIEW_SORT_NAME,
};

/* To sort or order otherwise, fill a changed copy of the descriptor. */
struct view {
	const char *name;  /* "peak" */
	const char *title; /* "Sites by their share of the peak" */
	enum view_figure order;
	enum view_figure columns[4]; /* what to show beside the name, the first is the order */
	bool flat; /* groups with self and inclusive figures; else sites with stacks */
	size_t column_count;
	enum view_group group; /* of a flat view */
	enum view_sort sort;
	size_t sorted; /* only the first so many need be in order; 0 = all */
	int (*fill)(const struct view *view, const struct view_data *data,
		    struct view_rows *ret_rows, struct tm_error *err);
};
extern const struct view view_list[];
extern const size_t view_count;

/* NULL if there is none of that name. */
const struct view *view_find(const char *name);
/* Rows with 0 in the view's order are left out (not by flat views). -ENOMEM. */
TM_MUST_CHECK int view_fill(const struct view *view, const struct view_data *data,
			    struct view_rows *ret_rows, struct tm_error *err);
/* By another sort or order of the view; what is equal, by name. */
void view_rows_sort(struct view_rows *rows, const struct view *view);
void view_rows_done(struct view_rows *rows);
/* For people: "cart_add", "cart_add cart.c:10", "libfoo.so"; never "". */
void view_row_name(struct text *out, const struct view *view, const struct view_row *row);

/* Every stack with its figures, in order of appearance. */
const struct view_stack_row *view_stacks(const struct view_data *data, size_t *ret_count);

#include "views/rss.h"
