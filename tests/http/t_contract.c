/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a proxy and its client are told, through the real ports: status, headers and body of every profile, that they
 * agree with each other, that Retry-After is true; plans, costs, exemptions, missing keys, address families.
 */
#include <sodium.h>

#include "http_test.h"
#include "sf.h"

static const char conf[] = LISTENERS
	"  proxy_headers: {user: X-Weir-User, plan: X-Plan, cost: X-Cost}\n"
	"  api_key: [header X-API-Key, query api_key]\n"
	"plans: [free, pro]\n"
	"plans_file: @DIR@/plans.txt\n"
	"exempt:\n"
	"  - {source: [203.0.113.64/26]}\n"
	"  - {path: [/healthz, /static/*]}\n"
	"  - {preflight: true}\n"
	"request_limits:\n"
	"  - {name: login, match: {method: POST, path: /login}, key: ip, "
	"algorithm: sliding-window-log, limit: 3, window: 60s}\n"
	"  - {name: s-fixed, match: {path: /soon/fixed}, key: ip, algorithm: fixed-window, "
	"limit: 3, window: 2s}\n"
	"  - {name: s-log, match: {path: /soon/log}, key: ip, algorithm: sliding-window-log, "
	"limit: 3, window: 1500ms}\n"
	"  - {name: s-counter, match: {path: /soon/counter}, key: ip, "
	"algorithm: sliding-window-counter, limit: 3, window: 2s}\n"
	"  - {name: s-bucket, match: {path: /soon/bucket}, key: ip, rate: 1/s, burst: 3}\n"
	"  - {name: s-queue, match: {path: /soon/queue}, key: ip, algorithm: leaky-bucket, "
	"rate: 1/s, queue: 0}\n"
	"  - {name: wide, match: {path: /both}, key: ip, rate: 10/h, burst: 10}\n"
	"  - {name: narrow, match: {path: /both}, key: [ip, user], missing: skip, rate: 2/h, "
	"burst: 2}\n"
	"  - {name: watched, match: {path: [/watched, /both-watched]}, key: ip, rate: 1/h, burst: "
	"1, "
	"mode: monitor}\n"
	"  - {name: acting, match: {path: /both-watched}, key: ip, rate: 3/h, burst: 3}\n"
	"  - {name: plan, match: {path: /plan}, key: {any: [api-key, ip]}, algorithm: "
	"fixed-window, "
	"limit: {free: 2, pro: 5}, window: 1d}\n"
	"  - {name: cost, match: {path: /cost}, key: ip, rate: 100/h, burst: 100, "
	"cost: {from: proxy, min: 2, max: 50}}\n"
	"  - {name: fixed-cost, match: {path: /dear}, key: ip, rate: 100/h, burst: 100, cost: 30}\n"
	"  - {name: m-ip, match: {path: /missing/ip}, key: api-key, missing: ip, rate: 2/h, "
	"burst: 2}\n"
	"  - {name: m-skip, match: {path: /missing/skip}, key: api-key, missing: skip, rate: 2/h, "
	"burst: 2}\n"
	"  - {name: m-deny, match: {path: /missing/deny}, key: api-key, missing: deny, rate: 2/h, "
	"burst: 2}\n"
	"  - {name: fresh, match: {path: /fresh}, key: {any: [api-key, ip], new_per_ip: 5 per 1h}, "
	"rate: 3/h, burst: 3}\n"
	"  - {name: tenant, match: {path: /by/header}, key: \"header:X-Tenant\", rate: 2/h, "
	"burst: 2}\n"
	"  - {name: session, match: {path: /by/cookie}, key: \"cookie:sid\", rate: 2/h, burst: 2}\n"
	"  - {name: item, match: {path: /by/query}, key: \"query:id\", rate: 2/h, burst: 2}\n"
	"  - {name: bearer, match: {path: /by/token}, key: token, rate: 2/h, burst: 2}\n"
	"  - {name: mobile, match: {path: /matched/*, method: [PUT, DELETE], host: "
	"[app.example, \"*.app.example\"], header: {X-Client: mobile}}, key: ip, rate: 2/h, "
	"burst: 2}\n"
	"  - {name: six, match: {path: /six}, key: ip, rate: 3/h, burst: 3}\n";

#define NO_SUCH_KEY_OF_PLANS                                                                       \
	"0000000000000000000000000000000000000000000000000000000000000000 free\n"
#define PRO_KEY "a-key-of-a-customer-who-pays"

static int set_up(void **state)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(hash) + 1], text[512];
	struct agent *a = calloc(1, sizeof(*a));

	if (!a || sodium_init() < 0)
		return -1;
	crypto_hash_sha256(hash, (const unsigned char *)PRO_KEY, strlen(PRO_KEY));
	sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
	(void)snprintf(text, sizeof(text), "# who pays\n" NO_SUCH_KEY_OF_PLANS "%s pro\n", hex);
	assert_int_equal(agent_prepare(a), 0);
	assert_int_equal(agent_file(a, "plans.txt", text), 0);
	must_start(a, conf);
	*state = a;
	return 0;
}

