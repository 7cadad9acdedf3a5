package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
)

type queryFlags struct {
	text          string
	with, suppose []string
}

func (f *queryFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.text, "query", "", "text of a query whose decisions to explain; or a file of queries to plan for, as JSON lines")
	flags.StringArrayVar(&f.with, "with", nil, "explain a query with group=NAME, tenant=NAME, tokens=4000, tool=NAME, json=true, checks=true (deciding tests are named), setbacks=1 (of its run), or a label, as label.KEY=VALUE (may be repeated)")
	flags.StringSliceVar(&f.suppose, "suppose", nil, "explain what happens if a model's answer has this quality, such as model=0.2 (may be repeated)")
}

// explains reports whether to explain one query: the text is then not the name of a file of queries.
func (f *queryFlags) explains() bool {
	if len(f.with) > 0 || len(f.suppose) > 0 {
		return true
	}
	info, err := os.Stat(f.text)
	return f.text != "" && (err != nil || info.IsDir())
}

func (f *queryFlags) query() (*sdk.Query, error) {
	q := &sdk.Query{ID: "explained", Labels: map[string]string{}, Features: map[string]float64{}}
	if f.text != "" {
		q.Messages = []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(f.text)}}}
	}
	for _, pair := range f.with {
		key, value, ok := strings.Cut(pair, "=")
		label, isLabel := strings.CutPrefix(key, "label.")
		var err error
		isTrue := false
		switch {
		case !ok:
			err = errors.New("want key=value")
		case isLabel:
			q.Labels[label] = value
		case key == "group":
			q.Group = value
		case key == "tenant":
			q.Tenant = value
		case key == "tool":
			q.Tools = append(q.Tools, sdk.Tool{Name: value})
		case key == "setbacks":
			q.Features[feature.DisputedSteps], err = strconv.ParseFloat(value, 64)
		case key == "tokens":
			q.InputTokens, err = strconv.Atoi(value)
		case key == "json":
			q.Format.JSON, err = strconv.ParseBool(value)
		case key == "checks":
			if isTrue, err = strconv.ParseBool(value); isTrue {
				q.Checks.FailToPass = []string{"given"}
			}
		default:
			err = errors.New("want group, tenant, tokens, tool, json, checks, setbacks or label.KEY")
		}
		if err != nil {
			return nil, usage("--with %s: %w", pair, err)
		}
	}
	q.InputTokens = cmp.Or(q.InputTokens, (len(f.text)+3)/4, 1000)
	return q, nil
}

// explain prints which match block applies to the query, which models are excluded and why, and the basis of each
// decision.
func (f *planFlags) explain(ctx context.Context, s Streams, path string) error {
	q, err := f.query.query()
	if err != nil {
		return err
	}
	p, err := f.load(s, path, policies.LoadOptions{})
	if err != nil {
		return err
	}
	world := &forecast.Beliefs{Queries: []*sdk.Query{q}, Suppose: map[string]float64{}}
	for _, pair := range f.query.suppose {
		name, text, _ := strings.Cut(pair, "=")
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= 1) {
			return usage("--suppose %s: want model=quality with a quality from 0 to 1", pair)
		}
		if !slices.ContainsFunc(p.Models, func(m policies.Model) bool { return m.Name == name }) {
			return usage("--suppose %s: the policy has no model %q", pair, name)
		}
		world.Suppose[name] = v
	}
	result, err := forecast.New(ctx, p, world, forecast.Options{Keep: true, Explain: true})
	if err != nil {
		return err
	}
	return s.render(explanationOf(p, q, result), func(w *printer) {
		w.explanation(p, q, result.Traces)
		w.warnUnchecked(p.Path, result.Unchecked)
	})
}

// explanationOf returns the output of policy plan --query TEXT --json.
func explanationOf(p *policies.Policy, q *sdk.Query, result *forecast.Forecast) any {
	type reason struct {
		Name string `json:"name"`
		// Not is why the block does not apply; empty when it does.
		Not string `json:"not,omitempty"`
	}
	choice := p.Choose(q)
	out := struct {
		Match     string       `json:"match,omitempty"`
		Strategy  string       `json:"strategy"`
		Matches   []reason     `json:"matches"`
		Verifiers []reason     `json:"verifiers"`
		Steps     []*sdk.Trace `json:"steps"`
		Unchecked []string     `json:"unchecked_judges,omitempty"`
	}{choice.Match, strategyOf(p, q, result.Traces), []reason{}, []reason{}, append([]*sdk.Trace{}, result.Traces...), result.Unchecked}
	for i := range p.Matches {
		out.Matches = append(out.Matches, reason{p.Matches[i].Name, p.Matches[i].When.Why(q)})
	}
	for i := range p.Verifiers {
		out.Verifiers = append(out.Verifiers, reason{p.Verifiers[i].Name, p.Verifiers[i].When.Why(q)})
	}
	return out
}

