/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Listeners and workers: connections, their limits and deadlines, answers that are held, start, change and stop. */
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "http_double.h"

#define CHECK	   "GET /check HTTP/1.1\r\nHost: a\r\n\r\n"
#define CHECK_LAST "GET /check HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
#define MS	   1000000ull

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

/* An own address that asks directly: the simplest client there is. */
static void start_direct(void)
{
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL);
	lab_start(&lab);
}

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

/* --- deadlines ---- */

/* Asks @first, where there is one, and then sends @text and @then, a byte or so at a time, until the other side ends the
 * connection; how long that took from @text on.
 */
static __u64 drip(size_t listener, const char *first, const char *text, const char *then)
{
	__u64 began, now;
	struct web_reply r;
	struct web w;
	int got = -EAGAIN;

	assert_int_equal(web_open(&w, lab_where(&lab, listener)), 0);
	if (first) {
		assert_int_equal(web_ask(&w, &r, "%s", first), 0);
		assert_int_equal(web_wait(&w, 100, &r), -ETIMEDOUT);
	}
	began = wait_now_ns();
	assert_int_equal(web_say(&w, "%s", text), 0);
	do {
		(void)web_say(&w, "%s", then); /* EPIPE at the end */
		got = web_wait(&w, 5, &r);
		now = wait_now_ns();
	} while ((got == -ETIMEDOUT || got == -EAGAIN) && now - began < 10000 * MS);
	web_close(&w);
	assert_true(got == -ENODATA || got == -ECONNRESET);
	return now - began;
}

#define DEADLINE (400 * MS)

/* On a TCP and a Unix socket. */
static void start_with_a_deadline(void)
{
	lab.conf.request.request_deadline_ns = DEADLINE;
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL);
	(void)lab_unix(&lab, WEIR_PROFILE_CADDY, "u.sock");
	lab_start(&lab);
}

static const struct {
	const char *text, *then;
} slow[] = {
	{"G", ""}, /* no request line yet */
	{"G", "E"},
	{"GET / HTTP/1.1\r\n", "X"},
	{"GET / HTTP/1.1\r\nHost: a\r\n", "X: y\r\n"},
	{"POST /check HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n", "z"},
	{"POST /check HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n", ""},
	{"POST /check HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"},
};

/* As exact as the words of the configuration: never early, and late only by what the machine is. */
static void cut_all_slow_ones(const char *first)
{
	unsigned n = 0;

	for (size_t k = 0; k < 2 * ARRAY_LEN(slow); k++) {
		__u64 took = 0;

		/* a busy machine makes some of them late: one undisturbed round shows it */
		for (int i = 0; i < 8 && (i == 0 || took > DEADLINE * 17 / 16); i++, n++) {
			took = drip(k % 2, first, slow[k / 2].text, slow[k / 2].then);
			assert_true(took >= DEADLINE);
		}
		assert_in_range(took, DEADLINE, DEADLINE * 17 / 16);
	}
	assert_int_equal(lab_stats(&lab).cut_by_deadline, n);
	assert_int_equal(lab_stats(&lab).left, 0);
}

static void a_request_that_drips_is_cut_at_its_deadline(void **state)
{
	(void)state;
	start_with_a_deadline();
	cut_all_slow_ones(NULL);
}

static void a_second_request_that_drips_is_cut_as_well(void **state)
{
	(void)state;
	start_with_a_deadline();
	cut_all_slow_ones(CHECK);
}

/* The first bytes come in one piece with the request before them. */
static void a_beginning_behind_another_request_is_cut_as_well(void **state)
{
	__u64 took = 0;

	(void)state;
	start_with_a_deadline();
	for (int i = 0; i < 8 && (i == 0 || took > DEADLINE * 5 / 4); i++) {
		struct web_reply r;
		struct web w;

		assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
		took = wait_now_ns();
		assert_int_equal(web_ask(&w, &r, CHECK "GE"), 0);
		assert_int_equal(web_wait_end(&w, 10000), 0);
		took = wait_now_ns() - took;
		web_close(&w);
		assert_true(took >= DEADLINE);
	}
	assert_in_range(took, DEADLINE, DEADLINE * 5 / 4);
}

