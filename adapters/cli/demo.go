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

	"github.com/stepfall/stepfall/adapters/swe/demo"
	"github.com/stepfall/stepfall/adapters/swe/tasks"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

type demoFlags struct {
	policy   string
	out      string
	models   []string
	parallel int
	limit    int
	json     bool
	verbose  bool
}

func newDemoCommand(s Streams) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Solve the bundled repair tasks with a cascade, beside always asking one model",
		Long: `Solve the bundled repair tasks, small Go packages with a defect, once with each
strategy: always the cheapest model, always the dearest, a threshold cascade, cascade
routing and index. Real unit tests judge every answer, in a plugin.

Without a key the models are scripted: their answers are fixed, wrong ones included.
With OPENAI_API_KEY, OPENAI_BASE_URL or OLLAMA_HOST, or a policy, they are real.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "use the models and the verifier of this policy")
	flags.StringVar(&f.out, "out", "demo-out", "folder for the cost-quality picture, the traces and the report")
	flags.StringSliceVar(&f.models, "models", nil, "names of two or three real models, cheapest first")
	flags.IntVar(&f.parallel, "parallel", 2, "tasks at work together")
	flags.IntVar(&f.limit, "tasks", 0, "solve only so many tasks; 0 means all")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
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
	if f.json {
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
	start := time.Now()
	bar := newProgress(s.Err, len(list)*demo.Strategies, "solving")
	solved, cost := 0, 0.0
	o.Done = func(strategy string, t *sdk.Trace) {
		cost += t.CostUSD
		if demo.Solved(t) {
			solved++
		}
		bar.describef("%s, %d solved, %.4f USD", strategy, solved, cost)
		bar.add(1)
	}
	report, err := demo.Run(ctx, o)
	bar.finish()
	if err != nil {
		return err
	}
	fmt.Fprintf(screen, "%d repair tasks, %s.\n", len(list), about)
	if err := f.save(report, s.Out); err != nil {
		return err
	}
	if f.json {
		return nil
	}
	return printDemo(s.Out, report, f.out, time.Since(start))
}

// save writes the picture, the traces and the report, and the report to out when it is wanted.
func (f *demoFlags) save(report *demo.Report, out io.Writer) error {
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
			for _, t := range row.Traces {
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
	if f.json {
		if _, err := fmt.Fprintf(out, "%s\n", data); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(f.out, "report.json"), append(data, '\n'), 0o644)
}

func printDemo(w io.Writer, report *demo.Report, out string, took time.Duration) error {
	dearest := report.Rows[1]
	t := newTable(w, Column{Name: "strategy"}, Column{Name: "solved", Number: true}, Column{Name: "USD", Number: true},
		Column{Name: "of always " + report.Models[len(report.Models)-1], Number: true}, Column{Name: "calls", Number: true}, Column{Name: "time", Number: true})
	for _, r := range report.Rows {
		share := "-"
		if dearest.CostUSD > 0 {
			share = fmt.Sprintf("%.0f %%", 100*r.CostUSD/dearest.CostUSD)
		}
		t.AppendRow([]any{r.Strategy, fmt.Sprintf("%d/%d", r.Solved, r.Tasks), usd(r.CostUSD), share, r.Calls, short(r.Time)})
	}
	t.Render()
	p := &printer{w: w}
	p.walls(report)
	p.f("time: in models and tests, summed over the tasks; an answer seen before is not tested again.\n")
	if trace := telling(report); trace != nil {
		p.f("\nOne step of cascade routing, task %s:\n", trace.QueryID)
		for i, c := range trace.Calls {
			p.f("  %d. %-8s %5d tokens in, %4d out, %s USD: %s\n", i+1, c.Model, c.Usage.InputTokens, c.Usage.OutputTokens, usd(c.CostUSD), cameOf(&c))
			for _, b := range beliefs(trace, i) {
				p.f("       %s\n", b)
			}
		}
		p.f("  answer of %s, stopped because %s; %s USD, %s in stepfall itself\n", trace.Chosen, because(trace.Stop), usd(trace.CostUSD), short(trace.Overhead))
	}
	traces := filepath.Join(out, "traces.jsonl")
	p.f("\nThe picture is in %s (PNG and SVG), each step in %s. Took %s.\nWhy a step went as it did: stepfall trace explain -f %s\nAll of it in the browser: stepfall view %s\n",
		filepath.Join(out, "cost-quality.png"), traces, took.Round(100*time.Millisecond), traces, traces)
	return p.err
}

// walls says which layers of isolation the tests had to do without.
func (p *printer) walls(report *demo.Report) {
	for _, row := range report.Rows {
		for _, t := range row.Traces {
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

// telling returns a trace of cascade routing that escalated and was solved.
func telling(report *demo.Report) *sdk.Trace {
	var best *sdk.Trace
	for _, r := range report.Rows {
		if r.Strategy != "cascade routing" {
			continue
		}
		for _, t := range r.Traces {
			if demo.Solved(t) && (best == nil || len(t.Calls) > len(best.Calls)) {
				best = t
			}
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
