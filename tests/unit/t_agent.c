/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent over a datapath in memory: lists and their sources, what survives a restart, reload, going back, the mode,
 * limits by command. Deadlines are moved, never waited for.
 */
#include <signal.h>
#include <sys/resource.h>

#include "agent_case.h"

#define LISTS "lists:\n  block: [198.51.100.7]\n  never_block: [203.0.113.0/24]\n"

static int set_up(void **state)
{
	struct fix *f;

	if (make_case(state))
		return -1;
	f = *state;
	write_file(f->list, "# comment\n192.0.2.128/25\n198.51.100.7\n");
	write_conf(f, LISTS LIMIT);
	return start(f);
}

static void notes(struct fix *f, const char *text, const char *words)
{
	_cleanup_json_ json_t *j = ask(f, text);
	json_t *note;
	size_t i;
	bool found = false;

	assert_true(weir_json_bool_of(j, "ok"));
	json_array_foreach(json_object_get(j, "notes"), i, note) found =
		found || strstr(json_string_value(note), words);
	if (!found)
		fail_msg("%s: no note says %s", text, words);
}

static __u64 count(struct fix *f, const char *list, const char *what)
{
	_cleanup_json_ json_t *j = ask(f, "{'cmd':'status'}");

	return weir_json_u64_of(json_object_get(json_object_get(j, "lists"), list), what);
}

/* --- lists ---- */

static void limits_are_there_before_anything_is_attached(void **state)
{
	(void)state;
	assert_int_equal(dp.applies, 1);
	assert_int_equal(dp.n_at, 1);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_non_null(dp_has(WEIR_LIST_GUARD, "203.0.113.0/24"));
}

static void a_block_acts_at_once_and_survives_a_restart(void **state)
{
	struct fix *f = *state;
	struct weir_list_item *i;

	does(f,
	     "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','for_s':600,'reason':'scan'}");
	i = dp_has(WEIR_LIST_BLOCK, "192.0.2.9");
	assert_non_null(i);
	assert_in_range(i->expires_ns - weir_now().mono_ns, 595 * WEIR_NS_PER_S,
			600 * WEIR_NS_PER_S);
	assert_int_equal(i->origin, WEIR_ORIGIN_COMMAND);
	dp.n[WEIR_LIST_BLOCK] = 0; /* a reboot */
	restart(f);
	i = dp_has(WEIR_LIST_BLOCK, "192.0.2.9");
	assert_non_null(i);
	assert_in_range(i->expires_ns - weir_now().mono_ns, 590 * WEIR_NS_PER_S,
			601 * WEIR_NS_PER_S);
	does(f, "{'cmd':'list_del','list':'block','prefix':'192.0.2.9'}");
	restart(f);
	assert_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
}

static void adding_again_extends_and_never_shortens(void **state)
{
	struct fix *f = *state;
	__u64 now_ns = weir_now().mono_ns;

	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','for_s':60}");
	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','for_s':600}");
	assert_in_range(dp_has(WEIR_LIST_BLOCK, "192.0.2.9")->expires_ns - now_ns,
			595 * WEIR_NS_PER_S, 605 * WEIR_NS_PER_S);
	notes(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','for_s':60}",
	      "its end stays");
	assert_in_range(dp_has(WEIR_LIST_BLOCK, "192.0.2.9")->expires_ns - now_ns,
			595 * WEIR_NS_PER_S, 605 * WEIR_NS_PER_S);
	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}");
	assert_int_equal(dp_has(WEIR_LIST_BLOCK, "192.0.2.9")->expires_ns, 0);
	notes(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','for_s':60}",
	      "its end stays");
	assert_int_equal(dp_has(WEIR_LIST_BLOCK, "192.0.2.9")->expires_ns, 0);
	notes(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}",
	      "there already, without an end");
	restart(f);
	assert_int_equal(dp_has(WEIR_LIST_BLOCK, "192.0.2.9")->expires_ns, 0);
}

static void one_prefix_may_have_two_origins(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *j = NULL;

	does(f, "{'cmd':'list_add','list':'block','prefix':'198.51.100.7','for_s':60}");
	assert_int_equal(dp_has(WEIR_LIST_BLOCK, "198.51.100.7")->expires_ns,
			 0); /* the file's has no end */
	j = ask(f, "{'cmd':'list_show','list':'block'}");
	assert_int_equal(json_array_size(json_object_get(j, "entries")), 2);
	notes(f, "{'cmd':'list_del','list':'block','prefix':'198.51.100.7'}",
	      "still on the block list");
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
}

static void an_entry_of_the_file_is_not_deleted_by_command(void **state)
{
	struct fix *f = *state;

	refuses(f, "{'cmd':'list_del','list':'block','prefix':'198.51.100.7'}", "weir.yaml:5", 1);
	refuses(f, "{'cmd':'list_del','list':'block','origin':'file'}", "files", 1);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
}

