package cli

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/adapters/internal/scaffold"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

var writeNoHarm = flag.Bool("write-no-harm", false, "write docs/results/no-harm.md anew")

const noHarmFile = "../../docs/results/no-harm.md"

// TestNoHarm replays every policy that the project ships on recorded outcomes: the result must not be below the mixes
// of single models by more than its interval, neither in quality at its cost nor in cost at its quality.
func TestNoHarm(t *testing.T) {
	if testing.Short() {
		t.Skip("replays every policy")
	}
	var out strings.Builder
	out.WriteString(noHarmHead)
	for _, c := range handedOut(t) {
		p, err := policies.Parse(c.name+".hcl", c.text, policies.LoadOptions{WithoutProfile: true, WithoutSecrets: true})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		asReplayed(p)
		point, text := compare(t, p, ownOutcomes(p))
		fmt.Fprintf(&out, "| %s | %s | %s |\n", c.name, p.Strategy.Kind, text)
		point.judge(t, c.name)
	}
	out.WriteString(noHarmInGo(t))
	if *writeNoHarm {
		if err := os.WriteFile(noHarmFile, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(noHarmFile)
	if err != nil || string(want) != out.String() {
		t.Errorf("docs/results/no-harm.md is not what was measured: make no-harm writes it anew (%v)", err)
	}
	t.Log("\n" + out.String())
}

// TestNoHarmOnRealOutcomes does the same on third-party outcomes, where they are available.
func TestNoHarmOnRealOutcomes(t *testing.T) {
	if testing.Short() {
		t.Skip("replays thousands of queries")
	}
	real := outcometest.Zeroeval(t, "11")
	for _, c := range handedOut(t) {
		p, err := policies.Parse(c.name+".hcl", c.text, policies.LoadOptions{WithoutProfile: true, WithoutSecrets: true})
		if err != nil {
			t.Fatal(err)
		}
		asReplayed(p)
		table, ok := borrowed(p, real)
		if !ok {
			continue
		}
		point, text := compare(t, p, table)
		t.Logf("| %s | %s | %s |", c.name, p.Strategy.Kind, text)
		point.judge(t, c.name+" on zeroeval")
	}
}

const noHarmHead = `# No harm

Every policy that ships with stepfall, that ` + "`stepfall policy init`" + ` and ` + "`stepfall plugin new`" + ` write, and that the
examples and the documentation show, and every router that their Go code builds, replayed on
recorded outcomes, beside the mixes of single models (ask the one for a share of the queries, the
other for the rest) of the same cost and of the same quality. None must lie below them by more than
its 2-sigma interval. ` + "`make no-harm`" + ` measures and writes this table.

The outcomes are made by the project: 800 queries of differing difficulty, which models of the
policy's prices answer the better the dearer they are. Verifiers say what is recorded, without
error and for nothing, so that a gain here is the most that a perfect judge would bring. Where answers
are compared, right ones are the same and so is a third of the wrong ones. Estimators that are plugins
have nothing recorded and abstain, which is the case in which cascades used to do harm. Profiles are
left out: their promises are measured in [the evaluation](../evaluation.md).

Go code stands at the end. It is taken out of pages, doc comments, programs and Example functions
word for word and compiled; models that answer as is recorded take the place of its models. What
wraps models without a policy is asked all the queries, and its own func judges the answers; what
opens a policy is replayed with the policy beside it, or with what ` + "`policy init`" + ` writes.

| policy | strategy | USD per 1000 | quality % | mix of that cost, quality % | difference, points | mix of that quality, USD per 1000 |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
`

type handed struct {
	name string
	text []byte
}

// handedOut returns all policies that the project ships.
func handedOut(t *testing.T) []handed {
	t.Helper()
	var list []handed
	for _, name := range policies.Library() {
		if name != "catalog" {
			list = append(list, handed{"library:" + name, fmt.Appendf(nil, "include = [%q]\n", "library:"+name)})
		}
	}
	keys := []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MISTRAL_API_KEY"}
	folder := t.TempDir()
	for _, name := range []string{"go.mod", "classifier.json"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for set := range 1 << len(keys) {
		offered, name := map[string]string{}, "policy init"
		for i, key := range keys {
			if set>>i&1 == 1 {
				offered[key] = "given"
				name += " " + strings.ToLower(strings.TrimSuffix(key, "_API_KEY"))
			}
		}
		for _, judge := range judges {
			text, err := firstPolicy(t.Context(), func(name string) string { return offered[name] }, folder, programChat, judge)
			if err != nil {
				t.Fatal(err)
			}
			text = regexp.MustCompile(`file\("classifier.json"\)`).ReplaceAll(text, []byte(`"classifier.json"`))
			if judge != "auto" { // which is one of the others
				list = append(list, handed{name + ", judge " + judge, text})
			}
		}
	}
	files, err := filepath.Glob("../../examples/*/policy.hcl")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = regexp.MustCompile(`file\("[^"]*"\)`).ReplaceAll(text, []byte(`"x"`))
		list = append(list, handed{"examples/" + filepath.Base(filepath.Dir(file)), text})
	}
	for _, name := range []string{"estimator-words", "verifier-words"} {
		for _, lang := range []string{"go", "python"} {
			dir := filepath.Join(t.TempDir(), name)
			if _, err := scaffold.Write(scaffold.Options{Name: name, Lang: lang, Dir: dir}); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "policy.hcl"))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, handed{"plugin new " + name + ", " + lang, text})
		}
	}
	return append(list, documented(t)...)
}

