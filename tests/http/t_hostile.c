/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Clients that mean harm, or nothing at all: each gets an error, a refusal or the end of its connection; nobody else
 * notices, memory stays where it was, and afterwards the agent answers as before.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "http_test.h"

#define CONNECTIONS	1000
#define MANY		10000
#define DEADLINE_MS	1000
#define MB		(1024.0 * 1024.0)

#define CUT_BY_DEADLINE "weir_http_closed_total{why=\"deadline\"}"
#define CLOSED_AT_LIMIT "weir_http_closed_total{why=\"connections\"}"

#define CONF_HEAD                                                                                  \
	LISTENERS "  connections: 1000\n"                                                          \
		  "  headers: 16 KB\n"                                                             \
		  "  request_deadline: 1s\n"                                                       \
		  "memory: {request_keys: 20000, request_bytes: 8 MB}\n"

#define LIMITS                                                                                     \
	"request_limits:\n"                                                                        \
	"  - {name: used-up, match: {path: /used-up}, key: ip, algorithm: sliding-window-log, "    \
	"limit: 1, window: 1h}\n"                                                                  \
	"  - {name: plenty, match: {path: /plenty}, key: ip, rate: 1000000/s, burst: 1000000}\n"   \
	"  - {name: flood, match: {path: /flood}, key: ip, rate: 1/h, burst: 3}\n"                 \
	"  - {name: order, match: {path: /order}, key: ip, algorithm: sliding-window-log, "        \
	"limit: 1000, window: 1h}\n"

static const char conf[] = CONF_HEAD LIMITS;
static const char conf_other[] =
	CONF_HEAD LIMITS "  - {name: extra, match: {path: /extra}, key: ip, rate: 5/s, burst: 5}\n";

static bool sanitized(void)
{
	return getenv("WEIR_SAN") != NULL;
}

static int set_up(void **state)
{
	struct rlimit files;
	struct agent *a = calloc(1, sizeof(*a));

	if (!a || getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -1;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	must_start(a, conf);
	*state = a;
	return 0;
}

static uint64_t random_u64(uint64_t *seed)
{
	*seed ^= *seed >> 12;
	*seed ^= *seed << 25;
	*seed ^= *seed >> 27;
	return *seed * 0x2545f4914f6cdd1dull;
}

static char *repeated(const char *piece, size_t times)
{
	size_t n = strlen(piece);
	char *s = malloc(n * times + 1);

	assert_non_null(s);
	for (size_t i = 0; i < times; i++)
		memcpy(s + i * n, piece, n);
	s[n * times] = '\0';
	return s;
}

/* Whatever is said, on a connection of its own: the status, or 0 where the connection ended without an answer. The
 * library says the head of some refusals of its own twice, before it closes: to a client that is one, with an odd body.
 */
static int say_once(struct agent *a, const char *profile, const char *text, size_t n)
{
	struct web w = must_open(a, profile);
	struct web_reply r;
	int e, status = 0;

	(void)web_send(&w, text, n); /* it may not even listen to the end */
	(void)shutdown(w.fd, SHUT_WR);
	e = web_wait(&w, 10000, &r);
	if (e == -ETIMEDOUT || e == -EBADMSG)
		fail_msg("%s: %.100s: %s", profile, text, strerror(-e));
	if (e == 0 || e == -EPROTO)
		status = r.status;
	if (e == -EPROTO && status < 400)
		fail_msg("%s: %.100s: more than one answer", profile, text);
	web_close(&w);
	return status;
}

static int say_text(struct agent *a, const char *profile, const char *text)
{
	return say_once(a, profile, text, strlen(text));
}

/* --- sizes ---- */

static void headers_have_a_size(void **state)
{
	static const struct {
		size_t value, lines;
		bool fits;
	} sizes[] = {{100, 1, true},	{8000, 1, true},    {500, 20, true},  {20000, 1, false},
		     {1000, 30, false}, {200000, 1, false}, {10, 5000, false}};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		_cleanup_free_ char *value = repeated("v", sizes[i].value), *line = NULL,
				    *lines = NULL, *text = NULL;
		int status;

		assert_true(asprintf(&line, "X-Long: %s\r\n", value) > 0);
		lines = repeated(line, sizes[i].lines);
		assert_true(
			asprintf(&text,
				 "GET /check HTTP/1.1\r\nHost: a\r\nX-Forwarded-Uri: /plenty\r\n"
				 "X-Forwarded-Method: GET\r\nX-Forwarded-For: 198.51.100.1\r\n"
				 "%s\r\n",
				 lines) > 0);
		status = say_text(*state, "caddy", text);
		/* where it is cut off while it still talks, the answer may be lost */
		if (sizes[i].fits ? status != 200 : status != 431 && status != 0)
			fail_msg("%zu lines of %zu: %d", sizes[i].lines, sizes[i].value, status);
	}
	must_be_well(*state);
}