/* --- headers that agree ---- */

static long long one_number(const struct web_reply *r, const char *name)
{
	if (web_header_count(r, name) != 1 || web_number(r, name) < 0)
		fail_msg("%s: not once, or no number: %s", name,
			 web_header(r, name) ? web_header(r, name) : "(none)");
	return web_number(r, name);
}

static void one_text(const struct web_reply *r, const char *name, const char *want)
{
	const char *got = web_header(r, name);

	if (!got || web_header_count(r, name) != 1 || strcmp(got, want) != 0)
		fail_msg("%s: %s, not %s", name, got ? got : "(none)", want);
}

static void quota_agrees(const struct web_reply *r, const char *limit)
{
	struct sf_item policies[SF_ITEMS_MAX], now[SF_ITEMS_MAX];
	const char *policy = web_header(r, "RateLimit-Policy"), *rate = web_header(r, "RateLimit");
	long long n = one_number(r, "X-RateLimit-Limit"),
		  left = one_number(r, "X-RateLimit-Remaining");
	long long reset = one_number(r, "X-RateLimit-Reset");
	const struct sf_item *p;
	size_t n_policies;

	assert_true(policy && rate);
	n_policies = sf_list(policy, policies);
	assert_int_equal(sf_list(rate, now), 1);
	assert_string_equal(now[0].name, limit);
	assert_int_equal(now[0].r, left);
	assert_int_equal(now[0].t, reset);
	for (size_t i = 0; i < n_policies; i++) {
		assert_true(policies[i].q >= 0);
		assert_true(policies[i].w != 0);
	}
	p = sf_find(policies, n_policies, limit);
	assert_non_null(p);
	assert_int_equal(p->q, n);
	assert_true(left <= n);
}

static void is_admission(const struct web_reply *r, const char *limit, long long left)
{
	assert_int_equal(r->status, 200);
	one_text(r, "X-Weir-Decision", "allow");
	quota_agrees(r, limit);
	assert_int_equal(web_number(r, "X-RateLimit-Remaining"), left);
	assert_null(web_header(r, "Retry-After"));
	assert_null(web_header(r, "X-Weir-Limit"));
}

/* @client_status: what the client shall see. */
static void is_refusal(const struct web_reply *r, int status, const char *client_status,
		       const char *code, const char *limit)
{
	json_error_t e;
	json_t *body;

	assert_int_equal(r->status, status);
	one_text(r, "X-Weir-Decision", "deny");
	one_text(r, "X-Weir-Status", client_status);
	one_text(r, "X-Weir-Limit", limit);
	one_text(r, "Cache-Control", "no-store");
	one_text(r, "Content-Type", "application/json");
	body = json_loadb(r->body, r->body_n, 0, &e);
	if (!body)
		fail_msg("%s: %s", e.text, r->body);
	assert_string_equal(text_in(body, "code"), code);
	assert_string_equal(text_in(body, "limit"), limit);
	assert_true(strlen(text_in(body, "message")) > 10);
	assert_int_equal(number_in(body, "retry_after_seconds"), web_number(r, "Retry-After"));
	json_decref(body);
}

static void is_over(const struct web_reply *r, int status, const char *limit, long long window_s)
{
	long long retry = one_number(r, "Retry-After");

	is_refusal(r, status, "429", "RATE_LIMITED", limit);
	quota_agrees(r, limit);
	assert_true(retry >= 1 && retry <= window_s);
	assert_true(retry >= web_number(r, "X-RateLimit-Reset"));
	assert_true(web_number(r, "X-RateLimit-Reset") >= 1);
}

static void every_profile_says_it_in_its_way(void **state)
{
	static const struct {
		const char *profile, *ip;
		int refused;
	} profiles[] = {{"nginx", "198.51.100.1", 403},
			{"caddy", "198.51.100.2", 429},
			{"traefik", "198.51.100.3", 429},
			{"envoy", "198.51.100.4", 429}};
	struct web_reply r;

	for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
		const char *profile = profiles[i].profile;
		struct question q =
			Q(.method = "POST", .target = "/login?next=/", .ip = profiles[i].ip);
		struct web w = must_open(*state, profile);

		for (int left = 2; left >= 0; left--) {
			(void)ask(&w, profile, q, &r);
			is_admission(&r, "login", left);
			assert_int_equal(r.body_n, 0);
		}
		for (int again = 0; again < 3; again++) {
			(void)ask(&w, profile, q, &r);
			is_over(&r, profiles[i].refused, "login", 60);
			assert_int_equal(web_number(&r, "X-RateLimit-Limit"), 3);
			assert_int_equal(web_number(&r, "X-RateLimit-Remaining"), 0);
			assert_false(
				r.closes); /* a refusal is no reason to end a proxy's connection */
		}
		q.method = "GET"; /* another request of the same client */
		(void)ask(&w, profile, q, &r);
		assert_int_equal(r.status, 200);
		web_close(&w);
	}
}

