/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ten thousand changes of the lists on five hosts, while agents are killed (also in the middle of a change), links cut, and
 * the server killed, away for a while, replaced by an older copy, and emptied twice while a host that alone knows the latest
 * is cut off through both. In the end all hosts list
 * the same, which is what Redis has, what each kernel has installed, and one of the outcomes that docs/redis.md allows
 * (lib/fleet_model.h); and once more after everything was killed at once and the server emptied.
 *
 *	WEIR_SEED=N    the changes and disturbances of that run, which prints it
 */
#include "netns/fleet_lists.h"

#include "lib/fleet_model.h"
#include "user/base/str.h"

#define CHANGES	    10000
#define BURST	    40 /* changes; then the store is waited for */
#define DISTURB	    40 /* one of so many changes brings something */
#define KEYS	    420
#define ORIGINS	    3
#define SHORT_UNTIL (CHANGES - 1500) /* later changes last for longer than the test */
#define EQUAL_MS    30000

/* What happens to the server, after so many changes. */
#define ORIGINS_UNTIL 2000 /* whole origins are deleted: see delete_origin */
#define KILLED_AT     2500
#define AWAY_AT	      3300
#define BACK_AT	      3600
#define ALONE_FROM    4900 /* one host alone has the store … */
#define EMPTIED_AT    5000 /* … which loses all, and from now on that one is cut off */
#define COPIED_AT     6000
#define OLDER_AT      6200 /* the copy is in its place */
#define EMPTIED_2_AT  7500
#define HELD_UNTIL    8000

static const char *const origin_names[ORIGINS] = {"command", "drop.netset", "scanners"};

struct key {
	enum weir_list list;
	char prefix[WEIR_PREFIX_STRLEN];
	struct fleet_op *op[ORIGINS];
	size_t n[ORIGINS], room[ORIGINS];
};

struct chaos {
	struct hosts *f;
	struct key key[KEYS];
	uint64_t seq;
	unsigned down_until[HOSTS]; /* change at which it is started again */
	int alone;		    /* the only host that has the store */
	int held;		    /* the host that stays cut off; -1 */
	unsigned kills, cuts, unanswered, dels;
	struct lines lines, again;
};

static __u64 seed = 88172645463325252ull, drawn;

/* What is drawn for a change, and for what happens beside it, depends on these alone: not on how fast agents come back. */
static void draw_for(unsigned change, unsigned what)
{
	drawn = seed + 2ull * change + what;
}

static unsigned below(unsigned n)
{
	uint64_t x = drawn += 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return (unsigned)((x ^ (x >> 31)) % n);
}

/* Addresses and prefixes of both families, and a few allows. */
static void make_keys(struct chaos *c)
{
	for (unsigned i = 0; i < KEYS; i++) {
		struct key *k = &c->key[i];

		k->list = i % 7 == 0 ? WEIR_LIST_ALLOW : WEIR_LIST_BLOCK;
		switch (i % 4) {
		case 0:
			(void)snprintf(k->prefix, sizeof(k->prefix), "198.18.%u.%u", i / 200,
				       i % 200);
			break;
		case 1:
			(void)snprintf(k->prefix, sizeof(k->prefix), "198.19.%u.0/24", i % 250);
			break;
		case 2:
			(void)snprintf(k->prefix, sizeof(k->prefix), "2001:db8:1::%x", i + 1);
			break;
		default:
			(void)snprintf(k->prefix, sizeof(k->prefix), "2001:db8:%x::/48", i + 16);
		}
	}
}

static void note_op(struct key *k, int origin, struct fleet_op op)
{
	if (k->n[origin] == k->room[origin]) {
		k->room[origin] = k->room[origin] ? 2 * k->room[origin] : 16;
		k->op[origin] =
			reallocarray(k->op[origin], k->room[origin], sizeof(*k->op[origin]));
		assert_non_null(k->op[origin]);
	}
	k->op[origin][k->n[origin]++] = op;
}