/* Who leaves is no one whose request was too large. */
static void who_leaves_in_the_middle_of_a_request_is_counted_as_that(void **state)
{
	static const char *const texts[] = {
		"GET /check HTTP/1.1\r\n", "GET /check HTTP/1.1\r\nHost: a\r\nX",
		"POST /check HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"};
	struct web_reply r;
	struct web w;

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
	(void)lab_unix(&lab, WEIR_PROFILE_CADDY, "u.sock");
	lab_start(&lab);
	for (size_t i = 0; i < 4 * ARRAY_LEN(texts); i++) {
		struct linger reset = {.l_onoff = 1};

		assert_int_equal(web_open(&w, lab_where(&lab, i % 2)), 0);
		assert_int_equal(web_say(&w, "%s", texts[i / 4]), 0);
		assert_int_equal(web_wait(&w, 20, &r), -ETIMEDOUT); /* what it has sent is read */
		if (i / 2 % 2) /* a reset, where there is such a thing */
			(void)setsockopt(w.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		web_close(&w);
		assert_true(wait_for(lab_stats(&lab).connections == 0, 5000));
	}
	assert_int_equal(lab_stats(&lab).too_large, 0);
	assert_int_equal(lab_stats(&lab).left, 4 * ARRAY_LEN(texts));
	/* whole requests, or none, are no such thing */
	assert_int_equal(lab_ask(&lab, 0, CHECK_LAST), 200);
	assert_int_equal(web_open(&w, lab_where(&lab, 1)), 0);
	web_close(&w);
	assert_true(wait_for(lab_stats(&lab).connections == 0, 5000));
	assert_int_equal(lab_stats(&lab).left, 4 * ARRAY_LEN(texts));
}

static void an_idle_connection_is_not_cut_at_the_deadline(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	lab.conf.request.request_deadline_ns = 100 * MS;
	start_direct();
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(web_ask(&w, &r,
					 "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: "
					 "3\r\n\r\nabc"),
				 0);
		assert_int_equal(r.status, 200);
		assert_int_equal(web_wait(&w, 400, &r), -ETIMEDOUT);
	}
	/* how much of a chunked body was not its content is not known */
	assert_int_equal(web_ask(&w, &r,
				 "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
				 "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
			 0);
	assert_int_equal(web_wait(&w, 400, &r), -ETIMEDOUT);
	assert_int_equal(web_ask(&w, &r, CHECK), 0);
	assert_int_equal(r.status, 200);
	assert_int_equal(lab_stats(&lab).cut_by_deadline, 0);
	web_close(&w);
}

static void a_held_answer_is_not_cut_at_the_deadline(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	lab.conf.request.request_deadline_ns = 50 * MS;
	lab.l7.wait_us = 400000;
	start_direct();
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	assert_int_equal(web_ask(&w, &r, CHECK), 0);
	assert_int_equal(r.status, 200);
	web_close(&w);
}

/* --- held and late answers ---- */

/* How long it takes until all @n held answers, one every @every_us, are there. */
static __u64 take_held(unsigned n, __u64 every_us)
{
	static struct web w[256];
	static bool got[256];
	__u64 began, now = 0;
	struct web_reply r;
	unsigned done = 0;

	lab.l7.next_wait_us = 0;
	for (unsigned i = 0; i < n; i++) {
		got[i] = false;
		assert_int_equal(web_open(&w[i], lab_where(&lab, 0)), 0);
	}
	began = wait_now_ns();
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(web_say(&w[i], CHECK), 0);
	while (done < n && wait_now_ns() - began < 10000 * MS) {
		for (unsigned i = 0; i < n; i++) {
			if (got[i] || web_take(&w[i], &r) != 0)
				continue;
			now = wait_now_ns();
			got[i] = true;
			done++;
			assert_int_equal(r.status, 200);
			assert_true(now - began >= done * every_us * 1000); /* never early */
		}
	}
	assert_int_equal(done, n);
	for (unsigned i = 0; i < n; i++)
		web_close(&w[i]);
	return now - began;
}

static void held_answers_leave_at_their_rate_and_never_early(void **state)
{
	__u64 took = 0;

	(void)state;
	lab.conf.request.threads = 1;
	start_direct();
	lab.l7.wait_us = 2000;
	lab.l7.wait_more_us = 2000;
	/* a busy machine makes some of them late: one undisturbed round shows the rate */
	for (int i = 0; i < 25 && (i == 0 || took > 408 * MS); i++)
		took = take_held(200, 2000);
	assert_in_range(took, 400 * MS, 408 * MS);
	assert_int_equal(lab_stats(&lab).held, 0);
}

static void others_are_answered_while_one_is_held(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	lab.conf.request.threads = 1;
	start_direct();
	lab.l7.wait_us = 300000;
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	assert_int_equal(web_say(&w, CHECK), 0);
	assert_true(wait_for(lab_stats(&lab).held == 1, 5000));
	lab.l7.wait_us = 0;
	for (int i = 0; i < 20; i++)
		assert_int_equal(lab_ask(&lab, 0, CHECK_LAST), 200);
	assert_int_equal(lab_stats(&lab).held, 1);
	assert_int_equal(web_wait(&w, 5000, &r), 0);
	assert_int_equal(r.status, 200);
	web_close(&w);
}

static void a_client_that_leaves_while_it_is_held_gives_its_place_back(void **state)
{
	struct web w;

	(void)state;
	start_direct();
	lab.l7.wait_us = 60000000;
	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
		assert_int_equal(web_say(&w, CHECK), 0);
		assert_true(wait_for(lab_stats(&lab).held == 1, 5000));
		web_close(&w);
		assert_true(wait_for(lab.l7.left == i, 5000));
		assert_true(wait_for(lab_stats(&lab).connections == 0, 5000));
		assert_int_equal(lab_stats(&lab).held, 0);
	}
	assert_int_equal(lab.l7.freed, 0);
}

