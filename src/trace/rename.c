/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a finished trace in other words. Blocks of figures are copied as
 * they are stored, sealed anew because the copy has an id of its own; blocks with
 * words are taken apart, renamed row by row and put together again. What may hold
 * words that nobody renamed does not go into the copy: source lines, the index
 * (made anew), and types that this version does not know.
 */
#include "trace/rename.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/io.h"
#include "base/memory.h"
#include "trace/block.h"
#include "trace/container.h"
#include "trace/index.h"
#include "trace/rows.h"
#include "trace/scan.h"

struct rename {
	struct source source;
	struct scan scan;
	const struct trace_words *words;
	struct tm_error *err;
	int fd;
	uint64_t file_id, end;
	uint32_t sequence;
	ZSTD_CCtx *zstd;
	struct texts texts;
	struct bytes raw, packed;
};

static int fail_writing(struct rename *k, int code)
{
	return tm_fail(k->err, code, "the copy cannot be written: %s", strerror(-code));
}

static int fail_memory(struct rename *k)
{
	return tm_fail(k->err, -ENOMEM, "There is no memory to copy '%s'", k->source.path);
}

static int fail_damaged(struct rename *k, const struct format_index_entry *entry)
{
	return tm_fail(k->err, -EBADMSG,
		       "'%s': %s at offset %llu is damaged: make it sound first with 'tidemark "
		       "repair'",
		       k->source.path, source_type_name(entry->header.type),
		       (unsigned long long)entry->offset);
}

static int write_out(struct rename *k, const void *data, size_t bytes)
{
	int rc = io_pwrite(k->fd, data, bytes, k->end);
	k->end += bytes;
	return rc ? fail_writing(k, rc) : 0;
}

/* ---- blocks without words ---- */

static int copy_stored(struct rename *k, const struct format_index_entry *entry)
{
	struct format_block_header header = entry->header;
	size_t whole = (size_t)block_align(sizeof header + header.stored_bytes);
	k->packed.used = 0;
	if (!bytes_reserve(&k->packed, whole))
		return fail_memory(k);
	uint8_t *payload = k->packed.data + sizeof header;
	memset(k->packed.data, 0, whole);
	int rc = source_read(&k->source, payload, header.stored_bytes,
			     entry->offset + sizeof header, k->err);
	if (rc)
		return rc;
	if (!block_payload_valid(&header, k->source.file_id, payload))
		return fail_damaged(k, entry);
	block_reseal(&header, k->file_id, k->sequence++, payload);
	memcpy(k->packed.data, &header, sizeof header);
	return write_out(k, k->packed.data, whole);
}

/* ---- blocks with words ---- */

/* The raw bytes in k->raw become a block with the facts of the old one. */
static int put_raw(struct rename *k, const struct format_index_entry *entry,
		   const struct bytes *raw)
{
	struct format_block_header header = entry->header;
	header.sequence = k->sequence++;
	k->packed.used = 0;
	if (raw->used > FORMAT_RAW_MAX)
		return tm_fail(k->err, -EFBIG, "'%s': the new names take too much room",
			       k->source.path);
	if (!raw->failed)
		block_pack(k->zstd, k->file_id, &header, raw->data, raw->used, &k->packed);
	if (raw->failed || k->packed.failed)
		return fail_memory(k);
	return write_out(k, k->packed.data, k->packed.used);
}

static int rename_meta(struct rename *k, const struct format_index_entry *entry)
{
	struct trace_meta meta;
	struct bytes out = {0};
	if (!rows_get_meta(span_of(k->raw.data, k->raw.used), &k->texts, &meta))
		return k->texts.failed ? fail_memory(k) : fail_damaged(k, entry);
	int rc = k->words->meta(k->words->ctx, &meta);
	if (rc)
		return fail_memory(k);
	rows_put_meta(&out, &meta);
	rc = put_raw(k, entry, &out);
	bytes_done(&out);
	return rc;
}

static int rename_end(struct rename *k, const struct format_index_entry *entry)
{
	struct trace_end end;
	struct bytes out = {0};
	if (!rows_get_end(span_of(k->raw.data, k->raw.used), &k->texts, &end))
		return k->texts.failed ? fail_memory(k) : fail_damaged(k, entry);
	k->words->end(k->words->ctx, &end);
	rows_put_end(&out, &end);
	int rc = put_raw(k, entry, &out);
	bytes_done(&out);
	return rc;
}

/* One row; 0, -EBADMSG, -ENOMEM. */
typedef int (*row_fn)(struct rename *k, uint32_t section, struct rows_reader *in,
		      struct stream *out);

static int module_row(struct rename *k, uint32_t section, struct rows_reader *in,
		      struct stream *out)
{
	struct trace_module module;
	if (!rows_get_module(in, &module))
		return -EBADMSG;
	int rc = k->words->module(k->words->ctx, section, &module);
	if (!rc)
		rows_put_module(out, &module);
	return rc;
}

static int thread_row(struct rename *k, uint32_t section, struct rows_reader *in,
		      struct stream *out)
{
	struct trace_thread thread;
	(void)section;
	if (!rows_get_thread(in, &thread))
		return -EBADMSG;
	int rc = k->words->thread(k->words->ctx, &thread);
	if (!rc)
		rows_put_thread(out, &thread);
	return rc;
}

