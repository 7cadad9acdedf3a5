package paper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// method is a row of the board.
type method struct{ row, title string }

func methods() []method {
	return []method{
		{"picked_single", "best single model of the train half"},
		{"linear_interpolation", "linear mix of single models (hindsight)"},
		{cascade.NameRoute, "router, the paper's"},
		{"route_knn", "router, nearest neighbours"},
		{"route_gbt", "router, boosted trees"},
		{cascade.NameThreshold, "threshold cascade"},
		{"pruned", "cheapest first, pruned greedily"},
		{"passes_per_dollar", "most passes per dollar first"},
		{"pairs", "best cascade of two models"},
		{"draft_and_verify", "cascadeflow's rule: draft, verify"},
		{"gated_ladder", "Firstpass' rule: ladder with gates"},
		{"cascade_published", "paper's cascade, published"},
		{"cascade_route_published", "cascade routing, published"},
		{cascade.NameCascadeRoute, "cascade routing, mended"},
		{cascade.NameIndex, "index"},
	}
}

// contest is a table of the board: a file, what is taken of it, and what is seen of an
// answer.
type contest struct {
	key, title, file string
	verified         bool
	// change, when not nil, prepares the table; the seed draws one of several runs.
	change func(t *outcome.Table, seed uint64) (*outcome.Table, error)
	study  eval.Study
	note   string
}

func contests() []contest {
	judged := eval.Study{Signals: eval.SignalsVerdict}
	features := eval.Study{Signals: eval.SignalsFeatures}
	list := []contest{
		{"SWE", "SWE-bench Verified, mini-SWE-agent", "swebench_verified.csv", true, nil, judged, "The tests judge every answer."},
		{"OH-SWE", "SWE-bench Verified, OpenHands", "openhands_swe.csv", true, nil, judged, "The tests judge every answer."},
		{"OH-SWT", "SWT-bench, OpenHands", "openhands_swt.csv", true, nil, judged, "The check judges every answer."},
		{"OH-MM", "SWE-bench Multimodal, OpenHands", "openhands_swemm.csv", true, withoutSignals, judged, "The tests judge every answer; 35 issues only."},
		{"MCP", "MCPMark, every effort an arm", "mcpmark.csv", true, oneRun, judged, "The check judges every answer. Of up to four runs of each arm one is drawn for each pair of halves; costs are means."},
		{"MCP-1", "MCPMark, one arm a model", "mcpmark.csv", true, oneArm, judged, "As above, with the middle effort of each model."},
		{"MBPP", "Firstpass' MBPP", "firstpass_mbpp3.csv", false, applyGate, eval.Study{Signals: eval.SignalsFeatures, Estimator: estimate.KindLatent}, "A real gate judges every answer, and lets wrong ones pass; the truth is measured."},
		{"BFCL", "BFCL, eleven models", "bfcl_calls.csv.gz", false, callers, features, "Nothing judges: calls that agree support one another. One call in two."},
		{"Llama", "MMLU-Pro, Llama 2 to 3.1", "mmlu_pro_open.csv.gz", false, family(12, "Llama"), features, "Nothing judges: letters that agree do. Costs are parameters met times tokens (characters over four). One question in twelve."},
		{"Mistral", "MMLU-Pro, Mistral and Mixtral", "mmlu_pro_open.csv.gz", false, family(12, "istral", "Mixtral", "mathstral"), features, "As above."},
		{"ZE-5", "ZeroEval, 5 models, features", "zeroeval.csv", false, subset("5", 3), features, "Nothing judges: lengths, and answers that agree. One question in three."},
		{"ZE-24", "ZeroEval, 24 models, features", "zeroeval.csv", false, subset("all", 6), features, "As above, one question in six."},
	}
	for _, level := range levels {
		noise, _ := eval.ParseNoise(level)
		list = append(list, contest{"ZE-" + level, "ZeroEval, 11 models, " + level + " noise", "zeroeval.csv", false, subset("11", 3), eval.Study{Noise: noise}, "Estimates are the truth plus noise, as in the paper's RouterBench. One question in three."})
	}
	return append(list, contest{"TB", "Terminal-Bench, seconds for a cost", "terminal_bench_mean.csv", true, inSeconds, judged, "The tests judge every answer; one of five runs is drawn. 40 tasks."})
}

