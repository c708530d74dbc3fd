#!/usr/bin/env bash
# Run a command beside a server of its own, all in memory, on a free port:
#
#   test/with-server.sh PROGRAM COMMAND [ARGUMENT…]     the command finds the server's address in $URL
#
# Exit: that of the command; 2 where the server does not become ready.
set -uo pipefail

program=$1
shift
log=$(mktemp)
server=
stop() {
	[ -z "$server" ] || kill -TERM "$server" 2>/dev/null
	wait "$server" 2>/dev/null
	rm -f "$log"
}
trap stop EXIT

for try in 1 2 3 4 5; do
	port=$((20000 + RANDOM % 10000))
	"$program" serve --listen "127.0.0.1:$port" --data-dir :memory: >"$log" 2>&1 &
	server=$!
	export URL="http://127.0.0.1:$port/"
	for _ in $(seq 300); do
		curl -fs "${URL}readyz" >/dev/null 2>&1 && break 2
		kill -0 "$server" 2>/dev/null || continue 2 # the port was taken
		sleep 0.1
	done
	break
done
if ! curl -fs "${URL}readyz" >/dev/null 2>&1; then
	echo "the server did not become ready:" >&2
	tail -n 20 "$log" >&2
	exit 2
fi
"$@"
