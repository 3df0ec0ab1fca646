/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's engine on a store that agents share: several engines, each worker with a store of its own that
 * leads to one place; limits of a host beside those of the fleet; what is granted while it is away. The shared place is
 * an embedded store.
 */
#include <event2/event.h>

#include "engine_case.h"

#define AGENTS 3

enum how { NOW, LATER, FAILS };

/* A store that is away says so before it is asked, as one whose breakers are all open does; or only when it is. */
static bool says_so;

struct fleet;
struct far {
	struct weir_store store;
	struct fleet *fleet;
	struct far *next;
	struct weir_store_request *q; /* LATER: one waits */
	weir_store_done_fn *done;
	void *data;
};
struct fleet {
	struct weir_store *shared;
	struct far *all;
	enum how how;
	bool away;
	const __u8 *lost; /* the key whose node is away; NULL: none */
	unsigned decided, refunded, layers;
	__u8 tag[WEIR_STORE_TAG_BYTES], key[WEIR_STORE_KEY_BYTES];
	struct engine *e[AGENTS];
	struct event_base *base;
	struct event_base *last; /* of the store that was made last */
};

static void decide(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	struct far *s = (struct far *)store;
	struct fleet *f = s->fleet;

	assert_false(f->away);
	f->decided++;
	f->layers = (unsigned)q->n;
	memcpy(f->tag, q->layer[0].tag, sizeof(f->tag));
	memcpy(f->key, q->layer[0].key, sizeof(f->key));
	if (f->how == FAILS || (f->lost && !memcmp(f->lost, f->key, sizeof(f->key)))) {
		done(q, -EHOSTDOWN, data);
	} else if (f->how == LATER) {
		assert_null(s->q);
		s->q = q;
		s->done = done;
		s->data = data;
	} else {
		f->shared->ops->decide(f->shared, q, done, data);
	}
}

static void deliver(struct fleet *f)
{
	for (struct far *s = f->all; s; s = s->next) {
		struct weir_store_request *q = TAKE_PTR(s->q);

		if (q)
			f->shared->ops->decide(f->shared, q, s->done, s->data);
	}
}

static void refund(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	struct fleet *f = ((struct far *)store)->fleet;

	f->refunded++;
	if (f->how == FAILS)
		done(q, -EHOSTDOWN, data);
	else
		f->shared->ops->refund(f->shared, q, done, data);
}

static void reset(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		  void *data)
{
	struct fleet *f = ((struct far *)store)->fleet;

	if (f->how == FAILS)
		done(q, -EHOSTDOWN, data);
	else
		f->shared->ops->reset(f->shared, q, done, data);
}

static void sweep(struct weir_store *s, __u64 now_us, size_t most)
{
	(void)s;
	(void)now_us;
	(void)most;
}

static void end(struct weir_store *store)
{
	struct far *s = (struct far *)store, **link = &s->fleet->all;

	if (s->q)
		s->done(s->q, -ECANCELED, s->data);
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	free(s);
}

static void health(struct weir_store *s, struct weir_far_stats *ret)
{
	bool away = ((struct far *)s)->fleet->away;

	*ret = (struct weir_far_stats){.health = away ? WEIR_FAR_OPEN : WEIR_FAR_HEALTHY};
}

static const struct weir_store_ops ops = {.name = "far",
					  .decide = decide,
					  .refund = refund,
					  .reset = reset,
					  .sweep = sweep,
					  .far = health,
					  .free = end};

static int store_of(void *arg, struct event_base *base, struct weir_store **ret)
{
	struct fleet *f = arg;
	struct far *s = calloc(1, sizeof(*s));

	assert_non_null(base);
	assert_non_null(s);
	s->store.ops = &ops;
	s->store.away = &f->away;
	s->fleet = f;
	s->next = f->all;
	f->all = s;
	f->last = base;
	*ret = &s->store;
	return 0;
}

static const unsigned char secret[WEIR_KEY_SECRET] = "the secret of the whole fleet!!";

