/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Suspicious addresses; see offence.h. A fixed table of sets of eight: nothing is allocated when an attack is on, and a
 * look costs one set. Sets are found by a keyed hash; groups of them share a lock.
 */
#include <pthread.h>
#include <sodium.h>
#include <string.h>

#include "user/l7/offence.h"
#include "user/l7/locks.h"

#define SETS  8192
#define WAYS  8
#define LOCKS 64
#define SET_BACK_US                                                                                \
	5000000ull /* a clock so far behind was set: no time to come is known any more */

struct suspect {
	struct weir_prefix prefix;
	__u64 until_us; /* 0: free */
};

struct weir_suspects {
	unsigned char key[WEIR_OFFENCE_KEY_BYTES];
	__u64 count;	/* of places that are taken; atomic */
	__u64 lens4;	/* prefix lengths that were ever added: bits; atomic */
	__u64 lens6[3]; /* the same */
	__u64 swept_us; /* the sweep's */
	pthread_mutex_t lock[LOCKS];
	struct suspect set[SETS][WAYS];
};

int weir_suspects_new(const unsigned char key[static WEIR_OFFENCE_KEY_BYTES],
		      struct weir_suspects **ret)
{
	struct weir_suspects *s = calloc(1, sizeof(*s));
	int r = s ? weir_locks_init(s->lock, LOCKS) : -ENOMEM;

	if (r < 0) {
		free(s);
		return r;
	}
	memcpy(s->key, key, sizeof(s->key));
	*ret = s;
	return 0;
}

void weir_suspects_free(struct weir_suspects *s)
{
	if (!s)
		return;
	weir_locks_done(s->lock, LOCKS);
	free(s);
}

static struct suspect *lock_set(struct weir_suspects *s, const struct weir_prefix *p,
				pthread_mutex_t **ret_lock)
{
	unsigned char in[sizeof(p->addr) + 2];
	__u64 hash;

	memcpy(in, &p->addr, sizeof(p->addr));
	in[sizeof(p->addr)] = p->family;
	in[sizeof(p->addr) + 1] = p->len;
	(void)crypto_shorthash((unsigned char *)&hash, in, sizeof(in), s->key);
	*ret_lock = &s->lock[hash % LOCKS];
	pthread_mutex_lock(*ret_lock);
	return s->set[hash % SETS];
}

static bool same(const struct weir_prefix *a, const struct weir_prefix *b)
{
	return a->family == b->family && a->len == b->len &&
	       memcmp(&a->addr, &b->addr, sizeof(a->addr)) == 0;
}

static __u64 *lens_of(struct weir_suspects *s, const struct weir_prefix *p)
{
	return p->family == 4 ? &s->lens4 : &s->lens6[p->len / 64];
}

void weir_suspects_add(struct weir_suspects *s, const struct weir_prefix *p, __u64 until_us)
{
	pthread_mutex_t *lock;
	struct suspect *set = lock_set(s, p, &lock), *to = &set[0];

	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].until_us && same(&set[i].prefix, p)) {
			to = &set[i];
			break;
		}
		if (set[i].until_us < to->until_us)
			to = &set[i];
	}
	if (!to->until_us)
		(void)__atomic_add_fetch(&s->count, 1, __ATOMIC_RELAXED);
	if (!to->until_us || !same(&to->prefix, p) || to->until_us < until_us)
		to->until_us = until_us;
	to->prefix = *p;
	(void)__atomic_or_fetch(lens_of(s, p), 1ull << p->len % 64, __ATOMIC_RELAXED);
	pthread_mutex_unlock(lock);
}

/* The time of one prefix; @drop: it is forgotten. */
static __u64 look(struct weir_suspects *s, const struct weir_prefix *p, bool drop)
{
	pthread_mutex_t *lock;
	struct suspect *set = lock_set(s, p, &lock);
	__u64 until_us = 0;

	for (unsigned i = 0; i < WAYS; i++) {
		if (!set[i].until_us || !same(&set[i].prefix, p))
			continue;
		until_us = set[i].until_us;
		if (!drop)
			break;
		set[i].until_us = 0;
		(void)__atomic_sub_fetch(&s->count, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(lock);
	return until_us;
}

/* The latest time of all prefixes that hold @addr. */
static __u64 look_all(struct weir_suspects *s, const struct weir_prefix *addr, bool drop)
{
	__u64 latest = 0, until_us;

	for (unsigned k = 0; k < (addr->family == 4 ? 1 : 3); k++) {
		__u64 lens = __atomic_load_n(addr->family == 4 ? &s->lens4 : &s->lens6[k],
					     __ATOMIC_RELAXED);

		for (; lens; lens &= lens - 1) {
			struct weir_prefix p = *addr;

			p.len = (__u8)(64 * k + (unsigned)__builtin_ctzll(lens));
			weir_addr_mask(&p.addr, p.family, p.len);
			until_us = look(s, &p, drop);
			if (until_us > latest)
				latest = until_us;
		}
	}
	return latest;
}

__u64 weir_suspects_until(struct weir_suspects *s, const struct weir_prefix *addr, __u64 now_us)
{
	__u64 until_us;

	if (!weir_suspects_count(s))
		return 0;
	until_us = look_all(s, addr, false);
	return until_us > now_us ? until_us : 0;
}

void weir_suspects_drop(struct weir_suspects *s, const struct weir_prefix *addr)
{
	(void)look_all(s, addr, true);
}

void weir_suspects_sweep(struct weir_suspects *s, __u64 now_us)
{
	bool set_back = now_us < s->swept_us && s->swept_us - now_us > SET_BACK_US;

	s->swept_us = now_us;
	if (!weir_suspects_count(s))
		return;
	for (unsigned k = 0; k < LOCKS; k++) {
		pthread_mutex_lock(&s->lock[k]);
		for (unsigned i = k; i < SETS; i += LOCKS) {
			for (unsigned w = 0; w < WAYS; w++) {
				if (!s->set[i][w].until_us ||
				    (s->set[i][w].until_us > now_us && !set_back))
					continue;
				s->set[i][w].until_us = 0;
				(void)__atomic_sub_fetch(&s->count, 1, __ATOMIC_RELAXED);
			}
		}
		pthread_mutex_unlock(&s->lock[k]);
	}
}

__u64 weir_suspects_count(const struct weir_suspects *s)
{
	return __atomic_load_n(&s->count, __ATOMIC_RELAXED);
}
