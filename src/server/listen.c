/* SPDX-License-Identifier: Apache-2.0 */
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_DEFAULT = 8080, BACKLOG = 128 };

static int parse_port(const char *text, uint16_t *ret_port)
{
	char *end = NULL;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	unsigned long port = strtoul(text, &end, 10);
	if (*end || port > UINT16_MAX)
		return -EINVAL;
	*ret_port = (uint16_t)port;
	return 0;
}

/* Splits the text; what is missing keeps its default. */
static int split(const char *text, struct listen_address *address)
{
	const char *host = text, *host_end, *port = NULL;
	if (*text == '[') {
		host = text + 1;
		host_end = strchr(host, ']');
		if (!host_end || (host_end[1] && host_end[1] != ':'))
			return -EINVAL;
		if (host_end[1])
			port = host_end + 2;
	} else if (!strchr(text, ':') && strspn(text, "0123456789") == strlen(text)) {
		host_end = host;
		port = text;
	} else {
		host_end = strchr(text, ':');
		if (host_end && strchr(host_end + 1, ':'))
			host_end = NULL; /* a bare IPv6 address */
		if (host_end)
			port = host_end + 1;
		else
			host_end = text + strlen(text);
	}
	size_t bytes = (size_t)(host_end - host);
	if (bytes >= sizeof address->host)
		return -EINVAL;
	if (bytes) {
		memcpy(address->host, host, bytes);
		address->host[bytes] = '\0';
	}
	return port ? parse_port(port, &address->port) : 0;
}

static bool classify(struct listen_address *address)
{
	struct in_addr ipv4;
	struct in6_addr ipv6;
	if (inet_pton(AF_INET, address->host, &ipv4) == 1) {
		address->is_loopback = (ntohl(ipv4.s_addr) >> 24) == 127;
		return true;
	}
	if (inet_pton(AF_INET6, address->host, &ipv6) == 1) {
		address->is_ipv6 = true;
		address->is_loopback = IN6_IS_ADDR_LOOPBACK(&ipv6);
		return true;
	}
	return false;
}

int listen_parse(const char *text, struct listen_address *ret_address, struct tm_error *err)
{
	struct listen_address address = {.host = "127.0.0.1", .port = PORT_DEFAULT};
	if (split(text, &address))
		return tm_fail(err, -EINVAL,
			       "'%s' is no address to listen on: write it like 127.0.0.1:8080, "
			       "[::1]:8080 or 8080",
			       text);
	if (!strcmp(address.host, "localhost"))
		strcpy(address.host, "127.0.0.1");
	if (!classify(&address))
		return tm_fail(err, -EINVAL,
			       "'%s' is no address to listen on: name the address of an interface "
			       "in numbers, such as 127.0.0.1 or 0.0.0.0 for all",
			       address.host);
	*ret_address = address;
	return 0;
}

static socklen_t fill(const struct listen_address *address, uint16_t port,
		      struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof *ret);
	if (address->is_ipv6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		inet_pton(AF_INET6, address->host, &in6->sin6_addr);
		return sizeof *in6;
	}
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	inet_pton(AF_INET, address->host, &in->sin_addr);
	return sizeof *in;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage bound = {0};
	socklen_t bytes = sizeof bound;
	if (getsockname(fd, (struct sockaddr *)&bound, &bytes))
		return 0;
	return bound.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&bound)->sin6_port)
					   : ntohs(((struct sockaddr_in *)&bound)->sin_port);
}

static int try_port(const struct listen_address *address, uint16_t port)
{
	struct sockaddr_storage name;
	int one = 1;
	int fd = socket(address->is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		return -errno;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	/* A server that is started again at once gets its port back. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	socklen_t bytes = fill(address, port, &name);
	if (bind(fd, (struct sockaddr *)&name, bytes) || listen(fd, BACKLOG)) {
		int code = -errno;
		close(fd);
		return code;
	}
	return fd;
}

int listen_open(struct listen_address *address, uint32_t ports, int *ret_fd, struct tm_error *err)
{
	int fd = -EADDRINUSE;
	uint32_t first = address->port;
	for (uint32_t i = 0; i < ports && fd == -EADDRINUSE && first + i <= UINT16_MAX; i++) {
		fd = try_port(address, (uint16_t)(first + i));
		if (!first)
			break;
	}
	if (fd == -EADDRINUSE)
		return tm_fail(err, fd,
			       "the ports %u to %u of %s are all in use: choose another with "
			       "--listen %s:PORT",
			       first, first + ports - 1, address->host, address->host);
	if (fd < 0)
		return tm_fail(err, fd, "cannot listen on %s:%u: %s", address->host, first,
			       strerror(-fd));
	address->port = port_of(fd);
	*ret_fd = fd;
	return 0;
}
