/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of the agent share: start.c (life), source.c (load), force.c (apply, attach), config.c (reload, confirm,
 * mode), limits.c (overrides), lists.c (lists and guard), sweep.c (state tables), status.c and explain.c (what people
 * ask), commands.c (requests).
 */
#ifndef WEIR_AGENT_INT_H
#define WEIR_AGENT_INT_H

#include <event2/event.h>

#include "user/agent/admin.h"
#include "user/agent/agent.h"
#include "user/agent/book.h"
#include "user/agent/clock.h"
#include "user/agent/guard.h"
#include "user/agent/meter.h"
#include "user/agent/state.h"
#include "user/config/conf.h"
#include "user/datapath/datapath.h"

#define WEIR_CONF_TEXT_MAX (16 << 20) /* as weir check */
#define WEIR_OVERRIDES_MAX 256
#define WEIR_SESSIONS_MAX  16
#define WEIR_SESSION_NS                                                                            \
	(3600ull * WEIR_NS_PER_S) /* an administrator's address is guarded for so long */
#define WEIR_LOUD_MAX	    50
#define WEIR_INTERFACES_MAX 64

/* A configuration's text, kept so that `limit set` and going back need no file. */
struct weir_source {
	char *path; /* NULL: built-in defaults */
	char *text;
	size_t n;
	__s64 read_s;
};

struct weir_override {
	char limit[WEIR_NAME_MAX];
	char key[32];
	char value[128];
	char who[64];
	__s64 since_s;
};

/* The mode that a command, a flag or an unconfirmed start put over the configuration's. */
struct weir_mode_override {
	bool set;
	enum weir_mode mode;
	bool back_set; /* at the end: to back, else to the configuration's */
	enum weir_mode back;
	__u64 until_ns; /* 0 = until changed */
	__s64 until_s, since_s;
	bool by_wall; /* of a former run: where the clock is set, until_ns is what follows */
	char why[64]; /* "command", "not confirmed" */
	char who[64];
};

enum weir_confirm_kind { WEIR_CONFIRM_NONE, WEIR_CONFIRM_RUN, WEIR_CONFIRM_RELOAD };
struct weir_confirm {
	enum weir_confirm_kind kind;
	__u64 until_ns;
	__s64 until_s;
	bool by_wall;		     /* as above */
	struct weir_source previous; /* RELOAD: where it goes back to */
};

struct weir_session {
	struct weir_prefix prefix;
	__u64 until_ns; /* 0 = free; UINT64_MAX = as long as the agent runs */
};

struct weir_loud {
	struct weir_prefix source;
	unsigned limit; /* the one that is fullest */
	struct weir_limit_state state;
};

struct weir_sweeper {
	struct event *timer;
	__u32 next;			   /* bucket */
	__u32 slice;			   /* buckets at a time */
	__u64 pass_ns;			   /* a whole pass takes so long */
	__u64 interval_ns;		   /* between slices */
	struct weir_sweep pass;		   /* of the pass that runs */
	struct weir_sweep last;		   /* of the last whole one */
	__u64 last_ns;			   /* when that ended; 0 = not yet */
	__u64 pass_began_ns, pass_took_ns; /* of the last whole one */
	__u64 released;			   /* ever */
	struct weir_loud loud[WEIR_LOUD_MAX];
	size_t n_loud;
	__u64 loud_ns;	     /* when they were looked for */
	__u64 loud_again_ns; /* not before */
};

struct weir_agent {
	struct event_base *base;
	struct event *signals[4], *tick, *rescan, *watch, *ring;
	int watch_fd;
	int lock_fd;
	struct weir_admin *admin;
	char *socket_path;

	struct weir_source source; /* in force */
	struct weir_conf *conf;	   /* with overrides */
	char **only_interfaces;	   /* -i; NULL = the configuration's */
	struct weir_override override[WEIR_OVERRIDES_MAX];
	size_t n_override;
	struct weir_mode_override mode;
	bool start_monitor; /* --monitor */
	enum weir_mode in_force;
	__s64 mode_since_s, applied_s, started_s;
	__s64 clock_offset_s; /* wall less monotonic, as last seen */
	bool clock_known;
	struct weir_confirm confirm;
	char *refused_text; /* a file content that nobody confirmed: not used again until `weir reload` */
	__s64 reverted_s;     /* when that was found */
	char last_error[512]; /* of the last reload that failed; "" after one that did not */

