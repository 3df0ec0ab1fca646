/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lockout guard: which addresses must stay reachable, why, and whether a block would hit one. The agent's network
 * namespace is watched by rtnetlink, so that a new address or gateway is guarded at once. Called by the agent.
 */
#ifndef WEIR_AGENT_GUARD_H
#define WEIR_AGENT_GUARD_H

#include <stdbool.h>

#include "user/agent/book.h"
#include "user/base/clock.h"
#include "user/base/error.h"

#define WEIR_GUARD_MAX 4096 /* found addresses; more are not guarded, and the log says so */

struct weir_guard_entry {
	struct weir_prefix prefix;
	char why[64];
};
struct weir_guard_set {
	struct weir_guard_entry *item;
	size_t n, room;
	bool cut; /* there were more than WEIR_GUARD_MAX */
};
/* Leaves out loopback, unspecified and multicast. Equal prefixes are kept once. @why is copied, cut if it is long.
 * -ENOMEM, here and below.
 */
int weir_guard_add(struct weir_guard_set *s, const struct weir_prefix *prefix, const char *why);
void weir_guard_done(struct weir_guard_set *s);

/* Resolvers of a resolv.conf of @n bytes. */
int weir_guard_resolv(struct weir_guard_set *s, const char *text, size_t n);

struct nlmsghdr;
/* One rtnetlink message (RTM_NEWADDR or RTM_NEWROUTE) of @n bytes; others are ignored. Hostile lengths are safe. */
int weir_guard_message(struct weir_guard_set *s, const struct nlmsghdr *h, size_t n);
/* Does a notification concern what is guarded (or, *ret_link, an interface)? */
bool weir_guard_concerns(const struct nlmsghdr *h, size_t n, bool *ret_link);
/* Asks the kernel for addresses and default routes; waits at most @timeout_ms. */
int weir_guard_scan(struct weir_guard_set *s, int timeout_ms, struct weir_error *e);
/* Socket (the caller's) that gets notifications of addresses, routes and links. A sentence on error. */
int weir_guard_watch(int *ret_fd, struct weir_error *e);

/* What a block of @prefix means for the guard list of @book. */
enum weir_guard_verdict {
	WEIR_GUARD_FREE,  /* touches none */
	WEIR_GUARD_HITS,  /* lies in or equals a guarded prefix: refused without --force */
	WEIR_GUARD_COVERS /* covers some: allowed, those stay reachable */
};
enum weir_guard_verdict weir_guard_check(const struct weir_book *book,
					 const struct weir_prefix *prefix,
					 const struct weir_book_entry **ret_which,
					 size_t *ret_covered);

#endif
