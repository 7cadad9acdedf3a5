package plugintest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/process"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Options configure a conformance run.
type Options struct {
	// Path is the plugin program, Args its arguments.
	Path string
	Args []string
	// Config has a valid config for each role with required arguments.
	Config map[wire.Role]map[string]any
	// Env is the environment of the plugin; nil means PATH and HOME.
	Env []string
	// Log receives the plugin's log, and a warning if child processes that leave the plugin's process
	// group cannot be stopped; nil discards both.
	Log hclog.Logger
	// Models answers model calls; nil means a model that always answers "yes".
	Models wire.ModelCaller
	// CallTimeout limits each single call; 0 means 20 s.
	CallTimeout time.Duration
	// Progress, if not nil, is called with each result when its check is done.
	Progress func(Result)
}

// underTest is an environment variable that is set in a program under test.
const underTest = "STEPFALL_PLUGIN_UNDER_TEST"

// Main is for the TestMain of a plugin whose test binary doubles as the plugin: it
// runs program if the conformance kit started the binary, and the tests otherwise.
// It calls [jail.Main] first, and does not return.
//
//	func TestMain(m *testing.M) { plugintest.Main(m, main) }
func Main(m *testing.M, program func()) {
	jail.Main()
	if os.Getenv(underTest) != "" {
		program()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// errRecursion is returned by Run inside a program under test: a test binary that runs its tests when
// it is started as a plugin would start itself endlessly.
var errRecursion = errors.New("the program under test runs the conformance kit itself: let its TestMain call plugintest.Main")

type run struct {
	Options
	tempDir string
	jail    *jail.Jail // nil if unavailable: children that leave the plugin's process group then outlive it
	info    *wire.Info
	report  *Report
}

// check is one conformance check.
type check struct {
	name  string
	needs start
	run   func(ctx context.Context, t *trial) error
}

// start is the state of the process that a check needs.
type start int

const (
	startNothing start = iota
	startProcess
	startConfigured // for the check's role
)

// trial is one check in progress. p is stopped after it.
type trial struct {
	*run
	role wire.RoleInfo // zero for process checks
	p    *process.Process
}

// errSkip is the error of a check that does not apply.
type errSkip struct{ why string }

func (e *errSkip) Error() string { return e.why }

func skipf(format string, args ...any) error { return &errSkip{fmt.Sprintf(format, args...)} }

// Run checks the plugin program and returns a report. It fails only if the checks cannot be run;
// defects of the plugin are in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if os.Getenv(underTest) != "" {
		return nil, errRecursion
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	o.Path = path
	if o.Env == nil {
		o.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	}
	// A program built with the race detector sleeps for a second on exit by default.
	o.Env = append(slices.Clip(o.Env), underTest+"=1", "GORACE=atexit_sleep_ms=0")
	o.CallTimeout = cmp.Or(o.CallTimeout, 20*time.Second)
	if o.Models == nil {
		o.Models = wire.ModelCallerFunc(func(context.Context, string, *sdk.Query) (*sdk.Answer, error) {
			return &sdk.Answer{Text: "yes"}, nil
		})
	}
	r := &run{Options: o, report: &Report{Plugin: filepath.Base(path)}}
	if r.tempDir, err = os.MkdirTemp("", "sfc"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(r.tempDir)
	if r.jail, err = jail.Open(ctx, jail.Options{}); err != nil && o.Log != nil {
		o.Log.Warn("plugin's children that leave its process group outlive it", "reason", err)
	}
	for _, c := range processChecks() {
		r.runCheck(ctx, c.name, c, wire.RoleInfo{})
		if r.info == nil && c.name == "info" {
			return r.report, nil // all other checks need it
		}
	}
	for _, role := range r.info.Roles {
		for _, c := range roleChecks(role.Role) {
			r.runCheck(ctx, string(role.Role)+"/"+c.name, c, role)
		}
	}
	return r.report, ctx.Err()
}

// runCheck runs one check with a timeout, and turns a panic into a failure.
func (r *run) runCheck(ctx context.Context, name string, c check, role wire.RoleInfo) {
	if ctx.Err() != nil {
		return
	}
	const longest = time.Minute
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	begun := time.Now()
	err := func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("the check panicked: %v\n%s", v, debug.Stack())
			}
		}()
		return r.startAndRun(ctx, c, role)
	}()
	result := Result{Name: name, Status: Passed, Duration: time.Since(begun)}
	var skip *errSkip
	switch {
	case errors.As(err, &skip):
		result.Status, result.Message = Skipped, skip.why
	case err != nil:
		result.Status, result.Message = Failed, err.Error()
	}
	r.report.Results = append(r.report.Results, result)
	if r.Progress != nil {
		r.Progress(result)
	}
}

