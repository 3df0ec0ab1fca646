# SPDX-License-Identifier: GPL-2.0-or-later
# weir: everything is found by folder, so a new file needs no line here. `make help` lists the targets.

.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

B        ?= build
CC       ?= gcc
CLANG    ?= clang
ifndef BPFTOOL
BPFTOOL  := $(or $(shell scripts/find-bpftool),bpftool)
endif
PREFIX   ?= /usr/local
SBINDIR  ?= $(PREFIX)/sbin
LIBDIR   ?= $(PREFIX)/lib/weir
MANDIR   ?= $(PREFIX)/share/man
UNITDIR  ?= /etc/systemd/system
CONFDIR  ?= /etc/weir
DESTDIR  ?=
VERSION  := 0.1.0
V        ?= 0
ifeq ($(origin CC),default)
CC := gcc
endif
# SAN=1: AddressSanitizer and UndefinedBehaviorSanitizer; SAN=thread: ThreadSanitizer; each in a build folder of its own
ifeq ($(SAN),1)
B := build/san
else ifeq ($(SAN),thread)
B := build/tsan
endif
ifeq ($(V),1)
Q :=
say =
else
Q := @
say = @printf '  %-8s %s\n' '$(1)' '$(2)';
MAKEFLAGS += --no-print-directory
endif

# --- flags -----------------------------------------------------------------------------------
PKGS      := libbpf libxdp yaml-0.1 jansson libsodium libevent_core libevent_pthreads libmicrohttpd sqlite3 hiredis
# TLS to Redis: hiredis 1.0 and later have it as a library of its own.
ifeq ($(shell pkg-config --exists hiredis_ssl && echo 1),1)
PKGS      += hiredis_ssl openssl
SSL_FLAG  := -DWEIR_HIREDIS_SSL
endif
WARN      := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
             -Wpointer-arith -Wwrite-strings -Wundef
CPPFLAGS_ := -Iinclude -I. -I$(B)/include -D_GNU_SOURCE -DWEIR_VERSION='"$(VERSION)"' \
             -DWEIR_LIBDIR='"$(LIBDIR)"' -DWEIR_CONFDIR='"$(CONFDIR)"' $(SSL_FLAG) $(shell pkg-config --cflags $(PKGS))
CFLAGS    ?= -O2 -g
CFLAGS_   := -std=gnu11 $(WARN) -fno-strict-aliasing -fstack-protector-strong
LDLIBS_   := $(shell pkg-config --libs $(PKGS))
ifeq ($(SAN),1)
CFLAGS_  += -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=all
# gcc before 14 does not align what it moves off the stack to notice its use after a return (PR 110027): hash states
# of libsodium want 64 bytes.
ifneq ($(filter 9 10 11 12 13,$(if $(findstring clang,$(CC)),,$(firstword $(subst ., ,$(shell $(CC) -dumpversion))))),)
CFLAGS_  += --param asan-use-after-return=0
endif
else ifeq ($(SAN),thread)
CFLAGS_  += -fsanitize=thread -fno-omit-frame-pointer
endif
# Tests may set a default and override it in one initialiser.
TESTFLAGS := -Itests -Wno-override-init $(if $(findstring clang,$(CC)),-Wno-initializer-overrides)
BPFOPT    ?= -O2
BPFFLAGS  := $(BPFOPT) -g -target bpf -mcpu=v3 -std=gnu11 -Iinclude -Ibpf -Wall -Wextra -Werror -Wshadow \
             -Wno-unused-parameter -Wno-address-of-packed-member -Wno-compare-distinct-pointer-types \
             -idirafter /usr/include/$(shell uname -m)-linux-gnu

# --- what there is ---------------------------------------------------------------------------
USER_SRC   := $(wildcard user/*/*.c)
USER_OBJ   := $(USER_SRC:%.c=$(B)/%.o)
LIB_OBJ    := $(wildcard tests/lib/*.c)
LIB_OBJ    := $(LIB_OBJ:%.c=$(B)/%.o)
BPF_SRC    := $(wildcard bpf/*.bpf.c)
BPF_OBJ    := $(BPF_SRC:bpf/%.bpf.c=$(B)/bpf/%.bpf.o)
TBPF_SRC   := $(wildcard tests/*/*.bpf.c)
TBPF_OBJ   := $(TBPF_SRC:%.bpf.c=$(B)/%.bpf.o)
SKEL       := $(BPF_SRC:bpf/%.bpf.c=$(B)/include/%.skel.h) \
              $(foreach f,$(TBPF_SRC),$(B)/include/$(notdir $(f:.bpf.c=.skel.h)))
