/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Changes one limit of a configuration in memory (`weir limit set`). Request limits are in set_request.c, the text of a
 * file (`--save`) in save.c.
 */
#include "user/config/set.h"

#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"

static void *copy_of(const void *item, size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (p && n)
		memcpy(p, item, n * size);
	return p;
}

static int copy_limit(const struct weir_conf_limit *l, struct weir_conf_limit *ret)
{
	struct weir_conf_limit c = *l;
	struct weir_conf_match *m = &c.match;

	m->source_port.item =
		copy_of(m->source_port.item, m->source_port.n, sizeof(*m->source_port.item));
	m->destination_port.item = copy_of(m->destination_port.item, m->destination_port.n,
					   sizeof(*m->destination_port.item));
	m->vlan.item = copy_of(m->vlan.item, m->vlan.n, sizeof(*m->vlan.item));
	m->source.item = copy_of(m->source.item, m->source.n, sizeof(*m->source.item));
	m->destination.item =
		copy_of(m->destination.item, m->destination.n, sizeof(*m->destination.item));
	if (!m->source_port.item || !m->destination_port.item || !m->vlan.item || !m->source.item ||
	    !m->destination.item) {
		weir_limit_done(&c);
		return -ENOMEM;
	}
	*ret = c;
	return 0;
}

const struct weir_setting *weir_set_find(const char *section, const char *key, struct weir_error *e)
{
	const char *names[WEIR_SETTINGS_MAX] = {0}, *near;
	char shown[WEIR_SHOWN_MAX], keys[256] = "";
	size_t len = strlen(section), n = 0;

	if (strcmp(key, "name") == 0) {
		(void)weir_error_set(e, 0, "a limit's name cannot be set (state belongs to it)");
		return NULL;
	}
	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];

		if (strncmp(s->path, section, len) != 0 || s->path[len] != '.')
			continue;
		names[i] = s->path + len + 1;
		if (strcmp(key, names[i]) == 0)
			return s;
		if (!strchr(names[i], '.') && strcmp(names[i], "name") != 0 && n < sizeof(keys))
			n += (size_t)snprintf(keys + n, sizeof(keys) - n, "%s%s", n ? ", " : "",
					      names[i]);
	}
	near = weir_str_closest(key, names, weir_settings_n);
	weir_conf_shown(key, strlen(key), shown);
	if (near)
		(void)weir_error_set(e, 0, "unknown key \"%s\" (did you mean \"%s\"?)", shown,
				     near);
	else
		(void)weir_error_set(e, 0, "unknown key \"%s\" (%s)", shown, keys);
	return NULL;
}

int weir_set_first_error(const struct weir_conf_problems *p, struct weir_error *e)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->item[i].warning)
			return weir_error_set(e, -EINVAL, "%s", p->item[i].text);
	return weir_error_set(e, -ENOMEM, "out of memory");
}

void weir_set_warnings(const struct weir_conf_problems *p, const char *name,
		       struct weir_conf_problems *warnings)
{
	for (size_t i = 0; i < p->n && warnings; i++)
		if (p->item[i].warning)
			weir_problems_add(warnings, true, NULL, 0, 0, "limit \"%s\": %s", name,
					  p->item[i].text);
}

int weir_set_read(struct weir_conf *c, const struct weir_setting *s, const char *key,
		  const char *value, void *base, struct weir_error *e)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	struct weir_reader r = {.problems = &problems, .conf = c};
	const yaml_node_t *root;
	yaml_document_t doc;
	int r2;

	r2 = weir_yaml_load(value, strlen(value), &doc, &problems);
	if (r2 < 0)
		return weir_set_first_error(&problems, e);
	root = yaml_document_get_root_node(&doc);
	if (!root) {
		yaml_document_delete(&doc);
		return weir_error_set(e, -EINVAL, "%s: no value (KEY=VALUE)", key);
	}
	r.doc = &doc;
	r2 = weir_setting_read(&r, s, root, base);
	yaml_document_delete(&doc);
	if (r2 < 0 || problems.n_errors)
		return weir_set_first_error(&problems, e);
	return 0;
}

/* A whole group given anew replaces what it was. */
static void forget_group(const struct weir_setting *s, struct weir_conf_limit *l)
{
	if (strcmp(s->path, "packet_limits.match") == 0) {
		weir_limit_done(l);
		l->match = (struct weir_conf_match){.any_protocol = true, .fragment = -1};
	} else if (s->kind == WEIR_KIND_SECTION) {
		l->match.tcp_flags_set = 0;
		l->match.tcp_flags_clear = 0;
		l->match.has_tcp_flags = false;
	}
}

