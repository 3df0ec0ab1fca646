/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The classic laboratory of rate limiting, through the port of a real agent: what each algorithm admits at an edge of
 * its window, whether many clients at once get more than the limit, and how a queue lets requests out.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "http_test.h"
#include "tests/lib/run.h"

#define SEC_NS 1000000000ull

static const char conf[] = LISTENERS
	"request_limits:\n"
	"  - {name: edge-fixed, match: {path: /edge/fixed}, key: ip, algorithm: fixed-window, "
	"limit: 10, window: 10s}\n"
	"  - {name: edge-log, match: {path: /edge/log}, key: ip, algorithm: sliding-window-log, "
	"limit: 10, window: 10s}\n"
	"  - {name: edge-counter, match: {path: /edge/counter}, key: ip, algorithm: "
	"sliding-window-counter, limit: 10, window: 10s}\n"
	"  - {name: edge-bucket, match: {path: /edge/bucket}, key: ip, algorithm: token-bucket, "
	"rate: 1/s, burst: 10}\n"
	"  - {name: race-fixed, match: {path: /race/fixed}, key: ip, algorithm: fixed-window, "
	"limit: 100, window: 1d}\n"
	"  - {name: race-log, match: {path: /race/log}, key: ip, algorithm: sliding-window-log, "
	"limit: 100, window: 1d}\n"
	"  - {name: race-counter, match: {path: /race/counter}, key: ip, algorithm: "
	"sliding-window-counter, limit: 100, window: 1d}\n"
	"  - {name: race-bucket, match: {path: /race/bucket}, key: ip, algorithm: token-bucket, "
	"rate: 100/h, burst: 100}\n"
	"  - {name: many-fixed, match: {path: /many/fixed}, key: ip, algorithm: fixed-window, "
	"limit: 10000, window: 1d}\n"
	"  - {name: many-log, match: {path: /many/log}, key: ip, algorithm: sliding-window-log, "
	"limit: 10000, window: 1d}\n"
	"  - {name: many-counter, match: {path: /many/counter}, key: ip, algorithm: "
	"sliding-window-counter, limit: 10000, window: 1d}\n"
	"  - {name: many-bucket, match: {path: /many/bucket}, key: ip, algorithm: token-bucket, "
	"rate: 1/h, burst: 10000}\n"
	"  - {name: both-all, match: {path: /race/both}, key: global, algorithm: "
	"sliding-window-log, limit: 100, window: 1d}\n"
	"  - {name: both-ip, match: {path: /race/both}, key: ip, algorithm: token-bucket, "
	"rate: 60/d, burst: 60}\n"
	"  - {name: leak, match: {path: /leak}, key: global, algorithm: leaky-bucket, "
	"rate: 100/s, queue: 150, max_wait: 10s}\n"
	"  - {name: slow, match: {path: /slow}, key: ip, algorithm: leaky-bucket, "
	"rate: 6/m, queue: 3, max_wait: 60s}\n"
	"  - {name: crowd, match: {path: /crowd}, key: ip, algorithm: leaky-bucket, "
	"rate: 2/s, queue: 190, max_wait: 5m}\n"
	"  - {name: patience, match: {path: /patience}, key: ip, algorithm: leaky-bucket, "
	"rate: 2/s, queue: 100, max_wait: 1200ms}\n";

static int set_up(void **state)
{
	return start_case(state, conf, false);
}

/* --- an edge ---- */

static uint64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * SEC_NS + (uint64_t)t.tv_nsec;
}

static void wait_until_wall_ns(uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / SEC_NS), .tv_nsec = (long)(ns % SEC_NS)};

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static const struct {
	const char *path;
	unsigned both; /* admitted before and after the edge */
} edges[] = {{"/edge/fixed", 20}, {"/edge/log", 10}, {"/edge/counter", 10}, {"/edge/bucket", 10}};

