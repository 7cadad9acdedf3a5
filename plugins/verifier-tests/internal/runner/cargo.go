package runner

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/stepfall/stepfall/sdk/jail"
)

// cargo runs cargo test and parses the output of Rust's test harness.
type cargo struct{ Config }

// targetDir is the path of the build cache for the command.
const targetDir = "/tmp/target"

// Plan runs offline, starting from what the untouched tree compiled.
func (c *cargo) Plan(argv []string, tree *Tree, _ string) (*Plan, error) {
	plan := &Plan{
		Argv: withoutFlags(argv, []string{"-q", "--quiet"}, []string{"--format"}),
		Env:  []string{"CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "CARGO_TERM_QUIET=false", "CARGO_TARGET_DIR=" + targetDir, "CARGO_INCREMENTAL=0"},
	}
	if !hasFlag(argv, "no-fail-fast") {
		plan.Argv = slices.Insert(plan.Argv, 2, "--no-fail-fast")
	}
	if c.Foreign {
		return plan, nil
	}
	cache := jail.Cache{Path: targetDir, Deep: true}
	if c.State != "" {
		// Cargo relies on modification times: what another tree compiled at the same path could look fresh.
		content, err := tree.Content()
		if err != nil {
			return nil, fmt.Errorf("reading the tree: %w", err)
		}
		if cache.Keep, err = cacheDir(filepath.Join(c.State, "cargo"), content[:32]); err != nil {
			return nil, err
		}
		cache.Lower = []string{cache.Keep}
	}
	plan.Caches = []jail.Cache{cache}
	return plan, nil
}

// cargoCount matches the harness's last line if some tests have run.
var cargoCount = regexp.MustCompile(`(?m)^test result: \w+\. (0 passed; )?[1-9]`)

var cargoLine = regexp.MustCompile(`(?m)^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)`)

// Read parses the test lines. Names are unique within a binary only; if two binaries have the same name, one
// failure makes the test fail.
func (*cargo) Read(_ *Plan, result *jail.Result) *Report {
	report := &Report{Marked: true}
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
	if len(report.Tests) == 0 && cargoCount.Match(result.Stdout) {
		report.Unfit = "tests have run that are not named"
	}
	if result.ExitCode != 0 && !slices.ContainsFunc(report.Tests, func(t Test) bool { return t.Status == Fail }) {
		report.Broken = lastOutput(result)
		return report
	}
	report.check(result)
	return report
}
