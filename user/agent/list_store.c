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
		.origin = weir_text_get(e->name),
		.reason = e->reason ? weir_text_get(e->reason) : NULL,
		.who = e->who ? weir_text_get(e->who) : NULL,
		.created_s = e->created_s,
		.expires_s = e->expires_s,
		.flags = e->flags,
	};

	if (e->origin != WEIR_ORIGIN_COMMAND)
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

	if (r == 0 && a->unstored)
		r = nothing ? weir_state_clear(a->state) : -ENOMEM;
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

void weir_agent_store_again(struct weir_agent *a, const struct weir_now *now)
{
	if (!a->unstored || now->mono_ns < a->store_again_ns)
		return;
	a->store_again_ns = now->mono_ns + 10 * WEIR_NS_PER_S;
	if (store_entries(a, a->book) < 0)
		store_failed(a);
	else
		(void)store_commit(a); /* logged; tried again */
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
