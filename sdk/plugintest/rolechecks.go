package plugintest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

type roleCheck struct {
	name  string
	check func(ctx context.Context, r *run, role wire.RoleInfo) error
}

// roleChecks are run for each role of the plugin.
func roleChecks(role wire.Role) []roleCheck {
	checks := []roleCheck{
		{"unconfigured", checkUnconfigured},
		{"unknown-argument", checkUnknownArgument},
		{"missing-argument", checkMissingArgument},
		{"wrong-type", checkWrongType},
		{"bounds", checkBounds},
		{"configure-twice", checkConfigureTwice},
		{"answers", checkAnswers},
		{"odd-input", checkOddInput},
		{"large-input", checkLargeInput},
		{"concurrency", checkConcurrency},
		{"cancellation", checkCancellation},
		{"deadline", checkDeadline},
		{"stop-while-busy", checkStopWhileBusy},
	}
	if role != wire.Verifier {
		checks = append(checks,
			roleCheck{"same-query-again", checkSameQuery},
		)
	}
	return checks
}

// checkUnconfigured: a call before Configure fails with FAILED_PRECONDITION.
func checkUnconfigured(ctx context.Context, r *run, role wire.RoleInfo) error {
	p, stop, err := r.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, r.CallTimeout)
	defer cancel()
	return wantStatus(call(ctx, p.Client(), role.Role, []sample{plain(0)}), codes.FailedPrecondition, "called before it is configured")
}

// refuses checks that a config is refused with a diagnostic at the path.
func (r *run) refuses(ctx context.Context, role wire.RoleInfo, config map[string]any, path ...string) error {
	p, stop, err := r.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	ds, err := r.configure(ctx, p, role, config)
	if err != nil {
		return fmt.Errorf("a bad config must give diagnostics, not a status: %w", err)
	}
	if !ds.HasErrors() {
		return fmt.Errorf("it accepts a config with a fault at %s", strings.Join(path, "."))
	}
	for _, d := range ds {
		if d.Severity == schema.Error && slices.Equal(d.Path, path) {
			if d.Summary == "" {
				return errors.New("the diagnostic says nothing")
			}
			return wantStatus(call(ctx, p.Client(), role.Role, []sample{plain(0)}), codes.FailedPrecondition, "called after its config was refused")
		}
	}
	return fmt.Errorf("no diagnostic has the path %s: %w", strings.Join(path, "."), ds)
}

// with returns a working config with one argument set, or removed by nil.
func (r *run) with(role wire.RoleInfo, name string, value any) (map[string]any, error) {
	config, err := r.config(role)
	if err != nil {
		return nil, err
	}
	if value == nil {
		delete(config, name)
	} else {
		config[name] = value
	}
	return config, nil
}

// checkUnknownArgument: a misspelt argument is an error at its path.
func checkUnknownArgument(ctx context.Context, r *run, role wire.RoleInfo) error {
	const name = "surely_unknown"
	config, err := r.with(role, name, true)
	if err != nil {
		return err
	}
	return r.refuses(ctx, role, config, name)
}

// checkMissingArgument: so is a required one that is missing.
func checkMissingArgument(ctx context.Context, r *run, role wire.RoleInfo) error {
	checked := false
	for _, f := range role.Config.Fields {
		if !f.Required {
			continue
		}
		checked = true
		config, err := r.with(role, f.Name, nil)
		if err != nil {
			return err
		}
		if err := r.refuses(ctx, role, config, f.Name); err != nil {
			return err
		}
	}
	if !checked {
		return skipf("no argument is required")
	}
	return nil
}

// checkWrongType: so is a value of another type.
func checkWrongType(ctx context.Context, r *run, role wire.RoleInfo) error {
	for _, f := range role.Config.Fields {
		var wrong any = map[string]any{"surely": "wrong"}
		if kind, _, _ := strings.Cut(f.Type, "("); kind == "map" || kind == "object" {
			wrong = "surely wrong"
		} else if kind == "any" {
			continue
		}
		config, err := r.with(role, f.Name, wrong)
		if err != nil {
			return err
		}
		return r.refuses(ctx, role, config, f.Name)
	}
	return skipf("no argument has a type")
}

// checkBounds: so is a number out of its bounds.
func checkBounds(ctx context.Context, r *run, role wire.RoleInfo) error {
	for _, f := range role.Config.Fields {
		if f.Type != "number" && f.Type != "integer" || f.Min == nil && f.Max == nil {
			continue
		}
		value := 0.0
		if f.Min != nil {
			value = *f.Min - 1
		} else {
			value = *f.Max + 1
		}
		config, err := r.with(role, f.Name, value)
		if err != nil {
			return err
		}
		return r.refuses(ctx, role, config, f.Name)
	}
	return skipf("no number has bounds")
}

// checkConfigureTwice: a process serves one config.
func checkConfigureTwice(ctx context.Context, r *run, role wire.RoleInfo) error {
	p, stop, err := r.configured(ctx, role)
	if err != nil {
		return err
	}
	defer stop()
	config, err := r.config(role)
	if err != nil {
		return err
	}
	_, err = r.configure(ctx, p, role, config)
	return wantStatus(err, codes.FailedPrecondition, "configured twice")
}

