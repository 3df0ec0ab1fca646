/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libmicrohttpd in a worker's loop: connections, requests, answers. Called by worker.c; asks by profile.c and json.c.
 *
 * What there is to know of the library (0.9.75 to 1.0):
 * - An answer on the first handler call closes the connection, so it waits for the second one, without a body at once.
 * - MHD_resume_connection wakes nobody here: whoever resumes runs the daemon (weir_http_mhd_run), once for all of them.
 * - A suspended connection has neither time-out nor disconnect notice: its socket is watched by the loop meanwhile.
 *   The daemon must not be stopped while there is one.
 * - Its own time-out is idle time, so it is not used: worker.c sweeps.
 * - The handler's URL is decoded and cut at %00: the request line comes from the log callback. What follows the "?" is
 *   cut off there, since its parsing can use up the pool, after which 0.9.75 spins.
 * - Where its pool is full it may close without a word, which a proxy that fails open takes for consent: see last_word.
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <netinet/in.h>

#include "user/http/conn.h"

#define RUNS_A_TURN	4
#define DISCARD_MAX	65536 /* body of a check, which nobody reads */
#define DISCARD_CHUNKED (1024 * 1024)
#define TARGET_KEPT_MAX 1024
#define POOL_MIN	16384

static const struct weir_http_refusal headers_too_large = {
	431, "HEADERS_TOO_LARGE",
	"The request line and headers are larger than http.headers allows."};
static const struct weir_http_refusal not_found = {
	404, "NOT_FOUND",
	"There is no such path here: a proxy asks /check, other programs POST /v1/check or "
	"/v1/refund."};
static const struct weir_http_refusal no_page = {
	404, "NOT_FOUND", "There is no such page here: /metrics, /healthz and /readyz are."};
static const struct weir_http_refusal only_get = {405, "METHOD_NOT_ALLOWED", "Pages are for GET."};
static const struct weir_http_refusal bad_framing = {
	400, "BAD_FRAMING",
	"Content-Length or Transfer-Encoding cannot be trusted: one length, or chunked, and not "
	"both."};
static const struct weir_http_refusal too_large = {413, "BODY_TOO_LARGE",
						   "The body is larger than this listener reads."};
static const struct weir_http_refusal no_memory = {503, "OUT_OF_MEMORY",
						   "The agent is out of memory; try again."};
static const struct weir_http_refusal no_room = {
	431, "HEADERS_TOO_LARGE", "The request could not be read: its headers are too large."};

/* --- answers ---- */

static bool is_check(const struct weir_http_conn *c)
{
	return c->profile != WEIR_PROFILE_JSON && c->profile != WEIR_PROFILE_METRICS;
}

static void count_refusal(struct weir_http_counters *n, unsigned status)
{
	if (status == 431 || status == 413)
		weir_http_count(&n->too_large, 1);
	else if (status >= 400 && status < 500)
		weir_http_count(&n->bad_requests, 1);
}

/* Takes @r over. */
static enum MHD_Result send_response(struct weir_http_conn *c, unsigned status,
				     struct MHD_Response *r)
{
	enum MHD_Result queued;

	if (c->port->closing)
		(void)MHD_add_response_header(r, "Connection",
					      "close"); /* without it the sweep closes */
	queued = MHD_queue_response(c->mhd, status, r);
	MHD_destroy_response(r);
	if (queued == MHD_YES) {
		c->phase = WEIR_HTTP_WRITING;
		c->since_ns = c->port->worker->now_ns;
	}
	return queued;
}

/* nginx takes anything but 401 and 403 for an error, which its fail-open recipes undo; a wrong path is one, though. */
static unsigned status_for(const struct weir_http_conn *c, unsigned status)
{
	return c->profile == WEIR_PROFILE_NGINX && status != 404 ? 403 : status;
}

static int refusal_body(const struct weir_http_refusal *why, char *buf, size_t size)
{
	return snprintf(buf, size, "{\"code\":\"%s\",\"message\":\"%s\"}\n", why->code,
			why->message);
}

static enum MHD_Result refuse(struct weir_http_conn *c, const struct weir_http_refusal *why)
{
	struct MHD_Response *r;
	char body[512], status[8];
	int n = refusal_body(why, body, sizeof(body));

