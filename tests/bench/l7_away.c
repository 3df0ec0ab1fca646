/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See l7_away.h. All cases run in this one thread and take turns of a fraction of a millisecond; a round's figure is that
 * of the case's fastest turn in it, so that what else the machine does hits a round of all cases or none. What one case
 * measures twice (EMBEDDED, EMBEDDED_AGAIN: two engines of one configuration) says how far to trust a ratio: by
 * where their memory lies two engines differ by some percent.
 */
#include "tests/bench/l7_away.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/l7.h"
#include "user/base/cleanup.h"
#include "user/config/conf.h"
#include "user/l7/engine.h"
#include "user/redis/redis.h"

#define ASKED_A_TURN 500
#define TURNS	     40
#define CLIENTS	     1000
#define WIDE	     "1000000", "1/m" /* all pass */
#define NARROW	     "1", "1/h"	      /* one of each client, and that before anything is measured */

/* Bar of the project: no more than an embedded answer, and what ratios of two engines of one configuration differ by. */
#define BAR_AWAY 1.00
#define NOISE	 0.02

enum { EMBEDDED, EMBEDDED_AGAIN, EMBEDDED_REFUSED, LOCAL, LOCAL_REFUSED, OPEN, CLOSED, CASES };
static const struct {
	const char *name, *what;
	bool shared;
	int base;
	enum weir_answer_code code;
	const char *limit, *rate, *on_failure;
} cases[CASES] = {
	[EMBEDDED] = {"embedded", "no Redis is configured", false, EMBEDDED, WEIR_ANSWER_ALLOW,
		      WIDE, "local"},
	[EMBEDDED_AGAIN] = {"embedded-again", "the same once more: what a ratio is worth", false,
			    EMBEDDED, WEIR_ANSWER_ALLOW, WIDE, "local"},
	[EMBEDDED_REFUSED] = {"embedded-refused", "the same, all refused", false, EMBEDDED_REFUSED,
			      WEIR_ANSWER_RATE_LIMITED, NARROW, "local"},
	[LOCAL] = {"away-local", "Redis is away, on_store_failure: local", true, EMBEDDED,
		   WEIR_ANSWER_ALLOW, WIDE, "local"},
	[LOCAL_REFUSED] = {"away-local-refused", "the same, all refused; ratio to embedded-refused",
			   true, EMBEDDED_REFUSED, WEIR_ANSWER_RATE_LIMITED, NARROW, "local"},
	[OPEN] = {"away-open", "open", true, EMBEDDED, WEIR_ANSWER_ALLOW, WIDE, "open"},
	[CLOSED] = {"away-closed", "closed; ratio to embedded-refused", true, EMBEDDED_REFUSED,
		    WEIR_ANSWER_STORE_UNAVAILABLE, WIDE, "closed"},
};

enum { ONE, TWO, SHAPES };
static const struct {
	const char *name, *limits; /* of each: how many, on_store_failure; of the second, a rate */
} shapes[SHAPES] = {
	[ONE] = {"one limit", "  - {name: api, match: {path: /api/*}, key: [ip, endpoint],\n"
			      "     algorithm: sliding-window-counter, limit: %s, window: 24h,\n"
			      "     on_store_failure: %s}\n"},
	[TWO] = {"two limits", "  - {name: api, match: {path: /api/*}, key: [ip, endpoint],\n"
			       "     algorithm: sliding-window-counter, limit: %s, window: 24h,\n"
			       "     on_store_failure: %s}\n"
			       "  - {name: per-address, key: ip, burst: %s, rate: %s,\n"
			       "     on_store_failure: %s}\n"},
};

struct engine {
	struct weir_l7 *l7;
	struct weir_l7_worker *w;
	double ns[ROUNDS_MAX];
};
struct away_bench {
	struct event_base *base;
	char url[160];
	struct engine all[SHAPES][CASES];
	uint64_t wrong;
};

/* --- coming and going ---------------------------------------------------------------------- */

