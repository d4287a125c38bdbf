/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the reader of heaptrack's files: heaptrack.c reads lines and events,
 * heaptrack_names.c strings, addresses and stacks, heaptrack_modules.c what raw
 * files have instead of names.
 *
 * Lines begin with a letter and a blank; numbers are hex without prefix. Every
 * line that is parsed ends with LF in memory, so a number ends there at the latest.
 */
#pragma once

#include "base/idmap.h"
#include "import/events.h"
#include "import/reader.h"
#include "trace/texts.h"

enum {
	HEAPTRACK_IDS_MAX = 1 << 26, /* of each kind: what the views can name */
	HEAPTRACK_SYMBOLS = 4096,    /* written at once */
	HEAPTRACK_FRAMES_MAX = 64,   /* of one address */
	HEAPTRACK_STEP_BYTES = 19,
	HEAPTRACK_CHUNK_LOG2 = 14, /* nodes that are made at once */
	HEAPTRACK_CHUNK = 1 << HEAPTRACK_CHUNK_LOG2,
	HEAPTRACK_CHUNKS_MAX = 1 << 14,
};

/* An address with its names ("i"). Ids count from 1. */
struct heaptrack_ip {
	uint32_t module_id;
	uint64_t address; /* where its names are found: its own, or one made up */
};

/* A size and a stack ("a"). Ids count from 0. */
struct heaptrack_info {
	uint64_t size_bytes;
	uint32_t stack_id;
	uint32_t top; /* node of its youngest live blocks, plus 1; 0 = none */
};

/*
 * Live blocks of an interpreted file that are alike, as a pile: the youngest on top,
 * for each of the others the distance to the one above it. Its bytes are 7 bits each,
 * the lowest first; all but the first have the top bit, so that they can be read
 * backwards.
 */
struct heaptrack_node {
	uint64_t block_id; /* of the topmost */
	uint32_t below;    /* the next node of the pile, plus 1; or of the free ones */
	uint8_t used;
	uint8_t steps[HEAPTRACK_STEP_BYTES];
};
_Static_assert(sizeof(struct heaptrack_node) == 32, "two per cache line");

/*
 * Files may give one size and stack several numbers: an allocation can have one and
 * its free another. The first free that finds nothing makes the numbers' table.
 */
struct heaptrack_alike {
	uint32_t *slots; /* numbers of infos plus 1, by size and stack; 0 = empty */
	size_t room, used;
	uint32_t *first; /* by info: the first one of its size and stack */
	size_t first_room;
};

/* A piece of a module in memory; sorted by start. */
struct heaptrack_segment {
	uint64_t start, end;
	uint32_t module_id;
};

struct heaptrack {
	struct import_job *job;
	struct tm_error *err;
	struct events *events;
	bool begun;    /* the section */
	bool has_v;    /* the first line said what it is */
	bool raw;      /* without names: "x" or "m" was seen */
	bool attached; /* "A" was seen */
	uint64_t version, format;
	uint64_t page_bytes, pages;
	uint64_t time_ms;
	char *command, *program;
	struct texts texts; /* strings, paths */
	/* "s", from 1; and the module of which each is the path, 0 = none yet. */
	const char **strings;
	uint32_t *string_modules;
	size_t string_count, string_room, module_room_of_strings;
	struct heaptrack_ip *ips;
	size_t ip_count, ip_room;
	struct idmap ip_map;
	struct trace_symbol *symbols; /* not yet written */
	size_t symbol_count;
	struct heaptrack_info *infos;
	size_t info_count, info_room;
	uint64_t stack_count;
	struct trace_module *modules; /* by id - 1 */
	size_t module_count, module_room;
	struct idmap module_map;
	struct heaptrack_segment *segments;
	size_t segment_count, segment_room;
	bool segments_sorted;
	struct trace_stack *raw_stacks; /* of raw files, [0] unused: to be named at the end */
	size_t raw_room;
	struct heaptrack_node *nodes[HEAPTRACK_CHUNKS_MAX];
	uint32_t node_end, free_node; /* made so far; the first that is free, plus 1 */
	uint64_t births;
	struct heaptrack_alike alike;
	uint64_t last_block; /* plus 1, if the last event was its allocation; else 0 */
	/* As heaptrack_print counts them: 0 is both none and the first. */
	uint64_t print_last, print_temporary, temporary;
	/* samples: fewer of them as they become many */
	uint64_t sample_step_ms, next_sample_ms, sample_count, largest_pages;
	/* what made no sense */
	uint64_t odd_lines, odd_ids, odd_frees, odd_sizes, late_clocks;
};

