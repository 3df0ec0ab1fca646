/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent with a request layer: alone and beside the packet layer, through start, reload and mode; questions and
 * commands.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "agent_request_case.h"

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

		json_array_foreach(json_object_get(d, "reload_would_change"), k, line)
			found = found || strstr(json_string_value(line), lines[i]);
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

/* Does @reply warn of @words? */
static bool warns(const json_t *reply, const char *words)
{
	const json_t *lines = json_object_get(reply, "problems");
	json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
		if (strstr(json_string_value(line), words) &&
		    strstr(json_string_value(line), "warning: "))
			return true;
	return false;
}

/* What `weir check` would say of the file with this in it, and nothing that it says of the file without. */
static void a_limit_set_by_command_is_warned_of_like_one_in_the_file(void **state)
{
	static const struct {
		const char *name, *set, *words;
	} cases[] = {
		{"login", "'ipv6_prefix':'128'",
		 "limit \"login\": ipv6_prefix: 128 counts each address"},
		{"login", "'key':'user-agent'",
		 "limit \"login\": a client that writes another user-agent"},
		{"login", "'mode':'monitor'", "limit \"tenant\": a client that writes another"},
		{"login", "'key':'{any: [ip, user-agent]}'",
		 "limit \"login\": key: ip is always there"},
		{"slow", "'max_wait':'2m'",
		 "limit \"slow\": max_wait 2m is longer than nginx waits"},
		{"slow", "'key':'{any: [ip], new_per_ip: 3 per 60s}'", "new_per_ip never acts"},
		{"suspicious", "'ipv6_prefix':'128'", "limit \"suspicious\": ipv6_prefix: 128"},
	};
	struct fix *f = *state;

	write_alone(f, NGINX LOGIN
		    "  - {name: tenant, key: 'header:X-Tenant', rate: 5/s}\n"
		    "  - {name: slow, match: {path: /slow}, key: ip, algorithm: leaky-bucket, "
		    "rate: 1/s, queue: 5, "
		    "max_wait: 5s}\n"
		    "  - {name: old, match: {path: /old}, key: ip, rate: 5/s, ipv6_prefix: 120}\n"
		    "suspicious: {refused: {limits: [login], count: 5, within: 60s}, lasts: 10m, "
		    "limit: {key: ip, rate: 1/s}}\n");
	does(f, "{'cmd':'reload'}");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_json_ json_t *j = NULL, *undone = NULL;
		char q[256];

		(void)snprintf(q, sizeof(q), "{'cmd':'limit_set','name':'%s','set':{%s}}",
			       cases[i].name, cases[i].set);
		j = ask(f, q);
		assert_true(weir_json_bool_of(j, "ok"));
		if (!warns(j, cases[i].words))
			fail_msg("%s: no warning: %s", q, json_dumps(j, 0));
		assert_false(warns(j, "120 counts")); /* of what is not new */
		(void)snprintf(q, sizeof(q), "{'cmd':'limit_unset','name':'%s'}", cases[i].name);
		undone = ask(f, q);
		assert_true(weir_json_bool_of(undone, "ok"));
		assert_null(json_object_get(undone, "problems"));
	}
}

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
				  .client = prefix_of("198.51.100.7"),
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
		ALONE(a_limit_set_by_command_is_warned_of_like_one_in_the_file),
		BOTH(a_question_reaches_the_engine_as_it_was_asked),
		BOTH(questions_that_make_no_sense_are_refused),
		BOTH(a_client_is_explained_with_what_lifts_it),
		BOTH(a_reset_reaches_the_layer_whose_limit_it_is),
		BOTH(refusals_are_events_under_a_cap_of_their_own),
		BOTH(a_limit_that_refuses_is_said_to_act),
		ALONE(forwarded_headers_of_strangers_are_warned_of),
	};

	return cmocka_run_group_tests_name("agent_request", tests, open_quiet, close_quiet);
}
