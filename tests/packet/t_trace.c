/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One random trace through everything that decides by an algorithm that packets and requests share (token bucket, fixed
 * window, sliding-window counter), with the same limits, times and costs: the XDP program (both entry points), the C
 * functions of packets (algo.h), the embedded store of requests (algo_request.h) and decide.lua in a real server. The
 * verdict on every packet must be the same four times. A packet costs 1, or the bytes of its frame.
 *
 * Packets are counted in a 32 or 64-bit word, requests in exact rational numbers of whole microseconds. They can mean the
 * same only where both are exact, so the trace stays there, and nowhere else is a step left out:
 *  - A packet bucket's clock is cut to ticks, (now_ns * mult) >> 32, and mult is the rate, rounded. Both are exact for a
 *    rate of M / 2^J tokens a nanosecond at multiples of 2^(32 - v) ns, v the zero bits at mult's end. Microseconds are
 *    whole there at multiples of 125 * 2^(32 - v) ns. Limits of kind BUCKET are such, and their packets come at such
 *    times.
 *  - Any other rate at any nanosecond (BUCKET_TICKS): requests are told the time in the ticks of the packet bucket, and
 *    a rate of one token in as many ticks as it has there. What is left out is only the rounding of the unit itself, at
 *    most 0.1 % of the rate and one tick (tests/unit/t_model_bucket.c bounds that).
 *  - A fixed window of whole microseconds is exact at any nanosecond.
 *  - A sliding counter counts time in units of 2^tick_shift ns, requests in microseconds while limit * window < 2^53:
 *    window and times are multiples of both, and limits are below that.
 *  - One limit a packet: of several, packets are charged in order until one drops, requests all or none.
 *  - Time does not step back: a packet's word, a state in Redis and a shard of the embedded store each know another
 *    newest time (t_limit_window, t_redis_trace and t_store test what they do).
 *  - A word of packets repeats after 2^32 ticks or some thousand windows, so the tables are swept as the agent does it,
 *    a quarter of the shortest such time apart.
 * Windows are aligned to the clock's zero for packets, to 1970 for requests: both clocks here are one number.
 */
#include "redis/script.h"
#include "tests/packet/packet_test.h"
#include "user/base/str.h"
#include "weir/idle.h"

#define ROUNDS	 60   /* of new limits */
#define STEPS	 3000 /* packets in each, at least */
#define N_LIMITS 6
#define SOURCES	 4
#define TRAIN	 1600 /* packets of one source at one moment, at most */
#define BUCKETS	 64

typedef unsigned __int128 u128;

enum kind { BUCKET, BUCKET_TICKS, FIXED, SLIDING, KINDS };
static const char *const kind_name[KINDS] = {"bucket", "bucket in ticks", "fixed window",
					     "sliding counter"};

/* One limit, as each of the judges has it. */
struct one {
	enum kind kind;
	bool bytes;
	__u64 budget;	  /* burst, or limit of a window */
	__u64 span_ns;	  /* the window, or how long the burst takes to come back; about */
	__u64 quantum_ns; /* its packets come at multiples */
	char text[224];
	struct weir_limit packet;
	__u64 word[SOURCES];   /* of algo.h alone */
	__u64 aim_ns[SOURCES]; /* a refused source was told that it is admitted then; 0: none */
	struct weir_store_limit request;
	struct weir_store *store;
	__u64 tick_us; /* BUCKET_TICKS: the tick that requests are told to be the first microsecond */
};

struct trace {
	__u64 seed;
	struct redis_server r;
	struct script script;
	struct xdp_run *x;
	unsigned round;
	__u64 now_ns, swept_ns, pass_ns, scale_ns;
	struct one one[N_LIMITS];
	size_t step, verdicts[KINDS][2][2]; /* of kind; packets or bytes; refused or admitted */
};

static __u64 pick(struct trace *t, __u64 n)
{
	return below(&t->seed, n);
}

