/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests of the admin socket: {"cmd":NAME, ...} to a reply {"ok":true, ...} or {"ok":false,"error":SENTENCE,
 * "code":EXIT}. Called by admin.c through start.c.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/base/log.h"

json_t *weir_reply_ok(void)
{
	json_t *o = json_object();

	weir_json_set_bool(o, "ok", true);
	return o;
}

json_t *weir_reply_error(int r, const char *text)
{
	json_t *o = json_object();

	weir_json_set_bool(o, "ok", false);
	weir_json_set_text(o, "error", text && text[0] ? text : strerror(-r));
	weir_json_set_u64(o, "code", r == -EINVAL ? 2 : 1);
	return o;
}

static json_t *on_status(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	(void)c;
	(void)request;
	return weir_agent_status(a);
}

static json_t *on_top(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	(void)c;
	(void)request;
	return weir_agent_top(a);
}

static json_t *on_explain(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	struct weir_error e = {};
	struct weir_asked q;
	int r = weir_asked_read(request, &q, &e);

	(void)c;
	if (r == 0 && !q.words)
		r = weir_error_set(&e, -EINVAL, "explain needs \"ip\", \"api_key\" or \"user\"");
	if (r == 0 && !q.who.ip && !a->l7)
		r = weir_error_set(&e, -ENOENT,
				   "this agent has no request layer (no listeners and no "
				   "request_limits): it knows addresses only");
	return r < 0 ? weir_reply_error(r, e.text) : weir_agent_explain(a, &q);
}

static json_t *on_request(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	(void)c;
	return weir_agent_ask(a, request);
}

static json_t *on_events(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	const char *limit = weir_json_text_of(request, "limit");
	json_t *reply, *list = json_array();
	unsigned stat, index;

	if (limit && !weir_agent_find_limit(a, limit, &stat, &index) &&
	    !(a->l7 && weir_l7_has_limit(a->l7, limit))) {
		char text[128];

		json_decref(list);
		(void)snprintf(text, sizeof(text), "no limit is called %.32s (weir limit list)",
			       limit);
		return weir_reply_error(-EINVAL, text);
	}
	for (__u64 back = WEIR_EVENTS_KEPT; back-- > 0;) {
		const struct weir_event_record *r = weir_events_at(a->events, back);

		if (r && (!limit || !strcmp(limit, r->limit)))
			(void)json_array_append_new(list,
						    weir_event_json(
							    r)); /* out of memory: not shown */
	}
	reply = weir_reply_ok();
	weir_json_set(reply, "events", list);
	weir_json_set_u64(reply, "suppressed", a->events->suppressed);
	weir_json_set_u64(reply, "capped", a->meter.now.events_capped);
	weir_json_set_u64(reply, "lost", a->meter.now.events_lost + a->request.now.events_lost);
	if (weir_json_bool_of(request, "follow") && c && weir_client_follow(c, limit) < 0) {
		json_decref(reply);
		return weir_reply_error(-ENOMEM, NULL);
	}
	return reply;
}

static json_t *on_limits(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	json_t *reply = weir_reply_ok();

	(void)c;
	(void)request;
	weir_json_set(reply, "limits", weir_agent_limits_json(a));
	weir_json_set(reply, "request_limits", weir_agent_request_limits_json(a));
	return reply;
}

static json_t *finish(json_t *reply, int r, const struct weir_error *e)
{
	json_t *error;

	if (r == 0)
		return reply;
	error = weir_reply_error(r, e->text);
	if (json_object_get(reply, "problems"))
		weir_json_set(error, "problems", json_incref(json_object_get(reply, "problems")));
	json_decref(reply);
	return error;
}

static json_t *on_limit_set(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	const char *name = weir_json_text_of(request, "name");
	const json_t *settings = json_object_get(request, "set");
	json_t *reply = weir_reply_ok();
	struct weir_error e = {};
	int r;

	if (!name || !json_is_object(settings))
		r = weir_error_set(&e, -EINVAL, "limit_set needs \"name\" and \"set\"");
	else
		r = weir_agent_set_override(a, name, settings, weir_json_bool_of(request, "save"),
					    c ? weir_client_who(c) : "?", reply, &e);
	return finish(reply, r, &e);
}

