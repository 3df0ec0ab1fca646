/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters and rates of the request layer: see request_meter.h. Called by the agent's loop. */
#include <string.h>

#include "user/agent/request_meter.h"
#include "user/base/clock.h"

void weir_acting_update(struct weir_acting *t, bool acted, __s64 now_s)
{
	if (!acted)
		return;
	if (!weir_acting_now(t, now_s))
		t->since_s = now_s;
	t->last_s = now_s;
}

bool weir_acting_now(const struct weir_acting *t, __s64 now_s)
{
	__s64 age_s = now_s - t->last_s;

	return t->last_s && age_s <= WEIR_ACTING_S && age_s >= -WEIR_ACTING_S;
}

__u64 weir_request_refused(const struct weir_l7_limit_stats *row)
{
	return row->n[WEIR_L7_REFUSED] + row->n[WEIR_L7_CLOSED] + row->n[WEIR_L7_TOO_LARGE] +
	       row->n[WEIR_L7_NO_KEY];
}

const char *weir_l7_verdict_name(enum weir_l7_verdict v)
{
	static const char *const names[WEIR_L7_VERDICT_MAX] = {
		[WEIR_L7_PASSED] = "passed",   [WEIR_L7_REFUSED] = "refused",
		[WEIR_L7_WOULD] = "would",     [WEIR_L7_UNJUDGED] = "unjudged",
		[WEIR_L7_CLOSED] = "closed",   [WEIR_L7_LOCAL] = "local",
		[WEIR_L7_TOO_LARGE] = "large", [WEIR_L7_NO_KEY] = "no_key",
	};

	return (unsigned)v < WEIR_L7_VERDICT_MAX ? names[v] : "?";
}

/* The same limit among @rows. Mostly at the same place. */
static size_t find_row(const struct weir_l7_limit_stats *rows, size_t n, size_t guess,
		       const struct weir_l7_limit_stats *like)
{
	for (size_t k = 0; k < n; k++) {
		size_t i = (guess + k) % n;

		if (!strcmp(rows[i].name, like->name) && rows[i].algorithm == like->algorithm)
			return i;
	}
	return n;
}

void weir_request_meter_update(struct weir_request_meter *m, struct weir_l7 *l7, __u64 now_ns,
			       __s64 wall_s)
{
	struct weir_acting acting[WEIR_REQUEST_ROWS_MAX];
	bool first = !m->now_ns;

	memcpy(m->row_before, m->row, sizeof(m->row));
	memcpy(acting, m->acting, sizeof(acting));
	memset(m->acting, 0, sizeof(m->acting));
	m->before = m->now;
	m->n_before = m->n;
	m->before_ns = m->now_ns;
	weir_l7_stats(l7, &m->now);
	m->n = weir_l7_limits(l7, m->row, WEIR_REQUEST_ROWS_MAX);
	if (m->n > WEIR_REQUEST_ROWS_MAX)
		m->n = WEIR_REQUEST_ROWS_MAX;
	m->now_ns = now_ns;
	if (first) {
		m->before = m->now;
		m->before_ns = now_ns;
		memcpy(m->row_before, m->row, sizeof(m->row));
		m->n_before = m->n;
	}
	for (size_t i = 0; i < m->n; i++) {
		size_t k = find_row(m->row_before, m->n_before, i, &m->row[i]);

		if (k == m->n_before)
			continue;
		m->acting[i] = acting[k];
		weir_acting_update(&m->acting[i],
				   weir_request_refused(&m->row[i]) >
					   weir_request_refused(&m->row_before[k]),
				   wall_s);
	}
}

const struct weir_l7_limit_stats *
weir_request_meter_row(const struct weir_request_meter *m, const char *name,
		       const struct weir_l7_limit_stats **ret_before,
		       const struct weir_acting **ret_acting)
{
	for (size_t i = 0; i < m->n; i++) {
		size_t k;

		if (!m->row[i].in_force || strcmp(m->row[i].name, name) != 0)
			continue;
		k = find_row(m->row_before, m->n_before, i, &m->row[i]);
		*ret_before = k < m->n_before ? &m->row_before[k] : NULL;
		*ret_acting = &m->acting[i];
		return &m->row[i];
	}
	return NULL;
}

__u64 weir_request_rate(const struct weir_request_meter *m, __u64 now, __u64 before)
{
	__u64 span_ns = m->now_ns - m->before_ns;

	if (!span_ns || now < before)
		return 0;
	return (__u64)((double)(now - before) * (double)WEIR_NS_PER_S / (double)span_ns + 0.5);
}