// Test checks the plugin program in a Go test, one subtest for each check.
func Test(t *testing.T, o Options) {
	t.Helper()
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range report.Results {
		t.Run(result.Name, func(t *testing.T) {
			switch result.Status {
			case Failed:
				t.Error(result.Message)
			case Skipped:
				t.Skip(result.Message)
			}
		})
	}
}

func (r *run) spec() process.Spec {
	var secrets []string
	if r.info != nil {
		for _, role := range r.info.Roles {
			secrets = append(secrets, role.Config.Sensitive(r.Config[role.Role])...)
		}
	}
	return process.Spec{
		Redact: secrets,
		Path:   r.Path, Args: r.Args, Env: r.Env, TempDir: r.tempDir, Log: r.Log,
		Jail: r.jail, Confinement: &jail.Confinement{},
		// Generous, since this does not test speed.
		StartTimeout: 20 * time.Second, StopGrace: 5 * time.Second,
	}
}

func (r *run) startAndRun(ctx context.Context, c check, role wire.RoleInfo) (err error) {
	t := &trial{run: r, role: role}
	if c.needs == startNothing {
		return c.run(ctx, t)
	}
	if t.p, err = process.Start(ctx, r.spec()); err != nil {
		return err
	}
	defer func() {
		t.p.Stop()
		var skip *errSkip
		if lines := t.p.LastLines(); err != nil && len(lines) > 0 && !errors.As(err, &skip) {
			err = fmt.Errorf("%w; its output:\n  %s", err, strings.Join(lines, "\n  "))
		}
	}()
	if c.needs == startConfigured {
		if err := t.prepare(ctx); err != nil {
			return err
		}
	}
	return c.run(ctx, t)
}

// prepare serves the process's model calls, and configures it.
func (t *trial) prepare(ctx context.Context) error {
	config, err := t.config(t.role)
	if err != nil {
		return err
	}
	if t.info.Has(wire.FeatureModelCalls) {
		if err := checkConnect(ctx, t); err != nil {
			return err
		}
	}
	ds, err := t.configure(ctx, t.p, t.role, config)
	if err == nil && ds.HasErrors() {
		err = fmt.Errorf("a valid config is rejected: %w", ds)
	}
	return err
}

func (r *run) configure(ctx context.Context, p *process.Process, role wire.RoleInfo, config map[string]any) (schema.Diagnostics, error) {
	ctx, cancel := context.WithTimeout(ctx, r.CallTimeout)
	defer cancel()
	scratch, err := os.MkdirTemp(r.tempDir, "scratch")
	if err != nil {
		return nil, err
	}
	return p.Client().Configure(ctx, &wire.ConfigureRequest{Instance: "conformance", Role: role.Role, Config: config, ScratchDir: scratch})
}

func (r *run) config(role wire.RoleInfo) (map[string]any, error) {
	if config, ok := r.Config[role.Role]; ok {
		return schema.Normalize(config)
	}
	for _, f := range role.Config.Fields {
		if f.Required {
			return nil, skipf("the role needs a config (%s is required): give one by Options.Config or --config", f.Name)
		}
	}
	return map[string]any{}, nil
}

// Status is the result of one check.
type Status string

// The results.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Result is the result of one check of one role.
type Result struct {
	// Name is the name of the check, such as "verifier/order".
	Name   string
	Status Status
	// Message is the reason why the check failed or was skipped.
	Message  string
	Duration time.Duration
}

// Report has the results of a run.
type Report struct {
	Plugin  string
	Version string
	Results []Result
}

// OK reports whether no check failed.
func (r *Report) OK() bool { return r.Count(Failed) == 0 }

// Count returns the number of checks with the status s.
func (r *Report) Count(s Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == s {
			n++
		}
	}
	return n
}
