/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state file: see state.h. Called by the agent only; one connection, no other process writes it. */
#include <errno.h>
#include <string.h>

#include "user/agent/state.h"
#include "user/base/clock.h"
#include "user/base/sqlite.h"
#include "user/base/str.h"

#define STATE_VERSION 1

enum statement { PUT, DEL, EXPIRE, EACH, SET, UNSET, GET, STATEMENT_MAX };

static const char *const statement_sql[STATEMENT_MAX] = {
	[PUT] = ("INSERT OR REPLACE INTO "
		 "entry(list,prefix,origin,reason,who,created,expires,flags) "
		 "VALUES(?,?,?,?,?,?,?,?)"),
	[DEL] = "DELETE FROM entry WHERE list=? AND prefix=? AND origin=?",
	[EXPIRE] = "DELETE FROM entry WHERE expires<>0 AND expires<=?",
	[EACH] = "SELECT list,prefix,origin,reason,who,created,expires,flags FROM entry",
	[SET] = "INSERT OR REPLACE INTO setting(key,value) VALUES(?,?)",
	[UNSET] = "DELETE FROM setting WHERE key=?",
	[GET] = "SELECT value FROM setting WHERE key=?",
};

struct weir_state {
	sqlite3 *db;
	sqlite3_stmt *statement[STATEMENT_MAX];
	bool reading;  /* nothing can be written */
	char why[256]; /* that is so */
};

static int run_sql(struct weir_state *s, const char *sql)
{
	return weir_sqlite_errno(sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

static int read_version(struct weir_state *s, int *ret)
{
	sqlite3_stmt *q = NULL;
	int r = sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &q, NULL);

	if (r == SQLITE_OK)
		r = sqlite3_step(q);
	if (r == SQLITE_ROW)
		*ret = sqlite3_column_int(q, 0);
	(void)sqlite3_finalize(q); /* repeats r */
	return weir_sqlite_errno(r);
}

static int prepare(struct weir_state *s)
{
	int r = 0, version = 0;

	/* Exclusive first: the index of the log is kept in memory then, and a full disk can be read. */
	if (!s->reading)
		r = run_sql(s, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA "
			       "synchronous=FULL;");
	if (r < 0)
		return r;
	r = read_version(s, &version);
	if (r < 0)
		return r;
	if (version > STATE_VERSION)
		return -EPROTO;
	if (version == 0)
		r = run_sql(s, "BEGIN;CREATE TABLE IF NOT EXISTS entry(list INTEGER NOT NULL, "
			       "prefix TEXT NOT NULL, origin TEXT NOT NULL, reason TEXT, who TEXT, "
			       "created INTEGER NOT NULL, expires INTEGER NOT NULL, flags INTEGER "
			       "NOT NULL, PRIMARY KEY(list,prefix,origin)) WITHOUT ROWID;CREATE "
			       "TABLE IF NOT EXISTS setting(key TEXT PRIMARY KEY, value TEXT NOT "
			       "NULL) WITHOUT ROWID;PRAGMA user_version=1; COMMIT;");
	for (int i = 0; r == 0 && i < STATEMENT_MAX; i++)
		r = weir_sqlite_errno(sqlite3_prepare_v3(s->db, statement_sql[i], -1,
							 SQLITE_PREPARE_PERSISTENT,
							 &s->statement[i], NULL));
	return r;
}

static int open_once(const char *path, struct weir_state **ret, struct weir_error *e)
{
	_cleanup_(weir_state_freep) struct weir_state *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return weir_error_set(e, -ENOMEM, "out of memory");
	r = weir_sqlite_errno(
		sqlite3_open_v2(path, &s->db,
				SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
				NULL));
	if (r == 0) {
		(void)sqlite3_busy_timeout(s->db, 0); /* the loop never waits for a lock */
		(void)sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, 16 << 20);
		r = prepare(s);
	}
	if (r == -EPROTO)
		return weir_error_set(e, r,
				      "state file %s was written by a newer weir; start that one, "
				      "or move it away",
				      path);
	if (r == -EBUSY)
		return weir_error_set(e, r,
				      "state file %s is in use by another process (another agent?)",
				      path);
	if (r < 0)
		return weir_error_set(e, r, "state file %s cannot be used: %s", path,
				      sqlite3_errmsg(s->db));
	*ret = TAKE_PTR(s);
	return 0;
}

int weir_state_open(const char *path, struct weir_state **ret, char **ret_note,
		    struct weir_error *e)
{
	char aside[4096], *note = NULL;
	int r = open_once(path, ret, e);

