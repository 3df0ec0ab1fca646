/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traffic generator, user half: a thread per CPU asks the kernel for live frames
 * (BPF_PROG_TEST_RUN) in chunks, paced if a rate was asked for. See gen.h.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen.h"
#include "gen_int.h"
#include "gen_xdp.skel.h"
#include "user/base/cleanup.h"
#include "wait.h"

#define CHUNK_NS      20000000ULL  /* aim of one system call: long, but it cannot be stopped */
#define CHUNK_SLOW_NS 100000000ULL /* the same if a call has a price of its own (see gen_park()) */
#define CHUNK_FIRST   4096	   /* frames */
#define CHUNK_MIN     64	   /* frames */
#define CHUNK_MAX     1000000	   /* frames */
#define PACE_NS	      1000000ULL   /* paced: look this often whether frames are due */
#define DEFAULT_BATCH 64	   /* frames; below the 256 of a veth's receive ring */

struct worker {
	struct gen *g;
	struct gen_xdp *skel;
	pthread_t thread;
	bool started;
	int cpu; /* -1: not pinned */
	uint64_t rate_pps;
	uint64_t frames;      /* limit, 0: none */
	uint64_t sent_before; /* this start */
	uint64_t loop_ns;     /* in the kernel's loop */
	uint64_t begin_ns, end_ns;
	int error;
};

struct gen {
	struct worker *workers;
	unsigned int n_workers;
	struct gen_cfg cfg;
	uint8_t big[GEN_KINDS][GEN_FRAME_MAX];
	unsigned int batch;
	int netns_fd; /* ours; -1: the caller's namespace */
	int park_fd;  /* namespace where the programs are attached; -1: they are not */
	int ifindex;
	uint64_t time_ns;
	uint64_t dropped_before;
	bool running;
	atomic_bool stop;
	atomic_uint ready; /* threads that may begin */
	atomic_uint done;  /* threads that have ended */
};

/* Frames due: @base by @origin_ns, then the rate. */
struct pacer {
	uint64_t origin_ns;
	uint64_t base;
};

static const char *const proto_names[] = {
	[GEN_UDP] = "udp",     [GEN_SYN] = "syn",   [GEN_ACK] = "ack",
	[GEN_ICMP] = "icmp",   [GEN_FRAG] = "frag", [GEN_FRAG_FIRST] = "frag-first",
	[GEN_MIXED] = "mixed",
};

const char *gen_proto_name(enum gen_proto p)
{
	return (unsigned int)p < GEN_PROTO_MAX ? proto_names[p] : NULL;
}

int gen_proto_parse(const char *name, enum gen_proto *ret_proto, bool *ret_ipv6)
{
	if (!strcmp(name, "icmp6")) {
		*ret_proto = GEN_ICMP;
		*ret_ipv6 = true;
		return 0;
	}
	for (unsigned int i = 0; i < GEN_PROTO_MAX; i++) {
		if (!strcmp(name, proto_names[i])) {
			*ret_proto = (enum gen_proto)i;
			return 0;
		}
	}
	return -EINVAL;
}

static uint64_t worker_sent(const struct worker *w)
{
	return w->skel ? __atomic_load_n(&w->skel->bss->gen_frames, __ATOMIC_RELAXED) : 0;
}

/* --- one thread -------------------------------------------------------------------------------- */

/* Have the kernel send @n frames. *ret_loop_ns is the time its loop took, without preparations. */
static int send_frames(struct worker *w, uint32_t n, uint64_t *ret_loop_ns)
{
	uint8_t in[GEN_FRAME_MAX + 1] = {};
	struct bpf_test_run_opts o = {
		.sz = sizeof(o),
		.data_in = in,
		.data_size_in = (uint32_t)(w->g->cfg.size + w->g->cfg.trim),
		.repeat = (int)n,
		.flags = BPF_F_TEST_XDP_LIVE_FRAMES,
		.batch_size = w->g->batch,
	};
	uint64_t before = worker_sent(w), sent;
	int r;

	r = bpf_prog_test_run_opts(bpf_program__fd(w->skel->progs.gen_frame), &o);
	if (r < 0 && r != -EINTR) /* the program counts, so a short run is no problem */
		return r;
	sent = worker_sent(w) - before;
	if (!sent && r == 0)
		return -EIO;
	/* the kernel rounds down to a nanosecond per frame: half of one is lost on average */
	*ret_loop_ns = sent * o.duration + sent / 2;
	w->loop_ns += *ret_loop_ns;
	return 0;
}

