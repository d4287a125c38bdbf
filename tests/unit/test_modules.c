/* SPDX-License-Identifier: Apache-2.0 */
/* The module list against a fake loader: identity, memory, races. test_modules_live has the real
 * one. */
#include <setjmp.h>

#include "agent/modules.h"
#include "fake_loader.h"
#include "harness/tap.h"

enum { TID = 77, PLACE = 0x10000000, STEP = 0x10000 };

static uint32_t instance_at(const struct modules *modules, uintptr_t pc)
{
	struct module_code code;
	return modules_find(modules, pc, &code) ? code.instance : 0;
}

static void finding(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);
	struct module_code code;

	REQUIRE(modules);
	CHECK(!modules_find(modules, PLACE, &code));
	CHECK_EQ_U64(modules_count(modules), 0);
	fake_load(loader, PLACE + 2 * STEP, 1, "/c");
	fake_load(loader, PLACE, 2, "/a");
	fake_load(loader, PLACE + STEP, 3, "/b");
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_CHANGED);
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_SAME);
	CHECK_EQ_U64(modules_rescan(modules, TID, false), MODULES_SAME);
	CHECK_EQ_U64(modules_count(modules), 3);
	CHECK(!modules_find(modules, PLACE - 1, &code));
	CHECK(modules_find(modules, PLACE, &code));
	CHECK_EQ_U64(code.start, PLACE);
	CHECK_EQ_U64(code.end, PLACE + 0x4000);
	CHECK(modules_find(modules, PLACE + 0x3fff, &code));
	CHECK(!modules_find(modules, PLACE + 0x4000, &code));
	CHECK(modules_find(modules, PLACE + 2 * STEP + 5, &code));
	CHECK_EQ_U64(code.start, PLACE + 2 * STEP);
	CHECK(modules_at(modules, 1, &code));
	CHECK_EQ_U64(code.start, PLACE + STEP);
	CHECK(!modules_at(modules, 3, &code));
	CHECK(!modules_find(modules, UINTPTR_MAX, &code));
	CHECK_EQ_U64(modules_generation(modules), 0);
}

static void identity(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);

	fake_load(loader, PLACE, 1, "/program");
	fake_load(loader, PLACE + STEP, 2, "/a");
	modules_rescan(modules, TID, true);
	uint32_t first = instance_at(modules, PLACE + STEP);
	uint32_t program = instance_at(modules, PLACE);
	CHECK(first && program && first != program);

	fake_unload(loader, 1);
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_CHANGED);
	CHECK_EQ_U64(instance_at(modules, PLACE + STEP), 0);
	CHECK_EQ_U64(modules_generation(modules), 1);
	CHECK(!loader->events[2].mapped);
	CHECK_EQ_U64(loader->events[2].instance, first);

	/* Loaded again: the same. Another file, another build, another place: others. */
	fake_load(loader, PLACE + STEP, 2, "/a");
	modules_rescan(modules, TID, true);
	CHECK_EQ_U64(instance_at(modules, PLACE + STEP), first);
	loader->objects[1].path = "/b";
	CHECK_EQ_U64(modules_rescan(modules, TID, false), MODULES_SAME); /* as documented */
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_CHANGED);
	uint32_t other_path = instance_at(modules, PLACE + STEP);
	loader->objects[1] = (struct fake_object){PLACE + STEP, 3, "/a"};
	modules_rescan(modules, TID, true);
	uint32_t other_build = instance_at(modules, PLACE + STEP);
	loader->objects[1] = (struct fake_object){PLACE + 2 * STEP, 2, "/a"};
	modules_rescan(modules, TID, true);
	uint32_t other_place = instance_at(modules, PLACE + 2 * STEP);
	CHECK(other_path != first && other_build != first && other_place != first);
	CHECK(other_path != other_build && other_build != other_place);
	loader->objects[1] = (struct fake_object){PLACE + STEP, 2, "/a"};
	modules_rescan(modules, TID, true);
	CHECK_EQ_U64(instance_at(modules, PLACE + STEP), first);
	CHECK_EQ_U64(instance_at(modules, PLACE), program);
}

