/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which module is most to blame for names that a trace lacks: what the last lines
 * of a recording say. It is found from what the recorder has in memory, since
 * whoever waits for those lines should not wait for the trace to be read. Told of
 * each symbol as it comes (of which a few bytes are kept), then of what each stack
 * allocated, it looks at every stack's row once.
 *
 * What counts is what views/missing.h says, which 'tidemark report --symbols' shows.
 *
 * Known limits: functions that ended in a jump are left out, so that one without
 * a file is not missed; lines of the distribution's modules are not looked at,
 * because nothing would be said of them. One thread at a time.
 */
#pragma once

#include "collector/modules_seen.h"
#include "collector/stack_ids.h"
#include "model/model.h"
#include "symbols/cure.h"

struct unnamed;

enum { UNNAMED_MODULE_MAX = 256 };

struct unnamed_answer {
	enum cure cure;                  /* CURE_NONE: nothing is worth a word */
	bool lines_only;                 /* functions have names, but not their lines */
	uint64_t bytes;                  /* allocated by stacks with such a function */
	uint64_t of_bytes;               /* by all */
	char module[UNNAMED_MODULE_MAX]; /* the file's name, or "[anonymous]"; cut if longer */
};

TM_MUST_CHECK int unnamed_new(struct unnamed **ret_unnamed);
struct unnamed *unnamed_free(struct unnamed *unnamed);

/*
 * A symbol that goes into the trace; those of one address innermost first. Its module must be
 * known. Without memory there will be no answer. O(1).
 */
void unnamed_symbol(struct unnamed *unnamed, const struct modules_seen *modules,
		    const struct trace_symbol *symbol);
/* Takes from the model what each stack allocated: before it is given away. O(stacks). */
void unnamed_weigh(struct unnamed *unnamed, const struct model *model);
/* When all symbols are there. CURE_NONE also without memory. O(rows). */
void unnamed_judge(struct unnamed *unnamed, const struct stack_ids *stacks,
		   const struct modules_seen *modules, struct unnamed_answer *ret_answer);