/* However short they are. */
static void header_lines_have_a_number(void **state)
{
	static const size_t numbers[] = {100, 124, 125, 200, 1000, 2000};

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		_cleanup_free_ char *lines = repeated("A: b\r\n", numbers[i]), *text = NULL;
		int status;

		assert_true(asprintf(&text,
				     "GET /check HTTP/1.1\r\nHost: a\r\n%s"
				     "X-Forwarded-Uri: /plenty\r\nX-Forwarded-Method: GET\r\n"
				     "X-Forwarded-For: 198.51.100.1\r\n\r\n",
				     lines) > 0);
		status = say_text(*state, "caddy", text);
		if (numbers[i] <= 124 ? status != 200
				      : status != 431 && (status != 200 || numbers[i] > 200))
			fail_msg("%zu lines: %d", numbers[i], status);
	}
	must_be_well(*state);
}

static void targets_have_a_size(void **state)
{
	static const size_t sizes[] = {1000, 4000, 8000, 15000, 20000, 100000};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		_cleanup_free_ char *path = repeated("p", sizes[i]), *text = NULL, *own = NULL;
		int status;

		assert_true(asprintf(&text,
				     "GET /check HTTP/1.1\r\nHost: a\r\nX-Forwarded-Uri: /%s\r\n"
				     "X-Forwarded-Method: GET\r\n"
				     "X-Forwarded-For: 198.51.100.1\r\n\r\n",
				     path) > 0);
		status = say_text(*state, "caddy", text);
		if (sizes[i] <= 4000 ? status != 200
				     : status != 400 && status != 431 && status != 0)
			fail_msg("a target of %zu bytes: %d", sizes[i], status);
		assert_true(asprintf(&own,
				     "GET /check/%s HTTP/1.1\r\nHost: a\r\n"
				     "X-Forwarded-For: 198.51.100.1\r\n\r\n",
				     path) > 0);
		status = say_text(*state, "envoy", own);
		if (sizes[i] <= 4000
			    ? status != 200
			    : status != 400 && status != 414 && status != 431 && status != 0)
			fail_msg("Envoy's target of %zu bytes: %d", sizes[i], status);
	}
	must_be_well(*state);
}

/* --- JSON ---- */

static int post_once(struct agent *a, const char *body, size_t n)
{
	_cleanup_free_ char *text = malloc(n + 512);
	int head;

	assert_non_null(text);
	head = snprintf(text, 512,
			"POST /v1/check HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " TOKEN "\r\n"
			"Content-Length: %zu\r\n\r\n",
			n);
	memcpy(text + head, body, n);
	return say_once(a, "json", text, (size_t)head + n);
}

#define BODY(more) "{\"method\":\"GET\",\"path\":\"/plenty\",\"ip\":\"198.51.100.1\"" more "}"

static void bad_json_is_refused(void **state)
{
	static const char *const bodies[] = {
		"",
		" ",
		"{",
		"}",
		"null",
		"true",
		"0",
		"\"x\"",
		"[]",
		"[[]]",
		"[1]",
		"[null]",
		"{}",
		"{\"method\":\"GET\"}",
		"{\"path\":\"/plenty\"}",
		"{\"method\":\"GET\",\"path\":\"plenty\"}",
		"{\"method\":\"GET\",\"path\":7}",
		"{\"method\":\"G T\",\"path\":\"/\"}",
		"{\"method\":\"GET\",\"path\":\"/\\u0000\"}",
		"{\"method\":\"GET\",\"path\":\"/\\n\"}",
		"{\"method\":\"GET\",\"path\":\"/a\nb\"}",
		BODY(",\"cost\":0"),
		BODY(",\"cost\":-1"),
		BODY(",\"cost\":1.5"),
		BODY(",\"cost\":1e3"),
		BODY(",\"cost\":1e999"),
		BODY(",\"cost\":\"1\""),
		BODY(",\"cost\":18446744073709551616"),
		BODY(",\"cost\":9007199254740993"),
		BODY(",\"peek\":1"),
		BODY(",\"peek\":null"),
		BODY(",\"ip\":\"198.51.100.2\""),
		BODY(",\"IP\":\"198.51.100.2\""),
		BODY(",\"extra\":1"),
		BODY(",\"headers\":[]"),
		BODY(",\"headers\":{\"a\":1}"),
		BODY(",\"headers\":{\"a\":{\"b\":\"c\"}}"),
		BODY(",\"headers\":{\"X-A\\r\\nX-B\":\"1\"}"),
		BODY(",\"headers\":{\"X-A\":\"1\\r\\nX-B: 2\"}"),
		BODY(",\"headers\":{\"X-A\":\"\\u0000\"}"),
		BODY(",\"headers\":{\"\":\"1\"}"),
		BODY(",\"headers\":{\"a b\":\"1\"}"),
		BODY(",\"headers\":{\"X-A\":\"1\",\"x-a\":\"2\"}"),
		"{\"method\":\"GET\",\"path\":\"/\",\"ip\":\"300.1.1.1\"}",
		"{\"method\":\"GET\",\"path\":\"/\",\"ip\":\"198.51.100.0/24\"}",
		"{\"method\":\"GET\",\"path\":\"/\",\"ip\":\"\"}",
		"{\"method\":\"GET\",\"path\":\"/\",\"ip\":3325256824}",
		BODY("") BODY(""),
		BODY("") "x",
		"[" BODY("") ",]",
		"[" BODY("") ",{\"method\":\"GET\"}]",
		"{'method':'GET','path':'/'}",
		"{\"method\":\"GET\",\"path\":\"/\xff\xfe\"}",
		"{\"method\":\"GET\",\"path\":\"/\xc0\xaf\"}",
		"{\"method\":\"GET\",\"path\":\"/\xed\xa0\x80\"}",
		"{\"method\":\"GET\",\"path\":\"/\\ud800\"}",
		"\xef\xbb\xbf" BODY(""),
	};

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		int status = post_once(*state, bodies[i], strlen(bodies[i]));

		if (status != 400)
			fail_msg("%s: %d", bodies[i], status);
	}
	assert_int_equal(post_once(*state, BODY("") "\0", sizeof(BODY("") "\0") - 1), 400);
	assert_int_equal(post_once(*state, BODY(""), strlen(BODY(""))), 200);
	must_be_well(*state);
}

