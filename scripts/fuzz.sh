#!/usr/bin/env bash
# fuzz.sh TIME: run each fuzz target of the module for TIME. What a target
# finds is kept by Go in the package's testdata/fuzz and belongs into a commit.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
count=0
while IFS=: read -r file target; do
	count=$((count + 1))
	echo "=== $target ($(dirname "$file"))"
	"${GO:-go}" test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$(dirname "$file")" || failed=$((failed + 1))
done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' --exclude-dir=bench --exclude-dir=upstream . | sed 's/func //' | sort)
echo "fuzz: $count targets, $failed failed"
[ "$failed" -eq 0 ]
