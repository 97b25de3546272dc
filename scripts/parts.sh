#!/usr/bin/env bash
# parts.sh TARGET...: run each make target, all of them even when one fails,
# and end with the time and result of each. Non-zero when any failed.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
table=""
for target in "$@"; do
	echo "=== $target"
	start=$(date +%s)
	result=ok
	"${MAKE:-make}" --no-print-directory "$target" || { result=FAILED; failed=1; }
	table+=$(printf '%-14s %-7s %5ds' "$target" "$result" "$(($(date +%s) - start))")$'\n'
done
echo "=== parts"
printf '%s' "$table"
exit "$failed"
