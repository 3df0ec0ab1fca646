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
#define FOR_MAX_S (100ull * 366 * 86400)

const char *weir_list_name(enum weir_list list)
{
	static const char *const names[WEIR_LIST_MAX] = {"allow", "block", "guard"};

	return names[list];
}

static int read_list(const json_t *request, enum weir_list *ret, struct weir_error *e)
{
	const char *name = weir_json_text_of(request, "list");

	for (int l = 0; name && l < WEIR_LIST_MAX; l++)
		if (!strcmp(name, weir_list_name((enum weir_list)l))) {
			*ret = (enum weir_list)l;
			return 0;
		}
	return weir_error_set(e, -EINVAL, "no such list (allow, block and guard are)");
}

int weir_read_prefix(const char *text, struct weir_prefix *ret, struct weir_error *e)
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
		(void)snprintf(buf, size, "%s", weir_shared_text_get(e->reason));
	else if (e->line)
		(void)snprintf(buf, size, "%s:%d", weir_shared_text_get(e->name), e->line);
	else
		(void)snprintf(buf, size, "%s",
			       e->name ? weir_shared_text_get(e->name)
				       : weir_origin_name(e->origin));
	return buf;
}

json_t *weir_book_entry_json(const struct weir_agent *a, enum weir_list list,
			     const struct weir_book_entry *e)
{
	char text[WEIR_PREFIX_STRLEN], when[WEIR_TIME_STRLEN], where[512];
	json_t *o = json_object();

	(void)a;
	weir_json_set_text(o, "list", weir_list_name(list));
	weir_json_set_text(o, "prefix", weir_prefix_format(&e->prefix, text));
	weir_json_set_text(o, "origin",
			   e->origin == WEIR_ORIGIN_COMMAND ? weir_shared_text_get(e->name)
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
	weir_json_set_text(o, "reason", e->reason ? weir_shared_text_get(e->reason) : NULL);
	weir_json_set_text(o, "who", e->who ? weir_shared_text_get(e->who) : NULL);
	if (e->flags & WEIR_ENTRY_FORCE)
		weir_json_set_bool(o, "force", true);
	if (e->fleet) {
		weir_json_set_bool(o, "fleet", true);
		weir_json_set_text(o, "host", weir_shared_text_get(e->host));
	}
	return o;
}

void weir_reply_note(json_t *reply, const char *text)
{
	json_t *notes = json_object_get(reply, "notes");

	if (!notes) {
		notes = json_array();
		weir_json_set(reply, "notes", notes);
	}
	(void)json_array_append_new(notes, weir_json_text(text)); /* out of memory: not shown */
}

void weir_list_origin_done(struct weir_list_origin *o)
{
	weir_shared_text_free(o->name);
	weir_shared_text_free(o->reason);
	weir_shared_text_free(o->who);
}

/* Origins are words of the command line, and not those that mean something else. */
static bool is_origin(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i]))
			return false;
	return n && n < WEIR_STATE_NAME_MAX && strcmp(s, "command") != 0 &&
	       strcmp(s, WEIR_ESCALATION_ORIGIN) != 0 && strcmp(s, "file") != 0 &&
	       strcmp(s, "list-file") != 0 && strcmp(s, "guard") != 0;
}

int weir_list_origin_read(const json_t *request, struct weir_client *c,
			  struct weir_list_origin *ret, struct weir_error *e)
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
				      "underscore, at most %d, and not command, file, list-file, "
				      "guard or escalation (load FILE --origin NAME gives one)",
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
	ret->name = weir_shared_text_new(name ? name : "command");
	ret->reason = weir_shared_text_new(reason);
	ret->who = weir_shared_text_new(c ? weir_client_who(c) : NULL);
	return ret->name ? 0 : weir_error_set(e, -ENOMEM, "out of memory");
}

int weir_list_origin_add(struct weir_book *b, const struct weir_list_origin *o,
			 const struct weir_prefix *p)
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
		if (e[i].origin == WEIR_ORIGIN_COMMAND &&
		    !strcmp(weir_shared_text_get(e[i].name), name))
			return &e[i];
	return NULL;
}

