/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A datapath without a kernel for the agent's unit tests: all of datapath.h, kept in memory, with failures on demand.
 * Included once, by the test itself, so that the real one is not linked.
 */
#ifndef WEIR_TEST_AGENT_DOUBLE_H
#define WEIR_TEST_AGENT_DOUBLE_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "user/datapath/datapath.h"

#define DOUBLE_LIST_MAX 200000

struct weir_datapath {
	int fd;
};

static struct {
	struct weir_datapath handle;
	struct weir_policy policy;
	bool has_policy;
	struct weir_limit_name names[WEIR_STATS_MAX];
	enum weir_mode mode;
	struct weir_list_item item[WEIR_LIST_MAX][DOUBLE_LIST_MAX];
	size_t n[WEIR_LIST_MAX];
	struct weir_attachment at[8];
	int n_at;
	struct weir_bucket4 t4[16];
	struct weir_bucket6 t6[16];
	struct weir_spill spill[2 << WEIR_SPILL_BITS];
	struct weir_meta meta;
	struct weir_counters counters;
	unsigned applies, opens, abandoned;
	/* failures on demand */
	int fail_apply, fail_list_add, fail_mode;
	const char *fail_attach; /* of this interface */
	weir_event_fn event_fn;
	void *event_arg;
} dp;

static inline void dp_reset(void)
{
	memset(&dp, 0, sizeof(dp));
	dp.handle.fd = -1;
}

int weir_datapath_open(const struct weir_conf *conf, struct weir_datapath **ret,
		       struct weir_error *e)
{
	(void)conf;
	(void)e;
	dp.opens++;
	*ret = &dp.handle;
	return 0;
}

void weir_datapath_free(struct weir_datapath *d)
{
	if (d && d->fd >= 0) {
		(void)close(d->fd);
		d->fd = -1;
	}
}

void weir_datapath_abandon(struct weir_datapath *d)
{
	if (d && dp.opens == 1 && !dp.n_at)
		dp.abandoned++;
}

enum weir_adoption weir_datapath_adoption(const struct weir_datapath *d)
{
	(void)d;
	return dp.opens > 1 ? WEIR_ADOPT_PINS : WEIR_ADOPT_FRESH;
}

const char *weir_datapath_notes(const struct weir_datapath *d)
{
	(void)d;
	return "";
}

int weir_datapath_attach(struct weir_datapath *d, const char *ifname, struct weir_error *e)
{
	(void)d;
	if (dp.fail_attach && !strcmp(dp.fail_attach, ifname))
		return weir_error_set(e, -EBUSY, "%s: program 7 (other) is attached", ifname);
	for (int i = 0; i < dp.n_at; i++)
		if (!strcmp(dp.at[i].ifname, ifname))
			return 0;
	(void)snprintf(dp.at[dp.n_at].ifname, sizeof(dp.at[0].ifname), "%s", ifname);
	dp.at[dp.n_at].attached = true;
	dp.at[dp.n_at].native = true;
	dp.at[dp.n_at++].prog_id = 42;
	return 0;
}

int weir_datapath_detach(struct weir_datapath *d, const char *ifname, struct weir_error *e)
{
	(void)d;
	for (int i = 0; i < dp.n_at; i++)
		if (!strcmp(dp.at[i].ifname, ifname)) {
			dp.at[i] = dp.at[--dp.n_at];
			return 0;
		}
	return weir_error_set(e, -ENOENT, "not attached to %s", ifname);
}

int weir_datapath_attachments(struct weir_datapath *d, struct weir_attachment *ret, int max)
{
	(void)d;
	for (int i = 0; i < dp.n_at && i < max; i++)
		ret[i] = dp.at[i];
	return dp.n_at;
}

int weir_datapath_detach_pinned(const char *bpffs, const char *instance, const char *ifname,
				struct weir_error *e)
{
	(void)bpffs;
	(void)instance;
	(void)ifname;
	return weir_error_set(e, -ENOENT, "nothing is pinned");
}

