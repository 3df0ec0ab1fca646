/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes of the bench: start one on its processor, see what it has used. See l7_servers.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/l7_servers_int.h"
#include "tests/lib/agent.h"
#include "tests/lib/run.h"
#include "tests/lib/wait.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"

#define LOG_BYTES_MAX 4096
#define AGENT_FILES   8192

int bench_fail(char err[SERVER_ERR_BYTES], int r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(err, SERVER_ERR_BYTES, format, args);
	va_end(args);
	return r;
}

int bench_socket(bool listening, char err[SERVER_ERR_BYTES], int *ret_fd, uint16_t *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t n = sizeof(a);
	int shared = !listening;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shared, sizeof(shared)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    (listening && listen(fd, SOMAXCONN) < 0) ||
	    getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		return bench_fail(err, -errno, "socket: %s", strerror(errno));
	*ret_port = ntohs(a.sin_port);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void bench_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (cpu < 0 || i == cpu)
			CPU_SET(i, &set);
	(void)sched_setaffinity(0, sizeof(set), &set); /* then figures are noisier */
}

int bench_write(const struct server_place *at, const char *name, const char *text,
		char err[SERVER_ERR_BYTES], char ret_path[static SERVER_PATH_BYTES])
{
	FILE *f;
	int r;

	(void)snprintf(ret_path, SERVER_PATH_BYTES, "%s/%s", at->dir, name);
	f = fopen(ret_path, "we");
	r = f ? fputs(text, f) : -1;
	if (!f || r < 0 || fclose(f) < 0)
		return bench_fail(err, -EIO, "cannot write %s: %s", ret_path, strerror(errno));
	return 0;
}

int bench_start(const struct server_place *at, const char *name, const char *const argv[],
		char err[SERVER_ERR_BYTES], pid_t *ret)
{
	char path[SERVER_PATH_BYTES];
	_cleanup_close_ int out = -1;
	cpu_set_t mine;
	int r;

	r = bench_write(at, name, "", err, path);
	if (r < 0)
		return r;
	out = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (out < 0)
		return bench_fail(err, -errno, "%s: %s", path, strerror(errno));
	(void)sched_getaffinity(0, sizeof(mine), &mine); /* a child has its parent's */
	bench_pin(at->cpu);
	r = run_start(0, out, argv, ret);
	(void)sched_setaffinity(0, sizeof(mine), &mine);
	if (r < 0)
		return bench_fail(err, r, "cannot run %s: %s", argv[0], strerror(-r));
	return 0;
}

static void read_log(const struct server_place *at, const char *name, char log[LOG_BYTES_MAX])
{
	char path[SERVER_PATH_BYTES];
	_cleanup_fclose_ FILE *f = NULL;

	(void)snprintf(path, sizeof(path), "%s/%s", at->dir, name);
	f = fopen(path, "re");
	log[f ? fread(log, 1, LOG_BYTES_MAX - 1, f) : 0] = 0;
}

/* One step of waiting for @s: false when it has ended or has had its time. */
static bool still_starts(const struct server *s, uint64_t end_ns)
{
	siginfo_t ended = {};

	return waitid(P_PID, (id_t)s->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       !ended.si_pid && wait_step(end_ns);
}

int bench_await(const struct server_place *at, const char *name, const char *label,
		const struct server *s, char err[SERVER_ERR_BYTES], uint64_t *ret)
{
	uint64_t end_ns = wait_now_ns() + SERVER_START_MS * 1000000ULL;
	char log[LOG_BYTES_MAX];
	const char *found;

	do {
		read_log(at, name, log);
		found = strstr(log, label);
		if (found && sscanf(found + strlen(label), "%" SCNu64, ret) == 1)
			return 0;
	} while (still_starts(s, end_ns));
	return bench_fail(err, -ETIMEDOUT, "it does not start: %.400s", log);
}

static bool accepts(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(port),
				.sin_addr = {htonl(INADDR_LOOPBACK)}};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

int bench_await_port(const struct server_place *at, const char *name, const struct server *s,
		     char err[SERVER_ERR_BYTES])
{
	uint64_t end_ns = wait_now_ns() + SERVER_START_MS * 1000000ULL;
	char log[LOG_BYTES_MAX];

	do {
		if (accepts(s->port))
			return 0;
	} while (still_starts(s, end_ns));
	read_log(at, name, log);
	return bench_fail(err, -ETIMEDOUT, "it does not start: %.400s", log);
}

int server_weir(const struct server_place *at, const char *config, char err[SERVER_ERR_BYTES],
		struct server *ret)
{
	struct agent *a = calloc(1, sizeof(*a));
	const char *where, *colon;
	cpu_set_t mine;
	__u64 port;
	int r;

	if (!a)
		return -ENOMEM;
	a->files = AGENT_FILES;
	(void)setenv("WEIR_BUILD", at->build, 1);
	(void)sched_getaffinity(0, sizeof(mine), &mine);
	bench_pin(at->cpu);
	r = agent_start(a, config);
	(void)sched_setaffinity(0, sizeof(mine), &mine);
	where = r < 0 ? NULL : agent_where(a, "caddy");
	colon = where ? strrchr(where, ':') : NULL;
	if (r < 0 || !colon || weir_str_u64(colon + 1, UINT16_MAX, &port) < 0) {
		(void)bench_fail(err, -EIO, "the agent does not start: %.400s",
				 a->out && *a->out ? a->out : strerror(-r));
		agent_stop(a);
		free(a);
		return -EIO;
	}
	*ret = (struct server){.pid = a->pid, .port = (uint16_t)port, .agent = a};
	return 0;
}

void server_stop(struct server *s)
{
	if (s->agent) {
		agent_stop(s->agent);
		free(s->agent);
	} else if (s->pid > 0)
		(void)run_stop(s->pid, 5000); /* how it ends is not measured */
	*s = (struct server){};
}

uint64_t server_cpu_ns(const struct server *s)
{
	struct timespec t;
	clockid_t clock;

	if (s->pid <= 0 || clock_getcpuclockid(s->pid, &clock) || clock_gettime(clock, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

uint64_t bench_children_ns(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_CHILDREN, &u);
	return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * 1000000000ULL +
	       ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000ULL;
}

uint64_t server_rss_bytes(const struct server *s)
{
	_cleanup_fclose_ FILE *f = NULL;
	uint64_t all, resident = 0;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)s->pid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%" SCNu64 " %" SCNu64, &all, &resident) != 2)
		return 0;
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The first number of that name anywhere in @j; false: there is none. */
static bool find_number(json_t *j, const char *name, uint64_t *ret)
{
	json_t *v = json_object_get(j, name);
	const char *key;

	if (json_is_integer(v)) {
		*ret = (uint64_t)json_integer_value(v);
		return true;
	}
	json_object_foreach(j, key, v)
		if (find_number(v, name, ret))
			return true;
	return false;
}

int server_weir_store(struct server *s, uint64_t *ret_entries, uint64_t *ret_bytes)
{
	json_t *j = NULL;
	bool found;

	if (agent_cmd(s->agent, "status", "--json") == 0)
		j = json_loads(s->agent->out, 0, NULL);
	found = j && find_number(j, "entries", ret_entries) && find_number(j, "bytes", ret_bytes);
	json_decref(j);
	return found ? 0 : -ENODATA;
}
