package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/jail"
)

func (f *sweFlags) plan(ctx context.Context, s Streams, list []swe.Task, solver *swe.Solver, trees string) error {
	p := &printer{s.Out}
	b := &swe.Batch{Solver: solver, Repos: f.repos, Trees: trees, Parallel: f.parallel}
	notes, err := b.Check(ctx, list)
	if err != nil {
		return err
	}
	p.f("tasks: %d, cascaded by the %s, strategy %s\n", len(list), solver.Mode, cascade.Describe(solver.Setup.Step.Strategy).Name)
	for _, c := range solver.Setup.Step.Candidates {
		p.f("model %s: expected quality %.2f, %g / %g USD per million tokens\n", c.Model.Name, c.Quality.Mean, c.Model.Price.Input, c.Model.Price.Output)
	}
	for _, v := range solver.Setup.Step.Verifiers {
		p.f("verifier %s\n", v.Name)
	}
	p.f("agent's commands run %s\n", isolation(solver.Jail.Layers))
	p.missingLayers(solver.Jail.Missing)
	if f.maxUSD > 0 {
		p.f("at most %.6g USD, %.6g of it spent\n", f.maxUSD, solver.Spend.SpentUSD())
	}
	for _, t := range list {
		for _, note := range notes[t.InstanceID] {
			p.f("%s: note: %s\n", t.InstanceID, note)
		}
	}
	p.f("no model was called\n")
	return nil
}

// missingLayers prints the isolation layers that are missing, and why.
func (p *printer) missingLayers(layers map[string]string) {
	for _, layer := range slices.Sorted(maps.Keys(layers)) {
		p.f("  without %s: %s\n", layer, layers[layer])
	}
}

func isolation(layers []string) string {
	by := strings.Join(layers, ", ")
	lacks := jail.Lacks([]string{jail.LayerNetwork, "filesystem", "processes", "memory"}, layers)
	if len(lacks) == 0 {
		return "sandboxed: no network, no access to the user's files, limited processes and memory (" + by + ")"
	}
	return "WITHOUT isolation of " + strings.Join(lacks, ", ") + " (" + by + ")"
}

