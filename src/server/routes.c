/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all requests. */
#include "server/api.h"

static const struct request_rule trace_rules[] = {
	{.name = "cancel", .kind = REQUEST_BOOL, .help = "stop reading the file"},
};

#define ORDERS                                                                                    \
	"allocated_bytes|allocations|frees|freed_bytes|temporary_allocations|failed_allocations|" \
	"peak_allocations|peak_bytes|unfreed_allocations|unfreed_bytes|surviving_allocations|"    \
	"surviving_bytes"
#define ORDER_RULE                                                            \
	{                                                                     \
		.name = "order", .kind = REQUEST_CHOICE, .choices = ORDERS,   \
		.help = "the figure that decides; else the bytes of the mode" \
	}

static const struct request_rule events_rules[] = {
	{.name = "watch", .help = "the trace whose file is watched: an id, or last"},
};

static const struct request_rule timeline_rules[] = {
	{.name = "points", .kind = REQUEST_NUMBER, .max = 4000, .help = "points, 400"},
	{.name = "top", .kind = REQUEST_NUMBER, .max = 24, .help = "curves of so many sites, 0"},
	{.name = "by",
	 .kind = REQUEST_CHOICE,
	 .choices = "peak|unfreed|allocations|temporary",
	 .help = "what the sites are chosen by"},
};

static const struct request_rule table_rules[] = {
	ORDER_RULE,
	{.name = "group",
	 .kind = REQUEST_CHOICE,
	 .choices = "function|line|package|module|allocator|heap|tag|process",
	 .help = "what a row stands for"},
	{.name = "sort",
	 .kind = REQUEST_CHOICE,
	 .choices = "figure|self|average|name",
	 .help = "order of the rows"},
	{.name = "search", .help = "only rows with this in a name"},
	{.name = "skip", .kind = REQUEST_NUMBER, .help = "rows to leave out first, 0"},
	{.name = "limit", .kind = REQUEST_NUMBER, .max = 100000, .help = "rows, 100"},
	{.name = "stacks", .kind = REQUEST_NUMBER, .max = 1000, .help = "stacks per site, 3"},
	{.name = "name", .help = "of the function"},
};

static const struct request_rule sizes_rules[] = {
	{.name = "fine",
	 .kind = REQUEST_BOOL,
	 .help = "eight steps per doubling instead of one; reads the events of the range"},
};

static const struct request_rule growth_rules[] = {
	{.name = "limit", .kind = REQUEST_NUMBER, .max = 4096, .help = "stacks, 50"},
	{.name = "limit_bytes",
	 .kind = REQUEST_NUMBER,
	 .max = UINT64_MAX / 2,
	 .help = "this much memory instead of the cgroup's or the machine's"},
};

static const struct request_rule page_rules[] = {
	{.name = "skip", .kind = REQUEST_NUMBER, .help = "rows to leave out first, 0"},
	{.name = "limit", .kind = REQUEST_NUMBER, .max = 100000, .help = "rows, 1000"},
};

static const struct request_rule stacks_rules[] = {
	ORDER_RULE,
	{.name = "skip", .kind = REQUEST_NUMBER, .help = "stacks to leave out first, 0"},
	{.name = "limit", .kind = REQUEST_NUMBER, .max = 100000, .help = "stacks, 50"},
	{.name = "min_allocations", .kind = REQUEST_NUMBER, .help = "at least so many"},
	{.name = "max_allocations", .kind = REQUEST_NUMBER, .help = "at most so many"},
	{.name = "min_unfreed_ppm",
	 .kind = REQUEST_NUMBER,
	 .max = 1000000,
	 .help = "share of its allocations that is live at the end of the range, in millionths"},
	{.name = "max_unfreed_ppm", .kind = REQUEST_NUMBER, .max = 1000000, .help = "likewise"},
	{.name = "min_interval_ns",
	 .kind = REQUEST_NUMBER,
	 .help = "from its first allocation in the range to its last at least so long"},
	{.name = "max_interval_ns", .kind = REQUEST_NUMBER, .help = "at most so long"},
};

