/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What weir status prints of the request layer. Called by cmd_status.c. */
#include <string.h>

#include "user/agent/json.h"
#include "user/base/str.h"
#include "user/cli/cli.h"

static __u64 rate_of(const json_t *o, const char *key)
{
	return weir_json_u64_of(json_object_get(o, key), "per_second");
}

static __u64 count_of(const json_t *o, const char *key)
{
	return weir_json_u64_of(json_object_get(o, key), "n");
}

/* Its clients count as one. */
static void print_crowd(const json_t *listener)
{
	const json_t *s = json_object_get(listener, "shared_address");
	const char *listen = weir_json_text_of(listener, "listen"),
		   *hint = weir_json_text_of(s, "hint");

	if (!s)
		return;
	(void)printf("warning     %llu %% of the latest checks on ",
		     (unsigned long long)weir_json_u64_of(s, "percent"));
	weir_say_clean(stdout, listen ? listen : "?");
	(void)printf(" count as one private address, %s: ",
		     weir_json_text_of(s, "address") ? weir_json_text_of(s, "address") : "?");
	weir_say_clean(stdout, hint ? hint : "?");
	(void)fputc('\n', stdout);
}

static void print_listeners(const json_t *r)
{
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(r, "listeners"), i, o) {
		(void)fputs("listener    ", stdout);
		weir_say_clean(stdout, weir_json_text_of(o, "listen"));
		(void)printf(" %s, %llu connections\n", weir_json_text_of(o, "profile"),
			     (unsigned long long)weir_json_u64_of(o, "connections"));
		print_crowd(o);
	}
}

static void print_checks(const json_t *r)
{
	const json_t *c = json_object_get(r, "checks");
	char all[WEIR_STR_MAX], allowed[WEIR_STR_MAX], refused[WEIR_STR_MAX];
	__u64 p50 = weir_json_u64_of(c, "p50_us"), p99 = weir_json_u64_of(c, "p99_us");

	(void)printf(
		"requests    %s/s checks: %s/s allowed, %s/s refused; %llu in all, %llu refused",
		weir_str_format_count(rate_of(c, "all"), all),
		weir_str_format_count(rate_of(c, "allowed"), allowed),
		weir_str_format_count(rate_of(c, "refused"), refused),
		(unsigned long long)count_of(c, "all"), (unsigned long long)count_of(c, "refused"));
	if (p50 && p99)
		(void)printf("; half within %llu us, 99 %% within %llu us", (unsigned long long)p50,
			     (unsigned long long)p99);
	(void)fputc('\n', stdout);
}

void weir_print_request_limit(const json_t *l, const char *head)
{
	const char *mode = weir_json_text_of(l, "mode");
	char passed[WEIR_STR_MAX], refused[WEIR_STR_MAX], would[WEIR_STR_MAX];
	__u64 n;

	(void)printf("%s%-20s ", head, weir_json_text_of(l, "name"));
	weir_say_clean(stdout, weir_json_text_of(l, "text") ? weir_json_text_of(l, "text") : "");
	(void)printf(": passes %s/s, refuses %s/s, %llu in all",
		     weir_str_format_count(rate_of(l, "passed"), passed),
		     weir_str_format_count(rate_of(l, "refused_all"), refused),
		     (unsigned long long)count_of(l, "refused_all"));
	n = count_of(l, "would");
	if (n)
		(void)printf(", would refuse %s/s, %llu in all",
			     weir_str_format_count(rate_of(l, "would"), would),
			     (unsigned long long)n);
	if (weir_json_text_of(l, "last_refused"))
		(void)printf(", last at %s", weir_json_text_of(l, "last_refused"));
	(void)printf("%s%s\n", mode && !strcmp(mode, "monitor") ? ", monitor" : "",
		     json_object_get(l, "overridden") ? ", OVERRIDDEN by command" : "");
}

static void print_store(const json_t *r)
{
	const json_t *s = json_object_get(r, "store");
	__u64 evicted = weir_json_u64_of(s, "evicted_total") + weir_json_u64_of(s, "full_total");

	(void)printf("store       %s%s: %llu of %llu states, %.1f of %.1f MB; when full, %s",
		     weir_json_text_of(s, "kind"),
		     json_object_get(r, "shared_store") ? " (of this host)" : "",
		     (unsigned long long)weir_json_u64_of(s, "entries"),
		     (unsigned long long)weir_json_u64_of(s, "entries_max"),
		     (double)weir_json_u64_of(s, "bytes") / 1e6,
		     (double)weir_json_u64_of(s, "bytes_max") / 1e6,
		     weir_json_text_of(s, "when_full"));
	if (evicted)
		(void)printf(" (%llu so far)", (unsigned long long)evicted);
	(void)fputc('\n', stdout);
}

