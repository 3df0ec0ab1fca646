/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the hot store share: hot.c (requests), hot_take.c (those that leases pay
 * for), hot_denied.c (remembered refusals), hot_lease.c (leases). Not
 * for others. All of it belongs to one thread.
 */
#ifndef WEIR_USER_STORE_HOT_INT_H
#define WEIR_USER_STORE_HOT_INT_H

#include "user/store/hot.h"

#define WEIR_HOT_WAYS	   4
#define WEIR_HOT_DENIED_US 1000000ull /* a refusal is believed for so long */

/* --- refusals ---- */

#define WEIR_HOT_DENIED 8192 /* half a megabyte a thread; the one that is over first makes room */

struct weir_hot_denial {
	__u64 id[2];
	const struct weir_store_limit *limit; /* of one plan; only compared */
	__u64 since_us, until_us;	      /* believed; until 0: none */
	__u64 retry_us, reset_us;	      /* moments */
	__u64 cost, remaining;
};
struct weir_hot_denied {
	struct weir_hot_denial *at; /* made with the first one */
};
void weir_hot_denied_clear(struct weir_hot_denied *d);
void weir_hot_denied_add(struct weir_hot_denied *d, const struct weir_store_layer *y, __u64 now_us,
			 __u64 believed_us);
/* Is @y known to be refused? Then its answer is filled in. */
bool weir_hot_denied_find(const struct weir_hot_denied *d, struct weir_store_layer *y,
			  __u64 now_us);
void weir_hot_denied_drop(struct weir_hot_denied *d, const struct weir_store_layer *y);

/* --- leases ---- */

#define WEIR_HOT_LEASES 1024

struct weir_hot_lease {
	__u64 id[2];
	const struct weir_store_limit *of; /* the same */
	__u32 serial;			   /* of the entry: another one is another lease's */
	bool used, taking;
	__u64 left;  /* charged, not spent */
	__u64 size;  /* of the next */
	__u64 spent; /* of this one */
	__u64 since_us, until_us;
	__u64 remaining; /* at the store */
	__u64 reset_us;
	/* to give back what is left: a layer of its own, since limits come and go */
	struct weir_store_limit limit;
	struct weir_store_layer layer;
};
struct weir_hot_leases {
	struct weir_hot_lease *at; /* made with the first one */
	__u32 serial;
};
/* The lease of @y's limit and key, new or not. NULL: there is no room. *ret_old: what another one held (its entry is
 * that of the answer), or .left 0.
 */
struct weir_hot_lease *weir_hot_lease_of(struct weir_hot_leases *l,
					 const struct weir_store_layer *y,
					 struct weir_hot_lease *ret_old);
struct weir_hot_lease *weir_hot_lease_find(struct weir_hot_leases *l,
					   const struct weir_store_layer *y);
/* How much more than its cost is asked for. */
__u64 weir_hot_lease_extra(const struct weir_hot_lease *e, const struct weir_store_layer *y,
			   __u64 now_us, unsigned takers);
/* @extra was charged beside the cost of @y (0: the cost alone), at the store's answer in @y. */
void weir_hot_lease_took(struct weir_hot_lease *e, const struct weir_store_layer *y, __u64 extra,
			 __u64 now_us, unsigned takers);
/* It is over: what is left is the caller's to give back (0: nothing, or its window is over). */
__u64 weir_hot_lease_end(struct weir_hot_lease *e, __u64 now_us);
/* Forgets all; returns what they held. */
__u64 weir_hot_leases_clear(struct weir_hot_leases *l);

/* --- both ---- */

static inline void weir_hot_id(const struct weir_store_layer *y, __u64 ret[static 2])
{
	__u64 limit[2];

	__builtin_memcpy(limit, &y->limit->identity, sizeof(limit));
	__builtin_memcpy(ret, y->key, 2 * sizeof(*ret));
	ret[0] ^= limit[0];
	ret[1] ^= limit[1] + y->turn_now; /* who cannot wait is refused where others wait */
}

/* --- requests (hot.c) ---- */

struct weir_hot {
	struct weir_store store;
	struct weir_store *inner;
	struct weir_hot_agent *agent;
	struct weir_hot_options o;
	__u64 generation;
	struct weir_hot_denied denied;
	struct weir_hot_leases leases;
	struct weir_hot_job *spare;
	size_t n_spare;
	struct event *timer; /* NULL: none */
	bool timer_due;
	__u64 now_us; /* of the last question */
	struct weir_hot_stats n;
};

/* A layer that the inner store is asked about, or that a lease pays for. */
struct weir_hot_piece {
	unsigned i; /* in the caller's request */
	unsigned lease_serial;
	struct weir_hot_lease *lease; /* NULL: none */
	__u64 extra;
};

struct weir_hot_job {
	struct weir_hot *s;
	struct weir_hot_job *next; /* spare */
	struct weir_store_request *q;
	weir_store_done_fn *done;
	void *data;
	struct weir_store_request part; /* for the inner store */
	struct weir_hot_piece *piece;	/* of part's layers */
	size_t n_held;
	struct weir_hot_piece *held;   /* of layers that leases pay for, once all is admitted */
	struct weir_store_limit limit; /* of what is given back */
	size_t room;
	struct weir_store_layer layer[];
};

/* Written by the thread that owns it, read by any. */
static inline void weir_hot_count(__u64 *counter, __u64 n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline unsigned weir_hot_takers(const struct weir_hot *s)
{
	return __atomic_load_n(&s->agent->takers, __ATOMIC_RELAXED);
}

/* What was known under other limits is void. */
void weir_hot_check_generation(struct weir_hot *s);
struct weir_hot_job *weir_hot_job_new(struct weir_hot *s, size_t room);
void weir_hot_job_free(struct weir_hot_job *j);
/* Ends the job. */
void weir_hot_answer(struct weir_hot_job *j, int r);
/* Layer @i of the caller's is asked for, with @extra for later. */
void weir_hot_add_piece(struct weir_hot_job *j, size_t i, struct weir_hot_lease *lease,
			__u64 extra);
/* The answers to the pieces. */
void weir_hot_take_over(struct weir_hot_job *j);
void weir_hot_remember(struct weir_hot *s, const struct weir_store_layer *y, __u64 now_us);
/* As far as is known here: untouched. */
void weir_hot_show_unknown(struct weir_store_layer *y);

/* --- and leases (hot_take.c) ---- */

bool weir_hot_can_lease(const struct weir_hot *s, const struct weir_store_layer *y);
/* Enough is held here for it? */
bool weir_hot_is_covered(struct weir_hot *s, const struct weir_store_layer *y);
/* A request of which some limit has leases. */
void weir_hot_ask(struct weir_hot *s, struct weir_store_request *q, weir_store_done_fn *done,
		  void *data);
/* What is not spent in time goes back. */
void weir_hot_on_timer(int fd, short what, void *arg);

#endif