/* Few clients that wait in many queues must not take the connections of all others. */
static void half_of_the_connections_never_wait(void **state)
{
	struct web w[5];
	struct web_reply r;

	(void)state;
	lab.conf.request.threads = 1;
	lab.conf.request.connections = 8;
	start_direct();
	lab.l7.wait_us = 60000000;
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(web_open(&w[i], lab_where(&lab, 0)), 0);
		assert_int_equal(web_say(&w[i], CHECK), 0);
		assert_true(wait_for(lab_stats(&lab).held == i + 1, 5000));
		assert_true(double_seen(&lab.l7)->may_wait);
	}
	lab.l7.wait_us = 0;
	assert_int_equal(web_open(&w[4], lab_where(&lab, 0)), 0);
	assert_int_equal(web_ask(&w[4], &r, CHECK), 0);
	assert_false(double_seen(&lab.l7)->may_wait);
	web_close(&w[0]);
	assert_true(wait_for(lab_stats(&lab).held == 3, 5000));
	assert_int_equal(web_ask(&w[4], &r, CHECK), 0);
	assert_true(double_seen(&lab.l7)->may_wait);
	for (int i = 1; i < 5; i++)
		web_close(&w[i]);
}

static void stopping_answers_what_is_held(void **state)
{
	struct web w[20];
	struct web_reply r;
	__u64 began;

	(void)state;
	start_direct();
	lab_unix(&lab, WEIR_PROFILE_CADDY, "x"); /* not opened: only for its memory */
	lab.l7.wait_us = 60000000;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(web_open(&w[i], lab_where(&lab, 0)), 0);
		assert_int_equal(web_say(&w[i], CHECK), 0);
	}
	assert_true(wait_for(lab_stats(&lab).held == 20, 5000));
	began = wait_now_ns();
	weir_http_free(lab.http);
	lab.http = NULL;
	assert_true(wait_now_ns() - began < 900 * MS);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(web_wait(&w[i], 5000, &r), 0);
		assert_int_equal(r.status, 403);
		assert_string_equal(web_header(&r, "X-Weir-Status"), "503");
		assert_true(r.closes);
		web_close(&w[i]);
	}
	assert_int_equal(lab.l7.aborted, 20);
	assert_int_equal(lab.l7.freed, 20);
}

