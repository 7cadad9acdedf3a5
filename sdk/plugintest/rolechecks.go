package plugintest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/stepfall/stepfall/sdk/plugin/process"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

func roleChecks(role wire.Role) []check {
	checks := []check{
		{"unconfigured", startProcess, checkUnconfigured},
		{"unknown-argument", startNothing, checkRefusal("no argument is known", func(f *schema.Field) (any, bool) { return true, f.Type == "" })},
		{"missing-argument", startNothing, checkRefusal("no argument is required", func(f *schema.Field) (any, bool) { return nil, f.Required })},
		{"wrong-type", startNothing, checkRefusal("no argument has a type", valueOfWrongType)},
		{"bounds", startNothing, checkRefusal("no number and no duration has bounds", valueOutOfBounds)},
		{"configure-twice", startConfigured, checkConfigureTwice},
		{"answers", startConfigured, checkAnswers},
		{"odd-input", startConfigured, checkOddInput},
		{"large-input", startConfigured, checkLargeInput},
		{"concurrency", startConfigured, checkConcurrency},
		{"cancellation", startConfigured, checkCancellation},
		{"deadline", startConfigured, checkDeadline},
		{"stop-while-busy", startConfigured, checkStopWhileBusy},
	}
	if role != wire.Verifier {
		checks = append(checks, check{"same-query-again", startConfigured, checkSameQuery})
	}
	return checks
}

// checkUnconfigured: a call before Configure fails with FAILED_PRECONDITION.
func checkUnconfigured(ctx context.Context, t *trial) error {
	return wantStatus(t.ask(ctx, plainSample(0)), codes.FailedPrecondition, "called before it is configured")
}

func (t *trial) checkRefused(ctx context.Context, config map[string]any, path ...string) error {
	p, err := process.Start(ctx, t.spec())
	if err != nil {
		return err
	}
	defer p.Stop()
	ds, err := t.configure(ctx, p, t.role, config)
	if err != nil {
		return fmt.Errorf("a bad config must return diagnostics, not a status: %w", err)
	}
	if !ds.HasErrors() {
		return fmt.Errorf("it accepts a config with an error at %s", strings.Join(path, "."))
	}
	for _, d := range ds {
		if d.Severity == schema.Error && slices.Equal(d.Path, path) {
			if d.Summary == "" {
				return errors.New("the diagnostic is empty")
			}
			return wantStatus(call(ctx, p.Client(), t.role.Role, []sample{plainSample(0)}), codes.FailedPrecondition, "called after its config was rejected")
		}
	}
	return fmt.Errorf("no diagnostic has the path %s: %w", strings.Join(path, "."), ds)
}

// checkRefusal: a config with an invalid argument is rejected, with an error at its path. fault
// returns an invalid value of a field, or nil to leave it out; the field without a type is unknown
// to the plugin. none is the message for a role to which the check does not apply.
func checkRefusal(none string, fault func(*schema.Field) (value any, ok bool)) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		const enough = 2 // each takes a process
		tried := 0
		for _, f := range append(slices.Clone(t.role.Config.Fields), schema.Field{Name: "surely_unknown"}) {
			value, ok := fault(&f)
			if !ok || tried == enough {
				continue
			}
			tried++
			config, err := t.config(t.role)
			if err != nil {
				return err
			}
			if config[f.Name] = value; value == nil {
				delete(config, f.Name)
			}
			if err := t.checkRefused(ctx, config, f.Name); err != nil {
				return err
			}
		}
		if tried == 0 {
			return skipf("%s", none)
		}
		return nil
	}
}

func valueOfWrongType(f *schema.Field) (any, bool) {
	kind, _, _ := strings.Cut(f.Type, "(")
	if kind == "map" || kind == "object" {
		return "surely wrong", true
	}
	return map[string]any{"surely": "wrong"}, kind != "any" && kind != ""
}

func valueOutOfBounds(f *schema.Field) (any, bool) {
	var n float64
	switch {
	case f.Max != nil:
		n = *f.Max + beyond(*f.Max)
	case f.Min != nil:
		n = *f.Min - beyond(*f.Min)
	default:
		return nil, false
	}
	if f.Type == "duration" { // its bounds are in seconds
		return strconv.FormatFloat(n, 'f', -1, 64) + "s", true
	}
	return n, f.Type == "number" || f.Type == "integer"
}

// beyond returns how far outside a bound a number is tried. 1 beyond 2^53 would be the same number.
func beyond(bound float64) float64 { return max(1, math.Ceil(math.Abs(bound)/1000)) }