static void deep_and_huge_json_is_refused(void **state)
{
	_cleanup_free_ char *open = repeated("[", 100000), *close_ = repeated("]", 100000),
			    *objects = repeated("{\"a\":", 50000), *deep = NULL;
	_cleanup_free_ char *one = repeated(BODY("") ",", 256), *many = repeated(BODY("") ",", 257);
	_cleanup_free_ char *fits = NULL, *too_many = NULL, *long_path = NULL, *big = NULL;
	_cleanup_free_ char *members = repeated("\"a\":\"b\",", 30000), *wide = NULL;
	_cleanup_free_ char *spaces = repeated(" ", 400000);
	int status;

	assert_true(asprintf(&deep, "%s%s", open, close_) > 0);
	assert_int_equal(post_once(*state, deep, strlen(deep)), 400);
	assert_int_equal(post_once(*state, objects, 5 * 50000 - 1), 400);
	one[strlen(one) - 1] = '\0';
	many[strlen(many) - 1] = '\0';
	assert_true(asprintf(&fits, "[%s]", one) > 0 && asprintf(&too_many, "[%s]", many) > 0);
	assert_int_equal(post_once(*state, fits, strlen(fits)), 200);
	assert_int_equal(post_once(*state, too_many, strlen(too_many)), 400);
	assert_true(asprintf(&wide,
			     "{\"method\":\"GET\",\"path\":\"/\",\"headers\":{%s\"z\":\"\"}}",
			     members) > 0);
	assert_int_equal(post_once(*state, wide, strlen(wide)), 400);
	big = repeated("p", 9000);
	assert_true(asprintf(&long_path, "{\"method\":\"GET\",\"path\":\"/%s\"}", big) > 0);
	assert_int_equal(post_once(*state, long_path, strlen(long_path)), 400);
	status = post_once(*state, spaces, 400000);
	assert_true(status == 413 || status == 0);
	must_be_well(*state);
}

static void lengths_that_lie_are_refused(void **state)
{
#define HEAD "POST /v1/check HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " TOKEN "\r\n"
	static const char *const texts[] = {
		HEAD "Content-Length: -1\r\n\r\n{}",
		HEAD "Content-Length: 99999999999999999999\r\n\r\n{}",
		HEAD "Content-Length: 4294967297\r\n\r\n{}",
		HEAD "Content-Length: 1000000000000\r\n\r\n{}",
		HEAD "Content-Length: 0x10\r\n\r\n{}",
		HEAD "Content-Length: 5 5\r\n\r\n{}",
		HEAD "Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}xxxx",
		HEAD "Content-Length: 50\r\n\r\n{}",
		HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		HEAD "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
		HEAD "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{}",
		HEAD "Transfer-Encoding: chunked\r\n\r\n7FFFFFFFFFFFFFFF\r\n{}",
		HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n0\r\n\r\n",
		HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n{}",
		HEAD "Transfer-Encoding: gzip\r\n\r\n{}",
		HEAD "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		int status = say_text(*state, "json", texts[i]);

		if (status >= 200 && status < 400)
			fail_msg("%s: %d", texts[i] + sizeof(HEAD) - 1, status);
	}
	/* chunks that are right are a body as good as any */
	assert_int_equal(say_text(*state, "json",
				  HEAD
				  "Transfer-Encoding: chunked\r\n\r\n"
				  "b\r\n{\"method\":\"\r\n19\r\nGET\",\"path\":\"/nothing\"}  \r\n"
				  "0\r\n\r\n"),
			 200);
	must_be_well(*state);
}

