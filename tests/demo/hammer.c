/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client of the demo that tries passwords: one request after another from an address of its own, each on a new
 * connection, each with PATIENCE_MS to be answered. Ends after SILENT tries in a row that nobody answered, or TRIES.
 * Started by scripts/demo. Prints one line of numbers, and the last refusal's first line and Retry-After:
 *
 *	tried answered refused silent
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "user/base/cleanup.h"
#include "user/base/str.h"

#define PATIENCE_MS 250
#define EVERY_MS    25
#define SILENT	    3
#define ANSWER_MAX  2048

/* Status of the answer; 0: none came. */
static int ask(const struct sockaddr_in *from, const struct sockaddr_in *to, const char *request,
	       char *buf)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval t = {.tv_usec = PATIENCE_MS * 1000};
	ssize_t n = 0, more;
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) < 0 ||
	    bind(fd, (const struct sockaddr *)from, sizeof(*from)) < 0 ||
	    connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 ||
	    send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return 0;
	while (n < ANSWER_MAX - 1 &&
	       (more = recv(fd, buf + n, (size_t)(ANSWER_MAX - 1 - n), 0)) > 0)
		n += more;
	buf[n] = '\0';
	if (strncmp(buf, "HTTP/1.1 ", 9) != 0)
		return 0;
	return strncmp(buf + 9, "200", 3) == 0 ? 200 : 429;
}

int main(int argc, char **argv)
{
	struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
	unsigned tried = 0, answered = 0, refused = 0, silent = 0, row = 0;
	char request[256], buf[ANSWER_MAX], last[ANSWER_MAX] = "";
	struct timespec pause = {.tv_nsec = EVERY_MS * 1000000L};
	__u64 port, tries;
	const char *retry;

	if (argc != 7 || inet_pton(AF_INET, argv[1], &from.sin_addr) != 1 ||
	    inet_pton(AF_INET, argv[2], &to.sin_addr) != 1 ||
	    weir_str_u64(argv[3], 65535, &port) < 0 || weir_str_u64(argv[6], 100000, &tries) < 0) {
		(void)fprintf(stderr, "Usage: demo-hammer FROM ADDRESS PORT METHOD PATH TRIES\n");
		return 2;
	}
	to.sin_port = htons((uint16_t)port);
	if (snprintf(request, sizeof(request),
		     "%s %s HTTP/1.1\r\nHost: demo\r\nContent-Length: 0\r\n\r\n", argv[4],
		     argv[5]) >= (int)sizeof(request))
		return 2;
	while (tried < tries && row < SILENT) {
		int status = ask(&from, &to, request, buf);

		tried++;
		answered += status == 200;
		refused += status == 429;
		silent += status == 0;
		row = status == 0 ? row + 1 : 0;
		if (status == 429)
			(void)weir_str_copy(last, sizeof(last), buf); /* cut if long */
		(void)nanosleep(&pause, NULL); /* a signal only makes it hammer faster */
	}
	retry = strstr(last, "Retry-After: ");
	printf("%u %u %u %u %.12s %.*s\n", tried, answered, refused, silent, last,
	       retry ? (int)strcspn(retry, "\r\n") : 0, retry ? retry : "");
	return 0;
}
