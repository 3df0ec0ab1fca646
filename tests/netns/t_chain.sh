#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# attach: chain. weir joins an interface where xdp-filter sits already, both see packets, and each comes and goes
# without the other noticing. Run by scripts/run-tests; needs a kernel that takes programs which extend others.
set -uo pipefail
weir=$WEIR_BUILD/weir
n=0
cd "$TMPDIR" || exit 1
promises=(xdp_filter_is_joined both_programs_are_listed packets_pass_both weir_blocks xdp_filter_blocks
	kill_and_restart_keep_one_weir detach_leaves_xdp_filter)
result() { # STATUS, for the next promise
	local word=ok
	[ "$1" = 0 ] || word='not ok'
	echo "$word $((n + 1)) - ${promises[n]}"
	n=$((n + 1))
}
# A closed port answers at once where packets pass; where they are dropped, nothing comes.
passes() {
	local status=0
	ip netns exec peer timeout 3 bash -c 'exec 3<>/dev/tcp/192.0.2.1/9' 2>/dev/null || status=$?
	[ "$status" != 124 ]
}
drops() { ! passes; }
programs() { # how many programs whose name matches $1 the dispatcher of v0 runs
	xdp-loader status v0 | grep -c "=>.* $1 "
}
within() { # SECONDS COMMAND...: does it hold in time?
	local deadline=$((SECONDS + $1 * ${WEIR_TEST_SLOW:-1}))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.1
	done
}
agent=''
start() {
	"$weir" run -c weir.yaml >>agent.log 2>&1 &
	agent=$!
	within 20 answers_or_died && kill -0 "$agent" 2>/dev/null
}
answers_or_died() {
	"$weir" status >/dev/null 2>&1 || ! kill -0 "$agent" 2>/dev/null
}
stop() { # SIGNAL
	[ -n "$agent" ] || return 0
	kill "-$1" "$agent" 2>/dev/null
	wait "$agent" 2>/dev/null
	agent=''
}
clean() {
	stop TERM
	"$weir" detach -c weir.yaml >/dev/null 2>&1
	xdp-filter unload v0 >/dev/null 2>&1
	ip link del v0
	ip netns del peer
	find /sys/fs/bpf -type f -delete
}
trap clean EXIT

ip netns add peer
ip link add v0 type veth peer name v1 netns peer
ip addr add 192.0.2.1/24 dev v0
ip -n peer addr add 192.0.2.2/24 dev v1
ip link set v0 up
ip -n peer link set v1 up
xdp-filter load -m native -f ipv4 v0 || exit 1
if ! xdp-loader status v0 | grep -q 'xdp_dispatcher'; then
	echo "skip: this kernel refuses freplace programs, and libxdp's dispatcher is made of them"
	exit 77
fi
echo "1..${#promises[@]}"
cat >weir.yaml <<-EOF
	interfaces: [v0]
	attach: chain
	state_dir: $TMPDIR/state
	packet_limits:
	  - {name: per-source, per: source, rate: 20000/s}
EOF
start
result $?
[ "$(programs 'weir_xdp[a-z_]*')" = 1 ] && [ "$(xdp-loader status v0 | grep -c '=>')" = 2 ]
result $?
within 5 passes
result $?
"$weir" block add 192.0.2.2 && drops && "$weir" block del 192.0.2.2 && within 5 passes
result $?
xdp-filter ip -m src 192.0.2.2 && drops && xdp-filter ip -m src -r 192.0.2.2 && within 5 passes
result $?
stop KILL
passes && start && [ "$(programs 'weir_xdp[a-z_]*')" = 1 ] && [ "$(xdp-loader status v0 | grep -c '=>')" = 2 ]
result $?
stop TERM
"$weir" detach -c weir.yaml && [ "$(programs 'weir_xdp[a-z_]*')" = 0 ] && [ "$(xdp-loader status v0 | grep -c '=>')" = 1 ] && passes
result $?
[ "$n" = "${#promises[@]}" ] || exit 1
xdp-loader status v0 | sed 's/^/# /'
sed 's/^/# agent: /' agent.log
