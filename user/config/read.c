/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Walks a document along the table of settings: groups, unknown and double keys; values are read in value*.c.
 * weir_conf_load() and weir_conf_parse() are here.
 */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/schema.h"

static int line_of(const yaml_node_t *n)
{
	return n ? (int)n->start_mark.line + 1 : 0;
}

void weir_reader_error(const struct weir_reader *r, const yaml_node_t *at, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	weir_problems_vadd(r->problems, false, NULL, line_of(at),
			   at ? (int)at->start_mark.column + 1 : 0, format, ap);
	va_end(ap);
}

void weir_reader_warn(const struct weir_reader *r, const yaml_node_t *at, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	weir_problems_vadd(r->problems, true, NULL, line_of(at),
			   at ? (int)at->start_mark.column + 1 : 0, format, ap);
	va_end(ap);
}

/* --- what was read from where ---- */

static size_t position(const char *section, const char *key)
{
	return (size_t)(weir_setting_find(section, key) - weir_settings);
}

const yaml_node_t *weir_reader_at(const struct weir_reader *r, const char *section, const char *key)
{
	if (!r->marks)
		return NULL;
	if (r->marks->value[position(section, key)])
		return r->marks->value[position(section, key)];
	return r->marks->node;
}

bool weir_reader_has(const struct weir_reader *r, const char *section, const char *key)
{
	return r->marks && r->marks->value[position(section, key)];
}

bool weir_reader_top_has(const struct weir_reader *r, const char *section, const char *key)
{
	return r->top && r->top->value[position(section, key)];
}

bool weir_reader_top_wrong(const struct weir_reader *r, const char *section, const char *key)
{
	return r->top && r->top->wrong[position(section, key)];
}

const yaml_node_t *weir_reader_top_at(const struct weir_reader *r, const char *section,
				      const char *key)
{
	return r->top ? r->top->value[position(section, key)] : NULL;
}

/* --- groups ---- */

/* "a, b or c" of the keys that @section has. */
static void list_keys(const char *section, char *buf, size_t size)
{
	size_t n = 0, len = strlen(section);

	buf[0] = '\0';
	for (size_t i = 0; i < weir_settings_n && n < size; i++) {
		const struct weir_setting *s = &weir_settings[i];
		int more;

		if (!weir_setting_below(s, section, len))
			continue;
		more = snprintf(buf + n, size - n, "%s%s", n ? ", " : "", weir_setting_key(s));
		n += more > 0 ? (size_t)more : 0;
	}
}

static void unknown_key(const struct weir_reader *r, const char *section, const yaml_node_t *key)
{
	const char *candidates[WEIR_SETTINGS_MAX] = {0}, *near, *text = weir_yaml_text(key);
	const char *home = NULL;
	char shown[WEIR_SHOWN_MAX], keys[256];
	size_t len = strlen(section);

	if (weir_problems_full(r->problems)) {
		weir_reader_error(r, key, "unknown key");
		return;
	}
	weir_conf_shown(text, key->data.scalar.length, shown);
	if (strcmp(text, "<<") == 0) {
		weir_reader_error(r, key, "merge keys are not supported (write the settings out)");
		return;
	}
	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];

		if (weir_setting_below(s, section, len))
			candidates[i] = weir_setting_key(s);
		else if (!home && strcmp(weir_setting_key(s), text) == 0 && strchr(s->path, '.'))
			home = s->path;
	}
	near = weir_str_closest(text, candidates, weir_settings_n);
	if (near)
		weir_reader_error(r, key, "unknown key \"%s\" (did you mean \"%s\"?)", shown, near);
	else if (home)
		weir_reader_error(r, key, "\"%s\" does not belong here (it belongs under %.*s)",
				  shown, (int)(strrchr(home, '.') - home), home);
	else {
		list_keys(section, keys, sizeof(keys));
		weir_reader_error(r, key, "unknown key \"%s\" (%s: %s)", shown,
				  *section ? section : "here belong", keys);
	}
}

/* Finds the setting a key stands for; says what is wrong otherwise. @seen: pairs by position in the table. */
static void find_key(const struct weir_reader *r, const char *section, const yaml_node_pair_t *pair,
		     const yaml_node_pair_t **seen)
{
	const yaml_node_t *key = yaml_document_get_node(r->doc, pair->key);
	const struct weir_setting *s;

	if (key->type != YAML_SCALAR_NODE) {
		weir_reader_error(r, key, "%s where the name of a setting belongs",
				  weir_yaml_kind(key));
		return;
	}
	/* a NUL in the text cannot match a name by accident */
	s = strlen(weir_yaml_text(key)) == key->data.scalar.length
		    ? weir_setting_find(section, weir_yaml_text(key))
		    : NULL;
	if (!s)
		unknown_key(r, section, key);
	else if (seen[s - weir_settings])
		weir_reader_error(r, key, "%s is set twice (first in line %d)", weir_setting_key(s),
				  line_of(yaml_document_get_node(r->doc,
								 seen[s - weir_settings]->key)));
	else
		seen[s - weir_settings] = pair;
}