/* Events come for what went, then for what came, once each. */
static void events(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);

	fake_load(loader, PLACE, 1, "/program");
	fake_load(loader, PLACE + STEP, 2, "/a");
	modules_rescan(modules, TID, true);
	CHECK_EQ_U64(loader->event_count, 2);
	CHECK(loader->events[0].mapped && loader->events[1].mapped);
	loader->objects[1] = (struct fake_object){PLACE + STEP, 9, "/b"};
	fake_load(loader, PLACE - STEP, 5, "/c");
	modules_rescan(modules, TID, true);
	CHECK_EQ_U64(loader->event_count, 5);
	CHECK(!loader->events[2].mapped);
	CHECK_EQ_U64(loader->events[2].start, PLACE + STEP);
	CHECK_EQ_U64(loader->events[3].start, PLACE - STEP);
	CHECK_EQ_U64(loader->events[4].start, PLACE + STEP);
	modules_rescan(modules, TID, true);
	CHECK_EQ_U64(loader->event_count, 5);
}

static void loader_at_work(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);

	fake_load(loader, PLACE, 1, "/program");
	loader->state = ELF_RT_ADD;
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_BUSY);
	CHECK_EQ_U64(modules_count(modules), 0);
	loader->state = ELF_RT_CONSISTENT;
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_CHANGED);
	loader->state = ELF_RT_DELETE;
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_BUSY);
	CHECK(instance_at(modules, PLACE) != 0);
	CHECK_EQ_U64(modules_lock_owner(modules), 0);
}

static uint64_t change_at;

static void unload_at(struct fake_loader *loader, uintptr_t address)
{
	(void)address;
	if (loader->peeks == change_at)
		fake_unload(loader, 1);
}

static void start_work_at(struct fake_loader *loader, uintptr_t address)
{
	(void)address;
	if (loader->peeks == change_at)
		loader->state = ELF_RT_DELETE;
}

/*
 * Whatever read it is between, a change is either seen whole or not believed;
 * after the last read of the list it is as if it came after the rescan.
 */
static void change_between(void (*change)(struct fake_loader *, uintptr_t))
{
	for (change_at = 1; change_at < 40; change_at++) {
		struct fake_loader *loader = fake_loader_new();
		struct modules *modules = fake_modules_new(loader);
		fake_load(loader, PLACE, 1, "/program");
		fake_load(loader, PLACE + STEP, 2, "/a");
		fake_load(loader, PLACE + 2 * STEP, 3, "/b");
		loader->peeks = 0;
		loader->before_peek = change;
		enum modules_result result = modules_rescan(modules, TID, true);
		uint32_t count = modules_count(modules);
		loader->before_peek = NULL;
		CHECK((result == MODULES_BUSY && count == 0) ||
		      (result == MODULES_CHANGED && count == loader->count) ||
		      (result == MODULES_CHANGED && loader->peeks <= change_at));
		loader->state = ELF_RT_CONSISTENT;
		CHECK(modules_rescan(modules, TID, true) != MODULES_BUSY);
		CHECK_EQ_U64(modules_count(modules), loader->count);
	}
}

static void unloading(void)
{
	change_between(unload_at);
}

static void state_changes(void)
{
	change_between(start_work_at);
}

