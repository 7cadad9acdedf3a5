package cascade

// Params returns what the strategy goes by. Slices are the strategy's own, to be
// read only.
func (c *common) Params() Params {
	return Params{Lambdas: c.lambdas, Gamma: c.gamma, MaxDepth: c.maxDepth, Scale: c.scale, NoExpect: c.scale == 0}
}

// Params returns what the strategy goes by. Slices are the strategy's own, to be
// read only.
func (t *Threshold) Params() Params {
	p := t.common.Params()
	p.Order, p.Thresholds, p.Answer = t.order, t.thresholds, t.answer
	return p
}

// Params returns what the strategy goes by. Slices are the strategy's own, to be
// read only.
func (c *Cascade) Params() Params {
	p := c.common.Params()
	p.Order, p.Answer = c.order, c.answer
	return p
}

// Params returns what the strategy goes by. Slices are the strategy's own, to be
// read only.
func (r *CascadeRoute) Params() Params {
	p := r.common.Params()
	p.Order, p.NodeLimit, p.TopK = r.order, r.limit, r.topK
	return p
}
