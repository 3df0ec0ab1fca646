/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What must outlive the agent: what it knows of the fleet's lists, its own changes that are not in the store, and a few
 * words. An SQLite file of the state directory. Writers gather in a transaction that the caller ends; the first error is
 * kept until then. What others have said, as the store tells it, may stay in it for a while, for many replies at the cost
 * of one fsync: a crash loses it in order, and it is read again. That the store has an own change may not. Called by
 * fleet.c and agents.c.
 */
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "user/base/sqlite.h"
#include "user/base/str.h"
#include "user/fleet/fleet_int.h"

#define DISK_VERSION 1

enum statement { PUT_ITEM, DEL_ITEM, PUT_OP, DEL_OP, SET, GET, STATEMENT_MAX };
static const char *const statement_sql[STATEMENT_MAX] = {
	[PUT_ITEM] = "INSERT OR REPLACE INTO item(key,version,body) VALUES(?,?,?)",
	[DEL_ITEM] = "DELETE FROM item WHERE key=?",
	[PUT_OP] = "INSERT OR REPLACE INTO op(ord,sub,kind,key,data,batch) VALUES(?,?,?,?,?,?)",
	[DEL_OP] = "DELETE FROM op WHERE ord=? AND sub=?",
	[SET] = "INSERT OR REPLACE INTO word(key,value) VALUES(?,?)",
	[GET] = "SELECT value FROM word WHERE key=?",
};

struct weir_fleet_disk {
	sqlite3 *db;
	sqlite3_stmt *statement[STATEMENT_MAX];
	unsigned depth;
	bool pending; /* the transaction goes on at depth 0 … */
	bool must;    /* … or may not: a part of it is to be durable */
	int failed;   /* SQLite's code, of this transaction */
	char why[160];
};

static void note(struct weir_fleet_disk *d, int r)
{
	if (!weir_sqlite_errno(r) || d->failed)
		return;
	d->failed = r;
	(void)weir_str_copy(d->why, sizeof(d->why), sqlite3_errmsg(d->db)); /* cut if long */
}

static int run_sql(struct weir_fleet_disk *d, const char *sql)
{
	return sqlite3_exec(d->db, sql, NULL, NULL, NULL);
}

static int prepare(struct weir_fleet_disk *d)
{
	sqlite3_stmt *q = NULL;
	int version = 0;
	/* pages for a long list, which comes in no order */
	int r = run_sql(d, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA "
			   "synchronous=FULL; PRAGMA cache_size=-16384;");

	if (r == SQLITE_OK)
		r = sqlite3_prepare_v2(d->db, "PRAGMA user_version", -1, &q, NULL);
	if (r == SQLITE_OK)
		r = sqlite3_step(q);
	if (r == SQLITE_ROW)
		version = sqlite3_column_int(q, 0);
	(void)sqlite3_finalize(q); /* repeats r */
	if (weir_sqlite_errno(r) < 0)
		return r;
	if (version > DISK_VERSION)
		return SQLITE_MISMATCH;
	r = SQLITE_OK;
	if (version == 0)
		r = run_sql(d, "BEGIN;CREATE TABLE item(key TEXT PRIMARY KEY, version INTEGER NOT "
			       "NULL, body TEXT) WITHOUT ROWID;CREATE TABLE op(ord INTEGER, sub "
			       "INTEGER, kind INTEGER NOT NULL, key TEXT NOT NULL, data TEXT NOT "
			       "NULL, batch INTEGER NOT NULL, PRIMARY KEY(ord,sub)) WITHOUT "
			       "ROWID;CREATE TABLE word(key TEXT PRIMARY KEY, value TEXT NOT NULL) "
			       "WITHOUT ROWID;PRAGMA user_version=1; COMMIT;");
	for (int i = 0; r == SQLITE_OK && i < STATEMENT_MAX; i++)
		r = sqlite3_prepare_v3(d->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &d->statement[i], NULL);
	return r;
}

