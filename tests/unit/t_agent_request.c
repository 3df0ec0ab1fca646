/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent over doubles of both layers: the request layer alone, its life with reload and mode, commands, the metrics
 * page, and what becomes of an address that was refused too often.
 */
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent_case.h"
#include "user/agent/seen.h"
#include "weir/key.h"

#define NGINX                                                                                      \
	"http: {listeners: [{listen: 127.0.0.1:9470, profile: nginx, trusted_proxies: "            \
	"[192.0.2.80]}]}\n"
#define OTHER "http: {listeners: [{listen: 127.0.0.1:9471, profile: nginx}]}\n"
#define LOGIN                                                                                      \
	"request_limits:\n"                                                                        \
	"  - {name: login, key: ip, algorithm: sliding-window-log, limit: 5, window: 60s}\n"
#define LOGIN7                                                                                     \
	"request_limits:\n"                                                                        \
	"  - {name: login, key: ip, algorithm: sliding-window-log, limit: 7, window: 60s}\n"
#define RULE                                                                                       \
	"escalate:\n"                                                                              \
	"  - {name: login-hammer, limits: [login], refused: 20, within: 60s, block_for: 10m}\n"

/* Without interfaces. */
static void write_alone(struct fix *f, const char *rest)
{
	char text[4096];

	(void)snprintf(text, sizeof(text),
		       "interfaces: []\nstate_dir: %s/state\nadmin: {listen: %s/admin.sock}\n%s",
		       f->dir, f->dir, rest);
	write_file(f->conf, text);
}

static int set_up_alone(void **state)
{
	struct fix *f;

	if (make_case(state))
		return -1;
	f = *state;
	write_alone(f, NGINX LOGIN);
	return start(f);
}

static int set_up_both(void **state)
{
	struct fix *f;

	if (make_case(state))
		return -1;
	f = *state;
	write_conf(f,
		   "lists: {never_block: [203.0.113.0/24], allow: [192.0.2.128/25]}\n" NGINX LOGIN
			   RULE LIMIT);
	return start(f);
}

/* As a worker would: an event, and the descriptor readable; then the loop has a turn. */
static void happens(struct fix *f, const struct weir_l7_event *event)
{
	__u64 one = 1;

	l7.event[l7.n_event++] = *event;
	assert_int_equal(write(l7.engine.fd, &one, sizeof(one)), sizeof(one));
	assert_int_equal(event_base_loop(f->a->base, EVLOOP_NONBLOCK), 0);
	assert_int_equal(l7.n_event, 0);
}

static struct weir_prefix prefix(const char *text)
{
	struct weir_prefix p;

	assert_int_equal(weir_prefix_parse(text, strlen(text), false, &p), 0);
	return p;
}

/* --- the request layer alone ---- */

static void requests_alone_need_no_packet_layer(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *s = ask(f, "{'cmd':'status'}");

	assert_int_equal(dp.opens, 0);
	assert_null(f->a->dp);
	assert_true(l7.opened && l7.started);
	assert_false(weir_json_bool_of(s, "packets"));
	assert_int_equal(weir_json_u64_of(s, "generation"), 1);
	assert_int_equal(json_array_size(json_object_get(s, "degraded")), 0);
	assert_null(weir_json_text_of(s, "unready"));
	assert_int_equal(json_array_size(
				 json_object_get(json_object_get(s, "request"), "listeners")),
			 1);
	does(f, "{'cmd':'top'}");
	does(f, "{'cmd':'limit_list'}");
	does(f, "{'cmd':'limit_diff'}");
	does(f, "{'cmd':'events'}");
	does(f, "{'cmd':'explain','ip':'198.51.100.7'}");
	weir_agent_tick(f->a);
	assert_true(l7.sweeps >= 2);
}

static void lists_without_a_packet_layer_are_refused_clearly(void **state)
{
	struct fix *f = *state;

	refuses(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}", "no packet layer", 1);
	refuses(f, "{'cmd':'list_show','list':'block'}", "no packet layer", 1);
	refuses(f, "{'cmd':'load_begin','list':'block','origin':'x'}", "no packet layer", 1);
	refuses(f, "{'cmd':'detach'}", "no packet layer", 1);
}

