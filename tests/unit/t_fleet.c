/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What several statements about one prefix mean together, how they are written, and what a host makes of the store's word
 * and its own changes on top of it. No server, no clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "user/fleet/fleet_int.h"

#define NOW 1000000ull

static struct weir_fleet_entry entry(const char *origin, __u64 end_ms, const char *reason)
{
	return (struct weir_fleet_entry){.origin = origin,
					 .host = "h",
					 .who = "w",
					 .reason = reason,
					 .end_ms = end_ms,
					 .created_ms = NOW};
}

static struct weir_fleet_key key(const char *text)
{
	struct weir_fleet_key k;

	assert_int_equal(weir_fleet_key_parse(text, strlen(text), &k), 0);
	return k;
}

/* --- merge ---- */

static void the_later_end_wins_and_for_ever_beats_all(void **state)
{
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX], add;
	size_t n = 0;

	(void)state;
	add = entry("command", NOW + 10, "a");
	n = weir_fleet_merge(e, n, &add);
	add = entry("command", NOW + 5, "b");
	n = weir_fleet_merge(e, n, &add);
	assert_int_equal(n, 1);
	assert_int_equal(e[0].end_ms, NOW + 10);
	assert_string_equal(e[0].reason, "b"); /* the newer one */
	add = entry("command", 0, "");
	n = weir_fleet_merge(e, n, &add);
	assert_int_equal(e[0].end_ms, 0);
	assert_string_equal(e[0].reason, "b"); /* none is no newer one */
	add = entry("command", NOW + 99, "c");
	n = weir_fleet_merge(e, n, &add);
	assert_int_equal(n, 1);
	assert_int_equal(e[0].end_ms, 0);
}

static void origins_stand_beside_each_other_up_to_a_number(void **state)
{
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX], add;
	char name[WEIR_FLEET_ORIGINS_MAX + 1][8];
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i <= WEIR_FLEET_ORIGINS_MAX; i++) {
		(void)snprintf(name[i], sizeof(name[i]), "o%zu", i);
		add = entry(name[i], i == 3 ? NOW + 1 : NOW + 100 + i, "");
		n = weir_fleet_merge(e, n, &add);
	}
	assert_int_equal(n, WEIR_FLEET_ORIGINS_MAX);
	for (size_t i = 0; i < n; i++)
		assert_string_not_equal(e[i].origin, "o3"); /* it would have ended first */
}

static void what_has_ended_is_dropped(void **state)
{
	struct weir_fleet_entry e[3] = {entry("a", NOW, ""), entry("b", NOW + 1, ""),
					entry("c", 0, "")};

	(void)state;
	assert_int_equal(weir_fleet_drop_over(e, 3, NOW), 2);
	assert_string_equal(e[0].origin, "b");
	assert_string_equal(e[1].origin, "c");
}

static void an_origin_stands_for_its_rules(void **state)
{
	(void)state;
	assert_true(weir_fleet_has_origin("escalation:login", "escalation", false));
	assert_true(weir_fleet_has_origin("escalation", "escalation", false));
	assert_false(weir_fleet_has_origin("escalations", "escalation", false));
	assert_false(weir_fleet_has_origin("escalation:login", "escalation", true));
	assert_true(weir_fleet_has_origin("anything", "", true));
	assert_true(weir_fleet_has_origin("anything", NULL, false));
}

/* --- text ---- */

static void lines_are_written_and_read(void **state)
{
	static const char ends[] = "9\t0\t5,8:6,7:0\t1\t0\to\th\tw\tr\n";
	struct weir_fleet_entry e[2] = {entry("command", NOW, "a reason, with = and \"quotes\""),
					entry("escalation:x", 0, "")};
	struct weir_fleet_lines l;
	char text[1024];
	size_t n = weir_fleet_lines_write(e, 2, text, sizeof(text));

	(void)state;
	assert_true(n > 0);
	weir_fleet_lines_read(text, n, &l);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.entry[0].reason, e[0].reason);
	assert_int_equal(l.entry[0].end_ms, NOW);
	assert_string_equal(l.entry[1].origin, "escalation:x");
	assert_int_equal(weir_fleet_lines_write(e, 2, text, n), 0); /* no room for its end */
	weir_fleet_lines_read(ends, strlen(ends), &l);
	assert_int_equal(l.n, 1);
	assert_int_equal(l.entry[0].end_ms, 0); /* the latest of its ends is the last */
}