	r = MHD_create_response_from_buffer((size_t)n, body, MHD_RESPMEM_MUST_COPY);
	if (!r)
		return MHD_NO;
	count_refusal(&c->port->worker->counters, why->status);
	(void)snprintf(status, sizeof(status), "%u", why->status);
	/* a header that finds no memory is left out; the status says enough */
	(void)MHD_add_response_header(r, "Content-Type", "application/json");
	(void)MHD_add_response_header(r, "Cache-Control", "no-store");
	if (is_check(c)) {
		(void)MHD_add_response_header(r, "X-Weir-Decision", "deny");
		(void)MHD_add_response_header(r, "X-Weir-Status", status);
	} else if (why->status == 401) {
		(void)MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
	} else if (why->status == 405) {
		(void)MHD_add_response_header(r, "Allow",
					      c->profile == WEIR_PROFILE_JSON ? "POST"
									      : "GET, HEAD");
	}
	return send_response(c, status_for(c, why->status), r);
}

enum MHD_Result weir_http_conn_refuse(struct weir_http_conn *c, const struct weir_http_refusal *why)
{
	return refuse(c, why);
}

/* @body: heap, taken over, with its type among @a's headers if @a has a body of its own; NULL: that of @a. */
enum MHD_Result weir_http_conn_answer(struct weir_http_conn *c, unsigned status,
				      const struct weir_answer *a, char *body, size_t body_n)
{
	struct MHD_Response *r;

	if (body)
		r = MHD_create_response_from_buffer(body_n, body, MHD_RESPMEM_MUST_FREE);
	else if (a && a->body_n)
		r = MHD_create_response_from_buffer(a->body_n, (void *)(uintptr_t)a->body,
						    MHD_RESPMEM_MUST_COPY);
	else
		r = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "",
						    MHD_RESPMEM_PERSISTENT);
	if (!r) {
		free(body);
		return MHD_NO;
	}
	for (size_t i = 0; a && i < a->n_headers; i++) {
		if (MHD_add_response_header(r, a->headers[i].name, a->headers[i].value) == MHD_NO) {
			MHD_destroy_response(
				r); /* an answer without its headers says something else */
			return MHD_NO;
		}
	}
	if (body && !(a && a->body_n))
		(void)MHD_add_response_header(r, "Content-Type", "application/json"); /* as above */
	return send_response(c, status, r);
}

static enum MHD_Result answer(struct weir_http_conn *c)
{
	const struct weir_answer *a;
	enum MHD_Result r;

	if (c->batch)
		return weir_http_json_answer(c);
	a = weir_l7_call_answer(c->call);
	r = weir_http_conn_answer(c, a->status, a, NULL, 0);
	weir_l7_call_free(c->call);
	c->call = NULL;
	return r;
}

static enum MHD_Result refuse_path(struct weir_http_conn *c)
{
	struct weir_answer a;

	weir_answer_refuse(weir_http_answer_profile(c->profile), WEIR_ANSWER_BAD_REQUEST,
			   "bad-path", &a);
	weir_http_count(&c->port->worker->counters.bad_requests, 1);
	return weir_http_conn_answer(c, a.status, &a, NULL, 0);
}

/* --- questions under way, and held answers ---- */

/* Nobody will read the answer; @held: its place in a queue can be given back. */
static void drop_question(struct weir_http_conn *c, bool held)
{
	if (c->call && held)
		weir_l7_call_leave(c->call);
	else if (c->call)
		weir_l7_call_free(c->call);
	if (c->batch)
		weir_http_json_free(c->batch, held);
	c->call = NULL;
	c->batch = NULL;
}

/* Hands a suspended connection back; the daemon must be run after it. */
static void resume(struct weir_http_conn *c)
{
	if (c->leaves)
		event_free(c->leaves);
	c->leaves = NULL;
	c->suspended = false;
	c->phase = WEIR_HTTP_ANSWERING;
	c->port->run = true;
	MHD_resume_connection(c->mhd);
}

void weir_http_conn_release(struct weir_http_conn *c)
{
	resume(c);
}