/* --- limits -------------------------------------------------------------------------------------------------------- */

static __u64 some_budget(struct trace *t, bool bytes)
{
	if (!bytes)
		return pick(t, 4) ? 1 + pick(t, 60) : 60 + pick(t, 1000);
	return pick(t, 6) ? 600 + pick(t, 60000) : (1 << 20) + pick(t, 1 << 20);
}

static void say_rate(struct one *o, __u64 amount, __u64 per, const char *unit)
{
	const char *b = o->bytes ? " B" : "";

	(void)snprintf(o->text, sizeof(o->text), "rate: %llu%s/%llu%s, burst: %llu%s", amount, b,
		       per, unit, o->budget, b);
}

/* As people write it, a whole number in a second or more; or any number in any nanoseconds. */
static void draw_rate(struct trace *t, struct one *o)
{
	static const struct {
		const char *name;
		__u64 ns;
	} unit[] = {{"s", XDP_SECOND},
		    {"m", XDP_MINUTE},
		    {"h", 60 * XDP_MINUTE},
		    {"d", 24 * 60 * XDP_MINUTE}};
	__u64 amount = 1 + pick(t, o->budget), ns = o->span_ns;
	bool odd = pick(t, 3) == 0;

	say_rate(o, amount, (__u64)((u128)ns * amount / o->budget) + 1, "ns");
	for (size_t i = 0; !odd && i < ARRAY_LEN(unit); i++) {
		amount = (__u64)((u128)o->budget * unit[i].ns / ns);
		if (!amount)
			continue;
		say_rate(o, amount, 1, unit[i].name);
		return;
	}
}

static unsigned log2_of(__u64 n)
{
	return 63 - (unsigned)__builtin_clzll(n);
}

/* M / 2^J tokens a nanosecond: 125 M every 2^(J - 3) us. False: such times would be so far apart that the bucket is always
 * full again.
 */
static bool draw_exact_rate(struct trace *t, struct one *o, const struct weir_store_identity *id)
{
	__u64 m = 1 + 2 * pick(t, 1ull << pick(t, 11)), span_ns;
	u128 want = (u128)o->span_ns * m / o->budget;
	unsigned j, v = 12 - log2_of(m);

	if (want < 16)
		return false;
	j = log2_of((__u64)want);
	if (j <= 32 && m << (32 - j) >= 4096)
		v = 32 - j; /* a token is one tick (compile_units.c) */
	span_ns = (__u64)(((u128)o->budget << j) / m);
	o->quantum_ns = 125ull << (v < 29 ? 32 - v : 3);
	if (o->quantum_ns > span_ns / 64 ||
	    weir_store_limit_bucket(id, 125 * m, 1ull << (j - 3), o->budget, &o->request) < 0 ||
	    !weir_redis_limit_fits(&o->request))
		return false;
	say_rate(o, 125 * m, 1ull << (j - 3), "us");
	return true;
}

static void draw_window(struct one *o, const struct weir_store_identity *id)
{
	bool sliding = o->kind == SLIDING;
	__u64 window_us;

	if (o->span_ns < 1000000) /* the shortest window that a configuration takes */
		o->span_ns = 1000000 + o->span_ns;
	o->quantum_ns = 1;
	if (sliding)
		for (o->quantum_ns = 1000; o->span_ns >> 36 >= o->quantum_ns / 1000;)
			o->quantum_ns *= 2;
	window_us = (o->span_ns / o->quantum_ns + 1) * o->quantum_ns / 1000 + !sliding;
	while (sliding && o->budget >= WEIR_REQUEST_EXACT_MAX / window_us)
		o->budget /= 2;
	assert_int_equal(weir_store_limit_window(id,
						 sliding ? WEIR_REQUEST_SLIDING_COUNTER
							 : WEIR_REQUEST_FIXED_WINDOW,
						 o->budget, window_us, &o->request),
			 0);
	(void)snprintf(o->text, sizeof(o->text), "algorithm: %s, limit: %llu%s, window: %lluus",
		       sliding ? "sliding-window-counter" : "fixed-window", o->budget,
		       o->bytes ? " B" : "", window_us);
}

