/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir block|allow as requests: add, del, list, load. What the kernel refuses changes nothing; what only the state file
 * refuses (a full disk) acts all the same, and the answer says that a restart would lose it. Called by commands.c.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/base/log.h"
#include "user/base/str.h"

#define SHOW_MAX  2000 /* entries in one reply */
#define STAGE_MAX (2 * WEIR_LIST_ROOM)
#define FOR_MAX_S (100ull * 366 * 86400)

static const char *list_name(enum weir_list list)
{
	static const char *const names[WEIR_LIST_MAX] = {"allow", "block", "guard"};

	return names[list];
}

static int read_list(const json_t *request, enum weir_list *ret, struct weir_error *e)
{
	const char *name = weir_json_text_of(request, "list");

	for (int l = 0; name && l < WEIR_LIST_MAX; l++)
		if (!strcmp(name, list_name((enum weir_list)l))) {
			*ret = (enum weir_list)l;
			return 0;
		}
	return weir_error_set(e, -EINVAL, "no such list (allow, block and guard are)");
}

static int read_prefix(const char *text, struct weir_prefix *ret, struct weir_error *e)
{
	struct weir_prefix masked;
	char right[WEIR_PREFIX_STRLEN];
	int r = text ? weir_prefix_parse(text, strlen(text), false, ret) : -EINVAL;

	if (r == -EDOM && weir_prefix_parse(text, strlen(text), true, &masked) == 0)
		return weir_error_set(e, -EINVAL, "%.64s has host bits set (%s would be right)",
				      text, weir_prefix_format(&masked, right));
	if (r == -ERANGE)
		return weir_error_set(e, -EINVAL, "%.64s: the length must be 0 to %d", text,
				      strchr(text, ':') ? 128 : 32);
	if (r < 0)
		return weir_error_set(
			e, -EINVAL,
			"%.64s is neither an address nor a prefix (192.0.2.0/24, 2001:db8::1)",
			text ? text : "(nothing)");
	return 0;
}

const char *weir_agent_entry_where(const struct weir_book_entry *e, char *buf, size_t size)
{
	if (e->origin == WEIR_ORIGIN_GUARD)
		(void)snprintf(buf, size, "%s", weir_text_get(e->reason));
	else if (e->line)
		(void)snprintf(buf, size, "%s:%d", weir_text_get(e->name), e->line);
	else
		(void)snprintf(buf, size, "%s",
			       e->name ? weir_text_get(e->name) : weir_origin_name(e->origin));
	return buf;
}

json_t *weir_book_entry_json(const struct weir_agent *a, enum weir_list list,
			     const struct weir_book_entry *e)
{
	char text[WEIR_PREFIX_STRLEN], when[WEIR_TIME_STRLEN], where[512];
	json_t *o = json_object();

	(void)a;
	weir_json_set_text(o, "list", list_name(list));
	weir_json_set_text(o, "prefix", weir_prefix_format(&e->prefix, text));
	weir_json_set_text(o, "origin",
			   e->origin == WEIR_ORIGIN_COMMAND ? weir_text_get(e->name)
							    : weir_origin_name(e->origin));
	weir_json_set_text(o, "where", weir_agent_entry_where(e, where, sizeof(where)));
	weir_json_set_text(o, "expires",
			   e->expires_s ? weir_clock_format(e->expires_s, when) : NULL);
	if (e->expires_ns) {
		__u64 now_ns = weir_clock_ns(CLOCK_MONOTONIC);

		weir_json_set_u64(o, "expires_in_s",
				  e->expires_ns > now_ns ? (e->expires_ns - now_ns) / WEIR_NS_PER_S
							 : 0);
	}
	if (e->created_s)
		weir_json_set_text(o, "created", weir_clock_format(e->created_s, when));
	weir_json_set_text(o, "reason", e->reason ? weir_text_get(e->reason) : NULL);
	weir_json_set_text(o, "who", e->who ? weir_text_get(e->who) : NULL);
	if (e->flags & WEIR_ENTRY_FORCE)
		weir_json_set_bool(o, "force", true);
	return o;
}

static void add_note(json_t *reply, const char *text)
{
	json_t *notes = json_object_get(reply, "notes");

	if (!notes) {
		notes = json_array();
		weir_json_set(reply, "notes", notes);
	}
	(void)json_array_append_new(notes, weir_json_text(text)); /* out of memory: not shown */
}

