/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/config: what the request layer's part of a right file means. Mistakes are in t_conf_request_mistakes.c. */
#include "conf_everything.h"

#define S  1000000000ull
#define MS 1000000ull

static const struct weir_conf_request_limit *limit_of(const struct weir_conf *c, const char *name)
{
	for (size_t i = 0; i < c->request.n_limit; i++)
		if (strcmp(c->request.limit[i].name, name) == 0)
			return &c->request.limit[i];
	fail_msg("no limit %s", name);
	return NULL;
}

static void assert_part(const struct weir_key_choice *c, size_t i, enum weir_key_kind kind,
			const char *name)
{
	assert_true(i < c->n);
	assert_int_equal(c->part[i].kind, kind);
	assert_string_equal(c->part[i].name, name);
}

static void the_listeners_of_everything(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(everything);
	const struct weir_conf_request *q = &c->request;
	const struct weir_conf_listener *l = q->listener;
	char buf[WEIR_PREFIX_STRLEN];

	(void)state;
	assert_int_equal(q->threads, 0);
	assert_true(q->budget_ns == 20 * MS && q->headers_bytes == 16000);
	assert_true(q->connections == 4096 && q->request_deadline_ns == 5 * S);
	assert_false(q->nat64);
	assert_int_equal(q->n_listener, 6);
	assert_string_equal(l[0].listen, "127.0.0.1:9470");
	assert_null(l[0].unix_path);
	assert_int_equal(l[0].family, 4);
	assert_int_equal(l[0].port, 9470);
	assert_int_equal(l[0].addr.ip[0], 127);
	assert_int_equal(l[0].profile, WEIR_PROFILE_NGINX);
	assert_int_equal(l[0].trusted.n, 1);
	assert_string_equal(weir_prefix_format(&l[0].trusted.item[0], buf), "127.0.0.1");
	assert_string_equal(l[1].unix_path, "/run/weir/caddy.sock");
	assert_string_equal(l[1].listen, "unix:/run/weir/caddy.sock");
	assert_int_equal(l[1].unix_mode, 0660);
	assert_string_equal(l[1].group, "caddy");
	assert_int_equal(l[2].profile, WEIR_PROFILE_ENVOY);
	assert_string_equal(weir_prefix_format(&l[2].trusted.item[0], buf), "10.0.0.0/24");
	assert_int_equal(l[3].profile, WEIR_PROFILE_SPOE);
	assert_string_equal(l[4].token_file, "/etc/weir/json.token");
	assert_int_equal(l[5].profile, WEIR_PROFILE_METRICS);
	assert_string_equal(q->header_user, "X-Weir-User");
	assert_string_equal(q->header_plan, "X-Plan");
	assert_string_equal(q->header_cost, "X-Cost");
	assert_int_equal(q->n_api_key, 2);
	assert_int_equal(q->api_key[0].kind, WEIR_KEY_HEADER);
	assert_string_equal(q->api_key[0].name, "x-api-key");
	assert_int_equal(q->api_key[1].kind, WEIR_KEY_QUERY);
	assert_false(q->path.fold_case || q->path.keep_params || q->path.slash_distinct);
	assert_int_equal(q->n_plan, 2);
	assert_string_equal(q->plan[1], "pro");
	assert_string_equal(q->plans_file, "/etc/weir/plans.txt");
	assert_true(q->plans_file_line > l[5].line);
	assert_true(q->keys == 1000000 && q->bytes == 256000000);
}

