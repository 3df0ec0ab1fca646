/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whatever a client writes gives it nothing: addresses, targets, plans and costs of strangers, spellings of one path,
 * separators in keys, and keys made up on every request.
 */
#include "http_test.h"

/* The proxy is 127.0.0.1, behind which 10.0.0.0/8 may stand; 127.0.0.2 and others are strangers. */
static const char conf[] =
	"http:\n"
	"  threads: 2\n"
	"  proxy_headers: {user: X-Weir-User, plan: X-Plan, cost: X-Cost}\n"
	"  api_key: [header X-API-Key, query api_key]\n"
	"  listeners:\n"
	"    - {listen: 127.0.1.1:0, profile: caddy, trusted_proxies: [127.0.0.1, 10.0.0.0/8]}\n"
	"    - {listen: 127.0.1.2:0, profile: nginx, trusted_proxies: [127.0.0.1, 10.0.0.0/8]}\n"
	"    - {listen: 127.0.1.3:0, profile: envoy, trusted_proxies: [127.0.0.1, 10.0.0.0/8]}\n"
	"    - {listen: \"unix:@DIR@/traefik.sock\", profile: traefik}\n"
	"    - {listen: 127.0.1.4:0, profile: json, token_file: @DIR@/json.token}\n"
	"    - {listen: 127.0.1.5:0, profile: metrics}\n"
	"plans: [free, pro]\n"
	"exempt:\n"
	"  - {path: [/healthz, /static/*]}\n"
	"request_limits:\n"
	"  - {name: everybody, match: {path: [/hello, /check, /]}, key: ip, "
	"algorithm: sliding-window-log, limit: {free: 3, pro: 100}, window: 1h}\n"
	"  - {name: login, match: {method: POST, path: /api/login}, key: ip, "
	"algorithm: sliding-window-log, limit: 3, window: 1h}\n"
	"  - {name: page, match: {method: GET, path: /page}, key: ip, "
	"algorithm: sliding-window-log, limit: 3, window: 1h}\n"
	"  - {name: endpoint, match: {path: /scan/*}, key: [ip, endpoint], "
	"algorithm: sliding-window-log, limit: 3, window: 1h}\n"
	"  - {name: pair, match: {path: /pair}, key: [\"header:X-A\", \"header:X-B\"], missing: "
	"deny, "
	"algorithm: sliding-window-log, limit: 1, window: 1h}\n"
	"  - {name: any, match: {path: /any}, key: {any: [api-key, token, [ip, user-agent]], "
	"new_per_ip: 20 per 1h}, algorithm: sliding-window-log, limit: 3, window: 1h}\n"
	"  - {name: host, match: {host: app.example, path: /hosted}, key: ip, "
	"algorithm: sliding-window-log, limit: 3, window: 1h}\n";

static int set_up(void **state)
{
	return start_case(state, conf, false);
}

static void must_get(unsigned got, unsigned want, const char *what)
{
	if (got != want)
		fail_msg("%s: %u admitted, not %u", what, got, want);
}

/* --- strangers ---- */

static struct web open_from(const struct agent *a, const char *profile, const char *from)
{
	struct web w;

	assert_int_equal(web_open_from(&w, must_where(a, profile), from), 0);
	return w;
}

static void what_a_stranger_forwards_is_ignored(void **state)
{
	static const char *const profiles[] = {"caddy", "nginx", "envoy"};
	static const char *const targets[] = {"/hello", "/healthz", "/static/x", "/login"};
	double before = metric_sum(*state, "weir_untrusted_forwarded_total");
	char from[32], ip[32], more[128];

	for (size_t p = 0; p < ARRAY_LEN(profiles); p++) {
		unsigned got = 0;

		(void)snprintf(from, sizeof(from), "127.0.0.%zu", 2 + p);
		for (unsigned i = 0; i < 24; i++) {
			struct web w = open_from(*state, profiles[p], from);
			struct question q = Q(.target = targets[i % 4], .ip = ip, .more = more);

			(void)snprintf(ip, sizeof(ip), "198.51.100.%u", i);
			(void)snprintf(more, sizeof(more),
				       "X-Plan: pro\r\nX-Cost: 0\r\nX-Weir-User: u%u\r\n", i);
			if (strcmp(profiles[p], "envoy") == 0)
				q.target = ""; /* the target is the request's own there */
			got += ask(&w, profiles[p], q, NULL) == 200;
			web_close(&w);
		}
		must_get(got, 3, profiles[p]);
	}
	assert_true(metric_sum(*state, "weir_untrusted_forwarded_total") >= before + 3 * 24);
}

