/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A loop that comes late, because its thread was busy or had no processor, while the server has answered at once: that is
 * no failure of the store. The clock is the test's, and the server runs when the test says so.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "redis/fake.h"
#include "unit/conf_case.h"
#include "user/base/clock.h"
#include "user/l7/engine.h"

#define TIMEOUT (5 * MS)
#define BUDGET	(20 * MS)
#define PROBE	(100 * MS)
#define STALL	(30 * MS)

struct late {
	struct fix f;		  /* the store's loop */
	struct event_base *there; /* the server's */
	struct fake fake;
	bool silent, refuses;
	unsigned calls; /* that have come to it */
	struct ask a;
	struct weir_store_limit limit;
	struct event *now;
	struct weir_store *store; /* of the agent */
	struct weir_l7 *l7;
	struct weir_l7_worker *w;
	int code; /* of the agent's answer; -1: none yet */
};

/* --- time ---------------------------------------------------------------------------------------------------------- */

static struct {
	bool stands;
	uint64_t mono_ns, real_ns; /* when it was stopped */
	uint64_t passed_ns;
} fake_time;

/* The C library's, until the test stops it: libevent's and weir's. */
int clock_gettime(clockid_t id, struct timespec *ret)
{
	bool real = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
	uint64_t ns = (real ? fake_time.real_ns : fake_time.mono_ns) + fake_time.passed_ns;

	if (!fake_time.stands || id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID)
		return (int)syscall(SYS_clock_gettime, id, ret);
	*ret = (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
				 .tv_nsec = (long)(ns % 1000000000)};
	return 0;
}

static void stop_time(void)
{
	fake_time.mono_ns = weir_clock_ns(CLOCK_MONOTONIC);
	fake_time.real_ns = weir_clock_ns(CLOCK_REALTIME);
	fake_time.passed_ns = 0;
	fake_time.stands = true;
}

static void pass(uint64_t ns)
{
	fake_time.passed_ns += ns;
}

/* --- turns --------------------------------------------------------------------------------------------------------- */

static void turn(struct late *l)
{
	assert_true(event_base_loop(l->f.base, EVLOOP_NONBLOCK) >= 0);
}

/* The server reads what was sent to it and answers; then its replies lie in the store's sockets. */
static void turn_server(struct late *l)
{
	int left = 1;

	assert_true(event_base_loop(l->there, EVLOOP_ONCE) >= 0);
	for (size_t i = 0; i < FAKE_CLIENTS; i++)
		while (l->fake.client[i].f && !ioctl(l->fake.client[i].fd, SIOCOUTQ, &left) && left)
			;
}

/* A time, that it is admitted, what is said of a layer: any numbers will do. */
#define ADMITTED                                                                                   \
	"\1\1\1\1\1\1\1"                                                                           \
	"\1"                                                                                       \
	"\1aaaaaaabbbbbbbccccccc"

static const char *says(struct fake *f, const struct redisReply *command)
{
	struct late *l = f->arg;

	if (fake_is(command, "SCRIPT"))
		return "$40\r\n0123456789012345678901234567890123456789\r\n";
	if (!fake_is(command, "EVALSHA"))
		return "+OK\r\n";
	l->calls++;
	return l->silent ? NULL : l->refuses ? "-OOM it is full\r\n" : "$30\r\n" ADMITTED "\r\n";
}

static __u64 reconnects(struct weir_store *s)
{
	struct weir_far_stats far;

	weir_store_far_stats(s, &far);
	return far.reconnects;
}

static bool is_up(struct late *l, struct weir_store *s)
{
	turn(l);
	assert_true(event_base_loop(l->there, EVLOOP_NONBLOCK) >= 0);
	return reconnects(s) == 1;
}

