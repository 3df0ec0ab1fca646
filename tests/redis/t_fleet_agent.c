/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One agent over a datapath in memory, and another host's fleet beside it, on a real server: what reaches the kernel's
 * lists, what this host keeps out of them, and what a restart without the server keeps.
 */
#include "lib/prefix.h"
#include "unit/agent_case.h"

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/redis.h"
#include "lib/wait.h"
#include "user/agent/shared.h"
#include "user/redis/redis.h"

static struct redis_server server;
static struct weir_fleet *other;

static void on_changed(void *arg, const struct weir_fleet_key *key, size_t n)
{
	(void)arg;
	(void)key;
	(void)n;
}

static int on_secret(void *arg, const __u8 secret[WEIR_FLEET_SECRET_BYTES])
{
	memcpy(arg, secret, WEIR_FLEET_SECRET_BYTES);
	return 0;
}

static void on_limits(void *arg, const struct weir_fleet_limits *l)
{
	(void)arg;
	(void)l;
}

static void on_describe(void *arg, struct weir_fleet_self *ret)
{
	(void)arg;
	ret->generation = 1;
}

static __u8 others_secret[WEIR_FLEET_SECRET_BYTES];

/* Another host, on the agent's loop. */
static void start_other(struct fix *f)
{
	static const struct weir_fleet_ops ops = {on_changed, on_secret, on_limits, on_describe};
	struct weir_redis_options redis = {
		.prefix = "weir:",
		.timeout_ns = 50000000,
		.breaker_errors = 20,
		.breaker_within_ns = 1000000000,
		.probe_ns = 100000000,
		.batch_max = 64,
		.waiting_max = 1000,
		.quiet = true,
	};
	struct weir_fleet_options o = {.base = f->a->base,
				       .redis = &redis,
				       .host = "otherhost",
				       .instance = "weir",
				       .lists = true,
				       .ops = &ops,
				       .arg = others_secret};
	struct weir_redis_url u;
	char url[160], *note = NULL;

	(void)snprintf(url, sizeof(url), "redis+unix://%s", server.sock);
	assert_int_equal(weir_redis_url_parse(url, &u, &f->e), 0);
	redis.url = &u;
	assert_int_equal(weir_fleet_new(&o, &other, &note, &f->e), 0);
	weir_redis_url_done(&u);
}

#define TAIL "lists:\n  allow: [192.0.2.0/28]\n  never_block: [203.0.113.0/24]\n" LIMIT

static void stop_other(void)
{
	if (other)
		weir_fleet_free(other);
	other = NULL;
}

static void write_fleet_conf(struct fix *f, const char *more)
{
	char text[2048];

	(void)snprintf(text, sizeof(text), "store:\n  url: redis+unix://%s\n%s" TAIL, server.sock,
		       more);
	write_conf(f, text);
}

static int set_up(void **state)
{
	struct fix *f;

	(void)signal(SIGPIPE, SIG_IGN); /* as weir run has it */
	if (make_case(state) || redis_start(&server, NULL) < 0)
		return -1;
	f = *state;
	write_fleet_conf(f, "");
	if (start(f) < 0) {
		print_message("%s\n", f->e.text);
		return -1;
	}
	start_other(f);
	return 0;
}

static int take_down(void **state)
{
	stop_other();
	redis_stop(&server);
	memset(&server, 0, sizeof(server));
	return tear_down(state);
}

#define until(f, cond, timeout_ms)                                                                 \
	({                                                                                         \
		uint64_t end_ns_ = wait_now_ns() + (uint64_t)(timeout_ms)*1000000ull;              \
		struct timeval step_ = {.tv_usec = 1000};                                          \
                                                                                                   \
		while (!(cond) && wait_now_ns() < end_ns_) {                                       \
			(void)event_base_loopexit((f)->a->base, &step_);                           \
			(void)event_base_loop((f)->a->base, 0);                                    \
		}                                                                                  \
		(cond);                                                                            \
	})

static struct weir_fleet_key key_of(const char *text)
{
	struct weir_fleet_key k = {.list = WEIR_LIST_BLOCK, .prefix = prefix_of(text)};

	return k;
}

static void other_adds(const char *prefix, __u64 for_ms, __u32 flags)
{
	struct weir_fleet_entry e = {.origin = "command",
				     .host = "",
				     .who = "root",
				     .reason = "from the other",
				     .flags = flags,
				     .end_ms = for_ms ? weir_fleet_now_ms(other) + for_ms : 0};
	struct weir_fleet_key k = key_of(prefix);

	assert_int_equal(weir_fleet_add(other, &k, 1, &e, NULL), 0);
}

