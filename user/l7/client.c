/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client's address behind trusted proxies; see client.h. */
#include "user/l7/client.h"

#include <errno.h>
#include <string.h>

static const __u8 nat64_prefix[12] = {0x00, 0x64, 0xff, 0x9b}; /* RFC 6052: 64:ff9b::/96 */

static bool is_port(struct weir_text t)
{
	unsigned v = 0;

	if (t.n < 1 || t.n > 5)
		return false;
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] < '0' || t.p[i] > '9')
			return false;
		v = v * 10 + (unsigned)(t.p[i] - '0');
	}
	return v <= 65535;
}

/* Letters, digits and ._- only: the names of interfaces and RFC 7239's obfuscated ports. */
static bool is_name(struct weir_text t)
{
	for (size_t i = 0; i < t.n; i++) {
		char c = weir_ascii_lower(t.p[i]);

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' &&
		    c != '-')
			return false;
	}
	return t.n > 0;
}

/* An address of one family, with a zone if it is IPv6; nothing else. */
static int parse_bare(struct weir_text t, bool must_be_ipv6, struct weir_prefix *ret)
{
	const char *zone = t.n ? memchr(t.p, '%', t.n) : NULL;

	if (t.n == 0 || memchr(t.p, '/', t.n))
		return -EINVAL;
	if (zone) {
		struct weir_text name = {zone + 1, t.n - (size_t)(zone - t.p) - 1};

		if (!is_name(name))
			return -EINVAL;
		t.n = (size_t)(zone - t.p);
	}
	if ((zone || must_be_ipv6) && !memchr(t.p, ':', t.n))
		return -EINVAL;
	return weir_prefix_parse(t.p, t.n, false, ret) < 0 ? -EINVAL : 0;
}

static int parse_node(struct weir_text t, bool obfuscated_port, struct weir_prefix *ret)
{
	struct weir_text port = {.n = 0};
	bool bracket = t.n && t.p[0] == '[', with_port = false;
	const char *end;

	if (bracket) {
		end = memchr(t.p, ']', t.n);
		if (!end)
			return -EINVAL;
		port = (struct weir_text){end + 1, t.n - (size_t)(end - t.p) - 1};
		t = (struct weir_text){t.p + 1, (size_t)(end - t.p) - 1};
		if (port.n && *port.p != ':')
			return -EINVAL;
		with_port = port.n > 0;
	} else if (t.n && memchr(t.p, '.', t.n)) {
		/* one colon in something dotted: IPv4 and its port */
		end = memchr(t.p, ':', t.n);
		if (end && end == memrchr(t.p, ':', t.n)) {
			port = (struct weir_text){end, t.n - (size_t)(end - t.p)};
			t.n = (size_t)(end - t.p);
			with_port = true;
		}
	}
	if (with_port) {
		port.p++;
		port.n--;
		if (!is_port(port) &&
		    !(obfuscated_port && port.n > 1 && *port.p == '_' && is_name(port)))
			return -EINVAL;
	}
	return parse_bare(t, bracket, ret);
}

int weir_client_parse(struct weir_text text, struct weir_prefix *ret)
{
	return parse_node(text, false, ret);
}

/* Goes through a header's entries from the right. */
struct walk {
	const struct weir_header_list *headers;
	struct weir_text name;
	const struct weir_header *line;
	struct weir_text rest; /* of the line: what is left of the entries seen */
	bool in_line;
};

/* Where the last element of @t begins, elements being separated by @separator outside of quotes. It is looked for from
 * the right: whatever a client wrote, an open quote too, then cannot swallow what a proxy put behind it. A quote is the
 * opening one if no backslash escapes it; one in front of the opening quote would be outside of a quoted string.
 */
static size_t last_start(struct weir_text t, char separator, bool quotes)
{
	bool quoted = false;
	size_t i = t.n;

	while (i > 0) {
		char c = t.p[i - 1];

		if (c == separator && !quoted)
			return i;
		if (c == '"' && quotes) {
			size_t slashes = 0;

			while (quoted && i - 1 > slashes && t.p[i - 2 - slashes] == '\\')
				slashes++;
			quoted = quoted ? slashes % 2 == 1 : true;
		}
		i--;
	}
	return 0;
}

static bool next_entry(struct walk *w, bool quotes, struct weir_text *ret)
{
	size_t start;

	if (!w->in_line) {
		w->line = weir_header_list_previous(w->headers, w->name, w->line);
		if (!w->line)
			return false;
		w->rest = w->line->value;
	}
	start = last_start(w->rest, ',', quotes);
	*ret = weir_text_trim((struct weir_text){w->rest.p + start, w->rest.n - start});
	w->in_line = start > 0;
	w->rest.n = start ? start - 1 : 0;
	return true;
}

#define NODE_MAX 128

