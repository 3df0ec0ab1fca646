/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metrics in one table, from which the page for Prometheus and the list in the documentation come. The page itself
 * is weir_agent_page (agent_int.h). Called by `weir help --metrics`.
 */
#ifndef WEIR_AGENT_METRICS_H
#define WEIR_AGENT_METRICS_H

#include <stdio.h>

/* A table in Markdown, a metric a row. */
void weir_metrics_print(FILE *f);

#endif