/* What all entries of one command share. */
struct origin {
	enum weir_list list;
	__u32 flags;
	__s64 created_s, expires_s;
	__u64 expires_ns;
	struct weir_text *name, *reason, *who;
};

static void origin_done(struct origin *o)
{
	weir_text_free(o->name);
	weir_text_free(o->reason);
	weir_text_free(o->who);
}

/* Origins are words of the command line, and not those that mean something else. */
static bool is_origin(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i]))
			return false;
	return n && n < WEIR_STATE_NAME_MAX && strcmp(s, "file") != 0 &&
	       strcmp(s, "list-file") != 0 && strcmp(s, "guard") != 0;
}

static int read_origin(const json_t *request, struct weir_client *c, struct origin *ret,
		       struct weir_error *e)
{
	const char *reason = weir_json_text_of(request, "reason"),
		   *name = weir_json_text_of(request, "origin");
	__u64 for_s = weir_json_u64_of(request, "for_s");
	struct weir_now now = weir_now();
	int r = read_list(request, &ret->list, e);

	if (r < 0)
		return r;
	if (ret->list == WEIR_LIST_GUARD)
		return weir_error_set(
			e, -EINVAL,
			"the guard list follows the host and lists.never_block of the file");
	if (reason && strlen(reason) >= WEIR_STATE_REASON_MAX)
		return weir_error_set(e, -EINVAL, "the reason is longer than %d bytes",
				      WEIR_STATE_REASON_MAX - 1);
	if (name && !is_origin(name))
		return weir_error_set(e, -EINVAL,
				      "origin \"%.64s\": letters, digits, dot, dash and "
				      "underscore, at most %d, and not file, "
				      "list-file or guard",
				      name, WEIR_STATE_NAME_MAX - 1);
	if (for_s > FOR_MAX_S)
		return weir_error_set(
			e, -EINVAL, "--for is longer than a hundred years; leave it out for ever");
	if (weir_json_bool_of(request, "force") && ret->list == WEIR_LIST_BLOCK)
		ret->flags |= WEIR_ENTRY_FORCE;
	ret->created_s = now.wall_s;
	if (for_s) {
		ret->expires_s = now.wall_s + (__s64)for_s;
		ret->expires_ns = now.mono_ns + for_s * WEIR_NS_PER_S;
	}
	ret->name = weir_text_new(name ? name : "command");
	ret->reason = weir_text_new(reason);
	ret->who = weir_text_new(c ? weir_client_who(c) : NULL);
	return ret->name ? 0 : weir_error_set(e, -ENOMEM, "out of memory");
}

static int add_to_book(struct weir_book *b, const struct origin *o, const struct weir_prefix *p)
{
	struct weir_book_entry entry = {
		.prefix = *p,
		.origin = WEIR_ORIGIN_COMMAND,
		.flags = o->flags,
		.expires_ns = o->expires_ns,
		.expires_s = o->expires_s,
		.created_s = o->created_s,
		.name = o->name,
		.reason = o->reason,
		.who = o->who,
	};

	return weir_book_add(b, o->list, &entry);
}

/* The entry of one command origin. */
static const struct weir_book_entry *find_own(const struct weir_book *b, enum weir_list list,
					      const struct weir_prefix *p, const char *name)
{
	const struct weir_book_entry *e = NULL;
	size_t n = weir_book_find(b, list, p, &e);

	for (size_t i = 0; i < n; i++)
		if (e[i].origin == WEIR_ORIGIN_COMMAND && !strcmp(weir_text_get(e[i].name), name))
			return &e[i];
	return NULL;
}

/* --- the state file --------------------------------------------------------------------------- */

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
static int take_and_store(struct weir_agent *a, struct weir_book **book, json_t *reply,
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
		add_note(reply, note);
	}
	return 0;
}

/* --- add, del --------------------------------------------------------------------------------- */

/* Says what a block of @p would do to guarded addresses; refuses what would only hit one. */
static int check_guard(struct weir_agent *a, const struct weir_prefix *p, bool force, json_t *reply,
		       struct weir_error *e)
{
	char text[WEIR_PREFIX_STRLEN], guard[WEIR_PREFIX_STRLEN], where[512], note[1024];
	const struct weir_book_entry *which = NULL;
	size_t covered = 0;
	enum weir_guard_verdict v = weir_guard_check(a->book, p, &which, &covered);

