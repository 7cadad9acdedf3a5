package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// RowBytes bounds the JSON of a step. In a larger one the longest texts are truncated, with a mark that gives the
// original size; where that does not suffice, alternatives of decisions, labels, and the names of tools and of
// omitted content are removed.
const RowBytes = 1 << 20

// Encode returns a trace as JSON of at most [RowBytes].
func Encode(t *sdk.Trace) ([]byte, error) {
	const least = 1 << 10 // in bytes
	body, err := json.Marshal(t)
	for budget := RowBytes / 2; err == nil && len(body) > RowBytes; budget = max(budget/4, least) {
		own := cutTexts(t, budget)
		if budget == least {
			own.Labels, own.Tools = map[string]string{"cut": "labels, alternatives and lists of names are left out"}, nil
			for i := range own.Decisions {
				own.Decisions[i].Alternatives = nil
			}
			for i := range own.Calls {
				own.Calls[i].NotSent, own.Calls[i].Tools = nil, nil
			}
		}
		if body, err = json.Marshal(own); budget == least && len(body) > RowBytes {
			return nil, fmt.Errorf("it has %d bytes without its texts, more than %d", len(body), RowBytes)
		}
	}
	return body, err
}

// cutTexts returns a copy of a trace whose texts are truncated to about budget bytes together.
func cutTexts(t *sdk.Trace, budget int) *sdk.Trace {
	own := *t
	own.Calls = slices.Clone(t.Calls)
	own.Decisions = slices.Clone(t.Decisions)
	texts := []*string{&own.Prompt, &own.Error}
	evidence := func(v **sdk.Verdict) {
		if *v != nil {
			own := **v
			*v, texts = &own, append(texts, &own.Evidence)
		}
	}
	evidence(&own.Verdict)
	for i := range own.Calls {
		c := &own.Calls[i]
		texts = append(texts, &c.Answer, &c.Error)
		evidence(&c.Verdict)
	}
	for i := range own.Decisions {
		texts = append(texts, &own.Decisions[i].Note)
	}
	// From the shortest on, each text gets an equal share of what remains.
	slices.SortFunc(texts, func(a, b *string) int { return len(*a) - len(*b) })
	for i, text := range texts {
		share := budget / (len(texts) - i)
		if n := len(*text); n > share {
			*text = strings.ToValidUTF8((*text)[:share], "") + fmt.Sprintf("\n[cut: the first %d of %d bytes]", share, n)
		}
		budget -= min(share, len(*text))
	}
	return &own
}