/* --- bytes that want to be more than they are ---- */

static void nothing_gets_into_headers_logs_or_metrics(void **state)
{
	static const char *const lines[] = {
		"X-Forwarded-Uri: /used-up\rX-Injected: 1\r\n",
		"X-Forwarded-Uri: /used-up\nX-Injected: 1\r\n",
		"X-Forwarded-Uri: /used-up%0d%0aX-Injected:%201\r\n",
		"X-Forwarded-Uri: /used-up\x1b[2J\x07\r\n",
		"X-Forwarded-Uri: /used-up\x80\xff\r\n",
		"X-Forwarded-Uri: /used-up\r\n X-Injected: 1\r\n",
		"X-Forwarded-Uri: /used-up\r\nX-API-Key: \x1b]0;x\x07\r\n",
		"X-Forwarded-Uri: /used-up\r\nUser-Agent: a\rb\x08\r\n",
		"X-Forwarded-Uri: /used-up\r\nX-Forwarded-Host: a\"b\\c<d>\r\n",
		"X-Forwarded-Uri: /used-up\r\nX-Forwarded-For: 1.2.3.4\x1b[31m\r\n",
		"X-Forwarded-Uri: /used-up\r\nX-Forwarded-Method: A\x01\r\n",
		"X-Forwarded-Uri:\r\n",
		": empty\r\n",
		"no colon\r\n",
		"X Y: blank\r\n",
	};
	struct agent *a = *state;
	char text[1024], c;
	FILE *log;

	for (size_t i = 0; i < 3 * ARRAY_LEN(lines); i++) {
		struct web w = must_open(a, "caddy");
		struct web_reply r;
		int e;

		(void)snprintf(text, sizeof(text),
			       "GET /check HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\n"
			       "%sX-Forwarded-For: 198.51.100.3\r\n\r\n",
			       lines[i / 3]);
		e = web_ask(&w, &r, "%s", text);
		if (e == -EBADMSG || e == -ETIMEDOUT)
			fail_msg("%s: %s", lines[i / 3], strerror(-e));
		if (e == 0) {
			assert_null(web_header(&r, "X-Injected"));
			assert_true(r.status < 500);
		}
		web_close(&w);
	}
	log = fopen(a->log, "re");
	assert_non_null(log);
	while (fread(&c, 1, 1, log) == 1)
		if (((unsigned char)c < ' ' && c != '\n') || c == 0x7f)
			fail_msg("byte %d in the log", c);
	(void)fclose(log);
	must_be_well(a);
}

/* --- other languages ---- */

static void old_new_and_no_http_at_all(void **state)
{
#define ASK                                                                                        \
	"X-Forwarded-Uri: /plenty\r\nX-Forwarded-Method: GET\r\nX-Forwarded-For: 198.51.100.4\r\n"
	static const struct {
		const char *text;
		int status; /* -1: anything but a server's fault */
	} says[] = {
		{"GET /check HTTP/1.0\r\n" ASK "\r\n", 200},
		{"GET /check HTTP/1.0\r\nConnection: keep-alive\r\n" ASK "\r\n", 200},
		{"GET /check HTTP/1.1\r\n" ASK "\r\n", -1}, /* without a host */
		{"GET /check\r\n\r\n", -1},
		{"GET /check HTTP/0.9\r\n" ASK "\r\n", -1},
		{"GET /check HTTP/2.0\r\n" ASK "\r\n", -1},
		{"GET /check HTTP/9999999999.1\r\n" ASK "\r\n", -1},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", -1},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", -1},
		{"\r\n\r\nGET /check HTTP/1.1\r\nHost: a\r\n" ASK "\r\n", -1},
		{"GET  /check  HTTP/1.1\r\nHost: a\r\n" ASK "\r\n", -1},
		{" GET /check HTTP/1.1\r\nHost: a\r\n" ASK "\r\n", -1},
		{"GET /check HTTP/1.1\nHost: a\nX-Forwarded-Uri: /plenty\n\n", -1},
		{"GET\r\n\r\n", -1},
		{"\r\n", -1},
		{"x", -1},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n" ASK "\r\n", -1},
		{"CONNECT app:443 HTTP/1.1\r\nHost: app:443\r\n" ASK "\r\n", -1},
		{"TRACE /check HTTP/1.1\r\nHost: a\r\n" ASK "\r\n", -1},
		{"GET http://a/check HTTP/1.1\r\nHost: a\r\n" ASK "\r\n", -1},
		{"GET /check HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: "
		 "upgrade\r\n" ASK "\r\n",
		 -1},
		{"GET /check HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n" ASK "\r\n", -1},
		{"GET /check HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0\r\n" ASK "\r\n", -1},
		{"GET /nowhere HTTP/1.1\r\nHost: a\r\n" ASK "\r\n", 404},
		{"GET / HTTP/1.1\r\nHost: a\r\n" ASK "\r\n", 404},
	};

	for (size_t i = 0; i < ARRAY_LEN(says); i++) {
		int status = say_text(*state, "caddy", says[i].text);

		if (says[i].status > 0 ? status != says[i].status
				       : status >= 500 && status != 501 && status != 505)
			fail_msg("%s: %d", says[i].text, status);
	}
	must_be_well(*state);
}

