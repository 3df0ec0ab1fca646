/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When the store is asked what. Following: its changes, four times a second, and own ones as they come. A place in its
 * changes that is not there any more: the whole lists are read. Another id: it has lost something, so what this host has
 * is said again before it is read; deletions too, so that nobody brings back what was deleted. Called by the agent.
 */
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <sodium.h>
#include <string.h>
#include <time.h>

#include "user/base/log.h"
#include "user/base/str.h"
#include "user/fleet/fleet_int.h"

#define SWEEP_AT_ONCE 2000
#define HEARD_KEPT_MS                                                                              \
	600000 /* how exactly it is known after a restart when the store was last heard */
#define SAVE_AGAIN_NS 10000000000ull

const char *weir_fleet_state_name(enum weir_fleet_state s)
{
	static const char *const names[] = {"away", "restores", "reads", "follows"};

	return (unsigned)s < ARRAY_LEN(names) ? names[s] : "?";
}

static void set_state(struct weir_fleet *f, enum weir_fleet_state s, const char *why)
{
	enum weir_fleet_state was = f->state;

	if (s == WEIR_FLEET_AWAY)
		(void)weir_str_copy(f->why, sizeof(f->why), why); /* cut if long */
	if (was == s)
		return;
	f->state = s;
	f->since_s = f->wall_ms(f->arg) / 1000;
	if (s == WEIR_FLEET_AWAY)
		weir_log(WEIR_LOG_WARNING, "fleet-away", "why", "s", f->why, NULL);
	else if (s == WEIR_FLEET_RESTORES)
		weir_log(WEIR_LOG_NOTICE, "fleet-restores", "why", "s",
			 "the store has lost entries, or an older copy of it is in its place",
			 "entries", "u", (unsigned long long)(f->r.n_items - f->r.n_gone), NULL);
	else if (s == WEIR_FLEET_FOLLOWS)
		weir_log(WEIR_LOG_NOTICE, "fleet-follows", "entries", "u",
			 (unsigned long long)(f->r.n_items - f->r.n_gone), "waiting", "u",
			 (unsigned long long)f->r.n_ops, NULL);
	if (s == WEIR_FLEET_FOLLOWS)
		f->why[0] = '\0';
}

static bool is_busy_with_all(const struct weir_fleet *f)
{
	return f->state == WEIR_FLEET_RESTORES || f->state == WEIR_FLEET_READS;
}

/* --- what has changed ------------------------------------------------------------------------------------------------ */

static void tell_later(struct weir_fleet *f, const struct weir_fleet_key *key)
{
	size_t room = f->told_room ? f->told_room * 2 : 256;

	if (f->all_changed)
		return;
	if (f->n_told == f->told_room) {
		struct weir_fleet_key *told = f->n_told >= 16 * WEIR_FLEET_PAGE
						      ? NULL
						      : reallocarray(f->told, room, sizeof(*told));

		if (!told) {
			f->all_changed = true;
			return;
		}
		f->told = told;
		f->told_room = room;
	}
	f->told[f->n_told++] = *key;
}

/* Own changes of a moment and the store's alike; while the whole is read only at its end. */
static void tell(struct weir_fleet *f)
{
	size_t n = f->n_told;
	bool all = f->all_changed;

	f->n_told = 0;
	f->all_changed = false;
	if (all)
		f->ops->changed(f->arg, NULL, 0);
	else if (n)
		f->ops->changed(f->arg, f->told, n);
}

static void end_disk(struct weir_fleet *f)
{
	if (weir_fleet_disk_end(f->disk) == 0)
		return;
	if (!f->unsaved)
		weir_log(WEIR_LOG_ERROR, "fleet-file-failed", "why", "s",
			 weir_fleet_disk_why(f->disk), NULL);
	f->unsaved = true;
}

static void keep_place(struct weir_fleet *f)
{
	weir_fleet_disk_set(f->disk, "id", f->id);
	weir_fleet_disk_set_u64(f->disk, "n", f->n);
	weir_fleet_disk_set_u64(f->disk, "last", f->last);
	weir_fleet_disk_set_u64(f->disk, "heard", f->heard_ms);
	f->heard_kept_ms = f->heard_ms;
}