static bool other_has(const char *prefix)
{
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
	struct weir_fleet_key k = key_of(prefix);

	return weir_fleet_get(other, &k, e) != 0;
}

static bool follows(struct fix *f)
{
	struct weir_fleet_status a, b;

	weir_fleet_status(f->a->fleet, &a);
	weir_fleet_status(other, &b);
	return a.state == WEIR_FLEET_FOLLOWS && b.state == WEIR_FLEET_FOLLOWS && !a.waiting &&
	       !b.waiting;
}

/* The entry of that prefix as `weir block list --json` has it; NULL: there is none. */
static json_t *shown(struct fix *f, const char *prefix)
{
	_cleanup_json_ json_t *j = ask(f, "{'cmd':'list_show','list':'block'}");
	json_t *e;
	size_t i;

	json_array_foreach(json_object_get(j, "entries"), i, e)
		if (!strcmp(weir_json_text_of(e, "prefix"), prefix))
			return json_incref(e);
	return NULL;
}

static void a_block_reaches_the_kernel_of_another_host_and_ends_there(void **state)
{
	struct fix *f = *state;
	struct weir_list_item *i;

	assert_true(until(f, follows(f), 5000));
	other_adds("198.51.100.9", 600000, 0);
	assert_true(until(f, dp_has(WEIR_LIST_BLOCK, "198.51.100.9"), 2000));
	i = dp_has(WEIR_LIST_BLOCK, "198.51.100.9");
	assert_in_range(i->expires_ns - weir_now().mono_ns, 590 * WEIR_NS_PER_S,
			601 * WEIR_NS_PER_S);
	{
		_cleanup_json_ json_t *e = shown(f, "198.51.100.9");

		assert_string_equal(weir_json_text_of(e, "host"), "otherhost");
		assert_string_equal(weir_json_text_of(e, "reason"), "from the other");
		assert_true(weir_json_bool_of(e, "fleet"));
	}
	does(f, "{'cmd':'list_add','list':'block','prefix':'198.51.100.10','for_s':60}");
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.10")); /* here at once */
	assert_true(until(f, other_has("198.51.100.10"), 2000));
	does(f, "{'cmd':'list_del','list':'block','prefix':'198.51.100.9'}");
	assert_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.9"));
	assert_true(until(f, !other_has("198.51.100.9"), 2000));
	does(f, "{'cmd':'list_del','list':'block','prefix':'198.51.100.200'}");
}

static void without_the_server_blocks_act_and_outlive_a_restart(void **state)
{
	struct fix *f = *state;

	assert_true(until(f, follows(f), 5000));
	other_adds("198.51.100.9", 600000, 0);
	assert_true(until(f, dp_has(WEIR_LIST_BLOCK, "198.51.100.9"), 2000));
	stop_other();
	redis_kill(&server);
	assert_true(until(f, is_degraded(f, "the store does not answer"), 5000));
	{
		_cleanup_json_ json_t *j = ask(
			f,
			"{'cmd':'list_add','list':'block','prefix':'198.51.100.11','for_s':600}");

		assert_non_null(
			strstr(json_string_value(json_array_get(json_object_get(j, "notes"), 0)),
			       "the other hosts get it"));
	}
	does(f, "{'cmd':'list_add','list':'allow','prefix':'198.51.100.12'}");
	dp.n[WEIR_LIST_BLOCK] = dp.n[WEIR_LIST_ALLOW] = 0; /* a reboot */
	restart(f);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.9"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.11"));
	assert_non_null(dp_has(WEIR_LIST_ALLOW, "198.51.100.12"));
	assert_in_range(dp_has(WEIR_LIST_BLOCK, "198.51.100.9")->expires_ns - weir_now().mono_ns,
			580 * WEIR_NS_PER_S, 601 * WEIR_NS_PER_S);
	assert_int_equal(redis_start(&server, NULL), 0); /* empty */
	start_other(f);
	assert_true(until(f, other_has("198.51.100.9") && other_has("198.51.100.11"), 5000));
}

