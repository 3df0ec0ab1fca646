/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir status: the first line tells at 3 a.m. what acts, then everything that is wrong, then the rest. Called by the
 * table.
 */
#include <string.h>

#include "user/agent/json.h"
#include "user/base/str.h"
#include "user/cli/cli.h"

static __u64 rate(const json_t *o)
{
	return weir_json_u64_of(o, "packets_per_second");
}

static void print_interfaces_short(const json_t *s)
{
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(s, "interfaces"), i, o) {
		const char *xdp = weir_json_text_of(o, "xdp");

		(void)printf("%s%s (%s)", i ? ", " : " on ", weir_json_text_of(o, "name"),
			     weir_json_bool_of(o, "attached") ? xdp ? xdp : "attached"
							      : "NOT ATTACHED");
	}
}

/* Limits of one layer that act now, each with its rate and since when. */
static bool print_acting(const json_t *limits, const char *key, const char *rate_key,
			 const char *word, bool any)
{
	char a[WEIR_STR_MAX];
	json_t *l;
	size_t i;

	json_array_foreach(limits, i, l) {
		const char *since = weir_json_text_of(l, "acting_since"),
			   *mode = weir_json_text_of(l, "mode");

		if (!since || strlen(since) < 20 || (mode && !strcmp(mode, "monitor")))
			continue;
		(void)printf("%s%s (%s/s %s, since %.9s)",
			     any ? ", " : "acting now: ", weir_json_text_of(l, "name"),
			     weir_str_format_count(weir_json_u64_of(json_object_get(l, key),
								    rate_key),
						   a),
			     word, since + 11);
		any = true;
	}
	return any;
}

static void print_layers_short(const json_t *s)
{
	const json_t *r = json_object_get(s, "request");
	size_t n = json_array_size(json_object_get(s, "limits")),
	       k = json_array_size(json_object_get(r, "limits")),
	       listeners = json_array_size(json_object_get(r, "listeners"));
	bool packets = weir_json_bool_of(s, "packets");

	if (packets) {
		(void)printf("%zu limit%s", n, n == 1 ? "" : "s");
		print_interfaces_short(s);
	}
	if (r)
		(void)printf("%s%zu request limit%s on %zu listener%s", packets ? ", " : "", k,
			     k == 1 ? "" : "s", listeners, listeners == 1 ? "" : "s");
}

/* "generation 17 = file" */
static void print_generation(const json_t *s)
{
	const char *file = weir_json_text_of(s, "file");
	__u64 overrides = weir_json_u64_of(s, "overrides");

	(void)printf(", generation %llu", (unsigned long long)weir_json_u64_of(s, "generation"));
	if (file && !strcmp(file, "same"))
		(void)printf(" = file");
	else if (file)
		(void)printf(", NOT the file as it is now (weir limit diff)");
	if (overrides)
		(void)printf(" + %llu override%s", (unsigned long long)overrides,
			     overrides == 1 ? "" : "s");
}

static void print_rates(const json_t *s)
{
	const json_t *totals = json_object_get(s, "totals"), *r = json_object_get(s, "request"),
		     *checks = json_object_get(r, "checks");
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX];
	bool packets = weir_json_bool_of(s, "packets");

	if (packets)
		(void)printf("passes %s/s, drops %s/s",
			     weir_str_format_count(rate(json_object_get(totals, "passed")), a),
			     weir_str_format_count(rate(json_object_get(totals, "dropped")), b));
	if (r)
		(void)printf(
			"%sallows %s/s, refuses %s/s", packets ? "; " : "",
			weir_str_format_count(weir_json_u64_of(json_object_get(checks, "allowed"),
							       "per_second"),
					      a),
			weir_str_format_count(weir_json_u64_of(json_object_get(checks, "refused"),
							       "per_second"),
					      b));
	(void)fputc('\n', stdout);
}

/* Of requests; without them, of the fleet's lists. */
static const char *store_word(const json_t *s, const json_t *request, const json_t *shared)
{
	const char *fleet = weir_json_text_of(json_object_get(s, "fleet"), "state");

	if (shared)
		return weir_say_store(shared);
	if (fleet)
		return strcmp(fleet, "away") != 0 ? "healthy" : "AWAY";
	return request ? weir_json_text_of(json_object_get(request, "store"), "kind") : "local";
}

