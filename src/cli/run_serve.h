/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a program that is being recorded: 'tidemark serve' in a process of
 * its own, so that nothing of HTTP comes near the recording.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct run_serve {
	const char *listen; /* as serve's --listen; NULL = its default */
	bool metrics_only;  /* only /metrics, and only while the program runs */
	bool quiet;
	pid_t pid; /* 0: not started */
};

/* Starts it for the trace and says the address. What goes wrong is said, too. */
void run_serve_start(struct run_serve *serve, const char *path);
/* The program has ended: the page stays until a signal comes, metrics end. */
void run_serve_wait(struct run_serve *serve);
