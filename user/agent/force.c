/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Puts a loaded configuration in force: limits and lists in one step, then interfaces; what fails anywhere leaves all as
 * it was. Called by start.c, config.c and limits.c.
 */
#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/base/log.h"

enum weir_mode weir_agent_mode(const struct weir_agent *a, const struct weir_conf *conf)
{
	if (a->mode.set)
		return a->mode.mode;
	return a->start_monitor ? WEIR_MODE_MONITOR : conf->mode;
}

bool weir_agent_wants_packets(const struct weir_conf *c)
{
	return c->n_interfaces || c->attach == WEIR_ATTACH_EXTERNAL;
}

bool weir_agent_wants_requests(const struct weir_conf *c)
{
	return c->request.n_listener || c->request.n_limit;
}

int weir_agent_check_work(const struct weir_conf *c, struct weir_error *e)
{
	if (weir_agent_wants_packets(c) || c->request.n_listener)
		return 0;
	return weir_error_set(
		e, -EINVAL,
		"%s: names neither interfaces nor listeners, so there would be nothing to do "
		"(interfaces: [eth0] or -i eth0 limits packets, http: {listeners: ...} requests)",
		c->path ? c->path : "built-in defaults");
}

__u64 weir_agent_generation(const struct weir_agent *a)
{
	const struct weir_policy *p = a->dp ? weir_datapath_policy(a->dp) : NULL;

	return p ? p->generation : a->generation;
}

/* Does the agent's namespace have @name? Else a sentence with those it has. */
static int check_interface(const char *name, struct weir_error *e)
{
	struct if_nameindex *all, *i;
	char list[256] = "";
	size_t n = 0;

	if (if_nametoindex(name))
		return 0;
	all = if_nameindex();
	for (i = all; i && i->if_index && n < sizeof(list) - 1; i++)
		if (strcmp(i->if_name, "lo") != 0)
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "",
					      i->if_name);
	if (all)
		if_freenameindex(all);
	return weir_error_set(e, -ENODEV, "interface %s does not exist (there is: %s)", name,
			      list[0] ? list : "only lo");
}

int weir_agent_check_interfaces(const struct weir_conf *conf, struct weir_error *e)
{
	int r = 0;

	if (conf->attach == WEIR_ATTACH_EXTERNAL)
		return 0;
	for (size_t i = 0; i < conf->n_interfaces && r == 0; i++)
		r = check_interface(conf->interfaces[i], e);
	return r;
}

static bool wants(const struct weir_conf *c, const char *ifname)
{
	for (size_t i = 0; i < c->n_interfaces; i++)
		if (!strcmp(c->interfaces[i], ifname))
			return true;
	return false;
}

static bool is_attached(const struct weir_attachment *at, int n, const char *ifname)
{
	for (int i = 0; i < n; i++)
		if (at[i].attached && !strcmp(at[i].ifname, ifname))
			return true;
	return false;
}

/* Detaches what weir has attached and @conf does not want. */
static void detach_unwanted(struct weir_agent *a, const struct weir_conf *conf)
{
	struct weir_attachment at[WEIR_INTERFACES_MAX];
	int n = weir_datapath_attachments(a->dp, at, WEIR_INTERFACES_MAX);

	for (int i = 0; i < n && i < WEIR_INTERFACES_MAX; i++) {
		struct weir_error e = {};

		if (!at[i].attached || wants(conf, at[i].ifname))
			continue;
		if (weir_datapath_detach(a->dp, at[i].ifname, &e) < 0)
			weir_log(WEIR_LOG_WARNING, "detach-failed", "interface", "s", at[i].ifname,
				 "why", "s", e.text, NULL);
		else
			weir_log(WEIR_LOG_NOTICE, "detached", "interface", "s", at[i].ifname, NULL);
	}
}

/* Attaches what @conf wants and is not attached; on error takes back what it attached itself. With @all also those
 * that are attached, to put the new program in place.
 */
static int attach_wanted(struct weir_agent *a, const struct weir_conf *conf, bool all,
			 struct weir_error *e)
{
	struct weir_attachment at[WEIR_INTERFACES_MAX];
	int n = weir_datapath_attachments(a->dp, at, WEIR_INTERFACES_MAX),
	    r = weir_agent_check_interfaces(conf, e);
	size_t i;

	if (n > WEIR_INTERFACES_MAX)
		n = WEIR_INTERFACES_MAX;
	for (i = 0; i < conf->n_interfaces && r >= 0; i++) {
		bool had = is_attached(at, n, conf->interfaces[i]);

		if (had && !all)
			continue;
		r = weir_datapath_attach(a->dp, conf->interfaces[i], e);
		if (r >= 0)
			weir_log(WEIR_LOG_NOTICE, had ? "taken-over" : "attached", "interface", "s",
				 conf->interfaces[i], NULL);
	}
	if (r >= 0)
		return 0;
	while (i-- > 0)
		if (!is_attached(at, n, conf->interfaces[i]))
			(void)weir_datapath_detach(a->dp, conf->interfaces[i],
						   NULL); /* the first error is the one to tell */
	return r;
}

/* Interfaces that came back, or were missing: tried again when a link appears. */
int weir_agent_attach_missing(struct weir_agent *a)
{
	struct weir_attachment at[WEIR_INTERFACES_MAX];
	int n, missing = 0;

	if (!a->dp || a->conf->attach == WEIR_ATTACH_EXTERNAL)
		return 0;
	n = weir_datapath_attachments(a->dp, at, WEIR_INTERFACES_MAX);
	if (n > WEIR_INTERFACES_MAX)
		n = WEIR_INTERFACES_MAX;
	for (size_t i = 0; i < a->conf->n_interfaces; i++) {
		const char *name = a->conf->interfaces[i];
		struct weir_error e = {};

		if (is_attached(at, n, name))
			continue;
		if (!if_nametoindex(name)) {
			missing++;
			continue;
		}
		if (weir_datapath_attach(a->dp, name, &e) < 0) {
			missing++;
			weir_log(WEIR_LOG_WARNING, "attach-failed", "interface", "s", name, "why",
				 "s", e.text, NULL);
		} else {
			weir_log(WEIR_LOG_NOTICE, "attached", "interface", "s", name, "why", "s",
				 "it came back", NULL);
		}
	}
	return missing;
}

