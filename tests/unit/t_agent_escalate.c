/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What becomes of an address that the request layer refused too often: a block, or why there is none. */
#include "agent_request_case.h"
#include "weir/key.h"

static const struct weir_l7_event hammer = {.kind = WEIR_L7_EVENT_ESCALATE,
					    .has_client = true,
					    .limit = "login",
					    .rule = "login-hammer",
					    .block_for_ns = 600 * WEIR_NS_PER_S,
					    .refused = 20};

static void escalates(struct fix *f, const char *client, bool monitor)
{
	struct weir_l7_event e = hammer;

	e.client = prefix_of(client);
	e.monitor = monitor;
	happens(f, &e);
}

/* A slot of the packet layer for @client: the tables of the double have one group of whole addresses. */
static void sends_packets(const char *client)
{
	struct weir_prefix p = prefix_of(client);
	struct weir_tables t;
	struct weir_group *g = p.family == 4 ? &dp.policy.group4[0] : &dp.policy.group6[0];
	__u32 bucket;

	dp.policy.n_groups4 = dp.policy.n_groups6 = 1;
	g->bits = 4;
	g->prefix_len = p.family == 4 ? 32 : 64;
	assert_true(weir_datapath_tables(&dp.handle, &t));
	if (p.family == 4) {
		__u64 tag = weir_tag4(p.addr.word[0], 32);

		bucket = weir_bucket_of4((__u32)tag, dp.meta.seed, 0, 4);
		dp.t4[bucket].slot[0].addr = (__u32)tag;
	} else {
		__u64 tag = weir_tag6(&p.addr, 64, dp.meta.seed);

		bucket = weir_bucket_of6(tag, dp.meta.seed, 0, 4);
		dp.t6[bucket].slot[0].tag = tag;
	}
}

static const char *last_event(struct fix *f, const char *key)
{
	static char text[512];
	_cleanup_json_ json_t *all = ask(f, "{'cmd':'events'}");
	json_t *list = json_object_get(all, "events");
	const char *s = weir_json_text_of(json_array_get(list, json_array_size(list) - 1), key);

	(void)snprintf(text, sizeof(text), "%s", s ? s : "");
	return text;
}

static void who_hammers_is_blocked_for_a_while_and_one_command_undoes_it(void **state)
{
	struct fix *f = *state;
	const struct weir_list_item *i;
	_cleanup_json_ json_t *x = NULL, *d = NULL;

	sends_packets("198.51.100.7");
	escalates(f, "198.51.100.7", false);
	i = dp_has(WEIR_LIST_BLOCK, "198.51.100.7");
	assert_non_null(i);
	assert_in_range(i->expires_ns - weir_now().mono_ns, 590 * WEIR_NS_PER_S,
			600 * WEIR_NS_PER_S);
	assert_string_equal(last_event(f, "action"), "escalate");
	assert_string_equal(last_event(f, "why"), "20 refusals of login within 1m");
	x = ask(f, "{'cmd':'explain','ip':'198.51.100.7'}");
	assert_string_equal(weir_json_text_of(x, "verdict"), "drop");
	assert_non_null(strstr(weir_json_text_of(x, "why"), "escalation:login-hammer"));
	assert_non_null(strstr(weir_json_text_of(x, "why"), "time-outs"));
	assert_string_equal(weir_json_text_of(x, "lift"), "weir block del 198.51.100.7");
	assert_int_equal(f->a->escalations[WEIR_ESCALATION_BLOCKED], 1);
	restart(f); /* it is not forgotten */
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}");
	d = ask(f, "{'cmd':'list_del','list':'block','origin':'escalation'}");
	assert_int_equal(weir_json_u64_of(d, "deleted"), 1);
	assert_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.9"));
	sends_packets("198.51.100.7");
	escalates(f, "198.51.100.7", false);
	does(f, "{'cmd':'list_del','list':'block','origin':'escalation:other'}");
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	does(f, "{'cmd':'list_del','list':'block','origin':'escalation:login-hammer'}");
	assert_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
}

static void of_ipv6_the_64_is_blocked_but_never_that_of_nat64(void **state)
{
	struct fix *f = *state;

	sends_packets("2001:db8:7::9");
	escalates(f, "2001:db8:7::9", false);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "2001:db8:7::/64"));
	assert_null(dp_has(WEIR_LIST_BLOCK, "64:ff9b::/64"));
	sends_packets("64:ff9b::c633:6407");
	escalates(f, "64:ff9b::c633:6407", false);
	assert_null(dp_has(WEIR_LIST_BLOCK, "64:ff9b::/64"));
}

