package step

import "context"

// explore calls one of the models that the strategy left out, drawn at random, and returns the candidate
// whose answer the step should return now: still answer if the call fails.
func (r *run) explore(ctx context.Context, answer int) int {
	var open []int
	for i := range r.e.models {
		if r.isOpen(i) {
			open = append(open, i)
		}
	}
	if len(open) == 0 || ctx.Err() != nil {
		return answer
	}
	i := open[int(r.e.c.Coin()*float64(len(open)))]
	from := len(r.t.Calls)
	r.isExploring = true
	got, err := r.call(ctx, i, false)
	for k := range r.t.Calls[from:] {
		r.t.Calls[from:][k].Propensity = r.e.c.Explore / float64(len(open))
	}
	if err != nil || r.judge(ctx, i, got) != nil {
		return answer
	}
	r.updateBeliefs(ctx)
	d := r.strategy.Decide(&r.state)
	if d.Answer < 0 {
		return answer
	}
	if best := r.prefer(d.Answer); best != i || !r.isRejected(i) {
		return best
	}
	return answer
}
