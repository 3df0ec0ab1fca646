/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Metrics listeners: served in the agent's own loop, so that a page can read what is the main thread's; see http.h. They
 * are a worker's like all others, but one without a thread and without questions. Called by the agent.
 */
#include "user/http/http_int.h"

int weir_http_serve_pages(struct weir_http *h, struct event_base *base, weir_http_page_fn *page,
			  void *arg, struct weir_error *e)
{
	struct weir_http_plan plan = {.settings = h->settings};
	int r;

	h->page = page;
	h->page_arg = arg;
	r = weir_http_worker_new(h, WEIR_HTTP_WORKERS_MAX, base, &h->pages, e);
	for (size_t i = 0; r == 0 && i < h->n_listen; i++) {
		if (!h->listen[i]->pages)
			continue;
		r = weir_http_port_new(h->pages, h->listen[i], &plan.port[plan.n].fresh, e);
		if (r < 0)
			break;
		plan.port[plan.n].listen = h->listen[i];
		plan.port[plan.n++].settings = h->listen[i]->settings;
	}
	if (r == 0) {
		weir_http_worker_apply(h->pages, &plan);
		return 0;
	}
	for (size_t i = 0; i < plan.n; i++)
		weir_http_port_free(plan.port[i].fresh);
	if (h->pages)
		weir_http_worker_free(h->pages);
	h->pages = NULL;
	return r;
}
