/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What changes while the program runs: limits, the mode, lists, and the events that tell of it. */
#include "datapath_case.h"

static void a_new_rate_keeps_state_and_a_new_limit_begins_empty(void **state)
{
	struct fix *f = *state;

	open_it(f);
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	f->limit[0].burst = BURST + 5;
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 15), 5);
	f->limit[1] = f->limit[0];
	f->limit[1].burst = 3;
	(void)snprintf(f->limit[1].name, sizeof(f->limit[1].name), "second");
	f->conf.n_limits = 2;
	apply_it(f);
	assert_int_equal(weir_datapath_policy(f->d)->n_limits, 2);
	assert_int_equal(passed_of("192.0.2.9", 15), 0);
	assert_int_equal(passed_of("192.0.2.10", 15), 3);
}

static void a_limit_does_not_inherit_counts_of_its_index(void **state)
{
	struct weir_counters *c = calloc(1, sizeof(*c));
	struct fix *f = *state;
	unsigned stat = 0;

	assert_non_null(c);
	open_it(f);
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	for (int i = 0; i < WEIR_STATS_MAX; i++) { /* until the first index has another owner */
		(void)snprintf(f->limit[0].name, sizeof(f->limit[0].name), "limit-%d", i);
		apply_it(f);
	}
	stat = weir_datapath_policy(f->d)->limit[0].stat;
	assert_int_equal(passed_of("192.0.2.10", 15), BURST);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(weir_datapath_counters(f->d, c), 0);
		assert_int_equal(c->limit[stat].pass.packets, BURST);
		assert_int_equal(c->limit[stat].over.packets, 5);
		assert_int_equal(c->reason.pass_default.packets, 2 * BURST);
		reopen(f);
	}
	free(c);
}

static void monitor_mode_stops_nothing(void **state)
{
	struct weir_counters *c = calloc(1, sizeof(*c));
	struct fix *f = *state;

	assert_non_null(c);
	open_it(f);
	apply_it(f);
	assert_int_equal(weir_datapath_set_mode(f->d, WEIR_MODE_MONITOR, &f->e), 0);
	assert_int_equal(passed_of("192.0.2.9", 15), 15);
	assert_int_equal(weir_datapath_set_mode(f->d, WEIR_MODE_ENFORCE, &f->e), 0);
	assert_int_equal(passed_of("192.0.2.9", 5), 0);
	assert_int_equal(weir_datapath_counters(f->d, c), 0);
	assert_int_equal(c->reason.pass_default.packets, BURST);
	assert_int_equal(c->reason.pass_monitor.packets, 15 - BURST);
	assert_int_equal(c->reason.drop_limit.packets, 5);
	free(c);
}

static void a_refused_change_changes_nothing(void **state)
{
	struct fix *f = *state;
	size_t n = WEIR_LIST_ROOM + 7;
	struct weir_lists lists = {.n = {[WEIR_LIST_BLOCK] = n}};
	struct weir_list_item *it = calloc(n, sizeof(*it));
	__u32 generation;

	assert_non_null(it);
	lists.item[WEIR_LIST_BLOCK] = it;
	for (size_t i = 0; i < n; i++) {
		it[i] = (struct weir_list_item){.prefix = {.family = 4, .len = 32}};
		it[i].prefix.addr.word[0] = __builtin_bswap32(0x0a000000u + (__u32)i);
	}
	open_it(f);
	apply_it(f);
	generation = weir_datapath_policy(f->d)->generation;
	f->limit[0].burst = 1;
	assert_int_equal(weir_datapath_apply(f->d, &f->conf, WEIR_MODE_ENFORCE, &lists, &f->e),
			 -ENOSPC);
	assert_says(f->e.text, "7 do not fit");
	assert_int_equal(weir_datapath_policy(f->d)->generation, generation);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	assert_int_equal(send_from("10.0.0.1"), XDP_PASS);
	lists.n[WEIR_LIST_BLOCK] = WEIR_LIST_ROOM;
	assert_int_equal(weir_datapath_apply(f->d, &f->conf, WEIR_MODE_ENFORCE, &lists, &f->e), 0);
	assert_int_equal(send_from("10.0.0.1"), XDP_DROP);
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK,
						(struct weir_list_item[]){item("10.9.9.1", 0),
									  item("10.9.9.2", 0),
									  item("10.0.0.1", 0)},
						3, &f->e),
			 -ENOSPC);
	assert_says(f->e.text, "holds 65536 entries");
	assert_says(f->e.text, "2 do not fit");
	free(it);
}

