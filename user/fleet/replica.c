/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What this host knows of the fleet's lists: an item for each prefix with what the store last said of it (deletions
 * too), and on top of it the host's own changes that are on their way. Called by fleet.c and disk.c.
 */
#include <sodium.h>
#include <string.h>

#include "user/fleet/fleet_int.h"

static size_t hash_of(const struct weir_fleet_replica *r, const struct weir_fleet_key *key)
{
	__u8 bytes[sizeof(key->prefix.addr) + 3], out[crypto_shorthash_BYTES];
	__u64 h;

	_Static_assert(crypto_shorthash_KEYBYTES == sizeof(r->hash_key), "another key");
	memcpy(bytes, &key->prefix.addr, sizeof(key->prefix.addr));
	bytes[sizeof(bytes) - 3] = key->prefix.family;
	bytes[sizeof(bytes) - 2] = key->prefix.len;
	bytes[sizeof(bytes) - 1] = (__u8)key->list;
	(void)crypto_shorthash(out, bytes, sizeof(bytes), r->hash_key); /* always succeeds */
	memcpy(&h, out, sizeof(h));
	return (size_t)(h & (r->n_buckets - 1));
}

static bool same_key(const struct weir_fleet_key *a, const struct weir_fleet_key *b)
{
	return a->list == b->list && !weir_prefix_compare(&a->prefix, &b->prefix);
}

int weir_fleet_replica_init(struct weir_fleet_replica *r)
{
	*r = (struct weir_fleet_replica){.n_buckets = 1024};
	randombytes_buf(r->hash_key, sizeof(r->hash_key));
	r->bucket = calloc(r->n_buckets, sizeof(struct weir_fleet_item *));
	return r->bucket ? 0 : -ENOMEM;
}

void weir_fleet_replica_done(struct weir_fleet_replica *r)
{
	while (r->first_op)
		weir_fleet_op_free(r, r->first_op);
	for (struct weir_fleet_item *i = r->first, *next; i; i = next) {
		next = i->next;
		free(i->body);
		free(i);
	}
	free(r->bucket);
	*r = (struct weir_fleet_replica){};
}

static void grow(struct weir_fleet_replica *r)
{
	size_t n = r->n_buckets * 2;
	struct weir_fleet_item **bucket = calloc(n, sizeof(struct weir_fleet_item *));

	if (!bucket)
		return; /* chains get longer */
	free(r->bucket);
	r->bucket = bucket;
	r->n_buckets = n;
	for (struct weir_fleet_item *i = r->first; i; i = i->next) {
		struct weir_fleet_item **at = &r->bucket[hash_of(r, &i->key)];

		i->chain = *at;
		*at = i;
	}
}

struct weir_fleet_item *weir_fleet_find(const struct weir_fleet_replica *r,
					const struct weir_fleet_key *key)
{
	for (struct weir_fleet_item *i = r->bucket[hash_of(r, key)]; i; i = i->chain)
		if (same_key(&i->key, key))
			return i;
	return NULL;
}

struct weir_fleet_item *weir_fleet_item(struct weir_fleet_replica *r,
					const struct weir_fleet_key *key)
{
	struct weir_fleet_item *i = weir_fleet_find(r, key), **at;

	if (i)
		return i;
	if (r->n_items >= r->n_buckets)
		grow(r);
	i = calloc(1, sizeof(*i));
	if (!i)
		return NULL;
	i->key = *key;
	at = &r->bucket[hash_of(r, key)];
	i->chain = *at;
	*at = i;
	i->prev = r->last;
	*(r->last ? &r->last->next : &r->first) = i;
	r->last = i;
	r->n_items++;
	return i;
}

/* When the last of them ends. */
static __u64 last_end(const struct weir_fleet_lines *l)
{
	__u64 last = 1;

	for (size_t i = 0; i < l->n; i++) {
		if (!l->entry[i].end_ms)
			return 0;
		if (l->entry[i].end_ms > last)
			last = l->entry[i].end_ms;
	}
	return last;
}

/* Of one version the one is newer in which more was said: an addition that changes nothing makes no version of the prefix. */
int weir_fleet_learn(struct weir_fleet_replica *r, struct weir_fleet_item *i, __u64 version,
		     const char *body, size_t n)
{
	struct weir_fleet_lines l;
	char *copy = NULL;

	if (version < i->version)
		return 0;
	weir_fleet_body_read(body, n, &l);
	if (version == i->version && l.said <= i->said)
		return 0;
	if (body) {
		copy = malloc(n + 1);
		if (!copy)
			return -ENOMEM;
		memcpy(copy, body, n);
		copy[n] = '\0';
	}
	r->n_there -= i->there;
	free(i->body);
	i->body = copy;
	i->version = version;
	i->there = l.n != 0;
	i->end_ms = last_end(&l);
	i->gone = l.gone;
	i->said = l.said;
	r->n_there += i->there;
	return 1;
}

