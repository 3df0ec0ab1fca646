/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Statements about one prefix as text and as entries, and what several mean together. Pure; lists.lua does the same in
 * the server. Called by replica.c and fleet.c.
 */
#include <stdint.h>
#include <string.h>

#include "user/base/str.h"
#include "user/fleet/fleet_int.h"

#define VERSION_MAX (1ull << 53) /* whole in Lua */
#define TIME_MAX    (1ull << 50)
#define ENDS_STRLEN 300 /* of eight */

const char *weir_fleet_key_format(const struct weir_fleet_key *key,
				  char buf[static WEIR_FLEET_KEY_STRLEN])
{
	char prefix[WEIR_PREFIX_STRLEN];

	(void)snprintf(buf, WEIR_FLEET_KEY_STRLEN, "%s %s",
		       key->list == WEIR_LIST_ALLOW ? "allow" : "block",
		       weir_prefix_format(&key->prefix, prefix)); /* it fits */
	return buf;
}

int weir_fleet_key_parse(const char *text, size_t n, struct weir_fleet_key *ret)
{
	struct weir_fleet_key key = {.list = WEIR_LIST_BLOCK};

	if (n < 7 || n >= WEIR_FLEET_KEY_STRLEN)
		return -EINVAL;
	if (!memcmp(text, "allow ", 6))
		key.list = WEIR_LIST_ALLOW;
	else if (memcmp(text, "block ", 6) != 0)
		return -EINVAL;
	if (weir_prefix_parse(text + 6, n - 6, false, &key.prefix) < 0)
		return -EINVAL;
	*ret = key;
	return 0;
}

/* A field up to @end, which becomes a NUL; NULL if it is not there, or longer than @max. */
static char *field(char **at, char end, size_t max)
{
	char *begin = *at, *stop = strchr(begin, end);

	if (!stop || (size_t)(stop - begin) >= max || memchr(begin, '\n', (size_t)(stop - begin)))
		return NULL;
	*stop = '\0';
	*at = stop + 1;
	return begin;
}

static bool number(char **at, __u64 max, __u64 *ret)
{
	const char *text = field(at, '\t', 24);

	return text && weir_str_u64(text, max, ret) == 0;
}

/* "END", or "END,SAID:END,…,SAID:END": the last one counts. */
static bool last_end(char *ends, __u64 *ret)
{
	char *comma = ends ? strrchr(ends, ',') : NULL;
	char *last = comma ? strchr(comma, ':') : NULL;

	if (!ends || (comma && !last))
		return false;
	return weir_str_u64(last ? last + 1 : ends, TIME_MAX, ret) == 0;
}

static bool read_line(char *line, struct weir_fleet_entry *ret)
{
	__u64 flags = 0;

	if (!number(&line, VERSION_MAX, &ret->said) || !number(&line, VERSION_MAX, &ret->gone) ||
	    !last_end(field(&line, '\t', ENDS_STRLEN), &ret->end_ms) ||
	    !number(&line, TIME_MAX, &ret->created_ms) || !number(&line, UINT32_MAX, &flags))
		return false;
	ret->flags = (__u32)flags;
	ret->origin = field(&line, '\t', WEIR_FLEET_NAME_MAX);
	ret->host = ret->origin ? field(&line, '\t', WEIR_FLEET_NAME_MAX) : NULL;
	ret->who = ret->host ? field(&line, '\t', WEIR_FLEET_NAME_MAX) : NULL;
	ret->reason = line;
	return ret->who && strlen(line) < WEIR_FLEET_REASON_MAX && !strchr(line, '\t') &&
	       ret->origin[0];
}

void weir_fleet_lines_read(const char *text, size_t n, struct weir_fleet_lines *ret)
{
	char *at = ret->text, *stop;

	ret->n = 0;
	ret->gone = ret->said = 0;
	if (!text || n >= sizeof(ret->text))
		return;
	memcpy(ret->text, text, n);
	ret->text[n] = '\0';
	for (; *at && ret->n < WEIR_FLEET_ORIGINS_MAX; at = stop + 1) {
		struct weir_fleet_entry *e = &ret->entry[ret->n];

		stop = strchr(at, '\n');
		if (!stop)
			return;
		*stop = '\0';
		if (!read_line(at, e))
			continue;
		ret->n += !e->gone || e->said > e->gone;
		ret->gone = e->gone > ret->gone ? e->gone : ret->gone;
		ret->said = e->said > ret->said ? e->said : ret->said;
	}
}

