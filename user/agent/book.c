/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lists with their sources: see book.h. Called by the agent only. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/agent/book.h"

struct weir_shared_text {
	unsigned refs;
	char s[];
};

const char *weir_origin_name(enum weir_origin origin)
{
	static const char *const names[WEIR_ORIGIN_MAX] = {
		[WEIR_ORIGIN_NONE] = "none",	       [WEIR_ORIGIN_FILE] = "file",
		[WEIR_ORIGIN_LIST_FILE] = "list-file", [WEIR_ORIGIN_COMMAND] = "command",
		[WEIR_ORIGIN_GUARD] = "guard",
	};

	return (unsigned)origin < WEIR_ORIGIN_MAX ? names[origin] : "unknown";
}

struct weir_shared_text *weir_shared_text_new(const char *s)
{
	size_t n = s ? strlen(s) : 0;
	struct weir_shared_text *t = n ? malloc(sizeof(*t) + n + 1) : NULL;

	if (!t)
		return NULL;
	t->refs = 1;
	memcpy(t->s, s, n + 1);
	return t;
}

struct weir_shared_text *weir_shared_text_ref(struct weir_shared_text *t)
{
	if (t)
		t->refs++;
	return t;
}

void weir_shared_text_free(struct weir_shared_text *t)
{
	if (t && --t->refs == 0)
		free(t);
}

const char *weir_shared_text_get(const struct weir_shared_text *t)
{
	return t ? t->s : "";
}

static void entry_ref(const struct weir_book_entry *e)
{
	(void)weir_shared_text_ref(e->name); /* the same pointers stay in the copy */
	(void)weir_shared_text_ref(e->reason);
	(void)weir_shared_text_ref(e->who);
	(void)weir_shared_text_ref(e->host);
}

static void entry_done(struct weir_book_entry *e)
{
	weir_shared_text_free(e->name);
	weir_shared_text_free(e->reason);
	weir_shared_text_free(e->who);
	weir_shared_text_free(e->host);
}

struct weir_book *weir_book_new(void)
{
	return calloc(1, sizeof(struct weir_book));
}

void weir_book_free(struct weir_book *b)
{
	if (!b)
		return;
	for (int l = 0; l < WEIR_LIST_MAX; l++) {
		for (size_t i = 0; i < b->list[l].n; i++)
			entry_done(&b->list[l].item[i]);
		free(b->list[l].item);
	}
	free(b);
}

struct weir_book *weir_book_copy(const struct weir_book *b)
{
	_cleanup_(weir_book_freep) struct weir_book *to = weir_book_new();

	if (!to)
		return NULL;
	for (int l = 0; l < WEIR_LIST_MAX; l++) {
		const struct weir_book_list *from = &b->list[l];

		if (!from->n)
			continue;
		to->list[l].item = calloc(from->n, sizeof(*from->item));
		if (!to->list[l].item)
			return NULL;
		memcpy(to->list[l].item, from->item, from->n * sizeof(*from->item));
		to->list[l].n = to->list[l].room = from->n;
		to->list[l].sorted = from->sorted;
		for (size_t i = 0; i < from->n; i++)
			entry_ref(&from->item[i]);
	}
	return TAKE_PTR(to);
}

static int entry_compare(const struct weir_book_entry *a, const struct weir_book_entry *b)
{
	int r = weir_prefix_compare(&a->prefix, &b->prefix);

	if (!r)
		r = (a->origin > b->origin) - (a->origin < b->origin);
	return r ? r : strcmp(weir_shared_text_get(a->name), weir_shared_text_get(b->name));
}

static int sort_compare(const void *a, const void *b)
{
	return entry_compare(a, b);
}

int weir_book_add(struct weir_book *b, enum weir_list list, const struct weir_book_entry *entry)
{
	struct weir_book_list *l = &b->list[list];

	if (l->n == l->room) {
		size_t room = l->room ? l->room * 2 : 64;
		struct weir_book_entry *item = reallocarray(l->item, room, sizeof(*item));

		if (!item)
			return -ENOMEM;
		l->item = item;
		l->room = room;
	}
	entry_ref(entry);
	l->item[l->n++] = *entry;
	return 0;
}

