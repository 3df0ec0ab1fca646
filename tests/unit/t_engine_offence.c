/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who is refused too often: suspicious, or handed to the packet layer; what spares an address, what may not count, and
 * what the agent hears of it.
 */
#include <poll.h>
#include <sodium.h>

#include "engine_case.h"
#include "tests/lib/prefix.h"
#include "user/l7/rules.h"

#define LOGIN                                                                                      \
	"request_limits:\n"                                                                        \
	"  - {name: login, match: {path: /in}, key: ip, algorithm: fixed-window, limit: 2, "       \
	"window: 60s}\n"                                                                           \
	"  - {name: other, match: {path: /other}, key: ip, algorithm: fixed-window, limit: 2, "    \
	"window: 60s}\n"                                                                           \
	"  - {name: trial, match: {path: /trial}, key: ip, algorithm: fixed-window, limit: 2, "    \
	"window: 60s, mode: monitor}\n"
#define SUSPICIOUS                                                                                 \
	"suspicious:\n"                                                                            \
	"  refused: {limits: [login, trial], count: 3, within: 60s}\n"                             \
	"  lasts: 10m\n"                                                                           \
	"  limit: {key: ip, algorithm: fixed-window, limit: 4, window: 60s}\n"
#define ESCALATE(more)                                                                             \
	"escalate:\n"                                                                              \
	"  - {name: hammer, limits: [login, trial], refused: 3, within: 60s, block_for: 10m" more  \
	"}\n"

static unsigned take_kind(struct engine *e, enum weir_l7_event_kind kind, struct weir_l7_event *ret)
{
	struct weir_l7_event event = {};
	unsigned n = 0;

	while (weir_l7_events_take(e->l7, &event)) {
		if (event.kind != kind)
			continue;
		n++;
		if (ret)
			*ret = event;
	}
	return n;
}

static unsigned escalations(struct engine *e, struct weir_l7_event *ret)
{
	return take_kind(e, WEIR_L7_EVENT_ESCALATE, ret);
}

static bool is_suspicious(struct engine *e, const char *ip)
{
	struct weir_prefix p = prefix_of(ip);

	return weir_l7_suspicious_until(e->w, &p);
}

/* --- suspicion ---- */

static void whoever_is_refused_often_meets_one_limit_more(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN SUSPICIOUS);

	(void)state;
	assert_true(weir_l7_has_limit(e->l7, "suspicious"));
	assert_int_equal(PASSING(e, 4, .target = "/in"), 2);
	assert_false(is_suspicious(e, "198.51.100.1"));
	assert_int_equal(PASSING(e, 9, .target = "/"), 9);
	assert_int_equal(PASSING(e, 1, .target = "/in"), 0);
	assert_true(is_suspicious(e, "198.51.100.1"));
	assert_int_equal(engine_stats(e).suspicious, 1);
	assert_int_equal(PASSING(e, 9, .target = "/"), 4);
	assert_string_equal(e->answer.limit, "suspicious");
	assert_int_equal(PASSING(e, 9, .target = "/", .ip = "198.51.100.2"), 9);
	/* ten minutes from the last offence */
	engine_advance(e, 5 * 60 * US_PER_S);
	assert_int_equal(PASSING(e, 9, .target = "/"), 4);
	engine_advance(e, 5 * 60 * US_PER_S - 1);
	assert_int_equal(PASSING(e, 9, .target = "/"), 4);
	engine_advance(e, 1);
	assert_int_equal(PASSING(e, 9, .target = "/"), 9);
	weir_l7_sweep(e->l7);
	assert_int_equal(engine_stats(e).suspicious, 0);
}

static void each_offence_begins_the_time_anew(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN SUSPICIOUS);

	(void)state;
	assert_int_equal(PASSING(e, 5, .target = "/in"), 2);
	engine_advance(e, 9 * 60 * US_PER_S);
	assert_int_equal(PASSING(e, 5, .target = "/in"), 2);
	engine_advance(e, 9 * 60 * US_PER_S);
	assert_true(is_suspicious(e, "198.51.100.1"));
	engine_advance(e, 60 * US_PER_S);
	assert_false(is_suspicious(e, "198.51.100.1"));
}

static void refusals_spread_over_time_are_no_offence(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN SUSPICIOUS);

	(void)state;
	for (unsigned i = 0; i < 10; i++) { /* two in any minute */
		assert_int_equal(PASSING(e, 3, .target = "/in"), 2);
		engine_advance(e, 30 * US_PER_S);
		assert_int_equal(PASSING(e, 1, .target = "/in"), i % 1);
		engine_advance(e, 30 * US_PER_S);
	}
	assert_false(is_suspicious(e, "198.51.100.1"));
}

