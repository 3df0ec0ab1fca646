/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The object that all threads share: rules in force, stores, mode. Called by the agent from its main thread. */
#include <sodium.h>
#include <string.h>
#include <time.h>

#include "user/l7/engine_int.h"

#define SWEEP 16384 /* states that are looked at each second */

static __u64 wall_clock(void *arg)
{
	struct timespec t;

	(void)arg;
	if (clock_gettime(CLOCK_REALTIME, &t) < 0)
		return 0;
	return (__u64)t.tv_sec * 1000000 + (__u64)t.tv_nsec / NS_PER_US;
}

static int embedded(const struct weir_l7 *l7, struct weir_store **ret, struct weir_error *e)
{
	const struct weir_store_embedded_options o = {.entries_max = l7->keys,
						      .bytes_max = l7->bytes};
	int r = weir_store_embedded_new(&o, ret);

	return r < 0 ? weir_error_set(e, r,
				      "no store for %llu keys in %llu bytes (memory.request_keys, "
				      "memory.request_bytes): %s",
				      l7->keys, l7->bytes, strerror(-r))
		     : 0;
}

static int make_rules(struct weir_l7 *l7, const struct weir_conf *conf, struct weir_rules **ret,
		      struct weir_error *e)
{
	const struct weir_rules_options o = {.now_us = weir_l7_now_us(l7),
					     .secret = l7->secret,
					     .salt = weir_l7_salt_of,
					     .arg = l7};
	_cleanup_(weir_rules_unrefp) struct weir_rules *rules = NULL;
	int r = weir_rules_new(conf, &o, &rules, e);

	if (r < 0)
		return r;
	r = weir_offences_prepare(&l7->offences, rules);
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	*ret = TAKE_PTR(rules);
	return 0;
}

void weir_l7_put_in_force(struct weir_l7 *l7, struct weir_rules *rules)
{
	struct weir_rules *old;

	pthread_mutex_lock(&l7->lock);
	weir_l7_assign_slots(l7, rules);
	old = l7->rules;
	l7->rules = rules;
	weir_hot_forget(&l7->hot); /* before any worker lets the former ones go */
	__atomic_store_n(&l7->generation, l7->generation + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&l7->lock);
	if (old)
		weir_rules_unref(old);
}

static int fill(struct weir_l7 *l7, const struct weir_conf *conf,
		const struct weir_l7_options *options, struct weir_error *e)
{
	struct weir_rules *rules;
	int r;

	l7->clock = options && options->clock ? options->clock : wall_clock;
	l7->clock_arg = options ? options->clock_arg : NULL;
	l7->mode = conf->mode;
	l7->keys = conf->request.keys;
	l7->bytes = conf->request.bytes;
	l7->agents = 1;
	l7->away.version = 1;
	l7->secret_known = options && options->secret;
	if (l7->secret_known)
		memcpy(l7->secret, options->secret, sizeof(l7->secret));
	else
		randombytes_buf(l7->secret, sizeof(l7->secret));
	l7->former = calloc(1, sizeof(*l7->former));
	if (!l7->former || weir_l7_events_init(&l7->events) < 0 ||
	    weir_offences_init(&l7->offences) < 0)
		return weir_error_set(e, -ENOMEM, "out of memory or of file descriptors");
	r = embedded(l7, l7->store || l7->shared ? &l7->local : &l7->store, e);
	if (r >= 0)
		r = make_rules(l7, conf, &rules, e);
	if (r >= 0)
		weir_l7_put_in_force(l7, rules);
	return r;
}

int weir_l7_new(const struct weir_conf *conf, const struct weir_l7_options *options,
		struct weir_l7 **ret, struct weir_error *e)
{
	struct weir_l7 *l7 = aligned_alloc(WEIR_L7_LINE, sizeof(*l7));
	int r;

	if (!l7) {
		weir_store_free(options ? options->store : NULL);
		return weir_error_set(e, -ENOMEM, "out of memory");
	}
	memset(l7, 0, sizeof(*l7));
	l7->events.fd = -1;
	if (options) {
		l7->store = options->store;
		l7->shared = options->store_of;
		l7->store_of = options->store_of;
		l7->store_arg = options->store_arg;
	}
	r = -pthread_mutex_init(&l7->lock, NULL);
	if (r < 0)
		(void)weir_error_set(e, r, "no lock: %s", strerror(-r));
	else if (sodium_init() < 0)
		r = weir_error_set(e, -EIO, "libsodium does not start");
	else
		r = fill(l7, conf, options, e);
	if (r < 0) {
		weir_l7_free(l7);
		return r;
	}
	*ret = l7;
	return 0;
}

