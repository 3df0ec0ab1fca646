/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of the script, one at a time, what their replies have in common, and the server's clock that they tell. Called by
 * fleet.c and agents.c.
 */
#include <hiredis/hiredis.h>
#include <sodium.h>
#include <string.h>

#include "user/base/log.h"
#include "user/base/str.h"
#include "user/fleet/fleet_int.h"

const char weir_fleet_script[] =
#include "lists.lua.h"
	;

#define CLOCK_STEP_US 100000 /* of the server's clock, to be taken for one */

enum reply { NOW_US, ID, N, TOLD, LAST, FORGOT, GENERATION, STATUS, REST, REPLY_MAX };

/* --- words --------------------------------------------------------------------------------------------------------- */

void weir_fleet_words_done(struct weir_fleet_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->owned[i]);
	free((void *)(uintptr_t)w->at);
	free(w->bytes);
	free(w->owned);
	*w = (struct weir_fleet_words){};
}

/* Takes @owned. Without memory nothing is added, and the call is not made. */
static void add(struct weir_fleet_words *w, const char *text, size_t n, char *owned)
{
	size_t room = w->room ? w->room * 2 : 64;

	if (w->n == w->room) {
		const char **at = reallocarray((void *)(uintptr_t)w->at, room, sizeof(char *));
		size_t *bytes = reallocarray(w->bytes, room, sizeof(*bytes));
		char **own = reallocarray(w->owned, room, sizeof(char *));

		w->at = at ? at : w->at;
		w->bytes = bytes ? bytes : w->bytes;
		w->owned = own ? own : w->owned;
		if (!at || !bytes || !own) {
			free(owned);
			return;
		}
		w->room = room;
	}
	w->at[w->n] = text;
	w->bytes[w->n] = n;
	w->owned[w->n++] = owned;
}

void weir_fleet_word(struct weir_fleet_words *w, const char *text)
{
	add(w, text, strlen(text), NULL);
}

void weir_fleet_word_copy(struct weir_fleet_words *w, const char *text, size_t n)
{
	char *copy = malloc(n + 1);

	if (!copy)
		return;
	memcpy(copy, text, n);
	copy[n] = '\0';
	add(w, copy, n, copy);
}

void weir_fleet_word_u64(struct weir_fleet_words *w, __u64 n)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)n);

	weir_fleet_word_copy(w, text, (size_t)len);
}

void weir_fleet_word_key(struct weir_fleet_words *w, const struct weir_fleet_key *key)
{
	char text[WEIR_FLEET_KEY_STRLEN];

	(void)weir_fleet_key_format(key, text);
	weir_fleet_word_copy(w, text, strlen(text));
}

void weir_fleet_words_begin(struct weir_fleet *f, struct weir_fleet_words *w, const char *what)
{
	bool target = f->state == WEIR_FLEET_RESTORES || f->state == WEIR_FLEET_READS;
	const struct weir_fleet_place *heard = target ? &f->target_heard : &f->heard;
	__u8 random[WEIR_FLEET_ID_HEX / 2];
	char id[WEIR_FLEET_ID_HEX + 1];

	*w = (struct weir_fleet_words){};
	randombytes_buf(random, sizeof(random));
	(void)sodium_bin2hex(id, sizeof(id), random, sizeof(random)); /* it fits */
	weir_fleet_word(w, "EVALSHA");
	weir_fleet_word(w, f->sha);
	weir_fleet_word_u64(w, WEIR_FLEET_KEYS);
	for (int i = 0; i < WEIR_FLEET_KEYS; i++)
		weir_fleet_word(w, f->key[i]);
	weir_fleet_word(w, what);
	weir_fleet_word(w, target ? f->target : f->id);
	weir_fleet_word_copy(w, id, strlen(id));
	weir_fleet_word(w, f->agent);
	weir_fleet_word_u64(w, target ? 0 : f->n);
	weir_fleet_word_u64(w, target ? 0 : f->last);
	weir_fleet_word_u64(w, heard->n);
	weir_fleet_word_u64(w, heard->version);
}

/* --- replies --------------------------------------------------------------------------------------------------------- */

const char *weir_fleet_reply_text(const struct redisReply *r, size_t at, size_t *ret_n)
{
	if (!r || r->type != REDIS_REPLY_ARRAY || at >= r->elements ||
	    r->element[at]->type != REDIS_REPLY_STRING)
		return NULL;
	if (ret_n)
		*ret_n = (size_t)r->element[at]->len;
	return r->element[at]->str;
}

