package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

type verifier struct {
	config Config
	path   string
	env    []string
	slots  chan struct{}
	jail   *jail.Jail
}

type question struct {
	Query   *sdk.Query    `json:"query"`
	Answer  *sdk.Answer   `json:"answer"`
	Earlier []sdk.Attempt `json:"earlier"`
}

type reply struct {
	Outcome    *sdk.Outcome `json:"outcome"`
	Score      *float64     `json:"score"`
	Confidence float64      `json:"confidence"`
	Evidence   string       `json:"evidence"`
	CostUSD    float64      `json:"cost_usd"`
}

var inheritedVariables = []string{"PATH", "HOME", "LANG", "TZ"}

// Verify runs the program. If that fails, the verdict is inconclusive; only the end of ctx is an error.
func (v *verifier) Verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	start := time.Now()
	verdict, err := v.run(ctx, req)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		verdict = cmp.Or(verdict, &sdk.Verdict{}) // verdict has the isolation layers
		if verdict.Evidence = fmt.Sprintf("%s: %v", v.config.Command[0], err); errors.Is(err, jail.ErrLacks) {
			_, verdict.IsolationMissing = v.jail.Layers()
		}
	}
	verdict.Duration = time.Since(start)
	return verdict, nil
}

func (v *verifier) run(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	input, err := json.Marshal(question{req.Query, req.Answer, append([]sdk.Attempt{}, req.Earlier...)})
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "stepfall-command-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	dir := cmp.Or(v.config.Dir, cmp.Or(req.Query, &sdk.Query{}).WorkDir, temp)
	ctx, cancel := context.WithTimeoutCause(ctx, v.config.Timeout, errTimeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	limit := v.config.OutputKiB << 10
	stdout := &jail.Output{Limit: limit, Most: limit, Full: func() { stop(errOutputSize) }}
	stderr := &jail.Output{Limit: limit, Most: limit, Full: func() { stop(errOutputSize) }}

	command := exec.Command(v.path, v.config.Command[1:]...)
	command.Args[0] = v.config.Command[0]
	command.Dir, command.Stdin, command.Stdout, command.Stderr = dir, bytes.NewReader(input), stdout, stderr
	for _, name := range inheritedVariables {
		if value, ok := os.LookupEnv(name); ok {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	command.Env = append(append(command.Env, "TMPDIR="+temp), v.env...)
	command.WaitDelay = 10 * time.Second // for reading its output on a busy machine
	confined, err := v.jail.Start(ctx, command, v.confinement(dir, temp))
	if err != nil {
		return nil, cmp.Or(exceededLimit(ctx), err)
	}
	isolation := &sdk.Verdict{Isolation: confined.Layers, IsolationMissing: confined.Missing}
	kill := context.AfterFunc(ctx, func() { confined.Kill(command.Process) })
	err = command.Wait()
	kill()
	confined.Close()
	verdict, err := v.read(ctx, err, stdout, stderr)
	if err != nil {
		return isolation, err
	}
	verdict.Isolation, verdict.IsolationMissing = isolation.Isolation, isolation.IsolationMissing
	return verdict, nil
}

// confinement lets a sandboxed program read its working directory, and write only to its temporary
// directory.
func (v *verifier) confinement(dir, temp string) *jail.Confinement {
	c := &jail.Confinement{
		Sandbox: v.config.Isolation == "sandboxed", Require: v.config.Require,
		Limits: jail.Limits{Memory: v.config.MemoryMiB << 20, Processes: v.config.Processes},
	}
	if c.Sandbox {
		c.ReadOnly = slices.Concat(jail.PathTools(), jail.ToolPaths(v.path), v.config.ReadOnly, []string{dir})
		c.Writable = []string{temp}
	}
	return c
}

// exceededLimit returns the limit of the run because of which ctx ended, if it did. A program can exceed
// one before [jail.Jail.Start] returns.
func exceededLimit(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errTimeout) || errors.Is(cause, errOutputSize) {
		return cause
	}
	return nil
}

func (v *verifier) read(ctx context.Context, err error, stdout, stderr *jail.Output) (*sdk.Verdict, error) {
	if limit := exceededLimit(ctx); limit != nil {
		return nil, limit
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has exited, but a process that it started kept its output open
	}
	if v.config.Contract == "exit_code" {
		return byExitCode(err, stdout, stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, lastWords(stderr))
	}
	return parse(stdout.Bytes())
}

var (
	errTimeout    = errors.New("it did not end in time")
	errOutputSize = errors.New("it exceeded its output limit")
)

func byExitCode(err error, stdout, stderr *jail.Output) (*sdk.Verdict, error) {
	evidence := strings.TrimSpace(lastWords(stdout) + "\n" + lastWords(stderr))
	failure, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Evidence: evidence}, nil
	case ok && failure.ExitCode() == 1:
		return &sdk.Verdict{Outcome: sdk.Failed, Evidence: evidence}, nil
	}
	return nil, fmt.Errorf("%w: %s", err, evidence)
}

// parse decodes the program's verdict. Without a score, the outcome implies it.
func parse(output []byte) (*sdk.Verdict, error) {
	var r reply
	if err := json.Unmarshal(output, &r); err != nil {
		return nil, fmt.Errorf("its output is not a verdict: %w", err)
	}
	if r.Outcome == nil {
		return nil, errors.New(`its output has no "outcome": passed, failed or inconclusive`)
	}
	verdict := &sdk.Verdict{Outcome: *r.Outcome, Confidence: r.Confidence, Evidence: r.Evidence, CostUSD: r.CostUSD}
	if r.Score != nil {
		verdict.Score = *r.Score
	} else if *r.Outcome == sdk.Passed {
		verdict.Score = 1
	}
	for name, value := range map[string]float64{"score": verdict.Score, "confidence": verdict.Confidence} {
		if !(value >= 0 && value <= 1) {
			return nil, fmt.Errorf("its %s, %v, is not in [0, 1]", name, value)
		}
	}
	if !(verdict.CostUSD >= 0) {
		return nil, fmt.Errorf("its cost_usd, %v, is negative", verdict.CostUSD)
	}
	return verdict, nil
}

func lastWords(b *jail.Output) string {
	const enough = 2 << 10
	data := bytes.TrimSpace(b.Bytes())
	if len(data) > enough {
		data = data[len(data)-enough:]
	}
	return strings.ToValidUTF8(string(data), "")
}
