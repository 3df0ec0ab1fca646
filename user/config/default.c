/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The default configuration file from the table of settings: a few live lines, and every setting in a comment. */
#include <string.h>

#include "user/config/schema.h"

/* What the default file says where the table's default is not it. */
static const struct {
	const char *path, *text;
} first_file[] = {
	{"version", "version: 1\n"},
	{"interfaces", "interfaces: []                # for example [eth0]\n"},
	{"mode", "mode: monitor                 # enforce when the numbers look right\n"},
};

/* What a setting without a default looks like, commented out; together they are a right file. */
static const struct {
	const char *path, *text;
} examples[] = {
	{"admin.group", "weir"},
	{"packet_limits.name", "per-source"},
	{"packet_limits.match.protocol", "tcp"},
	{"packet_limits.match.tcp_flags.set", "[syn]"},
	{"packet_limits.match.tcp_flags.clear", "[ack]"},
	{"packet_limits.match.source_port", "{not: [53, 123]}"},
	{"packet_limits.match.destination_port", "[80, 443, 27015-27054]"},
	{"packet_limits.match.source", "{not: [192.0.2.0/24]}"},
	{"packet_limits.match.destination", "198.51.100.0/28"},
	{"packet_limits.match.fragment", "false"},
	{"packet_limits.match.vlan", "[0, 100-199]"},
	{"packet_limits.rate", "20000/s"},
	{"packet_limits.burst", "20000"},
	{"packet_limits.block_for", "10s"},
	{"http.proxy_headers.user", "X-Weir-User"},
	{"http.proxy_headers.plan", "X-Plan"},
	{"http.proxy_headers.cost", "X-Cost"},
	{"http.listeners.listen", "127.0.0.1:9470"},
	{"http.listeners.profile", "nginx"},
	{"http.listeners.trusted_proxies", "[127.0.0.1]"},
	{"plans", "[free, pro]"},
	{"plans_file", "/etc/weir/plans.txt"},
	{"exempt.source", "[192.0.2.0/24]"},
	{"exempt.path", "[/healthz, /static/*]"},
	{"exempt.method", "GET"},
	{"exempt.preflight", "false"},
	{"request_limits.name", "per-address"},
	{"request_limits.match.method", "[GET, POST]"},
	{"request_limits.match.path", "/api/*"},
	{"request_limits.match.host", "[example.org, \"*.example.org\"]"},
	{"request_limits.match.header", "{X-Requested-With: XMLHttpRequest}"},
	{"request_limits.key", "ip"},
	{"request_limits.rate", "{free: 10/s, pro: 50/s}"},
	{"request_limits.burst", "200"},
	{"suspicious.packet_limits", "[per-source]"},
	{"suspicious.refused.limits", "[per-address]"},
	{"suspicious.refused.count", "20"},
	{"suspicious.limit", "{key: ip, rate: 1/s}"},
	{"store.user", "weir"},
	{"store.password_file", "/etc/weir/redis.pass"},
	{"store.sentinel.user", "weir"},
	{"store.sentinel.password_file", "/etc/weir/sentinel.pass"},
	{"store.tls.ca", "/etc/weir/ca.pem"},
	{"store.tls.cert", "/etc/weir/client.pem"},
	{"store.tls.key", "/etc/weir/client.key"},
	{"store.prefix", "\"weir:\""},
	{"store.key_secret_file", "/etc/weir/fleet.key"},
	{"request_limits.lease", "20"},
	{"escalate.name", "hammering"},
	{"escalate.limits", "[per-address]"},
	{"escalate.refused", "200"},
	{"escalate.block_for", "10m"},
};

/* What stands in text, since it cannot stand beside the examples. */
static const char *const apart[] = {
	"packet_limits.limit",		 "packet_limits.window",    "http.listeners.token_file",
	"http.listeners.mode",		 "http.listeners.group",    "request_limits.key.any",
	"request_limits.key.new_per_ip", "request_limits.limit",    "request_limits.window",
	"request_limits.timezone",	 "request_limits.queue",    "request_limits.max_wait",
	"request_limits.cost.from",	 "request_limits.cost.min", "request_limits.cost.max",
};

static const char *example_of(const struct weir_setting *s)
{
	for (size_t i = 0; i < ARRAY_LEN(examples); i++)
		if (strcmp(examples[i].path, s->path) == 0)
			return examples[i].text;
	return s->fallback && s->kind != WEIR_KIND_LIST ? s->fallback : NULL;
}

static bool stands_apart(const struct weir_setting *s)
{
	for (size_t i = 0; i < ARRAY_LEN(apart); i++)
		if (strcmp(apart[i], s->path) == 0)
			return true;
	return false;
}

/* One setting, commented out, with its help above it; "#key" and "#  key" are settings, "# text" is text. */
static void print_commented(const struct weir_setting *s, unsigned in, const char *lead, FILE *f)
{
	const char *value = example_of(s);
	char line[160];
	int n;

	n = snprintf(line, sizeof(line), "#%*s%s%s:%s%s", (int)in, "", lead, weir_setting_key(s),
		     value ? " " : "", value ? value : "");
	(void)fprintf(f, "%-*s  # %s\n", n < 48 ? 48 : n, line, s->help);
}

/* The settings of an entry of a list, as one commented entry. */
static void print_entry(const struct weir_entries *e, FILE *f)
{
	size_t len = strlen(e->section);
	bool first = true;

	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];

		if (weir_setting_entries(s) != e)
			continue;
		if (stands_apart(s)) {
			(void)fprintf(f, "# %s: %s\n", s->path + len + 1, s->help);
			continue;
		}
		print_commented(s, weir_setting_depth(s) * 2 + (first ? 0 : 2), first ? "- " : "",
				f);
		first = false;
	}
}

static void print_packet_limits(FILE *f)
{
	(void)fputs("\n"
		    "# Judged in order; a packet that one drops is charged to none after it.\n"
		    "packet_limits:\n"
		    "  - name: syn-per-source      # new TCP connections of one source\n"
		    "    match: {protocol: tcp, tcp_flags: {set: [syn], clear: [ack]}}\n"
		    "    rate: 100/s\n"
		    "    burst: 200\n"
		    "  - name: per-source          # everything that one source sends\n"
		    "    rate: 20000/s\n"
		    "#\n# Everything that a limit can say:\n",
		    f);
	print_entry(&weir_entries_packet_limits, f);
}

static void print_setting(const struct weir_setting *s, FILE *f)
{
	if (!weir_setting_depth(s) &&
	    (weir_setting_is_group(s) || s->kind == WEIR_KIND_LIST || s->kind == WEIR_KIND_PLANS))
		(void)fputc('\n', f);
	for (size_t i = 0; i < ARRAY_LEN(first_file); i++) {
		if (strcmp(first_file[i].path, s->path) != 0)
			continue;
		(void)fprintf(f, "# %s\n%s", s->help, first_file[i].text);
		return;
	}
	print_commented(s, weir_setting_depth(s) * 2, "", f);
	if (s->kind == WEIR_KIND_LIST)
		print_entry(s->entries, f);
}

void weir_conf_print_default(FILE *f)
{
	(void)fputs("# weir: limits for packets and requests. `weir check` says what this file "
		    "means and what is\n"
		    "# wrong with it; `weir reload` puts a changed one in force. Lines that begin "
		    "with # are comments;\n"
		    "# the settings among them show the defaults, or an example where there is no "
		    "default.\n",
		    f);
	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];

		if (weir_setting_entries(s))
			continue;
		if (s->entries == &weir_entries_packet_limits)
			print_packet_limits(f);
		else
			print_setting(s, f);
	}
}
