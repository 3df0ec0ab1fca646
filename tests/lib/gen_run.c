/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The traffic generator at work: started, stopped, counted. */
#include <errno.h>
#include <signal.h>

#include "gen_int.h"

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

static int start_thread(struct gen_worker *w)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all); /* cannot fail */
	r = -pthread_sigmask(SIG_SETMASK, &all, &old);
	if (r < 0)
		return r;
	r = -pthread_create(&w->thread, NULL, gen_work, w);
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
		struct gen_worker *w = &g->workers[i];

		w->frames = share + (i < frames % g->n_workers);
		w->sent_before = gen_worker_sent(w);
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
		struct gen_worker *w = &g->workers[i];

		if (!w->started)
			continue;
		(void)pthread_join(w->thread, NULL); /* fails only for a thread that is not ours */
		w->started = false;
		res.thread_frames[i] = gen_worker_sent(w) - w->sent_before;
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
		sum += gen_worker_sent(&g->workers[i]);
	return sum;
}

uint64_t gen_thread_sent(const struct gen *g, unsigned int thread)
{
	return gen_worker_sent(&g->workers[thread]);
}

unsigned int gen_threads(const struct gen *g)
{
	return g->n_workers;
}

unsigned int gen_frame_bytes(const struct gen *g)
{
	return g->cfg.size;
}