static void requests_in_one_piece_are_answered_in_their_order(void **state)
{
	char one[512];
	size_t n = write_question("caddy", Q(.target = "/order", .ip = "198.51.100.5"), one,
				  sizeof(one));
	_cleanup_free_ char *all = repeated(one, 200);
	struct web w = must_open(*state, "caddy");
	struct web_reply r;

	assert_int_equal(web_send(&w, all, 200 * n), 0);
	for (int left = 999; left >= 800; left--) {
		assert_int_equal(web_wait(&w, 10000, &r), 0);
		assert_int_equal(r.status, 200);
		assert_int_equal(web_number(&r, "X-RateLimit-Remaining"), left);
	}
	/* and byte by byte */
	for (size_t i = 0; i < n; i++)
		assert_int_equal(web_send(&w, one + i, 1), 0);
	assert_int_equal(web_wait(&w, 10000, &r), 0);
	assert_int_equal(web_number(&r, "X-RateLimit-Remaining"), 799);
	web_close(&w);
}

/* --- noise ---- */

static void noise_is_survived(void **state)
{
	static const char *const profiles[] = {"nginx", "caddy", "traefik",
					       "envoy", "json",	 "metrics"};
	uint64_t seed = 20240601;
	char text[4096];

	for (unsigned i = 0; i < 1500; i++) {
		const char *profile = profiles[i % ARRAY_LEN(profiles)];
		struct web w = must_open(*state, profile);
		struct web_reply r;
		size_t n;

		if (i % 2) { /* a request with some bytes changed */
			n = write_question(profile, Q(.target = "/plenty", .ip = "198.51.100.6"),
					   text, sizeof(text));
			for (uint64_t k = random_u64(&seed) % 8; k; k--)
				text[random_u64(&seed) % n] = (char)random_u64(&seed);
		} else {
			n = 1 + random_u64(&seed) % (sizeof(text) - 1);
			for (size_t k = 0; k < n; k++)
				text[k] = (char)random_u64(&seed);
		}
		(void)web_send(&w, text, n);
		(void)shutdown(w.fd, SHUT_WR);
		if (i % 32 < 2 && web_wait(&w, 100, &r) == 0 && r.status >= 500 &&
		    r.status != 501 && r.status != 505)
			fail_msg("%s: %d", profile, r.status);
		web_close(&w);
	}
	must_be_well(*state);
}

static void who_leaves_in_the_middle_costs_nothing(void **state)
{
	struct linger reset = {.l_onoff = 1, .l_linger = 0};
	uint64_t before = agent_rss_bytes(*state);
	char text[512];
	size_t n = write_question("caddy", Q(.target = "/plenty", .ip = "198.51.100.7"), text,
				  sizeof(text));

	for (unsigned i = 0; i < 2000; i++) {
		struct web w = must_open(*state, "caddy");

		(void)web_send(&w, text, i % 3 ? i % n : n); /* some of it, or all and no wait */
		if (i % 2)
			(void)setsockopt(w.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		web_close(&w);
	}
	must_be_well(*state);
	if (!sanitized())
		assert_true(agent_rss_bytes(*state) < before + (uint64_t)(64 * MB));
}

/* --- slow ---- */

static void slow_clients_are_cut_off_whatever_they_send(void **state)
{
	/* headers, a body, the first line, and silence after half a request */
	static const char *const heads[] = {
		"GET /check HTTP/1.1\r\nHost: a\r\nX: ",
		HEAD "Content-Length: 100000\r\n\r\n",
		"GET /",
		"GET /metrics HTTP/1.1\r\nX: ",
		"GET /check HTTP/1.1\r\nHost: a\r\n",
	};
	static const char *const profiles[] = {"caddy", "json", "nginx", "metrics", "envoy"};
	struct web w[ARRAY_LEN(heads)], polite = must_open(*state, "caddy");
	uint64_t began = wait_now_ns(), end_ns[ARRAY_LEN(heads)] = {};
	double cut = metric(*state, CUT_BY_DEADLINE);
	unsigned left = ARRAY_LEN(heads);

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		w[i] = must_open(*state, profiles[i]);
		assert_int_equal(web_send(&w[i], heads[i], strlen(heads[i])), 0);
	}
	for (unsigned step = 1; left && step < 100; step++) {
		wait_until_ns(began + step * 100000000ull);
		for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
			if (end_ns[i])
				continue;
			if (i < ARRAY_LEN(heads) - 1) /* one byte every 0.1 s: never idle */
				(void)web_send(&w[i], "x", 1);
			if (web_wait_end(&w[i], 0) == 0) {
				end_ns[i] = wait_now_ns() - began;
				left--;
			}
		}
		assert_int_equal(ask(&polite, "caddy", Q(.target = "/plenty", .ip = "198.51.100.8"),
				     NULL),
				 200);
	}
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		if (!end_ns[i] || end_ns[i] < (DEADLINE_MS - 150) * 1000000ull ||
		    end_ns[i] > (DEADLINE_MS + 1500) * 1000000ull)
			fail_msg("%s: cut after %.1f s", heads[i], (double)end_ns[i] / 1e9);
		web_close(&w[i]);
	}
	assert_true(cut >= 0 && metric(*state, CUT_BY_DEADLINE) >= cut + ARRAY_LEN(heads));
	web_close(&polite);
}

