/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Errno and extack to sentences. Contract in kernel_error.h. */
#include "user/datapath/kernel_error.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <xdp/libxdp.h>

#include "user/base/cleanup.h"
#include "user/base/log.h"
#include "user/base/str.h"

/* --- what libbpf and libxdp would have printed ----------------------------------------------- */

static char kept[16384]; /* newest text, NUL-terminated */
static size_t kept_n;

static void keep(const char *text)
{
	size_t n = strlen(text);

	if (n >= sizeof(kept)) {
		text += n - (sizeof(kept) - 1);
		n = sizeof(kept) - 1;
	}
	if (kept_n + n >= sizeof(kept)) {
		size_t drop = kept_n + n - (sizeof(kept) - 1);

		memmove(kept, kept + drop, kept_n - drop);
		kept_n -= drop;
	}
	memcpy(kept + kept_n, text, n);
	kept_n += n;
	kept[kept_n] = '\0';
}

/* A verifier log is one long message: its end says why, so a message is formatted whole. */
__attribute__((format(printf, 2, 0))) static void keep_line(const char *who, const char *format,
							    va_list ap)
{
	_cleanup_free_ char *text = NULL;

	if (vasprintf(&text, format, ap) < 0)
		return;
	keep(text);
	if (weir_log_wants(WEIR_LOG_DEBUG)) {
		size_t n = strlen(text), most = 2000; /* a verifier log has megabytes */

		while (n && text[n - 1] == '\n')
			text[--n] = '\0';
		weir_log(WEIR_LOG_DEBUG, who, "text", "s", n > most ? text + n - most : text, NULL);
	}
}

__attribute__((format(printf, 2, 0))) static int on_libbpf(enum libbpf_print_level level,
							   const char *format, va_list ap)
{
	if (level == LIBBPF_DEBUG)
		return 0;
	keep_line("libbpf", format, ap);
	return 0;
}

__attribute__((format(printf, 2, 0))) static int on_libxdp(enum libxdp_print_level level,
							   const char *format, va_list ap)
{
	if (level == LIBXDP_DEBUG)
		return 0;
	keep_line("libxdp", format, ap);
	return 0;
}

void weir_kernel_log_quiet(void)
{
	(void)libbpf_set_print(on_libbpf); /* returns the former printer */
	(void)libxdp_set_print(on_libxdp);
}

void weir_kernel_log_clear(void)
{
	kept_n = 0;
	kept[0] = '\0';
}

static bool says_why(const char *line, size_t n)
{
	static const char *const noise[] = {"processed ",    "verification time",
					    "stack depth",   "-- END",
					    "-- BEGIN",	     "failed to load",
					    "mark_precise:", "from ",
					    "regs=",	     "last_idx"};

	if (strncmp(line, "libbpf: ", 8) == 0) {
		line += 8;
		n -= 8;
	}
	if (n < 4)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(noise); i++) {
		if (strstr(line, noise[i]) && strstr(line, noise[i]) < line + n)
			return false;
	}
	return true;
}

void weir_kernel_log_reason(char *ret, size_t size)
{
	size_t end = kept_n;

	ret[0] = '\0';
	while (end) {
		size_t start, n;

		while (end && kept[end - 1] == '\n')
			end--;
		start = end;
		while (start && kept[start - 1] != '\n')
			start--;
		n = end - start;
		if (n && says_why(kept + start, n)) {
			if (n >= size)
				n = size - 1;
			memcpy(ret, kept + start, n);
			ret[n] = '\0';
			return;
		}
		end = start;
	}
}

/* --- sentences ------------------------------------------------------------------------------- */

static const char *meaning(int r)
{
	switch (-r) {
	case EPERM:
		return "not permitted: root is needed (CAP_SYS_ADMIN and CAP_NET_ADMIN in the "
		       "first user namespace), and no kernel lockdown";
	case EACCES:
		return "the kernel's verifier refused the program, or a security module the call";
	case E2BIG:
		return "too large for this kernel: a map has more entries than it allows, the "
		       "program more instructions, or a structure is newer than it";
	case EINVAL:
		return "the kernel does not know what was asked of it: weir needs Linux 6.1 or "
		       "later";
	case EOPNOTSUPP:
		return "this kernel or driver does not support it";
	case ENOMEM:
		return "not enough memory: lower memory.packet_sources, or raise the memory limit "
		       "of the service";
	case ENOSYS:
		return "this kernel was built without BPF (CONFIG_BPF_SYSCALL)";
	case EBUSY:
		return "in use by someone else";
	default:
		return NULL;
	}
}

