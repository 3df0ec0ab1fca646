/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of the fleet share; nobody outside of user/fleet and its tests includes this. */
#ifndef WEIR_FLEET_FLEET_INT_H
#define WEIR_FLEET_FLEET_INT_H

#include <stdbool.h>

#include "user/fleet/fleet.h"

struct event;
struct redisReply;
struct sqlite3;
struct sqlite3_stmt;

#define WEIR_FLEET_POLL_NS    250000000ull
#define WEIR_FLEET_BEAT_NS    1000000000ull
#define WEIR_FLEET_CALL_NS    2000000000ull
#define WEIR_FLEET_SETTLE_NS  1000000000ull /* what the store has said is on disk by then */
#define WEIR_FLEET_BATCH      64      /* changes in one call: about a millisecond of the server */
#define WEIR_FLEET_PAGE	      512     /* changes or entries read in one call */
#define WEIR_FLEET_WAITING    2000000 /* own changes that are not in the store, at most */
#define WEIR_FLEET_VALUE_MAX  8192
#define WEIR_FLEET_KEY_STRLEN (WEIR_PREFIX_STRLEN + 8)
#define WEIR_FLEET_AGENTS_MAX 1024
#define WEIR_FLEET_ID_HEX     32

/* --- merge.c: pure -------------------------------------------------------------------------------------------------- */

const char *weir_fleet_key_format(const struct weir_fleet_key *key,
				  char buf[static WEIR_FLEET_KEY_STRLEN]);
int weir_fleet_key_parse(const char *text, size_t n, struct weir_fleet_key *ret);

/* Entries of lines. Those that make no sense, or are deleted, are left out. */
struct weir_fleet_lines {
	struct weir_fleet_entry entry[WEIR_FLEET_ORIGINS_MAX];
	size_t n;
	__u64 gone; /* version of the last deletion; 0: none is known */
	__u64 said; /* of what was said last */
	char text[WEIR_FLEET_VALUE_MAX];
};
void weir_fleet_lines_read(const char *text, size_t n, struct weir_fleet_lines *ret);
/* Of a body: "GONE\n" before the lines. */
void weir_fleet_body_read(const char *body, size_t n, struct weir_fleet_lines *ret);
/* Length, or 0 if it does not fit. */
size_t weir_fleet_lines_write(const struct weir_fleet_entry *entry, size_t n, char *buf,
			      size_t size);
/* The later end, for ever beats all; what was made first stays so; the newer reason and its author. Of too many origins
 * the one goes that ends first. @entry has room for ORIGINS_MAX.
 */
size_t weir_fleet_merge(struct weir_fleet_entry *entry, size_t n,
			const struct weir_fleet_entry *add);
size_t weir_fleet_drop_over(struct weir_fleet_entry *entry, size_t n, __u64 now_ms);
/* "x" stands for "x" and "x:y"; @exactly: only for itself; NULL or "": all. */
bool weir_fleet_has_origin(const char *name, const char *origin, bool exactly);
size_t weir_fleet_drop_origin(struct weir_fleet_entry *entry, size_t n, const char *origin,
			      bool exactly);
/* Control characters become blanks, what is too long is cut. */
void weir_fleet_clean(const char *from, char *to, size_t size);
/* "VERSION BODY" */
int weir_fleet_value_read(const char *value, size_t n, __u64 *ret_version, const char **ret_body,
			  size_t *ret_n);
/* "1795977139110-3" as one number; 0: it makes no sense. */
__u64 weir_fleet_version(const char *stream_id, size_t n);

/* --- replica.c -------------------------------------------------------------------------------------------------------- */

enum weir_fleet_op_kind {
	WEIR_FLEET_ADD = 'A', /* data: a line */
	WEIR_FLEET_GUESS =
		'a', /* the same, its end by this host's clock: the server's was not heard yet */
	WEIR_FLEET_DEL = 'D',	 /* data: origin or "" */
	WEIR_FLEET_ORIGIN = 'O', /* data: origin; what of it comes to light before its turn */
};

/* An own change on its way to the store. */
struct weir_fleet_op {
	struct weir_fleet_op *prev, *next; /* in order */
	struct weir_fleet_op *next_here;   /* of its item */
	struct weir_fleet_item *item;	   /* NULL: ORIGIN */
	enum weir_list list;		   /* ORIGIN */
	char kind;
	__u64 ord, sub; /* its place on disk */
	__u64 batch;	/* 0: not sent yet */
	char *data;
};