/* --- Retry-After ---- */

static const struct {
	const char *target, *limit;
	long long most_s;
	unsigned n;
} soon[] = {{"/soon/fixed", "s-fixed", 2, 3},
	    {"/soon/log", "s-log", 2, 3},
	    {"/soon/counter", "s-counter", 4, 3},
	    {"/soon/bucket", "s-bucket", 1, 3},
	    {"/soon/queue", "s-queue", 1, 1}};

/* All algorithms at once: used up, then again exactly when each said so. */
static void who_comes_back_after_retry_after_is_admitted(void **state)
{
	struct web w = must_open(*state, "caddy");
	uint64_t at_ns[ARRAY_LEN(soon)], now_ns;
	unsigned left = ARRAY_LEN(soon);
	struct web_reply r;

	for (size_t i = 0; i < ARRAY_LEN(soon); i++) {
		struct question q = Q(.target = soon[i].target, .ip = "198.51.100.10");
		int status = 200;

		/* an edge of a window may lie in between */
		for (unsigned n = 0; status == 200 && n <= 2 * soon[i].n; n++)
			status = ask(&w, "caddy", q, &r);
		is_over(&r, 429, soon[i].limit, soon[i].most_s);
		at_ns[i] = wait_now_ns() + (uint64_t)web_number(&r, "Retry-After") * 1000000000ull;
	}
	while (left) {
		size_t next = 0;

		for (size_t i = 1; i < ARRAY_LEN(soon); i++)
			if (at_ns[i] < at_ns[next])
				next = i;
		now_ns = at_ns[next];
		wait_until_ns(now_ns);
		if (ask(&w, "caddy", Q(.target = soon[next].target, .ip = "198.51.100.10"), &r) !=
		    200)
			fail_msg("%s was too early with its Retry-After", soon[next].limit);
		at_ns[next] = UINT64_MAX;
		left--;
	}
	web_close(&w);
}

/* --- several limits ---- */

static void all_limits_are_charged_or_none(void **state)
{
	struct web w = must_open(*state, "caddy");
	struct question bob =
		Q(.target = "/both", .ip = "198.51.100.20", .more = "X-Weir-User: bob\r\n");
	struct question alice = bob, nobody = bob;
	struct sf_item policies[SF_ITEMS_MAX];
	struct web_reply r;

	alice.more = "X-Weir-User: alice\r\n";
	nobody.more = NULL;
	(void)ask(&w, "caddy", bob, &r);
	is_admission(&r, "narrow", 1); /* 1 of 2 is tighter than 9 of 10 */
	assert_int_equal(sf_list(web_header(&r, "RateLimit-Policy"), policies), 2);
	(void)ask(&w, "caddy", bob, &r);
	is_admission(&r, "narrow", 0);
	for (int i = 0; i < 20; i++) {
		(void)ask(&w, "caddy", bob, &r);
		is_over(&r, 429, "narrow", 3600);
	}
	(void)ask(&w, "caddy", nobody, &r); /* twenty refusals have charged nothing */
	is_admission(&r, "wide", 7);
	(void)ask(&w, "caddy", alice, &r);
	is_admission(&r, "narrow", 1);
	for (int left = 5; left >= 0; left--) {
		(void)ask(&w, "caddy", nobody, &r);
		is_admission(&r, "wide", left);
	}
	(void)ask(&w, "caddy", alice, &r);
	is_over(&r, 429, "wide", 3600);
	web_close(&w);
}

/* --- what stops nothing ---- */

static void a_monitor_limit_says_what_it_would_do(void **state)
{
	struct web w = must_open(*state, "caddy");
	struct question q = Q(.target = "/watched", .ip = "198.51.100.30");
	struct web_reply r;

	(void)ask(&w, "caddy", q, &r);
	assert_int_equal(r.status, 200);
	assert_null(web_header(&r, "X-Weir-Would"));
	for (int i = 0; i < 3; i++) {
		(void)ask(&w, "caddy", q, &r);
		assert_int_equal(r.status, 200);
		one_text(&r, "X-Weir-Decision", "allow");
		one_text(&r, "X-Weir-Would", "deny; limit=watched");
		assert_null(web_header(&r, "X-RateLimit-Limit"));
		assert_null(web_header(&r, "Retry-After"));
	}
	q.target = "/both-watched";
	for (int left = 2; left >= 0; left--) { /* and the one that acts is charged as ever */
		(void)ask(&w, "caddy", q, &r);
		is_admission(&r, "acting", left);
		one_text(&r, "X-Weir-Would", "deny; limit=watched");
	}
	(void)ask(&w, "caddy", q, &r);
	is_over(&r, 429, "acting", 3600);
	web_close(&w);
}

