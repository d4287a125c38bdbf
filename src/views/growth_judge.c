/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a curve. docs/growth.md has the rules in the same order. */
#include "views/growth.h"

const char *const growth_shape_names[GROWTH_SHAPES] = {
	[GROWTH_STEADY] = "steady",   [GROWTH_STEPS] = "steps", [GROWTH_SAWTOOTH] = "sawtooth",
	[GROWTH_PLATEAU] = "plateau", [GROWTH_FELL] = "fell",
};
const char *const growth_shape_words[GROWTH_SHAPES] = {
	[GROWTH_STEADY] = "grows steadily",
	[GROWTH_STEPS] = "grows in steps",
	[GROWTH_SAWTOOTH] = "rises and falls",
	[GROWTH_PLATEAU] = "plateau",
	[GROWTH_FELL] = "fell",
};

/* Least squares; times from the first moment on, so that large ones lose no digits. */
static void fit_line(const uint64_t *times_ns, const uint64_t *bytes, size_t count,
		     struct growth_line *line)
{
	double mean_x = 0, mean_y = 0, xx = 0, xy = 0, yy = 0;
	for (size_t i = 0; i < count; i++) {
		mean_x += (double)(times_ns[i] - times_ns[0]) / 1e9 / (double)count;
		mean_y += (double)bytes[i] / (double)count;
	}
	for (size_t i = 0; i < count; i++) {
		double x = (double)(times_ns[i] - times_ns[0]) / 1e9 - mean_x;
		double y = (double)bytes[i] - mean_y;
		xx += x * x;
		xy += x * y;
		yy += y * y;
	}
	line->slope = xx > 0 ? xy / xx : 0;
	line->fit = xx > 0 && yy > 0 ? xy * xy / (xx * yy) : 1;
}

static double step_at(const uint64_t *bytes, size_t i)
{
	return (double)bytes[i] - (double)bytes[i - 1];
}

/* The largest steps up, an eighth of all, are four fifths of all steps up. */
static bool is_stepwise(const uint64_t *bytes, size_t count)
{
	double largest[GROWTH_MOMENTS / 8 + 1] = {0}, up = 0, top = 0;
	size_t kept = (count - 1) / 8;
	if (kept == 0 || kept > sizeof largest / sizeof largest[0])
		return false;
	for (size_t i = 1; i < count; i++) {
		double step = step_at(bytes, i);
		up += step > 0 ? step : 0;
		for (size_t k = 0; k < kept; k++) {
			if (step <= largest[k])
				continue;
			double smaller = largest[k];
			largest[k] = step;
			step = smaller;
		}
	}
	for (size_t k = 0; k < kept; k++)
		top += largest[k];
	return top >= 0.8 * up;
}

/* How often it turns by a quarter of its height or more. */
static unsigned count_turns(const uint64_t *bytes, size_t count, double height)
{
	double extreme = (double)bytes[0], other = (double)bytes[0];
	int direction = 0;
	unsigned turns = 0;
	for (size_t i = 1; i < count; i++) {
		double now = (double)bytes[i];
		if (direction == 0) {
			extreme = now > extreme ? now : extreme;
			other = now < other ? now : other;
			if (now - other >= height / 4)
				direction = 1, extreme = now;
			else if (extreme - now >= height / 4)
				direction = -1, extreme = now;
		} else if ((now - extreme) * direction > 0) {
			extreme = now;
		} else if ((extreme - now) * direction >= height / 4) {
			turns++;
			direction = -direction;
			extreme = now;
		}
	}
	return turns;
}

/* The least within moments [first, end). */
static uint64_t floor_of(const uint64_t *bytes, size_t first, size_t end)
{
	uint64_t least = bytes[first];
	for (size_t i = first + 1; i < end; i++)
		least = bytes[i] < least ? bytes[i] : least;
	return least;
}

/* One that swings: what counts is whether its floor moves. */
static enum growth_shape shape_of_swinging(const struct growth_line *line, double height)
{
	if ((double)line->growth_bytes >= height / 2)
		return GROWTH_STEADY;
	return (double)line->growth_bytes <= -height / 2 ? GROWTH_FELL : GROWTH_SAWTOOTH;
}

static enum growth_shape shape_of_rising(const uint64_t *bytes, size_t count)
{
	double net = (double)bytes[count - 1] - (double)bytes[0];
	size_t last_third = (count - 1) * 2 / 3;
	double late = (double)bytes[count - 1] - (double)bytes[last_third];
	if (late <= net / 20)
		return GROWTH_PLATEAU;
	return is_stepwise(bytes, count) ? GROWTH_STEPS : GROWTH_STEADY;
}

static void find_shape(const uint64_t *bytes, size_t count, struct growth_line *line)
{
	double height = (double)(line->high_bytes - line->low_bytes);
	unsigned turns = count_turns(bytes, count, height);
	line->growth_bytes = (int64_t)(line->last_bytes - line->first_bytes);
	if (turns >= 2)
		line->growth_bytes = (int64_t)(floor_of(bytes, count - count / 3, count) -
					       floor_of(bytes, 0, count / 3));
	if (height <= (double)line->high_bytes / 50)
		line->shape = GROWTH_PLATEAU;
	else if (turns >= 2)
		line->shape = shape_of_swinging(line, height);
	else if ((double)line->growth_bytes >= height / 2)
		line->shape = shape_of_rising(bytes, count);
	else if ((double)(line->high_bytes - line->last_bytes) >= height / 2)
		line->shape = GROWTH_FELL;
	else
		line->shape = turns ? GROWTH_SAWTOOTH : GROWTH_PLATEAU;
}

void growth_judge(const uint64_t *times_ns, const uint64_t *bytes, size_t count,
		  struct growth_line *ret)
{
	struct growth_line line = {
		.first_bytes = bytes[0],
		.last_bytes = bytes[count - 1],
		.low_bytes = bytes[0],
		.high_bytes = bytes[0],
		.bytes = bytes,
	};
	for (size_t i = 1; i < count; i++) {
		line.low_bytes = bytes[i] < line.low_bytes ? bytes[i] : line.low_bytes;
		line.high_bytes = bytes[i] > line.high_bytes ? bytes[i] : line.high_bytes;
	}
	fit_line(times_ns, bytes, count, &line);
	find_shape(bytes, count, &line);
	*ret = line;
}
