/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Envoy's ext_authz (HTTP service) and Traefik's ForwardAuth, which are no Debian packages: a client that asks the agent
 * exactly as their documentation says they do, by what docs/proxies/envoy.yaml and traefik.yaml say.
 *
 * Envoy: the request's own method and path behind path_prefix; Host, Authorization and the allowed_headers of the client's
 * request; Content-Length 0; X-Forwarded-For of the client, then the peer (use_remote_address), then Envoy's own address.
 * Only 200 admits, and a 5xx is an error.
 * Traefik: GET of the address; the authRequestHeaders of the client's request; its own X-Forwarded-Method, -Proto, -Host,
 * -Uri and -For, whatever the client wrote (trustForwardHeader: false). 2xx admits.
 */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "tests/lib/agent.h"
#include "tests/lib/web.h"
#include "tests/proxy/forged.h"
#include "user/base/cleanup.h"

#define LIMIT	   3
#define NAMES_MAX  16
#define ENVOYS_OWN "10.0.0.5"

static struct agent agent;

static const char conf[] =
	"http:\n"
	"  threads: 2\n"
	"  listeners:\n"
	"    - {listen: \"127.0.0.1:0\", profile: envoy, trusted_proxies: [127.0.0.1, 10.0.0.5]}\n"
	"    - {listen: \"127.0.0.1:0\", profile: envoy, trusted_proxies: [127.0.0.1]}\n"
	"    - {listen: \"127.0.0.1:0\", profile: traefik, trusted_proxies: [127.0.0.1]}\n"
	"  proxy_headers: {user: X-Weir-User, plan: X-Plan, cost: X-Cost}\n"
	"plans: [free, pro]\n"
	"exempt:\n"
	"  - {preflight: true}\n"
	"request_limits:\n"
	"  - {name: exact, match: {path: /exact/page}, key: ip, algorithm: sliding-window-log, "
	"limit: {free: 3, pro: 1000}, window: 1h}\n"
	"  - {name: keyed, match: {path: /keyed}, key: api-key, missing: deny, "
	"algorithm: sliding-window-log, limit: 3, window: 1h}\n"
	"  - {name: slow, match: {path: /slow}, key: ip, algorithm: leaky-bucket, rate: 1/h, "
	"queue: 10, max_wait: 1s}\n";

/* --- what the configurations say ---- */

struct names {
	char name[NAMES_MAX][64];
	size_t n;
};

static char *file(const char *path)
{
	char *text = calloc(1, 32768);
	FILE *f = fopen(path, "re");

	assert_non_null(text);
	if (!f || fread(text, 1, 32767, f) == 0)
		fail_msg("cannot read %s", path);
	(void)fclose(f);
	return text;
}

/* Every word between @before and @after, in the part of @text from the line @from to the line @to. */
static struct names words(const char *text, const char *from, const char *to, const char *before,
			  const char *after)
{
	const char *at = strstr(text, from), *end = at ? strstr(at, to) : NULL;
	struct names n = {.n = 0};

	if (!end)
		fail_msg("no %s before %s", from, to);
	while ((at = strstr(at, before)) && at < end) {
		at += strlen(before);
		assert_true(n.n < NAMES_MAX);
		(void)snprintf(n.name[n.n++], sizeof(n.name[0]), "%.*s", (int)strcspn(at, after),
			       at);
	}
	return n;
}

static struct names envoy_headers(void)
{
	_cleanup_free_ char *text = file("docs/proxies/envoy.yaml");
	struct names n = words(text, "allowed_headers:", "http_service:", "{exact: ", "}");

	assert_non_null(strstr(text, "path_prefix: /check\n"));
	assert_non_null(strstr(text, "use_remote_address: true"));
	return n;
}

static struct names traefik_headers(void)
{
	_cleanup_free_ char *text = file("docs/proxies/traefik.yaml");

	assert_non_null(strstr(text, ":9470/check"));
	assert_non_null(strstr(text, "trustForwardHeader: false"));
	return words(text, "authRequestHeaders:", "# Of an admission", "- ", " \n");
}

/* --- the client's request, and the proxy's question ---- */

struct request {
	const char *from, *method, *target, *headers; /* headers: lines, each with its end */
};
#define R(...) ((struct request){__VA_ARGS__})