static void lists_are_swapped_whole(void **state)
{
	struct fix *f = *state;
	struct weir_list_item a[] = {item("198.51.100.0/24", 0), item("203.0.113.0/28", 0)};
	struct weir_list_item ok[] = {item("198.51.100.7", 0)};
	struct weir_lists lists = {.item = {ok, a, NULL}, .n = {1, 2, 0}};

	open_it(f);
	assert_int_equal(weir_datapath_apply(f->d, &f->conf, WEIR_MODE_ENFORCE, &lists, &f->e), 0);
	assert_int_equal(send_from("198.51.100.8"), XDP_DROP);
	assert_int_equal(send_from("203.0.113.15"), XDP_DROP);
	assert_int_equal(send_from("203.0.113.16"), XDP_PASS);
	assert_int_equal(passed_of("198.51.100.7", 30), 30); /* allow beats block and limits */
	a[0] = item("203.0.113.16", 0);
	lists.n[WEIR_LIST_ALLOW] = 0;
	assert_int_equal(weir_datapath_apply(f->d, &f->conf, WEIR_MODE_ENFORCE, &lists, &f->e), 0);
	assert_int_equal(send_from("198.51.100.8"), XDP_PASS);
	assert_int_equal(send_from("203.0.113.16"), XDP_DROP);
	reopen(f);
	assert_int_equal(send_from("203.0.113.16"), XDP_DROP);
}

static void entries_come_and_go_in_place(void **state)
{
	struct fix *f = *state;
	struct weir_list_item it[] = {item("198.51.100.7", 0), item("203.0.113.0/24", 0),
				      item("198.51.100.0/25", wait_now_ns() - 1)};
	struct weir_list_item *read = NULL;
	struct weir_prefix gone[2];
	size_t n = 0;

	open_it(f);
	apply_it(f);
	assert_int_equal(send_from("198.51.100.7"), XDP_PASS);
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK, it, 3, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_DROP);
	assert_int_equal(send_from("203.0.113.77"), XDP_DROP); /* a length that was not there */
	assert_int_equal(send_from("198.51.100.9"), XDP_PASS); /* an expired entry is none */
	assert_int_equal(weir_datapath_list_read(f->d, WEIR_LIST_BLOCK, &read, &n), 0);
	assert_int_equal(n, 2);
	free(read);
	gone[0] = item("192.0.2.200", 0).prefix; /* never was there */
	gone[1] = it[0].prefix;
	assert_int_equal(weir_datapath_list_del(f->d, WEIR_LIST_BLOCK, gone, 2, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_PASS);
	assert_int_equal(send_from("203.0.113.77"), XDP_DROP);
}

static void adding_again_sets_the_new_expiry(void **state)
{
	struct fix *f = *state;
	struct weir_list_item it = item("198.51.100.7", wait_now_ns() + 3600ull * 1000000000ull);

	open_it(f);
	apply_it(f);
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK, &it, 1, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_DROP);
	it.expires_ns = 1; /* long ago: as good as a deletion */
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK, &it, 1, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_PASS);
	it.expires_ns = 0;
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK, &it, 1, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_DROP);
	it.prefix.len = 32;
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_GUARD, &it, 1, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_PASS); /* guarded */
}

static void count_event(void *arg, const struct weir_event *event)
{
	int *n = arg;

	if (event->reason == WEIR_DROP_LIMIT && event->family == 4)
		(*n)++;
}

static void drops_arrive_as_events(void **state)
{
	struct fix *f = *state;
	int n = 0;

	open_it(f);
	apply_it(f);
	assert_int_equal(weir_datapath_events_open(f->d, count_event, &n, &f->e), 0);
	assert_true(weir_datapath_events_fd(f->d) >= 0);
	assert_int_equal(passed_of("192.0.2.9", BURST + 4), BURST);
	assert_true(weir_datapath_events_consume(f->d) >= 0);
	assert_int_equal(n, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_rate_keeps_state_and_a_new_limit_begins_empty),
		TEST(a_limit_does_not_inherit_counts_of_its_index),
		TEST(monitor_mode_stops_nothing),
		TEST(a_refused_change_changes_nothing),
		TEST(lists_are_swapped_whole),
		TEST(entries_come_and_go_in_place),
		TEST(adding_again_sets_the_new_expiry),
		TEST(drops_arrive_as_events),
	};

	return datapath_run("datapath_apply", tests);
}
