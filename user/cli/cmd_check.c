/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir check: what a configuration means, what it takes and absorbs, and all that is wrong with it. Needs neither root
 * nor an agent, and changes nothing. Called by the table.
 */
#include <errno.h>
#include <grp.h>
#include <net/if.h>
#include <string.h>
#include <sys/stat.h>

#include "user/agent/shared.h"
#include "user/base/clock.h"
#include "user/base/str.h"
#include "user/cli/cli.h"
#include "user/datapath/compile.h"
#include "user/datapath/datapath.h"
#include "user/fleet/sources.h"
#include "user/l7/engine.h"

/* Prints and forgets; returns how many errors there were. */
static size_t print_problems(struct weir_conf_problems *p, const char *name)
{
	size_t n = p->n_errors;

	weir_conf_problems_print(p, name, stderr);
	weir_conf_problems_done(p);
	*p = (struct weir_conf_problems){};
	return n;
}

static size_t check_files(const struct weir_conf *c, const char *name, size_t ret_n[2])
{
	struct weir_prefix_list allow = {}, block = {};
	struct weir_conf_problems p = {};
	int r = weir_conf_allow_files(c, &allow, &p), r2 = weir_conf_block_files(c, &block, &p);
	size_t errors = print_problems(&p, name);

	if ((r < 0 || r2 < 0) && !errors)
		errors = 1;
	ret_n[WEIR_LIST_ALLOW] = allow.n + c->allow.n;
	ret_n[WEIR_LIST_BLOCK] = block.n + c->block.n;
	for (int l = 0; l < 2; l++)
		if (ret_n[l] > 2 * (size_t)WEIR_LIST_ROOM) {
			(void)weir_fail(0, "%s: lists.%s: %zu entries, and %d of each family fit",
					name, l ? "block" : "allow", ret_n[l], WEIR_LIST_ROOM);
			errors++;
		}
	weir_prefix_list_done(&allow);
	weir_prefix_list_done(&block);
	return errors;
}

static void warn(const char *name, const char *what)
{
	(void)fprintf(stderr, "weir: %s: warning: %s\n", name, what);
}

static void warn_interfaces(const struct weir_conf *c, const char *name)
{
	char text[128];

	for (size_t i = 0; i < c->n_interfaces; i++) {
		if (if_nametoindex(c->interfaces[i]))
			continue;
		(void)snprintf(text, sizeof(text), "interface %.15s does not exist on this machine",
			       c->interfaces[i]);
		warn(name, text);
	}
}

static void warn_group(const struct weir_conf *c, const char *name)
{
	char text[256];

	if (!c->admin_group || getgrnam(c->admin_group))
		return;
	(void)snprintf(text, sizeof(text),
		       "admin.group: this machine has no group %.64s, so that only root could use "
		       "the socket (groupadd --system makes it)",
		       c->admin_group);
	warn(name, text);
}

/* A block entry inside never_block never acts. */
static void warn_guarded(const struct weir_conf *c, const char *name)
{
	char a[WEIR_PREFIX_STRLEN], b[WEIR_PREFIX_STRLEN], text[256];

	for (size_t i = 0; i < c->block.n; i++)
		for (size_t k = 0; k < c->never_block.n; k++) {
			if (!weir_prefix_contains(&c->never_block.item[k], &c->block.item[i]))
				continue;
			(void)snprintf(text, sizeof(text),
				       "lists.block: %s never acts, since never_block has %s",
				       weir_prefix_format(&c->block.item[i], a),
				       weir_prefix_format(&c->never_block.item[k], b));
			warn(name, text);
			break;
		}
}

static __u64 jiffy_ns(void)
{
	struct timespec t = {};

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &t) < 0 || t.tv_nsec < 1)
		return 4000000;
	return (__u64)t.tv_nsec;
}

static void print_capacity(const struct weir_conf *c, const struct weir_compiled *m, __u32 buckets4,
			   __u32 buckets6)
{
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX];

	if (c->n_limits)
		(void)printf("\nWhat each limit absorbs (new sources a second, before buckets fill "
			     "and sources of a /24 or /48 begin to share; of a limit per "
			     "destination, destinations):\n");
	for (unsigned i = 0; i < m->policy.n_limits && i < c->n_limits; i++) {
		const struct weir_limit *l = &m->policy.limit[i];

		if (l->flags & WEIR_LIMIT_ALL) {
			(void)printf("  %-24s one budget, nothing to fill; rate exact to %.4f %%\n",
				     c->limits[i].name,
				     100 * weir_compile_rate_error(&c->limits[i], l));
			continue;
		}
		(void)printf("  %-24s %s IPv4, %s IPv6; rate exact to %.4f %%\n", c->limits[i].name,
			     weir_str_format_count(weir_compile_new_sources_per_second(
							   &m->policy, i, 4, buckets4, jiffy_ns()),
						   a),
			     weir_str_format_count(weir_compile_new_sources_per_second(
							   &m->policy, i, 6, buckets6, jiffy_ns()),
						   b),
			     100 * weir_compile_rate_error(&c->limits[i], l));
	}
}