static struct engine *agent_of(struct fleet *f, const char *text, const unsigned char *with,
			       bool loop)
{
	_cleanup_free_ char *all = NULL;
	_cleanup_(weir_conf_freep) struct weir_conf *conf = NULL;
	struct engine *e = calloc(1, sizeof(*e));
	struct weir_error error = {""};
	struct weir_l7_options o = {.clock = engine_clock,
				    .store_of = store_of,
				    .store_arg = f,
				    .secret = with};

	assert_non_null(e);
	assert_true(asprintf(&all, "store: {url: redis://127.0.0.1}\n%s", text) > 0);
	conf = engine_conf(all);
	e->now_us = START_US;
	o.clock_arg = &e->now_us;
	if (weir_l7_new(conf, &o, &e->l7, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(weir_l7_worker_new(e->l7, loop ? f->base : NULL, &e->w), 0);
	return e;
}

static void begin(struct fleet *f, const char *text)
{
	const struct weir_store_embedded_options o = {.entries_max = 100000, .bytes_max = 64 << 20};

	*f = (struct fleet){.how = NOW, .base = event_base_new()};
	assert_int_equal(weir_store_embedded_new(&o, &f->shared), 0);
	for (size_t i = 0; i < AGENTS; i++)
		f->e[i] = agent_of(f, text, secret, true);
}

static void done(struct fleet *f)
{
	for (size_t i = 0; i < AGENTS; i++)
		engine_free(f->e[i]);
	assert_null(f->all);
	weir_store_free(f->shared);
	event_base_free(f->base);
}

static void advance(struct fleet *f, __u64 us)
{
	for (size_t i = 0; i < AGENTS; i++)
		engine_advance(f->e[i], us);
}

static void away(struct fleet *f)
{
	f->how = FAILS;
	f->away = says_so;
}

static void back(struct fleet *f)
{
	f->how = NOW;
	f->away = false;
}

/* How many of @n questions to each agent in turn pass. */
static unsigned passing(struct fleet *f, unsigned n, struct question q)
{
	unsigned passed = 0;

	for (unsigned i = 0; i < n; i++)
		passed += engine_ask(f->e[i % AGENTS], q) == WEIR_ANSWER_ALLOW;
	return passed;
}
#define ALL(f, n, ...) passing(f, n, (struct question){__VA_ARGS__})

#define FIXED(name, limit, more)                                                                   \
	"  - {name: " name ", match: {path: /" name                                                \
	"}, key: ip, algorithm: fixed-window, limit: " limit ", window: 60s" more "}\n"

/* --- counting together ---- */

static void agents_count_together(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("a", "10", ""));
	assert_int_equal(ALL(&f, 30, .target = "/a"), 10);
	assert_int_equal(f.e[0]->answer.code, WEIR_ANSWER_RATE_LIMITED);
	done(&f);
}

static void another_secret_counts_another_client(void **state)
{
	static const unsigned char other[WEIR_KEY_SECRET] = "of this host alone";
	struct weir_error e = {""};
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("a", "10", ""));
	engine_free(f.e[2]);
	f.e[2] = agent_of(&f, "request_limits:\n" FIXED("a", "10", ""), other, true);
	assert_int_equal(ALL(&f, 60, .target = "/a"), 20);
	assert_int_equal(weir_l7_set_secret(f.e[2]->l7, secret, &e), 0);
	assert_int_equal(ALL(&f, 60, .target = "/a"), 0);
	done(&f);
}

static void until_the_secret_is_known_each_host_is_alone(void **state)
{
	struct weir_error e = {""};
	struct fleet f;
	struct engine *x;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("a", "10", ""));
	engine_free(f.e[2]);
	f.e[2] = x = agent_of(&f, "request_limits:\n" FIXED("a", "10", ""), NULL, true);
	assert_false(engine_stats(x).secret_known);
	f.decided = 0;
	assert_int_equal(PASSING(x, 20, .target = "/a"), 10);
	assert_int_equal(f.decided, 0);
	assert_true(engine_counts(x, "a").fallback);
	assert_int_equal(weir_l7_set_secret(x->l7, secret, &e), 0);
	assert_int_equal(PASSING(x, 5, .target = "/a"), 5);
	assert_int_equal(f.decided, 5);
	assert_int_equal(ALL(&f, 30, .target = "/a"), 5);
	done(&f);
}

