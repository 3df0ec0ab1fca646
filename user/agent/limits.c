/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits changed by command: overrides over the file until the next reload, or written into it; and what the file would
 * change. Called by commands.c.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/describe.h"
#include "user/agent/json.h"
#include "user/base/log.h"
#include "user/base/str.h"

void weir_changes_add(void *arg, const char *line)
{
	struct weir_changes *c = arg;

	(void)json_array_append_new(c->list, weir_json_text(line)); /* out of memory: not shown */
	if (c->event)
		weir_log(WEIR_LOG_NOTICE, c->event, "what", "s", line, NULL);
}

/* How the entries that come from files differ. */
void weir_changes_of_lists(const struct weir_agent *a, const struct weir_book *loaded,
			   struct weir_changes *c)
{
	static const char *const names[] = {"allow", "block"};

	for (int l = WEIR_LIST_ALLOW; l <= WEIR_LIST_BLOCK; l++) {
		_cleanup_(weir_book_freep) struct weir_book *old = weir_book_copy(a->book);
		struct weir_book_change change = {};
		char line[128];

		if (!old)
			return;
		(void)weir_book_drop_origin(old, (enum weir_list)l, WEIR_ORIGIN_COMMAND);
		if (weir_book_compare(old, loaded, (enum weir_list)l, &change) < 0)
			return;
		if (change.n_add || change.n_del) {
			(void)snprintf(line, sizeof(line),
				       "lists.%s: %zu entries added or changed, %zu removed",
				       names[l], change.n_add, change.n_del);
			weir_changes_add(c, line);
		}
		weir_book_change_done(&change);
	}
}

static struct weir_override *find_override(struct weir_override *list, size_t n, const char *limit,
					   const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].limit, limit) && !strcmp(list[i].key, key))
			return &list[i];
	return NULL;
}

/* Adds or replaces one in @list. */
static int put_in_list(struct weir_override *list, size_t *n, const struct weir_override *o,
		       struct weir_error *e)
{
	struct weir_override *at = find_override(list, *n, o->limit, o->key);

	if (!at && *n == WEIR_OVERRIDES_MAX)
		return weir_error_set(
			e, -ENOSPC,
			"there are %d overrides already; put them into the file and weir reload",
			WEIR_OVERRIDES_MAX);
	if (!at)
		at = &list[(*n)++];
	*at = *o;
	return 0;
}

void weir_warnings_add(const json_t *before, const json_t *now, json_t *ret)
{
	json_t *fresh = json_array(), *line;
	size_t i;

	json_array_foreach(now, i, line) {
		const char *text = weir_warning_of(line);

		if (text && !weir_warns(before, text))
			(void)json_array_append(fresh, line); /* out of memory: not shown */
	}
	if (json_array_size(fresh))
		weir_json_set(ret, "problems", json_incref(fresh));
	json_decref(fresh);
}

/* The running configuration with @list in place of the overrides. @before: what it is warned of without; NULL: nobody
 * wants to know.
 */
static int put_overrides(struct weir_agent *a, const struct weir_override *list, size_t n,
			 const json_t *before, json_t *ret, struct weir_error *e)
{
	_cleanup_json_ json_t *lines = json_array();
	struct weir_changes c = {.list = lines};
	struct weir_override *old;
	size_t n_old = a->n_override;
	struct weir_loaded l = {};
	int r;

	old = calloc(WEIR_OVERRIDES_MAX, sizeof(*old));
	if (!old)
		return weir_error_set(e, -ENOMEM, "out of memory");
	memcpy(old, a->override, sizeof(a->override));
	memcpy(a->override, list, n * sizeof(*list));
	a->n_override = n;
	r = weir_agent_load(a, &a->source, true, false, &l, e);
	if (r == 0) {
		weir_describe_diff(a->conf, l.conf, weir_changes_add, &c);
		r = weir_agent_put_in_force(a, &l, false, e);
	}
	if (r == 0) {
		json_t *line;
		size_t i;

		json_array_foreach(lines, i, line)
			weir_log(WEIR_LOG_NOTICE, "limit-set", "what", "s", json_string_value(line),
				 NULL);
		weir_json_set(ret, "changes", json_incref(lines));
		if (before)
			weir_warnings_add(before, l.problems, ret);
	} else {
		memcpy(a->override, old, sizeof(a->override));
		a->n_override = n_old;
	}
	weir_loaded_done(&l);
	free(old);
	return r;
}

