#!/usr/bin/env bash
# Run a command in a network namespace of its own, and fail where it sends anything beyond the loopback.
#
# `tools/loopback_only.sh [--may-send] COMMAND...`: the namespace has a loopback, and a dummy interface that holds the
# default and the multicast route of IPv4; IPv6 has no route. Its transmit counter has to be 0 at the end, but for
# --may-send. Names that are looked up at a resolver on the loopback (127.0.0.53) do not count. Where this user may make
# no such namespace, the command runs as it is, and one line says so.
set -euo pipefail

readonly DUMMY=dummy0
say() { echo "loopback_only: $*" >&2; }

set_up() {
  ip link set lo up
  # A kernel without the dummy driver has veth: its other end takes packets and passes none on.
  if ! ip link add "$DUMMY" type dummy 2>/dev/null; then
    ip link add "$DUMMY" type veth peer name dummy1
    quiet dummy1
  fi
  quiet "$DUMMY"
  # An address that no network has (RFC 5737), and that no test takes for one of another machine (192.0.2.1).
  ip address add 198.51.100.1/24 dev "$DUMMY"
  ip route add default via 198.51.100.2 dev "$DUMMY"
  ip route add 224.0.0.0/4 dev "$DUMMY"
}

# Bring up an interface on which the kernel itself sends nothing: neither ARP nor IPv6's solicitations.
quiet() {
  echo 1 2>/dev/null >"/proc/sys/net/ipv6/conf/$1/disable_ipv6" || true
  ip link set "$1" addrgenmode none 2>/dev/null || true
  ip link set "$1" arp off multicast on up
}

# Packets that left by the dummy interface, or would have. /sys may show another namespace, /proc/net does not.
sent() { awk -v name="$DUMMY:" '$1 == name { print $11 + $12 + $13 }' /proc/net/dev; }

case "${1-}" in
--inside)
  # As this script calls itself, in the namespace: --inside CHECK UID GID COMMAND...
  check=$2 user=$3 group=$4
  shift 4
  set_up
  # Whoever is root here only because that makes namespaces is the user again.
  if [[ "$user" -ne 0 ]]; then set -- unshare --user --map-user="$user" --map-group="$group" "$@"; fi
  if [[ "$check" = no ]]; then exec "$@"; fi
  status=0
  # Where there is Python, what was sent is told as well as how much.
  if command -v python3 >/dev/null; then set -- python3 "$(dirname "${BASH_SOURCE[0]}")/packets_sent.py" "$DUMMY" "$@"; fi
  "$@" || status=$?
  packets=$(sent)
  if [[ "$packets" != 0 ]]; then
    say "the transmit counter of $DUMMY is $packets, and has to be 0: something was sent beyond the loopback"
    if [[ "$status" -eq 0 ]]; then status=1; fi
  fi
  exit "$status"
  ;;
esac

check=yes
if [[ "${1-}" = --may-send ]]; then
  check=no
  shift
fi
if [[ $# -eq 0 ]]; then
  say "usage: tools/loopback_only.sh [--may-send] COMMAND..."
  exit 2
fi
makes=(unshare --net)
if [[ "$UID" -ne 0 ]]; then makes+=(--user --map-root-user); fi
if ! command -v ip >/dev/null || ! command -v unshare >/dev/null; then
  say "not in a network namespace: ip or unshare is missing (Debian, Ubuntu: apt install iproute2 util-linux)"
elif ! refusal=$("${makes[@]}" "${BASH_SOURCE[0]}" --inside no "$UID" "$(id -g)" true 2>&1); then
  say "not in a network namespace: this user may make none (${refusal##*$'\n'})"
else
  exec "${makes[@]}" "${BASH_SOURCE[0]}" --inside "$check" "$UID" "$(id -g)" "$@"
fi
exec "$@"
