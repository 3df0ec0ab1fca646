/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The promises that hold behind every proxy, with the configurations of docs/proxies as they stand. Included by
 * t_nginx.c, t_caddy.c and t_haproxy.c, which say how their proxy is started.
 *
 *	client 127.0.2.N ──► proxy ──► application (a thread of the test)
 *	                       └──► agent (a process), which can be stopped, or made slow by SIGSTOP
 *
 * Two proxies run, one that lets requests pass while the agent is away (open, asks by TCP), one that does not (closed, by a
 * Unix socket). Each test is a
 * client of its own, so that none spends another's budget.
 */
#ifndef WEIR_TESTS_PROXY_TEST_H
#define WEIR_TESTS_PROXY_TEST_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/agent.h"
#include "tests/lib/app.h"
#include "tests/lib/proxy.h"
#include "tests/lib/wait.h"
#include "tests/lib/web.h"
#include "tests/proxy/forged.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"

#define LIMIT 3
#define SLOW_MS                                                                                    \
	5000 /* longer than any time-out of the configurations, with room for a loaded machine */

struct stand {
	struct app app;
	struct agent agent;
	char agent_where[64], agent_unix[96]; /* of open; of closed */
	char conf[4096];
	struct proxy open, closed;
};
static struct stand stand;

/* What the including file says. */
static const char *const profile, *const program;
static int (*const start_proxy)(struct proxy *p, const char *dir, const char *where, bool closed);

/* --- one request through a proxy ---- */

struct talk {
	struct web w;
	struct web_reply r;
	int error; /* 0, or why there is no answer */
};

static void hang_up(struct talk *t)
{
	web_close(&t->w);
}

struct request {
	const char *from, *method, *target, *headers, *body; /* headers: lines, each with its end */
};
#define R(...) ((struct request){__VA_ARGS__})

static struct talk say(const struct proxy *p, struct request q)
{
	struct talk t = {};
	const char *method = q.method ? q.method : "GET";

	t.error = web_open_from(&t.w, p->where, q.from);
	t.w.head = strcmp(method, "HEAD") == 0;
	if (t.error == 0 && q.body)
		t.error = web_ask(
			&t.w, &t.r,
			"%s %s HTTP/1.1\r\nHost: app.example\r\n%sContent-Length: %zu\r\n\r\n%s",
			method, q.target, q.headers ? q.headers : "", strlen(q.body), q.body);
	else if (t.error == 0)
		t.error = web_ask(&t.w, &t.r, "%s %s HTTP/1.1\r\nHost: app.example\r\n%s\r\n",
				  method, q.target, q.headers ? q.headers : "");
	return t;
}

static struct talk must_say(const struct proxy *p, struct request q)
{
	struct talk t = say(p, q);

	if (t.error < 0)
		fail_msg("%s %s: %s", q.method ? q.method : "GET", q.target, strerror(-t.error));
	return t;
}

static int status(const struct proxy *p, struct request q)
{
	struct talk t = must_say(p, q);
	int s = t.r.status;

	hang_up(&t);
	return s;
}

static unsigned app_seen(void)
{
	return atomic_load(&stand.app.seen);
}

/* All of a client's budget at @target. */
static void spend(const struct proxy *p, const char *from, const char *target)
{
	for (int i = 0; i < LIMIT; i++)
		assert_int_equal(status(p, R(.from = from, .target = target)), 200);
	assert_int_equal(status(p, R(.from = from, .target = target)), 429);
}

static void assert_once(const struct web_reply *r, const char *name)
{
	if (web_header_count(r, name) != 1)
		fail_msg("%zu lines of %s", web_header_count(r, name), name);
}

static void assert_none(const struct web_reply *r, const char *name)
{
	if (web_header_count(r, name) != 0)
		fail_msg("%s: \"%s\" where none should be", name, web_header(r, name));
}

static void assert_value(const struct web_reply *r, const char *name, const char *value)
{
	assert_once(r, name);
	assert_string_equal(web_header(r, name), value);
}

/* --- set-up ---- */

static bool decides(const struct proxy *p)
{
	struct talk t = say(p, R(.target = "/ready"));
	bool yes = t.error == 0 && t.r.status == 200 && web_header(&t.r, "X-Weir-Decision");

	hang_up(&t);
	return yes;
}

