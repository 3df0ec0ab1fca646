/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent over a datapath in memory: its start, the mode, limits by command, and what it tells. Deadlines are moved,
 * never waited for.
 */
#include "agent_case.h"

static void an_old_program_that_somebody_attached_is_not_called_protection(void **state)
{
	struct fix *f = *state;

	write_conf(f, "attach: external\n" LISTS LIMIT);
	restart(f);
	assert_false(is_degraded(f, "NOT protected"));
	dp.at[0].attached = false;
	dp.at[0].stale = true;
	dp.at[0].prog_id = 7;
	assert_true(is_degraded(f, "program 7 there is an old weir"));
	assert_true(is_degraded(f, "ip -force link set dev lo xdp pinned /sys/fs/bpf/weir/prog"));
}

static void a_second_agent_of_the_instance_is_refused(void **state)
{
	struct fix *f = *state;
	struct weir_agent *other = NULL;
	unsigned opens = dp.opens;

	assert_true(weir_agent_start(&f->o, &other, &f->e) < 0);
	weir_log_open(quiet, false, WEIR_LOG_ERROR);
	assert_non_null(strstr(f->e.text, "another agent of instance weir"));
	assert_int_equal(dp.opens, opens); /* before it could touch anything */
	does(f, "{'cmd':'status'}");
}

static void an_interface_that_fails_at_the_start_leaves_none_attached(void **state)
{
	struct fix *f = *state;

	stop(f);
	dp.n_at = 0;
	dp.fail_attach = "lo";
	assert_true(start(f) < 0);
	assert_non_null(strstr(f->e.text, "program 7"));
	assert_int_equal(dp.n_at, 0);
}

static void what_is_no_longer_wanted_is_detached_at_the_start(void **state)
{
	struct fix *f = *state;

	stop(f);
	(void)snprintf(dp.at[dp.n_at].ifname, sizeof(dp.at[0].ifname), "old0");
	dp.at[dp.n_at++].attached = true;
	assert_int_equal(start(f), 0);
	assert_int_equal(dp.n_at, 1);
	assert_string_equal(dp.at[0].ifname, "lo");
}

/* --- mode ---- */

static void a_temporary_mode_goes_back_and_survives_a_restart(void **state)
{
	struct fix *f = *state;

	does(f, "{'cmd':'mode','mode':'monitor','for_s':900}");
	assert_int_equal(dp.mode, WEIR_MODE_MONITOR);
	restart(f);
	assert_int_equal(dp.mode, WEIR_MODE_MONITOR);
	assert_in_range(f->a->mode.until_ns - weir_now().mono_ns, 890 * WEIR_NS_PER_S,
			901 * WEIR_NS_PER_S);
	f->a->mode.until_ns = 1;
	weir_agent_tick(f->a);
	assert_int_equal(dp.mode, WEIR_MODE_ENFORCE);
	restart(f);
	assert_int_equal(dp.mode, WEIR_MODE_ENFORCE);
}

static void the_panic_button_stays_through_reload_and_restart(void **state)
{
	struct fix *f = *state;

	does(f, "{'cmd':'mode','mode':'monitor'}");
	does(f, "{'cmd':'reload'}");
	assert_int_equal(dp.mode, WEIR_MODE_MONITOR);
	restart(f);
	assert_int_equal(dp.mode, WEIR_MODE_MONITOR);
}

static void a_temporary_mode_over_another_goes_back_to_what_was_before_both(void **state)
{
	struct fix *f = *state;

	does(f, "{'cmd':'mode','mode':'monitor'}");
	does(f, "{'cmd':'mode','mode':'enforce','for_s':900}");
	does(f, "{'cmd':'mode','mode':'enforce','for_s':1800}");
	assert_int_equal(dp.mode, WEIR_MODE_ENFORCE);
	f->a->mode.until_ns = 1;
	weir_agent_tick(f->a);
	assert_int_equal(dp.mode, WEIR_MODE_MONITOR);
}

