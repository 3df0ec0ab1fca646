/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state file: what survives, what is replaced, what happens when it is damaged or held by another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "tests/lib/prefix.h"
#include "user/agent/state.h"

struct fix {
	char dir[64], path[96];
	struct weir_state *s;
	struct weir_error e;
};

static int open_it(struct fix *f, char **ret_note)
{
	*ret_note = NULL;
	return weir_state_open(f->path, &f->s, ret_note, &f->e);
}

static int set_up(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));
	char *note;

	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/weir-state-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->path, sizeof(f->path), "%s/weir.db", f->dir);
	*state = f;
	return open_it(f, &note);
}

static int tear_down(void **state)
{
	struct fix *f = *state;
	char command[128];
	struct dirent *d;
	DIR *dir;

	weir_state_free(f->s);
	dir = opendir(f->dir);
	while (dir && (d = readdir(dir)))
		if (d->d_name[0] != '.') {
			(void)snprintf(command, sizeof(command), "%s/%.60s", f->dir, d->d_name);
			(void)unlink(command);
		}
	if (dir)
		(void)closedir(dir);
	(void)rmdir(f->dir);
	free(f);
	return 0;
}

static struct weir_state_entry entry(const char *prefix, const char *origin, __s64 expires_s)
{
	struct weir_state_entry e = {
		.list = WEIR_LIST_BLOCK,
		.origin = origin,
		.reason = "it's \"quoted\"; DROP TABLE entry",
		.who = "root",
		.created_s = 1000,
		.expires_s = expires_s,
		.prefix = prefix_of(prefix),
		.flags = WEIR_ENTRY_FORCE,
	};

	return e;
}

struct seen {
	size_t n;
	struct weir_state_entry last;
	char reason[200], origin[64];
};

static int see(void *arg, const struct weir_state_entry *e)
{
	struct seen *s = arg;

	s->n++;
	s->last = *e;
	(void)snprintf(s->reason, sizeof(s->reason), "%s", e->reason ? e->reason : "");
	(void)snprintf(s->origin, sizeof(s->origin), "%s", e->origin);
	return 0;
}

static struct seen look(struct fix *f)
{
	struct seen s = {};
	unsigned bad = 99;

	assert_int_equal(weir_state_each(f->s, see, &s, &bad), 0);
	assert_int_equal(bad, 0);
	return s;
}

static void put(struct fix *f, const char *prefix, const char *origin, __s64 expires_s)
{
	struct weir_state_entry e = entry(prefix, origin, expires_s);

	assert_int_equal(weir_state_put(f->s, &e), 0);
}

static void entries_survive_reopening(void **state)
{
	struct fix *f = *state;
	struct seen s;
	char *note;

	put(f, "2001:db8::/32", "command", 5000);
	weir_state_free(f->s);
	assert_int_equal(open_it(f, &note), 0);
	assert_null(note);
	s = look(f);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.last.list, WEIR_LIST_BLOCK);
	assert_int_equal(s.last.prefix.len, 32);
	assert_int_equal(s.last.prefix.family, 6);
	assert_int_equal(s.last.expires_s, 5000);
	assert_int_equal(s.last.created_s, 1000);
	assert_int_equal(s.last.flags, WEIR_ENTRY_FORCE);
	assert_string_equal(s.reason, "it's \"quoted\"; DROP TABLE entry");
}

static void what_cannot_be_written_is_read(void **state)
{
	struct fix *f = *state;
	struct weir_state_entry e = entry("192.0.2.9", "command", 0);
	char *note = NULL;
	bool read = false;
	struct seen s;

	put(f, "2001:db8::/32", "command", 5000);
	weir_state_free(f->s);
	f->s = NULL;
	assert_int_equal(weir_state_open_reading(f->path, "no room", &f->s, &read), 0);
	assert_true(read && !weir_state_writable(f->s));
	s = look(f);
	assert_int_equal(s.n, 1);
	assert_int_equal(weir_state_begin(f->s), -EROFS);
	assert_int_equal(weir_state_put(f->s, &e), -EROFS);
	assert_int_equal(weir_state_set(f->s, "mode", "x"), -EROFS);
	assert_string_equal(weir_state_why(f->s), "no room");
	assert_int_equal(weir_state_reopen(f->path, &f->s, &note, &f->e), 0);
	assert_true(weir_state_writable(f->s));
	put(f, "192.0.2.9", "command", 0);
	s = look(f);
	assert_int_equal(s.n, 2);
}

static void the_same_origin_is_replaced_and_another_kept(void **state)
{
	struct fix *f = *state;

	put(f, "198.51.100.7", "command", 5000);
	put(f, "198.51.100.7", "command", 6000);
	assert_int_equal(look(f).n, 1);
	assert_int_equal(look(f).last.expires_s, 6000);
	put(f, "198.51.100.7", "drop.netset", 0);
	assert_int_equal(look(f).n, 2);
}

