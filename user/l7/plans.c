/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plans_file; see plans.h. A hash table over hashes: nobody can choose where a key lies. */
#include "user/l7/plans.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 4096

_Static_assert(WEIR_PLANS_HASH_BYTES == crypto_hash_sha256_BYTES, "SHA-256");

struct entry {
	unsigned char hash[WEIR_PLANS_HASH_BYTES];
	__u8 plan; /* 1 more than its position; 0: free */
};

struct weir_plans {
	size_t n, room; /* room: a power of two, at least twice n */
	struct entry *entry;
};

void weir_plans_free(struct weir_plans *p)
{
	if (!p)
		return;
	free(p->entry);
	free(p);
}

/* Where @hash is, or where it would be. */
static struct entry *place(const struct weir_plans *p, const unsigned char *hash)
{
	__u64 i;

	memcpy(&i, hash, sizeof(i));
	for (i &= p->room - 1; p->entry[i].plan; i = (i + 1) & (p->room - 1))
		if (memcmp(p->entry[i].hash, hash, WEIR_PLANS_HASH_BYTES) == 0)
			break;
	return &p->entry[i];
}

static int grow(struct weir_plans *p)
{
	struct weir_plans bigger = {.n = p->n, .room = p->room ? 2 * p->room : 64};

	if (2 * (p->n + 1) <= p->room)
		return 0;
	bigger.entry = calloc(bigger.room, sizeof(bigger.entry[0]));
	if (!bigger.entry)
		return -ENOMEM;
	for (size_t i = 0; i < p->room; i++)
		if (p->entry[i].plan)
			*place(&bigger, p->entry[i].hash) = p->entry[i];
	free(p->entry);
	*p = bigger;
	return 0;
}

static bool parse_hash(struct weir_text t, unsigned char *ret)
{
	if (t.n != 2 * WEIR_PLANS_HASH_BYTES)
		return false;
	for (size_t i = 0; i < WEIR_PLANS_HASH_BYTES; i++) {
		int high = weir_hex_digit(t.p[2 * i]), low = weir_hex_digit(t.p[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

/* One line without its end; -EINVAL with a sentence that does not repeat it: it may be a key. */
static int add_line(struct weir_plans *p, struct weir_text line, const char (*plan)[WEIR_NAME_MAX],
		    size_t n_plan, struct weir_error *e)
{
	const char *comment = line.n ? memchr(line.p, '#', line.n) : NULL;
	unsigned char hash[WEIR_PLANS_HASH_BYTES];
	struct entry *to;
	size_t i = 0;
	int r;

	if (comment)
		line.n = (size_t)(comment - line.p);
	line = weir_text_trim(line);
	if (!line.n)
		return 0;
	while (i < line.n && line.p[i] != ' ' && line.p[i] != '\t')
		i++;
	if (!parse_hash((struct weir_text){line.p, i}, hash))
		return weir_error_set(
			e, -EINVAL,
			"this is no SHA-256 of an API key (64 hexadecimal digits, blanks, a plan)");
	line = weir_text_trim((struct weir_text){line.p + i, line.n - i});
	for (i = 0; i < n_plan; i++)
		if (weir_text_equal(line, weir_text_of(plan[i])))
			break;
	if (i == n_plan)
		return weir_error_set(e, -EINVAL,
				      "no plan has the name after the hash (plans: names them)");
	if (p->n == WEIR_PLANS_KEYS_MAX)
		return weir_error_set(e, -E2BIG, "too many keys (at most %d)", WEIR_PLANS_KEYS_MAX);
	r = grow(p);
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	to = place(p, hash);
	if (to->plan && to->plan != i + 1)
		return weir_error_set(e, -EINVAL, "this key has another plan further up");
	p->n += !to->plan;
	memcpy(to->hash, hash, sizeof(hash));
	to->plan = (__u8)(i + 1);
	return 0;
}

int weir_plans_load(const char *path, const char (*plan)[WEIR_NAME_MAX], size_t n_plan,
		    struct weir_plans **ret, struct weir_error *e)
{
	_cleanup_(weir_plans_freep) struct weir_plans *p = calloc(1, sizeof(*p));
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[LINE_MAX_BYTES];
	size_t number = 0, n;
	int r;

	if (!p)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (!f)
		return weir_error_set(e, -errno, "cannot read plans_file %s: %s", path,
				      strerror(errno));
	r = grow(p);
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	while (fgets(line, sizeof(line), f)) {
		number++;
		n = strlen(line);
		if (n == sizeof(line) - 1 && line[n - 1] != '\n')
			return weir_error_set(e, -EINVAL,
					      "%s:%zu: longer than %d bytes, or not text", path,
					      number, LINE_MAX_BYTES - 2);
		while (n && (line[n - 1] == '\n' || line[n - 1] == '\r'))
			n--;
		r = add_line(p, (struct weir_text){line, n}, plan, n_plan, e);
		if (r < 0)
			return weir_error_prefix(e, r, "%s:%zu", path, number);
	}
	if (ferror(f))
		return weir_error_set(e, -EIO, "cannot read plans_file %s", path);
	*ret = TAKE_PTR(p);
	return 0;
}

int weir_plans_find(const struct weir_plans *p, struct weir_text api_key, unsigned *ret_plan,
		    unsigned char ret_hash[static WEIR_PLANS_HASH_BYTES])
{
	const struct entry *at;

	if (crypto_hash_sha256(ret_hash, (const unsigned char *)api_key.p, api_key.n) < 0)
		return -EIO;
	at = place(p, ret_hash);
	if (!at->plan)
		return -ENOENT;
	*ret_plan = at->plan - 1u;
	return 0;
}
