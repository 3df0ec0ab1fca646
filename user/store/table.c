/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One shard of the embedded store: lists by keyed hash over entries in chunks, and the memory of logs. Called by
 * embedded.c with the shard locked.
 */
#include <string.h>

#include "user/store/table.h"

#define ALLOCATION_BYTES 16 /* what the allocator adds at most, counted with every log */
#define LOG_ROOM_MIN	 2
#define SEARCH_MAX	 1024 /* entries that are asked for one with a log */

static bool reserve(struct weir_table_memory *m, __u64 bytes)
{
	if (__atomic_add_fetch(&m->used, bytes, __ATOMIC_RELAXED) <= m->max)
		return true;
	(void)__atomic_sub_fetch(&m->used, bytes, __ATOMIC_RELAXED);
	return false;
}

static void release(struct weir_table_memory *m, __u64 bytes)
{
	(void)__atomic_sub_fetch(&m->used, bytes, __ATOMIC_RELAXED);
}

static struct weir_table_entry *entry_at(const struct weir_table *t, __u32 i)
{
	return &t->chunk[i / WEIR_TABLE_CHUNK][i % WEIR_TABLE_CHUNK];
}

/* The power of two at or above @n. */
static __u32 power_of_two(__u32 n)
{
	return n > 1 ? 1u << (32 - __builtin_clz(n - 1)) : 1;
}

/* Linear hashing: lists are split one at a time; one that is not yet there is still part of the one in the lower half. */
static __u32 *list_of(struct weir_table *t, const struct weir_table_key *key)
{
	__u32 all = power_of_two(t->lists), i = (__u32)key->word[1] & (all - 1);

	return &t->head[i < t->lists ? i : i - all / 2];
}

static __u64 log_bytes(__u32 room)
{
	return room ? room * sizeof(__u64) + ALLOCATION_BYTES : 0;
}

static __u32 chunks_for(__u32 max)
{
	return (max + WEIR_TABLE_CHUNK - 1) / WEIR_TABLE_CHUNK;
}

__u64 weir_table_index_bytes(__u32 max)
{
	return power_of_two(max) * sizeof(__u32) + chunks_for(max) * sizeof(void *);
}

int weir_table_init(struct weir_table *t, __u32 max, struct weir_table_memory *memory)
{
	int r;

	*t = (struct weir_table){.memory = memory, .max = max, .free = WEIR_TABLE_NONE};
	r = pthread_mutex_init(&t->lock, NULL);
	if (r)
		return -r;
	t->heads = power_of_two(max);
	t->head = malloc(t->heads * sizeof(t->head[0]));
	t->chunk = calloc(chunks_for(max), sizeof(t->chunk[0]));
	if (!t->head || !t->chunk || !reserve(memory, weir_table_index_bytes(max))) {
		r = t->head && t->chunk ? -EINVAL : -ENOMEM;
		weir_table_done(t);
		return r;
	}
	t->head[0] = WEIR_TABLE_NONE;
	t->lists = 1;
	return 0;
}

void weir_table_done(struct weir_table *t)
{
	for (__u32 i = 0; i < t->made; i++)
		if (entry_at(t, i)->log)
			free(entry_at(t, i)->state.log.time_us);
	for (__u32 i = 0; t->chunk && i < chunks_for(t->made); i++)
		free(t->chunk[i]);
	free(t->chunk);
	free(t->head);
	pthread_mutex_destroy(&t->lock);
}

struct weir_table_entry *weir_table_find(struct weir_table *t, const struct weir_table_key *key)
{
	struct weir_table_entry *e;

	for (__u32 i = *list_of(t, key); i != WEIR_TABLE_NONE; i = e->next) {
		e = entry_at(t, i);
		if (e->key.word[0] == key->word[0] && e->key.word[1] == key->word[1])
			return e;
	}
	return NULL;
}

static void drop_log(struct weir_table *t, struct weir_table_entry *e)
{
	if (!e->log)
		return;
	free(e->state.log.time_us);
	release(t->memory, log_bytes(e->state.log.room));
	e->log = false;
}

void weir_table_drop(struct weir_table *t, const struct weir_table_key *key)
{
	struct weir_table_entry *e;
	__u32 *link = list_of(t, key), i;

	for (; *link != WEIR_TABLE_NONE; link = &e->next) {
		i = *link;
		e = entry_at(t, i);
		if (e->key.word[0] != key->word[0] || e->key.word[1] != key->word[1])
			continue;
		*link = e->next;
		drop_log(t, e);
		e->used = false;
		e->next = t->free;
		t->free = i;
		t->used--;
		return;
	}
}

static void drop_entry(struct weir_table *t, const struct weir_table_entry *e)
{
	struct weir_table_key key = e->key;

	weir_table_drop(t, &key);
}

/* Its states are of a time that is yet to come: who was over a limit then would be refused until then. */
void weir_table_clear(struct weir_table *t, __u64 now_us)
{
	for (__u32 i = 0; i < t->made; i++) {
		const struct weir_table_entry *e = entry_at(t, i);

		if (!e->used)
			continue;
		drop_entry(t, e);
		t->idle_dropped++;
	}
	t->last_us = now_us;
}

static struct weir_table_entry *advance(struct weir_table *t)
{
	if (t->hand >= t->made)
		t->hand = 0;
	return entry_at(t, t->hand++);
}