static void deleting_what_is_not_there_is_success(void **state)
{
	does(*state, "{'cmd':'list_del','list':'block','prefix':'192.0.2.77'}");
}

static void wrong_prefixes_are_refused_with_what_would_be_right(void **state)
{
	struct fix *f = *state;

	refuses(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9/24'}",
		"192.0.2.0/24 would be right", 2);
	refuses(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9/33'}", "0 to 32", 2);
	refuses(f, "{'cmd':'list_add','list':'block','prefix':'2001:db8::/129'}", "0 to 128", 2);
	refuses(f, "{'cmd':'list_add','list':'block','prefix':'example.org'}", "neither an address",
		2);
	refuses(f, "{'cmd':'list_add','list':'block'}", "neither an address", 2);
	refuses(f, "{'cmd':'list_add','list':'grey','prefix':'192.0.2.9'}", "no such list", 2);
	refuses(f, "{'cmd':'list_add','list':'guard','prefix':'192.0.2.9'}", "follows the host", 2);
	refuses(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','origin':'a b'}",
		"letters", 2);
}

static void guarded_addresses_are_blocked_only_by_force(void **state)
{
	struct fix *f = *state;

	refuses(f, "{'cmd':'list_add','list':'block','prefix':'203.0.113.53'}", "never_block", 1);
	refuses(f, "{'cmd':'list_add','list':'block','prefix':'203.0.113.0/24'}", "guarded", 1);
	assert_null(dp_has(WEIR_LIST_BLOCK, "203.0.113.53"));
	notes(f, "{'cmd':'list_add','list':'block','prefix':'203.0.113.53','force':true}",
	      "by force");
	assert_int_equal(dp_has(WEIR_LIST_BLOCK, "203.0.113.53")->flags, WEIR_ENTRY_FORCE);
	restart(f);
	assert_int_equal(dp_has(WEIR_LIST_BLOCK, "203.0.113.53")->flags, WEIR_ENTRY_FORCE);
	notes(f, "{'cmd':'list_add','list':'block','prefix':'203.0.0.0/16'}", "stays reachable");
	assert_int_equal(dp_has(WEIR_LIST_BLOCK, "203.0.0.0/16")->flags, 0);
}

static void who_gives_the_command_is_guarded(void **state)
{
	struct fix *f = *state;

	refuses(f,
		"{'cmd':'list_add','list':'block','prefix':'198.51.100.200','ssh':'198.51.100.200 "
		"50022 192.0.2.1 22'}",
		"administrator's session", 1);
	assert_non_null(dp_has(WEIR_LIST_GUARD, "198.51.100.200"));
	f->a->session[0].until_ns = 1; /* an hour later */
	for (int i = 0; i < WEIR_SESSIONS_MAX; i++)
		f->a->session[i].until_ns = f->a->session[i].until_ns ? 1 : 0;
	weir_agent_tick(f->a);
	assert_int_equal(weir_agent_refresh_guards(f->a), 0);
	assert_null(dp_has(WEIR_LIST_GUARD, "198.51.100.200"));
	assert_non_null(dp_has(WEIR_LIST_GUARD, "203.0.113.0/24"));
}

static void an_allowed_block_is_said_to_be_in_vain(void **state)
{
	struct fix *f = *state;

	does(f, "{'cmd':'list_add','list':'allow','prefix':'192.0.2.0/24'}");
	notes(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}", "allow list");
}

static void expired_entries_leave_the_book_and_the_file(void **state)
{
	struct fix *f = *state;

	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','for_s':600}");
	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.10'}");
	for (size_t i = 0; i < f->a->book->list[WEIR_LIST_BLOCK].n; i++)
		if (f->a->book->list[WEIR_LIST_BLOCK].item[i].expires_ns)
			f->a->book->list[WEIR_LIST_BLOCK].item[i].expires_ns = 1;
	f->a->next_expiry_ns = 1;
	weir_agent_tick(f->a);
	assert_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.10"));
	assert_int_equal(count(f, "block", "command"), 1);
}

static void what_the_kernel_refuses_changes_nothing(void **state)
{
	struct fix *f = *state;

	dp.fail_list_add = -E2BIG;
	refuses(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}", "kernel refuses", 1);
	dp.fail_list_add = 0;
	assert_int_equal(count(f, "block", "command"), 0);
	restart(f);
	assert_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
}

static void what_others_change_in_the_kernel_is_repaired(void **state)
{
	struct fix *f = *state;

	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}");
	dp.n[WEIR_LIST_BLOCK] = 0;
	for (int i = 0; i < 3; i++) {
		f->a->reconcile_ns = 0;
		weir_agent_tick(f->a);
	}
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_int_equal(f->a->reconciled, 2);
}

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
	assert_int_equal(weir_prefix_parse("192.0.2.9", 9, false, &p), 0);
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

	assert_int_equal(weir_prefix_parse("192.0.2.9", 9, false, &s.prefix), 0);
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

