/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A real nginx before an application and an agent, with docs/proxies/nginx.conf as it stands. */
#include "tests/proxy/proxy_test.h"
#include "tests/proxy/store_test.h"

static const char *const profile = "nginx", *const program = "nginx";

/* The file is for conf.d: what is around it is the machine's, here everything in a folder of the test's. */
static int write_main(const char *dir)
{
	char path[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/main.conf", dir);
	f = fopen(path, "we");
	if (!f)
		return -errno;
	(void)fprintf(f,
		      "user root;\ndaemon off;\nworker_processes 2;\npid %s/pid;\n"
		      "error_log stderr info;\nevents { worker_connections 1024; }\n"
		      "http {\n\taccess_log off;\n\tclient_body_temp_path %s/body;\n"
		      "\tproxy_temp_path %s/proxy;\n\tfastcgi_temp_path %s/fastcgi;\n"
		      "\tuwsgi_temp_path %s/uwsgi;\n\tscgi_temp_path %s/scgi;\n"
		      "\tinclude %s/weir.conf;\n}\n",
		      dir, dir, dir, dir, dir, dir, dir);
	return fclose(f) == 0 ? 0 : -errno;
}

static int start_nginx(struct proxy *p, const char *dir, const char *where, bool closed)
{
	char listen[96], agent[128], app[80], conf[160], log[160];
	const struct proxy_change changes[] = {
		{"listen 80 default_server;", listen},
		{"server 127.0.0.1:9470;", agent},
		{"proxy_pass http://127.0.0.1:8080;", app},
		{"default open;", closed ? "default closed;" : "default open;"},
		{NULL, NULL},
	};
	const char *const argv[] = {proxy_find(program), "-e", "stderr", "-p", dir, "-c",
				    "main.conf",	 NULL};
	int r;

	(void)snprintf(listen, sizeof(listen), "listen %s default_server;", where);
	(void)snprintf(agent, sizeof(agent), "server %s%s;", closed ? "unix:" : "",
		       closed ? stand.agent_unix : stand.agent_where);
	(void)snprintf(app, sizeof(app), "proxy_pass http://%s;", stand.app.where);
	(void)snprintf(conf, sizeof(conf), "%s/weir.conf", dir);
	(void)snprintf(log, sizeof(log), "%s/log", dir);
	r = proxy_file("docs/proxies/nginx.conf", conf, changes);
	if (r == 0)
		r = write_main(dir);
	return r < 0 ? r : proxy_start(p, log, where, argv);
}

static int (*const start_proxy)(struct proxy *p, const char *dir, const char *where,
				bool closed) = start_nginx;

int main(void)
{
	const struct CMUnitTest tests[] = {COMMON_TESTS,
					   cmocka_unit_test(
						   a_store_that_is_killed_is_what_each_limit_says)};

	return is_missing() ? 77 : cmocka_run_group_tests(tests, set_up, tear_down);
}
