/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

enum { STACK_BYTES = 512 * 1024 };

int thread_start(pthread_t *ret_thread, void *(*run)(void *), void *arg)
{
	pthread_attr_t small;
	int error = pthread_attr_init(&small);
	if (error)
		return error;
	error = pthread_attr_setstacksize(&small, STACK_BYTES);
	if (!error)
		error = pthread_create(ret_thread, &small, run, arg);
	pthread_attr_destroy(&small);
	return error;
}
