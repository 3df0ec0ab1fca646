/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages to the service manager: see notify.h. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "user/agent/notify.h"
#include "user/base/cleanup.h"
#include "user/base/clock.h"

void weir_notify(const char *format, ...)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	char text[512];
	va_list ap;
	size_t n;

	if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(a.sun_path))
		return;
	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	n = strlen(path);
	memcpy(a.sun_path, path, n);
	if (path[0] == '@')
		a.sun_path[0] = '\0'; /* an abstract socket */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0) /* a manager that does not listen is not our failure */
		(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

void weir_notify_reloading(void)
{
	weir_notify("RELOADING=1\nMONOTONIC_USEC=%llu",
		    (unsigned long long)(weir_clock_ns(CLOCK_MONOTONIC) / 1000));
}
