/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many verified identities were admitted from an address lately; see offence.h. A fixed table of sets of four
 * addresses, of each the latest identities as hashes with the second they were seen in. Nobody can fill it by inventing
 * identities: only a user that the proxy names, or an API key that is in plans_file, gets here.
 */
#include <pthread.h>
#include <sodium.h>
#include <string.h>

#include "user/l7/offence.h"
#include "user/l7/locks.h"

#define SETS	 4096
#define WAYS	 4
#define LOCKS	 64
#define US_PER_S 1000000
#define BACK_S	 5 /* a clock so far behind was set: what lies in its future is as old as can be */

struct address {
	struct weir_prefix client;
	__u32 seen_s; /* the latest; 0: free */
	__u32 identity[WEIR_IDENTITIES_MAX];
	__u32 at_s[WEIR_IDENTITIES_MAX];
};

struct weir_identities {
	unsigned char key[WEIR_OFFENCE_KEY_BYTES];
	pthread_mutex_t lock[LOCKS];
	struct address set[SETS][WAYS];
};

int weir_identities_new(const unsigned char key[static WEIR_OFFENCE_KEY_BYTES],
			struct weir_identities **ret)
{
	struct weir_identities *s = calloc(1, sizeof(*s));
	int r = s ? weir_locks_init(s->lock, LOCKS) : -ENOMEM;

	if (r < 0) {
		free(s);
		return r;
	}
	memcpy(s->key, key, sizeof(s->key));
	*ret = s;
	return 0;
}

void weir_identities_free(struct weir_identities *s)
{
	if (!s)
		return;
	weir_locks_done(s->lock, LOCKS);
	free(s);
}

static __u32 age_s(__u32 at_s, __u32 now_s)
{
	if (at_s > now_s)
		return at_s - now_s > BACK_S ? UINT32_MAX : 0;
	return now_s - at_s;
}

/* The place of @client, or the one that was seen longest ago. */
static struct address *lock_place(struct weir_identities *s, const struct weir_prefix *client,
				  __u32 now_s, pthread_mutex_t **ret_lock)
{
	struct address *set, *oldest;
	__u64 hash;

	(void)crypto_shorthash((unsigned char *)&hash, (const unsigned char *)&client->addr,
			       sizeof(client->addr), s->key);
	*ret_lock = &s->lock[hash % LOCKS];
	pthread_mutex_lock(*ret_lock);
	set = s->set[hash % SETS];
	oldest = set;
	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].seen_s && set[i].client.family == client->family &&
		    memcmp(&set[i].client.addr, &client->addr, sizeof(client->addr)) == 0)
			return &set[i];
		if (age_s(set[i].seen_s, now_s) > age_s(oldest->seen_s, now_s))
			oldest = &set[i];
	}
	return oldest;
}

static bool is_of(const struct address *a, const struct weir_prefix *client)
{
	return a->seen_s && a->client.family == client->family &&
	       memcmp(&a->client.addr, &client->addr, sizeof(client->addr)) == 0;
}

void weir_identities_note(struct weir_identities *s, const struct weir_prefix *client,
			  __u32 identity, __u64 now_us)
{
	__u32 now_s = (__u32)(now_us / US_PER_S);
	pthread_mutex_t *lock;
	struct address *a = lock_place(s, client, now_s, &lock);
	unsigned to = 0;

	if (!is_of(a, client))
		*a = (struct address){.client = *client};
	for (unsigned i = 0; i < WEIR_IDENTITIES_MAX; i++) {
		if (a->identity[i] == identity) {
			to = i;
			break;
		}
		if (age_s(a->at_s[i], now_s) > age_s(a->at_s[to], now_s))
			to = i;
	}
	a->identity[to] = identity;
	a->at_s[to] = a->seen_s = now_s;
	pthread_mutex_unlock(lock);
}

unsigned weir_identities_count(struct weir_identities *s, const struct weir_prefix *client,
			       __u64 within_us, __u64 now_us)
{
	__u32 now_s = (__u32)(now_us / US_PER_S);
	__u64 within_s = within_us / US_PER_S;
	pthread_mutex_t *lock;
	struct address *a = lock_place(s, client, now_s, &lock);
	unsigned n = 0;

	if (is_of(a, client))
		for (unsigned i = 0; i < WEIR_IDENTITIES_MAX; i++)
			n += a->identity[i] && age_s(a->at_s[i], now_s) <= within_s;
	pthread_mutex_unlock(lock);
	return n;
}