static void only_real_refusals_of_real_addresses_count(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN SUSPICIOUS ESCALATE(""));

	(void)state;
	assert_int_equal(PASSING(e, 40, .target = "/other"), 2);  /* not among the limits */
	assert_int_equal(PASSING(e, 40, .target = "/trial"), 40); /* monitor: it refuses nothing */
	assert_int_equal(PASSING(e, 2, .target = "/in"), 2);
	assert_int_equal(PASSING(e, 40, .target = "/in", .unseen = true), 0); /* somebody's word */
	assert_int_equal(PASSING(e, 40, .target = "/in", .peek = true), 0);
	assert_int_equal(PASSING(e, 40, .target = "/in", .cost_n = 3),
			 0); /* no limit is exceeded */
	assert_false(is_suspicious(e, "198.51.100.1"));
	{
		struct weir_l7_event event = {.monitor = false};

		/* the monitor limit's are counted apart, and say so */
		assert_int_equal(escalations(e, &event), 12);
		assert_true(event.monitor);
		assert_string_equal(event.limit, "trial");
	}
	assert_int_equal(PASSING(e, 2, .target = "/in"), 0);
	assert_int_equal(escalations(e, NULL), 0);
	assert_int_equal(PASSING(e, 1, .target = "/in"), 0);
	assert_int_equal(escalations(e, NULL), 1);
}

static void ipv6_is_one_client_by_64_bits(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN SUSPICIOUS ESCALATE(""));
	struct weir_l7_event event = {};

	(void)state;
	assert_int_equal(PASSING(e, 2, .target = "/in", .ip = "2001:db8::1"), 2);
	for (unsigned i = 0; i < 3; i++) {
		char ip[32];

		(void)snprintf(ip, sizeof(ip), "2001:db8::%x", i + 2);
		assert_int_equal(PASSING(e, 1, .target = "/in", .ip = ip), 0);
	}
	assert_true(is_suspicious(e, "2001:db8::ffff"));
	assert_false(is_suspicious(e, "2001:db8:0:1::1"));
	assert_int_equal(escalations(e, &event), 1);
	assert_int_equal(event.client.len, 64);
	assert_int_equal(event.client.addr.ip[15], 0);
}

static void the_packet_layer_names_suspects(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN SUSPICIOUS);
	struct weir_prefix p = prefix_of("203.0.113.0/24");

	(void)state;
	assert_false(weir_l7_wants_suspects(e->l7, "syn"));
	weir_l7_suspect(e->l7, &p);
	assert_int_equal(PASSING(e, 9, .target = "/", .ip = "203.0.113.77"), 4);
	assert_int_equal(PASSING(e, 9, .target = "/", .ip = "203.0.112.77"), 9);
	engine_configure(e, LOGIN);
	weir_l7_suspect(e->l7, &p); /* nobody asks any more */
	assert_int_equal(PASSING(e, 9, .target = "/", .ip = "203.0.113.77"), 9);
}

static void a_crowd_of_suspects_is_bounded(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN SUSPICIOUS);
	struct weir_prefix p = {.family = 4, .len = 32};

	(void)state;
	for (unsigned i = 0; i < 300000; i++) {
		p.addr.word[0] = i * 2654435761u;
		weir_l7_suspect(e->l7, &p);
	}
	assert_true(engine_stats(e).suspicious > 60000);
	assert_true(engine_stats(e).suspicious <= 65536);
	engine_advance(e, 11 * 60 * US_PER_S);
	weir_l7_sweep(e->l7);
	assert_int_equal(engine_stats(e).suspicious, 0);
}

static void a_reset_lifts_suspicion_and_counts(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN SUSPICIOUS ESCALATE(""));
	struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {198, 51, 100, 1}}};
	struct weir_l7_who who = {.ip = &ip};
	struct weir_error error;
	size_t n;

	(void)state;
	assert_int_equal(PASSING(e, 7, .target = "/in"), 2);
	assert_true(is_suspicious(e, "198.51.100.1"));
	assert_int_equal(escalations(e, NULL), 1);
	assert_int_equal(weir_l7_reset(e->w, "login", &who, &n, &error), 0);
	assert_false(is_suspicious(e, "198.51.100.1"));
	assert_int_equal(PASSING(e, 4, .target = "/in"), 2); /* two of three refusals, not four */
	assert_int_equal(escalations(e, NULL), 0);
	assert_false(is_suspicious(e, "198.51.100.1"));
}

