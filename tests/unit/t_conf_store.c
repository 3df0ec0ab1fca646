/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/config: `store:`, leases, and what `weir check` says of them. */
#include "conf_case.h"

#include <fcntl.h>

#define S  1000000000ull
#define MS 1000000ull

static const char everything[] =
	"request_limits:\n"
	"- {name: per-address, key: ip, rate: 50/s, burst: 200, lease: 20}\n"
	"- {name: login, key: [ip, endpoint], algorithm: sliding-window-log, limit: 5, window: "
	"60s, "
	"on_store_failure: closed}\n"
	"- {name: api, key: api-key, algorithm: fixed-window, limit: {free: 600, pro: 6000}, "
	"window: 1h, "
	"lease: {free: 0, pro: 100}, on_store_failure: open}\n"
	"- {name: back-end, key: global, rate: 500/s, scope: host}\n"
	"- {name: sum, key: ip, algorithm: sliding-window-counter, limit: 100, window: 60s, lease: "
	"10}\n"
	"plans: [free, pro]\n"
	"store:\n"
	"  url: redis+sentinel://10.0.0.5,10.0.0.6/mymaster\n"
	"  user: weir\n"
	"  password_file: /etc/weir/redis.pass\n"
	"  sentinel: {user: watcher, password_file: /etc/weir/sentinel.pass}\n"
	"  prefix: \"w:\"\n"
	"  key_secret_file: /etc/weir/fleet.key\n"
	"  timeout: 4ms\n"
	"  breaker: {errors: 10, within: 2s, probe: 100ms}\n"
	"  batch: 1\n"
	"  local_share: 12.5%\n"
	"  fleet: {lists: false, limits_from: store}\n";

static void every_setting_of_the_store(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(everything);
	const struct weir_conf_store *s = &c->store;

	(void)state;
	assert_true(s->shared);
	assert_string_equal(s->url, "redis+sentinel://10.0.0.5,10.0.0.6/mymaster");
	assert_string_equal(s->user, "weir");
	assert_string_equal(s->password_file, "/etc/weir/redis.pass");
	assert_string_equal(s->sentinel_user, "watcher");
	assert_string_equal(s->sentinel_password_file, "/etc/weir/sentinel.pass");
	assert_string_equal(s->prefix, "w:");
	assert_string_equal(s->key_secret_file, "/etc/weir/fleet.key");
	assert_true(s->timeout_ns == 4 * MS && s->breaker_errors == 10);
	assert_true(s->breaker_within_ns == 2 * S && s->breaker_probe_ns == 100 * MS);
	assert_true(s->batch == 1 && s->local_share_parts == 125000);
	assert_false(s->fleet_lists);
	assert_int_equal(s->limits_from, WEIR_LIMITS_FROM_STORE);
	assert_true(c->request.limit[0].lease[0] == 20 && c->request.limit[0].lease[1] == 20);
	assert_true(c->request.limit[2].lease[0] == 0 && c->request.limit[2].lease[1] == 100);
	assert_int_equal(c->request.limit[3].scope, WEIR_SCOPE_HOST);
}

static void without_a_store_it_is_embedded(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of("version: 1\n");

	(void)state;
	assert_false(c->store.shared);
	assert_string_equal(c->store.url, "embedded");
	assert_string_equal(c->store.prefix, "weir:");
	assert_true(c->store.timeout_ns == 5 * MS && c->store.breaker_errors == 20);
	assert_true(c->store.breaker_within_ns == S && c->store.breaker_probe_ns == 500 * MS);
	assert_true(c->store.batch == 64 && !c->store.local_share_parts);
	assert_true(c->store.fleet_lists && c->store.limits_from == WEIR_LIMITS_FROM_FILE);
}

