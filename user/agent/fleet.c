/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent in its fleet: entries by command and escalation go to all hosts, and those of all hosts into the book, but for
 * what this host guards or allows; the secret for the keys of requests; how many agents there are. Called by start.c, the
 * loop and the list commands.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/agent/shared.h"
#include "user/base/log.h"
#include "user/base/str.h"

#define AGAIN_NS (5 * WEIR_NS_PER_S) /* what the kernel has refused; what was left out */

/* --- from the fleet to the book ---- */

/* Texts of one projection, most of which are alike. */
struct texts {
	struct weir_shared_text *last[4];
};

static struct weir_shared_text *text_of(struct texts *t, int i, const char *s)
{
	if (!s[0])
		return NULL;
	if (!t->last[i] || strcmp(weir_shared_text_get(t->last[i]), s) != 0) {
		weir_shared_text_free(t->last[i]);
		t->last[i] = weir_shared_text_new(s); /* NULL: not shown */
	}
	return t->last[i];
}

static void texts_done(struct texts *t)
{
	for (size_t i = 0; i < ARRAY_LEN(t->last); i++)
		weir_shared_text_free(t->last[i]);
}

struct projection {
	struct weir_agent *a;
	struct weir_book *book, *held;
	struct texts texts;
	char host[64];
	bool allows; /* there are allowed addresses of this host's own */
	size_t room[WEIR_LIST_MAX][2], left_out; /* prefixes; of IPv4 and IPv6 */
};

/* Is there room for it? */
static bool wants(void *arg, const struct weir_fleet_key *key)
{
	struct projection *x = arg;

	if (x->room[key->list][key->prefix.family == 6])
		return true;
	x->left_out++;
	return false;
}

/* Does this host's own configuration allow all of @p? */
static bool is_allowed(const struct projection *x, const struct weir_prefix *p)
{
	const struct weir_book_entry *e = NULL;
	struct weir_prefix outer = *p;

	if (!x->allows)
		return false;
	for (int len = p->len; len >= 0; len--) {
		size_t n;

		outer.len = (__u8)len;
		weir_addr_mask(&outer.addr, outer.family, outer.len);
		n = weir_book_find(x->book, WEIR_LIST_ALLOW, &outer, &e);
		for (size_t i = 0; i < n; i++)
			if (!e[i].fleet)
				return true;
	}
	return false;
}

static bool is_held(const struct projection *x, const struct weir_fleet_key *key,
		    const struct weir_book_entry *entry)
{
	const struct weir_book_entry *which = NULL;
	size_t covered;

	if (key->list != WEIR_LIST_BLOCK)
		return false;
	if (is_allowed(x, &key->prefix))
		return true;
	return !(entry->flags & WEIR_ENTRY_FORCE) &&
	       weir_guard_check(x->book, &key->prefix, &which, &covered) == WEIR_GUARD_HITS;
}

static int project(void *arg, const struct weir_fleet_key *key,
		   const struct weir_fleet_entry *entry, size_t n)
{
	struct projection *x = arg;
	const struct weir_fleet *f = x->a->fleet;
	bool here = false, held;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct weir_fleet_entry *e = &entry[i];
		struct weir_book_entry b = {
			.prefix = key->prefix,
			.origin = WEIR_ORIGIN_COMMAND,
			.expires_ns = weir_fleet_mono_ns(f, e->end_ms),
			.expires_s = weir_fleet_wall_s(f, e->end_ms),
			.created_s = weir_fleet_wall_s(f, e->created_ms),
			.name = text_of(&x->texts, 0, e->origin),
			.reason = text_of(&x->texts, 1, e->reason),
			.who = text_of(&x->texts, 2, e->who),
			.host = text_of(&x->texts, 3, e->host),
			.fleet = true,
		};

		if (!b.name)
			return -ENOMEM; /* it would be of no origin */
		/* only where somebody said so is a guard taken away */
		if (e->flags & WEIR_ENTRY_FORCE && !strcmp(e->host, x->host))
			b.flags = WEIR_ENTRY_FORCE;
		held = is_held(x, key, &b);
		here |= !held;
		r = weir_book_add(held ? x->held : x->book, key->list, &b);
	}
	x->room[key->list][key->prefix.family == 6] -= here;
	return r;
}