/* --- escalation ---- */

static void whoever_hammers_is_handed_down_once(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN ESCALATE(""));
	struct weir_l7_event event = {};

	(void)state;
	assert_int_equal(PASSING(e, 4, .target = "/in"), 2);
	assert_int_equal(escalations(e, NULL), 0);
	assert_int_equal(PASSING(e, 1, .target = "/in"), 0);
	assert_int_equal(escalations(e, &event), 1);
	assert_string_equal(event.rule, "hammer");
	assert_string_equal(event.limit, "login");
	assert_true(event.has_client);
	assert_int_equal(event.client.family, 4);
	assert_int_equal(event.client.len, 32);
	assert_int_equal(event.client.addr.ip[3], 1);
	assert_int_equal(event.block_for_ns, 600000000000ull);
	assert_int_equal(event.refused, 3);
	assert_false(event.monitor);
	/* then from nothing */
	assert_int_equal(PASSING(e, 2, .target = "/in"), 0);
	assert_int_equal(escalations(e, NULL), 0);
	assert_int_equal(PASSING(e, 1, .target = "/in"), 0);
	assert_int_equal(escalations(e, NULL), 1);
	assert_int_equal(engine_stats(e).escalated, 2);
}

static void a_rule_blocks_at_most_so_many(void **state)
{
	_cleanup_(engine_freep) struct engine *e =
		engine_of(LOGIN ESCALATE(", at_most: 4 per 60s"));
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		char ip[32];

		(void)snprintf(ip, sizeof(ip), "192.0.2.%u", i);
		assert_int_equal(PASSING(e, 5, .target = "/in", .ip = ip), 2);
		n += escalations(e, NULL);
	}
	assert_int_equal(n, 4);
	assert_int_equal(engine_stats(e).escalations_capped, 6);
	engine_advance(e, 60 * US_PER_S);
	assert_int_equal(PASSING(e, 5, .target = "/in"), 2);
	assert_int_equal(escalations(e, NULL), 1);
}

static void an_address_that_others_share_is_spared(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"http: {proxy_headers: {user: X-User}}\n" LOGIN ESCALATE(", unless_identities: 3"));

	(void)state;
	/* two users, and one as often as he likes */
	assert_int_equal(ASK(e, .target = "/", .user = "ann"), WEIR_ANSWER_ALLOW);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(ASK(e, .target = "/", .user = "bob"), WEIR_ANSWER_ALLOW);
	assert_int_equal(PASSING(e, 5, .target = "/in"), 2);
	assert_int_equal(escalations(e, NULL), 1);
	/* refused ones, peeks and others' words make no user */
	assert_int_equal(ASK(e, .target = "/in", .user = "eve"), WEIR_ANSWER_RATE_LIMITED);
	assert_int_equal(ASK(e, .target = "/", .user = "eve", .peek = true), WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(e, .target = "/", .user = "eve", .unseen = true), WEIR_ANSWER_ALLOW);
	assert_int_equal(PASSING(e, 2, .target = "/in"), 0);
	assert_int_equal(escalations(e, NULL), 1);
	/* the third */
	assert_int_equal(ASK(e, .target = "/", .user = "cid"), WEIR_ANSWER_ALLOW);
	assert_int_equal(PASSING(e, 3, .target = "/in"), 0);
	assert_int_equal(escalations(e, NULL), 0);
	assert_int_equal(engine_stats(e).escalations_spared, 1);
	/* nor are they there for ever */
	engine_advance(e, 61 * US_PER_S);
	assert_int_equal(PASSING(e, 5, .target = "/in"), 2);
	assert_int_equal(escalations(e, NULL), 1);
}

