/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/namer_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "collector/namer_work.h"

#define SECOND_NS 1000000000ull

enum {
	MODULES_MAX = 1 << 17,
	REQUESTS_MAX = 1 << 24, /* distinct addresses of one image; beyond, no names */
	MESSAGES_AT_ONCE = 64,
	FIRST_BATCH_NS = 400 * 1000 * 1000, /* who ends before has all at the end, in one go */
	CRASHES_MAX = 16,
	JOB_ROOM_MIN = 4096, /* so that the next batch fits, too */
};

int namer_stream_init(struct namer_stream *stream, int fd, const struct names_stream *begin)
{
	*stream = (struct namer_stream){.fd = fd,
					.pid = begin->pid,
					.embed_source = begin->embed_source != 0,
					.root_fd = namer_hold_root(begin->pid),
					.worker_fd = -1};
	namer_jit_init(&stream->code, begin);
	stream->early = tm_alloc_array(NAMER_EARLY_MAX, sizeof *stream->early);
	if (stream->early)
		stream->early_count = namer_hold_early(stream->pid, stream->root_fd, stream->early);
	stream->seen_room = 1 << 12;
	stream->seen = tm_alloc_array(stream->seen_room, sizeof *stream->seen);
	if (stream->seen)
		return 0;
	stream->fd = -1;
	namer_stream_done(stream);
	return -ENOMEM;
}

static size_t job_bytes(size_t room)
{
	return sizeof(struct namer_job) + room * (sizeof(struct names_request) + 1);
}

/* How the worker ended. */
static int wait_for_worker(struct namer_stream *stream)
{
	int status = 0;
	while (waitpid(stream->worker, &status, 0) < 0 && errno == EINTR)
		;
	stream->worker = 0;
	return status;
}

/* One that has a batch is waited for; one that has none is ended. */
static void drop_worker(struct namer_stream *stream)
{
	if (stream->worker && !stream->is_busy)
		kill(stream->worker, SIGKILL);
	if (stream->worker)
		wait_for_worker(stream);
	if (stream->worker_fd >= 0)
		close(stream->worker_fd);
	if (stream->job)
		munmap(stream->job, job_bytes(stream->job_room));
	for (uint32_t id = 0; id < stream->module_count; id++)
		stream->modules[id].in_worker = false;
	stream->is_busy = false;
	stream->worker_fd = -1;
	stream->job = NULL;
}

void namer_stream_done(struct namer_stream *stream)
{
	drop_worker(stream);
	for (uint32_t id = 0; id < stream->module_count; id++) {
		tm_free((char *)stream->modules[id].facts.path);
		if (stream->modules[id].fd >= 0)
			close(stream->modules[id].fd);
	}
	for (size_t i = 0; stream->early && i < stream->early_count; i++) {
		tm_free(stream->early[i].path);
		close(stream->early[i].fd);
	}
	tm_free(stream->early);
	tm_free(stream->modules);
	tm_free(stream->pending.items);
	tm_free(stream->jit.items);
	tm_free(stream->batch.items);
	tm_free(stream->seen);
	namer_jit_done(&stream->code);
	if (stream->root_fd >= 0)
		close(stream->root_fd);
	if (stream->fd >= 0)
		close(stream->fd);
}

/* ---- what the collector says ---- */

static bool cover_module(struct namer_stream *stream, uint32_t id)
{
	if (id < stream->module_count)
		return true;
	if (id >= MODULES_MAX)
		return false;
	uint32_t count = stream->module_count ? stream->module_count : 64;
	while (count <= id)
		count *= 2;
	struct namer_module *grown = tm_grow_array(stream->modules, count, sizeof *grown);
	if (!grown)
		return false;
	for (uint32_t i = stream->module_count; i < count; i++)
		grown[i] = (struct namer_module){.fd = -1};
	stream->modules = grown;
	stream->module_count = count;
	return true;
}

/* The file of a module: the one that was open already, or -1. */
static int claim_early(struct namer_stream *stream, const char *path)
{
	for (size_t i = 0; i < stream->early_count; i++) {
		if (strcmp(stream->early[i].path, path) != 0)
			continue;
		int fd = stream->early[i].fd;
		tm_free(stream->early[i].path);
		stream->early[i] = stream->early[--stream->early_count];
		return fd;
	}
	return -1;
}

