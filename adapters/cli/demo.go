package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/demo"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

type demoFlags struct {
	policy   string
	out      string
	models   []string
	parallel int
	limit    int
	verbose  bool
}

func newDemoCommand(s Streams) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Learn from some repair tasks how to solve others, and see what that saves",
		Long: `Solve the bundled repair tasks, small Go packages with a defect, as stepfall is meant
to be used. Every model answers every task once, and real unit tests judge the answers,
in a plugin. To the outcomes of one half of the tasks a threshold cascade, cascade
routing and index are fitted, for several budgets; they solve the other half, and the
other way round. Beside them: always asking one model.

Without a key the models are scripted: their answers are fixed, wrong ones included.
With OPENAI_API_KEY, OPENAI_BASE_URL or OLLAMA_HOST, or a policy, they are real, and
each is paid once for each task.`,
		Args:        cobra.NoArgs,
		Annotations: hasJSON(),
		RunE:        func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "use the models and the verifier of this policy")
	flags.StringVar(&f.out, "out", "demo-out", "folder for the cost-quality picture, the traces and the report")
	flags.StringSliceVar(&f.models, "models", nil, "names of two or three real models, cheapest first")
	flags.IntVar(&f.parallel, "parallel", 2, "answers asked for and tested at one time")
	flags.IntVar(&f.limit, "tasks", 0, "solve only so many tasks; 0 means all, and of fewer than 40 nothing is learnt")
	flags.BoolVar(&f.verbose, "verbose", false, "show the plugin's log")
	return cmd
}

func (f *demoFlags) run(ctx context.Context, s Streams) (err error) {
	list, err := tasks.Repair()
	if err != nil {
		return err
	}
	if f.limit > 0 && f.limit < len(list) {
		// Every so-many-th one, so that all levels stay.
		var some []tasks.Task
		for i := range f.limit {
			some = append(some, list[i*len(list)/f.limit])
		}
		list = some
	}
	screen := s.Out
	if s.wantsJSON() {
		screen = s.Err
	}
	o := demo.Options{Policy: f.policy, Tasks: list, Parallel: f.parallel}
	if f.verbose {
		o.Logger = hclog.New(&hclog.LoggerOptions{Name: "stepfall", Output: s.Err, Level: hclog.Info})
	}
	about := "the models of " + f.policy
	if f.policy == "" {
		models, err := chooseDemoModels(f.models, list)
		if err != nil {
			return err
		}
		dir, tempErr := os.MkdirTemp("", "stepfall-demo-*")
		defer func() { err = errors.Join(err, models.close(), os.RemoveAll(dir)) }()
		if tempErr != nil {
			return tempErr
		}
		if o.Policy, err = models.write(dir); err != nil {
			return err
		}
		about = models.about
	}
	policy, err := policies.Load(o.Policy, policies.LoadOptions{})
	if err != nil {
		return err
	}
	outcomes, fits := demo.Work(len(list), len(policy.Models))
	start := time.Now()
	bar := newProgress(s.Err, outcomes+fits, "collecting")
	o.Collected = func(usd float64) {
		bar.describef("answers, tested, %.6f USD", usd)
		bar.add(1)
	}
	o.Fitted = func(strategy string) {
		bar.describef("answers; now fitting %s and solving", strategy)
		bar.add(1)
	}
	report, err := demo.Run(ctx, o)
	bar.finish()
	if err != nil {
		return kept(ctx, err, "nothing is written; the demo begins anew each time")
	}
	fmt.Fprintf(screen, "%d repair tasks, %s.\n", len(list), about)
	if report.Learnt {
		fmt.Fprintf(screen, "What is learnt from one half of the tasks solves the other, and the other way round: nothing is solved by what it taught.\n")
	} else {
		fmt.Fprintf(screen, "Too few tasks to learn from: the strategies go by what the policy believes of the models.\n")
	}
	if err := f.save(report); err != nil {
		return err
	}
	return s.render(report, func(p *printer) { p.demo(report, f.out, time.Since(start)) })
}

