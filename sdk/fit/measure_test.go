package fit

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

var (
	seeds     = flag.Int("seeds", 5, "")
	sets      = flag.String("sets", "llama,gemma,3,5,11", "")
	kinds     = flag.String("kinds", "mean", "")
	costs     = flag.String("costs", "mean", "")
	levels    = flag.String("levels", "", "")
	scaleList = flag.String("scales", "1,0.5,0.25", "")
	names     = flag.String("names", "route,cascade_route,index", "")
	grid      = flag.Int("grid", 40, "")
	verbose   = flag.Bool("points", false, "")
)

func lambdaGrid(t *outcome.Table, n int) []float64 {
	c := t.MeanCosts()
	low, high := 1e-3/slices.Max(c), 20/slices.Min(c)
	out := []float64{0}
	for i := range n {
		out = append(out, low*math.Pow(high/low, float64(i)/float64(n-1)))
	}
	return out
}

// linearArea is the AUC of coin tosses between single models.
func linearArea(t *outcome.Table) (float64, float64, float64) {
	c, q := t.MeanCosts(), t.MeanQualities()
	var hull []Point
	idx := make([]int, len(c))
	for i := range idx {
		idx[i] = i
	}
	slices.SortFunc(idx, func(a, b int) int { return int(math.Copysign(1, c[a]-c[b])) })
	for _, i := range idx {
		p := Point{CostUSD: c[i], Quality: q[i]}
		if len(hull) > 0 && p.Quality <= hull[len(hull)-1].Quality {
			continue
		}
		for len(hull) > 1 {
			a, b := hull[len(hull)-2], hull[len(hull)-1]
			if (b.Quality-a.Quality)*(p.CostUSD-b.CostUSD) > (p.Quality-b.Quality)*(b.CostUSD-a.CostUSD) {
				break
			}
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, p)
	}
	best := 0
	for i := range q {
		if q[i] > q[best] {
			best = i
		}
	}
	return area(t, hull), q[best], c[best]
}

func reach(points []Point, quality float64) float64 {
	s := slices.Clone(points)
	slices.SortFunc(s, func(a, b Point) int { return int(math.Copysign(1, a.CostUSD-b.CostUSD)) })
	for i, p := range s {
		if p.Quality >= quality {
			if i == 0 {
				return p.CostUSD
			}
			b := s[i-1]
			return b.CostUSD + (quality-b.Quality)/(p.Quality-b.Quality)*(p.CostUSD-b.CostUSD)
		}
	}
	return math.NaN()
}

type tally struct {
	sum, ratio map[string]*moment
	order      []string
}
type moment struct{ n, s float64 }

func (m *moment) String() string { return fmt.Sprintf("%6.2f", m.s/m.n) }
func (t *tally) add(name string, v, r float64) {
	if t.sum == nil {
		t.sum, t.ratio = map[string]*moment{}, map[string]*moment{}
	}
	if t.sum[name] == nil {
		t.sum[name], t.ratio[name] = &moment{}, &moment{}
		t.order = append(t.order, name)
	}
	t.sum[name].n++
	t.sum[name].s += 100 * v
	t.ratio[name].n++
	t.ratio[name].s += r
}

func TestMeasure(t *testing.T) {
	if !slices.Contains(strings.Split(flag.Lookup("test.run").Value.String(), "|"), "Measure") {
		t.Skip("measures on demand")
	}
	for set := range strings.SplitSeq(*sets, ",") {
		lv := []string{""}
		if *levels != "" {
			lv = strings.Split(*levels, ",")
		}
		for _, level := range lv {
			var tl tally
			for seed := range *seeds {
				var table *outcome.Table
				if set == "swe" {
					table = outcometest.Swebench(t)
				} else {
					table = outcometest.Zeroeval(t, set)
				}
				if level != "" {
					table = estimate.Simulate(table, estimate.NoiseLevels()[level], uint64(seed)+100)
				}
				train, test := table.Split(0.5, uint64(seed))
				lin, bestQ, bestC := linearArea(test)
				tl.add("linear", lin, 1)
				lambdas := lambdaGrid(train, *grid)
				for kind := range strings.SplitSeq(*kinds, ",") {
					for cost := range strings.SplitSeq(*costs, ",") {
						e, err := estimate.Fit(train, estimate.Options{Quality: kind, Cost: cost})
						if err != nil {
							t.Fatal(err)
						}
						r, err := e.On(test)
						if err != nil {
							t.Fatal(err)
						}
						var strategies []cascade.Strategy
						type block struct{ name string }
						var blocks []block
						for name := range strings.SplitSeq(*names, ",") {
							for sc := range strings.SplitSeq(*scaleList, ",") {
								var scale float64
								fmt.Sscan(sc, &scale)
								if (name == "route" || name == "threshold") && sc != strings.Split(*scaleList, ",")[0] {
									continue
								}
								p := cascade.Params{Scale: scale}
								c := train.MeanCosts()
								order := make([]int, len(c))
								for i := range order {
									order[i] = i
								}
								slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, c[a]-c[b])) })
								if name == "threshold" || name == "cascade" {
									p.Order = order
								}
								base, err := cascade.New(name, p)
								if err != nil {
									t.Fatal(err)
								}
								blocks = append(blocks, block{fmt.Sprintf("%s/%s/%s/%s", kind, cost, name, sc)})
								for i, l := range lambdas {
									if name == "threshold" {
										l = float64(i)/float64(len(lambdas)-2) - 0.001
									}
									s, err := base.(cascade.Tunable).Tune([]float64{l}, 1)
									if err != nil {
										t.Fatal(err)
									}
									strategies = append(strategies, s)
								}
							}
						}
						res, err := newStage(test, r).play(context.Background(), strategies)
						if err != nil {
							t.Fatal(err)
						}
						for b, bl := range blocks {
							var pts []Point
							for i := range lambdas {
								pts = append(pts, res[b*len(lambdas)+i].point(lambdas[i]))
							}
							tl.add(bl.name, area(test, pts), reach(pts, bestQ)/bestC)
							if *verbose {
								for _, p := range pts {
									fmt.Printf("%s %.4g c=%.4f q=%.4f n=%.2f\n", bl.name, p.Value, p.CostUSD, p.Quality, p.Steps)
								}
							}
						}
					}
				}
			}
			fmt.Printf("== %s %s\n", set, level)
			for _, n := range tl.order {
				fmt.Printf("%-45s %s   cost at best %5.3f\n", n, tl.sum[n], tl.ratio[n].s/tl.ratio[n].n)
			}
		}
	}
}
