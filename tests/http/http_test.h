/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests through the real port share: what each proxy says when it asks, one question and its answer, values of
 * JSON, metrics. Everything fails the test by itself.
 */
#ifndef WEIR_TESTS_HTTP_TEST_H
#define WEIR_TESTS_HTTP_TEST_H

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/agent.h"
#include "tests/lib/wait.h"
#include "tests/lib/web.h"
#include "user/base/cleanup.h"

/* One listener of each profile on loopback, where 127.0.0.1 is trusted; what follows goes on in http. */
#define LISTENERS                                                                                  \
	"http:\n"                                                                                  \
	"  threads: 2\n"                                                                           \
	"  listeners:\n"                                                                           \
	"    - {listen: 127.0.1.1:0, profile: nginx, trusted_proxies: [127.0.0.1]}\n"              \
	"    - {listen: 127.0.1.2:0, profile: caddy, trusted_proxies: [127.0.0.1]}\n"              \
	"    - {listen: 127.0.1.3:0, profile: traefik, trusted_proxies: [127.0.0.1]}\n"            \
	"    - {listen: 127.0.1.4:0, profile: envoy, trusted_proxies: [127.0.0.1]}\n"              \
	"    - {listen: 127.0.1.5:0, profile: json, token_file: @DIR@/json.token}\n"               \
	"    - {listen: 127.0.1.6:0, profile: metrics}\n"
#define TOKEN "a-token-of-sufficient-length-0123456789"

static inline void must_start(struct agent *a, const char *conf)
{
	int r = agent_prepare(a);

	if (r == 0)
		r = agent_file(a, "json.token", TOKEN "\n");
	if (r == 0)
		r = agent_start(a, conf);
	if (r < 0)
		fail_msg("%s: %s", strerror(-r), a->out ? a->out : "");
}

/* An agent for each test of a program. @nobody: without rights. */
static inline int start_case(void **state, const char *conf, bool nobody)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (!a)
		return -1;
	a->nobody = nobody;
	must_start(a, conf);
	*state = a;
	return 0;
}

static inline int end_case(void **state)
{
	struct agent *a = *state;
	int r = agent_end(a);

	agent_stop(a);
	free(a);
	return r;
}

static inline void must_reload(struct agent *a, const char *conf)
{
	int r = agent_reload(a, conf);

	if (r < 0)
		fail_msg("%s: %s", strerror(-r), a->out);
}

static inline const char *must_where(const struct agent *a, const char *profile)
{
	const char *where = agent_where(a, profile);

	if (!where)
		fail_msg("no listener of profile %s", profile);
	return where;
}

static inline struct web must_open(const struct agent *a, const char *profile)
{
	struct web w;
	int r = web_open(&w, must_where(a, profile));

	if (r < 0)
		fail_msg("%s: %s", profile, strerror(-r));
	return w;
}

/* --- what a proxy says ---- */

struct question {
	const char *method; /* NULL: GET */
	const char *target; /* as the client wrote it */
	const char *ip;	    /* of the client; NULL: the proxy says none */
	const char *more;   /* header lines, each with its line end; NULL: none */
};
#define Q(...) ((struct question){__VA_ARGS__})

/* Into @buf; returns its length. */
static inline size_t write_question(const char *profile, struct question q, char *buf, size_t size)
{
	const char *method = q.method ? q.method : "GET", *ip = q.ip ? q.ip : "";
	const char *name = q.ip ? "X-Forwarded-For: " : "", *end = q.ip ? "\r\n" : "";
	const char *more = q.more ? q.more : "";
	int n;

	if (strcmp(profile, "envoy") == 0)
		n = snprintf(buf, size, "%s /check%s HTTP/1.1\r\nHost: app\r\n%s%s%s%s\r\n", method,
			     q.target, name, ip, end, more);
	else if (strcmp(profile, "nginx") == 0)
		n = snprintf(buf, size,
			     "GET /check HTTP/1.1\r\nHost: app\r\nX-Original-Method: %s\r\n"
			     "X-Original-URI: %s\r\n%s%s%s%s\r\n",
			     method, q.target, name, ip, end, more);
	else
		n = snprintf(buf, size,
			     "GET /check HTTP/1.1\r\nHost: app\r\nX-Forwarded-Method: %s\r\n"
			     "X-Forwarded-Uri: %s\r\n%s%s%s%s\r\n",
			     method, q.target, name, ip, end, more);
	assert_in_range(n, 1, size - 1);
	return (size_t)n;
}