static void stopping_takes_a_second_at_most(void **state)
{
	struct web w[3];
	struct web_reply r;
	__u64 began;

	(void)state;
	start_direct();
	for (int i = 0; i < 3; i++)
		assert_int_equal(web_open(&w[i], lab_where(&lab, 0)), 0);
	assert_int_equal(web_ask(&w[0], &r, CHECK), 0); /* idle */
	assert_int_equal(web_say(&w[1], "GET / HT"), 0);
	assert_int_equal(web_say(&w[2], "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"),
			 0);
	assert_true(wait_for(lab_stats(&lab).connections == 3, 5000));
	began = wait_now_ns();
	weir_http_free(lab.http);
	lab.http = NULL;
	assert_true(wait_now_ns() - began < 1500 * MS);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(web_wait_end(&w[i], 5000), 0);
		web_close(&w[i]);
	}
}

static void a_question_that_ends_later_is_answered_then(void **state)
{
	struct web w[8];
	struct web_reply r;

	(void)state;
	start_direct();
	lab.l7.later = true;
	for (int round = 0; round < 3; round++) {
		lab.l7.asked = 0;
		for (int i = 0; i < 8; i++) {
			if (round == 0)
				assert_int_equal(web_open(&w[i], lab_where(&lab, 0)), 0);
			assert_int_equal(web_say(&w[i], CHECK), 0);
		}
		assert_true(wait_for(lab.l7.asked == 8, 5000));
		assert_int_equal(web_take(&w[0], &r), -EAGAIN);
		double_finish(&lab.l7);
		for (int i = 0; i < 8; i++) {
			assert_int_equal(web_wait(&w[i], 5000, &r), 0);
			assert_int_equal(r.status, 200);
		}
	}
	for (int i = 0; i < 8; i++)
		web_close(&w[i]);
	assert_int_equal(lab.l7.freed, 24);
}

static void a_late_answer_may_be_held_as_well(void **state)
{
	struct web_reply r;
	struct web w;

	(void)state;
	start_direct();
	lab.l7.later = true;
	lab.l7.wait_us = 50000;
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	assert_int_equal(web_say(&w, CHECK), 0);
	assert_true(wait_for(lab.l7.asked == 1, 5000));
	double_finish(&lab.l7);
	assert_int_equal(web_wait(&w, 5000, &r), 0);
	assert_int_equal(r.status, 200);
	web_close(&w);
}

static void a_client_that_leaves_before_its_question_ends_is_forgotten_then(void **state)
{
	struct web w;

	(void)state;
	start_direct();
	lab.l7.later = true;
	lab.l7.wait_us = 1000;
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	assert_int_equal(web_say(&w, CHECK), 0);
	assert_true(wait_for(lab.l7.asked == 1, 5000));
	web_close(&w);
	/* other requests on the same worker show that its loop has turned */
	lab.l7.later = false;
	lab.l7.wait_us = 0;
	for (int i = 0; i < 8; i++)
		assert_int_equal(lab_ask(&lab, 0, CHECK_LAST), 200);
	double_finish(&lab.l7);
	assert_true(wait_for(lab_stats(&lab).connections == 0, 5000));
	assert_int_equal(lab.l7.left + lab.l7.freed, 9);
}

static void stopping_waits_for_questions_that_end_later(void **state)
{
	struct web_reply r;
	pthread_t thread;
	struct web w;

	(void)state;
	start_direct();
	lab.l7.later = true;
	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	assert_int_equal(web_say(&w, CHECK), 0);
	assert_true(wait_for(lab.l7.asked == 1, 5000));
	assert_int_equal(pthread_create(&thread, NULL, (void *(*)(void *))(uintptr_t)weir_http_free,
					lab.http),
			 0);
	double_finish(&lab.l7);
	assert_int_equal(pthread_join(thread, NULL), 0);
	lab.http = NULL;
	assert_int_equal(web_wait(&w, 5000, &r), 0);
	web_close(&w);
}

/* --- sockets and changes ---- */

