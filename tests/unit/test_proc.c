/* SPDX-License-Identifier: Apache-2.0 */
/* Text of /proc, recorded and damaged; stacks and registers as a stop finds them. */
#include "harness/tap.h"
#include "inject/frames.h"
#include "inject/proc.h"
#include "inject/remote.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

static const char status_text[] = "Name:\tredis-server\nUmask:\t0022\nState:\tS (sleeping)\n"
				  "Tgid:\t4711\nNgid:\t0\nPid:\t4712\nPPid:\t1\nTracerPid:\t99\n"
				  "Uid:\t33\t34\t35\t36\nGid:\t33\t33\t33\t33\n"
				  "NSpid:\t4712\t17\t5\nVmSize:\t  1000 kB\n"
				  "CapEff:\t000001ffffffffff\nNoNewPrivs:\t1\nSeccomp:\t2\n"
				  "Seccomp_filters:\t3\n";

static void reads_status(void)
{
	struct proc_status status;
	REQUIRE(proc_status_parse(status_text, &status));
	CHECK_STR(status.name, "redis-server");
	CHECK(status.state == 'S');
	CHECK_EQ_I64(status.group, 4711);
	CHECK_EQ_I64(status.tracer, 99);
	CHECK_EQ_I64(status.inner, 5);
	CHECK_EQ_U64(status.uid[1], 34);
	CHECK_EQ_I64(status.seccomp, 2);
	CHECK_EQ_U64(status.capabilities, 0x1ffffffffff);
	CHECK(status.no_new_privileges && !status.kernel_thread);
	CHECK(!proc_status_parse("", &status));
	CHECK(!proc_status_parse("Name:\tx\nState:\tS\n", &status));
	REQUIRE(proc_status_parse("Name:\tkworker\nState:\tI (idle)\nTgid:\t7\n", &status));
	CHECK(status.kernel_thread);
}

static void reads_maps(void)
{
	struct proc_maps maps;
	REQUIRE(!proc_maps_parse(
		tm_strdup("00400000-00401000 r-xp 00001000 08:01 77 /bin/a name\n"
			  "00401000-00402000 rw-p 00000000 00:00 0 \n"
			  "7ff000000000-7ff000001000 r--s 00000000 fe:00 9 /x (deleted)\n"),
		&maps));
	CHECK_EQ_U64(maps.count, 3);
	CHECK_STR(maps.maps[0].path, "/bin/a name");
	CHECK(maps.maps[0].executable && !maps.maps[0].writable && !maps.maps[0].shared);
	CHECK_EQ_U64(maps.maps[0].offset, 0x1000);
	CHECK_EQ_U64(maps.maps[0].inode, 77);
	CHECK_STR(maps.maps[1].path, "");
	CHECK(maps.maps[2].shared);
	CHECK(proc_maps_find(&maps, 0x400fff) == &maps.maps[0]);
	CHECK(proc_maps_find(&maps, 0x402000) == NULL);
	CHECK(proc_maps_find(&maps, 0x7ff000000000) == &maps.maps[2]);
	proc_maps_done(&maps);
	CHECK_EQ_I64(proc_maps_parse(tm_strdup("nonsense\n"), &maps), -EBADMSG);
	CHECK_EQ_I64(proc_maps_parse(tm_strdup("2000-3000 r-xp 0 0:0 0\n1000-2000 r-xp 0 0:0 0\n"),
				     &maps),
		     -EBADMSG);
}

static void knows_itself(void)
{
	uint64_t auxv[64];
	CHECK_EQ_I64(proc_live_thread(getpid()), getpid());
	CHECK(proc_start_ticks(getpid()) > 0);
	int words = proc_auxv(getpid(), getpid(), auxv, 64);
	REQUIRE(words > 0);
	CHECK_EQ_U64(proc_auxv_find(auxv, (size_t)words, AT_PAGESZ),
		     (uint64_t)sysconf(_SC_PAGESIZE));
	CHECK_EQ_I64(proc_live_thread(0x7ffffff0), 0);
}

/* EINTR that only the stop has caused is taken back; what a program was told is not. */
static void takes_interruption_back(void)
{
	CHECK_EQ_I64((int64_t)stop_repair_result(232, (uint64_t)-EINTR), -514);
	CHECK_EQ_I64((int64_t)stop_repair_result((uint64_t)-1, (uint64_t)-EINTR), -EINTR);
	CHECK_EQ_I64((int64_t)stop_repair_result(232, 0), 0);
	CHECK_EQ_I64((int64_t)stop_repair_result(35, (uint64_t)-516), -516);
}

/* A thread that is left alone begins its system call again by itself. */
static void begins_calls_again(void)
{
	struct user_regs_struct stopped = {
		.rip = 1000, .orig_rax = 35, .rax = (unsigned long long)-516};
	struct user_regs_struct resumed = remote_resumed(&stopped);
	CHECK_EQ_U64(resumed.rip, 998);
	CHECK_EQ_U64(resumed.rax, 219);
	stopped.rax = (unsigned long long)-512;
	resumed = remote_resumed(&stopped);
	CHECK_EQ_U64(resumed.rip, 998);
	CHECK_EQ_U64(resumed.rax, 35);
	stopped.rax = 5;
	resumed = remote_resumed(&stopped);
	CHECK_EQ_U64(resumed.rip, 1000);
	CHECK_EQ_U64(resumed.rax, 5);
	stopped = (struct user_regs_struct){
		.rip = 1000, .orig_rax = (unsigned long long)-1, .rax = (unsigned long long)-512};
	resumed = remote_resumed(&stopped);
	CHECK_EQ_U64(resumed.rip, 1000);
}

/* Only what looks like a frame of the kernel's is one: stale words stay as they are. */
static void finds_signal_frames(void)
{
	const uint64_t words[] = {1,        2, 0x7000, 0x401003, 0x246,    0x2b000000000033,
				  0x401003, 5, 0x33,   0x8000,   0x401003, 0x10,
				  0x33,     9, 0x9000, 0x402000, 0x202,    0x33};
	size_t count = sizeof words / sizeof words[0];
	size_t first = frames_find(words, count, 0);
	CHECK_EQ_U64(first, 3);
	size_t second = frames_find(words, count, first + 1);
	CHECK_EQ_U64(second, 15);
	CHECK_EQ_U64(frames_find(words, count, second + 1), count);
	CHECK_EQ_U64(frames_find(words, 0, 0), 0);
}

static const struct tap_case cases[] = {
	{.name = "the kernel's word about a process is understood", .run = reads_status},
	{.name = "mappings are found, nonsense is refused", .run = reads_maps},
	{.name = "a live thread is found", .run = knows_itself},
	{.name = "programs see no EINTR because of us", .run = takes_interruption_back},
	{.name = "a thread left alone by a dead tidemark goes on", .run = begins_calls_again},
	{.name = "places to come back to after signals are found", .run = finds_signal_frames},
};
TAP_MAIN(cases)
