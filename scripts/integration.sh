#!/usr/bin/env bash
# integration.sh: run the tests behind the build tag "integration". A package
# belongs to it by having such a file. Tests skip themselves, with a plain
# word, where a broker cannot be had; those words are repeated at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t packages < <(grep -rl --include='*_test.go' '^//go:build .*\bintegration\b' . | xargs -r -n1 dirname | sort -u)
if [ "${#packages[@]}" -eq 0 ]; then
	echo "integration: no package has integration tests"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
"${GO:-go}" test -v -tags integration -p "${P:-2}" -timeout "${TIMEOUT:-20m}" -count=1 "${packages[@]}" >"$log" 2>&1 || status=$?
# Whole output on failure; else one line a package and a count of the tests.
if [ "$status" -ne 0 ]; then
	cat "$log"
else
	grep -E '^(ok|FAIL|\?)' "$log" || true
fi
grep -A1 -E '^ *--- SKIP' "$log" || true
echo "integration: $(grep -cE '^--- PASS' "$log" || true) passed, $(grep -cE '^ *--- FAIL' "$log" || true) failed, $(grep -cE '^ *--- SKIP' "$log" || true) skipped, in ${#packages[@]} packages"
exit "$status"
