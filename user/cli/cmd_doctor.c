/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir doctor: can this machine do it, and how well? Features are probed, not guessed from the version; each line says
 * what to do. Changes nothing. Called by the table.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/ethtool.h>
#include <linux/magic.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/utsname.h>

#include "user/base/clock.h"
#include "user/base/str.h"
#include "user/cli/cli.h"
#include "user/cli/doctor.h"
#include "user/datapath/iface.h"

#define GOOD WEIR_FINDING_GOOD
#define WARN WEIR_FINDING_WARN
#define FAIL WEIR_FINDING_FAIL
#define tell weir_doctor_tell

void weir_doctor_tell(struct weir_doctor *d, enum weir_finding f, const char *what,
		      const char *format, ...)
{
	static const char *const words[] = {"ok  ", "warn", "fail"};
	char text[512];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	(void)printf("%s  %-12s ", words[f], what);
	weir_say_clean(stdout, text);
	(void)fputc('\n', stdout);
	d->fails += f == FAIL;
	d->warns += f == WARN;
}

static bool read_text(const char *path, char *buf, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	if (n <= 0)
		return false;
	buf[n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return true;
}

/* --- the kernel ---------------------------------------------------------------------------------- */

static void look_at_features(struct weir_doctor *d)
{
	static const struct {
		int map;
		const char *name;
	} maps[] = {
		{BPF_MAP_TYPE_ARRAY_OF_MAPS, "array of maps"},
		{BPF_MAP_TYPE_RINGBUF, "ring buffer (5.8)"},
		{BPF_MAP_TYPE_PERCPU_ARRAY, "per-CPU array"},
	};
	static const struct {
		enum bpf_func_id id;
		const char *name;
	} helpers[] = {
		{BPF_FUNC_ktime_get_coarse_ns, "bpf_ktime_get_coarse_ns (5.11)"},
		{BPF_FUNC_ktime_get_ns, "bpf_ktime_get_ns"},
		{BPF_FUNC_loop, "bpf_loop (5.17)"},
		{BPF_FUNC_xdp_load_bytes, "bpf_xdp_load_bytes (5.18)"},
		{BPF_FUNC_ringbuf_reserve, "bpf_ringbuf_reserve (5.8)"},
	};
	unsigned missing = 0;

	for (size_t i = 0; i < ARRAY_LEN(maps); i++)
		if (libbpf_probe_bpf_map_type((enum bpf_map_type)maps[i].map, NULL) != 1) {
			tell(d, FAIL, "kernel",
			     "has no %s map: a kernel from 6.1 on has all that weir needs",
			     maps[i].name);
			missing++;
		}
	for (size_t i = 0; i < ARRAY_LEN(helpers); i++)
		if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_XDP, helpers[i].id, NULL) != 1) {
			tell(d, FAIL, "kernel",
			     "has no %s for XDP: a kernel from 6.1 on has all that weir needs",
			     helpers[i].name);
			missing++;
		}
	if (!missing)
		tell(d, GOOD, "features", "XDP programs, map types and helpers are there");
}

static void look_at_kernel(struct weir_doctor *d)
{
	struct utsname u = {};
	bool root = geteuid() == 0;

	(void)uname(&u); /* empty on failure */
	tell(d, GOOD, "kernel", "%s %s, weir %s", u.release, u.machine, WEIR_VERSION);
	if (!root)
		tell(d, WARN, "features", "not probed: run weir doctor as root");
	else if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_XDP, NULL) != 1)
		tell(d, FAIL, "features",
		     "this kernel lets nobody load an XDP program from here (lockdown, or a "
		     "container without CAP_BPF and CAP_NET_ADMIN)");
	else
		look_at_features(d);
	if (access("/sys/kernel/btf/vmlinux", R_OK) == 0)
		tell(d, GOOD, "BTF", "/sys/kernel/btf/vmlinux is there");
	else
		tell(d, WARN, "BTF",
		     "no /sys/kernel/btf/vmlinux: maps work, libxdp's dispatcher (attach: chain) "
		     "may not");
}

static void look_at_jit(struct weir_doctor *d)
{
	char text[32];

	if (!read_text("/proc/sys/net/core/bpf_jit_enable", text, sizeof(text)))
		tell(d, GOOD, "JIT", "always on in this kernel, or not to be seen from here");
	else if (text[0] == '0')
		tell(d, WARN, "JIT",
		     "off, which makes each packet several times dearer: sysctl "
		     "net.core.bpf_jit_enable=1");
	else
		tell(d, GOOD, "JIT", "on");
}

