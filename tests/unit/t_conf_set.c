/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/config: one limit changed in memory, and in the text of its file. */
#include <sys/stat.h>
#include <unistd.h>

#include "conf_case.h"

static const char file[] = "# top\n"
			   "packet_limits:\n"
			   "  # about ä\n"
			   "  - name: syn   # ü first\n"
			   "    match:\n"
			   "      protocol: tcp\n"
			   "    rate: 100/s   # keep me\n"
			   "    burst: 200\n"
			   "  - {name: flow, rate: \"5/s\", mode: monitor}   # short\n"
			   "  - {name: win, algorithm: fixed-window, limit: 5, window: 1s}\n"
			   "mode: enforce\n";

static void values_are_set_and_checked_as_in_the_file(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(file);
	struct weir_error e = {""};

	(void)state;
	assert_int_equal(set_limit(c, "syn", "rate", "500/s", &e), 0);
	assert_true(c->limits[0].rate == 500 && c->limits[0].burst == 200);
	assert_int_equal(set_limit(c, "syn", "block_for", "10s", &e), 0);
	assert_true(c->limits[0].block_for_ns == 10000000000ull);
	assert_int_equal(set_limit(c, "syn", "mode", "monitor", &e), 0);
	assert_int_equal(c->limits[0].mode, WEIR_MODE_MONITOR);
	assert_int_equal(set_limit(c, "syn", "match.destination_port", "[80, 443]", &e), 0);
	assert_int_equal(c->limits[0].match.destination_port.n, 2);
	assert_true(c->limits[0].match.protocol[6]); /* the rest of match stays */
	assert_int_equal(set_limit(c, "syn", "match", "{source: 10.0.0.0/8}", &e), 0);
	assert_int_equal(c->limits[0].match.destination_port.n, 0);
	assert_true(c->limits[0].match.any_protocol);
	assert_int_equal(c->limits[0].match.source.n, 1);
	assert_string_equal(e.text, "");
}

static void whose_budget_it_is_can_be_set_within_its_rules(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c =
		conf_of("packet_limits:\n"
			"  - {name: syn, match: {protocol: tcp}, rate: 5/s, block_for: 10s}\n"
			"  - {name: loud, match: {protocol: tcp}, rate: 5/s}\n"
			"  - {name: plain, rate: 5/s}\n"
			"suspicious: {packet_limits: [loud], limit: {key: ip, rate: 1/s}}\n"
			"request_limits: [{name: r, key: ip, rate: 1/s}]\n"
			"http: {listeners: [{listen: 127.0.0.1:0, profile: nginx}]}\n");
	struct weir_error e = {""};

	(void)state;
	assert_int_equal(set_limit(c, "plain", "per", "destination", &e), 0);
	assert_int_equal(c->limits[2].per, WEIR_PER_DESTINATION);
	assert_int_equal(set_limit(c, "plain", "block_for", "10s", &e), -EINVAL);
	assert_non_null(strstr(e.text, "block_for is for limits per: source"));
	assert_int_equal(set_limit(c, "syn", "per", "destination", &e), -EINVAL);
	assert_non_null(strstr(e.text, "block_for is for limits per: source"));
	assert_int_equal(set_limit(c, "loud", "per", "destination", &e), -EINVAL);
	assert_non_null(strstr(e.text, "\"loud\" is one of suspicious.packet_limits"));
	assert_int_equal(c->limits[1].per, WEIR_PER_SOURCE);
	assert_int_equal(set_limit(c, "plain", "per", "all", &e), 0);
	assert_int_equal(set_limit(c, "plain", "ipv4_prefix", "24", &e), -EINVAL);
	assert_non_null(strstr(e.text, "one budget for every address"));
	assert_int_equal(set_limit(c, "plain", "per", "source", &e), 0);
	assert_int_equal(set_limit(c, "plain", "ipv4_prefix", "24", &e), 0);
	assert_int_equal(set_limit(c, "plain", "per", "all", &e), -EINVAL);
}

static void a_default_burst_follows_the_rate(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(file);
	struct weir_error e = {""};

	(void)state;
	assert_true(c->limits[1].burst == 5);
	assert_int_equal(set_limit(c, "flow", "rate", "70/s", &e), 0);
	assert_true(c->limits[1].burst == 70);
}