static void packet_limits_without_interfaces_are_said_to_do_nothing(void **state)
{
	struct fix *f = *state;

	write_alone(f, NGINX LOGIN LIMIT);
	restart(f);
	assert_true(is_degraded(f, "packet_limits are not in force"));
}

static void a_folder_that_cannot_be_written_is_no_obstacle(void **state)
{
	struct fix *f = *state;
	char text[4096];
	int r;

	if (geteuid()) {
		skip();
		return;
	}
	stop(f);
	(void)snprintf(text, sizeof(text),
		       "interfaces: []\nstate_dir: /var/lib/weir-nobody\n"
		       "admin: {listen: %s/admin.sock}\n" NGINX LOGIN,
		       f->dir);
	write_file(f->conf, text);
	assert_int_equal(chmod(f->dir, 0777), 0);
	assert_int_equal(chmod(f->conf, 0644), 0);
	assert_int_equal(seteuid(65534), 0);
	r = start(f);
	if (r == 0) {
		does(f, "{'cmd':'mode','mode':'monitor'}");
		weir_agent_tick(f->a);
		assert_false(is_degraded(f, "state file"));
		assert_int_equal(l7.mode, WEIR_MODE_MONITOR);
		stop(f);
	}
	assert_int_equal(seteuid(0), 0);
	if (r < 0)
		fail_msg("%s", f->e.text);
}

static void neither_interfaces_nor_listeners_is_an_error(void **state)
{
	struct fix *f = *state;

	stop(f);
	write_alone(f, LOGIN);
	assert_int_equal(start(f), -EINVAL);
	assert_non_null(strstr(f->e.text, "neither interfaces nor listeners"));
}

static void from_none_to_some_interfaces_takes_a_restart(void **state)
{
	struct fix *f = *state;

	write_conf(f, NGINX LOGIN);
	refuses(f, "{'cmd':'reload'}", "interfaces (from none to some)", 2);
	assert_int_equal(dp.opens, 0);
	write_alone(f, NGINX LOGIN7);
	does(f, "{'cmd':'reload'}");
	assert_int_equal(f->a->conf->request.limit[0].limit[0], 7);
	restart(f);
	write_conf(f, NGINX LOGIN);
	restart(f);
	assert_int_equal(dp.n_at, 1);
	write_alone(f, NGINX LOGIN);
	refuses(f, "{'cmd':'reload'}", "interfaces (from some to none)", 2);
}

/* --- life ---- */

static void a_wrong_listener_fails_the_start_and_changes_nothing(void **state)
{
	struct fix *f = *state;

	stop(f);
	dp_reset();
	l7.fail_listen = -EADDRINUSE;
	assert_true(start(f) < 0);
	assert_non_null(strstr(f->e.text, "127.0.0.1:9470"));
	assert_int_equal(dp.opens, 0);
	assert_int_equal(dp.n_at, 0);
	assert_false(l7.made);
}

static void what_the_listeners_refuse_at_a_reload_changes_nothing(void **state)
{
	struct fix *f = *state;
	unsigned applies = dp.applies;

	write_conf(f, OTHER LOGIN7 LIMIT);
	l7.fail_listen = -EADDRINUSE;
	refuses(f, "{'cmd':'reload'}", "127.0.0.1:9471", 1);
	l7.fail_listen = 0;
	assert_int_equal(dp.applies, applies);
	assert_string_equal(l7.listen[0], "127.0.0.1:9470");
	assert_int_equal(f->a->conf->request.limit[0].limit[0], 5);
	assert_int_equal(l7.configures % 2, 0); /* there and back */
}

