/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See l7_load.h. The request is what a proxy sends for a browser's request, written once; only the digits of the client
 * address change. Answers are read as far as the measurement needs it: status and length.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/l7_load.h"
#include "tests/lib/wait.h"
#include "user/base/cleanup.h"

#define ANSWER_BYTES_MAX 8192
#define EVENTS_MAX	 256
#define SILENCE_NS	 5000000000ULL /* a server that says nothing for so long is not measured */

/* As Caddy's forward_auth asks; the other servers take the address from X-Forwarded-For too and ignore the rest. */
#define ADDRESS "10.100.100.100"
static const char request_text[] =
	"GET /check HTTP/1.1\r\n"
	"Host: shop.example.org\r\n"
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n"
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
	"Accept-Encoding: gzip, deflate, br, zstd\r\n"
	"Accept-Language: en-US,en;q=0.5\r\n"
	"X-Forwarded-For: " ADDRESS "\r\n"
	"X-Forwarded-Host: shop.example.org\r\n"
	"X-Forwarded-Method: GET\r\n"
	"X-Forwarded-Proto: https\r\n"
	"X-Forwarded-Uri: /api/items/4711?page=2\r\n"
	"\r\n";
#define REQUEST_BYTES (sizeof(request_text) - 1)

struct connection {
	int fd;
	bool busy;
	uint64_t due_ns;   /* of the request under way */
	size_t used, need; /* of the answer; need 0: its head is not complete */
	char answer[ANSWER_BYTES_MAX];
};

struct load {
	int epoll_fd;
	char *err;
	unsigned int n_connections, opened;
	struct connection *connection;
	unsigned int *idle; /* a stack of connections without a request */
	unsigned int n_idle;
	char request[REQUEST_BYTES + 1];
	char *address; /* within it */
	uint64_t seed;
	uint32_t next;
};

/* One run under way. */
struct run {
	struct load *l;
	const struct load_plan *plan;
	struct load_result *result;
	uint64_t sent, due; /* due: of an open loop, by now */
	uint64_t begin_ns, now_ns;
};

__attribute__((format(printf, 3, 4))) static int fail(struct load *l, int r, const char *format,
						      ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(l->err, LOAD_ERR_BYTES, format, args);
	va_end(args);
	return r;
}

/* --- latency ------------------------------------------------------------------------------- */

static size_t slot_of(uint64_t ns)
{
	unsigned int shift;
	size_t slot;

	if (ns < 64)
		return (size_t)ns;
	shift = 57 - (unsigned int)__builtin_clzll(ns); /* ns >> shift is within 64 .. 127 */
	slot = (size_t)shift * 64 + (size_t)(ns >> shift);
	return slot < LOAD_HISTOGRAM_SLOTS ? slot : LOAD_HISTOGRAM_SLOTS - 1;
}

static uint64_t slot_end(size_t slot)
{
	size_t shift = slot / 64;

	return shift < 2 ? slot : (((uint64_t)slot % 64 + 65) << (shift - 1)) - 1;
}

uint64_t load_quantile_ns(const struct load_histogram *h, double share)
{
	uint64_t rank = (uint64_t)(share * (double)h->count), seen = 0;

	for (size_t i = 0; i < LOAD_HISTOGRAM_SLOTS; i++) {
		seen += h->n[i];
		if (seen > rank || (seen && seen == h->count))
			return slot_end(i);
	}
	return 0;
}

/* --- one request --------------------------------------------------------------------------- */

static uint32_t pick(struct run *run)
{
	struct load *l = run->l;

	if (run->plan->in_order)
		return run->plan->first + l->next++ % run->plan->addresses;
	l->seed ^= l->seed << 13;
	l->seed ^= l->seed >> 7;
	l->seed ^= l->seed << 17;
	return run->plan->first + (uint32_t)(l->seed >> 32) % run->plan->addresses;
}

