/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What loud sources get through on this host, told to the store (sources.h). Called by the agent. */
#include "user/fleet/sources.h"

#include <hiredis/hiredis.h>
#include <sodium.h>
#include <string.h>

#include "user/base/log.h"
#include "user/base/str.h"
#include "user/datapath/compile.h"
#include "user/fleet/fleet_int.h"

static const char script[] =
#include "sources.lua.h"
	;

#define BATCH	  WEIR_FLEET_OVER_MAX /* sources in one call: about half a millisecond of the server */
#define CALL_NS	  1000000000ull	      /* for a reply; it is late before */
#define BUCKETS	  8192
#define NONE	  0xffffffffu
#define TOLERANCE 100 /* a host's own clock and units may let through a hundredth more */

struct entry {
	struct weir_prefix source;
	__u8 limit;
	__u32 next;   /* of its hash, or of the free ones */
	__u64 window; /* last seen in */
	__u64 count;  /* told or pending, of this window */
	__u64 pending;
	__u64 since_ns; /* the oldest that is pending */
};

struct limit {
	char name[WEIR_NAME_MAX];
	struct weir_fleet_source_limit is;
	__u64 from; /* the first window that is told: of those before, nobody knows what was */
};

struct call {
	struct weir_fleet_sources *s; /* NULL: gone */
	bool loads;		      /* the script */
	__u8 limit[WEIR_LIMITS_MAX];  /* of its keys, in order */
};

struct weir_fleet_sources {
	struct weir_fleet *f;
	weir_fleet_over_fn *fn;
	void *arg;
	struct limit limit[WEIR_LIMITS_MAX];
	size_t n;
	struct entry *entry;
	__u32 bucket[BUCKETS];
	__u32 free, used; /* used: how many were ever */
	__u32 cursor;
	__u8 hash_key[crypto_shorthash_KEYBYTES];
	struct call *call; /* under way */
	char sha[41];	   /* of the script in the server; "": not loaded */
	char why[160];	   /* the last call failed; "": it did not */
	struct weir_fleet_sources_status status;
};

/* --- sources that are followed ---- */

static void forget_all(struct weir_fleet_sources *s)
{
	memset(s->bucket, 0xff, sizeof(s->bucket));
	s->free = NONE;
	s->used = 0;
	s->cursor = 0;
	s->status.followed = 0;
}

static __u32 hash_of(const struct weir_fleet_sources *s, unsigned limit,
		     const struct weir_prefix *source)
{
	__u8 bytes[sizeof(source->addr) + 3], out[crypto_shorthash_BYTES];
	__u32 h;

	memcpy(bytes, &source->addr, sizeof(source->addr));
	bytes[sizeof(bytes) - 3] = source->family;
	bytes[sizeof(bytes) - 2] = source->len;
	bytes[sizeof(bytes) - 1] = (__u8)limit;
	(void)crypto_shorthash(out, bytes, sizeof(bytes), s->hash_key); /* always succeeds */
	memcpy(&h, out, sizeof(h));
	return h % BUCKETS;
}

/* NULL: there are too many. */
static struct entry *find(struct weir_fleet_sources *s, unsigned limit,
			  const struct weir_prefix *source)
{
	__u32 h = hash_of(s, limit, source), i;
	struct entry *e;

	for (i = s->bucket[h]; i != NONE; i = s->entry[i].next)
		if (s->entry[i].limit == limit && !weir_prefix_compare(&s->entry[i].source, source))
			return &s->entry[i];
	if (s->free != NONE) {
		i = s->free;
		s->free = s->entry[i].next;
	} else if (s->used < WEIR_FLEET_SOURCES_MAX) {
		i = s->used++;
	} else {
		return NULL;
	}
	e = &s->entry[i];
	*e = (struct entry){.source = *source, .limit = (__u8)limit, .next = s->bucket[h]};
	s->bucket[h] = i;
	s->status.followed++;
	return e;
}

/* Those that have not been loud for two windows. */
static void forget_quiet(struct weir_fleet_sources *s, __u64 now_ns)
{
	for (__u32 h = 0; h < BUCKETS && s->status.followed; h++) {
		for (__u32 *at = &s->bucket[h]; *at != NONE;) {
			struct entry *e = &s->entry[*at];
			__u64 window = now_ns / s->limit[e->limit].is.window_ns;
			__u32 i = *at;

			if (e->pending || e->window + 2 > window) {
				at = &e->next;
				continue;
			}
			*at = e->next;
			e->next = s->free;
			e->limit = WEIR_NO_LIMIT;
			s->free = i;
			s->status.followed--;
		}
	}
}

