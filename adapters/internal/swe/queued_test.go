package swe_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/adapters/postgres"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

const queuedPolicy = `
model "small" {
  provider = "go"
  price {
    input_usd_per_million  = 0.001
    output_usd_per_million = 1000
  }
  max_output_tokens = 10
  capabilities      = ["tools"]
}
model "large" {
  provider = "go"
  price {
    input_usd_per_million  = 0.001
    output_usd_per_million = 10000
  }
  max_output_tokens = 10
  capabilities      = ["tools"]
}
verifier "right" {
  plugin = "right"
}
strategy "threshold" {
  order      = ["small", "large"]
  threshold  = 0.9
}
`

// coder writes a word into greet.txt, at 0.001 or 0.01 USD per call.
type coder struct {
	word  string
	calls atomic.Int64
	// before, when not nil, is called before an answer.
	before func(context.Context)
}

func (c *coder) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, c, prompt, options...)
}

func (c *coder) GenerateContent(ctx context.Context, messages []llms.MessageContent, _ ...llms.CallOption) (*llms.ContentResponse, error) {
	if c.before != nil {
		c.before(ctx)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.calls.Add(1)
	text := "greet.txt\n<<<<<<< SEARCH\nbad\n=======\n" + c.word + "\n>>>>>>> REPLACE\n"
	read := 0
	for _, m := range messages {
		read += len(fmt.Sprint(m.Parts)) / 4
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{
		Content: text, StopReason: "stop", GenerationInfo: map[string]any{"PromptTokens": read, "CompletionTokens": 1},
	}}}, nil
}

// good passes patches that contain "good".
type good struct{ router.Plugins }

func (good) Verifier(string, string, map[string]any) (sdk.Verifier, error) {
	return sdk.VerifierFunc(func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if strings.Contains(req.Answer.Text, "\n+good") {
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Failed}, nil
	}), nil
}

// fleet is a queue with a submitter.
type fleet struct {
	t        *testing.T
	database string
	repo     string
	policy   *policies.Policy
}

