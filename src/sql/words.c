/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/words.h"

#include <stddef.h>

#include "trace/records.h"

#define WORD(words, number) ((number) < sizeof words / sizeof words[0] ? words[number] : NULL)

const char *words_op(unsigned op)
{
	static const char *const words[] = {
		[TRACE_ALLOC] = "alloc",
		[TRACE_FREE] = "free",
		[TRACE_REALLOC_FREE] = "realloc_free",
		[TRACE_REALLOC_ALLOC] = "realloc_alloc",
		[TRACE_REALLOC_UNDO] = "realloc_fail",
		[TRACE_ALLOC_FAIL] = "alloc_fail",
		[TRACE_FREE_UNSEEN] = "free_unseen",
		[TRACE_FREE_OLDER] = "free_older",
	};
	return WORD(words, op);
}

const char *words_api(unsigned api)
{
	static const char *const words[] = {
		[TRACE_API_MALLOC] = "malloc",     [TRACE_API_CALLOC] = "calloc",
		[TRACE_API_REALLOC] = "realloc",   [TRACE_API_ALIGNED] = "aligned",
		[TRACE_API_NEW] = "new",           [TRACE_API_JEMALLOC] = "jemalloc",
		[TRACE_API_MIMALLOC] = "mimalloc", [TRACE_API_TCMALLOC] = "tcmalloc",
		[TRACE_API_CUSTOM] = "custom",
	};
	return WORD(words, api);
}

const char *words_map_op(unsigned op)
{
	static const char *const words[] = {
		[TRACE_MAP] = "map",
		[TRACE_UNMAP] = "unmap",
		[TRACE_MAP_PROTECT] = "protect",
		[TRACE_MAP_ADVISE] = "advise",
		[TRACE_MAP_BRK] = "brk",
		[TRACE_MAP_FOLDED] = "folded",
	};
	return WORD(words, op);
}