static json_t *on_limit_unset(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	const char *name = weir_json_text_of(request, "name");
	json_t *reply = weir_reply_ok();
	struct weir_error e = {};
	int r;

	(void)c;
	if (!name)
		r = weir_error_set(&e, -EINVAL, "limit_unset needs \"name\"");
	else
		r = weir_agent_unset_override(a, name, weir_json_text_of(request, "key"), reply,
					      &e);
	return finish(reply, r, &e);
}

/* The packet layer's limit of that name; false if there is none. */
static bool reset_packet_limit(struct weir_agent *a, const char *name, const struct weir_asked *q,
			       int *ret_r, struct weir_error *e)
{
	unsigned stat, limit;
	struct weir_tables t;

	if (!weir_agent_find_limit(a, name, &stat, &limit))
		return false;
	if (q->words && !q->who.ip)
		*ret_r = weir_error_set(e, -EINVAL,
					"%s limits packets, which have an address only (--ip ADDR)",
					name);
	else if (!weir_datapath_tables(a->dp, &t))
		*ret_r = weir_error_set(e, -EAGAIN, "there is no state table yet");
	else if (q->who.ip && t.policy->limit[limit % WEIR_LIMITS_MAX].flags & WEIR_LIMIT_ALL)
		*ret_r = weir_error_set(e, -EINVAL,
					"%s is one budget for all packets, of which no address has "
					"a part (leave --ip out)",
					name);
	else
		weir_table_reset(&t, limit, q->who.ip ? &q->ip.addr : NULL,
				 q->who.ip ? q->ip.family : 0);
	return true;
}

static json_t *on_limit_reset(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	const char *name = weir_json_text_of(request, "name");
	json_t *reply = weir_reply_ok();
	struct weir_error e = {};
	struct weir_asked q;
	size_t n = 0;
	int r = weir_asked_read(request, &q, &e);

	if (r == 0 && name && a->l7 && weir_l7_has_limit(a->l7, name)) {
		r = weir_l7_reset(a->asker, name, q.words ? &q.who : NULL, &n, &e);
		weir_json_set_u64(reply, "forgotten", n);
	} else if (r == 0 && (!name || !reset_packet_limit(a, name, &q, &r, &e))) {
		r = weir_error_set(&e, -EINVAL, "no limit is called %.32s (weir limit list)",
				   name ? name : "(nothing)");
	}
	if (r == 0)
		weir_log(WEIR_LOG_NOTICE, "limit-reset", "limit", "s", name, "source", "s",
			 q.words ? q.words : "all", "who", "s", c ? weir_client_who(c) : NULL,
			 NULL);
	return finish(reply, r, &e);
}

static json_t *on_limit_diff(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	struct weir_error e = {};
	json_t *reply = weir_agent_diff(a, &e);

	(void)c;
	(void)request;
	return reply ? reply : weir_reply_error(-EINVAL, e.text);
}

static json_t *on_limit_push(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	(void)request;
	return weir_agent_push(a, c);
}

static json_t *on_limit_pull(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	(void)request;
	return weir_agent_pull(a, c);
}

static json_t *on_mode(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	const char *mode = weir_json_text_of(request, "mode");
	__u64 for_s = weir_json_u64_of(request, "for_s");
	json_t *reply;
	struct weir_error e = {};
	int r;

	if (!mode || (strcmp(mode, "monitor") != 0 && strcmp(mode, "enforce") != 0))
		return weir_reply_error(-EINVAL, "the mode is monitor or enforce");
	if (for_s > 366ull * 86400)
		return weir_reply_error(-EINVAL,
					"--for is longer than a year; leave it out for ever");
	r = weir_agent_set_mode(a, !strcmp(mode, "monitor") ? WEIR_MODE_MONITOR : WEIR_MODE_ENFORCE,
				for_s * WEIR_NS_PER_S, "command", c ? weir_client_who(c) : NULL,
				&e);
	reply = weir_reply_ok();
	weir_json_set_text(reply, "mode", weir_mode_name(a->in_force));
	return finish(reply, r, &e);
}

