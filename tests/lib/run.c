/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Child processes of tests: fork, enter a network namespace, exec. See run.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"
#include "user/base/cleanup.h"
#include "wait.h"

#define KILL_MS 5000 /* what the kernel gets to take away a killed process */

/* In the child: die with the parent thread, be where the caller wants. */
static int child_init(pid_t parent, int netns_fd)
{
	sigset_t none;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return -errno;
	if (getppid() != parent) /* it died before we asked */
		return -ESRCH;
	(void)sigemptyset(&none); /* cannot fail */
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return -errno;
	if (netns_fd > 0 && setns(netns_fd, CLONE_NEWNET) < 0)
		return -errno;
	return 0;
}

static int child_exec(pid_t parent, int netns_fd, int out_fd, const char *const argv[])
{
	int null, r;

	r = child_init(parent, netns_fd);
	if (r < 0)
		return r;
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0)
		return -errno;
	if (out_fd >= 0 && (dup2(out_fd, STDOUT_FILENO) < 0 || dup2(out_fd, STDERR_FILENO) < 0))
		return -errno;
	(void)execvp(argv[0], (char *const *)argv); /* does not write; returns only on failure */
	return -errno;
}

int run_start(int netns_fd, int out_fd, const char *const argv[], pid_t *ret_pid)
{
	_cleanup_close_ int report_in = -1, report_out = -1;
	pid_t parent = getpid(), pid;
	int fds[2], error = 0;
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	report_in = fds[0];
	report_out = fds[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		error = child_exec(parent, netns_fd, out_fd, argv);
		(void)!write(report_out, &error, sizeof(error)); /* nobody else to tell */
		_exit(127);
	}
	(void)close(TAKE_FD(report_out)); /* the child has its own; exec closes that */
	do
		n = read(report_in, &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(error)) {
		(void)run_wait(pid, KILL_MS); /* it is exiting */
		return error;
	}
	*ret_pid = pid;
	return 0;
}

/* Returns true with the status of a child that has ended. */
static bool reap(pid_t pid, int *ret_status)
{
	int st;
	pid_t r;

	do
		r = waitpid(pid, &st, WNOHANG);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return false;
	if (r < 0)
		*ret_status = -errno;
	else
		*ret_status = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
	return true;
}

int run_wait(pid_t pid, unsigned int timeout_ms)
{
	int status = 0;

	if (wait_for(reap(pid, &status), timeout_ms))
		return status;
	(void)kill(pid, SIGKILL); /* still ours: not reaped */
	(void)wait_for(reap(pid, &status), KILL_MS);
	return -ETIMEDOUT;
}

int run_stop(pid_t pid, unsigned int grace_ms)
{
	int status = 0;

	(void)kill(pid, SIGTERM); /* not reaped, so the id is not anybody else's */
	if (wait_for(reap(pid, &status), grace_ms))
		return status;
	return run_wait(pid, 0);
}

/* Read until the other end is closed by all that have it, or @deadline_ns. */
static void read_output(int fd, char *out, size_t out_bytes, uint64_t deadline_ns)
{
	char rest[4096];
	size_t used = 0;
	ssize_t n;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now_ns = wait_now_ns();

		if (now_ns >= deadline_ns)
			break;
		if (poll(&p, 1, (int)((deadline_ns - now_ns) / 1000000) + 1) < 0 && errno != EINTR)
			break;
		if (!p.revents)
			continue;
		if (out_bytes && used < out_bytes - 1)
			n = read(fd, out + used, out_bytes - 1 - used);
		else
			n = read(fd, rest,
				 sizeof(rest)); /* does not fit: read so that it can go on */
		if (n <= 0)
			break;
		if (out_bytes && used < out_bytes - 1)
			used += (size_t)n;
	}
	if (out_bytes)
		out[used] = '\0';
}

int run_cmdv(int netns_fd, char *out, size_t out_bytes, const char *const argv[])
{
	uint64_t deadline_ns = wait_now_ns() + RUN_TIMEOUT_MS * 1000000ULL, now_ns;
	_cleanup_close_ int in = -1, to = -1;
	int fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	in = fds[0];
	to = fds[1];
	r = run_start(netns_fd, to, argv, &pid);
	if (r < 0)
		return r;
	(void)close(TAKE_FD(to)); /* so that reading ends with the child */
	read_output(in, out, out_bytes, deadline_ns);
	now_ns = wait_now_ns();
	return run_wait(pid, now_ns < deadline_ns ? (unsigned int)((deadline_ns - now_ns) / 1000000)
						  : 0);
}

int run_fn(int netns_fd, int (*fn)(void *arg), void *arg)
{
	pid_t parent = getpid(), pid;

	(void)fflush(NULL); /* or the child would print it again */
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		int r = child_init(parent, netns_fd);

		if (r == 0)
			r = fn(arg);
		(void)fflush(NULL); /* _exit does not */
		_exit(r < 0 || r > 127 ? 127 : r);
	}
	return run_wait(pid, RUN_TIMEOUT_MS);
}

void run_program(const char *name, char *ret, size_t size)
{
	const char *build = getenv("WEIR_BUILD");
	char path[400];
	ssize_t n;

	if (build) {
		(void)snprintf(ret, size, "%s/%s", build, name);
		return;
	}
	n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < 3; i++)
		if (strrchr(path, '/'))
			*strrchr(path, '/') = '\0';
	(void)snprintf(ret, size, "%s/%s", path, name);
}

bool run_lacks_root(void)
{
	if (geteuid() == 0)
		return false;
	(void)puts("skip: needs root");
	return true;
}
