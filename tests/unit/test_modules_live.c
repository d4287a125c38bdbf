/* SPDX-License-Identifier: Apache-2.0 */
/* The module list and unwinding against the real loader of this process. */
#include <alloca.h>
#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <libelf.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/modules.h"
#include "agent/sys.h"
#include "harness/tap.h"

static const char facts_case[] = "the facts of each loaded object are right";
static const char library_a[] = "libresolv.so.2";
static const char library_b[] = "libcrypt.so.1";
static const char library_c[] = "libthread_db.so.1";
static const char function_c[] = "td_init";

enum { CYCLES = 2000, DEPTH_MAX = 64 };

static _Atomic size_t mapped_bytes;
static atomic_uint events_mapped;
static atomic_uint events_unmapped;

static void *map(void *ctx, size_t bytes)
{
	(void)ctx;
	atomic_fetch_add(&mapped_bytes, bytes);
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static bool peek(void *ctx, uintptr_t address, void *ret, size_t bytes)
{
	(void)ctx;
	return sys_peek(sys_gettid(), address, ret, bytes);
}

static void count_event(void *ctx, const struct module *module, bool mapped)
{
	(void)ctx;
	(void)module;
	atomic_fetch_add(mapped ? &events_mapped : &events_unmapped, 1);
}

static struct modules *new_modules(void)
{
	struct elf_auxv auxv;
	struct elf_scope scope;

	REQUIRE(elf_auxv_read(&auxv) == 0);
	REQUIRE(elf_scope_init(&scope, &auxv, _DYNAMIC));
	struct modules *modules = modules_new(&(struct modules_options){
		.scope = &scope,
		.own_dynamic = (uintptr_t)_DYNAMIC,
		.map = map,
		.peek = peek,
		.event = count_event,
	});
	REQUIRE(modules);
	return modules;
}

static enum modules_result rescan(struct modules *modules)
{
	return modules_rescan(modules, (uint32_t)sys_gettid(), true);
}

/* What was seen of all objects. */
struct seen {
	unsigned count;
	unsigned with_table;
	uint32_t flags;
	bool libc;
};

static void check_build_id(const struct module *module)
{
	const void *build_id = NULL;

	elf_version(EV_CURRENT);
	int fd = open(module->path, O_RDONLY | O_CLOEXEC);
	if (!CHECK(fd >= 0))
		return;
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	ssize_t bytes = dwelf_elf_gnu_build_id(elf, &build_id);
	if (bytes > 0 && CHECK_EQ_U64(module->build_id_bytes, (uint64_t)bytes))
		CHECK_MEM(module->build_id, build_id, (size_t)bytes);
	elf_end(elf);
	close(fd);
}

static void check_module(void *ctx, const struct module *module, bool mapped)
{
	struct seen *seen = ctx;

	CHECK(mapped);
	CHECK(module->instance != 0);
	CHECK_EQ_U64(module->path_bytes, strlen(module->path));
	CHECK(module->start < module->end && module->exec_count > 0);
	CHECK(module->exec[0].start >= module->start && module->exec[0].end <= module->end);
	if (module->flags & MODULE_VDSO)
		CHECK_STR(module->path, "[vdso]");
	else
		check_build_id(module);
	if (strstr(module->path, "/libc.so.6")) {
		seen->libc = true;
		void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
		CHECK((uintptr_t)dlsym(libc, "qsort") - module->start <
		      module->end - module->start);
	}
	seen->with_table += module->cfi.eh_frame_hdr != 0;
	seen->flags |= module->flags;
	seen->count++;
}

static int count_object(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	(void)info;
	(void)bytes;
	++*(unsigned *)ctx;
	return 0;
}

static void facts(void)
{
	struct modules *modules = new_modules();
	struct seen seen = {.count = 0};
	unsigned objects = 0;

	CHECK_EQ_U64(rescan(modules), MODULES_CHANGED);
	CHECK_EQ_U64(modules_visit(modules, 1, check_module, &seen), MODULES_SAME);
	dl_iterate_phdr(count_object, &objects);
	CHECK_EQ_U64(seen.count, objects);
	CHECK_EQ_U64(seen.count, modules_count(modules));
	CHECK_EQ_U64(seen.flags, MODULE_MAIN | MODULE_VDSO | MODULE_AGENT | MODULE_LINKER);
	CHECK_EQ_U64(seen.with_table, seen.count);
	CHECK(seen.libc);
}

static const char *main_path_found;

static void find_main(void *ctx, const struct module *module, bool mapped)
{
	(void)ctx;
	(void)mapped;
	if (module->flags & MODULE_MAIN)
		main_path_found = module->path;
}

/* Also run through the dynamic linker, where /proc/self/exe is the linker. */
static void main_path(void)
{
	struct modules *modules = new_modules();
	Dl_info info;
	char *real;

	REQUIRE(rescan(modules) == MODULES_CHANGED);
	modules_visit(modules, 1, find_main, NULL);
	REQUIRE(dladdr((void *)main_path, &info) != 0);
	real = realpath(info.dli_fname, NULL);
	CHECK_STR(main_path_found, real);
	free(real);
}

static void through_linker(void)
{
	static const char *const names[] = {facts_case, "the program's path is known"};
	char self[4096];
	ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);

	REQUIRE(bytes > 0);
	self[bytes] = 0;
	for (size_t i = 0; i < 2; i++) {
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			/* The linker does not free all it takes in this mode. */
			setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
			execl("/lib64/ld-linux-x86-64.so.2", "ld.so", self, names[i], NULL);
			_exit(99);
		}
		REQUIRE(waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

static void static_program(void)
{
	struct elf_auxv auxv;
	struct elf_scope scope = {.debug = 0};
	struct module_code code;

	REQUIRE(elf_auxv_read(&auxv) == 0);
	scope.auxv = auxv;
	elf_scope_init(&scope, &auxv, NULL);
	scope.debug = 0;
	struct modules *modules =
		modules_new(&(struct modules_options){.scope = &scope, .map = map, .peek = peek});
	CHECK_EQ_U64(rescan(modules), MODULES_CHANGED);
	CHECK_EQ_U64(modules_count(modules), 2);
	CHECK(modules_find(modules, (uintptr_t)static_program, &code));
	CHECK_EQ_U64(code.flags, MODULE_MAIN);
	CHECK(modules_find(modules, auxv.vdso, &code));
	CHECK_EQ_U64(code.flags, MODULE_VDSO);
}

static uintptr_t address_of(void *handle)
{
	struct link_map *link;
	REQUIRE(dlinfo(handle, RTLD_DI_LINKMAP, &link) == 0);
	return link->l_addr;
}

static void cycles(void)
{
	struct modules *modules = new_modules();
	size_t before = 0;

	rescan(modules);
	for (unsigned i = 0; i < CYCLES; i++) {
		struct module_code code;
		void *handle = dlopen(i % 2 ? library_a : library_b, RTLD_NOW | RTLD_LOCAL);
		REQUIRE(handle);
		CHECK_EQ_U64(rescan(modules), MODULES_CHANGED);
		uintptr_t address = address_of(handle);
		CHECK(modules_find(modules, address, &code));
		dlclose(handle);
		CHECK_EQ_U64(rescan(modules), MODULES_CHANGED);
		CHECK(!modules_find(modules, address, &code));
		if (i == 100)
			before = atomic_load(&mapped_bytes);
	}
	CHECK_EQ_U64(atomic_load(&mapped_bytes), before);
	CHECK_EQ_U64(modules_generation(modules), CYCLES);
}

static void namespaces(void)
{
	struct modules *modules = new_modules();
	struct module_code code;
	void *handle = dlmopen(LM_ID_NEWLM, library_a, RTLD_NOW);

	if (!handle)
		tap_skip("dlmopen does not work here");
	rescan(modules);
	if (!modules_find(modules, address_of(handle), &code))
		tap_skip("this C library does not publish namespaces");
	dlclose(handle);
	CHECK_EQ_U64(rescan(modules), MODULES_CHANGED);
}

static atomic_bool stop;
static struct modules *shared;

static void *open_and_close(void *name)
{
	while (!atomic_load(&stop)) {
		void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
		if (handle)
			dlclose(handle);
	}
	return NULL;
}

static void *find_always(void *ctx)
{
	uint64_t *found = ctx;
	struct module_code code;

	while (!atomic_load(&stop)) {
		if (!modules_find(shared, (uintptr_t)find_always, &code) ||
		    !(code.flags & MODULE_MAIN))
			CHECK(!"the program is always in the list");
		++*found;
	}
	return NULL;
}

/* Two threads load and unload, one looks up, this one rescans: nothing is torn. */
static void threads(void)
{
	pthread_t thread[3];
	uint64_t found = 0;
	unsigned results[4] = {0};

	shared = new_modules();
	while (rescan(shared) != MODULES_CHANGED)
		;
	pthread_create(&thread[0], NULL, open_and_close, (void *)library_a);
	pthread_create(&thread[1], NULL, open_and_close, (void *)library_b);
	pthread_create(&thread[2], NULL, find_always, &found);
	for (unsigned i = 0; i < 4000; i++)
		results[rescan(shared)]++;
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	tap_note("same %u, changed %u, busy %u, failed %u; %llu look-ups", results[0], results[1],
		 results[2], results[3], (unsigned long long)found);
	CHECK(found > 0);
	CHECK_EQ_U64(results[MODULES_FAILED], 0);
	CHECK_EQ_U64(atomic_load(&events_mapped) - atomic_load(&events_unmapped),
		     modules_count(shared));
	while (rescan(shared) != MODULES_SAME)
		;
}

/* Load a library, and be sure of it, while two threads load and unload others. */
static void running_code(void)
{
	pthread_t thread[2];
	uint32_t tid = (uint32_t)sys_gettid();

	shared = new_modules();
	rescan(shared);
	pthread_create(&thread[0], NULL, open_and_close, (void *)library_a);
	pthread_create(&thread[1], NULL, open_and_close, (void *)library_b);
	for (unsigned i = 0; i < 1000; i++) {
		struct module_code code;
		void *handle = dlopen(library_c, RTLD_LAZY | RTLD_LOCAL);
		REQUIRE(handle);
		uintptr_t pc = (uintptr_t)dlsym(handle, function_c);
		enum modules_result result = modules_rescan_at(shared, tid, pc);
		CHECK(result == MODULES_SAME || result == MODULES_CHANGED);
		CHECK(modules_find(shared, pc, &code));
		CHECK(code.cfi.eh_frame_hdr && cfi_covers(&code.cfi, pc));
		dlclose(handle);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	while (rescan(shared) != MODULES_SAME)
		;
	CHECK_EQ_U64(atomic_load(&events_mapped) - atomic_load(&events_unmapped),
		     modules_count(shared));
}

static atomic_uint handled;
static atomic_uint handled_busy;

static void rescan_in_handler(int number)
{
	struct module_code code;

	(void)number;
	atomic_fetch_add(&handled, 1);
	if (rescan(shared) == MODULES_BUSY)
		atomic_fetch_add(&handled_busy, 1);
	if (!modules_find(shared, (uintptr_t)rescan_in_handler, &code))
		CHECK(!"the program is always in the list");
}

static void signals(void)
{
	struct itimerval every = {.it_interval = {0, 200}, .it_value = {0, 200}};
	struct itimerval never = {.it_value = {0, 0}};

	shared = new_modules();
	rescan(shared);
	signal(SIGALRM, rescan_in_handler);
	setitimer(ITIMER_REAL, &every, NULL);
	while (atomic_load(&handled) < 300 || atomic_load(&handled_busy) == 0)
		rescan(shared);
	setitimer(ITIMER_REAL, &never, NULL);
	CHECK_EQ_U64(rescan(shared), MODULES_SAME);
}

static bool peek_word(void *ctx, uintptr_t address, uint64_t *ret)
{
	(void)ctx;
	*ret = *(const uint64_t *)address;
	return true;
}

/* One step by the quick rule. False: it is not quick. */
static bool step_quick(const struct cfi_rule *rule, struct cfi_regs *regs, bool *ret_exact)
{
	uint64_t rsp = regs->reg[CFI_RSP];
	uint64_t rbp = regs->reg[CFI_RBP];

	*ret_exact = rule->kind == CFI_SIGNAL;
	if (rule->kind == CFI_SIGNAL) {
		regs->reg[CFI_RBP] = *(uint64_t *)(rsp + CFI_UCONTEXT_RBP);
		regs->reg[CFI_RSP] = *(uint64_t *)(rsp + CFI_UCONTEXT_RSP);
		regs->reg[CFI_RIP] = *(uint64_t *)(rsp + CFI_UCONTEXT_RIP);
		return true;
	}
	if (rule->kind != CFI_SP && rule->kind != CFI_BP)
		return false;
	uint64_t cfa = (rule->kind == CFI_SP ? rsp : rbp) + (uint64_t)rule->cfa_offset;
	if (rule->bp_saved)
		regs->reg[CFI_RBP] = *(uint64_t *)(cfa + (uint64_t)rule->bp_offset);
	regs->reg[CFI_RSP] = cfa;
	regs->reg[CFI_RIP] = *(uint64_t *)(cfa - 8);
	return true;
}

/* Return addresses from these registers on, by quick rules or by the full machine. */
static unsigned unwind(struct cfi_regs regs, bool quick, void **ret)
{
	bool exact = true;
	unsigned count = 0;

	while (count < DEPTH_MAX) {
		struct module_code code;
		struct cfi_rule rule;
		uintptr_t pc = regs.reg[CFI_RIP] - !exact;
		ret[count++] = (void *)regs.reg[CFI_RIP];
		if (!modules_find(shared, pc, &code))
			break;
		cfi_find(&code.cfi, pc, &rule);
		if (rule.kind == CFI_END || rule.kind == CFI_NONE)
			break;
		if (!(quick && step_quick(&rule, &regs, &exact)) &&
		    !cfi_step(&code.cfi, pc, peek_word, NULL, &regs, &exact))
			break;
	}
	return count;
}

static struct cfi_regs from_context(const ucontext_t *context)
{
	static const int order[CFI_REGISTERS] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
		REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
	};
	struct cfi_regs regs = {.known = (1u << CFI_REGISTERS) - 1};

	for (unsigned i = 0; i < CFI_REGISTERS; i++)
		regs.reg[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
	return regs;
}

static void *stack_wanted[DEPTH_MAX];
static unsigned stack_wanted_count;
static void *stacks[2][DEPTH_MAX]; /* by the full machine, by quick rules */
static unsigned stack_counts[2];

static void unwind_in_handler(int number)
{
	ucontext_t context;

	(void)number;
	stack_wanted_count = (unsigned)backtrace(stack_wanted, DEPTH_MAX);
	getcontext(&context);
	for (unsigned quick = 0; quick < 2; quick++)
		stack_counts[quick] = unwind(from_context(&context), quick, stacks[quick]);
	atomic_fetch_add(&handled, 1);
}

__attribute__((noinline)) static int dive(int depth)
{
	volatile char *room = alloca((size_t)depth * 16 + 16); /* a frame by rbp */

	room[0] = (char)depth;
	if (depth == 0)
		raise(SIGUSR1);
	else
		room[1] = (char)dive(depth - 1);
	return room[0];
}

static int compare_and_dive(const void *a, const void *b)
{
	if (!atomic_load(&handled))
		dive(5);
	return *(const int *)a - *(const int *)b;
}

/* From inside a signal handler, across it: the same as the C library's own unwinder. */
static void unwinding(void)
{
	int numbers[3] = {3, 1, 2};
	void *warm_up[1];

	shared = new_modules();
	backtrace(warm_up, 1);
	rescan(shared);
	signal(SIGUSR1, unwind_in_handler);
	qsort(numbers, 3, sizeof numbers[0], compare_and_dive);
	REQUIRE(atomic_load(&handled) == 1);
	REQUIRE(stack_wanted_count > 8);
	for (unsigned quick = 0; quick < 2; quick++) {
		/* A sanitizer puts a frame of its own below backtrace(). */
		unsigned extra = stack_wanted_count - stack_counts[quick];
		REQUIRE(extra <= 1);
		/* The innermost differs: another line of the handler. */
		CHECK_MEM(stacks[quick] + 1, stack_wanted + extra + 1,
			  (stack_counts[quick] - 1) * sizeof(void *));
	}
}

static const struct tap_case cases[] = {
	{.name = facts_case, .run = facts},
	{.name = "the program's path is known", .run = main_path},
	{.name = "programs started through the linker are read right", .run = through_linker},
	{.name = "a static program is seen", .run = static_program},
	{.name = "libraries loaded and unloaded for ever take no memory", .run = cycles},
	{.name = "libraries of other namespaces are seen", .run = namespaces},
	{.name = "threads that load and look up see whole lists", .run = threads},
	{.name = "a library that runs is known whatever others load", .run = running_code},
	{.name = "signal handlers inside a rescan do not hang", .run = signals},
	{.name = "a stack across a signal handler is the C library's", .run = unwinding},
};
TAP_MAIN(cases)
