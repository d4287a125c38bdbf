/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/environment.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "wire/wire.h"

static const char PRELOAD[] = "LD_PRELOAD=";
static const char SESSION[] = WIRE_SESSION_ENV "=";
static const char OUTPUT[] = "TIDEMARK_OUTPUT=";

static bool is_named(const char *entry, const char *prefix)
{
	return strncmp(entry, prefix, strlen(prefix)) == 0;
}

/* The agent, then what was there, without the agent again. */
static int preload_entry(const struct environment_options *options, const char *old,
			 char **ret_entry)
{
	struct text text = {0};
	const char *agent_path = options->agent_path;
	size_t agent_bytes = strlen(agent_path);
	text_put(&text, PRELOAD);
	if (options->first)
		text_print(&text, "%s:", options->first);
	text_put(&text, agent_path);
	while (old && *old) {
		size_t bytes = strcspn(old, ": ");
		if (bytes && !(bytes == agent_bytes && strncmp(old, agent_path, bytes) == 0)) {
			text_put_char(&text, ':');
			text_put_bytes(&text, old, bytes);
		}
		old += bytes;
		old += strspn(old, ": ");
	}
	int error = text_take(&text, ret_entry);
	text_done(&text);
	return error;
}

static int session_entry(const char *session, char **ret_entry)
{
	struct text text = {0};
	text_put(&text, SESSION);
	text_put(&text, session);
	int error = text_take(&text, ret_entry);
	text_done(&text);
	return error;
}

int environment_new(const struct environment_options *options, char ***ret_environment,
		    struct tm_error *err)
{
	char *const *from = options->from;
	size_t count = 0;
	const char *old = NULL;
	while (from[count])
		count++;
	if (strpbrk(options->agent_path, ": "))
		return tm_fail(err, -EINVAL,
			       "the agent's path '%s' has a blank or a colon in it, which the "
			       "dynamic loader cannot take: install tidemark in another folder",
			       options->agent_path);
	char **made = tm_alloc_array(count + 3, sizeof *made);
	size_t used = 2; /* [0] and [1] are ours to release */
	for (size_t i = 0; made && i < count; i++) {
		if (is_named(from[i], PRELOAD))
			old = from[i] + strlen(PRELOAD);
		else if (!is_named(from[i], SESSION) &&
			 (options->session || !is_named(from[i], OUTPUT)))
			made[used++] = from[i];
	}
	if (!made || preload_entry(options, old, &made[0]) ||
	    session_entry(options->session ? options->session : "", &made[1])) {
		environment_free(made);
		return tm_fail(err, -ENOMEM, "out of memory for the environment");
	}
	*ret_environment = made;
	return 0;
}

char **environment_free(char **environment)
{
	if (environment) {
		tm_free(environment[0]);
		tm_free(environment[1]);
	}
	return tm_free(environment);
}