static void draw_limit(struct trace *t, unsigned i)
{
	static const enum weir_request_algorithm of_kind[KINDS] = {WEIR_REQUEST_TOKEN_BUCKET,
								   WEIR_REQUEST_TOKEN_BUCKET,
								   WEIR_REQUEST_FIXED_WINDOW,
								   WEIR_REQUEST_SLIDING_COUNTER};
	struct weir_store_identity id;
	struct one *o = &t->one[i];
	char name[32];

	*o = (struct one){.kind = (enum kind)pick(t, KINDS), .bytes = pick(t, 2)};
	o->budget = some_budget(t, o->bytes);
	o->span_ns = t->scale_ns / 2 + pick(t, t->scale_ns);
	o->quantum_ns = 1;
	(void)snprintf(name, sizeof(name), "r%u-%u", t->round, i);
	assert_int_equal(weir_store_identity_of(name, of_kind[o->kind], "", "", "", &id), 0);
	if (o->kind >= FIXED)
		draw_window(o, &id);
	for (int tries = 0; o->kind == BUCKET && !draw_exact_rate(t, o, &id); tries++)
		o->kind = tries < 32 ? BUCKET : BUCKET_TICKS;
	if (o->kind == BUCKET_TICKS) {
		o->quantum_ns = 1;
		draw_rate(t, o);
		o->request.identity = id; /* the rest when it is compiled */
	}
	o->store = request_store(64, 1 << 20, 1);
}

/* What is said above of the common domain, of the numbers that were compiled. */
static void check_domain(const struct trace *t, const struct one *o,
			 const struct weir_conf_limit *c)
{
	const struct weir_limit *l = &o->packet;
	__u64 unit_ns = 1ull << l->tick_shift;

	assert_int_equal(!!(l->flags & WEIR_LIMIT_BYTES), o->bytes);
	assert_true(weir_redis_limit_fits(&o->request));
	if (o->kind == BUCKET) {
		assert_true((u128)l->mult * c->rate_per_ns == (u128)c->rate << (32 + l->frac_bits));
		assert_int_equal(l->shift, 32);
		assert_int_equal((__u32)(l->mult * o->quantum_ns), 0);
	}
	if (o->kind == BUCKET || o->kind == SLIDING)
		assert_int_equal(o->quantum_ns % 1000, 0);
	if (o->kind < FIXED)
		assert_int_equal(l->burst, o->budget << l->frac_bits);
	else
		assert_int_equal(l->limit, o->budget);
	if (o->kind >= FIXED)
		assert_int_equal(l->window_ns, o->request.window_us * 1000);
	if (o->kind == SLIDING) {
		assert_int_equal(o->quantum_ns % unit_ns + l->window_ns % unit_ns, 0);
		assert_int_equal(o->request.sliding.tick_us, 1);
	}
	assert_true(t->pass_ns > 0);
}

static __u64 ticks_at(const struct one *o, __u64 now_ns)
{
	return (__u64)((u128)now_ns * o->packet.mult >> 32);
}

