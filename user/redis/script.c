/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests to the arguments of decide.lua and its reply to answers; the format is written down in the script. Pure: no
 * sockets. Called by batch.c, and by tests that run the script themselves.
 */
#include <string.h>

#include "user/redis/redis_int.h"
#include "user/store/calendar.h"

const char weir_redis_script[] = ""
#include "decide.lua.h"
	;
const char weir_redis_rights_script[] = ""
#include "rights.lua.h"
	;

/* The script's flags. */
enum {
	IN_MONITOR = 1,
	IN_CHARGED = 2,
	IN_CALENDAR = 4,
	IN_FRESH = 8,
	IN_TURN_NOW = 16,
	IN_NEWEST = 32
};
enum { OUT_ADMITTED = 1, OUT_CHARGED = 2, OUT_INSTEAD = 4, OUT_MORE = 8, OUT_LIVE = 16 };

#define NUMBER_BYTES 7
#define NEVER	     ((1ull << 56) - 1)
#define EXACT	     (1ull << 52) /* sums of two such numbers are whole in a double */
#define TEXT_MAX     (4u << 20)
#define KEY_TEXT_MAX 192
#define IDENTITY_TEXT                                                                              \
	8 /* bytes of an identity that are in a key: of hundreds of limits no two meet */
#define TAG_BYTES   3
#define LAYER_BYTES (4 * NUMBER_BYTES + 4) /* without flagged parts */

/* --- bytes ------------------------------------------------------------------------------------------------------- */

static int text_room(struct weir_redis_text *t, size_t more)
{
	size_t size = t->size ? t->size : 4096;
	char *at;

	if (t->n + more <= t->size)
		return 0;
	while (size < t->n + more)
		size *= 2;
	if (size > TEXT_MAX)
		return -ENOMEM;
	at = realloc(t->at, size);
	if (!at)
		return -ENOMEM;
	t->at = at;
	t->size = size;
	return 0;
}

int weir_redis_text_add(struct weir_redis_text *t, const void *bytes, size_t n)
{
	if (text_room(t, n) < 0)
		return -ENOMEM;
	memcpy(t->at + t->n, bytes, n);
	t->n += n;
	return 0;
}

/* Little endian on every machine; the room is there. */
static void put(struct weir_redis_text *t, __u64 value, unsigned bytes)
{
	for (; bytes; bytes--, value >>= 8)
		t->at[t->n++] = (char)value;
}

static __u64 get(const unsigned char *at, unsigned bytes)
{
	__u64 value = 0;

	while (bytes--)
		value = value << 8 | at[bytes];
	return value;
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

/* Without padding, and of URLs: no byte that a shell or a hash tag minds. */
static char *base64(char *to, const __u8 *from, size_t n)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	__u32 word = 0;
	unsigned bits = 0;

	for (size_t i = 0; i < n; i++) {
		word = word << 8 | from[i];
		for (bits += 8; bits >= 6; bits -= 6)
			*to++ = letters[word >> (bits - 6) & 63];
	}
	if (bits)
		*to++ = letters[word << (6 - bits) & 63];
	return to;
}

/* What decides where a state lives. */
static const __u8 *tag_of(const __u8 *tag, const __u8 *key)
{
	return tag[0] | tag[1] | tag[2] ? tag : key;
}

int weir_redis_layer_key(const char *prefix, const struct weir_store_limit *l, const __u8 *tag,
			 const __u8 *key, char *buf, size_t size)
{
	size_t n = strlen(prefix);
	char *to = buf + n;

	if (n + 52 > size)
		return -ENAMETOOLONG;
	memcpy(buf, prefix, n);
	*to++ = '1';
	*to++ = ':';
	to = base64(to, l->identity.byte, IDENTITY_TEXT);
	*to++ = ':';
	*to++ = '{';
	to = base64(to, tag_of(tag, key), WEIR_STORE_TAG_BYTES);
	*to++ = '}';
	to = base64(to, key, WEIR_STORE_KEY_BYTES);
	*to = '\0';
	return (int)(to - buf);
}

