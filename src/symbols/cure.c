/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/cure.h"

#include <string.h>

#include "symbols/packages.h"

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool has_module(const struct trace_module *modules, size_t count, const char *name,
		       const char *library)
{
	for (size_t i = 1; i < count; i++) {
		const char *path = modules[i].path ? modules[i].path : "";
		/* A label may have any text, with slashes in it. */
		const char *base = *path == '[' ? path : package_base_name(path);
		if (!strcmp(base, name) || begins(base, library))
			return true;
	}
	return false;
}

enum cure cure_of(const char *module, struct cure_signs signs, const struct trace_module *modules,
		  size_t module_count)
{
	static const char *const system[] = {"/usr/lib",   "/lib",   "/usr/bin/",    "/bin/",
					     "/usr/sbin/", "/sbin/", "/usr/libexec/"};
	size_t bytes = strlen(module);
	if (*module == '[') {
		if (signs.mapped)
			return CURE_MAP;
		if (has_module(modules, module_count, "node", "libnode.so"))
			return CURE_NODE;
		return has_module(modules, module_count, "java", "libjvm.so") ? CURE_JAVA
									      : CURE_JIT;
	}
	if (bytes > 5 && !strcmp(module + bytes - 5, ".node"))
		return CURE_ADDON;
	for (size_t i = 0; i < sizeof system / sizeof system[0]; i++)
		if (begins(module, system[i]))
			return CURE_PACKAGE;
	return signs.rust ? CURE_RUST : CURE_BUILD;
}

bool cure_is_rust(const char *function, const char *file)
{
	size_t bytes = file ? strlen(file) : 0;
	return (bytes > 3 && !strcmp(file + bytes - 3, ".rs")) ||
	       (function && (begins(function, "core::") || begins(function, "alloc::")));
}

const char *cure_text(enum cure cure)
{
	switch (cure) {
	case CURE_NONE:
		return "nothing";
	case CURE_NODE:
		return "run node with --perf-basic-prof --interpreted-frames-native-stack";
	case CURE_JAVA:
		return "run java with -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions "
		       "-XX:+DumpPerfMapAtExit";
	case CURE_JIT:
		return "have the program write /tmp/perf-PID.map or a jitdump";
	case CURE_MAP:
		return "record it once more: the map that the program wrote does not name this "
		       "part of its code";
	case CURE_ADDON:
		return "build the addon with symbols: npm rebuild --debug";
	case CURE_PACKAGE:
		return "install its -dbgsym package and type 'tidemark symbolize', or use "
		       "'tidemark symbolize --debuginfod'";
	case CURE_RUST:
		return "build with debug = 2 and strip = false in the Cargo profile";
	case CURE_BUILD:
		return "build it with -g and do not strip it, or keep its debug file for "
		       "'tidemark symbolize'";
	}
	return "";
}
