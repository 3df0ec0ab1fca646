/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the request layer to the packet layer: an address that was refused too often goes on the block list, for a while,
 * unless that could hit somebody else: a proxy, an allowed or guarded address, or one whose packets never come here. Each
 * decision is one line of log and events, with its reason. `weir block del --origin escalation` undoes them all. Called
 * by request.c.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/agent/seen.h"
#include "user/base/log.h"
#include "user/base/str.h"

#define LOOK_MS 200 /* the kernel answers in much less, or not */

const char *weir_escalation_name(enum weir_escalation r)
{
	static const char *const names[WEIR_ESCALATION_MAX] = {
#define X(symbol, name) [WEIR_ESCALATION_##symbol] = name,
		WEIR_ESCALATIONS(X)
#undef X
	};

	return (unsigned)r < WEIR_ESCALATION_MAX ? names[r] : "?";
}

bool weir_is_escalation(const struct weir_book_entry *e)
{
	const char *name = weir_shared_text_get(e->name);
	size_t n = strlen(WEIR_ESCALATION_ORIGIN);

	return e->origin == WEIR_ORIGIN_COMMAND && !strncmp(name, WEIR_ESCALATION_ORIGIN, n) &&
	       name[n] == ':';
}

/* Blocked are an IPv4 address, and the /64 of an IPv6 one; behind NAT64 a /64 is every IPv4 client of the world. */
static struct weir_prefix block_of(const struct weir_prefix *client)
{
	static const __u8 nat64[8] = {0, 0x64, 0xff, 0x9b};
	struct weir_prefix p = *client;

	if (p.family == 6 && p.len > 64 && memcmp(p.addr.ip, nat64, sizeof(nat64)) != 0) {
		p.len = 64;
		weir_addr_mask(&p.addr, 6, 64);
	}
	return p;
}

/* Addresses that are nobody's in particular: loopback, link-local, unspecified, multicast. */
static bool is_special(const struct weir_prefix *p)
{
	const __u8 *b = p->addr.ip;

	if (p->family == 4)
		return b[0] == 0 || b[0] == 127 || b[0] >= 224 || (b[0] == 169 && b[1] == 254);
	return b[0] == 0xff || (b[0] == 0xfe && (b[1] & 0xc0) == 0x80) ||
	       (!b[0] && !b[1] && !b[2] && !b[3] && !b[4] && !b[5] && !b[6] && !b[7]);
}

static bool is_trusted(const struct weir_conf *c, const struct weir_prefix *block)
{
	for (size_t i = 0; i < c->request.n_listener; i++) {
		const struct weir_prefix_list *l = &c->request.listener[i].trusted;

		for (size_t k = 0; k < l->n; k++)
			if (weir_prefix_overlaps(&l->item[k], block))
				return true;
	}
	return false;
}

static const struct weir_book_entry *find_allow(const struct weir_book *b,
						const struct weir_prefix *block, __u64 now_ns)
{
	const struct weir_book_list *l = &b->list[WEIR_LIST_ALLOW];

	for (size_t i = 0; i < l->n; i++)
		if (weir_prefix_overlaps(&l->item[i].prefix, block) &&
		    (!l->item[i].expires_ns || l->item[i].expires_ns > now_ns))
			return &l->item[i];
	return NULL;
}

/* Ports of our own listeners. */
static size_t own_ports(struct weir_agent *a, __u16 *ret, size_t max)
{
	struct weir_http_listener l[WEIR_LISTENERS_MAX];
	size_t n = a->http ? weir_http_listeners(a->http, l, ARRAY_LEN(l)) : 0, ports = 0;

	for (size_t i = 0; i < n && i < ARRAY_LEN(l) && ports < max; i++) {
		const char *colon = strrchr(l[i].listen, ':');
		__u64 port;

		if (strncmp(l[i].listen, "unix:", 5) != 0 && colon &&
		    weir_str_u64(colon + 1, 65535, &port) == 0)
			ret[ports++] = (__u16)port;
	}
	return ports;
}

struct judgement {
	enum weir_escalation result;
	char why[160];
};

static struct judgement no(enum weir_escalation result, const char *why)
{
	struct judgement j = {.result = result};

	(void)weir_str_copy(j.why, sizeof(j.why), why); /* cut if long */
	return j;
}

/* Do packets of @client itself come here, and is it not one that asks us? */
static struct judgement look_for(struct weir_agent *a, const struct weir_prefix *client,
				 const struct weir_prefix *block)
{
	__u16 ports[WEIR_LISTENERS_MAX];
	struct weir_seen seen = {};
	struct weir_tables t;
	char why[160];
	int r = weir_seen_tcp(client, block, ports, own_ports(a, ports, ARRAY_LEN(ports)), LOOK_MS,
			      &seen);

	if (seen.peer)
		return no(WEIR_ESCALATION_PROXY, "it is connected to a listener of ours: a proxy, "
						 "which trusted_proxies does not name");
	if (seen.client ||
	    (weir_datapath_tables(a->dp, &t) && weir_table_has(&t, &client->addr, client->family)))
		return (struct judgement){.result = WEIR_ESCALATION_BLOCKED};
	if (r < 0) {
		(void)snprintf(why, sizeof(why),
			       "it has no state in the packet layer, and the kernel does not tell "
			       "of connections: %s",
			       strerror(-r));
		return no(WEIR_ESCALATION_UNSEEN, why);
	}
	return no(WEIR_ESCALATION_UNSEEN,
		  "it sends no packets here: no connection, no state in the packet layer; behind a "
		  "proxy elsewhere a block would have no effect");
}