void weir_redis_layer_id(const struct weir_store_limit *l, const __u8 *key, __u64 ret[2])
{
	__u64 id[2];

	memcpy(id, &l->identity, sizeof(id));
	memcpy(ret, key, 2 * sizeof(*ret));
	ret[0] ^= id[0]; /* both are hashes: no two limits meet */
	ret[1] ^= id[1];
}

/* CRC16 of XMODEM, as Redis Cluster has it. */
__u16 weir_redis_slot(const char *text, size_t n)
{
	__u16 crc = 0;

	for (size_t i = 0; i < n; i++) {
		crc ^= (__u16)((unsigned char)text[i] << 8);
		for (int bit = 0; bit < 8; bit++)
			crc = (__u16)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
	}
	return crc % WEIR_REDIS_SLOTS;
}

__u16 weir_redis_layer_slot(const struct weir_store_layer *y)
{
	char text[8];

	return weir_redis_slot(text,
			       (size_t)(base64(text, tag_of(y->tag, y->key), WEIR_STORE_TAG_BYTES) -
					text));
}

/* --- arguments --------------------------------------------------------------------------------------------------- */

bool weir_redis_limit_fits(const struct weir_store_limit *l)
{
	switch (l->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		return l->fixed.limit < EXACT && l->window_us < EXACT;
	case WEIR_REQUEST_SLIDING_LOG:
		return l->log.window_us < EXACT;
	case WEIR_REQUEST_SLIDING_COUNTER:
		return l->sliding.window_us < EXACT / 2; /* two of them after now */
	default:
		return l->bucket.count < EXACT / 4 && l->bucket.period_us < EXACT / 4 &&
		       l->bucket.size_parts < EXACT;
	}
}

void weir_redis_pack_done(struct weir_redis_pack *p)
{
	free(p->keys.at);
	free(p->blob.at);
}

void weir_redis_pack_begin(struct weir_redis_pack *p)
{
	p->keys.n = p->blob.n = 0;
	p->n_keys = 0;
	if (!++p->stamp) { /* after 2^32 calls old stamps might be believed */
		memset(p->seen, 0, sizeof(p->seen));
		p->stamp = 1;
	}
}

bool weir_redis_pack_has_room(const struct weir_redis_pack *p)
{
	return p->n_keys + 3 * WEIR_STORE_LAYERS_MAX <= WEIR_REDIS_KEYS_MAX;
}

/* The number of a key in this call, from 1; 0: no memory. */
static unsigned key_number(struct weir_redis_pack *p, const struct weir_store_limit *l,
			   const __u8 *tag, const __u8 *key)
{
	char text[KEY_TEXT_MAX], head[16];
	__u64 id[2];
	unsigned at;
	int n, h;

	weir_redis_layer_id(l, key, id);
	for (at = (unsigned)(id[0] >> 32) % ARRAY_LEN(p->seen); p->seen[at].stamp == p->stamp;
	     at = (at + 1) % ARRAY_LEN(p->seen))
		if (p->seen[at].word[0] == id[0] && p->seen[at].word[1] == id[1])
			return p->seen[at].index;
	n = weir_redis_layer_key(p->prefix, l, tag, key, text, sizeof(text) - 2);
	if (n < 0)
		return 0;
	text[n] = '\r';
	text[n + 1] = '\n';
	h = snprintf(head, sizeof(head), "$%d\r\n", n);
	if (text_room(&p->keys, (size_t)(h + n) + 2) < 0)
		return 0;
	(void)weir_redis_text_add(&p->keys, head, (size_t)h);	  /* the room is there */
	(void)weir_redis_text_add(&p->keys, text, (size_t)n + 2); /* … */
	p->seen[at].word[0] = id[0];
	p->seen[at].word[1] = id[1];
	p->seen[at].stamp = p->stamp;
	p->seen[at].index = (__u16)++p->n_keys;
	return p->n_keys;
}

