/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Inside of the datapath object: shared by the files of this folder that make up struct weir_datapath, and by nobody
 * else. Who does what: load.c the BPF object, adopt.c what an earlier agent left, pin.c bpffs, bank.c maps inside
 * maps, apply.c a new policy, lists*.c entries, attach*.c interfaces, prog.c whose program is there,
 * counters.c and events.c reading.
 */
#ifndef WEIR_USER_DATAPATH_INT_H
#define WEIR_USER_DATAPATH_INT_H

#include <stdbool.h>
#include <stddef.h>

#include "user/base/cleanup.h"
#include "user/datapath/datapath.h"
#include "user/datapath/iface.h"

struct weir;
struct bpf_object;
struct bpf_map;
struct btf;
struct ring_buffer;

/* --- which maps there are -------------------------------------------------------------------- */

/* The six lists come in the order of enum weir_list, IPv4 before IPv6. */
enum weir_map {
	WEIR_MAP_META,
	WEIR_MAP_POLICY,
	WEIR_MAP_SOURCES,
	WEIR_MAP_SOURCES6,
	WEIR_MAP_SPILL,
	WEIR_MAP_ALLOWS,
	WEIR_MAP_ALLOWS6,
	WEIR_MAP_BLOCKS,
	WEIR_MAP_BLOCKS6,
	WEIR_MAP_GUARDS,
	WEIR_MAP_GUARDS6,
	WEIR_MAP_FILTER,
	WEIR_MAP_NETS,
	WEIR_MAP_TOTALS,
	WEIR_MAP_CLASSES,
	WEIR_MAP_LIMITS,
	WEIR_MAP_COUNTERS,
	WEIR_MAP_EVENTS,
	WEIR_MAP_MAX
};

/* Maps of one set mean something only together: if one must be made anew, so must all. */
enum weir_map_set { WEIR_SET_ALONE, WEIR_SET_TABLES, WEIR_SET_LISTS, WEIR_SET_NETS };

struct weir_map_desc {
	const char *name;
	int banks; /* inner maps; 0 = not a map of maps */
	enum weir_map_set set;
};
extern const struct weir_map_desc weir_map_desc[WEIR_MAP_MAX];

static inline enum weir_map weir_map_of_list(enum weir_list list, __u8 family)
{
	return (enum weir_map)(WEIR_MAP_ALLOWS + 2 * (int)list + (family == 6));
}

/* What an inner map looks like: read before the load, since libbpf forgets the template then. */
struct weir_inner_like {
	__u32 type; /* enum bpf_map_type; 0 = not a map of maps */
	__u32 key_size, value_size, max_entries, flags;
	__u32 btf_key, btf_value;
};

/* --- state tables mapped into memory --------------------------------------------------------- */

struct weir_mapping {
	struct weir_bucket4 *t4;
	struct weir_bucket6 *t6;
	__u32 buckets4, buckets6;
};
/* Maps the two inner maps; takes sizes from them. */
int weir_mapping_open(int fd4, int fd6, struct weir_mapping *ret);
void weir_mapping_close(struct weir_mapping *m);
#define WEIR_SPILL_BYTES  (sizeof(struct weir_spill) * (2u << WEIR_SPILL_BITS))
#define WEIR_TOTALS_BYTES (sizeof(struct weir_total) * WEIR_TOTALS)

/* --- the object ------------------------------------------------------------------------------ */

#define WEIR_IFACES_MAX 64
#define WEIR_NOTES_MAX	1024

struct weir_datapath {
	char instance[16];
	char bpffs[192];
	char folder[224];
	int lock_fd; /* of the folder: one agent an instance */
	enum weir_attach attach;
	enum weir_xdp_mode xdp_mode;

	struct weir *skel; /* owns program and map descriptors */
	struct btf *btf;   /* the object's types, for maps that libbpf does not make */
	int prog_fd;
	__u32 prog_id;
	int map_fd[WEIR_MAP_MAX];
	struct weir_inner_like like[WEIR_MAP_MAX];
	int inner_fd[WEIR_MAP_MAX][2]; /* owned; -1 = empty bank */
	__u32 meta_id;		       /* kernel id of map meta: who uses it is ours */
	__u32 old_meta_id; /* of maps that were ours, but could not be adopted; 0 = none */
	struct weir_meta meta;
	__u32 buckets4, buckets6; /* of the program's tables */

