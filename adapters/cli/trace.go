package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

type traceFlags struct {
	store.Filter

	file, baseline string
	limit          int
	why            bool
	verdict        string
}

func newTraceCommand(s Streams) *cobra.Command {
	var f traceFlags
	cmd := &cobra.Command{
		Use:   "trace [TRACE]",
		Short: "What was asked, decided and spent? List steps, show one of them, or record how a run ended",
		Long: `List the newest steps, with the latest last, and their total cost. With TRACE (an id, the
beginning of one, or "last"), show the calls, costs and verdicts of that step; with --why,
also the basis of each decision.

The trace file is the one in the policy's trace block: JSON lines, SQLite or a store's URL.

With --verdict, record how the run of --run ended, like Router.Report and POST
/v1/verdicts. The verdict is a trace of its own, which fit, summaries and pages use. The
last verdict on a run counts, and "inconclusive: WHY" withdraws the earlier ones. A
verdict on a run without steps counts as soon as there is one. --verdict - reads verdicts
from standard input, one per line: the run, a space (or a tab, for names with spaces) and
the verdict. Invalid lines are reported, and the others recorded.`,
		Example: `  stepfall trace
  stepfall trace last --why
  stepfall trace --run order-17 --verdict "failed: the wrong item"
  stepfall trace --verdict - < verdicts.txt  # order-17 failed: the wrong item`,
		Args: cobra.MaximumNArgs(1), Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.verdict != "" && (len(args) > 0 || (f.Run == "") != (f.verdict == "-")):
				return usage("--verdict requires --run; --verdict - reads runs and verdicts from standard input")
			case f.verdict != "":
				return f.recordVerdicts(cmd.Context(), s)
			case len(args) > 0 || f.why:
				return f.show(cmd.Context(), s, strings.Join(args, ""))
			}
			return f.list(cmd.Context(), s)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "traces.jsonl", "trace file, - for standard input")
	flags.StringVar(&f.Run, "run", "", "only this run")
	flags.StringVar(&f.Session, "session", "", "only this session")
	flags.StringVar(&f.Tenant, "tenant", "", "only this tenant; with --verdict, the tenant of the run, if several have a run of that name")
	flags.BoolVar(&f.Failed, "failed", false, "only steps without an answer")
	flags.StringVar(&f.baseline, "baseline", "", "model to compare the spending with; the most expensive when absent")
	flags.IntVarP(&f.limit, "limit", "n", 20, "most steps to list, 0 for all")
	flags.BoolVar(&f.why, "why", false, "explain each decision and its basis")
	flags.StringVar(&f.verdict, "verdict", "", "how the run of --run ended: passed, failed or inconclusive, and why, such as \"failed: the wrong item\"; - reads lines of run and verdict from standard input")
	return cmd
}

