/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sort.h"

#include <string.h>

enum { PIECE_BYTES = 64 };

static void swap(char *a, char *b, size_t bytes)
{
	char piece[PIECE_BYTES];
	while (bytes > 0) {
		size_t part = bytes < sizeof piece ? bytes : sizeof piece;
		memcpy(piece, a, part);
		memcpy(a, b, part);
		memcpy(b, piece, part);
		a += part;
		b += part;
		bytes -= part;
	}
}

/* A heap whose largest is at [0]. */
static void sift_down(char *array, size_t at, size_t count, size_t bytes, sort_compare_fn compare,
		      void *ctx)
{
	for (size_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count &&
		    compare(array + child * bytes, array + (child + 1) * bytes, ctx) < 0)
			child++;
		if (compare(array + at * bytes, array + child * bytes, ctx) >= 0)
			return;
		swap(array + at * bytes, array + child * bytes, bytes);
	}
}

void sort_array(void *array, size_t count, size_t bytes, sort_compare_fn compare, void *ctx)
{
	for (size_t at = count / 2; at-- > 0;)
		sift_down(array, at, count, bytes, compare, ctx);
	for (size_t left = count; left > 1;) {
		left--;
		swap(array, (char *)array + left * bytes, bytes);
		sift_down(array, 0, left, bytes, compare, ctx);
	}
}

void sort_array_first(void *array, size_t count, size_t first, size_t bytes,
		      sort_compare_fn compare, void *ctx)
{
	char *elements = array;
	if (first > count)
		first = count;
	if (!first)
		return;
	/* The heap is of the smallest so far; whatever is below its largest takes its place. */
	for (size_t at = first / 2; at-- > 0;)
		sift_down(elements, at, first, bytes, compare, ctx);
	for (size_t i = first; i < count; i++) {
		if (compare(elements + i * bytes, elements, ctx) >= 0)
			continue;
		swap(elements + i * bytes, elements, bytes);
		sift_down(elements, 0, first, bytes, compare, ctx);
	}
	sort_array(array, first, bytes, compare, ctx);
}

static uint64_t number_of(const char *element)
{
	uint64_t number;
	memcpy(&number, element, sizeof number);
	return number;
}

/* In the order of one byte of the numbers. */
static void scatter(const char *from, char *to, size_t count, size_t bytes, unsigned shift)
{
	size_t starts[256] = {0}, next = 0;
	for (size_t i = 0; i < count; i++)
		starts[number_of(from + i * bytes) >> shift & 255]++;
	for (size_t value = 0; value < 256; value++) {
		size_t elements = starts[value];
		starts[value] = next;
		next += elements;
	}
	for (size_t i = 0; i < count; i++) {
		const char *element = from + i * bytes;
		memcpy(to + starts[number_of(element) >> shift & 255]++ * bytes, element, bytes);
	}
}

void sort_by_number(void *array, size_t count, size_t bytes, void *room)
{
	uint64_t differ = 0;
	char *from = array, *to = room;
	for (size_t i = 1; i < count; i++)
		differ |= number_of(from + i * bytes) ^ number_of(from);
	for (unsigned shift = 0; shift < 64; shift += 8) {
		if (!(differ >> shift & 255))
			continue;
		scatter(from, to, count, bytes, shift);
		char *other = from;
		from = to;
		to = other;
	}
	if (from != array)
		memcpy(array, from, count * bytes);
}
