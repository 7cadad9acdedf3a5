package view

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

type runsPage struct {
	frame
	Runs   []store.Sum
	Limit  int
	Tenant string
}

func (v *viewer) runs(ctx context.Context, q url.Values) (*runsPage, error) {
	const limit = 200
	tenant := q.Get("tenant")
	list, err := v.o.Traces.Runs(ctx, store.Filter{Tenant: tenant, Limit: limit})
	return &runsPage{frame: v.frame("runs", "Runs", true), Runs: list, Limit: limit, Tenant: tenant}, err
}

type runPage struct {
	frame
	Name string
	Sum  store.Sum
	// Report is the newest verdict that was reported on the run, or nil.
	Report *sdk.Trace
	Lanes  []lane
	Order  []string
	// Until is the length of the timeline.
	Until time.Duration
	Left  int64
	High  float64
	// Cut reports that idle periods are drawn shorter than they were.
	Cut bool
}

// lane is a step on the timeline, in units of a drawing that is 1000 wide.
type lane struct {
	Step    store.Step
	N       int
	Y       float64
	X, W    float64
	Calls   []laneCall
	Summary string
}

type laneCall struct {
	Model   string
	X, W    float64
	VX, VW  float64 // the verifier, after the call
	Verdict string
	Text    string
}

const (
	mostLanes = 300
	laneHigh  = 22
)

// run makes the page of a tenant's run; without a tenant, of the newest run of that name.
func (v *viewer) run(ctx context.Context, q url.Values) (*runPage, error) {
	name, tenant := q.Get("name"), q.Get("tenant")
	sums, err := v.o.Traces.Runs(ctx, store.Filter{Run: name, Tenant: tenant, Limit: 1})
	if err != nil {
		return nil, err
	}
	if name == "" || len(sums) == 0 {
		return nil, fmt.Errorf("no run is called %q: %w", name, store.ErrNotFound)
	}
	p := &runPage{frame: v.frame("runs", "Run "+name, true), Name: name, Sum: sums[0]}
	tenant = sums[0].Tenant
	traces, err := v.sampler.newest(ctx, store.Filter{Run: name, Tenant: tenant}, mostLanes)
	if err != nil {
		return nil, err
	}
	traces = slices.DeleteFunc(traces, func(t *sdk.Trace) bool { return t.Tenant != tenant })
	if p.Report, err = v.reportOn(ctx, name, tenant); err != nil {
		return nil, err
	}
	p.Left = sums[0].Steps - int64(len(traces))
	p.Order = candidates(traces)
	if len(traces) == 0 {
		return p, nil
	}
	line := timelineOf(traces)
	p.Until, p.Cut = line.whole, line.cut
	for i, t := range traces {
		p.Lanes = append(p.Lanes, line.laneOf(t, i))
	}
	p.High = float64(len(p.Lanes) * laneHigh)
	return p, nil
}

// reportOn returns the newest verdict on a run, or nil.
func (v *viewer) reportOn(ctx context.Context, run, tenant string) (*sdk.Trace, error) {
	reports, err := v.sampler.newest(ctx, store.Filter{Run: run, Tenant: tenant, Mode: sdk.ModeVerdict}, 1)
	if len(reports) > 0 && reports[0].Tenant == tenant && reports[0].Verdict != nil {
		return reports[0], err
	}
	return nil, err
}

func (l *timeline) laneOf(t *sdk.Trace, i int) lane {
	x := l.place
	drawn := lane{Step: sqlstore.StepOf(t), N: i + 1, Y: float64(i * laneHigh), X: x(t.Start)}
	drawn.W = max(x(t.Start.Add(t.Duration))-drawn.X, 2)
	drawn.Summary = fmt.Sprintf("step %d: %s", i+1, stepText(&drawn.Step))
	at := t.Start
	for k := range t.Calls {
		c := &t.Calls[k]
		if !c.Start.IsZero() {
			at = c.Start
		}
		end := at.Add(c.Latency)
		call := laneCall{Model: c.Model, X: x(at), Text: callText(c)}
		call.W = max(x(end)-call.X, 1.5)
		at = end
		if c.Verdict != nil {
			call.Verdict = c.Verdict.Outcome.String()
			at = end.Add(c.Verdict.Duration)
			call.VX, call.VW = call.X+call.W, max(x(at)-x(end), 0)
		}
		if c.Failed() {
			call.Verdict = "error"
		}
		drawn.Calls = append(drawn.Calls, call)
	}
	return drawn
}

