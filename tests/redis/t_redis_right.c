/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each of the rights that docs/redis.md has, taken away alone: weir doctor names it, and so does the agent where it needs it
 * at the time; no client is told that it asks too often for it, nobody gets more through than the limits and
 * on_store_failure say, and all is well again when it is granted.
 */
#include <unistd.h>

#include "http/http_test.h"
#include "redis/fixture.h"
#include "redis/rights.h"

#define CLOSED ", on_store_failure: closed}\n"
#define WINDOW ", limit: 3, window: 1h" CLOSED
#define CONF                                                                                       \
	"http: {budget: 2s, listeners: [{listen: 127.0.0.1:0, profile: caddy, "                    \
	"trusted_proxies: [127.0.0.1]}]}\n"                                                        \
	"store: {url: \"redis+unix://%s\", user: weir, password_file: %s, timeout: 1s, "           \
	"breaker: {errors: 4, probe: 100ms}}\n"                                                    \
	"request_limits:\n"                                                                        \
	"  - {name: bucket, key: ip, match: {path: /bucket}, rate: 1/h, burst: 3" CLOSED           \
	"  - {name: fixed, key: ip, match: {path: /fixed}, algorithm: fixed-window" WINDOW         \
	"  - {name: log, key: ip, match: {path: /log}, algorithm: sliding-window-log" WINDOW       \
	"  - {name: counter, key: ip, match: {path: /counter}, "                                   \
	"algorithm: sliding-window-counter" WINDOW                                                 \
	"  - {name: queue, key: ip, match: {path: /queue}, algorithm: leaky-bucket, "              \
	"rate: 1000/s" CLOSED

static const char *const paths[] = {"/bucket", "/fixed", "/log", "/counter", "/queue"};
#define LIMITED 4 /* of them refuse a fourth request of the hour */
#define SPENT	"192.0.2.1"

/* Without them nothing is decided, or no list, limit or secret is there: the agent says so itself. */
static const char *const said_at_once[] = {"evalsha", "script|load", "time",	"get",	 "set",
					   "llen",    "rpush",	     "pexpire", "hmget", "hset",
					   "hgetall", "zadd",	     "xadd"};

struct lab {
	struct redis_server r;
	struct agent a;
	redisContext *c;
	struct web w;
	unsigned client; /* one that has not been there */
	char log[FILE_BYTES];
};

static int teardown(void **state)
{
	struct lab *lab = *state;

	web_close(&lab->w);
	agent_stop(&lab->a);
	if (lab->c)
		redisFree(lab->c);
	redis_stop(&lab->r);
	free(lab);
	return 0;
}

static int setup(void **state)
{
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	*state = lab;
	return redis_is_missing() ? -1 : 0;
}

/* True: all that is asked counts. */
static bool ask_all(struct lab *lab, const char *without)
{
	struct web_reply r;
	bool counts = true;
	char ip[32];

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		int status;

		lab->client++;
		(void)snprintf(ip, sizeof(ip), "10.%u.%u.%u", lab->client >> 16,
			       lab->client >> 8 & 255, lab->client & 255);
		status = ask(&lab->w, "caddy", Q(.target = paths[i], .ip = ip), &r);
		if (status != 200 && status != 503)
			fail_msg("without %s, %s: %d", without, paths[i], status);
		counts = counts && status == 200;
		if (i >= LIMITED)
			continue;
		status = ask(&lab->w, "caddy", Q(.target = paths[i], .ip = SPENT), &r);
		if (status != 429 && status != 503)
			fail_msg("without %s, %s of one that is spent: %d", without, paths[i],
				 status);
		counts = counts && status == 429;
	}
	return counts;
}

static bool says(struct lab *lab, const char *words)
{
	if (agent_cmd(&lab->a, "status") != 0)
		fail_msg("%s", lab->a.out);
	if (strstr(lab->a.out, words))
		return true;
	read_file(lab->a.log, lab->log);
	return strstr(lab->log, words);
}

static bool lists_are_told(struct lab *lab)
{
	return agent_cmd(&lab->a, "status") == 0 && strstr(lab->a.out, " 0 own changes wait") &&
	       strstr(lab->a.out, "the store is followed");
}

