package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// costTokens multiplies tokens by prices: the prompt's, which are known, and the
// answer's, which are expected by group and length of the prompt and given the
// lengths of the answers that other models have given to the same query.
type costTokens struct {
	Prices []sdk.Price `json:"prices"`
	// InputTokens is the mean length of prompts, for those of unknown length.
	InputTokens float64 `json:"input_tokens"`
	// Output predicts the tokens of the answers.
	Output *costFactor `json:"output"`
}

func fitCostTokens(t *outcome.Table, models []sdk.Model) (*costTokens, error) {
	if t.OutputTokens == nil {
		return nil, fmt.Errorf("cost estimator %q needs the column output_tokens", KindCostTokens)
	}
	e := &costTokens{Prices: make([]sdk.Price, len(t.Models))}
	for i, name := range t.Models {
		at := slices.IndexFunc(models, func(m sdk.Model) bool { return m.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("cost estimator %q needs the price of model %q", KindCostTokens, name)
		}
		e.Prices[i] = models[at].Price
	}
	var tokens moments
	for q := range t.Queries {
		if n := promptTokens(t, q); n > 0 {
			tokens.add(n)
		}
	}
	e.InputTokens = tokens.mean
	lengths := *t
	lengths.CostUSD = t.OutputTokens
	e.Output = fitCostFactor(&lengths)
	return e, nil
}

func (e *costTokens) Kind() string { return KindCostTokens }

func (e *costTokens) check(models int) error {
	if len(e.Prices) != models || e.Output == nil {
		return fmt.Errorf("parameters do not fit %d models", models)
	}
	return e.Output.check(models)
}

func (e *costTokens) Cursor() CostCursor {
	return &costTokensCursor{costTokens: e, output: e.Output.Cursor(), spent: make([]float64, len(e.Prices))}
}

type costTokensCursor struct {
	*costTokens
	output CostCursor
	input  float64
	spent  []float64 // of models that have run, NaN else
}

func (c *costTokensCursor) Begin(q *Query) {
	c.input = q.InputTokens
	if c.input <= 0 {
		c.input = c.InputTokens
	}
	for i := range c.spent {
		c.spent[i] = math.NaN()
	}
	c.output.Begin(q)
}

func (c *costTokensCursor) Observe(model int, r *Run) {
	c.spent[model] = r.CostUSD
	length := *r
	length.CostUSD = r.OutputTokens
	c.output.Observe(model, &length)
}

func (c *costTokensCursor) Costs(dst []float64) {
	c.output.Costs(dst)
	for i, p := range c.Prices {
		if math.IsNaN(c.spent[i]) {
			dst[i] = (c.input*p.Input + dst[i]*p.Output) / 1e6
		} else {
			dst[i] = c.spent[i]
		}
	}
}
