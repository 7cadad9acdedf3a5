package plugintest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/process"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Options say what to check and how.
type Options struct {
	// Path is the plugin program; Args follow it.
	Path string
	Args []string
	// Config has a working config for each role that needs one. Roles whose
	// arguments are all optional need none.
	Config map[wire.Role]map[string]any
	// Env is the environment of the plugin; nil means PATH and HOME.
	Env []string
	// Insecure turns mutual TLS off.
	Insecure bool
	// Log gets the plugin's log; nil discards it.
	Log hclog.Logger
	// Models answers model calls; nil means a model that always says "yes".
	Models wire.ModelCaller
	// CallTimeout is the longest single call; 0 means 20 s.
	CallTimeout time.Duration
	// Progress, when not nil, is told of every result as it comes.
	Progress func(Result)
}

// underTest is set in the environment of a program that the kit checks.
const underTest = "STEPFALL_PLUGIN_UNDER_TEST"

// Main is for the TestMain of a plugin whose test binary doubles as the plugin:
// it runs the program when the kit has started it, and the tests otherwise. It
// does not return.
//
//	func TestMain(m *testing.M) { plugintest.Main(m, main) }
func Main(m *testing.M, program func()) {
	if os.Getenv(underTest) != "" {
		program()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// errRecursion: a test binary that runs its tests when it is started as a plugin
// would start itself again and again.
var errRecursion = errors.New("the program under test runs the conformance kit itself: let its TestMain call plugintest.Main")

// run is one run of the kit.
type run struct {
	Options
	tempDir string
	info    *wire.Info
	report  *Report
}

// errSkip ends a check that does not apply.
type errSkip struct{ why string }

// Error returns why.
func (e *errSkip) Error() string { return e.why }

func skipf(format string, args ...any) error { return &errSkip{fmt.Sprintf(format, args...)} }

// Run checks the plugin program and reports. It fails only when the check itself
// cannot be done; what is wrong with the plugin is in the report.
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
	// A program that was built with the race detector sleeps a second at its end,
	// unless it is told not to.
	o.Env = append(slices.Clip(o.Env), underTest+"=1", "GORACE=atexit_sleep_ms=0")
	if o.CallTimeout == 0 {
		o.CallTimeout = 20 * time.Second
	}
	if o.Models == nil {
		o.Models = wire.ModelCallerFunc(func(context.Context, string, *sdk.Query) (*sdk.Answer, error) {
			return &sdk.Answer{Text: "yes"}, nil
		})
	}
	r := &run{Options: o, report: &Report{Path: path, Plugin: filepath.Base(path)}}
	if r.tempDir, err = os.MkdirTemp("", "sfc"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(r.tempDir)
	for _, c := range processChecks() {
		r.do(ctx, c.name, func(ctx context.Context) error { return c.check(ctx, r) })
		if r.info == nil && c.name == "info" {
			return r.report, nil // nothing else can be asked
		}
	}
	for _, role := range r.info.Roles {
		for _, c := range roleChecks(role.Role) {
			r.do(ctx, string(role.Role)+"/"+c.name, func(ctx context.Context) error { return c.check(ctx, r, role) })
		}
	}
	return r.report, ctx.Err()
}

// do runs one check with a limit, and makes a panic in it a failure.
func (r *run) do(ctx context.Context, name string, check func(context.Context) error) {
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
		return check(ctx)
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
	return process.Spec{
		Path: r.Path, Args: r.Args, Env: r.Env, TempDir: r.tempDir, Log: r.Log, Insecure: r.Insecure,
		// Generous: this is not a test of speed.
		StartTimeout: 20 * time.Second, StopGrace: 5 * time.Second,
	}
}

// start starts the plugin; stop ends it.
func (r *run) start(ctx context.Context) (p *process.Process, stop func(), err error) {
	p, err = process.Start(ctx, r.spec())
	if err != nil {
		return nil, nil, err
	}
	return p, p.Stop, nil
}

// configured starts the plugin and configures it for the role.
func (r *run) configured(ctx context.Context, role wire.RoleInfo) (p *process.Process, stop func(), err error) {
	config, err := r.config(role)
	if err != nil {
		return nil, nil, err
	}
	if p, err = process.Start(ctx, r.spec()); err != nil {
		return nil, nil, err
	}
	modelsCtx, cancel := context.WithCancel(context.Background())
	stop = func() {
		cancel()
		p.Stop()
	}
	if r.info.Has(wire.FeatureModelCalls) {
		if _, err := p.Client().ServeModels(modelsCtx, r.Models, wire.ModelLimits{}); err != nil {
			stop()
			return nil, nil, fmt.Errorf("opening the stream for model calls: %w", err)
		}
	}
	ds, err := r.configure(ctx, p, role, config)
	if err == nil && ds.HasErrors() {
		err = fmt.Errorf("a good config is refused: %w", ds)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return p, stop, nil
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

// config returns a working config of the role.
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
