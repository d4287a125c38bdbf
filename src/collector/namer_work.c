/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch is worked off module by module; each is marked as answered when its
 * names have been sent, so that whoever takes over after a crash knows where.
 */
#include "collector/namer_work.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/namer_send.h"
#include "collector/namer_source.h"
#include "symbols/jit.h"
#include "symbols/symbols.h"

enum {
	CPU_SECONDS = 120,
	LOWEST_PRIORITY = 19,
	WARNINGS_MAX = 20,
	/*
	 * How long one stays, so that a program that ends soon has its last names at once (and so
	 * much for each that its batch took: the next comes after 19);
	 */
	STAY_MS = 5000,
	STAY_TIMES = 20,
	STAY_BYTES_MAX = 48 << 20, /* and with how much of its own, */
	STAY_CPU_MS = 2000,        /* and before it has used what it may. */
};
#define OWN_BYTES_MAX (1ull << 30)

int namer_open(int root_fd, const char *path)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	if (root_fd < 0) {
		int fd = open(path, flags);
		return fd < 0 ? -errno : fd;
	}
	/* In a container's root an absolute symbolic link must not lead to our own files. */
	struct open_how how = {.flags = (uint64_t)flags, .resolve = RESOLVE_IN_ROOT};
	int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof how);
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = openat(root_fd, path + strspn(path, "/"), flags);
	return fd < 0 ? -errno : fd;
}

struct work {
	struct namer_stream *stream;
	struct namer_job *job; /* nobody else changes it while we are at it */
	uint8_t *answered;
	int code;                /* 0, or what went wrong with the batch */
	struct symbols *symbols; /* with lines; made on first use */
	struct symbols *plain;   /* without, for modules that crashed a worker */
	struct namer_sender sender;
	char root[64];
	unsigned warnings;
};

static int held(void *ctx, const char *path, const uint8_t *build_id, uint32_t build_id_bytes)
{
	const struct namer_stream *stream = ctx;
	for (uint32_t id = 1; id < stream->module_count; id++) {
		const struct namer_module *module = &stream->modules[id];
		if (module->fd >= 0 && module->facts.path && !strcmp(module->facts.path, path) &&
		    module->facts.build_id_bytes == build_id_bytes &&
		    !memcmp(module->facts.build_id, build_id, build_id_bytes))
			return module->fd;
	}
	return -1;
}

/* Says why a file cannot be used. That it has no symbols the report says, with what helps. */
static void check_file(struct work *work, struct symbols *symbols, const struct trace_module *facts)
{
	struct symbols_module *module = NULL;
	struct tm_error err = {0};
	if (!facts->path || facts->path[0] != '/')
		return;
	int code = symbols_open(symbols, facts->path, facts->build_id, facts->build_id_bytes,
				&module, &err);
	if (code && code != -ENODATA && work->warnings++ < WARNINGS_MAX)
		namer_send_warning(&work->sender, err.text);
}

static struct symbols *symbols_for(struct work *work, bool plain)
{
	struct symbols **symbols = plain ? &work->plain : &work->symbols;
	struct symbols_options options = {
		.root = work->stream->root_fd >= 0 ? work->root : NULL,
		.lines_here = true,
		.no_lines = plain,
		.no_debug_files = plain,
		.held = held,
		.held_ctx = work->stream,
	};
	if (!*symbols && symbols_new(&options, symbols, NULL))
		*symbols = NULL;
	return *symbols;
}

/* ---- modules ---- */

/* Resolves batch[from, end), all of one module. */
static int work_module(struct work *work, size_t from, size_t end)
{
	struct namer_stream *stream = work->stream;
	const struct namer_job *job = work->job;
	const struct namer_module *module = &stream->modules[job->items[from].module_id];
	struct symbols *symbols = symbols_for(work, module->crashes > 0);
	struct symbols_request *requests = tm_alloc_array(end - from, sizeof *requests);
	struct symbols_result result = {0};
	if (!symbols || !requests) {
		tm_free(requests);
		return -ENOMEM;
	}
	check_file(work, symbols, &module->facts);
	for (size_t i = from; i < end; i++)
		requests[i - from] = (struct symbols_request){.module_id = job->items[i].module_id,
							      .address = job->items[i].address};
	int code = symbols_resolve(symbols, &module->facts, 1, requests, end - from, &result, NULL);
	for (size_t i = 0; i < result.count && !code; i++)
		code = namer_send_symbol(&work->sender, &result.symbols[i]);
	if (!code && stream->embed_source)
		code = namer_send_sources(&work->sender, stream->root_fd, result.symbols,
					  result.count);
	tm_free(result.symbols);
	tm_free(requests);
	return code ? code : namer_send_flush(&work->sender);
}

