/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What workers tell about peers and themselves, seldom; and small things that all of them need. Called by all files of
 * the listeners.
 */
#include <time.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/http/http_int.h"

#define NOTE_NS 60000000000ull

__u64 weir_http_now_ns(void)
{
	return weir_clock_ns(CLOCK_MONOTONIC);
}

static const struct {
	const char *event, *what;
} notes[WEIR_HTTP_NOTE_MAX] = {
	[WEIR_HTTP_NOTE_LIMIT] = {"connections_at_limit",
				  "new connections are closed at once; raise http.connections, or "
				  "let the proxy keep fewer open"},
	[WEIR_HTTP_NOTE_NO_FILES] = {"out_of_descriptors",
				     "new connections are closed at once; raise LimitNOFILE of the "
				     "service (ulimit -n)"},
	[WEIR_HTTP_NOTE_UNTRUSTED] =
		{"forwarded_headers_ignored",
		 "a peer that is not in trusted_proxies sends them: if it is your proxy, name it "
		 "there; until then it counts as one client"},
	[WEIR_HTTP_NOTE_NO_TARGET] = {"proxy_sends_no_target",
				      "its requests are refused: what they ask for is not known"},
	[WEIR_HTTP_NOTE_NO_ADDRESS] =
		{"proxy_sends_no_address",
		 "limits by ip cannot count its clients: it must send X-Forwarded-For"},
	[WEIR_HTTP_NOTE_DOUBLED] = {"header_twice",
				    "one of them may be the client's own, so it is not believed: "
				    "the proxy must set it, not add to it"},
	[WEIR_HTTP_NOTE_SPOP] = {"spop_error", "the connection ends; HAProxy opens another one"},
};

void weir_http_note(struct weir_http_worker *w, enum weir_http_note what,
		    const struct weir_http_port *port, const char *detail)
{
	_Atomic __u64 *at = &w->http->told_ns[what];
	__u64 before = atomic_load_explicit(at, memory_order_relaxed), now = weir_http_now_ns();

	if (what == WEIR_HTTP_NOTE_UNTRUSTED) { /* of each listener, once */
		if (atomic_exchange_explicit(&port->listen->told_untrusted, true,
					     memory_order_relaxed))
			return;
	} else if ((before && now - before < NOTE_NS) ||
		   !atomic_compare_exchange_strong(at, &before, now)) {
		return;
	}
	weir_log(WEIR_LOG_WARNING, notes[what].event, "listen", "s",
		 port ? port->listen->name : NULL, "detail", "s", detail, "hint", "s",
		 notes[what].what, NULL);
}

bool weir_http_trusts(const struct weir_http_port *port, const struct weir_prefix *peer)
{
	if (!peer)
		return true;
	for (size_t i = 0; i < port->settings->n_trusted; i++)
		if (weir_prefix_contains(&port->settings->trusted[i], peer))
			return true;
	return false;
}
