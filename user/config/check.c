/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the values of a packet limit mean together: units, defaults that follow from others, contradictions (errors), and
 * what is allowed but rarely meant (warnings). Called by the readers when a limit is complete, and by set.c.
 */
#include <netinet/in.h>
#include <string.h>

#include "user/base/str.h"
#include "user/config/schema.h"
#include "weir/algo_window.h"

#define NS_PER_S 1000000000ull

static const char *called(const struct weir_conf_limit *l)
{
	return *l->name ? l->name : "?";
}

struct given {
	__u8 bit;
	const char *key;
};

static const struct given bucket_keys[] = {{WEIR_GIVEN_RATE, "rate"}, {WEIR_GIVEN_BURST, "burst"}};
static const struct given window_keys[] = {{WEIR_GIVEN_LIMIT, "limit"},
					   {WEIR_GIVEN_WINDOW, "window"}};

static const struct given prefix_keys[] = {{WEIR_GIVEN_IPV4_PREFIX, "ipv4_prefix"},
					   {WEIR_GIVEN_IPV6_PREFIX, "ipv6_prefix"}};

/* Keys of the other kind of algorithm. */
static void refuse_foreign(const struct weir_reader *r, const struct weir_conf_limit *l,
			   bool bucket)
{
	for (size_t i = 0; i < 2; i++) {
		const struct given *g = bucket ? &window_keys[i] : &bucket_keys[i];

		if (!((l->given | (r->marks ? r->marks->bad : 0)) & g->bit))
			continue;
		if (bucket)
			weir_reader_error(r, weir_reader_at(r, "packet_limits", g->key),
					  "%s: a token-bucket has rate and burst (or say "
					  "algorithm: fixed-window)",
					  g->key);
		else
			weir_reader_error(r, weir_reader_at(r, "packet_limits", g->key),
					  "%s: a %s has limit and window (or leave algorithm out)",
					  g->key, weir_algorithm_name(l->algorithm));
	}
}

/* `limit "NAME"`, or what can be said without a name. */
static void lacks(const struct weir_reader *r, const struct weir_conf_limit *l, const char *what,
		  const char *example)
{
	const yaml_node_t *where = r->marks ? r->marks->node : NULL;

	if (*l->name)
		weir_reader_error(r, where, "limit \"%s\" has no %s (for example %s)", l->name,
				  what, example);
	else
		weir_reader_error(r, where, "this limit has no %s (for example %s)", what, example);
}

static bool has_needed(const struct weir_reader *r, const struct weir_conf_limit *l, bool bucket)
{
	__u8 there = (__u8)(l->given | (r->marks ? r->marks->bad : 0));

	if (bucket && !(there & WEIR_GIVEN_RATE) && !(there & WEIR_GIVEN_LIMIT))
		lacks(r, l, "rate", "rate: 1000/s");
	if (!bucket && !(there & WEIR_GIVEN_LIMIT))
		lacks(r, l, "limit", "limit: 500");
	if (!bucket && !(there & WEIR_GIVEN_WINDOW))
		lacks(r, l, "window", "window: 1s");
	return bucket ? l->given & WEIR_GIVEN_RATE
		      : (l->given & WEIR_GIVEN_LIMIT) && (l->given & WEIR_GIVEN_WINDOW);
}

/* Packets or bytes: rate, burst and limit must agree. */
static bool settle_unit(const struct weir_reader *r, struct weir_conf_limit *l, bool bucket)
{
	bool rate_bytes = l->given_bytes & WEIR_GIVEN_RATE;

	if (!bucket) {
		l->bytes = l->given_bytes & WEIR_GIVEN_LIMIT;
		return true;
	}
	l->bytes = rate_bytes;
	if (!(l->given & WEIR_GIVEN_BURST) || rate_bytes == !!(l->given_bytes & WEIR_GIVEN_BURST))
		return true;
	weir_reader_error(r, weir_reader_at(r, "packet_limits", "burst"),
			  "burst counts %s but rate counts %s (give both in %s)",
			  rate_bytes ? "packets" : "bytes", rate_bytes ? "bytes" : "packets",
			  rate_bytes ? "bytes, for example burst: 4 MB"
				     : "packets, for example burst: 200");
	return false;
}

