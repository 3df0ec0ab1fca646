/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One reader for each kind of value in the table of settings. A reader says every mistake of its value, with the place
 * and an example of what would be right.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "user/base/str.h"
#include "user/config/schema.h"

_Static_assert(sizeof(enum weir_mode) == sizeof(unsigned int), "enums are stored as unsigned int");

/* A value being read: what, where from, where to. */
struct target {
	struct weir_reader *r;
	const struct weir_setting *s;
	const yaml_node_t *node;
	unsigned char *to;
	void *base;
};

static const char *key(const struct target *t)
{
	return weir_setting_key(t->s);
}

static const char *shown(const yaml_node_t *n, char buf[static WEIR_SHOWN_MAX])
{
	return weir_conf_shown(weir_yaml_text(n), n->data.scalar.length, buf);
}

/* --- lists: [a, b], or just a ---- */

static size_t count_items(const yaml_node_t *n)
{
	if (n->type == YAML_SEQUENCE_NODE)
		return (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
	return weir_yaml_is_null(n) ? 0 : 1;
}

static const yaml_node_t *item_at(const struct target *t, const yaml_node_t *n, size_t i)
{
	if (n->type == YAML_SEQUENCE_NODE)
		return yaml_document_get_node(t->r->doc, n->data.sequence.items.start[i]);
	return n;
}

/* "link, chain or external", or what else to write. */
static const char *wanted(const struct weir_setting *s, char *buf, size_t size)
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
static const char *scalar(const struct target *t, const yaml_node_t *n)
{
	char words[128];

	if (n->type != YAML_SCALAR_NODE || weir_yaml_is_null(n)) {
		weir_reader_error(t->r, n, "%s: %s instead of a value (%s)", key(t),
				  weir_yaml_kind(n), wanted(t->s, words, sizeof(words)));
		return NULL;
	}
	if (strlen(weir_yaml_text(n)) != n->data.scalar.length) {
		weir_reader_error(t->r, n, "%s: a zero byte in the text", key(t));
		return NULL;
	}
	return weir_yaml_text(n);
}

/* {not: [...]} → what is in it. */
static const yaml_node_t *unwrap_not(const struct target *t, bool *ret_negate)
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
		weir_reader_error(t->r, n, "%s: only {not: [...]} may stand here", key(t));
		return NULL;
	}
	*ret_negate = true;
	n = yaml_document_get_node(t->r->doc, p->value);
	if (count_items(n) == 0 || n->type == YAML_MAPPING_NODE) {
		weir_reader_error(t->r, n, "%s: not: needs a value or a list", key(t));
		return NULL;
	}
	return n;
}

/* The values of a list kind; NULL and the mistake said where there are too many, or a group. */
static const yaml_node_t *list_of(const struct target *t, const yaml_node_t *n, size_t max)
{
	if (n->type == YAML_MAPPING_NODE) {
		weir_reader_error(t->r, n, "%s: a group of settings where a %s belongs", key(t),
				  t->s->type);
		return NULL;
	}
	if (count_items(n) > max) {
		weir_reader_error(t->r, n, "%s: %zu entries (at most %zu)", key(t), count_items(n),
				  max);
		return NULL;
	}
	return n;
}

/* The same for conditions: an empty one would match everything, or nothing; nobody means that. */
static const yaml_node_t *condition_of(const struct target *t, const yaml_node_t *n, size_t max)
{
	if (n && n->type != YAML_MAPPING_NODE && count_items(n) == 0) {
		weir_reader_error(t->r, n, "%s: nothing in it (leave %s out to match everything)",
				  key(t), key(t));
		return NULL;
	}
	return n ? list_of(t, n, max) : NULL;
}

/* --- numbers ---- */

static void store_number(const struct target *t, __u64 v)
{
	switch (t->s->size) {
	case 1: {
		__u8 x = (__u8)v;
		memcpy(t->to, &x, sizeof(x));
		break;
	}
	case 4: {
		__u32 x = (__u32)v;
		memcpy(t->to, &x, sizeof(x));
		break;
	}
	default:
		memcpy(t->to, &v, sizeof(v));
	}
}