static void what_this_host_guards_or_allows_is_never_blocked_by_others(void **state)
{
	struct fix *f = *state;

	assert_true(until(f, follows(f), 5000));
	other_adds("203.0.113.5", 0, WEIR_ENTRY_FORCE); /* forced there */
	other_adds("192.0.2.7", 0, 0);
	other_adds("203.0.0.0/16", 0, 0); /* covers the guard, which stays reachable */
	other_adds("198.51.100.9", 0, 0);
	assert_true(until(f, dp_has(WEIR_LIST_BLOCK, "198.51.100.9"), 2000));
	assert_null(dp_has(WEIR_LIST_BLOCK, "203.0.113.5"));
	assert_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.7"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "203.0.0.0/16"));
	assert_int_equal(dp_has(WEIR_LIST_BLOCK, "203.0.0.0/16")->flags, 0);
	{
		_cleanup_json_ json_t *e = shown(f, "203.0.113.5"), *s = ask(f, "{'cmd':'status'}");

		assert_true(weir_json_bool_of(e, "held"));
		assert_int_equal(weir_json_u64_of(json_object_get(s, "fleet"), "held"), 2);
	}
	/* the file changes its mind */
	{
		char text[2048];

		(void)snprintf(text, sizeof(text), "store:\n  url: redis+unix://%s\n" LIMIT,
			       server.sock);
		write_conf(f, text);
	}
	does(f, "{'cmd':'reload'}");
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "203.0.113.5"));
	assert_int_equal(dp_has(WEIR_LIST_BLOCK, "203.0.113.5")->flags, 0);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.7"));
	write_fleet_conf(f, "");
	does(f, "{'cmd':'reload'}");
	assert_null(dp_has(WEIR_LIST_BLOCK, "203.0.113.5"));
	assert_null(dp_has(WEIR_LIST_BLOCK, "192.0.2.7"));
	/* what is in a file stays this host's */
	assert_false(other_has("192.0.2.0/28"));
}

static void a_host_that_was_alone_brings_its_entries(void **state)
{
	struct fix *f = *state;

	weir_fleet_free(other);
	other = NULL;
	stop(f);
	{
		char path[160];

		(void)snprintf(path, sizeof(path), "%s/state/weir-fleet.db", f->dir);
		(void)unlink(path);
	}
	write_conf(f, LIMIT);
	assert_int_equal(start(f), 0);
	does(f, "{'cmd':'list_add','list':'block','prefix':'198.51.100.20','reason':'old'}");
	does(f, "{'cmd':'list_add','list':'block','prefix':'198.51.100.21','for_s':600}");
	refuses(f, "{'cmd':'limit_push'}", "embedded", 2);
	write_fleet_conf(f, "");
	refuses(f, "{'cmd':'reload'}", "restart", 2);
	restart(f);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.20"));
	start_other(f);
	assert_true(until(f, other_has("198.51.100.20") && other_has("198.51.100.21"), 5000));
	does(f, "{'cmd':'list_del','list':'block','prefix':'198.51.100.20'}");
	stop_other();
	restart(f);
	assert_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.20"));
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.21"));
}

static void a_kernel_that_refuses_is_told_again(void **state)
{
	struct fix *f = *state;

	assert_true(until(f, follows(f), 5000));
	dp.fail_list_add = -ENOSPC;
	other_adds("198.51.100.9", 0, 0);
	assert_true(until(f, is_degraded(f, "not in force as they are"), 3000));
	dp.fail_list_add = 0;
	other_adds("198.51.100.10", 0, 0);
	assert_true(until(f,
			  dp_has(WEIR_LIST_BLOCK, "198.51.100.9") &&
				  dp_has(WEIR_LIST_BLOCK, "198.51.100.10"),
			  3000));
	assert_false(is_degraded(f, "not in force as they are"));
}

/* @n entries of 10.0.0.0/8 that nobody has made room for, as if this host's file had filled the list. */
static void fill_store(unsigned n)
{
	static const char script[] =
		"local last = redis.call('HGET', KEYS[1], 'last') "
		"for i = 0, ARGV[1] - 1 do redis.call('HSET', KEYS[1], string.format("
		"'block 10.%d.%d.%d', math.floor(i / 65536), math.floor(i / 256) % 256, i % 256), "
		"last .. ' 0\\n' .. last .. '\\t0\\t0\\t1\\t0\\tcommand\\th\\tw\\tr\\n') end "
		"redis.call('DEL', KEYS[2]) redis.call('HINCRBY', KEYS[1], 'n', 1)";
	redisContext *c = redis_open(&server);
	redisReply *r = redis_do(c, "EVAL %s 2 weir:{fleet}:1:list weir:{fleet}:1:changes %d",
				 script, (int)n);

	if (r->type == REDIS_REPLY_ERROR)
		fail_msg("%s", r->str);
	freeReplyObject(r);
	redisFree(c);
}

