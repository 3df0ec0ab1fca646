/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Profile json: POST /v1/check and /v1/refund, with a token or on a Unix socket. */
#include <fcntl.h>
#include <setjmp.h>

#include "http_double.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define ONE   "{\"method\":\"POST\",\"path\":\"/a;x?b\",\"ip\":\"192.0.2.7\"}"

static struct lab lab;
static char token_path[128];

static void write_token(const char *text)
{
	int fd = open(token_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int begin(void **state)
{
	*state = &lab;
	lab_init(&lab);
	(void)snprintf(token_path, sizeof(token_path), "%s/token", lab.dir);
	write_token(TOKEN "\n");
	lab_listener(&lab, WEIR_PROFILE_JSON, NULL)->token_file = strdup(token_path);
	lab_unix(&lab, WEIR_PROFILE_JSON, "json.sock");
	return 0;
}

static int end(void **state)
{
	(void)state;
	(void)unlink(token_path);
	lab_stop(&lab);
	return 0;
}

/* On the Unix socket; the reply's body in @body. */
static int post(const char *path, const char *json, char *body, size_t size)
{
	struct web_reply r;
	struct web w;
	int status;

	assert_int_equal(web_open(&w, lab_where(&lab, 1)), 0);
	assert_int_equal(web_ask(&w, &r,
				 "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
				 path, strlen(json), json),
			 0);
	status = r.status;
	assert_string_equal(web_header(&r, "Content-Type"), "application/json");
	assert_int_equal(web_header_count(&r, "Content-Type"), 1);
	if (body)
		(void)snprintf(body, size, "%s", r.body);
	web_close(&w);
	return status;
}

/* --- who may ask ---- */

static void only_the_token_opens_a_tcp_port(void **state)
{
	static const struct {
		const char *line;
		int status;
	} cases[] = {
		{"Authorization: Bearer " TOKEN "\r\n", 200},
		{"authorization: bearer  " TOKEN "\r\n", 200},
		{"", 401},
		{"Authorization: Bearer \r\n", 401},
		{"Authorization: Bearer 0123456789abcdef0123456789abcdee\r\n", 401},
		{"Authorization: Bearer " TOKEN "0\r\n", 401},
		{"Authorization: Bearer 0123456789abcdef\r\n", 401},
		{"Authorization: Basic " TOKEN "\r\n", 401},
		{"Authorization: " TOKEN "\r\n", 401},
		{"Authorization: Bearer " TOKEN "\r\nAuthorization: Bearer " TOKEN "\r\n", 401},
	};
	char request[512];

	(void)state;
	lab_start(&lab);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		(void)snprintf(request, sizeof(request),
			       "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: "
			       "%zu\r\n%s\r\n%s",
			       strlen(ONE), cases[i].line, ONE);
		assert_int_equal(lab_ask(&lab, 0, request), cases[i].status);
	}
	assert_int_equal(lab.l7.asked, 2);
	assert_int_equal(lab_stats(&lab).bad_requests, 8);
}

static void a_short_or_empty_token_file_is_told(void **state)
{
	static const char *const bad[] = {"", "\n", "short\n", "two words of a passphrase\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct weir_error e = {.text = ""};

		write_token(bad[i]);
		assert_true(weir_http_open(&lab.conf, &lab.l7, &lab.http, &e) < 0);
		assert_non_null(strstr(e.text, "token_file"));
	}
	(void)unlink(token_path);
	assert_int_equal(weir_http_open(&lab.conf, &lab.l7, &lab.http, &(struct weir_error){}),
			 -ENOENT);
}

static void a_changed_token_counts_after_the_change(void **state)
{
	struct weir_error e;
	char request[512];

	(void)state;
	lab_start(&lab);
	(void)snprintf(request, sizeof(request),
		       "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n"
		       "Authorization: Bearer " TOKEN "\r\n\r\n" ONE,
		       strlen(ONE));
	assert_int_equal(lab_ask(&lab, 0, request), 200);
	write_token("fedcba9876543210fedcba9876543210");
	assert_int_equal(lab_ask(&lab, 0, request), 200);
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	assert_int_equal(lab_ask(&lab, 0, request), 401);
}

/* --- what is asked ---- */

static void one_request_is_asked_as_it_was_written(void **state)
{
	char user[] = "X-User", plan[] = "X-Plan", cost[] = "X-Cost";
	const struct double_seen *s;
	char body[2048];

	(void)state;
	lab.conf.request.header_user = user;
	lab.conf.request.header_plan = plan;
	lab.conf.request.header_cost = cost;
	lab_start(&lab);
	assert_int_equal(post("/v1/check",
			      "{\"method\":\"put\",\"path\":\"/a;x?b\",\"ip\":\"2001:db8::1\","
			      "\"headers\":{\"Host\":\"h\",\"X-Api-Key\":\"k\",\"x-user\":\"bob\","
			      "\"X-Plan\":\"pro\"},\"cost\":3,\"peek\":true}",
			      body, sizeof(body)),
			 200);
	s = double_seen(&lab.l7);
	assert_string_equal(s->method, "put");
	assert_string_equal(s->target, "/a;x?b");
	assert_string_equal(s->host, "h");
	assert_string_equal(s->client, "2001:db8::1");
	assert_false(s->client_seen); /* it is only the caller's word */
	assert_true(s->may_wait);
	assert_true(s->peek);
	assert_false(s->refund);
	assert_int_equal(s->cost_n, 3);
	assert_string_equal(s->user, "bob");
	assert_string_equal(s->plan, "pro");
	assert_non_null(strstr(s->headers, "X-Api-Key=k|"));
	assert_int_equal(s->profile, WEIR_ANSWER_JSON);
	assert_non_null(strstr(body, "\"allowed\":true"));
	assert_non_null(strstr(body, "\"limits\":[{\"name\":\"api\""));
}

static void without_an_address_nobody_is_asked_about(void **state)
{
	(void)state;
	lab_start(&lab);
	assert_int_equal(post("/v1/check", "{\"method\":\"GET\",\"path\":\"/\"}", NULL, 0), 200);
	assert_false(double_seen(&lab.l7)->has_client);
}

static void a_cost_that_is_not_given_is_the_limits_own(void **state)
{
	(void)state;
	lab_start(&lab);
	assert_int_equal(post("/v1/check", ONE, NULL, 0), 200);
	assert_int_equal(double_seen(&lab.l7)->cost_n, 0);
}

static void a_refusal_has_status_headers_and_a_body_that_agree(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	lab_start(&lab);
	lab.l7.refuse = true;
	assert_int_equal(web_open(&w, lab_where(&lab, 1)), 0);
	assert_int_equal(web_ask(&w, &r,
				 "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: "
				 "%zu\r\n\r\n" ONE,
				 strlen(ONE)),
			 0);
	assert_int_equal(r.status, 429);
	assert_string_equal(web_header(&r, "Retry-After"), "7");
	assert_string_equal(web_header(&r, "X-RateLimit-Remaining"), "0");
	assert_string_equal(web_header(&r, "Content-Type"), "application/json");
	assert_int_equal(web_header_count(&r, "Content-Type"), 1);
	assert_non_null(strstr(r.body, "\"allowed\":false,\"code\":\"RATE_LIMITED\""));
	assert_non_null(strstr(r.body, "\"retry_after\":7"));
	web_close(&w);
}

static void a_refund_is_a_refund(void **state)
{
	(void)state;
	lab_start(&lab);
	assert_int_equal(post("/v1/refund", ONE, NULL, 0), 200);
	assert_true(double_seen(&lab.l7)->refund);
}

static char *list_of(unsigned n)
{
	char *text = malloc(n * (strlen(ONE) + 1) + 8);
	size_t at = 0;

	text[at++] = '[';
	for (unsigned i = 0; i < n; i++) {
		if (i)
			text[at++] = ',';
		memcpy(text + at, ONE, strlen(ONE));
		at += strlen(ONE);
	}
	memcpy(text + at, "]", 2);
	return text;
}

static unsigned count(const char *text, const char *word)
{
	unsigned n = 0;

	while ((text = strstr(text, word))) {
		text += strlen(word);
		n++;
	}
	return n;
}

static void a_list_is_answered_by_a_list(void **state)
{
	static const unsigned sizes[] = {1, 2, 256};
	static char body[200000];

	(void)state;
	lab_start(&lab);
	lab.l7.refuse = true;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		char *list = list_of(sizes[i]);

		assert_int_equal(post("/v1/check", list, body, sizeof(body)), 200);
		assert_int_equal(body[0], '[');
		assert_int_equal(body[strlen(body) - 2], ']');
		assert_int_equal(count(body, "{\"allowed\":false,\"code\""), sizes[i]);
		free(list);
	}
	assert_int_equal(lab.l7.asked, 1 + 2 + 256);
	assert_int_equal(lab.l7.freed, 1 + 2 + 256);
}

