/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's engine: which limits a request meets, what they count it by, what the client is told, and what
 * stays through a change of the rules.
 */
#include <sodium.h>

#include "engine_case.h"

#define PER_ADDRESS(n)                                                                             \
	"request_limits:\n  - {name: per-address, key: ip, algorithm: fixed-window, limit: " #n    \
	", window: 60s}\n"

/* --- the plain way ---- */

static void without_limits_everything_passes_and_no_quota_is_named(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of("");

	(void)state;
	assert_int_equal(ASK(e, .target = "/x"), WEIR_ANSWER_ALLOW);
	engine_expect(e, "X-Weir-Decision", "allow");
	engine_expect(e, "X-RateLimit-Limit", NULL);
	assert_int_equal(engine_stats(e).no_limit, 1);
	assert_int_equal(engine_stats(e).checks, 1);
	assert_int_equal(engine_stats(e).allowed, 1);
}

static void a_limit_admits_its_number_then_refuses(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(PER_ADDRESS(3));
	struct weir_l7_limit_stats s;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ASK(e, .target = "/x"), WEIR_ANSWER_ALLOW);
		assert_int_equal(e->answer.remaining, 2 - i);
	}
	engine_expect(e, "X-RateLimit-Limit", "3");
	engine_expect(e, "X-RateLimit-Reset", "60");
	engine_expect(e, "RateLimit-Policy", "\"per-address\";q=3;w=60");
	engine_advance(e, 10 * US_PER_S);
	assert_int_equal(ASK(e, .target = "/x"), WEIR_ANSWER_RATE_LIMITED);
	engine_expect(e, "Retry-After", "50");
	engine_expect(e, "X-Weir-Limit", "per-address");
	assert_int_equal(ASK(e, .ip = "198.51.100.2"), WEIR_ANSWER_ALLOW);
	engine_advance(e, 50 * US_PER_S);
	assert_int_equal(ASK(e, .target = "/x"), WEIR_ANSWER_ALLOW);
	s = engine_counts(e, "per-address");
	assert_int_equal(s.n[WEIR_L7_PASSED], 5);
	assert_int_equal(s.n[WEIR_L7_REFUSED], 1);
	assert_int_equal(s.last_refused_s, START_US / US_PER_S + 10);
	assert_int_equal(engine_stats(e).refused, 1);
}

static void all_limits_are_charged_or_none(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - {name: wide, key: ip, algorithm: fixed-window, limit: 10, window: 60s}\n"
		"  - {name: narrow, key: [ip, endpoint], match: {path: [/a, /b]}, algorithm: "
		"fixed-window, limit: 3, window: 60s}\n");

	(void)state;
	assert_int_equal(PASSING(e, 8, .target = "/a"), 3);
	assert_int_equal(engine_limit(e, "wide")->remaining, 7);
	assert_int_equal(PASSING(e, 8, .target = "/b"), 3);
	assert_int_equal(engine_limit(e, "wide")->remaining, 4);
	assert_int_equal(PASSING(e, 8, .target = "/c"), 4);
	assert_int_equal(e->n, 1);
	assert_int_equal(ASK(e, .target = "/a"), WEIR_ANSWER_RATE_LIMITED);
	assert_int_equal(e->n, 2);
	assert_int_equal(engine_counts(e, "narrow").n[WEIR_L7_PASSED], 6);
	assert_int_equal(engine_counts(e, "wide").n[WEIR_L7_PASSED], 10);
}

static void policy_windows_are_those_of_the_draft(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - {name: a, key: ip, rate: 10/s, burst: 100}\n"
		"  - {name: b, key: ip, rate: 3/s, burst: 10}\n"
		"  - {name: c, key: ip, algorithm: fixed-window, limit: 5, window: day}\n"
		"  - {name: d, key: ip, algorithm: fixed-window, limit: 6, window: month}\n"
		"  - {name: e, key: ip, algorithm: leaky-bucket, rate: 1/s, queue: 9, max_wait: "
		"9s}\n");

	(void)state;
	assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_ALLOW);
	engine_expect(
		e, "RateLimit-Policy",
		"\"a\";q=100;w=10, \"b\";q=10, \"c\";q=5;w=86400, \"d\";q=6, \"e\";q=10;w=10");
	assert_int_equal(ASK(e, .target = "/", .no_wait = true, .ip = "192.0.2.1"),
			 WEIR_ANSWER_ALLOW);
	engine_expect(e, "RateLimit-Policy",
		      "\"a\";q=100;w=10, \"b\";q=10, \"c\";q=5;w=86400, \"d\";q=6, \"e\";q=1;w=1");
}

/* --- matching ---- */

