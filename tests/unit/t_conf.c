/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/config: what right files mean. Mistakes are in t_conf_mistakes.c. */
#include "conf_everything.h"
#include "tests/lib/prefix.h"

#define S 1000000000ull

static void assert_prefix(const struct weir_prefix *p, const char *text)
{
	struct weir_prefix want = prefix_of(text);

	assert_int_equal(weir_prefix_compare(p, &want), 0);
}

static void everything_in_one_file(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(everything);

	(void)state;
	assert_string_equal(c->path, "test.yaml");
	assert_int_equal(c->version, 1);
	assert_string_equal(c->instance, "weir");
	assert_int_equal(c->n_interfaces, 1);
	assert_string_equal(c->interfaces[0], "eth0");
	assert_int_equal(c->mode, WEIR_MODE_ENFORCE);
	assert_int_equal(c->attach, WEIR_ATTACH_LINK);
	assert_int_equal(c->xdp_mode, WEIR_XDP_AUTO);
	assert_string_equal(c->state_dir, "/var/lib/weir");
	assert_string_equal(c->admin_listen, "/run/weir/admin.sock");
	assert_string_equal(c->admin_group, "weir");
	assert_int_equal(c->log_format, WEIR_LOG_TEXT);
	assert_int_equal(c->events_per_second, 20);
	assert_true(c->packet_sources_bytes == 1 << 24);
	assert_true(c->packet_sources_asked == 16000000);
	assert_int_equal(c->allow.n, 2);
	assert_prefix(&c->allow.item[1], "2001:db8:1::/48");
	assert_int_equal(c->block.n, 1);
	assert_prefix(&c->block.item[0], "198.51.100.7");
	assert_int_equal(c->never_block.n, 1);
	assert_int_equal(c->n_allow_files, 1);
	assert_string_equal(c->allow_files[0], "/etc/weir/monitoring.netset");
	assert_int_equal(c->n_block_files, 1);
	assert_int_equal(c->n_limits, 6);
}

static void the_limits_of_everything(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(everything);
	const struct weir_conf_limit *syn = &c->limits[0], *amp = &c->limits[1],
				     *game = &c->limits[2], *bytes = &c->limits[3],
				     *frag = &c->limits[4], *service = &c->limits[5];

	(void)state;
	assert_string_equal(syn->name, "syn-per-source");
	assert_true(syn->match.protocol[6] && !syn->match.protocol[17] && !syn->match.any_protocol);
	assert_true(syn->match.has_tcp_flags);
	assert_int_equal(syn->match.tcp_flags_set, 2);
	assert_int_equal(syn->match.tcp_flags_clear, 16);
	assert_true(syn->rate == 100 && syn->rate_per_ns == S && syn->burst == 200 && !syn->bytes);
	assert_true(syn->block_for_ns == 10 * S);
	assert_int_equal(syn->ipv4_prefix, 32);
	assert_int_equal(syn->ipv6_prefix, 64);
	assert_int_equal(amp->algorithm, WEIR_ALGO_FIXED_WINDOW);
	assert_int_equal(amp->match.source_port.n, 4);
	assert_int_equal(amp->match.source_port.item[3].first, 11211);
	assert_true(amp->match.source.negate && amp->match.source.n == 1);
	assert_prefix(&amp->match.source.item[0], "203.0.113.53");
	assert_true(amp->limit == 500 && amp->window_ns == S);
	assert_int_equal(game->match.destination_port.item[0].first, 27015);
	assert_int_equal(game->match.destination_port.item[0].last, 27054);
	assert_prefix(&game->match.destination.item[0], "198.51.100.0/28");
	assert_true(bytes->bytes && bytes->rate == 25000000 && bytes->burst == 4000000);
	assert_true(bytes->match.any_protocol && bytes->match.fragment == -1);
	assert_int_equal(frag->match.fragment, 1);
	assert_true(frag->burst == 50 && !(frag->given & WEIR_GIVEN_BURST));
	assert_true(frag->line > bytes->line && bytes->line > game->line);
	assert_int_equal(frag->per, WEIR_PER_SOURCE);
	assert_int_equal(service->per, WEIR_PER_DESTINATION);
	assert_int_equal(service->mode, WEIR_MODE_MONITOR);
	assert_true(service->rate == 50000 && service->ipv4_prefix == 32 &&
		    service->ipv6_prefix == 64);
}

