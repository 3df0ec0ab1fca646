/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What one thread of the traffic generator does: asks the kernel for live frames (BPF_PROG_TEST_RUN) in chunks, paced if a
 * rate was asked for.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>

#include "gen_int.h"
#include "wait.h"

#define CHUNK_NS      20000000ULL  /* aim of one system call: long, but it cannot be stopped */
#define CHUNK_SLOW_NS 100000000ULL /* the same if a call has a price of its own (see gen_park()) */
#define CHUNK_FIRST   4096	   /* frames */
#define CHUNK_MIN     64	   /* frames */
#define CHUNK_MAX     1000000	   /* frames */
#define PACE_NS	      1000000ULL   /* paced: look this often whether frames are due */

/* Frames due: @base by @origin_ns, then the rate. */
struct pacer {
	uint64_t origin_ns;
	uint64_t base;
};

/* Have the kernel send @n frames. *ret_loop_ns is the time its loop took, without preparations. */
static int send_frames(struct gen_worker *w, uint32_t n, uint64_t *ret_loop_ns)
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
	uint64_t before = gen_worker_sent(w), sent;
	int r;

	r = bpf_prog_test_run_opts(bpf_program__fd(w->skel->progs.gen_frame), &o);
	if (r < 0 && r != -EINTR) /* the program counts, so a short run is no problem */
		return r;
	sent = gen_worker_sent(w) - before;
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

static bool is_over(const struct gen_worker *w, uint64_t sent, uint64_t now_ns)
{
	if (atomic_load_explicit(&w->g->stop, memory_order_relaxed))
		return true;
	if (w->frames && sent >= w->frames)
		return true;
	return w->g->time_ns && now_ns - w->begin_ns >= w->g->time_ns;
}

static int flood(struct gen_worker *w)
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
		sent = gen_worker_sent(w) - w->sent_before;
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

static int pace(struct gen_worker *w)
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
			sent = gen_worker_sent(w) - w->sent_before;
		}
		if (!is_over(w, sent, wait_now_ns()))
			wait_until_ns(now_ns + PACE_NS);
		now_ns = wait_now_ns();
	}
	return 0;
}

void *gen_work(void *arg)
{
	struct gen_worker *w = arg;
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
