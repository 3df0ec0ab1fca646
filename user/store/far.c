/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See far.h. */
#include "user/store/far.h"

#include <string.h>

const __u32 weir_far_latency_us[WEIR_FAR_LATENCY_N] = {50,   100,   200,   500,	  1000,	  2000,
						       5000, 10000, 20000, 50000, 100000, 1000000};

const char *weir_far_health_name(enum weir_far_health h)
{
	static const char *const names[WEIR_FAR_HEALTH_MAX] = {"healthy", "degraded", "open"};

	return (unsigned)h < WEIR_FAR_HEALTH_MAX ? names[h] : "?";
}

void weir_far_stats_add(struct weir_far_stats *to, const struct weir_far_stats *from)
{
	if (!to->server[0])
		memcpy(to->server, from->server, sizeof(to->server));
	if (from->health > to->health || !to->since_s || from->away > to->away) {
		to->nodes = from->nodes;
		to->away = from->away;
		memcpy(to->away_names, from->away_names, sizeof(to->away_names));
		to->since_s = from->since_s;
		memcpy(to->cause, from->cause, sizeof(to->cause));
	}
	if (from->health > to->health)
		to->health = from->health;
	to->decisions += from->decisions;
	to->calls += from->calls;
	for (size_t i = 0; i < ARRAY_LEN(to->errors); i++)
		to->errors[i] += from->errors[i];
	to->reconnects += from->reconnects;
	to->script_loads += from->script_loads;
	to->redirects += from->redirects;
	to->late_refunds += from->late_refunds;
	for (size_t i = 0; i < ARRAY_LEN(to->latency_n); i++)
		to->latency_n[i] += from->latency_n[i];
	to->latency_sum_us += from->latency_sum_us;
	if (from->keys_known) { /* one of them looks */
		to->keys_known = true;
		to->keys = from->keys;
		to->key_bytes = from->key_bytes;
	}
}