/* Forgets one entry of a sample; @logs: one that has a log, for its bytes. Returns false if there was none. */
static bool make_place(struct weir_table *t, __u64 now_us, bool logs)
{
	struct weir_table_entry *e, *victim = NULL;

	for (__u32 i = 0; i < t->made && i < (victim ? WEIR_TABLE_SAMPLE : SEARCH_MAX); i++) {
		e = advance(t);
		if (e->used && !e->busy && (!logs || e->log) &&
		    (!victim || e->idle_us < victim->idle_us))
			victim = e;
	}
	if (!victim)
		return false;
	if (victim->idle_us <= now_us)
		t->idle_dropped++;
	else
		t->evicted++;
	drop_entry(t, victim);
	return true;
}

/* A chunk more, if entries and bytes allow one. */
static int grow(struct weir_table *t)
{
	__u32 n = t->max - t->made < WEIR_TABLE_CHUNK ? t->max - t->made : WEIR_TABLE_CHUNK;
	struct weir_table_entry *c;

	if (!n || !reserve(t->memory, n * sizeof(*c)))
		return -ENOSPC;
	c = calloc(n, sizeof(*c));
	if (!c) {
		release(t->memory, n * sizeof(*c));
		return -ENOMEM;
	}
	t->chunk[t->made / WEIR_TABLE_CHUNK] = c;
	for (__u32 i = n; i-- > 0;) {
		c[i].next = t->free;
		t->free = t->made + i;
	}
	t->made += n;
	return 0;
}

/* One list more, of what belongs there. */
static void split(struct weir_table *t)
{
	__u32 new = t->lists, *link = &t->head[new - power_of_two(new + 1) / 2], i;
	struct weir_table_entry *e;

	t->head[new] = WEIR_TABLE_NONE;
	t->lists++;
	while ((i = *link) != WEIR_TABLE_NONE) {
		e = entry_at(t, i);
		if (list_of(t, &e->key) != &t->head[new]) {
			link = &e->next;
			continue;
		}
		*link = e->next;
		e->next = t->head[new];
		t->head[new] = i;
	}
}

int weir_table_add(struct weir_table *t, const struct weir_table_key *key, __u64 now_us,
		   struct weir_table_entry **ret)
{
	struct weir_table_entry *e;
	__u32 i;
	int r;

	weir_table_tidy(t, now_us, 2); /* more than are added: what is idle is found in time */
	if (t->free == WEIR_TABLE_NONE) {
		r = grow(t);
		if (r < 0 && !make_place(t, now_us, false))
			return r;
	}
	i = t->free;
	e = entry_at(t, i);
	t->free = e->next;
	*e = (struct weir_table_entry){.key = *key, .used = true, .next = *list_of(t, key)};
	*list_of(t, key) = i;
	t->used++;
	if (t->used > t->lists && t->lists < t->heads)
		split(t);
	*ret = e;
	return 0;
}

static int log_resize(struct weir_table *t, struct weir_table_entry *e, __u32 room)
{
	struct weir_request_log_state *s = &e->state.log;
	__u64 *new;

	if (!reserve(t->memory, log_bytes(room)))
		return -ENOSPC;
	new = malloc(room * sizeof(*new));
	if (!new) {
		release(t->memory, log_bytes(room));
		return -ENOMEM;
	}
	for (__u32 i = 0; i < s->count; i++)
		new[i] = weir_request_log_at(s, i);
	release(t->memory, log_bytes(s->room));
	free(s->time_us);
	*s = (struct weir_request_log_state){.time_us = new, .room = room, .count = s->count};
	e->log = true;
	return 0;
}

static __u32 room_for(__u64 count)
{
	__u64 room = count + count / 8;

	return room < LOG_ROOM_MIN ? LOG_ROOM_MIN : (__u32)room;
}

static bool much_is_free(const struct weir_request_log_state *s, __u64 count)
{
	return s->room > count + count / 2 + 4;
}

int weir_table_log_room(struct weir_table *t, struct weir_table_entry *e, __u64 more, __u64 now_us,
			__u64 limit)
{
	__u64 need = e->state.log.count + more;
	__u32 room = room_for(need);
	int r;

	if (need <= e->state.log.room && !much_is_free(&e->state.log, need))
		return 0;
	if (room > limit)
		room = (__u32)limit;
	while ((r = log_resize(t, e, room)) == -ENOSPC && need > e->state.log.room)
		if (!make_place(t, now_us, true))
			return r;
	return need <= e->state.log.room ? 0 : r;
}

void weir_table_tidy(struct weir_table *t, __u64 now_us, __u32 n)
{
	struct weir_table_entry *e;
	struct weir_request_log p = {.limit = WEIR_STORE_LOG_MAX};

	for (; n && t->made; n--) {
		e = advance(t);
		if (!e->used || e->busy)
			continue;
		if (e->idle_us <= now_us) {
			drop_entry(t, e);
			t->idle_dropped++;
		} else if (e->log) { /* not idle, so not empty */
			p.window_us = e->idle_us -
				      weir_request_log_at(&e->state.log, e->state.log.count - 1);
			weir_request_log_settle(&e->state.log, &p, now_us);
			if (much_is_free(&e->state.log, e->state.log.count))
				(void)log_resize(t, e, room_for(e->state.log.count)); /* or later */
		}
	}
}
