/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Exactness with real frames on two cores: what is admitted is what the configuration says, whatever two CPUs do to one
 * word or one bucket at the same time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/gen.h"
#include "tests/lib/netns.h"
#include "tests/lib/run.h"
#include "tests/lib/wait.h"
#include "tests/lib/weir_bare.h"
#include "weir.skel.h"

#define FLOOD_NS  10000000000ull
#define SECOND_NS 1000000000ull
#define TABLE	  (16u << 20)
#define TOLERANCE 0.01

static struct lab lab;
static const unsigned int both[] = {0, 1};

static int setup(void **state)
{
	char err[LAB_ERR_BYTES];

	(void)state;
	if (lab_open(&lab, &(struct lab_opts){.queues = 2}, err) < 0) {
		print_error("lab: %s\n", err);
		return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	lab_close(&lab);
	return 0;
}

static struct weir *weir_up(const char *yaml, uint64_t table_bytes)
{
	struct weir_bare_opts o = {.yaml = yaml, .table_bytes = table_bytes};
	struct weir *w = NULL;
	int fd, saved, r;

	assert_int_equal(weir_bare_open(&o, &w, &fd), 0);
	saved = lab_enter(&lab, LAB_WEIR);
	r = bpf_xdp_attach(lab.ifindex[LAB_WEIR], fd, XDP_FLAGS_DRV_MODE, NULL);
	lab_leave(saved);
	assert_int_equal(r, 0);
	return w;
}

static void weir_down(struct weir *w)
{
	int saved = lab_enter(&lab, LAB_WEIR);

	assert_int_equal(bpf_xdp_detach(lab.ifindex[LAB_WEIR], XDP_FLAGS_DRV_MODE, NULL), 0);
	lab_leave(saved);
	weir_bare_close(w);
}

static struct gen *gen_new(struct gen_opts o)
{
	char err[GEN_ERR_BYTES];
	struct gen *g = NULL;

	o.dev = LAB_GEN_DEV;
	o.netns_fd = lab.netns_fd[LAB_GEN];
	if (gen_open(&o, err, sizeof(err), &g) < 0)
		fail_msg("generator: %s", err);
	return g;
}

static struct weir_counters counters_of(struct weir *w)
{
	struct weir_counters c;

	assert_int_equal(weir_bare_counters(w, &c), 0);
	return c;
}

/* A packet that should have passed and did not: say why. */
static void print_reasons(const struct weir_counters *c)
{
#define X(id, symbol, name, action, text)                                                          \
	if (c->reason.name.packets)                                                                \
		print_message("  %s %lu\n", #name, (unsigned long)c->reason.name.packets);
	WEIR_REASONS(X)
#undef X
}

/* A flood, and how much of it was none: this machine may be one of many on its host and lose seconds at a time, in which
 * nothing is offered. Every burst below lasts longer than a step, so that only whole empty steps cost tokens.
 */
struct flood {
	uint64_t elapsed_ns;
	uint64_t stalled_ns;
};
#define STEP_NS	  100000000ull
#define STEPS_MAX 600

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Time in steps that brought less than a third of the usual. */
static uint64_t stalled(const uint64_t *frames, const uint64_t *took_ns, int n)
{
	uint64_t sorted[STEPS_MAX], sum = 0;

	memcpy(sorted, frames, (size_t)n * sizeof(frames[0]));
	qsort(sorted, (size_t)n, sizeof(sorted[0]), by_size);
	for (int i = 0; i < n; i++)
		if (frames[i] < sorted[n / 2] / 3)
			sum += took_ns[i];
	return sum;
}

/* Floods from one source on both cores. */
static struct flood flood_one_source(uint64_t time_ns, uint16_t size)
{
	struct gen *g =
		gen_new((struct gen_opts){.sources = 1, .cpus = both, .n_cpus = 2, .size = size});
	static uint64_t frames[STEPS_MAX], took_ns[STEPS_MAX];
	uint64_t at, last_ns, last_sent = 0;
	struct flood f = {};
	struct gen_result r;
	int n = 0;

	assert_int_equal(gen_start(g, 0, time_ns), 0);
	for (last_ns = wait_now_ns(); !gen_is_done(g) && n < STEPS_MAX; n++) {
		wait_until_ns(last_ns + STEP_NS);
		at = wait_now_ns();
		frames[n] = (gen_sent(g) - last_sent) * STEP_NS / (at - last_ns);
		took_ns[n] = at - last_ns;
		last_sent = gen_sent(g);
		last_ns = at;
	}
	assert_int_equal(gen_join(g, &r), 0);
	assert_int_equal(r.threads, 2);
	assert_true(r.thread_frames[0] > 0 && r.thread_frames[1] > 0);
	gen_close(g);
	f.elapsed_ns = r.elapsed_ns;
	f.stalled_ns = stalled(frames, took_ns, n);
	if (f.stalled_ns > STEP_NS) /* the last step is rarely a whole one */
		print_message("nothing was offered for %lu ms of %lu\n",
			      (unsigned long)(f.stalled_ns / 1000000),
			      (unsigned long)(f.elapsed_ns / 1000000));
	else
		f.stalled_ns = 0;
	return f;
}

/* A clock that moves in steps of a jiffy may be one short or one over at the ends. */
#define JIFFY_NS 10000000ull

static void expect_bucket(const struct weir_counters *c, unsigned stat, const char *name,
			  uint64_t counted, double burst, double per_second, const struct flood *f)
{
	double due = burst + per_second * (double)f->elapsed_ns / 1e9;
	double missed = per_second * (double)f->stalled_ns / 1e9;
	double slack = TOLERANCE * due, least = per_second * (double)JIFFY_NS / 1e9;
	uint64_t offered = c->limit[stat].pass.packets + c->limit[stat].over.packets;

	print_message("%s: admitted %lu of %.0f due (%+.3f %%), %lu packets offered\n", name,
		      (unsigned long)counted, due, 100.0 * ((double)counted - due) / due,
		      (unsigned long)offered);
	if (slack < least)
		slack = least;
	if (slack < 2)
		slack = 2;
	assert_true((double)counted >= due - slack - missed);
	assert_true((double)counted <= due + slack);
}

/* What this machine offers, in packets a second of @size bytes: an emulated one has less than the rates below need. */
static uint64_t offered_pps(uint16_t size)
{
	struct weir *w =
		weir_up("packet_limits:\n  - {name: one, per: source, rate: 1/s}\n", TABLE);
	struct flood f = flood_one_source(SECOND_NS, size);
	struct weir_counters c = counters_of(w);
	uint64_t n = c.limit[0].pass.packets + c.limit[0].over.packets;

	weir_down(w);
	return n * SECOND_NS / f.elapsed_ns;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void token_bucket_is_exact_on_two_cores(void **state)
{
	/* A tenth of what is offered, with something to spare. */
	uint64_t rate = at_most(100000, offered_pps(0) / 14);
	struct weir_counters c;
	struct flood f;
	struct weir *w;
	char yaml[256], name[64];

	(void)state;
	(void)snprintf(yaml, sizeof(yaml),
		       "packet_limits:\n  - {name: one, per: source, rate: %lu/s, burst: %lu}\n",
		       (unsigned long)rate, (unsigned long)rate / 5);
	(void)snprintf(name, sizeof(name), "%lu/s, burst %lu", (unsigned long)rate,
		       (unsigned long)rate / 5);
	w = weir_up(yaml, TABLE);
	f = flood_one_source(FLOOD_NS, 0);
	c = counters_of(w);
	assert_true(c.limit[0].over.packets > 9 * c.limit[0].pass.packets);
	expect_bucket(&c, 0, name, c.limit[0].pass.packets, (double)(rate / 5), (double)rate, &f);
	assert_int_equal(c.limit[0].pass.packets, c.reason.pass_default.packets);
	assert_int_equal(c.limit[0].over.packets, c.reason.drop_limit.packets);
	weir_down(w);
}

/* Monitor limits count by themselves and stop nothing: one flood tries them all. */
static void every_rate_and_unit_is_exact_on_two_cores(void **state)
{
	static const struct {
		const char *name, *yaml;
		double burst, per_second;
		int bytes;
	} t[] = {
		{"3/s, burst 5", "rate: 3/s, burst: 5", 5, 3, 0},
		{"50/s, burst 50", "rate: 50/s, burst: 50", 50, 50, 0},
		{"1234/s, burst 200", "rate: 1234/s, burst: 200", 200, 1234, 0},
		{"333333/s, burst 100000", "rate: 333333/s, burst: 100000", 100000, 333333, 0},
		{"1 Mbit/s, burst 64 kB", "rate: 1 Mbit/s, burst: 64 kB", 64000, 125000, 1},
		{"100 Mbit/s, burst 4 MB", "rate: 100 Mbit/s, burst: 4 MB", 4e6, 12.5e6, 1},
		{"1 Gbit/s, burst 16 MB", "rate: 1 Gbit/s, burst: 16 MB", 16e6, 125e6, 1},
	};
	const uint16_t size = 1024;
	char yaml[2048] = "packet_limits:\n";
	struct weir_counters c;
	struct flood f;
	struct weir *w;
	size_t n = strlen(yaml);
	double pps = (double)offered_pps(size);

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		n += (size_t)snprintf(yaml + n, sizeof(yaml) - n,
				      "  - {name: l%zu, per: source, %s, mode: monitor}\n", i,
				      t[i].yaml);
	w = weir_up(yaml, TABLE);
	f = flood_one_source(FLOOD_NS, size);
	c = counters_of(w);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		if ((t[i].bytes ? pps * size : pps) < 2 * t[i].per_second) {
			/* Only an emulated machine is that slow; it has the other rates. */
			assert_non_null(getenv("WEIR_TEST_SLOW"));
			print_message("%s: this machine offers %.0f packets/s\n", t[i].name, pps);
			continue;
		}
		expect_bucket(&c, (unsigned)i, t[i].name,
			      t[i].bytes ? c.limit[i].pass.bytes : c.limit[i].pass.packets,
			      t[i].burst, t[i].per_second, &f);
	}
	assert_int_equal(c.reason.drop_limit.packets, 0);
	weir_down(w);
}

static void a_window_never_admits_more_than_its_limit(void **state)
{
	struct weir *w =
		weir_up("packet_limits:\n"
			"  - {name: fixed, per: source, algorithm: fixed-window, limit: 5000, "
			"window: 1s, mode: monitor}\n"
			"  - {name: wide, per: source, algorithm: fixed-window, limit: 2000000, "
			"window: 1s, mode: monitor}\n"
			"  - {name: sliding, per: source, algorithm: sliding-window-counter, "
			"limit: 5000, window: 1s, mode: monitor}\n",
			TABLE);
	struct gen *g = gen_new((struct gen_opts){.sources = 1, .cpus = both, .n_cpus = 2});
	uint64_t first, last, windows, seen = 0, end_ns;
	struct weir_counters c;

	(void)state;
	first = wait_now_ns() / SECOND_NS;
	assert_int_equal(gen_start(g, 0, FLOOD_NS), 0);
	/* In any window: looked at once early in each one, which by then has used its limit up. */
	for (uint64_t at = first + 2; at < first + 10; at++) {
		wait_until_ns(at * SECOND_NS - SECOND_NS / 10);
		c = counters_of(w);
		if (seen)
			assert_true(c.limit[0].pass.packets - seen <= 5000);
		seen = c.limit[0].pass.packets;
	}
	assert_int_equal(gen_join(g, NULL), 0);
	end_ns = wait_now_ns();
	gen_close(g);
	last = end_ns / SECOND_NS;
	windows = last - first + 1;
	c = counters_of(w);
	print_message(
		"fixed: %lu in %lu windows of 5000; wide: %lu of 2000000; sliding: %lu of 5000\n",
		(unsigned long)c.limit[0].pass.packets, (unsigned long)windows,
		(unsigned long)c.limit[1].pass.packets, (unsigned long)c.limit[2].pass.packets);
	assert_true(c.limit[0].pass.packets <= windows * 5000);
	assert_true(c.limit[0].pass.packets >= (windows - 2) * 5000);
	assert_true(c.limit[1].pass.packets <= windows * 2000000);
	assert_true(c.limit[2].pass.packets <= windows * 5000);
	assert_true(c.limit[2].pass.packets >= (windows - 2) * 5000 / 2);
	weir_down(w);
}

/* The flood has a source for every packet; the polite ones send ten a second each, over the same limit. What goes into
 * the limit and what comes out of it is counted by monitor limits before and behind it.
 */
static void polite_sources_keep_every_packet(void **state)
{
	struct weir *w = weir_up("packet_limits:\n"
				 "  - {name: in, match: {source: 198.18.0.0/15}, per: source, "
				 "rate: 1000000/s, mode: monitor}\n"
				 "  - {name: each, per: source, rate: 100/s, burst: 20}\n"
				 "  - {name: out, match: {source: 198.18.0.0/15}, per: source, "
				 "rate: 1000000/s, mode: monitor}\n",
				 TABLE);
	static const unsigned int cpu0 = 0, cpu1 = 1;
	struct gen *flood =
		gen_new((struct gen_opts){.sources = 1u << 24, .cpus = &cpu1, .n_cpus = 1});
	struct gen *polite = gen_new((struct gen_opts){.src = "198.18.0.1",
						       .sources = 1000,
						       .cpus = &cpu0,
						       .n_cpus = 1,
						       .pick = GEN_IN_TURN,
						       .rate_pps = 10000,
						       .batch = 8});
	struct gen_result r, f;
	struct weir_counters c;

	(void)state;
	assert_int_equal(gen_start(flood, 0, FLOOD_NS), 0);
	assert_int_equal(gen_run(polite, 0, FLOOD_NS - SECOND_NS, &r), 0);
	assert_int_equal(gen_join(flood, &f), 0);
	c = counters_of(w);
	print_message(
		"flood %lu frames; polite sent %lu, in %lu, out %lu; bucket_full %lu, claims %lu\n",
		(unsigned long)f.frames, (unsigned long)r.frames,
		(unsigned long)c.limit[0].pass.packets, (unsigned long)c.limit[2].pass.packets,
		(unsigned long)c.bucket_full, (unsigned long)c.claims);
	assert_true(f.frames > 1000000);
	assert_int_equal(c.limit[0].pass.packets + c.limit[0].over.packets, r.frames - r.lost);
	assert_int_equal(c.limit[2].pass.packets + c.limit[2].over.packets, r.frames - r.lost);
	gen_close(flood);
	gen_close(polite);
	weir_down(w);
}

/* 256 slots, 2048 sources, both cores in the same order: nearly each packet takes a slot over. Nobody is over a limit,
 * so nobody may be dropped, whoever loses which race. (Bursts of 10 ms make it use the fine clock: with the coarse one
 * a slot stays busy until the next jiffy, and nothing would be taken over.)
 */
static void extreme_churn_drops_nobody(void **state)
{
	struct weir *w = weir_up("packet_limits:\n"
				 "  - {name: a, per: source, rate: 50000000/s, burst: 500000}\n"
				 "  - {name: b, per: source, rate: 20000000/s, burst: 200000}\n",
				 64 * sizeof(struct weir_bucket4));
	struct gen *g = gen_new(
		(struct gen_opts){.sources = 2048, .cpus = both, .n_cpus = 2, .pick = GEN_IN_TURN});
	struct weir_counters c;
	struct gen_result r;

	(void)state;
	assert_int_equal(gen_run(g, 20000000, 0, &r), 0);
	gen_close(g);
	c = counters_of(w);
	print_message("%lu frames, %lu take-overs, %lu claims lost, %lu duplicates, %lu spilled\n",
		      (unsigned long)r.frames, (unsigned long)c.takeovers,
		      (unsigned long)c.claim_lost, (unsigned long)c.duplicate,
		      (unsigned long)c.bucket_full);
	print_reasons(&c);
	assert_int_equal(c.reason.pass_default.packets, r.frames - r.lost);
	assert_int_equal(c.reason.drop_limit.packets + c.reason.drop_shared.packets, 0);
	assert_true(c.takeovers + c.bucket_full > r.frames / 100);
	weir_down(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(token_bucket_is_exact_on_two_cores),
		cmocka_unit_test(every_rate_and_unit_is_exact_on_two_cores),
		cmocka_unit_test(a_window_never_admits_more_than_its_limit),
		cmocka_unit_test(polite_sources_keep_every_packet),
		cmocka_unit_test(extreme_churn_drops_nobody),
	};

	if (run_lacks_root())
		return 77;
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		(void)puts("skip: needs two CPUs");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