/* Asks without end and reads no answer. */
static void who_never_reads_is_cut_off(void **state)
{
	struct agent *a = *state;
	struct web w = must_open(a, "caddy"), polite = must_open(a, "caddy");
	uint64_t before = agent_rss_bytes(a), began = wait_now_ns();
	char one[512];
	size_t n = write_question("caddy", Q(.target = "/plenty", .ip = "198.51.100.8"), one,
				  sizeof(one));
	bool ended = false;

	while (!ended && wait_now_ns() - began < 10000000000ull) {
		ssize_t sent = send(w.fd, one, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		ended = sent < 0 && errno != EAGAIN;
		if (sent < 0 && !ended) {
			assert_int_equal(ask(&polite, "caddy",
					     Q(.target = "/plenty", .ip = "198.51.100.8"), NULL),
					 200);
			wait_until_ns(wait_now_ns() + 20000000);
		}
	}
	assert_true(ended);
	if (!sanitized())
		assert_true(agent_rss_bytes(a) < before + (uint64_t)(16 * MB));
	web_close(&w);
	web_close(&polite);
}

/* --- many ---- */

static void above_the_limit_connections_are_closed_at_once(void **state)
{
	struct agent *a = *state;
	struct web *w = calloc(MANY, sizeof(*w)), polite = must_open(a, "caddy");
	struct question q = Q(.target = "/plenty", .ip = "198.51.100.9");
	unsigned many = MANY, opened = 0, closed = 0, answered = 0;
	uint64_t before = agent_rss_bytes(a), began = wait_now_ns(), most = 0;
	struct rlimit files;
	char text[512];
	size_t n = write_question("caddy", q, text, sizeof(text));

	assert_non_null(w);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_cur < MANY + 100) {
		many = (unsigned)files.rlim_cur - 100;
		print_message("only %u connections: that many files may be open here\n", many);
	}
	assert_int_equal(ask(&polite, "caddy", q, NULL), 200);
	for (; opened < many; opened++) {
		if (web_open(&w[opened], must_where(a, "caddy")) < 0)
			break; /* reset while it was made: closed at once, too */
		if (opened % 500 == 0)
			assert_int_equal(ask(&polite, "caddy", q, NULL), 200);
	}
	/* whoever was let in is answered, everybody else is gone, nobody hangs */
	for (unsigned i = 0; i < opened; i++)
		(void)web_send(&w[i], text, n);
	for (unsigned i = 0; i < opened; i++) {
		struct web_reply r;
		int e = web_wait(&w[i], 10000, &r);

		if (e == -ETIMEDOUT)
			fail_msg("connection %u of %u hangs", i, opened);
		closed += e != 0;
		answered += e == 0 && r.status == 200;
		if (i % 500 == 0 && agent_rss_bytes(a) > most)
			most = agent_rss_bytes(a);
	}
	print_message("%u connections against a limit of %d: %u answered, %u closed, in %.1f s; "
		      "memory %.1f MB, at most %.1f MB\n",
		      opened, CONNECTIONS, answered, closed, (double)(wait_now_ns() - began) / 1e9,
		      (double)before / MB, (double)most / MB);
	assert_int_equal(ask(&polite, "caddy", q, NULL), 200);
	assert_in_range(answered, CONNECTIONS / 2, CONNECTIONS);
	assert_int_equal(answered + closed, opened);
	assert_true(metric(a, CLOSED_AT_LIMIT) >= closed);
	if (!sanitized())
		assert_true(most < before + (uint64_t)(80 * MB));
	for (unsigned i = 0; i < opened; i++)
		web_close(&w[i]);
	free(w);
	web_close(&polite);
	must_be_well(a);
}