/* --- load ---- */

static void more_than_fits_is_refused_as_a_whole(void **state)
{
	struct fix *f = *state;
	_cleanup_(weir_book_freep) struct weir_book *b = weir_book_copy(f->a->book);
	struct weir_book_entry e = {.origin = WEIR_ORIGIN_COMMAND,
				    .prefix = {.family = 4, .len = 32}};

	for (__u32 i = 0; i < WEIR_LIST_ROOM + 10; i++) {
		e.prefix.addr.word[0] = __builtin_bswap32(0x0a000000 + i);
		assert_int_equal(weir_book_add(b, WEIR_LIST_BLOCK, &e), 0);
	}
	assert_int_equal(weir_agent_take_book(f->a, &b, &f->e), -ENOSPC);
	assert_non_null(strstr(f->e.text, "11 too many")); /* one is the file's */
	assert_int_equal(dp.n[WEIR_LIST_BLOCK], 1);
}

/* --- reload ---- */

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

/* --- going back ---- */

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

/* --- the rest ---- */

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

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(limits_are_there_before_anything_is_attached),
		T(a_block_acts_at_once_and_survives_a_restart),
		T(adding_again_extends_and_never_shortens),
		T(one_prefix_may_have_two_origins),
		T(an_entry_of_the_file_is_not_deleted_by_command),
		T(deleting_what_is_not_there_is_success),
		T(wrong_prefixes_are_refused_with_what_would_be_right),
		T(guarded_addresses_are_blocked_only_by_force),
		T(who_gives_the_command_is_guarded),
		T(an_allowed_block_is_said_to_be_in_vain),
		T(expired_entries_leave_the_book_and_the_file),
		T(what_the_kernel_refuses_changes_nothing),
		T(what_others_change_in_the_kernel_is_repaired),
		T(a_full_disk_does_not_stop_a_block_and_is_said),
		T(an_old_program_that_somebody_attached_is_not_called_protection),
		T(kept_ends_follow_a_clock_that_is_set),
		T(spans_given_now_do_not_change_with_the_clock),
		T(what_seemed_over_at_boot_comes_back_with_the_right_clock),
		T(a_full_disk_at_start_is_protected_with_what_can_be_read),
		T(a_state_file_out_of_reach_is_read_when_it_is_back),
		T(more_than_fits_is_refused_as_a_whole),
		T(a_reload_changes_limits_and_lists),
		T(a_broken_file_changes_nothing_and_is_remembered),
		T(a_problem_without_a_column_is_said_without_one),
		T(a_bad_list_file_changes_nothing_and_its_line_is_named),
		T(what_takes_a_restart_is_said_and_not_half_done),
		T(what_the_kernel_refuses_at_a_reload_changes_nothing),
		T(a_missing_interface_is_refused_with_those_there_are),
		T(an_unconfirmed_reload_goes_back),
		T(a_confirmed_reload_stays),
		T(a_wait_for_confirm_survives_a_restart),
		T(a_wait_that_ended_while_no_agent_ran_goes_back_at_the_start),
		T(a_second_reload_keeps_the_way_back_to_what_was_confirmed),
		T(an_unconfirmed_start_goes_to_monitor_mode),
		T(a_temporary_mode_goes_back_and_survives_a_restart),
		T(the_panic_button_stays_through_reload_and_restart),
		T(a_temporary_mode_over_another_goes_back_to_what_was_before_both),
		T(a_mode_that_the_kernel_refuses_is_not_claimed),
		T(a_limit_set_by_command_lasts_until_reload),
		T(a_limit_set_wrongly_changes_nothing),
		T(an_override_can_be_taken_back),
		T(a_saved_limit_is_in_the_file_and_no_override),
		T(a_limit_set_does_not_attach_again_what_was_detached),
		T(a_second_agent_of_the_instance_is_refused),
		T(an_interface_that_fails_at_the_start_leaves_none_attached),
		T(what_is_no_longer_wanted_is_detached_at_the_start),
		T(requests_that_make_no_sense_are_refused),
		T(explain_tells_the_verdict_and_what_lifts_it),
		T(events_are_capped_kept_and_filtered),
		T(status_and_top_have_every_part),
		T(each_pass_of_the_sweep_clears_shared_words),
	};
	int r;

	quiet = fopen("/dev/null", "we");
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)fclose(quiet);
	return r;
}
