/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as the body of POST /v1/check: requests within their bounds, or one printable sentence; never a crash. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/l7/check_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(const struct weir_check_json_request *q)
{
	if (!q->method || !*q->method || strlen(q->method) > WEIR_CHECK_JSON_METHOD_MAX ||
	    !q->path || *q->path != '/' || strlen(q->path) > WEIR_CHECK_JSON_PATH_MAX ||
	    q->cost > WEIR_CHECK_JSON_COST_MAX ||
	    (q->family != 0 && q->family != 4 && q->family != 6) ||
	    q->n_headers > WEIR_CHECK_JSON_HEADERS_MAX || strpbrk(q->method, " \t\r\n\"\\") ||
	    strpbrk(q->path, "\t\r\n"))
		abort();
	for (size_t i = 0; i < q->n_headers; i++)
		if (!*q->headers[i].name || strpbrk(q->headers[i].name, " \t\r\n:\"") ||
		    strpbrk(q->headers[i].value, "\r\n"))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(weir_check_json_freep) struct weir_check_json *c = NULL;
	struct weir_error e = {""};
	int r = weir_check_json_parse((const char *)data, size, &c, &e);

	if ((r < 0) != !c || (r < 0) != !!*e.text)
		abort();
	for (const char *p = e.text; *p; p++)
		if (*p < ' ' || *p > '~')
			abort();
	if (c && (c->n < 1 || c->n > WEIR_CHECK_JSON_BATCH_MAX))
		abort();
	for (size_t i = 0; c && i < c->n; i++)
		judge(&c->requests[i]);
	return 0;
}
