/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/plain.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void plain_tell(struct session *session, const struct tm_error *why)
{
	session->plain = true;
	if (session->options->unrecorded)
		session->options->unrecorded(session->options->ctx, why);
}

int plain_replace(struct session *session, int *ret_exit_status, struct tm_error *err)
{
	const struct launch_options launch = {.path = session->preflight.path,
					      .argv = session->options->argv,
					      .plain_environment = environ,
					      .origin = &session->origin};
	plain_tell(session, err);
	int error = launch_replace(&launch);
	*ret_exit_status = error == -ENOENT ? SESSION_NOT_FOUND : SESSION_NOT_EXECUTABLE;
	return tm_fail(err, error, "cannot execute '%s': %s", launch.path, strerror(-error));
}
