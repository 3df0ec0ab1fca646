/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libmicrohttpd in a worker's loop: daemons, connections, requests. Called by worker.c, accept.c and hold.c.
 *
 * What there is to know of the library (0.9.75 to 1.0):
 * - An answer on the first handler call closes the connection, so it waits for the second one, without a body at once.
 * - MHD_resume_connection wakes nobody here: whoever resumes runs the daemon (weir_http_mhd_run), once for all of them.
 * - A suspended connection has neither time-out nor disconnect notice: its socket is watched by the loop meanwhile.
 *   The daemon must not be stopped while there is one.
 * - Its own time-out is idle time, so it is not used: deadline.c goes round.
 * - The handler's URL is decoded and cut at %00: the request line comes from the log callback. What follows the "?" is
 *   cut off there, since its parsing can use up the pool, after which 0.9.75 spins.
 * - Where its pool is full it may close without a word, which a proxy that fails open takes for consent: see
 *   weir_http_last_word.
 * - It copies cookies and makes a record of 64 bytes for each, of any two bytes: 16 kB of them took half a megabyte. It
 *   does so with the first line of that name, so it is given one with a single cookie before the client's are read.
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <netinet/in.h>

#include "user/http/conn.h"

/* MHD_USE_NO_THREAD_SAFETY: one thread at a time, and a connection that is added is there at once, which 1.0 would put
 * off. The header of 0.9.75 has no name for it, and that library does not look at it.
 */
#define ONE_THREAD	(1u << 19)

#define RUNS_A_TURN	4
#define DISCARD_MAX	65536 /* body of a check, which nobody reads */
#define DISCARD_CHUNKED (1024 * 1024)
#define TARGET_KEPT_MAX 1024
#define POOL_RECORDS                                                                               \
	((WEIR_HEADER_LINES_MAX + 3) * 64) /* one more line, which is refused; one cookie twice */
#define POOL_ANSWER 2560		   /* and a read that goes beyond the headers */

const char weir_http_no_cookies[] = "x=";

static const struct weir_http_refusal headers_too_large = {
	431, "HEADERS_TOO_LARGE",
	"The request line and headers are larger than http.headers allows."};
static const struct weir_http_refusal not_found = {
	404, "NOT_FOUND",
	"There is no such path here: a proxy asks /check, other programs POST /v1/check or "
	"/v1/refund."};
static const struct weir_http_refusal bad_framing = {
	400, "BAD_FRAMING",
	"Content-Length or Transfer-Encoding cannot be trusted: one length, or chunked, and not "
	"both."};
static const struct weir_http_refusal too_large = {413, "BODY_TOO_LARGE",
						   "The body is larger than this listener reads."};

/* --- requests ---- */

static bool read_number(struct weir_text t, __u64 *ret)
{
	__u64 v = 0;

	if (!t.n || t.n > 18)
		return false;
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] < '0' || t.p[i] > '9')
			return false;
		v = v * 10 + (__u64)(t.p[i] - '0');
	}
	*ret = v;
	return true;
}

/* What the request announces; a proxy and we must not disagree about where it ends. */
static const struct weir_http_refusal *
check_framing(struct weir_http_conn *c, const struct weir_http_lines *l, bool *ret_body)
{
	__u64 n = 0, max = c->profile == WEIR_PROFILE_JSON ? WEIR_CHECK_JSON_BODY_MAX : DISCARD_MAX;
	unsigned lengths = l->n[WEIR_HTTP_SLOT_LENGTH], encodings = l->n[WEIR_HTTP_SLOT_ENCODING];

	*ret_body = true;
	if (lengths + encodings > 1)
		return &bad_framing;
	c->chunked = encodings > 0;
	if (c->chunked)
		return weir_text_equal_fold(l->slot[WEIR_HTTP_SLOT_ENCODING],
					    weir_text_of("chunked"))
			       ? NULL
			       : &bad_framing;
	if (lengths && !read_number(l->slot[WEIR_HTTP_SLOT_LENGTH], &n))
		return &bad_framing;
	*ret_body = n > 0;
	return n > max ? &too_large : NULL;
}

/* The headers are there, the body is not. */
static enum MHD_Result begin_request(struct weir_http_conn *c, const char *method)
{
	const union MHD_ConnectionInfo *size =
		MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	struct weir_http_lines *lines = weir_http_worker_lines(c->port->worker);
	const struct weir_http_refusal *framing, *why = c->refusal;
	bool body = false;

