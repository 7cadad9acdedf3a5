package cascade

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// Search says how CascadeRoute looks for the best supermodel.
type Search int

// The searches.
const (
	// Exact finds the best supermodel by branch and bound.
	Exact Search = iota
	// Slow values every supermodel within the depth limit: the same decisions as
	// Exact in exponential time, for comparison.
	Slow
	// Greedy considers one further model only.
	Greedy
)

// DefaultNodeLimit is the NodeLimit that 0 stands for.
const DefaultNodeLimit = 20000

// CascadeRoute chooses at each turn among all supermodels that contain what has
// run the one with the greatest
//
//	tau(S) = E[max over S] - lambda·(cost of what has not run),
//
// and runs the cheapest model of it, or stops if nothing is to be added. It is the
// paper's theorem 3 and algorithm 3: routing and cascading in one.
type CascadeRoute struct {
	common
	order  []int
	search Search
	limit  int
	topK   int
	pool   *sync.Pool
}

// NewCascadeRoute returns a CascadeRoute; it reads Lambdas, Gamma, MaxDepth,
// Scale, NoExpect, Order, NodeLimit and TopK.
func NewCascadeRoute(p Params, search Search) (*CascadeRoute, error) {
	c, err := newCommon(p)
	if err != nil {
		return nil, err
	}
	if search < Exact || search > Greedy {
		return nil, fmt.Errorf("cascade: search %d", search)
	}
	r := &CascadeRoute{common: c, order: slices.Clone(p.Order), search: search, limit: p.NodeLimit, topK: p.TopK, pool: newPool()}
	switch {
	case r.limit == 0:
		r.limit = DefaultNodeLimit
	case r.limit < 0:
		r.limit = math.MaxInt
	}
	return r, nil
}

// Tune implements [Tunable].
func (r *CascadeRoute) Tune(lambdas []float64, gamma float64) (Strategy, error) {
	t := *r
	var err error
	if t.common, err = r.tuned(lambdas, gamma); err != nil {
		return nil, err
	}
	return &t, nil
}

// Decide implements [Strategy].
func (r *CascadeRoute) Decide(s *State) Decision {
	s.check()
	answer, floor := s.best()
	d := Decision{Run: Stop, Answer: answer}
	if r.spent(s) {
		return d
	}
	w := r.pool.Get().(*work)
	defer r.pool.Put(w)
	w.models = w.models[:0]
	if r.order == nil {
		for i := range s.Beliefs {
			if s.open(i) {
				w.models = append(w.models, i)
			}
		}
	} else {
		for k := s.after(r.order); k < len(r.order); k++ {
			if i := r.order[k]; s.open(i) {
				w.models = append(w.models, i)
			}
		}
	}
	if len(w.models) == 0 {
		return d
	}
	set, approximate := w.run(s, r, floor)
	d.Approximate = approximate
	for _, k := range set {
		i := w.models[k]
		if d.Run == Stop || r.order == nil && s.Costs[i] < s.Costs[d.Run] {
			d.Run = i
		}
	}
	return d
}

// search is the state of one search for the best supermodel.
type search struct {
	models []int
	prices []float64
	node   []float64 // places of the quadrature
	weight []float64
	cdf    []float64 // one row of node values for each model
	prod   []float64 // one row for each depth
	set    []int
	best   []int
	top    float64 // the greatest tau
	cost   float64 // price of best
	upper  float64
	nodes  int
	limit  int
	room   int
	must   bool // the empty set does not count
	cheap  bool
	prune  bool
}

func (w *work) run(s *State, r *CascadeRoute, floor float64) ([]int, bool) {
	lambda := r.lambda(len(s.Ran))
	w.laws, w.prices = w.laws[:0], w.prices[:0]
	lo, hi := math.Inf(1), floor
	for _, i := range w.models {
		l := s.Beliefs[i].law(r.scale)
		w.laws = append(w.laws, l)
		w.prices = append(w.prices, price(lambda, s.Costs[i]))
		a, b := l.mean-reach*l.dev, l.mean+reach*l.dev
		if l.two {
			a, b = l.lo, l.hi
		}
		lo, hi = min(lo, a), max(hi, b)
	}
	lo = max(lo, floor)
	w.node, w.weight = w.node[:0], w.weight[:0]
	w.laws.panels(lo, hi, 5, func(a, b float64) {
		c, h := 0.5*(a+b), 0.5*(b-a)
		for _, g := range gauss12 {
			w.node = append(w.node, c-h*g.x, c+h*g.x)
			w.weight = append(w.weight, h*g.w, h*g.w)
		}
	})
	k := len(w.node)
	w.cdf, w.prod = w.cdf[:0], slices.Grow(w.prod[:0], k*(len(w.models)+1))
	for i := range w.laws {
		for _, x := range w.node {
			w.cdf = append(w.cdf, w.laws[i].cdf(x))
		}
	}
	w.prod = w.prod[:k*(len(w.models)+1)]
	for j := range k {
		w.prod[j] = 1
	}
	w.set, w.best = w.set[:0], w.best[:0]
	w.upper, w.nodes, w.limit, w.room = hi, 0, r.limit, r.room(s)
	if r.search == Greedy {
		w.room = 1
	}
	w.must, w.cheap, w.prune = math.IsInf(floor, -1), r.cheap(s), r.search != Slow
	w.top, w.cost = negInf, 0
	if !w.must {
		w.offer(floor, 0)
	}
	w.walk(0, 0, floor, 0)
	return w.best, w.nodes >= w.limit
}

func (w *search) offer(tau, cost float64) {
	switch {
	case tau > w.top+tieTolerance || w.top == negInf:
	case tau >= w.top-tieTolerance && preferred(w.cheap, cost, w.cost):
	default:
		return
	}
	w.best = append(w.best[:0], w.set...)
	w.top, w.cost = max(tau, w.top), cost
}

// walk tries every model from next on in addition to the set.
func (w *search) walk(depth, next int, value, cost float64) {
	if depth >= w.room || next >= len(w.models) {
		return
	}
	k := len(w.node)
	row, sub := w.prod[depth*k:(depth+1)*k], w.prod[(depth+1)*k:(depth+2)*k]
	if w.prune && depth > 0 {
		bound := value - cost
		for i := next; i < len(w.models); i++ {
			f := w.cdf[i*k : (i+1)*k]
			below := 0.0
			for j, p := range row {
				below += w.weight[j] * p * f[j]
			}
			bound += max(0, w.upper-below-value-w.prices[i])
		}
		if bound < w.top-tieTolerance {
			return
		}
	}
	for i := next; i < len(w.models); i++ {
		f := w.cdf[i*k : (i+1)*k]
		below := 0.0
		for j, p := range row {
			sub[j] = p * f[j]
			below += w.weight[j] * sub[j]
		}
		w.nodes++
		if w.nodes >= w.limit {
			return
		}
		v := w.upper - below
		if w.prune && (depth > 0 || !w.must) && v-value < w.prices[i]-tieTolerance {
			continue
		}
		w.set = append(w.set, i)
		w.offer(v-cost-w.prices[i], cost+w.prices[i])
		w.walk(depth+1, i+1, v, cost+w.prices[i])
		w.set = w.set[:len(w.set)-1]
	}
}
