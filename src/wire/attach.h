/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a tracer speaks with an agent that it has mapped into a process. The agent
 * has one block; the tracer finds it by its symbol in the agent's file, writes
 * orders into it, and has a borrowed thread of the process carry them out:
 *
 *   tracer   order arguments, then seq + 1       (through /proc/PID/mem)
 *   thread   does it, stores result, then done = seq; waits for the next
 *   tracer   stops the thread and gives it its registers back
 *
 * If the tracer is gone, or no order comes for a while, the thread gives itself
 * its registers back and goes its way. What was patched is written down here, too,
 * so that any later tracer can undo it. Freestanding-safe.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define WIRE_ATTACH_SYMBOL           "tidemark_attach_block"
#define WIRE_ATTACH_REGISTERS_OFFSET 592 /* of the block's registers */
#define WIRE_ATTACH_STACK_OFFSET     40  /* of stack_top */

enum {
	WIRE_ATTACH_MAGIC = 0x6b617474, /* "ttak" */
	WIRE_ATTACH_VERSION = 2,
	WIRE_ATTACH_PATCHES = 1024,
	WIRE_ATTACH_ISLANDS = 64,
	WIRE_ATTACH_RANGES = 32,
	WIRE_ATTACH_AUXV_WORDS = 64,
	WIRE_ATTACH_REGISTERS = 18,
	WIRE_ATTACH_STACK_BYTES = 256 * 1024,
};

enum wire_attach_order {
	WIRE_ATTACH_NONE = 0,
	WIRE_ATTACH_OPEN = 1,  /* make the shared memory's file: result is its descriptor */
	WIRE_ATTACH_CLOSE = 2, /* close descriptor argument[0] */
	WIRE_ATTACH_MAP = 3,   /* map argument[1] bytes at argument[0], if nothing is there: r-x */
	WIRE_ATTACH_BEGIN = 4, /* the session in descriptor argument[0], which is closed */
};

/* Registers in the order of wire_attach_block.registers. */
enum {
	WIRE_ATTACH_RAX,
	WIRE_ATTACH_RBX,
	WIRE_ATTACH_RCX,
	WIRE_ATTACH_RDX,
	WIRE_ATTACH_RSI,
	WIRE_ATTACH_RDI,
	WIRE_ATTACH_RBP,
	WIRE_ATTACH_R8,
	WIRE_ATTACH_R9,
	WIRE_ATTACH_R10,
	WIRE_ATTACH_R11,
	WIRE_ATTACH_R12,
	WIRE_ATTACH_R13,
	WIRE_ATTACH_R14,
	WIRE_ATTACH_R15,
	WIRE_ATTACH_RSP,
	WIRE_ATTACH_RFLAGS,
	WIRE_ATTACH_RIP,
};

struct wire_attach_patch {
	uint64_t address;
	uint8_t old[8]; /* what was there, and what is there while it is in place */
	uint8_t new[8];
	uint8_t bytes;
	uint8_t in_place;
	uint8_t pad[6];
};
_Static_assert(sizeof(struct wire_attach_patch) == 32, "patch layout");

struct wire_attach_range {
	uint64_t start, end;
};

struct wire_attach_block {
	/* Constants of the image. */
	uint32_t magic;
	uint32_t version;
	char tool_version[24];
	uint64_t entry;     /* where the borrowed thread begins */
	uint64_t stack_top; /* and its stack */
	uint64_t dlclose;   /* a hook to be jumped to as it is, and where its original belongs */
	uint64_t dlclose_real;

	/* Written by the tracer before the first order. */
	uint64_t image; /* where the agent's ELF header is */
	uint64_t image_bytes;
	uint64_t auxv[WIRE_ATTACH_AUXV_WORDS];

	/* The borrowed thread: what it must find when it is let go. */
	uint64_t registers[WIRE_ATTACH_REGISTERS];
	uint64_t signal_mask;
	_Atomic uint32_t left; /* 1: it has gone its way by itself */
	uint32_t seccomp;      /* not 0: once the session has begun, no system calls */

	/* Orders. */
	_Atomic uint32_t seq;  /* written by the tracer */
	_Atomic uint32_t done; /* written by the thread */
	uint32_t order;        /* enum wire_attach_order */
	/* 1 from before a thread is borrowed until it has its registers back: nobody else may use
	 * the block. If that tracer was killed, the thread gives itself back in some seconds. */
	_Atomic uint32_t serving;
	uint64_t argument[2];
	int64_t result; /* or -errno */

	/* The session: who records, since when. */
	uint32_t collector_pid; /* as the collector sees itself; 0: nobody */
	uint32_t session_count;
	uint64_t collector_start; /* its start time in ticks, from /proc */

	/* The process that traces for it; it may live on for a moment when the collector is dead.
	 */
	uint32_t tracer_pid;
	uint32_t tracer_inside; /* its number as this process sees it; 0: it cannot */
	uint64_t tracer_start;

	/* What was done to the process. */
	uint32_t patch_count;
	uint32_t island_count;
	uint32_t range_count;
	uint32_t reserved2;
	struct wire_attach_range islands[WIRE_ATTACH_ISLANDS];
	struct wire_attach_range ranges[WIRE_ATTACH_RANGES]; /* code of the allocators */
	struct wire_attach_patch patches[WIRE_ATTACH_PATCHES];
};
