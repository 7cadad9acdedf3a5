package swe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// checkUntouched runs the free verifiers on an empty answer before any model is paid. It is an error when none of
// them can judge the repository.
func (w *work) checkUntouched(ctx context.Context, verifiers []step.Verifier) (notes []string, err error) {
	if notes, err = w.judged.submoduleNotes(ctx); err != nil {
		return nil, err
	}
	notes = append(notes, w.s.Setup.Notes...)
	for _, note := range notes {
		w.sayf("%s", note)
	}
	asked, failing := 0, 0
	var faults []error
	for _, v := range verifiers {
		if v.MaxCostUSD > 0 || !w.applies(v) {
			continue
		}
		asked++
		verdict, err := w.ask(ctx, v.Verifier, &sdk.VerifyRequest{Query: w.query, Answer: &sdk.Answer{}})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", v.Name, err))
		case verdict.Outcome == sdk.Inconclusive:
			faults = append(faults, fmt.Errorf("%s: %s", v.Name, verdict.Evidence))
		case verdict.Score < 1:
			failing++
			if len(w.t.FailToPass) == 0 && verdict.Evidence != "" {
				notes = append(notes, untouchedNote(verdict.Evidence, w.repo))
			}
		}
	}
	switch {
	case asked == 0 && !slices.ContainsFunc(verifiers, w.applies):
		notes = append(notes, "no verifier judges this task: the first model's patch is accepted unchecked")
	case asked == 0:
	case len(faults) == asked:
		return nil, fmt.Errorf("no verifier can judge the repository, so no model was called: %w%s", errors.Join(faults...), w.repo.lackingNote())
	case failing == 0:
		notes = append(notes, "every test passes without a patch: the tests cannot tell a right patch from a wrong one")
	}
	return notes, nil
}

// untouchedNote returns the note on how the tests end on the untouched tree. If they do not run, it ends with the cause,
// which the last line of their output has.
func untouchedNote(evidence string, repo *Repository) string {
	first := firstLine(evidence)
	if strings.HasSuffix(first, ":") {
		evidence = strings.TrimSpace(evidence)
		return first + " " + strings.TrimSpace(evidence[strings.LastIndexByte(evidence, '\n')+1:]) + repo.lackingNote()
	}
	return first + "; a patch must fix at least one of the others, and those that fail as before do not count: name all that it must fix with --fail-to-pass"
}

// isAccepted reports whether every verifier for the model passes the patch. It is false where one of them costs
// money: such a verifier runs only at the end of the attempt.
func (w *work) isAccepted(ctx context.Context, patch, model string) bool {
	passed := false
	for _, v := range w.verifiers {
		if (v.Models != nil && !slices.Contains(v.Models, model)) || !w.applies(v) {
			continue
		}
		if v.MaxCostUSD > 0 {
			return false
		}
		verdict, err := v.Verifier.Verify(ctx, &sdk.VerifyRequest{Query: w.query, Answer: &sdk.Answer{Model: model, Text: patch}})
		if err != nil || !isPassed(verdict) {
			return false
		}
		passed = true
	}
	return passed
}

// verifier wraps v for the step engine and the agent: it rejects an empty patch itself, judges each patch once, and
// records the cost.
func (w *work) verifier(v *step.Verifier) sdk.Verifier {
	known := map[string]*sdk.Verdict{}
	return sdk.VerifierFunc(func(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if strings.TrimSpace(req.Answer.Text) == "" {
			return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "nothing was changed"}, nil
		}
		if verdict := known[req.Answer.Text]; verdict != nil {
			return verdict, nil
		}
		verdict, err := w.buy(ctx, v, req)
		if err != nil {
			return nil, err
		}
		if verdict.Outcome == sdk.Passed && v.MaxCostUSD == 0 {
			// The tests decide, even with a flaky one among them, which the evidence names: a more expensive model's
			// patch would meet the same flaky test.
			lowest := cmp.Or(w.confidences[req.Answer.Text], 1)
			w.confidences[req.Answer.Text] = min(lowest, cmp.Or(verdict.Confidence, 1))
			accepted := *verdict
			accepted.Confidence = 0
			verdict = &accepted
		}
		if verdict.Outcome != sdk.Inconclusive {
			known[req.Answer.Text] = verdict
		}
		w.sayf("%s: %s", req.Answer.Model, verdict.Outcome)
		return verdict, nil
	})
}

// buy runs a verifier and pays for it.
func (w *work) buy(ctx context.Context, v *step.Verifier, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	settle := func(float64) {}
	if v.MaxCostUSD > 0 {
		if settle, w.budgetErr = w.spend.reserve(ctx, v.MaxCostUSD); w.budgetErr != nil {
			return nil, w.budgetErr
		}
	}
	verdict, err := w.ask(ctx, v.Verifier, req)
	usd := sdk.SpentUSD(err)
	if err == nil {
		usd = verdict.CostUSD
	}
	settle(usd)
	w.judgedUSD += usd
	return verdict, errors.Join(err, w.recordSpend(usd))
}

func (w *work) applies(v step.Verifier) bool { return v.Applies == nil || v.Applies(w.query) }

func (w *work) ask(ctx context.Context, v sdk.Verifier, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	start := time.Now()
	defer func() { w.externalTime += time.Since(start) }()
	verdict, err := v.Verify(ctx, req)
	if err == nil && verdict == nil {
		err = errors.New("no verdict and no error")
	}
	return verdict, err
}