static void small_is_enough(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c =
		conf_of("interfaces: [eth0]\n"
			"packet_limits:\n"
			"  - {name: per-source, per: source, rate: 20000/s}\n");

	(void)state;
	assert_int_equal(c->n_limits, 1);
	assert_true(c->limits[0].rate == 20000 && c->limits[0].burst == 20000);
	assert_int_equal(c->limits[0].algorithm, WEIR_ALGO_TOKEN_BUCKET);
	assert_int_equal(c->limits[0].mode, WEIR_MODE_ENFORCE);
}

static void nothing_said_is_the_defaults(void **state)
{
	static const char *const texts[] = {"version: 1\n", "lists:\n", "packet_limits: []\n",
					    "admin: {}\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(texts[i]);

		assert_string_equal(c->instance, "weir");
		assert_string_equal(c->bpffs, "/sys/fs/bpf");
		assert_string_equal(c->admin_listen, "/run/weir/admin.sock");
		assert_null(c->admin_group);
		assert_true(c->packet_sources_bytes == 1 << 24);
		assert_int_equal(c->events_per_second, 20);
		assert_int_equal(c->n_limits + c->n_interfaces + c->allow.n, 0);
	}
}

static void no_file_is_the_defaults_without_warnings(void **state)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;

	(void)state;
	assert_int_equal(weir_conf_load(NULL, &c, &p), 0);
	assert_null(c->path);
	assert_int_equal(p.n, 0);
}

static void a_single_value_is_a_list_of_one(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c =
		conf_of("interfaces: eth0.100\n"
			"lists: {allow: \"::1\", block_files: /x}\n"
			"packet_limits:\n"
			"  - name: x\n"
			"    match: {protocol: [udp, 6, ICMP6], source_port: 0, vlan: 5, source: "
			"10.0.0.0/8}\n"
			"    rate: 5/s\n");
	const struct weir_conf_match *m = &c->limits[0].match;

	(void)state;
	assert_string_equal(c->interfaces[0], "eth0.100");
	assert_prefix(&c->allow.item[0], "::1");
	assert_int_equal(c->allow.line[0], 2);
	assert_int_equal(c->block_file_lines[0], 2);
	assert_true(m->protocol[17] && m->protocol[6] && m->protocol[58] && !m->protocol[1]);
	assert_true(m->source_port.n == 1 && m->source_port.item[0].last == 0);
	assert_true(m->vlan.n == 1 && m->vlan.item[0].first == 5);
}

static void not_turns_a_condition_around(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c =
		conf_of_limit("rate: 5/s, match: {protocol: {not: [tcp, udp]}, vlan: {not: 0}, "
			      "source: {not: 10.0.0.0/8}}");
	_cleanup_(weir_conf_freep) struct weir_conf *d =
		conf_of_limit("rate: 5/s, match: {destination_port: {not: [1-1023, 8080]}}");
	const struct weir_conf_match *m = &c->limits[0].match;

	(void)state;
	assert_true(!m->protocol[6] && !m->protocol[17] && m->protocol[0] && m->protocol[255]);
	assert_false(m->any_protocol);
	assert_true(m->vlan.negate && m->source.negate);
	assert_true(d->limits[0].match.destination_port.negate);
	assert_int_equal(d->limits[0].match.destination_port.item[0].last, 1023);
	assert_int_equal(d->limits[0].match.destination_port.n, 2);
}

