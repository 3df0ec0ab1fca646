/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of the agent share.
 *
 *	start.c     life                                       loop.c           events and timers
 *	source.c    a configuration with all it names          config.c         reload, confirm, mode
 *	force.c     a configuration in force, interfaces       limits.c         limits by command
 *	lists.c     lists and their sources, guard             list_*.c         lists by command, from a file, to disk
 *	state.c     what survives a restart                    sweep.c          state tables
 *	fleet*.c    what agents share                          pushed.c         limits that the store publishes
 *	request.c   the request layer's life                   shared.c         its shared store
 *	escalate.c  from there to the block list               seen.c           whose packets arrive here
 *	commands.c  requests of the admin socket (admin.c)     status.c, explain.c, request_json.c, ask.c   their answers
 *	meter.c, request_meter.c   counts a second             metrics*.c, pages.c   for monitoring
 */
#ifndef WEIR_AGENT_INT_H
#define WEIR_AGENT_INT_H

#include <event2/event.h>

#include "user/agent/admin.h"
#include "user/agent/agent.h"
#include "user/agent/book.h"
#include "user/agent/guard.h"
#include "user/agent/meter.h"
#include "user/agent/request_meter.h"
#include "user/agent/state.h"
#include "user/base/clock.h"
#include "user/config/conf.h"
#include "user/datapath/datapath.h"
#include "user/fleet/fleet.h"
#include "user/http/http.h"
#include "user/l7/engine.h"

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
	bool destination; /* that is what it is, not a source */
	unsigned limit;	  /* the one that is fullest */
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

/* What became of an address that the request layer wanted blocked; the name is a metric's label. Append only. */
#define WEIR_ESCALATIONS(X)                                                                        \
	X(BLOCKED, "blocked")                                                                      \
	X(WOULD, "would")                                                                          \
	X(PROXY, "refused_proxy")                                                                  \
	X(ALLOWED, "refused_allowed")                                                              \
	X(GUARDED, "refused_guarded")                                                              \
	X(SPECIAL, "refused_special")                                                              \
	X(UNSEEN, "refused_unseen")                                                                \
	X(NO_PACKETS, "refused_no_packet_layer")                                                   \
	X(FULL, "refused_list_full")                                                               \
	X(FAILED, "failed")
enum weir_escalation {
#define X(symbol, name) WEIR_ESCALATION_##symbol,
	WEIR_ESCALATIONS(X)
#undef X
		WEIR_ESCALATION_MAX
};
#define WEIR_ESCALATION_ORIGIN "escalation" /* of block entries: "escalation:RULE" */

/* Limits that an agent has published; see pushed.c. */
struct weir_pushed {
	__u64 generation; /* 0: none */
	char *text, *host, *who;
	__s64 at_s;
};

struct weir_agent {
	struct event_base *base;
	struct event *signals[4], *tick, *rescan, *watch, *ring, *l7_events;
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

	struct weir_datapath *dp;     /* NULL: the request layer alone */
	struct weir_l7 *l7;	      /* NULL: neither listeners nor request limits so far */
	struct weir_shared *shared;   /* store as of the start; NULL: embedded */
	struct weir_l7_worker *asker; /* for the agent's own questions */
	struct weir_http *http;
	bool http_started;
	struct weir_request_meter request;
	struct weir_http_stats http_seen; /* as of the last tick */
	struct weir_acting untrusted,
		pathless; /* forwarded headers that were ignored; proxies that tell too little */
	__u64 escalations[WEIR_ESCALATION_MAX];
	__u64 generation; /* configurations put in force by this process */
	__s64 reloaded_s; /* the last that came from the file */
	bool ready;	  /* all is in force, and the loop runs */
	bool forgetful; /* no packet layer, and no state file that could be written: by nature, not by failure */
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

