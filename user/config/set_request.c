/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Changes one request limit of a configuration in memory; called by weir_conf_limit_set_all (set.c). Of a number that
 * differs by plan either one plan's is set ("limit.pro=6000") or all at once ("limit={free: 60, pro: 6000}").
 */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/set.h"

static int copy_text(const char *text, char **ret)
{
	*ret = text ? strdup(text) : NULL;
	return *ret || !text ? 0 : -ENOMEM;
}

/* *ret_n counts what is there to free, also on failure. */
static int copy_texts(char *const *item, size_t n, char ***ret, size_t *ret_n)
{
	*ret_n = 0;
	*ret = calloc(n ? n : 1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	for (; *ret_n < n; ++*ret_n)
		if (copy_text(item[*ret_n], &(*ret)[*ret_n]) < 0)
			return -ENOMEM;
	return 0;
}

static int copy_headers(const struct weir_conf_request_match *from,
			struct weir_conf_request_match *to)
{
	to->header = calloc(from->n_header ? from->n_header : 1, sizeof(*to->header));
	if (!to->header)
		return -ENOMEM;
	for (size_t i = 0; i < from->n_header; i++) {
		to->n_header = i + 1;
		if (copy_text(from->header[i].name, &to->header[i].name) < 0 ||
		    copy_text(from->header[i].value, &to->header[i].value) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int copy_limit(const struct weir_conf_request_limit *l, struct weir_conf_request_limit *ret)
{
	const struct weir_conf_request_match *m = &l->match;
	struct weir_conf_request_limit c = *l;
	int r;

	c.match = (struct weir_conf_request_match){.n_method = 0};
	c.key_text = c.timezone = NULL;
	r = copy_text(l->key_text, &c.key_text);
	if (r == 0)
		r = copy_text(l->timezone, &c.timezone);
	if (r == 0)
		r = copy_texts(m->method, m->n_method, &c.match.method, &c.match.n_method);
	if (r == 0)
		r = copy_texts(m->path, m->n_path, &c.match.path, &c.match.n_path);
	if (r == 0)
		r = copy_texts(m->host, m->n_host, &c.match.host, &c.match.n_host);
	if (r == 0)
		r = copy_headers(m, &c.match);
	if (r < 0) {
		weir_request_limit_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

/* What is given anew replaces what it was; lists would grow. */
static void forget(const struct weir_setting *s, struct weir_conf_request_limit *l)
{
	struct weir_conf_request_match *m = &l->match;

	if (strcmp(s->path, "request_limits.match") == 0)
		weir_request_match_done(m);
	else if (s->kind == WEIR_KIND_METHODS)
		weir_texts_done(&m->method, &m->n_method);
	else if (s->kind == WEIR_KIND_PATTERNS)
		weir_texts_done(&m->path, &m->n_path);
	else if (s->kind == WEIR_KIND_HOSTS)
		weir_texts_done(&m->host, &m->n_host);
	else if (s->kind == WEIR_KIND_HEADER_MATCH)
		weir_header_matches_done(m);
}

/* "limit.pro": the setting before the dot, if it may differ by plan. */
static const struct weir_setting *find_by_plan(const char *key, const char **ret_plan)
{
	const char *dot = strchr(key, '.');
	const struct weir_setting *s;
	char name[32];

	if (!dot || (size_t)(dot - key) >= sizeof(name))
		return NULL;
	memcpy(name, key, (size_t)(dot - key));
	name[dot - key] = '\0';
	s = weir_setting_find("request_limits", name);
	*ret_plan = dot + 1;
	return s && weir_setting_is_by_plan(s) ? s : NULL;
}

static int set_for_plan(struct weir_conf *c, const struct weir_setting *s, const char *key,
			const char *plan, const char *value, struct weir_conf_request_limit *l,
			struct weir_error *e)
{
	const struct weir_conf_request *q = &c->request;
	size_t size = s->size / WEIR_PLANS_MAX, at = 0;
	const char *names[WEIR_PLANS_MAX] = {0}, *near;
	struct weir_conf_request_limit one = {.line = 0};
	int r;

	for (at = 0; at < q->n_plan && strcmp(q->plan[at], plan) != 0; at++)
		names[at] = q->plan[at];
	if (at == q->n_plan) {
		near = weir_str_closest(plan, names, q->n_plan);
		return weir_error_set(e, -EINVAL, "%.32s: no plan is called that%s%s%s", key,
				      near ? " (did you mean \"" : "", near ? near : "",
				      near ? "\"?)" : "");
	}
	if (*value == '{')
		return weir_error_set(e, -EINVAL, "%.32s: one value for one plan", key);
	r = weir_set_read(c, s, key, value, &one, e);
	if (r < 0)
		return r;
	memcpy((unsigned char *)l + s->offset + at * size,
	       (const unsigned char *)&one + s->offset + at * size, size);
	l->given |= s->given;
	return 0;
}

static int apply(struct weir_conf *c, const char *key, const char *value,
		 struct weir_conf_request_limit *l, unsigned *ret_given, struct weir_error *e)
{
	const char *plan = NULL;
	const struct weir_setting *s = find_by_plan(key, &plan);
	int r;

	if (s) {
		r = set_for_plan(c, s, key, plan, value, l, e);
	} else {
		s = weir_set_find("request_limits", key, e);
		if (!s)
			return -EINVAL;
		if (strncmp(key, "key.", 4) == 0 || strncmp(key, "cost.", 5) == 0)
			return weir_error_set(e, -EINVAL,
					      "%s: set %.*s as a whole (for example %s)", key,
					      (int)strcspn(key, "."), key,
					      key[0] == 'k' ? "key={any: [api-key, ip]}"
							    : "cost={from: proxy, max: 50}");
		forget(s, l);
		r = weir_set_read(c, s, key, value, l, e);
	}
	if (r == 0)
		*ret_given |= s->given;
	return r;
}

int weir_set_request_limit(struct weir_conf *c, struct weir_conf_request_limit *l,
			   const char *const *pairs, size_t n, struct weir_conf_problems *warnings,
			   struct weir_error *e)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	struct weir_reader r = {.problems = &problems, .conf = c};
	struct weir_conf_request_limit next;
	unsigned given = 0;
	int r2;

	if (copy_limit(l, &next) < 0)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const char *value = "";
		char key[64];

		r2 = weir_set_split(pairs[i], key, sizeof(key), &value, e);
		if (r2 == 0)
			r2 = apply(c, key, value, &next, &given, e);
		if (r2 < 0)
			goto fail;
	}
	if (l == &c->request.suspicious.limit &&
	    next.match.n_method + next.match.n_path + next.match.n_host + next.match.n_header) {
		r2 = weir_error_set(e, -EINVAL, "the limit of suspicious meets every request");
		goto fail;
	}
	/* What the new algorithm does not have is forgotten, unless it is given again (and then refused). */
	if (next.algorithm != l->algorithm)
		next.given &= (__u16)(given | ~weir_request_algorithm_lacks(next.algorithm));
	if (next.window_kind == WEIR_WINDOW_LENGTH && l->window_kind != WEIR_WINDOW_LENGTH)
		next.given &= (__u16)(given | (unsigned)~WEIR_REQUEST_GIVEN_TIMEZONE);
	r2 = weir_request_limit_finish(&r, &next);
	if (r2 < 0 || problems.n_errors) {
		r2 = weir_set_first_error(&problems, e);
		goto fail;
	}
	weir_set_warnings(&problems, next.name, warnings);
	weir_request_limit_done(l);
	*l = next;
	return 0;
fail:
	weir_request_limit_done(&next);
	return r2;
}