static void look_at_bpffs(struct weir_doctor *d, const struct weir_conf *c)
{
	struct statfs s = {};

	if (statfs(c->bpffs, &s) < 0)
		tell(d, WARN, "bpffs",
		     "%s: %s; weir run mounts it where it can, else: mount -t bpf bpf %s", c->bpffs,
		     strerror(errno), c->bpffs);
	else if (s.f_type != BPF_FS_MAGIC)
		tell(d, WARN, "bpffs",
		     "nothing is mounted at %s: weir run does that, or: mount -t bpf bpf %s",
		     c->bpffs, c->bpffs);
	else
		tell(d, GOOD, "bpffs", "mounted at %s", c->bpffs);
}

static void look_at_limits(struct weir_doctor *d, const struct weir_conf *c)
{
	struct rlimit l = {};
	struct timespec t = {};
	char need[WEIR_STR_MAX], text[128];
	__u64 bytes = 2 * c->packet_sources_bytes;

	weir_str_format_size(bytes, need);
	if (getrlimit(RLIMIT_MEMLOCK, &l) == 0 && l.rlim_cur != RLIM_INFINITY && l.rlim_cur < bytes)
		tell(d, GOOD, "memlock",
		     "%llu KiB; kernels from 5.11 on charge maps (%s here) to the memory cgroup "
		     "instead",
		     (unsigned long long)l.rlim_cur / 1024, need);
	else
		tell(d, GOOD, "memlock", "enough for the tables (%s)", need);
	if (clock_getres(CLOCK_MONOTONIC_COARSE, &t) == 0 && t.tv_nsec)
		tell(d, GOOD, "clock",
		     "HZ %ld: the coarse clock steps by %ld us; faster limits use the fine one "
		     "(about 25 ns a packet more)",
		     1000000000L / t.tv_nsec, t.tv_nsec / 1000);
	if (read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource", text,
		      sizeof(text))) {
		bool slow = !strcmp(text, "hpet") || !strcmp(text, "acpi_pm") ||
			    !strcmp(text, "refined-jiffies");

		tell(d, slow ? WARN : GOOD, "clock", "source %s%s", text,
		     slow ? ": limits that need the fine clock will be slow" : "");
	}
	tell(d, GOOD, "conntrack", "not needed: packets are judged before it");
}

/* Where the agent writes, as the user who asks. */
static void look_at_places(struct weir_doctor *d, const struct weir_conf *c)
{
	_cleanup_free_ char *dir = strdup(c->admin_listen);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (access(c->state_dir, W_OK) == 0)
		tell(d, GOOD, "state_dir", "%s", c->state_dir);
	else if (errno != ENOENT)
		tell(d, WARN, "state_dir",
		     "%s: %s: what is set by command would not outlive the agent", c->state_dir,
		     strerror(errno));
	if (!slash || slash == dir)
		return;
	*slash = '\0';
	if (access(dir, W_OK) == 0)
		tell(d, GOOD, "admin", "%s", c->admin_listen);
	else if (errno != ENOENT)
		tell(d, WARN, "admin",
		     "%s: %s: this user cannot make the socket there (admin.listen names another)",
		     dir, strerror(errno));
}

/* --- interfaces ---------------------------------------------------------------------------------- */

static bool ethtool(const char *ifname, void *data)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq q = {.ifr_data = data};

	(void)weir_str_copy(q.ifr_name, sizeof(q.ifr_name), ifname);
	return fd >= 0 && ioctl(fd, SIOCETHTOOL, &q) == 0;
}

static void look_at_queues(struct weir_doctor *d, const char *ifname)
{
	struct ethtool_channels c = {.cmd = ETHTOOL_GCHANNELS};
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	__u32 rx = 0, most = 0;

	if (ethtool(ifname, &c)) {
		rx = c.rx_count + c.combined_count;
		most = c.max_combined ? c.max_combined : c.max_rx;
	}
	if (rx && rx < (__u32)cpus && rx < most)
		tell(d, WARN, ifname,
		     "%u receive queues for %ld CPUs: ethtool -L %s %s %u spreads a flood", rx,
		     cpus, ifname, c.max_combined ? "combined" : "rx",
		     most < (__u32)cpus ? most : (__u32)cpus);
	else if (rx)
		tell(d, GOOD, ifname, "%u receive queues for %ld CPUs", rx, cpus);
	if (ethtool(ifname, &ring) && ring.rx_max_pending) {
		if (ring.rx_pending < ring.rx_max_pending && ring.rx_pending < 1024)
			tell(d, WARN, ifname,
			     "receive ring of %u: ethtool -G %s rx %u bears bursts better",
			     ring.rx_pending, ifname,
			     ring.rx_max_pending < 4096 ? ring.rx_max_pending : 4096);
		else
			tell(d, GOOD, ifname, "receive ring of %u", ring.rx_pending);
	}
}