static void the_request_limits_of_everything(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(everything);
	const struct weir_conf_request_limit *l;

	(void)state;
	assert_int_equal(c->request.n_limit, 5);
	l = limit_of(c, "per-address");
	assert_int_equal(l->algorithm, WEIR_REQUEST_TOKEN_BUCKET);
	assert_true(l->rate[0].count == 50 && l->rate[0].per_ns == S && l->rate[1].count == 50);
	assert_true(l->burst[0] == 200 && l->burst[1] == 200);
	assert_part(&l->key.choice[0], 0, WEIR_KEY_IP, "");
	assert_string_equal(l->key_text, "ip/32,64");
	assert_int_equal(l->scope, WEIR_SCOPE_FLEET);
	assert_int_equal(l->mode, WEIR_MODE_ENFORCE);
	assert_int_equal(l->on_store_failure, WEIR_FAILURE_LOCAL);
	assert_true(!l->cost.from_proxy && l->cost.fixed == 1);

	l = limit_of(c, "login");
	assert_int_equal(l->match.n_method, 1);
	assert_string_equal(l->match.method[0], "POST");
	assert_int_equal(l->match.n_path, 2);
	assert_string_equal(l->match.path[1], "/api/auth/token");
	assert_int_equal(l->key.n, 1);
	assert_part(&l->key.choice[0], 1, WEIR_KEY_ENDPOINT, "");
	assert_int_equal(l->algorithm, WEIR_REQUEST_SLIDING_LOG);
	assert_true(l->limit[0] == 5 && l->window_ns == 60 * S);
	assert_int_equal(l->on_store_failure, WEIR_FAILURE_CLOSED);

	l = limit_of(c, "api");
	assert_int_equal(l->key.n, 3);
	assert_part(&l->key.choice[0], 0, WEIR_KEY_API_KEY, "");
	assert_part(&l->key.choice[1], 0, WEIR_KEY_TOKEN, "");
	assert_part(&l->key.choice[2], 1, WEIR_KEY_USER_AGENT, "");
	assert_true(l->new_per_ip.count == 20 && l->new_per_ip.per_ns == 60 * S);
	assert_int_equal(l->key.missing, WEIR_KEY_MISSING_IP);
	assert_true(l->limit[0] == 60 && l->limit[1] == 6000);
	assert_string_equal(l->key_text, "api-key|token|ip+user-agent/32,64");

	l = limit_of(c, "search");
	assert_true(l->cost.from_proxy && l->cost.min == 1 && l->cost.max == 50);

	l = limit_of(c, "legacy");
	assert_int_equal(l->algorithm, WEIR_REQUEST_LEAKY_BUCKET);
	assert_int_equal(l->scope, WEIR_SCOPE_HOST);
	assert_true(l->queue[1] == 100 && l->max_wait_ns[1] == S);
}

static void the_rest_of_everything(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(everything);
	const struct weir_conf_request *q = &c->request;
	const struct weir_conf_suspicious *s = &q->suspicious;
	const struct weir_conf_escalate *e = q->escalate;

	(void)state;
	assert_int_equal(q->n_exempt, 3);
	assert_int_equal(q->exempt[0].source.n, 1);
	assert_string_equal(q->exempt[1].path[1], "/static/*");
	assert_true(q->exempt[2].preflight && !q->exempt[1].preflight);
	assert_true(s->given);
	assert_int_equal(s->n_packet_limits, 1);
	assert_string_equal(s->packet_limits[0], "syn-per-source");
	assert_string_equal(s->refused.limits[0], "login");
	assert_true(s->refused.count == 5 && s->refused.within_ns == 60 * S);
	assert_true(s->lasts_ns == 600 * S);
	assert_string_equal(s->limit.name, "suspicious");
	assert_int_equal(s->limit.algorithm, WEIR_REQUEST_SLIDING_COUNTER);
	assert_int_equal(s->limit.key.choice[0].n, 2);
	assert_true(s->limit.limit[1] == 10);
	assert_int_equal(q->n_escalate, 1);
	assert_string_equal(e->name, "login-hammer");
	assert_string_equal(e->refused.limits[0], "login");
	assert_true(e->refused.count == 20 && e->refused.within_ns == 60 * S);
	assert_true(e->block_for_ns == 600 * S && e->unless_identities == 3);
	assert_true(e->at_most.count == 30 && e->at_most.per_ns == 60 * S);
}

static void nothing_said_is_the_defaults(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of("version: 1\n");
	const struct weir_conf_request *q = &c->request;

	(void)state;
	assert_true(q->budget_ns == 20 * MS && q->connections == 4096 && q->keys == 1000000);
	assert_int_equal(q->n_listener + q->n_limit + q->n_plan + q->n_exempt + q->n_escalate, 0);
	assert_false(q->suspicious.given);
	assert_int_equal(q->n_api_key, 1);
	assert_string_equal(q->api_key[0].name, "x-api-key");
}

