/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readers of what HTTP is made of: addresses to listen on, headers, methods, paths, hosts; see value.h. */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/value.h"

#define UNIX_PATH_MAX 107
#define HEADER_MAX    63

/* --- listen ---- */

static int read_unix(const struct weir_target *t, struct weir_conf_listener *l, const char *path)
{
	char buf[WEIR_SHOWN_MAX];

	if (*path != '/' || strlen(path) > UNIX_PATH_MAX) {
		weir_reader_error(t->r, t->node,
				  "%s: \"%s\" is no Unix socket (unix:/run/weir/web.sock, a whole "
				  "path of at most %d characters)",
				  weir_value_key(t), weir_value_shown(t->node, buf), UNIX_PATH_MAX);
		return -EINVAL;
	}
	free(l->unix_path);
	l->unix_path = strdup(path);
	return l->unix_path ? 0 : -ENOMEM;
}

/* What is wrong with an address and port, in words; NULL: nothing. */
static const char *read_tcp(const char *text, struct weir_conf_listener *l)
{
	const char *colon = strrchr(text, ':'), *host = text, *end = colon;
	struct weir_prefix p;
	__u64 port;

	if (!colon)
		return "has no port (127.0.0.1:9470, \"[::1]:9470\" or unix:/run/weir/web.sock)";
	if (weir_str_u64(colon + 1, 65535, &port) < 0)
		return "has no port of 0 to 65535 after the last colon (127.0.0.1:9470)";
	if (*host == '[') {
		if (end - host < 2 || end[-1] != ']')
			return "has a bracket too few (\"[::1]:9470\")";
		host++;
		end--;
	} else if (memchr(host, ':', (size_t)(end - host))) {
		return "needs its IPv6 address in brackets (\"[::1]:9470\")";
	}
	if (host == end || (end - host == 1 && *host == '*'))
		return "names no address (127.0.0.1:9470; 0.0.0.0:9470 is every one of IPv4)";
	if (memchr(host, '/', (size_t)(end - host)) ||
	    weir_prefix_parse(host, (size_t)(end - host), false, &p) < 0)
		return "is no address that can be listened on (127.0.0.1:9470, \"[::1]:9470\" or "
		       "unix:/run/weir/web.sock; names are not looked up)";
	l->addr = p.addr;
	l->family = p.family;
	l->port = (__u16)port;
	return NULL;
}

int weir_value_listen(const struct weir_target *t)
{
	struct weir_conf_listener *l = t->base;
	const char *text = weir_value_scalar(t, t->node), *wrong;
	char buf[WEIR_SHOWN_MAX];
	int r;

	if (!text)
		return -EINVAL;
	if (strncmp(text, "unix:", 5) == 0) {
		r = read_unix(t, l, text + 5);
		return r < 0 ? r : weir_value_text(t, text);
	}
	wrong = read_tcp(text, l);
	if (!wrong)
		return weir_value_text(t, text);
	weir_reader_error(t->r, t->node, "%s: \"%s\" %s", weir_value_key(t),
			  weir_value_shown(t->node, buf), wrong);
	return -EINVAL;
}

/* --- headers ---- */

static int check_header(const struct weir_target *t, const yaml_node_t *n, const char **ret)
{
	const char *text = weir_value_scalar(t, n);
	char buf[WEIR_SHOWN_MAX];

	if (!text)
		return -EINVAL;
	if (!weir_text_is_token(weir_text_of(text)) || strlen(text) > HEADER_MAX) {
		weir_reader_error(t->r, n,
				  "%s: \"%s\" is no name of a header (letters, digits and '-', at "
				  "most %d of them)",
				  weir_value_key(t), weir_value_shown(n, buf), HEADER_MAX);
		return -EINVAL;
	}
	*ret = text;
	return 0;
}

int weir_value_header(const struct weir_target *t)
{
	const char *text;

	return check_header(t, t->node, &text) < 0 ? -EINVAL : weir_value_text(t, text);
}

