/* SPDX-License-Identifier: Apache-2.0 */
#include "server/guard.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"

bool guard_make_token(struct guard *guard)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	unsigned char random[GUARD_TOKEN_CHARS];
	if (io_random(random, sizeof random))
		return false;
	for (size_t i = 0; i < sizeof random; i++)
		guard->token[i] = letters[random[i] % 32];
	guard->token[GUARD_TOKEN_CHARS] = '\0';
	guard->has_token = true;
	return true;
}

bool guard_equal(const char *a, const char *b)
{
	size_t length = strlen(a), other = strlen(b);
	unsigned char differ = length != other;
	for (size_t i = 0; i < length; i++)
		differ |= (unsigned char)(a[i] ^ (other ? b[i % other] : 1));
	return !differ;
}

/* The name in "name:port" or "[address]:port"; false when it makes no sense. */
static bool host_name(const char *host, char *ret_name, size_t room)
{
	const char *end;
	if (*host == '[') {
		end = strchr(++host, ']');
		if (!end || (end[1] && end[1] != ':'))
			return false;
	} else {
		end = host + strcspn(host, ":");
	}
	size_t bytes = (size_t)(end - host);
	if (!bytes || bytes >= room)
		return false;
	memcpy(ret_name, host, bytes);
	ret_name[bytes] = '\0';
	return true;
}

static bool is_address(const char *name)
{
	unsigned char any[16];
	return inet_pton(AF_INET, name, any) == 1 || inet_pton(AF_INET6, name, any) == 1;
}

static bool is_own_host(const struct guard *guard, const char *host)
{
	char name[256];
	if (!host || !host_name(host, name, sizeof name))
		return false;
	/* An address cannot be pointed elsewhere: only names can be rebound. */
	if (!strcasecmp(name, "localhost") || is_address(name))
		return true;
	if (guard->allow_host[0] && !strcasecmp(name, guard->allow_host))
		return true;
	return !guard->is_loopback && guard->own_name[0] && !strcasecmp(name, guard->own_name);
}

/* "http://HOST" of a page that we served; a browser never sends another for our own page. */
static bool is_own_origin(const char *origin, const char *host)
{
	if (!strncmp(origin, "http://", 7))
		return !strcasecmp(origin + 7, host);
	/* Behind a proxy that speaks TLS for us. */
	return !strncmp(origin, "https://", 8) && !strcasecmp(origin + 8, host);
}

static bool shows_token(const struct guard *guard, const struct guard_request *request)
{
	const char *bearer = request->authorization;
	if (bearer && !strncmp(bearer, "Bearer ", 7) && guard_equal(guard->token, bearer + 7))
		return true;
	if (request->cookie && guard_equal(guard->token, request->cookie))
		return true;
	return request->query_token && guard_equal(guard->token, request->query_token);
}

const char *guard_check(const struct guard *guard, const struct guard_request *request,
			unsigned *ret_status)
{
	*ret_status = 403;
	if (!is_own_host(guard, request->host))
		return "This server does not go by the name in the request. Use its address in "
		       "numbers, or start it with --allow-host NAME.";
	if (request->origin && !is_own_origin(request->origin, request->host))
		return "The request comes from a page of another site.";
	*ret_status = 401;
	if (guard->has_token && !shows_token(guard, request))
		return "The token is missing or wrong. Open the address that 'tidemark serve' "
		       "printed, or send 'Authorization: Bearer TOKEN'.";
	return NULL;
}
