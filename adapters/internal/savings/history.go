package savings

import (
	"github.com/stepfall/stepfall/adapters/internal/holdout"
	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/sdk"
)

// maxHistories bounds the runs remembered. The next step of a dropped run counts as its first.
const maxHistories = 10_000

// histories holds the histories of runs, by name.
type histories map[string]*history

// history counts the answers in a run that its next prompt contains.
type history struct {
	// said holds the tokens of each model's answers; those of the newest one, by last, are fresh.
	said  map[string]int
	last  string
	fresh int
	// prompt is the length of the prompt before that answer.
	prompt int
}

// begin returns the history of a step, or nil if it has no run or session. A shorter prompt starts a new history. A
// prompt that has grown by less than half the last answer does not contain it, as in a program that asks independent
// questions.
func (h *histories) begin(t *sdk.Trace) *history {
	if t.Run == "" && t.Session == "" {
		return nil
	}
	unit := holdout.Unit(t.Tenant, t.Run, t.Session, "")
	own := (*h)[unit]
	if own == nil {
		own = &history{said: map[string]int{}}
		lookup.MakeRoom(h, maxHistories)
		(*h)[unit] = own
	}
	switch growth := t.InputTokens - own.prompt; {
	case growth < 0:
		clear(own.said)
		own.fresh = 0
	case 2*growth < own.fresh:
		own.fresh = 0
	default:
		own.said[own.last] += own.fresh
	}
	own.prompt = t.InputTokens
	return own
}

// add adds to the model's references the part of the prompt that consists of other models' answers.
func (h *history) add(m *modelSums, t *sdk.Trace, b *sdk.Belief) {
	if h == nil || b.Price == nil || t.Chosen == "" {
		return
	}
	for other, tokens := range h.said {
		if other == b.Model || tokens == 0 {
			continue
		}
		fresh := 0
		if other == h.last {
			fresh = h.fresh
		}
		cold, warm := sdk.Usage{InputTokens: tokens}, sdk.Usage{InputTokens: fresh, CachedInputTokens: tokens - fresh}
		m.reference(other).estimate.add(&estimate{
			coldHistory: b.Price.CostUSD(cold) - b.Price.RequestUSD, warmHistory: b.Price.CostUSD(warm) - b.Price.RequestUSD,
		})
	}
}

func (h *history) answer(t *sdk.Trace) {
	if h == nil {
		return
	}
	h.last, h.fresh = t.Chosen, 0
	if c := ChosenCall(t); c != nil {
		h.fresh = c.PromptedTokens()
	}
}
