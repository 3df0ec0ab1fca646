/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Metrics listeners: served in the agent's own loop, so that a page can read what is the main thread's; see http.h. They
 * are a worker's like all others, but one without a thread and without questions. Called by the agent.
 */
#include <string.h>

#include "user/http/conn.h"

static const struct weir_http_refusal no_page = {
	404, "NOT_FOUND", "There is no such page here: /metrics, /healthz and /readyz are."};
static const struct weir_http_refusal only_get = {405, "METHOD_NOT_ALLOWED", "Pages are for GET."};

enum MHD_Result weir_http_page(struct weir_http_conn *c, const char *method)
{
	static const char *const paths[] = {"/metrics", "/healthz", "/readyz"};
	struct weir_http *h = c->port->worker->http;
	struct MHD_Response *r;
	unsigned status = 503;
	const char *path = NULL, *query = memchr(c->target, '?', c->target_n);
	size_t n = query ? (size_t)(query - c->target) : c->target_n;
	char *body;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (n == strlen(paths[i]) && memcmp(c->target, paths[i], n) == 0)
			path = paths[i];
	if (!path)
		return weir_http_conn_refuse(c, &no_page);
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return weir_http_conn_refuse(c, &only_get);
	n = 0;
	body = h->page(h->page_arg, path, &status, &n);
	if (!body)
		return weir_http_conn_refuse(c, &weir_http_no_memory);
	r = MHD_create_response_from_buffer(n, body, MHD_RESPMEM_MUST_FREE);
	if (!r) {
		free(body);
		return MHD_NO;
	}
	(void)MHD_add_response_header(r, "Content-Type",
				      "text/plain; version=0.0.4; charset=utf-8"); /* as above */
	(void)MHD_add_response_header(r, "Cache-Control", "no-store");
	return weir_http_conn_send(c, status, r);
}

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
