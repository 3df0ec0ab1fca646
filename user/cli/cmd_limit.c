/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir limit list, set, unset, reset, diff. Called by the table. */
#include <string.h>

#include "user/agent/json.h"
#include "user/base/str.h"
#include "user/cli/cli.h"

static void print_overrides(const json_t *l)
{
	json_t *v;
	size_t i;

	json_array_foreach(json_object_get(l, "overridden"), i, v) {
		(void)printf("%-24s overridden: %s=%s since %s by ", "",
			     weir_json_text_of(v, "key"), weir_json_text_of(v, "value"),
			     weir_json_text_of(v, "since"));
		weir_say_clean(stdout,
			       weir_json_text_of(v, "who") ? weir_json_text_of(v, "who") : "?");
		(void)printf(" (until reload)\n");
	}
}

static void print_limit(const json_t *l)
{
	const json_t *pass = json_object_get(l, "pass"), *over = json_object_get(l, "over");
	const char *mode = weir_json_text_of(l, "mode");
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX];

	(void)printf("%-24s %s, per %s%s\n", weir_json_text_of(l, "name"),
		     weir_json_text_of(l, "text"), weir_json_text_of(l, "per"),
		     mode && !strcmp(mode, "monitor") ? ", monitor: drops nothing" : "");
	(void)printf("%-24s passes %s/s, over %s/s; in all %llu over\n", "",
		     weir_str_format_count(weir_json_u64_of(pass, "packets_per_second"), a),
		     weir_str_format_count(weir_json_u64_of(over, "packets_per_second"), b),
		     (unsigned long long)weir_json_u64_of(over, "packets"));
	print_overrides(l);
}

int weir_cmd_limit_list(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	json_t *list, *requests, *l;
	size_t i;
	int r = weir_ask(a, weir_request("limit_list"), &reply);

	if (r)
		return r;
	list = json_object_get(reply, "limits");
	requests = json_object_get(reply, "request_limits");
	json_array_foreach(list, i, l)
		weir_json_set_text(l, "layer", "packet");
	json_array_foreach(requests, i, l)
		weir_json_set_text(l, "layer", "request");
	if (weir_args_has(a, "json")) {
		(void)json_array_extend(list, requests); /* out of memory: fewer */
		return weir_print_json(list);
	}
	json_array_foreach(list, i, l)
		print_limit(l);
	json_array_foreach(requests, i, l) {
		weir_print_request_limit(l, "");
		print_overrides(l);
	}
	if (!json_array_size(list) && !json_array_size(requests))
		(void)printf("there are no limits\n");
	return WEIR_EXIT_OK;
}

static void print_changes(const json_t *reply)
{
	json_t *line;
	size_t i;

	json_array_foreach(json_object_get(reply, "changes"), i, line)
		(void)printf("%s\n", json_string_value(line));
	if (!json_array_size(json_object_get(reply, "changes")))
		(void)printf("nothing has changed\n");
}

int weir_cmd_limit_set(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	json_t *q = weir_request("limit_set"), *set = json_object();
	int r = WEIR_EXIT_OK;

	weir_json_set_text(q, "name", a->arg[0]);
	weir_json_set(q, "set", set);
	for (size_t i = 1; i < a->n && r == WEIR_EXIT_OK; i++) {
		const char *equals = strchr(a->arg[i], '=');
		char key[32];

		if (!equals || equals == a->arg[i] || (size_t)(equals - a->arg[i]) >= sizeof(key)) {
			r = weir_fail(WEIR_EXIT_USAGE, "%.64s is not KEY=VALUE (rate=500/s)",
				      a->arg[i]);
			break;
		}
		(void)snprintf(key, sizeof(key), "%.*s", (int)(equals - a->arg[i]), a->arg[i]);
		if (json_object_get(set, key))
			r = weir_fail(WEIR_EXIT_USAGE, "%s is given twice", key);
		weir_json_set_text(set, key, equals + 1);
	}
	if (r) {
		json_decref(q);
		return r;
	}
	weir_json_set_bool(q, "save", weir_args_has(a, "save"));
	r = weir_ask(a, q, &reply);
	if (r)
		return r;
	print_changes(reply);
	(void)printf(
		weir_args_has(a, "save")
			? "saved in the configuration file\n"
			: "until the next reload or restart (--save writes it into the file)\n");
	weir_print_notes(reply);
	return WEIR_EXIT_OK;
}

int weir_cmd_limit_unset(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	json_t *q = weir_request("limit_unset");
	int r;

	weir_json_set_text(q, "name", a->arg[0]);
	if (a->n > 1)
		weir_json_set_text(q, "key", a->arg[1]);
	r = weir_ask(a, q, &reply);
	if (r == WEIR_EXIT_OK)
		print_changes(reply);
	return r;
}

int weir_cmd_limit_reset(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	bool one =
		weir_args_has(a, "ip") || weir_args_has(a, "user") || weir_args_has(a, "api-key");
	const char *ip = weir_args_get(a, "ip"), *user = weir_args_get(a, "user");
	json_t *q = weir_request("limit_reset");
	int r = weir_set_client(a, q);

	if (r) {
		json_decref(q);
		return r;
	}
	weir_json_set_text(q, "name", a->arg[0]);
	r = weir_ask(a, q, &reply);
	if (r)
		return r;
	(void)printf("limit %s has forgotten ", a->arg[0]);
	weir_say_clean(stdout, ip ? ip : user ? user : one ? "this API key" : "all sources");
	if (json_object_get(reply, "forgotten") && one)
		(void)printf(" (%llu count%s)",
			     (unsigned long long)weir_json_u64_of(reply, "forgotten"),
			     weir_json_u64_of(reply, "forgotten") == 1 ? "" : "s");
	(void)fputc('\n', stdout);
	return WEIR_EXIT_OK;
}

int weir_cmd_limit_diff(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	const json_t *changes, *overrides;
	json_t *line;
	size_t i;
	int r = weir_ask(a, weir_request("limit_diff"), &reply);

	if (r)
		return r;
	if (weir_args_has(a, "json"))
		return weir_print_json(reply);
	changes = json_object_get(reply, "reload_would_change");
	overrides = json_object_get(reply, "overrides");
	json_array_foreach(changes, i, line)
		(void)printf("reload would change: %s\n", json_string_value(line));
	json_array_foreach(overrides, i, line)
		(void)printf("overridden: %s\n", json_string_value(line));
	weir_print_notes(reply);
	weir_print_store_diff(reply);
	if (!json_array_size(changes) && !json_array_size(overrides))
		(void)printf("what is in force is what the %s says\n",
			     weir_json_u64_of(json_object_get(reply, "store"), "in_force")
				     ? "store"
				     : "file");
	return WEIR_EXIT_OK;
}
