/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/http/spoe.c: who may connect, how much a connection may hold and how long it may take, and how it ends. */
#include "spoe_case.h"
#include "tests/lib/prefix.h"

static int accept_from(const char *peer)
{
	struct weir_prefix p = prefix_of(peer);
	int fds[2], r;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	r = weir_spoe_accept(&lab.port, fds[0], &p);
	if (r < 0)
		(void)close(fds[0]);
	(void)close(fds[1]);
	return r;
}

static void only_this_host_may_connect_where_nobody_is_named(void **state)
{
	(void)state; /* set_up's */
	assert_int_equal(accept_from("127.0.0.1"), 0);
	assert_int_equal(accept_from("127.9.9.9"), 0);
	assert_int_equal(accept_from("::1"), 0);
	assert_int_equal(accept_from("192.0.2.1"), -EACCES);
	assert_int_equal(accept_from("2001:db8::1"), -EACCES);
	assert_int_equal(world.noted, 2);
}

static void only_the_named_may_connect(void **state)
{
	(void)state; /* set_up's */
	lab.port_settings.n_trusted = 1;
	assert_int_equal(accept_from("127.0.0.1"), -EACCES);
	world.trusts = true;
	assert_int_equal(accept_from("192.0.2.1"), 0);
}

/* --- bounds ---- */

static void a_thousand_streams_at_once_are_all_answered(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	for (__u64 i = 0; i < 1000; i++) {
		notify_frame(&f, i, "host: a\r\n\r\n");
		end_frame(&f);
		while (send(lab.fd, f.b, f.n, MSG_NOSIGNAL) < 0) {
			assert_int_equal(errno, EAGAIN);
			assert_true(turn(true));
		}
	}
	assert_true(until(acks() == 1000));
	assert_int_equal(world.n_asked, 1000);
	assert_int_equal(lab.worker.counters.spop_errors, 0);
}

/* Takes whole frames away, returns how many. */
static unsigned drain(void)
{
	const unsigned char *p = lab.in, *end = lab.in + lab.n;
	unsigned frames = 0;

	while (end - p >= 4) {
		size_t n = 4 + ((size_t)p[2] << 8 | p[3]);

		if ((size_t)(end - p) < n)
			break;
		p += n;
		frames++;
	}
	lab.n = (size_t)(end - p);
	memmove(lab.in, p, lab.n);
	return frames;
}

/* Writes as long as the agent reads, and reads nothing; returns how many NOTIFYs that were. */
static unsigned flood(void)
{
	unsigned sent = 0, idle = 0;
	struct frame f;

	notify_frame(&f, 1, NULL);
	end_frame(&f);
	while (idle < 100) {
		ssize_t n = send(lab.fd, f.b, f.n, MSG_NOSIGNAL);

		if (n > 0)
			assert_int_equal(n, f.n);
		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0;
		assert_true(turn(false));
	}
	return sent;
}

static void a_peer_that_does_not_read_is_not_read_from(void **state)
{
	unsigned sent, seen = 0;

	(void)state; /* set_up's */
	hello();
	sent = flood();
	assert_true(sent > world.n_asked);
	assert_true(until((seen += drain()) == sent));
	assert_int_equal(world.n_asked, sent);
	assert_int_equal(lab.worker.counters.spop_errors, 0);
}

static void questions_under_way_are_bounded(void **state)
{
	unsigned sent, seen = 0, held;

	(void)state; /* set_up's */
	world.later = true;
	hello();
	sent = flood();
	held = world.n_call;
	assert_in_range(held, 100, 1024);
	assert_true(sent > held);
	world.later = false;
	for (unsigned i = 0; i < held; i++)
		answer(i);
	assert_true(until((seen += drain()) == sent));
	assert_int_equal(lab.worker.counters.spop_errors, 0);
}

/* --- deadlines ---- */

static void set_deadline_ms(unsigned ms)
{
	lab.settings.request_deadline_ns = ms * 1000000ull;
	weir_spoe_cut(&lab.port);
	(void)close(lab.fd);
	world.gone = 0;
	connect_peer();
}

static void a_peer_that_never_says_hello_is_cut(void **state)
{
	(void)state; /* set_up's */
	set_deadline_ms(50);
	assert_true(until(lab.ended));
	assert_int_equal(world.gone, 1);
	assert_int_equal(lab.worker.counters.cut_by_deadline, 1);
}