static size_t blocked(struct fix *f)
{
	return weir_book_count(f->a->book, WEIR_LIST_BLOCK, 4);
}

static void of_lists_that_do_not_fit_the_latest_act(void **state)
{
	struct fix *f = *state;
	size_t n = 0;

	assert_true(until(f, follows(f), 5000));
	fill_store(WEIR_LIST_ROOM + 100);
	assert_true(until(f, blocked(f) == WEIR_LIST_ROOM, 30000));
	assert_true(is_degraded(f, "100 of their entries are left out"));
	assert_true(until(f, follows(f), 30000));
	other_adds("198.51.100.9", 0, 0);
	assert_true(until(f, dp_has(WEIR_LIST_BLOCK, "198.51.100.9"), 8000));
	assert_int_equal(blocked(f), WEIR_LIST_ROOM);
	for (int i = 0; i < 102; i++) {
		struct weir_fleet_key k;
		char prefix[32];

		(void)snprintf(prefix, sizeof(prefix), "10.0.0.%d", i);
		k = key_of(prefix);
		assert_int_equal(weir_fleet_del(other, &k, NULL, &n, NULL), 0);
	}
	assert_true(until(f, !is_degraded(f, "left out"), 10000));
	assert_int_equal(blocked(f), WEIR_LIST_ROOM - 1);
	assert_non_null(dp_has(WEIR_LIST_BLOCK, "198.51.100.9"));
}

static void a_changed_store_waits_for_the_next_start_and_is_told(void **state)
{
	struct fix *f = *state;
	json_t *j;

	write_fleet_conf(f, "  prefix: \"other:\"\n");
	j = ask(f, "{'cmd':'reload'}");
	assert_true(weir_json_bool_of(j, "ok"));
	assert_int_equal(json_array_size(json_object_get(j, "changes")), 1);
	json_decref(j);
	assert_true(is_degraded(f, "the store is reached as before until the next start"));
	write_fleet_conf(f, "");
	j = ask(f, "{'cmd':'reload'}");
	assert_int_equal(json_array_size(json_object_get(j, "changes")), 0);
	json_decref(j);
	assert_false(is_degraded(f, "the store is reached as before"));
	write_fleet_conf(f, "  timeout: 7ms\n");
	does(f, "{'cmd':'reload'}");
	assert_true(is_degraded(f, "the store is reached as before"));
	stop_other(); /* it is on the loop of the agent that goes */
	restart(f);
	assert_false(is_degraded(f, "the store is reached as before"));
}

/* The fleet and the listeners that a reload brings: one store. */
static void the_first_listeners_of_a_reload_have_the_store_of_the_start(void **state)
{
	struct fix *f = *state;

	assert_null(f->a->l7);
	assert_false(is_degraded(f, "secret")); /* there are no requests yet */
	write_fleet_conf(f, "  prefix: \"other:\"\n"
			    "http: {listeners: [{listen: 127.0.0.1:0, profile: nginx}]}\n");
	does(f, "{'cmd':'reload'}");
	assert_non_null(f->a->l7);
	assert_string_equal(weir_shared_redis(f->a->shared)->prefix, "weir:");
	assert_true(is_degraded(f, "the store is reached as before until the next start"));
	write_fleet_conf(f, "  prefix: \"other:\"\n");
	does(f, "{'cmd':'reload'}");
	assert_null(f->a->l7);
}

/* --- limits ---- */

static void publish(struct fix *f, const char *text)
{
	struct weir_error e = {};

	if (weir_fleet_publish(other, text, "root", NULL, NULL, &e) < 0)
		fail_msg("%s", e.text);
	(void)f;
}

static __u64 rate_of(struct fix *f, const char *name)
{
	for (size_t i = 0; i < f->a->conf->n_limits; i++)
		if (!strcmp(f->a->conf->limits[i].name, name))
			return f->a->conf->limits[i].rate;
	return 0;
}

/* Is one of @lines a warning of @words? */
static bool warns(const json_t *lines, const char *words)
{
	json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
		if (strstr(json_string_value(line), words))
			return true;
	return false;
}

static bool diff_warns(struct fix *f, const char *words)
{
	_cleanup_json_ json_t *j = ask(f, "{'cmd':'limit_diff'}");

	return warns(json_object_get(json_object_get(j, "store"), "problems"), words);
}

