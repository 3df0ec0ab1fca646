/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of settings; see schema.h. A new setting is a line here, and a reader in value.c if its kind is new. */
#include "user/config/schema.h"

#include <string.h>

/* Positions are the enums' values; entries from "later" on are known but not there yet (value.c). */
const char *const weir_words_mode[] = {"enforce", "monitor", NULL};
const char *const weir_words_attach[] = {"link", "chain", "external", NULL};
const char *const weir_words_xdp_mode[] = {"auto", "native", "generic", NULL};
const char *const weir_words_log_format[] = {"text", "json", NULL};
const char *const weir_words_per[] = {"source", NULL};
const char *const weir_words_algorithm[] = {"token-bucket", "fixed-window",
					    "sliding-window-counter", NULL};
/* by bit */
const char *const weir_words_flags[] = {"fin", "syn", "rst", "psh", "ack",
					"urg", "ece", "cwr", NULL};

/* The first name of a number is the one that is printed. */
const struct weir_protocol weir_protocols[] = {
	{"tcp", 6},	   {"udp", 17},	 {"icmp", 1},	{"icmpv6", 58}, {"icmp6", 58},
	{"ipv6-icmp", 58}, {"gre", 47},	 {"esp", 50},	{"ah", 51},	{"sctp", 132},
	{"udplite", 136},  {"dccp", 33}, {"igmp", 2},	{"ipip", 4},	{"ipv6", 41},
	{"ospf", 89},	   {"pim", 103}, {"vrrp", 112}, {"eigrp", 88},	{"l2tp", 115},
	{"rsvp", 46},	   {"egp", 8},	 {"none", 59},
};
const size_t weir_protocols_n = ARRAY_LEN(weir_protocols);

#define C(field)                                                                                   \
	.offset = offsetof(struct weir_conf, field),                                               \
	.size = sizeof(((struct weir_conf *)NULL)->field)
#define L(field)                                                                                   \
	.offset = offsetof(struct weir_conf_limit, field),                                         \
	.size = sizeof(((struct weir_conf_limit *)NULL)->field)
#define SECTION(p, h)                                                                              \
	{                                                                                          \
		.path = p, .kind = WEIR_KIND_SECTION, .type = "group", .help = h                   \
	}
#define LATER(p, h)                                                                                \
	{                                                                                          \
		.path = p, .kind = WEIR_KIND_LATER, .help = h                                      \
	}
#define MS  1000000ull
#define DAY (86400 * 1000 * MS)

