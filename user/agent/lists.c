/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lists in force: from one book to the next, restored from the state file, expired, compared with the kernel; and
 * the guard list, which follows the host's addresses. Called by start.c, list_commands.c and the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/base/log.h"
#include "user/base/str.h"

int weir_agent_check_room(const struct weir_book *b, struct weir_error *e)
{
	static const char *const names[WEIR_LIST_MAX] = {"allow", "block", "never_block"};

	for (int l = 0; l < WEIR_LIST_MAX; l++)
		for (__u8 family = 4; family <= 6; family += 2) {
			size_t n = weir_book_count(b, (enum weir_list)l, family);

			if (n > WEIR_LIST_ROOM)
				return weir_error_set(e, -ENOSPC,
						      "the %s list has %zu IPv%u entries, and %d "
						      "fit: %zu too many; nothing was changed",
						      names[l], n, family, WEIR_LIST_ROOM,
						      n - WEIR_LIST_ROOM);
		}
	return 0;
}

static __u64 first_expiry(const struct weir_book *b)
{
	__u64 first = 0;

	for (int l = 0; l < WEIR_LIST_MAX; l++)
		for (size_t i = 0; i < b->list[l].n; i++) {
			__u64 at = b->list[l].item[i].expires_ns;

			if (at && (!first || at < first))
				first = at;
		}
	return first;
}

void weir_agent_set_book(struct weir_agent *a, struct weir_book **book)
{
	weir_book_free(a->book);
	a->book = TAKE_PTR(*book);
	a->next_expiry_ns = first_expiry(a->book);
}

/* Tells the kernel the way of one list from @from to @to. */
static int change_list(struct weir_agent *a, const struct weir_book *from,
		       const struct weir_book *to, enum weir_list list, struct weir_error *e)
{
	struct weir_book_change c = {};
	int r = a->dp ? weir_book_compare(from, to, list, &c) : 0;

	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	if (c.n_add)
		r = weir_datapath_list_add(a->dp, list, c.add, c.n_add, e);
	if (r == 0 && c.n_del)
		r = weir_datapath_list_del(a->dp, list, c.del, c.n_del, e);
	weir_book_change_done(&c);
	return r;
}

/* Guards and allows first, so that nothing is blocked for a moment that shall not be. */
static const enum weir_list order[] = {WEIR_LIST_GUARD, WEIR_LIST_ALLOW, WEIR_LIST_BLOCK};

int weir_agent_take_book(struct weir_agent *a, struct weir_book **book, struct weir_error *e)
{
	size_t i;
	int r;

	weir_book_settle(*book);
	r = weir_agent_check_room(*book, e);
	for (i = 0; i < ARRAY_LEN(order) && r == 0; i++)
		r = change_list(a, a->book, *book, order[i], e);
	if (r < 0) {
		while (i-- >
		       0) /* back; what fails here the comparison with the kernel finds later */
			(void)change_list(a, *book, a->book, order[i], NULL);
		return r;
	}
	weir_agent_set_book(a, book);
	return 0;
}

/* --- state file ------------------------------------------------------------------------------- */

struct restore {
	struct weir_book *book;
	const struct weir_book *known; /* what is in here is left out; NULL = nothing */
	const struct weir_now *now;
	size_t n;
};

static bool is_known(const struct weir_book *b, const struct weir_state_entry *s)
{
	const struct weir_book_entry *e = NULL;
	size_t n = b ? weir_book_find(b, s->list, &s->prefix, &e) : 0;

	for (size_t i = 0; i < n; i++)
		if (e[i].origin == WEIR_ORIGIN_COMMAND &&
		    !strcmp(weir_shared_text_get(e[i].name), s->origin))
			return true;
	return false;
}

