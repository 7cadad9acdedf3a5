package runner

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
)

// cargo runs cargo test and reads the lines of Rust's test harness.
type cargo struct{ state string }

func (*cargo) Name() string { return "cargo test" }

// Guards: what is in tests/ decides, and a runner or a harness of one's own could
// report anything.
func (*cargo) Guards() []string {
	return []string{"tests/**", "Cargo.toml", ".cargo/**", "rust-toolchain", "rust-toolchain.toml"}
}

// targetDir is where the command sees its build cache.
const targetDir = "/tmp/target"

// Plan runs offline, with what the untouched tree compiled to begin with.
func (c *cargo) Plan(argv []string, tree *Tree, _ string) (*Plan, error) {
	plan := &Plan{
		Argv: slices.Insert(slices.Clone(argv), 2, "--no-fail-fast"),
		Env:  []string{"CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "CARGO_TARGET_DIR=" + targetDir, "CARGO_INCREMENTAL=0"},
	}
	if hasFlag(argv, "no-fail-fast") {
		plan.Argv = slices.Clone(argv)
	}
	cache := jail.Cache{Path: targetDir, Deep: true}
	if c.state != "" {
		// Cargo goes by times of change: what another tree compiled at the same path
		// could look fresh.
		content, err := tree.Content()
		if err != nil {
			return nil, fmt.Errorf("reading the tree: %w", err)
		}
		if cache.Keep, err = keepOf(filepath.Join(c.state, "cargo"), content[:32]); err != nil {
			return nil, err
		}
		cache.Lower = []string{cache.Keep}
	}
	plan.Caches = []jail.Cache{cache}
	return plan, nil
}

// maxTargets bounds the trees whose build cache is kept.
const maxTargets = 8

// keepOf returns the folder name below dir, which it makes, and removes those that
// were not used for longest.
func keepOf(dir, name string) (string, error) {
	keep, now := filepath.Join(dir, name), time.Now()
	// The files in it may be written to by another uid, and by nobody else.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return "", err
	}
	if err := os.Chtimes(keep, now, now); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= maxTargets {
		return keep, err
	}
	used := map[string]time.Time{}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			used[entry.Name()] = info.ModTime()
		}
	}
	names := slices.SortedFunc(maps.Keys(used), func(a, b string) int { return used[b].Compare(used[a]) })
	for _, old := range names[min(maxTargets, len(names)):] {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			return "", err
		}
	}
	return keep, nil
}

var cargoLine = regexp.MustCompile(`(?m)^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)`)

// Read reads the lines. Names are those within each binary; two binaries may have
// the same, and whatever failed once has failed.
func (*cargo) Read(_ *Plan, result *jail.Result) *Report {
	report := &Report{}
	seen := map[string]int{}
	for _, match := range cargoLine.FindAllStringSubmatch(string(result.Stdout)+"\n"+string(result.Stderr), -1) {
		test := Test{Name: match[1], Status: map[string]Status{"ok": Pass, "FAILED": Fail, "ignored": Skip}[match[2]]}
		at, known := seen[test.Name]
		switch {
		case !known:
			seen[test.Name] = len(report.Tests)
			report.Tests = append(report.Tests, test)
		case test.Status == Fail:
			report.Tests[at].Status = Fail
		}
	}
	if result.ExitCode != 0 && !slices.ContainsFunc(report.Tests, func(t Test) bool { return t.Status == Fail }) {
		report.Broken = lastOutput(result)
		return report
	}
	report.check(result)
	return report
}