static void headers_of_other_profiles_are_nobodys(void **state)
{
	static const char *const more[] = {
		"X-Original-URI: /healthz\r\n",
		"X-Original-URL: /healthz\r\n",
		"X-Rewrite-URL: /healthz\r\n",
		"X-Original-Method: GET\r\nX-HTTP-Method-Override: GET\r\n",
		"Forwarded: for=203.0.113.9;proto=https\r\n",
		"X-Real-IP: 203.0.113.10\r\n",
		"X-Client-IP: 203.0.113.11\r\nTrue-Client-IP: 203.0.113.11\r\n",
		"CF-Connecting-IP: 203.0.113.12\r\nFastly-Client-IP: 203.0.113.12\r\n",
		"X-Envoy-External-Address: 203.0.113.13\r\n",
		"X-Cluster-Client-IP: 203.0.113.14\r\n",
	};
	struct web w = must_open(*state, "caddy");
	unsigned got = 0;

	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		got += ask(&w, "caddy",
			   Q(.method = "POST", .target = "/api/login", .ip = "198.51.100.100",
			     .more = more[i]),
			   NULL) == 200;
	must_get(got, 3, "caddy");
	web_close(&w);
}

static void a_query_of_the_question_carries_no_option(void **state)
{
	static const char *const queries[] = {"deny_status=200", "uri=/healthz", "ip=203.0.113.20",
					      "cost=0",		 "peek=true",	 "mode=monitor",
					      "plan=pro",	 "limit=none",	 "method=GET"};
	struct web w = must_open(*state, "caddy");
	struct web_reply r;
	unsigned got = 0;

	for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
		assert_int_equal(web_ask(&w, &r,
					 "GET /check?%s HTTP/1.1\r\nHost: a\r\n"
					 "X-Forwarded-Method: POST\r\n"
					 "X-Forwarded-Uri: /api/login\r\n"
					 "X-Forwarded-For: 198.51.100.101\r\n\r\n",
					 queries[i]),
				 0);
		got += r.status == 200;
	}
	must_get(got, 3, "queries");
	web_close(&w);
}

/* --- X-Forwarded-For ---- */

#define TEN_HOPS                                                                                   \
	", 10.0.2.1, 10.0.2.2, 10.0.2.3, 10.0.2.4, 10.0.2.5, 10.0.2.6, 10.0.2.7, 10.0.2.8, "       \
	"10.0.2.9, 10.0.2.1"

/* @lines with # for what the client invents. */
static unsigned by_lines(struct web *w, const char *lines, unsigned n)
{
	char more[2048];
	unsigned got = 0;

	for (unsigned i = 0; i < n; i++) {
		size_t at = 0;

		for (const char *c = lines; *c && at < sizeof(more) - 16; c++)
			if (*c == '#')
				at += (size_t)snprintf(more + at, 8, "%u", i);
			else
				more[at++] = *c;
		more[at] = '\0';
		got += ask(w, "caddy", Q(.target = "/hello", .more = more), NULL) == 200;
	}
	return got;
}

