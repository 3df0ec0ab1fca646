/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the values of one request limit mean together: what belongs to its algorithm, defaults that follow from others,
 * whether a store can count it exactly, and what is rarely meant. Called when a limit is read, and by set.c.
 */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/schema.h"

#define SECTION	  "request_limits"
#define SECOND_NS 1000000000ull

static const yaml_node_t *at(const struct weir_reader *r, const char *key)
{
	return weir_reader_at(r, SECTION, key);
}

/* Said, rightly or wrongly. */
static unsigned there(const struct weir_reader *r, const struct weir_conf_request_limit *l)
{
	return l->given | (r->marks ? r->marks->bad : 0);
}

static size_t plans_of(const struct weir_conf *c)
{
	return c->request.n_plan ? c->request.n_plan : 1;
}

/* " for plan pro", where that says anything. */
static const char *for_plan(const struct weir_conf *c, size_t plan, char *buf, size_t n)
{
	*buf = '\0';
	if (c->request.n_plan > 1)
		(void)snprintf(buf, n, " for plan %s", c->request.plan[plan]); /* it fits */
	return buf;
}
#define FOR_PLAN_MAX (WEIR_NAME_MAX + 16)

/* --- what belongs to which algorithm ---- */

static const struct {
	unsigned bit;
	const char *key, *algorithm; /* an algorithm that has it */
} settings[] = {
	{WEIR_REQUEST_GIVEN_RATE, "rate", "token-bucket"},
	{WEIR_REQUEST_GIVEN_BURST, "burst", "token-bucket"},
	{WEIR_REQUEST_GIVEN_LIMIT, "limit", "sliding-window-counter"},
	{WEIR_REQUEST_GIVEN_WINDOW, "window", "sliding-window-counter"},
	{WEIR_REQUEST_GIVEN_QUEUE, "queue", "leaky-bucket"},
	{WEIR_REQUEST_GIVEN_MAX_WAIT, "max_wait", "leaky-bucket"},
	{WEIR_REQUEST_GIVEN_TIMEZONE, "timezone", "fixed-window"},
};

#define WINDOW (WEIR_REQUEST_GIVEN_LIMIT | WEIR_REQUEST_GIVEN_WINDOW)

static const struct {
	unsigned needs, may_have;
	const char *words;
} of_algorithm[WEIR_REQUEST_ALGORITHM_MAX] = {
	[WEIR_REQUEST_TOKEN_BUCKET] = {WEIR_REQUEST_GIVEN_RATE, WEIR_REQUEST_GIVEN_BURST,
				       "rate and burst"},
	[WEIR_REQUEST_LEAKY_BUCKET] = {WEIR_REQUEST_GIVEN_RATE,
				       WEIR_REQUEST_GIVEN_QUEUE | WEIR_REQUEST_GIVEN_MAX_WAIT,
				       "rate, queue and max_wait"},
	[WEIR_REQUEST_FIXED_WINDOW] = {WINDOW, WEIR_REQUEST_GIVEN_TIMEZONE, "limit and window"},
	[WEIR_REQUEST_SLIDING_LOG] = {WINDOW, 0, "limit and window"},
	[WEIR_REQUEST_SLIDING_COUNTER] = {WINDOW, 0, "limit and window"},
};

unsigned weir_request_algorithm_lacks(enum weir_request_algorithm algorithm)
{
	unsigned lacks = 0;

	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		lacks |= settings[i].bit;
	return lacks & ~(of_algorithm[algorithm].needs | of_algorithm[algorithm].may_have);
}

static void refuse_foreign(const struct weir_reader *r, const struct weir_conf_request_limit *l)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		if (there(r, l) & settings[i].bit & weir_request_algorithm_lacks(l->algorithm))
			weir_reader_error(r, at(r, settings[i].key),
					  "%s: a %s has %s (or say algorithm: %s)", settings[i].key,
					  weir_request_algorithm_name(l->algorithm),
					  of_algorithm[l->algorithm].words, settings[i].algorithm);
}

/* `limit "NAME"`, or what can be said without a name. */
static void lacks(const struct weir_reader *r, const struct weir_conf_request_limit *l,
		  const char *what, const char *example)
{
	const yaml_node_t *where = r->marks ? r->marks->node : NULL;

	if (*l->name)
		weir_reader_error(r, where, "limit \"%s\" has no %s (for example %s)", l->name,
				  what, example);
	else
		weir_reader_error(r, where, "this limit has no %s (for example %s)", what, example);
}

