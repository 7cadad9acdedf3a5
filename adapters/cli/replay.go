package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/replay"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/step"
)

// replayFlags are the flags of stepfall replay.
type replayFlags struct {
	outcomes, train, policy string
	models, strategy        string
	signals, estimator      string
	lambda                  float64
	trainShare              float64
	seed                    uint64
	traces                  string
}

func newReplayCommand(s Streams) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay --outcomes FILE --policy FILE",
		Short: "Run the middleware and the step engine over recorded outcomes",
		Long: `Run the middleware and the step engine over recorded outcomes.

Every model of the policy (or of the table, with --strategy instead of a policy)
answers from its recorded outcomes, at its recorded cost. The estimators are fitted
to --train, or else to a random half of the table, and the other half is replayed.
The policy's caps, plugins and prices play no part: nothing is called.`,
		Example: `  stepfall replay --outcomes swebench.csv --policy policy.hcl --traces traces.jsonl
  stepfall replay --outcomes swebench.csv --strategy index --lambda 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.outcomes, "outcomes", "", "outcomes to replay")
	flags.StringVar(&f.train, "train", "", "outcomes to fit the estimators to (default: a half of --outcomes)")
	flags.StringVar(&f.policy, "policy", "", "policy with the models and the strategy")
	flags.StringVar(&f.models, "models", "", "models of the table (default: those of the policy, or all)")
	flags.StringVar(&f.strategy, "strategy", "", "strategy, without or in place of the policy's: "+strings.Join(cascade.Names(), ", "))
	flags.Float64Var(&f.lambda, "lambda", 1, "price of a US dollar in quality, with --strategy")
	flags.StringVar(&f.signals, "signals", "auto", "what is seen after a model ran: auto, verdict, features")
	flags.StringVar(&f.estimator, "estimator", "auto", "the estimate: auto or a kind (see stepfall fit --help)")
	flags.Float64Var(&f.trainShare, "train-share", 0.5, "share of --outcomes to fit to, without --train")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the split")
	flags.StringVar(&f.traces, "traces", "", "write the trace of every step to this file, as JSON lines")
	return cmd
}

func (f *replayFlags) run(ctx context.Context, s Streams) error {
	switch {
	case f.outcomes == "":
		return usage("--outcomes is needed: the table to replay")
	case f.policy == "" && f.strategy == "":
		return usage("--policy or --strategy is needed: how to decide")
	case f.train == "" && !(f.trainShare > 0 && f.trainShare < 1):
		return usage("--train-share %v: want a share between 0 and 1", f.trainShare)
	}
	h, strategy, name, err := f.load()
	if err != nil {
		return err
	}
	study := &eval.Study{Halves: h, Signals: eval.Signals(f.signals), Estimator: f.estimator, Seed: f.seed}
	if err := study.Validate(); err != nil {
		return &ExitError{Code: ExitUsage, Err: err}
	}
	h, kind, err := study.Online()
	if err != nil {
		return err
	}
	e, err := estimate.Fit(h.Train, estimate.Options{Quality: kind, Seed: f.seed})
	if err != nil {
		return err
	}
	c := replay.Config{
		Table: h.Test, Estimator: e, Strategy: strategy, StrategyName: name, Policy: f.policy, Verified: h.Test.Verified,
	}
	if f.traces != "" {
		if err := os.Remove(f.traces); err != nil && !os.IsNotExist(err) {
			return err
		}
		lines, err := step.OpenJSONLines(f.traces, 0)
		if err != nil {
			return err
		}
		defer lines.Close()
		c.Traces = lines.Record
	}
	bar := newProgress(s.Err, len(h.Test.Queries), "replaying")
	c.Progress = bar.add
	steps, err := replay.Run(ctx, c)
	bar.finish()
	if err != nil {
		return err
	}
	f.print(s, h, name, kind, steps)
	return nil
}

// load reads the table, or both, and the strategy over its models.
func (f *replayFlags) load() (*eval.Halves, cascade.Strategy, string, error) {
	table, err := outcome.Open(f.outcomes, outcome.Options{})
	if err != nil {
		return nil, nil, "", err
	}
	var policy *policies.Policy
	models := f.models
	if f.policy != "" {
		if policy, err = policies.Load(f.policy, policies.LoadOptions{}); err != nil {
			return nil, nil, "", err
		}
		if models == "" {
			names := make([]string, len(policy.Models))
			for i := range policy.Models {
				names[i] = policy.Models[i].Name
			}
			models = strings.Join(names, ",")
		}
	}
	if table, err = table.Subset(models); err != nil {
		return nil, nil, "", fmt.Errorf("%s: %w", f.outcomes, err)
	}
	train, test := table.Split(f.trainShare, f.seed)
	if f.train != "" {
		test = table
		if train, err = outcome.Open(f.train, outcome.Options{}); err != nil {
			return nil, nil, "", err
		}
		if train, err = train.Subset(strings.Join(table.Models, ",")); err != nil {
			return nil, nil, "", fmt.Errorf("%s: %w", f.train, err)
		}
	}
	h, err := eval.NewHalves(train, test, false)
	if err != nil {
		return nil, nil, "", err
	}
	strategy, name, err := f.decide(policy, h.Test.Models)
	return h, strategy, name, err
}

// decide returns the strategy of the flags or of the policy.
func (f *replayFlags) decide(policy *policies.Policy, models []string) (cascade.Strategy, string, error) {
	if f.strategy != "" {
		p := cascade.Params{Lambdas: []float64{f.lambda}, Gamma: 1, Thresholds: []float64{0.5}}
		s, err := cascade.New(f.strategy, p)
		if err != nil {
			return nil, "", &ExitError{Code: ExitUsage, Err: err}
		}
		return s, f.strategy, nil
	}
	c := &policy.Strategy
	name := c.Kind
	if c.Variant != "" && c.Variant != "exact" {
		name += "_" + c.Variant
	}
	p := cascade.Params{
		Lambdas: c.Lambda, Thresholds: c.Threshold, Gamma: c.Gamma, MaxDepth: c.MaxDepth, NodeLimit: c.NodeLimit, TopK: c.TopK,
	}
	if name != cascade.NameCascadeRouteNoExpect {
		p.Scale = c.Scale
	}
	if c.Answer == "last" {
		p.Answer = cascade.Last
	}
	for _, model := range c.Order {
		i := slices.Index(models, model)
		if i < 0 {
			return nil, "", fmt.Errorf("the strategy's order names %q, of which there are no outcomes", model)
		}
		p.Order = append(p.Order, i)
	}
	s, err := cascade.New(name, p)
	return s, name, err
}

// print compares what was replayed with the single models.
func (f *replayFlags) print(s Streams, h *eval.Halves, name, kind string, steps []replay.Step) {
	n := float64(len(steps))
	cost, quality, calls := 0.0, 0.0, 0
	for i := range steps {
		cost, quality, calls = cost+steps[i].CostUSD, quality+steps[i].Quality, calls+len(steps[i].Ran)
	}
	fmt.Fprintf(s.Out, "%d queries replayed through the middleware; %s estimates fitted to %d others\n", len(steps), kind, len(h.Train.Queries))
	t := newTable(s.Out, Column{Name: "who answers"}, Column{"quality %", true}, Column{"USD", true}, Column{"USD per query", true}, Column{"calls per query", true})
	t.AppendRow([]any{name, fmt.Sprintf("%.2f", 100*quality/n), fmt.Sprintf("%.2f", cost), eval.Dollars(cost / n), fmt.Sprintf("%.2f", float64(calls)/n)})
	costs, qualities := h.Test.MeanCosts(), h.Test.MeanQualities()
	frame := eval.NewFrame(costs, qualities)
	for _, m := range []struct {
		label string
		model int
	}{{"always the cheapest: ", frame.Cheapest}, {"always the best: ", frame.Best}, {"always the dearest: ", frame.Dearest}} {
		t.AppendRow([]any{
			m.label + h.Test.Models[m.model], fmt.Sprintf("%.2f", 100*qualities[m.model]),
			fmt.Sprintf("%.2f", n*costs[m.model]), eval.Dollars(costs[m.model]), "1.00",
		})
	}
	t.Render()
}