// documented returns the complete policies among the code blocks of the documentation.
func documented(t *testing.T) []handed {
	t.Helper()
	var list []handed
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```hcl\n(.*?)```")
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range block.FindAllSubmatch(text, -1) {
			if !strings.Contains(string(m[1]), "strategy \"") || !strings.Contains(string(m[1]), "model \"") {
				continue
			}
			hcl := regexp.MustCompile(`file\("[^"]*"\)`).ReplaceAll(m[1], []byte(`"x"`))
			if _, err := policies.Parse("block.hcl", hcl, policies.LoadOptions{WithoutProfile: true, WithoutSecrets: true}); err != nil {
				continue // an excerpt
			}
			list = append(list, handed{fmt.Sprintf("%s, block %d", strings.TrimPrefix(file, "../../"), i+1), hcl})
		}
	}
	return list
}

// asReplayed removes from a policy what a table cannot have: caps, files and profiles.
func asReplayed(p *policies.Policy) {
	p.Mode, p.Baseline, p.Shadow, p.Session = "enforce", "", nil, nil
	p.Budget, p.Trace, p.Fit = policies.Budget{}, policies.Trace{}, nil
	for i := range p.Estimators {
		p.Estimators[i].OnUnavailable = "abstain"
	}
	for i := range p.Models {
		p.Models[i].Capabilities = append(p.Models[i].Capabilities, "tools")
	}
}

// byPrice returns the indexes of a policy's models from cheap to expensive.
func byPrice(p *policies.Policy) []int {
	order := make([]int, len(p.Models))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p.Models[a].Price.Output, p.Models[b].Price.Output) })
	return order
}

// ownOutcomes makes outcomes for the models of a policy at their prices. Right answers are equal, and so are a third
// of the wrong ones, as with recorded function calls (BFCL).
func ownOutcomes(p *policies.Policy) *outcome.Table {
	const queries = 800
	rng, wording := rand.New(rand.NewPCG(14, 1)), rand.New(rand.NewPCG(14, 2))
	t := &outcome.Table{Verified: len(p.Verifiers) > 0}
	for i := range p.Models {
		t.Models = append(t.Models, p.Models[i].Name)
	}
	rank := make([]float64, len(p.Models))
	for place, i := range byPrice(p) {
		rank[i] = float64(place) / math.Max(1, float64(len(p.Models)-1))
	}
	for n := range queries {
		t.Queries = append(t.Queries, fmt.Sprint("q", n))
		difficulty, in := rng.NormFloat64(), 200+rng.ExpFloat64()*800
		quality, cost := make([]float64, len(p.Models)), make([]float64, len(p.Models))
		inputs, outputs := make([]float64, len(p.Models)), make([]float64, len(p.Models))
		answers := make([]string, len(p.Models))
		for i := range p.Models {
			if rng.Float64() < 1/(1+math.Exp(1.5*difficulty-0.4-1.2*rank[i])) {
				quality[i] = 1
			}
			inputs[i], outputs[i] = math.Round(in), math.Round(100+rng.ExpFloat64()*400)
			cost[i] = (inputs[i]*p.Models[i].Price.Input + outputs[i]*p.Models[i].Price.Output) / 1e6
			switch same := wording.Float64() < 1.0/3; {
			case quality[i] == 1:
				answers[i] = "right"
			case same:
				answers[i] = "wrong"
			default:
				answers[i] = "wrong as " + p.Models[i].Name + " is"
			}
		}
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
		t.InputTokens, t.OutputTokens = append(t.InputTokens, inputs), append(t.OutputTokens, outputs)
		t.Answers = append(t.Answers, answers)
	}
	return t
}