/* What is in force, with the parts of the lists that do not come from the file: *ret is new. */
static int merge_book(const struct weir_agent *a, const struct weir_book *loaded,
		      struct weir_book **ret)
{
	_cleanup_(weir_book_freep) struct weir_book *b = weir_book_copy(a->book);
	int r = b ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	(void)weir_book_drop_origin(b, WEIR_LIST_MAX, WEIR_ORIGIN_FILE);
	(void)weir_book_drop_origin(b, WEIR_LIST_MAX, WEIR_ORIGIN_LIST_FILE);
	for (int l = 0; l < WEIR_LIST_MAX; l++)
		for (size_t i = 0; i < loaded->list[l].n && r == 0; i++)
			r = weir_book_add(b, (enum weir_list)l, &loaded->list[l].item[i]);
	if (r < 0)
		return r;
	weir_book_settle(b);
	*ret = TAKE_PTR(b);
	return 0;
}

static void set_in_force(struct weir_agent *a, enum weir_mode mode, __s64 now_s)
{
	if (a->in_force != mode || !a->mode_since_s) {
		a->in_force = mode;
		a->mode_since_s = now_s;
	}
}

static void log_setup(const struct weir_conf *c)
{
	weir_log_open(NULL, c->log_format == WEIR_LOG_JSON, WEIR_LOG_INFO);
}

/* The packet layer's part: limits and lists in one step. */
static int apply(struct weir_agent *a, const struct weir_conf *conf, const struct weir_book *book,
		 struct weir_error *e)
{
	struct weir_lists lists = {};
	int r = 0;

	if (!a->dp)
		return 0;
	if (book && weir_book_export(book, &lists) < 0)
		return weir_error_set(e, -ENOMEM, "out of memory");
	r = weir_datapath_apply(a->dp, conf, weir_agent_mode(a, conf), book ? &lists : NULL, e);
	weir_book_lists_done(&lists);
	return r;
}

/* Three parts that can each fail and be taken back: interfaces, request layer, packet layer. The last cannot be taken
 * back, so it is the last.
 */
static int put_parts(struct weir_agent *a, struct weir_loaded *l, const struct weir_book *book,
		     bool first, struct weir_error *e)
{
	bool whole = l->book != NULL,
	     attach = a->dp && whole && l->conf->attach != WEIR_ATTACH_EXTERNAL;
	int r = 0;

	if (attach && !first)
		r = attach_wanted(a, l->conf, false, e);
	if (r < 0)
		return r;
	if (!first) /* else just made from it */
		r = weir_agent_change_requests(a, l->conf, whole, e);
	if (r == 0) {
		r = apply(a, l->conf, book, e);
		if (r < 0 && !first)
			weir_agent_undo_requests(a, whole);
	}
	if (r < 0 && attach && !first)
		detach_unwanted(a, a->conf);
	if (r == 0 && attach && first)
		r = attach_wanted(a, l->conf, true, e);
	return r;
}

/* Puts @l in force (its conf and lists are taken over). @first: before anything is attached. */
int weir_agent_put_in_force(struct weir_agent *a, struct weir_loaded *l, bool first,
			    struct weir_error *e)
{
	_cleanup_(weir_book_freep) struct weir_book *book = NULL;
	enum weir_mode mode = weir_agent_mode(a, l->conf);
	bool external = l->conf->attach == WEIR_ATTACH_EXTERNAL;
	int r = 0;

	if (l->book) {
		r = merge_book(a, l->book, &book);
		if (r < 0)
			return weir_error_set(e, r, "out of memory");
		r = weir_agent_check_room(book, e);
	}
	if (r == 0)
		r = put_parts(a, l, book, first, e);
	if (r < 0)
		return r;
	weir_conf_free(a->conf);
	a->conf = TAKE_PTR(l->conf);
	if (book) { /* a whole load, not a change of one limit */
		weir_agent_set_book(a, &book);
		a->detached = false;
		if (a->dp && !external)
			detach_unwanted(a, a->conf);
		if (!weir_agent_wants_requests(a->conf))
			weir_agent_stop_requests(a);
		a->reloaded_s = weir_now().wall_s;
		weir_agent_judge_fleet(a);
	}
	a->generation++;
	a->applied_s = weir_now().wall_s;
	if (a->l7)
		weir_l7_set_mode(a->l7, mode);
	set_in_force(a, mode, a->applied_s);
	log_setup(a->conf);
	weir_agent_sweep_pace(a);
	weir_agent_pace_sources(a);
	return 0;
}

int weir_agent_force_mode(struct weir_agent *a, struct weir_error *e)
{
	enum weir_mode mode = weir_agent_mode(a, a->conf);
	int r = a->dp ? weir_datapath_set_mode(a->dp, mode, e) : 0;

	if (r < 0)
		return r;
	if (a->l7)
		weir_l7_set_mode(a->l7, mode);
	set_in_force(a, mode, weir_now().wall_s);
	weir_agent_pace_sources(a);
	weir_log(WEIR_LOG_NOTICE, "mode", "mode", "s", weir_mode_name(mode), "why", "s",
		 a->mode.set	    ? a->mode.why
		 : a->start_monitor ? "--monitor"
				    : "configuration",
		 NULL);
	return 0;
}