static void print_first_line(const json_t *s)
{
	const json_t *r = json_object_get(s, "request"),
		     *shared = json_object_get(r, "shared_store");
	const char *mode = weir_json_text_of(s, "mode"),
		   *since = weir_json_text_of(s, "mode_since");
	__u64 escalated = weir_json_u64_of(json_object_get(json_object_get(s, "lists"), "block"),
					   "escalation");
	bool monitor = mode && !strcmp(mode, "monitor"), acting = false;
	char span[WEIR_SAY_MAX];

	(void)printf("%s: %s ", weir_json_text_of(s, "instance"),
		     !monitor			       ? "enforcing"
		     : weir_json_bool_of(s, "packets") ? "MONITOR, drops nothing; watches"
						       : "MONITOR, refuses nothing; watches");
	print_layers_short(s);
	(void)printf(" since %s (%s)", since ? since : "?",
		     weir_say_span(weir_json_u64_of(s, "mode_age_s"), span));
	print_generation(s);
	(void)printf(", store %s; ", store_word(s, r, shared));
	if (!monitor) {
		acting = print_acting(json_object_get(s, "limits"), "over", "packets_per_second",
				      "dropped", false);
		acting = print_acting(json_object_get(r, "limits"), "refused_all", "per_second",
				      "refused", acting);
	}
	if (acting)
		(void)fputs("; ", stdout);
	if (escalated)
		(void)printf("%llu block%s by escalation; ", (unsigned long long)escalated,
			     escalated == 1 ? "" : "s");
	print_rates(s);
}

static void print_mode(const json_t *s)
{
	const json_t *c = json_object_get(s, "unconfirmed");
	const char *by = weir_json_text_of(s, "mode_by"), *who = weir_json_text_of(s, "mode_who");
	char span[WEIR_SAY_MAX];

	if (c)
		(void)printf("UNCONFIRMED: goes to %s in %s unless you say weir confirm\n",
			     weir_json_text_of(c, "then"),
			     weir_say_span(weir_json_u64_of(c, "rest_s"), span));
	(void)printf("mode        %s (%s", weir_json_text_of(s, "mode"), by ? by : "?");
	if (who) {
		(void)fputs(" of ", stdout);
		weir_say_clean(stdout, who);
	}
	(void)fputc(')', stdout);
	if (weir_json_text_of(s, "mode_until"))
		(void)printf("; %s again in %s", weir_json_text_of(s, "mode_then"),
			     weir_say_span(weir_json_u64_of(s, "mode_rest_s"), span));
	(void)fputc('\n', stdout);
}

static void print_interfaces(const json_t *s)
{
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(s, "interfaces"), i, o) {
		const char *note = weir_json_text_of(o, "note");

		(void)printf("interface   %s: ", weir_json_text_of(o, "name"));
		if (weir_json_bool_of(o, "attached"))
			(void)printf("%s, program %llu, by %s%s", weir_json_text_of(o, "xdp"),
				     (unsigned long long)weir_json_u64_of(o, "program_id"),
				     weir_json_text_of(o, "attach"),
				     weir_json_bool_of(o, "netlink") ? " (netlink)" : "");
		else
			(void)printf("%s", weir_json_bool_of(o, "stale")
						   ? "an old program is attached"
						   : "not attached");
		if (note) {
			(void)fputs("; ", stdout);
			weir_say_clean(stdout, note);
		}
		(void)fputc('\n', stdout);
	}
}

static void print_limits(const json_t *s)
{
	char pass[WEIR_STR_MAX], over[WEIR_STR_MAX], bits[WEIR_SAY_MAX], total[WEIR_STR_MAX];
	json_t *l;
	size_t i;

	json_array_foreach(json_object_get(s, "limits"), i, l) {
		const json_t *p = json_object_get(l, "pass"), *o = json_object_get(l, "over");
		const char *mode = weir_json_text_of(l, "mode");

		(void)printf(
			"limit       %-20s %s per %s: passes %s/s (%s), over %s/s, %s in all%s%s\n",
			weir_json_text_of(l, "name"), weir_json_text_of(l, "text"),
			weir_json_text_of(l, "per"), weir_str_format_count(rate(p), pass),
			weir_say_bits(weir_json_u64_of(p, "bytes_per_second"), bits),
			weir_str_format_count(rate(o), over),
			weir_str_format_count(weir_json_u64_of(o, "packets"), total),
			mode && !strcmp(mode, "monitor") ? ", monitor" : "",
			json_object_get(l, "overridden") ? ", OVERRIDDEN by command" : "");
	}
}

static void print_reasons(const json_t *s, const char *key, const char *word)
{
	char now[WEIR_STR_MAX], bits[WEIR_SAY_MAX];
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(s, key), i, o)
		(void)printf("%-11s %-24s %s/s (%s), %llu in all\n", word,
			     weir_json_text_of(o, "reason"), weir_str_format_count(rate(o), now),
			     weir_say_bits(weir_json_u64_of(o, "bytes_per_second"), bits),
			     (unsigned long long)weir_json_u64_of(o, "packets"));
}

