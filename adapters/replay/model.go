package replay

import (
	"context"
	"fmt"
	"math"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/step"
)

// NanoPrice is the price of a replayed model: one output token is a billionth of a
// US dollar.
func NanoPrice() sdk.Price { return sdk.Price{Output: 1e-3} }

// Model answers from one column of an outcome table. It is safe for concurrent use.
type Model struct {
	table *outcome.Table
	model int
	rows  map[string]int
	// tokens reports recorded tokens in place of nano-dollars.
	tokens bool
}

var _ llms.Model = (*Model)(nil)

// NewModel returns the replay of a model of the table. A query is known by the
// QueryID of [middleware.Info] in the context.
func NewModel(t *outcome.Table, name string) (*Model, error) {
	m := &Model{table: t, model: t.Index(name), rows: rowsOf(t)}
	if m.model < 0 {
		return nil, fmt.Errorf("no outcomes of model %q; the table has %q", name, t.Models)
	}
	return m, nil
}

func rowsOf(t *outcome.Table) map[string]int {
	rows := make(map[string]int, len(t.Queries))
	for q, name := range t.Queries {
		rows[name] = q
	}
	return rows
}

// GenerateContent returns the recorded answer, or where none was recorded the name
// of model and query, with its recorded tokens or the recorded cost in nano-dollars
// as output tokens.
func (m *Model) GenerateContent(ctx context.Context, _ []llms.MessageContent, _ ...llms.CallOption) (*llms.ContentResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id := middleware.InfoFrom(ctx).QueryID
	q, known := m.rows[id]
	if !known {
		return nil, fmt.Errorf("no outcomes of query %q", id)
	}
	cost := m.cost(q)
	if math.IsNaN(cost) {
		return nil, fmt.Errorf("no outcome of %s on query %q", m.table.Models[m.model], id)
	}
	text := m.table.Answer(q, m.model)
	if text == "" {
		text = fmt.Sprintf("answer of %s to %s", m.table.Models[m.model], id)
	}
	in, out := 0, int(math.Round(cost*1e9))
	if m.tokens {
		in, out = int(m.table.InputTokens[q][m.model]), int(m.table.OutputTokens[q][m.model])
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{
		Content: text, StopReason: "stop",
		GenerationInfo: map[string]any{"PromptTokens": in, "CompletionTokens": out},
	}}}, nil
}

func (m *Model) cost(query int) float64 { return outcome.At(m.table.CostUSD, query, m.model) }

// Call implements [llms.Model].
func (m *Model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// Verifier returns the recorded qualities as verdicts: 1 is passed, 0 is failed, and
// between them the outcome is the more probable one with that confidence.
func Verifier(t *outcome.Table) step.Verifier {
	rows := rowsOf(t)
	return step.Verifier{Name: "recorded", Verifier: sdk.VerifierFunc(func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		q, known := rows[req.Query.ID]
		m := t.Index(req.Answer.Model)
		if !known || m < 0 || math.IsNaN(outcome.At(t.Quality, q, m)) {
			return &sdk.Verdict{Outcome: sdk.Inconclusive, Evidence: "no outcome was recorded"}, nil
		}
		v := t.Quality[q][m]
		if v >= 0.5 {
			return &sdk.Verdict{Outcome: sdk.Passed, Score: v, Confidence: v}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Failed, Score: v, Confidence: 1 - v}, nil
	})}
}