bool weir_fleet_forget(struct weir_fleet_replica *r, struct weir_fleet_item *i)
{
	struct weir_fleet_item **at = &r->bucket[hash_of(r, &i->key)];

	if (i->op)
		return false;
	while (*at != i)
		at = &(*at)->chain;
	*at = i->chain;
	if (r->cursor == i)
		r->cursor = i->next;
	if (r->sweep == i)
		r->sweep = i->next;
	*(i->prev ? &i->prev->next : &r->first) = i->next;
	*(i->next ? &i->next->prev : &r->last) = i->prev;
	r->n_items--;
	r->n_there -= i->there;
	free(i->body);
	free(i);
	return true;
}

/* Without the texts that nobody points to any more. Returns how many bytes are used. */
static size_t pack(struct weir_fleet_lines *l)
{
	char text[WEIR_FLEET_VALUE_MAX];
	size_t n = weir_fleet_lines_write(l->entry, l->n, text, sizeof(text));

	weir_fleet_lines_read(text, n, l);
	return n + 1;
}

void weir_fleet_effective(const struct weir_fleet_item *i, __u64 now_ms,
			  struct weir_fleet_lines *ret)
{
	size_t used;

	weir_fleet_body_read(i->body, i->body ? strlen(i->body) : 0, ret);
	used = i->body ? strlen(i->body) + 1 : 0; /* and what stood before the lines */
	ret->n = weir_fleet_drop_over(ret->entry, ret->n, now_ms);
	for (const struct weir_fleet_op *op = i->op; op; op = op->next_here) {
		size_t n = strlen(op->data);
		struct weir_fleet_lines one;

		if (op->kind == WEIR_FLEET_DEL) {
			ret->n = weir_fleet_drop_origin(ret->entry, ret->n, op->data, true);
			continue;
		}
		if (used + n + 1 > sizeof(ret->text))
			used = pack(ret);
		weir_fleet_lines_read(op->data, n, &one);
		if (one.n != 1 || used + n + 1 > sizeof(ret->text))
			continue; /* more than a prefix may have */
		/* its texts move behind those that are there */
		memcpy(ret->text + used, one.text, n + 1);
#define MOVE(field) one.entry[0].field = ret->text + used + (one.entry[0].field - one.text)
		MOVE(origin);
		MOVE(host);
		MOVE(who);
		MOVE(reason);
#undef MOVE
		used += n + 1;
		if (!one.entry[0].end_ms || one.entry[0].end_ms > now_ms)
			ret->n = weir_fleet_merge(ret->entry, ret->n, &one.entry[0]);
	}
}

struct weir_fleet_op *weir_fleet_op_new(struct weir_fleet_replica *r, char kind,
					struct weir_fleet_item *item, enum weir_list list,
					const char *data, struct weir_fleet_op *before)
{
	struct weir_fleet_op *op = calloc(1, sizeof(*op));

	if (op)
		op->data = strdup(data);
	if (!op || !op->data) {
		free(op);
		return NULL;
	}
	op->kind = kind;
	op->item = item;
	op->list = list;
	op->next = before;
	op->prev = before ? before->prev : r->last_op;
	*(op->prev ? &op->prev->next : &r->first_op) = op;
	*(before ? &before->prev : &r->last_op) = op;
	r->n_ops++;
	if (item && !before) {
		*(item->last_op ? &item->last_op->next_here : &item->op) = op;
		item->last_op = op;
	} else if (item) { /* the head of the queue: before all others of its item */
		op->next_here = item->op;
		item->op = op;
		if (!item->last_op)
			item->last_op = op;
	}
	return op;
}

void weir_fleet_op_free(struct weir_fleet_replica *r, struct weir_fleet_op *op)
{
	struct weir_fleet_item *i = op->item;

	*(op->prev ? &op->prev->next : &r->first_op) = op->next;
	*(op->next ? &op->next->prev : &r->last_op) = op->prev;
	if (i) {
		struct weir_fleet_op **at = &i->op, *before = NULL;

		while (*at != op) {
			before = *at;
			at = &(*at)->next_here;
		}
		*at = op->next_here;
		if (i->last_op == op)
			i->last_op = before;
	}
	r->n_ops--;
	free(op->data);
	free(op);
}