static int restore_entry(void *arg, const struct weir_state_entry *s)
{
	struct restore *x = arg;
	_cleanup_(weir_shared_text_freep) struct weir_shared_text *name =
		weir_shared_text_new(s->origin);
	_cleanup_(weir_shared_text_freep) struct weir_shared_text *reason =
		weir_shared_text_new(s->reason);
	_cleanup_(weir_shared_text_freep) struct weir_shared_text *who =
		weir_shared_text_new(s->who);
	struct weir_book_entry entry = {
		.prefix = s->prefix,
		.origin = WEIR_ORIGIN_COMMAND,
		.flags = s->flags & WEIR_ENTRY_FORCE,
		.expires_ns = weir_clock_to_mono(x->now, s->expires_s),
		.expires_s = s->expires_s,
		.by_wall = true,
		.created_s = s->created_s,
		.name = name,
		.reason = reason,
		.who = who,
	};

	if ((s->expires_s && s->expires_s <= x->now->wall_s) || is_known(x->known, s))
		return 0;
	x->n++;
	return weir_book_add(x->book, s->list, &entry);
}

/* Entries of the state file that are not @known into @book. Protection does not wait for a file that cannot be read. */
static int restore_into(struct weir_agent *a, struct weir_book *book, const struct weir_book *known,
			const struct weir_now *now, struct weir_error *e)
{
	struct restore x = {.book = book, .known = known, .now = now};
	unsigned bad = 0;
	int r = weir_state_each(a->state, restore_entry, &x, &bad);
	char note[256];

	if (r == -ENOMEM)
		return weir_error_set(e, r, "out of memory");
	a->unread = a->unread || r < 0;
	if (r < 0) {
		(void)snprintf(note, sizeof(note),
			       "list entries made by command could not all be read from the state "
			       "file: %s",
			       weir_state_why(a->state));
		weir_agent_note(a, note);
	}
	if (bad)
		weir_log(WEIR_LOG_WARNING, "state-file", "unreadable_entries", "u",
			 (unsigned long long)bad, NULL);
	if (x.n)
		weir_log(WEIR_LOG_INFO, "lists-restored", "entries", "u", (unsigned long long)x.n,
			 NULL);
	weir_book_settle(book);
	return 0;
}

/* What is over stays in the file until something ends: the clock may be wrong yet. */
int weir_agent_restore_lists(struct weir_agent *a, const struct weir_now *now, struct weir_error *e)
{
	return restore_into(a, a->book, NULL, now, e);
}

int weir_agent_merge_lists(struct weir_agent *a, const struct weir_now *now, struct weir_error *e)
{
	_cleanup_(weir_book_freep) struct weir_book *book = NULL;
	int r;

	if (!a->dp)
		return 0; /* they stay in the file */
	book = weir_book_copy(a->book);
	r = book ? restore_into(a, book, NULL, now, e) : -ENOMEM;

	return r < 0 ? r : weir_agent_take_book(a, &book, e);
}

/* The ends of entries after the wall clock was set; true if the state file must follow. */
static bool move_ends(struct weir_book *book, const struct weir_now *now, __s64 step_s)
{
	bool moved = false;

	for (int l = 0; l < WEIR_LIST_MAX; l++)
		for (size_t i = 0; i < book->list[l].n; i++) {
			struct weir_book_entry *e = &book->list[l].item[i];

			if (e->by_wall) {
				e->expires_ns = weir_clock_to_mono(now, e->expires_s);
				continue;
			}
			if (e->created_s)
				e->created_s += step_s;
			if (e->expires_s)
				e->expires_s = weir_clock_to_wall(now, e->expires_ns);
			moved = moved || (e->origin == WEIR_ORIGIN_COMMAND && !e->fleet);
		}
	return moved;
}

int weir_agent_move_lists(struct weir_agent *a, const struct weir_now *now, __s64 step_s,
			  struct weir_error *e)
{
	_cleanup_(weir_book_freep) struct weir_book *book = NULL;
	bool moved;
	int r;

