package real_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/feature"
)

const head = `# A real model

SmolLM2-135M-Instruct (4 bits, 98 MB) behind llama.cpp's own server on loopback, asked through adapters/provider. How well do
several confidences predict whether an answer is right? "accuracy" is the share of right answers, "AUROC" how well the confidence ranks right answers above wrong ones (50 % is chance),
"Brier" the mean squared difference between confidence and right (1) or wrong (0). All figures are on texts and questions that were not trained on.
` + "`make real`" + ` measures this page.
`

// Log-probabilities of labels predict which answers are right, after a calibration with the user's command, and so
// does agreement between samples.
func TestConfidence(t *testing.T) {
	url := serve(t)
	model, err := provider.New(provider.Options{Model: "smollm2", BaseURL: url, TopLogProbs: 20})
	if err != nil {
		t.Fatal(err)
	}
	page := head + labels(t, model) + samples(t, model)
	fmt.Println(page)
	if *update {
		if err := os.WriteFile(filepath.Join("..", "..", "..", "docs", "results", "real-model.md"), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// one is an answer, its confidence, and whether it was right.
type one struct {
	signals map[string]float64
	right   bool
}

var classes = []string{"positive", "negative"}

func labels(t *testing.T, model llms.Model) string {
	list := reviews(t, installed(t))
	random := rand.New(rand.NewPCG(17, 18))
	random.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	list = list[:min(*texts, len(list))]
	split := len(list) * 3 / 5
	answers := make([]one, len(list))
	for i, r := range list {
		answers[i] = label(t, model, r)
	}
	table, trained := filepath.Join(t.TempDir(), "answers.csv"), filepath.Join(t.TempDir(), "classifier.json")
	writeTable(t, table, answers[:split])
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), []string{"fit", "--classifier", "--outcomes", table, "--out", trained}, cli.Streams{Out: &out, Err: &errs}); code != 0 {
		t.Fatalf("fit --classifier: exit code %d: %s", code, &errs)
	}
	var c estimate.Classifier
	data, err := os.ReadFile(trained)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	unseen := answers[split:]
	positive, majority := share(list[:split], func(r review) bool { return r.positive }), 0.0
	majority = share(list[split:], func(r review) bool { return r.positive == (positive >= 0.5) })
	base := share(answers[:split], func(a one) bool { return a.right })
	rows := [][]any{
		{"the majority class of the other texts", majority, nil, majority * (1 - majority)},
		{"the label; confidence: how often labels were right on the other texts", nil, nil, nil},
		{"the label; confidence: its raw probability", nil, nil, nil},
		{"the label; confidence: `stepfall fit --classifier`", nil, nil, nil},
	}
	for i, confidence := range []func(one) float64{
		func(one) float64 { return base },
		func(a one) float64 { return a.signals["class_top_prob"] },
		func(a one) float64 { p, _ := c.Predict("smollm2", a.signals); return p },
	} {
		rows[i+1][1], rows[i+1][2], rows[i+1][3] = scores(unseen, confidence)
	}
	return fmt.Sprintf("\n## Log-probabilities of labels\n\n%d snippets of product reviews which people found clearly positive or negative (the ground truth of the VADER study, in the source distribution of the\n"+
		"PyPI package vaderSentiment), %d to train the confidence on and %d unseen; the model is asked for one word, with four examples.\n\n%s", len(list), split, len(unseen), render(rows))
}

func label(t *testing.T, model llms.Model, r review) one {
	t.Helper()
	messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeSystem, "Say whether the review is positive or negative. Answer with one word.")}
	for _, shot := range [][2]string{
		{"it broke after a week and nobody answered the phone", "negative"}, {"the picture is sharp and the battery lasts for days", "positive"},
		{"the manual is useless and the sound is awful", "negative"}, {"easy to set up , i would buy it again", "positive"},
	} {
		messages = append(messages, llms.TextParts(llms.ChatMessageTypeHuman, "Review: "+shot[0]), llms.TextParts(llms.ChatMessageTypeAI, shot[1]))
	}
	messages = append(messages, llms.TextParts(llms.ChatMessageTypeHuman, "Review: "+r.text))
	resp, err := model.GenerateContent(t.Context(), messages, llms.WithMaxTokens(1), llms.WithTemperature(0))
	if err != nil {
		t.Fatal(err)
	}
	x := middleware.ExtraOf(resp.Choices[0])
	p, ok := feature.Classes(x.LogProbs, classes)
	if !ok {
		return one{signals: feature.OfAnswer(&sdk.Answer{LogProbs: x.LogProbs})} // no label at all
	}
	// The signals that estimator-logprob measures.
	signals := feature.OfAnswer(&sdk.Answer{Text: resp.Choices[0].Content, LogProbs: x.LogProbs})
	signals["class_top_prob"], signals["class_entropy"] = max(p[0], p[1]), feature.Entropy(p)
	return one{signals, (p[0] >= p[1]) == r.positive}
}