static void start_agent_with(const char *conf)
{
	int r = agent_start(&stand.agent, conf);

	if (r < 0)
		fail_msg("agent: %s: %s", strerror(-r), stand.agent.out);
	if (!wait_for(decides(&stand.open) && decides(&stand.closed), PROXY_WAIT_MS))
		fail_msg("the proxies do not find the agent");
}

static void start_agent(void)
{
	start_agent_with(stand.conf);
}

static int try_start(struct proxy *p, bool closed)
{
	char where[64], dir[128];
	int r = proxy_free_port(where, sizeof(where));

	(void)snprintf(dir, sizeof(dir), "%s/%s", stand.agent.dir, closed ? "closed" : "open");
	if (r == 0 && mkdir(dir, 0755) < 0)
		r = -errno;
	return r < 0 ? r : start_proxy(p, dir, where, closed);
}

static int set_up(void **state)
{
	const char *trusted =
		strcmp(profile, "haproxy-spoe") ? ", trusted_proxies: [127.0.0.1]" : "";
	int r;

	(void)state; /* stand is the state */
	r = proxy_free_port(stand.agent_where, sizeof(stand.agent_where));
	if (r == 0)
		r = app_start(&stand.app);
	if (r == 0)
		r = agent_prepare(&stand.agent);
	if (r < 0)
		return r;
	(void)snprintf(stand.agent_unix, sizeof(stand.agent_unix), "%s/sock", stand.agent.dir);
	(void)snprintf(stand.conf, sizeof(stand.conf),
		       "http:\n"
		       "  threads: 2\n"
		       "  listeners:\n"
		       "    - {listen: \"%s\", profile: %s%s}\n"
		       "    - {listen: \"unix:%s\", profile: %s}\n"
		       "    - {listen: \"127.0.0.1:0\", profile: metrics}\n"
		       "  proxy_headers: {user: X-Weir-User, plan: X-Plan, cost: X-Cost}\n"
		       "plans: [free, pro]\n"
		       "request_limits:\n"
		       "  - {name: below, match: {path: /limited/*}, key: ip, "
		       "algorithm: sliding-window-log, limit: {free: %d, pro: 1000}, window: 1h}\n"
		       "  - {name: exact, match: {path: /exact/page}, key: ip, "
		       "algorithm: sliding-window-log, limit: {free: %d, pro: 1000}, window: 1h}\n"
		       "  - {name: by-user, match: {path: /by-user}, key: {any: [user, ip]}, "
		       "algorithm: sliding-window-log, limit: %d, window: 1h}\n"
		       "  - {name: costly, match: {path: /costly}, key: ip, rate: 1/h, burst: 9, "
		       "cost: {from: proxy, min: 3, max: 50}}\n"
		       "  - {name: keyed, match: {path: /keyed}, key: api-key, missing: deny, "
		       "algorithm: sliding-window-log, limit: %d, window: 1h}\n"
		       "  - {name: watched, match: {path: /watched}, key: ip, mode: monitor, "
		       "algorithm: sliding-window-log, limit: 1, window: 1h}\n",
		       stand.agent_where, profile, trusted, stand.agent_unix, profile, LIMIT, LIMIT,
		       LIMIT, LIMIT);
	r = try_start(&stand.open, false);
	if (r == 0)
		r = try_start(&stand.closed, true);
	if (r < 0)
		return r;
	start_agent();
	return 0;
}

static int tear_down(void **state)
{
	int r;

	(void)state; /* as above */
	r = proxy_stop(&stand.open);
	if (proxy_stop(&stand.closed) != 0 && r == 0)
		r = -1;
	agent_stop(&stand.agent);
	app_stop(&stand.app);
	return r < 0 ? r : 0;
}

/* --- what the client is told ---- */

static void assert_quota(const struct web_reply *r, long long remaining)
{
	char ratelimit[64];
	long long reset = web_number(r, "X-RateLimit-Reset");

	assert_once(r, "X-RateLimit-Limit");
	assert_once(r, "X-RateLimit-Remaining");
	assert_once(r, "X-RateLimit-Reset");
	assert_int_equal(web_number(r, "X-RateLimit-Limit"), LIMIT);
	assert_int_equal(web_number(r, "X-RateLimit-Remaining"), remaining);
	assert_in_range(reset, 1, 3600);
	(void)snprintf(ratelimit, sizeof(ratelimit), "\"below\";r=%lld;t=%lld", remaining, reset);
	assert_value(r, "RateLimit", ratelimit);
	assert_value(r, "RateLimit-Policy", "\"below\";q=3;w=3600");
}

