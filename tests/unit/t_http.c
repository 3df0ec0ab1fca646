/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connections and their limits: requests in all their shapes, headers, how many clients. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "http_case.h"

/* --- requests ---- */

static void a_connection_is_kept_for_many_requests(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	start_direct();
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(web_ask(&w, &r, CHECK), 0);
		assert_int_equal(r.status, 200);
		assert_false(r.closes);
		assert_string_equal(web_header(&r, "X-RateLimit-Remaining"), "9");
	}
	web_close(&w);
	assert_int_equal(lab_stats(&lab).accepted, 1);
	assert_int_equal(lab_stats(&lab).requests, 100);
	assert_int_equal(lab.l7.freed, 100);
}

static void requests_in_one_piece_are_answered_in_order(void **state)
{
	char all[1024] = "";
	struct web_reply r;
	struct web w;

	(void)state;
	start_direct();
	lab.l7.refuse = true;
	for (int i = 0; i < 5; i++)
		(void)snprintf(all + strlen(all), sizeof(all) - strlen(all),
			       "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", i);
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	assert_int_equal(web_send(&w, all, strlen(all)), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(web_wait(&w, 5000, &r), 0);
		assert_int_equal(r.status, 403);
		assert_string_equal(web_header(&r, "X-Weir-Status"), "429");
	}
	assert_string_equal(double_seen(&lab.l7)->target, "/4");
	web_close(&w);
}

static void a_head_request_is_answered_without_a_body(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	start_direct();
	lab.l7.refuse = true;
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	w.head = true;
	assert_int_equal(web_ask(&w, &r, "HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_int_equal(r.status, 403);
	w.head = false;
	assert_int_equal(web_ask(&w, &r, CHECK), 0);
	assert_true(r.body_n > 10);
	web_close(&w);
}

static void a_request_may_come_byte_by_byte(void **state)
{
	static const char text[] = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
	struct web_reply r;
	struct web w;

	(void)state;
	start_direct();
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		assert_int_equal(web_take(&w, &r), -EAGAIN);
		assert_int_equal(web_send(&w, text + i, 1), 0);
	}
	assert_int_equal(web_wait(&w, 5000, &r), 0);
	assert_int_equal(r.status, 200);
	assert_int_equal(web_ask(&w, &r, CHECK), 0); /* the body is not taken for a request */
	assert_int_equal(r.status, 200);
	web_close(&w);
}

static void a_request_of_http_1_0_is_answered(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	start_direct();
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	assert_int_equal(web_ask(&w, &r, "GET / HTTP/1.0\r\n\r\n"), 0);
	assert_int_equal(r.status, 200);
	assert_int_equal(web_wait_end(&w, 5000), 0);
	web_close(&w);
}

static void the_target_arrives_as_it_was_sent(void **state)
{
	static const char *const targets[] = {"/api%2Flogin",
					      "/a/%2e%2e/b",
					      "/a%00b",
					      "/a?x=1&y=%41?&",
					      "//h/x;y?",
					      "/\xff\x80",
					      "/?",
					      "http://h/p?q",
					      "*",
					      "/%zz"};
	char request[256];

	(void)state;
	start_direct();
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		(void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n",
			       targets[i]);
		assert_int_equal(lab_ask(&lab, 0, request), 200);
		assert_string_equal(double_seen(&lab.l7)->target, targets[i]);
	}
}

/* A request of any size, with cookies of one letter each. */
static char *request_with(size_t n_target, size_t n_cookie, size_t n_header)
{
	char *target = malloc(n_target + 1), *cookie = malloc(n_cookie + 1),
	     *header = malloc(n_header + 1), *text = NULL;

	memset(target, 'a', n_target);
	memset(header, 'b', n_header);
	for (size_t i = 0; i < n_cookie; i++)
		cookie[i] = i % 2 ? ';' : 'c';
	target[n_target] = cookie[n_cookie] = header[n_header] = '\0';
	assert_true(asprintf(&text, "GET /%s HTTP/1.1\r\nHost: a\r\n%s%s%s%s%s%s\r\n", target,
			     n_cookie ? "Cookie: " : "", cookie, n_cookie ? "\r\n" : "",
			     n_header ? "X-Long: " : "", header, n_header ? "\r\n" : "") > 0);
	free(target);
	free(cookie);
	free(header);
	return text;
}

static int ask_with(size_t n_target, size_t n_cookie, size_t n_header)
{
	char *text = request_with(n_target, n_cookie, n_header);
	int status = lab_ask(&lab, 0, text);

	free(text);
	return status;
}

