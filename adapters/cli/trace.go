package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// traceFlags are the flags of stepfall trace and its commands.
type traceFlags struct {
	file                 string
	run, session, tenant string
	failed               bool
	limit                int
	json                 bool
	baseline             string
}

func newTraceCommand(s Streams) *cobra.Command {
	var f traceFlags
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Look at the records of steps: what was asked, decided, spent",
		Long: `Look at the records of steps: what was asked, decided, spent.

A trace file is what the policy's trace block names: JSON lines or SQLite.
Traces are named by their id or the beginning of it, the last one by "last".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVarP(&f.file, "file", "f", "traces.jsonl", "the trace file, - for standard input")

	ls := &cobra.Command{
		Use: "ls", Short: "List steps, the newest last", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.ls(cmd.Context(), s) },
	}
	ls.Flags().StringVar(&f.run, "run", "", "only this run")
	ls.Flags().StringVar(&f.session, "session", "", "only this session")
	ls.Flags().StringVar(&f.tenant, "tenant", "", "only this tenant")
	ls.Flags().BoolVar(&f.failed, "failed", false, "only steps without an answer")
	ls.Flags().StringVar(&f.baseline, "baseline", "", "the model to compare the spending with: the dearest when absent")
	ls.Flags().BoolVar(&f.json, "json", false, "print JSON: the steps as listed, their number and cost in all, and what was saved")
	ls.Flags().IntVarP(&f.limit, "limit", "n", 20, "at most so many, 0 for all")

	show := &cobra.Command{
		Use: "show [TRACE]", Short: "Show the calls, costs and verdicts of one step, by default the last", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.show(cmd.Context(), s, traceName(args)) },
	}
	show.Flags().BoolVar(&f.json, "json", false, "print the whole record as JSON")

	explain := &cobra.Command{
		Use: "explain [TRACE]", Short: "Say why each decision of one step was taken, by default the last", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.explain(cmd.Context(), s, traceName(args)) },
	}
	explain.Flags().BoolVar(&f.json, "json", false, "print the decisions as JSON, each with what it rests on and a sentence")
	cmd.AddCommand(ls, show, explain)
	return cmd
}

// traceName returns the trace that the arguments name.
func traceName(args []string) string {
	if len(args) == 0 {
		return "last"
	}
	return args[0]
}

// sqliteMagic begins every SQLite file.
var sqliteMagic = []byte("SQLite format 3\x00")

// each gives the traces of the file to yield in the order in which they ended.
func (f *traceFlags) each(ctx context.Context, s Streams, yield func(*sdk.Trace)) error {
	if f.file == "-" {
		return eachLine(ctx, "standard input", s.In, s.Err, yield)
	}
	file, err := os.Open(f.file)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w\nA policy with trace { file = %q } writes one; --file names another", err, f.file)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	r := bufio.NewReader(file)
	if head, err := r.Peek(len(sqliteMagic)); err != nil || !bytes.Equal(head, sqliteMagic) {
		return eachLine(ctx, f.file, r, s.Err, yield)
	}
	db, err := sqlite.Open(ctx, f.file)
	if err != nil {
		return err
	}
	defer db.Close()
	for last := int64(0); ; {
		steps, err := db.Follow(ctx, last, store.Filter{Limit: 1000})
		if err != nil || len(steps) == 0 {
			return err
		}
		for _, one := range steps {
			t, err := db.Trace(ctx, one.ID)
			if err != nil {
				return err
			}
			yield(t)
			last = one.Seq
		}
	}
}

// eachLine reads JSON lines. Lines that are no trace, such as one that a crash cut
// short, are named on warn and left out.
func eachLine(ctx context.Context, name string, from io.Reader, warn io.Writer, yield func(*sdk.Trace)) error {
	r := bufio.NewReader(from)
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := r.ReadBytes('\n')
		cut := errors.Is(err, io.EOF)
		if err != nil && !cut {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			t := new(sdk.Trace)
			if err := json.Unmarshal(line, t); err != nil || t.ID == "" {
				fmt.Fprintf(warn, "%s:%d: left out: not a trace\n", name, n)
			} else {
				yield(t)
			}
		}
		if cut {
			return nil
		}
	}
}

func (f *traceFlags) wants(t *sdk.Trace) bool {
	return (f.run == "" || t.Run == f.run) && (f.session == "" || t.Session == f.session) &&
		(f.tenant == "" || t.Tenant == f.tenant) && (!f.failed || t.Chosen == "")
}

func (f *traceFlags) ls(ctx context.Context, s Streams) error {
	if f.limit < 0 {
		return usage("--limit %d is negative", f.limit)
	}
	var kept []*sdk.Trace
	account := &savings.Account{Baseline: f.baseline}
	total := 0
	mute := silent{}
	err := f.each(ctx, s, func(t *sdk.Trace) {
		if t.Mode == sdk.ModeVerdict { // on a run, which is no step
			account.Record(ctx, t)
			return
		}
		if !f.wants(t) {
			return
		}
		mute.add(t)
		total++
		account.Record(ctx, t)
		kept = append(kept, t)
		if f.limit > 0 && len(kept) > f.limit {
			kept = kept[1:]
		}
	})
	if err != nil {
		return err
	}
	for i := range kept {
		kept[i] = cleaned(ctx, kept[i])
	}
	result := account.Result()
	if f.baseline != "" && total > 0 && result.Baseline == "" && !slices.Contains(account.Candidates(), f.baseline) {
		return usage("--baseline %s: no step could have been asked of it; there are %s", say.Short(f.baseline), strings.Join(account.Candidates(), ", "))
	}
	if f.json {
		return printJSON(s, listOf(kept, total, result))
	}
	tab := newTable(s.Out, column{name: "trace"}, column{name: "start"}, column{name: "models asked"}, column{name: "answer of"},
		column{name: "stop"}, column{name: "USD", number: true}, column{name: "time", number: true})
	for _, t := range kept {
		chosen := t.Chosen
		if chosen == "" {
			chosen = "none"
		}
		tab.row(t.ID[:min(12, len(t.ID))], t.Start.Format(time.DateTime), asked(t), chosen, string(t.Stop), usd(t.CostUSD), short(t.Duration))
	}
	tab.print()
	fmt.Fprintf(s.Out, "%d of %d steps, %s USD in all\n", len(kept), total, usd(result.SpentUSD))
	p := &printer{w: s.Out}
	mute.print(p)
	printSaved(s.Out, &result)
	return p.err
}

// silent tells of verifiers that never gave a verdict, as one does whose program cannot
// be started: by name, how many answers they were asked about and what they said last.
type silent map[string]*asking

// asking is what came of asking one verifier.
type asking struct {
	asked, judged int
	said          string
}

func (m silent) add(t *sdk.Trace) {
	for i := range t.Calls {
		v := t.Calls[i].Verdict
		if v == nil || v.Verifier == "" {
			continue
		}
		if m[v.Verifier] == nil {
			m[v.Verifier] = new(asking)
		}
		one := m[v.Verifier]
		one.asked++
		if v.Outcome == sdk.Inconclusive {
			one.said = v.Evidence
		} else {
			one.judged++
		}
	}
}

func (m silent) print(p *printer) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if one := m[name]; one.judged == 0 {
			said := gist((*redact.Redactor)(nil).Text(one.said))
			if said != "" {
				said = "; it said last: " + said
			}
			p.f("NO VERDICT of %s on any of %s%s\n", name, count(one.asked, "answer"), said)
		}
	}
}

// listedStep is one step of `trace ls --json`.
type listedStep struct {
	ID       string         `json:"id"`
	Start    time.Time      `json:"start"`
	Asked    []string       `json:"asked"`
	Chosen   string         `json:"chosen,omitempty"`
	Stop     sdk.StopReason `json:"stop"`
	Error    string         `json:"error,omitempty"`
	CostUSD  float64        `json:"cost_usd"`
	Duration time.Duration  `json:"duration_ns"`
}

// listOf is what `trace ls --json` prints.
func listOf(kept []*sdk.Trace, total int, result savings.Result) any {
	steps := make([]listedStep, len(kept))
	for i, t := range kept {
		steps[i] = listedStep{t.ID, t.Start, []string{}, t.Chosen, t.Stop, t.Error, t.CostUSD, t.Duration}
		for k := range t.Calls {
			steps[i].Asked = append(steps[i].Asked, t.Calls[k].Model)
		}
	}
	return struct {
		Steps   []listedStep   `json:"steps"`
		Total   int            `json:"total"`
		CostUSD float64        `json:"cost_usd"`
		Savings savings.Result `json:"savings"`
		Saved   string         `json:"saved,omitempty"`
	}{steps, total, result.SpentUSD, result, result.String()}
}

// printSaved closes a summary.
func printSaved(w io.Writer, result *savings.Result) {
	if text := result.String(); text != "" {
		fmt.Fprintln(w, say.Plain(text))
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
func (f *traceFlags) find(ctx context.Context, s Streams, name string) (*sdk.Trace, error) {
	var found, last *sdk.Trace
	several := false
	err := f.each(ctx, s, func(t *sdk.Trace) {
		last = t
		if name != "" && strings.HasPrefix(t.ID, name) {
			several = several || found != nil && found.ID != t.ID
			found = t
		}
	})
	switch {
	case err != nil:
		return nil, err
	case name == "last" && last != nil:
		return cleaned(ctx, last), nil
	case several:
		return nil, fmt.Errorf("several traces begin with %s: give more of the id", name)
	case last == nil:
		return nil, fmt.Errorf("%s has no traces yet", f.file)
	case found == nil:
		return nil, fmt.Errorf("%s has no trace %s; see 'stepfall trace ls'", f.file, name)
	}
	return cleaned(ctx, found), nil
}

func (f *traceFlags) show(ctx context.Context, s Streams, name string) error {
	t, err := f.find(ctx, s, name)
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(s, t)
	}
	w := &printer{w: s.Out}
	w.head(t)
	tab := newTable(s.Out, column{name: "call"}, column{name: "try", number: true}, column{name: "in", number: true}, column{name: "out", number: true},
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
			c.Usage.OutputTokens+c.Usage.ReasoningTokens, usd(c.CostUSD), short(c.Latency), quality, cameOf(&c), judged)
	}
	tab.print()
	w.causes(t)
	for _, c := range t.Calls {
		if len(c.NotSent) > 0 {
			w.f("\nnot sent to %s, whose API has no word for it: %s\n", c.Model, strings.Join(c.NotSent, ", "))
		}
	}
	for _, c := range t.Calls {
		if c.Answer != "" {
			w.f("\n%s said:\n%s\n", c.Model, c.Answer)
		}
	}
	return w.err
}

// cameOf says in a few words what came of a call.
func cameOf(c *sdk.Call) string {
	if c.Error != "" {
		return "error: " + oneLine(c.Error)
	}
	if c.Verdict == nil {
		return ""
	}
	text := c.Verdict.Outcome.String()
	if c.Verdict.Verifier != "" {
		text += " by " + c.Verdict.Verifier
	}
	if c.Verdict.Evidence != "" {
		text += ": " + oneLine(c.Verdict.Evidence)
	}
	return text
}

// oneLine returns the first line of a text.
func oneLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}
