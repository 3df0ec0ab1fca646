/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent's life: start in an order that never leaves a packet unlimited, and the end that leaves everything attached.
 * Called by `weir run` and tests.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/agent/notify.h"
#include "user/base/log.h"
#include "user/base/str.h"

void weir_agent_note(struct weir_agent *a, const char *text)
{
	for (size_t i = 0; i < a->n_notes; i++)
		if (!strncmp(a->notes[i], text, sizeof(a->notes[i]) - 1))
			return; /* said already */
	if (a->n_notes < ARRAY_LEN(a->notes))
		(void)weir_str_copy(a->notes[a->n_notes++], sizeof(a->notes[0]),
				    text); /* cut if long */
	weir_log(WEIR_LOG_WARNING, "note", "what", "s", text, NULL);
}

/* --- start ------------------------------------------------------------------------------------- */

/* Without a packet layer nothing needs root, and what only the disk would keep is not worth a refusal. */
static bool may_forget(const struct weir_agent *a, int r)
{
	return !weir_agent_wants_packets(a->conf) && (r == -EACCES || r == -EPERM);
}

static int forget(struct weir_agent *a, const char *path, int r)
{
	char text[512];

	a->forgetful = true;
	(void)snprintf(text, sizeof(text),
		       "%.300s: %s: a mode set by command will not outlive this agent (state_dir: "
		       "names a folder where this user may write)",
		       path, strerror(-r));
	weir_agent_note(a, text);
	return 0;
}

/* Makes the directory, also its parent where only that is missing. */
static int make_state_dir(const char *path, struct weir_error *e)
{
	char parent[4096];
	char *slash;

	if (mkdir(path, 0750) == 0 || errno == EEXIST)
		return 0;
	if (errno == ENOENT && weir_str_copy(parent, sizeof(parent), path)) {
		slash = strrchr(parent, '/');
		if (slash && slash != parent) {
			*slash = '\0';
			if ((mkdir(parent, 0755) == 0 || errno == EEXIST) &&
			    (mkdir(path, 0750) == 0 || errno == EEXIST))
				return 0;
		}
	}
	return weir_error_set(e, -errno, "state_dir %s cannot be made: %s%s", path, strerror(errno),
			      geteuid() ? " (weir run needs root)" : "");
}