static void begin(struct late *l)
{
	char url[64];

	(void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", l->fake.port);
	fix_store_at(&l->f, url);
	assert_true(wait_for(is_up(l, l->f.s), 5000));
	stop_time();
	turn(l);
}

static void ask_now(struct late *l)
{
	l->a = (struct ask){.y = {request_layer(&l->limit, 1, 1)}};
	ask_start(&l->f, &l->a, 1);
}

/* @fn once, in the next turn of the store's loop or, @in_ns, in the first one then. */
static void plan(struct late *l, uint64_t in_ns, event_callback_fn fn)
{
	struct timeval in = {.tv_usec = (long)(in_ns / 1000)};

	l->now = event_new(l->f.base, -1, 0, fn, l);
	assert_non_null(l->now);
	if (in_ns)
		assert_int_equal(event_add(l->now, &in), 0);
	else
		event_active(l->now, EV_TIMEOUT, 0);
}

/* --- what keeps the loop's thread ---------------------------------------------------------------------------------- */

static void answered_while_it_is_busy(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	pass(STALL);
	turn_server(arg);
}

static void asked_before_it_is_busy(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	ask_now(arg);
	pass(STALL);
}

/* --- the store's time-out ------------------------------------------------------------------------------------------ */

/* Both timers are due in one turn, and the reply comes in between. */
static void a_reply_that_lies_in_the_socket_is_in_time(void **state)
{
	struct late *l = *state;

	begin(l);
	ask_now(l);
	turn(l);
	plan(l, TIMEOUT - MS, answered_while_it_is_busy);
	pass(TIMEOUT + MS);
	turn(l);
	assert_int_equal(l->calls, 1);
	assert_int_equal(l->a.r, 0);
	assert_int_equal(fix_health(&l->f), WEIR_FAR_HEALTHY);
}

static void time_before_it_could_be_sent_does_not_count(void **state)
{
	struct late *l = *state;

	begin(l);
	plan(l, 0, asked_before_it_is_busy);
	turn(l);
	turn(l);
	assert_int_equal(l->a.r, 1); /* it has only just been sent */
	turn_server(l);
	turn(l);
	assert_int_equal(l->a.r, 0);
	assert_int_equal(fix_health(&l->f), WEIR_FAR_HEALTHY);
}

/* By as much as the loop is late and no more. */
static void nobody_waits_longer_than_that(void **state)
{
	struct late *l = *state;

	begin(l);
	l->silent = true;
	plan(l, 0, asked_before_it_is_busy);
	turn(l);
	turn_server(l);
	pass(TIMEOUT - 1000);
	turn(l);
	assert_int_equal(l->a.r, 1);
	pass(3000); /* timers are of microseconds */
	turn(l);
	assert_int_equal(l->a.r, -ETIMEDOUT);
	assert_in_range(l->a.ended_ns - l->a.began_ns, TIMEOUT + STALL, TIMEOUT + STALL + 2000);
}

/* Longer than a server may be silent, while nobody waits for what is under way. */
static void a_loop_that_was_stopped_keeps_its_connection(void **state)
{
	struct late *l = *state;

	begin(l);
	ask_now(l);
	turn(l);
	pass(TIMEOUT + MS);
	turn(l);
	assert_int_equal(l->a.r, -ETIMEDOUT);
	plan(l, 1000, answered_while_it_is_busy);
	pass(3 * PROBE);
	turn(l);
	assert_int_equal(l->calls, 1);
	turn(l);
	assert_int_equal(fix_health(&l->f), WEIR_FAR_DEGRADED);
}

/* --- probes -------------------------------------------------------------------------------------------------------- */

/* Nothing was answered in time, and now a probe is under way. */
static void open_and_probe(struct late *l)
{
	l->f.o.breaker_errors = 1;
	begin(l);
	ask_now(l);
	turn(l);
	pass(TIMEOUT + MS);
	turn(l);
	assert_int_equal(l->a.r, -ETIMEDOUT);
	assert_int_equal(fix_health(&l->f), WEIR_FAR_OPEN);
	pass(20 * MS);
	turn(l);
}

static void a_late_loop_makes_no_probe_slow(void **state)
{
	struct late *l = *state;

	open_and_probe(l);
	turn_server(l);
	assert_int_equal(l->calls, 2);
	pass(STALL);
	turn(l);
	assert_int_equal(fix_health(&l->f), WEIR_FAR_DEGRADED);
}

/* Its reply comes when the loop has looked in vain: such a server would open the breaker again. */
static void a_slow_server_does(void **state)
{
	struct late *l = *state;

	open_and_probe(l);
	pass(2 * TIMEOUT + 1000);
	turn(l);
	turn_server(l);
	assert_int_equal(l->calls, 2);
	turn(l);
	assert_int_equal(fix_health(&l->f), WEIR_FAR_OPEN);
}

/* An error is an answer: it is asked again with the next tick, and no sooner. */
static void a_server_that_refuses_is_not_asked_all_the_time(void **state)
{
	struct late *l = *state;

	open_and_probe(l);
	l->refuses = true;
	turn_server(l);
	turn(l);
	for (unsigned i = 0; i < 3 * PROBE / MS; i++) {
		pass(MS);
		turn(l);
		assert_true(event_base_loop(l->there, EVLOOP_NONBLOCK) >= 0);
	}
	assert_in_range(l->calls, 4, 6);
	assert_int_equal(fix_health(&l->f), WEIR_FAR_OPEN);
}

/* --- other commands ------------------------------------------------------------------------------------------------ */

static void told(void *arg, const struct redisReply *reply, const char *cause)
{
	(void)cause;
	*(int *)arg = reply ? 1 : -1;
}

static void a_command_that_is_answered_costs_no_connection(void **state)
{
	struct late *l = *state;
	int answer = 0;

	begin(l);
	assert_int_equal(weir_redis_ask(l->f.s, "x", 1, (const char *const[]){"PING"}, NULL,
					50 * MS, told, &answer),
			 0);
	turn(l);
	plan(l, 1000, answered_while_it_is_busy);
	pass(51 * MS);
	turn(l);
	assert_int_equal(answer, 1);
	assert_int_equal(fix_health(&l->f), WEIR_FAR_HEALTHY);
}

/* --- the budget of a check ----------------------------------------------------------------------------------------- */

static int store_of(void *arg, struct event_base *base, struct weir_store **ret)
{
	struct late *l = arg;
	struct weir_redis_options o = l->f.o;
	struct weir_redis_url u;
	struct weir_error e = {""};
	char url[64];
	int r;

	(void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", l->fake.port);
	assert_int_equal(weir_redis_url_parse(url, &u, &e), 0);
	o.url = &u;
	o.timeout_ns = BUDGET;
	r = weir_store_redis_new(base, &o, ret, &e);
	l->store = *ret;
	weir_redis_url_done(&u);
	return r;
}

static void begin_agent(struct late *l)
{
	static const unsigned char secret[WEIR_KEY_SECRET] = "the secret of the whole fleet!!";
	const struct weir_l7_options o = {.store_of = store_of, .store_arg = l, .secret = secret};
	_cleanup_(weir_conf_freep) struct weir_conf *conf = NULL;
	struct weir_error e = {""};

	conf = conf_of("interfaces: []\nhttp: {budget: 20ms}\nstore: {url: redis://x}\n"
		       "request_limits:\n  - {name: a, key: ip, algorithm: fixed-window, limit: "
		       "10, window: day, on_store_failure: closed}\n");
	assert_int_equal(weir_l7_new(conf, &o, &l->l7, &e), 0);
	assert_int_equal(weir_l7_worker_new(l->l7, l->f.base, &l->w), 0);
	assert_true(wait_for(is_up(l, l->store), 5000));
	stop_time();
	turn(l);
}

static void on_answer(void *arg, struct weir_l7_call *call)
{
	struct late *l = arg;

	l->code = (int)weir_l7_call_answer(call)->code;
	weir_l7_call_free(call);
}

static void check_before_it_is_busy(evutil_socket_t fd, short what, void *arg)
{
	struct weir_header_list headers = {.n = 0};
	struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {10, 0, 0, 1}}};
	const struct weir_l7_query q = {.profile = WEIR_ANSWER_JSON,
					.method = weir_text_of("GET"),
					.target = weir_text_of("/"),
					.headers = &headers,
					.client = &ip,
					.client_seen = true};
	struct late *l = arg;
	struct weir_l7_call *call;

	(void)fd;
	(void)what;
	l->code = -1;
	assert_int_equal(weir_l7_ask(l->w, &q, on_answer, l, &call), 0);
	pass(STALL);
}