static void an_admission_carries_the_headers(void **state)
{
	struct talk t = must_say(&stand.open, R(.from = "127.0.2.1", .target = "/limited/a"));

	(void)state; /* stand */
	assert_int_equal(t.r.status, 200);
	assert_value(&t.r, "X-App", "yes");
	assert_value(&t.r, "X-Weir-Decision", "allow");
	assert_quota(&t.r, LIMIT - 1);
	assert_none(&t.r, "Retry-After");
	assert_none(&t.r, "X-Weir-Limit");
	assert_none(&t.r, "X-Weir-Would");
	assert_true(strncmp(t.r.body, "GET /limited/a HTTP/1.", 22) == 0);
	hang_up(&t);
}

/* Status, headers and body of a refusal, which agree. */
static void assert_refusal(const struct web_reply *r, int expected, const char *code,
			   const char *limit)
{
	json_error_t e;
	json_t *j = json_loadb(r->body, r->body_n, 0, &e), *retry;

	if (r->status != expected || !j)
		fail_msg("%d (not %d): %s", r->status, expected, r->body);
	assert_none(r, "X-App");
	assert_value(r, "Content-Type", "application/json");
	assert_value(r, "Cache-Control", "no-store");
	assert_string_equal(json_string_value(json_object_get(j, "code")), code);
	assert_non_null(json_string_value(json_object_get(j, "message")));
	retry = json_object_get(j, "retry_after_seconds");
	if (retry) {
		assert_once(r, "Retry-After");
		assert_int_equal(web_number(r, "Retry-After"), json_integer_value(retry));
		assert_true(json_integer_value(retry) >= 1);
	} else {
		assert_none(r, "Retry-After");
	}
	if (limit) {
		assert_value(r, "X-Weir-Decision", "deny");
		assert_value(r, "X-Weir-Limit", limit);
		assert_string_equal(json_string_value(json_object_get(j, "limit")), limit);
	}
	json_decref(j);
}

static void a_refusal_is_a_real_429(void **state)
{
	struct talk t;
	unsigned seen;

	(void)state; /* stand */
	spend(&stand.open, "127.0.2.2", "/limited/a");
	seen = app_seen();
	t = must_say(&stand.open, R(.from = "127.0.2.2", .target = "/limited/b"));
	assert_refusal(&t.r, 429, "RATE_LIMITED", "below");
	assert_quota(&t.r, 0);
	assert_in_range(web_number(&t.r, "Retry-After"), 3600 - 60, 3600);
	hang_up(&t);
	t = must_say(&stand.closed, R(.from = "127.0.2.2", .target = "/limited/b"));
	assert_refusal(&t.r, 429, "RATE_LIMITED", "below");
	hang_up(&t);
	t = must_say(&stand.open, R(.from = "127.0.2.2", .method = "POST", .target = "/limited/b",
				    .body = "hello"));
	assert_refusal(&t.r, 429, "RATE_LIMITED", "below");
	hang_up(&t);
	t = must_say(&stand.open, R(.from = "127.0.2.2", .method = "HEAD", .target = "/limited/b"));
	assert_int_equal(t.r.status, 429);
	assert_once(&t.r, "Retry-After");
	hang_up(&t);
	assert_int_equal(app_seen(), seen);
}

static void other_refusals_have_their_own_status(void **state)
{
	struct talk t = must_say(&stand.open, R(.from = "127.0.2.3", .target = "/keyed"));

	(void)state; /* stand */
	assert_refusal(&t.r, 403, "KEY_MISSING", "keyed");
	assert_none(&t.r, "X-RateLimit-Limit");
	hang_up(&t);
	assert_int_equal(status(&stand.open, R(.from = "127.0.2.3", .target = "/keyed",
					       .headers = "X-API-Key: k\r\n")),
			 200);
}