static const struct request_rule tree_rules[] = {
	ORDER_RULE,
	{.name = "direction",
	 .kind = REQUEST_CHOICE,
	 .choices = "top_down|bottom_up",
	 .help = "from main, or from the allocating functions"},
	{.name = "lines", .kind = REQUEST_BOOL, .help = "lines of a function apart: merge=line"},
	{.name = "nodes", .kind = REQUEST_NUMBER, .max = 200000, .help = "at most so many, 5000"},
	{.name = "depth", .kind = REQUEST_NUMBER, .max = 100000, .help = "at most so deep"},
	{.name = "min_share_ppm",
	 .kind = REQUEST_NUMBER,
	 .max = 1000000,
	 .help = "leave out what is less, in millionths of the whole"},
	{.name = "path", .max = 65536, .help = "keys of the nodes from the root: look below"},
	{.name = "merge",
	 .kind = REQUEST_CHOICE,
	 .choices = "function|line|module",
	 .help = "what a node stands for"},
	{.name = "pivot",
	 .help = "a function: only what it calls, or bottom_up who calls it; it is the root"},
};

static const struct request_rule diff_rules[] = {
	ORDER_RULE,
	{.name = "with", .help = "the trace to compare with: an id, or last"},
	{.name = "base_from", .help = "begin of the range there, as 'from'"},
	{.name = "base_to", .help = "end of the range there, as 'to'"},
	{.name = "group",
	 .kind = REQUEST_CHOICE,
	 .choices = "site|stack|function|line|package|module",
	 .help = "what a row stands for"},
	{.name = "limit", .kind = REQUEST_NUMBER, .max = 100000, .help = "rows, 200"},
	{.name = "nodes", .kind = REQUEST_NUMBER, .max = 200000, .help = "of the tree, 5000"},
};

static const struct request_rule source_rules[] = {
	ORDER_RULE,
	{.name = "file", .help = "a file as a frame names it"},
};

#define BLOCKS_MAX 1000000000

static const struct request_rule blocks_rules[] = {
	{.name = "blocks",
	 .kind = REQUEST_CHOICE,
	 .choices = "allocated|freed|surviving|live|all",
	 .help = "which blocks of the range"},
	{.name = "first", .kind = REQUEST_NUMBER, .help = "go on with this block: next_first"},
	{.name = "limit",
	 .kind = REQUEST_NUMBER,
	 .max = BLOCKS_MAX,
	 .help = "blocks, 200; 0 = all"},
	{.name = "skip",
	 .kind = REQUEST_NUMBER,
	 .max = BLOCKS_MAX,
	 .help = "of those from 'first' on, leave out so many"},
	{.name = "wait_ms",
	 .kind = REQUEST_NUMBER,
	 .max = 60000,
	 .help = "look so long for the ends of those allocated; then end_known tells; 0 = for all"},
};

static const struct request_rule export_rules[] = {
	ORDER_RULE,
	{.name = "view", .help = "of csv and json: stacks, functions, timeline, blocks ..."},
	{.name = "limit", .kind = REQUEST_NUMBER, .help = "the largest stacks or rows; 0 = all"},
};

#define RULES(table) .rules = table, .rule_count = sizeof table / sizeof table[0]

