/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A leaky bucket in the engine: answers are held until their turn, and places are given back. */
#include "engine_case.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_holds_answers_until_their_turn),
		cmocka_unit_test(whoever_cannot_wait_passes_only_in_turn),
		cmocka_unit_test(peek_never_waits),
		cmocka_unit_test(the_last_in_the_queue_gives_its_place_back),
		cmocka_unit_test(an_end_gives_everything_back),
	};

	return cmocka_run_group_tests_name("engine_queue", tests, NULL, NULL);
}
