/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loading, sending and checking for xdp_run.h. Policies and lists are in xdp_run_policy.c. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "tests/lib/inner.h"
#include "tests/lib/xdp_run.h"
#include "tests/lib/xdp_run_int.h"

static struct xdp_run run;
static int n_cpus;

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

static int on_event(void *arg, void *data, size_t n)
{
	struct xdp_side *s = arg;

	if (n >= sizeof(struct weir_event) && s->n_events < XDP_EVENTS)
		memcpy(&s->events[s->n_events++], data, sizeof(struct weir_event));
	return 0;
}

static void *map_table(int fd, size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		fail_msg("mmap of a state table: %s", strerror(errno));
	return p;
}

static void load(struct xdp_side *s, bool frags)
{
	struct weir *skel = weir__open();
	struct bpf_program *p;

	if (!skel)
		fail_msg("weir.skel.h does not open: %s", strerror(errno));
	skel->rodata->weir_fake_clock = true;
	(void)bpf_program__set_autoload(skel->progs.weir_xdp, !frags);
	(void)bpf_program__set_autoload(skel->progs.weir_xdp_frags, frags);
	if (weir__load(skel)) {
		weir__destroy(skel);
		fail_msg("the program does not load (root? libbpf says why, above)");
	}
	p = frags ? skel->progs.weir_xdp_frags : skel->progs.weir_xdp;
	s->skel = skel;
	s->fd = bpf_program__fd(p);
	s->sources = map_table(bpf_map__fd(skel->maps.sources_0), xdp_table4_bytes(s));
	s->sources6 = map_table(bpf_map__fd(skel->maps.sources6_0), xdp_table6_bytes(s));
	s->events = calloc(XDP_EVENTS, sizeof(*s->events));
	s->ring = ring_buffer__new(bpf_map__fd(skel->maps.events), on_event, s, NULL);
	if (!s->events || !s->ring)
		fail_msg("no ring buffer");
}

size_t xdp_table4_bytes(const struct xdp_side *s)
{
	return (size_t)bpf_map__max_entries(s->skel->maps.sources_0) * sizeof(struct weir_bucket4);
}

size_t xdp_table6_bytes(const struct xdp_side *s)
{
	return (size_t)bpf_map__max_entries(s->skel->maps.sources6_0) * sizeof(struct weir_bucket6);
}

void xdp_map_put(struct bpf_map *m, uint32_t key, const void *value)
{
	if (bpf_map_update_elem(bpf_map__fd(m), &key, value, BPF_ANY))
		fail_msg("map %s[%u]: %s", bpf_map__name(m), key, strerror(errno));
}

static void zero_map(struct bpf_map *m, size_t value_size)
{
	void *zero = calloc(1, value_size);

	for (uint32_t i = 0; zero && i < bpf_map__max_entries(m); i++)
		xdp_map_put(m, i, zero);
	free(zero);
}

static void reset_side(struct xdp_side *s, bool keep_policy)
{
	uint32_t zero = 0;
	int fd = bpf_map__fd(s->skel->maps.sources_0);

	(void)ring_buffer__consume(s->ring);
	s->n_events = 0;
	if (s->dropped) {
		xdp_map_put(s->skel->maps.sources, 0, &fd);
		fd = bpf_map__fd(s->skel->maps.sources6_0);
		xdp_map_put(s->skel->maps.sources6, 0, &fd);
		s->dropped = false;
	}
	memset(s->sources, 0, xdp_table4_bytes(s));
	memset(s->sources6, 0, xdp_table6_bytes(s));
	zero_map(s->skel->maps.classes, sizeof(struct weir_class_word));
	zero_map(s->skel->maps.counters,
		 (size_t)n_cpus * ((sizeof(struct weir_counters) + 7) & ~7ul));
	zero_map(s->skel->maps.spill, sizeof(struct weir_spill));
	zero_map(s->skel->maps.totals, sizeof(struct weir_total));
	/* Fixed seeds: both sides and every run place sources alike. */
	xdp_map_put(s->skel->maps.meta, 0,
		    &(struct weir_meta){WEIR_MAGIC,
					WEIR_ABI,
					{0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f,
					 0x165667b19e3779f9}});
	zero_map(s->skel->maps.limits, sizeof(struct weir_limit_name));
	if (!keep_policy) /* perhaps there is none */
		(void)bpf_map_delete_elem(bpf_map__fd(s->skel->maps.policy), &zero);
	memset(&s->total, 0, sizeof(s->total));
}

