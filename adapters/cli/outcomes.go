package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/redact"
)

type outcomeFlags struct {
	prompts, models string
	verified        bool
	chosen          bool // see [outcome.Options]
	cmd             *cobra.Command
}

func (f *outcomeFlags) add(cmd *cobra.Command) {
	f.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&f.prompts, "prompts", "", "JSON lines with query_id and prompt, for tables without prompts")
	flags.StringVar(&f.models, "models", "all", "models to include: all, or names separated by commas")
	flags.BoolVar(&f.verified, "verified", false, "qualities are verdicts of a check that also runs in production, such as unit tests")
}

// singleFile is a flag that names one file: a second value is an error rather than a replacement nobody notices.
type singleFile struct{ path *string }

// Set implements [pflag.Value].
func (f singleFile) Set(path string) error {
	if *f.path != "" {
		return fmt.Errorf("one file is read, and %s is given already: join them, or name a store of traces", redact.Addresses(*f.path))
	}
	*f.path = path
	return nil
}

// String implements [pflag.Value].
func (f singleFile) String() string { return "" }

// Type implements [pflag.Value].
func (f singleFile) Type() string { return "string" }

// open reads outcomes, with costs at the prices of a policy, which can be nil.
func (f *outcomeFlags) open(path string, policy *policies.Policy) (*outcome.Table, error) {
	warn := f.cmd.ErrOrStderr()
	o := outcome.Options{Prompts: f.prompts, Verified: f.verified, Chosen: f.chosen, LeftOut: warnNotTrace(warn), Prices: pricesOf(policy)}
	o.Converted = func(model string, was sdk.Price) { warnConverted(warn, model, was, o.Prices[model]) }
	o.Rotated = func(file string) { fmt.Fprintf(warn, "%s: read too: older traces\n", say.Plain(file)) }
	table, err := openTable(f.cmd.Context(), path, o)
	if err == nil && !o.Verified && table.StepVerdicts != nil && policy != nil && slices.ContainsFunc(policy.Verifiers, func(v policies.Verifier) bool { return v.Judges() }) {
		o.Rotated = nil
		o.Verified = true // verdicts of the policy's judges beside those on runs
		table, err = openTable(f.cmd.Context(), path, o)
	}
	if err != nil {
		return nil, err
	}
	warnLabels(warn, table)
	warnOtherPrices(warn, table, o.Prices)
	subset, err := table.Subset(f.models)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redact.Addresses(path), err)
	}
	return subset, nil
}

// warnLabels warns if the qualities of a table are labels that do not measure quality.
func warnLabels(warn io.Writer, t *outcome.Table) {
	if t.Labels != "" {
		fmt.Fprintf(warn, "stepfall: \"quality\" is %s here: enough to choose models, not to measure quality\n", say.Plain(t.Labels))
	}
}

// warnNotTrace returns a function that warns of a line that is not a trace, such as one cut off by a crash.
func warnNotTrace(warn io.Writer) func(file string, line int) {
	return func(file string, line int) {
		fmt.Fprintf(warn, "%s:%d: skipped: not a trace\n", say.Plain(file), line)
	}
}

func newOutcomesCommand(s Streams) *cobra.Command {
	var f outcomeFlags
	var out string
	cmd := &cobra.Command{
		Use:   "outcomes FILE [--out CSV]",
		Short: "What do recorded outcomes contain? Summarize them, or convert them to long CSV",
		Long: "Summarize a file of outcomes: models, cost, quality, and what is missing.\n\n" +
			"With --out, convert outcomes of any supported format to long CSV.",
		Example: "  stepfall outcomes runs.csv\n  stepfall outcomes traces.jsonl --models small,large\n" +
			"  stepfall outcomes leaderboards.json --out swebench.csv\n" +
			"  stepfall outcomes 'openhands-index-results/results/*/instance_results/swe-bench.json' --out openhands_swe.csv",
		Args:        cobra.ExactArgs(1),
		Annotations: hasJSON(),
		RunE: func(_ *cobra.Command, args []string) error {
			table, err := f.open(args[0], nil)
			if err != nil {
				return err
			}
			if out == "" {
				summary := table.Describe()
				return s.render(newOutcomeSummary(summary), func(p *printer) {
					p.outcomes(args[0], summary)
					p.judges(table)
				})
			}
			if err := writeFile(out, table.WriteCSV); err != nil {
				return err
			}
			written := struct {
				File    string `json:"file"`
				Queries int    `json:"queries"`
				Models  int    `json:"models"`
			}{out, len(table.Queries), len(table.Models)}
			return s.render(written, func(p *printer) { p.f("%s: %d queries by %d models\n", written.File, written.Queries, written.Models) })
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&out, "out", "", "write the outcomes to this file, as long CSV")
	return cmd
}

func newOutcomeSummary(d outcome.Summary) any {
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

func (p *printer) outcomes(path string, d outcome.Summary) {
	complete := count(d.Complete, "query") + " have"
	if d.Complete == 1 {
		complete = "1 query has"
	}
	p.f("%s: %s by %s; %s every model\n", path, count(d.Queries, "query"), count(len(d.Models), "model"), complete)
	var groups []string
	for _, g := range d.Groups {
		groups = append(groups, fmt.Sprintf("%s %d", cmp.Or(g.Name, "(none)"), g.Queries))
	}
	if len(groups) > 1 || d.Groups[0].Name != "" {
		p.f("groups: %s\n", strings.Join(groups, ", "))
	}
	if has := columnsOf(d); len(has) > 0 {
		p.f("further columns: %s\n", strings.Join(has, ", "))
	}
	table := p.table(column{name: "model"}, column{"quality %", true}, column{"USD per query", true}, column{"missing", true}, column{name: "Pareto front"})
	for _, m := range d.Models {
		front := ""
		if m.Pareto {
			front = "yes"
		}
		table.row(m.Name, percent(m.Quality), dollars(m.CostUSD), m.Missing, front)
	}
	oracle := "oracle"
	if d.Complete < d.Queries {
		oracle = "oracle, of " + count(d.Complete, "complete query")
	}
	table.row(oracle, percent(d.OracleQuality), dollars(d.OracleCostUSD), "", "")
	table.print()
	if d.Complete < d.Queries && d.Complete > 0 {
		p.f("a model's figures cover the queries that it has outcomes for, the oracle's those that all models have: these may be different queries, so the oracle can be below a model\n")
	}
}

func (p *printer) judges(t *outcome.Table) {
	for _, judge := range t.Judges() {
		var said, passed [2]int // verdicts on wrong answers and on right ones
		empty := 0
		for q, row := range t.Verdicts[judge] {
			for m, v := range row {
				switch quality := outcome.At(t.Quality, q, m); {
				case math.IsNaN(quality):
				case math.IsNaN(v):
					empty++
				default:
					right := int(math.Round(quality))
					said[right]++
					passed[right] += int(math.Round(v))
				}
			}
		}
		p.f("verdict_%s: %s, and %d without one; passes %d of %d wrong answers and rejects %d of %d right ones\n",
			judge, count(said[0]+said[1], "answer"), empty, passed[0], said[0], said[1]-passed[1], said[1])
	}
}

// percent formats a share in per cent, NaN as "-".
func percent(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*v)
}

// dollars formats an amount with four significant digits, NaN as "-".
func dollars(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
