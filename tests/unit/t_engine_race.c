/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's engine under threads: exactly what the limits admit, whatever else goes on; and what one check
 * costs.
 */
#include <pthread.h>

#include "engine_case.h"

#define THREADS 8
#define TRIES	400 /* of each */

struct hammer {
	struct weir_l7 *l7;
	pthread_barrier_t start;
	unsigned admitted;
	bool stop;
};

static void on_done(void *arg, struct weir_l7_call *call)
{
	*(bool *)arg = weir_l7_call_answer(call)->code == WEIR_ANSWER_ALLOW;
}

static bool ask(struct weir_l7_worker *w, const struct weir_prefix *ip)
{
	static const struct weir_header_list none = {.n = 0};
	struct weir_l7_query q = {.method = weir_text_of("POST"),
				  .target = weir_text_of("/api/x?y"),
				  .headers = &none,
				  .client = ip,
				  .client_seen = true,
				  .may_wait = true};
	struct weir_l7_call *call;
	bool admitted = false;

	assert_int_equal(weir_l7_ask(w, &q, on_done, &admitted, &call), 0);
	weir_l7_call_free(call);
	return admitted;
}

static void *hammer(void *arg)
{
	struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {198, 51, 100, 1}}};
	struct weir_l7_worker *w;
	struct hammer *h = arg;

	assert_int_equal(weir_l7_worker_new(h->l7, NULL, &w), 0);
	pthread_barrier_wait(&h->start);
	for (unsigned i = 0; i < TRIES; i++)
		if (ask(w, &ip))
			(void)__atomic_add_fetch(&h->admitted, 1, __ATOMIC_RELAXED);
	weir_l7_worker_free(w);
	return NULL;
}

static void run(struct hammer *h, void *(*other)(void *))
{
	pthread_t t[THREADS], one;

	h->admitted = 0;
	h->stop = false;
	assert_int_equal(pthread_barrier_init(&h->start, NULL, THREADS), 0);
	if (other)
		assert_int_equal(pthread_create(&one, NULL, other, h), 0);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, hammer, h), 0);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	__atomic_store_n(&h->stop, true, __ATOMIC_RELAXED);
	if (other)
		assert_int_equal(pthread_join(one, NULL), 0);
	pthread_barrier_destroy(&h->start);
}

#define RULES(algorithm)                                                                           \
	"request_limits:\n"                                                                        \
	"  - {name: narrow, key: [ip, endpoint], match: {path: /api/*}, algorithm: " algorithm     \
	"}\n"                                                                                      \
	"  - {name: wide, key: ip, algorithm: fixed-window, limit: 150, window: day}\n"            \
	"escalate:\n"                                                                              \
	"  - {name: e, limits: [narrow], refused: 100, within: 1h, block_for: 1m, at_most: 1000 "  \
	"per 60s}\n"

static void threads_get_exactly_what_the_limit_admits(void **state)
{
	static const char *const rules[] = {
		RULES("token-bucket, rate: 100/d, burst: 100"),
		RULES("fixed-window, limit: 100, window: day"),
		RULES("sliding-window-log, limit: 100, window: 1d"),
		RULES("sliding-window-counter, limit: 100, window: 1d"),
		RULES("leaky-bucket, rate: 100/s, queue: 99, max_wait: 1s"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		_cleanup_(engine_freep) struct engine *e = engine_of(rules[i]);
		struct hammer h = {.l7 = e->l7};
		struct weir_l7_event event;
		unsigned due = 0;

		run(&h, NULL);
		assert_int_equal(h.admitted, 100);
		assert_int_equal(engine_stats(e).checks, THREADS * TRIES);
		assert_int_equal(engine_stats(e).allowed, 100);
		assert_int_equal(engine_stats(e).refused, THREADS * TRIES - 100);
		assert_int_equal(engine_counts(e, "wide").n[WEIR_L7_PASSED], 100);
		assert_int_equal(engine_counts(e, "narrow").n[WEIR_L7_REFUSED],
				 THREADS * TRIES - 100);
		/* 3100 refusals: each hundredth makes one escalation, and only one */
		while (weir_l7_events_take(e->l7, &event))
			due += event.kind == WEIR_L7_EVENT_ESCALATE;
		assert_true(due >= 1 && due <= 31);
		assert_int_equal(due, engine_stats(e).escalated);
	}
}

static const char *const both[] = {
	"request_limits:\n  - {name: a, key: ip, algorithm: fixed-window, limit: 500, window: "
	"day}\n",
	"request_limits:\n"
	"  - {name: b, match: {path: /none}, key: ip, rate: 10/s}\n"
	"  - {name: a, key: ip, algorithm: fixed-window, limit: 500, window: day}\n"
	"suspicious: {refused: {limits: [a], count: 50, within: 60s}, lasts: 1m, limit: {key: [ip, "
	"method], rate: 1000/s, burst: 100000}}\n",
};

/* Rules change, are looked at and swept all the time. */
static void *meddle(void *arg)
{
	struct weir_l7_limit_stats limits[16];
	struct weir_l7_stats stats;
	struct weir_l7_event event;
	struct weir_l7_loud loud[8];
	struct hammer *h = arg;
	unsigned i = 0;

	while (!__atomic_load_n(&h->stop, __ATOMIC_RELAXED)) {
		_cleanup_(weir_conf_freep) struct weir_conf *conf = engine_conf(both[++i % 2]);
		_cleanup_free_ char *note = NULL;
		struct weir_error error;

		assert_int_equal(weir_l7_configure(h->l7, conf, &note, &error), 0);
		weir_l7_stats(h->l7, &stats);
		(void)weir_l7_limits(h->l7, limits, ARRAY_LEN(limits));
		(void)weir_l7_loud(h->l7, loud, ARRAY_LEN(loud));
		while (weir_l7_events_take(h->l7, &event))
			;
		weir_l7_sweep(h->l7);
	}
	return NULL;
}

static void changes_of_the_rules_lose_no_count(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(both[0]);
	struct hammer h = {.l7 = e->l7};

	(void)state;
	run(&h, meddle);
	assert_int_equal(h.admitted, 500);
	assert_int_equal(engine_counts(e, "a").n[WEIR_L7_PASSED], 500);
	assert_int_equal(engine_counts(e, "a").n[WEIR_L7_REFUSED], THREADS * TRIES - 500);
}

static __u64 cpu_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (__u64)t.tv_sec * 1000000000 + (__u64)t.tv_nsec;
}

#define CHECKS 200000

static void what_a_check_costs(void **state)
{
	static const unsigned clients[] = {1, 1000, 50000};
	_cleanup_(engine_freep) struct engine *e =
		engine_of("request_limits:\n"
			  "  - {name: per-address, key: ip, rate: 100000/s, burst: 1000000}\n"
			  "  - {name: api, key: [ip, endpoint], match: {path: /api/*}, algorithm: "
			  "sliding-window-counter, limit: 100000000, window: 60s}\n");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
		struct weir_prefix ip = {.family = 4, .len = 32};
		__u64 begin = 0;

		for (unsigned k = 0; k < CHECKS + clients[i]; k++) {
			if (k == clients[i])
				begin = cpu_ns(); /* everybody has a state */
			ip.addr.word[0] = k % clients[i] * 2654435761u;
			assert_true(ask(e->w, &ip));
		}
		print_message("two limits, %u clients: %llu ns of CPU a check, answer included\n",
			      clients[i], (cpu_ns() - begin) / CHECKS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_get_exactly_what_the_limit_admits),
		cmocka_unit_test(changes_of_the_rules_lose_no_count),
		cmocka_unit_test(what_a_check_costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
