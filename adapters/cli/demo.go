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
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

type demoFlags struct {
	policy   string
	out      string
	parallel int
	limit    int
}

func newDemoCommand(s Streams) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "What does a cascade save? Solve the bundled repair tasks and show it",
		Long: `Solve the bundled repair tasks, small Go packages with a defect, in the recommended way.
Every model answers every task once, and a plugin judges the answers by running real unit
tests. A threshold cascade, cascade routing and index are fitted to the outcomes of one
half of the tasks, for several budgets, and solve the other half; then the halves are
swapped. The results are compared with always asking one model.

Without a key the models are scripted: their answers are fixed, including wrong ones.
With a key that policy init knows, OLLAMA_HOST, or --policy, the models are real, and
each is paid for once per task.`,
		Args:        cobra.NoArgs,
		Annotations: hasJSON(),
		RunE:        func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "use the models and the verifier of this policy")
	flags.StringVar(&f.out, "out", "demo-out", "folder for the cost-quality picture, the traces and the report")
	flags.IntVar(&f.parallel, "parallel", 2, "answers to request and test concurrently")
	flags.IntVar(&f.limit, "tasks", 0, "number of tasks to solve; 0 is all. With fewer than 40 nothing is fitted")
	return cmd
}

func (f *demoFlags) run(ctx context.Context, s Streams) (err error) {
	list, err := tasks.Repair()
	if err != nil {
		return err
	}
	if f.limit > 0 && f.limit < len(list) {
		// Evenly spaced, so that all difficulty levels remain.
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
	o := demo.Options{Policy: f.policy, Tasks: list, Parallel: f.parallel, Logger: s.logger("stepfall", hclog.Off)}
	about := "the models of " + f.policy
	if f.policy == "" {
		var dir string
		if dir, err = os.MkdirTemp("", "stepfall-demo-*"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.Policy = filepath.Join(dir, "policy.hcl")
		var stop func() error
		if about, stop, err = writeDemoPolicy(ctx, o.Policy, list); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	policy, err := policies.Load(o.Policy, policies.LoadOptions{})
	if err != nil {
		return err
	}
	start := time.Now()
	bar := newProgress(s.Err, demo.Units(len(list), len(policy.Models)), "collecting")
	o.Progress = func(doing string) {
		bar.describef("%s", doing)
		bar.add(1)
	}
	report, err := demo.Run(ctx, o)
	bar.finish()
	if err != nil {
		return addResumeHint(ctx, err, "nothing is written; the demo always starts over")
	}
	fmt.Fprintf(screen, "%d repair tasks, %s.\n", report.Tasks, about)
	if report.Learnt {
		fmt.Fprintf(screen, "Each half of the tasks is solved with a profile fitted to the other half.\n")
	} else {
		fmt.Fprintf(screen, "Too few tasks to learn from: the strategies use the policy's own estimates.\n")
	}
	if err := f.save(report); err != nil {
		return err
	}
	return s.render(report, func(p *printer) { p.demo(report, f.out, time.Since(start)) })
}

func (f *demoFlags) save(report *demo.Report) error {
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
	return writeJSON(filepath.Join(f.out, "report.json"), report)
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
		p.f("budget: largest mean cost of a task, as a share of the cost of %s, fitted on the other half.\n\n%s\n", dearest.Strategy, report.Summary())
	}
	if trace := longestSolved(report); trace != nil {
		p.demoStep(trace)
	}
	traces := filepath.Join(out, "traces.jsonl")
	p.f("\nThe picture is in %s (PNG and SVG), each step without a budget in %s. Took %s.\nWhy each model was asked: stepfall trace --why -f %s\nIn the browser: stepfall view %s\n",
		filepath.Join(out, "cost-quality.png"), traces, took.Round(100*time.Millisecond), traces, traces)
}

func (p *printer) demoStep(trace *sdk.Trace) {
	p.f("\nOne step of %s, task %s:\n", trace.Run, trace.QueryID)
	for i, c := range trace.Calls {
		p.f("  %d. %-8s %5d tokens in, %4d out, %s USD: %s\n", i+1, c.Model, c.Usage.InputTokens, c.Usage.OutputTokens, usd(c.CostUSD), callSummary(&c))
		if i >= len(trace.Decisions) {
			continue
		}
		for _, b := range trace.Decisions[i].Models {
			if !b.Ran {
				p.f("       %s was expected to pass with probability %.2f, for %s USD\n", b.Model, b.Quality.Mean, usd(b.CostUSD))
			}
		}
	}
	p.f("  answer of %s, stopped because %s; %s USD\n", trace.Chosen, say.Because(trace.Stop), usd(trace.CostUSD))
}

// longestSolved returns the solved step with the most calls, of the last strategy at its last point.
func longestSolved(report *demo.Report) *sdk.Trace {
	var best *sdk.Trace
	last := report.Rows[len(report.Rows)-1]
	for _, t := range last.Points[len(last.Points)-1].Traces {
		if demo.IsSolved(t) && (best == nil || len(t.Calls) > len(best.Calls)) {
			best = t
		}
	}
	return best
}

// writeDemoPolicy writes a policy with the models of the environment or, if there are fewer than two, scripted ones,
// whose server stop closes. about describes the models.
func writeDemoPolicy(ctx context.Context, path string, list []tasks.Task) (about string, stop func() error, err error) {
	models, stop := offers(ctx, os.Getenv), func() error { return nil }
	about = "models that the environment offers"
	if len(models) < 2 {
		server, err := scripted.Start(scripted.Options{Models: tasks.Models(), Respond: tasks.Script(list)})
		if err != nil {
			return "", nil, err
		}
		models, stop = nil, server.Close
		about = "SCRIPTED models (no key found): their answers are fixed, wrong ones included; the tests that judge them are real"
		for i, name := range tasks.Models() {
			models = append(models, offer{Name: name, Provider: "openai", Served: name, URL: server.URL(), Free: true, Longest: 16384, Mean: []float64{0.4, 0.7, 0.9}[i]})
		}
	}
	for i := range models {
		if m := &models[i]; m.Free { // at the prices of three sizes of one family
			m.Free, m.InputUSD = false, []float64{0.1, 0.4, 2}[min(i, 2)]
		}
	}
	var b strings.Builder
	if err := policyText.ExecuteTemplate(&b, "demo", models); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return about, stop, os.WriteFile(path, []byte(b.String()), 0o644)
}
