/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long after its return a server is asked again, however it was away: dead, stopped, behind a network that swallows
 * everything, still loading; one worker and four, asking all the time and not at all. It is away for times of all lengths,
 * so that it comes back at every point of a try.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "lib/netns.h"
#include "lib/run.h"
#include "redis/fake.h"

#define WORKERS 4
#define PROBE	(100 * MS)
#define ASKING	8 /* by each worker, under load */

struct worker;
struct asking {
	struct worker *w;
	struct ask a;
	bool free;
};
struct worker {
	struct return_lab *lab;
	struct weir_store *s;
	struct asking all[ASKING];
	uint64_t failed_ns; /* the last one */
	unsigned answered;
};
struct return_lab {
	struct fix f; /* its loop, its server */
	struct lab net;
	struct fake fake;
	bool has_net, loading;
	bool load;   /* of this row */
	bool asking; /* now */
	bool was_away;
	unsigned turns; /* how often the first worker's was away or there again */
	struct worker w[WORKERS];
	unsigned n;
	struct event *timer;
	struct weir_store_limit limit;
	unsigned aways; /* so far */
};

static bool away(const struct return_lab *lab, bool all)
{
	unsigned n = 0;

	for (unsigned i = 0; i < lab->n; i++)
		n += *lab->w[i].s->away;
	return all ? n == lab->n : n;
}

/* --- load ---------------------------------------------------------------------------------------------------------- */

static void answered(struct weir_store_request *q, int r, void *data)
{
	struct asking *x = data;

	(void)q;
	x->free = true;
	x->w->answered++;
	if (r < 0)
		x->w->failed_ns = wait_now_ns();
}

static void ask_some(evutil_socket_t fd, short what, void *arg)
{
	struct return_lab *lab = arg;

	(void)fd;
	(void)what;
	lab->turns += *lab->w[0].s->away != lab->was_away;
	lab->was_away = *lab->w[0].s->away;
	for (unsigned i = 0; lab->asking && i < lab->n; i++)
		for (unsigned k = 0; k < ASKING; k++) {
			struct asking *x = &lab->w[i].all[k];

			if (!x->free)
				continue;
			x->free = false;
			x->a.y[0] = request_layer(&lab->limit, k + 1, 1);
			x->a.q = (struct weir_store_request){.layer = x->a.y,
							     .n = 1,
							     .now_us = EPOCH};
			lab->w[i].s->ops->decide(lab->w[i].s, &x->a.q, answered, x);
		}
}

/* --- coming and going ---------------------------------------------------------------------------------------------- */

static void start(struct return_lab *lab, const char *url, unsigned n, bool load)
{
	const struct timeval every = {.tv_usec = 1000};

	lab->limit = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 1000000000, DAY);
	lab->load = lab->asking = load;
	if (!lab->f.o.probe_ns)
		lab->f.o.probe_ns = PROBE;
	lab->f.o.quiet = true;
	for (lab->n = 0; lab->n < n; lab->n++) {
		struct worker *w = &lab->w[lab->n];

		w->lab = lab;
		for (unsigned k = 0; k < ASKING; k++)
			w->all[k] = (struct asking){.w = w, .free = true};
		fix_store_at(&lab->f, url);
		w->s = lab->f.s;
		lab->f.s = NULL;
	}
	lab->timer = event_new(lab->f.base, -1, EV_PERSIST, ask_some, lab);
	assert_int_equal(event_add(lab->timer, &every), 0);
	fix_turn(&lab->f, 50);
	assert_true(fix_wait(&lab->f, !away(lab, false), 5000));
}

static void end(struct return_lab *lab)
{
	for (unsigned i = 0; i < lab->n; i++)
		weir_store_free(lab->w[i].s);
	event_free(lab->timer);
	lab->n = 0;
}

/* Turns the loop until all are asked again; returns how long the last one took, and no decision failed after it. */
static uint64_t wait_return(struct return_lab *lab, uint64_t back_ns)
{
	uint64_t last_ns = back_ns;

	for (unsigned i = 0; i < lab->n; i++)
		lab->w[i].failed_ns = back_ns;
	assert_true(fix_wait(&lab->f, !away(lab, false), 20000));
	last_ns = wait_now_ns();
	fix_turn(&lab->f, 100);
	for (unsigned i = 0; i < lab->n; i++)
		if (lab->w[i].failed_ns > last_ns)
			last_ns = lab->w[i].failed_ns;
	return last_ns - back_ns;
}