static void shares_of_a_limit(void **state)
{
	static const struct {
		const char *text;
		__u64 parts;
	} rows[] = {{"auto", 0},       {"0.25", 250000}, {"25%", 250000}, {"1", 1000000},
		    {"100%", 1000000}, {"1/4", 250000},	 {"1/3", 333333}, {".5", 500000},
		    {"0.5%", 5000},    {"1.0", 1000000}, {"0.0000019", 1}};
	static const char *const wrong[] = {"0",   "2",	  "101%", "half", "-1",	 "0.5.5",
					    "1/0", "2/3", ".",	  "1%%",  "\"\""};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
		char text[128];

		(void)snprintf(text, sizeof(text), "store: {url: redis://a, local_share: %s}\n",
			       rows[i].text);
		c = conf_of(text);
		if (c->store.local_share_parts != rows[i].parts)
			fail_msg("%s: %llu", rows[i].text, c->store.local_share_parts);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		char text[128];

		(void)snprintf(text, sizeof(text), "store: {url: redis://a, local_share: %s}\n",
			       wrong[i]);
		expect_problem(text, 1, 1, 38, "share");
	}
}

static void mistakes_about_the_store(void **state)
{
	(void)state;
	expect_problem("store: {url: memory}\n", 1, 1, 14, "this is no address of a store");
	expect_problem("store: {url: \"redis+cluster://a,b/3\"}\n", 1, 1, 14, "no databases but 0");
	expect_problem("store: {url: redis://a, timeout: 30ms}\n", 1, 1, 34,
		       "timeout: a check has 20ms in all and the store may take 30ms");
	expect_problem("http: {budget: 3ms}\nstore: {url: redis://a}\n", 1, 1, 16,
		       "budget: a check has 3ms in all and the store may take 5ms");
	expect_problem("store: {url: redis://a, tls: {ca: /x}}\n", 1, 1, 30, "rediss://");
	expect_problem("store: {url: redis://a, user: two words}\n", 1, 1, 31, "one word");
	expect_problem("store: {url: redis://a, sentinel: {user: x}}\n", 1, 1, 35,
		       "url names no Sentinels (redis+sentinel://host,…/MASTER)");
	expect_problem("store:\n  url: redis+sentinel://a,b:99999/m\n", 1, 2, 8,
		       "the port of a server is no number from 1 to 65535");
	expect_problem("store:\n  url: redis+sentinel://a,,b/m\n", 1, 2, 8, "a server has no name");
	expect_problem("store:\n  url: redis+sentinel://a,b\n", 1, 2, 8,
		       "the name of the master is missing");
	expect_problem("store: {url: redis+sentinel://a/m, sentinel: {user: x}}\n", 0, 1, 46,
		       "no password for user is here");
	expect_problem("store: {url: redis://a, prefix: \"a*\"}\n", 1, 1, 33, "cannot begin keys");
	expect_problem("store: {url: redis://a, batch: 0}\n", 1, 1, 32, "out of range");
	expect_problem("store: {url: redis://a, breaker: {errors: 0}}\n", 1, 1, 43, "out of range");
	expect_problem("store: {url: redis://a, fleet: {limits_from: here}}\n", 1, 1, 46,
		       "unknown word");
	expect_problem("store: {timeout: 3ms}\n", 0, 1, 18, "means nothing to the embedded store");
	expect_problem("store: {url: redis://a, user: weir}\n", 0, 1, 31, "no password is here");
}

static void tls_is_refused_where_the_build_has_none(void **state)
{
	(void)state;
#ifdef WEIR_HIREDIS_SSL
	weir_conf_free(conf_of("store: {url: rediss://a, tls: {ca: /x}}\n"));
	expect_problem("store: {url: rediss://a, tls: {cert: /x}}\n", 1, 1, 31, "belong together");
#else
	expect_problem("store: {url: rediss://a}\n", 1, 1, 14, "TLS needs hiredis 1.0");
#endif
}

