package view

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

type stepPage struct {
	frame
	Trace     *sdk.Trace
	Headline  string
	Decisions []*decisionView
	Calls     []callView
	Labels    [][2]string
	Features  [][2]string
	// The neighbours in time, and within the run.
	Before, After       *store.Step
	RunBefore, RunAfter *store.Step
	Prompt              text
	Order               []string
}

// text is an untrusted text, truncated to maxText; Left is the number of bytes removed.
type text struct {
	Text string
	Left int
}

const maxText = 64 << 10

func textOf(s string) text {
	kept := firstBytes(s, maxText)
	return text{plainText(kept), len(s) - len(kept)}
}

type callView struct {
	sdk.Call
	N           int
	In, Out     int
	Why         int // the decision that ran the model, from 1; 0 if unknown
	AnswerText  text
	Evidence    text
	ErrorText   text
	SignalsList [][2]string
	Missing     [][2]string
}

type decisionView struct {
	N        int
	Decision *sdk.Decision
	What     string
	Sentence string
	// Fault is why the decision cannot be recomputed.
	Fault string
	// Differs is the recomputed decision, if it is not the recorded one.
	Differs   string
	Threshold bool
	Now       *answer
	Spans     []span
	Scale     scale
	Flips     string
	// Asked is the lambda in the page's query, for pages without scripts.
	Asked *float64
	// Points holds the answers at each value of the scale, in JSON, for pages without a server.
	Points string
	Order  []string
	// Open reports that a model is left to be asked; otherwise there is no slider.
	Open bool
}

func (v *viewer) step(ctx context.Context, q url.Values) (*stepPage, error) {
	p, err := v.makeStep(ctx, q.Get("id"))
	if err != nil || q.Get("knob") == "" {
		return p, err
	}
	n, knob, ok := requestedDecision(p.Trace, q)
	if !ok {
		return nil, fmt.Errorf("%w: decision %q at %q", errBadQuery, q.Get("n"), q.Get("knob"))
	}
	d := p.Decisions[n]
	d.Asked = &knob
	d.Now, err = explainAt(p.Trace, n, knob)
	return p, err
}

// requestedDecision returns the index of the decision and the lambda of a query.
func requestedDecision(t *sdk.Trace, q url.Values) (n int, knob float64, ok bool) {
	n, nErr := strconv.Atoi(q.Get("n"))
	knob, kErr := strconv.ParseFloat(q.Get("knob"), 64)
	return n - 1, knob, nErr == nil && kErr == nil && n >= 1 && n <= len(t.Decisions) && knob >= 0 && !math.IsInf(knob, 0)
}

func explainAt(t *sdk.Trace, n int, knob float64) (*answer, error) {
	q, err := questionAt(t, n)
	if err != nil {
		return nil, err
	}
	return q.explain(knob)
}

func (v *viewer) makeStep(ctx context.Context, id string) (*stepPage, error) {
	t, err := v.sampler.from.Trace(ctx, id)
	if err != nil {
		return nil, err
	}
	// Traces written by other tools were not redacted when they were made.
	step.Redact(func(_ context.Context, clean *sdk.Trace) { t = clean }, nil)(ctx, t)
	p := &stepPage{frame: v.frame("steps", "Step "+short(t.ID), false), Trace: t, Prompt: textOf(t.Prompt)}
	p.Order = candidates([]*sdk.Trace{t})
	p.Headline = headlineOf(t)
	for i := range t.Calls {
		p.Calls = append(p.Calls, callOf(t, i))
	}
	for i := range t.Decisions {
		p.Decisions = append(p.Decisions, v.decisionOf(t, i, p.Order))
	}
	p.Labels = pairs(t.Labels, func(s string) string { return s })
	p.Features = pairs(t.Features, func(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) })
	if p.Before, p.After, err = v.neighbours(ctx, t, store.Filter{}); err != nil {
		return nil, err
	}
	if t.Run != "" {
		p.RunBefore, p.RunAfter, err = v.neighbours(ctx, t, store.Filter{Run: t.Run})
	}
	return p, err
}

