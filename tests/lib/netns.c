/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Network and mount namespaces for tests. See netns.h.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netns.h"
#include "run.h"
#include "user/base/cleanup.h"

#define MAC_TEXT_BYTES 18

static const char *const dev_names[LAB_SIDES] = {LAB_GEN_DEV, LAB_WEIR_DEV};
static const char *const ip4[LAB_SIDES] = {LAB_GEN_IP4, LAB_WEIR_IP4};
static const char *const ip6[LAB_SIDES] = {LAB_GEN_IP6, LAB_WEIR_IP6};

static enum lab_side other(enum lab_side side)
{
	return side == LAB_GEN ? LAB_WEIR : LAB_GEN;
}

static int open_netns(void)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int lab_mounts(void)
{
	static bool done;

	if (done)
		return 0;
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (mount("bpf", LAB_BPFFS, "bpf", 0, "mode=0700") < 0)
		return -errno;
	if (mkdir(LAB_BPFFS_TMP, 0700) < 0)
		return -errno;
	if (mount("bpf", LAB_BPFFS_TMP, "bpf", 0, "mode=0700") < 0)
		return -errno;
	done = true;
	return 0;
}

int lab_netns_new(int *ret_fd)
{
	int saved, fd, r = 0;

	saved = open_netns();
	if (saved < 0)
		return saved;
	if (unshare(CLONE_NEWNET) < 0) {
		r = -errno;
		close(saved);
		return r;
	}
	fd = open_netns();
	lab_leave(saved);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

int lab_netns_enter(int netns_fd)
{
	_cleanup_close_ int saved = open_netns();

	if (saved < 0)
		return saved;
	if (setns(netns_fd, CLONE_NEWNET) < 0)
		return -errno;
	return TAKE_FD(saved);
}

int lab_enter(const struct lab *lab, enum lab_side side)
{
	return lab_netns_enter(lab->netns_fd[side]);
}

void lab_leave(int saved)
{
	if (saved < 0)
		return;
	(void)setns(saved, CLONE_NEWNET); /* it was ours a moment ago; nothing better to do */
	close(saved);
}

static int write_file(const char *path, const char *value)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(value);

	if (fd < 0)
		return -errno;
	return write(fd, value, n) == (ssize_t)n ? 0 : -EIO;
}

