/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/config: every mistake is said once, at its place, with what would be right. */
#include "conf_case.h"

/* clang-format off */
static const char mistakes[] =
	"version: 2\n"
	"instance: Weir!\n"
	"interfacs: [eth0]\n"
	"interfaces: [eth0, \"eth 1\", eth0]\n"
	"mode: enforced\n"
	"mode: monitor\n"
	"attach: [link]\n"
	"admin: {listen: weir.sock, group: weir}\n"
	"log:\n"
	"  events_per_second: many\n"
	"memory:\n"
	"  packet_sources: 3 bananas\n"
	"  request_keys: 0\n"
	"lists:\n"
	"  allow: [192.0.2.1/24, 192.0.2.0/33, nonsense]\n"
	"  block_files: [drop.netset]\n"
	"packet_limits:\n"
	"  - name: a\n"
	"    rate: 0/s\n"
	"  - name: a\n"
	"    rate: 100\n"
	"  - {name: B, rate: 5/s}\n"
	"  - {rate: 5/s}\n"
	"  - {name: c, match: {protocol: tpc, tcp_flags: {set: [sin]}, source_port: 70000, destination_port: 9-5}, rate: 5/s}\n"
	"  - {name: d, rate: 5/s, burst: 4 MB}\n"
	"  - {name: e, rate: 5/s, window: 1s}\n"
	"  - {name: f, algorithm: fixed-window, limit: 5}\n"
	"  - {name: g, algorithm: sliding-window-counter, limit: 40000000, window: 1s}\n"
	"  - {name: h}\n"
	"  - {name: i, per: destination, rate: 1/s, ipv4_prefix: 33}\n"
	"  - {name: j, rate: 25 MB/s, block_for: 10d}\n"
	"  - {name: k, algorithm: fixed-window, limit: 5, window: 0, burst: 3}\n"
	"  - 5\n"
	"rate: 5\n"
	"store: {url: redis://127.0.0.1:x, prefix: \"{x}\"}\n";

static const struct conf_said said[] = {
	{1, 10, "version 2 is not known (this weir reads version 1)"},
	{2, 11, "instance: \"Weir!\" is not a name (a-z, 0-9, '-' and '_', at most 15 of them)"},
	{3, 1, "unknown key \"interfacs\" (did you mean \"interfaces\"?)"},
	{4, 20, "interfaces: \"eth 1\" cannot be an interface (at most 15 characters, no space, '/' or ':')"},
	{4, 29, "interfaces: eth0 is there twice"},
	{5, 7, "mode: unknown word \"enforced\" (did you mean \"enforce\"?)"},
	{6, 1, "mode is set twice (first in line 5)"},
	{7, 9, "attach: a list instead of a value (link, chain or external)"},
	{8, 17, "listen: \"weir.sock\" is not a whole path (it begins with '/')"},
	{10, 22, "events_per_second: \"many\" is not a whole number (0 to 100000)"},
	{12, 19, "packet_sources: \"3 bananas\" is not a size (for example 16 MB)"},
	{13, 17, "request_keys: 0 is out of range (1 to 1073741824)"},
	{15, 11, "allow: 192.0.2.1/24 has bits set beyond its length (did you mean 192.0.2.0/24, or the address alone?)"},
	{15, 25, "allow: 192.0.2.0/33: the length is out of range (0 to 32)"},
	{15, 39, "allow: \"nonsense\" is neither an address nor a prefix (for example 192.0.2.0/24 or \"2001:db8::/32\")"},
	{16, 17, "block_files: \"drop.netset\" is not a whole path (it begins with '/')"},
	{19, 11, "rate: 0/s admits nothing (to drop a source altogether use lists.block)"},
	{20, 11, "name: \"a\" is taken (by the limit in line 18)"},
	{21, 11, "rate: 100 says how many, but not in what time (for example 100/s)"},
	{22, 12, "name: \"B\" is not a name (a-z, 0-9, '-' and '_', at most 31 of them)"},
	{23, 5, "a limit without a name (for example name: per-source)"},
	{24, 33, "protocol: unknown protocol \"tpc\" (did you mean \"tcp\"?)"},
	{24, 56, "set: unknown TCP flag \"sin\" (fin, syn, rst, psh, ack, urg, ece, cwr)"},
	{24, 76, "source_port: \"70000\" is neither a number nor a range (0 to 65535, or a-b)"},
	{24, 101, "destination_port: 9-5 runs backwards (5-9)"},
	{25, 33, "burst counts bytes but rate counts packets (give both in packets, for example burst: 200)"},
	{26, 34, "window: a token-bucket has rate and burst (or say algorithm: fixed-window)"},
	{27, 5, "limit \"f\" has no window (for example window: 1s)"},
	{28, 57, "limit: 40000000 is too much for sliding-window-counter (below 33554432; a shorter window, or fixed-window)"},
	{29, 5, "limit \"h\" has no rate (for example rate: 1000/s)"},
	{30, 57, "ipv4_prefix: 33 is out of range (0 to 32)"},
	{31, 41, "block_for: 10d is too long (2ms to 7d)"},
	{32, 58, "window: 0 is too short (1ms to 1d)"},
	{32, 68, "burst: a fixed-window has limit and window (or leave algorithm out)"},
	{33, 5, "packet_limits: a single value where settings belong (name, match, per, ipv4_prefix, ipv6_prefix, algorithm, rate, burst, limit, window, block_for, scope, mode)"},
	{34, 1, "\"rate\" does not belong here (it belongs under packet_limits)"},
	{35, 14, "url: the port of a server is no number from 1 to 65535 (and before a host there is an @)"},
	{35, 43, "prefix: \"{x}\" cannot begin keys (letters, digits and _ . : / -, 1 to 64 of them)"},
};
/* clang-format on */