static bool is_served(const struct agent *a, struct question q)
{
	struct web w;
	char text[512];
	size_t n = write_question("caddy", q, text, sizeof(text));
	struct web_reply r;
	bool yes = web_open(&w, must_where(a, "caddy")) == 0 && web_send(&w, text, n) == 0 &&
		   web_wait(&w, 5000, &r) == 0 && r.status == 200;

	web_close(&w);
	return yes;
}

/* More connections than files: some are closed at once, nobody hangs, no CPU is burnt, and then all is well again. */
static void running_out_of_files_is_survived(void **state)
{
	enum { TRIES = 200 };
	struct agent a = {.files = 80};
	struct question q = Q(.target = "/plenty", .ip = "198.51.100.9");
	struct web polite, w[TRIES];
	unsigned answered = 0, closed = 0;
	char text[512];
	size_t n = write_question("caddy", q, text, sizeof(text));

	(void)state;
	must_start(&a, conf);
	polite = must_open(&a, "caddy");
	assert_int_equal(ask(&polite, "caddy", q, NULL), 200);
	for (int i = 0; i < TRIES; i++) {
		struct web_reply r;
		int e = web_open(&w[i], must_where(&a, "caddy"));

		if (e == 0) {
			(void)web_send(&w[i], text, n);
			e = web_wait(&w[i], 5000, &r);
		}
		if (e == -ETIMEDOUT)
			fail_msg("connection %d hangs", i);
		answered += e == 0 && r.status == 200;
		closed += e != 0;
	}
	assert_true(answered > 10 && closed > 50);
	assert_int_equal(ask(&polite, "caddy", q, NULL), 200);
	for (int i = 0; i < TRIES; i++)
		web_close(&w[i]);
	web_close(&polite);
	assert_true(wait_for(is_served(&a, q), 5000));
	assert_int_equal(agent_end(&a), 0);
	agent_stop(&a);
}

/* Services begin with few files, and may have more. */
static void as_many_connections_as_configured_are_served(void **state)
{
	enum { TRIES = 200 };
	struct agent a = {.files_at_first = 80};
	struct question q = Q(.target = "/plenty", .ip = "198.51.100.9");
	struct web w[TRIES];
	struct web_reply r;
	char text[512];
	size_t n = write_question("caddy", q, text, sizeof(text));

	(void)state;
	must_start(&a, conf);
	for (int i = 0; i < TRIES; i++) {
		assert_int_equal(web_open(&w[i], must_where(&a, "caddy")), 0);
		assert_int_equal(web_send(&w[i], text, n), 0);
		assert_int_equal(web_wait(&w[i], 5000, &r), 0);
		assert_int_equal(r.status, 200);
	}
	for (int i = 0; i < TRIES; i++)
		web_close(&w[i]);
	assert_int_equal(agent_end(&a), 0);
	agent_stop(&a);
}