static void take_module(struct namer_stream *stream, const char *message, size_t bytes)
{
	struct names_module in;
	if (bytes <= sizeof in || message[bytes - 1] != '\0')
		return;
	memcpy(&in, message, sizeof in);
	const char *path = message + sizeof in;
	if (!in.module_id || in.build_id_bytes > sizeof in.build_id ||
	    !cover_module(stream, in.module_id))
		return;
	struct namer_module *module = &stream->modules[in.module_id];
	if (module->facts.module_id)
		return; /* it is what it was */
	module->facts = (struct trace_module){.module_id = in.module_id,
					      .bias = in.bias,
					      .start = in.start,
					      .end = in.end,
					      .build_id_bytes = in.build_id_bytes,
					      .path = tm_strdup(path)};
	memcpy(module->facts.build_id, in.build_id, sizeof in.build_id);
	if (path[0] == '/')
		module->fd = claim_early(stream, path);
	if (path[0] == '/' && module->fd < 0)
		module->fd = namer_hold(stream->pid, stream->root_fd, &module->facts);
}

static void insert_seen(uint64_t *table, size_t room, uint64_t hash)
{
	size_t at = hash & (room - 1);
	while (table[at])
		at = (at + 1) & (room - 1);
	table[at] = hash;
}

/* Was it asked before? A hash that two requests share costs one of them its name. */
static bool is_seen(struct namer_stream *stream, const struct names_request *request)
{
	uint64_t hash = hash_pair(request->address, request->module_id) | 1;
	size_t at = hash & (stream->seen_room - 1);
	for (; stream->seen[at]; at = (at + 1) & (stream->seen_room - 1))
		if (stream->seen[at] == hash)
			return true;
	if (stream->seen_count * 2 >= stream->seen_room) {
		size_t room = stream->seen_room * 2;
		uint64_t *grown =
			room <= REQUESTS_MAX * 2 ? tm_alloc_array(room, sizeof *grown) : NULL;
		if (!grown)
			return true;
		for (size_t i = 0; i < stream->seen_room; i++)
			if (stream->seen[i])
				insert_seen(grown, room, stream->seen[i]);
		tm_free(stream->seen);
		stream->seen = grown;
		stream->seen_room = room;
	}
	insert_seen(stream->seen, stream->seen_room, hash);
	stream->seen_count++;
	return false;
}

static bool list_add(struct namer_list *list, const struct names_request *item)
{
	if (list->count == list->room) {
		size_t room = list->room * 2 + 256;
		struct names_request *grown = tm_grow_array(list->items, room, sizeof *grown);
		if (!grown)
			return false;
		list->items = grown;
		list->room = room;
	}
	list->items[list->count++] = *item;
	return true;
}

static void take_requests(struct namer_stream *stream, const char *message, size_t bytes)
{
	struct names_request request;
	size_t count = (bytes - sizeof(struct names_head)) / sizeof request;
	for (size_t i = 0; i < count; i++) {
		memcpy(&request, message + sizeof(struct names_head) + i * sizeof request,
		       sizeof request);
		if (is_seen(stream, &request))
			continue;
		list_add(request.module_id ? &stream->pending : &stream->jit, &request);
		stream->jit_seen |= !request.module_id;
		if (!stream->first_ns)
			stream->first_ns = clock_steady_ns();
	}
}

void namer_stream_read(struct namer_stream *stream)
{
	static char message[NAMES_MESSAGE_MAX];
	for (int i = 0; i < MESSAGES_AT_ONCE && !stream->closed; i++) {
		struct names_head head;
		ssize_t got = recv(stream->fd, message, sizeof message, MSG_DONTWAIT);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got < (ssize_t)sizeof head) {
			stream->closed = true;
			return;
		}
		memcpy(&head, message, sizeof head);
		if (head.kind == NAMES_MODULE)
			take_module(stream, message, (size_t)got);
		else if (head.kind == NAMES_REQUESTS)
			take_requests(stream, message, (size_t)got);
		else if (head.kind == NAMES_END)
			stream->ended = true;
	}
}

