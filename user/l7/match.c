/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does a question match a limit or an exemption? See rules.h; called for every question and rule. */
#include <string.h>

#include "user/l7/rules.h"

static bool method_matches(const struct weir_rule_match *m, struct weir_text method)
{
	for (size_t i = 0; i < m->n_method; i++)
		if (weir_text_equal(m->method[i], method))
			return true;
	return !m->n_method;
}

static bool host_matches(const struct weir_rule_match *m, struct weir_text host)
{
	for (size_t i = 0; i < m->n_host; i++) {
		const struct weir_rule_host *h = &m->host[i];

		if (h->below && host.n > h->name.n &&
		    memcmp(host.p + host.n - h->name.n, h->name.p, h->name.n) == 0)
			return true;
		if (!h->below && weir_text_equal(host, h->name))
			return true;
	}
	return !m->n_host;
}

static bool header_matches(const struct weir_rule_header *h, const struct weir_header_list *list)
{
	const struct weir_header *line = NULL;

	while ((line = weir_header_list_next(list, h->name, line)))
		if (h->any_value || weir_text_equal(line->value, h->value))
			return true;
	return false;
}

static bool headers_match(const struct weir_rule_match *m, const struct weir_header_list *list)
{
	for (size_t i = 0; i < m->n_header; i++)
		if (!header_matches(&m->header[i], list))
			return false;
	return true;
}

static const struct weir_rule_path *pattern_of(const struct weir_rule_match *m,
					       const struct weir_path *path, unsigned reading)
{
	for (size_t i = 0; i < m->n_path; i++)
		if (weir_path_matches_reading(&m->path[i].pattern, path, reading))
			return &m->path[i];
	return NULL;
}

static bool path_matches(const struct weir_rule_match *m, const struct weir_path *path,
			 const struct weir_rule_path **ret_path, size_t max, size_t *ret_n)
{
	const struct weir_rule_path *p;
	size_t n = 0, k;

	if (!m->n_path)
		return true;
	for (unsigned i = 0; i < path->n && n < max; i++) {
		p = pattern_of(m, path, i);
		for (k = 0; p && k < n && ret_path[k] != p; k++)
			;
		if (p && k == n)
			ret_path[n++] = p;
	}
	*ret_n = n;
	return n > 0;
}

bool weir_rule_matches(const struct weir_rule_match *m, const struct weir_rule_question *q,
		       const struct weir_rule_path **ret_path, size_t max, size_t *ret_n)
{
	*ret_n = 0;
	return method_matches(m, q->method) && host_matches(m, q->host) &&
	       path_matches(m, q->path, ret_path, max, ret_n) && headers_match(m, q->headers);
}

static bool source_matches(const struct weir_rule_exempt *x, const struct weir_prefix *client)
{
	for (size_t i = 0; client && i < x->n_source; i++)
		if (weir_prefix_contains(&x->source[i], client))
			return true;
	return !x->n_source;
}

/* All readings must match, each by any of the patterns. */
static bool all_paths_match(const struct weir_rule_match *m, const struct weir_path *path)
{
	for (unsigned i = 0; m->n_path && i < path->n; i++)
		if (!pattern_of(m, path, i))
			return false;
	return true;
}

/* A browser's question before the request itself (CORS). */
static bool is_preflight(const struct weir_rule_question *q)
{
	return weir_text_equal(q->method, weir_text_of("OPTIONS")) &&
	       weir_header_list_next(q->headers, weir_text_of("Origin"), NULL) &&
	       weir_header_list_next(q->headers, weir_text_of("Access-Control-Request-Method"),
				     NULL);
}

bool weir_rules_exempt(const struct weir_rules *r, const struct weir_rule_question *q)
{
	for (size_t i = 0; i < r->n_exempt; i++) {
		const struct weir_rule_exempt *x = &r->exempt[i];

		if (source_matches(x, q->client) && method_matches(&x->match, q->method) &&
		    all_paths_match(&x->match, q->path) && (!x->preflight || is_preflight(q)))
			return true;
	}
	return false;
}