/* Lines of the client's that are among @names; returns how many bytes. */
static size_t put_allowed(char *to, size_t room, const char *headers, const struct names *names)
{
	const char *line = headers ? headers : "", *end;
	size_t n = 0;

	for (; (end = strstr(line, "\r\n")); line = end + 2) {
		size_t name_n = strcspn(line, ":");

		for (size_t i = 0; i < names->n; i++)
			if (strlen(names->name[i]) == name_n &&
			    strncasecmp(names->name[i], line, name_n) == 0)
				n += (size_t)snprintf(to + n, room - n, "%.*s\r\n",
						      (int)(end - line), line);
	}
	return n;
}

/* Without scheme and authority, which both make the host of. */
static const char *path_of(const char *target)
{
	const char *slash;

	if (strncasecmp(target, "http://", 7) != 0)
		return target;
	slash = strchr(target + 7, '/');
	return slash ? slash : "/";
}

/* The value of a header that the client sent, or "". */
static const char *sent(const struct request *q, const char *name, char buf[static 256])
{
	const char *line = q->headers ? q->headers : "", *end;

	buf[0] = '\0';
	for (; (end = strstr(line, "\r\n")); line = end + 2) {
		size_t n = strlen(name);

		if (strncasecmp(line, name, n) == 0 && line[n] == ':')
			(void)snprintf(buf + strlen(buf), 256 - strlen(buf), "%s%.*s",
				       buf[0] ? "," : "", (int)(end - line - n - 1), line + n + 1);
	}
	return buf;
}

static size_t write_envoy(const struct request *q, char *to, size_t room)
{
	struct names all = envoy_headers(), names = {.n = 0};
	char forwarded[256];
	size_t n;

	for (size_t i = 0; i < all.n; i++) /* X-Forwarded-For is added to below */
		if (strcmp(all.name[i], "x-forwarded-for") != 0)
			memcpy(names.name[names.n++], all.name[i], sizeof(all.name[0]));
	assert_int_equal(names.n, all.n - 1);
	(void)snprintf(names.name[names.n++], sizeof(names.name[0]), "authorization");
	n = (size_t)snprintf(to, room,
			     "%s /check%s HTTP/1.1\r\nhost: app.example\r\n"
			     "content-length: 0\r\n",
			     q->method ? q->method : "GET", path_of(q->target));
	n += put_allowed(to + n, room - n, q->headers, &names);
	(void)sent(q, "X-Forwarded-For", forwarded);
	n += (size_t)snprintf(to + n, room - n,
			      "x-forwarded-for: %s%s%s, " ENVOYS_OWN "\r\n"
			      "x-envoy-internal: true\r\n"
			      "x-envoy-expected-rq-timeout-ms: 200\r\n\r\n",
			      forwarded, forwarded[0] ? ", " : "", q->from);
	assert_true(n < room);
	return n;
}

static size_t write_traefik(const struct request *q, char *to, size_t room)
{
	struct names names = traefik_headers();
	size_t n = (size_t)snprintf(to, room,
				    "GET /check HTTP/1.1\r\nHost: 127.0.0.1:9470\r\n"
				    "Accept-Encoding: gzip\r\n");

	n += put_allowed(to + n, room - n, q->headers, &names);
	n += (size_t)snprintf(to + n, room - n,
			      "X-Forwarded-For: %s\r\nX-Forwarded-Method: %s\r\n"
			      "X-Forwarded-Proto: http\r\nX-Forwarded-Host: app.example\r\n"
			      "X-Forwarded-Uri: %s\r\n\r\n",
			      q->from, q->method ? q->method : "GET", path_of(q->target));
	assert_true(n < room);
	return n;
}

/* One of the two, on a kept connection. */
struct proxy {
	const char *name;
	size_t nth; /* of the agent's listeners of that profile */
	size_t (*write)(const struct request *q, char *to, size_t room);
};
static const struct proxy envoy = {"envoy", 0, write_envoy};
static const struct proxy envoy_unknown = {"envoy", 1, write_envoy};
static const struct proxy traefik = {"traefik", 0, write_traefik};
static const struct proxy *const both[] = {&envoy, &traefik};

static struct web web;
static const struct proxy *web_of;