static void deleting_what_is_not_there_is_success(void **state)
{
	struct fix *f = *state;
	struct weir_state_entry e = entry("198.51.100.7", "command", 0);

	assert_int_equal(weir_state_del(f->s, e.list, &e.prefix, "command"), 0);
	put(f, "198.51.100.7", "command", 0);
	assert_int_equal(weir_state_del(f->s, WEIR_LIST_ALLOW, &e.prefix, "command"), 0);
	assert_int_equal(weir_state_del(f->s, e.list, &e.prefix, "other"), 0);
	assert_int_equal(look(f).n, 1);
	assert_int_equal(weir_state_del(f->s, e.list, &e.prefix, "command"), 0);
	assert_int_equal(look(f).n, 0);
}

static void expired_rows_go_and_endless_ones_stay(void **state)
{
	struct fix *f = *state;

	put(f, "198.51.100.7", "command", 5000);
	put(f, "198.51.100.8", "command", 5001);
	put(f, "198.51.100.9", "command", 0);
	assert_int_equal(weir_state_expire(f->s, 5000), 0);
	assert_int_equal(look(f).n, 2);
}

static void a_rollback_leaves_nothing(void **state)
{
	struct fix *f = *state;

	assert_int_equal(weir_state_begin(f->s), 0);
	put(f, "198.51.100.7", "command", 0);
	weir_state_rollback(f->s);
	assert_int_equal(look(f).n, 0);
	assert_int_equal(weir_state_begin(f->s), 0);
	put(f, "198.51.100.7", "command", 0);
	assert_int_equal(weir_state_commit(f->s), 0);
	assert_int_equal(look(f).n, 1);
}

static void settings_survive_and_can_be_deleted(void **state)
{
	struct fix *f = *state;
	char *value = NULL, *note;

	assert_int_equal(weir_state_get(f->s, "mode", &value), 0);
	assert_null(value);
	assert_int_equal(weir_state_set(f->s, "mode", "{\"mode\":\"monitor\"}"), 0);
	weir_state_free(f->s);
	assert_int_equal(open_it(f, &note), 0);
	assert_int_equal(weir_state_get(f->s, "mode", &value), 0);
	assert_string_equal(value, "{\"mode\":\"monitor\"}");
	free(value);
	assert_int_equal(weir_state_set(f->s, "mode", NULL), 0);
	assert_int_equal(weir_state_get(f->s, "mode", &value), 0);
	assert_null(value);
}

static void a_damaged_file_is_moved_aside(void **state)
{
	struct fix *f = *state;
	char *note;
	FILE *file;

	weir_state_free(f->s);
	f->s = NULL;
	file = fopen(f->path, "we");
	for (int i = 0; i < 8192; i++)
		(void)fputc("not a database "[i % 15], file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(open_it(f, &note), 0);
	assert_non_null(note);
	assert_non_null(strstr(note, "damaged"));
	free(note);
	assert_int_equal(look(f).n, 0);
	put(f, "198.51.100.7", "command", 0);
}

static void a_newer_file_is_refused_untouched(void **state)
{
	struct fix *f = *state;
	sqlite3 *db = NULL;
	char *note;

	weir_state_free(f->s);
	f->s = NULL;
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=7", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	assert_true(open_it(f, &note) < 0);
	assert_non_null(strstr(f->e.text, "newer weir"));
}

static void a_file_in_use_is_refused(void **state)
{
	struct fix *f = *state;
	struct weir_state *other = NULL;
	char *note = NULL;

	put(f, "198.51.100.7", "command", 0); /* takes the lock */
	assert_int_equal(weir_state_open(f->path, &other, &note, &f->e), -EBUSY);
	assert_non_null(strstr(f->e.text, "in use"));
}

static void a_missing_folder_is_named(void **state)
{
	struct weir_state *other = NULL;
	struct weir_error e = {};
	char *note = NULL;

	(void)state;
	assert_true(weir_state_open("/nonexistent/weir.db", &other, &note, &e) < 0);
	assert_non_null(strstr(e.text, "/nonexistent/weir.db"));
}

static void rows_that_cannot_be_read_are_counted_and_skipped(void **state)
{
	struct fix *f = *state;
	sqlite3 *db = NULL;
	struct seen s = {};
	unsigned bad = 0;
	char *note;

	put(f, "198.51.100.7", "command", 0);
	weir_state_free(f->s);
	f->s = NULL;
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(
			db,
			"INSERT INTO entry VALUES(1,'no prefix','command',NULL,NULL,0,0,0);"
			"INSERT INTO entry VALUES(77,'198.51.100.8','command',NULL,NULL,0,0,0)",
			NULL, NULL, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	assert_int_equal(open_it(f, &note), 0);
	assert_int_equal(weir_state_each(f->s, see, &s, &bad), 0);
	assert_int_equal(s.n, 1);
	assert_int_equal(bad, 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(entries_survive_reopening),
		T(what_cannot_be_written_is_read),
		T(the_same_origin_is_replaced_and_another_kept),
		T(deleting_what_is_not_there_is_success),
		T(expired_rows_go_and_endless_ones_stay),
		T(a_rollback_leaves_nothing),
		T(settings_survive_and_can_be_deleted),
		T(a_damaged_file_is_moved_aside),
		T(a_newer_file_is_refused_untouched),
		T(a_file_in_use_is_refused),
		T(a_missing_folder_is_named),
		T(rows_that_cannot_be_read_are_counted_and_skipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