static void a_flood_of_one_key_asks_the_store_a_few_times(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("a", "10", ""));
	assert_int_equal(PASSING(f.e[0], 10, .target = "/a"), 10);
	f.decided = 0;
	for (int i = 0; i < 20000; i++) {
		engine_advance(f.e[0], 50);
		assert_int_equal(ASK(f.e[0], .target = "/a"), WEIR_ANSWER_RATE_LIMITED);
	}
	assert_in_range(f.decided, 1, 2);
	assert_int_equal(engine_counts(f.e[0], "a").n[WEIR_L7_REFUSED], 20000);
	assert_true(engine_stats(f.e[0]).hot.denied >= 19998);
	done(&f);
}

static void a_hot_key_with_a_lease_is_asked_for_rarely(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("a", "10000", ", lease: 100"));
	for (int i = 0; i < 20; i++, advance(&f, 1000))
		assert_int_equal(ALL(&f, 300, .target = "/a"), 300);
	assert_in_range(f.decided, 60, 600);
	assert_int_equal(ALL(&f, 30000, .target = "/a"), 4000);
	done(&f);
}

static void a_changed_limit_acts_on_who_was_refused(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("a", "2", ""));
	assert_int_equal(PASSING(f.e[0], 5, .target = "/a"), 2);
	engine_configure(f.e[0],
			 "store: {url: redis://127.0.0.1}\nrequest_limits:\n" FIXED("a", "4", ""));
	assert_int_equal(PASSING(f.e[0], 5, .target = "/a"), 2);
	done(&f);
}

/* --- this host beside the fleet ---- */

#define BOTH                                                                                       \
	"request_limits:\n"                                                                        \
	"  - {name: back-end, key: global, algorithm: fixed-window, limit: 5, window: 60s, "       \
	"scope: "                                                                                  \
	"host}\n"                                                                                  \
	"  - {name: all, key: ip, algorithm: fixed-window, limit: 12, window: 60s}\n"

static void limits_of_a_host_and_of_the_fleet_are_charged_all_or_none(void **state)
{
	struct weir_l7_limit_stats s;
	struct fleet f;

	(void)state;
	begin(&f, BOTH);
	assert_int_equal(PASSING(f.e[0], 9, .target = "/"), 5); /* the host's */
	assert_int_equal(engine_limit(f.e[0], "back-end")->outcome, WEIR_ANSWER_EXCEEDED);
	assert_int_equal(f.decided, 5); /* its refusals ask nobody */
	assert_int_equal(PASSING(f.e[1], 9, .target = "/"), 5);
	assert_int_equal(PASSING(f.e[2], 9, .target = "/"), 2); /* the fleet's */
	assert_int_equal(engine_limit(f.e[2], "all")->outcome, WEIR_ANSWER_EXCEEDED);
	assert_int_equal(engine_limit(f.e[2], "back-end")->outcome, WEIR_ANSWER_ADMITTED);
	assert_int_equal(engine_limit(f.e[2], "back-end")->remaining, 3);
	s = engine_counts(f.e[2], "back-end");
	assert_int_equal(s.n[WEIR_L7_PASSED], 2);
	assert_false(s.fleet);
	assert_true(engine_counts(f.e[2], "all").fleet);
	assert_int_equal(f.refunded, 0);
	/* another client: three places are left here */
	assert_int_equal(PASSING(f.e[2], 9, .target = "/", .ip = "198.51.100.2"), 3);
	done(&f);
}

static void limits_of_this_host_alone_never_ask_the_store(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("h", "3", ", scope: host"));
	f.how = FAILS;
	assert_int_equal(ALL(&f, 30, .target = "/h"), 3 * AGENTS);
	assert_int_equal(f.decided, 0);
	assert_int_equal(engine_counts(f.e[0], "h").n[WEIR_L7_LOCAL], 0);
	assert_false(engine_counts(f.e[0], "h").fallback);
	done(&f);
}