/* Two statements of the same source about the same prefix: the later end counts, and the newer reason. */
static void merge(struct weir_book_entry *keep, struct weir_book_entry *other)
{
	struct weir_book_entry *newer = other->created_s >= keep->created_s ? other : keep;
	bool later =
		!other->expires_ns || (keep->expires_ns && other->expires_ns > keep->expires_ns);

	keep->flags |= other->flags;
	if (later) {
		keep->expires_ns = other->expires_ns;
		keep->expires_s = other->expires_s;
		keep->by_wall = other->by_wall;
	}
	if (newer == other && other->reason) {
		struct weir_shared_text *reason = keep->reason, *who = keep->who;

		keep->reason = other->reason;
		keep->who = other->who;
		other->reason = reason;
		other->who = who;
	}
	entry_done(other);
}

/* Puts the first entry behind the sorted ones in its place among them. */
static void insert_next(struct weir_book_list *l)
{
	struct weir_book_entry e = l->item[l->sorted];
	size_t low = 0, high = l->sorted;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (entry_compare(&l->item[mid], &e) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < l->sorted && !entry_compare(&l->item[low], &e)) {
		merge(&l->item[low], &e);
		memmove(&l->item[l->sorted], &l->item[l->sorted + 1],
			(l->n - l->sorted - 1) * sizeof(e));
		l->n--;
		return;
	}
	memmove(&l->item[low + 1], &l->item[low], (l->sorted - low) * sizeof(e));
	l->item[low] = e;
	l->sorted++;
}

static void sort_all(struct weir_book_list *l)
{
	size_t n = 0;

	qsort(l->item, l->n, sizeof(*l->item), sort_compare);
	for (size_t k = 0; k < l->n; k++) {
		if (n && !entry_compare(&l->item[n - 1], &l->item[k]))
			merge(&l->item[n - 1], &l->item[k]);
		else
			l->item[n++] = l->item[k];
	}
	l->n = l->sorted = n;
}

void weir_book_settle(struct weir_book *b)
{
	for (int i = 0; i < WEIR_LIST_MAX; i++) {
		struct weir_book_list *l = &b->list[i];

		if (l->n - l->sorted > 8)
			sort_all(l);
		while (l->sorted < l->n)
			insert_next(l);
	}
}

size_t weir_book_remove(struct weir_book *b, enum weir_list list, weir_book_match_fn match,
			const void *arg)
{
	size_t removed = 0;

	weir_book_settle(b);
	for (int i = 0; i < WEIR_LIST_MAX; i++) {
		struct weir_book_list *l = &b->list[i];
		size_t n = 0;

		if (list != WEIR_LIST_MAX && list != (enum weir_list)i)
			continue;
		for (size_t k = 0; k < l->n; k++) {
			if (match(arg, (enum weir_list)i, &l->item[k]))
				entry_done(&l->item[k]);
			else
				l->item[n++] = l->item[k];
		}
		removed += l->n - n;
		l->n = l->sorted = n;
	}
	return removed;
}

static bool has_origin(const void *arg, enum weir_list list, const struct weir_book_entry *entry)
{
	(void)list;
	return entry->origin == *(const enum weir_origin *)arg;
}

size_t weir_book_drop_origin(struct weir_book *b, enum weir_list list, enum weir_origin origin)
{
	return weir_book_remove(b, list, has_origin, &origin);
}

/* Where a run of one prefix ends. */
static size_t run_end(const struct weir_book_list *l, size_t first)
{
	size_t i = first + 1;

	while (i < l->n && !weir_prefix_compare(&l->item[i].prefix, &l->item[first].prefix))
		i++;
	return i;
}

size_t weir_book_find(const struct weir_book *b, enum weir_list list,
		      const struct weir_prefix *prefix, const struct weir_book_entry **ret)
{
	const struct weir_book_list *l = &b->list[list];
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (weir_prefix_compare(&l->item[mid].prefix, prefix) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == l->n || weir_prefix_compare(&l->item[low].prefix, prefix))
		return 0;
	*ret = &l->item[low];
	return run_end(l, low) - low;
}

size_t weir_book_count(const struct weir_book *b, enum weir_list list, __u8 family)
{
	const struct weir_book_list *l = &b->list[list];
	size_t n = 0;

	for (size_t i = 0; i < l->n; i = run_end(l, i))
		n += l->item[i].prefix.family == family;
	return n;
}

