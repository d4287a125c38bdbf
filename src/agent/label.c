/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of pointers that are set once: readers need no lock. Two threads that
 * bring the same text at once both make a label; one gets the place, the other
 * takes that one's.
 */
#include "agent/label.h"

#include "agent/emit.h"
#include "agent/intern.h"
#include "agent/memory_ops.h"

enum { LABEL_PC = 1, HEAP_KEYS = 0x7fff };

struct label_table {
	_Atomic uint32_t count;
	_Atomic(struct label *) slots[LABEL_SLOTS];
};

static struct label_table *table(void)
{
	struct label_table *have = atomic_load_explicit(&agent.labels, memory_order_acquire),
			   *none = NULL;
	if (likely(have))
		return have;
	size_t bytes = (sizeof *have + AGENT_PAGE - 1) & ~(size_t)(AGENT_PAGE - 1);
	have = agent_map(bytes);
	if (!have)
		return NULL;
	if (atomic_compare_exchange_strong(&agent.labels, &none, have)) {
		agent_account((int64_t)bytes);
		return have;
	}
	return none; /* the other thread's; ours stays mapped, untouched */
}

static uint32_t put(char *text, uint32_t at, const char *from)
{
	while (from && *from && at < LABEL_TEXT_BYTES - 1)
		text[at++] = *from++;
	return at;
}

