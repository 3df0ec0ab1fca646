/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs packets through the XDP program by BPF_PROG_TEST_RUN and checks verdicts, counters and
 * events. Called by tests/packet.
 *
 * The object is loaded once per process, twice: one side runs `xdp`, the other `xdp.frags`, each on
 * maps of its own, and every expectation holds for both. xdp_run() gives both fresh maps and sets
 * the fake clock to one second. A failed expectation fails the cmocka test.
 */
#ifndef WEIR_TESTS_XDP_RUN_H
#define WEIR_TESTS_XDP_RUN_H

#include <linux/bpf.h>

#include "tests/lib/pkt.h"
#include "user/datapath/compile.h"
#include "weir.skel.h"
#include "weir/maps.h"

#define XDP_SIDES   2 /* 0 = weir_xdp, 1 = weir_xdp_frags */
#define XDP_BUCKETS 4096
#define XDP_LISTED  256 /* entries of all lists in a test */

struct xdp_side {
	struct weir *skel;
	int fd;			      /* of the program */
	struct weir_counters total;   /* as last looked at */
	struct weir_bucket4 *sources; /* mapped */
	struct weir_bucket6 *sources6;
	struct weir_event *events; /* XDP_EVENTS, as they came */
	size_t n_events;
	struct ring_buffer *ring;
	bool dropped; /* its state tables were taken out of the outer maps */
};
#define XDP_EVENTS 8192

struct xdp_listed {
	enum weir_list list;
	struct weir_prefix prefix;
	struct weir_entry entry;
};

struct xdp_run {
	struct xdp_side side[XDP_SIDES];
	uint64_t now_ns;
	struct weir_conf *conf;
	struct weir_compiled *compiled; /* NULL: no policy, or one made by hand */
	struct xdp_listed listed[XDP_LISTED];
	size_t n_listed;
	unsigned bank;			   /* of lists */
	uint32_t buckets;		   /* that policies may use, per family */
	void (*forget)(struct xdp_run *x); /* frees conf and compiled */
};

/* --- starting ---- */

/* Fresh maps and no policy: the limits built into the object. */
struct xdp_run *xdp_run_builtin(void);
/* Fresh maps and a policy without any limit. */
struct xdp_run *xdp_run_bare(void);
/* Fresh maps and a configuration in YAML. */
struct xdp_run *xdp_run(const char *yaml);
/* The same with tables of so many buckets (a power of two, at most XDP_BUCKETS). */
struct xdp_run *xdp_run_sized(const char *yaml, uint32_t buckets);
/* Another configuration on the same maps, as the agent would put it in force: by identity, in one step. */
void xdp_apply(struct xdp_run *x, const char *yaml);
void xdp_set_mode(struct xdp_run *x, bool monitor);
/* Puts @p in force as it is. */
void xdp_put_policy(struct xdp_run *x, const struct weir_policy *p);
/* Releases what is idle by now in both sides' tables, as a whole pass of the agent's sweep does. */
void xdp_sweep(struct xdp_run *x);
/* Takes the state tables away (WEIR_PASS_NO_STATE). */
void xdp_drop_tables(struct xdp_run *x);

/* --- time ---- */

void xdp_set_clock(struct xdp_run *x, uint64_t now_ns);
void xdp_advance_ns(struct xdp_run *x, uint64_t ns);
void xdp_advance_ms(struct xdp_run *x, uint64_t ms);
#define XDP_SECOND 1000000000ull
#define XDP_MINUTE (60 * XDP_SECOND)

/* --- lists ---- */

/* @for_ms 0: for ever; else from now on. */
void xdp_allow(struct xdp_run *x, const char *prefix, uint64_t for_ms);
void xdp_block(struct xdp_run *x, const char *prefix, uint64_t for_ms);
void xdp_block_force(struct xdp_run *x, const char *prefix);
void xdp_guard(struct xdp_run *x, const char *prefix);
/* Forgets all entries. */
void xdp_clear_lists(struct xdp_run *x);
/* Puts the same lists in force as whole new ones, in the other bank. */
void xdp_swap_lists(struct xdp_run *x);

/* --- packets ---- */

/* Sends @p through both programs: both must answer @action, and exactly the counter of @reason must move, by one packet
 * and the frame's bytes.
 */
#define xdp_expect(x, p, action, reason) xdp_expect_(x, p, action, reason, __FILE__, __LINE__)
void xdp_expect_(struct xdp_run *x, struct pkt p, int action, enum weir_reason reason,
		 const char *file, int line);
/* Passes with this reason, drops with that. */
#define xdp_pass(x, p) xdp_expect(x, p, XDP_PASS, WEIR_PASS_DEFAULT)
#define xdp_drop(x, p) xdp_expect(x, p, XDP_DROP, WEIR_DROP_LIMIT)
/* The same for any bytes; @sides: bit 0 xdp, bit 1 xdp.frags. */
void xdp_expect_bytes_(struct xdp_run *x, const void *data, uint32_t n, unsigned sides, int action,
		       enum weir_reason reason, const char *file, int line);
#define xdp_expect_bytes(x, data, n, sides, action, reason)                                        \
	xdp_expect_bytes_(x, data, n, sides, action, reason, __FILE__, __LINE__)
/* Sends @p once through both; returns the reason, which must be the same one and agree with the action. */
enum weir_reason xdp_verdict(struct xdp_run *x, const struct pkt *p);
/* Sends @p @n times; returns how many passed (of each side: the same). */
uint64_t xdp_send_many(struct xdp_run *x, const struct pkt *p, uint32_t n);
/* One program run, no checks: the XDP action, or -errno. */
int xdp_send_raw(struct xdp_side *s, const void *data, uint32_t n, uint32_t repeat);

/* --- counters and events ---- */

/* Sum over CPUs. */
void xdp_counters(const struct xdp_side *s, struct weir_counters *ret);
static inline const struct weir_count *xdp_count(const struct weir_reason_counts *c,
						 unsigned reason)
{
	return (const struct weir_count *)c + reason;
}
/* Packets that a limit has passed and refused since the start, on both sides. */
#define xdp_expect_limit(x, name, pass, over)                                                      \
	xdp_expect_limit_(x, name, pass, over, __FILE__, __LINE__)
void xdp_expect_limit_(struct xdp_run *x, const char *name, uint64_t pass, uint64_t over,
		       const char *file, int line);
/* One of the plain counters of struct weir_counters, on both sides. */
#define xdp_expect_counter(x, field, want)                                                         \
	xdp_expect_counter_(x, offsetof(struct weir_counters, field), #field, want, __FILE__,      \
			    __LINE__)
void xdp_expect_counter_(struct xdp_run *x, size_t off, const char *name, uint64_t want,
			 const char *file, int line);
/* The events that came since the last call, of side 0; the other side must have as many. */
size_t xdp_events(struct xdp_run *x, const struct weir_event **ret);

/* --- coverage ---- */

/* Notes that a test of this binary produced @reason, in coverage/NAME beside the binary. Done by xdp_expect. */
void xdp_cover(unsigned reason);
/* The folder where the notes are. */
const char *xdp_cover_dir(void);
const char *xdp_reason_name(unsigned reason);

#endif
