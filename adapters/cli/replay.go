package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/replay"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/step"
)

// replayFlags are the flags of stepfall replay.
type replayFlags struct {
	outcomes, train, policy string
	prompts                 string
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
answers from its recorded outcomes. The estimators are fitted to --train, or else to
a random half of the table, and the other half is replayed; a policy with a fitted
profile is replayed on the whole table.

A policy is held to as its router would: strategies, match blocks, verifiers (the
recorded qualities are their verdicts), caps, and prices where the table has tokens;
without tokens costs are as recorded, and the dearest recorded outcome of a model is
the worst case of its calls. Plugins, files and servers of the policy are not touched.`,
		Example: `  stepfall replay --outcomes swebench.csv --policy policy.hcl --traces traces.jsonl
  stepfall replay --outcomes swebench.csv --strategy index --lambda 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.outcomes, "outcomes", "", "outcomes to replay")
	flags.StringVar(&f.train, "train", "", "outcomes to fit the estimators to (default: a half of --outcomes)")
	flags.StringVar(&f.policy, "policy", "", "policy with the models and the strategy")
	flags.StringVar(&f.prompts, "prompts", "", "JSON lines with query_id and prompt, for tables without prompts")
	flags.StringVar(&f.models, "models", "all", "models of the table, with --strategy")
	flags.StringVar(&f.strategy, "strategy", "", "strategy, without a policy: "+strings.Join(cascade.Names(), ", "))
	flags.Float64Var(&f.lambda, "lambda", 1, "price of a US dollar in quality, with --strategy")
	flags.StringVar(&f.signals, "signals", "auto", "what is seen after a model ran: verdict, features, auto (with a policy: verdict when it has a verifier)")
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
	case f.policy != "" && (f.strategy != "" || f.models != "all"):
		return usage("--policy names strategy and models itself: leave out --strategy and --models")
	case f.train == "" && !(f.trainShare > 0 && f.trainShare < 1):
		return usage("--train-share %v: want a share between 0 and 1", f.trainShare)
	}
	c, h, err := f.config(s)
	if err != nil {
		return err
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
	steps, err := replay.Run(ctx, *c)
	bar.finish()
	if err != nil {
		return err
	}
	f.print(s, h, c, steps)
	return nil
}

// config reads the tables and the policy, and fits the estimates.
func (f *replayFlags) config(s Streams) (*replay.Config, *eval.Halves, error) {
	c := &replay.Config{StrategyName: f.strategy, Seed: f.seed}
	models, signals := f.models, eval.Signals(f.signals)
	if f.policy != "" {
		p, err := policies.Load(f.policy, policies.LoadOptions{})
		if err != nil {
			return nil, nil, err
		}
		notes, err := replay.CheckPolicy(p)
		if err != nil {
			return nil, nil, fmt.Errorf("the policy cannot be replayed: %w", err)
		}
		for _, note := range notes {
			fmt.Fprintf(s.Err, "stepfall: %s: %s\n", f.policy, note)
		}
		c.Rules, c.Policy, c.StrategyName = p, filepath.Base(f.policy), p.Strategy.CascadeName()
		names := make([]string, len(p.Models))
		for i := range p.Models {
			names[i] = p.Models[i].Name
		}
		models = strings.Join(names, ",")
		if signals == eval.SignalsAuto {
			signals = eval.SignalsFeatures
			if len(p.Verifiers) > 0 {
				signals = eval.SignalsVerdict
			}
		}
	} else {
		strategy, err := cascade.New(f.strategy, cascade.Params{Lambdas: []float64{f.lambda}, Gamma: 1, Thresholds: []float64{0.5}})
		if err != nil {
			return nil, nil, &ExitError{Code: ExitUsage, Err: err}
		}
		c.Strategy = strategy
	}
	h, err := f.halves(c, models)
	if err != nil {
		return nil, nil, err
	}
	study := &eval.Study{Halves: h, Signals: signals, Estimator: f.estimator, Seed: f.seed}
	if err := study.Validate(); err != nil {
		return nil, nil, &ExitError{Code: ExitUsage, Err: err}
	}
	h, kind, err := study.Online()
	if err != nil {
		return nil, nil, err
	}
	c.Table, c.Verified = h.Test, h.Test.Verified
	if c.Rules != nil && c.Rules.Fit != nil {
		return c, h, nil
	}
	c.Estimator, err = estimate.Fit(h.Train, estimate.Options{Quality: kind, Seed: f.seed})
	return c, h, err
}

