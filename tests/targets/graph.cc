// SPDX-License-Identifier: Apache-2.0
// Random call graphs over forty functions of every shape a compiler makes:
// plain, alloca, realigned, large frames, frame pointers, try and catch, a
// signal handler in the middle, a coroutine in the middle. Each allocates here
// and there. compare.so in front of it writes down what libunwind sees; the
// trace must hold the same stacks. argv: threads, calls per thread.
#define LEDGER_THREADS
#include "ledger.h"

#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>
#include <utility>

static constexpr int shapes = 40;
static constexpr int max_depth = 35;

struct walk {
	uint64_t dice;
	uint64_t calls_left;
	void *kept[64];
	ucontext_t home, fiber;
	char *fiber_stack;
	int fiber_depth; // 0: the coroutine is free
};
static thread_local walk *current;

static uint64_t roll(walk *w)
{
	w->dice ^= w->dice << 13;
	w->dice ^= w->dice >> 7;
	return w->dice ^= w->dice << 17;
}

typedef void (*shape_fn)(walk *, int);
extern const shape_fn *const shape_table;

SITE static void churn(walk *w)
{
	uint64_t dice = roll(w);
	void **slot = &w->kept[dice % 64];
	if (dice >> 60 < 4) {
		*slot = realloc(*slot, dice % 700 + 1);
	} else {
		free(*slot);
		*slot = dice >> 60 < 8 ? calloc(1, dice % 300 + 1) : malloc(dice % 500 + 1);
	}
}

static inline void go_on(walk *w, int depth)
{
	if (w->calls_left == 0)
		return;
	w->calls_left--;
	churn(w);
	for (uint64_t children = roll(w) % 3; children > 0 && depth < max_depth; children--)
		shape_table[roll(w) % shapes](w, depth + 1);
	if (roll(w) % 97 == 0)
		throw depth;
	churn(w);
}

static void on_signal(int)
{
	walk *w = current;
	try {
		if (w->fiber_depth == 0)
			shape_table[roll(w) % shapes](w, max_depth - 2);
	} catch (int) {
	}
}

static void fiber_body()
{
	walk *w = current;
	try {
		shape_table[roll(w) % shapes](w, w->fiber_depth);
	} catch (int) {
	}
}

static void in_fiber(walk *w, int depth)
{
	if (w->fiber_depth)
		return go_on(w, depth);
	w->fiber_depth = depth;
	getcontext(&w->fiber);
	w->fiber.uc_stack.ss_sp = w->fiber_stack;
	w->fiber.uc_stack.ss_size = 1 << 19;
	w->fiber.uc_link = &w->home;
	makecontext(&w->fiber, fiber_body, 0);
	swapcontext(&w->home, &w->fiber);
	w->fiber_depth = 0;
}

// Realigned, with alloca and arguments on the stack: the frame is reached
// through a saved pointer to the caller's.
SITE static void realigned(walk *w, int depth, int a, int b, int c, int d, int e, int f)
{
	char vector[64] __attribute__((aligned(64)));
	char *room = (char *)alloca(roll(w) % 200 + 1);
	room[0] = (char)(a + b + c + d + e + f);
	KEEP(vector);
	KEEP(room);
	go_on(w, depth);
	KEEP(vector);
	KEEP(room);
}

template <int I> SITE void shape(walk *w, int depth)
{
	volatile char mark = (char)depth;
	if constexpr (I % 8 == 1) {
		char *room = (char *)alloca(roll(w) % 400 + 1);
		KEEP(room);
		go_on(w, depth);
		KEEP(room);
	} else if constexpr (I % 8 == 2) {
		char vector[64] __attribute__((aligned(64)));
		KEEP(vector);
		go_on(w, depth);
		KEEP(vector);
	} else if constexpr (I % 8 == 3) {
		try {
			go_on(w, depth);
		} catch (int from) {
			churn(w);
			if (from % 2)
				throw;
		}
	} else if constexpr (I % 8 == 4) {
		char large[3000];
		KEEP(large);
		go_on(w, depth);
		KEEP(large);
	} else if constexpr (I % 8 == 5) {
		if (depth % 5 == 0)
			raise(SIGUSR1);
		go_on(w, depth);
	} else if constexpr (I % 8 == 6) {
		if (depth % 7 == 0)
			in_fiber(w, depth);
		go_on(w, depth);
	} else if constexpr (I % 8 == 7) {
		realigned(w, depth, 1, 2, 3, 4, 5, I);
	} else {
		go_on(w, depth);
	}
	KEEP(&mark);
}

template <int... I> static constexpr auto make_table(std::integer_sequence<int, I...>)
{
	struct table {
		shape_fn entries[shapes];
	};
	return table{{shape<I>...}};
}

static constexpr auto table = make_table(std::make_integer_sequence<int, shapes>());
const shape_fn *const shape_table = table.entries;

static uint64_t calls_per_thread = 20000;

static void *body(void *arg)
{
	static const size_t stack_bytes = 1 << 19;
	walk w = {};
	w.dice = 88172645463325252ull + (uintptr_t)arg * 7919;
	w.calls_left = calls_per_thread;
	w.fiber_stack = (char *)mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	current = &w;
	while (w.calls_left) {
		try {
			shape_table[roll(&w) % shapes](&w, 1);
		} catch (int) {
		}
	}
	for (void *block : w.kept)
		free(block);
	current = nullptr;
	return nullptr;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t ids[64];
	if (argc > 2)
		calls_per_thread = strtoull(argv[2], nullptr, 10);
	struct sigaction action = {};
	action.sa_handler = on_signal;
	action.sa_flags = SA_NODEFER;
	sigaction(SIGUSR1, &action, nullptr);
	for (intptr_t i = 0; i < threads && i < 64; i++)
		check(!pthread_create(&ids[i], nullptr, body, (void *)i), "no thread");
	body((void *)99);
	for (int i = 0; i < threads && i < 64; i++)
		pthread_join(ids[i], nullptr);
	return 0;
}
