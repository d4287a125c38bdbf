/* SPDX-License-Identifier: Apache-2.0 */
#include "server/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/memory.h"
#include "server/pieces.h"

enum {
	OPEN_MAX = 8, /* traces kept open; of more, the ones that were asked least lately go */
	/* A recording writes its journal many times a second: a file that rested so long ended. */
	RESTS_SECONDS = 10,
};

struct entry {
	char id[CATALOG_ID_CHARS + 1];
	char *path;
	const char *name;
	char *owned_name; /* of add_named(), else NULL */
	uint64_t bytes;
	int64_t changed_ns;
	uint64_t used; /* rises with each use */
	bool is_there;
	struct shown *shown;
};

struct catalog {
	pthread_mutex_t lock;
	char **folders;
	size_t folder_count;
	struct entry **entries; /* pointers, since a shown trace refers to its entry's path */
	size_t count, room;
	uint64_t uses;
	struct shown_watcher watcher; /* entries point to it */
	struct pieces *pieces;        /* in which named files go on */
};

static int64_t time_ns(struct timespec time)
{
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Newest first, then by name, so that the order never changes by chance. */
static int compare(const void *a, const void *b)
{
	const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;
	if (x->changed_ns != y->changed_ns)
		return x->changed_ns < y->changed_ns ? 1 : -1;
	return strcmp(x->path, y->path);
}

static struct entry *find_path(struct catalog *catalog, const char *path)
{
	for (size_t i = 0; i < catalog->count; i++)
		if (!strcmp(catalog->entries[i]->path, path))
			return catalog->entries[i];
	return NULL;
}

static void name_entry(struct entry *entry, const char *by)
{
	snprintf(entry->id, sizeof entry->id, "%012llx",
		 (unsigned long long)(hash_bytes(by, strlen(by)) >> 16));
}

static struct entry *entry_new(const struct catalog *catalog, const char *path)
{
	struct entry *entry = tm_alloc(sizeof *entry);
	if (!entry)
		return NULL;
	entry->path = tm_strdup(path);
	entry->shown = entry->path ? shown_new(entry->path, &catalog->watcher) : NULL;
	if (!entry->shown) {
		tm_free(entry->path);
		return tm_free(entry);
	}
	const char *slash = strrchr(entry->path, '/');
	entry->name = slash ? slash + 1 : entry->path;
	name_entry(entry, path);
	return entry;
}

static int add(struct catalog *catalog, const char *path, const struct stat *status)
{
	struct entry *entry = find_path(catalog, path);
	if (!entry) {
		if (catalog->count == CATALOG_TRACES_MAX)
			return 0;
		if (catalog->count == catalog->room) {
			size_t room = catalog->room ? catalog->room * 2 : 16;
			struct entry **grown =
				tm_grow_array(catalog->entries, room, sizeof(struct entry *));
			if (!grown)
				return -ENOMEM;
			catalog->entries = grown;
			catalog->room = room;
		}
		entry = entry_new(catalog, path);
		if (!entry)
			return -ENOMEM;
		catalog->entries[catalog->count++] = entry;
	}
	entry->bytes = io_held_bytes(status);
	entry->changed_ns = time_ns(status->st_mtim);
	entry->is_there = true;
	return 0;
}

static bool is_trace_name(const char *name)
{
	size_t bytes = strlen(name);
	return name[0] != '.' && bytes > 5 && !strcmp(name + bytes - 5, ".tide");
}

static int scan_folder(struct catalog *catalog, const char *folder)
{
	DIR *dir = opendir(folder);
	int code = 0;
	if (!dir)
		return 0; /* gone since: it may come back */
	for (struct dirent *found; !code && (found = readdir(dir));) {
		char path[4096];
		struct stat status;
		if (!is_trace_name(found->d_name))
			continue;
		int used = snprintf(path, sizeof path, "%s/%s", folder, found->d_name);
		if (used < (int)sizeof path && !stat(path, &status) && S_ISREG(status.st_mode))
			code = add(catalog, path, &status);
	}
	closedir(dir);
	return code;
}

static int add_path(struct catalog *catalog, const char *path, struct tm_error *err)
{
	struct stat status;
	if (stat(path, &status))
		return tm_fail(err, -errno, "'%s' cannot be opened: %s", path, strerror(errno));
	char *whole = realpath(path, NULL);
	if (!whole && S_ISREG(status.st_mode)) /* it has lost its name, but can be opened */
		whole = strdup(path);
	if (!whole)
		return tm_fail(err, -errno, "'%s' cannot be opened: %s", path, strerror(errno));
	int code = -ENOMEM;
	if (S_ISDIR(status.st_mode)) {
		char **grown =
			tm_grow_array(catalog->folders, catalog->folder_count + 1, sizeof(char *));
		char *copy = tm_strdup(whole);
		if (grown)
			catalog->folders = grown;
		if (grown && copy) {
			catalog->folders[catalog->folder_count++] = copy;
			code = 0;
		} else {
			tm_free(copy);
		}
	} else if (S_ISREG(status.st_mode)) {
		code = add(catalog, whole, &status);
		if (!code)
			code = pieces_watch(catalog->pieces, whole);
	} else {
		code = tm_fail(err, -EINVAL, "'%s' is neither a trace file nor a folder", path);
	}
	free(whole);
	return code == -ENOMEM ? tm_fail(err, code, "no memory for the list of traces") : code;
}

/* A file without a place of its own: it is known by its name. */
static int add_named(struct catalog *catalog, const char *path, const char *name,
		     struct tm_error *err)
{
	struct stat status;
	if (stat(path, &status))
		return tm_fail(err, -errno, "'%s' cannot be opened: %s", name, strerror(errno));
	char *copy = tm_strdup(name);
	if (!copy || add(catalog, path, &status)) {
		tm_free(copy);
		return tm_fail(err, -ENOMEM, "no memory for the list of traces");
	}
	struct entry *entry = find_path(catalog, path);
	if (!entry) { /* there are too many */
		tm_free(copy);
		return 0;
	}
	const char *slash = strrchr(copy, '/');
	entry->owned_name = copy;
	entry->name = slash ? slash + 1 : copy;
	name_entry(entry, name);
	return 0;
}

int catalog_new(const char *const *paths, const char *const *names, size_t count,
		struct catalog **ret_catalog, struct tm_error *err)
{
	struct catalog *catalog = tm_alloc(sizeof *catalog);
	if (!catalog)
		return tm_fail(err, -ENOMEM, "no memory for the list of traces");
	pthread_mutex_init(&catalog->lock, NULL);
	catalog->pieces = pieces_new();
	int code = catalog->pieces ? 0 : tm_fail(err, -ENOMEM, "no memory for the list of traces");
	for (size_t i = 0; i < count && !code; i++)
		code = names && names[i] ? add_named(catalog, paths[i], names[i], err)
					 : add_path(catalog, paths[i], err);
	if (code) {
		catalog_free(catalog);
		return code;
	}
	catalog_refresh(catalog);
	*ret_catalog = catalog;
	return 0;
}

struct catalog *catalog_free(struct catalog *catalog)
{
	if (!catalog)
		return NULL;
	for (size_t i = 0; i < catalog->count; i++) {
		shown_free(catalog->entries[i]->shown);
		tm_free(catalog->entries[i]->path);
		tm_free(catalog->entries[i]->owned_name);
		tm_free(catalog->entries[i]);
	}
	for (size_t i = 0; i < catalog->folder_count; i++)
		tm_free(catalog->folders[i]);
	tm_free(catalog->entries);
	tm_free(catalog->folders);
	pieces_free(catalog->pieces);
	pthread_mutex_destroy(&catalog->lock);
	return tm_free(catalog);
}

bool catalog_add(struct catalog *catalog, const char *path, char ret_id[CATALOG_ID_CHARS + 1])
{
	struct stat status;
	pthread_mutex_lock(&catalog->lock);
	struct entry *entry = find_path(catalog, path);
	if (!entry && !stat(path, &status) && S_ISREG(status.st_mode) &&
	    !add(catalog, path, &status))
		entry = find_path(catalog, path);
	if (entry)
		memcpy(ret_id, entry->id, sizeof entry->id);
	pthread_mutex_unlock(&catalog->lock);
	return entry != NULL;
}

static void add_piece(void *ctx, const char *path)
{
	struct stat status;
	if (!stat(path, &status) && S_ISREG(status.st_mode))
		(void)!add(ctx, path, &status); /* no memory: the list is as long as it is */
}

static void look_again(struct catalog *catalog)
{
	for (size_t i = 0; i < catalog->count; i++) {
		struct entry *entry = catalog->entries[i];
		struct stat status;
		entry->is_there = !stat(entry->path, &status) && S_ISREG(status.st_mode);
		if (entry->is_there) {
			entry->bytes = io_held_bytes(&status);
			entry->changed_ns = time_ns(status.st_mtim);
		}
	}
	for (size_t i = 0; i < catalog->folder_count; i++)
		if (scan_folder(catalog, catalog->folders[i]))
			break; /* no memory: the list is as long as it is */
	pieces_look(catalog->pieces, add_piece, catalog);
	if (catalog->count)
		qsort(catalog->entries, catalog->count, sizeof(struct entry *), compare);
}

void catalog_watch(struct catalog *catalog, struct shown_watcher watcher)
{
	catalog->watcher = watcher;
}

void catalog_cancel(struct catalog *catalog)
{
	pthread_mutex_lock(&catalog->lock);
	for (size_t i = 0; i < catalog->count; i++)
		shown_cancel(catalog->entries[i]->shown);
	pthread_mutex_unlock(&catalog->lock);
}

size_t catalog_refresh(struct catalog *catalog)
{
	pthread_mutex_lock(&catalog->lock);
	look_again(catalog);
	size_t count = catalog->count;
	pthread_mutex_unlock(&catalog->lock);
	return count;
}

bool catalog_entry(struct catalog *catalog, size_t index, struct catalog_entry *ret_entry)
{
	pthread_mutex_lock(&catalog->lock);
	bool found = index < catalog->count;
	if (found) {
		const struct entry *entry = catalog->entries[index];
		*ret_entry = (struct catalog_entry){.name = entry->name,
						    .bytes = entry->bytes,
						    .changed_unix_ns = entry->changed_ns,
						    .state = shown_state(entry->shown)};
		memcpy(ret_entry->id, entry->id, sizeof entry->id);
	}
	pthread_mutex_unlock(&catalog->lock);
	return found;
}

size_t catalog_recent(struct catalog *catalog, char (*ret_ids)[CATALOG_ID_CHARS + 1], size_t room)
{
	struct timespec now;
	size_t count = 0;
	clock_gettime(CLOCK_REALTIME, &now);
	pthread_mutex_lock(&catalog->lock);
	look_again(catalog);
	for (size_t i = 0; i < catalog->count && count < room; i++) {
		const struct entry *entry = catalog->entries[i];
		/* The newest come first. */
		if (count && now.tv_sec - entry->changed_ns / 1000000000 > RESTS_SECONDS)
			break;
		if (entry->is_there)
			memcpy(ret_ids[count++], entry->id, sizeof entry->id);
	}
	pthread_mutex_unlock(&catalog->lock);
	return count;
}

/* Closes the trace that was asked least lately when too many are open; one in use stays. */
static void close_one(struct catalog *catalog, const struct entry *keep)
{
	struct entry *oldest = NULL;
	size_t open = 0;
	for (size_t i = 0; i < catalog->count; i++) {
		struct entry *entry = catalog->entries[i];
		if (shown_state(entry->shown) != SHOWN_READY)
			continue;
		open++;
		if (entry != keep && (!oldest || entry->used < oldest->used))
			oldest = entry;
	}
	if (open > OPEN_MAX && oldest)
		shown_close_idle(oldest->shown);
}

struct shown *catalog_find(struct catalog *catalog, const char *id)
{
	struct entry *found = NULL;
	pthread_mutex_lock(&catalog->lock);
	if (!strcmp(id, "last"))
		look_again(catalog);
	for (size_t i = 0; i < catalog->count && !found; i++) {
		struct entry *entry = catalog->entries[i];
		if (!strcmp(id, "last") ? entry->is_there : !strcmp(id, entry->id))
			found = entry;
	}
	if (found) {
		found->used = ++catalog->uses;
		close_one(catalog, found);
	}
	pthread_mutex_unlock(&catalog->lock);
	return found ? found->shown : NULL;
}

int catalog_enter(struct catalog *catalog, const char *id, struct shown_facts **ret_facts,
		  struct tm_error *err)
{
	struct shown *shown = catalog_find(catalog, id);
	if (!shown)
		return tm_fail(err, -ENOENT,
			       "there is no trace '%.40s'; GET /api/v1/traces lists them", id);
	return shown_enter(shown, ret_facts, err);
}
