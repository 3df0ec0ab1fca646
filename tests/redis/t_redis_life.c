/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a store holds while its server is of no use, and that all of it goes with it: descriptors and threads over a thousand
 * connections, memory under a flood, an endless reply, an end in the middle of everything.
 */
#include <dirent.h>
#include <malloc.h>
#include <signal.h>

#include "redis/fake.h"

#define STORES 20
#define FLOOD  200 /* decisions a turn */

static unsigned count_of(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static size_t memory(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* --- connections ----------------------------------------------------------------------------------------------------- */

/* Greeted, and then shown the door. */
static const char *greets(struct fake *f, const struct redisReply *command)
{
	(void)f;
	return fake_is(command, "SCRIPT")    ? "$40\r\n0123456789012345678901234567890123456789\r\n"
	       : fake_is(command, "EVALSHA") ? "nonsense that ends it\r\n"
					     : "+OK\r\n";
}

static __u64 reconnects(struct weir_store *const *s)
{
	struct weir_far_stats far;
	__u64 n = 0;

	for (size_t i = 0; i < STORES; i++) {
		weir_store_far_stats(s[i], &far);
		n += far.reconnects;
	}
	return n;
}

/* By name, so that each has a look-up too. */
static void a_thousand_connections_leave_nothing_behind(void **state)
{
	struct fake fake = {.says = greets};
	struct weir_store *s[STORES];
	struct fix *f = *state;
	unsigned fds, threads;
	char url[64];
	__u64 from;

	fake_start(&fake, f->base);
	(void)snprintf(url, sizeof(url), "redis://localhost:%u", fake.port);
	f->o.probe_ns = 20 * MS;
	f->o.quiet = true;
	for (size_t i = 0; i < STORES; i++) {
		fix_store_at(f, url);
		s[i] = f->s;
		f->s = NULL;
	}
	assert_true(fix_wait(f, reconnects(s) > 5 * STORES, 20000));
	fds = count_of("/proc/self/fd");
	threads = count_of("/proc/self/task");
	from = reconnects(s);
	assert_true(fix_wait(f, reconnects(s) > from + 1000, 60000));
	/* as many as may be on their way at one moment: a socket here and there, an eventfd */
	assert_in_range(count_of("/proc/self/fd"), 0, fds + 3 * STORES);
	assert_in_range(count_of("/proc/self/task"), 0, threads + STORES);
	for (size_t i = 0; i < STORES; i++)
		weir_store_free(s[i]);
	fake_stop(&fake);
	print_message("%llu connections; descriptors %u, then %u\n",
		      (unsigned long long)(from + 1000), fds, count_of("/proc/self/fd"));
	assert_true(
		wait_for(count_of("/proc/self/fd") <= fds, 5000)); /* look-ups end by themselves */
}

/* --- memory ---------------------------------------------------------------------------------------------------------- */

struct flood {
	struct fix *f;
	struct weir_store_limit limit;
	struct ask *spare; /* by owner */
	unsigned long long asked, answered;
};

static void flood_done(struct weir_store_request *q, int r, void *data)
{
	struct ask *a = data;
	struct flood *l = a->owner;

	(void)q;
	(void)r;
	l->answered++;
	free(a);
}

static void flood_some(struct flood *l)
{
	for (unsigned i = 0; i < FLOOD; i++) {
		struct ask *a = calloc(1, sizeof(*a));

		assert_non_null(a);
		a->owner = l;
		a->y[0] = request_layer(&l->limit, ++l->asked, 1);
		a->q = (struct weir_store_request){.layer = a->y, .n = 1, .now_us = EPOCH};
		l->f->s->ops->decide(l->f->s, &a->q, flood_done, a);
	}
}

/* The breaker is kept from helping. */
static void a_stopped_server_under_a_flood_takes_no_more_than_may_wait(void **state)
{
	struct flood l = {.f = *state};
	struct fix *f = *state;
	size_t most = 0, begin, early = 0;
	uint64_t end_ns, began_ns;

	l.limit = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	f->o.waiting_max = 2000;
	f->o.timeout_ns = 100 * MS;
	f->o.breaker_errors = 1000;
	f->o.breaker_within_ns = 1; /* never so many in it */
	f->o.probe_ns = 60000 * MS;
	f->o.quiet = true;
	assert_int_equal(redis_start(&f->r, NULL), 0);
	fix_store(f);
	fix_turn(f, 100);
	assert_int_equal(kill(f->r.pid, SIGSTOP), 0);
	begin = memory();
	began_ns = wait_now_ns();
	for (end_ns = began_ns + 3000 * MS; wait_now_ns() < end_ns;) {
		flood_some(&l);
		(void)event_base_loop(f->base, EVLOOP_NONBLOCK);
		assert_in_range(l.asked - l.answered, 0, f->o.waiting_max);
		most = memory() > most ? memory() : most;
		if (wait_now_ns() < began_ns + 1000 * MS)
			early = most;
	}
	print_message("%llu decisions, %zu bytes at most after a second, %zu after three\n",
		      l.asked, early - begin, most - begin);
	assert_in_range(most - begin, 0, 8 << 20);
	assert_in_range(most - early, 0, 64 << 10);
	assert_int_equal(kill(f->r.pid, SIGCONT), 0);
	assert_true(fix_wait(f, l.asked == l.answered, 5000));
	l.f = NULL;
}

static unsigned long long sent_bytes;

static const char *talks(struct fake *f, const struct redisReply *command)
{
	(void)f;
	return fake_is(command, "EVALSHA") ? "$500000000\r\n" : greets(f, command);
}

static void talk_on(evutil_socket_t fd, short what, void *arg)
{
	static char much[1 << 20];
	struct fake *f = arg;

	(void)fd;
	(void)what;
	for (size_t i = 0; i < FAKE_CLIENTS; i++) {
		ssize_t n = f->client[i].f ? send(f->client[i].fd, much, sizeof(much),
						  MSG_DONTWAIT | MSG_NOSIGNAL)
					   : 0;

		sent_bytes += n > 0 ? (unsigned long long)n : 0;
	}
}

static void an_endless_reply_is_cut(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 10, DAY);
	const struct timeval often = {.tv_usec = 500};
	struct fake fake = {.says = talks};
	struct ask a = {.y = {request_layer(&l, 1, 1)}};
	size_t begin = memory(), most = 0;
	struct fix *f = *state;
	struct event *timer;
	uint64_t end_ns;
	char url[64];

	fake_start(&fake, f->base);
	(void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", fake.port);
	f->o.timeout_ns = 20 * MS;
	f->o.probe_ns = 60000 * MS; /* that does not end it */
	f->o.quiet = true;
	fix_store_at(f, url);
	fix_turn(f, 100);
	ask_start(f, &a, 1);
	assert_true(fix_wait(f, a.r != 1, 5000));
	timer = event_new(f->base, -1, EV_PERSIST, talk_on, &fake);
	assert_int_equal(event_add(timer, &often), 0);
	for (end_ns = wait_now_ns() + 30000 * MS;
	     sent_bytes < 200ull << 20 && fix_health(f) != WEIR_FAR_OPEN && wait_now_ns() < end_ns;
	     most = memory() > most ? memory() : most)
		(void)event_base_loop(f->base, EVLOOP_ONCE);
	event_free(timer);
	print_message("%llu MB sent, %zu MB held at most\n", sent_bytes >> 20,
		      (most - begin) >> 20);
	assert_int_equal(fix_health(f), WEIR_FAR_OPEN); /* the connection was dropped */
	assert_in_range(most - begin, 0, 140 << 20);	/* it doubles as it grows */
	weir_store_free(f->s);
	f->s = NULL;
	fake_stop(&fake);
}

/* --- the end ----------------------------------------------------------------------------------------------------------- */

/* At every point of connecting, asking, losing, trying again. What is freed too early shows with sanitizers. */
static void an_end_in_the_middle_answers_everything(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	static struct ask all[50];
	struct fix *f = *state;

	f->o.timeout_ns = 5 * MS;
	f->o.probe_ns = 20 * MS;
	f->o.quiet = true;
	assert_int_equal(redis_start(&f->r, NULL), 0);
	for (unsigned round = 0; round < 150; round++) {
		bool stopped = round % 3 == 1;

		fix_store(f);
		fix_turn(f, round % 7);
		if (stopped)
			assert_int_equal(kill(f->r.pid, SIGSTOP), 0);
		for (size_t i = 0; i < ARRAY_LEN(all); i++) {
			memset(&all[i], 0, sizeof(all[i]));
			all[i].y[0] = request_layer(&l, i + 1, 1);
			ask_start(f, &all[i], 1);
		}
		fix_turn(f, round % 11);
		if (round % 10 == 9)
			redis_kill(&f->r);
		weir_store_free(f->s);
		f->s = NULL;
		for (size_t i = 0; i < ARRAY_LEN(all); i++)
			assert_int_not_equal(all[i].r, 1);
		if (f->r.pid <= 0)
			assert_int_equal(redis_start(&f->r, NULL), 0);
		else if (stopped)
			assert_int_equal(kill(f->r.pid, SIGCONT), 0);
	}
}

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	*state = f;
	fix_options(f);
	f->base = event_base_new();
	return 0;
}

static int teardown(void **state)
{
	fix_done(*state);
	free(*state);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_thousand_connections_leave_nothing_behind),
		TEST(a_stopped_server_under_a_flood_takes_no_more_than_may_wait),
		TEST(an_endless_reply_is_cut),
		TEST(an_end_in_the_middle_answers_everything),
	};

	if (redis_is_missing())
		return 77;
	(void)signal(SIGPIPE, SIG_IGN); /* as the agent has it */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
