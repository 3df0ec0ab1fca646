/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Five hosts for tests of the fleet: a network namespace each with a real agent (a program, on an interface, with a state
 * folder), joined by a bridge on whose namespace one real Redis listens. Links are cut and healed, agents and the server
 * killed and started; agents are talked to through their sockets. Included by t_fleet_chaos.c.
 */
#ifndef WEIR_TEST_FLEET_HOSTS_H
#define WEIR_TEST_FLEET_HOSTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/netns.h"
#include "lib/redis.h"
#include "lib/run.h"
#include "lib/wait.h"
#include "user/agent/json.h"

#define HOSTS	    5
#define SERVER	    "10.77.0.1"
#define PORT	    "6379"
#define WAIT_MS	    20000
#define REPLY_BYTES (4u << 20)

static char weir_path[512]; /* the program */

struct host {
	int netns_fd, talk_fd; /* talk_fd -1: it does not run, or does not answer yet */
	char name[16], dir[80], conf[96], socket[96], log[96], port[16]; /* port: of the bridge */
	pid_t pid;							 /* 0: not running */
	bool cut;
};

struct hosts {
	int hub_fd; /* where the bridge and the server are */
	struct redis_server redis;
	struct host host[HOSTS];
	char dir[64];
	char *reply; /* of the agent that was last asked */
	size_t n_reply;
};

/* --- network ---- */

static void must_run(int netns_fd, const char *const argv[])
{
	char out[512];

	if (run_cmdv(netns_fd, out, sizeof(out), argv) != 0)
		fail_msg("%s %s %s %s %s: %s", argv[0], argv[1], argv[2], argv[3], argv[4], out);
}
#define IP(netns_fd, ...) must_run(netns_fd, (const char *const[]){"ip", __VA_ARGS__, NULL})

static void make_hub(struct hosts *f)
{
	assert_int_equal(lab_mounts(), 0);
	assert_int_equal(lab_netns_new(&f->hub_fd), 0);
	IP(f->hub_fd, "link", "set", "lo", "up");
	/* an address of its own: else that of a port, and another with each port that is added */
	IP(f->hub_fd, "link", "add", "name", "br0", "address", "02:00:00:00:00:01", "type",
	   "bridge");
	IP(f->hub_fd, "addr", "add", SERVER "/24", "dev", "br0");
	IP(f->hub_fd, "link", "set", "br0", "up");
}

static void make_host_net(struct hosts *f, struct host *h, int i)
{
	char peer[64], addr[32];

	assert_int_equal(lab_netns_new(&h->netns_fd), 0);
	(void)snprintf(h->port, sizeof(h->port), "port%d", i);
	(void)snprintf(peer, sizeof(peer), "/proc/%d/fd/%d", (int)getpid(), h->netns_fd);
	(void)snprintf(addr, sizeof(addr), "10.77.0.%d/24", 10 + i);
	IP(f->hub_fd, "link", "add", "name", h->port, "type", "veth", "peer", "name", "weir0",
	   "netns", peer);
	IP(f->hub_fd, "link", "set", h->port, "master", "br0", "up");
	IP(h->netns_fd, "link", "set", "lo", "up");
	IP(h->netns_fd, "addr", "add", addr, "dev", "weir0");
	IP(h->netns_fd, "link", "set", "weir0", "up");
}

static void host_cut(struct hosts *f, struct host *h)
{
	if (!h->cut)
		IP(f->hub_fd, "link", "set", h->port, "down");
	h->cut = true;
}

static void host_heal(struct hosts *f, struct host *h)
{
	if (h->cut)
		IP(f->hub_fd, "link", "set", h->port, "up");
	h->cut = false;
}

/* --- the server ---- */

static void server_start(struct hosts *f)
{
	int saved = lab_netns_enter(f->hub_fd);
	char data[80];

	assert_true(saved >= 0);
	(void)snprintf(data, sizeof(data), "%s/data", f->dir);
	assert_true(mkdir(data, 0700) == 0 || errno == EEXIST);
	assert_int_equal(redis_start(&f->redis, "--bind", SERVER, "--port", PORT,
				     "--protected-mode", "no", "--appendonly", "yes", "--dir", data,
				     NULL),
			 0);
	lab_leave(saved);
}

