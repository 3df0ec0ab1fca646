/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who is there, the secret that all of them hash keys with, and the limits that one of them has published. Called by
 * fleet.c.
 */
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <sodium.h>
#include <string.h>

#include "user/base/log.h"
#include "user/base/str.h"
#include "user/fleet/fleet_int.h"

#define NO_SECRET_NS                                                                               \
	2000000000ull /* a store that has just lost the secret is told it by those who know it */
#define KEY_UNUSED_NS 5000000000ull /* nobody has the fleet's old secret: this one is the new one */
#define BEAT_MAX      2048

/* --- agents ---------------------------------------------------------------------------------------------------------- */

static void make_id(char id[static WEIR_FLEET_ID_HEX + 1])
{
	__u8 random[WEIR_FLEET_ID_HEX / 2];

	randombytes_buf(random, sizeof(random));
	(void)sodium_bin2hex(id, WEIR_FLEET_ID_HEX + 1, random, sizeof(random)); /* it fits */
}

void weir_fleet_name_anew(struct weir_fleet *f)
{
	make_id(f->agent);
	weir_fleet_disk_set(f->disk, "agent", f->agent);
}

char *weir_fleet_beat_text(struct weir_fleet *f)
{
	struct weir_fleet_self self = {};
	json_t *o;
	char *text;

	f->ops->describe(f->arg, &self);
	o = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:b, s:b}", "host",
		      f->host, "instance", f->instance, "boot", f->boot, "version", WEIR_VERSION,
		      "generation", (json_int_t)self.generation, "limits", (json_int_t)self.limits,
		      "config", self.digest, "key", f->fingerprint, "behind",
		      (json_int_t)(f->lists && f->reply.n > f->n ? f->reply.n - f->n : 0),
		      "waiting", (json_int_t)f->r.n_ops, "from_store", self.limits_from_store,
		      "limits_failed", self.limits_failed);
	text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	return text;
}

static void copy_text(const json_t *o, const char *key, char *to, size_t size)
{
	const char *text = json_string_value(json_object_get(o, key));

	weir_fleet_clean(text, to, size);
}

static __u64 number_of(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? (__u64)n : 0;
}

/* "SEEN_MS {…}" */
static bool read_agent(const struct weir_fleet *f, const char *id, const char *value, size_t n,
		       struct weir_fleet_agent *ret)
{
	const char *blank = memchr(value, ' ', n < 24 ? n : 24);
	struct weir_fleet_agent a = {};
	__u64 now_ms = weir_fleet_now_ms(f);
	char seen[24];
	json_t *o;

	if (!blank || n > BEAT_MAX || strlen(id) >= sizeof(a.id))
		return false;
	(void)snprintf(seen, sizeof(seen), "%.*s", (int)(blank - value), value); /* it fits */
	o = json_loadb(blank + 1, n - (size_t)(blank + 1 - value), 0, NULL);
	if (!o || weir_str_u64(seen, 1ull << 50, &a.seen_ms) < 0) {
		json_decref(o);
		return false;
	}
	(void)weir_str_copy(a.id, sizeof(a.id), id); /* it fits */
	copy_text(o, "host", a.host, sizeof(a.host));
	copy_text(o, "instance", a.instance, sizeof(a.instance));
	copy_text(o, "version", a.version, sizeof(a.version));
	copy_text(o, "key", a.fingerprint, sizeof(a.fingerprint));
	copy_text(o, "config", a.digest, sizeof(a.digest));
	a.generation = number_of(o, "generation");
	a.limits = number_of(o, "limits");
	a.behind = number_of(o, "behind");
	a.waiting = number_of(o, "waiting");
	a.limits_from_store = json_is_true(json_object_get(o, "from_store"));
	a.limits_failed = json_is_true(json_object_get(o, "limits_failed"));
	json_decref(o);
	a.age_ms = now_ms > a.seen_ms ? now_ms - a.seen_ms : 0;
	a.live = a.age_ms <= WEIR_FLEET_LIVE_MS;
	a.self = !strcmp(a.id, f->agent);
	*ret = a;
	return true;
}

static int by_host(const void *a, const void *b)
{
	const struct weir_fleet_agent *x = a, *y = b;
	int r = strcmp(x->host, y->host);

	return r ? r : strcmp(x->id, y->id);
}

