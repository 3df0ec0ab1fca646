/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Normal forms of methods and hosts, and a query's parameters; see path.h. */
#include <errno.h>
#include <string.h>

#include "user/l7/path.h"

int weir_method_normal(struct weir_text method, char ret[static WEIR_METHOD_MAX + 1])
{
	if (!weir_text_is_token(method) || method.n > WEIR_METHOD_MAX)
		return -EBADMSG;
	if (weir_text_equal_fold(method, weir_text_of("HEAD")))
		method = weir_text_of("GET");
	for (size_t i = 0; i < method.n; i++) {
		char c = method.p[i];

		ret[i] = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
	}
	ret[method.n] = '\0';
	return 0;
}

int weir_host_normal(struct weir_text host, char ret[static WEIR_HOST_MAX + 1])
{
	size_t digits = 0;

	for (size_t i = 0; i < host.n; i++) {
		unsigned char c = (unsigned char)host.p[i];

		if (c <= 0x20 || c >= 0x7f || strchr("/\\?#@,\"", c))
			return -EBADMSG;
	}
	while (digits < host.n && host.p[host.n - 1 - digits] >= '0' &&
	       host.p[host.n - 1 - digits] <= '9')
		digits++;
	/* a port is all that follows the last colon; inside brackets a bracket follows the address */
	if (digits < host.n && host.p[host.n - 1 - digits] == ':')
		host.n -= digits + 1;
	if (host.n && host.p[host.n - 1] == '.')
		host.n--;
	if (host.n == 0 || host.n > WEIR_HOST_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < host.n; i++)
		ret[i] = weir_ascii_lower(host.p[i]);
	ret[host.n] = '\0';
	return 0;
}

/* One byte of a query's name or value at *@i, which moves on. */
static char query_byte(struct weir_text t, size_t *i)
{
	char c = t.p[(*i)++];

	if (c == '+')
		return ' ';
	if (c == '%' && t.n - *i >= 2 && weir_hex_digit(t.p[*i]) >= 0 &&
	    weir_hex_digit(t.p[*i + 1]) >= 0) {
		c = (char)(weir_hex_digit(t.p[*i]) << 4 | weir_hex_digit(t.p[*i + 1]));
		*i += 2;
	}
	return c;
}

static bool query_name_is(struct weir_text raw, struct weir_text name)
{
	size_t i = 0, n = 0;

	while (i < raw.n) {
		char c = query_byte(raw, &i);

		if (n == name.n || name.p[n++] != c)
			return false;
	}
	return n == name.n;
}

int weir_query_find(struct weir_text query, struct weir_text name, char *buf, size_t size,
		    struct weir_text *ret)
{
	while (query.n) {
		const char *end = memchr(query.p, '&', query.n);
		size_t n = end ? (size_t)(end - query.p) : query.n;
		const char *equal = n ? memchr(query.p, '=', n) : NULL;
		size_t named = equal ? (size_t)(equal - query.p) : n;

		if (n && query_name_is((struct weir_text){query.p, named}, name)) {
			struct weir_text value = {query.p + named, n - named};
			size_t i = equal ? 1 : 0, written = 0;

			while (i < value.n && written < size)
				buf[written++] = query_byte(value, &i);
			*ret = (struct weir_text){buf, written};
			return 0;
		}
		n += end ? 1 : 0;
		query.p += n;
		query.n -= n;
	}
	return -ENOENT;
}