static void replace_dir(const struct hosts *f, const char *to, const char *from)
{
	char path[2][96];

	(void)snprintf(path[0], sizeof(path[0]), "%s/%s", f->dir, to);
	(void)snprintf(path[1], sizeof(path[1]), "%s/%s", f->dir, from ? from : "");
	must_run(0, (const char *const[]){"rm", "-rf", "--", path[0], NULL});
	if (from)
		must_run(0, (const char *const[]){"cp", "-a", "--", path[1], path[0], NULL});
}

/* What it has on disk now. */
static void server_copy(struct hosts *f)
{
	replace_dir(f, "copy", "data");
}

enum server_with { SERVER_DATA, SERVER_COPY, SERVER_NOTHING };

/* Killed and started with what is on disk, with the copy, or with nothing. */
static void server_restart(struct hosts *f, enum server_with with)
{
	redis_kill(&f->redis);
	if (with != SERVER_DATA)
		replace_dir(f, "data", with == SERVER_COPY ? "copy" : NULL);
	server_start(f);
}

/* --- agents ---- */

static void host_write_conf(struct hosts *f, struct host *h, int i)
{
	FILE *c;

	(void)snprintf(h->name, sizeof(h->name), "host%d", i);
	(void)snprintf(h->dir, sizeof(h->dir), "%s/%d", f->dir, i);
	(void)snprintf(h->conf, sizeof(h->conf), "%s/weir.yaml", h->dir);
	(void)snprintf(h->socket, sizeof(h->socket), "%s/admin.sock", h->dir);
	(void)snprintf(h->log, sizeof(h->log), "%s/log", h->dir);
	assert_int_equal(mkdir(h->dir, 0700), 0);
	c = fopen(h->conf, "we");
	assert_non_null(c);
	(void)fprintf(c,
		      "instance: %s\ninterfaces: [weir0]\nstate_dir: %s/state\n"
		      "admin: {listen: %s}\nmemory: {packet_sources: 1 MB}\n"
		      "store: {url: \"redis://" SERVER ":" PORT "\"}\n"
		      "packet_limits:\n  - {name: all, per: source, rate: 1000000/s}\n",
		      h->name, h->dir, h->socket);
	assert_int_equal(fclose(c), 0);
}

