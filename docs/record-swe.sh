#!/usr/bin/env bash
# Prints the terminal session of docs/swe.md; its argument is the folder of the
# command and, below it, of the plugins. go test ./docs -run SWESession compares,
# and with -update writes the page.
set -euo pipefail
bin=$(cd "${1:-$(dirname "$0")/../bin}" && pwd)
work=$(mktemp -d)
"$bin/stepfall" dev suite "$work" --serve > "$work/server.log" &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -q 'until interrupted' "$work/server.log"; do
	kill -0 $server || exit 1 # it could not be started
	read -rt 0.1 <> <(:) || true
done
cd "$work"
show() {
	echo "\$ $1"
	PATH=$bin:$PATH bash -c "$1" 2>&1 || echo "(exit code $?)"
	echo
}
git -C repos/ledger checkout --quiet ledger-04
printf '%b\n' "$(sed -n 's/.*"ledger-04".*"problem_statement":"\([^"]*\)".*/\1/p' tasks.jsonl)" > task.txt
grep -e '"ledger-01' -e '"inventory-0[23]' tasks.jsonl > batch.jsonl
sed '/^    groups/d; /^verifier "tests-[pj]/,/^}/d' policy.hcl > own.hcl
show 'cat task.txt'
show 'stepfall swe --repo repos/ledger --task task.txt --policy own.hcl --dry-run'
show 'stepfall swe --repo repos/ledger --task task.txt --policy own.hcl --out fix.patch'
show 'git -C repos/ledger apply --stat ../../fix.patch'
show 'stepfall swe --repos repos --task batch.jsonl --policy policy.hcl --parallel 1 --state run1 --max-usd 0.05'
show 'stepfall swe --repos repos --task batch.jsonl --policy policy.hcl --parallel 1 --state run1 --out preds.jsonl'
