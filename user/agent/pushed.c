/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits that one agent publishes for the fleet: what counts of its file, as text with a generation. An agent with
 * limits_from: store puts them in the place of its file's; what `limit set` says stays on top. Wrong ones change nothing:
 * the last good ones go on, also over a restart. Called by commands.c, source.c and fleet.c.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/describe.h"
#include "user/agent/json.h"
#include "user/base/log.h"
#include "user/base/str.h"

/* The settings that are published together: which limits there are, and for whom they do not count. */
static const char *const sections[] = {"packet_limits", "request_limits", "plans",
				       "exempt",	"suspicious",	  "escalate"};

void weir_pushed_done(struct weir_pushed *p)
{
	free(p->text);
	free(p->host);
	free(p->who);
	*p = (struct weir_pushed){};
}

static int make(const struct weir_fleet_limits *l, struct weir_pushed *ret)
{
	struct weir_pushed p = {.generation = l->generation, .at_s = (__s64)(l->at_ms / 1000)};

	p.text = strdup(l->text);
	p.host = strdup(l->host ? l->host : "");
	p.who = strdup(l->who ? l->who : "");
	if (!p.text || !p.host || !p.who) {
		weir_pushed_done(&p);
		return -ENOMEM;
	}
	*ret = p;
	return 0;
}

bool weir_agent_uses_pushed(const struct weir_agent *a, const struct weir_conf *file)
{
	const struct weir_pushed *p = a->trial ? a->trial : &a->pushed;

	return file->store.shared && p->text &&
	       (a->pulled || file->store.limits_from == WEIR_LIMITS_FROM_STORE);
}

