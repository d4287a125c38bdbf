/* SPDX-License-Identifier: Apache-2.0 */
#include "views/allocators.h"

#include <stddef.h>
#include <string.h>

/* Whole names. */
static const char *const entries[] = {
	"malloc",
	"calloc",
	"realloc",
	"reallocarray",
	"posix_memalign",
	"aligned_alloc",
	"memalign",
	"valloc",
	"pvalloc",
	"cfree",
	"free",
	"__libc_malloc",
	"__libc_calloc",
	"__libc_realloc",
	"__libc_memalign",
	/* wrappers found in many programs */
	"xmalloc",
	"xcalloc",
	"xrealloc",
	"xzalloc",
	"xmalloc_failed",
	"zmalloc",
	"zcalloc",
	"zrealloc",
	"safe_malloc",
	"emalloc",
	/* Python */
	"PyMem_Malloc",
	"PyMem_Calloc",
	"PyMem_Realloc",
	"PyMem_RawMalloc",
	"PyMem_RawCalloc",
	"PyMem_RawRealloc",
	"PyObject_Malloc",
	"PyObject_Calloc",
	"PyObject_Realloc",
	"_PyMem_RawMalloc",
	"_PyMem_RawCalloc",
	"_PyMem_RawRealloc",
	/* Rust */
	"__rust_alloc",
	"__rust_alloc_zeroed",
	"__rust_realloc",
	"__rdl_alloc",
	"__rdl_alloc_zeroed",
	"__rdl_realloc",
	"__rg_alloc",
	"__rg_alloc_zeroed",
	"__rg_realloc",
	"alloc::alloc::alloc",
	"alloc::alloc::alloc_zeroed",
	"alloc::alloc::realloc",
	"alloc::alloc::exchange_malloc",
	"alloc::alloc::Global::alloc_impl",
	"alloc::alloc::Global::grow_impl",
	"<alloc::alloc::Global as core::alloc::Allocator>::allocate",
	"<alloc::alloc::Global as core::alloc::Allocator>::allocate_zeroed",
	"<alloc::alloc::Global as core::alloc::Allocator>::grow",
};

/* Beginnings of names. */
static const char *const prefixes[] = {
	"operator new(",
	"operator new[](",
	"__gnu_cxx::new_allocator<",
	"std::__new_allocator<",
	"std::allocator_traits<",
	"std::allocator<",
	"g_malloc",
	"g_try_malloc",
	"g_realloc",
	"g_slice_alloc",
	"je_malloc",
	"je_calloc",
	"je_realloc",
	"_rjem_",
	"mi_malloc",
	"mi_calloc",
	"mi_realloc",
	"mi_zalloc",
	"mi_heap_malloc",
	"mi_new",
	"tc_malloc",
	"tc_calloc",
	"tc_realloc",
	"tc_new",
};

static const char *const roots[] = {
	"main",
	"_start",
	"start_thread",
	"clone",
	"clone3",
	"__clone3",
	"__start_context",
	"__libc_start_main",
	"__libc_start_call_main",
	"_dl_start_user",
};

static bool contains(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

bool allocators_is_entry(const char *function)
{
	for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
		if (!strncmp(function, prefixes[i], strlen(prefixes[i])))
			return true;
	return contains(entries, sizeof entries / sizeof entries[0], function);
}

bool allocators_is_root(const char *function)
{
	return contains(roots, sizeof roots / sizeof roots[0], function);
}