static void without_a_limit_there_are_no_numbers(void **state)
{
	struct talk t = must_say(&stand.open, R(.from = "127.0.2.4", .target = "/free"));

	(void)state; /* stand */
	assert_int_equal(t.r.status, 200);
	assert_value(&t.r, "X-Weir-Decision", "allow");
	assert_none(&t.r, "X-RateLimit-Limit");
	assert_none(&t.r, "X-RateLimit-Remaining");
	assert_none(&t.r, "X-RateLimit-Reset");
	assert_none(&t.r, "RateLimit");
	assert_none(&t.r, "RateLimit-Policy");
	hang_up(&t);
}

static void monitor_mode_says_what_it_would(void **state)
{
	struct talk t;

	(void)state; /* stand */
	assert_int_equal(status(&stand.open, R(.from = "127.0.2.5", .target = "/watched")), 200);
	t = must_say(&stand.open, R(.from = "127.0.2.5", .target = "/watched"));
	assert_int_equal(t.r.status, 200);
	assert_value(&t.r, "X-Weir-Would", "deny; limit=watched");
	hang_up(&t);
}

static void the_applications_own_errors_are_left_alone(void **state)
{
	static const int statuses[] = {400, 401, 403, 404, 413, 429, 431, 500, 502, 503, 504};
	const struct proxy *both[] = {&stand.open, &stand.closed};
	char target[32];

	(void)state; /* stand */
	for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
		(void)snprintf(target, sizeof(target), "/status/%d", statuses[i]);
		for (size_t k = 0; k < ARRAY_LEN(both); k++) {
			struct talk t = must_say(both[k], R(.from = "127.0.2.6", .target = target));

			assert_int_equal(t.r.status, statuses[i]);
			assert_value(&t.r, "X-App", "yes");
			assert_value(&t.r, "X-Weir-Decision", "allow");
			assert_none(&t.r, "Retry-After");
			assert_non_null(strstr(t.r.body, target));
			hang_up(&t);
		}
	}
}

static void the_application_cannot_speak_for_weir(void **state)
{
	struct talk t = must_say(&stand.open, R(.from = "127.0.2.7", .target = "/limited/forge"));

	(void)state; /* stand */
	assert_int_equal(t.r.status, 200);
	assert_value(&t.r, "X-Weir-Decision", "allow");
	assert_quota(&t.r, LIMIT - 1);
	hang_up(&t);
}

static void a_body_reaches_the_application_whole(void **state)
{
	struct talk t =
		must_say(&stand.open, R(.from = "127.0.2.8", .method = "POST",
					.target = "/limited/a%2Fb//c;d?e=%20f&deny_status=200",
					.body = "some words"));

	(void)state; /* stand */
	assert_int_equal(t.r.status, 200);
	assert_true(strncmp(t.r.body, "POST /limited/a%2Fb//c;d?e=%20f&deny_status=200 ", 48) == 0);
	assert_non_null(strstr(t.r.body, "\n\nsome words"));
	hang_up(&t);
}

/* --- what the client writes ---- */

static void two_clients_have_budgets_of_their_own(void **state)
{
	(void)state; /* stand */
	spend(&stand.open, "127.0.2.10", "/limited/a");
	spend(&stand.open, "127.0.2.11", "/limited/a");
	assert_int_equal(status(&stand.closed, R(.from = "127.0.2.12", .target = "/limited/a")),
			 200);
}

/* One line for each that got through, so that all are known at once. */
static void assert_gains_nothing(const char *what, struct request q)
{
	unsigned seen = app_seen();
	struct talk t = say(&stand.open, q);

	if (app_seen() != seen)
		fail_msg("%s %s reached the application: %d", q.target, what, t.r.status);
	/* the proxy may find it wrong itself */
	if (t.error == 0 && t.r.status != 429 && t.r.status != 400)
		fail_msg("%s %s: %d", q.target, what, t.r.status);
	hang_up(&t);
}

static void a_forged_header_gains_nothing(void **state)
{
	(void)state; /* stand */
	spend(&stand.open, "127.0.2.20", "/exact/page");
	for (size_t i = 0; i < ARRAY_LEN(forged_headers); i++)
		assert_gains_nothing(forged_headers[i],
				     R(.from = "127.0.2.20", .target = "/exact/page",
				       .headers = forged_headers[i]));
}

