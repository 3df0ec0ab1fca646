/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A reload of the agent: all of it or nothing, and going back unless it is confirmed. Deadlines are moved, never waited
 * for.
 */
#include "agent_case.h"

static void a_reload_changes_limits_and_lists(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *j = NULL;
	char rest[512];

	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}");
	(void)snprintf(rest, sizeof(rest),
		       "lists:\n  block: [198.51.100.8]\n  block_files: [%s]\n"
		       "packet_limits:\n  - {name: per-source, per: source, rate: 500/s}\n"
		       "  - {name: udp, match: {protocol: udp}, per: source, rate: 5/s}\n",
		       f->list);
	write_conf(f, rest);
	j = ask(f, "{'cmd':'reload'}");
	assert_true(weir_json_bool_of(j, "ok"));
	assert_true(json_array_size(json_object_get(j, "changes")) >= 4);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.128/25"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7")); /* by the list file now */
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));	  /* by command */
	assert_null(dp_has(WEIR_LIST_GUARD, "203.0.113.0/24"));
	assert_int_equal(count(f, "block", "list-file"), 2);
	refuses(f, "{'cmd':'list_del','list':'block','prefix':'198.51.100.7'}", "drop.netset:3", 1);
}

static void a_broken_file_changes_nothing_and_is_remembered(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *j = NULL, *s = NULL;
	unsigned applies = dp.applies;

	write_conf(f, LISTS LIMIT "no_such_key: 1\nnor_this: 2\n");
	j = ask(f, "{'cmd':'reload'}");
	assert_false(weir_json_bool_of(j, "ok"));
	assert_int_equal(weir_json_u64_of(j, "code"), 2);
	assert_int_equal(json_array_size(json_object_get(j, "problems")), 2);
	assert_int_equal(dp.applies, applies);
	s = ask(f, "{'cmd':'status'}");
	assert_true(json_array_size(json_object_get(s, "degraded")) >= 1);
	write_file(f->conf, ""); /* as cut by a full disk: nothing is taken off */
	refuses(f, "{'cmd':'reload'}", "nothing was changed", 2);
	assert_int_equal(dp.applies, applies);
	write_conf(f, LISTS LIMIT);
	does(f, "{'cmd':'reload'}");
	assert_string_equal(f->a->last_error, "");
}

static void a_problem_without_a_column_is_said_without_one(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *j = NULL;
	const char *said;

	write_conf(f, "packet_limits:\n  - {name: s, match: {protocol: tcp, tcp_flags: {set: syn, "
		      "clear: ack}}, rate: 5/s, block_for: 9s}\n");
	j = ask(f, "{'cmd':'reload'}");
	assert_true(weir_json_bool_of(j, "ok"));
	said = json_string_value(json_array_get(json_object_get(j, "problems"), 0));
	assert_non_null(said);
	if (!strstr(said, "weir.yaml:5: warning: "))
		fail_msg("%s", said);
}

static void a_bad_list_file_changes_nothing_and_its_line_is_named(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *j = NULL;
	unsigned applies = dp.applies;
	char rest[512];

	write_file(f->list, "192.0.2.0/24\nnot an address\n");
	(void)snprintf(rest, sizeof(rest), "lists: {block_files: [%s]}\n" LIMIT, f->list);
	write_conf(f, rest);
	j = ask(f, "{'cmd':'reload'}");
	assert_false(weir_json_bool_of(j, "ok"));
	assert_non_null(strstr(json_string_value(json_array_get(json_object_get(j, "problems"), 0)),
			       "drop.netset:2:"));
	assert_int_equal(dp.applies, applies);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
}

static void what_takes_a_restart_is_said_and_not_half_done(void **state)
{
	struct fix *f = *state;
	unsigned applies = dp.applies;

	write_conf(f, "instance: other\n" LISTS LIMIT);
	refuses(f, "{'cmd':'reload'}", "instance changed", 2);
	assert_int_equal(dp.applies, applies);
}

static void what_the_kernel_refuses_at_a_reload_changes_nothing(void **state)
{
	struct fix *f = *state;

	write_conf(f, "lists: {block: [198.51.100.8]}\n" LIMIT);
	dp.fail_apply = -ENOMEM;
	refuses(f, "{'cmd':'reload'}", "kernel refuses", 1);
	dp.fail_apply = 0;
	assert_int_equal(f->a->conf->block.n, 1);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_int_equal(count(f, "block", "total"), 1);
}

static void a_missing_interface_is_refused_with_those_there_are(void **state)
{
	struct fix *f = *state;
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "interfaces: [lo, nosuch0]\nstate_dir: %s/state\nadmin: {listen: "
		       "%s/admin.sock}\n" LIMIT,
		       f->dir, f->dir);
	write_file(f->conf, text);
	refuses(f, "{'cmd':'reload'}", "nosuch0 does not exist", 1);
	assert_int_equal(dp.n_at, 1);
	stop(f);
	assert_true(start(f) < 0);
	assert_non_null(strstr(f->e.text, "nosuch0 does not exist"));
}