static void on_left(evutil_socket_t fd, short what, void *arg)
{
	struct weir_http_conn *c = arg;

	(void)fd;
	(void)what;
	c->left = true;
	if (c->phase != WEIR_HTTP_HELD)
		return; /* asked: its end comes first */
	weir_http_worker_unhold(c->port->worker, c);
	drop_question(c, true);
	resume(c);
	weir_http_mhd_run(c->port);
}

static void suspend(struct weir_http_conn *c, enum weir_http_phase phase)
{
	c->phase = phase;
	c->suspended = true;
	MHD_suspend_connection(c->mhd);
	c->leaves = event_new(c->port->worker->base, c->fd, EV_CLOSED, on_left, c);
	if (c->leaves)
		(void)event_add(c->leaves, NULL); /* else it is noticed when it is answered */
}

static __u64 wait_us(const struct weir_http_conn *c)
{
	return c->batch ? weir_http_json_wait_us(c->batch) : weir_l7_call_wait_us(c->call);
}

static void abort_question(struct weir_http_conn *c)
{
	if (c->batch)
		weir_http_json_abort(c->batch);
	else
		weir_l7_call_abort(c->call);
}

/* True if the answer is held from now on. */
static bool hold(struct weir_http_conn *c, __u64 us)
{
	if (!us)
		return false;
	c->due_ns = weir_http_now_ns() + us * 1000;
	if (!c->port->closing && !c->port->worker->stop_at_ns &&
	    weir_http_worker_hold(c->port->worker, c) == 0)
		return true;
	abort_question(c);
	return false;
}

void weir_http_conn_done(void *arg, struct weir_l7_call *call)
{
	struct weir_http_conn *c = arg;

	if (c->batch && !weir_http_json_done(c->batch))
		return;
	if (!c->batch)
		c->call = call;
	if (c->asking) {
		c->asking = false; /* whoever asks goes on */
		return;
	}
	if (c->left || c->cut)
		drop_question(c, true);
	else if (hold(c, wait_us(c))) {
		c->phase = WEIR_HTTP_HELD;
		return;
	}
	resume(c);
	weir_http_mhd_run(c->port);
}

/* After everything was asked: the answer, or the connection waits for it. */
enum MHD_Result weir_http_conn_asked(struct weir_http_conn *c)
{
	if (c->asking) {
		c->asking = false;
		suspend(c, WEIR_HTTP_ASKED);
		return MHD_YES;
	}
	if (hold(c, wait_us(c))) {
		suspend(c, WEIR_HTTP_HELD);
		return MHD_YES;
	}
	return answer(c);
}

static enum MHD_Result ask(struct weir_http_conn *c, const char *method)
{
	struct weir_http_worker *w = c->port->worker;
	struct weir_http_lines *lines = weir_http_worker_lines(w);
	struct weir_l7_call *call = NULL;
	struct weir_prefix client;
	struct weir_l7_query q;

	if (lines->of != c) { /* a body came in between, and other requests with it */
		c->refusal = weir_http_profile_lines(c, lines);
		if (c->refusal)
			return refuse(c, c->refusal);
	}
	if (!weir_http_profile_query(c, method, lines, &client, &q))
		return refuse_path(c);
	weir_http_count(&w->counters.requests, 1);
	c->asking = true;
	if (weir_l7_ask(w->l7, &q, weir_http_conn_done, c, &call) < 0) {
		c->asking = false;
		return refuse(c, &no_memory);
	}
	c->call = call;
	return weir_http_conn_asked(c);
}

/* --- pages ---- */