typedef void change_fn(struct return_lab *lab);

/* Longest of @times, away for up to @span_ms. */
static uint64_t longest(struct return_lab *lab, const char *what, unsigned times, unsigned span_ms,
			change_fn *go, change_fn *back)
{
	uint64_t longest_ns = 0, sum_ns = 0, took_ns;

	for (unsigned i = 0; i < times; i++) {
		go(lab);
		lab->asking = true; /* or nobody notices */
		assert_true(fix_wait(&lab->f, away(lab, true), 10000));
		lab->asking = lab->load;
		fix_turn(&lab->f, 50 + lab->aways++ * 631 % span_ms);
		back(lab);
		took_ns = wait_return(lab, wait_now_ns());
		sum_ns += took_ns;
		if (took_ns > longest_ns)
			longest_ns = took_ns;
	}
	print_message("%s, %u worker%s%s: %llu ms at most, %llu ms on average of %u\n", what,
		      lab->n, lab->n > 1 ? "s" : "", lab->load ? " under load" : "",
		      (unsigned long long)(longest_ns / MS),
		      (unsigned long long)(sum_ns / times / MS), times);
	return longest_ns;
}

/* --- ways ---------------------------------------------------------------------------------------------------------- */

static void die(struct return_lab *lab)
{
	redis_kill(&lab->f.r);
}

static void rise(struct return_lab *lab)
{
	assert_int_equal(redis_start(&lab->f.r, NULL), 0);
}

static void stop(struct return_lab *lab)
{
	assert_int_equal(kill(lab->f.r.pid, SIGSTOP), 0);
}

static void go_on(struct return_lab *lab)
{
	assert_int_equal(kill(lab->f.r.pid, SIGCONT), 0);
}

/* What is sent to the server goes to a card that nobody has. */
static void lead_to(struct return_lab *lab, const uint8_t mac[6])
{
	char text[18], out[LAB_ERR_BYTES];

	(void)snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
		       mac[3], mac[4], mac[5]);
	if (lab_cmd(&lab->net, LAB_WEIR, out, sizeof(out), "ip", "neigh", "replace", LAB_GEN_IP4,
		    "lladdr", text, "nud", "permanent", "dev", LAB_WEIR_DEV))
		fail_msg("%s", out);
}

static void swallow(struct return_lab *lab)
{
	lead_to(lab, (const uint8_t[6]){2, 0, 0, 0, 0, 9});
}

static void let_through(struct return_lab *lab)
{
	lead_to(lab, lab->net.mac[LAB_GEN]);
}

/* A time, that it is admitted, what is said of a layer: any numbers will do. */
#define ADMITTED                                                                                   \
	"\1\1\1\1\1\1\1"                                                                           \
	"\1"                                                                                       \
	"\1aaaaaaabbbbbbbccccccc"

static const char *loads(struct fake *f, const struct redisReply *command)
{
	struct return_lab *lab = f->arg;

	if (lab->loading && !fake_is(command, "INFO"))
		return "-LOADING Redis is loading the dataset in memory\r\n";
	return fake_is(command, "SCRIPT")    ? "$40\r\n"
					       "0123456789012345678901234567890123456789\r\n"
	       : fake_is(command, "EVALSHA") ? "$30\r\n" ADMITTED "\r\n"
					     : "+OK\r\n";
}

static void load(struct return_lab *lab)
{
	lab->loading = true;
	for (unsigned i = 0; i < FAKE_CLIENTS; i++)
		if (lab->fake.client[i].f)
			fake_drop(&lab->fake.client[i]);
}

static void loaded(struct return_lab *lab)
{
	lab->loading = false;
}

/* --- tests --------------------------------------------------------------------------------------------------------- */

/* A try begins every probe interval; what it needs then, and a busy machine's part. */
#define BOUND (PROBE + 250 * MS)

