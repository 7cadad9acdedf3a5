package savings_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/sdk"
)

// An agentWorld draws runs of an agent: turns whose prompts grow, with two cheap models that
// err more often the later it is, and a large one that is asked where they differ.
type agentWorld struct {
	rng *rand.Rand
	// caches says that prompts are cached from one call of a model in a run to its next.
	caches bool
	// holdout is the share of runs that always ask the large model.
	holdout float64
	// alone says that a run asks one cheap model, and the large one where that one is wrong.
	alone bool
}

// agentModel makes tokens of words, and thinks so many words for each that it says.
type agentModel struct {
	name           string
	price          sdk.Price
	tokens, thinks float64
	errs           float64 // by turn
}

var (
	mini  = agentModel{"mini", sdk.Price{Input: 0.25, CachedInput: 0.025, CacheWrite: 0.25, Output: 2, Reasoning: 2}, 1.30, 0, 0.05}
	flash = agentModel{"flash", sdk.Price{Input: 0.3, CachedInput: 0.075, CacheWrite: 0.3, Output: 1.2, Reasoning: 1.2}, 1.15, 0.1, 0.06}
	large = agentModel{"large", sdk.Price{Input: 5, CachedInput: 0.5, CacheWrite: 5, Output: 15, Reasoning: 15}, 1.55, 0.6, 0.005}
)

// turn is one step of a task, the same whoever is asked.
type turn struct {
	words   float64 // that a right answer has
	result  float64 // words that the tool returns
	isWrong map[string]bool
	says    map[string]float64 // words of each model
}

func (w *agentWorld) task() []turn {
	difficulty := math.Exp(0.4 * w.rng.NormFloat64())
	turns := make([]turn, 4+w.rng.IntN(9))
	for i := range turns {
		n := &turns[i]
		size := func() float64 { return (40 + 12*float64(i)) * math.Exp(0.5*w.rng.NormFloat64()) }
		n.words, n.result = size(), 150*math.Exp(0.6*w.rng.NormFloat64())
		n.isWrong, n.says = map[string]bool{}, map[string]float64{}
		for _, m := range []agentModel{mini, flash, large} {
			words := n.words
			if n.isWrong[m.name] = w.rng.Float64() < m.errs*float64(i)*difficulty; n.isWrong[m.name] {
				words = size()
			}
			n.says[m.name] = words * math.Exp(0.15*w.rng.NormFloat64())
		}
	}
	return turns
}

// call returns a model's call, with what was cached of its prompt.
func (w *agentWorld) call(m *agentModel, n *turn, prompt, cached float64) sdk.Call {
	said := m.tokens * n.says[m.name]
	u := sdk.Usage{InputTokens: int(m.tokens * prompt), OutputTokens: int(said), ReasoningTokens: int(m.thinks * said)}
	if w.caches {
		u.CachedInputTokens = int(m.tokens * cached)
		u.InputTokens -= u.CachedInputTokens
	}
	return sdk.Call{Model: m.name, Usage: u, CostUSD: m.price.CostUSD(u)}
}

// play runs a task and returns its steps, and what they cost.
func (w *agentWorld) play(run string, task []turn, policy bool) (steps []*sdk.Trace, usd float64) {
	prompt, cached := 400.0, map[string]float64{}
	for i := range task {
		n := &task[i]
		t := &sdk.Trace{Run: run, InputTokens: int(1.3 * prompt)}
		for _, m := range []agentModel{mini, flash, large} {
			price := m.price
			t.Decisions = []sdk.Decision{{Models: append(firstBeliefs(t), sdk.Belief{
				Model: m.name, CostUSD: price.CostUSD(sdk.Usage{InputTokens: t.InputTokens, OutputTokens: 500}), Price: &price,
			})}}
		}
		ask := func(m *agentModel) {
			t.Calls = append(t.Calls, w.call(m, n, prompt, cached[m.name]))
			t.CostUSD += t.Calls[len(t.Calls)-1].CostUSD
			t.Chosen = m.name
			cached[m.name] = prompt
		}
		switch {
		case !policy:
			ask(&large)
		case w.alone:
			if ask(&mini); n.isWrong[mini.name] {
				ask(&large)
			}
		default:
			ask(&flash)
			if ask(&mini); n.isWrong[mini.name] || n.isWrong[flash.name] {
				ask(&large)
			}
		}
		usd += t.CostUSD
		steps = append(steps, t)
		prompt += n.says[t.Chosen] + n.result
	}
	return steps, usd
}

func firstBeliefs(t *sdk.Trace) []sdk.Belief {
	if len(t.Decisions) == 0 {
		return nil
	}
	return t.Decisions[0].Models
}

// What always asking the large model would have cost is what it does cost when it is asked
// always, on the same tasks: although it is asked in late turns alone, with their longer
// prompts and answers, counts tokens in its own way, and its prices are others. In the
// mean the estimate is right to 1 %, and the interval has the truth in it as often as it
// says.
func TestAgentsBaseline(t *testing.T) {
	for name, w := range map[string]agentWorld{
		"two cheap models":  {},
		"one cheap model":   {alone: true},
		"prompt caches":     {caches: true},
		"beside a holdout":  {holdout: 0.1},
		"caches, a holdout": {caches: true, holdout: 0.1},
	} {
		w.rng = rand.New(rand.NewPCG(5, 6))
		const worlds, runs = 60, 40
		covered, estimated, measured, bias := 0, 0, 0, 0.0
		for range worlds {
			var a savings.Account
			truth := 0.0
			for i := range runs {
				task := w.task()
				steps, _ := w.play(fmt.Sprint(i), task, w.rng.Float64() >= w.holdout)
				_, usd := w.play("", task, false)
				truth += usd
				for _, s := range steps {
					a.Record(t.Context(), s)
				}
			}
			r := a.Beside("large")
			bias += (r.BaselineUSD/truth - 1) / worlds
			if math.Abs(r.BaselineUSD-truth) <= r.TwoStdErrorsUSD {
				covered++
			}
			estimated, measured = estimated+r.Estimated, measured+r.Measured
		}
		share := float64(covered) / worlds
		t.Logf("%s: bias %+.2f %%, covered %.1f %%, estimated on %d of %d steps", name, 100*bias, 100*share, estimated, estimated+measured)
		if math.Abs(bias) > 0.01 || share < 0.9 || share > 0.99 {
			t.Errorf("%s: the estimate is off by %+.2f %%, and the interval covers the truth in %.1f %% of worlds", name, 100*bias, 100*share)
		}
	}
}
