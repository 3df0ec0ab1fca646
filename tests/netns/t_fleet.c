/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A packet limit of scope: fleet on five hosts, each a network namespace with an agent and a sender of its own, and one
 * real Redis: who is loud nowhere is blocked everywhere when it is too loud together, in the time that weir states; who is
 * not is not; and without the store each host's own limit stands.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/gen.h"
#include "lib/netns.h"
#include "lib/redis.h"
#include "lib/run.h"
#include "lib/wait.h"
#include "user/base/cleanup.h"

#define HOSTS	5
#define WAIT_MS 20000
#define RATE	1000
#define LOUD	"10.0.0.1"
#define POLITE	"10.0.0.2"
#define LATE	"10.0.0.3"
#define GUARDED "10.0.0.4"

/* burst and a second each of window and of what is told late (weir check): of a source at twice the limit, after so long
 * the room is full; then a pass, a call and a poll.
 */
#define ROOM_MS	    3000
#define REACTION_MS 1000

static char weir[512]; /* the program */

struct host {
	struct lab lab;
	char dir[64], conf[96], socket[96], log[96];
	pid_t agent;
	bool blocked;
	uint64_t blocked_ns, open_ns; /* first seen so, last seen not */
};

struct fix {
	struct redis_server redis;
	struct host host[HOSTS];
	char out[1 << 20];
};

static int say(struct fix *f, struct host *h, const char *const argv[])
{
	(void)setenv("WEIR_SOCKET", h->socket, 1);
	return run_cmdv(h->lab.netns_fd[LAB_WEIR], f->out, sizeof(f->out), argv);
}
#define weir(h, ...) say(f, h, (const char *const[]){weir, __VA_ARGS__, NULL})