static void a_list_whose_questions_end_later_waits_for_all(void **state)
{
	char *list = list_of(5);
	struct web_reply r;
	struct web w;

	(void)state;
	lab_start(&lab);
	lab.l7.later = true;
	assert_int_equal(web_open(&w, lab_where(&lab, 1)), 0);
	assert_int_equal(web_say(&w,
				 "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: "
				 "%zu\r\n\r\n%s",
				 strlen(list), list),
			 0);
	assert_true(wait_for(lab.l7.asked == 5, 5000));
	assert_int_equal(web_take(&w, &r), -EAGAIN);
	double_finish(&lab.l7);
	assert_int_equal(web_wait(&w, 5000, &r), 0);
	assert_int_equal(count(r.body, "\"allowed\":true"), 10); /* with that of each limit */
	web_close(&w);
	free(list);
}

static void a_list_is_held_as_long_as_the_last_of_it(void **state)
{
	char *list = list_of(5);
	__u64 began = wait_now_ns();

	(void)state;
	lab_start(&lab);
	lab.l7.wait_more_us = 30000;
	lab.l7.wait_us = 1;
	assert_int_equal(post("/v1/check", list, NULL, 0), 200);
	assert_true(wait_now_ns() - began >= 120000000);
	free(list);
}

static void a_caller_of_a_list_that_leaves_gives_all_places_back(void **state)
{
	char *list = list_of(5);
	struct web w;

	(void)state;
	lab_start(&lab);
	lab.l7.wait_us = 60000000;
	assert_int_equal(web_open(&w, lab_where(&lab, 1)), 0);
	assert_int_equal(web_say(&w,
				 "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: "
				 "%zu\r\n\r\n%s",
				 strlen(list), list),
			 0);
	assert_true(wait_for(lab_stats(&lab).held == 1, 5000));
	web_close(&w);
	assert_true(wait_for(lab.l7.left == 5, 5000));
	free(list);
}

