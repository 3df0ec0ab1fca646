/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes a limit's value into the text of its file: only the value's own characters change, found by libyaml's marks;
 * comments and layout stay. Called by save.c and, for the text in force, by the agent.
 */
#include "user/config/schema.h"

#include <string.h>

/* An edit: bytes [at, until) of the text become @text. */
struct edit {
	size_t at, until;
	char text[1536];
};

/* The value as the file shall say it. Flow text goes in as it is: it was parsed by itself and is one line, so it cannot
 * end a group that it stands in. Other text is quoted unless it is harmless everywhere.
 */
static int spell_value(const char *key, const char *value, char *buf, size_t size,
		       struct weir_error *e)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	const yaml_node_t *root;
	yaml_document_t doc;
	bool flow = false, empty;
	size_t n = 0;

	if (weir_yaml_load(value, strlen(value), &doc, &problems) < 0)
		return weir_error_set(e, -EINVAL, "%s",
				      problems.n ? problems.item[0].text : "out of memory");
	root = yaml_document_get_root_node(&doc);
	empty = !root;
	if (root && root->type != YAML_SCALAR_NODE)
		flow = *value == '[' || *value == '{';
	if (root && root->type == YAML_SCALAR_NODE)
		value = weir_yaml_text(root);
	if (empty || (root->type != YAML_SCALAR_NODE && !flow) || strpbrk(value, "\n\r#") ||
	    strlen(value) + 3 > size) {
		yaml_document_delete(&doc);
		return weir_error_set(e, -EINVAL, "%s: the value cannot be written in one line",
				      key);
	}
	if (flow ||
	    strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._ -") ==
		    strlen(value)) {
		n = (size_t)snprintf(buf, size, "%s", value);
	} else {
		buf[n++] = '"';
		for (const char *c = value; *c && n + 4 < size; c++) {
			if (*c == '"' || *c == '\\')
				buf[n++] = '\\';
			buf[n++] = *c;
		}
		buf[n++] = '"';
		buf[n] = '\0';
	}
	yaml_document_delete(&doc);
	return 0;
}

static const yaml_node_t *value_in(yaml_document_t *doc, const yaml_node_t *map, const char *key)
{
	if (!map || map->type != YAML_MAPPING_NODE)
		return NULL;
	for (const yaml_node_pair_t *p = map->data.mapping.pairs.start;
	     p < map->data.mapping.pairs.top; p++) {
		const yaml_node_t *k = yaml_document_get_node(doc, p->key);

		if (k->type == YAML_SCALAR_NODE && strcmp(weir_yaml_text(k), key) == 0)
			return yaml_document_get_node(doc, p->value);
	}
	return NULL;
}

/* The settings of one limit, of either layer; *ret_section is what they are in the table. */
static const yaml_node_t *limit_in(yaml_document_t *doc, const char *name, const char **ret_section)
{
	static const char *const lists[] = {"packet_limits", "request_limits"};
	const yaml_node_t *root = yaml_document_get_root_node(doc), *map;

	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		const yaml_node_t *list = value_in(doc, root, lists[k]);

		*ret_section = lists[k];
		if (!list || list->type != YAML_SEQUENCE_NODE)
			continue;
		for (const yaml_node_item_t *i = list->data.sequence.items.start;
		     i < list->data.sequence.items.top; i++) {
			const yaml_node_t *v;

			map = yaml_document_get_node(doc, *i);
			v = value_in(doc, map, "name");
			if (v && v->type == YAML_SCALAR_NODE &&
			    strcmp(weir_yaml_text(v), name) == 0)
				return map;
		}
	}
	map = strcmp(name, "suspicious") == 0
		      ? value_in(doc, value_in(doc, root, "suspicious"), "limit")
		      : NULL;
	return map && map->type == YAML_MAPPING_NODE &&
			       map->data.mapping.pairs.start < map->data.mapping.pairs.top
		       ? map
		       : NULL;
}