__u64 weir_fleet_reply_u64(const struct redisReply *r, size_t at)
{
	const char *text = weir_fleet_reply_text(r, at, NULL);
	__u64 n = 0;

	return text && weir_str_u64(text, 1ull << 53, &n) == 0 ? n : 0;
}

/* --- the server's clock ------------------------------------------------------------------------------------------- */

__u64 weir_fleet_clock_ns(const struct weir_fleet *f)
{
	return f->mono_ns(f->arg);
}

__u64 weir_fleet_now_ms(const struct weir_fleet *f)
{
	__s64 us = (__s64)(weir_fleet_clock_ns(f) / 1000) + f->clock_us;

	return us > 0 ? (__u64)us / 1000 : 0;
}

__u64 weir_fleet_mono_ns(const struct weir_fleet *f, __u64 at_ms)
{
	__s64 us = (__s64)at_ms * 1000 - f->clock_us;

	if (!at_ms)
		return 0;
	return us > 0 ? (__u64)us * 1000 : 1;
}

__s64 weir_fleet_wall_s(const struct weir_fleet *f, __u64 at_ms)
{
	__s64 offset_ms = f->wall_ms(f->arg) - (__s64)weir_fleet_now_ms(f);

	return at_ms ? ((__s64)at_ms + offset_ms + 999) / 1000 : 0;
}

/* Ends that were said before the server's clock was heard: this host's was meant. */
static void shift_guesses(struct weir_fleet *f, __s64 by_ms)
{
	struct weir_fleet_lines l;
	char line[WEIR_FLEET_VALUE_MAX];

	for (struct weir_fleet_op *op = f->r.first_op; op; op = op->next) {
		size_t n;
		char *data;

		if (op->kind != WEIR_FLEET_GUESS)
			continue;
		weir_fleet_lines_read(op->data, strlen(op->data), &l);
		if (l.n == 1) {
			if (l.entry[0].end_ms)
				l.entry[0].end_ms = (__u64)((__s64)l.entry[0].end_ms + by_ms);
			l.entry[0].created_ms = (__u64)((__s64)l.entry[0].created_ms + by_ms);
		}
		n = l.n == 1 ? weir_fleet_lines_write(l.entry, 1, line, sizeof(line)) : 0;
		data = n ? strdup(line) : NULL;
		if (!data)
			continue; /* it ends by this host's clock */
		free(op->data);
		op->data = data;
		op->kind = WEIR_FLEET_ADD;
		weir_fleet_disk_put_op(f->disk, op);
	}
}

/* The server said @now_us at some moment between sending and now. */
static void hear_clock(struct weir_fleet *f, __u64 now_us)
{
	__u64 sent_us = f->sent_ns / 1000, got_us = weir_fleet_clock_ns(f) / 1000;
	__s64 least = (__s64)now_us - (__s64)got_us, most = (__s64)now_us - (__s64)sent_us;
	__s64 was = f->clock_us, offset_ms;

	if (f->clock_heard && was >= least - CLOCK_STEP_US && was <= most + CLOCK_STEP_US)
		return;
	f->clock_us = least + (most - least) / 2;
	offset_ms = (__s64)weir_fleet_now_ms(f) - f->wall_ms(f->arg);
	weir_fleet_disk_begin(f->disk);
	if (!f->clock_heard) /* what is no step is left alone: ends stay what was said */
		shift_guesses(f, llabs(f->clock_us - was) > CLOCK_STEP_US
					 ? (f->clock_us - was) / 1000
					 : 0);
	weir_fleet_disk_set_u64(f->disk, "clock", (__u64)(offset_ms + (1ll << 50)));
	weir_fleet_end_disk_later(f); /* a restart before that uses an older one */
	if (f->clock_heard)
		weir_log(WEIR_LOG_NOTICE, "fleet-clock", "why", "s",
			 "the store's clock was set, or another server answers", "by_ms", "d",
			 (long long)(f->clock_us - was) / 1000, NULL);
	f->clock_heard = true;
	f->all_changed =
		f->all_changed || f->r.n_items; /* ends are elsewhere on this host's clock */
}

/* --- calls --------------------------------------------------------------------------------------------------------- */

