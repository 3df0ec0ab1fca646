/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When the store is asked what. Following: its changes, four times a second, and own ones as they come. Another id, or a
 * place in its changes that is not there any more: it may have lost something, so what this host has is said again, and
 * then the whole is read; deletions too, so that nobody brings back what was deleted. Called by the agent.
 */
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <sodium.h>
#include <string.h>
#include <time.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/base/str.h"
#include "user/fleet/fleet_int.h"

#define SWEEP_AT_ONCE 2000
#define SAVE_AGAIN_NS 10000000000ull

const char *weir_fleet_state_name(enum weir_fleet_state s)
{
	static const char *const names[] = {"away", "restores", "reads", "follows"};

	return (unsigned)s < ARRAY_LEN(names) ? names[s] : "?";
}

/* A server that answers the poll and refuses what follows is away, without a word each time. */
void weir_fleet_show_state(struct weir_fleet *f)
{
	enum weir_fleet_state s = f->refused ? WEIR_FLEET_AWAY : f->state;

	if (f->said == s)
		return;
	f->said = s;
	f->since_s = f->wall_ms(f->arg) / 1000;
	if (s == WEIR_FLEET_AWAY)
		weir_log(WEIR_LOG_WARNING, "fleet-away", "why", "s", f->why, NULL);
	else if (s == WEIR_FLEET_RESTORES)
		weir_log(WEIR_LOG_NOTICE, "fleet-restores", "why", "s",
			 "the store may lack what this host knows: it is said again", "entries",
			 "u", (unsigned long long)f->r.n_there, NULL);
	else if (s == WEIR_FLEET_FOLLOWS)
		weir_log(WEIR_LOG_NOTICE, "fleet-follows", "entries", "u",
			 (unsigned long long)f->r.n_there, "waiting", "u",
			 (unsigned long long)f->r.n_ops, NULL);
	if (s == WEIR_FLEET_FOLLOWS)
		f->why[0] = '\0';
}

void weir_fleet_set_state(struct weir_fleet *f, enum weir_fleet_state s, const char *why)
{
	if (s == WEIR_FLEET_AWAY)
		(void)weir_str_copy(f->why, sizeof(f->why), why); /* cut if long */
	f->state = s;
	weir_fleet_show_state(f);
}

bool weir_fleet_is_busy(const struct weir_fleet *f)
{
	return f->state == WEIR_FLEET_RESTORES || f->state == WEIR_FLEET_READS;
}

/* --- what has changed ------------------------------------------------------------------------------------------------ */

void weir_fleet_tell_later(struct weir_fleet *f, const struct weir_fleet_key *key)
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
void weir_fleet_tell(struct weir_fleet *f)
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

static void note_disk(struct weir_fleet *f, int r)
{
	if (r == 0)
		return;
	if (!f->unsaved)
		weir_log(WEIR_LOG_ERROR, "fleet-file-failed", "why", "s",
			 weir_fleet_disk_why(f->disk), NULL);
	f->unsaved = true;
}

void weir_fleet_end_disk(struct weir_fleet *f)
{
	note_disk(f, weir_fleet_disk_end(f->disk));
}

void weir_fleet_end_disk_later(struct weir_fleet *f)
{
	if (!weir_fleet_disk_is_pending(f->disk))
		f->settle_ns = weir_fleet_clock_ns(f) + WEIR_FLEET_SETTLE_NS;
	note_disk(f, weir_fleet_disk_end_later(f->disk));
}

static void settle(struct weir_fleet *f)
{
	if (weir_fleet_disk_is_pending(f->disk) && weir_fleet_clock_ns(f) >= f->settle_ns)
		note_disk(f, weir_fleet_disk_settle(f->disk));
}

void weir_fleet_keep_heard(struct weir_fleet *f)
{
	weir_fleet_disk_set_u64(f->disk, "heard_n", f->heard.n);
	weir_fleet_disk_set_u64(f->disk, "heard", f->heard.version);
}