static int moment_row(struct rename *k, uint32_t section, struct rows_reader *in,
		      struct stream *out)
{
	struct trace_moment moment;
	(void)section;
	if (!rows_get_moment(in, &moment))
		return -EBADMSG;
	int rc = k->words->moment(k->words->ctx, &moment);
	if (!rc)
		rows_put_moment(out, &moment);
	return rc;
}

static int symbol_row(struct rename *k, uint32_t section, struct rows_reader *in,
		      struct stream *out)
{
	struct trace_symbol symbol;
	if (!rows_get_symbol(in, &symbol))
		return -EBADMSG;
	int rc = k->words->symbol(k->words->ctx, section, &symbol);
	if (!rc)
		rows_put_symbol(out, &symbol);
	return rc;
}

static int rename_rows(struct rename *k, const struct format_index_entry *entry, row_fn row)
{
	struct rows_reader in = {.texts = &k->texts};
	struct stream out;
	struct bytes raw = {0};
	uint32_t from[STREAM_COLUMNS] = {0};
	int rc = 0;
	if (!container_get(span_of(k->raw.data, k->raw.used), in.columns, 1))
		return fail_damaged(k, entry);
	stream_init(&out, (enum format_type)entry->header.type, 1);
	for (uint32_t i = 0; i < entry->header.count && !rc; i++)
		rc = row(k, entry->header.section, &in, &out);
	if (!rc && k->texts.failed)
		rc = -ENOMEM;
	stream_piece(&out, from, &raw);
	if (rc)
		rc = rc == -ENOMEM ? fail_memory(k) : fail_damaged(k, entry);
	else
		rc = put_raw(k, entry, &raw);
	bytes_done(&raw);
	stream_done(&out);
	return rc;
}

static int rename_block(struct rename *k, const struct format_index_entry *entry)
{
	int rc = source_load(&k->source, entry, &k->raw, k->err);
	if (rc == -EBADMSG)
		return fail_damaged(k, entry);
	if (rc)
		return rc;
	switch (entry->header.type) {
	case FORMAT_BEGIN:
		rc = rename_meta(k, entry);
		break;
	case FORMAT_END:
		rc = rename_end(k, entry);
		break;
	case FORMAT_MODULES:
		rc = rename_rows(k, entry, module_row);
		break;
	case FORMAT_THREADS:
		rc = rename_rows(k, entry, thread_row);
		break;
	case FORMAT_MOMENTS:
		rc = rename_rows(k, entry, moment_row);
		break;
	default:
		rc = rename_rows(k, entry, symbol_row);
		break;
	}
	texts_done(&k->texts);
	return rc;
}

/* Every type is named here: one that is added later is left out until somebody thinks of it. */
static int copy_block(struct rename *k, const struct format_index_entry *entry)
{
	switch (entry->header.type) {
	case FORMAT_BEGIN:
	case FORMAT_END:
	case FORMAT_MODULES:
	case FORMAT_THREADS:
	case FORMAT_MOMENTS:
	case FORMAT_SYMBOLS:
		return rename_block(k, entry);
	case FORMAT_STACKS:
	case FORMAT_EVENTS:
	case FORMAT_ADDRESSES:
	case FORMAT_MAPS:
	case FORMAT_SAMPLES:
	case FORMAT_SLICE:
	case FORMAT_ENDS:
	case FORMAT_SUMS:
	case FORMAT_CURVE:
		return copy_stored(k, entry);
	default:
		return 0;
	}
}

static int copy_all(struct rename *k)
{
	struct format_file_header header;
	int rc = io_random(&k->file_id, sizeof k->file_id);
	if (rc)
		return fail_writing(k, rc);
	block_file_header_init(&header, k->file_id);
	rc = write_out(k, &header, sizeof header);
	for (size_t i = 0; i < k->scan.count && !rc; i++) {
		rc = copy_block(k, &k->scan.entries[i]);
		if (!rc && k->words->progress)
			rc = k->words->progress(k->words->ctx, k->scan.entries[i].offset,
						k->source.file_bytes);
	}
	if (rc)
		return rc;
	k->packed.used = 0;
	rc = index_build(k->fd, k->file_id, k->end, k->zstd, &k->packed);
	return rc ? fail_writing(k, rc) : write_out(k, k->packed.data, k->packed.used);
}

int trace_rename(const char *path, int fd, const struct trace_words *words, struct tm_error *err)
{
	struct rename k = {.words = words, .err = err, .fd = fd, .source = {.fd = -1}};
	int rc = source_open(&k.source, path, err);
	if (!rc)
		rc = scan_file(&k.scan, &k.source, err);
	if (!rc && (!k.scan.finished || k.source.warnings))
		rc = tm_fail(err, -EBADMSG,
			     "'%s' has no end or is damaged: make it sound first with 'tidemark "
			     "repair'",
			     path);
	if (!rc)
		k.zstd = block_packer();
	if (!rc && !k.zstd)
		rc = fail_memory(&k);
	if (!rc)
		rc = copy_all(&k);
	ZSTD_freeCCtx(k.zstd);
	bytes_done(&k.raw);
	bytes_done(&k.packed);
	texts_done(&k.texts);
	scan_done(&k.scan);
	source_close(&k.source);
	return rc;
}
