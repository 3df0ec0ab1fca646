/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between the files of the traffic generator: gen.c (threads), gen_dev.c (which device is it),
 * gen_tmpl.c (frames).
 */
#ifndef WEIR_TEST_GEN_INT_H
#define WEIR_TEST_GEN_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen.h"
#include "gen_cfg.h"

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
