/* SPDX-License-Identifier: Apache-2.0 */
/* What hooks do while nothing, or only frees, are recorded. */
#include "agent/hook.h"

#include "agent/wake.h"

static void emit_plain(struct lane *lane, const struct call_site *site, enum wire_op op,
		       enum wire_api api, void *block)
{
	hook_raise(lane, site);
	if (op != WIRE_OP_REALLOC_FAIL)
		emit2(lane, op, api, (uint64_t)block);
	else
		emit3(lane, op, api, 0, 0);
	hook_lower(lane);
}

/* The new block if it is chosen, or the failure. True: it was told. */
static bool tell_sampled(struct lane *lane, const struct call_site *site, enum wire_op op,
			 enum wire_api api, struct hook_new_block new, struct heap_name heap)
{
	uint32_t interval_log2 = 0;
	uint64_t began = read_cost_clock();
	if (new.block && !sample_hits(lane, new.bytes, &interval_log2))
		return false;
	hook_raise(lane, site);
	uint64_t node = hook_node(lane, site, heap);
	if (new.block) {
		wire_filter_put(agent.map.filter, (uint64_t) new.block);
		emit4(lane, (enum wire_op)(op + 1), api, (uint64_t) new.block,
		      node << 32 | interval_log2 << 8 | log2_of(new.alignment), new.bytes);
	} else {
		emit3(lane, op == WIRE_OP_ALLOC ? WIRE_OP_ALLOC_FAIL : WIRE_OP_REALLOC_FAIL, api,
		      new.bytes, node << 32);
	}
	hook_lower(lane);
	sample_account(lane, began);
	return true;
}

AGENT_COLD void hook_sampled(struct lane *lane, const struct call_site *site, enum wire_api api,
			     struct hook_new_block new, struct heap_name heap)
{
	sample_enter();
	tell_sampled(lane, site, WIRE_OP_ALLOC, api, new, heap);
}

AGENT_COLD void hook_born(struct lane *lane, const struct call_site *site, enum wire_api api,
			  void *block)
{
	if (block && hook_frees_recorded())
		emit_plain(lane, site, WIRE_OP_BORN, api, block);
}

AGENT_COLD void hook_unrecorded(struct lane *lane, const struct call_site *site, enum wire_api api,
				struct hook_new_block new)
{
	if (sample_is_on()) {
		hook_sampled(lane, site, api, new, heap_labelled(NULL));
		return;
	}
	if (hook_frees_recorded()) {
		hook_born(lane, site, api, new.block);
		return;
	}
	if (atomic_load_explicit(&agent.map.control->state, memory_order_relaxed) != WIRE_OFF)
		return;
	agent_rest();
	if (agent_passes() || !agent_start())
		return;
	lane = lane_enter(site);
	if (lane && hook_recording())
		hook_block(lane, site, WIRE_OP_ALLOC, api, new.block, new.bytes, new.alignment);
}

AGENT_COLD void hook_free_stack(struct lane *lane, const struct call_site *site, enum wire_api api,
				void *block)
{
	hook_raise(lane, site);
	emit3(lane, WIRE_OP_FREE_STACK, api, (uint64_t)block, (uint64_t)unwind(lane, site) << 32);
	hook_lower(lane);
}

AGENT_COLD void hook_free_unrecorded(struct lane *lane, const struct call_site *site,
				     enum wire_api api, void *block)
{
	uint32_t state = atomic_load_explicit(&agent.map.control->state, memory_order_relaxed);
	if (state == WIRE_PAUSED)
		hook_end_block(lane, site, WIRE_OP_FREE, api, block);
	if (state != WIRE_SAMPLED && state != WIRE_SAMPLED_ALL)
		return;
	sample_refresh(lane);
	enum wire_filter_answer answer = wire_filter_find(agent.map.filter, (uint64_t)block);
	if (answer == WIRE_FILTER_NO && state == WIRE_SAMPLED)
		return;
	uint64_t began = read_cost_clock();
	/* Before the filter is filled nothing is outside. */
	bool outside = answer == WIRE_FILTER_OUTSIDE && state == WIRE_SAMPLED;
	hook_end_block(lane, site, outside ? WIRE_OP_FREE_OUTSIDE : WIRE_OP_FREE, api, block);
	if (answer == WIRE_FILTER_KNOWN)
		wire_filter_remove(agent.map.filter, (uint64_t)block);
	sample_account(lane, began);
}

AGENT_COLD enum hook_realloc hook_realloc_kind(const void *block)
{
	switch ((enum wire_state)atomic_load_explicit(&agent.map.control->state,
						      memory_order_relaxed)) {
	case WIRE_PAUSED:
		return HOOK_REALLOC_PAUSED;
	case WIRE_SAMPLED:
		switch (wire_filter_find(agent.map.filter, (uint64_t)block)) {
		case WIRE_FILTER_NO:
			return HOOK_REALLOC_UNSEEN;
		case WIRE_FILTER_KNOWN:
			return HOOK_REALLOC_SAMPLED;
		case WIRE_FILTER_OUTSIDE:
			return HOOK_REALLOC_OUTSIDE;
		}
		return HOOK_REALLOC_UNSEEN;
	case WIRE_SAMPLED_ALL:
		return wire_filter_find(agent.map.filter, (uint64_t)block) == WIRE_FILTER_KNOWN
			       ? HOOK_REALLOC_SAMPLED
			       : HOOK_REALLOC_UNKNOWN;
	case WIRE_RECORD: /* since the caller looked */
		return HOOK_REALLOC_LINKED;
	case WIRE_IDLE:
	case WIRE_OFF:
		break;
	}
	return HOOK_REALLOC_UNSEEN;
}

AGENT_COLD void hook_realloc_sampled(struct lane *lane, const struct call_site *site,
				     enum wire_api api, enum hook_realloc begun, void *old,
				     struct hook_new_block new)
{
	/* One that was not in its line may be there by now: as the block of another thread. */
	if (begun == HOOK_REALLOC_SAMPLED && new.block)
		wire_filter_remove(agent.map.filter, (uint64_t)old);
	if (hook_recording())
		hook_block(lane, site, WIRE_OP_REALLOC_END, api, new.block, new.bytes,
			   new.alignment);
	else if (!tell_sampled(lane, site, WIRE_OP_REALLOC_END, api, new, heap_labelled(NULL)))
		emit_plain(lane, site, WIRE_OP_PASSED, api, NULL);
	compiler_barrier();
	lane->open_realloc = false;
}

AGENT_COLD void hook_realloc_paused(struct lane *lane, const struct call_site *site,
				    enum wire_api api, void *block)
{
	emit_plain(lane, site, block ? WIRE_OP_BORN : WIRE_OP_REALLOC_FAIL, api, block);
	compiler_barrier();
	lane->open_realloc = false;
}
