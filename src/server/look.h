/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The views of a trace as requests have selected them: names once, figures per
 * selection. The last few are kept, since a page asks several views of one.
 *
 * In the mode "held" the figure allocated_bytes has byte-milliseconds: the size of
 * each block times its life within the range. So every view can show it.
 */
#pragma once

#include "server/api_select.h"

struct looks;

/* NULL when there is no memory. */
struct looks *looks_new(void);
struct looks *looks_free(struct looks *looks);

/*
 * The data of a selection, with all figures filled. Borrowed until the facts are
 * unlocked. *ret_answer, which may be NULL, is how it was found, without its rows;
 * borrowed, too.
 */
TM_MUST_CHECK int look_at(struct call *call, const struct selection *selection,
			  const struct view_data **ret_data, const struct query_answer **ret_answer,
			  struct tm_error *err);
