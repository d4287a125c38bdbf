/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who gets a trace. Without --children: the first process and all it executes;
 * and when the first process is a starter (a shell, make, npm), the programs
 * that it starts directly or through other starters.
 */
#include "collector/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/patching.h"
#include "collector/procfs.h"

/* With little memory for the recorder its pool is 2 MiB rather than 8. */
enum { POOL_SMALL_BELOW = 512 << 20, POOL_SMALL_CHUNKS = 64 };
enum { BEGIN_STEP_NS = 100 * 1000, BEGIN_WAIT_NS = 500 * 1000 * 1000 };
enum { CHAIN_MAX = 64 };

struct session_process *admit_find(struct session *session, pid_t pid)
{
	for (size_t i = 0; i < session->process_count; i++)
		if (session->processes[i].pid == pid && session->processes[i].alive)
			return &session->processes[i];
	return NULL;
}

/* From a process up to the first one, are all starters? */
static bool started_by_starters(struct session *session, pid_t pid)
{
	for (int i = 0; i < CHAIN_MAX && pid > 0; i++) {
		struct session_process *process = admit_find(session, pid);
		enum starter_role role = process ? process->role : starter_role_of(pid);
		if (role != STARTER_STARTER)
			return false;
		if (pid == session->launch.pid)
			return true;
		pid = procfs_parent(pid);
	}
	return false;
}

bool admit_qualifies(struct session *session, pid_t pid, pid_t parent)
{
	if (!session->recording_allowed || pid <= 0)
		return false;
	return pid == session->launch.pid || session->options->children ||
	       started_by_starters(session, parent);
}

/* ---- what the process is ---- */

/* What a link in /proc/PID points to ("exe", "cwd"); "" when it cannot be read. */
static char *link_of(pid_t pid, const char *name)
{
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/%d/%s", (int)pid, name);
	ssize_t bytes = readlink(link, path, sizeof path - 1);
	path[bytes > 0 ? bytes : 0] = '\0';
	return tm_strdup(path);
}

/* ---- letting in ---- */

static struct session_process *add_process(struct session *session, pid_t pid)
{
	if (session->process_count == session->process_room) {
		size_t room = session->process_room ? session->process_room * 2 : 8;
		struct session_process *grown =
			tm_grow_array(session->processes, room, sizeof *grown);
		if (!grown)
			return NULL;
		session->processes = grown;
		session->process_room = room;
	}
	uint32_t piece = admit_next_piece(session, pid);
	struct session_process *process = &session->processes[session->process_count++];
	*process = (struct session_process){.pid = pid, .pidfd = -1, .alive = true, .piece = piece};
	if (getrandom(&process->series_id, sizeof process->series_id, 0) < 0 || !process->series_id)
		process->series_id = clock_wall_ns();
	if (pid != session->launch.pid)
		process->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return process;
}

struct image {
	pid_t parent;
	bool forked;          /* no new program: a child of one that is recorded */
	bool woken;           /* it runs already */
	unsigned sample_log2; /* of the interval to sample by; 0: all blocks are recorded */
	uint64_t glue;        /* of its agent; 0: all is patched */
	const char *unhooked; /* what could not be; NULL nothing */
};

static struct section *section_of(struct session *session, pid_t pid)
{
	struct session_process *process = admit_find(session, pid);
	return process ? recording_section(process->recording) : NULL;
}

/* How the image before it, or its parent, is recorded now: that may have changed since the start.
 */
static unsigned present_interval(struct session *session, const struct session_process *process,
				 pid_t parent)
{
	const struct session_process *model = process ? process : admit_find(session, parent);
	const struct section *section = model ? recording_section(model->recording) : NULL;
	if (!section || section_state(section) == WIRE_OFF)
		return session->options->sample_log2;
	uint64_t bytes = section_sample_bytes(section);
	return bytes ? 63 - (unsigned)__builtin_clzll(bytes) : 0;
}

struct shm_options admit_memory(const struct session *session, unsigned sample_log2)
{
	const struct collector_options *options = session->options;
	uint32_t flags = (options->free_stacks ? WIRE_OPT_FREE_STACKS : 0) |
			 (session->tsc ? 0 : WIRE_OPT_CLOCK_NS) |
			 (options->children ? WIRE_OPT_FOLLOW_FORK : 0) |
			 (options->on_usr1 ? WIRE_OPT_USR1 : 0) |
			 (options->drop ? WIRE_OPT_DROP : 0);
	/* The pool of a process that is attached to may be there already, with its size. */
	uint64_t most = options->bounds.max_memory_bytes;
	bool small = most && most < POOL_SMALL_BELOW && !options->pid;
	enum wire_state state = sample_log2 ? WIRE_SAMPLED : WIRE_RECORD;
	return (struct shm_options){.depth = options->depth,
				    .chunk_count = small ? POOL_SMALL_CHUNKS : 0,
				    .options = flags,
				    .state = session->recording_now ? state : WIRE_IDLE,
				    .sampling = sample_log2,
				    .sample_seed = options->sample_seed};
}

