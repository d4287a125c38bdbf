/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/split.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>

#include "base/memory.h"

enum { PATH_ROOM = 4096 + 256, COLUMNS_MAX = 16 };
/* The columns of an index that matter here; those of version 2 and 5 agree on these. */
enum {
	COLUMN_INFO = 1,
	COLUMN_ABBREV = 3,
	COLUMN_LINE = 4,
	COLUMN_STR_OFFSETS = 6,
	COLUMN_RNGLISTS = 8
};

struct split_package {
	struct image image;
	uint32_t version, columns, units, slots;
	uint64_t hashes, rows, offsets; /* where the parts of the index begin */
	uint32_t column_of[COLUMNS_MAX];
};

struct split {
	struct image image; /* of a .dwo; unused when the package's is */
	struct dwarf dwarf;
};

static int open_image(struct image *image, const char *root, const char *path, uint64_t max_bytes)
{
	struct elffile file;
	if (elffile_open(&file, root, path, NULL))
		return -ENOENT;
	int code = image_open(image, &file, true, max_bytes);
	elffile_close(&file);
	return code == -ENODATA ? -ENOENT : code;
}

static int open_image_in_roots(struct image *image, const struct debugfile_search *search,
			       const char *path, uint64_t max_bytes)
{
	int code = -ENOENT;
	for (size_t i = 0; code == -ENOENT && i < search->root_count; i++)
		code = open_image(image, search->roots[i], path, max_bytes);
	return code;
}

/* ---- packages ---- */

static bool read_index(struct split_package *package)
{
	struct cursor in = image_cursor(&package->image, IMAGE_CU_INDEX, 0);
	package->version = (uint32_t)cursor_uint(&in, 4) & 0xffff; /* 5 has 16 bits and a filler */
	package->columns = (uint32_t)cursor_uint(&in, 4);
	package->units = (uint32_t)cursor_uint(&in, 4);
	package->slots = (uint32_t)cursor_uint(&in, 4);
	if (in.bad || (package->version != 2 && package->version != 5) || !package->slots ||
	    package->slots & (package->slots - 1) || package->columns > COLUMNS_MAX)
		return false;
	package->hashes = 16;
	package->rows = package->hashes + 8ull * package->slots;
	uint64_t names = package->rows + 4ull * package->slots;
	package->offsets = names + 4ull * package->columns;
	in = image_cursor(&package->image, IMAGE_CU_INDEX, names);
	for (uint32_t i = 0; i < package->columns; i++)
		package->column_of[i] = (uint32_t)cursor_uint(&in, 4);
	return !in.bad;
}

int split_package_open(struct split_package **ret_package, const struct elffile *module,
		       const struct debugfile_search *search, uint64_t max_bytes)
{
	char path[PATH_ROOM];
	if (!module->path ||
	    snprintf(path, sizeof path, "%s.dwp", module->path) >= (int)sizeof path)
		return -ENOENT;
	struct split_package *package = tm_alloc(sizeof *package);
	if (!package)
		return -ENOMEM;
	int code = open_image_in_roots(&package->image, search, path, max_bytes);
	if (!code && !read_index(package)) {
		image_close(&package->image);
		code = -ENOENT;
	}
	if (code) {
		tm_free(package);
		return code;
	}
	*ret_package = package;
	return 0;
}

struct split_package *split_package_close(struct split_package *package)
{
	if (package)
		image_close(&package->image);
	return tm_free(package);
}

static uint64_t index_uint(struct split_package *package, uint64_t offset, unsigned bytes)
{
	struct cursor in = image_cursor(&package->image, IMAGE_CU_INDEX, offset);
	return cursor_uint(&in, bytes);
}

/* The row of a unit, from 1 on; 0 = it is not in the package. */
static uint32_t find_row(struct split_package *package, uint64_t dwo_id)
{
	uint64_t mask = package->slots - 1, slot = dwo_id & mask;
	uint64_t step = (dwo_id >> 32 & mask) | 1;
	for (uint32_t i = 0; i < package->slots; i++, slot = (slot + step) & mask) {
		uint32_t row = (uint32_t)index_uint(package, package->rows + 4 * slot, 4);
		if (!row)
			return 0;
		if (index_uint(package, package->hashes + 8 * slot, 8) == dwo_id)
			return row <= package->units ? row : 0;
	}
	return 0;
}