static void a_check_has_its_budget_when_the_loop_is_late(void **state)
{
	struct late *l = *state;

	begin_agent(l);
	plan(l, 0, check_before_it_is_busy);
	turn(l);
	turn(l);
	turn(l);
	assert_int_equal(l->code, -1);
	turn_server(l);
	turn(l);
	assert_int_equal(l->code, WEIR_ANSWER_ALLOW);
}

static void and_is_answered_when_that_is_over(void **state)
{
	struct late *l = *state;

	begin_agent(l);
	l->silent = true;
	plan(l, 0, check_before_it_is_busy);
	turn(l);
	turn_server(l);
	pass(BUDGET + 3000);
	turn(l);
	turn(l);
	assert_int_equal(l->code, WEIR_ANSWER_STORE_UNAVAILABLE);
}

/* ------------------------------------------------------------------------------------------------------------------- */

static int setup(void **state)
{
	struct late *l = calloc(1, sizeof(*l));

	if (!l)
		return -1;
	fix_options(&l->f);
	l->f.o.timeout_ns = TIMEOUT;
	l->f.o.probe_ns = PROBE;
	l->f.o.batch_max = 1;
	l->f.base = event_base_new();
	l->there = event_base_new();
	l->limit = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 10, DAY);
	l->fake = (struct fake){.says = says, .arg = l};
	fake_start(&l->fake, l->there);
	*state = l;
	return 0;
}

static int teardown(void **state)
{
	struct late *l = *state;

	fake_time.stands = false;
	if (l->now)
		event_free(l->now);
	weir_store_free(l->f.s);
	if (l->w)
		weir_l7_worker_free(l->w);
	if (l->l7)
		weir_l7_free(l->l7);
	fake_stop(&l->fake);
	event_base_free(l->there);
	event_base_free(l->f.base);
	free(l);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_reply_that_lies_in_the_socket_is_in_time),
		TEST(time_before_it_could_be_sent_does_not_count),
		TEST(nobody_waits_longer_than_that),
		TEST(a_loop_that_was_stopped_keeps_its_connection),
		TEST(a_late_loop_makes_no_probe_slow),
		TEST(a_slow_server_does),
		TEST(a_server_that_refuses_is_not_asked_all_the_time),
		TEST(a_command_that_is_answered_costs_no_connection),
		TEST(a_check_has_its_budget_when_the_loop_is_late),
		TEST(and_is_answered_when_that_is_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