/* Wherever a sentence or a page names the store. */
static void a_password_is_never_shown(void **state)
{
	static const char *const files[] = {
		"store: {url: \"redis://u:s3cr3t@a:b\"}\n",
		"store: {url: \"redis://u:s3cr3t@a:1/x\"}\n",
		"store: {url: \"redis://u:s3cr3t%@a\"}\n",
		"store: {url: \"redis://u:s3cr3t@a\", timeout: 1m}\n",
		("store: {url: \"redis://u:s3cr3t@a\"}\n"
		 "request_limits: [{name: a, key: ip, rate: 1/s}]\n"),
		"store: {url: \"redis:/u:s3cr3t@a\"}\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
		_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
		_cleanup_free_ char *out = NULL;
		size_t n;
		FILE *f = open_memstream(&out, &n);

		(void)weir_conf_parse("x", files[i], strlen(files[i]), &c, &p);
		assert_true(p.n > 0);
		weir_conf_problems_print(&p, "x", f);
		if (c)
			weir_conf_explain(c, f);
		assert_int_equal(fclose(f), 0);
		if (strstr(out, "s3cr3t"))
			fail_msg("%s", out);
	}
}

static void a_password_in_the_url_is_a_warning(void **state)
{
	(void)state;
	expect_problem("store: {url: \"redis://u:x@a\"}\n", 0, 1, 14, "password_file");
}