void weir_l7_free(struct weir_l7 *l7)
{
	if (!l7)
		return;
	weir_store_free(l7->store); /* it answers what it still has */
	weir_store_free(l7->local);
	weir_rules_unref(l7->rules);
	weir_offences_done(&l7->offences);
	weir_l7_events_done(&l7->events);
	pthread_mutex_destroy(&l7->lock);
	sodium_memzero(l7->secret, sizeof(l7->secret));
	free(l7->former);
	free(l7);
}

int weir_l7_configure(struct weir_l7 *l7, const struct weir_conf *conf, char **ret_note,
		      struct weir_error *e)
{
	struct weir_rules *rules;
	char *note = NULL;
	int r = make_rules(l7, conf, &rules, e);

	if (r < 0)
		return r;
	if ((conf->request.keys != l7->keys || conf->request.bytes != l7->bytes) &&
	    asprintf(&note,
		     "memory.request_keys and memory.request_bytes stay %llu and %llu until the "
		     "next start",
		     l7->keys, l7->bytes) < 0)
		note = NULL;
	weir_l7_put_in_force(l7, rules);
	*ret_note = note;
	return 0;
}

int weir_l7_set_secret(struct weir_l7 *l7, const unsigned char *secret, struct weir_error *e)
{
	const struct weir_rules_options o = {.secret = secret, .salt = weir_l7_salt_of, .arg = l7};
	struct weir_rules *rules;
	int r;

	if (l7->secret_known && sodium_memcmp(l7->secret, secret, sizeof(l7->secret)) == 0)
		return 0;
	r = weir_rules_salted(l7->rules, &o, &rules);
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	memcpy(l7->secret, secret, sizeof(l7->secret));
	weir_l7_put_in_force(l7, rules);
	__atomic_store_n(&l7->secret_known, true, __ATOMIC_RELEASE);
	return 0;
}

void weir_l7_set_agents(struct weir_l7 *l7, unsigned n)
{
	n = n ? n : 1;
	if (__atomic_exchange_n(&l7->agents, n, __ATOMIC_RELAXED) != n)
		(void)__atomic_add_fetch(&l7->away.version, 1, __ATOMIC_RELEASE);
}

void weir_l7_set_mode(struct weir_l7 *l7, enum weir_mode mode)
{
	__atomic_store_n(&l7->mode, mode, __ATOMIC_RELAXED);
}

bool weir_l7_has_limit(struct weir_l7 *l7, const char *name)
{
	bool has;

	pthread_mutex_lock(&l7->lock);
	has = weir_rules_find(l7->rules, name);
	pthread_mutex_unlock(&l7->lock);
	return has;
}

/* Loops that nobody else turns: of the main thread's workers, so that their connections live. */
static void turn_own_loops(struct weir_l7 *l7)
{
	struct weir_l7_worker *w;

	pthread_mutex_lock(&l7->lock);
	for (w = l7->workers; w && !w->own_base; w = w->next)
		;
	pthread_mutex_unlock(&l7->lock);
	for (; w; w = w->next) /* made and freed by this thread */
		if (w->own_base)
			(void)event_base_loop(w->own_base, EVLOOP_NONBLOCK);
}

void weir_l7_sweep(struct weir_l7 *l7)
{
	__u64 now_us = weir_l7_now_us(l7);

	if (l7->store)
		l7->store->ops->sweep(l7->store, now_us, SWEEP);
	if (l7->local)
		l7->local->ops->sweep(l7->local, now_us, SWEEP);
	turn_own_loops(l7);
	l7->offences.store->ops->sweep(l7->offences.store, now_us, SWEEP);
	if (l7->offences.suspects)
		weir_suspects_sweep(l7->offences.suspects, now_us);
}

bool weir_l7_wants_suspects(struct weir_l7 *l7, const char *packet_limit)
{
	bool wants = false;

	pthread_mutex_lock(&l7->lock);
	for (size_t i = 0; l7->rules->has_suspicion && i < l7->rules->n_packet_limit; i++)
		wants |= strcmp(l7->rules->packet_limit[i], packet_limit) == 0;
	pthread_mutex_unlock(&l7->lock);
	return wants;
}

void weir_l7_suspect(struct weir_l7 *l7, const struct weir_prefix *source)
{
	__u64 lasts_us = 0;

	pthread_mutex_lock(&l7->lock);
	if (l7->rules->has_suspicion)
		lasts_us = l7->rules->suspicious_us;
	pthread_mutex_unlock(&l7->lock);
	if (lasts_us)
		weir_suspects_add(l7->offences.suspects, source, weir_l7_now_us(l7) + lasts_us);
}
