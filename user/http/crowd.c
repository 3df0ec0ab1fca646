/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Many checks that count as one private address: most likely that of a proxy, whose clients then share all limits by ip.
 * Counted by each listener in each worker over a few hundred checks at a time (weir_http_saw_client, in http_int.h): the
 * first one's address, and how often it was seen. An address with more than half of the checks is the first one in every
 * other turn at least, so it is found soon, and one that has fewer is never called by the name.
 */
#include <string.h>

#include "user/base/log.h"
#include "user/http/http_int.h"

#define QUIET_MAX 8 /* turns without one until it is no longer told */
#define TOLD_NS	  (3600 * 1000000000ull)

static bool is_private(const struct weir_prefix *a)
{
	static const struct {
		__u8 family, len, ip[16];
	} ranges[] = {
		{4, 8, {10}},	    {4, 12, {172, 16}},	   {4, 16, {192, 168}},
		{4, 10, {100, 64}}, {4, 16, {169, 254}},   {4, 8, {127}},
		{6, 7, {0xfc}},	    {6, 10, {0xfe, 0x80}}, {6, 128, {[15] = 1}},
	};

	for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
		struct weir_prefix p = {.family = ranges[i].family, .len = ranges[i].len};

		memcpy(p.addr.ip, ranges[i].ip, sizeof(ranges[i].ip));
		if (weir_prefix_contains(&p, a))
			return true;
	}
	return false;
}

const char *weir_http_crowd_hint(enum weir_profile profile, bool named)
{
	if (!named)
		return "it is the peer's own, which is not in trusted_proxies: if that is your "
		       "proxy, name it there";
	if (profile == WEIR_PROFILE_SPOE)
		return "if it is a balancer before HAProxy, HAProxy must send the client's address "
		       "as ip (accept-proxy, or http-request set-src)";
	return "your proxy says so: if that is a proxy too, name it in trusted_proxies, so that "
	       "the address before it counts";
}

/* One line for each address and hour. */
static void tell(struct weir_http_port *p, const struct weir_http_crowd *c)
{
	struct weir_http_listen *l = p->listen;
	char who[WEIR_PREFIX_STRLEN], share[16];
	__u64 now = weir_http_now_ns();

	if (l->crowd_told_ns && now - l->crowd_told_ns < TOLD_NS &&
	    weir_prefix_compare(&l->crowd_told, &c->who) == 0)
		return;
	l->crowd_told_ns = now;
	l->crowd_told = c->who;
	(void)snprintf(share, sizeof(share), "%u%%", 100 * c->same / WEIR_HTTP_CROWD_CHECKS);
	weir_log(WEIR_LOG_WARNING, "clients_share_an_address", "listen", "s", l->name, "address",
		 "s", weir_prefix_format(&c->who, who), "share", "s", share, "hint", "s",
		 weir_http_crowd_hint(p->settings->profile, c->named), NULL);
}

void weir_http_crowd_judge(struct weir_http_port *p)
{
	struct weir_http_listen *l = p->listen;
	struct weir_http_crowd *c = &p->crowd;
	bool crowded = 2 * c->same > WEIR_HTTP_CROWD_CHECKS && is_private(&c->who);

	if (crowded)
		weir_http_count(&p->worker->counters.shared_address, c->same);
	pthread_mutex_lock(&l->crowd_lock);
	if (crowded) {
		l->crowd = *c;
		l->crowd_quiet = 0;
		tell(p, c);
	} else if (l->crowd.same && ++l->crowd_quiet == QUIET_MAX) {
		l->crowd.same = 0;
	}
	pthread_mutex_unlock(&l->crowd_lock);
	c->n = c->same = 0;
}