	if (!a->dp)
		return 0;
	book = weir_book_copy(a->book);
	if (!book)
		return weir_error_set(e, -ENOMEM, "out of memory");
	moved = move_ends(book, now, step_s);
	r = step_s < 0 ? restore_into(a, book, a->book, now, e)
		       : 0; /* left out as over at start, and is not */
	if (r == 0)
		r = weir_agent_take_book(a, &book, e);
	if (r == 0 && moved)
		a->unstored = true;
	return r;
}

static bool is_over(const void *arg, enum weir_list list, const struct weir_book_entry *e)
{
	(void)list;
	return e->expires_ns && e->expires_ns <= *(const __u64 *)arg;
}

void weir_agent_expire(struct weir_agent *a, const struct weir_now *now)
{
	_cleanup_(weir_book_freep) struct weir_book *book = NULL;
	struct weir_error e = {};
	size_t n;

	if (!a->next_expiry_ns || now->mono_ns < a->next_expiry_ns)
		return;
	book = weir_book_copy(a->book);
	if (!book)
		return; /* the kernel has let go of them already; tried again in a second */
	n = weir_book_remove(book, WEIR_LIST_MAX, is_over, &now->mono_ns);
	if (weir_agent_take_book(a, &book, &e) < 0) {
		weir_log(WEIR_LOG_WARNING, "expiry-failed", "why", "s", e.text, NULL);
		a->next_expiry_ns = now->mono_ns + 10 * WEIR_NS_PER_S;
		return;
	}
	if (weir_state_expire(a->state, now->wall_s) < 0 && !a->store_error[0])
		weir_log(WEIR_LOG_WARNING, "state-file-failed", "why", "s",
			 weir_state_why(a->state), NULL);
	weir_log(WEIR_LOG_INFO, "expired", "entries", "u", (unsigned long long)n, NULL);
}

/* --- somebody else's hands -------------------------------------------------------------------- */

#define RECONCILE_NS (20 * WEIR_NS_PER_S) /* one list each time */

/* A book that has what the kernel has in @list, to be compared. */
static int kernel_book(struct weir_agent *a, enum weir_list list, struct weir_book **ret)
{
	_cleanup_(weir_book_freep) struct weir_book *b = weir_book_new();
	_cleanup_free_ struct weir_list_item *item = NULL;
	size_t n = 0;
	int r = b ? weir_datapath_list_read(a->dp, list, &item, &n) : -ENOMEM;

	for (size_t i = 0; i < n && r == 0; i++) {
		struct weir_book_entry entry = {
			.prefix = item[i].prefix,
			.origin = (enum weir_origin)item[i].origin,
			.flags = item[i].flags,
			.expires_ns = item[i].expires_ns,
		};

		r = weir_book_add(b, list, &entry);
	}
	if (r < 0)
		return r;
	weir_book_settle(b);
	*ret = TAKE_PTR(b);
	return 0;
}

void weir_agent_reconcile(struct weir_agent *a, const struct weir_now *now)
{
	_cleanup_(weir_book_freep) struct weir_book *kernel = NULL;
	struct weir_book_change c = {};
	enum weir_list list = order[a->reconcile_list % ARRAY_LEN(order)];
	struct weir_error e = {};

	if (!a->dp || now->mono_ns < a->reconcile_ns)
		return;
	a->reconcile_ns = now->mono_ns + RECONCILE_NS;
	a->reconcile_list++;
	if (kernel_book(a, list, &kernel) < 0 || weir_book_compare(kernel, a->book, list, &c) < 0)
		return; /* tried again in its turn */
	if (c.n_add || c.n_del) {
		a->reconciled += c.n_add + c.n_del;
		weir_log(WEIR_LOG_WARNING, "lists-repaired", "list", "d", (long long)list,
			 "missing", "u", (unsigned long long)c.n_add, "foreign", "u",
			 (unsigned long long)c.n_del, NULL);
		if (change_list(a, kernel, a->book, list, &e) < 0)
			weir_log(WEIR_LOG_WARNING, "lists-repair-failed", "why", "s", e.text, NULL);
	}
	weir_book_change_done(&c);
}

/* --- the guard list --------------------------------------------------------------------------- */

