/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorder says of its files, over the socket that 'tidemark ctl' uses, too. */
#include <string.h>

#include "base/memory.h"
#include "cli/recorder.h"
#include "collector/control.h"

struct asked {
	server_recording_fn fn;
	void *ctx;
};

static void take(void *ctx, const struct control_process *process)
{
	struct asked *asked = ctx;
	const struct server_recording recording = {.path = process->file,
						   .lost_events = process->lost_events,
						   .waited_ns = process->waited_ns,
						   .bytes_per_hour = process->bytes_per_hour,
						   .full_in_ns = process->left_ns,
						   .disk_free_bytes = process->disk_free_bytes};
	/* What only starts other programs has a name of its own until its trace is dropped. */
	if (process->file[0] == '/' && !strstr(process->file, ".starter-"))
		asked->fn(asked->ctx, &recording);
}

void recorder_recordings(uint64_t pid, server_recording_fn fn, void *ctx)
{
	const struct control_request request = {.verb = CONTROL_STATUS};
	struct asked asked = {fn, ctx};
	struct control_peer *peers;
	size_t count;
	if (control_peers(&peers, &count, NULL))
		return;
	for (size_t i = 0; i < count; i++)
		if (peers[i].is_ours && (uint64_t)peers[i].pid == pid &&
		    control_ask(&peers[i], &request, take, &asked, NULL))
			break; /* it is ending: what is known of its files stays */
	tm_free(peers);
}
