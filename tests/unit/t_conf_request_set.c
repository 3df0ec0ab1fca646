/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/config: one request limit changed in memory and in the text of its file, said in words, and the whole layer. */
#include "conf_case.h"

static const char file[] =
	"plans: [free, pro]\n"
	"http: {proxy_headers: {cost: X-Cost}}\n"
	"packet_limits: [{name: syn, rate: 5/s}]\n"
	"request_limits:\n"
	"  - name: login   # first\n"
	"    match: {method: POST, path: [/login, /token], host: a.b, header: {X-A: b}}\n"
	"    key: [ip, endpoint]\n"
	"    algorithm: sliding-window-log\n"
	"    limit: 5      # keep me\n"
	"    window: 60s\n"
	"  - name: api\n"
	"    key: {any: [api-key, ip], new_per_ip: 5/s}\n"
	"    algorithm: sliding-window-counter\n"
	"    limit:\n"
	"      free: 60\n"
	"      pro: 6000   # paid\n"
	"    window: 60s\n"
	"  - {name: bucket, key: ip, rate: 20 per 60s}\n"
	"  - {name: spent, key: ip, rate: 5/s, burst: 9, cost: {from: proxy}}\n"
	"  - {name: queue, key: global, algorithm: leaky-bucket, rate: 50/s}\n"
	"suspicious:\n"
	"  refused: {limits: login, count: 5}\n"
	"  limit:\n"
	"    key: ip\n"
	"    rate: 1/s\n";

static struct weir_conf_request_limit *limit_of(struct weir_conf *c, const char *name)
{
	for (size_t i = 0; i < c->request.n_limit; i++)
		if (strcmp(c->request.limit[i].name, name) == 0)
			return &c->request.limit[i];
	return &c->request.suspicious.limit;
}

static void set(struct weir_conf *c, const char *name, const char *key, const char *value)
{
	struct weir_error e = {""};

	if (set_limit(c, name, key, value, &e) < 0)
		fail_msg("%s=%s: %s", key, value, e.text);
}

static void values_are_set_and_checked_as_in_the_file(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(file);
	struct weir_conf_request_limit *l = limit_of(c, "login");

	(void)state;
	set(c, "login", "limit", "7");
	assert_true(l->limit[0] == 7 && l->limit[1] == 7);
	set(c, "login", "window", "2m");
	assert_true(l->window_ns == 120000000000ull);
	set(c, "login", "mode", "monitor");
	set(c, "login", "on_store_failure", "closed");
	assert_int_equal(l->mode, WEIR_MODE_MONITOR);
	assert_int_equal(l->on_store_failure, WEIR_FAILURE_CLOSED);
	set(c, "login", "key", "ip");
	assert_string_equal(l->key_text, "ip/32,64");
	set(c, "login", "match.path", "/other");
	assert_int_equal(l->match.n_path, 1);
	assert_string_equal(l->match.path[0], "/other");
	assert_int_equal(l->match.n_method, 1); /* the rest of match stays */
	assert_string_equal(l->match.header[0].value, "b");
	set(c, "login", "match", "{method: PUT}");
	assert_int_equal(l->match.n_path + l->match.n_host + l->match.n_header, 0);
	assert_string_equal(l->match.method[0], "PUT");
	set(c, "suspicious", "rate", "3/s");
	assert_true(c->request.suspicious.limit.rate[0].count == 3);
}

static void one_plan_or_all_of_them(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(file);
	struct weir_conf_request_limit *l = limit_of(c, "api");

	(void)state;
	set(c, "api", "limit.pro", "7000");
	assert_true(l->limit[0] == 60 && l->limit[1] == 7000);
	set(c, "api", "limit", "{free: 1, pro: 2}");
	assert_true(l->limit[0] == 1 && l->limit[1] == 2);
	set(c, "bucket", "rate.free", "10/s");
	l = limit_of(c, "bucket");
	assert_true(l->rate[0].count == 10 && l->rate[1].count == 20);
	assert_true(l->burst[0] == 10 && l->burst[1] == 1); /* still one second's worth */
	set(c, "bucket", "burst.pro", "5");
	assert_true(l->burst[0] == 10 && l->burst[1] == 5);
}

