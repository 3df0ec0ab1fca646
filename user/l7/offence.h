/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Refusals by client address: who is suspicious, whom to block, and who must not be blocked because others share the
 * address. Local to this host and bounded; shared by all threads. Called by call.c after a decision, by layers.c for
 * every request while somebody is suspicious, by inspect.c and reset.c.
 *
 * An address is IPv4 whole and of IPv6 the /64, which is what one client can choose from; suspects that the packet layer
 * names are prefixes as it counts them.
 *
 *	offence.c     counts of refusals     suspects.c     suspicious addresses     identities.c     who is behind one
 */
#ifndef WEIR_L7_OFFENCE_H
#define WEIR_L7_OFFENCE_H

#include "user/l7/rules.h"

#define WEIR_OFFENCE_KEY_BYTES 16

/* What counts as one client; IPv4 whole, IPv6 its /64. */
struct weir_prefix weir_offence_client(const struct weir_prefix *addr);

/* --- suspicious addresses ---- */

struct weir_suspects;
/* An empty table, places by a hash keyed with @key. -ENOMEM, here and below. */
int weir_suspects_new(const unsigned char key[static WEIR_OFFENCE_KEY_BYTES],
		      struct weir_suspects **ret);
void weir_suspects_free(struct weir_suspects *s);
DEFINE_CLEANUP(struct weir_suspects, weir_suspects_free)
/* Full: of a few, the one that would be over soonest is forgotten. */
void weir_suspects_add(struct weir_suspects *s, const struct weir_prefix *p, __u64 until_us);
/* Until when; 0: it is not. Nearly free while there are none. */
__u64 weir_suspects_until(struct weir_suspects *s, const struct weir_prefix *addr, __u64 now_us);
/* Forgets all that hold @addr. */
void weir_suspects_drop(struct weir_suspects *s, const struct weir_prefix *addr);
void weir_suspects_sweep(struct weir_suspects *s, __u64 now_us);
__u64 weir_suspects_count(const struct weir_suspects *s);

/* --- identities behind an address ---- */

struct weir_identities;
/* The same, of identities. */
int weir_identities_new(const unsigned char key[static WEIR_OFFENCE_KEY_BYTES],
			struct weir_identities **ret);
void weir_identities_free(struct weir_identities *s);
DEFINE_CLEANUP(struct weir_identities, weir_identities_free)
/* @identity: a hash, not 0. The latest WEIR_IDENTITIES_MAX of an address are kept. */
void weir_identities_note(struct weir_identities *s, const struct weir_prefix *client,
			  __u32 identity, __u64 now_us);
/* How many were there within @within_us. */
unsigned weir_identities_count(struct weir_identities *s, const struct weir_prefix *client,
			       __u64 within_us, __u64 now_us);

/* --- counts ---- */

struct weir_offences {
	struct weir_store *store;
	struct weir_suspects *suspects;	    /* NULL: no configuration asked for them yet */
	struct weir_identities *identities; /* the same */
	unsigned char key[WEIR_OFFENCE_KEY_BYTES];
	__u64 escalated, capped, spared; /* relaxed */
};

struct weir_offence {
	const struct weir_rules *rules;
	struct weir_prefix client; /* of weir_offence_client */
	__u64 refused;		   /* bits: enforcing limits that refused it */
	__u64 would;		   /* monitor limits */
	bool monitor;		   /* the whole layer */
	__u64 now_us;
};
/* One escalation that is due. */
typedef void weir_offence_fn(void *arg, const struct weir_rule_escalate *rule, __u64 limits,
			     bool monitor);

/* Nothing is counted yet; a key of its own. */
int weir_offences_init(struct weir_offences *o);
void weir_offences_done(struct weir_offences *o);
/* Tables that @rules need; before they are in force. */
int weir_offences_prepare(struct weir_offences *o, const struct weir_rules *rules);
/* Counts @what; calls @due for each escalation that is due by it, before it returns. */
void weir_offences_count(struct weir_offences *o, const struct weir_offence *what,
			 weir_offence_fn *due, void *arg);
/* Counted refusals and suspicion of an address are forgotten. */
void weir_offences_forget(struct weir_offences *o, const struct weir_rules *rules,
			  const struct weir_prefix *addr, __u64 now_us);

#endif