static void a_mode_that_the_kernel_refuses_is_not_claimed(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *s = NULL;

	dp.fail_mode = -EIO;
	refuses(f, "{'cmd':'mode','mode':'monitor'}", "kernel refuses", 1);
	s = ask(f, "{'cmd':'status'}");
	assert_string_equal(weir_json_text_of(s, "mode"), "enforce");
}

/* --- limits ---- */

static void a_limit_set_by_command_lasts_until_reload(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *j = NULL, *d = NULL;

	does(f, "{'cmd':'limit_set','name':'per-source','set':{'rate':'500/s','burst':'50'}}");
	assert_int_equal(f->a->conf->limits[0].rate, 500);
	assert_int_equal(f->a->conf->limits[0].burst, 50);
	j = ask(f, "{'cmd':'limit_list'}");
	assert_int_equal(json_array_size(
				 json_object_get(json_array_get(json_object_get(j, "limits"), 0),
						 "overridden")),
			 2);
	d = ask(f, "{'cmd':'limit_diff'}");
	assert_int_equal(json_array_size(json_object_get(d, "overrides")), 2);
	assert_int_equal(json_array_size(json_object_get(d, "reload_would_change")), 1);
	does(f, "{'cmd':'reload'}");
	assert_int_equal(f->a->conf->limits[0].rate, 20000);
	assert_int_equal(f->a->n_override, 0);
}

static void a_limit_set_wrongly_changes_nothing(void **state)
{
	struct fix *f = *state;
	unsigned applies = dp.applies;

	refuses(f, "{'cmd':'limit_set','name':'per-sorce','set':{'rate':'500/s'}}", "per-source",
		2);
	refuses(f, "{'cmd':'limit_set','name':'per-source','set':{'rate':'0/s'}}", "rate", 2);
	refuses(f, "{'cmd':'limit_set','name':'per-source','set':{'rate':'500/s','burst':'x'}}",
		"burst", 2);
	refuses(f, "{'cmd':'limit_set','name':'per-source','set':{}}", "nothing to set", 2);
	refuses(f, "{'cmd':'limit_set','name':'per-source','set':{'rate':7}}", "no text", 2);
	assert_int_equal(dp.applies, applies);
	dp.fail_apply = -ENOMEM;
	refuses(f, "{'cmd':'limit_set','name':'per-source','set':{'rate':'500/s'}}",
		"kernel refuses", 1);
	assert_int_equal(f->a->n_override, 0);
	assert_int_equal(f->a->conf->limits[0].rate, 20000);
}

static void an_override_can_be_taken_back(void **state)
{
	struct fix *f = *state;

	does(f, "{'cmd':'limit_set','name':'per-source','set':{'rate':'500/s','burst':'50'}}");
	does(f, "{'cmd':'limit_unset','name':'per-source','key':'burst'}");
	assert_int_equal(f->a->conf->limits[0].burst, 500);
	does(f, "{'cmd':'limit_unset','name':'per-source'}");
	assert_int_equal(f->a->conf->limits[0].rate, 20000);
	refuses(f, "{'cmd':'limit_unset','name':'per-source'}", "no override", 1);
}

static void a_saved_limit_is_in_the_file_and_no_override(void **state)
{
	struct fix *f = *state;

	does(f, "{'cmd':'limit_set','name':'per-source','set':{'rate':'500/s'},'save':true}");
	assert_int_equal(f->a->n_override, 0);
	does(f, "{'cmd':'reload'}");
	assert_int_equal(f->a->conf->limits[0].rate, 500);
	restart(f);
	assert_int_equal(f->a->conf->limits[0].rate, 500);
}

static void a_limit_set_does_not_attach_again_what_was_detached(void **state)
{
	struct fix *f = *state;

	does(f, "{'cmd':'detach'}");
	assert_int_equal(dp.n_at, 0);
	does(f, "{'cmd':'limit_set','name':'per-source','set':{'rate':'500/s'}}");
	assert_int_equal(dp.n_at, 0);
	does(f, "{'cmd':'reload'}");
	assert_int_equal(dp.n_at, 1);
}