static int add_header(const struct weir_target *t, const yaml_node_t *n, const char *value)
{
	struct weir_conf_request_match *m = &((struct weir_conf_request_limit *)t->base)->match;
	struct weir_conf_header_match *grown, *h;
	const char *name;

	if (check_header(t, n, &name) < 0)
		return -EINVAL;
	for (size_t i = 0; i < m->n_header; i++) {
		if (!weir_text_equal_fold(weir_text_of(m->header[i].name), weir_text_of(name)))
			continue;
		weir_reader_error(t->r, n, "%s: %s is there twice", weir_value_key(t), name);
		return -EINVAL;
	}
	grown = reallocarray(m->header, m->n_header + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	m->header = grown;
	h = &grown[m->n_header++];
	h->name = strdup(name);
	h->value = value ? strdup(value) : NULL;
	return h->name && (h->value || !value) ? 0 : -ENOMEM;
}

/* {NAME: value} */
static int read_header_values(const struct weir_target *t)
{
	const yaml_node_t *map = t->node;
	int r = 0, r2;

	if (map->data.mapping.pairs.start == map->data.mapping.pairs.top ||
	    (size_t)(map->data.mapping.pairs.top - map->data.mapping.pairs.start) > t->s->max) {
		weir_reader_error(t->r, map, "%s: 1 to %llu headers may stand here",
				  weir_value_key(t), t->s->max);
		return -EINVAL;
	}
	for (const yaml_node_pair_t *p = map->data.mapping.pairs.start;
	     p < map->data.mapping.pairs.top; p++) {
		const yaml_node_t *n = yaml_document_get_node(t->r->doc, p->value);
		const char *value = weir_value_scalar(t, n);

		if (value && strpbrk(value, "\r\n")) {
			weir_reader_error(t->r, n, "%s: no header's value has two lines",
					  weir_value_key(t));
			value = NULL;
		}
		r2 = value ? add_header(t, yaml_document_get_node(t->r->doc, p->key), value)
			   : -EINVAL;
		if (r2 == -ENOMEM)
			return r2;
		if (r2 < 0)
			r = r2;
	}
	return r;
}

int weir_value_header_match(const struct weir_target *t)
{
	const yaml_node_t *list;
	int r = 0;

	if (t->node->type == YAML_MAPPING_NODE)
		return read_header_values(t);
	list = weir_value_condition(t, t->node, t->s->max);
	for (size_t i = 0; list && i < weir_value_count(list); i++) {
		int r2 = add_header(t, weir_value_item(t, list, i), NULL);

		if (r2 == -ENOMEM)
			return r2;
		if (r2 < 0)
			r = r2;
	}
	return list ? r : -EINVAL;
}

/* --- lists of methods, paths, hosts: each has a normal form ---- */

/* Writes the normal form into @buf; -EINVAL and the mistake said. */
typedef int normal_fn(const struct weir_target *t, const yaml_node_t *n, const char *text,
		      char *buf, size_t size);

static int read_normal(const struct weir_target *t, normal_fn *normal)
{
	const yaml_node_t *list = weir_value_condition(t, t->node, t->s->max);
	char buf[WEIR_SHOWN_MAX], text[4 * WEIR_HOST_MAX];
	int r = list ? 0 : -EINVAL, r2;

	for (size_t i = 0; list && i < weir_value_count(list); i++) {
		const yaml_node_t *n = weir_value_item(t, list, i);
		const char *written = weir_value_scalar(t, n);

		r2 = written ? normal(t, n, written, text, sizeof(text)) : -EINVAL;
		if (r2 == 0 && weir_value_has_text(t, text)) {
			if (strcmp(written, "HEAD") == 0 || strcmp(written, "GET") == 0)
				continue; /* one and the same, but not everybody knows */
			weir_reader_error(t->r, n, "%s: %s is there twice", weir_value_key(t),
					  weir_value_shown(n, buf));
			r2 = -EINVAL;
		}
		if (r2 == 0)
			r2 = weir_value_add_text(t, text, 0);
		if (r2 == -ENOMEM)
			return r2;
		if (r2 < 0)
			r = r2;
	}
	return r;
}

static int normal_method(const struct weir_target *t, const yaml_node_t *n, const char *text,
			 char *buf, size_t size)
{
	static const char *const known[] = {"GET",     "POST",	  "PUT",   "DELETE", "PATCH",
					    "OPTIONS", "CONNECT", "TRACE", "HEAD"};
	/* as weir_str_closest compares */
	static const char *const lower[] = {"get",     "post",	  "put",   "delete", "patch",
					    "options", "connect", "trace", "head"};
	char shown[WEIR_SHOWN_MAX], method[WEIR_METHOD_MAX + 1];
	const char *near;

	if (weir_method_normal(weir_text_of(text), method) < 0) {
		weir_reader_error(t->r, n, "%s: \"%s\" is no method (for example POST)",
				  weir_value_key(t), weir_value_shown(n, shown));
		return -EINVAL;
	}
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(method, known[i]) == 0)
			return weir_str_copy(buf, size, method) ? 0 : -EINVAL;
	near = weir_str_closest(method, lower, ARRAY_LEN(lower));
	for (size_t i = 0; near && i < ARRAY_LEN(known); i++)
		if (near == lower[i])
			weir_reader_warn(t->r, n, "%s: %s is an unusual method (did you mean %s?)",
					 weir_value_key(t), method, known[i]);
	return weir_str_copy(buf, size, method) ? 0 : -EINVAL;
}

int weir_value_methods(const struct weir_target *t)
{
	return read_normal(t, normal_method);
}

/* Stays as written: only the request layer compiles it. */
static int normal_pattern(const struct weir_target *t, const yaml_node_t *n, const char *text,
			  char *buf, size_t size)
{
	struct weir_path_pattern p = {.n = 0};
	struct weir_error e = {""};
	int r = weir_path_pattern_parse(text, &t->r->conf->request.path, &p, &e);

	if (r == 0 && !weir_str_copy(buf, size, text)) {
		(void)weir_error_set(&e, 0, "a path of more than %zu characters", size - 1);
		r = -EINVAL;
	}
	weir_path_pattern_done(&p);
	if (r == -EINVAL)
		weir_reader_error(t->r, n, "%s: %s", weir_value_key(t), e.text);
	return r;
}

int weir_value_patterns(const struct weir_target *t)
{
	return read_normal(t, normal_pattern);
}

static int normal_host(const struct weir_target *t, const yaml_node_t *n, const char *text,
		       char *buf, size_t size)
{
	char shown[WEIR_SHOWN_MAX], host[WEIR_HOST_MAX + 1];
	bool below = strncmp(text, "*.", 2) == 0;

	if (weir_host_normal(weir_text_of(below ? text + 2 : text), host) < 0 ||
	    strchr(host, '*')) {
		weir_reader_error(t->r, n,
				  "%s: \"%s\" is no host (example.org, or *.example.org for every "
				  "name below it)",
				  weir_value_key(t), weir_value_shown(n, shown));
		return -EINVAL;
	}
	return snprintf(buf, size, "%s%s", below ? "*." : "", host) < (int)size ? 0 : -EINVAL;
}

int weir_value_hosts(const struct weir_target *t)
{
	return read_normal(t, normal_host);
}