/* All that this host was told so far is in the store. */
static void confirm(struct chaos *c, unsigned host)
{
	for (unsigned i = 0; i < KEYS; i++)
		for (int o = 0; o < ORIGINS; o++)
			for (size_t n = 0; n < c->key[i].n[o]; n++) {
				struct fleet_op *op = &c->key[i].op[o][n];

				if (op->host == host && op->confirmed == UINT64_MAX)
					op->confirmed = c->seq + 1;
			}
}

/* --- changes ---- */

/* Sends it, and what is known of it then. */
static void send_change(struct chaos *c, struct host *h, json_t *q, struct key *k, int origin,
			struct fleet_op op, bool kill_it)
{
	uint64_t sent_ms = wall_ms();

	op.host = (unsigned)(h - c->f->host);
	op.confirmed = UINT64_MAX;
	if (kill_it) {
		tell(h, q);
		host_kill(h);
		c->kills++;
		c->unanswered++;
		op.maybe = true;
	} else {
		json_decref(ask(c->f, h, q));
		op.late_ms = wall_ms() - sent_ms;
	}
	for (int o = 0; o < ORIGINS; o++)
		if (origin < 0 || o == origin)
			note_op(k, o, op);
}

static void add(struct chaos *c, struct host *h, unsigned i, bool kill_it)
{
	struct key *k = &c->key[below(KEYS)];
	int origin = (int)below(ORIGINS);
	unsigned for_s = below(3) == 0			    ? 0
			 : below(4) == 0 && i < SHORT_UNTIL ? 1 + below(4)
							    : 3600 + 10 * below(5000);
	struct fleet_op op = {.seq = ++c->seq, .add = true, .maybe = for_s && for_s < 3600};
	char reason[32];
	json_t *q;

	(void)snprintf(reason, sizeof(reason), "change %llu", (unsigned long long)op.seq);
	q = json_pack("{s:s,s:s,s:s,s:s,s:I}", "cmd", "list_add", "list",
		      k->list == WEIR_LIST_ALLOW ? "allow" : "block", "prefix", k->prefix, "reason",
		      reason, "for_s", (json_int_t)for_s);
	if (origin)
		weir_json_set_text(q, "origin", origin_names[origin]);
	op.end_ms = for_s ? wall_ms() + for_s * 1000ull : FLEET_FOREVER;
	send_change(c, h, q, k, origin, op, kill_it);
}

static void del(struct chaos *c, struct host *h, bool kill_it)
{
	struct key *k = &c->key[below(KEYS)];
	int origin = below(2) ? (int)below(ORIGINS) : -1;
	json_t *q = json_pack("{s:s,s:s,s:s}", "cmd", "list_del", "list",
			      k->list == WEIR_LIST_ALLOW ? "allow" : "block", "prefix", k->prefix);

	if (origin >= 0)
		weir_json_set_text(q, "origin", origin_names[origin]);
	c->dels++;
	send_change(c, h, q, k, origin, (struct fleet_op){.seq = ++c->seq}, kill_it);
}

/* Every entry of an origin. It reaches what this host knows, or learns from the store before it passes the deletion on: so
 * on a host that has the store, and before the store loses anything.
 */
static void delete_origin(struct chaos *c, struct host *h)
{
	unsigned host = (unsigned)(h - c->f->host);
	struct fleet_op op = {.seq = ++c->seq, .host = host, .confirmed = UINT64_MAX};

	json_decref(ask(c->f, h,
			json_pack("{s:s,s:s,s:s}", "cmd", "list_del", "list", "block", "origin",
				  origin_names[2])));
	for (unsigned i = 0; i < KEYS; i++)
		if (c->key[i].list == WEIR_LIST_BLOCK)
			note_op(&c->key[i], 2, op);
	assert_true(wait_for(host_told_all(c->f, h), WAIT_MS));
	confirm(c, host);
	c->dels++;
}

/* --- disturbances ---- */

