/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the lists of a fleet's hosts hold, for tests: in Redis, as each agent lists it, and as each kernel has it installed;
 * and whether these are the same. Included by t_fleet_chaos.c.
 */
#ifndef WEIR_TEST_FLEET_LISTS_H
#define WEIR_TEST_FLEET_LISTS_H

#include "netns/fleet_hosts.h"

#include <bpf/bpf.h>
#include <hiredis/hiredis.h>

#include "user/fleet/fleet_int.h"
#include "weir/maps.h"

#define ITEMS_MAX  8192
#define FOREVER_MS UINT64_MAX

/* A line of Redis. */
struct line {
	struct weir_fleet_key key;
	char prefix[WEIR_PREFIX_STRLEN];
	uint64_t end_ms; /* FOREVER_MS */
	char text[512];	 /* list, prefix, origin, host, who, reason */
	char origin[64], reason[WEIR_FLEET_REASON_MAX];
};
struct lines {
	struct line at[ITEMS_MAX];
	size_t n;
};

static uint64_t wall_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- in Redis ---- */

static int by_text(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return strcmp(x->text, y->text);
}

static void read_value(struct lines *all, const struct weir_fleet_key *key, const char *value,
		       size_t n, uint64_t now_ms)
{
	char prefix[WEIR_PREFIX_STRLEN];
	struct weir_fleet_lines l;
	const char *body;
	__u64 version;

	assert_int_equal(weir_fleet_value_read(value, n, &version, &body, &n), 0);
	weir_fleet_body_read(body, n, &l);
	l.n = weir_fleet_drop_over(l.entry, l.n, now_ms);
	for (size_t i = 0; i < l.n; i++) {
		const struct weir_fleet_entry *e = &l.entry[i];
		struct line *to = &all->at[all->n];

		assert_true(++all->n < ITEMS_MAX);
		to->key = *key;
		to->end_ms = e->end_ms ? e->end_ms : FOREVER_MS;
		(void)weir_prefix_format(&key->prefix, prefix);
		(void)snprintf(to->prefix, sizeof(to->prefix), "%s", prefix);
		(void)snprintf(to->origin, sizeof(to->origin), "%s", e->origin);
		(void)snprintf(to->reason, sizeof(to->reason), "%s", e->reason);
		(void)snprintf(to->text, sizeof(to->text), "%s %s %s %s %s %s",
			       key->list == WEIR_LIST_ALLOW ? "allow" : "block", prefix, e->origin,
			       e->host, e->who, e->reason);
	}
}

static void read_server(struct hosts *f, struct lines *ret)
{
	redisContext *r = redis_open(&f->redis);
	redisReply *all = redis_do(r, "HGETALL weir:{fleet}:1:list");
	uint64_t now_ms = wall_ms();

	ret->n = 0;
	assert_int_equal(all->type, REDIS_REPLY_ARRAY);
	for (size_t i = 0; i + 1 < all->elements; i += 2) {
		const redisReply *name = all->element[i], *value = all->element[i + 1];
		struct weir_fleet_key k;

		if (weir_fleet_key_parse(name->str, name->len, &k) == 0)
			read_value(ret, &k, value->str, value->len, now_ms);
	}
	freeReplyObject(all);
	redisFree(r);
	qsort(ret->at, ret->n, sizeof(ret->at[0]), by_text);
}

/* --- as the agents list it ---- */

static bool is_near(uint64_t a, uint64_t b, uint64_t by)
{
	return (a > b ? a - b : b - a) <= by;
}

/* An entry as `weir block list --json` has it: @l has the same, and its end (in whole seconds). */
static bool shows(const struct lines *l, const json_t *e, uint64_t now_ms)
{
	const json_t *in_s = json_object_get(e, "expires_in_s");
	const struct line *found;
	struct line want;

	(void)snprintf(want.text, sizeof(want.text), "%s %s %s %s %s %s",
		       weir_json_text_of(e, "list"), weir_json_text_of(e, "prefix"),
		       weir_json_text_of(e, "origin"), weir_json_text_of(e, "host"),
		       weir_json_text_of(e, "who"), weir_json_text_of(e, "reason"));
	found = bsearch(&want, l->at, l->n, sizeof(l->at[0]), by_text);
	if (!found || weir_json_bool_of(e, "held"))
		return false;
	if (found->end_ms == FOREVER_MS)
		return !in_s;
	return in_s && is_near(now_ms + (uint64_t)json_integer_value(in_s) * 1000 + 500,
			       found->end_ms, 1500);
}

