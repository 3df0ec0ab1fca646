/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The polite client of the demo: a request over a new TCP connection at even intervals, whatever became of those
 * before, each with a second to be answered in full. Started by scripts/demo, once for each phase.
 *
 * Four times a second, and at the end, one line of numbers goes to the start of FILE:
 *
 *	sent ok failed median_us p99_us recent_us
 *
 * median and p99 are of all answered requests, recent is the median of those since the line before (0: none).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/wait.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"

#define RATE_MAX	1000
#define SECONDS_MAX	600
#define IN_FLIGHT_MAX	(2 * RATE_MAX)
#define EVENTS_MAX	64
#define ANSWER_BYTES	512
#define TIMEOUT_NS	1000000000ULL
#define REPORT_EVERY_NS 250000000ULL
#define LINE_BYTES	96

static const char request[] = "GET / HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n";

/* One connection; fd -1: free. */
struct flight {
	int fd;
	bool asked;
	uint64_t since_ns;
	size_t n;
	char answer[ANSWER_BYTES];
};

struct client {
	struct sockaddr_in to;
	int poll_fd;
	int report_fd;
	struct flight *flight; /* IN_FLIGHT_MAX */
	uint64_t sent, failed;
	uint32_t *took_us; /* of the answered ones, in order */
	uint32_t *sorted;
	size_t ok, ok_reported;
};

static void land(struct client *c, struct flight *f, bool ok, uint64_t now_ns)
{
	(void)close(f->fd); /* also leaves the epoll set */
	f->fd = -1;
	if (ok)
		c->took_us[c->ok++] = (uint32_t)((now_ns - f->since_ns) / 1000);
	else
		c->failed++;
}

static void take_off(struct client *c, uint64_t now_ns)
{
	struct epoll_event e = {.events = EPOLLOUT};
	size_t i = 0;

	while (i < IN_FLIGHT_MAX && c->flight[i].fd >= 0)
		i++;
	c->sent++;
	if (i == IN_FLIGHT_MAX) {
		c->failed++;
		return;
	}
	c->flight[i] = (struct flight){.since_ns = now_ns};
	c->flight[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	e.data.u64 = i;
	if (c->flight[i].fd < 0) {
		c->failed++;
		return;
	}
	if ((connect(c->flight[i].fd, (struct sockaddr *)&c->to, sizeof(c->to)) < 0 &&
	     errno != EINPROGRESS) ||
	    epoll_ctl(c->poll_fd, EPOLL_CTL_ADD, c->flight[i].fd, &e) < 0)
		land(c, &c->flight[i], false, now_ns);
}

/* Is the answer there in full: a 200 and its page to the last byte? */
static bool is_answer(const struct flight *f)
{
	static const char first[] = "HTTP/1.1 200 ", last[] = "Still here.\r\n";

	return f->n >= sizeof(first) + sizeof(last) &&
	       !memcmp(f->answer, first, sizeof(first) - 1) &&
	       !memcmp(f->answer + f->n - (sizeof(last) - 1), last, sizeof(last) - 1);
}

static void fly(struct client *c, struct flight *f)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)(f - c->flight)};
	ssize_t n;

	if (!f->asked) {
		n = send(f->fd, request, sizeof(request) - 1, MSG_NOSIGNAL);
		f->asked = true;
		if (n != sizeof(request) - 1 || epoll_ctl(c->poll_fd, EPOLL_CTL_MOD, f->fd, &e) < 0)
			land(c, f, false, wait_now_ns());
		return;
	}
	n = recv(f->fd, f->answer + f->n, sizeof(f->answer) - f->n, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		land(c, f, is_answer(f), wait_now_ns());
		return;
	}
	f->n += (size_t)n;
	if (f->n == sizeof(f->answer)) /* longer than the page ever is */
		land(c, f, false, wait_now_ns());
}