/* ---- numbers ---- */

extern const uint8_t heaptrack_digits[256]; /* 0 to 15; 16: no digit */

/* The next number of the line; false: there is none, or it is beyond 64 bits. */
static inline bool heaptrack_number(const char **at, uint64_t *ret)
{
	const unsigned char *p = (const unsigned char *)*at;
	while (*p == ' ')
		p++;
	uint64_t value = 0, digit = heaptrack_digits[*p];
	const unsigned char *first = p;
	while (digit < 16) {
		value = value << 4 | digit;
		digit = heaptrack_digits[*++p];
	}
	*at = (const char *)p;
	*ret = value;
	/* A digit of another number in the same word is no number. */
	return p != first && p - first <= 16 && (*p == ' ' || *p == '\n' || *p == '\r');
}

/* ---- piles of live blocks ---- */

static inline struct heaptrack_node *heaptrack_node_at(struct heaptrack *h, uint32_t number)
{
	return &h->nodes[number >> HEAPTRACK_CHUNK_LOG2][number & (HEAPTRACK_CHUNK - 1)];
}
/* A block, younger than all of its pile, on top of it. -ENOMEM, -EFBIG. */
TM_MUST_CHECK int heaptrack_push(struct heaptrack *h, struct heaptrack_info *info,
				 uint64_t block_id);
/* Takes the topmost; there must be one. */
uint64_t heaptrack_pop(struct heaptrack *h, struct heaptrack_info *info);
void heaptrack_piles_done(struct heaptrack *h);

/* ---- names ---- */

/* An array with room for one more, perhaps moved; NULL: no memory. */
void *heaptrack_room(void *array, size_t count, size_t *room, size_t bytes);
int heaptrack_no_memory(struct heaptrack *h);
/* All return 0 or -errno with h->err; `rest` is the line after letter and blank, `end` its LF. */
TM_MUST_CHECK int heaptrack_string(struct heaptrack *h, const char *rest, const char *end);
TM_MUST_CHECK int heaptrack_ip(struct heaptrack *h, const char *rest);
TM_MUST_CHECK int heaptrack_stack(struct heaptrack *h, const char *rest);
/* Writes what is left of names and modules. */
TM_MUST_CHECK int heaptrack_names_finish(struct heaptrack *h);
void heaptrack_names_done(struct heaptrack *h);
/* A sized or unsized text: *ret_at moves behind it. False: its length makes no sense. */
bool heaptrack_text(const struct heaptrack *h, const char **at, const char *end, bool to_end,
		    const char **ret_text, size_t *ret_length);

/* ---- infos that are alike ---- */

/* After a free of `id` that finds no block: all that are alike become one. -ENOMEM. */
TM_MUST_CHECK int heaptrack_unite(struct heaptrack *h);
/* After that, for each new info. -ENOMEM. */
TM_MUST_CHECK int heaptrack_alike_add(struct heaptrack *h, uint32_t id);

/* ---- modules of raw files ---- */

TM_MUST_CHECK int heaptrack_program(struct heaptrack *h, const char *rest, const char *end);
TM_MUST_CHECK int heaptrack_module(struct heaptrack *h, const char *rest, const char *end);
/* The module at a run-time address; 0 = none. */
uint32_t heaptrack_module_at(struct heaptrack *h, uint64_t address);
/* The id of a module of this path and bias, made if need be; 0: no memory. */
uint32_t heaptrack_module_id(struct heaptrack *h, const char *path, uint64_t bias);
/* Looks up the names of raw stacks in the files of their modules. */
TM_MUST_CHECK int heaptrack_resolve(struct heaptrack *h);
