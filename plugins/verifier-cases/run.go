package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-cases/internal/cases"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// run is the verification of one answer.
type run struct {
	v     *verifier
	walls jail.Walls
	dir   string
	// sources are the real paths of the files and folders of the cases.
	sources []string
	changes []jail.Change
	result  *jail.Result
}

func (r *run) spec(argv []string, wall time.Duration) *jail.Spec {
	c := &r.v.config
	spec := &jail.Spec{
		Dir: r.dir, Argv: argv, Require: requiredLayers(c.Require), Changes: slices.Clone(r.changes), Env: jail.ToolEnv(),
		Limits: jail.Limits{Wall: wall, Memory: c.MemoryMiB << 20, Disk: c.DiskMiB << 20, Processes: c.Processes, Output: c.OutputKiB << 10},
	}
	for name, value := range c.Env {
		spec.Env = append(spec.Env, name+"="+value)
	}
	spec.ReadOnly = slices.Concat(jail.SystemPaths(), jail.ToolPaths(argv[0]), c.ReadOnly)
	return spec
}

// start runs code of the answer. It fails if one of the mounts, all of which are known here, would let that
// code read a case.
func (r *run) start(ctx context.Context, spec *jail.Spec) (*jail.Result, error) {
	mounts := slices.Concat([]string{spec.Dir}, spec.ReadOnly, spec.Writable)
	for _, cache := range spec.Caches {
		mounts = append(append(mounts, cache.Path, cache.Keep), cache.Lower...)
	}
	for _, mount := range mounts {
		real, err := filepath.EvalSymlinks(mount)
		if err != nil {
			continue // it does not exist
		}
		for _, source := range r.sources {
			if isBelow(real, source) || isBelow(source, real) {
				return nil, fmt.Errorf("the cases in %s lie in %s, where an answer could read them", source, mount)
			}
		}
	}
	return r.walls.Run(ctx, spec)
}

func isBelow(folder, path string) bool {
	inside, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(inside)
}

func (r *run) judge(ctx context.Context, answer *sdk.Answer, list []cases.Case) (*sdk.Verdict, error) {
	if failed, err := r.apply(answer); failed != nil || err != nil {
		return failed, err
	}
	if failed, err := r.build(ctx); failed != nil || err != nil {
		return failed, err
	}
	return r.cases(ctx, list)
}

func (r *run) build(ctx context.Context) (*sdk.Verdict, error) {
	c := &r.v.config
	if len(c.Build) == 0 {
		return nil, nil
	}
	spec := r.spec(c.Build, c.BuildTime)
	spec.Reports = c.Built
	spec.Limits.Memory, spec.Limits.Processes, spec.Limits.Disk = 0, 0, 0
	if err := r.withGo(ctx, spec, c.Build); err != nil {
		return nil, err
	}
	result, err := r.start(ctx, spec)
	if err != nil {
		return nil, err
	}
	r.result = result
	if failed, err := r.buildVerdict(ctx, result); failed != nil || err != nil {
		return failed, err
	}
	for _, name := range c.Built {
		data, ok := result.Reports[name]
		if !ok {
			return r.verdict(sdk.Failed, "the build did not create "+name), nil
		}
		r.changes = append(r.changes, jail.Change{Path: name, Data: data, Mode: 0o755})
	}
	return nil, nil
}

// buildVerdict returns the verdict on an answer whose build failed, or nil if it succeeded.
func (r *run) buildVerdict(ctx context.Context, result *jail.Result) (*sdk.Verdict, error) {
	command := r.v.config.Build
	why, err := r.fault(ctx, result, "the build", command)
	switch {
	case err != nil:
		return nil, err
	case why != "":
		return r.verdict(sdk.Inconclusive, why), nil
	case result.End == jail.EndRefused:
		return r.verdict(sdk.Inconclusive, noIsolation(result)), nil
	case result.End == jail.EndTimeout && isGo(command):
		return r.verdict(sdk.Inconclusive, "the build timed out, perhaps while Go compiled its library: raise build_timeout, or build something once outside"), nil
	case result.End != jail.EndExit:
		return r.verdict(sdk.Failed, "the build ended by "+string(result.End)), nil
	case result.ExitCode != 0:
		return r.verdict(sdk.Failed, "it does not build:\n"+tail(result)), nil
	}
	return nil, nil
}

func noIsolation(result *jail.Result) string {
	return "required isolation is unavailable: " + strings.Join(result.Lacks, ", ")
}

func (r *run) verdict(outcome sdk.Outcome, evidence string) *sdk.Verdict {
	verdict := &sdk.Verdict{Outcome: outcome, Evidence: evidence, Way: "cases"}
	if r.result != nil {
		verdict.Isolation, verdict.IsolationMissing = r.result.Layers, r.result.Missing
	}
	return verdict
}

