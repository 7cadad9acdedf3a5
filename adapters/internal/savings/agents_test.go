package savings_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// An agentWorld draws runs of an agent: turns whose prompts grow by the answers, with two cheap models that err more
// often on harder turns, and a large one that is asked where they differ.
type agentWorld struct {
	rng *rand.Rand
	// runs is how many there are; 0 is 40.
	runs int
	// caches says that prompts are cached from one call of a model in a run to its next.
	caches bool
	// holdout is the share of runs that always ask the large model, explore that of the steps
	// without it in which it is asked by chance.
	holdout, explore float64
	// shadowed is the share of runs in the mode shadow, which come first.
	shadowed float64
	// alone says that a run asks one cheap model, and the large one where that one is wrong.
	alone bool
	// talk is how many words the cheap models make of one of the large model's.
	talk float64
	// hard is the power of a turn's length by which errors grow.
	hard float64
	// free says that a wrong answer is as long as any other turn's, not as this one's.
	free bool
	// hidden is how many words the large model thinks for each that it says, billed as what it says.
	hidden float64
	// setbacks says that the large model does the rest of a run in which answers differed.
	setbacks bool
	// prose says that no two answers are worded alike; those of cheap models still agree.
	prose bool
}

// agentModel converts words to tokens, with a number of reasoning words for each visible one.
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

// turn is one step of a task, the same for every model.
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
		usual := 40 + 12*float64(i)
		size := func() float64 { return usual * math.Exp(0.5*w.rng.NormFloat64()) }
		n.words, n.result = size(), 150*math.Exp(0.6*w.rng.NormFloat64())
		n.isWrong, n.says = map[string]bool{}, map[string]float64{}
		for _, m := range []agentModel{mini, flash, large} {
			words := n.words
			n.isWrong[m.name] = w.rng.Float64() < m.errs*float64(i)*difficulty*math.Pow(n.words/usual, w.hard)
			if n.isWrong[m.name] && w.free {
				words = size()
			}
			if m.name != large.name && w.talk > 0 {
				words *= w.talk
			}
			n.says[m.name] = words * math.Exp(0.15*w.rng.NormFloat64())
		}
	}
	return turns
}

// call returns a model's call with the cached part of its prompt.
func (w *agentWorld) call(m *agentModel, n *turn, prompt, cached float64) sdk.Call {
	said := m.tokens * n.says[m.name]
	u := sdk.Usage{InputTokens: int(m.tokens * prompt), OutputTokens: int(said), ReasoningTokens: int(m.thinks * said)}
	shown := 0
	if m.name == large.name && w.hidden > 0 {
		u.OutputTokens += int(w.hidden * said)
		shown = int(said)
	}
	if w.caches {
		u.CachedInputTokens = int(m.tokens * cached)
		u.InputTokens -= u.CachedInputTokens
	}
	c := sdk.Call{Model: m.name, Usage: u, ShownTokens: shown, CostUSD: m.price.CostUSD(u), Propensity: 1, Key: "right"}
	if n.isWrong[m.name] || w.prose {
		c.Key = fmt.Sprint(w.rng.Uint64())
	}
	return c
}