static void bad_values_change_nothing(void **state)
{
	static const struct {
		const char *name, *key, *value, *words;
		int code;
	} rows[] = {
		{"syn", "rate", "fast", "is not a rate", -EINVAL},
		{"syn", "rate", "0/s", "admits nothing", -EINVAL},
		{"syn", "rate", "5 MB/s", "burst counts packets but rate counts bytes", -EINVAL},
		{"syn", "limit", "5", "a token-bucket has rate and burst", -EINVAL},
		{"syn", "name", "x", "cannot be set", -EINVAL},
		{"syn", "burts", "5", "did you mean \"burst\"", -EINVAL},
		{"syn", "zzz", "5", "unknown key \"zzz\" (match, per,", -EINVAL},
		{"syn", "rate", "", "no value", -EINVAL},
		{"syn", "rate", "[5", "missing", -EINVAL},
		{"syn", "rate", "5/s, burst: 3", "instead of a value (rate)", -EINVAL},
		{"syn", "match", "{protocol: tpc}", "did you mean \"tcp\"", -EINVAL},
		{"sym", "rate", "5/s", "did you mean \"syn\"", -ENOENT},
		{"zebra", "rate", "5/s", "no limit is called \"zebra\"", -ENOENT},
		{"win", "rate", "5/s", "has limit and window", -EINVAL},
		{"syn", "algorithm", "fixed-window", "has no limit", -EINVAL},
		{"syn", "per", "al", "did you mean \"all\"", -EINVAL},
	};
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(file);
	const struct weir_conf_limit before = c->limits[0];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct weir_error e = {""};

		assert_int_equal(set_limit(c, rows[i].name, rows[i].key, rows[i].value, &e),
				 rows[i].code);
		if (!strstr(e.text, rows[i].words))
			fail_msg("%s=%s says \"%s\"", rows[i].key, rows[i].value, e.text);
		assert_memory_equal(&before, &c->limits[0], sizeof(before));
	}
}

static void several_at_once_may_change_unit_or_algorithm(void **state)
{
	static const char *const unit[] = {"rate=10 MB/s", "burst=20 MB"};
	static const char *const algorithm[] = {"algorithm=sliding-window-counter", "limit=50",
						"window=2s"};
	static const char *const bad[] = {"rate=7/s", "burst"};
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(file);
	struct weir_error e = {""};

	(void)state;
	assert_int_equal(weir_conf_limit_set_all(c, "syn", unit, 2, NULL, &e), 0);
	assert_true(c->limits[0].bytes && c->limits[0].rate == 10000000 &&
		    c->limits[0].burst == 20000000);
	assert_int_equal(weir_conf_limit_set_all(c, "syn", algorithm, 3, NULL, &e), 0);
	assert_true(!c->limits[0].bytes && c->limits[0].limit == 50);
	assert_int_equal(weir_conf_limit_set_all(c, "syn", bad, 2, NULL, &e), -EINVAL);
	assert_string_equal(e.text, "\"burst\" is not KEY=VALUE (for example rate=500/s)");
}