void weir_fleet_take_agents(struct weir_fleet *f, const struct redisReply *all)
{
	size_t room = all->elements / 2;
	struct weir_fleet_agent *list;

	if (room > WEIR_FLEET_AGENTS_MAX)
		room = WEIR_FLEET_AGENTS_MAX;
	list = calloc(room + 1, sizeof(*list));
	if (!list)
		return; /* those of a second ago stay */
	free(f->agents);
	f->agents = list;
	f->n_agents = 0;
	f->live = 0;
	for (size_t i = 0; i + 1 < all->elements && f->n_agents < room; i += 2) {
		size_t n = 0;
		const char *id = weir_fleet_reply_text(all, i, NULL),
			   *value = weir_fleet_reply_text(all, i + 1, &n);

		if (id && value && read_agent(f, id, value, n, &list[f->n_agents]))
			f->live += list[f->n_agents++].live;
	}
	qsort(list, f->n_agents, sizeof(*list), by_host);
}

/* Whoever says something else under this name than what was said here the last time is a copy of this host. */
void weir_fleet_take_self(struct weir_fleet *f, const char *before)
{
	const char *words = before ? strchr(before, ' ') : NULL;
	json_t *o = words ? json_loads(words + 1, 0, NULL) : NULL;
	const char *boot = json_string_value(json_object_get(o, "boot"));
	bool twin = f->has_beaten && boot && strcmp(boot, f->boot) != 0;

	json_decref(o);
	f->has_beaten = !twin;
	f->former[0] = '\0'; /* the store has heard of it */
	if (!twin)
		return;
	(void)weir_str_copy(f->former, sizeof(f->former), f->agent); /* it fits */
	weir_fleet_disk_begin(f->disk);
	weir_fleet_name_anew(f);
	(void)weir_fleet_disk_end(f->disk); /* found out again after a restart */
	weir_log(WEIR_LOG_WARNING, "fleet-copy", "why", "s",
		 "another agent has this one's name in the fleet (a copied state_dir?): it takes a "
		 "new one",
		 NULL);
}

unsigned weir_fleet_live_agents(const struct weir_fleet *f)
{
	return f->live ? f->live : 1;
}

size_t weir_fleet_agents(const struct weir_fleet *f, struct weir_fleet_agent *ret, size_t max)
{
	__u64 now_ms = weir_fleet_now_ms(f);

	for (size_t i = 0; i < f->n_agents && i < max; i++) {
		ret[i] = f->agents[i];
		ret[i].age_ms = now_ms > ret[i].seen_ms ? now_ms - ret[i].seen_ms : 0;
	}
	return f->n_agents;
}

/* --- secret --------------------------------------------------------------------------------------------------------- */

static void set_fingerprint(struct weir_fleet *f)
{
	static const char what[] = "weir key fingerprint";
	__u8 hash[crypto_generichash_BYTES_MIN];

	/* fails only for lengths that are none */
	(void)crypto_generichash(hash, sizeof(hash), (const __u8 *)what, sizeof(what) - 1,
				 f->secret, sizeof(f->secret));
	(void)sodium_bin2hex(f->fingerprint, sizeof(f->fingerprint), hash, 8);
}

static bool read_secret(const char *hex, __u8 ret[WEIR_FLEET_SECRET_BYTES])
{
	size_t n = 0;

	return strlen(hex) == 2 * WEIR_FLEET_SECRET_BYTES &&
	       sodium_hex2bin(ret, WEIR_FLEET_SECRET_BYTES, hex, strlen(hex), NULL, &n, NULL) ==
		       0 &&
	       n == WEIR_FLEET_SECRET_BYTES;
}

static void adopt_secret(struct weir_fleet *f, const __u8 secret[WEIR_FLEET_SECRET_BYTES])
{
	char hex[2 * WEIR_FLEET_SECRET_BYTES + 1];
	int r = f->ops->secret(f->arg, secret);

	f->secret_refused = r < 0;
	if (r < 0)
		return;
	memcpy(f->secret, secret, sizeof(f->secret));
	f->has_secret = true;
	set_fingerprint(f);
	(void)sodium_bin2hex(hex, sizeof(hex), secret, WEIR_FLEET_SECRET_BYTES);
	weir_fleet_disk_begin(f->disk);
	weir_fleet_disk_set(f->disk, "secret", hex);
	(void)weir_fleet_disk_end(f->disk); /* asked for again after a restart */
	sodium_memzero(hex, sizeof(hex));
}

