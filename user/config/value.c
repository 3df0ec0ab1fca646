/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readers of words, texts and limits, and what all readers share; see value.h. */
#include "user/config/value.h"

#include <ctype.h>
#include <string.h>

#include "user/base/str.h"

_Static_assert(sizeof(enum weir_mode) == sizeof(unsigned int), "enums are stored as unsigned int");

const char *weir_value_key(const struct weir_target *t)
{
	return weir_setting_key(t->s);
}

const char *weir_value_shown(const yaml_node_t *n, char buf[static WEIR_SHOWN_MAX])
{
	return weir_conf_shown(weir_yaml_text(n), n->data.scalar.length, buf);
}

/* --- lists: [a, b], or just a ---- */

size_t weir_value_count(const yaml_node_t *n)
{
	if (n->type == YAML_SEQUENCE_NODE)
		return (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
	return weir_yaml_is_null(n) ? 0 : 1;
}

const yaml_node_t *weir_value_item(const struct weir_target *t, const yaml_node_t *n, size_t i)
{
	if (n->type == YAML_SEQUENCE_NODE)
		return yaml_document_get_node(t->r->doc, n->data.sequence.items.start[i]);
	return n;
}

/* "link, chain or external", or what else to write. */
const char *weir_value_wanted(const struct weir_setting *s, char *buf, size_t size)
{
	size_t len = 0;

	if (!s->words)
		return s->type;
	buf[0] = '\0';
	for (size_t i = 0; s->words[i] && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%s",
					i == 0		  ? ""
					: s->words[i + 1] ? ", "
							  : " or ",
					s->words[i]);
	return buf;
}

/* Text of a scalar with something in it; else the mistake is said. */
const char *weir_value_scalar(const struct weir_target *t, const yaml_node_t *n)
{
	char words[128];

	if (n->type != YAML_SCALAR_NODE || weir_yaml_is_null(n)) {
		weir_reader_error(t->r, n, "%s: %s instead of a value (%s)", weir_value_key(t),
				  weir_yaml_kind(n), weir_value_wanted(t->s, words, sizeof(words)));
		return NULL;
	}
	if (strlen(weir_yaml_text(n)) != n->data.scalar.length) {
		weir_reader_error(t->r, n, "%s: a zero byte in the text", weir_value_key(t));
		return NULL;
	}
	return weir_yaml_text(n);
}

/* {not: [...]} → what is in it. */
const yaml_node_t *weir_value_unwrap_not(const struct weir_target *t, bool *ret_negate)
{
	const yaml_node_t *n = t->node, *k;
	const yaml_node_pair_t *p;

	*ret_negate = false;
	if (n->type != YAML_MAPPING_NODE)
		return n;
	p = n->data.mapping.pairs.start;
	k = p < n->data.mapping.pairs.top ? yaml_document_get_node(t->r->doc, p->key) : NULL;
	if (!k || p + 1 != n->data.mapping.pairs.top || k->type != YAML_SCALAR_NODE ||
	    strcmp(weir_yaml_text(k), "not") != 0) {
		weir_reader_error(t->r, n, "%s: only {not: [...]} may stand here",
				  weir_value_key(t));
		return NULL;
	}
	*ret_negate = true;
	n = yaml_document_get_node(t->r->doc, p->value);
	if (weir_value_count(n) == 0 || n->type == YAML_MAPPING_NODE) {
		weir_reader_error(t->r, n, "%s: not: needs a value or a list", weir_value_key(t));
		return NULL;
	}
	return n;
}

/* The values of a list kind; NULL and the mistake said where there are too many, or a group. */
const yaml_node_t *weir_value_list(const struct weir_target *t, const yaml_node_t *n, size_t max)
{
	if (n->type == YAML_MAPPING_NODE) {
		weir_reader_error(t->r, n, "%s: a group of settings where a %s belongs",
				  weir_value_key(t), t->s->type);
		return NULL;
	}
	if (weir_value_count(n) > max) {
		weir_reader_error(t->r, n, "%s: %zu entries (at most %zu)", weir_value_key(t),
				  weir_value_count(n), max);
		return NULL;
	}
	return n;
}

/* The same for conditions: an empty one would match everything, or nothing; nobody means that. */
const yaml_node_t *weir_value_condition(const struct weir_target *t, const yaml_node_t *n,
					size_t max)
{
	if (n && n->type != YAML_MAPPING_NODE && weir_value_count(n) == 0) {
		weir_reader_error(t->r, n, "%s: nothing in it (leave %s out to match everything)",
				  weir_value_key(t), weir_value_key(t));
		return NULL;
	}
	return n ? weir_value_list(t, n, max) : NULL;
}

/* --- words and texts ---- */

static int read_word(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node), *near;
	char buf[WEIR_SHOWN_MAX], all[128];
	size_t n;

	if (!text)
		return -EINVAL;
	for (n = 0; t->s->words[n]; n++) {
		if (strcmp(text, t->s->words[n]) == 0) {
			weir_value_store(t, n);
			return 0;
		}
	}
	if (t->s->words == weir_words_per &&
	    (strcmp(text, "destination") == 0 || strcmp(text, "all") == 0)) {
		weir_reader_error(t->r, t->node,
				  "per: %s: this version of weir does not have limits per %s yet "
				  "(per: source)",
				  text, text);
		return -EINVAL;
	}
	near = weir_str_closest(text, t->s->words, n);
	if (near)
		weir_reader_error(t->r, t->node, "%s: unknown word \"%s\" (did you mean \"%s\"?)",
				  weir_value_key(t), weir_value_shown(t->node, buf), near);
	else
		weir_reader_error(t->r, t->node, "%s: unknown word \"%s\" (%s)", weir_value_key(t),
				  weir_value_shown(t->node, buf),
				  weir_value_wanted(t->s, all, sizeof(all)));
	return -EINVAL;
}