/* Code that runs is found although another thread is loading or unloading. */
static void running_code(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);

	fake_load(loader, PLACE, 1, "/program");
	fake_load(loader, PLACE + 2 * STEP, 2, "/b");
	modules_rescan(modules, TID, true);
	uint32_t program = instance_at(modules, PLACE);
	uint32_t b = instance_at(modules, PLACE + 2 * STEP);
	loader->state = ELF_RT_ADD;
	fake_load(loader, PLACE + STEP, 3, "/a");
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_BUSY);
	CHECK_EQ_U64(modules_rescan_at(modules, TID, PLACE + STEP + 0x2000), MODULES_CHANGED);
	uint32_t a = instance_at(modules, PLACE + STEP);
	CHECK(a && a != program && a != b);
	CHECK_EQ_U64(instance_at(modules, PLACE), program);
	CHECK_EQ_U64(instance_at(modules, PLACE + 2 * STEP), b);
	CHECK_EQ_U64(loader->event_count, 3);
	/* Above its dynamic section, below it, and again. */
	CHECK_EQ_U64(modules_rescan_at(modules, TID, PLACE + STEP + 0x3fff), MODULES_SAME);
	CHECK_EQ_U64(modules_rescan_at(modules, TID, PLACE + STEP), MODULES_SAME);
	CHECK_EQ_U64(modules_generation(modules), 0);
	/* Of generated code nothing can be said before the loader is done. */
	CHECK_EQ_U64(modules_rescan_at(modules, TID, PLACE + 50 * STEP), MODULES_BUSY);

	loader->objects[2] = (struct fake_object){PLACE + STEP, 4, "/other"};
	CHECK_EQ_U64(modules_rescan_at(modules, TID, PLACE + STEP), MODULES_CHANGED);
	CHECK(instance_at(modules, PLACE + STEP) != a);
	CHECK_EQ_U64(modules_generation(modules), 1);
	CHECK(!loader->events[3].mapped && loader->events[3].instance == a);

	/* Gone again before the loader is done: the next look at the whole list sees it. */
	fake_unload(loader, 2);
	loader->state = ELF_RT_CONSISTENT;
	CHECK_EQ_U64(modules_rescan(modules, TID, false), MODULES_CHANGED);
	CHECK_EQ_U64(modules_count(modules), 2);
	CHECK_EQ_U64(modules_rescan_at(modules, TID, PLACE + STEP), MODULES_SAME);
	CHECK_EQ_U64(instance_at(modules, PLACE + STEP), 0);
}

/* An object that overlaps what the list still has takes its place. */
static void overlapping_code(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);

	for (unsigned i = 0; i < 6; i++)
		fake_load(loader, PLACE + i * 0x4000, i + 1, "/object");
	modules_rescan(modules, TID, true);
	loader->state = ELF_RT_DELETE;
	loader->count = 2;
	fake_load(loader, PLACE + 0x4000 * 2 + 0x1000, 10, "/new");
	CHECK_EQ_U64(modules_rescan_at(modules, TID, PLACE + 0x4000 * 3), MODULES_CHANGED);
	CHECK_EQ_U64(modules_count(modules), 5);
	CHECK_EQ_U64(instance_at(modules, PLACE + 0x4000 * 2), 0);
	CHECK_EQ_U64(instance_at(modules, PLACE + 0x4000 * 3 + 0x1000), 0);
	CHECK(instance_at(modules, PLACE + 0x4000 * 4) != 0);
	CHECK(instance_at(modules, PLACE + 0x4000) != 0);
	loader->state = ELF_RT_CONSISTENT;
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_CHANGED);
	CHECK_EQ_U64(modules_count(modules), 3);
}

static void lock_rules(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);

	fake_load(loader, PLACE, 1, "/program");
	CHECK_EQ_U64(modules_lock_owner(modules), 0);
	modules_break_lock(modules, TID);
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_CHANGED);
	CHECK_EQ_U64(modules_lock_owner(modules), 0);
}

static struct modules *nested_modules;
static enum modules_result nested_result;

/* As a signal handler would, in the middle of a rescan by the same thread. */
static void rescan_inside(struct fake_loader *loader, uintptr_t address)
{
	struct module_code code;

	(void)address;
	if (loader->peeks != 5)
		return;
	CHECK_EQ_U64(modules_lock_owner(nested_modules), TID);
	nested_result = modules_rescan(nested_modules, TID, true);
	CHECK_EQ_U64(modules_rescan(nested_modules, TID + 1, true), MODULES_BUSY);
	CHECK_EQ_U64(modules_visit(nested_modules, TID, NULL, NULL), MODULES_BUSY);
	CHECK(modules_find(nested_modules, PLACE, &code));
}

