/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sessions_put.h"

#include <string.h>

#include "base/units.h"
#include "cli/sessions.h"

void sessions_put_json(struct json *json, const struct control_process *process)
{
	json_begin_object(json, NULL);
	json_u64(json, "pid", (uint64_t)process->pid);
	json_u64(json, "tidemark_pid", (uint64_t)process->tool_pid);
	json_string(json, "state", sessions_state_name(process->state));
	json_string(json, "source", process->source);
	json_string(json, "program", process->program);
	json_string(json, "file", *process->file ? process->file : NULL);
	json_u64(json, "file_bytes", process->file_bytes);
	json_u64(json, "piece", process->piece);
	json_u64(json, "age_ns", process->age_ns);
	json_string(json, "mode", process->sample_bytes ? "sampled" : "exact");
	json_u64(json, "sample_bytes", process->sample_bytes);
	json_u64(json, "events", process->events);
	json_u64(json, "live_bytes", process->live_bytes);
	json_u64(json, "peak_bytes", process->peak_bytes);
	json_u64(json, "lost_events", process->lost_events);
	json_u64(json, "folded_events", process->folded_events);
	json_u64(json, "bytes_per_hour", process->bytes_per_hour);
	json_u64(json, "disk_free_bytes", process->disk_free_bytes);
	if (process->left_ns)
		json_u64(json, "full_in_ns", process->left_ns);
	else
		json_null(json, "full_in_ns");
	json_u64(json, "recorder_cpu_ns", process->cpu_ns);
	json_u64(json, "recorder_bytes", process->memory_bytes);
	json_u64(json, "waited_ns", process->waited_ns);
	json_end(json);
}

void sessions_put_status(struct out *out, const struct control_process *process)
{
	struct text *text = &out->text;
	out_name(out, sessions_program_name(process->program), 0);
	text_print(text, " (pid %d): %s, by tidemark %d (%s)\n", process->pid,
		   sessions_state_name(process->state), process->tool_pid, process->source);
	if (process->state == CONTROL_OFF && !process->piece)
		return;
	text_print(text, "  %s events in %s, %s live, %s at the peak, %s lost\n",
		   units_grouped(process->events).text, units_duration(process->age_ns).text,
		   units_bytes(process->live_bytes).text, units_bytes(process->peak_bytes).text,
		   units_grouped(process->lost_events).text);
	if (process->sample_bytes)
		text_print(text, "  sampled: a block every %s bytes; the figures are estimates\n",
			   units_grouped(process->sample_bytes).text);
	text_print(text, "  %s in ", units_bytes(process->file_bytes).text);
	text_put_visible(text, process->file, strlen(process->file));
	if (process->piece > 1)
		text_print(text, ", file %u of this process", process->piece);
	text_print(text, "\n  %s per hour, %s free on the disk",
		   units_bytes(process->bytes_per_hour).text,
		   units_bytes(process->disk_free_bytes).text);
	if (process->left_ns)
		text_print(text, ": enough for %s", units_duration(process->left_ns).text);
	if (process->folded_events)
		text_print(text, "; %s older events are folded",
			   units_grouped(process->folded_events).text);
	text_print(text, "\n  tidemark took %s of CPU and %s of memory, the program waited %s\n",
		   units_duration(process->cpu_ns).text, units_bytes(process->memory_bytes).text,
		   units_duration(process->waited_ns).text);
}