/* The union of a run of entries of one prefix. */
static struct weir_list_item effective(const struct weir_book_list *l, size_t first, size_t end)
{
	struct weir_list_item item = {
		.prefix = l->item[first].prefix,
		.origin = l->item[first].origin,
		.expires_ns = l->item[first].expires_ns,
	};

	for (size_t i = first; i < end; i++) {
		const struct weir_book_entry *e = &l->item[i];

		item.flags |= e->flags;
		if (!e->expires_ns || !item.expires_ns)
			item.expires_ns = 0;
		else if (e->expires_ns > item.expires_ns)
			item.expires_ns = e->expires_ns;
	}
	return item;
}

int weir_book_export(const struct weir_book *b, struct weir_lists *ret)
{
	struct weir_lists out = {};

	for (int i = 0; i < WEIR_LIST_MAX; i++) {
		const struct weir_book_list *l = &b->list[i];

		if (!l->n)
			continue;
		out.item[i] = calloc(l->n, sizeof(*out.item[i]));
		if (!out.item[i]) {
			weir_book_lists_done(&out);
			return -ENOMEM;
		}
		for (size_t k = 0, end; k < l->n; k = end) {
			end = run_end(l, k);
			out.item[i][out.n[i]++] = effective(l, k, end);
		}
	}
	*ret = out;
	return 0;
}

void weir_book_lists_done(struct weir_lists *l)
{
	for (int i = 0; i < WEIR_LIST_MAX; i++) {
		free(l->item[i]);
		l->item[i] = NULL;
		l->n[i] = 0;
	}
}

static bool same_item(const struct weir_list_item *a, const struct weir_list_item *b)
{
	return a->expires_ns == b->expires_ns && a->origin == b->origin && a->flags == b->flags;
}

int weir_book_compare(const struct weir_book *from, const struct weir_book *to, enum weir_list list,
		      struct weir_book_change *ret)
{
	const struct weir_book_list *a = &from->list[list], *b = &to->list[list];
	struct weir_book_change c = {};
	size_t i = 0, k = 0;

	c.add = calloc(b->n + 1, sizeof(*c.add));
	c.del = calloc(a->n + 1, sizeof(*c.del));
	if (!c.add || !c.del) {
		weir_book_change_done(&c);
		return -ENOMEM;
	}
	while (i < a->n || k < b->n) {
		size_t i_end = i < a->n ? run_end(a, i) : i, k_end = k < b->n ? run_end(b, k) : k;
		struct weir_list_item new_item = {}, old_item = {};
		int order = i == a->n ? 1
			    : k == b->n
				    ? -1
				    : weir_prefix_compare(&a->item[i].prefix, &b->item[k].prefix);

		if (order <= 0)
			old_item = effective(a, i, i_end);
		if (order >= 0)
			new_item = effective(b, k, k_end);
		if (order < 0)
			c.del[c.n_del++] = old_item.prefix;
		else if (order > 0 || !same_item(&old_item, &new_item))
			c.add[c.n_add++] = new_item;
		if (order <= 0)
			i = i_end;
		if (order >= 0)
			k = k_end;
	}
	*ret = c;
	return 0;
}

void weir_book_change_done(struct weir_book_change *c)
{
	free(c->add);
	free(c->del);
	*c = (struct weir_book_change){};
}

static bool same_entry(const struct weir_book_entry *a, const struct weir_book_entry *b)
{
	return a->expires_s == b->expires_s && a->flags == b->flags && a->reason == b->reason &&
	       a->who == b->who && a->fleet == b->fleet && a->host == b->host;
}

int weir_book_diff(const struct weir_book *from, const struct weir_book *to, enum weir_list list,
		   weir_book_diff_fn fn, void *arg)
{
	const struct weir_book_list *a = &from->list[list], *b = &to->list[list];
	size_t i = 0, k = 0;
	int r = 0;

	while (r == 0 && (i < a->n || k < b->n)) {
		int order = i == a->n	? 1
			    : k == b->n ? -1
					: entry_compare(&a->item[i], &b->item[k]);

		if (order < 0)
			r = fn(arg, list, &a->item[i], true);
		else if (order > 0 || !same_entry(&a->item[i], &b->item[k]))
			r = fn(arg, list, &b->item[k], false);
		i += order <= 0;
		k += order >= 0;
	}
	return r;
}