int weir_fleet_agents_init(struct weir_fleet *f, const __u8 *secret)
{
	char hex[2 * WEIR_FLEET_SECRET_BYTES + 2];

	f->live = 1;
	make_id(f->boot);
	weir_fleet_disk_get(f->disk, "secret", hex, sizeof(hex));
	if (secret)
		memcpy(f->secret, secret, sizeof(f->secret));
	f->secret_of_file = secret != NULL;
	f->has_secret = secret || read_secret(hex, f->secret);
	sodium_memzero(hex, sizeof(hex));
	if (f->has_secret)
		set_fingerprint(f);
	return 0;
}

void weir_fleet_agents_done(struct weir_fleet *f)
{
	if (f->publish.fn)
		f->publish.fn(f->publish.arg, -ECANCELED, 0, "the agent ends");
	weir_fleet_answer_asked(f, -ECANCELED, "the agent ends");
	free(f->publish.text);
	free(f->limits_text);
	free(f->agents);
	sodium_memzero(f->secret, sizeof(f->secret));
}

bool weir_fleet_secret(const struct weir_fleet *f, __u8 ret[WEIR_FLEET_SECRET_BYTES])
{
	if (f->has_secret)
		memcpy(ret, f->secret, WEIR_FLEET_SECRET_BYTES);
	return f->has_secret;
}

/* Is anybody alive with the fingerprint that the store has, or with one that is not known? */
static bool is_used(const struct weir_fleet *f, const char *fingerprint)
{
	for (size_t i = 0; i < f->n_agents; i++)
		if (f->agents[i].live && !f->agents[i].self &&
		    (!f->agents[i].fingerprint[0] ||
		     !strcmp(f->agents[i].fingerprint, fingerprint)))
			return true;
	return false;
}

static void judge(struct weir_fleet *f)
{
	__u64 now_ns = weir_fleet_clock_ns(f);

	f->unready[0] = '\0';
	f->replace_key = false;
	if (!f->has_secret && f->secret_refused)
		(void)snprintf(f->unready, sizeof(f->unready),
			       "the fleet's key secret cannot be used by this agent");
	else if (f->has_secret && f->fleet_fingerprint[0] &&
		 strcmp(f->fleet_fingerprint, f->fingerprint) != 0) {
		if (is_used(f, f->fleet_fingerprint) || !f->key_unused_ns)
			f->key_unused_ns = now_ns;
		f->replace_key = now_ns - f->key_unused_ns >= KEY_UNUSED_NS;
		f->want_secret = f->want_secret || f->replace_key;
		if (!f->replace_key)
			(void)snprintf(
				f->unready, sizeof(f->unready),
				"its key secret (%s) is not the fleet's (%s): %s", f->fingerprint,
				f->fleet_fingerprint,
				f->secret_of_file
					? "store.key_secret_file has to be the same on every host"
					: "other hosts use store.key_secret_file, this one too "
					  "must");
	}
}

void weir_fleet_take_secret(struct weir_fleet *f, const char *secret, const char *key)
{
	__u64 now_ns = weir_fleet_clock_ns(f);
	__u8 theirs[WEIR_FLEET_SECRET_BYTES];
	bool has = secret && read_secret(secret, theirs);

	weir_fleet_clean(key, f->fleet_fingerprint, sizeof(f->fleet_fingerprint));
	f->want_secret = f->new_secret = false;
	if (has)
		f->no_secret_ns = 0;
	else if (!f->no_secret_ns)
		f->no_secret_ns = now_ns;
	if (!f->secret_of_file && has &&
	    (!f->has_secret || memcmp(theirs, f->secret, sizeof(theirs)) != 0))
		adopt_secret(f, theirs);
	sodium_memzero(theirs, sizeof(theirs));
	if (!f->secret_of_file && !has) {
		f->new_secret = !f->has_secret && now_ns - f->no_secret_ns >= NO_SECRET_NS &&
				!f->fleet_fingerprint[0];
		f->want_secret = f->has_secret || f->new_secret;
	}
	if (f->has_secret && !f->fleet_fingerprint[0])
		f->want_secret = true;
	judge(f);
	if (!f->has_secret && !has && f->fleet_fingerprint[0])
		(void)snprintf(f->unready, sizeof(f->unready),
			       "the fleet's key secret (%s) is not in the store: other hosts have "
			       "it in store.key_secret_file, this one too must",
			       f->fleet_fingerprint);
}

const char *weir_fleet_unready(const struct weir_fleet *f)
{
	return f->unready[0] ? f->unready : NULL;
}