// checkConfigureTwice: a second Configure fails with FAILED_PRECONDITION.
func checkConfigureTwice(ctx context.Context, t *trial) error {
	config, err := t.config(t.role)
	if err != nil {
		return err
	}
	_, err = t.configure(ctx, t.p, t.role, config)
	return wantStatus(err, codes.FailedPrecondition, "configured twice")
}

// checkAnswers: simple calls get well-formed answers.
func checkAnswers(ctx context.Context, t *trial) error {
	for n := range 3 {
		if err := t.ask(ctx, plainSample(n)); err != nil {
			return err
		}
	}
	return nil
}

// checkOddInput: unusual queries can fail, but break neither the protocol nor the process.
func checkOddInput(ctx context.Context, t *trial) error {
	for _, s := range oddSamples() {
		err := t.ask(ctx, s)
		if isDefect(err) {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if exit := t.p.Exit(); exit != "" {
			return fmt.Errorf("%s: it ended with %s", s.what, exit)
		}
	}
	return t.ask(ctx, plainSample(1))
}

// checkLargeInput: a request of 20 MiB, far above gRPC's default limit, is handled.
func checkLargeInput(ctx context.Context, t *trial) error {
	s := plainSample(0)
	s.query.Messages[0].Parts[0].Text = strings.Repeat("long ", 4<<20)
	if err := t.ask(ctx, s); isDefect(err) {
		return fmt.Errorf("a request of 20 MiB: %w", err)
	}
	return nil
}

// checkConcurrency: concurrent calls each get their own answers.
func checkConcurrency(ctx context.Context, t *trial) error {
	parallel := 16
	if t.info.MaxConcurrency > 0 {
		parallel = min(parallel, t.info.MaxConcurrency)
	}
	errs := make([]error, parallel)
	var wg sync.WaitGroup
	for n := range parallel {
		wg.Go(func() {
			for k := range 4 {
				if err := t.ask(ctx, plainSample(n+k)); err != nil {
					errs[n] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// checkCancellation: after a call was cancelled, the plugin is healthy within a second and answers.
func checkCancellation(ctx context.Context, t *trial) error {
	calls := max(1, t.info.MaxConcurrency)
	for range calls {
		callCtx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(20*time.Millisecond, cancel)
		_ = call(callCtx, t.p.Client(), t.role.Role, plainSamples(64)) // it may finish before
		timer.Stop()
		cancel()
	}
	healthCtx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := t.p.Client().Healthy(healthCtx); err != nil {
		return fmt.Errorf("a second after a canceled call it is not healthy: %w", err)
	}
	return t.ask(ctx, plainSample(0))
}

// checkDeadline: a call with a deadline of 1 ms returns within a second.
func checkDeadline(ctx context.Context, t *trial) error {
	begun := time.Now()
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_ = call(short, t.p.Client(), t.role.Role, plainSamples(64))
	if took := time.Since(begun); took > time.Second {
		return fmt.Errorf("a call with a deadline of 1 ms took %v", took)
	}
	return t.ask(ctx, plainSample(0))
}

// checkStopWhileBusy: a call in flight does not keep the plugin from exiting.
func checkStopWhileBusy(ctx context.Context, t *trial) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = call(ctx, t.p.Client(), t.role.Role, plainSamples(64)) // returns when the process ends at the latest
	}()
	begun := time.Now()
	t.p.Stop()
	<-done
	if took := time.Since(begun); took > 2*time.Second {
		return fmt.Errorf("it took %v to end while it was busy", took.Round(time.Millisecond))
	}
	return nil
}

// checkSameQuery: a repeated long query gets the same estimates, immediately and after 300 others.
func checkSameQuery(ctx context.Context, t *trial) error {
	ctx, cancel := context.WithTimeout(ctx, t.CallTimeout)
	defer cancel()
	long := func(n int) sample {
		s := plainSample(n)
		s.query.Messages[0].Parts[0].Text += strings.Repeat(" Think of it again.", 300)
		return s
	}
	first, err := estimate(ctx, t.p.Client(), t.role.Role, long(0))
	if err != nil {
		return err
	}
	second, err := estimate(ctx, t.p.Client(), t.role.Role, long(0))
	if err != nil {
		return err
	}
	if !sameEstimates(first, second) {
		return skipf("the plugin does not answer alike")
	}
	for n := range 300 {
		if _, err := estimate(ctx, t.p.Client(), t.role.Role, long(n+1)); err != nil {
			return fmt.Errorf("query %d: %w", n, err)
		}
	}
	again, err := estimate(ctx, t.p.Client(), t.role.Role, long(0))
	if err != nil {
		return err
	}
	if !sameEstimates(first, again) {
		return fmt.Errorf("the same query gave %v, and later %v", first, again)
	}
	return nil
}