static struct judgement judge(struct weir_agent *a, const struct weir_prefix *client,
			      const struct weir_prefix *block)
{
	const struct weir_book_entry *e = NULL;
	char where[512], why[160];
	size_t covered = 0;

	if (!a->dp)
		return no(WEIR_ESCALATION_NO_PACKETS,
			  "this agent has no packet layer (interfaces: [])");
	if (is_special(client))
		return no(WEIR_ESCALATION_SPECIAL, "it is no address of one host on the network");
	if (is_trusted(a->conf, block))
		return no(WEIR_ESCALATION_PROXY, "it is one of trusted_proxies");
	e = find_allow(a->book, block, weir_clock_ns(CLOCK_MONOTONIC));
	if (e) {
		(void)snprintf(why, sizeof(why), "it is on the allow list (%.100s)",
			       weir_agent_entry_where(e, where, sizeof(where)));
		return no(WEIR_ESCALATION_ALLOWED, why);
	}
	if (weir_guard_check(a->book, block, &e, &covered) != WEIR_GUARD_FREE) {
		(void)snprintf(why, sizeof(why), "it is guarded (%s%.100s)",
			       e->origin == WEIR_ORIGIN_FILE ? "never_block, " : "",
			       weir_agent_entry_where(e, where, sizeof(where)));
		return no(WEIR_ESCALATION_GUARDED, why);
	}
	return look_for(a, client, block);
}

/* "20 refusals of login within 60s" */
static void say_reason(const struct weir_agent *a, const struct weir_l7_event *event, char *buf,
		       size_t size)
{
	char span[WEIR_STR_MAX] = "";

	for (size_t i = 0; i < a->conf->request.n_escalate; i++) {
		const struct weir_conf_escalate *r = &a->conf->request.escalate[i];

		if (!strcmp(r->name, event->rule))
			(void)weir_str_format_duration(r->refused.within_ns, span);
	}
	(void)snprintf(buf, size, "%llu refusals of %s%s%s", (unsigned long long)event->refused,
		       event->limit, span[0] ? " within " : "", span);
}

static int add_block(struct weir_agent *a, const struct weir_l7_event *event,
		     const struct weir_prefix *block, const char *reason, struct weir_error *e)
{
	_cleanup_(weir_book_freep) struct weir_book *book = weir_book_copy(a->book);
	_cleanup_json_ json_t *reply = weir_reply_ok(); /* notes of a full disk: status says it */
	struct weir_now now = weir_now();
	char origin[WEIR_STATE_NAME_MAX];
	struct weir_list_origin o = {
		.list = WEIR_LIST_BLOCK,
		.created_s = now.wall_s,
		.expires_ns = now.mono_ns + event->block_for_ns,
		.expires_s = now.wall_s +
			     (__s64)((event->block_for_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S),
	};
	int r;

	(void)snprintf(origin, sizeof(origin), WEIR_ESCALATION_ORIGIN ":%s", event->rule);
	o.name = weir_shared_text_new(origin);
	o.reason = weir_shared_text_new(reason);
	o.who = weir_shared_text_new("weir");
	r = book && o.name ? weir_list_origin_add(book, &o, block) : -ENOMEM;
	if (r < 0)
		(void)weir_error_set(e, r, "out of memory");
	else if (a->fleet_lists)
		r = weir_agent_fleet_add(a, &o, block, 1, NULL, e);
	else
		r = weir_agent_take_and_store(a, &book, reply, e);
	weir_list_origin_done(&o);
	return r;
}

void weir_agent_escalate(struct weir_agent *a, const struct weir_l7_event *event)
{
	static const char *const actions[] = {"escalate", "would-escalate", "not-escalated"};
	const struct weir_event_record *record;
	struct weir_l7_event told = *event;
	struct weir_prefix block = block_of(&event->client);
	struct judgement j;
	struct weir_error e = {};
	char reason[160];

	if (!event->has_client || (event->client.family != 4 && event->client.family != 6))
		return; /* counted by address: there is none without */
	say_reason(a, event, reason, sizeof(reason));
	j = judge(a, &event->client, &block);
	if (j.result == WEIR_ESCALATION_BLOCKED && event->monitor) {
		j = no(WEIR_ESCALATION_WOULD, reason);
	} else if (j.result == WEIR_ESCALATION_BLOCKED) {
		int r = add_block(a, event, &block, reason, &e);

		if (r < 0)
			j = no(r == -ENOSPC ? WEIR_ESCALATION_FULL : WEIR_ESCALATION_FAILED,
			       e.text);
		else
			(void)weir_str_copy(j.why, sizeof(j.why), reason);
	}
	a->escalations[j.result]++;
	told.client = block;
	record = weir_events_record_request(a->events, &told,
					    actions[j.result == WEIR_ESCALATION_BLOCKED ? 0
						    : j.result == WEIR_ESCALATION_WOULD ? 1
											: 2],
					    j.why, 0, weir_clock_ns(CLOCK_MONOTONIC));
	weir_agent_tell(a, record);
}
