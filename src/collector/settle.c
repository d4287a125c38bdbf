/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a section, where it waits: for names, and for what is done beside the file. */
#include "collector/section_state.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/thread.h"
#include "collector/unnamed.h"

#define NAMES_SAY_NS  1000000000ull
#define NAMES_WAIT_NS (120 * 1000000000ull)

/* A signal to end is waiting, which the main thread cannot take while it waits for us. */
static bool is_told_to_end(void)
{
	sigset_t waiting;
	return !sigpending(&waiting) &&
	       (sigismember(&waiting, SIGINT) || sigismember(&waiting, SIGTERM) ||
		sigismember(&waiting, SIGHUP) || sigismember(&waiting, SIGQUIT));
}

static bool waiting_for_names(void *ctx, uint64_t waited_ns)
{
	struct section *section = ctx;
	if (waited_ns > NAMES_SAY_NS && section->options.naming) {
		section->options.naming(section->options.naming_ctx);
		section->options.naming = NULL;
	}
	return waited_ns > NAMES_WAIT_NS || is_told_to_end();
}

/* What the file does not wait for: the word about names. */
static void *settle(void *arg)
{
	struct section *section = arg;
	/* Of names that nobody has looked up it cannot be said that they are not there. */
	if (section->unnamed && !section->result.names_cut)
		unnamed_judge(section->unnamed, &section->feed.stacks, &section->feed.modules,
			      &section->result.unnamed);
	stack_ids_done(&section->feed.stacks);
	return NULL;
}

void section_settle(struct section *section)
{
	if (section->resting)
		pthread_join(section->rester, NULL);
	if (section->settling)
		pthread_join(section->settler, NULL);
	section->resting = section->settling = false;
}

static void *rest(void *arg)
{
	struct section *section = arg;
	merge_done(&section->merge);
	section->feed.model = model_free(section->feed.model);
	if (!section->how.still_runs)
		shm_empty(&section->shm);
	return NULL;
}

void section_rest(struct section *section)
{
	section->resting = !thread_start(&section->rester, rest, section);
	if (!section->resting)
		rest(section);
}

void section_finish_names(struct section *section, struct trace_writer *writer)
{
	struct section_result *result = &section->result;
	const char *first;
	if (!section->names || result->named)
		return;
	names_finish(section->names, writer, waiting_for_names, section);
	result->named = true;
	result->names_cut = !names_complete(section->names);
	result->name_warnings = names_warnings(section->names, &first);
	strncpy(result->name_warning, first, sizeof result->name_warning - 1);
	/* Of an image that another followed nothing is said, and its memory is gone. */
	if (section->how.more_follows || !atomic_load(&section->begun))
		return;
	section->settling = !thread_start(&section->settler, settle, section);
	if (!section->settling)
		settle(section);
}
