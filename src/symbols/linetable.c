/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known limits: of a machine with several operations per instruction (VLIW) all
 * have the line of the instruction.
 */
#include "symbols/linetable.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"

/* What one unit's table may make us keep. */
enum { ROWS_MAX = 1 << 24, FILES_MAX = 1 << 18, FORMATS_MAX = 32 };

struct linetable_file {
	const char *name;
	uint64_t folder;
};

struct linetable_sequence {
	uint64_t low, high;
	size_t first, count; /* in rows */
};

struct header {
	const struct unit *unit;
	struct form_sizes sizes;
	uint8_t instruction_bytes, opcode_base, line_range;
	int8_t line_base;
	const uint8_t *opcode_lengths; /* [opcode_base - 1] */
	/* What each opcode from opcode_base on does, worked out once. */
	uint32_t advance[UINT8_MAX + 1];
	int16_t lines[UINT8_MAX + 1];
};

/* Room for one more of *count entries. */
static int reserve(void *list, size_t count, size_t *room, size_t bytes, size_t max)
{
	void **array = list;
	if (count < *room)
		return 0;
	size_t wanted = *room * 2 + 16;
	if (wanted > max)
		return -EFBIG;
	void *grown = tm_grow_array(*array, wanted, bytes);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*room = wanted;
	return 0;
}

static int add_folder(struct linetable *table, const char *name)
{
	int code = reserve(&table->folders, table->folder_count, &table->folder_room,
			   sizeof *table->folders, FILES_MAX);
	if (!code)
		table->folders[table->folder_count++] = name;
	return code;
}

static int add_file(struct linetable *table, const char *name, uint64_t folder)
{
	int code = reserve(&table->files, table->file_count, &table->file_room,
			   sizeof *table->files, FILES_MAX);
	if (!code)
		table->files[table->file_count++] =
			(struct linetable_file){.name = name, .folder = folder};
	return code;
}

/* Before DWARF 5: names one after the other until an empty one; 0 is the compiler's folder. */
static int read_old_names(struct linetable *table, struct cursor *in)
{
	int code = add_folder(table, NULL);
	const char *name;
	while (!code && (name = cursor_text(in))[0])
		code = add_folder(table, name);
	if (!code)
		code = add_file(table, NULL, 0);
	while (!code && (name = cursor_text(in))[0]) {
		uint64_t folder = cursor_uleb(in);
		cursor_uleb(in); /* time */
		cursor_uleb(in); /* size */
		code = add_file(table, name, folder);
	}
	return code ? code : in->bad ? -EBADMSG : 0;
}

/* A list of folders or files whose columns the table itself describes. */
static int read_list(struct linetable *table, const struct header *header, struct cursor *in,
		     bool files)
{
	struct abbrev_attr columns[FORMATS_MAX];
	unsigned column_count = cursor_u8(in);
	if (column_count > FORMATS_MAX)
		return -EBADMSG;
	for (unsigned i = 0; i < column_count; i++) {
		uint64_t name = cursor_uleb(in), form = cursor_uleb(in);
		if (!abbrev_attr_make(&columns[i], name, form, header->sizes))
			return -EBADMSG;
	}
	uint64_t count = cursor_uleb(in);
	if (in->bad || count > FILES_MAX || (count && !column_count))
		return -EBADMSG;
	int code = 0;
	for (uint64_t i = 0; !code && i < count; i++) {
		const char *name = NULL;
		uint64_t folder = 0;
		for (unsigned k = 0; k < column_count; k++) {
			struct value value = value_read(in, &columns[k], header->sizes);
			if (columns[k].name == DW_LNCT_path)
				name = unit_text(header->unit, &value);
			else if (columns[k].name == DW_LNCT_directory_index)
				folder = value.number;
		}
		if (in->bad)
			return -EBADMSG;
		code = files ? add_file(table, name, folder) : add_folder(table, name);
	}
	return code;
}

/* *program: from where the table begins to the instructions alone. */
static int read_header(struct linetable *table, struct header *header, struct cursor *program)
{
	struct cursor in = *program;
	uint64_t length = cursor_uint(&in, 4);
	header->sizes.offset = length == 0xffffffff ? 8 : 4;
	if (length == 0xffffffff)
		length = cursor_uint(&in, 8);
	if (in.bad || length > cursor_left(&in))
		return -EBADMSG;
	in.end = in.at + length;
	header->sizes.version = table->version = (uint16_t)cursor_uint(&in, 2);
	if (table->version < 2 || table->version > 5)
		return -EBADMSG;
	header->sizes.address = header->unit->sizes.address;
	if (table->version >= 5) {
		header->sizes.address = cursor_u8(&in);
		cursor_u8(&in); /* segment selectors */
	}
	uint64_t header_bytes = cursor_uint(&in, header->sizes.offset);
	if (in.bad || header_bytes > cursor_left(&in))
		return -EBADMSG;
	*program = (struct cursor){.at = in.at + header_bytes, .end = in.end};
	header->instruction_bytes = cursor_u8(&in);
	if (table->version >= 4)
		cursor_u8(&in); /* operations per instruction */
	cursor_u8(&in);         /* is_stmt of the first row */
	header->line_base = (int8_t)cursor_u8(&in);
	header->line_range = cursor_u8(&in);
	header->opcode_base = cursor_u8(&in);
	header->opcode_lengths = in.at;
	if (!header->line_range || !header->opcode_base ||
	    (header->sizes.address != 4 && header->sizes.address != 8))
		return -EBADMSG;
	cursor_skip(&in, header->opcode_base - 1u);
	if (table->version < 5)
		return read_old_names(table, &in);
	int code = read_list(table, header, &in, false);
	return code ? code : read_list(table, header, &in, true);
}