/* Is all there to go on with? What is missing is said, unless something foreign stands in its stead. */
static bool has_needed(const struct weir_reader *r, const struct weir_conf_request_limit *l)
{
	static const struct {
		unsigned bit;
		const char *key, *example;
	} rows[] = {
		{WEIR_REQUEST_GIVEN_RATE, "rate", "rate: 10/s"},
		{WEIR_REQUEST_GIVEN_LIMIT, "limit", "limit: 60"},
		{WEIR_REQUEST_GIVEN_WINDOW, "window", "window: 60s"},
	};
	unsigned needs = of_algorithm[l->algorithm].needs, is = there(r, l);
	bool foreign = !weir_request_has_window(l->algorithm) && is & WEIR_REQUEST_GIVEN_LIMIT;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (needs & rows[i].bit && !(is & rows[i].bit) && !foreign)
			lacks(r, l, rows[i].key, rows[i].example);
	return (l->given & needs) == needs && !((r->marks ? r->marks->bad : 0) & needs);
}

/* --- windows by the calendar ---- */

static int settle_window(const struct weir_reader *r, struct weir_conf_request_limit *l)
{
	bool calendar = l->window_kind != WEIR_WINDOW_LENGTH;

	if (calendar && l->algorithm != WEIR_REQUEST_FIXED_WINDOW)
		weir_reader_error(r, at(r, "window"),
				  "window: only fixed-window goes by the calendar (1d for any 24 "
				  "hours, or algorithm: fixed-window)");
	else if (!calendar && there(r, l) & WEIR_REQUEST_GIVEN_TIMEZONE)
		weir_reader_error(r, at(r, "timezone"),
				  "timezone: this limit does not go by the calendar (algorithm: "
				  "fixed-window with window: day, week or month does)");
	if (!calendar && l->window_ns % 1000)
		weir_reader_error(r, at(r, "window"),
				  "window: no whole number of microseconds (for example 60s)");
	if (calendar && !l->timezone) {
		l->timezone = strdup("UTC");
		if (!l->timezone)
			return -ENOMEM;
	}
	return 0;
}

/* --- buckets: defaults ---- */

/* One second's worth, rounded up, at least 1. */
static __u64 one_second(const struct weir_conf_rate *rate, __u64 most)
{
	unsigned __int128 v =
		((unsigned __int128)rate->count * SECOND_NS + rate->per_ns - 1) / rate->per_ns;

	return v > most ? most : v ? (__u64)v : 1;
}

/* Until the last of the queue leaves, in whole microseconds, at most a second. */
static __u64 whole_wait(const struct weir_conf_rate *rate, __u64 queue)
{
	unsigned __int128 v =
		((unsigned __int128)queue * rate->per_ns + rate->count - 1) / rate->count;

	return v > SECOND_NS ? SECOND_NS : (__u64)(v + 999) / 1000 * 1000;
}

static void fill_bucket(const struct weir_reader *r, struct weir_conf_request_limit *l)
{
	for (size_t i = 0; i < plans_of(r->conf); i++) {
		if (!(l->given & WEIR_REQUEST_GIVEN_BURST))
			l->burst[i] = one_second(&l->rate[i], WEIR_REQUEST_EXACT_MAX - 1);
		if (!(l->given & WEIR_REQUEST_GIVEN_QUEUE))
			l->queue[i] = one_second(&l->rate[i], 1000000);
		if (!(l->given & WEIR_REQUEST_GIVEN_MAX_WAIT))
			l->max_wait_ns[i] = whole_wait(&l->rate[i], l->queue[i]);
	}
}

/* --- can a store count it? ---- */

static void refuse_inexact(const struct weir_reader *r, const struct weir_conf_request_limit *l,
			   size_t plan)
{
	char who[FOR_PLAN_MAX];

	for_plan(r->conf, plan, who, sizeof(who));
	switch (l->algorithm) {
	case WEIR_REQUEST_SLIDING_LOG:
		weir_reader_error(
			r, at(r, "limit"),
			"limit: %llu%s is too much for sliding-window-log, which keeps the time of "
			"each request (at most %d; sliding-window-counter keeps two numbers)",
			l->limit[plan], who, WEIR_STORE_LOG_MAX);
		break;
	case WEIR_REQUEST_SLIDING_COUNTER:
		weir_reader_error(r, at(r, "limit"),
				  "limit: %llu%s is too much for sliding-window-counter (below "
				  "%llu; a shorter window, or fixed-window)",
				  l->limit[plan], who, 1ull << 32);
		break;
	case WEIR_REQUEST_FIXED_WINDOW:
		weir_reader_error(r, at(r, "limit"), "limit: %llu%s cannot be counted exactly",
				  l->limit[plan], who);
		break;
	default:
		weir_reader_error(
			r, at(r, l->algorithm == WEIR_REQUEST_TOKEN_BUCKET ? "burst" : "queue"),
			"rate and %s%s cannot be counted exactly together (a rounder rate such as "
			"10/s, or a smaller %s)",
			l->algorithm == WEIR_REQUEST_TOKEN_BUCKET ? "burst" : "queue", who,
			l->algorithm == WEIR_REQUEST_TOKEN_BUCKET ? "burst" : "queue");
	}
}