static void put_numbers(struct weir_redis_text *t, const struct weir_store_limit *l)
{
	__u64 a, b, c = 0;

	switch (l->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		a = l->fixed.limit;
		b = l->window_us;
		break;
	case WEIR_REQUEST_SLIDING_LOG:
		a = l->log.limit;
		b = l->log.window_us;
		break;
	case WEIR_REQUEST_SLIDING_COUNTER:
		a = l->sliding.limit;
		b = l->sliding.window_us;
		c = l->sliding.tick_us;
		break;
	default:
		a = l->bucket.count;
		b = l->bucket.period_us;
		c = l->bucket.size_parts;
	}
	put(t, a, NUMBER_BYTES);
	put(t, b, NUMBER_BYTES);
	put(t, c, NUMBER_BYTES);
}

/* The asker's window and its neighbours: the server's clock chooses. */
static void put_edges(struct weir_redis_text *t, const struct weir_store_layer *y)
{
	const struct weir_calendar *c = y->limit->calendar;
	__u64 length = y->end_us - y->start_us;
	__u64 before = y->start_us > length ? y->start_us - length : 0, after = y->end_us + length;
	__u64 other;

	if (c && y->start_us)
		(void)weir_calendar_window(c, y->start_us - 1, &before, &other); /* ends: as long */
	if (c)
		(void)weir_calendar_window(c, y->end_us, &other, &after);
	put(t, before, NUMBER_BYTES);
	put(t, y->start_us, NUMBER_BYTES);
	put(t, y->end_us, NUMBER_BYTES);
	put(t, after, NUMBER_BYTES);
}

static int add_layer(struct weir_redis_pack *p, const struct weir_store_request *q,
		     const struct weir_store_layer *y, enum weir_redis_op op)
{
	bool back = op == WEIR_REDIS_GIVE_BACK && y->charged;
	bool fresh = y->fresh && (op <= WEIR_REDIS_JUDGE || (back && q->newest));
	bool instead = back && !fresh && y->fresh && y->used_instead;
	bool calendar = y->limit->algorithm == WEIR_REQUEST_FIXED_WINDOW && !y->limit->window_us;
	unsigned key, fresh_key = 0, stand_in = 0;
	__u64 cost = y->cost < EXACT ? y->cost : EXACT;

	if (!weir_redis_limit_fits(y->limit))
		return -ERANGE;
	key = instead ? key_number(p, y->limit, y->instead_tag, y->instead)
		      : key_number(p, y->limit, y->tag, y->key);
	if (fresh) {
		fresh_key = key_number(p, y->fresh, y->instead_tag, y->instead);
		stand_in = key_number(p, y->limit, y->instead_tag, y->instead);
	}
	if (!key || (fresh && (!fresh_key || !stand_in)) ||
	    text_room(&p->blob, 20 * NUMBER_BYTES) < 0)
		return -ENOMEM;
	put(&p->blob, key, 2);
	put(&p->blob, y->limit->algorithm, 1);
	put(&p->blob,
	    (y->monitor ? IN_MONITOR : 0u) | (back ? IN_CHARGED : 0u) |
		    (calendar ? IN_CALENDAR : 0u) | (fresh ? IN_FRESH : 0u) |
		    (y->turn_now ? IN_TURN_NOW : 0u) | (back && q->newest ? IN_NEWEST : 0u),
	    1);
	put(&p->blob, cost, NUMBER_BYTES);
	put_numbers(&p->blob, y->limit);
	if (back) {
		put(&p->blob, y->ticket.us, NUMBER_BYTES);
		put(&p->blob, y->ticket.part, NUMBER_BYTES);
	}
	if (calendar)
		put_edges(&p->blob, y);
	if (fresh) {
		put_numbers(&p->blob, y->fresh);
		put(&p->blob, fresh_key, 2);
		put(&p->blob, stand_in, 2);
	}
	return 0;
}

int weir_redis_pack_add(struct weir_redis_pack *p, const struct weir_store_request *q, __u64 layers,
			enum weir_redis_op op)
{
	size_t before = p->blob.n;
	int r = text_room(&p->blob, 2);

	if (r < 0)
		return r;
	put(&p->blob, op == WEIR_REDIS_DECIDE && q->peek ? WEIR_REDIS_JUDGE : op, 1);
	put(&p->blob, (__u64)__builtin_popcountll(layers), 1);
	for (; r >= 0 && layers; layers &= layers - 1)
		r = add_layer(p, q, &q->layer[__builtin_ctzll(layers)], op);
	if (r < 0)
		p->blob.n = before; /* a key too many is no harm */
	return r;
}

