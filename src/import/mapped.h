/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of a profile and the mappings that it lists (the lines of
 * /proc/self/maps): frames without names, which are looked up at the end in the
 * modules' files, on this machine or below the sysroot. Nothing in such a file
 * says whether these are the ones that ran.
 */
#pragma once

#include "import/frames.h"

struct mapped;

TM_MUST_CHECK int mapped_new(struct import_job *job, struct mapped **ret_mapped,
			     struct tm_error *err);
struct mapped *mapped_free(struct mapped *m);
/* A line of /proc/PID/maps; others are ignored. -ENOMEM. Before the first frame. */
TM_MUST_CHECK int mapped_line(struct mapped *m, const char *line, size_t length,
			      struct tm_error *err);
/* The frame of a return address. */
TM_MUST_CHECK int mapped_frame(struct mapped *m, struct frames *frames, uint64_t address,
			       uint32_t *ret_frame_id, struct tm_error *err);
/* Looks up and writes the names. After frames_finish(). */
TM_MUST_CHECK int mapped_names(struct mapped *m, struct tm_error *err);
/* Path of the first mapping: the program; "" = unknown. */
const char *mapped_program(const struct mapped *m);