static void requests_that_make_no_sense_are_refused(void **state)
{
	static const char *const bad[] = {
		"{'cmd':'no-such'}",
		"{'cmd':''}",
		"{}",
		"{'cmd':'explain'}",
		"{'cmd':'explain','address':'192.0.2.0/24'}",
		"{'cmd':'explain','address':7}",
		"{'cmd':'mode'}",
		"{'cmd':'mode','mode':'off'}",
		"{'cmd':'mode','mode':'monitor','for_s':99999999999}",
		"{'cmd':'reload','confirm_s':99999999}",
		"{'cmd':'limit_reset','name':'x'}",
		"{'cmd':'limit_reset','name':'per-source','ip':'x'}",
		"{'cmd':'limit_set'}",
		"{'cmd':'limit_unset'}",
		"{'cmd':'events','limit':'x'}",
		"{'cmd':'list_show'}",
		"{'cmd':'list_del','list':'block'}",
		"{'cmd':'load_begin','list':'block'}",
		"{'cmd':'load_begin','list':'block','origin':'command'}",
		"{'cmd':'load_add'}",
		"{'cmd':'load_commit'}",
		"{'cmd':'list_add','list':'block','prefix':'192.0.2.9','for_s':99999999999999}",
	};
	struct fix *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		refuses(f, bad[i], "", 2);
}

static const char *explain(struct fix *f, const char *address, const char *key)
{
	static char text[512];
	_cleanup_json_ json_t *j = NULL;
	char q[128];

	(void)snprintf(q, sizeof(q), "{'cmd':'explain','address':'%s'}", address);
	j = ask(f, q);
	(void)snprintf(text, sizeof(text), "%s",
		       weir_json_text_of(j, key) ? weir_json_text_of(j, key) : "");
	return text;
}

static void explain_tells_the_verdict_and_what_lifts_it(void **state)
{
	struct fix *f = *state;

	assert_string_equal(explain(f, "192.0.2.9", "verdict"), "pass");
	assert_string_equal(explain(f, "198.51.100.7", "verdict"), "drop");
	assert_non_null(strstr(explain(f, "198.51.100.7", "lift"), "weir.yaml:5"));
	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.0/24','for_s':60}");
	assert_string_equal(explain(f, "192.0.2.9", "lift"), "weir block del 192.0.2.0/24");
	does(f, "{'cmd':'list_add','list':'allow','prefix':'192.0.2.9'}");
	assert_string_equal(explain(f, "192.0.2.9", "verdict"), "pass");
	assert_non_null(strstr(explain(f, "192.0.2.9", "why"), "beats the block list"));
	does(f, "{'cmd':'list_add','list':'block','prefix':'203.0.0.0/16'}");
	assert_string_equal(explain(f, "203.0.113.5", "verdict"), "pass");
	assert_non_null(strstr(explain(f, "203.0.113.5", "why"), "guarded"));
	assert_string_equal(explain(f, "203.0.1.5", "verdict"), "drop");
}

/* The wall clock's part of a second is not lost on the way. */
static void explain_names_no_end_before_it_is_over(void **state)
{
	__u64 from_ns = weir_clock_ns(CLOCK_REALTIME);
	struct fix *f = *state;
	char end[WEIR_TIME_STRLEN];

	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.0/24','for_s':60}");
	(void)weir_clock_format((__s64)((from_ns + 60 * WEIR_NS_PER_S) / WEIR_NS_PER_S), end);
	/* times of one length: their order is that of the texts; */
	assert_true(strcmp(explain(f, "192.0.2.9", "until"), end) > 0);
}

