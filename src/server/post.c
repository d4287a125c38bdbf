/* SPDX-License-Identifier: Apache-2.0 */
#include "server/post.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/version.h"

enum { ANSWER_BYTES = 4096, PORT_MAX = 65535 };

/* ---- the address ---- */

static int refuse(struct tm_error *err, const char *text)
{
	return tm_fail(err, -EINVAL,
		       "'%.80s' is no address to push to: write it like "
		       "http://127.0.0.1:4040/ingest",
		       text);
}

static bool is_port(const char *text, size_t digits)
{
	return digits && digits < 6 && strspn(text, "0123456789") >= digits &&
	       atoi(text) <= PORT_MAX && atoi(text) > 0;
}

/* "host", "host:port", "[::1]:port": of `bytes` bytes. */
static bool split_authority(const char *text, size_t bytes, struct post_url *url)
{
	const char *host = text, *end = text + bytes, *host_end;
	if (*text == '[') {
		host++;
		host_end = memchr(host, ']', bytes - 1);
		if (!host_end || (host_end + 1 < end && host_end[1] != ':'))
			return false;
	} else {
		host_end = memchr(host, ':', bytes);
	}
	const char *port = host_end ? memchr(host_end, ':', (size_t)(end - host_end)) : NULL;
	host_end = host_end ? host_end : end;
	size_t host_bytes = (size_t)(host_end - host);
	if (!host_bytes || host_bytes >= sizeof url->host || bytes >= sizeof url->authority ||
	    (port && !is_port(port + 1, (size_t)(end - port - 1))))
		return false;
	memcpy(url->host, host, host_bytes);
	memcpy(url->authority, text, bytes);
	snprintf(url->port, sizeof url->port, "%.*s", port ? (int)(end - port - 1) : 2,
		 port ? port + 1 : "80");
	return true;
}

/* What would end a line of the request early, or is no part of an address. */
static bool is_clean(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f)
			return false;
	return true;
}

int post_url_parse(const char *text, struct post_url *ret_url, struct tm_error *err)
{
	static const char scheme[] = "http://";
	struct post_url url = {.host = ""};
	if (!strncasecmp(text, "https://", 8))
		return tm_fail(err, -EINVAL,
			       "https is not spoken here: push to a proxy on this machine that "
			       "speaks it (stunnel, nginx, haproxy), by http://127.0.0.1:PORT/");
	if (strncasecmp(text, scheme, sizeof scheme - 1) != 0 || !is_clean(text))
		return refuse(err, text);
	const char *authority = text + sizeof scheme - 1;
	size_t bytes = strcspn(authority, "/?#");
	const char *rest = authority + bytes;
	if (memchr(authority, '@', bytes))
		return tm_fail(err, -EINVAL,
			       "a name and password in the address to push to would be sent to "
			       "whoever listens there: leave them out");
	if (!bytes || !split_authority(authority, bytes, &url))
		return refuse(err, text);
	int used = snprintf(url.target, sizeof url.target, "%s%.*s", *rest == '/' ? "" : "/",
			    (int)strcspn(rest, "#"), rest);
	if (used >= (int)sizeof url.target)
		return refuse(err, text);
	*ret_url = url;
	return 0;
}

/* ---- the request ---- */

struct line {
	const struct post *post;
	uint64_t deadline_ns;
	int fd;
};

/* Until the socket is ready; 0 or why not. */
static int wait_for(const struct line *line, short events)
{
	struct pollfd polls[] = {{.fd = line->fd, .events = events},
				 {.fd = line->post->cancel_fd, .events = POLLIN}};
	for (;;) {
		uint64_t now_ns = clock_steady_ns();
		if (now_ns >= line->deadline_ns)
			return -ETIMEDOUT;
		int left_ms = (int)((line->deadline_ns - now_ns) / 1000000) + 1;
		int ready = poll(polls, 2, left_ms);
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (polls[1].revents && ready > 0)
			return -ECANCELED;
		if (polls[0].revents && ready > 0)
			return 0;
	}
}