/* One second's worth, rounded up; bytes: at least one full frame. */
static __u64 default_burst(const struct weir_conf_limit *l)
{
	unsigned __int128 v =
		((unsigned __int128)l->rate * NS_PER_S + l->rate_per_ns - 1) / l->rate_per_ns;

	if (v > WEIR_BURST_MAX_TOKENS)
		return WEIR_BURST_MAX_TOKENS;
	if (l->bytes && v < WEIR_FRAME_BYTES)
		return WEIR_FRAME_BYTES;
	return v ? (__u64)v : 1;
}

static void check_bucket(const struct weir_reader *r, struct weir_conf_limit *l)
{
	unsigned __int128 refill;

	if (!(l->given & WEIR_GIVEN_BURST))
		l->burst = default_burst(l);
	if (l->bytes && l->burst < WEIR_FRAME_MIN_BYTES) {
		weir_reader_error(r, weir_reader_at(r, "packet_limits", "burst"),
				  "burst: %llu bytes is smaller than one packet (%d or more)",
				  l->burst, WEIR_FRAME_BYTES);
		return;
	}
	refill = (unsigned __int128)l->burst * l->rate_per_ns / l->rate;
	if (refill > 30 * 86400 * (unsigned __int128)NS_PER_S) {
		weir_reader_error(r, weir_reader_at(r, "packet_limits", "burst"),
				  "limit \"%s\": its burst takes more than 30 days to come back at "
				  "this rate (a smaller burst or a higher rate)",
				  called(l));
	}
}

static void check_window(const struct weir_reader *r, const struct weir_conf_limit *l)
{
	const yaml_node_t *where = weir_reader_at(r, "packet_limits", "limit");

	if (l->algorithm == WEIR_ALGO_SLIDING_WINDOW && l->limit >> WEIR_SLIDING_COUNT_BITS)
		weir_reader_error(r, where,
				  "limit: %llu is too much for sliding-window-counter (below %llu; "
				  "a shorter window, or fixed-window)",
				  l->limit, 1ull << WEIR_SLIDING_COUNT_BITS);
	if (l->bytes && l->limit < WEIR_FRAME_MIN_BYTES)
		weir_reader_error(r, where,
				  "limit: %llu bytes is smaller than one packet (%d or more)",
				  l->limit, WEIR_FRAME_BYTES);
}

/* --- warnings ---- */

static bool any_of(const struct weir_conf_match *m, const __u8 *protocols, size_t n)
{
	if (m->any_protocol)
		return true;
	for (size_t i = 0; i < n; i++)
		if (m->protocol[protocols[i]])
			return true;
	return false;
}

static bool nothing_but_tcp(const struct weir_conf_match *m)
{
	if (m->has_tcp_flags)
		return true;
	if (m->any_protocol)
		return false;
	for (unsigned i = 0; i < 256; i++)
		if (m->protocol[i] && i != IPPROTO_TCP)
			return false;
	return true;
}

/* Families that a set of prefixes leaves: bit 0 = IPv4, bit 1 = IPv6. */
static unsigned families(const struct weir_net_set *s)
{
	unsigned f = 0;

	if (s->n == 0 || s->negate)
		return 3;
	for (size_t i = 0; i < s->n; i++)
		f |= s->item[i].family == 4 ? 1 : 2;
	return f;
}

/* Only this protocol? */
static bool only(const struct weir_conf_match *m, unsigned protocol)
{
	for (unsigned i = 0; i < 256; i++)
		if (m->protocol[i] != (i == protocol))
			return false;
	return true;
}

static bool no_protocol(const struct weir_conf_match *m)
{
	for (unsigned i = 0; i < 256; i++)
		if (m->protocol[i])
			return false;
	return !m->any_protocol;
}

/* A limit that no packet can meet is a mistake. */
static void refuse_never(const struct weir_reader *r, const struct weir_conf_limit *l)
{
	static const __u8 with_ports[] = {IPPROTO_TCP, IPPROTO_UDP}, tcp[] = {IPPROTO_TCP};
	const struct weir_conf_match *m = &l->match;
	bool ports = m->source_port.n || m->destination_port.n;
	const char *why = NULL, *key = m->source_port.n ? "source_port" : "destination_port";
	unsigned family = families(&m->source) & families(&m->destination);

	if (only(m, IPPROTO_ICMP))
		family &= 1;
	else if (only(m, IPPROTO_ICMPV6))
		family &= 2;
	if (no_protocol(m)) {
		why = "no protocol is left (leave some)";
		key = "protocol";
	} else if (ports && !any_of(m, with_ports, ARRAY_LEN(with_ports))) {
		why = "its protocols have no ports (add tcp or udp)";
	} else if (m->has_tcp_flags && !any_of(m, tcp, 1)) {
		why = "only tcp has TCP flags (protocol: tcp)";
		key = "tcp_flags";
	} else if (m->tcp_flags_set & m->tcp_flags_clear) {
		why = "a TCP flag is in both set and clear";
		key = "tcp_flags";
	} else if (!family) {
		why = "protocol, source and destination are of different families (use one)";
		key = m->destination.n ? "destination" : "source";
	}
	if (why)
		weir_reader_error(r, weir_reader_at(r, "packet_limits.match", key),
				  "limit \"%s\" can never match: %s", called(l), why);
}