/* Slots of regions that hold destinations. */
static __u64 destination_slots(const struct weir_group *groups, unsigned n)
{
	__u64 slots = 0;

	for (unsigned i = 0; i < n && i < WEIR_GROUPS_MAX; i++)
		if (groups[i].flags & WEIR_GROUP_DESTINATION)
			slots += (__u64)WEIR_WAYS << groups[i].bits;
	return slots;
}

static void print_destinations(const struct weir_policy *p)
{
	__u64 slots4 = destination_slots(p->group4, p->n_groups4),
	      slots6 = destination_slots(p->group6, p->n_groups6);
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX];

	if (slots4 || slots6)
		(void)printf("  Limits per destination take %s slots of the IPv4 table and %s of "
			     "the IPv6 table, which sources do not have.\n",
			     weir_str_format_count(slots4, a), weir_str_format_count(slots6, b));
}

/* Where what counts for a fleet's limit lies: with the limit itself, or in slots of other groups. */
static bool is_beside(const struct weir_policy *p, unsigned limit, unsigned counts)
{
	for (unsigned i = 0; i < p->n_groups4 && i < WEIR_GROUPS_MAX; i++)
		if (p->group4[i].limits >> counts & 1)
			return p->group4[i].limits >> limit & 1;
	for (unsigned i = 0; i < p->n_groups6 && i < WEIR_GROUPS_MAX; i++)
		if (p->group6[i].limits >> counts & 1)
			return p->group6[i].limits >> limit & 1;
	return false;
}

static void print_fleet(const struct weir_conf *c, const struct weir_policy *p, __u64 pass_ns)
{
	const __u64 hear_ns = pass_ns + WEIR_FLEET_LATE_NS + WEIR_FLEET_SPREAD_NS;
	char window[WEIR_STR_MAX], pass[WEIR_STR_MAX], room[WEIR_STR_MAX], hear[WEIR_STR_MAX],
		all[WEIR_STR_MAX];

	if (p->n_limits == c->n_limits)
		return;
	(void)printf("\nLimits of the fleet (with what counts for them, %u of %u places for "
		     "limits); counts are read every %s:\n",
		     p->n_limits, (unsigned)WEIR_LIMITS_MAX,
		     weir_str_format_duration(pass_ns, pass));
	for (unsigned i = (unsigned)c->n_limits; i < p->n_limits; i++) {
		const struct weir_conf_limit *l = &c->limits[p->limit[i].counts_for];
		struct weir_fleet_source_limit s = weir_fleet_source_limit_of(l, pass_ns);
		__u64 room_ns = weir_fleet_sources_room_ns(&s);

		weir_str_format_duration(room_ns, room);
		weir_str_format_duration(hear_ns, hear);
		(void)printf("  %-24s who sends S times the limit on all hosts together is blocked "
			     "on all after %s / (S - 1) and at most %s (twice the limit: %s); by "
			     "then %s of the limit and what comes in %s are over it, which the "
			     "block's time pays%s\n"
			     "  %-24s counted in windows of %s, in %s %s\n",
			     l->name, room, hear, weir_str_format_duration(room_ns + hear_ns, all),
			     room, hear, l->block_for_ns ? ", at least block_for" : "", "",
			     weir_str_format_duration(s.window_ns, window),
			     p->limit[i].flags & WEIR_LIMIT_PAIR ? "two more words"
								 : "one more word",
			     is_beside(p, p->limit[i].counts_for, i)
				     ? "of its slots"
				     : "in slots of their own: one more look-up for each packet");
	}
	(void)printf("  A host where a source sends less than limit / (2 x hosts) tells nothing: "
		     "spread unevenly, up to half of the limit goes unseen.\n");
}

/* What the kernel objects take beside the source tables: lists for their room, the policy twice. */
static void print_memory(const struct weir_conf *c)
{
	char tables[WEIR_STR_MAX], rest[WEIR_STR_MAX], all[WEIR_STR_MAX];
	__u64 sources = 2 * c->packet_sources_bytes;
	__u64 entry4 = sizeof(struct weir_prefix4) + sizeof(struct weir_entry) +
		       48; /* the kernel's own part */
	__u64 entry6 = sizeof(struct weir_prefix6) + sizeof(struct weir_entry) + 52;
	__u64 lists = (__u64)WEIR_LIST_MAX * WEIR_LIST_ROOM * (16 + 16),
	      other = 2 * sizeof(struct weir_policy);

	other +=
		2 * sizeof(struct weir_filter) + (1 << WEIR_SPILL_BITS) * sizeof(struct weir_spill);
	(void)printf("\nMemory in the kernel: %s of source tables and about %s of lists and "
		     "limits, %s in all; each list entry %llu (IPv4) or %llu (IPv6) bytes more; "
		     "for a moment twice the tables where a reload moves state.\n",
		     weir_str_format_size(sources, tables),
		     weir_str_format_size((lists + other) >> 20 << 20, rest),
		     weir_str_format_size((sources + lists + other) >> 20 << 20, all),
		     (unsigned long long)entry4, (unsigned long long)entry6);
}