static int store_of(void *arg, struct event_base *base, struct weir_store **ret)
{
	const struct away_bench *b = arg;
	struct weir_redis_options o = {.timeout_ns = 5 * MS_NS,
				       .breaker_errors = 20,
				       .breaker_within_ns = 1000 * MS_NS,
				       .probe_ns = 500 * MS_NS,
				       .batch_max = 64,
				       .waiting_max = 10000,
				       .quiet = true};
	struct weir_redis_url u;
	struct weir_error e = {};
	int r = weir_redis_url_parse(b->url, &u, &e);

	if (r < 0)
		return r;
	o.url = &u;
	r = weir_store_redis_new(base, &o, ret, &e);
	weir_redis_url_done(&u);
	return r;
}

static int start(struct away_bench *b, int shape, int i, struct weir_error *e)
{
	static const unsigned char secret[32] = "the secret of the whole fleet!!";
	const struct weir_l7_options shared = {.store_of = store_of,
					       .store_arg = b,
					       .secret = secret},
				     embedded = {.secret = secret};
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {};
	_cleanup_(weir_conf_freep) struct weir_conf *conf = NULL;
	struct engine *x = &b->all[shape][i];
	char limits[512], text[1024];
	int r;

	(void)snprintf(limits, sizeof(limits), shapes[shape].limits, cases[i].limit,
		       cases[i].on_failure, cases[i].limit, cases[i].rate, cases[i].on_failure);
	(void)snprintf(text, sizeof(text), "interfaces: []\n%s%s%srequest_limits:\n%s",
		       cases[i].shared ? "store: {url: \"" : "", cases[i].shared ? b->url : "",
		       cases[i].shared ? "\"}\n" : "", limits);
	r = weir_conf_parse("bench", text, strlen(text), &conf, &problems);
	if (r < 0)
		weir_conf_problems_print(&problems, "bench", stderr);
	if (r >= 0)
		r = weir_l7_new(conf, cases[i].shared ? &shared : &embedded, &x->l7, e);
	return r < 0 ? r : weir_l7_worker_new(x->l7, b->base, &x->w);
}

void away_close(struct away_bench *b)
{
	if (!b)
		return;
	for (int s = 0; s < SHAPES; s++)
		for (int i = 0; i < CASES; i++) {
			weir_l7_worker_free(b->all[s][i].w);
			weir_l7_free(b->all[s][i].l7);
		}
	if (b->base)
		event_base_free(b->base);
	free(b);
}

/* --- measuring ----------------------------------------------------------------------------- */

struct turn {
	struct engine *x;
	enum weir_answer_code code;
	uint64_t wrong;
};

static void answered(void *arg, struct weir_l7_call *call)
{
	struct turn *t = arg;

	t->wrong += weir_l7_call_answer(call)->code != t->code;
	weir_l7_call_free(call);
}

static uint64_t thread_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* Processor time of a check, in one turn. */
static double ask_some(struct turn *t)
{
	struct weir_header_list headers = {.n = 0};
	struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {10, 0, 0, 0}}};
	const struct weir_l7_query q = {.profile = WEIR_ANSWER_CADDY,
					.method = weir_text_of("GET"),
					.target = weir_text_of("/api/items"),
					.headers = &headers,
					.client = &ip,
					.client_seen = true};
	uint64_t began_ns = thread_ns();
	struct weir_l7_call *call;

	for (unsigned i = 0; i < ASKED_A_TURN; i++) {
		unsigned client = i * 7919 % CLIENTS;

		ip.addr.ip[2] = (__u8)(client >> 8);
		ip.addr.ip[3] = (__u8)client;
		t->wrong += weir_l7_ask(t->x->w, &q, answered, t, &call) < 0;
	}
	return (double)(thread_ns() - began_ns) / ASKED_A_TURN;
}

