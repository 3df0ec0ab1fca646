/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent as a process without its store, by each way in which one can be of no use: nobody listens, nobody answers, it
 * is slow, it talks nonsense. Every profile, every on_store_failure: what a proxy and its client are told is never "rate
 * limited"; and what an operator is told: readiness, status, metrics. (SPOE's and JSON's words: unit/t_answer.)
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "http/http_test.h"
#include "redis/fake.h"

#define LIMIT(name, more)                                                                          \
	"  - {name: " name ", match: {path: /" name                                                \
	"}, key: ip, algorithm: fixed-window, limit: 1000000, window: 1h" more "}\n"
#define CONF                                                                                       \
	LISTENERS "store: {url: \"%s\"%s}\n"                                                       \
		  "request_limits:\n" LIMIT("shared", "") LIMIT("also", "")                        \
			  LIMIT("free", ", on_store_failure: open")                                \
				  LIMIT("shut", ", on_store_failure: closed")
#define ROUNDS 12 /* of each question: before the breaker opens, and after */

enum way { REFUSED, SILENT, SLOW, NONSENSE, OTHER_TYPE, WAYS };
static const char *const names[WAYS] = {"nobody listens", "nobody answers", "slow", "nonsense",
					"another type of reply"};

struct lab {
	struct agent a;
	enum way way;
	int hole;     /* listens, and never accepts; -1: none */
	pid_t fake;   /* 0: none */
	bool unkeyed; /* the fleet's secret would be in the store alone */
};

/* --- servers that are of no use ------------------------------------------------------------------------------------ */

static const char *says(struct fake *f, const struct redisReply *command)
{
	enum way way = *(enum way *)f->arg;

	if (fake_is(command, "SCRIPT"))
		return "$40\r\n0123456789012345678901234567890123456789\r\n";
	if (!fake_is(command, "EVALSHA"))
		return "+OK\r\n";
	if (way == SLOW)
		(void)poll(NULL, 0, 100);
	return way == OTHER_TYPE ? ":1\r\n" : "$3\r\n\1\2\3\r\n";
}

static pid_t start_fake(enum way way, __u16 *ret_port)
{
	struct fake fake = {.says = says, .arg = &way};
	struct event_base *base;
	int tell[2];
	pid_t pid;

	assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		base = event_base_new(); /* of this process alone */
		fake_start(&fake, base);
		if (write(tell[1], &fake.port, sizeof(fake.port)) < 0)
			_exit(1);
		(void)event_base_dispatch(base); /* until it is killed */
		_exit(0);
	}
	assert_int_equal(read(tell[0], ret_port, sizeof(*ret_port)), sizeof(*ret_port));
	(void)close(tell[0]);
	(void)close(tell[1]);
	return pid;
}

static void url_of(struct lab *lab, char *url, size_t size)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	__u16 port;

	lab->hole = -1;
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/store.sock", lab->a.dir);
	if (lab->way == SILENT) {
		lab->hole = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(lab->hole, (struct sockaddr *)&at, sizeof(at)), 0);
		assert_int_equal(listen(lab->hole, 64), 0);
	}
	(void)snprintf(url, size, "redis+unix://%s", at.sun_path);
	if (lab->way <= SILENT)
		return;
	lab->fake = start_fake(lab->way, &port);
	(void)snprintf(url, size, "redis://127.0.0.1:%u", port);
}

static void begin(struct lab *lab)
{
	static const char secret[] =
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
	char url[160], conf[2048];

	assert_int_equal(agent_prepare(&lab->a), 0);
	assert_int_equal(agent_file(&lab->a, "secret", secret), 0);
	url_of(lab, url, sizeof(url));
	(void)snprintf(conf, sizeof(conf), CONF, url,
		       lab->unkeyed ? "" : ", key_secret_file: @DIR@/secret");
	must_start(&lab->a, conf);
}

static void end(struct lab *lab)
{
	int status;

	assert_int_equal(agent_end(&lab->a), 0);
	agent_stop(&lab->a);
	if (lab->hole >= 0)
		(void)close(lab->hole);
	if (lab->fake) {
		(void)kill(lab->fake, SIGKILL);
		assert_int_equal(waitpid(lab->fake, &status, 0), lab->fake);
	}
}

/* --- what proxies and clients are told ------------------------------------------------------------------------------ */

static void ask_http(struct lab *lab, const char *profile, int closed)
{
	static const char *const targets[] = {"/shared", "/also", "/free", "/shut"};
	struct web w = must_open(&lab->a, profile);
	struct web_reply r;
	char ip[32];

	for (unsigned i = 0; i < ROUNDS * ARRAY_LEN(targets); i++) {
		const char *target = targets[i % ARRAY_LEN(targets)];
		int want = strcmp(target, "/shut") ? 200 : closed;

		(void)snprintf(ip, sizeof(ip), "198.51.100.%u", i + 1);
		if (ask(&w, profile, Q(.target = target, .ip = ip), &r) != want)
			fail_msg("%s, %s %s: %d", names[lab->way], profile, target, r.status);
		if (want == 200)
			continue;
		assert_string_equal(web_header(&r, "X-Weir-Status"), "503");
		assert_int_equal(web_number(&r, "Retry-After"), 1);
		assert_non_null(strstr(r.body, "\"STORE_UNAVAILABLE\""));
		assert_null(strstr(r.body, "RATE_LIMITED"));
		assert_null(web_header(&r, "X-RateLimit-Limit"));
	}
	web_close(&w);
}