/* What one request can take at most. */
static __u64 room_of(const struct weir_conf_request_limit *l, const struct weir_store_limit *s,
		     size_t plan)
{
	if (weir_request_has_window(l->algorithm))
		return l->limit[plan];
	return s->bucket.size_parts / s->bucket.period_us;
}

static const char *room_name(const struct weir_conf_request_limit *l)
{
	return weir_request_has_window(l->algorithm)	   ? "limit"
	       : l->algorithm == WEIR_REQUEST_TOKEN_BUCKET ? "burst"
							   : "queue and max_wait";
}

static void check_cost(const struct weir_reader *r, struct weir_conf_request_limit *l, __u64 room,
		       size_t plan)
{
	const struct weir_conf_cost *cost = &l->cost;
	__u64 least = cost->from_proxy ? cost->min : cost->fixed;
	char who[FOR_PLAN_MAX];

	for_plan(r->conf, plan, who, sizeof(who));
	if (least > room)
		weir_reader_error(r, weir_reader_has(r, SECTION, "cost") ? at(r, "cost") : NULL,
				  "cost: %llu is above what %s%s can hold (%llu%s), so that no "
				  "request would ever pass",
				  least, room_name(l), who, room,
				  there(r, l) & (WEIR_REQUEST_GIVEN_BURST |
						 WEIR_REQUEST_GIVEN_LIMIT |
						 WEIR_REQUEST_GIVEN_QUEUE)
					  ? ""
					  : ", the default");
	else if (cost->from_proxy && cost->max > room)
		weir_reader_warn(r, at(r, "cost"),
				 "cost: a request of more than %llu never passes%s, and max is "
				 "%llu (max: %llu, or a larger %s)",
				 room, who, cost->max, room,
				 weir_request_has_window(l->algorithm)	     ? "limit"
				 : l->algorithm == WEIR_REQUEST_TOKEN_BUCKET ? "burst"
									     : "queue");
}

static void check_numbers(const struct weir_reader *r, struct weir_conf_request_limit *l)
{
	size_t before = r->problems->n_errors;
	bool most = l->cost.from_proxy && !(l->given & WEIR_REQUEST_GIVEN_COST_MAX);
	char who[FOR_PLAN_MAX];
	__u64 least = ~0ull;

	if (most)
		l->cost.max = 0;
	for (size_t i = 0; i < plans_of(r->conf); i++) {
		struct weir_store_limit s;
		__u64 room;

		if (weir_conf_store_limit(l, i, 0, &s) < 0) {
			refuse_inexact(r, l, i);
			continue;
		}
		room = room_of(l, &s, i);
		for_plan(r->conf, i, who, sizeof(who));
		weir_limit_check_shared(r, l, &s, who);
		weir_limit_check_lease(r, l, i, who);
		least = room < least ? room : least;
		if (!(r->marks && r->marks->bad & WEIR_REQUEST_GIVEN_COST))
			check_cost(r, l, room, i);
		if (r->problems->n_errors > before)
			return; /* other plans would say the same */
	}
	if (most && least != ~0ull)
		l->cost.max = least;
}

/* --- cost and key ---- */