static int apply(struct weir_conf *c, const char *key, const char *value, struct weir_conf_limit *l,
		 __u8 *ret_given, struct weir_error *e)
{
	const struct weir_setting *s = weir_set_find("packet_limits", key, e);
	int r;

	if (!s)
		return -EINVAL;
	forget_group(s, l);
	r = weir_set_read(c, s, key, value, l, e);
	if (r == 0)
		*ret_given |= (__u8)s->given;
	return r;
}

int weir_set_split(const char *pair, char *key, size_t size, const char **ret_value,
		   struct weir_error *e)
{
	const char *eq = strchr(pair, '=');
	char shown[WEIR_SHOWN_MAX];

	if (!eq || eq == pair || (size_t)(eq - pair) >= size)
		return weir_error_set(e, -EINVAL,
				      "\"%s\" is not KEY=VALUE (for example rate=500/s)",
				      weir_conf_shown(pair, strlen(pair), shown));
	memcpy(key, pair, (size_t)(eq - pair));
	key[eq - pair] = '\0';
	*ret_value = eq + 1;
	return 0;
}

static int set_packet_limit(struct weir_conf *c, struct weir_conf_limit *l,
			    const char *const *pairs, size_t n, struct weir_conf_problems *warnings,
			    struct weir_error *e)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	struct weir_reader r = {.problems = &problems, .conf = c};
	struct weir_conf_limit next;
	__u8 given = 0;
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
	/* A new algorithm forgets the numbers of the old one, unless they are given again (and then refused). */
	if ((next.algorithm == WEIR_ALGO_TOKEN_BUCKET) != (l->algorithm == WEIR_ALGO_TOKEN_BUCKET))
		next.given &= (__u8)(given | WEIR_GIVEN_BLOCK_FOR | WEIR_GIVEN_IPV4_PREFIX |
				     WEIR_GIVEN_IPV6_PREFIX);
	weir_limit_finish(&r, &next);
	r2 = problems.n_errors ? weir_set_first_error(&problems, e) : 0;
	if (r2 < 0)
		goto fail;
	weir_set_warnings(&problems, next.name, warnings);
	weir_limit_done(l);
	*l = next;
	return 0;
fail:
	weir_limit_done(&next);
	return r2;
}

/* --- one limit by its name, of either layer ---- */

#define NAMES_MAX (WEIR_LIMITS_MAX + WEIR_REQUEST_LIMITS_MAX + 1)

static int unknown_limit(const struct weir_conf *c, const char *name, struct weir_error *e)
{
	const struct weir_conf_request *q = &c->request;
	const char *names[NAMES_MAX] = {0}, *near;
	char shown[WEIR_SHOWN_MAX];
	size_t n = 0;

	for (size_t i = 0; i < c->n_limits && n < NAMES_MAX; i++)
		names[n++] = c->limits[i].name;
	for (size_t i = 0; i < q->n_limit && n < NAMES_MAX; i++)
		names[n++] = q->limit[i].name;
	if (q->suspicious.given && n < NAMES_MAX)
		names[n++] = q->suspicious.limit.name;
	near = weir_str_closest(name, names, n);
	weir_conf_shown(name, strlen(name), shown);
	if (near)
		return weir_error_set(e, -ENOENT,
				      "no limit is called \"%s\" (did you mean \"%s\"?)", shown,
				      near);
	return weir_error_set(e, -ENOENT,
			      "no limit is called \"%s\" (`weir limit list` shows them)", shown);
}

int weir_conf_limit_set_all(struct weir_conf *c, const char *name, const char *const *pairs,
			    size_t n, struct weir_conf_problems *warnings, struct weir_error *e)
{
	struct weir_conf_request *q = &c->request;

	for (size_t i = 0; i < c->n_limits; i++)
		if (strcmp(c->limits[i].name, name) == 0)
			return set_packet_limit(c, &c->limits[i], pairs, n, warnings, e);
	for (size_t i = 0; i < q->n_limit; i++)
		if (strcmp(q->limit[i].name, name) == 0)
			return weir_set_request_limit(c, &q->limit[i], pairs, n, warnings, e);
	if (q->suspicious.given && strcmp(q->suspicious.limit.name, name) == 0)
		return weir_set_request_limit(c, &q->suspicious.limit, pairs, n, warnings, e);
	return unknown_limit(c, name, e);
}