static void drop_pending(struct weir_fleet_sources *s, struct entry *e)
{
	if (!e->pending)
		return;
	e->pending = 0;
	s->status.untold++;
}

void weir_fleet_sources_saw(struct weir_fleet_sources *s, unsigned i,
			    const struct weir_prefix *source, __u64 window, __u64 count)
{
	struct entry *e;

	if (i >= s->n || window < s->limit[i].from)
		return;
	e = find(s, i, source);
	if (!e) {
		s->status.untold++;
		return;
	}
	if (window < e->window || (window == e->window && count <= e->count))
		return;
	if (!e->pending)
		e->since_ns = weir_fleet_clock_ns(s->f);
	e->pending += window == e->window ? count - e->count : count;
	e->window = window;
	e->count = count;
}

/* --- limits ---- */

struct weir_fleet_source_limit weir_fleet_source_limit_of(const struct weir_conf_limit *l,
							  __u64 pass_ns)
{
	struct weir_fleet_source_limit s = {
		.name = l->name,
		.least = l->bytes ? WEIR_FRAME_BYTES : 1,
		.window_ns = weir_fleet_window_ns(l, pass_ns),
		.pass_ns = pass_ns,
		.block_for_ns = l->block_for_ns,
		.monitor = l->mode == WEIR_MODE_MONITOR,
	};

	weir_fleet_rate(l, &s.amount, &s.per_ns, &s.burst);
	return s;
}

__u64 weir_fleet_sources_room_ns(const struct weir_fleet_source_limit *l)
{
	unsigned __int128 burst = (unsigned __int128)l->burst * l->per_ns / l->amount;

	return (__u64)burst + l->window_ns + 2 * l->pass_ns + WEIR_FLEET_LATE_NS;
}

__u64 weir_fleet_sources_above(const struct weir_fleet_sources *s, unsigned i)
{
	const struct weir_fleet_source_limit *l = &s->limit[i].is;
	__u64 above = (__u64)((unsigned __int128)l->amount * l->window_ns / l->per_ns /
			      (2 * (__u64)weir_fleet_live_agents(s->f)));

	return above > l->least ? above : l->least;
}

static bool same_limit(const struct weir_fleet_source_limit *a,
		       const struct weir_fleet_source_limit *b)
{
	return !strcmp(a->name, b->name) && a->window_ns == b->window_ns && a->least == b->least &&
	       a->amount == b->amount && a->per_ns == b->per_ns;
}

int weir_fleet_sources_set(struct weir_fleet_sources *s, const struct weir_fleet_source_limit *l,
			   size_t n)
{
	bool same = n == s->n;

	if (n > WEIR_LIMITS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++)
		if (!l[i].amount || !l[i].per_ns || !l[i].window_ns)
			return -EINVAL;
	for (size_t i = 0; i < n && same; i++)
		same = same_limit(&s->limit[i].is, &l[i]);
	for (size_t i = 0; i < n; i++) {
		(void)weir_str_copy(s->limit[i].name, sizeof(s->limit[i].name),
				    l[i].name); /* as long as a limit's name */
		s->limit[i].is = l[i];
		s->limit[i].is.name = s->limit[i].name;
		if (!same)
			s->limit[i].from = weir_fleet_clock_ns(s->f) / l[i].window_ns + 1;
	}
	s->n = n;
	if (same)
		return 0;
	forget_all(s);
	if (s->call)
		s->call->s = NULL; /* its numbers of limits are others now */
	s->call = NULL;
	return 0;
}

/* --- calls ---- */