// halves reads the table, or both, with the costs that the policy's prices give.
func (f *replayFlags) halves(c *replay.Config, models string) (*eval.Halves, error) {
	open := func(path string) (*outcome.Table, error) {
		t, err := outcome.Open(path, outcome.Options{Prompts: f.prompts})
		if err != nil {
			return nil, err
		}
		if t, err = t.Subset(models); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return t, nil
	}
	test, err := open(f.outcomes)
	if err != nil {
		return nil, err
	}
	var train *outcome.Table
	overlap := false
	switch {
	case f.train != "":
		if train, err = open(f.train); err != nil {
			return nil, err
		}
	case c.Rules != nil && c.Rules.Fit != nil:
		// The profile is fitted already: all that there is can be replayed.
		train, overlap = test, true
	default:
		train, test = test.Split(f.trainShare, f.seed)
	}
	h, err := eval.NewHalves(train, test, overlap)
	if err != nil || c.Rules == nil {
		return h, err
	}
	// Costs of both halves come from the same source.
	pricedTrain, trainKnown := replay.Reprice(h.Train, c.Rules)
	pricedTest, testKnown := replay.Reprice(h.Test, c.Rules)
	if c.Repriced = trainKnown && testKnown; c.Repriced {
		h.Train, h.Test = pricedTrain, pricedTest
	}
	return h, nil
}

// print compares what was replayed with the single models.
func (f *replayFlags) print(s Streams, h *eval.Halves, c *replay.Config, steps []replay.Step) {
	n := float64(len(steps))
	cost, quality, calls := 0.0, 0.0, 0
	for i := range steps {
		cost, quality, calls = cost+steps[i].CostUSD, quality+steps[i].Quality, calls+len(steps[i].Ran)
	}
	name := c.StrategyName
	if c.Estimator == nil {
		name = "the fitted profile"
		fmt.Fprintf(s.Out, "%d queries replayed through the middleware; estimates and strategy of the profile %s\n", len(steps), c.Rules.Fit.Profile)
	} else {
		fmt.Fprintf(s.Out, "%d queries replayed through the middleware; %s estimates fitted to %d others\n", len(steps), c.Estimator.Quality.Kind(), len(h.Train.Queries))
	}
	if c.Rules != nil {
		printRules(s, c, steps)
	}
	t := newTable(s.Out, Column{Name: "who answers"}, Column{"quality %", true}, Column{"USD", true}, Column{"USD per query", true}, Column{"calls per query", true})
	t.AppendRow([]any{name, fmt.Sprintf("%.2f", 100*quality/n), eval.Dollars(cost), eval.Dollars(cost / n), fmt.Sprintf("%.2f", float64(calls)/n)})
	costs, qualities := h.Test.MeanCosts(), h.Test.MeanQualities()
	frame := eval.NewFrame(costs, qualities)
	for _, m := range []struct {
		label string
		model int
	}{{"always the cheapest: ", frame.Cheapest}, {"always the best: ", frame.Best}, {"always the dearest: ", frame.Dearest}} {
		t.AppendRow([]any{
			m.label + h.Test.Models[m.model], fmt.Sprintf("%.2f", 100*qualities[m.model]),
			eval.Dollars(n * costs[m.model]), eval.Dollars(costs[m.model]), "1.00",
		})
	}
	t.Render()
}

// printRules says what prices, verifiers, match blocks and caps of the policy did.
func printRules(s Streams, c *replay.Config, steps []replay.Step) {
	p := c.Rules
	prices := "as recorded, because the table lacks tokens"
	if c.Repriced {
		prices = "recorded tokens at the policy's prices"
	}
	fmt.Fprintf(s.Out, "costs: %s\n", prices)
	switch {
	case len(p.Verifiers) > 0 && c.Verified:
		fmt.Fprintln(s.Out, "verifiers: the recorded qualities are their verdicts")
	case c.Verified:
		fmt.Fprintln(s.Out, "verifiers: the policy has none; the recorded qualities are verdicts because --signals says so")
	default:
		fmt.Fprintln(s.Out, "verifiers: none, answers are estimated (--signals verdict takes the recorded qualities as verdicts)")
	}
	if len(p.Matches) > 0 {
		counts := map[string]int{}
		for i := range steps {
			counts[steps[i].Match]++
		}
		var parts []string
		for i := range p.Matches {
			parts = append(parts, fmt.Sprintf("%s %d", p.Matches[i].Name, counts[p.Matches[i].Name]))
		}
		fmt.Fprintf(s.Out, "match: %s, none %d queries\n", strings.Join(parts, ", "), counts[""])
	}
	if p.Budget.StepUSD > 0 || p.Budget.RunUSD > 0 {
		stopped, without := 0, 0
		for i := range steps {
			if steps[i].Stop == sdk.StopBudget {
				stopped++
			}
			if steps[i].Chosen == "" {
				without++
			}
		}
		fmt.Fprintf(s.Out, "caps: %d of %d steps ended at a cap, %d of them without an answer, which counts as quality 0\n", stopped, len(steps), without)
	}
}