/* It may be held back here. */
static const struct weir_book_entry *find_either(const struct weir_agent *a, enum weir_list list,
						 const struct weir_prefix *p, const char *name)
{
	const struct weir_book_entry *e = find_own(a->book, list, p, name);

	return e || !a->held ? e : find_own(a->held, list, p, name);
}

static void note_held(const struct weir_agent *a, enum weir_list list, const struct weir_prefix *p,
		      json_t *reply)
{
	const struct weir_book_entry *e = NULL;

	if (a->held && weir_book_find(a->held, list, p, &e))
		weir_reply_note(reply,
				"this host guards or allows it: it acts on the others alone");
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
	weir_reply_note(reply, note);
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
		weir_reply_note(reply, note);
		return;
	}
}

static json_t *add(struct weir_agent *a, struct weir_client *c, const json_t *request)
{
	_cleanup_(weir_book_freep) struct weir_book *book = weir_book_copy(a->book);
	_cleanup_json_ json_t *reply = weir_reply_ok();
	const struct weir_book_entry *old, *now;
	struct weir_list_origin o = {};
	struct weir_prefix p;
	struct weir_error e = {};
	__s64 old_expires_s = 0;
	bool had;
	int r = book ? weir_list_origin_read(request, c, &o, &e) : -ENOMEM;

	if (r == 0)
		r = weir_read_prefix(weir_json_text_of(request, "prefix"), &p, &e);
	if (r == 0 && o.list == WEIR_LIST_BLOCK)
		r = check_guard(a, &p, o.flags & WEIR_ENTRY_FORCE, reply, &e);
	if (r == 0) {
		old = find_either(a, o.list, &p, weir_shared_text_get(o.name));
		had = old != NULL;
		old_expires_s = old ? old->expires_s : 0;
		r = weir_list_origin_add(book, &o, &p);
	}
	if (r == 0 && a->fleet_lists)
		r = weir_agent_fleet_add(a, &o, &p, 1, reply, &e);
	else if (r == 0)
		r = weir_agent_take_and_store(a, &book, reply, &e);
	if (r == 0) {
		if (o.list == WEIR_LIST_BLOCK)
			note_allows(a, &p, reply);
		now = find_either(a, o.list, &p, weir_shared_text_get(o.name));
		note_held(a, o.list, &p, reply);
		weir_json_set(reply, "entry",
			      now ? weir_book_entry_json(a, o.list, now) : json_null());
		weir_json_set_bool(reply, "extended", had);
		if (had && !old_expires_s && !o.expires_s)
			weir_reply_note(reply, "it was there already, without an end");
		else if (had && (!old_expires_s || (o.expires_s && o.expires_s < old_expires_s)))
			weir_reply_note(reply, "it was there already for longer than that: its end "
					       "stays (del first to shorten)");
		weir_log(WEIR_LOG_NOTICE, "list-add", "list", "s", weir_list_name(o.list), "prefix",
			 "s", weir_json_text_of(request, "prefix"), "who", "s",
			 weir_shared_text_get(o.who), "reason", "s",
			 o.reason ? weir_shared_text_get(o.reason) : NULL, NULL);
	}
	weir_list_origin_done(&o);
	return r < 0 ? weir_reply_error(r, e.text) : TAKE_PTR(reply);
}