static void events_are_capped_kept_and_filtered(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *all = NULL, *mine = NULL;
	struct weir_event e = {.family = 4,
			       .protocol = 6,
			       .reason = WEIR_DROP_LIMIT,
			       .stat = 0,
			       .ifindex = 1,
			       .len = 60};

	for (int i = 0; i < 100; i++)
		dp.event_fn(dp.event_arg, &e);
	e.stat = WEIR_NO_LIMIT;
	e.reason = 200; /* the ring is input too */
	dp.event_fn(dp.event_arg, &e);
	all = ask(f, "{'cmd':'events'}");
	assert_in_range(json_array_size(json_object_get(all, "events")), 20,
			41); /* 20 a second, over one edge */
	assert_true(weir_json_u64_of(all, "suppressed") >= 60);
	mine = ask(f, "{'cmd':'events','limit':'per-source'}");
	assert_true(json_array_size(json_object_get(mine, "events")) >= 20);
}

static void status_and_top_have_every_part(void **state)
{
	static const char *const parts[] = {"version",	  "mode",    "generation", "degraded",
					    "interfaces", "totals",  "limits",	   "reasons",
					    "would",	  "sources", "tables",	   "lists",
					    "losses",	  "adoption"};
	struct fix *f = *state;
	_cleanup_json_ json_t *s = NULL, *t = NULL;

	dp.counters.reason.drop_limit.packets = 5;
	weir_agent_tick(f->a);
	s = ask(f, "{'cmd':'status'}");
	t = ask(f, "{'cmd':'top'}");
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (!json_object_get(s, parts[i]))
			fail_msg("status has no %s", parts[i]);
	assert_int_equal(json_array_size(json_object_get(s, "reasons")), 1);
	assert_non_null(json_object_get(t, "loudest"));
}

static void each_pass_of_the_sweep_clears_shared_words(void **state)
{
	struct fix *f = *state;

	for (int pass = 0; pass < 2; pass++) {
		dp.spill[0].word[1] = 7; /* of no group: idle for all */
		dp.spill[1 << (WEIR_SPILL_BITS - 1)].word[5] = 7;
		dp.spill[1 << WEIR_SPILL_BITS].word[1] = 7; /* the other bank */
		event_active(f->a->sweep.timer, EV_TIMEOUT, 0);
		assert_int_equal(event_base_loop(f->a->base, EVLOOP_NONBLOCK), 0);
		assert_int_equal(f->a->sweep.next, 0); /* small tables: a slice is a pass */
		assert_int_equal(dp.spill[0].word[1], 0);
		assert_int_equal(dp.spill[1 << (WEIR_SPILL_BITS - 1)].word[5], 0);
		assert_int_equal(dp.spill[1 << WEIR_SPILL_BITS].word[1], 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PACKETS(an_old_program_that_somebody_attached_is_not_called_protection),
		PACKETS(a_second_agent_of_the_instance_is_refused),
		PACKETS(an_interface_that_fails_at_the_start_leaves_none_attached),
		PACKETS(what_is_no_longer_wanted_is_detached_at_the_start),
		PACKETS(a_temporary_mode_goes_back_and_survives_a_restart),
		PACKETS(the_panic_button_stays_through_reload_and_restart),
		PACKETS(a_temporary_mode_over_another_goes_back_to_what_was_before_both),
		PACKETS(a_mode_that_the_kernel_refuses_is_not_claimed),
		PACKETS(a_limit_set_by_command_lasts_until_reload),
		PACKETS(a_limit_set_wrongly_changes_nothing),
		PACKETS(an_override_can_be_taken_back),
		PACKETS(a_saved_limit_is_in_the_file_and_no_override),
		PACKETS(a_limit_set_does_not_attach_again_what_was_detached),
		PACKETS(requests_that_make_no_sense_are_refused),
		PACKETS(explain_tells_the_verdict_and_what_lifts_it),
		PACKETS(explain_names_no_end_before_it_is_over),
		PACKETS(events_are_capped_kept_and_filtered),
		PACKETS(status_and_top_have_every_part),
		PACKETS(each_pass_of_the_sweep_clears_shared_words),
	};

	return cmocka_run_group_tests_name("agent", tests, open_quiet, close_quiet);
}