static bool lists_equal(struct hosts *f, struct host *h, const struct lines *l, bool say)
{
	static const char *const lists[] = {"allow", "block"};
	size_t n = 0;
	bool equal = true;

	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		for (size_t offset = 0, got = 1; got; offset += got) {
			_cleanup_json_ json_t *reply =
				ask(f, h,
				    json_pack("{s:s,s:s,s:I}", "cmd", "list_show", "list", lists[k],
					      "offset", (json_int_t)offset));
			uint64_t now_ms = wall_ms();
			json_t *e;
			size_t i;

			got = json_array_size(json_object_get(reply, "entries"));
			n += got;
			json_array_foreach(json_object_get(reply, "entries"), i, e) {
				if (shows(l, e, now_ms))
					continue;
				equal = false;
				if (say)
					print_message("%s has %s %s by %s: %s\n", h->name, lists[k],
						      weir_json_text_of(e, "prefix"),
						      weir_json_text_of(e, "origin"),
						      weir_json_text_of(e, "reason"));
			}
		}
	return equal && n == l->n;
}

/* --- what is installed ---- */

struct installed {
	enum weir_list list;
	struct weir_prefix prefix;
	uint64_t expires_ns; /* 0: never */
};

static void read_installed(const struct host *h, enum weir_list list, __u8 family,
			   struct installed *all, size_t *n)
{
	struct weir_prefix4 k4;
	struct weir_prefix6 k6;
	void *key = family == 4 ? (void *)&k4 : (void *)&k6, *at = NULL;
	struct weir_entry e;
	char path[96];
	int fd;

	(void)snprintf(path, sizeof(path), LAB_BPFFS "/%s/%s%s", h->name,
		       list == WEIR_LIST_ALLOW ? "allows" : "blocks", family == 4 ? "" : "6");
	fd = bpf_obj_get(path);
	assert_true(fd >= 0);
	while (bpf_map_get_next_key(fd, at, key) == 0) {
		struct installed *i = &all[*n];

		at = key;
		assert_true(++*n < ITEMS_MAX);
		assert_int_equal(bpf_map_lookup_elem(fd, key, &e), 0);
		*i = (struct installed){.list = list,
					.prefix = {.family = family},
					.expires_ns = e.expires_ns};
		i->prefix.len = (__u8)(family == 4 ? k4.prefix_len : k6.prefix_len);
		if (family == 4)
			i->prefix.addr.word[0] = k4.word;
		else
			memcpy(i->prefix.addr.word, k6.word, sizeof(k6.word));
	}
	(void)close(fd);
}

/* What this host's kernel has, up to ITEMS_MAX. */
static size_t host_installed(const struct host *h, struct installed *all)
{
	size_t n = 0;

	for (int list = WEIR_LIST_ALLOW; list <= WEIR_LIST_BLOCK; list++)
		for (__u8 family = 4; family <= 6; family += 2)
			read_installed(h, (enum weir_list)list, family, all, &n);
	return n;
}

/* The kernel has each prefix once, with the latest end; its clock is the monotonic one. */
static bool installed_equal(const struct host *h, const struct lines *l)
{
	uint64_t ahead_ms = wall_ms() - wait_now_ns() / 1000000;
	static struct installed all[ITEMS_MAX];
	size_t n = host_installed(h, all), prefixes = 0;

	for (size_t i = 0; i < l->n; i++)
		prefixes += !i || l->at[i].key.list != l->at[i - 1].key.list ||
			    weir_prefix_compare(&l->at[i].key.prefix, &l->at[i - 1].key.prefix);
	for (size_t k = 0; k < n; k++) {
		const struct installed *x = &all[k];
		uint64_t end_ms = 0;

		for (size_t i = 0; i < l->n; i++)
			if (l->at[i].key.list == x->list && l->at[i].end_ms > end_ms &&
			    !weir_prefix_compare(&l->at[i].key.prefix, &x->prefix))
				end_ms = l->at[i].end_ms;
		if (!end_ms || (end_ms == FOREVER_MS) != !x->expires_ns ||
		    (x->expires_ns && !is_near(x->expires_ns / 1000000 + ahead_ms, end_ms, 250)))
			return false;
	}
	return n == prefixes;
}

#endif