static int work_modules(struct work *work)
{
	const struct namer_job *job = work->job;
	int code = 0;
	for (size_t from = 0; !code && from < job->jit;) {
		size_t end = from;
		uint32_t id = job->items[from].module_id;
		while (end < job->jit && job->items[end].module_id == id)
			end++;
		code = work_module(work, from, end);
		if (!code)
			memset(work->answered + from, 1, end - from);
		from = end;
	}
	return code;
}

/* ---- code that the program made ---- */

struct jit_work {
	struct work *work;
	size_t *places; /* of the requests in the batch */
};

static int found(void *ctx, size_t request, const struct jit_name *name)
{
	struct jit_work *jit = ctx;
	struct namer_stream *stream = jit->work->stream;
	size_t place = jit->places[request];
	struct trace_symbol symbol = {
		.address = jit->work->job->items[place].address,
		.function = name->function,
		.file = name->file[0] ? name->file : NULL,
		.line = name->line,
		.column = name->column,
		.source = TRACE_SYM_JIT,
	};
	int code = namer_send_symbol(&jit->work->sender, &symbol);
	if (!code && stream->embed_source)
		code = namer_send_sources(&jit->work->sender, stream->root_fd, &symbol, 1);
	jit->work->answered[place] = 1;
	return code;
}

/* All that has no answer, by one of the files. */
static int read_names(struct work *work, int fd,
		      int (*read)(int fd, const struct jit_request *requests, size_t count,
				  jit_found_fn fn, void *ctx))
{
	const struct namer_job *job = work->job;
	size_t room = job->count - job->jit, count = 0;
	struct jit_request *requests = tm_alloc_array(room + 1, sizeof *requests);
	struct jit_work jit = {.work = work,
			       .places = tm_alloc_array(room + 1, sizeof *jit.places)};
	int code = requests && jit.places ? 0 : -ENOMEM;
	for (size_t i = job->jit; !code && i < job->count; i++) {
		const struct names_request *item = &job->items[i];
		if (work->answered[i])
			continue;
		jit.places[count] = i;
		requests[count++] =
			(struct jit_request){.address = item->address, .time_ns = item->time_ns};
	}
	if (!code && count && fd >= 0)
		code = read(fd, requests, count, found, &jit);
	tm_free(requests);
	tm_free(jit.places);
	return code == -EBADMSG ? 0 : code;
}

static const struct namer_module *module_at(const struct namer_stream *stream, uint64_t address)
{
	for (uint32_t id = 1; id < stream->module_count; id++) {
		const struct trace_module *facts = &stream->modules[id].facts;
		if (facts->module_id && facts->start <= address && address < facts->end)
			return &stream->modules[id];
	}
	return NULL;
}

/* Code of a module that was mapped a second time has the names of the first. */
static int name_twin(struct work *work, size_t place)
{
	struct namer_stream *stream = work->stream;
	uint64_t address = work->job->items[place].address, twin;
	if (!namer_jit_twin(&stream->code, address, &twin))
		return 0;
	const struct namer_module *module = module_at(stream, twin);
	struct symbols *symbols = module ? symbols_for(work, module->crashes > 0) : NULL;
	struct symbols_result result = {0};
	if (!symbols)
		return 0;
	struct symbols_request request = {.module_id = module->facts.module_id, .address = twin};
	int code = symbols_resolve(symbols, &module->facts, 1, &request, 1, &result, NULL);
	for (size_t i = 0; i < result.count && !code; i++) {
		result.symbols[i].module_id = 0;
		result.symbols[i].address = address;
		code = namer_send_symbol(&work->sender, &result.symbols[i]);
		work->answered[place] = 1;
	}
	tm_free(result.symbols);
	return code;
}

