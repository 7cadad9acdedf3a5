package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// reportedVerdict is a verdict on a run from the command line or standard input.
type reportedVerdict struct {
	where string // input line, for errors
	trace *sdk.Trace
}

// verdictTrace returns the trace of a verdict such as "failed: the wrong item".
func (f *traceFlags) verdictTrace(run, text string) (*sdk.Trace, error) {
	ending, evidence, _ := strings.Cut(text, ":")
	v := &sdk.Verdict{Evidence: strings.TrimSpace(evidence)}
	if err := v.Outcome.UnmarshalText([]byte(strings.TrimSpace(ending))); err != nil {
		return nil, fmt.Errorf("%w: want passed, failed or inconclusive", err)
	}
	return step.VerdictTrace(run, f.Tenant, v)
}

// readVerdicts reads lines of a run and a verdict. It returns one fault per invalid line.
func (f *traceFlags) readVerdicts(s Streams) (list []reportedVerdict, faults []error, err error) {
	lines := bufio.NewScanner(s.In)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		run, text, hasTab := strings.Cut(line, "\t")
		if !hasTab {
			run, text, _ = strings.Cut(line, " ")
		}
		where := fmt.Sprintf("line %d: ", n)
		t, err := f.verdictTrace(strings.TrimSpace(run), text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s%s: %w", where, say.Plain(line), err))
			continue
		}
		list = append(list, reportedVerdict{where, t})
	}
	return list, faults, lines.Err()
}

// givenVerdicts returns the verdict of --verdict, or those on standard input with the faults of its lines.
func (f *traceFlags) givenVerdicts(s Streams) (list []reportedVerdict, faults []error, err error) {
	if f.verdict == "-" {
		if list, faults, err = f.readVerdicts(s); err != nil {
			return nil, nil, fmt.Errorf("reading verdicts: %w", err)
		}
		return list, faults, nil
	}
	t, err := f.verdictTrace(f.Run, f.verdict)
	if err != nil {
		return nil, nil, usage("--verdict: %v", err)
	}
	return []reportedVerdict{{"", t}}, nil, nil
}

// recordVerdicts records verdicts on runs. Invalid ones are reported as an error after the others are recorded.
func (f *traceFlags) recordVerdicts(ctx context.Context, s Streams) error {
	if f.file == "-" {
		return usage("--verdict needs a file or a store, not --file -")
	}
	list, faults, err := f.givenVerdicts(s)
	if err != nil {
		return err
	}
	recorded, ambiguous, err := f.addVerdicts(ctx, s, list)
	if err != nil {
		return err
	}
	faults = append(faults, ambiguous...)
	if len(recorded) > 0 {
		var value any = recorded
		if f.verdict != "-" {
			value = recorded[0]
		}
		err = s.render(value, func(p *printer) {
			if len(recorded) == 1 {
				p.f("run %s %s: recorded in %s\n", recorded[0].Run, recorded[0].Verdict.Outcome, f.file)
				return
			}
			p.f("%s recorded in %s\n", count(len(recorded), "verdict"), f.file)
		})
	}
	if len(faults) > 0 && len(list) > 1 {
		faults = append(faults, fmt.Errorf("%s not recorded: correct these lines and send only them", count(len(faults), "line")))
	}
	return errors.Join(append([]error{err}, faults...)...)
}

// addVerdicts records and returns the verdicts, except those on a run name that several tenants use. It prints a note
// for a run without a step, whose verdict counts once there is one.
func (f *traceFlags) addVerdicts(ctx context.Context, s Streams, list []reportedVerdict) (recorded []*sdk.Trace, ambiguous []error, err error) {
	src, err := openTraces(ctx, s, f.file)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	tenants := map[string][]string{} // tenants by run name
	if err = view.EachTrace(ctx, src.Traces, f.Filter, func(t *sdk.Trace) {
		if sdk.IsStep(t.Mode) && !slices.Contains(tenants[t.Run], t.Tenant) {
			tenants[t.Run] = append(tenants[t.Run], t.Tenant)
		}
	}); err != nil {
		return nil, nil, err
	}
	for _, v := range list {
		switch of := tenants[v.trace.Run]; len(of) {
		case 0:
			fmt.Fprintf(s.Err, "%sno step of run %s in %s yet: the verdict counts once there is one\n", v.where, say.Plain(v.trace.Run), say.Plain(f.file))
			recorded = append(recorded, v.trace)
		case 1:
			v.trace.Tenant = of[0]
			recorded = append(recorded, v.trace)
		default:
			ambiguous = append(ambiguous, fmt.Errorf("%s%d tenants have a run %s: name one with --tenant", v.where, len(of), say.Plain(v.trace.Run)))
		}
	}
	if len(recorded) == 0 {
		return nil, ambiguous, nil
	}
	if shared, isStore := src.Traces.(*store.Shared); isStore {
		recordAll(ctx, shared.Record, recorded)
		return recorded, ambiguous, nil
	}
	lines, err := step.OpenJSONLines(f.file, 0, 0)
	if err != nil {
		return nil, nil, err
	}
	recordAll(ctx, lines.Record, recorded)
	return recorded, ambiguous, lines.Close()
}

func recordAll(ctx context.Context, record step.Sink, traces []*sdk.Trace) {
	for _, t := range traces {
		step.Redact(record, nil)(ctx, t)
	}
}