int weir_datapath_apply(struct weir_datapath *d, const struct weir_conf *conf, enum weir_mode mode,
			const struct weir_lists *lists, struct weir_error *e)
{
	(void)d;
	if (dp.fail_apply)
		return weir_error_set(e, dp.fail_apply, "the kernel refuses the policy");
	dp.applies++;
	dp.has_policy = true;
	dp.mode = mode;
	dp.policy.generation++;
	dp.policy.n_limits = (__u8)conf->n_limits;
	memset(dp.names, 0, sizeof(dp.names));
	for (size_t i = 0; i < conf->n_limits; i++) {
		(void)snprintf(dp.names[i].name, sizeof(dp.names[i].name), "%s",
			       conf->limits[i].name);
		dp.names[i].live = 1;
		dp.names[i].limit = (__u8)i;
	}
	for (int l = 0; lists && l < WEIR_LIST_MAX; l++) {
		dp.n[l] = lists->n[l];
		if (lists->n[l])
			memcpy(dp.item[l], lists->item[l], lists->n[l] * sizeof(dp.item[l][0]));
	}
	return 0;
}

int weir_datapath_set_mode(struct weir_datapath *d, enum weir_mode mode, struct weir_error *e)
{
	(void)d;
	if (dp.fail_mode)
		return weir_error_set(e, dp.fail_mode, "the kernel refuses the mode");
	dp.mode = mode;
	return 0;
}

static inline struct weir_list_item *dp_find(enum weir_list list, const struct weir_prefix *p)
{
	for (size_t i = 0; i < dp.n[list]; i++)
		if (!weir_prefix_compare(&dp.item[list][i].prefix, p))
			return &dp.item[list][i];
	return NULL;
}

/* The item of "198.51.100.7" in the kernel's list; NULL if it is not there. */
static inline struct weir_list_item *dp_has(enum weir_list list, const char *text)
{
	struct weir_prefix p;

	return weir_prefix_parse(text, strlen(text), false, &p) == 0 ? dp_find(list, &p) : NULL;
}

int weir_datapath_list_add(struct weir_datapath *d, enum weir_list list,
			   const struct weir_list_item *item, size_t n, struct weir_error *e)
{
	(void)d;
	if (dp.fail_list_add && list == WEIR_LIST_BLOCK)
		return weir_error_set(e, dp.fail_list_add, "the kernel refuses the entry");
	for (size_t i = 0; i < n; i++) {
		struct weir_list_item *old = n < 1000 ? dp_find(list, &item[i].prefix) : NULL;

		if (old)
			*old = item[i];
		else
			dp.item[list][dp.n[list]++] = item[i];
	}
	return 0;
}

int weir_datapath_list_del(struct weir_datapath *d, enum weir_list list,
			   const struct weir_prefix *item, size_t n, struct weir_error *e)
{
	(void)d;
	(void)e;
	for (size_t i = 0; i < n; i++) {
		struct weir_list_item *old = dp_find(list, &item[i]);

		if (old)
			*old = dp.item[list][--dp.n[list]];
	}
	return 0;
}

int weir_datapath_list_read(struct weir_datapath *d, enum weir_list list,
			    struct weir_list_item **ret, size_t *ret_n)
{
	(void)d;
	*ret = calloc(dp.n[list] + 1, sizeof(**ret));
	if (dp.n[list])
		memcpy(*ret, dp.item[list], dp.n[list] * sizeof(**ret));
	*ret_n = dp.n[list];
	return 0;
}

const struct weir_policy *weir_datapath_policy(const struct weir_datapath *d)
{
	(void)d;
	return dp.has_policy ? &dp.policy : NULL;
}

const struct weir_limit_name *weir_datapath_names(const struct weir_datapath *d)
{
	(void)d;
	return dp.names;
}

bool weir_datapath_tables(const struct weir_datapath *d, struct weir_tables *ret)
{
	(void)d;
	*ret = (struct weir_tables){.t4 = dp.t4,
				    .t6 = dp.t6,
				    .buckets4 = 16,
				    .buckets6 = 16,
				    .spill = dp.spill,
				    .policy = &dp.policy,
				    .meta = &dp.meta};
	return dp.has_policy;
}

int weir_datapath_counters(const struct weir_datapath *d, struct weir_counters *ret)
{
	(void)d;
	*ret = dp.counters;
	return 0;
}

int weir_datapath_events_open(struct weir_datapath *d, weir_event_fn fn, void *arg,
			      struct weir_error *e)
{
	(void)e;
	d->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	dp.event_fn = fn;
	dp.event_arg = arg;
	return 0;
}

int weir_datapath_events_fd(const struct weir_datapath *d)
{
	return d->fd;
}

int weir_datapath_events_consume(struct weir_datapath *d)
{
	(void)d;
	return 0;
}

int weir_datapath_memory(struct weir_datapath *d, struct weir_table_use *ret, int max)
{
	(void)d;
	(void)max;
	ret[0] = (struct weir_table_use){.name = "sources", .bytes = 1024, .entries = 64};
	return 1;
}

#endif
