package middleware

import "github.com/tmc/langchaingo/llms"

// statesEffort reports whether the caller sets a reasoning effort, in Params or in langchaingo's options.
func (c *call) statesEffort() bool {
	if c.params.ReasoningEffort != "" || c.params.ReasoningTokens != nil {
		return true
	}
	config := thinkingOf(&c.resolved)
	return config != nil && (config.Mode != llms.ThinkingModeAuto || config.BudgetTokens > 0)
}

func thinkingOf(o *llms.CallOptions) *llms.ThinkingConfig {
	config, _ := o.Metadata["thinking_config"].(*llms.ThinkingConfig)
	return config
}

// setEffort requests the arm's reasoning effort, also in langchaingo's options, which know only low, medium
// and high.
func (t *target) setEffort(o *llms.CallOptions, p *Params, isStated bool) {
	if t.effort == "" || isStated && !t.override {
		return
	}
	p.ReasoningEffort, p.ReasoningTokens = t.effort, nil
	config := llms.ThinkingConfig{}
	if own := thinkingOf(o); own != nil {
		config = *own
	}
	config.Mode, config.BudgetTokens = llms.ThinkingMode(t.effort), 0
	llms.WithThinking(&config)(o)
}

// varySample makes a further sample differ from the first: with a minimum temperature, and with a different
// seed if the caller sets one. Unset options are NaN or unsetInt.
func (t *target) varySample(o *llms.CallOptions, p *Params) {
	if t.sample == 0 {
		return
	}
	if !(o.TopP > 0) && !(o.Temperature >= t.temperature) {
		o.Temperature, p.Temperature = t.temperature, &t.temperature
	}
	if o.Seed != 0 && o.Seed != unsetInt {
		o.Seed += t.sample
		p.Seed = &o.Seed
	}
}
