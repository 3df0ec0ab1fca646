/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The bounded queue from the workers to the agent. A cell's sequence number says whose turn it is (D. Vyukov's bounded
 * queue), so that no worker ever waits for another one or for the agent: where there is no room the event is lost and
 * counted.
 */
#include <string.h>
#include <sys/eventfd.h>

#include "user/l7/engine_int.h"

#define US_PER_S 1000000

struct weir_l7_event_cell {
	__u64 turn;
	struct weir_l7_event event;
};

int weir_l7_events_init(struct weir_l7_events *v)
{
	*v = (struct weir_l7_events){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (v->fd < 0)
		return -errno;
	v->cell = calloc(WEIR_L7_EVENTS, sizeof(v->cell[0]));
	if (!v->cell)
		return -ENOMEM;
	for (__u64 i = 0; i < WEIR_L7_EVENTS; i++)
		v->cell[i].turn = i;
	return 0;
}

void weir_l7_events_done(struct weir_l7_events *v)
{
	free(v->cell);
	closep(&v->fd);
}

bool weir_l7_events_want(struct weir_l7_events *v, unsigned per_second, __u64 now_us)
{
	__u64 second = now_us / US_PER_S, seen = __atomic_load_n(&v->sampled, __ATOMIC_RELAXED), n;

	do {
		n = seen >> 16 == second ? seen & 0xffff : 0;
		if (n >= per_second || n == 0xffff)
			return false;
	} while (!__atomic_compare_exchange_n(&v->sampled, &seen, second << 16 | (n + 1), true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

void weir_l7_events_put(struct weir_l7_events *v, const struct weir_l7_event *event)
{
	const __u64 one = 1;
	__u64 head = __atomic_load_n(&v->head, __ATOMIC_RELAXED), turn;
	struct weir_l7_event_cell *cell;

	while (true) {
		cell = &v->cell[head % WEIR_L7_EVENTS];
		turn = __atomic_load_n(&cell->turn, __ATOMIC_ACQUIRE);
		if (turn == head) {
			if (__atomic_compare_exchange_n(&v->head, &head, head + 1, true,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
				break;
		} else if (turn < head) { /* not read since the last round */
			(void)__atomic_add_fetch(&v->lost, 1, __ATOMIC_RELAXED);
			return;
		} else {
			head = __atomic_load_n(&v->head, __ATOMIC_RELAXED);
		}
	}
	cell->event = *event;
	__atomic_store_n(&cell->turn, head + 1, __ATOMIC_RELEASE);
	if (write(v->fd, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

int weir_l7_events_fd(const struct weir_l7 *l7)
{
	return l7->events.fd;
}

bool weir_l7_events_take(struct weir_l7 *l7, struct weir_l7_event *ret)
{
	struct weir_l7_events *v = &l7->events;
	struct weir_l7_event_cell *cell = &v->cell[v->tail % WEIR_L7_EVENTS];
	__u64 count;

	/* silent first: what is put from here on makes it readable again */
	if (__atomic_load_n(&cell->turn, __ATOMIC_ACQUIRE) != v->tail + 1 &&
	    read(v->fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return false;
	if (__atomic_load_n(&cell->turn, __ATOMIC_ACQUIRE) != v->tail + 1)
		return false;
	*ret = cell->event;
	__atomic_store_n(&cell->turn, v->tail + WEIR_L7_EVENTS, __ATOMIC_RELEASE);
	v->tail++;
	return true;
}
