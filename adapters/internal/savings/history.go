package savings

import (
	"slices"

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
	said  map[source]int
	last  source
	fresh int
	// prompt is the length of the last prompt, repeats the share of it that the prompt before made up, and asked the
	// models that were asked for the answer to that one.
	prompt  int
	repeats float64
	asked   []string
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
		own = &history{said: map[source]int{}}
		lookup.MakeRoom(h, maxHistories)
		(*h)[unit] = own
	}
	own.repeats = 0
	switch growth := t.InputTokens - own.prompt; {
	case growth < 0:
		clear(own.said)
		own.fresh = 0
	case 2*growth < own.fresh:
		own.fresh = 0
	default:
		own.said[own.last] += own.fresh
		own.repeats = float64(own.prompt) / float64(max(1, t.InputTokens))
	}
	own.prompt = t.InputTokens
	return own
}

// add adds to the model's references the part of the prompt that consists of other models' answers.
func (h *history) add(m *modelSums, t *sdk.Trace, b *sdk.Belief, isCacheable bool) {
	if h == nil || b.Price == nil || t.Chosen == "" {
		return
	}
	for other, tokens := range h.said {
		if other.model == b.Model || tokens == 0 {
			continue
		}
		fresh := 0
		if other == h.last {
			fresh = h.fresh
		}
		cold, warm := sdk.Usage{InputTokens: tokens}, sdk.Usage{InputTokens: fresh, CachedInputTokens: tokens - fresh}
		if !isCacheable {
			warm = cold
		}
		m.reference(other).estimate.add(&estimate{
			coldHistory: b.Price.CostUSD(cold) - b.Price.RequestUSD, warmHistory: b.Price.CostUSD(warm) - b.Price.RequestUSD,
		})
	}
}

// cachedShare returns the share of a step's prompt that the model would find cached if it were always asked: as much as any
// model that was asked or, if none of them was asked before in the run, what was the prompt before. isCacheable is false if
// its provider caches nothing of it: hasMarks says whether the client is known to mark prompts.
func (h *history) cachedShare(t *sdk.Trace, b *sdk.Belief, hasMarks bool) (share float64, isCacheable bool) {
	if !hasMarks && !t.IsCacheable(b.Price) {
		return 0, false
	}
	isCold := h != nil
	for i := range t.Calls {
		c := &t.Calls[i]
		share = max(share, float64(c.Usage.CachedInputTokens)/float64(max(1, inputTokens(&c.Usage))))
		isCold = isCold && !slices.Contains(h.asked, c.Model)
	}
	if isCold {
		share = max(share, h.repeats)
	}
	return share, true
}

func (h *history) answer(t *sdk.Trace) {
	if h == nil {
		return
	}
	h.fresh, h.asked = 0, nil
	for i := range t.Calls {
		h.asked = append(h.asked, t.Calls[i].Model)
	}
	if c := ChosenCall(t); c != nil {
		h.last, h.fresh = sourceOf(c), c.PromptedTokens()
	}
}