static json_t *on_reload(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	__u64 confirm_s = weir_json_u64_of(request, "confirm_s");
	json_t *reply = weir_reply_ok();
	struct weir_error e = {};
	int r;

	(void)c;
	if (confirm_s > 86400)
		r = weir_error_set(&e, -EINVAL, "--confirm is longer than a day");
	else
		r = weir_agent_reload(a, confirm_s * WEIR_NS_PER_S, reply, &e);
	return finish(reply, r, &e);
}

static json_t *on_confirm(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	struct weir_error e = {};
	int r = weir_agent_confirm(a, &e);

	(void)c;
	(void)request;
	return finish(weir_reply_ok(), r, &e);
}

static json_t *on_detach(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	const char *only = weir_json_text_of(request, "interface");
	struct weir_attachment at[WEIR_INTERFACES_MAX];
	json_t *reply = weir_reply_ok(), *list = json_array();
	struct weir_error e = {};
	int n = 0, r = 0;

	weir_json_set(reply, "detached", list);
	if (a->dp)
		n = weir_datapath_attachments(a->dp, at, WEIR_INTERFACES_MAX);
	else
		r = weir_error_set(
			&e, -ENOENT,
			"this agent has no packet layer (interfaces: []): nothing is attached");
	for (int i = 0; i < n && i < WEIR_INTERFACES_MAX && r == 0; i++) {
		if (!at[i].attached || (only && strcmp(only, at[i].ifname) != 0))
			continue;
		r = weir_datapath_detach(a->dp, at[i].ifname, &e);
		if (r < 0)
			break;
		(void)json_array_append_new(list,
					    weir_json_text(
						    at[i].ifname)); /* out of memory: not shown */
		weir_log(WEIR_LOG_WARNING, "detached", "interface", "s", at[i].ifname, "who", "s",
			 c ? weir_client_who(c) : NULL, NULL);
		a->detached = true;
	}
	if (r == 0 && only && !json_array_size(list))
		r = weir_error_set(&e, -ENOENT, "weir is not attached to %.15s", only);
	return finish(reply, r, &e);
}

static const struct {
	const char *name;
	json_t *(*fn)(struct weir_agent *a, struct weir_client *c, const json_t *request);
} commands[] = {
	{"status", on_status},		 {"top", on_top},
	{"explain", on_explain},	 {"events", on_events},
	{"limit_list", on_limits},	 {"limit_set", on_limit_set},
	{"limit_unset", on_limit_unset}, {"limit_reset", on_limit_reset},
	{"limit_diff", on_limit_diff},	 {"mode", on_mode},
	{"reload", on_reload},		 {"confirm", on_confirm},
	{"detach", on_detach},		 {"request", on_request},
	{"limit_push", on_limit_push},	 {"limit_pull", on_limit_pull},
};

json_t *weir_agent_handle(void *agent, struct weir_client *client, const json_t *request)
{
	struct weir_agent *a = agent;
	const char *cmd = weir_json_text_of(request, "cmd");
	struct weir_now now = weir_now();
	json_t *reply;
	char text[96];

	if (!cmd)
		return weir_reply_error(-EINVAL, "the request has no \"cmd\"");
	/* before the command, so that it cannot block the hand that writes it */
	if (weir_agent_add_session(a, weir_json_text_of(request, "ssh"),
				   now.mono_ns + WEIR_SESSION_NS, &now))
		(void)weir_agent_refresh_guards(a); /* logged */
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (!strcmp(cmd, commands[i].name))
			return commands[i].fn(a, client, request);
	reply = weir_agent_list_command(a, client, cmd, request);
	if (reply)
		return reply;
	(void)snprintf(text, sizeof(text), "this agent does not know the command %.32s", cmd);
	return weir_reply_error(-EINVAL, text);
}