/* Writes the two last digits of the address's second, third and fourth number. */
static void put_address(char *at, uint32_t n)
{
	at[4] = (char)('0' + n / 100000 % 10);
	at[5] = (char)('0' + n / 10000 % 10);
	at[8] = (char)('0' + n / 1000 % 10);
	at[9] = (char)('0' + n / 100 % 10);
	at[12] = (char)('0' + n / 10 % 10);
	at[13] = (char)('0' + n % 10);
}

static int ask(struct run *run, unsigned int i, uint64_t due_ns)
{
	struct load *l = run->l;
	struct connection *c = &l->connection[i];
	ssize_t n;

	put_address(l->address, pick(run));
	n = send(c->fd, l->request, REQUEST_BYTES, MSG_NOSIGNAL);
	if (n != (ssize_t)REQUEST_BYTES) /* one request always fits into an empty socket */
		return fail(l, -EPIPE, "a request could not be sent: %s",
			    n < 0 ? strerror(errno) : "cut short");
	c->busy = true;
	c->due_ns = due_ns;
	run->sent++;
	return 0;
}

/* Reads status and length once the head is complete. */
static int read_head(struct load *l, struct connection *c, struct load_result *result)
{
	const char *end = memmem(c->answer, c->used, "\r\n\r\n", 4), *line = c->answer, *next;
	static const char name[] = "Content-Length:";
	size_t body = 0, n = sizeof(name) - 1;
	bool known = false;

	if (!end)
		return c->used < sizeof(c->answer) ? 0 : fail(l, -EPROTO, "an endless head");
	if (end - c->answer < 12 || memcmp(c->answer, "HTTP/1.1 ", 9))
		return fail(l, -EPROTO, "not an HTTP/1.1 answer");
	while (line < end && !known) {
		next = memchr(line, '\n', (size_t)(end + 2 - line));
		known = next - line > (long)n && !strncasecmp(line, name, n);
		for (const char *p = line + n; known && p < next; p++)
			if (*p >= '0' && *p <= '9')
				body = body * 10 + (size_t)(*p - '0');
		line = next + 1;
	}
	c->need = (size_t)(end + 4 - c->answer) + body;
	if (!known || body > sizeof(c->answer) || c->need > sizeof(c->answer))
		return fail(l, -EPROTO, "an answer without a length, or a longer one than %zu",
			    sizeof(c->answer));
	if (c->answer[9] == '2')
		result->allowed++;
	else if (!memcmp(c->answer + 9, "403", 3) || !memcmp(c->answer + 9, "429", 3) ||
		 !memcmp(c->answer + 9, "503", 3))
		result->refused++;
	else
		result->other++;
	return 0;
}

/* Returns 1 when the answer is complete. */
static int receive(struct run *run, unsigned int i)
{
	struct load *l = run->l;
	struct connection *c = &l->connection[i];
	ssize_t n = recv(c->fd, c->answer + c->used, sizeof(c->answer) - c->used, MSG_DONTWAIT);
	int r;

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return fail(l, -ECONNRESET, "the server closed a connection");
	c->used += (size_t)n;
	if (!c->need) {
		r = read_head(l, c, run->result);
		if (r < 0)
			return r;
	}
	if (!c->need || c->used < c->need)
		return 0;
	if (c->used > c->need || !c->busy)
		return fail(l, -EPROTO, "more than one answer to a request");
	c->used = c->need = 0;
	c->busy = false;
	run->result->answers++;
	if (run->plan->rate_per_s > 0) {
		uint64_t ns = wait_now_ns() - c->due_ns;

		run->result->latency.n[slot_of(ns)]++;
		run->result->latency.count++;
	}
	l->idle[l->n_idle++] = i;
	return 1;
}

/* --- a run --------------------------------------------------------------------------------- */

static bool over(const struct run *run)
{
	const struct load_plan *p = run->plan;

	return (p->requests && run->sent >= p->requests) ||
	       (p->duration_ns && run->now_ns - run->begin_ns >= p->duration_ns);
}

