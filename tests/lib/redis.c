/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Redis servers for tests; see redis.h. */
#include "lib/redis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/proxy.h"
#include "lib/run.h"
#include "lib/wait.h"

#define WORDS_MAX 48
#define WAIT_MS	  10000

const char *redis_program(const char *name)
{
	const char *other = getenv("WEIR_TEST_REDIS");

	return other && !strcmp(name, "redis-server") ? other : proxy_find(name);
}

bool redis_installed(void)
{
	return redis_program("redis-server");
}

bool redis_is_missing(void)
{
	if (redis_installed())
		return false;
	(void)puts("skip: there is no redis-server (scripts/setup --proxies)");
	return true;
}

uint16_t redis_free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint16_t port = 0;

	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 &&
	    getsockname(fd, (struct sockaddr *)&a, &n) == 0)
		port = ntohs(a.sin_port);
	if (fd >= 0)
		(void)close(fd);
	return port;
}

struct redisContext *redis_open(const struct redis_server *r)
{
	struct timeval t = {.tv_sec = 5};
	redisContext *c = r->sock[0] ? redisConnectUnixWithTimeout(r->sock, t)
				     : redisConnectWithTimeout("127.0.0.1", r->port, t);

	if (c && !c->err && redisSetTimeout(c, t) == REDIS_OK) {
		if (r->password)
			freeReplyObject(redisCommand(c, "AUTH %s", r->password));
		return c;
	}
	redisFree(c);
	return NULL;
}

static bool answers(struct redis_server *r)
{
	struct redisContext *c = redis_open(r);
	redisReply *reply;
	bool yes;

	if (!c)
		return false;
	reply = redisCommand(c, "PING");
	yes = reply && reply->type != REDIS_REPLY_ERROR;
	freeReplyObject(reply);
	redisFree(c);
	return yes;
}

static int prepare(struct redis_server *r)
{
	const char *tmp = getenv("TMPDIR");

	if (r->dir[0])
		return 0;
	(void)snprintf(r->dir, sizeof(r->dir), "%s/redis.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(r->dir)) {
		r->dir[0] = '\0';
		return -errno;
	}
	if (!r->sentinel)
		(void)snprintf(r->sock, sizeof(r->sock), "%s/s", r->dir);
	(void)snprintf(r->log, sizeof(r->log), "%s/log", r->dir);
	if ((r->tcp || r->sentinel) && !r->port)
		r->port = redis_free_port();
	return 0;
}

int redis_file(struct redis_server *r, const char *name, const char *text, char *ret, size_t size)
{
	int e = prepare(r);
	FILE *f;

	if (e < 0)
		return e;
	(void)snprintf(ret, size, "%s/%s", r->dir, name);
	f = fopen(ret, "we");
	if (!f)
		return -errno;
	e = fputs(text, f) < 0 ? -EIO : 0;
	return fclose(f) || e ? -EIO : 0;
}

int redis_start(struct redis_server *r, ...)
{
	const char *argv[WORDS_MAX + 1] = {redis_program("redis-server")};
	char port[8];
	size_t n = 1;
	va_list ap;
	int fd, e;

	if (!argv[0])
		return -ENOENT;
	e = prepare(r);
	if (e < 0)
		return e;
	(void)snprintf(port, sizeof(port), "%u", r->port);
	va_start(ap, r);
	if (!r->sentinel) {
		const char *const own[] = {"--port",	   r->tcp ? port : "0",
					   "--bind",	   "127.0.0.1",
					   "--unixsocket", r->sock,
					   "--dir",	   r->dir,
					   "--save",	   "",
					   "--appendonly", "no",
					   "--daemonize",  "no"};

		for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
			argv[n++] = own[i];
	}
	while (n < WORDS_MAX && (argv[n] = va_arg(ap, const char *)))
		n++;
	argv[n] = NULL;
	va_end(ap);
	fd = open(r->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	e = run_start(0, fd, argv, &r->pid);
	if (fd >= 0)
		(void)close(fd);
	if (e < 0)
		return e;
	return wait_for(answers(r), WAIT_MS) ? 0 : -ETIMEDOUT;
}

void redis_kill(struct redis_server *r)
{
	int status;

	if (r->pid <= 0)
		return;
	(void)kill(r->pid, SIGKILL);
	while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
		;
	r->pid = 0;
	(void)unlink(r->sock);
}

void redis_stop(struct redis_server *r)
{
	const char *const argv[] = {"rm", "-rf", r->dir, NULL};

	redis_kill(r);
	if (r->dir[0])
		(void)run_cmdv(0, NULL, 0, argv);
	r->dir[0] = '\0';
}

static struct redisReply *ask(struct redisContext *c, const char *format, va_list ap)
{
	struct redisReply *reply = redisvCommand(c, format, ap);

	if (!reply) {
		(void)fprintf(stderr, "no reply to %s: %s\n", format, c->errstr);
		abort();
	}
	return reply;
}

struct redisReply *redis_do(struct redisContext *c, const char *format, ...)
{
	struct redisReply *reply;
	va_list ap;

	va_start(ap, format);
	reply = ask(c, format, ap);
	va_end(ap);
	return reply;
}

long long redis_int(struct redisContext *c, const char *format, ...)
{
	struct redisReply *reply;
	long long n = -1;
	va_list ap;

	va_start(ap, format);
	reply = ask(c, format, ap);
	va_end(ap);
	if (reply->type == REDIS_REPLY_INTEGER)
		n = reply->integer;
	else if (reply->type == REDIS_REPLY_STATUS && !strcmp(reply->str, "OK"))
		n = 0;
	freeReplyObject(reply);
	return n;
}
