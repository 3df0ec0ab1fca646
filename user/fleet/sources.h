/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packet limits of the fleet: tells the store what loud sources get through here, and hears which of them get more
 * through on all hosts together than their limit lets through on one. One for each agent that has such limits, on its
 * loop; never blocks. Called by the agent, which reads the counts (weir_table_scan_counts).
 *
 * The store has a token bucket for each source (sources.lua): what a host says is charged when it is said, and who owes
 * more than burst + what may be said late is over. Nobody is wrongly: a source that keeps to the limit over all hosts never
 * owes so much, since nothing is told after a window, two passes and LATE. While the store is away nothing is told, and
 * what was counted meanwhile is dropped; each host's own limit stands.
 *
 *	{fleet}:1:over:LIMIT	    ZSET  source → when its debt is paid, ms of the server's clock
 *	{fleet}:1:over:LIMIT:told   ZSET  source → until when no other host is told of it
 */
#ifndef WEIR_FLEET_SOURCES_H
#define WEIR_FLEET_SOURCES_H

#include "user/fleet/fleet.h"

struct weir_conf_limit;
struct weir_fleet_sources;

#define WEIR_FLEET_SOURCES_MAX	16384	     /* followed at once; more are counted, and not told */
#define WEIR_FLEET_LATE_NS	500000000ull /* from reading a count until it is charged, at most */
#define WEIR_FLEET_SPREAD_NS	250000000ull /* until every host has heard of a block */
#define WEIR_FLEET_BLOCK_MIN_MS 2000	/* shorter blocks are not worth a change of the lists */
#define WEIR_FLEET_BLOCK_MAX_MS 3600000 /* without block_for, and beyond it */

struct weir_fleet_source_limit {
	const char *name;	     /* copied */
	__u64 amount, per_ns, burst; /* lets through: burst at once, amount every per_ns */
	__u64 least;		     /* of a count that is told: what one packet counts */
	__u64 window_ns, pass_ns;    /* counted in, and read every */
	__u64 block_for_ns;	     /* 0: until the debt is paid */
	bool monitor;
};

/* Of a limit of the configuration, with tables that are read every @pass_ns. */
struct weir_fleet_source_limit weir_fleet_source_limit_of(const struct weir_conf_limit *l,
							  __u64 pass_ns);

/* These sources are over limit @i of those set. Nobody else is told of them for a second. */
struct weir_fleet_over {
	struct weir_prefix source;
	__u64 block_ms; /* until what it got through is paid, and at least block_for */
};
#define WEIR_FLEET_OVER_MAX 256 /* of one limit at once */
typedef void weir_fleet_over_fn(void *arg, unsigned i, const struct weir_fleet_over *over,
				size_t n);

/* On @f's loop and store. -ENOMEM. */
int weir_fleet_sources_new(struct weir_fleet *f, weir_fleet_over_fn *fn, void *arg,
			   struct weir_fleet_sources **ret);
/* Before or after the fleet. */
void weir_fleet_sources_free(struct weir_fleet_sources *s);
DEFINE_CLEANUP(struct weir_fleet_sources, weir_fleet_sources_free)

/* Up to WEIR_LIMITS_MAX. What was followed begins anew, unless they are the same. */
int weir_fleet_sources_set(struct weir_fleet_sources *s, const struct weir_fleet_source_limit *l,
			   size_t n);
/* A count is told if it is above this: the limit in a window, over twice the live hosts. */
__u64 weir_fleet_sources_above(const struct weir_fleet_sources *s, unsigned i);
/* How much a source may owe: time in which the limit lets it through. */
__u64 weir_fleet_sources_room_ns(const struct weir_fleet_source_limit *l);
/* @source has @count in window number @window: what is new is told with the next flush. */
void weir_fleet_sources_saw(struct weir_fleet_sources *s, unsigned i,
			    const struct weir_prefix *source, __u64 window, __u64 count);
/* At the end of a pass. */
void weir_fleet_sources_flush(struct weir_fleet_sources *s);

struct weir_fleet_sources_status {
	__u64 followed; /* now */
	__u64 told;	/* ever: counts of sources, … */
	__u64 calls, failures, late;
	__u64 untold; /* counts that were dropped: too many sources, or the store was away */
	__u64 over;   /* that this host was told of */
};
/* Counts since it was made, and how many are followed now. */
void weir_fleet_sources_status(const struct weir_fleet_sources *s,
			       struct weir_fleet_sources_status *ret);
/* What the server has against these calls; NULL: nothing. */
const char *weir_fleet_sources_why(const struct weir_fleet_sources *s);

#endif