func withoutSignals(t *outcome.Table, _ uint64) (*outcome.Table, error) {
	c := *t
	c.Signals, c.InputTokens, c.OutputTokens = nil, nil, nil
	return &c, nil
}

// oneRun draws one of the runs that a quality is the mean of.
func oneRun(t *outcome.Table, seed uint64) (*outcome.Table, error) {
	c := clone(t)
	c.Signals, c.InputTokens, c.OutputTokens = nil, nil, nil
	rng := rand.New(rand.NewPCG(seed, 0xb1))
	for _, row := range c.Quality {
		for m, v := range row {
			row[m] = float64(btoi(rng.Float64() < v))
		}
	}
	return c, nil
}

// oneArm keeps one effort of each model: medium, else none, high, low.
func oneArm(t *outcome.Table, seed uint64) (*outcome.Table, error) {
	var models []string
	rank := func(name, model string) int {
		return slices.Index([]string{"-low", "-high", "", "-medium"}, name[len(model):])
	}
	base := regexp.MustCompile(`-(low|medium|high)$`)
	for _, name := range t.Models {
		model := base.ReplaceAllString(name, "")
		i := slices.IndexFunc(models, func(m string) bool { return base.ReplaceAllString(m, "") == model })
		if i < 0 {
			models = append(models, name)
		} else if rank(name, model) > rank(models[i], model) {
			models[i] = name
		}
	}
	c, err := t.Select(models...)
	if err != nil {
		return nil, err
	}
	return oneRun(c, seed)
}

func applyGate(t *outcome.Table, _ uint64) (*outcome.Table, error) {
	c := *t
	c.Verdicts, c.Signals = map[string][][]float64{"gate": t.Signals["gate_pass"]}, nil
	return &c, nil
}

func callers(t *outcome.Table, _ uint64) (*outcome.Table, error) {
	c := *t
	c.Signals = nil
	return thin(&c, 2).Select("gpt-4o-mini-2024-07-18-FC", "gpt-4o-mini-2024-07-18", "gemini-1.5-flash-preview-0514", "open-mistral-nemo-2407-FC-Auto", "gpt-3.5-turbo-0125-FC", "claude-3-haiku-20240307",
		"gemini-1.5-pro-preview-0514", "gpt-4o-2024-08-06-FC", "gpt-4o-2024-05-13-FC", "claude-3-5-sonnet-20240620", "gpt-4-turbo-2024-04-09")
}

// billions are the parameters that a token meets, in billions, by name.
var billions = regexp.MustCompile(`-(\d+)[bB]`)

// family returns the models whose names have one of some words, with costs by size and
// length, on one question in n.
func family(n int, words ...string) func(*outcome.Table, uint64) (*outcome.Table, error) {
	return func(t *outcome.Table, _ uint64) (*outcome.Table, error) {
		var models []string
		for _, name := range t.Models {
			if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) }) {
				models = append(models, name)
			}
		}
		c, err := t.Select(models...)
		if err != nil {
			return nil, err
		}
		c = thin(c, n)
		c.CostUSD, c.OutputTokens = nil, nil
		for q := range c.Queries {
			var cost, output []float64
			for m, name := range c.Models {
				size := 13.0 // two experts of a Mixtral
				if found := billions.FindStringSubmatch(name); found != nil {
					size, _ = strconv.ParseFloat(found[1], 64)
				}
				input, out := c.Signals["input_chars"][q][m]/4, c.Signals["output_chars"][q][m]/4
				cost, output = append(cost, size*(input+out)/1e6), append(output, out)
			}
			c.CostUSD, c.OutputTokens = append(c.CostUSD, cost), append(c.OutputTokens, output)
		}
		c.Signals = nil
		return c, nil
	}
}