static void a_listener_in_use_is_told_and_nothing_stays_open(void **state)
{
	struct weir_error e = {.text = ""};
	struct weir_http *second = NULL;
	struct weir_conf_listener *c;
	struct stat st;
	unsigned port;

	(void)state;
	start_direct();
	assert_int_equal(sscanf(lab_where(&lab, 0), "127.0.0.1:%u", &port), 1);
	lab.conf.request.n_listener = 0;
	free(lab.listener[0].listen);
	c = lab_unix(&lab, WEIR_PROFILE_CADDY, "new.sock");
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL)->port = (__u16)port;
	assert_true(weir_http_open(&lab.conf, &lab.l7, &second, &e) < 0);
	assert_non_null(strstr(e.text, "in use by another program"));
	assert_int_equal(stat(c->unix_path, &st), -1);
}

static void a_stale_unix_socket_is_replaced_and_a_live_one_is_not(void **state)
{
	struct weir_error e = {.text = ""};
	struct weir_http *second = NULL;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct weir_conf_listener *c = lab_unix(&lab, WEIR_PROFILE_CADDY, "a.sock");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	(void)state;
	c->unix_mode = 0620;
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", c->unix_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	close(fd);
	lab_start(&lab);
	assert_int_equal(stat(c->unix_path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0620);
	assert_true(weir_http_open(&lab.conf, &lab.l7, &second, &e) < 0);
	assert_non_null(strstr(e.text, "another program answers"));
	assert_int_equal(lab_ask(&lab, 0,
				 "GET /check HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\n"
				 "X-Forwarded-Uri: /\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"),
			 200);
}

static void a_file_that_is_no_socket_is_left_alone(void **state)
{
	struct weir_error e = {.text = ""};
	struct weir_conf_listener *c = lab_unix(&lab, WEIR_PROFILE_CADDY, "file");
	int fd = open(c->unix_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)state;
	close(fd);
	assert_true(weir_http_open(&lab.conf, &lab.l7, &lab.http, &e) < 0);
	assert_non_null(strstr(e.text, "is no socket"));
	assert_int_equal(unlink(c->unix_path), 0);
}

/* Some group of ours that is not the one that new files have; without such a one there is nothing to see. */
static const struct group *another_group(void)
{
	gid_t mine[64];
	int n = getgroups(64, mine);

	if (geteuid() == 0)
		return getgrgid(1);
	for (int i = 0; i < n; i++)
		if (mine[i] != getegid() && getgrgid(mine[i]))
			return getgrgid(mine[i]);
	return NULL;
}

static void a_unix_socket_belongs_to_its_group(void **state)
{
	const struct group *g = another_group();
	struct weir_conf_listener *c = lab_unix(&lab, WEIR_PROFILE_CADDY, "a.sock");
	char name[64];
	struct stat st;

	(void)state;
	if (!g) {
		print_message("this user has one group only\n");
		skip();
	}
	(void)snprintf(name, sizeof(name), "%s", g->gr_name);
	c->group = name;
	c->unix_mode = 0660;
	lab_start(&lab);
	assert_int_equal(stat(c->unix_path, &st), 0);
	assert_int_equal(st.st_gid, g->gr_gid);
	assert_int_equal(st.st_mode & 0777, 0660);
}

static void a_group_that_does_not_exist_is_told(void **state)
{
	struct weir_error e = {.text = ""};
	struct weir_conf_listener *c = lab_unix(&lab, WEIR_PROFILE_CADDY, "a.sock");
	char group[] = "no-such-group-here";

	(void)state;
	c->group = group;
	assert_true(weir_http_open(&lab.conf, &lab.l7, &lab.http, &e) < 0);
	assert_non_null(strstr(e.text, "no-such-group-here"));
}

static void a_change_keeps_connections_of_the_same_listener(void **state)
{
	struct weir_error e;
	struct web_reply r;
	struct web w;
	char where[128];

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL);
	lab_unix(&lab, WEIR_PROFILE_CADDY, "b.sock");
	lab_start(&lab);
	lab.l7.refuse = true;
	(void)snprintf(where, sizeof(where), "%s", lab_where(&lab, 0));
	assert_int_equal(web_open(&w, where), 0);
	assert_int_equal(web_ask(&w, &r, CHECK), 0);
	assert_int_equal(r.status, 403);
	/* another profile, and the second listener goes */
	lab.listener[0].profile = WEIR_PROFILE_CADDY;
	lab.conf.request.n_listener = 1;
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	assert_string_equal(lab_where(&lab, 0), where);
	assert_int_equal(web_ask(&w, &r, CHECK), 0);
	assert_int_equal(r.status, 429);
	web_close(&w);
	assert_int_equal(access(lab.listener[1].unix_path, F_OK), -1);
	lab.conf.request.n_listener = 2; /* for their memory */
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	assert_int_equal(lab_ask(&lab, 1,
				 "GET /check HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\n"
				 "X-Forwarded-Uri: /\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"),
			 429);
}

