/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/version.h"
#include "collector/stamp.h"

enum {
	NODE_COUNT_LEAST = 64 * 1024,
	AHEAD_MOST = 1 << 20, /* bytes of nodes that have pages before they are used */
	AHEAD_STEP = 256 << 10,
};

/* Bytes that a limit leaves for us; a limited address space must also hold the program. */
static uint64_t room_bytes(int resource, unsigned divisor)
{
	struct rlimit limit;
	if (getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur / divisor;
}

static int fit_limits(struct wire_control *control, struct tm_error *err)
{
	uint64_t address_space = room_bytes(RLIMIT_AS, 4);
	uint64_t file_size = room_bytes(RLIMIT_FSIZE, 1);
	uint64_t room = address_space < file_size ? address_space : file_size;
	while (wire_layout(control) > room && control->node_count > NODE_COUNT_LEAST)
		control->node_count /= 2;
	while (wire_layout(control) > room && control->stream_count > 1024)
		control->stream_count /= 2;
	if (control->total_bytes <= room)
		return 0;
	if (file_size < address_space)
		return tm_fail(err, -EFBIG,
			       "the file size limit (ulimit -f) of %llu KiB leaves no room for the "
			       "%llu KiB of a recording; raise it",
			       (unsigned long long)file_size / 1024,
			       (unsigned long long)control->total_bytes / 1024);
	return tm_fail(err, -ENOMEM,
		       "the address space limit (ulimit -v) of %llu KiB leaves no room for the "
		       "%llu KiB of a recording; raise it",
		       (unsigned long long)address_space * 4 / 1024,
		       (unsigned long long)control->total_bytes / 1024);
}

static void fill_pool(const struct wire_map *map)
{
	for (uint32_t i = 0; i < map->chunk_count; i++) {
		uint32_t next = i + 1 < map->chunk_count ? i + 2 : WIRE_NONE;
		atomic_store_explicit(&map->chunks[i].next, next, memory_order_relaxed);
	}
	atomic_store_explicit(&map->control->pool_free, map->chunk_count, memory_order_relaxed);
	atomic_store_explicit(&map->control->pool_head, 1, memory_order_release);
}

static int map_memory(struct shm *shm, uint64_t bytes, struct tm_error *err)
{
	if (ftruncate(shm->fd, (off_t)bytes)) {
		int code = -errno;
		shm_close(shm);
		return tm_fail(err, code, "cannot give the shared memory its %llu KiB: %s",
			       (unsigned long long)bytes / 1024, strerror(-code));
	}
	shm->base =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, shm->fd, 0);
	if (shm->base == MAP_FAILED) {
		int code = -errno;
		shm->base = NULL;
		shm_close(shm);
		return tm_fail(err, code, "cannot map the shared memory of %llu KiB: %s",
			       (unsigned long long)bytes / 1024, strerror(-code));
	}
	shm->bytes = bytes;
	/* A target that cuts the file shorter would make our reads fault. */
	if (fcntl(shm->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		int code = -errno;
		shm_close(shm);
		return tm_fail(err, code, "cannot seal the shared memory: %s", strerror(-code));
	}
	return 0;
}

/* In the file shm->fd. */
static int lay_out(struct shm *shm, const struct shm_options *options, struct tm_error *err)
{
	struct stamp_pair now = stamp_pair_read();
	struct wire_control control = {
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.tool_version = TIDEMARK_VERSION,
		.stream_count = options->stream_count ? options->stream_count : WIRE_STREAM_COUNT,
		.chunk_count = options->chunk_count ? options->chunk_count : WIRE_CHUNK_COUNT,
		.node_count = options->node_count ? options->node_count : WIRE_NODE_COUNT,
		.depth = options->depth ? options->depth : WIRE_DEPTH_MAX,
		.options = options->options,
		.patches_bytes = options->patches_bytes,
		.sample_seed = options->sample_seed,
		.first_stamp = options->options & WIRE_OPT_CLOCK_NS ? now.steady_ns : now.stamp,
	};
	int error = fit_limits(&control, err);
	if (error) {
		shm_close(shm);
		return error;
	}
	error = map_memory(shm, wire_layout(&control), err);
	if (error)
		return error;
	memcpy(shm->base, &control, sizeof control);
	if (wire_map_init(&shm->map, shm->base, shm->bytes)) {
		shm_close(shm);
		return tm_fail(err, -EINVAL, "the layout of the shared memory is not valid");
	}
	if (options->patches_bytes)
		memcpy(shm->map.patches, options->patches, options->patches_bytes);
	struct wire_control *shared = shm->map.control;
	atomic_store_explicit(&shared->nodes_next, 1, memory_order_relaxed);
	atomic_store_explicit(&shared->thread_serial, 1, memory_order_relaxed);
	atomic_store_explicit(&shared->sampling, options->sampling, memory_order_relaxed);
	if (options->state == WIRE_SAMPLED)
		atomic_store_explicit(&shm->map.filter->gate, options->sampling,
				      memory_order_relaxed);
	atomic_store_explicit(&shared->state, options->state, memory_order_relaxed);
	fill_pool(&shm->map);
	return 0;
}

int shm_open_new(struct shm *shm, const struct shm_options *options, struct tm_error *err)
{
	*shm = (struct shm){.fd = memfd_create("tidemark", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
	if (shm->fd < 0)
		return tm_fail(err, -errno, "cannot make the shared memory: %s", strerror(errno));
	return lay_out(shm, options, err);
}

int shm_open_at(struct shm *shm, const struct shm_options *options, const char *path,
		struct tm_error *err)
{
	*shm = (struct shm){.fd = open(path, O_RDWR | O_CLOEXEC)};
	if (shm->fd < 0)
		return tm_fail(err, -errno, "cannot open the shared memory of the process: %s",
			       strerror(errno));
	return lay_out(shm, options, err);
}

void shm_make_ahead(struct shm *shm)
{
	const struct wire_map *map = &shm->map;
	uint64_t used = atomic_load_explicit(&map->control->nodes_next, memory_order_relaxed);
	used = (used < map->node_count ? used : map->node_count) * sizeof *map->nodes;
	uint64_t want = used + (used < AHEAD_MOST ? used : AHEAD_MOST);
	uint64_t from = shm->ahead_bytes > used ? shm->ahead_bytes : used;
	from = from / AHEAD_STEP * AHEAD_STEP;
	want = want / AHEAD_STEP * AHEAD_STEP;
	if (used < AHEAD_STEP || want <= from || want > map->node_count * sizeof *map->nodes)
		return;
	/* An old kernel cannot: the target then does it, page by page. */
	(void)madvise((char *)map->nodes + from, want - from, MADV_POPULATE_READ);
	shm->ahead_bytes = want;
}

void shm_empty(struct shm *shm)
{
	if (shm->base)
		madvise(shm->map.chunks,
			shm->bytes - (size_t)((char *)shm->map.chunks - (char *)shm->base),
			MADV_REMOVE);
}

void shm_close_fd(struct shm *shm)
{
	if (shm->fd >= 0)
		close(shm->fd);
	shm->fd = -1;
}

void shm_close(struct shm *shm)
{
	shm_close_fd(shm);
	if (shm->base)
		munmap(shm->base, shm->bytes);
	*shm = (struct shm){.fd = -1};
}