void weir_fleet_keep_place(struct weir_fleet *f)
{
	weir_fleet_disk_set(f->disk, "id", f->id);
	weir_fleet_disk_set_u64(f->disk, "n", f->n);
	weir_fleet_disk_set_u64(f->disk, "last", f->last);
	weir_fleet_disk_set_u64(f->disk, "forgot", f->forgot);
	weir_fleet_keep_heard(f);
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
	weir_fleet_keep_place(f);
	if (weir_fleet_disk_end(f->disk) < 0)
		return;
	f->unsaved = false;
	weir_log(WEIR_LOG_NOTICE, "fleet-file-written", NULL);
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
	weir_fleet_word_u64(&w, weir_fleet_is_busy(f) ? 0 : WEIR_FLEET_PAGE);
	weir_fleet_word_copy(&w, beat ? beat : "", beat ? strlen(beat) : 0);
	weir_fleet_word(&w, f->former);
	weir_fleet_call(f, WEIR_FLEET_POLL, &w);
}

/* What has ended, and deletions that the store has forgotten. */
static void sweep(struct weir_fleet *f)
{
	__u64 now_ms = weir_fleet_now_ms(f);

	if (!f->clock_heard)
		return;
	if (!f->r.sweep)
		f->r.sweep = f->r.first;
	weir_fleet_disk_begin(f->disk);
	for (int k = 0; k < SWEEP_AT_ONCE && f->r.sweep; k++) {
		struct weir_fleet_item *i = f->r.sweep;
		bool over =
			(!i->there || (i->end_ms && i->end_ms <= now_ms)) && i->gone <= f->forgot;
		struct weir_fleet_key key = i->key;

		f->r.sweep = i->next;
		if (over && weir_fleet_forget(&f->r, i))
			weir_fleet_disk_del_item(f->disk, &key);
	}
	weir_fleet_end_disk_later(f);
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
	} else if (f->want_mend) {
		weir_fleet_mend(f);
	} else if (weir_fleet_is_busy(f) && now_ns >= f->next_beat_ns) {
		poll_store(f);
	} else if (weir_fleet_is_busy(f)) {
		if (f->state == WEIR_FLEET_RESTORES && weir_fleet_restore(f))
			return;
		if (f->state == WEIR_FLEET_RESTORES)
			weir_fleet_begin_reading(f);
		weir_fleet_scan(f);
	} else if (due || f->polls_again || waits_for_origin(f)) {
		poll_store(f);
	} else if (weir_fleet_ask_more(f)) {
		return;
	} else if (!f->lists || !f->r.first_op) {
		f->refused = WEIR_FLEET_IDLE; /* nobody wants it any more */
		weir_fleet_show_state(f);
	} else if (f->r.first_op->kind == WEIR_FLEET_ORIGIN) {
		weir_fleet_expand_origin(f);
	} else {
		weir_fleet_push(f);
	}
}

static void run(evutil_socket_t fd, short what, void *arg)
{
	struct weir_fleet *f = arg;

	(void)fd;
	(void)what;
	if (f->doing == WEIR_FLEET_IDLE)
		step(f);
	settle(f);
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
		weir_fleet_take_published(f, -EIO, NULL,
					  doing == WEIR_FLEET_PUBLISH
						  ? "the store did not answer: it may have been "
						    "published (weir limit diff tells)"
						  : why);
	weir_fleet_answer_asked(f, -EIO, why);
	f->caught = false;
	weir_fleet_set_state(f, WEIR_FLEET_AWAY, why);
	f->next_poll_ns = weir_fleet_clock_ns(f) + (f->full ? 0 : WEIR_FLEET_POLL_NS);
	arm(f);
}

/* Is the store the one that this host knows? */
static void take_place(struct weir_fleet *f, const char *status)
{
	if (!f->lists)
		return;
	if (!strcmp(status, "new"))
		weir_fleet_join(f);
	else
		*(weir_fleet_is_busy(f) ? &f->target_heard : &f->heard) = f->reply;
}