static void a_request_line_of_8_kb_and_headers_as_long_pass(void **state)
{
	(void)state;
	start_direct();
	assert_int_equal(ask_with(8192, 0, 0), 200);
	assert_int_equal(ask_with(8000, 0, 7900), 200);
	assert_int_equal(strlen(double_seen(&lab.l7)->target), 8001);
}

static void larger_headers_are_told_so(void **state)
{
	(void)state;
	lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
	lab_start(&lab);
	assert_int_equal(ask_with(0, 0, 16000), 200);
	assert_int_equal(ask_with(0, 0, 16400), 431);
	assert_int_equal(ask_with(8000, 0, 9000), 431);
	assert_int_equal(ask_with(0, 0, 40000), 431);
	assert_int_equal(ask_with(40000, 0, 0), 414);
	assert_true(lab_stats(&lab).too_large >= 3);
}

/* A request of exactly @n bytes and @lines header lines, of which the last is filled up with @what. */
static char *request_of(size_t n, unsigned lines, const char *name, const char *what)
{
	char *text = malloc(n + 1);
	size_t at = (size_t)snprintf(text, n, "GET /check HTTP/1.1\r\nHost: a\r\n");

	for (unsigned i = 2; i < lines; i++)
		at += (size_t)snprintf(text + at, n - at, "X-%u: y\r\n", i);
	at += (size_t)snprintf(text + at, n - at, "%s: ", name);
	for (size_t i = 0; at < n - 4; i++)
		text[at++] = what[i % strlen(what)];
	memcpy(text + n - 4, "\r\n\r\n", 5);
	return text;
}

/* Whatever they are: the library's memory of a connection must hold text and records of all of them. */
static void headers_of_the_size_allowed_pass_and_a_byte_more_does_not(void **state)
{
	static const struct {
		const char *name, *what;
	} fill[] = {{"X-Long", "b"},
		    {"Cookie", "c;"},
		    {"Cookie", "name=value-of-some-length; "},
		    {"Cookie", "session=0123456789abcdef0123456789abcdef0123456789abcdef; "},
		    {"Cookie", "="},
		    {"Cookie", "\"x"}};
	static const unsigned lines[] = {2, 3, 40, 127, 128};
	static const __u64 sizes[] = {4096, 16384, 65536};

	(void)state;
	lab.l7.many = true; /* and the answer's headers as well */
	for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
		lab.conf.request.headers_bytes = sizes[s];
		lab.conf.request.n_listener = 0;
		(void)lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
		lab_start(&lab);
		for (size_t i = 0; i < ARRAY_LEN(fill) * ARRAY_LEN(lines); i++) {
			const char *name = fill[i / ARRAY_LEN(lines)].name,
				   *what = fill[i / ARRAY_LEN(lines)].what;
			unsigned n = lines[i % ARRAY_LEN(lines)];
			char *fits = request_of(sizes[s], n, name, what),
			     *more = request_of(sizes[s] + 1, n, name, what);
			struct web_reply r;
			struct web w;

			assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
			for (int k = 0; k < 4; k++) {
				lab.l7.refuse = k > 1;
				assert_int_equal(web_ask(&w, &r, "%s", fits), 0);
				if (r.status != (k > 1 ? 429 : 200))
					fail_msg("%u lines, %s: %s: %d", n, name, what, r.status);
			}
			assert_int_equal(web_ask(&w, &r, "%s", more), 0);
			assert_int_equal(r.status, 431);
			web_close(&w);
			free(fits);
			free(more);
		}
		if (s + 1 < ARRAY_LEN(sizes)) {
			weir_http_free(lab.http);
			lab.http = NULL;
			free(lab.listener[0].listen);
		}
	}
}

/* A proxy that fails open takes a closed connection for consent. */
static void whatever_the_size_of_headers_there_is_a_status(void **state)
{
	(void)state;
	start_direct();
	for (size_t n = 100; n < 36000; n += 150) {
		int plain = ask_with(0, 0, n), cookies = ask_with(0, n, 0),
		    both = ask_with(0, n / 2, 20000);

		assert_true(plain == 200 || plain == 403 || plain == 431);
		assert_true(cookies == 200 || cookies == 403 || cookies == 431);
		assert_true(both == 200 || both == 403 || both == 431);
	}
	for (size_t n = 300; n < 700; n++) /* where the pool becomes full */
		assert_in_set(ask_with(0, n, 0), ((LargestIntegralType[]){200, 403, 431}), 3);
}

