/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Engine and listeners without threads or sockets for the agent's unit tests: all of engine.h and http.h that the agent
 * calls, kept in memory, with failures on demand. Included once, by the test itself, so that the real ones are not linked.
 */
#ifndef WEIR_TEST_L7_DOUBLE_H
#define WEIR_TEST_L7_DOUBLE_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "user/http/http.h"
#include "user/l7/engine.h"

struct weir_l7 {
	int fd;
};
struct weir_l7_worker {
	int unused;
};
struct weir_l7_call {
	struct weir_answer answer;
	struct weir_answer_limit limit[1];
};
struct weir_http {
	int unused;
};

static struct {
	struct weir_l7 engine;
	struct weir_l7_worker worker;
	struct weir_http listeners;
	struct weir_l7_call call;
	char limit[8][WEIR_NAME_MAX]; /* in force */
	size_t n_limit;
	char listen[8][64]; /* open */
	enum weir_profile profile[8];
	size_t n_listen;
	enum weir_mode mode;
	bool made, opened, started;
	unsigned char secret[32];
	unsigned secrets, agents;
	unsigned configures, sweeps;
	struct weir_l7_stats stats;
	struct weir_l7_limit_stats row[8];
	struct weir_http_stats http;
	struct weir_l7_event event[64];
	size_t n_event;
	struct weir_prefix suspect;
	unsigned suspects;
	const char *suspect_limit;
	/* what was asked last */
	char asked[256];
	bool refuse;
	char reset[64], reset_who[64];
	weir_http_page_fn *page;
	void *page_arg;
	/* failures on demand */
	int fail_new, fail_configure, fail_open, fail_listen, fail_start;
} l7;

const __u32 weir_l7_latency_us[WEIR_L7_LATENCY_N] = {10,   20,	 50,   100,   200,   500,
						     1000, 2000, 5000, 10000, 20000, 50000};

static inline void l7_reset(void)
{
	memset(&l7, 0, sizeof(l7));
}

static inline void l7_take(const struct weir_conf *conf)
{
	l7.n_limit = conf->request.n_limit;
	for (size_t i = 0; i < l7.n_limit; i++) {
		(void)snprintf(l7.limit[i], sizeof(l7.limit[i]), "%s", conf->request.limit[i].name);
		(void)snprintf(l7.row[i].name, sizeof(l7.row[i].name), "%s", l7.limit[i]);
		l7.row[i].algorithm = conf->request.limit[i].algorithm;
		l7.row[i].mode = conf->request.limit[i].mode;
		l7.row[i].in_force = true;
		l7.row[i].on_store_failure = conf->request.limit[i].on_store_failure;
	}
}

int weir_l7_new(const struct weir_conf *conf, const struct weir_l7_options *options,
		struct weir_l7 **ret, struct weir_error *e)
{
	(void)options;
	if (l7.fail_new)
		return weir_error_set(e, l7.fail_new, "plans_file: the engine refuses");
	l7_take(conf);
	l7.made = true;
	l7.engine.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*ret = &l7.engine;
	return 0;
}

void weir_l7_free(struct weir_l7 *x)
{
	if (!x || !l7.made)
		return;
	l7.made = false;
	(void)close(x->fd);
}

int weir_l7_configure(struct weir_l7 *x, const struct weir_conf *conf, char **ret_note,
		      struct weir_error *error)
{
	(void)x;
	if (l7.fail_configure)
		return weir_error_set(error, l7.fail_configure, "plans_file: the engine refuses");
	*ret_note = NULL;
	l7.configures++;
	l7_take(conf);
	return 0;
}

int weir_l7_set_secret(struct weir_l7 *shared, const unsigned char *secret, struct weir_error *e)
{
	(void)shared;
	(void)e;
	memcpy(l7.secret, secret, sizeof(l7.secret));
	l7.secrets++;
	return 0;
}

void weir_l7_set_agents(struct weir_l7 *e, unsigned n)
{
	(void)e;
	l7.agents = n;
}