static void monitor_mode_lets_everything_through_and_says_what_it_would_do(void **state)
{
	struct agent *a = *state;
	struct web w = must_open(a, "nginx");
	struct question q = Q(.method = "POST", .target = "/login", .ip = "198.51.100.31");
	struct web_reply r;

	assert_int_equal(agent_cmd(a, "mode", "monitor"), 0);
	assert_int_equal(admitted(&w, "nginx", q, 3), 3);
	(void)ask(&w, "nginx", q, &r);
	assert_int_equal(r.status, 200);
	one_text(&r, "X-Weir-Decision", "allow");
	one_text(&r, "X-Weir-Would", "deny; limit=login");
	assert_int_equal(agent_cmd(a, "mode", "enforce"), 0);
	(void)ask(&w, "nginx", q, &r);
	is_over(&r, 403, "login", 60);
	web_close(&w);
}

static void nothing_is_said_where_no_limit_matches(void **state)
{
	static const char *const none[] = {"X-RateLimit-Limit", "X-RateLimit-Remaining",
					   "X-RateLimit-Reset", "RateLimit",
					   "RateLimit-Policy",	"Retry-After",
					   "X-Weir-Limit",	"X-Weir-Would"};
	struct web w = must_open(*state, "caddy");
	struct web_reply r;

	(void)ask(&w, "caddy", Q(.target = "/nothing", .ip = "198.51.100.32"), &r);
	assert_int_equal(r.status, 200);
	one_text(&r, "X-Weir-Decision", "allow");
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		assert_null(web_header(&r, none[i]));
	web_close(&w);
}

static void exempt_requests_meet_no_limit(void **state)
{
	static const char preflight[] = "Origin: https://a.example\r\n"
					"Access-Control-Request-Method: POST\r\n";
	const struct question free_ones[] = {
		Q(.method = "POST", .target = "/login", .ip = "203.0.113.70"),
		Q(.target = "/healthz", .ip = "198.51.100.33"),
		Q(.target = "/static/a/b.css", .ip = "198.51.100.33"),
		Q("OPTIONS", "/plan", "198.51.100.33", preflight),
	};
	struct web w = must_open(*state, "caddy");
	struct question no_preflight =
		Q("OPTIONS", "/plan", "198.51.100.34", "Origin: https://a.example\r\n");
	struct web_reply r;

	for (size_t i = 0; i < ARRAY_LEN(free_ones); i++)
		for (int n = 0; n < 12; n++) {
			(void)ask(&w, "caddy", free_ones[i], &r);
			assert_int_equal(r.status, 200);
			assert_null(web_header(&r, "X-RateLimit-Limit"));
		}
	assert_int_equal(admitted(&w, "caddy", no_preflight, 4), 2);
	web_close(&w);
}

/* --- plans and costs ---- */

static void numbers_go_by_plan(void **state)
{
	static const struct {
		const char *ip, *more;
		unsigned n;
	} who[] = {
		{"198.51.100.40", NULL, 2},
		{"198.51.100.41", "X-Plan: free\r\n", 2},
		{"198.51.100.42", "X-Plan: pro\r\n", 5},
		{"198.51.100.43", "X-Plan: platinum\r\n", 2}, /* unknown: the first */
		{"198.51.100.44", "X-Plan: PRO\r\n", 2},
		{"198.51.100.45", "X-API-Key: " PRO_KEY "\r\n", 5},
		{"198.51.100.46", "X-API-Key: somebody\r\n", 2},
	};
	struct web w = must_open(*state, "caddy");

	for (size_t i = 0; i < ARRAY_LEN(who); i++) {
		unsigned got =
			admitted(&w, "caddy",
				 Q(.target = "/plan", .ip = who[i].ip, .more = who[i].more), 8);

		if (got != who[i].n)
			fail_msg("%s: %u, not %u", who[i].more ? who[i].more : "nothing", got,
				 who[i].n);
	}
	/* the same key by the query, from elsewhere, is the same client */
	assert_int_equal(ask(&w, "caddy",
			     Q(.target = "/plan?a=b&api_key=" PRO_KEY, .ip = "198.51.100.47"),
			     NULL),
			 429);
	web_close(&w);
}