// list prints the newest steps that the flags select, and the totals of all.
func (f *traceFlags) list(ctx context.Context, s Streams) (err error) {
	if f.limit < 0 {
		return usage("--limit %d: must not be negative", f.limit)
	}
	src, err := openTraces(ctx, s, f.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	account := &savings.Account{Baseline: f.baseline}
	listed := traceList{Steps: []listedStep{}}
	all, err := f.sum(ctx, src.Traces)
	if err != nil {
		return err
	}
	verifiers := verifierCounts{}
	err = view.EachTrace(ctx, src.Traces, f.Filter, func(t *sdk.Trace) {
		account.Record(ctx, t)
		if !sdk.IsStep(t.Mode) {
			return
		}
		verifiers.add(t)
		listed.Kept++
		if t.Stop == sdk.StopBudget {
			listed.Capped++
		}
		listed.Steps = append(listed.Steps, listedOf(step.RedactTrace(t, nil)))
		if f.limit > 0 && len(listed.Steps) > f.limit {
			listed.Steps = listed.Steps[1:]
		}
	})
	if err != nil {
		return err
	}
	if err := src.checkTraces(listed.Kept); err != nil {
		return err
	}
	listed.Savings = account.Result()
	listed.Total, listed.CostUSD, listed.Saved = listed.Kept, listed.Savings.SpentUSD, listed.Savings.String()
	if all.Steps > int64(listed.Kept) { // traces were pruned
		listed.Total, listed.CostUSD = int(all.Steps), all.CostUSD
	}
	if known := account.Candidates(); f.baseline != "" && listed.Kept > 0 && !slices.Contains(known, f.baseline) {
		return usage("--baseline %s: no step could have used this model; known models: %s", say.Short(f.baseline), strings.Join(known, ", "))
	}
	return s.render(listed, func(p *printer) {
		p.steps(&listed)
		verifiers.print(p)
		if listed.Kept < listed.Total && listed.Saved != "" {
			p.f("Of the steps whose traces are kept: ")
		}
		p.printSavings(&listed.Savings)
	})
}

func (p *printer) steps(listed *traceList) {
	tab := p.table(column{name: "trace"}, column{name: "start"}, column{name: "models asked"}, column{name: "answer of"},
		column{name: "stop"}, column{name: "USD", number: true}, column{name: "time", number: true})
	for i := range listed.Steps {
		t := &listed.Steps[i]
		tab.row(t.ID[:min(12, len(t.ID))], t.Start.Format(time.DateTime), t.models, cmp.Or(t.Chosen, "none"), string(t.Stop), usd(t.CostUSD), short(t.Duration))
	}
	tab.print()
	kept := ""
	if listed.Kept < listed.Total {
		kept = fmt.Sprintf("; the traces of %d are kept", listed.Kept)
	}
	p.f("%d of %d steps, %s USD in all%s\n", len(listed.Steps), listed.Total, usd(listed.CostUSD), kept)
	if listed.Capped > 0 {
		p.f("%d of %d steps were stopped by a cap (stop = budget_cap)\n", listed.Capped, listed.Kept)
	}
}

// sum returns the store's sums over all steps that the flags select, including pruned ones; the zero value where the
// store has no such sum.
func (f *traceFlags) sum(ctx context.Context, traces store.TraceReader) (all store.Sum, err error) {
	if f.Session != "" || f.Failed {
		return all, nil
	}
	var sums []store.Sum
	if f.Run != "" {
		sums, err = traces.Runs(ctx, store.Filter{Run: f.Run, Tenant: f.Tenant, Limit: math.MaxInt32})
	} else {
		sums, err = traces.Sums(ctx, nil, f.Filter)
	}
	for i := range sums {
		all.Steps += sums[i].Steps
		all.CostUSD += sums[i].CostUSD
	}
	return all, err
}

type traceList struct {
	Steps   []listedStep   `json:"steps"`
	Total   int            `json:"total"`
	Kept    int            `json:"traces_kept"`
	Capped  int            `json:"stopped_by_cap"`
	CostUSD float64        `json:"cost_usd"`
	Savings savings.Result `json:"savings"`
	Saved   string         `json:"saved,omitempty"`
}

type listedStep struct {
	ID       string         `json:"id"`
	Start    time.Time      `json:"start"`
	Asked    []string       `json:"asked"`
	Chosen   string         `json:"chosen,omitempty"`
	Stop     sdk.StopReason `json:"stop"`
	Error    string         `json:"error,omitempty"`
	CostUSD  float64        `json:"cost_usd"`
	Duration time.Duration  `json:"duration_ns"`

	models string // the models asked, as text
}

func listedOf(t *sdk.Trace) listedStep {
	s := listedStep{t.ID, t.Start, []string{}, t.Chosen, t.Stop, t.Error, t.CostUSD, t.Duration, modelsAsked(t)}
	for k := range t.Calls {
		s.Asked = append(s.Asked, t.Calls[k].Model)
	}
	return s
}

// verifierCounts counts answers by verifier.
type verifierCounts map[string]verifierCount

type verifierCount struct {
	asked, judged int
	evidence      string // of the newest inconclusive verdict
}

func (m verifierCounts) add(t *sdk.Trace) {
	for i := range t.Calls {
		v := t.Calls[i].Verdict
		if v == nil || v.Verifier == "" {
			continue
		}
		one := m[v.Verifier]
		one.asked++
		if v.Outcome == sdk.Inconclusive && v.Confidence == 0 { // else an uncertain pass, see router.Wrap
			one.evidence = v.Evidence
		} else {
			one.judged++
		}
		m[v.Verifier] = one
	}
}

// print warns of verifiers that never gave a verdict, such as one whose program cannot be started.
func (m verifierCounts) print(p *printer) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if one := m[name]; one.judged == 0 {
			evidence := gist((*redact.Redactor)(nil).Text(one.evidence))
			if evidence != "" {
				evidence = "; its last message: " + evidence
			}
			p.f("NO VERDICT of %s on any of %s%s\n", name, count(one.asked, "answer"), evidence)
		}
	}
}

func (p *printer) printSavings(result *savings.Result) {
	if text := result.String(); text != "" {
		p.f("%s\n", text)
	}
}

