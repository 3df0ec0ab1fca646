/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Listeners and workers as a whole: open, start, change, stop; see http.h. Called by the agent in its main thread. */
#include <sched.h>
#include <sodium.h>
#include <string.h>

#include "user/http/http_int.h"

#define AUTO_THREADS_MAX 8

static struct weir_http_settings *new_settings(const struct weir_conf_request *r)
{
	struct weir_http_settings *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->headers_bytes = r->headers_bytes;
	s->request_deadline_ns = r->request_deadline_ns;
	s->connections_max = r->connections;
	s->nat64 = r->nat64;
	return s;
}

/* Listeners as a configuration has them, beside those that there are. */
struct change {
	struct weir_http_settings *settings;
	struct {
		struct weir_http_listen *listen; /* perhaps one that there was */
		struct weir_http_port_settings *settings;
		bool fresh;
	} item[WEIR_LISTENERS_MAX];
	size_t n;
};

/* Of a change that does not come true; what is fresh in it is closed. */
static void drop_change(struct change *c)
{
	for (size_t i = 0; i < c->n; i++) {
		weir_http_port_settings_free(c->item[i].settings);
		if (c->item[i].fresh)
			weir_http_listen_unref(c->item[i].listen);
	}
	free(c->settings);
}

/* What fresh Unix sockets have left on disk. */
static void remove_fresh(struct change *c, const struct weir_http *h)
{
	for (size_t i = 0; i < c->n; i++) {
		bool shared = false;

		for (size_t k = 0; k < h->n_listen; k++)
			shared |= strcmp(h->listen[k]->listen, c->item[i].listen->listen) == 0;
		if (c->item[i].fresh)
			weir_http_listen_close(c->item[i].listen, shared);
	}
}

static bool is_same_kind(const struct weir_http_listen *l, const struct weir_conf_listener *c)
{
	return l->spoe == (c->profile == WEIR_PROFILE_SPOE) &&
	       l->pages == (c->profile == WEIR_PROFILE_METRICS);
}

static int prepare_one(struct weir_http *h, const struct weir_conf_request *r,
		       const struct weir_conf_listener *c, struct change *change,
		       struct weir_error *e)
{
	_cleanup_(weir_http_port_settings_freep) struct weir_http_port_settings *s = NULL;
	struct weir_http_listen *old = NULL, *l = NULL;
	int err = weir_http_port_settings_new(r, c, &s, e);

	for (size_t i = 0; i < h->n_listen; i++)
		if (strcmp(h->listen[i]->listen, c->listen) == 0)
			old = h->listen[i];
	if (err < 0)
		return err;
	if (old && is_same_kind(old, c)) {
		err = weir_http_listen_settle(old, c, e);
		l = old;
	} else if (old) {
		err = weir_http_listen_take(old, c, &l, e);
	} else {
		err = weir_http_listen_open(c, &l, e);
	}
	if (err < 0)
		return err;
	l->http = h;
	change->item[change->n].fresh = l != old;
	change->item[change->n].listen = l;
	change->item[change->n++].settings = TAKE_PTR(s);
	return 0;
}

static int prepare(struct weir_http *h, const struct weir_conf_request *r, struct change *change,
		   struct weir_error *e)
{
	int err = 0;

	if (r->n_listener > WEIR_LISTENERS_MAX)
		return weir_error_set(e, -E2BIG, "http.listeners: at most %d", WEIR_LISTENERS_MAX);
	change->settings = new_settings(r);
	if (!change->settings)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; err == 0 && i < r->n_listener; i++)
		err = prepare_one(h, r, &r->listener[i], change, e);
	return err;
}

/* Ports of one worker for all that is fresh. */
static int plan_for(struct weir_http_worker *w, const struct change *change,
		    struct weir_http_plan *plan, struct weir_error *e)
{
	bool pages = !w->l7;
	int r = 0;

	plan->settings = change->settings;
	for (size_t i = 0; r == 0 && i < change->n; i++) {
		struct weir_http_listen *l = change->item[i].listen;

		if (l->pages != pages)
			continue;
		plan->port[plan->n].listen = l;
		plan->port[plan->n].settings = change->item[i].settings;
		if (change->item[i].fresh)
			r = weir_http_port_new(w, l, &plan->port[plan->n].fresh, e);
		plan->n++;
	}
	return r;
}

