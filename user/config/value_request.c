/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readers of the request layer's kinds of values: which one reads what, and the small ones; see value.h. */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/value.h"

static int read_threads(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];
	__u64 v = 0;

	if (!text)
		return -EINVAL;
	if (strcmp(text, "auto") != 0 && (weir_str_u64(text, t->s->max, &v) < 0 || v < t->s->min)) {
		weir_reader_error(t->r, t->node, "%s: \"%s\" is neither auto nor %llu to %llu",
				  weir_value_key(t), weir_value_shown(t->node, buf), t->s->min,
				  t->s->max);
		return -EINVAL;
	}
	weir_value_store(t, v);
	return 0;
}

static int read_file_mode(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];
	__u64 v = 0;

	if (!text)
		return -EINVAL;
	for (const char *c = text; *c >= '0' && *c <= '7' && v <= t->s->max; c++)
		v = 8 * v + (__u64)(*c - '0');
	if (strlen(text) < 3 || strspn(text, "01234567") != strlen(text) || v > t->s->max) {
		weir_reader_error(t->r, t->node,
				  "%s: \"%s\" is not a file mode (octal, for example \"0660\")",
				  weir_value_key(t), weir_value_shown(t->node, buf));
		return -EINVAL;
	}
	weir_value_store(t, v);
	return 0;
}

static int read_zone(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	_cleanup_(weir_calendar_freep) struct weir_calendar *c = NULL;
	struct weir_error e = {""};
	int r;

	if (!text)
		return -EINVAL;
	/* any instant will do: the question is whether the zone is there */
	r = weir_calendar_new(text, WEIR_CALENDAR_MONTH, 1700000000000000ull, &c, &e);
	if (r < 0 && r != -ENOMEM)
		weir_reader_error(t->r, t->node, "%s: %s", weir_value_key(t),
				  *e.text ? e.text : strerror(-r));
	return r < 0 ? r : weir_value_text(t, text);
}

static int read_window(const struct weir_target *t)
{
	struct weir_conf_request_limit *l = t->base;
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];
	__u64 ns;
	int r;

	if (!text)
		return -EINVAL;
	for (unsigned i = 0; weir_words_calendar[i]; i++) {
		if (strcmp(text, weir_words_calendar[i]) != 0)
			continue;
		l->window_kind = WEIR_WINDOW_DAY + i;
		l->window_ns = 0;
		return 0;
	}
	if (weir_str_duration_ns(text, &ns) == -EINVAL) {
		weir_reader_error(
			t->r, t->node,
			"%s: \"%s\" is neither a duration (for example 60s) nor day, week or month",
			weir_value_key(t), weir_value_shown(t->node, buf));
		return -EINVAL;
	}
	r = weir_value_duration_of(t, t->node, &ns);
	if (r < 0)
		return r;
	l->window_kind = WEIR_WINDOW_LENGTH;
	l->window_ns = ns;
	return 0;
}

static int read_plans(const struct weir_target *t)
{
	struct weir_conf_request *q = &((struct weir_conf *)t->base)->request;
	const yaml_node_t *list = weir_value_list(t, t->node, t->s->max);
	int r = list ? 0 : -EINVAL;

	for (size_t i = 0; list && i < weir_value_count(list); i++) {
		const yaml_node_t *n = weir_value_item(t, list, i);
		char name[WEIR_NAME_MAX];
		bool twice = false;

		if (weir_value_name(t, n, name, sizeof(name)) < 0) {
			r = -EINVAL;
			continue;
		}
		for (size_t k = 0; k < q->n_plan; k++)
			twice |= strcmp(q->plan[k], name) == 0;
		if (twice) {
			weir_reader_error(t->r, n, "%s: %s is there twice", weir_value_key(t),
					  name);
			r = -EINVAL;
			continue;
		}
		memcpy(q->plan[q->n_plan++], name, sizeof(name));
	}
	return r;
}

/* --- names of limits ---- */

/* Those that may stand there; returns how many. */
static size_t candidates(const struct weir_target *t, const char **names)
{
	const struct weir_conf *c = t->r->conf;
	size_t n = 0;

	if (strcmp(t->s->path, "suspicious.packet_limits") == 0) {
		for (size_t i = 0; i < c->n_limits; i++)
			names[n++] = c->limits[i].name;
		return n;
	}
	for (size_t i = 0; i < c->request.n_limit; i++)
		names[n++] = c->request.limit[i].name;
	if (strcmp(t->s->path, "escalate.limits") == 0 && c->request.suspicious.given)
		names[n++] = c->request.suspicious.limit.name;
	return n;
}

static int find_limit(const struct weir_target *t, const yaml_node_t *node, const char *name)
{
	const char *names[WEIR_REQUEST_LIMITS_MAX + WEIR_LIMITS_MAX + 1] = {0}, *near;
	size_t n = candidates(t, names);
	bool packet = strcmp(t->s->path, "suspicious.packet_limits") == 0;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i], name) != 0)
			continue;
		if (!packet || t->r->conf->limits[i].per == WEIR_PER_SOURCE)
			return 0;
		weir_reader_error(t->r, node,
				  "%s: \"%s\" is a limit per: %s, and who sends then need not be "
				  "at fault (name limits per: source)",
				  weir_value_key(t), name,
				  weir_per_name(t->r->conf->limits[i].per));
		return -EINVAL;
	}
	near = weir_str_closest(name, names, n);
	if (near)
		weir_reader_error(t->r, node,
				  "%s: no %s limit is called \"%s\" (did you mean \"%s\"?)",
				  weir_value_key(t), packet ? "packet" : "request", name, near);
	else if (weir_limit_name_line(t->r->conf, name, NULL))
		weir_reader_error(t->r, node, "%s: \"%s\" is a %s limit (name a %s limit)",
				  weir_value_key(t), name, packet ? "request" : "packet",
				  packet ? "packet" : "request");
	else
		weir_reader_error(t->r, node, "%s: no %s limit is called \"%s\" (%s has them)",
				  weir_value_key(t), packet ? "packet" : "request", name,
				  packet ? "packet_limits" : "request_limits");
	return -EINVAL;
}

