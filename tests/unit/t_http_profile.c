/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What each proxy's request is understood as, and what a client that forges headers gains by it: nothing. */
#include <setjmp.h>

#include "http_double.h"

static struct lab lab;

static int begin(void **state)
{
	*state = &lab;
	lab_init(&lab);
	return 0;
}

static int end(void **state)
{
	(void)state;
	lab_stop(&lab);
	return 0;
}

static void start(enum weir_profile profile, const char *trusted)
{
	lab_listener(&lab, profile, trusted);
	lab_start(&lab);
}

/* @lines: header lines, each with its end. */
static int ask(const char *first, const char *lines)
{
	char request[4096];

	assert_true(snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: front\r\n%s\r\n",
			     first, lines) < (int)sizeof(request));
	return lab_ask(&lab, 0, request);
}

#define NGINX "X-Original-Method: POST\r\nX-Original-URI: /a;b?c=d\r\n"
#define CADDY "X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /a;b?c=d\r\n"
#define FOR   "X-Forwarded-For: 192.0.2.7\r\n"

/* --- what the proxies say ---- */

static void nginx_says_it_in_x_original(void **state)
{
	const struct double_seen *s;

	(void)state;
	start(WEIR_PROFILE_NGINX, "127.0.0.1/32");
	assert_int_equal(ask("GET /check", NGINX FOR "X-Api-Key: k\r\n"), 200);
	s = double_seen(&lab.l7);
	assert_string_equal(s->method, "POST");
	assert_string_equal(s->target, "/a;b?c=d");
	assert_string_equal(s->host, "front");
	assert_string_equal(s->client, "192.0.2.7");
	assert_string_equal(s->headers, "Host=front|X-Api-Key=k|");
	assert_true(s->client_seen);
	assert_true(s->may_wait);
	assert_int_equal(s->profile, WEIR_ANSWER_NGINX);
}

static void caddy_and_traefik_say_it_in_x_forwarded(void **state)
{
	static const enum weir_profile profiles[] = {WEIR_PROFILE_CADDY, WEIR_PROFILE_TRAEFIK};
	const struct double_seen *s;

	(void)state;
	lab_listener(&lab, profiles[0], "127.0.0.1/32");
	lab_listener(&lab, profiles[1], "127.0.0.1/32");
	lab_start(&lab);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(lab_ask(&lab, i,
					 "GET /check HTTP/1.1\r\nHost: agent\r\n" CADDY FOR
					 "X-Forwarded-Host: site.example\r\nX-Forwarded-Proto: "
					 "https\r\n\r\n"),
				 200);
		s = double_seen(&lab.l7);
		assert_string_equal(s->method, "POST");
		assert_string_equal(s->target, "/a;b?c=d");
		assert_string_equal(s->host, "site.example");
		assert_string_equal(s->client, "192.0.2.7");
		assert_string_equal(s->headers, "Host=agent|X-Forwarded-Proto=https|");
		assert_true(s->client_seen && s->may_wait);
		assert_int_equal(s->profile, i ? WEIR_ANSWER_TRAEFIK : WEIR_ANSWER_CADDY);
	}
}

static void envoy_asks_with_the_request_itself_behind_a_prefix(void **state)
{
	static const struct {
		const char *first, *method, *target;
	} cases[] = {
		{"POST /check/api/x?y", "POST", "/api/x?y"},
		{"GET /check", "GET", "/"},
		{"GET /check/", "GET", "/"},
		{"GET /check?a=/check", "GET", "/?a=/check"},
		{"DELETE /check//x%00", "DELETE", "//x%00"},
		{"GET /check/check", "GET", "/check"},
	};

	(void)state;
	start(WEIR_PROFILE_ENVOY, "127.0.0.1/32");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct double_seen *s;

		assert_int_equal(ask(cases[i].first, FOR), 200);
		s = double_seen(&lab.l7);
		assert_string_equal(s->method, cases[i].method);
		assert_string_equal(s->target, cases[i].target);
		assert_string_equal(s->client, "192.0.2.7");
		assert_false(s->may_wait);
	}
	assert_int_equal(ask("GET /checkout", FOR), 404);
	assert_int_equal(ask("GET /api", FOR), 404);
}

