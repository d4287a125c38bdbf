/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files from the network, by their build-id: debuginfod. Its client
 * library is loaded when it is needed; without it a sentence says what to
 * install. Downloads are kept in that library's own cache.
 */
#pragma once

#include "symbols/elffile.h"
#include "symbols/symbols.h"

struct remote {
	const struct symbols_options *options;
	void *library;   /* NULL: not loaded yet */
	bool is_useless; /* no library, no server, or it does not answer */
};

/*
 * Fetches the debug file of a build. -ENOENT if no server has it, or it is
 * switched off (then without a word); other errors are told once and end
 * further attempts. name is for progress and sentences.
 */
TM_MUST_CHECK int remote_open(struct remote *remote, struct elffile *ret_file, const char *name,
			      const uint8_t *build_id, uint32_t build_id_bytes);
void remote_done(struct remote *remote);