static void warn_limit(const struct weir_reader *r, const struct weir_conf_limit *l)
{
	__u64 room = l->algorithm == WEIR_ALGO_TOKEN_BUCKET ? l->burst : l->limit;
	const char *key = l->algorithm == WEIR_ALGO_TOKEN_BUCKET ? "burst" : "limit";

	if (l->match.fragment == 1 &&
	    (l->match.source_port.n || l->match.destination_port.n || l->match.has_tcp_flags))
		weir_reader_warn(r, weir_reader_at(r, "packet_limits.match", "fragment"),
				 "limit \"%s\" sees first fragments only: the others carry neither "
				 "ports nor TCP flags",
				 called(l));
	if (l->bytes && room < WEIR_FRAME_BYTES)
		weir_reader_warn(r, weir_reader_at(r, "packet_limits", key),
				 "%s: a full frame of %d bytes never passes, even alone", key,
				 WEIR_FRAME_BYTES);
	if (l->block_for_ns && !nothing_but_tcp(&l->match))
		weir_reader_warn(r, weir_reader_at(r, "packet_limits", "block_for"),
				 "block_for: anyone can send %s in somebody else's name, and you "
				 "would block them (leave block_for out, match protocol: tcp, or "
				 "list under never_block who must get through)",
				 l->match.any_protocol ? "packets" : "these packets");
	if (l->scope == WEIR_SCOPE_FLEET && !l->block_for_ns && !nothing_but_tcp(&l->match))
		weir_reader_warn(r, weir_reader_at(r, "packet_limits", "scope"),
				 "scope: fleet: anyone can send %s in somebody else's name, and "
				 "all hosts would block them (match protocol: tcp, or list under "
				 "never_block who must get through)",
				 l->match.any_protocol ? "packets" : "these packets");
	if (l->per == WEIR_PER_SOURCE && l->ipv6_prefix > 64 && (families(&l->match.source) & 2))
		weir_reader_warn(r, weir_reader_at(r, "packet_limits", "ipv6_prefix"),
				 "ipv6_prefix: %u counts each address by itself, and one IPv6 host "
				 "has a whole /64 of them to change between",
				 l->ipv6_prefix);
}

/* Who sends to a destination that is over its limit need not be at fault. */
static bool is_suspicious(const struct weir_conf *c, const struct weir_conf_limit *l)
{
	const struct weir_conf_suspicious *s = &c->request.suspicious;

	for (size_t i = 0; i < s->n_packet_limits; i++)
		if (!strcmp(s->packet_limits[i], l->name))
			return true;
	return false;
}

/* What only limits of sources can have. */
static void check_aggregate(const struct weir_reader *r, const struct weir_conf_limit *l)
{
	if (l->per == WEIR_PER_SOURCE)
		return;
	if (l->block_for_ns)
		weir_reader_error(r, weir_reader_at(r, "packet_limits", "block_for"),
				  "block_for is for limits per: source: %s would be cut off for "
				  "everybody (leave block_for out: what is over the limit is "
				  "dropped)",
				  l->per == WEIR_PER_ALL ? "the host" : "a blocked destination");
	for (size_t i = 0; i < ARRAY_LEN(prefix_keys); i++)
		if (l->per == WEIR_PER_ALL && l->given & prefix_keys[i].bit)
			weir_reader_error(r, weir_reader_at(r, "packet_limits", prefix_keys[i].key),
					  "%s: a limit per: all has one budget for every address "
					  "(leave it out, or per: source or destination)",
					  prefix_keys[i].key);
	if (r->conf && is_suspicious(r->conf, l))
		weir_reader_error(r, weir_reader_at(r, "packet_limits", "per"),
				  "limit \"%s\" is one of suspicious.packet_limits, which take "
				  "limits per: source only",
				  called(l));
}