static void say(struct weir_fleet_words *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void say(struct weir_fleet_words *w, const char *format, ...)
{
	char text[160];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (n > 0 && (size_t)n < sizeof(text))
		weir_fleet_word_copy(w, text, (size_t)n);
}

static void say_limit(struct weir_fleet_words *w, const struct weir_fleet_source_limit *l, __u64 n)
{
	double token_ms = (double)l->per_ns / 1e6 / (double)l->amount * TOLERANCE / (TOLERANCE + 1);
	__u64 room_ms = weir_fleet_sources_room_ns(l) / 1000000 + 1;

	say(w, "%.9g", token_ms);
	weir_fleet_word_u64(w, room_ms);
	weir_fleet_word_u64(w, room_ms + WEIR_FLEET_BLOCK_MAX_MS);
	weir_fleet_word_u64(w, n);
}

static void say_keys(const struct weir_fleet_sources *s, struct weir_fleet_words *w, unsigned i)
{
	const struct weir_fleet_source_limit *l = &s->limit[i].is;
	const char *list = s->f->key[0]; /* PREFIX{fleet}:1:list */
	const char *monitor = l->monitor ? ":monitor" : "";
	int base = (int)(strlen(list) - strlen("list"));

	say(w, "%.*sover:%s%s", base, list, l->name, monitor);
	say(w, "%.*sover:%s%s:told", base, list, l->name, monitor);
}

/* The next ones that are pending, round and round. Too old ones are dropped. */
static size_t pick(struct weir_fleet_sources *s, __u64 now_ns, struct entry **ret,
		   __u64 *ret_since_ns)
{
	size_t n = 0;

	*ret_since_ns = now_ns;
	for (__u32 k = 0; k < s->used && n < BATCH; k++) {
		struct entry *e = &s->entry[s->cursor = (s->cursor + 1) % s->used];

		if (e->limit == WEIR_NO_LIMIT || !e->pending)
			continue;
		if (now_ns - e->since_ns > WEIR_FLEET_LATE_NS) {
			drop_pending(s, e);
			continue;
		}
		if (e->since_ns < *ret_since_ns)
			*ret_since_ns = e->since_ns;
		ret[n++] = e;
	}
	return n;
}

static __u64 block_of(const struct weir_fleet_source_limit *l, __u64 debt_ms)
{
	__u64 ms = debt_ms < WEIR_FLEET_BLOCK_MAX_MS ? debt_ms : WEIR_FLEET_BLOCK_MAX_MS;

	if (ms < WEIR_FLEET_BLOCK_MIN_MS)
		ms = WEIR_FLEET_BLOCK_MIN_MS;
	return ms < l->block_for_ns / 1000000 ? l->block_for_ns / 1000000 : ms;
}

/* They come limit by limit. */
static void tell_over(struct weir_fleet_sources *s, const struct call *c,
		      const struct redisReply *r)
{
	struct weir_fleet_over over[BATCH];
	unsigned id = 0;
	size_t n = 0;

	for (size_t i = 1; i + 2 < r->elements; i += 3) {
		__u64 l = weir_fleet_reply_u64(r, i);
		size_t len = 0;
		const char *text = weir_fleet_reply_text(r, i + 1, &len);
		struct weir_prefix source;

		if (!l || l > WEIR_LIMITS_MAX || c->limit[l - 1] >= s->n || !text ||
		    weir_prefix_parse(text, len, false, &source) < 0)
			continue;
		if (n && (id != c->limit[l - 1] || n == BATCH)) {
			s->fn(s->arg, id, over, n);
			n = 0;
		}
		id = c->limit[l - 1];
		over[n++] =
			(struct weir_fleet_over){source, block_of(&s->limit[id].is,
								  weir_fleet_reply_u64(r, i + 2))};
		s->status.over++;
	}
	if (n)
		s->fn(s->arg, id, over, n);
}

/* That the store is away is the fleet's to say; what it has against these calls alone, once. */
static void take_failure(struct weir_fleet_sources *s, const struct redisReply *r)
{
	char buf[sizeof(s->why)];
	const char *why = "the reply makes no sense";

	s->status.failures++;
	if (!r)
		return;
	if (r->type == REDIS_REPLY_ERROR && !strncmp(r->str, "NOSCRIPT", 8)) {
		s->sha[0] = '\0';
		return;
	}
	if (r->type == REDIS_REPLY_ERROR)
		why = weir_redis_error_words(r, script, buf, sizeof(buf));
	if (!s->why[0])
		weir_log(WEIR_LOG_WARNING, "fleet-limits-away", "why", "s", why, NULL);
	(void)weir_str_copy(s->why, sizeof(s->why), why); /* cut if long */
}

static void take_success(struct weir_fleet_sources *s)
{
	if (s->why[0])
		weir_log(WEIR_LOG_NOTICE, "fleet-limits-back", NULL);
	s->why[0] = '\0';
}

static void on_reply(void *arg, const struct redisReply *r, const char *cause)
{
	struct call *c = arg;
	struct weir_fleet_sources *s = c->s;
	const char *what = weir_fleet_reply_text(r, 0, NULL);
	bool loaded = c->loads && r && r->type == REDIS_REPLY_STRING && r->len == 40;

	(void)cause; /* the fleet's own calls say why the store is away */
	if (!s) {
		free(c);
		return;
	}
	s->call = NULL;
	if (loaded)
		memcpy(s->sha, r->str, sizeof(s->sha));
	else if (what && !c->loads && strcmp(what, "ok") == 0)
		tell_over(s, c, r);
	else if (what && !c->loads)
		s->status.late++;
	else
		take_failure(s, r);
	if (what && !c->loads)
		take_success(s);
	free(c);
	if (what || loaded)
		weir_fleet_sources_flush(s); /* what there was no room for */
}

/* Takes @w apart, and @c. */
static void ask(struct weir_fleet_sources *s, struct call *c, struct weir_fleet_words *w)
{
	c->s = s;
	if (weir_redis_ask(s->f->store, s->f->key[0], (unsigned)w->n, w->at, w->bytes, CALL_NS,
			   on_reply, c) < 0) {
		s->status.failures++;
		free(c);
	} else {
		s->call = c;
	}
	weir_fleet_words_done(w);
}

static void load(struct weir_fleet_sources *s)
{
	struct call *c = calloc(1, sizeof(*c));
	struct weir_fleet_words w = {};

	if (!c)
		return; /* with the next pass */
	c->loads = true;
	weir_fleet_word(&w, "SCRIPT");
	weir_fleet_word(&w, "LOAD");
	weir_fleet_word(&w, script);
	ask(s, c, &w);
}

static void tell(struct weir_fleet_sources *s, struct entry **e, size_t n, __u64 since_ns)
{
	__u64 now_ns = weir_fleet_clock_ns(s->f), now_ms = weir_fleet_now_ms(s->f);
	__u64 of[WEIR_LIMITS_MAX] = {};
	struct call *c = calloc(1, sizeof(*c));
	struct weir_fleet_words w = {};
	size_t n_limits = 0;
	char text[WEIR_PREFIX_STRLEN];

	if (!c)
		return; /* they get too old */
	for (size_t i = 0; i < n; i++)
		of[e[i]->limit]++;
	for (unsigned i = 0; i < s->n; i++)
		if (of[i])
			c->limit[n_limits++] = (__u8)i;
	weir_fleet_word(&w, "EVALSHA");
	weir_fleet_word(&w, s->sha);
	weir_fleet_word_u64(&w, 2 * n_limits);
	for (size_t i = 0; i < n_limits; i++)
		say_keys(s, &w, c->limit[i]);
	weir_fleet_word_u64(&w, now_ms - (now_ns - since_ns) / 1000000);
	weir_fleet_word_u64(&w, WEIR_FLEET_LATE_NS / 1000000);
	for (size_t i = 0; i < n_limits; i++) {
		say_limit(&w, &s->limit[c->limit[i]].is, of[c->limit[i]]);
		for (size_t k = 0; k < n; k++) {
			if (e[k]->limit != c->limit[i])
				continue;
			say(&w, "%s", weir_prefix_format(&e[k]->source, text));
			weir_fleet_word_u64(&w, e[k]->pending);
		}
	}
	for (size_t i = 0; i < n; i++)
		e[i]->pending = 0; /* never told twice: a lost reply is a count that is lost */
	s->status.calls++;
	s->status.told += n;
	ask(s, c, &w);
}

void weir_fleet_sources_flush(struct weir_fleet_sources *s)
{
	__u64 now_ns = weir_fleet_clock_ns(s->f), since_ns;
	struct entry *e[BATCH];
	size_t n;

	forget_quiet(s, now_ns);
	if (s->call)
		return; /* the rest after its reply */
	if (s->f->state == WEIR_FLEET_AWAY || !s->f->clock_heard) {
		for (__u32 i = 0; i < s->used; i++)
			if (s->entry[i].limit != WEIR_NO_LIMIT)
				drop_pending(s, &s->entry[i]);
		return;
	}
	if (!s->sha[0]) {
		load(s);
		return;
	}
	n = pick(s, now_ns, e, &since_ns);
	if (n)
		tell(s, e, n, since_ns);
}

/* --- itself ---- */

int weir_fleet_sources_new(struct weir_fleet *f, weir_fleet_over_fn *fn, void *arg,
			   struct weir_fleet_sources **ret)
{
	_cleanup_(weir_fleet_sources_freep) struct weir_fleet_sources *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->entry = calloc(WEIR_FLEET_SOURCES_MAX, sizeof(*s->entry));
	if (!s->entry)
		return -ENOMEM;
	s->f = f;
	s->fn = fn;
	s->arg = arg;
	randombytes_buf(s->hash_key, sizeof(s->hash_key));
	forget_all(s);
	*ret = TAKE_PTR(s);
	return 0;
}

void weir_fleet_sources_free(struct weir_fleet_sources *s)
{
	if (!s)
		return;
	if (s->call)
		s->call->s = NULL;
	free(s->entry);
	free(s);
}

void weir_fleet_sources_status(const struct weir_fleet_sources *s,
			       struct weir_fleet_sources_status *ret)
{
	*ret = s->status;
}

const char *weir_fleet_sources_why(const struct weir_fleet_sources *s)
{
	return s->why[0] ? s->why : NULL;
}