/* Of all recordings; its thread begins with the first. */
static struct giveway *giveway_of(struct session *session)
{
	if (!session->giveway_tried)
		session->giveway = giveway_new();
	session->giveway_tried = true;
	return session->giveway;
}

/* Texts in it are the caller's to free; so is names_fd until a section has it. */
static struct section_options
section_facts(struct session *session, struct session_process *process, const struct image *image)
{
	const struct collector_options *options = session->options;
	return (struct section_options){
		.pid = process->pid,
		.parent = image->parent,
		.follow_forks = options->children,
		.forked_from = image->forked ? section_of(session, image->parent) : NULL,
		.woken = image->woken,
		.series_id = process->series_id,
		.usr1_fd = session->usr1_fd,
		.program = process->program ? process->program : "",
		.command = procfs_command(process->pid),
		.folder = link_of(process->pid, "cwd"),
		.tsc = session->tsc,
		.earlier = session->earlier,
		.addresses = !options->no_addresses,
		.free_stacks = options->free_stacks,
		.names_fd = namer_stream(&session->namer, process->pid, options->embed_source),
		.tell_unnamed = options->tell_unnamed,
		.naming = options->naming,
		.naming_ctx = options->ctx,
		.helper = session->namer.pid,
		.max_memory_bytes = options->bounds.max_memory_bytes,
		.cull_ns = options->bounds.cull_ns,
		.sample_log2 = image->sample_log2,
		.max_overhead = options->max_overhead,
		.overload_share = options->overload_share,
		.giveway = giveway_of(session),
		.unhooked = image->unhooked,
	};
}

static void free_facts(struct section_options *facts)
{
	tm_free((char *)facts->command);
	tm_free((char *)facts->folder);
}

/* Takes shm over. */
static int make_section(struct session *session, struct session_process *process,
			const struct image *image, struct shm *shm, struct section **ret_section,
			struct tm_error *err)
{
	struct section_options facts = section_facts(session, process, image);
	facts.depth = shm->map.depth;
	int error = section_new(&facts, shm, ret_section, err);
	free_facts(&facts);
	return error;
}

static void learn_program(struct session_process *process)
{
	tm_free(process->program);
	process->program = link_of(process->pid, "exe");
	process->role = starter_role_of(process->pid);
}

/*
 * The program waits for its memory until the file says what is recorded: so a file that it has
 * events in opens, whatever is killed when. Not for long, by the clock: a disk may be slow, and
 * on a busy machine so are we, while an agent that waits for seconds goes on unrecorded.
 */
static void await_begin(const struct recording *recording, uint64_t bytes_before)
{
	const struct timespec moment = {.tv_nsec = BEGIN_STEP_NS};
	uint64_t end_ns = clock_steady_ns() + BEGIN_WAIT_NS;
	while (recording_written(recording) == bytes_before && clock_steady_ns() < end_ns)
		nanosleep(&moment, NULL);
}

static int add_section(struct session *session, struct session_process *process,
		       const struct image *image, struct shm *shm, struct tm_error *err)
{
	struct section *section = NULL;
	bool is_first = !recording_section(process->recording);
	uint64_t bytes_before = recording_written(process->recording);
	int error = make_section(session, process, image, shm, &section, err);
	if (!error)
		error = recording_add(process->recording, section, err);
	if (error && section)
		section_free(section);
	if (!error && is_first)
		await_begin(process->recording, bytes_before);
	return error;
}

/* ---- pieces ---- */

static int begin_piece(struct session *session, struct session_process *process,
		       struct recording *recording, struct tm_error *err)
{
	struct section *before = recording_section(process->recording), *next = NULL;
	struct image image = {.parent = procfs_parent(process->pid),
			      .sample_log2 = session->options->sample_log2};
	struct section_options facts = section_facts(session, process, &image);
	int error = section_new_piece(&facts, before, &next, err);
	free_facts(&facts);
	if (!error)
		error = recording_add(recording, next, err);
	if (error) {
		section_free(next);
		return error;
	}
	section_rotate(before, next, process->children_recorded);
	return 0;
}

