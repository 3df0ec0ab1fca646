/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readers of words and texts, and what all readers share; see value.h. */
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

int weir_value_word(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node), *near;
	char buf[WEIR_SHOWN_MAX], all[128];
	size_t n;

	if (!text)
		return -EINVAL;
	for (n = 0; t->s->words[n]; n++) {
		if (strcmp(text, t->s->words[n]) == 0) {
			weir_value_store(t, n + t->s->min);
			return 0;
		}
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

int weir_value_name(const struct weir_target *t, const yaml_node_t *n, char *to, size_t size)
{
	const char *text = weir_value_scalar(t, n);
	char buf[WEIR_SHOWN_MAX];

	if (!text)
		return -EINVAL;
	if (!is_name(text) || strlen(text) >= size) {
		weir_reader_error(
			t->r, n,
			"%s: \"%s\" is not a name (a-z, 0-9, '-' and '_', at most %zu of them)",
			weir_value_key(t), weir_value_shown(n, buf), size - 1);
		return -EINVAL;
	}
	(void)weir_str_copy(to, size, text); /* it fits */
	return 0;
}

int weir_value_bool(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];
	bool b;

	if (!text)
		return -EINVAL;
	if (weir_str_bool(text, &b) < 0) {
		weir_reader_error(t->r, t->node, "%s: \"%s\" is neither true nor false",
				  weir_value_key(t), weir_value_shown(t->node, buf));
		return -EINVAL;
	}
	weir_value_store(t, b);
	return 0;
}

int weir_value_text(const struct weir_target *t, const char *text)
{
	char *copy = strdup(text), *old;

	if (!copy)
		return -ENOMEM;
	memcpy(&old, t->to, sizeof(old));
	free(old);
	memcpy(t->to, &copy, sizeof(copy));
	return 0;
}

int weir_value_user(const struct weir_target *t)
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
	return weir_value_text(t, text);
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

int weir_value_path(const struct weir_target *t)
{
	int r = check_path(t, t->node, t->s->max);

	return r < 0 ? r : weir_value_text(t, weir_yaml_text(t->node));
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
		weir_reader_error(t->r, n,
				  "%s: \"%s\" cannot be an interface (at most 15 characters, no "
				  "space, '/' or ':')",
				  weir_value_key(t), weir_value_shown(n, buf));
	return ok ? 0 : -EINVAL;
}

int weir_value_add_text(const struct weir_target *t, const char *text, int line)
{
	char ***items = (char ***)t->to, **item;
	size_t *n = (size_t *)((unsigned char *)t->base + t->s->count);
	int **all = (int **)((unsigned char *)t->base + t->s->lines), *lines;

	item = reallocarray(*items, *n + 1, sizeof(*item));
	if (!item)
		return -ENOMEM;
	*items = item;
	if (t->s->lines) {
		lines = reallocarray(*all, *n + 1, sizeof(*lines));
		if (!lines)
			return -ENOMEM;
		*all = lines;
		lines[*n] = line;
	}
	item[*n] = strdup(text);
	if (!item[*n])
		return -ENOMEM;
	++*n;
	return 0;
}

bool weir_value_has_text(const struct weir_target *t, const char *text)
{
	char *const *item = *(char ***)t->to;
	size_t n = *(const size_t *)((const unsigned char *)t->base + t->s->count);

	for (size_t i = 0; i < n; i++)
		if (strcmp(item[i], text) == 0)
			return true;
	return false;
}

int weir_value_texts(const struct weir_target *t)
{
	const yaml_node_t *list = weir_value_list(t, t->node, t->s->max);
	int r = list ? 0 : -EINVAL;

	for (size_t i = 0; list && i < weir_value_count(list); i++) {
		const yaml_node_t *n = weir_value_item(t, list, i);
		char buf[WEIR_SHOWN_MAX];
		int r2 = t->s->kind == WEIR_KIND_INTERFACES ? check_interface(t, n)
							    : check_path(t, n, 4095);

		if (r2 == 0 && weir_value_has_text(t, weir_yaml_text(n))) {
			weir_reader_error(t->r, n, "%s: %s is there twice", weir_value_key(t),
					  weir_value_shown(n, buf));
			r2 = -EINVAL;
		}
		if (r2 == 0)
			r2 = weir_value_add_text(t, weir_yaml_text(n), (int)n->start_mark.line + 1);
		if (r2 == -ENOMEM)
			return r2;
		if (r2 < 0)
			r = r2;
	}
	return r;
}
