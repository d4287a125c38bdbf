/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers of the routes, one file per subject, and what they share.
 * docs/http-api.md is the manual.
 */
#pragma once

#include "server/api_select.h"
#include "server/route.h"
#include "server/shown.h"

/* Parameters by which every view can be narrowed: from, to, at, mode, filter, fold. */
extern const struct request_rule api_selection_rules[];
extern const size_t api_selection_rule_count;

/* The selection, how the answer was found, and its totals: keys into the open object. */
void api_put_found(struct json *json, const struct selection *selection,
		   const struct query_answer *answer);
/* The figure that a request orders by: named, or the bytes of its mode. */
enum view_figure api_order(const struct call *call, const struct selection *selection);

/* api_list.c: what there is */
int api_index(struct call *call, struct tm_error *err);
int api_traces(struct call *call, struct tm_error *err);
int api_trace(struct call *call, struct tm_error *err);
int api_summary(struct call *call, struct tm_error *err);

/* api_events.c: what changes */
int api_events(struct call *call, struct tm_error *err);

/* api_timeline.c: curves */
int api_timeline(struct call *call, struct tm_error *err);

/* api_views.c: tables */
int api_sites(struct call *call, struct tm_error *err);
int api_functions(struct call *call, struct tm_error *err);
int api_function(struct call *call, struct tm_error *err);

/* api_tree.c */
int api_tree(struct call *call, struct tm_error *err);
struct view_tree_options;
/* The parameters of a tree, but for its order; `nodes` are usual. */
struct view_tree_options api_tree_options(const struct call *call, uint64_t nodes);
/* What the parameter "merge" changes. */
void api_merge(const struct call *call, struct selection *selection,
	       struct view_tree_options *options);

/* api_facts.c */
int api_sizes(struct call *call, struct tm_error *err);
int api_lifetimes(struct call *call, struct tm_error *err);
int api_threads(struct call *call, struct tm_error *err);
int api_modules(struct call *call, struct tm_error *err);
int api_stack(struct call *call, struct tm_error *err);

/* api_blocks.c */
int api_blocks(struct call *call, struct tm_error *err);

/* api_growth.c */
int api_growth(struct call *call, struct tm_error *err);

/* api_maps.c */
int api_maps(struct call *call, struct tm_error *err);

/* api_text.c */
int api_tree_text(struct call *call, struct tm_error *err);

/* api_stacks.c */
int api_stacks(struct call *call, struct tm_error *err);

/* api_diff.c */
int api_diff(struct call *call, struct tm_error *err);

/* api_source.c */
int api_source(struct call *call, struct tm_error *err);

/* api_export.c */
int api_export(struct call *call, struct tm_error *err);
int api_formats(struct call *call, struct tm_error *err);
bool api_export_head(const struct request *request, struct answer *answer);
