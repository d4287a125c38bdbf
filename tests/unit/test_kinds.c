/* SPDX-License-Identifier: Apache-2.0 */
/* What kind a frame is, and whose. Names and paths are as compilers write them. */
#include "base/memory.h"
#include "harness/tap.h"
#include "symbols/cxxname.h"
#include "symbols/kinds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REGISTRY "/home/u/.cargo/registry/src/index.crates.io-6f17d22bba15001f/"
#define RUSTC    "/rustc/90b35a6239c3d8bdabc530a6a0816f7ff89a0aaf/library/"

struct example {
	const char *function, *file, *module;
	enum frame_kind kind;
	const char *package;
	bool jit;
};

static void check_all(const struct example *examples, size_t count)
{
	struct kinds *kinds = NULL;
	REQUIRE(!kinds_new(&kinds, NULL));
	for (size_t i = 0; i < count; i++) {
		const struct example *one = &examples[i];
		struct kinds_answer answer =
			kinds_of(kinds, &(struct kinds_frame){.function = one->function,
							      .file = one->file,
							      .module = one->module,
							      .jit = one->jit});
		bool good = CHECK_STR(kinds_name(answer.kind), kinds_name(one->kind));
		good &= CHECK_STR(answer.package, one->package);
		if (!good)
			tap_note("%s in %s of %s", one->function ? one->function : "-",
				 one->file ? one->file : "-", one->module);
	}
	kinds_free(kinds);
}
#define CHECK_ALL(examples) check_all(examples, sizeof examples / sizeof examples[0])

static void cpp(void)
{
	static const struct example examples[] = {
		{"operator new(unsigned long)", NULL, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		 KIND_ALLOCATOR, "libstdc++", false},
		{"operator new[](unsigned long)", NULL, "/home/u/prog", KIND_ALLOCATOR, "prog",
		 false},
		{"malloc", "./malloc/malloc.c", "/usr/lib/x86_64-linux-gnu/libc.so.6",
		 KIND_ALLOCATOR, "libc", false},
		{"qsort_r", "./stdlib/msort.c", "/usr/lib/x86_64-linux-gnu/libc.so.6",
		 KIND_STANDARD, "libc", false},
		{"__libc_start_main", NULL, "/lib/x86_64-linux-gnu/libc.so.6", KIND_RUNTIME, "libc",
		 false},
		{"_start", NULL, "/home/u/prog", KIND_RUNTIME, "prog", false},
		{"main", "/home/u/src/main.cc", "/home/u/prog", KIND_APPLICATION, "prog", false},
		{"main", NULL, "/usr/bin/sqlite3", KIND_APPLICATION, "sqlite3", false},
		{"std::vector<int, std::allocator<int> >::push_back(int&&)",
		 "/usr/include/c++/12/bits/stl_vector.h", "/home/u/prog", KIND_STANDARD,
		 "libstdc++", false},
		{"void std::vector<app::Row, std::allocator<app::Row> >::_M_realloc_insert<app::Row"
		 ">(__gnu_cxx::__normal_iterator<app::Row*, std::vector<app::Row> >, app::Row&&)",
		 NULL, "/home/u/prog", KIND_STANDARD, "libstdc++", false},
		{"std::__new_allocator<int>::allocate(unsigned long, void const*)",
		 "/usr/include/c++/12/bits/new_allocator.h", "/home/u/prog", KIND_ALLOCATOR,
		 "libstdc++", false},
		{"app::Table::grow(std::string const&)", "/home/u/src/table.cc", "/home/u/prog",
		 KIND_APPLICATION, "prog", false},
		{"app::Table::grow(std::string const&)", NULL, "/home/u/libtable.so.2",
		 KIND_APPLICATION, "libtable", false},
		{"boost::asio::detail::scheduler::run(boost::system::error_code&)",
		 "/usr/include/boost/asio/detail/impl/scheduler.ipp", "/home/u/prog", KIND_LIBRARY,
		 "boost", false},
		{"sqlite3VdbeExec", "/home/u/app/third_party/sqlite-3.40/sqlite3.c", "/home/u/prog",
		 KIND_LIBRARY, "sqlite", false},
		{"fmt::v9::detail::vformat_to(int)", "/home/u/b/_deps/fmt-src/src/format.cc",
		 "/home/u/prog", KIND_LIBRARY, "fmt", false},
		{"sqlite3_exec", NULL, "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6",
		 KIND_LIBRARY, "libsqlite3", false},
		{"_dl_open", NULL, "/lib64/ld-linux-x86-64.so.2", KIND_RUNTIME, "ld-linux-x86-64",
		 false},
		{"__vdso_clock_gettime", NULL, "[vdso]", KIND_RUNTIME, "[vdso]", false},
		{NULL, NULL, "[anonymous]", KIND_UNKNOWN, "", false},
		{NULL, NULL, "/home/u/prog", KIND_APPLICATION, "prog", false},
	};
	CHECK_ALL(examples);
}