static void what_the_kernel_refuses_takes_the_request_layer_back_too(void **state)
{
	struct fix *f = *state;

	write_conf(f, OTHER "request_limits: [{name: other, key: ip, rate: 5/s}]\n" LIMIT);
	dp.fail_apply = -ENOMEM;
	refuses(f, "{'cmd':'reload'}", "kernel refuses", 1);
	assert_string_equal(l7.listen[0], "127.0.0.1:9470");
	assert_string_equal(l7.limit[0], "login");
	dp.fail_apply = 0;
	does(f, "{'cmd':'reload'}");
	assert_string_equal(l7.listen[0], "127.0.0.1:9471");
	assert_string_equal(l7.limit[0], "other");
}

static void what_the_engine_refuses_changes_nothing(void **state)
{
	struct fix *f = *state;
	unsigned applies = dp.applies;

	write_conf(f, OTHER LOGIN LIMIT);
	l7.fail_configure = -EINVAL;
	refuses(f, "{'cmd':'reload'}", "engine refuses", 2);
	assert_int_equal(dp.applies, applies);
	assert_string_equal(l7.listen[0], "127.0.0.1:9470");
}

static void the_first_listeners_may_come_with_a_reload(void **state)
{
	struct fix *f = *state;

	write_conf(f, LIMIT);
	restart(f);
	assert_false(l7.made);
	refuses(f, "{'cmd':'request','method':'GET','path':'/'}", "no request layer", 1);
	refuses(f, "{'cmd':'explain','user':'bob'}", "no request layer", 1);
	write_conf(f, NGINX LOGIN LIMIT);
	dp.fail_apply = -ENOMEM;
	refuses(f, "{'cmd':'reload'}", "kernel refuses", 1);
	assert_false(l7.made || l7.opened);
	dp.fail_apply = 0;
	does(f, "{'cmd':'reload'}");
	assert_true(l7.made && l7.opened && l7.started);
}

static void the_mode_is_that_of_both_layers(void **state)
{
	struct fix *f = *state;

	assert_int_equal(l7.mode, WEIR_MODE_ENFORCE);
	does(f, "{'cmd':'mode','mode':'monitor'}");
	assert_int_equal(l7.mode, WEIR_MODE_MONITOR);
	restart(f);
	assert_int_equal(l7.mode, WEIR_MODE_MONITOR);
	does(f, "{'cmd':'mode','mode':'enforce'}");
	write_conf(f, "mode: monitor\n" NGINX LOGIN LIMIT);
	does(f, "{'cmd':'reload'}");
	assert_int_equal(l7.mode, WEIR_MODE_MONITOR);
	assert_int_equal(dp.mode, WEIR_MODE_MONITOR);
	dp.fail_mode = -EIO;
	refuses(f, "{'cmd':'mode','mode':'enforce'}", "kernel refuses", 1);
	assert_int_equal(l7.mode, WEIR_MODE_MONITOR);
}

static void an_unconfirmed_reload_takes_the_request_layer_back(void **state)
{
	struct fix *f = *state;

	write_alone(f, OTHER LOGIN7);
	does(f, "{'cmd':'reload','confirm_s':60}");
	assert_string_equal(l7.listen[0], "127.0.0.1:9471");
	f->a->confirm.until_ns = 1;
	weir_agent_tick(f->a);
	assert_string_equal(l7.listen[0], "127.0.0.1:9470");
	assert_int_equal(f->a->conf->request.limit[0].limit[0], 5);
}

static void a_reload_tells_what_changed_in_the_request_layer(void **state)
{
	static const char *const lines[] = {"http.listeners: - 127.0.0.1:9470 nginx",
					    "http.listeners: + 127.0.0.1:9471 nginx",
					    "64 kB, listeners that are open take more at a restart",
					    "request limit login:"};
	struct fix *f = *state;
	_cleanup_json_ json_t *d = NULL;

	write_alone(f, "http: {headers: 64 KB, listeners: [{listen: 127.0.0.1:9471, profile: "
		       "nginx}]}\n" LOGIN7);
	d = ask(f, "{'cmd':'limit_diff'}");
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		json_t *line;
		bool found = false;
		size_t k;

		json_array_foreach(json_object_get(d, "reload_would_change"), k, line) found =
			found || strstr(json_string_value(line), lines[i]);
		if (!found)
			fail_msg("no line says %s", lines[i]);
	}
}