int admit_rotate(struct session *session, struct session_process *process, struct tm_error *err)
{
	struct recording *recording = NULL;
	pid_t pid = process->pid;
	int error = admit_open_file(session, pid, process->program ? process->program : "",
				    &recording, err);
	if (error)
		return error;
	size_t index = (size_t)(process - session->processes);
	struct session_process *next = add_process(session, pid);
	process = &session->processes[index]; /* they may have moved */
	error = next ? begin_piece(session, process, recording, err)
		     : tm_fail(err, -ENOMEM, "out of memory for the next piece");
	if (!next || error) {
		session->process_count -= next != NULL;
		recording_discard(recording);
		return error;
	}
	if (next->pidfd >= 0)
		close(next->pidfd);
	next->pidfd = process->pidfd;
	next->role = process->role;
	next->program = tm_strdup(process->program ? process->program : "");
	next->recording = recording;
	next->series_id = process->series_id;
	next->usr1_seen = process->usr1_seen;
	next->known = process->known;
	process->known = (struct patching_known){0};
	entering_hand_over(process, next);
	process->pidfd = -1;
	process->alive = false;
	process->replaced = true;
	recording_close(process->recording);
	return 0;
}

/* Memory for the image, with what its agent is to patch. */
static int make_memory(struct session *session, struct session_process *process,
		       const struct image *image, struct patching *patching, struct shm *ret_shm,
		       struct tm_error *err)
{
	pid_t pid = process->pid;
	struct shm_options memory = admit_memory(session, image->sample_log2);
	/* It has its parent's blocks, which its filter does not yet know. */
	if (image->forked && memory.state == WIRE_SAMPLED)
		memory.state = WIRE_SAMPLED_ALL;
	if (process->role == STARTER_STARTER)
		memory.options |= WIRE_OPT_STARTER;
	*patching = (struct patching){0};
	if (!image->glue && pid == session->launch.pid) /* entered: patched already */
		memcpy(patching->unhooked, session->preflight.unhooked, sizeof patching->unhooked);
	if (!image->glue)
		entrants_unhooked(&session->entrants, pid, patching->unhooked);
	else if (!image->forked)
		patching_new(&(struct patching_options){.pid = pid,
							.glue = image->glue,
							.hooks = session->options->hooks,
							.known = &process->known},
			     patching);
	memory.patches = patching->bytes;
	memory.patches_bytes = patching->count;
	return shm_open_new(ret_shm, &memory, err);
}

/* The new image of a process that has a recording. The descriptor is for the agent. */
static int begin_image(struct session *session, struct session_process *process,
		       const struct image *of, int *ret_fd, struct tm_error *err)
{
	struct image image = *of;
	struct patching patching;
	struct shm shm;
	learn_program(process);
	int error = make_memory(session, process, &image, &patching, &shm, err);
	if (error) {
		patching_done(&patching);
		return error;
	}
	int fd = dup(shm.fd);
	shm_close_fd(&shm);
	image.unhooked = patching.unhooked;
	memcpy(process->known.told, patching.unhooked, sizeof process->known.told);
	error = add_section(session, process, &image, &shm, err);
	patching_done(&patching);
	if (error)
		close(fd);
	else
		*ret_fd = fd;
	return error;
}

int admit_entered(struct session *session, pid_t pid, struct shm *shm, const char *unhooked,
		  struct tm_error *err)
{
	const struct image image = {.parent = procfs_parent(pid),
				    .woken = true,
				    .sample_log2 = session->options->sample_log2,
				    .unhooked = *unhooked ? unhooked : NULL};
	struct session_process *process = add_process(session, pid);
	if (!process) {
		shm_close(shm);
		return tm_fail(err, -ENOMEM, "out of memory for another process");
	}
	process->recording = session->first_recording;
	session->first_recording = NULL;
	learn_program(process);
	return add_section(session, process, &image, shm, err);
}

/* Nothing of it is recorded: no empty file has a name that another could have. */
static void forget_new(struct session *session, struct session_process *process)
{
	if (process->pid == session->launch.pid && !session->first_recording)
		session->first_recording = process->recording; /* its next image may do better */
	else
		recording_discard(process->recording);
	process->recording = NULL;
	session_forget_process(session, process);
}