/* What a limit of the fleet needs: a store where the hosts meet, and enough in a window to count. */
static void check_fleet(const struct weir_reader *r, const struct weir_conf_limit *l)
{
	const yaml_node_t *where = weir_reader_at(r, "packet_limits", "scope");
	bool bucket = l->algorithm == WEIR_ALGO_TOKEN_BUCKET;
	unsigned __int128 amount = bucket ? l->rate : l->limit;

	if (l->scope != WEIR_SCOPE_FLEET)
		return;
	if (l->per != WEIR_PER_SOURCE)
		weir_reader_error(r, where, "scope: fleet is for limits per: source");
	else if (amount * 60 * NS_PER_S / (bucket ? l->rate_per_ns : l->window_ns) <
		 64u * (l->bytes ? WEIR_FRAME_BYTES : 1u))
		weir_reader_error(
			r, where,
			"scope: fleet needs a limit of at least 64 %s a minute (or scope: host)",
			l->bytes ? "full frames" : "packets");
}

void weir_limit_check_fleet_store(const struct weir_reader *r, const struct weir_conf *c,
				  const struct weir_conf_limit *l)
{
	const char *what =
		!c->store.shared ? "a shared store (store: {url: redis://…}"
		: !c->store.fleet_lists
			? "store.fleet.lists: all hosts block what one finds (lists: true"
			: NULL;

	if (l->scope == WEIR_SCOPE_FLEET && l->per == WEIR_PER_SOURCE && what)
		weir_problems_add(r->problems, false, NULL, l->line, 0,
				  "limit \"%s\": scope: fleet needs %s, or scope: host)", called(l),
				  what);
}

void weir_limit_finish(struct weir_reader *r, struct weir_conf_limit *l)
{
	const bool bucket = l->algorithm == WEIR_ALGO_TOKEN_BUCKET;
	size_t before = r->problems->n_errors;

	if (!*l->name && r->marks && !weir_reader_has(r, "packet_limits", "name"))
		weir_reader_error(r, r->marks->node,
				  "a limit without a name (for example name: per-source)");
	if (r->marks && r->marks->bad & WEIR_GIVEN_ALGORITHM)
		return; /* what belongs to it cannot be told */
	refuse_never(r, l);
	refuse_foreign(r, l, bucket);
	if (!has_needed(r, l, bucket) || !settle_unit(r, l, bucket))
		return;
	if (bucket)
		check_bucket(r, l);
	else
		check_window(r, l);
	if (r->problems->n_errors == before)
		check_aggregate(r, l);
	if (r->problems->n_errors == before)
		check_fleet(r, l);
	if (!r->top && r->conf && r->problems->n_errors == before)
		weir_limit_check_fleet_store(r, r->conf, l); /* of a file: when all of it is read */
	if (r->problems->n_errors == before)
		warn_limit(r, l);
}

int weir_limit_name_line(const struct weir_conf *c, const char *name, const void *but)
{
	const struct weir_conf_request *q = &c->request;

	for (size_t i = 0; i < c->n_limits; i++)
		if (&c->limits[i] != but && strcmp(c->limits[i].name, name) == 0)
			return c->limits[i].line;
	for (size_t i = 0; i < q->n_limit; i++)
		if (&q->limit[i] != but && strcmp(q->limit[i].name, name) == 0)
			return q->limit[i].line;
	return 0;
}

static int finish_limit(struct weir_reader *r, void *entry)
{
	struct weir_conf_limit *l = entry;
	int line = *l->name ? weir_limit_name_line(r->conf, l->name, l) : 0;

	if (line)
		weir_reader_error(r, weir_reader_at(r, "packet_limits", "name"),
				  "name: \"%s\" is taken (by the limit in line %d)", l->name, line);
	weir_limit_finish(r, l);
	return 0;
}

const struct weir_entries weir_entries_packet_limits = {
	.section = "packet_limits",
	.entry = "limit",
	.entries = "limits",
	.needs = "a name and a rate",
	.size = sizeof(struct weir_conf_limit),
	.items = offsetof(struct weir_conf, limits),
	.n = offsetof(struct weir_conf, n_limits),
	.line = offsetof(struct weir_conf_limit, line),
	.init = weir_limit_init,
	.finish = finish_limit,
};