static void a_query_of_thousands_of_parts_costs_nothing(void **state)
{
	char request[8400];
	size_t n = (size_t)snprintf(request, sizeof(request), "GET /x?");

	(void)state;
	start_direct();
	while (n < 8100) {
		request[n++] = 'a';
		request[n++] = '&';
	}
	(void)snprintf(request + n, sizeof(request) - n, " HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_int_equal(lab_ask(&lab, 0, request), 200);
	assert_int_equal(strlen(double_seen(&lab.l7)->target), n - 4);
}

static void more_than_128_header_lines_are_refused(void **state)
{
	char request[8000] = "GET / HTTP/1.1\r\nHost: a\r\n";

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
	lab_start(&lab);
	for (int i = 1; i < 128; i++)
		(void)snprintf(request + strlen(request), sizeof(request) - strlen(request),
			       "X-%d: y\r\n", i);
	(void)snprintf(request + strlen(request), 3, "\r\n");
	assert_int_equal(lab_ask(&lab, 0, request), 200);
	(void)snprintf(request + strlen(request) - 2, 16, "X-Last: y\r\n\r\n");
	assert_int_equal(lab_ask(&lab, 0, request), 431);
}

static void a_request_whose_end_is_unclear_is_refused_and_closed(void **state)
{
	static const char *const lines[] = {
		"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
		"Content-Length: 3\r\nContent-Length: 3\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: gzip, chunked\r\n",
		"Content-Length: +3\r\n",
		"Content-Length: 3, 3\r\n",
		"Content-Length: \r\n",
		"Content-Length: 99999999999999999999\r\n",
	};
	char request[256];
	struct web w;

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
	lab_start(&lab);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		(void)snprintf(request, sizeof(request),
			       "POST / HTTP/1.1\r\nHost: a\r\n%s\r\nabc" CHECK, lines[i]);
		assert_in_set(lab_ask(&lab, 0, request), ((LargestIntegralType[]){400, 413}), 2);
		assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
		assert_int_equal(web_say(&w, "%s", request), 0);
		assert_int_equal(web_wait_end(&w, 3000), 0);
		web_close(&w);
	}
	assert_int_equal(lab.l7.asked, 0);
}

static void a_header_name_with_a_blank_is_refused(void **state)
{
	(void)state;
	lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
	lab_start(&lab);
	assert_int_equal(lab_ask(&lab, 0, "GET / HTTP/1.1\r\nHost: a\r\nX-A : b\r\n\r\n"), 400);
	assert_int_equal(lab.l7.asked, 0);
}

static void a_chunked_body_of_a_check_is_read_and_forgotten(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	start_direct();
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(web_ask(&w, &r,
					 "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
					 "Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
				 0);
		assert_int_equal(r.status, 200);
	}
	web_close(&w);
}

/* --- limits ---- */

static void over_the_limit_clients_are_closed_at_once(void **state)
{
	struct web held[4], w;
	struct web_reply r;

	(void)state;
	lab.conf.request.connections = 4;
	start_direct();
	for (int i = 0; i < 4; i++) {
		assert_int_equal(web_open(&held[i], lab_where(&lab, 0)), 0);
		assert_int_equal(web_ask(&held[i], &r, CHECK), 0);
	}
	assert_int_equal(lab_stats(&lab).connections, 4);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
		assert_int_equal(web_wait_end(&w, 5000), 0);
		web_close(&w);
	}
	assert_int_equal(lab_stats(&lab).closed_at_limit, 3);
	web_close(&held[0]);
	assert_true(wait_for(lab_stats(&lab).connections == 3, 5000));
	assert_int_equal(lab_ask(&lab, 0, CHECK_LAST), 200);
	for (int i = 1; i < 4; i++) {
		assert_int_equal(web_ask(&held[i], &r, CHECK), 0);
		web_close(&held[i]);
	}
}

