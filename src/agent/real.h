/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions behind the hooks: the next definitions after the agent in the
 * order of the link map. Set once (twice with equal values, if two threads
 * resolve at once); the same in every process of the image, so fork keeps them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define REAL_HEAP(X)                                      \
	X(malloc, void *, (size_t))                       \
	X(free, void, (void *))                           \
	X(calloc, void *, (size_t, size_t))               \
	X(realloc, void *, (void *, size_t))              \
	X(reallocarray, void *, (void *, size_t, size_t)) \
	X(posix_memalign, int, (void **, size_t, size_t)) \
	X(aligned_alloc, void *, (size_t, size_t))        \
	X(memalign, void *, (size_t, size_t))             \
	X(valloc, void *, (size_t))                       \
	X(pvalloc, void *, (size_t))                      \
	X(cfree, void, (void *))                          \
	X(free_sized, void, (void *, size_t))             \
	X(free_aligned_sized, void, (void *, size_t, size_t))

#define REAL_MAPS(X)                                             \
	X(mmap, void *, (void *, size_t, int, int, int, long))   \
	X(mmap64, void *, (void *, size_t, int, int, int, long)) \
	X(munmap, int, (void *, size_t))                         \
	X(mremap, void *, (void *, size_t, size_t, int, void *)) \
	X(mprotect, int, (void *, size_t, int))                  \
	X(madvise, int, (void *, size_t, int))                   \
	X(brk, int, (void *))                                    \
	X(sbrk, void *, (intptr_t))                              \
	X(mlockall, int, (int))

#define REAL_PROCESS(X)                                                                    \
	X(dlclose, int, (void *))                                                          \
	X(dlopen, void *, (const char *, int))                                             \
	X(dlmopen, void *, (long, const char *, int))                                      \
	X(fork, int, (void))                                                               \
	X(_Fork, int, (void))                                                              \
	X(execve, int, (const char *, char *const *, char *const *))                       \
	X(dlsym, void *, (void *, const char *))                                           \
	X(dl_iterate_phdr, int, (void *, void *))                                          \
	X(execv, int, (const char *, char *const *))                                       \
	X(execvp, int, (const char *, char *const *))                                      \
	X(execvpe, int, (const char *, char *const *, char *const *))                      \
	X(fexecve, int, (int, char *const *, char *const *))                               \
	X(posix_spawn, int,                                                                \
	  (int *, const char *, const void *, const void *, char *const *, char *const *)) \
	X(posix_spawnp, int,                                                               \
	  (int *, const char *, const void *, const void *, char *const *, char *const *)) \
	X(pthread_create, int, (uintptr_t *, const void *, void *(*)(void *), void *))     \
	X(pthread_setname_np, int, (uintptr_t, const char *))                              \
	X(exit, void, (int))                                                               \
	X(_exit, void, (int))                                                              \
	X(_Exit, void, (int))                                                              \
	X(quick_exit, void, (int))                                                         \
	X(abort, void, (void))                                                             \
	X(sigaction, int, (int, const void *, void *))                                     \
	X(signal, uintptr_t, (int, uintptr_t))

#define REAL_ALL(X) REAL_HEAP(X) REAL_MAPS(X) REAL_PROCESS(X)

struct real_functions {
#define REAL_FIELD(name, result, arguments) result(*name) arguments;
	REAL_ALL(REAL_FIELD)
#undef REAL_FIELD
};

/* Reached from assembly only. */
extern void *real_clone, *real_prctl, *real_syscall, *real_vfork, *real_system, *real_popen;

extern struct real_functions real __attribute__((visibility("hidden")));

/* Idempotent; cheap once done. Any thread, any moment. */
void real_resolve(void);
