/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's decisions: a question as a listener understood it to an answer for its proxy. Rules come from the
 * configuration (rules.c); states live in a store (user/store); nothing here knows sockets or HTTP.
 *
 *	weir_l7         shared by all threads: rules in force, stores, counters, events for the agent
 *	weir_l7_worker  one per thread (and one for the agent's own questions): scratch memory, questions under way
 *	weir_l7_call    one question, from weir_l7_ask to weir_l7_call_free
 *
 * A question: bad target → refused ("bad-path"). Exempt → allowed, no limit is met. Else every limit that matches is
 * judged in one call of the store; all enforcing ones are charged or none.
 */
#ifndef WEIR_L7_ENGINE_H
#define WEIR_L7_ENGINE_H

#include "user/config/conf.h"
#include "user/l7/answer.h"
#include "user/store/far.h"
#include "user/store/hot.h"

struct event_base;
struct weir_l7;
struct weir_l7_worker;
struct weir_l7_call;

/* Microseconds of the Unix epoch. */
typedef __u64 weir_l7_clock_fn(void *arg);

struct weir_l7_options {
	weir_l7_clock_fn *clock; /* NULL: CLOCK_REALTIME */
	void *clock_arg;
	/* Taken over, also on error; it must answer in the thread that asked. NULL: an embedded one as the configuration
	 * says; beside another one there is one too, for on_store_failure: local.
	 */
	struct weir_store *store;
	/* A store that is shared with other agents, one for each worker: made by weir_l7_worker_new, in @base's thread
	 * from then on, freed with the worker. Limits with scope: host, and on_store_failure: local, have an embedded one.
	 */
	int (*store_of)(void *arg, struct event_base *base, struct weir_store **ret);
	void *store_arg;
	/* WEIR_KEY_SECRET bytes that hash keys. NULL: random ones; of a shared store it is not known yet, and the store is
	 * as if it were away until weir_l7_set_secret.
	 */
	const unsigned char *secret;
};

/* Reads plans_file and builds rules and stores. -EINVAL and other -errno with a sentence. */
int weir_l7_new(const struct weir_conf *conf, const struct weir_l7_options *options,
		struct weir_l7 **ret, struct weir_error *e);
/* All workers and calls must be gone. */
void weir_l7_free(struct weir_l7 *l7);
DEFINE_CLEANUP(struct weir_l7, weir_l7_free)

/* New rules, in force for every question asked after the return; on error the former ones stay. State is kept where its
 * identity is the same. memory.request_* of a running store cannot change: *ret_note (heap, or NULL) says so. Main thread.
 */
int weir_l7_configure(struct weir_l7 *l7, const struct weir_conf *conf, char **ret_note,
		      struct weir_error *e);
/* What keys are hashed with from now on; states that were counted with another one are left behind. Main thread. */
int weir_l7_set_secret(struct weir_l7 *l7, const unsigned char *secret, struct weir_error *e);
/* How many agents share the store, as last heard: while it is away each grants its part. At least 1. */
void weir_l7_set_agents(struct weir_l7 *l7, unsigned n);
/* MONITOR: everything is judged and charged as ever, nothing is refused; answers have X-Weir-Would. */
void weir_l7_set_mode(struct weir_l7 *l7, enum weir_mode mode);

/* @base: for the budget's timer; NULL: questions end before weir_l7_ask returns (the embedded store's always do; for a
 * shared one the thread waits, at most for the budget). -ENOMEM, or what store_of said.
 */
int weir_l7_worker_new(struct weir_l7 *l7, struct event_base *base, struct weir_l7_worker **ret);
/* Without calls under way. */
void weir_l7_worker_free(struct weir_l7_worker *w);
DEFINE_CLEANUP(struct weir_l7_worker, weir_l7_worker_free)

/* Everything is read before weir_l7_ask returns; nothing must outlive it. */
struct weir_l7_query {
	enum weir_answer_profile profile;
	struct weir_text method, target; /* raw, as the client sent them */
	struct weir_text host;		 /* n = 0: none */
	const struct weir_header_list *headers;
	const struct weir_prefix *client; /* a whole address; NULL: not known */
	/* The address came from a trusted profile, not from a caller's word (json): its refusals count for suspicion and
	 * escalation.
	 */
	bool client_seen;
	struct weir_text user, plan; /* of proxy_headers, from a trusted peer only; n = 0: none */
	struct weir_text cost;	     /* the same; text of a number */
	__u64 cost_n;		     /* json's; 0: by the limit's cost rule */
	bool peek;		     /* judge only */
	bool may_wait; /* false: a leaky bucket of this profile admits only whose turn is now (envoy, SPOE) */
};

typedef void weir_l7_done_fn(void *arg, struct weir_l7_call *call);

/* @done is called exactly once, with *ret_call, perhaps before this returns and at the latest after the budget. -ENOMEM:
 * it will not be; refuse with weir_answer_refuse.
 */
int weir_l7_ask(struct weir_l7_worker *w, const struct weir_l7_query *query, weir_l7_done_fn *done,
		void *arg, struct weir_l7_call **ret_call);
/* Gives back what this question would charge: `POST /v1/refund`. @done as above; the answer shows the counts after it. */
int weir_l7_refund(struct weir_l7_worker *w, const struct weir_l7_query *query,
		   weir_l7_done_fn *done, void *arg, struct weir_l7_call **ret_call);

/* After done: hold the answer for so long (leaky bucket); 0: answer now. */
__u64 weir_l7_call_wait_us(const struct weir_l7_call *call);
/* The answer, with times counted from now. Valid until the next call for this worker's calls or weir_l7_call_free. */
const struct weir_answer *weir_l7_call_answer(struct weir_l7_call *call);
/* What weir_check_json_write needs beside it; the same lifetime. */
const struct weir_answer_limit *weir_l7_call_limits(struct weir_l7_call *call, size_t *ret_n);
/* Held, and its client has left: the place in the queue is given back if it is the last one, else counted as abandoned.
 * Ends the call.
 */
void weir_l7_call_leave(struct weir_l7_call *call);
/* Held, and the agent stops: everything is refunded and the answer is a refusal (SHUTTING_DOWN, 503). */
void weir_l7_call_abort(struct weir_l7_call *call);
void weir_l7_call_free(struct weir_l7_call *call);

/* --- for the agent ---- */

enum weir_l7_verdict {
	WEIR_L7_PASSED,
	WEIR_L7_REFUSED,   /* over the limit */
	WEIR_L7_WOULD,	   /* the same in monitor mode */
	WEIR_L7_UNJUDGED,  /* store away: passed, on_store_failure: open */
	WEIR_L7_CLOSED,	   /* store away: refused */
	WEIR_L7_LOCAL,	   /* store away: judged by this host alone (beside PASSED or REFUSED) */
	WEIR_L7_TOO_LARGE, /* cost above the limit */
	WEIR_L7_NO_KEY,	   /* missing: deny */
	WEIR_L7_VERDICT_MAX
};

struct weir_l7_limit_stats {
	char name[WEIR_NAME_MAX];
	enum weir_request_algorithm algorithm;
	enum weir_mode mode;
	bool in_force; /* false: of a former configuration; counters never go back */
	bool fleet;    /* counted with other agents */
	enum weir_on_store_failure on_store_failure;
	bool fallback; /* its store is away: on_store_failure decides */
	__u64 n[WEIR_L7_VERDICT_MAX];
	__u64 last_refused_s; /* wall clock; 0: never */
};

#define WEIR_L7_LATENCY_N 12 /* upper bounds in weir_l7_latency_us, and one above */
extern const __u32 weir_l7_latency_us[WEIR_L7_LATENCY_N];
struct weir_l7_histogram {
	__u64 n[WEIR_L7_LATENCY_N + 1];
	__u64 count, sum_us;
};

struct weir_l7_stats {
	__u64 checks, allowed, refused, exempt, no_limit, bad_path, no_address, over_budget;
	__u64 fresh_counted_as_ip; /* new_per_ip exceeded */
	__u64 held, queue_abandoned;
	__u64 events_lost;
	__u64 escalated, escalations_capped, escalations_spared; /* unless_identities */
	__u64 suspicious;					 /* addresses now */
	struct weir_l7_histogram check; /* without the time an answer was held */
	struct weir_store_stats store;	/* the embedded one */
	bool shared;
	bool secret_known;	   /* of a shared store */
	unsigned agents;	   /* that share it */
	struct weir_far_stats far; /* of all workers: health of the worst, sums */
	struct weir_hot_stats hot;
};
/* Sums over all threads, from the start of the process. */
void weir_l7_stats(struct weir_l7 *l7, struct weir_l7_stats *ret);
/* Up to @max limits, those in force first, in their order; returns how many there are. */
size_t weir_l7_limits(struct weir_l7 *l7, struct weir_l7_limit_stats *ret, size_t max);
/* Names of a limit in force; "suspicious" too. */
bool weir_l7_has_limit(struct weir_l7 *l7, const char *name);
/* Once a second: idle states go, a few at a time. */
void weir_l7_sweep(struct weir_l7 *l7);

/* Refused most in the last minutes, loudest first. */
struct weir_l7_loud {
	struct weir_prefix client;
	__u64 refused; /* at most @error too many */
	__u64 error;
	char limit[WEIR_NAME_MAX]; /* the last one */
};
/* At most @max; returns how many were written. */
size_t weir_l7_loud(struct weir_l7 *l7, struct weir_l7_loud *ret, size_t max);

/* The packet layer saw @source over one of suspicious.packet_limits. */
bool weir_l7_wants_suspects(struct weir_l7 *l7, const char *packet_limit);
void weir_l7_suspect(struct weir_l7 *l7, const struct weir_prefix *source);

/* A bounded queue from the workers to the agent: sampled refusals, and addresses to block. */
enum weir_l7_event_kind { WEIR_L7_EVENT_REFUSED, WEIR_L7_EVENT_ESCALATE };
struct weir_l7_event {
	enum weir_l7_event_kind kind;
	__s64 wall_ms;
	bool has_client;
	struct weir_prefix client;
	char limit[WEIR_NAME_MAX]; /* that refused, or would have */
	enum weir_answer_code code;
	bool monitor; /* of the limit, the rule of escalation, or the whole layer */
	/* ESCALATE, already within at_most and past unless_identities: */
	char rule[WEIR_NAME_MAX];
	__u64 block_for_ns;
	__u64 refused;
};
/* Readable while there are events: take until false. Main thread. */
int weir_l7_events_fd(const struct weir_l7 *l7);
bool weir_l7_events_take(struct weir_l7 *l7, struct weir_l7_event *ret);

/* One client, as far as it is known; n = 0 or NULL: not. */
struct weir_l7_who {
	const struct weir_prefix *ip;
	struct weir_text api_key, user, token;
};
struct weir_l7_view {
	const char *limit;
	char key[256]; /* in words: "ip", "ip, endpoint POST /api/auth/login" */
	const struct weir_answer_limit *state; /* outcome: of a request of cost 1 now */
	enum weir_mode mode;
	bool everybodys; /* no part of @key is the client's: only a reset of the whole limit lifts it */
};
typedef void weir_l7_view_fn(void *arg, const struct weir_l7_view *view);
/* State of every limit whose key these parts give (endpoints: those the limit names). @limit NULL: all. -ENOENT: no such
 * limit; -EAGAIN and others: the store does not answer. Main thread.
 */
int weir_l7_inspect(struct weir_l7_worker *w, const struct weir_l7_who *who, const char *limit,
		    weir_l7_view_fn *fn, void *arg);
/* Wall-clock second until which @ip is suspicious; 0: it is not. */
__s64 weir_l7_suspicious_until(struct weir_l7_worker *w, const struct weir_prefix *ip);
/* Forgets those states (*ret_n: how many there were), and suspicion and counted refusals of an ip. Keys that no part of
 * @who is in (global) stay. @who NULL: all states of the limit begin anew, uncounted (*ret_n 0). @limit NULL: of all
 * limits. -ENOENT: no such limit; -EINVAL: it does not count by what @who says. Main thread.
 */
int weir_l7_reset(struct weir_l7_worker *w, const char *limit, const struct weir_l7_who *who,
		  size_t *ret_n, struct weir_error *e);

#endif
