#!/usr/bin/env bash
# Records the terminal session of docs/swe.md: docs/record-swe.sh > session.txt
# It wants `make build`, and runs in a temporary folder.
set -euo pipefail
stepfall=$(cd "$(dirname "$0")/.." && pwd)/bin/stepfall
work=$(mktemp -d)
"$stepfall" swe bench --export "$work" --serve > "$work/server.log" &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -q 'until interrupted' "$work/server.log"; do read -rt 0.1 <> <(:) || true; done
cd "$work"
show() {
	echo "\$ $*"
	"${@/#stepfall/$stepfall}" 2>/dev/null || echo "(exit code $?)"
	echo
}
git -C repos/ledger checkout --quiet ledger-04
printf '%b' "$(sed -n 's/.*"ledger-04".*"problem_statement":"\([^"]*\)".*/\1/p' tasks.jsonl)" > task.txt
show cat task.txt
show stepfall swe --repo repos/ledger --task task.txt --policy policy.hcl --dry-run
grep '"ledger-0' tasks.jsonl > ledger.jsonl
grep '"ledger-04' tasks.jsonl > one.jsonl
show stepfall swe --repos repos --task one.jsonl --policy policy.hcl
show stepfall swe --repos repos --task ledger.jsonl --policy policy.hcl --state run1 --predictions preds.jsonl
show stepfall swe --repos repos --task ledger.jsonl --policy policy.hcl --state run1
show stepfall swe --repos repos --task ledger.jsonl --policy policy.hcl --max-usd 0.05
