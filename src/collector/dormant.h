/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes whose agent sleeps: each has a page in /dev/shm (wire/page.h), which
 * is read and written as a file, since its owner may cut it short at any time.
 */
#pragma once

#include "base/error.h"
#include "wire/page.h"

#include <stdbool.h>
#include <sys/types.h>

struct dormant {
	int fd; /* -1: none */
	pid_t pid;
	char path[80];
	struct wire_page page; /* as it was when it was read last */
};

/*
 * The page of a process. False: it has none that we may use. One that a process
 * which is gone, or is another program now, has left is removed.
 */
bool dormant_open(pid_t pid, struct dormant *ret);
void dormant_close(struct dormant *dormant);
/* Reads it again; false: it is gone. */
bool dormant_read(struct dormant *dormant);
/* Has the process call this session at its next allocation. */
TM_MUST_CHECK int dormant_wake(struct dormant *dormant, const char *session, struct tm_error *err);
/* Takes that back, if it has not been heard. */
void dormant_hush(struct dormant *dormant);
/* Why it did not come: a sentence; NULL: it has not said no. */
const char *dormant_refusal(const struct dormant *dormant);

/* All that we may use, in no order. */
typedef void (*dormant_fn)(void *ctx, const struct dormant *dormant);
void dormant_each(dormant_fn fn, void *ctx);
