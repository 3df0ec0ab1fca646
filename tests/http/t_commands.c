/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands of the request layer on an agent without any right: no root, no interface. */
#include "http_test.h"

static const char conf[] =
	LISTENERS "  proxy_headers: {user: X-Weir-User}\n"
		  "  api_key: [header X-API-Key]\n"
		  "request_limits:\n"
		  "  - {name: login, match: {method: POST, path: /login}, key: ip, "
		  "algorithm: sliding-window-log, limit: 2, window: 1h}\n"
		  "  - {name: api, match: {path: /api/*}, key: {any: [api-key, user, ip]}, "
		  "algorithm: fixed-window, limit: 5, window: 1d}\n"
		  "  - {name: all, match: {path: /all}, key: global, algorithm: fixed-window, "
		  "limit: 2, window: 1h}\n";

static int set_up(void **state)
{
	return start_case(state, conf, true);
}

static void says(struct agent *a, int status, int want, const char *words)
{
	if (status != want || !strstr(a->out, words))
		fail_msg("exit status %d, not %d with \"%s\": %.1200s", status, want, words,
			 a->out);
}

static void request_asks_as_a_proxy_would(void **state)
{
	struct agent *a = *state;
	struct web w = must_open(a, "caddy");
	struct question q = Q(.method = "POST", .target = "/login", .ip = "198.51.100.1");

	says(a, agent_cmd(a, "request", "POST", "/login", "--ip", "198.51.100.1", "--peek"), 0,
	     "login");
	assert_int_equal(agent_cmd(a, "request", "POST", "/login", "--ip", "198.51.100.1"), 0);
	assert_int_equal(admitted(&w, "caddy", q, 3), 1); /* the command has taken one */
	(void)agent_cmd(a, "request", "POST", "/login", "--ip", "198.51.100.1");
	says(a, 0, 0, "login");
	says(a, 0, 0, "429");
	says(a, 0, 0, "Retry-After");
	assert_int_equal(agent_cmd(a, "request", "GET", "/api/x", "--header", "X-API-Key: k"), 0);
	says(a, 0, 0, "api");
	assert_int_equal(agent_cmd(a, "request", "GET", "/nothing", "--ip", "198.51.100.1"), 0);
	says(a, agent_cmd(a, "request", "G T", "/"), 2, "no method");
	says(a, agent_cmd(a, "request", "GET", "/", "--ip", "nowhere"), 2, "no address");
	web_close(&w);
}

static void set_warns_as_check_does(void **state)
{
	struct agent *a = *state;

	says(a, agent_cmd(a, "limit", "set", "all", "key=user-agent"), 0,
	     "warning: limit \"all\": a client that writes another user-agent into");
	says(a, agent_cmd(a, "limit", "set", "all", "limit=3"), 0, "3 in each");
	assert_null(strstr(a->out, "writes another")); /* it was said */
	says(a, agent_cmd(a, "limit", "unset", "all"), 0, "2 in each");
}

static void status_names_an_address_that_many_clients_share(void **state)
{
	struct agent *a = *state;
	struct web w = must_open(a, "caddy");
	struct question q = Q(.target = "/free", .ip = "10.0.0.9");

	assert_int_equal(admitted(&w, "caddy", q, 512), 512);
	says(a, agent_cmd(a, "status"), 0,
	     "count as one private address, 10.0.0.9: your proxy says so");
	assert_true(metric(a, "weir_shared_address_total") >= 256);
	web_close(&w);
}

static void reset_lets_a_client_in_again(void **state)
{
	struct agent *a = *state;
	struct web w = must_open(a, "caddy");
	struct question q = Q(.method = "POST", .target = "/login", .ip = "198.51.100.2");
	struct question api =
		Q(.target = "/api/x", .ip = "198.51.100.2", .more = "X-Weir-User: bob\r\n");

	assert_int_equal(admitted(&w, "caddy", q, 3), 2);
	says(a, agent_cmd(a, "limit", "reset", "login", "--ip", "198.51.100.2"), 0, "");
	assert_int_equal(admitted(&w, "caddy", q, 3), 2);
	assert_int_equal(admitted(&w, "caddy", api, 7), 5);
	assert_int_equal(agent_cmd(a, "limit", "reset", "api", "--user", "bob"), 0);
	assert_int_equal(admitted(&w, "caddy", api, 7), 5);
	assert_int_not_equal(agent_cmd(a, "limit", "reset", "lgoin"), 0);
	if (!strstr(a->out, "weir limit list"))
		fail_msg("no hint: %s", a->out);
	web_close(&w);
}

