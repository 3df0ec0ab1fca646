/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers with units, to and from text; see str.h. */
#include "user/base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "user/base/cleanup.h"

#define NS_PER_S 1000000000ull

struct unit {
	const char *name;
	__u64 factor;
};

static const struct unit durations[] = {
	{"ns", 1},
	{"us", 1000},
	{"ms", 1000000},
	{"s", NS_PER_S},
	{"sec", NS_PER_S},
	{"second", NS_PER_S},
	{"m", 60 * NS_PER_S},
	{"min", 60 * NS_PER_S},
	{"minute", 60 * NS_PER_S},
	{"h", 3600 * NS_PER_S},
	{"hour", 3600 * NS_PER_S},
	{"d", 86400 * NS_PER_S},
	{"day", 86400 * NS_PER_S},
};

static const struct unit multiples[] = {
	{"k", 1000},
	{"K", 1000},
	{"M", 1000000},
	{"G", 1000000000ull},
	{"T", 1000000000000ull},
	{"Ki", 1ull << 10},
	{"ki", 1ull << 10},
	{"Mi", 1ull << 20},
	{"Gi", 1ull << 30},
	{"Ti", 1ull << 40},
};

/* A decimal number as mantissa / 10^decimals, and where it ends. */
struct decimal {
	__u64 mantissa;
	__u64 scale; /* 10^decimals */
	bool fraction;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int read_decimal(const char *s, struct decimal *ret, const char **ret_end)
{
	struct decimal d = {.scale = 1};

	if (!is_digit(*s))
		return -EINVAL;
	for (;; s++) {
		if (*s == '.' && !d.fraction) {
			d.fraction = true;
			if (!is_digit(s[1]))
				return -EINVAL;
			continue;
		}
		if (!is_digit(*s))
			break;
		if (d.fraction && d.scale >= 1000000000ull)
			return -ERANGE; /* nine decimals are enough for a nanosecond */
		if (__builtin_mul_overflow(d.mantissa, 10ull, &d.mantissa) ||
		    __builtin_add_overflow(d.mantissa, (__u64)(*s - '0'), &d.mantissa))
			return -ERANGE;
		if (d.fraction)
			d.scale *= 10;
	}
	*ret = d;
	*ret_end = s;
	return 0;
}

/* @d * @num / @den, which must come out whole. */
static int scale(const struct decimal *d, __u64 num, __u64 den, __u64 *ret)
{
	unsigned __int128 v = (unsigned __int128)d->mantissa * num;
	unsigned __int128 by = (unsigned __int128)d->scale * den;

	if (v % by)
		return v < by ? -ERANGE : -EINVAL;
	v /= by;
	if (v > ~0ull)
		return -ERANGE;
	*ret = (__u64)v;
	return 0;
}

static const struct unit *find_unit(const struct unit *u, size_t n, const char *s, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(u[i].name) == len && memcmp(u[i].name, s, len) == 0)
			return &u[i];
	return NULL;
}

static const char *skip_space(const char *s)
{
	while (*s == ' ')
		s++;
	return s;
}

int weir_str_u64(const char *s, __u64 max, __u64 *ret)
{
	struct decimal d;
	const char *end;
	int r = read_decimal(s, &d, &end);

	if (r < 0)
		return r;
	if (*end || d.fraction)
		return -EINVAL;
	if (d.mantissa > max)
		return -ERANGE;
	*ret = d.mantissa;
	return 0;
}

int weir_str_duration_ns(const char *s, __u64 *ret_ns)
{
	const struct unit *u;
	struct decimal d;
	const char *end;
	int r = read_decimal(s, &d, &end);

	if (r < 0)
		return r;
	end = skip_space(end);
	if (!*end && d.mantissa == 0) {
		*ret_ns = 0;
		return 0;
	}
	u = find_unit(durations, ARRAY_LEN(durations), end, strlen(end));
	return u ? scale(&d, u->factor, 1, ret_ns) : -EINVAL;
}

/* "200", "4 MB", "1 Mbit", @n characters: what it means in packets or bytes, with the divisor left to apply (8 for
 * bits), so that a rate can be exact.
 */
static int read_amount(const char *s, size_t n, struct decimal *ret, __u64 *ret_num, __u64 *ret_den,
		       bool *ret_bytes)
{
	const char *end, *stop = s + n;
	const struct unit *u;
	__u64 num = 1, den = 1;
	bool bytes = false;
	size_t len;
	int r = read_decimal(s, ret, &end);

	if (r < 0)
		return r;
	while (end < stop && *end == ' ')
		end++;
	if (end > stop)
		return -EINVAL;
	len = (size_t)(stop - end);
	if (len >= 4 && memcmp(stop - 4, "bits", 4) == 0)
		len--;
	if (len >= 3 && memcmp(end + len - 3, "bit", 3) == 0) {
		bytes = true;
		den = 8;
		len -= 3;
	} else if (len >= 5 && memcmp(stop - 5, "bytes", 5) == 0) {
		bytes = true;
		len -= 5;
	} else if (len >= 1 && end[len - 1] == 'B') {
		bytes = true;
		len--;
	}
	while (len && end[len - 1] == ' ')
		len--;
	if (len) {
		u = find_unit(multiples, ARRAY_LEN(multiples), end, len);
		if (!u)
			return -EINVAL;
		num = u->factor;
	}
	*ret_num = num;
	*ret_den = den;
	*ret_bytes = bytes;
	return 0;
}

