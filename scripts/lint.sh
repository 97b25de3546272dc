#!/usr/bin/env bash
# lint.sh PACKAGE...: formatter, analysers, and rules that no linter has, as
# greps. Every finding is printed; non-zero when there was any.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
failed=0

# part NAME COMMAND...: run, keep going, remember failure.
part() {
	local name=$1
	shift
	"$@" || { echo "lint: $name failed"; failed=1; }
}

# files PATTERN...: the tree's files, tracked or about to be; all of them where
# there is no git.
files() {
	if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		git -c safe.directory='*' ls-files -co --exclude-standard -- "$@"
	else
		local pattern
		for pattern in "$@"; do find . -path ./.git -prune -o -type f -name "$pattern" -print; done
	fi
}

# refuse RULE REGEXP FILE...: no line of the files may match.
refuse() {
	local rule=$1 regexp=$2
	shift 2
	[ "$#" -gt 0 ] || return 0
	local found
	found=$(grep -nHE -- "$regexp" "$@" /dev/null || true)
	if [ -n "$found" ]; then
		printf '%s\nlint: %s\n' "$found" "$rule"
		failed=1
	fi
}

gofumpt_clean() {
	local unformatted
	unformatted=$(printf '%s\0' "${gofiles[@]}" | xargs -0 "$go" run "$GOFUMPT" -l)
	[ -z "$unformatted" ] || { printf '%s\n' "$unformatted"; return 1; }
}

existing() { while IFS= read -r f; do [ -f "$f" ] && printf '%s\n' "$f"; done; }

mapfile -t everything < <(files '*' | existing)
mapfile -t gofiles < <(files '*.go' | existing)
mapfile -t code < <(printf '%s\n' "${gofiles[@]}" | grep -v -e '_test\.go$' -e '^upstream/' || true)
mapfile -t dofns < <(grep -lE 'register\.DoFn[0-9]+x|beam\.RegisterDoFn' "${code[@]}" /dev/null | xargs -r grep -L '^func main()' || true)
mapfile -t prose < <(printf '%s\n' "${everything[@]}" | grep -vE '(^|/)testdata/|go\.sum$' || true)

refuse 'time.After in a loop leaks its timer; use time.NewTimer and stop it' '\btime\.After\(' "${code[@]}"
refuse 'a DoFn uses the context it is given' 'context\.(Background|T[O]DO)\(\)' "${dofns[@]}"
refuse 'wrap errors with %w' 'fmt\.Errorf\(.*: %v", err\)' "${code[@]}"
refuse 'say what is being done ("opening x"), not that it failed' '(Errorf|errors\.New)\("failed to' "${code[@]}"
refuse 'finish it or file it' '(^|[^.A-Za-z])(T[O]DO|F[I]XME)\b' "${prose[@]}"
refuse 'a path of one machine' '(^|[^A-Za-z0-9_.-])/((root|work|farm)/|home/[a-z]|tmp/[A-Za-z0-9])' "${prose[@]}"
refuse 'a package registry host' '(proxy[.]golang[.]org|sum[.]golang[.]org|registry[.]npmjs[.]org|pypi[.]org|repo1?[.]maven[.])' "${prose[@]}"

part gofumpt gofumpt_clean
part 'go vet' "$go" vet "$@"
part 'go vet -tags integration' "$go" vet -tags integration "$@"
part golangci-lint "$go" run "$GOLANGCI" run --allow-parallel-runners --concurrency "${P:-2}" "$@"

[ "$failed" -eq 0 ] && echo "lint: clean"
exit "$failed"