/* All of it again, after a write has failed. */
static void save_again(struct weir_fleet *f)
{
	__u64 now_ns = weir_fleet_clock_ns(f);

	if (!f->unsaved || now_ns < f->save_again_ns)
		return;
	f->save_again_ns = now_ns + SAVE_AGAIN_NS;
	weir_fleet_disk_begin(f->disk);
	weir_fleet_disk_clear(f->disk);
	for (const struct weir_fleet_item *i = f->r.first; i; i = i->next)
		if (i->version)
			weir_fleet_disk_put_item(f->disk, i);
	for (const struct weir_fleet_op *op = f->r.first_op; op; op = op->next)
		weir_fleet_disk_put_op(f->disk, op);
	weir_fleet_disk_set_u64(f->disk, "batch", f->batch);
	keep_place(f);
	if (weir_fleet_disk_end(f->disk) < 0)
		return;
	f->unsaved = false;
	weir_log(WEIR_LOG_NOTICE, "fleet-file-written", NULL);
}

/* --- what the store says ------------------------------------------------------------------------------------------- */

static void learn(struct weir_fleet *f, const struct weir_fleet_key *key, __u64 version,
		  const char *lines, size_t n)
{
	struct weir_fleet_item *i = weir_fleet_item(&f->r, key);

	if (!i) {
		f->id[0] = '\0'; /* without memory: the whole is read again */
		return;
	}
	i->seen = f->reading;
	if (weir_fleet_learn(&f->r, i, version, lines, n) <= 0)
		return;
	weir_fleet_disk_put_item(f->disk, i);
	if (f->state == WEIR_FLEET_READS)
		f->all_changed = true;
	else
		tell_later(f, key);
}

static void begin_reading(struct weir_fleet *f)
{
	set_state(f, WEIR_FLEET_READS, NULL);
	f->reading++;
	f->read_last = 0;
	f->caught = false;
	(void)weir_str_copy(f->cursor, sizeof(f->cursor), "0");
	f->count.reads++;
}

/* The store has another id than the one whose changes are known. */
static void join(struct weir_fleet *f)
{
	bool known = f->id[0] && f->r.n_items,
	     late = f->heard_ms + WEIR_FLEET_GONE_MS < weir_fleet_now_ms(f);

	(void)weir_str_copy(f->target, sizeof(f->target), f->reply_id); /* it fits */
	if (known && late)
		weir_log(WEIR_LOG_WARNING, "fleet-late", "why", "s",
			 "this host has not heard of the fleet for 30 days: the store's lists "
			 "replace its own",
			 NULL);
	if (!known || late) {
		begin_reading(f);
		return;
	}
	set_state(f, WEIR_FLEET_RESTORES, NULL);
	f->caught = false;
	f->r.cursor = f->r.first;
	f->count.restores++;
}

static bool is_lost(struct weir_fleet *f)
{
	if (!strcmp(f->target, f->reply_id))
		return false;
	join(f);
	return true;
}

static void take_page(struct weir_fleet *f, const struct redisReply *rest)
{
	const struct redisReply *pairs = rest->elements == 2 ? rest->element[1] : NULL;
	const char *cursor = weir_fleet_reply_text(rest, 0, NULL);

	if (is_lost(f))
		return;
	if (!pairs || pairs->type != REDIS_REPLY_ARRAY || !cursor ||
	    strlen(cursor) >= sizeof(f->cursor)) {
		weir_fleet_failed(f, WEIR_FLEET_SCAN, "the lists make no sense");
		return;
	}
	if (!f->read_last) {
		f->read_n = f->store_n;
		f->read_last = f->reply_last;
	}
	(void)weir_str_copy(f->cursor, sizeof(f->cursor), cursor);
	weir_fleet_disk_begin(f->disk);
	for (size_t i = 0; i + 1 < pairs->elements; i += 2) {
		size_t n_key, n_value, n;
		const char *key = weir_fleet_reply_text(pairs, i, &n_key),
			   *value = weir_fleet_reply_text(pairs, i + 1, &n_value), *lines;
		struct weir_fleet_key k;
		__u64 version;

		if (key && value && n_value < WEIR_FLEET_VALUE_MAX &&
		    weir_fleet_key_parse(key, n_key, &k) == 0 &&
		    weir_fleet_value_read(value, n_value, &version, &lines, &n) == 0)
			learn(f, &k, version, lines, n);
	}
	end_disk(f);
}