	struct weir_fleet *fleet;		  /* NULL: the store is embedded */
	bool fleet_lists;			  /* entries by command are the fleet's */
	__u8 store_began[WEIR_CONF_STORE_DIGEST]; /* how the store is reached */
	bool fleet_quiet;			  /* a change of its lists is under way here */
	bool fleet_stale; /* its last change is not in force here: fleet_error */
	char fleet_error[256];
	__u64 fleet_again_ns;
	size_t fleet_left_out;	   /* prefixes of the fleet that do not fit here, about */
	bool fleet_refill;	   /* some of them may fit now */
	struct weir_book *held;	   /* the fleet's entries that do not act here: guarded, allowed */
	struct weir_pushed pushed; /* limits of the store, in force or the last good ones */
	struct weir_pushed *trial; /* those that are being put in force */
	bool pulled;		   /* by command, until reload */
	__u64 pushed_failed;	   /* generation that is wrong here */
	char pushed_error[512];
	struct weir_client *pusher; /* waits for the answer to its limit_push */
	struct weir_client *puller; /* … to its limit_pull */
	json_t *push_problems;	    /* what of it is rarely meant */

	struct weir_meter meter;
	struct weir_acting acting[WEIR_STATS_MAX]; /* of packet limits, by counter index */
	struct weir_event_log *events;
	__u64 events_unwritten;
	struct weir_sweeper sweep;
	struct weir_fleet_watch *watch_sources; /* NULL: no packet limit has scope: fleet */
	char notes[8][256];			/* for status: what was said at start */
	size_t n_notes;
};

/* --- start.c ---- */
void weir_agent_note(struct weir_agent *a, const char *text);
/* --- loop.c ---- */
int weir_agent_set_up_loop(struct weir_agent *a, struct weir_error *e);
/* Writes an event to the log and to those who follow. */
void weir_agent_tell(struct weir_agent *a, const struct weir_event_record *r);

/* --- source.c ---- */
/* Of a text: what agents compare. */
void weir_source_digest(const struct weir_source *s, char ret[static 33]);
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
/* Adds what is wrong to an array of lines. */
void weir_problem_lines(const struct weir_conf_problems *p, const char *name, json_t *lines);
/* The warning in such a line, without its place; NULL: it is none. */
const char *weir_warning_of(const json_t *line);
bool weir_warns(const json_t *problems, const char *text);
/* "problems" of @ret: the warnings of @now that @before has not. */
void weir_warnings_add(const json_t *before, const json_t *now, json_t *ret);
/* -EINVAL with l->problems filled, or another -errno; both with @e. */
int weir_agent_load(struct weir_agent *a, const struct weir_source *source, bool overrides,
		    bool lists, struct weir_loaded *ret, struct weir_error *e);

/* --- force.c ---- */
/* Are all interfaces there that @conf names, and that weir attaches to? Else a sentence with those there are. */
int weir_agent_check_interfaces(const struct weir_conf *conf, struct weir_error *e);
/* Takes l->conf over. @first: nothing has been applied before, so nothing is attached before the limits are there. */
int weir_agent_put_in_force(struct weir_agent *a, struct weir_loaded *l, bool first,
			    struct weir_error *e);
enum weir_mode weir_agent_mode(const struct weir_agent *a, const struct weir_conf *conf);
/* Tells the datapath what weir_agent_mode says. */
int weir_agent_force_mode(struct weir_agent *a, struct weir_error *e);
/* Interfaces that came back; returns how many are still missing. */
int weir_agent_attach_missing(struct weir_agent *a);

/* What a configuration asks for. */
bool weir_agent_wants_packets(const struct weir_conf *c);
bool weir_agent_wants_requests(const struct weir_conf *c);
/* -EINVAL: neither. */
int weir_agent_check_work(const struct weir_conf *c, struct weir_error *e);
/* Of the policy in the kernel; without one, how many have been put in force. */
__u64 weir_agent_generation(const struct weir_agent *a);

/* --- request.c ---- */
/* Makes the engine and opens the listeners that @conf has, before anything of it is in force. */
int weir_agent_open_requests(struct weir_agent *a, const struct weir_conf *conf,
			     struct weir_error *e);
