package step_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// notes joins the notes of a step's decisions.
func notes(t *sdk.Trace) string {
	var list []string
	for i := range t.Decisions {
		list = append(list, t.Decisions[i].Note)
	}
	return strings.Join(list, "; ")
}

// A verdict that costs more than was reserved for it can exceed a cap only once: from then on its cost
// is reserved, even if max_usd is less.
func TestACapHoldsFromTheSecondDearVerdictOn(t *testing.T) {
	call := step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
		return &sdk.Answer{Text: "x", CostUSD: 0.005}, nil
	})
	for what, c := range map[string]struct {
		mostUSD, usd, capUSD float64 // of a verdict, and the step's cap
		as                   step.VerifierUse
		verdicts             int // of 5 steps
		first                float64
	}{
		"dearer than its max_usd":       {0.01, 0.02, 0.02, step.AsVerdict, 1, 0.025},
		"a signal that is":              {0.01, 0.02, 0.02, step.AsSignal, 1, 0.025},
		"one that is, with room for it": {0.01, 0.02, 0.03, step.AsVerdict, 5, 0.025},
		"no max_usd":                    {0, 0.0042, 0.009, step.AsVerdict, 1, 0.0092},
		"as dear as its max_usd":        {0.01, 0.01, 0.02, step.AsVerdict, 5, 0.015},
	} {
		var asked []string
		v := finds("judge", sdk.Verdict{Outcome: sdk.Passed, CostUSD: c.usd}, &asked)
		v.MaxCostUSD, v.As = c.mostUSD, c.as
		ledger := step.NewMemory(step.Caps{RunUSD: 2*c.capUSD + 0.01})
		e := engine(t, step.Config{Candidates: priced(0.005), Strategy: route(t), StepCapUSD: c.capUSD, Verifiers: []step.Verifier{v}})
		perRun := engine(t, step.Config{Candidates: priced(0.005), Strategy: route(t), Ledger: ledger, Verifiers: []step.Verifier{v}})
		for i := range 5 {
			res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: call})
			if err != nil {
				t.Fatal(what, err)
			}
			if usd := res.Trace.CostUSD; i == 0 && !nearly(usd, c.first) || i > 0 && usd > c.capUSD {
				t.Errorf("%s: step %d cost %v USD under a cap of %v", what, i, usd, c.capUSD)
			}
			note := notes(res.Trace)
			if isNoted := strings.Contains(note, step.NoteOverMaxCost); isNoted && !strings.Contains(note, "verifier judge cost more than its max_usd: 0.02 USD, and max_usd is 0.01") || isNoted != (c.usd > c.mostUSD && c.mostUSD > 0 && (i == 0 || c.verdicts == 5)) {
				t.Errorf("%s: step %d has the note %q", what, i, note)
			}
		}
		if len(asked) != c.verdicts {
			t.Errorf("%s: %d verdicts in 5 steps, want %d", what, len(asked), c.verdicts)
		}
		for range 20 {
			_, _ = perRun.Run(t.Context(), step.Request{Query: query(), Caller: call}) // to the end of what the run may spend
		}
		if usd, _ := ledger.SpentUSD("r", "t"); usd > 2*c.capUSD+0.01+1e-12 {
			t.Errorf("%s: the run cost %v USD under a cap of %v", what, usd, 2*c.capUSD+0.01)
		}
	}
}

// A single verdict that costs more than a cap excludes the verifier from the next steps, but not forever: the
// reserved amount falls again, but not below the usual price of a verdict.
func TestOneDearVerdictIsForgotten(t *testing.T) {
	call := step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
		return &sdk.Answer{Text: "x", CostUSD: 0.001}, nil
	})
	for _, c := range []struct {
		dear, want int
		usual      float64
		isFailing  bool // instead of the usual verdicts
	}{{1, 17, 0.001, false}, {1, 17, 0, false}, {0, 1, 0.001, false}, {1, 2, 0, true}} { // the last two know no other price
		verdicts, dear := 0, c.dear
		v := step.Verifier{Name: "judge", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
			usd := c.usual
			if verdicts == dear {
				usd = 0.1
			}
			if verdicts++; usd == 0 && c.isFailing {
				return nil, errors.New("gone before it asked a model")
			}
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, CostUSD: usd}, nil
		})}
		e := engine(t, step.Config{Candidates: priced(0.001), Strategy: route(t), StepCapUSD: 0.02, Verifiers: []step.Verifier{v}})
		for i := range 20 {
			res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: call})
			if err != nil {
				t.Fatal(err)
			}
			if usd := res.Trace.CostUSD; i != dear && usd > 0.02 {
				t.Errorf("step %d cost %v USD", i, usd)
			}
		}
		if verdicts != c.want {
			t.Errorf("%+v: %d verdicts in 20 steps", c, verdicts)
		}
	}
}