/* Ten of each half a second before the edge, and ten 0.2 s after it. False: the machine was too slow for that. */
static bool cross_an_edge(struct web *w, const char *ip, unsigned got[ARRAY_LEN(edges)])
{
	uint64_t now = wall_ns(), edge;

	edge = (now / (10 * SEC_NS) + 1) * 10 * SEC_NS;
	if (edge - now < SEC_NS)
		edge += 10 * SEC_NS;
	wait_until_wall_ns(edge - SEC_NS / 2);
	for (size_t i = 0; i < ARRAY_LEN(edges); i++)
		got[i] = admitted(w, "caddy", Q(.target = edges[i].path, .ip = ip), 10);
	if (wall_ns() >= edge)
		return false;
	wait_until_wall_ns(edge + SEC_NS / 5);
	for (size_t i = 0; i < ARRAY_LEN(edges); i++)
		got[i] += admitted(w, "caddy", Q(.target = edges[i].path, .ip = ip), 10);
	return wall_ns() < edge + SEC_NS * 45 / 100; /* else the bucket has a token again */
}

static void ten_before_and_ten_after_an_edge(void **state)
{
	struct web w = must_open(*state, "caddy");
	unsigned got[ARRAY_LEN(edges)];

	if (!cross_an_edge(&w, "198.51.100.1", got) && !cross_an_edge(&w, "198.51.100.2", got))
		fail_msg("80 requests take longer than half a second here");
	for (size_t i = 0; i < ARRAY_LEN(edges); i++) {
		print_message("limit 10 per 10 s, 10 before and 10 after an edge: %s admits %u\n",
			      edges[i].path + 6, got[i]);
		assert_int_equal(got[i], edges[i].both);
	}
	web_close(&w);
}

/* --- a race ---- */

#define PROCESSES 2
#define THREADS	  25
#define CALLS	  4
#define ROUNDS	  3

static const char *const races[] = {"/race/fixed", "/race/log", "/race/counter", "/race/bucket"};

struct race {
	pthread_barrier_t together;
	const char *where;
	_Atomic unsigned yes[ARRAY_LEN(races)][ROUNDS], no[ARRAY_LEN(races)][ROUNDS];
	_Atomic unsigned failed;
};

static void *race_thread(void *arg)
{
	struct race *race = arg;
	struct web_reply r;
	char text[512], ip[32];
	struct web w;
	bool open = web_open(&w, race->where) == 0;

	race->failed += !open;
	for (size_t i = 0; i < ARRAY_LEN(races); i++)
		for (unsigned round = 0; round < ROUNDS; round++) {
			size_t n;

			(void)snprintf(ip, sizeof(ip), "198.51.100.%u", 10 + round);
			n = write_question("caddy", Q(.target = races[i], .ip = ip), text,
					   sizeof(text));
			(void)pthread_barrier_wait(&race->together);
			for (int call = 0; open && call < CALLS; call++) {
				if (web_send(&w, text, n) < 0 || web_wait(&w, WEB_WAIT_MS, &r) < 0)
					race->failed++;
				else if (r.status == 200)
					race->yes[i][round]++;
				else if (r.status == 429)
					race->no[i][round]++;
			}
		}
	web_close(&w);
	return NULL;
}

static int race_process(struct race *race)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, race_thread, race))
			return 1; /* the others wait for ever: the parent's time-out */
	for (int i = 0; i < THREADS; i++)
		(void)pthread_join(thread[i], NULL);
	return 0;
}

static void two_processes_of_25_threads_get_exactly_the_limit(void **state)
{
	struct race *race = mmap(NULL, sizeof(*race), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;
	pid_t pid[PROCESSES];

	assert_ptr_not_equal(race, MAP_FAILED);
	race->where = must_where(*state, "caddy");
	assert_int_equal(pthread_barrierattr_init(&attr), 0);
	assert_int_equal(pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED), 0);
	assert_int_equal(pthread_barrier_init(&race->together, &attr, PROCESSES * THREADS), 0);
	(void)fflush(NULL);
	for (int i = 0; i < PROCESSES; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (!pid[i]) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(race_process(race));
		}
	}
	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(run_wait(pid[i], 60000), 0);
	assert_int_equal(race->failed, 0);
	for (size_t i = 0; i < ARRAY_LEN(races); i++) {
		print_message("limit 100, 200 at once from 2 x 25 threads: %s admits",
			      races[i] + 6);
		for (int round = 0; round < ROUNDS; round++)
			print_message(" %u", race->yes[i][round]);
		print_message("\n");
		for (int round = 0; round < ROUNDS; round++) {
			assert_int_equal(race->yes[i][round], 100);
			assert_int_equal(race->no[i][round], 100);
		}
	}
	(void)munmap(race, sizeof(*race));
}

