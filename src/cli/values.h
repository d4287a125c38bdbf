/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options that several commands have, each with its one complaint.
 * `args` names the command. All say false after a message on standard error.
 */
#pragma once

#include "cli/args.h"
#include "cli/out.h"
#include "model/filter.h"
#include "views/views.h"

/* "tidemark COMMAND: '--sort' takes a, b or c, not 'x'." */
bool values_fail(const struct args *args, const char *option, const char *takes, const char *value);
/* A sentence about the command line. */
bool values_complain(const struct args *args, const char *sentence);
/* The place of a word in a list that ends with NULL; -1 if it is not there. */
int values_word(const char *const *words, const char *word);

/* --color */
bool values_color(const struct args *args, const char *value, enum out_color *ret);
/* --fold: adds to *kinds. */
bool values_fold(const struct args *args, const char *value, unsigned *kinds);
/* --filter: replaces *filter. */
bool values_filter(const struct args *args, const char *value, struct filter **filter);
/* --mode */
bool values_mode(const struct args *args, const char *value, const struct view_mode **ret);
/* --section A,B: each name to fn, which complains itself; "all" comes as it is. */
bool values_names(const char *value, bool (*fn)(void *ctx, const char *name), void *ctx);

/* The one word that names a trace. */
bool values_trace(const struct args *args, const char *word, const char **path);
/* Asks for it if it is missing. */
bool values_need_trace(const struct args *args, const char *path);