/* The host's last place goes while the fleet is asked. */
static void a_host_that_is_full_meanwhile_gives_the_fleet_its_charge_back(void **state)
{
	struct weir_l7_worker *second;
	struct engine *x, y;
	struct fleet f;

	(void)state;
	begin(&f, BOTH);
	x = f.e[0];
	assert_int_equal(PASSING(x, 4, .target = "/", .ip = "198.51.100.9"), 4);
	assert_int_equal(weir_l7_worker_new(x->l7, f.base, &second), 0);
	y = *x;
	y.w = second;
	f.how = LATER;
	engine_send(x, &(struct question){.target = "/"});
	engine_send(&y, &(struct question){.target = "/"});
	deliver(&f);
	assert_true(x->done == 1 && y.done == 1);
	engine_take_answer(x);
	engine_take_answer(&y);
	assert_int_equal((x->answer.code == WEIR_ANSWER_ALLOW) +
				 (y.answer.code == WEIR_ANSWER_ALLOW),
			 1);
	assert_int_equal(f.refunded, 1);
	engine_end(x);
	engine_end(&y);
	back(&f);
	assert_int_equal(ASK(f.e[1], .target = "/", .peek = true), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(f.e[1], "all")->remaining, 11); /* one was charged */
	weir_l7_worker_free(second);
	done(&f);
}

static void monitor_limits_of_both_kinds_count_by_themselves(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n"
		  "  - {name: h, key: ip, algorithm: fixed-window, limit: 2, window: 60s, scope: "
		  "host}\n"
		  "  - {name: fm, key: ip, algorithm: fixed-window, limit: 5, window: 60s, mode: "
		  "monitor}\n"
		  "  - {name: hm, key: ip, algorithm: fixed-window, limit: 4, window: 60s, scope: "
		  "host, "
		  "mode: monitor}\n");
	assert_int_equal(PASSING(f.e[0], 8, .target = "/"), 2);
	assert_int_equal(engine_counts(f.e[0], "fm").n[WEIR_L7_PASSED], 5);
	assert_int_equal(engine_counts(f.e[0], "fm").n[WEIR_L7_WOULD], 3);
	assert_int_equal(engine_counts(f.e[0], "hm").n[WEIR_L7_PASSED], 4);
	assert_int_equal(engine_counts(f.e[0], "hm").n[WEIR_L7_WOULD], 4);
	assert_int_equal(engine_counts(f.e[0], "h").n[WEIR_L7_REFUSED], 6);
	done(&f);
}

static void refunds_reach_both(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, BOTH);
	assert_int_equal(PASSING(f.e[0], 5, .target = "/"), 5);
	(void)ASK(f.e[0], .target = "/", .refund = true);
	assert_int_equal(engine_limit(f.e[0], "back-end")->remaining, 1);
	assert_int_equal(engine_limit(f.e[0], "all")->remaining, 8);
	assert_int_equal(PASSING(f.e[0], 5, .target = "/"), 1);
	done(&f);
}

/* --- while it is away ---- */

static void each_agent_grants_its_part(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f,
	      "request_limits:\n" FIXED("a", "30", "") FIXED(
		      "b", "2",
		      "") "  - {name: t, match: {path: /t}, key: ip, rate: 30 per 60s, burst: 30}\n"
			  "  - {name: l, match: {path: /l}, key: ip, algorithm: "
			  "sliding-window-log, "
			  "limit: 30, window: 60s}\n");
	for (size_t i = 0; i < AGENTS; i++)
		weir_l7_set_agents(f.e[i]->l7, AGENTS);
	away(&f);
	assert_int_equal(ALL(&f, 120, .target = "/a"), 30);
	assert_int_equal(ALL(&f, 120, .target = "/t"), 30);
	assert_int_equal(ALL(&f, 120, .target = "/l"), 30);
	assert_int_equal(ALL(&f, 120, .target = "/b"), AGENTS); /* at least one each */
	assert_int_equal(f.e[0]->answer.code, WEIR_ANSWER_RATE_LIMITED);
	assert_true(engine_counts(f.e[0], "a").fallback);
	advance(&f, 30 * US_PER_S); /* the rate is a third too: five each */
	assert_int_equal(ALL(&f, 120, .target = "/t"), 15);
	done(&f);
}

static void a_share_that_is_set_counts(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("a", "100", ""));
	engine_configure(f.e[0], "store: {url: redis://127.0.0.1, local_share: 25%}\n"
				 "request_limits:\n" FIXED("a", "100", ""));
	weir_l7_set_agents(f.e[0]->l7, 50);
	away(&f);
	assert_int_equal(PASSING(f.e[0], 200, .target = "/a"), 25);
	done(&f);
}

