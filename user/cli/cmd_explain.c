/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir explain and weir events. Called by the table. */
#include <errno.h>
#include <string.h>

#include "user/agent/json.h"
#include "user/cli/cli.h"

static void print_clean(const char *before, const char *text, const char *after)
{
	(void)fputs(before, stdout);
	weir_say_clean(stdout, text ? text : "?");
	(void)fputs(after, stdout);
}

/* Until when, why, and how it ends. */
static void print_why(const json_t *o)
{
	char span[WEIR_SAY_MAX];

	if (weir_json_text_of(o, "until"))
		(void)printf(", for %s more (until %s)",
			     weir_say_ms(weir_json_u64_of(o, "rest_ms"), span),
			     weir_json_text_of(o, "until"));
	(void)fputc('\n', stdout);
	print_clean("why      ", weir_json_text_of(o, "why"), "\n");
	if (weir_json_text_of(o, "lift"))
		print_clean("to lift  ", weir_json_text_of(o, "lift"), "\n");
}

static void print_verdict(const json_t *o)
{
	const char *verdict = weir_json_text_of(o, "verdict"), *mode = weir_json_text_of(o, "mode"),
		   *words;
	bool monitor = mode && !strcmp(mode, "monitor");

	if (!verdict || !strcmp(verdict, "pass"))
		words = "its packets pass";
	else if (!strcmp(verdict, "drop"))
		words = monitor ? "its packets would be dropped (monitor mode: they pass)"
				: "its packets are dropped";
	else
		words = monitor ? "some of its packets would be dropped (monitor mode: they pass)"
				: "some of its packets are dropped now";
	print_clean("", weir_json_text_of(o, "address"), "");
	(void)printf(": %s", words);
	print_why(o);
}

static void print_lists(const json_t *o)
{
	char span[WEIR_SAY_MAX];
	json_t *e;
	size_t i;

	json_array_foreach(json_object_get(o, "lists"), i, e) {
		const char *reason = weir_json_text_of(e, "reason");

		(void)printf("%-8s %s, ", weir_json_text_of(e, "list"),
			     weir_json_text_of(e, "prefix"));
		if (weir_json_text_of(e, "expires"))
			(void)printf("for %s more, ",
				     weir_say_span(weir_json_u64_of(e, "expires_in_s"), span));
		print_clean("by ", weir_json_text_of(e, "where"), "");
		if (reason && strcmp(weir_json_text_of(e, "list"), "guard") != 0)
			print_clean(": ", reason, "");
		if (weir_json_text_of(e, "lift"))
			print_clean("  [", weir_json_text_of(e, "lift"), "]");
		(void)fputc('\n', stdout);
	}
}

static void print_states(const json_t *o)
{
	char retry[WEIR_SAY_MAX], blocked[WEIR_SAY_MAX];
	json_t *l;
	size_t i;

	json_array_foreach(json_object_get(o, "limits"), i, l) {
		const char *per = weir_json_text_of(l, "per");

		(void)printf("limit    %s%s: %llu of %llu %s used", weir_json_text_of(l, "limit"),
			     per && !strcmp(per, "destination") ? " (sent to it)"
			     : per && !strcmp(per, "all")	? " (by all together)"
								: "",
			     (unsigned long long)weir_json_u64_of(l, "used"),
			     (unsigned long long)weir_json_u64_of(l, "capacity"),
			     weir_json_text_of(l, "unit"));
		if (weir_json_u64_of(l, "blocked_for_ms"))
			(void)printf(", blocked for %s more",
				     weir_say_ms(weir_json_u64_of(l, "blocked_for_ms"), blocked));
		else if (weir_json_u64_of(l, "retry_in_ms"))
			(void)printf(", admits again in %s",
				     weir_say_ms(weir_json_u64_of(l, "retry_in_ms"), retry));
		if (weir_json_text_of(l, "mode") &&
		    !strcmp(weir_json_text_of(l, "mode"), "monitor"))
			(void)printf(" (monitor)");
		(void)fputc('\n', stdout);
	}
	if (!json_array_size(json_object_get(o, "limits")))
		(void)printf("limit    nothing counted against it now\n");
}

/* An agent without interfaces: what the fleet's other hosts do with it. */
static void print_fleet(const json_t *o)
{
	const char *verdict = weir_json_text_of(o, "fleet_verdict");

	if (!verdict)
		return;
	(void)printf("fleet    %s",
		     !strcmp(verdict, "drop")
			     ? "it is blocked: hosts with interfaces drop its packets"
			     : "hosts with interfaces let its packets pass");
	print_why(o);
	print_lists(o);
}