/* What was not met is not there: deleted, or ended. */
static void end_reading(struct weir_fleet *f)
{
	weir_fleet_disk_begin(f->disk);
	for (struct weir_fleet_item *i = f->r.first; i; i = i->next) {
		if (i->seen == f->reading || !i->text || i->version > f->read_last)
			continue;
		(void)weir_fleet_learn(&f->r, i, f->read_last, NULL,
				       0); /* without text: no memory */
		weir_fleet_disk_put_item(f->disk, i);
		f->all_changed = true;
	}
	(void)weir_str_copy(f->id, sizeof(f->id), f->target); /* it fits */
	f->n = f->read_n;
	f->last = f->read_last;
	f->heard_ms = weir_fleet_now_ms(f);
	keep_place(f);
	end_disk(f);
	set_state(f, WEIR_FLEET_FOLLOWS, NULL);
	f->polls_again = true;
}

/* One change: [ID, [k, KEY, v, LINES, n, NUMBER]]. False: it is not the next one. */
static bool take_change(struct weir_fleet *f, const struct redisReply *change)
{
	const struct redisReply *words = change->type == REDIS_REPLY_ARRAY && change->elements == 2
						 ? change->element[1]
						 : NULL;
	size_t n_id = 0, n_key = 0, n_lines = 0;
	const char *id = weir_fleet_reply_text(change, 0, &n_id),
		   *key = weir_fleet_reply_text(words, 1, &n_key),
		   *lines = weir_fleet_reply_text(words, 3, &n_lines);
	__u64 version = id ? weir_fleet_version(id, n_id) : 0;
	struct weir_fleet_key k;

	if (!version || weir_fleet_reply_u64(words, 5) != f->n + 1)
		return false;
	f->n++;
	f->last = version;
	f->count.changes++;
	if (key && lines && n_lines < WEIR_FLEET_VALUE_MAX &&
	    weir_fleet_key_parse(key, n_key, &k) == 0)
		learn(f, &k, version, lines, n_lines);
	return true;
}

static void take_changes(struct weir_fleet *f, const struct redisReply *changes)
{
	bool next = true;

	weir_fleet_disk_begin(f->disk);
	for (size_t i = 0; i < changes->elements && next; i++)
		next = take_change(f, changes->element[i]);
	f->heard_ms = weir_fleet_now_ms(f);
	if (changes->elements || f->heard_ms > f->heard_kept_ms + HEARD_KEPT_MS)
		keep_place(f);
	end_disk(f);
	f->polls_again = next && f->n < f->store_n && changes->elements;
	if (f->n == f->store_n && next) {
		f->caught = true;
		f->caught_ns = f->sent_ns;
		set_state(f, WEIR_FLEET_FOLLOWS, NULL);
	} else if (!f->polls_again) { /* the changes that follow are not kept any more */
		(void)weir_str_copy(f->target, sizeof(f->target), f->reply_id);
		begin_reading(f);
	} else {
		set_state(f, WEIR_FLEET_FOLLOWS, NULL);
	}
}

static void take_poll(struct weir_fleet *f, const struct redisReply *rest, const char *status)
{
	if (rest->elements != 4 || rest->element[0]->type != REDIS_REPLY_ARRAY ||
	    rest->element[1]->type != REDIS_REPLY_ARRAY) {
		weir_fleet_failed(f, WEIR_FLEET_POLL, "the script's reply makes no sense");
		return;
	}
	if (!f->lists) {
		f->caught_ns = f->sent_ns;
		set_state(f, WEIR_FLEET_FOLLOWS, NULL);
	} else if (!strcmp(status, "new")) {
		join(f);
	} else if (!is_busy_with_all(f)) {
		take_changes(f, rest->element[0]);
	}
	if (!f->beats)
		return;
	weir_fleet_take_agents(f, rest->element[1]);
	weir_fleet_take_secret(f, weir_fleet_reply_text(rest, 2, NULL),
			       weir_fleet_reply_text(rest, 3, NULL));
}

/* --- own changes ----------------------------------------------------------------------------------------------------- */

