/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/config: what the table of settings prints, and a configuration in words. */
#include "conf_case.h"

#include "user/config/schema.h"

/* What a printing function writes; the caller frees it. */
static char *printed(void (*print)(FILE *f))
{
	char *out = NULL;
	size_t n;
	FILE *f = open_memstream(&out, &n);

	assert_non_null(f);
	print(f);
	assert_int_equal(fclose(f), 0);
	return out;
}

static void the_default_file_is_right_and_only_watches(void **state)
{
	_cleanup_free_ char *text = printed(weir_conf_print_default);
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(text);

	(void)state;
	assert_int_equal(c->mode, WEIR_MODE_MONITOR);
	assert_int_equal(c->n_limits, 2);
	assert_string_equal(c->limits[0].name, "syn-per-source");
}

/* "#key" and "#  key" are settings, "# text" is text: with the marks taken away, and the live limits too, all of it must be right. */
static void what_the_default_file_comments_out_is_right_too(void **state)
{
	_cleanup_free_ char *text = printed(weir_conf_print_default), *bare = NULL;
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	size_t n = 0;

	(void)state;
	bare = malloc(strlen(text) + 1);
	assert_non_null(bare);
	for (const char *line = text, *end; *line; line = end + 1) {
		size_t len;

		end = strchr(line, '\n');
		assert_non_null(end);
		if (strncmp(line, "  ", 2) == 0)
			continue; /* the live limits */
		if (line[0] == '#' && (line[1] != ' ' || line[2] == ' '))
			line++;
		len = (size_t)(end - line) + 1;
		memcpy(bare + n, line, len);
		n += len;
	}
	bare[n] = '\0';
	c = conf_of(bare);
	assert_string_equal(c->admin_group, "weir");
	assert_int_equal(c->n_limits, 1);
	assert_true(c->limits[0].burst == 20000);
	assert_int_equal(c->limits[0].match.vlan.n, 2);
	assert_int_equal(c->request.n_listener, 1);
	assert_int_equal(c->request.n_limit, 1);
	assert_true(c->request.limit[0].rate[1].count == 50);
	assert_int_equal(c->request.n_exempt, 1);
	assert_int_equal(c->request.n_escalate, 1);
	assert_true(c->request.suspicious.given);
}

static void every_setting_is_in_help_and_manual(void **state)
{
	_cleanup_free_ char *help = printed(weir_conf_print_settings);
	_cleanup_free_ char *mdoc = printed(weir_conf_print_mdoc);
	_cleanup_free_ char *file = printed(weir_conf_print_default);

	(void)state;
	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];
		char word[80];

		(void)snprintf(word, sizeof(word), "%s:", weir_setting_key(s));
		assert_non_null(s->help);
		assert_true(s->type || s->words);
		assert_non_null(strstr(help, word));
		assert_non_null(strstr(help, s->help));
		assert_non_null(strstr(file, word));
		(void)snprintf(word, sizeof(word), ".It Cm %s", s->path);
		assert_non_null(strstr(mdoc, word));
	}
	assert_null(strstr(mdoc, "…")); /* plain ASCII */
}

static void defaults_in_the_table_are_defaults_in_fact(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c =
		conf_of("packet_limits:\n- {name: x, rate: 5/s}\n");

	(void)state;
	assert_string_equal(c->instance, weir_setting_find("", "instance")->fallback);
	assert_string_equal(c->state_dir, weir_setting_find("", "state_dir")->fallback);
	assert_string_equal(weir_setting_find("packet_limits", "ipv6_prefix")->fallback, "64");
	assert_int_equal(c->limits[0].ipv6_prefix, 64);
	assert_string_equal(weir_setting_find("memory", "packet_sources")->fallback, "16 MB");
	assert_true(c->packet_sources_asked == 16000000);
}

