/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile programs and lists of functions: what is to be patched, and with which bytes. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "fuzz/fuzz.h"
#include "inject/patch.h"
#include "inject/plan_hook.h"

enum { HOOK_BYTES = 200 };
#define BIAS 0x7f0000000000ull

static void place(struct plan *plan)
{
	struct patch_set *set = NULL;
	uint64_t low = 0, high = 0;
	if (!patch_reach(plan, &low, &high))
		return;
	if (!patch_place(plan, (low + (high - low) / 2) & ~4095ull, BIAS, &set, NULL))
		for (size_t i = 0; i < set->count; i++)
			patch_move_pc(set, set->patches[i].address + 1);
	patch_set_free(set);
}

static void plan_file(int fd, const struct plan_hooks *hooks, unsigned what)
{
	struct plan_source source = {.fd = fd, .bias = BIAS, .what = what, .hooks = hooks};
	struct plan *plan = NULL;
	uint64_t bias;
	if (!plan_new(&source, &plan, NULL))
		place(plan);
	plan_free(plan);
	if (plan_bias(fd, BIAS, 0, &bias))
		return;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct plan_hooks hooks = {0};
	char text[HOOK_BYTES + 1] = "";
	struct tm_error err;
	memcpy(text, data, size < HOOK_BYTES ? size : HOOK_BYTES);
	int wrong = plan_hooks_add(&hooks, text, &err);
	wrong |= plan_hooks_add(&hooks, "alloc=main free=_start(ptr=1)", &err);
	int fd = memfd_create("elf", MFD_CLOEXEC);
	if (fd >= 0 && !io_write(fd, data, size)) {
		plan_file(fd, &hooks, PLAN_ALL);
		plan_file(fd, wrong ? NULL : &hooks, PLAN_NATIVE | PLAN_HIDDEN);
	}
	close(fd);
	plan_hooks_done(&hooks);
	return 0;
}
