/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the engine share. Not for others.
 *
 *	engine.c   the shared object: rules in force, stores      worker.c   workers, their rules and memory
 *	stats.c    counters                                       layers.c   a question: read, matched, made into layers
 *	events.c   the queue to the agent                         call.c     a question's way to its answer
 *	inspect.c  one client (search*.c, reset.c)                verdict.c  from a decision to outcomes, counters and events
 *	away.c     what each limit says while its store is away   host.c     limits of this host beside those of the fleet
 *
 * Who may touch what: a worker, its calls and its jobs are touched by its thread only; its counters are written by it
 * and read by anybody; struct weir_l7 is guarded by its lock, but for what says otherwise.
 */
#ifndef WEIR_L7_ENGINE_INT_H
#define WEIR_L7_ENGINE_INT_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>

#include "user/l7/engine.h"
#include "user/l7/loud.h"
#include "user/l7/offence.h"
#include "user/l7/rules.h"

#define WEIR_L7_SLOTS 256 /* limits that are counted, those of former configurations too */
#define WEIR_L7_LINE  64  /* what two threads must not share */
#define NS_PER_US     1000ull

/* --- counters ---- */

/* One set a worker, written by its thread alone: relaxed, and no locked instruction. */
struct weir_l7_counts {
	__u64 checks, allowed, refused, exempt, no_limit, bad_path, no_address, over_budget;
	__u64 fresh_counted_as_ip, held, queue_abandoned;
	struct weir_l7_histogram check;
	__u64 limit[WEIR_L7_SLOTS][WEIR_L7_VERDICT_MAX];
	__u64 last_refused_s[WEIR_L7_SLOTS];
	__u64 last_away_us[WEIR_L7_SLOTS]; /* judged without its store */
};