/* A document begins once. */
static void hide_document_start(char *text)
{
	for (char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
		if (!strncmp(at, "---", 3) && (at[3] == '\n' || at[3] == '\r' || !at[3]))
			*at = '#';
}

int weir_agent_compose(const struct weir_source *file, const struct weir_pushed *p, char **ret,
		       size_t *ret_n, struct weir_error *e)
{
	_cleanup_free_ char *own = NULL, *rest = NULL;
	int r = weir_conf_part(file->text, file->n, sections, ARRAY_LEN(sections), &own, &rest, e);
	char *text = NULL;
	int n;

	if (r < 0)
		return r;
	hide_document_start(rest);
	/* what was published goes first: its lines are those that a mistake is told of */
	n = asprintf(&text, "%s%s%s", p->text,
		     !p->text[0] || p->text[strlen(p->text) - 1] == '\n' ? "" : "\n", rest);
	if (n < 0)
		return weir_error_set(e, -ENOMEM, "out of memory");
	*ret = text;
	*ret_n = (size_t)n;
	return 0;
}

/* --- taking ---- */

/* A published text may hold nothing but those settings. */
static int check_text(const struct weir_pushed *p, struct weir_error *e)
{
	_cleanup_free_ char *own = NULL, *rest = NULL;
	int r = weir_conf_part(p->text, strlen(p->text), sections, ARRAY_LEN(sections), &own, &rest,
			       e);

	if (r < 0)
		return weir_error_prefix(e, r, "limits of the store");
	for (const char *at = rest; *at; at += strcspn(at, "\n"), at += *at == '\n')
		if (*at != '#' && *at != '\n' && strncmp(at, "---", 3) != 0)
			return weir_error_set(e, -EINVAL,
					      "limits of the store hold other settings too: %.60s",
					      at);
	return 0;
}

/* In force with @p, in one step. @ret (may be NULL) gets "changes" and "problems". */
static int put_in_force(struct weir_agent *a, struct weir_pushed *p, json_t *ret,
			struct weir_error *e)
{
	_cleanup_json_ json_t *lines = json_array();
	struct weir_changes c = {.list = lines, .event = "limits-changed"};
	struct weir_loaded l = {};
	json_t *line;
	size_t i;
	int r = check_text(p, e);

	a->trial = p;
	if (r == 0)
		r = weir_agent_load(a, &a->source, true, false, &l, e);
	a->trial = NULL;
	if (r == -EINVAL && l.problems)
		json_array_foreach(l.problems, i, line)
			if (!i)
				(void)weir_error_set(e, r, "%s", json_string_value(line));
	if (ret && l.problems)
		weir_json_set(ret, "problems", json_incref(l.problems));
	if (r == 0) {
		weir_describe_diff(a->conf, l.conf, weir_changes_add, &c);
		r = weir_agent_put_in_force(a, &l, false, e);
	}
	weir_loaded_done(&l);
	if (r < 0)
		return r;
	if (ret)
		weir_json_set(ret, "changes", json_incref(lines));
	weir_pushed_done(&a->pushed);
	a->pushed = *p;
	*p = (struct weir_pushed){};
	a->pushed_failed = 0;
	a->pushed_error[0] = '\0';
	weir_agent_keep_pushed(a);
	return 0;
}

void weir_agent_take_pushed(struct weir_agent *a, const struct weir_fleet_limits *l)
{
	struct weir_pushed p;
	struct weir_error e = {};
	int r;

	if (!a->ready || l->generation == a->pushed.generation ||
	    l->generation == a->pushed_failed || !l->generation || !l->text ||
	    (!a->pulled && a->conf->store.limits_from != WEIR_LIMITS_FROM_STORE) || make(l, &p) < 0)
		return;
	r = put_in_force(a, &p, NULL, &e);
	if (r < 0) {
		a->pushed_failed = l->generation;
		(void)weir_str_copy(a->pushed_error, sizeof(a->pushed_error), e.text); /* cut */
		weir_log(WEIR_LOG_ERROR, "limits-failed", "generation", "u",
			 (unsigned long long)l->generation, "host", "s", l->host, "why", "s",
			 e.text, NULL);
	} else {
		weir_log(WEIR_LOG_NOTICE, "limits-taken", "generation", "u",
			 (unsigned long long)l->generation, "host", "s", l->host, "who", "s",
			 l->who, NULL);
	}
	weir_pushed_done(&p);
}

void weir_agent_keep_pushed(struct weir_agent *a)
{
	_cleanup_json_ json_t *o = a->pushed.text ? json_object() : NULL;

	if (o) {
		weir_json_set_u64(o, "generation", a->pushed.generation);
		weir_json_set_text(o, "text", a->pushed.text);
		weir_json_set_text(o, "host", a->pushed.host);
		weir_json_set_text(o, "who", a->pushed.who);
		weir_json_set_u64(o, "at", (__u64)a->pushed.at_s);
		weir_json_set_bool(o, "pulled", a->pulled);
	}
	weir_agent_keep(a, "limits", o);
}

void weir_agent_restore_pushed(struct weir_agent *a)
{
	_cleanup_json_ json_t *o = weir_agent_recall(a, "limits");
	struct weir_fleet_limits l = {
		.generation = weir_json_u64_of(o, "generation"),
		.text = weir_json_text_of(o, "text"),
		.host = weir_json_text_of(o, "host"),
		.who = weir_json_text_of(o, "who"),
		.at_ms = weir_json_u64_of(o, "at") * 1000,
	};

	if (l.generation && l.text)
		(void)make(&l, &a->pushed); /* without memory: the store's, when it answers */
}

/* --- commands ---- */

static int no_fleet(struct weir_error *e)
{
	return weir_error_set(e, -EINVAL,
			      "the store is embedded: there is no fleet to share limits with "
			      "(store: {url: redis://…})");
}

/* What this host has heard of. */
static int pull_known(struct weir_agent *a, json_t *ret, struct weir_error *e)
{
	struct weir_fleet_limits l = {};
	struct weir_pushed p;
	bool pulled = a->pulled;
	int r;

	weir_fleet_limits(a->fleet, &l);
	if (!l.generation)
		return weir_error_set(e, -ENOENT,
				      "nothing is published, as far as this agent knows (weir "
				      "limit push on a host that has the right ones)");
	if (make(&l, &p) < 0)
		return weir_error_set(e, -ENOMEM, "out of memory");
	a->pulled = true;
	r = put_in_force(a, &p, ret, e);
	weir_pushed_done(&p);
	if (r < 0) {
		a->pulled = pulled;
		return r;
	}
	weir_json_set_u64(ret, "generation", a->pushed.generation);
	weir_json_set_text(ret, "host", a->pushed.host);
	weir_json_set_bool(ret, "follows", a->conf->store.limits_from == WEIR_LIMITS_FROM_STORE);
	return 0;
}

/* @away: why the store could not be asked; NULL: it was. */
static json_t *pull(struct weir_agent *a, struct weir_client *c, const char *away)
{
	_cleanup_json_ json_t *reply = weir_reply_ok();
	struct weir_error e = {};
	char note[256];
	int r = pull_known(a, reply, &e);
	json_t *problems = json_object_get(reply, "problems"), *error;

	if (r < 0) {
		error = weir_reply_error(r, e.text);
		if (problems)
			weir_json_set(error, "problems", json_incref(problems));
		return error;
	}
	if (away) {
		(void)snprintf(note, sizeof(note), "%s: it is the last that this host heard of",
			       away);
		weir_reply_note(reply, note);
	}
	weir_log(WEIR_LOG_NOTICE, "limit-pull", "generation", "u",
		 (unsigned long long)a->pushed.generation, "who", "s",
		 c ? weir_client_who(c) : NULL, NULL);
	return json_incref(reply);
}

static void on_asked(void *arg, int r, const char *why)
{
	struct weir_agent *a = arg;
	_cleanup_json_ json_t *reply = NULL;
	char text[224];

	if (!a->puller)
		return; /* it has left */
	if (r == -ECANCELED || r == -EPROTO) {
		(void)snprintf(text, sizeof(text), "nothing was pulled: %s%.160s",
			       r == -EPROTO ? "what is published is wrong, " : "", why);
		reply = weir_reply_error(r, text);
	} else {
		if (r < 0)
			(void)snprintf(text, sizeof(text), "the store did not answer (%.160s)",
				       why);
		reply = pull(a, a->puller, r < 0 ? text : NULL);
	}
	weir_client_reply(a->puller, reply);
}

/* The store is asked first: somebody may have pushed a moment ago, on another host. */
json_t *weir_agent_pull(struct weir_agent *a, struct weir_client *c)
{
	struct weir_error e = {};
	int r = a->fleet ? 0 : no_fleet(&e);

	if (r == 0 && !c)
		return pull(a, c, NULL); /* nobody waits */
	if (r == 0)
		r = weir_fleet_ask_limits(a->fleet, on_asked, a, &e);
	if (r == -EHOSTDOWN)
		return pull(a, c, e.text);
	if (r < 0)
		return weir_reply_error(r, e.text);
	weir_client_defer(c, &a->puller);
	return NULL;
}

static void on_pushed(void *arg, int r, __u64 generation, const char *why)
{
	struct weir_agent *a = arg;
	_cleanup_json_ json_t *reply = NULL;

	if (!a->pusher)
		return; /* it has left */
	if (r < 0) {
		reply = weir_reply_error(r, why);
	} else {
		reply = weir_reply_ok();
		weir_json_set_u64(reply, "generation", generation);
		if (a->push_problems)
			weir_json_set(reply, "problems", json_incref(a->push_problems));
	}
	weir_client_reply(a->pusher, reply);
}

/* The file as it is now, right as a whole: a wrong one is told here and not by every host. */
static int read_own(struct weir_agent *a, json_t *problem_lines, char **ret, struct weir_error *e)
{
	_cleanup_free_ char *rest = NULL, *own = NULL;
	struct weir_source file = {};
	struct weir_conf_problems problems = {};
	struct weir_conf *conf = NULL;
	int r = a->source.path
			? weir_source_read(a->source.path, &file, e)
			: weir_error_set(
				  e, -EINVAL,
				  "this agent runs without a file: there is nothing to publish");

	if (r == 0) {
		r = weir_conf_parse(file.path, file.text, file.n, &conf, &problems);
		if (r < 0 && problems.n)
			(void)weir_error_set(e, r, "%s:%d: %s", file.path, problems.item[0].line,
					     problems.item[0].text);
	}
	if (r == 0)
		r = weir_conf_part(file.text, file.n, sections, ARRAY_LEN(sections), &own, &rest,
				   e);
	weir_problem_lines(&problems, file.path, problem_lines);
	weir_conf_problems_done(&problems);
	weir_conf_free(conf);
	weir_source_done(&file);
	if (r == 0)
		*ret = TAKE_PTR(own);
	return r;
}

json_t *weir_agent_push(struct weir_agent *a, struct weir_client *c)
{
	_cleanup_json_ json_t *problems = json_array();
	_cleanup_free_ char *text = NULL;
	struct weir_error e = {};
	int r = a->fleet ? read_own(a, problems, &text, &e) : no_fleet(&e);

	if (r == 0 && a->pusher)
		r = weir_error_set(&e, -EBUSY, "limits are being published already");
	if (r == 0)
		r = weir_fleet_publish(a->fleet, text, c ? weir_client_who(c) : "?", on_pushed, a,
				       &e);
	if (r < 0)
		return weir_reply_error(r, e.text);
	weir_log(WEIR_LOG_NOTICE, "limit-push", "bytes", "u", (unsigned long long)strlen(text),
		 "who", "s", c ? weir_client_who(c) : NULL, NULL);
	if (!c)
		return weir_reply_ok(); /* nobody waits */
	json_decref(a->push_problems);
	a->push_problems = TAKE_PTR(problems);
	weir_client_defer(c, &a->pusher);
	return NULL;
}

void weir_agent_diff_pushed(struct weir_agent *a, json_t *reply)
{
	_cleanup_json_ json_t *lines = json_array();
	struct weir_changes c = {.list = lines};
	struct weir_fleet_limits l = {};
	struct weir_loaded loaded = {};
	struct weir_pushed p = {};
	struct weir_error e = {};
	char when[WEIR_TIME_STRLEN];
	bool pulled = a->pulled;
	json_t *o;
	int r;

	if (!a->fleet)
		return;
	weir_fleet_limits(a->fleet, &l);
	o = json_object();
	weir_json_set_u64(o, "generation", l.generation);
	weir_json_set_u64(o, "in_force",
			  weir_agent_uses_pushed(a, a->conf) ? a->pushed.generation : 0);
	weir_json_set_bool(o, "follows", a->conf->store.limits_from == WEIR_LIMITS_FROM_STORE);
	weir_json_set(reply, "store", o);
	if (!l.generation || make(&l, &p) < 0)
		return;
	weir_json_set_text(o, "host", p.host);
	weir_json_set_text(o, "who", p.who);
	weir_json_set_text(o, "at", weir_clock_format(p.at_s, when));
	a->trial = &p;
	a->pulled = true;
	r = weir_agent_load(a, &a->source, true, false, &loaded, &e);
	a->trial = NULL;
	a->pulled = pulled;
	if (r == 0)
		weir_describe_diff(a->conf, loaded.conf, weir_changes_add, &c);
	else
		weir_json_set_text(o, "wrong", e.text);
	if (r == 0)
		weir_warnings_add(json_object_get(reply, "problems"), loaded.problems, o);
	weir_json_set(o, "would_change", json_incref(lines));
	weir_loaded_done(&loaded);
	weir_pushed_done(&p);
}
