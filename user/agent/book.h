/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lists as people made them: every entry with who made it and why. Several sources may name the same prefix; what
 * the kernel gets is their union. A change is made on a copy, which is then compared with the book in force, so that
 * a failure half-way leaves the old one. Pure data: no system call. Called by the agent only.
 */
#ifndef WEIR_AGENT_BOOK_H
#define WEIR_AGENT_BOOK_H

#include <stdbool.h>
#include <stddef.h>

#include "user/base/addr.h"
#include "user/base/cleanup.h"
#include "user/datapath/datapath.h"

/* In the order of strength: of a prefix with several sources the first gives the kernel entry its origin. The numbers
 * are in the kernel's maps (weir_entry.origin): append only.
 */
enum weir_origin {
	WEIR_ORIGIN_NONE,
	WEIR_ORIGIN_FILE,      /* the configuration */
	WEIR_ORIGIN_LIST_FILE, /* a file it names */
	WEIR_ORIGIN_COMMAND,   /* weir block|allow add, load */
	WEIR_ORIGIN_GUARD, /* found by the agent: own addresses, gateways, resolvers, sessions */
	WEIR_ORIGIN_MAX
};
/* "command", "list-file"…, as `weir block list` shows it. */
const char *weir_origin_name(enum weir_origin origin);

/* Shared by all entries that say the same; NULL = none. */
struct weir_shared_text;
/* A copy of @s with one reference; NULL: no memory, or @s is NULL or empty. */
struct weir_shared_text *weir_shared_text_new(const char *s);
/* One reference more to @t (NULL stays NULL); weir_shared_text_free takes one away. */
struct weir_shared_text *weir_shared_text_ref(struct weir_shared_text *t);
void weir_shared_text_free(struct weir_shared_text *t);
DEFINE_CLEANUP(struct weir_shared_text, weir_shared_text_free)
const char *weir_shared_text_get(const struct weir_shared_text *t); /* "" for NULL */

struct weir_book_entry {
	struct weir_prefix prefix;
	enum weir_origin origin;
	__u32 flags;	  /* enum weir_entry_flags */
	int line;	  /* in the file, 0 elsewhere */
	__u64 expires_ns; /* CLOCK_MONOTONIC; 0 = never */
	__s64 expires_s;  /* the same in wall-clock time */
	bool by_wall;	  /* of a former run: where the clock is set, expires_ns is what follows */
	__s64 created_s;  /* 0 = not known */
	struct weir_shared_text
		*name; /* of the file, or of the origin ("command", "drop.netset") */
	struct weir_shared_text *reason;
	struct weir_shared_text *who;
	bool fleet;		       /* the fleet's, kept by user/fleet */
	struct weir_shared_text *host; /* where it was made; NULL: here */
};

/* Sorted by prefix, then origin, then name. */
struct weir_book_list {
	struct weir_book_entry *item;
	size_t n, room;
	size_t sorted; /* so many at the front are */
};

struct weir_book {
	struct weir_book_list list[WEIR_LIST_MAX];
};

/* An empty one, and a copy that shares texts; NULL: no memory. */
struct weir_book *weir_book_new(void);
struct weir_book *weir_book_copy(const struct weir_book *b);
void weir_book_free(struct weir_book *b);
DEFINE_CLEANUP(struct weir_book, weir_book_free)

/* Appends (takes its own references to the texts); of equal prefix, origin and name, weir_book_settle keeps one: the
 * one that ends later, with the newer reason. Settle before reading. -ENOMEM.
 */
int weir_book_add(struct weir_book *b, enum weir_list list, const struct weir_book_entry *entry);
void weir_book_settle(struct weir_book *b);

typedef bool (*weir_book_match_fn)(const void *arg, enum weir_list list,
				   const struct weir_book_entry *entry);
/* Removes every entry for which @match holds, or of @origin; returns how many. @list WEIR_LIST_MAX = all lists. */
size_t weir_book_remove(struct weir_book *b, enum weir_list list, weir_book_match_fn match,
			const void *arg);
size_t weir_book_drop_origin(struct weir_book *b, enum weir_list list, enum weir_origin origin);

/* All entries of exactly @prefix: returns how many, the first in *ret. */
size_t weir_book_find(const struct weir_book *b, enum weir_list list,
		      const struct weir_prefix *prefix, const struct weir_book_entry **ret);
/* Distinct prefixes of a family. */
size_t weir_book_count(const struct weir_book *b, enum weir_list list, __u8 family);

/* What the kernel must hold: one item for each distinct prefix. Heap; free with weir_book_lists_done. -ENOMEM. */
int weir_book_export(const struct weir_book *b, struct weir_lists *ret);
void weir_book_lists_done(struct weir_lists *l);

/* What must be told to the kernel to come from one book to the next, per list. Heap arrays; free with
 * weir_book_change_done.
 */
struct weir_book_change {
	struct weir_list_item *add;
	size_t n_add;
	struct weir_prefix *del;
	size_t n_del;
};
/* Both settled. -ENOMEM. */
int weir_book_compare(const struct weir_book *from, const struct weir_book *to, enum weir_list list,
		      struct weir_book_change *ret);
void weir_book_change_done(struct weir_book_change *c);

/* Calls @fn for each entry (not prefix) of @list that is new or different in @to (@gone false), or is only in @from
 * (@gone true); stops at the first nonzero result and returns it.
 */
typedef int (*weir_book_diff_fn)(void *arg, enum weir_list list,
				 const struct weir_book_entry *entry, bool gone);
int weir_book_diff(const struct weir_book *from, const struct weir_book *to, enum weir_list list,
		   weir_book_diff_fn fn, void *arg);

#endif