// play runs a task and returns its steps, and what they cost.
func (w *agentWorld) play(run string, task []turn, policy, isShadowed bool) (steps []*sdk.Trace, usd float64) {
	prompt, cached := 400.0, map[string]float64{}
	for i := range task {
		n := &task[i]
		t := &sdk.Trace{ID: fmt.Sprint(run, "-", i), Run: run, InputTokens: int(1.3 * prompt)}
		for _, m := range []agentModel{mini, flash, large} {
			price := m.price
			t.Decisions = []sdk.Decision{{Models: append(firstBeliefs(t), sdk.Belief{
				Model: m.name, CostUSD: price.CostUSD(sdk.Usage{InputTokens: t.InputTokens, OutputTokens: 500}), Price: &price,
			})}}
		}
		beside := &sdk.Trace{Run: run, InputTokens: t.InputTokens, Decisions: t.Decisions, Mode: middleware.ShadowAlternative}
		ask := func(t *sdk.Trace, m *agentModel) {
			t.Calls = append(t.Calls, w.call(m, n, prompt, cached[m.name]))
			t.CostUSD += t.Calls[len(t.Calls)-1].CostUSD
			t.Chosen = m.name
			cached[m.name] = prompt
		}
		disputed := n.isWrong[mini.name] || n.isWrong[flash.name] && !w.alone
		cheap := func(t *sdk.Trace) {
			if !w.alone {
				ask(t, &flash)
			}
			if ask(t, &mini); disputed {
				ask(t, &large)
			}
		}
		if policy {
			cheap(t)
		}
		if explored := w.rng.Float64() < w.explore; explored && !disputed || !policy {
			ask(t, &large)
			if policy {
				t.Calls[len(t.Calls)-1].Propensity = w.explore
			}
		}
		policy = policy && (!disputed || !w.setbacks)
		usd += t.CostUSD
		steps = append(steps, t)
		if isShadowed {
			t.Mode, t.QueryID, beside.QueryID = string(middleware.Shadow), t.ID, t.ID
			cheap(beside)
			steps = append(steps, beside)
		}
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

// The estimated cost of always asking the large model is its real cost when it is always asked, on the same tasks and
// with its own answers in its prompts. Where the data determine it, the mean of the estimates is right to half a
// percent; where they do not (bias 0 below), such as where the large model is asked only on wrong answers whose
// length says nothing, the interval still contains the truth, and the result says that no step was drawn.
func TestAgentsBaseline(t *testing.T) {
	for i, tt := range []struct {
		name string
		w    agentWorld
		bias float64
	}{
		{"two cheap models", agentWorld{}, 0.005},
		{"one cheap model", agentWorld{alone: true}, 0.005},
		{"prompt caches", agentWorld{caches: true}, 0.005},
		{"the large model's thoughts are billed as answers", agentWorld{hidden: 8}, 0.005},
		{"beside a holdout", agentWorld{holdout: 0.1}, 0.005},
		{"cheap ones talk more", agentWorld{talk: 1.8}, 0.005},
		{"cheap ones talk less", agentWorld{talk: 0.5}, 0.005},
		{"disputed steps are longer", agentWorld{hard: 1, free: true}, 0.005},
		{"the rest of a run goes to the large model", agentWorld{setbacks: true, talk: 1.8, caches: true}, 0.005},
		{"disputed steps are longer, prose", agentWorld{hard: 1, free: true, prose: true}, 0},
		{"disputed steps are longer, one cheap model whose errors are not", agentWorld{hard: 1, free: true, alone: true}, 0},
		{"one cheap model whose errors are not, some drawn", agentWorld{hard: 1, free: true, alone: true, explore: 0.1, runs: 100}, 0.005},
		{"few runs", agentWorld{talk: 0.5, hard: 1, free: true, runs: 12}, 0.01},
		{"caches, a holdout", agentWorld{caches: true, holdout: 0.1}, 0.005},
		{"cheap ones talk more, caches", agentWorld{talk: 1.8, caches: true}, 0.005},
		{"cheap ones talk less, caches", agentWorld{talk: 0.5, caches: true}, 0.005},
		{"disputed steps are longer, and cheap ones talk more", agentWorld{hard: 1, free: true, talk: 1.8}, 0.005},
		{"disputed steps are longer, one cheap model", agentWorld{hard: 1, alone: true}, 0.005},
		{"one cheap model whose errors are not, some shadowed before", agentWorld{hard: 1, free: true, alone: true, shadowed: 0.2, runs: 100}, 0.005},
		{"one cheap model whose errors are not, a holdout", agentWorld{hard: 1, free: true, alone: true, holdout: 0.1}, 0},
		{"many runs", agentWorld{talk: 1.8, hard: 1, free: true, runs: 600}, 0.005},
	} {
		if i == 13 && os.Getenv("STEPFALL_ATTACKS") != "all" {
			break // the rest are two of the above at once, or more draws
		}
		w := tt.w
		w.rng = rand.New(rand.NewPCG(5, 6))
		runs, draws := cmp.Or(w.runs, 40), 60
		switch {
		case w.explore+w.shadowed > 0: // whose intervals are narrow: is it often enough?
			draws = 200
		case runs > 100:
			draws = 24
		}
		covered, estimated, measured, bias, width := 0, 0, 0, 0.0, 0.0
		for range draws {
			var a savings.Account
			truth := 0.0
			for i := range runs {
				task := w.task()
				isShadowed := float64(i) < w.shadowed*float64(runs)
				steps, _ := w.play(fmt.Sprint(i), task, !isShadowed && w.rng.Float64() >= w.holdout, isShadowed)
				_, usd := w.play("", task, false, false)
				truth += usd
				for _, s := range steps {
					a.Record(t.Context(), s)
				}
			}
			r := a.Beside("large")
			bias += (r.BaselineUSD/truth - 1) / float64(draws)
			width += r.TwoStdErrorsUSD / truth / float64(draws)
			if math.Abs(r.BaselineUSD-truth) <= r.TwoStdErrorsUSD {
				covered++
			}
			estimated, measured = estimated+r.Estimated, measured+r.Measured
			if bias := strings.Contains(r.String(), "± allows for a bias"); bias != (w.explore+w.shadowed == 0) {
				t.Errorf("%s: %s", tt.name, r.String())
			}
		}
		share := float64(covered) / float64(draws)
		t.Logf("%-62s bias %+.2f %%, ± %.2f %%, covered %.1f %%, estimated on %d of %d steps", tt.name, 100*bias, 100*width, 100*share, estimated, estimated+measured)
		if tt.bias > 0 && math.Abs(bias) > tt.bias || share < 0.9 {
			t.Errorf("%s: the estimate is off by %+.2f %%, and the interval covers the truth in %.1f %% of draws", tt.name, 100*bias, 100*share)
		}
	}
}