/* Next number of frames, after @n took @took_ns, @loop_ns of it for the frames themselves. */
static uint64_t next_chunk(uint64_t n, uint64_t took_ns, uint64_t loop_ns)
{
	uint64_t aim_ns = took_ns > loop_ns + CHUNK_NS / 4 ? CHUNK_SLOW_NS : CHUNK_NS;
	uint64_t chunk = loop_ns ? aim_ns * n / loop_ns : CHUNK_MAX;

	if (chunk < CHUNK_MIN)
		return CHUNK_MIN;
	return chunk < CHUNK_MAX ? chunk : CHUNK_MAX;
}

static bool is_over(const struct worker *w, uint64_t sent, uint64_t now_ns)
{
	if (atomic_load_explicit(&w->g->stop, memory_order_relaxed))
		return true;
	if (w->frames && sent >= w->frames)
		return true;
	return w->g->time_ns && now_ns - w->begin_ns >= w->g->time_ns;
}

static int flood(struct worker *w)
{
	uint64_t chunk = CHUNK_FIRST, sent = 0, now_ns = w->begin_ns, before_ns, left_ns;
	uint64_t n = 1, loop_ns = 0;
	int r;

	while (!is_over(w, sent, now_ns)) {
		left_ns = w->g->time_ns ? w->g->time_ns - (now_ns - w->begin_ns) : 0;
		if (left_ns && loop_ns && chunk > left_ns * n / loop_ns + 1)
			chunk = left_ns * n / loop_ns + 1;
		n = chunk;
		if (w->frames && n > w->frames - sent)
			n = w->frames - sent;
		r = send_frames(w, (uint32_t)n, &loop_ns);
		if (r < 0)
			return r;
		before_ns = now_ns;
		now_ns = wait_now_ns();
		sent = worker_sent(w) - w->sent_before;
		chunk = next_chunk(n, now_ns - before_ns, loop_ns);
	}
	return 0;
}

/* How many frames should have gone out by now. Time that the machine lost is made up for, up to a
 * second of it.
 */
static uint64_t frames_due(struct pacer *p, uint64_t rate_pps, uint64_t sent, uint64_t now_ns)
{
	uint64_t due;

	while (now_ns - p->origin_ns > 1000000000ULL) { /* keeps the product below in range */
		p->origin_ns += 1000000000ULL;
		p->base += rate_pps;
	}
	due = p->base + (now_ns - p->origin_ns) * rate_pps / 1000000000ULL + 1;
	if (due > sent + rate_pps + 1) {
		p->base -= due - sent - rate_pps - 1;
		due = sent + rate_pps + 1;
	}
	return due;
}