static int read_limit_names(const struct weir_target *t)
{
	char(**item)[WEIR_NAME_MAX] = (void *)t->to, (*grown)[WEIR_NAME_MAX];
	size_t *n = (size_t *)((unsigned char *)t->base + t->s->count);
	const yaml_node_t *list = weir_value_list(t, t->node, t->s->max);
	int r = list ? 0 : -EINVAL;

	if (list && weir_value_count(list) == 0) {
		weir_reader_error(t->r, list, "%s: nothing in it (names of limits)",
				  weir_value_key(t));
		return -EINVAL;
	}
	for (size_t i = 0; list && i < weir_value_count(list); i++) {
		const yaml_node_t *node = weir_value_item(t, list, i);
		char name[WEIR_NAME_MAX];
		bool twice = false;

		if (weir_value_name(t, node, name, sizeof(name)) < 0 ||
		    find_limit(t, node, name) < 0) {
			r = -EINVAL;
			continue;
		}
		for (size_t k = 0; k < *n; k++)
			twice |= strcmp((*item)[k], name) == 0;
		if (twice) {
			weir_reader_error(t->r, node, "%s: %s is there twice", weir_value_key(t),
					  name);
			r = -EINVAL;
			continue;
		}
		grown = reallocarray(*item, *n + 1, sizeof(**item));
		if (!grown)
			return -ENOMEM;
		*item = grown;
		memcpy(grown[(*n)++], name, sizeof(name));
	}
	return r;
}

/* --- groups ---- */

/* One limit outside of request_limits: without name and match. */
static int read_own_limit(const struct weir_target *t)
{
	static const char *const not_its[] = {"name", "match"};
	struct weir_conf_request_limit *l = (struct weir_conf_request_limit *)t->to;
	struct weir_marks marks = {.node = t->node}, *outer = t->r->marks;
	int r;

	*l = (struct weir_conf_request_limit){.line = (int)t->node->start_mark.line + 1};
	r = weir_setting_defaults("request_limits", l);
	if (r < 0)
		return r;
	(void)weir_str_copy(l->name, sizeof(l->name), "suspicious"); /* it fits */
	t->r->marks = &marks;
	r = weir_group_read(t->r, "request_limits", t->node, l);
	for (size_t i = 0; i < ARRAY_LEN(not_its) && r == 0; i++)
		if (weir_reader_has(t->r, "request_limits", not_its[i]))
			weir_reader_error(t->r, weir_reader_at(t->r, "request_limits", not_its[i]),
					  "%s: the limit of suspicious has none (it is called "
					  "suspicious, and meets every request)",
					  not_its[i]);
	if (r == 0) {
		(void)weir_str_copy(l->name, sizeof(l->name), "suspicious");
		weir_request_match_done(&l->match);
		r = weir_request_limit_finish(t->r, l);
	}
	t->r->marks = outer;
	return r;
}

static int read_suspicious(const struct weir_target *t)
{
	struct weir_conf_suspicious *s = (struct weir_conf_suspicious *)t->to;
	int r;

	if (weir_yaml_is_null(t->node))
		return 0;
	s->given = true;
	s->line = (int)t->node->start_mark.line + 1;
	r = weir_group_read(t->r, t->s->path, t->node, t->base);
	return r < 0 ? r : weir_suspicious_finish(t->r, s);
}

int weir_value_request(const struct weir_target *t)
{
	switch (t->s->kind) {
	case WEIR_KIND_LISTEN:
		return weir_value_listen(t);
	case WEIR_KIND_FILE_MODE:
		return read_file_mode(t);
	case WEIR_KIND_THREADS:
		return read_threads(t);
	case WEIR_KIND_HEADER:
		return weir_value_header(t);
	case WEIR_KIND_API_KEY:
		return weir_value_api_key(t);
	case WEIR_KIND_PLANS:
		return read_plans(t);
	case WEIR_KIND_METHODS:
		return weir_value_methods(t);
	case WEIR_KIND_PATTERNS:
		return weir_value_patterns(t);
	case WEIR_KIND_HOSTS:
		return weir_value_hosts(t);
	case WEIR_KIND_HEADER_MATCH:
		return weir_value_header_match(t);
	case WEIR_KIND_KEY:
		return weir_value_key_spec(t);
	case WEIR_KIND_KEY_CHOICES:
		return weir_value_key_choices(t);
	case WEIR_KIND_REQUEST_RATE:
		return weir_value_request_rate(t);
	case WEIR_KIND_PLAN_RATE:
		return weir_value_plan_rate(t);
	case WEIR_KIND_PLAN_NUMBER:
		return weir_value_plan_number(t);
	case WEIR_KIND_PLAN_DURATION:
		return weir_value_plan_duration(t);
	case WEIR_KIND_WINDOW:
		return read_window(t);
	case WEIR_KIND_ZONE:
		return read_zone(t);
	case WEIR_KIND_COST:
		return weir_value_cost(t);
	case WEIR_KIND_LIMIT_NAMES:
		return read_limit_names(t);
	case WEIR_KIND_SUSPICIOUS:
		return read_suspicious(t);
	case WEIR_KIND_REQUEST_LIMIT:
		return read_own_limit(t);
	default:
		return weir_value_of_store(t);
	}
}