const struct weir_setting weir_settings[] = {
	{.path = "version",
	 .kind = WEIR_KIND_NUMBER,
	 .type = "1",
	 .fallback = "1",
	 .min = 1,
	 .max = 1,
	 C(version),
	 .help = "version of this language"},
	{.path = "instance",
	 .kind = WEIR_KIND_NAME,
	 .type = "name",
	 .fallback = "weir",
	 C(instance),
	 .help = "names the folder of pins, so that two agents can live on one machine"},
	{.path = "interfaces",
	 .kind = WEIR_KIND_INTERFACES,
	 .type = "list of interfaces",
	 .fallback = "[]",
	 C(interfaces),
	 .max = 64,
	 .help = "where to attach"},
	{.path = "mode",
	 .kind = WEIR_KIND_WORD,
	 .words = weir_words_mode,
	 .fallback = "enforce",
	 C(mode),
	 .help = "monitor: decide and count, drop nothing"},
	{.path = "attach",
	 .kind = WEIR_KIND_WORD,
	 .words = weir_words_attach,
	 .fallback = "link",
	 C(attach),
	 .help = "link: pinned and exclusive; chain: beside other XDP programs (libxdp); external: "
		 "load "
		 "and pin, you attach"},
	{.path = "xdp_mode",
	 .kind = WEIR_KIND_WORD,
	 .words = weir_words_xdp_mode,
	 .fallback = "auto",
	 C(xdp_mode),
	 .help = "native, generic, or auto: native where the driver can, else generic"},
	{.path = "bpffs",
	 .kind = WEIR_KIND_PATH,
	 .type = "folder",
	 .fallback = "/sys/fs/bpf",
	 C(bpffs),
	 .max = 200,
	 .help = "the BPF file system that holds the instance's folder"},
	{.path = "state_dir",
	 .kind = WEIR_KIND_PATH,
	 .type = "folder",
	 .fallback = "/var/lib/weir",
	 C(state_dir),
	 .max = 200,
	 .help = "lists made by command survive a reboot here"},

	SECTION("admin", "the socket that commands talk to"),
	{.path = "admin.listen",
	 .kind = WEIR_KIND_PATH,
	 .type = "path",
	 .fallback = "/run/weir/admin.sock",
	 C(admin_listen),
	 .max = 107,
	 .help = "its path"},
	{.path = "admin.group",
	 .kind = WEIR_KIND_USER,
	 .type = "group",
	 C(admin_group),
	 .help = "who may use it besides root; nobody if absent"},

	SECTION("log", "what the agent writes to standard error"),
	{.path = "log.format",
	 .kind = WEIR_KIND_WORD,
	 .words = weir_words_log_format,
	 .fallback = "text",
	 C(log_format),
	 .help = "text as key=value, or json, one object a line"},
	{.path = "log.events_per_second",
	 .kind = WEIR_KIND_NUMBER,
	 .type = "number",
	 .fallback = "20",
	 .min = 0,
	 .max = 100000,
	 C(events_per_second),
	 .help = "sampled packet events; 0 turns them off"},

	SECTION("memory", "sizes of tables"),
	{.path = "memory.packet_sources",
	 .kind = WEIR_KIND_TABLE,
	 .type = "size",
	 .fallback = "16 MB",
	 .min = 1 << 16,
	 .max = 1ull << 32,
	 C(packet_sources_bytes),
	 .help = "state of sources, for IPv4 and again for IPv6; rounded to a power of two"},
	LATER("memory.request_keys", "the request layer"),
	LATER("memory.request_bytes", "the request layer"),

	SECTION("lists", "who is never, and who is always dropped"),
	{.path = "lists.allow",
	 .kind = WEIR_KIND_PREFIXES,
	 .type = "list of addresses and prefixes",
	 .fallback = "[]",
	 C(allow),
	 .help = "passes whatever it sends; beats block"},
	{.path = "lists.allow_files",
	 .kind = WEIR_KIND_PATHS,
	 .type = "list of files",
	 .fallback = "[]",
	 C(allow_files),
	 .max = 64,
	 .help = "the same, one address or prefix a line"},
	{.path = "lists.block",
	 .kind = WEIR_KIND_PREFIXES,
	 .type = "list of addresses and prefixes",
	 .fallback = "[]",
	 C(block),
	 .help = "dropped"},
	{.path = "lists.block_files",
	 .kind = WEIR_KIND_PATHS,
	 .type = "list of files",
	 .fallback = "[]",
	 C(block_files),
	 .max = 64,
	 .help = "the same, one address or prefix a line"},
	{.path = "lists.never_block",
	 .kind = WEIR_KIND_PREFIXES,
	 .type = "list of addresses and prefixes",
	 .fallback = "[]",
	 C(never_block),
	 .help = "cannot be blocked or penalised: resolvers, uplinks, partners"},

	{.path = "packet_limits",
	 .kind = WEIR_KIND_LIMITS,
	 .type = "list of limits",
	 .fallback = "[]",
	 C(limits),
	 .max = WEIR_LIMITS_MAX,
	 .help = "judged in order; a packet that one drops is charged to none after it"},
	{.path = "packet_limits.name",
	 .kind = WEIR_KIND_NAME,
	 .type = "name",
	 L(name),
	 .help = "needed; state and counters belong to it"},
	SECTION("packet_limits.match", "which packets; all of them if absent"),
	{.path = "packet_limits.match.protocol",
	 .kind = WEIR_KIND_PROTOCOLS,
	 .type = "name, number or list",
	 L(match.protocol),
	 .max = 255,
	 .help = "tcp, udp, icmp, icmpv6, gre, esp, sctp… or an IP protocol number"},
	SECTION("packet_limits.match.tcp_flags",
		"TCP flags: fin, syn, rst, psh, ack, urg, ece, cwr; others do not matter"),
	{.path = "packet_limits.match.tcp_flags.set",
	 .kind = WEIR_KIND_FLAGS,
	 .type = "list of flags",
	 L(match.tcp_flags_set),
	 .help = "must all be set"},
	{.path = "packet_limits.match.tcp_flags.clear",
	 .kind = WEIR_KIND_FLAGS,
	 .type = "list of flags",
	 L(match.tcp_flags_clear),
	 .help = "must all be clear"},
	{.path = "packet_limits.match.source_port",
	 .kind = WEIR_KIND_PORTS,
	 .type = "port, a-b, list, or {not: …}",
	 L(match.source_port),
	 .max = 65535,
	 .help = "ports 0 to 65535"},
	{.path = "packet_limits.match.destination_port",
	 .kind = WEIR_KIND_PORTS,
	 .type = "port, a-b, list, or {not: …}",
	 L(match.destination_port),
	 .max = 65535,
	 .help = "the same"},
	{.path = "packet_limits.match.source",
	 .kind = WEIR_KIND_NETS,
	 .type = "prefix, list, or {not: …}",
	 L(match.source),
	 .help = "addresses and prefixes"},
	{.path = "packet_limits.match.destination",
	 .kind = WEIR_KIND_NETS,
	 .type = "prefix, list, or {not: …}",
	 L(match.destination),
	 .help = "the same"},
	{.path = "packet_limits.match.fragment",
	 .kind = WEIR_KIND_FRAGMENT,
	 .type = "true | false",
	 L(match.fragment),
	 .help = "only fragments, or only whole packets"},
	{.path = "packet_limits.match.vlan",
	 .kind = WEIR_KIND_PORTS,
	 .type = "id, a-b, list, or {not: …}",
	 L(match.vlan),
	 .max = 4094,
	 .help = "outer VLAN id, 1 to 4094; 0 is untagged"},
	{.path = "packet_limits.per",
	 .kind = WEIR_KIND_WORD,
	 .words = weir_words_per,
	 .fallback = "source",
	 L(per),
	 .help = "each source has a budget of its own"},
	{.path = "packet_limits.ipv4_prefix",
	 .kind = WEIR_KIND_NUMBER,
	 .type = "length",
	 .fallback = "32",
	 .min = 0,
	 .max = 32,
	 L(ipv4_prefix),
	 .help = "one source is one IPv4 prefix of this length"},
	{.path = "packet_limits.ipv6_prefix",
	 .kind = WEIR_KIND_NUMBER,
	 .type = "length",
	 .fallback = "64",
	 .min = 0,
	 .max = 128,
	 L(ipv6_prefix),
	 .help = "one source is one IPv6 prefix of this length"},
	{.path = "packet_limits.algorithm",
	 .kind = WEIR_KIND_WORD,
	 .words = weir_words_algorithm,
	 .given = WEIR_GIVEN_ALGORITHM,
	 .fallback = "token-bucket",
	 L(algorithm),
	 .help = "how the limit counts"},
	{.path = "packet_limits.rate",
	 .kind = WEIR_KIND_RATE,
	 .type = "rate",
	 L(rate),
	 .given = WEIR_GIVEN_RATE,
	 .help = "token-bucket: 20000/s, 100/m, 3/h; or frame bytes: 200 Mbit/s, 25 MB/s"},
	{.path = "packet_limits.burst",
	 .kind = WEIR_KIND_AMOUNT,
	 .type = "number or size",
	 L(burst),
	 .min = 1,
	 .max = WEIR_BURST_MAX_TOKENS,
	 .given = WEIR_GIVEN_BURST,
	 .help = "token-bucket: what may come at once; one second's worth if absent"},
	{.path = "packet_limits.limit",
	 .kind = WEIR_KIND_AMOUNT,
	 .type = "number or size",
	 L(limit),
	 .min = 1,
	 .max = (1ull << 40) - 1,
	 .given = WEIR_GIVEN_LIMIT,
	 .help = "windows: what may come in one window"},
	{.path = "packet_limits.window",
	 .kind = WEIR_KIND_DURATION,
	 .type = "duration",
	 L(window_ns),
	 .min = MS,
	 .max = DAY,
	 .given = WEIR_GIVEN_WINDOW,
	 .help = "windows: its length"},
	{.path = "packet_limits.block_for",
	 .kind = WEIR_KIND_DURATION,
	 .type = "duration",
	 L(block_for_ns),
	 .min = 2 * MS,
	 .max = 7 * DAY,
	 .given = WEIR_GIVEN_BLOCK_FOR,
	 .help = "once over the limit, every packet of the source is dropped for so long"},
	{.path = "packet_limits.mode",
	 .kind = WEIR_KIND_WORD,
	 .words = weir_words_mode,
	 .fallback = "enforce",
	 L(mode),
	 .help = "monitor: this limit counts by itself, stops nothing"},

	LATER("http", "the request layer"),
	LATER("plans", "the request layer"),
	LATER("plans_file", "the request layer"),
	LATER("exempt", "the request layer"),
	LATER("request_limits", "the request layer"),
	LATER("suspicious", "the request layer"),
	LATER("escalate", "the request layer"),
	LATER("store", "the shared store (Redis)"),
};
const size_t weir_settings_n = ARRAY_LEN(weir_settings);
_Static_assert(ARRAY_LEN(weir_settings) <= WEIR_SETTINGS_MAX, "raise WEIR_SETTINGS_MAX");

