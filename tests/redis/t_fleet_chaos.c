/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ten thousand random changes on five hosts, while agents are killed and restarted, cut off and healed, replies are lost,
 * and the server is killed and comes back empty: all end up equal, nothing is lost, nothing comes back. What each host
 * does with prefixes of its own is known exactly; prefixes that all of them change must at least be the same everywhere.
 */
#include "redis/fleet_case.h"
#include "user/base/str.h"

#define CHANGES	   10000
#define OWN	   200 /* prefixes of each host */
#define COMMON	   100
#define EMPTIED_AT 6000

struct model {
	bool there[AGENTS][OWN];
	__u64 end_ms[AGENTS][OWN]; /* the later one */
};

static __u64 seed = 88172645463325252ull;

static __u64 below(__u64 n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static void own_prefix(int agent, __u64 i, char buf[32])
{
	(void)snprintf(buf, 32, "10.%d.%u.%u", agent, (unsigned)(i / 256), (unsigned)(i % 256));
}

static void change_own(struct fix *f, struct model *m, int agent)
{
	struct weir_fleet_entry e = {.origin = "command",
				     .host = "",
				     .who = "root",
				     .reason = "own"};
	__u64 i = below(OWN);
	struct weir_fleet_key k;
	char prefix[32];

	own_prefix(agent, i, prefix);
	if (below(3) == 0) {
		(void)del(&f->a[agent], prefix, below(2) ? NULL : "command");
		m->there[agent][i] = false;
		return;
	}
	k = key_of(prefix);
	e.end_ms = below(2) ? 0 : weir_fleet_now_ms(f->a[agent].f) + 3600000 + below(1000000);
	assert_int_equal(weir_fleet_add(f->a[agent].f, &k, 1, &e, NULL), 0);
	if (!m->there[agent][i] || !e.end_ms ||
	    (m->end_ms[agent][i] && e.end_ms > m->end_ms[agent][i]))
		m->end_ms[agent][i] = e.end_ms;
	m->there[agent][i] = true;
}

static void change_common(struct fix *f, int agent)
{
	static const char *const origins[] = {"command", "escalation:login", "drop.netset"};
	char prefix[32];

	(void)snprintf(prefix, sizeof(prefix), "2001:db8:%x::/48", (unsigned)below(COMMON));
	if (below(3) == 0)
		(void)del(&f->a[agent], prefix, below(2) ? NULL : origins[below(3)]);
	else
		add(&f->a[agent], prefix, origins[below(3)], below(2) ? 0 : 3600000 + below(1000),
		    "common");
}

/* Something goes wrong, or right again. */
static void disturb(struct fix *f)
{
	struct agent *a = &f->a[below(AGENTS)];

	switch (below(6)) {
	case 0:
		relay_cut(&a->relay);
		break;
	case 1:
		a->relay.mute_push = true;
		break;
	case 2: /* kill -9: nothing is said at the end */
		agent_stop(a);
		agent_start(f, a);
		break;
	default:
		relay_heal(&a->relay);
		break;
	}
}

static void check_own(struct fix *f, const struct model *m)
{
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
	size_t n = 0;

	for (int agent = 0; agent < AGENTS; agent++)
		for (__u64 i = 0; i < OWN; i++) {
			char prefix[32];
			struct weir_fleet_key k;

			own_prefix(agent, i, prefix);
			k = key_of(prefix);
			for (int at = 0; at < AGENTS; at++) {
				size_t found = weir_fleet_get(f->a[at].f, &k, e);

				if (found != m->there[agent][i])
					fail_msg("%s is %s host%d", prefix,
						 found ? "resurrected on" : "lost on", at);
				if (found && e[0].end_ms != m->end_ms[agent][i])
					fail_msg("%s ends at %llu on host%d, not at %llu", prefix,
						 (unsigned long long)e[0].end_ms, at,
						 (unsigned long long)m->end_ms[agent][i]);
			}
			n += m->there[agent][i];
		}
	print_message("%zu own entries as they must be\n", n);
}

/* The server's own list is what all of them have. */
static void check_server(struct fix *f)
{
	struct weir_fleet_status s = status_of(&f->a[0]);

	assert_int_equal(server_entries(f), (long long)s.entries);
}

static void ten_thousand_changes_end_up_equal(void **state)
{
	struct fix *f = *state;
	struct model *m = calloc(1, sizeof(*m));
	__u64 pushed = 0, restores = 0, reads = 0;
	uint64_t began_ns, healed_ns;

	print_message("WEIR_SEED=%llu\n", (unsigned long long)seed);
	start_all(f, AGENTS);
	assert_true(fix_wait(f, all_settled(f, AGENTS), 5000));
	began_ns = wait_now_ns();
	for (int i = 0; i < CHANGES; i++) {
		int agent = (int)below(AGENTS);

		if (below(2))
			change_own(f, m, agent);
		else
			change_common(f, agent);
		if (below(4) == 0)
			turn(f);
		if (below(60) == 0)
			disturb(f);
		if (i == EMPTIED_AT) {
			redis_kill(&f->r);
			(void)fix_wait(f, false, 50);
			assert_int_equal(redis_start(&f->r, NULL), 0);
		}
	}
	for (int i = 0; i < AGENTS; i++)
		relay_heal(&f->a[i].relay);
	healed_ns = wait_now_ns();
	if (!fix_wait(f, all_same(f, AGENTS), 30000)) {
		for (int i = 0; i < AGENTS; i++) {
			struct weir_fleet_status s = status_of(&f->a[i]);

			print_message("host%d: %s, %llu entries, %llu wait, %llu behind, %s\n", i,
				      weir_fleet_state_name(s.state), (unsigned long long)s.entries,
				      (unsigned long long)s.waiting, (unsigned long long)s.behind,
				      s.why);
			(void)same(&f->a[0], &f->a[i], true);
		}
		fail_msg("they are not equal");
	}
	for (int i = 0; i < AGENTS; i++) {
		struct weir_fleet_status s = status_of(&f->a[i]);

		pushed += s.pushed;
		restores += s.restores;
		reads += s.reads;
	}
	print_message(
		"%d changes in %llu ms, equal %llu ms after the last disturbance; since the last "
		"restarts %llu pushed, %llu times restored, %llu whole readings\n",
		CHANGES, (unsigned long long)((healed_ns - began_ns) / 1000000),
		(unsigned long long)((wait_now_ns() - healed_ns) / 1000000),
		(unsigned long long)pushed, (unsigned long long)restores,
		(unsigned long long)reads);
	check_own(f, m);
	check_server(f);
	/* and after a restart of each */
	for (int i = 0; i < AGENTS; i++) {
		agent_stop(&f->a[i]);
		agent_start(f, &f->a[i]);
	}
	check_own(f, m);
	assert_true(fix_wait(f, all_same(f, AGENTS), 10000));
	free(m);
}

static void a_hundred_thousand_entries_are_shared(void **state)
{
	enum { N = 100000 };
	struct fix *f = *state;
	struct weir_fleet_key *key = calloc(N, sizeof(*key));
	struct weir_fleet_entry e = {.origin = "drop.netset",
				     .host = "",
				     .who = "root",
				     .reason = ""};
	uint64_t began_ns;
	redisContext *c;

	for (unsigned i = 0; i < N; i++) {
		char prefix[32];

		(void)snprintf(prefix, sizeof(prefix), "%u.%u.%u.%u", 1 + i / 65536 % 100,
			       i / 256 % 256, i % 256, i % 200);
		key[i] = key_of(prefix);
	}
	start_all(f, 2);
	assert_true(fix_wait(f, all_settled(f, 2), 5000));
	began_ns = wait_now_ns();
	assert_int_equal(weir_fleet_add(f->a[0].f, key, N, &e, NULL), 0);
	print_message("added in %llu ms, ",
		      (unsigned long long)((wait_now_ns() - began_ns) / 1000000));
	assert_true(fix_wait(f, status_of(&f->a[1]).entries == N && all_settled(f, 2), 120000));
	print_message("on the other host after %llu ms; ",
		      (unsigned long long)((wait_now_ns() - began_ns) / 1000000));
	began_ns = wait_now_ns();
	agent_start(f, &f->a[2]);
	assert_true(fix_wait(f, status_of(&f->a[2]).entries == N, 60000));
	print_message("a third one reads them in %llu ms; ",
		      (unsigned long long)((wait_now_ns() - began_ns) / 1000000));
	c = redis_open(&f->r);
	print_message("%lld bytes of the server an entry\n",
		      redis_int(c, "MEMORY USAGE weir:{fleet}:1:list SAMPLES 0") / N);
	redisFree(c);
	began_ns = wait_now_ns();
	redis_kill(&f->r);
	assert_int_equal(redis_start(&f->r, NULL), 0);
	c = redis_open(&f->r);
	assert_true(fix_wait(f, redis_int(c, "HLEN weir:{fleet}:1:list") >= N && all_settled(f, 3),
			     120000));
	assert_int_equal(status_of(&f->a[2]).entries, N);
	redisFree(c);
	print_message("an emptied server has them again after %llu ms\n",
		      (unsigned long long)((wait_now_ns() - began_ns) / 1000000));
	free(key);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ten_thousand_changes_end_up_equal, fix_set_up,
						fix_tear_down),
		cmocka_unit_test_setup_teardown(a_hundred_thousand_entries_are_shared, fix_set_up,
						fix_tear_down),
	};

	if (getenv("WEIR_SEED") && weir_str_u64(getenv("WEIR_SEED"), UINT64_MAX, &seed) < 0)
		return 2;
	if (access("/dev/shm", W_OK) == 0) /* nobody pulls the plug here */
		(void)setenv("TMPDIR", "/dev/shm", 0);
	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
