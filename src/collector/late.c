/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that a process loads while it is recorded, and that have an
 * allocator in them: its agent asks, and waits for what to patch.
 */
#include "collector/session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"

/* A file of the bytes that nobody can change any more; -1: none. */
static int seal(const struct patching *patching)
{
	int fd = patching->bytes ? memfd_create("tidemark-patches", MFD_CLOEXEC | MFD_ALLOW_SEALING)
				 : -1;
	if (fd < 0)
		return -1;
	if (!io_write(fd, patching->bytes, patching->count) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		return fd;
	close(fd);
	return -1;
}

void late_answer(struct session *session, struct rendezvous_peer *peer)
{
	struct session_process *process = admit_find(session, peer->pid);
	struct section *section = process ? recording_section(process->recording) : NULL;
	if (!section || recording_closed(process->recording)) {
		rendezvous_answer(peer, -1);
		return;
	}
	struct patching patching;
	patching_new(&(struct patching_options){.pid = peer->pid,
						.glue = peer->hello.glue,
						.hooks = session->options->hooks,
						.known = &process->known,
						.late = true,
						.closes = peer->hello.closes},
		     &patching);
	if (strcmp(patching.unhooked, process->known.told) != 0) {
		memcpy(process->known.told, patching.unhooked, sizeof process->known.told);
		section_set_unhooked(section, patching.unhooked);
	}
	int fd = seal(&patching);
	rendezvous_answer(peer, fd);
	if (fd >= 0)
		close(fd);
	patching_done(&patching);
}
