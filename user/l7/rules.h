/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The configuration's request part, compiled: what a question is compared with. Immutable once made, so that every
 * thread reads it without a lock; counted references keep it while questions asked under it are under way. Made by
 * engine.c, read by the files of this folder.
 *
 *	rules.c    the whole      rules_limit.c   one limit      match.c   does a question match?      plans.c   plans_file
 */
#ifndef WEIR_L7_RULES_H
#define WEIR_L7_RULES_H

#include "user/config/conf.h"
#include "user/l7/plans.h"

#define WEIR_RULES_MAX	       (WEIR_REQUEST_LIMITS_MAX + 1) /* and `suspicious` */
#define WEIR_RULES_CLASSES_MAX (2 * WEIR_RULES_MAX)
#define WEIR_RULES_NO_CLASS    WEIR_RULES_CLASSES_MAX
#define WEIR_RULES_REFUSED_MAX (WEIR_STORE_LOG_MAX - 1)
#define WEIR_IDENTITIES_MAX    16 /* of `unless_identities` */

_Static_assert(WEIR_RULES_MAX <= 64, "limits are bits of a word");

/* Memory that goes as a whole. */
struct weir_rules_chunk;

/* A path as the configuration writes it, in normal form. */
struct weir_rule_path {
	struct weir_path_pattern pattern;
	struct weir_text endpoint; /* what stands in a key: with the / * at its end */
};

struct weir_rule_host {
	struct weir_text name; /* @below: with its dot in front */
	bool below;
};

struct weir_rule_header {
	struct weir_text name, value;
	bool any_value;
};

/* An empty list matches everything. */
struct weir_rule_match {
	const struct weir_text *method;
	const struct weir_rule_path *path;
	const struct weir_rule_host *host;
	const struct weir_rule_header *header;
	size_t n_method, n_path, n_host, n_header;
};

/* Of one plan. */
struct weir_rule_numbers {
	struct weir_store_limit store;
	size_t at;	     /* among those of all limits and plans */
	__u64 limit;	     /* as a client is told: burst of a bucket, places of a queue */
	__u64 window_ns;     /* for RateLimit-Policy; 0: nothing to say */
	__u64 window_now_ns; /* the same of a queue without waiting: one place */
};

struct weir_rule {
	char name[WEIR_NAME_MAX];
	enum weir_request_algorithm algorithm;
	unsigned slot; /* of its counters */
	bool monitor;
	bool host;  /* scope: host */
	__u64 salt; /* of its states */
	enum weir_on_store_failure on_store_failure;
	struct weir_rule_match match;
	const struct weir_key_spec *key;
	bool key_has_endpoint;
	bool tag_ip; /* one address among other parts, always */
	unsigned
		key_class; /* rules with one class have the same key for every question; or NO_CLASS */
	unsigned ip_class; /* of the address alone, for new_per_ip */
	struct weir_conf_cost cost;
	const struct weir_calendar *calendar;	 /* NULL: no calendar window */
	__u64 calendar_us;			 /* its usual length */
	const struct weir_rule_numbers *numbers; /* by plan */
	bool has_fresh;
	struct weir_store_limit fresh; /* new_per_ip */
	const struct weir_conf_request_limit
		*conf; /* what numbers are made from; no match, no plans beyond ours */
};

struct weir_rule_exempt {
	const struct weir_prefix *source;
	size_t n_source;
	struct weir_rule_match match; /* method and path */
	bool preflight;
};

/* Refusals of one client address that are counted for something. */
struct weir_rule_refused {
	__u64 limits; /* bits: positions in weir_rules.rule */
	__u64 count, within_us;
	struct weir_store_limit store;
};

struct weir_rule_escalate {
	char name[WEIR_NAME_MAX];
	struct weir_rule_refused refused;
	struct weir_rule_refused would; /* what monitor mode would have refused counts by itself */
	struct weir_store_limit at_most, at_most_would;
	__u64 block_for_ns;
	__u64 unless_identities;
	bool monitor;
};