static void ask_json(struct lab *lab)
{
	static const char *const paths[] = {"shared", "free", "shut"};
	struct web w = must_open(&lab->a, "json");
	char body[160];
	json_t *j;

	for (unsigned i = 0; i < ROUNDS * ARRAY_LEN(paths); i++) {
		const char *path = paths[i % ARRAY_LEN(paths)];
		bool open = strcmp(path, "shut") != 0;
		struct web_reply r;
		int status;

		(void)snprintf(body, sizeof(body),
			       "{\"method\":\"GET\",\"path\":\"/%s\",\"ip\":\"203.0.113.%u\"}",
			       path, i + 1);
		status = post(&w, "/v1/check", TOKEN, body, &r);
		j = json_loadb(r.body, r.body_n, 0, NULL);
		assert_non_null(j);
		if (status == 429 || true_in(j, "allowed") != open)
			fail_msg("%s, json /%s: %d %s", names[lab->way], path, status, r.body);
		if (!open)
			assert_string_equal(text_in(j, "code"), "STORE_UNAVAILABLE");
		json_decref(j);
	}
	web_close(&w);
}

static void nobody_is_called_rate_limited(void **state)
{
	(void)state;
	for (enum way way = 0; way < WAYS; way++) {
		struct lab lab = {.way = way};

		begin(&lab);
		ask_http(&lab, "nginx", 403);
		ask_http(&lab, "caddy", 503);
		ask_http(&lab, "traefik", 503);
		ask_http(&lab, "envoy", 403);
		ask_json(&lab);
		assert_true(metric(&lab.a, "weir_store_state{state=\"open\"}") == 1);
		end(&lab);
	}
}

/* --- what operators are told ---------------------------------------------------------------------------------------- */

static bool page_says(struct agent *a, const char *path, int status, const char *words)
{
	struct web w = must_open(a, "metrics");
	struct web_reply r;
	bool says_it;

	assert_int_equal(web_ask(&w, &r, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path), 0);
	says_it = r.status == status && strstr(r.body, words);
	web_close(&w);
	return says_it;
}

static void readiness_status_and_metrics_say_it(void **state)
{
	static const char decides[] =
		"on_store_failure decides, local for shared, also; open for free; closed for shut";
	struct lab lab = {.way = REFUSED};
	struct agent *a = &lab.a;

	(void)state;
	begin(&lab);
	/* ready: else all hosts would be taken out at once */
	assert_true(wait_for(page_says(a, "/readyz", 200, "the store does not answer since 20"),
			     10000));
	assert_true(wait_for(page_says(a, "/readyz", 200, decides), 10000));
	assert_true(page_says(a, "/readyz", 200, "is in force, "));
	assert_int_equal(agent_cmd(a, "status"), 0);
	assert_non_null(strstr(a->out, "store AWAY"));
	assert_non_null(strstr(a->out, decides));
	assert_true(metric(a, "weir_fallback_active{limit=\"shut\"}") == 1);
	assert_true(metric(a, "weir_fallback_active{limit=\"shared\"}") == 1);
	end(&lab);
}

#define VERDICT(limit, verdict)                                                                    \
	"weir_requests_total{limit=\"" limit "\",verdict=\"" verdict                               \
	"\",algorithm=\"fixed-window\",mode=\"enforce\"}"

/* As the first thing that an operator sees of it, and what clients meet then. */
static void without_the_fleets_secret_each_limit_is_said_to_do_what_it_does(void **state)
{
	static const char why[] = "the fleet's secret is not known yet: on_store_failure decides, ",
			  each[] = "local for shared, also; open for free; closed for shut";
	struct lab lab = {.way = REFUSED, .unkeyed = true};
	struct agent *a = &lab.a;

	(void)state;
	begin(&lab);
	assert_int_equal(agent_cmd(a, "status"), 0);
	assert_non_null(strstr(a->out, why));
	assert_non_null(strstr(a->out, each));
	assert_true(page_says(a, "/readyz", 200, why));
	assert_true(page_says(a, "/readyz", 200, each));
	ask_http(&lab, "nginx", 403);
	assert_true(wait_for(metric(a, VERDICT("shared", "local")) > 0, 3000));
	assert_true(metric(a, VERDICT("free", "unjudged")) > 0);
	assert_true(metric(a, VERDICT("shut", "closed")) > 0);
	end(&lab);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_called_rate_limited),
		cmocka_unit_test(readiness_status_and_metrics_say_it),
		cmocka_unit_test(without_the_fleets_secret_each_limit_is_said_to_do_what_it_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
