/* SPDX-License-Identifier: Apache-2.0 */
#include "server/kept.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

enum { KEPT_MAX = 64, BYTES_MAX = 24 * 1024 * 1024, ONE_MAX = 3 * 1024 * 1024 };

struct one {
	uint64_t hash, used; /* used 0: empty */
	struct text key, body;
};

struct kept {
	pthread_mutex_t lock;
	struct one list[KEPT_MAX];
	uint64_t uses;
	size_t bytes;
};

struct kept *kept_new(void)
{
	struct kept *kept = tm_alloc(sizeof *kept);
	if (kept)
		pthread_mutex_init(&kept->lock, NULL);
	return kept;
}

static void drop(struct kept *kept, struct one *one)
{
	kept->bytes -= one->body.length;
	text_done(&one->key);
	text_done(&one->body);
	*one = (struct one){0};
}

struct kept *kept_free(struct kept *kept)
{
	if (!kept)
		return NULL;
	for (size_t i = 0; i < KEPT_MAX; i++)
		drop(kept, &kept->list[i]);
	pthread_mutex_destroy(&kept->lock);
	return tm_free(kept);
}

/* With lengths, so that no two requests have the same. */
static bool make_key(struct text *key, const char *path, const struct request *request)
{
	text_print(key, "%s\n%s", path, request->item);
	for (size_t i = 0; i < request->param_count; i++)
		text_print(key, "\n%zu %s=%s", strlen(request->params[i].name),
			   request->params[i].name, request->params[i].value);
	return !text_error(key);
}

static struct one *find(struct kept *kept, uint64_t hash, const struct text *key)
{
	for (size_t i = 0; i < KEPT_MAX; i++) {
		struct one *one = &kept->list[i];
		if (one->used && one->hash == hash && one->key.length == key->length &&
		    !memcmp(one->key.data, key->data, key->length))
			return one;
	}
	return NULL;
}

bool kept_find(struct kept *kept, const char *path, const struct request *request,
	       struct text *ret_body)
{
	struct text key = {0};
	bool found = false;
	if (!kept)
		return false;
	if (make_key(&key, path, request)) {
		pthread_mutex_lock(&kept->lock);
		struct one *one = find(kept, hash_bytes(key.data, key.length), &key);
		if (one) {
			one->used = ++kept->uses;
			text_put_bytes(ret_body, one->body.data, one->body.length);
			found = !text_error(ret_body);
		}
		pthread_mutex_unlock(&kept->lock);
	}
	text_done(&key);
	return found;
}

/* An empty place, made so if need be, when `bytes` more come. */
static struct one *make_room(struct kept *kept, size_t bytes)
{
	for (;;) {
		struct one *empty = NULL, *oldest = NULL;
		for (size_t i = 0; i < KEPT_MAX; i++) {
			struct one *one = &kept->list[i];
			if (!one->used)
				empty = one;
			else if (!oldest || one->used < oldest->used)
				oldest = one;
		}
		if (empty && (kept->bytes + bytes <= BYTES_MAX || !oldest))
			return empty;
		drop(kept, oldest);
	}
}

void kept_put(struct kept *kept, const char *path, const struct request *request,
	      const struct text *body)
{
	struct one one = {0};
	if (!kept || body->length > ONE_MAX || !make_key(&one.key, path, request)) {
		text_done(&one.key);
		return;
	}
	text_put_bytes(&one.body, body->data, body->length);
	one.hash = hash_bytes(one.key.data, one.key.length);
	pthread_mutex_lock(&kept->lock);
	if (!text_error(&one.body) && !find(kept, one.hash, &one.key)) {
		struct one *place = make_room(kept, one.body.length);
		one.used = ++kept->uses;
		kept->bytes += one.body.length;
		*place = one;
		one = (struct one){0};
	}
	pthread_mutex_unlock(&kept->lock);
	text_done(&one.key);
	text_done(&one.body);
}