static void a_cost_is_taken_from_the_proxy_within_bounds(void **state)
{
	static const struct {
		const char *more;
		long long left;
	} asks[] = {{"X-Cost: 10\r\n", 90},
		    {"X-Cost: 1000\r\n", 40},
		    {"X-Cost: 0\r\n", 38},
		    {"X-Cost: 1\r\n", 36},
		    {NULL, 34}};
	static const char *const rubbish[] = {"X-Cost: -5\r\n", "X-Cost: many\r\n",
					      "X-Cost: 1e3\r\n", "X-Cost:\r\n",
					      "X-Cost: 99999999999999999999\r\n"};
	struct web w = must_open(*state, "caddy");
	struct question q = Q(.target = "/cost", .ip = "198.51.100.50");
	struct web_reply r;
	char ip[32];

	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		q.more = asks[i].more;
		(void)ask(&w, "caddy", q, &r);
		is_admission(&r, "cost", asks[i].left);
	}
	for (size_t i = 0; i < ARRAY_LEN(rubbish); i++) { /* never less than the least */
		(void)snprintf(ip, sizeof(ip), "198.51.100.%zu", 52 + i);
		(void)ask(&w, "caddy", Q(.target = "/cost", .ip = ip, .more = rubbish[i]), &r);
		assert_int_equal(r.status, 200);
		assert_in_range(web_number(&r, "X-RateLimit-Remaining"), 50, 98);
	}
	q = Q(.target = "/dear", .ip = "198.51.100.51", .more = "X-Cost: 1\r\n");
	for (int left = 70; left >= 10; left -= 30) {
		(void)ask(&w, "caddy", q, &r);
		is_admission(&r, "fixed-cost", left);
	}
	(void)ask(&w, "caddy", q, &r);
	is_over(&r, 429, "fixed-cost", 3600);
	web_close(&w);
}

/* --- profile json ---- */

#define CHECK(path, ip, more) "{\"method\":\"GET\",\"path\":\"" path "\",\"ip\":\"" ip "\"" more "}"

static void json_says_the_same(void **state)
{
	struct web w = must_open(*state, "json");
	json_t *j, *limits;

	j = check(&w, CHECK("/both", "198.51.100.60", ""));
	assert_true(true_in(j, "allowed"));
	assert_string_equal(text_in(j, "limit"), "wide");
	assert_int_equal(number_in(j, "remaining"), 9);
	assert_true(json_is_null(json_object_get(j, "retry_after")));
	limits = json_object_get(j, "limits");
	assert_int_equal(json_array_size(limits), 1); /* nobody's name: narrow is skipped */
	json_decref(j);
	for (int i = 0; i < 9; i++)
		json_decref(check(&w, CHECK("/both", "198.51.100.60", "")));
	j = check(&w, CHECK("/both", "198.51.100.60", ""));
	assert_false(true_in(j, "allowed"));
	assert_string_equal(text_in(j, "code"), "RATE_LIMITED");
	assert_true(number_in(j, "retry_after") >= 1);
	assert_true(number_in(j, "retry_after") >= number_in(j, "reset_after"));
	json_decref(j);
	j = check(&w, CHECK("/nothing", "198.51.100.60", ""));
	assert_true(true_in(j, "allowed"));
	assert_true(json_is_null(json_object_get(j, "limit")));
	json_decref(j);
	web_close(&w);
}

static long long left_of(struct web *w, const char *body)
{
	json_t *j = check(w, body);
	long long n = number_in(j, "remaining");

	json_decref(j);
	return n;
}

static void cost_peek_and_refund(void **state)
{
	struct web w = must_open(*state, "json");
	struct web_reply r;
	json_t *j;

	assert_int_equal(left_of(&w, CHECK("/cost", "198.51.100.61", ",\"cost\":30")), 70);
	assert_int_equal(left_of(&w, CHECK("/cost", "198.51.100.61", ",\"peek\":true")), 70);
	assert_int_equal(left_of(&w, CHECK("/cost", "198.51.100.61", ",\"cost\":60,\"peek\":true")),
			 70);
	j = check(&w, CHECK("/cost", "198.51.100.61", ",\"cost\":71"));
	assert_false(true_in(j, "allowed"));
	assert_int_equal(number_in(j, "remaining"), 70);
	json_decref(j);
	assert_int_equal(post(&w, "/v1/refund", TOKEN,
			      CHECK("/cost", "198.51.100.61", ",\"cost\":30"), &r),
			 200);
	assert_int_equal(left_of(&w, CHECK("/cost", "198.51.100.61", ",\"peek\":true")), 100);
	/* more than was charged gives no more than there is */
	assert_int_equal(post(&w, "/v1/refund", TOKEN,
			      CHECK("/cost", "198.51.100.61", ",\"cost\":50"), &r),
			 200);
	assert_int_equal(left_of(&w, CHECK("/cost", "198.51.100.61", ",\"peek\":true")), 100);
	assert_int_equal(left_of(&w, CHECK("/cost", "198.51.100.61", ",\"cost\":100")), 0);
	j = check(&w, CHECK("/cost", "198.51.100.61", ",\"cost\":101"));
	assert_false(true_in(j, "allowed"));
	assert_string_equal(text_in(j, "code"), "COST_TOO_LARGE");
	assert_true(json_is_null(json_object_get(j, "retry_after")));
	json_decref(j);
	(void)post(&w, "/v1/check", TOKEN, CHECK("/cost", "198.51.100.62", ",\"cost\":101"), &r);
	assert_null(web_header(&r, "Retry-After"));
	web_close(&w);
}

