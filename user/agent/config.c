/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Changes at run time: reload, going back unless confirmed, the mode, and what of that must survive a restart. Called by
 * start.c and commands.c.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/describe.h"
#include "user/agent/json.h"
#include "user/agent/notify.h"
#include "user/base/log.h"
#include "user/base/str.h"

void weir_agent_keep(struct weir_agent *a, const char *key, const json_t *value)
{
	_cleanup_free_ char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

	if (a->forgetful || weir_state_set(a->state, key, text) == 0)
		return;
	a->unkept = true;
	(void)snprintf(a->store_error, sizeof(a->store_error), "%s", weir_state_why(a->state));
	weir_log(WEIR_LOG_ERROR, "state-file-failed", "setting", "s", key, "why", "s",
		 a->store_error, NULL);
}

json_t *weir_agent_recall(struct weir_agent *a, const char *key)
{
	_cleanup_free_ char *text = NULL;

	if (weir_state_get(a->state, key, &text) < 0 || !text)
		return NULL;
	return json_loads(text, 0, NULL);
}

static void keep_mode(struct weir_agent *a)
{
	_cleanup_json_ json_t *o = a->mode.set ? json_object() : NULL;

	if (o) {
		weir_json_set_text(o, "mode", weir_mode_name(a->mode.mode));
		weir_json_set_text(o, "back",
				   a->mode.back_set ? weir_mode_name(a->mode.back) : NULL);
		weir_json_set_u64(o, "until", (__u64)a->mode.until_s);
		weir_json_set_u64(o, "since", (__u64)a->mode.since_s);
		weir_json_set_text(o, "why", a->mode.why);
		weir_json_set_text(o, "who", a->mode.who);
	}
	weir_agent_keep(a, "mode", o);
}

static void keep_confirm(struct weir_agent *a)
{
	_cleanup_json_ json_t *o = a->confirm.kind ? json_object() : NULL;

	if (o) {
		weir_json_set_text(o, "kind",
				   a->confirm.kind == WEIR_CONFIRM_RUN ? "run" : "reload");
		weir_json_set_u64(o, "until", (__u64)a->confirm.until_s);
		weir_json_set_text(o, "path", a->confirm.previous.path);
		weir_json_set_text(o, "text", a->confirm.previous.text);
	}
	weir_agent_keep(a, "confirm", o);
}

/* The file content that was not confirmed, and the one in force instead. */
static void keep_refused(struct weir_agent *a)
{
	_cleanup_json_ json_t *o = a->refused_text ? json_object() : NULL;

	if (o) {
		weir_json_set_text(o, "refused", a->refused_text);
		weir_json_set_text(o, "path", a->source.path);
		weir_json_set_text(o, "text", a->source.text);
		weir_json_set_u64(o, "when", (__u64)a->reverted_s);
	}
	weir_agent_keep(a, "refused", o);
}

void weir_agent_keep_settings(struct weir_agent *a)
{
	a->unkept = false;
	keep_mode(a);
	keep_confirm(a);
	keep_refused(a);
	weir_agent_keep_pushed(a);
}

static bool copy_text(char *to, size_t size, const char *from)
{
	return from && weir_str_copy(to, size, from);
}

static void restore_mode(struct weir_agent *a, const struct weir_now *now)
{
	_cleanup_json_ json_t *o = weir_agent_recall(a, "mode");
	const char *mode = weir_json_text_of(o, "mode"), *back = weir_json_text_of(o, "back");

	if (!mode)
		return;
	a->mode.set = true;
	a->mode.mode = !strcmp(mode, "monitor") ? WEIR_MODE_MONITOR : WEIR_MODE_ENFORCE;
	a->mode.back_set = back != NULL;
	a->mode.back = back && !strcmp(back, "monitor") ? WEIR_MODE_MONITOR : WEIR_MODE_ENFORCE;
	a->mode.until_s = (__s64)weir_json_u64_of(o, "until");
	a->mode.until_ns = weir_clock_to_mono(now, a->mode.until_s);
	a->mode.by_wall = true;
	a->mode.since_s = (__s64)weir_json_u64_of(o, "since");
	(void)copy_text(a->mode.why, sizeof(a->mode.why), weir_json_text_of(o, "why"));
	(void)copy_text(a->mode.who, sizeof(a->mode.who), weir_json_text_of(o, "who"));
	a->mode_since_s = a->mode.since_s;
	a->in_force = a->mode.mode;
}

