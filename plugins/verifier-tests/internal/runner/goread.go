package runner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// event is one line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

type goPackage struct {
	status Status
	output strings.Builder
	tests  map[string]*goState
	order  []string
}

type goState struct {
	ran    bool
	status Status
	output strings.Builder
}

// Read parses the events. A test that is reported as passed without having begun, and an exit code that
// contradicts the events, are tampering.
func (g *goTest) Read(_ *Plan, result *jail.Result) *Report {
	packages, order, broken := readEvents(result)
	report := &Report{Broken: tail(broken, maxOutput)}
	for _, name := range order {
		report.addPackage(name, packages[name])
	}
	hasFailed := slices.ContainsFunc(order, func(name string) bool { return packages[name].status == Fail })
	if result.ExitCode == 0 && (hasFailed || report.Broken != "") {
		report.Tampering = append(report.Tampering, "the command reported failures and ended as if there were none")
	}
	if len(report.Tests) == 0 {
		report.Broken = cmp.Or(report.Broken, lastOutput(result))
	}
	passed := slices.ContainsFunc(report.Tests, func(t Test) bool { return t.Status == Pass })
	switch {
	case result.Truncated: // the events that are left out prove nothing
		report.Unfit, report.Tampering = TooMuchOutput, nil
	case !passed && noModule.MatchString(report.Broken):
		report.Unfit = report.Broken
	}
	return report
}

func (r *Report) addPackage(name string, p *goPackage) {
	hasFailed := false
	for _, test := range p.order {
		state := p.tests[test]
		if state.status == Pass && !state.ran {
			r.Tampering = append(r.Tampering, fmt.Sprintf("%s.%s was reported as passed and never begun", name, test))
		}
		hasFailed = hasFailed || state.status == Fail
		r.Tests = append(r.Tests, Test{Group: name, Name: test, Status: state.status, Output: tail(state.output.String(), maxOutput)})
	}
	if p.status == Fail && !hasFailed {
		r.Tests = append(r.Tests, Test{Group: name, Name: PackageName, Status: Fail, Output: tail(p.output.String(), maxOutput)})
	}
}

// TooMuchOutput is the reason why a run whose report was cut is no evidence.
const TooMuchOutput = "the report of the tests is longer than the output that is kept: raise output_kib"

var noModule = regexp.MustCompile(`does not contain main module|go\.mod file not found|cannot find main module`)

func readEvents(result *jail.Result) (packages map[string]*goPackage, order []string, broken string) {
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
		p.take(e)
	}
	if result.ExitCode != 0 {
		broken = build.String()
	}
	return packages, order, broken
}

func (p *goPackage) take(e event) {
	status := map[string]Status{"pass": Pass, "fail": Fail, "skip": Skip}[e.Action]
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
		// One failure is final.
		state.status = status
	}
}