static void take_pushed(struct weir_fleet *f, const struct redisReply *rest, const char *status)
{
	__u64 batch = f->r.first_op ? f->r.first_op->batch : 0;

	if (!strcmp(status, "new")) {
		join(f);
		return;
	}
	weir_fleet_disk_begin(f->disk);
	if (!strcmp(status, "behind")) { /* this host's file is older than its last batch */
		f->batch = weir_fleet_reply_u64(rest, 0);
		for (struct weir_fleet_op *op = f->r.first_op; op && op->batch; op = op->next) {
			op->batch = 0;
			weir_fleet_disk_put_op(f->disk, op);
		}
		weir_fleet_disk_set_u64(f->disk, "batch", f->batch);
		end_disk(f);
		return;
	}
	while (f->r.first_op && f->r.first_op->batch == batch) {
		weir_fleet_disk_del_op(f->disk, f->r.first_op);
		weir_fleet_op_free(&f->r, f->r.first_op);
		f->count.pushed++;
	}
	for (size_t i = 0; i + 2 < rest->elements; i += 3) {
		size_t n_key = 0, n_value = 0, n = 0;
		const char *key = weir_fleet_reply_text(rest, i, &n_key),
			   *value = weir_fleet_reply_text(rest, i + 1, &n_value), *lines = NULL;
		__u64 version = f->reply_last;
		struct weir_fleet_key k;

		if (!key || !value || n_value >= WEIR_FLEET_VALUE_MAX ||
		    weir_fleet_key_parse(key, n_key, &k) < 0)
			continue;
		if (n_value && weir_fleet_value_read(value, n_value, &version, &lines, &n) < 0)
			continue;
		learn(f, &k, version, lines, n);
	}
	end_disk(f);
	f->caught = false;
}

/* What has come to light since the command, of the origin that is to go. */
static void expand_origin(struct weir_fleet *f)
{
	struct weir_fleet_op *head = f->r.first_op;
	struct weir_fleet_lines l;
	__u64 sub = 0;

	weir_fleet_disk_begin(f->disk);
	for (struct weir_fleet_item *i = f->r.first; i; i = i->next) {
		if (!i->text || i->key.list != head->list)
			continue;
		weir_fleet_lines_read(i->text, strlen(i->text), &l);
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
			tell_later(f, &i->key);
		}
	}
	weir_fleet_disk_del_op(f->disk, head);
	weir_fleet_op_free(&f->r, head);
	end_disk(f);
	tell(f);
	weir_fleet_run_soon(f);
}

static void number_batch(struct weir_fleet *f)
{
	struct weir_fleet_op *op = f->r.first_op;

	weir_fleet_disk_begin(f->disk);
	f->batch++;
	for (int i = 0; i < WEIR_FLEET_BATCH && op && op->kind != WEIR_FLEET_ORIGIN;
	     i++, op = op->next) {
		op->batch = f->batch;
		weir_fleet_disk_put_op(f->disk, op);
	}
	weir_fleet_disk_set_u64(f->disk, "batch", f->batch);
	end_disk(f);
}

static void word_key(struct weir_fleet_words *w, const struct weir_fleet_key *key)
{
	char text[WEIR_FLEET_KEY_STRLEN];

	(void)weir_fleet_key_format(key, text);
	weir_fleet_word_copy(w, text, strlen(text));
}

/* Before it is sent its number is on disk, so that a batch whose reply is lost is known as the same one. */
static void push(struct weir_fleet *f)
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
		word_key(&w, &op->item->key);
		weir_fleet_word_copy(&w, op->data, n && op->data[n - 1] == '\n' ? n - 1 : n);
	}
	weir_fleet_call(f, WEIR_FLEET_PUSH, &w);
}

/* --- steps --------------------------------------------------------------------------------------------------------- */

static void poll_store(struct weir_fleet *f)
{
	__u64 now_ns = weir_fleet_clock_ns(f);
	_cleanup_free_ char *beat = NULL;
	struct weir_fleet_words w;

	f->beats = now_ns >= f->next_beat_ns && !f->full;
	if (now_ns >= f->next_beat_ns) {
		f->next_beat_ns = now_ns + WEIR_FLEET_BEAT_NS;
		f->full = false;
	}
	f->next_poll_ns = now_ns + WEIR_FLEET_POLL_NS;
	f->polls_again = false;
	beat = f->beats ? weir_fleet_beat_text(f) : NULL;
	f->beats = beat != NULL;
	weir_fleet_words_begin(f, &w, "poll");
	weir_fleet_word_u64(&w, is_busy_with_all(f) ? 0 : WEIR_FLEET_PAGE);
	weir_fleet_word_copy(&w, beat ? beat : "", beat ? strlen(beat) : 0);
	weir_fleet_call(f, WEIR_FLEET_POLL, &w);
}