const char *weir_setting_key(const struct weir_setting *s)
{
	const char *dot = strrchr(s->path, '.');

	return dot ? dot + 1 : s->path;
}

bool weir_setting_below(const struct weir_setting *s, const char *section, size_t section_len)
{
	size_t n = (size_t)(weir_setting_key(s) - s->path);

	if (n == 0 || section_len == 0)
		return n == section_len;
	return n - 1 == section_len && memcmp(s->path, section, section_len) == 0;
}

const struct weir_setting *weir_setting_find(const char *section, const char *key)
{
	size_t len = strlen(section);

	for (size_t i = 0; i < weir_settings_n; i++)
		if (weir_setting_below(&weir_settings[i], section, len) &&
		    strcmp(weir_setting_key(&weir_settings[i]), key) == 0)
			return &weir_settings[i];
	return NULL;
}

/* --- names of enums ---- */

const char *weir_mode_name(enum weir_mode mode)
{
	return weir_words_mode[mode];
}

const char *weir_attach_name(enum weir_attach attach)
{
	return weir_words_attach[attach];
}

const char *weir_xdp_mode_name(enum weir_xdp_mode mode)
{
	return weir_words_xdp_mode[mode];
}

const char *weir_algorithm_name(enum weir_algorithm algorithm)
{
	return weir_words_algorithm[algorithm];
}

const char *weir_protocol_name(__u8 protocol)
{
	for (size_t i = 0; i < weir_protocols_n; i++)
		if (weir_protocols[i].number == protocol)
			return weir_protocols[i].name;
	return NULL;
}