static void rust(void)
{
	static const struct example examples[] = {
		{"__rust_alloc", NULL, "/home/u/app/target/release/app", KIND_ALLOCATOR, "app",
		 false},
		{"alloc::alloc::alloc", RUSTC "alloc/src/alloc.rs", "/t/app", KIND_ALLOCATOR,
		 "alloc", false},
		{"<alloc::alloc::Global as core::alloc::Allocator>::allocate",
		 RUSTC "alloc/src/alloc.rs", "/t/app", KIND_ALLOCATOR, "alloc", false},
		{"<alloc::alloc::Global>::grow_impl", RUSTC "alloc/src/alloc.rs", "/t/app",
		 KIND_ALLOCATOR, "alloc", false},
		{"<&dyn core::ops::function::Fn<(), Output = i32> + core::marker::Sync as "
		 "core::ops::function::FnOnce<()>>::call_once",
		 RUSTC "core/src/ops/function.rs", "/t/app", KIND_RUNTIME, "core", false},
		{"alloc::raw_vec::RawVec<T,A>::reserve_for_push", RUSTC "alloc/src/raw_vec.rs",
		 "/t/app", KIND_STANDARD, "alloc", false},
		{"core::iter::traits::iterator::Iterator::collect",
		 "/usr/src/rustc-1.63.0/library/core/src/iter/traits/iterator.rs", "/t/app",
		 KIND_STANDARD, "core", false},
		{"<alloc::vec::Vec<T> as core::clone::Clone>::clone", NULL, "/t/app", KIND_STANDARD,
		 "alloc", false},
		{"core::ptr::drop_in_place<alloc::vec::Vec<(app::A, app::B)>>", NULL, "/t/app",
		 KIND_STANDARD, "core", false},
		{"std::rt::lang_start::{{closure}}", RUSTC "std/src/rt.rs", "/t/app", KIND_RUNTIME,
		 "std", false},
		{"std::sys_common::backtrace::__rust_begin_short_backtrace", NULL, "/t/app",
		 KIND_RUNTIME, "std", false},
		{"app::main", "/home/u/app/src/main.rs", "/t/app", KIND_APPLICATION, "app", false},
		{"app::main::{{closure}}", "src/main.rs", "/t/app", KIND_APPLICATION, "app", false},
		{"<alloc::vec::Vec<u8> as store::Put>::put", "/home/u/app/crates/store/src/lib.rs",
		 "/t/app", KIND_APPLICATION, "store", false},
		{"<store::Db as core::ops::drop::Drop>::drop", "/home/u/app/crates/db/src/lib.rs",
		 "/t/app", KIND_APPLICATION, "store", false},
		{"serde_json::de::from_str", REGISTRY "serde_json-1.0.96/src/de.rs", "/t/app",
		 KIND_LIBRARY, "serde_json", false},
		{"<serde_json::map::Map as core::clone::Clone>::clone",
		 REGISTRY "serde_json-1.0.96/src/map.rs", "/t/app", KIND_LIBRARY, "serde_json",
		 false},
		{"git_dep::run", "/home/u/.cargo/git/checkouts/git-dep-0b1c2d3e4f5a6b7c/1a2b/x.rs",
		 "/t/app", KIND_LIBRARY, "git-dep", false},
		{"tokio::runtime::task::raw::poll", REGISTRY "tokio-1.28.0/src/runtime/task/raw.rs",
		 "/t/app", KIND_RUNTIME, "tokio", false},
		{"tokio::fs::read::read", REGISTRY "tokio-1.28.0/src/fs/read.rs", "/t/app",
		 KIND_LIBRARY, "tokio", false},
		{"<futures_util::future::map::Map<Fut,F> as core::future::future::Future>::poll",
		 REGISTRY "futures-util-0.3.28/src/future/map.rs", "/t/app", KIND_RUNTIME,
		 "futures-util", false},
		{"<core::pin::Pin<P> as core::future::future::Future>::poll",
		 RUSTC "core/src/future/future.rs", "/t/app", KIND_RUNTIME, "core", false},
		{"hashbrown::raw::RawTable<T,A>::reserve_rehash",
		 "/rust/deps/hashbrown-0.14.3/src/raw/mod.rs", "/t/app", KIND_STANDARD, "hashbrown",
		 false},
	};
	CHECK_ALL(examples);
}