static int pace(struct worker *w)
{
	struct pacer p = {.origin_ns = w->begin_ns};
	uint64_t most = w->rate_pps / (1000000000ULL / CHUNK_SLOW_NS) + 1;
	uint64_t sent = 0, now_ns = w->begin_ns, due, loop_ns;
	int r;

	while (!is_over(w, sent, now_ns)) {
		due = frames_due(&p, w->rate_pps, sent, now_ns);
		if (w->frames && due > w->frames)
			due = w->frames;
		if (due > sent) {
			r = send_frames(w, (uint32_t)(due - sent < most ? due - sent : most),
					&loop_ns);
			if (r < 0)
				return r;
			sent = worker_sent(w) - w->sent_before;
		}
		if (!is_over(w, sent, wait_now_ns()))
			wait_until_ns(now_ns + PACE_NS);
		now_ns = wait_now_ns();
	}
	return 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct gen *g = w->g;
	cpu_set_t set;
	int saved, r = 0;

	if (w->cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET((size_t)w->cpu, &set);
		r = -pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	}
	if (r == 0)
		r = gen_netns_enter(g->netns_fd,
				    &saved); /* the thread ends here, never goes back */
	atomic_fetch_add(&g->ready, 1);
	while (atomic_load(&g->ready) < g->n_workers && !atomic_load(&g->stop))
		wait_until_ns(0);
	w->begin_ns = wait_now_ns();
	if (r == 0)
		r = w->rate_pps ? pace(w) : flood(w);
	w->end_ns = wait_now_ns();
	w->error = r;
	if (r < 0)
		atomic_store(&g->stop, true);
	atomic_fetch_add(&g->done, 1);
	return NULL;
}

/* --- opening ----------------------------------------------------------------------------------- */

static int check_opts(const struct gen_opts *o, char *err, size_t err_bytes)
{
	unsigned long cpus = (unsigned long)sysconf(_SC_NPROCESSORS_CONF);

	if (!o->dev || !*o->dev)
		return gen_fail(err, err_bytes, -EINVAL, "no device was given");
	if ((unsigned int)o->proto >= GEN_PROTO_MAX || (unsigned int)o->pick >= GEN_PICK_MAX)
		return gen_fail(err, err_bytes, -EINVAL, "unknown kind of traffic");
	if (o->n_cpus > GEN_CPUS_MAX)
		return gen_fail(err, err_bytes, -EINVAL, "at most %d CPUs", GEN_CPUS_MAX);
	for (unsigned int i = 0; i < o->n_cpus; i++) {
		if (o->cpus[i] >= cpus || o->cpus[i] >= CPU_SETSIZE)
			return gen_fail(err, err_bytes, -EINVAL, "there is no CPU %u", o->cpus[i]);
	}
	if (o->batch > GEN_BATCH_MAX)
		return gen_fail(err, err_bytes, -EINVAL, "a batch has at most %d frames",
				GEN_BATCH_MAX);
	return 0;
}

/* Only a veth whose other end is elsewhere: nobody's network is flooded by mistake. */
static int look_up(const struct gen_opts *o, char *err, size_t err_bytes, struct gen_dev *ret_dev,
		   struct gen_dev *ret_peer)
{
	struct gen_dev dev, peer;
	int r;

	r = gen_dev_get(o->dev, 0, -1, &dev);
	if (r < 0)
		return gen_fail(err, err_bytes, r, "device %s: %s", o->dev, strerror(-r));
	if (strcmp(dev.kind, "veth") || !dev.peer_ifindex)
		return gen_fail(err, err_bytes, -EOPNOTSUPP,
				"%s is %s%s, not a veth: frames are sent only into veth pairs",
				o->dev, dev.kind[0] ? "a " : "a device of its own kind",
				dev.kind[0] ? dev.kind : "");
	if (dev.peer_nsid < 0 && !o->both)
		return gen_fail(err, err_bytes, -EOPNOTSUPP,
				"the peer of %s is in the same network namespace; --both allows it",
				o->dev);
	if (!dev.up)
		return gen_fail(err, err_bytes, -ENETDOWN, "%s is down", o->dev);
	r = gen_dev_get(NULL, dev.peer_ifindex, dev.peer_nsid, &peer);
	if (r < 0)
		return gen_fail(err, err_bytes, r, "peer of %s: %s", o->dev, strerror(-r));
	*ret_dev = dev;
	*ret_peer = peer;
	return 0;
}

