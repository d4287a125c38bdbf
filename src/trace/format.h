/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fixed parts of a trace file as they are on disk, little-endian.
 * docs/trace-format.md explains them; this header and that page change together.
 *
 *   file header | block | block | ... | INDEX blocks | trailer
 *
 * While a file is being written its end is missing, and the tail that is not
 * yet sealed lies behind a hole, at the header's journal_offset:
 *
 *   file header | block | ... | block |  hole  | journal block | journal block
 */
#pragma once

#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs below are stored as they are");

#define FORMAT_FILE_MAGIC    "TIDE\r\n\032\n"
#define FORMAT_TRAILER_MAGIC "TIDEEND\n"

enum {
	FORMAT_VERSION = 1,
	FORMAT_BLOCK_MAGIC = 0x4b424454, /* "TDBK" */
	FORMAT_ALIGN = 8,                /* every block starts at a multiple of this */
	FORMAT_RAW_MAX = 64 << 20,       /* no block is larger than this, unpacked */
	FORMAT_BLOCK_EVENTS = 65536,     /* events in an EVENTS block at most */
	FORMAT_INDEX_ENTRIES = 65536,    /* entries in an INDEX block at most */
	FORMAT_JOURNAL_GAP = 2 << 20,
};

enum format_type {
	FORMAT_BEGIN = 1,
	FORMAT_STACKS = 2,
	FORMAT_MODULES = 3,
	FORMAT_THREADS = 4,
	FORMAT_EVENTS = 5,
	FORMAT_ADDRESSES =
		6, /* the address columns of the EVENTS block with the same first_ordinal */
	FORMAT_MAPS = 7,
	FORMAT_SAMPLES = 8,
	FORMAT_SLICE = 9,
	FORMAT_SYMBOLS = 10,
	FORMAT_END = 11,
	FORMAT_REFS = 12,
	FORMAT_INDEX = 13,
	FORMAT_SOURCES = 14,
	FORMAT_ENDS = 15, /* ends of older blocks in the EVENTS block with the same first_ordinal */
	FORMAT_SUMS = 16, /* sums over all slices before it */
	FORMAT_CURVE = 17,   /* the facts of slices, without their rows */
	FORMAT_MOMENTS = 18, /* marks and pauses */
	FORMAT_GAP = 19,     /* room that later blocks may take; what it holds says nothing */
	FORMAT_TYPE_COUNT = 20,
};

enum {
	FORMAT_COMPRESSED = 1u << 0, /* zstd frames; else stored as it is */
	FORMAT_JOURNAL = 1u << 1,    /* lies in the journal; ignored once its ordinals are sealed */
	FORMAT_CONTINUES =
		1u << 2, /* columns continue those of the journal block of this type before */
	FORMAT_FREE_STACKS = 1u << 3, /* EVENTS: frees have a stack of their own */
	/* CURVE: each says how many slices it stands for. MAPS, SAMPLES: fewer rows stand for those
	 * up to the ordinal in first_block_id. */
	FORMAT_MERGED = 1u << 4,
};

struct format_file_header {
	uint8_t magic[8];
	uint32_t version;
	uint32_t header_bytes;
	uint64_t file_id;        /* random; seeds every checksum */
	uint64_t checksum;       /* of the 24 bytes above */
	uint64_t journal_offset; /* 0 = none; the only word of the file that changes */
	uint8_t reuse; /* 1: blocks may lie in the room of older ones; their sequence is the order
			*/
	uint8_t reserved[23];
};
_Static_assert(sizeof(struct format_file_header) == 64, "file header layout");

/*
 * Ordinals count within the section: events for EVENTS, ADDRESSES and REFS,
 * stacks, samples, maps, slices for the others. What a type does not use is 0.
 */
struct format_block_header {
	uint32_t magic;
	uint8_t type;
	uint8_t flags;
	uint16_t reserved;
	uint32_t section;
	uint32_t sequence; /* rises by 1 from block to block; journal blocks count apart */
	uint32_t stored_bytes;
	uint32_t raw_bytes;
	uint64_t first_ordinal;
	uint32_t count;
	uint32_t payload_checksum;
	uint64_t first_block_id; /* EVENTS; THREADS and MODULES: one past the highest id */
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t min_size_bytes; /* of the allocations in it; min > max: there are none */
	uint64_t max_size_bytes;
	uint64_t header_checksum; /* of everything above */
};
_Static_assert(sizeof(struct format_block_header) == 88, "block header layout");

struct format_index_entry {
	uint64_t offset;
	struct format_block_header header;
};
_Static_assert(sizeof(struct format_index_entry) == 96, "index entry layout");

struct format_trailer {
	uint8_t magic[8];
	uint64_t file_id;
	uint64_t index_offset; /* of the first INDEX block; they follow each other up to here */
	uint64_t checksum;     /* of the 24 bytes above */
};
_Static_assert(sizeof(struct format_trailer) == 32, "trailer layout");