/* A file that the agent will read at its start: is it there, and who else may read it? @secret: nobody else should. */
static bool check_file(const char *key, const char *path, bool secret, const char *name)
{
	struct stat st;
	char text[512];

	if (access(path, R_OK) < 0 || stat(path, &st) < 0) {
		(void)snprintf(text, sizeof(text), "%s %.300s: %s", key, path, strerror(errno));
		warn(name, text);
		return false;
	}
	if (secret && st.st_mode & S_IROTH) {
		(void)snprintf(text, sizeof(text),
			       "%s %.300s: everybody on this host may read it (chmod o-r)", key,
			       path);
		warn(name, text);
	}
	return true;
}

/* The store's files hold what they should, as far as whoever asks may read them. */
static size_t check_store(const struct weir_conf *c, const char *name)
{
	const struct {
		const char *key, *path;
		bool secret;
	} file[] = {{"store.password_file", c->store.password_file, true},
		    {"store.sentinel.password_file", c->store.sentinel_password_file, true},
		    {"store.key_secret_file", c->store.key_secret_file, true},
		    {"store.tls.ca", c->store.tls_ca, false},
		    {"store.tls.cert", c->store.tls_cert, false},
		    {"store.tls.key", c->store.tls_key, true}};
	_cleanup_(weir_shared_freep) struct weir_shared *shared = NULL;
	struct weir_error e = {};
	bool readable = true;

	if (!c->store.shared)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(file); i++)
		if (file[i].path)
			readable &= check_file(file[i].key, file[i].path, file[i].secret, name);
	if (!readable || weir_shared_new(c, &shared, &e) == 0)
		return 0;
	(void)weir_fail(0, "%s: %s", name, e.text);
	return 1;
}

/* What only the engine knows of the request layer's part: plans_file, and rules that cannot be built. */
static size_t check_requests(const struct weir_conf *c, const char *name)
{
	_cleanup_(weir_l7_freep) struct weir_l7 *l7 = NULL;
	struct weir_error e = {};

	for (size_t i = 0; i < c->request.n_listener; i++)
		if (c->request.listener[i].token_file)
			(void)check_file("token_file", c->request.listener[i].token_file, true,
					 name);
	if (!c->request.n_limit && !c->request.n_listener)
		return 0;
	if (weir_l7_new(c, NULL, &l7, &e) == 0)
		return 0;
	(void)weir_fail(0, "%s", e.text);
	return 1;
}

int weir_cmd_check(const struct weir_args *a)
{
	const char *path = weir_conf_path(a), *name = path ? path : "built-in defaults";
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	struct weir_conf_problems problems = {};
	struct weir_compiled *m = NULL;
	struct weir_error e = {};
	size_t errors, n[2] = {};
	__u32 buckets4, buckets6;
	int r = weir_conf_load(path, &c, &problems);

	errors = print_problems(&problems, name);
	if (r < 0)
		return weir_fail(WEIR_EXIT_USAGE, "%s: %zu error%s", name, errors,
				 errors == 1 ? "" : "s");
	errors += check_files(c, name, n);
	warn_group(c, name);
	warn_interfaces(c, name);
	warn_guarded(c, name);
	buckets4 = (__u32)(c->packet_sources_bytes / sizeof(struct weir_bucket4));
	buckets6 = (__u32)(c->packet_sources_bytes / sizeof(struct weir_bucket6));
	if (weir_compile(c, NULL, NULL, buckets4, buckets6, jiffy_ns(), &m, &e) < 0) {
		(void)weir_fail(0, "%s", e.text);
		errors++;
	}
	errors += check_store(c, name);
	errors += check_requests(c, name);
	if (errors) {
		weir_compiled_free(m);
		return weir_fail(WEIR_EXIT_USAGE, "%s: %zu error%s", name, errors,
				 errors == 1 ? "" : "s");
	}
	weir_conf_explain(c, stdout);
	if (c->n_interfaces || c->n_limits || !c->request.n_listener) {
		print_capacity(c, m, buckets4, buckets6);
		print_destinations(&m->policy);
		print_fleet(c, &m->policy, weir_fleet_pass_ns(buckets4, buckets6));
		print_memory(c);
	}
	if (c->n_allow_files || c->n_block_files)
		(void)printf("With their files the lists have %zu allow and %zu block entries.\n",
			     n[WEIR_LIST_ALLOW], n[WEIR_LIST_BLOCK]);
	weir_compiled_free(m);
	(void)printf("\n%s is right.\n", name);
	return fflush(stdout) == EOF ? WEIR_EXIT_FAILED : WEIR_EXIT_OK;
}