/* New limits and no state in any of the judges; a clock that counts from yesterday, or from 1970. */
static void begin_round(struct trace *t)
{
	static char text[N_LIMITS][320];
	const char *list[N_LIMITS + 1] = {NULL};

	t->scale_ns = 1ull << (17 + pick(t, 29));
	t->now_ns = pick(t, 2) ? XDP_SECOND + pick(t, 24 * 60 * XDP_MINUTE)
			       : EPOCH * 1000 + pick(t, 1ull << 50);
	for (unsigned i = 0; i < N_LIMITS; i++) {
		draw_limit(t, i);
		(void)snprintf(text[i], sizeof(text[i]),
			       "{name: l%u, match: {protocol: udp, destination_port: %u}, %s}", i,
			       1000 + i, t->one[i].text);
		list[i] = text[i];
	}
	t->x = xdp_run_sized(packet_test_limits(list), BUCKETS);
	xdp_set_clock(t->x, t->now_ns);
	t->swept_ns = t->now_ns;
	t->pass_ns = ~0ull;
	for (unsigned i = 0; i < N_LIMITS; i++) {
		struct one *o = &t->one[i];
		__u64 wrap_ns;

		o->packet = t->x->compiled->policy.limit[i];
		wrap_ns = weir_compile_wrap_ns(&o->packet);
		t->pass_ns = wrap_ns / 4 < t->pass_ns ? wrap_ns / 4 : t->pass_ns;
		if (o->kind == BUCKET_TICKS) {
			struct weir_store_identity id = o->request.identity;

			o->tick_us = ticks_at(o, t->now_ns);
			assert_int_equal(weir_store_limit_bucket(&id, 1,
								 1ull << o->packet.frac_bits,
								 o->budget, &o->request),
					 0);
		}
		check_domain(t, o, &t->x->conf->limits[i]);
	}
	assert_int_equal(redis_int(t->script.c, "FLUSHALL"), 0);
}

static void end_round(struct trace *t)
{
	for (unsigned i = 0; i < N_LIMITS; i++) {
		weir_store_free(t->one[i].store);
		t->one[i].store = NULL;
	}
}

/* --- time ---------------------------------------------------------------------------------------------------------- */

/* What is idle in a word of algo.h alone goes as from the tables. */
static void sweep(struct trace *t)
{
	xdp_sweep(t->x);
	for (unsigned i = 0; i < N_LIMITS; i++) {
		struct one *o = &t->one[i];
		bool pair = o->packet.flags & WEIR_LIMIT_PAIR;
		struct weir_idle idle =
			weir_idle_of(&o->packet, pair ? WEIR_WORD_HIGH : WEIR_WORD_STATE,
				     t->now_ns);

		for (unsigned k = 0; k < SOURCES; k++)
			if (!weir_idle_busy(idle, (__u32)(o->word[k] >> (pair ? 32 : 0))))
				o->word[k] = 0;
	}
}

static void set_time(struct trace *t, __u64 to_ns)
{
	while (to_ns - t->swept_ns > t->pass_ns) {
		t->now_ns = t->swept_ns += t->pass_ns;
		xdp_set_clock(t->x, t->now_ns);
		sweep(t);
	}
	t->now_ns = to_ns;
	xdp_set_clock(t->x, to_ns);
}

static __u64 some_gap(struct trace *t)
{
	switch (pick(t, 16)) {
	case 0:
		return pick(t, pick(t, 16) ? t->scale_ns : 50 * t->scale_ns);
	case 1:
	case 2:
		return pick(t, t->scale_ns / 32);
	case 3:
	case 4:
	case 5:
	case 6:
		return pick(t, t->scale_ns / 256);
	default:
		return 0;
	}
}

/* To a moment at which a packet of @o may come; sometimes to the very one at which its verdict turns, or the one before or
 * after that.
 */
static void pass_time(struct trace *t, struct one *o, unsigned source)
{
	__u64 most_ns = 64 * t->pass_ns, q = o->quantum_ns, aim_ns = o->aim_ns[source], to_ns;

	to_ns = some_gap(t);
	to_ns = t->now_ns + (to_ns < most_ns ? to_ns : most_ns);
	if (aim_ns > t->now_ns + q && aim_ns - t->now_ns < most_ns && pick(t, 5) == 0)
		to_ns = aim_ns / q * q + pick(t, 3) * q - q;
	set_time(t, (to_ns + q - 1) / q * q);
}

static __u64 request_time(const struct trace *t, const struct one *o)
{
	return o->kind == BUCKET_TICKS ? ticks_at(o, t->now_ns) - o->tick_us + 1 : t->now_ns / 1000;
}