// writeTable writes answers as an outcome table of stepfall.
func writeTable(t *testing.T, path string, answers []one) {
	t.Helper()
	names := map[string]bool{}
	for _, a := range answers {
		for name := range a.signals {
			names[name] = true
		}
	}
	columns := slices.Sorted(maps.Keys(names))
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{append([]string{"query_id", "model", "quality", "cost_usd"}, columns...)}
	for i, a := range answers {
		quality := "0"
		if a.right {
			quality = "1"
		}
		row := []string{strconv.Itoa(i), "smollm2", quality, "0.001"}
		for _, name := range columns {
			cell := ""
			if v, ok := a.signals[name]; ok {
				cell = strconv.FormatFloat(v, 'g', -1, 64)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	if err := w.WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

const perQuestion = 5

// samples asks each question several times and takes the most frequent answer.
func samples(t *testing.T, model llms.Model) string {
	random := rand.New(rand.NewPCG(19, 20))
	var voted, first []one
	for range *questions {
		a, b := random.IntN(8)+1, random.IntN(8)+1
		want := strconv.Itoa(a + b)
		counts := map[string]int{}
		for k := range perQuestion {
			resp, err := model.GenerateContent(t.Context(), ask(fmt.Sprintf("What is %d plus %d? Answer with a number only.", a, b)), llms.WithMaxTokens(16), llms.WithTemperature(0.7), llms.WithSeed(k+1))
			if err != nil {
				t.Fatal(err)
			}
			said := number(resp.Choices[0].Content)
			counts[said]++
			if k == 0 {
				p := math.Exp(middleware.ExtraOf(resp.Choices[0]).LogProbs[0].LogProb)
				first = append(first, one{map[string]float64{"confidence": p}, said == want})
			}
		}
		most := slices.MaxFunc(slices.Sorted(maps.Keys(counts)), func(x, y string) int { return counts[x] - counts[y] })
		voted = append(voted, one{map[string]float64{"confidence": float64(counts[most]) / perQuestion}, most == want})
	}
	confidence := func(a one) float64 { return a.signals["confidence"] }
	rows := [][]any{{"one sample; confidence: the probability of its first token", nil, nil, nil}, {fmt.Sprintf("the majority of %d samples; confidence: its share", perQuestion), nil, nil, nil}}
	rows[0][1], rows[0][2], rows[0][3] = scores(first, confidence)
	rows[1][1], rows[1][2], rows[1][3] = scores(voted, confidence)
	return fmt.Sprintf("\n## Agreement among samples\n\n%d sums of two numbers from 1 to 8, each asked %d times at temperature 0.7. Neither confidence was calibrated.\n\n%s", *questions, perQuestion, render(rows))
}

var numbers = regexp.MustCompile(`[0-9]+`)

// number returns the last number in a text.
func number(text string) string {
	all := numbers.FindAllString(text, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func share[T any](list []T, is func(T) bool) float64 {
	n := 0
	for _, v := range list {
		if is(v) {
			n++
		}
	}
	return float64(n) / float64(len(list))
}

// scores returns the share of right answers, the area under the ROC curve of the
// confidence (ties count half; nil where all are right or all wrong) and its Brier score.
func scores(list []one, confidence func(one) float64) (accuracy, auroc, brier any) {
	sum, before, pairs := 0.0, 0.0, 0.0
	for _, a := range list {
		right := 0.0
		if a.right {
			right = 1
		}
		sum += (confidence(a) - right) * (confidence(a) - right)
		for _, b := range list {
			if a.right && !b.right {
				pairs++
				switch x, y := confidence(a), confidence(b); {
				case x > y:
					before++
				case x == y:
					before += 0.5
				}
			}
		}
	}
	accuracy, brier = share(list, func(a one) bool { return a.right }), sum/float64(len(list))
	if pairs > 0 {
		auroc = before / pairs
	}
	return accuracy, auroc, brier
}

func render(rows [][]any) string {
	var b strings.Builder
	b.WriteString("| | accuracy % | AUROC % | Brier |\n| --- | ---: | ---: | ---: |\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |", row[0])
		for i, v := range row[1:] {
			switch v, ok := v.(float64); {
			case !ok:
				b.WriteString(" |")
			case i == 2:
				fmt.Fprintf(&b, " %.3f |", v)
			default:
				fmt.Fprintf(&b, " %.1f |", 100*v)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