	if (r == -EUCLEAN) {
		(void)snprintf(aside, sizeof(aside), "%s.damaged-%lld", path,
			       (long long)(weir_clock_ns(CLOCK_REALTIME) / WEIR_NS_PER_S));
		if (rename(path, aside) < 0)
			return weir_error_set(
				e, -errno, "state file %s is damaged and cannot be moved aside: %s",
				path, strerror(errno));
		if (asprintf(&note,
			     "%s was damaged and is now %s: list entries made by command are gone",
			     path, aside) < 0)
			note = NULL;
		r = open_once(path, ret, e);
	}
	if (r < 0) {
		free(note);
		return r;
	}
	*ret_note = note;
	return 0;
}

/* @path as a URI: '%', '?' and '#' mean something there. */
static bool make_uri(const char *path, const char *query, char *ret, size_t size)
{
	size_t at = (size_t)snprintf(ret, size, "file:");

	for (; *path && at + 4 < size; path++)
		at += (size_t)snprintf(ret + at, size - at, strchr("%?#", *path) ? "%%%02x" : "%c",
				       (unsigned char)*path);
	if (*path || at + strlen(query) >= size)
		return false;
	memcpy(ret + at, query, strlen(query) + 1);
	return true;
}

static int open_uri(const char *uri, int flags, const char *why, struct weir_state **ret)
{
	_cleanup_(weir_state_freep) struct weir_state *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->reading = true;
	(void)weir_str_copy(s->why, sizeof(s->why), why); /* cut if long */
	r = weir_sqlite_errno(
		sqlite3_open_v2(uri, &s->db, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL));
	if (r == 0)
		r = prepare(s);
	if (r == 0)
		*ret = TAKE_PTR(s);
	return r;
}

int weir_state_open_reading(const char *path, const char *why, struct weir_state **ret,
			    bool *ret_read)
{
	/* the first reads the log too, the second needs nothing but the file */
	static const char *const query[] = {"?mode=ro", "?immutable=1"};
	char uri[4096];
	int r;

	for (int i = 0; i < 2; i++) {
		if (!make_uri(path, query[i], uri, sizeof(uri)) ||
		    open_uri(uri, SQLITE_OPEN_READONLY, why, ret) < 0)
			continue;
		*ret_read = true;
		return 0;
	}
	r = open_uri(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, why, ret);
	if (r == 0)
		*ret_read = false;
	return r;
}

bool weir_state_writable(const struct weir_state *s)
{
	return !s->reading;
}

static void close_file(struct weir_state *s)
{
	for (int i = 0; i < STATEMENT_MAX; i++) {
		(void)sqlite3_finalize(s->statement[i]); /* takes NULL; repeats an old error */
		s->statement[i] = NULL;
	}
	(void)sqlite3_close(s->db);
	s->db = NULL;
}

int weir_state_reopen(const char *path, struct weir_state **s, char **ret_note,
		      struct weir_error *e)
{
	struct weir_state *fresh = NULL;
	int r;

	if ((*s)->reading)
		close_file(*s);
	r = weir_state_open(path, &fresh, ret_note, e);
	if (r < 0) {
		(void)weir_str_copy((*s)->why, sizeof((*s)->why), e->text); /* cut if long */
		return r;
	}
	weir_state_free(*s);
	*s = fresh;
	return 0;
}

void weir_state_free(struct weir_state *s)
{
	if (!s)
		return;
	close_file(s);
	free(s);
}

const char *weir_state_why(const struct weir_state *s)
{
	return s->reading ? s->why : sqlite3_errmsg(s->db);
}

int weir_state_begin(struct weir_state *s)
{
	if (s->reading)
		return -EROFS;
	return run_sql(s, "BEGIN IMMEDIATE");
}

int weir_state_commit(struct weir_state *s)
{
	return run_sql(s, "COMMIT");
}

void weir_state_rollback(struct weir_state *s)
{
	if (!s->reading && !sqlite3_get_autocommit(s->db))
		(void)run_sql(s, "ROLLBACK"); /* the transaction is over either way */
}

/* Runs a statement that returns no row. */
static int finish(sqlite3_stmt *q)
{
	int r = sqlite3_step(q);

	(void)sqlite3_reset(q); /* repeats r */
	(void)sqlite3_clear_bindings(q);
	return weir_sqlite_errno(r);
}

static void bind_text(sqlite3_stmt *q, int i, const char *text)
{
	if (text)
		(void)sqlite3_bind_text(
			q, i, text, -1,
			SQLITE_TRANSIENT); /* fails only without memory: NULL then */
	else
		(void)sqlite3_bind_null(q, i);
}