static int compare_keys(const void *a, const void *b)
{
	const struct weir_fleet_key *x = a, *y = b;
	int r = (x->list > y->list) - (x->list < y->list);

	return r ? r : weir_prefix_compare(&x->prefix, &y->prefix);
}

struct those {
	struct weir_fleet_key *key; /* sorted; none: all */
	size_t n;
};

static bool is_of(const void *arg, enum weir_list list, const struct weir_book_entry *e)
{
	const struct those *t = arg;
	struct weir_fleet_key key = {.list = list, .prefix = e->prefix};

	return e->fleet && (!t->n || bsearch(&key, t->key, t->n, sizeof(*t->key), compare_keys));
}

static bool has_own_allows(const struct weir_book *b)
{
	const struct weir_book_list *l = &b->list[WEIR_LIST_ALLOW];

	for (size_t i = 0; i < l->n; i++)
		if (!l->item[i].fleet)
			return true;
	return false;
}

static void find_room(struct projection *x)
{
	weir_book_settle(x->book);
	for (int l = 0; l < WEIR_LIST_MAX; l++)
		for (int six = 0; six < 2; six++) {
			size_t n = weir_book_count(x->book, (enum weir_list)l, six ? 6 : 4);

			x->room[l][six] = n < WEIR_LIST_ROOM ? WEIR_LIST_ROOM - n : 0;
		}
}

/* Copies of both books in which these prefixes (@t->n 0: all) are as the fleet has them. */
static int make_books(struct weir_agent *a, const struct those *t, struct weir_book **ret_book,
		      struct weir_book **ret_held, size_t *ret_left_out)
{
	_cleanup_(weir_book_freep) struct weir_book *book = weir_book_copy(a->book),
						    *held = a->held ? weir_book_copy(a->held)
								    : weir_book_new();
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
	struct projection x = {.a = a, .book = book, .held = held};
	int r = book && held ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	weir_fleet_host(a->fleet, x.host, sizeof(x.host));
	(void)weir_book_remove(book, WEIR_LIST_MAX, is_of, t);
	(void)weir_book_remove(held, WEIR_LIST_MAX, is_of, t);
	x.allows = has_own_allows(book);
	find_room(&x);
	if (!t->n)
		r = weir_fleet_each(a->fleet, wants, project, &x);
	for (size_t i = 0; i < t->n && r == 0; i++) {
		size_t n = i && compare_keys(&t->key[i - 1], &t->key[i]) == 0
				   ? 0
				   : weir_fleet_get(a->fleet, &t->key[i], e);

		if (n && wants(&x, &t->key[i]))
			r = project(&x, &t->key[i], e, n);
	}
	texts_done(&x.texts);
	if (r < 0)
		return r;
	weir_book_settle(book);
	weir_book_settle(held);
	*ret_book = TAKE_PTR(book);
	*ret_held = TAKE_PTR(held);
	*ret_left_out = x.left_out;
	return 0;
}

/* What is left out is looked at again when others have gone. */
static void note_left_out(struct weir_agent *a, size_t n, bool all)
{
	size_t was = a->fleet_left_out;

	a->fleet_left_out = all ? n : was + n;
	if (!all && a->fleet_left_out && !a->fleet_refill)
		a->fleet_again_ns = weir_clock_ns(CLOCK_MONOTONIC) + AGAIN_NS;
	a->fleet_refill = !all && a->fleet_left_out;
	a->fleet_error[0] = '\0';
	if (a->fleet_left_out)
		(void)snprintf(a->fleet_error, sizeof(a->fleet_error),
			       "%zu of their entries are left out: %d of a list and family fit, "
			       "the latest",
			       a->fleet_left_out, WEIR_LIST_ROOM);
	if (!was && a->fleet_left_out)
		weir_log(WEIR_LOG_ERROR, "fleet-lists-full", "why", "s", a->fleet_error, NULL);
	else if (was && !a->fleet_left_out)
		weir_log(WEIR_LOG_NOTICE, "fleet-lists-fit", NULL);
}

