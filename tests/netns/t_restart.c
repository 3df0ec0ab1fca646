/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Restarts, an upgrade to a changed program and a killed agent, each while a flood arrives at full speed: every frame is
 * judged, nothing is forgotten, and the program never leaves the interface.
 *
 * The proof is arithmetic. The counters are pinned and count each judged frame once, so that frames sent = frames judged
 * means that none went by while programs were exchanged; and the limit admits a burst and almost nothing after it, so
 * that any lost state would show as another burst.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "host.h"
#include "lib/gen.h"
#include "weir/maps.h"

#define WAIT_MS	 30000
#define RESTARTS 20
#define BURST	 1000
#define PER_MIN	 6

struct fix {
	struct host h;
	struct gen *flood;
	uint64_t began_ns;
};

static __u32 attached_id(struct fix *f)
{
	int saved = lab_enter(&f->h.lab, LAB_WEIR);
	__u32 id = 0;

	(void)bpf_xdp_query_id(f->h.lab.ifindex[LAB_WEIR], 0, &id);
	lab_leave(saved);
	return id;
}

/* Sum over CPUs of what was judged and of what passed, from the pinned map: no agent is needed. */
static void judged(uint64_t *ret_all, uint64_t *ret_passed)
{
	int cpus = libbpf_num_possible_cpus(), fd = bpf_obj_get(LAB_BPFFS "/weir/counters");
	struct weir_counters *c = calloc((size_t)cpus, sizeof(*c));
	__u32 zero = 0;

	assert_true(fd >= 0);
	assert_non_null(c);
	assert_int_equal(bpf_map_lookup_elem(fd, &zero, c), 0);
	*ret_all = *ret_passed = 0;
	for (int i = 0; i < cpus; i++) {
		for (int r = 0; r < WEIR_REASON_MAX; r++)
			*ret_all += ((struct weir_count *)&c[i].reason)[r].packets;
		*ret_passed += c[i].reason.pass_default.packets;
	}
	free(c);
	(void)close(fd);
}

static int set_up(void **state)
{
	static const unsigned int cpu1 = 1;
	struct fix *f = calloc(1, sizeof(*f));
	char err[GEN_ERR_BYTES];

	if (!f || host_open(&f->h) < 0)
		return -1;
	host_configure(
		&f->h,
		"packet_limits:\n  - {name: per-source, per: source, rate: %d/m, burst: %d}\n",
		PER_MIN, BURST);
	*state = f;
	host_start(&f->h);
	if (gen_open(
		    &(struct gen_opts){
			    .dev = LAB_GEN_DEV,
			    .netns_fd = f->h.lab.netns_fd[LAB_GEN],
			    .src = "198.51.100.9",
			    .dst = "192.0.2.250", /* nobody: what passes goes no further */
			    .cpus = &cpu1,
			    .n_cpus = 1},
		    err, sizeof(err), &f->flood))
		return -1;
	f->began_ns = wait_now_ns();
	return gen_start(f->flood, 0, 0);
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	gen_close(f->flood);
	host_close(&f->h);
	free(f);
	return 0;
}

/* Ends the flood and does the arithmetic. */
static void every_frame_was_judged(struct fix *f)
{
	uint64_t all, passed, due;
	struct gen_result sent;

	gen_stop(f->flood);
	assert_int_equal(gen_join(f->flood, &sent), 0);
	judged(&all, &passed);
	due = BURST + (wait_now_ns() - f->began_ns) * PER_MIN / 60000000000ull + 2;
	print_message("%lu frames sent, %lu judged, %lu passed of %lu that may\n",
		      (unsigned long)(sent.frames - sent.lost), (unsigned long)all,
		      (unsigned long)passed, (unsigned long)due);
	assert_true(sent.frames > 1000000);
	/* Multicast listener reports and the like of the kernel's own may come on top, and pass. */
	assert_true(all >= sent.frames - sent.lost);
	assert_true(all <= sent.frames - sent.lost + 100);
	assert_true(passed <= due + (all - (sent.frames - sent.lost)));
}

static void wait_for_traffic(void)
{
	uint64_t before, now, passed;

	judged(&before, &passed);
	assert_true(wait_for((judged(&now, &passed), now > before + 10000), WAIT_MS));
}

static void twenty_restarts_let_no_frame_by(void **state)
{
	struct fix *f = *state;

	for (int i = 0; i < RESTARTS; i++) {
		wait_for_traffic();
		host_stop(&f->h, SIGTERM);
		assert_true(attached_id(f) != 0);
		wait_for_traffic();
		host_start(&f->h);
		assert_true(attached_id(f) != 0);
	}
	every_frame_was_judged(f);
}

static void upgrade_to_a_changed_program_lets_no_frame_by(void **state)
{
	struct bpf_prog_info info[2] = {};
	__u32 n = sizeof(info[0]);
	struct fix *f = *state;
	int fd;

	fd = bpf_prog_get_fd_by_id(attached_id(f));
	assert_int_equal(bpf_obj_get_info_by_fd(fd, &info[0], &n), 0);
	(void)close(fd);
	wait_for_traffic();
	host_stop(&f->h, SIGTERM);
	run_program("next/weir", f->h.program, sizeof(f->h.program));
	host_start(&f->h);
	wait_for_traffic();
	fd = bpf_prog_get_fd_by_id(attached_id(f));
	assert_int_equal(bpf_obj_get_info_by_fd(fd, &info[1], &n), 0);
	(void)close(fd);
	assert_memory_not_equal(info[0].tag, info[1].tag,
				sizeof(info[0].tag)); /* it is another one */
	host_stop(&f->h, SIGTERM);
	run_program("weir", f->h.program, sizeof(f->h.program));
	host_start(&f->h); /* and back */
	wait_for_traffic();
	every_frame_was_judged(f);
}

static void a_killed_agent_leaves_everything_working(void **state)
{
	struct fix *f = *state;

	wait_for_traffic();
	host_stop(&f->h, SIGKILL);
	assert_true(attached_id(f) != 0);
	wait_for_traffic();
	host_start(&f->h);
	wait_for_traffic();
	every_frame_was_judged(f);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(twenty_restarts_let_no_frame_by),
		T(upgrade_to_a_changed_program_lets_no_frame_by),
		T(a_killed_agent_leaves_everything_working),
	};

	if (run_lacks_root())
		return 77;
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		(void)puts("skip: needs two CPUs");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
