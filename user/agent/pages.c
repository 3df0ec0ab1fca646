/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What listeners of profile metrics serve: /metrics, /healthz, /readyz. Called by them in the agent's loop, and for
 * status.
 */
#include <string.h>

#include "user/agent/agent_int.h"

const char *weir_agent_unready(struct weir_agent *a, char *buf, size_t size)
{
	struct weir_attachment at[WEIR_INTERFACES_MAX];
	int n;

	if (!a->ready)
		return "the agent starts or ends";
	if (a->http && !a->http_started)
		return "the listeners are not served yet";
	if (a->fleet && weir_fleet_unready(a->fleet))
		return weir_fleet_unready(a->fleet);
	if (!a->dp)
		return NULL;
	n = weir_datapath_attachments(a->dp, at, WEIR_INTERFACES_MAX);
	for (size_t i = 0; i < a->conf->n_interfaces; i++) {
		bool on = false;

		for (int k = 0; k < n && k < WEIR_INTERFACES_MAX; k++)
			on = on ||
			     (at[k].attached && !strcmp(at[k].ifname, a->conf->interfaces[i]));
		if (!on) {
			(void)snprintf(buf, size, "%s is not protected", a->conf->interfaces[i]);
			return buf;
		}
	}
	return NULL;
}

static char *line(const char *text, size_t *ret_n)
{
	char *s = NULL;
	int n = asprintf(&s, "%s\n", text);

	if (n < 0)
		return NULL;
	*ret_n = (size_t)n;
	return s;
}

char *weir_agent_page(void *agent, const char *path, unsigned *ret_status, size_t *ret_n)
{
	struct weir_agent *a = agent;
	char buf[128], away[WEIR_AGENT_AWAY_MAX], text[sizeof(away) + 128];
	const char *why;

	*ret_status = 200;
	if (!strcmp(path, "/metrics"))
		return weir_agent_metrics(a, ret_n);
	if (!strcmp(path, "/healthz"))
		return line("alive", ret_n);
	if (strcmp(path, "/readyz") != 0) {
		*ret_status = 404;
		return line("/metrics, /healthz and /readyz are here", ret_n);
	}
	why = weir_agent_unready(a, buf, sizeof(buf));
	if (why) {
		*ret_status = 503;
		return line(why, ret_n);
	}
	/* Without its store it is ready all the same: else no host would be left, and each limit says what it does then. */
	weir_agent_say_away(a, away, sizeof(away));
	(void)snprintf(text, sizeof(text), "generation %llu is in force, %s mode%s%s",
		       (unsigned long long)weir_agent_generation(a), weir_mode_name(a->in_force),
		       away[0] ? "; " : "", away);
	return line(text, ret_n);
}
