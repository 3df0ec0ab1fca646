/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Listeners: start, change and stop, Unix sockets, and pages in the agent's own loop. */
#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "http_case.h"

/* --- sockets and changes ---- */

static void a_listener_in_use_is_told_and_nothing_stays_open(void **state)
{
	struct weir_error e = {.text = ""};
	struct weir_http *second = NULL;
	struct weir_conf_listener *c;
	struct stat st;
	unsigned port;

	(void)state;
	start_direct();
	assert_int_equal(sscanf(lab_where(&lab, 0), "127.0.0.1:%u", &port), 1);
	lab.conf.request.n_listener = 0;
	free(lab.listener[0].listen);
	c = lab_unix(&lab, WEIR_PROFILE_CADDY, "new.sock");
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL)->port = (__u16)port;
	assert_true(weir_http_open(&lab.conf, &lab.l7, &second, &e) < 0);
	assert_non_null(strstr(e.text, "in use by another program"));
	assert_int_equal(stat(c->unix_path, &st), -1);
}

static void a_stale_unix_socket_is_replaced_and_a_live_one_is_not(void **state)
{
	struct weir_error e = {.text = ""};
	struct weir_http *second = NULL;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct weir_conf_listener *c = lab_unix(&lab, WEIR_PROFILE_CADDY, "a.sock");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	(void)state;
	c->unix_mode = 0620;
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", c->unix_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	close(fd);
	lab_start(&lab);
	assert_int_equal(stat(c->unix_path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0620);
	assert_true(weir_http_open(&lab.conf, &lab.l7, &second, &e) < 0);
	assert_non_null(strstr(e.text, "another program answers"));
	assert_int_equal(lab_ask(&lab, 0,
				 "GET /check HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\n"
				 "X-Forwarded-Uri: /\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"),
			 200);
}

static void a_file_that_is_no_socket_is_left_alone(void **state)
{
	struct weir_error e = {.text = ""};
	struct weir_conf_listener *c = lab_unix(&lab, WEIR_PROFILE_CADDY, "file");
	int fd = open(c->unix_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)state;
	close(fd);
	assert_true(weir_http_open(&lab.conf, &lab.l7, &lab.http, &e) < 0);
	assert_non_null(strstr(e.text, "is no socket"));
	assert_int_equal(unlink(c->unix_path), 0);
}

/* Some group of ours that is not the one that new files have; without such a one there is nothing to see. */
static const struct group *another_group(void)
{
	gid_t mine[64];
	int n = getgroups(64, mine);

	if (geteuid() == 0)
		return getgrgid(1);
	for (int i = 0; i < n; i++)
		if (mine[i] != getegid() && getgrgid(mine[i]))
			return getgrgid(mine[i]);
	return NULL;
}

static void a_unix_socket_belongs_to_its_group(void **state)
{
	const struct group *g = another_group();
	struct weir_conf_listener *c = lab_unix(&lab, WEIR_PROFILE_CADDY, "a.sock");
	char name[64];
	struct stat st;

	(void)state;
	if (!g) {
		print_message("this user has one group only\n");
		skip();
	}
	(void)snprintf(name, sizeof(name), "%s", g->gr_name);
	c->group = name;
	c->unix_mode = 0660;
	lab_start(&lab);
	assert_int_equal(stat(c->unix_path, &st), 0);
	assert_int_equal(st.st_gid, g->gr_gid);
	assert_int_equal(st.st_mode & 0777, 0660);
}

static void a_group_that_does_not_exist_is_told(void **state)
{
	struct weir_error e = {.text = ""};
	struct weir_conf_listener *c = lab_unix(&lab, WEIR_PROFILE_CADDY, "a.sock");
	char group[] = "no-such-group-here";

	(void)state;
	c->group = group;
	assert_true(weir_http_open(&lab.conf, &lab.l7, &lab.http, &e) < 0);
	assert_non_null(strstr(e.text, "no-such-group-here"));
}

static void a_change_keeps_connections_of_the_same_listener(void **state)
{
	struct weir_error e;
	struct web_reply r;
	struct web w;
	char where[128];

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL);
	lab_unix(&lab, WEIR_PROFILE_CADDY, "b.sock");
	lab_start(&lab);
	lab.l7.refuse = true;
	(void)snprintf(where, sizeof(where), "%s", lab_where(&lab, 0));
	assert_int_equal(web_open(&w, where), 0);
	assert_int_equal(web_ask(&w, &r, CHECK), 0);
	assert_int_equal(r.status, 403);
	/* another profile, and the second listener goes */
	lab.listener[0].profile = WEIR_PROFILE_CADDY;
	lab.conf.request.n_listener = 1;
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	assert_string_equal(lab_where(&lab, 0), where);
	assert_int_equal(web_ask(&w, &r, CHECK), 0);
	assert_int_equal(r.status, 429);
	web_close(&w);
	assert_int_equal(access(lab.listener[1].unix_path, F_OK), -1);
	lab.conf.request.n_listener = 2; /* for their memory */
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	assert_int_equal(lab_ask(&lab, 1,
				 "GET /check HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\n"
				 "X-Forwarded-Uri: /\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"),
			 429);
}