static void only_what_trusted_hops_say_counts(void **state)
{
	/* one client each, whatever stands in front; # changes on every request */
	static const char *const lines[] = {
		"X-Forwarded-For: 203.0.113.#\r\nX-Forwarded-For: 198.51.100.110\r\n",
		"X-Forwarded-For: 203.0.113.#, 198.51.100.111\r\n",
		"X-Forwarded-For: 203.0.113.#, 198.51.100.112, 10.0.0.1\r\n",
		"X-Forwarded-For: 203.0.113.#, 198.51.100.113\r\nX-Forwarded-For: 10.0.0.1\r\n",
		"X-Forwarded-For: 203.0.113.#\r\nx-forwarded-for: 198.51.100.114\r\n",
		"X-Forwarded-For: 10.1.1.#, 198.51.100.115\r\n",
		"X-Forwarded-For: 127.0.0.1, 203.0.113.#, 198.51.100.116,10.9.9.9\r\n",
		"X-Forwarded-For: 198.51.100.117:1#\r\n",
		"X-Forwarded-For: [2001:db8:7::1]:1#\r\n",
		"X-Forwarded-For: 2001:db8:8::#\r\n",
		"X-Forwarded-For: [2001:db8:9::#]\r\n",
		"X-Forwarded-For: ::ffff:198.51.100.118, 10.0.0.#\r\n",
		"X-Forwarded-For: 203.0.113.#" TEN_HOPS TEN_HOPS TEN_HOPS TEN_HOPS TEN_HOPS TEN_HOPS
			TEN_HOPS TEN_HOPS "\r\n",
		/* no address: nothing to the left of it is believed, the last hop is the client */
		"X-Forwarded-For: 203.0.113.#, unknown, 10.0.1.1\r\n",
		"X-Forwarded-For: 203.0.113.#, , 10.0.1.2\r\n",
		"X-Forwarded-For: 203.0.113.#, _hidden#, 10.0.1.3\r\n",
		"X-Forwarded-For: 203.0.113.#, 999.1.1.1, 10.0.1.4\r\n",
		"X-Forwarded-For: 203.0.113.#;198.51.100.1, 10.0.1.5\r\n",
	};
	struct web w = must_open(*state, "caddy");

	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		must_get(by_lines(&w, lines[i], 8), 3, lines[i]);
	web_close(&w);
}

/* All of these are one address, or none: then they share what the proxy's own address has. */
static void spellings_of_an_address_are_no_new_client(void **state)
{
	static const char *const lines[] = {
		"X-Forwarded-For: 198.51.100.120\r\n",
		"X-Forwarded-For:198.51.100.120\r\n",
		"X-Forwarded-For: \t 198.51.100.120 \t\r\n",
		"X-Forwarded-For: 198.51.100.120:1\r\n",
		"X-Forwarded-For: 198.51.100.120:65535\r\n",
		"X-Forwarded-For: \"198.51.100.120\"\r\n",
		"X-Forwarded-For: [198.51.100.120]\r\n",
		"X-Forwarded-For: 198.51.100.0120\r\n",
		"X-Forwarded-For: 198.51.100.120.\r\n",
		"X-Forwarded-For: 0xc6.51.100.120\r\n",
		"X-Forwarded-For: 3325256824\r\n",
		"X-Forwarded-For: for=198.51.100.120\r\n",
		"X-Forwarded-For: ::ffff:198.51.100.120\r\n",
		"X-Forwarded-For: 0:0:0:0:0:ffff:c633:6478\r\n",
		"X-Forwarded-For: [::ffff:198.51.100.120]:99\r\n",
		"X-Forwarded-For: 198.51.100.120%eth0\r\n",
		"X-Forwarded-For: 198.51.100.120/32\r\n",
		"X-Forwarded-For: 198.51.100.120\xff\r\n",
		"X-Forwarded-For: ,198.51.100.120\r\n",
		"X-Forwarded-For: ,,,\r\n",
		"X-Forwarded-For:\r\n",
	};
	struct web w = must_open(*state, "caddy");
	unsigned got = 0;

	for (size_t i = 0; i < 3 * ARRAY_LEN(lines); i++)
		got += ask(&w, "caddy", Q(.target = "/hello", .more = lines[i % ARRAY_LEN(lines)]),
			   NULL) == 200;
	assert_in_range(got, 3, 6);
	web_close(&w);
}

static void a_unix_socket_without_an_address_is_refused(void **state)
{
	struct web w = must_open(*state, "traefik");
	struct web_reply r;

	assert_int_equal(ask(&w, "traefik", Q(.target = "/hello"), &r), 400);
	assert_string_equal(web_header(&r, "X-Weir-Limit"), "bad-address");
	assert_int_equal(admitted(&w, "traefik", Q(.target = "/hello", .ip = "198.51.100.121"), 5),
			 3);
	assert_int_equal(admitted(&w, "traefik", Q(.target = "/hello", .ip = "198.51.100.122"), 5),
			 3);
	web_close(&w);
}

/* --- targets ---- */