type caseResult struct {
	wrong  string // why the output is wrong; "" means right
	unfit  string // why the run is no evidence about the answer
	result *jail.Result
}

// cases runs the cases in parallel, by default until one fails.
func (r *run) cases(ctx context.Context, list []cases.Case) (*sdk.Verdict, error) {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	came := make([]caseResult, len(list))
	faults := make([]error, len(list))
	var wait sync.WaitGroup
	for i := range list {
		select {
		case r.v.slots <- struct{}{}:
		case <-inner.Done():
			continue
		}
		wait.Go(func() {
			defer func() { <-r.v.slots }()
			e, err := r.try(inner, &list[i])
			if inner.Err() != nil {
				return // cancelled because of another case
			}
			came[i], faults[i] = e, err
			if err != nil || r.endsRest(e) {
				stop()
			}
		})
	}
	wait.Wait()
	if err := cmp.Or(ctx.Err(), errors.Join(faults...)); err != nil {
		return nil, err
	}
	return r.decide(list, came), nil
}

func (r *run) endsRest(e caseResult) bool {
	return e.unfit != "" || e.wrong != "" && !r.v.config.All
}

func (r *run) decide(list []cases.Case, came []caseResult) *sdk.Verdict {
	passed := 0
	var wrong []string
	for i := range came {
		if came[i].result == nil { // not run
			continue
		}
		r.result = came[i].result
		switch {
		case came[i].unfit != "":
			return r.verdict(sdk.Inconclusive, name(i+1, &list[i])+" is inconclusive: "+came[i].unfit)
		case came[i].wrong == "":
			passed++
		default:
			wrong = append(wrong, describe(i+1, &list[i], &came[i]))
		}
	}
	if len(wrong) == 0 {
		verdict := r.verdict(sdk.Passed, fmt.Sprintf("%d of %d cases passed", passed, len(list)))
		verdict.Score = 1
		return verdict
	}
	const shown = 5
	evidence := fmt.Sprintf("%d of %d cases passed", passed, len(list))
	if !r.v.config.All {
		evidence += ", and the first failure ended the rest"
	}
	if len(wrong) > shown {
		wrong = append(wrong[:shown], fmt.Sprintf("... and %d more", len(wrong)-shown))
	}
	verdict := r.verdict(sdk.Failed, evidence+"\n"+strings.Join(wrong, "\n"))
	verdict.Score = float64(passed) / float64(len(list))
	return verdict
}

// name returns the name of a case in evidence. The name of a hidden case is not shown, since it could reveal
// the case.
func name(number int, c *cases.Case) string {
	if c.Public {
		return "case " + c.Name
	}
	return fmt.Sprintf("hidden case %d", number)
}

// describe describes a failed case. Evidence is sent to the next model, so for a hidden case it has nothing
// that the program or a checker could have read from the case.
func describe(number int, c *cases.Case, e *caseResult) string {
	text := name(number, c) + ": "
	if !c.Public {
		return text + describeHidden(c, e.result)
	}
	text += e.wrong
	if errs := strings.TrimSpace(string(e.result.Stderr)); errs != "" {
		text += "\n    " + strings.ReplaceAll(last(errs), "\n", "\n    ")
	}
	if c.Stdin != "" {
		text += "\n  input: " + last(c.Stdin)
	}
	if c.Call != nil {
		text += fmt.Sprintf("\n  call: %s%s", c.Call.Function, c.Call.Arguments)
	}
	if c.Expect.Stdout != nil {
		text += "\n  expected: " + last(*c.Expect.Stdout)
	} else if len(c.Expect.Result) > 0 {
		text += "\n  expected: " + last(string(c.Expect.Result))
	}
	return text + "\n  got: " + last(string(e.result.Stdout))
}

func describeHidden(c *cases.Case, result *jail.Result) string {
	if c.Expect.ExitCode == nil && result.ExitCode != 0 {
		return cmp.Or(ends[result.End], "it ended with an error")
	}
	return cmp.Or(ends[result.End], "wrong output")
}

// ends describes the ends of runs that count as failures of the answer.
var ends = map[jail.End]string{
	jail.EndTimeout: "it did not end in time", jail.EndMemory: "it exceeded its memory limit",
	jail.EndDisk: "it exceeded its disk limit", jail.EndProcesses: "it exceeded its process limit", jail.EndOutput: "it exceeded its output limit", jail.EndLost: "it killed its own supervisor",
}

func (r *run) try(ctx context.Context, c *cases.Case) (caseResult, error) {
	plan, err := c.Plan(r.v.config.Command, r.v.config.File)
	if err != nil {
		return caseResult{}, err
	}
	spec := r.spec(plan.Argv, r.v.config.Timeout)
	spec.ReadOnly = slices.Concat(spec.ReadOnly, jail.ToolPaths(r.v.config.Command[0]), plan.ReadOnly)
	spec.Changes, spec.Reports = append(spec.Changes, plan.Changes...), plan.Reports
	if err := r.withGo(ctx, spec, r.v.config.Command); err != nil { // go run
		return caseResult{}, err
	}
	result, err := r.start(ctx, spec)
	if err != nil {
		return caseResult{}, err
	}
	e := caseResult{result: result}
	err = r.compare(ctx, c, &e)
	return e, err
}