/* "escalation" stands for "escalation:RULE" of every rule. */
static bool has_origin(const char *name, const char *origin)
{
	size_t n = strlen(origin);

	return !strncmp(name, origin, n) && (!name[n] || name[n] == ':');
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
	       (!w->origin || has_origin(weir_shared_text_get(e->name), w->origin));
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
			       weir_prefix_format(&l->item[i].prefix, text), weir_list_name(list),
			       weir_agent_entry_where(&l->item[i], where, sizeof(where)));
		weir_reply_note(reply, note);
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
		weir_prefix_format(p, text), weir_list_name(list),
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
		r = weir_read_prefix(text, &p, &e);
		w.prefix = &p;
	}
	if (r == 0 && text)
		r = refuse_file_entry(a, w.list, &p, &e);
	if (r == 0 && a->fleet_lists) {
		r = weir_agent_fleet_del(a, w.list, w.prefix, origin, reply, &n, &e);
	} else if (r == 0) {
		n = weir_book_remove(book, w.list, is_which, &w);
		r = weir_agent_take_and_store(a, &book, reply, &e);
	}
	if (r < 0)
		return weir_reply_error(r, e.text);
	weir_json_set_u64(reply, "deleted", n);
	if (text)
		note_rest(a, w.list, &p, reply);
	weir_log(WEIR_LOG_NOTICE, "list-del", "list", "s", weir_list_name(w.list), "prefix", "s",
		 text, "origin", "s", origin, "entries", "u", (unsigned long long)n, "who", "s",
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
	size_t n, held;
	int r = read_list(request, &list, &e);

	if (r < 0)
		return weir_reply_error(r, e.text);
	reply = weir_reply_ok();
	entries = json_array();
	n = a->book->list[list].n;
	held = a->held ? a->held->list[list].n : 0;
	for (size_t i = offset; i < n + held && i - offset < SHOW_MAX; i++) {
		json_t *o = weir_book_entry_json(a, list,
						 i < n ? &a->book->list[list].item[i]
						       : &a->held->list[list].item[i - n]);

		if (i >= n)
			weir_json_set_bool(o, "held", true);
		(void)json_array_append_new(entries, o); /* no memory: not shown */
	}
	weir_json_set_u64(reply, "total", n + held);
	weir_json_set(reply, "entries", entries);
	return reply;
}

json_t *weir_agent_lists_json(const struct weir_agent *a)
{
	json_t *o = json_object();

	for (int l = 0; l < WEIR_LIST_MAX; l++) {
		const struct weir_book_list *list = &a->book->list[l];
		json_t *counts = json_object();
		__u64 by[WEIR_ORIGIN_MAX] = {}, escalated = 0, fleet = 0;

		for (size_t i = 0; i < list->n; i++) {
			by[list->item[i].origin]++;
			escalated += weir_is_escalation(&list->item[i]);
			fleet += list->item[i].fleet;
		}
		weir_json_set_u64(counts, "total", list->n);
		weir_json_set_u64(counts, "ipv4", weir_book_count(a->book, (enum weir_list)l, 4));
		weir_json_set_u64(counts, "ipv6", weir_book_count(a->book, (enum weir_list)l, 6));
		weir_json_set_u64(counts, "room", WEIR_LIST_ROOM);
		for (int i = WEIR_ORIGIN_FILE; i < WEIR_ORIGIN_MAX; i++)
			weir_json_set_u64(counts, weir_origin_name((enum weir_origin)i), by[i]);
		weir_json_set_u64(counts, WEIR_ESCALATION_ORIGIN, escalated);
		weir_json_set_u64(counts, "fleet", fleet);
		weir_json_set_u64(counts, "held", a->held ? a->held->list[l].n : 0);
		weir_json_set(o, weir_list_name((enum weir_list)l), counts);
	}
	return o;
}

/* What does not see packets has nothing that a list could act on. */
static json_t *no_packet_layer(void)
{
	return weir_reply_error(
		-ENOENT,
		"this agent has no packet layer (interfaces: []), so there is nothing that a block "
		"or allow list acts on (exempt: in the configuration spares requests)");
}

json_t *weir_agent_list_command(struct weir_agent *a, struct weir_client *c, const char *cmd,
				const json_t *request)
{
	if (!a->dp && !a->fleet_lists && (!strncmp(cmd, "list_", 5) || !strncmp(cmd, "load_", 5)))
		return no_packet_layer();
	if (!strcmp(cmd, "list_add"))
		return add(a, c, request);
	if (!strcmp(cmd, "list_del"))
		return del(a, c, request);
	if (!strcmp(cmd, "list_show"))
		return show(a, request);
	if (!strcmp(cmd, "load_begin"))
		return weir_agent_load_begin(c, request);
	if (!strcmp(cmd, "load_add"))
		return weir_agent_load_add(c, request);
	if (!strcmp(cmd, "load_commit"))
		return weir_agent_load_commit(a, c);
	return NULL;
}
