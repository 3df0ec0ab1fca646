/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See proxy.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/proxy.h"
#include "tests/lib/run.h"
#include "tests/lib/wait.h"
#include "tests/lib/web.h"
#include "user/base/cleanup.h"

#define FILE_MAX 65536

static bool runs(const char *dir, size_t n, const char *name, char *path, size_t size)
{
	return n > 0 && snprintf(path, size, "%.*s/%s", (int)n, dir, name) < (int)size &&
	       access(path, X_OK) == 0;
}

const char *proxy_find(const char *name)
{
	static const char unpacked[] = "build/proxies";
	static char path[512];
	const char *dir = getenv("PATH");

	while (dir && *dir) {
		size_t n = strcspn(dir, ":");

		if (runs(dir, n, name, path, sizeof(path)))
			return path;
		dir += n + (dir[n] == ':');
	}
	return runs(unpacked, strlen(unpacked), name, path, sizeof(path)) ? path : NULL;
}

int proxy_free_port(char *buf, size_t n)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(sin);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, size) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sin, &size) < 0)
		return -errno;
	(void)snprintf(buf, n, "127.0.0.1:%u", ntohs(sin.sin_port));
	return 0;
}

/* To be freed; NULL: no memory, or @from is not in @text. */
static char *replaced(const char *text, const char *from, const char *to)
{
	_cleanup_free_ char *out = NULL;
	const char *at = strstr(text, from);
	size_t n = 0;
	FILE *f;

	if (!at)
		return NULL;
	f = open_memstream(&out, &n);
	if (!f)
		return NULL;
	for (; at; at = strstr(text, from)) {
		(void)fprintf(f, "%.*s%s", (int)(at - text), text, to);
		text = at + strlen(from);
	}
	(void)fputs(text, f);
	return fclose(f) == 0 ? TAKE_PTR(out) : NULL;
}

static char *whole_file(const char *path)
{
	_cleanup_free_ char *text = calloc(1, FILE_MAX);
	_cleanup_fclose_ FILE *f = fopen(path, "re");

	if (!f || !text || fread(text, 1, FILE_MAX - 1, f) == FILE_MAX - 1)
		return NULL;
	return TAKE_PTR(text);
}

int proxy_file(const char *from, const char *to, const struct proxy_change *changes)
{
	_cleanup_free_ char *text = whole_file(from);
	FILE *f;
	int r;

	if (!text)
		return -EIO;
	for (; changes->from; changes++) {
		char *next = replaced(text, changes->from, changes->to);

		if (!next) {
			(void)fprintf(stderr, "%s has no \"%s\"\n", from, changes->from);
			return -ENOENT;
		}
		free(text);
		text = next;
	}
	f = fopen(to, "we");
	if (!f)
		return -errno;
	r = fputs(text, f) < 0 ? -EIO : 0;
	if (fclose(f) != 0 && r == 0)
		r = -errno;
	return r;
}

static bool answers(const char *where)
{
	struct web w;
	bool yes = web_open(&w, where) == 0;

	web_close(&w);
	return yes;
}

/* A process that has ended stays a zombie until it is waited for. */
static bool has_ended(pid_t pid)
{
	char path[64], line[256];
	const char *state;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return true;
	state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	(void)fclose(f);
	return !state || strncmp(state, ") Z", 3) == 0;
}

int proxy_start(struct proxy *p, const char *log, const char *where, const char *const argv[])
{
	_cleanup_free_ char *said = NULL;
	int fd, r;

	(void)snprintf(p->where, sizeof(p->where), "%s", where);
	(void)snprintf(p->log, sizeof(p->log), "%s", log);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	r = run_start(0, fd, argv, &p->pid);
	(void)close(fd);
	if (r < 0)
		return r;
	if (wait_for(answers(where) || has_ended(p->pid), PROXY_WAIT_MS) && !has_ended(p->pid))
		return 0;
	said = whole_file(log);
	(void)fprintf(stderr, "%s: %s\n", argv[0], said ? said : "said nothing");
	(void)proxy_stop(p);
	return -ECHILD;
}

int proxy_stop(struct proxy *p)
{
	int r = 0;

	if (p->pid > 0)
		r = run_stop(p->pid, PROXY_WAIT_MS);
	p->pid = 0;
	return r == 128 + SIGTERM ? 0 : r; /* HAProxy ends by the signal */
}