/* What was seen "next year" spares nobody until then, and makes room for what is seen now. */
static void a_clock_that_is_set_back_spares_nobody_for_long(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"http: {proxy_headers: {user: X-User}}\n" LOGIN ESCALATE(", unless_identities: 3"));
	char user[16];

	(void)state;
	engine_advance(e, 365ull * 86400 * US_PER_S);
	for (unsigned i = 0; i < WEIR_IDENTITIES_MAX; i++) {
		(void)snprintf(user, sizeof(user), "user%u", i);
		assert_int_equal(ASK(e, .target = "/", .user = user), WEIR_ANSWER_ALLOW);
	}
	e->now_us = START_US;
	weir_l7_sweep(e->l7);
	assert_int_equal(PASSING(e, 5, .target = "/in"), 2);
	assert_int_equal(escalations(e, NULL), 1);
	assert_int_equal(engine_stats(e).escalations_spared, 0);
	/* those of now count */
	for (unsigned i = 0; i < 3; i++) {
		(void)snprintf(user, sizeof(user), "now%u", i);
		assert_int_equal(ASK(e, .target = "/", .user = user), WEIR_ANSWER_ALLOW);
	}
	assert_int_equal(PASSING(e, 3, .target = "/in"), 0);
	assert_int_equal(escalations(e, NULL), 0);
	assert_int_equal(engine_stats(e).escalations_spared, 1);
	/* a clock that is corrected by a second forgets nobody */
	e->now_us -= US_PER_S;
	assert_int_equal(PASSING(e, 3, .target = "/in"), 0);
	assert_int_equal(engine_stats(e).escalations_spared, 2);
}

static void invented_keys_are_nobody(void **state)
{
	static const char *const real[] = {"k0", "k1", "k2"};
	_cleanup_(engine_freep) struct engine *e = NULL;
	_cleanup_free_ char *text = NULL;
	char path[] = "/tmp/weir-plans.XXXXXX", line[64];
	FILE *f = fdopen(mkstemp(path), "w");

	(void)state;
	assert_non_null(f);
	for (size_t i = 0; i < ARRAY_LEN(real); i++) {
		unsigned char hash[crypto_hash_sha256_BYTES];
		char hex[2 * sizeof(hash) + 1];

		(void)crypto_hash_sha256(hash, (const unsigned char *)real[i], 2);
		(void)fprintf(f, "%s free\n", sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash)));
	}
	assert_int_equal(fclose(f), 0);
	assert_true(asprintf(&text,
			     "http: {api_key: [header X-API-Key]}\nplans: [free]\nplans_file: "
			     "%s\n" LOGIN ESCALATE(", unless_identities: 3"),
			     path) > 0);
	e = engine_of(text);
	for (unsigned i = 0; i < 50; i++) {
		(void)snprintf(line, sizeof(line), "X-API-Key: invented%u", i);
		assert_int_equal(ASK(e, .target = "/", .header = {line}), WEIR_ANSWER_ALLOW);
	}
	assert_int_equal(PASSING(e, 5, .target = "/in"), 2);
	assert_int_equal(escalations(e, NULL), 1);
	for (size_t i = 0; i < ARRAY_LEN(real); i++) {
		(void)snprintf(line, sizeof(line), "X-API-Key: %s", real[i]);
		assert_int_equal(ASK(e, .target = "/", .header = {line}), WEIR_ANSWER_ALLOW);
	}
	assert_int_equal(PASSING(e, 3, .target = "/in"), 0);
	assert_int_equal(escalations(e, NULL), 0);
	(void)unlink(path);
}

static void monitor_mode_hands_nobody_down(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN ESCALATE(""));
	_cleanup_(engine_freep) struct engine *rule = engine_of(LOGIN ESCALATE(", mode: monitor"));
	struct weir_l7_event event = {};

	(void)state;
	assert_int_equal(PASSING(rule, 5, .target = "/in"), 2);
	assert_int_equal(escalations(rule, &event), 1);
	assert_true(event.monitor);
	weir_l7_set_mode(e->l7, WEIR_MODE_MONITOR);
	assert_int_equal(PASSING(e, 5, .target = "/in"), 5);
	assert_int_equal(escalations(e, &event), 1);
	assert_true(event.monitor);
	assert_int_equal(PASSING(e, 2, .target = "/in"), 2);
	/* and enforcing begins from nothing */
	weir_l7_set_mode(e->l7, WEIR_MODE_ENFORCE);
	assert_int_equal(PASSING(e, 2, .target = "/in"), 0);
	assert_int_equal(escalations(e, NULL), 0);
	assert_int_equal(PASSING(e, 1, .target = "/in"), 0);
	assert_int_equal(escalations(e, &event), 1);
	assert_false(event.monitor);
}

/* --- events ---- */