static int read_number(const struct target *t)
{
	const char *text = scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];
	__u64 v;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_u64(text, t->s->max, &v);
	if (r == 0 && v >= t->s->min) {
		store_number(t, v);
		return 0;
	}
	if (strcmp(t->s->path, "version") == 0)
		weir_reader_error(t->r, t->node,
				  "version %s is not known (this weir reads version %llu)",
				  shown(t->node, buf), t->s->max);
	else if (r == -EINVAL)
		weir_reader_error(t->r, t->node, "%s: \"%s\" is not a whole number (%llu to %llu)",
				  key(t), shown(t->node, buf), t->s->min, t->s->max);
	else
		weir_reader_error(t->r, t->node, "%s: %s is out of range (%llu to %llu)", key(t),
				  shown(t->node, buf), t->s->min, t->s->max);
	return -EINVAL;
}

static int read_table(const struct target *t)
{
	const char *text = scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX], least[WEIR_STR_MAX], most[WEIR_STR_MAX];
	__u64 v, up;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_size_bytes(text, &v);
	if (r == -EINVAL) {
		weir_reader_error(t->r, t->node, "%s: \"%s\" is not a size (for example 16 MB)",
				  key(t), shown(t->node, buf));
		return r;
	}
	for (up = 1; r == 0 && up < v && up < t->s->max * 2;)
		up *= 2;
	if (r == 0 && up - v > v - up / 2)
		up /= 2; /* the nearer of the two */
	if (r < 0 || up < t->s->min || up > t->s->max) {
		weir_reader_error(t->r, t->node, "%s: %s is out of range (%s to %s)", key(t),
				  shown(t->node, buf), weir_str_format_size(t->s->min, least),
				  weir_str_format_size(t->s->max, most));
		return -EINVAL;
	}
	store_number(t, up);
	((struct weir_conf *)t->base)->packet_sources_asked = v;
	return 0;
}

static int read_duration(const struct target *t)
{
	struct weir_conf_limit *l = t->base;
	const char *text = scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX], least[WEIR_STR_MAX], most[WEIR_STR_MAX];
	__u64 v;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_duration_ns(text, &v);
	if (r == -EINVAL) {
		weir_reader_error(t->r, t->node,
				  "%s: \"%s\" is not a duration (for example 500ms, 10s, 5m, 1h)",
				  key(t), shown(t->node, buf));
		return r;
	}
	if (r == 0 && v == 0 && t->s->given == WEIR_GIVEN_BLOCK_FOR) {
		l->block_for_ns = 0; /* none: what the absence of it means */
		return 0;
	}
	if (r < 0 || v < t->s->min || v > t->s->max) {
		weir_reader_error(t->r, t->node, "%s: %s is too %s (%s to %s)", key(t),
				  shown(t->node, buf), r == 0 && v < t->s->min ? "short" : "long",
				  weir_str_format_duration(t->s->min, least),
				  weir_str_format_duration(t->s->max, most));
		return -EINVAL;
	}
	store_number(t, v);
	l->given |= t->s->given;
	return 0;
}