static void hostile_lines_are_left_out(void **state)
{
	static const char *const bad[] = {
		"",
		"\n",
		"5\t0\t1\t2\t3\n",
		"5\t0\tx\t2\t3\to\th\tw\tr\n",
		"x\t0\t1\t2\t3\to\th\tw\tr\n",
		"5\t99999999999999999\t1\t2\t3\to\th\tw\tr\n",
		"5\t0\t1\t2\t3\t\th\tw\tr\n",
		"5\t0\t1\t2\t99999999999\to\th\tw\tr\n",
		"5\t0\t99999999999999999999\t2\t3\to\th\tw\tr\n",
		"5\t0\t1\t2\t3\to\th\tw\tr\tmore\n",
		"5\t0\t1\t2\t3\to\th\tw\tno end of line",
		"5\t0\t-1\t2\t3\to\th\tw\tr\n",
		"5\t0\t1,2\t2\t3\to\th\tw\tr\n",
		"5\t0\t1,2:x\t2\t3\to\th\tw\tr\n",
		"5\t0\t1,2:\t2\t3\to\th\tw\tr\n",
	};
	struct weir_fleet_lines l;
	char big[WEIR_FLEET_VALUE_MAX + 10];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		weir_fleet_lines_read(bad[i], strlen(bad[i]), &l);
		if (l.n)
			fail_msg("it is believed: %s", bad[i]);
	}
	memset(big, 'x', sizeof(big));
	weir_fleet_lines_read(big, sizeof(big), &l);
	assert_int_equal(l.n, 0);
	weir_fleet_lines_read("bad\n5\t0\t1\t2\t3\to\th\tw\tr\n", 22, &l);
	assert_int_equal(l.n, 1); /* the others count */
}

static void what_is_deleted_is_left_out_and_its_version_known(void **state)
{
	static const char body[] = "3\n"
				   "7\t5\t0\t2\t0\tanew\th\tw\tr\n"
				   "0\t9\t0\t0\t0\tdeleted\t\t\t\n"
				   "6\t0\t0\t2\t0\tplain\th\tw\tr\n",
			  *const bad[] = {"", "3", "\n", "x\n", "99999999999999999999\n"};
	struct weir_fleet_lines l;

	(void)state;
	weir_fleet_body_read(body, strlen(body), &l);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.entry[0].origin, "anew");
	assert_string_equal(l.entry[1].origin, "plain");
	assert_int_equal(l.gone, 9);
	assert_int_equal(l.said, 7);
	weir_fleet_body_read("12\n", 3, &l);
	assert_int_equal(l.n, 0);
	assert_int_equal(l.gone, 12);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		weir_fleet_body_read(bad[i], strlen(bad[i]), &l);
		assert_true(!l.n && !l.gone);
	}
	weir_fleet_body_read(NULL, 0, &l);
	assert_true(!l.n && !l.gone);
}

static void values_are_a_version_and_a_body(void **state)
{
	const char *body;
	__u64 version;
	size_t n;

	(void)state;
	assert_int_equal(weir_fleet_value_read("17 3\nx", 6, &version, &body, &n), 0);
	assert_int_equal(version, 17);
	assert_int_equal(n, 3);
	assert_memory_equal(body, "3\nx", 3);
	assert_true(weir_fleet_value_read("", 0, &version, &body, &n) < 0);
	assert_true(weir_fleet_value_read("17", 2, &version, &body, &n) < 0);
	assert_true(weir_fleet_value_read("x 3\n", 4, &version, &body, &n) < 0);
	assert_true(weir_fleet_value_read(" 3\n", 3, &version, &body, &n) < 0);
}