/* As fast as workers can: whole windows of requests in one write, so that both decide about one key all the time. */
#define PIPES  6
#define PIECE  50
#define PIECES 60

static const char *const manys[] = {"/many/fixed", "/many/log", "/many/counter", "/many/bucket"};

static void *pipe_thread(void *arg)
{
	struct race *race = arg;
	static __thread char text[PIECE * 256];
	struct web_reply r;
	struct web w;

	if (web_open(&w, race->where) < 0)
		race->failed++;
	for (size_t i = 0; i < ARRAY_LEN(manys); i++) {
		size_t n = 0;

		for (int k = 0; k < PIECE; k++)
			n += write_question("caddy", Q(.target = manys[i], .ip = "198.51.100.32"),
					    text + n, sizeof(text) - n);
		(void)pthread_barrier_wait(&race->together);
		for (int piece = 0; piece < PIECES; piece++) {
			race->failed += web_send(&w, text, n) < 0;
			for (int k = 0; k < PIECE; k++) {
				if (web_wait(&w, WEB_WAIT_MS, &r) < 0)
					race->failed++;
				else
					*(r.status == 200 ? &race->yes[i][0] : &race->no[i][0]) +=
						1;
			}
		}
	}
	web_close(&w);
	return NULL;
}

static void no_count_is_lost_between_workers(void **state)
{
	struct race race = {.where = must_where(*state, "caddy")};
	pthread_t thread[PIPES];

	assert_int_equal(pthread_barrier_init(&race.together, NULL, PIPES), 0);
	for (int i = 0; i < PIPES; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, pipe_thread, &race), 0);
	for (int i = 0; i < PIPES; i++)
		(void)pthread_join(thread[i], NULL);
	(void)pthread_barrier_destroy(&race.together);
	assert_int_equal(race.failed, 0);
	for (size_t i = 0; i < ARRAY_LEN(manys); i++) {
		print_message("limit 10000, %d as fast as can be: %s admits %u\n",
			      PIPES * PIECE * PIECES, manys[i] + 6, race.yes[i][0]);
		assert_int_equal(race.yes[i][0], 10000);
		assert_int_equal(race.no[i][0], PIPES * PIECE * PIECES - 10000);
	}
}

/* Half of the threads are one client, half another: 60 each, 100 together. */
static void *both_thread(void *arg)
{
	struct race *race = arg;
	unsigned who = race->failed++ % 2; /* here a number for each thread */
	struct web_reply r;
	struct web w;
	char text[512];
	size_t n = write_question("caddy",
				  Q(.target = "/race/both",
				    .ip = who ? "198.51.100.31" : "198.51.100.30"),
				  text, sizeof(text));

	if (web_open(&w, race->where) < 0)
		return NULL;
	(void)pthread_barrier_wait(&race->together);
	for (int call = 0; call < 2 * CALLS; call++)
		if (web_send(&w, text, n) == 0 && web_wait(&w, WEB_WAIT_MS, &r) == 0)
			*(r.status == 200 ? &race->yes[0][who] : &race->no[0][who]) += 1;
	web_close(&w);
	return NULL;
}

static long long left_at(struct web *json, const char *ip, const char *limit)
{
	long long left = -1;
	char body[256];
	json_t *j, *l;
	size_t i;

	(void)snprintf(body, sizeof(body),
		       "{\"method\":\"GET\",\"path\":\"/race/both\",\"ip\":\"%s\",\"peek\":true}",
		       ip);
	j = check(json, body);
	json_array_foreach(json_object_get(j, "limits"), i, l) {
		if (strcmp(text_in(l, "name"), limit) == 0)
			left = number_in(l, "remaining");
	}
	json_decref(j);
	return left;
}