static void node(void)
{
	static const struct example examples[] = {
		{"v8::internal::Heap::AllocateRaw(int)", NULL, "/usr/bin/node", KIND_RUNTIME,
		 "node", false},
		{"uv_run", NULL, "/usr/lib/x86_64-linux-gnu/libuv.so.1", KIND_RUNTIME, "libuv",
		 false},
		{"node::NodeArrayBufferAllocator::Allocate(unsigned long)", NULL, "/usr/bin/node",
		 KIND_ALLOCATOR, "node", false},
		{"handle [optimized]", "/srv/app/server.js", "[anonymous]", KIND_APPLICATION,
		 "application", true},
		{"next [interpreted]", "/srv/app/node_modules/express/lib/router/index.js",
		 "[anonymous]", KIND_LIBRARY, "express", true},
		{"parse [interpreted]",
		 "/srv/node_modules/a/node_modules/@babel/parser/lib/index.js", "[anonymous]",
		 KIND_LIBRARY, "@babel/parser", true},
		{"emit [interpreted]", "node:events", "[anonymous]", KIND_RUNTIME, "node", true},
		{"CEntry [builtin]", NULL, "[anonymous]", KIND_RUNTIME, "application", true},
		{"Canvas::New(int)", "/srv/app/node_modules/canvas/src/Canvas.cc",
		 "/srv/app/node_modules/canvas/build/Release/canvas.node", KIND_LIBRARY, "canvas",
		 false},
		{"Ljava/util/ArrayList;::grow", NULL, "[anonymous]", KIND_STANDARD, "java.util",
		 true},
		{"void java.nio.DirectByteBuffer.<init>(int)", NULL, "[anonymous]", KIND_STANDARD,
		 "java.nio", true},
		{"int Hot.touch(int)", NULL, "[anonymous]", KIND_APPLICATION, "application", true},
		{"Interpreter", NULL, "[anonymous]", KIND_RUNTIME, "application", true},
		{"com.shop.Cart::add", NULL, "[anonymous]", KIND_APPLICATION, "com.shop", true},
	};
	CHECK_ALL(examples);
}

static void nim(void)
{
	static const struct example examples[] = {
		{"system.rawNewObj", "/usr/lib/nim/lib/system/gc.nim", "/t/tool", KIND_ALLOCATOR,
		 "gc", false},
		{"system.collectCT", "/usr/lib/nim/lib/system/gc.nim", "/t/tool", KIND_RUNTIME,
		 "gc", false},
		{"strutils.split", "/usr/lib/nim/lib/pure/strutils.nim", "/t/tool", KIND_STANDARD,
		 "strutils", false},
		{"parser.readAll", "/home/u/tool/src/parser.nim", "/t/tool", KIND_APPLICATION,
		 "parser", false},
		{"regex.match", "/home/u/.nimble/pkgs/regex-0.20.1/regex.nim", "/t/tool",
		 KIND_LIBRARY, "regex", false},
		{"NimMainModule", "/home/u/tool/src/tool.nim", "/t/tool", KIND_APPLICATION, "tool",
		 false},
		{"NimMain", NULL, "/t/tool", KIND_RUNTIME, "tool", false},
	};
	CHECK_ALL(examples);
}