void weir_fleet_body_read(const char *body, size_t n, struct weir_fleet_lines *ret)
{
	const char *stop = body ? memchr(body, '\n', n < 24 ? n : 24) : NULL;
	size_t len = stop ? (size_t)(stop - body) : 0;
	char text[24];
	__u64 gone;

	ret->n = 0;
	ret->gone = ret->said = 0;
	(void)snprintf(text, sizeof(text), "%.*s", (int)len, body ? body : "");
	if (weir_str_u64(text, VERSION_MAX, &gone) < 0)
		return;
	weir_fleet_lines_read(stop + 1, n - len - 1, ret);
	ret->gone = gone > ret->gone ? gone : ret->gone;
}

size_t weir_fleet_lines_write(const struct weir_fleet_entry *entry, size_t n, char *buf,
			      size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		const struct weir_fleet_entry *e = &entry[i];
		int len = snprintf(buf + at, size - at,
				   "%llu\t%llu\t%llu\t%llu\t%u\t%s\t%s\t%s\t%s\n",
				   (unsigned long long)e->said, (unsigned long long)e->gone,
				   (unsigned long long)e->end_ms, (unsigned long long)e->created_ms,
				   e->flags, e->origin, e->host, e->who, e->reason);

		if (len < 0 || (size_t)len >= size - at)
			return 0;
		at += (size_t)len;
	}
	return at;
}

static bool ends_before(const struct weir_fleet_entry *a, const struct weir_fleet_entry *b)
{
	return a->end_ms && (!b->end_ms || a->end_ms < b->end_ms);
}

static void extend(struct weir_fleet_entry *old, const struct weir_fleet_entry *add)
{
	if (ends_before(old, add))
		old->end_ms = add->end_ms;
	if (add->created_ms < old->created_ms)
		old->created_ms = add->created_ms;
	if (add->flags > old->flags)
		old->flags = add->flags;
	if (add->reason[0] || !old->reason[0]) {
		old->host = add->host;
		old->who = add->who;
		old->reason = add->reason;
	}
}

size_t weir_fleet_merge(struct weir_fleet_entry *entry, size_t n,
			const struct weir_fleet_entry *add)
{
	size_t first = 0;

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(entry[i].origin, add->origin)) {
			extend(&entry[i], add);
			return n;
		}
		if (ends_before(&entry[i], &entry[first]))
			first = i;
	}
	if (n == WEIR_FLEET_ORIGINS_MAX) {
		memmove(&entry[first], &entry[first + 1], (n - first - 1) * sizeof(*entry));
		n--;
	}
	entry[n] = *add;
	return n + 1;
}

size_t weir_fleet_drop_over(struct weir_fleet_entry *entry, size_t n, __u64 now_ms)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		if (!entry[i].end_ms || entry[i].end_ms > now_ms)
			entry[left++] = entry[i];
	return left;
}

bool weir_fleet_has_origin(const char *name, const char *origin, bool exactly)
{
	size_t n = origin ? strlen(origin) : 0;

	return !n || (!strncmp(name, origin, n) && (!name[n] || (!exactly && name[n] == ':')));
}

size_t weir_fleet_drop_origin(struct weir_fleet_entry *entry, size_t n, const char *origin,
			      bool exactly)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		if (!weir_fleet_has_origin(entry[i].origin, origin, exactly))
			entry[left++] = entry[i];
	return left;
}

void weir_fleet_clean(const char *from, char *to, size_t size)
{
	(void)weir_str_copy(to, size, from ? from : ""); /* cut if long */
	for (; *to; to++)
		if ((unsigned char)*to < ' ' || *to == 127)
			*to = ' ';
}

int weir_fleet_value_read(const char *value, size_t n, __u64 *ret_version, const char **ret_body,
			  size_t *ret_n)
{
	const char *blank = memchr(value, ' ', n < 24 ? n : 24);
	char text[24];

	if (!blank)
		return -EPROTO;
	(void)snprintf(text, sizeof(text), "%.*s", (int)(blank - value), value);
	if (weir_str_u64(text, VERSION_MAX, ret_version) < 0)
		return -EPROTO;
	*ret_body = blank + 1;
	*ret_n = n - (size_t)(blank + 1 - value);
	return 0;
}

__u64 weir_fleet_version(const char *stream_id, size_t n)
{
	const char *dash = memchr(stream_id, '-', n);
	char ms[24], number[24];
	__u64 a, b;

	if (!dash || n >= sizeof(ms))
		return 0;
	(void)snprintf(ms, sizeof(ms), "%.*s", (int)(dash - stream_id), stream_id);
	(void)snprintf(number, sizeof(number), "%.*s", (int)(n - (size_t)(dash + 1 - stream_id)),
		       dash + 1);
	if (weir_str_u64(ms, (1ull << 41) - 1, &a) < 0 || weir_str_u64(number, 4095, &b) < 0)
		return 0;
	return a << 12 | b;
}
