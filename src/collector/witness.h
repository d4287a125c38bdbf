/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal that was sent to tidemark is passed on to the program; one that was
 * sent to the whole process group, or by a service manager to every process, has
 * reached the program already. Nothing in a signal tells the two apart. So there
 * is a witness: a small process in our group that does nothing but receive what
 * the whole group receives.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct witness_page;

struct witness {
	pid_t pid;                 /* 0: none */
	struct witness_page *page; /* shared with it */
};

/*
 * Starts it, with all signals blocked. Where that fails there is none, and every
 * signal is taken as sent to us alone. It ends with the thread that started it.
 */
void witness_start(struct witness *witness);
void witness_stop(struct witness *witness);

/*
 * Did it get this signal, too, about now? Waits some milliseconds for the
 * answer no. A signal counts once.
 */
bool witness_saw(struct witness *witness, int signal);