static const char *const login_spellings[] = {
	"/api/login",
	"//api/login",
	"/api//login",
	"///api///login///",
	"/./api/login",
	"/api/./login",
	"/api/x/../login",
	"/../api/login",
	"/api/login/",
	"/api/login/.",
	"/api/login/x/..",
	"/api/%2e/login",
	"/api/x/%2e%2e/login",
	"/api/x/.%2E/login",
	"/api/log%69n",
	"/%61%70%69/%6C%6F%67%69%6E",
	"/api%2flogin",
	"/api%2Flogin",
	"/api/login%2f",
	"/api%5clogin",
	"/api\\login",
	"/api;v=1/login",
	"/api/login;jsessionid=1",
	"/;x/api/;y/login;z",
	"/api/login?next=/",
	"/api/login?/../../healthz",
	"/api/login#top",
	"/api/login;?",
	"http://app/api/login",
	"http://app//api/./login?x",
	"HTTPS://other:8443/api/login",
	"/static/../api/login",
	"/static/%2e%2e/api/login",
	"/static/..%2fapi/login",
	"/static/..;/api/login",
	"/static/x/../../api/login",
	"/healthz/../api/login",
	"/healthz/%2e%2e/api/login",
	"//static/../api/login",
	"/static//../api/login",
	"/static//../../api/login",
	"/api/login%00",
	"/api/login%00/static/x",
	"/api/login%0a",
	"/api/%zz/../login",
	"/api/login%",
};

static void spellings_of_a_path_share_one_budget(void **state)
{
	static const char *const profiles[] = {"caddy", "nginx", "traefik"};
	char ip[32];

	for (size_t p = 0; p < ARRAY_LEN(profiles); p++) {
		struct web w = must_open(*state, profiles[p]);
		unsigned got = 0;

		(void)snprintf(ip, sizeof(ip), "198.51.100.%zu", 130 + p);
		for (size_t i = 0; i < ARRAY_LEN(login_spellings); i++)
			got += ask(&w, profiles[p],
				   Q(.method = "POST", .target = login_spellings[i], .ip = ip),
				   NULL) == 200;
		must_get(got, 3, profiles[p]);
		/* and each of them alone, once the budget is used up */
		for (size_t i = 0; i < ARRAY_LEN(login_spellings); i++)
			must_get(ask(&w, profiles[p],
				     Q(.method = "POST", .target = login_spellings[i], .ip = ip),
				     NULL) == 200,
				 0, login_spellings[i]);
		web_close(&w);
	}
}

/* There the target is that of the request itself: in front of it stands the prefix, and the library reads it first. */
static void spellings_through_envoy_share_one_budget(void **state)
{
	struct web w = must_open(*state, "envoy");
	struct question q = Q(.method = "POST", .ip = "198.51.100.139");
	unsigned got = 0;

	for (size_t i = 0; i < ARRAY_LEN(login_spellings); i++) {
		int r;
		struct web_reply reply;

		if (login_spellings[i][0] != '/') /* Envoy makes paths of them */
			continue;
		q.target = login_spellings[i];
		r = web_ask(&w, &reply,
			    "POST /check%s HTTP/1.1\r\nHost: app\r\nX-Forwarded-For: %s\r\n"
			    "Content-Length: 0\r\n\r\n",
			    q.target, q.ip);
		if (r < 0 || reply.closes) { /* a target that is none at all */
			web_close(&w);
			w = must_open(*state, "envoy");
		}
		got += r == 0 && reply.status == 200;
	}
	must_get(got, 3, "envoy");
	web_close(&w);
}

static void methods_are_what_they_mean(void **state)
{
	static const char *const get[] = {"GET", "HEAD", "get", "Head", "GET", "hEAD"};
	static const char *const post_[] = {"POST", "post", "Post", "pOST", "POST"};
	struct web w = must_open(*state, "caddy");
	unsigned got = 0;

	for (size_t i = 0; i < ARRAY_LEN(get); i++)
		got += ask(&w, "caddy",
			   Q(.method = get[i], .target = "/page", .ip = "198.51.100.140"),
			   NULL) == 200;
	must_get(got, 3, "GET and HEAD");
	got = 0;
	for (size_t i = 0; i < ARRAY_LEN(post_); i++)
		got += ask(&w, "caddy",
			   Q(.method = post_[i], .target = "/api/login", .ip = "198.51.100.140"),
			   NULL) == 200;
	must_get(got, 3, "POST");
	web_close(&w);
}

