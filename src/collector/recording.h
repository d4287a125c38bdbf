/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One trace file being written: the images of one process, one after the
 * other (an exec begins a new section), each drained by the recording's thread.
 */
#pragma once

#include "base/error.h"
#include "collector/replaced.h"
#include "collector/section.h"

#include <stddef.h>

struct recording;

/* Takes fd over (a new, empty file, which is deleted on failure). path is copied. */
struct recording_options {
	int fd;
	const char *path;
	struct replaced replaced; /* taken over, also on failure */
	bool addresses;
	uint64_t max_bytes;
	uint64_t retain_ns, retain_bytes; /* as in trace_writer_options */
};
TM_MUST_CHECK int recording_new(const struct recording_options *options,
				struct recording **ret_recording, struct tm_error *err);

/*
 * The next image. Takes the section over; the one before must have been ended. From the first on
 * the file is a trace: what it replaces is deleted.
 */
TM_MUST_CHECK int recording_add(struct recording *recording, struct section *section,
				struct tm_error *err);
/* The image that is being recorded, or the last one; NULL before the first. Borrowed. */
struct section *recording_section(const struct recording *recording);

/* Events of all images but the last. After recording_finish(). */
uint64_t recording_earlier_events(const struct recording *recording);

/* One of its images may still look into this recording of its parent. Main thread. */
bool recording_awaits(struct recording *recording, const struct recording *parent);

/* No more images come: the thread finishes the file by itself. */
void recording_close(struct recording *recording);
/* It has. Thread-safe. */
bool recording_is_done(const struct recording *recording);
/* No more images come. Waits until all is written and the file is closed. */
int recording_finish(struct recording *recording, struct tm_error *err);

/* Where the file is; changes when it is renamed. */
const char *recording_path(const struct recording *recording);
TM_MUST_CHECK int recording_rename(struct recording *recording, const char *path);
/* Bytes of the file so far. Thread-safe. */
uint64_t recording_written(const struct recording *recording);
/* Events of its last image that were folded. Thread-safe. */
uint64_t recording_folded(const struct recording *recording);
/* Which file it is, whatever its name. */
void recording_identity(const struct recording *recording, uint64_t *ret_device,
			uint64_t *ret_inode);
/* Bytes of the file, after recording_finish(). */
uint64_t recording_bytes(const struct recording *recording);
/* It takes no more images (it was stopped, or a limit was reached). */
bool recording_closed(const struct recording *recording);

/*
 * Finishes it, and removes its file if that is the one that was written. When nothing came of it,
 * what it was to replace is there again.
 */
void recording_remove(struct recording *recording);

/* After recording_finish(). */
struct recording *recording_free(struct recording *recording);
/* Both: of one that is not wanted after all. Accepts NULL. */
struct recording *recording_discard(struct recording *recording);
