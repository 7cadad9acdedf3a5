package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/forecast"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// planFlags are the flags of stepfall policy plan.
type planFlags struct {
	policyFlags
	outcomeFlags

	against                   string
	outcomes, traces, queries string
	draws                     int
	seed                      uint64
}

func newPolicyPlanCommand(s Streams) *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan NEW [--against OLD]",
		Short: "Show what a policy would do, beside the one in use",
		Long: `Show what a policy would do, beside the one in use: models run, expected cost and
quality, caps met. Nothing is called.

The step engine decides as it would online. What models answer comes from recorded
outcomes (--outcomes), from traces of the policy in use (--traces), or, for a file
of queries (--queries, JSON lines) or a built-in sample, from the beliefs that the
policies and their profiles state; such a plan shows what follows from the beliefs,
not whether they are right.`,
		Example: `  stepfall policy plan new.hcl --against policy.hcl --traces traces.jsonl
  stepfall policy plan new.hcl --against policy.hcl --outcomes outcomes.csv
  stepfall policy plan library:strict-budget`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), s, args[0]) },
	}
	f.policyFlags.add(cmd)
	f.outcomeFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.against, "against", "", "the policy in use")
	flags.StringVar(&f.outcomes, "outcomes", "", "table of recorded outcomes")
	flags.StringVar(&f.traces, "traces", "", "traces: JSON lines or SQLite")
	flags.StringVar(&f.queries, "queries", "", "queries, as JSON lines")
	flags.IntVar(&f.draws, "draws", 50, "how often each query is drawn from the beliefs")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the draws")
	return cmd
}

func (f *planFlags) run(ctx context.Context, s Streams, path string) error {
	given := 0
	for _, source := range []string{f.outcomes, f.traces, f.queries} {
		if source != "" {
			given++
		}
	}
	if given > 1 {
		return usage("--outcomes, --traces and --queries exclude one another")
	}
	if f.draws < 1 {
		return usage("--draws %d: want at least 1", f.draws)
	}
	next, err := f.load(s, path, policies.LoadOptions{})
	if err != nil {
		return err
	}
	all := []*policies.Policy{next}
	if f.against != "" {
		// The settings of the command line are for the new policy.
		old, err := (&policyFlags{}).load(s, f.against, policies.LoadOptions{})
		if err != nil {
			return err
		}
		all = []*policies.Policy{old, next}
	}
	world, source, err := f.world(ctx, s, all)
	if err != nil {
		return err
	}
	if world.Len() == 0 {
		return fmt.Errorf("%s: no queries", source)
	}
	bar := newProgress(s.Err, world.Len()*len(all), "planning")
	results := make([]*forecast.Forecast, len(all))
	for i, p := range all {
		if results[i], err = forecast.New(ctx, p, world, forecast.Options{Progress: bar.add}); err != nil {
			return fmt.Errorf("policy %s: %w", p.Path, err)
		}
	}
	bar.finish()
	return f.print(s, source, results, next)
}

// world returns where answers come from, and what to call that.
func (f *planFlags) world(ctx context.Context, s Streams, all []*policies.Policy) (forecast.World, string, error) {
	switch {
	case f.outcomes != "":
		table, err := f.open(f.outcomes)
		if err != nil {
			return nil, "", err
		}
		return &forecast.Table{Outcomes: table, Seed: f.seed}, fmt.Sprintf("the recorded outcomes of %s", f.outcomes), nil
	case f.traces != "":
		w := &forecast.Traces{Seed: f.seed}
		err := (&traceFlags{file: f.traces}).each(ctx, s, func(t *sdk.Trace) { w.Steps = append(w.Steps, t) })
		return w, fmt.Sprintf("the traces of %s; models that were not run are drawn from what was believed of them", f.traces), err
	}
	w := &forecast.Beliefs{Queries: forecast.Sample(all...), Draws: f.draws, Seed: f.seed}
	source := fmt.Sprintf("a sample of %s, %d draws each from the beliefs of the policies", count(len(w.Queries), "query"), f.draws)
	if f.queries != "" {
		var err error
		if w.Queries, err = readQueries(f.queries); err != nil {
			return nil, "", err
		}
		source = fmt.Sprintf("%s of %s, %d draws each from the beliefs of the policies", count(len(w.Queries), "query"), f.queries, f.draws)
	}
	return w, source, nil
}