static void limits_match_by_method_path_host_and_header(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - {name: method, key: ip, match: {method: POST}, rate: 10/s}\n"
		"  - {name: path, key: ip, match: {path: [/x/*, /y]}, rate: 10/s}\n"
		"  - {name: host, key: ip, match: {host: [a.example, \"*.b.example\"]}, rate: "
		"10/s}\n"
		"  - {name: header, key: ip, match: {header: {X-Kind: slow}}, rate: 10/s}\n");
	static const struct {
		struct question q;
		const char *limits;
	} cases[] = {
		{{.method = "POST"}, "method"},
		{{.method = "post"}, "method"},
		{{.method = "GET"}, ""},
		{{.target = "/x"}, "path"},
		{{.target = "/x/1/2?q"}, "path"},
		{{.target = "/y"}, "path"},
		{{.target = "/y/1"}, ""},
		{{.target = "/%78/"}, "path"},
		{{.target = "/z/../y"}, "path"},
		{{.target = "/z;/..%2fy"}, "path"}, /* some servers read /y */
		{{.host = "a.example"}, "host"},
		{{.host = "A.EXAMPLE.:8080"}, "host"},
		{{.host = "b.example"}, ""},
		{{.host = "1.b.example"}, "host"},
		{{.host = "1b.example"}, ""},
		{{.host = "c.example", .target = "http://a.example/"}, "host"},
		{{.host = "a.example", .target = "http://c.example/"}, ""},
		{{.header = {"x-kind: slow"}}, "header"},
		{{.header = {"X-Kind: fast", "X-Kind: slow"}}, "header"},
		{{.header = {"X-Kind: fast"}}, ""},
		{{.header = {"X-Kind: slow"}, .method = "POST", .target = "/x/y"},
		 "method path header"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char names[128] = "";

		assert_int_equal(engine_ask(e, cases[i].q), WEIR_ANSWER_ALLOW);
		for (size_t k = 0; k < e->n; k++)
			(void)snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
				       k ? " " : "", e->limit[k].name);
		if (strcmp(names, cases[i].limits) != 0)
			print_error("case %zu\n", i);
		assert_string_equal(names, cases[i].limits);
	}
}

static void what_cannot_be_judged_is_refused(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n  - {name: a, key: ip, match: {host: a.example}, rate: 10/s}\n"
		"exempt:\n  - {path: /healthz}\n");

	(void)state;
	assert_int_equal(ASK(e, .target = "/%00"), WEIR_ANSWER_BAD_REQUEST);
	assert_string_equal(e->answer.limit, "bad-path");
	assert_int_equal(e->answer.status, 403);
	engine_expect(e, "X-Weir-Status", "400");
	engine_expect(e, "X-RateLimit-Limit", NULL);
	assert_int_equal(ASK(e, .target = "", .profile = WEIR_ANSWER_CADDY),
			 WEIR_ANSWER_BAD_REQUEST);
	assert_int_equal(e->answer.status, 400);
	assert_int_equal(ASK(e, .method = "G ET"), WEIR_ANSWER_BAD_REQUEST);
	assert_string_equal(e->answer.limit, "bad-method");
	assert_int_equal(ASK(e, .host = "a,b"), WEIR_ANSWER_BAD_REQUEST);
	assert_string_equal(e->answer.limit, "bad-host");
	assert_int_equal(ASK(e, .target = "/healthz%00"), WEIR_ANSWER_BAD_REQUEST);
	assert_int_equal(engine_stats(e).bad_path, 5);
	assert_int_equal(ASK(e, .host = "a.example", .no_ip = true), WEIR_ANSWER_BAD_REQUEST);
	assert_string_equal(e->answer.limit, "bad-address");
	assert_int_equal(engine_stats(e).no_address, 1);
	assert_int_equal(ASK(e, .host = "b.example", .no_ip = true), WEIR_ANSWER_ALLOW);
	engine_configure(e,
			 PER_ADDRESS(3)); /* no limit looks at hosts: theirs is not ours to judge */
	assert_int_equal(ASK(e, .host = "a,b"), WEIR_ANSWER_ALLOW);
}

static void the_exempt_meet_no_limit(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		PER_ADDRESS(1) "exempt:\n"
			       "  - {source: [192.0.2.0/24]}\n"
			       "  - {path: [/healthz, /static/*]}\n"
			       "  - {preflight: true}\n"
			       "  - {path: /probe, method: GET, source: [203.0.113.7]}\n");
	const struct question pass[] = {
		{.ip = "192.0.2.77"},
		{.target = "/healthz"},
		{.target = "/static/a/b"},
		{.method = "OPTIONS",
		 .header = {"Origin: https://a.example", "Access-Control-Request-Method: PUT"}},
		{.target = "/probe", .method = "HEAD", .ip = "203.0.113.7"},
	};
	const struct question refused[] = {
		{.ip = "192.0.3.1"},
		{.target = "/healthz/x"},
		{.target = "/static/..%2fadmin"}, /* /admin to some servers */
		{.method = "OPTIONS", .header = {"Origin: https://a.example"}},
		{.method = "GET",
		 .header = {"Origin: https://a.example", "Access-Control-Request-Method: PUT"}},
		{.target = "/probe", .method = "POST", .ip = "203.0.113.7"},
		{.target = "/probe", .ip = "203.0.113.8"},
		{.target = "/probe", .no_ip = true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pass); i++) {
		assert_int_equal(engine_ask(e, pass[i]), WEIR_ANSWER_ALLOW);
		assert_int_equal(e->n, 0);
	}
	assert_int_equal(engine_stats(e).exempt, ARRAY_LEN(pass));
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		(void)engine_ask(e, refused[i]);
		assert_true(e->n == 1 || e->answer.code == WEIR_ANSWER_BAD_REQUEST);
	}
	assert_int_equal(engine_stats(e).exempt, ARRAY_LEN(pass));
}

/* --- keys ---- */