static void a_change_that_fails_changes_nothing(void **state)
{
	struct weir_error e = {.text = ""};
	char where[128];
	unsigned port;

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL);
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL);
	lab_start(&lab);
	(void)snprintf(where, sizeof(where), "%s", lab_where(&lab, 1));
	assert_int_equal(sscanf(where, "127.0.0.1:%u", &port), 1);
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL)->port = (__u16)port; /* the second one's */
	lab.listener[0].profile = WEIR_PROFILE_CADDY;
	lab.l7.refuse = true;
	assert_true(weir_http_configure(lab.http, &lab.conf, &e) < 0);
	assert_non_null(strstr(e.text, "in use"));
	assert_string_equal(lab_where(&lab, 1), where);
	assert_int_equal(lab_ask(&lab, 0, CHECK_LAST), 403);
	assert_int_equal(lab_ask(&lab, 1, CHECK_LAST), 403);
}

static void a_listener_that_goes_ends_its_connections(void **state)
{
	struct web idle, held;
	struct web_reply r;
	struct weir_error e;

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
	lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
	lab_start(&lab);
	assert_int_equal(web_open(&idle, lab_where(&lab, 1)), 0);
	assert_int_equal(web_open(&held, lab_where(&lab, 1)), 0);
	assert_int_equal(web_ask(&idle, &r, CHECK), 0);
	lab.l7.wait_us = 60000000;
	assert_int_equal(web_say(&held, CHECK), 0);
	assert_true(wait_for(lab_stats(&lab).held == 1, 5000));
	lab.conf.request.n_listener = 1;
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	lab.conf.request.n_listener = 2;
	assert_int_equal(web_wait(&held, 5000, &r), 0);
	assert_int_equal(r.status, 503);
	assert_int_equal(web_wait_end(&held, 5000), 0);
	assert_int_equal(web_wait_end(&idle, 5000), 0);
	assert_true(wait_for(lab_stats(&lab).connections == 0, 5000));
	web_close(&idle);
	web_close(&held);
}

static void changes_under_load_lose_no_request(void **state)
{
	struct weir_error e;
	struct web w[8];
	struct web_reply r;

	(void)state;
	start_direct();
	for (int i = 0; i < 8; i++)
		assert_int_equal(web_open(&w[i], lab_where(&lab, 0)), 0);
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 8; i++)
			assert_int_equal(web_say(&w[i], CHECK), 0);
		assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
		for (int i = 0; i < 8; i++) {
			assert_int_equal(web_wait(&w[i], 5000, &r), 0);
			assert_int_equal(r.status, 200);
		}
	}
	for (int i = 0; i < 8; i++)
		web_close(&w[i]);
}