// readQueries reads queries as JSON lines.
func readQueries(path string) ([]*sdk.Query, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var list []*sdk.Query
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		q := new(sdk.Query)
		if err := json.Unmarshal(lines.Bytes(), q); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if q.InputTokens == 0 {
			for _, m := range q.Messages {
				q.InputTokens += (len(m.Text()) + 3) / 4
			}
		}
		list = append(list, q)
	}
	return list, lines.Err()
}

func (f *planFlags) print(s Streams, source string, results []*forecast.Forecast, next *policies.Policy) error {
	w := &printer{w: s.Out}
	w.f("%s answered by %s\n\n", count(results[0].Queries, "query"), source)
	columns := []Column{{Name: ""}}
	for _, r := range results {
		columns = append(columns, Column{Name: r.Policy, Number: true})
	}
	if len(results) == 2 {
		columns = append(columns, Column{Name: "change", Number: true})
	}
	t := newTable(s.Out, columns...)
	row := func(name string, format string, value func(*forecast.Forecast) float64) {
		cells := []any{name}
		for _, r := range results {
			cells = append(cells, fmt.Sprintf(format, value(r)))
		}
		if len(results) == 2 {
			if from, to := value(results[0]), value(results[1]); strings.Contains(format, "%%") && from != to {
				cells = append(cells, fmt.Sprintf("%+.1f", to-from))
			} else {
				cells = append(cells, change(from, to))
			}
		}
		t.AppendRow(cells)
	}
	row("USD per query", "%.6f", func(r *forecast.Forecast) float64 { return r.CostUSD })
	row("quality", "%.4f", func(r *forecast.Forecast) float64 { return r.Quality })
	row("models run per query", "%.2f", func(r *forecast.Forecast) float64 { return r.Steps })
	for _, name := range modelsOf(results) {
		use := func(get func(forecast.ModelUse) float64) func(*forecast.Forecast) float64 {
			return func(r *forecast.Forecast) float64 {
				if i := slices.IndexFunc(r.Models, func(m forecast.ModelUse) bool { return m.Model == name }); i >= 0 {
					return 100 * get(r.Models[i])
				}
				return 0
			}
		}
		row(name+" run for", "%.1f %%", use(func(m forecast.ModelUse) float64 { return m.Ran }))
		row(name+" answers", "%.1f %%", use(func(m forecast.ModelUse) float64 { return m.Chosen }))
	}
	for _, name := range matchesOf(results) {
		row("match "+name, "%.0f", func(r *forecast.Forecast) float64 { return float64(r.Matches[name]) })
	}
	row("stopped by a cap", "%.0f", func(r *forecast.Forecast) float64 { return float64(r.Capped) })
	row("no answer because of a cap", "%.0f", func(r *forecast.Forecast) float64 { return float64(r.Refused) })
	row("no model could be asked", "%.0f", func(r *forecast.Forecast) float64 { return float64(r.Infeasible) })
	t.Render()
	for _, r := range results {
		if r.Unknown > 0 {
			w.f("%s: %s of models without recorded outcomes, taken from beliefs\n", r.Policy, count(r.Unknown, "call"))
		}
	}
	if f.outcomes != "" && next.Fit == nil && len(next.Verifiers) == 0 {
		w.f("%s has neither a profile nor a verifier: nothing tells it good answers from bad ones\n", next.Path)
	}
	if b := next.Budget.ExpectedUSD; b > 0 {
		r := results[len(results)-1]
		verdict := "within"
		if r.CostUSD > b {
			verdict = "ABOVE"
		}
		w.f("%s: %.6f USD per query is %s the budget of %.6f\n", r.Policy, r.CostUSD, verdict, b)
	}
	return w.err
}

func change(from, to float64) string {
	switch from {
	case to:
		return ""
	case 0:
		return fmt.Sprintf("%+.4g", to)
	}
	return fmt.Sprintf("%+.1f %%", 100*(to-from)/from)
}

// modelsOf returns the models of all forecasts that any of them runs, in order.
func modelsOf(results []*forecast.Forecast) []string {
	var names []string
	for _, r := range results {
		for _, m := range r.Models {
			if m.Ran > 0 && !slices.Contains(names, m.Model) {
				names = append(names, m.Model)
			}
		}
	}
	return names
}

func matchesOf(results []*forecast.Forecast) []string {
	var names []string
	for _, r := range results {
		for name := range r.Matches {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