static void an_endpoint_is_method_and_pattern(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n  - {name: a, key: [ip, endpoint], match: {path: [/a/*, /b]}, "
		"algorithm: fixed-window, limit: 2, window: 60s}\n");

	(void)state;
	assert_int_equal(PASSING(e, 2, .target = "/a/1"), 2);
	assert_int_equal(PASSING(e, 2, .target = "/a/2"), 0); /* the pattern, not the path */
	assert_int_equal(PASSING(e, 2, .target = "/a"), 0);
	assert_int_equal(PASSING(e, 2, .target = "/a/1", .method = "HEAD"), 0);
	assert_int_equal(PASSING(e, 3, .target = "/a/1", .method = "POST"), 2);
	assert_int_equal(PASSING(e, 3, .target = "/b"), 2);
	/* as /a/x and, to servers that take %5C for a slash, as /b: neither is free */
	assert_int_equal(PASSING(e, 1, .target = "/a/..%5C..%5Cb", .ip = "192.0.2.9"), 1);
	assert_int_equal(e->n, 2);
	assert_int_equal(PASSING(e, 3, .target = "/b", .ip = "192.0.2.9"), 1);
	assert_int_equal(PASSING(e, 3, .target = "/a/..%5C..%5Cb", .ip = "192.0.2.9"), 0);
	assert_int_equal(PASSING(e, 3, .target = "/a", .ip = "192.0.2.9"), 1);
}

static void prefix_lengths_are_each_limits_own(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - {name: a, key: ip, ipv6_prefix: 64, algorithm: fixed-window, limit: 2, "
		"window: 60s}\n"
		"  - {name: b, key: ip, ipv6_prefix: 48, algorithm: fixed-window, limit: 3, "
		"window: 60s}\n"
		"  - {name: c, key: {any: ['header:X'], new_per_ip: 1 per 60s}, missing: skip, "
		"ipv6_prefix: 64, algorithm: fixed-window, limit: 100, window: 60s}\n"
		"  - {name: d, key: {any: ['header:X'], new_per_ip: 1 per 60s}, missing: skip, "
		"ipv6_prefix: 48, algorithm: fixed-window, limit: 100, window: 60s}\n");

	(void)state;
	assert_int_equal(ASK(e, .ip = "2001:db8:0:1::1", .header = {"X: 1"}), WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(e, .ip = "2001:db8:0:1::2", .header = {"X: 2"}), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "a")->remaining, 0);
	assert_int_equal(engine_stats(e).fresh_counted_as_ip, 2);
	assert_int_equal(ASK(e, .ip = "2001:db8:0:2::1", .header = {"X: 3"}), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "a")->remaining, 1);
	assert_int_equal(engine_limit(e, "b")->remaining, 0);
	assert_int_equal(engine_limit(e, "c")->remaining, 99); /* a new key of another /64 … */
	assert_int_equal(engine_limit(e, "d")->remaining, 98); /* … and of the same /48 */
	assert_int_equal(engine_stats(e).fresh_counted_as_ip, 3);
	assert_int_equal(ASK(e, .ip = "2001:db8:0:2::1"), WEIR_ANSWER_RATE_LIMITED);
	assert_string_equal(e->answer.limit, "b");
}

static void separators_in_values_do_not_collide(void **state)
{
	_cleanup_(engine_freep) struct engine *e =
		engine_of("request_limits:\n  - {name: a, key: [header:A, header:B], missing: "
			  "deny, algorithm: "
			  "fixed-window, limit: 1, window: 60s}\n");
	static const struct question each[] = {
		{.header = {"A: x", "B: y:z"}}, {.header = {"A: x:y", "B: z"}},
		{.header = {"A: xy", "B: z"}},	{.header = {"A: x", "B: yz"}},
		{.header = {"A: y", "B: x"}},	{.header = {"A: x,y", "B: z"}},
		{.header = {"A: x", "B: ,yz"}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(each); i++)
		assert_int_equal(engine_ask(e, each[i]), WEIR_ANSWER_ALLOW);
	for (size_t i = 0; i < ARRAY_LEN(each); i++)
		assert_int_equal(engine_ask(e, each[i]), WEIR_ANSWER_RATE_LIMITED);
}

static void a_missing_key_is_the_address_or_skipped_or_denied(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"http: {proxy_headers: {user: X-User}}\n"
		"request_limits:\n"
		"  - {name: ip, key: user, missing: ip, match: {path: /ip}, algorithm: "
		"fixed-window, "
		"limit: 1, window: 60s}\n"
		"  - {name: skip, key: user, missing: skip, match: {path: /skip}, algorithm: "
		"fixed-window, limit: 1, window: 60s}\n"
		"  - {name: other, key: ip, match: {path: /deny}, algorithm: fixed-window, limit: "
		"9, "
		"window: 60s}\n"
		"  - {name: deny, key: user, missing: deny, match: {path: /deny}, algorithm: "
		"fixed-window, limit: 5, window: 60s}\n");

	(void)state;
	assert_int_equal(PASSING(e, 3, .target = "/ip"), 1);
	assert_int_equal(PASSING(e, 3, .target = "/ip", .user = "ann"), 1);
	assert_int_equal(PASSING(e, 3, .target = "/skip"), 3);
	assert_int_equal(e->n, 0);
	assert_int_equal(ASK(e, .target = "/deny"), WEIR_ANSWER_KEY_MISSING);
	assert_int_equal(e->answer.client_status, 403);
	assert_string_equal(e->answer.limit, "deny");
	engine_expect(e, "Retry-After", NULL);
	assert_int_equal(engine_limit(e, "other")->remaining, 9); /* charged to none */
	assert_int_equal(engine_counts(e, "deny").n[WEIR_L7_NO_KEY], 1);
	assert_int_equal(ASK(e, .target = "/deny", .user = "ann"), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "other")->remaining, 8);
}