	c->phase = WEIR_HTTP_BODY;
	c->header_n = size ? size->header_size : 0;
	if (!why && c->header_n > c->port->worker->settings->headers_bytes)
		why = &headers_too_large;
	if (!why)
		why = weir_http_profile_lines(c, lines);
	if (why) /* the rest was not read, so the next request cannot be found */
		return weir_http_conn_refuse(c, why);
	framing = check_framing(c, lines, &body);
	if (framing)
		return weir_http_conn_refuse(c, framing);
	if (c->path == WEIR_HTTP_PATH_NONE)
		why = &not_found;
	else if (c->profile == WEIR_PROFILE_JSON)
		why = weir_http_json_begin(c, method, lines);
	c->refusal = why;
	return why && body ? weir_http_conn_refuse(c, why) : MHD_YES;
}

static int take_body(struct weir_http_conn *c, const char *data, size_t n)
{
	c->body_n += n;
	if (c->profile != WEIR_PROFILE_JSON)
		return c->body_n > DISCARD_CHUNKED ? -E2BIG : 0;
	if (c->body_n <= WEIR_CHECK_JSON_BODY_MAX)
		return weir_http_json_body(c, data, n);
	c->refusal = &too_large; /* it can be said at the end only */
	return c->body_n > WEIR_CHECK_JSON_BODY_MAX + DISCARD_CHUNKED ? -E2BIG : 0;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *n, void **request)
{
	struct weir_http_conn *c = *request;

	(void)cls;
	(void)mhd;
	(void)url;
	(void)version;
	if (!c)
		return MHD_NO;
	switch (c->phase) {
	case WEIR_HTTP_READING:
		return begin_request(c, method);
	case WEIR_HTTP_BODY:
		if (*n) {
			int r = take_body(c, data, *n);

			*n = 0;
			return r < 0 ? MHD_NO : MHD_YES;
		}
		if (c->refusal)
			return weir_http_conn_refuse(c, c->refusal);
		if (c->profile == WEIR_PROFILE_METRICS)
			return weir_http_page(c, method);
		if (c->profile == WEIR_PROFILE_JSON)
			return weir_http_json_ask(c);
		return weir_http_conn_ask(c, method);
	case WEIR_HTTP_ANSWERING:
		return c->left || c->cut ? MHD_NO : weir_http_conn_reply(c);
	default:
		return MHD_NO;
	}
}

/* The raw request line is there. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
	struct weir_http_port *p = cls;
	struct weir_http_conn *c =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	char *query;

	if (!c->partial) /* else the clock runs already */
		c->since_ns = p->worker->now_ns;
	c->phase = WEIR_HTTP_READING;
	c->profile = p->settings->profile;
	c->trusted = c->is_unix || weir_http_trusts(p, &c->peer);
	c->refusal = NULL;
	c->chunked = false;
	c->header_n = 0;
	c->body_n = 0;
	/* fails where the pool is full, which what comes next finds out as well */
	(void)MHD_set_connection_value(mhd, MHD_HEADER_KIND, "Cookie", weir_http_no_cookies);
	if (weir_http_profile_target(c, target ? target : "") < 0)
		c->refusal = &weir_http_no_memory;
	query = target ? strchr((char *)(uintptr_t)target, '?') : NULL;
	if (query)
		query[1] = '\0'; /* of libmicrohttpd's own buffer; see above */
	return c;
}

/* The library's own words, of which only two kinds matter: a refusal of its own, and an answer that it could not write,
 * after which it closes without a word. That comes next, as the completion of a request.
 */
static void on_log(void *cls, const char *format, va_list ap)
{
	struct weir_http_port *p = cls;

	if (strncmp(format, "Error processing request", 24) == 0)
		weir_http_count_refusal(&p->worker->counters, va_arg(ap, unsigned));
	else if (strcmp(format, "%s\n") == 0 && strstr(va_arg(ap, const char *), "failed to"))
		p->silent = true;
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **request,
			 enum MHD_RequestTerminationCode code)
{
	struct weir_http_conn *c = *request;

	(void)cls;
	(void)mhd;
	if (!c)
		return;
	if (code == MHD_REQUEST_TERMINATED_WITH_ERROR && (c->port->silent || c->failed))
		weir_http_last_word(c);
	else if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK && !c->cut &&
		 (c->phase == WEIR_HTTP_READING || c->phase == WEIR_HTTP_BODY) &&
		 weir_http_has_left(c))
		weir_http_count(&c->port->worker->counters.left, 1);
	c->port->silent = c->failed = false;
	weir_http_conn_drop(c, false);
	c->consumed += c->header_n + c->body_n;
	c->uncounted |= c->chunked;
	c->requests++;
	c->partial = false;
	c->phase = WEIR_HTTP_IDLE;
	c->since_ns = c->port->worker->now_ns;
	free(c->body);
	c->body = NULL;
	c->body_max = 0;
	if (c->target_max > TARGET_KEPT_MAX) {
		free(c->target);
		c->target = NULL;
		c->target_max = 0;
	}
	*request = NULL;
}

/* --- connections ---- */