static void start(struct lab *lab)
{
	char text[4096], line[2048], path[160];
	struct web_reply r;

	rights_line(line, sizeof(line));
	(void)snprintf(text, sizeof(text), "user default on nopass ~* &* +@all\n%s\n", line);
	assert_int_equal(redis_file(&lab->r, "users.acl", text, path, sizeof(path)), 0);
	assert_int_equal(redis_start(&lab->r, "--aclfile", path, NULL), 0);
	lab->c = redis_open(&lab->r);
	assert_int_equal(redis_file(&lab->r, "password", "secret", path, sizeof(path)), 0);
	(void)snprintf(text, sizeof(text), CONF, lab->r.sock, path);
	must_start(&lab->a, text);
	lab->w = must_open(&lab->a, "caddy");
	/* the fleet's secret is there: from now on limits count in the store */
	assert_true(wait_for(lists_are_told(lab) && !strstr(lab->a.out, "DEGRADED"), 10000));
	for (size_t i = 0; i < LIMITED; i++)
		for (int k = 0; k < 3; k++)
			assert_int_equal(ask(&lab->w, "caddy", Q(.target = paths[i], .ip = SPENT),
					     &r),
					 200);
	assert_true(ask_all(lab, "nothing"));
}

static void set_right(struct lab *lab, const char *sign, const char *command)
{
	char right[64];
	redisReply *r;

	(void)snprintf(right, sizeof(right), "%s%s", sign, command);
	r = redis_do(lab->c, "ACL SETUSER weir %s", right);
	if (r->type == REDIS_REPLY_ERROR)
		fail_msg("%s: %s", right, r->str);
	freeReplyObject(r);
}

static void block(struct lab *lab, unsigned i)
{
	char prefix[32];

	(void)snprintf(prefix, sizeof(prefix), "203.0.113.%u", i);
	if (agent_cmd(&lab->a, "block", "add", prefix, "--for", "1h") != 0)
		fail_msg("%s", lab->a.out);
}

static bool must_say(const char *command)
{
	for (size_t i = 0; i < ARRAY_LEN(said_at_once); i++)
		if (!strcmp(said_at_once[i], command))
			return true;
	return false;
}

static void take_away(struct lab *lab, const char *command, unsigned i)
{
	char words[80], doctors[80];
	uint64_t end_ns;
	bool said = false, well = false;

	(void)snprintf(words, sizeof(words), "the user may not run %s (ACL)", command);
	(void)snprintf(doctors, sizeof(doctors), "the user may not run %s ", command);
	set_right(lab, "-", command);
	freeReplyObject(redis_do(lab->c, "CLIENT KILL USER weir"));
	(void)agent_cmd(&lab->a, "doctor", "-c", lab->a.conf);
	if (!strstr(lab->a.out, doctors))
		fail_msg("doctor does not name %s: %s", command, lab->a.out);
	if (!strcmp(command, "evalsha")) /* what it asks by */
		assert_non_null(strstr(lab->a.out, "it is not known what the user may run"));
	block(lab, i);
	end_ns = wait_now_ns() + 5000 * MS;
	do {
		well = ask_all(lab, command);
		said = says(lab, words);
		well = well && lists_are_told(lab);
	} while (!said && (!well || must_say(command)) && wait_step(end_ns));
	if (!said && (!well || must_say(command)))
		fail_msg("%s: not \"%s\": %s", command, words, lab->a.out);
	print_message("%s: %s\n", command, said ? "said by the agent too" : "not needed just now");
	set_right(lab, "+", command);
	end_ns = wait_now_ns() + 10000 * MS;
	while (!(ask_all(lab, command) && lists_are_told(lab)) && wait_step(end_ns))
		;
	if (!ask_all(lab, command) || !lists_are_told(lab))
		fail_msg("%s is granted again: %s", command, lab->a.out);
}

static void each_right_that_is_missing_is_named_and_lets_nobody_through(void **state)
{
	struct lab *lab = *state;
	char line[2048], *command, *save = NULL;
	unsigned n = 0;

	start(lab);
	(void)agent_cmd(&lab->a, "doctor", "-c", lab->a.conf);
	if (!strstr(lab->a.out, "ok    store rights"))
		fail_msg("%s", lab->a.out);
	rights_line(line, sizeof(line));
	for (command = strtok_r(line, " ", &save); command; command = strtok_r(NULL, " ", &save))
		if (command[0] == '+')
			take_away(lab, command + 1, ++n);
	assert_true(n > 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			each_right_that_is_missing_is_named_and_lets_nobody_through, setup,
			teardown),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