/* From what is in force to @conf, or nothing. @listeners: them too, not limits alone. */
int weir_agent_change_requests(struct weir_agent *a, const struct weir_conf *conf, bool listeners,
			       struct weir_error *e);
/* Back to a->conf, after another part has failed. */
void weir_agent_undo_requests(struct weir_agent *a, bool listeners);
/* Answers from now on. */
int weir_agent_start_requests(struct weir_agent *a, struct weir_error *e);
void weir_agent_stop_requests(struct weir_agent *a);
void weir_agent_tick_requests(struct weir_agent *a, const struct weir_now *now);
/* A packet of @source was over @limit. */
void weir_agent_suspect(struct weir_agent *a, const char *limit, const struct weir_prefix *source);
/* "127.0.0.1:9470 nginx, unix:/run/a.sock caddy": for the log; "" = none. */
const char *weir_agent_listeners_text(struct weir_agent *a, char *buf, size_t size);

/* --- request_json.c ---- */
/* NULL: there is no request layer. @whole: for status, else for top. */
json_t *weir_agent_request_json(struct weir_agent *a, bool whole);
json_t *weir_agent_request_limits_json(struct weir_agent *a);
/* What the request layer knows of one client; NULL: there is no such layer. */
struct weir_asked;
json_t *weir_agent_inspect_json(struct weir_agent *a, const struct weir_asked *q);
/* The limit's overrides by command; NULL: none. */
json_t *weir_agent_overrides_json(const struct weir_agent *a, const char *limit);
void weir_agent_degraded_requests(struct weir_agent *a, json_t *list);

/* --- ask.c ---- */
json_t *weir_agent_ask(struct weir_agent *a, const json_t *request);
/* "ip", "api_key", "user" of a request; all may be missing. */
struct weir_asked {
	struct weir_prefix ip;
	struct weir_l7_who who;
	const char *words; /* "192.0.2.1", "user bob", "this API key"; NULL: nobody is named */
	char text[160];
	char by[160]; /* the same as options of a command: "--ip 192.0.2.1" */
};
int weir_asked_read(const json_t *request, struct weir_asked *ret, struct weir_error *e);

/* --- escalate.c ---- */
void weir_agent_escalate(struct weir_agent *a, const struct weir_l7_event *event);
const char *weir_escalation_name(enum weir_escalation r);
bool weir_is_escalation(const struct weir_book_entry *e);

/* --- metrics.c, pages.c ---- */
/* Heap; NULL: out of memory. */
char *weir_agent_metrics(struct weir_agent *a, size_t *ret_n);
/* weir_http_page_fn, for the listeners of profile metrics. */
char *weir_agent_page(void *agent, const char *path, unsigned *ret_status, size_t *ret_n);

/* --- config.c ---- */
/* Into the state file, as JSON; NULL: out of it. */
void weir_agent_keep(struct weir_agent *a, const char *key, const json_t *value);
json_t *weir_agent_recall(struct weir_agent *a, const char *key);
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

/* --- fleet.c ---- */
/* After the state file is there; no server needs to be. What was made by command so far becomes the fleet's. */
/* NULL: @conf reaches the store as this agent does; else the sentence that it does not. */
const char *weir_agent_store_waits(const struct weir_agent *a, const struct weir_conf *conf);
int weir_agent_open_fleet(struct weir_agent *a, const struct weir_conf *conf, struct weir_error *e);
void weir_agent_close_fleet(struct weir_agent *a);
/* What the fleet hashes keys with, as far as it is known, to an engine that was just made. */
void weir_agent_give_secret(struct weir_agent *a);
/* The fleet's entries into a->book, before it is in force. */
int weir_agent_join_lists(struct weir_agent *a, struct weir_error *e);
/* Which of its entries act here, anew: guards or the lists of the file are others. */
void weir_agent_judge_fleet(struct weir_agent *a);
void weir_agent_tick_fleet(struct weir_agent *a, const struct weir_now *now);
/* The same as weir_list_origin_add and weir_agent_take_and_store, fleet-wide. */
int weir_agent_fleet_add(struct weir_agent *a, const struct weir_list_origin *o,
			 const struct weir_prefix *p, size_t n, json_t *reply,
			 struct weir_error *e);