static int take(struct weir_agent *a, const struct weir_fleet_key *key, size_t n,
		struct weir_error *e)
{
	_cleanup_(weir_book_freep) struct weir_book *book = NULL, *held = NULL;
	_cleanup_free_ struct weir_fleet_key *sorted = NULL;
	struct those t = {};
	size_t left_out;
	int r;

	if (n) {
		sorted = calloc(n, sizeof(*sorted));
		if (!sorted)
			return weir_error_set(e, -ENOMEM, "out of memory");
		memcpy(sorted, key, n * sizeof(*key));
		qsort(sorted, n, sizeof(*sorted), compare_keys);
		t = (struct those){.key = sorted, .n = n};
	}
	r = make_books(a, &t, &book, &held, &left_out);
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	if (a->ready)
		r = weir_agent_take_book(a, &book, e);
	else
		weir_agent_set_book(a, &book);
	if (r < 0)
		return r;
	weir_book_free(a->held);
	a->held = TAKE_PTR(held);
	note_left_out(a, left_out, !n);
	return 0;
}

static void changed(void *arg, const struct weir_fleet_key *key, size_t n)
{
	struct weir_agent *a = arg;
	struct weir_error e = {};

	if (!a->fleet || a->fleet_quiet)
		return;
	if (take(a, a->fleet_stale ? NULL : key, a->fleet_stale ? 0 : n, &e) == 0) {
		a->fleet_stale = false;
		return;
	}
	if (!a->fleet_stale)
		weir_log(WEIR_LOG_ERROR, "fleet-lists-failed", "why", "s", e.text, NULL);
	a->fleet_stale = true;
	(void)weir_str_copy(a->fleet_error, sizeof(a->fleet_error), e.text); /* cut if long */
	a->fleet_again_ns = weir_clock_ns(CLOCK_MONOTONIC) + AGAIN_NS;
}

void weir_agent_judge_fleet(struct weir_agent *a)
{
	if (a->fleet && a->fleet_lists && a->ready)
		changed(a, NULL, 0);
}

static bool is_over(const void *arg, enum weir_list list, const struct weir_book_entry *e)
{
	(void)list;
	return e->expires_ns && e->expires_ns <= *(const __u64 *)arg;
}

void weir_agent_tick_fleet(struct weir_agent *a, const struct weir_now *now)
{
	struct weir_fleet_limits l = {};

	if (!a->fleet)
		return;
	if (a->held)
		(void)weir_book_remove(a->held, WEIR_LIST_MAX, is_over, &now->mono_ns);
	if ((a->fleet_stale || a->fleet_refill) && now->mono_ns >= a->fleet_again_ns)
		changed(a, NULL, 0);
	if (a->l7)
		weir_l7_set_agents(a->l7, weir_fleet_live_agents(a->fleet));
	weir_fleet_limits(a->fleet, &l);
	weir_agent_take_pushed(a, &l); /* after a reload that follows the store now */
}

/* --- from the agent to the fleet ---- */

static void describe(void *arg, struct weir_fleet_self *ret)
{
	struct weir_agent *a = arg;

	ret->generation = weir_agent_generation(a);
	ret->limits = weir_agent_uses_pushed(a, a->conf) ? a->pushed.generation : 0;
	ret->limits_from_store = a->conf->store.limits_from == WEIR_LIMITS_FROM_STORE;
	ret->limits_failed = a->pushed_failed != 0;
	weir_source_digest(&a->source, ret->digest);
}

static int use_secret(void *arg, const __u8 secret[WEIR_FLEET_SECRET_BYTES])
{
	struct weir_agent *a = arg;
	struct weir_error e = {};
	int r = a->l7 ? weir_l7_set_secret(a->l7, secret, &e) : 0;

	if (r < 0)
		weir_log(WEIR_LOG_ERROR, "fleet-secret-failed", "why", "s", e.text, NULL);
	return r;
}

void weir_agent_give_secret(struct weir_agent *a)
{
	__u8 secret[WEIR_FLEET_SECRET_BYTES];

	if (a->fleet && weir_fleet_secret(a->fleet, secret))
		(void)use_secret(a, secret); /* logged; the fleet gives it again */
	explicit_bzero(secret, sizeof(secret));
}