/* When request @n of an open loop is due. */
static uint64_t due_ns(const struct run *run, uint64_t n)
{
	return run->begin_ns + (uint64_t)((double)n * 1e9 / run->plan->rate_per_s);
}

/* Sends what may be sent now. Late requests of an open loop are sent as soon as a connection is free. */
static int send_some(struct run *run)
{
	struct load *l = run->l;
	bool open_loop = run->plan->rate_per_s > 0;
	int r = 0;

	while (l->n_idle && !r && !over(run)) {
		uint64_t due = open_loop ? due_ns(run, run->sent) : 0;

		if (due > run->now_ns)
			break;
		r = ask(run, l->idle[--l->n_idle], due);
	}
	return r;
}

int load_run(struct load *l, const struct load_plan *plan, struct load_result *ret)
{
	struct run run = {.l = l, .plan = plan, .result = ret};
	struct epoll_event events[EVENTS_MAX];
	uint64_t heard_ns;
	/* An open loop must not be late itself. */
	int wait_ms = plan->spin || plan->rate_per_s > 0 ? 0 : 100, n, r = 0;

	*ret = (struct load_result){};
	run.begin_ns = run.now_ns = heard_ns = wait_now_ns();
	for (;;) {
		r = send_some(&run);
		if (r < 0)
			return r;
		if (over(&run) && l->n_idle == l->n_connections)
			break;
		n = epoll_wait(l->epoll_fd, events, EVENTS_MAX, wait_ms);
		if (n < 0 && errno != EINTR)
			return fail(l, -errno, "epoll_wait: %s", strerror(errno));
		for (int i = 0; i < n; i++) {
			r = receive(&run, events[i].data.u32);
			if (r < 0)
				return r;
		}
		run.now_ns = wait_now_ns();
		if (n > 0)
			heard_ns = run.now_ns;
		else if (l->n_idle < l->n_connections && run.now_ns - heard_ns > SILENCE_NS)
			return fail(l, -ETIMEDOUT, "the server has stopped answering");
	}
	ret->elapsed_ns = run.now_ns - run.begin_ns;
	return 0;
}

/* --- connections --------------------------------------------------------------------------- */

static int connect_one(struct load *l, uint16_t port, unsigned int i)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct epoll_event e = {.events = EPOLLIN, .data = {.u32 = i}};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return fail(l, -errno, "socket: %s", strerror(errno));
	l->connection[i].fd = fd;
	l->opened = i + 1;
	l->idle[l->n_idle++] = i;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return fail(l, -errno, "connect to port %u: %s", port, strerror(errno));
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ||
	    epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		return fail(l, -errno, "connection: %s", strerror(errno));
	return 0;
}

int load_open(uint16_t port, unsigned int connections, char err[LOAD_ERR_BYTES], struct load **ret)
{
	struct load *l = calloc(1, sizeof(*l));
	int r = 0;

	if (!l)
		return -ENOMEM;
	l->err = err;
	l->n_connections = connections;
	l->seed = 0x9e3779b97f4a7c15ULL;
	l->connection = calloc(connections, sizeof(*l->connection));
	l->idle = calloc(connections, sizeof(*l->idle));
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	memcpy(l->request, request_text, sizeof(request_text));
	l->address = strstr(l->request, ADDRESS);
	if (!l->connection || !l->idle || l->epoll_fd < 0 || connections > LOAD_CONNECTIONS_MAX)
		r = fail(l, -ENOMEM, "no memory for %u connections", connections);
	for (unsigned int i = 0; i < connections && !r; i++)
		r = connect_one(l, port, i);
	if (r < 0) {
		load_close(l);
		return r;
	}
	*ret = l;
	return 0;
}

void load_close(struct load *l)
{
	if (!l)
		return;
	for (unsigned int i = 0; i < l->opened; i++)
		(void)close(l->connection[i].fd); /* nothing is owed on it */
	if (l->epoll_fd >= 0)
		(void)close(l->epoll_fd);
	free(l->connection);
	free(l->idle);
	free(l);
}
