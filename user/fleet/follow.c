/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the store says of the lists: its changes one after the other, the whole where they are not kept any more, and what
 * it has lost said again. Called by fleet.c.
 */
#include <hiredis/hiredis.h>
#include <string.h>

#include "user/base/log.h"
#include "user/base/str.h"
#include "user/fleet/fleet_int.h"

/* --- what the store says ------------------------------------------------------------------------------------------- */

void weir_fleet_hear(struct weir_fleet *f, const struct weir_fleet_key *key, __u64 version,
		     const char *body, size_t n)
{
	struct weir_fleet_item *i = weir_fleet_item(&f->r, key);

	if (!i) {
		f->id[0] = '\0'; /* without memory: the whole is read again */
		return;
	}
	i->seen = f->reading;
	if (weir_fleet_learn(&f->r, i, version, body, n) <= 0)
		return;
	weir_fleet_disk_put_item(f->disk, i);
	if (f->state == WEIR_FLEET_READS)
		f->all_changed = true;
	else
		weir_fleet_tell_later(f, key);
}

void weir_fleet_begin_reading(struct weir_fleet *f)
{
	weir_fleet_set_state(f, WEIR_FLEET_READS, NULL);
	f->reading++;
	f->read_last = 0;
	f->caught = false;
	(void)weir_str_copy(f->cursor, sizeof(f->cursor), "0");
	f->count.reads++;
}

/* What was deleted since this host last heard of it is remembered, or it must not say what it has. */
void weir_fleet_join(struct weir_fleet *f)
{
	bool known = f->id[0] && f->r.n_items, late = f->last < f->reply_forgot;

	(void)weir_str_copy(f->target, sizeof(f->target), f->reply_id); /* it fits */
	f->target_heard = f->reply;
	if (known && late)
		weir_log(WEIR_LOG_WARNING, "fleet-late", "why", "s",
			 "this host was away for longer than deletions are remembered: the store's "
			 "lists replace its own",
			 NULL);
	for (struct weir_fleet_item *i = f->r.first; i && late; i = i->next)
		i->version = 0; /* anything is newer */
	if (!known || late) {
		weir_fleet_begin_reading(f);
		return;
	}
	weir_fleet_set_state(f, WEIR_FLEET_RESTORES, NULL);
	f->caught = false;
	f->r.cursor = f->r.first;
	f->count.restores++;
}

/* What was not met is not there: deleted, or ended. */
static void end_reading(struct weir_fleet *f)
{
	weir_fleet_disk_begin(f->disk);
	for (struct weir_fleet_item *i = f->r.first; i; i = i->next) {
		if (i->seen == f->reading || !i->body || i->version > f->read_last)
			continue;
		(void)weir_fleet_learn(&f->r, i, f->read_last, NULL, 0); /* needs no memory */
		weir_fleet_disk_put_item(f->disk, i);
		f->all_changed = true;
	}
	(void)weir_str_copy(f->id, sizeof(f->id), f->target); /* it fits */
	f->n = f->read.n;
	f->last = f->read.version;
	f->heard = f->target_heard;
	f->forgot = f->reply_forgot;
	weir_fleet_keep_place(f);
	weir_fleet_end_disk(f);
	weir_fleet_set_state(f, WEIR_FLEET_FOLLOWS, NULL);
	f->polls_again = true;
}

void weir_fleet_take_page(struct weir_fleet *f, const struct redisReply *rest)
{
	const struct redisReply *pairs = rest->elements == 2 ? rest->element[1] : NULL;
	const char *cursor = weir_fleet_reply_text(rest, 0, NULL);

	if (!pairs || pairs->type != REDIS_REPLY_ARRAY || !cursor ||
	    strlen(cursor) >= sizeof(f->cursor)) {
		weir_fleet_failed(f, WEIR_FLEET_SCAN, "the lists make no sense");
		return;
	}
	if (!f->read_last) {
		f->read = f->reply;
		f->read_last = f->reply_last;
	}
	(void)weir_str_copy(f->cursor, sizeof(f->cursor), cursor);
	weir_fleet_disk_begin(f->disk);
	for (size_t i = 0; i + 1 < pairs->elements; i += 2) {
		size_t n_key, n_value, n;
		const char *key = weir_fleet_reply_text(pairs, i, &n_key),
			   *value = weir_fleet_reply_text(pairs, i + 1, &n_value), *body;
		struct weir_fleet_key k;
		__u64 version;

		if (key && value && n_value < WEIR_FLEET_VALUE_MAX &&
		    weir_fleet_key_parse(key, n_key, &k) == 0 &&
		    weir_fleet_value_read(value, n_value, &version, &body, &n) == 0 &&
		    version <= f->reply_last) /* a later one would beat all changes to come */
			weir_fleet_hear(f, &k, version, body, n);
	}
	weir_fleet_end_disk_later(f);
	if (!strcmp(f->cursor, "0"))
		end_reading(f);
}