int weir_agent_fleet_del(struct weir_agent *a, enum weir_list list, const struct weir_prefix *p,
			 const char *origin, json_t *reply, size_t *ret_n, struct weir_error *e);
/* --- fleet_sources.c ---- */
/* After a new policy, or another mode: which limits the fleet counts together. */
void weir_agent_pace_sources(struct weir_agent *a);
/* Before the fleet. */
void weir_agent_close_sources(struct weir_agent *a);
struct weir_sources_counts {
	__u64 told, untold, blocked, would_block, refused; /* counts of sources; sources */
};
bool weir_agent_sources_counts(const struct weir_agent *a, struct weir_sources_counts *ret);
json_t *weir_agent_sources_json(struct weir_agent *a); /* NULL: there are none */
/* Why they do not count together, or NULL. */
const char *weir_agent_sources_idle(const struct weir_agent *a);
/* What the store has against what hosts tell it of them; NULL: nothing. */
const char *weir_agent_sources_why(const struct weir_agent *a);
/* --- fleet_json.c ---- */
json_t *weir_agent_fleet_json(struct weir_agent *a);
void weir_agent_degraded_fleet(struct weir_agent *a, json_t *list);

/* --- pushed.c ---- */
void weir_pushed_done(struct weir_pushed *p);
/* Do the store's limits count here? */
bool weir_agent_uses_pushed(const struct weir_agent *a, const struct weir_conf *file);
/* The file's text with the store's limits in place of its own: heap. */
int weir_agent_compose(const struct weir_source *file, const struct weir_pushed *p, char **ret,
		       size_t *ret_n, struct weir_error *e);
/* Others were published. */
void weir_agent_take_pushed(struct weir_agent *a, const struct weir_fleet_limits *l);
/* Into the state file. */
void weir_agent_keep_pushed(struct weir_agent *a);
/* Of a former run; before the first load. */
void weir_agent_restore_pushed(struct weir_agent *a);
/* NULL: the answer comes later; also below. */
json_t *weir_agent_pull(struct weir_agent *a, struct weir_client *c);
json_t *weir_agent_push(struct weir_agent *a, struct weir_client *c);
void weir_agent_diff_pushed(struct weir_agent *a, json_t *reply);

/* --- sweep.c ---- */
int weir_agent_sweep_start(struct weir_agent *a);
/* After a new policy: the pace follows the shortest wrap. */
void weir_agent_sweep_pace(struct weir_agent *a);
json_t *weir_agent_loud_json(struct weir_agent *a, const struct weir_now *now);

/* --- status.c, explain.c ---- */
json_t *weir_agent_status(struct weir_agent *a);
json_t *weir_agent_top(struct weir_agent *a);
json_t *weir_agent_limits_json(struct weir_agent *a);
json_t *weir_agent_explain(struct weir_agent *a, const struct weir_asked *q);
/* Why this host or instance is not ready to be relied upon; NULL: it is. */
const char *weir_agent_unready(struct weir_agent *a, char *buf, size_t size);
/* That the store does not answer, since when, and what each limit does; "" where it does, or there is none. */
#define WEIR_AGENT_AWAY_MAX 768
void weir_agent_say_away(const struct weir_agent *a, char *buf, size_t size);
/* Counter index and policy index of a limit in force; false if there is none. */
bool weir_agent_find_limit(const struct weir_agent *a, const char *name, unsigned *ret_stat,
			   unsigned *ret_limit);
const char *weir_agent_limit_at(const struct weir_agent *a, unsigned limit);

/* Replies. */
json_t *weir_reply_ok(void);
json_t *weir_reply_error(int r, const char *text);

#endif
