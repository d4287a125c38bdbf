/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace that was imported does not say. Views that need it are empty, and
 * their faces say why instead of showing zeros.
 */
#pragma once

#include "trace/records.h"
#include "views/figures.h"

/* One word for bit number `index` of enum trace_unknown ("lifetimes"); NULL beyond the last. */
const char *view_unknown_word(unsigned index);
/*
 * Why figures that need all of these bits cannot be shown: a sentence without its
 * full stop; NULL if they can.
 */
const char *view_unknown_why(const struct trace_meta *meta, unsigned bits);
/* The bits without which a figure is not known. */
unsigned view_figure_needs(enum view_figure figure);