/* The first nanosecond that requests are told to be @us. */
static __u64 packet_time(const struct one *o, __u64 us)
{
	u128 ticks = (u128)(us + o->tick_us - 1) << 32;

	return o->kind == BUCKET_TICKS ? (__u64)((ticks + o->packet.mult - 1) / o->packet.mult)
				       : us * 1000;
}

/* --- the judges ---------------------------------------------------------------------------------------------------- */

enum judge { XDP, WORD, EMBEDDED, LUA, JUDGES };

static struct pkt packet_of(unsigned i, unsigned source, unsigned payload)
{
	static const char *const address[SOURCES] = {"198.51.100.1", "198.51.100.2",
						     "2001:db8:0:1::1", "2001:db8:0:2::1"};

	if (source < SOURCES / 2)
		return PKT(ETH(), IP4(.src = address[source]), UDP(.dport = 1000 + i),
			   PAY(payload));
	return PKT(ETH(), IP6(.src = address[source]), UDP(.dport = 1000 + i), PAY(payload));
}

static bool ask_xdp(struct trace *t, const struct pkt *p)
{
	enum weir_reason r = xdp_verdict(t->x, p);

	if (r != WEIR_PASS_DEFAULT && r != WEIR_DROP_LIMIT)
		fail_msg("step %zu: %s", t->step, xdp_reason_name(r));
	return r == WEIR_PASS_DEFAULT;
}

/* What bpf/limit.h does with a word, without any BPF. */
static bool ask_word(const struct trace *t, struct one *o, unsigned source, __u32 cost)
{
	const struct weir_limit *l = &o->packet;
	__u64 *word = &o->word[source], now_ns = t->now_ns, index, ticks;
	__u32 new = 0;
	bool yes;

	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET) {
		ticks = (__u64)cost << l->frac_bits;
		yes = weir_bucket_take((__u32)*word, weir_ticks(now_ns, l->mult, l->shift),
				       ticks > ~0u ? ~0u : (__u32)ticks, l->burst, &new);
		*word = yes ? new : *word;
		return yes;
	}
	index = now_ns / l->window_ns;
	if (l->algorithm == WEIR_ALGO_SLIDING_WINDOW)
		return weir_sliding_take(*word, weir_window_number(index, WEIR_SLIDING_NUMBER_BITS),
					 (now_ns - index * l->window_ns) >> l->tick_shift,
					 l->window_ns >> l->tick_shift, cost, (__u32)l->limit,
					 word);
	if (l->flags & WEIR_LIMIT_PAIR)
		return weir_fixed_take64(*word, weir_window_number(index, WEIR_FIXED64_NUMBER_BITS),
					 cost, l->limit, word);
	yes = weir_fixed_take32((__u32)*word, weir_window_number(index, 32 - l->count_bits),
				l->count_bits, cost, (__u32)l->limit, &new);
	*word = yes ? new : *word;
	return yes;
}

static void compare(const struct trace *t, const struct one *o, const struct pkt *p, __u32 cost,
		    const bool verdict[JUDGES])
{
	if (verdict[XDP] == verdict[WORD] && verdict[XDP] == verdict[EMBEDDED] &&
	    verdict[XDP] == verdict[LUA])
		return;
	pkt_print(stderr, p);
	fail_msg("step %zu at %llu ns (%llu for requests), cost %u, %s {%s}: XDP says %d, algo.h "
		 "%d, "
		 "the embedded store %d, decide.lua %d",
		 t->step, t->now_ns, request_time(t, o), cost, kind_name[o->kind], o->text,
		 verdict[XDP], verdict[WORD], verdict[EMBEDDED], verdict[LUA]);
}

