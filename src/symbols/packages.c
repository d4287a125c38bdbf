/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of sources tell most: package managers put what they fetch into folders
 * with known names. A table has these; the part of the path after such a folder
 * is the package.
 */
#include "symbols/packages.h"

#include <string.h>

#include "symbols/cxxname.h"

const char *package_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

static void set_name(struct package *package, const char *name, size_t bytes)
{
	size_t fits = bytes < PACKAGE_NAME_MAX - 1 ? bytes : PACKAGE_NAME_MAX - 1;
	memcpy(package->name, name, fits);
	package->name[fits] = '\0';
}

/* The last c in text[0, bytes), or NULL. */
static const char *last_of(const char *text, char c, size_t bytes)
{
	while (bytes-- > 0)
		if (text[bytes] == c)
			return text + bytes;
	return NULL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "serde-1.0.2" -> "serde"; "libfoo-2" too. A name that only has a number in it stays. */
static size_t without_version(const char *name, size_t bytes)
{
	for (size_t i = 1; i + 1 < bytes; i++)
		if (name[i] == '-' && (is_digit(name[i + 1]) || name[i + 1] == '#'))
			return i;
	return bytes;
}

/* ---- paths of sources ---- */

enum name_rule {
	NAME_PLAIN,     /* the part is the name */
	NAME_VERSIONED, /* name-1.2.3 */
	NAME_HASHED,    /* name-0123abcd: cargo's checkouts */
	NAME_SCOPED,    /* npm: @scope/name */
	NAME_SOURCE,    /* CMake's FetchContent: name-src */
	NAME_FIXED,     /* `name` of the table */
};

struct place {
	const char *folder; /* with slashes; one at its beginning also fits the path's begin */
	enum name_rule rule;
	enum frame_kind kind;
	bool last;        /* the last such folder of the path counts (packages in packages) */
	uint8_t skip;     /* parts between the folder and the name */
	const char *name; /* NAME_FIXED */
};

/* In this order. */
static const struct place places[] = {
	/* JavaScript */
	{.folder = "/node_modules/", .rule = NAME_SCOPED, .kind = KIND_LIBRARY, .last = true},
	{.folder = "/.yarn/cache/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .last = true},
	/* Rust */
	{.folder = "/registry/src/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .skip = 1},
	{.folder = "/git/checkouts/", .rule = NAME_HASHED, .kind = KIND_LIBRARY},
	{.folder = "/rust/deps/", .rule = NAME_VERSIONED, .kind = KIND_STANDARD},
	{.folder = "/share/cargo/registry/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY},
	{.folder = "/library/std/src/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "std"},
	{.folder = "/library/core/src/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "core"},
	{.folder = "/library/alloc/src/",
	 .rule = NAME_FIXED,
	 .kind = KIND_STANDARD,
	 .name = "alloc"},
	{.folder = "/library/panic_unwind/src/",
	 .rule = NAME_FIXED,
	 .kind = KIND_RUNTIME,
	 .name = "panic_unwind"},
	{.folder = "/library/proc_macro/src/",
	 .rule = NAME_FIXED,
	 .kind = KIND_STANDARD,
	 .name = "proc_macro"},
	{.folder = "/library/test/src/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "test"},
	{.folder = "/library/backtrace/src/",
	 .rule = NAME_FIXED,
	 .kind = KIND_STANDARD,
	 .name = "backtrace"},
	{.folder = "/libstd/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "std"},
	{.folder = "/libcore/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "core"},
	{.folder = "/liballoc/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "alloc"},
	/* Nim */
	{.folder = "/.nimble/pkgs/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY},
	{.folder = "/.nimble/pkgs2/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY},
	{.folder = "/nimblecache/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY},
	/* C and C++: compilers and systems */
	{.folder = "/include/c++/v1/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "libc++"},
	{.folder = "/include/c++/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "libstdc++"},
	{.folder = "/libstdc++-v3/",
	 .rule = NAME_FIXED,
	 .kind = KIND_STANDARD,
	 .name = "libstdc++"},
	{.folder = "/libcxx/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "libc++"},
	{.folder = "/libgcc/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "libgcc"},
	{.folder = "/libsupc++/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "libstdc++"},
	/* D */
	{.folder = "/include/d/std/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "phobos"},
	{.folder = "/include/d/core/",
	 .rule = NAME_FIXED,
	 .kind = KIND_RUNTIME,
	 .name = "druntime"},
	{.folder = "/include/d/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "phobos"},
	{.folder = "/libdruntime/", .rule = NAME_FIXED, .kind = KIND_RUNTIME, .name = "druntime"},
	{.folder = "/phobos/", .rule = NAME_FIXED, .kind = KIND_STANDARD, .name = "phobos"},
	{.folder = "/.dub/packages/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY},
	/* C and C++: what is fetched or kept beside the program's own source */
	{.folder = "/vcpkg/buildtrees/", .rule = NAME_PLAIN, .kind = KIND_LIBRARY},
	{.folder = "/vcpkg_installed/", .rule = NAME_PLAIN, .kind = KIND_LIBRARY, .skip = 2},
	{.folder = "/.conan/data/", .rule = NAME_PLAIN, .kind = KIND_LIBRARY},
	{.folder = "/.conan2/p/", .rule = NAME_PLAIN, .kind = KIND_LIBRARY},
	{.folder = "/_deps/", .rule = NAME_SOURCE, .kind = KIND_LIBRARY},
	{.folder = "/subprojects/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .last = true},
	{.folder = "/third_party/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .last = true},
	{.folder = "/third-party/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .last = true},
	{.folder = "/thirdparty/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .last = true},
	{.folder = "/3rdparty/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .last = true},
	{.folder = "/3rd_party/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .last = true},
	{.folder = "/external/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .last = true},
	{.folder = "/vendor/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .last = true},
	{.folder = "/deps/", .rule = NAME_VERSIONED, .kind = KIND_LIBRARY, .last = true},
};

static const char *find_folder(const char *path, const struct place *place)
{
	size_t bytes = strlen(place->folder);
	const char *found = NULL;
	if (!strncmp(path, place->folder + 1, bytes - 1))
		found = path + bytes - 1;
	for (const char *at = path; (!found || place->last) && (at = strstr(at, place->folder));) {
		at += bytes - 1; /* its last slash may be the next one's first */
		found = at + 1;
	}
	return found;
}

static size_t part_bytes(const char *at)
{
	return strcspn(at, "/");
}

static bool name_from(struct package *package, const struct place *place, const char *at)
{
	for (unsigned i = 0; i < place->skip; i++) {
		at += part_bytes(at);
		if (!*at++)
			return false;
	}
	size_t bytes = part_bytes(at);
	/* A file in the folder itself is no package. */
	if (!bytes || (place->rule != NAME_FIXED && !at[bytes]))
		return false;
	switch (place->rule) {
	case NAME_PLAIN:
		break;
	case NAME_VERSIONED:
		bytes = without_version(at, bytes);
		break;
	case NAME_HASHED: {
		const char *dash = last_of(at, '-', bytes);
		bytes = dash && dash > at ? (size_t)(dash - at) : bytes;
		break;
	}
	case NAME_SCOPED:
		if (*at == '@')
			bytes += 1 + part_bytes(at + bytes + 1);
		/* pnpm's store has further node_modules below: the last one counts */
		break;
	case NAME_SOURCE:
		if (bytes > 4 && !strncmp(at + bytes - 4, "-src", 4))
			bytes -= 4;
		break;
	case NAME_FIXED:
		at = place->name;
		bytes = strlen(at);
		break;
	}
	set_name(package, at, bytes);
	package->kind = place->kind;
	return true;
}

static bool by_place(struct package *package, const char *file)
{
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		const char *at = find_folder(file, &places[i]);
		if (at && name_from(package, &places[i], at))
			return true;
	}
	return false;
}

/* Headers of the system: /usr/include/boost/..., /usr/include/x86_64-linux-gnu/... */
static bool by_system_header(struct package *package, const char *file)
{
	static const char *const roots[] = {"/usr/include/", "/usr/local/include/"};
	for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
		if (strncmp(file, roots[i], strlen(roots[i])) != 0)
			continue;
		const char *at = file + strlen(roots[i]);
		if (!strncmp(at, "x86_64-linux-gnu/", 17) || !strncmp(at, "aarch64-linux-gnu/", 18))
			at = strchr(at, '/') + 1;
		size_t bytes = part_bytes(at);
		if (at[bytes] && strncmp(at, "bits/", 5) != 0 && strncmp(at, "sys/", 4) != 0) {
			set_name(package, at, bytes);
			package->kind = KIND_LIBRARY;
		} else {
			set_name(package, "libc", 4);
			package->kind = KIND_STANDARD;
		}
		return true;
	}
	return false;
}

static bool ends_with(const char *text, const char *end)
{
	size_t bytes = strlen(text), cut = strlen(end);
	return bytes >= cut && !memcmp(text + bytes - cut, end, cut);
}

/* ---- modules ---- */

static bool is_system_folder(const char *path)
{
	static const char *const folders[] = {"/usr/lib",    "/lib",   "/usr/local/lib",
					      "/nix/store/", "/snap/", "/opt/rh/"};
	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
		if (!strncmp(path, folders[i], strlen(folders[i])))
			return true;
	return false;
}

/* "libfoo.so.1.2" -> "libfoo", "ld-linux-x86-64.so.2" -> "ld-linux-x86-64". */
static void by_module(struct package *package, const char *module)
{
	static const char *const standard[] = {"libc",   "libm",     "libpthread",
					       "libdl",  "librt",    "libstdc++",
					       "libc++", "libgcc_s", "libc++abi"};
	const char *base = package_base_name(module);
	const char *so = strstr(base, ".so");
	if (*base == '[') {
		package->kind = KIND_UNKNOWN;
		if (!strcmp(base, "[vdso]")) {
			set_name(package, base, strlen(base));
			package->kind = KIND_RUNTIME;
		}
		return;
	}
	size_t bytes = so ? (size_t)(so - base) : strlen(base);
	if (!so && ends_with(base, ".node"))
		bytes -= 5;
	set_name(package, base, bytes);
	bool library = so && is_system_folder(module);
	package->kind = library ? KIND_LIBRARY : KIND_APPLICATION;
	for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++)
		if (so && !strcmp(package->name, standard[i]))
			package->kind = KIND_STANDARD;
	if (!strncmp(package->name, "ld-", 3) && so)
		package->kind = KIND_STANDARD;
	if (!strncmp(package->name, "libc-2", 6) || !strncmp(package->name, "libc.musl", 9)) {
		set_name(package, "libc", 4);
		package->kind = KIND_STANDARD;
	}
}

/* ---- names of functions ---- */

/*
 * The crate of a demangled Rust name: the first part of the path, of the type
 * where it begins with one: "<alloc::vec::Vec<T> as core::clone::Clone>::clone".
 */
static size_t crate_of(const char *function, const char **ret_crate)
{
	const char *at = function;
	for (;;) {
		at += strspn(at, "<&*([ ");
		if (!strncmp(at, "mut ", 4) || !strncmp(at, "dyn ", 4))
			at += 4;
		else if (!strncmp(at, "const ", 6))
			at += 6;
		else if (!strncmp(at, "impl ", 5))
			at += 5;
		else
			break;
	}
	size_t bytes = 0;
	while (is_word(at[bytes]))
		bytes++;
	*ret_crate = at;
	return bytes && !strncmp(at + bytes, "::", 2) ? bytes : 0;
}

static bool is_standard_crate(const char *name, size_t bytes)
{
	static const char *const crates[] = {"std", "core", "alloc", "proc_macro", "test"};
	for (size_t i = 0; i < sizeof crates / sizeof crates[0]; i++)
		if (strlen(crates[i]) == bytes && !memcmp(crates[i], name, bytes))
			return true;
	return false;
}

/* A folder before "/src/" is mostly the crate's. */
static bool by_crate_folder(struct package *package, const char *file)
{
	const char *src = strstr(file, "/src/");
	if (!src || src == file)
		return false;
	const char *begin = last_of(file, '/', (size_t)(src - file));
	begin = begin ? begin + 1 : file;
	set_name(package, begin, (size_t)(src - begin));
	return src > begin;
}

/* Rust in the user's workspace. */
static void by_crate(struct package *package, const struct kinds_frame *frame)
{
	const char *crate;
	size_t bytes = frame->function ? crate_of(frame->function, &crate) : 0;
	package->kind = KIND_APPLICATION;
	/* A trait of the program's on a type of std's is the program's. */
	if (bytes && !is_standard_crate(crate, bytes))
		set_name(package, crate, bytes);
	else if (!by_crate_folder(package, frame->file))
		by_module(package, frame->module ? frame->module : "");
}

static void by_nim(struct package *package, const char *file)
{
	const char *base = package_base_name(file);
	bool toolchain = strstr(file, "/nim/lib/") || strstr(file, "/lib/nim/") ||
			 strstr(file, "/choosenim/") || strstr(file, "/.choosenim/");
	set_name(package, base, strcspn(base, "."));
	package->kind = toolchain ? KIND_STANDARD : KIND_APPLICATION;
}

/* The last '.' or '/' in [begin, end), or NULL. */
static const char *last_separator(const char *begin, const char *end)
{
	while (end-- > begin)
		if (*end == '.' || *end == '/')
			return end;
	return NULL;
}

/*
 * "Ljava/util/ArrayList;::add", "java.util.ArrayList::add", or as the JDK itself
 * writes it, "boolean java.util.ArrayList.add(java.lang.Object)" -> "java.util".
 */
static bool by_java_class(struct package *package, const char *function)
{
	const char *begin = cxxname_plain(function), *end = strstr(begin, "::");
	if (!end && (end = strchr(begin, '(')))
		end = last_separator(begin, end);
	if (!end || end == begin)
		return false;
	begin += *begin == 'L' && end[-1] == ';';
	const char *last = last_separator(begin, end);
	for (const char *at = begin; at < end; at++)
		if (!is_word(*at) && !strchr("./$;", *at))
			return false;
	if (!last || last == begin)
		return false;
	set_name(package, begin, (size_t)(last - begin));
	for (char *at = package->name; *at; at++)
		*at = *at == '/' ? '.' : *at;
	bool standard = !strncmp(package->name, "java.", 5) ||
			!strncmp(package->name, "javax.", 6) ||
			!strncmp(package->name, "jdk.", 4) || !strncmp(package->name, "sun.", 4);
	package->kind = standard ? KIND_STANDARD : KIND_APPLICATION;
	return true;
}

/* What is not fetched by a package manager is the program's own; node's own has no folder. */
static void by_script(struct package *package, const struct kinds_frame *frame)
{
	package->kind = KIND_APPLICATION;
	set_name(package, "application", 11);
	if (frame->file && !strncmp(frame->file, "node:", 5)) {
		set_name(package, "node", 4);
		package->kind = KIND_RUNTIME;
	} else if (!frame->file && frame->function) {
		by_java_class(package, frame->function);
	}
}

/* No source file is known: the name of the function may still tell. */
static bool by_function(struct package *package, const struct kinds_frame *frame)
{
	const char *crate;
	const char *plain = frame->function ? cxxname_plain(frame->function) : "";
	size_t bytes = crate_of(plain, &crate);
	if (!bytes)
		return false;
	if (bytes == 3 && !memcmp(crate, "std", 3)) {
		/* C++ and Rust both have it. Rust's has no parameters. */
		bool cpp = cxxname_has_parameters(plain);
		set_name(package, cpp ? "libstdc++" : "std", cpp ? 9 : 3);
		package->kind = KIND_STANDARD;
		return true;
	}
	if (bytes == 9 && !memcmp(crate, "__gnu_cxx", 9)) {
		set_name(package, "libstdc++", 9);
		package->kind = KIND_STANDARD;
		return true;
	}
	/* Without parameters it is Rust, and the first part a crate; in C++ a namespace. */
	if (cxxname_has_parameters(plain))
		return false;
	set_name(package, crate, bytes);
	package->kind = is_standard_crate(crate, bytes) ? KIND_STANDARD : KIND_APPLICATION;
	return true;
}

void package_of(const struct kinds_frame *frame, struct package *ret_package)
{
	const char *file = frame->file, *module = frame->module ? frame->module : "";
	*ret_package = (struct package){.kind = KIND_UNKNOWN};
	if (!frame->function && !file) {
		by_module(ret_package, module);
		return;
	}
	if (file && (by_place(ret_package, file) || by_system_header(ret_package, file)))
		return;
	if (frame->jit) {
		by_script(ret_package, frame);
		return;
	}
	by_module(ret_package, module);
	/* A library of the system is what it is called, wherever it was built. */
	if (ret_package->kind == KIND_LIBRARY || ret_package->kind == KIND_STANDARD)
		return;
	if (file && ends_with(file, ".rs"))
		by_crate(ret_package, frame);
	else if (file && ends_with(file, ".nim"))
		by_nim(ret_package, file);
	else if (!file && !by_function(ret_package, frame))
		by_module(ret_package, module);
}
