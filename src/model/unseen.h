/* SPDX-License-Identifier: Apache-2.0 */
/* Ends that nobody told of, until they are written: see model_take_unseen(). */
#pragma once

#include "model/model.h"

struct unseen {
	bool wanted;
	struct model_unseen *ends;
	size_t count, room;
};

/* Room for one more; 0 or -ENOMEM. */
TM_MUST_CHECK int unseen_reserve(struct unseen *unseen);
void unseen_done(struct unseen *unseen);