	__u8 sources_bank, lists_bank, nets_bank; /* in force */
	struct weir_policy *policy; /* in force, or of the program that is to be replaced; NULL */
	struct weir_limit_name names[WEIR_STATS_MAX];
	struct weir_mapping tables; /* those that policy speaks of */
	struct weir_spill *spill;   /* mapped; both banks */
	struct weir_total *totals;  /* mapped */
	bool tables_foreign;	    /* they belong to the program that is to be replaced */
	bool tables_fresh;	    /* bank 0 holds tables that no policy has used */
	struct weir_filter *filter; /* of the lists in force; NULL before the first */
	__u32 list_n[WEIR_LIST_MAX][2];

	int base_fd; /* map of counts that belong to former owners of an index; no program uses it */
	struct weir_limit_counts base[WEIR_STATS_MAX];

	struct ring_buffer *ring;
	weir_event_fn event_fn;
	void *event_arg;
	__u64 named_since_ns; /* older events speak of limits whose names are not ours */

	enum weir_adoption adoption;
	bool pinned; /* maps and program are; else apply does it */
	bool fresh;  /* nothing was pinned or attached before: what is there is ours to remove */
	char notes[WEIR_NOTES_MAX];
	struct weir_attachment attached[WEIR_IFACES_MAX];
	int n_attached;
};

