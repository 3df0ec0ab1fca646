/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Own changes: from the agent's hand to the disk, and in batches to the store. Called by the agent and by fleet.c. */
#include <hiredis/hiredis.h>
#include <sodium.h>
#include <string.h>

#include "user/base/log.h"
#include "user/base/str.h"
#include "user/fleet/fleet_int.h"

/* --- the agent's hand -------------------------------------------------------------------------------------------------- */

static struct weir_fleet_op *new_op(struct weir_fleet *f, char kind, struct weir_fleet_item *i,
				    enum weir_list list, const char *data)
{
	struct weir_fleet_op *op = weir_fleet_op_new(&f->r, kind, i, list, data, NULL);

	if (!op)
		return NULL;
	op->ord = ++f->ord;
	weir_fleet_disk_put_op(f->disk, op);
	return op;
}

/* Takes back the changes of one command that ran out of memory. */
static int take_back(struct weir_fleet *f, __u64 ord, struct weir_error *e)
{
	while (f->r.last_op && f->r.last_op->ord > ord) {
		weir_fleet_disk_del_op(f->disk, f->r.last_op);
		weir_fleet_op_free(&f->r, f->r.last_op);
	}
	weir_fleet_end_disk(f);
	f->n_told = 0;
	return weir_error_set(e, -ENOMEM, "out of memory");
}

static int check_waiting(const struct weir_fleet *f, size_t n, struct weir_error *e)
{
	if (f->r.n_ops + n <= WEIR_FLEET_WAITING)
		return 0;
	return weir_error_set(
		e, -ENOSPC,
		"%zu changes wait for the store already, and %d may: nothing was changed",
		f->r.n_ops, WEIR_FLEET_WAITING);
}

static size_t write_line(struct weir_fleet *f, const struct weir_fleet_entry *entry, char *buf,
			 size_t size)
{
	char origin[WEIR_FLEET_NAME_MAX], host[WEIR_FLEET_NAME_MAX], who[WEIR_FLEET_NAME_MAX],
		reason[WEIR_FLEET_REASON_MAX];
	struct weir_fleet_entry clean = *entry;

	weir_fleet_clean(entry->origin, origin, sizeof(origin));
	weir_fleet_clean(entry->host && entry->host[0] ? entry->host : f->host, host, sizeof(host));
	weir_fleet_clean(entry->who, who, sizeof(who));
	weir_fleet_clean(entry->reason, reason, sizeof(reason));
	clean.origin = origin;
	clean.host = host;
	clean.who = who;
	clean.reason = reason;
	if (!clean.created_ms)
		clean.created_ms = weir_fleet_now_ms(f);
	return weir_fleet_lines_write(&clean, 1, buf, size);
}

int weir_fleet_add(struct weir_fleet *f, const struct weir_fleet_key *key, size_t n,
		   const struct weir_fleet_entry *entry, struct weir_error *e)
{
	char line[1024], kind = f->clock_heard ? WEIR_FLEET_ADD : WEIR_FLEET_GUESS;
	__u64 ord = f->ord;
	int r = check_waiting(f, n, e);

	if (r < 0)
		return r;
	if (!entry->origin || !entry->origin[0] || !write_line(f, entry, line, sizeof(line)))
		return weir_error_set(e, -EINVAL, "an entry needs an origin");
	weir_fleet_disk_begin(f->disk);
	for (size_t i = 0; i < n; i++) {
		struct weir_fleet_item *item = weir_fleet_item(&f->r, &key[i]);

		if (!item || !new_op(f, kind, item, key[i].list, line))
			return take_back(f, ord, e);
		weir_fleet_tell_later(f, &key[i]);
	}
	weir_fleet_end_disk(f);
	weir_fleet_tell(f);
	weir_fleet_run_soon(f);
	return 0;
}

