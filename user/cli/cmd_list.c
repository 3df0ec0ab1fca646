/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir block|allow add, del, list, load. Called by the table. */
#include <errno.h>
#include <string.h>

#include "user/agent/json.h"
#include "user/base/clock.h"
#include "user/cli/cli.h"

#define CHUNK	 2000
#define PATIENCE (2 * WEIR_NS_PER_S) /* work that lasts longer shows how far it is */

/* "block" of "block add". */
static json_t *list_request(const struct weir_args *a, const char *cmd)
{
	json_t *q = weir_request(cmd);

	weir_json_set_text(q, "list", a->command->name[0] == 'a' ? "allow" : "block");
	return q;
}

static int set_common(const struct weir_args *a, json_t *q)
{
	struct weir_error e = {};
	__u64 seconds;

	if (weir_args_seconds(a, "for", &seconds, &e) < 0)
		return weir_fail(WEIR_EXIT_USAGE, "%s", e.text);
	if (seconds)
		weir_json_set_u64(q, "for_s", seconds);
	if (weir_args_get(a, "reason"))
		weir_json_set_text(q, "reason", weir_args_get(a, "reason"));
	return WEIR_EXIT_OK;
}

int weir_cmd_list_add(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	const json_t *entry;
	const char *expires;
	json_t *q = list_request(a, "list_add");
	int r = set_common(a, q);

	if (r) {
		json_decref(q);
		return r;
	}
	weir_json_set_text(q, "prefix", a->arg[0]);
	if (weir_args_has(a, "force"))
		weir_json_set_bool(q, "force", true);
	r = weir_ask(a, q, &reply);
	if (r)
		return r;
	entry = json_object_get(reply, "entry");
	expires = weir_json_text_of(entry, "expires");
	(void)printf("%s %s, %s%s\n", weir_json_text_of(entry, "prefix"),
		     a->command->name[0] == 'a' ? "is allowed" : "is blocked",
		     expires ? "until " : "for ever", expires ? expires : "");
	weir_print_notes(reply);
	return WEIR_EXIT_OK;
}

int weir_cmd_list_del(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	const char *origin = weir_args_get(a, "origin");
	json_t *q;
	__u64 n;
	int r;

	if (!a->n && !origin)
		return weir_fail(WEIR_EXIT_USAGE, "weir %s needs a prefix, or --origin NAME",
				 a->command->name);
	q = list_request(a, "list_del");
	if (a->n)
		weir_json_set_text(q, "prefix", a->arg[0]);
	if (origin)
		weir_json_set_text(q, "origin", origin);
	r = weir_ask(a, q, &reply);
	if (r)
		return r;
	n = weir_json_u64_of(reply, "deleted");
	if (n)
		(void)printf("%llu entr%s deleted\n", (unsigned long long)n, n == 1 ? "y" : "ies");
	else
		(void)printf("there was no such entry by command\n");
	weir_print_notes(reply);
	return WEIR_EXIT_OK;
}

static void print_entry(const json_t *e)
{
	const char *reason = weir_json_text_of(e, "reason"), *who = weir_json_text_of(e, "who");
	const char *expires = weir_json_text_of(e, "expires");
	char span[WEIR_SAY_MAX];

	(void)printf("%-24s ", weir_json_text_of(e, "prefix"));
	if (expires)
		(void)printf("%-12s ", weir_say_span(weir_json_u64_of(e, "expires_in_s"), span));
	else
		(void)printf("%-12s ", "for ever");
	weir_say_clean(stdout, weir_json_text_of(e, "where") ? weir_json_text_of(e, "where") : "?");
	if (who) {
		(void)fputs(" by ", stdout);
		weir_say_clean(stdout, who);
	}
	if (reason) {
		(void)fputs(": ", stdout);
		weir_say_clean(stdout, reason);
	}
	if (weir_json_text_of(e, "host")) {
		(void)fputs(" [fleet, ", stdout);
		weir_say_clean(stdout, weir_json_text_of(e, "host"));
		(void)fputs("]", stdout);
	}
	if (weir_json_bool_of(e, "held"))
		(void)fputs(" (not here: this host guards or allows it)", stdout);
	if (weir_json_bool_of(e, "force"))
		(void)fputs(" (by force)", stdout);
	(void)fputc('\n', stdout);
}