static void a_batch_is_answered_in_its_order(void **state)
{
	static const char body[] = "[" CHECK("/six", "198.51.100.63", "") "," CHECK(
		"/nothing", "198.51.100.63",
		"") "," CHECK("/six", "198.51.100.63",
			      ",\"cost\":2") "," CHECK("/six", "198.51.100.63",
						       "") "," CHECK("/six", "198.51.100.64",
								     "") "]";
	static const struct {
		bool allowed;
		long long left;
	} want[] = {{true, 2}, {true, -1}, {true, 0}, {false, 0}, {true, 2}};
	struct web w = must_open(*state, "json");
	json_t *j = check(&w, body);

	assert_int_equal(json_array_size(j), ARRAY_LEN(want));
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		assert_int_equal(true_in(json_array_get(j, i), "allowed"), want[i].allowed);
		assert_int_equal(number_in(json_array_get(j, i), "remaining"), want[i].left);
	}
	json_decref(j);
	web_close(&w);
}

static void json_needs_its_token(void **state)
{
	static const char *const wrong[] = {NULL, "", "a", TOKEN "x", "A-TOKEN"};
	struct web w = must_open(*state, "json");
	static const char body[] = CHECK("/six", "198.51.100.65", "");
	struct web_reply r;

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		web_close(&w);
		w = must_open(*state, "json");
		assert_int_equal(post(&w, "/v1/check", wrong[i], body, &r), 401);
		assert_null(web_header(&r, "X-RateLimit-Limit"));
	}
	web_close(&w);
	w = must_open(*state, "json");
	assert_int_equal(left_of(&w, body), 2); /* none of them was charged */
	web_close(&w);
}

/* --- keys ---- */

static void a_missing_key_is_what_the_limit_says(void **state)
{
	struct web w = must_open(*state, "caddy");
	struct question q = Q(.target = "/missing/ip", .ip = "198.51.100.70");
	struct web_reply r;

	assert_int_equal(admitted(&w, "caddy", q, 5), 2);
	q.more = "X-API-Key: one\r\n";
	assert_int_equal(admitted(&w, "caddy", q, 5), 2);
	q.more = "X-API-Key: \r\n"; /* an empty one is none */
	assert_int_equal(admitted(&w, "caddy", q, 5), 0);
	q = Q(.target = "/missing/skip", .ip = "198.51.100.71");
	assert_int_equal(admitted(&w, "caddy", q, 5), 5);
	(void)ask(&w, "caddy", q, &r);
	assert_null(web_header(&r, "X-RateLimit-Limit"));
	q = Q(.target = "/missing/deny", .ip = "198.51.100.72");
	(void)ask(&w, "caddy", q, &r);
	is_refusal(&r, 403, "403", "KEY_MISSING", "m-deny");
	assert_null(web_header(&r, "Retry-After"));
	assert_null(web_header(&r, "X-RateLimit-Limit"));
	q.more = "X-API-Key: one\r\n";
	assert_int_equal(admitted(&w, "caddy", q, 5), 2);
	web_close(&w);
}

static void a_key_can_be_what_a_request_carries(void **state)
{
	/* each line is used once more than it may; what is the same thing differently said shares */
	static const struct {
		const char *target, *more;
		unsigned n;
	} asks[] = {
		{"/by/header", "X-Tenant: a\r\n", 2},
		{"/by/header", "x-tenant:   a  \r\n", 0},
		{"/by/header", "X-Tenant: b\r\n", 2},
		{"/by/header", NULL, 2}, /* by the address */
		{"/by/cookie", "Cookie: sid=1\r\n", 2},
		{"/by/cookie", "Cookie: a=b; sid=1; c=d\r\n", 0},
		{"/by/cookie", "Cookie: sid=\"1\"\r\n", 0},
		{"/by/cookie", "Cookie: a=b\r\nCookie: sid=1\r\n", 0},
		{"/by/cookie", "Cookie: sid=2\r\n", 2},
		{"/by/cookie", "Cookie: notsid=3\r\n", 2}, /* by the address */
		{"/by/query?id=1", NULL, 2},
		{"/by/query?x=y&id=1&z", NULL, 0},
		{"/by/query?id=%31", NULL, 0},
		{"/by/query?%69d=1", NULL, 0},
		{"/by/query?id=1&id=2", NULL, 0},
		{"/by/query?id=2", NULL, 2},
		{"/by/query?ID=1", NULL, 2}, /* by the address */
		{"/by/token", "Authorization: Bearer abc\r\n", 2},
		{"/by/token", "authorization: bearer abc\r\n", 0},
		{"/by/token", "Authorization: Bearer abd\r\n", 2},
		{"/by/token", "Authorization: Basic YTpi\r\n", 2}, /* by the address */
		{"/by/token", "Authorization: Basic YTpj\r\n", 0},
	};
	struct web w = must_open(*state, "caddy");

	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		unsigned got = admitted(&w, "caddy",
					Q(.target = asks[i].target, .ip = "198.51.100.75",
					  .more = asks[i].more),
					3);

		if (got != asks[i].n)
			fail_msg("%s %s: %u, not %u", asks[i].target,
				 asks[i].more ? asks[i].more : "", got, asks[i].n);
	}
	web_close(&w);
}