/* Uses @o's "path" and "text" in place of what was read from the file. */
static bool use_kept_text(struct weir_agent *a, const json_t *o)
{
	const char *text = weir_json_text_of(o, "text");
	struct weir_source s;

	if (!text || weir_source_make(weir_json_text_of(o, "path"), text, strlen(text),
				      weir_now().wall_s, &s) < 0)
		return false;
	free(a->refused_text);
	a->refused_text = TAKE_PTR(a->source.text);
	weir_source_done(&a->source);
	a->source = s;
	return true;
}

/* A reload that waited for `weir confirm` when the agent ended. */
static void restore_confirm(struct weir_agent *a, const struct weir_now *now)
{
	_cleanup_json_ json_t *o = weir_agent_recall(a, "confirm"),
			      *refused = weir_agent_recall(a, "refused");
	const char *kind = weir_json_text_of(o, "kind"), *text = weir_json_text_of(o, "text");
	__s64 until_s = (__s64)weir_json_u64_of(o, "until");

	if (kind && !strcmp(kind, "run") && until_s <= now->wall_s) {
		weir_agent_keep(a, "confirm", NULL);
		a->mode = (struct weir_mode_override){.set = true,
						      .mode = WEIR_MODE_MONITOR,
						      .since_s = until_s};
		(void)weir_str_copy(a->mode.why, sizeof(a->mode.why), "not confirmed");
		keep_mode(a);
	} else if (kind && !strcmp(kind, "run")) {
		a->confirm.kind = WEIR_CONFIRM_RUN;
	} else if (kind && text && until_s <= now->wall_s) {
		if (use_kept_text(a, o)) {
			a->reverted_s = until_s;
			keep_refused(a);
		}
		weir_agent_keep(a, "confirm", NULL);
	} else if (kind && text &&
		   weir_source_make(weir_json_text_of(o, "path"), text, strlen(text), now->wall_s,
				    &a->confirm.previous) == 0) {
		a->confirm.kind = WEIR_CONFIRM_RELOAD;
	} else if (weir_json_text_of(refused, "refused")) {
		if (!strcmp(weir_json_text_of(refused, "refused"), a->source.text)) {
			a->reverted_s = (__s64)weir_json_u64_of(refused, "when");
			(void)use_kept_text(
				a, refused); /* without memory the file is used, as without this */
		} else {
			weir_agent_keep(a, "refused", NULL); /* the file has changed since */
		}
	}
	if (a->confirm.kind) {
		a->confirm.until_s = until_s;
		a->confirm.until_ns = weir_clock_to_mono(now, until_s);
		a->confirm.by_wall = true;
	}
}

void weir_agent_restore(struct weir_agent *a, const struct weir_now *now)
{
	restore_mode(a, now);
	restore_confirm(a, now);
	weir_agent_restore_pushed(a);
}

/* --- reload, confirm, mode ---- */

static void log_problems(const json_t *problems)
{
	json_t *line;
	size_t i;

	json_array_foreach(problems, i, line)
		weir_log(WEIR_LOG_WARNING, "configuration", "problem", "s", json_string_value(line),
			 NULL);
}

static bool was_attached(const struct weir_attachment *at, int n, const struct weir_attachment *x)
{
	for (int i = 0; i < n && i < WEIR_INTERFACES_MAX; i++)
		if (at[i].attached && at[i].ifindex == x->ifindex &&
		    !strcmp(at[i].ifname, x->ifname))
			return true;
	return false;
}

/* Interfaces of @now that are not in @before. */
static void say_attached(const struct weir_attachment *before, int n_before,
			 const struct weir_attachment *now, int n_now, const char *what,
			 struct weir_changes *c)
{
	char line[64];

