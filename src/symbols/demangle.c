/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling by libiberty. Names come from hostile files: a few hundred bytes of
 * C++ substitutions can stand for gigabytes of text, so the printer is left by
 * longjmp once the caller's room is full. It keeps its state on the stack, so
 * nothing is lost by that.
 *
 * Known limits: a mangled name of MANGLED_MAX bytes or more is shown as it is.
 */
#include "symbols/symbols.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { MANGLED_MAX = 16 * 1024, D_MANGLED_MAX = 2 * 1024 };

struct sink {
	jmp_buf full;
	char *out;
	size_t used, room; /* room without the terminator */
};

static void append(const char *text, size_t bytes, void *opaque)
{
	struct sink *sink = opaque;
	size_t fits = bytes < sink->room - sink->used ? bytes : sink->room - sink->used;
	memcpy(sink->out + sink->used, text, fits);
	sink->used += fits;
	sink->out[sink->used] = '\0';
	if (fits < bytes)
		longjmp(sink->full, 1);
}

static void copy_cut(char *out, size_t out_bytes, const char *text)
{
	size_t bytes = strnlen(text, out_bytes - 1);
	memcpy(out, text, bytes);
	out[bytes] = '\0';
}

typedef int (*demangle_fn)(const char *name, int options, demangle_callbackref append,
			   void *opaque);

static bool demangle_with(demangle_fn demangle, const char *name, char *out, size_t out_bytes)
{
	struct sink sink = {.out = out, .room = out_bytes - 1};
	if (setjmp(sink.full))
		return true; /* cut, but a name */
	return demangle(name, DMGL_PARAMS | DMGL_ANSI, append, &sink) && out[0];
}

static bool demangle_d(const char *name, char *out, size_t out_bytes)
{
	if (strlen(name) > D_MANGLED_MAX)
		return false;
	char *text = dlang_demangle(name, DMGL_PARAMS);
	if (!text)
		return false;
	copy_cut(out, out_bytes, text);
	free(text);
	return true;
}

/*
 * The compiler's clones (.constprop.0, .isra.0, .part.0, .cold) and the linker's
 * versions (@@GLIBC_2.34) are one function of the source. Returns the length
 * without such endings.
 */
static size_t without_ending(const char *name)
{
	static const char *const endings[] = {".constprop.", ".isra.",     ".part.",
					      ".cold",       ".lto_priv.", ".llvm."};
	const char *cut = strchr(name + (*name != '\0'), '@');
	if (cut && cut[1] != '@' && (cut[1] < 'A' || cut[1] > 'Z'))
		cut = NULL;
	for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
		const char *found = strstr(name + (*name != '\0'), endings[i]);
		if (found && (!cut || found < cut))
			cut = found;
	}
	return cut ? (size_t)(cut - name) : strlen(name);
}

void symbols_demangle(const char *mangled, char *out, size_t out_bytes)
{
	char name[MANGLED_MAX];
	size_t bytes = without_ending(mangled);
	if (bytes >= sizeof name) {
		copy_cut(out, out_bytes, mangled);
		return;
	}
	memcpy(name, mangled, bytes);
	name[bytes] = '\0';
	/* Rust's older names look like those of C++ and end in a hash: 17h, 16 digits, E. */
	bool is_rust =
		!strncmp(name, "_R", 2) || (bytes > 20 && !strncmp(name + bytes - 20, "17h", 3));
	if (is_rust && demangle_with(rust_demangle_callback, name, out, out_bytes))
		return;
	if (!strncmp(name, "_Z", 2) &&
	    demangle_with(cplus_demangle_v3_callback, name, out, out_bytes))
		return;
	if (!strncmp(name, "_D", 2) && demangle_d(name, out, out_bytes))
		return;
	copy_cut(out, out_bytes, name);
}