/* One change: [ID, [k, KEY, v, BODY, n, NUMBER]]. False: it is not the next one. */
static bool take_change(struct weir_fleet *f, const struct redisReply *change)
{
	const struct redisReply *words = change->type == REDIS_REPLY_ARRAY && change->elements == 2
						 ? change->element[1]
						 : NULL;
	size_t n_id = 0, n_key = 0, n_body = 0;
	const char *id = weir_fleet_reply_text(change, 0, &n_id),
		   *key = weir_fleet_reply_text(words, 1, &n_key),
		   *body = weir_fleet_reply_text(words, 3, &n_body);
	__u64 version = id ? weir_fleet_version(id, n_id) : 0;
	struct weir_fleet_key k;

	if (!version || version > f->reply_last || weir_fleet_reply_u64(words, 5) != f->n + 1)
		return false;
	f->n++;
	f->last = version;
	f->count.changes++;
	if (key && body && n_body < WEIR_FLEET_VALUE_MAX &&
	    weir_fleet_key_parse(key, n_key, &k) == 0)
		weir_fleet_hear(f, &k, version, body, n_body);
	return true;
}

static void take_changes(struct weir_fleet *f, const struct redisReply *changes)
{
	bool next = true;

	weir_fleet_disk_begin(f->disk);
	for (size_t i = 0; i < changes->elements && next; i++)
		next = take_change(f, changes->element[i]);
	f->forgot = f->reply_forgot;
	if (changes->elements)
		weir_fleet_keep_place(f);
	weir_fleet_end_disk_later(f);
	f->polls_again = next && f->n < f->reply.n && changes->elements;
	if (f->n == f->reply.n && next) {
		f->caught = true;
		f->caught_ns = f->sent_ns;
		weir_fleet_set_state(f, WEIR_FLEET_FOLLOWS, NULL);
	} else if (
		!f->polls_again) { /* they are not kept any more, or of an older copy of the store */
		weir_fleet_join(f);
	} else {
		weir_fleet_set_state(f, WEIR_FLEET_FOLLOWS, NULL);
	}
}

void weir_fleet_take_poll(struct weir_fleet *f, const struct redisReply *rest, const char *status)
{
	if (rest->elements != 5 || rest->element[0]->type != REDIS_REPLY_ARRAY ||
	    rest->element[1]->type != REDIS_REPLY_ARRAY) {
		weir_fleet_failed(f, WEIR_FLEET_POLL, "the script's reply makes no sense");
		return;
	}
	if (!f->lists) {
		f->caught_ns = f->sent_ns;
		weir_fleet_set_state(f, WEIR_FLEET_FOLLOWS, NULL);
	} else if (strcmp(status, "new") != 0 && !weir_fleet_is_busy(f)) {
		take_changes(f, rest->element[0]);
	}
	if (!f->beats)
		return;
	weir_fleet_take_agents(f, rest->element[1]);
	weir_fleet_take_self(f, weir_fleet_reply_text(rest, 4, NULL));
	weir_fleet_take_secret(f, weir_fleet_reply_text(rest, 2, NULL),
			       weir_fleet_reply_text(rest, 3, NULL));
}

void weir_fleet_scan(struct weir_fleet *f)
{
	struct weir_fleet_words w;

	weir_fleet_words_begin(f, &w, "scan");
	weir_fleet_word(&w, f->cursor);
	weir_fleet_word_u64(&w, WEIR_FLEET_PAGE);
	weir_fleet_call(f, WEIR_FLEET_SCAN, &w);
}

/* The next items that the store may have lost; false: there are no more. */
bool weir_fleet_restore(struct weir_fleet *f)
{
	__u64 now_ms = weir_fleet_now_ms(f);
	char data[WEIR_FLEET_VALUE_MAX + 32];
	struct weir_fleet_words w;
	unsigned n = 0;

	weir_fleet_words_begin(f, &w, "restore");
	weir_fleet_word_u64(&w, f->forgot);
	while (f->r.cursor && n < WEIR_FLEET_BATCH) {
		const struct weir_fleet_item *i = f->r.cursor;

		f->r.cursor = i->next;
		if (!i->body || (!i->gone && i->end_ms && i->end_ms <= now_ms))
			continue;
		(void)snprintf(data, sizeof(data), "%llu %s", (unsigned long long)i->version,
			       i->body); /* it fits */
		weir_fleet_word(&w, "R");
		weir_fleet_word_key(&w, &i->key);
		weir_fleet_word_copy(&w, data, strlen(data));
		n++;
	}
	if (!n) {
		weir_fleet_words_done(&w);
		return false;
	}
	weir_fleet_call(f, WEIR_FLEET_RESTORE, &w);
	return true;
}
