/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The shared store's side of store.h: every request becomes a job, which is answered by its nodes (job.c), or when its
 * deadline has passed.
 */
#include <event2/event.h>
#include <pthread.h>
#include <sodium.h>
#include <string.h>
#include <time.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/base/str.h"
#include "user/redis/redis_int.h"

__u64 weir_redis_now_ns(void)
{
	return weir_clock_ns(CLOCK_MONOTONIC);
}

/* Written by the loop's thread alone. */
void weir_redis_count(__u64 *counter, __u64 by)
{
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

/* --- time -------------------------------------------------------------------------------------------------------- */

void weir_redis_flush_soon(struct weir_redis *s)
{
	if (s->flush_due)
		return;
	s->flush_due = true;
	event_active(s->flush, EV_TIMEOUT, 0); /* after what is ready in this turn */
}

/* What came in this turn could not be sent before now: its time begins. */
static void begin_time(struct weir_redis *s, __u64 turn_ns)
{
	__u64 from_ns = turn_ns + s->o.timeout_ns, to_ns = weir_redis_now_ns() + s->o.timeout_ns;

	for (struct weir_redis_job *j = s->newest; j && j->deadline_ns >= from_ns; j = j->prev)
		j->deadline_ns = to_ns;
}

static void flush(evutil_socket_t fd, short what, void *arg)
{
	struct weir_redis *s = arg;
	__u64 turn_ns = s->turn_ns;

	(void)fd;
	(void)what;
	s->flush_due = false;
	s->turn_ns = 0;
	for (struct weir_redis_node *n = s->nodes; n; n = n->next)
		weir_redis_node_pump(n);
	if (turn_ns)
		begin_time(s, turn_ns);
}

static void arm(struct event *e, __u64 ns)
{
	struct timeval t = {.tv_sec = (time_t)(ns / 1000000000),
			    .tv_usec = (long)(ns % 1000000000 / 1000) + 1};

	(void)event_add(e, &t); /* a timer that is there: nothing is allocated */
}

/* The time of this turn of the loop, as far as it matters for deadlines. */
static __u64 turn_ns(struct weir_redis *s)
{
	if (!s->turn_ns || !s->flush_due)
		s->turn_ns = weir_redis_now_ns();
	return s->turn_ns;
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

/* -EINVAL: too many layers, or one twice. */
static int look_over(const struct weir_store_request *q)
{
	__u64 id[WEIR_STORE_LAYERS_MAX][2];

	if (q->n > WEIR_STORE_LAYERS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < q->n; i++) {
		weir_redis_layer_id(q->layer[i].limit, q->layer[i].key, id[i]);
		for (size_t k = 0; k < i; k++)
			if (id[k][0] == id[i][0] && id[k][1] == id[i][1])
				return -EINVAL;
	}
	return 0;
}

/* In a Cluster: which slot; several: the request is parted. */
static int find_slots(struct weir_redis_job *j)
{
	bool same = true;

	if (j->s->url.kind != WEIR_REDIS_CLUSTER)
		return 0;
	j->one.slot = weir_redis_layer_slot(&j->q->layer[0]);
	for (size_t i = 0; i < j->q->n; i++)
		same = same && !j->q->layer[i].fresh &&
		       weir_redis_layer_slot(&j->q->layer[i]) == j->one.slot;
	return same ? 0 : weir_redis_job_split(j);
}

static void start(struct weir_redis *s, struct weir_store_request *q, enum weir_redis_op op,
		  weir_store_done_fn *done, void *data)
{
	struct weir_redis_job *j = NULL;
	int r = look_over(q);

	if (r >= 0 && !q->n) {
		q->admitted = true;
		done(q, 0, data);
		return;
	}
	if (r >= 0 && s->n_jobs >= s->o.waiting_max) {
		weir_redis_count(&s->n.errors[WEIR_FAR_ERROR_QUEUE], 1);
		r = -EAGAIN;
	}
	if (r >= 0 && !(j = weir_redis_job_new(s)))
		r = -ENOMEM;
	if (r < 0) {
		done(q, r, data);
		return;
	}
	j->q = q;
	j->op = op;
	j->done = done;
	j->data = data;
	j->failed = 0;
	j->deadline_ns = turn_ns(s) + s->o.timeout_ns;
	j->one.q = q;
	j->one.layers = q->n == 64 ? ~0ull : (1ull << q->n) - 1;
	weir_redis_count(&s->n.decisions, op == WEIR_REDIS_DECIDE);
	r = find_slots(j);
	if (r < 0) {
		weir_redis_job_answer(j, r);
		return;
	}
	if (!s->deadline_due) {
		s->deadline_due = true;
		arm(s->deadline, s->o.timeout_ns);
	}
	weir_redis_job_go(j);
}

static void decide(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	start((struct weir_redis *)s, q, WEIR_REDIS_DECIDE, done, data);
}

static void refund(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	start((struct weir_redis *)s, q, WEIR_REDIS_GIVE_BACK, done, data);
}

static void reset(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		  void *data)
{
	start((struct weir_redis *)s, q, WEIR_REDIS_FORGET, done, data);
}

static void deadline(evutil_socket_t fd, short what, void *arg)
{
	struct weir_redis *s = arg;
	__u64 now_ns = weir_redis_now_ns();

	(void)fd;
	(void)what;
	if (s->oldest && s->oldest->deadline_ns <= now_ns)
		for (struct weir_redis_node *n = s->nodes; n; n = n->next)
			weir_redis_node_look(n);
	while (s->oldest && s->oldest->deadline_ns <= now_ns)
		weir_redis_job_give_up(s->oldest, -ETIMEDOUT);
	s->deadline_due = s->oldest != NULL;
	if (s->oldest)
		arm(s->deadline, s->oldest->deadline_ns - now_ns);
}

static void tick(evutil_socket_t fd, short what, void *arg)
{
	struct weir_redis *s = arg;
	__u64 now_ns = weir_redis_now_ns();

	(void)fd;
	(void)what;
	for (struct weir_redis_node *n = s->nodes, *next; n; n = next) {
		next = n->next;
		weir_redis_node_tick(n, now_ns);
	}
	weir_redis_topology_tick(s->topology, now_ns);
	weir_redis_size_tick(s, now_ns);
}

/* --- what is shown ----------------------------------------------------------------------------------------------- */

/* One more node is away: its name into the list, "…" where there is no room for it. */
static void add_name(char *names, size_t size, const struct weir_redis_conn *c)
{
	static const char more[] = ", …";
	char where[280];
	size_t at = strlen(names);

	(void)weir_redis_conn_where(c, where, sizeof(where));
	if (at + strlen(where) + 2 * sizeof(more) <= size)
		(void)snprintf(names + at, size - at, "%s%s", at ? ", " : "", where);
	else if (at < sizeof(more) || strcmp(names + at - (sizeof(more) - 1), more) != 0)
		(void)snprintf(names + at, size - at, "%s", at ? more : "…");
}

/* Of the nodes in use: the worst, and which are away. */
static void look_at_nodes(struct weir_redis *s, struct weir_far_stats *ret)
{
	ret->health = s->hole ? WEIR_FAR_DEGRADED : WEIR_FAR_HEALTHY;
	for (const struct weir_redis_node *i = s->nodes; i; i = i->next) {
		if (!i->in_map)
			continue;
		ret->nodes++;
		if (i->breaker.health > ret->health)
			ret->health = i->breaker.health;
		if (i->breaker.health != WEIR_FAR_OPEN)
			continue;
		ret->away++;
		add_name(ret->away_names, sizeof(ret->away_names), &i->conn);
	}
}

/* The worst of the nodes in use. @n: whose health has changed; NULL: nodes came or went. */
static void show_health(struct weir_redis *s, const struct weir_redis_node *n, const char *cause)
{
	struct weir_far_stats now = {.nodes = 0};
	enum weir_far_health worst, before;
	char where[280] = "";

	look_at_nodes(s, &now);
	worst = now.health;
	s->away = now.away == now.nodes;
	(void)pthread_mutex_lock(&s->lock);
	before = s->shown.health;
	s->shown.health = worst;
	s->shown.nodes = now.nodes;
	s->shown.away = now.away;
	memcpy(s->shown.away_names, now.away_names, sizeof(now.away_names));
	if (before != worst)
		s->shown.since_s = (__s64)(weir_clock_ns(CLOCK_REALTIME) / WEIR_NS_PER_S);
	if ((n ? n->breaker.health != WEIR_FAR_HEALTHY : s->hole) &&
	    (before < worst || !s->shown.cause[0] || (n && n->breaker.health == WEIR_FAR_OPEN) ||
	     (!n && worst == WEIR_FAR_DEGRADED)))
		(void)weir_str_copy(s->shown.cause, sizeof(s->shown.cause), cause);
	(void)pthread_mutex_unlock(&s->lock);
	if (before == worst || s->closing)
		return;
	weir_log(s->o.quiet		  ? WEIR_LOG_DEBUG
		 : worst == WEIR_FAR_OPEN ? WEIR_LOG_ERROR
					  : WEIR_LOG_NOTICE,
		 "store_health", "health", "s", weir_far_health_name(worst), "was", "s",
		 weir_far_health_name(before), "server", "s",
		 n ? weir_redis_conn_where(&n->conn, where, sizeof(where)) : NULL, "cause", "s",
		 cause, NULL);
}

void weir_redis_health_changed(struct weir_redis *s, struct weir_redis_node *n, const char *cause)
{
	show_health(s, n, cause);
}

void weir_redis_map_changed(struct weir_redis *s, const char *hole)
{
	s->hole = hole[0];
	show_health(s, NULL, s->hole ? hole : "other nodes have the slots");
}

void weir_redis_show_server(struct weir_redis *s, const char *text)
{
	(void)pthread_mutex_lock(&s->lock);
	(void)weir_str_copy(s->shown.server, sizeof(s->shown.server), text);
	(void)pthread_mutex_unlock(&s->lock);
}

static void far(struct weir_store *store, struct weir_far_stats *ret)
{
	struct weir_redis *s = (struct weir_redis *)store;
	struct weir_far_stats n;

	(void)pthread_mutex_lock(&s->lock);
	n = s->shown;
	(void)pthread_mutex_unlock(&s->lock);
#define READ(field) n.field = __atomic_load_n(&s->n.field, __ATOMIC_RELAXED)
	READ(decisions);
	READ(calls);
	for (size_t i = 0; i < ARRAY_LEN(n.errors); i++)
		READ(errors[i]);
	READ(reconnects);
	READ(script_loads);
	READ(redirects);
	READ(late_refunds);
	for (size_t i = 0; i < ARRAY_LEN(n.latency_n); i++)
		READ(latency_n[i]);
	READ(latency_sum_us);
	READ(keys_known);
	READ(keys);
	READ(key_bytes);
#undef READ
	*ret = n;
}

static void stats(struct weir_store *store, struct weir_store_stats *ret)
{
	(void)store;
	*ret = (struct weir_store_stats){}; /* states are the server's to count */
}

static void sweep(struct weir_store *store, __u64 now_us, size_t most)
{
	(void)store;
	(void)now_us;
	(void)most; /* the server expires them */
}

/* --- coming and going -------------------------------------------------------------------------------------------- */

static void redis_free(struct weir_store *store)
{
	struct weir_redis *s = (struct weir_redis *)store;

	s->closing = true;
	while (s->oldest)
		weir_redis_job_give_up(s->oldest, -ECANCELED);
	weir_redis_ask_end(s);
	weir_redis_size_free(s);
	weir_redis_topology_free(s->topology);
	for (struct weir_redis_node *n = s->nodes, *next; n; n = next) {
		next = n->next;
		weir_redis_node_free(n);
	}
	for (struct weir_redis_call *c = s->spare_calls, *next; c; c = next) {
		next = c->next;
		free(c->command.at);
		free(c->part);
		free(c);
	}
	for (struct weir_redis_job *j = s->spare_jobs, *next; j; j = next) {
		next = j->next;
		free(j);
	}
	if (s->flush)
		event_free(s->flush);
	if (s->deadline)
		event_free(s->deadline);
	if (s->tick)
		event_free(s->tick);
	weir_redis_pack_done(&s->pack);
	free(s->late.at);
	weir_hi_tls_free(s->tls);
	weir_redis_url_done(&s->url);
	if (s->password)
		sodium_memzero(s->password, strlen(s->password));
	if (s->sentinel_password)
		sodium_memzero(s->sentinel_password, strlen(s->sentinel_password));
	free(s->user);
	free(s->password);
	free(s->sentinel_user);
	free(s->sentinel_password);
	free(s->prefix);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

static const struct weir_store_ops redis_ops = {
	.name = "redis",
	.decide = decide,
	.refund = refund,
	.reset = reset,
	.stats = stats,
	.sweep = sweep,
	.far = far,
	.free = redis_free,
};

static int copy_or_none(const char *first, const char *second, char **ret)
{
	const char *from = first ? first : second;

	*ret = from ? strdup(from) : NULL;
	return from && !*ret ? -ENOMEM : 0;
}

static int set_up(struct weir_redis *s, const struct weir_redis_options *o, struct weir_error *e)
{
	struct timeval t;
	int r = weir_redis_url_copy(o->url, &s->url);

	r = r < 0 ? r : copy_or_none(o->user, s->url.user, &s->user);
	r = r < 0 ? r : copy_or_none(o->password, s->url.password, &s->password);
	r = r < 0 ? r : copy_or_none(o->sentinel_user, NULL, &s->sentinel_user);
	r = r < 0 ? r : copy_or_none(o->sentinel_password, NULL, &s->sentinel_password);
	r = r < 0 ? r : copy_or_none(o->prefix, "weir:", &s->prefix);
	if (r < 0)
		return r;
	/* No user is named: a password in the place of one, as in redis://PASSWORD@host, is a common slip. */
	if (s->user && !s->password)
		return weir_error_set(e, -EINVAL,
				      "the user of the store needs a password (password_file)");
	if (s->sentinel_user && !s->sentinel_password)
		return weir_error_set(e, -EINVAL,
				      "the Sentinels' user needs a password "
				      "(sentinel.password_file)");
	if (s->url.tls) {
		r = weir_hi_tls_new(o, &s->tls, e);
		if (r < 0)
			return r;
	}
	s->pack.prefix = s->prefix;
	/* Small calls, as a Cluster's slots make them, need more under way. */
	s->calls_max = s->url.kind == WEIR_REDIS_CLUSTER ? WEIR_REDIS_UNDER_WAY
							 : WEIR_REDIS_UNDER_WAY / o->batch_max;
	if (s->calls_max < WEIR_REDIS_CALLS_LEAST)
		s->calls_max = WEIR_REDIS_CALLS_LEAST;
	(void)snprintf(s->name, sizeof(s->name), "weir-%s", WEIR_VERSION);
	s->flush = event_new(s->base, -1, 0, flush, s);
	s->deadline = evtimer_new(s->base, deadline, s);
	s->tick = event_new(s->base, -1, EV_PERSIST, tick, s);
	if (!s->flush || !s->deadline || !s->tick || (o->sizes && weir_redis_size_new(s) < 0))
		return -ENOMEM;
	t = (struct timeval){.tv_sec = (time_t)(o->probe_ns / 1000000000),
			     .tv_usec = (long)(o->probe_ns % 1000000000 / 1000)};
	if (event_add(s->tick, &t) < 0)
		return -ENOMEM;
	return weir_redis_topology_new(s, &s->topology);
}

int weir_store_redis_new(struct event_base *base, const struct weir_redis_options *o,
			 struct weir_store **ret, struct weir_error *e)
{
	struct weir_redis *s;
	int r;

	if (!o->timeout_ns || !o->probe_ns || !o->batch_max || o->batch_max > 1024 ||
	    !o->waiting_max || !o->breaker_errors ||
	    o->breaker_errors > WEIR_REDIS_BREAKER_ERRORS_MAX ||
	    (o->prefix && strlen(o->prefix) > WEIR_REDIS_PREFIX_MAX))
		return weir_error_set(e, -EINVAL, "numbers of the store are out of range");
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->store.ops = &redis_ops;
	s->store.away = &s->away;
	s->base = base;
	s->o = *o;
	(void)pthread_mutex_init(&s->lock, NULL);
	r = set_up(s, o, e);
	if (r < 0) {
		redis_free(&s->store);
		return r;
	}
	*ret = &s->store;
	return 0;
}