func pairs[V any](m map[string]V, text func(V) string) [][2]string {
	var list [][2]string
	for name, v := range m {
		list = append(list, [2]string{plainText(name), plainText(text(v))})
	}
	slices.SortFunc(list, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	return list
}

func headlineOf(t *sdk.Trace) string {
	if !sdk.IsStep(t.Mode) && t.Verdict != nil {
		return reportHeadline(t)
	}
	if len(t.Calls) == 0 {
		return "No model was asked: " + plainText(firstBytes(t.Error, 300))
	}
	said := earlierCalls(t)
	if t.Chosen == "" {
		return "No answer. " + said + ". " + plainText(firstBytes(t.Error, 300))
	}
	text := plainText(t.Chosen) + " answered at once"
	if len(t.Calls) > 1 && said != "" {
		text = plainText(t.Chosen) + " answered after " + said
	}
	if at := slices.IndexFunc(t.Calls, func(c sdk.Call) bool { return c.Model == t.Chosen && c.Verdict != nil }); at >= 0 {
		text += "; its answer " + callResult(&t.Calls[at])
	}
	return text + ". It stopped there because " + say.Because(t.Stop) + "."
}

// reportHeadline summarizes a verdict on a run.
func reportHeadline(t *sdk.Trace) string {
	text := "The run " + plainText(t.Run) + " was reported as " + t.Verdict.Outcome.String()
	if t.Verdict.Verifier != "" {
		text += " by " + plainText(t.Verdict.Verifier)
	}
	if t.Verdict.Evidence != "" {
		text += ": " + plainText(firstBytes(t.Verdict.Evidence, 300))
	}
	return text + "."
}

// earlierCalls describes the results of the calls before the one that gave the answer.
func earlierCalls(t *sdk.Trace) string {
	var results []string
	last := ""
	for i := range t.Calls {
		c := &t.Calls[i]
		if c.Model == t.Chosen && i == len(t.Calls)-1 || c.Model == last && c.Error == "" && c.Verdict == nil {
			continue
		}
		last = c.Model
		results = append(results, plainText(c.Model)+" "+callResult(c))
	}
	return strings.Join(results, ", then ")
}

func callResult(c *sdk.Call) string {
	switch {
	case c.Error != "" && !c.Failed():
		return "was cancelled: its answer was no longer needed"
	case c.Failed():
		return "gave no answer"
	case c.Verdict == nil:
		return fmt.Sprintf("answered (estimated quality %s)", percent(c.Quality.Mean))
	case c.Verdict.Outcome == sdk.Inconclusive:
		return "could not be judged"
	}
	return c.Verdict.Outcome.String()
}

func callOf(t *sdk.Trace, i int) callView {
	c := t.Calls[i]
	view := callView{
		Call: c, N: i + 1, In: c.Usage.InputTokens + c.Usage.CachedInputTokens + c.Usage.CacheWriteTokens,
		Out: c.Usage.OutputTokens + c.Usage.ReasoningTokens, AnswerText: textOf(c.Answer), ErrorText: textOf(c.Error),
	}
	for k := range t.Decisions {
		if t.Decisions[k].Run == c.Model {
			view.Why = k + 1
		}
	}
	view.SignalsList = pairs(c.Signals, func(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) })
	if c.Verdict != nil {
		view.Evidence = textOf(c.Verdict.Evidence)
		view.Missing = pairs(c.Verdict.IsolationMissing, func(s string) string { return s })
	}
	return view
}

func (v *viewer) decisionOf(t *sdk.Trace, n int, order []string) *decisionView {
	d := &decisionView{N: n + 1, Decision: &t.Decisions[n], Order: order}
	switch {
	case d.Decision.Look != "":
		d.What = "have the answer of " + plainText(d.Decision.Look) + " judged"
	case d.Decision.Run != "":
		d.What = "ask " + plainText(d.Decision.Run)
	case d.Decision.Answer != "":
		d.What = "stop with the answer of " + plainText(d.Decision.Answer)
	default:
		d.What = "stop without an answer"
	}
	if err := v.recompute(d, t); err != nil {
		d.Fault = err.Error()
	}
	return d
}

// recompute repeats the decision at the recorded lambda and at each value of a scale.
func (v *viewer) recompute(d *decisionView, t *sdk.Trace) error {
	q, err := questionAt(t, d.N-1)
	if err != nil {
		return err
	}
	d.Threshold = q.threshold
	if d.Now, err = q.explain(q.knob()); err != nil {
		return err
	}
	d.Sentence = d.Now.Sentence
	d.Open = len(q.state.Ran) < len(d.Decision.Models)
	if d.Now.Run != d.Decision.Run {
		d.Differs = cmp.Or(d.Now.Run, "stop")
	}
	d.Scale = q.scale(v.scalePoints(len(d.Decision.Models)))
	d.Spans, err = q.spans(&d.Scale)
	d.Flips = d.flips()
	if err != nil || v.export == nil {
		return err
	}
	var points []*answer
	for _, p := range d.Scale.Points {
		a, err := q.explain(p)
		if err != nil {
			return err
		}
		points = append(points, a)
	}
	data, err := json.Marshal(points)
	d.Points = string(data)
	return err
}

const exportedPoints = 13

// scalePoints returns the number of positions of a slider. An export holds the answer for each.
func (v *viewer) scalePoints(models int) int {
	switch {
	case v.export != nil:
		return exportedPoints
	case models > 6:
		return 41
	}
	return 97
}

func (d *decisionView) flips() string {
	at, name := d.Decision.Lambda, "lambda"
	if d.Threshold {
		at, name = d.Scale.Points[d.Scale.Here], "threshold"
	}
	here := slices.IndexFunc(d.Spans, func(s span) bool { return at >= s.From && at <= s.To && (s.Run == d.Now.Run) })
	if here < 0 {
		return ""
	}
	if len(d.Spans) == 1 {
		return "No " + name + " changes this decision."
	}
	text := ""
	if here > 0 {
		text = fmt.Sprintf("Below %s %s it %s. ", name, lambda(d.Spans[here].From), d.Spans[here-1].action())
	}
	if here < len(d.Spans)-1 {
		text += fmt.Sprintf("From %s %s on it %s.", name, lambda(d.Spans[here].To), d.Spans[here+1].action())
	}
	return text
}

func (s *span) action() string {
	if s.Run == "" {
		return "stops"
	}
	return "asks " + plainText(s.Run)
}

func (v *viewer) whyJSON(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	t, err := v.sampler.trace(ctx, q.Get("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	n, knob, ok := requestedDecision(t, q)
	if !ok {
		http.Error(w, "want id, n (the decision, from 1) and knob (a lambda from 0 up)", http.StatusBadRequest)
		return
	}
	a, err := explainAt(t, n, knob)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a)
}
