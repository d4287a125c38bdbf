/* SPDX-License-Identifier: Apache-2.0 */
/* The page's files, which are part of the program. */
#pragma once

#include "server/answer.h"

struct page_file {
	const char *path; /* "/" or "/app.js" */
	const char *type;
	const unsigned char *data;
	size_t bytes;
	const unsigned char *packed; /* gzip */
	size_t packed_bytes;
};
/* Made by the build (web/build.mjs), or empty when the page was left out. */
extern const struct page_file page_files[];
extern const size_t page_file_count;

/* Fills the answer: the file of that path, or a sentence with status 404. */
void page_answer(const char *path, const char *accept_encoding, struct answer *answer);