static inline void weir_l7_add(__u64 *counter, __u64 n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* A limit's place in all counters; it stays the limit's while there is room for other names. */
struct weir_l7_slot {
	char name[WEIR_NAME_MAX]; /* "": free */
	enum weir_request_algorithm algorithm;
	enum weir_mode mode;
	enum weir_on_store_failure on_store_failure;
	bool fleet;
	unsigned order;			   /* in the configuration */
	__u64 generation;		   /* of the last rules that had it */
	__u64 salt;			   /* of its state; see weir_l7_reset */
	__u64 before[WEIR_L7_VERDICT_MAX]; /* what another limit had counted in this place */
};

void weir_l7_count_limit(struct weir_l7_counts *c, unsigned slot, enum weir_l7_verdict v);
void weir_l7_count_check(struct weir_l7_counts *c, __u64 took_us);
/* Gives every rule its slot. Under the lock. */
void weir_l7_assign_slots(struct weir_l7 *l7, struct weir_rules *rules);
__u64 weir_l7_salt_of(void *l7, const char *name);
/* What a worker that goes has counted. Under the lock. */
void weir_l7_keep_counts(struct weir_l7 *l7, const struct weir_l7_worker *w);

/* --- events ---- */

#define WEIR_L7_EVENTS 1024 /* a power of two */

struct weir_l7_events {
	int fd;
	struct weir_l7_event_cell *cell;
	_Alignas(WEIR_L7_LINE) __u64 head;    /* next to write: any thread */
	_Alignas(WEIR_L7_LINE) __u64 tail;    /* next to read: the agent */
	_Alignas(WEIR_L7_LINE) __u64 sampled; /* second << 16 | refusals in it */
	__u64 lost;
};

int weir_l7_events_init(struct weir_l7_events *v);
void weir_l7_events_done(struct weir_l7_events *v);
/* May one more refusal of this second be told? */
bool weir_l7_events_want(struct weir_l7_events *v, unsigned per_second, __u64 now_us);
void weir_l7_events_put(struct weir_l7_events *v, const struct weir_l7_event *event);

/* --- a store that is away (away.c) ---- */

#define WEIR_L7_AWAY_CALM_US 10000000ull /* without a failure: it is back for good */

/* Of all workers; relaxed. A period is from a failure until the store has been back for so long: counts of this host alone
 * are dropped then, and never before, or each of many short failures would grant a share anew.
 */
struct weir_l7_away {
	__u64 period;
	__u64 failed_us, back_us;
	__u64 version; /* of a host's part: the period or the number of agents has changed */
};

/* A host's part of one limit, as a worker has worked it out. */
struct weir_l7_local {
	struct weir_store_limit store, fresh;
};

void weir_l7_note_failure(struct weir_l7 *l7, __u64 now_us);
void weir_l7_note_success(struct weir_l7 *l7, __u64 now_us);

/* --- the shared object ---- */

struct weir_l7 {
	/* Read by every question, written at a change only. */
	_Alignas(WEIR_L7_LINE) __u64 generation; /* of the rules in force; relaxed */
	enum weir_mode mode;			 /* relaxed */
	weir_l7_clock_fn *clock;
	void *clock_arg;
	struct weir_store *store; /* of all workers; NULL: each has its own */
	struct weir_store *local; /* of this host alone, beside another one; NULL: @store is it */
	bool shared;		  /* by store_of */
	bool secret_known;	  /* relaxed; else a shared store is not asked */
	int (*store_of)(void *arg, struct event_base *base, struct weir_store **ret);
	void *store_arg;
	unsigned agents; /* relaxed */
	struct weir_offences offences;

	_Alignas(WEIR_L7_LINE) struct weir_l7_away away;
	_Alignas(WEIR_L7_LINE) struct weir_hot_agent hot;

	_Alignas(WEIR_L7_LINE) pthread_mutex_t lock;
	struct weir_rules *rules;
	unsigned char secret[WEIR_KEY_SECRET];
	struct weir_l7_worker *workers;
	struct weir_l7_counts *former; /* of workers that are gone */
	struct weir_far_stats former_far;
	struct weir_hot_stats former_hot;
	struct weir_l7_slot slot[WEIR_L7_SLOTS];
	__u64 keys, bytes; /* memory.request_* that the stores were made with */

	struct weir_l7_events events;
};

static inline __u64 weir_l7_now_us(const struct weir_l7 *l7)
{
	return l7->clock(l7->clock_arg);
}

/* From here on every new question is judged by @rules, whose reference it takes. Main thread. */
void weir_l7_put_in_force(struct weir_l7 *l7, struct weir_rules *rules);

/* --- workers ---- */

/* Rules as a worker holds them: one counted reference for all of its calls. */
struct weir_l7_use {
	struct weir_rules *rules;
	size_t calls;
	bool current;
	struct weir_l7_local *local; /* by rule and plan; NULL until one is needed */
	__u64 local_version;	     /* of the share that they are by */
};

/* What is asked of a store. It outlives its call where the store answers late. */
enum weir_l7_then {
	WEIR_L7_THEN_ANSWER,  /* the call waits for it */
	WEIR_L7_THEN_REFUND,  /* nobody does: what was charged is given back */
	WEIR_L7_THEN_NOTHING, /* the request has passed meanwhile: the charge is right */
	WEIR_L7_THEN_LEAVE    /* a place in a queue is given back, or counted as abandoned */
};
struct weir_l7_job {
	struct weir_l7_worker *w;	  /* NULL: gone */
	struct weir_l7_call *call;	  /* THEN_ANSWER */
	struct weir_l7_job *next, **back; /* of the pool; of w->late while its call does not wait */
	enum weir_l7_then then;
	bool busy;    /* the store has it */
	bool refused; /* by limits of this host, when they were looked at */
	int r;
	struct weir_store *store;
	struct weir_rules *rules; /* a reference of its own once it is late; NULL: its call's */
	struct weir_store_request q;
	size_t room;
	struct weir_store_layer layer[];
};

/* One limit that a question meets. */
enum weir_l7_part_state { WEIR_L7_PART_LAYER, WEIR_L7_PART_NO_KEY, WEIR_L7_PART_NO_STORE };
struct weir_l7_part {
	const struct weir_rule *rule;
	const struct weir_rule_numbers *numbers;
	enum weir_l7_part_state state;
	unsigned layer; /* of the job */
	bool host;	/* of call->host */
	bool local;	/* judged by this host alone, since its store is away */
};

struct weir_l7_call {
	struct weir_l7_worker *w;
	struct weir_l7_call *next; /* of the pool */
	struct weir_l7_use *use;
	struct weir_l7_job *job;  /* NULL: none */
	struct weir_l7_job *host; /* limits of this host beside those of the fleet; NULL: none */
	weir_l7_done_fn *done;
	void *arg;
	struct event timer;
	bool timing, was_due, ready, waiting, peek, refund, seen, has_client, may_wait, monitor;
	bool away;   /* its store is, and is not asked: all that is judged is judged by this host */
	bool beside; /* limits of this host have a question of their own beside it */
	bool met;    /* a limit matched */
	enum weir_answer_profile profile;
	enum weir_answer_code refuse; /* ALLOW: the limits say */
	const char *refuse_name;      /* monitor mode: what would have refused */
	__u64 asked_us, wait_us, shown_us;
	struct weir_prefix client;
	__u32 identity; /* 0: none that is verified */
	size_t n, room;
	struct weir_l7_part *part;
	struct weir_answer_limit *limit;
};

/* A question as it is read; the texts are the caller's or the worker's. */
struct weir_l7_asked {
	const struct weir_l7_query *query;
	struct weir_rule_question rule;
	struct weir_key_request key;
	const char *bad; /* NULL: it can be judged */
	unsigned plan;
	__u32 identity;
};

struct weir_l7_known_key {
	__u64 serial; /* of the question it belongs to */
	int r;
	struct weir_key key;
};

struct weir_l7_worker {
	struct weir_l7 *l7;
	struct event_base *base;
	struct event_base
		*own_base; /* nobody turns it but questions; NULL: @base is the thread's */
	__u64 noted_us;	   /* when it was noted last that its store is away */
	__u64 finished;	   /* questions, where own_base is waited on */
	struct weir_store *store;
	struct weir_store *own_store; /* the same, where it is this worker's */
	const bool *away;	      /* whether that is; NULL: it is this host's */
	struct weir_l7_worker *next;  /* under l7->lock */
	__u64 generation;
	struct weir_l7_use *use;
	struct weir_l7_call *calls; /* pools */
	struct weir_l7_job *jobs;
	size_t n_calls, n_jobs;
	struct weir_l7_job *late; /* that the store still has, and no call waits for */
	__u64 serial;		  /* of the question */
	struct weir_l7_asked asked;
	struct weir_l7_known_key known[WEIR_RULES_CLASSES_MAX];
	struct weir_path path;
	char method[WEIR_METHOD_MAX + 1], host[WEIR_HOST_MAX + 1], api_key[WEIR_KEY_QUERY_MAX];
	struct weir_answer answer;
	struct weir_loud loud;
	_Alignas(WEIR_L7_LINE) struct weir_l7_counts counts;
};

/* The rules in force now. */
struct weir_rules *weir_l7_worker_rules(struct weir_l7_worker *w);
struct weir_l7_call *weir_l7_call_take(struct weir_l7_worker *w);
void weir_l7_call_put(struct weir_l7_call *call);
struct weir_l7_job *weir_l7_job_take(struct weir_l7_worker *w, size_t room);
void weir_l7_job_put(struct weir_l7_job *job);
/* Nobody waits for it any longer; the store still has it. @rules: that its layers point into. */
void weir_l7_job_late(struct weir_l7_job *job, struct weir_rules *rules, enum weir_l7_then then);

/* --- layers.c ---- */

/* Reads @query into w->asked; what cannot be judged is named there. */
void weir_l7_read(struct weir_l7_worker *w, const struct weir_rules *rules,
		  const struct weir_l7_query *query);
/* Parts of the call and layers of its job. -EADDRNOTAVAIL: a limit needs the address; -E2BIG: too many layers. */
int weir_l7_layers(struct weir_l7_worker *w, struct weir_l7_call *call);
/* One layer as the rule asks for it; @cost 0: by its rule. For search_ask.c too. */
void weir_l7_layer(const struct weir_l7_asked *asked, const struct weir_rule *rule,
		   const struct weir_key *key, __u64 now_us, struct weir_store_layer *ret);

/* As a question with that address has it; for search_ask.c. */
void weir_l7_tag(const struct weir_rules *rules, const struct weir_rule *rule,
		 const struct weir_key_request *request, struct weir_store_layer *y);

/* The store of this host. */
static inline struct weir_store *weir_l7_host_store(const struct weir_l7 *l7)
{
	return l7->local ? l7->local : l7->store;
}

/* --- call.c, host.c ---- */

/* What it has charged; then it goes its way. */
void weir_l7_job_give_back(struct weir_l7_job *job, enum weir_l7_then then);
/* Before the fleet is asked: may be that only its monitor limits are left. */
void weir_l7_host_look(struct weir_l7_call *call);
/* After the fleet's answer. */
void weir_l7_host_charge(struct weir_l7_call *call);

/* --- away.c ---- */

/* Limits as this host alone judges them, worked out anew when its part has changed; NULL in @use if there is no memory. */
void weir_l7_work_out_local(struct weir_l7_use *use, const struct weir_l7 *l7);
static inline void weir_l7_check_local(struct weir_l7_use *use, const struct weir_l7 *l7)
{
	if (use->local_version != __atomic_load_n(&l7->away.version, __ATOMIC_ACQUIRE))
		weir_l7_work_out_local(use, l7);
}

static inline const struct weir_l7_local *weir_l7_local_of(const struct weir_l7_use *use,
							   const struct weir_rule_numbers *numbers)
{
	return &use->local[numbers->at];
}

/* @y as this host alone judges it. */
__u64 weir_l7_local_cost(const struct weir_l7_local *x, const struct weir_store_layer *y);
static inline void weir_l7_make_local(const struct weir_l7_local *x, struct weir_store_layer *y)
{
	if (y->cost > 1)
		y->cost = weir_l7_local_cost(x, y);
	y->limit = &x->store;
	if (y->fresh)
		y->fresh = &x->fresh;
}

/* Can this host judge @rule alone while its store is away? */
static inline bool weir_l7_judged_here(const struct weir_l7_call *call,
				       const struct weir_rule *rule)
{
	return rule->on_store_failure == WEIR_FAILURE_LOCAL && call->use->local && !rule->host &&
	       !call->refund;
}

/* What @rule says without its store, and counts it so; LOCAL if this host can judge it. */
enum weir_on_store_failure weir_l7_without_store(struct weir_l7_call *call,
						 const struct weir_rule *rule);
/* The store has not answered, or too late: what each limit says for that. */
void weir_l7_store_away(struct weir_l7_call *call);
/* The same for the limits of this host, whose store is full. */
void weir_l7_host_away(struct weir_l7_call *call);

/* --- verdict.c ---- */

/* From the decided job to limits, counters and events. */
void weir_l7_verdict(struct weir_l7_call *call);
/* One refusal by @name that no count has decided. */
void weir_l7_count_refusal(struct weir_l7_call *call, enum weir_answer_code code, const char *name);

/* Whoever is admitted and verified is somebody behind that address. */
void weir_l7_note_identity(const struct weir_l7_call *call);

/* A limit's part of an answer, from its layer. */
void weir_l7_show(const struct weir_rule *rule, const struct weir_rule_numbers *numbers,
		  const struct weir_store_layer *layer, bool monitor,
		  struct weir_answer_limit *ret);

#endif