static void what_is_said_replaces_a_default_list(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c =
		conf_of("http: {api_key: cookie session, path: {case: insensitive, trailing_slash: "
			"distinct, params: keep}, nat64: yes, threads: 3}\n");

	(void)state;
	assert_int_equal(c->request.n_api_key, 1);
	assert_int_equal(c->request.api_key[0].kind, WEIR_KEY_COOKIE);
	assert_string_equal(c->request.api_key[0].name, "session");
	assert_true(c->request.path.fold_case && c->request.path.slash_distinct &&
		    c->request.path.keep_params && c->request.nat64);
	assert_int_equal(c->request.threads, 3);
}

static void addresses_to_listen_on(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c =
		conf_of("http:\n  listeners:\n"
			"  - {listen: \"[::1]:0\", profile: caddy, trusted_proxies: \"::1\"}\n"
			"  - {listen: \"[::1]:0\", profile: traefik, trusted_proxies: \"::1\"}\n"
			"  - {listen: 0.0.0.0:80, profile: metrics}\n"
			"  - {listen: \"[::]:80\", profile: metrics}\n"
			"  - {listen: \"unix:/run/x\", profile: json, mode: 600}\n");
	const struct weir_conf_listener *l = c->request.listener;

	(void)state;
	assert_int_equal(l[0].family, 6);
	assert_int_equal(l[0].addr.ip[15], 1);
	assert_int_equal(l[0].port, 0);
	assert_int_equal(l[3].family, 6);
	assert_int_equal(l[3].port, 80);
	assert_int_equal(l[4].unix_mode, 0600);
	assert_null(l[4].group);
	assert_int_equal(l[0].unix_mode, 0660);
}

static void defaults_that_follow_from_the_rate(void **state)
{
	static const struct {
		const char *limit;
		__u64 burst, queue, wait_ns;
	} rows[] = {
		{"key: ip, rate: 10/s", 10, 10, S},
		{"key: ip, rate: 20 per 60s", 1, 1, S},
		{"key: ip, rate: 0.5/s", 1, 1, S},
		{"key: ip, rate: 90/m", 2, 2, S},
		{"key: ip, algorithm: leaky-bucket, rate: 300/s", 300, 300, S},
		{"key: ip, algorithm: leaky-bucket, rate: 300/s, queue: 7", 300, 7, 23334000},
		{"key: ip, algorithm: leaky-bucket, rate: 300/s, queue: 0", 300, 0, 0},
		{"key: ip, algorithm: leaky-bucket, rate: 50/s, max_wait: 20ms", 50, 50, 20 * MS},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c =
			conf_of_request_limit(rows[i].limit);
		const struct weir_conf_request_limit *l = &c->request.limit[0];

		assert_true(l->burst[0] == rows[i].burst);
		assert_true(l->queue[0] == rows[i].queue);
		assert_true(l->max_wait_ns[0] == rows[i].wait_ns);
	}
}

static void a_default_queue_may_wait_to_its_end(void **state)
{
	static const char *const limits[] = {
		"key: ip, algorithm: leaky-bucket, rate: 300/s, queue: 7",
		"key: ip, algorithm: leaky-bucket, rate: 7/s, queue: 6",
		"key: ip, algorithm: leaky-bucket, rate: 999983/s, queue: 1000",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of_request_limit(limits[i]);
		const struct weir_conf_request_limit *l = &c->request.limit[0];
		struct weir_store_limit s;

		assert_int_equal(weir_conf_store_limit(l, 0, 0, &s), 0);
		assert_true(s.bucket.size_parts / s.bucket.period_us == l->queue[0] + 1);
	}
}

static void numbers_by_plan_wherever_plans_stand(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of(
		"request_limits:\n"
		"- {name: x, key: ip, rate: {pro: 100/s, free: 1 per 10s}}\n"
		"- name: y\n  key: ip\n  rate: 7/s\n  burst: {free: 3, pro: 5}\n"
		"- {name: z, key: ip, algorithm: leaky-bucket, rate: 5/s, max_wait: {free: 0, "
		"pro: 2s}}\n"
		"plans: [free, pro]\n");
	const struct weir_conf_request_limit *l = c->request.limit;

	(void)state;
	assert_true(l[0].rate[0].count == 1 && l[0].rate[0].per_ns == 10 * S);
	assert_true(l[0].rate[1].count == 100 && l[0].burst[0] == 1 && l[0].burst[1] == 100);
	assert_true(l[1].burst[0] == 3 && l[1].burst[1] == 5 && l[1].rate[1].count == 7);
	assert_true(l[2].max_wait_ns[0] == 0 && l[2].max_wait_ns[1] == 2 * S);
}

