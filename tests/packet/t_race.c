/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two CPUs at once on the same words and slots: a limit stays exact, and no claim leads to a wrong
 * drop. Each thread is tied to a CPU of its own; on a machine with one CPU there is nothing to see,
 * which is said.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/packet/packet_test.h"

#define THREADS 2

struct thread {
	pthread_t id;
	pthread_barrier_t *start;
	struct xdp_side *side;
	int cpu;
	uint32_t rounds, repeat;
	uint32_t sources; /* takes turns with so many */
	uint64_t seed;
	uint64_t passed, errors;
	struct pkt p;
};

static int cpus[THREADS];

static int two_cpus(void **state)
{
	cpu_set_t set;
	int n = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int i = 0; i < CPU_SETSIZE && n < THREADS; i++)
		if (CPU_ISSET(i, &set))
			cpus[n++] = i;
	return n == THREADS ? 0 : -1;
}

static void *run_thread(void *arg)
{
	struct thread *t = arg;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(t->cpu, &set);
	t->errors += sched_setaffinity(0, sizeof(set), &set) != 0;
	pthread_barrier_wait(t->start);
	for (uint32_t k = 0; k < t->rounds; k++) {
		int a;

		if (t->sources > 1)
			t->p.data[29] = (uint8_t)(1 + (pkt_random(&t->seed) >> 32) % t->sources);
		a = xdp_send_raw(t->side, t->p.data, t->p.len, t->repeat);
		t->errors += a < 0;
		t->passed += a == XDP_PASS;
	}
	return NULL;
}

/* Runs both threads on @side to their ends. */
static void race(struct xdp_side *side, uint32_t rounds, uint32_t repeat, uint32_t sources,
		 struct thread t[THREADS])
{
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		t[i] = (struct thread){.start = &start,
				       .side = side,
				       .cpu = cpus[i],
				       .rounds = rounds,
				       .repeat = repeat,
				       .sources = sources,
				       .seed = (uint64_t)i + 0xabc,
				       .p = SRC4("198.51.100.1")};
		assert_int_equal(pthread_create(&t[i].id, NULL, run_thread, &t[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i].id, NULL);
		assert_int_equal(t[i].errors, 0);
	}
	pthread_barrier_destroy(&start);
}

static void every_algorithm_stays_exact_on_two_cpus(void **state)
{
	static const char *const limit[] = {
		"rate: 1/s, burst: 300000",
		"algorithm: fixed-window, limit: 300000, window: 1h",
		"algorithm: fixed-window, limit: 12600000 B, window: 1h",
		"algorithm: sliding-window-counter, limit: 300000, window: 1h",
	};
	/* whose word it is: that of one source, or of what many sources share */
	static const struct {
		const char *per;
		uint32_t sources;
		enum weir_reason over;
	} whose[] = {
		{"source", 1, WEIR_DROP_LIMIT},
		{"destination", 200, WEIR_DROP_DESTINATION},
		{"all", 200, WEIR_DROP_ALL},
	};

	(void)state;
	for (size_t k = 0; k < 3 * sizeof(limit) / sizeof(limit[0]); k++) {
		const char *per = whose[k % 3].per;
		uint64_t want = 300000; /* of 42 bytes */
		struct pkt first = SRC4("198.51.100.1");
		struct thread t[THREADS];
		struct weir_counters c;
		struct xdp_run *x;
		char text[128];

		(void)snprintf(text, sizeof(text), "{name: a, per: %s, %s}", per, limit[k / 3]);
		x = xdp_run(LIMITS(text));
		/* a claim that both race for may leave one packet uncharged: the next test's matter */
		assert_int_equal(xdp_send_raw(&x->side[1], first.data, first.len, 1), XDP_PASS);
		/* one run a call: with more, the kernel lets one thread wait for the other */
		race(&x->side[1], 400000, 1, whose[k % 3].sources, t);
		xdp_counters(&x->side[1], &c);
		print_message("%s: contended %llu\n", text, c.contended);
		/* what the counters call uncharged is all that is too much */
		assert_int_equal(c.reason.pass_default.packets, want + c.contended);
		assert_true(c.contended < want / 20);
		assert_int_equal(c.reason.pass_default.packets +
					 xdp_count(&c.reason, whose[k % 3].over)->packets,
				 800001);
		assert_int_equal(c.limit[0].pass.packets, c.reason.pass_default.packets);
	}
}

static void racing_claims_never_drop_a_source_below_its_limit(void **state)
{
	struct xdp_run *x = xdp_run_sized(LIMITS("{name: a, rate: 1000/s, burst: 200}"), 1);
	uint64_t twice = 0, lost = 0;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct thread t[THREADS];
		struct weir_counters c;

		/* all are idle again: each round takes the four slots over with other sources */
		xdp_advance_ms(x, 1000);
		race(&x->side[1], 100, 1, 4, t);
		xdp_counters(&x->side[1], &c);
		if (c.reason.drop_limit.packets || c.reason.drop_shared.packets)
			fail_msg("round %d: %llu wrong drops, %llu shared", round,
				 c.reason.drop_limit.packets, c.reason.drop_shared.packets);
		twice = c.duplicate;
		lost = c.claim_lost;
		memset(x->side[1].sources, 0, sizeof(struct weir_bucket4));
	}
	print_message("duplicates %llu, lost claims %llu\n", (unsigned long long)twice,
		      (unsigned long long)lost);
}

/* Two hundred sources fight for four slots: many spill, but a slot never carries another source's
 * debt.
 */
static void churn_on_one_bucket_charges_nobody_for_another(void **state)
{
	struct xdp_run *x = xdp_run_sized(LIMITS("{name: a, rate: 100000/s, burst: 1000000}"), 1);
	struct thread t[THREADS];
	struct weir_counters c;

	(void)state;
	race(&x->side[1], 200000, 1, 200, t);
	xdp_counters(&x->side[1], &c);
	assert_int_equal(c.reason.drop_limit.packets, 0);
	assert_int_equal(c.reason.drop_shared.packets, 0);
	assert_int_equal(c.reason.pass_default.packets, 400000);
	assert_int_equal(t[0].passed + t[1].passed, 400000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_algorithm_stays_exact_on_two_cpus),
		cmocka_unit_test(racing_claims_never_drop_a_source_below_its_limit),
		cmocka_unit_test(churn_on_one_bucket_charges_nobody_for_another),
	};

	if (two_cpus(NULL)) {
		printf("skip: needs two CPUs\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