static void which_password_counts(void **state)
{
	char path[] = "/tmp/weir-pass-XXXXXX", text[256];
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL, *d = NULL;
	_cleanup_free_ char *a = NULL, *b = NULL, *none = NULL, *bad = NULL, *sentinels = NULL;
	struct weir_error e = {""};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0 && write(fd, "from file\n", 10) == 10);
	(void)snprintf(text, sizeof(text), "store: {url: redis://a, password_file: %s}\n", path);
	c = conf_of(text);
	d = conf_of("store: {url: redis://a}\n");
	assert_int_equal(setenv("WEIR_STORE_PASSWORD", "from env", 1), 0);
	assert_int_equal(weir_conf_store_password(&c->store, &a, &e), 0);
	assert_string_equal(a, "from file");
	assert_int_equal(weir_conf_store_password(&d->store, &b, &e), 0);
	assert_string_equal(b, "from env");
	assert_int_equal(setenv("WEIR_STORE_PASSWORD", "", 1), 0);
	assert_int_equal(weir_conf_store_password(&d->store, &none, &e), 0);
	assert_null(none);
	expect_problem("store: {url: redis://a, user: weir}\n", 0, 1, 31, "no password is here");
	assert_int_equal(unsetenv("WEIR_STORE_PASSWORD"), 0);
	assert_int_equal(weir_conf_store_password(&d->store, &none, &e), 0);
	assert_null(none);
	assert_int_equal(weir_conf_sentinel_password(&c->store, &none, &e), 0);
	assert_null(none);
	assert_int_equal(setenv("WEIR_STORE_SENTINEL_PASSWORD", "theirs", 1), 0);
	assert_int_equal(weir_conf_sentinel_password(&c->store, &sentinels, &e), 0);
	assert_string_equal(sentinels, "theirs");
	assert_int_equal(unsetenv("WEIR_STORE_SENTINEL_PASSWORD"), 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(weir_conf_store_password(&c->store, &bad, &e), -EINVAL);
	assert_non_null(strstr(e.text, "must hold the password alone"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(weir_conf_store_password(&c->store, &bad, &e), -ENOENT);
	assert_int_equal(close(fd), 0);
}

static void numbers_that_the_server_cannot_hold_are_refused(void **state)
{
	static const char limit[] =
		"request_limits:\n- {name: a, key: ip, rate: 999999937/s, burst: 9000000000%s}\n%s";
	char text[256];

	(void)state;
	(void)snprintf(text, sizeof(text), limit, "", "");
	weir_conf_free(conf_of(text)); /* here they can be counted */
	(void)snprintf(text, sizeof(text), limit, "", "store: {url: redis://a}\n");
	expect_problem(text, 1, 2, 28, "rate: the shared store counts in numbers below 2^52");
	(void)snprintf(text, sizeof(text), limit, ", scope: host", "store: {url: redis://a}\n");
	weir_conf_free(conf_of(text));
}

static void who_may_have_a_lease(void **state)
{
	static const struct {
		const char *limit, *words;
	} rows[] = {
		{"algorithm: sliding-window-log, limit: 500, window: 1m, lease: 10",
		 "sliding-window-log"},
		{"algorithm: leaky-bucket, rate: 100/s, lease: 10", "a place in a queue"},
		{"rate: 100/s, lease: 11", "more than a tenth of burst 100"},
		{"algorithm: fixed-window, limit: 99, window: 1m, lease: 10",
		 "more than a tenth of limit 99"},
		{"rate: 100/s, lease: 1", "1 saves nothing"},
		{"rate: 100/s, lease: -1", "is not a number"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[256];

		(void)snprintf(
			text, sizeof(text),
			"store: {url: redis://a}\nrequest_limits:\n- {name: a, key: ip, %s}\n",
			rows[i].limit);
		{
			_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
			struct weir_conf *c = NULL;

			assert_int_equal(weir_conf_parse("x", text, strlen(text), &c, &p), -EINVAL);
			if (p.n_errors != 1 || !strstr(p.item[0].text, rows[i].words))
				fail_msg("%s: %s", rows[i].limit, p.item[0].text);
		}
	}
	expect_problem("request_limits:\n- {name: a, key: ip, rate: 100/s, lease: 10}\n", 0, 2, 42,
		       "saves nothing");
}

static void limit_set_knows_the_store(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(everything);
	struct weir_error e = {""};

	(void)state;
	assert_int_equal(set_limit(c, "per-address", "lease", "10", &e), 0);
	assert_true(c->request.limit[0].lease[1] == 10);
	assert_int_equal(set_limit(c, "per-address", "lease", "21", &e), -EINVAL);
	assert_non_null(strstr(e.text, "a tenth"));
	assert_int_equal(set_limit(c, "api", "lease.pro", "200", &e), 0);
	assert_true(c->request.limit[2].lease[1] == 200);
}

static void check_says_what_happens_without_the_store(void **state)
{
	static const char *const words[] = {
		"Store: redis+sentinel://10.0.0.5:26379,10.0.0.6:26379/mymaster, keys begin with "
		"w:",
		"may take 4ms, up to 1 go in one call",
		"After 10 failures in 2s it is not asked any more, but tried every 100ms",
		"per-address: all agents count together; while the store is away each agent grants "
		"12.5 %",
		"login: all agents count together; while the store is away all are refused (503",
		"api: all agents count together; while the store is away all pass",
		"back-end: each host counts by itself",
		"takes up to 20 at once: at most agents × 20 more than the limit in one burst (2 "
		"agents: 40",
		"plan pro a busy agent takes up to 100 at once: spent in the window",
		"at most agents × 10 more than the limit in one window",
	};
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(everything);

	(void)state;
	expect_explained(c, words, ARRAY_LEN(words));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_setting_of_the_store),
		cmocka_unit_test(without_a_store_it_is_embedded),
		cmocka_unit_test(shares_of_a_limit),
		cmocka_unit_test(mistakes_about_the_store),
		cmocka_unit_test(tls_is_refused_where_the_build_has_none),
		cmocka_unit_test(a_password_is_never_shown),
		cmocka_unit_test(a_password_in_the_url_is_a_warning),
		cmocka_unit_test(which_password_counts),
		cmocka_unit_test(numbers_that_the_server_cannot_hold_are_refused),
		cmocka_unit_test(who_may_have_a_lease),
		cmocka_unit_test(limit_set_knows_the_store),
		cmocka_unit_test(check_says_what_happens_without_the_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