static void conditions_take_their_normal_form(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of_request_limit(
		"key: ip, rate: 1/s, match: {method: [post, HEAD, GET], path: /a, host: "
		"[Example.ORG., \"*.A.example\"], header: {X-One: \"1\", x-two: a b}}");
	_cleanup_(weir_conf_freep) struct weir_conf *d =
		conf_of_request_limit("key: ip, rate: 1/s, match: {header: [X-One, X-Two]}");
	const struct weir_conf_request_match *m = &c->request.limit[0].match;

	(void)state;
	assert_int_equal(m->n_method, 2); /* HEAD is GET */
	assert_string_equal(m->method[0], "POST");
	assert_string_equal(m->method[1], "GET");
	assert_string_equal(m->host[0], "example.org");
	assert_string_equal(m->host[1], "*.a.example");
	assert_int_equal(m->n_header, 2);
	assert_string_equal(m->header[1].name, "x-two");
	assert_string_equal(m->header[1].value, "a b");
	assert_int_equal(d->request.limit[0].match.n_header, 2);
	assert_null(d->request.limit[0].match.header[0].value);
}

static void one_key_has_one_text_and_another_has_another(void **state)
{
	static const char *const keys[][2] = {
		{"ip", "ip/32,64"},
		{"[ip]", "ip/32,64"},
		{"{any: ip}", "ip/32,64"},
		{"{any: [[ip]]}", "ip/32,64"},
		{"ip, ipv4_prefix: 24", "ip/24,64"},
		{"\"header:X-Tenant\", missing: skip", "header:x-tenant"},
		{"\"header:X-Tenant\"", "header:x-tenant/32,64"},
		{"\"query:a+b|c\", missing: deny", "query:a%2Bb%7Cc"},
		{"[\"cookie:S\", endpoint], missing: deny", "cookie:S+endpoint"},
		{"{any: [token, [method, path]]}, missing: skip", "token|method+path"},
		{"global, missing: skip", "global"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
		char text[128];

		(void)snprintf(text, sizeof(text), "rate: 1/s, key: %s", keys[i][0]);
		c = conf_of_request_limit(text);
		assert_string_equal(c->request.limit[0].key_text, keys[i][1]);
	}
}

static void windows_by_length_and_by_the_calendar(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of_request_limit(
		"key: ip, algorithm: fixed-window, limit: 10k, window: month");
	_cleanup_(weir_conf_freep) struct weir_conf *d = conf_of_request_limit(
		"key: ip, algorithm: fixed-window, limit: 5, window: day, timezone: Europe/Berlin");
	_cleanup_(weir_conf_freep) struct weir_conf *e =
		conf_of_request_limit("key: ip, algorithm: fixed-window, limit: 5, window: 366d");
	struct weir_store_limit s;

	(void)state;
	assert_int_equal(c->request.limit[0].window_kind, WEIR_WINDOW_MONTH);
	assert_string_equal(c->request.limit[0].timezone, "UTC");
	assert_true(c->request.limit[0].limit[0] == 10000);
	assert_int_equal(d->request.limit[0].window_kind, WEIR_WINDOW_DAY);
	assert_string_equal(d->request.limit[0].timezone, "Europe/Berlin");
	assert_int_equal(weir_conf_store_limit(&d->request.limit[0], 0, 0, &s), 0);
	assert_true(s.window_us == 0);
	assert_true(e->request.limit[0].window_ns == 366 * 86400 * S);
}

static void a_store_gets_exact_numbers(void **state)
{
	static const struct {
		const char *rate;
		__u64 count, period_us;
	} rows[] = {{"7/s", 7, 1000000},
		    {"10/s", 1, 100000},
		    {"20 per 60s", 1, 3000000},
		    {"300000/s", 3, 10},
		    {"1/366d", 1, 366 * 86400 * 1000000ull},
		    {"1000000000/s", 1000, 1},
		    {"0.5/s", 1, 2000000}};
	struct weir_store_limit s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
		char text[64];

		(void)snprintf(text, sizeof(text), "key: ip, rate: %s", rows[i].rate);
		c = conf_of_request_limit(text);
		assert_int_equal(weir_conf_store_limit(&c->request.limit[0], 0, 0, &s), 0);
		assert_true(s.bucket.count == rows[i].count &&
			    s.bucket.period_us == rows[i].period_us);
	}
}

