/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts of refusals by client address; see offence.h. They live in an embedded store of their own, whatever store the
 * limits have: what an address did to this host is this host's to judge.
 */
#include "user/l7/offence.h"

#include <sodium.h>
#include <string.h>

#define ENTRIES 65536
#define BYTES	(48ull << 20) /* states, and logs of refusals */

_Static_assert(WEIR_OFFENCE_KEY_BYTES == crypto_shorthash_siphashx24_KEYBYTES, "SipHash's key");
_Static_assert(WEIR_STORE_KEY_BYTES == crypto_shorthash_siphashx24_BYTES, "a store's key");

struct weir_prefix weir_offence_client(const struct weir_prefix *addr)
{
	return weir_client_prefix(addr, 32, 64);
}

int weir_offences_init(struct weir_offences *o)
{
	const struct weir_store_embedded_options options = {.entries_max = ENTRIES,
							    .bytes_max = BYTES};

	*o = (struct weir_offences){.store = NULL};
	randombytes_buf(o->key, sizeof(o->key));
	return weir_store_embedded_new(&options, &o->store);
}

void weir_offences_done(struct weir_offences *o)
{
	weir_store_free(o->store);
	weir_suspects_free(o->suspects);
	weir_identities_free(o->identities);
}

int weir_offences_prepare(struct weir_offences *o, const struct weir_rules *rules)
{
	int r = 0;

	if (rules->has_suspicion && !o->suspects)
		r = weir_suspects_new(o->key, &o->suspects);
	if (r >= 0 && rules->identities_us && !o->identities)
		r = weir_identities_new(o->key, &o->identities);
	return r;
}

static void key_of(const struct weir_offences *o, const struct weir_prefix *client,
		   __u8 ret[static WEIR_STORE_KEY_BYTES])
{
	unsigned char in[sizeof(client->addr) + 1];

	memcpy(in, &client->addr, sizeof(client->addr));
	in[sizeof(client->addr)] = client->family;
	(void)crypto_shorthash_siphashx24(ret, in, sizeof(in), o->key); /* it cannot fail */
}

static void done(struct weir_store_request *q, int r, void *data)
{
	(void)q;
	*(int *)data = r;
}

/* One layer more, judged by itself. */
static struct weir_store_layer *add(struct weir_store_request *q,
				    const struct weir_store_limit *limit,
				    const __u8 key[static WEIR_STORE_KEY_BYTES])
{
	struct weir_store_layer *y = &q->layer[q->n++];

	*y = (struct weir_store_layer){.limit = limit, .cost = 1, .monitor = true};
	memcpy(y->key, key, sizeof(y->key));
	return y;
}

static bool within_at_most(const struct weir_offences *o, const struct weir_store_limit *limit,
			   __u64 now_us)
{
	struct weir_store_layer y = {.limit = limit, .cost = 1}; /* one key for the whole rule */
	struct weir_store_request q = {.layer = &y, .n = 1, .now_us = now_us};
	int r = -EIO;

	o->store->ops->decide(o->store, &q, done, &r);
	return r >= 0 && q.admitted;
}

/* The count of @x is full: this very refusal made it so, and the count starts anew. */
static void escalate(struct weir_offences *o, const struct weir_offence *what,
		     const struct weir_rule_escalate *x, struct weir_store_layer *y, bool would,
		     weir_offence_fn *due, void *arg)
{
	struct weir_store_request q = {.layer = y, .n = 1, .now_us = what->now_us};
	int r;

	o->store->ops->reset(o->store, &q, done, &r);
	if (x->unless_identities && o->identities &&
	    weir_identities_count(o->identities, &what->client, x->refused.within_us,
				  what->now_us) >= x->unless_identities) {
		(void)__atomic_add_fetch(&o->spared, 1, __ATOMIC_RELAXED);
		return;
	}
	if (!within_at_most(o, would ? &x->at_most_would : &x->at_most, what->now_us)) {
		(void)__atomic_add_fetch(&o->capped, 1, __ATOMIC_RELAXED);
		return;
	}
	(void)__atomic_add_fetch(&o->escalated, 1, __ATOMIC_RELAXED);
	due(arg, x, (what->refused | what->would) & x->refused.limits, would);
}

/* What monitor mode alone would have refused is counted apart: it must never be part of a real block. */
static bool counts(const struct weir_offence *what, const struct weir_rule_escalate *x,
		   bool *ret_would)
{
	__u64 refused = what->refused & x->refused.limits;

	*ret_would = !refused || what->monitor || x->monitor;
	return refused || what->would & x->refused.limits;
}

void weir_offences_count(struct weir_offences *o, const struct weir_offence *what,
			 weir_offence_fn *due, void *arg)
{
	const struct weir_rules *rules = what->rules;
	const struct weir_rule_escalate *x[WEIR_ESCALATE_MAX];
	struct weir_store_layer layer[WEIR_ESCALATE_MAX + 1], *y;
	struct weir_store_request q = {.layer = layer, .now_us = what->now_us};
	bool would[WEIR_ESCALATE_MAX], suspicion;
	__u8 key[WEIR_STORE_KEY_BYTES];
	size_t n = 0;
	int r = -EIO;

	key_of(o, &what->client, key);
	for (size_t i = 0; i < rules->n_escalate && n < WEIR_ESCALATE_MAX; i++) {
		x[n] = &rules->escalate[i];
		if (!counts(what, x[n], &would[n]))
			continue;
		(void)add(&q, would[n] ? &x[n]->would.store : &x[n]->refused.store, key);
		n++;
	}
	suspicion = rules->suspicion.count && what->refused & rules->suspicion.limits;
	if (suspicion)
		(void)add(&q, &rules->suspicion.store, key);
	if (!q.n)
		return;
	o->store->ops->decide(o->store, &q, done, &r);
	if (r < 0)
		return; /* no memory: not counted */
	for (size_t i = 0; i < n; i++) {
		y = &layer[i];
		if (y->charged && !y->answer.remaining)
			escalate(o, what, x[i], y, would[i], due, arg);
	}
	if (suspicion && !layer[n].admitted)
		weir_suspects_add(o->suspects, &what->client, what->now_us + rules->suspicious_us);
}

void weir_offences_forget(struct weir_offences *o, const struct weir_rules *rules,
			  const struct weir_prefix *addr, __u64 now_us)
{
	struct weir_prefix client = weir_offence_client(addr);
	struct weir_store_layer layer[2 * WEIR_ESCALATE_MAX + 1];
	struct weir_store_request q = {.layer = layer, .now_us = now_us};
	__u8 key[WEIR_STORE_KEY_BYTES];
	int r;

	key_of(o, &client, key);
	for (size_t i = 0; i < rules->n_escalate && i < WEIR_ESCALATE_MAX; i++) {
		(void)add(&q, &rules->escalate[i].refused.store, key);
		(void)add(&q, &rules->escalate[i].would.store, key);
	}
	if (rules->suspicion.count)
		(void)add(&q, &rules->suspicion.store, key);
	o->store->ops->reset(o->store, &q, done, &r);
	if (o->suspects)
		weir_suspects_drop(o->suspects, addr);
}