void weir_l7_set_mode(struct weir_l7 *x, enum weir_mode mode)
{
	(void)x;
	l7.mode = mode;
}

int weir_l7_worker_new(struct weir_l7 *x, struct event_base *base, struct weir_l7_worker **ret)
{
	(void)x;
	(void)base;
	*ret = &l7.worker;
	return 0;
}

void weir_l7_worker_free(struct weir_l7_worker *w)
{
	(void)w;
}

int weir_l7_ask(struct weir_l7_worker *w, const struct weir_l7_query *q, weir_l7_done_fn *done,
		void *arg, struct weir_l7_call **ret)
{
	char client[WEIR_PREFIX_STRLEN] = "-";

	(void)w;
	if (q->client)
		(void)weir_prefix_format(q->client, client);
	(void)snprintf(l7.asked, sizeof(l7.asked), "%.*s %.*s %s %zu %.*s %.*s%s", (int)q->method.n,
		       q->method.p, (int)q->target.n, q->target.p, client, q->headers->n,
		       (int)q->host.n, q->host.n ? q->host.p : "", (int)q->user.n,
		       q->user.n ? q->user.p : "", q->peek ? " peek" : "");
	l7.call.limit[0] = (struct weir_answer_limit){
		.name = "login",
		.outcome = l7.refuse ? WEIR_ANSWER_EXCEEDED : WEIR_ANSWER_ADMITTED,
		.limit = 5,
		.remaining = l7.refuse ? 0 : 4,
		.reset_after_ns = 12000000000ull,
		.retry_after_ns = l7.refuse ? 12000000000ull : 0,
	};
	if (weir_answer_make(q->profile, l7.call.limit, 1, &l7.call.answer) < 0)
		return -EINVAL;
	*ret = &l7.call;
	done(arg, &l7.call);
	return 0;
}

__u64 weir_l7_call_wait_us(const struct weir_l7_call *call)
{
	(void)call;
	return 0;
}

const struct weir_answer *weir_l7_call_answer(struct weir_l7_call *call)
{
	return &call->answer;
}

const struct weir_answer_limit *weir_l7_call_limits(struct weir_l7_call *call, size_t *ret_n)
{
	*ret_n = 1;
	return call->limit;
}

void weir_l7_call_free(struct weir_l7_call *call)
{
	(void)call;
}

void weir_l7_stats(struct weir_l7 *x, struct weir_l7_stats *ret)
{
	(void)x;
	*ret = l7.stats;
}

size_t weir_l7_limits(struct weir_l7 *x, struct weir_l7_limit_stats *ret, size_t max)
{
	(void)x;
	for (size_t i = 0; i < l7.n_limit && i < max; i++)
		ret[i] = l7.row[i];
	return l7.n_limit;
}

bool weir_l7_has_limit(struct weir_l7 *x, const char *name)
{
	(void)x;
	for (size_t i = 0; i < l7.n_limit; i++)
		if (!strcmp(l7.limit[i], name))
			return true;
	return false;
}

void weir_l7_sweep(struct weir_l7 *x)
{
	(void)x;
	l7.sweeps++;
}

size_t weir_l7_loud(struct weir_l7 *x, struct weir_l7_loud *ret, size_t max)
{
	(void)x;
	(void)ret;
	(void)max;
	return 0;
}

bool weir_l7_wants_suspects(struct weir_l7 *x, const char *packet_limit)
{
	(void)x;
	return l7.suspect_limit && !strcmp(l7.suspect_limit, packet_limit);
}

void weir_l7_suspect(struct weir_l7 *x, const struct weir_prefix *source)
{
	(void)x;
	l7.suspect = *source;
	l7.suspects++;
}

int weir_l7_events_fd(const struct weir_l7 *x)
{
	return x->fd;
}

bool weir_l7_events_take(struct weir_l7 *x, struct weir_l7_event *ret)
{
	__u64 n;

	(void)!read(x->fd, &n, sizeof(n));
	if (!l7.n_event)
		return false;
	*ret = l7.event[--l7.n_event];
	return true;
}