int weir_fleet_del(struct weir_fleet *f, const struct weir_fleet_key *key, const char *origin,
		   size_t *ret_n, struct weir_error *e)
{
	struct weir_fleet_item *item = weir_fleet_item(&f->r, key);
	struct weir_fleet_lines l;
	__u64 ord = f->ord;
	size_t n = 0;
	int r = check_waiting(f, WEIR_FLEET_ORIGINS_MAX, e);

	if (r < 0)
		return r;
	if (!item)
		return weir_error_set(e, -ENOMEM, "out of memory");
	weir_fleet_effective(item, weir_fleet_now_ms(f), &l);
	weir_fleet_disk_begin(f->disk);
	for (size_t i = 0; i < l.n; i++) {
		if (!weir_fleet_has_origin(l.entry[i].origin, origin, false))
			continue;
		n++;
		if (origin && !new_op(f, WEIR_FLEET_DEL, item, key->list, l.entry[i].origin))
			return take_back(f, ord, e);
	}
	if ((!origin || !n) && !new_op(f, WEIR_FLEET_DEL, item, key->list, origin ? origin : ""))
		return take_back(f, ord, e);
	weir_fleet_end_disk(f);
	weir_fleet_tell_later(f, key);
	weir_fleet_tell(f);
	*ret_n = n;
	weir_fleet_run_soon(f);
	return 0;
}

int weir_fleet_del_origin(struct weir_fleet *f, enum weir_list list, const char *origin,
			  size_t *ret_n, struct weir_error *e)
{
	__u64 now_ms = weir_fleet_now_ms(f), ord = f->ord;
	struct weir_fleet_lines l;
	size_t n = 0;
	int r = check_waiting(f, f->r.n_items + 1, e);

	if (r < 0)
		return r;
	weir_fleet_disk_begin(f->disk);
	for (struct weir_fleet_item *i = f->r.first; i; i = i->next) {
		if (i->key.list != list)
			continue;
		weir_fleet_effective(i, now_ms, &l);
		for (size_t k = 0; k < l.n; k++) {
			if (!weir_fleet_has_origin(l.entry[k].origin, origin, false))
				continue;
			if (!new_op(f, WEIR_FLEET_DEL, i, list, l.entry[k].origin))
				return take_back(f, ord, e);
			weir_fleet_tell_later(f, &i->key);
			n++;
		}
	}
	if (!new_op(f, WEIR_FLEET_ORIGIN, NULL, list, origin))
		return take_back(f, ord, e);
	weir_fleet_end_disk(f);
	weir_fleet_tell(f);
	*ret_n = n;
	weir_fleet_run_soon(f);
	return 0;
}

size_t weir_fleet_get(struct weir_fleet *f, const struct weir_fleet_key *key,
		      struct weir_fleet_entry ret[WEIR_FLEET_ORIGINS_MAX])
{
	const struct weir_fleet_item *i = weir_fleet_find(&f->r, key);

	if (!i)
		return 0;
	weir_fleet_effective(i, weir_fleet_now_ms(f), &f->shown);
	memcpy(ret, f->shown.entry, f->shown.n * sizeof(*ret));
	return f->shown.n;
}

int weir_fleet_each(struct weir_fleet *f, weir_fleet_want_fn *want, weir_fleet_each_fn *fn,
		    void *arg)
{
	__u64 now_ms = weir_fleet_now_ms(f);
	int r = 0;

	for (const struct weir_fleet_item *i = f->r.last; i && r == 0; i = i->prev) {
		if ((!i->there && !i->op) || (want && !want(arg, &i->key)))
			continue;
		weir_fleet_effective(i, now_ms, &f->shown);
		if (f->shown.n)
			r = fn(arg, &i->key, f->shown.entry, f->shown.n);
	}
	return r;
}

/* --- own changes ----------------------------------------------------------------------------------------------------- */

/* Without them something else may count, also where the store's word is known already. */
static void drop_batch(struct weir_fleet *f, __u64 batch)
{
	while (f->r.first_op && f->r.first_op->batch == batch) {
		weir_fleet_tell_later(f, &f->r.first_op->item->key);
		weir_fleet_disk_del_op(f->disk, f->r.first_op);
		weir_fleet_op_free(&f->r, f->r.first_op);
	}
}

/* This host's file is older than its last batch @pushed: a copy of it was put back. What it was about to say then has been
 * said; what it was told since has not.
 */
static void take_behind(struct weir_fleet *f, __u64 batch, __u64 pushed)
{
	f->batch = pushed;
	if (batch == f->doubtful)
		drop_batch(f, batch);
	for (struct weir_fleet_op *op = f->r.first_op; op && op->batch; op = op->next) {
		op->batch = 0;
		weir_fleet_disk_put_op(f->disk, op);
	}
	weir_fleet_disk_set_u64(f->disk, "batch", f->batch);
}