static int admit_new(struct session *session, struct rendezvous_peer *peer,
		     const struct image *image, int *ret_fd, struct tm_error *err)
{
	struct recording *recording = NULL;
	int error = 0;
	if (peer->pid == session->launch.pid && session->first_recording) {
		recording = session->first_recording;
		session->first_recording = NULL;
	} else {
		char *program = link_of(peer->pid, "exe");
		error = admit_open_file(session, peer->pid, program ? program : "", &recording,
					err);
		tm_free(program);
	}
	if (error)
		return error;
	struct session_process *process = add_process(session, peer->pid);
	if (!process) {
		recording_discard(recording);
		return tm_fail(err, -ENOMEM, "out of memory for another process");
	}
	process->recording = recording;
	error = begin_image(session, process, image, ret_fd, err);
	if (error) {
		forget_new(session, process);
		return error;
	}
	struct session_process *mother = admit_find(session, image->parent);
	if (mother)
		mother->children_recorded++;
	return 0;
}

/* Who waits for an answer has not closed the connection. */
static bool is_gone(const struct rendezvous_peer *peer)
{
	char byte;
	return recv(peer->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/*
 * The entry of who says hello. One that has ended, while somebody waits for an answer, is another
 * process's, which had this pid before.
 */
static struct session_process *find_peer(struct session *session,
					 const struct rendezvous_peer *peer)
{
	struct session_process *process = admit_find(session, peer->pid);
	struct pollfd end = {.fd = process ? process->pidfd : -1, .events = POLLIN};
	if (end.fd < 0 || poll(&end, 1, 0) <= 0 || is_gone(peer))
		return process;
	admit_see_end(session, process);
	return NULL;
}

void admit_peer(struct session *session, struct rendezvous_peer *peer)
{
	if (peer->hello.forked == WIRE_HELLO_LOADED) {
		late_answer(session, peer);
		return;
	}
	if (peer->hello.forked == WIRE_HELLO_EXEC || peer->hello.forked == WIRE_HELLO_SPAWN) {
		entering_admit(session, peer);
		return;
	}
	if (waking_answer(session, peer))
		return;
	struct tm_error err = {0};
	int fd = -1, error = 0;
	struct session_process *process = find_peer(session, peer);
	struct image image = {.parent = peer->pid ? procfs_parent(peer->pid) : 0,
			      .forked = peer->hello.forked == WIRE_HELLO_FORKED,
			      .woken = peer->hello.forked == WIRE_HELLO_WOKEN,
			      .glue = peer->hello.glue};
	image.sample_log2 = present_interval(session, process, image.parent);
	/* It had switched itself off, and begins anew. */
	if (process && image.woken) {
		command_stop(session, process, "Recording ended, and began again in another file.");
		process = NULL;
	}
	if (process && !recording_closed(process->recording)) {
		struct section *before = recording_section(process->recording);
		if (before)
			section_end(before, &(struct section_ending){
						    .cause = TRACE_END_EXEC,
						    .children_recorded = process->children_recorded,
						    .more_follows = true});
		process->children_recorded = 0; /* as many as the image makes itself */
		error = begin_image(session, process, &image, &fd, &err);
	} else if (!process && admit_qualifies(session, peer->pid, image.parent)) {
		error = admit_new(session, peer, &image, &fd, &err);
	}
	if (error && !session->warning.code)
		session->warning = err;
	rendezvous_answer(peer, fd);
	if (fd >= 0)
		waking_keep(session, peer->pid, fd);
}

void admit_end_process(struct session *session, struct session_process *process,
		       const struct section_ending *ending)
{
	struct section_ending how = *ending;
	how.children_recorded = process->children_recorded;
	entering_tell(session);
	how.note = entering_note(process, how.note);
	struct section *section = recording_section(process->recording);
	process->alive = false;
	if (section)
		section_end(section, &how);
	/* No other image can follow, for only the living are found by their pid. */
	recording_close(process->recording);
	if (process->pidfd >= 0)
		close(process->pidfd);
	process->pidfd = -1;
}

struct section_ending admit_ending(int wait_status)
{
	bool by_signal = WIFSIGNALED(wait_status);
	return (struct section_ending){.cause = by_signal ? TRACE_END_SIGNAL : TRACE_END_EXIT,
				       .status = by_signal ? WTERMSIG(wait_status)
							   : WEXITSTATUS(wait_status)};
}

/* Newer kernels tell how it ended, older only that. */
void admit_see_end(struct session *session, struct session_process *process)
{
	int wait_status;
	struct section_ending ending = {
		.cause = TRACE_END_EXIT, .status = -1, .status_unknown = true};
	if (procfs_exit_status(process->pid, process->pidfd, &wait_status))
		ending = admit_ending(wait_status);
	admit_end_process(session, process, &ending);
}