static int init_from_package(struct split *split, const struct unit *skeleton,
			     struct split_package *package)
{
	uint32_t row = find_row(package, skeleton->dwo_id);
	if (!row)
		return -ENOENT;
	struct unit_bases bases = {0};
	uint64_t info = 0, at = package->offsets + 4ull * package->columns * (row - 1);
	for (uint32_t i = 0; i < package->columns; i++) {
		uint64_t offset = index_uint(package, at + 4 * i, 4);
		switch (package->column_of[i]) {
		case COLUMN_INFO:
			info = offset;
			break;
		case COLUMN_ABBREV:
			bases.abbrev = offset;
			break;
		case COLUMN_LINE:
			bases.line = offset;
			break;
		case COLUMN_STR_OFFSETS:
			bases.str_offsets = offset;
			break;
		case COLUMN_RNGLISTS:
			bases.rnglists = package->version == 5 ? offset : 0;
			break;
		}
	}
	return dwarf_init_one(&split->dwarf, &package->image, skeleton, info, &bases);
}

/* ---- single files ---- */

static int open_dwo(struct image *image, const struct unit *skeleton, const struct elffile *module,
		    const struct debugfile_search *search, uint64_t max_bytes)
{
	char path[PATH_ROOM];
	const char *name = skeleton->dwo_name, *folder = skeleton->comp_dir;
	if (!name)
		return -ENOENT;
	int bytes = name[0] == '/' || !folder ? snprintf(path, sizeof path, "%s", name)
					      : snprintf(path, sizeof path, "%s/%s", folder, name);
	int code = -ENOENT;
	if (bytes < (int)sizeof path && path[0] == '/')
		code = open_image_in_roots(image, search, path, max_bytes);
	const char *slash = module->path ? strrchr(module->path, '/') : NULL;
	const char *base = strrchr(name, '/');
	const char *const beside[] = {name, base ? base + 1 : name};
	for (size_t i = 0; code == -ENOENT && slash && i < 2; i++)
		if (snprintf(path, sizeof path, "%.*s/%s", (int)(slash - module->path),
			     module->path, beside[i]) < (int)sizeof path)
			code = open_image(image, module->root, path, max_bytes);
	return code;
}

static int init_from_file(struct split *split, const struct unit *skeleton,
			  const struct elffile *module, const struct debugfile_search *search,
			  uint64_t max_bytes)
{
	int code = open_dwo(&split->image, skeleton, module, search, max_bytes);
	if (!code)
		code = dwarf_init(&split->dwarf, &split->image, NULL, skeleton);
	return code;
}

/* Type units may be in the file, too. A file that was compiled anew has another id. */
static struct unit *find_unit(struct split *split, uint64_t dwo_id)
{
	for (size_t i = 0; i < split->dwarf.unit_count; i++) {
		struct unit *unit = &split->dwarf.units[i];
		if (unit->type != DW_UT_type && unit->type != DW_UT_split_type &&
		    unit->dwo_id == dwo_id)
			return unit;
	}
	return NULL;
}

int split_open(struct split **ret_split, const struct unit *skeleton, struct split_package *package,
	       const struct elffile *module, const struct debugfile_search *search,
	       uint64_t max_bytes)
{
	struct split *split = tm_alloc(sizeof *split);
	if (!split)
		return -ENOMEM;
	int code = package ? init_from_package(split, skeleton, package) : -ENOENT;
	if (code == -ENOENT)
		code = init_from_file(split, skeleton, module, search, max_bytes);
	if (!code && !find_unit(split, skeleton->dwo_id))
		code = -ENOENT;
	if (code) {
		split_close(split);
		return code;
	}
	*ret_split = split;
	return 0;
}

struct split *split_close(struct split *split)
{
	if (!split)
		return NULL;
	dwarf_done(&split->dwarf);
	image_close(&split->image);
	return tm_free(split);
}

struct unit *split_unit(struct split *split)
{
	return find_unit(split, split->dwarf.skeleton->dwo_id);
}