/* How many values the metrics page has. */
static size_t series(const struct agent *a)
{
	struct web w = must_open(a, "metrics");
	struct web_reply r;
	size_t n = 0;

	assert_int_equal(web_ask(&w, &r, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_int_equal(r.status, 200);
	for (const char *at = r.body; (at = strchr(at, '\n')); at++)
		n += at[1] && at[1] != '#';
	web_close(&w);
	return n;
}

static void a_flood_of_keys_stays_within_its_memory(void **state)
{
	enum { KEYS = 100000, AT_ONCE = 50 };
	struct agent *a = *state;
	struct web w = must_open(a, "caddy");
	uint64_t before = agent_rss_bytes(a), after;
	size_t values = series(a);
	static char text[AT_ONCE * 256];
	char ip[32];

	for (unsigned i = 0; i < KEYS; i += AT_ONCE) {
		struct web_reply r;
		size_t n = 0;

		for (unsigned k = 0; k < AT_ONCE; k++) {
			unsigned x = i + k;

			(void)snprintf(ip, sizeof(ip), "11.%u.%u.%u", x >> 16, x >> 8 & 255,
				       x & 255);
			n += write_question("caddy", Q(.target = "/flood", .ip = ip), text + n,
					    sizeof(text) - n);
		}
		assert_int_equal(web_send(&w, text, n), 0);
		for (unsigned k = 0; k < AT_ONCE; k++) {
			assert_int_equal(web_wait(&w, 10000, &r), 0);
			assert_int_equal(r.status, 200);
		}
	}
	after = agent_rss_bytes(a);
	print_message("%d new clients, room for 20000: memory from %.1f to %.1f MB\n", KEYS,
		      (double)before / MB, (double)after / MB);
	if (!sanitized())
		assert_true(after < before + (uint64_t)(24 * MB));
	assert_true(values > 50);
	assert_int_equal(series(a), values); /* none by client */
	web_close(&w);
	must_be_well(a);
}

/* --- reloads under load ---- */

struct load {
	struct agent *agent;
	const char *where;
	_Atomic bool stop;
	_Atomic unsigned asked, wrong;
	_Atomic int last; /* what was wrong */
};

static void *load_thread(void *arg)
{
	struct load *l = arg;
	char yes[512], no[512];
	size_t n_yes = write_question("caddy", Q(.target = "/plenty", .ip = "198.51.100.11"), yes,
				      sizeof(yes));
	size_t n_no = write_question("caddy", Q(.target = "/used-up", .ip = "198.51.100.11"), no,
				     sizeof(no));
	struct web_reply r;
	struct web w;

	if (web_open(&w, l->where) < 0) {
		l->wrong++;
		return NULL;
	}
	for (unsigned i = 0; !l->stop; i++) {
		bool want_yes = i % 2;
		int e = want_yes ? web_send(&w, yes, n_yes) : web_send(&w, no, n_no);

		if (e == 0)
			e = web_wait(&w, 5000, &r);
		if (e < 0 || r.status != (want_yes ? 200 : 429)) {
			l->wrong++;
			l->last = e < 0 ? e : r.status;
			if (e < 0) /* a connection does not end by a reload */
				break;
		}
		l->asked++;
	}
	web_close(&w);
	return NULL;
}

static double generation(struct agent *a)
{
	return metric(a, "weir_generation");
}

static void reloads_under_load_change_no_answer(void **state)
{
	struct agent *a = *state;
	struct load l = {.agent = a, .where = must_where(a, "caddy")};
	struct web w = must_open(a, "caddy");
	uint64_t began = wait_now_ns();
	pthread_t thread[4];
	double before, reloads = 0;

	(void)ask(&w, "caddy", Q(.target = "/used-up", .ip = "198.51.100.11"), NULL);
	assert_int_equal(ask(&w, "caddy", Q(.target = "/used-up", .ip = "198.51.100.11"), NULL),
			 429);
	for (size_t i = 0; i < ARRAY_LEN(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, load_thread, &l), 0);
	for (int i = 0; i < 40; i++) {
		wait_until_ns(began + (uint64_t)i * 50000000);
		before = generation(a);
		assert_int_equal(agent_write(a, i % 2 ? conf : conf_other), 0);
		assert_int_equal(kill(a->pid, SIGHUP), 0);
		reloads += wait_for(generation(a) > before, 5000);
	}
	l.stop = true;
	for (size_t i = 0; i < ARRAY_LEN(thread); i++)
		(void)pthread_join(thread[i], NULL);
	print_message("%.0f reloads during %u questions: %u wrong answers\n", reloads, l.asked,
		      l.wrong);
	if (l.wrong)
		fail_msg("%u wrong, the last: %d %s", l.wrong, l.last,
			 l.last < 0 ? strerror(-l.last) : "");
	assert_int_equal((int)reloads, 40);
	assert_true(l.asked > 200);
	web_close(&w);
}

static void a_wrong_configuration_changes_nothing(void **state)
{
	struct agent *a = *state;
	struct web w = must_open(a, "caddy");

	assert_int_equal(agent_write(a, "request_limits: [{name: x, rate: 0/s}]\n"), 0);
	assert_int_not_equal(agent_cmd(a, "reload"), 0);
	assert_int_equal(ask(&w, "caddy", Q(.target = "/used-up", .ip = "198.51.100.11"), NULL),
			 429);
	assert_int_equal(ask(&w, "caddy", Q(.target = "/plenty", .ip = "198.51.100.11"), NULL),
			 200);
	must_reload(a, conf);
	assert_int_equal(ask(&w, "caddy", Q(.target = "/used-up", .ip = "198.51.100.11"), NULL),
			 429);
	web_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_have_a_size),
		cmocka_unit_test(header_lines_have_a_number),
		cmocka_unit_test(targets_have_a_size),
		cmocka_unit_test(bad_json_is_refused),
		cmocka_unit_test(deep_and_huge_json_is_refused),
		cmocka_unit_test(lengths_that_lie_are_refused),
		cmocka_unit_test(nothing_gets_into_headers_logs_or_metrics),
		cmocka_unit_test(old_new_and_no_http_at_all),
		cmocka_unit_test(requests_in_one_piece_are_answered_in_their_order),
		cmocka_unit_test(noise_is_survived),
		cmocka_unit_test(who_leaves_in_the_middle_costs_nothing),
		cmocka_unit_test(slow_clients_are_cut_off_whatever_they_send),
		cmocka_unit_test(who_never_reads_is_cut_off),
		cmocka_unit_test(above_the_limit_connections_are_closed_at_once),
		cmocka_unit_test(running_out_of_files_is_survived),
		cmocka_unit_test(as_many_connections_as_configured_are_served),
		cmocka_unit_test(a_flood_of_keys_stays_within_its_memory),
		cmocka_unit_test(reloads_under_load_change_no_answer),
		cmocka_unit_test(a_wrong_configuration_changes_nothing),
	};

	return cmocka_run_group_tests(tests, set_up, end_case);
}