// strategyOf returns the kind of the strategy that decides about a query: with a profile, that of its steps.
func strategyOf(p *policies.Policy, q *sdk.Query, steps []*sdk.Trace) string {
	if p.Fit != nil && len(steps) > 0 {
		return steps[0].Strategy
	}
	return p.Choose(q).Strategy.Kind
}

func (p *printer) explanation(policy *policies.Policy, q *sdk.Query, traces []*sdk.Trace) {
	choice := policy.Choose(q)
	for i := range policy.Matches {
		m := &policy.Matches[i]
		if m.Name == choice.Match {
			p.f("match %q applies\n", m.Name)
			break
		}
		p.f("match %q does not apply: %s\n", m.Name, m.When.Why(q))
	}
	if choice.Match == "" {
		whose := "policy's own"
		if policy.Fit != nil {
			whose = "profile's"
		}
		p.f("the %s strategy decides: %s\n", whose, strategyOf(policy, q, traces))
	}
	for i := range policy.Verifiers {
		v := &policy.Verifiers[i]
		if why := v.When.Why(q); why != "" {
			p.f("verifier %q does not judge this query: %s\n", v.Name, why)
		} else {
			p.f("verifier %q judges the answers\n", v.Name)
		}
	}
	if len(traces) == 0 {
		p.f("no model can be asked:\n")
	} else {
		p.f("%s", beliefsLegend)
		if policy.Fit == nil {
			p.f("%s", assumedLengths(policy))
		}
	}
	for _, t := range traces {
		p.trial(t)
	}
}

// trial prints the decisions of a step with assumed answers.
func (p *printer) trial(t *sdk.Trace) {
	p.infeasible(t)
	for n, d := range t.Decisions {
		p.decision(n+1, t, &d)
		p.beliefs(t, &d)
		p.alternatives(d.Alternatives)
		for _, c := range t.Calls {
			if c.Model == d.Run {
				p.f("supposed: %s answers with quality %.2f for %s USD\n", c.Model, c.Quality.Mean, usd(c.CostUSD))
			}
		}
	}
	if t.Error != "" {
		p.f("\nno answer: %s\n", t.Error)
		return
	}
	p.f("\nanswer of %s, stopped because %s; %s USD\n", t.Chosen, say.Because(t.Stop), usd(t.CostUSD))
}

func (p *printer) infeasible(t *sdk.Trace) {
	for _, i := range t.Infeasible {
		p.f("excluded: %s %s\n", i.Model, i.Reason)
	}
}

// assumedLengths returns a line on the assumed lengths of answers, or "" if all models are free.
func assumedLengths(p *policies.Policy) string {
	var lengths, models []string
	for i := range p.Models {
		if m := &p.Models[i]; !m.Price.Free {
			lengths = append(lengths, strconv.Itoa(m.ExpectedOutputTokens))
			models = append(models, fmt.Sprintf("%d for %s", m.ExpectedOutputTokens, m.Name))
		}
	}
	if len(lengths) == 0 {
		return ""
	}
	text := strings.Join(models, ", ")
	if len(slices.Compact(lengths)) == 1 {
		text = lengths[0]
	}
	return fmt.Sprintf("Costs ASSUME the length of answers, in tokens: %s. Set it with expected_output_tokens (--set model.%s.expected_output_tokens=60), or use recorded outcomes, traces or a profile.\n", text, p.Models[0].Name)
}

func (p *printer) beliefs(t *sdk.Trace, d *sdk.Decision) {
	tab := newTable(p.w, column{name: "model"}, column{name: "quality", number: true}, column{name: "±", number: true},
		column{name: "USD", number: true}, column{name: "price in quality", number: true}, column{name: ""})
	for _, b := range d.Models {
		state, price, cost := "", fmt.Sprintf("%.4f", d.Lambda*b.CostUSD), b.CostUSD
		switch {
		case b.Ran:
			state, price = "answered", "paid"
			if b.Model == d.Answer {
				state += ", best so far"
			}
			cost, _ = savings.CostOf(t, b.Model)
		case b.Model == d.Run:
			state = "runs now"
		}
		look := b.Quality.StdDev
		if b.Judged && !b.Ran {
			look = (1 - b.Shared) * math.Sqrt(b.Quality.Mean*(1-b.Quality.Mean)) // the deviation of a Bernoulli outcome
		}
		tab.row(b.Model, fmt.Sprintf("%.4f", b.Quality.Mean), fmt.Sprintf("%.4f", look), usd(cost), price, state)
	}
	tab.print()
}