/* Once: whoever comes first makes it. */
static void ask_secret(struct weir_fleet *f)
{
	char hex[2 * WEIR_FLEET_SECRET_BYTES + 1] = "";
	struct weir_fleet_words w;

	if (f->new_secret) {
		__u8 fresh[WEIR_FLEET_SECRET_BYTES];

		randombytes_buf(fresh, sizeof(fresh));
		memcpy(f->secret, fresh,
		       sizeof(fresh)); /* for its fingerprint; adopted with the reply */
		set_fingerprint(f);
		(void)sodium_bin2hex(hex, sizeof(hex), fresh, sizeof(fresh));
		sodium_memzero(fresh, sizeof(fresh));
	} else if (!f->secret_of_file) {
		(void)sodium_bin2hex(hex, sizeof(hex), f->secret, sizeof(f->secret));
	}
	weir_fleet_words_begin(f, &w, "secret");
	weir_fleet_word_copy(&w, hex, strlen(hex));
	weir_fleet_word_copy(&w, f->fingerprint, strlen(f->fingerprint));
	weir_fleet_word(&w, f->replace_key ? "replace" : "");
	sodium_memzero(hex, sizeof(hex));
	f->want_secret = f->new_secret = f->replace_key = false;
	weir_fleet_call(f, WEIR_FLEET_SECRET, &w);
}

/* --- limits --------------------------------------------------------------------------------------------------------- */

void weir_fleet_limits(const struct weir_fleet *f, struct weir_fleet_limits *ret)
{
	*ret = f->limits;
}

static int keep_limits(struct weir_fleet *f, const struct weir_fleet_limits *l)
{
	char *text = strdup(l->text ? l->text : "");

	if (!text)
		return -ENOMEM;
	free(f->limits_text);
	f->limits_text = text;
	weir_fleet_clean(l->host, f->limits_host, sizeof(f->limits_host));
	weir_fleet_clean(l->who, f->limits_who, sizeof(f->limits_who));
	f->limits = (struct weir_fleet_limits){.generation = l->generation,
					       .text = text,
					       .host = f->limits_host,
					       .who = f->limits_who,
					       .at_ms = l->at_ms};
	return 0;
}

int weir_fleet_remember_limits(struct weir_fleet *f, const struct weir_fleet_limits *l)
{
	return keep_limits(f, l);
}

/* Each reply says it. A store that has lost them is told the last ones. */
void weir_fleet_take_generation(struct weir_fleet *f, __u64 generation)
{
	if (generation == f->limits.generation) {
		f->want_limits = false;
	} else if (generation) {
		f->want_limits = generation != f->limits_wrong;
	} else if (!f->publish.wanted && f->limits.text) {
		f->publish.wanted = f->publish.silent = true;
		f->publish.after = 0;
		f->publish.generation = f->limits.generation;
		f->publish.text = strdup(f->limits.text);
		f->publish.wanted = f->publish.text != NULL;
		(void)weir_str_copy(f->publish.who, sizeof(f->publish.who), f->limits.who);
	}
}

int weir_fleet_ask_limits(struct weir_fleet *f, weir_fleet_asked_fn *fn, void *arg,
			  struct weir_error *e)
{
	if (f->asked.fn)
		return weir_error_set(e, -EBUSY, "limits are being pulled already");
	if (f->state == WEIR_FLEET_AWAY)
		return weir_error_set(e, -EHOSTDOWN, "the store is away (%s)", f->why);
	f->asked.fn = fn;
	f->asked.arg = arg;
	f->asked.sent = false;
	weir_fleet_run_soon(f);
	return 0;
}

void weir_fleet_answer_asked(struct weir_fleet *f, int r, const char *why)
{
	weir_fleet_asked_fn *fn = f->asked.fn;

	f->asked.fn = NULL;
	if (fn)
		fn(f->asked.arg, r, why);
}

/* Returns what is wrong with them, or NULL. */
static const char *take_limits(struct weir_fleet *f, const struct redisReply *rest)
{
	const char *wrong = NULL;
	size_t n = 0;
	struct weir_fleet_limits l = {
		.generation = weir_fleet_reply_u64(rest, 0),
		.text = weir_fleet_reply_text(rest, 1, &n),
		.host = weir_fleet_reply_text(rest, 2, NULL),
		.who = weir_fleet_reply_text(rest, 3, NULL),
		.at_ms = weir_fleet_reply_u64(rest, 4),
	};

	f->want_limits = false;
	f->limits_wrong = l.generation;
	if (!l.generation || !l.text)
		return NULL;
	if (n > WEIR_FLEET_LIMITS_MAX)
		wrong = "more than 1 MiB of limits";
	else if (strlen(l.text) != n) /* cut there, it would be limits that nobody published */
		wrong = "limits with a NUL byte in them";
	if (wrong)
		weir_log(WEIR_LOG_ERROR, "limits-failed", "generation", "u",
			 (unsigned long long)l.generation, "host", "s", l.host, "why", "s", wrong,
			 NULL);
	if (wrong)
		return wrong;
	if (keep_limits(f, &l) < 0)
		return "out of memory";
	f->limits_wrong = 0;
	f->ops->limits(f->arg, &f->limits);
	return NULL;
}

