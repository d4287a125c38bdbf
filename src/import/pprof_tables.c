/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/varint.h"
#include "import/pprof.h"

/* More than any program has; a packed file that claims more is a bomb. */
enum { ROWS_MAX = 1 << 24, STRING_BYTES_MAX = 512 << 20 };

/* ---- protobuf ---- */

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct field {
	uint32_t number, wire;
	uint64_t value; /* of numbers */
	struct pprof_span bytes;
};

static bool get_varint(struct pprof_span *s, uint64_t *ret)
{
	size_t taken = varint_get(s->next, (size_t)(s->end - s->next), ret);
	s->next += taken;
	return taken > 0;
}

static bool get_fixed(struct pprof_span *s, size_t bytes, uint64_t *ret)
{
	if ((size_t)(s->end - s->next) < bytes)
		return false;
	*ret = 0;
	for (size_t i = 0; i < bytes; i++)
		*ret |= (uint64_t)s->next[i] << (8 * i);
	s->next += bytes;
	return true;
}

/* False at the end and for what is no field; *bad tells them apart. */
static bool next_field(struct pprof_span *s, struct field *ret, bool *bad)
{
	uint64_t key, length;
	if (s->next == s->end)
		return false;
	*bad = true;
	*ret = (struct field){0};
	if (!get_varint(s, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
		return false;
	ret->number = (uint32_t)(key >> 3);
	ret->wire = key & 7;
	if (ret->wire == WIRE_VARINT && !get_varint(s, &ret->value))
		return false;
	if (ret->wire == WIRE_64 && !get_fixed(s, 8, &ret->value))
		return false;
	if (ret->wire == WIRE_32 && !get_fixed(s, 4, &ret->value))
		return false;
	if (ret->wire == WIRE_BYTES) {
		if (!get_varint(s, &length) || length > (uint64_t)(s->end - s->next))
			return false;
		ret->bytes = (struct pprof_span){s->next, s->next + length};
		s->next += length;
	}
	if (ret->wire > WIRE_32 || ret->wire == 3 || ret->wire == 4)
		return false;
	*bad = false;
	return true;
}

bool pprof_next_number(struct pprof_span *numbers, uint64_t *ret)
{
	return numbers->next < numbers->end && get_varint(numbers, ret);
}

/* ---- messages ---- */

static void *with_room(void *list, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return list;
	void *grown = count < ROWS_MAX ? tm_grow_array(list, *room * 2 + 256, bytes) : NULL;
	if (grown)
		*room = *room * 2 + 256;
	return grown;
}

static bool read_type(struct pprof_tables *t, struct pprof_span message)
{
	struct field field;
	bool bad = false;
	struct pprof_type type = {0};
	while (next_field(&message, &field, &bad)) {
		if (field.number == 1)
			type.type = field.value;
		else if (field.number == 2)
			type.unit = field.value;
	}
	if (!bad && t->type_count < PPROF_TYPES_MAX)
		t->types[t->type_count++] = type;
	return !bad;
}

static bool read_function(struct pprof_span message, struct pprof_function *ret)
{
	struct field field;
	bool bad = false;
	while (next_field(&message, &field, &bad)) {
		if (field.number == 1)
			ret->id = field.value;
		else if (field.number == 2)
			ret->name = field.value;
		else if (field.number == 4)
			ret->file = field.value;
	}
	return !bad;
}

static bool read_mapping(struct pprof_span message, struct pprof_mapping *ret)
{
	struct field field;
	bool bad = false;
	while (next_field(&message, &field, &bad)) {
		uint64_t *const places[] = {NULL,         &ret->id,   &ret->start,   &ret->limit,
					    &ret->offset, &ret->file, &ret->build_id};
		if (field.number < sizeof places / sizeof places[0])
			*places[field.number] = field.value;
	}
	return !bad;
}

static bool read_line(struct pprof_span message, struct pprof_line *ret)
{
	struct field field;
	bool bad = false;
	while (next_field(&message, &field, &bad)) {
		if (field.number == 1)
			ret->function_id = field.value;
		else if (field.number == 2)
			ret->line = (int64_t)field.value;
	}
	return !bad;
}

/* 0, -EBADMSG, -ENOMEM. */
static int read_location(struct pprof_tables *t, struct pprof_span message,
			 struct pprof_location *ret)
{
	struct field field;
	bool bad = false;
	ret->first_line = (uint32_t)t->line_count;
	while (next_field(&message, &field, &bad)) {
		if (field.number == 1)
			ret->id = field.value;
		else if (field.number == 2)
			ret->mapping_id = field.value;
		else if (field.number == 3)
			ret->address = field.value;
		if (field.number != 4 || field.wire != WIRE_BYTES)
			continue;
		void *grown = with_room(t->lines, t->line_count, &t->line_room, sizeof *t->lines);
		if (!grown)
			return -ENOMEM;
		t->lines = grown;
		t->lines[t->line_count] = (struct pprof_line){0};
		if (!read_line(field.bytes, &t->lines[t->line_count]))
			return -EBADMSG;
		t->line_count++;
		ret->line_count++;
	}
	return bad ? -EBADMSG : 0;
}

static bool same_function(const void *ctx, uint32_t id, const void *key)
{
	return ((const struct pprof_tables *)ctx)->functions[id].id == *(const uint64_t *)key;
}

static bool same_location(const void *ctx, uint32_t id, const void *key)
{
	return ((const struct pprof_tables *)ctx)->locations[id].id == *(const uint64_t *)key;
}

static bool same_mapping(const void *ctx, uint32_t id, const void *key)
{
	return ((const struct pprof_tables *)ctx)->mappings[id].id == *(const uint64_t *)key;
}

static int add_function(struct pprof_tables *t, struct pprof_span message)
{
	struct pprof_function function = {0};
	if (!read_function(message, &function))
		return -EBADMSG;
	void *grown =
		with_room(t->functions, t->function_count, &t->function_room, sizeof *t->functions);
	if (!grown)
		return -ENOMEM;
	t->functions = grown;
	t->functions[t->function_count] = function;
	/* Of two with one id the first counts. */
	if (pprof_function(t, function.id))
		return -EBADMSG;
	return idmap_add(&t->function_map, hash_u64(function.id), (uint32_t)t->function_count++);
}

static int add_location(struct pprof_tables *t, struct pprof_span message)
{
	struct pprof_location location = {0};
	int code = read_location(t, message, &location);
	if (code)
		return code;
	void *grown =
		with_room(t->locations, t->location_count, &t->location_room, sizeof *t->locations);
	if (!grown)
		return -ENOMEM;
	t->locations = grown;
	t->locations[t->location_count] = location;
	if (pprof_location(t, location.id))
		return -EBADMSG;
	return idmap_add(&t->location_map, hash_u64(location.id), (uint32_t)t->location_count++);
}

static int add_mapping(struct pprof_tables *t, struct pprof_span message)
{
	struct pprof_mapping mapping = {0};
	if (!read_mapping(message, &mapping))
		return -EBADMSG;
	void *grown =
		with_room(t->mappings, t->mapping_count, &t->mapping_room, sizeof *t->mappings);
	if (!grown)
		return -ENOMEM;
	t->mappings = grown;
	t->mappings[t->mapping_count] = mapping;
	if (pprof_mapping(t, mapping.id))
		return -EBADMSG;
	return idmap_add(&t->mapping_map, hash_u64(mapping.id), (uint32_t)t->mapping_count++);
}

static int add_string(struct pprof_tables *t, struct pprof_span text)
{
	size_t bytes = (size_t)(text.end - text.next);
	void *grown =
		with_room(t->string_ends, t->string_count, &t->string_room, sizeof *t->string_ends);
	if (!grown)
		return -ENOMEM;
	t->string_ends = grown;
	if (bytes > STRING_BYTES_MAX - t->byte_count)
		return -EFBIG;
	if (t->byte_count + bytes > t->byte_room) {
		size_t room = (t->byte_room + bytes) * 2 + 4096;
		char *more = tm_grow_array(t->bytes, room, 1);
		if (!more)
			return -ENOMEM;
		t->bytes = more;
		t->byte_room = room;
	}
	if (bytes)
		memcpy(t->bytes + t->byte_count, text.next, bytes);
	t->byte_count += bytes;
	t->string_ends[t->string_count++] = t->byte_count;
	return 0;
}

static int add_message(struct pprof_tables *t, uint32_t field, struct pprof_span message)
{
	switch (field) {
	case PPROF_TYPE:
		return read_type(t, message) ? 0 : -EBADMSG;
	case PPROF_MAPPING:
		return add_mapping(t, message);
	case PPROF_LOCATION:
		return add_location(t, message);
	case PPROF_FUNCTION:
		return add_function(t, message);
	case PPROF_STRING:
		return add_string(t, message);
	default:
		return 0;
	}
}

/* ---- the file ---- */

static void take_number(struct pprof_tables *t, uint32_t field, uint64_t value)
{
	if (t->read)
		return;
	if (field == PPROF_TIME)
		t->time_ns = value <= INT64_MAX ? value : 0;
	else if (field == PPROF_DURATION)
		t->duration_ns = value <= INT64_MAX ? value : 0;
	else if (field == PPROF_COMMENT &&
		 t->comment_count < sizeof t->comments / sizeof t->comments[0])
		t->comments[t->comment_count++] = value;
}

/* What has no length is at most a key and a number long. */
static bool take_short(struct pprof_tables *t, struct import_input *in, const char *data,
		       size_t seen)
{
	struct pprof_span span = {(const uint8_t *)data, (const uint8_t *)data + seen};
	struct field field;
	bool bad = false;
	if (!next_field(&span, &field, &bad))
		return false;
	take_number(t, field.number, field.value);
	input_take(in, (size_t)(span.next - (const uint8_t *)data));
	return true;
}

/*
 * One field of the profile. 1: done, *ret_field with its bytes if it has any; 0: the end; -EBADMSG.
 * Messages of more than INPUT_PEEK_MAX are skipped: *ret_field is 0.
 */
static int take_field(struct pprof_tables *t, struct import_input *in, uint32_t *ret_field,
		      struct pprof_span *ret_bytes)
{
	enum { HEAD = 20 };
	const char *data;
	uint64_t key, length;
	size_t seen = input_peek(in, HEAD, &data);
	*ret_field = 0;
	if (!seen)
		return 0;
	struct pprof_span head = {(const uint8_t *)data, (const uint8_t *)data + seen};
	if (!get_varint(&head, &key))
		return -EBADMSG;
	if ((key & 7) != WIRE_BYTES)
		return take_short(t, in, data, seen < HEAD ? seen : HEAD) ? 1 : -EBADMSG;
	if (!get_varint(&head, &length))
		return -EBADMSG;
	input_take(in, (size_t)(head.next - (const uint8_t *)data));
	if (length > INPUT_PEEK_MAX) {
		t->odd += !t->read;
		return input_skip(in, length) ? 1 : -EBADMSG;
	}
	if (input_peek(in, (size_t)length, &data) < length)
		return -EBADMSG;
	*ret_field = (uint32_t)(key >> 3);
	*ret_bytes = (struct pprof_span){(const uint8_t *)data, (const uint8_t *)data + length};
	input_take(in, (size_t)length);
	return 1;
}

int pprof_read(struct pprof_tables *t, struct import_input *in, uint32_t field, pprof_message_fn fn,
	       void *ctx, struct tm_error *err)
{
	uint32_t number;
	struct pprof_span bytes;
	int got, code = 0;
	while (!code && (got = take_field(t, in, &number, &bytes)) != 0) {
		if (got < 0) {
			t->cut = true;
			break;
		}
		if (number == field)
			code = fn(ctx, bytes, err);
	}
	return code;
}

int pprof_read_tables(struct pprof_tables *t, struct import_input *in, struct tm_error *err)
{
	uint32_t number;
	struct pprof_span bytes;
	int got;
	while ((got = take_field(t, in, &number, &bytes)) > 0) {
		int code = number ? add_message(t, number, bytes) : 0;
		if (code == -EFBIG || t->string_count >= ROWS_MAX || t->line_count >= ROWS_MAX)
			return tm_fail(err, -EFBIG,
				       "its tables are larger than those of any program");
		if (code == -ENOMEM)
			return tm_fail(err, code, "no memory for the tables of the profile");
		t->odd += code != 0;
	}
	t->cut = got < 0;
	t->read = true;
	return 0;
}

void pprof_tables_done(struct pprof_tables *t)
{
	tm_free(t->functions);
	tm_free(t->locations);
	tm_free(t->lines);
	tm_free(t->mappings);
	tm_free(t->bytes);
	tm_free(t->string_ends);
	idmap_done(&t->function_map);
	idmap_done(&t->location_map);
	idmap_done(&t->mapping_map);
	*t = (struct pprof_tables){0};
}

/* Every field of the head must be one that a profile has, with its kind of value. */
bool pprof_recognise(const char *head, size_t bytes, bool whole)
{
	static const uint8_t wires[] = {9, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 2, 0, 0, 0};
	struct pprof_span span = {(const uint8_t *)head, (const uint8_t *)head + bytes};
	size_t fields = 0, types = 0;
	while (span.next < span.end) {
		uint64_t key, value;
		if (!get_varint(&span, &key) || key >> 3 == 0 || key >> 3 >= sizeof wires)
			return !whole && fields > 8 && types && span.next == span.end;
		/* Repeated numbers may come packed. */
		bool packed = (key >> 3) == PPROF_COMMENT && (key & 7) == WIRE_BYTES;
		if ((key & 7) != wires[key >> 3] && !packed)
			return false;
		if (!get_varint(&span, &value))
			return !whole && types;
		types += key >> 3 == PPROF_TYPE;
		fields++;
		if ((key & 7) != WIRE_BYTES)
			continue;
		if (value > (uint64_t)(span.end - span.next))
			return !whole && types && value < STRING_BYTES_MAX;
		span.next += value;
	}
	return types > 0;
}

/* ---- samples ---- */

static void add_number(struct pprof_sample *sample, int which, uint64_t value)
{
	uint8_t *out = sample->unpacked[which] + sample->unpacked_bytes[which];
	if (sample->unpacked_bytes[which] + VARINT_BYTES_MAX <= sizeof sample->unpacked[which])
		sample->unpacked_bytes[which] += varint_put(out, value);
}

static void read_label(const struct pprof_tables *t, struct pprof_span message,
		       struct pprof_sample *ret)
{
	struct field field;
	bool bad = false;
	uint64_t key = 0, number = 0;
	while (next_field(&message, &field, &bad)) {
		if (field.number == 1)
			key = field.value;
		else if (field.number == 3)
			number = field.value;
	}
	struct frames_text name = pprof_string(t, key);
	if (!bad && name.length == 5 && !memcmp(name.data, "bytes", 5) && number <= INT64_MAX)
		ret->block_bytes = number;
}

bool pprof_read_sample(const struct pprof_tables *t, struct pprof_span message,
		       struct pprof_sample *ret)
{
	struct field field;
	bool bad = false;
	ret->locations = ret->values = (struct pprof_span){0};
	ret->block_bytes = ret->unpacked_bytes[0] = ret->unpacked_bytes[1] = 0;
	while (next_field(&message, &field, &bad)) {
		if (field.number == 3 && field.wire == WIRE_BYTES)
			read_label(t, field.bytes, ret);
		if (field.number < 1 || field.number > 2)
			continue;
		struct pprof_span *list = field.number == 1 ? &ret->locations : &ret->values;
		if (field.wire == WIRE_BYTES)
			*list = field.bytes;
		else if (field.wire == WIRE_VARINT)
			add_number(ret, (int)field.number - 1, field.value);
	}
	for (int i = 0; i < 2; i++) {
		struct pprof_span *list = i ? &ret->values : &ret->locations;
		if (ret->unpacked_bytes[i])
			*list = (struct pprof_span){ret->unpacked[i],
						    ret->unpacked[i] + ret->unpacked_bytes[i]};
	}
	return !bad;
}

/* ---- looking up ---- */

struct frames_text pprof_string(const struct pprof_tables *t, uint64_t number)
{
	if (number == 0 || number >= t->string_count)
		return (struct frames_text){0};
	uint64_t begin = t->string_ends[number - 1];
	return frames_text(t->bytes + begin, (size_t)(t->string_ends[number] - begin));
}

const struct pprof_function *pprof_function(const struct pprof_tables *t, uint64_t id)
{
	uint32_t at = idmap_find(&t->function_map, hash_u64(id), same_function, t, &id);
	return at == IDMAP_NONE ? NULL : &t->functions[at];
}

struct pprof_location *pprof_location(const struct pprof_tables *t, uint64_t id)
{
	uint32_t at = idmap_find(&t->location_map, hash_u64(id), same_location, t, &id);
	return at == IDMAP_NONE ? NULL : &t->locations[at];
}

struct pprof_mapping *pprof_mapping(const struct pprof_tables *t, uint64_t id)
{
	uint32_t at = idmap_find(&t->mapping_map, hash_u64(id), same_mapping, t, &id);
	return at == IDMAP_NONE ? NULL : &t->mappings[at];
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

uint32_t pprof_hex(struct frames_text text, uint8_t *out, size_t room)
{
	size_t bytes = text.length / 2;
	if (text.length % 2 || bytes > room)
		return 0;
	for (size_t i = 0; i < bytes; i++) {
		int high = digit(text.data[2 * i]), low = digit(text.data[2 * i + 1]);
		if (high < 0 || low < 0)
			return 0;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return (uint32_t)bytes;
}