struct weir_fleet_item {
	struct weir_fleet_item *chain;	     /* of its hash */
	struct weir_fleet_item *prev, *next; /* all of them */
	struct weir_fleet_key key;
	__u64 version;	  /* of the store; 0: it has not said anything */
	char *body;	  /* NULL: it has nothing */
	bool there;	  /* there are entries in it … */
	__u64 end_ms;	  /* … and then all of them have ended; 0: never */
	__u64 gone, said; /* as of the lines */
	struct weir_fleet_op *op, *last_op;
	unsigned seen; /* the reading it was last met in */
};

struct weir_fleet_replica {
	struct weir_fleet_item **bucket;
	size_t n_buckets, n_items, n_there, n_ops;
	struct weir_fleet_item *first, *last;
	struct weir_fleet_item *cursor, *sweep; /* moved on when theirs goes */
	struct weir_fleet_op *first_op, *last_op;
	__u8 hash_key[16];
};

int weir_fleet_replica_init(struct weir_fleet_replica *r);
void weir_fleet_replica_done(struct weir_fleet_replica *r);
struct weir_fleet_item *weir_fleet_find(const struct weir_fleet_replica *r,
					const struct weir_fleet_key *key);
/* NULL: no memory. */
struct weir_fleet_item *weir_fleet_item(struct weir_fleet_replica *r,
					const struct weir_fleet_key *key);
/* What the store says, if it is newer: 1; 0: it is not; -ENOMEM. @body NULL: nothing. */
int weir_fleet_learn(struct weir_fleet_replica *r, struct weir_fleet_item *i, __u64 version,
		     const char *body, size_t n);
/* Removes it, unless an own change needs it. */
bool weir_fleet_forget(struct weir_fleet_replica *r, struct weir_fleet_item *i);
/* What counts: with own changes. */
void weir_fleet_effective(const struct weir_fleet_item *i, __u64 now_ms,
			  struct weir_fleet_lines *ret);
/* Appends, or with @before puts it there; takes @data. */
struct weir_fleet_op *weir_fleet_op_new(struct weir_fleet_replica *r, char kind,
					struct weir_fleet_item *item, enum weir_list list,
					const char *data, struct weir_fleet_op *before);
void weir_fleet_op_free(struct weir_fleet_replica *r, struct weir_fleet_op *op);

/* --- disk.c ----------------------------------------------------------------------------------------------------------- */

struct weir_fleet_disk;
/* @path NULL: in memory. -EUCLEAN: damaged; others as SQLite says, with a sentence. */
int weir_fleet_disk_open(const char *path, struct weir_fleet_disk **ret, struct weir_error *e);
void weir_fleet_disk_free(struct weir_fleet_disk *d);
DEFINE_CLEANUP(struct weir_fleet_disk, weir_fleet_disk_free)
/* Nested pairs count as one. After an error in between, end rolls back and returns it. */
void weir_fleet_disk_begin(struct weir_fleet_disk *d);
int weir_fleet_disk_end(struct weir_fleet_disk *d);
/* The same, but it is on disk only with what ends for good after it: of what the store can be asked for again. */
int weir_fleet_disk_end_later(struct weir_fleet_disk *d);
bool weir_fleet_disk_is_pending(const struct weir_fleet_disk *d);
int weir_fleet_disk_settle(struct weir_fleet_disk *d);
const char *weir_fleet_disk_why(const struct weir_fleet_disk *d);
void weir_fleet_disk_put_item(struct weir_fleet_disk *d, const struct weir_fleet_item *i);
void weir_fleet_disk_del_item(struct weir_fleet_disk *d, const struct weir_fleet_key *key);
void weir_fleet_disk_put_op(struct weir_fleet_disk *d, const struct weir_fleet_op *op);
void weir_fleet_disk_del_op(struct weir_fleet_disk *d, const struct weir_fleet_op *op);
void weir_fleet_disk_set(struct weir_fleet_disk *d, const char *key, const char *value);
void weir_fleet_disk_set_u64(struct weir_fleet_disk *d, const char *key, __u64 value);
/* "" if there is none; cut if it is longer. */
void weir_fleet_disk_get(struct weir_fleet_disk *d, const char *key, char *buf, size_t size);
__u64 weir_fleet_disk_get_u64(struct weir_fleet_disk *d, const char *key);
/* Everything anew, after a failure. */
void weir_fleet_disk_clear(struct weir_fleet_disk *d);
int weir_fleet_disk_load(struct weir_fleet_disk *d, struct weir_fleet_replica *r, __u64 *ret_ord);

/* --- the rest --------------------------------------------------------------------------------------------------------- */

enum weir_fleet_doing {
	WEIR_FLEET_IDLE,
	WEIR_FLEET_LOAD, /* the script */
	WEIR_FLEET_MEND, /* keys of another type go */
	WEIR_FLEET_POLL,
	WEIR_FLEET_SCAN,
	WEIR_FLEET_RESTORE,
	WEIR_FLEET_PUSH,
	WEIR_FLEET_SECRET,
	WEIR_FLEET_LIMITS,
	WEIR_FLEET_PUBLISH,
};