int weir_l7_inspect(struct weir_l7_worker *w, const struct weir_l7_who *who, const char *limit,
		    weir_l7_view_fn *fn, void *arg)
{
	struct weir_answer_limit state = {.name = "login",
					  .outcome = WEIR_ANSWER_EXCEEDED,
					  .limit = 5};
	struct weir_l7_view view = {.limit = "login", .state = &state, .mode = WEIR_MODE_ENFORCE};

	(void)w;
	(void)limit;
	(void)snprintf(view.key, sizeof(view.key), "%s",
		       who->ip		? "ip"
		       : who->api_key.n ? "api-key"
					: "user");
	fn(arg, &view);
	return 0;
}

__s64 weir_l7_suspicious_until(struct weir_l7_worker *w, const struct weir_prefix *ip)
{
	(void)w;
	(void)ip;
	return 0;
}

int weir_l7_reset(struct weir_l7_worker *w, const char *limit, const struct weir_l7_who *who,
		  size_t *ret_n, struct weir_error *e)
{
	(void)w;
	(void)e;
	(void)snprintf(l7.reset, sizeof(l7.reset), "%s", limit);
	(void)snprintf(l7.reset_who, sizeof(l7.reset_who), "%.*s",
		       who ? (int)who->api_key.n + (int)who->user.n : 3,
		       !who		? "all"
		       : who->api_key.n ? who->api_key.p
		       : who->user.n	? who->user.p
					: "");
	*ret_n = 1;
	return 0;
}

/* --- listeners ---- */

static inline int l7_open(const struct weir_conf *conf, struct weir_error *e)
{
	if (l7.fail_listen && conf->request.n_listener)
		return weir_error_set(e, l7.fail_listen, "http.listeners: %s: %s",
				      conf->request.listener[0].listen, strerror(-l7.fail_listen));
	l7.n_listen = conf->request.n_listener;
	for (size_t i = 0; i < l7.n_listen; i++) {
		(void)snprintf(l7.listen[i], sizeof(l7.listen[i]), "%s",
			       conf->request.listener[i].listen);
		l7.profile[i] = conf->request.listener[i].profile;
	}
	return 0;
}

int weir_http_open(const struct weir_conf *conf, struct weir_l7 *x, struct weir_http **ret,
		   struct weir_error *error)
{
	int r = l7_open(conf, error);

	(void)x;
	if (r < 0)
		return r;
	l7.opened = true;
	*ret = &l7.listeners;
	return 0;
}

int weir_http_start(struct weir_http *h, struct weir_error *e)
{
	(void)h;
	if (l7.fail_start)
		return weir_error_set(e, l7.fail_start, "no threads");
	l7.started = true;
	return 0;
}

int weir_http_configure(struct weir_http *h, const struct weir_conf *conf, struct weir_error *e)
{
	(void)h;
	return l7_open(conf, e);
}

void weir_http_free(struct weir_http *h)
{
	(void)h;
	l7.opened = l7.started = false;
	l7.n_listen = 0;
}

int weir_http_serve_pages(struct weir_http *h, struct event_base *base, weir_http_page_fn *page,
			  void *arg, struct weir_error *e)
{
	(void)h;
	(void)base;
	(void)e;
	l7.page = page;
	l7.page_arg = arg;
	return 0;
}

void weir_http_stats(struct weir_http *h, struct weir_http_stats *ret)
{
	(void)h;
	*ret = l7.http;
}

size_t weir_http_listeners(struct weir_http *h, struct weir_http_listener *ret, size_t max)
{
	(void)h;
	for (size_t i = 0; i < l7.n_listen && i < max; i++) {
		ret[i] = (struct weir_http_listener){.profile = l7.profile[i]};
		(void)snprintf(ret[i].listen, sizeof(ret[i].listen), "%s", l7.listen[i]);
	}
	return l7.n_listen;
}

#endif