static void a_request_limit_is_set_and_unset_by_command(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *j = NULL;
	const json_t *l;

	does(f, "{'cmd':'limit_set','name':'login','set':{'limit':'9'}}");
	assert_int_equal(f->a->conf->request.limit[0].limit[0], 9);
	j = ask(f, "{'cmd':'limit_list'}");
	l = json_array_get(json_object_get(j, "request_limits"), 0);
	assert_int_equal(json_array_size(json_object_get(l, "overridden")), 1);
	refuses(f, "{'cmd':'limit_set','name':'login','set':{'limit':'x'}}", "limit", 2);
	does(f, "{'cmd':'limit_unset','name':'login'}");
	assert_int_equal(f->a->conf->request.limit[0].limit[0], 5);
	assert_true(l7.configures >= 2);
}

/* --- questions ---- */

static void a_question_reaches_the_engine_as_it_was_asked(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *j = NULL, *no = NULL;

	j = ask(f, "{'cmd':'request','method':'POST','path':'/login?x=1','ip':'198.51.100.7',"
		   "'headers':['X-Tenant: a','Host: example.org'],'peek':true}");
	assert_true(weir_json_bool_of(j, "ok"));
	assert_true(weir_json_bool_of(j, "allowed"));
	assert_string_equal(l7.asked, "POST /login?x=1 198.51.100.7 2 example.org  peek");
	l7.refuse = true;
	no = ask(f, "{'cmd':'request','method':'POST','path':'/login'}");
	assert_false(weir_json_bool_of(no, "allowed"));
	assert_string_equal(weir_json_text_of(no, "code"), "RATE_LIMITED");
	assert_int_equal(weir_json_u64_of(no, "status"), 429);
	assert_int_equal(weir_json_u64_of(no, "retry_after_s"), 12);
}

static void questions_that_make_no_sense_are_refused(void **state)
{
	static const char *const bad[] = {
		"{'cmd':'request'}",
		"{'cmd':'request','method':'GET'}",
		"{'cmd':'request','method':'G T','path':'/'}",
		"{'cmd':'request','method':'GET','path':''}",
		"{'cmd':'request','method':'GET','path':'/','ip':'x'}",
		"{'cmd':'request','method':'GET','path':'/','headers':['x']}",
		"{'cmd':'request','method':'GET','path':'/','headers':[7]}",
		"{'cmd':'request','method':'GET','path':'/','headers':['a b: c']}",
		"{'cmd':'explain'}",
		"{'cmd':'explain','api_key':''}",
		"{'cmd':'limit_reset','name':'nosuch'}",
		"{'cmd':'limit_reset','name':'login','ip':'x'}",
		"{'cmd':'events','limit':'nosuch'}",
	};
	struct fix *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		refuses(f, bad[i], "", 2);
}

static void a_client_is_explained_with_what_lifts_it(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *ip = ask(f, "{'cmd':'explain','ip':'198.51.100.7'}"),
			      *key = ask(f, "{'cmd':'explain','api_key':'s3cret'}");
	const json_t *l =
		json_array_get(json_object_get(json_object_get(ip, "request"), "limits"), 0);
	_cleanup_free_ char *text = json_dumps(key, 0);

	assert_string_equal(weir_json_text_of(l, "lift"),
			    "weir limit reset login --ip 198.51.100.7");
	assert_non_null(strstr(text, "weir limit reset login --api-key -"));
	assert_null(strstr(text, "s3cret")); /* nor anywhere else */
}

static void a_reset_reaches_the_layer_whose_limit_it_is(void **state)
{
	struct fix *f = *state;

	does(f, "{'cmd':'limit_reset','name':'login','user':'bob'}");
	assert_string_equal(l7.reset, "login");
	assert_string_equal(l7.reset_who, "bob");
	does(f, "{'cmd':'limit_reset','name':'login'}");
	assert_string_equal(l7.reset_who, "all");
	l7.reset[0] = '\0';
	does(f, "{'cmd':'limit_reset','name':'per-source','ip':'198.51.100.7'}");
	assert_string_equal(l7.reset, "");
	refuses(f, "{'cmd':'limit_reset','name':'per-source','user':'bob'}", "address only", 2);
}

