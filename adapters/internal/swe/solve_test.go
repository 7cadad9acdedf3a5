package swe_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/internal/suite"
	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/step"
)

// TestMain lets the test binary double as the jail's helper.
func TestMain(m *testing.M) {
	jail.Main()
	if dir := os.Getenv(batchEnv); dir != "" {
		if err := runBatch(dir, os.Getenv(batchServer)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "stepfall-swe")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		materialised = sync.OnceValues(func() (made, error) {
			loaded, err := suite.Load()
			if err != nil {
				return made{}, err
			}
			list, err := loaded.Materialise(context.Background(), dir)
			return made{loaded, dir, list}, err
		})
		return m.Run()
	}())
}

// made is the suite with its repositories in a folder, which tests copy.
type made struct {
	suite *suite.Suite
	dir   string
	tasks []swe.Task
}

// materialised makes the repositories once for all tests.
var materialised func() (made, error)

// bench is the suite on disk, its scripted models, and a solver. By default, the tests of a task are checksums of the
// files to fix, which take no time; goTests runs the repository's own tests. The real verifier has tests of its own.
type bench struct {
	dir string
	// made is the folder of the repositories that all tests share; repo copies the requested ones.
	made   string
	suite  *suite.Suite
	tasks  map[string]*swe.Task
	server *scripted.Server
	solver *swe.Solver
	// verified counts the verifications.
	verified atomic.Int64
	// goTests has the verifier run the repository's own tests.
	goTests bool
}

// checksums returns a command that passes if the files that a task's fix changes are correct, and otherwise prints
// the task's failing tests.
func checksums(s *suite.Suite, task *suite.Task) []string {
	var sums strings.Builder
	for _, e := range task.Fix {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(s.Repos[task.Repo].Files[e.Path])), e.Path)
	}
	return []string{"sh", "-c", `printf %s "$1" | sha256sum -c --quiet - || { echo "$2"; exit 1; }`, "sh", sums.String(), strings.Join(task.FailToPass, "\n")}
}

var prices = map[string]sdk.Price{"small": {Input: 0.1, Output: 0.4}, "medium": {Input: 0.4, Output: 1.6}, "large": {Input: 2, Output: 8}}

// costOf prices the usage that a scripted model reports; a routed call costs as much as large.
func costOf(m *sdk.Model, r *llms.ContentResponse) (sdk.Usage, float64) {
	in, _ := r.Choices[0].GenerationInfo["PromptTokens"].(int)
	out, _ := r.Choices[0].GenerationInfo["CompletionTokens"].(int)
	u := sdk.Usage{InputTokens: in, OutputTokens: out}
	price, known := prices[m.Name]
	if !known {
		price = prices["large"]
	}
	return u, price.CostUSD(u)
}

// inOrder runs all candidates in order until one passes.
type inOrder struct{}

func (inOrder) Decide(s *cascade.State) cascade.Decision {
	best := cascade.None
	for _, i := range s.Ran {
		if best < 0 || s.Beliefs[i].Mean > s.Beliefs[best].Mean {
			best = i
		}
	}
	for i := range s.Beliefs {
		if best >= 0 && s.Beliefs[best].Mean > 0.9 {
			break
		}
		if !slices.Contains(s.Ran, i) && !s.Infeasible[i] {
			return cascade.Decision{Run: i, Answer: best}
		}
	}
	return cascade.Decision{Run: cascade.Stop, Answer: best}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	once, err := materialised()
	if err != nil {
		t.Fatal(err)
	}
	loaded, list := once.suite, slices.Clone(once.tasks)
	b := &bench{dir: t.TempDir(), made: once.dir, suite: loaded, tasks: map[string]*swe.Task{}}
	for i := range list {
		b.tasks[list[i].InstanceID] = &list[i]
		list[i].TestCommand = checksums(loaded, &loaded.Tasks[i])
	}
	if b.server, err = scripted.Start(scripted.Options{Models: []string{"small", "medium", "large"}, Respond: loaded.Script()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.server.Close() })
	config := step.Config{Strategy: inOrder{}, Verifiers: []step.Verifier{{Name: "tests", Verifier: sdk.VerifierFunc(b.verify)}}}
	models := map[string]llms.Model{}
	for _, name := range []string{"small", "medium", "large"} {
		model, err := openai.New(openai.WithBaseURL(b.server.URL()), openai.WithToken("none"), openai.WithModel(name), openai.WithHTTPClient(http.DefaultClient))
		if err != nil {
			t.Fatal(err)
		}
		models[name] = model
		config.Candidates = append(config.Candidates, step.Candidate{Model: sdk.Model{Name: name, Price: prices[name], MaxOutputTokens: 4096}})
	}
	b.solver = &swe.Solver{Setup: swe.Setup{Step: config, Models: models, Cost: costOf}, Mode: swe.WholeTrajectory, Jail: newJail(t), Spend: &swe.Spend{}}
	return b
}

