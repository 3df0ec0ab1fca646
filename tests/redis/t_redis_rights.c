/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rights that docs/redis.md tells an operator to grant are enough for all that an agent does, and none is missing for
 * a command of a script.
 */
#include <ctype.h>
#include <glob.h>

#include "redis/cluster_case.h"
#include "redis/rights.h"

#include "lib/agent.h"
#include "user/base/str.h"

struct lab {
	struct redis_server r;
	struct cluster k;
	struct fix f;
	struct agent a;
	char line[2048]; /* of the page, with a password */
};

static int setup(void **state)
{
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	*state = lab;
	rights_line(lab->line, sizeof(lab->line));
	return 0;
}

static int teardown(void **state)
{
	struct lab *lab = *state;

	agent_stop(&lab->a);
	fix_done(&lab->f);
	cluster_stop(&lab->k);
	redis_stop(&lab->r);
	free(lab);
	return 0;
}

static void every_command_of_a_script_is_granted(void **state)
{
	static const char before[] = "call('";
	static char text[FILE_BYTES];
	struct lab *lab = *state;
	unsigned seen = 0;
	glob_t files = {};

	assert_int_equal(glob("user/*/*.lua", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		read_file(files.gl_pathv[i], text);
		for (const char *at = strstr(text, before); at; at = strstr(at, before)) {
			char right[32] = " +";
			size_t n = 2;

			at += sizeof(before) - 1;
			while (n < sizeof(right) - 2 && isupper((unsigned char)*at))
				right[n++] = (char)tolower((unsigned char)*at++);
			right[n] = ' ';
			if (!strstr(lab->line, right))
				fail_msg("%s does%s; %s does not grant it", files.gl_pathv[i],
					 right, PAGE);
			seen++;
		}
	}
	globfree(&files);
	assert_true(seen > 20);
}

static void listen_with_rights(struct lab *lab)
{
	char text[2200], path[160];

	(void)snprintf(text, sizeof(text), "user default on nopass ~* &* +@all\n%s\n", lab->line);
	assert_int_equal(redis_file(&lab->r, "users.acl", text, path, sizeof(path)), 0);
	assert_int_equal(redis_start(&lab->r, "--aclfile", path, NULL), 0);
}

static void nothing_was_refused(redisContext *c)
{
	redisReply *log = redis_do(c, "ACL LOG");

	assert_int_equal(log->type, REDIS_REPLY_ARRAY);
	if (log->elements)
		fail_msg("refused: %s",
			 log->element[0]->elements > 7 ? log->element[0]->element[7]->str : "?");
	freeReplyObject(log);
}

/* Decided, given back where the limit was lowered since, and forgotten. */
static void all_that_a_store_does_needs_no_more(void **state)
{
	struct lab *lab = *state;
	struct fix *f = &lab->f;
	redisContext *c;

	listen_with_rights(lab);
	c = redis_open(&lab->r);
	fix_options(f);
	f->o.user = "weir";
	f->o.password = "secret";
	f->r = lab->r;
	fix_store(f);
	f->r = (struct redis_server){};
	for (unsigned i = WEIR_REQUEST_TOKEN_BUCKET; i <= WEIR_REQUEST_SLIDING_COUNTER; i++) {
		const enum weir_request_algorithm algorithm = (enum weir_request_algorithm)i;
		const struct weir_store_limit high = request_limit("x", algorithm, 9, DAY),
					      low = request_limit("x", algorithm, 2, DAY);
		struct ask a = {.y = {request_layer(&high, 1, 3)}};

		ask_start(f, &a, 1);
		assert_true(fix_wait(f, a.r != 1, 5000));
		assert_int_equal(a.r, 0);
		assert_true(a.y[0].charged);
		a.y[0].limit = &low;
		a.r = 1;
		f->s->ops->refund(f->s, &a.q, ask_done, &a);
		assert_true(fix_wait(f, a.r != 1, 5000));
		assert_int_equal(a.r, 0);
		a.r = 1;
		f->s->ops->reset(f->s, &a.q, ask_done, &a);
		assert_true(fix_wait(f, a.r != 1, 5000));
		assert_int_equal(a.r, 0);
	}
	nothing_was_refused(c);
	redisFree(c);
}

static void start(struct lab *lab)
{
	char path[160], conf[2048];

	listen_with_rights(lab);
	assert_int_equal(redis_file(&lab->r, "password", "secret", path, sizeof(path)), 0);
	(void)snprintf(
		conf, sizeof(conf),
		"http: {listeners: [{listen: 127.0.0.1:0, profile: caddy}]}\n"
		"store: {url: \"redis+unix://%s\", user: weir, password_file: %s, timeout: 20ms}\n"
		"request_limits:\n"
		"  - {name: bucket, key: ip, rate: 1/m, burst: 100, lease: 10}\n"
		"  - {name: queue, key: ip, algorithm: leaky-bucket, rate: 100/s}\n"
		"  - {name: fixed, key: ip, algorithm: fixed-window, limit: 100, window: 60s}\n"
		"  - {name: log, key: ip, algorithm: sliding-window-log, limit: 100, window: 60s}\n"
		"  - {name: counter, key: ip, algorithm: sliding-window-counter, limit: 100, "
		"window: "
		"60s}\n",
		lab->r.sock, path);
	if (agent_start(&lab->a, conf) < 0)
		fail_msg("%s", lab->a.out);
}

/* The fleet's secret is there: from now on limits count in the store. */
static bool is_counting(struct lab *lab)
{
	return agent_cmd(&lab->a, "status") == 0 && !strstr(lab->a.out, "DEGRADED");
}

#define do_(lab, ...)                                                                              \
	do {                                                                                       \
		if (agent_cmd(&(lab)->a, __VA_ARGS__) != 0)                                        \
			fail_msg("%s", (lab)->a.out);                                              \
	} while (0)

static void an_agent_needs_no_more_than_the_page_grants(void **state)
{
	struct lab *lab = *state;
	uint64_t end_ns = wait_now_ns() + 10000 * MS;
	redisContext *c;

	start(lab);
	while (!is_counting(lab) && wait_step(end_ns))
		;
	if (!is_counting(lab))
		fail_msg("%s", lab->a.out);
	for (int i = 0; i < 3; i++)
		do_(lab, "request", "GET", "/", "--ip", "192.0.2.1");
	do_(lab, "explain", "192.0.2.1");
	do_(lab, "limit", "reset", "log", "--ip", "192.0.2.1");
	do_(lab, "block", "add", "198.51.100.1", "--for", "10m");
	do_(lab, "allow", "add", "198.51.100.2");
	do_(lab, "block", "del", "198.51.100.1");
	do_(lab, "limit", "push");
	do_(lab, "limit", "diff");
	do_(lab, "limit", "pull");
	do_(lab, "doctor", "-c", lab->a.conf);
	end_ns = wait_now_ns() + 10000 * MS;
	while ((!is_counting(lab) || !strstr(lab->a.out, "; about ")) && wait_step(end_ns))
		;
	if (!is_counting(lab) || !strstr(lab->a.out, "; about "))
		fail_msg("%s", lab->a.out);
	c = redis_open(&lab->r);
	assert_non_null(c);
	assert_true(redis_int(c, "DBSIZE") > 8); /* five states, the fleet's keys */
	nothing_was_refused(c);
	/* what is taken away later is told */
	freeReplyObject(redis_do(c, "ACL SETUSER weir -hmget"));
	end_ns = wait_now_ns() + 5000 * MS;
	while (is_counting(lab) && wait_step(end_ns))
		;
	if (!strstr(lab->a.out, "the user may not run hmget (ACL)"))
		fail_msg("%s", lab->a.out);
	redisFree(c);
}

static const char of_a_cluster[] = "+cluster|slots +asking";

/* Redirected in both ways meanwhile. */
static void decisions_in_a_cluster_need_no_more(void **state)
{
	const struct weir_store_limit l[2] = {request_limit("one", WEIR_REQUEST_SLIDING_LOG,
							    1000000, DAY),
					      request_limit("two", WEIR_REQUEST_TOKEN_BUCKET,
							    1000000, DAY)};
	static char page[FILE_BYTES], line[2200];
	struct lab *lab = *state;
	struct cluster *k = &lab->k;
	struct load load = {
		.f = &lab->f, .l = l, .clients = 1, .layers = 2, .together = true, .wide = 8};
	char url[64];
	unsigned slot;
	size_t n;

	read_file(PAGE, page);
	assert_non_null(strstr(page, of_a_cluster));
	(void)snprintf(line, sizeof(line), "%s %s", lab->line, of_a_cluster);
	k->more = line;
	assert_int_equal(cluster_make(k, 2, 2), 0);
	fix_options(&lab->f);
	lab->f.o.timeout_ns = 2000 * MS;
	lab->f.o.user = "weir";
	lab->f.o.password = "secret";
	(void)snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%u", k->port[0]);
	fix_store_at(&lab->f, url);
	load.s = lab->f.s;
	load.client[0] = cluster_client(k, 0, 1);
	slot = cluster_slot(load.client[0]);
	load_start(&load);
	assert_true(fix_wait(&lab->f, load.admitted > 100, 10000));
	n = load.failed; /* some before there was a map */
	cluster_open_slot(k, 0, 1, slot);
	cluster_move_keys(k, 0, 1, slot);
	fix_turn(&lab->f, 100);
	cluster_close_slot(k, 0, 1, slot);
	fix_turn(&lab->f, 100);
	load_stop(&load);
	assert_int_equal(load.failed, n);
	CLUSTER_EACH(k, i)
	{
		redisReply *log = redis_do(k->c[i], "ACL LOG");

		assert_int_equal(log->elements, 0);
		freeReplyObject(log);
	}
}

/* A user that loses a right: its states are neither empty nor gone. */
static void what_may_not_be_read_is_not_taken_for_nothing(void **state)
{
	static const struct {
		enum weir_request_algorithm algorithm;
		const char *take, *give;
	} rights[] = {
		{WEIR_REQUEST_FIXED_WINDOW, "-get", "+get"},
		{WEIR_REQUEST_SLIDING_LOG, "-llen", "+llen"},
		{WEIR_REQUEST_SLIDING_LOG, "-lindex", "+lindex"},
	};
	struct fix *f = &((struct lab *)*state)->f;
	bool admitted = false;
	redisContext *c;

	fix_options(f);
	assert_int_equal(redis_start(&f->r, NULL), 0);
	c = redis_open(&f->r);
	assert_non_null(c);
	fix_store(f);
	for (size_t i = 0; i < sizeof(rights) / sizeof(*rights); i++) {
		const struct weir_store_limit l =
			request_limit("once", rights[i].algorithm, 1, DAY);

		assert_int_equal(ask_one(f, &l, i, 1, &admitted), 0);
		assert_true(admitted);
		freeReplyObject(redis_do(c, "ACL SETUSER default %s", rights[i].take));
		if (ask_one(f, &l, i, 1, &admitted) == 0)
			fail_msg("%s: %s", rights[i].take, admitted ? "admitted" : "refused");
		freeReplyObject(redis_do(c, "ACL SETUSER default %s", rights[i].give));
		assert_int_equal(ask_one(f, &l, i, 1, &admitted), 0);
		assert_false(admitted);
	}
	redisFree(c);
}

/* --- passwords ---------------------------------------------------------------------------------------------------- */

static void says_no_password(struct lab *lab, const char *where)
{
	if (strstr(lab->a.out, "pa55"))
		fail_msg("%s: %s", where, lab->a.out);
}

/* Neither the one in the address nor the one of a file, right or wrong. */
static void no_output_holds_a_password(void **state)
{
	static const char *const commands[][4] = {
		{"status"},
		{"status", "--json"},
		{"explain", "192.0.2.1"},
		{"limit", "diff"},
		{"block", "list"},
		{"events"},
		{"limit", "list"},
		{"doctor", "-c"},
		{"check", "-c"},
		{"limit", "push"},
		{"request", "GET", "/", "--peek"},
	};
	static char text[FILE_BYTES];
	struct lab *lab = *state;
	char conf[512], path[64];

	lab->r.password = "pa55word";
	assert_int_equal(redis_start(&lab->r, "--requirepass", "pa55word", NULL), 0);
	for (int wrong = 0; wrong < 2; wrong++) {
		unsigned said = 0;

		(void)snprintf(
			conf, sizeof(conf),
			"http: {listeners: [{listen: 127.0.0.1:0, profile: caddy}]}\n"
			"store: {url: \"redis+unix://default:pa55%%77ord%s@%s\", timeout: 20ms}\n"
			"request_limits: [{name: a, key: ip, rate: 1/m}]\n",
			wrong ? "x" : "", lab->r.sock);
		if (agent_start(&lab->a, conf) < 0)
			fail_msg("%s", lab->a.out);
		assert_true(
			wait_for(agent_cmd(&lab->a, "status") == 0 &&
					 strstr(lab->a.out, wrong ? "password is wrong" : "Redis "),
				 10000));
		for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
			const char *const *c = commands[i];
			bool with_conf = c[1] && !strcmp(c[1], "-c");

			(void)agent_cmd(&lab->a, c[0], c[1], with_conf ? lab->a.conf : c[2], c[3]);
			said += lab->a.out[0] != '\0';
			says_no_password(lab, c[0]);
		}
		assert_true(said > 6);
		(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", lab->a.pid);
		read_file(path, text);
		assert_null(memmem(text, sizeof(text), "pa55", 4));
		read_file(lab->a.log, text);
		assert_null(strstr(text, "pa55"));
		assert_int_equal(agent_end(&lab->a), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_command_of_a_script_is_granted, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_may_not_be_read_is_not_taken_for_nothing,
						setup, teardown),
		cmocka_unit_test_setup_teardown(all_that_a_store_does_needs_no_more, setup,
						teardown),
		cmocka_unit_test_setup_teardown(decisions_in_a_cluster_need_no_more, setup,
						teardown),
		cmocka_unit_test_setup_teardown(no_output_holds_a_password, setup, teardown),
		cmocka_unit_test_setup_teardown(an_agent_needs_no_more_than_the_page_grants, setup,
						teardown),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