	struct weir_datapath *dp;
	struct weir_state *state;
	struct weir_book *book;
	__u64 next_expiry_ns; /* 0 = none */
	__u64 reconcile_ns;   /* when the kernel's lists are next compared */
	unsigned reconcile_list;
	__u64 reconciled; /* entries found missing or too many, ever */
	struct weir_session session[WEIR_SESSIONS_MAX];
	bool guard_cut;
	bool rescan_wanted, link_changed;
	bool detached;	       /* by command: not attached again by itself */
	char store_error[256]; /* the state file's last failure; "" = all is stored */
	bool unstored;	       /* list entries that act and are not in the state file */
	bool unkept;	       /* the same of settings */
	bool unread;	       /* what the state file holds is not known */
	__u64 store_again_ns;

	struct weir_meter meter;
	struct weir_event_log *events;
	__u64 events_unwritten;
	struct weir_sweeper sweep;
	char notes[8][256]; /* for status: what was said at start */
	size_t n_notes;
};

/* --- start.c ---- */
void weir_agent_note(struct weir_agent *a, const char *text);

/* --- source.c ---- */
void weir_source_done(struct weir_source *s);
int weir_source_make(const char *path, const char *text, size_t n, __s64 read_s,
		     struct weir_source *ret);
int weir_source_read(const char *path, struct weir_source *ret, struct weir_error *e);
/* What a source means: a configuration, with overrides if asked, and with its own part of the lists. */
struct weir_loaded {
	struct weir_conf *conf;
	struct weir_book *book;
	json_t *problems; /* lines, errors and warnings */
	size_t n_errors;
};
void weir_loaded_done(struct weir_loaded *l);
/* -EINVAL with l->problems filled, or another -errno; both with @e. */
int weir_agent_load(struct weir_agent *a, const struct weir_source *source, bool overrides,
		    bool lists, struct weir_loaded *ret, struct weir_error *e);

/* --- force.c ---- */
/* Takes l->conf over. @first: nothing has been applied before, so nothing is attached before the limits are there. */
int weir_agent_put_in_force(struct weir_agent *a, struct weir_loaded *l, bool first,
			    struct weir_error *e);
enum weir_mode weir_agent_mode(const struct weir_agent *a, const struct weir_conf *conf);
/* Tells the datapath what weir_agent_mode says. */
int weir_agent_force_mode(struct weir_agent *a, struct weir_error *e);
/* Interfaces that came back; returns how many are still missing. */
int weir_agent_attach_missing(struct weir_agent *a);

/* --- config.c ---- */
/* Reads the file anew. @ret (may be NULL) gets "changes" and "problems". */
int weir_agent_reload(struct weir_agent *a, __u64 confirm_ns, json_t *ret, struct weir_error *e);
int weir_agent_confirm(struct weir_agent *a, struct weir_error *e);
int weir_agent_set_mode(struct weir_agent *a, enum weir_mode mode, __u64 for_ns, const char *why,
			const char *who, struct weir_error *e);
/* Settings kept in the state file; before the first load. */
void weir_agent_restore(struct weir_agent *a, const struct weir_now *now);
/* Writes all settings again, after a failure. */
void weir_agent_keep_settings(struct weir_agent *a);
/* Notices that the wall clock was set (NTP, suspend): what was meant in wall time follows it, the rest is only named
 * anew. Once a second, before anything is judged by time.
 */
void weir_agent_follow_clock(struct weir_agent *a, const struct weir_now *now);
void weir_agent_deadlines(struct weir_agent *a, const struct weir_now *now);
void weir_agent_start_confirm(struct weir_agent *a, __u64 confirm_ns);

/* --- limits.c ---- */
struct weir_changes {
	json_t *list;
	const char *event; /* log each line under this name; NULL = do not */
};
void weir_changes_add(void *arg, const char *line);
void weir_changes_of_lists(const struct weir_agent *a, const struct weir_book *loaded,
			   struct weir_changes *c);
/* @settings: an object of texts. @save: into the file too. @ret gets "changes". */
int weir_agent_set_override(struct weir_agent *a, const char *limit, const json_t *settings,
			    bool save, const char *who, json_t *ret, struct weir_error *e);
int weir_agent_unset_override(struct weir_agent *a, const char *limit, const char *key, json_t *ret,
			      struct weir_error *e);
json_t *weir_agent_diff(struct weir_agent *a, struct weir_error *e);

