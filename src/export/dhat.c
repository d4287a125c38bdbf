/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DHAT's JSON for dh_view.html. Besides what the views have it wants the total
 * lifetime of a stack's blocks and the most that each stack ever had live: the
 * events tell. The sum of lifetimes needs no block to be remembered, since it is
 * the sum of the ends minus the sum of the beginnings.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/json.h"
#include "base/memory.h"
#include "export/formats.h"
#include "export/modules.h"
#include "export/moves.h"
#include "export/rows.h"

struct point { /* of a stack of the views, by its node */
	uint64_t births, birth_bytes;
	uint64_t life_us; /* sum of ends minus sum of births, modulo 2^64 */
	uint64_t live, live_bytes, most, most_bytes;
	uint64_t peak, peak_bytes; /* when all together were most */
	uint32_t peak_epoch;
};

struct dhat {
	const struct export_input *input;
	struct outlet *outlet;
	struct json json;
	struct point *points;
	uint32_t *point_of; /* by node, plus 1 */
	uint32_t *node_of;  /* by point */
	size_t count, room;
	/* A new maximum is an epoch: a stack that changes for the first time in it keeps what it
	 * had at that maximum. */
	uint64_t live_bytes, peak_bytes, peak_ns;
	uint32_t epoch;
};

static struct point *point_at(struct dhat *d, uint32_t stack_id)
{
	uint32_t node = view_node_of(d->input->data, stack_id);
	if (d->point_of[node])
		return &d->points[d->point_of[node] - 1];
	if (d->count == d->room) {
		size_t room = d->room * 2 + 64;
		struct point *points = tm_grow_array(d->points, room, sizeof *points);
		if (!points)
			return NULL;
		d->points = points;
		uint32_t *nodes = tm_grow_array(d->node_of, room, sizeof *nodes);
		if (!nodes)
			return NULL;
		d->node_of = nodes;
		d->room = room;
	}
	d->points[d->count] = (struct point){.peak_epoch = d->epoch};
	d->node_of[d->count++] = node;
	d->point_of[node] = (uint32_t)d->count;
	return &d->points[d->count - 1];
}

static void keep_peak(const struct dhat *d, struct point *point)
{
	if (point->peak_epoch == d->epoch)
		return;
	point->peak_epoch = d->epoch;
	point->peak = point->live;
	point->peak_bytes = point->live_bytes;
}

static int take_move(void *ctx, const struct move *move)
{
	struct dhat *d = ctx;
	struct point *point = point_at(d, move->stack_id);
	uint64_t now_us = move->time_ns / 1000;
	if (!point)
		return -ENOMEM;
	keep_peak(d, point);
	if (move->kind == MOVE_END) {
		point->live -= move->count;
		point->live_bytes -= move->size_bytes;
		point->life_us += now_us * move->count;
		d->live_bytes -= move->size_bytes;
		return 0;
	}
	point->births += move->kind == MOVE_BEGIN ? move->count : 0;
	point->birth_bytes += move->kind == MOVE_BEGIN ? move->size_bytes : 0;
	point->life_us -= now_us * move->count;
	point->live += move->count;
	point->live_bytes += move->size_bytes;
	if (point->live_bytes > point->most_bytes) {
		point->most_bytes = point->live_bytes;
		point->most = point->live;
	}
	d->live_bytes += move->size_bytes;
	if (d->live_bytes > d->peak_bytes) {
		d->peak_bytes = d->live_bytes;
		d->peak_ns = move->time_ns;
		d->epoch++;
	}
	return 0;
}

static int put_points(struct dhat *d)
{
	struct json *json = &d->json;
	uint64_t end_us = d->input->to_ns / 1000;
	int code = 0;
	json_begin_array(json, "pps");
	for (size_t i = 0; !code && i < d->count; i++) {
		struct point *point = &d->points[i];
		uint32_t cursor = d->node_of[i];
		const struct view_frame *frame;
		keep_peak(d, point);
		json_begin_object(json, NULL);
		json_u64(json, "tb", point->birth_bytes);
		json_u64(json, "tbk", point->births);
		json_u64(json, "tl", point->life_us + point->live * end_us);
		json_u64(json, "mb", point->most_bytes);
		json_u64(json, "mbk", point->most);
		json_u64(json, "gb", point->peak_bytes);
		json_u64(json, "gbk", point->peak);
		json_u64(json, "eb", point->live_bytes);
		json_u64(json, "ebk", point->live);
		json_begin_array(json, "fs");
		if (!cursor)
			json_u64(json, NULL, 1);
		while ((frame = view_next_frame(d->input->data, &cursor)))
			json_u64(json, NULL, view_frame_number(d->input->data, frame) + 2ull);
		json_end(json);
		json_end(json);
		code = outlet_flush(d->outlet);
	}
	json_end(json);
	return code;
}

static int put_frames(struct dhat *d, const struct export_modules *modules)
{
	struct text line = {0};
	int code = 0;
	json_begin_array(&d->json, "ftbl");
	json_string(&d->json, NULL, "[root]");
	json_string(&d->json, NULL, "0x0: [no stack]");
	for (uint32_t i = 0; !code && i < view_frame_count(d->input->data); i++) {
		const struct view_frame *frame = view_frame_at(d->input->data, i);
		text_clear(&line);
		text_print(&line, "0x%" PRIX64 ": ", modules_address(modules, frame));
		export_frame_name(&line, frame);
		if (frame->file)
			text_print(&line, " (%s:%u)", view_module_name(frame->file), frame->line);
		else
			text_print(&line, " (in %s)", frame->module);
		json_string(&d->json, NULL, text_string(&line));
		code = outlet_flush(d->outlet);
	}
	json_end(&d->json);
	text_done(&line);
	return code;
}

static void put_head(struct dhat *d)
{
	struct json *json = &d->json;
	json_begin_object(json, NULL);
	json_u64(json, "dhatFileVersion", 2);
	json_string(json, "mode", "heap");
	json_string(json, "verb", "Allocated");
	json_bool(json, "bklt", true);
	json_bool(json, "bkacc", false);
	json_string(json, "tu", "\xc2\xb5s");
	json_string(json, "Mtu", "s");
	json_u64(json, "tuth", 500);
	char title[EXPORT_TITLE];
	json_string(json, "cmd", export_title(d->input, title));
	json_u64(json, "pid", d->input->facts->meta->pid);
	json_u64(json, "tg", d->peak_ns / 1000);
	json_u64(json, "te", d->input->to_ns / 1000);
}

static int write_dhat(const struct export_input *input, struct outlet *outlet, struct tm_error *err)
{
	struct dhat d = {.input = input, .outlet = outlet, .json = {.out = &outlet->text}};
	struct export_modules modules;
	int code = modules_init(&modules, input->facts);
	if (code)
		return code;
	d.point_of = tm_alloc_array(view_node_count(input->data) + 1, sizeof *d.point_of);
	code = d.point_of ? moves_run(input, take_move, &d, err) : -ENOMEM;
	if (!code) {
		put_head(&d);
		code = put_points(&d);
	}
	if (!code)
		code = put_frames(&d, &modules);
	json_end(&d.json);
	text_put_char(&outlet->text, '\n');
	tm_free(d.points);
	tm_free(d.node_of);
	tm_free(d.point_of);
	modules_done(&modules);
	return code;
}

const struct export_format export_dhat = {
	.name = "dhat",
	.help = "DHAT's JSON, for valgrind's dh_view.html",
	.suffix = ".dhat.json",
	.type = "application/json",
	.by_event = true,
	.write = write_dhat,
};