static void a_race_for_two_limits_charges_both_or_none(void **state)
{
	struct race race = {.where = must_where(*state, "caddy")};
	struct web json = must_open(*state, "json");
	pthread_t thread[THREADS + 1];
	unsigned yes;

	assert_int_equal(pthread_barrier_init(&race.together, NULL, ARRAY_LEN(thread)), 0);
	for (size_t i = 0; i < ARRAY_LEN(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, both_thread, &race), 0);
	for (size_t i = 0; i < ARRAY_LEN(thread); i++)
		(void)pthread_join(thread[i], NULL);
	(void)pthread_barrier_destroy(&race.together);
	yes = race.yes[0][0] + race.yes[0][1];
	print_message("limits of 100 for all and 60 for each of two, 208 at once: %u and %u\n",
		      race.yes[0][0], race.yes[0][1]);
	assert_int_equal(yes, 100);
	assert_int_equal(race.no[0][0] + race.no[0][1], ARRAY_LEN(thread) * 2 * CALLS - 100);
	assert_int_equal(left_at(&json, "198.51.100.30", "both-all"), 0);
	assert_int_equal(left_at(&json, "198.51.100.30", "both-ip"), 60 - race.yes[0][0]);
	assert_int_equal(left_at(&json, "198.51.100.31", "both-ip"), 60 - race.yes[0][1]);
	web_close(&json);
}

/* --- a queue ---- */

#define CROWD	   200
#define LEAK_RATE  100
#define LEAK_QUEUE 150

struct crowd {
	struct web w[CROWD];
	int status[CROWD];
	uint64_t at_ns[CROWD]; /* when it was answered */
	unsigned n;
};

/* Reads whatever comes until @want are answered or @ms are over; returns how many are. */
static unsigned gather(struct crowd *c, unsigned want, unsigned ms)
{
	uint64_t deadline_ns = wait_now_ns() + ms * 1000000ULL;
	struct pollfd p[CROWD];
	struct web_reply r;
	unsigned done;

	for (;;) {
		done = 0;
		for (unsigned i = 0; i < c->n; i++) {
			p[i] = (struct pollfd){.fd = c->status[i] ? -1 : c->w[i].fd,
					       .events = POLLIN};
			done += c->status[i] != 0;
		}
		if (done >= want || wait_now_ns() >= deadline_ns)
			return done;
		(void)poll(p, c->n, 20);
		for (unsigned i = 0; i < c->n; i++) {
			int e;

			if (c->status[i] || !p[i].revents)
				continue;
			e = web_take(&c->w[i], &r);
			if (e == -EAGAIN)
				continue;
			c->status[i] = e < 0 ? e : r.status;
			c->at_ns[i] = wait_now_ns();
		}
	}
}

/* Least squares: nanoseconds from one release to the next. */
static double spacing_ns(const uint64_t *at, unsigned n)
{
	double mean_x = (n - 1) / 2.0, mean_y = 0, xy = 0, xx = 0;

	for (unsigned i = 0; i < n; i++)
		mean_y += (double)(at[i] - at[0]) / n;
	for (unsigned i = 0; i < n; i++) {
		xy += (i - mean_x) * ((double)(at[i] - at[0]) - mean_y);
		xx += (i - mean_x) * (i - mean_x);
	}
	return xy / xx;
}