static void forged_keys_gain_nothing(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - name: api\n"
		"    key: {any: [api-key, token, [ip, user-agent]], new_per_ip: 3 per 60s}\n"
		"    algorithm: fixed-window\n"
		"    limit: 5\n"
		"    window: 60s\n");
	unsigned passed = 0;
	char line[64];

	(void)state;
	/* three new keys are worth five each, all others are one */
	for (unsigned i = 0; i < 200; i++) {
		(void)snprintf(line, sizeof(line), i % 2 ? "X-API-Key: forged%u" : "User-Agent: %u",
			       i);
		passed += ASK(e, .header = {line}) == WEIR_ANSWER_ALLOW;
	}
	assert_int_equal(passed, 3 + 5);
	assert_true(engine_stats(e).fresh_counted_as_ip >= 190);
	/* of others nobody takes notice, and known keys go on */
	assert_int_equal(ASK(e, .header = {"X-API-Key: own"}, .ip = "192.0.2.1"),
			 WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(e, .header = {"X-API-Key: forged1"}), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.remaining, 3);
	/* the address: of IPv6 the /64 */
	for (unsigned i = 0, n = 0; i < 200; i++) {
		char ip[64];

		(void)snprintf(line, sizeof(line), "Authorization: Bearer %u", i);
		(void)snprintf(ip, sizeof(ip), "2001:db8::%x", i + 1);
		n += ASK(e, .header = {line}, .ip = ip) == WEIR_ANSWER_ALLOW;
		assert_true(n <= 3 + 5);
	}
}

/* --- plans and costs ---- */

static char *plans_file(const char *key, const char *plan)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(hash) + 1], *path = strdup("/tmp/weir-plans.XXXXXX");
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	assert_non_null(f);
	(void)crypto_hash_sha256(hash, (const unsigned char *)key, strlen(key));
	(void)fprintf(f, "# keys\n\n%s\t %s # bought\n",
		      sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash)), plan);
	assert_int_equal(fclose(f), 0);
	return path;
}

static void a_plan_is_the_proxys_word_or_the_keys(void **state)
{
	_cleanup_free_ char *path = plans_file("secret", "pro"), *text = NULL;
	_cleanup_(engine_freep) struct engine *e = NULL;

	(void)state;
	assert_true(
		asprintf(&text,
			 "http: {api_key: [header X-API-Key], proxy_headers: {plan: X-Plan}}\n"
			 "plans: [free, pro]\nplans_file: %s\n"
			 "request_limits:\n  - {name: a, key: ip, algorithm: fixed-window, limit: "
			 "{free: 2, pro: 5}, window: 60s}\n",
			 path) > 0);
	e = engine_of(text);
	assert_int_equal(ASK(e, .ip = "192.0.2.1"), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.limit_n, 2);
	assert_int_equal(ASK(e, .plan = "pro"), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.limit_n, 5);
	assert_int_equal(ASK(e, .plan = "gold"), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.limit_n, 2);
	assert_int_equal(ASK(e, .header = {"X-API-Key: secret"}), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.limit_n, 5);
	assert_int_equal(e->answer.remaining, 2); /* one count, whatever the plan */
	assert_int_equal(ASK(e, .header = {"X-API-Key: guessed"}), WEIR_ANSWER_RATE_LIMITED);
	assert_int_equal(e->answer.limit_n, 2);
	/* a refusal by a small plan makes a big one forget nothing */
	assert_int_equal(PASSING(e, 5, .plan = "pro"), 2);
	assert_int_equal(PASSING(e, 5, .plan = "free"), 0);
	assert_int_equal(PASSING(e, 5, .plan = "pro"), 0);
	(void)unlink(path);
}

static void a_plans_file_that_is_wrong_is_refused_by_line(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{"xyz pro\n", ":1: this is no SHA-256"},
		{"\n5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 gold\n",
		 ":2: no plan has the name"},
		{"5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 pro\n"
		 "5E884898DA28047151D0E56F8DC6292773603D0D6AABBDD62A11EF721D1542D8 free\n",
		 ":2: this key has another plan"},
		{"5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8\n",
		 ":1: no plan has the name"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char path[] = "/tmp/weir-plans.XXXXXX";
		int fd = mkstemp(path);
		_cleanup_free_ char *text = NULL;
		_cleanup_(weir_conf_freep) struct weir_conf *conf = NULL;
		struct weir_error error = {""};
		struct weir_l7 *l7;

		assert_int_equal(write(fd, cases[i].text, strlen(cases[i].text)),
				 strlen(cases[i].text));
		(void)close(fd);
		assert_true(asprintf(&text, "plans: [free, pro]\nplans_file: %s\n", path) > 0);
		conf = engine_conf(text);
		assert_true(weir_l7_new(conf, NULL, &l7, &error) < 0);
		if (!strstr(error.text, cases[i].words))
			print_error("%s\n", error.text);
		assert_non_null(strstr(error.text, cases[i].words));
		(void)unlink(path);
	}
}

static void a_cost_is_fixed_or_the_proxys_within_its_bounds(void **state)
{
	_cleanup_(engine_freep) struct engine *e =
		engine_of("http: {proxy_headers: {cost: X-Cost}}\n"
			  "request_limits:\n"
			  "  - {name: fixed, key: ip, match: {path: /f}, cost: 3, algorithm: "
			  "fixed-window, limit: "
			  "10, window: 60s}\n"
			  "  - {name: proxy, key: ip, match: {path: /p}, cost: {from: proxy, min: "
			  "2, max: 9}, "
			  "algorithm: fixed-window, limit: 100, window: 60s}\n");
	static const struct {
		const char *cost;
		__u64 charged;
	} cases[] = {{"5", 5},	{"1", 2},  {"0", 2},  {"10", 9}, {"99999999999999999999999", 9},
		     {NULL, 2}, {"5x", 9}, {"-1", 9}, {"1.5", 9}};
	__u64 left = 100;

	(void)state;
	assert_int_equal(PASSING(e, 9, .target = "/f"), 3);
	assert_int_equal(e->answer.remaining, 1);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(ASK(e, .target = "/p", .cost = cases[i].cost), WEIR_ANSWER_ALLOW);
		left -= cases[i].charged;
		assert_int_equal(e->answer.remaining, left);
	}
	/* json's number stands for itself */
	assert_int_equal(ASK(e, .target = "/p", .cost_n = 20), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.remaining, left - 20);
	assert_int_equal(ASK(e, .target = "/p", .cost_n = 101), WEIR_ANSWER_COST_TOO_LARGE);
	assert_int_equal(e->answer.client_status, 413);
	engine_expect(e, "Retry-After", NULL);
	assert_int_equal(engine_counts(e, "proxy").n[WEIR_L7_TOO_LARGE], 1);
}

