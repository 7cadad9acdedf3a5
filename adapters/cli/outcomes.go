package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// outcomeFlags are the flags of the commands that read outcomes.
type outcomeFlags struct {
	prompts, models string
	verified        bool
	cmd             *cobra.Command
}

func (f *outcomeFlags) add(cmd *cobra.Command) {
	f.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&f.prompts, "prompts", "", "JSON lines with query_id and prompt, for tables without prompts")
	flags.StringVar(&f.models, "models", "all", "the models to keep: all, or names separated by commas")
	flags.BoolVar(&f.verified, "verified", false, "qualities are verdicts of a check that will be there in use, such as unit tests")
}

func (f *outcomeFlags) open(path string) (*outcome.Table, error) {
	table, err := openTable(f.cmd.Context(), path, outcome.Options{Prompts: f.prompts, Verified: f.verified, LeftOut: f.leftOut})
	if err != nil {
		return nil, err
	}
	warnLabels(f.cmd.ErrOrStderr(), table)
	return table.Subset(f.models)
}

// warnLabels says what the qualities of a table are where they measure none.
func warnLabels(warn io.Writer, t *outcome.Table) {
	if t.Labels != "" {
		fmt.Fprintf(warn, "stepfall: \"quality\" is %s here: good for choosing, and no measure of quality\n", say.Plain(t.Labels))
	}
}

// leftOut tells of a line of a trace file that is none.
func (f *outcomeFlags) leftOut(file string, line int) { leftOut(f.cmd.ErrOrStderr())(file, line) }

// leftOut returns what tells on warn of lines of a trace file that are none, as a crash
// leaves one behind.
func leftOut(warn io.Writer) func(file string, line int) {
	return func(file string, line int) {
		fmt.Fprintf(warn, "%s:%d: left out: not a trace\n", say.Plain(file), line)
	}
}

// outcomesFlags are the flags of stepfall outcomes.
type outcomesFlags struct {
	outcomeFlags
	out, like, promptsOut string
}

func newOutcomesCommand(s Streams) *cobra.Command {
	var f outcomesFlags
	cmd := &cobra.Command{
		Use:   "outcomes FILE [--out CSV]",
		Short: "What do recorded outcomes hold? Summarise a file, or write it as long CSV",
		Long: "What do recorded outcomes hold? Summarises a file of outcomes: models, cost, quality, what is missing.\n\n" +
			"With --out, outcomes of any format are written as long CSV.",
		Example: "  stepfall outcomes runs.csv\n  stepfall outcomes traces.jsonl --models small,large\n" +
			"  stepfall outcomes leaderboards.json --out swebench.csv\n" +
			"  stepfall outcomes 'openhands-index-results/results/*/instance_results/swe-bench.json' --out openhands_swe.csv\n" +
			"  stepfall outcomes 'reasoning-gym-eval/reasoninggym-paper-experiments/zero-shot/easy/*/*/*.json' --out reasoning_gym.csv",
		Args:        cobra.ExactArgs(1),
		Annotations: hasJSON(),
		RunE:        func(_ *cobra.Command, args []string) error { return f.run(s, args[0]) },
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.out, "out", "", "write the outcomes to this file, as long CSV")
	cmd.Flags().StringVar(&f.like, "like", "", "outcomes whose queries are kept, and no others, in their order")
	cmd.Flags().StringVar(&f.promptsOut, "prompts-out", "", "with --out, also write the prompts, as JSON lines that --prompts reads")
	return cmd
}

func (f *outcomesFlags) run(s Streams, path string) error {
	table, err := f.openLike(path, f.like)
	if err != nil {
		return err
	}
	if f.out == "" {
		if f.promptsOut != "" {
			return usage("--prompts-out goes with --out: the file to write")
		}
		summary := table.Describe()
		return s.render(described(summary), func(p *printer) { describe(p, path, summary) })
	}
	if f.promptsOut != "" && table.Prompts == nil {
		return fmt.Errorf("--prompts-out: the outcomes have no prompts")
	}
	if err := writeFile(f.out, table.WriteCSV); err != nil {
		return err
	}
	if f.promptsOut != "" {
		if err := writeFile(f.promptsOut, func(w io.Writer) error { return writePrompts(w, table) }); err != nil {
			return err
		}
	}
	written := struct {
		File    string `json:"file"`
		Queries int    `json:"queries"`
		Models  int    `json:"models"`
	}{f.out, len(table.Queries), len(table.Models)}
	return s.render(written, func(p *printer) { p.f("%s: %d queries by %d models\n", written.File, written.Queries, written.Models) })
}