static void defaults_follow_what_is_set(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(file);

	(void)state;
	assert_true(limit_of(c, "spent")->cost.max == 9);
	set(c, "spent", "burst", "30");
	assert_true(limit_of(c, "spent")->cost.max == 30);
	set(c, "queue", "rate", "200/s");
	assert_true(limit_of(c, "queue")->queue[0] == 200);
	set(c, "queue", "queue", "20");
	assert_true(limit_of(c, "queue")->max_wait_ns[0] == 100000000);
}

static void another_algorithm_forgets_what_it_does_not_have(void **state)
{
	static const char *const window[] = {"algorithm=fixed-window", "window=day"};
	static const char *const bucket[] = {"algorithm=token-bucket", "rate=3/s"};
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(file);
	struct weir_error e = {""};

	(void)state;
	assert_int_equal(weir_conf_limit_set_all(c, "login", window, 2, NULL, &e), 0);
	assert_int_equal(limit_of(c, "login")->window_kind, WEIR_WINDOW_DAY);
	assert_string_equal(limit_of(c, "login")->timezone, "UTC");
	assert_true(limit_of(c, "login")->limit[0] == 5);
	set(c, "login", "timezone", "Europe/Berlin");
	set(c, "login", "window", "1h");
	assert_int_equal(weir_conf_limit_set_all(c, "login", bucket, 2, NULL, &e), 0);
	assert_true(limit_of(c, "login")->burst[0] == 3);
	set(c, "spent", "algorithm", "leaky-bucket");
	assert_true(limit_of(c, "spent")->queue[0] == 5);
}

static void bad_values_change_nothing(void **state)
{
	static const struct {
		const char *name, *key, *value, *words;
	} rows[] = {
		{"login", "limit", "0", "0 admits nothing"},
		{"login", "limit", "2000000", "sliding-window-log"},
		{"login", "rate", "5/s", "rate: a sliding-window-log has limit and window"},
		{"login", "window", "day", "only fixed-window goes by the calendar"},
		{"login", "name", "x", "cannot be set"},
		{"login", "limt", "5", "did you mean \"limit\""},
		{"login", "zzz", "5", "unknown key \"zzz\" (match, key, missing,"},
		{"login", "limit", "", "no value"},
		{"login", "match", "{path: x}", "must begin with a slash"},
		{"login", "cost", "6", "above what limit for plan free can hold (5)"},
		{"login", "key.any", "ip", "set key as a whole"},
		{"spent", "cost.max", "6", "set cost as a whole"},
		{"api", "limit.por", "5",
		 "limit.por: no plan is called that (did you mean \"pro\"?)"},
		{"api", "limit.pro", "{free: 1, pro: 2}", "one value for one plan"},
		{"api", "limit.pro", "fast", "is not a number"},
		{"api", "limit", "{free: 5}", "nothing for plan pro"},
		{"bucket", "rate", "5", "not in what time"},
		{"bucket", "queue", "5", "or say algorithm: leaky-bucket"},
		{"suspicious", "match", "{path: /x}", "meets every request"},
		{"suspicious", "key", "user", "no header of the proxy"},
		{"logn", "limit", "5", "no limit is called \"logn\" (did you mean \"login\"?)"},
	};
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(file);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct weir_conf_request_limit before = *limit_of(c, rows[i].name);
		struct weir_error e = {""};

		assert_true(set_limit(c, rows[i].name, rows[i].key, rows[i].value, &e) < 0);
		if (!strstr(e.text, rows[i].words))
			fail_msg("%s=%s says \"%s\"", rows[i].key, rows[i].value, e.text);
		assert_memory_equal(&before, limit_of(c, rows[i].name), sizeof(before));
	}
}

/* The file with @from replaced by @to is what the edit must give, and is right. */
static void expect_edit(const char *name, const char *key, const char *value, const char *from,
			const char *to)
{
	const char *at = strstr(file, from);
	_cleanup_free_ char *out = NULL, *want = NULL;
	struct weir_error e = {""};
	size_t n = 0, size = strlen(file) + strlen(to) + 1;

	assert_non_null(at);
	want = malloc(size);
	assert_non_null(want);
	(void)snprintf(want, size, "%.*s%s%s", (int)(at - file), file, to, at + strlen(from));
	if (weir_conf_edit_limit(file, strlen(file), name, key, value, &out, &n, &e) < 0)
		fail_msg("%s", e.text);
	assert_string_equal(out, want);
	weir_conf_free(conf_of(out));
}

