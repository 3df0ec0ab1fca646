/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The admin socket against hostile and slow clients. The server and its clients share this process: nothing waits for
 * time, the loop is turned until a condition holds.
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

#include "lib/wait.h"
#include "user/agent/admin.h"
#include "user/agent/json.h"

struct fix {
	char dir[64], path[96];
	struct event_base *base;
	struct weir_admin *admin;
	struct weir_error e;
	unsigned asked;
	bool follow;
	size_t reply_bytes;
};

static json_t *on_request(void *arg, struct weir_client *c, const json_t *request)
{
	struct fix *f = arg;
	json_t *o = json_object();

	f->asked++;
	weir_json_set_bool(o, "ok", true);
	weir_json_set_text(o, "echo", weir_json_text_of(request, "cmd"));
	weir_json_set_text(o, "who", weir_client_who(c));
	if (f->reply_bytes) {
		char *fill = malloc(f->reply_bytes + 1);

		memset(fill, 'x', f->reply_bytes);
		fill[f->reply_bytes] = '\0';
		weir_json_set_text(o, "fill", fill);
		free(fill);
	}
	if (f->follow)
		assert_int_equal(weir_client_follow(c, weir_json_text_of(request, "limit")), 0);
	return o;
}

static int start(struct fix *f)
{
	char *note = NULL;
	int fd = -1, r = weir_admin_bind(f->path, NULL, &fd, &note, &f->e);

	free(note);
	return r < 0 ? r : weir_admin_new(f->base, fd, f->path, on_request, f, &f->admin, &f->e);
}

static int set_up(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/weir-admin-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->path, sizeof(f->path), "%s/admin.sock", f->dir);
	f->base = event_base_new();
	*state = f;
	return start(f);
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	weir_admin_free(f->admin);
	event_base_free(f->base);
	(void)unlink(f->path);
	(void)rmdir(f->dir);
	free(f);
	return 0;
}

static int turn(struct fix *f)
{
	return event_base_loop(f->base, EVLOOP_NONBLOCK);
}

static int dial(struct fix *f)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(a.sun_path, f->path, strlen(f->path) + 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static void say(struct fix *f, int fd, const char *text, size_t n)
{
	while (n) {
		ssize_t done = send(fd, text, n, MSG_NOSIGNAL);

		if (done < 0 && errno == EAGAIN) {
			(void)turn(f);
			continue;
		}
		if (done < 0)
			return; /* the server has closed: the test looks at its answer */
		text += done;
		n -= (size_t)done;
		(void)turn(f);
	}
}

/* Bytes that came: -1 = closed without a line. */
static bool hear_more(struct fix *f, int fd, char *buf, size_t size, size_t *n, bool *end)
{
	ssize_t got;

	(void)turn(f);
	got = recv(fd, buf + *n, size - 1 - *n, 0);
	*end = got == 0;
	if (got > 0)
		*n += (size_t)got;
	buf[*n] = '\0';
	return *end || strchr(buf, '\n');
}

static json_t *hear(struct fix *f, int fd)
{
	char buf[4096] = "";
	size_t n = 0;
	bool end = false;

	assert_true(wait_for(hear_more(f, fd, buf, sizeof(buf), &n, &end), 5000));
	assert_true(n > 0);
	return json_loads(buf, JSON_DISABLE_EOF_CHECK, NULL);
}

static bool is_closed(struct fix *f, int fd)
{
	char buf[4096];
	ssize_t got;

	(void)turn(f);
	got = recv(fd, buf, sizeof(buf), 0);
	return got == 0 || (got < 0 && errno != EAGAIN);
}

static void is_refused(struct fix *f, int fd, const char *words)
{
	_cleanup_json_ json_t *j = hear(f, fd);

	assert_false(weir_json_bool_of(j, "ok"));
	assert_non_null(strstr(weir_json_text_of(j, "error"), words));
}

static void is_answered(struct fix *f, int fd, const char *echo)
{
	_cleanup_json_ json_t *j = hear(f, fd);

	assert_true(weir_json_bool_of(j, "ok"));
	assert_string_equal(weir_json_text_of(j, "echo"), echo);
}

static void a_request_is_answered_and_its_user_known(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);
	_cleanup_json_ json_t *j = NULL;

	say(f, fd, "{\"cmd\":\"a\"}\n", 12);
	j = hear(f, fd);
	assert_string_equal(weir_json_text_of(j, "echo"), "a");
	if (!geteuid())
		assert_string_equal(weir_json_text_of(j, "who"), "root");
}

