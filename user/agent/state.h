/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What must survive a restart and a reboot, in one SQLite file of the state directory: list entries made by command,
 * and a few settings (mode set by command, a change that waits for `weir confirm`, saved limit overrides). Times are
 * wall-clock seconds. Called by the agent only.
 */
#ifndef WEIR_AGENT_STATE_H
#define WEIR_AGENT_STATE_H

#include <stdbool.h>

#include "user/base/addr.h"
#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "weir/maps.h"

struct weir_state;

#define WEIR_STATE_NAME_MAX   64  /* of an origin, with its NUL */
#define WEIR_STATE_REASON_MAX 160 /* with its NUL */

/* Strings are borrowed: the caller's on put, valid during the call in weir_state_fn. */
struct weir_state_entry {
	enum weir_list list;
	struct weir_prefix prefix;
	const char *origin;
	const char *reason; /* may be NULL */
	const char *who;    /* may be NULL */
	__s64 created_s;
	__s64 expires_s; /* 0 = never */
	__u32 flags;	 /* enum weir_entry_flags */
};

/* Opens or makes @path. A damaged file is moved aside (*ret_note says so; heap or NULL) and a new one begun: lists
 * made by command are then lost, but protection starts. A file from a newer weir is refused.
 */
int weir_state_open(const char *path, struct weir_state **ret, char **ret_note,
		    struct weir_error *e);
/* After weir_state_open has failed (a full or read-only disk): what can be read of @path without writing anything, else
 * nothing. Never fails but without memory. Every change is refused with -EROFS; weir_state_why says @why. Another
 * weir_state_open is to be tried later. @ret_read: it holds what the file holds, but perhaps its last changes.
 */
int weir_state_open_reading(const char *path, const char *why, struct weir_state **ret,
			    bool *ret_read);
/* Puts what weir_state_open makes in the place of *@s, which lets go of the file first. On error it stays, without what
 * it could read.
 */
int weir_state_reopen(const char *path, struct weir_state **s, char **ret_note,
		      struct weir_error *e);
/* False after weir_state_open_reading. */
bool weir_state_writable(const struct weir_state *s);
void weir_state_free(struct weir_state *s);
DEFINE_CLEANUP(struct weir_state, weir_state_free)

/* Changes between begin and commit are all in the file, or none. -EROFS, -ENOSPC and what else SQLite meets, as errno:
 * here and of every change below. After a commit that failed: read weir_state_why, then roll back.
 */
int weir_state_begin(struct weir_state *s);
int weir_state_commit(struct weir_state *s);
void weir_state_rollback(struct weir_state *s);

/* Inserts, or replaces the entry of the same list, prefix and origin. */
int weir_state_put(struct weir_state *s, const struct weir_state_entry *entry);
/* Deleting what is not there is success. */
int weir_state_del(struct weir_state *s, enum weir_list list, const struct weir_prefix *prefix,
		   const char *origin);
/* Forgets all entries; or those that have ended by @now_s. */
int weir_state_clear(struct weir_state *s);
int weir_state_expire(struct weir_state *s, __s64 now_s);
typedef int (*weir_state_fn)(void *arg, const struct weir_state_entry *entry);
/* Stops at the first nonzero result and returns it. Rows that cannot be read are skipped and counted. */
int weir_state_each(struct weir_state *s, weir_state_fn fn, void *arg, unsigned *ret_bad_rows);

/* @value NULL deletes. */
int weir_state_set(struct weir_state *s, const char *key, const char *value);
/* *ret is heap, or NULL if there is none. */
int weir_state_get(struct weir_state *s, const char *key, char **ret);

/* SQLite's own words for the last failure. */
const char *weir_state_why(const struct weir_state *s);

#endif