static void every_load(struct return_lab *lab, const char *url, const char *what, unsigned span_ms,
		       change_fn *go, change_fn *back, uint64_t bound_ns)
{
	static const struct {
		unsigned workers;
		bool load;
	} rows[] = {{1, false}, {WORKERS, false}, {1, true}, {WORKERS, true}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		start(lab, url, rows[i].workers, rows[i].load);
		assert_in_range(longest(lab, what, 4, span_ms, go, back), 0, bound_ns);
		end(lab);
	}
}

static void unix_url(struct return_lab *lab, char *url, size_t size)
{
	assert_int_equal(redis_start(&lab->f.r, NULL), 0);
	(void)snprintf(url, size, "redis+unix://%s", lab->f.r.sock);
}

static void a_dead_server_that_rises(void **state)
{
	struct return_lab *lab = *state;
	char url[160];

	unix_url(lab, url, sizeof(url));
	every_load(lab, url, "killed, restarted empty", 400, die, rise, BOUND);
}

static void a_stopped_server_that_goes_on(void **state)
{
	struct return_lab *lab = *state;
	char url[160];

	unix_url(lab, url, sizeof(url));
	every_load(lab, url, "stopped", 1300, stop, go_on, BOUND);
}

static void a_network_that_swallows_everything(void **state)
{
	struct return_lab *lab = *state;
	char err[LAB_ERR_BYTES], url[64];
	int saved;

	if (run_lacks_root())
		skip();
	if (lab_open(&lab->net, NULL, err) < 0)
		fail_msg("%s", err);
	lab->has_net = true;
	lab->f.r.tcp = true;
	saved = lab_enter(&lab->net, LAB_GEN);
	assert_true(saved >= 0);
	assert_int_equal(redis_start(&lab->f.r, "--bind", LAB_GEN_IP4, "127.0.0.1",
				     "--protected-mode", "no", NULL),
			 0);
	lab_leave(saved);
	saved = lab_enter(&lab->net, LAB_WEIR);
	assert_true(saved >= 0);
	(void)snprintf(url, sizeof(url), "redis://" LAB_GEN_IP4 ":%u", lab->f.r.port);
	every_load(lab, url, "black-holed", 1700, swallow, let_through, BOUND + 250 * MS);
	lab_leave(saved);
}