void weir_fleet_take_pushed(struct weir_fleet *f, const struct redisReply *rest, const char *status)
{
	__u64 batch = f->r.first_op ? f->r.first_op->batch : 0;
	size_t waiting = f->r.n_ops;

	weir_fleet_disk_begin(f->disk);
	if (!strcmp(status, "behind")) {
		take_behind(f, batch, weir_fleet_reply_u64(rest, 0));
		weir_fleet_end_disk(f);
		return;
	}
	drop_batch(f, batch);
	weir_fleet_keep_heard(f);
	f->count.pushed += waiting - f->r.n_ops;
	for (size_t i = 0; i + 1 < rest->elements; i += 2) {
		size_t n_key = 0, n_value = 0, n = 0;
		const char *key = weir_fleet_reply_text(rest, i, &n_key),
			   *value = weir_fleet_reply_text(rest, i + 1, &n_value), *body = NULL;
		__u64 version = f->reply_last;
		struct weir_fleet_key k;

		if (!key || !value || n_value >= WEIR_FLEET_VALUE_MAX ||
		    weir_fleet_key_parse(key, n_key, &k) < 0)
			continue;
		if (n_value && (weir_fleet_value_read(value, n_value, &version, &body, &n) < 0 ||
				version > f->reply_last))
			continue;
		weir_fleet_hear(f, &k, version, body, n);
	}
	/* at once: said once more after the store was lost, they would undo what others said since */
	weir_fleet_end_disk(f);
	f->caught = false;
}

/* What has come to light since the command, of the origin that is to go. */
void weir_fleet_expand_origin(struct weir_fleet *f)
{
	struct weir_fleet_op *head = f->r.first_op;
	struct weir_fleet_lines l;
	__u64 sub = 0;

	weir_fleet_disk_begin(f->disk);
	for (struct weir_fleet_item *i = f->r.first; i; i = i->next) {
		if (!i->there || i->key.list != head->list)
			continue;
		weir_fleet_body_read(i->body, strlen(i->body), &l);
		for (size_t k = 0; k < l.n; k++) {
			struct weir_fleet_op *op;

			if (!weir_fleet_has_origin(l.entry[k].origin, head->data, false))
				continue;
			op = weir_fleet_op_new(&f->r, WEIR_FLEET_DEL, i, head->list,
					       l.entry[k].origin, head);
			if (!op)
				continue; /* no memory: it stays */
			op->ord = head->ord;
			op->sub = ++sub;
			weir_fleet_disk_put_op(f->disk, op);
			weir_fleet_tell_later(f, &i->key);
		}
	}
	weir_fleet_disk_del_op(f->disk, head);
	weir_fleet_op_free(&f->r, head);
	weir_fleet_end_disk(f);
	weir_fleet_tell(f);
	weir_fleet_run_soon(f);
}

/* In strides, so that a copy of this host, or of its file, does not take one of the same number for done. */
static void number_batch(struct weir_fleet *f)
{
	struct weir_fleet_op *op = f->r.first_op;

	weir_fleet_disk_begin(f->disk);
	f->batch += 1 + randombytes_uniform(1u << 16);
	for (int i = 0; i < WEIR_FLEET_BATCH && op && op->kind != WEIR_FLEET_ORIGIN;
	     i++, op = op->next) {
		op->batch = f->batch;
		weir_fleet_disk_put_op(f->disk, op);
	}
	weir_fleet_disk_set_u64(f->disk, "batch", f->batch);
	weir_fleet_end_disk(f);
}

/* Before it is sent its number is on disk, so that a batch whose reply is lost is known as the same one. */
void weir_fleet_push(struct weir_fleet *f)
{
	struct weir_fleet_op *op = f->r.first_op;
	char kind[2] = "";
	struct weir_fleet_words w;

	if (!op->batch)
		number_batch(f);
	weir_fleet_words_begin(f, &w, "push");
	weir_fleet_word_u64(&w, op->batch);
	for (__u64 batch = op->batch; op && op->batch == batch; op = op->next) {
		size_t n = strlen(op->data);

		kind[0] = op->kind == WEIR_FLEET_DEL ? 'D' : 'A';
		weir_fleet_word_copy(&w, kind, 1);
		weir_fleet_word_key(&w, &op->item->key);
		weir_fleet_word_copy(&w, op->data, n && op->data[n - 1] == '\n' ? n - 1 : n);
	}
	weir_fleet_call(f, WEIR_FLEET_PUSH, &w);
}