// compare sets e.wrong to what is wrong with the result of a case, or e.unfit if the run is no evidence.
func (r *run) compare(ctx context.Context, c *cases.Case, e *caseResult) error {
	config := &r.v.config
	var err error
	// A program that did start can exit with the same code, which a case can expect.
	if e.unfit, err = r.fault(ctx, e.result, "the command", config.Command); e.unfit != "" || err != nil {
		return err
	}
	out, unreadable := c.Read(e.result)
	switch {
	case e.result.End == jail.EndRefused:
		e.unfit = noIsolation(e.result)
	case ends[e.result.End] != "":
		e.wrong = ends[e.result.End]
	case unreadable != "":
		e.wrong = unreadable
	case len(config.Checker) > 0 && c.Expect.Stdout != nil:
		return r.check(ctx, c, out, e)
	default:
		e.wrong = c.Check(out, cases.Compare{By: config.Compare, Tolerance: config.Tolerance})
	}
	return nil
}

// cannotStart reports whether the exit code is a shell's for a command that cannot be executed.
func cannotStart(result *jail.Result) bool {
	return result.End == jail.EndExit && (result.ExitCode == 126 || result.ExitCode == 127)
}

// cannotRun reports cannotStart for a command that is not a file from the answer or its build.
func (r *run) cannotRun(result *jail.Result, argv []string) bool {
	program := filepath.ToSlash(filepath.Clean(argv[0]))
	return cannotStart(result) && !slices.ContainsFunc(r.changes, func(c jail.Change) bool { return c.Path == program })
}

// fault returns the reason why a command cannot be executed on this machine, or "". To exclude an influence
// of the answer, it runs the command again with the answer's files empty.
func (r *run) fault(ctx context.Context, result *jail.Result, what string, argv []string) (string, error) {
	if !r.cannotRun(result, argv) {
		return "", nil
	}
	spec := r.spec(slices.Concat([]string{"/bin/sh", "-c", `exec "$@" < /dev/null`, "sh"}, argv), r.v.config.Timeout)
	spec.ReadOnly = append(spec.ReadOnly, jail.ToolPaths(argv[0])...)
	for i := range spec.Changes {
		spec.Changes[i].Data = nil
	}
	result, err := r.start(ctx, spec)
	if err != nil || !cannotStart(result) || tail(result) == "" {
		return "", err
	}
	return what + " cannot be run: " + tail(result), nil
}

// check runs the checker, in a jail without the answer's files.
func (r *run) check(ctx context.Context, c *cases.Case, out *cases.Output, e *caseResult) error {
	if out.ExitCode != 0 {
		e.wrong = fmt.Sprintf("exit code %d", out.ExitCode)
		return nil
	}
	empty, err := r.v.emptyDir("checker-")
	defer os.RemoveAll(empty)
	if err != nil {
		return err
	}
	own := &run{v: r.v, walls: r.walls, dir: empty, changes: []jail.Change{
		{Path: "input", Data: []byte(c.Stdin)}, {Path: "expected", Data: []byte(*c.Expect.Stdout)}, {Path: "output", Data: []byte(out.Stdout)},
	}}
	argv, files := r.v.config.checkerCommand()
	spec := own.spec(append(argv, "input", "expected", "output"), r.v.config.Timeout)
	spec.ReadOnly = append(spec.ReadOnly, files...)
	result, err := r.walls.Run(ctx, spec)
	switch {
	case err != nil:
		return err
	case result.End != jail.EndExit || cannotStart(result):
		e.unfit = "the checker ended by " + string(result.End)
		if c.Public {
			e.unfit += ": " + tail(result)
		}
	case result.ExitCode != 0:
		e.wrong = "wrong output: " + tail(result)
	}
	return nil
}

// checkerCommand returns the checker with absolute paths for the files of the policy's folder that it
// names, and a list of these.
func (c *Config) checkerCommand() (argv, files []string) {
	for i, word := range c.Checker {
		path, err := filepath.Abs(word)
		if err == nil && i > 0 {
			_, err = os.Stat(path)
		}
		if err == nil && strings.Contains(word, "/") {
			word, files = path, append(files, path)
		}
		argv = append(argv, word)
	}
	return argv, files
}

func tail(result *jail.Result) string {
	return last(strings.TrimSpace(string(result.Stdout) + "\n" + string(result.Stderr)))
}

func last(text string) string {
	const enough = 1 << 10
	if len(text) <= enough {
		return text
	}
	return "... " + strings.ToValidUTF8(text[len(text)-enough:], "")
}