static void interrupted(void)
{
	struct fake_loader *loader = fake_loader_new();

	nested_modules = fake_modules_new(loader);
	fake_load(loader, PLACE, 1, "/program");
	modules_rescan(nested_modules, TID, true);
	fake_load(loader, PLACE + STEP, 2, "/a");
	loader->peeks = 0;
	loader->before_peek = rescan_inside;
	CHECK_EQ_U64(modules_rescan(nested_modules, TID, true), MODULES_CHANGED);
	CHECK_EQ_U64(nested_result, MODULES_BUSY);
}

static jmp_buf way_out;

static void leave_at(struct fake_loader *loader, uintptr_t address)
{
	(void)address;
	if (loader->peeks == change_at)
		longjmp(way_out, 1);
}

/* Left by longjmp at every one of its reads in turn: the next rescan works. */
static void abandoned(void)
{
	for (change_at = 1; change_at < 30; change_at++) {
		struct fake_loader *loader = fake_loader_new();
		struct modules *modules = fake_modules_new(loader);
		fake_load(loader, PLACE, 1, "/program");
		modules_rescan(modules, TID, true);
		fake_load(loader, PLACE + STEP, 2, "/a");
		loader->peeks = 0;
		loader->before_peek = leave_at;
		if (setjmp(way_out) == 0)
			modules_rescan(modules, TID, true);
		loader->before_peek = NULL;
		modules_break_lock(modules, TID);
		fake_load(loader, PLACE + 3 * STEP, 4, "/late");
		CHECK_EQ_U64(modules_rescan(modules, TID + 1, true), MODULES_CHANGED);
		CHECK_EQ_U64(modules_count(modules), 3);
		CHECK(instance_at(modules, PLACE + 3 * STEP) != 0);
	}
}

/* 100,000 cycles of load and unload, at 500 places: constant memory. */
static void cycles(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);
	size_t after_warm_up = 0;

	fake_load(loader, PLACE, 1, "/program");
	for (unsigned i = 0; i < 100000; i++) {
		uintptr_t place = PLACE + STEP + i % 500 * STEP;
		fake_load(loader, place, 2 + i % 3, i % 2 ? "/plugin" : "/other");
		if (modules_rescan(modules, TID, true) != MODULES_CHANGED ||
		    !instance_at(modules, place))
			CHECK(!"the new object is found");
		fake_unload(loader, 1);
		if (modules_rescan(modules, TID, false) != MODULES_CHANGED ||
		    instance_at(modules, place))
			CHECK(!"the old object is gone");
		if (i == 2000)
			after_warm_up = loader->mapped_bytes;
	}
	CHECK_EQ_U64(loader->mapped_bytes, after_warm_up);
	CHECK(loader->mapped_bytes < 2 * 1024 * 1024);
	CHECK_EQ_U64(modules_generation(modules), 100000);
}

/* Always new places: ids rise to the last, then 0; memory stays bounded. */
static void many_instances(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);
	uint32_t last = 0;

	fake_load(loader, PLACE, 1, "/program");
	modules_rescan(modules, TID, true);
	uint32_t program = instance_at(modules, PLACE);
	for (uint32_t i = 0; i < 70000; i++) {
		uintptr_t place = PLACE + STEP + (uintptr_t)i * STEP;
		fake_load(loader, place, 2, "/plugin");
		modules_rescan(modules, TID, true);
		uint32_t instance = instance_at(modules, place);
		if (i + 2 <= MODULE_INSTANCE_MAX ? instance != last + 1 && i : instance != 0)
			CHECK(!"ids rise");
		last = instance;
		/* Nothing changes while it is loaded. */
		if (modules_rescan(modules, TID, true) != MODULES_SAME)
			CHECK(!"the same object keeps its id");
		fake_unload(loader, 1);
	}
	CHECK_EQ_U64(instance_at(modules, PLACE), program);
	CHECK(loader->mapped_bytes < 2 * 1024 * 1024);
	/* The first ones are remembered still. */
	fake_load(loader, PLACE + STEP, 2, "/plugin");
	modules_rescan(modules, TID, true);
	CHECK_EQ_U64(instance_at(modules, PLACE + STEP), program + 1);
}

