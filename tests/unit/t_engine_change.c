/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What stays in the engine through a change of the rules, and what a change may not do. */
#include "engine_case.h"

static void a_reload_keeps_states_and_counters(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - {name: a, key: ip, algorithm: fixed-window, limit: 5, window: 60s}\n"
		"  - {name: b, key: ip, algorithm: fixed-window, limit: 9, window: 60s}\n");
	struct weir_l7_limit_stats s[8];

	(void)state;
	assert_int_equal(PASSING(e, 9, .target = "/"), 5);
	/* other numbers and another order: the counts stand */
	engine_configure(
		e, "request_limits:\n"
		   "  - {name: b, key: ip, algorithm: fixed-window, limit: 9, window: 60s}\n"
		   "  - {name: a, key: ip, algorithm: fixed-window, limit: 7, window: 60s}\n");
	assert_int_equal(PASSING(e, 9, .target = "/"), 2);
	assert_int_equal(engine_limit(e, "b")->remaining, 2);
	assert_int_equal(engine_counts(e, "a").n[WEIR_L7_PASSED], 7);
	/* another key, another state; a name that is gone is still counted */
	engine_configure(e, "request_limits:\n  - {name: a, key: [ip, method], algorithm: "
			    "fixed-window, limit: 7, window: 60s}\n");
	assert_int_equal(PASSING(e, 9, .target = "/"), 7);
	assert_int_equal(weir_l7_limits(e->l7, s, ARRAY_LEN(s)), 2);
	assert_string_equal(s[0].name, "a");
	assert_true(s[0].in_force);
	assert_int_equal(s[0].n[WEIR_L7_PASSED], 14);
	assert_string_equal(s[1].name, "b");
	assert_false(s[1].in_force);
	assert_int_equal(s[1].n[WEIR_L7_PASSED], 7);
	assert_false(weir_l7_has_limit(e->l7, "b"));
	assert_true(weir_l7_has_limit(e->l7, "a"));
	engine_configure(e,
			 "request_limits:\n  - {name: b, key: ip, algorithm: fixed-window, limit: "
			 "9, window: 60s}\n");
	assert_int_equal(PASSING(e, 9, .target = "/"), 2);
	assert_int_equal(engine_counts(e, "b").n[WEIR_L7_PASSED], 9);
}

static void a_question_under_way_keeps_its_rules(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(QUEUE);

	(void)state;
	engine_send(e, &(struct question){.target = "/"});
	engine_end(e);
	engine_send(e, &(struct question){.target = "/"});
	for (unsigned i = 0; i < 3; i++) {
		struct weir_l7_call *held = e->call;

		engine_configure(e, PER_ADDRESS(100));
		assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_ALLOW); /* at once */
		assert_string_equal(e->answer.limit, "per-address");
		e->call = held;
	}
	engine_take_answer(e);
	assert_non_null(engine_limit(e, "q"));
	engine_end(e);
}

static void a_wrong_configuration_changes_nothing(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(PER_ADDRESS(1));
	_cleanup_(weir_conf_freep) struct weir_conf *conf =
		engine_conf("plans: [a]\nplans_file: /nonexistent/plans\n");
	struct weir_error error = {""};
	char *note = NULL;

	(void)state;
	assert_true(weir_l7_configure(e->l7, conf, &note, &error) < 0);
	assert_non_null(strstr(error.text, "/nonexistent/plans"));
	assert_int_equal(PASSING(e, 9, .target = "/"), 1);
}

static void names_come_and_go_without_end(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of("");

	(void)state;
	for (unsigned i = 0; i < 700; i++) {
		char text[256];

		(void)snprintf(text, sizeof(text),
			       "request_limits:\n  - {name: l%u, key: ip, rate: 10/s}\n  - {name: "
			       "always, key: ip, rate: 1000/s, burst: 1000}\n",
			       i);
		engine_configure(e, text);
		assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_ALLOW);
		(void)snprintf(text, sizeof(text), "l%u", i);
		assert_int_equal(engine_counts(e, text).n[WEIR_L7_PASSED], 1);
	}
	assert_int_equal(engine_counts(e, "always").n[WEIR_L7_PASSED], 700);
}

static void memory_that_cannot_change_is_said(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of("memory: {request_keys: 1000}\n");
	_cleanup_(weir_conf_freep) struct weir_conf *conf =
		engine_conf("memory: {request_keys: 2000}\n");
	_cleanup_free_ char *note = NULL;
	struct weir_error error = {""};

	(void)state;
	assert_int_equal(weir_l7_configure(e->l7, conf, &note, &error), 0);
	assert_non_null(note);
	assert_non_null(strstr(note, "memory.request_keys"));
}

static void counters_outlive_their_worker(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(PER_ADDRESS(2));

	(void)state;
	assert_int_equal(PASSING(e, 3, .target = "/"), 2);
	weir_l7_worker_free(e->w);
	assert_int_equal(weir_l7_worker_new(e->l7, NULL, &e->w), 0);
	assert_int_equal(PASSING(e, 3, .target = "/"), 0);
	assert_int_equal(engine_stats(e).checks, 6);
	assert_int_equal(engine_counts(e, "per-address").n[WEIR_L7_REFUSED], 4);
	assert_int_equal(engine_counts(e, "per-address").last_refused_s, START_US / US_PER_S);
	assert_int_equal(engine_stats(e).check.count, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reload_keeps_states_and_counters),
		cmocka_unit_test(a_question_under_way_keeps_its_rules),
		cmocka_unit_test(a_wrong_configuration_changes_nothing),
		cmocka_unit_test(names_come_and_go_without_end),
		cmocka_unit_test(memory_that_cannot_change_is_said),
		cmocka_unit_test(counters_outlive_their_worker),
	};

	return cmocka_run_group_tests_name("engine_change", tests, NULL, NULL);
}
