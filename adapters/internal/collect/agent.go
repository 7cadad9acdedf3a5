package collect

import (
	"bytes"
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

// PolicyName stands for the policy among the models that do an agent's tasks.
const PolicyName = "policy"

// maxRun is how long one run of an agent may take.
const maxRun = 30 * time.Minute

// maxOutput is how much is kept of what an agent prints.
const maxOutput = 64 << 10

// Agent is a program that does the tasks in place of single calls. It finds its models where
// the environment says, at a gateway of its own, and it may make many calls.
type Agent struct {
	// Command is the program with its arguments, in which {task} is the task's prompt and
	// {id} its query_id. Check is a command that judges the end by its exit code, and reads
	// what the program printed.
	Command, Check []string
	// Traces is the file that the steps of the runs, and the verdicts on them, are appended to.
	Traces string
}

// agentRuns runs an agent on tasks, with a gateway in front of one router.
type agentRuns struct {
	agent  *Agent
	name   string // of the model, or PolicyName
	capped bool
	router *router.Router
	served *gateway.Gateway
	file   *step.JSONLines

	mu   sync.Mutex
	rows map[string]*Outcome // by run: the totals of its steps so far
	cut  map[string]bool     // runs that had a step refused by a cap
}

// runner returns an asker that runs an agent with a model, or with the policy where model is
// one past the last.
func (c *collector) runner(ctx context.Context, model int, ledger string) (ask asker, done func(), err error) {
	a := &agentRuns{agent: c.o.Agent, name: c.name(model), capped: c.o.CapUSD > 0, file: c.traces, rows: map[string]*Outcome{}, cut: map[string]bool{}}
	p := *c.o.Policy
	if model < len(p.Models) {
		p.Verifiers, p.Estimators = nil, nil
		single(&p, model)
	}
	p.Mode, p.Trace, p.Holdout, p.Shadow = "enforce", policies.Trace{}, nil, nil
	if c.o.CapUSD > 0 {
		if p.Budget.StepUSD+p.Budget.RunUSD > 0 {
			return nil, nil, errors.New("a cap of the collection and caps of the policy cannot be told apart where they cut a run short: set budget.step_usd and budget.run_usd to 0, or leave out the cap of the collection")
		}
		// The cap is that of the one tenant, without a name, of all runs, in a ledger that the
		// routers share.
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

// record is the router's [step.Sink]: it adds a step to the totals of its run.
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
	address, stop, err := a.serve(t.QueryID, run)
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
	if a.capped && cut { // what it came to says nothing of the model
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

// command runs a command in dir, with its environment pointing to the gateway at address if
// that is not empty, and returns the end of its output.
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

// serve serves the router to one run of a task on a free port. stop waits for requests under way.
func (a *agentRuns) serve(task, run string) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var underWay sync.RWMutex // read by each request: one settles what it cost after its answer
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		underWay.RLock()
		defer underWay.RUnlock()
		r.Header.Set(gateway.HeaderRun, run)
		if body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 32<<20)); err == nil {
			r.Header.Set(gateway.HeaderQuery, conversationKey(task, body))
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		a.served.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }() // it ends by Close
	return "http://" + l.Addr().String(), func() {
		server.Close()
		underWay.Lock() // waits until all is settled
		defer underWay.Unlock()
	}, nil
}

// conversationKey names a step of a task by a hash of the request: steps of several models'
// runs have the same key until their conversations differ.
func conversationKey(task string, body []byte) string {
	var request any
	if json.Unmarshal(body, &request) == nil {
		body, _ = json.Marshal(withoutNames(request)) // it was JSON
	}
	sum := sha256.Sum256(body)
	return task + "/" + hex.EncodeToString(sum[:8])
}

// withoutNames returns a request without what differs between equal conversations: the model,
// the user, and ids of tool calls.
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