static void strangers_take_no_more_than_half_of_the_connections(void **state)
{
	struct web stranger[5], proxy[2];
	struct web_reply r;

	(void)state;
	lab.conf.request.connections = 8;
	lab_listener(&lab, WEIR_PROFILE_ENVOY, "127.0.0.1");
	lab_start(&lab);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(web_open_from(&stranger[i], lab_where(&lab, 0), "127.0.0.2"), 0);
		if (i < 4)
			assert_int_equal(web_ask(&stranger[i], &r, CHECK), 0);
		else
			assert_int_equal(web_wait_end(&stranger[i], 5000), 0);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(web_open_from(&proxy[i], lab_where(&lab, 0), "127.0.0.1"), 0);
		assert_int_equal(web_ask(&proxy[i], &r, CHECK), 0);
		web_close(&proxy[i]);
	}
	for (int i = 0; i < 5; i++)
		web_close(&stranger[i]);
	assert_int_equal(lab_stats(&lab).closed_at_limit, 1);
}

static __u64 cpu_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (__u64)t.tv_sec * 1000000000ull + (__u64)t.tv_nsec;
}

/* One more descriptor, and no second one. */
static void leave_one_descriptor(const struct rlimit *before)
{
	struct rlimit low = *before;
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0); /* the lowest that is free */

	assert_true(fd >= 0);
	close(fd);
	low.rlim_cur = (rlim_t)fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
}

static void without_descriptors_clients_are_closed_and_nothing_spins(void **state)
{
	struct rlimit before;
	struct web_reply r;
	struct web w[3];
	__u64 cpu;

	(void)state;
	lab.conf.request.threads = 1; /* whose own spare descriptor is back when it has counted */
	start_direct();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(web_open(&w[0], lab_where(&lab, 0)), 0);
	assert_int_equal(web_ask(&w[0], &r, CHECK), 0);
	for (int i = 1; i < 3; i++) {
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		leave_one_descriptor(&before); /* the client's own end takes it */
		assert_int_equal(web_open(&w[i], lab_where(&lab, 0)), 0);
		if (web_wait_end(&w[i], 5000) < 0 ||
		    !wait_for(lab_stats(&lab).closed_at_limit == (__u64)i, 5000))
			break;
	}
	cpu = cpu_ns();
	if (web_ask(&w[0], &r, CHECK) == 0) /* those that are there go on */
		(void)web_wait(&w[0], 300, &r);
	cpu = cpu_ns() - cpu;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(lab_stats(&lab).closed_at_limit, 2);
	assert_int_equal(r.status, 200);
	assert_true(cpu < 200 * MS);
	for (int i = 0; i < 3; i++)
		web_close(&w[i]);
	assert_true(wait_for(lab_ask(&lab, 0, CHECK_LAST) == 200, 5000));
}

static void connections_are_spread_over_the_workers(void **state)
{
	struct web w[16];
	struct web_reply r;

	(void)state;
	lab.conf.request.threads = 4;
	start_direct();
	lab.l7.later = true;
	for (int i = 0; i < 16; i++) {
		assert_int_equal(web_open(&w[i], lab_where(&lab, 0)), 0);
		assert_int_equal(web_say(&w[i], CHECK), 0);
	}
	assert_true(wait_for(lab.l7.asked == 16, 5000));
	for (unsigned i = 0; i < 4; i++) {
		unsigned n = 0;

		for (struct weir_l7_call *c = lab.l7.workers[i]->later; c; c = c->next)
			n++;
		assert_in_range(n, 3, 5);
	}
	double_finish(&lab.l7);
	for (int i = 0; i < 16; i++) {
		assert_int_equal(web_wait(&w[i], 5000, &r), 0);
		web_close(&w[i]);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(a_connection_is_kept_for_many_requests),
		T(requests_in_one_piece_are_answered_in_order),
		T(a_head_request_is_answered_without_a_body),
		T(a_request_may_come_byte_by_byte),
		T(a_request_of_http_1_0_is_answered),
		T(the_target_arrives_as_it_was_sent),
		T(a_request_line_of_8_kb_and_headers_as_long_pass),
		T(larger_headers_are_told_so),
		T(headers_of_the_size_allowed_pass_and_a_byte_more_does_not),
		T(whatever_the_size_of_headers_there_is_a_status),
		T(a_query_of_thousands_of_parts_costs_nothing),
		T(more_than_128_header_lines_are_refused),
		T(a_request_whose_end_is_unclear_is_refused_and_closed),
		T(a_header_name_with_a_blank_is_refused),
		T(a_chunked_body_of_a_check_is_read_and_forgotten),
		T(over_the_limit_clients_are_closed_at_once),
		T(strangers_take_no_more_than_half_of_the_connections),
		T(without_descriptors_clients_are_closed_and_nothing_spins),
		T(connections_are_spread_over_the_workers),
	};

	/* one by name: t_http NAME */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