static void refusals_are_events_under_a_cap_of_their_own(void **state)
{
	struct fix *f = *state;
	struct weir_l7_event e = {.kind = WEIR_L7_EVENT_REFUSED,
				  .wall_ms = 1000,
				  .has_client = true,
				  .client = prefix("198.51.100.7"),
				  .limit = "login",
				  .code = WEIR_ANSWER_RATE_LIMITED};
	struct weir_event packet = {.family = 4, .reason = WEIR_DROP_LIMIT, .ifindex = 1};
	_cleanup_json_ json_t *all = NULL;
	_cleanup_free_ char *text = NULL;

	for (int i = 0; i < 60; i++)
		dp.event_fn(dp.event_arg, &packet);
	for (int i = 0; i < 60; i++)
		happens(f, &e);
	all = ask(f, "{'cmd':'events','limit':'login'}");
	assert_in_range(json_array_size(json_object_get(all, "events")), 20, 41);
	text = json_dumps(json_array_get(json_object_get(all, "events"), 0), 0);
	assert_non_null(strstr(text, "\"action\": \"refuse\""));
	assert_non_null(strstr(text, "\"client\": \"198.51.100.7\""));
	assert_non_null(strstr(text, "RATE_LIMITED"));
}

static void a_limit_that_refuses_is_said_to_act(void **state)
{
	struct fix *f = *state;
	_cleanup_json_ json_t *s = NULL;
	const json_t *l;

	l7.row[0].n[WEIR_L7_REFUSED] = 5;
	weir_agent_tick(f->a);
	s = ask(f, "{'cmd':'status'}");
	l = json_array_get(json_object_get(json_object_get(s, "request"), "limits"), 0);
	assert_non_null(weir_json_text_of(l, "acting_since"));
	assert_int_equal(weir_json_u64_of(json_object_get(l, "refused_all"), "n"), 5);
}

static void forwarded_headers_of_strangers_are_warned_of(void **state)
{
	struct fix *f = *state;

	assert_false(is_degraded(f, "trusted_proxies"));
	l7.http.untrusted_forwarded = 3;
	weir_agent_tick(f->a);
	assert_true(is_degraded(f, "trusted_proxies"));
}

/* --- the page ---- */

static void the_page_has_every_metric_and_no_client(void **state)
{
	static const char *const lines[] = {
		"# TYPE weir_requests_total counter\n",
		"weir_requests_total{limit=\"login\",verdict=\"refused\",algorithm=\"sliding-"
		"window-log\",mode=\"enforce\"} 7\n",
		"# TYPE weir_check_seconds histogram\n",
		"weir_check_seconds_bucket{le=\"0.0001\"} 3\n",
		"weir_check_seconds_bucket{le=\"+Inf\"} 4\n",
		"weir_check_seconds_count 4\n",
		"weir_packets_total{reason=\"drop_limit\"} 5\n",
		"weir_packet_limit_total{limit=\"per-source\",verdict=\"over\",mode=\"enforce\"} "
		"0\n",
		"weir_generation 1\n",
		"weir_mode{mode=\"enforce\"} 1\n",
		"weir_table_size{table=\"request_keys\"} 100\n",
		"weir_blocks{origin=\"escalation\"} 0\n",
		"weir_escalations_total{result=\"blocked\"} 0\n",
		"weir_escalations_total{result=\"capped\"} 2\n",
		"weir_held_requests 1\n",
		"weir_untrusted_forwarded_total 3\n",
	};
	_cleanup_free_ char *page = NULL;
	unsigned status = 0;
	size_t n = 0;

	(void)state;
	l7.row[0].n[WEIR_L7_REFUSED] = 7;
	l7.stats.check.n[3] = 3;
	l7.stats.check.n[WEIR_L7_LATENCY_N] = 1;
	l7.stats.store.entries_max = 100;
	l7.stats.escalations_capped = 2;
	l7.http.held = 1;
	l7.http.untrusted_forwarded = 3;
	dp.counters.reason.drop_limit.packets = 5;
	page = l7.page(l7.page_arg, "/metrics", &status, &n);
	assert_non_null(page);
	assert_int_equal(status, 200);
	assert_int_equal(n, strlen(page));
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		if (!strstr(page, lines[i]))
			fail_msg("no %s in %s", lines[i], page);
}

