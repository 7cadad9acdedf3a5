package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// planDraws is how often each query is drawn from the beliefs, with the seed planSeed.
const (
	planDraws = 50
	planSeed  = 1
)

type planFlags struct {
	policyFlags
	outcomeFlags

	query            queryFlags
	against          string
	outcomes, traces string
	detailed         bool
}

func newPolicyPlanCommand(s Streams) *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan NEW [--against OLD]",
		Short: "What would a policy do, and what would it cost? Compare it with the current one, too",
		Long: `Show what a policy would do and cost without calling anything: the models that run, the
expected cost and quality, and the caps that are reached. With --against, compare it with
the policy in use, and list every setting whose effect differs.

The step engine makes the same decisions as online. Answers come from recorded outcomes
(--outcomes) or from traces of the policy in use (--traces). For a file of queries
(--query FILE, JSON lines) or the built-in sample, the estimates of the policies and their
profiles are used instead.

With --query TEXT, --with or --suppose, explain one query: which match block applies,
which models are excluded and why, and the basis of each decision.

With --detailed-exitcode, the exit code is 0 if nothing changes, 2 if something does, and
1 if the plan cannot be made.`,
		Example: `  stepfall policy plan new.hcl --against policy.hcl --traces traces.jsonl
  stepfall policy plan new.hcl --against policy.hcl --outcomes outcomes.csv
  stepfall policy plan new.hcl --against policy.hcl --json --detailed-exitcode
  stepfall policy plan library:strict-budget
  stepfall policy plan policy.hcl --query "Fix the failing test" --with tool=edit --with tokens=4000
  stepfall policy plan policy.hcl --with group=code/go --suppose small=0.2`,
		Args:        cobra.ExactArgs(1),
		Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := f.run(cmd.Context(), s, args[0])
			if exit, ok := errors.AsType[*exitError](err); ok && f.detailed && !errors.Is(err, errChanges) {
				exit.Code = exitFailure
			}
			return err
		},
	}
	f.policyFlags.add(cmd)
	f.outcomeFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.against, "against", "", "the policy in use")
	flags.Var(singleFile{&f.outcomes}, "outcomes", "table of recorded outcomes")
	flags.StringVar(&f.traces, "traces", "", "traces: JSON lines or SQLite")
	f.query.add(flags)
	flags.BoolVar(&f.detailed, "detailed-exitcode", false, "exit with 2 if something changes")
	return cmd
}

func (f *planFlags) run(ctx context.Context, s Streams, path string) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.query.explains() {
		return f.explain(ctx, s, path)
	}
	next, err := f.load(s, path, policies.LoadOptions{Patches: f.verified})
	if err != nil {
		return err
	}
	all := []*policies.Policy{next}
	if f.against != "" {
		// --set applies to the new policy only.
		old, err := (&policyFlags{}).load(s, f.against, policies.LoadOptions{Patches: f.verified})
		if err != nil {
			return err
		}
		all = []*policies.Policy{old, next}
	}
	world, source, err := f.world(ctx, s, all)
	if err != nil {
		return err
	}
	worlds := slices.Repeat([]forecast.World{world}, len(all))
	if f.outcomes != "" && !maps.Equal(pricesOf(all[0]), pricesOf(next)) { // each policy's costs are those at its own prices
		if worlds[0], _, err = f.world(ctx, s, all[:1]); err != nil {
			return err
		}
	}
	if world.Len() == 0 {
		return fmt.Errorf("%s: no queries", source)
	}
	bar := newProgress(s.Err, world.Len()*len(all), "planning")
	results := make([]*forecast.Forecast, len(all))
	for i, p := range all {
		if results[i], err = forecast.New(ctx, p, worlds[i], forecast.Options{Seed: planSeed, Progress: bar.add}); err != nil {
			return addResumeHint(ctx, fmt.Errorf("policy %s: %w", p.Path, err), "a plan writes nothing; run the same command to start over")
		}
	}
	bar.finish()
	made := newPlan(source, all, results)
	if table, ok := world.(*forecast.Table); ok {
		if err := checkRecorded(made, next, table.Outcomes); err != nil {
			return fmt.Errorf("%s: %w", f.outcomes, err)
		}
		made.unread = unreadVerdicts(next, table.Outcomes)
	}
	err = s.render(made, func(p *printer) { made.print(p, f.outcomes != "", f.outcomes == "" && f.traces == "", next) })
	if err == nil && f.detailed && made.Changed {
		err = &exitError{Code: exitChanges, Err: errChanges}
	}
	return err
}

