package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// explainFlags are the flags of stepfall policy explain.
type explainFlags struct {
	policyFlags

	text, group, tenant string
	tokens              int
	tools, labels       []string
	suppose             []string
	checks, wantsJSON   bool
}

func newPolicyExplainCommand(s Streams) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain POLICY",
		Short: "Why would a policy ask which models for a query?",
		Long: `Why would a policy ask which models for a query? Shows which match block applies, which models are out and why, and each decision with what it rests on. Nothing is
called: each answer is supposed to be as good as the policy expects of its model,
unless --suppose says otherwise.`,
		Example: `  stepfall policy explain policy.hcl --query "Fix the failing test" --tool edit --tokens 4000
  stepfall policy explain policy.hcl --group code/go --suppose small=0.2`,
		Args:        cobra.ExactArgs(1),
		Annotations: hasJSON(),
		RunE:        func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), s, args[0]) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.text, "query", "", "text of the query")
	flags.IntVar(&f.tokens, "tokens", 0, "length of the prompt in tokens (default: by the text, at least 1000 without one)")
	flags.StringVar(&f.group, "group", "", "group of the query")
	flags.StringVar(&f.tenant, "tenant", "", "tenant of the query")
	flags.StringSliceVar(&f.tools, "tool", nil, "tool that the query offers (may be repeated)")
	flags.StringSliceVar(&f.labels, "label", nil, "label of the query, as key=value (may be repeated)")
	flags.BoolVar(&f.checks, "checks", false, "the query names tests that decide")
	flags.BoolVar(&f.wantsJSON, "json-format", false, "the query asks for JSON")
	flags.StringSliceVar(&f.suppose, "suppose", nil, "suppose that a model's answer has this quality, as model=0.2 (may be repeated)")
	return cmd
}

func (f *explainFlags) query() (*sdk.Query, error) {
	q := &sdk.Query{ID: "explained", Group: f.group, Tenant: f.tenant, InputTokens: f.tokens, Labels: map[string]string{}}
	q.Format.JSON = f.wantsJSON
	if f.text != "" {
		q.Messages = []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(f.text)}}}
	}
	if q.InputTokens == 0 {
		q.InputTokens = (len(f.text) + 3) / 4
		if f.text == "" {
			q.InputTokens = 1000
		}
	}
	for _, name := range f.tools {
		q.Tools = append(q.Tools, sdk.Tool{Name: name})
	}
	for _, pair := range f.labels {
		key, v, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usage("--label %s: want key=value", pair)
		}
		q.Labels[key] = v
	}
	if f.checks {
		q.Checks.FailToPass = []string{"given"}
	}
	return q, nil
}

func (f *explainFlags) run(ctx context.Context, s Streams, path string) error {
	q, err := f.query()
	if err != nil {
		return err
	}
	p, err := f.load(s, path, policies.LoadOptions{})
	if err != nil {
		return err
	}
	world := &forecast.Beliefs{Queries: []*sdk.Query{q}, Suppose: map[string]float64{}}
	for _, pair := range f.suppose {
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
	return s.render(why(p, q, result.Traces), func(w *printer) { w.explanation(p, q, result.Traces) })
}

// why is what `policy explain --json` prints.
func why(p *policies.Policy, q *sdk.Query, traces []*sdk.Trace) any {
	type reason struct {
		Name string `json:"name"`
		// Not is why it does not apply; empty when it does.
		Not string `json:"not,omitempty"`
	}
	choice := p.Choose(q)
	out := struct {
		Match     string       `json:"match,omitempty"`
		Strategy  string       `json:"strategy"`
		Matches   []reason     `json:"matches"`
		Verifiers []reason     `json:"verifiers"`
		Steps     []*sdk.Trace `json:"steps"`
	}{choice.Match, choice.Strategy.Kind, []reason{}, []reason{}, append([]*sdk.Trace{}, traces...)}
	for i := range p.Matches {
		out.Matches = append(out.Matches, reason{p.Matches[i].Name, p.Matches[i].When.Why(q)})
	}
	for i := range p.Verifiers {
		out.Verifiers = append(out.Verifiers, reason{p.Verifiers[i].Name, p.Verifiers[i].When.Why(q)})
	}
	return out
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
		p.f("the policy's own strategy decides: %s\n", choice.Strategy.Kind)
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
		p.f("%s%s", beliefsLegend, assumed(policy))
	}
	for _, t := range traces {
		for _, i := range t.Infeasible {
			p.f("left out: %s %s\n", i.Model, i.Reason)
		}
		for n, d := range t.Decisions {
			p.decision(n+1, t, &d)
			p.beliefs(&d)
			p.alternatives(d.Alternatives)
			if d.Run == "" {
				continue
			}
			for _, c := range t.Calls {
				if c.Model == d.Run {
					p.f("supposed: %s answers with quality %.2f for %s USD\n", c.Model, c.Quality.Mean, usd(c.CostUSD))
				}
			}
		}
		if t.Error != "" {
			p.f("\nno answer: %s\n", t.Error)
			continue
		}
		p.f("\nanswer of %s, stopped because %s; %s USD\n", t.Chosen, say.Because(t.Stop), usd(t.CostUSD))
	}
}

// assumed says on what lengths of answers expected costs rest.
func assumed(p *policies.Policy) string {
	var lengths, models []string
	for i := range p.Models {
		m := &p.Models[i]
		if m.Price.Free {
			continue
		}
		lengths = append(lengths, strconv.Itoa(m.ExpectedOutputTokens))
		models = append(models, fmt.Sprintf("%d for %s", m.ExpectedOutputTokens, m.Name))
	}
	if len(lengths) == 0 {
		return ""
	}
	text := strings.Join(models, ", ")
	if len(slices.Compact(lengths)) == 1 {
		text = lengths[0]
	}
	return fmt.Sprintf("Costs ASSUME answers of so many tokens: %s. Say better in expected_output_tokens; recorded outcomes, traces and profiles know it.\n", text)
}

// beliefs prints what a decision rests on.
func (p *printer) beliefs(d *sdk.Decision) {
	tab := newTable(p.w, column{name: "model"}, column{name: "quality", number: true}, column{name: "±", number: true},
		column{name: "USD", number: true}, column{name: "price in quality", number: true}, column{name: ""})
	for _, b := range d.Models {
		state, price := "", fmt.Sprintf("%.4f", d.Lambda*b.CostUSD)
		switch {
		case b.Ran && b.Model == d.Answer:
			state, price = "answered, best so far", "paid"
		case b.Ran:
			state, price = "answered", "paid"
		case b.Model == d.Run:
			state = "runs now"
		}
		look := b.Quality.StdDev
		if b.Judged && !b.Ran {
			look = math.Sqrt(b.Quality.Mean * (1 - b.Quality.Mean)) // a verdict is yes or no
		}
		tab.row(b.Model, fmt.Sprintf("%.4f", b.Quality.Mean), fmt.Sprintf("%.4f", look), usd(b.CostUSD), price, state)
	}
	tab.print()
}
