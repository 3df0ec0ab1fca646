/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who is refused most; see loud.h. */
#include "user/l7/loud.h"

#include <string.h>

int weir_loud_init(struct weir_loud *l)
{
	l->half[0].n = l->half[1].n = 0;
	l->half[0].minute = l->half[1].minute = 0;
	return -pthread_mutex_init(&l->lock, NULL);
}

void weir_loud_done(struct weir_loud *l)
{
	pthread_mutex_destroy(&l->lock);
}

/* Only to find entries fast: equal hashes are compared in full. */
static __u32 hash_of(const struct weir_prefix *p)
{
	__u64 half[2], h;

	memcpy(half, &p->addr, sizeof(half));
	h = (half[0] ^ half[1] * 0x9e3779b97f4a7c15ull) * 0xc2b2ae3d27d4eb4full;
	return (__u32)(h >> 32) ^ p->family;
}

static bool same(const struct weir_prefix *a, const struct weir_prefix *b)
{
	return a->family == b->family && memcmp(&a->addr, &b->addr, sizeof(a->addr)) == 0;
}

static struct weir_loud_entry *find(struct weir_loud_half *h, const struct weir_prefix *client,
				    __u32 hash)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->hash[i] == hash && same(&h->entry[i].client, client))
			return &h->entry[i];
	return NULL;
}

/* A new entry; full: it takes the place and, as its error, the count of the least. */
static struct weir_loud_entry *make(struct weir_loud_half *h, const struct weir_prefix *client,
				    __u32 hash)
{
	size_t least = 0;
	__u64 count = 0;

	if (h->n < WEIR_LOUD_MAX) {
		least = h->n++;
	} else {
		for (size_t i = 1; i < h->n; i++)
			if (h->entry[i].count < h->entry[least].count)
				least = i;
		count = h->entry[least].count;
	}
	h->hash[least] = hash;
	h->entry[least] =
		(struct weir_loud_entry){.client = *client, .count = count, .error = count};
	return &h->entry[least];
}

void weir_loud_count(struct weir_loud *l, const struct weir_prefix *client, unsigned slot,
		     __u64 now_us)
{
	__u64 minute = now_us / WEIR_LOUD_US;
	struct weir_loud_half *h = &l->half[minute & 1];
	struct weir_loud_entry *e;
	__u32 hash = hash_of(client);

	pthread_mutex_lock(&l->lock);
	if (h->minute != minute) {
		h->minute = minute;
		h->n = 0;
	}
	e = find(h, client, hash);
	if (!e)
		e = make(h, client, hash);
	e->count++;
	e->slot = slot;
	pthread_mutex_unlock(&l->lock);
}

static size_t add(struct weir_loud_entry *sum, size_t n, size_t max,
		  const struct weir_loud_entry *e)
{
	size_t low = 0, high = n, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (weir_prefix_compare(&sum[mid].client, &e->client) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < n && same(&sum[low].client, &e->client)) {
		sum[low].count += e->count;
		sum[low].error += e->error;
		sum[low].slot = e->slot;
		return n;
	}
	if (n == max)
		return n;
	memmove(&sum[low + 1], &sum[low], (n - low) * sizeof(*sum));
	sum[low] = *e;
	return n + 1;
}

size_t weir_loud_sum(struct weir_loud *l, __u64 now_us, struct weir_loud_entry *sum, size_t n,
		     size_t max)
{
	__u64 minute = now_us / WEIR_LOUD_US;

	pthread_mutex_lock(&l->lock);
	for (__u64 m = minute ? minute - 1 : 0; m <= minute; m++) { /* the older one first */
		const struct weir_loud_half *h = &l->half[m & 1];

		for (size_t i = 0; h->minute == m && i < h->n; i++)
			n = add(sum, n, max, &h->entry[i]);
	}
	pthread_mutex_unlock(&l->lock);
	return n;
}
