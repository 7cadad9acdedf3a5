package cli

import (
	"context"
	"fmt"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/policies"
)

// plan lets two policies decide on the steps of a trace file, as stepfall policy plan
// does.
func (f *viewFlags) plan(ctx context.Context, s Streams, args []string) (*view.Plan, error) {
	if len(args) != 1 || args[0] == "-" {
		return nil, usage("--policy needs one file of traces")
	}
	var all []*policies.Policy
	for _, path := range []string{f.against, f.policy} {
		p, err := (&policyFlags{}).load(s, path, policies.LoadOptions{})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	world, from, err := (&planFlags{traces: args[0], seed: 1}).world(ctx, s, all)
	if err != nil {
		return nil, err
	}
	if world.Len() == 0 {
		return nil, fmt.Errorf("%s: no steps", from)
	}
	bar := newProgress(s.Err, world.Len()*len(all), "planning")
	results := make([]*forecast.Forecast, len(all))
	for i, p := range all {
		if results[i], err = forecast.New(ctx, p, world, forecast.Options{Keep: true, Progress: bar.add}); err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.Path, err)
		}
	}
	bar.finish()
	made := &view.Plan{Old: f.against, New: f.policy, Source: "Both decide on " + from + "."}
	for i := range results[0].Traces {
		made.Pairs = append(made.Pairs, view.Pair{Old: results[0].Traces[i], New: results[1].Traces[i]})
	}
	return made, nil
}