static void keys_are_one_spelling(void **state)
{
	static const char *const bad[] = {"block",
					  "block ",
					  "guard 192.0.2.1",
					  "block 192.0.2.1/24",
					  "block 192.0.2.1 ",
					  "blocks 192.0.2.1",
					  "allow x"};
	char buf[WEIR_FLEET_KEY_STRLEN];
	struct weir_fleet_key k = key("block 2001:db8::/32");

	(void)state;
	assert_string_equal(weir_fleet_key_format(&k, buf), "block 2001:db8::/32");
	k = key("allow 192.0.2.1/32");
	assert_string_equal(weir_fleet_key_format(&k, buf), "allow 192.0.2.1");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_true(weir_fleet_key_parse(bad[i], strlen(bad[i]), &k) < 0);
}

static void versions_are_stream_ids_in_order(void **state)
{
	(void)state;
	assert_int_equal(weir_fleet_version("1795977139110-3", 15), 1795977139110ull * 4096 + 3);
	assert_true(weir_fleet_version("1795977139110-4095", 18) <
		    weir_fleet_version("1795977139111-0", 15));
	assert_int_equal(weir_fleet_version("1795977139110", 13), 0);
	assert_int_equal(weir_fleet_version("x-1", 3), 0);
	assert_int_equal(weir_fleet_version("1-4096", 6), 0);
}

/* --- the replica ---- */

static int set_up(void **state)
{
	static struct weir_fleet_replica r;

	*state = &r;
	return weir_fleet_replica_init(&r);
}

static int tear_down(void **state)
{
	weir_fleet_replica_done(*state);
	return 0;
}

#define LINE(origin, end) "5\t0\t" #end "\t1000000\t0\t" origin "\th\tw\tr\n"

static int learn(struct weir_fleet_replica *r, struct weir_fleet_item *i, __u64 version,
		 const char *body)
{
	return weir_fleet_learn(r, i, version, body, body ? strlen(body) : 0);
}

static size_t count(const struct weir_fleet_item *i)
{
	struct weir_fleet_lines l;

	weir_fleet_effective(i, NOW, &l);
	return l.n;
}

static void an_older_word_never_replaces_a_newer_one(void **state)
{
	struct weir_fleet_replica *r = *state;
	struct weir_fleet_key k = key("block 192.0.2.1");
	struct weir_fleet_item *i = weir_fleet_item(r, &k);

	assert_int_equal(learn(r, i, 5, "0\n" LINE("command", 0)), 1);
	assert_int_equal(learn(r, i, 5, NULL), 0);
	assert_int_equal(learn(r, i, 4, NULL), 0);
	assert_int_equal(count(i), 1);
	assert_int_equal(learn(r, i, 6, "6\n"), 1); /* a deletion */
	assert_int_equal(i->gone, 6);
	assert_int_equal(learn(r, i, 5, "0\n" LINE("command", 0)), 0);
	assert_int_equal(count(i), 0);
	assert_int_equal(r->n_there, 0);
	assert_ptr_equal(weir_fleet_find(r, &k), i);
}

static void of_one_version_the_word_counts_in_which_more_was_said(void **state)
{
	struct weir_fleet_replica *r = *state;
	struct weir_fleet_key k = key("block 192.0.2.1");
	struct weir_fleet_item *i = weir_fleet_item(r, &k);

	assert_int_equal(learn(r, i, 5, "0\n5\t0\t0\t1\t0\to\th\tw\tr\n"), 1);
	assert_int_equal(learn(r, i, 5, "0\n8\t0\t0\t1\t0\to\th\tw\tr\n"), 1);
	assert_int_equal(i->said, 8);
	assert_int_equal(learn(r, i, 5, "0\n5\t0\t0\t1\t0\to\th\tw\tr\n"), 0);
	assert_int_equal(r->n_there, 1);
}

