/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that come and go. argv[2] is the folder of the plug_*.so. Modes:
 *   turns N   N threads (at most three), each loading two libraries in turn, which land at
 *             the same address
 *   deepbind  RTLD_DEEPBIND: the library's malloc is the C library's, unseen
 *   dlmopen   a library in a namespace of its own
 *   symbolic  a library linked with -Bsymbolic
 *   late      a library with an allocator of its own; loaded by its path
 *   late_name the same, found by its name alone
 *   late_turns the same, three times, unloaded in between with nothing left
 *   late_threads the same, while another thread runs
 *   forks     libraries whose destructors fork; the children come back from dlclose, too
 *   local     RTLD_LOCAL | RTLD_LAZY, never closed, used at exit
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>

enum { TURNS = 150, BLOCKS = 5 };
typedef void *(*plug_fn)(size_t bytes);

LEDGER_SITE(plug_a_make);
LEDGER_SITE(plug_b_make);
LEDGER_SITE(plug_c_make);
LEDGER_SITE(plug_d_make);
LEDGER_SITE(plug_e_make);
LEDGER_SITE(plug_f_make);
LEDGER_SITE(plug_s_make);
LEDGER_SITE(host_malloc);
LEDGER_SITE(late_malloc);

static const char *folder;

SITE void *host_malloc(size_t n)
{
	return ledger_alloc(&host_malloc_site, malloc(n), n);
}

static const char *path_of(char letter, char path[static 4096])
{
	char tail[] = "/plug_?.so";
	tail[6] = letter;
	check(strlen(folder) < 4000, "path too long");
	strcpy(path, folder);
	return strcat(path, tail);
}

/* Loads, lets the library allocate, frees most of it, unloads. Gives where it was. */
static void *one_turn(char letter, struct ledger_site *site, int turn)
{
	char path[4096];
	void *library = dlopen(path_of(letter, path), RTLD_NOW);
	check(library != NULL, "dlopen failed");
	plug_fn *entry = dlsym(library, "plug_entry");
	for (int i = 0; i < BLOCKS; i++) {
		size_t bytes = (size_t)(10 * i + turn % 7);
		void *block = ledger_alloc(site, (*entry)(bytes), bytes);
		if (i == 2)
			continue;
		ledger_free(site, block, bytes);
		free(block);
	}
	void *at = (void *)*entry;
	dlclose(library);
	return at;
}

struct pair {
	char first, second;
	struct ledger_site *first_site, *second_site;
	uint64_t same_place;
};

static void *turns_thread(void *arg)
{
	struct pair *pair = arg;
	for (int i = 0; i < TURNS; i++) {
		void *a = one_turn(pair->first, pair->first_site, i);
		void *b = one_turn(pair->second, pair->second_site, i);
		pair->same_place += a == b;
	}
	return NULL;
}

static void mode_turns(int count)
{
	struct pair pairs[3] = {
		{'a', 'b', &plug_a_make_site, &plug_b_make_site, 0},
		{'c', 'd', &plug_c_make_site, &plug_d_make_site, 0},
		{'e', 'f', &plug_e_make_site, &plug_f_make_site, 0},
	};
	pthread_t threads[3];
	for (int i = 0; i < count; i++)
		check(!pthread_create(&threads[i], NULL, turns_thread, &pairs[i]), "no thread");
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	check(pairs[0].same_place + pairs[1].same_place + pairs[2].same_place > 0,
	      "no two libraries shared an address");
}

/* Blocks cross between the two allocators' views; the program must not notice. */
static void mode_deepbind(void)
{
	char path[4096];
	void *library = dlopen(path_of('a', path), RTLD_NOW | RTLD_DEEPBIND);
	check(library != NULL, "dlopen failed");
	plug_fn *entry = dlsym(library, "plug_entry");
	void (*drop)(void *) = (void (*)(void *))dlsym(library, "plug_free");
	for (size_t i = 1; i <= 200; i++) {
		free((*entry)(i));      /* made unseen, freed seen */
		void *mine = malloc(i); /* made seen, freed unseen */
		KEEP(mine);
		drop(mine);
	}
	for (size_t i = 1; i <= 100; i++)
		host_malloc(1000 + i);
}

static void mode_dlmopen(void)
{
	char path[4096];
	void *library = dlmopen(LM_ID_NEWLM, path_of('a', path), RTLD_NOW);
	check(library != NULL, "dlmopen failed");
	plug_fn *entry = dlsym(library, "plug_entry");
	void (*drop)(void *) = (void (*)(void *))dlsym(library, "plug_free");
	for (size_t i = 1; i <= 200; i++) {
		drop((*entry)(i)); /* the other namespace's own malloc and free */
		host_malloc(i);
	}
	dlclose(library);
	for (size_t i = 1; i <= 100; i++)
		host_malloc(i);
}