// thin keeps one query in n, so that the board takes minutes.
func thin(t *outcome.Table, n int) *outcome.Table {
	var rows []int
	for q := 0; q < len(t.Queries); q += n {
		rows = append(rows, q)
	}
	return t.Rows(rows)
}

// subset takes a set of models on one query in n.
func subset(name string, n int) func(*outcome.Table, uint64) (*outcome.Table, error) {
	return func(t *outcome.Table, _ uint64) (*outcome.Table, error) { return thin(t, n).Subset(name) }
}

// inSeconds has seconds for costs, of the arms that have them.
func inSeconds(t *outcome.Table, seed uint64) (*outcome.Table, error) {
	c := *t
	c.CostUSD = t.Signals["agent_seconds"]
	var models []string
	for m, name := range t.Models {
		if !math.IsNaN(c.CostUSD[0][m]) {
			models = append(models, name)
		}
	}
	timed, err := c.Select(models...)
	if err != nil {
		return nil, err
	}
	return oneRun(timed, seed)
}

// boardPoints is the number of lambdas of a curve.
const boardPoints = 12

// Of each table so many random pairs of halves are measured both ways, 10 unless
// Env.Splits says otherwise, and so many resamples of its queries are fitted anew, 12.
func (e *Env) boardPairs() int { return 2 * e.splits() }

func (e *Env) boardResamples() int { return max(2, 12*e.splits()/5) }

// entrant is what one method came to on one table.
type entrant struct {
	auc, gap                 []float64 // on each half; gap is index minus it
	hindsight, chosen, short []float64 // costs as shares of the best model's, and what it fell short by
	refitted                 []float64 // gap on each resample
	p                        float64   // by Holm's correction
}

func (n *entrant) gapAndError() (gap, deviation float64) {
	return stat.Mean(n.gap, nil), stat.StdDev(n.refitted, nil)
}

// result is a contest with what came of it.
type result struct {
	*contest
	queries int
	models  int
	by      map[string]*entrant
}

// compare measures all methods on the second rows of a table, fitted to the first.
func (c *contest) compare(ctx context.Context, t *outcome.Table, train, test []int, seed uint64, choose bool) (*eval.Comparison, error) {
	h, err := eval.NewHalves(t.Rows(train), t.Rows(test), false)
	if err != nil {
		return nil, err
	}
	s := c.study
	s.Halves, s.Seed, s.Points, s.Choose = h, seed, boardPoints, choose
	for _, m := range methods() {
		s.Strategies = append(s.Strategies, m.row)
	}
	return s.Run(ctx)
}