void weir_fleet_take(struct weir_fleet *f, enum weir_fleet_doing doing,
		     const struct redisReply *rest, const char *status)
{
	if (doing == WEIR_FLEET_POLL || doing == WEIR_FLEET_SCAN || doing == WEIR_FLEET_RESTORE ||
	    doing == WEIR_FLEET_PUSH)
		take_place(f, status);
	switch (doing) {
	case WEIR_FLEET_POLL:
		weir_fleet_take_poll(f, rest, status);
		if (f->beats)
			sweep(f);
		break;
	case WEIR_FLEET_SCAN:
		if (strcmp(status, "new") != 0)
			weir_fleet_take_page(f, rest);
		break;
	case WEIR_FLEET_PUSH:
		if (strcmp(status, "new") != 0)
			weir_fleet_take_pushed(f, rest, status);
		break;
	case WEIR_FLEET_SECRET:
		weir_fleet_take_secret(f, weir_fleet_reply_text(rest, 0, NULL),
				       weir_fleet_reply_text(rest, 1, NULL));
		f->want_secret = false; /* what is still missing is asked for with the next beat */
		break;
	case WEIR_FLEET_MEND:
		weir_fleet_take_mended(f, rest);
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
		weir_fleet_tell(f);
	weir_fleet_run_soon(f);
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
	struct weir_far_stats s;

	weir_store_far_stats(f->store, &s);
	*ret = (struct weir_fleet_status){
		.state = f->said,
		.since_s = f->since_s,
		.durable = weir_fleet_is_durable(f),
		.clock_known = f->clock_heard,
		.clock_offset_ms = (__s64)weir_fleet_now_ms(f) - f->wall_ms(f->arg),
		.gone = f->r.n_items - f->r.n_there,
		.waiting = f->r.n_ops,
		.behind = f->reply.n > f->n && f->lists ? f->reply.n - f->n : 0,
		.lag_ms = f->caught_ns ? (weir_fleet_clock_ns(f) - f->caught_ns) / 1000000 : 0,
		.changes = f->count.changes,
		.pushed = f->count.pushed,
		.reads = f->count.reads,
		.restores = f->count.restores,
		.failures = f->count.failures,
	};
	for (const struct weir_fleet_item *i = f->r.first; i; i = i->next)
		ret->entries += i->there || (i->op && i->last_op->kind != WEIR_FLEET_DEL);
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
	(void)arg;
	return weir_clock_ns(CLOCK_MONOTONIC);
}

static __s64 system_wall_ms(void *arg)
{
	(void)arg;
	return (__s64)(weir_clock_ns(CLOCK_REALTIME) / 1000000);
}

/* A file that came here with another host's image must not use that one's name. */
static void name_agent(struct weir_fleet *f)
{
	char host[WEIR_FLEET_NAME_MAX];

	weir_fleet_disk_get(f->disk, "agent", f->agent, sizeof(f->agent));
	weir_fleet_disk_get(f->disk, "host", host, sizeof(host));
	if (strlen(f->agent) == WEIR_FLEET_ID_HEX && !strcmp(host, f->host))
		return;
	weir_fleet_name_anew(f);
	weir_fleet_disk_set(f->disk, "host", f->host);
}

static void recall_clock(struct weir_fleet *f)
{
	__u64 kept = weir_fleet_disk_get_u64(f->disk, "clock");
	__s64 offset_ms = kept ? (__s64)kept - (1ll << 50) : 0;

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
				     "in the store are gone",
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
	weir_fleet_end_disk(f);
	recall_clock(f);
	weir_fleet_disk_get(f->disk, "id", f->id, sizeof(f->id));
	f->n = weir_fleet_disk_get_u64(f->disk, "n");
	f->last = weir_fleet_disk_get_u64(f->disk, "last");
	f->heard.n = weir_fleet_disk_get_u64(f->disk, "heard_n");
	f->heard.version = weir_fleet_disk_get_u64(f->disk, "heard");
	f->forgot = weir_fleet_disk_get_u64(f->disk, "forgot");
	f->batch = weir_fleet_disk_get_u64(f->disk, "batch");
	f->doubtful = f->r.first_op ? f->r.first_op->batch : 0;
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