func (f *sweFlags) print(s Streams, list []swe.Task, results []*swe.Result, single bool) error {
	p := &printer{s.Out}
	if f.json {
		enc := json.NewEncoder(s.Out)
		for _, r := range slices.DeleteFunc(slices.Clone(results), func(r *swe.Result) bool { return r == nil }) {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
	} else if why := swe.NotJudged(results); why != "" {
		p.f("NO VERDICT could be reached, so patches are unverified: %s\n", gist(why))
	}
	if single && results[0] != nil {
		return f.printSingle(p, results[0])
	}
	if !f.json {
		f.printTasks(p, list, results)
	}
	return nil
}

// printSingle writes the patch to --out, and prints the result.
func (f *sweFlags) printSingle(p *printer, r *swe.Result) (lost error) {
	out := f.out
	if out != "" && r.Patch != "" {
		if lost = os.WriteFile(out, []byte(r.Patch), 0o644); lost != nil {
			out = "" // so that it is printed
		}
	}
	if !f.json {
		p.result(r, out)
	}
	return lost
}

func (f *sweFlags) printTasks(p *printer, list []swe.Task, results []*swe.Result) {
	columns := []column{
		{name: "task"}, {name: "result"}, {name: "model"}, {name: "attempts", number: true},
		{name: "calls", number: true}, {name: "USD", number: true}, {name: "time", number: true},
	}
	if f.queue != "" {
		columns = append(columns, column{name: "worker"})
	}
	t := p.table(columns...)
	for i, r := range results {
		if r == nil {
			t.row([]any{list[i].InstanceID, "not started", "", "", "", "", "", ""}[:len(columns)]...)
			continue
		}
		t.row([]any{r.InstanceID, outcomeOf(r), r.Model, len(r.Attempts), r.Calls, usd(r.CostUSD), short(r.Duration), r.Worker}[:len(columns)]...)
	}
	t.print()
	sum := swe.Summarise(results)
	p.f("%d of %d solved, %d not, %d without a patch, %d open; %s USD in %d calls%s\n", sum.Solved, sum.Tasks, sum.Failed, sum.Errors, sum.Open, usd(sum.CostUSD), sum.Calls, cutOff(sum.CostUSD, sum.CutOffUSD))
}

// cutOff describes the cost of interrupted attempts, which is not part of the result's.
func cutOff(resultUSD, cutOffUSD float64) string {
	if cutOffUSD == 0 {
		return ""
	}
	return fmt.Sprintf("; %s USD for attempts that were cut off: %s USD in all", usd(cutOffUSD), usd(resultUSD+cutOffUSD))
}

func outcomeOf(r *swe.Result) string {
	switch {
	case r.Unfinished:
		return "cut off"
	case r.Solved:
		return "solved"
	case r.Error != "":
		return oneLine(r.Error)
	case r.Verdict == nil:
		return "not verified"
	}
	return r.Verdict.Outcome.String()
}

func (p *printer) result(r *swe.Result, out string) {
	if r.Recorded {
		p.f("already done in the state of an earlier run; nothing was run\n")
	}
	for i := range r.Attempts {
		p.attempt(i+1, &r.Attempts[i])
	}
	switch {
	case r.Unfinished:
		p.f("\nnot finished\n")
	case r.Error != "":
		p.f("\nno patch: %s\n", r.Error)
	case r.Solved:
		p.f("\nsolved by %s\n", r.Model)
	case r.Patch == "":
		p.f("\nnot solved; the chosen attempt, by %s, has no patch\n", r.Model)
	default:
		p.f("\nnot solved; the best patch is by %s\n", r.Model)
	}
	who, tests := "agent's commands", cmp.Or(r.Verdict, &sdk.Verdict{}).Isolation
	switch {
	case len(tests) == 0:
	case slices.Equal(tests, r.Isolation):
		who = "tests and agent's commands"
	default:
		p.f("tests ran %s\n", isolation(tests))
	}
	p.f("%s ran %s\n", who, isolation(r.Isolation))
	p.missingLayers(r.Missing)
	for _, note := range r.Notes {
		p.f("note: %s\n", note)
	}
	p.f("%s USD, %d calls, %s, of which %s in stepfall%s\n", usd(r.CostUSD), r.Calls, short(r.Duration), short(r.Overhead), cutOff(r.CostUSD, r.CutOffUSD))
	switch {
	case r.Patch == "":
	case out != "":
		p.f("patch: %s (apply it with: git apply -- '%s')\n", out, strings.ReplaceAll(out, "'", `'\''`))
	default:
		p.raw("\n" + r.Patch)
	}
}

// gist returns the first two lines of evidence: what happened, and to which test.
func gist(evidence string) string {
	lines := strings.SplitN(strings.TrimSpace(evidence), "\n", 3)
	text := strings.TrimSpace(lines[0])
	if len(lines) > 1 {
		text = strings.TrimSuffix(text, ":") + ": " + strings.TrimSpace(lines[1])
	}
	return say.Short(text)
}

func (p *printer) attempt(n int, a *swe.Attempt) {
	verdict := cmp.Or(oneLine(a.Trajectory.Why), "not verified")
	if a.Verdict != nil {
		verdict = a.Verdict.Outcome.String() + ": " + gist(a.Verdict.Evidence)
	}
	by := ""
	if a.Worker != "" {
		by = ", worker " + a.Worker
	}
	p.f("%d. %s%s, %d calls, %s USD: %s\n", n, a.Model, by, a.Trajectory.Turns, usd(a.CostUSD), verdict)
}

// exit returns the command's error for the end of a run, which says what was saved.
func (f *sweFlags) exit(ctx context.Context, results []*swe.Result, err error, solver *swe.Solver) error {
	sum := swe.Summarise(results)
	kept, resume, raise := "unfinished work is lost: give --state DIR to keep it", "", ""
	if f.state != "" {
		kept = fmt.Sprintf("%d finished attempts are kept in %s", solver.Journal.Attempts(), f.state)
		resume, raise = "; run the same command to continue", "; run it with a higher --max-usd to continue"
	}
	ended := fmt.Sprintf("%d of %d tasks finished, %.6f USD spent; %s", sum.Tasks-sum.Open, sum.Tasks, solver.Spend.SpentUSD(), kept)
	switch {
	case ctx.Err() != nil:
		return &exitError{Code: exitInterrupted, Err: errors.New("interrupted: " + ended + resume)}
	case errors.Is(err, sdk.ErrBudgetExhausted):
		return &exitError{Code: exitSpent, Err: fmt.Errorf("%w\n%s%s", err, ended, raise)}
	case err != nil:
		return err
	case sum.Errors == sum.Tasks && sum.Calls == 0:
		return errors.New("no task could be tried")
	case swe.NotJudged(results) != "":
		return fmt.Errorf("no verdict could be reached: %s", gist(swe.NotJudged(results)))
	case sum.Solved < sum.Tasks:
		return &exitError{Code: exitUnsolved, Err: fmt.Errorf("%d of %d tasks are not solved", sum.Tasks-sum.Solved, sum.Tasks)}
	}
	return nil
}