/* The same packet @n times at one moment. */
static void ask_all(struct trace *t, unsigned i, unsigned source, const struct pkt *p, size_t n)
{
	struct one *o = &t->one[i];
	struct weir_store_layer y[SCRIPT_BATCH];
	struct weir_store_request q[SCRIPT_BATCH];
	__u32 cost = o->bytes ? p->len : 1;

	for (size_t k = 0; k < n; k++) {
		y[k] = request_layer(&o->request, source, cost);
		q[k] = (struct weir_store_request){.layer = &y[k], .n = 1};
		script_add(&t->script, &q[k], WEIR_REDIS_DECIDE);
	}
	script_ask(&t->script, request_time(t, o));
	for (size_t k = 0; k < n; k++, t->step++) {
		struct weir_store_layer e = request_layer(&o->request, source, cost);
		bool verdict[JUDGES] = {
			[XDP] = ask_xdp(t, p),
			[WORD] = ask_word(t, o, source, cost),
			[EMBEDDED] = request_one(o->store, &e, request_time(t, o)),
			[LUA] = q[k].admitted,
		};

		compare(t, o, p, cost, verdict);
		if (!verdict[EMBEDDED] && cost <= o->budget)
			o->aim_ns[source] =
				packet_time(o, request_time(t, o) + e.answer.retry_after_us);
		t->verdicts[o->kind][o->bytes][verdict[XDP]]++;
	}
}

/* --- the trace ----------------------------------------------------------------------------------------------------- */

/* Mostly one, some, or as many as go beyond the limit. */
static size_t some_packets(struct trace *t, const struct one *o, __u32 cost)
{
	size_t n = 1;

	if (pick(t, 3) == 0)
		n = 1 + pick(t, 8);
	else if (pick(t, 3) == 0)
		n = o->budget / cost + 1 + pick(t, 2 + o->budget / cost);
	return n < TRAIN ? n : TRAIN;
}

static void one_step(struct trace *t)
{
	unsigned i = (unsigned)pick(t, N_LIMITS), source = (unsigned)pick(t, SOURCES);
	struct one *o = &t->one[i];
	unsigned payload = (unsigned)(o->bytes ? pick(t, 1400) : 18);
	struct pkt p = packet_of(i, source, o->budget > 1 << 20 ? 1400 : payload);
	size_t n, now;

	pass_time(t, o, source);
	for (n = some_packets(t, o, o->bytes ? p.len : 1); n; n -= now) {
		now = n < SCRIPT_BATCH ? n : SCRIPT_BATCH;
		ask_all(t, i, source, &p, now);
	}
}

static void one_trace_through_xdp_c_and_lua(void **state)
{
	struct trace *t = *state;

	print_message("WEIR_SEED=%llu\n", t->seed);
	for (; t->round < ROUNDS; t->round++) {
		size_t end = t->step + STEPS;

		begin_round(t);
		while (t->step < end)
			one_step(t);
		end_round(t);
	}
	print_message("%zu steps\n", t->step);
	for (int k = 0; k < KINDS; k++)
		for (int b = 0; b < 2; b++) {
			const size_t *v = t->verdicts[k][b];

			print_message("%s, %s: %zu admitted, %zu refused\n", kind_name[k],
				      b ? "bytes" : "packets", v[1], v[0]);
			assert_true(v[0] > t->step / 1000 && v[1] > t->step / 1000);
		}
}

static int setup(void **state)
{
	struct trace *t = calloc(1, sizeof(*t));
	const char *seed = getenv("WEIR_SEED");

	*state = t;
	t->seed = 20240229;
	if (seed && (weir_str_u64(seed, UINT64_MAX, &t->seed) < 0 || !t->seed))
		return -1;
	return redis_start(&t->r, NULL) < 0 ? -1 : script_open(&t->script, &t->r);
}

static int teardown(void **state)
{
	struct trace *t = *state;

	end_round(t);
	script_close(&t->script);
	redis_stop(&t->r);
	free(t);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_trace_through_xdp_c_and_lua, setup, teardown),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