static void scan(struct weir_fleet *f)
{
	struct weir_fleet_words w;

	weir_fleet_words_begin(f, &w, "scan");
	weir_fleet_word(&w, f->cursor);
	weir_fleet_word_u64(&w, WEIR_FLEET_PAGE);
	weir_fleet_call(f, WEIR_FLEET_SCAN, &w);
}

/* The next items that the store may have lost; false: there are no more. */
static bool restore(struct weir_fleet *f)
{
	__u64 now_ms = weir_fleet_now_ms(f);
	char data[WEIR_FLEET_VALUE_MAX + 32];
	struct weir_fleet_words w;
	unsigned n = 0;

	weir_fleet_words_begin(f, &w, "restore");
	while (f->r.cursor && n < WEIR_FLEET_BATCH) {
		const struct weir_fleet_item *i = f->r.cursor;

		f->r.cursor = i->next;
		if (!i->version || (i->text && i->end_ms && i->end_ms <= now_ms))
			continue;
		(void)snprintf(data, sizeof(data), "%llu%s%s", (unsigned long long)i->version,
			       i->text ? "\n" : "", i->text ? i->text : ""); /* it fits */
		weir_fleet_word(&w, i->text ? "R" : "T");
		word_key(&w, &i->key);
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

static void sweep(struct weir_fleet *f)
{
	__u64 now_ms = weir_fleet_now_ms(f);
	bool crowded = f->r.n_gone > WEIR_FLEET_GONE_MAX;

	if (!f->clock_heard)
		return;
	if (!f->r.sweep)
		f->r.sweep = f->r.first;
	weir_fleet_disk_begin(f->disk);
	for (int k = 0; k < SWEEP_AT_ONCE && f->r.sweep; k++) {
		struct weir_fleet_item *i = f->r.sweep;
		bool over = i->text ? i->end_ms && i->end_ms <= now_ms
				    : crowded || (i->version >> 12) + WEIR_FLEET_GONE_MS < now_ms;
		struct weir_fleet_key key = i->key;

		f->r.sweep = i->next;
		if (over && weir_fleet_forget(&f->r, i))
			weir_fleet_disk_del_item(f->disk, &key);
	}
	end_disk(f);
}

static void arm(struct weir_fleet *f)
{
	__u64 now_ns = weir_fleet_clock_ns(f);
	__u64 ns = f->next_poll_ns > now_ns ? f->next_poll_ns - now_ns : 0;
	struct timeval t = {
		.tv_usec = (long)(ns > WEIR_FLEET_POLL_NS ? WEIR_FLEET_POLL_NS : ns) / 1000 + 1};

	(void)event_add(f->timer, &t); /* a timer that is there: nothing is allocated */
}

static bool waits_for_origin(const struct weir_fleet *f)
{
	return f->r.first_op && f->r.first_op->kind == WEIR_FLEET_ORIGIN && !f->caught;
}

/* The next call, if there is one to make now. */
static void step(struct weir_fleet *f)
{
	__u64 now_ns = weir_fleet_clock_ns(f);
	bool due = now_ns >= f->next_poll_ns;

	if (f->doing != WEIR_FLEET_IDLE || f->closing || (f->state == WEIR_FLEET_AWAY && !due))
		return;
	if (!f->sha[0]) {
		weir_fleet_load_script(f);
	} else if (is_busy_with_all(f) && now_ns >= f->next_beat_ns) {
		poll_store(f);
	} else if (is_busy_with_all(f)) {
		if (f->state == WEIR_FLEET_RESTORES && restore(f))
			return;
		if (f->state == WEIR_FLEET_RESTORES)
			begin_reading(f);
		scan(f);
	} else if (due || f->polls_again || waits_for_origin(f)) {
		poll_store(f);
	} else if (!weir_fleet_ask_more(f) && f->lists && f->r.first_op) {
		if (f->r.first_op->kind == WEIR_FLEET_ORIGIN)
			expand_origin(f);
		else
			push(f);
	}
}

static void run(evutil_socket_t fd, short what, void *arg)
{
	struct weir_fleet *f = arg;

	(void)fd;
	(void)what;
	if (f->doing == WEIR_FLEET_IDLE)
		step(f);
	save_again(f);
	arm(f);
}

void weir_fleet_run_soon(struct weir_fleet *f)
{
	event_active(f->soon, EV_TIMEOUT, 0);
}

void weir_fleet_failed(struct weir_fleet *f, enum weir_fleet_doing doing, const char *why)
{
	f->count.failures++;
	f->full = !strncmp(why, "OOM", 3) || !strncmp(why, "MISCONF", 7);
	if (f->publish.wanted)
		weir_fleet_take_published(
			f, -EIO, NULL,
			doing == WEIR_FLEET_PUBLISH
				? "the store did not answer: it may have been published "
				  "(weir limit diff tells)"
				: why);
	f->caught = false;
	set_state(f, WEIR_FLEET_AWAY, why);
	f->next_poll_ns = weir_fleet_clock_ns(f) + (f->full ? 0 : WEIR_FLEET_POLL_NS);
	arm(f);
}

void weir_fleet_take(struct weir_fleet *f, enum weir_fleet_doing doing,
		     const struct redisReply *rest, const char *status)
{
	switch (doing) {
	case WEIR_FLEET_POLL:
		take_poll(f, rest, status);
		if (f->beats)
			sweep(f);
		break;
	case WEIR_FLEET_SCAN:
		take_page(f, rest);
		if (f->state == WEIR_FLEET_READS && f->read_last && !strcmp(f->cursor, "0"))
			end_reading(f);
		break;
	case WEIR_FLEET_RESTORE:
		(void)is_lost(f); /* begins anew then */
		break;
	case WEIR_FLEET_PUSH:
		take_pushed(f, rest, status);
		break;
	case WEIR_FLEET_SECRET:
		weir_fleet_take_secret(f, weir_fleet_reply_text(rest, 0, NULL),
				       weir_fleet_reply_text(rest, 1, NULL));
		break;
	case WEIR_FLEET_LIMITS:
		weir_fleet_take_limits(f, rest);
		break;
	case WEIR_FLEET_PUBLISH:
		weir_fleet_take_published(f, strcmp(status, "ok") != 0 ? -ESTALE : 0, rest, status);
		break;
	default:
		break;
	}
	if (f->state != WEIR_FLEET_READS)
		tell(f);
	weir_fleet_run_soon(f);
}

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
	end_disk(f);
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
	char line[1024], kind = f->clock_known ? WEIR_FLEET_ADD : WEIR_FLEET_GUESS;
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
		tell_later(f, &key[i]);
	}
	end_disk(f);
	tell(f);
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
	end_disk(f);
	tell_later(f, key);
	tell(f);
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
			tell_later(f, &i->key);
			n++;
		}
	}
	if (!new_op(f, WEIR_FLEET_ORIGIN, NULL, list, origin))
		return take_back(f, ord, e);
	end_disk(f);
	tell(f);
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