static void bytes_may_come_one_by_one_and_lines_together(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);
	static const char two[] = "{\"cmd\":\"b\"}\n\n{\"cmd\":\"c\"}\n";

	for (const char *p = "{\"cmd\":\"a\"}\n"; *p; p++)
		say(f, fd, p, 1);
	is_answered(f, fd, "a");
	say(f, fd, two, sizeof(two) - 1);
	assert_true(wait_for((turn(f), f->asked == 3), 5000));
}

static void what_is_no_request_is_refused_and_the_talk_goes_on(void **state)
{
	static const struct {
		const char *line, *words;
	} bad[] = {
		{"hello\n", "not JSON"},
		{"{\"cmd\":\"a\"\n", "not JSON"},
		{"{\"cmd\":\"a\",\"cmd\":\"b\"}\n", "not JSON"},
		{"{\"cmd\":\"\xff\xfe\"}\n", "not JSON"},
		{"[]\n", "no object"},
		{"\"cmd\"\n", "no"},
		{"{}\n", "no object"},
		{"{\"cmd\":7}\n", "no object"},
		{"{\"cmd\":\"a\"} trailing\n", "not JSON"},
	};
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		say(f, fd, bad[i].line, strlen(bad[i].line));
		is_refused(f, fd, bad[i].words);
	}
	assert_int_equal(f->asked, 0);
	say(f, fd, "{\"cmd\":\"a\"}\n", 12);
	is_answered(f, fd, "a");
}

static void nul_bytes_do_not_hide_anything(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);

	say(f, fd, "{\"cmd\":\"a\"}\0{\"cmd\":\"b\"}\n", 24);
	is_refused(f, fd, "not JSON");
	assert_int_equal(f->asked, 0);
}

static void deep_json_is_refused(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);
	char *deep = malloc(100001);

	memset(deep, '[', 100000);
	deep[100000] = '\n';
	say(f, fd, deep, 100001);
	free(deep);
	is_refused(f, fd, "not JSON");
}

static void a_huge_line_is_refused_and_closed(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);
	size_t n = WEIR_ADMIN_LINE_MAX_BYTES + 65536;
	char *line = malloc(n);

	memset(line, ' ', n);
	say(f, fd, line, n);
	free(line);
	is_refused(f, fd, "longer than");
	assert_true(wait_for(is_closed(f, fd), 5000));
	assert_true(wait_for((turn(f), weir_admin_clients(f->admin) == 0), 5000));
	assert_int_equal(f->asked, 0);
}

static void one_byte_more_than_the_longest_line_is_refused(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);
	size_t n = WEIR_ADMIN_LINE_MAX_BYTES + 2;
	char *line = malloc(n);

	memset(line, ' ', n);
	memcpy(line, "{\"cmd\":\"a\"}", 11);
	line[n - 1] = '\n';
	say(f, fd, line, n);
	free(line);
	is_refused(f, fd, "longer than");
	assert_int_equal(f->asked, 0);
}

static void the_longest_line_is_taken(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);
	char *line = malloc(WEIR_ADMIN_LINE_MAX_BYTES + 1);

	memset(line, ' ', WEIR_ADMIN_LINE_MAX_BYTES);
	memcpy(line, "{\"cmd\":\"a\"}", 11);
	line[WEIR_ADMIN_LINE_MAX_BYTES] = '\n';
	say(f, fd, line, WEIR_ADMIN_LINE_MAX_BYTES + 1);
	free(line);
	is_answered(f, fd, "a");
}

