/* SPDX-License-Identifier: Apache-2.0 */
#include "export/outlet.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/memory.h"

enum { PIECE_BYTES = 64 * 1024, GZIP_WINDOW = 15 + 16, ZSTD_LEVEL = 3 };

struct outlet_packer {
	enum outlet_packing packing;
	z_stream gzip;
	ZSTD_CCtx *zstd;
	unsigned char out[PIECE_BYTES];
};

static struct outlet_packer *packer_free(struct outlet_packer *packer)
{
	if (packer && packer->packing == OUTLET_GZIP)
		deflateEnd(&packer->gzip);
	if (packer && packer->packing == OUTLET_ZSTD)
		ZSTD_freeCCtx(packer->zstd);
	return tm_free(packer);
}

static bool packer_start(struct outlet_packer *packer, enum outlet_packing packing)
{
	if (packing == OUTLET_GZIP && deflateInit2(&packer->gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
						   GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	if (packing == OUTLET_ZSTD) {
		packer->zstd = ZSTD_createCCtx();
		if (!packer->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(
					     packer->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)))
			return false;
	}
	packer->packing = packing;
	return true;
}

int outlet_open(struct outlet *outlet, enum outlet_packing packing, outlet_write_fn write,
		void *ctx)
{
	*outlet = (struct outlet){.write = write, .ctx = ctx};
	if (packing == OUTLET_PLAIN)
		return 0;
	outlet->packer = tm_alloc(sizeof *outlet->packer);
	if (outlet->packer && packer_start(outlet->packer, packing))
		return 0;
	if (outlet->packer)
		ZSTD_freeCCtx(outlet->packer->zstd);
	outlet->packer = tm_free(outlet->packer);
	return -ENOMEM;
}

static int put_gzip(struct outlet *outlet, bool last)
{
	struct outlet_packer *packer = outlet->packer;
	int state;
	packer->gzip.next_in = (unsigned char *)outlet->text.data;
	packer->gzip.avail_in = (unsigned)outlet->text.length;
	do {
		packer->gzip.next_out = packer->out;
		packer->gzip.avail_out = sizeof packer->out;
		state = deflate(&packer->gzip, last ? Z_FINISH : Z_NO_FLUSH);
		if (state == Z_STREAM_ERROR)
			return -EIO;
		int code = outlet->write(outlet->ctx, packer->out,
					 sizeof packer->out - packer->gzip.avail_out);
		if (code)
			return code;
	} while (packer->gzip.avail_out == 0 || (last && state != Z_STREAM_END));
	return 0;
}

static int put_zstd(struct outlet *outlet, bool last)
{
	struct outlet_packer *packer = outlet->packer;
	ZSTD_inBuffer in = {outlet->text.data, outlet->text.length, 0};
	size_t left;
	do {
		ZSTD_outBuffer out = {packer->out, sizeof packer->out, 0};
		left = ZSTD_compressStream2(packer->zstd, &out, &in,
					    last ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return -ENOMEM;
		int code = outlet->write(outlet->ctx, packer->out, out.pos);
		if (code)
			return code;
	} while (last ? left > 0 : in.pos < in.size);
	return 0;
}

static int hand_on(struct outlet *outlet, bool last)
{
	int code = text_error(&outlet->text);
	if (!outlet->error)
		outlet->error = code;
	if (outlet->error)
		return outlet->error;
	if (!outlet->packer)
		outlet->error = outlet->text.length ? outlet->write(outlet->ctx, outlet->text.data,
								    outlet->text.length)
						    : 0;
	else if (outlet->packer->packing == OUTLET_GZIP)
		outlet->error = put_gzip(outlet, last);
	else
		outlet->error = put_zstd(outlet, last);
	text_clear(&outlet->text);
	return outlet->error;
}

int outlet_flush(struct outlet *outlet)
{
	if (outlet->error)
		return outlet->error;
	return outlet->text.length >= PIECE_BYTES || outlet->text.error ? hand_on(outlet, false)
									: 0;
}

int outlet_close(struct outlet *outlet)
{
	int code = hand_on(outlet, true);
	text_done(&outlet->text);
	outlet->packer = packer_free(outlet->packer);
	return code;
}

enum outlet_packing outlet_packing_of(const char *path)
{
	size_t bytes = strlen(path);
	if (bytes > 3 && !strcmp(path + bytes - 3, ".gz"))
		return OUTLET_GZIP;
	if (bytes > 4 && !strcmp(path + bytes - 4, ".zst"))
		return OUTLET_ZSTD;
	return OUTLET_PLAIN;
}