static void take_limits(void *arg, const struct weir_fleet_limits *l)
{
	weir_agent_take_pushed(arg, l);
}

static const struct weir_fleet_ops ops = {changed, use_secret, take_limits, describe};

static struct weir_fleet_entry entry_of(const struct weir_agent *a,
					const struct weir_list_origin *o)
{
	__u64 now_ns = weir_clock_ns(CLOCK_MONOTONIC);

	return (struct weir_fleet_entry){
		.origin = weir_shared_text_get(o->name),
		.host = "",
		.who = weir_shared_text_get(o->who),
		.reason = weir_shared_text_get(o->reason),
		.flags = o->flags,
		.end_ms = !o->expires_ns ? 0
					 : weir_fleet_now_ms(a->fleet) +
						   (o->expires_ns > now_ns
							    ? (o->expires_ns - now_ns) / 1000000
							    : 0),
	};
}

/* What the asker must know of a change that is made. */
static void note_state(struct weir_agent *a, json_t *reply)
{
	struct weir_fleet_status s;
	char note[512];

	weir_fleet_status(a->fleet, &s);
	if (!a->dp)
		weir_reply_note(reply, "this host changes nothing by it (no interface is named): "
				       "it is for the fleet's other hosts");
	if (a->fleet_stale) {
		(void)snprintf(note, sizeof(note), "it does not act on this host yet: %.300s",
			       a->fleet_error);
		weir_reply_note(reply, note);
	}
	if (s.state == WEIR_FLEET_AWAY) {
		(void)snprintf(note, sizeof(note),
			       "%sthe other hosts get it when the store is back (%.150s)",
			       a->dp ? "it acts here; " : "", s.why);
		weir_reply_note(reply, note);
	}
	if (!s.durable)
		weir_reply_note(reply, "it could not be stored on this host: a restart before the "
				       "store has it would undo it");
}

int weir_agent_fleet_add(struct weir_agent *a, const struct weir_list_origin *o,
			 const struct weir_prefix *p, size_t n, json_t *reply, struct weir_error *e)
{
	_cleanup_free_ struct weir_fleet_key *key = calloc(n + 1, sizeof(*key));
	_cleanup_(weir_book_freep) struct weir_book *room = weir_book_copy(a->book);
	struct weir_fleet_entry entry = entry_of(a, o);
	int r = key && room ? 0 : weir_error_set(e, -ENOMEM, "out of memory");

	for (size_t i = 0; i < n && r == 0; i++) {
		key[i] = (struct weir_fleet_key){.list = o->list, .prefix = p[i]};
		r = weir_list_origin_add(room, o, &p[i]);
	}
	if (r == 0) {
		weir_book_settle(room);
		r = weir_agent_check_room(room, e);
	}
	if (r == 0)
		r = weir_fleet_add(a->fleet, key, n, &entry, e);
	if (r == 0 && reply)
		note_state(a, reply);
	return r;
}

int weir_agent_fleet_del(struct weir_agent *a, enum weir_list list, const struct weir_prefix *p,
			 const char *origin, json_t *reply, size_t *ret_n, struct weir_error *e)
{
	int r;

	if (p) {
		struct weir_fleet_key key = {.list = list, .prefix = *p};

		r = weir_fleet_del(a->fleet, &key, origin, ret_n, e);
	} else {
		r = weir_fleet_del_origin(a->fleet, list, origin, ret_n, e);
	}
	if (r == 0)
		note_state(a, reply);
	return r;
}

/* --- coming and going ---- */