struct xdp_run *xdp_run_reset(bool keep_policy)
{
	n_cpus = libbpf_num_possible_cpus();
	libbpf_set_print(quiet);
	for (int i = 0; i < XDP_SIDES; i++)
		if (!run.side[i].skel)
			load(&run.side[i], i == 1);
	if (run.forget)
		run.forget(&run);
	run.n_listed = 0;
	run.buckets = XDP_BUCKETS;
	for (int i = 0; i < XDP_SIDES; i++)
		reset_side(&run.side[i], keep_policy);
	xdp_set_clock(&run, XDP_SECOND);
	return &run;
}

struct xdp_run *xdp_run_builtin(void)
{
	return xdp_run_reset(false);
}

struct xdp_run *xdp_run_bare(void)
{
	static const struct weir_policy none;
	struct xdp_run *x = xdp_run_reset(true);

	xdp_put_policy(x, &none);
	return x;
}

void xdp_put_policy(struct xdp_run *x, const struct weir_policy *p)
{
	uint32_t zero = 0;

	for (int i = 0; i < XDP_SIDES; i++) {
		int fd = inner_new(x->side[i].skel->obj, INNER_ARRAY(weir_policy), 1);

		if (fd < 0 || bpf_map_update_elem(fd, &zero, p, BPF_ANY))
			fail_msg("policy: %s", strerror(errno));
		xdp_map_put(x->side[i].skel->maps.policy, 0, &fd);
		(void)close(fd); /* the outer map holds it */
	}
}

void xdp_drop_tables(struct xdp_run *x)
{
	uint32_t zero = 0;

	for (int i = 0; i < XDP_SIDES; i++) {
		x->side[i].dropped = true;
		(void)bpf_map_delete_elem(bpf_map__fd(x->side[i].skel->maps.sources), &zero);
		(void)bpf_map_delete_elem(bpf_map__fd(x->side[i].skel->maps.sources6), &zero);
	}
}

void xdp_set_clock(struct xdp_run *x, uint64_t now_ns)
{
	x->now_ns = now_ns;
	for (int i = 0; i < XDP_SIDES; i++)
		x->side[i].skel->bss->weir_fake_now_ns = now_ns;
}

void xdp_advance_ns(struct xdp_run *x, uint64_t ns)
{
	xdp_set_clock(x, x->now_ns + ns);
}

void xdp_advance_ms(struct xdp_run *x, uint64_t ms)
{
	xdp_advance_ns(x, ms * 1000000);
}

/* --- counters ---- */

void xdp_counters(const struct xdp_side *s, struct weir_counters *ret)
{
	static uint64_t *all;
	const size_t words = sizeof(struct weir_counters) / 8;
	uint32_t zero = 0;

	if (!all)
		all = calloc((size_t)n_cpus, sizeof(struct weir_counters));
	if (!all || bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.counters), &zero, all))
		fail_msg("counters do not read: %s", strerror(errno));
	memset(ret, 0, sizeof(*ret));
	for (size_t cpu = 0; cpu < (size_t)n_cpus; cpu++)
		for (size_t i = 0; i < words; i++) {
			uint64_t sum;

			memcpy(&sum, (char *)ret + i * 8, 8);
			sum += all[cpu * words + i];
			memcpy((char *)ret + i * 8, &sum, 8);
		}
}

const char *xdp_reason_name(unsigned reason)
{
	static const char *const name[] = {
#define X(id, symbol, n, action, text) #n,
		WEIR_REASONS(X)
#undef X
	};

	return reason < WEIR_REASON_MAX ? name[reason] : "no reason at all";
}