static void peek_changes_and_counts_nothing(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(PER_ADDRESS(1));

	(void)state;
	assert_int_equal(PASSING(e, 5, .peek = true), 5);
	assert_int_equal(engine_stats(e).checks, 0);
	assert_int_equal(PASSING(e, 5, .target = "/"), 1);
	assert_int_equal(PASSING(e, 5, .peek = true), 0);
	assert_int_equal(engine_counts(e, "per-address").n[WEIR_L7_REFUSED], 4);
}

static void a_refund_gives_back_what_the_question_would_charge(void **state)
{
	static const char *const algorithms[] = {
		"algorithm: token-bucket, rate: 5/m, burst: 5",
		"algorithm: fixed-window, limit: 5, window: 60s",
		"algorithm: sliding-window-log, limit: 5, window: 60s",
		"algorithm: sliding-window-counter, limit: 5, window: 60s",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(algorithms); i++) {
		_cleanup_(engine_freep) struct engine *e = NULL;
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, "request_limits:\n  - {name: a, key: ip, %s}\n",
				     algorithms[i]) > 0);
		e = engine_of(text);
		assert_int_equal(PASSING(e, 9, .target = "/"), 5);
		assert_int_equal(ASK(e, .refund = true, .cost_n = 2), WEIR_ANSWER_ALLOW);
		assert_int_equal(e->answer.remaining, 2);
		assert_int_equal(PASSING(e, 9, .target = "/"), 2);
		assert_int_equal(ASK(e, .refund = true, .cost_n = 100), WEIR_ANSWER_ALLOW);
		assert_int_equal(e->answer.remaining, 5); /* never more than there was */
		assert_int_equal(ASK(e, .refund = true, .ip = "192.0.2.9"), WEIR_ANSWER_ALLOW);
		assert_int_equal(e->answer.remaining, 5);
		assert_int_equal(engine_counts(e, "a").n[WEIR_L7_PASSED], 7);
	}
}

/* --- monitor ---- */

static void a_monitor_limit_says_what_it_would_do(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - {name: real, key: ip, algorithm: fixed-window, limit: 5, window: 60s}\n"
		"  - {name: trial, key: ip, algorithm: fixed-window, limit: 2, window: 60s, mode: "
		"monitor}\n");

	(void)state;
	assert_int_equal(PASSING(e, 2, .target = "/"), 2);
	engine_expect(e, "X-Weir-Would", NULL);
	assert_int_equal(PASSING(e, 3, .target = "/"), 3);
	engine_expect(e, "X-Weir-Would", "deny; limit=trial");
	engine_expect(e, "X-RateLimit-Limit", "5");
	assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_RATE_LIMITED);
	assert_int_equal(engine_counts(e, "trial").n[WEIR_L7_WOULD], 4);
	assert_int_equal(engine_counts(e, "trial").n[WEIR_L7_PASSED], 2);
	assert_int_equal(engine_counts(e, "trial").mode, WEIR_MODE_MONITOR);
}

static void the_whole_layer_in_monitor_mode_judges_and_refuses_nothing(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(PER_ADDRESS(
		2) "  - {name: queue, key: ip, algorithm: leaky-bucket, rate: 1/s, queue: "
		   "9, max_wait: 9s}\n");

	(void)state;
	weir_l7_set_mode(e->l7, WEIR_MODE_MONITOR);
	for (unsigned i = 0; i < 5; i++) {
		engine_send(e, &(struct question){.target = "/"});
		assert_int_equal(weir_l7_call_wait_us(e->call), 0);
		engine_take_answer(e);
		engine_end(e);
		assert_int_equal(e->answer.code, WEIR_ANSWER_ALLOW);
		engine_expect(e, "X-Weir-Would", i < 2 ? NULL : "deny; limit=per-address");
		engine_expect(e, "X-RateLimit-Limit", NULL);
	}
	assert_int_equal(engine_counts(e, "per-address").n[WEIR_L7_WOULD], 3);
	assert_int_equal(engine_counts(e, "per-address").n[WEIR_L7_REFUSED], 0);
	assert_int_equal(engine_stats(e).refused, 0);
	assert_int_equal(engine_counts(e, "queue").n[WEIR_L7_PASSED], 2); /* all or none, as ever */
	assert_int_equal(ASK(e, .target = "/%00"), WEIR_ANSWER_ALLOW);
	engine_expect(e, "X-Weir-Would", "deny; limit=bad-path");
	assert_int_equal(e->n, 0);
	weir_l7_set_mode(e->l7, WEIR_MODE_ENFORCE);
	assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_RATE_LIMITED);
}

/* --- a queue ---- */

#define QUEUE                                                                                      \
	"request_limits:\n  - {name: q, key: ip, algorithm: leaky-bucket, rate: 2/s, queue: 3, "   \
	"max_wait: 10s}\n  - {name: all, key: global, algorithm: fixed-window, limit: 100, "       \
	"window: 60s}\n"