static void the_same_socket_may_become_another_kind_of_listener(void **state)
{
	struct weir_error e;
	struct web_reply r;
	struct web w;
	char where[128];

	(void)state;
	start_direct();
	(void)snprintf(where, sizeof(where), "%s", lab_where(&lab, 0));
	assert_int_equal(web_open(&w, where), 0);
	assert_int_equal(web_ask(&w, &r, CHECK), 0);
	lab.listener[0].profile = WEIR_PROFILE_SPOE;
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	assert_int_equal(web_wait_end(&w, 5000), 0);
	web_close(&w);
	assert_string_equal(lab_where(&lab, 0), where);
	lab.listener[0].profile = WEIR_PROFILE_NGINX;
	assert_int_equal(weir_http_configure(lab.http, &lab.conf, &e), 0);
	assert_int_equal(lab_ask(&lab, 0, CHECK_LAST), 200);
}

/* --- pages ---- */

static char *page(void *arg, const char *path, unsigned *ret_status, size_t *ret_n)
{
	char *text = NULL;

	(void)arg;
	if (strcmp(path, "/readyz") == 0)
		return NULL;
	*ret_status = 200;
	*ret_n = (size_t)asprintf(&text, "this is %s\n", path);
	return text;
}

struct asker {
	const char *where, *request;
	struct web w;
	struct web_reply r;
	int got;
	struct event_base *base;
};

static void *ask_page(void *arg)
{
	struct asker *a = arg;

	a->got = web_open(&a->w, a->where);
	if (a->got == 0)
		a->got = web_ask(&a->w, &a->r, "%s", a->request);
	return NULL;
}

static void pages_are_served_in_the_agents_own_loop(void **state)
{
	static const struct {
		const char *request, *body;
		int status;
	} cases[] = {
		{"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "this is /metrics\n", 200},
		{"GET /healthz?x HTTP/1.1\r\nHost: a\r\n\r\n", "this is /healthz\n", 200},
		{"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", NULL, 503},
		{"GET /other HTTP/1.1\r\nHost: a\r\n\r\n", NULL, 404},
		{"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", NULL, 405},
	};
	struct event_base *base = event_base_new();
	struct weir_error e;

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_METRICS, NULL);
	lab_start(&lab);
	assert_int_equal(weir_http_serve_pages(lab.http, base, page, NULL, &e), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct asker a = {.where = lab_where(&lab, 0), .request = cases[i].request};
		pthread_t thread;

		a.got = 1;
		assert_int_equal(pthread_create(&thread, NULL, ask_page, &a), 0);
		while (pthread_tryjoin_np(thread, NULL) == EBUSY)
			assert_true(event_base_loop(base, EVLOOP_NONBLOCK) >= 0);
		assert_int_equal(a.got, 0);
		assert_int_equal(a.r.status, cases[i].status);
		if (cases[i].body)
			assert_string_equal(a.r.body, cases[i].body);
		web_close(&a.w);
	}
	assert_int_equal(lab_stats(&lab).connections, 0); /* they are no part of the limit */
	weir_http_free(lab.http);
	lab.http = NULL;
	event_base_free(base);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(a_listener_in_use_is_told_and_nothing_stays_open),
		T(a_stale_unix_socket_is_replaced_and_a_live_one_is_not),
		T(a_file_that_is_no_socket_is_left_alone),
		T(a_unix_socket_belongs_to_its_group),
		T(a_group_that_does_not_exist_is_told),
		T(a_change_keeps_connections_of_the_same_listener),
		T(a_change_that_fails_changes_nothing),
		T(a_listener_that_goes_ends_its_connections),
		T(changes_under_load_lose_no_request),
		T(the_same_socket_may_become_another_kind_of_listener),
		T(pages_are_served_in_the_agents_own_loop),
	};

	/* one by name: t_http_listener NAME */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