/* Entries by command of a host that was alone so far. */
static int hand_over(struct weir_agent *a, struct weir_error *e)
{
	size_t n = 0;
	int r = 0;

	for (int l = WEIR_LIST_ALLOW; l <= WEIR_LIST_BLOCK && r == 0; l++)
		for (size_t i = 0; i < a->book->list[l].n && r == 0; i++) {
			const struct weir_book_entry *b = &a->book->list[l].item[i];
			struct weir_fleet_key key = {.list = (enum weir_list)l,
						     .prefix = b->prefix};
			struct weir_list_origin o = {.flags = b->flags,
						     .expires_ns = b->expires_ns,
						     .name = b->name,
						     .reason = b->reason,
						     .who = b->who};
			struct weir_fleet_entry entry = entry_of(a, &o);

			if (b->origin != WEIR_ORIGIN_COMMAND || b->fleet)
				continue;
			n++;
			r = weir_fleet_add(a->fleet, &key, 1, &entry, e);
		}
	if (r < 0 || !n)
		return r;
	weir_log(WEIR_LOG_NOTICE, "fleet-joins", "entries", "u", (unsigned long long)n, NULL);
	if (weir_fleet_is_durable(a->fleet) && weir_state_begin(a->state) == 0) {
		(void)weir_state_clear(a->state); /* else handed over again, to the same end */
		if (weir_state_commit(a->state) < 0)
			weir_state_rollback(a->state);
	}
	(void)weir_book_drop_origin(a->book, WEIR_LIST_ALLOW, WEIR_ORIGIN_COMMAND);
	(void)weir_book_drop_origin(a->book, WEIR_LIST_BLOCK, WEIR_ORIGIN_COMMAND);
	return 0;
}

int weir_agent_join_lists(struct weir_agent *a, struct weir_error *e)
{
	int r;

	if (!a->fleet || !a->fleet_lists)
		return 0;
	a->fleet_quiet = true;
	r = hand_over(a, e);
	a->fleet_quiet = false;
	return r < 0 ? r : take(a, NULL, 0, e);
}

const char *weir_agent_store_waits(const struct weir_agent *a, const struct weir_conf *conf)
{
	__u8 digest[WEIR_CONF_STORE_DIGEST];

	if (!a->fleet)
		return NULL;
	weir_conf_store_digest(&conf->store, digest);
	return memcmp(digest, a->store_began, sizeof(digest)) != 0
		       ? "the store is reached as before until the next start: store.* of the file "
			 "is not what the agent was started with"
		       : NULL;
}

int weir_agent_open_fleet(struct weir_agent *a, const struct weir_conf *conf, struct weir_error *e)
{
	_cleanup_free_ char *note = NULL;
	struct weir_redis_options redis;
	struct weir_fleet_options o;
	char path[4096], host[256] = "?";
	int r = weir_shared_new(conf, &a->shared, e);

	if (r < 0 || !a->shared)
		return r;
	redis = *weir_shared_redis(a->shared);
	redis.quiet = true;			   /* the fleet has words of its own */
	(void)gethostname(host, sizeof(host) - 1); /* "?" if it fails */
	if (snprintf(path, sizeof(path), "%s/%s-fleet.db", conf->state_dir, conf->instance) >=
	    (int)sizeof(path))
		return weir_error_set(e, -ENAMETOOLONG, "state_dir is too long");
	o = (struct weir_fleet_options){
		.base = a->base,
		.redis = &redis,
		.db_path = a->forgetful ? NULL : path,
		.host = host,
		.instance = conf->instance,
		.lists = conf->store.fleet_lists,
		.secret = weir_shared_secret(a->shared),
		.ops = &ops,
		.arg = a,
	};
	r = weir_fleet_new(&o, &a->fleet, &note, e);
	if (r < 0)
		return weir_error_prefix(e, r, "fleet");
	a->fleet_lists = o.lists;
	weir_conf_store_digest(&conf->store, a->store_began);
	if (note)
		weir_agent_note(a, note);
	if (a->pushed.text) {
		struct weir_fleet_limits l = {.generation = a->pushed.generation,
					      .text = a->pushed.text,
					      .host = a->pushed.host,
					      .who = a->pushed.who,
					      .at_ms = (__u64)a->pushed.at_s * 1000};

		(void)weir_fleet_remember_limits(a->fleet, &l); /* no memory: read again */
	}
	return 0;
}

void weir_agent_close_fleet(struct weir_agent *a)
{
	weir_fleet_free(TAKE_PTR(a->fleet));
	weir_shared_free(TAKE_PTR(a->shared));
}