#define WEIR_FLEET_KEYS 9

struct weir_fleet_words {
	size_t n, room;
	const char **at;
	size_t *bytes;
	char **owned; /* freed with it */
};

/* In the store's changes: so many, and the version of the last. */
struct weir_fleet_place {
	__u64 n, version;
};

struct weir_fleet {
	struct event_base *base;
	const struct weir_fleet_ops *ops;
	void *arg;
	__u64 (*mono_ns)(void *arg);
	__s64 (*wall_ms)(void *arg);
	char host[WEIR_FLEET_NAME_MAX], instance[16];
	bool lists;
	struct weir_store *store;
	struct weir_fleet_disk *disk;
	bool durable, unsaved;
	__u64 save_again_ns, settle_ns;
	struct weir_fleet_replica r;
	struct event *timer, *soon;
	char *key[WEIR_FLEET_KEYS];

	/* calls */
	char sha[41];
	char agent[WEIR_FLEET_ID_HEX + 1];
	char former[WEIR_FLEET_ID_HEX + 1]; /* a name that is to be forgotten */
	char boot[WEIR_FLEET_ID_HEX + 1];   /* of this process */
	bool has_beaten;
	enum weir_fleet_doing doing;
	bool beats; /* the poll under way does */
	__u64 sent_ns;
	bool closing;

	/* where this host is in the store's changes */
	enum weir_fleet_state state, said;
	__s64 since_s; /* what is shown */
	char why[160];
	char id[WEIR_FLEET_ID_HEX + 1]; /* of the store whose changes are known up to: */
	__u64 n, last;			/* count and version */
	__u64 reply_last, reply_forgot; /* the store's, as last heard */
	struct weir_fleet_place reply;
	struct weir_fleet_place heard; /* where it was, then */
	char reply_id[WEIR_FLEET_ID_HEX + 1];
	char target[WEIR_FLEET_ID_HEX + 1]; /* the store that is restored or read */
	char cursor[24];		    /* of the reading */
	struct weir_fleet_place target_heard, read;
	__u64 read_last; /* what was not met up to this version is not there */
	unsigned reading;
	__u64 forgot;	 /* deletions up to this version may be remembered by nobody */
	__u64 caught_ns; /* when it had all */
	bool caught;	 /* no change has been pushed or heard of since */
	__u64 next_poll_ns, next_beat_ns;
	bool polls_again; /* more changes are there */
	bool full;	  /* the server refuses to write: no beat with the next poll */
	bool want_mend;	  /* a key is of another type */
	__u64 next_mend_ns;
	/* what it answered with an error the last time, beside the poll; IDLE: nothing. Until that succeeds it is away. */
	enum weir_fleet_doing refused;

	/* the server's clock */
	bool clock_heard; /* by this process */
	__s64 clock_us;	  /* the server's less the monotonic one */

	/* own changes */
	__u64 ord, batch;
	__u64 doubtful; /* the batch whose reply a former process did not see */

	struct weir_fleet_lines shown; /* by weir_fleet_get and each */
	__u64 began_ns;

	/* changed keys not told yet */
	struct weir_fleet_key *told;
	size_t n_told, told_room;
	bool all_changed;

	/* agents.c */
	struct weir_fleet_agent *agents;
	size_t n_agents;
	unsigned live;
	__u8 secret[WEIR_FLEET_SECRET_BYTES];
	bool has_secret, secret_of_file, secret_refused;
	char fingerprint[17], fleet_fingerprint[17];
	__u64 no_secret_ns;  /* since when the store has none */
	__u64 key_unused_ns; /* since when nobody alive has the fleet's */
	bool want_secret, replace_key, new_secret;
	char unready[160];
	struct weir_fleet_limits limits;
	char *limits_text, limits_host[WEIR_FLEET_NAME_MAX], limits_who[WEIR_FLEET_NAME_MAX];
	bool want_limits;
	__u64 limits_wrong; /* a generation that cannot be read */
	struct {
		weir_fleet_asked_fn *fn; /* NULL: nobody asks */
		void *arg;
		bool sent;
	} asked;
	struct {
		bool wanted, silent;
		__u64 after, generation;
		char *text, who[WEIR_FLEET_NAME_MAX];
		weir_fleet_published_fn *fn;
		void *arg;
	} publish;

	struct {
		__u64 changes, pushed, reads, restores, failures;
	} count;
};

__u64 weir_fleet_clock_ns(const struct weir_fleet *f);
/* --- fleet.c ---- */
/* The reply of what was being done; NULL: it failed, and the state is AWAY. */
void weir_fleet_take(struct weir_fleet *f, enum weir_fleet_doing doing,
		     const struct redisReply *rest, const char *status);