static void an_unconfirmed_reload_goes_back(void **state)
{
	struct fix *f = *state;

	write_conf(f, "lists: {block: [198.51.100.8]}\n" LIMIT);
	does(f, "{'cmd':'reload','confirm_s':60}");
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
	f->a->confirm.until_ns = 1;
	weir_agent_tick(f->a);
	assert_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	refuses(f, "{'cmd':'confirm'}", "too late", 1);
	/* a restart does not take the file that nobody confirmed */
	restart(f);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
	does(f, "{'cmd':'reload'}");
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
	restart(f);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
}

static void a_confirmed_reload_stays(void **state)
{
	struct fix *f = *state;

	write_conf(f, "lists: {block: [198.51.100.8]}\n" LIMIT);
	does(f, "{'cmd':'reload','confirm_s':60}");
	does(f, "{'cmd':'confirm'}");
	refuses(f, "{'cmd':'confirm'}", "nothing waits", 1);
	restart(f);
	weir_agent_tick(f->a);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
}

static void a_wait_for_confirm_survives_a_restart(void **state)
{
	struct fix *f = *state;

	write_conf(f, "lists: {block: [198.51.100.8]}\n" LIMIT);
	does(f, "{'cmd':'reload','confirm_s':60}");
	restart(f);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
	assert_int_equal(f->a->confirm.kind, WEIR_CONFIRM_RELOAD);
	f->a->confirm.until_ns = 1;
	weir_agent_tick(f->a);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
}

static void a_wait_that_ended_while_no_agent_ran_goes_back_at_the_start(void **state)
{
	struct fix *f = *state;
	char *text = NULL;
	json_t *o;

	write_conf(f, "lists: {block: [198.51.100.8]}\n" LIMIT);
	does(f, "{'cmd':'reload','confirm_s':60}");
	assert_int_equal(weir_state_get(f->a->state, "confirm", &text), 0);
	o = json_loads(text, 0, NULL);
	free(text);
	weir_json_set_u64(o, "until", 1000); /* long ago */
	text = json_dumps(o, 0);
	assert_int_equal(weir_state_set(f->a->state, "confirm", text), 0);
	free(text);
	json_decref(o);
	restart(f);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
	restart(f); /* and stays so */
	assert_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.8"));
}

static void a_second_reload_keeps_the_way_back_to_what_was_confirmed(void **state)
{
	struct fix *f = *state;

	write_conf(f, "lists: {block: [198.51.100.8]}\n" LIMIT);
	does(f, "{'cmd':'reload','confirm_s':60}");
	write_conf(f, "lists: {block: [198.51.100.9]}\n" LIMIT);
	does(f, "{'cmd':'reload','confirm_s':60}");
	f->a->confirm.until_ns = 1;
	weir_agent_tick(f->a);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
}

static void an_unconfirmed_start_goes_to_monitor_mode(void **state)
{
	struct fix *f = *state;

	stop(f);
	f->o.confirm_ns = 60 * WEIR_NS_PER_S;
	assert_int_equal(start(f), 0);
	assert_int_equal(dp.mode, WEIR_MODE_ENFORCE);
	f->a->confirm.until_ns = 1;
	weir_agent_tick(f->a);
	assert_int_equal(dp.mode, WEIR_MODE_MONITOR);
	refuses(f, "{'cmd':'confirm'}", "too late", 1);
	f->o.confirm_ns = 0;
	restart(f);
	assert_int_equal(dp.mode, WEIR_MODE_MONITOR);
	does(f, "{'cmd':'mode','mode':'enforce'}");
	assert_int_equal(dp.mode, WEIR_MODE_ENFORCE);
	restart(f);
	assert_int_equal(dp.mode, WEIR_MODE_ENFORCE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PACKETS(a_reload_changes_limits_and_lists),
		PACKETS(a_broken_file_changes_nothing_and_is_remembered),
		PACKETS(a_problem_without_a_column_is_said_without_one),
		PACKETS(a_bad_list_file_changes_nothing_and_its_line_is_named),
		PACKETS(what_takes_a_restart_is_said_and_not_half_done),
		PACKETS(what_the_kernel_refuses_at_a_reload_changes_nothing),
		PACKETS(a_missing_interface_is_refused_with_those_there_are),
		PACKETS(an_unconfirmed_reload_goes_back),
		PACKETS(a_confirmed_reload_stays),
		PACKETS(a_wait_for_confirm_survives_a_restart),
		PACKETS(a_wait_that_ended_while_no_agent_ran_goes_back_at_the_start),
		PACKETS(a_second_reload_keeps_the_way_back_to_what_was_confirmed),
		PACKETS(an_unconfirmed_start_goes_to_monitor_mode),
	};

	return cmocka_run_group_tests_name("agent_reload", tests, open_quiet, close_quiet);
}
