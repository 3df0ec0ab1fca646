/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/http/spoe_ask.c: what a NOTIFY asks the engine, and what the answer becomes. */
#include "spoe_case.h"

static void a_message_becomes_a_question(void **state)
{
	(void)state; /* set_up's */
	hello();
	notify(0);
	assert_true(until(acks() == 1));
	assert_string_equal(world.asked, "GET /a%2Fb?q=1 from 192.0.2.1");
}

static void headers_are_read_in_their_order(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	notify_frame(&f, 1,
		     "host: app.example\r\nX-API-Key:  k1 \r\nx-api-key: k2\r\nempty:\r\n\r\n");
	say_frame(&f);
	assert_true(until(acks() == 1));
	assert_string_equal(world.asked,
			    "GET /a%2Fb?q=1 from 192.0.2.1 host=app.example [host|app.example] "
			    "[X-API-Key|k1] [x-api-key|k2] [empty|]");
}

static void headers_may_be_named_one_by_one(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	begin_frame(&f, 3, 1, 1);
	begin_message(&f, 5);
	arg_str(&f, "method", "POST");
	arg_str(&f, "url", "/");
	arg_str(&f, "host", "b");
	arg_str(&f, "header.X-API-Key", "k");
	arg_str(&f, "header.Cookie", NULL);
	say_frame(&f);
	assert_true(until(acks() == 1));
	assert_string_equal(world.asked, "POST / from - host=b [X-API-Key|k]");
	assert_int_equal(lab.worker.counters.no_address, 1);
}

static void user_plan_and_cost_come_from_arguments_only(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	begin_frame(&f, 3, 1, 1);
	begin_message(&f, 6);
	arg_str(&f, "method", "GET");
	arg_str(&f, "url", "/");
	arg_str(&f, "headers", "X-Weir-User: forged\r\nX-Plan: pro\r\nX-Cost: 0\r\n\r\n");
	arg_str(&f, "user", "ann");
	arg_str(&f, "plan", "free");
	put_str(&f, "cost");
	put(&f, "\x04\x07", 2);
	say_frame(&f);
	assert_true(until(acks() == 1));
	assert_string_equal(world.asked, "GET / from - user=ann plan=free cost=7 "
					 "[X-Weir-User|forged] [X-Plan|pro] [X-Cost|0]");
}

static void an_address_may_be_text_or_ipv6(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	begin_frame(&f, 3, 1, 1);
	begin_message(&f, 1);
	arg_str(&f, "ip", "[2001:db8::1]:80");
	say_frame(&f);
	begin_frame(&f, 3, 2, 1);
	begin_message(&f, 1);
	put_str(&f, "ip");
	put(&f, "\x07\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x07", 17);
	assert_true(until(acks() == 1));
	assert_string_equal(world.asked, "  from 2001:db8::1");
	say_frame(&f);
	assert_true(until(acks() == 2));
	assert_string_equal(world.asked, "  from 192.0.2.7");
	assert_int_equal(lab.worker.counters.no_target, 2);
	assert_int_equal(lab.port.crowd.n, 2); /* looked at like those of other profiles */
	assert_true(lab.port.crowd.named);
}

static void headers_that_are_none_are_refused(void **state)
{
	static const char *const bad[] = {"no colon here\r\n\r\n", "a b: c\r\n\r\n", ": x\r\n\r\n"};
	struct frame f;

	(void)state; /* set_up's */
	hello();
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		notify_frame(&f, i, bad[i]);
		say_frame(&f);
		assert_true(until(acks() == i + 1));
		assert_non_null(strstr(heard.text, "decision='deny' status=400 code='BAD_REQUEST' "
						   "limit='bad-headers'"));
	}
	assert_int_equal(world.n_asked, 0);
}

static void an_unknown_argument_is_told(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	begin_frame(&f, 3, 1, 1);
	begin_message(&f, 1);
	arg_str(&f, "methd", "GET");
	say_frame(&f);
	assert_true(until(acks() == 1));
	assert_true(world.noted > 0);
}

