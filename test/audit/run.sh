#!/usr/bin/env bash
# The specifications' own tests against a server of its own: test/audit/run.sh PROGRAM
set -uo pipefail
program=$(realpath "$1")
export PROGRAM=$program # for audits that stop a server
cd "$(dirname "$0")"
for need in node npm curl; do
	command -v "$need" >/dev/null || { echo "audit: $need is missing" >&2; exit 2; }
done
npm ci --ignore-scripts --no-progress >/dev/null || { echo "audit: npm ci failed" >&2; exit 2; }
exec ../with-server.sh "$program" bash -c '
	failed=0
	for audit in *.mjs; do
		echo "== $audit"
		node "$audit" "${URL}graphql" || failed=1
		echo
	done
	exit $failed'