static void a_limit_meets_what_matches_in_everything(void **state)
{
#define MOBILE "X-Client: mobile\r\n"
#define APP    "X-Forwarded-Host: app.example\r\n"
	static const struct {
		const char *method, *target, *more;
		bool matches;
	} asks[] = {
		{"PUT", "/matched/x", MOBILE APP, true},
		{"DELETE", "/matched", MOBILE APP, true},
		{"PUT", "/matched/x", MOBILE "X-Forwarded-Host: a.b.App.example:443\r\n", true},
		{"POST", "/matched/x", MOBILE APP, false},
		{"PUT", "/matchedx", MOBILE APP, false},
		{"PUT", "/matched/x", APP, false},
		{"PUT", "/matched/x", "X-Client: mobile2\r\n" APP, false},
		{"PUT", "/matched/x", MOBILE "X-Forwarded-Host: notapp.example\r\n", false},
		{"PUT", "/matched/x", MOBILE "X-Forwarded-Host: app.example.org\r\n", false},
	};
	struct web w = must_open(*state, "caddy");
	struct web_reply r;

	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		(void)ask(&w, "caddy",
			  Q(asks[i].method, asks[i].target, "198.51.100.76", asks[i].more), &r);
		if (!!web_header(&r, "X-RateLimit-Limit") != asks[i].matches)
			fail_msg("%s %s %s: %d", asks[i].method, asks[i].target, asks[i].more,
				 r.status);
	}
	web_close(&w);
}

static void new_keys_of_one_address_are_bounded(void **state)
{
	struct web w = must_open(*state, "caddy");
	unsigned got = 0;
	char more[64];

	for (int i = 0; i < 40; i++) { /* a new key on every request */
		(void)snprintf(more, sizeof(more), "X-API-Key: new-%d\r\n", i);
		got += ask(&w, "caddy", Q(.target = "/fresh", .ip = "198.51.100.73", .more = more),
			   NULL) == 200;
	}
	assert_int_equal(got, 5 + 3); /* five new ones, and what the address has */
	/* a key that has a state is no new one, and another address has its own */
	assert_int_equal(ask(&w, "caddy",
			     Q(.target = "/fresh", .ip = "198.51.100.73",
			       .more = "X-API-Key: new-0\r\n"),
			     NULL),
			 200);
	assert_int_equal(ask(&w, "caddy",
			     Q(.target = "/fresh", .ip = "198.51.100.74",
			       .more = "X-API-Key: new-99\r\n"),
			     NULL),
			 200);
	web_close(&w);
}

static void addresses_are_counted_as_what_they_are(void **state)
{
	static const struct {
		const char *ip;
		unsigned n;
	} asks[] = {
		{"2001:db8:1:1::1", 3},		      /* one /64 is one client */
		{"2001:db8:1:1:ffff:ffff:ffff:1", 0}, /* the same */
		{"2001:DB8:1:1::2", 0},
		{"[2001:db8:1:1::3]:443", 0},
		{"2001:db8:1:2::1", 3}, /* its neighbour */
		{"198.51.100.80", 3},
		{"::ffff:198.51.100.80", 0}, /* the same in other clothes */
		{"::ffff:c633:6450", 0},
		{"198.51.100.80:8080", 0},
		{"64:ff9b::198.51.100.81", 3}, /* without nat64: IPv6, one /64 for all */
		{"64:ff9b::198.51.100.82", 0},
		{"198.51.100.81", 3},
	};
	struct web w = must_open(*state, "caddy");

	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		unsigned got = admitted(&w, "caddy", Q(.target = "/six", .ip = asks[i].ip), 4);

		if (got != asks[i].n)
			fail_msg("%s: %u, not %u", asks[i].ip, got, asks[i].n);
	}
	web_close(&w);
}