static void a_change_that_fails_changes_nothing(void **state)
{
	struct weir_error e = {.text = ""};
	char where[128];
	unsigned port;

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL);
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL);
	lab_start(&lab);
	(void)snprintf(where, sizeof(where), "%s", lab_where(&lab, 1));
	assert_int_equal(sscanf(where, "127.0.0.1:%u", &port), 1);
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL)->port = (__u16)port; /* the second one's */
	lab.listener[0].profile = WEIR_PROFILE_CADDY;
	lab.l7.refuse = true;
	assert_true(weir_http_configure(lab.http, &lab.conf, &e) < 0);
	assert_non_null(strstr(e.text, "in use"));
	assert_string_equal(lab_where(&lab, 1), where);
	assert_int_equal(lab_ask(&lab, 0, CHECK_LAST), 403);
	assert_int_equal(lab_ask(&lab, 1, CHECK_LAST), 403);
}

static void a_listener_that_goes_ends_its_connections(void **state)
{
	struct web idle, held;
	struct web_reply r;
	struct weir_error e;

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
	lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
	lab_start(&lab);
	assert_int_equal(web_open(&idle, lab_where(&lab, 1)), 0);
	assert_int_equal(web_open(&held, lab_where(&lab, 1)), 0);
	assert_int_equal(web_ask(&idle, &r, CHECK), 0);
	lab.l7.wait_us = 60000000;
	assert_int_equal(web_say(&held, CHECK), 0);
	assert_true(wait_for(lab_stats(&lab).held == 1, 5000));
	lab.conf.request.n_listener = 1;
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	lab.conf.request.n_listener = 2;
	assert_int_equal(web_wait(&held, 5000, &r), 0);
	assert_int_equal(r.status, 503);
	assert_int_equal(web_wait_end(&held, 5000), 0);
	assert_int_equal(web_wait_end(&idle, 5000), 0);
	assert_true(wait_for(lab_stats(&lab).connections == 0, 5000));
	web_close(&idle);
	web_close(&held);
}

static void changes_under_load_lose_no_request(void **state)
{
	struct weir_error e;
	struct web w[8];
	struct web_reply r;

	(void)state;
	start_direct();
	for (int i = 0; i < 8; i++)
		assert_int_equal(web_open(&w[i], lab_where(&lab, 0)), 0);
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 8; i++)
			assert_int_equal(web_say(&w[i], CHECK), 0);
		assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
		for (int i = 0; i < 8; i++) {
			assert_int_equal(web_wait(&w[i], 5000, &r), 0);
			assert_int_equal(r.status, 200);
		}
	}
	for (int i = 0; i < 8; i++)
		web_close(&w[i]);
}

static void the_same_socket_may_become_another_kind_of_listener(void **state)
{
	struct weir_error e;
	struct web_reply r;
	struct web w;
	char where[128];

	(void)state;
	start_direct();
	(void)snprintf(where, sizeof(where), "%s", lab_where(&lab, 0));
	assert_int_equal(web_open(&w, where), 0);
	assert_int_equal(web_ask(&w, &r, CHECK), 0);
	lab.listener[0].profile = WEIR_PROFILE_SPOE;
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	assert_int_equal(web_wait_end(&w, 5000), 0);
	web_close(&w);
	assert_string_equal(lab_where(&lab, 0), where);
	lab.listener[0].profile = WEIR_PROFILE_NGINX;
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	assert_int_equal(lab_ask(&lab, 0, CHECK_LAST), 200);
}