static void print_shared(const json_t *r)
{
	const json_t *s = json_object_get(r, "shared_store");
	char decisions[WEIR_STR_MAX], calls[WEIR_STR_MAX], keys[WEIR_STR_MAX], bytes[WEIR_STR_MAX];
	const char *server = weir_json_text_of(s, "server"), *cause = weir_json_text_of(s, "cause");

	if (!s)
		return;
	(void)fputs("shared      ", stdout);
	weir_say_clean(stdout, weir_json_text_of(s, "url"));
	(void)printf(": %s", weir_say_store(s));
	if (weir_json_text_of(s, "since"))
		(void)printf(" since %s", weir_json_text_of(s, "since"));
	if (server) {
		(void)fputs(", ", stdout);
		weir_say_clean(stdout, server);
	}
	(void)printf("; %s/s decisions in %s/s calls",
		     weir_str_format_count(rate_of(s, "decisions"), decisions),
		     weir_str_format_count(rate_of(s, "calls"), calls));
	if (weir_json_u64_of(s, "p99_us"))
		(void)printf(", 99 %% within %llu us",
			     (unsigned long long)weir_json_u64_of(s, "p99_us"));
	if (json_object_get(s, "keys"))
		(void)printf("; about %s keys, %s",
			     weir_str_format_count(weir_json_u64_of(s, "keys"), keys),
			     weir_str_format_size(weir_json_u64_of(s, "key_bytes"), bytes));
	(void)printf("; %llu agents, %llu errors",
		     (unsigned long long)weir_json_u64_of(s, "agents"),
		     (unsigned long long)weir_json_u64_of(s, "errors_total"));
	if (cause) {
		(void)fputs(", the last: ", stdout);
		weir_say_clean(stdout, cause);
	}
	(void)fputc('\n', stdout);
}

/* What became of addresses that were refused too often. */
static void print_escalations(const json_t *r)
{
	const json_t *e = json_object_get(r, "escalations");
	const char *key;
	bool any = false;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)e, key, v) {
		if (!json_integer_value(v))
			continue;
		(void)printf("%s%lld %s", any ? ", " : "escalated   ",
			     (long long)json_integer_value(v), key);
		any = true;
	}
	if (any)
		(void)printf("%s\n", weir_json_u64_of(e, "blocked")
					     ? " (weir block del --origin escalation undoes all)"
					     : "");
}

/* Only what has happened. */
static void print_losses(const json_t *r)
{
	static const struct {
		const char *key, *text;
	} http[] =
		{
			{"untrusted_forwarded_total", "requests had forwarded headers of peers "
						      "that are not trusted, which were ignored"},
			{"no_address_total",
			 "requests of proxies did not say the client's address"},
			{"no_target_total", "requests of proxies did not say the path"},
			{"doubled_total", "requests of proxies had a header twice that must be "
					  "one, and which was not believed"},
			{"bad_requests_total",
			 "requests of callers were wrong (path, method, JSON, token)"},
			{"too_large_total",
			 "requests were larger than http.headers or the body may be"},
			{"left_total", "requests were left by their client before they were whole"},
			{"closed_at_limit_total", "connections were closed at http.connections"},
			{"cut_by_deadline_total",
			 "connections were closed at http.request_deadline"},
			{"spop_errors_total", "connections of HAProxy broke the protocol"},
		},
	  checks[] =
		  {
			  {"bad_path", "requests had a path, method or host that cannot be judged, "
				       "and were refused"},
			  {"no_address", "requests had no client address"},
			  {"over_budget", "decisions took longer than http.budget"},
			  {"fresh_counted_as_ip", "requests had too many new keys for one address "
						  "(new_per_ip), and counted as the address"},
		  },
	  own[] = {
		  {"queue_abandoned_total", "places in a queue were of clients that had left"},
		  {"events_lost_total", "events found their queue full"},
	  };
	const json_t *h = json_object_get(r, "http"), *c = json_object_get(r, "checks");

	for (size_t i = 0; i < ARRAY_LEN(http); i++)
		weir_say_loss(weir_json_u64_of(h, http[i].key), http[i].text);
	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		weir_say_loss(count_of(c, checks[i].key), checks[i].text);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		weir_say_loss(weir_json_u64_of(r, own[i].key), own[i].text);
}

void weir_print_request_status(const json_t *r)
{
	__u64 held = weir_json_u64_of(json_object_get(r, "http"), "held"),
	      suspicious = weir_json_u64_of(r, "suspicious");
	json_t *l;
	size_t i;

	if (!r)
		return;
	print_listeners(r);
	print_checks(r);
	json_array_foreach(json_object_get(r, "limits"), i, l)
		weir_print_request_limit(l, "requests    ");
	print_store(r);
	print_shared(r);
	if (held)
		(void)printf("held        %llu answers wait for their turn\n",
			     (unsigned long long)held);
	if (suspicious)
		(void)printf("suspicious  %llu addresses now\n", (unsigned long long)suspicious);
	print_escalations(r);
	print_losses(r);
}
