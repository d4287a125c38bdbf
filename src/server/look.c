/* SPDX-License-Identifier: Apache-2.0 */
#include "server/look.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "server/held.h"
#include "views/select.h"

enum { LOOKS_KEPT = 4 };

struct look {
	struct view_data *data;
	unsigned fold;
	char *filter; /* text; NULL = none */
	uint64_t from_ns, to_ns;
	struct query_answer answer;
	bool is_filled, is_held;
	uint64_t used; /* rises with each use; 0 = empty */
};

struct looks {
	struct look kept[LOOKS_KEPT];
	uint64_t uses;
};

struct looks *looks_new(void)
{
	return tm_alloc(sizeof(struct looks));
}

static void forget_answer(struct look *look)
{
	if (look->is_filled)
		query_answer_done(&look->answer);
	look->is_filled = false;
	look->filter = tm_free(look->filter);
}

struct looks *looks_free(struct looks *looks)
{
	for (size_t i = 0; looks && i < LOOKS_KEPT; i++) {
		forget_answer(&looks->kept[i]);
		view_data_free(looks->kept[i].data);
	}
	return tm_free(looks);
}

static bool fits(const struct look *look, const struct selection *selection, const char *filter)
{
	return look->is_filled && look->fold == selection->fold &&
	       look->is_held == selection->is_held && look->from_ns == selection->from_ns &&
	       look->to_ns == selection->to_ns && !strcmp(look->filter ? look->filter : "", filter);
}

/* The one that fits; else of those with the same names the oldest; else the oldest. */
static struct look *choose(struct looks *looks, const struct selection *selection,
			   const char *filter)
{
	struct look *oldest = &looks->kept[0], *same = NULL;
	unsigned same_count = 0;
	for (size_t i = 0; i < LOOKS_KEPT; i++) {
		struct look *look = &looks->kept[i];
		if (fits(look, selection, filter))
			return look;
		if (look->used < oldest->used)
			oldest = look;
		if (look->data && look->fold == selection->fold) {
			same_count++;
			if (!same || look->used < same->used)
				same = look;
		}
	}
	return same && same_count > 1 ? same : oldest;
}

static int make_data(struct look *look, const struct call *call, const struct selection *selection,
		     struct tm_error *err)
{
	int code = 0;
	if (look->data && look->fold == selection->fold)
		return 0;
	look->data = view_data_free(look->data);
	code = view_data_share(call->facts->data, &look->data, err);
	if (!code && selection->fold)
		code = view_data_fold(look->data, selection->fold, err);
	if (code)
		look->data = view_data_free(look->data);
	look->fold = selection->fold;
	return code;
}

static int fill(struct look *look, const struct call *call, const struct selection *selection,
		struct tm_error *err)
{
	const struct query query = {
		.from_ns = selection->from_ns,
		.to_ns = selection->to_ns,
		.filter = selection->bound,
		.want = QUERY_PEAK | QUERY_KEPT,
		.progress = call_progress(call),
	};
	int code = selection->is_held ? held_ask(call, selection, &look->answer, err)
				      : query_ask(call->facts->section, &query, &look->answer, err);
	if (code)
		return code;
	look->is_filled = true;
	look->is_held = selection->is_held;
	look->from_ns = selection->from_ns;
	look->to_ns = selection->to_ns;
	look->filter = tm_strdup(request_text(call->request, "filter", ""));
	if (!look->filter)
		code = tm_fail(err, -ENOMEM, "no memory for this selection");
	if (!code)
		code = view_data_select(look->data, &look->answer, err);
	/* They are in the views now; of the answer only its totals are asked for. */
	look->answer.rows = tm_free(look->answer.rows);
	look->answer.row_count = 0;
	if (code)
		forget_answer(look);
	return code;
}

int look_at(struct call *call, const struct selection *selection, const struct view_data **ret_data,
	    const struct query_answer **ret_answer, struct tm_error *err)
{
	struct looks *looks = call->facts->looks;
	const char *filter = request_text(call->request, "filter", "");
	struct look *look = choose(looks, selection, filter);
	int code = 0;
	if (!fits(look, selection, filter)) {
		forget_answer(look);
		code = make_data(look, call, selection, err);
		if (!code)
			code = fill(look, call, selection, err);
	}
	if (code)
		return code;
	look->used = ++looks->uses;
	*ret_data = look->data;
	if (ret_answer)
		*ret_answer = &look->answer;
	return 0;
}
