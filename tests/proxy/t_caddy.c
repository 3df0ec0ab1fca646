/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A real Caddy before an application and an agent, with docs/proxies/Caddyfile as it stands. */
#include "tests/proxy/proxy_test.h"
#include "tests/proxy/store_test.h"

static const char *const profile = "caddy", *const program = "caddy";

/* No administration, no certificates: nothing of the machine's is touched. */
static int write_main(const char *dir)
{
	char path[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/main.caddy", dir);
	f = fopen(path, "we");
	if (!f)
		return -errno;
	(void)fprintf(f, "{\n\tadmin off\n\tauto_https off\n}\nimport %s/Caddyfile\n", dir);
	return fclose(f) == 0 ? 0 : -errno;
}

static int start_caddy(struct proxy *p, const char *dir, const char *where, bool closed)
{
	static const char pass[] = "and they get 503)\n\t\t\t\timport app\n";
	char site[80], agent[128], app[80], conf[160], log[160], home[160], data[160], config[160];
	const struct proxy_change changes[] = {
		{"http://:80 {", site},
		{"reverse_proxy 127.0.0.1:9470 {", agent},
		{"reverse_proxy 127.0.0.1:8080 {", app},
		{pass, closed ? "" : pass},
		{NULL, NULL},
	};
	const char *const argv[] = {"env", home,       data, config,	  proxy_find(program),
				    "run", "--config", conf, "--adapter", "caddyfile",
				    NULL};
	int r;

	(void)snprintf(site, sizeof(site), "http://%s {", strchr(where, ':')); /* of any host */
	(void)snprintf(agent, sizeof(agent), "reverse_proxy %s%s {", closed ? "unix/" : "",
		       closed ? stand.agent_unix : stand.agent_where);
	(void)snprintf(app, sizeof(app), "reverse_proxy %s {", stand.app.where);
	(void)snprintf(log, sizeof(log), "%s/log", dir);
	(void)snprintf(home, sizeof(home), "HOME=%s", dir);
	(void)snprintf(data, sizeof(data), "XDG_DATA_HOME=%s", dir);
	(void)snprintf(config, sizeof(config), "XDG_CONFIG_HOME=%s", dir);
	(void)snprintf(conf, sizeof(conf), "%s/Caddyfile", dir);
	r = proxy_file("docs/proxies/Caddyfile", conf, changes);
	if (r == 0)
		r = write_main(dir);
	(void)snprintf(conf, sizeof(conf), "%s/main.caddy", dir);
	return r < 0 ? r : proxy_start(p, log, where, argv);
}

static int (*const start_proxy)(struct proxy *p, const char *dir, const char *where,
				bool closed) = start_caddy;

int main(void)
{
	const struct CMUnitTest tests[] = {COMMON_TESTS,
					   cmocka_unit_test(
						   a_store_that_is_killed_is_what_each_limit_says)};

	return is_missing() ? 77 : cmocka_run_group_tests(tests, set_up, tear_down);
}
