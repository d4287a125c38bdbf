/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plot.h"

#include <string.h>

#include "base/utf8.h"

static const char *const levels[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

struct plot_text plot_bar(uint64_t value, uint64_t largest, unsigned columns)
{
	static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	struct plot_text bar = {""};
	if (columns > PLOT_BAR_MAX)
		columns = PLOT_BAR_MAX;
	if (!value || !largest)
		return bar;
	if (value > largest)
		value = largest;
	unsigned eighths = (unsigned)((double)value / (double)largest * columns * 8 + 0.5);
	if (!eighths)
		eighths = 1;
	for (unsigned i = 0; i < eighths / 8; i++)
		strcat(bar.text, "█");
	strcat(bar.text, parts[eighths % 8]);
	return bar;
}

static uint64_t largest_of(const uint64_t *values, unsigned count)
{
	uint64_t largest = 0;
	for (unsigned i = 0; i < count; i++)
		if (values[i] > largest)
			largest = values[i];
	return largest;
}

void plot_spark(struct text *text, const uint64_t *values, unsigned columns)
{
	uint64_t largest = largest_of(values, columns);
	for (unsigned i = 0; i < columns; i++) {
		unsigned level =
			largest ? (unsigned)((double)values[i] / (double)largest * 8 + 0.5) : 0;
		text_put(text, levels[values[i] && !level ? 1 : level]);
	}
}

/* The first of 1, 2, 2.5, 5 times a power of ten that is not below the value. */
static uint64_t round_up(uint64_t value)
{
	static const unsigned tenths[] = {10, 20, 25, 50, 100};
	if (value < 4)
		return 4;
	for (uint64_t power = 1; power <= UINT64_MAX / 100; power *= 10)
		for (unsigned i = 0; i < sizeof tenths / sizeof tenths[0]; i++)
			if (power * tenths[i] / 10 >= value && power * tenths[i] % 10 == 0)
				return power * tenths[i] / 10;
	return UINT64_MAX;
}

static void put_label(struct out *out, const char *label)
{
	size_t wide = utf8_count(label, strlen(label));
	text_put_repeated(&out->text, ' ', wide < PLOT_MARGIN - 2 ? PLOT_MARGIN - 2 - wide : 0);
	out_style(out, OUT_DIM);
	text_put(&out->text, label);
	out_style(out, OUT_PLAIN);
}

static void put_row(const struct plot *plot, struct out *out, unsigned row, uint64_t top)
{
	unsigned below = (plot->rows - 1 - row) * 8; /* eighths under this row */
	out_style(out, OUT_BAR);
	for (unsigned i = 0; i < plot->columns; i++) {
		double height = (double)plot->values[i] / (double)top * plot->rows * 8;
		unsigned eighths = (unsigned)(height + 0.5);
		if (!eighths && plot->values[i])
			eighths = 1;
		unsigned level = eighths > below ? eighths - below : 0;
		text_put(&out->text, levels[level > 8 ? 8 : level]);
	}
	out_style(out, OUT_PLAIN);
	while (out->text.length && out->text.data[out->text.length - 1] == ' ')
		out->text.data[--out->text.length] = '\0';
	text_put_char(&out->text, '\n');
}

/* The start at the left, the middle, the end at the right. */
static void put_times(const struct plot *plot, struct out *out)
{
	uint64_t middle_ns = plot->start_ns + (plot->end_ns - plot->start_ns) / 2;
	struct units_text left = out_duration(out, plot->start_ns),
			  middle = out_duration(out, middle_ns),
			  right = out_duration(out, plot->end_ns);
	unsigned wide = PLOT_MARGIN - 1 + plot->columns, at = 0;
	const struct {
		const char *text;
		unsigned column;
	} labels[] = {
		{left.text, PLOT_MARGIN - 1},
		{middle.text,
		 PLOT_MARGIN - 1 + plot->columns / 2 - (unsigned)strlen(middle.text) / 2},
		{right.text, wide - (unsigned)strlen(right.text)},
	};
	out_style(out, OUT_DIM);
	for (unsigned i = 0; i < 3; i++) {
		if (at && labels[i].column < at + 1)
			continue;
		text_put_repeated(&out->text, ' ', labels[i].column - at);
		text_put(&out->text, labels[i].text);
		at = labels[i].column + (unsigned)strlen(labels[i].text);
	}
	out_style(out, OUT_PLAIN);
	text_put_char(&out->text, '\n');
}

/* "peak 2.45 MB ▼" or "▼ peak 2.45 MB", whichever fits. */
static void put_mark(const struct plot *plot, struct out *out)
{
	unsigned wide = (unsigned)utf8_count(plot->mark, strlen(plot->mark));
	unsigned column = plot->mark_column;
	text_put_repeated(&out->text, ' ', PLOT_MARGIN - 1);
	if (column + 2 + wide <= plot->columns || column < wide + 1) {
		text_put_repeated(&out->text, ' ', column);
		text_print(&out->text, "▼ %s\n", plot->mark);
	} else {
		text_put_repeated(&out->text, ' ', column - wide - 1);
		text_print(&out->text, "%s ▼\n", plot->mark);
	}
}

void plot_print(const struct plot *plot, struct out *out)
{
	uint64_t top = round_up(largest_of(plot->values, plot->columns));
	out_style(out, OUT_BOLD);
	text_print(&out->text, "  %s\n", plot->title);
	out_style(out, OUT_PLAIN);
	if (plot->mark)
		put_mark(plot, out);
	for (unsigned row = 0; row < plot->rows; row++) {
		/* A label at the top, and halfway down where there is a row for it. */
		bool is_half = plot->rows % 2 == 0 && row == plot->rows / 2;
		if (row == 0 || is_half)
			put_label(out, plot->label(out, row ? top / 2 : top).text);
		else
			text_put_repeated(&out->text, ' ', PLOT_MARGIN - 2);
		text_put(&out->text, row == 0 || is_half ? "┤" : "│");
		put_row(plot, out, row, top);
	}
	put_label(out, "0");
	text_put(&out->text, "└");
	for (unsigned i = 0; i < plot->columns; i++)
		text_put(&out->text, "─");
	text_put_char(&out->text, '\n');
	put_times(plot, out);
}