static int ask(const struct proxy *p, struct request q, struct web_reply *ret)
{
	char text[16384];
	size_t n = p->write(&q, text, sizeof(text));
	struct web_reply own;
	int r = 0;

	if (web_of != p) {
		web_close(&web);
		r = web_open(&web, agent_where_nth(&agent, p->name, p->nth));
		web_of = p;
	}
	web.head = strncmp(text, "HEAD ", 5) == 0;
	if (r == 0)
		r = web_send(&web, text, n);
	if (r == 0)
		r = web_wait(&web, WEB_WAIT_MS, ret ? ret : &own);
	if (r < 0)
		fail_msg("%s %s: %s", p->name, q.target, strerror(-r));
	return ret ? ret->status : own.status;
}

static void spend(const struct proxy *p, const char *from)
{
	for (int i = 0; i < LIMIT; i++)
		assert_int_equal(ask(p, R(.from = from, .target = "/exact/page"), NULL), 200);
	assert_int_equal(ask(p, R(.from = from, .target = "/exact/page"), NULL), 429);
}

static int set_up(void **state)
{
	(void)state; /* agent is the state */
	if (agent_start(&agent, conf) < 0)
		fail_msg("%s", agent.out);
	return 0;
}

static int tear_down(void **state)
{
	(void)state; /* as above */
	web_close(&web);
	agent_stop(&agent);
	return 0;
}

/* --- promises ---- */

static void an_admission_is_exactly_200(void **state)
{
	struct web_reply r;

	(void)state; /* agent */
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		assert_int_equal(ask(both[i], R(.from = "192.0.2.1", .target = "/exact/page"), &r),
				 200);
		assert_string_equal(web_header(&r, "X-Weir-Decision"), "allow");
		assert_int_equal(web_number(&r, "X-RateLimit-Limit"), LIMIT);
		assert_int_equal(web_number(&r, "X-RateLimit-Remaining"), LIMIT - 1 - (int)i);
		assert_int_equal(web_header_count(&r, "RateLimit"), 1);
		assert_int_equal(web_header_count(&r, "RateLimit-Policy"), 1);
		assert_int_equal(r.body_n, 0);
	}
}

/* Both hand it to the client as it is. */
static void a_refusal_is_whole(void **state)
{
	struct web_reply r;
	char from[32];

	(void)state; /* agent */
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		json_t *j;

		(void)snprintf(from, sizeof(from), "192.0.2.%zu", 10 + i);
		spend(both[i], from);
		assert_int_equal(ask(both[i],
				     R(.from = from, .method = "POST", .target = "/exact/page"),
				     &r),
				 429);
		assert_in_range(web_number(&r, "Retry-After"), 3500, 3600);
		assert_string_equal(web_header(&r, "X-Weir-Limit"), "exact");
		assert_string_equal(web_header(&r, "Cache-Control"), "no-store");
		assert_string_equal(web_header(&r, "Content-Type"), "application/json");
		j = json_loadb(r.body, r.body_n, 0, NULL);
		assert_non_null(j);
		assert_int_equal(json_integer_value(json_object_get(j, "retry_after_seconds")),
				 web_number(&r, "Retry-After"));
		json_decref(j);
	}
}

/* To Envoy a 5xx is an error, which failure_mode_allow lets through. */
static void a_refusal_is_never_5xx_to_envoy(void **state)
{
	(void)state; /* agent */
	assert_int_equal(ask(&envoy, R(.from = "192.0.2.20", .target = "/keyed"), NULL), 403);
	assert_int_equal(ask(&envoy, R(.from = "192.0.2.20", .target = "/a%00"), NULL), 400);
	assert_int_equal(ask(&envoy, R(.from = "192.0.2.20", .target = "/a%zz"), NULL), 400);
	spend(&envoy, "192.0.2.20");
}

/* It gives up after 200 ms, and then lets the request pass. */
static void envoy_never_waits_for_a_turn(void **state)
{
	struct web_reply r;

	(void)state; /* agent */
	assert_int_equal(ask(&envoy, R(.from = "192.0.2.21", .target = "/slow"), NULL), 200);
	assert_int_equal(ask(&envoy, R(.from = "192.0.2.21", .target = "/slow"), &r), 429);
	assert_int_equal(web_header_count(&r, "Retry-After"), 1);
}