// compete measures a contest: pairs of halves, each way, and resamples with refits.
func (e *Env) compete(ctx context.Context, c *contest, d *Data) (*result, error) {
	pairs := e.boardPairs()
	r := &result{contest: c, by: map[string]*entrant{}}
	comparisons, err := overSplits(ctx, pairs+e.boardResamples(), func(ctx context.Context, i int) (both [2]*eval.Comparison, err error) {
		own := e.Seed + uint64(i)
		t, err := c.change(d.Table, own)
		if err != nil {
			return both, err
		}
		a, b := t.SplitRows(0.5, own)
		if i >= pairs {
			a, b = drawHalves(a, b, own)
		}
		if both[0], err = c.compare(ctx, t, a, b, own, i < pairs); err == nil {
			both[1], err = c.compare(ctx, t, b, a, own, i < pairs)
		}
		return both, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.title, err)
	}
	r.models = len(comparisons[0][0].Models)
	r.queries = comparisons[0][0].Queries + comparisons[0][1].Queries
	for _, m := range methods() {
		n := &entrant{}
		r.by[m.row] = n
		for i, pair := range comparisons {
			both := 0.0
			for _, c := range pair {
				row := c.Row(m.row)
				gap := 100 * (c.Row(cascade.NameIndex).AUC - row.AUC)
				both += gap / 2
				if i >= pairs {
					continue
				}
				picked := c.Frame.Models[c.Picked]
				n.auc, n.gap = append(n.auc, 100*row.AUC), append(n.gap, gap)
				n.hindsight = append(n.hindsight, shareAtBest(c, row))
				n.chosen = append(n.chosen, row.Chosen.Cost/picked.Cost)
				n.short = append(n.short, 100*(picked.Quality-row.Chosen.Quality))
			}
			if i >= pairs {
				n.refitted = append(n.refitted, both)
			}
		}
	}
	return r, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// drawHalves resamples the queries of two halves together; copies of a query stay in its half.
func drawHalves(a, b []int, seed uint64) (first, second []int) {
	rng := rand.New(rand.NewPCG(seed, 0xb007))
	n := len(a)
	all := slices.Concat(a, b)
	for range all {
		if k := rng.IntN(len(all)); k < n {
			first = append(first, all[k])
		} else {
			second = append(second, all[k])
		}
	}
	slices.Sort(first)
	slices.Sort(second)
	return first, second
}

// correct sets the p-values of all cells, by Holm's step-down correction.
func correct(results []*result) {
	var cells []*entrant
	for _, r := range results {
		for _, m := range methods() {
			if n := r.by[m.row]; m.row != cascade.NameIndex {
				gap, deviation := n.gapAndError()
				n.p = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(n.refitted) - 1)}.Survival(math.Abs(gap)/max(deviation, 1e-12))
				cells = append(cells, n)
			}
		}
	}
	slices.SortStableFunc(cells, func(a, b *entrant) int { return cmp.Compare(a.p, b.p) })
	least := 0.0
	for i, n := range cells {
		least = max(least, min(1, n.p*float64(len(cells)-i)))
		n.p = least
	}
}

// mark is ▲ where index is ahead, ▼ where it is behind, by Holm's correction at 5 %.
func (n *entrant) mark() string {
	gap, _ := n.gapAndError()
	switch {
	case n.p >= 0.05:
		return ""
	case gap > 0:
		return " ▲"
	}
	return " ▼"
}