static void a_cost_above_the_share_takes_all_of_it(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("a", "100", ""));
	weir_l7_set_agents(f.e[0]->l7, 10);
	away(&f);
	assert_int_equal(ASK(f.e[0], .target = "/a", .cost_n = 50), WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(f.e[0], .target = "/a"), WEIR_ANSWER_RATE_LIMITED);
	assert_int_equal(ASK(f.e[0], .target = "/a", .cost_n = 101), WEIR_ANSWER_COST_TOO_LARGE);
	done(&f);
}

static void what_was_granted_here_is_not_counted_there(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("a", "10", ""));
	assert_int_equal(ALL(&f, 4, .target = "/a"), 4);
	away(&f);
	assert_int_equal(PASSING(f.e[0], 30, .target = "/a"), 10);
	back(&f);
	assert_int_equal(ALL(&f, 30, .target = "/a"), 6); /* the store's counts stand */
	done(&f);
}

/* A store that is away for a moment again and again grants one share, not one each time. */
static void short_failures_grant_one_share(void **state)
{
	struct fleet f;
	unsigned passed = 0;

	(void)state;
	begin(&f, "request_limits:\n"
		  "  - {name: a, key: ip, algorithm: fixed-window, limit: 10, window: 1h}\n");
	assert_int_equal(PASSING(f.e[0], 12, .target = "/"), 10);
	for (int i = 0; i < 20; i++) {
		away(&f);
		engine_advance(f.e[0], 2 * US_PER_S); /* what was remembered is over */
		passed += PASSING(f.e[0], 5, .target = "/");
		back(&f);
		engine_advance(f.e[0], 2 * US_PER_S);
		assert_int_equal(PASSING(f.e[0], 3, .target = "/"), 0);
	}
	assert_int_equal(passed, 10);
	/* back for good: the next time it is a new one */
	engine_advance(f.e[0], 11 * US_PER_S);
	assert_int_equal(PASSING(f.e[0], 3, .target = "/"), 0);
	away(&f);
	engine_advance(f.e[0], 2 * US_PER_S);
	assert_int_equal(PASSING(f.e[0], 30, .target = "/"), 10);
	/* and a long one stays one, however rarely somebody asks */
	for (int i = 0; i < 20; i++) {
		engine_advance(f.e[0], 30 * US_PER_S);
		assert_int_equal(PASSING(f.e[0], 1, .target = "/"), 0);
	}
	done(&f);
}

static void while_it_is_away_a_host_still_counts_all_or_none(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, BOTH);
	away(&f);
	assert_int_equal(PASSING(f.e[0], 5, .target = "/"), 5);
	assert_int_equal(engine_limit(f.e[0], "all")->remaining, 7);
	assert_int_equal(PASSING(f.e[0], 4, .target = "/"), 0);
	/* where the host is looked at before the fleet is found to be away, its refusals end there */
	assert_int_equal(engine_counts(f.e[0], "all").n[WEIR_L7_LOCAL], says_so ? 9 : 5);
	assert_int_equal(engine_counts(f.e[0], "back-end").n[WEIR_L7_LOCAL], 0);
	back(&f);
	assert_int_equal(PASSING(f.e[0], 9, .target = "/"), 0); /* of this host: it was not away */
	done(&f);
}

static void new_keys_are_counted_here_too(void **state)
{
	struct fleet f;
	unsigned passed = 0;
	char key[64];

	(void)state;
	begin(&f, "request_limits:\n"
		  "  - {name: a, key: {any: [api-key], new_per_ip: 3 per 60s}, algorithm: "
		  "fixed-window, limit: 2, window: 60s}\n");
	away(&f);
	for (unsigned i = 0; i < 20; i++) {
		(void)snprintf(key, sizeof(key), "X-API-Key: k%u", i);
		passed += ASK(f.e[0], .target = "/", .header = {key}) == WEIR_ANSWER_ALLOW;
	}
	assert_int_equal(passed, 3 + 2);
	done(&f);
}

static void a_failure_is_never_called_rate_limited(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("c", "10", ", on_store_failure: closed")
			  FIXED("o", "1", ", on_store_failure: open"));
	away(&f);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(ASK(f.e[0], .target = "/c"), WEIR_ANSWER_STORE_UNAVAILABLE);
		assert_int_equal(ASK(f.e[0], .target = "/o"), WEIR_ANSWER_ALLOW);
	}
	done(&f);
}