static void disturb(struct chaos *c, unsigned i)
{
	unsigned n = below(HOSTS);
	struct host *h = &c->f->host[n];

	if (i >= ALONE_FROM && i < EMPTIED_AT)
		return;

	switch (below(5)) {
	case 0:
		if (h->pid > 0) {
			host_kill(h);
			c->kills++;
			c->down_until[n] = i + below(150);
		}
		break;
	case 1:
	case 2:
		c->cuts += !h->cut;
		host_cut(c->f, h);
		break;
	default:
		if ((int)n != c->held)
			host_heal(c->f, h);
	}
}

/* What is said on host @n from now on no other hears. */
static void leave_alone(struct chaos *c, unsigned n)
{
	c->alone = (int)n;
	host_heal(c->f, &c->f->host[n]);
	for (unsigned i = 0; i < HOSTS; i++)
		if (i != n)
			host_cut(c->f, &c->f->host[i]);
}

/* It has said all of it to the store, and goes; the others come back. */
static void hold(struct chaos *c)
{
	struct host *h = &c->f->host[c->alone];

	if (h->pid <= 0)
		host_start(h);
	host_must_be_up(c->f, h);
	assert_true(wait_for(host_told_all(c->f, h), WAIT_MS));
	confirm(c, (unsigned)c->alone);
	c->held = c->alone;
	host_cut(c->f, h);
	for (int i = 0; i < HOSTS; i++)
		if (i != c->held)
			host_heal(c->f, &c->f->host[i]);
}

static void happen(struct chaos *c, unsigned i)
{
	bool runs = false;

	switch (i) {
	case KILLED_AT:
		server_restart(c->f, SERVER_DATA);
		break;
	case AWAY_AT:
		redis_kill(&c->f->redis);
		break;
	case BACK_AT:
		server_start(c->f);
		break;
	case ALONE_FROM:
		leave_alone(c, below(HOSTS));
		break;
	case EMPTIED_AT:
		hold(c);
		server_restart(c->f, SERVER_NOTHING);
		break;
	case COPIED_AT:
		server_copy(c->f);
		break;
	case OLDER_AT:
		server_restart(c->f, SERVER_COPY);
		break;
	case EMPTIED_2_AT:
		server_restart(c->f, SERVER_NOTHING);
		break;
	case HELD_UNTIL:
		c->held = -1;
		host_heal(c->f, &c->f->host[c->alone]);
		break;
	default:
		break;
	}
	for (unsigned n = 0; n < HOSTS; n++)
		runs = runs || c->f->host[n].pid > 0;
	for (unsigned n = 0; n < HOSTS; n++)
		if (c->f->host[n].pid <= 0 && (!runs || i >= c->down_until[n]))
			host_start(&c->f->host[n]);
}

static bool any_up(struct chaos *c)
{
	for (int i = 0; i < HOSTS; i++)
		if (host_up(&c->f->host[i]))
			return true;
	return false;
}

static struct host *pick_up(struct chaos *c)
{
	struct host *h = &c->f->host[below(HOSTS)];

	while (!host_up(h))
		h = &c->f->host[(h - c->f->host + 1) % HOSTS];
	return h;
}

/* So that changes meet each other in the store as often as on their way there. */
static void wait_for_store(struct chaos *c)
{
	struct host *h = pick_up(c);

	if (h->cut || c->f->redis.pid <= 0)
		return;
	if (wait_for(host_told_all(c->f, h), 2000))
		confirm(c, (unsigned)(h - c->f->host));
}

static void change(struct chaos *c, unsigned i)
{
	struct host *h;
	bool kill_it;

	draw_for(i, 0);
	h = pick_up(c);
	kill_it = below(300) == 0;
	if (below(200) == 0 && i < ORIGINS_UNTIL && !h->cut)
		delete_origin(c, h);
	else if (below(3) == 0)
		del(c, h, kill_it);
	else
		add(c, h, i, kill_it);
	if (h->pid <= 0)
		c->down_until[h - c->f->host] = i + below(150);
}

