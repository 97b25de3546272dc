#!/usr/bin/env bash
# bench.sh REGEXP COUNT: Go benchmarks of the packages that have some. Compare
# two runs with benchstat.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t packages < <(grep -rlE --include='*_test.go' '^func Benchmark' --exclude-dir=bench --exclude-dir=upstream . | xargs -r -n1 dirname | sort -u)
if [ "${#packages[@]}" -eq 0 ]; then
	echo "bench: no package has benchmarks"
	exit 0
fi
exec "${GO:-go}" test -run '^$' -bench "$1" -benchmem -count="$2" -p 1 -timeout 60m "${packages[@]}"