static bool is_name(const char *s)
{
	return *s && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(s);
}

static int read_name(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];

	if (!text)
		return -EINVAL;
	if (!is_name(text) || strlen(text) >= t->s->size) {
		weir_reader_error(
			t->r, t->node,
			"%s: \"%s\" is not a name (a-z, 0-9, '-' and '_', at most %zu of them)",
			weir_value_key(t), weir_value_shown(t->node, buf), t->s->size - 1);
		return -EINVAL;
	}
	(void)weir_str_copy((char *)t->to, t->s->size, text); /* it fits */
	return 0;
}

static int store_text(unsigned char *to, const char *text)
{
	char *copy = strdup(text), *old;

	if (!copy)
		return -ENOMEM;
	memcpy(&old, to, sizeof(old));
	free(old);
	memcpy(to, &copy, sizeof(copy));
	return 0;
}

static int read_user(const struct weir_target *t)
{
	const char *text;
	char buf[WEIR_SHOWN_MAX];

	text = weir_value_scalar(t, t->node);
	if (!text)
		return -EINVAL;
	if (!*text || strlen(text) > 32 || text[0] == '-' ||
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") !=
		    strlen(text)) {
		weir_reader_error(t->r, t->node, "%s: \"%s\" is not the name of a group",
				  weir_value_key(t), weir_value_shown(t->node, buf));
		return -EINVAL;
	}
	return store_text(t->to, text);
}

static int check_path(const struct weir_target *t, const yaml_node_t *n, size_t max)
{
	const char *text = weir_value_scalar(t, n);
	char buf[WEIR_SHOWN_MAX];

	if (!text)
		return -EINVAL;
	if (text[0] == '/' && strlen(text) <= max)
		return 0;
	if (text[0] == '/')
		weir_reader_error(t->r, n, "%s: the path is too long (at most %zu characters)",
				  weir_value_key(t), max);
	else
		weir_reader_error(t->r, n, "%s: \"%s\" is not a whole path (it begins with '/')",
				  weir_value_key(t), weir_value_shown(n, buf));
	return -EINVAL;
}

static int read_path(const struct weir_target *t)
{
	int r = check_path(t, t->node, t->s->max);

	return r < 0 ? r : store_text(t->to, weir_yaml_text(t->node));
}