static int read_rate(const struct target *t)
{
	struct weir_conf_limit *l = t->base;
	const char *text = scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];
	struct weir_rate rate;
	__u64 n;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_rate(text, &rate);
	if (r == -EINVAL && weir_str_u64(text, ~0ull, &n) == 0) {
		weir_reader_error(t->r, t->node,
				  "%s: %s says how many, but not in what time (for example %s/s)",
				  key(t), shown(t->node, buf), shown(t->node, buf));
		return r;
	}
	if (r == -EINVAL) {
		weir_reader_error(
			t->r, t->node,
			"%s: \"%s\" is not a rate (for example 20000/s, 100/m, 200 Mbit/s)", key(t),
			shown(t->node, buf));
		return r;
	}
	if (r == 0 && rate.amount == 0) {
		weir_reader_error(
			t->r, t->node,
			"%s: %s admits nothing (to drop a source altogether use lists.block)",
			key(t), shown(t->node, buf));
		return -EINVAL;
	}
	/* 10^11 a second: 800 Gbit/s; 30 days: what a state word can tell apart */
	if (r < 0 ||
	    (unsigned __int128)rate.amount * 1000000000 >
		    (unsigned __int128)rate.per_ns * 100000000000ull ||
	    (unsigned __int128)rate.amount * 30 * 86400 * 1000000000ull < rate.per_ns) {
		weir_reader_error(
			t->r, t->node,
			"%s: %s is out of range (from 1/30d, slower rounds to nothing, to 800 "
			"Gbit/s or 100 G packets/s)",
			key(t), shown(t->node, buf));
		return -EINVAL;
	}
	l->rate = rate.amount;
	l->rate_per_ns = rate.per_ns;
	l->given |= WEIR_GIVEN_RATE;
	l->given_bytes =
		(__u8)((l->given_bytes & ~WEIR_GIVEN_RATE) | (rate.bytes ? WEIR_GIVEN_RATE : 0));
	return 0;
}

static int read_amount(const struct target *t)
{
	struct weir_conf_limit *l = t->base;
	const char *text = scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX], most[WEIR_STR_MAX];
	bool bytes = false;
	__u64 v;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_amount(text, &v, &bytes);
	if (r == -EINVAL) {
		weir_reader_error(t->r, t->node,
				  "%s: \"%s\" is not an amount (for example 200, 4 MB)", key(t),
				  shown(t->node, buf));
		return r;
	}
	if (r == 0 && v == 0) {
		weir_reader_error(t->r, t->node, "%s: 0 admits nothing (1 or more)", key(t));
		return -EINVAL;
	}
	if (r < 0 || v < t->s->min || v > t->s->max) {
		weir_reader_error(t->r, t->node, "%s: %s is out of range (1 to %llu, which is %s)",
				  key(t), shown(t->node, buf), t->s->max,
				  weir_str_format_size(t->s->max + (t->s->max & 1), most));
		return -EINVAL;
	}
	store_number(t, v);
	l->given |= t->s->given;
	l->given_bytes = (__u8)((l->given_bytes & ~t->s->given) | (bytes ? t->s->given : 0));
	return 0;
}

/* --- words and texts ---- */