static void change_and_disturb(struct chaos *c)
{
	for (unsigned i = 0; i < CHANGES; i++) {
		draw_for(i, 1);
		happen(c, i);
		if (below(DISTURB) == 0)
			disturb(c, i);
		assert_true(wait_for(any_up(c), WAIT_MS));
		change(c, i);
		if (i % BURST == 0)
			wait_for_store(c);
	}
}

static void heal_all(struct chaos *c)
{
	for (int i = 0; i < HOSTS; i++) {
		struct host *h = &c->f->host[i];

		host_heal(c->f, h);
		if (h->pid <= 0)
			host_start(h);
	}
}

/* --- equal? ---- */

static bool all_equal(struct chaos *c, struct lines *l)
{
	for (int i = 0; i < HOSTS; i++)
		if (!host_up(&c->f->host[i]) || !host_settled(c->f, &c->f->host[i]))
			return false;
	read_server(c->f, l);
	for (int i = 0; i < HOSTS; i++)
		if (!lists_equal(c->f, &c->f->host[i], l, false) ||
		    !installed_equal(&c->f->host[i], l))
			return false;
	return true;
}

static void say_difference(struct chaos *c, const struct lines *l)
{
	for (int i = 0; i < HOSTS; i++) {
		struct host *h = &c->f->host[i];
		_cleanup_json_ json_t *s = host_up(h) ? ask(c->f, h, request("status")) : NULL;
		json_t *fleet = json_object_get(s, "fleet");

		print_message("%s: %s, waiting %lld, behind %lld; lists %s, kernel %s\n", h->name,
			      s ? weir_json_text_of(fleet, "state") : "down",
			      (long long)weir_json_u64_of(fleet, "waiting"),
			      (long long)weir_json_u64_of(fleet, "behind"),
			      s && lists_equal(c->f, h, l, true) ? "as Redis" : "OTHERS",
			      installed_equal(h, l) ? "as Redis" : "OTHERS");
	}
}

/* --- what must be there ---- */

static struct fleet_seen seen_of(const struct lines *l, const struct key *k, int origin)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct line *x = &l->at[i];
		struct fleet_seen seen = {.there = true, .end_ms = x->end_ms};
		__u64 last = 0;

		if (x->key.list != k->list || strcmp(x->prefix, k->prefix) != 0 ||
		    strcmp(x->origin, origin_names[origin]) != 0)
			continue;
		if (!strncmp(x->reason, "change ", 7))
			(void)weir_str_u64(x->reason + 7, UINT64_MAX, &last); /* 0: nobody's */
		seen.last = last;
		return seen;
	}
	return (struct fleet_seen){};
}

static void say_ops(const struct key *k, int origin, const struct fleet_seen *seen, uint64_t now_ms,
		    const char *what)
{
	print_message("%s %s by %s is %s: ", k->list == WEIR_LIST_ALLOW ? "allow" : "block",
		      k->prefix, origin_names[origin], what);
	if (seen->there)
		print_message("there, %lld s more, by change %llu\n",
			      seen->end_ms == FLEET_FOREVER
				      ? -1
				      : (long long)(seen->end_ms - now_ms) / 1000,
			      (unsigned long long)seen->last);
	else
		print_message("not there\n");
	for (size_t i = 0; i < k->n[origin]; i++) {
		const struct fleet_op *o = &k->op[origin][i];

		print_message("  %llu %s on host%u%s", (unsigned long long)o->seq,
			      o->add ? "add" : "del", o->host, o->maybe ? " (maybe)" : "");
		if (o->add && o->end_ms != FLEET_FOREVER)
			print_message(", %lld s more", (long long)(o->end_ms - now_ms) / 1000);
		if (o->confirmed != UINT64_MAX)
			print_message(", before %llu", (unsigned long long)o->confirmed);
		print_message("\n");
	}
}

