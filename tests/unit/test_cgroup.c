/* SPDX-License-Identifier: Apache-2.0 */
/* Both versions of control groups, from files that are laid out as the kernel does. */
#include "collector/cgroup.h"
#include "harness/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/test-cgroup.XXXXXX";

static void enter_root(void)
{
	REQUIRE(mkdtemp(root) != NULL && chdir(root) == 0);
}

static void put(const char *folder, const char *name, const char *text)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	REQUIRE(file != NULL);
	fputs(text, file);
	fclose(file);
}

static void make(const char *path)
{
	char part[512];
	for (size_t i = 1; i <= strlen(path); i++)
		if (path[i] == '/' || !path[i]) {
			snprintf(part, sizeof part, "%.*s", (int)i, path);
			mkdir(part, 0700);
		}
	CHECK(access(path, F_OK) == 0);
}

static void version_1(const char *folder, const char *usage, const char *limit)
{
	make(folder);
	put(folder, "memory.usage_in_bytes", usage);
	put(folder, "memory.limit_in_bytes", limit);
	put(folder, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	put(folder, "memory.failcnt", "17\n");
	put(folder, "memory.stat", "cache 9\ninactive_file 1\ntotal_inactive_file 1000\n");
}

static void version_2(const char *folder, const char *usage, const char *limit)
{
	make(folder);
	put(folder, "memory.current", usage);
	put(folder, "memory.max", limit);
	put(folder, "memory.events", "low 0\nhigh 0\nmax 21\noom 1\noom_kill 4\n");
	put(folder, "memory.stat", "anon 5\ninactive_anon 7\ninactive_file 2000\n");
}

static const char no_limit_1[] = "9223372036854771712\n";

static void reads_version_1(void)
{
	struct cgroup group;
	struct cgroup_memory memory;
	enter_root();
	version_1("memory/docker/abc", "60000\n", "100000\n");
	version_1("memory/docker", "60000\n", no_limit_1);
	version_1("memory", "70000\n", no_limit_1);
	cgroup_find_in(root, "5:cpu:/x\n4:hugetlb,memory:/docker/abc\n0::/y\n", &group);
	CHECK_EQ_U64(group.version, 1);
	CHECK_EQ_U64(group.level_count, 3);
	cgroup_memory(&group, &memory);
	CHECK_EQ_U64(memory.limit_bytes, 100000);
	CHECK_EQ_U64(memory.current_bytes, 60000);
	CHECK_EQ_U64(memory.used_bytes, 59000); /* less what the kernel may drop */
	CHECK_EQ_U64(memory.hits, 17);
	CHECK_EQ_U64(cgroup_oom_kills(&group), 3);
}

static void reads_version_2(void)
{
	struct cgroup group;
	struct cgroup_memory memory;
	enter_root();
	version_2("app.slice/app", "90000\n", "100000\n");
	version_2("app.slice", "90000\n", "max\n");
	cgroup_find_in(root, "0::/app.slice/app\n", &group);
	CHECK_EQ_U64(group.version, 2);
	CHECK_EQ_U64(group.level_count, 2); /* the root has no files */
	cgroup_memory(&group, &memory);
	CHECK_EQ_U64(memory.limit_bytes, 100000);
	CHECK_EQ_U64(memory.used_bytes, 88000);
	CHECK_EQ_U64(memory.hits, 21);
	CHECK_EQ_U64(cgroup_oom_kills(&group), 4);
}

/* A pod's limit stands above its containers': the one that leaves least room counts. */
static void takes_the_tightest(void)
{
	struct cgroup group;
	struct cgroup_memory memory;
	enter_root();
	version_2("pod/container", "1000\n", "100000\n");
	version_2("pod", "49000\n", "50000\n");
	cgroup_find_in(root, "0::/pod/container\n", &group);
	cgroup_memory(&group, &memory);
	CHECK_EQ_U64(memory.limit_bytes, 50000);
	CHECK_EQ_U64(memory.current_bytes, 49000);
	CHECK_EQ_U64(memory.used_bytes, 47000);
	put("pod", "memory.current", "2000\n");
	put("pod/container", "memory.max", "2500\n");
	cgroup_memory(&group, &memory);
	CHECK_EQ_U64(memory.limit_bytes, 2500);
	CHECK_EQ_U64(memory.used_bytes, 1000); /* far from it: pages are not asked for */
}

/* Inside a container the path is the host's, and the mount is the group itself. */
static void finds_the_mount(void)
{
	struct cgroup group;
	struct cgroup_memory memory;
	enter_root();
	version_1("memory", "10\n", "5000\n");
	cgroup_find_in(root, "4:memory:/kubepods/pod1/abc\n", &group);
	cgroup_memory(&group, &memory);
	CHECK_EQ_U64(group.version, 1);
	CHECK_EQ_U64(memory.limit_bytes, 5000);
	version_2(".", "10\n", "6000\n");
	cgroup_find_in(root, "0::/../outside\n", &group);
	CHECK_EQ_U64(group.version, 0);
	cgroup_find_in(root, "0::/\n", &group);
	cgroup_memory(&group, &memory);
	CHECK_EQ_U64(group.version, 2);
	CHECK_EQ_U64(memory.limit_bytes, 6000);
}

static void bears_nothing(void)
{
	static const char *const texts[] = {
		"",          "\n",      ":",
		"::",        "0:",      "0::",
		"4:memory:", "garbage", "4:memory:/no/such\n0::/none",
	};
	struct cgroup group;
	struct cgroup_memory memory;
	enter_root();
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		cgroup_find_in(root, texts[i], &group);
		CHECK_EQ_U64(group.version, 0);
		cgroup_memory(&group, &memory);
		CHECK_EQ_U64(memory.current_bytes + memory.limit_bytes + memory.used_bytes, 0);
		CHECK_EQ_U64(cgroup_oom_kills(&group), 0);
		CHECK(cgroup_alarm(&group, 90) < 0);
	}
	char deep[4 * CGROUP_PATH] = "0::";
	memset(deep + 3, '/', sizeof deep - 4);
	cgroup_find_in(root, deep, &group);
	CHECK_EQ_U64(group.version, 0);
	version_2("a", "10\n", "max\n");
	cgroup_find_in(root, "0::/a\n", &group);
	cgroup_memory(&group, &memory);
	CHECK_EQ_U64(memory.current_bytes, 10);
	CHECK_EQ_U64(memory.limit_bytes, 0);
}

static const struct tap_case cases[] = {
	{.name = "limits of version 1 are respected", .run = reads_version_1},
	{.name = "limits of version 2 are respected", .run = reads_version_2},
	{.name = "a limit above the container is respected", .run = takes_the_tightest},
	{.name = "inside a container its limit is found", .run = finds_the_mount},
	{.name = "a machine without control groups is no problem", .run = bears_nothing},
};
TAP_MAIN(cases)