static void a_queue_holds_answers_until_their_turn(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(QUEUE);
	struct weir_l7_call *held[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		engine_send(e, &(struct question){.target = "/"});
		assert_int_equal(weir_l7_call_wait_us(e->call), i * 500000);
		held[i] = e->call;
	}
	assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_RATE_LIMITED);
	engine_expect(e, "Retry-After", "1");
	assert_int_equal(engine_stats(e).held, 3);
	engine_advance(e, 1500000);
	e->call = held[3];
	engine_take_answer(e);
	assert_int_equal(e->answer.code, WEIR_ANSWER_ALLOW);
	/* the window of `all` ends 60 s after the start, 58.5 s from now */
	assert_int_equal(engine_limit(e, "all")->reset_after_ns, 58500000000ull);
	for (unsigned i = 0; i < 4; i++)
		weir_l7_call_free(held[i]);
}

static void whoever_cannot_wait_passes_only_in_turn(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(QUEUE);

	(void)state;
	assert_int_equal(ASK(e, .no_wait = true), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.limit_n, 1);
	assert_int_equal(ASK(e, .no_wait = true), WEIR_ANSWER_RATE_LIMITED);
	assert_int_equal(engine_limit(e, "q")->retry_after_ns, 500000000);
	assert_int_equal(engine_limit(e, "all")->remaining, 99); /* charged nothing */
	/* nor does it forget the others' places */
	engine_send(e, &(struct question){.target = "/"});
	assert_int_equal(weir_l7_call_wait_us(e->call), 500000);
	engine_end(e);
	engine_advance(e, 500000);
	assert_int_equal(ASK(e, .no_wait = true), WEIR_ANSWER_RATE_LIMITED);
	engine_advance(e, 500000);
	assert_int_equal(ASK(e, .no_wait = true), WEIR_ANSWER_ALLOW);
}

static void peek_never_waits(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(QUEUE);

	(void)state;
	assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_ALLOW);
	engine_send(e, &(struct question){.peek = true});
	assert_int_equal(weir_l7_call_wait_us(e->call), 0);
	assert_int_equal(weir_l7_call_answer(e->call)->code, WEIR_ANSWER_ALLOW);
	engine_end(e);
}

static void the_last_in_the_queue_gives_its_place_back(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(QUEUE);
	struct weir_l7_call *a, *b;

	(void)state;
	assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_ALLOW);
	engine_send(e, &(struct question){.target = "/"});
	a = e->call;
	engine_send(e, &(struct question){.target = "/"});
	b = e->call;
	weir_l7_call_leave(a); /* not the last: nobody moves up */
	assert_int_equal(engine_stats(e).queue_abandoned, 1);
	engine_send(e, &(struct question){.target = "/"});
	assert_int_equal(weir_l7_call_wait_us(e->call), 1500000);
	weir_l7_call_leave(e->call);
	assert_int_equal(engine_stats(e).queue_abandoned, 1);
	engine_send(e, &(struct question){.target = "/"});
	assert_int_equal(weir_l7_call_wait_us(e->call), 1500000);
	assert_int_equal(engine_stats(e).held, 4);
	weir_l7_call_free(e->call);
	weir_l7_call_free(b);
	assert_int_equal(ASK(e, .peek = true), WEIR_ANSWER_RATE_LIMITED);
	assert_int_equal(engine_limit(e, "all")->remaining, 95); /* who left was counted */
}

static void an_end_gives_everything_back(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(QUEUE);

	(void)state;
	assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_ALLOW);
	engine_send(e, &(struct question){.target = "/", .profile = WEIR_ANSWER_CADDY});
	weir_l7_call_abort(e->call);
	engine_take_answer(e);
	engine_end(e);
	assert_int_equal(e->answer.code, WEIR_ANSWER_SHUTTING_DOWN);
	assert_int_equal(e->answer.status, 503);
	assert_int_equal(ASK(e, .peek = true), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "all")->remaining, 99);
	assert_int_equal(engine_limit(e, "q")->remaining, 3);
}

/* --- a change of the rules ---- */

static void a_reload_keeps_states_and_counters(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - {name: a, key: ip, algorithm: fixed-window, limit: 5, window: 60s}\n"
		"  - {name: b, key: ip, algorithm: fixed-window, limit: 9, window: 60s}\n");
	struct weir_l7_limit_stats s[8];

	(void)state;
	assert_int_equal(PASSING(e, 9, .target = "/"), 5);
	/* other numbers and another order: the counts stand */
	engine_configure(
		e, "request_limits:\n"
		   "  - {name: b, key: ip, algorithm: fixed-window, limit: 9, window: 60s}\n"
		   "  - {name: a, key: ip, algorithm: fixed-window, limit: 7, window: 60s}\n");
	assert_int_equal(PASSING(e, 9, .target = "/"), 2);
	assert_int_equal(engine_limit(e, "b")->remaining, 2);
	assert_int_equal(engine_counts(e, "a").n[WEIR_L7_PASSED], 7);
	/* another key, another state; a name that is gone is still counted */
	engine_configure(e, "request_limits:\n  - {name: a, key: [ip, method], algorithm: "
			    "fixed-window, limit: 7, window: 60s}\n");
	assert_int_equal(PASSING(e, 9, .target = "/"), 7);
	assert_int_equal(weir_l7_limits(e->l7, s, ARRAY_LEN(s)), 2);
	assert_string_equal(s[0].name, "a");
	assert_true(s[0].in_force);
	assert_int_equal(s[0].n[WEIR_L7_PASSED], 14);
	assert_string_equal(s[1].name, "b");
	assert_false(s[1].in_force);
	assert_int_equal(s[1].n[WEIR_L7_PASSED], 7);
	assert_false(weir_l7_has_limit(e->l7, "b"));
	assert_true(weir_l7_has_limit(e->l7, "a"));
	engine_configure(e,
			 "request_limits:\n  - {name: b, key: ip, algorithm: fixed-window, limit: "
			 "9, window: 60s}\n");
	assert_int_equal(PASSING(e, 9, .target = "/"), 2);
	assert_int_equal(engine_counts(e, "b").n[WEIR_L7_PASSED], 9);
}

