package middleware_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// A stream ends at a stop word that the model ignores, wherever its pieces are split, and has the same content as the
// answer, whose parts and calls end there too.
func TestStreamsEndAtStopWords(t *testing.T) {
	call := llms.ToolCall{ID: "c", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: "{}"}}
	for name, tt := range map[string]struct {
		pieces []string
		want   string
		stop   bool
	}{
		"in one piece":         {[]string{"Action\nObs: no"}, "Action", true},
		"over pieces":          {[]string{"Action", "\n", "O", "bs", ": no"}, "Action", true},
		"only the beginning":   {[]string{"a\n", "Ob", "ey"}, "a\nObey", false},
		"ends within":          {[]string{"a", "\nOb"}, "a\nOb", false},
		"the first that comes": {[]string{"a END b\n", "Obs:"}, "a ", true},
		"at once":              {[]string{"END", "x"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &nativeModel{}
			whole, tokens := "", ""
			var probs []sdk.TokenLogProb
			for _, piece := range tt.pieces {
				probs = append(probs, sdk.TokenLogProb{Token: piece})
				if len(whole+piece) <= len(tt.want) {
					tokens = whole + piece
				}
				s.deltas = append(s.deltas, middleware.Delta{Text: piece})
				whole += piece
			}
			s.deltas = append(s.deltas, middleware.Delta{Tool: &middleware.ToolDelta{ID: "c", Name: "look", Arguments: "{}"}})
			s.resp = text(whole)
			s.resp.Choices[0].ToolCalls = []llms.ToolCall{call}
			s.resp.Choices[0].GenerationInfo = map[string]any{middleware.KeyExtra: &middleware.Extra{LogProbs: probs, Parts: []llms.ContentPart{llms.TextContent{Text: whole}, call}}}
			m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(s)}, Stream: middleware.Passthrough})
			shown, calls := "", 0
			resp, err := m.GenerateContent(t.Context(), human("q"), llms.WithStopWords([]string{"\nObs:", "END"}), middleware.WithParams(middleware.Params{OnDelta: func(_ context.Context, d *middleware.Delta) error {
				if shown += d.Text; d.Tool != nil {
					calls++
				}
				return nil
			}}))
			if err != nil {
				t.Fatal(err)
			}
			choice := resp.Choices[0]
			said := ""
			for _, token := range middleware.ExtraOf(choice).LogProbs {
				said += token.Token
			}
			if said != tokens {
				t.Errorf("the tokens of %q are kept, want those of %q", said, tokens)
			}
			if choice.Content != tt.want || shown != tt.want {
				t.Errorf("%q is answered, %q shown; want %q", choice.Content, shown, tt.want)
			}
			want := []llms.ContentPart{llms.TextContent{Text: tt.want}, call}
			switch {
			case tt.stop && tt.want == "":
				want = nil
			case tt.stop:
				want = want[:1]
			}
			x := middleware.ExtraOf(choice)
			if !cmp.Equal(x.Parts, want) || (x.StopReason == "stop_sequence") != tt.stop || (len(choice.ToolCalls) == 0) != tt.stop || (calls == 0) != tt.stop {
				t.Errorf("parts %+v, stop reason %q, %d calls, %d shown", x.Parts, x.StopReason, len(choice.ToolCalls), calls)
			}
		})
	}
}