static void drop_plans(struct weir_http_plan *plans, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		for (size_t k = 0; k < plans[i].n; k++)
			weir_http_port_free(plans[i].port[k].fresh);
	free(plans);
}

static struct weir_http_worker *worker_at(const struct weir_http *h, unsigned i)
{
	return i < h->n_workers ? h->worker[i] : h->pages;
}

/* All workers follow; nothing fails any more. */
static void commit(struct weir_http *h, struct change *change, const struct weir_http_plan *plans,
		   unsigned n)
{
	struct weir_http_listen *old[WEIR_LISTENERS_MAX];
	size_t n_old = h->n_listen;

	for (unsigned i = 0; i < n; i++)
		weir_http_worker_apply(worker_at(h, i), &plans[i]);
	/* from here on nobody looks at what was */
	memcpy(old, h->listen, n_old * sizeof(old[0]));
	free(h->settings);
	h->settings = change->settings;
	h->n_listen = change->n;
	for (size_t i = 0; i < change->n; i++) {
		struct weir_http_listen *l = change->item[i].listen;

		weir_http_port_settings_free(l->settings);
		l->settings = change->item[i].settings;
		h->listen[i] = l;
	}
	for (size_t i = 0; i < n_old; i++) {
		bool stays = false, path_stays = false;

		for (size_t k = 0; k < change->n; k++) {
			stays |= h->listen[k] == old[i];
			path_stays |= strcmp(h->listen[k]->listen, old[i]->listen) == 0;
		}
		if (stays)
			continue;
		weir_http_listen_close(old[i], path_stays);
		weir_http_listen_unref(old[i]);
	}
}

int weir_http_configure(struct weir_http *h, const struct weir_conf *conf, struct weir_error *e)
{
	unsigned n = h->n_workers + (h->pages ? 1 : 0);
	struct weir_http_plan *plans = calloc(n ? n : 1, sizeof(*plans));
	struct change change = {.n = 0};
	int r = plans ? prepare(h, &conf->request, &change, e)
		      : weir_error_set(e, -ENOMEM, "out of memory");

	for (unsigned i = 0; r == 0 && i < n; i++)
		r = plan_for(worker_at(h, i), &change, &plans[i], e);
	if (r < 0) {
		if (plans)
			drop_plans(plans, n);
		remove_fresh(&change, h);
		drop_change(&change);
		return r;
	}
	commit(h, &change, plans, n);
	free(plans);
	return 0;
}

static unsigned count_cpus(void)
{
	cpu_set_t set;
	int n;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 1;
	n = CPU_COUNT(&set);
	return n < 1 ? 1 : n > AUTO_THREADS_MAX ? AUTO_THREADS_MAX : (unsigned)n;
}

int weir_http_open(const struct weir_conf *conf, struct weir_l7 *l7, struct weir_http **ret,
		   struct weir_error *e)
{
	_cleanup_(weir_http_freep) struct weir_http *h = calloc(1, sizeof(*h));
	unsigned n = conf->request.threads ? conf->request.threads : count_cpus();
	int r;

	if (!h)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (sodium_init() < 0)
		return weir_error_set(e, -EIO, "libsodium does not start");
	h->l7 = l7;
	r = weir_http_configure(h, conf, e); /* sockets; there is no worker yet */
	if (r < 0)
		return r;
	if (n > WEIR_HTTP_WORKERS_MAX)
		n = WEIR_HTTP_WORKERS_MAX;
	for (unsigned i = 0; i < n; i++) {
		r = weir_http_worker_new(h, i, NULL, &h->worker[i], e);
		if (r < 0)
			return r;
		h->n_workers++;
	}
	*ret = TAKE_PTR(h);
	return 0;
}

/* Everything that there is, as if it were new to the workers. */
static int begin(struct weir_http *h, struct weir_error *e)
{
	struct change now = {.settings = h->settings, .n = h->n_listen};
	struct weir_http_plan *plans = calloc(h->n_workers, sizeof(*plans));
	int r = plans ? 0 : weir_error_set(e, -ENOMEM, "out of memory");

	for (size_t i = 0; i < h->n_listen; i++) {
		now.item[i].listen = h->listen[i];
		now.item[i].settings = h->listen[i]->settings;
		now.item[i].fresh = true;
	}
	for (unsigned i = 0; r == 0 && i < h->n_workers; i++)
		r = plan_for(h->worker[i], &now, &plans[i], e);
	if (r < 0) {
		if (plans)
			drop_plans(plans, h->n_workers);
		return r;
	}
	for (unsigned i = 0; i < h->n_workers; i++)
		weir_http_worker_apply(h->worker[i], &plans[i]);
	free(plans);
	return 0;
}