static void a_question_under_way_keeps_its_rules(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(QUEUE);

	(void)state;
	engine_send(e, &(struct question){.target = "/"});
	engine_end(e);
	engine_send(e, &(struct question){.target = "/"});
	for (unsigned i = 0; i < 3; i++) {
		struct weir_l7_call *held = e->call;

		engine_configure(e, PER_ADDRESS(100));
		assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_ALLOW); /* at once */
		assert_string_equal(e->answer.limit, "per-address");
		e->call = held;
	}
	engine_take_answer(e);
	assert_non_null(engine_limit(e, "q"));
	engine_end(e);
}

static void a_wrong_configuration_changes_nothing(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(PER_ADDRESS(1));
	_cleanup_(weir_conf_freep) struct weir_conf *conf =
		engine_conf("plans: [a]\nplans_file: /nonexistent/plans\n");
	struct weir_error error = {""};
	char *note = NULL;

	(void)state;
	assert_true(weir_l7_configure(e->l7, conf, &note, &error) < 0);
	assert_non_null(strstr(error.text, "/nonexistent/plans"));
	assert_int_equal(PASSING(e, 9, .target = "/"), 1);
}

static void names_come_and_go_without_end(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of("");

	(void)state;
	for (unsigned i = 0; i < 700; i++) {
		char text[256];

		(void)snprintf(text, sizeof(text),
			       "request_limits:\n  - {name: l%u, key: ip, rate: 10/s}\n  - {name: "
			       "always, key: ip, rate: 1000/s, burst: 1000}\n",
			       i);
		engine_configure(e, text);
		assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_ALLOW);
		(void)snprintf(text, sizeof(text), "l%u", i);
		assert_int_equal(engine_counts(e, text).n[WEIR_L7_PASSED], 1);
	}
	assert_int_equal(engine_counts(e, "always").n[WEIR_L7_PASSED], 700);
}

static void memory_that_cannot_change_is_said(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of("memory: {request_keys: 1000}\n");
	_cleanup_(weir_conf_freep) struct weir_conf *conf =
		engine_conf("memory: {request_keys: 2000}\n");
	_cleanup_free_ char *note = NULL;
	struct weir_error error = {""};

	(void)state;
	assert_int_equal(weir_l7_configure(e->l7, conf, &note, &error), 0);
	assert_non_null(note);
	assert_non_null(strstr(note, "memory.request_keys"));
}

static void counters_outlive_their_worker(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(PER_ADDRESS(2));

	(void)state;
	assert_int_equal(PASSING(e, 3, .target = "/"), 2);
	weir_l7_worker_free(e->w);
	assert_int_equal(weir_l7_worker_new(e->l7, NULL, &e->w), 0);
	assert_int_equal(PASSING(e, 3, .target = "/"), 0);
	assert_int_equal(engine_stats(e).checks, 6);
	assert_int_equal(engine_counts(e, "per-address").n[WEIR_L7_REFUSED], 4);
	assert_int_equal(engine_counts(e, "per-address").last_refused_s, START_US / US_PER_S);
	assert_int_equal(engine_stats(e).check.count, 6);
}

/* --- calendar ---- */

static void a_calendar_window_ends_with_the_day_there(void **state)
{
	_cleanup_(engine_freep) struct engine *e =
		engine_of("request_limits:\n  - {name: a, key: ip, algorithm: fixed-window, limit: "
			  "2, window: "
			  "day, timezone: Europe/Berlin}\n");
	__u64 day_s =
		START_US / US_PER_S / 86400 * 86400; /* UTC; Berlin's begins at 23:00 or 22:00 */

	(void)state;
	e->now_us =
		(day_s + 86400 - 3600 - 10) * US_PER_S; /* winter: ten seconds before midnight */
	assert_int_equal(PASSING(e, 5, .target = "/"), 2);
	engine_expect(e, "Retry-After", "10");
	engine_advance(e, 10 * US_PER_S);
	assert_int_equal(PASSING(e, 5, .target = "/"), 2);
	engine_expect(e, "Retry-After", "86400");
}

/* --- inspect and reset ---- */

struct seen {
	char text[2048];
};

static void on_view(void *arg, const struct weir_l7_view *v)
{
	struct seen *s = arg;

	(void)snprintf(s->text + strlen(s->text), sizeof(s->text) - strlen(s->text),
		       "%s (%s): %llu of %llu\n", v->limit, v->key, v->state->remaining,
		       v->state->limit);
}

#define LIMITS                                                                                     \
	"http: {api_key: [header X-API-Key, query key]}\n"                                         \
	"request_limits:\n"                                                                        \
	"  - {name: a, key: ip, algorithm: fixed-window, limit: 9, window: 60s}\n"                 \
	"  - {name: login, key: [ip, endpoint], match: {method: POST, path: [/in, /out/*]}, "      \
	"algorithm: sliding-window-log, limit: 3, window: 60s}\n"                                  \
	"  - {name: api, key: {any: [api-key, [ip, user-agent]]}, missing: ip, algorithm: "        \
	"sliding-window-counter, limit: 8, window: 60s}\n"                                         \
	"  - {name: all, key: global, rate: 1/h, burst: 50}\n"

