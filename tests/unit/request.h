/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests of request limits share: limits by name, one request on an embedded store, random numbers. */
#ifndef WEIR_TESTS_REQUEST_H
#define WEIR_TESTS_REQUEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "user/store/store.h"

#define SEC	    1000000ull
#define DAY	    (86400 * SEC)
#define EPOCH	    (1800000000ull * SEC) /* a multiple of ten seconds, a minute and an hour */
#define STORE_BYTES (64ull << 20)

static inline __u64 below(__u64 *seed, __u64 n)
{
	*seed ^= *seed >> 12;
	*seed ^= *seed << 25;
	*seed ^= *seed >> 27;
	return *seed * 0x2545f4914f6cdd1dull % n;
}

/* @limit per @window; buckets: @limit tokens every @window, as many at once (queue: beside the first). */
static inline struct weir_store_limit request_limit(const char *name, enum weir_request_algorithm a,
						    __u64 limit, __u64 window_us)
{
	struct weir_store_identity id;
	struct weir_store_limit l;
	int r;

	assert_int_equal(weir_store_identity_of(name, a, "ip", "w", "host", &id), 0);
	if (a == WEIR_REQUEST_TOKEN_BUCKET)
		r = weir_store_limit_bucket(&id, limit, window_us, limit, &l);
	else if (a == WEIR_REQUEST_LEAKY_BUCKET)
		r = weir_store_limit_queue(&id, limit, window_us, limit - 1, window_us, &l);
	else
		r = weir_store_limit_window(&id, a, limit, window_us, &l);
	assert_int_equal(r, 0);
	return l;
}

static inline struct weir_store *request_store(size_t entries, __u64 bytes, unsigned shards)
{
	struct weir_store_embedded_options o = {entries, bytes, shards};
	struct weir_store *s;

	assert_int_equal(weir_store_embedded_new(&o, &s), 0);
	return s;
}

static inline void request_done(struct weir_store_request *q, int r, void *data)
{
	(void)q;
	*(int *)data = r;
}

static inline struct weir_store_layer request_layer(const struct weir_store_limit *l, __u64 client,
						    __u64 cost)
{
	struct weir_store_layer y = {.limit = l, .cost = cost};
	__u64 key[2] = {client * 0x9e3779b97f4a7c15ull, client * 0xc2b2ae3d27d4eb4full};

	key[0] ^= key[0] >> 31;
	key[1] ^= key[1] >> 29;
	memcpy(y.key, key, sizeof(y.key));
	return y;
}

static inline int request_decide(struct weir_store *s, struct weir_store_layer *y, size_t n,
				 __u64 now_us, bool peek, bool *ret_admitted)
{
	struct weir_store_request q = {.layer = y, .n = n, .now_us = now_us, .peek = peek};
	int r = 1;

	s->ops->decide(s, &q, request_done, &r);
	assert_int_not_equal(r, 1); /* called back */
	*ret_admitted = q.admitted;
	return r;
}

static inline bool request_one(struct weir_store *s, struct weir_store_layer *y, __u64 now_us)
{
	bool admitted;

	assert_int_equal(request_decide(s, y, 1, now_us, false, &admitted), 0);
	return admitted;
}

static inline void request_refund(struct weir_store *s, struct weir_store_layer *y, __u64 now_us)
{
	struct weir_store_request q = {.layer = y, .n = 1, .now_us = now_us};
	int r = 1;

	s->ops->refund(s, &q, request_done, &r);
	assert_int_equal(r, 0);
}

#endif