struct weir_rules {
	unsigned refs;
	struct weir_rules *parent; /* whose memory this shares; NULL: none */
	struct weir_rules_chunk *memory;
	struct weir_rule *rule;
	size_t n;	 /* with `suspicious` */
	size_t n_always; /* without: the others come first */
	size_t n_plan;	 /* at least 1: without plans the numbers of [0] count */
	bool has_plans;
	char (*plan)[WEIR_NAME_MAX];
	struct weir_plans *plans; /* NULL: no file */
	const struct weir_rule_exempt *exempt;
	size_t n_exempt;
	struct weir_path_options path;
	struct weir_key_context key;
	bool uses_host;
	size_t room; /* layers that a question may need: no more than a store takes */
	__u64 budget_us;
	unsigned events_per_second;
	__u64 local_share_parts; /* of a million, while a shared store is away; 0: 1 / agents */

	bool has_suspicion; /* `suspicious` is given; then rule[n_always] is its limit */
	struct weir_rule_refused suspicion; /* count 0: refusals make nobody suspicious */
	__u64 suspicious_us;
	char (*packet_limit)[WEIR_NAME_MAX];
	size_t n_packet_limit;
	const struct weir_rule_escalate *escalate;
	size_t n_escalate;
	__u64 offending;     /* bits: limits whose refusals are counted by some rule */
	__u64 identities_us; /* how long an identity is remembered; 0: nobody asks */
	struct weir_calendar *calendar[WEIR_RULES_MAX];
	size_t n_calendar;
};

struct weir_rules_options {
	__u64 now_us;
	const unsigned char *secret; /* WEIR_KEY_SECRET; weir_rules_salted: NULL, or another one */
	/* Of a limit by its name: what makes its state another one than before a reset. */
	__u64 (*salt)(void *arg, const char *name);
	void *arg;
};

/* Reads plans_file too. -EINVAL and others with a sentence. Main thread: time zones are looked up. */
int weir_rules_new(const struct weir_conf *conf, const struct weir_rules_options *o,
		   struct weir_rules **ret, struct weir_error *e);
/* The same rules with other salts, and perhaps another secret. */
int weir_rules_salted(struct weir_rules *old, const struct weir_rules_options *o,
		      struct weir_rules **ret);
struct weir_rules *weir_rules_ref(struct weir_rules *r);
void weir_rules_unref(struct weir_rules *r);
DEFINE_CLEANUP(struct weir_rules, weir_rules_unref)

/* The rule of that name; NULL: none. */
const struct weir_rule *weir_rules_find(const struct weir_rules *r, const char *name);

/* What this host alone grants of a limit: @parts of @whole of its numbers, at least one request, in a state of its own.
 * *ret_fresh: the same of new keys, whole. Never fails: what cannot be divided stays as it is.
 */
void weir_rule_local(const struct weir_rule *rule, size_t plan, __u64 parts, __u64 whole,
		     __u64 salt, struct weir_store_limit *ret, struct weir_store_limit *ret_fresh);

/* --- for the files that compile ---- */

void *weir_rules_alloc(struct weir_rules *r, size_t n, size_t size); /* zeroed; NULL: no memory */
/* A copy of @text that lives as long as @r. -ENOMEM. */
int weir_rules_text(struct weir_rules *r, const char *text, struct weir_text *ret);
/* Fills r->rule[i] from @l; its numbers come by weir_rules_number. */
int weir_rules_limit(struct weir_rules *r, size_t i, const struct weir_conf_request_limit *l,
		     __u64 now_us, struct weir_error *e);
int weir_rules_number(struct weir_rules *r, struct weir_rule *rule, __u64 salt);
int weir_rules_paths(struct weir_rules *r, char *const *path, size_t n,
		     const struct weir_rule_path **ret, struct weir_error *e);
int weir_rules_texts(struct weir_rules *r, char *const *text, size_t n,
		     const struct weir_text **ret);

/* --- match.c ---- */

struct weir_rule_question {
	const struct weir_path *path;
	const struct weir_header_list *headers;
	const struct weir_prefix *client; /* NULL: not known */
	struct weir_text method, host;	  /* normal forms; host n = 0: none */
};

/* Of a match with patterns also, in @ret_path, which of them matched: the first for each reading of the path, each once;
 * at most @max. *ret_n 0: there are no patterns.
 */
bool weir_rule_matches(const struct weir_rule_match *m, const struct weir_rule_question *q,
		       const struct weir_rule_path **ret_path, size_t max, size_t *ret_n);
bool weir_rules_exempt(const struct weir_rules *r, const struct weir_rule_question *q);

#endif