static void a_forged_target_gains_nothing(void **state)
{
	(void)state; /* stand */
	spend(&stand.open, "127.0.2.21", "/exact/page");
	for (size_t i = 0; i < ARRAY_LEN(forged_targets); i++)
		assert_gains_nothing("", R(.from = "127.0.2.21", .target = forged_targets[i]));
	assert_gains_nothing("HEAD",
			     R(.from = "127.0.2.21", .method = "HEAD", .target = "/exact/page"));
	assert_gains_nothing("QUERY",
			     R(.from = "127.0.2.21", .method = "QUERY", .target = "/exact/page"));
}

/* The other way round: nobody spends the budget of an address by writing it. */
static void a_forged_address_costs_nobody(void **state)
{
	const char *headers = "X-Forwarded-For: 127.0.2.23\r\nX-Real-IP: 127.0.2.23\r\n"
			      "Forwarded: for=127.0.2.23\r\nX-Client-IP: 127.0.2.23\r\n";

	(void)state; /* stand */
	for (int i = 0; i <= LIMIT; i++)
		assert_int_equal(status(&stand.open,
					R(.from = "127.0.2.22", .target = "/exact/page",
					  .headers = headers)),
				 i < LIMIT ? 200 : 429);
	spend(&stand.open, "127.0.2.23", "/exact/page");
}

static void user_plan_and_cost_are_not_the_clients_to_say(void **state)
{
	struct talk t;

	(void)state; /* stand */
	for (int i = 0; i <= LIMIT; i++) {
		char headers[128];

		(void)snprintf(headers, sizeof(headers), "X-Weir-User: user-%d\r\n", i);
		assert_int_equal(status(&stand.open, R(.from = "127.0.2.24", .target = "/by-user",
						       .headers = headers)),
				 i < LIMIT ? 200 : 429);
	}
	/* a cost of 3 is the least, and what is there without a word of the proxy is less */
	t = must_say(&stand.open, R(.from = "127.0.2.24", .target = "/costly",
				    .headers = "X-Cost: 50\r\nX-Plan: pro\r\n"));
	assert_int_equal(t.r.status, 200);
	assert_in_range(web_number(&t.r, "X-RateLimit-Remaining"), 6, 8);
	hang_up(&t);
}

static void the_application_sees_no_forged_word_of_weirs(void **state)
{
	struct talk t =
		must_say(&stand.open, R(.from = "127.0.2.25", .target = "/free",
					.headers = "X-Weir-Decision: allow\r\nX-Weir-User: root\r\n"
						   "X-Plan: pro\r\nX-Cost: 0\r\n"));

	(void)state; /* stand */
	assert_int_equal(t.r.status, 200);
	assert_null(strstr(t.r.body, "x-weir-"));
	assert_null(strstr(t.r.body, "x-plan"));
	assert_null(strstr(t.r.body, "x-cost"));
	hang_up(&t);
}

/* Whatever is too large for whom: it must not be a way around the limit. */
static void large_headers_are_no_way_around(void **state)
{
	static const char *const names[] = {"X-Big", "Cookie", "X-API-Key", "User-Agent"};
	char *text = malloc(100000);
	unsigned seen;

	(void)state; /* stand */
	assert_non_null(text);
	spend(&stand.open, "127.0.2.26", "/exact/page");
	seen = app_seen();
	for (size_t n = 1000; n < 20000; n += 1300) {
		size_t used = 0;
		struct talk t;

		for (size_t i = 0; i < ARRAY_LEN(names); i++) {
			used += (size_t)snprintf(text + used, 100000 - used, "%s: ", names[i]);
			memset(text + used, 'a', n);
			used += n;
			used += (size_t)snprintf(text + used, 100000 - used, "\r\n");
			t = say(&stand.open,
				R(.from = "127.0.2.26", .target = "/exact/page", .headers = text));
			hang_up(&t);
		}
		used = (size_t)snprintf(text, 100000, "/exact/page?");
		memset(text + used, 'q', n);
		text[used + n] = '\0';
		t = say(&stand.open, R(.from = "127.0.2.26", .target = text));
		hang_up(&t);
		if (app_seen() != seen)
			fail_msg("with %zu bytes a line: reached the application", n);
	}
	free(text);
}

