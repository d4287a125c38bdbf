/* SPDX-License-Identifier: Apache-2.0 */
#include "model/words.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"

enum { SYLLABLES = 5, SYLLABLES_MAX = 24, WORD_ROOM = 2 * SYLLABLES_MAX + 1 };

struct entry {
	char *name, *word; /* the same pointer: it is kept */
};

struct table {
	uint32_t *slots; /* number of an entry + 1; 0 = free */
	size_t room;     /* a power of two */
};

struct words {
	struct words_key key;
	struct entry *entries;
	size_t count, entry_room;
	struct table by_name, by_word;
};

/* ---- SipHash-2-4, after the paper of Aumasson and Bernstein ---- */

static uint64_t rotate(uint64_t value, unsigned bits)
{
	return value << bits | value >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], unsigned count)
{
	while (count--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

static uint64_t sip(const struct words_key *key, const uint8_t *data, size_t bytes)
{
	uint64_t v[4] = {key->low ^ 0x736f6d6570736575ull, key->high ^ 0x646f72616e646f6dull,
			 key->low ^ 0x6c7967656e657261ull, key->high ^ 0x7465646279746573ull};
	uint64_t last = (uint64_t)bytes << 56;
	size_t at = 0;
	for (; at + 8 <= bytes; at += 8) {
		uint64_t word = 0;
		for (unsigned i = 0; i < 8; i++)
			word |= (uint64_t)data[at + i] << (8 * i);
		v[3] ^= word;
		sip_rounds(v, 2);
		v[0] ^= word;
	}
	for (unsigned i = 0; at + i < bytes; i++)
		last |= (uint64_t)data[at + i] << (8 * i);
	v[3] ^= last;
	sip_rounds(v, 2);
	v[0] ^= last;
	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t words_number(const struct words *words, const void *data, size_t bytes)
{
	return sip(&words->key, data, bytes);
}

uint64_t words_mix(struct words_key key, const void *data, size_t bytes)
{
	return sip(&key, data, bytes);
}

/* ---- the dictionary ---- */

static const char *text_of(const struct words *words, const struct table *table, uint32_t slot)
{
	const struct entry *entry = &words->entries[slot - 1];
	return table == &words->by_name ? entry->name : entry->word;
}

/* The slot that has the text, or the free one where it belongs. */
static uint32_t *find_slot(const struct words *words, const struct table *table, const char *text,
			   size_t bytes)
{
	size_t at = (size_t)words_number(words, text, bytes) & (table->room - 1);
	for (; table->slots[at]; at = (at + 1) & (table->room - 1)) {
		const char *have = text_of(words, table, table->slots[at]);
		if (!strncmp(have, text, bytes) && !have[bytes])
			break;
	}
	return &table->slots[at];
}

static int make_room(struct words *words, struct table *table)
{
	if (words->count + 1 < table->room / 2)
		return 0;
	size_t room = table->room ? table->room * 2 : 1024;
	struct table grown = {.slots = tm_alloc_array(room, sizeof *grown.slots), .room = room};
	if (!grown.slots)
		return -ENOMEM;
	struct table old = *table;
	*table = grown;
	for (size_t i = 0; i < old.room; i++) {
		if (!old.slots[i])
			continue;
		const char *text = text_of(words, table, old.slots[i]);
		*find_slot(words, table, text, strlen(text)) = old.slots[i];
	}
	tm_free(old.slots);
	return 0;
}

static int reserve(struct words *words)
{
	if (words->count == words->entry_room) {
		size_t room = words->entry_room * 2 + 256;
		void *grown = tm_grow_array(words->entries, room, sizeof *words->entries);
		if (!grown)
			return -ENOMEM;
		words->entries = grown;
		words->entry_room = room;
	}
	int rc = make_room(words, &words->by_name);
	return rc ? rc : make_room(words, &words->by_word);
}

static void spell(uint64_t number, unsigned syllables, bool capital, char *word)
{
	static const char consonants[] = "bcdfghjklmnpqrstvwyz", vowels[] = "aeiou";
	for (unsigned i = 0; i < syllables; i++) {
		*word++ = consonants[number % 20];
		number /= 20;
		*word++ = vowels[number % 5];
		number /= 5;
	}
	*word = '\0';
	if (capital)
		word[-2 * (int)syllables] -= 'a' - 'A';
}

/* A word that no other name has: a longer one if need be. */
static void choose(const struct words *words, const char *name, size_t bytes, char *word)
{
	bool capital = name[0] >= 'A' && name[0] <= 'Z';
	uint64_t number = words_number(words, name, bytes);
	for (unsigned syllables = SYLLABLES; syllables <= SYLLABLES_MAX; syllables++) {
		spell(number, syllables, capital, word);
		if (!*find_slot(words, &words->by_word, word, strlen(word)))
			return;
		number = words_number(words, &number, sizeof number);
	}
}

static const char *add(struct words *words, const char *name, size_t bytes, bool keep)
{
	char word[WORD_ROOM];
	if (reserve(words))
		return NULL;
	struct entry *entry = &words->entries[words->count];
	*entry = (struct entry){.name = tm_alloc(bytes + 1)};
	if (!entry->name)
		return NULL;
	memcpy(entry->name, name, bytes);
	entry->word = entry->name;
	if (!keep) {
		choose(words, name, bytes, word);
		entry->word = tm_strdup(word);
	}
	if (!entry->word) {
		tm_free(entry->name);
		return NULL;
	}
	words->count++;
	*find_slot(words, &words->by_name, name, bytes) = (uint32_t)words->count;
	uint32_t *taken = find_slot(words, &words->by_word, entry->word, strlen(entry->word));
	if (!*taken)
		*taken = (uint32_t)words->count;
	return entry->word;
}

const char *words_of(struct words *words, const char *name, size_t bytes)
{
	/* A name ends at a NUL: nothing behind it is ever shown. */
	bytes = strnlen(name, bytes);
	if (words->by_name.room) {
		uint32_t slot = *find_slot(words, &words->by_name, name, bytes);
		if (slot)
			return words->entries[slot - 1].word;
	}
	return add(words, name, bytes, words_is_public(name, bytes));
}

int words_keep(struct words *words, const char *identifier)
{
	size_t bytes = strlen(identifier);
	if (words->by_name.room && *find_slot(words, &words->by_name, identifier, bytes))
		return 0;
	return add(words, identifier, bytes, true) ? 0 : -ENOMEM;
}

/* ---- texts ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool in_identifier(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
	       c == '$' || (unsigned char)c >= 0x80;
}

/* 16, 3ul: numbers that say no more than how many. */
static bool is_small_number(const char *token, size_t bytes)
{
	size_t digits = 0;
	while (digits < bytes && is_digit(token[digits]))
		digits++;
	if (!digits || digits > 3 || bytes - digits > 3)
		return false;
	for (size_t i = digits; i < bytes; i++)
		if (!strchr("ulUL", token[i]))
			return false;
	return true;
}

int words_replace(struct words *words, const char *text, size_t bytes, struct text *out)
{
	size_t at = 0;
	bytes = strnlen(text, bytes);
	while (at < bytes) {
		size_t end = at;
		while (end < bytes && in_identifier(text[end]))
			end++;
		if (end == at) {
			text_put_char(out, text[at++]);
			continue;
		}
		if (is_small_number(text + at, end - at)) {
			text_put_bytes(out, text + at, end - at);
		} else {
			const char *word = words_of(words, text + at, end - at);
			if (!word)
				return -ENOMEM;
			text_put(out, word);
		}
		at = end;
	}
	return text_error(out);
}

/* ---- all of them ---- */

int words_new(struct words_key key, struct words **ret_words, struct tm_error *err)
{
	struct words *words = tm_alloc(sizeof *words);
	if (!words)
		return tm_fail(err, -ENOMEM, "no memory for the new names");
	words->key = key;
	*ret_words = words;
	return 0;
}

struct words *words_free(struct words *words)
{
	if (!words)
		return NULL;
	for (size_t i = 0; i < words->count; i++) {
		if (words->entries[i].word != words->entries[i].name)
			tm_free(words->entries[i].word);
		tm_free(words->entries[i].name);
	}
	tm_free(words->entries);
	tm_free(words->by_name.slots);
	tm_free(words->by_word.slots);
	return tm_free(words);
}

int words_each(const struct words *words, words_fn fn, void *ctx)
{
	int rc = 0;
	for (size_t i = 0; i < words->count && !rc; i++)
		if (words->entries[i].word != words->entries[i].name)
			rc = fn(ctx, words->entries[i].name, words->entries[i].word);
	return rc;
}

size_t words_count(const struct words *words)
{
	size_t count = 0;
	for (size_t i = 0; i < words->count; i++)
		count += words->entries[i].word != words->entries[i].name;
	return count;
}