static int read_word(const struct target *t)
{
	const char *text = scalar(t, t->node), *near;
	char buf[WEIR_SHOWN_MAX], all[128];
	size_t n;

	if (!text)
		return -EINVAL;
	for (n = 0; t->s->words[n]; n++) {
		if (strcmp(text, t->s->words[n]) == 0) {
			store_number(t, n);
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
				  key(t), shown(t->node, buf), near);
	else
		weir_reader_error(t->r, t->node, "%s: unknown word \"%s\" (%s)", key(t),
				  shown(t->node, buf), wanted(t->s, all, sizeof(all)));
	return -EINVAL;
}

static bool is_name(const char *s)
{
	return *s && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(s);
}

static int read_name(const struct target *t)
{
	const char *text = scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];

	if (!text)
		return -EINVAL;
	if (!is_name(text) || strlen(text) >= t->s->size) {
		weir_reader_error(
			t->r, t->node,
			"%s: \"%s\" is not a name (a-z, 0-9, '-' and '_', at most %zu of them)",
			key(t), shown(t->node, buf), t->s->size - 1);
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

static int read_user(const struct target *t)
{
	const char *text;
	char buf[WEIR_SHOWN_MAX];

	text = scalar(t, t->node);
	if (!text)
		return -EINVAL;
	if (!*text || strlen(text) > 32 || text[0] == '-' ||
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") !=
		    strlen(text)) {
		weir_reader_error(t->r, t->node, "%s: \"%s\" is not the name of a group", key(t),
				  shown(t->node, buf));
		return -EINVAL;
	}
	return store_text(t->to, text);
}

static int check_path(const struct target *t, const yaml_node_t *n, size_t max)
{
	const char *text = scalar(t, n);
	char buf[WEIR_SHOWN_MAX];

	if (!text)
		return -EINVAL;
	if (text[0] == '/' && strlen(text) <= max)
		return 0;
	if (text[0] == '/')
		weir_reader_error(t->r, n, "%s: the path is too long (at most %zu characters)",
				  key(t), max);
	else
		weir_reader_error(t->r, n, "%s: \"%s\" is not a whole path (it begins with '/')",
				  key(t), shown(n, buf));
	return -EINVAL;
}

static int read_path(const struct target *t)
{
	int r = check_path(t, t->node, t->s->max);

	return r < 0 ? r : store_text(t->to, weir_yaml_text(t->node));
}

/* The kernel's rule for a name (dev_valid_name). */
static int check_interface(const struct target *t, const yaml_node_t *n)
{
	const char *text = scalar(t, n);
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
			key(t), shown(n, buf));
	return ok ? 0 : -EINVAL;
}

/* Where a list of texts and its length live in struct weir_conf. */
struct texts {
	char ***item;
	int **line;
	size_t *n;
};

static struct texts texts_of(const struct target *t)
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

static int read_texts(const struct target *t)
{
	const yaml_node_t *list = list_of(t, t->node, t->s->max);
	struct texts to = texts_of(t);
	int r = list ? 0 : -EINVAL;

	for (size_t i = 0; list && i < count_items(list); i++) {
		const yaml_node_t *n = item_at(t, list, i);
		char buf[WEIR_SHOWN_MAX];
		int r2 = t->s->kind == WEIR_KIND_INTERFACES ? check_interface(t, n)
							    : check_path(t, n, 4095);

		if (r2 == 0 && has_text(&to, weir_yaml_text(n))) {
			weir_reader_error(t->r, n, "%s: %s is there twice", key(t), shown(n, buf));
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

/* --- addresses ---- */

static int read_prefix(const struct target *t, const yaml_node_t *n, struct weir_prefix *ret)
{
	const char *text = scalar(t, n);
	char buf[WEIR_SHOWN_MAX], right[WEIR_PREFIX_STRLEN];
	struct weir_prefix p;
	size_t len;
	int r;

	if (!text)
		return -EINVAL;
	len = n->data.scalar.length;
	r = weir_prefix_parse(text, len, false, ret);
	if (r == -EDOM && weir_prefix_parse(text, len, true, &p) == 0)
		weir_reader_error(
			t->r, n,
			"%s: %s has bits set beyond its length (did you mean %s, or the address "
			"alone?)",
			key(t), shown(n, buf), weir_prefix_format(&p, right));
	else if (r == -ERANGE)
		weir_reader_error(t->r, n, "%s: %s: the length is out of range (0 to %d)", key(t),
				  shown(n, buf), strchr(text, ':') ? 128 : 32);
	else if (r < 0)
		weir_reader_error(t->r, n,
				  "%s: \"%s\" is neither an address nor a prefix (for example "
				  "192.0.2.0/24 or \"2001:db8::/32\")",
				  key(t), shown(n, buf));
	return r < 0 ? -EINVAL : 0;
}

static int read_prefixes(const struct target *t)
{
	const yaml_node_t *list = list_of(t, t->node, WEIR_YAML_MAX_VALUES);
	int r = list ? 0 : -EINVAL;

	for (size_t i = 0; list && i < count_items(list); i++) {
		const yaml_node_t *n = item_at(t, list, i);
		struct weir_prefix p;
		int r2 = read_prefix(t, n, &p);

		if (r2 == 0)
			r2 = weir_prefix_list_add((struct weir_prefix_list *)t->to, &p,
						  (int)n->start_mark.line + 1);
		if (r2 == -ENOMEM)
			return r2;
		if (r2 < 0)
			r = r2;
	}
	return r;
}

static int read_nets(const struct target *t)
{
	struct weir_net_set *set = (struct weir_net_set *)t->to;
	const yaml_node_t *list = unwrap_not(t, &set->negate);
	_cleanup_free_ struct weir_prefix *item = NULL;
	size_t n;
	int r = 0;

	list = condition_of(t, list, 4096);
	if (!list)
		return -EINVAL;
	n = count_items(list);
	item = calloc(n, sizeof(*item));
	if (!item)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (read_prefix(t, item_at(t, list, i), &item[i]) < 0)
			r = -EINVAL;
	if (r < 0)
		return r;
	free(set->item);
	set->n = n;
	set->item = TAKE_PTR(item);
	return 0;
}

/* --- match fields ---- */

/* "80" or "27015-27054" */
static int read_range(const struct target *t, const yaml_node_t *n, struct weir_port_range *ret)
{
	const char *text = scalar(t, n), *dash;
	char first[8], buf[WEIR_SHOWN_MAX];
	__u64 a, b;
	int r;

	if (!text)
		return -EINVAL;
	dash = strchr(text, '-');
	if (dash) {
		size_t len = (size_t)(dash - text);

		while (len && text[len - 1] == ' ')
			len--;
		r = len < sizeof(first) ? 0 : -EINVAL;
		if (r == 0) {
			memcpy(first, text, len);
			first[len] = '\0';
			dash++;
			dash += strspn(dash, " ");
			r = weir_str_u64(first, t->s->max, &a);
		}
		if (r == 0)
			r = weir_str_u64(dash, t->s->max, &b);
	} else {
		r = weir_str_u64(text, t->s->max, &a);
		b = r == 0 ? a : 0;
	}
	if (r < 0) {
		weir_reader_error(t->r, n,
				  "%s: \"%s\" is neither a number nor a range (0 to %llu, or a-b)",
				  key(t), shown(n, buf), t->s->max);
		return -EINVAL;
	}
	if (a > b) {
		weir_reader_error(t->r, n, "%s: %s runs backwards (%llu-%llu)", key(t),
				  shown(n, buf), b, a);
		return -EINVAL;
	}
	*ret = (struct weir_port_range){.first = (__u16)a, .last = (__u16)b};
	return 0;
}

static int read_ports(const struct target *t)
{
	struct weir_port_set *set = (struct weir_port_set *)t->to;
	const yaml_node_t *list = unwrap_not(t, &set->negate);
	_cleanup_free_ struct weir_port_range *item = NULL;
	size_t n;
	int r = 0;

	list = condition_of(t, list, 4096);
	if (!list)
		return -EINVAL;
	n = count_items(list);
	item = calloc(n, sizeof(*item));
	if (!item)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (read_range(t, item_at(t, list, i), &item[i]) < 0)
			r = -EINVAL;
	if (r < 0)
		return r;
	free(set->item);
	set->n = n;
	set->item = TAKE_PTR(item);
	return 0;
}

static int read_protocol(const struct target *t, const yaml_node_t *n, __u8 *ret)
{
	const char *text = scalar(t, n), *names[32] = {0}, *near;
	char buf[WEIR_SHOWN_MAX];
	__u64 v;

	if (!text)
		return -EINVAL;
	if (weir_str_u64(text, 255, &v) == 0) {
		*ret = (__u8)v;
		return 0;
	}
	for (size_t i = 0; i < weir_protocols_n && i < ARRAY_LEN(names); i++) {
		names[i] = weir_protocols[i].name;
		if (strcasecmp(text, names[i]) == 0) {
			*ret = weir_protocols[i].number;
			return 0;
		}
	}
	near = weir_str_closest(text, names, ARRAY_LEN(names));
	if (near)
		weir_reader_error(t->r, n, "%s: unknown protocol \"%s\" (did you mean \"%s\"?)",
				  key(t), shown(n, buf), near);
	else
		weir_reader_error(
			t->r, n,
			"%s: unknown protocol \"%s\" (tcp, udp, icmp, icmpv6… or 0 to 255)", key(t),
			shown(n, buf));
	return -EINVAL;
}

static int read_protocols(const struct target *t)
{
	struct weir_conf_match *m = &((struct weir_conf_limit *)t->base)->match;
	bool negate, named[256] = {0};
	const yaml_node_t *list = unwrap_not(t, &negate);
	int r = 0;

	list = condition_of(t, list, 256);
	if (!list)
		return -EINVAL;
	for (size_t i = 0; i < count_items(list); i++) {
		__u8 p;

		if (read_protocol(t, item_at(t, list, i), &p) < 0)
			r = -EINVAL;
		else
			named[p] = true;
	}
	if (r < 0)
		return r;
	m->any_protocol = false;
	for (size_t i = 0; i < 256; i++)
		m->protocol[i] = named[i] != negate;
	return 0;
}

static int read_flags(const struct target *t)
{
	struct weir_conf_match *m = &((struct weir_conf_limit *)t->base)->match;
	const yaml_node_t *list = condition_of(t, t->node, 8);
	__u8 flags = 0;
	int r = list ? 0 : -EINVAL;

	for (size_t i = 0; list && i < count_items(list); i++) {
		const yaml_node_t *n = item_at(t, list, i);
		const char *text = scalar(t, n);
		char buf[WEIR_SHOWN_MAX];
		unsigned bit = 0;

		while (text && weir_words_flags[bit] &&
		       strcasecmp(text, weir_words_flags[bit]) != 0)
			bit++;
		if (text && weir_words_flags[bit]) {
			flags |= (__u8)(1u << bit);
			continue;
		}
		if (text)
			weir_reader_error(t->r, n,
					  "%s: unknown TCP flag \"%s\" (fin, syn, rst, psh, ack, "
					  "urg, ece, cwr)",
					  key(t), shown(n, buf));
		r = -EINVAL;
	}
	if (r < 0)
		return r;
	*t->to = flags;
	m->has_tcp_flags = m->tcp_flags_set || m->tcp_flags_clear;
	return 0;
}

static int read_fragment(const struct target *t)
{
	const char *text = scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];
	bool b;

	if (!text)
		return -EINVAL;
	if (weir_str_bool(text, &b) < 0) {
		weir_reader_error(t->r, t->node, "%s: \"%s\" is neither true nor false", key(t),
				  shown(t->node, buf));
		return -EINVAL;
	}
	((struct weir_conf_limit *)t->base)->match.fragment = b;
	return 0;
}

/* --- the list of limits ---- */

static int read_limit(const struct target *t, const yaml_node_t *n, struct weir_conf *c)
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

static int read_limits(const struct target *t)
{
	int r = 0;

	if (t->node->type != YAML_SEQUENCE_NODE) {
		if (weir_yaml_is_null(t->node))
			return 0;
		weir_reader_error(t->r, t->node,
				  "%s: %s where a list of limits belongs (each begins with '- ')",
				  key(t), weir_yaml_kind(t->node));
		return -EINVAL;
	}
	for (size_t i = 0; i < count_items(t->node); i++) {
		const yaml_node_t *n = item_at(t, t->node, i);
		int r2;

		if (i == t->s->max) {
			weir_reader_error(t->r, n, "more than %llu limits (%zu are given)",
					  t->s->max, count_items(t->node));
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
	struct target t = {r, s, node, (unsigned char *)base + s->offset, base};

	switch (s->kind) {
	case WEIR_KIND_SECTION:
		return weir_group_read(r, s->path, node, base);
	case WEIR_KIND_LIMITS:
		return read_limits(&t);
	case WEIR_KIND_NUMBER:
		return read_number(&t);
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
		return read_prefixes(&t);
	case WEIR_KIND_TABLE:
		return read_table(&t);
	case WEIR_KIND_DURATION:
		return read_duration(&t);
	case WEIR_KIND_RATE:
		return read_rate(&t);
	case WEIR_KIND_AMOUNT:
		return read_amount(&t);
	case WEIR_KIND_PROTOCOLS:
		return read_protocols(&t);
	case WEIR_KIND_FLAGS:
		return read_flags(&t);
	case WEIR_KIND_PORTS:
		return read_ports(&t);
	case WEIR_KIND_NETS:
		return read_nets(&t);
	case WEIR_KIND_FRAGMENT:
		return read_fragment(&t);
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