static void plain_names(void)
{
	static const char *const pairs[][2] = {
		{"void std::sort<int*>(int*, int*)", "std::sort<int*>(int*, int*)"},
		{"malloc", "malloc"},
		{"operator new(unsigned long)", "operator new(unsigned long)"},
		{"bool a::operator==<int>(int)", "a::operator==<int>(int)"},
		{"a::B::operator bool() const", "a::B::operator bool() const"},
		{"(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)"},
		{"int (anonymous namespace)::f<int>(int)", "(anonymous namespace)::f<int>(int)"},
		{"decltype (x(1)) a::f<int>(int)", "a::f<int>(int)"},
		{"std::unique_ptr<A, B> c::make<A>(int, char)", "c::make<A>(int, char)"},
		{"<a::B<T> as c::D>::e", "<a::B<T> as c::D>::e"},
		{"main::{lambda(int)#1}::operator()(int) const",
		 "main::{lambda(int)#1}::operator()(int) const"},
		{"non-virtual thunk to a::B::c()", "a::B::c()"},
		{"", ""},
		{"<((", "<(("},
		{" ", " "},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
		CHECK_STR(cxxname_plain(pairs[i][0]), pairs[i][1]);
	CHECK(cxxname_has_parameters("std::f(int)"));
	CHECK(!cxxname_has_parameters("core::ptr::drop_in_place<(A, B)>"));
}

static enum frame_kind kind_with(const char *rules, const struct kinds_frame *frame,
				 char package[64])
{
	struct kinds *kinds = NULL;
	struct tm_error err = {0};
	REQUIRE(!kinds_new(&kinds, NULL));
	if (!CHECK(!kinds_read(kinds, "mine", rules, strlen(rules), &err)))
		tap_note("%s", err.text);
	struct kinds_answer answer = kinds_of(kinds, frame);
	snprintf(package, 64, "%s", answer.package);
	kinds_free(kinds);
	return answer.kind;
}

static void own_rules(void)
{
	char package[64];
	struct kinds_frame frame = {.function = "pool_get(unsigned long)",
				    .file = "/w/pool.cc",
				    .module = "/w/bin/server"};
	CHECK(kind_with("allocator function pool_get*\n", &frame, package) == KIND_ALLOCATOR);
	CHECK(kind_with("allocator function pool_get\n", &frame, package) == KIND_APPLICATION);
	CHECK(kind_with("# no rule\n\n  \t\n", &frame, package) == KIND_APPLICATION);
	CHECK(kind_with("library file /w/pool.cc as pool", &frame, package) == KIND_LIBRARY);
	CHECK_STR(package, "pool");
	CHECK(kind_with("runtime file pool.* module server", &frame, package) == KIND_RUNTIME);
	CHECK(kind_with("runtime file pool.* module other", &frame, package) == KIND_APPLICATION);
	CHECK(kind_with("runtime function \"*(unsigned long)\" # all\n", &frame, package) ==
	      KIND_RUNTIME);
	CHECK(kind_with("library package server\r\n", &frame, package) == KIND_LIBRARY);
	/* Before the built-in rules. */
	frame.function = "malloc";
	CHECK(kind_with("application function malloc", &frame, package) == KIND_APPLICATION);
	frame.function = "a::operator*(int)";
	CHECK(kind_with("runtime function a::operator\\*(*", &frame, package) == KIND_RUNTIME);
	frame.function = "a::operatorx(int)";
	CHECK(kind_with("runtime function a::operator\\*(*", &frame, package) == KIND_APPLICATION);
}

static void mistakes(void)
{
	static const char *const pairs[][2] = {
		{"allocator function a\nalocator function b\n", "line 2: use application"},
		{"allocator", "line 1: a condition is missing after 'allocator'"},
		{"allocator as x", "line 1: a condition is missing after 'allocator'"},
		{"allocator function", "line 1: a word is missing after 'function'"},
		{"allocator name malloc", "not 'name'"},
		{"allocator function a function b", "twice"},
		{"\n\nallocator function \"a b\n", "line 3: the quote is not closed"},
	};
	struct kinds *kinds = NULL;
	REQUIRE(!kinds_new(&kinds, NULL));
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		struct tm_error err = {0};
		CHECK_EQ_I64(kinds_read(kinds, "mine", pairs[i][0], strlen(pairs[i][0]), &err),
			     -EINVAL);
		CHECK_HAS(err.text, "'mine'");
		CHECK_HAS(err.text, pairs[i][1]);
	}
	struct tm_error err = {0};
	CHECK_EQ_I64(kinds_read_file(kinds, "/nonexistent/kinds", &err), -ENOENT);
	CHECK_HAS(err.text, "/nonexistent/kinds");
	CHECK_EQ_I64(kinds_read(kinds, "zero", "allocator function a\0b", 22, &err), -EINVAL);
	/* What failed changed nothing. */
	CHECK(kinds_of(kinds, &(struct kinds_frame){.function = "malloc", .module = "/x"}).kind ==
	      KIND_ALLOCATOR);
	kinds_free(kinds);
}