/* Each case's fastest turn. */
static void measure_shape(struct away_bench *b, int shape, int round, int turns)
{
	double least[CASES] = {};

	for (int t = 0; t < turns; t++)
		for (int k = 0; k < CASES; k++) {
			int i = (t + k) % CASES; /* nobody always comes after the same one */
			struct turn turn = {.x = &b->all[shape][i], .code = cases[i].code};
			double ns = ask_some(&turn);

			if (!least[i] || ns < least[i])
				least[i] = ns;
			b->wrong += turn.wrong;
		}
	for (int i = 0; i < CASES; i++)
		b->all[shape][i].ns[round] = least[i];
}

void away_measure(struct away_bench *b, int round)
{
	(void)event_base_loop(b->base, EVLOOP_NONBLOCK); /* they go on trying to connect */
	for (int s = 0; s < SHAPES; s++)
		measure_shape(b, s, round, TURNS);
}

int away_open(const char *dir, struct away_bench **ret)
{
	struct away_bench *b = calloc(1, sizeof(*b));
	struct weir_error e = {};
	int r = b ? 0 : -ENOMEM;

	*ret = NULL;
	if (b) {
		(void)snprintf(b->url, sizeof(b->url), "redis+unix://%s/none.sock", dir);
		b->base = event_base_new();
		r = b->base ? 0 : -ENOMEM;
	}
	for (int s = 0; s < SHAPES; s++)
		for (int i = 0; r >= 0 && i < CASES; i++)
			r = start(b, s, i, &e);
	if (r < 0) {
		(void)bench_complain("away", r, e.text);
		away_close(b);
		return 1;
	}
	away_measure(b, 0); /* every state is made, and no server found */
	b->wrong = 0;
	*ret = b;
	return 0;
}

/* --- what came out ------------------------------------------------------------------------- */

static double ratio(const struct away_bench *b, int shape, int i, int rounds)
{
	return bench_median(b->all[shape][i].ns, b->all[shape][cases[i].base].ns, rounds);
}

void away_print(const struct away_bench *b, int rounds)
{
	printf("%-22s", "while Redis is away");
	for (int s = 0; s < SHAPES; s++)
		printf("%12s%8s", shapes[s].name, "ratio");
	printf("  ns of processor time for a check, without HTTP\n");
	for (int i = 0; i < CASES; i++) {
		printf("%-22s", cases[i].name);
		for (int s = 0; s < SHAPES; s++)
			printf("%12.0f%8.3f", bench_median(b->all[s][i].ns, NULL, rounds),
			       ratio(b, s, i, rounds));
		printf("  %s\n", cases[i].what);
	}
	printf("\n");
}

void away_json(const struct away_bench *b, int rounds, json_t *out)
{
	for (int s = 0; s < SHAPES; s++)
		for (int i = 0; i < CASES; i++)
			json_array_append_new(out,
					      json_pack("{s:s,s:s,s:i,s:f,s:f}", "case",
							cases[i].name, "what", "away", "limits",
							s + 1, "check_ns",
							bench_median(b->all[s][i].ns, NULL, rounds),
							"ratio", ratio(b, s, i, rounds)));
}

int away_judge(const struct away_bench *b, int rounds)
{
	int missed = 0;

	for (int s = 0; s < SHAPES; s++)
		for (int i = 0; i < CASES; i++) {
			double reached = ratio(b, s, i, rounds);

			if (!cases[i].shared || reached <= BAR_AWAY + NOISE)
				continue;
			printf("missed: %s, %s: %.3f of an embedded answer (bar %.2f, and %.2f "
			       "for noise)\n",
			       cases[i].name, shapes[s].name, reached, BAR_AWAY, NOISE);
			missed++;
		}
	if (b->wrong) {
		printf("missed: %" PRIu64 " answers without Redis are not what they should be\n",
		       b->wrong);
		missed++;
	}
	return missed;
}

void away_say(const struct away_bench *b, int rounds)
{
	double most = 0;

	for (int s = 0; s < SHAPES; s++)
		for (int i = 0; i < CASES; i++)
			if (cases[i].shared && ratio(b, s, i, rounds) > most)
				most = ratio(b, s, i, rounds);
	printf("; without Redis an answer takes %.2f of an embedded one (bar %.2f)", most,
	       BAR_AWAY + NOISE);
}