static void refunds_and_looks_reach_this_host_alone(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, BOTH);
	away(&f);
	assert_int_equal(PASSING(f.e[0], 3, .target = "/"), 3);
	assert_int_equal(ASK(f.e[0], .target = "/", .refund = true), WEIR_ANSWER_STORE_UNAVAILABLE);
	assert_int_equal(ASK(f.e[0], .target = "/", .peek = true), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(f.e[0], "back-end")->remaining, 3); /* it was given back */
	assert_int_equal(engine_limit(f.e[0], "all")->remaining, 9);	  /* it was not */
	assert_int_equal(engine_counts(f.e[0], "all").n[WEIR_L7_LOCAL], 3);
	done(&f);
}

static void a_host_without_room_is_a_store_that_is_away_too(void **state)
{
	static const char conf[] = "memory: {request_keys: 100, request_bytes: 64 KiB}\n"
				   "request_limits:\n"
				   "  - {name: host, match: {path: /b}, key: ip, algorithm: "
				   "sliding-window-log, limit: 50000,\n"
				   "     window: 60s, scope: host, on_store_failure: open}\n"
				   "  - {name: all, key: ip, algorithm: sliding-window-log, limit: "
				   "50000, window: 60s}\n";
	struct fleet f;

	(void)state;
	begin(&f, conf);
	away(&f);
	assert_int_equal(ASK(f.e[0], .target = "/a", .cost_n = 40000),
			 WEIR_ANSWER_STORE_UNAVAILABLE);
	assert_int_equal(ASK(f.e[0], .target = "/b", .cost_n = 40000),
			 WEIR_ANSWER_STORE_UNAVAILABLE);
	assert_int_equal(f.e[0]->n, 1);
	assert_int_equal(engine_counts(f.e[0], "host").n[WEIR_L7_UNJUDGED], 1);
	assert_int_equal(engine_counts(f.e[0], "all").n[WEIR_L7_CLOSED], 2);
	assert_int_equal(engine_counts(f.e[0], "all").n[WEIR_L7_LOCAL], 0);
	assert_int_equal(ASK(f.e[0], .target = "/b"), WEIR_ANSWER_ALLOW);
	done(&f);
}

static void an_open_limit_is_counted_as_unjudged_and_nothing_else(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("o", "1", ", on_store_failure: open"));
	away(&f);
	assert_int_equal(PASSING(f.e[0], 5, .target = "/o"), 5);
	assert_int_equal(PASSING(f.e[0], 2, .target = "/"), 2); /* meets none */
	assert_int_equal(f.e[0]->n, 0);
	assert_int_equal(engine_counts(f.e[0], "o").n[WEIR_L7_UNJUDGED], 5);
	assert_int_equal(engine_stats(f.e[0]).no_limit, 2);
	assert_int_equal(engine_stats(f.e[0]).allowed, 7);
	done(&f);
}

/* With the breaker open nobody is asked, and from the moment on that it closes everybody is. */
static void a_store_that_says_so_is_not_asked_and_its_return_is_noticed_at_once(void **state)
{
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("c", "10", ", on_store_failure: closed"));
	assert_int_equal(PASSING(f.e[0], 3, .target = "/c"), 3);
	f.how = FAILS;
	f.away = true;
	f.decided = 0;
	for (int i = 0; i < 50; i++) {
		assert_int_equal(ASK(f.e[0], .target = "/c"), WEIR_ANSWER_STORE_UNAVAILABLE);
		engine_advance(f.e[0], 700);
	}
	assert_int_equal(f.decided, 0);
	back(&f);
	assert_int_equal(PASSING(f.e[0], 20, .target = "/c"), 7);
	assert_int_equal(f.e[0]->answer.code, WEIR_ANSWER_RATE_LIMITED);
	done(&f);
}