static void default_bursts(void **state)
{
	static const struct {
		const char *limit;
		__u64 burst;
	} rows[] = {{"rate: 20000/s", 20000}, {"rate: 3/h", 1},
		    {"rate: 90/m", 2},	      {"rate: 8 Mbit/s", 1000000},
		    {"rate: 8 kbit/s", 1514}, {"rate: 400 Gbit/s", 1ull << 30}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of_limit(rows[i].limit);

		assert_true(c->limits[0].burst == rows[i].burst);
	}
}

static void table_sizes_go_to_the_nearest_power_of_two(void **state)
{
	static const struct {
		const char *text;
		__u64 bytes;
	} rows[] = {{"16 MB", 1 << 24},	   {"16 MiB", 1 << 24}, {"64 MB", 1 << 26},
		    {"20 MB", 1 << 24},	   {"26 MB", 1 << 25},	{"64 KiB", 1 << 16},
		    {"4 GiB", 1ull << 32}, {"24 MiB", 1 << 25}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
		char text[80];

		(void)snprintf(text, sizeof(text), "memory: {packet_sources: %s}\n", rows[i].text);
		c = conf_of(text);
		assert_true(c->packet_sources_bytes == rows[i].bytes);
	}
}

static void bounds_themselves_are_allowed(void **state)
{
	static const char *const limits[] = {
		"rate: 1/30d, burst: 1",
		"rate: 800 Gbit/s",
		"rate: 1000000/s, burst: 1073741824",
		"rate: 1000000/s, burst: 1073741824, block_for: 2ms",
		"rate: 25 MB/s, block_for: 7d",
		"algorithm: fixed-window, limit: 1099511627775, window: 1d",
		"algorithm: sliding-window-counter, limit: 33554431, window: 1ms",
		"rate: 5/s, ipv4_prefix: 0, ipv6_prefix: 128",
		"rate: 5/s, match: {source_port: 0-65535, vlan: [0, 4094], protocol: [0, 6, 255]}",
		"rate: 5/s, match: {source: [0.0.0.0/0, \"::/0\"]}",
		"algorithm: fixed-window, limit: 1, window: 1s, block_for: 7d",
		"rate: 60 B/s, burst: 60 B",
		"rate: 5/s, block_for: 0",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of_limit(limits[i]);

		assert_string_equal(c->limits[0].name, "x");
	}
}

static void thirty_two_limits_and_no_more(void **state)
{
	char text[33 * 32 + 32] = "packet_limits:\n";
	size_t n = strlen(text);

	(void)state;
	for (int i = 0; i < 32; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "- {name: l%02d, rate: 5/s}\n",
				      i);
	weir_conf_free(conf_of(text));
	(void)snprintf(text + n, sizeof(text) - n, "- {name: one-more, rate: 5/s}\n");
	expect_problem(text, 1, 34, 3, "more than 32 limits (33 are given)");
}

static void names_of_words(void **state)
{
	(void)state;
	assert_string_equal(weir_mode_name(WEIR_MODE_MONITOR), "monitor");
	assert_string_equal(weir_attach_name(WEIR_ATTACH_EXTERNAL), "external");
	assert_string_equal(weir_algorithm_name(WEIR_ALGO_SLIDING_WINDOW),
			    "sliding-window-counter");
	assert_string_equal(weir_protocol_name(58), "icmpv6");
	assert_null(weir_protocol_name(200));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_in_one_file),
		cmocka_unit_test(the_limits_of_everything),
		cmocka_unit_test(small_is_enough),
		cmocka_unit_test(nothing_said_is_the_defaults),
		cmocka_unit_test(no_file_is_the_defaults_without_warnings),
		cmocka_unit_test(a_single_value_is_a_list_of_one),
		cmocka_unit_test(not_turns_a_condition_around),
		cmocka_unit_test(default_bursts),
		cmocka_unit_test(table_sizes_go_to_the_nearest_power_of_two),
		cmocka_unit_test(bounds_themselves_are_allowed),
		cmocka_unit_test(thirty_two_limits_and_no_more),
		cmocka_unit_test(names_of_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