static int load_worker(struct worker *w, unsigned int i, uint32_t seed)
{
	struct gen *g = w->g;
	uint32_t key = 0;
	int r;

	w->skel = gen_xdp__open();
	if (!w->skel)
		return -errno;
	memcpy((void *)&w->skel->rodata->gen_cfg, &g->cfg, sizeof(g->cfg));
	memcpy(w->skel->bss->gen_big, g->big, sizeof(g->big));
	w->skel->bss->gen_seed = seed + i * 0x9e3779b9U;
	w->skel->bss->gen_turn = (uint32_t)(g->cfg.sources * i / g->n_workers);
	r = gen_xdp__load(w->skel);
	if (r < 0)
		return r;
	if (bpf_map_update_elem(bpf_map__fd(w->skel->maps.gen_out), &key, &g->ifindex, 0) < 0)
		return -errno;
	return 0;
}

static int load_all(struct gen *g, const struct gen_opts *o, char *err, size_t err_bytes)
{
	int fds[GEN_CPUS_MAX], r;

	for (unsigned int i = 0; i < g->n_workers; i++) {
		struct worker *w = &g->workers[i];
		uint64_t rate = o->rate_pps / g->n_workers;

		w->g = g;
		w->cpu = o->n_cpus ? (int)o->cpus[i] : -1;
		w->rate_pps = o->rate_pps && !rate ? 1 : rate;
		if (i < o->rate_pps % g->n_workers && rate)
			w->rate_pps++;
		r = load_worker(w, i, o->seed);
		if (r < 0)
			return gen_fail(err, err_bytes, r, "loading the generator program: %s%s",
					strerror(-r), r == -EPERM ? " (root is needed)" : "");
		fds[i] = bpf_program__fd(w->skel->progs.gen_frame);
	}
	(void)gen_park(fds, g->n_workers, &g->park_fd); /* only makes it slower if it fails */
	return 0;
}

static int open_here(struct gen *g, const struct gen_opts *o, char *err, size_t err_bytes)
{
	struct gen_dev dev, peer;
	int r;

	r = look_up(o, err, err_bytes, &dev, &peer);
	if (r < 0)
		return r;
	r = gen_tmpl_build(o, &dev, peer.mac, err, err_bytes, &g->cfg, g->big);
	if (r < 0)
		return r;
	g->ifindex = dev.ifindex;
	return load_all(g, o, err, err_bytes);
}

static void gen_closep(struct gen **g)
{
	gen_close(*g);
}

int gen_open(const struct gen_opts *o, char *err, size_t err_bytes, struct gen **ret)
{
	_cleanup_(gen_closep) struct gen *g = NULL;
	int r, saved;

	r = check_opts(o, err, err_bytes);
	if (r < 0)
		return r;
	g = calloc(1, sizeof(*g));
	if (!g)
		return gen_fail(err, err_bytes, -ENOMEM, "no memory");
	g->netns_fd = g->park_fd = -1;
	g->batch = o->batch ? o->batch : DEFAULT_BATCH;
	g->n_workers = o->n_cpus ? o->n_cpus : 1;
	g->workers = calloc(g->n_workers, sizeof(*g->workers));
	if (!g->workers)
		return gen_fail(err, err_bytes, -ENOMEM, "no memory");
	if (o->netns_fd > 0) {
		g->netns_fd = fcntl(o->netns_fd, F_DUPFD_CLOEXEC, 3);
		if (g->netns_fd < 0)
			return gen_fail(err, err_bytes, -errno, "network namespace: %m");
	}
	r = gen_netns_enter(g->netns_fd, &saved);
	if (r < 0)
		return gen_fail(err, err_bytes, r, "network namespace: %s", strerror(-r));
	r = open_here(g, o, err, err_bytes);
	gen_netns_leave(saved);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(g);
	return 0;
}

void gen_close(struct gen *g)
{
	if (!g)
		return;
	if (g->running) {
		gen_stop(g);
		(void)gen_join(g, NULL); /* closing: nobody asks any more */
	}
	gen_unpark(g->park_fd, g->n_workers);
	for (unsigned int i = 0; g->workers && i < g->n_workers; i++)
		gen_xdp__destroy(g->workers[i].skel);
	if (g->netns_fd >= 0)
		close(g->netns_fd);
	free(g->workers);
	free(g);
}