/* The one reason that moved by one packet and @n bytes; -1 if that is not what happened. */
static int moved(struct xdp_side *s, uint32_t n, char why[static 256])
{
	struct weir_counters now;
	int which = -1;

	xdp_counters(s, &now);
	why[0] = 0;
	for (unsigned r = 0; r < WEIR_REASON_MAX; r++) {
		const struct weir_count *a = xdp_count(&s->total.reason, r);
		const struct weir_count *b = xdp_count(&now.reason, r);

		if (a->packets == b->packets && a->bytes == b->bytes)
			continue;
		if (which != -1 || b->packets - a->packets != 1 || b->bytes - a->bytes != n) {
			snprintf(why, 256,
				 "%s moved by %llu packets, %llu bytes (%u were sent)%s%s",
				 xdp_reason_name(r), b->packets - a->packets, b->bytes - a->bytes,
				 n, which == -1 ? "" : "; also ",
				 which == -1 ? "" : xdp_reason_name((unsigned)which));
			s->total = now;
			return -1;
		}
		which = (int)r;
	}
	if (which == -1)
		snprintf(why, 256, "no counter moved");
	s->total = now;
	return which;
}

/* --- sending ---- */

int xdp_send_raw(struct xdp_side *s, const void *data, uint32_t n, uint32_t repeat)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = data, .data_size_in = n,
		    .repeat = (int)repeat);
	int r = bpf_prog_test_run_opts(s->fd, &o);

	return r ? (r == -1 ? -errno : r) : (int)o.retval;
}

static void complain(const struct pkt *p, const void *data, uint32_t n)
{
	struct pkt copy = {.len = n < PKT_MAX ? n : PKT_MAX};

	if (p) {
		pkt_print(stderr, p);
		return;
	}
	memcpy(copy.data, data, copy.len);
	pkt_print(stderr, &copy);
}

static const char *action_name(int action)
{
	static const char *const name[] = {"XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX",
					   "XDP_REDIRECT"};

	return action < 0 ? strerror(-action) : action < 5 ? name[action] : "no such action";
}

static void expect(struct xdp_run *x, const struct pkt *p, const void *data, uint32_t n,
		   unsigned sides, int action, int reason, const char *file, int line)
{
	for (int i = 0; i < XDP_SIDES; i++) {
		char why[256];
		int a, r;

		if (!(sides >> i & 1))
			continue;
		a = xdp_send_raw(&x->side[i], data, n, 1);
		r = moved(&x->side[i], n, why);
		if (a == action && r == reason)
			continue;
		fprintf(stderr, "%s:%d: %s: wanted %s %s, got %s %s%s at %llu ns\n", file, line,
			i ? "xdp.frags" : "xdp", action_name(action),
			xdp_reason_name((unsigned)reason), action_name(a),
			r < 0 ? "and " : xdp_reason_name((unsigned)r), why,
			(unsigned long long)x->now_ns);
		complain(p, data, n);
		_fail(file, line);
	}
	xdp_cover((unsigned)reason);
}

void xdp_expect_(struct xdp_run *x, struct pkt p, int action, enum weir_reason reason,
		 const char *file, int line)
{
	expect(x, &p, p.data, p.len, 3, action, (int)reason, file, line);
}

void xdp_expect_bytes_(struct xdp_run *x, const void *data, uint32_t n, unsigned sides, int action,
		       enum weir_reason reason, const char *file, int line)
{
	expect(x, NULL, data, n, sides, action, (int)reason, file, line);
}

enum weir_reason xdp_verdict(struct xdp_run *x, const struct pkt *p)
{
	int r[XDP_SIDES];