int weir_http_start(struct weir_http *h, struct weir_error *e)
{
	int r = begin(h, e);

	for (unsigned i = 0; r == 0 && i < h->n_workers; i++)
		r = weir_http_worker_start(h->worker[i], e);
	return r;
}

void weir_http_free(struct weir_http *h)
{
	struct weir_http_plan stop = {.settings = h ? h->settings : NULL, .stop = true};

	if (!h)
		return;
	for (unsigned i = 0; i < h->n_workers; i++)
		weir_http_worker_apply(h->worker[i], &stop);
	for (size_t i = 0; i < h->n_listen; i++)
		weir_http_listen_close(h->listen[i], false);
	for (unsigned i = 0; i < h->n_workers; i++)
		weir_http_worker_free(h->worker[i]);
	if (h->pages) {
		weir_http_worker_apply(h->pages, &stop);
		weir_http_worker_free(h->pages);
	}
	for (size_t i = 0; i < h->n_listen; i++)
		weir_http_listen_unref(h->listen[i]);
	free(h->settings);
	free(h);
}

/* --- what there is to see ---- */

static void add_counters(const struct weir_http_counters *c, struct weir_http_stats *s)
{
	s->accepted += atomic_load_explicit(&c->accepted, memory_order_relaxed);
	s->closed_at_limit += atomic_load_explicit(&c->closed_at_limit, memory_order_relaxed);
	s->cut_by_deadline += atomic_load_explicit(&c->cut_by_deadline, memory_order_relaxed);
	s->requests += atomic_load_explicit(&c->requests, memory_order_relaxed);
	s->bad_requests += atomic_load_explicit(&c->bad_requests, memory_order_relaxed);
	s->too_large += atomic_load_explicit(&c->too_large, memory_order_relaxed);
	s->left += atomic_load_explicit(&c->left, memory_order_relaxed);
	s->untrusted_forwarded +=
		atomic_load_explicit(&c->untrusted_forwarded, memory_order_relaxed);
	s->no_address += atomic_load_explicit(&c->no_address, memory_order_relaxed);
	s->no_target += atomic_load_explicit(&c->no_target, memory_order_relaxed);
	s->shared_address += atomic_load_explicit(&c->shared_address, memory_order_relaxed);
	s->doubled += atomic_load_explicit(&c->doubled, memory_order_relaxed);
	s->held += atomic_load_explicit(&c->held, memory_order_relaxed);
	s->spop_errors += atomic_load_explicit(&c->spop_errors, memory_order_relaxed);
}

void weir_http_stats(struct weir_http *h, struct weir_http_stats *ret)
{
	struct weir_http_stats s = {
		.connections = atomic_load_explicit(&h->connections, memory_order_relaxed),
		.connections_max = h->settings->connections_max,
	};

	for (unsigned i = 0; i < h->n_workers + (h->pages ? 1 : 0); i++)
		add_counters(&worker_at(h, i)->counters, &s);
	*ret = s;
}

size_t weir_http_listeners(struct weir_http *h, struct weir_http_listener *ret, size_t max)
{
	for (size_t i = 0; i < h->n_listen && i < max; i++) {
		struct weir_http_listen *l = h->listen[i];

		memcpy(ret[i].listen, l->name, sizeof(ret[i].listen));
		pthread_mutex_lock(&l->crowd_lock);
		ret[i].shared_percent = 100 * l->crowd.same / WEIR_HTTP_CROWD_CHECKS;
		ret[i].shared_address = l->crowd.who;
		ret[i].shared_hint = weir_http_crowd_hint(l->settings->profile, l->crowd.named);
		pthread_mutex_unlock(&l->crowd_lock);
		ret[i].profile = l->settings->profile;
		ret[i].connections = atomic_load_explicit(&l->connections, memory_order_relaxed);
	}
	return h->n_listen;
}
