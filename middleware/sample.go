package middleware

import "github.com/tmc/langchaingo/llms"

// vary makes the call of a further answer one that need not give the first again: at a
// temperature, and with a seed of its own where the caller has set one. What no option
// has set is NaN or unsetInt.
func (t *target) vary(o *llms.CallOptions, p *Params) {
	if t.again == 0 {
		return
	}
	if !(o.TopP > 0) && !(o.Temperature >= t.temperature) {
		o.Temperature, p.Temperature = t.temperature, &t.temperature
	}
	if o.Seed != 0 && o.Seed != unsetInt {
		o.Seed += t.again
		p.Seed = &o.Seed
	}
}