static uint64_t hash_of(const char *text, uint32_t bytes)
{
	uint64_t hash = bytes;
	for (uint32_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3ull;
	hash *= 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static bool is_equal(const struct label *a, const struct label *b)
{
	return a->hash == b->hash && a->bytes == b->bytes && !memcmp(a->text, b->text, a->bytes);
}

/* A copy that stays, with an instance of its own; NULL: too many, or no memory. */
static struct label *keep(struct label_table *labels, const struct label *wanted)
{
	uint32_t number = atomic_load_explicit(&labels->count, memory_order_relaxed);
	struct label *made = number < LABEL_COUNT ? arena_take(sizeof *made) : NULL;
	if (!made)
		return NULL;
	number = atomic_fetch_add_explicit(&labels->count, 1, memory_order_relaxed);
	made->hash = wanted->hash;
	made->heap_key = 1 + (uint32_t)(wanted->hash % HEAP_KEYS);
	made->bytes = wanted->bytes;
	made->instance = LABEL_INSTANCE_FIRST + number;
	memcpy(made->text, wanted->text, wanted->bytes);
	return made;
}

static struct label *intern(const struct label *wanted)
{
	struct label_table *labels = table();
	struct label *made = NULL;
	uint32_t slot = (uint32_t)wanted->hash % LABEL_SLOTS;
	for (uint32_t probes = 0; labels && probes < LABEL_SLOTS; probes++) {
		/* Pairs with the release below: the label is written before. */
		struct label *have =
			atomic_load_explicit(&labels->slots[slot], memory_order_acquire);
		if (!have) {
			made = made ? made : keep(labels, wanted);
			if (!made || atomic_compare_exchange_strong_explicit(
					     &labels->slots[slot], &have, made,
					     memory_order_acq_rel, memory_order_acquire))
				return made;
		}
		if (is_equal(have, wanted)) {
			if (made)
				arena_give(made, sizeof *made);
			return have;
		}
		slot = (slot + 1) % LABEL_SLOTS;
	}
	return NULL;
}

/*
 * Every thread that uses it makes sure: its own events must not come first. The
 * next session has a new collector.
 */
static AGENT_INLINE void tell(struct lane *lane, struct label *label)
{
	if (likely(atomic_load_explicit(&label->told, memory_order_acquire) == agent.session))
		return;
	const struct module as_module = {
		.instance = label->instance, .path = label->text, .path_bytes = label->bytes};
	emit_module(lane, &as_module);
	/* Pairs with the acquire above: who sees it stamps later. */
	atomic_store_explicit(&label->told, agent.session, memory_order_release);
}

struct label *label_find(struct lane *lane, const char *prefix, const char *first,
			 const char *second)
{
	struct label wanted = {.bytes = put(wanted.text, 0, prefix)};
	wanted.bytes = put(wanted.text, wanted.bytes, first);
	if (second) {
		wanted.bytes = put(wanted.text, wanted.bytes, "=");
		wanted.bytes = put(wanted.text, wanted.bytes, second);
	}
	wanted.hash = hash_of(wanted.text, wanted.bytes);
	struct label *label = intern(&wanted);
	if (label)
		tell(lane, label);
	return label;
}

/* The node with just this heap's label below it; 0: not known. Nodes are of one session. */
static uint32_t known_below(const struct lane *lane, const struct label *heap, uint32_t node)
{
	if (unlikely(!lane->labelled_nodes))
		return 0;
	const struct lane_labelled *known = &lane->labelled_nodes[node % LANE_LABELLED_NODES];
	return known->node == node && known->instance == heap->instance &&
			       known->session == (uint32_t)agent.session
		       ? known->result
		       : 0;
}

/* For known_below(); without memory for it, the next time takes as long. */
static void remember(struct lane *lane, const struct label *heap, uint32_t node, uint32_t result)
{
	if (!lane->labelled_nodes)
		lane->labelled_nodes =
			arena_take(LANE_LABELLED_NODES * sizeof *lane->labelled_nodes);
	if (lane->labelled_nodes)
		lane->labelled_nodes[node % LANE_LABELLED_NODES] = (struct lane_labelled){
			(uint32_t)agent.session, node, result, heap->instance};
}

uint32_t label_node(struct lane *lane, uint32_t node)
{
	const struct label *heap = lane->labelled == 1 ? lane->labels[LANE_HEAP].label : NULL;
	uint32_t known = heap ? known_below(lane, heap, node) : 0, leaf = node;
	if (likely(known))
		return known;
	for (uint32_t i = 0; i < LANE_LABELS; i++) {
		struct label *label = lane->labels[i].label;
		if (!label)
			continue;
		tell(lane, label);
		uint64_t hash = intern_hash((uint64_t)node << 32, LABEL_PC, label->instance);
		node = intern_node(hash, node, label->instance, LABEL_PC);
	}
	if (heap)
		remember(lane, heap, leaf, node);
	return node;
}

struct label *label_of_source(struct lane *lane, const struct wire_site *site)
{
	struct agent_source *source = &agent.sources[site->source % WIRE_SITE_SOURCES];
	if (!site->source)
		return NULL;
	if (likely(atomic_load_explicit(&source->session, memory_order_acquire) == agent.session))
		return atomic_load_explicit(&source->label, memory_order_relaxed);
	struct label *label = label_find(lane, "[heap] ", (const char *)site->label, NULL);
	atomic_store_explicit(&source->label, label, memory_order_relaxed);
	/* Pairs with the acquire above. */
	atomic_store_explicit(&source->session, agent.session, memory_order_release);
	return label;
}

uint32_t label_below(struct lane *lane, struct heap_name heap, uint32_t node)
{
	struct label *label = (struct label *)heap.name;
	if (heap.name & HEAP_PATCHED)
		label = label_of_source(lane, (const struct wire_site *)(heap.name - HEAP_PATCHED));
	if (label)
		label_enter(lane, label);
	if (lane->labelled)
		node = label_node(lane, node);
	if (label)
		label_enter(lane, NULL);
	return node;
}

static struct lane_label *place_of(struct lane *lane, uint64_t key)
{
	struct lane_label *free_place = NULL;
	for (uint32_t i = LANE_TAGS_FIRST; i < LANE_LABELS; i++) {
		if (lane->labels[i].label && lane->labels[i].key == key)
			return &lane->labels[i];
		if (!lane->labels[i].label && !free_place)
			free_place = &lane->labels[i];
	}
	return free_place;
}

/* The same tags make the same stack, whatever the order in which they were set. */
static void sort_tags(struct lane *lane)
{
	for (uint32_t i = LANE_TAGS_FIRST + 1; i < LANE_LABELS; i++)
		for (uint32_t at = i;
		     at > LANE_TAGS_FIRST && lane->labels[at].key < lane->labels[at - 1].key;
		     at--) {
			struct lane_label swap = lane->labels[at];
			lane->labels[at] = lane->labels[at - 1];
			lane->labels[at - 1] = swap;
		}
}

void label_tag(struct lane *lane, const char *key, const char *value)
{
	uint64_t key_hash = hash_of(key, (uint32_t)strlen(key));
	struct lane_label *place = place_of(lane, key_hash);
	struct label *label = value && place ? label_find(lane, "[tag] ", key, value) : NULL;
	if (!place)
		return;
	lane->labelled -= place->label != NULL;
	*place = (struct lane_label){.key = label ? key_hash : 0, .label = label};
	lane->labelled += place->label != NULL;
	sort_tags(lane);
}