/* Does a value end exactly where libyaml says? (A group in block style ends at the next thing.) */
static bool ends_exactly(const yaml_node_t *v)
{
	if (v->type == YAML_SCALAR_NODE)
		return v->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ||
		       v->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
		       v->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
	if (v->type == YAML_SEQUENCE_NODE)
		return v->data.sequence.style == YAML_FLOW_SEQUENCE_STYLE;
	return v->data.mapping.style == YAML_FLOW_MAPPING_STYLE;
}

/* Where the name's value stands is where a new key goes: after it in flow style, on the next line in block style. A limit
 * without a name has it before its first key.
 */
static void insert_key(const char *text, size_t n, yaml_document_t *doc, const yaml_node_t *map,
		       const char *key, const char *value, struct edit *ret)
{
	const yaml_node_t *name = value_in(doc, map, "name");
	const yaml_node_t *first = yaml_document_get_node(doc, map->data.mapping.pairs.start->key);
	bool flow = map->data.mapping.style == YAML_FLOW_MAPPING_STYLE, crlf;
	size_t at =
		weir_yaml_byte_of(text, n, name ? name->end_mark.index : first->start_mark.index);
	int column = (int)(first->start_mark.column % 64);

	ret->at = ret->until = at;
	if (!name) {
		(void)snprintf(ret->text, sizeof(ret->text),
			       flow ? "%s: %.400s, " : "%s: %.400s\n%*s", key, value, column,
			       ""); /* it fits */
		return;
	}
	if (flow) {
		(void)snprintf(ret->text, sizeof(ret->text), ", %s: %.400s", key,
			       value); /* it fits */
		return;
	}
	while (at < n && text[at] != '\n')
		at++;
	crlf = at > 0 && at < n && text[at - 1] == '\r';
	ret->at = ret->until = at - crlf;
	(void)snprintf(ret->text, sizeof(ret->text), "%s%*s%s: %.400s", crlf ? "\r\n" : "\n",
		       column, "", key, value); /* it fits */
}

static int replace_value(const char *text, size_t n, const yaml_node_t *v, const char *key,
			 const char *value, struct edit *ret, struct weir_error *e)
{
	if (!ends_exactly(v))
		return weir_error_set(
			e, -EINVAL,
			"line %zu: %s spans several lines there (edit the file by hand)",
			v->start_mark.line + 1, key);
	ret->at = weir_yaml_byte_of(text, n, v->start_mark.index);
	ret->until = weir_yaml_byte_of(text, n, v->end_mark.index);
	(void)snprintf(ret->text, sizeof(ret->text), "%s%.1400s", ret->at == ret->until ? " " : "",
		       value); /* it fits */
	return 0;
}

/* One number for all becomes a group with one for each plan: the old one for all but @plan. */
static int spread_value(const char *text, size_t n, yaml_document_t *doc, const yaml_node_t *v,
			const char *plan, const char *value, char *buf, size_t size)
{
	const yaml_node_t *plans = value_in(doc, yaml_document_get_root_node(doc), "plans");
	size_t from = weir_yaml_byte_of(text, n, v->start_mark.index), used = 0;
	int len = (int)(weir_yaml_byte_of(text, n, v->end_mark.index) - from);
	bool found = false;

	if (!plans || plans->type != YAML_SEQUENCE_NODE || v->type != YAML_SCALAR_NODE || len > 64)
		return -EINVAL;
	for (const yaml_node_item_t *i = plans->data.sequence.items.start;
	     i < plans->data.sequence.items.top && used < size; i++) {
		const yaml_node_t *p = yaml_document_get_node(doc, *i);
		bool this;

		if (p->type != YAML_SCALAR_NODE)
			return -EINVAL;
		this = strcmp(weir_yaml_text(p), plan) == 0;
		found |= this;
		used += (size_t)snprintf(buf + used, size - used, "%s%s: %.*s", used ? ", " : "{",
					 weir_yaml_text(p), this ? (int)strlen(value) : len,
					 this ? value : text + from);
	}
	if (!found || used + 2 > size)
		return -EINVAL;
	buf[used] = '}';
	buf[used + 1] = '\0';
	return 0;
}