static void monitor_only_says_what_it_would_do(void **state)
{
	struct fix *f = *state;

	sends_packets("198.51.100.7");
	escalates(f, "198.51.100.7", true);
	assert_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.7"));
	assert_string_equal(last_event(f, "action"), "would-escalate");
	assert_int_equal(f->a->escalations[WEIR_ESCALATION_WOULD], 1);
}

static void addresses_that_are_not_the_clients_alone_are_never_blocked(void **state)
{
	static const struct {
		const char *client, *why;
		enum weir_escalation result;
	} cases[] = {
		{"192.0.2.80", "trusted_proxies", WEIR_ESCALATION_PROXY},
		{"192.0.2.200", "allow list", WEIR_ESCALATION_ALLOWED},
		{"203.0.113.9", "guarded", WEIR_ESCALATION_GUARDED},
		{"127.0.0.1", "no address of one host", WEIR_ESCALATION_SPECIAL},
		{"169.254.1.1", "no address of one host", WEIR_ESCALATION_SPECIAL},
		{"224.0.0.1", "no address of one host", WEIR_ESCALATION_SPECIAL},
		{"fe80::1", "no address of one host", WEIR_ESCALATION_SPECIAL},
		{"::1", "no address of one host", WEIR_ESCALATION_SPECIAL},
		{"198.51.100.99", "sends no packets here", WEIR_ESCALATION_UNSEEN},
	};
	struct fix *f = *state;
	size_t before = dp.n[WEIR_LIST_BLOCK];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		__u64 n = f->a->escalations[cases[i].result];

		if (cases[i].result != WEIR_ESCALATION_UNSEEN)
			sends_packets(cases[i].client);
		escalates(f, cases[i].client, false);
		if (!strstr(last_event(f, "why"), cases[i].why))
			fail_msg("%s: %s", cases[i].client, last_event(f, "why"));
		assert_string_equal(last_event(f, "action"), "not-escalated");
		assert_int_equal(f->a->escalations[cases[i].result], n + 1);
	}
	assert_int_equal(dp.n[WEIR_LIST_BLOCK], before);
}

static void without_a_packet_layer_nothing_is_escalated(void **state)
{
	struct fix *f = *state;

	escalates(f, "198.51.100.7", false);
	assert_non_null(strstr(last_event(f, "why"), "no packet layer"));
}

static void a_full_list_is_counted_and_said(void **state)
{
	struct fix *f = *state;

	sends_packets("198.51.100.7");
	dp.fail_list_add = -ENOSPC;
	escalates(f, "198.51.100.7", false);
	assert_int_equal(f->a->escalations[WEIR_ESCALATION_FULL], 1);
	assert_string_equal(last_event(f, "action"), "not-escalated");
	dp.fail_list_add = -EIO;
	escalates(f, "198.51.100.7", false);
	assert_int_equal(f->a->escalations[WEIR_ESCALATION_FAILED], 1);
}

static void nobody_makes_such_an_origin_by_hand(void **state)
{
	struct fix *f = *state;

	refuses(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','origin':'escalation:x'}",
		"origin", 2);
	refuses(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9','origin':'escalation'}",
		"origin", 2);
}

static void a_source_over_a_packet_limit_is_suspicious(void **state)
{
	struct fix *f = *state;
	struct weir_event e = {.family = 4, .reason = WEIR_DROP_LIMIT, .stat = 0, .ifindex = 1};
	struct weir_prefix p = prefix_of("198.51.100.7");

	(void)f;
	e.src = p.addr;
	dp.event_fn(dp.event_arg, &e);
	assert_int_equal(l7.suspects, 0);
	l7.suspect_limit = "per-source";
	dp.event_fn(dp.event_arg, &e);
	assert_int_equal(l7.suspects, 1);
	assert_int_equal(weir_prefix_compare(&l7.suspect, &p), 0);
	e.stat = WEIR_NO_LIMIT;
	dp.event_fn(dp.event_arg, &e);
	assert_int_equal(l7.suspects, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(who_hammers_is_blocked_for_a_while_and_one_command_undoes_it),
		BOTH(of_ipv6_the_64_is_blocked_but_never_that_of_nat64),
		BOTH(monitor_only_says_what_it_would_do),
		BOTH(addresses_that_are_not_the_clients_alone_are_never_blocked),
		ALONE(without_a_packet_layer_nothing_is_escalated),
		BOTH(a_full_list_is_counted_and_said),
		BOTH(nobody_makes_such_an_origin_by_hand),
		BOTH(a_source_over_a_packet_limit_is_suspicious),
	};

	return cmocka_run_group_tests_name("agent_escalate", tests, open_quiet, close_quiet);
}
