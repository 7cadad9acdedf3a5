package swe_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// judgedBy replaces the verifiers of a bench.
func (b *bench) judgedBy(verifiers ...step.Verifier) { b.solver.Setup.Step.Verifiers = verifiers }

// verdicts is a verifier with a verdict for the untouched tree and one for patches.
func verdicts(untouched, patched *sdk.Verdict) step.Verifier {
	return step.Verifier{Name: "known", Verifier: sdk.VerifierFunc(func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if req.Answer.Text == "" {
			return untouched, nil
		}
		return patched, nil
	})}
}

func TestNoModelIsCalledWhereNoVerifierCanJudge(t *testing.T) {
	b := newBench(t)
	b.judgedBy(verdicts(&sdk.Verdict{Outcome: sdk.Inconclusive, Evidence: "there is no toolchain"}, &sdk.Verdict{Outcome: sdk.Passed}))
	journal, err := swe.OpenJournal(filepath.Join(t.TempDir(), "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	b.solver.Journal = journal
	r := b.solve(t, "ledger-01")
	if !strings.Contains(r.Error, "there is no toolchain") || r.Calls != 0 || b.server.Calls("small") != 0 {
		t.Errorf("%d calls, error %q", r.Calls, r.Error)
	}
	if _, kept := journal.Result("ledger-01"); kept {
		t.Error("the journal keeps a task that could not be tried")
	}
	b.clean(t, "ledger")
}

func TestNotesTellWhenTestsCannotDecide(t *testing.T) {
	passed := &sdk.Verdict{Outcome: sdk.Passed, Score: 1}
	for note, verifiers := range map[string][]step.Verifier{
		"every test passes without": {verdicts(&sdk.Verdict{Outcome: sdk.Failed, Score: 1}, passed)},
		"no verifier judges":        {{Name: "others", Applies: func(*sdk.Query) bool { return false }}},
		"":                          {verdicts(&sdk.Verdict{Outcome: sdk.Failed, Score: 0.5}, passed)},
	} {
		b := newBench(t)
		b.judgedBy(verifiers...)
		for name, notes := range map[string][]string{"solve": b.solve(t, "ledger-01").Notes, "check": b.check(t, "ledger-01")} {
			if all := strings.Join(notes, "\n"); !strings.Contains(all, note) || (note == "") != (all == "") {
				t.Errorf("%s: notes %q, want %q", name, all, note)
			}
		}
	}
}

func (b *bench) check(t *testing.T, id string) []string {
	t.Helper()
	repo := b.repo(t, b.tasks[id].Repo)
	defer repo.Close()
	notes, err := b.solver.Check(t.Context(), repo, b.tasks[id])
	if err != nil {
		t.Fatal(err)
	}
	return notes
}

// A flaky test lowers a verdict's confidence, but a more expensive model's patch would meet it too.
func TestAcceptedPatchEndsTheCascadeThoughATestIsFlaky(t *testing.T) {
	b := newBench(t)
	b.judgedBy(verdicts(&sdk.Verdict{Outcome: sdk.Failed}, &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Confidence: 0.9}))
	if r := b.solve(t, "ledger-04"); !r.Solved || len(r.Attempts) != 1 {
		t.Errorf("solved %t in %d attempts, want one", r.Solved, len(r.Attempts))
	}
}

func TestPaidVerifiersAreBookedAndHeldToTheCap(t *testing.T) {
	b := newBench(t)
	judge := verdicts(nil, &sdk.Verdict{Outcome: sdk.Passed, Score: 1, CostUSD: 0.5})
	judge.MaxCostUSD = 1
	b.judgedBy(judge)
	b.solver.Spend = &swe.Spend{CapUSD: 1.2}
	r := b.solve(t, "ledger-01")
	if attempts := r.Attempts[0].CostUSD; r.CostUSD != attempts+0.5 || b.solver.Spend.SpentUSD() != r.CostUSD {
		t.Errorf("the task cost %g, its attempt %g, the run %g", r.CostUSD, attempts, b.solver.Spend.SpentUSD())
	}
	r, err := b.try(t, "ledger-07")
	if !errors.Is(err, sdk.ErrBudgetExhausted) || !r.Unfinished {
		t.Errorf("no money for the judge: %v, unfinished %t", err, r.Unfinished)
	}
}