/* A token or a quoted string as plain text; into @buf where it is quoted. */
static int unquote(struct weir_text t, char buf[static NODE_MAX], struct weir_text *ret)
{
	size_t n = 0;

	if (t.n == 0 || t.p[0] != '"') {
		*ret = t;
		return weir_text_is_token(t) ? 0 : -EINVAL;
	}
	if (t.n < 2 || t.p[t.n - 1] != '"')
		return -EINVAL;
	for (size_t i = 1; i < t.n - 1; i++) {
		if (t.p[i] == '"')
			return -EINVAL;
		if (t.p[i] == '\\' && ++i == t.n - 1)
			return -EINVAL; /* the closing quote is escaped */
		if (n == NODE_MAX)
			return -EINVAL;
		buf[n++] = t.p[i];
	}
	*ret = (struct weir_text){buf, n};
	return 0;
}

/* The for= of one element of Forwarded; all its pairs must be well formed and for= be there once. */
static int parse_forwarded(struct weir_text element, struct weir_prefix *ret)
{
	struct weir_prefix addr = {.len = 0};
	unsigned found = 0;

	while (true) {
		size_t start = last_start(element, ';', true);
		struct weir_text pair =
			weir_text_trim((struct weir_text){element.p + start, element.n - start});
		const char *equal = pair.n ? memchr(pair.p, '=', pair.n) : NULL;
		struct weir_text name, value, raw;
		char buf[NODE_MAX];

		if (pair.n) {
			if (!equal)
				return -EINVAL;
			name = (struct weir_text){pair.p, (size_t)(equal - pair.p)};
			raw = (struct weir_text){equal + 1, pair.n - name.n - 1};
			if (!weir_text_is_token(name))
				return -EINVAL;
			if (weir_text_equal_fold(name, weir_text_of("for"))) {
				if (unquote(raw, buf, &value) < 0 || found++ ||
				    parse_node(value, true, &addr) < 0)
					return -EINVAL;
			}
		}
		if (start == 0)
			break;
		element.n = start - 1;
	}
	if (!found)
		return -EINVAL;
	*ret = addr;
	return 0;
}

static bool trusted(const struct weir_client_options *o, const struct weir_prefix *addr)
{
	for (size_t i = 0; i < o->n_trusted; i++) {
		if (weir_prefix_contains(&o->trusted[i], addr))
			return true;
	}
	return false;
}

static struct weir_prefix canonical(const struct weir_prefix *addr)
{
	static const __u8 mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct weir_prefix a = *addr;

	if (a.family == 6 && memcmp(a.addr.ip, mapped, sizeof(mapped)) == 0) {
		memmove(a.addr.ip, a.addr.ip + 12, 4);
		memset(a.addr.ip + 4, 0, 12);
		a.family = 4;
	}
	a.len = a.family == 4 ? 32 : 128;
	return a;
}

static void from_nat64(struct weir_prefix *a)
{
	if (a->family != 6 || memcmp(a->addr.ip, nat64_prefix, sizeof(nat64_prefix)) != 0)
		return;
	memmove(a->addr.ip, a->addr.ip + 12, 4);
	memset(a->addr.ip + 4, 0, 12);
	a->family = 4;
	a->len = 32;
}

/* @c holds the peer, which is trusted. */
static void walk(const struct weir_client_options *o, struct walk *w, struct weir_client *c)
{
	bool quotes = o->header == WEIR_CLIENT_FORWARDED;
	struct weir_text entry;
	struct weir_prefix addr;

	while (next_entry(w, quotes, &entry)) {
		int r = quotes ? parse_forwarded(entry, &addr) : parse_node(entry, false, &addr);

		/* X-Real-IP is one address: a list is garbage */
		if (r < 0 || c->hops == WEIR_CLIENT_HOPS_MAX ||
		    (o->header == WEIR_CLIENT_X_REAL_IP && w->in_line)) {
			c->ended = true;
			return;
		}
		c->addr = addr;
		c->hops++;
		if (o->header == WEIR_CLIENT_X_REAL_IP || !trusted(o, &addr))
			return;
	}
}

int weir_client_find(const struct weir_client_options *options, const struct weir_prefix *peer,
		     const struct weir_header_list *headers, struct weir_client *ret)
{
	static const char *const names[WEIR_CLIENT_HEADER_MAX] = {
		[WEIR_CLIENT_X_FORWARDED_FOR] = "X-Forwarded-For",
		[WEIR_CLIENT_FORWARDED] = "Forwarded",
		[WEIR_CLIENT_X_REAL_IP] = "X-Real-IP",
	};
	struct weir_client c = {.hops = 0};
	struct walk w = {.headers = headers};

	if (peer)
		c.addr = canonical(peer);
	if (options->header != WEIR_CLIENT_NONE) {
		w.name = weir_text_of(names[options->header]);
		if (!peer || trusted(options, &c.addr))
			walk(options, &w, &c);
		else
			c.ignored = weir_header_list_next(headers, w.name, NULL) != NULL;
	}
	if (!peer && !c.hops)
		return -ENODATA;
	if (options->nat64)
		from_nat64(&c.addr);
	*ret = c;
	return 0;
}

struct weir_prefix weir_client_prefix(const struct weir_prefix *addr, __u8 ipv4_len, __u8 ipv6_len)
{
	struct weir_prefix p = *addr;

	p.len = p.family == 4 ? ipv4_len : ipv6_len;
	weir_addr_mask(&p.addr, p.family, p.len);
	return p;
}