static void two_clients_have_budgets_of_their_own(void **state)
{
	(void)state; /* agent */
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		char from[2][32];

		(void)snprintf(from[0], sizeof(from[0]), "192.0.2.%zu", 30 + 2 * i);
		(void)snprintf(from[1], sizeof(from[1]), "2001:db8:%zu::1", i);
		spend(both[i], from[0]);
		spend(both[i], from[1]);
	}
}

/* Why docs/proxies.md asks for Envoy's own address among trusted_proxies. */
static void envoys_own_address_is_a_client_where_it_is_not_trusted(void **state)
{
	(void)state; /* agent */
	spend(&envoy_unknown, "192.0.2.40");
	assert_int_equal(ask(&envoy_unknown, R(.from = "192.0.2.41", .target = "/exact/page"),
			     NULL),
			 429);
}

static void what_a_limit_uses_reaches_weir(void **state)
{
	(void)state; /* agent */
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		assert_int_equal(ask(both[i],
				     R(.from = "192.0.2.50", .target = "/keyed",
				       .headers = "X-API-Key: a\r\n"),
				     NULL),
				 200);
		assert_int_equal(ask(both[i], R(.from = "192.0.2.50", .target = "/keyed"), NULL),
				 403);
	}
}

static void a_preflight_is_known(void **state)
{
	const char *headers = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n";
	char from[32];

	(void)state; /* agent */
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		(void)snprintf(from, sizeof(from), "192.0.2.%zu", 60 + i);
		spend(both[i], from);
		assert_int_equal(ask(both[i],
				     R(.from = from, .method = "OPTIONS", .target = "/exact/page",
				       .headers = headers),
				     NULL),
				 200);
	}
}

static void a_forged_header_gains_nothing(void **state)
{
	char from[32];

	(void)state; /* agent */
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		(void)snprintf(from, sizeof(from), "192.0.2.%zu", 70 + i);
		spend(both[i], from);
		for (size_t k = 0; k < ARRAY_LEN(forged_headers); k++) {
			int s = ask(both[i],
				    R(.from = from, .target = "/exact/page",
				      .headers = forged_headers[k]),
				    NULL);

			if (s != 429)
				fail_msg("%s: %d with %s", both[i]->name, s, forged_headers[k]);
		}
	}
}

static void a_forged_target_gains_nothing(void **state)
{
	char from[32];

	(void)state; /* agent */
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		(void)snprintf(from, sizeof(from), "192.0.2.%zu", 80 + i);
		spend(both[i], from);
		for (size_t k = 0; k < ARRAY_LEN(forged_targets); k++) {
			int s = ask(both[i], R(.from = from, .target = forged_targets[k]), NULL);

			if (s != 429 && s != 400)
				fail_msg("%s: %d with %s", both[i]->name, s, forged_targets[k]);
		}
	}
}

static void a_forged_address_costs_nobody(void **state)
{
	const char *headers = "X-Forwarded-For: 192.0.2.95\r\n";
	char from[32];

	(void)state; /* agent */
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		(void)snprintf(from, sizeof(from), "192.0.2.%zu", 90 + i);
		for (int k = 0; k <= LIMIT; k++)
			assert_int_equal(ask(both[i],
					     R(.from = from, .target = "/exact/page",
					       .headers = headers),
					     NULL),
					 k < LIMIT ? 200 : 429);
	}
	spend(&envoy, "192.0.2.95");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_admission_is_exactly_200),
		cmocka_unit_test(a_refusal_is_whole),
		cmocka_unit_test(a_refusal_is_never_5xx_to_envoy),
		cmocka_unit_test(envoy_never_waits_for_a_turn),
		cmocka_unit_test(two_clients_have_budgets_of_their_own),
		cmocka_unit_test(envoys_own_address_is_a_client_where_it_is_not_trusted),
		cmocka_unit_test(what_a_limit_uses_reaches_weir),
		cmocka_unit_test(a_preflight_is_known),
		cmocka_unit_test(a_forged_header_gains_nothing),
		cmocka_unit_test(a_forged_target_gains_nothing),
		cmocka_unit_test(a_forged_address_costs_nobody),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