int weir_str_amount(const char *s, __u64 *ret, bool *ret_bytes)
{
	struct decimal d;
	__u64 num, den;
	bool bytes;
	int r = read_amount(s, strlen(s), &d, &num, &den, &bytes);

	if (r < 0)
		return r;
	r = scale(&d, num, den, ret);
	if (r < 0)
		return r;
	*ret_bytes = bytes;
	return 0;
}

int weir_str_size_bytes(const char *s, __u64 *ret_bytes)
{
	size_t n = strlen(s);
	bool bytes;

	if (n >= 3 && strstr(s, "bit"))
		return -EINVAL;
	return weir_str_amount(s, ret_bytes, &bytes);
}

static unsigned __int128 common_divisor(unsigned __int128 a, unsigned __int128 b)
{
	while (b) {
		unsigned __int128 t = a % b;

		a = b;
		b = t;
	}
	return a;
}

int weir_str_rate(const char *s, struct weir_rate *ret)
{
	const char *slash = strrchr(s, '/'), *end, *unit;
	struct weir_rate rate = {.amount = 0};
	const struct unit *u;
	struct decimal d, per = {.mantissa = 1, .scale = 1};
	__u64 num, den;
	size_t n;
	int r;

	if (!slash || slash == s)
		return -EINVAL;
	for (n = (size_t)(slash - s); n && s[n - 1] == ' ';)
		n--;
	r = read_amount(s, n, &d, &num, &den, &rate.bytes);
	if (r < 0)
		return r;
	unit = skip_space(slash + 1);
	if (is_digit(*unit)) {
		r = read_decimal(unit, &per, &end);
		if (r < 0)
			return r;
		unit = skip_space(end);
	}
	u = find_unit(durations, ARRAY_LEN(durations), unit, strlen(unit));
	if (!u)
		return -EINVAL;
	r = scale(&per, u->factor, 1, &rate.per_ns);
	if (r < 0)
		return r;
	if (!rate.per_ns)
		return -ERANGE; /* in no time */
	/* "0.5/s" is 1 every 2 s: the fraction goes to the period, so that nothing is lost. */
	r = scale(&d, num, den, &rate.amount);
	if (r < 0) {
		unsigned __int128 a = (unsigned __int128)d.mantissa * num;
		unsigned __int128 by = (unsigned __int128)d.scale * den;
		unsigned __int128 g = common_divisor(a, by);

		if (a / g > ~0ull || by / g > ~0ull / rate.per_ns)
			return -ERANGE;
		rate.amount = (__u64)(a / g);
		rate.per_ns *= (__u64)(by / g);
	}
	*ret = rate;
	return 0;
}

int weir_str_bool(const char *s, bool *ret)
{
	static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no",
									       "off"};

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (strcasecmp(s, yes[i]) == 0 || strcasecmp(s, no[i]) == 0) {
			*ret = strcasecmp(s, yes[i]) == 0;
			return 0;
		}
	}
	return -EINVAL;
}

/* --- text ---- */

const char *weir_str_format_duration(__u64 ns, char buf[static WEIR_STR_MAX])
{
	static const struct unit units[] = {{"d", 86400 * NS_PER_S}, {"h", 3600 * NS_PER_S},
					    {"m", 60 * NS_PER_S},    {"s", NS_PER_S},
					    {"ms", 1000000},	     {"us", 1000}};

	for (size_t i = 0; ns && i < ARRAY_LEN(units); i++) {
		if (ns % units[i].factor)
			continue;
		(void)snprintf(buf, WEIR_STR_MAX, "%llu%s", ns / units[i].factor, units[i].name);
		return buf;
	}
	(void)snprintf(buf, WEIR_STR_MAX, ns ? "%lluns" : "%llus", ns); /* it fits */
	return buf;
}

const char *weir_str_format_size(__u64 bytes, char buf[static WEIR_STR_MAX])
{
	static const struct unit units[] = {{"TiB", 1ull << 40}, {"TB", 1000000000000ull},
					    {"GiB", 1ull << 30}, {"GB", 1000000000},
					    {"MiB", 1ull << 20}, {"MB", 1000000},
					    {"KiB", 1ull << 10}, {"kB", 1000}};

	for (size_t i = 0; bytes && i < ARRAY_LEN(units); i++) {
		if (bytes % units[i].factor)
			continue;
		(void)snprintf(buf, WEIR_STR_MAX, "%llu %s", bytes / units[i].factor,
			       units[i].name);
		return buf;
	}
	(void)snprintf(buf, WEIR_STR_MAX, "%llu bytes", bytes); /* it fits */
	return buf;
}

