/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The engine's stand-in for tests of the listeners: it remembers what it was asked and answers as it is told. It takes
 * the engine's names, so that the linker leaves the real one out. With listeners on loopback and a client for them.
 */
#ifndef WEIR_TEST_HTTP_DOUBLE_H
#define WEIR_TEST_HTTP_DOUBLE_H

#include <event2/event.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "lib/prefix.h"
#include "lib/wait.h"
#include "lib/web.h"
#include "user/base/log.h"
#include "user/http/http.h"

/* What the engine was asked last. */
struct double_seen {
	char method[64], target[20000], host[256], client[WEIR_PREFIX_STRLEN];
	char user[64], plan[64], cost[64];
	char headers[70000]; /* "name=value|" */
	bool has_client, client_seen, may_wait, peek, refund;
	__u64 cost_n;
	enum weir_answer_profile profile;
};

struct weir_l7 {
	pthread_mutex_t lock;
	struct double_seen seen;
	/* how to answer */
	_Atomic bool refuse, later;
	_Atomic bool many;	    /* the longest answer there is */
	_Atomic __u64 wait_us;	    /* of each */
	_Atomic __u64 wait_more_us; /* on top, from answer to answer */
	_Atomic __u64 next_wait_us;
	/* what happened */
	_Atomic unsigned asked, freed, left, aborted;
	struct weir_l7_worker *workers[64];
	unsigned n_workers;
};

struct weir_l7_call {
	struct weir_l7_call *next;
	struct weir_l7_worker *w;
	weir_l7_done_fn *done;
	void *arg;
	enum weir_answer_profile profile;
	struct weir_answer_limit limit;
	__u64 wait_us;
	bool aborted, many;
};

struct weir_l7_worker {
	struct weir_l7 *l7;
	struct weir_l7_call *later;
	struct weir_answer answer;
	struct event *wake;
	int fd;
};

static inline void double_text(char *to, size_t size, struct weir_text t)
{
	assert_true(t.n < size);
	memcpy(to, t.p ? t.p : "", t.n);
	to[t.n] = '\0';
}

static inline void double_remember(struct weir_l7 *l, const struct weir_l7_query *q, bool refund)
{
	struct double_seen *s = &l->seen;
	size_t n = 0;

	pthread_mutex_lock(&l->lock);
	double_text(s->method, sizeof(s->method), q->method);
	double_text(s->target, sizeof(s->target), q->target);
	double_text(s->host, sizeof(s->host), q->host);
	double_text(s->user, sizeof(s->user), q->user);
	double_text(s->plan, sizeof(s->plan), q->plan);
	double_text(s->cost, sizeof(s->cost), q->cost);
	s->has_client = q->client != NULL;
	s->client[0] = '\0';
	if (q->client)
		(void)weir_prefix_format(q->client, s->client);
	s->client_seen = q->client_seen;
	s->may_wait = q->may_wait;
	s->peek = q->peek;
	s->cost_n = q->cost_n;
	s->profile = q->profile;
	s->refund = refund;
	for (size_t i = 0; i < q->headers->n; i++) {
		const struct weir_header *h = &q->headers->line[i];

		n += (size_t)snprintf(s->headers + n, sizeof(s->headers) - n, "%.*s=%.*s|",
				      (int)h->name.n, h->name.p, (int)h->value.n, h->value.p);
		assert_true(n < sizeof(s->headers));
	}
	s->headers[n] = '\0';
	pthread_mutex_unlock(&l->lock);
}

static inline struct double_seen *double_seen(struct weir_l7 *l)
{
	static struct double_seen copy;

	pthread_mutex_lock(&l->lock);
	copy = l->seen;
	pthread_mutex_unlock(&l->lock);
	return &copy;
}

static inline int double_ask(struct weir_l7_worker *w, const struct weir_l7_query *q, bool refund,
			     weir_l7_done_fn *done, void *arg, struct weir_l7_call **ret)
{
	struct weir_l7_call *c = calloc(1, sizeof(*c));
	struct weir_l7 *l = w->l7;

	assert_non_null(c);
	double_remember(l, q, refund);
	c->w = w;
	c->done = done;
	c->arg = arg;
	c->profile = q->profile;
	c->limit = (struct weir_answer_limit){.name = "api",
					      .limit = 10,
					      .remaining = 9,
					      .reset_after_ns = 1000000000};
	c->many = l->many;
	if (l->refuse) {
		c->limit.outcome = WEIR_ANSWER_EXCEEDED;
		c->limit.remaining = 0;
		c->limit.retry_after_ns = 7000000000ull;
	}
	if (l->wait_us || l->wait_more_us)
		c->wait_us = l->wait_us + atomic_fetch_add(&l->next_wait_us, l->wait_more_us);
	*ret = c;
	if (l->later) {
		c->next = w->later;
		w->later = c;
	}
	atomic_fetch_add(&l->asked, 1);
	if (!l->later)
		done(arg, c);
	return 0;
}