// borrowed assigns to the models of a policy the outcomes of other models that a mix would use, from cheap to
// expensive, at their own costs.
func borrowed(p *policies.Policy, from *outcome.Table) (*outcome.Table, bool) {
	var on []int
	for i, x := range means(from, nil) {
		if math.Abs(x.quality-hull(means(from, nil)).at(x.cost)) < 1e-9 && !slices.ContainsFunc(on, func(k int) bool { return k == i }) {
			on = append(on, i)
		}
	}
	all := means(from, nil)
	slices.SortFunc(on, func(a, b int) int { return cmp.Compare(all[a].cost, all[b].cost) })
	if len(on) < len(p.Models) || len(p.Models) < 2 {
		return nil, false
	}
	t := &outcome.Table{Queries: from.Queries, Groups: from.Groups, Verified: len(p.Verifiers) > 0}
	columns := make([]int, len(p.Models))
	for place, i := range byPrice(p) {
		columns[i] = on[place*(len(on)-1)/(len(p.Models)-1)]
		if !p.Models[i].Price.Free {
			mean := all[columns[i]].cost
			p.Models[i].Price = policies.Price{Output: mean * 1e6 / float64(p.Models[i].ExpectedOutputTokens)}
		}
	}
	for i := range p.Models {
		t.Models = append(t.Models, p.Models[i].Name)
	}
	for n := range from.Queries {
		quality, cost := make([]float64, len(columns)), make([]float64, len(columns))
		answers := make([]string, len(columns)) // which estimators compare, as they do in use
		for i, c := range columns {
			quality[i], cost[i], answers[i] = from.Quality[n][c], from.CostUSD[n][c], from.Answer(n, c)
		}
		t.Quality, t.CostUSD, t.Answers = append(t.Quality, quality), append(t.CostUSD, cost), append(t.Answers, answers)
	}
	return t, true
}

type place struct{ cost, quality float64 }

// means returns the cost and quality of the single models over the queries in pick, or all.
func means(t *outcome.Table, pick []int) []place {
	list := make([]place, len(t.Models))
	n := len(t.Queries)
	if pick != nil {
		n = len(pick)
	}
	for k := range n {
		q := k
		if pick != nil {
			q = pick[k]
		}
		for i := range list {
			list[i].cost += t.CostUSD[q][i] / float64(n)
			list[i].quality += t.Quality[q][i] / float64(n)
		}
	}
	return list
}

// mixes are the corners of the hull of mixes of single models, from cheap to expensive.
type mixes []place

func hull(models []place) mixes {
	list := slices.Clone(models)
	slices.SortFunc(list, func(a, b place) int { return cmp.Or(cmp.Compare(a.cost, b.cost), -cmp.Compare(a.quality, b.quality)) })
	var h mixes
	for _, x := range list {
		if len(h) > 0 && x.quality <= h[len(h)-1].quality {
			continue
		}
		for len(h) >= 2 {
			a, b := h[len(h)-2], h[len(h)-1]
			if (b.quality-a.quality)*(x.cost-a.cost) > (x.quality-a.quality)*(b.cost-a.cost) {
				break
			}
			h = h[:len(h)-1]
		}
		h = append(h, x)
	}
	return h
}

// at returns the quality of the best mix of at most that cost.
func (h mixes) at(cost float64) float64 {
	for k := 1; k < len(h); k++ {
		if a, b := h[k-1], h[k]; cost <= b.cost {
			return a.quality + (b.quality-a.quality)*max(0, cost-a.cost)/(b.cost-a.cost)
		}
	}
	return h[len(h)-1].quality
}