static void invented_paths_and_methods_make_no_endpoints(void **state)
{
	struct web w = must_open(*state, "caddy");
	unsigned got = 0;
	char target[64];

	for (int i = 0; i < 30; i++) {
		(void)snprintf(target, sizeof(target), "/scan/%d/x%d.php?a=%d", i, i, i);
		got += ask(&w, "caddy", Q(.target = target, .ip = "198.51.100.141"), NULL) == 200;
	}
	must_get(got, 3, "paths");
	got = 0;
	for (int i = 0; i < 30; i++) {
		char method[16];

		(void)snprintf(method, sizeof(method), "INVENT%d", i);
		got += ask(&w, "caddy",
			   Q(.method = method, .target = "/scan/x", .ip = "198.51.100.142"),
			   NULL) == 200;
	}
	assert_in_range(got, 0, 3);
	web_close(&w);
}

static void spellings_of_a_host_are_one(void **state)
{
	static const char *const hosts[] = {"app.example", "APP.example", "app.example.",
					    "app.example:80", "App.Example.:8443"};
	struct web w = must_open(*state, "caddy");
	unsigned got = 0;
	char more[128];

	for (size_t i = 0; i < 2 * ARRAY_LEN(hosts); i++) {
		(void)snprintf(more, sizeof(more), "X-Forwarded-Host: %s\r\n",
			       hosts[i % ARRAY_LEN(hosts)]);
		got += ask(&w, "caddy",
			   Q(.target = "/hosted", .ip = "198.51.100.143", .more = more),
			   NULL) == 200;
	}
	must_get(got, 3, "hosts");
	web_close(&w);
}

/* A proxy that adds its line beside the client's: which one is the truth is not known. */
static void two_lines_of_a_target_are_no_way_round(void **state)
{
	static const char *const more[] = {"X-Forwarded-Uri: /healthz\r\n",
					   "X-Forwarded-Uri: /hello\r\n",
					   "X-Forwarded-Uri: /page\r\n",
					   "X-Forwarded-Method: GET\r\n",
					   "X-Forwarded-Method: OPTIONS\r\n"};
	struct web w = must_open(*state, "caddy");
	unsigned got = 0;

	for (size_t i = 0; i < 2 * ARRAY_LEN(more); i++) {
		struct web_reply r;
		const char *m = more[i / 2];

		assert_int_equal(
			web_ask(&w, &r,
				"GET /check HTTP/1.1\r\nHost: a\r\n%sX-Forwarded-Method: POST\r\n"
				"X-Forwarded-Uri: /api/login\r\nX-Forwarded-For: 198.51.100.144\r\n"
				"%s\r\n",
				i % 2 ? m : "", i % 2 ? "" : m),
			0);
		got += r.status == 200;
	}
	assert_in_range(got, 0, 3);
	web_close(&w);
}

/* --- keys ---- */

/* Each pair is a client of its own with one request, whatever stands in its parts. */
static void separators_in_keys_make_nobody_somebody_else(void **state)
{
	static const char *const pairs[][2] = {
		{"a", "bc"},	{"ab", "c"},   {"a,b", "c"},  {"a", "b,c"},  {"a:b", "c"},
		{"a", "b:c"},	{"a|b", "c"},  {"a", "b|c"},  {"a b", "c"},  {"a", "b c"},
		{"a\tb", "c"},	{"a", "b\tc"}, {"a/b", "c"},  {"a", "b/c"},  {"bc", "a"},
		{"a;b", "c"},	{"a", "b;c"},  {"a%00", "b"}, {"a", "%00b"}, {"a\xc3\xa9", "b"},
		{"a\xe9", "b"}, {"a{1}", "b"}, {"a", "{1}b"}, {"A", "bc"},   {"a\x80", "b"},
	};
	struct web w = must_open(*state, "caddy");
	char more[128];

	for (int again = 0; again < 2; again++)
		for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
			(void)snprintf(more, sizeof(more), "X-A: %s\r\nX-B: %s\r\n", pairs[i][0],
				       pairs[i][1]);
			must_get(ask(&w, "caddy",
				     Q(.target = "/pair", .ip = "198.51.100.150", .more = more),
				     NULL) == 200,
				 !again, more);
		}
	web_close(&w);
}