static void many_headers_are_no_way_around(void **state)
{
	char text[8192];
	unsigned seen;

	(void)state; /* stand */
	spend(&stand.open, "127.0.2.27", "/exact/page");
	seen = app_seen();
	for (unsigned lines = 50; lines <= 400; lines += 50) {
		size_t used = 0;
		struct talk t;

		for (unsigned i = 0; i < lines; i++)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "H%u: %u\r\n", i,
						 i);
		t = say(&stand.open,
			R(.from = "127.0.2.27", .target = "/exact/page", .headers = text));
		hang_up(&t);
		if (app_seen() != seen)
			fail_msg("with %u lines: reached the application", lines);
	}
}

/* --- while the agent is away or slow ---- */

static void assert_open(const char *why)
{
	unsigned seen = app_seen();
	uint64_t began_ns = wait_now_ns();
	struct talk t = must_say(&stand.open, R(.from = "127.0.2.30", .method = "POST",
						.target = "/limited/a", .body = "some words"));

	if (t.r.status != 200 || app_seen() != seen + 1)
		fail_msg("agent %s, open: %d %s", why, t.r.status, t.r.body);
	assert_true(wait_now_ns() - began_ns < SLOW_MS * 1000000ULL);
	assert_non_null(strstr(t.r.body, "\n\nsome words"));
	assert_none(&t.r, "X-Weir-Decision");
	assert_none(&t.r, "X-RateLimit-Limit");
	assert_none(&t.r, "RateLimit");
	assert_none(&t.r, "Retry-After");
	hang_up(&t);
	t = must_say(&stand.open, R(.from = "127.0.2.30", .target = "/status/403"));
	assert_int_equal(t.r.status, 403);
	assert_value(&t.r, "X-App", "yes");
	hang_up(&t);
}

static void assert_closed(const char *why)
{
	unsigned seen = app_seen();
	uint64_t began_ns = wait_now_ns();
	struct talk t = must_say(&stand.closed, R(.from = "127.0.2.31", .method = "POST",
						  .target = "/limited/a", .body = "some words"));

	if (t.r.status != 503 || app_seen() != seen)
		fail_msg("agent %s, closed: %d %s", why, t.r.status, t.r.body);
	assert_true(wait_now_ns() - began_ns < SLOW_MS * 1000000ULL);
	assert_refusal(&t.r, 503, "CHECK_UNAVAILABLE", NULL);
	assert_int_equal(web_number(&t.r, "Retry-After"), 1);
	assert_none(&t.r, "X-RateLimit-Limit");
	hang_up(&t);
}

static void an_agent_that_is_away_is_what_the_switch_says(void **state)
{
	(void)state; /* stand */
	assert_int_equal(agent_end(&stand.agent), 0);
	for (int i = 0; i < LIMIT + 1; i++) {
		assert_open("away");
		assert_closed("away");
	}
	start_agent();
	spend(&stand.open, "127.0.2.32", "/limited/a");
}

/* A thread may go on for a moment after the signal was sent. */
static bool is_stopped(pid_t pid)
{
	char path[64], line[512];
	struct dirent *e;
	bool all = true;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d)) && all) {
		char stat[400];
		const char *at;
		FILE *f;

		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(stat, sizeof(stat), "%s/%s/stat", path, e->d_name);
		f = fopen(stat, "re");
		at = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		all = at && strncmp(at, ") T", 3) == 0;
		if (f)
			(void)fclose(f);
	}
	(void)closedir(d);
	return all;
}

static void an_agent_that_hangs_is_what_the_switch_says(void **state)
{
	(void)state; /* stand */
	spend(&stand.closed, "127.0.2.33", "/limited/a");
	assert_int_equal(kill(stand.agent.pid, SIGSTOP), 0);
	assert_true(wait_for(is_stopped(stand.agent.pid), PROXY_WAIT_MS));
	for (int i = 0; i < 2; i++) {
		assert_open("stopped");
		assert_closed("stopped");
	}
	assert_int_equal(kill(stand.agent.pid, SIGCONT), 0);
	assert_true(wait_for(decides(&stand.open) && decides(&stand.closed), PROXY_WAIT_MS));
	assert_int_equal(status(&stand.closed, R(.from = "127.0.2.33", .target = "/limited/a")),
			 429);
}