void weir_fleet_failed(struct weir_fleet *f, enum weir_fleet_doing doing, const char *why);
void weir_fleet_run_soon(struct weir_fleet *f);
void weir_fleet_set_state(struct weir_fleet *f, enum weir_fleet_state s, const char *why);
void weir_fleet_show_state(struct weir_fleet *f);
/* The whole lists are restored or read. */
bool weir_fleet_is_busy(const struct weir_fleet *f);
/* The agent is told of changed keys at the end of a step: later; now. */
void weir_fleet_tell_later(struct weir_fleet *f, const struct weir_fleet_key *key);
void weir_fleet_tell(struct weir_fleet *f);
/* Of what was begun; a failure is kept in mind and all is written again. */
void weir_fleet_end_disk(struct weir_fleet *f);
/* Within SETTLE_NS: of what can be read again. */
void weir_fleet_end_disk_later(struct weir_fleet *f);
/* Where this host is in the store's changes, and where the store was when it was last heard. */
void weir_fleet_keep_place(struct weir_fleet *f);
void weir_fleet_keep_heard(struct weir_fleet *f);
/* --- follow.c ---- */
/* The store's word about a prefix; @body NULL: nothing. */
void weir_fleet_hear(struct weir_fleet *f, const struct weir_fleet_key *key, __u64 version,
		     const char *body, size_t n);
/* The store is not the one whose changes are known, or does not have them any more. */
void weir_fleet_join(struct weir_fleet *f);
void weir_fleet_begin_reading(struct weir_fleet *f);
void weir_fleet_take_page(struct weir_fleet *f, const struct redisReply *rest);
void weir_fleet_take_poll(struct weir_fleet *f, const struct redisReply *rest, const char *status);
void weir_fleet_scan(struct weir_fleet *f);
/* The next items that the store may have lost; false: there are no more. */
bool weir_fleet_restore(struct weir_fleet *f);
/* --- hand.c ---- */
/* The first of the own changes, which is no ORIGIN, and what follows it. */
void weir_fleet_push(struct weir_fleet *f);
void weir_fleet_take_pushed(struct weir_fleet *f, const struct redisReply *rest,
			    const char *status);
/* The first of them is one: what has come to light of it since. */
void weir_fleet_expand_origin(struct weir_fleet *f);
/* --- call.c ---- */
extern const char weir_fleet_script[];
void weir_fleet_words_done(struct weir_fleet_words *w);
/* The first six are put in front by begin. */
void weir_fleet_words_begin(struct weir_fleet *f, struct weir_fleet_words *w, const char *what);
void weir_fleet_word(struct weir_fleet_words *w, const char *text);
void weir_fleet_word_copy(struct weir_fleet_words *w, const char *text, size_t n);
void weir_fleet_word_u64(struct weir_fleet_words *w, __u64 n);
void weir_fleet_word_key(struct weir_fleet_words *w, const struct weir_fleet_key *key);
/* Sends, and takes @w apart. */
void weir_fleet_call(struct weir_fleet *f, enum weir_fleet_doing doing, struct weir_fleet_words *w);
void weir_fleet_load_script(struct weir_fleet *f);
/* Keys of another type than weir's are removed. */
void weir_fleet_mend(struct weir_fleet *f);
void weir_fleet_take_mended(struct weir_fleet *f, const struct redisReply *rest);
/* What a reply says. */
const char *weir_fleet_reply_text(const struct redisReply *r, size_t at, size_t *ret_n);
__u64 weir_fleet_reply_u64(const struct redisReply *r, size_t at);
/* --- agents.c ---- */
int weir_fleet_agents_init(struct weir_fleet *f, const __u8 *secret);
void weir_fleet_agents_done(struct weir_fleet *f);
void weir_fleet_name_anew(struct weir_fleet *f);
char *weir_fleet_beat_text(struct weir_fleet *f);
void weir_fleet_take_agents(struct weir_fleet *f, const struct redisReply *agents);
void weir_fleet_take_self(struct weir_fleet *f, const char *before);
void weir_fleet_take_secret(struct weir_fleet *f, const char *secret, const char *key);
void weir_fleet_take_generation(struct weir_fleet *f, __u64 generation);
/* Something of the above is to be asked: true, and it is. */
bool weir_fleet_ask_more(struct weir_fleet *f);
void weir_fleet_take_limits(struct weir_fleet *f, const struct redisReply *rest);
/* Whoever waits for weir_fleet_ask_limits. */
void weir_fleet_answer_asked(struct weir_fleet *f, int r, const char *why);
void weir_fleet_take_published(struct weir_fleet *f, int r, const struct redisReply *rest,
			       const char *why);

#endif
