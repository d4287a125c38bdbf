/* SPDX-License-Identifier: Apache-2.0 */
#include "server/pieces.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "trace/trace.h"

#define LOOK_NS 1000000000ull

enum { SEEN_MAX = 4096 };

struct watched {
	char *path;
	size_t folder_bytes; /* of the path, without the slash */
	uint64_t series_id;
	bool is_read;
};

struct pieces {
	struct watched *list;
	size_t count;
	uint64_t *seen; /* hashes of paths that were told, or are of no series of ours */
	size_t seen_count;
	uint64_t looked_ns;
};

struct pieces *pieces_new(void)
{
	return tm_alloc(sizeof(struct pieces));
}

struct pieces *pieces_free(struct pieces *pieces)
{
	if (!pieces)
		return NULL;
	for (size_t i = 0; i < pieces->count; i++)
		tm_free(pieces->list[i].path);
	tm_free(pieces->list);
	tm_free(pieces->seen);
	return tm_free(pieces);
}

static uint64_t hash_of(const char *path)
{
	return hash_bytes(path, strlen(path));
}

static bool is_seen(const struct pieces *pieces, const char *path)
{
	uint64_t hash = hash_of(path);
	for (size_t i = 0; i < pieces->seen_count; i++)
		if (pieces->seen[i] == hash)
			return true;
	return pieces->seen_count == SEEN_MAX;
}

/* Without memory it is looked at again. */
static void note_seen(struct pieces *pieces, const char *path)
{
	void *grown = tm_grow_array(pieces->seen, pieces->seen_count + 1, sizeof *pieces->seen);
	if (!grown)
		return;
	pieces->seen = grown;
	pieces->seen[pieces->seen_count++] = hash_of(path);
}

int pieces_watch(struct pieces *pieces, const char *path)
{
	const char *slash = strrchr(path, '/');
	void *grown = tm_grow_array(pieces->list, pieces->count + 1, sizeof *pieces->list);
	char *copy = tm_strdup(path);
	if (grown)
		pieces->list = grown;
	if (!grown || !copy) {
		tm_free(copy);
		return -ENOMEM;
	}
	pieces->list[pieces->count++] =
		(struct watched){.path = copy, .folder_bytes = slash ? (size_t)(slash - path) : 0};
	note_seen(pieces, path);
	return 0;
}

/* 0, or not: nothing can be read of it, maybe not yet. */
static int read_series(const char *path, uint64_t *ret_id)
{
	struct trace_reader *reader;
	const struct trace_meta *meta;
	struct tm_error err;
	int code = trace_reader_open(path, &reader, &err);
	if (code)
		return code;
	code = trace_reader_section_count(reader) ? trace_reader_meta(reader, &meta, &err)
						  : -ENODATA;
	if (!code)
		*ret_id = meta->series_id;
	trace_reader_close(reader);
	return code;
}

/* Names that differ by numbers, as "app.tide" and "app.2.tide". */
static bool is_alike(const char *a, const char *b)
{
	static const char numbers[] = ".0123456789";
	for (;;) {
		a += strspn(a, numbers);
		b += strspn(b, numbers);
		if (*a != *b)
			return false;
		if (!*a)
			return true;
		a++;
		b++;
	}
}

static void look_at(struct pieces *pieces, const struct watched *watched, const char *name,
		    piece_fn fn, void *ctx)
{
	char path[4096];
	uint64_t series_id;
	int used = snprintf(path, sizeof path, "%.*s/%s", (int)watched->folder_bytes, watched->path,
			    name);
	if (used >= (int)sizeof path || is_seen(pieces, path) || read_series(path, &series_id))
		return;
	note_seen(pieces, path);
	if (series_id == watched->series_id)
		fn(ctx, path);
}

static void look_beside(struct pieces *pieces, struct watched *watched, piece_fn fn, void *ctx)
{
	char folder[4096];
	if (!watched->is_read && read_series(watched->path, &watched->series_id))
		return;
	watched->is_read = true;
	if (!watched->series_id || watched->folder_bytes >= sizeof folder)
		return;
	memcpy(folder, watched->path, watched->folder_bytes);
	folder[watched->folder_bytes] = '\0';
	DIR *dir = opendir(folder[0] ? folder : "/");
	if (!dir)
		return;
	for (const struct dirent *found; (found = readdir(dir));)
		if (found->d_name[0] != '.' &&
		    is_alike(found->d_name, watched->path + watched->folder_bytes + 1))
			look_at(pieces, watched, found->d_name, fn, ctx);
	closedir(dir);
}

void pieces_look(struct pieces *pieces, piece_fn fn, void *ctx)
{
	uint64_t now_ns = clock_steady_ns();
	if (!pieces->count || (pieces->looked_ns && now_ns - pieces->looked_ns < LOOK_NS))
		return;
	pieces->looked_ns = now_ns;
	for (size_t i = 0; i < pieces->count; i++)
		look_beside(pieces, &pieces->list[i], fn, ctx);
}