static void limits_of_the_store_are_warned_of_like_the_files(void **state)
{
	static const char words[] = "warning: ipv6_prefix: 128 counts each";
	struct fix *f = *state;
	_cleanup_json_ json_t *pulled = NULL;

	assert_true(until(f, follows(f), 5000));
	publish(f,
		"packet_limits:\n- {name: per-source, per: source, rate: 5/s, ipv6_prefix: 128}\n");
	assert_true(until(f, diff_warns(f, words), 2000));
	pulled = ask(f, "{'cmd':'limit_pull'}");
	assert_true(warns(json_object_get(pulled, "problems"), words));
	assert_false(diff_warns(f, words)); /* it is what is in force */
}

/* As `weir limit pull` asks, over the agent's socket. */
static void pull_by_socket(struct fix *f, char *reply, size_t size)
{
	static const char request[] = "{\"cmd\":\"limit_pull\"}\n";
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	ssize_t n;

	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s/admin.sock", f->dir);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(write(fd, request, sizeof(request) - 1), sizeof(request) - 1);
	assert_true(until(f, recv(fd, reply, 1, MSG_DONTWAIT | MSG_PEEK) == 1, 5000));
	n = recv(fd, reply, size - 1, MSG_DONTWAIT);
	assert_true(n > 0);
	reply[n] = '\0';
}

static void what_was_pushed_a_moment_ago_is_pulled(void **state)
{
	struct fix *f = *state;
	struct weir_fleet_limits l = {};
	char reply[2048];

	assert_true(until(f, follows(f), 5000));
	publish(f, "packet_limits:\n- {name: per-source, per: source, rate: 5/s}\n");
	assert_true(until(f, (weir_fleet_limits(other, &l), l.generation == 1), 2000));
	pull_by_socket(f, reply, sizeof(reply));
	if (!strstr(reply, "\"generation\":1") && !strstr(reply, "\"generation\": 1"))
		fail_msg("%s", reply);
	assert_int_equal(rate_of(f, "per-source"), 5);
	stop_other();
	redis_kill(&server);
	assert_true(until(f, is_degraded(f, "the store does not answer"), 5000));
	pull_by_socket(f, reply, sizeof(reply));
	assert_non_null(strstr(reply, "it is the last that this host heard of"));
}

static void published_limits_are_followed_and_wrong_ones_are_not(void **state)
{
	struct fix *f = *state;

	assert_true(until(f, follows(f), 5000));
	publish(f, "packet_limits:\n- {name: per-source, per: source, rate: 5/s}\n");
	assert_false(until(f, rate_of(f, "per-source") == 5, 700)); /* limits_from: file */
	refuses(f, "{'cmd':'limit_set','name':'nobody','set':{'rate':'1/s'}}", "nobody", 2);
	does(f, "{'cmd':'limit_pull'}");
	assert_int_equal(rate_of(f, "per-source"), 5);
	does(f, "{'cmd':'limit_set','name':'per-source','set':{'rate':'6/s'}}");
	assert_int_equal(rate_of(f, "per-source"), 6); /* set is over the store's */
	write_fleet_conf(f, "  fleet: {limits_from: store}\n");
	does(f, "{'cmd':'reload'}");
	assert_int_equal(rate_of(f, "per-source"), 5);
	assert_true(until(f, follows(f), 2000));
	publish(f, "packet_limits:\n- {name: per-source, per: source, rate: 7/s}\n"
		   "- {name: syn, per: source, rate: 100/s}\n");
	assert_true(until(f, rate_of(f, "per-source") == 7 && rate_of(f, "syn") == 100, 2000));
	assert_true(until(f, follows(f), 2000));
	publish(f, "packet_limits:\n- {name: per-source, per: source, rate: nonsense}\n");
	assert_true(until(f, is_degraded(f, "generation 3 of the limits is wrong here"), 2000));
	assert_true(is_degraded(f, "generation 3:2:")); /* the line of what was published */
	assert_int_equal(rate_of(f, "per-source"), 7);
	publish(f, "mode: monitor\n");
	assert_true(until(f, is_degraded(f, "hold other settings too"), 2000));
	refuses(f, "{'cmd':'limit_pull'}", "other settings", 2);
	/* without the server, the last good ones */
	stop_other();
	redis_kill(&server);
	restart(f);
	assert_int_equal(rate_of(f, "per-source"), 7);
	{
		_cleanup_json_ json_t *j = ask(f, "{'cmd':'limit_diff'}");

		assert_int_equal(weir_json_u64_of(json_object_get(j, "store"), "in_force"), 2);
	}
}