static void whoever_connects_to_a_unix_socket_is_trusted(void **state)
{
	(void)state;
	lab_unix(&lab, WEIR_PROFILE_CADDY, "c.sock");
	lab_start(&lab);
	assert_int_equal(ask("GET /check", CADDY FOR), 200);
	assert_string_equal(double_seen(&lab.l7)->client, "192.0.2.7");
	assert_true(double_seen(&lab.l7)->client_seen);
}

static void the_query_of_check_is_never_read(void **state)
{
	(void)state;
	start(WEIR_PROFILE_NGINX, "127.0.0.1/32");
	lab.l7.refuse = true;
	assert_int_equal(ask("GET /check?deny_status=200&plan=pro", NGINX FOR), 403);
	assert_string_equal(double_seen(&lab.l7)->target, "/a;b?c=d");
}

static void another_path_is_not_found(void **state)
{
	(void)state;
	start(WEIR_PROFILE_NGINX, "127.0.0.1/32");
	assert_int_equal(ask("GET /checks", NGINX FOR), 404);
	assert_int_equal(ask("GET /check/", NGINX FOR), 404);
	assert_int_equal(ask("GET /", NGINX FOR), 404);
	assert_int_equal(lab_stats(&lab).bad_requests, 3);
}

static void addresses_are_read_from_the_right_over_all_lines(void **state)
{
	(void)state;
	start(WEIR_PROFILE_NGINX, "127.0.0.0/8");
	assert_int_equal(ask("GET /check", NGINX "X-Forwarded-For: 198.51.100.1\r\n"
						 "X-Forwarded-For: 192.0.2.9, 127.0.0.2\r\n"),
			 200);
	assert_string_equal(double_seen(&lab.l7)->client, "192.0.2.9");
	assert_int_equal(ask("GET /check", NGINX "X-Forwarded-For: 198.51.100.1, "
						 "::ffff:192.0.2.8\r\n"),
			 200);
	assert_string_equal(double_seen(&lab.l7)->client, "192.0.2.8");
}

static void the_nat64_option_is_followed(void **state)
{
	(void)state;
	lab.conf.request.nat64 = true;
	start(WEIR_PROFILE_NGINX, "127.0.0.1/32");
	assert_int_equal(ask("GET /check", NGINX "X-Forwarded-For: 64:ff9b::192.0.2.9\r\n"), 200);
	assert_string_equal(double_seen(&lab.l7)->client, "192.0.2.9");
}

static void user_plan_and_cost_come_from_the_headers_that_are_named(void **state)
{
	char user[] = "X-Weir-User", plan[] = "x-plan", cost[] = "X-Cost";
	const struct double_seen *s;

	(void)state;
	lab.conf.request.header_user = user;
	lab.conf.request.header_plan = plan;
	lab.conf.request.header_cost = cost;
	start(WEIR_PROFILE_NGINX, "127.0.0.1/32");
	assert_int_equal(ask("GET /check",
			     NGINX FOR "X-Weir-User: bob\r\nX-Plan: pro\r\nX-Cost: 7\r\n"),
			 200);
	s = double_seen(&lab.l7);
	assert_string_equal(s->user, "bob");
	assert_string_equal(s->plan, "pro");
	assert_string_equal(s->cost, "7");
	assert_int_equal(ask("GET /check", NGINX FOR), 200);
	s = double_seen(&lab.l7);
	assert_string_equal(s->user, "");
}

/* --- what is missing or forged ---- */