/* At the end, what nobody names is called by where it lies. */
static int name_rest(struct work *work)
{
	struct namer_stream *stream = work->stream;
	const struct namer_job *job = work->job;
	int code = 0;
	for (size_t i = job->jit; !code && i < job->count; i++) {
		char name[256];
		if (!work->answered[i])
			code = name_twin(work, i);
		if (work->answered[i] || code)
			continue;
		namer_jit_mapping(&stream->code, job->items[i].address, name, sizeof name);
		struct trace_symbol symbol = {.address = job->items[i].address,
					      .function = name,
					      .source = TRACE_SYM_NONE};
		code = namer_send_symbol(&work->sender, &symbol);
		work->answered[i] = 1;
	}
	return code;
}

static int work_jit(struct work *work)
{
	int code = read_names(work, work->stream->code.dump_fd, jit_read_dump);
	if (!code)
		code = read_names(work, work->stream->code.map_fd, jit_read_map);
	if (!code && work->job->final)
		code = name_rest(work);
	return code ? code : namer_send_flush(&work->sender);
}

/* ---- limits ---- */

/* Own memory has a fixed limit; the files that are mapped come on top. */
static void set_limits(const struct namer_stream *stream)
{
	uint64_t mapped = 0;
	for (uint32_t id = 1; id < stream->module_count; id++) {
		struct stat facts;
		if (stream->modules[id].fd >= 0 && fstat(stream->modules[id].fd, &facts) == 0)
			mapped += (uint64_t)facts.st_size;
	}
	struct rlimit none = {0, 0};
	struct rlimit cpu = {.rlim_cur = CPU_SECONDS, .rlim_max = CPU_SECONDS + 1};
	struct rlimit data = {.rlim_cur = OWN_BYTES_MAX, .rlim_max = OWN_BYTES_MAX};
	struct rlimit space = {.rlim_cur = OWN_BYTES_MAX * 3 / 2 + 2 * mapped,
			       .rlim_max = RLIM_INFINITY};
	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_CPU, &cpu);
	setrlimit(RLIMIT_DATA, &data);
	setrlimit(RLIMIT_AS, &space);
}

/* ---- batches ---- */

static void work_batch(struct work *work)
{
	work->code = work_modules(work);
	if (!work->code && work->job->jit < work->job->count)
		work->code = work_jit(work);
}

/* A thread has a priority of its own, and who lowers his does not get it back. */
static void *work_low(void *work)
{
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWEST_PRIORITY);
	work_batch(work);
	return NULL;
}

/* While the program runs it has the processor first; at the end somebody waits. */
static void work_fairly(struct work *work)
{
	pthread_t thread;
	if (work->job->final || pthread_create(&thread, NULL, work_low, work))
		work_batch(work);
	else
		pthread_join(thread, NULL);
}

/* Is what we would keep worth keeping? */
static bool may_stay(void)
{
	char text[128];
	unsigned long long all, resident, shared;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	return clock_cpu_ns() < STAY_CPU_MS * 1000000ull &&
	       sscanf(text, "%llu %llu %llu", &all, &resident, &shared) == 3 &&
	       (resident - shared) * (unsigned long)sysconf(_SC_PAGESIZE) < STAY_BYTES_MAX;
}

static bool say_done(int link_fd)
{
	char byte = 1;
	return send(link_fd, &byte, 1, MSG_NOSIGNAL) == 1;
}

/* Until there is another batch; false when there is none for long. */
static bool wait_for_batch(int link_fd, uint64_t took_ns)
{
	char byte;
	uint64_t stay_ms = STAY_MS + took_ns / 1000000u * STAY_TIMES;
	struct pollfd wake = {.fd = link_fd, .events = POLLIN};
	return poll(&wake, 1, stay_ms < INT_MAX ? (int)stay_ms : INT_MAX) == 1 &&
	       recv(link_fd, &byte, 1, 0) == 1;
}

void namer_work(struct namer_stream *stream, int link_fd)
{
	struct work work = {
		.stream = stream, .job = stream->job, .answered = namer_job_answered(stream->job)};
	pid_t namer = getppid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (namer != getppid())
		_exit(0);
	set_limits(stream);
	snprintf(work.root, sizeof work.root, "/proc/self/fd/%d", stream->root_fd);
	namer_sender_init(&work.sender, stream->fd);
	uint64_t began_ns;
	bool final;
	do {
		began_ns = clock_steady_ns();
		final = work.job->final; /* the job may be another when we are done with this */
		work_fairly(&work);
	} while (!work.code && say_done(link_fd) && !final && may_stay() &&
		 wait_for_batch(link_fd, clock_steady_ns() - began_ns));
	_exit(work.code ? 1 : 0);
}
