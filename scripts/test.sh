#!/usr/bin/env bash
# test.sh NAME ARGUMENT...: go test -v with the arguments, told in short: one
# line a package, everything of a package that failed, each skipped test with
# its reason, and a count at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
shift

"${GO:-go}" test -v "$@" 2>&1 | awk -v name="$name" '
	# A result line ends what a package said.
	/^ok  / || /^\?  / || /^\tgithub.com.*coverage/ { print; fflush(); said = ""; next }
	/^FAIL\t/ { printf "%s%s\n", said, $0; fflush(); said = ""; next }
	/^--- PASS/ { passed++ }
	/^ *--- FAIL/ { failed++ }
	/^ *--- SKIP/ { skipped++; skips = skips $0 "\n" last "\n" }
	{ said = said $0 "\n"; last = $0 }
	END {
		printf "%s%s", said, skips
		printf "%s: %d passed, %d failed, %d skipped\n", name, passed, failed, skipped
	}'
