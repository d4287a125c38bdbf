/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a process whose agent sleeps: a file of 4 KiB in /dev/shm (else
 * /tmp), named by user and process, that only this user may open. The agent maps
 * it and closes it; waking it is writing into it. Freestanding-safe.
 *
 *   tool    wake: 0 -> WIRE_WAKE_WRITING, session, then WIRE_WAKE_ASKED
 *   agent   at its next call: wake -> 0, then it calls the session's socket;
 *           `refused` says why it could not
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define WIRE_PAGE_NAME "tidemark-agent-" /* then the user's number, "-", the process's */
#define WIRE_PAGE_SHM  "/dev/shm/"
#define WIRE_PAGE_TMP  "/tmp/"

enum {
	WIRE_PAGE_MAGIC = 0x67706474, /* "tdpg" */
	WIRE_PAGE_VERSION = 1,
	WIRE_PAGE_FILE_BYTES = 4096,
	WIRE_PAGE_SESSION_BYTES = 200,
};

/* page.wake; hooks compare with WIRE_WAKE_ASKED, below which they pass on. */
enum wire_wake {
	WIRE_WAKE_NO = 0,
	WIRE_WAKE_WRITING = 1,
	WIRE_WAKE_ASKED = 2, /* by a tool: call `session` */
	WIRE_WAKE_SELF = 3,  /* by a signal to the program: call the session it had */
};

enum wire_refused {
	WIRE_REFUSED_NO = 0,
	WIRE_REFUSED_SECCOMP = 1,   /* the program forbids the calls that it takes */
	WIRE_REFUSED_BUSY = 2,      /* a thread is inside the session before */
	WIRE_REFUSED_UNREACHED = 3, /* the socket was not there, or sent us away */
	WIRE_REFUSED_MEMORY = 4,
};

struct wire_page {
	uint32_t magic;
	uint32_t version;
	char agent_version[24];
	uint32_t pid; /* as the process sees itself */
	uint32_t uid;
	uint64_t start_ticks; /* when it began, as in /proc/PID/stat: another of this number differs
			       */
	_Atomic uint32_t wake;      /* enum wire_wake */
	_Atomic uint32_t recording; /* 1 while a session has it */
	_Atomic uint32_t refused;   /* enum wire_refused: of the last time it was woken */
	_Atomic uint32_t sessions;  /* that it has had */
	char session[WIRE_PAGE_SESSION_BYTES]; /* as TIDEMARK_SESSION */
};
_Static_assert(sizeof(struct wire_page) <= WIRE_PAGE_FILE_BYTES, "page layout");