// save writes the picture, the traces and the report.
func (f *demoFlags) save(report *demo.Report) error {
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	figure, err := report.Figure()
	if err != nil {
		return err
	}
	if err := figure.Save(f.out); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(f.out, "traces.jsonl"), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		for _, row := range report.Rows {
			for _, t := range row.Points[len(row.Points)-1].Traces {
				if err := enc.Encode(t); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	data, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.out, "report.json"), append(data, '\n'), 0o644)
}

func (p *printer) demo(report *demo.Report, out string, took time.Duration) {
	dearest := report.Rows[len(report.Models)-1]
	t := p.table(column{name: "strategy"}, column{name: "budget", number: true}, column{name: "solved", number: true}, column{name: "USD", number: true},
		column{name: "of " + dearest.Strategy, number: true}, column{name: "calls", number: true})
	percent := func(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }
	for _, r := range report.Rows {
		for i, point := range r.Points {
			name, budget, share := r.Strategy, "none", "-"
			if i > 0 {
				name = ""
			}
			if point.Budget > 0 {
				budget = percent(point.Budget)
			}
			if r.Single {
				budget = ""
			}
			if all := dearest.Points[0].CostUSD; all > 0 {
				share = percent(point.CostUSD / all)
			}
			t.row(name, budget, fmt.Sprintf("%d/%d", point.Solved, report.Tasks), usd(point.CostUSD), share, point.Calls)
		}
	}
	t.print()
	if report.Learnt {
		p.f("budget: the most that a task may cost on average, as a share of what %s costs, fitted on the other half.\n\n%s\n", dearest.Strategy, report.Summary())
	}
	p.walls(report)
	if trace := telling(report); trace != nil {
		p.f("\nOne step of %s, task %s:\n", trace.Run, trace.QueryID)
		for i, c := range trace.Calls {
			p.f("  %d. %-8s %5d tokens in, %4d out, %s USD: %s\n", i+1, c.Model, c.Usage.InputTokens, c.Usage.OutputTokens, usd(c.CostUSD), callSummary(&c))
			for _, b := range beliefs(trace, i) {
				p.f("       %s\n", b)
			}
		}
		p.f("  answer of %s, stopped because %s; %s USD, %s in stepfall itself\n", trace.Chosen, say.Because(trace.Stop), usd(trace.CostUSD), short(trace.Overhead))
	}
	traces := filepath.Join(out, "traces.jsonl")
	p.f("\nThe picture is in %s (PNG and SVG), each step without a budget in %s. Took %s.\nWhy a step went as it did: stepfall trace show --why -f %s\nAll of it in the browser: stepfall view %s\n",
		filepath.Join(out, "cost-quality.png"), traces, took.Round(100*time.Millisecond), traces, traces)
}

// walls says which layers of isolation the tests had to do without.
func (p *printer) walls(report *demo.Report) {
	for _, row := range report.Rows {
		for _, t := range row.Points[0].Traces {
			for _, c := range t.Calls {
				if c.Verdict == nil || len(c.Verdict.Isolation) == 0 {
					continue
				}
				if lacks := jail.Lacks([]string{jail.LayerNetwork, "filesystem", jail.LayerPID, "memory"}, c.Verdict.Isolation); len(lacks) > 0 {
					p.f("tests ran with fewer walls than usual (%s):\n", strings.Join(c.Verdict.Isolation, ", "))
					p.missing(c.Verdict.IsolationMissing)
				}
				return
			}
		}
	}
}

// telling returns a step of the last strategy that escalated and was solved.
func telling(report *demo.Report) *sdk.Trace {
	var best *sdk.Trace
	last := report.Rows[len(report.Rows)-1]
	for _, t := range last.Points[len(last.Points)-1].Traces {
		if demo.Solved(t) && (best == nil || len(t.Calls) > len(best.Calls)) {
			best = t
		}
	}
	return best
}

// beliefs says what was believed when call i was decided.
func beliefs(t *sdk.Trace, i int) []string {
	if i >= len(t.Decisions) {
		return nil
	}
	var lines []string
	for _, b := range t.Decisions[i].Models {
		if !b.Ran {
			lines = append(lines, fmt.Sprintf("%s was expected to pass with probability %.2f, for %s USD", b.Model, b.Quality.Mean, usd(b.CostUSD)))
		}
	}
	return lines
}
