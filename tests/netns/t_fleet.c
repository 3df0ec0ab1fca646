/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A packet limit of scope: fleet on five hosts, each a network namespace with an agent and a sender of its own, and one
 * real Redis: who is loud nowhere is blocked everywhere when it is too loud together, in the time that weir states; who is
 * not is not; and without the store each host's own limit stands.
 */
#include "host.h"
#include "lib/gen.h"
#include "lib/redis.h"
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

struct site {
	struct host h;
	bool blocked;
	uint64_t blocked_ns, open_ns; /* first seen so, last seen not */
};

struct fix {
	struct redis_server redis;
	struct site site[HOSTS];
};
#define weir(s, ...) host_weir(&(s)->h, __VA_ARGS__)

static void open_site(struct fix *f, struct site *s, int i)
{
	assert_int_equal(host_open(&s->h), 0);
	host_configure(&s->h,
		       "instance: host%d\nlists: {never_block: [" GUARDED "]}\n"
		       "memory: {packet_sources: 1 MB}\n"
		       "store: {url: \"redis+unix://%s\"}\n"
		       "packet_limits:\n  - {name: all, rate: %d/s, scope: fleet}\n",
		       i, f->redis.sock, RATE);
	host_start(&s->h);
}

static uint64_t live(struct site *s)
{
	json_t *j = host_status(&s->h);
	uint64_t n =
		(uint64_t)json_integer_value(json_object_get(json_object_get(j, "fleet"), "live"));

	json_decref(j);
	return n;
}

/* A number of what status tells of the limits that the fleet counts together. */
static uint64_t told(struct site *s, const char *what)
{
	json_t *j = host_status(&s->h);
	uint64_t n = (uint64_t)json_integer_value(
		json_object_get(json_object_get(json_object_get(j, "fleet"), "sources"), what));

	json_decref(j);
	return n;
}

/* Packets that the limit let through, or not. */
static uint64_t counted(struct site *s, const char *what)
{
	json_t *j = host_status(&s->h), *o, *limits;
	uint64_t n;

	limits = json_object_get(j, "limits");
	assert_int_equal(json_array_size(limits), 1); /* what counts for it is no limit */
	o = json_object_get(json_array_get(limits, 0), what);
	n = (uint64_t)json_integer_value(json_object_get(o, "packets"));
	json_decref(j);
	return n;
}

static bool blocks(struct site *s, const char *source)
{
	return weir(s, "block", "list") == 0 && strstr(s->h.out, source);
}

static int set_up(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	*state = f;
	if (redis_start(&f->redis, NULL) < 0)
		return -1;
	for (int i = 0; i < HOSTS; i++)
		open_site(f, &f->site[i], i);
	for (int i = 0; i < HOSTS; i++)
		if (!wait_for(live(&f->site[i]) == HOSTS, WAIT_MS))
			return -1;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	for (int i = 0; i < HOSTS; i++)
		host_close(&f->site[i].h);
	redis_stop(&f->redis);
	free(f);
	return 0;
}

/* --- senders ---- */

static struct gen *send_from(struct site *s, const char *source, uint64_t pps)
{
	struct gen_opts o = {.dev = LAB_GEN_DEV,
			     .netns_fd = s->h.lab.netns_fd[LAB_GEN],
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
		struct site *s = &f->site[i];
		uint64_t asked_ns = wait_now_ns();

		if (!s->blocked && blocks(s, source)) {
			s->blocked = true;
			s->blocked_ns = wait_now_ns();
		} else if (!s->blocked) {
			s->open_ns = asked_ns;
		}
		all = all && s->blocked;
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
		g[i] = send_from(&f->site[i], LOUD, RATE * 2 / HOSTS);
	assert_true(wait_for(see_blocks(f, LOUD), WAIT_MS));
	stop_all(g);
	for (int i = 0; i < HOSTS; i++) {
		struct site *s = &f->site[i];

		last_ns = s->blocked_ns > last_ns ? s->blocked_ns : last_ns;
		open_ns = s->open_ns > open_ns ? s->open_ns : open_ns;
		passed += counted(s, "pass");
		assert_int_equal(counted(s, "over"), 0); /* quiet anywhere alone */
	}
	over = passed - RATE * (last_ns - began_ns) / 1000000000;
	print_message("at twice the limit: blocked on all %d hosts after %llu ms, %llu packets "
		      "more than the limit in this time\n",
		      HOSTS, (unsigned long long)(last_ns - began_ns) / 1000000,
		      (unsigned long long)over);
	assert_true(open_ns - began_ns < (ROOM_MS + REACTION_MS) * 1000000ull);
	assert_true(over < RATE * (ROOM_MS + 2 * REACTION_MS) / 1000);
	assert_int_equal(weir(&f->site[2], "block", "list"), 0);
	assert_non_null(strstr(f->site[2].h.out, "fleet:all"));
	assert_non_null(strstr(f->site[2].h.out, "more than its limit on all hosts together"));
	/* explained, and lifted everywhere by one command */
	(void)weir(&f->site[1], "explain", LOUD);
	assert_non_null(strstr(f->site[1].h.out, "fleet:all"));
	assert_int_equal(weir(&f->site[3], "block", "del", "--origin", "fleet:all"), 0);
	for (int i = 0; i < HOSTS; i++)
		assert_true(wait_for(!blocks(&f->site[i], LOUD), WAIT_MS));
}

static void who_keeps_to_the_limit_over_all_hosts_is_not(void **state)
{
	struct fix *f = *state;
	struct gen *g[HOSTS];

	for (int i = 0; i < HOSTS; i++)
		g[i] = send_from(&f->site[i], POLITE, RATE * 9 / 10 / HOSTS);
	assert_false(wait_for((see_blocks(f, POLITE), f->site[0].blocked), 8000));
	for (int i = 0; i < HOSTS; i++) {
		assert_false(f->site[i].blocked);
		assert_true(told(&f->site[i], "told") > 8); /* but told it was */
	}
	stop_all(g);
}

static void a_guard_of_a_host_holds_there(void **state)
{
	struct fix *f = *state;
	struct gen *g[HOSTS];

	for (int i = 0; i < HOSTS; i++)
		g[i] = send_from(&f->site[i], GUARDED, RATE * 2 / HOSTS);
	assert_true(wait_for(told(&f->site[0], "blocked") + told(&f->site[1], "blocked") +
					     told(&f->site[2], "blocked") +
					     told(&f->site[3], "blocked") +
					     told(&f->site[4], "blocked") >
				     0,
			     WAIT_MS));
	for (int i = 0; i < HOSTS; i++) {
		uint64_t was = counted(&f->site[i], "pass");

		assert_true(wait_for(counted(&f->site[i], "pass") > was + RATE / HOSTS, WAIT_MS));
	}
	stop_all(g);
}

static void without_the_store_each_hosts_own_limit_stands(void **state)
{
	struct fix *f = *state;
	struct gen *g[HOSTS];

	redis_kill(&f->redis);
	for (int i = 0; i < HOSTS; i++)
		g[i] = send_from(&f->site[i], LATE, i ? RATE * 4 / 10 : RATE * 3);
	assert_true(wait_for(counted(&f->site[0], "over") > RATE, WAIT_MS));
	assert_false(wait_for((see_blocks(f, LATE), f->site[0].blocked), 4000));
	for (int i = 1; i < HOSTS; i++)
		assert_int_equal(counted(&f->site[i], "over"), 0);
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
	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
