/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Metrics of the packet layer. */
#include "user/agent/metrics_int.h"

#include <string.h>

static void put_attached(struct weir_page *p)
{
	struct weir_attachment at[WEIR_INTERFACES_MAX];
	int n = weir_datapath_attachments(p->a->dp, at, WEIR_INTERFACES_MAX);

	for (size_t i = 0; i < p->a->conf->n_interfaces; i++) {
		const char *name = p->a->conf->interfaces[i];
		int on = 0;

		for (int k = 0; k < n && k < WEIR_INTERFACES_MAX; k++)
			on = on || (at[k].attached && !strcmp(at[k].ifname, name));
		PUT(p, on, "interface", name);
	}
}

static void put_reasons(struct weir_page *p)
{
	const struct weir_count *c = weir_meter_reasons(&p->packets.reason);

	for (unsigned i = 0; i < WEIR_REASON_MAX; i++)
		PUT(p, c[i].packets, "reason", weir_reason_name(i));
}

static void put_reason_bytes(struct weir_page *p)
{
	const struct weir_count *c = weir_meter_reasons(&p->packets.reason);

	for (unsigned i = 0; i < WEIR_REASON_MAX; i++)
		PUT(p, c[i].bytes, "reason", weir_reason_name(i));
}

static void put_would(struct weir_page *p)
{
	const struct weir_count *c = weir_meter_reasons(&p->packets.would);

	for (unsigned i = 0; i < WEIR_REASON_MAX; i++)
		if (WEIR_REASON_DROPS(i))
			PUT(p, c[i].packets, "reason", weir_reason_name(i));
}

static void put_packet_limits(struct weir_page *p)
{
	for (size_t i = 0; i < p->a->conf->n_limits; i++) {
		const struct weir_conf_limit *l = &p->a->conf->limits[i];
		const char *mode = weir_mode_name(l->mode);
		unsigned stat, limit;

		if (!weir_agent_find_limit(p->a, l->name, &stat, &limit))
			continue;
		PUT(p, p->packets.limit[stat].pass.packets, "limit", l->name, "verdict", "pass",
		    "mode", mode);
		PUT(p, p->packets.limit[stat].over.packets, "limit", l->name, "verdict", "over",
		    "mode", mode);
	}
}

static void put_contended(struct weir_page *p)
{
	PUT(p, p->packets.contended);
}

static void put_guarded(struct weir_page *p)
{
	PUT(p, p->packets.guarded);
}

static void put_blocks(struct weir_page *p)
{
	static const char *const names[] = {"file", "list-file", "command", "escalation"};
	const struct weir_book_list *l = &p->a->book->list[WEIR_LIST_BLOCK];
	__u64 n[ARRAY_LEN(names)] = {};

	for (size_t i = 0; i < l->n; i++)
		n[weir_is_escalation(&l->item[i])	       ? 3
		  : l->item[i].origin == WEIR_ORIGIN_FILE      ? 0
		  : l->item[i].origin == WEIR_ORIGIN_LIST_FILE ? 1
							       : 2]++;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		PUT(p, n[i], "origin", names[i]);
}

static const struct weir_metric metrics[] = {
	{"weir_interface_attached", "gauge", "interface", put_attached,
	 "1: the packets of this interface are judged"},
	{"weir_packets_total", "counter", "reason", put_reasons,
	 "packets by what was done with them, and why"},
	{"weir_packet_bytes_total", "counter", "reason", put_reason_bytes,
	 "the same in bytes of frames"},
	{"weir_packets_would_total", "counter", "reason", put_would,
	 "packets that monitor mode let pass, by what would have dropped them"},
	{"weir_packet_limit_total", "counter", "limit, verdict, mode", put_packet_limits,
	 "packets that a limit matched: pass, or over the limit (of a monitor limit: would have "
	 "been dropped)"},
	{"weir_packets_contended_total", "counter", "", put_contended,
	 "packets admitted uncharged, since too many CPUs charged one source at once"},
	{"weir_packets_guarded_total", "counter", "", put_guarded,
	 "packets of guarded addresses that a block or penalty spared"},
	{"weir_blocks", "gauge", "origin", put_blocks, "entries of the block list"},
};

const struct weir_metrics weir_metrics_packets = {metrics, ARRAY_LEN(metrics), "packets"};