static void a_server_that_has_loaded(void **state)
{
	struct return_lab *lab = *state;
	char url[64];

	lab->fake = (struct fake){.says = loads, .arg = lab};
	fake_start(&lab->fake, lab->f.base);
	(void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", lab->fake.port);
	start(lab, url, WORKERS, false);
	assert_in_range(longest(lab, "loading", 5, 400, load, loaded), 0, BOUND);
	end(lab);
}

/* --- names --------------------------------------------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool hangs;
	unsigned asked, under_way;
} resolver = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

/* The C library's, but for one name: two addresses, and nobody listens at the first. */
int getaddrinfo(const char *restrict name, const char *restrict service,
		const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
		(__typeof__(real))(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
	int r;

	if (!name || strcmp(name, "two.test"))
		return real(name, service, hints, ret);
	(void)pthread_mutex_lock(&resolver.lock);
	resolver.asked++;
	resolver.under_way++;
	while (resolver.hangs)
		(void)pthread_cond_wait(&resolver.ended, &resolver.lock);
	resolver.under_way--;
	(void)pthread_mutex_unlock(&resolver.lock);
	r = real("127.0.0.2", service, hints, ret);
	return r ? r : real("127.0.0.1", service, hints, &(*ret)->ai_next);
}

static void hang(bool hangs)
{
	(void)pthread_mutex_lock(&resolver.lock);
	resolver.hangs = hangs;
	(void)pthread_cond_broadcast(&resolver.ended);
	(void)pthread_mutex_unlock(&resolver.lock);
}

static unsigned under_way(void)
{
	unsigned n;

	(void)pthread_mutex_lock(&resolver.lock);
	n = resolver.under_way;
	(void)pthread_mutex_unlock(&resolver.lock);
	return n;
}

/* The pause is one for all addresses. And where the names are not known either meanwhile, the address of before will do;
 * there is one look-up at a time.
 */
static void a_name_of_two_addresses_and_nobody_to_say_them(void **state)
{
	struct return_lab *lab = *state;
	char url[64];

	lab->f.r.tcp = true;
	assert_int_equal(redis_start(&lab->f.r, NULL), 0);
	(void)snprintf(url, sizeof(url), "redis://two.test:%u", lab->f.r.port);
	start(lab, url, WORKERS, false);
	assert_in_range(longest(lab, "two addresses", 8, 400, die, rise), 0, BOUND);
	hang(true);
	assert_in_range(longest(lab, "two addresses, no names", 3, 400, die, rise), 0,
			BOUND + 250 * MS); /* it is waited for, a little */
	assert_int_equal(under_way(), WORKERS);
	hang(false);
	assert_true(wait_for(!under_way(), 5000));
	end(lab);
}

/* --- servers that are there, in a way ------------------------------------------------------------------------------ */

/* Less than a probe interval of silence is no reason to be away for one. */
static void a_moment_of_silence_costs_a_moment(void **state)
{
	struct return_lab *lab = *state;
	char url[160];

	unix_url(lab, url, sizeof(url));
	lab->f.o.probe_ns = 5000 * MS;
	start(lab, url, WORKERS, true);
	assert_in_range(longest(lab, "stopped for a moment, a probe each 5 s", 4, 10, stop, go_on),
			0, 2500 * MS);
	end(lab);
}

static void reply_late(evutil_socket_t fd, short what, void *arg)
{
	static const char reply[] = "$30\r\n" ADMITTED "\r\n";
	struct return_lab *lab = arg;

	(void)fd;
	(void)what;
	for (size_t i = 0; i < FAKE_CLIENTS; i++)
		if (lab->fake.client[i].f) /* the only one; or it has left */
			(void)!write(lab->fake.client[i].fd, reply, sizeof(reply) - 1);
}

static const char *lies(struct fake *f, const struct redisReply *command)
{
	static const struct timeval late = {.tv_usec = 60000};
	struct return_lab *lab = f->arg;

	if (!fake_is(command, "EVALSHA"))
		return loads(f, command);
	if (!lab->loading)
		return "$1\r\nx\r\n";
	assert_int_equal(event_base_once(f->base, -1, EV_TIMEOUT, reply_late, lab, &late), 0);
	return NULL;
}

/* Its probes are no better than its decisions: it is away, and that is said once. */
static void a_server_of_no_use_stays_away(void **state)
{
	struct return_lab *lab = *state;
	char url[64];

	lab->f.o.timeout_ns = 10 * MS;
	for (int slow = 0; slow < 2; slow++) {
		lab->fake = (struct fake){.says = lies, .arg = lab};
		fake_start(&lab->fake, lab->f.base);
		(void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", lab->fake.port);
		start(lab, url, 1, false);
		lab->loading = slow;
		lab->load = lab->asking = true;
		assert_true(fix_wait(&lab->f, away(lab, true), 10000));
		lab->turns = 0;
		lab->was_away = true;
		fix_turn(&lab->f, 2000);
		print_message("%s: %u changes in 2 s\n", slow ? "slow" : "lying", lab->turns);
		assert_in_range(lab->turns, 0, 0);
		end(lab);
		fix_turn(&lab->f, 100); /* what is late is not for the next one */
		fake_stop(&lab->fake);
		lab->fake.event = NULL;
	}
}

static int setup(void **state)
{
	struct return_lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	*state = lab;
	fix_options(&lab->f);
	lab->f.o.timeout_ns = 20 * MS;
	lab->f.o.probe_ns = 0;
	lab->f.base = event_base_new();
	return 0;
}

static int teardown(void **state)
{
	struct return_lab *lab = *state;

	fake_stop(&lab->fake);
	fix_done(&lab->f);
	if (lab->has_net)
		lab_close(&lab->net);
	free(lab);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_dead_server_that_rises),
		TEST(a_stopped_server_that_goes_on),
		TEST(a_network_that_swallows_everything),
		TEST(a_server_that_has_loaded),
		TEST(a_name_of_two_addresses_and_nobody_to_say_them),
		TEST(a_moment_of_silence_costs_a_moment),
		TEST(a_server_of_no_use_stays_away),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