static void own_changes_act_on_top_in_their_order(void **state)
{
	struct weir_fleet_replica *r = *state;
	struct weir_fleet_key k = key("block 192.0.2.1");
	struct weir_fleet_item *i = weir_fleet_item(r, &k);
	struct weir_fleet_op *op[3];

	(void)learn(r, i, 5, "0\n" LINE("command", 0) LINE("drop.netset", 0));
	op[0] = weir_fleet_op_new(r, WEIR_FLEET_DEL, i, k.list, "command", NULL);
	assert_int_equal(count(i), 1);
	op[1] = weir_fleet_op_new(r, WEIR_FLEET_ADD, i, k.list, LINE("escalation:x", 2000000),
				  NULL);
	assert_int_equal(count(i), 2);
	op[2] = weir_fleet_op_new(r, WEIR_FLEET_DEL, i, k.list, "", NULL);
	assert_int_equal(count(i), 0);
	/* what the store says meanwhile stays under them */
	(void)learn(r, i, 6, "0\n" LINE("command", 0));
	assert_int_equal(count(i), 0);
	weir_fleet_op_free(r, op[2]);
	assert_int_equal(count(i), 1);
	weir_fleet_op_free(r, op[0]);
	assert_int_equal(count(i), 2);
	assert_false(weir_fleet_forget(r, i)); /* a change waits */
	weir_fleet_op_free(r, op[1]);
	assert_true(weir_fleet_forget(r, i));
	assert_int_equal(r->n_items, 0);
}

static void many_changes_of_one_prefix_fit(void **state)
{
	struct weir_fleet_replica *r = *state;
	struct weir_fleet_key k = key("block 192.0.2.1");
	struct weir_fleet_item *i = weir_fleet_item(r, &k);
	struct weir_fleet_lines l;
	char line[512], reason[WEIR_FLEET_REASON_MAX];

	memset(reason, 'r', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	for (unsigned n = 0; n < 500; n++) {
		(void)snprintf(line, sizeof(line), "0\t0\t%u\t1000000\t0\torigin%u\th\tw\t%s\n",
			       2000000 + n, n % 4, reason);
		assert_non_null(weir_fleet_op_new(r, WEIR_FLEET_ADD, i, k.list, line, NULL));
	}
	weir_fleet_effective(i, NOW, &l);
	assert_int_equal(l.n, 4);
	for (size_t n = 0; n < 4; n++)
		assert_true(l.entry[n].end_ms >= 2000496);
}

static void a_hundred_thousand_items_are_found(void **state)
{
	struct weir_fleet_replica *r = *state;
	char text[64];

	for (unsigned n = 0; n < 100000; n++) {
		struct weir_fleet_key k;

		(void)snprintf(text, sizeof(text), "block 10.%u.%u.%u", n / 65536, n / 256 % 256,
			       n % 256);
		k = key(text);
		assert_non_null(weir_fleet_item(r, &k));
	}
	assert_int_equal(r->n_items, 100000);
	for (unsigned n = 0; n < 100000; n += 7) {
		struct weir_fleet_key k;
		struct weir_fleet_item *i;

		(void)snprintf(text, sizeof(text), "block 10.%u.%u.%u", n / 65536, n / 256 % 256,
			       n % 256);
		k = key(text);
		i = weir_fleet_find(r, &k);
		assert_non_null(i);
		assert_true(weir_fleet_forget(r, i));
		assert_null(weir_fleet_find(r, &k));
	}
}

int main(void)
{
#define WITH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_later_end_wins_and_for_ever_beats_all),
		cmocka_unit_test(origins_stand_beside_each_other_up_to_a_number),
		cmocka_unit_test(what_has_ended_is_dropped),
		cmocka_unit_test(an_origin_stands_for_its_rules),
		cmocka_unit_test(lines_are_written_and_read),
		cmocka_unit_test(hostile_lines_are_left_out),
		cmocka_unit_test(what_is_deleted_is_left_out_and_its_version_known),
		cmocka_unit_test(values_are_a_version_and_a_body),
		cmocka_unit_test(keys_are_one_spelling),
		cmocka_unit_test(versions_are_stream_ids_in_order),
		WITH(an_older_word_never_replaces_a_newer_one),
		WITH(of_one_version_the_word_counts_in_which_more_was_said),
		WITH(own_changes_act_on_top_in_their_order),
		WITH(many_changes_of_one_prefix_fit),
		WITH(a_hundred_thousand_items_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
