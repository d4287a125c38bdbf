/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the index: see the header. */
#include "trace/index.h"

#include "base/io.h"
#include "trace/block.h"

#include <errno.h>

/* Collect up to FORMAT_INDEX_ENTRIES headers from *offset on. */
static int gather(int fd, uint64_t file_id, uint64_t sealed_end, uint64_t *offset,
		  struct bytes *entries)
{
	entries->used = 0;
	while (*offset < sealed_end &&
	       entries->used < FORMAT_INDEX_ENTRIES * sizeof(struct format_index_entry)) {
		struct format_index_entry entry = {.offset = *offset};
		size_t got = 0;
		int rc = io_pread(fd, &entry.header, sizeof entry.header, *offset, &got);
		if (rc < 0)
			return rc;
		if (got < sizeof entry.header || !block_header_valid(&entry.header, file_id))
			return -EIO;
		bytes_put(entries, &entry, sizeof entry);
		*offset = block_end(*offset, &entry.header);
	}
	return entries->failed ? -ENOMEM : 0;
}

int index_build(int fd, uint64_t file_id, uint64_t sealed_end, struct ZSTD_CCtx_s *zstd,
		struct bytes *out)
{
	struct bytes entries = {0};
	uint64_t offset = sizeof(struct format_file_header);
	uint32_t sequence = 0;
	int rc = 0;
	while (offset < sealed_end && rc == 0) {
		rc = gather(fd, file_id, sealed_end, &offset, &entries);
		size_t count = entries.used / sizeof(struct format_index_entry);
		struct format_block_header header = {
			.type = FORMAT_INDEX,
			.sequence = sequence++,
			.count = (uint32_t)count,
		};
		if (rc == 0)
			block_pack(zstd, file_id, &header, entries.data, entries.used, out);
	}
	bytes_done(&entries);
	struct format_trailer trailer;
	block_trailer_init(&trailer, file_id, sealed_end);
	bytes_put(out, &trailer, sizeof trailer);
	return rc == 0 && out->failed ? -ENOMEM : rc;
}
