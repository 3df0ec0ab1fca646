/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as lines of a forwarding header, and as the other headers that make keys. Behind a line of the proxy's own,
 * no byte of the client's changes the address.
 */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/l7/client.h"
#include "user/l7/key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct weir_prefix prefix(const char *text)
{
	struct weir_prefix p = {.len = 0};

	if (weir_prefix_parse(text, strlen(text), false, &p) < 0)
		abort();
	return p;
}

/* What the proxy at 10.0.0.1 appends, to the client's line or as one of its own. */
static void check_appended(enum weir_client_header header, const char *name,
			   struct weir_text theirs, const struct weir_client_options *o)
{
	static char joined[8192];
	const char *ours =
		header == WEIR_CLIENT_FORWARDED ? "for=\"[2001:db8::1]:80\"" : "2001:db8::1";
	struct weir_prefix peer = prefix("10.0.0.1"), want = prefix("2001:db8::1");
	struct weir_header_list list = {.n = 0};
	struct weir_client c;
	size_t n = strlen(ours);

	if (theirs.n + n + 2 > sizeof(joined) ||
	    weir_header_list_add(&list, weir_text_of(name), theirs) < 0)
		return;
	if (weir_client_find(o, &peer, &list, &c) < 0 || c.hops > WEIR_CLIENT_HOPS_MAX ||
	    c.addr.len != (c.addr.family == 4 ? 32 : 128))
		abort();
	if (weir_header_list_add(&list, weir_text_of(name), weir_text_of(ours)) < 0 ||
	    weir_client_find(o, &peer, &list, &c) < 0 || weir_prefix_compare(&c.addr, &want) != 0)
		abort();
	if (header == WEIR_CLIENT_X_REAL_IP)
		return;
	memcpy(joined, theirs.p, theirs.n);
	memcpy(joined + theirs.n, ", ", 2);
	memcpy(joined + theirs.n + 2, ours, n);
	list.n = 0;
	if (weir_header_list_add(&list, weir_text_of(name),
				 (struct weir_text){joined, theirs.n + 2 + n}) < 0 ||
	    weir_client_find(o, &peer, &list, &c) < 0 || weir_prefix_compare(&c.addr, &want) != 0)
		abort();
}

static void check_keys(struct weir_text t)
{
	static const struct weir_key_spec spec = {
		.choice = {{.part = {{.kind = WEIR_KEY_TOKEN},
				     {.kind = WEIR_KEY_COOKIE, .name = "a"},
				     {.kind = WEIR_KEY_QUERY, .name = "a"}},
			    .n = 3},
			   {.part = {{.kind = WEIR_KEY_COOKIE, .name = "a"}}, .n = 1},
			   {.part = {{.kind = WEIR_KEY_QUERY, .name = "a"}}, .n = 1},
			   {.part = {{.kind = WEIR_KEY_USER_AGENT}}, .n = 1},
			   {.part = {{.kind = WEIR_KEY_GLOBAL}}, .n = 1}},
		.n = 5};
	static const struct weir_key_context context;
	struct weir_header_list list = {.n = 0};
	struct weir_key_request q = {.headers = &list, .query = t};
	struct weir_key k;

	if (weir_header_list_add(&list, weir_text_of("Cookie"), t) < 0 ||
	    weir_header_list_add(&list, weir_text_of("Authorization"), t) < 0)
		return;
	if (weir_key_build(&spec, &context, &q, &k) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {[WEIR_CLIENT_X_FORWARDED_FOR] = "X-Forwarded-For",
					    [WEIR_CLIENT_FORWARDED] = "Forwarded",
					    [WEIR_CLIENT_X_REAL_IP] = "X-Real-IP"};
	struct weir_prefix trusted = prefix("10.0.0.0/8");
	struct weir_text t = {(const char *)data, size};

	for (int h = WEIR_CLIENT_X_FORWARDED_FOR; h < WEIR_CLIENT_HEADER_MAX; h++) {
		struct weir_client_options o = {.header = (enum weir_client_header)h,
						.trusted = &trusted,
						.n_trusted = 1,
						.nat64 = size & 1};

		check_appended(o.header, names[h], t, &o);
	}
	check_keys(t);
	return 0;
}
