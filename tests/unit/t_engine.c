/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's engine: which limits a request meets, what they do to it together, what the client is told. */
#include "engine_case.h"

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

/* Each setting of http.path and of an exemption's method makes the difference that it is for. */
static void paths_and_exemptions_are_what_the_file_says(void **state)
{
	static const char limit[] =
		"request_limits:\n  - {name: a, key: ip, match: {path: [/x, /p/q]}, algorithm: "
		"fixed-window, limit: 1, window: 60s}\n";
	static const struct {
		const char *more, *method, *target;
		bool met; /* the limit that /x has used up */
	} cases[] = {
		{"", "GET", "/X", false},
		{"http: {path: {case: insensitive}}\n", "GET", "/X", true},
		{"", "GET", "/x/", true},
		{"http: {path: {trailing_slash: distinct}}\n", "GET", "/x/", false},
		{"http: {path: {trailing_slash: distinct}}\n", "GET", "/x", true},
		{"exempt:\n  - {path: /x, method: PUT}\n", "PUT", "/x", false},
		{"exempt:\n  - {path: /x, method: PUT}\n", "POST", "/x", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(engine_freep) struct engine *e = NULL;
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, "%s%s", cases[i].more, limit) > 0);
		e = engine_of(text);
		assert_int_equal(ASK(e, .target = "/x"), WEIR_ANSWER_ALLOW);
		if (ASK(e, .method = cases[i].method, .target = cases[i].target) !=
		    (cases[i].met ? WEIR_ANSWER_RATE_LIMITED : WEIR_ANSWER_ALLOW))
			fail_msg("case %zu: %s %s with %s", i, cases[i].method, cases[i].target,
				 cases[i].more);
	}
}

/* A parameter is of no segment's name, or is: what a key by path counts, and what an exemption lets through. */
static void parameters_of_paths_are_stripped_or_kept(void **state)
{
	static const char text[] = "request_limits:\n  - {name: a, key: [ip, path], algorithm: "
				   "fixed-window, limit: 1, "
				   "window: 60s}\n";
	_cleanup_(engine_freep) struct engine *e = engine_of(text);
	_cleanup_free_ char *kept = NULL;

	(void)state;
	assert_int_equal(ASK(e, .target = "/x;v=1"), WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(e, .target = "/x;v=2"), WEIR_ANSWER_RATE_LIMITED);
	assert_true(asprintf(&kept, "http: {path: {params: keep}}\n%s", text) > 0);
	engine_configure(e, kept);
	assert_int_equal(ASK(e, .target = "/x;v=3"), WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(e, .target = "/x;v=4"), WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(e, .target = "/x;v=4"), WEIR_ANSWER_RATE_LIMITED);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_limits_everything_passes_and_no_quota_is_named),
		cmocka_unit_test(a_limit_admits_its_number_then_refuses),
		cmocka_unit_test(all_limits_are_charged_or_none),
		cmocka_unit_test(policy_windows_are_those_of_the_draft),
		cmocka_unit_test(limits_match_by_method_path_host_and_header),
		cmocka_unit_test(paths_and_exemptions_are_what_the_file_says),
		cmocka_unit_test(parameters_of_paths_are_stripped_or_kept),
		cmocka_unit_test(what_cannot_be_judged_is_refused),
		cmocka_unit_test(the_exempt_meet_no_limit),
		cmocka_unit_test(a_monitor_limit_says_what_it_would_do),
		cmocka_unit_test(the_whole_layer_in_monitor_mode_judges_and_refuses_nothing),
		cmocka_unit_test(a_calendar_window_ends_with_the_day_there),
	};

	return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
