package collect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// PolicyName is the name of the policy among the models that run an agent's tasks.
const PolicyName = "policy"

// maxRun bounds one run of an agent.
const maxRun = 30 * time.Minute

// maxOutput bounds how much of an agent's output is kept, in bytes.
const maxOutput = 64 << 10

// Agent is a program that does a task as a whole instead of a single call. Its environment points to a gateway of its
// own, where it can make many calls.
type Agent struct {
	// Command is the program with its arguments, in which {task} is replaced by the task's prompt and {id} by its
	// query_id. Check is a command that judges the run by its exit code; it gets the program's output on standard
	// input.
	Command, Check []string
	// Traces is the file to which the steps of the runs, and the verdicts on them, are appended.
	Traces string
}

// agentRuns runs an agent on tasks, with a gateway in front of one router.
type agentRuns struct {
	agent  *Agent
	name   string // model name, or PolicyName
	capped bool
	router *router.Router
	served *gateway.Gateway
	file   *step.JSONLines

	mu   sync.Mutex
	rows map[string]*Outcome // totals of the steps so far, by run
	cut  map[string]bool     // runs with a step that a cap refused
}

// runner returns an asker that runs an agent with a model or, where model is one past the last, with the policy.
func (c *collector) runner(ctx context.Context, model int, ledger string) (ask asker, done func(), err error) {
	a := &agentRuns{agent: c.o.Agent, name: c.name(model), capped: c.o.CapUSD > 0, file: c.traces, rows: map[string]*Outcome{}, cut: map[string]bool{}}
	p := *c.o.Policy
	if model < len(p.Models) {
		p.Verifiers, p.Estimators = nil, nil
		routeToModel(&p, model)
	}
	p.Mode, p.Trace, p.Holdout, p.Shadow = "enforce", policies.Trace{}, nil, nil
	if c.o.CapUSD > 0 {
		if p.Budget.StepUSD+p.Budget.RunUSD > 0 {
			return nil, nil, errors.New("a run cut short by a cap cannot tell --cap from the policy's caps: set budget.step_usd and budget.run_usd to 0, or omit --cap")
		}
		// The cap of all runs is that of the nameless tenant, in a ledger that the routers share.
		p.Budget.TenantUSD, p.Budget.TenantPeriod, p.Budget.Ledger = c.o.CapUSD-c.out.spentUSD, 0, ledger
	}
	o := c.o.Router
	o.Traces = a.record
	if a.router, err = router.New(ctx, &p, full.Complete(o)); err != nil {
		return nil, nil, err
	}
	if err = a.router.Start(ctx); err == nil {
		a.served, err = gateway.New(gateway.Options{Model: a.router, AnyModel: true})
	}
	if err != nil {
		return nil, nil, errors.Join(err, a.router.Close())
	}
	return func(ctx context.Context, t *Task) (*answer, error) {
		if c.o.CapUSD > 0 && c.summary().SpentUSD >= c.o.CapUSD {
			return &answer{Full: true}, nil
		}
		return a.run(ctx, t)
	}, func() { a.router.Close() }, nil
}

// record implements [step.Sink]: it adds a step to the totals of its run.
func (a *agentRuns) record(ctx context.Context, t *sdk.Trace) {
	a.file.Record(ctx, t)
	a.mu.Lock()
	defer a.mu.Unlock()
	row := a.rows[t.Run]
	if row == nil {
		return
	}
	a.cut[t.Run] = a.cut[t.Run] || t.Stop == sdk.StopBudget
	row.CostUSD = sdk.RoundUSD(row.CostUSD + t.CostUSD)
	row.EstimatedInputTokens = cmp.Or(row.EstimatedInputTokens, t.InputTokens)
	row.InputTokens += t.Usage.InputTokens + t.Usage.CachedInputTokens + t.Usage.CacheWriteTokens
	row.OutputTokens += t.Usage.OutputTokens + t.Usage.ReasoningTokens
}