static void refusals_are_told_in_samples(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of("log: {events_per_second: 5}\n" LOGIN);
	struct pollfd p = {.events = POLLIN};
	struct weir_l7_event event = {};

	(void)state;
	p.fd = weir_l7_events_fd(e->l7);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(PASSING(e, 50, .target = "/in"), 2);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(take_kind(e, WEIR_L7_EVENT_REFUSED, &event), 5);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_string_equal(event.limit, "login");
	assert_int_equal(event.code, WEIR_ANSWER_RATE_LIMITED);
	assert_int_equal(event.wall_ms, START_US / 1000);
	assert_true(event.has_client);
	assert_false(event.monitor);
	engine_advance(e, US_PER_S);
	assert_int_equal(PASSING(e, 4, .target = "/trial"), 4);
	assert_int_equal(ASK(e, .target = "%zz", .no_ip = true), WEIR_ANSWER_BAD_REQUEST);
	assert_true(weir_l7_events_take(e->l7, &event));
	assert_string_equal(event.limit, "trial");
	assert_true(event.monitor);
	assert_int_equal(take_kind(e, WEIR_L7_EVENT_REFUSED, &event), 2);
	assert_string_equal(event.limit, "bad-path");
	assert_false(event.has_client);
}

static void events_that_nobody_takes_are_lost_and_counted(void **state)
{
	_cleanup_(engine_freep) struct engine *e =
		engine_of("log: {events_per_second: 10000}\n" LOGIN);

	(void)state;
	assert_int_equal(PASSING(e, 3002, .target = "/in"), 2);
	assert_int_equal(engine_stats(e).events_lost, 3000 - 1024);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(take_kind(e, WEIR_L7_EVENT_REFUSED, NULL), i ? 100 : 1024);
		assert_int_equal(PASSING(e, 100, .target = "/in"), 0);
	}
}

/* --- who is loudest ---- */

static void the_loudest_are_found(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LOGIN);
	struct weir_l7_loud loud[4];
	char ip[32];

	(void)state;
	assert_int_equal(weir_l7_loud(e->l7, loud, ARRAY_LEN(loud)), 0);
	for (unsigned i = 0; i < 500; i++) { /* a crowd, and two among it */
		(void)snprintf(ip, sizeof(ip), "192.0.%u.%u", i / 250, i % 250 + 1);
		assert_int_equal(PASSING(e, 4, .target = "/other", .ip = ip), 2);
		(void)PASSING(e, 4, .target = "/in", .ip = "203.0.113.1");
		(void)PASSING(e, 2, .target = "/in", .ip = "203.0.113.2");
	}
	assert_int_equal(weir_l7_loud(e->l7, loud, ARRAY_LEN(loud)), 4);
	assert_int_equal(loud[0].client.addr.ip[3], 1);
	assert_int_equal(loud[0].refused, 1998);
	assert_int_equal(loud[0].error, 0);
	assert_string_equal(loud[0].limit, "login");
	assert_int_equal(loud[1].client.addr.ip[3], 2);
	assert_int_equal(loud[1].refused, 998);
	assert_true(loud[2].refused - loud[2].error <= 2);
	/* a minute later still, two minutes later no more */
	engine_advance(e, 60 * US_PER_S);
	assert_int_equal(weir_l7_loud(e->l7, loud, 1), 1);
	assert_int_equal(loud[0].refused, 1998);
	engine_advance(e, 60 * US_PER_S);
	assert_int_equal(weir_l7_loud(e->l7, loud, ARRAY_LEN(loud)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_is_refused_often_meets_one_limit_more),
		cmocka_unit_test(each_offence_begins_the_time_anew),
		cmocka_unit_test(refusals_spread_over_time_are_no_offence),
		cmocka_unit_test(only_real_refusals_of_real_addresses_count),
		cmocka_unit_test(ipv6_is_one_client_by_64_bits),
		cmocka_unit_test(the_packet_layer_names_suspects),
		cmocka_unit_test(a_crowd_of_suspects_is_bounded),
		cmocka_unit_test(a_reset_lifts_suspicion_and_counts),
		cmocka_unit_test(whoever_hammers_is_handed_down_once),
		cmocka_unit_test(a_rule_blocks_at_most_so_many),
		cmocka_unit_test(an_address_that_others_share_is_spared),
		cmocka_unit_test(a_clock_that_is_set_back_spares_nobody_for_long),
		cmocka_unit_test(invented_keys_are_nobody),
		cmocka_unit_test(monitor_mode_hands_nobody_down),
		cmocka_unit_test(refusals_are_told_in_samples),
		cmocka_unit_test(events_that_nobody_takes_are_lost_and_counted),
		cmocka_unit_test(the_loudest_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