/* What the request layer counts by this client. */
static void print_requests(const json_t *r)
{
	char span[WEIR_SAY_MAX];
	json_t *l;
	size_t i;

	if (weir_json_text_of(r, "suspicious_until"))
		(void)printf("requests suspicious until %s: limit \"suspicious\" acts too\n",
			     weir_json_text_of(r, "suspicious_until"));
	json_array_foreach(json_object_get(r, "limits"), i, l) {
		__u64 retry_ms = weir_json_u64_of(l, "retry_in_ms"),
		      reset_ms = weir_json_u64_of(l, "reset_in_ms");
		const char *mode = weir_json_text_of(l, "mode");

		print_clean("requests ", weir_json_text_of(l, "limit"), " by ");
		print_clean("", weir_json_text_of(l, "key"), "");
		(void)printf(": %llu of %llu left",
			     (unsigned long long)weir_json_u64_of(l, "remaining"),
			     (unsigned long long)weir_json_u64_of(l, "size"));
		if (!weir_json_bool_of(l, "admits") && retry_ms)
			(void)printf(", REFUSES, admits again in %s", weir_say_ms(retry_ms, span));
		else if (reset_ms)
			(void)printf(", more in %s", weir_say_ms(reset_ms, span));
		if (mode && !strcmp(mode, "monitor"))
			(void)printf(" (monitor)");
		print_clean("  [", weir_json_text_of(l, "lift"), "]\n");
	}
	if (weir_json_text_of(r, "error"))
		print_clean("requests ", weir_json_text_of(r, "error"), "\n");
	else if (!json_array_size(json_object_get(r, "limits")))
		(void)printf("requests no limit counts by that\n");
}

static void print_all(const json_t *reply)
{
	const json_t *requests = json_object_get(reply, "request");
	const char *mode = weir_json_text_of(reply, "mode");

	if (weir_json_text_of(reply, "verdict")) {
		print_verdict(reply);
		print_lists(reply);
		print_states(reply);
	} else {
		print_clean("", weir_json_text_of(reply, "who"), "");
		(void)printf("%s%s\n",
			     weir_json_text_of(reply, "address")
				     ? ": this agent judges requests, not packets"
				     : "",
			     mode && !strcmp(mode, "monitor")
				     ? " (monitor mode: nothing is refused)"
				     : "");
		print_fleet(reply);
	}
	if (requests)
		print_requests(requests);
}

int weir_cmd_explain(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	json_t *q;
	int r;

	if (!a->n && !weir_args_has(a, "api-key") && !weir_args_has(a, "user"))
		return weir_fail(WEIR_EXIT_USAGE, "weir explain needs an address (weir explain "
						  "198.51.100.7), --api-key - or --user NAME");
	q = weir_request("explain");
	r = weir_set_client(a, q);
	if (r) {
		json_decref(q);
		return r;
	}
	if (a->n)
		weir_json_set_text(q, "ip", a->arg[0]);
	r = weir_ask(a, q, &reply);
	if (r)
		return r;
	if (weir_args_has(a, "json"))
		return weir_print_json(reply);
	print_all(reply);
	return WEIR_EXIT_OK;
}

/* --- events --------------------------------------------------------------------------------------- */

static void print_event(const json_t *e, bool json)
{
	const char *key;
	json_t *v;
	bool first = true;

	if (json) {
		(void)json_dumpf(e, stdout, JSON_COMPACT); /* the flush tells of failures */
		(void)fputc('\n', stdout);
		return;
	}
	json_object_foreach((json_t *)(uintptr_t)e, key, v) {
		bool bare = !strcmp(key, "time") || !strcmp(key, "action");

		(void)printf("%s%s%s", first ? "" : " ", bare ? "" : key, bare ? "" : "=");
		first = false;
		if (json_is_string(v))
			weir_say_clean(stdout, json_string_value(v));
		else if (json_is_integer(v))
			(void)printf("%lld", (long long)json_integer_value(v));
		else
			(void)printf("%s", json_is_true(v) ? "true" : "false");
	}
	(void)fputc('\n', stdout);
}

static int follow(struct weir_talk *t, bool json)
{
	for (;;) {
		_cleanup_json_ json_t *line = NULL;
		int r = weir_talk_next(t, -1, &line);

		if (r == -EAGAIN)
			continue;
		if (r)
			return r;
		if (json_object_get(line, "event"))
			print_event(json_object_get(line, "event"), json);
		else if (json_object_get(line, "lost"))
			(void)fprintf(stderr,
				      "note: %llu events were left out, since they were not read "
				      "in time\n",
				      (unsigned long long)weir_json_u64_of(line, "lost"));
		if (fflush(stdout) == EOF)
			return WEIR_EXIT_OK; /* the reader has had enough */
	}
}

int weir_cmd_events(const struct weir_args *a)
{
	_cleanup_(weir_talk_freep) struct weir_talk *t = NULL;
	_cleanup_json_ json_t *reply = NULL;
	bool json = weir_args_has(a, "json"), go_on = weir_args_has(a, "follow");
	json_t *q = weir_request("events"), *e;
	__u64 left_out;
	size_t i;
	int r;

	if (weir_args_get(a, "limit"))
		weir_json_set_text(q, "limit", weir_args_get(a, "limit"));
	weir_json_set_bool(q, "follow", go_on);
	r = weir_talk_open(a, &t);
	if (r) {
		json_decref(q);
		return r;
	}
	r = weir_talk_ask(t, q, &reply);
	if (r)
		return r;
	json_array_foreach(json_object_get(reply, "events"), i, e)
		print_event(e, json);
	left_out = weir_json_u64_of(reply, "suppressed") + weir_json_u64_of(reply, "capped") +
		   weir_json_u64_of(reply, "lost");
	if (left_out && !json)
		(void)fprintf(stderr,
			      "note: a sample; %llu more since the start were over "
			      "log.events_per_second or lost\n",
			      (unsigned long long)left_out);
	if (fflush(stdout) == EOF)
		return WEIR_EXIT_FAILED;
	return go_on ? follow(t, json) : WEIR_EXIT_OK;
}