/* --- what is wrong ---- */

static void mistakes_are_told_in_json(void **state)
{
	static const struct {
		const char *body, *says;
	} cases[] = {
		{"", "JSON"},
		{"{", "JSON"},
		{"{\"method\":\"GET\"}", "path is missing"},
		{"[]", "list has 0"},
		{"{\"method\":\"GET\",\"path\":\"/\",\"x\\\"y\":1}", ""},
		{"[[[[[[]]]]]]", "nested"},
	};
	char body[2048];

	(void)state;
	lab_start(&lab);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(post("/v1/check", cases[i].body, body, sizeof(body)), 400);
		assert_non_null(strstr(body, "{\"code\":\"BAD_REQUEST\",\"message\":\""));
		assert_non_null(strstr(body, cases[i].says));
	}
	assert_int_equal(lab.l7.asked, 0);
}

static void other_paths_and_methods_are_told(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	lab_start(&lab);
	assert_int_equal(post("/v1/checks", ONE, NULL, 0), 404);
	assert_int_equal(post("/check", ONE, NULL, 0), 404);
	assert_int_equal(post("/v1/check?x=1", ONE, NULL, 0), 200);
	assert_int_equal(web_open(&w, lab_where(&lab, 1)), 0);
	for (int i = 0; i < 2; i++) { /* without a body the connection is kept */
		assert_int_equal(web_ask(&w, &r, "GET /v1/check HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
		assert_int_equal(r.status, 405);
		assert_string_equal(web_header(&r, "Allow"), "POST");
	}
	web_close(&w);
	assert_int_equal(lab_ask(&lab, 0, "GET /v1/check HTTP/1.1\r\nHost: a\r\n\r\n"), 401);
}

static void a_body_that_is_too_long_is_refused_before_it_comes(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	lab_start(&lab);
	assert_int_equal(web_open(&w, lab_where(&lab, 1)), 0);
	assert_int_equal(web_ask(&w, &r,
				 "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: "
				 "300000\r\n\r\n"),
			 0);
	assert_int_equal(r.status, 413);
	assert_int_equal(web_wait_end(&w, 5000), 0);
	web_close(&w);
}

static void a_chunked_body_is_read_up_to_the_same_length(void **state)
{
	static char chunk[16384];
	struct web_reply r;
	struct web w;

	(void)state;
	lab_start(&lab);
	memset(chunk, ' ', sizeof(chunk));
	for (unsigned n = 1; n <= 20; n += 19) { /* 16 kB of blanks in front, and 320 */
		assert_int_equal(web_open(&w, lab_where(&lab, 1)), 0);
		assert_int_equal(web_say(&w, "POST /v1/check HTTP/1.1\r\nHost: a\r\n"
					     "Transfer-Encoding: chunked\r\n\r\n"),
				 0);
		for (unsigned i = 0; i < n; i++) {
			assert_int_equal(web_say(&w, "%zx\r\n", sizeof(chunk)), 0);
			assert_int_equal(web_send(&w, chunk, sizeof(chunk)), 0);
			assert_int_equal(web_say(&w, "\r\n"), 0);
		}
		assert_int_equal(web_ask(&w, &r, "%zx\r\n%s\r\n0\r\n\r\n", strlen(ONE), ONE), 0);
		assert_int_equal(r.status, n == 1 ? 200 : 413);
		web_close(&w);
	}
}

static void a_caller_that_asks_to_continue_is_told_to(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	lab_start(&lab);
	assert_int_equal(web_open(&w, lab_where(&lab, 1)), 0);
	assert_int_equal(web_say(&w,
				 "POST /v1/check HTTP/1.1\r\nHost: a\r\nExpect: "
				 "100-continue\r\nContent-Length: %zu\r\n\r\n",
				 strlen(ONE)),
			 0);
	assert_int_equal(web_wait(&w, 5000, &r), 0);
	assert_int_equal(r.status, 100);
	assert_int_equal(web_ask(&w, &r, "%s", ONE), 0);
	assert_int_equal(r.status, 200);
	web_close(&w);
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(only_the_token_opens_a_tcp_port),
		T(a_short_or_empty_token_file_is_told),
		T(a_changed_token_counts_after_the_change),
		T(one_request_is_asked_as_it_was_written),
		T(without_an_address_nobody_is_asked_about),
		T(a_cost_that_is_not_given_is_the_limits_own),
		T(a_refusal_has_status_headers_and_a_body_that_agree),
		T(a_refund_is_a_refund),
		T(a_list_is_answered_by_a_list),
		T(a_list_whose_questions_end_later_waits_for_all),
		T(a_list_is_held_as_long_as_the_last_of_it),
		T(a_caller_of_a_list_that_leaves_gives_all_places_back),
		T(mistakes_are_told_in_json),
		T(other_paths_and_methods_are_told),
		T(a_body_that_is_too_long_is_refused_before_it_comes),
		T(a_chunked_body_is_read_up_to_the_same_length),
		T(a_caller_that_asks_to_continue_is_told_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
