/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the states of request limits live. One request is one decision over all of its layers: enforcing layers are
 * charged all or none, a monitor layer is judged and charged by itself and stops nothing. Called by the request layer;
 * the embedded store is user/store/embedded*.c. Others answer later, so every answer comes by callback.
 */
#ifndef WEIR_USER_STORE_H
#define WEIR_USER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "user/base/cleanup.h"
#include "weir/algo_request.h"

#define WEIR_STORE_LAYERS_MAX 64 /* of one request */
#define WEIR_STORE_KEY_BYTES  16
#define WEIR_STORE_TAG_BYTES  3

enum weir_request_algorithm {
	WEIR_REQUEST_TOKEN_BUCKET,
	WEIR_REQUEST_LEAKY_BUCKET,
	WEIR_REQUEST_FIXED_WINDOW,
	WEIR_REQUEST_SLIDING_LOG,
	WEIR_REQUEST_SLIDING_COUNTER,
	WEIR_REQUEST_ALGORITHM_MAX
};

struct weir_calendar;

/* Names the state of a limit: changed numbers keep it, anything else in it begins empty. */
struct weir_store_identity {
	__u8 byte[WEIR_STORE_KEY_BYTES];
};

/* From name, algorithm, key, window and scope, as the configuration writes them (a calendar window with its zone; ""
 * where there is none). Parts cannot run into each other. The same on every host. -EINVAL: no such algorithm.
 */
int weir_store_identity_of(const char *name, enum weir_request_algorithm algorithm, const char *key,
			   const char *window, const char *scope, struct weir_store_identity *ret);

/* The numbers of a limit, for one plan. Made by weir_store_limit_*(), which refuse (-ERANGE) what cannot be exact. */
struct weir_store_limit {
	struct weir_store_identity identity;
	enum weir_request_algorithm algorithm;
	union {
		struct weir_request_fixed fixed; /* bounds are set for each request */
		struct weir_request_sliding sliding;
		struct weir_request_log log;
		struct weir_request_bucket bucket; /* both buckets */
	};
	__u64 window_us; /* fixed window; 0: a calendar's, the layer gives the bounds */
	/* Of a calendar window, the caller's, or NULL: a store with a clock of its own finds the neighbours of the
	 * layer's window there; without it they are taken to be as long.
	 */
	const struct weir_calendar *calendar;
	__u64 lease; /* a busy agent takes so many at once of a far store (hot.h); 0: none */
};

#define WEIR_STORE_LOG_MAX 1000000 /* limit of a sliding log: 8 MB for one client */

/* @window_us 0 only for a fixed window on the calendar. @limit 0 denies every request of a cost above 0. */
int weir_store_limit_window(const struct weir_store_identity *id,
			    enum weir_request_algorithm algorithm, __u64 limit, __u64 window_us,
			    struct weir_store_limit *ret);
int weir_store_limit_bucket(const struct weir_store_identity *id, __u64 count, __u64 period_us,
			    __u64 burst, struct weir_store_limit *ret);
int weir_store_limit_queue(const struct weir_store_identity *id, __u64 count, __u64 period_us,
			   __u64 queue, __u64 max_wait_us, struct weir_store_limit *ret);

/* What a limit holds at most: a request that costs more never passes. */
static inline __u64 weir_store_limit_room(const struct weir_store_limit *l)
{
	switch (l->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		return l->fixed.limit;
	case WEIR_REQUEST_SLIDING_LOG:
		return l->log.limit;
	case WEIR_REQUEST_SLIDING_COUNTER:
		return l->sliding.limit;
	default:
		return l->bucket.size_parts / l->bucket.period_us;
	}
}

