/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lists by command over a datapath in memory: who is guarded, which source an entry has, what is refused. */
#include "agent_case.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		PACKETS(limits_are_there_before_anything_is_attached),
		PACKETS(a_block_acts_at_once_and_survives_a_restart),
		PACKETS(adding_again_extends_and_never_shortens),
		PACKETS(one_prefix_may_have_two_origins),
		PACKETS(an_entry_of_the_file_is_not_deleted_by_command),
		PACKETS(deleting_what_is_not_there_is_success),
		PACKETS(wrong_prefixes_are_refused_with_what_would_be_right),
		PACKETS(guarded_addresses_are_blocked_only_by_force),
		PACKETS(who_gives_the_command_is_guarded),
		PACKETS(an_allowed_block_is_said_to_be_in_vain),
		PACKETS(expired_entries_leave_the_book_and_the_file),
		PACKETS(what_the_kernel_refuses_changes_nothing),
		PACKETS(what_others_change_in_the_kernel_is_repaired),
		PACKETS(more_than_fits_is_refused_as_a_whole),
	};

	return cmocka_run_group_tests_name("agent_list", tests, open_quiet, close_quiet);
}