/* Returns how many are not as the contract allows. */
static unsigned judge_all(struct chaos *c)
{
	uint64_t now_ms = wall_ms();
	unsigned wrong = 0, there = 0;

	for (unsigned i = 0; i < KEYS; i++)
		for (int o = 0; o < ORIGINS; o++) {
			const struct key *k = &c->key[i];
			struct fleet_seen seen = seen_of(&c->lines, k, o);
			const char *what = fleet_judge(k->op[o], k->n[o], &seen, now_ms);

			there += seen.there;
			if (what && wrong++ < 10)
				say_ops(k, o, &seen, now_ms, what);
		}
	assert_int_equal(there, c->lines.n); /* and no others */
	return wrong;
}

/* Nobody had to put right what the kernel has. */
static void check_unrepaired(struct hosts *f)
{
	for (int i = 0; i < HOSTS; i++) {
		_cleanup_json_ json_t *s = ask(f, &f->host[i], request("status"));
		const json_t *n = json_object_get(json_object_get(s, "losses"), "lists_repaired");

		assert_non_null(n);
		assert_int_equal(json_integer_value(n), 0);
	}
}

/* --- the test ---- */

static void kill_all_and_empty(struct chaos *c)
{
	for (int i = 0; i < HOSTS; i++)
		host_kill(&c->f->host[i]);
	server_restart(c->f, SERVER_NOTHING);
	heal_all(c);
}

static void same_lines(const struct lines *a, const struct lines *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		assert_string_equal(a->at[i].text, b->at[i].text);
		assert_int_equal(a->at[i].end_ms, b->at[i].end_ms);
	}
}

static void ten_thousand_changes_end_up_equal_everywhere(void **state)
{
	struct chaos *c = calloc(1, sizeof(*c));
	uint64_t began_ns, healed_ns, equal_ns;
	unsigned wrong;

	assert_non_null(c);
	c->f = *state;
	c->held = -1;
	make_keys(c);
	print_message("WEIR_SEED=%llu\n", (unsigned long long)seed);
	began_ns = wait_now_ns();
	change_and_disturb(c);
	heal_all(c);
	healed_ns = wait_now_ns();
	if (!wait_for(all_equal(c, &c->lines), EQUAL_MS)) {
		say_difference(c, &c->lines);
		fail_msg("they are not equal");
	}
	equal_ns = wait_now_ns();
	print_message(
		"%d changes (%u deletions) in %llu ms, %llu a second; %u agents killed, %u of "
		"them in the middle of a change, %u links cut; equal %llu ms after the last "
		"was healed: %zu entries\n",
		CHANGES, c->dels, (unsigned long long)(healed_ns - began_ns) / 1000000,
		(unsigned long long)(CHANGES * 1000000000ull / (healed_ns - began_ns)), c->kills,
		c->unanswered, c->cuts, (unsigned long long)(equal_ns - healed_ns) / 1000000,
		c->lines.n);
	wrong = judge_all(c);
	if (wrong)
		fail_msg("%u entries are not as they may be", wrong);
	check_unrepaired(c->f);
	kill_all_and_empty(c);
	healed_ns = wait_now_ns();
	if (!wait_for(all_equal(c, &c->again), EQUAL_MS)) {
		say_difference(c, &c->again);
		fail_msg("they are not equal after all were killed");
	}
	print_message("all killed at once, the server empty: equal again after %llu ms\n",
		      (unsigned long long)(wait_now_ns() - healed_ns) / 1000000);
	same_lines(&c->lines, &c->again);
	for (unsigned i = 0; i < KEYS; i++)
		for (int o = 0; o < ORIGINS; o++)
			free(c->key[i].op[o]);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ten_thousand_changes_end_up_equal_everywhere,
						hosts_set_up, hosts_tear_down),
	};

	if (run_lacks_root())
		return 77;
	if (getenv("WEIR_SEED") && weir_str_u64(getenv("WEIR_SEED"), UINT64_MAX, &seed) < 0)
		return 2;
	run_program("weir", weir_path, sizeof(weir_path));
	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
