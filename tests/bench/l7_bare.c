/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The least that an answer costs with libmicrohttpd: one worker as weir's are, the daemon's epoll descriptor in a
 * libevent loop, the answer queued on the second call of the handler, with three headers and no body. Nothing is read,
 * decided or counted. A forked child of the bench.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <event2/event.h>
#include <microhttpd.h>

#include "tests/bench/l7_servers.h"
#include "tests/bench/l7_servers_int.h"
#include "user/base/cleanup.h"

#define BARE_CONNECTIONS 4096
#define BARE_POOL_BYTES	 16384

struct bare {
	struct MHD_Daemon *daemon;
	struct event *again;
};

static enum MHD_Result answer(void *arg, struct MHD_Connection *c, const char *url,
			      const char *method, const char *version, const char *body,
			      size_t *body_n, void **state)
{
	static int seen;
	struct MHD_Response *response;
	enum MHD_Result r;

	(void)arg, (void)url, (void)method, (void)version, (void)body, (void)body_n;
	if (!*state) {
		*state = &seen;
		return MHD_YES;
	}
	response = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", /* not written */
						   MHD_RESPMEM_PERSISTENT);
	if (!response)
		return MHD_NO;
	r = MHD_add_response_header(response, "X-RateLimit-Limit", "100");
	if (r == MHD_YES)
		r = MHD_add_response_header(response, "X-RateLimit-Remaining", "99");
	if (r == MHD_YES)
		r = MHD_add_response_header(response, "X-RateLimit-Reset", "1");
	if (r == MHD_YES)
		r = MHD_queue_response(c, 200, response);
	MHD_destroy_response(response);
	return r;
}

static void turn(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval now = {};
	struct bare *b = arg;
	MHD_UNSIGNED_LONG_LONG ms;

	(void)fd, (void)what;
	(void)MHD_run(b->daemon); /* fails only if it does not run */
	/* Connections it has read from already are in no epoll event. */
	if (MHD_get_timeout(b->daemon, &ms) == MHD_YES && !ms)
		(void)evtimer_add(b->again, &now);
}

/* In the child; only returns on failure. */
static int serve(int fd)
{
	struct event_base *base = event_base_new();
	struct bare b = {};
	const union MHD_DaemonInfo *info;
	struct event *e;

	b.daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, answer, NULL,
				    MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
				    (unsigned int)BARE_CONNECTIONS,
				    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)BARE_POOL_BYTES,
				    MHD_OPTION_CONNECTION_TIMEOUT, 60U, MHD_OPTION_END);
	if (!base || !b.daemon)
		return -ENOMEM;
	info = MHD_get_daemon_info(b.daemon, MHD_DAEMON_INFO_EPOLL_FD);
	b.again = evtimer_new(base, turn, &b);
	e = info ? event_new(base, info->epoll_fd, EV_READ | EV_PERSIST, turn, &b) : NULL;
	if (!b.again || !e || event_add(e, NULL) < 0)
		return -ENOMEM;
	return event_base_dispatch(base);
}

int server_bare(const struct server_place *at, const char *config, char err[SERVER_ERR_BYTES],
		struct server *ret)
{
	_cleanup_close_ int fd = -1;
	pid_t parent = getpid(), pid;
	uint16_t port;
	int r;

	(void)config;
	r = bench_socket(true, err, &fd, &port);
	if (r < 0)
		return r;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
			_exit(1);
		bench_pin(at->cpu);
		_exit(serve(fd) ? 1 : 0);
	}
	*ret = (struct server){.pid = pid, .port = port};
	return 0;
}