/* ---- the worker ---- */

static int by_module_and_address(const void *left, const void *right)
{
	const struct names_request *a = left, *b = right;
	if (a->module_id != b->module_id)
		return a->module_id < b->module_id ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

/* Moves what can be looked up now into the batch. */
static bool fill_batch(struct namer_stream *stream)
{
	size_t kept = 0;
	stream->batch.count = 0;
	for (size_t i = 0; i < stream->pending.count; i++) {
		const struct names_request *item = &stream->pending.items[i];
		bool known = item->module_id < stream->module_count &&
			     stream->modules[item->module_id].facts.module_id;
		if (!known && !stream->ended)
			stream->pending.items[kept++] = *item;
		else if (known)
			list_add(&stream->batch, item);
	}
	stream->pending.count = kept;
	if (stream->batch.count)
		qsort(stream->batch.items, stream->batch.count, sizeof *stream->batch.items,
		      by_module_and_address);
	stream->batch_jit = stream->batch.count;
	/* One that stayed is better for modules than a new one: then the jit's come after. */
	if (stream->worker && stream->batch.count)
		return true;
	if (stream->jit.count && (stream->ended || namer_jit_grown(&stream->code))) {
		qsort(stream->jit.items, stream->jit.count, sizeof *stream->jit.items,
		      by_module_and_address);
		for (size_t i = 0; i < stream->jit.count; i++)
			list_add(&stream->batch, &stream->jit.items[i]);
		stream->jit.count = 0;
	}
	return stream->batch.count > 0;
}

static void fill_job(struct namer_stream *stream)
{
	struct namer_job *job = stream->job;
	stream->final = stream->ended;
	job->room = stream->job_room;
	job->count = stream->batch.count;
	job->jit = stream->batch_jit;
	job->final = stream->final;
	memcpy(job->items, stream->batch.items, job->count * sizeof *job->items);
	memset(job->items + stream->job_room, 0, stream->batch.count);
}

/* May the worker that stayed have this batch? It knows what was there when it was forked. */
static bool worker_can(const struct namer_stream *stream)
{
	if (!stream->worker || stream->batch.count > stream->job_room ||
	    stream->batch_jit < stream->batch.count)
		return false;
	for (size_t i = 0; i < stream->batch.count; i++)
		if (!stream->modules[stream->batch.items[i].module_id].in_worker)
			return false;
	return true;
}

/* False: it has left. */
static bool give_worker(struct namer_stream *stream)
{
	char more = 1;
	fill_job(stream);
	stream->is_busy = send(stream->worker_fd, &more, 1, MSG_NOSIGNAL) == 1;
	return stream->is_busy;
}

static bool make_job(struct namer_stream *stream)
{
	size_t room = stream->batch.count > JOB_ROOM_MIN ? stream->batch.count : JOB_ROOM_MIN;
	struct namer_job *job = mmap(NULL, job_bytes(room), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job == MAP_FAILED)
		return false;
	stream->job = job;
	stream->job_room = room;
	fill_job(stream);
	return true;
}

static void fork_worker(struct namer_stream *stream)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return;
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[0]);
		namer_work(stream, ends[1]);
	}
	close(ends[1]);
	stream->worker_fd = ends[0];
	stream->worker = pid > 0 ? pid : 0;
	stream->is_busy = pid > 0;
	for (uint32_t id = 0; id < stream->module_count; id++)
		stream->modules[id].in_worker = stream->modules[id].facts.module_id != 0;
}

static void start_worker(struct namer_stream *stream, uint64_t now_ns)
{
	stream->started_ns = now_ns;
	if (worker_can(stream) && give_worker(stream))
		return;
	drop_worker(stream);
	if (make_job(stream))
		fork_worker(stream);
	if (!stream->worker)
		drop_worker(stream);
}

