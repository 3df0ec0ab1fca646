/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files of the metrics page: metrics.c (the page), metrics_*.c (a table each, of one layer). Not for others. */
#ifndef WEIR_AGENT_METRICS_INT_H
#define WEIR_AGENT_METRICS_INT_H

#include "user/agent/agent_int.h"
#include "user/agent/metrics.h"

struct weir_metric;
struct weir_page {
	FILE *f;
	struct weir_agent *a;
	const struct weir_metric *m;
	struct weir_counters packets;
	struct weir_l7_stats requests;
	struct weir_http_stats http;
	struct weir_l7_limit_stats row[WEIR_REQUEST_ROWS_MAX]; /* in force */
	size_t n_rows;
	struct weir_table_use table[64];
	int n_tables;
	struct weir_fleet_status fleet;
};

struct weir_metric {
	const char *name, *type, *labels; /* labels: their names, for people */
	void (*put)(struct weir_page *p); /* its samples */
	const char *help;
};
struct weir_metrics {
	const struct weir_metric *metric;
	size_t n;
	const char *layer;
};
extern const struct weir_metrics weir_metrics_agent, weir_metrics_packets, weir_metrics_requests,
	weir_metrics_store, weir_metrics_fleet;

/* One sample of p->m: NAME SUFFIX {labels} value; labels are pairs "key", value, ended by NULL. Failures of a stream in
 * memory show at its end.
 */
__attribute__((sentinel)) void weir_page_put(struct weir_page *p, const char *suffix, double value,
					     ...);
#define PUT(p, value, ...) weir_page_put(p, "", (double)(value), ##__VA_ARGS__, NULL)

/* Counts @n of what took at most so long, by the bounds @le_us; n[n_bounds] took longer than all of them. */
void weir_page_histogram(struct weir_page *p, const __u32 *le_us, const __u64 *n, size_t n_bounds,
			 __u64 sum_us);

#endif
