/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metrics page: every metric, no client, no series that traffic can make; and readiness. */
#include "agent_request_case.h"

static void the_page_has_every_metric_and_no_client(void **state)
{
	static const char *const lines[] = {
		"# TYPE weir_requests_total counter\n",
		"weir_requests_total{limit=\"login\",verdict=\"refused\",algorithm=\"sliding-"
		"window-log\",mode=\"enforce\"} 7\n",
		"# TYPE weir_check_seconds histogram\n",
		"weir_check_seconds_bucket{le=\"0.0001\"} 3\n",
		"weir_check_seconds_bucket{le=\"+Inf\"} 4\n",
		"weir_check_seconds_count 4\n",
		"weir_packets_total{reason=\"drop_limit\"} 5\n",
		"weir_packet_limit_total{limit=\"per-source\",verdict=\"over\",mode=\"enforce\"} "
		"0\n",
		"weir_generation 1\n",
		"weir_mode{mode=\"enforce\"} 1\n",
		"weir_table_size{table=\"request_keys\"} 100\n",
		"weir_blocks{origin=\"escalation\"} 0\n",
		"weir_escalations_total{result=\"blocked\"} 0\n",
		"weir_escalations_total{result=\"capped\"} 2\n",
		"weir_held_requests 1\n",
		"weir_untrusted_forwarded_total 3\n",
	};
	_cleanup_free_ char *page = NULL;
	unsigned status = 0;
	size_t n = 0;

	(void)state;
	l7.row[0].n[WEIR_L7_REFUSED] = 7;
	l7.stats.check.n[3] = 3;
	l7.stats.check.n[WEIR_L7_LATENCY_N] = 1;
	l7.stats.store.entries_max = 100;
	l7.stats.escalations_capped = 2;
	l7.http.held = 1;
	l7.http.untrusted_forwarded = 3;
	dp.counters.reason.drop_limit.packets = 5;
	page = l7.page(l7.page_arg, "/metrics", &status, &n);
	assert_non_null(page);
	assert_int_equal(status, 200);
	assert_int_equal(n, strlen(page));
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		if (!strstr(page, lines[i]))
			fail_msg("no %s in %s", lines[i], page);
}

static size_t count_lines(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

static void traffic_makes_no_new_series(void **state)
{
	struct fix *f = *state;
	_cleanup_free_ char *before = NULL, *after = NULL;
	struct weir_l7_event e = {.kind = WEIR_L7_EVENT_ESCALATE,
				  .has_client = true,
				  .client = prefix_of("198.51.100.7"),
				  .limit = "login",
				  .rule = "login-hammer"};
	unsigned status;
	size_t n;

	before = l7.page(l7.page_arg, "/metrics", &status, &n);
	for (int i = 0; i < WEIR_REASON_MAX; i++)
		((struct weir_count *)&dp.counters.reason)[i].packets = 1;
	for (int v = 0; v < WEIR_L7_VERDICT_MAX; v++)
		l7.row[0].n[v] = 1;
	happens(f, &e);
	does(f, "{'cmd':'list_add','list':'block','prefix':'192.0.2.9'}");
	after = l7.page(l7.page_arg, "/metrics", &status, &n);
	assert_int_equal(count_lines(before), count_lines(after));
	assert_null(strstr(after, "198.51.100.7"));
}

static void readiness_is_that_of_what_is_in_force(void **state)
{
	struct fix *f = *state;
	_cleanup_free_ char *ready = NULL, *not_ready = NULL, *alive = NULL, *none = NULL;
	unsigned status = 0;
	size_t n;

	ready = l7.page(l7.page_arg, "/readyz", &status, &n);
	assert_int_equal(status, 200);
	assert_non_null(strstr(ready, "generation"));
	assert_int_equal(weir_datapath_detach(f->a->dp, "lo", NULL), 0);
	not_ready = l7.page(l7.page_arg, "/readyz", &status, &n);
	assert_int_equal(status, 503);
	assert_string_equal(not_ready, "lo is not protected\n");
	alive = l7.page(l7.page_arg, "/healthz", &status, &n);
	assert_int_equal(status, 200);
	none = l7.page(l7.page_arg, "/other", &status, &n);
	assert_int_equal(status, 404);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(the_page_has_every_metric_and_no_client),
		BOTH(traffic_makes_no_new_series),
		BOTH(readiness_is_that_of_what_is_in_force),
	};

	return cmocka_run_group_tests_name("agent_metrics", tests, open_quiet, close_quiet);
}
