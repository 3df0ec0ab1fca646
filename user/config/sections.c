/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parts a configuration's text into some of its top-level settings and the rest, by libyaml's marks; comments stay with
 * what stands before them. For limits that are published. Called by the agent.
 */
#include <string.h>

#include "user/base/cleanup.h"
#include "user/config/conf.h"
#include "user/config/yaml.h"

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

struct part {
	char *text;
	size_t n;
};

static void append(struct part *p, const char *from, size_t n)
{
	if (n)
		memcpy(p->text + p->n, from, n);
	p->n += n;
	if (n && p->text[p->n - 1] != '\n')
		p->text[p->n++] = '\n';
	p->text[p->n] = '\0';
}

static int part_map(const char *text, size_t n, yaml_document_t *doc, const yaml_node_t *map,
		    const char *const *names, size_t n_names, struct part *taken, struct part *rest,
		    struct weir_error *e)
{
	size_t from = 0;
	bool to_taken = false;

	if (map->data.mapping.style == YAML_FLOW_MAPPING_STYLE)
		return weir_error_set(
			e, -EINVAL,
			"the whole file is one {…}: write its settings on lines of their own");
	for (const yaml_node_pair_t *p = map->data.mapping.pairs.start;
	     p < map->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = yaml_document_get_node(doc, p->key);
		size_t at = weir_yaml_byte_of(text, n, key->start_mark.index);

		if (key->type != YAML_SCALAR_NODE || key->start_mark.column)
			return weir_error_set(e, -EINVAL,
					      "line %zu: a setting that does not begin its line",
					      key->start_mark.line + 1);
		append(to_taken ? taken : rest, text + from, at - from);
		from = at;
		to_taken = is_one_of(weir_yaml_text(key), names, n_names);
	}
	append(to_taken ? taken : rest, text + from, n - from);
	return 0;
}

int weir_conf_part(const char *text, size_t n, const char *const *names, size_t n_names,
		   char **ret_taken, char **ret_rest, struct weir_error *e)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	_cleanup_free_ char *a = NULL, *b = NULL;
	struct part taken, rest;
	size_t bom = weir_yaml_bom(text, n);
	const yaml_node_t *map;
	yaml_document_t doc;
	int r = weir_yaml_load(text, n, &doc, &problems);

	if (r < 0)
		return weir_error_set(e, -EINVAL, "%s",
				      problems.n ? problems.item[0].text : "out of memory");
	a = calloc(1, 2 * n + 2);
	b = calloc(1, 2 * n + 2);
	taken = (struct part){.text = a};
	rest = (struct part){.text = b};
	map = yaml_document_get_root_node(&doc);
	if (!a || !b)
		r = weir_error_set(e, -ENOMEM, "out of memory");
	else if (map && map->type == YAML_MAPPING_NODE)
		r = part_map(text + bom, n - bom, &doc, map, names, n_names, &taken, &rest, e);
	else
		append(&rest, text + bom, n - bom);
	yaml_document_delete(&doc);
	if (r < 0)
		return r;
	*ret_taken = TAKE_PTR(a);
	*ret_rest = TAKE_PTR(b);
	return 0;
}