static void look_at_offloads(struct weir_doctor *d, const char *ifname, const struct weir_iface *i)
{
	struct ethtool_value gro = {.cmd = ETHTOOL_GGRO}, flags = {.cmd = ETHTOOL_GFLAGS};

	if (ethtool(ifname, &flags) && (flags.data & ETH_FLAG_LRO))
		tell(d, WARN, ifname,
		     "LRO is on, and several drivers refuse native XDP then: ethtool -K %s lro off",
		     ifname);
	if (ethtool(ifname, &flags) && (flags.data & ETH_FLAG_RXVLAN))
		tell(d, GOOD, ifname,
		     "VLAN tags may be taken off by the card before weir sees them (limits with "
		     "vlan: need ethtool -K %s rxvlan off)",
		     ifname);
	if (ethtool(ifname, &gro) && !gro.data && !strcmp(i->kind, "veth"))
		tell(d, GOOD, ifname, "GRO is off; native XDP on veth works all the same");
}

static void look_at_interface(struct weir_doctor *d, const char *ifname)
{
	struct weir_iface i = {};
	struct weir_error e = {};
	char driver[32] = "";

	if (weir_iface_get(ifname, &i, &e) < 0) {
		tell(d, FAIL, ifname, "%s", e.text);
		return;
	}
	weir_iface_driver(ifname, driver);
	if (i.type != ARPHRD_ETHER && i.type != ARPHRD_LOOPBACK)
		tell(d, FAIL, ifname, "is no Ethernet device (%s): attach to the one under it",
		     i.kind[0] ? i.kind : "tunnel");
	else if (!strcmp(i.kind, "bridge") || !strcmp(i.kind, "vlan") || !strcmp(i.kind, "macvlan"))
		tell(d, WARN, ifname,
		     "is a %s: only generic mode there; attach to the device under it", i.kind);
	else if (!strcmp(i.slave_kind, "bond"))
		tell(d, WARN, ifname,
		     "belongs to a bond: attach to the bond, so that a source has one budget over "
		     "all its members");
	else
		tell(d, GOOD, ifname, "driver %s, MTU %u%s%s", driver[0] ? driver : "none", i.mtu,
		     i.kind[0] ? ", " : "", i.kind);
	if (i.mtu > 3500 && strcmp(i.kind, "veth") != 0)
		tell(d, WARN, ifname,
		     "MTU %u: native mode needs a driver with multi-buffer XDP, else weir falls "
		     "back to generic",
		     i.mtu);
	if (weir_iface_prog(&i))
		tell(d, GOOD, ifname,
		     "XDP program %u is attached, %s (bpftool prog show id %u; with attach: link "
		     "only weir's own is replaced)",
		     weir_iface_prog(&i), i.generic_id ? "generic" : "native", weir_iface_prog(&i));
	else
		tell(d, GOOD, ifname, "no XDP program is attached");
	look_at_queues(d, ifname);
	look_at_offloads(d, ifname, &i);
}

/* Debug lines of the probes are no findings. */
static int no_print(enum libbpf_print_level level, const char *format, va_list ap)
{
	(void)level;
	(void)format;
	(void)ap;
	return 0;
}

int weir_cmd_doctor(const struct weir_args *a)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	struct weir_conf_problems problems = {};
	const char *path = weir_conf_path(a);
	struct weir_doctor d = {};
	size_t looked = 0;
	bool packets;

	(void)libbpf_set_print(no_print); /* returns the old one */
	if (weir_conf_load(path, &c, &problems) < 0) {
		tell(&d, FAIL, "file", "%s has %zu error%s (weir check)",
		     path ? path : "the defaults", problems.n_errors,
		     problems.n_errors == 1 ? "" : "s");
		weir_conf_problems_done(&problems);
		if (weir_conf_load(NULL, &c, &problems) < 0)
			return weir_fail(WEIR_EXIT_FAILED, "out of memory");
	} else {
		tell(&d, GOOD, "file", "%s", path ? path : "none; the built-in defaults");
	}
	weir_conf_problems_done(&problems);
	packets = c->n_interfaces || c->attach == WEIR_ATTACH_EXTERNAL || !c->request.n_listener ||
		  weir_args_has(a, "interface");
	if (packets) {
		look_at_kernel(&d);
		look_at_jit(&d);
		look_at_bpffs(&d, c);
		look_at_limits(&d, c);
	} else {
		tell(&d, GOOD, "packets", "not limited (interfaces: []): no root is needed");
	}
	look_at_places(&d, c);
	weir_doctor_store(&d, c);
	for (size_t i = 0; i < a->n_given; i++)
		if (!strcmp(a->given[i].option->name, "interface")) {
			look_at_interface(&d, a->given[i].value);
			looked++;
		}
	for (size_t i = 0; i < c->n_interfaces && !looked; i++)
		look_at_interface(&d, c->interfaces[i]);
	if (packets && !looked && !c->n_interfaces)
		tell(&d, WARN, "interfaces",
		     "none is configured: weir doctor -i IFACE looks at one");
	(void)printf("%s: %u to mend, %u to consider\n", d.fails ? "not fit" : "fit", d.fails,
		     d.warns);
	return d.fails ? WEIR_EXIT_FAILED : WEIR_EXIT_OK;
}