struct machine {
	struct linetable *table;
	const struct header *header;
	uint64_t address;
	uint32_t file, line, column;
	uint64_t low;    /* of the sequence */
	size_t first;    /* its first row */
	uint64_t last;   /* the last row's address */
	bool is_dropped; /* it cannot be kept as one sequence */
};

static void begin_sequence(struct machine *machine)
{
	machine->address = 0;
	machine->file = 1;
	machine->line = 1;
	machine->column = 0;
	machine->first = machine->table->row_count;
	machine->is_dropped = false;
}

static int end_sequence(struct machine *machine)
{
	struct linetable *table = machine->table;
	size_t count = table->row_count - machine->first;
	/* Dropped by the linker: at 0, or (lld) at the end of all addresses. */
	if (!count || machine->is_dropped || machine->low == 0 ||
	    machine->address <= machine->low || machine->low >= UINT64_MAX - 1) {
		table->row_count = machine->first;
		begin_sequence(machine);
		return 0;
	}
	int code = reserve(&table->sequences, table->sequence_count, &table->sequence_room,
			   sizeof *table->sequences, ROWS_MAX);
	if (code)
		return code;
	table->sequences[table->sequence_count++] = (struct linetable_sequence){
		.low = machine->low,
		.high = machine->address,
		.first = machine->first,
		.count = count,
	};
	begin_sequence(machine);
	return 0;
}

static int add_row(struct machine *machine)
{
	struct linetable *table = machine->table;
	if (table->row_count == machine->first)
		machine->low = machine->last = machine->address;
	if (machine->address < machine->last || machine->address - machine->low > UINT32_MAX) {
		machine->is_dropped = true;
		return 0;
	}
	uint32_t delta = (uint32_t)(machine->address - machine->low);
	/* Of several rows for one address the last one counts. */
	if (table->row_count > machine->first && machine->address == machine->last)
		table->row_count--;
	int code = reserve(&table->rows, table->row_count, &table->row_room, sizeof *table->rows,
			   ROWS_MAX);
	if (code)
		return code;
	table->rows[table->row_count++] = (struct linetable_row){
		.delta = delta,
		.file = machine->file,
		.line = machine->line,
		.column = machine->column,
	};
	machine->last = machine->address;
	return 0;
}

static int run_extended(struct machine *machine, struct cursor *in)
{
	uint64_t bytes = cursor_uleb(in);
	if (!bytes || bytes > cursor_left(in))
		return -EBADMSG;
	const uint8_t *next = in->at + bytes;
	int code = 0;
	switch (cursor_u8(in)) {
	case DW_LNE_end_sequence:
		code = end_sequence(machine);
		break;
	case DW_LNE_set_address:
		if (bytes - 1 != 4 && bytes - 1 != 8)
			return -EBADMSG;
		machine->address = cursor_uint(in, (unsigned)bytes - 1);
		break;
	case DW_LNE_define_file: {
		const char *name = cursor_text(in);
		code = add_file(machine->table, name, cursor_uleb(in));
		break;
	}
	}
	in->at = next;
	return code;
}

static void skip_standard(struct machine *machine, struct cursor *in, uint8_t opcode)
{
	for (uint8_t i = machine->header->opcode_lengths[opcode - 1]; i > 0; i--)
		cursor_uleb(in);
}

static int run_standard(struct machine *machine, struct cursor *in, uint8_t opcode)
{
	const struct header *header = machine->header;
	switch (opcode) {
	case DW_LNS_copy:
		return add_row(machine);
	case DW_LNS_advance_pc:
		machine->address += cursor_uleb(in) * header->instruction_bytes;
		return 0;
	case DW_LNS_advance_line:
		machine->line += (uint32_t)cursor_sleb(in);
		return 0;
	case DW_LNS_set_file:
		machine->file = (uint32_t)cursor_uleb(in);
		return 0;
	case DW_LNS_set_column:
		machine->column = (uint32_t)cursor_uleb(in);
		return 0;
	case DW_LNS_const_add_pc:
		machine->address += (uint64_t)((255 - header->opcode_base) / header->line_range) *
				    header->instruction_bytes;
		return 0;
	case DW_LNS_fixed_advance_pc:
		machine->address += cursor_uint(in, 2);
		return 0;
	}
	skip_standard(machine, in, opcode);
	return 0;
}