static void a_frame_that_never_ends_is_cut(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	set_deadline_ms(50);
	hello();
	notify_frame(&f, 1, NULL);
	end_frame(&f);
	say(f.b, f.n - 1);
	assert_true(until(lab.ended));
	assert_int_equal(world.n_asked, 0);
	assert_int_equal(lab.worker.counters.cut_by_deadline, 1);
}

static void a_peer_that_never_reads_is_cut(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	set_deadline_ms(200);
	hello();
	notify_frame(&f, 1, NULL);
	end_frame(&f);
	assert_true(until_unread(send(lab.fd, f.b, f.n, MSG_NOSIGNAL) != 0 && world.gone == 1));
	assert_int_equal(lab.worker.counters.cut_by_deadline, 1);
}

static void an_idle_connection_stays(void **state)
{
	uint64_t end_ns;

	(void)state; /* set_up's */
	set_deadline_ms(20);
	hello();
	end_ns = wait_now_ns() + 100000000;
	while (wait_step(end_ns))
		assert_true(turn(true) && !lab.ended);
	notify(1);
	assert_true(until(acks() == 1));
}

/* --- ends ---- */

static void a_healthcheck_is_answered_and_let_go(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello_frame(&f, 16380, true);
	say_frame(&f);
	assert_true(until(lab.ended));
	assert_int_equal(lab.in[4], 101);
	(void)close(lab.fd);
	lab.fd = -1;
	assert_true(until(world.gone == 1));
	assert_int_equal(lab.worker.counters.spop_errors, 0);
}

static void a_broken_frame_is_counted_and_told(void **state)
{
	(void)state; /* set_up's */
	hello();
	say("\0\0\0\x09\x03\0\0\0\1\1\1\xff\xff", 13);
	assert_true(until(lab.ended));
	listen_to();
	assert_string_equal(heard.text,
			    "102 0/0: status-code=4 message='invalid frame received'\n");
	assert_int_equal(lab.worker.counters.spop_errors, 1);
	assert_string_equal(world.note, "invalid frame received");
}

static void a_stop_answers_what_has_arrived_and_says_goodbye(void **state)
{
	(void)state; /* set_up's */
	hello();
	notify(1);
	notify(2);
	weir_spoe_end(&lab.port);
	assert_true(until(lab.ended));
	listen_to();
	assert_int_equal(heard.acks, 2);
	assert_non_null(strstr(heard.text, "\n102 0/0: status-code=0"));
	(void)close(lab.fd);
	lab.fd = -1;
	assert_true(until(world.gone == 1));
}

static void a_stop_waits_for_what_is_under_way(void **state)
{
	(void)state; /* set_up's */
	world.later = true;
	hello();
	notify(1);
	assert_true(until(world.n_call == 1));
	weir_spoe_end(&lab.port);
	assert_true(turn(true) && !lab.ended);
	answer(0);
	assert_true(until(lab.ended));
	assert_int_equal(acks(), 1);
}

static void an_answer_after_the_end_hurts_nobody(void **state)
{
	(void)state; /* set_up's */
	world.later = true;
	hello();
	notify(1);
	notify(2);
	assert_true(until(world.n_call == 2));
	weir_spoe_cut(&lab.port);
	assert_int_equal(world.gone, 1);
	answer(1);
	answer(0);
	assert_int_equal(world.alive, 0);
}

static void a_peer_that_leaves_is_forgotten(void **state)
{
	(void)state; /* set_up's */
	world.later = true;
	hello();
	notify(1);
	assert_true(until(world.n_call == 1));
	(void)close(lab.fd);
	lab.fd = -1;
	assert_true(until(world.gone == 1));
	answer(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_this_host_may_connect_where_nobody_is_named),
		TEST(only_the_named_may_connect),
		TEST(a_thousand_streams_at_once_are_all_answered),
		TEST(a_peer_that_does_not_read_is_not_read_from),
		TEST(questions_under_way_are_bounded),
		TEST(a_peer_that_never_says_hello_is_cut),
		TEST(a_frame_that_never_ends_is_cut),
		TEST(a_peer_that_never_reads_is_cut),
		TEST(an_idle_connection_stays),
		TEST(a_healthcheck_is_answered_and_let_go),
		TEST(a_broken_frame_is_counted_and_told),
		TEST(a_stop_answers_what_has_arrived_and_says_goodbye),
		TEST(a_stop_waits_for_what_is_under_way),
		TEST(an_answer_after_the_end_hurts_nobody),
		TEST(a_peer_that_leaves_is_forgotten),
	};

	return cmocka_run_group_tests_name("spoe_life", tests, NULL, NULL);
}