/* A Cluster has others: their clients are counted by the fleet. */
static void a_node_that_is_away_is_not_the_store(void **state)
{
	__u8 key[WEIR_STORE_KEY_BYTES];
	unsigned passed = 0;
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n" FIXED("a", "10", ""));
	assert_int_equal(ASK(f.e[0], .target = "/a", .ip = "198.51.100.2"), WEIR_ANSWER_ALLOW);
	memcpy(key, f.key, sizeof(key));
	f.lost = key;
	for (int i = 0; i < 30; i++) {
		(void)ASK(f.e[i % AGENTS], .target = "/a", .ip = "198.51.100.2");
		passed += ASK(f.e[i % AGENTS], .target = "/a") == WEIR_ANSWER_ALLOW;
	}
	assert_int_equal(passed, 10);
	assert_int_equal(engine_counts(f.e[0], "a").n[WEIR_L7_LOCAL], 10); /* of the other */
	done(&f);
}

/* --- the agent's own questions ---- */

static void whoever_has_no_loop_waits_for_the_answer(void **state)
{
	struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {198, 51, 100, 1}}};
	struct weir_l7_who who = {.ip = &ip};
	struct weir_error error = {""};
	struct fleet f;
	struct engine *x;
	size_t n = 0;

	(void)state;
	begin(&f, BOTH);
	engine_free(f.e[2]);
	f.e[2] = x = agent_of(&f, BOTH, secret, false);
	assert_int_equal(ALL(&f, 6, .target = "/"), 6);
	f.how = LATER; /* never: for the budget, no longer */
	assert_int_equal(ASK(x, .target = "/"), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_stats(x).over_budget, 1);
	back(&f);
	deliver(&f);
	assert_int_equal(weir_l7_reset(x->w, "all", &who, &n, &error), 0);
	assert_int_equal(n, 1);
	assert_int_equal(ASK(f.e[0], .target = "/", .peek = true), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(f.e[0], "all")->remaining, 12);
	assert_int_equal(weir_l7_reset(x->w, "all", NULL, &n, &error), -EINVAL);
	assert_non_null(strstr(error.text, "the whole fleet"));
	assert_int_equal(weir_l7_reset(x->w, "back-end", NULL, &n, &error), 0);
	done(&f);
}

static void on_connected(evutil_socket_t fd, short what, void *arg)
{
	struct fleet *f = arg;

	(void)fd;
	(void)what;
	f->how = NOW;
}

static void on_view(void *arg, const struct weir_l7_view *view)
{
	(void)view;
	++*(unsigned *)arg;
}

/* As after a start, or when the server comes back: nobody has turned the loop since. */
static void a_connection_comes_back_with_the_question(void **state)
{
	const struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {198, 51, 100, 1}}};
	const struct weir_l7_who who = {.ip = &ip};
	const struct timeval soon = {.tv_usec = 2000};
	struct weir_error error = {""};
	unsigned views = 0;
	struct engine *x;
	struct fleet f;
	size_t n = 9;

	(void)state;
	begin(&f, BOTH);
	engine_free(f.e[2]);
	f.e[2] = x = agent_of(&f, BOTH, secret, false);
	f.how = FAILS;
	assert_int_equal(event_base_once(f.last, -1, EV_TIMEOUT, on_connected, &f, &soon), 0);
	assert_int_equal(weir_l7_inspect(x->w, &who, "all", on_view, &views), 0);
	assert_int_equal(views, 1);
	f.how = FAILS;
	assert_int_equal(event_base_once(f.last, -1, EV_TIMEOUT, on_connected, &f, &soon), 0);
	assert_int_equal(weir_l7_reset(x->w, "all", &who, &n, &error), 0);
	f.how = FAILS; /* and stays so: an error, after a while */
	assert_true(weir_l7_inspect(x->w, &who, "all", on_view, &views) < 0);
	done(&f);
}

static void what_everybody_shares_is_reset_for_the_fleet(void **state)
{
	static const char conf[] = "request_limits:\n"
				   "  - {name: g, match: {path: /g}, key: global, algorithm: "
				   "fixed-window, limit: 3, window: 1h}\n"
				   "  - {name: e, match: {path: /e, method: PUT}, key: endpoint, "
				   "algorithm: fixed-window, limit: 3, window: 1h}\n"
				   "  - {name: any, match: {path: /any}, key: endpoint, "
				   "algorithm: fixed-window, limit: 3, window: 1h}\n";
	struct weir_error error = {""};
	struct fleet f;
	size_t n = 9;

	(void)state;
	begin(&f, conf);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ALL(&f, 5, .target = "/g"), 3);
		assert_int_equal(weir_l7_reset(f.e[i]->w, "g", NULL, &n, &error), 0);
		assert_int_equal(ALL(&f, 5, .target = "/e", .method = "PUT"), 3);
		assert_int_equal(weir_l7_reset(f.e[i]->w, "e", NULL, &n, &error), 0);
	}
	assert_int_equal(ALL(&f, 5, .target = "/any", .method = "TEAPOT"), 3);
	assert_int_equal(weir_l7_reset(f.e[0]->w, "any", NULL, &n, &error), 0);
	assert_int_equal(ALL(&f, 5, .target = "/any", .method = "TEAPOT"), 3);
	done(&f);
}

