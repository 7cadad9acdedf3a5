package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// traceFlags are the flags of stepfall trace and its commands.
type traceFlags struct {
	store.Filter

	file     string
	limit    int
	why      bool
	baseline string
}

func newTraceCommand(s Streams) *cobra.Command {
	var f traceFlags
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "What was asked, decided and spent? Look at the records of steps",
		Long: `What was asked, decided and spent? Looks at the records of steps.

A trace file is what the policy's trace block names: JSON lines, SQLite or a store's URL.
Traces are named by their id or the beginning of it, the last one by "last".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVarP(&f.file, "file", "f", "traces.jsonl", "the trace file, - for standard input")

	ls := &cobra.Command{
		Use: "ls", Short: "List steps, the newest last, and what they come to", Args: cobra.NoArgs, Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.ls(cmd.Context(), s) },
	}
	ls.Flags().StringVar(&f.Run, "run", "", "only this run")
	ls.Flags().StringVar(&f.Session, "session", "", "only this session")
	ls.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant")
	ls.Flags().BoolVar(&f.Failed, "failed", false, "only steps without an answer")
	ls.Flags().StringVar(&f.baseline, "baseline", "", "the model to compare the spending with: the dearest when absent")
	ls.Flags().IntVarP(&f.limit, "limit", "n", 20, "at most so many, 0 for all")

	show := &cobra.Command{
		Use:   "show [TRACE]",
		Short: "Show the calls, costs and verdicts of one step, by default the last, or why each decision was taken",
		Args:  cobra.MaximumNArgs(1), Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error { return f.show(cmd.Context(), s, traceName(args)) },
	}
	show.Flags().BoolVar(&f.why, "why", false, "say why each decision was taken, with what it rests on")

	var v sdk.Verdict
	verdict := &cobra.Command{
		Use:   "verdict RUN passed|failed|inconclusive",
		Short: "Record how a run ended, when that is known",
		Long: `Records how a run ended, when that is known, as Router.Report and POST /v1/verdicts do.

The verdict is a trace of its own. The last one on a run stands; fit, summaries and pages
take it from there.`,
		Args: cobra.ExactArgs(2), Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.Outcome.UnmarshalText([]byte(args[1])); err != nil {
				return usage("%v: want passed, failed or inconclusive", err)
			}
			return f.recordVerdict(cmd.Context(), s, args[0], &v)
		},
	}
	verdict.Flags().StringVar(&f.Tenant, "tenant", "", "whose run it is")
	verdict.Flags().StringVar(&v.Evidence, "evidence", "", "why, for those who read it")
	cmd.AddCommand(ls, show, verdict)
	return cmd
}

// recordVerdict adds a verdict on a run to the traces.
func (f *traceFlags) recordVerdict(ctx context.Context, s Streams, run string, v *sdk.Verdict) (err error) {
	t, err := step.VerdictTrace(run, f.Tenant, v)
	if err != nil {
		return usage("%v", err)
	}
	src, err := openTraces(ctx, s, f.file)
	if err != nil {
		return err
	}
	steps := 0
	f.Run = run
	err = view.Each(ctx, src.Traces, f.Filter, func(t *sdk.Trace) {
		if sdk.IsStep(t.Mode) {
			steps++
		}
	})
	shared, isStore := src.Traces.(*store.Shared)
	defer func() { err = errors.Join(err, src.close()) }()
	switch {
	case err != nil:
		return err
	case f.file == "-":
		return usage("--file -: a verdict is added to a file or a store")
	case isStore:
		step.Redact(shared.Record, nil)(ctx, t)
	default:
		lines, err := step.OpenJSONLines(f.file, 0, 0)
		if err != nil {
			return err
		}
		step.Redact(lines.Record, nil)(ctx, t)
		if err := lines.Close(); err != nil {
			return err
		}
	}
	if steps == 0 {
		fmt.Fprintf(s.Err, "no step of a run %s is recorded in %s yet\n", say.Plain(run), f.file)
	}
	return s.render(t, func(p *printer) { p.f("run %s %s: recorded in %s\n", say.Plain(run), v.Outcome, f.file) })
}

// traceName returns the trace that the arguments name.
func traceName(args []string) string {
	if len(args) == 0 {
		return "last"
	}
	return args[0]
}

// ls lists the newest steps that the flags select, and says what all of them come to.
func (f *traceFlags) ls(ctx context.Context, s Streams) (err error) {
	if f.limit < 0 {
		return usage("--limit %d is negative", f.limit)
	}
	src, err := openTraces(ctx, s, f.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	account := &savings.Account{Baseline: f.baseline}
	listed := traceList{Steps: []listedStep{}}
	verifiers := verifierCounts{}
	err = view.Each(ctx, src.Traces, f.Filter, func(t *sdk.Trace) {
		account.Record(ctx, t)
		if !sdk.IsStep(t.Mode) {
			return
		}
		verifiers.add(t)
		listed.Total++
		listed.Steps = append(listed.Steps, listedOf(cleaned(ctx, t)))
		if f.limit > 0 && len(listed.Steps) > f.limit {
			listed.Steps = listed.Steps[1:]
		}
	})
	if err != nil {
		return err
	}
	listed.Savings = account.Result()
	listed.CostUSD, listed.Saved = listed.Savings.SpentUSD, listed.Savings.String()
	if known := account.Candidates(); f.baseline != "" && listed.Total > 0 && !slices.Contains(known, f.baseline) {
		return usage("--baseline %s: no step could have been asked of it; there are %s", say.Short(f.baseline), strings.Join(known, ", "))
	}
	return s.render(listed, func(p *printer) {
		tab := p.table(column{name: "trace"}, column{name: "start"}, column{name: "models asked"}, column{name: "answer of"},
			column{name: "stop"}, column{name: "USD", number: true}, column{name: "time", number: true})
		for i := range listed.Steps {
			t := &listed.Steps[i]
			tab.row(t.ID[:min(12, len(t.ID))], t.Start.Format(time.DateTime), t.models, cmp.Or(t.Chosen, "none"), string(t.Stop), usd(t.CostUSD), short(t.Duration))
		}
		tab.print()
		p.f("%d of %d steps, %s USD in all\n", len(listed.Steps), listed.Total, usd(listed.CostUSD))
		verifiers.print(p)
		p.saved(&listed.Savings)
	})
}

// traceList is what trace ls finds.
type traceList struct {
	Steps   []listedStep   `json:"steps"`
	Total   int            `json:"total"`
	CostUSD float64        `json:"cost_usd"`
	Savings savings.Result `json:"savings"`
	Saved   string         `json:"saved,omitempty"`
}

// listedStep is one step of it.
type listedStep struct {
	ID       string         `json:"id"`
	Start    time.Time      `json:"start"`
	Asked    []string       `json:"asked"`
	Chosen   string         `json:"chosen,omitempty"`
	Stop     sdk.StopReason `json:"stop"`
	Error    string         `json:"error,omitempty"`
	CostUSD  float64        `json:"cost_usd"`
	Duration time.Duration  `json:"duration_ns"`

	models string // that were asked, in words
}

func listedOf(t *sdk.Trace) listedStep {
	s := listedStep{t.ID, t.Start, []string{}, t.Chosen, t.Stop, t.Error, t.CostUSD, t.Duration, asked(t)}
	for k := range t.Calls {
		s.Asked = append(s.Asked, t.Calls[k].Model)
	}
	return s
}

// verifierCounts are how many answers each verifier was asked about.
type verifierCounts map[string]*verifierCount

type verifierCount struct {
	asked, judged int
	evidence      string // of the newest verdict that says nothing
}

func (m verifierCounts) add(t *sdk.Trace) {
	for i := range t.Calls {
		v := t.Calls[i].Verdict
		if v == nil || v.Verifier == "" {
			continue
		}
		if m[v.Verifier] == nil {
			m[v.Verifier] = new(verifierCount)
		}
		one := m[v.Verifier]
		one.asked++
		if v.Outcome == sdk.Inconclusive {
			one.evidence = v.Evidence
		} else {
			one.judged++
		}
	}
}

// print warns of verifiers that never gave a verdict, as one does whose program cannot be
// started.
func (m verifierCounts) print(p *printer) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if one := m[name]; one.judged == 0 {
			evidence := gist((*redact.Redactor)(nil).Text(one.evidence))
			if evidence != "" {
				evidence = "; it said last: " + evidence
			}
			p.f("NO VERDICT of %s on any of %s%s\n", name, count(one.asked, "answer"), evidence)
		}
	}
}

// saved closes a summary.
func (p *printer) saved(result *savings.Result) {
	if text := result.String(); text != "" {
		p.f("%s\n", text)
	}
}

// asked names the models of a step in the order of the calls, with the number of
// tries where it is not one.
func asked(t *sdk.Trace) string {
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

// cleaned returns a trace without what looks like a key: those that other tools wrote
// were not cleaned when they were made.
func cleaned(ctx context.Context, t *sdk.Trace) (clean *sdk.Trace) {
	step.Redact(func(_ context.Context, own *sdk.Trace) { clean = own }, nil)(ctx, t)
	return clean
}

// find returns the trace that the name means, cleaned.
func (f *traceFlags) find(ctx context.Context, s Streams, name string) (_ *sdk.Trace, err error) {
	src, err := openTraces(ctx, s, f.file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	newest := "" // the step that was recorded last
	for last := int64(0); ; {
		lines, err := src.Traces.Follow(ctx, last, store.Filter{Limit: 10_000})
		if err != nil {
			return nil, err
		}
		if len(lines) == 0 {
			break
		}
		for i := range lines {
			if sdk.IsStep(lines[i].Mode) {
				newest = lines[i].ID
			}
			last = lines[i].Seq
		}
	}
	if name == "last" {
		if name = newest; name == "" {
			return nil, fmt.Errorf("%s has no traces of steps yet", f.file)
		}
	}
	t, err := src.Traces.Trace(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%s has no trace %s; see 'stepfall trace ls'", f.file, name)
	}
	if err != nil {
		return nil, err
	}
	return cleaned(ctx, t), nil
}

// show prints the calls of a step, or its decisions.
func (f *traceFlags) show(ctx context.Context, s Streams, name string) error {
	t, err := f.find(ctx, s, name)
	if err != nil {
		return err
	}
	if f.why {
		return s.render(explained(t), func(p *printer) { p.explain(t) })
	}
	return s.render(t, func(p *printer) { p.calls(t) })
}

func (p *printer) calls(t *sdk.Trace) {
	p.head(t)
	if !sdk.IsStep(t.Mode) {
		return
	}
	tab := p.table(column{name: "call"}, column{name: "try", number: true}, column{name: "in", number: true}, column{name: "out", number: true},
		column{name: "USD", number: true}, column{name: "time", number: true}, column{name: "quality", number: true}, column{name: "verdict"}, column{name: "judged in", number: true})
	for _, c := range t.Calls {
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
	p.causes(t)
	for _, c := range t.Calls {
		if len(c.NotSent) > 0 {
			p.f("\nnot sent to %s, whose API has no word for it: %s\n", c.Model, strings.Join(c.NotSent, ", "))
		}
	}
	for _, c := range t.Calls {
		if c.Answer != "" {
			p.f("\n%s said:\n%s\n", c.Model, c.Answer)
		}
	}
}

// callSummary says in a few words what came of a call.
func callSummary(c *sdk.Call) string {
	if c.Error != "" && !c.Failed() {
		return "cancelled: its answer was not needed any more"
	}
	if c.Failed() {
		return "error: " + oneLine(c.Error)
	}
	return verdictSummary(c.Verdict)
}

// verdictSummary is one line about a verdict, which may be nil.
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

// oneLine returns the first line of a text.
func oneLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}
