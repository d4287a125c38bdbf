/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a forked child has from its parent: at the fork's place in the parent's
 * order the live blocks are copied, with the stacks and modules they refer to.
 * The parent's drain thread puts the copy into a box, the child's takes it out.
 */
#pragma once

#include "collector/feed.h"

#include <sys/types.h>

struct inherit_box;
struct inherit_set;

/* NULL when there is no memory. Thread-safe, all below. */
struct inherit_box *inherit_box_new(void);
/* For the next piece, which may see the fork whose child asks the one before. Frees it as well. */
struct inherit_box *inherit_box_share(struct inherit_box *box);
struct inherit_box *inherit_box_free(struct inherit_box *box);

/* Before the fork: copies what is live now. The feed's batch must be empty. O(live blocks). */
void inherit_box_put(struct inherit_box *box, const struct feed *feed, uint32_t thread_id);
/* After it: the copy that the thread made is this child's. pid 0: there is no child. */
void inherit_box_label(struct inherit_box *box, uint32_t thread_id, uint32_t pid);
/* Nothing more comes: do not wait. */
void inherit_box_close(struct inherit_box *box);
/* The child's copy; waits a while for it. NULL when there is none. */
struct inherit_set *inherit_box_take(struct inherit_box *box, uint32_t pid);

/* How many blocks it has, and their bytes. */
void inherit_set_sums(const struct inherit_set *set, uint64_t *ret_blocks, uint64_t *ret_bytes);
/* The largest interval that one of them was sampled by; 0: none was. */
uint64_t inherit_set_interval(const struct inherit_set *set);
/* The child's feed begins with the copy. Before its first event. */
void inherit_apply(const struct inherit_set *set, struct feed *feed, uint32_t tid);
struct inherit_set *inherit_set_free(struct inherit_set *set);