static void host_start(struct fix *f, struct host *h, int i)
{
	char err[LAB_ERR_BYTES];
	const char *const argv[] = {weir, "run", "-c", h->conf, NULL};
	FILE *c;
	int fd;

	assert_int_equal(lab_open(&h->lab, NULL, err), 0);
	(void)snprintf(h->dir, sizeof(h->dir), "/tmp/weir-fleet-XXXXXX");
	assert_non_null(mkdtemp(h->dir));
	(void)snprintf(h->conf, sizeof(h->conf), "%s/weir.yaml", h->dir);
	(void)snprintf(h->socket, sizeof(h->socket), "%s/admin.sock", h->dir);
	(void)snprintf(h->log, sizeof(h->log), "%s/log", h->dir);
	c = fopen(h->conf, "we");
	assert_non_null(c);
	(void)fprintf(c,
		      "instance: host%d\ninterfaces: [weir0]\nstate_dir: %s/state\nadmin: {listen: "
		      "%s}\nlists: {never_block: [" GUARDED "]}\n"
		      "memory: {packet_sources: 1 MB}\n"
		      "store: {url: \"redis+unix://%s\"}\n"
		      "packet_limits:\n  - {name: all, rate: %d/s, scope: fleet}\n",
		      i, h->dir, h->socket, f->redis.sock, RATE);
	assert_int_equal(fclose(c), 0);
	fd = open(h->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_int_equal(run_start(h->lab.netns_fd[LAB_WEIR], fd, argv, &h->agent), 0);
	(void)close(fd);
	if (!wait_for(weir(h, "status") == 0, WAIT_MS)) {
		(void)run_cmd(0, f->out, sizeof(f->out), "cat", h->log);
		fail_msg("the agent does not answer: %.1500s", f->out);
	}
}

static json_t *status(struct fix *f, struct host *h)
{
	json_error_t e;
	json_t *s;

	assert_int_equal(weir(h, "status", "--json"), 0);
	s = json_loads(f->out, 0, &e);
	assert_non_null(s);
	return s;
}

static uint64_t live(struct fix *f, struct host *h)
{
	json_t *s = status(f, h);
	uint64_t n =
		(uint64_t)json_integer_value(json_object_get(json_object_get(s, "fleet"), "live"));

	json_decref(s);
	return n;
}

/* A number of what status tells of the limits that the fleet counts together. */
static uint64_t told(struct fix *f, struct host *h, const char *what)
{
	json_t *s = status(f, h);
	uint64_t n = (uint64_t)json_integer_value(
		json_object_get(json_object_get(json_object_get(s, "fleet"), "sources"), what));

	json_decref(s);
	return n;
}

/* Packets that the limit let through, or not. */
static uint64_t counted(struct fix *f, struct host *h, const char *what)
{
	json_t *s = status(f, h), *o, *limits;
	uint64_t n;

	limits = json_object_get(s, "limits");
	assert_int_equal(json_array_size(limits), 1); /* what counts for it is no limit */
	o = json_object_get(json_array_get(limits, 0), what);
	n = (uint64_t)json_integer_value(json_object_get(o, "packets"));
	json_decref(s);
	return n;
}

static bool blocks(struct fix *f, struct host *h, const char *source)
{
	return weir(h, "block", "list") == 0 && strstr(f->out, source);
}

static int set_up(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	*state = f;
	if (redis_start(&f->redis, NULL) < 0)
		return -1;
	for (int i = 0; i < HOSTS; i++)
		host_start(f, &f->host[i], i);
	for (int i = 0; i < HOSTS; i++)
		if (!wait_for(live(f, &f->host[i]) == HOSTS, WAIT_MS))
			return -1;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	for (int i = 0; i < HOSTS; i++) {
		struct host *h = &f->host[i];

		if (h->agent > 0)
			(void)run_stop(h->agent, WAIT_MS);
		if (h->conf[0])
			(void)weir(h, "detach", "-c", h->conf);
		if (h->dir[0])
			(void)run_cmd(0, f->out, sizeof(f->out), "rm", "-r", h->dir);
		lab_close(&h->lab);
	}
	redis_stop(&f->redis);
	free(f);
	return 0;
}

/* --- senders ---- */

static struct gen *send_from(struct host *h, const char *source, uint64_t pps)
{
	struct gen_opts o = {.dev = LAB_GEN_DEV,
			     .netns_fd = h->lab.netns_fd[LAB_GEN],
			     .src = source,
			     .rate_pps = pps,
			     .batch = 4};
	char err[GEN_ERR_BYTES] = "";
	struct gen *g = NULL;

	if (gen_open(&o, err, sizeof(err), &g) < 0)
		fail_msg("%s", err);
	assert_int_equal(gen_start(g, 0, 0), 0);
	return g;
}

static bool see_blocks(struct fix *f, const char *source)
{
	bool all = true;

	for (int i = 0; i < HOSTS; i++) {
		struct host *h = &f->host[i];
		uint64_t asked_ns = wait_now_ns();

		if (!h->blocked && blocks(f, h, source)) {
			h->blocked = true;
			h->blocked_ns = wait_now_ns();
		} else if (!h->blocked) {
			h->open_ns = asked_ns;
		}
		all = all && h->blocked;
	}
	return all;
}

static void stop_all(struct gen **g)
{
	for (int i = 0; i < HOSTS; i++)
		gen_stop(g[i]);
	for (int i = 0; i < HOSTS; i++)
		gen_close(g[i]);
}

/* --- the tests ---- */

static void loud_nowhere_and_too_loud_together_is_blocked_everywhere(void **state)
{
	struct fix *f = *state;
	struct gen *g[HOSTS];
	uint64_t began_ns, last_ns = 0, open_ns = 0, passed = 0, over = 0;

	began_ns = wait_now_ns();
	for (int i = 0; i < HOSTS; i++)
		g[i] = send_from(&f->host[i], LOUD, RATE * 2 / HOSTS);
	assert_true(wait_for(see_blocks(f, LOUD), WAIT_MS));
	stop_all(g);
	for (int i = 0; i < HOSTS; i++) {
		struct host *h = &f->host[i];

		last_ns = h->blocked_ns > last_ns ? h->blocked_ns : last_ns;
		open_ns = h->open_ns > open_ns ? h->open_ns : open_ns;
		passed += counted(f, h, "pass");
		assert_int_equal(counted(f, h, "over"), 0); /* quiet anywhere alone */
	}
	over = passed - RATE * (last_ns - began_ns) / 1000000000;
	print_message("at twice the limit: blocked on all %d hosts after %llu ms, %llu packets "
		      "more than the limit in this time\n",
		      HOSTS, (unsigned long long)(last_ns - began_ns) / 1000000,
		      (unsigned long long)over);
	assert_true(open_ns - began_ns < (ROOM_MS + REACTION_MS) * 1000000ull);
	assert_true(over < RATE * (ROOM_MS + 2 * REACTION_MS) / 1000);
	assert_int_equal(weir(&f->host[2], "block", "list"), 0);
	assert_non_null(strstr(f->out, "fleet:all"));
	assert_non_null(strstr(f->out, "more than its limit on all hosts together"));
	/* explained, and lifted everywhere by one command */
	(void)weir(&f->host[1], "explain", LOUD);
	assert_non_null(strstr(f->out, "fleet:all"));
	assert_int_equal(weir(&f->host[3], "block", "del", "--origin", "fleet:all"), 0);
	for (int i = 0; i < HOSTS; i++)
		assert_true(wait_for(!blocks(f, &f->host[i], LOUD), WAIT_MS));
}

static void who_keeps_to_the_limit_over_all_hosts_is_not(void **state)
{
	struct fix *f = *state;
	struct gen *g[HOSTS];

	for (int i = 0; i < HOSTS; i++)
		g[i] = send_from(&f->host[i], POLITE, RATE * 9 / 10 / HOSTS);
	assert_false(wait_for((see_blocks(f, POLITE), f->host[0].blocked), 8000));
	for (int i = 0; i < HOSTS; i++) {
		assert_false(f->host[i].blocked);
		assert_true(told(f, &f->host[i], "told") > 8); /* but told it was */
	}
	stop_all(g);
}

static void a_guard_of_a_host_holds_there(void **state)
{
	struct fix *f = *state;
	struct gen *g[HOSTS];

	for (int i = 0; i < HOSTS; i++)
		g[i] = send_from(&f->host[i], GUARDED, RATE * 2 / HOSTS);
	assert_true(wait_for(told(f, &f->host[0], "blocked") + told(f, &f->host[1], "blocked") +
					     told(f, &f->host[2], "blocked") +
					     told(f, &f->host[3], "blocked") +
					     told(f, &f->host[4], "blocked") >
				     0,
			     WAIT_MS));
	for (int i = 0; i < HOSTS; i++) {
		uint64_t was = counted(f, &f->host[i], "pass");

		assert_true(
			wait_for(counted(f, &f->host[i], "pass") > was + RATE / HOSTS, WAIT_MS));
	}
	stop_all(g);
}

static void without_the_store_each_hosts_own_limit_stands(void **state)
{
	struct fix *f = *state;
	struct gen *g[HOSTS];

	redis_kill(&f->redis);
	for (int i = 0; i < HOSTS; i++)
		g[i] = send_from(&f->host[i], LATE, i ? RATE * 4 / 10 : RATE * 3);
	assert_true(wait_for(counted(f, &f->host[0], "over") > RATE, WAIT_MS));
	assert_false(wait_for((see_blocks(f, LATE), f->host[0].blocked), 4000));
	for (int i = 1; i < HOSTS; i++)
		assert_int_equal(counted(f, &f->host[i], "over"), 0);
	/* back: what goes on is found */
	assert_int_equal(redis_start(&f->redis, NULL), 0);
	assert_true(wait_for(see_blocks(f, LATE), WAIT_MS));
	stop_all(g);
}

#define FLEET_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FLEET_TEST(loud_nowhere_and_too_loud_together_is_blocked_everywhere),
		FLEET_TEST(who_keeps_to_the_limit_over_all_hosts_is_not),
		FLEET_TEST(a_guard_of_a_host_holds_there),
		FLEET_TEST(without_the_store_each_hosts_own_limit_stands),
	};

	if (run_lacks_root())
		return 77;
	run_program("weir", weir, sizeof(weir));
	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