	for (int i = 0; i < n_now && i < WEIR_INTERFACES_MAX; i++) {
		if (!now[i].attached || was_attached(before, n_before, &now[i]))
			continue;
		(void)snprintf(line, sizeof(line), "%s: %s", now[i].ifname, what);
		weir_changes_add(c, line);
	}
}

/* Puts another source in force; overrides are dropped. */
static int change_source(struct weir_agent *a, struct weir_source *source, const char *event,
			 json_t *ret, struct weir_error *e)
{
	_cleanup_json_ json_t *lines = json_array();
	struct weir_changes c = {.list = lines};
	struct weir_attachment at[WEIR_INTERFACES_MAX], now[WEIR_INTERFACES_MAX];
	struct weir_loaded l = {};
	int n_at = a->dp ? weir_datapath_attachments(a->dp, at, WEIR_INTERFACES_MAX) : 0, n_now = 0;
	const char *restart;
	size_t i;
	json_t *line;
	int r = weir_agent_load(a, source, false, true, &l, e);

	log_problems(l.problems);
	if (ret && l.problems)
		weir_json_set(ret, "problems", json_incref(l.problems));
	if (r == 0)
		r = weir_agent_check_work(l.conf, e);
	restart = r == 0 ? weir_describe_needs_restart(a->conf, l.conf) : NULL;
	if (restart)
		r = weir_error_set(e, -EINVAL,
				   "%s changed, which takes effect only at a restart (systemctl "
				   "restart weir); nothing was changed",
				   restart);
	if (r == 0) {
		weir_describe_diff(a->conf, l.conf, weir_changes_add, &c);
		weir_changes_of_lists(a, l.book, &c);
		if (weir_agent_store_waits(a, l.conf))
			weir_changes_add(&c, weir_agent_store_waits(a, l.conf));
		r = weir_agent_put_in_force(a, &l, false, e);
	}
	weir_loaded_done(&l);
	if (r < 0)
		return r;
	if (a->dp)
		n_now = weir_datapath_attachments(a->dp, now, WEIR_INTERFACES_MAX);
	say_attached(at, n_at, now, n_now, "attached", &c);
	say_attached(now, n_now, at, n_at, "detached", &c);
	json_array_foreach(lines, i, line)
		weir_log(WEIR_LOG_NOTICE, event, "what", "s", json_string_value(line), NULL);
	if (ret)
		weir_json_set(ret, "changes", json_incref(lines));
	a->n_override = 0;
	weir_source_done(&a->source);
	a->source = *source;
	*source = (struct weir_source){};
	return 0;
}

static void end_confirm(struct weir_agent *a)
{
	a->confirm.kind = WEIR_CONFIRM_NONE;
	a->confirm.until_ns = 0;
	a->confirm.until_s = 0;
	weir_source_done(&a->confirm.previous);
	keep_confirm(a);
}

