package cli_test

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
)

// recordedCall is a model's recorded call for a query, in canonical form.
type recordedCall struct {
	call           string
	quality, price float64
}

// recordedCaller is a recorded model, with its calls by query.
type recordedCaller struct {
	maker         string
	quality, cost float64 // means
	calls         map[string]recordedCall
}

// readRecordedCalls reads recorded function calls of models from third-party data, without which the test is skipped:
// the queries, with the function that each is about, and the models.
func readRecordedCalls(t *testing.T) (queries [][2]string, models []*recordedCaller) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "bfcl_calls.csv.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no recorded calls")
	} else if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(unzipped).ReadAll() // query_id, group, model, quality, cost_usd, call, call_loose, valid, kind
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*recordedCaller{}
	for _, row := range rows[1:] {
		m := byName[row[2]]
		if m == nil {
			maker, _, _ := strings.Cut(strings.TrimPrefix(row[2], "open-"), "-")
			m = &recordedCaller{maker: strings.ReplaceAll(maker, "mixtral", "mistral"), calls: map[string]recordedCall{}}
			byName[row[2]] = m
			models = append(models, m)
		}
		if m == models[0] {
			queries = append(queries, [2]string{row[0], row[1]})
		}
		c := recordedCall{call: row[5]}
		c.quality, _ = strconv.ParseFloat(row[3], 64)
		c.price, _ = strconv.ParseFloat(row[4], 64)
		if row[8] != "call" && row[8] != "none" {
			c.call = "!" + c.call // it cannot be read as a call
		}
		m.calls[row[0]] = c
	}
	for _, m := range models {
		for _, c := range m.calls {
			m.quality, m.cost = m.quality+c.quality/float64(len(queries)), m.cost+c.price/float64(len(queries))
		}
	}
	return queries, models
}

func (m *recordedCaller) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", nil
}

// GenerateContent returns the recorded answer to the query that the prompt names; each token costs a hundredth of the
// model's mean call.
func (m *recordedCaller) GenerateContent(_ context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	c := m.calls[messages[0].Parts[0].(llms.TextContent).Text]
	choice := &llms.ContentChoice{Content: "none", StopReason: "stop", GenerationInfo: map[string]any{"PromptTokens": 1, "CompletionTokens": int(100*c.price/m.cost + 0.5)}}
	if c.call != "none" {
		choice.Content, choice.StopReason = "", "tool_calls"
		choice.ToolCalls = []llms.ToolCall{{ID: "c", Type: "function", FunctionCall: &llms.FunctionCall{Name: o.Tools[0].Function.Name, Arguments: fmt.Sprintf(`{"call": %q}`, c.call)}}}
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}

// On recorded function calls, the policy that init writes is hardly ever more than a point below the large model,
// whichever two cheap models come before it: for each triple whose prices init would accept, unless the large model
// is far better than a cheap one. The data do not record which function a call is about: either no function has been
// called before, or all queries of a group are about the same one.
func TestFirstPolicyOnRecordedCalls(t *testing.T) {
	const gap = 0.08 // by how much the large model may be better than each cheap one
	if testing.Short() {
		t.Skip("a measurement")
	}
	queries, models := readRecordedCalls(t)
	text := firstPolicyText(t)
	var triples [][3]*recordedCaller
	for _, large := range models {
		for i, a := range models {
			for _, b := range models[:i] {
				isFair := a.maker != b.maker && large.quality >= max(a.quality, b.quality) && large.quality-min(a.quality, b.quality) <= gap
				if isFair && large.cost > max(a.cost, b.cost) && (a.cost+b.cost)/large.cost+0.27 <= 0.75 {
					triples = append(triples, [3]*recordedCaller{a, b, large})
				}
			}
		}
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(triples), func(i, j int) { triples[i], triples[j] = triples[j], triples[i] })
	all := len(triples)
	if os.Getenv("STEPFALL_ATTACKS") != "all" {
		triples = triples[:30]
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(queries), func(i, j int) { queries[i], queries[j] = queries[j], queries[i] })
	for name, function := range map[string]func(query [2]string) string{
		"functions of their own": func(query [2]string) string { return query[0] },
		"a function a group":     func(query [2]string) string { return query[1] },
	} {
		worse, points, share, least, most := 0, 0.0, 0.0, 0.0, 0.0
		for _, triple := range triples {
			quality, cost := playRecordedCalls(t, text, triple, queries, function)
			loss, part := quality-triple[2].quality, cost/triple[2].cost
			if loss < -0.01 {
				worse++
			}
			points, share = points+100*loss/float64(len(triples)), share+part/float64(len(triples))
			least, most = min(least, 100*loss), max(most, part)
		}
		t.Logf("%s: %d of %d triples: %+.2f points (worst %.1f) at %.2f of the large model's cost (most %.2f), %d worse by more than a point", name, len(triples), all, points, least, share, most, worse)
		if float64(worse) > 0.02*float64(len(triples)) || points < 0 || share > 0.77 || most > 1.05 {
			t.Error("it harms, or saves too little")
		}
	}
}

// playRecordedCalls answers the queries under the policy, and returns the mean quality and cost.
func playRecordedCalls(t *testing.T, text string, triple [3]*recordedCaller, queries [][2]string, function func(query [2]string) string) (quality, cost float64) {
	t.Helper()
	slices.SortFunc(triple[:2], func(a, b *recordedCaller) int { return cmp.Compare(a.cost, b.cost) })
	var prices []policies.Price
	var clients []llms.Model
	for _, m := range triple {
		prices, clients = append(prices, policies.Price{Output: 1e4 * m.cost}), append(clients, m)
	}
	model, names := openFirstPolicy(t, text, prices, clients)
	defer model.Close()
	for i, query := range queries {
		ctx, report := middleware.WithReport(middleware.WithInfo(t.Context(), middleware.Info{Run: fmt.Sprint(i)}))
		tool := llms.Tool{Type: "function", Function: &llms.FunctionDefinition{Name: function(query), Parameters: map[string]any{"type": "object"}}}
		_, err := model.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, query[0])}, llms.WithTools([]llms.Tool{tool}))
		if err != nil {
			t.Fatal(err)
		}
		step := report.Steps()[0]
		quality += triple[slices.Index(names, step.Chosen)].calls[query[0]].quality / float64(len(queries))
		cost += step.CostUSD / float64(len(queries))
	}
	return quality, cost
}