static void a_line_that_never_ends_is_closed_after_its_time(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f), idle = dial(f);
	__u64 now_ns = wait_now_ns();

	assert_true(idle >= 0);
	say(f, fd, "{\"cmd\":", 7);
	assert_true(wait_for((turn(f), weir_admin_clients(f->admin) == 2), 5000));
	weir_admin_tick(f->admin, now_ns + WEIR_ADMIN_LINE_NS / 2);
	say(f, fd, " ", 1); /* a byte now and then buys no time */
	weir_admin_tick(f->admin, now_ns + WEIR_ADMIN_LINE_NS + WEIR_ADMIN_LINE_NS / 2);
	is_refused(f, fd, "not finished");
	assert_true(wait_for(is_closed(f, fd), 5000));
	assert_int_equal(weir_admin_clients(f->admin), 1); /* who says nothing may stay */
}

static void too_many_clients_are_told_so(void **state)
{
	struct fix *f = *state;
	int fd[WEIR_ADMIN_CLIENTS_MAX], one_more;

	for (int i = 0; i < WEIR_ADMIN_CLIENTS_MAX; i++) {
		fd[i] = dial(f);
		(void)turn(f);
	}
	assert_true(
		wait_for((turn(f), weir_admin_clients(f->admin) == WEIR_ADMIN_CLIENTS_MAX), 5000));
	one_more = dial(f);
	is_refused(f, one_more, "32 clients");
	(void)close(one_more);
	(void)close(fd[0]);
	assert_true(wait_for((turn(f), weir_admin_clients(f->admin) == WEIR_ADMIN_CLIENTS_MAX - 1),
			     5000));
	fd[0] = dial(f);
	say(f, fd[0], "{\"cmd\":\"a\"}\n", 12);
	is_answered(f, fd[0], "a");
	for (int i = 0; i < WEIR_ADMIN_CLIENTS_MAX; i++)
		(void)close(fd[i]);
}

static void who_does_not_read_gets_no_more_answers_and_then_all(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);
	unsigned before;
	size_t lines = 0;

	f->reply_bytes = 100000;
	for (int i = 0; i < 64; i++)
		say(f, fd, "{\"cmd\":\"a\"}\n", 12);
	for (int i = 0; i < 100; i++)
		(void)turn(f);
	before = f->asked;
	assert_in_range(before, 1, 32); /* the rest waits: its answers would fill memory */
	while (lines < 64) {
		char buf[65536];
		ssize_t got;

		(void)turn(f);
		got = recv(fd, buf, sizeof(buf), 0);
		for (ssize_t k = 0; k < got; k++)
			lines += buf[k] == '\n';
		assert_true(got > 0 || (got < 0 && errno == EAGAIN));
	}
	assert_int_equal(f->asked, 64);
}

static void a_slow_follower_loses_events_and_is_told_how_many(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);
	_cleanup_json_ json_t *event =
		json_pack("{s:s%}", "event", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", (size_t)32);
	char buf[65536] = "";
	bool told = false;

	f->follow = true;
	say(f, fd, "{\"cmd\":\"follow\"}\n", 17);
	is_answered(f, fd, "follow");
	for (int i = 0; i < 40000; i++) {
		weir_admin_push(f->admin, NULL, event);
		if (i % 100 == 0)
			(void)turn(f);
	}
	for (int i = 0; i < 10000 && !told; i++) {
		ssize_t got;

		weir_admin_push(f->admin, NULL, event);
		(void)turn(f);
		got = recv(fd, buf, sizeof(buf) - 1, 0);
		if (got > 0) {
			buf[got] = '\0';
			told = strstr(buf, "\"lost\":") != NULL;
		}
	}
	assert_true(told);
}