	if (v == WEIR_GUARD_FREE)
		return 0;
	(void)weir_agent_entry_where(which, where, sizeof(where));
	(void)weir_prefix_format(p, text);
	(void)weir_prefix_format(&which->prefix, guard);
	if (v == WEIR_GUARD_HITS && !force)
		return weir_error_set(e, -EPERM,
				      "%s is guarded (%s: %s%.128s); blocking it could lock you "
				      "out (--force does it all the same)",
				      text, guard,
				      which->origin == WEIR_ORIGIN_FILE ? "never_block, " : "",
				      where);
	if (v == WEIR_GUARD_HITS)
		(void)snprintf(note, sizeof(note), "%s is guarded (%.128s) and is blocked by force",
			       text, where);
	else if (force)
		(void)snprintf(
			note, sizeof(note),
			"%zu guarded address%s in %s %s blocked too, by force: %s (%.128s)%s",
			covered, covered == 1 ? "" : "es", text, covered == 1 ? "is" : "are", guard,
			where, covered == 1 ? "" : " and others");
	else
		(void)snprintf(note, sizeof(note),
			       "%zu guarded address%s in %s stay%s reachable: %s (%.128s)%s",
			       covered, covered == 1 ? "" : "es", text, covered == 1 ? "s" : "",
			       guard, where, covered == 1 ? "" : " and others");
	add_note(reply, note);
	return 0;
}

static void note_allows(struct weir_agent *a, const struct weir_prefix *p, json_t *reply)
{
	const struct weir_book_list *l = &a->book->list[WEIR_LIST_ALLOW];
	char text[WEIR_PREFIX_STRLEN], note[256];

	for (size_t i = 0; i < l->n; i++) {
		if (!weir_prefix_overlaps(&l->item[i].prefix, p))
			continue;
		(void)snprintf(note, sizeof(note),
			       "%s is on the allow list, which beats the block list",
			       weir_prefix_format(&l->item[i].prefix, text));
		add_note(reply, note);
		return;
	}
}

static json_t *add(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	_cleanup_(weir_book_freep) struct weir_book *book = weir_book_copy(a->book);
	_cleanup_json_ json_t *reply = weir_reply_ok();
	const struct weir_book_entry *old, *now;
	struct origin o = {};
	struct weir_prefix p;
	struct weir_error e = {};
	__s64 old_expires_s = 0;
	bool had;
	int r = book ? read_origin(request, c, &o, &e) : -ENOMEM;

	if (r == 0)
		r = read_prefix(weir_json_text_of(request, "prefix"), &p, &e);
	if (r == 0 && o.list == WEIR_LIST_BLOCK)
		r = check_guard(a, &p, o.flags & WEIR_ENTRY_FORCE, reply, &e);
	if (r == 0) {
		old = find_own(a->book, o.list, &p, weir_text_get(o.name));
		had = old != NULL;
		old_expires_s = old ? old->expires_s : 0;
		r = add_to_book(book, &o, &p);
	}
	if (r == 0)
		r = take_and_store(a, &book, reply, &e);
	if (r == 0) {
		if (o.list == WEIR_LIST_BLOCK)
			note_allows(a, &p, reply);
		now = find_own(a->book, o.list, &p, weir_text_get(o.name));
		weir_json_set(reply, "entry",
			      now ? weir_book_entry_json(a, o.list, now) : json_null());
		weir_json_set_bool(reply, "extended", had);
		if (had && (!old_expires_s || (o.expires_s && o.expires_s < old_expires_s)))
			add_note(reply, "it was there already for longer than that: its end stays "
					"(del first to shorten)");
		weir_log(WEIR_LOG_NOTICE, "list-add", "list", "s", list_name(o.list), "prefix", "s",
			 weir_json_text_of(request, "prefix"), "who", "s", weir_text_get(o.who),
			 "reason", "s", o.reason ? weir_text_get(o.reason) : NULL, NULL);
	}
	origin_done(&o);
	return r < 0 ? weir_reply_error(r, e.text) : TAKE_PTR(reply);
}

