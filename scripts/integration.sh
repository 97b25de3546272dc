#!/usr/bin/env bash
# integration.sh: run the packages that have tests behind the build tag
# "integration". Tests skip themselves, with a plain word, where a broker
# cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t packages < <(grep -rl --include='*_test.go' '^//go:build .*\bintegration\b' . | xargs -r -n1 dirname | sort -u)
if [ "${#packages[@]}" -eq 0 ]; then
	echo "integration: no package has integration tests"
	exit 0
fi
exec scripts/test.sh integration -tags integration -p "${P:-2}" -timeout "${TIMEOUT:-20m}" -count=1 "${packages[@]}"
