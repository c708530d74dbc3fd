#!/usr/bin/env bash
# Real clients end to end: test/clients/run.sh PROGRAM [CLIENT…]. Each client is a folder with a test.mjs that takes
# the address of a server of its own, or starts $PROGRAM itself where it needs more than one. What is missing is said
# in one line before anything runs (exit 2).
set -uo pipefail
program=$(realpath "$1")
export PROGRAM=$program
shift
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- */
missing=()
for need in node npm curl; do
	command -v "$need" >/dev/null || missing+=("$need")
done
for client; do
	if [ ! -x "${CHROMIUM:-/usr/bin/chromium}" ] && grep -qs playwright "$client/package.json"; then
		missing+=("chromium for $(basename "$client") (Debian's package, or set CHROMIUM)")
	fi
done
if [ ${#missing[@]} -gt 0 ]; then
	printf 'test-clients: missing: %s' "${missing[0]}" >&2
	[ ${#missing[@]} -eq 1 ] || printf ', %s' "${missing[@]:1}" >&2
	echo "; CLIENTS=… runs some of: $(basename -a */ | tr '\n' ' ')" >&2
	exit 2
fi
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
