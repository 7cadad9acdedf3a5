package cascade

// Describe implements [Describer].
func (c *common) Describe() Description {
	return Description{c.name, Params{Lambdas: c.lambdas, Gamma: c.gamma, MaxDepth: c.maxDepth, Scale: c.scale, NoExpect: c.scale == 0}}
}

// Describe implements [Describer].
func (t *Threshold) Describe() Description {
	d := t.common.Describe()
	d.Order, d.Thresholds, d.Answer = t.order, t.thresholds, t.answer
	return d
}

// Describe implements [Describer].
func (c *Cascade) Describe() Description {
	d := c.common.Describe()
	d.Order, d.Answer = c.order, c.answer
	return d
}

// Describe implements [Describer].
func (r *CascadeRoute) Describe() Description {
	d := r.common.Describe()
	d.Order, d.NodeLimit = r.order, r.limit
	return d
}
