/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel half as one object: program, maps, pins, attachments. The only door through which the agent reaches the
 * kernel. Not thread-safe: everything happens in the agent's loop.
 */
#ifndef WEIR_USER_DATAPATH_H
#define WEIR_USER_DATAPATH_H

#include <stdbool.h>

#include "user/base/addr.h"
#include "user/base/error.h"
#include "user/config/conf.h"
#include "user/datapath/table.h"
#include "weir/maps.h"

struct weir_datapath;

/* What happened at open, for the log and `weir status`. */
enum weir_adoption {
	WEIR_ADOPT_FRESH,   /* nothing was there */
	WEIR_ADOPT_PINS,    /* maps of an earlier agent, all state kept */
	WEIR_ADOPT_PROGRAM, /* maps of a program that `ip link` attached */
	WEIR_ADOPT_PARTLY,  /* some maps had another layout and were made anew: said in the log */
};

/* Loads the program. Mounts bpffs at conf->bpffs if nothing is mounted there; makes conf->bpffs/conf->instance; adopts
 * pinned maps whose ABI and layout match (else the maps of a weir program that is attached to one of the interfaces);
 * pins maps and program (at the first apply, where maps were made anew). Attaches nothing: apply comes first, then
 * attach. Needs root (CAP_SYS_ADMIN, to open maps by id, and CAP_NET_ADMIN). -EBUSY: another agent has the instance.
 */
int weir_datapath_open(const struct weir_conf *conf, struct weir_datapath **ret,
		       struct weir_error *e);
/* Releases descriptors; what is pinned and attached stays. */
void weir_datapath_free(struct weir_datapath *d);
/* After a start that failed: takes the pins and their folder away, and with them the maps' memory, if nothing was there
 * before (WEIR_ADOPT_FRESH) and nothing is attached. Else leaves all as it is. Only weir_datapath_free may follow.
 */
void weir_datapath_abandon(struct weir_datapath *d);
enum weir_adoption weir_datapath_adoption(const struct weir_datapath *d);
/* What was out of the ordinary so far (bpffs mounted, maps made anew and why, ...), one sentence a line; "" = nothing.
 * For the log.
 */
const char *weir_datapath_notes(const struct weir_datapath *d);

/* --- attaching ---- */
struct weir_attachment {
	char ifname[16];
	int ifindex;
	enum weir_attach how;
	bool native;  /* false: generic (sits behind GRO) */
	bool netlink; /* attached by netlink (chain, or adopted from `ip link`): no pinned link */
	bool attached;
	bool stale; /* with attach: external: not attached, but a weir program of other maps is */
	__u32 prog_id;
	char note[128]; /* e.g. why it fell back to generic */
};
/* Attaches to one interface as conf->attach and conf->xdp_mode say, or takes over what an earlier agent or `ip link`
 * left, by link update or netlink replace: no frame passes unlimited. Refuses somebody else's program by name and id.
 */
int weir_datapath_attach(struct weir_datapath *d, const char *ifname, struct weir_error *e);
/* Detaches what weir attached; -ENOENT if it did not. */
int weir_datapath_detach(struct weir_datapath *d, const char *ifname, struct weir_error *e);
/* Attachments known, also those left by an earlier agent. Returns how many (at most @max written). */
int weir_datapath_attachments(struct weir_datapath *d, struct weir_attachment *ret, int max);
/* Without an agent: detaches every interface (or one) of an instance and removes its pins. For `weir detach`. */
int weir_datapath_detach_pinned(const char *bpffs, const char *instance, const char *ifname,
				struct weir_error *e);

/* --- policy and lists ---- */
struct weir_list_item {
	struct weir_prefix prefix;
	__u64 expires_ns; /* CLOCK_MONOTONIC; 0 = never */
	__u32 origin;
	__u32 flags; /* enum weir_entry_flags */
};
struct weir_lists {
	struct weir_list_item *item[WEIR_LIST_MAX];
	size_t n[WEIR_LIST_MAX];
};
#define WEIR_LIST_ROOM 65536 /* entries in each list and family */

/* Puts limits (and, if not NULL, whole lists) in force in one step; keeps state by identity. On error nothing has
 * changed. @mode overrides conf->mode.
 */
int weir_datapath_apply(struct weir_datapath *d, const struct weir_conf *conf, enum weir_mode mode,
			const struct weir_lists *lists, struct weir_error *e);
int weir_datapath_set_mode(struct weir_datapath *d, enum weir_mode mode, struct weir_error *e);
/* Adds (extends) or removes entries in the lists in force, all or nothing. Removing what is not there is success. */
int weir_datapath_list_add(struct weir_datapath *d, enum weir_list list,
			   const struct weir_list_item *item, size_t n, struct weir_error *e);
int weir_datapath_list_del(struct weir_datapath *d, enum weir_list list,
			   const struct weir_prefix *item, size_t n, struct weir_error *e);
/* Reads entries back from the kernel (heap, *ret_n of them). -ENOMEM or what the kernel says. */
int weir_datapath_list_read(struct weir_datapath *d, enum weir_list list,
			    struct weir_list_item **ret, size_t *ret_n);

/* --- reading ---- */
const struct weir_policy *
weir_datapath_policy(const struct weir_datapath *d); /* in force; NULL before apply */
const struct weir_limit_name *
weir_datapath_names(const struct weir_datapath *d); /* WEIR_STATS_MAX of them */
/* Views of the tables in force; false if there are none yet. */
bool weir_datapath_tables(const struct weir_datapath *d, struct weir_tables *ret);
/* Sum over CPUs. -ENOMEM or what the kernel says. */
int weir_datapath_counters(const struct weir_datapath *d, struct weir_counters *ret);
typedef void (*weir_event_fn)(void *arg, const struct weir_event *event);
/* The ring buffer of events, from now on: @fn is called for each by weir_datapath_events_consume, which the loop calls when
 * the descriptor is readable. consume returns how many there were; it and fd -EBADF without an open.
 */
int weir_datapath_events_open(struct weir_datapath *d, weir_event_fn fn, void *arg,
			      struct weir_error *e);
int weir_datapath_events_fd(const struct weir_datapath *d);
int weir_datapath_events_consume(struct weir_datapath *d);
struct weir_table_use {
	char name[16];
	__u64 bytes;	  /* that it takes in the kernel, about */
	__u64 entries;	  /* that fit */
	__u64 used;	  /* 0 where that is not known */
	__u64 full_total; /* what found no room, ever */
};
/* Every map of the datapath, for `weir status`: at most @max rows; returns how many were written. */
int weir_datapath_memory(struct weir_datapath *d, struct weir_table_use *ret, int max);

#endif