struct which {
	enum weir_list list;
	const struct weir_prefix *prefix; /* NULL = any */
	const char *origin;		  /* NULL = any */
};

static bool is_which(const void *arg, enum weir_list list, const struct weir_book_entry *e)
{
	const struct which *w = arg;

	return list == w->list && e->origin == WEIR_ORIGIN_COMMAND &&
	       (!w->prefix || !weir_prefix_compare(w->prefix, &e->prefix)) &&
	       (!w->origin || !strcmp(w->origin, weir_text_get(e->name)));
}

/* What still lists @p, or covers it, after a deletion. */
static void note_rest(struct weir_agent *a, enum weir_list list, const struct weir_prefix *p,
		      json_t *reply)
{
	const struct weir_book_list *l = &a->book->list[list];
	char text[WEIR_PREFIX_STRLEN], where[512], note[768];

	for (size_t i = 0; i < l->n; i++) {
		if (!weir_prefix_contains(&l->item[i].prefix, p))
			continue;
		(void)snprintf(note, sizeof(note), "%s is still on the %s list, by %s",
			       weir_prefix_format(&l->item[i].prefix, text), list_name(list),
			       weir_agent_entry_where(&l->item[i], where, sizeof(where)));
		add_note(reply, note);
	}
}

static int refuse_file_entry(struct weir_agent *a, enum weir_list list, const struct weir_prefix *p,
			     struct weir_error *e)
{
	char text[WEIR_PREFIX_STRLEN], where[256];
	const struct weir_book_entry *entry = NULL;
	size_t n = weir_book_find(a->book, list, p, &entry), i;

	for (i = 0; i < n; i++)
		if (entry[i].origin == WEIR_ORIGIN_COMMAND)
			return 0;
	if (!n)
		return 0; /* deleting what is not there is success */
	return weir_error_set(
		e, -EPERM,
		"%s is on the %s list by %s, not by command: remove it there, then weir reload",
		weir_prefix_format(p, text), list_name(list),
		weir_agent_entry_where(&entry[0], where, sizeof(where)));
}

static json_t *del(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	_cleanup_(weir_book_freep) struct weir_book *book = weir_book_copy(a->book);
	_cleanup_json_ json_t *reply = weir_reply_ok();
	const char *text = weir_json_text_of(request, "prefix"),
		   *origin = weir_json_text_of(request, "origin");
	struct which w = {.origin = origin};
	struct weir_prefix p;
	struct weir_error e = {};
	size_t n = 0;
	int r = book ? read_list(request, &w.list, &e) : -ENOMEM;

	if (r == 0 && w.list == WEIR_LIST_GUARD)
		r = weir_error_set(
			&e, -EINVAL,
			"the guard list follows the host and lists.never_block of the file");
	if (r == 0 && !text && !origin)
		r = weir_error_set(&e, -EINVAL, "what to delete: a prefix, or --origin NAME");
	if (r == 0 && origin && (!strcmp(origin, "file") || !strcmp(origin, "list-file")))
		r = weir_error_set(&e, -EPERM,
				   "entries of files are removed there, then weir reload");
	if (r == 0 && text) {
		r = read_prefix(text, &p, &e);
		w.prefix = &p;
	}
	if (r == 0 && text)
		r = refuse_file_entry(a, w.list, &p, &e);
	if (r == 0) {
		n = weir_book_remove(book, w.list, is_which, &w);
		r = take_and_store(a, &book, reply, &e);
	}
	if (r < 0)
		return weir_reply_error(r, e.text);
	weir_json_set_u64(reply, "deleted", n);
	if (text)
		note_rest(a, w.list, &p, reply);
	weir_log(WEIR_LOG_NOTICE, "list-del", "list", "s", list_name(w.list), "prefix", "s", text,
		 "origin", "s", origin, "entries", "u", (unsigned long long)n, "who", "s",
		 c ? weir_client_who(c) : NULL, NULL);
	return TAKE_PTR(reply);
}

/* --- list ------------------------------------------------------------------------------------- */

