/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files of the traffic generator: gen.c (made and closed), gen_run.c (started, stopped, counted),
 * gen_work.c (what a thread does), gen_dev.c (which device is it), gen_tmpl.c (frames).
 */
#ifndef WEIR_TEST_GEN_INT_H
#define WEIR_TEST_GEN_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen.h"
#include "gen_cfg.h"
#include "gen_xdp.skel.h"

/* One thread, on one CPU. */
struct gen_worker {
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
	struct gen_worker *workers;
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

static inline uint64_t gen_worker_sent(const struct gen_worker *w)
{
	return w->skel ? __atomic_load_n(&w->skel->bss->gen_frames, __ATOMIC_RELAXED) : 0;
}

/* A thread's whole life; @arg is its worker. */
void *gen_work(void *arg);

/* A network device, as rtnetlink describes it. */
struct gen_dev {
	char name[16];
	char kind[16]; /* "veth"; empty if the driver has none */
	uint8_t mac[6];
	bool up;
	int ifindex;
	int peer_ifindex; /* 0: none */
	int peer_nsid;	  /* -1: peer is in this namespace */
	uint32_t mtu;
	uint64_t tx_dropped;
};

/* Device @name, or @ifindex if @name is NULL, in namespace @nsid as this one numbers it (-1: this). */
int gen_dev_get(const char *name, int ifindex, int nsid, struct gen_dev *ret);

/* Run the calling thread in namespace @netns_fd; *ret_saved goes to gen_netns_leave(). If @netns_fd
 * is 0 or below, nothing changes.
 */
int gen_netns_enter(int netns_fd, int *ret_saved);
void gen_netns_leave(int saved);

/* Attach the programs to devices in a namespace of their own, that lives as long as *ret_netns_fd.
 * A program that is attached somewhere is in the kernel's XDP dispatcher; else each test run puts it in
 * and takes it out again, and each time waits for RCU, some 20 ms a run.
 */
int gen_park(const int *prog_fds, unsigned int n, int *ret_netns_fd);
void gen_unpark(int netns_fd, unsigned int n);

/* Everything the program needs but the seed. @big is GEN_KINDS frames of GEN_FRAME_MAX bytes. The
 * message goes to @err as with gen_open().
 */
int gen_tmpl_build(const struct gen_opts *o, const struct gen_dev *dev, const uint8_t peer_mac[6],
		   char *err, size_t err_bytes, struct gen_cfg *ret_cfg,
		   uint8_t (*ret_big)[GEN_FRAME_MAX]);

/* Write the message and return @r. */
int gen_fail(char *err, size_t err_bytes, int r, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