/* Returns how many are still under way. */
static size_t give_up(struct client *c, uint64_t now_ns)
{
	size_t left = 0;

	for (size_t i = 0; i < IN_FLIGHT_MAX; i++) {
		struct flight *f = &c->flight[i];

		if (f->fd >= 0 && now_ns - f->since_ns >= TIMEOUT_NS)
			land(c, f, false, now_ns);
		left += f->fd >= 0;
	}
	return left;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t percentile(struct client *c, size_t first, unsigned int percent)
{
	size_t n = c->ok - first;

	if (!n)
		return 0;
	memcpy(c->sorted, c->took_us + first, n * sizeof(*c->sorted));
	qsort(c->sorted, n, sizeof(*c->sorted), by_size);
	return c->sorted[(n - 1) * percent / 100];
}

static void report(struct client *c)
{
	char line[LINE_BYTES];
	int n = snprintf(line, sizeof(line), "%llu %zu %llu %u %u %u", (unsigned long long)c->sent,
			 c->ok, (unsigned long long)c->failed, percentile(c, 0, 50),
			 percentile(c, 0, 99), percentile(c, c->ok_reported, 50));

	/* Always as long, so that a reader never sees the rest of a longer one. */
	memset(line + n, ' ', sizeof(line) - (size_t)n);
	line[sizeof(line) - 1] = '\n';
	(void)pwrite(c->report_fd, line, sizeof(line), 0); /* the next one is soon */
	c->ok_reported = c->ok;
}

static void run(struct client *c, uint64_t every_ns, uint64_t end_ns)
{
	uint64_t next_ns = wait_now_ns(), report_ns = next_ns + REPORT_EVERY_NS, now_ns = next_ns;
	struct epoll_event ready[EVENTS_MAX];

	while (give_up(c, now_ns) || now_ns < end_ns) {
		int n;

		if (now_ns >= next_ns && now_ns < end_ns) {
			take_off(c, now_ns);
			next_ns += every_ns;
		}
		if (now_ns >= report_ns) {
			report(c);
			report_ns = now_ns + REPORT_EVERY_NS;
		}
		n = epoll_wait(c->poll_fd, ready, EVENTS_MAX, 1);
		for (int i = 0; i < n; i++)
			fly(c, &c->flight[ready[i].data.u64]);
		now_ns = wait_now_ns();
	}
	report(c);
}

static int usage(void)
{
	(void)fprintf(stderr, "Usage: demo-polite ADDRESS PORT REQUESTS-A-SECOND SECONDS FILE\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct client c = {.to.sin_family = AF_INET};
	__u64 port, rate, seconds;

	if (argc != 6 || inet_pton(AF_INET, argv[1], &c.to.sin_addr) != 1 ||
	    weir_str_u64(argv[2], 65535, &port) < 0 || weir_str_u64(argv[3], RATE_MAX, &rate) < 0 ||
	    weir_str_u64(argv[4], SECONDS_MAX, &seconds) < 0 || !rate)
		return usage();
	c.to.sin_port = htons((uint16_t)port);
	c.flight = calloc(IN_FLIGHT_MAX, sizeof(*c.flight));
	c.took_us = calloc(rate * seconds + rate, sizeof(*c.took_us));
	c.sorted = calloc(rate * seconds + rate, sizeof(*c.sorted));
	c.poll_fd = epoll_create1(EPOLL_CLOEXEC);
	c.report_fd = open(argv[5], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (!c.flight || !c.took_us || !c.sorted || c.poll_fd < 0 || c.report_fd < 0) {
		(void)fprintf(stderr, "polite: %s: %s\n", argv[5], strerror(errno));
		return 1;
	}
	for (size_t i = 0; i < IN_FLIGHT_MAX; i++)
		c.flight[i].fd = -1;
	run(&c, 1000000000ULL / rate, wait_now_ns() + seconds * 1000000000ULL);
	free(c.flight);
	free(c.took_us);
	free(c.sorted);
	return 0;
}