int weir_kernel_error(struct weir_error *e, int r, const char *doing)
{
	const char *mean = meaning(r);
	struct utsname u = {0};
	char why[200];

	(void)uname(&u); /* cannot fail with a valid pointer */
	weir_kernel_log_reason(why, sizeof(why));
	return weir_error_set(e, r, "%s: %s (%s; Linux %s%s%s)", doing, mean ? mean : strerror(-r),
			      strerror(-r), u.release, why[0] ? "; last words: " : "", why);
}

/* Largest MTU that a driver takes for a program in native mode, where it is known; frames beyond one page need
 * support for fragments in driver and program. Read from the drivers' sources.
 */
static __u32 known_mtu(const char *driver)
{
	static const struct {
		const char *driver;
		__u32 mtu;
	} known[] = {
		{"veth", 3506},	   {"virtio_net", 3506}, {"ena", 3498},	    {"ixgbe", 3050},
		{"ixgbevf", 1500}, {"igb", 3050},	 {"mlx4_en", 3498}, {"mlx5_core", 3498},
		{"bnxt_en", 3500}, {"tun", 3520},	 {"nfp", 3500},	    {"hv_netvsc", 3500},
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(driver, known[i].driver) == 0)
			return known[i].mtu;
	}
	return 0;
}

static bool has(const char *text, const char *word)
{
	return strcasestr(text, word) != NULL;
}

static bool is_mtu(const struct weir_iface *i, int r, const char *extack)
{
	if (has(extack, "mtu") || has(extack, "frame size") || has(extack, "jumbo"))
		return true;
	return (r == -ERANGE || (r == -EINVAL && !extack[0])) && i->mtu > 1500;
}

/* What would help, for a person. */
static void hint(const struct weir_iface *i, int r, bool native, const char *extack, char *ret,
		 size_t size)
{
	char driver[32];
	__u32 mtu;

	weir_iface_driver(i->name, driver);
	ret[0] = '\0';
	if (strcmp(i->kind, "vlan") == 0 && native) {
		(void)snprintf(ret, size,
			       "a VLAN interface takes programs in generic mode only: name its "
			       "parent instead, weir reads the tags");
	} else if (is_mtu(i, r, extack)) {
		mtu = known_mtu(driver);
		if (mtu)
			(void)snprintf(ret, size,
				       "MTU %u is too large, driver %s takes about %u in native "
				       "mode: ip link set dev %s mtu %u, or xdp_mode: generic",
				       i->mtu, driver, mtu, i->name, mtu);
		else
			(void)snprintf(ret, size,
				       "MTU %u is too large for driver %s in native mode, which "
				       "wants a frame in one page of 4096 bytes: ip link set dev "
				       "%s mtu 1500, or xdp_mode: generic",
				       i->mtu, driver[0] ? driver : "unknown", i->name);
	} else if (has(extack, "LRO") || has(extack, "GRO_HW") || has(extack, "CSUM")) {
		(void)snprintf(ret, size, "ethtool -K %s lro off rx-gro-hw off", i->name);
	} else if (has(extack, "queue") || has(extack, "channel") || has(extack, "ring")) {
		(void)snprintf(ret, size,
			       "fewer queues: ethtool -l %s shows how many, ethtool -L %s combined "
			       "N sets them",
			       i->name, i->name);
	} else if (has(extack, "upper device") || has(extack, "master")) {
		(void)snprintf(ret, size,
			       "the bond or bridge over it has a program already: attach to one of "
			       "the two, not both");
	} else if (native && r == -EOPNOTSUPP) {
		(void)snprintf(ret, size,
			       "driver %s has no native mode; xdp_mode: auto or generic works",
			       driver[0] ? driver : "of this interface");
	}
}

int weir_attach_error(struct weir_error *e, int r, const struct weir_iface *i, bool native,
		      const char *extack)
{
	const char *mean = meaning(r);
	char help[256];

	hint(i, r, native, extack, help, sizeof(help));
	if (!help[0] && !extack[0] && mean && r != -EINVAL)
		(void)weir_str_copy(help, sizeof(help), mean); /* cut is fine */
	return weir_error_set(e, r, "%s: cannot attach in %s mode: %s%s%s%s%s%s", i->name,
			      native ? "native" : "generic", strerror(-r),
			      extack[0] ? ", the kernel says \"" : "", extack,
			      extack[0] ? "\"" : "", help[0] ? "; " : "", help);
}

void weir_attach_reason(const struct weir_iface *i, int r, const char *extack, char *ret,
			size_t size)
{
	if (strcmp(i->kind, "vlan") == 0)
		(void)snprintf(
			ret, size,
			"generic: a VLAN interface has no native mode; name its parent instead");
	else if (is_mtu(i, r, extack))
		(void)snprintf(ret, size, "generic: MTU %u: %s", i->mtu,
			       extack[0] ? extack : strerror(-r));
	else
		(void)snprintf(ret, size, "generic: native was refused: %s",
			       extack[0] ? extack : strerror(-r));
}