static void take_error(struct weir_fleet *f, enum weir_fleet_doing doing, const char *text,
		       const char *words)
{
	if (!strncmp(text, "NOSCRIPT", 8) && f->sha[0]) {
		f->sha[0] = '\0'; /* nothing was done */
		if (doing == WEIR_FLEET_RESTORE)
			f->r.cursor = f->r.first;
		weir_fleet_run_soon(f);
		return;
	}
	if (!strncmp(text, "WRONGTYPE", 9) && weir_fleet_clock_ns(f) >= f->next_mend_ns)
		f->want_mend = true;
	if (doing != WEIR_FLEET_POLL && doing != WEIR_FLEET_LOAD)
		f->refused = doing;
	weir_fleet_failed(f, doing, words);
}

static void on_reply(void *arg, const struct redisReply *r, const char *cause)
{
	struct weir_fleet *f = arg;
	enum weir_fleet_doing doing = f->doing;
	const char *id, *status;
	size_t n = 0;

	f->doing = WEIR_FLEET_IDLE;
	if (f->closing)
		return;
	if (!r || r->type == REDIS_REPLY_ERROR) {
		char words[160];

		take_error(f, doing, r ? r->str : cause,
			   r ? weir_redis_error_words(r, weir_fleet_script, words, sizeof(words))
			     : cause);
		return;
	}
	if (doing == WEIR_FLEET_LOAD) {
		if (r->type != REDIS_REPLY_STRING || r->len != sizeof(f->sha) - 1) {
			weir_fleet_failed(f, doing, "SCRIPT LOAD has a reply that makes no sense");
			return;
		}
		memcpy(f->sha, r->str, sizeof(f->sha));
		weir_fleet_run_soon(f);
		return;
	}
	id = weir_fleet_reply_text(r, ID, &n);
	status = weir_fleet_reply_text(r, STATUS, NULL);
	if (!id || n != WEIR_FLEET_ID_HEX || !status || r->elements != REPLY_MAX ||
	    r->element[REST]->type != REDIS_REPLY_ARRAY) {
		weir_fleet_failed(f, doing, "the script's reply makes no sense");
		return;
	}
	hear_clock(f, weir_fleet_reply_u64(r, NOW_US));
	f->reply.n = weir_fleet_reply_u64(r, N);
	(void)weir_str_copy(f->reply_id, sizeof(f->reply_id), id); /* it fits */
	f->reply.version = weir_fleet_reply_u64(r, TOLD);
	f->reply_last = weir_fleet_reply_u64(r, LAST);
	f->reply_forgot = weir_fleet_reply_u64(r, FORGOT);
	weir_fleet_take_generation(f, weir_fleet_reply_u64(r, GENERATION));
	if (f->refused == doing)
		f->refused = WEIR_FLEET_IDLE;
	weir_fleet_take(f, doing, r->element[REST], status);
	weir_fleet_show_state(f);
}

void weir_fleet_call(struct weir_fleet *f, enum weir_fleet_doing doing, struct weir_fleet_words *w)
{
	int r;

	f->doing = doing;
	f->sent_ns = weir_fleet_clock_ns(f);
	r = weir_redis_ask(f->store, f->key[0], (unsigned)w->n, w->at, w->bytes, WEIR_FLEET_CALL_NS,
			   on_reply, f);
	weir_fleet_words_done(w);
	if (r < 0) {
		f->doing = WEIR_FLEET_IDLE;
		weir_fleet_failed(f, doing, strerror(-r));
	}
}

void weir_fleet_mend(struct weir_fleet *f)
{
	struct weir_fleet_words w;

	f->want_mend = false;
	f->next_mend_ns = weir_fleet_clock_ns(f) + WEIR_FLEET_BEAT_NS;
	weir_fleet_words_begin(f, &w, "mend");
	weir_fleet_call(f, WEIR_FLEET_MEND, &w);
}

void weir_fleet_take_mended(struct weir_fleet *f, const struct redisReply *rest)
{
	const char *key;

	f->refused = WEIR_FLEET_IDLE; /* tried again */
	for (size_t i = 0; (key = weir_fleet_reply_text(rest, i, NULL)); i++)
		weir_log(WEIR_LOG_WARNING, "fleet-mended", "key", "s", key, "why", "s",
			 "it was of another type than weir's, and was removed", NULL);
}

void weir_fleet_load_script(struct weir_fleet *f)
{
	struct weir_fleet_words w = {};

	weir_fleet_word(&w, "SCRIPT");
	weir_fleet_word(&w, "LOAD");
	weir_fleet_word(&w, weir_fleet_script);
	weir_fleet_call(f, WEIR_FLEET_LOAD, &w);
}
