package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/stepfall/stepfall/adapters/internal/figure"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
)

// mark returns ▲ where index is ahead and ▼ where it is behind, at 5 % after Holm's correction.
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

// writeBoard writes the page of results with the sources of the data.
func (e *Env) writeBoard(p *Page, results []*result, shipped, folder, absent []string) {
	correctPValues(results)
	p.printf("Each method is fitted to one half of a table and measured on the other: %d random pairs of halves, each way, so %d halves; every method on the same ones. "+
		"Cells are the area under the cost-quality curve of `index` less that of the method, in points. ▲ `index` is ahead, ▼ it is behind, where zero lies outside by a bootstrap that draws the queries anew, "+
		"divides them and fits everything again (%d times), at 5 %% after Holm's correction over all %d cells; no mark: not told apart.\n\n", e.boardPairs(), 2*e.boardPairs(), e.boardResamples(), len(results)*(len(methods)-1))
	p.printf("Read from the repository: %s. Read from a folder: %s; none of these but ZeroEval's is in the repository, that one without prompts.", cmp.Or(strings.Join(shipped, ", "), "nothing"), cmp.Or(strings.Join(folder, ", "), "nothing"))
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

// grid adds a table and a heat map of all cells.
func (p *Page) grid(results []*result) {
	t := &eval.Table{Header: []string{"index minus"}}
	picture := &figure.HeatMap{Name: "board", Title: "index minus each method", X: "table", Scale: "AUC points", FractionalDigits: 1}
	ahead, behind, cells := 0, 0, 0
	for _, r := range results {
		t.Header, picture.XTicks = append(t.Header, r.key), append(picture.XTicks, r.key)
	}
	for _, m := range methods {
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
	for _, m := range methods {
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

// shareAtBest returns the cost at the best single model's quality as a share of that model's, or infinity if the
// quality is not reached.
func shareAtBest(c *eval.Comparison, r *eval.Row) float64 {
	if math.IsNaN(r.CostAtBest) {
		return math.Inf(1)
	}
	return r.CostAtBest / c.Frame.Models[c.Frame.Best].Cost
}

func sharePercent(share float64) string {
	if math.IsInf(share, 1) {
		return "not reached"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}