static void states_of_one_address_say_so(void **state)
{
	static const __u8 none[WEIR_STORE_TAG_BYTES];
	__u8 tag[WEIR_STORE_TAG_BYTES];
	struct fleet f;

	(void)state;
	begin(&f, "request_limits:\n"
		  "  - {name: a, match: {path: /a}, key: [ip, endpoint], rate: 5/s}\n"
		  "  - {name: b, match: {path: /b}, key: [ip, user-agent], rate: 5/s}\n"
		  "  - {name: c, match: {path: /c}, key: ip, rate: 5/s}\n");
	(void)ASK(f.e[0], .target = "/a");
	memcpy(tag, f.tag, sizeof(tag));
	assert_memory_not_equal(tag, none, sizeof(tag));
	(void)ASK(f.e[1], .target = "/b", .header = {"User-Agent: x"});
	assert_memory_equal(tag, f.tag, sizeof(tag));
	(void)ASK(f.e[1], .target = "/c"); /* that of its own bytes is the same */
	assert_memory_equal(none, f.tag, sizeof(tag));
	done(&f);
}

int main(void)
{
	const struct CMUnitTest without_a_store[] = {
		cmocka_unit_test(each_agent_grants_its_part),
		cmocka_unit_test(a_share_that_is_set_counts),
		cmocka_unit_test(a_cost_above_the_share_takes_all_of_it),
		cmocka_unit_test(what_was_granted_here_is_not_counted_there),
		cmocka_unit_test(short_failures_grant_one_share),
		cmocka_unit_test(while_it_is_away_a_host_still_counts_all_or_none),
		cmocka_unit_test(new_keys_are_counted_here_too),
		cmocka_unit_test(a_failure_is_never_called_rate_limited),
		cmocka_unit_test(refunds_and_looks_reach_this_host_alone),
		cmocka_unit_test(a_host_without_room_is_a_store_that_is_away_too),
		cmocka_unit_test(an_open_limit_is_counted_as_unjudged_and_nothing_else),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agents_count_together),
		cmocka_unit_test(another_secret_counts_another_client),
		cmocka_unit_test(until_the_secret_is_known_each_host_is_alone),
		cmocka_unit_test(a_flood_of_one_key_asks_the_store_a_few_times),
		cmocka_unit_test(a_hot_key_with_a_lease_is_asked_for_rarely),
		cmocka_unit_test(a_changed_limit_acts_on_who_was_refused),
		cmocka_unit_test(limits_of_a_host_and_of_the_fleet_are_charged_all_or_none),
		cmocka_unit_test(limits_of_this_host_alone_never_ask_the_store),
		cmocka_unit_test(a_host_that_is_full_meanwhile_gives_the_fleet_its_charge_back),
		cmocka_unit_test(monitor_limits_of_both_kinds_count_by_themselves),
		cmocka_unit_test(refunds_reach_both),
		cmocka_unit_test(
			a_store_that_says_so_is_not_asked_and_its_return_is_noticed_at_once),
		cmocka_unit_test(a_node_that_is_away_is_not_the_store),
		cmocka_unit_test(whoever_has_no_loop_waits_for_the_answer),
		cmocka_unit_test(a_connection_comes_back_with_the_question),
		cmocka_unit_test(what_everybody_shares_is_reset_for_the_fleet),
		cmocka_unit_test(states_of_one_address_say_so),
	};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	failed += cmocka_run_group_tests_name("away", without_a_store, NULL, NULL);
	says_so = true;
	return failed +
	       cmocka_run_group_tests_name("away, and it says so", without_a_store, NULL, NULL);
}