static json_t *show(struct weir_agent *a, const json_t *request)
{
	__u64 offset = weir_json_u64_of(request, "offset");
	json_t *reply, *entries;
	struct weir_error e = {};
	enum weir_list list;
	int r = read_list(request, &list, &e);

	if (r < 0)
		return weir_reply_error(r, e.text);
	reply = weir_reply_ok();
	entries = json_array();
	for (size_t i = offset; i < a->book->list[list].n && i - offset < SHOW_MAX; i++)
		(void)json_array_append_new(entries,
					    weir_book_entry_json(a, list,
								 &a->book->list[list].item[i]));
	weir_json_set_u64(reply, "total", a->book->list[list].n);
	weir_json_set(reply, "entries", entries);
	return reply;
}

json_t *weir_agent_lists_json(const struct weir_agent *a)
{
	json_t *o = json_object();

	for (int l = 0; l < WEIR_LIST_MAX; l++) {
		const struct weir_book_list *list = &a->book->list[l];
		json_t *counts = json_object();
		__u64 by[WEIR_ORIGIN_MAX] = {};

		for (size_t i = 0; i < list->n; i++)
			by[list->item[i].origin]++;
		weir_json_set_u64(counts, "total", list->n);
		weir_json_set_u64(counts, "ipv4", weir_book_count(a->book, (enum weir_list)l, 4));
		weir_json_set_u64(counts, "ipv6", weir_book_count(a->book, (enum weir_list)l, 6));
		weir_json_set_u64(counts, "room", WEIR_LIST_ROOM);
		for (int i = WEIR_ORIGIN_FILE; i < WEIR_ORIGIN_MAX; i++)
			weir_json_set_u64(counts, weir_origin_name((enum weir_origin)i), by[i]);
		weir_json_set(o, list_name((enum weir_list)l), counts);
	}
	return o;
}

/* --- load ------------------------------------------------------------------------------------- */

/* Entries that a client has sent so far; nothing of it acts before load_commit. */
struct stage {
	struct origin origin;
	struct weir_prefix *item;
	size_t n, room;
};

static void stage_free(void *p)
{
	struct stage *s = p;

	origin_done(&s->origin);
	free(s->item);
	free(s);
}

static json_t *load_begin(struct weir_client *c, const json_t *request)
{
	struct stage *s = calloc(1, sizeof(*s));
	struct weir_error e = {};
	int r = s ? read_origin(request, c, &s->origin, &e) : -ENOMEM;

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

static json_t *load_add(struct weir_client *c, const json_t *request)
{
	struct stage *s = c ? weir_client_data(c) : NULL;
	const json_t *entries = json_object_get(request, "entries");
	struct weir_error e = {};
	json_t *text;
	size_t i;
	int r = 0;

	if (!s)
		return weir_reply_error(-EINVAL, "load_add before load_begin");
	json_array_foreach((json_t *)(uintptr_t)entries, i, text)
	{
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
			r = read_prefix(json_string_value(text), &s->item[s->n], &e);
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
	add_note(reply, note);
}

static json_t *load_commit(struct weir_agent *a, struct weir_client *c)
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
		r = add_to_book(book, &s->origin, &s->item[i]);
	if (r == 0) {
		note_guarded(a, s, reply);
		r = take_and_store(a, &book, reply, &e);
	}
	if (r == 0) {
		size_t added = a->book->list[s->origin.list].n - before;

		weir_json_set_u64(reply, "added", added);
		weir_json_set_u64(reply, "extended", s->n - added);
		weir_log(WEIR_LOG_NOTICE, "list-load", "list", "s", list_name(s->origin.list),
			 "origin", "s", weir_text_get(s->origin.name), "added", "u",
			 (unsigned long long)added, "entries", "u", (unsigned long long)s->n, "who",
			 "s", weir_client_who(c), NULL);
	}
	weir_client_set_data(c, NULL, NULL);
	return r < 0 ? weir_reply_error(r, e.text) : TAKE_PTR(reply);
}

json_t *weir_agent_list_command(struct weir_agent *a, struct weir_client *c, const char *cmd,
				const json_t *request)
{
	if (!strcmp(cmd, "list_add"))
		return add(a, c, request);
	if (!strcmp(cmd, "list_del"))
		return del(a, c, request);
	if (!strcmp(cmd, "list_show"))
		return show(a, request);
	if (!strcmp(cmd, "load_begin"))
		return load_begin(c, request);
	if (!strcmp(cmd, "load_add"))
		return load_add(c, request);
	if (!strcmp(cmd, "load_commit"))
		return load_commit(a, c);
	return NULL;
}