static void set_deadline(struct weir_agent *a, enum weir_confirm_kind kind, __u64 confirm_ns)
{
	struct weir_now now = weir_now();

	a->confirm.kind = kind;
	a->confirm.by_wall = false;
	a->confirm.until_ns = now.mono_ns + confirm_ns;
	a->confirm.until_s = now.wall_s + (__s64)((confirm_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S);
	keep_confirm(a);
}

void weir_agent_start_confirm(struct weir_agent *a, __u64 confirm_ns)
{
	char text[WEIR_STR_MAX];

	end_confirm(a);
	set_deadline(a, WEIR_CONFIRM_RUN, confirm_ns);
	weir_log(WEIR_LOG_NOTICE, "unconfirmed", "goes_to", "s", "monitor mode", "unless", "s",
		 "weir confirm", "within", "s", weir_str_format_duration(confirm_ns, text), NULL);
}

/* An old deadline is replaced, but the way back stays what was last confirmed. */
static void after_reload(struct weir_agent *a, struct weir_source *previous, __u64 confirm_ns)
{
	char text[WEIR_STR_MAX];

	free(a->refused_text);
	a->refused_text = NULL;
	a->reverted_s = 0;
	keep_refused(a);
	a->last_error[0] = '\0';
	if (!confirm_ns)
		return;
	if (a->confirm.kind != WEIR_CONFIRM_RELOAD) {
		end_confirm(a);
		a->confirm.previous = *previous;
		*previous = (struct weir_source){};
	}
	set_deadline(a, WEIR_CONFIRM_RELOAD, confirm_ns);
	weir_log(WEIR_LOG_NOTICE, "unconfirmed", "goes_to", "s", "the previous configuration",
		 "unless", "s", "weir confirm", "within", "s",
		 weir_str_format_duration(confirm_ns, text), NULL);
}

int weir_agent_reload(struct weir_agent *a, __u64 confirm_ns, json_t *ret, struct weir_error *e)
{
	struct weir_source source = {}, previous = {};
	bool pulled = a->pulled;
	int r;

	a->pulled = false;

	weir_notify_reloading();
	r = weir_source_read(a->source.path, &source, e);
	if (r == 0 && weir_source_make(a->source.path, a->source.text, a->source.n,
				       a->source.read_s, &previous) < 0)
		r = weir_error_set(e, -ENOMEM, "out of memory");
	if (r == 0)
		r = change_source(a, &source, "changed", ret, e);
	if (r == 0) {
		after_reload(a, &previous, confirm_ns);
		weir_log(WEIR_LOG_NOTICE, "reloaded", "path", "s",
			 a->source.path ? a->source.path : "built-in defaults", "generation", "u",
			 (unsigned long long)weir_agent_generation(a), NULL);
	} else {
		a->pulled = pulled;
		(void)weir_str_copy(a->last_error, sizeof(a->last_error),
				    e->text); /* cut if long: the log has it all */
		weir_log(WEIR_LOG_ERROR, "reload-failed", "why", "s", e->text, NULL);
	}
	weir_source_done(&source);
	weir_source_done(&previous);
	weir_notify("READY=1");
	return r;
}

int weir_agent_confirm(struct weir_agent *a, struct weir_error *e)
{
	if (!a->confirm.kind) {
		if (a->refused_text)
			return weir_error_set(e, -ESTALE,
					      "too late: the file was not confirmed in time and "
					      "the previous configuration is in force; weir reload "
					      "--confirm 60s tries it again");
		if (a->mode.set && !strcmp(a->mode.why, "not confirmed"))
			return weir_error_set(e, -ESTALE,
					      "too late: the agent was not confirmed in time and "
					      "is in monitor mode; weir mode enforce ends that");
		return weir_error_set(e, -ENOENT, "nothing waits to be confirmed");
	}
	end_confirm(a);
	weir_log(WEIR_LOG_NOTICE, "confirmed", NULL);
	return 0;
}

int weir_agent_set_mode(struct weir_agent *a, enum weir_mode mode, __u64 for_ns, const char *why,
			const char *who, struct weir_error *e)
{
	struct weir_now now = weir_now();
	struct weir_mode_override old = a->mode,
				  m = {.set = true, .mode = mode, .since_s = now.wall_s};
	enum weir_mode base = a->start_monitor ? WEIR_MODE_MONITOR : a->conf->mode;
	int r;

	(void)weir_str_copy(m.why, sizeof(m.why), why); /* cut if long */
	(void)weir_str_copy(m.who, sizeof(m.who), who ? who : "");
	if (for_ns) {
		m.until_ns = now.mono_ns + for_ns;
		m.until_s = now.wall_s + (__s64)((for_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S);
		/* a temporary mode over a temporary one goes back to what was before both */
		m.back_set = old.set && (old.until_ns ? old.back_set : true);
		m.back = old.until_ns ? old.back : old.mode;
	} else if (mode == base) {
		m = (struct weir_mode_override){};
	}
	a->mode = m;
	r = weir_agent_force_mode(a, e);
	if (r < 0)
		a->mode = old;
	else
		keep_mode(a);
	return r;
}

static void end_mode(struct weir_agent *a, const struct weir_now *now)
{
	struct weir_mode_override old = a->mode;
	struct weir_error e = {};

	a->mode = (struct weir_mode_override){.set = old.back_set,
					      .mode = old.back,
					      .since_s = now->wall_s};
	(void)weir_str_copy(a->mode.why, sizeof(a->mode.why), old.back_set ? "command" : "");
	if (weir_agent_force_mode(a, &e) < 0) {
		weir_log(WEIR_LOG_ERROR, "mode-failed", "why", "s", e.text, NULL);
		a->mode = old;
		a->mode.until_ns = now->mono_ns + 5 * WEIR_NS_PER_S; /* tries again */
		return;
	}
	keep_mode(a);
}

static void go_back(struct weir_agent *a)
{
	enum weir_confirm_kind kind = a->confirm.kind;
	struct weir_source previous = a->confirm.previous;
	char *refused = strdup(a->source.text);
	struct weir_error e = {};
	int r = 0;

	a->confirm.previous = (struct weir_source){};
	end_confirm(a);
	if (kind == WEIR_CONFIRM_RELOAD) {
		weir_log(WEIR_LOG_WARNING, "not-confirmed", "goes_to", "s",
			 "the previous configuration", NULL);
		r = change_source(a, &previous, "changed-back", NULL, &e);
		if (r == 0) {
			free(a->refused_text);
			a->refused_text = TAKE_PTR(refused);
			a->reverted_s = weir_now().wall_s;
			keep_refused(a);
		} else {
			weir_log(WEIR_LOG_ERROR, "going-back-failed", "why", "s", e.text, NULL);
		}
	}
	if (kind == WEIR_CONFIRM_RUN || r < 0) {
		weir_log(WEIR_LOG_WARNING, "not-confirmed", "goes_to", "s", "monitor mode", NULL);
		if (weir_agent_set_mode(a, WEIR_MODE_MONITOR, 0, "not confirmed", NULL, &e) < 0)
			weir_log(WEIR_LOG_ERROR, "mode-failed", "why", "s", e.text, NULL);
	}
	weir_source_done(&previous);
	free(refused);
}

static void move_deadlines(struct weir_agent *a, const struct weir_now *now)
{
	if (a->mode.set && a->mode.until_ns && a->mode.by_wall) {
		a->mode.until_ns = weir_clock_to_mono(now, a->mode.until_s);
	} else if (a->mode.set && a->mode.until_ns) {
		a->mode.until_s = weir_clock_to_wall(now, a->mode.until_ns);
		keep_mode(a);
	}
	if (a->confirm.kind && a->confirm.by_wall) {
		a->confirm.until_ns = weir_clock_to_mono(now, a->confirm.until_s);
	} else if (a->confirm.kind) {
		a->confirm.until_s = weir_clock_to_wall(now, a->confirm.until_ns);
		keep_confirm(a);
	}
}

void weir_agent_follow_clock(struct weir_agent *a, const struct weir_now *now)
{
	__s64 offset_s = now->wall_s - (__s64)(now->mono_ns / WEIR_NS_PER_S);
	__s64 step_s = offset_s - a->clock_offset_s;
	struct weir_error e = {};

	if (a->clock_known && step_s > -2 && step_s < 2) /* whole seconds: one is no step */
		return;
	if (a->clock_known) {
		weir_log(WEIR_LOG_NOTICE, "clock-set", "seconds", "d", (long long)step_s, NULL);
		if (weir_agent_move_lists(a, now, step_s, &e) < 0) { /* tried again in a second */
			weir_log(WEIR_LOG_WARNING, "clock-failed", "why", "s", e.text, NULL);
			return;
		}
		move_deadlines(a, now);
		a->started_s += step_s;
		a->applied_s += step_s;
		if (!a->mode.set || !a->mode.by_wall)
			a->mode_since_s += step_s;
	}
	a->clock_offset_s = offset_s;
	a->clock_known = true;
}

void weir_agent_deadlines(struct weir_agent *a, const struct weir_now *now)
{
	if (a->mode.set && a->mode.until_ns && now->mono_ns >= a->mode.until_ns)
		end_mode(a, now);
	if (a->confirm.kind && now->mono_ns >= a->confirm.until_ns)
		go_back(a);
}
