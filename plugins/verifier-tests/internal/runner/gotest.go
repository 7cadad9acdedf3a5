package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
)

// goTest runs go test -json.
type goTest struct {
	state string

	once sync.Once
	env  goEnv
	err  error
}

type goEnv struct{ GOROOT, GOMODCACHE, GOCACHE, GOVERSION string }

func (g *goTest) Name() string { return "go test" }

// Plan adds -json and -count=1, and to every package with tests a last test,
// the canary: a test process that ends before it was made to.
func (g *goTest) Plan(argv []string, tree *Tree, nonce string) (*Plan, error) {
	g.once.Do(func() { g.env, g.err = readGoEnv(argv[0], tree.Dir) })
	if g.err != nil {
		return nil, g.err
	}
	plan := &Plan{
		Argv: slices.Clone(argv),
		Env: []string{
			"GOROOT=" + g.env.GOROOT, "GOMODCACHE=" + g.env.GOMODCACHE, "GOCACHE=" + g.env.GOCACHE,
			"GOPATH=/tmp/go", "GOPROXY=off", "GOTOOLCHAIN=local", "GOTELEMETRY=off", "GOENV=off", "GOFLAGS=-buildvcs=false",
		},
		ReadOnly: []string{g.env.GOROOT, g.env.GOMODCACHE},
	}
	cache := jail.Cache{
		Path: g.env.GOCACHE,
		// A fresh date keeps go from sweeping through the cache in every run.
		Files: map[string][]byte{"trim.txt": []byte(strconv.FormatInt(time.Now().Unix(), 10) + "\n")},
	}
	if g.state != "" {
		// The version keeps apart what toolchains of different versions wrote.
		cache.Keep = filepath.Join(g.state, "go-build-"+g.env.GOVERSION)
		cache.Lower = append(cache.Lower, cache.Keep)
	}
	cache.Lower = append(cache.Lower, g.env.GOCACHE)
	plan.Caches = []jail.Cache{cache}

	insert := []string{}
	if !hasFlag(argv, "json") {
		insert = append(insert, "-json")
	}
	if !hasFlag(argv, "count") {
		insert = append(insert, "-count=1")
	}
	plan.Argv = slices.Insert(plan.Argv, 2, insert...)
	if !hasFlag(argv, "run") && !hasFlag(argv, "skip") && !hasFlag(argv, "c") && !hasFlag(argv, "shuffle") {
		plan.Canary = "TestStepfall" + nonce
		plan.Changes = canaries(tree, plan.Canary)
	}
	return plan, nil
}

func hasFlag(argv []string, name string) bool {
	for _, argument := range argv {
		flag, _, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if strings.HasPrefix(argument, "-") && strings.TrimPrefix(flag, "test.") == name {
			return true
		}
	}
	return false
}

func readGoEnv(program, dir string) (goEnv, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, program, "env", "-json", "GOROOT", "GOMODCACHE", "GOCACHE", "GOVERSION")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	out, err := command.Output()
	if err != nil {
		return goEnv{}, fmt.Errorf("asking %s for its environment: %w", program, err)
	}
	var env goEnv
	if err := json.Unmarshal(out, &env); err != nil {
		return goEnv{}, fmt.Errorf("reading go env: %w", err)
	}
	return env, nil
}

// canaries returns the test file to add to each folder that has tests. Its test
// runs last: its name sorts after the others, and the external test package,
// where there is one, runs after the internal one.
func canaries(tree *Tree, name string) []jail.Change {
	clauses := map[string]string{}
	var dirs []string
	for _, file := range tree.Files {
		dir := path.Dir(file)
		if !strings.HasSuffix(file, "_test.go") || hidden(file) || strings.HasSuffix(clauses[dir], "_test") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(tree.Dir, filepath.FromSlash(file)))
		if err != nil {
			continue
		}
		clause := packageClause(data)
		if clause == "" {
			continue
		}
		if clauses[dir] == "" {
			dirs = append(dirs, dir)
		}
		clauses[dir] = clause
	}
	var changes []jail.Change
	for _, dir := range dirs {
		text := fmt.Sprintf("package %s\n\nimport \"testing\"\n\nfunc %s(*testing.T) {}\n", clauses[dir], name)
		changes = append(changes, jail.Change{Path: path.Join(dir, "zzzz_"+strings.ToLower(name)+"_test.go"), Data: []byte(text)})
	}
	return changes
}