static void print_family(const json_t *s, const char *name, const char *slots, const char *used,
			 const char *busy)
{
	__u64 all = weir_json_u64_of(s, slots), n = weir_json_u64_of(s, used),
	      b = weir_json_u64_of(s, busy);

	if (all)
		(void)printf("sources     %s: %llu of %llu slots hold a source (%llu %%), %llu of "
			     "them owe something\n",
			     name, (unsigned long long)n, (unsigned long long)all,
			     (unsigned long long)(n * 100 / all), (unsigned long long)b);
}

static void print_list(const char *name, const json_t *o)
{
	__u64 escalated = weir_json_u64_of(o, "escalation");

	(void)printf("list        %s: %llu entries (%llu of the file, %llu of list files, %llu by "
		     "command, ",
		     name, (unsigned long long)weir_json_u64_of(o, "total"),
		     (unsigned long long)weir_json_u64_of(o, "file"),
		     (unsigned long long)weir_json_u64_of(o, "list-file"),
		     (unsigned long long)(weir_json_u64_of(o, "command") - escalated));
	if (escalated)
		(void)printf("%llu by escalation, ", (unsigned long long)escalated);
	(void)printf("%llu found)\n", (unsigned long long)weir_json_u64_of(o, "guard"));
}

static void print_tables(const json_t *s)
{
	const json_t *sources = json_object_get(s, "sources"), *lists = json_object_get(s, "lists");
	__u64 bytes = 0;
	json_t *o;
	size_t i;
	const char *name;

	print_family(sources, "IPv4", "slots4", "occupied4", "busy4");
	print_family(sources, "IPv6", "slots6", "occupied6", "busy6");
	json_array_foreach(json_object_get(s, "tables"), i, o)
		bytes += weir_json_u64_of(o, "bytes");
	(void)printf("memory      %.1f MiB in the kernel\n", (double)bytes / (1 << 20));
	json_object_foreach((json_t *)(uintptr_t)lists, name, o)
		print_list(name, o);
}

static void print_losses(const json_t *s)
{
	static const struct {
		const char *key, *text;
	} rows[] = {
		{"bucket_full", "packets of sources without a slot were judged by the shared entry "
				"of their /24 or /48"},
		{"contended",
		 "packets were admitted uncharged, since too many CPUs charged one source at once"},
		{"guarded", "blocks or penalties of guarded addresses did not act"},
		{"events_capped", "events were over log.events_per_second (in the kernel)"},
		{"events_suppressed", "events were over log.events_per_second"},
		{"events_lost", "events found the ring buffer full"},
		{"events_unwritten", "events were not written, since nobody read the log"},
		{"lists_repaired",
		 "list entries were changed behind the agent's back, and repaired"},
	};
	const json_t *losses = json_object_get(s, "losses");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		weir_say_loss(weir_json_u64_of(losses, rows[i].key), rows[i].text);
}

static void print_origin(const json_t *s)
{
	static const struct {
		const char *name, *text;
	} words[] = {
		{"none", "requests alone, no packet layer"},
		{"fresh", "nothing was there before"},
		{"pins", "took over the maps of an earlier agent, with all state"},
		{"program", "took over a program that was attached with ip link, with its maps"},
		{"partly",
		 "took over what fits of an earlier agent's maps; a note below says what did not"},
	};
	const char *adoption = weir_json_text_of(s, "adoption"),
		   *file = weir_json_text_of(s, "configuration");

	for (size_t i = 0; adoption && i < ARRAY_LEN(words); i++)
		if (!strcmp(words[i].name, adoption))
			(void)printf("start       %s, version %s, pid %llu; %s\n",
				     weir_json_text_of(s, "started"),
				     weir_json_text_of(s, "version"),
				     (unsigned long long)weir_json_u64_of(s, "pid"), words[i].text);
	(void)printf("file        %s, in force since %s\n",
		     file ? file : "none (built-in defaults)",
		     weir_json_text_of(s, "applied") ? weir_json_text_of(s, "applied") : "?");
}

int weir_cmd_status(const struct weir_args *a)
{
	_cleanup_json_ json_t *s = NULL;
	int r = weir_ask(a, weir_request("status"), &s);

	if (r)
		return r;
	if (weir_args_has(a, "json"))
		return weir_print_json(s);
	print_first_line(s);
	weir_say_lines(stdout, s, "degraded", "DEGRADED: ");
	print_mode(s);
	print_interfaces(s);
	weir_print_request_status(json_object_get(s, "request"));
	if (weir_json_bool_of(s, "packets")) {
		print_limits(s);
		print_reasons(s, "reasons", "packets");
		print_reasons(s, "would", "would be");
		print_tables(s);
	}
	weir_print_fleet(json_object_get(s, "fleet"));
	print_losses(s);
	print_origin(s);
	weir_say_lines(stdout, s, "notes", "note        ");
	return WEIR_EXIT_OK;
}