/* On a connection that is open. The status; *ret may be NULL. */
static inline int ask(struct web *w, const char *profile, struct question q, struct web_reply *ret)
{
	char text[32768];
	size_t n = write_question(profile, q, text, sizeof(text));
	struct web_reply own;
	int r;

	if (!ret)
		ret = &own;
	r = web_send(w, text, n);
	if (r == 0)
		r = web_wait(w, WEB_WAIT_MS, ret);
	if (r < 0)
		fail_msg("%s %s: %s", profile, q.target, strerror(-r));
	return ret->status;
}

/* How many of @n such questions in a row are answered 200. */
static inline unsigned admitted(struct web *w, const char *profile, struct question q, unsigned n)
{
	unsigned yes = 0;

	for (unsigned i = 0; i < n; i++)
		yes += ask(w, profile, q, NULL) == 200;
	return yes;
}

/* --- profile json ---- */

static inline int post(struct web *w, const char *path, const char *token, const char *body,
		       struct web_reply *ret)
{
	struct web_reply own;
	int r;

	if (!ret)
		ret = &own;
	r = web_ask(w, ret,
		    "POST %s HTTP/1.1\r\nHost: weir\r\n%s%s%sContent-Type: application/json\r\n"
		    "Content-Length: %zu\r\n\r\n%s",
		    path, token ? "Authorization: Bearer " : "", token ? token : "",
		    token ? "\r\n" : "", strlen(body), body);
	if (r < 0)
		fail_msg("POST %s %.200s: %s", path, body, strerror(-r));
	return ret->status;
}

/* The answer as a new reference. */
static inline json_t *check(struct web *w, const char *body)
{
	struct web_reply r;
	json_error_t e;
	json_t *j;

	if (post(w, "/v1/check", TOKEN, body, &r) >= 500)
		fail_msg("%s: %d %s", body, r.status, r.body);
	j = json_loadb(r.body, r.body_n, 0, &e);
	if (!j)
		fail_msg("%s: %d %s: %s", body, r.status, r.body, e.text);
	return j;
}

static inline long long number_in(const json_t *j, const char *key)
{
	const json_t *v = json_object_get(j, key);

	return json_is_integer(v) ? json_integer_value(v) : -1;
}

static inline const char *text_in(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

static inline bool true_in(const json_t *j, const char *key)
{
	return json_is_true(json_object_get(j, key));
}

/* --- metrics ---- */

/* The value of a sample, by everything before the blank: "weir_requests_total{limit=\"a\"}"; -1: there is none. */
static inline double metric(const struct agent *a, const char *sample)
{
	struct web w = must_open(a, "metrics");
	size_t n = strlen(sample);
	struct web_reply r;
	double value = -1;
	const char *at;

	assert_int_equal(web_ask(&w, &r, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_int_equal(r.status, 200);
	for (at = r.body; (at = strstr(at, sample)); at += n)
		if ((at == r.body || at[-1] == '\n') && at[n] == ' ') {
			value = strtod(at + n + 1, NULL);
			break;
		}
	web_close(&w);
	return value;
}

/* The sum over all samples of a name. */
static inline double metric_sum(const struct agent *a, const char *name)
{
	struct web w = must_open(a, "metrics");
	size_t n = strlen(name);
	struct web_reply r;
	double value = -1;
	const char *at, *blank;

	assert_int_equal(web_ask(&w, &r, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_int_equal(r.status, 200);
	for (at = r.body; (at = strstr(at, name)); at += n) {
		blank = strpbrk(at, " \n");
		if ((at == r.body || at[-1] == '\n') && (at[n] == ' ' || at[n] == '{') && blank &&
		    *blank == ' ')
			value = (value < 0 ? 0 : value) + strtod(blank + 1, NULL);
	}
	web_close(&w);
	return value;
}

/* The agent still decides, and tells of it. */
static inline void must_be_well(struct agent *a)
{
	struct web w = must_open(a, "caddy");

	if (!agent_runs(a))
		fail_msg("the agent has ended");
	assert_int_equal(ask(&w, "caddy", Q(.target = "/well", .ip = "203.0.113.250"), NULL), 200);
	web_close(&w);
}

#endif