/* Writes what was set into the file, and into the text that is in force; then it is no override any more. */
static int save_settings(struct weir_agent *a, const char *limit, const char *const *pairs,
			 size_t n, struct weir_error *e)
{
	struct weir_source edited = {};
	int r;

	if (!a->source.path)
		return weir_error_set(
			e, -ENOENT,
			"set until the agent ends, but not saved: it runs without a file");
	if (weir_agent_uses_pushed(a, a->conf))
		return weir_error_set(e, -EINVAL,
				      "set until reload, but not saved: limits come from the store "
				      "(change a file and weir limit push publishes it)");
	r = weir_conf_save_limit_all(a->source.path, limit, pairs, n, e);
	if (r < 0)
		return weir_error_prefix(e, r, "set until reload, but not saved");
	r = weir_source_make(a->source.path, a->source.text, a->source.n, a->source.read_s,
			     &edited);
	for (size_t i = 0; i < n && r == 0; i++) {
		const char *value = strchr(pairs[i], '=') + 1;
		char key[32], *text = NULL;

		(void)snprintf(key, sizeof(key), "%.*s", (int)(value - 1 - pairs[i]), pairs[i]);
		r = weir_conf_edit_limit(edited.text, edited.n, limit, key, value, &text, &edited.n,
					 NULL);
		if (r == 0) {
			free(edited.text);
			edited.text = text;
		}
	}
	if (r <
	    0) { /* the text in force has another shape than the file: the override stays until reload */
		weir_source_done(&edited);
		return 0;
	}
	weir_source_done(&a->source);
	a->source = edited;
	for (size_t i = a->n_override; i-- > 0;)
		for (size_t k = 0; k < n; k++)
			if (!strcmp(a->override[i].limit, limit) &&
			    !strncmp(a->override[i].key, pairs[k], strcspn(pairs[k], "=")) &&
			    strlen(a->override[i].key) == strcspn(pairs[k], "=")) {
				a->override[i] = a->override[--a->n_override];
				break;
			}
	return 0;
}

/* "key=value" of each member of @settings, at most @max; heap texts in @pairs. */
static int read_settings(const json_t *settings, char **pairs, size_t max, size_t *ret_n,
			 struct weir_error *e)
{
	const char *key;
	json_t *value;

	*ret_n = 0;
	json_object_foreach((json_t *)(uintptr_t)settings, key, value) {
		const char *text = json_string_value(value);

		if (!text || strlen(key) >= sizeof(((struct weir_override *)0)->key) ||
		    strchr(key, '=') ||
		    strlen(text) >= sizeof(((struct weir_override *)0)->value) || *ret_n == max)
			return weir_error_set(
				e, -EINVAL,
				"%.32s: no text, or too long, or too many settings at once", key);
		if (asprintf(&pairs[*ret_n], "%s=%s", key, text) < 0)
			return weir_error_set(e, -ENOMEM, "out of memory");
		(*ret_n)++;
	}
	return *ret_n ? 0
		      : weir_error_set(e, -EINVAL,
				       "nothing to set (weir limit set NAME rate=500/s)");
}

