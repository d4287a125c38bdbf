/* SPDX-License-Identifier: Apache-2.0 */
/* bytehound's .dat files, made event by event: for tests, the fuzz corpus and the figures. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dat {
	uint8_t *bytes; /* the inner stream */
	size_t used, room;
};

void dat_done(struct dat *dat);
void dat_u8(struct dat *dat, uint8_t value);
void dat_u32(struct dat *dat, uint32_t value);
void dat_u64(struct dat *dat, uint64_t value);
void dat_varint(struct dat *dat, uint64_t value);
/* u32 length and bytes. */
void dat_text(struct dat *dat, const char *text);
void dat_bytes(struct dat *dat, const void *bytes, size_t count);

/* Events. Times are microseconds since the header's. */
enum { DAT_START_US = 1000000 };
void dat_header(struct dat *dat, const char *command);
void dat_backtrace(struct dat *dat, uint64_t id, const uint64_t *addresses, uint32_t count);
struct dat_block {
	uint64_t owner, counter; /* the AllocId; owner UINT64_MAX: the old events, without one */
	uint64_t time_us, pointer, size, backtrace;
	uint32_t thread, flags;
};
void dat_alloc(struct dat *dat, const struct dat_block *block);
void dat_realloc(struct dat *dat, const struct dat_block *block, uint64_t old_pointer);
void dat_free(struct dat *dat, const struct dat_block *block);

/*
 * The file: chunks of at most `chunk` bytes, stored or packed. Packed ones end with a
 * match and an empty token, as bytehound's do. The caller frees *ret (tm_free).
 */
size_t dat_file(const struct dat *dat, size_t chunk, bool packed, uint8_t **ret);
