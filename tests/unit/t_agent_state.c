/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an agent keeps of its lists across restarts, full disks and clocks that are set. Deadlines are moved, never waited
 * for.
 */
#include <signal.h>
#include <sys/resource.h>

#include "agent_case.h"
#include "tests/lib/prefix.h"

static void a_full_disk_does_not_stop_a_block_and_is_said(void **state)
{
	struct rlimit old, none = {};
	struct fix *f = *state;
	_cleanup_json_ json_t *s = NULL;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	none.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	notes(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}",
	      "a restart would undo it");
	s = ask(f, "{'cmd':'status'}");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	assert_true(json_array_size(json_object_get(s, "degraded")) >= 1);
	weir_agent_tick(f->a); /* the disk has room again */
	assert_string_equal(f->a->store_error, "");
	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.10'}");
	restart(f);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.10"));
}

/* The wall clock is set by @step_s, and monotonic time goes on by a second. */
static void set_clock(struct fix *f, struct weir_now *now, __s64 step_s)
{
	now->wall_s += step_s + 1;
	now->mono_ns += WEIR_NS_PER_S;
	weir_agent_follow_clock(f->a, now);
	weir_agent_deadlines(f->a, now);
	weir_agent_expire(f->a, now);
	f->a->store_again_ns = 0;
	weir_agent_store_again(f->a, now);
}

static void kept_ends_follow_a_clock_that_is_set(void **state)
{
	struct fix *f = *state;
	struct weir_now now;
	struct weir_list_item *i;

	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','for_s':600}");
	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.10','for_s':60}");
	does(f, "{'cmd':'mode','mode':'monitor','for_s':600}");
	restart(f);
	now = weir_now();
	set_clock(f, &now, -100); /* it was ahead at boot */
	i = dp_has(WEIR_LIST_BLOCK, "192.0.2.9");
	assert_non_null(i);
	assert_in_range(i->expires_ns - now.mono_ns, 690 * WEIR_NS_PER_S, 701 * WEIR_NS_PER_S);
	assert_in_range(f->a->mode.until_ns - now.mono_ns, 690 * WEIR_NS_PER_S,
			701 * WEIR_NS_PER_S);
	set_clock(f, &now, 400);
	assert_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.10"));
	i = dp_has(WEIR_LIST_BLOCK, "192.0.2.9");
	assert_non_null(i);
	assert_in_range(i->expires_ns - now.mono_ns, 290 * WEIR_NS_PER_S, 301 * WEIR_NS_PER_S);
	assert_int_equal(f->a->in_force, WEIR_MODE_MONITOR);
	set_clock(f, &now, 400);
	assert_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_int_equal(f->a->in_force, WEIR_MODE_ENFORCE);
}

static void spans_given_now_do_not_change_with_the_clock(void **state)
{
	struct fix *f = *state;
	struct weir_now now = weir_now();
	const struct weir_book_entry *e = NULL;
	struct weir_prefix p;
	__s64 until_s;
	__u64 end_ns, until_ns;

	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','for_s':600}");
	does(f, "{'cmd':'mode','mode':'monitor','for_s':600}");
	end_ns = dp_has(WEIR_LIST_BLOCK, "192.0.2.9")->expires_ns;
	until_ns = f->a->mode.until_ns;
	until_s = f->a->mode.until_s;
	set_clock(f, &now, 50000000);
	assert_int_equal(dp_has(WEIR_LIST_BLOCK, "192.0.2.9")->expires_ns, end_ns);
	assert_int_equal(f->a->mode.until_ns, until_ns);
	assert_in_range(f->a->mode.until_s - until_s, 49999998, 50000002);
	p = prefix_of("192.0.2.9");
	assert_int_equal(weir_book_find(f->a->book, WEIR_LIST_BLOCK, &p, &e), 1);
	assert_in_range(e->expires_s - until_s, 49999998, 50000002);
	assert_false(f->a->unstored); /* the file has the new end */
	set_clock(f, &now, 1);	      /* no step: rounding */
	assert_int_equal(f->a->mode.until_ns, until_ns);
}

static void what_seemed_over_at_boot_comes_back_with_the_right_clock(void **state)
{
	struct fix *f = *state;
	struct weir_now now;
	struct weir_state_entry s = {.list = WEIR_LIST_BLOCK, .origin = "command", .created_s = 1};

	s.prefix = prefix_of("192.0.2.9");
	s.expires_s = weir_now().wall_s - 1000;
	assert_int_equal(weir_state_put(f->a->state, &s), 0);
	restart(f);
	assert_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	now = weir_now();
	set_clock(f, &now, -5000);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
}

static void set_room(bool room)
{
	struct rlimit l;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
	l.rlim_cur = room ? l.rlim_max : 0;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static void a_full_disk_at_start_is_protected_with_what_can_be_read(void **state)
{
	struct fix *f = *state;
	int r;

	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}");
	stop(f);
	dp.n[WEIR_LIST_BLOCK] = 0;
	set_room(false);
	r = start(f);
	if (r == 0)
		does(f, "{'cmd':'mode','mode':'monitor'}");
	set_room(true);
	assert_int_equal(r, 0);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_true(is_degraded(f, "make room"));
	f->a->store_again_ns = 0;
	weir_agent_tick(f->a);
	assert_false(is_degraded(f, "state file"));
	restart(f);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	assert_int_equal(f->a->in_force, WEIR_MODE_MONITOR);
}

static void a_state_file_out_of_reach_is_read_when_it_is_back(void **state)
{
	struct fix *f = *state;
	char db[160], away[160];

	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}");
	stop(f);
	dp.n[WEIR_LIST_BLOCK] = 0;
	(void)snprintf(db, sizeof(db), "%s/state/weir.db", f->dir);
	(void)snprintf(away, sizeof(away), "%s/state/away", f->dir);
	assert_int_equal(rename(db, away), 0);
	assert_int_equal(mkdir(db, 0700), 0); /* cannot be opened, also by root */
	assert_int_equal(start(f), 0);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	assert_true(is_degraded(f, "could not be read"));
	notes(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.10'}",
	      "a restart would undo it");
	assert_int_equal(rmdir(db), 0);
	assert_int_equal(rename(away, db), 0);
	f->a->store_again_ns = 0;
	weir_agent_tick(f->a);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	assert_false(is_degraded(f, "state file"));
	dp.n[WEIR_LIST_BLOCK] = 0;
	restart(f);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.10"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PACKETS(a_full_disk_does_not_stop_a_block_and_is_said),
		PACKETS(kept_ends_follow_a_clock_that_is_set),
		PACKETS(spans_given_now_do_not_change_with_the_clock),
		PACKETS(what_seemed_over_at_boot_comes_back_with_the_right_clock),
		PACKETS(a_full_disk_at_start_is_protected_with_what_can_be_read),
		PACKETS(a_state_file_out_of_reach_is_read_when_it_is_back),
	};

	return cmocka_run_group_tests_name("agent_state", tests, open_quiet, close_quiet);
}