func board(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("board", "The board: every method on every table")
	var results []*result
	var shipped, folder, absent []string
	for _, c := range contests() {
		e.startingf("board: %s", c.title)
		d, err := e.open(ctx, c.file, outcome.Options{Verified: c.verified})
		if errors.Is(err, os.ErrNotExist) {
			absent = append(absent, c.title)
			continue
		}
		if err != nil {
			return nil, err
		}
		if c.change == nil {
			c.change = withoutSignals
		}
		r, err := e.compete(ctx, &c, d)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
		to := &folder
		if d.Shipped {
			to = &shipped
		}
		if name := fmt.Sprintf("%s (sha256 %.12s)", d.Name, d.Hash); !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	e.writeBoard(p, results, shipped, folder, absent)
	return p, nil
}

// writeBoard writes the page of results, and which data were read from where.
func (e *Env) writeBoard(p *Page, results []*result, shipped, folder, absent []string) {
	correct(results)
	p.printf("Each method is fitted to one half of a table and measured on the other: %d random pairs of halves, each way, so %d halves; every method on the same ones. "+
		"Cells are the area under the cost-quality curve of `index` less that of the method, in points. ▲ `index` is ahead, ▼ it is behind, where zero lies outside by a bootstrap that draws the queries anew, "+
		"divides them and fits everything again (%d times), at 5 %% after Holm's correction over all %d cells; no mark: not told apart.\n\n", e.boardPairs(), 2*e.boardPairs(), e.boardResamples(), len(results)*(len(methods())-1))
	p.printf("Read from the repository: %s. Read from a folder: %s; none of these but ZeroEval's is in the repository, that one without prompts.", joinNames(shipped), joinNames(folder))
	if len(absent) > 0 {
		p.printf(" Not found, and left out: %s.", strings.Join(absent, "; "))
	}
	p.printf("\n\n")
	p.grid(results)
	for _, r := range results {
		p.section(r.title)
		p.printf("`%s`, %d queries, %d models. %s\n\n", r.file, r.queries, r.models, r.note)
		p.table(r.table())
	}
	p.section("How to read it")
	p.printf("**AUC**: mean quality between the costs of the cheapest and of the dearest model, per cent. **index minus it**: ± is two standard errors of the bootstrap. **p**: after Holm's correction. " +
		"**Cost at the best model's quality**: as a share of what the best model costs, medians over the halves. With hindsight: the cheapest point of the curve on the test half that is as good as the best model there. " +
		"Chosen on train: the operating point that was the cheapest on the train half to be as good as the best model there, met on the test half; **falls short** says on how many halves it is less good than that model there, and by how many points on average over all halves (negative: better). " +
		"The linear mix is chosen with hindsight, and its AUC is that of its hull. The paper's router, its cascades and the threshold cascade have the paper's estimates; routers by neighbours and trees see group, length and words of the prompt where the table has it. " +
		"Published: all models in order of cost, the last answer; and variances taken for deviations, with the first model of the chosen set run in place of the cheapest. " +
		"Peers' rules stand for their decision alone: cascadeflow's cheapest model drafts, the best verifies, with one threshold; Firstpass' ladder goes up the cost-quality front until the gate passes.\n")
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// grid shows all cells, and draws them.
func (p *Page) grid(results []*result) {
	t := &eval.Table{Header: []string{"index minus"}}
	picture := &eval.HeatMap{Name: "board", Title: "index minus each method", X: "table", Scale: "AUC points", FractionalDigits: 1}
	ahead, behind, cells := 0, 0, 0
	for _, r := range results {
		t.Header, picture.XTicks = append(t.Header, r.key), append(picture.XTicks, r.key)
	}
	for _, m := range methods() {
		if m.row == cascade.NameIndex {
			continue
		}
		line, values := []string{m.title}, []float64{}
		for _, r := range results {
			n := r.by[m.row]
			gap, _ := n.gapAndError()
			mark := n.mark()
			ahead, behind, cells = ahead+btoi(mark == " ▲"), behind+btoi(mark == " ▼"), cells+1
			line, values = append(line, fmt.Sprintf("%+.1f%s", gap, mark)), append(values, gap)
		}
		t.Cells = append(t.Cells, line)
		picture.YTicks, picture.Values = append(picture.YTicks, m.title), append(picture.Values, values)
	}
	slices.Reverse(picture.YTicks)
	slices.Reverse(picture.Values)
	p.printf("`index` is ahead in %d of %d cells, behind in %d; %d are not told apart.\n\n", ahead, cells, behind, cells-ahead-behind)
	p.table(t)
	p.figure(picture.Figure(), "Area of index less that of each method on each table")
}

func (r *result) table() *eval.Table {
	t := &eval.Table{Header: []string{"method", "AUC %", "index minus it", "p", "cost at the best model's quality, hindsight", "chosen on train", "falls short"}}
	for _, m := range methods() {
		n := r.by[m.row]
		gap, deviation := n.gapAndError()
		line := []string{m.title, fmt.Sprintf("%.1f", stat.Mean(n.auc, nil)), fmt.Sprintf("%+.2f ± %.2f%s", gap, 2*deviation, n.mark()), fmt.Sprintf("%.3f", n.p)}
		if m.row == cascade.NameIndex {
			line[2], line[3] = "-", "-"
		}
		below := 0
		for _, s := range n.short {
			below += btoi(s > 1e-9)
		}
		t.Cells = append(t.Cells, append(line, sharePercent(median(n.hindsight)), sharePercent(median(n.chosen)),
			fmt.Sprintf("%d of %d, %+.1f", below, len(n.short), stat.Mean(n.short, nil))))
	}
	return t
}

func clone(t *outcome.Table) *outcome.Table {
	c := *t
	c.Quality, c.CostUSD = nil, nil
	for q := range t.Queries {
		c.Quality = append(c.Quality, append([]float64(nil), t.Quality[q]...))
		c.CostUSD = append(c.CostUSD, append([]float64(nil), t.CostUSD[q]...))
	}
	return &c
}
