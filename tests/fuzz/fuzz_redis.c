/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as the URL of a store, and as what its script replied: refused, or read within their bounds. An error never
 * repeats a password, and what is accepted can be shown without it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/redis/redis_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* @secret: what must not be shown; NULL: there is none. */
static void read_url(const char *text, const char *secret)
{
	struct weir_redis_url u = {.n_seed = 0};
	struct weir_error e = {};
	char shown[1024];

	if (weir_redis_url_parse(text, &u, &e) < 0) {
		if (!e.text[0] || (secret && strstr(e.text, secret)))
			abort();
		return;
	}
	if ((u.kind != WEIR_REDIS_ONE || !u.unix_path) && !u.n_seed)
		abort();
	(void)weir_redis_url_shown(&u, shown, sizeof(shown));
	if (secret && u.password && strstr(u.password, secret) && strstr(shown, secret))
		abort();
	weir_redis_url_done(&u);
}

/* Three requests of up to four layers, whatever the reply says of them. */
static void read_reply(const uint8_t *data, size_t size)
{
	struct weir_store_limit limit = {.algorithm = WEIR_REQUEST_TOKEN_BUCKET};
	struct weir_store_layer layer[4] = {};
	struct weir_store_request q = {.layer = layer, .n = 4};
	struct weir_redis_answers a;
	bool admitted;
	__u64 live;

	for (size_t i = 0; i < 4; i++)
		layer[i].limit = &limit;
	if (weir_redis_answers_open(data, size, &a) < 0)
		return;
	for (int i = 0; i < 3; i++)
		if (weir_redis_answers_next(&a, &q, i == 1 ? 5 : 15,
					    i == 2 ? WEIR_REDIS_JUDGE : WEIR_REDIS_DECIDE,
					    &admitted, &live) < 0)
			return;
	if (a.at > a.end)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[512];
	size_t n = size < sizeof(text) - 1 ? size : sizeof(text) - 1;

	memcpy(text, data, n);
	text[n] = '\0';
	read_url(text, NULL);
	if (!strstr(text, "sesame")) {
		(void)snprintf(text, sizeof(text), "redis://u:sesame%.*s", (int)n,
			       (const char *)data);
		read_url(text, "sesame");
	}
	read_reply(data, size);
	return 0;
}