// verify runs the tests on a copy of the tree with the patch.
func (b *bench) verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	if req.Answer.Text != "" { // not the question about the untouched tree
		b.verified.Add(1)
	}
	dir, err := os.MkdirTemp(b.dir, "verify")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(req.Query.WorkDir)); err != nil {
		return nil, err
	}
	apply := exec.CommandContext(ctx, "git", "apply", "-")
	apply.Dir, apply.Stdin = dir, strings.NewReader(req.Answer.Text)
	if out, err := apply.CombinedOutput(); err != nil {
		return &sdk.Verdict{Outcome: sdk.Failed, Evidence: string(out)}, nil
	}
	command := b.tasks[req.Query.ID].TestCommand
	if b.goTests {
		command = []string{"go", "test", "-vet=off", "-timeout=10s", "./..."}
	}
	test := exec.CommandContext(ctx, command[0], command[1:]...)
	test.Dir = dir
	if out, err := test.CombinedOutput(); err != nil {
		return &sdk.Verdict{Outcome: sdk.Failed, Evidence: string(out)}, nil
	}
	return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
}

func (b *bench) repo(t *testing.T, name string) *swe.Repository {
	t.Helper()
	dir := filepath.Join(b.dir, "repos", name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(b.made, name))); err != nil {
			t.Fatal(err)
		}
	}
	r, err := swe.OpenRepository(t.Context(), dir, filepath.Join(b.dir, "trees", name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// solve solves a task and removes the work trees.
func (b *bench) solve(t *testing.T, id string) *swe.Result {
	t.Helper()
	r, err := b.try(t, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bench) try(t *testing.T, id string) (*swe.Result, error) {
	t.Helper()
	task := b.tasks[id]
	repo := b.repo(t, task.Repo)
	defer func() {
		if err := repo.Close(); err != nil {
			t.Error(err)
		}
	}()
	return b.solver.Solve(t.Context(), repo, task)
}

// clean fails the test if the repository has work trees left.
func (b *bench) clean(t *testing.T, repo string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", filepath.Join(b.dir, "repos", repo), "worktree", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "\n"); n != 1 {
		t.Errorf("%d work trees are left:\n%s", n-1, out)
	}
	if status, _ := exec.CommandContext(t.Context(), "git", "-C", filepath.Join(b.dir, "repos", repo), "status", "--porcelain").Output(); len(status) > 0 {
		t.Errorf("the user's tree was touched:\n%s", status)
	}
}

func TestCascadeEscalatesUntilTheTestsPass(t *testing.T) {
	b := newBench(t)
	if os.Getenv("STEPFALL_ATTACKS") == "all" { // as the real verifier runs them in the command's tests
		b.goTests, b.tasks["ledger-04"].TestCommand = true, b.suite.Repos["ledger"].TestCommand()
	}
	r := b.solve(t, "ledger-04") // small and medium are wrong
	if !r.Solved || r.Model != "large" || len(r.Attempts) != 3 {
		t.Fatalf("solved %t by %s in %d attempts: %s", r.Solved, r.Model, len(r.Attempts), r.Error)
	}
	if !strings.Contains(r.Patch, "+++ b/book/book.go") {
		t.Errorf("patch:\n%s", r.Patch)
	}
	cost := 0.0
	for i, a := range r.Attempts {
		cost += a.CostUSD
		if a.Verdict == nil || (a.Verdict.Outcome == sdk.Passed) != (i == 2) || a.Trajectory.Turns == 0 || a.CostUSD <= 0 {
			t.Errorf("attempt %d: %+v", i, a)
		}
	}
	if math.Abs(r.CostUSD-cost) > 1e-12 || math.Abs(r.CostUSD-b.solver.Spend.SpentUSD()) > 1e-12 {
		t.Errorf("cost %g, attempts %g, spend %g", r.CostUSD, cost, b.solver.Spend.SpentUSD())
	}
	if b.server.Calls("small") == 0 || r.Calls != b.server.Calls("small")+b.server.Calls("medium")+b.server.Calls("large") {
		t.Errorf("%d calls counted", r.Calls)
	}
	t.Logf("overhead %v of %v, isolation %v, missing %v", r.Overhead, r.Duration, r.Isolation, r.Missing)
	b.clean(t, "ledger")
}

// unasked is a strategy that must not be asked.
type unasked struct{ t *testing.T }

func (u unasked) Decide(*cascade.State) cascade.Decision {
	u.t.Error("the policy's own strategy decides")
	return cascade.Decision{Run: cascade.Stop, Answer: cascade.None}
}

// A match block that applies to a task also applies to its attempts.
func TestAttemptsAreRoutedByTheTask(t *testing.T) {
	b := newBench(t)
	done := 0
	b.solver.Setup.Route = func(q *sdk.Query) middleware.Route {
		if q.ID != "ledger-04" {
			t.Errorf("asked about %q", q.ID)
		}
		return middleware.Route{Strategy: inOrder{}, Models: []bool{false, false, true}, Match: "hard", Done: func(*sdk.Trace) { done++ }}
	}
	b.solver.Setup.Step.Strategy = unasked{t}
	if r := b.solve(t, "ledger-04"); !r.Solved || r.Model != "large" || len(r.Attempts) != 1 || done != 1 {
		t.Errorf("solved %t by %s in %d attempts, done %d: %s", r.Solved, r.Model, len(r.Attempts), done, r.Error)
	}
}

// The notes of an unsolved task explain why the large model was not tried.
func TestNotesTellWhyAModelWasNotAsked(t *testing.T) {
	b := newBench(t)
	config := &b.solver.Setup.Step
	config.Candidates = slices.Delete(slices.Clone(config.Candidates), 1, 2)
	config.Candidates[0].Quality, config.Candidates[1].Quality = sdk.Estimate{Mean: 0.5}, sdk.Estimate{Mean: 0.75}
	for lambda, asked := range map[float64]bool{1000: false, 1: true} {
		var err error
		if config.Strategy, err = cascade.New("cascade_route", cascade.Params{Lambdas: []float64{lambda}}); err != nil {
			t.Fatal(err)
		}
		r := b.solve(t, "ledger-04") // small is wrong
		notes := strings.Join(r.Notes, "\n")
		if (r.Model == "large") != asked || strings.Contains(notes, "large was not asked: ") == asked {
			t.Errorf("lambda %g: answer of %q, notes %q", lambda, r.Model, notes)
		}
		if !asked && !strings.Contains(notes, "a solved task is worth 0.001 USD") {
			t.Errorf("notes %q", notes)
		}
	}
}

func TestCheapModelIsEnough(t *testing.T) {
	b := newBench(t)
	r := b.solve(t, "ledger-01")
	if !r.Solved || r.Model != "small" || len(r.Attempts) != 1 || b.server.Calls("large") != 0 {
		t.Errorf("solved %t by %s in %d attempts", r.Solved, r.Model, len(r.Attempts))
	}
}

func TestFailuresAreShownWhenWanted(t *testing.T) {
	for _, show := range []bool{true, false} {
		b := newBench(t)
		var seen atomic.Bool
		inner := b.suite.Script()
		server, err := scripted.Start(scripted.Options{Respond: func(ctx context.Context, req *scripted.Request) scripted.Reply {
			if req.Model == "medium" && strings.Contains(req.LastUser(), "It was rejected") && strings.Contains(req.LastUser(), "TestBalanceIncludesAccountsBelow") {
				seen.Store(true)
			}
			return inner(ctx, req)
		}})
		if err != nil {
			t.Fatal(err)
		}
		for name := range prices {
			b.solver.Setup.Models[name], _ = openai.New(openai.WithBaseURL(server.URL()), openai.WithToken("none"), openai.WithModel(name))
		}
		b.solver.ShowFailures = show
		r := b.solve(t, "ledger-03")
		server.Close()
		if !r.Solved || r.Model != "medium" || seen.Load() != show {
			t.Errorf("shown %t, want %t; solved by %s", seen.Load(), show, r.Model)
		}
	}
}

func TestHardCapEndsTheTaskAndKeepsWhatWasDone(t *testing.T) {
	b := newBench(t)
	b.solver.Spend = &swe.Spend{CapUSD: 0.004}
	r, err := b.try(t, "ledger-04")
	if !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Fatalf("err = %v, result %+v", err, r)
	}
	if spent := b.solver.Spend.SpentUSD(); spent > 0.004 || spent == 0 {
		t.Errorf("spent %g under a cap of 0.004", spent)
	}
	b.clean(t, "ledger")
}

// Under a cap, a model without a known longest answer is not called.
func TestCapNeedsTheLongestAnswer(t *testing.T) {
	b := newBench(t)
	b.solver.Spend = &swe.Spend{CapUSD: 5}
	for i := range b.solver.Setup.Step.Candidates {
		b.solver.Setup.Step.Candidates[i].Model.MaxOutputTokens = 0
	}
	r, err := b.try(t, "ledger-04")
	if !errors.Is(err, sdk.ErrBudgetExhausted) || !strings.Contains(err.Error(), "max_output_tokens") || r.Calls != 0 || b.solver.Spend.SpentUSD() != 0 {
		t.Errorf("%v, %d calls", err, r.Calls)
	}
}

func TestServerErrorIsNoVerdict(t *testing.T) {
	b := newBench(t)
	server, err := scripted.Start(scripted.Options{Respond: func(ctx context.Context, req *scripted.Request) scripted.Reply {
		if req.Model == "small" {
			return scripted.Reply{Fault: scripted.Fault{Kind: scripted.FaultStatus, Status: 500}}
		}
		return b.suite.Script()(ctx, req)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name := range prices {
		b.solver.Setup.Models[name], _ = openai.New(openai.WithBaseURL(server.URL()), openai.WithToken("none"), openai.WithModel(name))
	}
	r := b.solve(t, "ledger-01")
	if !r.Solved || r.Model != "medium" || r.Attempts[0].Verdict != nil || !strings.Contains(r.Attempts[0].Trajectory.Why, "500") {
		t.Errorf("solved %t by %s, attempts %+v", r.Solved, r.Model, r.Attempts)
	}
	b.clean(t, "ledger")
}

func TestPerStep(t *testing.T) {
	b := newBench(t)
	b.solver.Mode = swe.PerStep
	b.solver.Setup.Routed = b.solver.Setup.Models["large"]
	r := b.solve(t, "ledger-04")
	if !r.Solved || len(r.Attempts) != 1 || r.CostUSD <= 0 {
		t.Errorf("solved %t, attempts %d, cost %g: %s", r.Solved, len(r.Attempts), r.CostUSD, r.Error)
	}
}