int weir_redis_command(const char *sha, unsigned n_keys, const void *keys, size_t keys_bytes,
		       __u64 now_us, const void *blob, size_t blob_bytes,
		       struct weir_redis_text *ret, size_t *ret_keys_at)
{
	char head[128], middle[64], now[24];
	int h, m;

	(void)snprintf(now, sizeof(now), "%llu", now_us);
	m = snprintf(middle, sizeof(middle), "%u", n_keys);
	h = snprintf(head, sizeof(head), "*%u\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$%d\r\n%u\r\n",
		     n_keys + 5, sha, m, n_keys);
	m = snprintf(middle, sizeof(middle), "$%zu\r\n%s\r\n$%zu\r\n", strlen(now), now,
		     blob_bytes);
	ret->n = 0;
	if (text_room(ret, (size_t)(h + m) + keys_bytes + blob_bytes + 2) < 0)
		return -ENOMEM;
	(void)weir_redis_text_add(ret, head, (size_t)h); /* the room is there for all of it */
	*ret_keys_at = ret->n;
	(void)weir_redis_text_add(ret, keys, keys_bytes);
	(void)weir_redis_text_add(ret, middle, (size_t)m);
	(void)weir_redis_text_add(ret, blob, blob_bytes);
	(void)weir_redis_text_add(ret, "\r\n", 2);
	return 0;
}

/* --- replies ----------------------------------------------------------------------------------------------------- */

int weir_redis_answers_open(const void *reply, size_t n, struct weir_redis_answers *ret)
{
	if (n < NUMBER_BYTES)
		return -EPROTO;
	ret->at = (const unsigned char *)reply + NUMBER_BYTES;
	ret->end = (const unsigned char *)reply + n;
	ret->now_us = get(reply, NUMBER_BYTES);
	return 0;
}

struct said {
	unsigned flags;
	struct weir_request_answer answer;
	struct weir_request_ticket ticket;
};

static int next_layer(struct weir_redis_answers *a, struct said *ret)
{
	const unsigned char *at = a->at;
	size_t left = (size_t)(a->end - at), n = 1 + 3 * NUMBER_BYTES;

	if (!left)
		return -EPROTO;
	if (*at & OUT_MORE)
		n += 3 * NUMBER_BYTES;
	if (left < n)
		return -EPROTO;
	*ret = (struct said){.flags = *at, .ticket = {.us = a->now_us}};
	ret->answer.remaining = get(at + 1, NUMBER_BYTES);
	ret->answer.reset_after_us = get(at + 8, NUMBER_BYTES);
	ret->answer.retry_after_us = get(at + 15, NUMBER_BYTES);
	if (ret->answer.retry_after_us == NEVER)
		ret->answer.retry_after_us = WEIR_REQUEST_NEVER;
	if (*at & OUT_MORE) {
		ret->answer.delay_us = get(at + 22, NUMBER_BYTES);
		ret->ticket.us = get(at + 29, NUMBER_BYTES);
		ret->ticket.part = get(at + 36, NUMBER_BYTES);
	}
	a->at += n;
	return 0;
}

static void tell(struct weir_store_layer *y, const struct said *s, enum weir_redis_op op)
{
	bool charged = s->flags & OUT_CHARGED;

	if (op == WEIR_REDIS_GIVE_BACK) {
		y->charged = y->charged && charged;
		return;
	}
	y->charged = charged;
	if (op == WEIR_REDIS_FORGET)
		return;
	y->admitted = s->flags & OUT_ADMITTED;
	y->used_instead = s->flags & OUT_INSTEAD;
	y->answer = s->answer;
	if (charged)
		y->ticket = s->ticket;
}

int weir_redis_answers_next(struct weir_redis_answers *a, struct weir_store_request *q,
			    __u64 layers, enum weir_redis_op op, bool *ret_admitted,
			    __u64 *ret_live)
{
	struct said s;
	int r;

	if (a->at == a->end || *a->at > 1)
		return -EPROTO;
	*ret_admitted = *a->at++;
	*ret_live = 0;
	for (; layers; layers &= layers - 1) {
		r = next_layer(a, &s);
		if (r < 0)
			return r;
		tell(&q->layer[__builtin_ctzll(layers)], &s, op);
		if (s.flags & OUT_LIVE)
			*ret_live |= layers & -layers;
	}
	return 0;
}