static void a_follower_of_one_limit_gets_only_that(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = dial(f);
	_cleanup_json_ json_t *a = json_pack("{s:b,s:s}", "ok", 1, "echo", "other"),
			      *b = json_pack("{s:b,s:s}", "ok", 1, "echo", "mine");

	f->follow = true;
	say(f, fd, "{\"cmd\":\"follow\",\"limit\":\"syn\"}\n", 31);
	is_answered(f, fd, "follow");
	weir_admin_push(f->admin, NULL, a);
	weir_admin_push(f->admin, "udp", a);
	weir_admin_push(f->admin, "syn", b);
	is_answered(f, fd, "mine");
}

static void a_client_that_hangs_up_at_once_harms_nobody(void **state)
{
	struct fix *f = *state;
	_cleanup_close_ int fd = -1;

	for (int i = 0; i < 50; i++) {
		int gone = dial(f);

		if (i % 2)
			say(f, gone, "{\"cmd\":\"a\"}\n{\"cmd\":", 19);
		(void)close(gone);
	}
	fd = dial(f);
	say(f, fd, "{\"cmd\":\"b\"}\n", 12);
	is_answered(f, fd, "b");
	assert_true(wait_for((turn(f), weir_admin_clients(f->admin) == 1), 5000));
}

static void the_socket_is_for_owner_and_group_only(void **state)
{
	struct fix *f = *state;
	struct stat st;

	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
}

static void a_live_socket_is_never_taken(void **state)
{
	struct fix *f = *state;
	char *note = NULL;
	int fd = -1;

	assert_int_equal(weir_admin_bind(f->path, NULL, &fd, &note, &f->e), -EADDRINUSE);
	assert_non_null(strstr(f->e.text, "already answers"));
	(void)turn(f);
}

static void a_stale_socket_is_replaced(void **state)
{
	struct fix *f = *state;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	_cleanup_close_ int client = -1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	weir_admin_free(f->admin);
	f->admin = NULL;
	memcpy(a.sun_path, f->path, strlen(f->path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0); /* as kill -9 leaves it */
	(void)close(fd);
	assert_int_equal(start(f), 0);
	client = dial(f);
	say(f, client, "{\"cmd\":\"a\"}\n", 12);
	is_answered(f, client, "a");
}

static void a_file_that_is_no_socket_is_left_alone(void **state)
{
	struct fix *f = *state;
	struct stat st;
	char *note = NULL;
	int fd;

	weir_admin_free(f->admin);
	f->admin = NULL;
	fd = open(f->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	(void)close(fd);
	assert_true(weir_admin_bind(f->path, NULL, &fd, &note, &f->e) < 0);
	assert_non_null(strstr(f->e.text, "no socket"));
	assert_int_equal(stat(f->path, &st), 0);
}

static void a_missing_group_means_root_only_and_is_said(void **state)
{
	struct fix *f = *state;
	char *note = NULL;
	int fd = -1;

	weir_admin_free(f->admin);
	f->admin = NULL;
	assert_int_equal(weir_admin_bind(f->path, "no-such-group-here", &fd, &note, &f->e), 0);
	assert_non_null(note);
	assert_non_null(strstr(note, "no-such-group-here"));
	free(note);
	(void)close(fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_request_is_answered_and_its_user_known),
		T(bytes_may_come_one_by_one_and_lines_together),
		T(what_is_no_request_is_refused_and_the_talk_goes_on),
		T(nul_bytes_do_not_hide_anything),
		T(deep_json_is_refused),
		T(a_huge_line_is_refused_and_closed),
		T(one_byte_more_than_the_longest_line_is_refused),
		T(the_longest_line_is_taken),
		T(a_line_that_never_ends_is_closed_after_its_time),
		T(too_many_clients_are_told_so),
		T(who_does_not_read_gets_no_more_answers_and_then_all),
		T(a_slow_follower_loses_events_and_is_told_how_many),
		T(a_follower_of_one_limit_gets_only_that),
		T(a_client_that_hangs_up_at_once_harms_nobody),
		T(the_socket_is_for_owner_and_group_only),
		T(a_live_socket_is_never_taken),
		T(a_stale_socket_is_replaced),
		T(a_file_that_is_no_socket_is_left_alone),
		T(a_missing_group_means_root_only_and_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