// price returns the cost of the cheapest mix of at least that quality, or of the most expensive one if none reaches
// it.
func (h mixes) price(quality float64) float64 {
	if quality <= h[0].quality {
		return h[0].cost
	}
	for k := 1; k < len(h); k++ {
		if a, b := h[k-1], h[k]; quality <= b.quality {
			return a.cost + (b.cost-a.cost)*(quality-a.quality)/(b.quality-a.quality)
		}
	}
	return math.Inf(1)
}

// verdict compares a policy with the mixes: the differences and twice their deviations.
type verdict struct{ quality, qualityDev, cost, costDev float64 }

// judge fails the test if a policy does harm.
func (v verdict) judge(t *testing.T, name string) {
	t.Helper()
	if v.quality < -v.qualityDev-1e-9 {
		t.Errorf("%s: quality at its cost is %.2f points below the mix, ± %.2f", name, -100*v.quality, 100*v.qualityDev)
	}
	if v.cost > v.costDev+1e-12 {
		t.Errorf("%s: costs %.3g USD more than the mix of its quality, ± %.3g", name, v.cost, v.costDev)
	}
}

// compare replays a policy on a table and compares it with the mixes of its models.
func compare(t *testing.T, p *policies.Policy, table *outcome.Table) (verdict, string) {
	t.Helper()
	f, err := forecast.New(t.Context(), p, &forecast.Table{Outcomes: table}, forecast.Options{Keep: true, Seed: 1})
	if err != nil {
		t.Fatalf("%s: %v", p.Path, err)
	}
	cost, quality := make([]float64, len(table.Queries)), make([]float64, len(table.Queries))
	for q, trace := range f.Traces {
		cost[q] = trace.CostUSD
		if m := slices.Index(table.Models, trace.Chosen); m >= 0 {
			quality[q] = table.Quality[q][m]
		}
	}
	return measure(table, cost, quality)
}

// measure compares the cost and quality of each query with the mixes of the models of a table.
func measure(table *outcome.Table, cost, quality []float64) (verdict, string) {
	n := len(table.Queries)
	own := func(pick []int) place {
		var x place
		for _, q := range pick {
			x.cost += cost[q] / float64(len(pick))
			x.quality += quality[q] / float64(len(pick))
		}
		return x
	}
	everything := make([]int, n)
	for q := range everything {
		everything[q] = q
	}
	differ := func(pick []int) (dq, dc float64) {
		x, h := own(pick), hull(means(table, pick))
		return x.quality - h.at(x.cost), x.cost - h.price(x.quality)
	}
	var v verdict
	v.quality, v.cost = differ(everything)
	rng := rand.New(rand.NewPCG(14, 3))
	var qs, cs []float64
	pick := make([]int, n)
	for range 200 {
		for k := range pick {
			pick[k] = rng.IntN(n)
		}
		dq, dc := differ(pick)
		qs = append(qs, dq)
		if !math.IsInf(dc, 0) {
			cs = append(cs, dc)
		}
	}
	v.qualityDev, v.costDev = 2*deviation(qs), 2*deviation(cs)
	x, h := own(everything), hull(means(table, nil))
	same := "none has it"
	if c := h.price(x.quality); !math.IsInf(c, 0) {
		same = fmt.Sprintf("%.3f", 1000*c)
	}
	return v, fmt.Sprintf("%.3f | %.1f | %.1f | %+.1f ± %.1f | %s", 1000*x.cost, 100*x.quality, 100*h.at(x.cost), 100*v.quality, 100*v.qualityDev, same)
}

func deviation(list []float64) float64 {
	mean, sum := 0.0, 0.0
	for _, x := range list {
		mean += x / float64(len(list))
	}
	for _, x := range list {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / math.Max(1, float64(len(list)-1)))
}

// The measure detects harm: asking both models of a pair for the answer of the expensive one.
func TestNoHarmFindsHarm(t *testing.T) {
	p, err := policies.Parse("p.hcl", fmt.Appendf(nil, "include = [%q]\n", "library:tiers"), policies.LoadOptions{WithoutSecrets: true})
	if err != nil {
		t.Fatal(err)
	}
	asReplayed(p)
	table := ownOutcomes(p)
	h := hull(means(table, nil))
	both := place{h[0].cost + h[1].cost, h[1].quality}
	if both.cost-h.price(both.quality) < h[0].cost/2 {
		t.Error("paying for both models is not seen")
	}
}
