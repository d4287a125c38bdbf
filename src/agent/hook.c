/* SPDX-License-Identifier: Apache-2.0 */
/* What hooks do while nothing, or only frees, are recorded. */
#include "agent/hook.h"

#include "agent/wake.h"

static void emit_plain(struct lane *lane, const struct call_site *site, enum wire_op op,
		       enum wire_api api, void *block)
{
	hook_raise(lane, site);
	if (op == WIRE_OP_BORN)
		emit2(lane, op, api, (uint64_t)block);
	else
		emit3(lane, op, api, 0, 0);
	hook_lower(lane);
}

AGENT_COLD void hook_unrecorded(struct lane *lane, const struct call_site *site, enum wire_api api,
				struct hook_new_block new)
{
	if (hook_frees_recorded()) {
		if (new.block)
			emit_plain(lane, site, WIRE_OP_BORN, api, new.block);
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

AGENT_COLD void hook_realloc_paused(struct lane *lane, const struct call_site *site,
				    enum wire_api api, void *block)
{
	emit_plain(lane, site, block ? WIRE_OP_BORN : WIRE_OP_REALLOC_FAIL, api, block);
	compiler_barrier();
	lane->open_realloc = false;
}