// checkAnswers: the simplest call gives a well-formed answer, and again.
func checkAnswers(ctx context.Context, r *run, role wire.RoleInfo) error {
	p, stop, err := r.configured(ctx, role)
	if err != nil {
		return err
	}
	defer stop()
	for n := range 3 {
		if err := r.ask(ctx, p.Client(), role.Role, plain(n)); err != nil {
			return err
		}
	}
	return nil
}

// checkOddInput: unusual queries may fail one by one, but nothing breaks.
func checkOddInput(ctx context.Context, r *run, role wire.RoleInfo) error {
	p, stop, err := r.configured(ctx, role)
	if err != nil {
		return err
	}
	defer stop()
	for _, s := range oddities() {
		err := r.ask(ctx, p.Client(), role.Role, s)
		if broken(err) {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if exit := p.Exit(); exit != "" {
			return fmt.Errorf("%s: it ended with %s", s.what, exit)
		}
	}
	return r.ask(ctx, p.Client(), role.Role, plain(1))
}

// checkLargeInput: 20 MiB in one call, far over gRPC's usual limit.
func checkLargeInput(ctx context.Context, r *run, role wire.RoleInfo) error {
	p, stop, err := r.configured(ctx, role)
	if err != nil {
		return err
	}
	defer stop()
	s := plain(0)
	s.query.Messages[0].Parts[0].Text = strings.Repeat("long ", 4<<20)
	if err := r.ask(ctx, p.Client(), role.Role, s); broken(err) {
		return fmt.Errorf("a request of 20 MiB: %w", err)
	}
	return nil
}

// checkConcurrency: calls at the same time all get their own answers.
func checkConcurrency(ctx context.Context, r *run, role wire.RoleInfo) error {
	p, stop, err := r.configured(ctx, role)
	if err != nil {
		return err
	}
	defer stop()
	parallel := 16
	if r.info.MaxConcurrency > 0 {
		parallel = min(parallel, r.info.MaxConcurrency)
	}
	errs := make([]error, parallel)
	var wg sync.WaitGroup
	for n := range parallel {
		wg.Go(func() {
			for k := range 4 {
				if err := r.ask(ctx, p.Client(), role.Role, plain(n+k)); err != nil {
					errs[n] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// checkCancellation: a call that its caller gives up does not keep the plugin
// from answering the next one within a second.
func checkCancellation(ctx context.Context, r *run, role wire.RoleInfo) error {
	p, stop, err := r.configured(ctx, role)
	if err != nil {
		return err
	}
	defer stop()
	calls := max(1, r.info.MaxConcurrency)
	for range calls {
		callCtx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(20*time.Millisecond, cancel)
		_ = call(callCtx, p.Client(), role.Role, many(64)) // it may be done before
		timer.Stop()
		cancel()
	}
	healthCtx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := p.Client().Healthy(healthCtx); err != nil {
		return fmt.Errorf("a second after a call was given up it is not healthy: %w", err)
	}
	return r.ask(ctx, p.Client(), role.Role, plain(0))
}

// checkDeadline: a deadline that has all but passed is met or reported, not ignored.
func checkDeadline(ctx context.Context, r *run, role wire.RoleInfo) error {
	p, stop, err := r.configured(ctx, role)
	if err != nil {
		return err
	}
	defer stop()
	begun := time.Now()
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_ = call(short, p.Client(), role.Role, many(64))
	if took := time.Since(begun); took > time.Second {
		return fmt.Errorf("a call with a deadline of 1 ms took %v", took)
	}
	return r.ask(ctx, p.Client(), role.Role, plain(0))
}

// checkStopWhileBusy: a call under way does not keep it from ending.
func checkStopWhileBusy(ctx context.Context, r *run, role wire.RoleInfo) error {
	p, stop, err := r.configured(ctx, role)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = call(ctx, p.Client(), role.Role, many(64)) // it ends with the process at the latest
	}()
	begun := time.Now()
	stop()
	<-done
	if took := time.Since(begun); took > 2*time.Second {
		return fmt.Errorf("it took %v to end while it was busy", took.Round(time.Millisecond))
	}
	return nil
}

// checkSameQuery: a long query that was sent before, and is only named now, is
// answered as at first; so is one that the plugin has had time to forget.
func checkSameQuery(ctx context.Context, r *run, role wire.RoleInfo) error {
	p, stop, err := r.configured(ctx, role)
	if err != nil {
		return err
	}
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, r.CallTimeout)
	defer cancel()
	long := func(n int) sample {
		s := plain(n)
		s.query.Messages[0].Parts[0].Text += strings.Repeat(" Think of it again.", 300)
		return s
	}
	first, err := estimate(ctx, p.Client(), role.Role, long(0))
	if err != nil {
		return err
	}
	second, err := estimate(ctx, p.Client(), role.Role, long(0))
	if err != nil {
		return err
	}
	if !same(first, second) {
		return skipf("the plugin does not answer alike")
	}
	for n := range 300 {
		if _, err := estimate(ctx, p.Client(), role.Role, long(n+1)); err != nil {
			return fmt.Errorf("query %d: %w", n, err)
		}
	}
	again, err := estimate(ctx, p.Client(), role.Role, long(0))
	if err != nil {
		return err
	}
	if !same(first, again) {
		return fmt.Errorf("the same query gave %v, and later %v", first, again)
	}
	return nil
}