static void default_file(void)
{
	char folder[] = "/tmp/tidemark-kinds-XXXXXX", path[128];
	REQUIRE(mkdtemp(folder));
	struct kinds *kinds = NULL;
	struct tm_error err = {0};
	REQUIRE(!kinds_new(&kinds, NULL));
	setenv("XDG_CONFIG_HOME", folder, 1);
	CHECK(!kinds_read_default(kinds, &err));
	snprintf(path, sizeof path,
		 "mkdir %s/tidemark && echo 'runtime function go' >%s/tidemark/kinds", folder,
		 folder);
	REQUIRE(system(path) == 0);
	CHECK(!kinds_read_default(kinds, &err));
	CHECK(kinds_of(kinds, &(struct kinds_frame){.function = "go", .module = "/x"}).kind ==
	      KIND_RUNTIME);
	kinds_free(kinds);
	snprintf(path, sizeof path, "rm -r %s", folder);
	CHECK(system(path) == 0);
}

/* Bounded work on names that nobody would write. */
static void hostile_names(void)
{
	struct kinds *kinds = NULL;
	enum { BYTES = 1 << 17 }; /* a name has 32 KiB at most */
	char *name = malloc(BYTES + 1);
	REQUIRE(name && !kinds_new(&kinds, NULL));
	static const char *const fills[] = {"<", "(", "::", "a::", "/", "/node_modules/", "\xff"};
	for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
		size_t bytes = strlen(fills[i]);
		for (size_t k = 0; k < BYTES; k++)
			name[k] = fills[i][k % bytes];
		name[BYTES] = '\0';
		struct kinds_answer answer = kinds_of(
			kinds,
			&(struct kinds_frame){.function = name, .file = name, .module = name});
		CHECK(strlen(answer.package) < 128);
		CHECK(answer.kind < KIND_COUNT);
	}
	kinds_free(kinds);
	free(name);
}

static void no_memory(void)
{
	for (long n = 0; n < 2000; n++) {
		struct kinds *kinds = NULL;
		tm_alloc_fail_at(n);
		int code = kinds_new(&kinds, NULL);
		if (!code)
			kinds_of(kinds, &(struct kinds_frame){.function = "main", .module = "/x"});
		tm_alloc_fail_at(-1);
		CHECK(code == 0 || code == -ENOMEM);
		kinds_free(kinds);
	}
}

static const struct tap_case cases[] = {
	{.name = "C and C++ frames have their kind and library", .run = cpp},
	{.name = "Rust frames have their kind and crate", .run = rust},
	{.name = "node's, JavaScript's and Java's frames have kind and package", .run = node},
	{.name = "Nim's frames have their kind and module", .run = nim},
	{.name = "a return type does not hide a C++ name", .run = plain_names},
	{.name = "the user's rules come first", .run = own_rules},
	{.name = "a mistake in a rule is named with its line", .run = mistakes},
	{.name = "the user's own file is found", .run = default_file},
	{.name = "hostile names take bounded time", .run = hostile_names, .seconds = 20},
	{.name = "lack of memory is an error, not a crash", .run = no_memory},
};
TAP_MAIN(cases)