static void limits_in_words(void **state)
{
	static const struct {
		const char *limit, *words;
	} rows[] = {
		{"rate: 20000/s",
		 "x: of all packets, each IPv4 address and each IPv6 /64 may send 20000 "
		 "packets/s, and 20000 packets at once (the default); more is dropped."},
		{"match: {protocol: tcp, tcp_flags: {set: [syn], clear: [ack, rst]}}, rate: 100/s, "
		 "burst: 200, "
		 "block_for: 10s",
		 "x: of tcp packets with syn set and rst and ack clear, each IPv4 address and each "
		 "IPv6 /64 may "
		 "send 100 packets/s, and 200 packets at once; who sends more is blocked for 10s."},
		{"algorithm: fixed-window, limit: 500, window: 1s, mode: monitor, ipv4_prefix: 24, "
		 "ipv6_prefix: 0",
		 "x: of all packets, each IPv4 /24 and IPv6 as a whole may send 500 packets in "
		 "each window of "
		 "1s; more is dropped (monitor: only counted)."},
		{"match: {protocol: tcp}, per: destination, rate: 5/s, ipv6_prefix: 128",
		 "x: of tcp packets, each destination (each IPv4 address and each IPv6 address) "
		 "may "
		 "be sent 5 packets/s, and 5 packets at once (the default); more is dropped."},
		{"per: all, rate: 5/s, mode: monitor",
		 "x: of all packets, all senders together may send 5 packets/s, and 5 packets at "
		 "once (the default); more is dropped (monitor: only counted)."},
		{"match: {fragment: true, source: {not: [10.0.0.0/8, \"::1\"]}, vlan: 0}, rate: 8 "
		 "Mbit/s, burst: 4 MB",
		 "x: of fragments from anywhere but 10.0.0.0/8 or ::1 with VLAN none, each IPv4 "
		 "address and each "
		 "IPv6 /64 may send 8 Mbit/s, and 4 MB at once; more is dropped."},
		{"match: {protocol: {not: [tcp, udp]}, fragment: false}, rate: 1/s",
		 "x: of every protocol but tcp and udp unfragmented packets, each IPv4 address and "
		 "each IPv6 /64 may "
		 "send 1 packets/s, and 1 packet at once (the default); more is dropped."},
		{"match: {protocol: [udp, 200], destination_port: {not: [1-5, 9]}}, algorithm: "
		 "sliding-window-counter, limit: 2 MB, window: 500ms",
		 "x: of udp or protocol 200 packets to port other than 1-5 or 9, each IPv4 address "
		 "and each IPv6 "
		 "/64 may send 2 MB in a sliding window of 500ms; more is dropped."},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of_limit(rows[i].limit);
		char buf[512], cut[10];
		int n = weir_conf_limit_words(&c->limits[0], buf, sizeof(buf));

		assert_string_equal(buf, rows[i].words);
		assert_int_equal(n, strlen(buf));
		assert_int_equal(weir_conf_limit_words(&c->limits[0], cut, sizeof(cut)), n);
		assert_int_equal(strlen(cut), sizeof(cut) - 1);
	}
}

static void a_configuration_in_words(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c =
		conf_of("interfaces: [eth0, eth1]\nmode: monitor\nadmin: {group: ops}\n"
			"lists: {allow: [10.0.0.0/8], block_files: [/a, /b]}\n"
			"packet_limits:\n- {name: t, per: all, rate: 9/s}\n- {name: d, per: "
			"destination, rate: 9/s}\n"
			"- {name: x, rate: 5/s}\n");
	static const char *const words[] = {"pins in /sys/fs/bpf/weir",
					    "for root and group ops",
					    "Mode monitor: everything is decided",
					    "Interfaces: eth0, eth1.",
					    "IPv4 sources 16 MiB",
					    "packet_sources is 16 MB",
					    "allow        1 entry\n",
					    "0 entries and 2 files",
					    " 1. x: of all packets",
					    " 2. d: of all packets, each destination (",
					    " 3. t: of all packets, all senders together"};

	(void)state;
	expect_explained(c, words, ARRAY_LEN(words));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_default_file_is_right_and_only_watches),
		cmocka_unit_test(what_the_default_file_comments_out_is_right_too),
		cmocka_unit_test(every_setting_is_in_help_and_manual),
		cmocka_unit_test(defaults_in_the_table_are_defaults_in_fact),
		cmocka_unit_test(limits_in_words),
		cmocka_unit_test(a_configuration_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