static size_t count_lines(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

static void traffic_makes_no_new_series(void **state)
{
	struct fix *f = *state;
	_cleanup_free_ char *before = NULL, *after = NULL;
	struct weir_l7_event e = {.kind = WEIR_L7_EVENT_ESCALATE,
				  .has_client = true,
				  .client = prefix("198.51.100.7"),
				  .limit = "login",
				  .rule = "login-hammer"};
	unsigned status;
	size_t n;

	before = l7.page(l7.page_arg, "/metrics", &status, &n);
	for (int i = 0; i < WEIR_REASON_MAX; i++)
		((struct weir_count *)&dp.counters.reason)[i].packets = 1;
	for (int v = 0; v < WEIR_L7_VERDICT_MAX; v++)
		l7.row[0].n[v] = 1;
	happens(f, &e);
	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}");
	after = l7.page(l7.page_arg, "/metrics", &status, &n);
	assert_int_equal(count_lines(before), count_lines(after));
	assert_null(strstr(after, "198.51.100.7"));
}

static void readiness_is_that_of_what_is_in_force(void **state)
{
	struct fix *f = *state;
	_cleanup_free_ char *ready = NULL, *not_ready = NULL, *alive = NULL, *none = NULL;
	unsigned status = 0;
	size_t n;

	ready = l7.page(l7.page_arg, "/readyz", &status, &n);
	assert_int_equal(status, 200);
	assert_non_null(strstr(ready, "generation"));
	assert_int_equal(weir_datapath_detach(f->a->dp, "lo", NULL), 0);
	not_ready = l7.page(l7.page_arg, "/readyz", &status, &n);
	assert_int_equal(status, 503);
	assert_string_equal(not_ready, "lo is not protected\n");
	alive = l7.page(l7.page_arg, "/healthz", &status, &n);
	assert_int_equal(status, 200);
	none = l7.page(l7.page_arg, "/other", &status, &n);
	assert_int_equal(status, 404);
}

/* --- escalation ---- */

static const struct weir_l7_event hammer = {.kind = WEIR_L7_EVENT_ESCALATE,
					    .has_client = true,
					    .limit = "login",
					    .rule = "login-hammer",
					    .block_for_ns = 600 * WEIR_NS_PER_S,
					    .refused = 20};

static void escalates(struct fix *f, const char *client, bool monitor)
{
	struct weir_l7_event e = hammer;

	e.client = prefix(client);
	e.monitor = monitor;
	happens(f, &e);
}