/* "limit.pro": one plan's number. */
static int find_plan_edit(const char *text, size_t n, yaml_document_t *doc, const yaml_node_t *map,
			  const char *key, const char *value, struct edit *ret,
			  struct weir_error *e)
{
	const char *plan = strchr(key, '.') + 1;
	char name[32], all[1400];
	const yaml_node_t *v, *one;

	(void)snprintf(name, sizeof(name), "%.*s", (int)(plan - 1 - key), key); /* it fits */
	v = value_in(doc, map, name);
	one = value_in(doc, v, plan);
	if (one)
		return replace_value(text, n, one, key, value, ret, e);
	if (!v || !ends_exactly(v) ||
	    spread_value(text, n, doc, v, plan, value, all, sizeof(all)) < 0)
		return weir_error_set(e, -EINVAL,
				      "%s cannot be saved by itself, since the file does not say "
				      "%s for each plan (%s={PLAN: …, PLAN: …})",
				      key, name, name);
	return replace_value(text, n, v, key, all, ret, e);
}

static bool is_plan_key(const char *section, const char *key)
{
	const char *dot = strchr(key, '.');
	const struct weir_setting *s;
	char name[32];

	if (!dot || !dot[1] || (size_t)(dot - key) >= sizeof(name) ||
	    strcmp(section, "packet_limits") == 0)
		return false;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(dot - key), key); /* it fits */
	s = weir_setting_find("request_limits", name);
	return s && weir_setting_is_by_plan(s);
}

static int find_edit(const char *text, size_t n, yaml_document_t *doc, const char *name,
		     const char *key, const char *value, struct edit *ret, struct weir_error *e)
{
	const char *section;
	const yaml_node_t *map = limit_in(doc, name, &section), *v;

	if (!map)
		return weir_error_set(e, -ENOENT,
				      "the file has no limit \"%s\" (nothing was saved)", name);
	if (is_plan_key(section, key))
		return find_plan_edit(text, n, doc, map, key, value, ret, e);
	if (!weir_setting_find(section, key) || strcmp(key, "name") == 0)
		return weir_error_set(
			e, -EINVAL,
			"%s cannot be saved by itself (rate, burst, limit, window, mode, match…)",
			key);
	v = value_in(doc, map, key);
	if (v)
		return replace_value(text, n, v, key, value, ret, e);
	insert_key(text, n, doc, map, key, value, ret);
	return 0;
}

int weir_conf_edit_limit(const char *text, size_t n, const char *name, const char *key,
			 const char *value, char **ret, size_t *ret_n, struct weir_error *e)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	size_t bom = weir_yaml_bom(text, n); /* which the places in the document do not count */
	struct edit edit = {.at = 0};
	yaml_document_t doc;
	char spelt[400], *out;
	size_t len;
	int r;

	r = spell_value(key, value, spelt, sizeof(spelt), e);
	if (r < 0)
		return r;
	r = weir_yaml_load(text, n, &doc, &problems);
	if (r < 0)
		return weir_error_set(e, -EINVAL, "%s",
				      problems.n ? problems.item[0].text : "out of memory");
	r = find_edit(text + bom, n - bom, &doc, name, key, spelt, &edit, e);
	yaml_document_delete(&doc);
	if (r < 0)
		return r;
	edit.at += bom;
	edit.until += bom;
	len = strlen(edit.text);
	out = malloc(n - (edit.until - edit.at) + len + 1);
	if (!out)
		return weir_error_set(e, -ENOMEM, "out of memory");
	memcpy(out, text, edit.at);
	memcpy(out + edit.at, edit.text, len);
	memcpy(out + edit.at + len, text + edit.until, n - edit.until);
	*ret_n = n - (edit.until - edit.at) + len;
	out[*ret_n] = '\0';
	*ret = out;
	return 0;
}