UNIT       := $(patsubst %.c,$(B)/%,$(wildcard tests/unit/t_*.c))
PACKET     := $(patsubst %.c,$(B)/%,$(wildcard tests/packet/t_*.c))
NETNS      := $(patsubst %.c,$(B)/%,$(wildcard tests/netns/t_*.c))
HTTP       := $(patsubst %.c,$(B)/%,$(wildcard tests/http/t_*.c tests/proxy/t_*.c tests/redis/t_*.c))
FUZZ       := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
GEN        := $(if $(wildcard tests/gen/*.c),$(B)/weir-gen)
DEMO       := $(patsubst tests/demo/%.c,$(B)/demo-%,$(filter-out %.bpf.c,$(wildcard tests/demo/*.c)))
BENCH      := $(B)/weir-bench $(B)/weir-bench-l7 $(B)/weir-bench-redis
# The same sources, built otherwise: what an upgrade changes the program to (tests/netns/t_restart.c).
NEXT       := $(if $(findstring /next,$(B)),,$(B)/next/weir)
TESTS      := $(UNIT) $(PACKET) $(NETNS) $(HTTP)

.PHONY: all all-demo check check-vm check-redis install uninstall demo test bench bench-l7 bench-redis lint format clean help tests
all: $(B)/weir $(BPF_OBJ) $(GEN) ## build the agent, the BPF object and the traffic generator

all-demo: all $(DEMO)

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- compile ---------------------------------------------------------------------------------
$(B)/%.o: %.c Makefile | $(SKEL)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CPPFLAGS_) $(CPPFLAGS) $(CFLAGS_) $(if $(filter tests/%,$<),$(TESTFLAGS)) $(CFLAGS) -MMD -MP -c $< -o $@

$(B)/%.bpf.o: %.bpf.c Makefile
	@mkdir -p $(@D)
	$(call say,BPF,$<)$(CLANG) $(BPFFLAGS) -MMD -MP -MT $@ -MF $(@:.o=.d) -c $< -o $(@:.o=.tmp.o)
	$(Q)$(BPFTOOL) gen object $@ $(@:.o=.tmp.o) && rm -f $(@:.o=.tmp.o)

define skel_rule
$(B)/include/$(notdir $(1:.bpf.c=.skel.h)): $(B)/$(1:.c=.o)
	@mkdir -p $$(@D)
	$$(call say,SKEL,$$(@F)){ echo "#include \"weir/maps.h\""; $$(BPFTOOL) gen skeleton $$< name $(subst -,_,$(notdir $(1:.bpf.c=))); } > $$@
endef
$(foreach f,$(BPF_SRC) $(TBPF_SRC),$(eval $(call skel_rule,$(f))))

# Scripts that run in Redis, as C strings.
$(B)/include/%.lua.h: user/redis/%.lua Makefile
	@mkdir -p $(@D)
	$(call say,LUA,$<)sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $< > $@
$(B)/include/%.lua.h: user/fleet/%.lua Makefile
	@mkdir -p $(@D)
	$(call say,LUA,$<)sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $< > $@
$(B)/user/redis/script.o: $(B)/include/decide.lua.h $(B)/include/rights.lua.h
$(B)/user/fleet/call.o: $(B)/include/lists.lua.h
$(B)/user/fleet/sources.o: $(B)/include/sources.lua.h

$(B)/libweir.a: $(USER_OBJ)
	$(call say,AR,$@)rm -f $@; ar rcs $@ $^
$(B)/libtest.a: $(LIB_OBJ)
	$(call say,AR,$@)rm -f $@; ar rcs $@ $^
$(B)/weir: $(B)/user/main.o $(B)/libweir.a
	$(call say,LD,$@)$(CC) $(CFLAGS_) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LDLIBS_)
$(B)/weir-gen: $(patsubst %.c,$(B)/%.o,$(filter-out %.bpf.c,$(wildcard tests/gen/*.c))) $(B)/libtest.a $(B)/libweir.a
	$(call say,LD,$@)$(CC) $(CFLAGS_) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LDLIBS_)
$(B)/weir-bench: $(B)/tests/bench/bench.o $(B)/libtest.a $(B)/libweir.a
	$(call say,LD,$@)$(CC) $(CFLAGS_) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LDLIBS_)
$(B)/weir-bench-redis: $(B)/tests/redis/bench.o $(B)/libtest.a $(B)/libweir.a
	$(call say,LD,$@)$(CC) $(CFLAGS_) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LDLIBS_) -lcmocka
$(B)/weir-bench-l7: $(patsubst %.c,$(B)/%.o,$(wildcard tests/bench/l7*.c)) $(B)/libtest.a $(B)/libweir.a
	$(call say,LD,$@)$(CC) $(CFLAGS_) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LDLIBS_) -lcmocka
$(DEMO): $(B)/demo-%: $(B)/tests/demo/%.o $(B)/libweir.a
	$(call say,LD,$@)$(CC) $(CFLAGS_) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LDLIBS_)
$(TESTS): $(B)/%: $(B)/%.o $(B)/libtest.a $(B)/libweir.a
	$(call say,LD,$@)$(CC) $(CFLAGS_) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LDLIBS_) -lcmocka
$(B)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c Makefile $(USER_SRC) $(B)/include/decide.lua.h $(B)/include/rights.lua.h | $(SKEL)
	@mkdir -p $(@D)
	$(call say,FUZZ,$@)$(CLANG) $(CPPFLAGS_) -std=gnu11 -g -O1 -Itests -fsanitize=fuzzer,address,undefined $< $(wildcard user/base/*.c user/config/*.c user/l7/*.c user/store/*.c user/redis/*.c) -o $@ $(LDLIBS_)

$(B)/next/weir: $(B)/weir $(BPF_OBJ)
	$(call say,NEXT,$@)$(MAKE) B=$(B)/next BPFOPT=-Os $(B)/next/weir >/dev/null
tests: all $(TESTS) $(BENCH) $(DEMO) $(NEXT) ## build every test
# For scripts/lint: everything compiled and nothing linked; and the flags, to compile one header alone.
.PHONY: objects flags
objects: $(USER_OBJ) $(LIB_OBJ) $(patsubst %.c,$(B)/%.o,$(wildcard user/main.c) $(filter-out %.bpf.c,\
         $(wildcard tests/unit/*.c tests/packet/*.c tests/netns/*.c tests/http/*.c tests/proxy/*.c tests/redis/*.c tests/gen/*.c tests/bench/*.c tests/demo/*.c)))
flags:
	@printf '%s\n' "$(subst ",\",$(CPPFLAGS_) $(CFLAGS_) $(TESTFLAGS))" "$(BPFFLAGS)"
.SECONDARY:

# --- run -------------------------------------------------------------------------------------
check: tests ## run every test of this machine (needs root for the packet and namespace tests)
	$(Q)scripts/run-tests $(B)
check-vm: tests ## the packet and namespace tests on stock Debian kernels in QEMU
	$(Q)tests/vm/check-vm $(B)
check-redis: tests ## the tests with Redis on other versions of it, from Debian's packages
	$(Q)tests/redis/check-versions $(B)
fuzz: $(FUZZ)
bench: tests ## what a packet costs: XDP_DROP, peers and weir in one run; writes build/bench.json
	$(Q)$(B)/weir-bench --json build/bench.json
bench-redis: $(B)/weir-bench-redis ## decisions in a shared store, beside redis-benchmark; writes build/bench-redis.json
	$(Q)$(B)/weir-bench-redis --json build/bench-redis.json
bench-l7: $(B)/weir $(B)/weir-bench-l7 ## what a check of the request layer costs, beside peers; writes build/bench-l7.json
	$(Q)$(B)/weir-bench-l7 --build $(B) --json build/bench-l7.json
demo: ## scripts/demo
	$(Q)scripts/demo
test: ## scripts/test
	$(Q)scripts/test
lint: ## format, both compilers' warnings, cppcheck, shellcheck, own rules
	$(Q)scripts/lint
format: ## rewrite the C files in the project's format
	$(Q)clang-format -i $$(git ls-files -co --exclude-standard '*.c' '*.h')

# --- install ---------------------------------------------------------------------------------
install: all ## binary, BPF object, man page, unit file, default configuration (monitor mode)
	$(Q)DESTDIR='$(DESTDIR)' SBINDIR='$(SBINDIR)' LIBDIR='$(LIBDIR)' MANDIR='$(MANDIR)' UNITDIR='$(UNITDIR)' CONFDIR='$(CONFDIR)' scripts/install $(B)
uninstall: ## take away what install put in place; configuration and state stay
	$(Q)DESTDIR='$(DESTDIR)' SBINDIR='$(SBINDIR)' LIBDIR='$(LIBDIR)' MANDIR='$(MANDIR)' UNITDIR='$(UNITDIR)' CONFDIR='$(CONFDIR)' scripts/install --remove
clean: ## remove build/
	$(Q)rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