static void many_objects(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);

	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t place = i * 7919 % 1000;
		fake_load(loader, PLACE + (uintptr_t)place * STEP, place + 1,
			  "/some/long/path/to/it");
	}
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_CHANGED);
	CHECK_EQ_U64(modules_count(modules), 1000);
	for (uint32_t i = 0; i < 1000; i++) {
		struct module_code code;
		CHECK(modules_find(modules, PLACE + (uintptr_t)i * STEP + 100, &code) &&
		      code.start == PLACE + (uintptr_t)i * STEP);
	}
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_SAME);
}

static void no_memory(void)
{
	struct fake_loader *loader = fake_loader_new();

	loader->refuse_memory = true;
	CHECK(fake_modules_new(loader) == NULL);
	loader->refuse_memory = false;
	struct modules *modules = fake_modules_new(loader);
	for (uint32_t i = 0; i < 100; i++)
		fake_load(loader, PLACE + (uintptr_t)i * STEP, i + 1, "/object");
	modules_rescan(modules, TID, true);
	for (uint32_t i = 100; i < 400; i++)
		fake_load(loader, PLACE + (uintptr_t)i * STEP, i + 1, "/object");
	loader->refuse_memory = true;
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_FAILED);
	CHECK_EQ_U64(modules_count(modules), 100);
	loader->refuse_memory = false;
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_CHANGED);
	CHECK_EQ_U64(modules_count(modules), 400);
}

/* The object at PLACE + STEP moves away when its header is first read. */
static void move_away(struct fake_loader *loader, uintptr_t address)
{
	if (address - (PLACE + STEP) < 0x1000)
		loader->objects[1].bias = PLACE + 100 * STEP;
}

static void moving_object(void)
{
	struct fake_loader *loader = fake_loader_new();
	struct modules *modules = fake_modules_new(loader);

	fake_load(loader, PLACE, 1, "/program");
	fake_load(loader, PLACE + STEP, 2, "/moves");
	loader->before_peek = move_away;
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_BUSY);
	loader->before_peek = NULL;
	CHECK_EQ_U64(modules_rescan(modules, TID, true), MODULES_CHANGED);
	CHECK_EQ_U64(modules_count(modules), 2);
}

static const struct tap_case cases[] = {
	{.name = "a pc is found in its object", .run = finding},
	{.name = "a library loaded again is the same, another is not", .run = identity},
	{.name = "every coming and going is told once", .run = events},
	{.name = "a list that the loader is changing is not believed", .run = loader_at_work},
	{.name = "an object unloaded meanwhile does no harm", .run = unloading},
	{.name = "a loader that starts work meanwhile is noticed", .run = state_changes},
	{.name = "running code is found while the loader is at work", .run = running_code},
	{.name = "running code replaces what was there before", .run = overlapping_code},
	{.name = "the lock is free afterwards", .run = lock_rules},
	{.name = "a signal handler inside a rescan does not hang", .run = interrupted},
	{.name = "a rescan left by longjmp does not block the next", .run = abandoned},
	{.name = "endless dlopen and dlclose take no memory", .run = cycles},
	{.name = "endless new places take no memory", .run = many_instances},
	{.name = "a thousand libraries are found", .run = many_objects},
	{.name = "without memory the old list stays", .run = no_memory},
	{.name = "an object that moves meanwhile is read again later", .run = moving_object},
};
TAP_MAIN(cases)