int lab_sysctl(const struct lab *lab, enum lab_side side, const char *name, const char *value)
{
	char path[256];
	int saved, r;

	if (snprintf(path, sizeof(path), "/proc/sys/%s", name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	saved = lab_enter(lab, side);
	if (saved < 0)
		return saved;
	r = write_file(path, value);
	lab_leave(saved);
	return r;
}

static int fail(char *err, const char *step, int r, const char *output)
{
	(void)snprintf(err, LAB_ERR_BYTES, "%s: %s %s", step,
		       r < 0 ? strerror(-r) : "failed:", output); /* cut short is still a message */
	return r < 0 ? r : -EIO;
}

/* A command that has to work. */
#define STEP(lab, side, err, ...)                                                                  \
	step((lab)->netns_fd[side], err, (const char *const[]){__VA_ARGS__, NULL})

static int step(int netns_fd, char *err, const char *const argv[])
{
	char out[256], what[128] = "";
	int r;

	r = run_cmdv(netns_fd, out, sizeof(out), argv);
	if (r == 0)
		return 0;
	for (size_t used = 0; *argv && used < sizeof(what) - 1; argv++)
		used += (size_t)snprintf(what + used, sizeof(what) - used, "%s ", *argv);
	return fail(err, what, r, r < 0 ? "" : out);
}

/* Settings that new addresses and devices take over, so before there are any. */
static int quiet(const struct lab *lab, enum lab_side side, char *err)
{
	static const char *const off[] = {
		"net/ipv4/conf/all/rp_filter",
		"net/ipv4/conf/default/rp_filter",
		"net/ipv6/conf/all/accept_dad",
		"net/ipv6/conf/default/accept_dad",
		"net/ipv6/conf/all/accept_ra",
		"net/ipv6/conf/default/accept_ra",
		"net/ipv6/conf/all/router_solicitations",
		"net/ipv6/conf/default/router_solicitations",
	};

	for (size_t i = 0; i < ARRAY_LEN(off); i++) {
		int r = lab_sysctl(lab, side, off[i], "0");

		if (r < 0)
			return fail(err, off[i], r, "");
	}
	return STEP(lab, side, err, "ip", "link", "set", "lo", "up");
}

static int make_veth(const struct lab *lab, const struct lab_opts *o, char *err)
{
	char queues[16], mtu[16], peer[64];

	(void)snprintf(queues, sizeof(queues), "%u", o->queues ? o->queues : 1); /* fits */
	(void)snprintf(mtu, sizeof(mtu), "%u", o->mtu ? o->mtu : 1500);		 /* fits */
	(void)snprintf(peer, sizeof(peer), "/proc/%d/fd/%d", (int)getpid(),
		       lab->netns_fd[LAB_WEIR]); /* fits */
	return STEP(lab, LAB_GEN, err, "ip", "link", "add", "name", LAB_GEN_DEV, "mtu", mtu,
		    "numtxqueues", queues, "numrxqueues", queues, "type", "veth", "peer", "name",
		    LAB_WEIR_DEV, "mtu", mtu, "numtxqueues", queues, "numrxqueues", queues, "netns",
		    peer);
}

static int read_dev(struct lab *lab, enum lab_side side)
{
	struct ifreq req = {};
	_cleanup_close_ int fd = -1;
	int saved, r = 0;

	saved = lab_enter(lab, side);
	if (saved < 0)
		return saved;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	lab->ifindex[side] = (int)if_nametoindex(dev_names[side]);
	memcpy(req.ifr_name, dev_names[side], strlen(dev_names[side]));
	if (fd < 0 || !lab->ifindex[side] || ioctl(fd, SIOCGIFHWADDR, &req) < 0)
		r = -errno;
	lab_leave(saved);
	memcpy(lab->mac[side], req.ifr_hwaddr.sa_data, sizeof(lab->mac[side]));
	return r;
}

static int set_up(const struct lab *lab, enum lab_side side, bool gro, char *err)
{
	char dev[16], addr4[32], addr6[64];
	int r;

	(void)snprintf(dev, sizeof(dev), "%s", dev_names[side]);  /* fits */
	(void)snprintf(addr4, sizeof(addr4), "%s/24", ip4[side]); /* fits */
	(void)snprintf(addr6, sizeof(addr6), "%s/64", ip6[side]); /* fits */
	r = STEP(lab, side, err, "ip", "addr", "add", addr4, "dev", dev);
	if (r == 0)
		r = STEP(lab, side, err, "ip", "addr", "add", addr6, "dev", dev, "nodad");
	if (r == 0 && gro)
		r = STEP(lab, side, err, "ethtool", "-K", dev, "gro", "on");
	if (r == 0)
		r = STEP(lab, side, err, "ip", "link", "set", dev, "up");
	return r;
}

static int set_neighbour(const struct lab *lab, enum lab_side side, const char *ip, char *err)
{
	const uint8_t *m = lab->mac[other(side)];
	char mac[MAC_TEXT_BYTES];

	(void)snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3],
		       m[4], m[5]); /* fits */
	return STEP(lab, side, err, "ip", "neigh", "replace", ip, "lladdr", mac, "dev",
		    dev_names[side], "nud", "permanent");
}

/* Answers to made-up sources go back to where they came from. */
static int set_routes(const struct lab *lab, char *err)
{
	int r;

	r = STEP(lab, LAB_WEIR, err, "ip", "route", "add", "default", "via", LAB_GEN_IP4);
	if (r == 0)
		r = STEP(lab, LAB_WEIR, err, "ip", "-6", "route", "add", "default", "via",
			 LAB_GEN_IP6, "dev", LAB_WEIR_DEV);
	return r;
}

