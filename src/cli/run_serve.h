/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page, the figures and the profiles of a program that is being recorded:
 * 'tidemark serve' in a process of its own, so that nothing of HTTP comes near the
 * recording.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct run_serve {
	const char *listen;        /* as serve's --listen; NULL = its default */
	const char *push;          /* as serve's --push; NULL = none */
	const char *push_interval; /* as serve's; NULL = its default */
	bool wanted;
	bool metrics_only; /* only /metrics, and only while the program runs */
	bool quiet;
	pid_t pid; /* 0: not started */
};

/* One for people, one for machines: what the options of run and attach ask for. */
struct run_servers {
	struct run_serve page, metrics;
};

/* --metrics and --push. */
void run_servers_metrics(struct run_servers *servers, const char *listen);
void run_servers_push(struct run_servers *servers, const char *url);
/* What does not fit together is said; false then. `command`: for messages. */
bool run_servers_check(const struct run_servers *servers, const char *command);
/* Starts what is wanted for the trace and says the addresses. What goes wrong is said, too. */
void run_servers_start(struct run_servers *servers, const char *path, bool quiet, FILE *front);
/* The program has ended: the page stays until a signal comes, the others end. */
void run_servers_wait(struct run_servers *servers);
