/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See fleet_model.h. For each deletion that may have been the last one (or none): which additions must have come after it,
 * which may have, and does that give what is seen? What comes after an addition that counts, counts too.
 */
#include "lib/fleet_model.h"

struct judge {
	const struct fleet_op *op;
	size_t n;
	const struct fleet_op *last_del; /* NULL: nothing was deleted */
	uint64_t now_ms;
};

static bool before(const struct fleet_op *a, const struct fleet_op *b)
{
	return a->host == b->host ? a->seq < b->seq : a->confirmed <= b->seq;
}

/* Is @end_ms that of @add? */
static bool ends_at(const struct fleet_op *add, uint64_t end_ms)
{
	if (add->end_ms == FLEET_FOREVER || end_ms == FLEET_FOREVER)
		return add->end_ms == end_ms;
	return end_ms + FLEET_NEAR_MS >= add->end_ms &&
	       end_ms <= add->end_ms + add->late_ms + FLEET_NEAR_MS;
}

/* Can it be the last one that counted? */
static bool may_be_last_del(const struct judge *j, const struct fleet_op *del)
{
	for (size_t i = 0; i < j->n; i++)
		if (!j->op[i].add && !j->op[i].maybe && (!del || before(del, &j->op[i])))
			return false;
	return true;
}

/* Was it deleted, in whatever order? */
static bool is_deleted(const struct judge *j, const struct fleet_op *add)
{
	if (j->last_del && before(add, j->last_del))
		return true;
	for (size_t i = 0; i < j->n; i++)
		if (!j->op[i].add && !j->op[i].maybe && before(add, &j->op[i]))
			return true;
	return false;
}

/* Must it count? */
static bool must(const struct judge *j, const struct fleet_op *o)
{
	return o->add && !o->maybe && (!j->last_del || before(j->last_del, o));
}

/* Can @x count too, where nothing may end later than @end_ms and nothing come after @last? */
static bool may_count(const struct judge *j, const struct fleet_op *x, const struct fleet_op *last,
		      uint64_t end_ms)
{
	if (before(last, x))
		return false;
	for (size_t i = 0; i < j->n; i++) {
		const struct fleet_op *o = &j->op[i];

		if (o->add && !o->maybe && before(x, o) &&
		    (before(last, o) || (o->end_ms > end_ms && !ends_at(o, end_ms))))
			return false;
	}
	return true;
}

static bool explains_nothing(const struct judge *j)
{
	for (size_t i = 0; i < j->n; i++)
		if (must(j, &j->op[i]) && j->op[i].end_ms > j->now_ms)
			return false;
	return true;
}

static bool explains_entry(const struct judge *j, const struct fleet_seen *seen)
{
	const struct fleet_op *last = NULL, *longest;

	for (size_t i = 0; i < j->n; i++)
		if (j->op[i].add && j->op[i].seq == seen->last)
			last = &j->op[i];
	if (!last || is_deleted(j, last))
		return false;
	longest = last;
	for (size_t i = 0; i < j->n; i++) {
		const struct fleet_op *o = &j->op[i];

		if (o->add && !o->maybe && before(last, o))
			return false;
		if (must(j, o) && o->end_ms > longest->end_ms)
			longest = o;
	}
	if (ends_at(longest, seen->end_ms))
		return true;
	for (size_t i = 0; i < j->n && longest->end_ms < seen->end_ms; i++) {
		const struct fleet_op *o = &j->op[i];

		if (o->add && ends_at(o, seen->end_ms) && !is_deleted(j, o) &&
		    may_count(j, o, last, seen->end_ms))
			return true;
	}
	return false;
}

/* Only for words: could it be there, or not there, at all? */
static const char *word_for(const struct judge *j, const struct fleet_seen *seen, bool may_be_gone)
{
	if (!seen->there)
		return "lost";
	for (size_t i = 0; i < j->n; i++)
		if (j->op[i].add && j->op[i].seq == seen->last)
			return may_be_gone ? "resurrected, or of another end or reason"
					   : "of another end or reason";
	return "of nobody's making";
}

const char *fleet_judge(const struct fleet_op *op, size_t n, const struct fleet_seen *seen,
			uint64_t now_ms)
{
	struct judge j = {.op = op, .n = n, .now_ms = now_ms};
	bool may_be_gone = false;

	for (size_t i = 0; i <= n; i++) {
		bool nothing;

		j.last_del = i < n ? &op[i] : NULL;
		if ((i < n && op[i].add) || !may_be_last_del(&j, j.last_del))
			continue;
		nothing = explains_nothing(&j);
		may_be_gone = may_be_gone || nothing;
		if (seen->there ? explains_entry(&j, seen) : nothing)
			return NULL;
	}
	return word_for(&j, seen, may_be_gone);
}