/* XDP_TX out of a veth arrives only if the peer has a program. */
static int attach_pass(struct lab *lab)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int saved, r;

	lab->xdp_fd =
		bpf_prog_load(BPF_PROG_TYPE_XDP, "lab_pass", "GPL", code, ARRAY_LEN(code), NULL);
	if (lab->xdp_fd < 0)
		return lab->xdp_fd;
	saved = lab_enter(lab, LAB_GEN);
	if (saved < 0)
		return saved;
	r = bpf_xdp_attach(lab->ifindex[LAB_GEN], lab->xdp_fd, XDP_FLAGS_DRV_MODE, NULL);
	lab_leave(saved);
	return r;
}

static int build(struct lab *lab, const struct lab_opts *o, char *err)
{
	int r;

	r = lab_mounts();
	if (r < 0)
		return fail(err, "mount namespace", r, "");
	for (int side = 0; side < LAB_SIDES; side++) {
		r = lab_netns_new(&lab->netns_fd[side]);
		if (r < 0)
			return fail(err, "network namespace", r, "");
		r = quiet(lab, side, err);
		if (r < 0)
			return r;
	}
	r = make_veth(lab, o, err);
	for (int side = 0; side < LAB_SIDES && r == 0; side++) {
		r = read_dev(lab, side);
		if (r < 0)
			return fail(err, dev_names[side], r, "");
		r = set_up(lab, side, !o->no_gro, err);
	}
	for (int side = 0; side < LAB_SIDES && r == 0; side++) {
		r = set_neighbour(lab, side, ip4[other(side)], err);
		if (r == 0)
			r = set_neighbour(lab, side, ip6[other(side)], err);
	}
	if (r == 0)
		r = set_routes(lab, err);
	if (r == 0 && o->gen_xdp) {
		r = attach_pass(lab);
		if (r < 0)
			return fail(err, "XDP program on " LAB_GEN_DEV, r, "");
	}
	return r;
}

int lab_open(struct lab *lab, const struct lab_opts *o, char *err)
{
	const struct lab_opts none = {};
	int r;

	*lab = (struct lab){.netns_fd = {-1, -1}, .xdp_fd = -1};
	r = build(lab, o ? o : &none, err);
	if (r < 0)
		lab_close(lab);
	return r;
}

void lab_close(struct lab *lab)
{
	for (int side = 0; side < LAB_SIDES; side++) {
		if (lab->netns_fd[side] >= 0)
			close(TAKE_FD(lab->netns_fd[side])); /* takes devices and programs along */
	}
	if (lab->xdp_fd >= 0)
		close(TAKE_FD(lab->xdp_fd));
}

/* /proc/net/dev: rx bytes packets errs drop fifo frame compressed multicast, tx bytes packets errs drop */
uint64_t lab_dev_stat(const struct lab *lab, enum lab_side side, const char *name)
{
	static const char *const names[] = {"rx_bytes", "rx_packets", "rx_errors", "rx_dropped",
					    "",		"",	      "",	   "multicast",
					    "tx_bytes", "tx_packets", "tx_errors", "tx_dropped"};
	_cleanup_fclose_ FILE *f = NULL;
	unsigned long long v[12] = {};
	char line[512], dev[32];
	int saved;

	saved = lab_enter(lab, side);
	if (saved < 0)
		return 0;
	f = fopen("/proc/thread-self/net/dev", "re");
	lab_leave(saved);
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line,
			   " %31[^:]: %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu",
			   dev, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8],
			   &v[9], &v[10], &v[11]) != 13 ||
		    strcmp(dev, dev_names[side]))
			continue;
		for (size_t i = 0; i < ARRAY_LEN(names); i++)
			if (!strcmp(names[i], name))
				return v[i];
	}
	return 0;
}