/* --- pages ---- */

static char *page(void *arg, const char *path, unsigned *ret_status, size_t *ret_n)
{
	char *text = NULL;

	(void)arg;
	if (strcmp(path, "/readyz") == 0)
		return NULL;
	*ret_status = 200;
	*ret_n = (size_t)asprintf(&text, "this is %s\n", path);
	return text;
}

struct asker {
	const char *where, *request;
	struct web w;
	struct web_reply r;
	int got;
	struct event_base *base;
};

static void *ask_page(void *arg)
{
	struct asker *a = arg;

	a->got = web_open(&a->w, a->where);
	if (a->got == 0)
		a->got = web_ask(&a->w, &a->r, "%s", a->request);
	return NULL;
}

static void pages_are_served_in_the_agents_own_loop(void **state)
{
	static const struct {
		const char *request, *body;
		int status;
	} cases[] = {
		{"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "this is /metrics\n", 200},
		{"GET /healthz?x HTTP/1.1\r\nHost: a\r\n\r\n", "this is /healthz\n", 200},
		{"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", NULL, 503},
		{"GET /other HTTP/1.1\r\nHost: a\r\n\r\n", NULL, 404},
		{"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", NULL, 405},
	};
	struct event_base *base = event_base_new();
	struct weir_error e;

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_METRICS, NULL);
	lab_start(&lab);
	assert_int_equal(weir_http_serve_pages(lab.http, base, page, NULL, &e), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct asker a = {.where = lab_where(&lab, 0), .request = cases[i].request};
		pthread_t thread;

		a.got = 1;
		assert_int_equal(pthread_create(&thread, NULL, ask_page, &a), 0);
		while (pthread_tryjoin_np(thread, NULL) == EBUSY)
			assert_true(event_base_loop(base, EVLOOP_NONBLOCK) >= 0);
		assert_int_equal(a.got, 0);
		assert_int_equal(a.r.status, cases[i].status);
		if (cases[i].body)
			assert_string_equal(a.r.body, cases[i].body);
		web_close(&a.w);
	}
	assert_int_equal(lab_stats(&lab).connections, 0); /* they are no part of the limit */
	weir_http_free(lab.http);
	lab.http = NULL;
	event_base_free(base);
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)

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
		T(a_request_that_drips_is_cut_at_its_deadline),
		T(a_second_request_that_drips_is_cut_as_well),
		T(a_beginning_behind_another_request_is_cut_as_well),
		T(who_leaves_in_the_middle_of_a_request_is_counted_as_that),
		T(an_idle_connection_is_not_cut_at_the_deadline),
		T(a_held_answer_is_not_cut_at_the_deadline),
		T(held_answers_leave_at_their_rate_and_never_early),
		T(others_are_answered_while_one_is_held),
		T(a_client_that_leaves_while_it_is_held_gives_its_place_back),
		T(half_of_the_connections_never_wait),
		T(stopping_answers_what_is_held),
		T(stopping_takes_a_second_at_most),
		T(a_question_that_ends_later_is_answered_then),
		T(a_late_answer_may_be_held_as_well),
		T(a_client_that_leaves_before_its_question_ends_is_forgotten_then),
		T(stopping_waits_for_questions_that_end_later),
		T(a_listener_in_use_is_told_and_nothing_stays_open),
		T(a_stale_unix_socket_is_replaced_and_a_live_one_is_not),
		T(a_file_that_is_no_socket_is_left_alone),
		T(a_unix_socket_belongs_to_its_group),
		T(a_group_that_does_not_exist_is_told),
		T(a_change_keeps_connections_of_the_same_listener),
		T(a_change_that_fails_changes_nothing),
		T(a_listener_that_goes_ends_its_connections),
		T(changes_under_load_lose_no_request),
		T(the_same_socket_may_become_another_kind_of_listener),
		T(pages_are_served_in_the_agents_own_loop),
	};

	/* one by name: t_http NAME */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