/* The kernel's rule for a name (dev_valid_name). */
static int check_interface(const struct weir_target *t, const yaml_node_t *n)
{
	const char *text = weir_value_scalar(t, n);
	char buf[WEIR_SHOWN_MAX];
	bool ok;

	if (!text)
		return -EINVAL;
	ok = *text && strlen(text) < 16 && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
	for (const char *c = text; ok && *c; c++)
		ok = isgraph((unsigned char)*c) && *c != '/' && *c != ':';
	if (!ok)
		weir_reader_error(
			t->r, n,
			"%s: \"%s\" cannot be an interface (at most 15 characters, no space, "
			"'/' or ':')",
			weir_value_key(t), weir_value_shown(n, buf));
	return ok ? 0 : -EINVAL;
}

/* Where a list of texts and its length live in struct weir_conf. */
struct texts {
	char ***item;
	int **line;
	size_t *n;
};

static struct texts texts_of(const struct weir_target *t)
{
	struct weir_conf *c = t->base;

	if (t->s->kind == WEIR_KIND_INTERFACES)
		return (struct texts){&c->interfaces, NULL, &c->n_interfaces};
	if (t->s->offset == offsetof(struct weir_conf, allow_files))
		return (struct texts){&c->allow_files, &c->allow_file_lines, &c->n_allow_files};
	return (struct texts){&c->block_files, &c->block_file_lines, &c->n_block_files};
}

static int add_text(const struct texts *to, const char *text, int line)
{
	char **item = reallocarray(*to->item, *to->n + 1, sizeof(*item));
	int *lines;

	if (!item)
		return -ENOMEM;
	*to->item = item;
	if (to->line) {
		lines = reallocarray(*to->line, *to->n + 1, sizeof(*lines));
		if (!lines)
			return -ENOMEM;
		*to->line = lines;
		lines[*to->n] = line;
	}
	item[*to->n] = strdup(text);
	if (!item[*to->n])
		return -ENOMEM;
	++*to->n;
	return 0;
}

static bool has_text(const struct texts *to, const char *text)
{
	for (size_t i = 0; i < *to->n; i++)
		if (strcmp((*to->item)[i], text) == 0)
			return true;
	return false;
}

static int read_texts(const struct weir_target *t)
{
	const yaml_node_t *list = weir_value_list(t, t->node, t->s->max);
	struct texts to = texts_of(t);
	int r = list ? 0 : -EINVAL;

	for (size_t i = 0; list && i < weir_value_count(list); i++) {
		const yaml_node_t *n = weir_value_item(t, list, i);
		char buf[WEIR_SHOWN_MAX];
		int r2 = t->s->kind == WEIR_KIND_INTERFACES ? check_interface(t, n)
							    : check_path(t, n, 4095);

		if (r2 == 0 && has_text(&to, weir_yaml_text(n))) {
			weir_reader_error(t->r, n, "%s: %s is there twice", weir_value_key(t),
					  weir_value_shown(n, buf));
			r2 = -EINVAL;
		}
		if (r2 == 0)
			r2 = add_text(&to, weir_yaml_text(n), (int)n->start_mark.line + 1);
		if (r2 == -ENOMEM)
			return r2;
		if (r2 < 0)
			r = r2;
	}
	return r;
}

/* --- the list of limits ---- */