const char *weir_str_format_amount(__u64 n, bool bytes, char buf[static WEIR_STR_MAX])
{
	if (bytes)
		return weir_str_format_size(n, buf);
	(void)snprintf(buf, WEIR_STR_MAX, n == 1 ? "%llu packet" : "%llu packets", n); /* it fits */
	return buf;
}

const char *weir_str_format_rate(const struct weir_rate *r, char buf[static WEIR_STR_MAX])
{
	static const struct unit bits[] = {{"Gbit", 1000000000}, {"Mbit", 1000000}, {"kbit", 1000}};
	char per[WEIR_STR_MAX];
	const char *unit;

	weir_str_format_duration(r->per_ns, per);
	/* "1s" is "s" here */
	unit = per[0] == '1' && !is_digit(per[1]) ? per + 1 : per;
	if (r->bytes && r->amount < ~0ull / 8) {
		__u64 b = r->amount * 8;

		for (size_t i = 0; b && i < ARRAY_LEN(bits); i++) {
			if (b % bits[i].factor)
				continue;
			(void)snprintf(buf, WEIR_STR_MAX, "%llu %s/%.16s", b / bits[i].factor,
				       bits[i].name, unit);
			return buf;
		}
		(void)snprintf(buf, WEIR_STR_MAX, "%llu bit/%.16s", b, unit);
		return buf;
	}
	(void)snprintf(buf, WEIR_STR_MAX, "%llu%s/%.16s", r->amount, r->bytes ? " B" : "", unit);
	return buf;
}

const char *weir_str_format_count(__u64 n, char buf[static WEIR_STR_MAX])
{
	static const char units[] = "kMGTPE";
	double v = (double)n;
	int u = -1;

	if (n < 10000) {
		(void)snprintf(buf, WEIR_STR_MAX, "%llu", n);
		return buf;
	}
	while (v >= 999.5) {
		v /= 1000;
		u++;
	}
	(void)snprintf(buf, WEIR_STR_MAX,
		       v < 9.995   ? "%.2f%c"
		       : v < 99.95 ? "%.1f%c"
				   : "%.0f%c",
		       v, units[u]); /* it fits */
	return buf;
}

bool weir_str_copy(char *to, size_t size, const char *from)
{
	size_t n = strnlen(from, size);
	bool fits = n < size;

	if (!fits)
		n = size - 1;
	memcpy(to, from, n);
	to[n] = '\0';
	return fits;
}

/* --- did you mean ---- */

#define WORD_MAX 40

/* Edits (insert, delete, replace, swap of neighbours) from @a to @b: optimal string alignment. */
static unsigned edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned rows[3][WORD_MAX + 1];
	unsigned *two = rows[0], *last = rows[1], *now = rows[2], *t;

	for (size_t j = 0; j <= nb; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		now[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    two[j - 2] + 1 < best)
				best = two[j - 2] + 1;
			now[j] = best;
		}
		t = two;
		two = last;
		last = now;
		now = t;
	}
	return last[nb];
}

const char *weir_str_closest(const char *word, const char *const *candidates, size_t n)
{
	char a[WORD_MAX], b[WORD_MAX];
	const char *best = NULL;
	unsigned least = ~0u;
	size_t na = strnlen(word, WORD_MAX);

	if (na >= WORD_MAX)
		return NULL;
	for (size_t i = 0; i < na; i++)
		a[i] = (char)(word[i] == '_' ? '-'
					     : word[i] | ((word[i] >= 'A' && word[i] <= 'Z') << 5));
	for (size_t k = 0; k < n; k++) {
		size_t nb = candidates[k] ? strnlen(candidates[k], WORD_MAX) : WORD_MAX;
		size_t longest = na > nb ? na : nb;
		unsigned d;

		if (nb >= WORD_MAX)
			continue;
		for (size_t i = 0; i < nb; i++)
			b[i] = (char)(candidates[k][i] == '_' ? '-' : candidates[k][i]);
		d = edit_distance(a, na, b, nb);
		/* a third of the word may be wrong; a word that begins another is meant too */
		if (na >= 3 && nb > na && memcmp(a, b, na) == 0 && d > 1)
			d = 1 + (unsigned)(longest / 8);
		if (d < least && d <= (longest + 1) / 3) {
			least = d;
			best = candidates[k];
		}
	}
	return best;
}

size_t weir_str_printable(const char *text, size_t n)
{
	static const __u32 least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *t = (const unsigned char *)text;
	size_t len = !n ? 0 : t[0] < 0x80 ? 1 : t[0] >= 0xf0 ? 4 : t[0] >= 0xe0 ? 3 : 2;
	__u32 c;

	if (!len || len > n || (t[0] & 0xc0) == 0x80 || t[0] > 0xf4)
		return 0;
	c = len == 1 ? t[0] : t[0] & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((t[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (t[i] & 0x3f);
	}
	if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c < least[len] || c > 0x10ffff ||
	    (c >= 0xd800 && c < 0xe000))
		return 0;
	return len;
}
