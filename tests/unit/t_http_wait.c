/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Time on a connection: deadlines of requests, answers that are held, and questions that end later. */
#include <sys/socket.h>

#include "http_case.h"

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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
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
	};

	/* one by name: t_http_wait NAME */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
