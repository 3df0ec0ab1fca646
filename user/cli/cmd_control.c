/* SPDX-License-Identifier: GPL-2.0-or-later */
/* run, mode, reload, confirm, detach, version, and what belongs to the shared store, which this version does not have. */
#include <errno.h>
#include <string.h>

#include "user/agent/agent.h"
#include "user/agent/json.h"
#include "user/base/clock.h"
#include "user/cli/cli.h"
#include "user/datapath/datapath.h"

int weir_cmd_run(const struct weir_args *a)
{
	const char *interfaces[WEIR_ARGS_MAX + 1] = {};
	struct weir_agent_options o = {
		.conf_path = weir_conf_path(a),
		.interfaces = interfaces,
		.monitor = weir_args_has(a, "monitor"),
		.ssh = weir_ssh_connection(),
	};
	struct weir_error e = {};
	__u64 seconds;
	size_t n = 0;

	if (weir_args_seconds(a, "confirm", &seconds, &e) < 0)
		return weir_fail(WEIR_EXIT_USAGE, "%s", e.text);
	o.confirm_ns = seconds * WEIR_NS_PER_S;
	for (size_t i = 0; i < a->n_given; i++)
		if (!strcmp(a->given[i].option->name, "interface"))
			interfaces[n++] = a->given[i].value;
	return weir_agent_run(&o);
}

int weir_cmd_mode(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	const char *mode = a->arg[0];
	struct weir_error e = {};
	char span[WEIR_SAY_MAX];
	json_t *q;
	__u64 seconds;
	int r;

	if (strcmp(mode, "monitor") != 0 && strcmp(mode, "enforce") != 0)
		return weir_fail(WEIR_EXIT_USAGE, "the mode is monitor or enforce, not %.32s",
				 mode);
	if (weir_args_seconds(a, "for", &seconds, &e) < 0)
		return weir_fail(WEIR_EXIT_USAGE, "%s", e.text);
	q = weir_request("mode");
	weir_json_set_text(q, "mode", mode);
	weir_json_set_u64(q, "for_s", seconds);
	r = weir_ask(a, q, &reply);
	if (r)
		return r;
	(void)printf("%s mode%s%s\n", mode, seconds ? " for " : "",
		     seconds ? weir_say_span(seconds, span) : "");
	return WEIR_EXIT_OK;
}

int weir_cmd_reload(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	struct weir_error e = {};
	char span[WEIR_SAY_MAX];
	json_t *q, *line;
	__u64 seconds;
	size_t i;
	int r;

	if (weir_args_seconds(a, "confirm", &seconds, &e) < 0)
		return weir_fail(WEIR_EXIT_USAGE, "%s", e.text);
	q = weir_request("reload");
	weir_json_set_u64(q, "confirm_s", seconds);
	r = weir_ask(a, q, &reply);
	if (r)
		return r;
	weir_print_notes(reply);
	json_array_foreach(json_object_get(reply, "changes"), i, line)
		(void)printf("%s\n", json_string_value(line));
	if (!json_array_size(json_object_get(reply, "changes")))
		(void)printf("nothing has changed\n");
	if (seconds)
		(void)printf("goes back in %s unless you say: weir confirm\n",
			     weir_say_span(seconds, span));
	return WEIR_EXIT_OK;
}

int weir_cmd_confirm(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	int r = weir_ask(a, weir_request("confirm"), &reply);

	if (r == WEIR_EXIT_OK)
		(void)printf("confirmed\n");
	return r;
}

/* Through the agent, which must know; without one, by the pins. */
int weir_cmd_detach(const struct weir_args *a)
{
	const char *ifname = weir_args_get(a, "interface"),
		   *instance = weir_args_get(a, "instance");
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	_cleanup_(weir_talk_freep) struct weir_talk *t = NULL;
	_cleanup_json_ json_t *reply = NULL;
	struct weir_conf_problems problems = {};
	struct weir_error e = {};
	json_t *q, *name;
	size_t i;
	int r;

	if (!instance && weir_talk_probe(a) && weir_talk_open(a, &t) == WEIR_EXIT_OK) {
		q = weir_request("detach");
		if (ifname)
			weir_json_set_text(q, "interface", ifname);
		r = weir_talk_ask(t, q, &reply);
		if (r)
			return r;
		json_array_foreach(json_object_get(reply, "detached"), i, name)
			(void)printf("detached from %s\n", json_string_value(name));
		if (!json_array_size(json_object_get(reply, "detached")))
			(void)printf("nothing was attached\n");
		return WEIR_EXIT_OK;
	}
	r = weir_conf_load(weir_conf_path(a), &c, &problems);
	if (r < 0) /* a broken file must not keep anybody from detaching */
		r = weir_conf_load(NULL, &c, &problems);
	weir_conf_problems_done(&problems);
	if (r < 0)
		return weir_fail(WEIR_EXIT_FAILED, "%s", strerror(-r));
	r = weir_datapath_detach_pinned(c->bpffs, instance ? instance : c->instance, ifname, &e);
	if (r < 0)
		return weir_fail(WEIR_EXIT_FAILED, "%s", e.text);
	(void)printf("detached%s%s; no agent was running\n", ifname ? " from " : "",
		     ifname ? ifname : "");
	return WEIR_EXIT_OK;
}

int weir_cmd_version(const struct weir_args *a)
{
	(void)a;
	(void)printf("weir %s, map layout %d\n", WEIR_VERSION, WEIR_ABI);
	return WEIR_EXIT_OK;
}