// hidden reports whether go leaves a file out of every package.
func hidden(file string) bool {
	for part := range strings.SplitSeq(file, "/") {
		if strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") || part == "testdata" || part == "vendor" {
			return true
		}
	}
	return false
}

// packageClause returns the package's name, or "" when the file has build
// constraints, which may keep it out.
func packageClause(source []byte) string {
	scanner := bufio.NewScanner(bytes.NewReader(source))
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if strings.HasPrefix(line, "//go:build") {
			return ""
		}
		if rest, ok := strings.CutPrefix(line, "package "); ok {
			name, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return strings.TrimSuffix(name, ";")
		}
	}
	return ""
}

// event is one line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

type goPackage struct {
	status, canary Status
	output         strings.Builder
	tests          map[string]*goState
	order          []string
}

type goState struct {
	ran    bool
	status Status
	output strings.Builder
}

// Read reads the events. A test counts as passed when it was begun, ended once,
// and its package's process ended well after its last test.
func (g *goTest) Read(plan *Plan, result *jail.Result) *Report {
	packages, order, broken := readEvents(plan, result)
	report := &Report{Broken: tail(broken, maxOutput)}
	failed := false
	for _, name := range order {
		p := packages[name]
		failed = failed || p.status == Fail
		for _, test := range p.order {
			state := p.tests[test]
			if state.status == Pass && !state.ran {
				report.Tampering = append(report.Tampering, fmt.Sprintf("%s.%s was reported as passed and never begun", name, test))
			}
			report.Tests = append(report.Tests, Test{Group: name, Name: test, Status: state.status, Output: tail(state.output.String(), maxOutput)})
		}
		unfinished := slices.ContainsFunc(p.order, func(t string) bool { return p.tests[t].ran && p.tests[t].status == Missing })
		if p.status != Fail && len(p.order) > 0 && (unfinished || p.status == Missing || plan.Canary != "" && p.canary != Pass) {
			report.Unreached = append(report.Unreached, name)
		}
		if p.status == Fail && !slices.ContainsFunc(p.order, func(t string) bool { return p.tests[t].status == Fail }) {
			report.Tests = append(report.Tests, Test{Group: name, Name: "(package)", Status: Fail, Output: tail(p.output.String(), maxOutput)})
		}
	}
	if result.ExitCode == 0 && (failed || report.Broken != "") {
		report.Tampering = append(report.Tampering, "the command reported failures and ended as if there were none")
	}
	if len(report.Tests) == 0 && report.Broken == "" {
		report.Broken = lastOutput(result)
	}
	return report
}

func readEvents(plan *Plan, result *jail.Result) (packages map[string]*goPackage, order []string, broken string) {
	packages = map[string]*goPackage{}
	var build strings.Builder
	for line := range bytes.Lines(result.Stdout) {
		var e event
		if json.Unmarshal(line, &e) != nil || e.Action == "" {
			continue
		}
		if e.Action == "build-output" {
			build.WriteString(e.Output)
			continue
		}
		if e.Package == "" {
			continue
		}
		p, ok := packages[e.Package]
		if !ok {
			p = &goPackage{tests: map[string]*goState{}}
			packages[e.Package] = p
			order = append(order, e.Package)
		}
		p.take(e, plan.Canary)
	}
	if build.Len() > 0 && result.ExitCode != 0 {
		broken = build.String()
	}
	return packages, order, broken
}

func (p *goPackage) take(e event, canary string) {
	status := map[string]Status{"pass": Pass, "fail": Fail, "skip": Skip}[e.Action]
	if canary != "" && e.Test == canary {
		if status != Missing && p.canary != Fail {
			p.canary = status
		}
		return
	}
	if e.Test == "" {
		if status != Missing && p.status != Fail {
			p.status = status
		}
		p.output.WriteString(e.Output)
		return
	}
	state, ok := p.tests[e.Test]
	if !ok {
		state = &goState{}
		p.tests[e.Test] = state
		p.order = append(p.order, e.Test)
	}
	state.output.WriteString(e.Output)
	switch {
	case e.Action == "run":
		state.ran = true
	case status != Missing && state.status != Fail:
		// Whatever failed once has failed.
		state.status = status
	}
}