/* A slot of the packet layer for @client: the tables of the double have one group of whole addresses. */
static void sends_packets(const char *client)
{
	struct weir_prefix p = prefix(client);
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
	struct weir_prefix p = prefix("198.51.100.7");

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

/* --- connections of this host ---- */

struct pair {
	int listener, client, server;
	__u16 port;
};

/* A connection over loopback; @family AF_INET6 with a socket that takes both. */
static struct pair connect_pair(int family)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct pair p = {.listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	struct sockaddr_storage got;
	socklen_t n = sizeof(got);

	if (family == AF_INET6)
		assert_int_equal(bind(p.listener, (struct sockaddr *)&a6, sizeof(a6)), 0);
	else
		assert_int_equal(bind(p.listener, (struct sockaddr *)&a4, sizeof(a4)), 0);
	assert_int_equal(listen(p.listener, 1), 0);
	assert_int_equal(getsockname(p.listener, (struct sockaddr *)&got, &n), 0);
	a4.sin_port = family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
					 : ((struct sockaddr_in *)&got)->sin_port;
	p.port = ntohs(a4.sin_port);
	p.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(p.client, (struct sockaddr *)&a4, sizeof(a4)), 0);
	p.server = accept4(p.listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(p.server >= 0);
	return p;
}

static void close_pair(const struct pair *p)
{
	(void)close(p->client);
	(void)close(p->server);
	(void)close(p->listener);
}

static void connections_are_found_by_their_other_end(void **state)
{
	struct weir_prefix here = prefix("127.0.0.1"), other = prefix("198.51.100.7"),
			   six = prefix("2001:db8::7");
	struct weir_seen seen = {};
	__u16 wrong = 1;

	(void)state;
	for (int family = AF_INET; family <= AF_INET6; family += AF_INET6 - AF_INET) {
		struct pair p = connect_pair(family);

		assert_int_equal(weir_seen_tcp(&here, &here, NULL, 0, 2000, &seen), 0);
		assert_true(seen.client);
		assert_false(seen.peer);
		assert_int_equal(weir_seen_tcp(&here, &here, &p.port, 1, 2000, &seen), 0);
		assert_true(seen.peer);
		assert_int_equal(weir_seen_tcp(&here, &here, &wrong, 1, 2000, &seen), 0);
		assert_false(seen.peer);
		close_pair(&p);
	}
	assert_int_equal(weir_seen_tcp(&other, &other, NULL, 0, 2000, &seen), 0);
	assert_false(seen.client);
	assert_int_equal(weir_seen_tcp(&six, &six, NULL, 0, 2000, &seen), 0);
	assert_false(seen.client);
}

#define ALONE(name) cmocka_unit_test_setup_teardown(name, set_up_alone, tear_down)
#define BOTH(name)  cmocka_unit_test_setup_teardown(name, set_up_both, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALONE(requests_alone_need_no_packet_layer),
		ALONE(lists_without_a_packet_layer_are_refused_clearly),
		ALONE(packet_limits_without_interfaces_are_said_to_do_nothing),
		ALONE(a_folder_that_cannot_be_written_is_no_obstacle),
		ALONE(neither_interfaces_nor_listeners_is_an_error),
		ALONE(from_none_to_some_interfaces_takes_a_restart),
		BOTH(a_wrong_listener_fails_the_start_and_changes_nothing),
		BOTH(what_the_listeners_refuse_at_a_reload_changes_nothing),
		BOTH(what_the_kernel_refuses_takes_the_request_layer_back_too),
		BOTH(what_the_engine_refuses_changes_nothing),
		BOTH(the_first_listeners_may_come_with_a_reload),
		BOTH(the_mode_is_that_of_both_layers),
		ALONE(an_unconfirmed_reload_takes_the_request_layer_back),
		ALONE(a_reload_tells_what_changed_in_the_request_layer),
		ALONE(a_request_limit_is_set_and_unset_by_command),
		BOTH(a_question_reaches_the_engine_as_it_was_asked),
		BOTH(questions_that_make_no_sense_are_refused),
		BOTH(a_client_is_explained_with_what_lifts_it),
		BOTH(a_reset_reaches_the_layer_whose_limit_it_is),
		BOTH(refusals_are_events_under_a_cap_of_their_own),
		BOTH(a_limit_that_refuses_is_said_to_act),
		ALONE(forwarded_headers_of_strangers_are_warned_of),
		BOTH(the_page_has_every_metric_and_no_client),
		BOTH(traffic_makes_no_new_series),
		BOTH(readiness_is_that_of_what_is_in_force),
		BOTH(who_hammers_is_blocked_for_a_while_and_one_command_undoes_it),
		BOTH(of_ipv6_the_64_is_blocked_but_never_that_of_nat64),
		BOTH(monitor_only_says_what_it_would_do),
		BOTH(addresses_that_are_not_the_clients_alone_are_never_blocked),
		ALONE(without_a_packet_layer_nothing_is_escalated),
		BOTH(a_full_list_is_counted_and_said),
		BOTH(nobody_makes_such_an_origin_by_hand),
		BOTH(a_source_over_a_packet_limit_is_suspicious),
		cmocka_unit_test(connections_are_found_by_their_other_end),
	};
	int r;

	quiet = fopen("/dev/null", "we");
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)fclose(quiet);
	return r;
}