func newFleet(t *testing.T, c *pgtest.Cluster) *fleet {
	t.Helper()
	f := &fleet{t: t, database: c.Database(t), repo: filepath.Join(t.TempDir(), "greeter")}
	for _, args := range [][]string{{"init", "-q", f.repo}, {"-C", f.repo, "add", "."}, {"-C", f.repo, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "one"}} {
		if args[0] == "-C" && args[2] == "add" {
			if err := os.WriteFile(filepath.Join(f.repo, "greet.txt"), []byte("bad\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	path := filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(path, []byte(queuedPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.policy, err = policies.Load(path, policies.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	return f
}

// work starts a worker with its models; stop ends it at once, without grace.
func (f *fleet) work(name string, models map[string]llms.Model) (stop func()) {
	f.t.Helper()
	shared, err := full.OpenStore(context.Background(), f.database, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	q, err := queue.Open(context.Background(), shared.Engine.(*postgres.Store).Pool())
	if err != nil {
		f.t.Fatal(err)
	}
	cache := q.Cache(f.t.TempDir())
	routers := queue.NewRouterCache(cache, router.Options{Store: shared, Models: models, Plugins: good{}})
	hands := &swe.QueueWorker{Routers: routers, Cache: cache, Accounts: shared.Leased, Trees: f.t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := q.Work(ctx, queue.WorkerOptions{Name: name, Kinds: map[string]queue.Kind{swe.QueueKind: hands.Kind(2)}})
		if err := errors.Join(err, hands.Close(), routers.Close(), shared.Close()); err != nil {
			f.t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	f.t.Cleanup(stop)
	return stop
}

// solve runs tasks with the journal of a state folder.
func (f *fleet) solve(state, run string, capUSD float64, names ...string) ([]*swe.Result, *swe.Spend, error) {
	f.t.Helper()
	s, err := postgres.Open(f.t.Context(), f.database)
	if err != nil {
		f.t.Fatal(err)
	}
	defer s.Close()
	q, err := queue.Open(f.t.Context(), s.Pool())
	if err != nil {
		f.t.Fatal(err)
	}
	sent, err := q.SendPolicy(f.t.Context(), f.policy)
	if err != nil {
		f.t.Fatal(err)
	}
	journal, err := swe.OpenJournal(filepath.Join(state, "journal.jsonl"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer journal.Close()
	known, _ := journal.QueuedRuns()
	spend := &swe.Spend{}
	spend.Add(journal.SpentUSD())
	queued := &swe.Job{Queue: q, Journal: journal, Spend: spend, Settings: swe.Settings{Policy: sent, CapUSD: capUSD}}
	if queued.Run, err = q.Begin(f.t.Context(), run, queue.RunOptions{OnRecord: queued.TakeRecord, Known: known}); err != nil {
		f.t.Fatal(err)
	}
	defer queued.Run.Close(f.t.Context())
	var tasks []swe.Task
	for _, name := range names {
		tasks = append(tasks, swe.Task{InstanceID: name, Repo: f.repo, ProblemStatement: "The greeting is bad."})
	}
	b := &swe.Batch{Queue: queued, Trees: f.t.TempDir(), Parallel: 10}
	results, err := b.Run(f.t.Context(), tasks)
	return results, spend, err
}

func TestQueued(t *testing.T) {
	c := pgtest.Start(t, "fsync=off")
	t.Run("done by workers", func(t *testing.T) { doneByWorkers(t, newFleet(t, c)) })
	t.Run("paid once", func(t *testing.T) { paidOnce(t, newFleet(t, c)) })
	t.Run("fetched by URL", func(t *testing.T) { fetchedByURL(t, newFleet(t, c)) })
	t.Run("one cap", func(t *testing.T) { shareTheCap(t, newFleet(t, c)) })
}

// doneByWorkers: results, journal and spend are those of a local run, and name the worker; a second run does nothing.
func doneByWorkers(t *testing.T, f *fleet) {
	t.Helper()
	small, large := &coder{word: "worse"}, &coder{word: "good"}
	f.work("north", map[string]llms.Model{"small": small, "large": large})
	state := t.TempDir()
	for round := range 2 {
		results, spend, err := f.solve(state, "run", 0, "one", "two", "three")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if !r.Solved || r.Model != "large" || len(r.Attempts) != 2 || !strings.HasPrefix(r.Worker, "north-") || r.Attempts[0].Worker != r.Worker || !strings.Contains(r.Patch, "+good") {
				t.Errorf("got %+v", r)
			}
			if r.Recorded != (round == 1) {
				t.Errorf("round %d: recorded %v", round, r.Recorded)
			}
		}
		if got := spend.SpentUSD(); got < 0.0329 || got > 0.0331 {
			t.Errorf("spent %v, want 3 * 0.011", got)
		}
	}
	if small.calls.Load() != 3 || large.calls.Load() != 3 {
		t.Errorf("%d and %d calls", small.calls.Load(), large.calls.Load())
	}
}

// paidOnce: the worker stops between two attempts, and the next worker resumes there.
func paidOnce(t *testing.T, f *fleet) {
	t.Helper()
	small := &coder{word: "worse"}
	under := make(chan bool)
	stop := f.work("north", map[string]llms.Model{"small": small, "large": &coder{word: "good", before: func(ctx context.Context) {
		close(under)
		<-ctx.Done()
	}}})
	go func() {
		<-under
		stop()
		f.work("south", map[string]llms.Model{"small": small, "large": &coder{word: "good"}})
	}()
	results, spend, err := f.solve(t.TempDir(), "run", 0, "one")
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	if !r.Solved || len(r.Attempts) != 2 || !strings.HasPrefix(r.Attempts[0].Worker, "north-") || !strings.HasPrefix(r.Attempts[1].Worker, "south-") || !r.Attempts[0].Recorded {
		t.Errorf("got %+v", r)
	}
	if small.calls.Load() != 1 {
		t.Errorf("the small model was called %d times", small.calls.Load())
	}
	// The call that was cut off counts as the dearest that it may have been.
	if got := spend.SpentUSD(); got < 0.11 || got > 0.12 {
		t.Errorf("spent %v", got)
	}
}

// fetchedByURL: workers fetch the repository themselves, at the commit that was HEAD when the run started.
func fetchedByURL(t *testing.T, f *fleet) {
	t.Helper()
	dir := f.repo
	f.repo = (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
	// The branch moves on while the tasks are at work, which are not shown that.
	var moved sync.Once
	f.work("north", map[string]llms.Model{"small": &coder{word: "worse"}, "large": &coder{word: "good", before: func(context.Context) {
		moved.Do(func() {
			if err := os.WriteFile(filepath.Join(dir, "greet.txt"), []byte("gone\n"), 0o600); err != nil {
				t.Error(err)
			}
			if out, err := exec.Command("git", "-C", dir, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-aqm", "later").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}}})
	results, _, err := f.solve(t.TempDir(), "run", 0, "one", "two")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.Solved || !strings.Contains(r.Patch, "-bad\n+good") {
			t.Errorf("got %+v", r)
		}
	}
	f.repo += "-of-nobody"
	if _, _, err := f.solve(t.TempDir(), "other", 0, "three"); err == nil || !strings.Contains(err.Error(), "greeter-of-nobody") {
		t.Errorf("err = %v", err)
	}
}

// shareTheCap: with two workers the run's cap holds, and the run reports that the budget is exhausted.
func shareTheCap(t *testing.T, f *fleet) {
	t.Helper()
	small, large := &coder{word: "worse"}, &coder{word: "bad as well"}
	f.work("north", map[string]llms.Model{"small": small, "large": large})
	f.work("south", map[string]llms.Model{"small": small, "large": large})
	state, names := t.TempDir(), []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	// A call of the large model may cost a tenth of a dollar.
	results, spend, err := f.solve(state, "run", 0.25, names...)
	if !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("got %v", err)
	}
	if sum := swe.Summarise(results); sum.Open == 0 {
		t.Errorf("got %+v", sum)
	}
	paid := float64(small.calls.Load())*0.001 + float64(large.calls.Load())*0.01
	if paid > 0.25 {
		t.Errorf("%v paid", paid)
	}
	if got := spend.SpentUSD(); got > 0.25 {
		t.Errorf("spent %v", got)
	}
	// With a higher cap the same run goes on, and pays for nothing twice.
	if _, _, err := f.solve(state, "run", 1, names...); err != nil {
		t.Fatal(err)
	}
	if small.calls.Load() != 8 || large.calls.Load() != 8 {
		t.Errorf("%d and %d calls", small.calls.Load(), large.calls.Load())
	}
}
