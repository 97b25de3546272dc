#!/usr/bin/env bash
# docs-check.sh: regenerate the documents that come from the code and compare
# with what was there, so that it works with uncommitted work and without git.
set -euo pipefail
cd "$(dirname "$0")/.."

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
cp -R docs README.md "$before"
"${MAKE:-make}" --no-print-directory docs
status=0
diff -ru "$before/docs" docs || status=1
diff -u "$before/README.md" README.md || status=1
if [ "$status" -ne 0 ]; then
	echo "docs-check: stale; run make docs and commit what it changed"
else
	echo "docs-check: docs are as the code says"
fi
exit "$status"