static void say_end(struct namer_stream *stream)
{
	struct names_head head = {.kind = NAMES_END};
	ssize_t sent = send(stream->fd, &head, sizeof head, MSG_NOSIGNAL);
	/* The collector reads on until this, or it is gone. */
	stream->closed = sent >= 0 || errno != EINTR;
}

void namer_stream_work(struct namer_stream *stream, uint64_t now_ns, uint64_t *next_ns)
{
	/* Also while a worker is at it: the process may end any moment. */
	if (stream->jit_seen && !stream->ended && !stream->closed) {
		namer_jit_look(&stream->code, stream->root_fd, now_ns);
		if (stream->code.next_ns < *next_ns)
			*next_ns = stream->code.next_ns;
	}
	if (stream->is_busy || stream->closed)
		return;
	if (!stream->pending.count && !stream->jit.count) {
		if (stream->ended)
			say_end(stream);
		return;
	}
	uint64_t due_ns = stream->first_ns + FIRST_BATCH_NS;
	due_ns = stream->next_ns > due_ns ? stream->next_ns : due_ns;
	if (!stream->ended && now_ns < due_ns) {
		*next_ns = due_ns < *next_ns ? due_ns : *next_ns;
		return;
	}
	/* Who ended at once may have left his map behind. */
	if (stream->ended && stream->jit.count) {
		stream->code.next_ns = 0;
		namer_jit_look(&stream->code, stream->root_fd, now_ns);
	}
	if (fill_batch(stream))
		start_worker(stream, now_ns);
	/* Nothing to be done, or it cannot be: no worker is no reason to ask again at once. */
	stream->next_ns = now_ns + SECOND_NS;
	if (!stream->is_busy && stream->ended)
		say_end(stream);
	else if (!stream->is_busy && stream->next_ns < *next_ns)
		*next_ns = stream->next_ns;
}

/* One for each of the batch: not by what the job says now, for it may be spoiled. */
static const uint8_t *answers(const struct namer_stream *stream)
{
	return (const uint8_t *)(stream->job->items + stream->job_room);
}

/* The module that the worker was at when it died pays for it. */
static void blame(struct namer_stream *stream)
{
	const uint8_t *answered = answers(stream);
	size_t first = 0;
	while (first < stream->batch.count && answered[first])
		first++;
	stream->crashes++;
	if (first < stream->batch_jit)
		stream->modules[stream->batch.items[first].module_id].crashes++;
	else /* the jit's files, which are read but once more then */
		namer_jit_forget(&stream->code);
}

/* What has no answer is asked again, if that has a chance. */
static void take_back(struct namer_stream *stream, bool crashed)
{
	const uint8_t *answered = answers(stream);
	for (size_t i = 0; i < stream->batch.count; i++) {
		const struct names_request *item = &stream->batch.items[i];
		if (answered[i])
			continue;
		/* What the jit has not named yet it may name later. */
		if (!item->module_id && !stream->final)
			list_add(&stream->jit, item);
		else if (!crashed || /* it left when this came */
			 (stream->crashes < CRASHES_MAX &&
			  (!item->module_id || stream->modules[item->module_id].crashes < 2)))
			list_add(item->module_id ? &stream->pending : &stream->jit, item);
	}
	stream->batch.count = 0;
}

void namer_stream_reap(struct namer_stream *stream, uint64_t now_ns)
{
	char done;
	ssize_t got = read(stream->worker_fd, &done, 1);
	if (got < 0 && errno == EINTR)
		return;
	/* One that is done with the last batch is on its way out: nobody needs to wait for that. */
	bool stays = got == 1, was_busy = stream->is_busy;
	int status = stays ? 0 : wait_for_worker(stream);
	bool crashed = was_busy && status != 0;
	stream->is_busy = false;
	if (crashed)
		blame(stream);
	if (was_busy)
		take_back(stream, crashed);
	if (!stays)
		drop_worker(stream);
	if (!was_busy)
		return;
	/* A twentieth of a core at most, while the program runs. */
	uint64_t pause_ns = (now_ns - stream->started_ns) * 19;
	pause_ns = pause_ns > SECOND_NS ? pause_ns : SECOND_NS;
	stream->next_ns = now_ns + (crashed ? 0 : pause_ns);
}