int weir_fleet_disk_open(const char *path, struct weir_fleet_disk **ret, struct weir_error *e)
{
	_cleanup_(weir_fleet_disk_freep) struct weir_fleet_disk *d = calloc(1, sizeof(*d));
	mode_t mask;
	int r;

	if (!d)
		return weir_error_set(e, -ENOMEM, "out of memory");
	mask = umask(0177); /* it may hold the fleet's secret */
	r = sqlite3_open_v2(path ? path : ":memory:", &d->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
	if (r == SQLITE_OK) {
		(void)sqlite3_busy_timeout(d->db, 0); /* the loop never waits for a lock */
		(void)sqlite3_limit(d->db, SQLITE_LIMIT_LENGTH, 16 << 20);
		r = prepare(d);
	}
	(void)umask(mask);
	if (r == SQLITE_MISMATCH)
		return weir_error_set(
			e, -EPROTO,
			"%s was written by a newer weir; start that one, or move it away", path);
	if (r != SQLITE_OK)
		return weir_error_set(e, weir_sqlite_errno(r) ? weir_sqlite_errno(r) : -EIO,
				      "%s cannot be used: %s", path ? path : "memory",
				      d->db ? sqlite3_errmsg(d->db) : "out of memory");
	*ret = TAKE_PTR(d);
	return 0;
}

void weir_fleet_disk_free(struct weir_fleet_disk *d)
{
	if (!d)
		return;
	if (d->pending)
		(void)weir_fleet_disk_settle(d); /* else it is read again */
	for (int i = 0; i < STATEMENT_MAX; i++)
		(void)sqlite3_finalize(d->statement[i]); /* takes NULL */
	(void)sqlite3_close(d->db);
	free(d);
}

void weir_fleet_disk_begin(struct weir_fleet_disk *d)
{
	if (d->depth++ || d->pending)
		return;
	d->failed = 0;
	note(d, run_sql(d, "BEGIN IMMEDIATE"));
}

int weir_fleet_disk_settle(struct weir_fleet_disk *d)
{
	d->pending = d->must = false;
	if (!d->failed)
		note(d, run_sql(d, "COMMIT"));
	if (!d->failed)
		return 0;
	if (!sqlite3_get_autocommit(d->db))
		(void)run_sql(d, "ROLLBACK"); /* the transaction is over either way */
	return weir_sqlite_errno(d->failed);
}

int weir_fleet_disk_end(struct weir_fleet_disk *d)
{
	d->must = true;
	return --d->depth ? 0 : weir_fleet_disk_settle(d);
}

int weir_fleet_disk_end_later(struct weir_fleet_disk *d)
{
	if (--d->depth)
		return 0;
	if (d->must || d->failed)
		return weir_fleet_disk_settle(d);
	d->pending = true;
	return 0;
}

bool weir_fleet_disk_is_pending(const struct weir_fleet_disk *d)
{
	return d->pending;
}

const char *weir_fleet_disk_why(const struct weir_fleet_disk *d)
{
	return d->why;
}

static void bind_text(struct weir_fleet_disk *d, sqlite3_stmt *q, int i, const char *text)
{
	note(d,
	     text ? sqlite3_bind_text(q, i, text, -1, SQLITE_TRANSIENT) : sqlite3_bind_null(q, i));
}

static void bind_u64(struct weir_fleet_disk *d, sqlite3_stmt *q, int i, __u64 n)
{
	note(d, sqlite3_bind_int64(q, i, (sqlite3_int64)n));
}

static void finish(struct weir_fleet_disk *d, sqlite3_stmt *q)
{
	note(d, sqlite3_step(q));
	(void)sqlite3_reset(q); /* repeats it */
	(void)sqlite3_clear_bindings(q);
}

void weir_fleet_disk_put_item(struct weir_fleet_disk *d, const struct weir_fleet_item *i)
{
	char key[WEIR_FLEET_KEY_STRLEN];
	sqlite3_stmt *q = d->statement[PUT_ITEM];

	bind_text(d, q, 1, weir_fleet_key_format(&i->key, key));
	bind_u64(d, q, 2, i->version);
	bind_text(d, q, 3, i->body);
	finish(d, q);
}

void weir_fleet_disk_del_item(struct weir_fleet_disk *d, const struct weir_fleet_key *k)
{
	char key[WEIR_FLEET_KEY_STRLEN];
	sqlite3_stmt *q = d->statement[DEL_ITEM];

	bind_text(d, q, 1, weir_fleet_key_format(k, key));
	finish(d, q);
}

void weir_fleet_disk_put_op(struct weir_fleet_disk *d, const struct weir_fleet_op *op)
{
	char key[WEIR_FLEET_KEY_STRLEN];
	sqlite3_stmt *q = d->statement[PUT_OP];

	bind_u64(d, q, 1, op->ord);
	bind_u64(d, q, 2, op->sub);
	bind_u64(d, q, 3, (__u64)(unsigned char)op->kind);
	bind_text(d, q, 4,
		  op->item			? weir_fleet_key_format(&op->item->key, key)
		  : op->list == WEIR_LIST_ALLOW ? "allow"
						: "block");
	bind_text(d, q, 5, op->data);
	bind_u64(d, q, 6, op->batch);
	finish(d, q);
}

void weir_fleet_disk_del_op(struct weir_fleet_disk *d, const struct weir_fleet_op *op)
{
	sqlite3_stmt *q = d->statement[DEL_OP];

	bind_u64(d, q, 1, op->ord);
	bind_u64(d, q, 2, op->sub);
	finish(d, q);
}

void weir_fleet_disk_set(struct weir_fleet_disk *d, const char *key, const char *value)
{
	sqlite3_stmt *q = d->statement[SET];

	bind_text(d, q, 1, key);
	bind_text(d, q, 2, value);
	finish(d, q);
}

void weir_fleet_disk_set_u64(struct weir_fleet_disk *d, const char *key, __u64 value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	weir_fleet_disk_set(d, key, text);
}

void weir_fleet_disk_get(struct weir_fleet_disk *d, const char *key, char *buf, size_t size)
{
	sqlite3_stmt *q = d->statement[GET];
	const char *value = NULL;

	buf[0] = '\0';
	(void)sqlite3_bind_text(q, 1, key, -1, SQLITE_TRANSIENT); /* no memory: nothing is found */
	if (sqlite3_step(q) == SQLITE_ROW)
		value = (const char *)sqlite3_column_text(q, 0);
	if (value)
		(void)weir_str_copy(buf, size, value);
	(void)sqlite3_reset(q);
	(void)sqlite3_clear_bindings(q);
}

__u64 weir_fleet_disk_get_u64(struct weir_fleet_disk *d, const char *key)
{
	char text[24];
	__u64 n = 0;

	weir_fleet_disk_get(d, key, text, sizeof(text));
	return weir_str_u64(text, INT64_MAX, &n) < 0 ? 0 : n;
}

void weir_fleet_disk_clear(struct weir_fleet_disk *d)
{
	note(d, run_sql(d, "DELETE FROM item; DELETE FROM op"));
}

static int load_item(struct weir_fleet_replica *r, sqlite3_stmt *q)
{
	const char *key = (const char *)sqlite3_column_text(q, 0),
		   *body = (const char *)sqlite3_column_text(q, 2);
	struct weir_fleet_key k;
	struct weir_fleet_item *i;

	if (!key || weir_fleet_key_parse(key, strlen(key), &k) < 0)
		return 0;
	i = weir_fleet_item(r, &k);
	if (!i)
		return -ENOMEM;
	return weir_fleet_learn(r, i, (__u64)sqlite3_column_int64(q, 1), body,
				body ? strlen(body) : 0);
}

static int load_op(struct weir_fleet_replica *r, sqlite3_stmt *q)
{
	const char *key = (const char *)sqlite3_column_text(q, 3),
		   *data = (const char *)sqlite3_column_text(q, 4);
	int kind = sqlite3_column_int(q, 2);
	struct weir_fleet_item *i = NULL;
	struct weir_fleet_op *op;
	struct weir_fleet_key k = {};

	if (!key || !data || !kind || !strchr("AaDO", kind))
		return 0;
	if (kind == WEIR_FLEET_ORIGIN) {
		k.list = strcmp(key, "allow") == 0 ? WEIR_LIST_ALLOW : WEIR_LIST_BLOCK;
	} else {
		if (weir_fleet_key_parse(key, strlen(key), &k) < 0)
			return 0;
		i = weir_fleet_item(r, &k);
		if (!i)
			return -ENOMEM;
	}
	op = weir_fleet_op_new(r, (char)kind, i, k.list, data, NULL);
	if (!op)
		return -ENOMEM;
	op->ord = (__u64)sqlite3_column_int64(q, 0);
	op->sub = (__u64)sqlite3_column_int64(q, 1);
	op->batch = (__u64)sqlite3_column_int64(q, 5);
	return 0;
}

static int load_all(struct weir_fleet_disk *d, struct weir_fleet_replica *r, const char *sql,
		    int (*load)(struct weir_fleet_replica *r, sqlite3_stmt *q))
{
	sqlite3_stmt *q = NULL;
	int s = sqlite3_prepare_v2(d->db, sql, -1, &q, NULL), e = 0;

	while (s == SQLITE_OK || s == SQLITE_ROW) {
		s = sqlite3_step(q);
		if (s == SQLITE_ROW)
			e = load(r, q);
		if (s == SQLITE_DONE || e < 0)
			break;
	}
	(void)sqlite3_finalize(q);
	return e < 0 ? e : weir_sqlite_errno(s);
}

int weir_fleet_disk_load(struct weir_fleet_disk *d, struct weir_fleet_replica *r, __u64 *ret_ord)
{
	int e = load_all(d, r, "SELECT key,version,body FROM item", load_item);

	if (e == 0)
		e = load_all(d, r, "SELECT ord,sub,kind,key,data,batch FROM op ORDER BY ord,sub",
			     load_op);
	if (e == 0)
		*ret_ord = r->last_op ? r->last_op->ord : 0;
	return e;
}