static void the_state_of_one_client_is_shown(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LIMITS);
	struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {198, 51, 100, 1}}};
	struct weir_l7_who who = {.ip = &ip};
	struct seen s = {""};

	(void)state;
	assert_int_equal(PASSING(e, 2, .target = "/in", .method = "POST"), 2);
	assert_int_equal(ASK(e, .target = "/x?key=k1"), WEIR_ANSWER_ALLOW);
	assert_int_equal(weir_l7_inspect(e->w, &who, NULL, on_view, &s), 0);
	assert_string_equal(s.text, "a (ip): 6 of 9\n"
				    "login (ip, endpoint POST /in): 1 of 3\n"
				    "login (ip, endpoint POST /out/*): 3 of 3\n"
				    "api (ip): 6 of 8\n"
				    "all (global): 47 of 50\n");
	s.text[0] = '\0';
	who = (struct weir_l7_who){.api_key = weir_text_of("k1")};
	assert_int_equal(weir_l7_inspect(e->w, &who, "api", on_view, &s), 0);
	assert_string_equal(s.text, "api (api-key): 7 of 8\n");
	assert_int_equal(weir_l7_inspect(e->w, &who, "none", on_view, &s), -ENOENT);
}

static void a_reset_forgets_one_client_or_all(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LIMITS);
	struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {198, 51, 100, 1}}};
	struct weir_l7_who who = {.ip = &ip}, key = {.api_key = weir_text_of("k1")};
	struct weir_error error = {""};
	size_t n = 99;

	(void)state;
	assert_int_equal(PASSING(e, 5, .target = "/in", .method = "POST"), 3);
	assert_int_equal(PASSING(e, 1, .target = "/in", .method = "POST", .ip = "192.0.2.1"), 1);
	assert_int_equal(weir_l7_reset(e->w, "login", &who, &n, &error), 0);
	assert_int_equal(n, 1);
	assert_int_equal(PASSING(e, 5, .target = "/in", .method = "POST"), 3);
	assert_int_equal(weir_l7_reset(e->w, "login", &key, &n, &error), -EINVAL);
	assert_non_null(strstr(error.text, "ip+endpoint"));
	assert_int_equal(weir_l7_reset(e->w, "none", &key, &n, &error), -ENOENT);
	assert_int_equal(weir_l7_reset(e->w, "all", &who, &n, &error), -EINVAL);
	assert_non_null(
		strstr(error.text, "key is global (everybody's: reset it without a client)"));
	/* all of a limit, and of no other; again and again */
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(weir_l7_reset(e->w, "login", NULL, &n, &error), 0);
		assert_int_equal(ASK(e, .target = "/in", .method = "POST", .ip = "192.0.2.1"),
				 WEIR_ANSWER_ALLOW);
		assert_int_equal(engine_limit(e, "login")->remaining, 2);
		assert_int_equal(engine_limit(e, "a")->remaining, 7 - i);
	}
	/* a reload does not bring the old counts back */
	engine_configure(e, LIMITS);
	assert_int_equal(ASK(e, .target = "/in", .method = "POST", .ip = "192.0.2.1"),
			 WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "login")->remaining, 1);
	assert_int_equal(weir_l7_reset(e->w, NULL, &who, &n, &error), 0);
	assert_int_equal(n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_limits_everything_passes_and_no_quota_is_named),
		cmocka_unit_test(a_limit_admits_its_number_then_refuses),
		cmocka_unit_test(all_limits_are_charged_or_none),
		cmocka_unit_test(policy_windows_are_those_of_the_draft),
		cmocka_unit_test(limits_match_by_method_path_host_and_header),
		cmocka_unit_test(what_cannot_be_judged_is_refused),
		cmocka_unit_test(the_exempt_meet_no_limit),
		cmocka_unit_test(an_endpoint_is_method_and_pattern),
		cmocka_unit_test(prefix_lengths_are_each_limits_own),
		cmocka_unit_test(separators_in_values_do_not_collide),
		cmocka_unit_test(a_missing_key_is_the_address_or_skipped_or_denied),
		cmocka_unit_test(forged_keys_gain_nothing),
		cmocka_unit_test(a_plan_is_the_proxys_word_or_the_keys),
		cmocka_unit_test(a_plans_file_that_is_wrong_is_refused_by_line),
		cmocka_unit_test(a_cost_is_fixed_or_the_proxys_within_its_bounds),
		cmocka_unit_test(peek_changes_and_counts_nothing),
		cmocka_unit_test(a_refund_gives_back_what_the_question_would_charge),
		cmocka_unit_test(a_monitor_limit_says_what_it_would_do),
		cmocka_unit_test(the_whole_layer_in_monitor_mode_judges_and_refuses_nothing),
		cmocka_unit_test(a_queue_holds_answers_until_their_turn),
		cmocka_unit_test(whoever_cannot_wait_passes_only_in_turn),
		cmocka_unit_test(peek_never_waits),
		cmocka_unit_test(the_last_in_the_queue_gives_its_place_back),
		cmocka_unit_test(an_end_gives_everything_back),
		cmocka_unit_test(a_reload_keeps_states_and_counters),
		cmocka_unit_test(a_question_under_way_keeps_its_rules),
		cmocka_unit_test(a_wrong_configuration_changes_nothing),
		cmocka_unit_test(names_come_and_go_without_end),
		cmocka_unit_test(memory_that_cannot_change_is_said),
		cmocka_unit_test(counters_outlive_their_worker),
		cmocka_unit_test(a_calendar_window_ends_with_the_day_there),
		cmocka_unit_test(the_state_of_one_client_is_shown),
		cmocka_unit_test(a_reset_forgets_one_client_or_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