func (a *agentRuns) run(ctx context.Context, t *Task) (_ *answer, err error) {
	run := t.QueryID + "/" + a.name
	row := &Outcome{QueryID: t.QueryID, Group: t.Group, Prompt: t.Prompt, Model: a.name}
	a.mu.Lock()
	a.rows[run] = row
	a.mu.Unlock()
	dir := t.WorkDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "agent"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
	}
	address, stop, err := a.serve(t, run)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	out, failed := a.command(ctx, t, a.agent.Command, dir, address, nil)
	stop()
	a.mu.Lock()
	cut := a.cut[run]
	delete(a.rows, run)
	delete(a.cut, run)
	a.mu.Unlock()
	if a.capped && cut { // the run was cut short and says nothing about the model
		return &answer{Full: true, USD: row.CostUSD}, nil
	}
	row.LatencySeconds = time.Since(start).Seconds()
	row.Answer = strings.TrimSpace(string(out))
	if failed == nil {
		_, failed = a.command(ctx, t, a.agent.Check, dir, "", out)
	}
	if ended := new(exec.ExitError); failed != nil && !errors.As(failed, &ended) {
		return &answer{Error: failed.Error(), USD: row.CostUSD}, nil
	}
	v := &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Verifier: "check"}
	if failed != nil {
		v = &sdk.Verdict{Outcome: sdk.Failed, Verifier: "check", Evidence: failed.Error()}
	}
	row.Quality = v.Score
	end, err := step.VerdictTrace(run, "", v)
	if err != nil {
		return nil, err
	}
	a.file.Record(ctx, end)
	return &answer{Outcome: row, USD: row.CostUSD}, nil
}

// command runs a command in dir, with its environment pointing to the gateway at address unless that is empty, and
// returns the end of its output.
func (a *agentRuns) command(ctx context.Context, t *Task, args []string, dir, address string, stdin []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxRun)
	defer cancel()
	filled := make([]string, len(args))
	for i, arg := range args {
		filled[i] = strings.NewReplacer("{task}", t.Prompt, "{id}", t.QueryID).Replace(arg)
	}
	cmd := exec.CommandContext(ctx, filled[0], filled[1:]...)
	cmd.Dir, cmd.WaitDelay, cmd.Stdin = dir, time.Second, bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "STEPFALL_TASK="+t.QueryID)
	if address != "" {
		cmd.Env = append(cmd.Env, "OPENAI_BASE_URL="+address+"/v1", "OPENAI_API_BASE="+address+"/v1", "OPENAI_API_KEY=stepfall",
			"ANTHROPIC_BASE_URL="+address, "ANTHROPIC_API_KEY=stepfall")
	}
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = fmt.Errorf("%s: %w", filled[0], ctx.Err())
	}
	return out[max(0, len(out)-maxOutput):], err
}

// serve serves the router to one run of a task on a free port. stop waits for requests in flight.
func (a *agentRuns) serve(t *Task, run string) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var underWay sync.RWMutex // read-locked by each request, which settles its cost after its answer
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		underWay.RLock()
		defer underWay.RUnlock()
		r.Header.Set(gateway.HeaderRun, run)
		if t.Group != "" {
			r.Header.Set(gateway.HeaderGroup, t.Group)
		}
		if body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 32<<20)); err == nil {
			r.Header.Set(gateway.HeaderQuery, conversationKey(t.QueryID, body))
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		a.served.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }() // ends with Close
	return "http://" + l.Addr().String(), func() {
		server.Close()
		underWay.Lock() // wait for the settlements
		defer underWay.Unlock()
	}, nil
}

// conversationKey identifies a step of a task by a hash of the request: steps of several models' runs share keys
// until their conversations diverge.
func conversationKey(task string, body []byte) string {
	var request any
	if json.Unmarshal(body, &request) == nil {
		body, _ = json.Marshal(withoutNames(request)) // cannot fail
	}
	sum := sha256.Sum256(body)
	return task + "/" + hex.EncodeToString(sum[:8])
}

// withoutNames removes from a request what differs between equal conversations: the model, the user, and ids of tool
// calls.
func withoutNames(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutNames(v[i])
		}
	case map[string]any:
		for _, name := range [...]string{"id", "tool_call_id", "call_id", "tool_use_id", "model", "metadata", "user"} {
			delete(v, name)
		}
		for name := range v {
			v[name] = withoutNames(v[name])
		}
	}
	return v
}
