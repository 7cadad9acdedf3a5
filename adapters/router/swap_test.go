package router_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"
	"go.uber.org/goleak"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// versionPolicy is one of many policies, each with its own models: the small one is wrong, and the right answer
// depends on the version.
const versionPolicy = `
model "small %N%" {
  provider          = "openai"
  base_url          = "%URL%"
  max_output_tokens = 50
  price {
    input_usd_per_million  = 100
    output_usd_per_million = 100
  }
  quality { mean = 0.5 }
}
model "large %N%" {
  provider          = "openai"
  base_url          = "%URL%"
  max_output_tokens = 50
  price {
    input_usd_per_million  = 1000
    output_usd_per_million = 1000
  }
  quality { mean = 0.9 }
}
plugin "exact" {}
verifier "exact" {
  plugin = "exact"
  config { want = "right %N%" }
}
strategy "threshold" { threshold = 0.5 }
budget { %BUDGET% }
trace { file = "traces.jsonl" }
`

// versions is a server for all versions, and generates their policies.
type versions struct {
	dir, url, budget string
}

func newVersions(t *testing.T, budget string) *versions {
	t.Helper()
	server, err := scripted.Start(scripted.Options{Respond: func(_ context.Context, r *scripted.Request) scripted.Reply {
		size, version, _ := strings.Cut(r.Model, " ")
		reply := scripted.Reply{Text: "wrong", Usage: &scripted.Usage{InputTokens: 20, OutputTokens: 10}}
		if size == "large" {
			reply.Text = "right " + version
		}
		return reply
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return &versions{dir: t.TempDir(), url: server.URL(), budget: budget}
}

func (v *versions) text(n int) string {
	return strings.NewReplacer("%N%", fmt.Sprint(n), "%URL%", v.url, "%BUDGET%", v.budget).Replace(versionPolicy)
}

func (v *versions) policy(t *testing.T, n int) *policies.Policy {
	t.Helper()
	p, err := policies.Parse(filepath.Join(v.dir, "policy.hcl"), []byte(v.text(n)), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (v *versions) traces(t *testing.T) []*sdk.Trace {
	t.Helper()
	file, err := os.Open(filepath.Join(v.dir, "traces.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var list []*sdk.Trace
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		tr := new(sdk.Trace)
		if err := json.Unmarshal(lines.Bytes(), tr); err != nil {
			t.Fatal(err)
		}
		list = append(list, tr)
	}
	return list
}

// noLeaks checks for leaked goroutines at the very end of the test.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// Policies are swapped while steps run: every step runs entirely under one of them, every trace is written, and
// nothing leaks.
func TestStepsAreDoneUnderOnePolicyWhilePoliciesChange(t *testing.T) {
	noLeaks(t)
	const swaps, lanes = 20, 8
	v := newVersions(t, "\n  run_usd = 100\n  ledger = \"ledger.db\"\n")
	all := make([]*policies.Policy, swaps)
	version := map[string]string{} // by the policy's name in traces
	for n := range all {
		all[n] = v.policy(t, n)
		version["policy.hcl@"+all[n].Checksum[:12]] = fmt.Sprint(n)
	}
	r, err := router.New(t.Context(), all[0], full.Complete(router.Options{Plugins: inProcess{}}))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	spent, steps := 0.0, 0
	var over atomic.Bool
	stepped := make(chan struct{}, 1)
	for range lanes {
		wg.Go(func() {
			for !over.Load() {
				ctx, rep := middleware.WithReport(middleware.WithInfo(t.Context(), middleware.Info{Run: "one", Session: "s"}))
				got, err := llms.GenerateFromSinglePrompt(ctx, r, "What is right?")
				if err != nil || !strings.HasPrefix(got, "right ") {
					t.Errorf("got %q, %v", got, err)
				}
				mu.Lock()
				spent += rep.CostUSD()
				steps++
				mu.Unlock()
				select {
				case stepped <- struct{}{}:
				default:
				}
			}
		})
	}
	wg.Go(func() {
		defer over.Store(true)
		for _, p := range all[1:] {
			<-stepped
			<-stepped
			if err := r.Swap(t.Context(), p); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if got := r.Policy(); got != all[swaps-1] {
		t.Errorf("the policy at work is %v", got.Models[0].Name)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	list := v.traces(t)
	if len(list) != steps {
		t.Errorf("%d traces of %d steps", len(list), steps)
	}
	used, traced := map[string]bool{}, 0.0
	for _, tr := range list {
		n, ok := version[tr.Policy]
		used[n] = true
		traced += tr.CostUSD
		if !ok || len(tr.Calls) != 2 || tr.Calls[0].Model != "small "+n || tr.Calls[1].Model != "large "+n ||
			tr.Calls[0].Verdict.Evidence != "got wrong" || tr.Calls[1].Verdict.Outcome != sdk.Passed {
			t.Fatalf("a step of version %s: %+v", n, tr)
		}
	}
	if len(used) < swaps/2 {
		t.Errorf("steps met %d policies only", len(used))
	}
	if diff := traced - spent; diff > 1e-9 || diff < -1e-9 {
		t.Errorf("%v USD in traces, %v reported", traced, spent)
	}
}

// Spending counts towards the caps of the next policy, in memory and in a file.
func TestAccountsOutliveTheirPolicy(t *testing.T) {
	for name, ledger := range map[string]string{"memory": "", "file": `ledger = "ledger.db"`} {
		t.Run(name, func(t *testing.T) {
			v := newVersions(t, "")
			caps := func(usd string) { v.budget = "\n  run_usd = " + usd + "\n  " + ledger + "\n" }
			ask := func(r *router.Router) (string, error) {
				return llms.GenerateFromSinglePrompt(middleware.WithInfo(t.Context(), middleware.Info{Run: "one"}), r, "What is right?")
			}
			caps("10")
			r, err := router.New(t.Context(), v.policy(t, 0), full.Complete(router.Options{Plugins: inProcess{}}))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := ask(r); err != nil { // 0.033 USD
				t.Fatal(err)
			}
			caps("2.08") // room for one call of the large model, were nothing spent: 2.065
			if err := r.Swap(t.Context(), v.policy(t, 1)); err != nil {
				t.Fatal(err)
			}
			got, err := ask(r)
			if err != nil || got != "wrong" {
				t.Errorf("got %q, %v: want the small model's, for lack of room", got, err)
			}
		})
	}
}

// A policy that cannot be opened changes nothing.
func TestSwapKeepsThePolicyThatWorks(t *testing.T) {
	v := newVersions(t, "run_usd = 100")
	r, err := router.New(t.Context(), v.policy(t, 0), full.Complete(router.Options{Plugins: inProcess{}}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for name, change := range map[string]func(string) string{
		"plugin": func(s string) string { return strings.ReplaceAll(s, `"exact"`, `"other"`) },
		"model":  func(s string) string { return strings.ReplaceAll(s, `"openai"`, `"go"`) },
		"files": func(s string) string {
			return strings.ReplaceAll(s, "run_usd = 100", "\n run_usd = 100\n ledger = \"traces.jsonl\"\n")
		},
	} {
		p, err := policies.Parse(filepath.Join(v.dir, "policy.hcl"), []byte(change(v.text(1))), policies.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Swap(t.Context(), p); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got, err := llms.GenerateFromSinglePrompt(t.Context(), r, "What is right?"); err != nil || got != "right 0" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestNoPolicyIsAnError(t *testing.T) {
	v := newVersions(t, "run_usd = 100")
	r, err := router.New(t.Context(), v.policy(t, 0), full.Complete(router.Options{Plugins: inProcess{}}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Swap(t.Context(), nil); err == nil {
		t.Error("a policy that is nil was taken")
	}
	if got, err := llms.GenerateFromSinglePrompt(t.Context(), r, "What is right?"); err != nil || got != "right 0" {
		t.Errorf("got %q, %v", got, err)
	}
}

// If a program's own sink panics, its traces are lost, but not the answers, and the policy's file has all traces.
func TestTracesThatPanicEndNoStep(t *testing.T) {
	v := newVersions(t, "run_usd = 100")
	log := make(messages, 100)
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off})
	logger.RegisterSink(log)
	r, err := router.New(t.Context(), v.policy(t, 0), full.Complete(router.Options{
		Plugins: inProcess{}, Logger: logger, Traces: func(context.Context, *sdk.Trace) { panic("a nil map") },
	}))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := llms.GenerateFromSinglePrompt(t.Context(), r, "What is right?"); err != nil || got != "right 0" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	close(log)
	said := 0
	for line := range log {
		if strings.Contains(line, "a nil map") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("said %d times", said)
	}
	lines, err := os.ReadFile(filepath.Join(v.dir, "traces.jsonl"))
	if err != nil || bytes.Count(lines, []byte("\n")) != 2 {
		t.Errorf("%s, %v: want two traces", lines, err)
	}
}

// messages is a log whose messages a test can wait for.
type messages chan string

// Accept implements hclog.SinkAdapter.
func (m messages) Accept(_ string, _ hclog.Level, msg string, args ...any) {
	m <- msg + " " + fmt.Sprint(args...)
}

func (m messages) await(t *testing.T, part string) string {
	t.Helper()
	for got := range m {
		if strings.Contains(got, part) {
			return got
		}
	}
	return ""
}

func TestWatchedPolicyIsFollowed(t *testing.T) {
	noLeaks(t)
	v := newVersions(t, "run_usd = 100")
	path := filepath.Join(v.dir, "policy.hcl")
	write := func(text string) {
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write(v.text(0))
	log := make(messages, 1000)
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: hclog.DefaultOutput, Level: hclog.Off})
	logger.RegisterSink(log)
	r, err := full.Open(t.Context(), path, router.Options{Plugins: inProcess{}, Watch: true, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	answers := func(want string) {
		t.Helper()
		if got, err := llms.GenerateFromSinglePrompt(t.Context(), r, "What is right?"); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	answers("right 0")
	write(v.text(1))
	log.await(t, "policy reloaded")
	answers("right 1")
	write(strings.Replace(v.text(2), "threshold = 0.5", "threshold = 5", 1))
	if got := log.await(t, "policy rejected, keeping the old one"); !strings.Contains(got, "threshold is out of range") || !strings.Contains(got, "policy.hcl:") {
		t.Errorf("log: %s", got)
	}
	answers("right 1")
	write(strings.ReplaceAll(v.text(2), `"exact"`, `"other"`)) // loads, and cannot be built
	if got := log.await(t, "policy rejected"); !strings.Contains(got, "no such plugin") {
		t.Errorf("log: %s", got)
	}
	answers("right 1")
	write(v.text(3))
	log.await(t, "policy reloaded")
	answers("right 3")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