int weir_l7_ask(struct weir_l7_worker *w, const struct weir_l7_query *q, weir_l7_done_fn *done,
		void *arg, struct weir_l7_call **ret)
{
	return double_ask(w, q, false, done, arg, ret);
}

int weir_l7_refund(struct weir_l7_worker *w, const struct weir_l7_query *q, weir_l7_done_fn *done,
		   void *arg, struct weir_l7_call **ret)
{
	return double_ask(w, q, true, done, arg, ret);
}

__u64 weir_l7_call_wait_us(const struct weir_l7_call *c)
{
	return c->wait_us;
}

static inline void double_answer_many(const struct weir_l7_call *c)
{
	static const char name[WEIR_ANSWER_NAME_MAX] = {[0 ... WEIR_ANSWER_NAME_MAX - 2] = 'n'};
	struct weir_answer_limit all[WEIR_ANSWER_POLICIES_MAX];

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		all[i] = c->limit;
		all[i].name = name;
		all[i].limit = all[i].remaining = 1ull << 53;
		all[i].window_ns = all[i].retry_after_ns = all[i].reset_after_ns =
			86400 * 365 * 1000000000ull;
	}
	assert_int_equal(weir_answer_make(c->profile, all, ARRAY_LEN(all), &c->w->answer), 0);
}

const struct weir_answer *weir_l7_call_answer(struct weir_l7_call *c)
{
	if (c->aborted)
		weir_answer_refuse(c->profile, WEIR_ANSWER_SHUTTING_DOWN, "api", &c->w->answer);
	else if (c->many)
		double_answer_many(c);
	else
		assert_int_equal(weir_answer_make(c->profile, &c->limit, 1, &c->w->answer), 0);
	return &c->w->answer;
}

const struct weir_answer_limit *weir_l7_call_limits(struct weir_l7_call *c, size_t *ret_n)
{
	*ret_n = 1;
	return &c->limit;
}

void weir_l7_call_leave(struct weir_l7_call *c)
{
	atomic_fetch_add(&c->w->l7->left, 1);
	free(c);
}

void weir_l7_call_abort(struct weir_l7_call *c)
{
	atomic_fetch_add(&c->w->l7->aborted, 1);
	c->aborted = true;
}

void weir_l7_call_free(struct weir_l7_call *c)
{
	atomic_fetch_add(&c->w->l7->freed, 1);
	free(c);
}

static inline void double_on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct weir_l7_worker *w = arg;
	struct weir_l7_call *all = w->later;
	__u64 n;

	(void)what;
	assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
	w->later = NULL;
	while (all) {
		struct weir_l7_call *c = all;

		all = c->next;
		c->done(c->arg, c);
	}
}

/* Questions that were asked "later" end now. */
static inline void double_finish(struct weir_l7 *l)
{
	__u64 one = 1;

	for (unsigned i = 0; i < l->n_workers; i++)
		assert_int_equal(write(l->workers[i]->fd, &one, sizeof(one)), sizeof(one));
}

int weir_l7_worker_new(struct weir_l7 *l, struct event_base *base, struct weir_l7_worker **ret)
{
	struct weir_l7_worker *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->l7 = l;
	w->fd = eventfd(0, EFD_CLOEXEC);
	w->wake = event_new(base, w->fd, EV_READ | EV_PERSIST, double_on_wake, w);
	assert_int_equal(event_add(w->wake, NULL), 0);
	l->workers[l->n_workers++] = w;
	*ret = w;
	return 0;
}

void weir_l7_worker_free(struct weir_l7_worker *w)
{
	if (!w)
		return;
	assert_null(w->later); /* the contract: no call is under way */
	event_free(w->wake);
	close(w->fd);
	free(w);
}

/* --- listeners ---- */

struct lab {
	struct weir_l7 l7;
	struct weir_conf conf;
	struct weir_conf_listener listener[WEIR_LISTENERS_MAX];
	struct weir_http *http;
	char dir[64];
};