static void all_mistakes_of_a_file_in_one_pass(void **state)
{
	(void)state;
	expect_said(mistakes, said, ARRAY_LEN(said));
}

static void problems_print_as_file_line_column(void **state)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_free_ char *out = NULL;
	struct weir_conf *c = NULL;
	size_t n;
	FILE *f = open_memstream(&out, &n);

	(void)state;
	assert_non_null(f);
	assert_int_equal(weir_conf_parse("x", "mode: x\n", 8, &c, &p), -EINVAL);
	weir_conf_problems_print(&p, "x.yaml", f);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(out,
			    "weir: x.yaml:1:7: mode: unknown word \"x\" (enforce or monitor)\n");
}

static void yaml_mistakes_are_sentences(void **state)
{
	static const struct {
		const char *text;
		int line, column;
		const char *words;
	} rows[] = {
		{"mode: monitor\n\tattach: link\n", 2, 1, "a tab"},
		{"lists:\n\tallow: []\n", 2, 1, "a tab"},
		{"mode: a: b\n", 1, 8, "no key can begin"},
		{"mode monitor\nattach: link\n", 2, 7, "':' missing in the line before"},
		{"interfaces: [a, b\nmode: x\n", 2, 5, "closing ']'"},
		{"admin: {listen: /x\nmode: x\n", 2, 5, "closing '}'"},
		{"mode: \"abc\n", 1, 7, "inside quotes that were opened here"},
		{"mode: @x\n", 1, 7, "'@' cannot begin a value"},
		{"mode: `x\n", 1, 7, "'`' cannot begin a value"},
		{"packet_limits:\n  - name: a\n   rate: 5/s\n", 3, 4, "does not fit"},
		{"lists: {block: [::1]}\n", 1, 17, "needs quotes"},
		{"mode: enforce\n...\nx: 1\n", 3, 1, "one file is one configuration"},
		{"---\nmode: enforce\n---\nmode: monitor\n", 3, 1, "a second document"},
		{"mode: !!str enforce\n", 1, 7, "a tag"},
		{"mode: \x01\n", 1, 7, "control character"},
		{"mode: \xff\n", 1, 7, "UTF-8"},
		{"%YAML 9.9\n---\nmode: x\n", 1, 1, "another version of YAML"},
		{"- a\n", 1, 1, "a list where settings belong"},
		{"5\n", 1, 1, "a single value where settings belong"},
		{"<<: {mode: x}\n", 1, 1, "merge keys"},
		{"? [a]\n: b\n", 1, 3, "a list where the name of a setting belongs"},
		{"\"mo\\0de\": x\n", 1, 1, "unknown key"},
		{"mode: \"enforce\\0\"\n", 1, 7, "zero byte"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect_problem(rows[i].text, 1, rows[i].line, rows[i].column, rows[i].words);
}

static void anchors_and_aliases_are_refused_even_in_circles(void **state)
{
	(void)state;
	expect_problem("a: &x 1\nb: *x\n", 2, 1, 4, "an anchor");
	expect_problem("a: &x 1\nb: *x\n", 2, 2, 4, "an alias");
	expect_problem("&a [*a]\n", 2, 1, 1, "an anchor");
	expect_problem("a: [*x]\n", 1, 1, 5, "an alias");
}

static void depth_and_values_are_bounded(void **state)
{
	_cleanup_free_ char *many = malloc(3 * 500002 + 32);
	char deep[64];
	size_t n = 0;

	(void)state;
	memset(deep, '[', sizeof(deep));
	deep[sizeof(deep) - 1] = '\0';
	expect_problem(deep, 1, 1, 17, "nested deeper");
	assert_non_null(many);
	n = (size_t)snprintf(many, 32, "interfaces: [");
	for (int i = 0; i < 500001; i++, n += 2)
		memcpy(many + n, "x,", 2);
	memcpy(many + n, "]\n", 3);
	expect_problem(many, 1, 1, 1000006, "more than 500000 values");
}

static void only_the_first_two_hundred_problems_are_kept(void **state)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_free_ char *text = malloc(16 * 1000), *out = NULL;
	struct weir_conf *c = NULL;
	size_t n = 0, size;
	FILE *f = open_memstream(&out, &size);

	(void)state;
	assert_non_null(text);
	assert_non_null(f);
	for (int i = 0; i < 1000; i++)
		n += (size_t)snprintf(text + n, 16, "zz%d: 1\n", i);
	assert_int_equal(weir_conf_parse("x", text, n, &c, &p), -EINVAL);
	assert_int_equal(p.n, WEIR_PROBLEMS_MAX);
	assert_int_equal(p.n_errors, 1000);
	weir_conf_problems_print(&p, "x", f);
	assert_int_equal(fclose(f), 0);
	assert_non_null(strstr(out, "800 more problems are not shown"));
}

static void impossible_numbers_of_a_limit(void **state)
{
	static const struct {
		const char *limit, *words;
	} rows[] = {
		{"rate: 0/s", "admits nothing"},
		{"rate: 1/31d", "rounds to nothing"},
		{"rate: 900 Gbit/s", "out of range"},
		{"rate: 5/0s", "out of range"},
		{"rate: fast", "is not a rate"},
		{"rate: [5/s]", "a list instead of a value (rate)"},
		{"rate: 5/s, burst: 0", "admits nothing"},
		{"rate: 5/s, burst: 1073741825", "out of range"},
		{"rate: 5/s, burst: 4 MB", "burst counts bytes but rate counts packets"},
		{"rate: 5 MB/s, burst: 40", "burst counts packets but rate counts bytes"},
		{"rate: 5 MB/s, burst: 59 B", "smaller than one packet"},
		{"rate: 5/d, burst: 200", "more than 30 days to come back"},
		{"rate: 5/s, limit: 5", "limit: a token-bucket has rate and burst"},
		{"limit: 5",
		 "limit: a token-bucket has rate and burst (or say algorithm: fixed-window)"},
		{"rate: 5/s, window: 1s", "window: a token-bucket"},
		{"burst: 5", "has no rate"},
		{"algorithm: fixed-window, limit: 5, window: 1s, rate: 5/s",
		 "has limit and window"},
		{"algorithm: fixed-window, window: 1s", "has no limit"},
		{"algorithm: fixed-window, limit: 5", "has no window"},
		{"algorithm: fixed-window, limit: 5, window: 0", "too short (1ms to 1d)"},
		{"algorithm: fixed-window, limit: 5, window: 2d", "too long (1ms to 1d)"},
		{"algorithm: fixed-window, limit: 5, window: 5", "is not a duration"},
		{"algorithm: fixed-window, limit: 0, window: 1s", "admits nothing"},
		{"algorithm: fixed-window, limit: 1099511627776, window: 1s", "out of range"},
		{"algorithm: fixed-window, limit: 59 B, window: 1s", "smaller than one packet"},
		{"algorithm: sliding-window-counter, limit: 33554432, window: 1s", "too much"},
		{"algorithm: leaky", "unknown word"},
		{"rate: 5/s, block_for: 1ms", "too short"},
		{"rate: 5/s, block_for: 8d", "too long"},
		{"rate: 5/s, ipv4_prefix: 33", "out of range (0 to 32)"},
		{"rate: 5/s, ipv6_prefix: 129", "out of range (0 to 128)"},
		{"rate: 5/s, ipv4_prefix: -1", "not a whole number"},
		{"rate: 5/s, mode: on", "unknown word \"on\" (enforce or monitor)"},
		{"rate: 5/s, per: destinaton", "did you mean \"destination\"?"},
		{"rate: 5/s, per: destination, block_for: 10s",
		 "block_for is for limits per: source: a blocked destination would be cut off for "
		 "everybody (leave block_for out"},
		{"rate: 500/s, per: destination, scope: fleet",
		 "scope: fleet is for limits per: source"},
		{"rate: 5/s, per: al", "did you mean \"all\"?"},
		{"rate: 5/s, per: all, block_for: 10s",
		 "block_for is for limits per: source: the host would be cut off for everybody"},
		{"rate: 5/s, per: all, ipv4_prefix: 32",
		 "ipv4_prefix: a limit per: all has one budget for every address (leave it out"},
		{"rate: 5/s, ipv6_prefix: 64, per: all",
		 "ipv6_prefix: a limit per: all has one budget for every address (leave it out"},
		{"rate: 500/s, per: all, scope: fleet", "scope: fleet is for limits per: source"},
		{"rate: 5/s, rate: 6/s", "rate is set twice (first in line 2)"},
		{"rate: 5/s, burts: 6", "did you mean \"burst\""},
		{"rate: 5/s, protocol: tcp", "it belongs under packet_limits.match"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect_limit_error(rows[i].limit, rows[i].words);
}

static void impossible_conditions_of_a_limit(void **state)
{
	static const struct {
		const char *match, *words;
	} rows[] = {
		{"protocol: 256", "unknown protocol"},
		{"protocol: tpc", "did you mean \"tcp\""},
		{"protocol: []", "leave protocol out to match everything"},
		{"protocol: {tcp: true}", "only {not: [...]} may stand here"},
		{"protocol: {not: []}", "not: needs a value or a list"},
		{"source_port: 65536", "neither a number nor a range (0 to 65535"},
		{"source_port: 9-5", "runs backwards (5-9)"},
		{"source_port: 1-2-3", "neither a number nor a range"},
		{"source_port: -5", "neither a number nor a range"},
		{"source_port: [[80]]", "a list instead of a value"},
		{"source_port: []", "nothing in it"},
		{"vlan: 4095", "0 to 4094"},
		{"source: 10.0.0.1/8", "did you mean 10.0.0.0/8, or the address alone?"},
		{"source: 10.0.0.0/33", "the length is out of range (0 to 32)"},
		{"source: \"::/129\"", "(0 to 128)"},
		{"destination: example.org", "neither an address nor a prefix"},
		{"tcp_flags: {set: [syn, sin]}", "unknown TCP flag \"sin\""},
		{"tcp_flags: [syn]", "a list where settings belong (set, clear)"},
		{"tcp_flags: {unset: syn}", "unknown key \"unset\" (did you mean \"set\"?)"},
		{"fragment: maybe", "neither true nor false"},
		{"protocol: icmp, source_port: 5", "can never match: its protocols have no ports"},
		{"protocol: udp, tcp_flags: {set: syn}", "only tcp has TCP flags"},
		{"tcp_flags: {set: syn, clear: syn}", "in both set and clear"},
		{"source: 10.0.0.0/8, destination: \"::1\"", "different families"},
		{"protocol: icmpv6, source: 10.0.0.0/8", "different families"},
		{"protocol: icmp, destination: \"::1\"", "different families"},
		{"port: 80", "unknown key \"port\""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char limit[200];

		(void)snprintf(limit, sizeof(limit), "rate: 5/s, match: {%s}", rows[i].match);
		expect_limit_error(limit, rows[i].words);
	}
}

static void impossible_interfaces(void **state)
{
	static const char *const names[] = {"\"\"", "a/b", "\"a b\"",	       "a:b",
					    ".",    "..",  "sixteen-chars-xx", "\"a\\tb\""};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char text[64];

		(void)snprintf(text, sizeof(text), "interfaces: [%s]\n", names[i]);
		expect_problem(text, 1, 1, 14, "cannot be an interface");
	}
	expect_problem("interfaces: {a: b}\n", 1, 1, 13, "a group of settings");
}

static void warnings_for_what_is_rarely_meant(void **state)
{
	static const struct {
		const char *limit, *words;
		int column;
	} rows[] = {
		{"rate: 5/s, match: {protocol: udp}, block_for: 10s", "in somebody else's name",
		 61},
		{"rate: 5/s, block_for: 10s", "in somebody else's name", 37},
		{"rate: 5 MB/s, burst: 1000 B", "never passes, even alone", 36},
		{"rate: 5/s, ipv6_prefix: 128", "/64 of them to change between", 39},
		{"rate: 5/s, match: {fragment: true, source_port: 5}", "first fragments only", 44},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[256];

		(void)snprintf(text, sizeof(text), "packet_limits:\n  - {name: x, %s}\n",
			       rows[i].limit);
		expect_problem(text, 0, 2, rows[i].column, rows[i].words);
	}
	expect_problem("mode: monitor\n", 0, 1, 7, "nothing is dropped");
	expect_problem("interfaces: []\n", 0, 1, 13, "nothing is protected");
	expect_problem("interfaces: [a]\n", 0, 0, 0, "nothing to enforce");
	expect_problem("lists:\n  allow: [10.0.0.0/8]\n  block:\n    - 10.1.0.0/16\n", 0, 4, 0,
		       "10.1.0.0/16 is inside the allowed 10.0.0.0/8 (line 2)");
	expect_problem("lists: {allow: 0.0.0.0/0}\n", 0, 1, 0, "lets everybody through");
	expect_problem("packet_limits:\n- {name: x, rate: 5/s, block_for: 5s, match: {tcp_flags: "
		       "{set: syn, "
		       "clear: ack}}}\n",
		       0, 2, 0, "never_block");
}

/* A truncated file would otherwise be a wish to take everything off. */
static void a_file_without_settings_is_a_mistake(void **state)
{
	(void)state;
	expect_problem("", 1, 0, 0, "no settings in it");
	expect_problem("\n# nothing here\n", 1, 0, 0, "no settings in it");
	expect_problem("---\n", 1, 0, 0, "no settings in it");
	expect_problem("---\n...\n", 1, 0, 0, "no settings in it");
	expect_problem("\xef\xbb\xbf", 1, 0, 0, "no settings in it");
	expect_problem("~\n", 1, 0, 0, "no settings in it");
	weir_conf_free(conf_of("version: 1\n"));
}

static void a_byte_order_mark_moves_nothing(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c =
		conf_of("\xef\xbb\xbfmode: monitor\ninterfaces: [lo]\n");

	(void)state;
	assert_int_equal(c->n_interfaces, 1);
	expect_problem("\xef\xbb\xbfmode: 7\ninterfaces: [lo]\n", 1, 1, 7, "mode");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_mistakes_of_a_file_in_one_pass),
		cmocka_unit_test(problems_print_as_file_line_column),
		cmocka_unit_test(yaml_mistakes_are_sentences),
		cmocka_unit_test(a_file_without_settings_is_a_mistake),
		cmocka_unit_test(a_byte_order_mark_moves_nothing),
		cmocka_unit_test(anchors_and_aliases_are_refused_even_in_circles),
		cmocka_unit_test(depth_and_values_are_bounded),
		cmocka_unit_test(only_the_first_two_hundred_problems_are_kept),
		cmocka_unit_test(impossible_numbers_of_a_limit),
		cmocka_unit_test(impossible_conditions_of_a_limit),
		cmocka_unit_test(impossible_interfaces),
		cmocka_unit_test(warnings_for_what_is_rarely_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
