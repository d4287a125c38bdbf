/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int(tm_fail)(struct tm_error *err, int code, const char *format, ...)
{
	if (!err)
		return code;
	int saved_errno = errno;
	va_list args;
	va_start(args, format);
	vsnprintf(err->text, sizeof err->text, format, args);
	va_end(args);
	err->code = code;
	errno = saved_errno;
	return code;
}
