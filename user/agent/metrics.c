/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metrics page in Prometheus' text format. The tables of metrics_*.c make the page and the list in the documentation.
 * Labels come from the configuration and from fixed words, never from a client, so that no traffic can make a new series.
 * Called by pages.c.
 */
#include "user/agent/metrics_int.h"

#include <stdarg.h>
#include <string.h>

static const struct weir_metrics *const all[] = {&weir_metrics_agent, &weir_metrics_packets,
						 &weir_metrics_requests, &weir_metrics_store,
						 &weir_metrics_fleet};

static void put_label_value(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' || *s == '"')
			(void)fputc('\\', f);
		if (*s == '\n')
			(void)fputs("\\n", f);
		else
			(void)fputc(*s, f);
	}
}

void weir_page_put(struct weir_page *p, const char *suffix, double value, ...)
{
	const char *key;
	bool any = false;
	va_list ap;

	(void)fprintf(p->f, "%s%s", p->m->name, suffix);
	va_start(ap, value);
	while ((key = va_arg(ap, const char *))) {
		(void)fprintf(p->f, "%s%s=\"", any ? "," : "{", key);
		put_label_value(p->f, va_arg(ap, const char *));
		(void)fputc('"', p->f);
		any = true;
	}
	va_end(ap);
	(void)fprintf(p->f, "%s %.15g\n", any ? "}" : "", value);
}

void weir_page_histogram(struct weir_page *p, const __u32 *le_us, const __u64 *n, size_t n_bounds,
			 __u64 sum_us)
{
	__u64 sum = 0;
	char le[32];

	for (size_t i = 0; i < n_bounds; i++) {
		sum += n[i];
		(void)snprintf(le, sizeof(le), "%g", le_us[i] / 1e6);
		weir_page_put(p, "_bucket", (double)sum, "le", le, NULL);
	}
	sum += n[n_bounds];
	weir_page_put(p, "_bucket", (double)sum, "le", "+Inf", NULL);
	weir_page_put(p, "_sum", (double)sum_us / 1e6, NULL);
	weir_page_put(p, "_count", (double)sum, NULL);
}

static bool is_there(const struct weir_agent *a, const struct weir_metrics *m)
{
	return m == &weir_metrics_packets    ? a->dp != NULL
	       : m == &weir_metrics_requests ? a->l7 != NULL
	       : m == &weir_metrics_store    ? a->l7 && a->shared
	       : m == &weir_metrics_fleet    ? a->fleet != NULL
					     : true;
}

static void collect(struct weir_page *p)
{
	struct weir_agent *a = p->a;
	size_t n;

	if (a->dp) {
		if (weir_datapath_counters(a->dp, &p->packets) < 0)
			p->packets = a->meter.now; /* a second old at most */
		p->n_tables = weir_datapath_memory(a->dp, p->table, ARRAY_LEN(p->table));
		if (p->n_tables > (int)ARRAY_LEN(p->table))
			p->n_tables = ARRAY_LEN(p->table);
	}
	if (a->fleet)
		weir_fleet_status(a->fleet, &p->fleet);
	if (!a->l7)
		return;
	weir_l7_stats(a->l7, &p->requests);
	weir_http_stats(a->http, &p->http);
	n = weir_l7_limits(a->l7, p->row, ARRAY_LEN(p->row));
	for (size_t i = 0; i < n && i < ARRAY_LEN(p->row); i++)
		if (p->row[i].in_force)
			p->row[p->n_rows++] = p->row[i];
}

static void put_all(struct weir_page *p, const struct weir_metrics *m)
{
	for (size_t i = 0; i < m->n; i++) {
		p->m = &m->metric[i];
		(void)fprintf(p->f, "# HELP %s %s\n# TYPE %s %s\n", p->m->name, p->m->help,
			      p->m->name, p->m->type);
		p->m->put(p);
	}
}

char *weir_agent_metrics(struct weir_agent *a, size_t *ret_n)
{
	_cleanup_free_ struct weir_page *p = calloc(1, sizeof(*p));
	char *text = NULL;

	if (!p)
		return NULL;
	p->a = a;
	p->f = open_memstream(&text, ret_n);
	if (!p->f)
		return NULL;
	collect(p);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (is_there(a, all[i]))
			put_all(p, all[i]);
	if (fclose(p->f) == EOF) {
		free(text);
		return NULL;
	}
	return text;
}

void weir_metrics_print(FILE *f)
{
	(void)fputs("| metric | type | labels | layer | |\n|---|---|---|---|---|\n", f);
	for (size_t k = 0; k < ARRAY_LEN(all); k++) {
		for (size_t i = 0; i < all[k]->n; i++) {
			const struct weir_metric *m = &all[k]->metric[i];

			(void)fprintf(f, "| `%s` | %s | %s | %s | %s |\n", m->name, m->type,
				      m->labels, all[k]->layer, m->help);
		}
	}
}
