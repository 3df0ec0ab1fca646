/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readers of `store:`: where request limits count. What is said about an address never holds its password. See value.h.
 */
#include <string.h>

#include "user/base/str.h"
#include "user/config/value.h"
#include "user/redis/redis.h"

#define MILLION 1000000ull

static int read_url(const struct weir_target *t)
{
	struct weir_conf_store *store = &((struct weir_conf *)t->base)->store;
	const char *text = weir_value_scalar(t, t->node);
	struct weir_redis_url url = {.n_seed = 0};
	struct weir_error e = {""};
	int r;

	if (!text)
		return -EINVAL;
	store->line = (int)t->node->start_mark.line + 1;
	store->shared = strcmp(text, "embedded") != 0;
	if (!store->shared)
		return weir_value_text(t, text);
	r = weir_redis_url_parse(text, &url, &e);
	if (r == -ENOMEM)
		return r;
	if (r == 0 && url.tls)
		r = weir_redis_tls_check(&e);
	if (r < 0) {
		weir_reader_error(t->r, t->node, "url: %s", e.text);
		weir_redis_url_done(&url);
		store->shared = false;
		return -EINVAL;
	}
	weir_redis_url_done(&url);
	return weir_value_text(t, text);
}

/* As Redis takes it: one word. */
static int read_user(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];

	if (!text)
		return -EINVAL;
	for (const char *c = text; *c; c++) {
		if ((unsigned char)*c > ' ' && *c != 127 && strlen(text) <= 128)
			continue;
		weir_reader_error(
			t->r, t->node,
			"user: \"%s\" is not the name of a user (one word, at most 128 bytes)",
			weir_value_shown(t->node, buf));
		return -EINVAL;
	}
	return weir_value_text(t, text);
}

/* It stands in rights (~weir:*) and before a hash tag, so that neither patterns nor braces may be in it. */
static int read_prefix(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];

	if (!text)
		return -EINVAL;
	if (!*text || strlen(text) > WEIR_REDIS_PREFIX_MAX ||
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-") !=
		    strlen(text)) {
		weir_reader_error(t->r, t->node,
				  "prefix: \"%s\" cannot begin keys (letters, digits and _ . : / "
				  "-, 1 to %d of them)",
				  weir_value_shown(t->node, buf), WEIR_REDIS_PREFIX_MAX);
		return -EINVAL;
	}
	return weir_value_text(t, text);
}

/* "0.25", "12.5%", "1/4" in parts of a million. */
static int parse_share(const char *text, __u64 *ret)
{
	__u64 value = 0, unit = MILLION, n;
	bool digits = false;

	if (strncmp(text, "1/", 2) == 0) {
		if (weir_str_u64(text + 2, MILLION, &n) < 0 || !n)
			return -EINVAL;
		*ret = MILLION / n;
		return 0;
	}
	for (; *text >= '0' && *text <= '9' && value < 1000 * MILLION; text++, digits = true)
		value = value * 10 + (__u64)(*text - '0') * MILLION;
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++, digits = true)
			value += (__u64)(*text - '0') *
				 (unit /= 10); /* from a millionth on nothing */
	if (!digits || (*text && strcmp(text, "%") != 0))
		return -EINVAL;
	*ret = *text ? value / 100 : value;
	return *ret && *ret <= MILLION ? 0 : -ERANGE;
}

static int read_share(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];
	__u64 parts = 0;

	if (!text)
		return -EINVAL;
	if (strcmp(text, "auto") != 0 && parse_share(text, &parts) < 0) {
		weir_reader_error(t->r, t->node,
				  "%s: \"%s\" is no share of a limit (auto, or for example 0.25 or "
				  "25%%, up to 1)",
				  weir_value_key(t), weir_value_shown(t->node, buf));
		return -EINVAL;
	}
	weir_value_store(t, parts);
	return 0;
}

int weir_value_of_store(const struct weir_target *t)
{
	switch (t->s->kind) {
	case WEIR_KIND_STORE_URL:
		return read_url(t);
	case WEIR_KIND_STORE_USER:
		return read_user(t);
	case WEIR_KIND_STORE_PREFIX:
		return read_prefix(t);
	case WEIR_KIND_SHARE:
		return read_share(t);
	default:
		return -EINVAL;
	}
}