int weir_fleet_each(struct weir_fleet *f, weir_fleet_each_fn *fn, void *arg)
{
	__u64 now_ms = weir_fleet_now_ms(f);
	int r = 0;

	for (const struct weir_fleet_item *i = f->r.first; i && r == 0; i = i->next) {
		if (!i->text && !i->op)
			continue;
		weir_fleet_effective(i, now_ms, &f->shown);
		if (f->shown.n)
			r = fn(arg, &i->key, f->shown.entry, f->shown.n);
	}
	return r;
}

void weir_fleet_host(const struct weir_fleet *f, char *buf, size_t size)
{
	(void)weir_str_copy(buf, size, f->host); /* cut if it does not fit */
}

bool weir_fleet_is_durable(const struct weir_fleet *f)
{
	return f->durable && !f->unsaved;
}

void weir_fleet_status(const struct weir_fleet *f, struct weir_fleet_status *ret)
{
	struct weir_redis_stats s;

	weir_store_redis_stats(f->store, &s);
	*ret = (struct weir_fleet_status){
		.state = f->state,
		.since_s = f->since_s,
		.durable = weir_fleet_is_durable(f),
		.clock_known = f->clock_heard,
		.clock_offset_ms = (__s64)weir_fleet_now_ms(f) - f->wall_ms(f->arg),
		.gone = f->r.n_gone,
		.waiting = f->r.n_ops,
		.behind = f->store_n > f->n && f->lists ? f->store_n - f->n : 0,
		.lag_ms = f->caught_ns ? (weir_fleet_clock_ns(f) - f->caught_ns) / 1000000 : 0,
		.changes = f->count.changes,
		.pushed = f->count.pushed,
		.reads = f->count.reads,
		.restores = f->count.restores,
		.failures = f->count.failures,
	};
	for (const struct weir_fleet_item *i = f->r.first; i; i = i->next)
		ret->entries += i->text || (i->op && i->last_op->kind != WEIR_FLEET_DEL);
	if (!f->caught_ns) /* not since the start */
		ret->lag_ms = (weir_fleet_clock_ns(f) - f->began_ns) / 1000000;
	(void)weir_str_copy(ret->why, sizeof(ret->why), f->why); /* all of these fit, or are cut */
	(void)weir_str_copy(ret->server, sizeof(ret->server), s.server);
	(void)weir_str_copy(ret->key, sizeof(ret->key), f->key[0]);
	(void)weir_str_copy(ret->store_id, sizeof(ret->store_id), f->id);
	(void)weir_str_copy(ret->agent_id, sizeof(ret->agent_id), f->agent);
	(void)weir_str_copy(ret->fingerprint, sizeof(ret->fingerprint), f->fingerprint);
}