/* On a free port of loopback; TRUSTED: one prefix, or NULL. */
static inline struct weir_conf_listener *lab_listener(struct lab *lab, enum weir_profile profile,
						      const char *trusted)
{
	struct weir_conf_listener *c = &lab->listener[lab->conf.request.n_listener];

	*c = (struct weir_conf_listener){.profile = profile, .family = 4, .unix_mode = 0600};
	c->listen = strdup("127.0.0.1:0");
	/* each is a listener of its own, though all are written alike otherwise */
	if (lab->conf.request.n_listener) {
		free(c->listen);
		assert_true(asprintf(&c->listen, "127.0.0.1:0 %zu", lab->conf.request.n_listener) >
			    0);
	}
	c->addr.ip[0] = 127;
	c->addr.ip[3] = 1;
	if (trusted) {
		struct weir_prefix p = prefix_of(trusted);

		c->trusted.item = malloc(sizeof(p));
		c->trusted.item[0] = p;
		c->trusted.n = 1;
	}
	lab->conf.request.n_listener++;
	return c;
}

static inline struct weir_conf_listener *lab_unix(struct lab *lab, enum weir_profile profile,
						  const char *name)
{
	struct weir_conf_listener *c = lab_listener(lab, profile, NULL);

	free(c->listen);
	assert_true(asprintf(&c->unix_path, "%s/%s", lab->dir, name) > 0);
	assert_true(asprintf(&c->listen, "unix:%s", c->unix_path) > 0);
	return c;
}

static inline void lab_init(struct lab *lab)
{
	static FILE *nowhere;

	if (!nowhere)
		nowhere = fopen("/dev/null", "we");
	weir_log_open(nowhere, false, WEIR_LOG_ERROR);
	memset(lab, 0, sizeof(*lab));
	pthread_mutex_init(&lab->l7.lock, NULL);
	(void)snprintf(lab->dir, sizeof(lab->dir), "/tmp/weir-http.XXXXXX");
	assert_non_null(mkdtemp(lab->dir));
	lab->conf.request = (struct weir_conf_request){
		.threads = 2,
		.budget_ns = 20000000,
		.headers_bytes = 16384,
		.connections = 512,
		.request_deadline_ns = 5000000000ull,
		.listener = lab->listener,
	};
}

static inline void lab_start(struct lab *lab)
{
	struct weir_error e = {.text = ""};

	if (weir_http_open(&lab->conf, &lab->l7, &lab->http, &e) < 0 ||
	    weir_http_start(lab->http, &e) < 0)
		fail_msg("%s", e.text);
}

static inline void lab_stop(struct lab *lab)
{
	weir_http_free(lab->http);
	lab->http = NULL;
	for (size_t i = 0; i < lab->conf.request.n_listener; i++) {
		free(lab->listener[i].listen);
		free(lab->listener[i].unix_path);
		free(lab->listener[i].token_file);
		free(lab->listener[i].trusted.item);
	}
	assert_int_equal(rmdir(lab->dir), 0); /* sockets are removed */
	pthread_mutex_destroy(&lab->l7.lock);
}

static inline const char *lab_where(struct lab *lab, size_t i)
{
	static struct weir_http_listener all[WEIR_LISTENERS_MAX];

	assert_true(i < weir_http_listeners(lab->http, all, WEIR_LISTENERS_MAX));
	return all[i].listen;
}

static inline struct weir_http_stats lab_stats(struct lab *lab)
{
	struct weir_http_stats s;

	weir_http_stats(lab->http, &s);
	return s;
}

/* One exchange on a connection of its own; the status, or -errno. Where the library refuses by itself, 0.9.75 writes its
 * header twice: that is still a status.
 */
static inline int lab_ask(struct lab *lab, size_t i, const char *request)
{
	char head[16] = "";
	struct web w;
	int r = web_open(&w, lab_where(lab, i));

	if (r == 0) {
		struct pollfd p = {.fd = w.fd, .events = POLLIN};

		(void)web_send(&w, request, strlen(request)); /* may be answered before its end */
		r = poll(&p, 1, 5000) == 1 && recv(w.fd, head, sizeof(head) - 1, 0) > 0 &&
				    sscanf(head, "HTTP/1.1 %d", &r) == 1
			    ? r
			    : -ENODATA;
	}
	web_close(&w);
	return r;
}

#endif