/* --- running ----------------------------------------------------------------------------------- */

static uint64_t read_dropped(const struct gen *g)
{
	struct gen_dev dev = {};
	int saved;

	if (gen_netns_enter(g->netns_fd, &saved) < 0)
		return 0;
	(void)gen_dev_get(NULL, g->ifindex, -1, &dev); /* a device that is gone has lost nothing */
	gen_netns_leave(saved);
	return dev.tx_dropped;
}

static int start_thread(struct worker *w)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all); /* cannot fail */
	r = -pthread_sigmask(SIG_SETMASK, &all, &old);
	if (r < 0)
		return r;
	r = -pthread_create(&w->thread, NULL, work, w);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL); /* was valid before */
	w->started = r == 0;
	return r;
}

int gen_start(struct gen *g, uint64_t frames, uint64_t time_ns)
{
	uint64_t share = frames / g->n_workers;
	int r = 0;

	if (g->running)
		return -EBUSY;
	atomic_store(&g->stop, false);
	atomic_store(&g->ready, 0);
	atomic_store(&g->done, 0);
	g->time_ns = time_ns;
	g->dropped_before = read_dropped(g);
	g->running = true;
	for (unsigned int i = 0; i < g->n_workers; i++) {
		struct worker *w = &g->workers[i];

		w->frames = share + (i < frames % g->n_workers);
		w->sent_before = worker_sent(w);
		w->error = 0;
		w->loop_ns = 0;
		w->begin_ns = w->end_ns = 0;
		if (frames && !w->frames) { /* fewer frames than threads */
			atomic_fetch_add(&g->ready, 1);
			atomic_fetch_add(&g->done, 1);
			continue;
		}
		r = start_thread(w);
		if (r < 0)
			break;
	}
	if (r < 0) {
		gen_stop(g);
		(void)gen_join(g, NULL); /* the reason is in @r */
	}
	return r;
}

int gen_join(struct gen *g, struct gen_result *ret_result)
{
	struct gen_result res = {.threads = g->n_workers};
	uint64_t first_ns = UINT64_MAX, last_ns = 0;
	int r = 0;

	if (!g->running)
		return -EINVAL;
	for (unsigned int i = 0; i < g->n_workers; i++) {
		struct worker *w = &g->workers[i];

		if (!w->started)
			continue;
		(void)pthread_join(w->thread, NULL); /* fails only for a thread that is not ours */
		w->started = false;
		res.thread_frames[i] = worker_sent(w) - w->sent_before;
		res.frames += res.thread_frames[i];
		res.busy_ns += w->loop_ns;
		if (w->begin_ns < first_ns)
			first_ns = w->begin_ns;
		if (w->end_ns > last_ns)
			last_ns = w->end_ns;
		if (!r)
			r = w->error;
	}
	g->running = false;
	if (last_ns > first_ns)
		res.elapsed_ns = last_ns - first_ns;
	res.lost = read_dropped(g) - g->dropped_before;
	if (ret_result)
		*ret_result = res;
	return r;
}

int gen_run(struct gen *g, uint64_t frames, uint64_t time_ns, struct gen_result *ret_result)
{
	int r;

	if (!frames && !time_ns)
		return -EINVAL;
	r = gen_start(g, frames, time_ns);
	return r < 0 ? r : gen_join(g, ret_result);
}

void gen_stop(struct gen *g)
{
	atomic_store(&g->stop, true);
}

bool gen_is_done(const struct gen *g)
{
	return atomic_load(&g->done) >= g->n_workers;
}

uint64_t gen_sent(const struct gen *g)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < g->n_workers; i++)
		sum += worker_sent(&g->workers[i]);
	return sum;
}

uint64_t gen_thread_sent(const struct gen *g, unsigned int thread)
{
	return worker_sent(&g->workers[thread]);
}

unsigned int gen_threads(const struct gen *g)
{
	return g->n_workers;
}

unsigned int gen_frame_bytes(const struct gen *g)
{
	return g->cfg.size;
}