/* With a host name of its own. */
static void host_start(struct host *h)
{
	const char *const argv[] = {
		"unshare",
		"--uts",
		"sh",
		"-c",
		"echo \"$0\" >/proc/sys/kernel/hostname && exec \"$1\" run -c \"$2\"",
		h->name,
		weir_path,
		h->conf,
		NULL};
	int fd = open(h->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(run_start(h->netns_fd, fd, argv, &h->pid), 0);
	(void)close(fd);
}

static void hang_up(struct host *h)
{
	if (h->talk_fd >= 0)
		(void)close(h->talk_fd);
	h->talk_fd = -1;
}

static void host_kill(struct host *h)
{
	hang_up(h);
	if (h->pid <= 0)
		return;
	(void)kill(h->pid, SIGKILL);
	(void)run_wait(h->pid, WAIT_MS);
	h->pid = 0;
}

/* Does it answer, or again? */
static bool host_up(struct host *h)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (h->talk_fd >= 0 || h->pid <= 0)
		return h->talk_fd >= 0;
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", h->socket);
	h->talk_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(h->talk_fd >= 0);
	if (connect(h->talk_fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return true;
	hang_up(h);
	return false;
}

static void host_must_be_up(struct hosts *f, struct host *h)
{
	if (wait_for(host_up(h), WAIT_MS))
		return;
	(void)run_cmd(0, f->reply, REPLY_BYTES, "tail", h->log);
	fail_msg("%s does not answer: %.1500s", h->name, f->reply);
}

/* Sends a request, which it takes. */
static void tell(struct host *h, json_t *q)
{
	char *text = json_dumps(q, JSON_COMPACT);
	size_t n = strlen(text);

	json_decref(q);
	text[n] = '\n'; /* in place of the NUL */
	assert_int_equal(send(h->talk_fd, text, n + 1, MSG_NOSIGNAL), n + 1);
	free(text);
}

/* Asks and fails without a reply that says ok. */
static json_t *ask(struct hosts *f, struct host *h, json_t *q)
{
	json_error_t why;
	json_t *reply;

	tell(h, q);
	f->n_reply = 0;
	do {
		struct pollfd p = {.fd = h->talk_fd, .events = POLLIN};
		ssize_t got = poll(&p, 1, WAIT_MS) > 0 ? recv(h->talk_fd, f->reply + f->n_reply,
							      REPLY_BYTES - f->n_reply, 0)
						       : -1;

		if (got <= 0)
			fail_msg("%s has not answered: %s", h->name, strerror(errno));
		f->n_reply += (size_t)got;
		assert_true(f->n_reply < REPLY_BYTES);
	} while (f->reply[f->n_reply - 1] != '\n');
	reply = json_loadb(f->reply, f->n_reply, 0, &why);
	if (!weir_json_bool_of(reply, "ok"))
		fail_msg("%s: %.*s", h->name, (int)f->n_reply, f->reply);
	return reply;
}

static json_t *request(const char *cmd)
{
	return json_pack("{s:s}", "cmd", cmd);
}

/* Whatever it was told is in the store. */
static bool host_told_all(struct hosts *f, struct host *h)
{
	_cleanup_json_ json_t *s = ask(f, h, request("status"));

	return json_integer_value(json_object_get(json_object_get(s, "fleet"), "waiting")) == 0;
}

/* It follows the store, and neither has anything that the other lacks. */
static bool host_settled(struct hosts *f, struct host *h)
{
	_cleanup_json_ json_t *s = host_up(h) ? ask(f, h, request("status")) : NULL;
	const json_t *o = json_object_get(s, "fleet");

	return o && !strcmp(weir_json_text_of(o, "state"), "follows") &&
	       !weir_json_u64_of(o, "waiting") && !weir_json_u64_of(o, "behind");
}

/* --- coming and going ---- */

static int hosts_set_up(void **state)
{
	const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	struct hosts *f = calloc(1, sizeof(*f));

	*state = f;
	f->reply = malloc(REPLY_BYTES);
	f->hub_fd = -1;
	for (int i = 0; i < HOSTS; i++)
		f->host[i].netns_fd = f->host[i].talk_fd = -1;
	(void)setenv("TMPDIR", tmp, 0); /* nobody pulls the plug here */
	(void)snprintf(f->dir, sizeof(f->dir), "%s/hosts.XXXXXX", getenv("TMPDIR"));
	if (!f->reply || !mkdtemp(f->dir))
		return -1;
	make_hub(f);
	server_start(f);
	for (int i = 0; i < HOSTS; i++) {
		make_host_net(f, &f->host[i], i);
		host_write_conf(f, &f->host[i], i);
		host_start(&f->host[i]);
	}
	for (int i = 0; i < HOSTS; i++) {
		host_must_be_up(f, &f->host[i]);
		if (!wait_for(host_settled(f, &f->host[i]), WAIT_MS))
			fail_msg("%s does not follow: %.*s", f->host[i].name, (int)f->n_reply,
				 f->reply);
	}
	return 0;
}

static int hosts_tear_down(void **state)
{
	struct hosts *f = *state;

	for (int i = 0; i < HOSTS; i++) {
		struct host *h = &f->host[i];

		host_kill(h);
		if (h->netns_fd < 0)
			continue;
		(void)run_cmd(h->netns_fd, NULL, 0, weir_path, "detach", "-c", h->conf);
		(void)close(h->netns_fd);
	}
	redis_stop(&f->redis);
	if (f->hub_fd >= 0)
		(void)close(f->hub_fd);
	(void)run_cmd(0, NULL, 0, "rm", "-rf", "--", f->dir);
	free(f->reply);
	free(f);
	return 0;
}

#endif