static void explain_tells_all_of_a_client(void **state)
{
	struct agent *a = *state;
	struct web w = must_open(a, "caddy");

	(void)admitted(&w, "caddy", Q(.method = "POST", .target = "/login", .ip = "198.51.100.3"),
		       4);
	(void)admitted(&w, "caddy",
		       Q(.target = "/api/x", .ip = "198.51.100.4", .more = "X-Weir-User: eve\r\n"),
		       7);
	says(a, agent_cmd(a, "explain", "198.51.100.3"), 0, "login");
	says(a, 0, 0, "weir limit reset login --ip 198.51.100.3");
	says(a, agent_cmd(a, "explain", "--user", "eve"), 0, "api");
	says(a, 0, 0, "weir limit reset api --user");
	says(a, agent_cmd(a, "explain", "198.51.100.99"), 0, "198.51.100.99");
	/* what is everybody's is not lifted for one; and the command that is told does lift it */
	assert_int_equal(admitted(&w, "caddy", Q(.target = "/all", .ip = "198.51.100.6"), 4), 2);
	says(a, agent_cmd(a, "explain", "198.51.100.6"), 0, "[weir limit reset all]");
	says(a, agent_cmd(a, "limit", "reset", "all"), 0, "");
	assert_int_equal(admitted(&w, "caddy", Q(.target = "/all", .ip = "198.51.100.6"), 4), 2);
	web_close(&w);
}

static void status_top_and_events_tell_of_refusals(void **state)
{
	struct agent *a = *state;
	struct web w = must_open(a, "caddy");
	json_error_t e;
	json_t *j;

	(void)admitted(&w, "caddy", Q(.method = "POST", .target = "/login", .ip = "198.51.100.5"),
		       60);
	says(a, agent_cmd(a, "status"), 0, "enforcing");
	assert_int_equal(agent_cmd(a, "status", "--json"), 0);
	j = json_loads(a->out, 0, &e);
	if (!j)
		fail_msg("%s: %s", e.text, a->out);
	json_decref(j);
	assert_non_null(strstr(a->out, "\"login\""));
	assert_non_null(strstr(a->out, "\"store\""));
	assert_true(wait_for(agent_cmd(a, "top", "--once") == 0 && strstr(a->out, "198.51.100.5") &&
				     strstr(a->out, "login"),
			     5000));
	assert_true(wait_for(agent_cmd(a, "events") == 0 && strstr(a->out, "198.51.100.5"), 5000));
	says(a, agent_cmd(a, "events", "--limit", "login"), 0, "login");
	says(a, agent_cmd(a, "limit", "list"), 0, "api");
	web_close(&w);
}

static void no_right_is_needed(void **state)
{
	struct agent *a = *state;
	char path[64], line[256];
	bool plain = false;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)a->pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "CapEff:", 7) == 0)
			plain = strspn(line + 7, "\t 0\n") == strlen(line + 7);
	(void)fclose(f);
	assert_true(plain);
	must_be_well(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_right_is_needed),
		cmocka_unit_test(request_asks_as_a_proxy_would),
		cmocka_unit_test(set_warns_as_check_does),
		cmocka_unit_test(status_names_an_address_that_many_clients_share),
		cmocka_unit_test(reset_lets_a_client_in_again),
		cmocka_unit_test(explain_tells_all_of_a_client),
		cmocka_unit_test(status_top_and_events_tell_of_refusals),
	};

	return cmocka_run_group_tests(tests, set_up, end_case);
}