static void a_trusted_proxy_without_a_target_is_refused_and_counted(void **state)
{
	static const char *const lines[] = {
		FOR,
		FOR "X-Original-Method: GET\r\n",
		FOR "X-Original-URI: /\r\n",
		FOR "X-Original-Method: GET\r\nX-Original-URI: \r\n",
		FOR CADDY,
	};
	struct web_reply r;
	struct web w;

	(void)state;
	start(WEIR_PROFILE_NGINX, "127.0.0.1/32");
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		assert_int_equal(ask("GET /check", lines[i]), 403);
	assert_int_equal(lab_stats(&lab).no_target, ARRAY_LEN(lines));
	assert_int_equal(lab.l7.asked, 0);
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	assert_int_equal(web_ask(&w, &r, "GET /check HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_string_equal(web_header(&r, "X-Weir-Limit"), "bad-path");
	assert_string_equal(web_header(&r, "X-Weir-Status"), "400");
	assert_false(r.closes);
	web_close(&w);
}

static void two_lines_of_what_must_be_one_are_refused(void **state)
{
	static const char *const lines[] = {
		FOR NGINX "X-Original-URI: /other\r\n",
		FOR NGINX "x-original-uri: /a;b?c=d\r\n",
		FOR NGINX "X-Original-Method: GET\r\n",
		FOR NGINX "Host: other\r\n",
	};

	(void)state;
	start(WEIR_PROFILE_NGINX, "127.0.0.1/32");
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		assert_int_equal(ask("GET /check", lines[i]), 403);
	assert_int_equal(lab_stats(&lab).doubled, ARRAY_LEN(lines));
	assert_int_equal(lab.l7.asked, 0);
}

static void a_plan_in_two_lines_is_no_plan(void **state)
{
	char plan[] = "X-Plan", cost[] = "X-Cost";

	(void)state;
	lab.conf.request.header_plan = plan;
	lab.conf.request.header_cost = cost;
	start(WEIR_PROFILE_NGINX, "127.0.0.1/32");
	assert_int_equal(ask("GET /check",
			     NGINX FOR "X-Plan: pro\r\nX-Plan: free\r\nX-Cost: 0\r\nx-cost: 5\r\n"),
			 200);
	assert_string_equal(double_seen(&lab.l7)->plan, "");
	assert_string_equal(double_seen(&lab.l7)->cost, "");
	assert_string_equal(double_seen(&lab.l7)->headers, "Host=front|");
	assert_int_equal(lab_stats(&lab).doubled, 2);
}

static void the_proxy_itself_is_not_a_client(void **state)
{
	(void)state;
	start(WEIR_PROFILE_NGINX, "127.0.0.1/32");
	assert_int_equal(ask("GET /check", NGINX), 200);
	assert_false(double_seen(&lab.l7)->has_client);
	assert_false(double_seen(&lab.l7)->client_seen);
	assert_int_equal(ask("GET /check", NGINX "X-Forwarded-For: unknown\r\n"), 200);
	assert_false(double_seen(&lab.l7)->has_client);
	assert_int_equal(lab_stats(&lab).no_address, 2);
}

static void a_peer_that_is_not_trusted_speaks_for_itself_only(void **state)
{
	static const struct {
		enum weir_profile profile;
		const char *first, *target;
	} cases[] = {
		{WEIR_PROFILE_NGINX, "GET /x?y", "/x?y"},
		{WEIR_PROFILE_CADDY, "GET /check", "/check"},
		{WEIR_PROFILE_TRAEFIK, "GET /x?y", "/x?y"},
		{WEIR_PROFILE_ENVOY, "GET /check/x?y", "/x?y"},
	};
	char user[] = "X-Weir-User", plan[] = "X-Plan", cost[] = "X-Cost";

	(void)state;
	lab.conf.request.header_user = user;
	lab.conf.request.header_plan = plan;
	lab.conf.request.header_cost = cost;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		lab_listener(&lab, cases[i].profile, "192.0.2.0/24");
	lab_start(&lab);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct double_seen *s;
		char request[2048];

		(void)snprintf(request, sizeof(request),
			       "%s HTTP/1.1\r\nHost: a\r\n" NGINX CADDY FOR
			       "X-Forwarded-Host: evil\r\nX-Real-IP: 192.0.2.66\r\nForwarded: "
			       "for=192.0.2.66\r\nX-Weir-User: bob\r\nX-Plan: pro\r\nX-Cost: "
			       "0\r\n\r\n",
			       cases[i].first);
		assert_int_equal(lab_ask(&lab, i, request), 200);
		s = double_seen(&lab.l7);
		assert_string_equal(s->method, "GET");
		assert_string_equal(s->target, cases[i].target);
		assert_string_equal(s->host, "a");
		assert_string_equal(s->client, "127.0.0.1");
		assert_false(s->client_seen);
		assert_string_equal(s->user, "");
		assert_string_equal(s->plan, "");
		assert_string_equal(s->cost, "");
		assert_null(strstr(s->headers, "X-Plan"));
		assert_non_null(strstr(s->headers, "X-Real-IP"));
	}
	assert_int_equal(lab_stats(&lab).untrusted_forwarded, ARRAY_LEN(cases));
}

static void headers_of_other_profiles_are_the_clients_own(void **state)
{
	const struct double_seen *s;

	(void)state;
	start(WEIR_PROFILE_NGINX, "127.0.0.1/32");
	assert_int_equal(ask("GET /check", NGINX FOR
			     "X-Forwarded-Uri: /harmless\r\nX-Forwarded-Method: OPTIONS\r\n"
			     "X-Forwarded-Host: evil\r\nX-Original-URL: /x\r\nX-Real-IP: "
			     "198.51.100.66\r\nForwarded: for=198.51.100.66\r\nX-Plan: pro\r\n"
			     "X-Weir-User: bob\r\nX-Cost: 0\r\nX-Weir-Decision: allow\r\n"),
			 200);
	s = double_seen(&lab.l7);
	assert_string_equal(s->target, "/a;b?c=d");
	assert_string_equal(s->method, "POST");
	assert_string_equal(s->host, "front");
	assert_string_equal(s->client, "192.0.2.7");
	assert_string_equal(s->user, "");
	assert_string_equal(s->plan, "");
	assert_string_equal(s->cost, "");
}

/* --- statuses ---- */

static void refusals_have_the_status_that_the_proxy_understands(void **state)
{
	static const struct {
		enum weir_profile profile;
		int refused, large;
	} cases[] = {
		{WEIR_PROFILE_NGINX, 403, 403},
		{WEIR_PROFILE_CADDY, 429, 431},
		{WEIR_PROFILE_TRAEFIK, 429, 431},
		{WEIR_PROFILE_ENVOY, 429, 431},
	};
	char large[17000];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		lab_listener(&lab, cases[i].profile, NULL);
	lab_start(&lab);
	lab.l7.refuse = true;
	(void)snprintf(large, sizeof(large), "GET /check HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n",
		       16500, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct web_reply r;
		struct web w;

		assert_int_equal(web_open(&w, lab_where(&lab, i)), 0);
		assert_int_equal(web_ask(&w, &r, "GET /check HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
		assert_int_equal(r.status, cases[i].refused);
		assert_string_equal(web_header(&r, "X-Weir-Decision"), "deny");
		assert_string_equal(web_header(&r, "X-Weir-Status"), "429");
		assert_string_equal(web_header(&r, "Retry-After"), "7");
		assert_string_equal(web_header(&r, "Content-Type"), "application/json");
		assert_string_equal(web_header(&r, "Cache-Control"), "no-store");
		assert_int_equal(web_header_count(&r, "Content-Type"), 1);
		assert_non_null(strstr(r.body, "\"RATE_LIMITED\""));
		web_close(&w);
		assert_int_equal(lab_ask(&lab, i, large), cases[i].large);
	}
	assert_int_equal(lab_stats(&lab).too_large, ARRAY_LEN(cases));
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(nginx_says_it_in_x_original),
		T(caddy_and_traefik_say_it_in_x_forwarded),
		T(envoy_asks_with_the_request_itself_behind_a_prefix),
		T(whoever_connects_to_a_unix_socket_is_trusted),
		T(the_query_of_check_is_never_read),
		T(another_path_is_not_found),
		T(addresses_are_read_from_the_right_over_all_lines),
		T(the_nat64_option_is_followed),
		T(user_plan_and_cost_come_from_the_headers_that_are_named),
		T(a_trusted_proxy_without_a_target_is_refused_and_counted),
		T(two_lines_of_what_must_be_one_are_refused),
		T(a_plan_in_two_lines_is_no_plan),
		T(the_proxy_itself_is_not_a_client),
		T(a_peer_that_is_not_trusted_speaks_for_itself_only),
		T(headers_of_other_profiles_are_the_clients_own),
		T(refusals_have_the_status_that_the_proxy_understands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