/* The file with @from replaced by @to is what the edit must give. */
static void expect_edit(const char *text, const char *name, const char *key, const char *value,
			const char *from, const char *to)
{
	const char *at = strstr(text, from);
	_cleanup_free_ char *out = NULL, *want = NULL;
	struct weir_error e = {""};
	size_t n = 0, size = strlen(text) + strlen(to) + 1;

	assert_non_null(at);
	want = malloc(size);
	assert_non_null(want);
	(void)snprintf(want, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	if (weir_conf_edit_limit(text, strlen(text), name, key, value, &out, &n, &e) < 0)
		fail_msg("%s", e.text);
	assert_string_equal(out, want);
	assert_int_equal(n, strlen(want));
}

static void only_the_value_changes_in_the_text(void **state)
{
	(void)state;
	expect_edit(file, "syn", "rate", "5000/s", "100/s", "5000/s");
	expect_edit(file, "syn", "burst", "7", "burst: 200", "burst: 7");
	expect_edit(file, "flow", "rate", "200 Mbit/s", "\"5/s\"", "200 Mbit/s");
	expect_edit(file, "flow", "mode", "enforce", "monitor", "enforce");
	expect_edit(file, "win", "window", "10s", "1s}", "10s}");
	expect_edit(file, "flow", "rate", "'a, b: c'", "\"5/s\"",
		    "\"a, b: c\""); /* cannot break out */
	expect_edit("\xef\xbb\xbfpacket_limits:\n- name: x\n  rate: 5/s\n", "x", "rate", "7/s",
		    "5/s", "7/s"); /* after a byte order mark */
	expect_edit(file, "flow", "rate", "'a\"\\'", "\"5/s\"", "\"a\\\"\\\\\"");
}

static void a_new_key_goes_beside_the_name(void **state)
{
	(void)state;
	expect_edit(file, "syn", "block_for", "10s", "# ü first\n",
		    "# ü first\n    block_for: 10s\n");
	expect_edit(file, "flow", "match", "{protocol: [tcp, udp]}", "{name: flow",
		    "{name: flow, match: {protocol: [tcp, udp]}");
	expect_edit("packet_limits:\r\n- name: a\r\n  rate: 5/s\r\n", "a", "burst", "9", "a\r\n",
		    "a\r\n  burst: 9\r\n");
	expect_edit("packet_limits:\n- rate: 5/s\n  name: a", "a", "burst", "9", "name: a",
		    "name: a\n  burst: 9");
	expect_edit("\xef\xbb\xbfpacket_limits: [{name: a, rate: 5/s}]", "a", "rate", "6/s", "5/s",
		    "6/s");
}

static void what_cannot_be_edited_is_refused(void **state)
{
	static const struct {
		const char *name, *key, *value, *words;
	} rows[] = {
		{"syn", "match", "{protocol: udp}", "line 6: match spans several lines"},
		{"syn", "name", "x", "cannot be saved"},
		{"syn", "match.protocol", "udp", "cannot be saved by itself"},
		{"gone", "rate", "5/s", "no limit \"gone\""},
		{"syn", "rate", "a\nb: c", "no key can begin"},
		{"syn", "rate", "5/s # x\n", ""},
		{"syn", "rate", "", "cannot be written"},
		{"syn", "match", "{a: b", "missing"},
		{"syn", "match", "{a: b} # c", "cannot be written"},
		{"syn", "match", "a: b", "cannot be written"},
		{"syn", "rate", "&a 5/s", "an anchor"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_free_ char *out = NULL;
		struct weir_error e = {""};
		size_t n;
		int r = weir_conf_edit_limit(file, strlen(file), rows[i].name, rows[i].key,
					     rows[i].value, &out, &n, &e);

		if (!*rows[i].words) {
			assert_int_equal(r, 0); /* a comment is no part of the value */
			continue;
		}
		assert_true(r < 0);
		if (!strstr(e.text, rows[i].words))
			fail_msg("%s=%s says \"%s\"", rows[i].key, rows[i].value, e.text);
	}
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
}

static void assert_file(const char *path, const char *words)
{
	char text[2048];
	FILE *f = fopen(path, "re");
	size_t n;

	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	assert_int_equal(fclose(f), 0);
	text[n] = '\0';
	if (!strstr(text, words))
		fail_msg("no \"%s\" in %s", words, text);
}

static int save(const char *path, const char *pair, struct weir_error *e)
{
	return weir_conf_save_limit_all(path, "syn", &pair, 1, e);
}

static void saving_keeps_mode_owner_and_link_and_never_saves_a_wrong_file(void **state)
{
	static const char *const unit[] = {"rate=10 MB/s", "burst=20 MB"};
	char folder[] = "/tmp/weir-save-XXXXXX", path[64], link_path[64];
	struct weir_error e = {""};
	struct stat before, after;

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/weir.yaml", folder);
	(void)snprintf(link_path, sizeof(link_path), "%s/link.yaml", folder);
	write_file(path, file);
	assert_int_equal(chmod(path, 0640), 0);
	if (geteuid() == 0)
		assert_int_equal(chown(path, 12, 34), 0);
	assert_int_equal(symlink("weir.yaml", link_path), 0);
	assert_int_equal(stat(path, &before), 0);

	assert_int_equal(save(link_path, "rate=777/s", &e), 0);
	assert_file(path, "    rate: 777/s   # keep me\n");
	assert_int_equal(lstat(link_path, &after), 0);
	assert_true(S_ISLNK(after.st_mode));
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_mode, before.st_mode);
	assert_int_equal(after.st_uid, before.st_uid);
	assert_int_equal(after.st_gid, before.st_gid);
	assert_int_not_equal(after.st_ino, before.st_ino);

	assert_int_equal(save(path, "rate=5 MB/s", &e), -EINVAL);
	assert_non_null(strstr(e.text, "burst counts packets"));
	assert_non_null(strstr(e.text, "(nothing was saved)"));
	assert_file(path, "rate: 777/s");
	assert_int_equal(weir_conf_save_limit_all(path, "syn", unit, 2, &e), 0);
	assert_file(path, "rate: 10 MB/s   # keep me\n    burst: 20 MB\n");
	assert_int_equal(save("/nonexistent/x", "rate=5/s", &e), -ENOENT);

	assert_int_equal(unlink(link_path), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0); /* no temporary file is left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_set_and_checked_as_in_the_file),
		cmocka_unit_test(whose_budget_it_is_can_be_set_within_its_rules),
		cmocka_unit_test(a_default_burst_follows_the_rate),
		cmocka_unit_test(bad_values_change_nothing),
		cmocka_unit_test(several_at_once_may_change_unit_or_algorithm),
		cmocka_unit_test(only_the_value_changes_in_the_text),
		cmocka_unit_test(a_new_key_goes_beside_the_name),
		cmocka_unit_test(what_cannot_be_edited_is_refused),
		cmocka_unit_test(saving_keeps_mode_owner_and_link_and_never_saves_a_wrong_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
