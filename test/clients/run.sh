#!/usr/bin/env bash
# Real clients against a server of its own: test/clients/run.sh PROGRAM [CLIENT…]. Each client is a folder with
# a test.mjs that takes the server's address, and says in one line what it lacks (exit 2).
set -uo pipefail
program=$(realpath "$1")
export PROGRAM=$program # for clients that need more than one server
shift
cd "$(dirname "$0")"
for need in node npm curl; do
	command -v "$need" >/dev/null || { echo "test-clients: $need is missing" >&2; exit 2; }
done
[ $# -gt 0 ] || set -- */
failed=0
for client; do
	client=${client%/}
	[ -f "$client/test.mjs" ] || continue
	echo "== $client"
	(
		cd "$client" &&
			{ npm ci --ignore-scripts --no-progress >/dev/null || { echo "$client: npm ci failed" >&2; exit 2; }; } &&
			../../with-server.sh "$program" bash -c 'node test.mjs "$URL"'
	) || failed=1
	echo
done
exit $failed