static void only_the_value_changes_in_the_text(void **state)
{
	(void)state;
	expect_edit("login", "limit", "7", "limit: 5  ", "limit: 7  ");
	expect_edit("login", "mode", "monitor", "# first\n", "# first\n    mode: monitor\n");
	expect_edit("api", "limit.pro", "7000", "6000", "7000");
	expect_edit("bucket", "rate", "1/s", "20 per 60s", "1/s");
	expect_edit("bucket", "rate.pro", "5 per 60s", "20 per 60s",
		    "{free: 20 per 60s, pro: 5 per 60s}");
	expect_edit("bucket", "burst", "{free: 1, pro: 2}", "name: bucket,",
		    "name: bucket, burst: {free: 1, pro: 2},");
	expect_edit("suspicious", "rate", "2/s", "rate: 1/s\n", "rate: 2/s\n");
	expect_edit("suspicious", "mode", "monitor", "    key: ip\n    rate",
		    "    mode: monitor\n    key: ip\n    rate");
}

static void what_cannot_be_edited_is_refused(void **state)
{
	static const struct {
		const char *name, *key, *value, *words;
	} rows[] = {
		{"api", "limit", "5", "line 15: limit spans several lines"},
		{"bucket", "burst.pro", "5", "since the file does not say burst for each plan"},
		{"bucket", "rate.gold", "5/s", "since the file does not say rate for each plan"},
		{"login", "name", "x", "cannot be saved"},
		{"login", "match.path", "/x", "cannot be saved by itself"},
		{"login", "limits", "5", "cannot be saved by itself"},
		{"syn", "limit.pro", "5", "cannot be saved by itself"},
		{"gone", "limit", "5", "no limit \"gone\""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_free_ char *out = NULL;
		struct weir_error e = {""};
		size_t n;

		assert_true(weir_conf_edit_limit(file, strlen(file), rows[i].name, rows[i].key,
						 rows[i].value, &out, &n, &e) < 0);
		if (!strstr(e.text, rows[i].words))
			fail_msg("%s=%s says \"%s\"", rows[i].key, rows[i].value, e.text);
	}
}

static void limits_in_words(void **state)
{
	static const struct {
		const char *limit, *words;
	} rows[] = {
		{"key: ip, rate: 50/s, burst: 200",
		 "x: of all requests, each IPv4 address and each IPv6 /64 may make 50/s and 200 at "
		 "once; more is refused."},
		{"match: {method: POST, path: [/a, /b/*]}, key: [ip, endpoint], algorithm: "
		 "sliding-window-log, limit: 5, window: 60s, on_store_failure: closed",
		 "x: of POST requests to /a or /b/*, each address with endpoint may make 5 in any "
		 "1m; more is refused; while the store is away all are refused."},
		{"key: {any: [api-key, \"header:X-T\", [ip, user-agent]], new_per_ip: 20 per 60s}, "
		 "ipv4_prefix: 24, algorithm: sliding-window-counter, limit: {free: 60, pro: "
		 "6000}, window: 60s",
		 "x: of all requests, each API key, else header x-t, else address with user agent "
		 "(of addresses each IPv4 /24 and each IPv6 /64), else address (one address may "
		 "bring 20 new ones in 1m) may make 60 in the last 1m by estimate, at worst 119 in "
		 "one true window (plan pro: 6000); more is refused."},
		{"match: {host: \"*.a.b\", header: {X-A: b}}, key: global, algorithm: "
		 "leaky-bucket, "
		 "rate: 50/s, queue: 100, max_wait: 1s, mode: monitor",
		 "x: of requests at *.a.b with X-A: b, all clients together may make 50/s, while "
		 "100 wait for at most 1s; more is refused (monitor: only counted)."},
		{"key: token, missing: deny, algorithm: fixed-window, limit: 5, window: day, "
		 "timezone: Europe/Berlin, cost: 2, on_store_failure: open",
		 "x: of all requests, each bearer token (without one: refused) may make 5 in each "
		 "day (Europe/Berlin); one counts as 2; more is refused; while the store is away "
		 "all pass."},
		{"key: ip, algorithm: fixed-window, limit: 5, window: 10s, cost: {from: proxy}",
		 "x: of all requests, each IPv4 address and each IPv6 /64 may make 5 in each "
		 "window "
		 "of 10s, twice as many around its edge; one counts as 1 to 5, as the proxy says; "
		 "more is refused."},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c =
			conf_of_entry("plans: [free, pro]\nhttp: {proxy_headers: {cost: X-Cost}}\n",
				      "request_limits", rows[i].limit);
		const struct weir_conf_request *q = &c->request;
		char buf[1024], cut[10];
		int n = weir_conf_request_words(q, &q->limit[0], buf, sizeof(buf));

		assert_string_equal(buf, rows[i].words);
		assert_int_equal(n, strlen(buf));
		assert_int_equal(weir_conf_request_words(q, &q->limit[0], cut, sizeof(cut)), n);
		assert_int_equal(strlen(cut), sizeof(cut) - 1);
	}
}

static void the_layer_in_words(void **state)
{
	static const char text[] =
		"http:\n"
		"  listeners:\n"
		"    - {listen: 127.0.0.1:9470, profile: nginx, trusted_proxies: [127.0.0.1]}\n"
		"    - {listen: \"unix:/run/c\", profile: caddy, group: web}\n"
		"    - {listen: 127.0.0.1:9473, profile: json, token_file: /t}\n"
		"  proxy_headers: {user: X-User, cost: X-Cost}\n"
		"  api_key: [header X-Key, query k]\n"
		"plans: [free, pro]\nplans_file: /p\n"
		"exempt: [{source: 10.0.0.0/8, path: /h}, {preflight: true}]\n"
		"request_limits: [{name: r, key: ip, rate: 1/s}]\n"
		"suspicious: {refused: {limits: r, count: 5}, limit: {key: ip, rate: 1/m}}\n"
		"escalate: [{name: e, limits: [r, suspicious], refused: 9, block_for: 1m, mode: "
		"monitor, unless_identities: 2}]\n";
	static const char *const words[] = {
		"Interfaces: none: the request layer alone, which needs no root.\n",
		"127.0.0.1:9470           nginx: says who the client is, if it is 127.0.0.1\n",
		"caddy: whoever may connect is trusted (mode 0660, group web)\n",
		"json: with the token in /t\n",
		"A check takes at most 20ms, a request 5s to arrive; headers up to 16 kB; 4096",
		"must set or remove them: user in X-User, cost in X-Cost.\n",
		"An API key is in header x-key, else query parameter k.\n",
		"Paths: /A is not /a, /a/ is /a, ;parameters are stripped.\n",
		"Plans: free and pro; who has none of them has free. API keys and their plans are "
		"in /p.\n",
		"  requests to /h from 10.0.0.0/8\n  preflight requests\n",
		"   1. r: of all requests, each IPv4",
		"Suspicious for 10m is who is refused 5 times in 1m by r; these also meet:\n"
		"      suspicious: of all requests",
		"  e: who is refused 9 times in 1m by r or suspicious is blocked for 1m, at most "
		"30 "
		"in 1m, unless 2 users or API keys share the address (monitor: only said).\n",
		"Memory of request limits: 1000000 states in at most 256 MB",
	};
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(text);

	(void)state;
	expect_explained(c, words, ARRAY_LEN(words));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_set_and_checked_as_in_the_file),
		cmocka_unit_test(one_plan_or_all_of_them),
		cmocka_unit_test(defaults_follow_what_is_set),
		cmocka_unit_test(another_algorithm_forgets_what_it_does_not_have),
		cmocka_unit_test(bad_values_change_nothing),
		cmocka_unit_test(only_the_value_changes_in_the_text),
		cmocka_unit_test(what_cannot_be_edited_is_refused),
		cmocka_unit_test(limits_in_words),
		cmocka_unit_test(the_layer_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
