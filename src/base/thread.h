/* SPDX-License-Identifier: Apache-2.0 */
/* Threads beside those that read and write. */
#pragma once

#include <pthread.h>

/*
 * A thread with a stack of half a megabyte: below a limit of address space the eight that it has
 * else would be missing elsewhere. 0 or an errno, then *ret_thread is nothing.
 */
int thread_start(pthread_t *ret_thread, void *(*run)(void *), void *arg)
	__attribute__((warn_unused_result));
