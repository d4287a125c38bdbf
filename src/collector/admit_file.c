/* SPDX-License-Identifier: Apache-2.0 */
/* The file of whoever is let in. */
#include "collector/session.h"

#include <stdio.h>

#include "base/memory.h"
#include "collector/admit_drop.h"
#include "collector/output.h"

/* Whoever comes later may not have the place of a trace that this session has written. */
static bool is_first(const struct session *session)
{
	return !session->process_count && !session->finished_count && !session->first_recording;
}

/* A file under that name, or one like it. With --force not in the place of the program. */
static int make_file(const struct session *session, pid_t pid, const char *wanted,
		     struct output_file *ret_file, struct tm_error *err)
{
	const struct collector_options *options = session->options;
	bool runs_already = options->pid || session->beside;
	const char *programs[4] = {NULL};
	size_t count = 0;
	char image[32];
	snprintf(image, sizeof image, "/proc/%d/exe", (int)pid);
	if (runs_already)
		programs[count++] = image;
	if (session->preflight.path)
		programs[count++] = session->preflight.path;
	if (session->preflight.image)
		programs[count++] = session->preflight.image;
	const struct output_options output = {
		.path = wanted, .force = options->force && is_first(session), .programs = programs};
	return output_open(&output, ret_file, err);
}

static int open_file(struct session *session, const struct output_facts *facts,
		     struct recording **ret_recording, struct tm_error *err)
{
	const struct collector_options *options = session->options;
	struct output_file file = {.fd = -1};
	char *wanted = NULL;
	int error = output_path(options->output, facts, &wanted, err);
	if (!error && !is_first(session) && facts->piece < 2)
		admit_make_way(session, wanted, starter_role_of(facts->pid));
	if (!error)
		error = make_file(session, facts->pid, wanted, &file, err);
	tm_free(wanted);
	if (error)
		return error;
	if (options->pid)
		output_give(file.fd);
	struct recording_options recording = {.fd = file.fd,
					      .path = file.path,
					      .replaced = file.replaced,
					      .addresses = !options->no_addresses,
					      .max_bytes = options->max_file_bytes,
					      .retain_ns = options->bounds.retain_ns,
					      .retain_bytes = options->bounds.retain_bytes};
	error = recording_new(&recording, ret_recording, err);
	tm_free(file.path);
	return error;
}

uint32_t admit_next_piece(const struct session *session, pid_t pid)
{
	uint32_t piece = 1;
	for (size_t i = 0; i < session->process_count; i++)
		if (session->processes[i].pid == pid && session->processes[i].piece >= piece)
			piece = session->processes[i].piece + 1;
	for (size_t i = 0; i < session->finished_count; i++)
		if (session->finished[i].trace.pid == pid &&
		    session->finished[i].trace.piece >= piece)
			piece = session->finished[i].trace.piece + 1;
	return piece;
}

int admit_open_file(struct session *session, pid_t pid, const char *program,
		    struct recording **ret_recording, struct tm_error *err)
{
	struct output_facts facts = {.pid = pid,
				     .program = program,
				     .piece = admit_next_piece(session, pid),
				     .rotates = session->options->bounds.rotate_ns ||
						session->options->bounds.rotate_bytes,
				     .start_unix_ns = session->start_unix_ns};
	return open_file(session, &facts, ret_recording, err);
}