static void nat64_is_the_address_within(void **state)
{
	static const char nat64[] =
		LISTENERS "  nat64: true\n"
			  "request_limits:\n"
			  "  - {name: six, match: {path: /six}, key: ip, rate: 3/h, burst: 3}\n";
	struct agent a = {};
	struct web w;

	(void)state;
	must_start(&a, nat64);
	w = must_open(&a, "caddy");
	assert_int_equal(admitted(&w, "caddy", Q(.target = "/six", .ip = "64:ff9b::198.51.100.85"),
				  4),
			 3);
	assert_int_equal(admitted(&w, "caddy", Q(.target = "/six", .ip = "198.51.100.85"), 4), 0);
	assert_int_equal(admitted(&w, "caddy", Q(.target = "/six", .ip = "64:ff9b::198.51.100.86"),
				  4),
			 3);
	web_close(&w);
	assert_int_equal(agent_end(&a), 0);
	agent_stop(&a);
}

/* --- who was refused too often ---- */

static void who_is_suspicious_meets_one_limit_more(void **state)
{
	static const char suspicious[] =
		LISTENERS "request_limits:\n"
			  "  - {name: login, match: {path: /login}, key: ip, rate: 1/h, burst: 1}\n"
			  "suspicious:\n"
			  "  refused: {limits: [login], count: 5, within: 60s}\n"
			  "  lasts: 10m\n"
			  "  limit: {key: [ip, endpoint], algorithm: sliding-window-log, limit: 2, "
			  "window: 60s}\n";
	struct question login = Q(.target = "/login", .ip = "198.51.100.90");
	struct question any = Q(.target = "/any", .ip = "198.51.100.90"), other = any;
	struct agent a = {};
	struct web w, json;
	struct web_reply r;

	(void)state;
	must_start(&a, suspicious);
	w = must_open(&a, "caddy");
	json = must_open(&a, "json");
	assert_int_equal(admitted(&w, "caddy", login, 5), 1); /* refused four times */
	for (int i = 0; i < 10; i++)			      /* the word of a caller is no proof */
		json_decref(check(&json, CHECK("/login", "198.51.100.90", "")));
	assert_int_equal(admitted(&w, "caddy", any, 10), 10);
	assert_int_equal(ask(&w, "caddy", login, NULL), 429);
	assert_int_equal(admitted(&w, "caddy", any, 5), 2);
	any.target = "/something/else"; /* no new endpoint */
	(void)ask(&w, "caddy", any, &r);
	is_over(&r, 429, "suspicious", 60);
	other.ip = "198.51.100.91";
	assert_int_equal(admitted(&w, "caddy", other, 5), 5);
	web_close(&json);
	web_close(&w);
	assert_int_equal(agent_end(&a), 0);
	agent_stop(&a);
}

/* --- metrics tell of it, and of no client ---- */

static void metrics_count_and_name_nobody(void **state)
{
	struct web w = must_open(*state, "metrics");
	struct web_reply r;

	assert_int_equal(web_ask(&w, &r, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_int_equal(r.status, 200);
	assert_non_null(strstr(r.body, "weir_requests_total{"));
	assert_non_null(strstr(r.body, "limit=\"login\""));
	assert_non_null(strstr(r.body, "weir_check_seconds_bucket{"));
	assert_null(strstr(r.body, "198.51.100."));
	assert_null(strstr(r.body, "2001:db8:1"));
	assert_null(strstr(r.body, PRO_KEY));
	assert_null(strstr(r.body, "alice"));
	assert_int_equal(web_ask(&w, &r, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_int_equal(r.status, 200);
	assert_int_equal(web_ask(&w, &r, "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_int_equal(r.status, 200);
	web_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_profile_says_it_in_its_way),
		cmocka_unit_test(who_comes_back_after_retry_after_is_admitted),
		cmocka_unit_test(all_limits_are_charged_or_none),
		cmocka_unit_test(a_monitor_limit_says_what_it_would_do),
		cmocka_unit_test(monitor_mode_lets_everything_through_and_says_what_it_would_do),
		cmocka_unit_test(nothing_is_said_where_no_limit_matches),
		cmocka_unit_test(exempt_requests_meet_no_limit),
		cmocka_unit_test(numbers_go_by_plan),
		cmocka_unit_test(a_cost_is_taken_from_the_proxy_within_bounds),
		cmocka_unit_test(json_says_the_same),
		cmocka_unit_test(cost_peek_and_refund),
		cmocka_unit_test(a_batch_is_answered_in_its_order),
		cmocka_unit_test(json_needs_its_token),
		cmocka_unit_test(a_missing_key_is_what_the_limit_says),
		cmocka_unit_test(a_key_can_be_what_a_request_carries),
		cmocka_unit_test(a_limit_meets_what_matches_in_everything),
		cmocka_unit_test(new_keys_of_one_address_are_bounded),
		cmocka_unit_test(addresses_are_counted_as_what_they_are),
		cmocka_unit_test(nat64_is_the_address_within),
		cmocka_unit_test(who_is_suspicious_meets_one_limit_more),
		cmocka_unit_test(metrics_count_and_name_nobody),
	};

	return cmocka_run_group_tests(tests, set_up, end_case);
}