/* --- coming and going ------------------------------------------------------------------------------------------------ */

static __u64 system_mono_ns(void *arg)
{
	struct timespec t = {};

	(void)arg;
	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for these clocks */
	return (__u64)t.tv_sec * 1000000000 + (__u64)t.tv_nsec;
}

static __s64 system_wall_ms(void *arg)
{
	struct timespec t = {};

	(void)arg;
	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (__s64)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A file that came here with another host's image must not use that one's name. */
static void name_agent(struct weir_fleet *f)
{
	__u8 random[WEIR_FLEET_ID_HEX / 2];
	char host[WEIR_FLEET_NAME_MAX];

	weir_fleet_disk_get(f->disk, "agent", f->agent, sizeof(f->agent));
	weir_fleet_disk_get(f->disk, "host", host, sizeof(host));
	if (strlen(f->agent) == WEIR_FLEET_ID_HEX && !strcmp(host, f->host))
		return;
	randombytes_buf(random, sizeof(random));
	(void)sodium_bin2hex(f->agent, sizeof(f->agent), random, sizeof(random));
	weir_fleet_disk_set(f->disk, "agent", f->agent);
	weir_fleet_disk_set(f->disk, "host", f->host);
}

static void recall_clock(struct weir_fleet *f)
{
	__u64 kept = weir_fleet_disk_get_u64(f->disk, "clock");
	__s64 offset_ms = kept ? (__s64)kept - (1ll << 50) : 0;

	f->clock_known = kept != 0;
	f->clock_us =
		(f->wall_ms(f->arg) + offset_ms) * 1000 - (__s64)(weir_fleet_clock_ns(f) / 1000);
}

static int open_disk(struct weir_fleet *f, const char *path, char **ret_note, struct weir_error *e)
{
	char aside[4096];
	int r = weir_fleet_disk_open(path, &f->disk, e);

	f->durable = path && r == 0;
	if (r == 0 || r == -EPROTO || r == -ENOMEM || r == -EBUSY)
		return r;
	if (r == -EUCLEAN) {
		(void)snprintf(aside, sizeof(aside), "%s.damaged-%lld", path,
			       (long long)(f->wall_ms(f->arg) / 1000));
		if (rename(path, aside) == 0) {
			if (asprintf(ret_note,
				     "%s was damaged and is now %s: changes of lists that were not "
				     "in "
				     "the store are gone",
				     path, aside) < 0)
				*ret_note = NULL;
			f->durable = weir_fleet_disk_open(path, &f->disk, e) == 0;
		}
	}
	if (f->disk)
		return 0;
	free(*ret_note);
	if (asprintf(ret_note, "what the fleet says will not outlive this agent: %s", e->text) < 0)
		*ret_note = NULL;
	return weir_fleet_disk_open(NULL, &f->disk, e);
}

static int recall(struct weir_fleet *f)
{
	int r = weir_fleet_disk_load(f->disk, &f->r, &f->ord);

	if (r < 0)
		return r;
	weir_fleet_disk_begin(f->disk);
	name_agent(f);
	end_disk(f);
	recall_clock(f);
	weir_fleet_disk_get(f->disk, "id", f->id, sizeof(f->id));
	f->n = weir_fleet_disk_get_u64(f->disk, "n");
	f->last = weir_fleet_disk_get_u64(f->disk, "last");
	f->heard_ms = f->heard_kept_ms = weir_fleet_disk_get_u64(f->disk, "heard");
	f->batch = weir_fleet_disk_get_u64(f->disk, "batch");
	return 0;
}

static int make_keys(struct weir_fleet *f, const char *prefix)
{
	static const char *const names[WEIR_FLEET_KEYS] = {"list",   "changes", "gone",
							   "ends",   "pushed",	"agents",
							   "limits", "secret",	"key"};

	for (int i = 0; i < WEIR_FLEET_KEYS; i++)
		if (asprintf(&f->key[i], "%s{fleet}:1:%s", prefix, names[i]) < 0) {
			f->key[i] = NULL;
			return -ENOMEM;
		}
	return 0;
}

static int set_up(struct weir_fleet *f, const struct weir_fleet_options *o, char **ret_note,
		  struct weir_error *e)
{
	struct timeval now = {};
	int r = make_keys(f, o->redis->prefix ? o->redis->prefix : "weir:");

	f->timer = evtimer_new(f->base, run, f);
	f->soon = event_new(f->base, -1, 0, run, f);
	if (r == 0)
		r = weir_fleet_replica_init(&f->r);
	if (r < 0 || !f->timer || !f->soon)
		return weir_error_set(e, -ENOMEM, "out of memory");
	r = open_disk(f, o->db_path, ret_note, e);
	if (r < 0)
		return r;
	r = recall(f);
	if (r == 0)
		r = weir_fleet_agents_init(f, o->secret);
	if (r < 0)
		return weir_error_set(e, r, "%s cannot be read: %s", o->db_path ? o->db_path : "",
				      strerror(-r));
	r = weir_store_redis_new(f->base, o->redis, &f->store, e);
	if (r == 0 && event_add(f->timer, &now) < 0)
		r = weir_error_set(e, -ENOMEM, "out of memory");
	return r;
}

int weir_fleet_new(const struct weir_fleet_options *o, struct weir_fleet **ret, char **ret_note,
		   struct weir_error *e)
{
	_cleanup_(weir_fleet_freep) struct weir_fleet *f = calloc(1, sizeof(*f));
	struct weir_error why = {};
	int r;

	*ret_note = NULL;
	if (!f)
		return weir_error_set(e, -ENOMEM, "out of memory");
	f->base = o->base;
	f->ops = o->ops;
	f->arg = o->arg;
	f->mono_ns = o->mono_ns ? o->mono_ns : system_mono_ns;
	f->wall_ms = o->wall_ms ? o->wall_ms : system_wall_ms;
	f->lists = o->lists;
	f->since_s = f->wall_ms(f->arg) / 1000;
	f->began_ns = weir_fleet_clock_ns(f);
	weir_fleet_clean(o->host, f->host, sizeof(f->host));
	weir_fleet_clean(o->instance, f->instance, sizeof(f->instance));
	(void)weir_str_copy(f->why, sizeof(f->why), "it has not answered yet");
	r = set_up(f, o, ret_note, e ? e : &why);
	if (r < 0) {
		free(*ret_note);
		*ret_note = NULL;
		return r;
	}
	*ret = TAKE_PTR(f);
	return 0;
}

void weir_fleet_free(struct weir_fleet *f)
{
	if (!f)
		return;
	f->closing = true;
	weir_store_free(f->store); /* answers what is under way */
	if (f->timer)
		event_free(f->timer);
	if (f->soon)
		event_free(f->soon);
	weir_fleet_agents_done(f);
	weir_fleet_replica_done(&f->r);
	weir_fleet_disk_free(f->disk);
	for (int i = 0; i < WEIR_FLEET_KEYS; i++)
		free(f->key[i]);
	free(f->told);
	free(f);
}
