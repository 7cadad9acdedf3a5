package collect_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/collect"
	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/adapters/postgres"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// here passes answers if the task's folder was sent along.
type here struct{ right }

func (here) Verifier(string, string, map[string]any) (sdk.Verifier, error) {
	return sdk.VerifierFunc(func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		text, err := os.ReadFile(filepath.Join(req.Query.WorkDir, "deep", "file.txt"))
		if err != nil || string(text) != "sent" {
			return &sdk.Verdict{Outcome: sdk.Failed}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
	}), nil
}

// TestCallsAreMadeByWorkers: the file is as without a queue, names the worker, and can be resumed; the cap holds over
// both runs.
func TestCallsAreMadeByWorkers(t *testing.T) {
	database := pgtest.Start(t, "fsync=off").Database(t)
	small, large := &parrot{name: "small"}, &parrot{name: "large"}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	shared, err := full.OpenStore(ctx, database, nil)
	if err != nil {
		t.Fatal(err)
	}
	work, err := queue.Open(ctx, shared.Engine.(*postgres.Store).Pool())
	if err != nil {
		t.Fatal(err)
	}
	cache := work.Cache(t.TempDir())
	routers := queue.NewRouterCache(cache, router.Options{Store: shared, Models: map[string]llms.Model{"small": small, "large": large}, Plugins: here{}})
	wg.Go(func() {
		err := work.Work(ctx, queue.WorkerOptions{Name: "north", Kinds: map[string]queue.Kind{collect.QueueKind: collect.Kind(routers, cache, 1)}})
		if err := errors.Join(err, routers.Close(), shared.Close()); err != nil {
			t.Error(err)
		}
	})

	dir := t.TempDir()
	path := filepath.Join(dir, "policy.hcl")
	if err := os.WriteFile(path, []byte(policyText), 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := policies.Load(path, policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "tree", "deep")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "file.txt"), []byte("sent"), 0o600); err != nil {
		t.Fatal(err)
	}
	var tasks []collect.Task
	for _, id := range []string{"a", "b", "c"} {
		tasks = append(tasks, collect.Task{QueryID: id, Prompt: "do " + id, WorkDir: filepath.Join(dir, "tree")})
	}
	s, err := postgres.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q, err := queue.Open(t.Context(), s.Pool())
	if err != nil {
		t.Fatal(err)
	}
	sent, err := q.SendPolicy(t.Context(), policy)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.jsonl")
	collected := func(capUSD float64) (collect.Summary, error) {
		id, spent, _, err := collect.QueuedRun(out)
		if err != nil {
			t.Fatal(err)
		}
		if spent != 0 {
			t.Errorf("%v was spent without the queue", spent)
		}
		run, err := q.Begin(t.Context(), id, queue.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close(t.Context())
		return collect.Run(t.Context(), collect.Options{
			Policy: policy, Tasks: tasks, Out: out, CapUSD: capUSD, Queue: &collect.Job{Run: run, Queue: q, Policy: sent, CapUSD: capUSD},
		})
	}
	// A call of the large model may cost a tenth of a dollar, and costs a hundredth.
	sum, err := collected(0.105)
	if err != nil || !sum.CapReached || sum.SpentUSD > 0.105 || sum.New == 6 {
		t.Errorf("got %+v, %v", sum, err)
	}
	had := sum.New
	sum, err = collected(1)
	if err != nil || sum.Had != had || sum.New != 6-had || sum.Failed != 0 {
		t.Errorf("got %+v, %v", sum, err)
	}
	if small.calls != 3 || large.calls != 3 {
		t.Errorf("%d and %d calls", small.calls, large.calls)
	}
	text, err := os.ReadFile(out)
	if err != nil || strings.Count(string(text), `"quality":1`) != 6 || strings.Count(string(text), `"worker":"north-`) != 6 {
		t.Errorf("the file is %s, %v", text, err)
	}
}