// openLike opens outcomes, and keeps the queries of another file, in their order.
func (f *outcomeFlags) openLike(path, like string) (*outcome.Table, error) {
	table, err := f.open(path)
	if err != nil || like == "" {
		return table, err
	}
	other, err := openTable(f.cmd.Context(), like, outcome.Options{LeftOut: f.leftOut})
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for q, id := range table.Queries {
		at[id] = q
	}
	rows := make([]int, 0, len(other.Queries))
	for _, id := range other.Queries {
		q, has := at[id]
		if !has {
			return nil, fmt.Errorf("%s: no outcomes of query %q, which %s has", path, id, like)
		}
		rows = append(rows, q)
	}
	return table.Rows(rows), nil
}

// writePrompts writes a line of JSON for each query.
func writePrompts(w io.Writer, t *outcome.Table) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for q, id := range t.Queries {
		if err := enc.Encode(struct {
			Query  string `json:"query_id"`
			Group  string `json:"group,omitempty"`
			Prompt string `json:"prompt"`
		}{id, t.Group(q), t.Prompts[q]}); err != nil {
			return err
		}
	}
	return nil
}

// described is what `outcomes --json` prints.
func described(d outcome.Summary) any {
	known := func(x float64) *float64 {
		if math.IsNaN(x) {
			return nil
		}
		return &x
	}
	type model struct {
		Model   string   `json:"model"`
		Quality *float64 `json:"quality"`
		CostUSD *float64 `json:"cost_usd"`
		Missing int      `json:"missing"`
		Pareto  bool     `json:"pareto"`
	}
	out := struct {
		Queries  int            `json:"queries"`
		Complete int            `json:"complete"`
		Groups   map[string]int `json:"groups"`
		Columns  []string       `json:"columns"`
		Models   []model        `json:"models"`
		Oracle   model          `json:"oracle"`
	}{d.Queries, d.Complete, map[string]int{}, columnsOf(d), []model{}, model{"oracle", known(d.OracleQuality), known(d.OracleCostUSD), 0, true}}
	for _, g := range d.Groups {
		out.Groups[g.Name] = g.Queries
	}
	for _, m := range d.Models {
		out.Models = append(out.Models, model{m.Name, known(m.Quality), known(m.CostUSD), m.Missing, m.Pareto})
	}
	return out
}

// columnsOf names what a table has beside quality and cost.
func columnsOf(d outcome.Summary) []string {
	has := []string{}
	for _, column := range []struct {
		name    string
		present bool
	}{
		{"prompts", d.Prompts},
		{"answers", d.Answers},
		{"tokens", d.Tokens},
		{"latency", d.Latency},
		{"ex-ante signals", d.Ante},
		{"post-hoc signals", d.Post},
		{"verdicts", d.Verified},
	} {
		if column.present {
			has = append(has, column.name)
		}
	}
	return append(has, d.Signals...)
}

func describe(p *printer, path string, d outcome.Summary) {
	p.f("%s: %d queries by %d models; %d queries have every model\n", path, d.Queries, len(d.Models), d.Complete)
	if len(d.Groups) > 1 || d.Groups[0].Name != "" {
		names := make([]string, len(d.Groups))
		for i, g := range d.Groups {
			name := g.Name
			if name == "" {
				name = "(none)"
			}
			names[i] = fmt.Sprintf("%s %d", name, g.Queries)
		}
		p.f("groups: %s\n", strings.Join(names, ", "))
	}
	has := columnsOf(d)
	if len(has) > 0 {
		p.f("beside quality and cost: %s\n", strings.Join(has, ", "))
	}
	table := p.table(column{name: "model"}, column{"quality %", true}, column{"USD per query", true}, column{"missing", true}, column{name: "Pareto front"})
	for _, m := range d.Models {
		front := ""
		if m.Pareto {
			front = "yes"
		}
		table.row(m.Name, percent(m.Quality), dollars(m.CostUSD), m.Missing, front)
	}
	table.row("oracle", percent(d.OracleQuality), dollars(d.OracleCostUSD), "", "")
	table.print()
}

// percent prints a share in per cent, and nothing for NaN.
func percent(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*v)
}

// dollars prints an amount to four figures.
func dollars(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