/* Changed numbers keep the state, anything else in it begins empty; and so does another salt. */
static void identity_of_states(void **state)
{
	static const struct {
		const char *limit;
		bool same;
	} rows[] = {
		{"key: ip, rate: 5/s, burst: 7", true},
		{"key: [ip], rate: 1/s, match: {path: /x}, cost: 2, burst: 9", true},
		{"key: ip, rate: 5/s, mode: monitor, on_store_failure: open", true},
		{"key: ip, rate: 5/s, ipv6_prefix: 56", false},
		{"key: [ip, endpoint], rate: 5/s", false},
		{"key: ip, rate: 5/s, scope: host", false},
		{"key: ip, rate: 5/s, algorithm: leaky-bucket", false},
	};
	_cleanup_(weir_conf_freep) struct weir_conf *c =
		conf_of_request_limit("key: ip, rate: 5/s");
	struct weir_store_limit a, b;

	(void)state;
	assert_int_equal(weir_conf_store_limit(&c->request.limit[0], 0, 0, &a), 0);
	assert_int_equal(weir_conf_store_limit(&c->request.limit[0], 0, 1, &b), 0);
	assert_memory_not_equal(&a.identity, &b.identity, sizeof(a.identity));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(weir_conf_freep) struct weir_conf *d =
			conf_of_request_limit(rows[i].limit);

		assert_int_equal(weir_conf_store_limit(&d->request.limit[0], 0, 0, &b), 0);
		assert_int_equal(memcmp(&a.identity, &b.identity, sizeof(a.identity)) == 0,
				 rows[i].same);
	}
}

static void a_cost_the_proxy_says_is_bounded_by_what_can_be_paid(void **state)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = conf_of_entry(
		"plans: [free, pro]\nhttp: {proxy_headers: {cost: X-Cost}}\n", "request_limits",
		"key: ip, rate: 1/s, burst: {free: 20, pro: 50}, cost: {from: proxy}");

	(void)state;
	assert_true(c->request.limit[0].cost.from_proxy);
	assert_true(c->request.limit[0].cost.min == 1 && c->request.limit[0].cost.max == 20);
}

static void as_many_as_there_may_be(void **state)
{
	char text[8192] = "request_limits:\n";
	size_t n = strlen(text);

	(void)state;
	for (int i = 0; i < WEIR_REQUEST_LIMITS_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "- {name: l%02d, key: ip, rate: 5/s}\n", i);
	weir_conf_free(conf_of(text));
	(void)snprintf(text + n, sizeof(text) - n, "- {name: more, key: ip, rate: 5/s}\n");
	expect_problem(text, 1, WEIR_REQUEST_LIMITS_MAX + 2, 3,
		       "more than 63 limits (64 are given)");
}

static void names_of_words(void **state)
{
	(void)state;
	assert_string_equal(weir_profile_name(WEIR_PROFILE_SPOE), "haproxy-spoe");
	assert_string_equal(weir_request_algorithm_name(WEIR_REQUEST_SLIDING_COUNTER),
			    "sliding-window-counter");
	assert_string_equal(weir_on_store_failure_name(WEIR_FAILURE_CLOSED), "closed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_listeners_of_everything),
		cmocka_unit_test(the_request_limits_of_everything),
		cmocka_unit_test(the_rest_of_everything),
		cmocka_unit_test(nothing_said_is_the_defaults),
		cmocka_unit_test(what_is_said_replaces_a_default_list),
		cmocka_unit_test(addresses_to_listen_on),
		cmocka_unit_test(defaults_that_follow_from_the_rate),
		cmocka_unit_test(a_default_queue_may_wait_to_its_end),
		cmocka_unit_test(numbers_by_plan_wherever_plans_stand),
		cmocka_unit_test(conditions_take_their_normal_form),
		cmocka_unit_test(one_key_has_one_text_and_another_has_another),
		cmocka_unit_test(windows_by_length_and_by_the_calendar),
		cmocka_unit_test(a_store_gets_exact_numbers),
		cmocka_unit_test(identity_of_states),
		cmocka_unit_test(a_cost_the_proxy_says_is_bounded_by_what_can_be_paid),
		cmocka_unit_test(as_many_as_there_may_be),
		cmocka_unit_test(names_of_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
