/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir block|allow load: the entries of a file come in several requests of one connection and act all at once, or not at
 * all. Called by list_commands.c.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/base/log.h"

#define STAGE_MAX (2 * WEIR_LIST_ROOM)

/* Entries that a client has sent so far; nothing of it acts before load_commit. */
struct stage {
	struct weir_list_origin origin;
	struct weir_prefix *item;
	size_t n, room;
};

static void stage_free(void *p)
{
	struct stage *s = p;

	weir_list_origin_done(&s->origin);
	free(s->item);
	free(s);
}

json_t *weir_agent_load_begin(struct weir_client *c, const json_t *request)
{
	struct stage *s = calloc(1, sizeof(*s));
	struct weir_error e = {};
	int r = s ? weir_list_origin_read(request, c, &s->origin, &e) : -ENOMEM;

	if (r == 0 && !c)
		r = -EINVAL;
	if (r < 0) {
		if (s)
			stage_free(s);
		return weir_reply_error(r, e.text);
	}
	s->origin.flags = 0; /* a list of others never takes the guard away */
	weir_client_set_data(c, s, stage_free);
	return weir_reply_ok();
}

json_t *weir_agent_load_add(struct weir_client *c, const json_t *request)
{
	struct stage *s = c ? weir_client_data(c) : NULL;
	const json_t *entries = json_object_get(request, "entries");
	struct weir_error e = {};
	json_t *text;
	size_t i;
	int r = 0;

	if (!s)
		return weir_reply_error(-EINVAL, "load_add before load_begin");
	json_array_foreach((json_t *)(uintptr_t)entries, i, text) {
		if (s->n == STAGE_MAX)
			r = weir_error_set(&e, -ENOSPC,
					   "more than %d entries cannot fit; nothing was changed",
					   STAGE_MAX);
		if (r == 0 && s->n == s->room) {
			size_t room = s->room ? 2 * s->room : 1024;
			struct weir_prefix *item = reallocarray(s->item, room, sizeof(*item));

			r = item ? 0 : -ENOMEM;
			s->item = item ? item : s->item;
			s->room = item ? room : s->room;
		}
		if (r == 0)
			r = weir_read_prefix(json_string_value(text), &s->item[s->n], &e);
		if (r < 0)
			break;
		s->n++;
	}
	if (r < 0) {
		weir_client_set_data(c, NULL, NULL);
		return weir_reply_error(r, e.text);
	}
	return weir_reply_ok();
}

/* How many of a block list never act because they are guarded. */
static void note_guarded(struct weir_agent *a, const struct stage *s, json_t *reply)
{
	char first[WEIR_PREFIX_STRLEN] = "", where[512], note[768];
	size_t n = 0;

	for (size_t i = 0; i < s->n && s->origin.list == WEIR_LIST_BLOCK; i++) {
		const struct weir_book_entry *which = NULL;
		size_t covered;

		if (weir_guard_check(a->book, &s->item[i], &which, &covered) != WEIR_GUARD_HITS)
			continue;
		if (!n++) {
			(void)weir_prefix_format(&s->item[i], first);
			(void)weir_agent_entry_where(which, where, sizeof(where));
		}
	}
	if (!n)
		return;
	(void)snprintf(note, sizeof(note), "%zu entr%s guarded and never act%s, first %s (%s)", n,
		       n == 1 ? "y is" : "ies are", n == 1 ? "s" : "", first, where);
	weir_reply_note(reply, note);
}

json_t *weir_agent_load_commit(struct weir_agent *a, struct weir_client *c)
{
	_cleanup_(weir_book_freep) struct weir_book *book = weir_book_copy(a->book);
	struct stage *s = c ? weir_client_data(c) : NULL;
	_cleanup_json_ json_t *reply = weir_reply_ok();
	struct weir_error e = {};
	size_t before;
	int r = book ? 0 : -ENOMEM;

	if (!s)
		return weir_reply_error(-EINVAL, "load_commit before load_begin");
	before = a->book->list[s->origin.list].n;
	for (size_t i = 0; i < s->n && r == 0; i++)
		r = weir_list_origin_add(book, &s->origin, &s->item[i]);
	if (r == 0) {
		note_guarded(a, s, reply);
		r = a->fleet_lists ? weir_agent_fleet_add(a, &s->origin, s->item, s->n, reply, &e)
				   : weir_agent_take_and_store(a, &book, reply, &e);
	}
	if (r == 0) {
		size_t added = a->book->list[s->origin.list].n - before;

		weir_json_set_u64(reply, "added", added);
		weir_json_set_u64(reply, "extended", s->n - added);
		weir_log(WEIR_LOG_NOTICE, "list-load", "list", "s", weir_list_name(s->origin.list),
			 "origin", "s", weir_shared_text_get(s->origin.name), "added", "u",
			 (unsigned long long)added, "entries", "u", (unsigned long long)s->n, "who",
			 "s", weir_client_who(c), NULL);
	}
	weir_client_set_data(c, NULL, NULL);
	return r < 0 ? weir_reply_error(r, e.text) : TAKE_PTR(reply);
}