// modelsAsked lists the models of a step in the order of the calls, such as "small x2 > large".
func modelsAsked(t *sdk.Trace) string {
	var b strings.Builder
	for i := 0; i < len(t.Calls); {
		tries := i
		for tries < len(t.Calls) && t.Calls[tries].Model == t.Calls[i].Model {
			tries++
		}
		if b.Len() > 0 {
			b.WriteString(" > ")
		}
		b.WriteString(t.Calls[i].Model)
		if tries-i > 1 {
			fmt.Fprintf(&b, " x%d", tries-i)
		}
		i = tries
	}
	return b.String()
}

func usd(x float64) string { return fmt.Sprintf("%.6f", x) }

func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

// find returns the redacted trace of an id, by default of the last step.
func (f *traceFlags) find(ctx context.Context, s Streams, name string) (_ *sdk.Trace, err error) {
	src, err := openTraces(ctx, s, f.file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	if name == "last" || name == "" {
		if name, err = newestStep(ctx, src.Traces); err != nil {
			return nil, err
		}
		if name == "" {
			return nil, fmt.Errorf("%s has no traces of steps yet", f.file)
		}
	}
	t, err := src.Traces.Trace(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%s has no trace %s; see 'stepfall trace'", f.file, name)
	}
	if err != nil {
		return nil, err
	}
	return step.RedactTrace(t, nil), nil // another tool may have written it without redaction
}

// newestStep returns the id of the step that started last, or "".
func newestStep(ctx context.Context, traces store.TraceReader) (string, error) {
	for page := (store.Filter{}); ; {
		lines, err := traces.Steps(ctx, page)
		if err != nil || len(lines) == 0 {
			return "", err
		}
		for i := range lines {
			if sdk.IsStep(lines[i].Mode) {
				return lines[i].ID, nil
			}
		}
		page.Before = &lines[len(lines)-1]
	}
}

func (f *traceFlags) show(ctx context.Context, s Streams, name string) error {
	t, err := f.find(ctx, s, name)
	if err != nil {
		return err
	}
	if f.why {
		return s.render(decisionsOf(t), func(p *printer) { p.explain(t) })
	}
	return s.render(t, func(p *printer) { p.calls(t) })
}

func (p *printer) calls(t *sdk.Trace) {
	p.head(t)
	if !sdk.IsStep(t.Mode) {
		return
	}
	p.callTable(t.Calls)
	p.causes(t)
	for _, c := range t.Calls {
		if c.UsageDoubt != "" {
			p.f("\nthe usage of %s is estimated: %s\n", c.Model, c.UsageDoubt)
		}
		if len(c.NotSent) > 0 {
			p.f("\nnot sent to %s, whose API cannot express it: %s\n", c.Model, strings.Join(c.NotSent, ", "))
		}
	}
	for _, c := range t.Calls {
		if c.Answer != "" {
			p.f("\n%s said:\n%s\n", c.Model, c.Answer)
		}
	}
}

func (p *printer) callTable(calls []sdk.Call) {
	tab := p.table(column{name: "call"}, column{name: "try", number: true}, column{name: "in", number: true}, column{name: "out", number: true},
		column{name: "USD", number: true}, column{name: "time", number: true}, column{name: "quality", number: true}, column{name: "verdict"}, column{name: "judged in", number: true})
	for _, c := range calls {
		quality, judged := "", ""
		if c.Error == "" {
			quality = fmt.Sprintf("%.3f", c.Quality.Mean)
		}
		if c.Verdict != nil && c.Verdict.Duration > 0 {
			judged = short(c.Verdict.Duration)
		}
		model := c.Model
		if c.Deployment != "" {
			model += " (" + c.Deployment + ")"
		}
		tab.row(model, c.Attempt, c.Usage.InputTokens+c.Usage.CachedInputTokens+c.Usage.CacheWriteTokens,
			c.Usage.OutputTokens+c.Usage.ReasoningTokens, usd(c.CostUSD), short(c.Latency), quality, callSummary(&c), judged)
	}
	tab.print()
}

// callSummary describes the result of a call in one line.
func callSummary(c *sdk.Call) string {
	if c.Error != "" && !c.Failed() {
		return "cancelled: its answer was no longer needed"
	}
	if c.Failed() {
		return "error: " + oneLine(c.Error)
	}
	return verdictSummary(c.Verdict)
}

// verdictSummary describes a verdict, which can be nil, in one line.
func verdictSummary(v *sdk.Verdict) string {
	if v == nil {
		return ""
	}
	text := v.Outcome.String()
	if v.Verifier != "" {
		text += " by " + v.Verifier
	}
	if v.Evidence != "" {
		text += ": " + oneLine(v.Evidence)
	}
	return text
}

func oneLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}
