/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lists of groups of settings (limits, listeners…), which reader reads which kind of value, and defaults. Called from
 * read.c along a document, and by set.c for one value.
 */
#include <string.h>

#include "user/config/value.h"

/* --- lists of groups ---- */

static int read_entry(const struct weir_target *t, const yaml_node_t *n)
{
	const struct weir_entries *e = t->s->entries;
	struct weir_marks marks = {.node = n}, *outer = t->r->marks;
	unsigned char *base = t->base, *entry, *before, *items;
	size_t *count = (size_t *)(base + e->n);
	int line = (int)n->start_mark.line + 1, r;

	memcpy(&before, base + e->items, sizeof(before));
	items = reallocarray(before, *count + 1, e->size);
	if (!items)
		return -ENOMEM;
	memcpy(base + e->items, &items, sizeof(items));
	entry = items + *count * e->size;
	memset(entry, 0, e->size);
	if (e->init)
		e->init(entry);
	memcpy(entry + e->line, &line, sizeof(line));
	++*count;
	r = weir_setting_defaults(e->section, entry);
	if (r < 0)
		return r;
	t->r->marks = &marks;
	if (weir_yaml_is_null(n)) {
		weir_reader_error(t->r, n, "an empty entry where a %s belongs (%s)", e->entry,
				  e->needs);
		r = -EINVAL;
	} else {
		r = weir_group_read(t->r, e->section, n, entry);
	}
	if (r == 0)
		r = e->finish(t->r, entry);
	t->r->marks = outer;
	return r;
}

static int read_entries(const struct weir_target *t)
{
	const struct weir_entries *e = t->s->entries;
	int r = 0;

	if (t->node->type != YAML_SEQUENCE_NODE) {
		if (weir_yaml_is_null(t->node))
			return 0;
		weir_reader_error(t->r, t->node,
				  "%s: %s where a list of %s belongs (each begins with '- ')",
				  weir_value_key(t), weir_yaml_kind(t->node), e->entries);
		return -EINVAL;
	}
	for (size_t i = 0; i < weir_value_count(t->node); i++) {
		const yaml_node_t *n = weir_value_item(t, t->node, i);
		int r2;

		if (i == t->s->max) {
			weir_reader_error(t->r, n, "more than %llu %s (%zu are given)", t->s->max,
					  e->entries, weir_value_count(t->node));
			return -EINVAL;
		}
		r2 = read_entry(t, n);
		if (r2 == -ENOMEM)
			return r2;
		if (r2 < 0)
			r = r2;
	}
	return r;
}

/* For what follows from the absence of a setting. */
static void note_given(const struct weir_setting *s, void *base)
{
	const struct weir_entries *e = s->given ? weir_setting_entries(s) : NULL;

	if (e == &weir_entries_packet_limits)
		((struct weir_conf_limit *)base)->given |= (__u8)s->given;
	else if (e == &weir_entries_request_limits)
		((struct weir_conf_request_limit *)base)->given |= s->given;
}

static int read_value(const struct weir_target *t)
{
	switch (t->s->kind) {
	case WEIR_KIND_SECTION:
		return weir_group_read(t->r, t->s->path, t->node, t->base);
	case WEIR_KIND_LIST:
		return read_entries(t);
	case WEIR_KIND_NUMBER:
		return weir_value_number(t);
	case WEIR_KIND_WORD:
		return weir_value_word(t);
	case WEIR_KIND_BOOL:
		return weir_value_bool(t);
	case WEIR_KIND_NAME:
		return weir_value_name(t, t->node, (char *)t->to, t->s->size);
	case WEIR_KIND_USER:
		return weir_value_user(t);
	case WEIR_KIND_PATH:
		return weir_value_path(t);
	case WEIR_KIND_PATHS:
	case WEIR_KIND_INTERFACES:
		return weir_value_texts(t);
	case WEIR_KIND_PREFIXES:
		return weir_value_prefixes(t);
	case WEIR_KIND_TABLE:
		return weir_value_table(t);
	case WEIR_KIND_SIZE:
		return weir_value_size(t);
	case WEIR_KIND_DURATION:
		return weir_value_duration(t);
	case WEIR_KIND_RATE:
		return weir_value_rate(t);
	case WEIR_KIND_AMOUNT:
		return weir_value_amount(t);
	case WEIR_KIND_PROTOCOLS:
		return weir_value_protocols(t);
	case WEIR_KIND_FLAGS:
		return weir_value_flags(t);
	case WEIR_KIND_PORTS:
		return weir_value_ports(t);
	case WEIR_KIND_NETS:
		return weir_value_nets(t);
	default:
		return weir_value_request(t);
	}
}

int weir_setting_read(struct weir_reader *r, const struct weir_setting *s, const yaml_node_t *node,
		      void *base)
{
	struct weir_target t = {r, s, node, (unsigned char *)base + s->offset, base};
	int r2 = read_value(&t);

	if (r2 == 0)
		note_given(s, base);
	return r2;
}

/* Defaults are text in the table and go through the same readers; "[]" is what zeroed memory says already. */
int weir_setting_defaults(const char *section, void *base)
{
	struct weir_conf_problems problems = {.n = 0};
	struct weir_reader r = {.problems = &problems};
	int r2 = 0;

	for (size_t i = 0; i < weir_settings_n && r2 == 0; i++) {
		const struct weir_setting *s = &weir_settings[i];
		const struct weir_entries *e = weir_setting_entries(s);
		bool inside = strcmp(e ? e->section : "", section) == 0;
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
		/* nobody has said it: not noted as given */
		r2 = read_value(&(struct weir_target){&r, s, &node,
						      (unsigned char *)base + s->offset, base});
	}
	weir_conf_problems_done(&problems);
	return r2;
}
