/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The traffic generator, user half, made and closed: its options, the device and its peer, a program for each thread. See
 * gen.h.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen_int.h"
#include "user/base/cleanup.h"

#define DEFAULT_BATCH 64 /* frames; below the 256 of a veth's receive ring */

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

static int load_worker(struct gen_worker *w, unsigned int i, uint32_t seed)
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
		struct gen_worker *w = &g->workers[i];
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
