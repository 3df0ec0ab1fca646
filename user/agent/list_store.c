/* SPDX-License-Identifier: GPL-2.0-or-later */
/* List entries made by command, from one book to the next, in force and in the state file. What the kernel refuses
 * changes nothing; what only the state file refuses (a full disk) acts all the same, and is written again later. Called
 * by list_commands.c, list_load.c and the loop.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/base/log.h"

static int store_change(void *arg, enum weir_list list, const struct weir_book_entry *e, bool gone)
{
	struct weir_agent *a = arg;
	struct weir_state_entry s = {
		.list = list,
		.prefix = e->prefix,
		.origin = weir_shared_text_get(e->name),
		.reason = e->reason ? weir_shared_text_get(e->reason) : NULL,
		.who = e->who ? weir_shared_text_get(e->who) : NULL,
		.created_s = e->created_s,
		.expires_s = e->expires_s,
		.flags = e->flags,
	};

	if (e->origin != WEIR_ORIGIN_COMMAND || e->fleet)
		return 0;
	return gone ? weir_state_del(a->state, list, &e->prefix, s.origin)
		    : weir_state_put(a->state, &s);
}

/* Writes what differs between the book in force and @to, of entries made by command, or all of @to where an earlier
 * write has failed; does not commit.
 */
static int store_entries(struct weir_agent *a, const struct weir_book *to)
{
	_cleanup_(weir_book_freep) struct weir_book *nothing = a->unstored ? weir_book_new() : NULL;
	int r = weir_state_begin(a->state);

	if (r == 0 && a->unstored && !nothing)
		r = -ENOMEM;
	if (r == 0 && a->unstored && !a->unread) /* what nobody has read is not thrown away */
		r = weir_state_clear(a->state);
	for (int l = WEIR_LIST_ALLOW; l <= WEIR_LIST_BLOCK && r == 0; l++)
		r = weir_book_diff(nothing ? nothing : a->book, to, (enum weir_list)l, store_change,
				   a);
	return r;
}

static void store_failed(struct weir_agent *a)
{
	/* before the rollback, which has words of its own */
	(void)snprintf(a->store_error, sizeof(a->store_error), "%s", weir_state_why(a->state));
	weir_state_rollback(a->state);
	weir_log(WEIR_LOG_ERROR, "state-file-failed", "why", "s", a->store_error, NULL);
}

static int store_commit(struct weir_agent *a)
{
	int r = weir_state_commit(a->state);

	if (r < 0) {
		store_failed(a);
		return r;
	}
	a->store_error[0] = '\0';
	a->unstored = false;
	return 0;
}

bool weir_disk_refuses(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -EROFS || r == -EIO || r == -EFBIG;
}

static int state_path(const struct weir_agent *a, char *ret, size_t size, struct weir_error *e)
{
	int n = snprintf(ret, size, "%s/%s.db", a->conf->state_dir, a->conf->instance);

	return n < 0 || (size_t)n >= size
		       ? weir_error_set(e, -ENAMETOOLONG, "state_dir is too long")
		       : 0;
}

/* A write that changes nothing: is there room? */
static int try_write(struct weir_agent *a, const struct weir_now *now)
{
	char text[WEIR_TIME_STRLEN];

	return weir_state_set(a->state, "written", weir_clock_format(now->wall_s, text));
}

/* A file that could be read still says what the mode was. */
static int forget(struct weir_agent *a, const char *path, struct weir_error *e)
{
	bool read;

	if (weir_state_open_reading(path, e->text, &a->state, &read) < 0)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (!a->forgetful)
		weir_agent_note(a, e->text);
	a->forgetful = true;
	*e = (struct weir_error){};
	return 0;
}

int weir_agent_open_state(struct weir_agent *a, struct weir_error *e)
{
	_cleanup_free_ char *note = NULL;
	struct weir_now now = weir_now();
	char path[4096], text[768];
	bool read = true;
	int r = state_path(a, path, sizeof(path), e);

	if (r < 0)
		return r;
	if (!a->forgetful)
		r = weir_state_open(path, &a->state, &note, e);
	if (r == 0 && note)
		weir_agent_note(a, note);
	if (a->forgetful || (r == -EACCES && !weir_agent_wants_packets(a->conf)))
		return forget(a, path, e);
	if (weir_disk_refuses(r) || r == -EACCES) {
		if (weir_state_open_reading(path, e->text, &a->state, &read) < 0)
			return weir_error_set(e, -ENOMEM, "out of memory");
		a->unread = !read;
		(void)snprintf(text, sizeof(text), "%s %s",
			       read ? "at start the state file could only be read:"
				    : "at start the state file could not even be read, so nothing "
				      "set by command is in force:",
			       e->text);
		weir_agent_note(a, text);
		r = 0;
	}
	if (r < 0)
		return r;
	if (try_write(a, &now) < 0)
		store_failed(a); /* protection does not wait for it */
	return 0;
}

/* The file may be there again: what it holds counts, where it was not known. */
static int reopen(struct weir_agent *a, const struct weir_now *now)
{
	_cleanup_free_ char *note = NULL;
	struct weir_error e = {};
	char path[4096];
	int r = state_path(a, path, sizeof(path), &e);

	if (r == 0)
		r = weir_state_reopen(path, &a->state, &note, &e);
	if (r == 0 && note)
		weir_agent_note(a, note);
	if (r == 0 && a->unread) {
		a->unread = false;
		r = weir_agent_merge_lists(a, now, &e);
		a->unread = a->unread || r < 0;
	}
	return r;
}

void weir_agent_store_again(struct weir_agent *a, const struct weir_now *now)
{
	int r = 0;

	if (a->forgetful || (!a->unstored && !a->store_error[0]) ||
	    now->mono_ns < a->store_again_ns)
		return;
	a->store_again_ns = now->mono_ns + 10 * WEIR_NS_PER_S;
	if (!weir_state_writable(a->state))
		r = reopen(a, now);
	if (r == 0)
		r = store_entries(a, a->book);
	if (r == 0)
		r = try_write(a, now);
	if (r < 0)
		store_failed(a);
	else if (store_commit(a) == 0) { /* logged else; tried again */
		weir_log(WEIR_LOG_NOTICE, "state-file-written", NULL);
		if (a->unkept)
			weir_agent_keep_settings(a);
	}
}

/* Puts @book in force and in the state file. */
int weir_agent_take_and_store(struct weir_agent *a, struct weir_book **book, json_t *reply,
			      struct weir_error *e)
{
	char note[512];
	int stored, r;

	weir_book_settle(*book);
	stored = store_entries(a, *book);
	if (stored < 0)
		store_failed(a);
	r = weir_agent_take_book(a, book, e);
	if (r < 0) {
		weir_state_rollback(a->state);
		return r;
	}
	if (stored == 0)
		stored = store_commit(a);
	if (stored < 0) {
		a->unstored = true;
		(void)snprintf(
			note, sizeof(note),
			"this acts now, but could not be stored (%s): a restart would undo it",
			a->store_error);
		weir_reply_note(reply, note);
	}
	return 0;
}