static int set_pairs(struct weir_agent *a, const char *limit, const char *const *pairs,
		     size_t n_pairs, const char *who, json_t *ret, struct weir_error *e)
{
	_cleanup_free_ struct weir_override *list = calloc(WEIR_OVERRIDES_MAX, sizeof(*list));
	_cleanup_json_ json_t *before = NULL;
	struct weir_loaded l = {};
	size_t n = a->n_override;
	int r;

	if (!list)
		return weir_error_set(e, -ENOMEM, "out of memory");
	memcpy(list, a->override, sizeof(a->override));
	r = weir_agent_load(a, &a->source, true, false, &l, e);
	if (r == 0)
		r = weir_conf_limit_set_all(l.conf, limit, pairs, n_pairs, NULL, e);
	if (r < 0 && r != -ENOMEM)
		r = -EINVAL; /* what was asked for is wrong, whatever it was */
	before = json_incref(l.problems);
	weir_loaded_done(&l);
	for (size_t i = 0; i < n_pairs && r == 0; i++) {
		struct weir_override o = {.since_s = weir_now().wall_s};
		const char *value = strchr(pairs[i], '=') + 1;

		(void)weir_str_copy(o.who, sizeof(o.who), who); /* cut if long */
		(void)weir_str_copy(o.limit, sizeof(o.limit), limit);
		(void)snprintf(o.key, sizeof(o.key), "%.*s", (int)(value - 1 - pairs[i]), pairs[i]);
		(void)weir_str_copy(o.value, sizeof(o.value), value);
		r = put_in_list(list, &n, &o, e);
	}
	return r < 0 ? r : put_overrides(a, list, n, before, ret, e);
}

int weir_agent_set_override(struct weir_agent *a, const char *limit, const json_t *settings,
			    bool save, const char *who, json_t *ret, struct weir_error *e)
{
	char *pairs[16] = {};
	size_t n = 0;
	int r = read_settings(settings, pairs, ARRAY_LEN(pairs), &n, e);

	if (r == 0)
		r = set_pairs(a, limit, (const char *const *)pairs, n, who, ret, e);
	if (r == 0 && save)
		r = save_settings(a, limit, (const char *const *)pairs, n, e);
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
		free(pairs[i]);
	return r;
}

int weir_agent_unset_override(struct weir_agent *a, const char *limit, const char *key, json_t *ret,
			      struct weir_error *e)
{
	_cleanup_free_ struct weir_override *list = calloc(WEIR_OVERRIDES_MAX, sizeof(*list));
	size_t n = 0;

	if (!list)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < a->n_override; i++)
		if (strcmp(a->override[i].limit, limit) != 0 ||
		    (key && strcmp(a->override[i].key, key) != 0))
			list[n++] = a->override[i];
	if (n == a->n_override)
		return weir_error_set(e, -ENOENT,
				      "limit %s has no override%s%s (weir limit list shows them)",
				      limit, key ? " of " : "", key ? key : "");
	return put_overrides(a, list, n, NULL, ret, e);
}

json_t *weir_agent_diff(struct weir_agent *a, struct weir_error *e)
{
	json_t *reply = weir_reply_ok(), *lines = json_array(), *overrides = json_array();
	struct weir_changes c = {.list = lines};
	struct weir_source source = {};
	struct weir_loaded l = {};
	int r = weir_source_read(a->source.path, &source, e);

	if (r == 0)
		r = weir_agent_load(a, &source, false, true, &l, e);
	if (r == 0) {
		weir_describe_diff(a->conf, l.conf, weir_changes_add, &c);
		weir_changes_of_lists(a, l.book, &c);
	}
	weir_json_set(reply, "reload_would_change", lines);
	for (size_t i = 0; i < a->n_override; i++) {
		const struct weir_override *v = &a->override[i];
		char line[256];

		(void)snprintf(line, sizeof(line), "limit %s: %s=%s by command (until reload)",
			       v->limit, v->key, v->value);
		(void)json_array_append_new(overrides,
					    weir_json_text(line)); /* out of memory: not shown */
	}
	weir_json_set(reply, "overrides", overrides);
	if (l.problems)
		weir_json_set(reply, "problems", json_incref(l.problems));
	weir_agent_diff_pushed(a, reply);
	weir_loaded_done(&l);
	weir_source_done(&source);
	if (r < 0) {
		json_decref(reply);
		return NULL;
	}
	return reply;
}