/* One limit that a request meets. The first part is the question, `answer` on is filled in. All else zero. */
struct weir_store_layer {
	const struct weir_store_limit *limit;
	__u8 key[WEIR_STORE_KEY_BYTES]; /* keyed hash of the client's key: never the key */
	__u64 cost;
	__u64 start_us, end_us; /* calendar window that holds now; else ignored */
	bool monitor;
	/* Leaky bucket: nobody waits. Only whose turn is now is admitted (remaining: 1 or 0), others are told when it
	 * would be (retry_after_us). The queue itself is that of the others.
	 */
	bool turn_now;
	/* new_per_ip. A key without live state is a new one: it must be worth a token of the bucket @fresh (an identity of
	 * its own) at key @instead, that of the address; the token is charged with the layer. Where there is none left the
	 * request is counted at @instead. NULL: every key is welcome.
	 */
	const struct weir_store_limit *fresh;
	__u8 instead[WEIR_STORE_KEY_BYTES];
	/* Keyed hashes of the client that @key and @instead are about (its address, if that is in the key), always the
	 * same for a key: states of one client live on one node of a Cluster. Zeros: of the key's own bytes.
	 */
	__u8 tag[WEIR_STORE_TAG_BYTES], instead_tag[WEIR_STORE_TAG_BYTES];

	/* Of the state after the decision: charged or not. retry_after_us is 0 where the layer admits. */
	struct weir_request_answer answer;
	struct weir_request_ticket ticket; /* for refund; where charged */
	bool admitted;			   /* by this layer alone */
	bool charged;
	bool used_instead; /* at the key @instead; a refund reads it */
};

struct weir_store_request {
	struct weir_store_layer
		*layer; /* the caller's until the callback; no limit and key twice */
	size_t n;
	__u64 now_us;  /* wall clock; a store steps back behind an earlier one in its sweep only */
	bool peek;     /* judge, charge nothing */
	bool newest;   /* refund: tickets are not known; the newest charges are meant */
	bool admitted; /* answer: by all enforcing layers */
};

/* Called exactly once, perhaps before the call returns, with @r: 0, or -errno: nothing was charged.
 * -EINVAL: the request breaks the contract above; -ENOSPC: no memory is left within the bounds for it;
 * -ENOMEM: none at all.
 */
typedef void weir_store_done_fn(struct weir_store_request *q, int r, void *data);

struct weir_store_stats {
	__u64 entries, entries_max;
	__u64 bytes, bytes_max;
	__u64 idle_dropped; /* states that were over */
	__u64 evicted;	    /* full: live states forgotten */
	__u64 full;	    /* full: requests answered -ENOSPC */
};

struct weir_store;
struct weir_far_stats;
struct weir_store_ops {
	const char *name;
	void (*decide)(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		       void *data);
	/* Gives back the layers that are `charged`, at q->now_us, and clears that. Of a leaky bucket the place is free
	 * again only if it is the last and still waits; else `charged` stays set. A new key (@fresh) stays counted.
	 */
	void (*refund)(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		       void *data);
	/* Forgets the states that the layers name (limit and key alone are read); `charged`: there was one. */
	void (*reset)(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		      void *data);
	void (*stats)(struct weir_store *s, struct weir_store_stats *ret);
	/* Drops idle states, looking at no more than about @most; called by a timer. If the clock was set back (seconds
	 * behind the latest time seen), all states of a store that has no clock of its own.
	 */
	void (*sweep)(struct weir_store *s, __u64 now_us, size_t most);
	/* What a store on other machines says of itself (far.h); NULL: this one is here. Of any thread. */
	void (*far)(struct weir_store *s, struct weir_far_stats *ret);
	void (*free)(struct weir_store *s);
};
/* Every store begins with it. */
struct weir_store {
	const struct weir_store_ops *ops;
	/* Of one with servers: whether all of them are away, so that nobody is asked, whatever it is (-EHOSTDOWN). Read in
	 * its thread. Else NULL.
	 */
	const bool *away;
};

static inline void weir_store_free(struct weir_store *s)
{
	if (s)
		s->ops->free(s);
}
DEFINE_CLEANUP(struct weir_store, weir_store_free)

struct weir_store_embedded_options {
	size_t entries_max; /* request_keys; 1 .. 2^30 */
	__u64 bytes_max;    /* request_bytes, logs, states and index together */
	unsigned shards; /* 0: 16, fewer if that leaves less than 64 entries in each; at most 64 */
};
/* -EINVAL: numbers out of range, or bytes_max does not hold the index of entries_max (4 to 8 bytes each). */
int weir_store_embedded_new(const struct weir_store_embedded_options *o, struct weir_store **ret);
/* What entries_max states take, without the times of sliding logs; *ret_index is what bytes_max must hold at least. */
__u64 weir_store_embedded_bytes(const struct weir_store_embedded_options *o, __u64 *ret_index);

#endif