static void the_key_secret_is_the_fleets(void **state)
{
	struct fix *f = *state;
	char text[2048];

	stop(f);
	weir_fleet_free(other);
	other = NULL;
	(void)snprintf(text, sizeof(text),
		       "store: {url: \"redis+unix://%s\"}\nhttp: {listeners: [{listen: "
		       "127.0.0.1:0, profile: nginx}]}\n" TAIL,
		       server.sock);
	write_conf(f, text);
	assert_int_equal(start(f), 0);
	start_other(f);
	assert_true(until(f,
			  l7.secrets && !memcmp(l7.secret, others_secret, sizeof(l7.secret)) &&
				  l7.agents == 2,
			  6000));
	{
		unsigned char was[sizeof(l7.secret)];
		unsigned before = l7.secrets;

		memcpy(was, l7.secret, sizeof(was));
		weir_fleet_free(other);
		other = NULL;
		redis_kill(&server);
		restart(f); /* known without the server */
		assert_int_equal(l7.secrets, before + 1);
		assert_memory_equal(l7.secret, was, sizeof(was));
	}
}

static void a_host_without_an_interface_says_that_a_block_is_for_others(void **state)
{
	struct fix *f = *state;
	char text[2048];

	stop(f);
	weir_fleet_free(other);
	other = NULL;
	(void)snprintf(text, sizeof(text),
		       "interfaces: []\nstate_dir: %s/state\nadmin: {listen: %s/admin.sock}\n"
		       "store: {url: \"redis+unix://%s\"}\n"
		       "http: {listeners: [{listen: 127.0.0.1:0, profile: nginx}]}\n",
		       f->dir, f->dir, server.sock);
	write_file(f->conf, text);
	assert_int_equal(start(f), 0);
	start_other(f);
	assert_true(until(f, follows(f), 5000));
	assert_true(until(f, follows(f), 5000));
	{
		_cleanup_json_ json_t *j = ask(
			f,
			"{'cmd':'list_add','list':'block','prefix':'198.51.100.13','for_s':600}");
		const char *note =
			json_string_value(json_array_get(json_object_get(j, "notes"), 0));

		assert_non_null(note);
		assert_non_null(strstr(note, "this host changes nothing by it"));
	}
	assert_true(until(f, other_has("198.51.100.13"), 2000));
	{
		_cleanup_json_ json_t *j = ask(f, "{'cmd':'explain','ip':'198.51.100.13'}"),
				      *free_one = ask(f, "{'cmd':'explain','ip':'198.51.100.14'}");

		assert_null(weir_json_text_of(j, "verdict")); /* this host judges no packets */
		assert_string_equal(weir_json_text_of(j, "fleet_verdict"), "drop");
		assert_string_equal(weir_json_text_of(j, "lift"), "weir block del 198.51.100.13");
		assert_non_null(strstr(weir_json_text_of(j, "why"), "is on the block list"));
		assert_true(weir_json_u64_of(j, "rest_ms") > 590000);
		assert_int_equal(json_array_size(json_object_get(j, "lists")), 1);
		assert_null(weir_json_text_of(free_one, "fleet_verdict"));
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, take_down)
	const struct CMUnitTest tests[] = {
		TEST(a_block_reaches_the_kernel_of_another_host_and_ends_there),
		TEST(without_the_server_blocks_act_and_outlive_a_restart),
		TEST(what_this_host_guards_or_allows_is_never_blocked_by_others),
		TEST(a_host_that_was_alone_brings_its_entries),
		TEST(a_kernel_that_refuses_is_told_again),
		TEST(limits_of_the_store_are_warned_of_like_the_files),
		TEST(of_lists_that_do_not_fit_the_latest_act),
		TEST(a_changed_store_waits_for_the_next_start_and_is_told),
		TEST(the_first_listeners_of_a_reload_have_the_store_of_the_start),
		TEST(what_was_pushed_a_moment_ago_is_pulled),
		TEST(published_limits_are_followed_and_wrong_ones_are_not),
		TEST(the_key_secret_is_the_fleets),
		TEST(a_host_without_an_interface_says_that_a_block_is_for_others),
	};

	if (redis_is_missing())
		return 77;
	quiet = fopen("/dev/null", "we");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