int weir_group_read(struct weir_reader *r, const char *section, const yaml_node_t *map, void *base)
{
	const yaml_node_pair_t *seen[WEIR_SETTINGS_MAX] = {0};
	char keys[256];

	if (weir_yaml_is_null(map))
		return 0; /* `lists:` with everything below it commented out */
	if (map->type != YAML_MAPPING_NODE) {
		list_keys(section, keys, sizeof(keys));
		weir_reader_error(r, map, "%s%s%s where settings belong (%s)", section,
				  *section ? ": " : "", weir_yaml_kind(map), keys);
		return -EINVAL;
	}
	for (const yaml_node_pair_t *p = map->data.mapping.pairs.start;
	     p < map->data.mapping.pairs.top; p++)
		find_key(r, section, p, seen);
	/* in the order of the table: see settings.c */
	for (size_t i = 0; i < weir_settings_n; i++) {
		const yaml_node_t *value =
			seen[i] ? yaml_document_get_node(r->doc, seen[i]->value) : NULL;
		int r2;

		if (!value)
			continue;
		if (r->marks)
			r->marks->value[i] = value;
		r2 = weir_setting_read(r, &weir_settings[i], value, base);
		if (r2 == -ENOMEM)
			return r2;
		if (r2 < 0 && r->marks) {
			r->marks->wrong[i] = true;
			r->marks->bad |= weir_settings[i].given;
		}
	}
	return 0;
}

void weir_limit_init(void *entry)
{
	*(struct weir_conf_limit *)entry =
		(struct weir_conf_limit){.match = {.any_protocol = true, .fragment = -1}};
}

void weir_limit_done(struct weir_conf_limit *l)
{
	free(l->match.source_port.item);
	free(l->match.destination_port.item);
	free(l->match.vlan.item);
	free(l->match.source.item);
	free(l->match.destination.item);
}

void weir_conf_free(struct weir_conf *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n_limits; i++)
		weir_limit_done(&c->limits[i]);
	free(c->limits);
	weir_conf_request_done(&c->request);
	weir_conf_store_done(&c->store);
	weir_prefix_list_done(&c->allow);
	weir_prefix_list_done(&c->block);
	weir_prefix_list_done(&c->never_block);
	weir_texts_done(&c->allow_files, &c->n_allow_files);
	weir_texts_done(&c->block_files, &c->n_block_files);
	free(c->allow_file_lines);
	free(c->block_file_lines);
	weir_texts_done(&c->interfaces, &c->n_interfaces);
	free(c->admin_group);
	free(c->admin_listen);
	free(c->state_dir);
	free(c->bpffs);
	free(c->path);
	free(c);
}

static int read_document(struct weir_reader *r, struct weir_conf *c)
{
	const yaml_node_t *root = yaml_document_get_root_node(r->doc);
	size_t before = r->problems->n_errors;
	struct weir_marks top = {.node = NULL};
	int r2;

	r->conf = c;
	r->marks = r->top = &top;
	if (c->path && (!root || weir_yaml_is_null(root)))
		/* such as one that an editor or a full disk has cut: it would take everything off */
		weir_problems_add(r->problems, false, NULL, 0, 0,
				  "no settings in it (version: 1 is the least; nothing is taken "
				  "off by an empty file)");
	r2 = root ? weir_group_read(r, "", root, c) : 0;
	if (r2 == 0 || r2 == -EINVAL)
		weir_conf_finish(r, c);
	r->marks = r->top = NULL;
	if (r2 == -ENOMEM)
		return r2;
	return r->problems->n_errors > before ? -EINVAL : 0;
}

int weir_conf_parse(const char *name, const char *text, size_t n, struct weir_conf **ret,
		    struct weir_conf_problems *problems)
{
	_cleanup_(weir_conf_freep) struct weir_conf *c = calloc(1, sizeof(*c));
	struct weir_reader r = {.problems = problems};
	yaml_document_t doc;
	int r2;

	if (!c)
		return -ENOMEM;
	if (name) {
		c->path = strdup(name);
		if (!c->path)
			return -ENOMEM;
	}
	r2 = weir_setting_defaults("", c);
	if (r2 < 0)
		return r2;
	r2 = weir_yaml_load(text, n, &doc, problems);
	if (r2 == 0) {
		r.doc = &doc;
		r2 = read_document(&r, c);
		yaml_document_delete(&doc);
	}
	weir_problems_sort(problems);
	if (r2 < 0)
		return r2;
	*ret = TAKE_PTR(c);
	return 0;
}

int weir_conf_load(const char *path, struct weir_conf **ret, struct weir_conf_problems *problems)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	int r;

	if (!path)
		return weir_conf_parse(NULL, "", 0, ret, problems);
	r = weir_file_read(path, &text, &n);
	if (r == -EFBIG)
		weir_problems_add(
			problems, false, NULL, 0, 0,
			"larger than 16 MiB (put long lists into allow_files and block_files)");
	else if (r < 0)
		weir_problems_add(problems, false, NULL, 0, 0, "cannot be read: %s",
				  weir_file_problem(r));
	if (r < 0)
		return r;
	return weir_conf_parse(path, text, n, ret, problems);
}