static void add_resolvers(struct weir_guard_set *s)
{
	/* the second has the real ones where the first names a local stub */
	static const char *const paths[] = {"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		_cleanup_close_ int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		char text[8192];
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

		if (n > 0)
			(void)weir_guard_resolv(
				s, text, (size_t)n); /* fails only without memory: fewer guards */
	}
}

static int add_found(struct weir_book *book, const struct weir_guard_set *s)
{
	int r = 0;

	for (size_t i = 0; i < s->n && r == 0; i++) {
		_cleanup_(weir_shared_text_freep) struct weir_shared_text *why =
			weir_shared_text_new(s->item[i].why);
		struct weir_book_entry entry = {
			.prefix = s->item[i].prefix,
			.origin = WEIR_ORIGIN_GUARD,
			.reason = why,
		};

		r = weir_book_add(book, WEIR_LIST_GUARD, &entry);
	}
	return r;
}

int weir_agent_scan_guards(struct weir_agent *a, struct weir_book *book, int timeout_ms,
			   struct weir_error *e)
{
	struct weir_guard_set found = {};
	__u64 now_ns = weir_clock_ns(CLOCK_MONOTONIC);
	int r = 0;

	/* First, so that it is kept for the better reason where it is own or a gateway too. */
	for (int i = 0; i < WEIR_SESSIONS_MAX && r == 0; i++)
		if (a->session[i].until_ns > now_ns)
			r = weir_guard_add(&found, &a->session[i].prefix,
					   "administrator's session");
	if (r == 0)
		r = weir_guard_scan(&found, timeout_ms, e);
	add_resolvers(&found);
	if (r == 0) {
		(void)weir_book_drop_origin(book, WEIR_LIST_GUARD, WEIR_ORIGIN_GUARD);
		r = add_found(book, &found);
		weir_book_settle(book);
	}
	if (r == -ENOMEM)
		(void)weir_error_set(e, r, "out of memory");
	if (found.cut && !a->guard_cut)
		weir_log(WEIR_LOG_WARNING, "guard-full", "unguarded_beyond", "u",
			 (unsigned long long)WEIR_GUARD_MAX, NULL);
	a->guard_cut = found.cut;
	weir_guard_done(&found);
	return r;
}

int weir_agent_refresh_guards(struct weir_agent *a)
{
	_cleanup_(weir_book_freep) struct weir_book *book = NULL;
	struct weir_error e = {};
	int r;

	if (!a->dp)
		return 0; /* nothing can be blocked */
	book = weir_book_copy(a->book);
	r = book ? weir_agent_scan_guards(a, book, 200, &e) : -ENOMEM;
	if (r == 0)
		r = weir_agent_take_book(a, &book, &e);
	if (r < 0)
		weir_log(WEIR_LOG_WARNING, "guard-failed", "why", "s",
			 e.text[0] ? e.text : "out of memory", NULL);
	else
		weir_agent_judge_fleet(a);
	return r;
}

bool weir_agent_add_session(struct weir_agent *a, const char *ssh, __u64 until_ns,
			    const struct weir_now *now)
{
	struct weir_session *free_one = NULL, *oldest = &a->session[0];
	struct weir_prefix p;

	if (!ssh || weir_prefix_parse(ssh, strcspn(ssh, " %"), false, &p) < 0)
		return false;
	for (int i = 0; i < WEIR_SESSIONS_MAX; i++) {
		struct weir_session *s = &a->session[i];

		if (s->until_ns > now->mono_ns && !weir_prefix_compare(&s->prefix, &p)) {
			if (until_ns > s->until_ns)
				s->until_ns = until_ns;
			return false;
		}
		if (s->until_ns <= now->mono_ns)
			free_one = s;
		if (s->until_ns < oldest->until_ns)
			oldest = s;
	}
	if (!free_one)
		free_one = oldest;
	*free_one = (struct weir_session){.prefix = p, .until_ns = until_ns};
	return true;
}