func (f *planFlags) check() error {
	given := countTrue(f.outcomes != "", f.traces != "", f.query.text != "")
	switch {
	case given > 1:
		return usage("--outcomes, --traces and --query are mutually exclusive")
	case f.detailed && f.against == "":
		return usage("--detailed-exitcode requires --against")
	case f.query.explains() && (f.query.text == "" && given > 0 || f.against != ""):
		return usage("--query, --with and --suppose cannot be combined with --against, --outcomes or --traces")
	}
	return nil
}

// checkRecorded returns an error if the outcomes have none of the policy's models, and notes in the plan how many
// calls are missing.
func checkRecorded(made *madePlan, p *policies.Policy, t *outcome.Table) error {
	last := made.Policies[len(made.Policies)-1]
	if last.Unknown == 0 {
		return nil
	}
	var names []string
	for i := range p.Models {
		names = append(names, p.Models[i].Name)
	}
	if last.Judged.Answers == 0 {
		return fmt.Errorf("the outcomes have none of the models of %s: these are %q, theirs are %q", p.Path, names, t.Models)
	}
	made.Source += fmt.Sprintf(", except %s of models without outcomes, taken from beliefs", count(last.Unknown, "call"))
	return nil
}

// unreadVerdicts names the judges of a table for which the policy has no verifier.
func unreadVerdicts(p *policies.Policy, t *outcome.Table) []string {
	return slices.DeleteFunc(t.Judges(), func(judge string) bool {
		return slices.ContainsFunc(p.Verifiers, func(v policies.Verifier) bool { return v.Name == judge })
	})
}

// exitChanges is the exit code of a plan with changes, as in terraform.
const exitChanges = 2

var errChanges = errors.New("the new policy makes a difference")

// world returns the source of answers and a description of it.
func (f *planFlags) world(ctx context.Context, s Streams, all []*policies.Policy) (forecast.World, string, error) {
	switch {
	case f.outcomes != "":
		table, err := f.open(f.outcomes, all[len(all)-1])
		if err != nil {
			return nil, "", err
		}
		return &forecast.Table{Outcomes: table, Seed: planSeed}, fmt.Sprintf("the recorded outcomes of %s", f.outcomes), nil
	case f.traces != "":
		w, err := readTraces(ctx, s, f.traces)
		if err == nil {
			warnStepPrices(s.Err, w.Steps, pricesOf(all[len(all)-1]))
		}
		return w, fmt.Sprintf("the traces of %s; models that did not run are simulated from the recorded beliefs, with the prompt and answer lengths of those that ran", f.traces), err
	}
	w := &forecast.Beliefs{Queries: forecast.Sample(all...), Draws: planDraws, Seed: planSeed}
	source := fmt.Sprintf("a sample of %s, %d draws each from the beliefs of the policies", count(len(w.Queries), "query"), planDraws)
	if f.query.text != "" {
		var err error
		if w.Queries, err = readQueries(f.query.text); err != nil {
			return nil, "", err
		}
		source = fmt.Sprintf("%s of %s, %d draws each from the beliefs of the policies", count(len(w.Queries), "query"), f.query.text, planDraws)
	}
	return w, source, nil
}

// readTraces reads traces, and sorts the steps by start.
func readTraces(ctx context.Context, s Streams, from string) (*forecast.Traces, error) {
	w := &forecast.Traces{Seed: planSeed}
	src, err := openTraces(ctx, s, from)
	if err != nil {
		return nil, err
	}
	err = view.EachTrace(ctx, src.Traces, store.Filter{}, w.Add)
	slices.SortStableFunc(w.Steps, func(a, b *sdk.Trace) int { return a.Start.Compare(b.Start) })
	return w, errors.Join(err, src.close())
}

func readQueries(path string) ([]*sdk.Query, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var list []*sdk.Query
	for decoder := json.NewDecoder(file); ; {
		q := new(sdk.Query)
		err := decoder.Decode(q)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: query %d: %w", path, len(list)+1, err)
		}
		if q.InputTokens == 0 {
			for _, m := range q.Messages {
				q.InputTokens += (len(m.Text()) + 3) / 4
			}
		}
		list = append(list, q)
	}
}