/* --- answers ---- */

static void an_admission_becomes_variables(void **state)
{
	(void)state; /* set_up's */
	hello();
	notify(7);
	assert_true(until(acks() == 1));
	assert_string_equal(heard.text,
			    "103 7/1: decision='allow' status=200 limit_n=10 remaining=7 "
			    "reset=19 ratelimit='\"login\";r=7;t=19' "
			    "ratelimit_policy='\"login\";q=10;w=60'\n");
}

static void a_refusal_becomes_variables(void **state)
{
	(void)state; /* set_up's */
	world.code[world.n_code++] = WEIR_ANSWER_RATE_LIMITED;
	hello();
	notify(7);
	assert_true(until(acks() == 1));
	assert_string_equal(
		heard.text,
		"103 7/1: decision='deny' status=429 code='RATE_LIMITED' limit='login' "
		"retry_after=19 limit_n=10 remaining=0 reset=19 ratelimit='\"login\";r=0;t=19' "
		"ratelimit_policy='\"login\";q=10;w=60' body='{\"code\":\"RATE_LIMITED\","
		"\"message\":\"Too many requests; try again in 19 seconds.\",\"limit\":\"login\","
		"\"retry_after_seconds\":19}'\n");
}

static void a_small_frame_still_carries_the_refusal(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	world.code[world.n_code++] = WEIR_ANSWER_RATE_LIMITED;
	hello_frame(&f, 256, false);
	say_frame(&f);
	assert_true(until(lab.n > 0));
	lab.n = 0;
	notify(1);
	assert_true(until(acks() == 1));
	assert_string_equal(heard.text, "103 1/1: decision='deny' status=429 code='RATE_LIMITED' "
					"limit='login' retry_after=19 limit_n=10\n");
}

static void without_memory_the_answer_is_empty(void **state)
{
	(void)state; /* set_up's */
	world.no_memory = true;
	hello();
	notify(1);
	assert_true(until(acks() == 1));
	assert_string_equal(heard.text, "103 1/1:\n");
}

static void of_several_messages_the_first_refusal_is_told(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	world.n_code = 3;
	world.code[1] = WEIR_ANSWER_RATE_LIMITED;
	hello();
	begin_frame(&f, 3, 1, 1);
	for (int i = 0; i < 3; i++) {
		begin_message(&f, 1);
		arg_str(&f, "method", "GET");
	}
	say_frame(&f);
	assert_true(until(acks() == 1));
	assert_int_equal(world.n_asked, 3);
	assert_int_equal(world.alive, 0);
	assert_non_null(strstr(heard.text, "decision='deny'"));
}

static void answers_may_come_in_any_order(void **state)
{
	(void)state; /* set_up's */
	world.later = true;
	hello();
	for (__u64 i = 0; i < 3; i++)
		notify(i);
	assert_true(until(world.n_call == 3));
	answer(2);
	answer(0);
	assert_true(until(acks() == 2));
	assert_true(strncmp(heard.text, "103 2/1:", 8) == 0);
	answer(1);
	assert_true(until(acks() == 3));
	assert_int_equal(lab.worker.counters.spop_errors, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_message_becomes_a_question),
		TEST(headers_are_read_in_their_order),
		TEST(headers_may_be_named_one_by_one),
		TEST(user_plan_and_cost_come_from_arguments_only),
		TEST(an_address_may_be_text_or_ipv6),
		TEST(headers_that_are_none_are_refused),
		TEST(an_unknown_argument_is_told),
		TEST(an_admission_becomes_variables),
		TEST(a_refusal_becomes_variables),
		TEST(a_small_frame_still_carries_the_refusal),
		TEST(without_memory_the_answer_is_empty),
		TEST(of_several_messages_the_first_refusal_is_told),
		TEST(answers_may_come_in_any_order),
	};

	return cmocka_run_group_tests_name("spoe", tests, NULL, NULL);
}
