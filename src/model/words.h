/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words in place of names: each identifier of a text becomes a word that can be
 * spoken, the same one wherever it comes again, and with the same key also in
 * another trace. What stands between identifiers stays, so that
 *
 *	shop::Cart::add(Item const&)   /home/ann/shop/src/cart.cc
 * reads
 *	fomiduwebu::Larotibave::qudi...(Nu... const&)   /home/wosi.../fomiduwebu/src/te....cc
 *
 * Words that tell nothing are kept: those of the languages and their standard
 * libraries, of folders that every system has, small numbers. Without the key
 * nobody can find out which word a guessed name would have become (SipHash-2-4).
 *
 * Not thread-safe.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct words_key {
	uint64_t low, high;
};

struct words;
/* -ENOMEM. */
TM_MUST_CHECK int words_new(struct words_key key, struct words **ret_words, struct tm_error *err);
struct words *words_free(struct words *words);
/* This identifier stays as it is, from now on. -ENOMEM. */
TM_MUST_CHECK int words_keep(struct words *words, const char *identifier);

/* Appends the text with its identifiers replaced. -ENOMEM; out->error is then set, too. */
TM_MUST_CHECK int words_replace(struct words *words, const char *text, size_t bytes,
				struct text *out);
/* The word of one name as a whole, whatever is in it; borrowed. NULL: no memory. */
const char *words_of(struct words *words, const char *name, size_t bytes);
/* A number that depends on the key and these bytes alone. */
uint64_t words_number(const struct words *words, const void *data, size_t bytes);

/* The same without a dictionary: to make a key of a file's bytes. */
uint64_t words_mix(struct words_key key, const void *data, size_t bytes);

/* All names that were replaced, in order of their first use. Not 0 stops. */
typedef int (*words_fn)(void *ctx, const char *name, const char *word);
int words_each(const struct words *words, words_fn fn, void *ctx);
size_t words_count(const struct words *words);

/* Whether an identifier is one of those that every program has. */
bool words_is_public(const char *identifier, size_t bytes);
