/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All states that one client's address, key, user or token leads to: which keys can be made of what is known (search.c),
 * and the store's word on one of them, here and now (search_ask.c). Called by inspect.c and reset.c; not for others.
 */
#ifndef WEIR_L7_SEARCH_H
#define WEIR_L7_SEARCH_H

#include "user/l7/engine_int.h"

/* One key that can be made from what is known. */
struct weir_found {
	const struct weir_rule *rule;
	const struct weir_key *key;
	const char *words;
	bool everybodys; /* no part of it is the client's */
};
/* Called for each; a negative result ends the search. */
typedef int weir_found_fn(void *arg, const struct weir_found *f);

struct weir_search {
	struct weir_l7_worker *w;
	const struct weir_rules *rules;
	const struct weir_l7_who *who;
	bool own_only;	  /* keys that hold a part of @who */
	bool all_methods; /* not only the usual ones */
	struct weir_l7_asked asked;
	struct weir_l7_query query;
	struct weir_header_list headers; /* none */
	weir_found_fn *fn;
	void *arg;
	size_t n;
};

/* Calls s->fn for each key of @limit (NULL: of all limits) that can be made. w, rules, who, own_only, all_methods, fn and
 * arg are set before; s->n is how many there were. 0, or what fn returned, or -EIO: keys cannot be made.
 */
int weir_search_run(struct weir_search *s, const char *limit);
/* Is no part of such a key a client's? */
bool weir_search_is_everybodys(const struct weir_key_choice *c);

/* In fn: the state of @f as one layer that is shown, or forgotten (@reset). -EAGAIN: the store does not answer at once. */
int weir_search_ask(struct weir_search *s, const struct weir_found *f, bool reset,
		    struct weir_store_layer *ret);

#endif
