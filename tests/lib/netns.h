/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A laboratory for tests, demo and benchmark: two network namespaces joined by a veth pair, and a mount
 * namespace with bpffs of its own.
 *
 *	   LAB_GEN namespace                        LAB_WEIR namespace
 *	  gen0  192.0.2.1/24          veth         weir0  192.0.2.2/24
 *	        2001:db8:ffff::1/64  =======              2001:db8:ffff::2/64
 *
 * Neighbours are static, duplicate address detection, autoconfiguration and reverse path filter are
 * off, GRO is on at both ends, weir0 has default routes to gen0. The namespaces have no name: file
 * descriptors of this process are all that holds them, so they go with it however it ends.
 *
 * Needs root, and iproute2 and ethtool.
 */
#ifndef WEIR_TEST_NETNS_H
#define WEIR_TEST_NETNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAB_GEN_DEV   "gen0"
#define LAB_WEIR_DEV  "weir0"
#define LAB_GEN_IP4   "192.0.2.1"
#define LAB_WEIR_IP4  "192.0.2.2"
#define LAB_GEN_IP6   "2001:db8:ffff::1"
#define LAB_WEIR_IP6  "2001:db8:ffff::2"
#define LAB_BPFFS     "/sys/fs/bpf"	  /* private after lab_mounts() */
#define LAB_BPFFS_TMP "/sys/fs/bpf/other" /* another, separate bpffs */
#define LAB_ERR_BYTES 512

enum lab_side { LAB_GEN, LAB_WEIR, LAB_SIDES };

struct lab_opts {
	unsigned int queues; /* receive and transmit queues of both ends; 0: 1 */
	unsigned int mtu;    /* 0: 1500 */
	bool gen_xdp; /* XDP program that passes everything on gen0: XDP_TX from weir0 needs it */
	bool no_gro;  /* leave GRO off */
};

struct lab {
	int netns_fd[LAB_SIDES];
	int ifindex[LAB_SIDES]; /* of the veth end in that namespace */
	uint8_t mac[LAB_SIDES][6];
	int xdp_fd; /* of gen_xdp, or -1 */
};

/* Give the process a mount namespace of its own, with an empty bpffs at LAB_BPFFS and LAB_BPFFS_TMP.
 * Call once, before there are other threads; later calls do nothing. 0 or -errno.
 */
int lab_mounts(void);

/* @o may be NULL. Does lab_mounts(). On failure @err (LAB_ERR_BYTES) says which step. */
int lab_open(struct lab *lab, const struct lab_opts *o, char *err);

/* Also takes a lab that could not be opened. */
void lab_close(struct lab *lab);

/* Have the calling thread, and what it starts, use that side's network. -errno or a descriptor for
 * lab_leave(). Sockets keep the namespace they were made in.
 */
int lab_enter(const struct lab *lab, enum lab_side side);
void lab_leave(int saved);

/* The same without a lab: a network namespace that only the returned descriptor holds; and being in it. */
int lab_netns_new(int *ret_fd);
int lab_netns_enter(int netns_fd);

/* Write @value to /proc/sys/@name on that side. */
int lab_sysctl(const struct lab *lab, enum lab_side side, const char *name, const char *value);

/* A counter of the veth end, such as "rx_packets", from its statistics; 0 if there is none. */
uint64_t lab_dev_stat(const struct lab *lab, enum lab_side side, const char *name);

/* run_cmd() and run_fn() on one side: see run.h. */
#define lab_cmd(lab, side, out, out_bytes, ...)                                                    \
	run_cmd((lab)->netns_fd[side], out, out_bytes, __VA_ARGS__)
#define lab_fn(lab, side, fn, arg) run_fn((lab)->netns_fd[side], fn, arg)

#endif