static void prepare_opcodes(struct header *header)
{
	for (unsigned opcode = header->opcode_base; opcode <= UINT8_MAX; opcode++) {
		unsigned step = opcode - header->opcode_base;
		header->advance[opcode] = step / header->line_range * header->instruction_bytes;
		header->lines[opcode] =
			(int16_t)(header->line_base + (int)(step % header->line_range));
	}
}

static int run_program(struct machine *machine, struct cursor *in)
{
	const struct header *header = machine->header;
	begin_sequence(machine);
	int code = 0;
	while (!code && cursor_left(in)) {
		uint8_t opcode = cursor_u8(in);
		if (opcode >= header->opcode_base) {
			unsigned step = (unsigned)(opcode - header->opcode_base);
			machine->address +=
				(uint64_t)(step / header->line_range) * header->instruction_bytes;
			machine->line +=
				(uint32_t)(header->line_base + (int)(step % header->line_range));
			code = add_row(machine);
		} else if (opcode == 0) {
			code = run_extended(machine, in);
		} else {
			code = run_standard(machine, in, opcode);
		}
	}
	/* What has no end is of unknown length. */
	machine->table->row_count = machine->first;
	return code == -EBADMSG ? 0 : code;
}

static int by_low(const void *left, const void *right)
{
	const struct linetable_sequence *a = left, *b = right;
	return (a->low > b->low) - (a->low < b->low);
}

int linetable_load(struct linetable *table, const struct unit *unit)
{
	*table = (struct linetable){.comp_dir = unit->comp_dir};
	if (unit->line_offset == UINT64_MAX)
		return -ENODATA;
	struct header header = {.unit = unit};
	struct cursor program = image_cursor(unit->dwarf->image, IMAGE_LINE, unit->line_offset);
	int code = read_header(table, &header, &program);
	if (!code) {
		prepare_opcodes(&header);
		code = run_program(&(struct machine){.table = table, .header = &header}, &program);
	}
	if (code) {
		linetable_done(table);
		return code;
	}
	if (table->sequence_count)
		qsort(table->sequences, table->sequence_count, sizeof *table->sequences, by_low);
	return 0;
}

void linetable_done(struct linetable *table)
{
	tm_free(table->rows);
	tm_free(table->sequences);
	tm_free(table->files);
	tm_free(table->folders);
	*table = (struct linetable){0};
}

size_t linetable_bytes(const struct linetable *table)
{
	return table->row_room * sizeof *table->rows +
	       table->sequence_room * sizeof *table->sequences +
	       table->file_room * sizeof *table->files +
	       table->folder_room * sizeof *table->folders;
}

static const struct linetable_sequence *find_sequence(const struct linetable *table,
						      uint64_t address)
{
	enum { LOOK_BACK = 8 }; /* sequences of one function that was linked twice */
	size_t low = 0, high = table->sequence_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (table->sequences[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i-- > 0 && low - i <= LOOK_BACK;)
		if (address < table->sequences[i].high)
			return &table->sequences[i];
	return NULL;
}

const struct linetable_row *linetable_find(const struct linetable *table, uint64_t address)
{
	const struct linetable_sequence *sequence = find_sequence(table, address);
	if (!sequence)
		return NULL;
	uint64_t delta = address - sequence->low;
	size_t low = 0, high = sequence->count;
	const struct linetable_row *rows = &table->rows[sequence->first];
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (rows[middle].delta <= delta)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &rows[low - 1] : NULL;
}

static void put_folder(struct text *out, const char *folder)
{
	if (!folder || !folder[0])
		return;
	text_put(out, folder);
	if (folder[strlen(folder) - 1] != '/')
		text_put_char(out, '/');
}

bool linetable_path(const struct linetable *table, uint32_t file, struct text *out)
{
	if (file >= table->file_count || !table->files[file].name || !table->files[file].name[0])
		return false;
	const struct linetable_file *found = &table->files[file];
	const char *folder =
		found->folder < table->folder_count ? table->folders[found->folder] : NULL;
	/* Since DWARF 5 the first folder is the one where the compiler ran. */
	const char *first = table->version >= 5 && table->folder_count ? table->folders[0] : NULL;
	const char *base = first && first[0] ? first : table->comp_dir;
	if (found->name[0] != '/') {
		bool relative = !folder || folder[0] != '/';
		if (relative && base != table->comp_dir && base[0] != '/' && table->comp_dir &&
		    table->comp_dir[0] == '/')
			put_folder(out, table->comp_dir);
		if (relative)
			put_folder(out, base);
		/*
		 * A build that maps its own path to "." names where the compiler ran
		 * and what it read there alike: put together they would be wrong.
		 */
		if (!relative || (folder && (!base || strcmp(folder, base))))
			put_folder(out, folder);
	}
	text_put(out, found->name);
	return true;
}
