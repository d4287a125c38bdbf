/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of all that reads binaries, in a build that only shows traces: a trace
 * carries its names, and what it lacks cannot be found on another system.
 */
#include <errno.h>
#include <stdio.h>

#include "base/memory.h"
#include "symbols/constant.h"
#include "symbols/symbols.h"

struct symbols {
	char unused;
};

int symbols_new(const struct symbols_options *options, struct symbols **ret_symbols,
		struct tm_error *err)
{
	struct symbols *s = tm_alloc(sizeof *s);
	(void)options;
	if (!s)
		return tm_fail(err, -ENOMEM, "out of memory");
	*ret_symbols = s;
	return 0;
}

struct symbols *symbols_free(struct symbols *s)
{
	return tm_free(s);
}

int symbols_requests(const struct trace_stack *stacks, size_t first, size_t count,
		     struct symbols_request **ret_requests, size_t *ret_count, struct tm_error *err)
{
	(void)stacks;
	(void)first;
	(void)count;
	(void)err;
	*ret_requests = NULL;
	*ret_count = 0;
	return 0;
}

int symbols_open(struct symbols *s, const char *path, const uint8_t *build_id,
		 uint32_t build_id_bytes, struct symbols_module **ret_module, struct tm_error *err)
{
	(void)s;
	(void)build_id;
	(void)build_id_bytes;
	(void)ret_module;
	return tm_fail(err, -ENOENT, "'%s' cannot be read by this build", path);
}

int symbols_resolve(struct symbols *s, const struct trace_module *modules, size_t module_count,
		    const struct symbols_request *requests, size_t request_count,
		    struct symbols_result *ret_result, struct tm_error *err)
{
	(void)s;
	(void)modules;
	(void)module_count;
	(void)requests;
	(void)err;
	*ret_result = (struct symbols_result){.unnamed = request_count};
	return 0;
}

int constant_string(const char *path, const uint8_t *build_id, uint32_t build_id_bytes,
		    const char *symbol, struct text *text, struct tm_error *err)
{
	(void)build_id;
	(void)build_id_bytes;
	(void)symbol;
	(void)text;
	return tm_fail(err, -EOPNOTSUPP, "'%s' cannot be read by this build", path);
}