int weir_cmd_list_list(const struct weir_args *a)
{
	_cleanup_(weir_talk_freep) struct weir_talk *t = NULL;
	_cleanup_json_ json_t *all = json_array();
	bool json = weir_args_has(a, "json");
	size_t offset = 0, n;
	int r = weir_talk_open(a, &t);

	if (r)
		return r;
	do {
		_cleanup_json_ json_t *reply = NULL;
		json_t *q = list_request(a, "list_show"), *e;
		size_t i;

		weir_json_set_u64(q, "offset", offset);
		r = weir_talk_ask(t, q, &reply);
		if (r)
			return r;
		n = json_array_size(json_object_get(reply, "entries"));
		if (json)
			(void)json_array_extend(
				all, json_object_get(reply, "entries")); /* out of memory: fewer */
		else
			json_array_foreach(json_object_get(reply, "entries"), i, e)
				print_entry(e);
		offset += n;
	} while (n);
	if (json)
		return weir_print_json(all);
	if (!offset)
		(void)printf("the list is empty\n");
	return WEIR_EXIT_OK;
}

/* --- load ---------------------------------------------------------------------------------------- */

struct progress {
	__u64 began_ns, shown_ns;
	bool terminal, shown;
};

static void show_progress(struct progress *p, size_t done, size_t all)
{
	__u64 now_ns = weir_clock_ns(CLOCK_MONOTONIC);
	int full = all ? (int)(done * 30 / all) : 30;

	if (now_ns - p->began_ns < PATIENCE ||
	    now_ns - p->shown_ns < (p->terminal ? 1 : 10) * WEIR_NS_PER_S / 5)
		return;
	p->shown_ns = now_ns;
	p->shown = true;
	if (p->terminal)
		(void)fprintf(stderr, "\r[%.*s%.*s] %zu of %zu", full,
			      "##############################", 30 - full,
			      "..............................", done, all);
	else
		(void)fprintf(stderr, "%zu of %zu\n", done, all);
}

static void end_progress(const struct progress *p)
{
	if (p->shown && p->terminal)
		(void)fputs("\r\033[K", stderr);
}

static int send_entries(struct weir_talk *t, const struct weir_prefix_list *l)
{
	struct progress p = {.began_ns = weir_clock_ns(CLOCK_MONOTONIC),
			     .terminal = isatty(STDERR_FILENO) == 1};
	int r = WEIR_EXIT_OK;

	for (size_t i = 0; i < l->n && r == WEIR_EXIT_OK;) {
		_cleanup_json_ json_t *reply = NULL;
		json_t *q = weir_request("load_add"), *entries = json_array();
		char text[WEIR_PREFIX_STRLEN];

		for (size_t k = 0; k < CHUNK && i < l->n; k++, i++)
			(void)json_array_append_new(entries,
						    json_string(
							    weir_prefix_format(&l->item[i], text)));
		weir_json_set(q, "entries", entries);
		r = weir_talk_ask(t, q, &reply);
		show_progress(&p, i, l->n);
	}
	end_progress(&p);
	return r;
}

static bool is_stdin(const struct weir_args *a)
{
	return !strcmp(a->arg[0], "-");
}

static int load_begin(const struct weir_args *a, struct weir_talk *t)
{
	_cleanup_json_ json_t *reply = NULL;
	const char *origin = weir_args_get(a, "origin"), *slash = strrchr(a->arg[0], '/');
	json_t *q = list_request(a, "load_begin");
	int r = set_common(a, q);

	if (r) {
		json_decref(q);
		return r;
	}
	if (!origin)
		origin = is_stdin(a) ? "stdin" : slash ? slash + 1 : a->arg[0];
	weir_json_set_text(q, "origin", origin);
	return weir_talk_ask(t, q, &reply);
}

int weir_cmd_list_load(const struct weir_args *a)
{
	_cleanup_(weir_talk_freep) struct weir_talk *t = NULL;
	_cleanup_json_ json_t *reply = NULL;
	struct weir_conf_problems problems = {};
	struct weir_prefix_list list = {};
	const char *path = is_stdin(a) ? "/dev/stdin" : a->arg[0];
	int r;

	if (weir_conf_list_file(path, &list, &problems) < 0) {
		weir_conf_problems_print(&problems, path, stderr);
		weir_conf_problems_done(&problems);
		weir_prefix_list_done(&list);
		return weir_fail(WEIR_EXIT_USAGE, "%s: nothing was added", path);
	}
	weir_conf_problems_done(&problems);
	r = weir_talk_open(a, &t);
	if (r == WEIR_EXIT_OK)
		r = load_begin(a, t);
	if (r == WEIR_EXIT_OK)
		r = send_entries(t, &list);
	if (r == WEIR_EXIT_OK)
		r = weir_talk_ask(t, weir_request("load_commit"), &reply);
	if (r == WEIR_EXIT_OK) {
		(void)printf("%llu added, %llu were there already\n",
			     (unsigned long long)weir_json_u64_of(reply, "added"),
			     (unsigned long long)weir_json_u64_of(reply, "extended"));
		weir_print_notes(reply);
	}
	weir_prefix_list_done(&list);
	return r;
}
