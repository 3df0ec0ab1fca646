/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir limit push, pull; and the fleet's part of status. Called by the table and by cmd_status.c. */
#include <string.h>

#include "user/agent/json.h"
#include "user/cli/cli.h"

int weir_cmd_limit_push(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	int r = weir_ask(a, weir_request("limit_push"), &reply);

	if (r)
		return r;
	(void)printf("published as generation %llu: agents with limits_from: store follow (weir "
		     "status tells which)\n",
		     (unsigned long long)weir_json_u64_of(reply, "generation"));
	weir_print_notes(reply);
	return WEIR_EXIT_OK;
}

int weir_cmd_limit_pull(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	json_t *line;
	size_t i;
	int r = weir_ask(a, weir_request("limit_pull"), &reply);

	if (r)
		return r;
	json_array_foreach(json_object_get(reply, "changes"), i, line)
		(void)printf("%s\n", json_string_value(line));
	(void)printf("generation %llu, published by ",
		     (unsigned long long)weir_json_u64_of(reply, "generation"));
	weir_say_clean(stdout,
		       weir_json_text_of(reply, "host") ? weir_json_text_of(reply, "host") : "?");
	(void)printf(" is in force%s\n",
		     weir_json_bool_of(reply, "follows")
			     ? ""
			     : " until the next reload (limits_from: store follows it always)");
	weir_print_notes(reply);
	return WEIR_EXIT_OK;
}

void weir_print_store_diff(const json_t *diff)
{
	const json_t *s = json_object_get(diff, "store");
	const char *host = weir_json_text_of(s, "host"), *wrong = weir_json_text_of(s, "wrong");
	__u64 generation = weir_json_u64_of(s, "generation");
	json_t *line;
	size_t i;

	if (!s)
		return;
	if (!generation) {
		(void)printf("store: nothing is published (weir limit push)\n");
		return;
	}
	(void)printf("store: generation %llu by ", (unsigned long long)generation);
	weir_say_clean(stdout, host ? host : "?");
	(void)printf(", %s", weir_json_text_of(s, "at") ? weir_json_text_of(s, "at") : "?");
	if (weir_json_u64_of(s, "in_force"))
		(void)printf("; in force: generation %llu\n",
			     (unsigned long long)weir_json_u64_of(s, "in_force"));
	else
		(void)printf("; this host has its limits from the file\n");
	if (wrong) {
		(void)fputs("store is wrong here: ", stdout);
		weir_say_clean(stdout, wrong);
		(void)fputc('\n', stdout);
	}
	json_array_foreach(json_object_get(s, "would_change"), i, line)
		(void)printf("pull would change: %s\n", json_string_value(line));
	weir_print_notes(s);
}

/* What an agent says of itself is a second old. */
#define LAGS_MS 3000

static void print_agent(const json_t *g, __u64 published, bool lately)
{
	__u64 limits = weir_json_u64_of(g, "limits"), behind = weir_json_u64_of(g, "behind"),
	      waiting = weir_json_u64_of(g, "waiting"), age = weir_json_u64_of(g, "seen_ms_ago");
	const char *host = weir_json_text_of(g, "host"), *version = weir_json_text_of(g, "version"),
		   *instance = weir_json_text_of(g, "instance");

	(void)fputs("agent       ", stdout);
	weir_say_clean(stdout, host ? host : "?");
	if (instance && strcmp(instance, "weir") != 0) { /* several on one host */
		(void)fputc('/', stdout);
		weir_say_clean(stdout, instance);
	}
	(void)printf("%s: version ", weir_json_bool_of(g, "self") ? " (this one)" : "");
	weir_say_clean(stdout, version ? version : "?");
	if (!weir_json_bool_of(g, "live"))
		(void)printf(", not seen for %llu s", (unsigned long long)(age / 1000));
	if (weir_json_bool_of(g, "limits_from_store"))
		(void)printf(", limits of generation %llu%s", (unsigned long long)limits,
			     weir_json_bool_of(g, "limits_failed") ? " (newer ones are wrong there)"
			     : limits == published || lately	   ? ""
								   : " (LAGS)");
	if (behind)
		(void)printf(", %llu changes of lists behind", (unsigned long long)behind);
	if (waiting)
		(void)printf(", %llu of its own not in the store", (unsigned long long)waiting);
	(void)fputc('\n', stdout);
}

void weir_print_fleet(const json_t *f)
{
	const json_t *limits = json_object_get(f, "limits"),
		     *sources = json_object_get(f, "sources");
	const char *state = weir_json_text_of(f, "state");
	__u64 lag_ms = weir_json_u64_of(f, "lag_ms"), held = weir_json_u64_of(f, "held");
	json_t *g;
	size_t i;

	if (!f)
		return;
	(void)printf("fleet       %llu agent%s alive; the store is %s since %s",
		     (unsigned long long)weir_json_u64_of(f, "live"),
		     weir_json_u64_of(f, "live") == 1 ? "" : "s",
		     state && !strcmp(state, "away")	   ? "AWAY"
		     : state && !strcmp(state, "restores") ? "told again what it has lost"
		     : state && !strcmp(state, "reads")	   ? "read anew"
							   : "followed",
		     weir_json_text_of(f, "since") ? weir_json_text_of(f, "since") : "?");
	if (weir_json_bool_of(f, "lists"))
		(void)printf("; %llu entries, %llu.%llu s old, %llu own changes wait",
			     (unsigned long long)weir_json_u64_of(f, "entries"),
			     (unsigned long long)(lag_ms / 1000),
			     (unsigned long long)(lag_ms % 1000 / 100),
			     (unsigned long long)weir_json_u64_of(f, "waiting"));
	(void)fputc('\n', stdout);
	if (held)
		(void)printf("fleet       %llu entr%s not act here: this host guards or allows "
			     "what they block (weir block list)\n",
			     (unsigned long long)held, held == 1 ? "y does" : "ies do");
	if (weir_json_u64_of(limits, "published"))
		(void)printf("limits      generation %llu is published; %s\n",
			     (unsigned long long)weir_json_u64_of(limits, "published"),
			     weir_json_bool_of(limits, "follows") ? "this host follows"
			     : weir_json_bool_of(limits, "pulled")
				     ? "pulled by command until reload"
				     : "this host has those of its file");
	if (sources)
		(void)printf("fleet       %llu packet limit%s counted together: %llu sources "
			     "followed, %llu blocked by this host\n",
			     (unsigned long long)weir_json_u64_of(sources, "limits"),
			     weir_json_u64_of(sources, "limits") == 1 ? "" : "s",
			     (unsigned long long)weir_json_u64_of(sources, "followed"),
			     (unsigned long long)weir_json_u64_of(sources, "blocked"));
	json_array_foreach(json_object_get(f, "agents"), i, g)
		print_agent(g, weir_json_u64_of(limits, "published"),
			    weir_json_u64_of(limits, "published_ms_ago") < LAGS_MS);
}