/* --- giving back ------------------------------------------------------------------------------------------------- */

/* Bytes of a layer's flagged parts that a decision had, before @bit's. */
static size_t extra_bytes(unsigned flags)
{
	return (flags & IN_CALENDAR ? 4 * NUMBER_BYTES : 0) +
	       (flags & IN_FRESH ? 3 * NUMBER_BYTES + 4 : 0);
}

int weir_redis_give_back(const unsigned char *request, size_t n, struct weir_redis_answers *a,
			 struct weir_redis_text *blob)
{
	const unsigned char *at = request, *end = request + n;
	size_t begin = blob->n;
	unsigned left, back = 0;
	struct said s;
	int r;

	if (n < 2 || a->at == a->end || text_room(blob, n + 2 * NUMBER_BYTES * at[1]) < 0)
		return -EPROTO;
	left = at[1];
	at += 2;
	a->at++;
	put(blob, WEIR_REDIS_GIVE_BACK, 1);
	put(blob, 0, 1);
	for (; left; left--) {
		unsigned flags;
		size_t extra;

		if (end - at < (ptrdiff_t)(LAYER_BYTES))
			return -EPROTO;
		flags = at[3];
		extra = extra_bytes(flags);
		if (end - at < (ptrdiff_t)(LAYER_BYTES + extra))
			return -EPROTO;
		r = next_layer(a, &s);
		if (r < 0)
			return r;
		if (s.flags & OUT_CHARGED) {
			/* At the stand-in key, which is the last number, if it was counted there. */
			put(blob, get(s.flags & OUT_INSTEAD ? at + LAYER_BYTES + extra - 2 : at, 2),
			    2);
			put(blob, at[2], 1);
			put(blob, IN_CHARGED | (flags & (IN_CALENDAR | IN_MONITOR)), 1);
			(void)weir_redis_text_add(blob, at + 4,
						  4 * NUMBER_BYTES); /* room is there */
			put(blob, s.ticket.us, NUMBER_BYTES);
			put(blob, s.ticket.part, NUMBER_BYTES);
			if (flags & IN_CALENDAR)
				(void)weir_redis_text_add(blob, at + 4 + 4 * NUMBER_BYTES,
							  4 * NUMBER_BYTES);
			back++;
		}
		at += LAYER_BYTES + extra;
	}
	if (!back)
		blob->n = begin;
	else
		blob->at[begin + 1] = (char)back;
	return (int)back;
}

size_t weir_redis_error_unwrap(char *text, size_t n)
{
	static const char running[] = "ERR Error running script", where[] = "@user_script:";
	const char *at = strstr(text, "): ");
	size_t word;

	if (strncmp(text, running, sizeof(running) - 1) || !at)
		return n;
	at += 3;
	while (!strncmp(at, where, sizeof(where) - 1)) {
		at = strchr(at + sizeof(where) - 1, ':');
		if (!at)
			return n;
		at += strspn(at, ": -");
	}
	word = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
	if (word < 2 || at[word] != ' ')
		return n; /* not a command's: Lua's own */
	n -= (size_t)(at - text);
	memmove(text, at, n + 1);
	return n;
}

bool weir_redis_script_command(const char *script, unsigned line, char *buf, size_t size)
{
	static const char call[] = "call('";
	const char *at = script, *end;
	size_t n = 0;

	for (unsigned i = 1; i < line && at; i++) {
		at = strchr(at, '\n');
		at += at != NULL;
	}
	if (!line || !at)
		return false;
	end = strchrnul(at, '\n');
	at = memmem(at, (size_t)(end - at), call, sizeof(call) - 1);
	if (!at)
		return false;
	at += sizeof(call) - 1;
	while (n < size - 1 && at[n] >= 'A' && at[n] <= 'Z') {
		buf[n] = (char)(at[n] - 'A' + 'a');
		n++;
	}
	buf[n] = '\0';
	return n > 0;
}