// timeline maps times to positions on a line 1000 wide. An idle period is drawn no longer than a fiftieth of the
// total busy time.
type timeline struct {
	spans []stretch
	whole time.Duration // total length as drawn
	cut   bool
}

type stretch struct {
	from, to time.Time
	at       time.Duration // start as drawn
}

// timelineOf returns the timeline of traces, which are sorted by their start.
func timelineOf(traces []*sdk.Trace) *timeline {
	l := &timeline{}
	busy := time.Duration(0)
	for _, t := range traces {
		end := t.Start.Add(t.Duration)
		if n := len(l.spans) - 1; n >= 0 && !t.Start.After(l.spans[n].to) {
			if end.After(l.spans[n].to) {
				l.spans[n].to = end
			}
			continue
		}
		l.spans = append(l.spans, stretch{from: t.Start, to: end})
	}
	for i := range l.spans {
		busy += l.spans[i].to.Sub(l.spans[i].from)
	}
	for i := range l.spans {
		s := &l.spans[i]
		if i > 0 {
			idle := s.from.Sub(l.spans[i-1].to)
			if most := busy / 50; idle > most {
				idle, l.cut = most, true
			}
			l.whole += idle
		}
		s.at = l.whole
		l.whole += s.to.Sub(s.from)
	}
	return l
}

func (l *timeline) place(t time.Time) float64 {
	at := time.Duration(0)
	for i := range l.spans {
		s := &l.spans[i]
		if t.Before(s.from) {
			break
		}
		at = s.at + min(t.Sub(s.from), s.to.Sub(s.from))
	}
	return 1000 * float64(at) / float64(max(l.whole, 1))
}

func callText(c *sdk.Call) string {
	text := plainText(c.Model)
	switch {
	case c.Error != "" && !c.Failed():
		text += ": cancelled"
	case c.Failed():
		text += ": no answer"
	case c.Verdict != nil:
		text += ": " + c.Verdict.Outcome.String()
	}
	return text + ", " + dollars(c.CostUSD) + ", " + duration(c.Latency)
}

func stepText(s *store.Step) string {
	who := "no answer"
	if s.Chosen != "" {
		who = "answer of " + plainText(s.Chosen)
		if s.Outcome != "" {
			who += ", " + s.Outcome
		}
	}
	return who + ", " + dollars(s.CostUSD) + ", " + duration(s.Duration)
}

// neighbours returns the steps before and after one in time, among those that the filter selects.
func (v *viewer) neighbours(ctx context.Context, t *sdk.Trace, f store.Filter) (before, after *store.Step, err error) {
	own := sqlstore.StepOf(t)
	f.Limit, f.Before, f.Until = 2, &own, t.Start.Add(1)
	list, err := v.o.Traces.Steps(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	if at := slices.IndexFunc(list, func(s store.Step) bool { return s.ID != t.ID }); at >= 0 {
		before = &list[at]
	}
	// Lists are newest first, so the next step is the last one of a span; the spans grow until one is found.
	f.Before = nil
	for _, span := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour} {
		f.Since, f.Until, f.Limit = t.Start, t.Start.Add(span), 500
		if list, err = v.o.Traces.Steps(ctx, f); err != nil {
			return nil, nil, err
		}
		at := slices.IndexFunc(list, func(s store.Step) bool { return s.ID == t.ID })
		if at > 0 {
			return before, &list[at-1], nil
		}
		if at < 0 && len(list) == 500 {
			return before, nil, nil // too many steps at the same time
		}
	}
	return before, nil, nil
}