/* One agent for an instance: the lock goes with the process. */
static int lock_instance(struct weir_agent *a, struct weir_error *e)
{
	char path[4096];
	int r;

	r = make_state_dir(a->conf->state_dir, e);
	if (may_forget(a, r)) /* the admin socket keeps a second agent away too */
		return forget(a, a->conf->state_dir, r);
	if (weir_disk_refuses(r)) {
		weir_agent_note(a, e->text); /* the folder of pins has a lock too */
		return 0;
	}
	if (r < 0)
		return r;
	if (snprintf(path, sizeof(path), "%s/%s.lock", a->conf->state_dir, a->conf->instance) >=
	    (int)sizeof(path))
		return weir_error_set(e, -ENAMETOOLONG, "state_dir is too long");
	a->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (a->lock_fd < 0 && weir_disk_refuses(-errno)) {
		(void)weir_error_set(e, -errno, "%s cannot be made: %s", path, strerror(errno));
		weir_agent_note(a, e->text); /* as above */
		return 0;
	}
	if (a->lock_fd < 0 && may_forget(a, -errno))
		return forget(a, path, -errno);
	if (a->lock_fd < 0)
		return weir_error_set(e, -errno, "%s cannot be opened: %s%s", path, strerror(errno),
				      errno == EACCES ? " (weir run needs root)" : "");
	if (flock(a->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? weir_error_set(e, -EADDRINUSE,
						"another agent of instance %s is running; stop it "
						"first (systemctl stop weir), or give this one "
						"another instance, state_dir and admin.listen",
						a->conf->instance)
			       : weir_error_set(e, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

static int load_first(struct weir_agent *a, struct weir_loaded *l, struct weir_error *e)
{
	json_t *line;
	size_t i;
	int r = weir_agent_load(a, &a->source, true, true, l, e);

	json_array_foreach(l->problems, i, line)
		(void)fprintf(stderr, "weir: %s\n",
			      json_string_value(line)); /* where would its failure be told? */
	return r;
}

static int copy_interfaces(struct weir_agent *a, const char *const *names)
{
	size_t n = 0;

	while (names && names[n])
		n++;
	if (!n)
		return 0;
	a->only_interfaces = calloc(n + 1, sizeof(*a->only_interfaces));
	for (size_t i = 0; a->only_interfaces && i < n; i++) {
		a->only_interfaces[i] = strdup(names[i]);
		if (!a->only_interfaces[i])
			return -ENOMEM;
	}
	return a->only_interfaces ? 0 : -ENOMEM;
}

/* The notes of the datapath, a sentence a line. */
static void take_notes(struct weir_agent *a)
{
	const char *at = weir_datapath_notes(a->dp);

	while (at && *at) {
		size_t n = strcspn(at, "\n");
		char line[sizeof(a->notes[0])];

		(void)snprintf(line, sizeof(line), "%.*s", (int)n, at);
		if (line[0])
			weir_agent_note(a, line);
		at += n + (at[n] == '\n');
	}
}

/* From the datapath to the attachments; @l is what was loaded. */
static int take_over(struct weir_agent *a, const struct weir_agent_options *o,
		     struct weir_loaded *l, struct weir_error *e)
{
	struct weir_now now = weir_now();
	int r;

	if (!weir_agent_wants_packets(l->conf)) {
		r = weir_agent_join_lists(a, e);
		return r < 0 ? r : weir_agent_put_in_force(a, l, true, e);
	}
	r = weir_agent_check_interfaces(l->conf, e); /* before anything is made or taken over */
	if (r == 0)
		r = weir_datapath_open(l->conf, &a->dp, e);
	if (r < 0)
		return r;
	take_notes(a);
	r = weir_agent_restore_lists(a, &now, e);
	if (r < 0)
		return r;
	(void)weir_agent_add_session(a, o->ssh, UINT64_MAX, &now);
	r = weir_guard_watch(&a->watch_fd, e); /* before the scan, so that no change is missed */
	if (r == 0)
		r = weir_agent_scan_guards(a, a->book, 2000, e);
	if (r == 0)
		r = weir_agent_join_lists(a, e);
	if (r == 0)
		r = weir_agent_put_in_force(a, l, true, e);
	return r;
}

static int start(struct weir_agent *a, const struct weir_agent_options *o, struct weir_error *e)
{
	struct weir_loaded first = {}, l = {};
	struct weir_now now = weir_now();
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *note = NULL;
	int r;

	if (copy_interfaces(a, o->interfaces) < 0)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (weir_source_read(o->conf_path, &a->source, e) < 0)
		return -EINVAL; /* a file that is not there is a wrong configuration */
	r = load_first(a, &first, e);
	if (r == 0)
		r = weir_agent_check_work(first.conf, e);
	if (r == 0) {
		a->conf = TAKE_PTR(first.conf);
		weir_log_open(NULL, a->conf->log_format == WEIR_LOG_JSON, WEIR_LOG_INFO);
		r = lock_instance(a, e);
	}
	weir_loaded_done(&first);
	if (r == 0)
		r = weir_admin_bind(a->conf->admin_listen, a->conf->admin_group, &fd, &note, e);
	if (r == 0) {
		a->socket_path = strdup(a->conf->admin_listen);
		r = a->socket_path ? weir_agent_open_state(a, e) : -ENOMEM;
	}
	if (r == 0 && note)
		weir_agent_note(a, note);
	if (r == 0) {
		weir_agent_follow_clock(a, &now);
		weir_agent_restore(
			a, &now); /* may put the last confirmed text in place of the file's */
		if (o->confirm_ns && a->mode.set && !strcmp(a->mode.why, "not confirmed"))
			a->mode = (struct weir_mode_override){};
		r = weir_agent_load(a, &a->source, true, true, &l, e);
	}
	if (r == 0)
		r = weir_agent_open_fleet(a, l.conf, e);
	if (r == 0) /* a wrong address is known before anything is in force */
		r = weir_agent_open_requests(a, l.conf, e);
	if (r == 0)
		r = take_over(a, o, &l, e);
	weir_loaded_done(&l);
	if (r == 0)
		r = weir_agent_set_up_loop(a, e);
	if (r == 0) /* first of all the limits, then those who ask for them */
		r = weir_agent_start_requests(a, e);
	if (r == 0)
		r = weir_admin_new(a->base, TAKE_FD(fd), a->socket_path, weir_agent_handle, a,
				   &a->admin, e);
	if (r == 0 && o->confirm_ns)
		weir_agent_start_confirm(a, o->confirm_ns);
	return r;
}

int weir_agent_start(const struct weir_agent_options *o, struct weir_agent **ret,
		     struct weir_error *e)
{
	_cleanup_(weir_agent_freep) struct weir_agent *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (sodium_init() < 0)
		return weir_error_set(e, -EIO, "libsodium does not start: no random numbers?");
	a->watch_fd = a->lock_fd = -1;
	a->start_monitor = o->monitor;
	a->started_s = weir_now().wall_s;
	a->base = event_base_new();
	a->book = weir_book_new();
	a->events = calloc(1, sizeof(*a->events));
	if (!a->base || !a->book || !a->events)
		return weir_error_set(e, -ENOMEM, "out of memory");
	r = start(a, o, e);
	if (r < 0) {
		if (a->dp)
			weir_datapath_abandon(a->dp);
		return r;
	}
	a->ready = true;
	weir_agent_tick(a);
	*ret = TAKE_PTR(a);
	return 0;
}

static void free_event(struct event **ev)
{
	if (*ev)
		event_free(*ev);
	*ev = NULL;
}

void weir_agent_free(struct weir_agent *a)
{
	if (!a)
		return;
	a->ready = false;
	weir_agent_stop_requests(a); /* what is held is answered while all else is there */
	weir_agent_close_sources(a);
	weir_agent_close_fleet(a);
	if (!a->admin && a->socket_path)
		(void)unlink(a->socket_path); /* bound by us, never served */
	weir_admin_free(a->admin);
	for (size_t i = 0; i < ARRAY_LEN(a->signals); i++)
		free_event(&a->signals[i]);
	free_event(&a->tick);
	free_event(&a->rescan);
	free_event(&a->watch);
	free_event(&a->ring);
	free_event(&a->sweep.timer);
	if (a->base)
		event_base_free(a->base);
	closep(&a->watch_fd);
	if (a->dp)
		weir_datapath_free(a->dp);
	weir_state_free(a->state);
	weir_book_free(a->book);
	weir_source_done(&a->source);
	weir_source_done(&a->confirm.previous);
	weir_conf_free(a->conf);
	for (size_t i = 0; a->only_interfaces && a->only_interfaces[i]; i++)
		free(a->only_interfaces[i]);
	free(a->only_interfaces);
	weir_pushed_done(&a->pushed);
	json_decref(a->push_problems);
	weir_book_free(a->held);
	free(a->refused_text);
	free(a->socket_path);
	free(a->events);
	closep(&a->lock_fd); /* last: the next agent may start now */
	free(a);
}

int weir_agent_loop(struct weir_agent *a)
{
	return event_base_dispatch(a->base) < 0 ? -EIO : 0;
}

void weir_agent_stop(struct weir_agent *a)
{
	(void)event_base_loopbreak(a->base); /* fails only for a base that is none */
}

static void say_ready(struct weir_agent *a)
{
	char listeners[1024];

	weir_log(WEIR_LOG_NOTICE, "ready", "instance", "s", a->conf->instance, "mode", "s",
		 weir_mode_name(a->in_force), "limits", "u", (unsigned long long)a->conf->n_limits,
		 "request_limits", "u", (unsigned long long)a->conf->request.n_limit, "generation",
		 "u", (unsigned long long)weir_agent_generation(a), "listeners", "s",
		 weir_agent_listeners_text(a, listeners, sizeof(listeners))[0] ? listeners : NULL,
		 "socket", "s", a->socket_path, NULL);
	weir_notify("READY=1\nSTATUS=%s mode, %zu limits on %zu interfaces, %zu request limits on "
		    "%zu listeners",
		    weir_mode_name(a->in_force), a->conf->n_limits, a->conf->n_interfaces,
		    a->conf->request.n_limit, a->conf->request.n_listener);
}

int weir_agent_run(const struct weir_agent_options *o)
{
	_cleanup_(weir_agent_freep) struct weir_agent *a = NULL;
	struct weir_error e = {};
	int r;

	(void)signal(SIGPIPE, SIG_IGN); /* cannot fail for this one */
	r = weir_agent_start(o, &a, &e);
	if (r < 0) {
		(void)fprintf(stderr, "weir: %s\n", e.text); /* where would its failure be told? */
		return r == -EINVAL || r == -ENODEV ? 2 : 1;
	}
	say_ready(a);
	r = weir_agent_loop(a);
	weir_notify("STOPPING=1");
	weir_agent_stop_requests(a);
	weir_log(WEIR_LOG_NOTICE, "stopped", "attached", "s",
		 a->dp ? "stays: the last limits go on (weir detach ends that)" : NULL, "requests",
		 "s", a->conf->request.n_listener ? "nobody judges them now" : NULL, NULL);
	return r < 0 ? 1 : 0;
}