static void mode_symbolic(void)
{
	for (int i = 0; i < 20; i++)
		one_turn('s', &plug_s_make_site, i);
}

static pid_t forked = -1;

static void fork_now(void)
{
	forked = fork();
}

/* The child goes on where the parent does: behind dlclose. */
static void fork_and_return(void)
{
	char path[4096];
	int status = -1;
	void *library = dlopen(path_of('a', path), RTLD_NOW);
	check(library != NULL, "dlopen failed");
	*(void (**)(void))dlsym(library, "plug_at_end") = fork_now;
	dlclose(library);
	for (size_t i = 1; i <= 100; i++) {
		void *block = host_malloc(i);
		ledger_free(&host_malloc_site, block, i);
		free(block);
	}
	if (!forked)
		_exit(0);
	check(forked > 0 && waitpid(forked, &status, 0) == forked, "no child");
	check(status == 0, "a child did not come back from dlclose");
}

static void mode_forks(void)
{
	for (int i = 0; i < 5; i++)
		fork_and_return();
}

static void late(void)
{
	char path[4096];
	void *library = dlopen(path_of('b', path), RTLD_LAZY | RTLD_NOLOAD);
	check(library != NULL, "the library is gone");
	plug_fn *entry = dlsym(library, "plug_entry");
	for (size_t i = 1; i <= 10; i++)
		ledger_alloc(&plug_b_make_site, (*entry)(i), i);
	ledger_print("local", 0);
}

static void mode_local(void)
{
	char path[4096];
	void *library = dlopen(path_of('b', path), RTLD_LAZY | RTLD_LOCAL);
	check(library != NULL, "dlopen failed");
	atexit(late);
}

/* keep: every how many blocks stay; 0 none. */
static void use_late(void *library, size_t keep)
{
	void *(*take)(size_t) = dlsym(library, "late_malloc");
	void (*give)(void *) = dlsym(library, "late_free");
	for (size_t i = 1; i <= 200; i++) {
		void *block = ledger_alloc(&late_malloc_site, take(i * 10), i * 10);
		if (keep && i % keep == 0)
			continue;
		ledger_free(&late_malloc_site, block, i * 10);
		give(block);
	}
}

/* Bytes of code that belongs to no file: what patching has added. */
static unsigned long added_code(void)
{
	static char text[1 << 18];
	int fd = open("/proc/self/maps", O_RDONLY);
	size_t used = 0;
	ssize_t got;
	while ((got = read(fd, text + used, sizeof text - 1 - used)) > 0)
		used += (size_t)got;
	close(fd);
	text[used] = '\0';
	unsigned long bytes = 0;
	for (char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
		unsigned long start, end, inode;
		char rights[5];
		if (sscanf(line, "%lx-%lx %4s %*x %*s %lu", &start, &end, rights, &inode) == 4 &&
		    rights[2] == 'x' && !inode)
			bytes += end - start;
	}
	return bytes;
}

static void mode_late(const char *path, int turns)
{
	unsigned long first = 0;
	for (int i = 0; i < turns; i++) {
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		check(library != NULL, "dlopen failed");
		use_late(library, turns > 1 ? 0 : 4);
		if (turns > 1)
			dlclose(library);
		first = i ? first : added_code();
	}
	check(added_code() == first, "each turn leaves code behind");
}

static void *wait_for_end(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

static void mode_late_threads(const char *path)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	pthread_mutex_lock(&lock);
	check(!pthread_create(&thread, NULL, wait_for_end, &lock), "no thread");
	mode_late(path, 1);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";
	folder = argc > 2 ? argv[2] : ".";
	ledger_open("");
	if (!strcmp(mode, "turns"))
		mode_turns(argc > 3 && atoi(argv[3]) == 1 ? 1 : 3);
	else if (!strcmp(mode, "deepbind"))
		mode_deepbind();
	else if (!strcmp(mode, "dlmopen"))
		mode_dlmopen();
	else if (!strcmp(mode, "symbolic"))
		mode_symbolic();
	else if (!strcmp(mode, "forks"))
		mode_forks();
	else if (!strcmp(mode, "late_threads"))
		mode_late_threads(argv[2]);
	else if (!strncmp(mode, "late", 4))
		mode_late(argv[2], strcmp(mode, "late_turns") ? 1 : 3);
	else if (!strcmp(mode, "local"))
		mode_local();
	else
		check(0, "usage: loader MODE FOLDER");
	if (strcmp(mode, "local") != 0)
		ledger_print(mode, 0);
	return 0;
}