const struct route route_list[] = {
	{.path = "", .help = "This list.", .handle = api_index},
	{.path = "/events",
	 .help = "What changes, when it does: server-sent events 'traces' and 'trace'.",
	 RULES(events_rules),
	 .streams = true,
	 .type = "text/event-stream",
	 .handle = api_events},
	{.path = "/formats",
	 .help = "The formats in which a trace can be downloaded.",
	 .handle = api_formats},
	{.path = "/traces", .help = "The traces, the newest first.", .handle = api_traces},
	{.path = "/traces/{trace}",
	 .help = "Whether a trace has been read, and how far.",
	 RULES(trace_rules),
	 .unread = true,
	 .handle = api_trace},
	{.path = "/traces/{trace}/summary",
	 .help = "What was run, the totals, how the recording went.",
	 .handle = api_summary},
	{.path = "/traces/{trace}/timeline",
	 .help = "Live bytes, rates and RSS over time.",
	 RULES(timeline_rules),
	 .selects = true,
	 .handle = api_timeline},
	{.path = "/traces/{trace}/growth",
	 .help = "Stacks that grow, by what fills the memory first, and when it is full.",
	 RULES(growth_rules),
	 .selects = true,
	 .handle = api_growth},
	{.path = "/traces/{trace}/sites",
	 .help = "The functions that allocate, with their stacks.",
	 RULES(table_rules),
	 .selects = true,
	 .handle = api_sites},
	{.path = "/traces/{trace}/functions",
	 .help = "Self and inclusive figures of functions, lines, packages, modules, allocators, "
		 "heaps, tags, processes.",
	 RULES(table_rules),
	 .selects = true,
	 .handle = api_functions},
	{.path = "/traces/{trace}/function",
	 .help = "One function: its callers, callees and lines.",
	 RULES(table_rules),
	 .selects = true,
	 .handle = api_function},
	{.path = "/traces/{trace}/tree",
	 .help = "The call tree, from main down or from the allocating functions up.",
	 RULES(tree_rules),
	 .selects = true,
	 .handle = api_tree},
	{.path = "/traces/{trace}/sizes",
	 .help = "How many allocations of which size, and by whom.",
	 RULES(sizes_rules),
	 .selects = true,
	 .handle = api_sizes},
	{.path = "/traces/{trace}/lifetimes",
	 .help = "How long blocks lived that ended in the range.",
	 .selects = true,
	 .handle = api_lifetimes},
	{.path = "/traces/{trace}/threads",
	 .help = "Figures of each thread. Reads the events of the range.",
	 .selects = true,
	 .handle = api_threads},
	{.path = "/traces/{trace}/modules",
	 .help = "The files that were mapped as code.",
	 .handle = api_modules},
	{.path = "/traces/{trace}/diff",
	 .help = "Compared with another trace, or with another range of this one.",
	 RULES(diff_rules),
	 .selects = true,
	 .unlocked = true,
	 .changes = true,
	 .handle = api_diff},
	{.path = "/traces/{trace}/source",
	 .help = "A source file with the figures of its lines, and its text where it is at hand.",
	 RULES(source_rules),
	 .selects = true,
	 .changes = true,
	 .handle = api_source},
	{.path = "/traces/{trace}/maps",
	 .help = "Memory that the program mapped itself, call by call.",
	 RULES(page_rules),
	 .selects = true,
	 .handle = api_maps},
	{.path = "/traces/{trace}/tree.txt",
	 .help = "The call tree as text for a terminal.",
	 RULES(tree_rules),
	 .selects = true,
	 .changes = true,
	 .handle = api_tree_text},
	{.path = "/traces/{trace}/stacks",
	 .help = "Whole stacks with their figures, the largest first.",
	 RULES(stacks_rules),
	 .selects = true,
	 .handle = api_stacks},
	{.path = "/traces/{trace}/stacks/{item}",
	 .help = "The frames of one stack, innermost first.",
	 .handle = api_stack},
	{.path = "/traces/{trace}/blocks",
	 .help = "Single blocks, in order of their allocation.",
	 RULES(blocks_rules),
	 .selects = true,
	 .streams = true,
	 .handle = api_blocks},
	{.path = "/traces/{trace}/export/{item}",
	 .help = "A file for another tool: collapsed, pprof, heaptrack, speedscope ...",
	 RULES(export_rules),
	 .selects = true,
	 .streams = true,
	 .type = "application/octet-stream",
	 .head = api_export_head,
	 .handle = api_export},
};
const size_t route_count = sizeof route_list / sizeof route_list[0];
