/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Words of the language, and finding one's way in the table of settings (settings.c); see schema.h. */
#include "user/config/schema.h"

#include <string.h>

/* Positions are the enums' values. */
const char *const weir_words_mode[] = {"enforce", "monitor", NULL};
const char *const weir_words_attach[] = {"link", "chain", "external", NULL};
const char *const weir_words_xdp_mode[] = {"auto", "native", "generic", NULL};
const char *const weir_words_log_format[] = {"text", "json", NULL};
const char *const weir_words_per[] = {"source", "destination", "all", NULL};
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

static const struct weir_entries *const lists[] = {
	&weir_entries_packet_limits,  &weir_entries_listeners, &weir_entries_exempt,
	&weir_entries_request_limits, &weir_entries_escalate,
};

const struct weir_entries *weir_setting_entries(const struct weir_setting *s)
{
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		size_t n = strlen(lists[i]->section);

		if (strncmp(s->path, lists[i]->section, n) == 0 && s->path[n] == '.')
			return lists[i];
	}
	return NULL;
}

unsigned weir_setting_depth(const struct weir_setting *s)
{
	unsigned d = 0;

	for (const char *c = s->path; *c; c++)
		d += *c == '.';
	return d;
}

bool weir_setting_is_group(const struct weir_setting *s)
{
	return s->kind == WEIR_KIND_SECTION || s->kind == WEIR_KIND_SUSPICIOUS;
}

bool weir_setting_is_by_plan(const struct weir_setting *s)
{
	return s->kind == WEIR_KIND_PLAN_RATE || s->kind == WEIR_KIND_PLAN_NUMBER ||
	       s->kind == WEIR_KIND_PLAN_DURATION;
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

const char *weir_per_name(enum weir_per per)
{
	return weir_words_per[per];
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