int weir_state_put(struct weir_state *s, const struct weir_state_entry *entry)
{
	sqlite3_stmt *q = s->statement[PUT];
	char prefix[WEIR_PREFIX_STRLEN];

	if (s->reading)
		return -EROFS;
	(void)sqlite3_bind_int(q, 1, (int)entry->list);
	bind_text(q, 2, weir_prefix_format(&entry->prefix, prefix));
	bind_text(q, 3, entry->origin);
	bind_text(q, 4, entry->reason);
	bind_text(q, 5, entry->who);
	(void)sqlite3_bind_int64(q, 6, entry->created_s);
	(void)sqlite3_bind_int64(q, 7, entry->expires_s);
	(void)sqlite3_bind_int64(q, 8, entry->flags);
	return finish(q);
}

int weir_state_del(struct weir_state *s, enum weir_list list, const struct weir_prefix *prefix,
		   const char *origin)
{
	sqlite3_stmt *q = s->statement[DEL];
	char text[WEIR_PREFIX_STRLEN];

	if (s->reading)
		return -EROFS;
	(void)sqlite3_bind_int(q, 1, (int)list);
	bind_text(q, 2, weir_prefix_format(prefix, text));
	bind_text(q, 3, origin);
	return finish(q);
}

int weir_state_clear(struct weir_state *s)
{
	if (s->reading)
		return -EROFS;
	return run_sql(s, "DELETE FROM entry");
}

int weir_state_expire(struct weir_state *s, __s64 now_s)
{
	if (s->reading)
		return -EROFS;
	(void)sqlite3_bind_int64(s->statement[EXPIRE], 1, now_s);
	return finish(s->statement[EXPIRE]);
}

/* A row as an entry; what the file says is input and checked. */
static bool read_row(sqlite3_stmt *q, struct weir_state_entry *ret)
{
	const char *prefix = (const char *)sqlite3_column_text(q, 1);
	int list = sqlite3_column_int(q, 0);

	ret->list = (enum weir_list)list;
	ret->origin = (const char *)sqlite3_column_text(q, 2);
	ret->reason = (const char *)sqlite3_column_text(q, 3);
	ret->who = (const char *)sqlite3_column_text(q, 4);
	ret->created_s = sqlite3_column_int64(q, 5);
	ret->expires_s = sqlite3_column_int64(q, 6);
	ret->flags = (__u32)sqlite3_column_int64(q, 7);
	return (list == WEIR_LIST_ALLOW || list == WEIR_LIST_BLOCK) && prefix && ret->origin &&
	       ret->expires_s >= 0 &&
	       weir_prefix_parse(prefix, strlen(prefix), false, &ret->prefix) == 0;
}

int weir_state_each(struct weir_state *s, weir_state_fn fn, void *arg, unsigned *ret_bad_rows)
{
	sqlite3_stmt *q = s->statement[EACH];
	unsigned bad = 0;
	int r, stop = 0;

	if (!q)
		return -EROFS;
	while (!stop && (r = sqlite3_step(q)) == SQLITE_ROW) {
		struct weir_state_entry entry;

		if (read_row(q, &entry))
			stop = fn(arg, &entry);
		else
			bad++;
	}
	(void)sqlite3_reset(q); /* repeats r */
	if (stop)
		return stop;
	*ret_bad_rows = bad;
	return weir_sqlite_errno(r);
}

int weir_state_set(struct weir_state *s, const char *key, const char *value)
{
	sqlite3_stmt *q = s->statement[value ? SET : UNSET];

	if (s->reading)
		return -EROFS;
	bind_text(q, 1, key);
	if (value)
		bind_text(q, 2, value);
	return finish(q);
}

int weir_state_get(struct weir_state *s, const char *key, char **ret)
{
	sqlite3_stmt *q = s->statement[GET];
	char *value = NULL;
	int r;

	if (!q)
		return -EROFS;
	bind_text(q, 1, key);
	r = sqlite3_step(q);
	if (r == SQLITE_ROW && sqlite3_column_text(q, 0)) {
		value = strdup((const char *)sqlite3_column_text(q, 0));
		if (!value)
			r = SQLITE_NOMEM;
	}
	(void)sqlite3_reset(q); /* repeats r */
	(void)sqlite3_clear_bindings(q);
	if (weir_sqlite_errno(r) < 0)
		return weir_sqlite_errno(r);
	*ret = value;
	return 0;
}
