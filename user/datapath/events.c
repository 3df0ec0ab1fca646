/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The ring buffer of sampled drops, for the agent's loop. */
#include <bpf/libbpf.h>
#include <string.h>

#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"

/* What lies in the ring may come from a program of another version: size and ranges are checked. */
static int on_event(void *arg, void *data, size_t size)
{
	struct weir_datapath *d = arg;
	struct weir_event event;

	if (size < sizeof(event))
		return 0;
	memcpy(&event, data, sizeof(event));
	if (event.reason >= WEIR_REASON_MAX)
		return 0;
	if (event.stat >= WEIR_STATS_MAX || !d->policy || event.time_ns < d->named_since_ns)
		event.stat = WEIR_NO_LIMIT;
	d->event_fn(d->event_arg, &event);
	return 0;
}

int weir_datapath_events_open(struct weir_datapath *d, weir_event_fn fn, void *arg,
			      struct weir_error *e)
{
	struct ring_buffer *ring;

	if (d->ring)
		return weir_error_set(e, -EBUSY, "the ring of events is open already");
	weir_kernel_log_clear();
	errno = 0;
	ring = ring_buffer__new(d->map_fd[WEIR_MAP_EVENTS], on_event, d, NULL);
	if (!ring)
		return weir_kernel_error(e, errno ? -errno : -EINVAL,
					 "cannot open the ring of events");
	d->ring = ring;
	d->event_fn = fn;
	d->event_arg = arg;
	return 0;
}

int weir_datapath_events_fd(const struct weir_datapath *d)
{
	return d->ring ? ring_buffer__epoll_fd(d->ring) : -EBADF;
}

int weir_datapath_events_consume(struct weir_datapath *d)
{
	return d->ring ? ring_buffer__consume(d->ring) : -EBADF;
}