/* Remembers one sentence for weir_datapath_notes(). */
void weir_note(struct weir_datapath *d, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* --- load.c ---------------------------------------------------------------------------------- */

/* Opens the object with the sizes of @d, hands it the descriptors in @reuse (-1 = make anew); loads it unless
 * @open_only (for libxdp, which loads by itself).
 */
int weir_load(struct weir_datapath *d, const int reuse[WEIR_MAP_MAX], bool open_only,
	      struct weir **ret, struct weir_error *e);
struct bpf_map *weir_load_map(struct weir *skel, enum weir_map m);
#define WEIR_PROG_NAME	     "weir_xdp_frags"
#define WEIR_PROG_NAME_START "weir_xdp" /* of both entries */

/* --- adopt.c --------------------------------------------------------------------------------- */

/* What an earlier agent or a running program left. */
struct weir_found {
	int fd[WEIR_MAP_MAX];	    /* owned; -1 = not found or not adoptable */
	struct weir_policy *policy; /* content of the policy found, NULL if none */
	int old_sources[2]; /* inner tables in force of a set that is made anew: to copy from */
	bool resized;	    /* they are there, but of another size */
};
void weir_found_done(struct weir_found *f);
/* Looks for pins, else for a weir program on @interfaces; keeps in @ret what can be adopted and says in the notes what
 * cannot. Returns the adoption or -errno.
 */
int weir_adopt(struct weir_datapath *d, char *const *interfaces, size_t n, struct weir_found *ret,
	       struct weir_error *e);
/* Is the program with this id a weir program, and (@meta_id != 0) one that uses this map? */
bool weir_prog_is_weir(__u32 prog_id, __u32 meta_id);

/* --- pin.c ----------------------------------------------------------------------------------- */

/* Mounts bpffs if needed, makes and locks the folder of the instance. */
int weir_pin_folder(struct weir_datapath *d, struct weir_error *e);
/* Locks the folder for this process; false if another agent has it. */
bool weir_pin_lock(int folder_fd);
/* Pins @fd as folder/@name in one step, replacing what was there. */
int weir_pin(const struct weir_datapath *d, int fd, const char *name, struct weir_error *e);
int weir_unpin(const struct weir_datapath *d, const char *name);
/* Program, all maps, current inner maps. */
int weir_pin_all(struct weir_datapath *d, struct weir_error *e);
/* Undoes weir_pin_all and removes the folder, unless it holds something else. */
void weir_unpin_all(struct weir_datapath *d);
/* Makes folder and pins again where somebody has removed them. */
int weir_pin_again(struct weir_datapath *d, struct weir_error *e);
/* The inner maps in force. */
int weir_pin_inner(struct weir_datapath *d, struct weir_error *e);
/* Descriptor of folder/@name or -errno. */
int weir_pin_get(const struct weir_datapath *d, const char *name);
/* Name of the pinned link of an interface: "link_" and the name, '.' and '%' as %2e and %25. */
#define WEIR_LINK_NAME_MAX 64
const char *weir_pin_link_name(const char *ifname, char buf[static WEIR_LINK_NAME_MAX]);

/* --- bank.c ---------------------------------------------------------------------------------- */

/* A new inner map like the template of @m, with @max_entries (0 = the template's). */
int weir_inner_new(struct weir_datapath *d, enum weir_map m, __u32 max_entries, int *ret_fd);
/* Descriptor of what is in a bank of @outer_fd; -ENOENT if empty. */
int weir_inner_get(int outer_fd, __u32 bank, int *ret_fd);
/* Puts @fd into a bank: owned by @d afterwards. The kernel waits for programs that still read the old one. */
int weir_inner_put(struct weir_datapath *d, enum weir_map m, __u32 bank, int *fd);
/* Empties a bank. */
void weir_inner_drop(struct weir_datapath *d, enum weir_map m, __u32 bank);

/* --- apply.c --------------------------------------------------------------------------------- */

/* Puts a changed copy of the policy in force (same banks): one update. Takes nothing over on error. */
int weir_policy_switch(struct weir_datapath *d, const struct weir_policy *p, struct weir_error *e);

/* --- counters.c ------------------------------------------------------------------------------ */

/* Opens or makes the pinned map of bases. */
int weir_base_open(struct weir_datapath *d);
/* Limits in @names that are not in d->names: their counts begin now. */
void weir_base_renew(struct weir_datapath *d, const struct weir_limit_name names[WEIR_STATS_MAX]);

/* --- lists*.c -------------------------------------------------------------------------------- */

/* Fills new inner maps @fd (by list * 2 + family 6) and @ret_filter from whole lists. */
int weir_lists_fill(const struct weir_lists *lists, const int fd[2 * WEIR_LIST_MAX], __u32 room,
		    struct weir_filter *ret_filter, __u32 ret_n[WEIR_LIST_MAX][2],
		    struct weir_error *e);
/* Entries of one inner map. */
int weir_lists_count(int fd, __u32 *ret);

/* --- attach_*.c ------------------------------------------------------------------------------ */

/* The pinned link of an interface, by index (names may change) and program (another network namespace may have the same
 * index): name of the pin, or -ENOENT.
 */
int weir_link_find(const struct weir_datapath *d, const struct weir_iface *i,
		   char ret_pin[static WEIR_LINK_NAME_MAX]);
int weir_link_attach(struct weir_datapath *d, const struct weir_iface *i, struct weir_attachment *a,
		     struct weir_error *e);
int weir_link_update(struct weir_datapath *d, const struct weir_iface *i, const char *pin,
		     struct weir_attachment *a, struct weir_error *e);
/* Detaches and unpins; waits until the interface is free. */
int weir_link_detach(const struct weir_datapath *d, const struct weir_iface *i, const char *pin,
		     struct weir_error *e);
int weir_netlink_replace(struct weir_datapath *d, const struct weir_iface *i,
			 struct weir_attachment *a, struct weir_error *e);
int weir_netlink_detach(const struct weir_iface *i, __u32 prog_id, struct weir_error *e);
int weir_chain_attach(struct weir_datapath *d, const struct weir_iface *i,
		      struct weir_attachment *a, struct weir_error *e);
/* -ENOENT if no program of this instance is in the interface's chain. */
int weir_chain_detach(const struct weir_iface *i, __u32 meta_id, struct weir_error *e);
/* Id of our program in a chain, 0 if there is none. */
__u32 weir_chain_find(const struct weir_iface *i, __u32 meta_id);
/* `program 42 "name", loaded by user 0, held by xdp-loader (pid 7)`. */
void weir_prog_describe(__u32 prog_id, char *ret, size_t size);
/* Waits until the interface has no program @prog_id any more; false after 5 s. */
bool weir_iface_wait_gone(int ifindex, __u32 prog_id);

#endif