static void check_sources(const struct weir_reader *r, const struct weir_conf_request_limit *l)
{
	const struct weir_conf_request *q = &r->conf->request;

	if (l->cost.from_proxy && !q->header_cost &&
	    !weir_reader_top_has(r, "http.proxy_headers", "cost"))
		weir_reader_error(r, at(r, "cost"),
				  "cost: no header of the proxy says it (http: {proxy_headers: "
				  "{cost: X-Cost}})");
	if (l->cost.from_proxy && l->cost.max && l->cost.max < l->cost.min)
		weir_reader_error(r, at(r, "cost"), "cost: min %llu is above max %llu", l->cost.min,
				  l->cost.max);
	for (size_t i = 0; i < l->key.n; i++) {
		if (!weir_choice_has(&l->key.choice[i], WEIR_KEY_USER) || q->header_user ||
		    weir_reader_top_has(r, "http.proxy_headers", "user"))
			continue;
		weir_reader_error(r, at(r, "key"),
				  "key: user: no header of the proxy says who that is (http: "
				  "{proxy_headers: {user: X-User}})");
		break;
	}
}

/* A choice that is there for every request hides those after it. */
static void warn_unreached(const struct weir_reader *r, const struct weir_conf_request_limit *l)
{
	static const enum weir_key_kind sometimes[] = {WEIR_KEY_USER,	WEIR_KEY_API_KEY,
						       WEIR_KEY_TOKEN,	WEIR_KEY_USER_AGENT,
						       WEIR_KEY_HEADER, WEIR_KEY_COOKIE,
						       WEIR_KEY_QUERY,	WEIR_KEY_HOST};

	for (size_t i = 0; i + 1 < l->key.n; i++) {
		bool always = true;

		for (size_t k = 0; k < ARRAY_LEN(sometimes); k++)
			always &= !weir_choice_has(&l->key.choice[i], sometimes[k]);
		if (!always)
			continue;
		weir_reader_warn(
			r, at(r, "key"),
			"key: %s is always there, so that what stands after it never counts",
			weir_key_kind_name(l->key.choice[i].part[0].kind));
		return;
	}
}

static void warn_limit(const struct weir_reader *r, const struct weir_conf_request_limit *l)
{
	bool chosen = false;

	for (size_t i = 0; i < l->key.n; i++)
		chosen |= weir_choice_is_chosen(&l->key.choice[i]);
	if (l->new_per_ip.count && !chosen)
		weir_reader_warn(r, at(r, "key"),
				 "key: new_per_ip never acts: no part of this key is what a client "
				 "likes to write");
	warn_unreached(r, l);
	if (weir_key_counts_ip(&l->key) && l->key.ipv6_prefix > 64)
		weir_reader_warn(r, at(r, "ipv6_prefix"),
				 "ipv6_prefix: %u counts each address by itself, and one IPv6 host "
				 "has a whole /64 of them to change between",
				 l->key.ipv6_prefix);
}

int weir_request_limit_finish(struct weir_reader *r, struct weir_conf_request_limit *l)
{
	size_t before = r->problems->n_errors;
	int r2;

	if (!*l->name && r->marks && !weir_reader_has(r, SECTION, "name"))
		weir_reader_error(r, r->marks->node,
				  "a limit without a name (for example name: per-address)");
	if (!(there(r, l) & WEIR_REQUEST_GIVEN_KEY))
		lacks(r, l, "key", "key: ip");
	check_sources(r, l);
	r2 = weir_key_text_make(&l->key, &l->key_text);
	if (r2 < 0 || (r->marks && r->marks->bad & WEIR_REQUEST_GIVEN_ALGORITHM))
		return r2; /* what belongs to it cannot be told */
	refuse_foreign(r, l);
	if (!has_needed(r, l))
		return 0;
	if (weir_request_has_window(l->algorithm))
		r2 = settle_window(r, l);
	else
		fill_bucket(r, l);
	if (r2 < 0 || r->problems->n_errors > before || (r->marks && r->marks->bad))
		return r2;
	check_numbers(r, l);
	if (r->problems->n_errors == before)
		warn_limit(r, l);
	return 0;
}

static int finish_limit(struct weir_reader *r, void *entry)
{
	struct weir_conf_request_limit *l = entry;
	int line = *l->name ? weir_limit_name_line(r->conf, l->name, l) : 0;

	if (line)
		weir_reader_error(r, at(r, "name"),
				  "name: \"%s\" is taken (by the limit in line %d)", l->name, line);
	return weir_request_limit_finish(r, l);
}

const struct weir_entries weir_entries_request_limits = {
	.section = SECTION,
	.entry = "limit",
	.entries = "limits",
	.needs = "a name, a key and a rate",
	.size = sizeof(struct weir_conf_request_limit),
	.items = offsetof(struct weir_conf, request.limit),
	.n = offsetof(struct weir_conf, request.n_limit),
	.line = offsetof(struct weir_conf_request_limit, line),
	.finish = finish_limit,
};