/* --- lists.c ---- */
int weir_agent_check_room(const struct weir_book *b, struct weir_error *e);
int weir_agent_restore_lists(struct weir_agent *a, const struct weir_now *now,
			     struct weir_error *e);
/* Entries of a state file that could not be read before, beside those in force. */
int weir_agent_merge_lists(struct weir_agent *a, const struct weir_now *now, struct weir_error *e);
int weir_agent_move_lists(struct weir_agent *a, const struct weir_now *now, __s64 step_s,
			  struct weir_error *e);
int weir_agent_scan_guards(struct weir_agent *a, struct weir_book *book, int timeout_ms,
			   struct weir_error *e);
int weir_agent_refresh_guards(struct weir_agent *a);
/* Remembers an administrator's address; true if it is a new one. */
bool weir_agent_add_session(struct weir_agent *a, const char *ssh, __u64 until_ns,
			    const struct weir_now *now);
/* Brings the kernel from a->book to @book (taken over on success). */
int weir_agent_take_book(struct weir_agent *a, struct weir_book **book, struct weir_error *e);
void weir_agent_set_book(struct weir_agent *a, struct weir_book **book);
void weir_agent_expire(struct weir_agent *a, const struct weir_now *now);
void weir_agent_reconcile(struct weir_agent *a, const struct weir_now *now);
/* --- list_commands.c ---- */
json_t *weir_agent_list_command(struct weir_agent *a, struct weir_client *c, const char *cmd,
				const json_t *request);
/* Where an entry comes from, for people: "command", "/etc/weir/weir.yaml:12", "own address on eth0". */
const char *weir_agent_entry_where(const struct weir_book_entry *e, char *buf, size_t size);
json_t *weir_agent_lists_json(const struct weir_agent *a);
json_t *weir_book_entry_json(const struct weir_agent *a, enum weir_list list,
			     const struct weir_book_entry *e);

/* What all entries of one command share. */
struct weir_list_origin {
	enum weir_list list;
	__u32 flags;
	__s64 created_s, expires_s;
	__u64 expires_ns;
	struct weir_shared_text *name, *reason, *who;
};
int weir_list_origin_read(const json_t *request, struct weir_client *c,
			  struct weir_list_origin *ret, struct weir_error *e);
int weir_list_origin_add(struct weir_book *b, const struct weir_list_origin *o,
			 const struct weir_prefix *p);
void weir_list_origin_done(struct weir_list_origin *o);
int weir_read_prefix(const char *text, struct weir_prefix *ret, struct weir_error *e);
const char *weir_list_name(enum weir_list list);
void weir_reply_note(json_t *reply, const char *text);

/* --- list_load.c ---- */
json_t *weir_agent_load_begin(struct weir_client *c, const json_t *request);
json_t *weir_agent_load_add(struct weir_client *c, const json_t *request);
json_t *weir_agent_load_commit(struct weir_agent *a, struct weir_client *c);

/* --- list_store.c ---- */
/* Puts *book in force and in the state file. */
int weir_agent_take_and_store(struct weir_agent *a, struct weir_book **book, json_t *reply,
			      struct weir_error *e);
/* Opens the state file; where it cannot be written, reads it and says so. */
int weir_agent_open_state(struct weir_agent *a, struct weir_error *e);
/* A disk that is full, read-only or broken: to go on without it, unlike what tells of a mistake. */
bool weir_disk_refuses(int r);
/* After a failure: tries to write all entries. */
void weir_agent_store_again(struct weir_agent *a, const struct weir_now *now);

/* --- sweep.c ---- */
int weir_agent_sweep_start(struct weir_agent *a);
/* After a new policy: the pace follows the shortest wrap. */
void weir_agent_sweep_pace(struct weir_agent *a);
json_t *weir_agent_loud_json(struct weir_agent *a, const struct weir_now *now);

/* --- status.c, explain.c ---- */
json_t *weir_agent_status(struct weir_agent *a);
json_t *weir_agent_top(struct weir_agent *a);
json_t *weir_agent_limits_json(struct weir_agent *a);
json_t *weir_agent_explain(struct weir_agent *a, const struct weir_prefix *who);
/* Counter index and policy index of a limit in force; false if there is none. */
bool weir_agent_find_limit(const struct weir_agent *a, const char *name, unsigned *ret_stat,
			   unsigned *ret_limit);
const char *weir_agent_limit_at(const struct weir_agent *a, unsigned limit);

/* Replies. */
json_t *weir_reply_ok(void);
json_t *weir_reply_error(int r, const char *text);

#endif