	for (int i = 0; i < XDP_SIDES; i++) {
		char why[256];
		int a = xdp_send_raw(&x->side[i], p->data, p->len, 1);

		r[i] = moved(&x->side[i], p->len, why);
		if (r[i] < 0 || r[i] != r[0] ||
		    a != (WEIR_REASON_DROPS(r[i]) ? XDP_DROP : XDP_PASS)) {
			fprintf(stderr, "%s: %s, %s %s\n", i ? "xdp.frags" : "xdp", action_name(a),
				why, r[i] < 0 ? "" : xdp_reason_name((unsigned)r[i]));
			pkt_print(stderr, p);
			fail_msg("not one named verdict");
		}
	}
	xdp_cover((unsigned)r[0]);
	return (enum weir_reason)r[0];
}

static uint64_t passed(const struct weir_counters *c)
{
	uint64_t n = 0;

	for (unsigned r = 0; r < WEIR_REASON_MAX; r++)
		if (!WEIR_REASON_DROPS(r))
			n += xdp_count(&c->reason, r)->packets;
	return n;
}

uint64_t xdp_send_many(struct xdp_run *x, const struct pkt *p, uint32_t n)
{
	uint64_t got[XDP_SIDES];

	for (int i = 0; i < XDP_SIDES; i++) {
		struct xdp_side *s = &x->side[i];
		struct weir_counters now;
		/* Above one, the kernel patches its dispatcher for each call: milliseconds. */
		uint32_t calls = n < 3000 ? n : 1;
		int a = 0;

		for (uint32_t k = 0; k < calls && a >= 0; k++)
			a = xdp_send_raw(s, p->data, p->len, n / calls);
		if (a < 0)
			fail_msg("test run: %s", strerror(-a));
		xdp_counters(s, &now);
		got[i] = passed(&now) - passed(&s->total);
		s->total = now;
	}
	assert_int_equal(got[0], got[1]);
	return got[0];
}

void xdp_expect_counter_(struct xdp_run *x, size_t off, const char *name, uint64_t want,
			 const char *file, int line)
{
	for (int i = 0; i < XDP_SIDES; i++) {
		struct weir_counters now;
		uint64_t v;

		xdp_counters(&x->side[i], &now);
		memcpy(&v, (char *)&now + off, 8);
		if (v == want)
			continue;
		fprintf(stderr, "%s:%d: %s: counter %s is %llu, wanted %llu\n", file, line,
			i ? "xdp.frags" : "xdp", name, (unsigned long long)v,
			(unsigned long long)want);
		_fail(file, line);
	}
}

size_t xdp_events(struct xdp_run *x, const struct weir_event **ret)
{
	for (int i = 0; i < XDP_SIDES; i++) {
		x->side[i].n_events = 0;
		(void)ring_buffer__consume(x->side[i].ring);
	}
	assert_int_equal(x->side[0].n_events, x->side[1].n_events);
	*ret = x->side[0].events;
	return x->side[0].n_events;
}

/* --- coverage ---- */

static const char *self(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[n > 0 ? n : 0] = 0;
	return path;
}

const char *xdp_cover_dir(void)
{
	static char dir[PATH_MAX + 16];
	const char *exe = self(), *slash = strrchr(exe, '/');

	snprintf(dir, sizeof(dir), "%.*s/coverage", slash ? (int)(slash - exe) : 0, exe);
	return dir;
}

void xdp_cover(unsigned reason)
{
	static bool seen[WEIR_REASON_MAX];
	static FILE *f;
	const char *exe = self(), *slash = strrchr(exe, '/');
	char path[2 * PATH_MAX];

	if (reason >= WEIR_REASON_MAX || seen[reason])
		return;
	seen[reason] = true;
	if (!f) {
		(void)mkdir(xdp_cover_dir(), 0755); /* it may be there */
		snprintf(path, sizeof(path), "%s/%s", xdp_cover_dir(), slash ? slash + 1 : "test");
		f = fopen(path, "we");
	}
	if (!f) /* a read-only build, as in a virtual machine: t_coverage will say it */
		return;
	fprintf(f, "%s\n", xdp_reason_name(reason));
	(void)fflush(f); /* the next write says if the disk is full */
}