static void keys_made_up_on_every_request_gain_nothing(void **state)
{
	static const char *const forms[] = {
		"User-Agent: curl/%u\r\n",
		"X-API-Key: k%u\r\n",
		"Authorization: Bearer t%u\r\n",
		"Authorization: Basic dXNlcjpwYXNz%u\r\n",
		"X-API-Key: k%u\r\nAuthorization: Bearer x\r\n",
		"Authorization: bearer y%u\r\nUser-Agent: z\r\n",
	};
	struct web w = must_open(*state, "caddy");
	unsigned got = 0;
	char more[160], target[64];

	for (unsigned i = 0; i < 300; i++) {
		struct question q = Q(.target = "/any", .ip = "198.51.100.160", .more = more);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(more, sizeof(more), forms[i % ARRAY_LEN(forms)], i);
#pragma GCC diagnostic pop
		got += ask(&w, "caddy", q, NULL) == 200;
	}
	for (unsigned i = 0; i < 50; i++) {
		(void)snprintf(target, sizeof(target), "/any?api_key=q%u", i);
		got += ask(&w, "caddy", Q(.target = target, .ip = "198.51.100.160"), NULL) == 200;
	}
	assert_in_range(got, 20, 20 + 3); /* new ones of this address, and what it has itself */
	/* somebody else's key is not hurt */
	assert_int_equal(admitted(&w, "caddy",
				  Q(.target = "/any", .ip = "198.51.100.161",
				    .more = "X-API-Key: honest\r\n"),
				  5),
			 3);
	web_close(&w);
}

/* Who has the token is believed what a proxy is believed, and no more: what it hands on of its client is its client's. */
static void a_body_of_json_is_believed_like_a_proxy(void **state)
{
	static const char *const more[] = {"X-Forwarded-For\":\"203.0.113.%d",
					   "x-forwarded-uri\":\"/healthz?%d",
					   "X-Real-IP\":\"203.0.113.%d",
					   "Forwarded\":\"for=203.0.113.%d",
					   "X-Cost\":\"-%d",
					   "X-Weir-User\":\"u%d",
					   "X-HTTP-Method-Override\":\"M%d"};
	struct web w = must_open(*state, "json");
	unsigned got = 0;
	char body[512], header[128];
	json_t *j;

	for (size_t i = 0; i < 2 * ARRAY_LEN(more); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(header, sizeof(header), more[i / 2], (int)i);
#pragma GCC diagnostic pop
		(void)snprintf(body, sizeof(body),
			       "{\"method\":\"GET\",\"path\":\"/hello\",\"ip\":\"198.51.100.170\","
			       "\"headers\":{\"%s\"}}",
			       header);
		j = check(&w, body);
		got += true_in(j, "allowed");
		json_decref(j);
	}
	must_get(got, 3, "json");
	j = check(&w, "{\"method\":\"GET\",\"path\":\"/hello\",\"ip\":\"198.51.100.170\","
		      "\"headers\":{\"X-Plan\":\"pro\"}}");
	assert_true(true_in(j, "allowed"));
	json_decref(j);
	web_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_stranger_forwards_is_ignored),
		cmocka_unit_test(headers_of_other_profiles_are_nobodys),
		cmocka_unit_test(a_query_of_the_question_carries_no_option),
		cmocka_unit_test(only_what_trusted_hops_say_counts),
		cmocka_unit_test(spellings_of_an_address_are_no_new_client),
		cmocka_unit_test(a_unix_socket_without_an_address_is_refused),
		cmocka_unit_test(spellings_of_a_path_share_one_budget),
		cmocka_unit_test(spellings_through_envoy_share_one_budget),
		cmocka_unit_test(methods_are_what_they_mean),
		cmocka_unit_test(invented_paths_and_methods_make_no_endpoints),
		cmocka_unit_test(spellings_of_a_host_are_one),
		cmocka_unit_test(two_lines_of_a_target_are_no_way_round),
		cmocka_unit_test(separators_in_keys_make_nobody_somebody_else),
		cmocka_unit_test(keys_made_up_on_every_request_gain_nothing),
		cmocka_unit_test(a_body_of_json_is_believed_like_a_proxy),
	};

	return cmocka_run_group_tests(tests, set_up, end_case);
}