void weir_fleet_take_limits(struct weir_fleet *f, const struct redisReply *rest)
{
	const char *wrong = take_limits(f, rest);

	if (f->asked.sent) /* else it was under way before somebody asked */
		weir_fleet_answer_asked(f, wrong ? -EPROTO : 0, wrong);
}

int weir_fleet_publish(struct weir_fleet *f, const char *text, const char *who,
		       weir_fleet_published_fn *fn, void *arg, struct weir_error *e)
{
	if (f->publish.wanted)
		return weir_error_set(e, -EBUSY, "limits are being published already");
	if (f->state == WEIR_FLEET_AWAY)
		return weir_error_set(e, -EHOSTDOWN,
				      "the store is away (%s): nothing was published", f->why);
	if (strlen(text) > WEIR_FLEET_LIMITS_MAX)
		return weir_error_set(e, -E2BIG, "more than 1 MiB of limits");
	f->publish.text = strdup(text);
	if (!f->publish.text)
		return weir_error_set(e, -ENOMEM, "out of memory");
	f->publish.wanted = true;
	f->publish.silent = false;
	f->publish.after = f->limits.generation;
	f->publish.generation = f->limits.generation + 1;
	weir_fleet_clean(who, f->publish.who, sizeof(f->publish.who));
	f->publish.fn = fn;
	f->publish.arg = arg;
	weir_fleet_run_soon(f);
	return 0;
}

void weir_fleet_take_published(struct weir_fleet *f, int r, const struct redisReply *rest,
			       const char *why)
{
	weir_fleet_published_fn *fn = f->publish.fn;
	__u64 generation = rest ? weir_fleet_reply_u64(rest, 0) : 0;
	char text[200];

	if (r == -ESTALE)
		(void)snprintf(text, sizeof(text),
			       "generation %llu was published by %.64s meanwhile (weir limit diff "
			       "shows it); push again to replace it",
			       (unsigned long long)generation,
			       rest && weir_fleet_reply_text(rest, 1, NULL)
				       ? weir_fleet_reply_text(rest, 1, NULL)
				       : "another host");
	else
		(void)weir_str_copy(text, sizeof(text), r < 0 ? why : "");
	if (r == 0 && !f->publish.silent && generation) {
		/* in force, or there to be pulled, once it is said to be published */
		struct weir_fleet_limits own = {.generation = generation,
						.text = f->publish.text,
						.host = f->host,
						.who = f->publish.who,
						.at_ms = weir_fleet_now_ms(f)};

		if (keep_limits(f, &own) == 0) { /* no memory: read in a moment */
			f->want_limits = false;
			f->ops->limits(f->arg, &f->limits);
		}
	}
	free(TAKE_PTR(f->publish.text));
	f->publish.wanted = false;
	f->publish.fn = NULL;
	if (fn)
		fn(f->publish.arg, r, generation, text);
}

static void publish(struct weir_fleet *f)
{
	struct weir_fleet_words w;

	weir_fleet_words_begin(f, &w, "publish");
	weir_fleet_word_u64(&w, f->publish.after);
	weir_fleet_word_u64(&w, f->publish.generation);
	weir_fleet_word_copy(&w, f->publish.text, strlen(f->publish.text));
	weir_fleet_word(&w, f->publish.silent ? f->limits.host : f->host);
	weir_fleet_word(&w, f->publish.who);
	weir_fleet_call(f, WEIR_FLEET_PUBLISH, &w);
}

bool weir_fleet_ask_more(struct weir_fleet *f)
{
	if (f->want_secret) {
		ask_secret(f);
	} else if (f->publish.wanted) {
		publish(f);
	} else if (f->want_limits || f->asked.fn) {
		struct weir_fleet_words w;

		f->asked.sent = true;
		weir_fleet_words_begin(f, &w, "limits");
		weir_fleet_call(f, WEIR_FLEET_LIMITS, &w);
	} else {
		return false;
	}
	return true;
}
