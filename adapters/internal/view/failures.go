package view

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// failures holds errors and latencies by model and by kind of step.
type failures struct {
	Steps           int
	Models          []modelFailures
	Kinds           []kindFailures
	Latency         *chart
	Errors, Refused int
}

type modelFailures struct {
	Model                   string
	Calls, Errors, Rejected int
	P50, P95                time.Duration
	// Cause is the most frequent error.
	Cause string

	took   []time.Duration
	causes []string
}

// kindFailures covers the steps of one group or, where steps have no group, those with or without tools.
type kindFailures struct {
	Kind                     string
	Steps, Refused, NoAnswer int
	P50, P95                 time.Duration

	took []time.Duration
}

// failuresOf summarizes traces, which are sorted oldest first; nil if there are none.
func failuresOf(traces []*sdk.Trace) *failures {
	if len(traces) == 0 {
		return nil
	}
	f := &failures{Steps: len(traces), Latency: latencyChart(traces)}
	var models map[string]*modelFailures
	var kinds map[string]*kindFailures
	for _, t := range traces {
		lookup.Entry(&kinds, kindOf(t)).add(t)
		for i := range t.Calls {
			if c := &t.Calls[i]; middleware.IsSent(c) {
				lookup.Entry(&models, c.Model).add(c)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		m := models[name]
		m.Model, m.Cause = name, mostFrequent(m.causes)
		m.P50, m.P95 = percentiles(m.took)
		f.Errors += m.Errors
		f.Models = append(f.Models, *m)
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[name]
		k.Kind = name
		k.P50, k.P95 = percentiles(k.took)
		f.Refused += k.Refused
		f.Kinds = append(f.Kinds, *k)
	}
	return f
}

func (k *kindFailures) add(t *sdk.Trace) {
	k.Steps++
	k.took = append(k.took, t.Duration)
	switch {
	case t.Chosen == "" && t.Stop == sdk.StopBudget:
		k.Refused++
	case t.Chosen == "" && t.Mode != sdk.ModeEmbeddings:
		k.NoAnswer++
	}
}

func (m *modelFailures) add(c *sdk.Call) {
	m.Calls++
	switch {
	case c.Failed():
		m.Errors++
		m.causes = append(m.causes, firstBytes(c.Error, 120))
	case c.Error == "":
		m.took = append(m.took, c.Latency)
		if c.Verdict != nil && c.Verdict.Outcome == sdk.Failed {
			m.Rejected++
		}
	}
}

func kindOf(t *sdk.Trace) string {
	switch {
	case t.Group != "":
		return t.Group
	case t.Mode == sdk.ModeEmbeddings:
		return "embeddings"
	case len(t.Tools) > 0:
		return "with tools"
	}
	return "without tools"
}

func mostFrequent(list []string) string {
	counts := map[string]int{}
	for _, text := range list {
		counts[text]++
	}
	if len(counts) == 0 {
		return ""
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(counts)), func(a, b string) int { return cmp.Compare(counts[a], counts[b]) })
}

func percentiles(took []time.Duration) (p50, p95 time.Duration) {
	if len(took) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[(len(sorted)-1)/2], sorted[(len(sorted)-1)*95/100]
}

// latencyChart draws percentiles of step durations over equal numbers of steps; nil if there are too few or they span
// less than a second.
func latencyChart(traces []*sdk.Trace) *chart {
	const most, least = 24, 10
	parts := min(most, len(traces)/least)
	if parts < 2 || traces[len(traces)-1].Start.Sub(traces[0].Start) < time.Second {
		return nil
	}
	c := &chart{ID: "latency", Title: "Time of steps", X: "time", Y: "seconds", Time: true, Note: "Each point is the median, and the 95th percentile, of an equal number of steps."}
	half, most95 := series{Name: "half of the steps", Kind: "line"}, series{Name: "95 of 100", Kind: "line"}
	for k := range parts {
		part := traces[k*len(traces)/parts : (k+1)*len(traces)/parts]
		took := make([]time.Duration, len(part))
		for i, t := range part {
			took[i] = t.Duration
		}
		p50, p95 := percentiles(took)
		at := part[len(part)/2].Start
		x := float64(at.UnixMilli()) / 1000
		half.Points = append(half.Points, point{X: x, Y: p50.Seconds(), XText: clock(at), YText: duration(p50)})
		most95.Points = append(most95.Points, point{X: x, Y: p95.Seconds(), XText: clock(at), YText: duration(p95)})
	}
	c.Series = []series{half, most95}
	return c
}
