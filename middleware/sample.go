package middleware

import "github.com/tmc/langchaingo/llms"

// statesEffort reports whether the caller says how much a model is to think, in this
// package's way or in langchaingo's.
func (c *call) statesEffort() bool {
	if c.params.ReasoningEffort != "" || c.params.ReasoningTokens != nil {
		return true
	}
	config := thinkingOf(&c.given)
	return config != nil && (config.Mode != llms.ThinkingModeAuto || config.BudgetTokens > 0)
}

func thinkingOf(o *llms.CallOptions) *llms.ThinkingConfig {
	config, _ := o.Metadata["thinking_config"].(*llms.ThinkingConfig)
	return config
}

// setEffort asks for the arm's reasoning effort, also in langchaingo's terms: its words are
// low, medium and high.
func (t *target) setEffort(o *llms.CallOptions, p *Params) {
	p.ReasoningEffort, p.ReasoningTokens = t.effort, nil
	config := llms.ThinkingConfig{}
	if own := thinkingOf(o); own != nil {
		config = *own
	}
	config.Mode, config.BudgetTokens = llms.ThinkingMode(t.effort), 0
	llms.WithThinking(&config)(o)
}

// varySample makes the call of a further answer one that need not give the first again: at a
// temperature, and with a seed of its own where the caller has set one. What no option
// has set is NaN or unsetInt.
func (t *target) varySample(o *llms.CallOptions, p *Params) {
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
