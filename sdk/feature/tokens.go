package feature

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// quantiles are the levels of the quantiles of an answer's log-probabilities.
var quantiles = [...]float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75}

// Tokens are the features of an answer's log-probabilities.
type Tokens struct {
	// Count is the number of tokens.
	Count int
	// MeanLogProb is the mean log-probability, at most 0; Perplexity is exp of
	// its negative, at least 1.
	MeanLogProb, Perplexity float64
	// MinLogProb is the lowest log-probability.
	MinLogProb float64
	// Quantile has the log-probability at each of quantiles, by linear interpolation.
	Quantile [len(quantiles)]float64
	// MeanEntropy is the mean entropy in nats over the alternatives that the
	// provider reports; the remaining probability counts as one more alternative.
	MeanEntropy float64
	// MeanTop is the mean probability of the most probable alternative, and
	// MeanMargin its mean lead over the second.
	MeanTop, MeanMargin float64
}

// OfTokens returns the features of an answer's tokens, and false if there are none
// or a value is not a log-probability.
func OfTokens(tokens []sdk.TokenLogProb) (Tokens, bool) {
	if len(tokens) == 0 {
		return Tokens{}, false
	}
	n := float64(len(tokens))
	f := Tokens{Count: len(tokens)}
	sorted := make([]float64, len(tokens))
	for i, t := range tokens {
		if !(t.LogProb <= 1e-6) { // providers sometimes round 0 up; NaN fails too
			return Tokens{}, false
		}
		sorted[i] = max(min(t.LogProb, 0), minLogProb)
		f.MeanLogProb += sorted[i] / n
		entropy, top, second := alternatives(t)
		f.MeanEntropy += entropy / n
		f.MeanTop += top / n
		f.MeanMargin += (top - second) / n
	}
	slices.Sort(sorted)
	f.MinLogProb = sorted[0]
	f.Perplexity = math.Exp(-f.MeanLogProb)
	for i, q := range quantiles {
		f.Quantile[i] = quantile(sorted, q)
	}
	return f, true
}

// minLogProb replaces lower values: some providers report a probability of zero as -9999.
const minLogProb = -100

// alternatives returns the entropy in nats and the two highest probabilities at one
// token. Without alternatives, they are computed from the token alone.
func alternatives(t sdk.TokenLogProb) (entropy, top, second float64) {
	rest := 1.0
	add := func(p float64) {
		p = min(p, rest)
		rest -= p
		entropy += plogp(p)
		if p > top {
			top, second = p, top
		} else {
			second = max(second, p)
		}
	}
	if len(t.Top) == 0 {
		add(math.Exp(min(t.LogProb, 0)))
	}
	for _, alt := range t.Top {
		add(math.Exp(min(alt.LogProb, 0)))
	}
	return entropy + plogp(rest), top, second
}

// plogp returns -p log p, and 0 for p = 0.
func plogp(p float64) float64 {
	if p <= 0 {
		return 0
	}
	return -p * math.Log(p)
}

// quantile returns the q-quantile of sorted values, by linear interpolation.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Names returns the names of the features, in the order of [Tokens.Values].
func Names() []string {
	names := []string{"tokens_log", "mean_log_prob", "perplexity_log", "min_log_prob"}
	for _, q := range quantiles {
		names = append(names, fmt.Sprintf("log_prob_q%02.0f", 100*q))
	}
	return append(names, "mean_entropy", "mean_top_prob", "mean_margin")
}

// Values appends the features to dst in the order of [Names]. Counts and perplexity are
// replaced by their logarithms, which suit linear models better.
func (t *Tokens) Values(dst []float64) []float64 {
	dst = append(dst, math.Log(float64(t.Count)), t.MeanLogProb, math.Log(t.Perplexity), t.MinLogProb)
	dst = append(dst, t.Quantile[:]...)
	return append(dst, t.MeanEntropy, t.MeanTop, t.MeanMargin)
}

// tokensOf returns the tokens that spell the last occurrence of part in the answer,
// with whole tokens at both ends, or nil if the tokens do not contain it.
func tokensOf(tokens []sdk.TokenLogProb, part string) []sdk.TokenLogProb {
	if part == "" {
		return nil
	}
	var text strings.Builder
	for _, t := range tokens {
		text.WriteString(t.Token)
	}
	from := strings.LastIndex(text.String(), part)
	if from < 0 {
		return nil
	}
	to := from + len(part)
	first, at := -1, 0
	for i, t := range tokens {
		end := at + len(t.Token)
		if first < 0 && end > from {
			first = i
		}
		if end >= to {
			return tokens[first : i+1]
		}
		at = end
	}
	return nil
}

// argumentsPrefix is the prefix of the features of tool calls' arguments, which are
// separate from those of the whole answer because the rest of a tool call is syntax
// and nearly certain.
const argumentsPrefix = "args_"

// OfAnswer returns the features of an answer's tokens by name: those of all tokens and,
// with the prefix "args_", those of the tokens of its tool calls' arguments. Without
// log-probabilities there are none.
func OfAnswer(a *sdk.Answer) map[string]float64 {
	out := map[string]float64{}
	add := func(prefix string, tokens []sdk.TokenLogProb) {
		if f, ok := OfTokens(tokens); ok {
			for i, v := range f.Values(nil) {
				out[prefix+Names()[i]] = v
			}
		}
	}
	add("", a.LogProbs)
	var arguments []sdk.TokenLogProb
	for _, call := range a.ToolCalls {
		arguments = append(arguments, tokensOf(a.LogProbs, call.Arguments)...)
	}
	add(argumentsPrefix, arguments)
	return out
}
