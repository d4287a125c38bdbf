/* SPDX-License-Identifier: Apache-2.0 */
#include "server/page.h"

#include <string.h>

static const struct page_file *find(const char *path)
{
	for (size_t i = 0; i < page_file_count; i++)
		if (!strcmp(page_files[i].path, path))
			return &page_files[i];
	return NULL;
}

void page_answer(const char *path, const char *accept_encoding, struct answer *answer)
{
	const struct page_file *file = find(path);
	if (!page_file_count && !strcmp(path, "/")) {
		answer->type = "text/plain; charset=utf-8";
		text_put(&answer->body, "This tidemark was built without its page. The requests "
					"are there: GET /api/v1 lists them.\n");
		return;
	}
	if (!file) {
		answer_fail(answer, 404, "There is nothing under this path. The page is at /.");
		return;
	}
	answer->type = file->type;
	/* The names do not change with the content, so a browser must ask each time. */
	answer->cache = "no-cache";
	bool packed = file->packed_bytes && accept_encoding && strstr(accept_encoding, "gzip");
	answer->encoding = packed ? "gzip" : NULL;
	answer->fixed = packed ? file->packed : file->data;
	answer->fixed_bytes = packed ? file->packed_bytes : file->bytes;
}