static int read_limit(const struct weir_target *t, const yaml_node_t *n, struct weir_conf *c)
{
	struct weir_marks marks = {.node = n}, *outer = t->r->marks;
	struct weir_conf_limit *l, *grown;
	char name[WEIR_NAME_MAX];
	int r;

	grown = reallocarray(c->limits, c->n_limits + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	c->limits = grown;
	l = &c->limits[c->n_limits++];
	weir_limit_init(l);
	l->line = (int)n->start_mark.line + 1;
	r = weir_setting_defaults("packet_limits", l);
	if (r < 0)
		return r;
	t->r->marks = &marks;
	if (weir_yaml_is_null(n)) {
		weir_reader_error(t->r, n,
				  "an empty entry where a limit belongs (a name and a rate)");
		r = -EINVAL;
	} else {
		r = weir_group_read(t->r, "packet_limits", n, l);
	}
	if (r == 0) {
		memcpy(name, l->name, sizeof(name));
		for (size_t i = 0; *name && i + 1 < c->n_limits; i++)
			if (strcmp(c->limits[i].name, name) == 0)
				weir_reader_error(
					t->r,
					marks.value[weir_setting_find("packet_limits", "name") -
						    weir_settings],
					"name: \"%s\" is taken (by the limit in line %d)", name,
					c->limits[i].line);
		weir_limit_finish(t->r, l);
	}
	t->r->marks = outer;
	return r;
}

static int read_limits(const struct weir_target *t)
{
	int r = 0;

	if (t->node->type != YAML_SEQUENCE_NODE) {
		if (weir_yaml_is_null(t->node))
			return 0;
		weir_reader_error(t->r, t->node,
				  "%s: %s where a list of limits belongs (each begins with '- ')",
				  weir_value_key(t), weir_yaml_kind(t->node));
		return -EINVAL;
	}
	for (size_t i = 0; i < weir_value_count(t->node); i++) {
		const yaml_node_t *n = weir_value_item(t, t->node, i);
		int r2;

		if (i == t->s->max) {
			weir_reader_error(t->r, n, "more than %llu limits (%zu are given)",
					  t->s->max, weir_value_count(t->node));
			return -EINVAL;
		}
		r2 = read_limit(t, n, t->base);
		if (r2 == -ENOMEM)
			return r2;
		if (r2 < 0)
			r = r2;
	}
	return r;
}

int weir_setting_read(struct weir_reader *r, const struct weir_setting *s, const yaml_node_t *node,
		      void *base)
{
	struct weir_target t = {r, s, node, (unsigned char *)base + s->offset, base};

	switch (s->kind) {
	case WEIR_KIND_SECTION:
		return weir_group_read(r, s->path, node, base);
	case WEIR_KIND_LIMITS:
		return read_limits(&t);
	case WEIR_KIND_NUMBER:
		return weir_value_number(&t);
	case WEIR_KIND_WORD:
		return read_word(&t);
	case WEIR_KIND_NAME:
		return read_name(&t);
	case WEIR_KIND_USER:
		return read_user(&t);
	case WEIR_KIND_PATH:
		return read_path(&t);
	case WEIR_KIND_PATHS:
	case WEIR_KIND_INTERFACES:
		return read_texts(&t);
	case WEIR_KIND_PREFIXES:
		return weir_value_prefixes(&t);
	case WEIR_KIND_TABLE:
		return weir_value_table(&t);
	case WEIR_KIND_DURATION:
		return weir_value_duration(&t);
	case WEIR_KIND_RATE:
		return weir_value_rate(&t);
	case WEIR_KIND_AMOUNT:
		return weir_value_amount(&t);
	case WEIR_KIND_PROTOCOLS:
		return weir_value_protocols(&t);
	case WEIR_KIND_FLAGS:
		return weir_value_flags(&t);
	case WEIR_KIND_PORTS:
		return weir_value_ports(&t);
	case WEIR_KIND_NETS:
		return weir_value_nets(&t);
	case WEIR_KIND_FRAGMENT:
		return weir_value_fragment(&t);
	case WEIR_KIND_LATER:
		break;
	}
	return -EINVAL;
}

/* Defaults are text in the table and go through the same readers; "[]" is what zeroed memory says already. */
int weir_setting_defaults(const char *section, void *base)
{
	struct weir_conf_problems problems = {.n = 0};
	struct weir_reader r = {.problems = &problems};
	size_t len = strlen(section);
	int r2 = 0;

	for (size_t i = 0; i < weir_settings_n && r2 == 0; i++) {
		const struct weir_setting *s = &weir_settings[i];
		bool inside = *section ? strncmp(s->path, section, len) == 0 && s->path[len] == '.'
				       : strncmp(s->path, "packet_limits", 13) != 0;
		_cleanup_free_ char *text = NULL;
		yaml_node_t node = {.type = YAML_SCALAR_NODE};

		if (!inside || !s->fallback || strcmp(s->fallback, "[]") == 0)
			continue;
		text = strdup(s->fallback);
		if (!text)
			return -ENOMEM;
		node.data.scalar.value = (unsigned char *)text;
		node.data.scalar.length = strlen(text);
		node.data.scalar.style = YAML_PLAIN_SCALAR_STYLE;
		r2 = weir_setting_read(&r, s, &node, base);
	}
	weir_conf_problems_done(&problems);
	return r2;
}