/* An agent that takes questions and closes instead of answering. SPOP's HELLO is answered, or none would be asked. */
static void *close_all(void *arg)
{
	static const char hello[] = "\0\0\0\x40\x65\0\0\0\1\0\0\x07version\x08\x03"
				    "2.0"
				    "\x0emax-frame-size\x03\xfc\xf0\x06\x0c"
				    "capabilities\x08\x0apipelining";
	int listener = *(int *)arg, fd;
	char buf[16384];
	ssize_t n;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n > 4 && buf[4] == 1) {
			(void)send(fd, hello, sizeof(hello) - 1, MSG_NOSIGNAL);
			if (!memmem(buf, (size_t)n, "healthcheck", 11))
				(void)recv(fd, buf, sizeof(buf), 0);
		}
		(void)close(fd);
	}
	return NULL;
}

static int listen_as_agent(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	__u64 port;

	assert_int_equal(weir_str_u64(strchr(stand.agent_where, ':') + 1, 65535, &port), 0);
	sin.sin_port = htons((__u16)port);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, 64), 0);
	return fd;
}

static void an_agent_that_closes_is_no_way_around(void **state)
{
	pthread_t thread;
	unsigned seen;
	int fd;

	(void)state; /* stand */
	assert_int_equal(agent_end(&stand.agent), 0);
	fd = listen_as_agent();
	assert_int_equal(pthread_create(&thread, NULL, close_all, &fd), 0);
	/* HAProxy must have found that there is an agent again */
	assert_true(wait_for(status(&stand.open, R(.from = "127.0.2.35", .target = "/limited/a")) ==
				     503,
			     PROXY_WAIT_MS));
	seen = app_seen();
	for (int i = 0; i < 5; i++) {
		struct talk t =
			must_say(&stand.open, R(.from = "127.0.2.35", .target = "/limited/a"));

		assert_refusal(&t.r, 503, "CHECK_UNAVAILABLE", NULL);
		hang_up(&t);
	}
	assert_int_equal(app_seen(), seen);
	(void)shutdown(fd, SHUT_RDWR); /* ends accept */
	(void)pthread_join(thread, NULL);
	(void)close(fd);
	start_agent();
}

/* Connections that the proxy keeps have died with the former agent. */
static void an_agent_that_starts_again_is_asked_again(void **state)
{
	(void)state; /* stand */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(agent_end(&stand.agent), 0);
		start_agent();
		assert_int_equal(status(&stand.closed,
					R(.from = "127.0.2.34", .target = "/limited/a")),
				 200);
	}
}

#define COMMON_TESTS                                                                               \
	cmocka_unit_test(an_admission_carries_the_headers),                                        \
		cmocka_unit_test(a_refusal_is_a_real_429),                                         \
		cmocka_unit_test(other_refusals_have_their_own_status),                            \
		cmocka_unit_test(without_a_limit_there_are_no_numbers),                            \
		cmocka_unit_test(monitor_mode_says_what_it_would),                                 \
		cmocka_unit_test(the_applications_own_errors_are_left_alone),                      \
		cmocka_unit_test(the_application_cannot_speak_for_weir),                           \
		cmocka_unit_test(a_body_reaches_the_application_whole),                            \
		cmocka_unit_test(two_clients_have_budgets_of_their_own),                           \
		cmocka_unit_test(a_forged_header_gains_nothing),                                   \
		cmocka_unit_test(a_forged_target_gains_nothing),                                   \
		cmocka_unit_test(a_forged_address_costs_nobody),                                   \
		cmocka_unit_test(user_plan_and_cost_are_not_the_clients_to_say),                   \
		cmocka_unit_test(the_application_sees_no_forged_word_of_weirs),                    \
		cmocka_unit_test(large_headers_are_no_way_around),                                 \
		cmocka_unit_test(many_headers_are_no_way_around),                                  \
		cmocka_unit_test(an_agent_that_is_away_is_what_the_switch_says),                   \
		cmocka_unit_test(an_agent_that_hangs_is_what_the_switch_says),                     \
		cmocka_unit_test(an_agent_that_closes_is_no_way_around),                           \
		cmocka_unit_test(an_agent_that_starts_again_is_asked_again)

/* Without the program there is nothing to test. */
static bool is_missing(void)
{
	if (proxy_find(program))
		return false;
	printf("skip: there is no %s (scripts/setup --proxies)\n", program);
	return true;
}

#endif
