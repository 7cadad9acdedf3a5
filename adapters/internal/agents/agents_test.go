package agents

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/sdk/jail"
)

func TestMain(m *testing.M) {
	jail.Main()
	for _, key := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MISTRAL_API_KEY"} {
		if os.Getenv(key) == "" {
			os.Setenv(key, "scripted")
		}
	}
	os.Exit(m.Run())
}

func open(t *testing.T, tasks int) *Bench {
	t.Helper()
	b, done, err := Open(t.Context(), tasks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := done(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Without errors every task is solved in three to ten turns.
func TestTasksAreSolved(t *testing.T) {
	n := 3
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		n = 120
	}
	for _, a := range open(t, n).Agents {
		for _, task := range a.Tasks {
			steps, err := task.steps(t.Context())
			if err != nil || len(steps) < 3 || len(steps) > 10 {
				t.Errorf("%s: %d steps, %v", task.ID, len(steps), err)
			}
		}
	}
}

// Every wrong move but the last step's has a consequence: an error that the agent reads, or a wrong world, unless it
// happens to have the same effect.
func TestErrorsHaveConsequences(t *testing.T) {
	ctx := t.Context()
	tried, harmless := 0, 0
	for _, a := range open(t, 3).Agents {
		for _, task := range a.Tasks[learn:] {
			steps, err := task.steps(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for at := range steps {
				for wrong := range steps[at].Wrong {
					tried++
					if fine(ctx, t, task, at, wrong) {
						harmless++
					}
				}
			}
		}
	}
	if tried < 100 || harmless > tried/5 {
		t.Errorf("of %d wrong moves, %d do no harm", tried, harmless)
	}
}

// fine does a task with one wrong move, and reports whether it had no consequence.
func fine(ctx context.Context, t *testing.T, task *Task, at, wrong int) bool {
	t.Helper()
	world, s := task.Open(), &Conversation{}
	for i := range MaxTurns {
		s.Next, s.used = Step{}, 0
		task.Solve(s)
		move := s.Next.Right[0]
		if i == at {
			move = s.Next.Wrong[wrong]
		}
		if move.Call.Name == "" {
			return world.Right(move.Text)
		}
		result, err := world.Do(ctx, move.Call)
		if err != nil {
			t.Fatal(err)
		}
		if i == at && strings.HasPrefix(result, "error:") {
			return false
		}
		s.Calls, s.Results = append(s.Calls, move.Call), append(s.Results, result)
	}
	return false
}

// Difficulty is shared: two makers' models err together more often than by chance, and a large model errs less often
// than its small one.
func TestErrorsAreDependent(t *testing.T) {
	errs := func(m *Model) (list []float64) {
		for i := range 4000 {
			list = append(list, 0)
			if m.errs("task"+string(rune('a'+i%500)), &Step{Kind: Write, Name: string(rune(i))}) {
				list[i] = 1
			}
		}
		return list
	}
	a, b, big := errs(findModel("gpt-4.1-mini")), errs(findModel("mistral-small-latest")), errs(findModel("gpt-4.1"))
	var inA, inB, both, large float64
	for i := range a {
		inA, inB, both, large = inA+a[i], inB+b[i], both+a[i]*b[i], large+big[i]
	}
	if n := float64(len(a)); both/n < 1.5*inA/n*inB/n || both > 0.8*inA {
		t.Errorf("of %v steps, %v and %v err, both in %v", n, inA, inB, both)
	}
	if large > inA/2 {
		t.Errorf("the large model errs in %v steps, the small one in %v", large, inA)
	}
}

// A road is reproducible, and a judge that knows the truth saves without harm.
func TestRoadsRepeat(t *testing.T) {
	for _, key := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY"} {
		t.Setenv(key, "scripted")
	}
	b := open(t, 6)
	always := single(findModel("claude-sonnet-4-5"))
	var rows []*Row
	for _, road := range []Road{always, always, verifiedRoad("truth", truth)} {
		row, err := b.Measure(t.Context(), road)
		if err != nil || row.Refused != "" {
			t.Fatal(err, row.Refused)
		}
		rows = append(rows, row)
	}
	if diff := cmp.Diff(rows[0].Runs, rows[1].Runs); diff != "" {
		t.Errorf("a second time (-first +second):\n%s", diff)
	}
	if points, cost := rows[2].Against(rows[0]); points.Mean < 0 || cost.Mean > 50 {
		t.Errorf("with the truth at hand: %+.1f points at %.0f %% of the cost", points.Mean, cost.Mean)
	}
}

func TestAgainst(t *testing.T) {
	base := &Row{Runs: []Run{{Right: true, USD: 1}, {Right: true, USD: 3}, {Right: false, USD: 2}, {Right: true, USD: 2}}}
	row := &Row{Runs: []Run{{Right: true, USD: 0.5}, {Right: false, USD: 1}, {Right: false, USD: 1.5}, {Right: true, USD: 1}}}
	points, cost := row.Against(base)
	if points.Mean != -25 || cost.Mean != 50 {
		t.Errorf("%v points at %v %%, want -25 at 50", points.Mean, cost.Mean)
	}
	if points.Low > -25 || points.High < -25 || points.High > 0 || cost.Low < 100./3-1e-9 || cost.High > 75 || math.IsNaN(cost.Low) {
		t.Errorf("intervals %v, %v", points, cost)
	}
}