static int connect_one(struct line *line, const struct addrinfo *address)
{
	int failed = 0;
	socklen_t bytes = sizeof failed;
	line->fd = socket(address->ai_family, SOCK_STREAM, 0);
	if (line->fd < 0)
		return -errno;
	fcntl(line->fd, F_SETFD, FD_CLOEXEC);
	fcntl(line->fd, F_SETFL, O_NONBLOCK);
	int code = connect(line->fd, address->ai_addr, address->ai_addrlen) ? -errno : 0;
	if (code == -EINPROGRESS)
		code = wait_for(line, POLLOUT);
	if (!code && getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &failed, &bytes) == 0)
		code = -failed;
	if (code) {
		close(line->fd);
		line->fd = -1;
	}
	return code;
}

static int connect_any(struct line *line, struct tm_error *err)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	const struct post_url *url = line->post->url;
	struct addrinfo *list = NULL;
	int found = getaddrinfo(url->host, url->port, &hints, &list);
	if (found)
		return tm_fail(err, -EHOSTUNREACH, "cannot find '%s': %s", url->host,
			       gai_strerror(found));
	int code = -EHOSTUNREACH;
	for (const struct addrinfo *at = list; at && code && code != -ECANCELED; at = at->ai_next)
		code = connect_one(line, at);
	freeaddrinfo(list);
	return code ? tm_fail(err, code, "cannot reach %s: %s", url->authority, strerror(-code))
		    : 0;
}

static int send_all(const struct line *line, const void *data, size_t bytes)
{
	const char *at = data;
	while (bytes) {
		ssize_t sent = send(line->fd, at, bytes, MSG_NOSIGNAL);
		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (sent > 0) {
			at += sent;
			bytes -= (size_t)sent;
			continue;
		}
		int code = wait_for(line, POLLOUT);
		if (code)
			return code;
	}
	return 0;
}

/* The first line of the answer; the rest is of no interest. */
static int read_status(const struct line *line, int *ret_status)
{
	char answer[ANSWER_BYTES];
	size_t used = 0;
	int major, minor, status;
	while (used < sizeof answer - 1 && !memchr(answer, '\n', used)) {
		ssize_t got = recv(line->fd, answer + used, sizeof answer - 1 - used, 0);
		if (got == 0)
			return -EPROTO;
		if (got > 0) {
			used += (size_t)got;
			continue;
		}
		int code = errno == EAGAIN || errno == EINTR ? wait_for(line, POLLIN) : -errno;
		if (code)
			return code;
	}
	answer[used] = '\0';
	if (sscanf(answer, "HTTP/%d.%d %3d", &major, &minor, &status) != 3 || status < 100)
		return -EPROTO;
	*ret_status = status;
	return 0;
}

static int talk(const struct line *line, int *ret_status)
{
	const struct post *post = line->post;
	struct text head = {0};
	text_print(&head,
		   "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tidemark/" TIDEMARK_VERSION
		   "\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
		   post->target ? post->target : post->url->target, post->url->authority,
		   post->type, post->bytes);
	int code = text_error(&head);
	if (!code)
		code = send_all(line, text_string(&head), head.length);
	text_done(&head);
	if (!code)
		code = send_all(line, post->body, post->bytes);
	/* Who refuses may answer, and close, before all was sent: then the answer counts. */
	int status = code == -ECANCELED ? code : read_status(line, ret_status);
	return status && code ? code : status;
}

int post_send(const struct post *post, int *ret_status, struct tm_error *err)
{
	struct line line = {.post = post, .fd = -1};
	line.deadline_ns = clock_steady_ns() + post->timeout_ms * 1000000ull;
	int code = connect_any(&line, err);
	if (code)
		return code;
	code = talk(&line, ret_status);
	close(line.fd);
	if (code == -EPROTO)
		return tm_fail(err, code, "%s does not speak HTTP", post->url->authority);
	return code ? tm_fail(err, code, "%s: %s", post->url->authority, strerror(-code)) : 0;
}