static int earlier(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static struct crowd *ask_at_once(struct agent *a, unsigned n, struct question q)
{
	struct crowd *c = calloc(1, sizeof(*c));
	char text[512];
	size_t bytes = write_question("caddy", q, text, sizeof(text));

	assert_non_null(c);
	c->n = n;
	for (unsigned i = 0; i < n; i++)
		c->w[i] = must_open(a, "caddy");
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(web_send(&c->w[i], text, bytes), 0);
	return c;
}

static void go_home(struct crowd *c)
{
	for (unsigned i = 0; i < c->n; i++)
		web_close(&c->w[i]);
	free(c);
}

static void a_queue_lets_out_at_its_rate_and_refuses_the_rest_at_once(void **state)
{
	uint64_t began = wait_now_ns(), at[CROWD], refused_ns = 0, all_here;
	struct crowd *c = ask_at_once(*state, CROWD, Q(.target = "/leak", .ip = "198.51.100.20"));
	unsigned out = 0, refused = 0, first = 0;
	double rate;

	all_here = wait_now_ns() + SEC_NS / 20;
	assert_int_equal(gather(c, CROWD, 10000), CROWD);
	for (unsigned i = 0; i < CROWD; i++) {
		if (c->status[i] == 200) {
			at[out++] = c->at_ns[i];
			continue;
		}
		assert_int_equal(c->status[i], 429);
		refused++;
		if (c->at_ns[i] - began > refused_ns)
			refused_ns = c->at_ns[i] - began;
	}
	qsort(at, out, sizeof(at[0]), earlier);
	/* to come takes the crowd a moment, in which some leave, make room, and are not yet looked at */
	assert_in_range(out, LEAK_QUEUE + 1,
			LEAK_QUEUE + 1 + (all_here - began) * LEAK_RATE / SEC_NS + 5);
	assert_int_equal(out + refused, CROWD);
	while (at[first] < all_here)
		first++;
	assert_true(out - first > 100);
	rate = 1e9 / spacing_ns(at + first, out - first);
	print_message("a queue at %d/s, %d at once: %u leave at %.2f/s (%+.2f %%), %u refused "
		      "within %.1f ms\n",
		      LEAK_RATE, CROWD, out, rate, 100 * (rate / LEAK_RATE - 1), refused,
		      (double)refused_ns / 1e6);
	assert_true(rate > LEAK_RATE * 0.98 && rate < LEAK_RATE * 1.02);
	assert_true(refused_ns < 500000000);
	for (unsigned i = 0; i < out; i++) /* nobody leaves before its turn */
		assert_true(at[i] + 5000000 >= began + i * (SEC_NS / LEAK_RATE));
	go_home(c);
}

static bool has_room(struct web *json, const char *ip)
{
	char body[256];
	json_t *j;
	bool yes;

	(void)snprintf(body, sizeof(body),
		       "{\"method\":\"GET\",\"path\":\"/slow\",\"ip\":\"%s\",\"peek\":true}", ip);
	j = check(json, body);
	yes = true_in(j, "allowed");
	json_decref(j);
	return yes;
}

/* Places are ten seconds apart: nothing leaves by itself here. */
static void who_leaves_gives_the_last_place_back(void **state)
{
	const char *ip = "198.51.100.21";
	struct web json = must_open(*state, "json");
	struct crowd *c = ask_at_once(*state, 5, Q(.target = "/slow", .ip = ip));
	unsigned last = 0, middle = 0;

	assert_int_equal(gather(c, 2, 5000), 2); /* one at once, three held, one refused */
	assert_false(has_room(&json, ip));
	/* who is last is not known from outside: all that are held leave, and all places are free again */
	for (unsigned i = 0; i < c->n; i++) {
		if (c->status[i])
			continue;
		web_close(&c->w[i]);
		c->status[i] = -1;
		middle += last != 0;
		last = i + 1;
	}
	assert_int_equal(middle, 2);
	assert_true(wait_for(has_room(&json, ip), 5000));
	go_home(c);
	web_close(&json);
}

static void who_leaves_from_the_middle_is_counted(void **state)
{
	const char *ip = "198.51.100.22";
	double before = metric_sum(*state, "weir_queue_abandoned_total");
	struct web json = must_open(*state, "json");
	char text[512];
	size_t n = write_question("caddy", Q(.target = "/slow", .ip = ip), text, sizeof(text));
	struct web w[4];
	struct web_reply r;

	assert_true(before >= 0);
	for (int i = 0; i < 4; i++) { /* one after the other: the order is known */
		w[i] = must_open(*state, "caddy");
		assert_int_equal(web_send(&w[i], text, n), 0);
		if (i == 0)
			assert_int_equal(web_wait(&w[i], 5000, &r), 0);
		else
			assert_true(wait_for(metric_sum(*state, "weir_held_requests") >= i, 5000));
	}
	assert_false(has_room(&json, ip));
	web_close(&w[1]);
	assert_true(wait_for(metric_sum(*state, "weir_queue_abandoned_total") > before, 5000));
	assert_false(has_room(&json, ip));
	web_close(&w[3]); /* the last one */
	assert_true(wait_for(has_room(&json, ip), 5000));
	web_close(&w[2]);
	web_close(&w[0]);
	web_close(&json);
}

static void nobody_waits_longer_than_max_wait(void **state)
{
	struct crowd *c = ask_at_once(*state, 8, Q(.target = "/patience", .ip = "198.51.100.23"));
	uint64_t began = wait_now_ns();
	unsigned yes = 0, no = 0;

	/* turns at 0, 0.5 and 1 s; the next would be after 1.5 s */
	assert_int_equal(gather(c, 8, 5000), 8);
	for (unsigned i = 0; i < 8; i++) {
		yes += c->status[i] == 200;
		no += c->status[i] == 429;
		if (c->status[i] == 429)
			assert_true(c->at_ns[i] - began < 400000000);
	}
	assert_int_equal(yes, 3);
	assert_int_equal(no, 5);
	go_home(c);
}

static void envoy_is_never_kept_waiting(void **state)
{
	struct web w = must_open(*state, "envoy");
	struct question q = Q(.target = "/patience", .ip = "198.51.100.24");
	uint64_t began = wait_now_ns();
	struct web_reply r;

	assert_int_equal(ask(&w, "envoy", q, NULL), 200);
	assert_int_equal(ask(&w, "envoy", q, &r), 429);
	assert_string_equal(web_header(&r, "Retry-After"), "1");
	assert_true(wait_now_ns() - began < 400000000);
	web_close(&w);
}

/* Last: the agent ends. */
static void held_requests_are_answered_at_shutdown(void **state)
{
	struct agent *a = *state;
	struct crowd *c = ask_at_once(a, CROWD, Q(.target = "/crowd", .ip = "198.51.100.25"));
	unsigned out = 0, refused = 0, cut = 0;
	uint64_t began;

	assert_true(wait_for(metric_sum(a, "weir_held_requests") >= 180, 5000));
	began = wait_now_ns();
	assert_int_equal(agent_end(a), 0);
	assert_true(wait_now_ns() - began < 5 * SEC_NS);
	assert_int_equal(gather(c, CROWD, 1000), CROWD);
	for (unsigned i = 0; i < CROWD; i++) {
		out += c->status[i] == 200;
		refused += c->status[i] == 429;
		cut += c->status[i] == 503;
	}
	print_message("%d at once, then the end: %u had left, %u were refused, %u were told that "
		      "the agent ends, in %.2f s\n",
		      CROWD, out, refused, cut, (double)(wait_now_ns() - began) / 1e9);
	assert_int_equal(out + refused + cut, CROWD);
	assert_true(cut >= 150);
	go_home(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_before_and_ten_after_an_edge),
		cmocka_unit_test(two_processes_of_25_threads_get_exactly_the_limit),
		cmocka_unit_test(no_count_is_lost_between_workers),
		cmocka_unit_test(a_race_for_two_limits_charges_both_or_none),
		cmocka_unit_test(a_queue_lets_out_at_its_rate_and_refuses_the_rest_at_once),
		cmocka_unit_test(who_leaves_gives_the_last_place_back),
		cmocka_unit_test(who_leaves_from_the_middle_is_counted),
		cmocka_unit_test(nobody_waits_longer_than_max_wait),
		cmocka_unit_test(envoy_is_never_kept_waiting),
		cmocka_unit_test(held_requests_are_answered_at_shutdown),
	};

	return cmocka_run_group_tests(tests, set_up, end_case);
}