static enum MHD_Result serve_page(struct weir_http_conn *c, const char *method)
{
	static const char *const paths[] = {"/metrics", "/healthz", "/readyz"};
	struct weir_http *h = c->port->worker->http;
	struct MHD_Response *r;
	unsigned status = 503;
	const char *path = NULL, *query = memchr(c->target, '?', c->target_n);
	size_t n = query ? (size_t)(query - c->target) : c->target_n;
	char *body;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (n == strlen(paths[i]) && memcmp(c->target, paths[i], n) == 0)
			path = paths[i];
	if (!path)
		return refuse(c, &no_page);
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return refuse(c, &only_get);
	n = 0;
	body = h->page(h->page_arg, path, &status, &n);
	if (!body)
		return refuse(c, &no_memory);
	r = MHD_create_response_from_buffer(n, body, MHD_RESPMEM_MUST_FREE);
	if (!r) {
		free(body);
		return MHD_NO;
	}
	(void)MHD_add_response_header(r, "Content-Type",
				      "text/plain; version=0.0.4; charset=utf-8"); /* as above */
	(void)MHD_add_response_header(r, "Cache-Control", "no-store");
	return send_response(c, status, r);
}

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
		return refuse(c, why);
	framing = check_framing(c, lines, &body);
	if (framing)
		return refuse(c, framing);
	if (c->path == WEIR_HTTP_PATH_NONE)
		why = &not_found;
	else if (c->profile == WEIR_PROFILE_JSON)
		why = weir_http_json_begin(c, method, lines);
	c->refusal = why;
	return why && body ? refuse(c, why) : MHD_YES;
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
			return refuse(c, c->refusal);
		if (c->profile == WEIR_PROFILE_METRICS)
			return serve_page(c, method);
		if (c->profile == WEIR_PROFILE_JSON)
			return weir_http_json_ask(c);
		return ask(c, method);
	case WEIR_HTTP_ANSWERING:
		return c->left || c->cut ? MHD_NO : answer(c);
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
	if (weir_http_profile_target(c, target ? target : "") < 0)
		c->refusal = &no_memory;
	query = target ? strchr((char *)(uintptr_t)target, '?') : NULL;
	if (query)
		query[1] = '\0'; /* of libmicrohttpd's own buffer; see above */
	return c;
}

/* The library gives up on a request without having written a word. */
static void last_word(struct weir_http_conn *c)
{
	char body[256], text[768];
	unsigned status = status_for(c, no_room.status);
	int n = refusal_body(&no_room, body, sizeof(body));

	n = snprintf(text, sizeof(text),
		     "HTTP/1.1 %u %s\r\nConnection: close\r\nX-Weir-Decision: deny\r\n"
		     "X-Weir-Status: %u\r\nContent-Type: application/json\r\n"
		     "Content-Length: %d\r\n\r\n%s",
		     status, status == 403 ? "Forbidden" : "Request Header Fields Too Large",
		     no_room.status, n, body);
	/* nobody is told of a failure: there is nobody left to tell */
	(void)!send(c->fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	count_refusal(&c->port->worker->counters, no_room.status);
}

/* The library's own words, of which only two kinds matter: a refusal of its own, and an answer that it could not write,
 * after which it closes without a word. That comes next, as the completion of a request.
 */
static void on_log(void *cls, const char *format, va_list ap)
{
	struct weir_http_port *p = cls;

	if (getenv("MHDLOG"))
		vfprintf(stderr, format, ap);
	if (strncmp(format, "Error processing request", 24) == 0)
		count_refusal(&p->worker->counters, va_arg(ap, unsigned));
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
		last_word(c);
	c->port->silent = c->failed = false;
	drop_question(c, false);
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
		last_word(c); /* two errors at once: closed without even a notice */
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

void weir_http_conn_cut(struct weir_http_conn *c)
{
	c->cut = true;
	(void)shutdown(c->fd, SHUT_RDWR); /* ENOTCONN: the peer was faster */
	if (c->phase != WEIR_HTTP_HELD)
		return; /* asked: its end comes first */
	weir_http_worker_unhold(c->port->worker, c);
	drop_question(c, true);
	resume(c);
}

void weir_http_conn_end(struct weir_http_conn *c)
{
	if (c->phase == WEIR_HTTP_IDLE && !c->cut) {
		weir_http_conn_cut(c);
	} else if (c->phase == WEIR_HTTP_HELD) {
		weir_http_worker_unhold(c->port->worker, c);
		abort_question(c);
		resume(c);
	}
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

/* A request line and headers of http.headers, a copy of its cookies, and a block for each line of them fit in it twice
 * over; each byte of it is cleared after each request, so it is not larger than it must be.
 */
static size_t pool_bytes(const struct weir_http_settings *s)
{
	return s->headers_bytes < POOL_MIN / 2 ? POOL_MIN : (size_t)s->headers_bytes * 2;
}

int weir_http_mhd_open(struct weir_http_port *p)
{
	const union MHD_DaemonInfo *info;

	p->daemon =
		MHD_start_daemon(MHD_USE_NO_LISTEN_SOCKET | MHD_USE_EPOLL |
					 MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
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