static void conn_free(struct weir_http_conn *c)
{
	if (c->leaves)
		event_free(c->leaves);
	if (c->begins)
		event_free(c->begins);
	free(c->body);
	free(c->target);
	free(c);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct weir_http_port *p = cls;
	struct weir_http_conn *c;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		c = p->adding;
		p->adding = NULL;
		c->mhd = mhd;
		*context = c;
		weir_http_worker_conn_added(p->worker, c);
		return;
	}
	c = *context;
	if (c->phase == WEIR_HTTP_READING && !c->cut)
		weir_http_last_word(c); /* two errors at once: closed without even a notice */
	weir_http_worker_conn_gone(p->worker, c);
	conn_free(c);
	weir_http_gone(p);
}

static socklen_t address_of(const struct weir_prefix *peer, struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *a4 = (struct sockaddr_in *)ret;

	memset(ret, 0, sizeof(*ret));
	if (!peer) {
		ret->ss_family = AF_UNIX;
		return sizeof(struct sockaddr_un);
	}
	if (peer->family == 6) {
		a6->sin6_family = AF_INET6;
		memcpy(&a6->sin6_addr, peer->addr.ip, 16);
		return sizeof(*a6);
	}
	a4->sin_family = AF_INET;
	memcpy(&a4->sin_addr, peer->addr.ip, 4);
	return sizeof(*a4);
}

int weir_http_mhd_add(struct weir_http_port *p, int fd, const struct weir_prefix *peer)
{
	struct weir_http_conn *c = calloc(1, sizeof(*c));
	struct sockaddr_storage a;
	socklen_t n = address_of(peer, &a);

	if (!c) {
		(void)close(fd); /* nothing was written */
		return -ENOMEM;
	}
	c->port = p;
	c->fd = fd;
	c->is_unix = !peer;
	if (peer)
		c->peer = *peer;
	c->since_ns = weir_http_now_ns();
	p->adding = c;
	if (MHD_add_connection(p->daemon, fd, (struct sockaddr *)&a, n) == MHD_YES || !p->adding)
		return 0; /* or it has come and gone */
	p->adding = NULL;
	conn_free(c);
	return -ENOMEM;
}

/* --- daemons ---- */

void weir_http_mhd_run(struct weir_http_port *p)
{
	unsigned long long wait_ms;

	p->worker->now_ns = weir_http_now_ns();
	for (unsigned i = 0; i < RUNS_A_TURN; i++) {
		p->run = false;
		(void)MHD_run(p->daemon); /* fails only after its end */
		if (!p->run && (MHD_get_timeout(p->daemon, &wait_ms) == MHD_NO || wait_ms))
			return;
	}
	event_active(p->again, EV_TIMEOUT, 0); /* others first */
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	weir_http_mhd_run(arg);
}

/* %-encoding is path.c's; the copy that is decoded here is not read. */
static size_t keep_encoded(void *cls, struct MHD_Connection *mhd, char *s)
{
	(void)cls;
	(void)mhd;
	return strlen(s);
}

/* A request line and headers of http.headers, a record for each line, and the answer's headers. All of it is cleared
 * after each request and stays while a connection is idle, so it is no larger than it must be.
 */
static size_t pool_bytes(const struct weir_http_settings *s)
{
	return (size_t)s->headers_bytes + POOL_RECORDS + POOL_ANSWER;
}

int weir_http_mhd_open(struct weir_http_port *p)
{
	const union MHD_DaemonInfo *info;

	p->daemon =
		MHD_start_daemon(MHD_USE_NO_LISTEN_SOCKET | MHD_USE_EPOLL |
					 MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | ONE_THREAD,
				 0, NULL, NULL, on_request, p, MHD_OPTION_EXTERNAL_LOGGER, on_log,
				 p, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				 pool_bytes(p->worker->http->settings), MHD_OPTION_CONNECTION_LIMIT,
				 1u << 20, MHD_OPTION_CONNECTION_TIMEOUT, 0u,
				 MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED,
				 on_completed, p, MHD_OPTION_NOTIFY_CONNECTION, on_connection, p,
				 MHD_OPTION_URI_LOG_CALLBACK, on_target, p,
				 MHD_OPTION_UNESCAPE_CALLBACK, keep_encoded, p, MHD_OPTION_END);
	if (!p->daemon)
		return -ENOMEM;
	info = MHD_get_daemon_info(p->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOTSUP;
	p->ready = event_new(p->worker->base, info->epoll_fd, EV_READ | EV_PERSIST, on_ready, p);
	p->again = event_new(p->worker->base, -1, 0, on_ready, p);
	return p->ready && p->again ? 0 : -ENOMEM;
}

void weir_http_mhd_close(struct weir_http_port *p)
{
	if (p->ready)
		event_free(p->ready);
	if (p->again)
		event_free(p->again);
	if (p->daemon)
		MHD_stop_daemon(p->daemon);
	p->ready = p->again = NULL;
	p->daemon = NULL;
}
